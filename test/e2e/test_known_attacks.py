# SPDX-License-Identifier: ISC
"""What poolers have been broken by, one by one: each as a test that would fail on a pooler with that
fault. Where a test stands in another file it is named here.

  fault                                         its test
  --------------------------------------------  -------------------------------------------------
  plain bytes behind SSLRequest, GSSENCRequest  test_login: test_bytes_behind_an_encryption_request
                                                test_tls: the same with TLS on
  plain bytes behind a PROXY header, two of it  test_proxy_protocol:
                                                test_plain_bytes_behind_header_and_request,
                                                test_one_header_only, test_no_header_within_tls
  over-long SCRAM fields of a client            here
  over-long SCRAM fields of a server            here
  ErrorResponse without SQLSTATE                here
  a removed user with a cached verifier         here; test_login: test_a_removed_user_stays_outside
  a changed secret with a cached verifier       test_login: test_a_changed_secret_counts_at_once
  empty secrets                                 test_login: test_an_empty_secret_lets_nobody_in
  the console without the right to it           here
  the login's time begins again by SSLRequest   test_guard:
                                                test_the_time_of_a_login_does_not_begin_again
  over-long names of users and databases        here; test_login: test_too_long_names
  who exists, by text or by work                test_guard:
                                                test_who_does_not_exist_looks_like_who_does
  search_path, options and auth_query;          with the tests of auth_query
  an unknown user who becomes auth_user
"""

import select

import pytest

from .kit import fake
from .kit.wire import Scram, cstr, message, query, refusal, sasl_initial, scram_secret, startup

LONG = b"x" * 60000
SECRET = "correct horse"


# -- SCRAM ----------------------------------------------------------------------------------------


def long_first(field):
    return {
        "nonce": b"n,,n=,r=" + LONG,
        "name": b"n,,n=" + LONG + b",r=abcdef",
        "authzid": b"n,a=" + LONG + b",n=,r=abcdef",
        "binding": b"p=" + LONG + b",,n=,r=abcdef",
        "extension": b"n,,n=,r=abcdef,x=" + LONG,
    }[field]


@pytest.mark.parametrize("field", ("nonce", "name", "authzid", "binding", "extension"))
@pytest.mark.parametrize("user", ("alice", "mallory"))
def test_long_scram_beginnings(pgweir, user, field):
    weir = pgweir(auth_type="scram-sha-256")
    client = weir.wire().startup(user)
    client.expect("R")
    client.send(sasl_initial(long_first(field)))
    assert client.read_refusal().text == "SASL authentication failed"
    assert weir.client(password="alice secret").value("SELECT 1") == "1"


@pytest.mark.parametrize("bend", (
    lambda final: final.replace(b"c=", b"c=" + LONG, 1),
    lambda final: final.replace(b"r=", b"r=" + LONG, 1),
    lambda final: final.replace(b",p=", b",x=" + LONG + b",p=", 1),
    lambda final: final[:final.index(b",p=") + 3] + LONG,
    lambda final: final + LONG,
), ids=("binding", "nonce", "extension", "proof", "end"))
@pytest.mark.parametrize("secret", ("alice secret", scram_secret("alice secret")),
                         ids=("plain", "scram"))
def test_long_scram_proofs(pgweir, secret, bend):
    weir = pgweir(auth_type="scram-sha-256", databases={"app": "user=alice password=x"},
                  userlist={"alice": secret, "admin": "admin secret"})
    client = weir.wire().startup()
    client.expect("R")
    scram = Scram("alice secret")
    client.send(sasl_initial(scram.first()))
    client.send(message("p", bend(scram.final(client.expect("R").body[4:]))))
    assert client.read_refusal().text == "SASL authentication failed"
    assert weir.client(password="alice secret").value("SELECT 1") == "1"


@pytest.mark.parametrize("says", (
    b"r=%s" + LONG + b",s=c2FsdA==,i=4096",
    b"r=%smore,s=" + LONG + b",i=4096",
    b"r=%smore,s=c2FsdA==,i=" + b"4" * 60000,
    b"r=%smore,s=c2FsdA==,i=2147483647",
    b"r=%smore,s=c2FsdA==,i=1000001",
    b"r=%smore,s=c2FsdA==,i=4096," + LONG,
    b"e=" + LONG,
), ids=("nonce", "salt", "rounds", "work", "limit", "end", "error"))
def test_long_scram_of_servers(pgweir, fake_server, says):
    far = fake_server()
    weir = pgweir(databases={"app": f"{far.entry} user=someone password=secret", "app2": ""})
    client = weir.wire().startup()
    server = far.accept()
    server.send(fake.auth(10, b"SCRAM-SHA-256\0\0"))
    nonce = server.expect("p").body.rpartition(b"r=")[2]
    server.send(fake.auth(11, says.replace(b"%s", nonce)))
    assert client.read_refusal().text.startswith("server login failed: ")
    assert weir.client(database="app2").value("SELECT 1") == "1"


def test_expensive_servers_hold_up_no_client(pgweir, fake_server):
    """Keys for servers are derived by other threads than those of clients."""
    far = fake_server()
    entries = {f"far{number}": f"{far.entry} user=someone password=secret" for number in range(6)}
    weir = pgweir(auth_type="plain", databases={**entries, "app2": "user=alice password=x"},
                  userlist={"alice": scram_secret(SECRET), "bob": scram_secret(SECRET, b"salt" * 4),
                            "admin": "admin secret"})
    waiting = [weir.wire().startup("alice", name) for name in entries]
    for client in waiting:
        client.expect("R")
        client.send(message("p", cstr(SECRET)))
    servers = [far.accept() for _ in waiting]
    for number, server in enumerate(servers):
        server.send(fake.auth(10, b"SCRAM-SHA-256\0\0"))
        nonce = server.expect("p").body.rpartition(b"r=")[2]
        server.send(fake.auth(11, b"r=%smore,s=c2FsdDA%d,i=1000000" % (nonce, number)))
    assert weir.client("bob", "app2", password=SECRET).value("SELECT 1") == "1"
    answered, _, _ = select.select([server.sock for server in servers], [], [], 0)
    assert len(answered) < len(servers)


# -- errors of servers ----------------------------------------------------------------------------

POOR = {"nothing": b"\0", "no code": b"SERROR\0Mfailed\0\0", "no text": b"SERROR\0C42601\0\0",
        "short code": b"SERROR\0C42\0Mfailed\0\0", "empty code": b"SERROR\0C\0Mfailed\0\0"}


@pytest.mark.parametrize("body", POOR.values(), ids=POOR)
def test_poor_errors_in_a_login(pgweir, fake_server, body):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry, "app2": ""})
    client = weir.wire().startup()
    far.accept().send(message("E", body))
    refused = client.read_refusal()
    assert refused.severity == "FATAL" and len(refused.sqlstate) == 5
    assert weir.client(database="app2").value("SELECT 1") == "1"


@pytest.mark.parametrize("body", POOR.values(), ids=POOR)
def test_poor_errors_of_a_query(pgweir, fake_server, body):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry, "app2": ""})
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    client.send(query("SELECT 1"))
    server.expect("Q")
    server.send(message("E", body), message("Z", b"I"))
    assert client.expect("E").body == body
    assert weir.client(database="app2").value("SELECT 1") == "1"


# -- users who were there -------------------------------------------------------------------------


@pytest.mark.parametrize("auth_type, secret", (("plain", scram_secret(SECRET)),
                                               ("scram-sha-256", SECRET)))
def test_a_removed_user_with_derived_keys(pgweir, auth_type, secret):
    users = {"alice": secret, "admin": "admin secret"}
    weir = pgweir(auth_type=auth_type, databases={"app": "user=alice password=x"}, userlist=users)
    for _ in range(2):  # the second time by the keys that were kept
        assert weir.client(password=SECRET).value("SELECT 1") == "1"
    weir.reload(userlist={"admin": "admin secret"})
    assert refusal(weir.address, password=SECRET).sqlstate == "28P01"
    weir.reload(userlist={"alice": "", "admin": "admin secret"})
    assert refusal(weir.address, password=SECRET).sqlstate == "28P01"


# -- the console ----------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ("pgbouncer", "alice", "mallory"))
def test_nobody_else_at_the_console(pgweir, user):
    weir = pgweir()
    assert refusal(weir.address, user, "pgbouncer").text == "not allowed"


@pytest.mark.parametrize("command", (
    "RELOAD", "SHUTDOWN", "PAUSE", "PAUSE app", "RESUME", "KILL app", "DISABLE app", "RECONNECT",
    "SET auth_type = 'trust'", "SUSPEND", "show version; SHUTDOWN", "  ;RELOAD"))
def test_who_may_look_may_not_act(pgweir, command):
    weir = pgweir()
    with weir.console("stats") as console:
        assert console.query(command).errors
    assert weir.client().value("SELECT 1") == "1"
    config = {row["key"]: row["value"] for row in weir.admin("SHOW CONFIG")}
    assert config["auth_type"] == "trust"


# -- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", (dict(user="u" * 128), dict(user="u" * 9900),
                                   dict(user="alice", database="d" * 9900),
                                   dict(user="%s%n" * 1000, database="%n" * 1000)))
@pytest.mark.parametrize("auth_type", ("trust", "scram-sha-256"))
def test_long_names(pgweir, auth_type, names):
    weir = pgweir(auth_type=auth_type)
    client = weir.wire()
    client.send(startup(**{"database": "app", **names}))
    if names["user"] == "alice" and auth_type != "trust":
        client.expect("R")
    else:
        assert client.read_refusal().sqlstate in ("28000", "3D000", "28P01")
    assert weir.client(password="alice secret").value("SELECT 1") == "1"
