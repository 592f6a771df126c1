# SPDX-License-Identifier: ISC
"""Every command of the console: effect, response, and required privileges."""

import re
import signal

import pytest

from .kit.wait import wait_until
from .kit.wire import Closed, Refused, Wire, query, refusal


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction", default_pool_size=3)


def fails(weir, command):
    result = weir.ask_admin(command)
    assert result.error, f"{command} was done"
    assert result.error["S"] == "ERROR" and result.status == "I"
    return result.error["M"]


def tags(weir, command):
    result = weir.ask_admin(command)
    assert not result.errors, result.error
    return result.tags


# -- grammar --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ("NONSENSE", "SHOW", "SHOW NONSENSE", "SHOW VERSION NOW", "SHOW POOLS;;",
                                  "SHOW POOLS; SHOW POOLS", "PAUSE a b", "SELECT 1 + 1", "RELOAD app",
                                  "SET", "SET x", "KILL_CLIENT"))
def test_what_is_no_command(same_pgweir, text):
    weir = same_pgweir()
    said = fails(weir, text)
    assert said == f"invalid command '{text}', use SHOW HELP;" or "argument" in said \
        or "SET failed" in said or "pointer" in said
    assert tags(weir, "SHOW VERSION") == ["SHOW"]


def test_error_shape(weir):
    result = weir.ask_admin("NONSENSE")
    assert result.types == "EZ"
    assert result.error["M"] == "invalid command 'NONSENSE', use SHOW HELP;"


def test_overlong_words(weir):
    for text in ("X" * 200, "PAUSE " + "x" * 300, "SET " + "k" * 300 + " = 1",
                 "SHOW " + "y" * 100000):
        fails(weir, text)
    assert tags(weir, "SHOW VERSION") == ["SHOW"]


def test_databases_are_case_sensitive_and_may_be_quoted(pgweir):
    weir = pgweir(databases={"My-Db": "dbname=app", "app": ""})
    assert tags(weir, 'PAUSE "My-Db"') == ["PAUSE"]
    assert tags(weir, 'resume "My-Db";') == ["RESUME"]
    assert fails(weir, "PAUSE APP") == "no such database: APP"


def test_an_empty_name_is_that_of_no_database(pgweir):
    """Also where there is an entry for all names: it does not mean all databases."""
    weir = pgweir(databases={"*": ""})
    client = weir.client()
    for command in ("PAUSE", "RESUME", "DISABLE", "ENABLE", "KILL", "RECONNECT", "WAIT_CLOSE"):
        assert fails(weir, f'{command} ""') == "no such database: "
    assert client.value("SELECT 1") == "1"


@pytest.mark.parametrize("end", "\r\n")
def test_names_with_the_end_of_a_line(weir, end):
    """They are names as others are, and begin no line of the log."""
    name = f"app{end}2026 FATAL x"
    for command in ("PAUSE", "RESUME", "DISABLE", "ENABLE", "KILL", "RECONNECT", "WAIT_CLOSE"):
        assert fails(weir, f'{command} "{name}"') == f"no such database: {name}"
    for text in (f'SET "{name}" = 1', f"SET default_pool_size = '9{end}'", f'SHOW "{name}"'):
        fails(weir, text)
    assert weir.client().value("SELECT 1") == "1"
    assert not re.search(r"(^|\r)2026 FATAL", weir.log, re.MULTILINE)


# -- SET and RELOAD -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ("SET {} = {}", "SET {} TO {}", "SET {} = '{}'", "set {}='{}';"))
def test_set(weir, form):
    assert tags(weir, form.format("default_pool_size", 9)) in (["SET default_pool_size=9"], ["SET"])
    config = {row["key"]: row["value"] for row in weir.admin("SHOW CONFIG")}
    assert config["default_pool_size"] == "9"


def test_set_echoes(weir):
    assert tags(weir, "SET default_pool_size = 9") == ["SET default_pool_size=9"]


def test_set_works(weir):
    weir.admin("SET default_pool_size = 1")
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    holder.query("COMMIT")


def test_set_is_forgotten_at_reload(weir):
    weir.admin("SET default_pool_size = 9")
    weir.admin("RELOAD")
    config = {row["key"]: row["value"] for row in weir.admin("SHOW CONFIG")}
    assert config["default_pool_size"] == "3"


@pytest.mark.parametrize("words", ("no_such_setting = 1", "default_pool_size = many",
                                   "pool_mode = none", "server_lifetime = -1"))
def test_bad_set(weir, words):
    assert "SET failed" in fails(weir, f"SET {words}")


@pytest.mark.parametrize("name, value", (
    ("client_encoding", "UTF-8"), ("default_transaction_isolation", "read committed"),
    ("standard_conforming_strings", "on"), ("datestyle", "ISO"), ("timezone", "GMT")))
def test_what_drivers_ask_for(weir, name, value):
    result = weir.ask_admin(f"SHOW {name}")
    assert [column.name for column in result.columns] == [name]
    assert result.rows == [[value]] and result.tags == ["SHOW"]
    result = weir.ask_admin(f"SET {name} = 'x'")
    assert result.tags == ["SET"]
    assert [said["M"] for said in result.notices] == ["SET ignored"]


def test_reload(weir):
    assert tags(weir, "RELOAD") == ["RELOAD"]
    weir.reload(default_pool_size=5)
    config = {row["key"]: row["value"] for row in weir.admin("SHOW CONFIG")}
    assert config["default_pool_size"] == "5"
    weir.wait_log("RELOAD command issued")


# -- PAUSE and RESUME -----------------------------------------------------------------------------


def test_pause_holds_queries_back(weir):
    client = weir.client()
    client.query("SELECT 1")
    assert tags(weir, "PAUSE") == ["PAUSE"]
    assert weir.pool()["sv_idle"] == 0
    client.send(query("SELECT 'after'"))
    weir.wait_pool(cl_waiting=1)
    assert tags(weir, "RESUME") == ["RESUME"]
    assert client.read_result().rows == [["after"]]


def test_pause_waits_for_transactions(weir):
    client = weir.client()
    client.query("BEGIN")
    console = weir.console()
    console.send(query("PAUSE"))
    weir.wait_log("PAUSE command issued")
    assert client.query("SELECT 1").tags == ["SELECT 1"]
    assert console.buffer == b"" and not console.is_closed() and console.buffer == b""
    client.query("COMMIT")
    assert console.read_result().tags == ["PAUSE"]
    weir.admin("RESUME")


def test_pause_of_one_database(weir):
    first, second = weir.client(), weir.client(database="app2")
    first.query("SELECT 1")
    assert tags(weir, "PAUSE app") == ["PAUSE"]
    first.send(query("SELECT 'later'"))
    weir.wait_pool(cl_waiting=1)
    assert second.value("SELECT 1") == "1"
    (row,) = [row for row in weir.admin("SHOW DATABASES") if row["name"] == "app"]
    assert row["paused"] == 1
    assert tags(weir, "RESUME app") == ["RESUME"]
    assert first.read_result().rows == [["later"]]


def test_pause_errors(weir):
    assert fails(weir, "RESUME") == "pooler is not paused/suspended"
    assert fails(weir, "RESUME app") == "database app is not paused"
    assert fails(weir, "PAUSE nowhere") == "no such database: nowhere"
    assert fails(weir, "RESUME nowhere") == "no such database: nowhere"
    assert fails(weir, "PAUSE pgbouncer") == "cannot pause admin db: pgbouncer"
    weir.admin("PAUSE")
    assert fails(weir, "PAUSE") == "already suspended/paused"
    weir.admin("RESUME")


def test_cancel_ends_a_waiting_pause(weir):
    from .kit.wire import send_cancel
    client = weir.client()
    client.query("BEGIN")
    console = weir.console()
    console.send(query("PAUSE"))
    weir.wait_log("PAUSE command issued")
    send_cancel(weir.address, console.key)
    wait_until(lambda: weir.admin("SHOW STATE")[0]["value"] == "yes")
    assert client.query("COMMIT").tags == ["COMMIT"]
    assert weir.client().value("SELECT 1") == "1"


def test_new_logins_during_a_pause(weir):
    weir.client().query("SELECT 1")
    weir.admin("PAUSE")
    late = weir.client()
    late.send(query("SELECT 'late'"))
    weir.wait_pool(cl_waiting=1)
    weir.admin("RESUME")
    assert late.read_result().rows == [["late"]]


# -- DISABLE, ENABLE ------------------------------------------------------------------------------


def test_disable(weir):
    client = weir.client()
    assert tags(weir, "DISABLE app") == ["DISABLE"]
    refused = refusal(weir.address)
    assert refused.text == 'database "app" is disabled'
    assert client.value("SELECT 1") == "1"
    weir.client(database="app2")
    (row,) = [row for row in weir.admin("SHOW DATABASES") if row["name"] == "app"]
    assert row["disabled"] == 1
    assert tags(weir, "ENABLE app") == ["ENABLE"]
    weir.client()
    assert tags(weir, "ENABLE app") == ["ENABLE"]


@pytest.mark.parametrize("word", ("DISABLE", "ENABLE"))
def test_disable_errors(weir, word):
    assert fails(weir, word) == "a database is required"
    assert fails(weir, f"{word} nowhere") == "no such database: nowhere"
    assert fails(weir, f"{word} pgbouncer") == f"cannot {word.lower()} admin db: pgbouncer"


# -- RECONNECT, WAIT_CLOSE ------------------------------------------------------------------------


@pytest.mark.parametrize("words", ("RECONNECT", "RECONNECT app"))
def test_reconnect(weir, words):
    client = weir.client()
    before = client.value("SELECT pg_backend_pid()")
    assert tags(weir, words) == ["RECONNECT"]
    assert client.value("SELECT pg_backend_pid()") != before


def test_reconnect_never_cuts_a_transaction(weir):
    client = weir.client()
    client.query("BEGIN")
    before = client.value("SELECT pg_backend_pid()")
    weir.admin("RECONNECT")
    assert client.value("SELECT pg_backend_pid()") == before
    (server,) = [row for row in weir.admin("SHOW SERVERS") if row["link"]]
    assert server["close_needed"] == 1
    client.query("COMMIT")
    assert client.value("SELECT pg_backend_pid()") != before


@pytest.mark.parametrize("words", ("WAIT_CLOSE", "WAIT_CLOSE app"))
def test_wait_close(weir, words):
    assert tags(weir, words) == ["WAIT_CLOSE"]
    client = weir.client()
    client.query("BEGIN")
    weir.admin("RECONNECT")
    console = weir.console()
    console.send(query(words))
    weir.admin("SHOW STATE")
    assert console.buffer == b"" and not console.is_closed() and console.buffer == b""
    client.query("COMMIT")
    assert console.read_result().tags == ["WAIT_CLOSE"]


def test_waiting_commands_do_not_disturb_each_other(weir):
    """PAUSE must not return with, or instead of, the WAIT_CLOSE of another console."""
    client = weir.client()
    client.query("BEGIN")
    weir.admin("RECONNECT")
    closer, pauser = weir.console(), weir.console()
    closer.send(query("WAIT_CLOSE app"))
    weir.wait_log("WAIT_CLOSE")
    pauser.send(query("PAUSE"))
    weir.wait_log("PAUSE command issued")
    for console in (closer, pauser):
        assert not console.is_closed() and console.buffer == b""
    client.query("COMMIT")
    assert closer.read_result().tags == ["WAIT_CLOSE"]
    assert pauser.read_result().tags == ["PAUSE"]
    weir.admin("RESUME")


def test_a_waiting_console_that_goes_away(weir):
    client = weir.client()
    client.query("BEGIN")
    weir.admin("RECONNECT")
    console = weir.console()
    console.send(query("WAIT_CLOSE"))
    console.reset()
    client.query("COMMIT")
    assert weir.client().value("SELECT 1") == "1"


def test_errors_about_databases(weir):
    assert fails(weir, "RECONNECT nowhere") == "no such database: nowhere"
    assert fails(weir, "WAIT_CLOSE nowhere") == "no such database: nowhere"
    assert fails(weir, "KILL nowhere") == "no such database: nowhere"
    assert fails(weir, "RECONNECT pgbouncer") == "cannot reconnect admin db: pgbouncer"
    assert fails(weir, "WAIT_CLOSE pgbouncer") == "cannot wait in admin db: pgbouncer"
    assert fails(weir, "KILL pgbouncer") == "cannot kill admin db: pgbouncer"


# -- KILL -----------------------------------------------------------------------------------------


def test_kill_of_a_database(weir, postgres):
    victim, other = weir.client("bob"), weir.client(database="app2")
    victim.query("BEGIN")
    other.query("BEGIN")
    assert tags(weir, "KILL app") == ["KILL"]
    refused = victim.read_refusal()
    assert (refused.severity, refused.sqlstate, refused.text) == \
        ("FATAL", "57P01", "database removed")
    assert other.query("COMMIT").tags == ["COMMIT"]
    wait_until(lambda: not postgres.backends("bob"))
    assert tags(weir, "RESUME app") == ["RESUME"]
    assert weir.client("bob").value("SELECT 1") == "1"


def test_kill_of_all(weir):
    clients = [weir.client(), weir.client(database="app2")]
    for client in clients:
        client.query("SELECT 1")
    assert tags(weir, "KILL") == ["KILL"]
    for client in clients:
        assert client.read_refusal().text == "database removed"
    for database in ("app", "app2"):
        weir.admin(f"RESUME {database}")
        assert weir.client(database=database).value("SELECT 1") == "1"


def test_kill_reaches_clients_in_the_line(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    weir.admin("KILL app")
    for client in (holder, waiter):
        assert client.read_refusal().text == "database removed"


def client_id(weir, name):
    (row,) = [row for row in weir.admin("SHOW CLIENTS") if row["application_name"] == name]
    return row["id"]


@pytest.mark.parametrize("doing", ("nothing", "a query", "a transaction", "waiting"))
def test_kill_client(pgweir, doing):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    other = weir.client()
    victim = weir.client(application_name="victim")
    if doing == "waiting":
        other.query("BEGIN")
    if doing != "nothing":
        victim.send(query("BEGIN" if doing == "a transaction" else "SELECT pg_sleep(30)"))
        if doing == "a transaction":
            victim.read_result()
        elif doing == "waiting":
            weir.wait_pool(cl_waiting=1)
        else:
            weir.wait_pool(sv_active=1)
    number = client_id(weir, "victim")
    assert tags(weir, f"KILL_CLIENT {number}") == ["KILL_CLIENT"]
    refused = victim.read_refusal()
    assert (refused.severity, refused.sqlstate, refused.text) == \
        ("FATAL", "57P01", "admin forced disconnect")
    if doing == "waiting":
        other.query("COMMIT")
    assert other.value("SELECT 1") == "1"


def test_kill_client_errors(weir):
    assert fails(weir, "KILL_CLIENT 999999") == "client not found"
    assert fails(weir, "KILL_CLIENT me") == "invalid client pointer supplied"


# -- SHUTDOWN -------------------------------------------------------------------------------------


def test_shutdown(weir):
    client = weir.client()
    client.query("BEGIN")
    console = weir.console()
    console.send(query("SHUTDOWN"))
    assert weir.wait_exit() == 0
    for wire in (client, console):
        refused = wire.read_refusal()
        assert (refused.severity, refused.sqlstate, refused.text) == \
            ("FATAL", "57P01", "pooler is shutting down")
        wire.wait_closed()


def test_what_clients_are_told_at_an_immediate_end(pgweir):
    """Clients get the error only between two messages, not in the middle of a row."""
    weir = pgweir(pool_mode="transaction", default_pool_size=2, tcp_defer_accept=0)
    idle, busy, amid, stranger = weir.client(), weir.client(), weir.client(), weir.wire()
    busy.send(query("SELECT pg_sleep(600)"))
    amid.send(query("SELECT repeat('x', 100000000)"))
    weir.wait_pool(sv_active=2)
    busy.send(query("SELECT 'this is not read any more'"))
    assert amid.read().type == "T"
    weir.signal(signal.SIGQUIT)
    assert weir.wait_exit() == 0
    for wire in (idle, busy):
        refused = wire.read_refusal()
        assert (refused.sqlstate, refused.text) == ("57P01", "pooler is shutting down")
        wire.wait_closed()
    with pytest.raises(Closed):
        amid.read()
    assert stranger.read_to_end() == []


def test_shutdown_wait_for_clients(weir):
    client = weir.client()
    console = weir.console()
    assert console.query("SHUTDOWN WAIT_FOR_CLIENTS").tags == ["SHUTDOWN"]
    console.close()
    wait_until(lambda: cannot_connect(weir))
    assert client.value("SELECT 1") == "1"
    assert weir.process.poll() is None
    client.close()
    assert weir.wait_exit() == 0


def test_shutdown_wait_for_servers(weir):
    client, idle = weir.client(), weir.client()
    client.query("BEGIN")
    console = weir.console()
    assert console.query("SHUTDOWN WAIT_FOR_SERVERS").tags == ["SHUTDOWN"]
    wait_until(lambda: cannot_connect(weir))
    idle.send(query("SELECT 1"))
    assert client.value("SELECT 2") == "2"
    client.query("COMMIT")
    assert weir.wait_exit() == 0


def test_the_unix_socket_stays_for_the_console(weir):
    client = weir.client()
    console = weir.console()
    console.query("SHUTDOWN WAIT_FOR_CLIENTS")
    with Wire(weir.socket_path) as late:
        with pytest.raises(Refused, match="pooler is shutting down") as refused:
            late.login()
        assert refused.value.sqlstate == "57P01"
    with Wire(weir.socket_path) as other:
        assert other.login("admin", "pgbouncer").query("SHOW STATE").tags == ["SHOW"]
        assert other.query("RESUME").error["M"] == "pooler is shutting down"
    console.close()
    client.close()
    assert weir.wait_exit() == 0


def cannot_connect(weir):
    try:
        Wire(weir.address).close()
        return False
    except ConnectionRefusedError:
        return True


# -- privileges -----------------------------------------------------------------------------------


def test_stats_users_may_look(weir):
    console = weir.console("stats")
    for item in ("POOLS", "STATS", "CLIENTS", "CONFIG", "VERSION", "DATABASES", "LISTS", "HELP"):
        assert console.query(f"SHOW {item}").tags == ["SHOW"]
    assert console.query("SET client_encoding = 'UTF8'").tags == ["SET"]


@pytest.mark.parametrize("command", ("RELOAD", "PAUSE", "RESUME", "KILL app", "SHUTDOWN",
                                     "SET default_pool_size = 1", "DISABLE app", "ENABLE app",
                                     "RECONNECT", "WAIT_CLOSE", "KILL_CLIENT 1"))
def test_stats_users_may_not_act(same_pgweir, command):
    weir = same_pgweir()
    console = weir.console("stats")
    result = console.query(command)
    assert result.error["M"] == "admin access needed"
    assert weir.process.poll() is None


def test_others_may_not_enter(weir):
    refused = refusal(weir.address, "alice", "pgbouncer")
    assert (refused.sqlstate, refused.text) == ("28000", "not allowed")


def test_the_console_wants_the_password(pgweir):
    weir = pgweir(auth_type="scram-sha-256")
    assert weir.admin("SHOW VERSION")
    refused = refusal(weir.address, "admin", "pgbouncer", "wrong")
    assert refused.sqlstate == "28P01"
    assert refusal(weir.address, "mallory", "pgbouncer", "wrong").severity == "FATAL"


def test_any_gives_stats_rights(pgweir):
    weir = pgweir(auth_type="any", databases={"app": "user=bob"})
    with Wire(weir.address) as console:
        console.login("whoever", "pgbouncer")
        assert console.query("SHOW VERSION").tags == ["SHOW"]
        assert console.query("PAUSE").error["M"] == "admin access needed"
    assert weir.admin("RELOAD") == []


def test_the_own_user_needs_no_password_on_the_unix_socket(pgweir, account):
    weir = pgweir(auth_type="scram-sha-256")
    command = ["psql", "-X", "-At", "-h", weir.dir, "-p", str(weir.port), "-U", "pgbouncer", "-d",
               "pgbouncer", "-c", "RELOAD", "-c", "SHOW VERSION"]
    done = account.run(command, cwd="/")
    assert done.returncode == 0, done.stdout
    assert "PgBouncer" in done.stdout


def test_nobody_else_is_the_own_user(pgweir, account):
    if not account.is_other:
        pytest.skip("needs root, so that the tests run as another user than the daemon")
    weir = pgweir(auth_type="scram-sha-256")
    assert refusal(weir.socket_path, "pgbouncer", "pgbouncer", "x").severity == "FATAL"
    assert refusal(weir.address, "pgbouncer", "pgbouncer", "x").severity == "FATAL"


def test_console_welcome(weir):
    console = weir.console()
    assert console.parameters == dict(
        console.parameters, client_encoding="UTF8", server_encoding="UTF8", DateStyle="ISO",
        TimeZone="GMT", standard_conforming_strings="on", is_superuser="on")
    assert console.parameters["server_version"].endswith("/bouncer")


def test_the_consoles_name_is_reserved(make_pgweir):
    weir = make_pgweir(databases={"pgbouncer": ""})
    done = weir.run(weir.ini)
    assert done.returncode == 1
