# SPDX-License-Identifier: ISC
"""-R: another process takes over, and no client loses a statement or a connection."""

import contextlib
import os
import pwd
import re
import select
import signal
import socket
import ssl
import struct
import tempfile
import threading
import time

import psycopg
import pytest

from .kit.records import DATA
from .kit.wait import LIMIT, wait_until
from .kit.wire import (CANCEL_REQUEST, SSL_REQUEST, Closed, Wire, bind, close, describe,
                       error_fields, execute, message, parse, query, send_cancel, special, sync)
from .test_tls import record_client


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction", default_pool_size=5)


SLEEP = "SELECT pg_sleep(600)"
PID = "SELECT pg_backend_pid()"


def wait_asleep(postgres, count=1):
    """Waits until the query runs: an earlier cancel request would have no effect."""
    wait_until(lambda: postgres.value("SELECT count(*) FROM pg_stat_activity WHERE query = %s AND "
                                      "state = 'active'", SLEEP) == count)


def test_idle_clients_and_servers(weir):
    clients = [weir.client() for _ in range(5)]
    backends = {client.value(PID) for client in clients}
    old = weir.take_over()
    assert old.wait(15) == 0
    assert [client.value("SELECT 7") for client in clients] == ["7"] * 5
    assert backends <= {str(pid) for pid in weir.postgres.backends()}
    assert weir.client().value("SELECT 8") == "8"


def test_an_open_transaction_with_a_cursor(weir):
    client = weir.client()
    client.query("BEGIN")
    client.query("DECLARE c CURSOR FOR SELECT generate_series(1, 5)")
    client.query("FETCH 2 FROM c")
    backend = client.value("SELECT pg_backend_pid()")
    assert weir.take_over().wait(15) == 0
    assert client.query("FETCH 2 FROM c").rows == [["3"], ["4"]]
    assert client.value("SELECT pg_backend_pid()") == backend
    assert client.query("COMMIT").status == "I"
    assert client.value("SELECT 1") == "1"


def test_prepared_statements_and_parameters(weir):
    client, other = weir.client(timezone="Asia/Tokyo"), weir.client()
    client.query("SET application_name = 'kept'")
    client.ask(parse("SELECT $1::int + 1", "plus"), sync())
    other.ask(parse("SELECT $1::int + 1", "same"), sync())
    client.ask(parse("SELECT 'unnamed', $1::text"), describe("S"), sync())
    assert weir.take_over().wait(15) == 0
    assert client.ask(bind(["a"]), execute(), sync()).rows == [["unnamed", "a"]]
    assert client.ask(bind(["4"], "plus"), execute(), sync()).rows == [["5"]]
    assert other.ask(bind(["5"], "same"), execute(), sync()).rows == [["6"]]
    assert client.value("SHOW application_name") == "kept"
    assert client.value("SHOW TimeZone") == "Asia/Tokyo"
    assert client.ask(parse("SELECT 1", "plus"), sync()).error["C"] == "42P05"
    client.ask(close("S", "plus"), parse("SELECT 'new'", "plus"), sync())
    assert client.ask(bind([], "plus"), execute(), sync()).rows == [["new"]]


def test_a_statement_that_takes_all_others_away(weir):
    client = weir.client()
    client.ask(parse("SELECT 1", "s"), parse("DEALLOCATE ALL", "all"), sync())
    assert weir.take_over().wait(15) == 0
    got = client.ask(bind([], "all"), execute(), parse("SELECT 1", "t"), bind([], "t"), execute(), sync())
    assert got.rows == [["1"]], got.errors


def test_who_waits_keeps_its_turn(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, first, second = weir.client(), weir.client(), weir.client()
    holder.query("BEGIN")
    first.send(query("SELECT 'first', clock_timestamp()"))
    weir.wait_pool(cl_waiting=1)
    second.send(query("SELECT 'second', clock_timestamp()"))
    weir.wait_pool(cl_waiting=2)
    weir.disconnect_console()
    assert weir.take_over().wait(15) == 0
    weir.wait_pool(cl_waiting=2)
    assert holder.query("COMMIT").tags == ["COMMIT"]
    answers = [first.read_result().rows[0], second.read_result().rows[0]]
    assert [answer[0] for answer in answers] == ["first", "second"]
    assert answers[0][1] < answers[1][1]


def test_a_running_statement_ends_where_it_began(weir):
    client, lock = weir.client(), weir.client("bob")
    lock.query("BEGIN")
    lock.query("SELECT pg_advisory_xact_lock(4711)")
    client.send(query("SELECT pg_advisory_lock(4711), 'done'"))
    wait_until(lambda: weir.postgres.value("SELECT count(*) FROM pg_locks WHERE NOT granted"))
    old = weir.take_over()
    assert lock.query("SELECT 1").rows == [["1"]]
    assert old.poll() is None
    lock.query("COMMIT")
    assert client.read_result().rows[0][1] == "done"
    assert old.wait(15) == 0
    assert client.value("SELECT 'after'") == "after"


def test_a_client_that_disconnects_during_a_statement(weir, postgres):
    """The old process does not wait for the statement: it ends when it has nothing else."""
    client = weir.client()
    client.send(query(SLEEP))
    wait_asleep(postgres)
    old = weir.take_over()
    client.close()
    assert old.wait(15) == 0
    assert "client unexpected eof" in weir.log


def test_a_copy_goes_on(weir):
    client = weir.client()
    client.query("CREATE TEMP TABLE copied (a int)")
    client.query("BEGIN")
    client.query("CREATE TEMP TABLE t (a int)")
    client.send(query("COPY t FROM STDIN"))
    client.expect("G")
    old = weir.take_over()
    for number in range(1000):
        client.send(message("d", b"%d\n" % number))
    client.send(message("c"))
    assert client.read_result().tags == ["COPY 1000"]
    assert old.wait(15) == 0
    assert client.value("SELECT count(*) FROM t") == "1000"
    client.query("COMMIT")


def test_session_mode(pgweir):
    weir = pgweir(pool_mode="session")
    client = weir.client()
    client.query("PREPARE p AS SELECT 5")
    client.query("CREATE TEMP TABLE mine AS SELECT 6 AS six")
    assert weir.take_over().wait(15) == 0
    assert client.query("EXECUTE p").rows == [["5"]]
    assert client.query("SELECT six FROM mine").rows == [["6"]]


def test_a_client_whose_server_stays(make_pgweir):
    """It passes with its server, and all that is known of the stay with it."""
    weir = make_pgweir(pool_mode="transaction", default_pool_size=3, log_pin_duration="0.1",
                       query_wait_timeout=1)
    weir.start()
    client, other, third = weir.client(), weir.client(), weir.client()
    client.query("CREATE TEMP TABLE mine AS SELECT 6 AS six")
    client.query("SELECT pg_advisory_lock(8)")
    backend = client.value(PID)
    weir.wait_log("its server has stayed with it for")
    (before,) = weir.admin("SHOW PINNED")
    weir.disconnect_console()
    assert weir.take_over().wait(15) == 0
    (after,) = weir.admin("SHOW PINNED")
    for name in ("id", "server_pid", "since", "why", "statement"):
        assert after[name] == before[name]
    assert client.value(PID) == backend
    assert client.value("SELECT six FROM mine") == "6"
    assert backend not in {other.value(PID), third.value(PID)}
    assert other.value("SELECT pg_try_advisory_lock(8)") == "f"
    assert other.query("CREATE TEMP TABLE t (a int)").tags == ["CREATE TABLE"]
    assert third.query("CREATE TEMP TABLE t (a int)").error["C"] == "53300"
    client.query("DROP TABLE mine")
    client.query("SELECT pg_advisory_unlock(8)")
    wait_until(lambda: len(weir.admin("SHOW PINNED")) == 1)
    wait_until(lambda: weir.log.count("its server has stayed with it for") == 2)  # and the other's


def test_a_client_whose_server_stays_leaves_after_it(make_pgweir):
    """Nobody finds what it had."""
    weir = make_pgweir(pool_mode="transaction", default_pool_size=1)
    weir.start()
    client, other = weir.client(), weir.client()
    client.query("CREATE TEMP TABLE mine (a int)")
    assert weir.take_over().wait(15) == 0
    client.close()
    assert other.value("SELECT to_regclass('pg_temp.mine') IS NULL") == "t"
    assert weir.admin("SHOW PINNED") == []


@pytest.mark.parametrize("sql, asked, mine", (
    ("SET work_mem = '77MB'", "SHOW work_mem", "77MB"),
    ("SELECT set_config('app.tenant', '7', false)", "SELECT coalesce(current_setting('app.tenant', true), '')",
     "7")))
def test_a_transaction_that_has_changed_the_session(make_pgweir, sql, asked, mine):
    """What it set before the take-over follows its client after its end, and nobody else."""
    weir = make_pgweir(pool_mode="transaction", default_pool_size=1)
    weir.start()
    client, other = weir.client(), weir.client()
    default = other.value(asked)
    client.query("BEGIN")
    client.query(sql)
    assert weir.take_over().wait(15) == 0
    client.query("SET enable_seqscan = off")
    client.query("COMMIT")
    for _ in range(2):
        assert other.value(asked) == default
        assert other.value("SHOW enable_seqscan") == "on"
        assert client.value(asked) == mine
        assert client.value("SHOW enable_seqscan") == "off"


@pytest.mark.parametrize("sql, column, shown", (("LOAD 'auto_explain'", "libraries", "auto_explain"),
                                                ("LISTEN a", "channels", "a")))
def test_a_transaction_whose_effect_is_not_known_yet(make_pgweir, sql, column, shown):
    """It ends in the old process."""
    weir = make_pgweir(pool_mode="transaction", databases={"app": "user=postgres"})
    weir.start()
    client, other = weir.client(application_name="first"), weir.client()
    client.query("BEGIN")
    client.query(sql)
    weir.disconnect_console()
    old = weir.take_over()
    assert other.value("SELECT 1") == "1"
    assert old.poll() is None
    client.query("COMMIT")
    assert client.value("SELECT 2") == "2"
    assert old.wait(15) == 0
    assert weir.admin("SHOW SESSION_STATE")[0][column] == shown


def test_a_message_cut_in_two(weir):
    client = weir.client()
    whole = query("SELECT 'whole' -- " + "x" * 70000)  # too long to be awaited in full
    client.send(whole[:8])
    weir.wait_pool(sv_active=1)
    weir.disconnect_console()
    old = weir.take_over()
    assert weir.client().value("SELECT 1") == "1"
    assert old.poll() is None
    client.send(whole[8:])
    assert client.read_result().rows == [["whole"]]
    assert old.wait(15) == 0
    assert client.value("SELECT 2") == "2"


def test_cancel_with_the_old_key(weir, postgres):
    client, other = weir.client(), weir.client()
    other.send(query(SLEEP))
    wait_asleep(postgres)
    old = weir.take_over()
    # One whose client was handed over, and one whose client is still in the old process.
    client.send(query(SLEEP))
    wait_asleep(postgres, 2)
    send_cancel(weir.address, client.key)
    assert client.read_result().error["C"] == "57014"
    send_cancel(weir.address, other.key)
    assert other.read_result().error["C"] == "57014"
    assert old.wait(15) == 0


def test_what_is_counted_goes_on(weir):
    client = weir.client()
    for _ in range(10):
        client.query("SELECT 1")

    before = weir.totals("app")
    ids = [row["id"] for row in weir.admin("SHOW CLIENTS") if row["database"] == "app"]
    weir.disconnect_console()
    for _ in range(3):
        assert weir.take_over().wait(15) == 0
    assert weir.totals("app") == before
    assert [row["id"] for row in weir.admin("SHOW CLIENTS") if row["database"] == "app"] == ids
    client.query("SELECT 1")
    assert weir.totals("app")["total_query_count"] == before["total_query_count"] + 1
    averages = [row for row in weir.admin("SHOW STATS") if row["database"] == "app"][0]
    assert averages["avg_client_login_count"] == 0  # no new clients since then


def test_what_an_administrator_has_set_stays(weir):
    weir.client()
    weir.admin("PAUSE app2")
    weir.admin("DISABLE app3")
    weir.disconnect_console()
    assert weir.take_over().wait(15) == 0
    rows = {row["name"]: row for row in weir.admin("SHOW DATABASES")}
    assert (rows["app2"]["paused"], rows["app3"]["disabled"], rows["app"]["paused"]) == (1, 1, 0)


def test_a_server_is_entered_with_what_a_client_has_shown(make_pgweir):
    """SCRAM keys from a client's login are handed over for the next server login."""
    weir = make_pgweir(pool_mode="transaction", auth_type="scram-sha-256")
    weir.start()
    client = weir.client("scram_user", "app", password="scram secret")
    other = weir.client("scram_user", "app", password="scram secret")
    client.query("BEGIN")
    weir.console_address = None
    assert weir.take_over().wait(15) == 0
    assert other.value("SELECT 1") == "1"  # a second server
    client.query("COMMIT")


# ---- one that fails ----------------------------------------------------------------------------


class Successor:
    """A scripted new process."""

    def __init__(self, weir, command="TAKEOVER 3"):
        uid = os.geteuid()
        if weir.account.is_other:
            os.seteuid(weir.account.uid)
        try:
            self.wire = weir.wire(unix=True)
        finally:
            os.seteuid(uid)
        self.wire.login("pgbouncer", "pgbouncer")
        if command:
            self.wire.send(query(command))
        self.sock = self.wire.sock
        self.fds = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wire.close()
        for fd in self.fds:
            os.close(fd)

    def take(self, count):
        taken = b""
        while len(taken) < count:
            more, fds, _, _ = socket.recv_fds(self.sock, count - len(taken), 4)
            self.fds += fds
            if not more:
                raise Closed("the old process has closed the channel")
            taken += more
        return taken

    def read(self):
        kind, length = struct.unpack("!cI", self.take(5))
        return kind.decode(), self.take(length - 4)

    def read_until(self, wanted):
        kinds = []
        while not kinds or kinds[-1] != wanted:
            kinds.append(self.read()[0])
        return kinds

    def say(self, kind, body=b""):
        self.sock.sendall(message(kind, body))


def cut_at_once(_):
    pass


def cut_behind_the_sockets(successor):
    assert successor.read_until("z") == ["H", "L", "L", "z"]


def cut_behind_go(successor):
    successor.read_until("z")
    successor.say("G")


def cut_within_the_round(successor):
    cut_behind_go(successor)
    successor.read_until("d")
    successor.take(3)


def cut_within_a_client(successor):
    cut_behind_go(successor)
    successor.read_until("c")
    successor.take(3)


def cut_behind_the_round(successor):
    cut_behind_go(successor)
    successor.read_until("z")


def nonsense_instead_of_accepted(successor):
    cut_behind_the_round(successor)
    successor.say("?", b"what")
    successor.sock.sendall(b"A\0\0\0\0")


def a_stop_too_early(successor):
    """It may not send commands before it has taken over."""
    cut_behind_the_round(successor)
    successor.say("S", b"\0")


def nonsense_at_once(successor):
    successor.read_until("z")
    successor.sock.sendall(b"\xff" * 100)


CUTS = (cut_at_once, cut_behind_the_sockets, cut_behind_go, cut_within_the_round,
        cut_behind_the_round, nonsense_at_once, nonsense_instead_of_accepted,
        a_stop_too_early)


@pytest.mark.parametrize("cut", CUTS + (cut_within_a_client,))
def test_one_that_ends_before_it_is_ready(weir, cut):
    client, idle, listener = weir.client(), weir.client(), weir.client()
    client.query("BEGIN")
    client.query("SELECT set_config('app.mine', 'yes', true)")
    listener.query("LISTEN news")
    with Successor(weir) as successor:
        cut(successor)
    weir.wait_log("take-over failed, this process continues")
    assert client.value("SELECT current_setting('app.mine')") == "yes"
    assert client.query("COMMIT").status == "I"
    assert idle.value("SELECT 2") == "2"
    assert weir.client().value("SELECT 3") == "3"
    assert os.path.exists(weir.socket_path)
    weir.postgres.query("NOTIFY news, 'x'")
    # Then one that succeeds.
    assert weir.take_over().wait(15) == 0
    assert [one.value("SELECT 4") for one in (client, idle)] == ["4", "4"]
    weir.postgres.query("NOTIFY news, 'y'")
    assert [note_of(listener.expect("A")) for _ in range(2)] == ["x", "y"]


def test_one_that_ends_when_it_had_begun(weir, postgres):
    """Clients it had taken over are lost; the old process serves all others, and new ones."""
    lost, kept = weir.client(), weir.client()
    kept.send(query(SLEEP))
    wait_asleep(postgres)
    with Successor(weir) as successor:
        cut_behind_the_round(successor)
        successor.say("A")
        assert successor.read() == ("Y", b"")
    weir.wait_log("take-over failed, this process continues")
    send_cancel(weir.address, kept.key)
    assert kept.read_result().error["C"] == "57014"
    assert kept.value("SELECT 1") == "1"
    assert weir.client().value("SELECT 2") == "2"
    lost.wait_closed()


def test_one_that_ends_during_a_suspend(weir, postgres):
    """What is suspended stays so, to the RESUME."""
    client, console = weir.client(), weir.console()
    client.query("BEGIN")
    client.query("NOTIFY news")
    with Successor(weir) as successor:
        cut_behind_the_round(successor)
        successor.say("A")
        assert successor.read() == ("Y", b"")
        console.query("SUSPEND")
    weir.wait_log("take-over failed, this process continues")
    client.send(query("SELECT 'later'"))
    for _ in range(5):
        console.query("SHOW CLIENTS")
    assert postgres.value("SELECT count(*) FROM pg_stat_activity "
                          "WHERE query = %s", "SELECT 'later'") == 0
    console.query("RESUME")
    assert client.read_result().rows == [["later"]]
    assert client.query("COMMIT").status == "I"


@pytest.mark.parametrize("begins", ("SELECT 1", "BEGIN"))
def test_what_arrives_during_a_suspend_is_suspended(weir, postgres, begins):
    client = weir.client()
    client.query(begins)
    client.send(query(SLEEP))
    wait_asleep(postgres)
    old = weir.take_over()
    console = weir.console()
    assert console.query("SUSPEND").tags == ["SUSPEND"]
    end_statement(client, weir, postgres)
    assert old.wait(15) == 0
    client.send(query("ROLLBACK"))
    for _ in range(5):
        console.query("SHOW CLIENTS")
    assert not select.select([client.sock], [], [], 0.2)[0]
    console.query("RESUME")
    assert client.read_result().tags == ["ROLLBACK"]


@pytest.mark.parametrize("command", ("PAUSE", "PAUSE app", "DISABLE HOST 127.0.0.1",
                                     "DRAIN HOST 127.0.0.1"))
def test_a_server_that_arrives_later_does_not_escape(pgweir, postgres, command):
    """One that was busy for a client that has left, and is idle when it arrives."""
    weir = pgweir(pool_mode="transaction", cancel_abandoned=60)
    client, lock = weir.client(), postgres.connect()
    lock.execute("SELECT pg_advisory_lock(4712)")
    client.send(query("SELECT pg_advisory_xact_lock(4712)"))
    wait_until(lambda: postgres.value("SELECT count(*) FROM pg_locks WHERE NOT granted"))
    client.close()
    weir.wait_pool(sv_active=0)
    weir.disconnect_console()
    old = weir.take_over()
    assert weir.ask_admin(command).error is None
    assert weir.admin("SHOW SERVERS") == [] and old.poll() is None
    lock.close()
    assert old.wait(15) == 0
    wait_until(lambda: weir.admin("SHOW SERVERS") == [])


# ---- one that is slow, or refuses the rest -----------------------------------------------------


def busy_client(weir, postgres):
    client = weir.client()
    client.send(query(SLEEP))
    wait_asleep(postgres)
    return client


def end_statement(client, weir, postgres):
    wait_until(lambda: postgres.value(
        "SELECT bool_or(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE query = %s AND "
        "state = 'active'", SLEEP))
    assert client.read_result().error["C"] == "57014"


def pid_in(path):
    with open(path, encoding="ascii") as file:
        return int(file.read())


def assert_serves_all(weir, old, path):
    """The newest process accepts all clients, and its pid is in the file."""
    since = len(weir.log)
    for _ in range(6):
        weir.connect("pgbouncer", user="admin").close()
    weir.wait_log(rf"\[{weir.pid}\] LOG .* login attempt", since=since)
    assert f"[{old.pid}]" not in weir.log[since:]
    assert pid_in(path) == weir.pid
    assert "this process continues" not in weir.log


def test_a_slow_one_gets_the_rest_later(weir, postgres):
    """Scripted: it accepts a later round only after the old process has served its client again."""
    client = busy_client(weir, postgres)
    with Successor(weir) as successor:
        cut_behind_the_round(successor)
        successor.say("A")
        assert successor.read() == ("Y", b"")
        end_statement(client, weir, postgres)
        assert "c" in successor.read_until("z")
        weir.wait_log("the new process does not respond")
        assert client.value("SELECT 1") == "1"
        successor.say("A")
        assert successor.read() == ("N", b"")
        assert client.value("SELECT 2") == "2"
        while "c" not in successor.read_until("z"):
            successor.say("A")
            assert successor.read() == ("Y", b"")
        successor.say("A")
        assert successor.read() == ("Y", b"")
        while successor.read()[0] != "D":
            pass
        assert weir.wait_exit() == 0
    assert "this process continues" not in weir.log


def test_a_record_that_was_cut(weir, postgres):
    """Nothing behind it can be understood. The new process still passes on what it has to."""
    client = weir.client()
    client.send(parse(f"SELECT 1 /* {'x' * 1_000_000} */", "long"), sync())
    client.read_until("Z")
    client.send(query(SLEEP))
    wait_asleep(postgres)
    with Successor(weir) as successor:
        cut_behind_the_round(successor)
        successor.say("A")
        assert successor.read() == ("Y", b"")
        end_statement(client, weir, postgres)
        weir.wait_log("does not respond.*: the last 1 clients stay in this process")
        with pytest.raises(Closed):
            successor.read_until("z")
        client.send(bind((), "long"), execute(), sync(), query(SLEEP))
        wait_asleep(postgres)
        successor.say("K", client.key)
        assert client.read_until("Z")[-1].type == "Z"
        assert client.read_result().error["C"] == "57014"
        successor.say("S", b"\0")
        assert weir.wait_exit() == 0
    assert "this process continues" not in weir.log


def test_a_process_that_does_not_run_for_a_while(make_pgweir, postgres):
    """It is not replaced: its clients come back to it, and those of the old process as well."""
    weir = make_pgweir(pool_mode="transaction")
    path = f"{weir.dir}/pid"
    weir.configure(pidfile=path).start()
    client, idle = busy_client(weir, postgres), weir.client()
    weir.disconnect_console()
    old = weir.take_over()
    with weir.one_turn():
        end_statement(client, weir, postgres)
        weir.wait_log("the new process does not respond")
        assert client.value("SELECT 1") == "1"
    assert old.wait(15) == 0
    assert client.value("SELECT 2") == "2"
    assert idle.value("SELECT 3") == "3"
    assert_serves_all(weir, old, path)
    weir.wait_log("the take-over is complete")


REFUSED_AT_ONCE = {
    "database": (
        {}, "database \"app\" is in use and not in this configuration: RELOAD the running process with "
        "it first"),
    "open files": (
        {"open_files": (100, 100)},
        "a socket was lost on the way: raise the limit on open files of the new process"),
}


@pytest.mark.parametrize("why", REFUSED_AT_ONCE)
def test_a_first_round_that_is_refused(pgweir, why):
    """The new process ends and says what to do; the old one continues."""
    weir = pgweir(pool_mode="transaction")
    clients = [weir.client() for _ in range(120)]
    options, says = REFUSED_AT_ONCE[why]
    weir.disconnect_console()
    if why == "database":
        weir.configure(databases={"app2": ""})
    old = weir.process
    weir.start("-R", wait=False, **options)
    assert weir.wait_exit() == 1
    weir.process = old
    weir.wait_log(f"cannot take over: {re.escape(says)}")
    weir.wait_log("take-over failed, this process continues")
    assert [client.value("SELECT 1") for client in clients] == ["1"] * 120


@pytest.mark.parametrize("end", ("disconnects", "shutdown", "kill"))
def test_a_client_that_the_new_one_cannot_serve(make_pgweir, postgres, end):
    """Its database was removed there. It stays; the new process goes on accepting all others."""
    weir = make_pgweir(pool_mode="transaction")
    path = f"{weir.dir}/pid"
    weir.configure(pidfile=path).start()
    client = busy_client(weir, postgres)
    weir.disconnect_console()
    old = weir.take_over()
    weir.reload(databases={"app2": ""})
    weir.disconnect_console()
    end_statement(client, weir, postgres)
    weir.wait_log("the old process keeps its last clients until they disconnect: database \"app\" is "
                  "in use and not in this configuration: a RELOAD has removed it during the take-over")
    weir.wait_log("the new process refuses them")
    assert client.value("SELECT 1") == "1"
    assert_serves_all(weir, old, path)
    assert old.poll() is None
    if end == "disconnects":
        client.close()
        assert old.wait(15) == 0
        weir.wait_log("the old process has ended")
    elif end == "shutdown":
        weir.signal(signal.SIGINT)
        assert weir.wait_exit() == 0
        assert old.wait(15) == 0
    else:
        weir.signal(signal.SIGKILL)
        weir.process.wait()
        weir.wait_log("this process continues")
        assert client.value("SELECT 2") == "2"
        assert weir.client().value("SELECT 3") == "3"
        wait_until(lambda: pid_in(path) == old.pid)
        client.close()
        weir.retired.remove(old)
        weir.process = old


def refused(weir, command):
    with Successor(weir, command) as successor:
        kind, body = successor.read()
        assert kind == "E"
        return error_fields(body)["M"]


def test_refusals(weir):
    assert refused(weir, "TAKEOVER 2") == \
        "hand-over version 2 was requested, but the running process supports version 4: " \
        "stop it, then start the new one"
    assert weir.ask_admin("TAKEOVER 3").error["C"] == "42501"
    with Successor(weir, None) as successor:
        weir.admin("SUSPEND")
        assert successor.wire.query("TAKEOVER 3").error["M"] == \
            "everything is suspended: RESUME first"
        weir.admin("RESUME")
    with Successor(weir) as successor:
        successor.read_until("z")
        assert refused(weir, "TAKEOVER 3") == "another process is already taking over"
    client = weir.client()
    assert client.value("SELECT 1") == "1"
    weir.admin("SHUTDOWN WAIT_FOR_CLIENTS")
    assert refused(weir, "TAKEOVER 3") == "pooler is shutting down"


def test_nobody_to_take_over_from(make_pgweir):
    weir = make_pgweir()
    weir.start("-R")
    assert weir.client().value("SELECT 1") == "1"
    nowhere = make_pgweir(unix_socket_dir="")
    result = nowhere.run("-R", nowhere.ini)
    assert result.returncode == 1
    assert "-R needs unix_socket_dir" in result.stdout + (result.stderr or "")


# ---- trust -------------------------------------------------------------------------------------


@contextlib.contextmanager
def stranger(path, user):
    """Listens at this path as another system user; received data is stored in `heard`."""
    name = "\0" + path[1:] if path[0] == "@" else path
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        if path[0] != "@":
            os.chmod(path, 0o777)
        os.seteuid(pwd.getpwnam(user).pw_uid)
        try:
            listener.listen()  # the kernel records the user
        finally:
            os.seteuid(0)
        listener.settimeout(LIMIT)
        yield listener
    if path[0] != "@":
        os.unlink(path)


def heard(listener, connections):
    """Everything received on this many connections, each of which has ended."""
    said = b""
    for _ in range(connections):
        with listener.accept()[0] as there:
            there.settimeout(LIMIT)
            with contextlib.suppress(ConnectionResetError):
                while more := there.recv(1000):
                    said += more
    return said


as_root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be two users")


@as_root_only
@pytest.mark.parametrize("sqlstate, further", (("22023", 0), ("0A000", 1)))
def test_one_of_another_version(make_pgweir, account, sqlstate, further):
    """The new process ends with an error; the socket file still belongs to the other one. One that
    refuses the version is asked for that of older releases first.
    """
    weir = make_pgweir()
    refusal = ("hand-over version 3 was requested, but the running process supports version 1: "
               "stop it, then start the new one")
    asked = []

    def answer(listener):
        for number in range(1 + further):
            with listener.accept()[0] as there:
                there.settimeout(LIMIT)
                there.recv(1000)
                there.sendall(message("R", struct.pack("!I", 0)) + message("Z", b"I"))
                asked.append(there.recv(1000))
                text = refusal if number == 0 else "another one"
                there.sendall(message("E", f"SERROR\0C{sqlstate}\0M{text}\0\0".encode()))
                asked.append(there.recv(1000))

    with stranger(weir.socket_path, account.name) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        done = weir.run("-R", weir.ini)
        thread.join(LIMIT)
        assert os.path.exists(weir.socket_path)
    assert asked == [query("TAKEOVER 4"), b"", query("TAKEOVER 3"), b""][:2 + 2 * further]
    assert done.returncode == 1
    assert f"cannot take over: the running process refuses the take-over: {refusal}" in done.stderr


@as_root_only
@pytest.mark.parametrize("where", ("path", "abstract"))
@pytest.mark.parametrize("how", ("as the user", "as root"))
def test_a_stranger_that_listens_is_not_believed(make_pgweir, account, where, how):
    weir = make_pgweir()
    if where == "abstract":
        weir.configure(unix_socket_dir=f"@{os.path.basename(weir.dir)}{os.getpid()}")
    path = f"{weir.settings['unix_socket_dir']}/.s.PGSQL.{weir.port}"
    args = ["-R", weir.ini] if how == "as the user" else ["-R", "-u", account.name, weir.ini]
    with stranger(path, "nobody") as listener:
        done = weir.run(*args, as_root=how == "as root")
        assert done.returncode == 1
        assert f"cannot take over: {path}: the socket belongs to system user nobody (uid " in \
            done.stderr
        assert f", which is neither root nor {account.name} (uid " in done.stderr
        assert heard(listener, 1) == b""


@as_root_only
def test_nor_is_it_asked_by_name(make_pgweir, account):
    """Any user can listen below /tmp; root specifies the user."""
    weir = make_pgweir()
    path = weir.socket_path
    asks = (["--ready", path], ["--drain", path, "1"], ["--check", weir.ini, "--against", path],
            ["--ready", path, "-u", account.name], ["--ready", path, "--as", "stats"])
    with stranger(path, "nobody") as listener:
        for args in asks:
            for as_root in (False, True):
                done = weir.run(*args, as_root=as_root)
                assert done.returncode == 1, args
                assert f"{path}: the socket belongs to system user nobody (uid " in \
                    done.stderr, args
                assert heard(listener, 1) == b"", args


@as_root_only
def test_trust_of_root(pgweir, account):
    weir = pgweir()
    done = weir.run("--ready", weir.socket_path, as_root=True)
    assert done.returncode == 1 and "specify it with -u" in done.stderr
    assert "which is not root, and any user could have created it" in done.stderr
    assert weir.run("--ready", weir.socket_path, "-u", account.name, as_root=True).returncode == 0
    weir.configure(user=account.name)
    assert weir.run("--ready", weir.ini, as_root=True).returncode == 0
    assert weir.run("--check", weir.ini, "--against", weir.socket_path,
                    as_root=True).returncode == 0
    # Only the owner or root can have created it.
    with tempfile.TemporaryDirectory(dir="/run") as place:
        safe = f"{place}/own"
        account.mkdir(safe)
        os.chmod(place, 0o755)
        other = pgweir(unix_socket_dir=safe)
        path = f"{safe}/.s.PGSQL.{other.port}"
        assert other.run("--ready", path, as_root=True).returncode == 0
        # The group of root's directory may have created it too; the owner's group cannot act as the
        # owner.
        os.chmod(safe, 0o775)
        assert other.run("--ready", path, as_root=True).returncode == 0
        os.chown(place, 0, account.gid)
        os.chmod(place, 0o775)
        assert other.run("--ready", path, as_root=True).returncode == 1
        os.chmod(place, 0o1777)
        assert other.run("--ready", path, as_root=True).returncode == 1
        other.stop()


def test_a_configuration_file_names_the_socket(pgweir):
    weir = pgweir()
    assert weir.run("--ready", weir.ini).returncode == 0
    assert weir.run("--drain", weir.ini, "5").returncode == 0
    done = weir.run("--ready", weir.ini)
    assert done.returncode == 1 and "not ready: draining" in done.stderr
    weir.admin("RESUME")
    weir.configure(unix_socket_dir="")
    assert "unix_socket_dir is empty" in weir.run("--ready", weir.ini).stderr
    weir.configure(ini="[pgbouncer]\nno_such_setting = 1\n")
    assert "no_such_setting" in weir.run("--ready", weir.ini).stderr
    assert weir.run("--ready", weir.socket_path, "-u", "no_such_user").stderr == \
        "no such system user: no_such_user\n"


# ---- TLS with our record layer -----------------------------------------------------------------


@pytest.fixture
def secure_both(pgweir, own, secure_postgres):
    """TLS for clients and servers."""
    def start(**settings):
        return pgweir(postgres=secure_postgres, pool_mode="transaction",
                      server_tls_sslmode="require", client_tls_sslmode="allow",
                      client_tls_cert_file=own.cert, client_tls_key_file=own.key, **settings)
    return start


@pytest.mark.parametrize("suite", ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
                                   "TLS_CHACHA20_POLY1305_SHA256"))
def test_tls_moves_with_its_transaction(secure_both, suite):
    weir = secure_both(client_tls13_ciphers=suite, server_tls13_ciphers=suite)
    secure, idle, plain = (weir.connect(sslmode=mode, autocommit=True)
                           for mode in ("require", "require", "disable"))
    for client in (idle, plain):
        client.execute("SELECT %s::int", (1,), prepare=True)
    secure.execute("BEGIN")
    secure.execute("DECLARE c CURSOR FOR SELECT repeat('x', 20000) || g FROM generate_series(1, 9) g")
    backend = secure.execute(PID).fetchone()
    for number in range(3):
        weir.disconnect_console()
        assert weir.take_over().wait(15) == 0
        assert secure.execute("FETCH 1 FROM c").fetchone() == ("x" * 20000 + str(number + 1),)
        assert secure.execute(PID).fetchone() == backend
        for client in (idle, plain):
            assert client.execute("SELECT %s::int", (number,), prepare=True).fetchone() == (number,)
        for sockets in ("CLIENTS", "SERVERS"):
            rows = [row["tls"] for row in weir.admin(f"SHOW {sockets}") if row["tls"]]
            assert len(rows) >= 1 + (sockets == "CLIENTS")
            assert all(re.fullmatch(rf"TLSv1\.3/{suite}/ECDH=\w+/own", row) for row in rows), rows
    secure.execute("COMMIT")
    assert weir.connect(sslmode="require").execute("SELECT 2").fetchone() == (2,)


def listen_both(weir):
    """Clients without and with TLS that listen, and what the latter gets."""
    plain, secure = weir.client(), weir.connect(sslmode="require", autocommit=True)
    got = []
    secure.add_notify_handler(lambda note: got.append(note.payload))
    plain.query("LISTEN news")
    secure.execute("LISTEN news")
    weir.disconnect_console()
    return plain, secure, got


def both_hear(weir, plain, secure, got):
    weir.postgres.query("NOTIFY news, 'x'")
    assert note_of(plain.expect("A")) == "x"
    wait_until(lambda: secure.execute("SELECT 1") and got == ["x"])


def test_tls_clients_that_listen_move(secure_both):
    weir = secure_both()
    plain, secure, got = listen_both(weir)
    assert weir.take_over().wait(15) == 0
    both_hear(weir, plain, secure, got)


def test_tls_clients_that_move_can_be_cancelled(secure_both):
    weir = secure_both()
    secure = weir.connect(sslmode="require")
    secure.execute("SELECT 1")
    assert weir.take_over().wait(15) == 0
    answers = []

    def run():
        with pytest.raises(psycopg.errors.QueryCanceled) as canceled:
            secure.execute(SLEEP)
        answers.append(canceled.value.sqlstate)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: secure.cancel() or answers)
    thread.join(LIMIT)
    assert answers == ["57014"]


def test_a_part_of_a_record_moves(secure_both):
    """Two halves of a TLS record come to two processes."""
    weir = secure_both()
    client = record_client(weir)
    record = client.sock.seal(DATA, query("SELECT 'whole'"))
    for cut in (1, 4, 5, 6, len(record) - 1):
        client.sock.sock.sendall(record[:cut])
        # The old process has read the part: what it reads after it comes later.
        other = weir.client()
        wait_until(lambda: not unread(weir, client))
        assert weir.take_over().wait(15) == 0
        client.sock.sock.sendall(record[cut:])
        assert client.read_result().rows == [["whole"]]
        assert other.value("SELECT 1") == "1"
        record = client.sock.seal(DATA, query("SELECT 'whole'"))


def test_a_part_of_a_key_update_moves(secure_both):
    """The records of one key update come to different processes."""
    weir = secure_both()
    client = record_client(weir)
    for cut in (1, 3, 4):
        update = client.sock.key_update(asks=True, cuts=(cut,))
        first = 5 + cut + 1 + 16
        client.sock.sock.sendall(update[:first])
        other = weir.client()
        wait_until(lambda: not unread(weir, client))
        assert weir.take_over().wait(15) == 0
        client.sock.sock.sendall(update[first:])
        assert client.value("SELECT 'whole'") == "whole"
        assert other.value("SELECT 1") == "1"
    assert client.sock.updates == 3


def unread(weir, client):
    """Bytes that the process has not read from the client's socket."""
    port = client.sock.getsockname()[1]
    with open("/proc/net/tcp", encoding="ascii") as lines:
        for line in lines:
            fields = line.split()
            if fields[1].endswith(f":{weir.port:04X}") and fields[2].endswith(f":{port:04X}"):
                return int(fields[4].split(":")[1], 16)
    raise AssertionError("no such connection")


# ---- clients that stay -------------------------------------------------------------------------


@pytest.fixture
def secure_weir(pgweir, own):
    def start(**settings):
        settings.setdefault("tls_records", "openssl")  # which cannot be handed over
        return pgweir(pool_mode="transaction", client_tls_sslmode="allow",
                      client_tls_cert_file=own.cert, client_tls_key_file=own.key, **settings)
    return start


def test_tls_clients_stay_to_their_end(secure_weir):
    weir = secure_weir()
    plain, secure = weir.client(), weir.connect(sslmode="require")
    assert secure.execute("SELECT 1").fetchone() == (1,)
    old = weir.take_over()
    for number in range(5):
        assert secure.execute("SELECT %s::int", (number,)).fetchone() == (number,)
        assert plain.value(f"SELECT {number}") == str(number)
    assert old.poll() is None
    later = weir.connect(sslmode="require")
    assert later.execute("SELECT 2").fetchone() == (2,)
    secure.close()
    assert old.wait(15) == 0
    assert later.execute("SELECT 3").fetchone() == (3,)
    weir.wait_log("the take-over is complete")


def test_listeners_stay_with_one_of_tls(secure_weir):
    """Only one process can read the listening connection."""
    weir = secure_weir()
    plain, secure, got = listen_both(weir)
    old = weir.take_over()
    both_hear(weir, plain, secure, got)
    assert plain.value("SELECT 1") == "1"
    assert old.poll() is None
    secure.execute("UNLISTEN news")
    secure.close()
    assert old.wait(15) == 0
    weir.postgres.query("NOTIFY news, 'y'")
    assert note_of(plain.expect("A")) == "y"


def note_of(message):
    return message.body[4:].split(b"\0")[1].decode()


def test_listening_connection_with_tls_stays(pgweir, secure_postgres):
    weir = pgweir(postgres=secure_postgres, pool_mode="transaction", server_tls_sslmode="require",
                  tls_records="openssl")
    client, other = weir.client(), weir.client()
    client.query("LISTEN news")
    weir.disconnect_console()
    old = weir.take_over()
    assert other.value("SELECT 1") == "1"
    secure_postgres.query("NOTIFY news, 'x'")
    assert note_of(client.expect("A")) == "x"
    assert old.poll() is None
    client.query("UNLISTEN news")
    assert old.wait(15) == 0
    assert client.value("SELECT 2") == "2"


def test_servers_with_tls_stay(pgweir, secure_postgres):
    """A client without TLS leaves its server behind at the end of its transaction."""
    weir = pgweir(postgres=secure_postgres, pool_mode="transaction", server_tls_sslmode="require",
                  tls_records="openssl")
    client = weir.client()
    client.query("BEGIN")
    backend = client.value("SELECT pg_backend_pid()")
    old = weir.take_over()
    assert client.value("SELECT pg_backend_pid()") == backend
    assert old.poll() is None
    client.query("COMMIT")
    assert old.wait(15) == 0
    assert client.value("SELECT pg_backend_pid()") != backend


def test_a_begin_that_was_not_sent_yet(pgweir):
    weir = pgweir(pool_mode="transaction", late_begin=1)
    client = weir.client()
    assert client.query("BEGIN ISOLATION LEVEL SERIALIZABLE").status == "T"
    old = weir.take_over()
    assert client.value("SHOW transaction_isolation") == "serializable"
    assert client.query("COMMIT").tags == ["COMMIT"]
    assert old.wait(15) == 0
    assert client.value("SELECT 1") == "1"


def test_tls_clients_are_cancelled_where_they_are(secure_weir):
    weir = secure_weir()
    secure = weir.connect(sslmode="require")
    secure.execute("SELECT 1")
    old = weir.take_over()
    answers = []

    def run():
        try:
            secure.execute(SLEEP)
        except psycopg.errors.QueryCanceled as canceled:
            answers.append(canceled.sqlstate)

    thread = threading.Thread(target=run)
    thread.start()
    # One request may arrive before the statement.
    wait_until(lambda: secure.cancel() or answers)
    thread.join(LIMIT)
    assert answers == ["57014"]
    secure.close()
    assert old.wait(15) == 0


def cancel_request(weir, key, is_encrypted):
    """A connection that has sent the request, plain or by TLS."""
    asker = Wire(weir.address)
    if is_encrypted:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # without tickets, which may be read
        asker.send(special(SSL_REQUEST))
        assert asker.sock.recv(1) == b"S"
        asker.sock = context.wrap_socket(asker.sock, suppress_ragged_eofs=False)
    asker.send(special(CANCEL_REQUEST, key))
    return asker


@pytest.mark.parametrize("is_encrypted", (False, True))
def test_a_cancel_request_for_the_old_process_ends_when_it_is_delivered(secure_weir, is_encrypted):
    """The client sends its next statement then, which a late request would cancel."""
    weir = secure_weir()
    client = busy_client(weir, weir.postgres)
    old = weir.take_over()
    weir.wait_log("accepting no new clients")
    os.kill(old.pid, signal.SIGSTOP)
    try:
        askers = [cancel_request(weir, client.key, is_encrypted) for _ in range(6)]
        assert weir.client().value("SELECT 1") == "1"
        assert not select.select([asker.sock for asker in askers], [], [], 0.2)[0]
    finally:
        os.kill(old.pid, signal.SIGCONT)
    for asker in askers:
        assert asker.read_to_end() == []
        asker.close()
    assert client.read_result().error["C"] == "57014"
    for number in range(20):
        assert client.value(f"SELECT {number}") == str(number)
    assert old.wait(15) == 0


def test_wrong_cancel_keys_hold_up_nobody(weir, postgres):
    """Strangers send more of them than the old process reads."""
    client, idle = busy_client(weir, postgres), weir.client()
    old = weir.take_over()
    weir.wait_log("accepting no new clients")
    askers, times = [], []
    os.kill(old.pid, signal.SIGSTOP)
    try:
        for _ in range(500):
            askers.append(cancel_request(weir, os.urandom(8), False))
            since = time.monotonic()
            assert idle.value("SELECT 1") == "1"
            times.append(time.monotonic() - since)
    finally:
        os.kill(old.pid, signal.SIGCONT)
        for asker in askers:
            asker.close()
    assert max(times) < 0.9
    end_statement(client, weir, postgres)
    assert old.wait(15) == 0
    assert client.value("SELECT 2") == "2"


@pytest.mark.parametrize("resume", (lambda weir: weir.admin("RESUME"), lambda weir: weir.signal(signal.SIGUSR2)),
                         ids=("command", "signal"))
def test_resume_reaches_those_who_stay(secure_weir, resume):
    """They were paused before the take-over, and only the new process has a console."""
    weir = secure_weir()
    one, other = (weir.connect(dbname, sslmode="require") for dbname in ("app", "app2"))
    weir.admin("PAUSE")
    weir.disconnect_console()
    weir.take_over()
    weir.wait_log("accepting no new clients")
    resume(weir)
    assert one.execute("SELECT 1").fetchone() == (1,)
    stays = weir.connect("app2", sslmode="require")
    weir.admin("PAUSE app2")
    weir.disconnect_console()
    old = weir.take_over()
    weir.wait_log("accepting no new clients", since=weir.log.index("accepting no new clients") + 9)
    weir.admin("RESUME app2")
    assert stays.execute("SELECT 2").fetchone() == (2,)
    assert other.execute("SELECT 3").fetchone() == (3,)
    for connection in (one, other, stays):
        connection.close()
    assert old.wait(15) == 0


@pytest.mark.parametrize("command", ("PAUSE", "PAUSE app", "WAIT_CLOSE app", "DRAIN HOST 127.0.0.1"))
def test_a_command_that_waits_does_not_succeed(secure_weir, command):
    """The transaction that it waits for goes on in the new process."""
    weir = secure_weir()
    stays, client, console = weir.connect("app2", sslmode="require"), weir.client(), weir.console()
    client.query("BEGIN")
    client.query("SELECT 1")
    console.query("RECONNECT app")
    console.send(query(command))
    weir.wait_log(f"{command.split()[0]}.* command issued")
    old = weir.take_over()
    error = console.read_result().error
    assert (error["C"], "was ended before all" in error["M"]) == ("57014", True)
    assert "Another process has taken over" in error["H"]
    assert client.query("SELECT 2").status == "T"
    stays.close()
    assert old.wait(15) == 0


def test_their_time_is_limited(secure_weir):
    weir = secure_weir(takeover_timeout="0.2")
    secure = weir.connect(sslmode="require")
    secure.execute("SELECT 1")
    assert weir.take_over().wait(15) == 0
    with pytest.raises(psycopg.OperationalError) as told:
        secure.execute("SELECT 2")
    assert "takeover_timeout" in str(told.value)


def test_one_after_the_other_while_some_stay(secure_weir):
    """Each process serves clients it cannot hand over; idle clients pass through all processes."""
    weir = secure_weir()
    plain, secure = weir.client(), weir.connect(sslmode="require")
    plain.query("BEGIN")
    secure.execute("SELECT 1")
    first = weir.take_over()
    second_secure = weir.connect(sslmode="require")
    second = weir.take_over()
    weir.take_over()
    assert plain.query("COMMIT").tags == ["COMMIT"]
    assert secure.execute("SELECT 1").fetchone() == (1,)
    assert second_secure.execute("SELECT 2").fetchone() == (2,)
    secure.close()
    assert first.wait(15) == 0
    assert second.poll() is None
    second_secure.close()
    assert second.wait(15) == 0
    assert plain.value("SELECT 3") == "3"


def test_a_chain_is_limited_in_time(secure_weir):
    """Each process waits for the one before it, and that for clients that cannot leave."""
    weir = secure_weir(takeover_timeout="1")
    old, secure = [], []
    for _ in range(3):
        secure.append(weir.connect(sslmode="require", autocommit=True))
        secure[-1].execute("SELECT 1")
        old.append(weir.take_over())
    for process, client in zip(old, secure):
        assert process.wait(15) == 0
        with pytest.raises(psycopg.OperationalError, match="takeover_timeout"):
            client.execute("SELECT 2")
    assert weir.connect(sslmode="require").execute("SELECT 3").fetchone() == (3,)


def test_a_shutdown_is_for_both(secure_weir):
    weir = secure_weir()
    secure = weir.connect(sslmode="require")
    secure.execute("SELECT 1")
    old = weir.take_over()
    weir.signal(signal.SIGTERM)
    assert weir.wait_exit() == 0
    assert old.wait(15) == 0


@pytest.mark.parametrize("reuse_port", (0, 1))
@pytest.mark.parametrize("command", ("SUSPEND", "DRAIN"))
def test_only_the_new_process_accepts_clients(pgweir, postgres, reuse_port, command):
    """Whatever an administrator begins in the old one, and ends."""
    weir = pgweir(pool_mode="transaction", so_reuseport=reuse_port, suspend_timeout=0)
    client, console = weir.client(), weir.client("admin", "pgbouncer")
    client.send(query(SLEEP))
    wait_asleep(postgres)
    old = weir.take_over()
    weir.wait_log("accepting no new clients")
    console.send(query(command))
    weir.wait_log(f"{command} command issued")
    old.send_signal(signal.SIGUSR2)
    weir.wait_log("got SIGUSR2, continuing from PAUSE")
    since = len(weir.log)
    for number in range(40):
        with contextlib.closing(weir.client()) as other:
            assert other.value(f"SELECT {number}") == str(number)
    assert f"[{old.pid}] LOG C-" not in weir.log[since:]
    send_cancel(weir.address, client.key)
    assert client.read_result().error["C"] == "57014"
    assert old.wait(15) == 0


def test_a_drain_is_for_clients_that_arrive_later_too(weir, postgres):
    client = weir.client()
    client.send(query(SLEEP))
    wait_asleep(postgres)
    old = weir.take_over()
    weir.wait_log("accepting no new clients")
    with contextlib.closing(weir.client("admin", "pgbouncer")) as console:
        console.send(query("DRAIN 600"))
        weir.wait_log("drained: no client is left")
        send_cancel(weir.address, client.key)
        assert client.read_result().error["C"] == "57014"
        assert old.wait(15) == 0
        kind, body = client.read()
        assert kind == "E" and error_fields(body)["C"] == "57P01"
        client.wait_closed()


@pytest.mark.parametrize("kind", (b"\0", b"\1", b"\2"))
def test_a_stop_as_the_last_word(secure_weir, kind):
    """In the middle of a round, instead of a response, as if both processes ended at the same time.
    """
    weir = secure_weir()
    lost, last = weir.client(), weir.connect(sslmode="require")
    with Successor(weir) as successor:
        cut_behind_the_round(successor)
        successor.say("A")
        assert successor.read() == ("Y", b"")
        last.close()
        successor.read_until("z")
        successor.say("S", kind)
    assert weir.wait_exit() == 0
    assert "this process goes on" not in weir.log
    lost.wait_closed()


# ---- files and the service manager -------------------------------------------------------------


def test_pidfile_and_socket_are_the_new_one_s(make_pgweir):
    weir = make_pgweir(pool_mode="transaction")
    path = f"{weir.dir}/pid"
    weir.configure(pidfile=path).start()

    def written():
        with open(path, encoding="ascii") as file:
            return int(file.read())

    assert written() == weir.pid
    assert weir.take_over().wait(15) == 0
    wait_until(lambda: written() == weir.pid)
    assert os.path.exists(weir.socket_path)
    assert os.listdir(weir.dir).count("pid") == 1
    assert not [name for name in os.listdir(weir.dir) if name.startswith("pid.")]
    weir.signal(signal.SIGINT)
    assert weir.wait_exit() == 0
    assert not os.path.exists(path) and not os.path.exists(weir.socket_path)


def test_in_the_background(make_pgweir):
    """As in a package's scripts: the command returns, the process continues."""
    weir = make_pgweir(pool_mode="transaction")
    path = f"{weir.dir}/pid"
    weir.configure(pidfile=path, logfile=f"{weir.dir}/log").start()
    client = weir.client()
    client.query("BEGIN")
    old, first = weir.process, weir.pid
    assert weir.run("-q", "-d", "-R", weir.ini).returncode == 0

    def written():
        with open(path, encoding="ascii") as file:
            return int(file.read() or 0)

    wait_until(lambda: written() != first)
    assert old.wait(15) == 0
    assert client.query("COMMIT").tags == ["COMMIT"]
    pid = written()
    os.kill(pid, signal.SIGINT)
    wait_until(lambda: not os.path.exists(path))
    client.wait_closed()


def test_the_service_manager_is_told_the_new_pid(make_pgweir):
    weir = make_pgweir(pool_mode="transaction")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{weir.dir}/notify")
        os.chmod(f"{weir.dir}/notify", 0o777)
        manager.settimeout(LIMIT)
        weir.start(env={"NOTIFY_SOCKET": f"{weir.dir}/notify"})
        assert f"MAINPID={weir.pid}" in manager.recv(4096).decode()
        old = weir.take_over(env={"NOTIFY_SOCKET": f"{weir.dir}/notify"})
        assert old.wait(15) == 0
        told = manager.recv(4096).decode()
        assert "READY=1" in told and f"MAINPID={weir.pid}" in told


# ---- under load --------------------------------------------------------------------------------


class Load:
    """Clients that work continuously, each with its own rows."""

    def __init__(self, weir, count, sslmode="prefer"):
        self.weir = weir
        self.sslmode = sslmode
        self.problems = []
        self.rounds = [0] * count
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(number,)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def work(self, number):
        kinds = (self.simple, self.prepared, self.transaction, self.parameters)
        try:
            # Its own connection: the fixture's list is not thread-safe.
            connection = psycopg.connect(host="127.0.0.1", port=self.weir.port, dbname="app",
                                         user="alice", autocommit=True, prepare_threshold=0,
                                         sslmode=self.sslmode)
            connection.execute(f"SET application_name = 'client {number}'")
            with connection:
                while not self.is_over.is_set():
                    kinds[number % len(kinds)](connection, number)
                    self.rounds[number] += 1
        except Exception as problem:  # pylint: disable=broad-except
            self.problems.append(f"client {number}: {problem!r}")

    def check(self, number, got, wanted):
        if got != wanted:
            self.problems.append(f"client {number} got {got}, not {wanted}")

    def simple(self, connection, number):
        row = connection.execute(f"SELECT {number}", prepare=False).fetchone()
        self.check(number, row, (number,))

    def prepared(self, connection, number):
        rows = connection.execute("SELECT %s::int + g FROM generate_series(1, 20) g",
                                  (number,)).fetchall()
        self.check(number, rows, [(number + g,) for g in range(1, 21)])

    def transaction(self, connection, number):
        with connection.transaction():
            with connection.cursor("held") as cursor:
                cursor.execute("SELECT %s::int * g FROM generate_series(1, 30) g", (number,))
                for g in range(1, 31, 10):
                    self.check(number, cursor.fetchmany(10),
                               [(number * (g + more),) for more in range(10)])

    def parameters(self, connection, number):
        row = connection.execute("SELECT current_setting('application_name'), %s::text",
                                 (str(number),)).fetchone()
        self.check(number, row, (f"client {number}", str(number)))

    def wait_round(self, count=2):
        """Waits until each client has done some more rounds."""
        wanted = [done + count for done in self.rounds]
        wait_until(lambda: self.problems or
                   all(done >= want for done, want in zip(self.rounds, wanted)), limit=60,
                   what="the next rounds of all clients")
        assert not self.problems, self.problems[:5]

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join(30)
        assert not self.problems, self.problems[:5]


def test_a_hundred_clients_under_load(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=10, min_pool_size=2,
                  query_wait_timeout=60)
    load = Load(weir, 100)
    try:
        load.wait_round()
        for _ in range(4):
            old = weir.take_over()
            load.wait_round()
            assert old.wait(15) == 0
    finally:
        load.stop()


def test_two_hundred_clients_with_tls(secure_both):
    """A quarter of them at work. None stays with an old process."""
    weir = secure_both(default_pool_size=10, query_wait_timeout=60, max_client_conn=300)
    idle = [weir.connect(sslmode="require", autocommit=True) for _ in range(150)]
    load = Load(weir, 50, sslmode="require")
    try:
        load.wait_round()
        for _ in range(4):
            weir.disconnect_console()
            old = weir.take_over()
            load.wait_round()
            assert old.wait(15) == 0
            moved = [row for row in weir.admin("SHOW CLIENTS") if row["tls"].endswith("/own")]
            assert len(moved) == 200
    finally:
        load.stop()
    assert weir.log.count("everything is handed over") == 4
    for client in idle:
        assert client.execute("SELECT 1").fetchone() == (1,)


def kill_one_that_starts(weir, good):
    """Its log is a pipe without a reader, so it blocks until it is killed."""
    fifo = f"{weir.dir}/fifo"
    os.mkfifo(fifo)
    os.chmod(fifo, 0o666)
    weir.account.write(weir.ini, good + f"logfile = {fifo}\n")
    first, since = weir.process, len(weir.log)
    weir.start("-R", wait=False)
    weir.wait_log("another process is taking over", since=since)
    weir.process.kill()
    weir.process.wait()
    weir.process = first
    weir.wait_log("take-over failed, this process continues", since=since)


def test_a_new_one_that_fails_under_load(pgweir):
    """An invalid file, a port in use, a kill: no client notices."""
    weir = pgweir(pool_mode="transaction", default_pool_size=5, query_wait_timeout=60)
    load = Load(weir, 20)
    first, good = weir.process, weir.text()
    try:
        load.wait_round()
        for bad in (good + "nonsense = 1\n", good.replace("listen_addr = 127.0.0.1",
                                                          "listen_addr = 192.0.2.1"),
                    good.replace("app2 =", "appx =").replace("app =", "appy =")):
            weir.account.write(weir.ini, bad)
            result = weir.run("-R", weir.ini)
            assert result.returncode == 1, result.stdout
            load.wait_round(1)
        kill_one_that_starts(weir, good)
        load.wait_round(1)
        weir.account.write(weir.ini, good)
        for cut in CUTS:
            since = len(weir.log)
            with Successor(weir) as successor:
                cut(successor)
            weir.wait_log("take-over failed, this process continues", since=since)
            load.wait_round(1)
        assert first.poll() is None
    finally:
        load.stop()
