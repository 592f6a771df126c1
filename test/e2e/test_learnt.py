# SPDX-License-Identifier: ISC
"""Credentials shown by a client are used only for servers of its own user and database.

Two entries may refer to clusters of different owners, in which the same user name means different
users.
"""

import pytest

from .kit.fake import complete, ready, row
from .kit.wait import wait_until
from .kit.wire import Closed, message, query, refusal, scram_secret

FILE = {"asker": "asker secret", "admin": "admin secret"}
WORDS = {"one": "word of one", "two": "word of two"}


class Cluster:
    """A scripted PostgreSQL: it has bob's secret, and records the credentials it receives for him.
    """

    def __init__(self, far, secret, asks_scram=False):
        self.far, self.secret, self.asks_scram = far, secret, asks_scram
        self.shown = []
        far.serve(self.serve)

    def serve(self, server):
        if server.parameters["user"] == "asker":
            server.login()
            while True:
                self.answer_lookup(server)
        if self.asks_scram:
            self.shown.append(server.ask_scram(self.secret))
            server.prove_scram()
        else:
            self.shown.append(server.ask_password().decode())
        server.welcome()
        server.answer_queries()

    def answer_lookup(self, server):
        while server.read().type != "S":
            pass
        server.send(message("1"), message("2"), row("bob", self.secret), complete("SELECT 1"),
                    ready())


@pytest.fixture
def two(make_pgweir, fake_server):
    """Two clusters, each with a user bob, found by auth_query."""

    def start(secrets, asks_scram=False, **settings):
        clusters = {name: Cluster(fake_server(), secret, asks_scram)
                    for name, secret in secrets.items()}
        entries = {name: cluster.far.entry for name, cluster in clusters.items()}
        entries.update(settings.pop("more", {}))
        weir = make_pgweir(databases=entries, userlist=FILE, auth_user="asker",
                           auth_query="SELECT name, secret FROM who($1)",
                           pool_mode="transaction", server_login_retry="0.1", **settings)
        return weir.start(), clusters

    return start


def new_server(weir, client, database):
    """Makes the client's next query need a login to PostgreSQL."""
    weir.admin(f"RECONNECT {database}")
    weir.wait_pool(database, "bob", sv_idle=0)
    assert client.value("SELECT 1") == "1"


def test_a_namesake_elsewhere_breaks_nothing(two):
    """Each cluster gets the password of its own bob, independent of which client logged in last."""
    weir, clusters = two(WORDS, auth_type="scram-sha-256")
    clients = {name: weir.client("bob", name, password=word) for name, word in WORDS.items()}
    for name in (*WORDS, *WORDS):
        new_server(weir, clients[name], name)
        assert set(clusters[name].shown) == {WORDS[name]}


@pytest.mark.parametrize("auth_type", ("plain", "scram-sha-256"))
def test_no_cluster_is_sent_a_password_of_another(two, auth_type):
    """With SCRAM secrets and auth_type plain, the password is the one sent by the client."""
    secrets = {name: scram_secret(word) if auth_type == "plain" else word
               for name, word in WORDS.items()}
    weir, clusters = two(secrets, auth_type=auth_type)
    two_s = weir.client("bob", "two", password=WORDS["two"])
    weir.client("bob", "one", password=WORDS["one"])
    new_server(weir, two_s, "two")
    assert set(clusters["two"].shown) == {WORDS["two"]}


def test_no_cluster_can_use_the_keys_of_another(two):
    """SCRAM keys are sufficient to log in as bob; the second cluster could misuse them."""
    secrets = {name: scram_secret(word, salt=name.encode() * 5) for name, word in WORDS.items()}
    weir, clusters = two(secrets, asks_scram=True, auth_type="scram-sha-256")
    two_s = weir.client("bob", "two", password=WORDS["two"])
    weir.client("bob", "one", password=WORDS["one"])
    # It sends the challenge of the first cluster, to use the response there.
    clusters["two"].secret = secrets["one"]
    weir.admin("RECONNECT two")
    weir.wait_pool("two", "bob", sv_idle=0)
    two_s.send(query("SELECT 1"))
    two_s.read_to_end()
    assert clusters["one"].shown == [True]
    assert clusters["two"].shown[0] and not any(clusters["two"].shown[1:])
    assert len(clusters["two"].shown) > 1


def test_a_forced_user_has_what_is_configured_for_it(two, fake_server):
    """user=bob in an entry is not the bob of another login."""
    third = fake_server()
    asked = []

    def serve(server):
        try:
            asked.append(server.ask_password())
        except Closed:
            asked.append(None)

    third.serve(serve)
    weir, _ = two(WORDS, auth_type="plain", more={"three": f"{third.entry} user=bob"})
    weir.client("bob", "one", password=WORDS["one"])
    refused = refusal(weir.address, "asker", "three", password="asker secret")
    assert "wrong password type" in refused.text
    wait_until(lambda: asked)
    assert not any(asked)


def test_kill_forgets_no_password_that_is_in_use(two):
    weir, clusters = two(WORDS, auth_type="plain", server_reset_query="")
    weir.client("bob", "one", password=WORDS["one"])
    weir.admin("KILL one")
    weir.admin("RESUME one")
    client = weir.client("bob", "one", password=WORDS["one"])
    assert client.value("SELECT 1") == "1"
    assert set(clusters["one"].shown) == {WORDS["one"]}


def test_it_is_kept_apart_across_a_take_over(two):
    weir, clusters = two(WORDS, auth_type="scram-sha-256", admin_users="admin")
    clients = {name: weir.client("bob", name, password=word) for name, word in WORDS.items()}
    weir.disconnect_console()
    assert weir.take_over().wait(15) == 0
    for name, word in WORDS.items():
        new_server(weir, clients[name], name)
        assert set(clusters[name].shown) == {word}


def test_another_secret_in_the_file_ends_what_was_shown(pgweir, postgres):
    """Keys for the old secret are not used for server logins; the new ones are."""
    files = {"old": dict(FILE, scram_user=postgres.secret("scram_user")),
             "new": dict(FILE, scram_user=scram_secret("another"))}
    weir = pgweir(auth_type="scram-sha-256", userlist=files["old"], pool_mode="transaction",
                  server_login_retry="0.1")
    client = weir.client("scram_user", password="scram secret")
    weir.reload(userlist=files["new"])
    weir.admin("RECONNECT")
    weir.wait_pool("app", "scram_user", sv_idle=0)
    client.send(query("SELECT 1"))
    assert "wrong password type" in client.read_refusal().text


def test_a_take_over_with_another_secret_in_the_file(pgweir, postgres):
    weir = pgweir(auth_type="scram-sha-256", pool_mode="transaction", server_login_retry="0.1",
                  userlist=dict(FILE, scram_user=postgres.secret("scram_user")))
    client = weir.client("scram_user", password="scram secret")
    weir.disconnect_console()
    weir.configure(userlist=dict(FILE, scram_user=scram_secret("another")))
    assert weir.take_over().wait(15) == 0
    weir.admin("RECONNECT")
    weir.wait_pool("app", "scram_user", sv_idle=0)
    client.send(query("SELECT 1"))
    assert "wrong password type" in client.read_refusal().text
