# SPDX-License-Identifier: ISC
"""Known attacks on poolers: one test for each, which would fail on a pooler with that fault. If the
test is in another file, it is named here.

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
  a second startup packet (CVE-2026-107350)     here
  options with an empty name (2026-107349)      here
  lengths above 2^31, much data in one buffer   here
  (2026-107348, 2026-6668)
  a proof without a nonce (2026-19888)          here
  endless iterations (2026-6669)                here: test_long_scram_of_servers,
                                                test_expensive_servers_hold_up_no_client
  malformed SCRAM, long nonces, errors without  here; test_login: test_bent_scram_*;
  SQLSTATE (2026-6664 to 6666)                  test_server_login: test_bent_scram_of_servers
  KILL_CLIENT by a stats user (2026-6667)       here: test_stats_users_may_not_run_commands
  login packets of a server in pieces           here
  NegotiateProtocolVersion twice                here; test_protocol
  memory lost for each _pq_. option             unit test options_are_all_told, by the sanitizers
  a removed user with a cached verifier         here; test_login: test_a_removed_user_stays_outside
  a changed secret with a cached verifier       test_login: test_a_changed_secret_counts_at_once
  empty secrets                                 test_login: test_an_empty_secret_lets_nobody_in
  the console without the right to it           here
  the login's time begins again by SSLRequest   test_guard:
                                                test_the_time_of_a_login_does_not_begin_again
  over-long names of users and databases        here; test_login: test_too_long_names
  who exists, by text or by work                test_guard:
                                                test_unknown_users_look_like_existing_ones
  a statement of another client replaced        test_statement_names: test_replaced_*
  prepared statements without end               test_prepared: test_names_have_a_limit
  search_path, options and auth_query;          with the tests of auth_query
  an unknown user who becomes auth_user
  answers, roles and statements of others       here: the last section

doc/security-cases.md has them by pooler, with their sources; its test looks for the tests that it names.
"""

import select
import struct

import pytest

from .kit import fake
from .kit.wire import (Scram, bind, close, cstr, execute, flush, extended, md5_secret, message,
                       parse, query, refusal, sasl_initial, scram_secret, send_cancel, startup,
                       sync)

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
def test_long_scram_beginnings(same_pgweir, user, field):
    weir = same_pgweir(auth_type="scram-sha-256")
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
def test_long_scram_proofs(same_pgweir, secret, bend):
    weir = same_pgweir(auth_type="scram-sha-256", databases={"app": "user=alice password=x"},
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
    """Keys for server logins are derived in other threads than keys of clients."""
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


FINALS = {
    "no nonce": lambda final: final[:final.index(b",r=")] + final[final.index(b",p="):],
    "empty nonce": lambda final: final[:final.index(b",r=") + 3] + final[final.index(b",p="):],
    "binding only": lambda final: b"c=biws",
    "proof only": lambda final: final[final.index(b",p=") + 1:],
    "commas": lambda final: b",,,",
}


@pytest.mark.parametrize("bend", FINALS.values(), ids=FINALS)
@pytest.mark.parametrize("user", ("alice", "mallory"))
def test_proofs_without_a_nonce(same_pgweir, user, bend):
    weir = same_pgweir(auth_type="scram-sha-256")
    client = weir.wire().startup(user)
    client.expect("R")
    scram = Scram("alice secret")
    client.send(sasl_initial(scram.first()))
    client.send(message("p", bend(scram.final(client.expect("R").body[4:]))))
    assert client.read_refusal().text == "SASL authentication failed"
    assert weir.client(password="alice secret").value("SELECT 1") == "1"


# -- startup packets ------------------------------------------------------------------------------


@pytest.mark.parametrize("database", ("nowhere", "app"))
@pytest.mark.parametrize("auth_type", ("plain", "md5", "scram-sha-256"))
def test_a_second_startup_packet(pgweir, auth_type, database):
    """A client cannot change its user in the middle of a login."""
    weir = pgweir(auth_type=auth_type)
    for is_late in (False, True)[:1 + (auth_type == "scram-sha-256")]:
        client = weir.wire().startup("alice", database)
        client.expect("R")
        scram = Scram("alice secret")
        if is_late:
            client.send(sasl_initial(scram.first()))
            client.expect("R")
        client.send(startup(user="admin", database="pgbouncer"))
        refused = client.read_refusal()
        assert (refused.sqlstate, refused.text) == (
            "08P01", "expected a password message, got type '?'")
    assert weir.client(password="alice secret").value("SELECT current_user") == "alice"


@pytest.mark.parametrize("options", ("-c=", "-c =", "--=", "-c=x", "--=x -c work_mem=3MB",
                                     "-c= " * 2000, "-c", "- -= -c=="))
def test_options_without_a_name(pgweir, options):
    weir = pgweir()
    assert refusal(weir.address, options=options).text.startswith("unsupported options startup")
    weir.reload(ignore_startup_parameters="options")
    assert weir.client(options=options).value("SELECT 1") == "1"


LENGTHS = (0, 3, 0x7fffffff, 0x80000000, 0x80000008, 0xfffffffb, 0xffffffff)


@pytest.mark.parametrize("length", LENGTHS)
def test_nonsensical_lengths_of_clients(pgweir, length):
    weir = pgweir(auth_type="scram-sha-256")
    for code in (196608, 80877102, 80877103, 80877104):
        client = weir.wire()
        client.send(struct.pack("!II", length, code))
        assert client.read_refusal().sqlstate == "08P01"
    for kind in b"pQ\0":
        client = weir.wire().startup()
        client.expect("R")
        client.send(bytes((kind,)) + struct.pack("!I", length))
        assert client.read_refusal().sqlstate == "08P01"
    assert weir.client(password="alice secret").value("SELECT 1") == "1"


@pytest.mark.parametrize("length", LENGTHS)
def test_nonsensical_lengths_of_servers(pgweir, fake_server, length):
    far = fake_server()
    weir = pgweir(databases={**dict.fromkeys("RSEKv", far.entry), "app2": ""})
    for kind in "RSEKv":
        client = weir.wire().startup(database=kind)
        far.accept().send(kind.encode() + struct.pack("!I", length))
        assert client.read_refusal().severity == "FATAL"
    assert weir.client(database="app2").value("SELECT 1") == "1"


@pytest.mark.parametrize("begins", (b"", message("p", b"x" * 69000)[:-1], None),
                         ids=("in the line", "password", "startup"))
def test_much_before_a_login(pgweir, fake_server, begins):
    """Data sent before the login stays in the kernel's buffers, or ends the connection."""
    far = fake_server()
    weir = pgweir(auth_type="plain" if begins else "trust", databases={"app": far.entry, "app2": ""})
    client = weir.wire()
    if begins is None:
        client.send(startup(user="alice", search_path="x" * 9000)[:-1])
    else:
        client.startup()
        if begins:
            client.expect("R")
            client.send(begins)
        else:
            far.accept()
    before = weir.rss()
    client.sock.settimeout(0.3)
    try:
        for _ in range(64):
            client.sock.sendall(b"\x01" * 1024 * 1024)
    except OSError:
        pass
    assert weir.rss() - before < 8 * 1024 * 1024
    assert weir.client(database="app2", password="alice secret").value("SELECT 1") == "1"


# -- logins at servers ----------------------------------------------------------------------------


def test_a_servers_login_byte_by_byte(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": f"{far.entry} user=someone password=secret"})
    client = weir.wire().startup()
    server = far.accept()
    server.send_slowly(fake.auth(3), 1)
    assert server.expect("p").body == b"secret\0"
    server.send_slowly(b"".join((fake.notice("hello"), fake.auth(0), fake.parameter("a", "b"),
                                 message("K", fake.KEY), fake.ready())), 1)
    assert client.finish_login("alice").parameters["a"] == "b"
    client.send(query("SELECT 1"))
    server.expect("Q")
    server.send_slowly(fake.answer("1"), 1)
    assert client.read_result().rows == [["1"]]


@pytest.mark.parametrize("when", (1, 2))
def test_a_server_that_negotiates_twice(pgweir, fake_server, when):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry, "app2": ""})
    client = weir.wire().startup()
    server = far.accept()
    told = message("v", struct.pack("!II", 0x30000, 0))
    server.send(*((told, told) if when == 1 else (told, fake.auth(0), told)))
    assert client.read_refusal().text == "broken NegotiateProtocolVersion"
    assert weir.client(database="app2").value("SELECT 1") == "1"


def test_negotiation_comes_once_with_auth_query(pgweir):
    weir = pgweir(auth_type="plain", auth_user="alice",
                  auth_query="SELECT $1::text, 'known'::text")
    weir.reload(userlist={"alice": "alice secret", "admin": "admin secret"})
    client = weir.wire()
    client.send(startup(version=0x30009, user="bob", database="app", **{"_pq_.x": "1"}))
    kinds = [client.read().type, client.read().type]
    client.send(message("p", cstr("known")))
    while kinds[-1] not in "ZE":
        kinds.append(client.read().type)
    assert kinds.count("v") == 1 and kinds[0] == "v" and kinds[-1] == "Z"


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


# -- removed users --------------------------------------------------------------------------------


@pytest.mark.parametrize("auth_type, secret", (("plain", scram_secret(SECRET)),
                                               ("scram-sha-256", SECRET)))
def test_a_removed_user_with_derived_keys(pgweir, auth_type, secret):
    users = {"alice": secret, "admin": "admin secret"}
    weir = pgweir(auth_type=auth_type, databases={"app": "user=alice password=x"}, userlist=users)
    for _ in range(2):  # the second time with cached keys
        assert weir.client(password=SECRET).value("SELECT 1") == "1"
    weir.reload(userlist={"admin": "admin secret"})
    assert refusal(weir.address, password=SECRET).sqlstate == "28P01"
    weir.reload(userlist={"alice": "", "admin": "admin secret"})
    assert refusal(weir.address, password=SECRET).sqlstate == "28P01"


@pytest.mark.parametrize("auth_type, secret", (
    ("plain", SECRET), ("plain", md5_secret("alice", SECRET)), ("plain", scram_secret(SECRET)),
    ("md5", md5_secret("alice", SECRET)), ("scram-sha-256", scram_secret(SECRET))),
    ids=("plain", "plain md5", "plain scram", "md5", "scram"))
def test_a_wrong_password_beside_an_open_server(pgweir, auth_type, secret):
    """The right one was shown, and its server is idle: that proves nothing for the next client."""
    weir = pgweir(auth_type=auth_type, databases={"app": "user=alice password=x"},
                  userlist={"alice": secret, "admin": "admin secret"})
    client = weir.client(password=SECRET)
    assert client.value("SELECT 1") == "1"
    for wrong in ("incorrect", "", secret if secret != SECRET else SECRET + "x"):
        assert refusal(weir.address, password=wrong).sqlstate == "28P01"
    client.close()
    assert refusal(weir.address, password="incorrect").sqlstate == "28P01"
    assert weir.client(password=SECRET).value("SELECT 1") == "1"


# -- the console ----------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ("pgbouncer", "alice", "mallory"))
def test_nobody_else_at_the_console(pgweir, user):
    weir = pgweir()
    assert refusal(weir.address, user, "pgbouncer").text == "not allowed"


@pytest.mark.parametrize("command", (
    "KILL_CLIENT 1", "RELOAD", "SHUTDOWN", "PAUSE", "PAUSE app", "RESUME", "KILL app", "DISABLE app", "RECONNECT",
    "SET auth_type = 'trust'", "SUSPEND", "show version; SHUTDOWN", "  ;RELOAD"))
def test_stats_users_may_not_run_commands(same_pgweir, command):
    weir = same_pgweir()
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


# -- answers, roles and statements of others ------------------------------------------------------


@pytest.fixture
def one(pgweir):
    return lambda **settings: pgweir(pool_mode="transaction", default_pool_size=1, **settings)


def named(name):
    return bind(name=name) + execute()


def test_half_a_batch_whose_wait_is_canceled(one):
    """The other half runs nowhere; ReadyForQuery comes for its Sync, not before."""
    weir = one()
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(parse("SELECT 'first'"), bind(), execute())
    weir.wait_pool(cl_waiting=1)
    send_cancel(weir.address, waiter.key)
    assert waiter.expect("E")
    waiter.send(parse("SELECT 'second'"), bind(), execute(), sync(), extended("SELECT 'third'"))
    assert holder.value("SELECT 'mine'") == "mine"
    assert waiter.read().type == "Z"
    holder.query("COMMIT")
    assert waiter.read_result().rows == [["third"]]
    assert waiter.value("SELECT 'fourth'") == "fourth"
    assert holder.value("SELECT 'mine again'") == "mine again"


def test_rows_full_of_messages(one):
    """A value of many ReadyForQuery ends nothing, wherever it is cut."""
    weir = one()
    first, second = weir.client(), weir.client()
    first.send(parse("SELECT decode(repeat('5a0000000549', 300000), 'hex')"), bind(result_format=1),
               execute(), sync())
    second.send(query("SELECT 'second'"))
    got = first.read_until("Z")
    assert [answer.type for answer in got] == ["1", "2", "D", "C", "Z"]
    assert got[2].body[6:] == b"Z\0\0\0\5I" * 300000
    assert second.read_result().rows == [["second"]]
    assert first.value("SELECT 'first'") == "first"


@pytest.mark.parametrize("becomes", ("SET ROLE known_other", "SET SESSION AUTHORIZATION known_other",
                                     "SELECT set_config('role', 'known_other', false)"))
@pytest.mark.parametrize("ends", (True, False), ids=("terminate", "reset"))
def test_the_role_of_a_client_whose_server_stayed(one, postgres, becomes, ends):
    postgres.query("DROP ROLE IF EXISTS known_other")
    postgres.query("CREATE ROLE known_other")
    weir = one(databases={"app": "user=postgres"})
    first, second = weir.client(), weir.client()
    first.query("SELECT pg_advisory_lock(4711)")
    first.query(becomes)
    assert first.value("SELECT current_user") == "known_other"
    if ends:
        first.close()
    else:
        first.reset()
    assert second.query("SELECT session_user, current_user").rows == [["postgres", "postgres"]]
    assert second.value("SELECT pg_try_advisory_lock(4711)") == "t"


def test_a_statement_leaves_its_server_within_a_batch(one):
    """The server knows one statement, the batch uses three, and another client has its own."""
    weir = one(max_prepared_statements=1)
    first, second = weir.client(), weir.client()
    first.send(parse("SELECT 'a'", "a"), parse("SELECT 'b'", "b"), named("a"), parse("SELECT 'c'", "c"),
               named("b"), named("c"), named("a"), sync())
    assert first.read_result().rows == [["a"], ["b"], ["c"], ["a"]]
    second.send(parse("SELECT 'x'", "a"), named("a"), sync())
    assert second.read_result().rows == [["x"]]
    first.send(named("a"), named("c"), sync())
    assert first.read_result().rows == [["a"], ["c"]]


def test_a_statement_of_a_client_that_left_before_its_sync(one):
    weir = one()
    first, second = weir.client(), weir.client()
    first.send(parse("SELECT 'shared'", "s"), bind(name="s"))
    first.close()
    second.send(parse("SELECT 'shared'", "t"), sync())
    assert not second.read_result().errors
    second.send(named("t"), sync())
    assert second.read_result().rows == [["shared"]]


def test_segments_that_begin_with_a_sync(one):
    """Each answer arrives, and the server is not lent before the last of them."""
    weir = one()
    first, second = weir.client(), weir.client()
    batch = parse("SELECT pg_sleep(0.1)::text || 'first'") + bind() + execute()
    first.send(batch)
    second.send(query("SELECT 'second'"))
    for _ in range(3):
        first.send(sync() + batch)
    first.send(sync() + extended("SELECT 'last'"))
    for _ in range(4):
        assert first.read_result().rows == [["first"]]
    assert first.read_result().rows == [["last"]]
    assert second.read_result().rows == [["second"]]


def test_a_simple_query_before_the_sync(one):
    """PostgreSQL skips it behind an error; without one there are two ReadyForQuery."""
    weir = one()
    first, second = weir.client(), weir.client()
    first.send(parse("SELECT 1/0"), bind(), execute(), query("SELECT 'skipped'"))
    first.read_until("E")
    first.send(sync(), query("SELECT 'next'"))
    assert first.read().type == "Z"
    assert first.read_result().rows == [["next"]]
    first.send(parse("SELECT 'a'"), bind(), execute(), query("SELECT 'b'"), sync())
    assert first.read_result().rows == [["a"], ["b"]]
    assert first.read_result().types == "Z"
    assert second.value("SELECT 'second'") == "second"


def test_close_of_a_statement_whose_parse_failed(one):
    client = one().client()
    client.send(parse("SELECT nothing_of_this_name", "s"), sync(), close("S", "s"), sync())
    assert client.read_result().error["C"] == "42703"
    assert client.read_result().types == "3Z"
    client.send(parse("SELECT 's'", "s"), named("s"), sync())
    assert client.read_result().rows == [["s"]]


TENANT = "SELECT current_setting('app.tenant')"


@pytest.fixture
def two_tenants(one):
    """Two clients whose only server has the value of the first, as it is known to have."""
    weir = one()
    first, second = weir.client(), weir.client()
    for client, name in ((second, "second"), (first, "first")):
        client.query(f"SET app.tenant = '{name}'")
        assert client.value(TENANT) == name
    return first, second


def test_a_set_that_is_skipped_is_not_believed(two_tenants):
    first, second = two_tenants
    first.send(parse("SELEC"), flush())
    first.expect("E")
    first.send(query("SET app.tenant = 'second'"), sync())
    assert first.read().type == "Z"
    assert (second.value(TENANT), first.value(TENANT)) == ("second", "first")


@pytest.mark.parametrize("end, now", (("ROLLBACK", "first"), ("COMMIT", "second")))
def test_a_set_in_a_block_that_no_sync_shows_is_not_believed(two_tenants, end, now):
    first, second = two_tenants
    first.send(parse("BEGIN"), bind(), execute(), flush())
    first.expect("12C")
    assert first.query("SET app.tenant = 'second'").status == "T"
    first.query(end)
    assert (second.value(TENANT), first.value(TENANT)) == ("second", now)


def test_two_texts_with_one_short_hash(one):
    """They have the same 32-bit hash in Odyssey; statements are known by their whole text here."""
    texts = ("SELECT 1 /* force_close_72_1104700233803323 */",
             "SELECT 1 /* force_close_246_1106019706635764 */")
    weir = one()
    for client in (weir.client(), weir.client()):
        for name, text in zip("ab", texts):
            client.send(parse(text, name), named(name), sync())
            assert client.read_result().rows == [["1"]]
