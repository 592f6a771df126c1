# SPDX-License-Identifier: ISC
"""The console of a process with several event loops: its tables show all loops, its commands act on
all, and what waits is answered when the last loop is done.
"""

import re
import select
import signal

import pytest

from .kit.wait import wait_until
from .kit.wire import bind, execute, parse, query, refusal, send_cancel, sync

LOOPS = 3
CLIENTS = 6


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction", default_pool_size=10, loops=LOOPS)


def crowd(weir, count=CLIENTS, **kw):
    """Clients that are logged in, some in each loop."""
    clients = [weir.client(**kw) for _ in range(count)]
    if count >= LOOPS:
        assert all(row["clients"] for row in weir.admin("SHOW LOOPS"))
    return clients


def by(rows, key, value):
    (row,) = [row for row in rows if row[key] == value]
    return row


def items(weir):
    return {row["list"]: row["items"] for row in weir.admin("SHOW LISTS")}


def ids(weir, table, **wanted):
    return [row["id"] for row in weir.admin(f"SHOW {table}")
            if all(row[name] == value for name, value in wanted.items())]


def times_logged(weir, pattern):
    """At least once; the log may be written later."""
    weir.wait_log(pattern)
    return len(re.findall(pattern, weir.log))


def is_silent(wire):
    return not select.select([wire.sock], [], [], 0)[0]


# -- RELOAD ---------------------------------------------------------------------------------------


def test_a_database_that_comes_back_is_not_paused_in_any_loop(weir):
    clients = crowd(weir)
    for client in clients[:3]:
        client.query("BEGIN")
    weir.admin("DISABLE app")
    weir.disconnect_console()
    weir.reload(databases={"other": "dbname=app"})
    weir.reload(databases={"app": ""})
    for client in crowd(weir):
        assert client.value("SELECT 1") == "1"
    assert by(weir.admin("SHOW DATABASES"), "name", "app")["paused"] == 0


# -- SHOW -----------------------------------------------------------------------------------------


def test_loops(weir):
    clients = crowd(weir)
    for client in clients:
        client.query("BEGIN")
    rows = weir.admin("SHOW LOOPS")
    assert [row["loop"] for row in rows] == list(range(LOOPS))
    assert sum(row["clients"] for row in rows) == CLIENTS + 1  # and the console
    assert max(row["clients"] for row in rows) - min(row["clients"] for row in rows) <= 1
    assert sum(row["servers"] for row in rows) == CLIENTS
    assert [row["active_servers"] for row in rows] == [row["servers"] for row in rows]
    assert all(row["turns"] > 0 and row["cpu_time"] > 0 for row in rows)
    for client in clients:
        client.query("COMMIT")
    weir.wait_pool(sv_active=0)
    assert sum(row["idle_servers"] for row in weir.admin("SHOW LOOPS")) == CLIENTS
    again = weir.admin("SHOW LOOPS")
    assert all(now["turns"] >= was["turns"] and now["cpu_time"] >= was["cpu_time"]
               for now, was in zip(again, rows))
    assert sum(row["servers_in"] for row in again) == sum(row["servers_out"] for row in again)


def test_one_loop_has_one_row(pgweir):
    (row,) = pgweir(loops=1).admin("SHOW LOOPS")
    assert (row["loop"], row["clients"], row["servers_in"]) == (0, 1, 0)


def test_connections_of_all_loops(weir):
    clients = crowd(weir)
    for client in clients:
        client.query("BEGIN")
    for table, count in (("CLIENTS", CLIENTS), ("SERVERS", CLIENTS), ("TRANSACTIONS", CLIENTS),
                         ("SOCKETS", 2 * CLIENTS)):
        found = ids(weir, table, database="app")
        assert len(found) == len(set(found)) == count
    links = {row["ptr"]: row["link"] for row in weir.admin("SHOW SERVERS")}
    assert {row["link"]: row["ptr"] for row in weir.admin("SHOW CLIENTS app")} == links
    fds = weir.admin("SHOW FDS")
    assert sum(row["task"] == "client" for row in fds) == CLIENTS + 1
    assert sum(row["task"] == "server" for row in fds) == CLIENTS


def test_one_row_for_a_pool_a_database_and_a_user(weir):
    clients = crowd(weir)
    for client in clients:
        client.query("BEGIN")
    (pool,) = weir.admin("SHOW POOLS app")
    assert (pool["cl_active"], pool["sv_active"], pool["cl_waiting"]) == (CLIENTS, CLIENTS, 0)
    database = by(weir.admin("SHOW DATABASES"), "name", "app")
    user = by(weir.admin("SHOW USERS"), "name", "alice")
    for row in (database, user):
        assert (row["current_connections"], row["current_client_connections"]) == \
            (CLIENTS, CLIENTS)
    lists = items(weir)
    assert (lists["databases"], lists["pools"], lists["used_clients"], lists["used_servers"]) == \
        (4, 2, CLIENTS + 1, CLIENTS)
    assert lists["users"] == len(weir.admin("SHOW USERS"))
    assert by(weir.admin("SHOW MEM"), "name", "server_cache")["used"] == CLIENTS
    limit = [row for row in weir.admin("SHOW LIMITS")
             if (row["limit"], row["database"], row["user"]) == ("pool_size", "app", "alice")]
    assert [row["used"] for row in limit] == [CLIENTS]


def test_statistics_are_sums(weir):
    for client in crowd(weir):
        client.query("SELECT 1")
    row = by(weir.admin("SHOW STATS"), "database", "app")
    assert (row["total_xact_count"], row["total_client_login_count"]) == (CLIENTS, CLIENTS)
    assert by(weir.admin("SHOW TOTALS"), "name", "total_server_assignment_count")["value"] == \
        CLIENTS


def test_reasons_are_counted_together(weir):
    for client in crowd(weir):
        client.close()
    wait_until(lambda: items(weir)["used_clients"] == 1)
    (row,) = [row for row in weir.admin("SHOW ERRORS") if row["type"] == "C"]
    assert row["count"] == CLIENTS


def test_the_order_of_waiting_is_that_of_all_loops(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, loops=LOOPS)
    clients = crowd(weir)
    clients[0].query("BEGIN")
    for number, client in enumerate(clients[1:], 1):
        client.send(query("SELECT 1"))
        weir.wait_pool(cl_waiting=number)
    rows = weir.admin("SHOW WAITING")
    assert [row["place"] for row in rows] == list(range(1, CLIENTS))
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    assert all(re.search(r"^1 server, pool_size 1; longest held by alice@127\.0\.0\.1 ",
                         row["detail"]) for row in rows)
    pool = weir.pool()
    assert pool["maxwait"] * 1000000 + pool["maxwait_us"] >= \
        rows[0]["wait"] * 1000000 + rows[0]["wait_us"]
    assert [row["hits"] for row in weir.admin("SHOW LIMITS HIT")
            if row["limit"] == "pool_size"] == [CLIENTS - 1]
    clients[0].query("COMMIT")
    assert all(client.read_result().tags == ["SELECT 1"] for client in clients[1:])


def test_waiting_is_shown_in_pieces(pgweir):
    """Each piece begins where the one before has ended, in each loop."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1, loops=LOOPS)
    clients = crowd(weir)
    clients[0].query("BEGIN")
    for number, client in enumerate(clients[1:], 1):
        client.send(query("SELECT 1"))
        weir.wait_pool(cl_waiting=number)
    console = weir.console()
    console.send(parse("SHOW WAITING"), bind(), *[execute(limit=2)] * 3, sync())
    names = [column.name for column in weir.ask_admin("SHOW WAITING").columns]
    rows = [dict(zip(names, row)) for row in console.read_result().rows]
    assert [row["place"] for row in rows] == [str(place) for place in range(1, CLIENTS)]


def test_walks_survive_clients_of_other_loops(weir):
    clients = crowd(weir, 3 * LOOPS)
    console = weir.console()
    console.query("BEGIN")
    console.send(parse("SHOW CLIENTS app"), bind(portal="p"), execute("p", limit=2), sync())
    assert len(console.read_result().rows) == 2
    for client in clients:
        client.close()
    wait_until(lambda: items(weir)["used_clients"] == 2)
    console.send(execute("p", limit=2), execute("p"), sync())
    result = console.read_result()
    assert not result.errors and result.rows == []
    console.send(parse("SHOW CLIENTS"), bind(portal="q"), execute("q", limit=1), sync())
    console.read_result()
    console.close()  # with a walk in the middle
    assert len(weir.admin("SHOW LOOPS")) == LOOPS


# -- commands -------------------------------------------------------------------------------------


def test_pause_waits_for_all_loops(weir):
    clients = crowd(weir)
    for client in clients:
        client.query("BEGIN")
    console = weir.console()
    console.send(query("PAUSE"))
    weir.wait_log("PAUSE command issued")
    for client in clients[:-1]:
        client.query("COMMIT")
    weir.wait_pool(sv_active=1)
    assert is_silent(console)
    clients[-1].query("COMMIT")
    assert console.read_result().tags == ["PAUSE"]
    weir.wait_pool(sv_active=0, sv_idle=0, sv_used=0)
    for client in clients:
        client.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=CLIENTS)
    assert {row["reason"] for row in weir.admin("SHOW WAITING")} == {"paused"}
    assert weir.ask_admin("RESUME").tags == ["RESUME"]
    assert all(client.read_result().tags == ["SELECT 1"] for client in clients)


def test_cancel_of_a_pause_lets_all_loops_go_on(weir):
    clients = crowd(weir)
    clients[-1].query("BEGIN")
    console = weir.console()
    console.send(query("PAUSE"))
    weir.wait_log("PAUSE command issued")
    send_cancel(weir.address, console.key)
    assert console.read_result().error["C"] == "57014"
    clients[-1].query("COMMIT")
    assert all(client.query("SELECT 1").tags == ["SELECT 1"] for client in clients)


def test_a_database_made_by_the_star_is_paused_and_disabled_everywhere(pgweir, postgres):
    weir = pgweir(databases={"*": "dbname=app"}, pool_mode="transaction", loops=LOOPS)
    clients = crowd(weir, database="any")
    assert weir.ask_admin("PAUSE any").tags == ["PAUSE"]
    for client in clients:
        client.send(query("SELECT 1"))
    weir.wait_pool(database="any", cl_waiting=CLIENTS)
    assert by(weir.admin("SHOW DATABASES"), "name", "any")["paused"] == 1
    assert weir.ask_admin("RESUME any").tags == ["RESUME"]
    assert all(client.read_result().tags == ["SELECT 1"] for client in clients)
    assert weir.ask_admin("DISABLE never").tags == ["DISABLE"]
    for _ in range(2 * LOOPS):
        assert refusal(weir.address, database="never").text == 'database "never" is disabled'
    assert weir.ask_admin("ENABLE never").tags == ["ENABLE"]
    crowd(weir, database="never")


def test_a_database_of_the_star_expires_while_commands_name_it(pgweir):
    """Each acts on that one only, in all loops: the other clients are served on."""
    weir = pgweir(databases={"app": "dbname=app", "*": "dbname=app"}, pool_mode="transaction", loops=LOOPS,
                  autodb_idle_timeout="0.001")
    clients = crowd(weir)
    for number in range(20):
        for command in ("PAUSE", "RESUME", "DISABLE", "ENABLE", "KILL", "RESUME"):
            assert weir.ask_admin(f"{command} d{number}").tags == [command]
        assert all(client.value("SELECT 1") == "1" for client in clients)


def test_kill_pauses_the_database_for_all_loops(weir):
    """Only one loop has a pool when it comes."""
    clients = crowd(weir, 1)
    assert weir.ask_admin("KILL").tags == ["KILL"]
    assert clients[0].read_refusal().text == "database removed"
    assert by(weir.admin("SHOW DATABASES"), "name", "app")["paused"] == 1
    late = [weir.wire().startup() for _ in range(CLIENTS)]
    weir.wait_pool(cl_waiting=CLIENTS)
    assert weir.ask_admin("RESUME app").tags == ["RESUME"]
    for client in late:
        client.read_until("Z")


def test_kill_reaches_the_clients_of_all_loops(weir):
    clients = crowd(weir)
    clients[1].query("BEGIN")
    assert weir.ask_admin("KILL app").tags == ["KILL"]
    assert {client.read_refusal().text for client in clients} == {"database removed"}
    weir.wait_pool(cl_active=0, sv_active=0, sv_idle=0)


def test_kill_client_finds_it_in_any_loop(weir):
    clients = crowd(weir)
    for number in ids(weir, "CLIENTS", database="app"):
        assert weir.ask_admin(f"KILL_CLIENT {number}").tags == ["KILL_CLIENT"]
    assert {client.read_refusal().text for client in clients} == {"admin forced disconnect"}


def test_reconnect_and_wait_close(weir):
    clients = crowd(weir)
    for client in clients:
        client.query("BEGIN")
    old = set(ids(weir, "SERVERS"))
    assert weir.ask_admin("RECONNECT app").tags == ["RECONNECT"]
    assert {row["close_needed"] for row in weir.admin("SHOW SERVERS")} == {1}
    console = weir.console()
    console.send(query("WAIT_CLOSE app"))
    for client in clients:
        assert is_silent(console)
        client.query("COMMIT")
    assert console.read_result().tags == ["WAIT_CLOSE"]
    assert all(client.query("SELECT 1").tags == ["SELECT 1"] for client in clients)
    assert not old & set(ids(weir, "SERVERS"))


def test_suspend(weir):
    clients = crowd(weir)
    for client in clients:
        client.query("SELECT 1")
    assert weir.ask_admin("SUSPEND").tags == ["SUSPEND"]
    for client in clients:
        client.send(query("SELECT 2"))
    assert all(is_silent(client) for client in clients)
    assert weir.ask_admin("RESUME").tags == ["RESUME"]
    assert all(client.read_result().tags == ["SELECT 1"] for client in clients)
    assert times_logged(weir, "LOG suspended") == 1


def test_drain_is_one_for_all_loops(weir):
    clients = crowd(weir)
    for client in clients:
        client.query("BEGIN")
    console = weir.console()
    console.send(query("DRAIN"))
    wait_until(lambda: weir.admin("SHOW DRAIN")[0]["working"] == CLIENTS)
    for client in clients[:-1]:
        client.query("COMMIT")
        client.read_refusal()
        client.close()
    wait_until(lambda: weir.admin("SHOW DRAIN")[0]["clients"] == 1)
    row = weir.admin("SHOW DRAIN")[0]
    assert (row["state"], row["closed"]) == ("draining", CLIENTS - 1)
    clients[-1].query("COMMIT")
    clients[-1].read_refusal()
    clients[-1].close()
    assert console.read_result().tags == ["DRAIN"]
    assert weir.admin("SHOW DRAIN")[0]["state"] == "drained"
    assert times_logged(weir, f"draining: {CLIENTS} clients left, {CLIENTS} of them") == 1
    assert times_logged(weir, f"drained: no client is left; {CLIENTS} closed between") == 1
    assert weir.ask_admin("RESUME").tags == ["RESUME"]
    assert times_logged(weir, "DRAIN ended, accepting clients") == 1
    assert all(client.query("SELECT 1").tags == ["SELECT 1"] for client in crowd(weir))


def test_the_deadline_of_drain_is_one_for_all_loops(weir):
    clients = crowd(weir)
    for client in clients:
        client.query("BEGIN")
    console = weir.console()
    console.send(query("DRAIN 1"))
    for client in clients:
        assert client.read_refusal().text == "the deadline of DRAIN has passed"
        client.close()
    assert console.read_result().tags == ["DRAIN"]
    assert times_logged(weir, f"closing the {CLIENTS} clients left") == 1
    assert weir.admin("SHOW DRAIN")[0]["cut"] == CLIENTS


@pytest.mark.parametrize("how", ("SHUTDOWN WAIT_FOR_CLIENTS", signal.SIGTERM))
def test_a_shutdown_waits_for_the_clients_of_all_loops(weir, how):
    clients = crowd(weir)
    if isinstance(how, str):
        weir.ask_admin(how)
    else:
        weir.process.send_signal(how)
    weir.disconnect_console()
    for client in clients:
        assert client.query("SELECT 1").tags == ["SELECT 1"]
        assert weir.process.poll() is None
        client.close()
    assert weir.wait_exit() == 0


def test_a_shutdown_waits_for_the_servers_of_all_loops(weir):
    clients = crowd(weir)
    for client in clients:
        client.query("BEGIN")
    weir.ask_admin("SHUTDOWN WAIT_FOR_SERVERS")
    for client in clients:
        assert weir.process.poll() is None
        assert client.query("COMMIT").tags == ["COMMIT"]
    assert weir.wait_exit() == 0


def test_settings_reach_all_loops(weir):
    clients = crowd(weir)
    weir.ask_admin("SET idle_transaction_timeout = 0.2")
    for client in clients:
        client.query("BEGIN")
    assert {client.read_refusal().text for client in clients} == {"idle transaction timeout"}
