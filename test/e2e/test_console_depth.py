# SPDX-License-Identifier: ISC
"""Difficult cases of the console: waiting commands, slow readers, binary, errors in pipelines."""

import asyncio
import decimal

import pytest

from .kit.wait import LIMIT, wait_until
from .kit.wire import (bind, close, describe, execute, extended, message, parse, query,
                       send_cancel, sync, terminate)

asyncpg = pytest.importorskip("asyncpg")


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction", default_pool_size=3)


@pytest.fixture
def console(weir):
    return weir.console()


# -- waiting commands -----------------------------------------------------------------------------


def waiting(weir, command, pattern=None):
    """A waiting console, and the client whose transaction it waits for."""
    client = weir.client()
    client.query("BEGIN")
    if command.startswith("WAIT_CLOSE"):
        weir.admin("RECONNECT")
    console = weir.console()
    console.send(query(command))
    weir.wait_log(f"{command.split()[0]} .*command issued")
    return console, client


@pytest.mark.parametrize("command", ("PAUSE", "PAUSE app", "WAIT_CLOSE", "WAIT_CLOSE app"))
def test_cancel_answers_the_waiting_command(weir, command):
    console, client = waiting(weir, command)
    send_cancel(weir.address, console.key)
    result = console.read_result()
    assert (result.types, result.error["C"]) == ("EZ", "57014")
    paused = dict((row["key"], row["value"]) for row in weir.admin("SHOW STATE"))["paused"]
    assert paused == "no"
    (row,) = [row for row in weir.admin("SHOW DATABASES") if row["name"] == "app"]
    assert row["paused"] == (1 if command == "PAUSE app" else 0)
    assert console.query("SHOW VERSION").tags == ["SHOW"]
    assert client.query("COMMIT").tags == ["COMMIT"]


def test_cancel_of_a_wait_close_leaves_anothers_pause(weir):
    console, client = waiting(weir, "WAIT_CLOSE")
    pauser = weir.console()
    pauser.send(query("PAUSE"))
    weir.wait_log("PAUSE command issued")
    send_cancel(weir.address, console.key)
    assert console.read_result().error["C"] == "57014"
    assert not pauser.is_closed() and pauser.buffer == b""
    client.query("COMMIT")
    assert pauser.read_result().tags == ["PAUSE"]
    weir.admin("RESUME")


@pytest.mark.parametrize("command, end", (("PAUSE", "RESUME"), ("PAUSE app", "RESUME app")))
def test_a_pause_that_is_ended_by_another(weir, command, end):
    console, _ = waiting(weir, command)
    weir.admin(end)
    result = console.read_result()
    assert (result.types, result.error["C"]) == ("EZ", "57014")
    assert console.query("SHOW VERSION").tags == ["SHOW"]


def test_what_was_sent_behind_a_waiting_command_is_done_after_it(weir):
    console, client = waiting(weir, "PAUSE")
    console.send(query("RESUME"), query("SHOW VERSION"))
    client.query("COMMIT")
    assert [console.read_result().tags for _ in range(3)] == [["PAUSE"], ["RESUME"], ["SHOW"]]


def test_waiting_in_the_extended_protocol(weir):
    client = weir.client()
    client.query("BEGIN")
    console = weir.console()
    console.send(extended("PAUSE"), extended("RESUME"))
    console.expect("12n")
    client.query("COMMIT")
    console.expect("CZ")
    assert console.read_result().tags == ["RESUME"]


def test_one_console_kills_another_that_waits(weir):
    console, client = waiting(weir, "WAIT_CLOSE")
    other, _ = waiting(weir, "WAIT_CLOSE")
    ids = {row["ptr"]: row["id"] for row in weir.admin("SHOW CLIENTS")
           if row["database"] == "pgbouncer"}
    # Both waits end in one turn; the next command of the first console ends the other.
    for number in sorted(ids.values()):
        console.send(query(f"KILL_CLIENT {number}"))
    client.query("COMMIT")
    weir.disconnect()
    assert weir.admin("SHOW VERSION")
    other.close()


def goodbye(console):
    """As psql ends: a Terminate message, and the connection closes at once."""
    console.send(terminate())
    console.close()


@pytest.mark.parametrize("leave", (lambda console: console.close(), lambda console: console.reset(),
                                   goodbye), ids=("close", "reset", "goodbye"))
@pytest.mark.parametrize("command, end", (("PAUSE", "RESUME"), ("PAUSE app", "RESUME app"),
                                          ("WAIT_CLOSE", None), ("DRAIN", "RESUME")))
def test_a_console_that_leaves_while_it_waits(weir, command, end, leave):
    """It disconnects while its command still waits; the command stays in effect."""
    console, client = waiting(weir, command)
    leave(console)
    wait_until(lambda: [row["database"] for row in weir.admin("SHOW CLIENTS")].count("pgbouncer")
               == 1, what="the waiting console went")
    assert client.query("COMMIT").tags == ["COMMIT"]
    if end:
        weir.admin(end)
    assert weir.client().value("SELECT 1") == "1"


def test_a_reload_that_takes_the_database_away(pgweir):
    weir = pgweir(pool_mode="transaction", databases={"app": "", "app2": ""})
    console, _ = waiting(weir, "PAUSE app")
    weir.configure(databases={"app2": ""}, pool_mode="transaction")
    weir.admin("RELOAD")
    assert console.read_result().types == "EZ"


def test_kill_client_of_oneself(weir, console):
    (number,) = [row["id"] for row in console.query("SHOW CLIENTS").dicts()]
    console.send(query(f"KILL_CLIENT {number}"), query("SHOW VERSION"))
    assert console.read_refusal().text == "admin forced disconnect"


# -- small talk -----------------------------------------------------------------------------------


def test_begin_is_remembered(console):
    assert console.query("BEGIN").status == "T"
    assert console.query("SHOW VERSION").status == "T"
    assert console.query("NONSENSE").status == "T"
    assert console.query("COMMIT").status == "I"


def test_small_talk_in_one_query(console):
    result = console.query("SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;")
    assert result.types == "TDCCCCZ"
    assert result.tags == ["SELECT 1", "CLOSE CURSOR ALL", "UNLISTEN", "RESET"]
    assert console.query("BEGIN; SELECT 1; COMMIT").types == "CTDCCZ"


def test_other_things_do_not_go_along_with_small_talk(weir, console):
    result = console.query("BEGIN; PAUSE")
    assert (result.types, result.status) == ("EZ", "I")
    assert not weir.pool()["sv_active"]


def test_too_much_small_talk(console):
    assert console.query("BEGIN;" * 1000).types == "EZ"


def test_deallocate(console):
    console.send(parse("SHOW VERSION", name="a"), parse("SHOW VERSION", name="b"), sync())
    assert console.read_result().types == "11Z"
    console.query('DEALLOCATE "a"')
    console.send(bind(name="a"), sync())
    assert console.read_result().error["C"] == "26000"
    console.query("DISCARD ALL")
    console.send(bind(name="b"), sync())
    assert console.read_result().error["C"] == "26000"


# -- the extended protocol ------------------------------------------------------------------------


@pytest.mark.parametrize("code, parts", (
    ("0A000", (parse("SHOW VERSION", types=(25,)),)),
    ("0A000", (parse("SHOW VERSION"), bind(values=("x",)))),
    ("26000", (bind(name="none"),)),
    ("26000", (describe("S", "none"),)),
    ("34000", (describe("P", "none"),)),
    ("34000", (execute("none"),)),
    ("42P05", (parse("SHOW VERSION", name="a"), parse("SHOW VERSION", name="a"))),
    ("42601", (parse("NONSENSE"),)),
    ("22023", (parse("SHOW VERSION"), bind(result_format=7))),
    ("55000", (parse("RELOAD"), bind(), execute(), execute())),
    ("08P01", (message("P", b"broken"),)),
    ("08P01", (message("B", b""),)),
))
def test_errors(console, code, parts):
    console.send(*parts, parse("SHOW VERSION"), bind(), execute(), query("SHOW VERSION"), sync())
    result = console.read_result()
    assert [error["C"] for error in result.errors] == [code]
    assert set(result.error) <= set("SCM")
    assert result.types.endswith("EZ")
    assert console.query("SHOW VERSION").tags == ["SHOW"]


def test_portals_end_with_sync(console):
    console.send(parse("SHOW LISTS"), bind(portal="p"), execute("p", limit=1), sync())
    assert console.read_result().types == "12DsZ"
    console.send(execute("p"), sync())
    assert console.read_result().error["C"] == "34000"


def test_portals_of_a_transaction_stay(console):
    console.query("BEGIN")
    console.send(parse("SHOW LISTS"), bind(portal="p"), execute("p", limit=1), sync())
    assert console.read_result().types == "12DsZ"
    console.send(execute("p", limit=12), execute("p"), execute("p"), close("P", "p"), sync())
    assert console.read_result().types == "D" * 12 + "s" + "D" + "C" + "C" + "3Z"
    console.query("COMMIT")


def test_there_is_one_portal_at_a_time(console):
    console.query("BEGIN")
    console.send(parse("SHOW LISTS"), bind(portal="a"), execute("a", limit=1),
                 parse("SHOW VERSION"), bind(portal="b"), execute("b"), close("P", "a"),
                 describe("P", "b"), execute("a"), sync())
    result = console.read_result()
    assert (result.types, result.error["C"]) == ("12Ds12DC3TEZ", "34000")


@pytest.mark.parametrize("kind", "Fz")
def test_strange_messages(weir, console, kind):
    console.send(message(kind, b"\0\0\0\0"))
    if kind == "F":
        assert console.read_result().types == "EZ"
        assert console.query("SHOW VERSION").tags == ["SHOW"]
    else:
        assert "unsupported packet type for admin console: 122" in \
            console.read_result().error["M"]
        refused = console.read_refusal()
        assert (refused.severity, refused.text) == ("FATAL", "bad packet")


def test_terminate(console):
    console.send(query("SHOW VERSION"), terminate())
    assert console.read_result().tags == ["SHOW"]
    console.wait_closed()


def test_binary(weir):
    client = weir.client()
    for _ in range(3):
        client.query("SELECT 1")

    async def talk():
        connection = await asyncpg.connect(host="127.0.0.1", port=weir.port, user="admin",
                                           database="pgbouncer", timeout=LIMIT)
        try:
            rows = await connection.fetch("SHOW STATS_TOTALS")
            (row,) = [row for row in rows if row["database"] == "app"]
            assert row["query_count"] == decimal.Decimal(3)
            assert row["bytes_sent"] > 100
            rows = await connection.fetch("SHOW CLIENTS")
            assert {row["user"] for row in rows} == {"alice", "admin"}
            assert all(row["id"] > 0 for row in rows)
            async with connection.transaction():
                assert [row async for row in connection.cursor("SHOW LISTS", prefetch=3)]
            assert await connection.fetchval("SELECT 1") == 1
        finally:
            await connection.close()

    asyncio.run(talk())


def test_psycopg_in_binary(weir):
    connection = weir.connect("pgbouncer", "admin")
    with connection.cursor(binary=True) as cursor:
        rows = cursor.execute("SHOW POOLS").fetchall()
        assert rows[0][:3] == ("pgbouncer", "pgbouncer", 1)
        totals = dict(cursor.execute("SHOW TOTALS").fetchall())
        assert totals["total_client_login_count"] >= 1


# -- settings -------------------------------------------------------------------------------------


def test_boot_only_settings_say_so(console):
    result = console.query("SET listen_port = 1234")
    assert result.tags == ["SET listen_port=1234"]
    assert "restart" in result.notices[0]["M"]


def test_a_refused_value_says_why(console):
    result = console.query("SET default_pool_size = many")
    assert result.error["M"] == "SET failed" and result.error["C"] == "22023"
    assert "many" in result.notices[0]["M"]


def test_a_failed_reload_says_so(weir, console):
    weir.configure(ini="nonsense")
    result = console.query("RELOAD")
    assert (result.error["C"], result.error["M"]) == \
        ("F0000", "RELOAD failed, see logs for additional details")
    assert "pgweir.ini:1: " in result.notices[0]["M"]
    weir.configure()


def test_errors_are_logged(weir, console):
    console.query("NONSENSE")
    weir.wait_log("ERROR C-.*invalid command 'NONSENSE', use SHOW HELP;")


def test_a_long_query_is_one_short_line_in_the_log(weir, console):
    r"""psql's \d, \l and \du have many lines; the client gets more of the text than the log."""
    sql = 'SELECT n.nspname as "Schema",\n  c.relname\n\tas "Name"' + ",\n  x" * 100 + " FROM y"
    said = console.query(sql).error["M"]
    assert said.startswith(f"invalid command '{sql[:100]}") and len(said) > 300
    line = weir.wait_log("^.*ERROR C-.* (invalid command .*)$").group(1)
    assert line.startswith("invalid command 'SELECT n.nspname as \"Schema\", c.relname as \"Name\", x")
    assert line.endswith("...") and len(line) == 163
    console.query("SELECT '" + "\u00e4" * 300 + "'")
    weir.wait_log("invalid command 'SELECT '...$")
    assert all(line[:2] == "20" for line in weir.log.splitlines())


# -- slow readers ---------------------------------------------------------------------------------


@pytest.mark.limit(180)
def test_what_goes_while_it_is_shown(pgweir):
    databases = {f"database_{number:05}": f"host=127.0.0.1 port=1 dbname={'x' * 60}"
                 for number in range(20000)}
    weir = pgweir(databases=databases)
    console = weir.console()
    other = weir.console()
    console.send(query("SHOW DATABASES"))
    console.read_until("T")
    weir.configure(databases={"app": ""})
    assert other.query("RELOAD").tags == ["RELOAD"]
    rows = console.read_result().rows
    names = [row[0] for row in rows]
    assert names == sorted(names) and len(set(names)) == len(names)
    assert len(names) < 20000 and "pgbouncer" in names
    assert len(console.query("SHOW DATABASES").rows) == 2


@pytest.mark.limit(180)
def test_cancel_ends_a_long_show(pgweir):
    databases = {f"database_{number:05}": f"host=127.0.0.1 port=1 dbname={'x' * 60}"
                 for number in range(20000)}
    weir = pgweir(databases=databases)
    console = weir.console()
    console.send(query("SHOW DATABASES"))
    console.read_until("T")
    send_cancel(weir.address, console.key)
    weir.wait_log("canceling statement due to user request")
    result = console.read_result()
    assert result.error["C"] == "57014" and len(result.rows) < 20000
    assert console.query("SHOW VERSION").tags == ["SHOW"]


def test_clients_go_while_they_are_shown(weir):
    console = weir.console()
    clients = [weir.client() for _ in range(30)]
    for _ in range(20):
        console.send(query("SHOW CLIENTS") * 20)
        clients.pop().reset()
        for _ in range(20):
            assert console.read_result().tags == ["SHOW"]
    wait_until(lambda: len(console.query("SHOW CLIENTS").rows) == 11)
