# SPDX-License-Identifier: ISC
"""A failed login of pgweir at PostgreSQL: the client learns that it was not its own login.

PostgreSQL's "password authentication failed" for pgweir's own login has the same text as the error
for a client with a wrong password.
"""

import pytest

from .kit import fake
from .kit.wire import md5_secret, query, refusal, scram_secret
from .test_auth_query import Gate

NAMES = ("md5_user", "plain_user", "scram_user")
ASKED = "; PostgreSQL asks for SCRAM-SHA-256"


def told(daemon, user, secret, **kw):
    """The error of a client of this user if pgweir's server login fails: the text, and DETAIL."""
    users = {"admin": "admin secret", user: secret}
    weir = daemon(userlist=users, **kw)
    refused = refusal(weir.address, user, password=kw.pop("password", "scram secret"))
    detail = refused.fields["D"]
    start = f"pgweir's own login as \"{user}\" at 127.0.0.1:{weir.postgres.port}, for the entry \"app\""
    assert detail.startswith(start)
    weir.wait_log("WARNING S-.*server login failed: .*pgweir's own login as")
    (row,) = [row for row in weir.admin("SHOW ERRORS") if row["type"] == "S"]
    assert (row["reason"], row["is_error"]) == ("pgweir's own login refused", "yes")
    assert (row["last_database"], row["last_user"]) == ("app", user)
    assert start in row["last_message"]
    early = refusal(weir.address, user, password="scram secret")  # within server_login_retry
    assert early.text.startswith("server login has been failing") or early.text == refused.text
    assert early.fields["D"] == detail
    for secret in ("outdated", "scram secret", "x" * 22):
        assert secret not in detail
    return refused.text, detail.removeprefix(start)


@pytest.mark.parametrize("user", NAMES)
def test_a_wrong_password_in_the_file(pgweir, user):
    text, detail = told(pgweir, user, "outdated", auth_type="trust")
    assert text == f'password authentication failed for user "{user}"'
    assert detail == ", with the password of line 2 of auth_file"


def test_a_wrong_password_of_the_entry(pgweir, postgres):
    weir = pgweir(databases={"app": "user=scram_user password=outdated"})
    refused = refusal(weir.address)
    assert refused.sqlstate == "28P01"
    assert refused.fields["D"] == (f'pgweir\'s own login as "scram_user" at 127.0.0.1:{postgres.port},'
                                   ' for the entry "app", with password= of the entry')


@pytest.mark.parametrize("other, what", (
    (dict(salt=b"another salt...."), "salt"), (dict(iterations=4097), "iteration count")))
def test_a_scram_secret_that_is_not_postgresqls(pgweir, postgres, other, what):
    """The same password with another salt; PostgreSQL's first message reveals it."""
    import base64
    salt = base64.b64decode(postgres.secret("scram_user").split("$")[1].partition(":")[2])
    secret = scram_secret("scram secret", **dict(dict(salt=salt), **other))
    text, detail = told(pgweir, "scram_user", secret, auth_type="scram-sha-256")
    assert text == 'password authentication failed for user "scram_user"'
    assert detail == (", with what a client's login has shown of the SCRAM secret of line 2 of"
                      f" auth_file; the {what} of that secret is not the one that PostgreSQL has")


def test_a_scram_secret_of_another_password(pgweir, postgres):
    """Salt and iterations are equal: only PostgreSQL's error is known."""
    import base64
    salt = base64.b64decode(postgres.secret("scram_user").split("$")[1].partition(":")[2])
    weir = pgweir(auth_type="scram-sha-256",
                  userlist={"scram_user": scram_secret("another", salt=salt)})
    refused = refusal(weir.address, "scram_user", password="another")
    assert refused.fields["D"].endswith("SCRAM secret of line 1 of auth_file")


WRONG_TYPES = {
    "md5": (md5_secret("scram_user", "scram secret"),
            f", with the md5 secret of line 2 of auth_file{ASKED}"),
    "scram": (scram_secret("scram secret"),
              ", without a secret: line 2 of auth_file has a SCRAM secret, which serves for logins to"
              f" PostgreSQL when a client has logged in by SCRAM{ASKED}"),
    "empty": ("", f", without a secret: line 2 of auth_file has none{ASKED}"),
}


@pytest.mark.parametrize("kind", WRONG_TYPES)
def test_a_secret_of_the_wrong_kind(pgweir, kind):
    secret, expected = WRONG_TYPES[kind]
    text, detail = told(pgweir, "scram_user", secret, auth_type="trust")
    assert (text, detail) == ("server login failed: wrong password type", expected)


def test_keys_where_a_password_is_asked_for(pgweir, postgres):
    secret = scram_secret("plain secret")
    weir = pgweir(auth_type="scram-sha-256", userlist={"plain_user": secret})
    refused = refusal(weir.address, "plain_user", password="plain secret")
    assert refused.fields["D"].endswith(
        ", with what a client's login has shown of the SCRAM secret of line 1 of auth_file;"
        " PostgreSQL asks for a password in clear text")


def test_nothing_is_known_of_a_forced_user(pgweir):
    weir = pgweir(databases={"app": "user=scram_user"}, userlist={"alice": "alice secret"})
    assert refusal(weir.address).fields["D"].endswith(
        ", without a secret: neither the entry nor auth_file has one, and no client has shown"
        f" one{ASKED}")


@pytest.mark.parametrize("auth_type", ("plain", "scram-sha-256"))
def test_a_secret_of_auth_query(make_pgweir, postgres, auth_type):
    gate = Gate(make_pgweir, postgres)
    gate.add("scram_user", "word")
    weir = gate.start(auth_type=auth_type)
    assert refusal(weir.address, "scram_user", password="word").fields["D"].endswith(
        ", with the password of auth_query")


def test_a_password_that_the_client_sent(pgweir):
    weir = pgweir(auth_type="plain", userlist={"scram_user": scram_secret("word")})
    assert refusal(weir.address, "scram_user", password="word").fields["D"].endswith(
        ", with the password that a client sent")


def test_other_refusals_say_nothing_of_a_secret(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry})
    client = weir.wire().startup()
    with far.accept() as server:
        server.send(fake.error("sorry, too many clients already", "53300", "FATAL"))
    assert client.read_refusal().fields["D"] == (
        f'pgweir\'s own login as "alice" at 127.0.0.1:{far.port}, for the entry "app"')


def test_a_unix_socket_is_named(pgweir, postgres):
    weir = pgweir(databases={"app": f"host={postgres.socket_dir} port={postgres.port}"
                                    " user=scram_user password=outdated"})
    assert f" at {postgres.socket_dir}/.s.PGSQL.{postgres.port}, for" in \
        refusal(weir.address).fields["D"]


def test_a_clients_own_mistake_has_no_detail(pgweir):
    weir = pgweir(auth_type="scram-sha-256")
    assert "D" not in refusal(weir.address, password="wrong").fields


def test_it_is_known_across_a_take_over(pgweir, postgres):
    """The source of the keys is handed over with them."""
    secret = postgres.secret("scram_user")
    weir = pgweir(auth_type="scram-sha-256", pool_mode="transaction", server_login_retry="0.1",
                  userlist={"admin": "admin secret", "scram_user": secret})
    client = weir.client("scram_user", password="scram secret")
    weir.disconnect_console()
    assert weir.take_over().wait(15) == 0
    try:
        postgres.query("ALTER ROLE scram_user PASSWORD 'scram secret'")  # with another salt
        weir.admin("RECONNECT")
        weir.wait_pool("app", "scram_user", sv_idle=0)
        client.send(query("SELECT 1"))
        detail = client.read_refusal().fields["D"]
    finally:
        postgres.query(f"ALTER ROLE scram_user PASSWORD '{secret}'")
    assert detail.endswith("; the salt of that secret is not the one that PostgreSQL has")


# -- server_require_auth ---------------------------------------------------------------------------

FORBIDDEN = "server login failed: server_require_auth forbids how PostgreSQL asks"
ASKS = {"alice": "nothing", "md5_user": "md5", "plain_user": "a password in clear text",
        "scram_user": "SCRAM-SHA-256"}


@pytest.mark.parametrize("require, good", (
    ("", {*ASKS}), ("scram-sha-256", {"scram_user"}), ("SCRAM-SHA-256, md5", {"scram_user", "md5_user"}),
    ("!password", {"alice", "md5_user", "scram_user"}), ("!none !md5", {"plain_user", "scram_user"}),
    ("none", {"alice"}), ("password,!password", set())))
def test_how_postgresql_may_ask(pgweir, require, good):
    weir = pgweir(server_require_auth=require)
    for user, asks in ASKS.items():
        if user in good:
            assert weir.client(user).value("SELECT current_user") == user
            continue
        refused = refusal(weir.address, user)
        assert (refused.sqlstate, refused.text) == ("28000", FORBIDDEN)
        assert refused.fields["D"].endswith(f"; PostgreSQL asks for {asks}")


def test_no_password_is_sent_for_a_method_that_is_not_allowed(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": f"{far.entry} user=someone password=secret"},
                  server_require_auth="scram-sha-256")
    client = weir.wire().startup()
    with far.accept() as server:
        server.send(fake.auth(3))
        assert server.read_to_end() == []
    assert client.read_refusal().text == FORBIDDEN


@pytest.mark.parametrize("value", ("kerberos", "md5, !x", "!", "! md5", "scram"))
def test_words_that_are_none(make_pgweir, value):
    weir = make_pgweir(server_require_auth=value)
    done = weir.run("--check", weir.ini)
    assert done.returncode == 1
    assert "is not one of its values: password, md5, scram-sha-256 or none" in done.stderr
