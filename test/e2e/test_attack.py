# SPDX-License-Identifier: ISC
"""Attempts of a hostile or dying peer: to crash the daemon, to wait without limit, to affect
others.
"""

import pytest

from .kit import fake
from .kit.wire import (Closed, bind, close, cstr, describe, execute, message, parse, query, sync)

MB = 1024 * 1024


def password(text):
    return message("p", cstr(text))


# -- reloads and timeouts during a login ----------------------------------------------------------


@pytest.mark.parametrize("auth_type, sqlstate", (
    ("plain", "3D000"),
    ("any", "28000"),  # the secret has changed too
))
def test_database_removed_during_a_login(pgweir, auth_type, sqlstate):
    weir = pgweir(auth_type="plain")
    client = weir.wire().startup("alice", "app2")
    client.expect("R")
    weir.reload(databases={"app": ""}, auth_type=auth_type)
    client.send(password("alice secret"))
    assert client.read_refusal().sqlstate == sqlstate


def test_user_removed_during_a_login(pgweir):
    weir = pgweir(auth_type="plain")
    client = weir.wire().startup("bob")
    client.expect("R")
    weir.reload(userlist={name: secret for name, secret in weir.users.items() if name != "bob"})
    client.send(password("bob secret"))
    assert client.read_refusal().sqlstate == "28P01"


def test_nobody_makes_databases(pgweir):
    weir = pgweir(auth_type="plain", databases={"*": ""}, autodb_idle_timeout="0.1")
    client = weir.wire().startup("nobody", "ghost")
    client.expect("R")
    client.send(password("guessed"))
    assert client.read_refusal().sqlstate == "28P01"
    assert "registered new auto-database" not in weir.log


# -- waiting without limit ------------------------------------------------------------------------


def test_newcomer_gets_the_room_of_an_idle_server(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, max_db_connections=1, pool_mode="transaction")
    first = weir.wire().startup("alice")
    server = far.accept()
    second = weir.wire().startup("bob")
    weir.wait_pool(user="bob", cl_waiting=1)
    server.login()
    first.finish_login("alice")
    far.accept().login()
    second.finish_login("bob")


def test_parameters_that_a_server_does_not_answer(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, server_connect_timeout=1)
    client = weir.wire().startup(datestyle="German")
    assert b"German" in far.accept().login().expect("Q").body
    client.finish_login("alice")  # that server was given up
    client.send(query("SELECT 1"))
    assert b"German" in far.accept().login().expect("Q").body
    assert client.read_refusal().sqlstate == "08006"


# -- messages that must be complete
# -----------------------------------------------------------------

SMALL = "1MB"


def long_parse(size, name="s"):
    return parse("SELECT length('" + "x" * size + "')", name=name)


def test_half_a_statement_holds_no_server(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, max_statement_size=SMALL)
    slow, other = weir.client(), weir.client()
    for whole in (long_parse(900000), query("/*" + "x" * 900000 + "*/ PREPARE t AS SELECT 1")):
        slow.send(whole[:500000])
        assert other.value("SELECT 'other'") == "other"
        slow.send(whole[500000:-10])
        assert other.value("SELECT 'other'") == "other"
        assert weir.pool()["sv_active"] == 0
        slow.send(whole[-10:], sync())
        assert slow.read_result().types in ("1Z", "CZ")
    assert slow.read_result().types == "Z"
    assert slow.ask(bind(name="s"), execute(), sync()).rows == [["900000"]]
    assert slow.value("EXECUTE t") == "1"


TOO_LONG = {
    "Parse": (lambda size: long_parse(size), "a prepared statement of"),
    "PREPARE": (lambda size: query("PREPARE s AS SELECT '" + "x" * size + "'"), "PREPARE, EXECUTE"),
    "an unnamed PREPARE": (lambda size: parse("PREPARE s AS SELECT '" + "x" * size + "'"),
                           "a prepared statement of"),
    "a portal's name": (lambda size: bind(portal="x" * size), "the name of a statement"),
    "a statement's name": (lambda size: bind(name="x" * size), "the name of a statement"),
    "a described name": (lambda size: describe("S", "x" * size), "the name of a statement"),
    "a closed name": (lambda size: close("S", "x" * size), "the name of a statement"),
}


@pytest.mark.parametrize("make, text", TOO_LONG.values(), ids=TOO_LONG.keys())
def test_what_is_too_long_is_refused_and_not_kept(pgweir, make, text):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, max_statement_size=SMALL)
    client = weir.client()
    client.value("SELECT 1")
    before, size = weir.rss(), 24 * MB
    sent = make(size)
    client.send(sent[:2 * MB])
    refusal = client.expect("E").fields
    assert refusal["C"] == "54000" and refusal["M"].startswith(text)
    client.send(sent[2 * MB:], sync())
    if sent[:1] == b"Q":
        client.expect("Z")
    assert client.read_result().types == "Z"
    assert weir.rss() - before < 8 * MB
    assert client.value("SELECT 'on'") == "on"
    assert weir.client().value("SELECT 'other'") == "other"


@pytest.mark.parametrize("size", (300000, 3 * MB))
@pytest.mark.parametrize("comment", ("/*{}*/", "--{}\n", " {}"), ids=("block", "line", "space"))
def test_a_long_comment_in_front(pgweir, comment, size):
    weir = pgweir(pool_mode="transaction", max_statement_size=SMALL)
    client = weir.client()
    front = comment.format((" " if comment == " {}" else "x") * size)
    client.send(query(front + "SELECT 'far behind'"))
    assert client.read_result().rows == [["far behind"]]
    assert client.ask(parse(front + "SELECT 'far behind'"), bind(), execute(), sync()).rows == [
        ["far behind"]]


def test_statements_of_any_length_pass_in_pieces(pgweir):
    weir = pgweir(pool_mode="transaction", max_statement_size=SMALL)
    client = weir.client()
    before = weir.rss()
    assert client.value("SELECT length('" + "x" * 10 * MB + "')") == str(10 * MB)
    assert client.ask(long_parse(10 * MB, name=""), bind(), execute(), sync()).rows == [[str(10 * MB)]]
    assert weir.rss() - before < 8 * MB


# -- incomplete messages --------------------------------------------------------------------------


def test_no_error_within_a_row(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry})
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    client.send(query("SELECT 1"))
    server.expect("Q")
    row = fake.row("x" * 1000)
    server.send(fake.columns("c"), row[:-3])
    client.expect("T")
    server.close()
    with pytest.raises(Closed):
        client.take(len(row) - 2)
    assert client.buffer == row[:-3]


@pytest.mark.one_loop("a server with half a message does not go to another loop")
def test_rest_of_a_notice_is_not_the_next_clients(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode="session", server_reset_query="")
    first = weir.wire().startup()
    server = far.accept().login()
    first.finish_login("alice")
    first.send(query("SELECT 1"))
    server.expect("Q")
    notice = fake.notice("for the first one")
    server.send(fake.answer("1"), notice[:9])
    first.read_result()
    assert first.take(9) == notice[:9]
    first.close()
    weir.wait_pool(sv_idle=1)
    second = weir.client()
    second.send(query("SELECT 2"))
    server.expect("Q")
    server.send(notice[9:], fake.answer("2"))
    assert second.read_result().types == "TDCZ"


# -- memory ---------------------------------------------------------------------------------------


def test_who_lingers_is_not_kept(pgweir):
    weir = pgweir(query_wait_timeout=1, pool_mode="transaction")
    client = weir.client()
    weir.admin("PAUSE app")
    client.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    client.send(query("x" * 300000)[:60000], b"x" * MB)
    assert client.read().fields["M"] == "query_wait_timeout"
    before, piece = weir.rss(), b"x" * MB
    try:
        for _ in range(1000):
            client.send(piece)
    except (OSError, Closed):
        pass
    assert weir.rss() - before < 200 * MB


# -- the log --------------------------------------------------------------------------------------


def test_control_characters_stay_out_of_the_log(pgweir):
    weir = pgweir()
    client = weir.wire().startup("al\x1b[2Jice\rroot", "app")
    client.read_refusal()
    weir.wait_log("al.*ice")
    assert "\x1b" not in weir.log and "\r" not in weir.log


# -- parameters -----------------------------------------------------------------------------------


def test_reset_query_does_not_bring_startup_values_back(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, server_reset_query_always=1)
    client = weir.client(application_name="mine")
    assert client.value("SHOW application_name") == "mine"
    client.query("SET application_name = ''")
    assert client.value("SHOW application_name") == ""


# -- a server that sends FATAL and keeps the connection open
# ----------------------------------------


def test_server_that_said_goodbye_serves_nobody_else(scripted):
    _, client, server = scripted()
    client.send(query("SELECT 1"))
    server.expect("Q")
    server.send(fake.error("going", "57P01", "FATAL"), fake.answer("1"))
    client.read_result()
    server.expect("X")


def test_query_that_waits_when_the_daemon_ends_is_told(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    busy, late = weir.client(), weir.client()
    busy.query("BEGIN")
    weir.ask_admin("SHUTDOWN WAIT_FOR_SERVERS")
    late.send(query("SELECT 1"))
    assert late.read_refusal().sqlstate == "57P01"
    busy.query("COMMIT")
    assert weir.wait_exit() == 0


# -- while a key is being derived ---------------------------------------------------------------------


def ask_for_long_work(server):
    """Starts a SCRAM login whose key derivation takes a while."""
    server.send(fake.auth(10, b"SCRAM-SHA-256\0\0"))
    first = server.expect("p").body
    nonce = first[first.index(b",r=") + 3:]
    server.send(fake.auth(11, b"r=" + nonce + b"more,s=c2FsdHNhbHQ=,i=400000"))


@pytest.mark.parametrize("what", ("KILL app", "RECONNECT app", "PAUSE app", "remove"))
def test_server_is_closed_while_its_key_is_derived(pgweir, fake_server, what):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry, "other": ""}, auth_type="plain")
    client = weir.wire().startup("plain_user")
    client.expect("R")
    client.send(password("plain secret"))
    server = far.accept()
    ask_for_long_work(server)
    weir.wait_pool(user="plain_user", sv_login=1)
    server.send(b"R")  # data that arrives during the derivation is not read
    if what == "remove":
        weir.reload(databases={"other": ""})
    else:
        weir.admin(what)
    server.wait_closed()
    # The next client ends with the daemon, while its key is being derived.
    weir.reload(databases={"app": far.entry})
    weir.ask_admin("RESUME app")
    other = weir.wire().startup("plain_user")
    other.expect("R")
    other.send(password("plain secret"))
    ask_for_long_work(far.accept())


def test_clients_leave_while_their_keys_are_derived(pgweir):
    weir = pgweir(auth_type="plain", userlist={
        "slow": "SCRAM-SHA-256$400000:c2FsdHNhbHQ=$" + "A" * 43 + "=:" + "A" * 43 + "=",
        "admin": "admin secret"})
    for _ in range(5):
        client = weir.wire().startup("slow")
        client.expect("R")
        client.send(password("wrong"))
        client.reset()
    weir.reload(databases={"other": ""})
    client = weir.wire().startup("slow", "other")
    client.expect("R")
    client.send(password("wrong"), query("SELECT 1"))
    assert client.read_refusal().sqlstate == "28P01"
