# SPDX-License-Identifier: ISC
"""The pooler's authentication at PostgreSQL, and the errors if it fails."""

import time

import pytest

from .kit import fake
from .kit.wait import wait_until
from .kit.wire import PROTOCOL_3_2, Refused, Wire, message, query, refusal, scram_secret, startup

SECRETS = {"plain_user": "plain secret", "md5_user": "md5 secret", "scram_user": "scram secret"}

WHOAMI = "SELECT current_user"


@pytest.mark.parametrize("user", SECRETS)
@pytest.mark.parametrize("where", ("tcp", "unix"))
def test_a_password_in_the_entry(pgweir, postgres, user, where):
    host = "127.0.0.1" if where == "tcp" else postgres.socket_dir
    entry = f"host={host} port={postgres.port} user={user} password='{SECRETS[user]}'"
    weir = pgweir(databases={"app": entry})
    assert weir.client().value(WHOAMI) == user


@pytest.mark.parametrize("user", SECRETS)
def test_the_secret_of_the_userlist(pgweir, user):
    weir = pgweir()
    assert weir.client(user).value(WHOAMI) == user


@pytest.mark.parametrize("user", SECRETS)
def test_a_forced_user_with_the_userlists_secret(pgweir, user):
    weir = pgweir(databases={"app": f"user={user}"})
    assert weir.client("alice").value(WHOAMI) == user


def test_md5_secret_logs_in_by_md5(pgweir, postgres):
    weir = pgweir(auth_type="md5", userlist={"md5_user": postgres.secret("md5_user")})
    assert weir.client("md5_user", password="md5 secret").value(WHOAMI) == "md5_user"


@pytest.mark.parametrize("method", ("scram-sha-256", "md5"))
def test_scram_passes_through(pgweir, postgres, method):
    """Only the client has the password; its SCRAM keys are sufficient for the server too."""
    weir = pgweir(auth_type=method, pool_mode="transaction",
                  userlist={"scram_user": postgres.secret("scram_user"), "admin": "admin secret"})
    client = weir.client("scram_user", password="scram secret")
    assert client.value(WHOAMI) == "scram_user"
    weir.admin("RECONNECT")
    assert client.value(WHOAMI) == "scram_user"
    assert weir.connect(user="scram_user", password="scram secret").execute("SELECT 1").fetchone()


def test_scram_cannot_pass_through_without_a_proof(pgweir, postgres):
    weir = pgweir(auth_type="trust", userlist={"scram_user": postgres.secret("scram_user")})
    refused = refusal(weir.address, "scram_user")
    assert refused.text == "server login failed: wrong password type"
    assert refused.sqlstate == "28000"


def test_scram_secret_that_the_server_does_not_have(pgweir):
    """The client has authenticated, but the server has another salt."""
    weir = pgweir(auth_type="scram-sha-256", userlist={"scram_user": scram_secret("scram secret")})
    refused = refusal(weir.address, "scram_user", password="scram secret")
    assert refused.severity == "FATAL"


def test_a_wrong_secret_in_the_userlist(pgweir):
    weir = pgweir(userlist={"scram_user": "outdated", "md5_user": "outdated",
                            "plain_user": "outdated", "admin": "admin secret"})
    for user in SECRETS:
        refused = refusal(weir.address, user)
        assert refused.sqlstate == "28P01"
        assert refused.text.endswith(f'password authentication failed for user "{user}"')


def test_a_mended_secret_works_after_reload(pgweir):
    weir = pgweir(userlist={"scram_user": "outdated", "admin": "admin secret"},
                  server_login_retry="0.1")
    refusal(weir.address, "scram_user")
    weir.reload(userlist={"scram_user": "scram secret", "admin": "admin secret"})
    assert weir.client("scram_user").value("SELECT 1") == "1"


# -- scripted refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize("sqlstate, text", (
    ("28000", "no pg_hba.conf entry for host"),
    ("53300", "sorry, too many clients already"),
    ("XX000", "something of an accident"),
    ("42501", 'permission denied for database "app"'),
))
def test_refusals_reach_the_client_as_they_are(pgweir, fake_server, sqlstate, text):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry})
    client = weir.wire().startup()
    with far.accept() as server:
        server.send(fake.error(text, sqlstate, "FATAL"))
    refused = client.read_refusal()
    assert (refused.severity, refused.sqlstate) == ("FATAL", sqlstate)
    assert refused.text.endswith(text)
    weir.wait_log(f"server login failed: FATAL {text}")


def test_a_long_refusal_reaches_the_client(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry})
    client = weir.wire().startup()
    with far.accept() as server:
        server.send(fake.error("long " * 200 + "end", "53300", "FATAL"))
    refused = client.read_refusal()
    assert refused.sqlstate == "53300"
    assert "long long" in refused.text


def test_everybody_in_the_line_is_told(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry})
    crowd = [weir.wire().startup() for _ in range(10)]
    weir.wait_pool(cl_waiting=10)
    far.serve(lambda server: server.send(fake.error("no", "53300", "FATAL")))
    for client in crowd:
        assert client.read_refusal().sqlstate == "53300"


def test_a_server_that_is_starting_up_is_waited_for(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, server_login_retry="0.1")
    client = weir.wire().startup()
    with far.accept() as server:
        server.send(fake.error("the database system is starting up", "57P03", "FATAL"))
    far.accept().login()
    client.finish_login("alice")


def test_failures_are_not_repeated_at_once(pgweir, fake_server):
    """After a refusal there is no new attempt for server_login_retry, for any number of clients."""
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, server_login_retry="30", pool_mode="transaction")
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    crowd = [weir.client() for _ in range(5)]
    server.close()
    weir.wait_pool(sv_idle=0)
    client.send(query("SELECT 1"))
    with far.accept() as server:
        server.send(fake.error("out of order", "53300", "FATAL"))
    assert client.read_refusal().sqlstate in ("53300", "08006")
    weir.all_loops_turn()  # others are told of the failure
    for other in crowd:
        other.send(query("SELECT 1"))
        refused = other.read_refusal()
        assert "out of order" in refused.text
        assert "(server_login_retry)" in refused.text
    assert not far.has_caller()


def test_it_works_again_after_the_retry_time(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, server_login_retry="0.2")
    client = weir.wire().startup()
    with far.accept() as server:
        server.send(fake.error("not yet", "53300", "FATAL"))
    client.read_refusal()
    far.serve(lambda server: server.login().answer_queries())
    # An early client gets the error at once, until the retry time has passed.
    wait_until(lambda: lets_in(weir))


def lets_in(weir):
    try:
        weir.client().close()
        return True
    except Refused:
        return False


def test_several_logins_of_one_pool_are_under_way(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode="transaction", default_pool_size=5)
    first = weir.wire().startup()
    server = far.accept().login()
    first.finish_login("alice")
    crowd = [weir.client() for _ in range(4)]
    for client in (first, *crowd):
        client.send(query("SELECT 1"))
    server.expect("Q")
    slow = [far.accept(), far.accept()]  # the second connects before the first has a response
    for other in slow:
        other.login()
        other.expect("Q")


def test_a_server_that_is_too_many_when_it_has_logged_in_is_no_failure(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode="transaction", default_pool_size=3)
    first = weir.wire().startup()
    server = far.accept().login()
    first.finish_login("alice")
    second, third = weir.client(), weir.client()
    first.send(query("SELECT 1"))
    server.expect("Q")
    second.send(query("SELECT 2"))
    slow = far.accept()
    third.send(query("SELECT 3"))
    other = far.accept()
    weir.reload(default_pool_size=1)
    server.close()
    first.wait_closed()
    slow.login()  # two servers where one is allowed
    slow.expect("X")
    other.login()
    for client, number in ((second, "2"), (third, "3")):
        other.expect("Q")
        other.send(fake.answer(number))
        assert client.read_result().rows == [[number]]
    assert not [line for line in weir.warnings if "cannot be reached" in line]


def test_what_the_startup_packet_says(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": f"{far.entry} dbname=other user=forced password=x"
                                    " application_name=entry client_encoding=UTF8"})
    weir.wire().startup()
    server = far.accept()
    assert server.version == PROTOCOL_3_2
    assert server.parameters["user"] == "forced"
    assert server.parameters["database"] == "other"
    assert server.parameters["application_name"] == "entry"
    assert server.parameters["client_encoding"] == "UTF8"


@pytest.mark.parametrize("asked", ("cleartext", "md5"))
def test_scripted_passwords(pgweir, fake_server, asked):
    from .kit.wire import md5_answer
    far = fake_server()
    weir = pgweir(databases={"app": f"{far.entry} user=someone password=secret"})
    client = weir.wire().startup()
    server = far.accept()
    if asked == "cleartext":
        server.send(fake.auth(3))
        assert server.expect("p").body == b"secret\0"
    else:
        server.send(fake.auth(5, b"salt"))
        expected = md5_answer("someone", "secret", b"salt").encode() + b"\0"
        assert server.expect("p").body == expected
    server.welcome()
    client.finish_login("alice")


def test_the_servers_scram_signature_is_checked(pgweir, fake_server):
    """A server without a valid SCRAM signature gets no queries."""
    import base64
    far = fake_server()
    weir = pgweir(databases={"app": f"{far.entry} user=someone password=secret"})
    client = weir.wire().startup()
    server = far.accept()
    server.send(fake.auth(10, b"SCRAM-SHA-256\0\0"))
    first = server.expect("p").body
    nonce = first.rpartition(b"r=")[2]
    salt = base64.b64encode(b"salty salty salt")
    server.send(fake.auth(11, b"r=" + nonce + b"more,s=" + salt + b",i=4096"))
    server.expect("p")
    server.send(fake.auth(12, b"v=" + base64.b64encode(b"x" * 32)), fake.auth(0))
    refused = client.read_refusal()
    assert refused.text.startswith("server login failed: ")
    assert "server signature" in refused.text
    server.wait_closed()


@pytest.mark.parametrize("bad", (
    b"r=short,s=c2FsdA==,i=4096",
    # A server that adds nothing to our nonce is accepted, but not one that changes it.
    b"r=%s,s=c2FsdA==,i=4096",
    b"r=%smore,s=!!!!,i=4096",
    b"r=%smore,s=c2FsdA==,i=0",
    b"r=%smore,s=c2FsdA==,i=-1",
    b"r=%smore,s=c2FsdA==,i=99999999999999999999",
    b"r=%smore,s=c2FsdA==,i=many",
    b"r=%smore,i=4096",
    b"",
))
def test_bent_scram_of_servers(pgweir, fake_server, postgres, bad):
    far = fake_server()
    weir = pgweir(databases={"app": f"{far.entry} user=someone password=secret",
                             "app2": f"host=127.0.0.1 port={postgres.port}"},
                  client_login_timeout="1")
    client = weir.wire().startup()
    server = far.accept()
    server.send(fake.auth(10, b"SCRAM-SHA-256\0\0"))
    nonce = server.expect("p").body.rpartition(b"r=")[2]
    server.send(fake.auth(11, bad.replace(b"%s", nonce)))
    if bad == b"r=%s,s=c2FsdA==,i=4096":
        assert server.read_to_end() is not None if client.read_refusal() else None
    else:
        assert client.read_refusal().severity == "FATAL"
    assert weir.client(database="app2").value("SELECT 1") == "1"


def test_parameters_of_the_welcome_pass_in_order(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry})
    client = weir.wire().startup()
    far.accept().login(server_version="99.1", weir_test="42")
    client.finish_login("alice")
    assert client.parameters["server_version"] == "99.1"
    assert client.parameters["weir_test"] == "42"
    # The next client gets the cached welcome, without a server.
    assert weir.client().parameters["weir_test"] == "42"
    assert not far.has_caller()


def test_clients_never_get_the_servers_key(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry})
    client = weir.wire().startup()
    far.accept().login()
    client.finish_login("alice")
    assert client.key != fake.KEY


def welcome_with_warnings(far):
    server = far.accept()
    server.send(fake.notice("a password will expire soon", "01000", "WARNING"),
                fake.notice("MD5 is deprecated", "01000", "WARNING"), fake.notice("a greeting"))
    server.welcome()
    return server


def test_each_warning_of_a_login_is_logged_once(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode="transaction")
    first = weir.wire().startup()
    server = welcome_with_warnings(far)
    first.finish_login("alice")
    for client in (first, weir.client()):
        client.send(query("BEGIN"))
        if client is not first:
            server = welcome_with_warnings(far)
        server.expect("Q")
    said = [line.partition("at login: ")[2] for line in weir.warnings]
    assert said == ["a password will expire soon", "MD5 is deprecated"]
    assert "a greeting" not in weir.log


def test_connect_query_runs_before_anything_else(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": f"{far.entry} connect_query='SELECT first()'"})
    client = weir.wire().startup()
    server = far.accept().login()
    assert server.expect("Q").body == b"SELECT first()\0"
    server.send(fake.answer("ignored"))
    client.finish_login("alice")
    client.send(query("SELECT 2"))
    got = server.read()
    while got.body.startswith(b"SET"):
        server.send(fake.complete("SET"), fake.ready())
        got = server.read()
    assert got.body == b"SELECT 2\0"
    server.send(fake.answer("2"))
    assert client.read_result().rows == [["2"]]


def test_a_name_that_does_not_exist(pgweir):
    weir = pgweir(databases={"app": "host=no-such-host.invalid port=5432"},
                  client_login_timeout="1")
    refused = refusal(weir.address)
    assert refused.severity == "FATAL"
    weir.wait_log("DNS lookup failed")


def test_server_log_lines(pgweir):
    weir = pgweir()
    weir.client().query("SELECT 1")
    weir.wait_log(r"S-0x[0-9a-f]+: app/alice@127\.0\.0\.1:\d+ new connection to server"
                  r" \(from 127\.0\.0\.1:\d+\)")


def test_fast_retries_do_not_spin(pgweir):
    weir = pgweir(postgres=None, databases={"app": "host=127.0.0.1 port=1"},
                  server_login_retry="0", client_login_timeout="1")
    client = Wire(weir.address)
    before = weir.cpu()
    client.send(startup(user="alice", database="app"))
    started = time.monotonic()
    client.wait_closed()
    used = weir.cpu() - before
    client.close()
    assert used < 0.5 * max(time.monotonic() - started, 1)


def test_a_server_login_in_pieces_larger_than_a_buffer(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry})
    client = weir.wire().startup()
    server = far.accept()
    said = fake.auth(0) + fake.parameter("long_one", "v" * 20000) + fake.notice("n" * 20000)
    said += message("K", fake.KEY) + fake.ready()
    server.send_slowly(said, 1000)
    client.finish_login("alice")
    assert client.parameters["long_one"] == "v" * 20000


def test_limits_of_the_role_come_and_go(pgweir, postgres):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client("limited")
    assert client.value(WHOAMI) == "limited"
    weir.admin("RECONNECT")
    wait_until(lambda: not postgres.backends("limited"))  # PostgreSQL counts it until it has ended
    assert client.value(WHOAMI) == "limited"
    wait_until(lambda: len(postgres.backends("limited")) == 1)
