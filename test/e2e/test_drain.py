# SPDX-License-Identifier: ISC
"""DRAIN disconnects clients between their transactions; --ready and --drain on the command line."""

import signal
import subprocess

import pytest

from .kit.daemon import USERS
from .kit.postgres import find_bin
from .kit.wait import LIMIT, wait_until
from .kit.wire import (Wire, bind, cstr, execute, message, parse, query, refusal, send_cancel,
                       sync)
from .test_peers import sleep_query, wait_asleep
from .test_tls import tls_client

DRAINING = ("FATAL", "57P01", "pooler is draining")
OVERDUE = ("FATAL", "57P01", "the deadline of DRAIN has passed")
ENDED = ("FATAL", "57P01", "pooler is shutting down")
NOT_NOW = ("FATAL", "57P03", "pooler is draining")


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction", default_pool_size=2)


def told(client):
    refused = client.read_refusal()
    client.close()  # as a driver would; DRAIN waits until its messages have been read
    return refused.severity, refused.sqlstate, refused.text


def drain(weir, seconds=""):
    """A console that waits for its DRAIN."""
    console = weir.console()
    console.send(query(f"DRAIN {seconds}"))
    wait_until(lambda: state(weir) != "no", what="the DRAIN")
    return console


def row(weir):
    return weir.admin("SHOW DRAIN")[0]


def state(weir):
    return row(weir)["state"]


def ready(weir):
    return tuple(weir.admin("SHOW READY")[0].values())


# -- which clients are disconnected, and when -----------------------------------------------------


def test_clients_at_rest_go_at_once(weir):
    clients = [weir.client() for _ in range(5)]
    clients[0].query("SELECT 1")
    console = drain(weir)
    assert [told(client) for client in clients] == [DRAINING] * 5
    assert console.read_result().tags == ["DRAIN"]
    weir.wait_log(r"drained: no client is left; 5 closed between transactions, 0 at the deadline")
    assert row(weir) == {"state": "drained", "clients": 0, "working": 0, "waiting": 0,
                         "closed": 5, "cut": 0, "seconds_left": -1}


def test_a_drain_without_clients_is_done_at_once(weir):
    assert weir.ask_admin("DRAIN").tags == ["DRAIN"]
    assert state(weir) == "drained"


def test_a_transaction_comes_to_its_end(weir):
    client = weir.client()
    client.query("BEGIN")
    console = drain(weir)
    assert client.value("SELECT 1") == "1"
    assert client.query("SAVEPOINT s").status == "T"
    assert row(weir)["working"] == 1
    client.send(query("COMMIT"))
    done = client.read_result()
    assert (done.tags, done.status) == (["COMMIT"], "I")
    assert told(client) == DRAINING
    assert console.read_result().tags == ["DRAIN"]


def test_a_transaction_that_failed_too(weir):
    client = weir.client()
    client.query("BEGIN")
    drain(weir)
    assert client.query("SELECT 1/0").error["C"] == "22012"
    assert client.query("ROLLBACK").tags == ["ROLLBACK"]
    assert told(client) == DRAINING


def test_statements_under_way_are_answered(weir, postgres):
    holder = postgres.connect("app", "alice")
    holder.execute("SELECT pg_advisory_lock(77)")
    simple, extended = weir.client(), weir.client()
    simple.send(query("SELECT pg_advisory_xact_lock_shared(77)"))
    extended.send(parse("SELECT pg_advisory_xact_lock_shared(77)"), bind(), execute(), sync())
    weir.wait_pool(sv_active=2)
    console = drain(weir)
    assert row(weir)["working"] == 2
    holder.close()
    for client in (simple, extended):
        assert client.read_result().status == "I"
        assert told(client) == DRAINING
    assert console.read_result().tags == ["DRAIN"]


def test_waiting_clients_are_served_first(weir):
    inside = [weir.client(), weir.client()]
    for client in inside:
        client.query("BEGIN")
    waiting = weir.client()
    waiting.send(query("SELECT 'served'"))
    weir.wait_pool(cl_waiting=1)
    drain(weir)
    assert row(weir)["waiting"] == 1
    inside[0].query("COMMIT")
    assert told(inside[0]) == DRAINING
    assert waiting.read_result().rows == [["served"]]
    assert told(waiting) == DRAINING


def test_what_was_said_together_is_served_together(weir):
    client = weir.client()
    client.query("BEGIN")
    drain(weir)
    client.send(query("COMMIT") + query("SELECT 1") + query("BEGIN") + query("COMMIT"))
    assert [client.read_result().tags for _ in range(4)] == \
        [["COMMIT"], ["SELECT 1"], ["BEGIN"], ["COMMIT"]]
    assert told(client) == DRAINING


def test_what_has_reached_us_is_served(pgweir):
    """The statements of all clients have arrived when the daemon reads the DRAIN command."""
    weir = pgweir(pool_mode="transaction", default_pool_size=5)
    clients = [weir.client() for _ in range(50)]
    console = weir.console()
    with weir.one_turn():
        console.send(query("DRAIN"))
        for client in clients:
            client.send(query("SELECT 'served'"))
    for client in clients:
        assert client.read_result().rows == [["served"]]
        assert told(client) == DRAINING
    assert console.read_result().tags == ["DRAIN"]


def test_half_a_message_is_no_rest(weir):
    client = weir.client()
    whole = query("SELECT 'whole'")
    client.send(whole[:9])
    wait_until(lambda: any(row["user"] == "alice" for row in weir.admin("SHOW ACTIVE_SOCKETS")))
    drain(weir)
    assert row(weir)["clients"] == 1
    client.send(whole[9:])
    assert client.read_result().rows == [["whole"]]
    assert told(client) == DRAINING


def test_a_slow_reader_gets_all_of_its_answer(weir):
    client = weir.client()
    client.send(query("SELECT repeat('x', 1000000) FROM generate_series(1, 20)"))
    weir.wait_pool(sv_active=1)
    drain(weir)
    assert [len(value) for (value,) in client.read_result().rows] == [1000000] * 20
    assert told(client) == DRAINING


def test_after_an_error_of_ours_the_sync_is_awaited(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    first, second = weir.client(), weir.client()
    first.query("BEGIN")
    second.send(parse("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    send_cancel(weir.address, second.key)
    second.read_until("E")
    drain(weir)
    assert row(weir)["clients"] == 2
    second.send(sync())
    assert second.read_result().types == "Z"
    assert told(second) == DRAINING


def test_sessions_go_between_transactions_too(pgweir):
    """The state of a session is lost; otherwise the session would never end."""
    weir = pgweir(pool_mode="session", default_pool_size=5)
    idle, fresh, busy = weir.client(), weir.client(), weir.client()
    idle.query("CREATE TEMPORARY TABLE t ()")
    busy.query("BEGIN")
    console = drain(weir)
    assert told(idle) == told(fresh) == DRAINING
    assert busy.value("SELECT 1") == "1"
    assert busy.query("COMMIT").tags == ["COMMIT"]
    assert told(busy) == DRAINING
    assert console.read_result().tags == ["DRAIN"]
    weir.wait_pool(sv_active=0)


def test_encrypted_clients_are_told_too(pgweir, own):
    weir = pgweir(pool_mode="transaction", client_tls_sslmode="require",
                  client_tls_cert_file=own.cert, client_tls_key_file=own.key)
    weir.console_address = weir.socket_path
    idle, busy = tls_client(weir), tls_client(weir)
    busy.query("BEGIN")
    weir.ask_admin("SHOW STATE")
    weir._console.send(query("DRAIN"))
    assert told(idle) == DRAINING
    assert busy.query("COMMIT").tags == ["COMMIT"]
    assert told(busy) == DRAINING
    assert weir._console.read_result().tags == ["DRAIN"]


def test_many_clients(pgweir):
    weir = pgweir(pool_mode="transaction", max_client_conn=1000)
    clients = [weir.client() for _ in range(600)]
    console = drain(weir)
    assert all(told(client) == DRAINING for client in clients)
    assert console.read_result().tags == ["DRAIN"]
    assert row(weir)["closed"] == 600


# -- new clients during a DRAIN -------------------------------------------------------------------


def test_nobody_comes_in_but_by_the_console(weir):
    client = weir.client()
    client.query("BEGIN")
    drain(weir)
    for address in (weir.address, weir.socket_path):
        refused = refusal(address)
        assert (refused.severity, refused.sqlstate, refused.text) == NOT_NOW
    assert weir.client("stats", "pgbouncer").query("SHOW READY").rows == [["no", "draining"]]
    done = subprocess.run([f"{find_bin()}/pg_isready", "-h", "127.0.0.1", "-p", str(weir.port),
                           "-t", "30"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "rejecting connections" in done.stdout


def test_a_login_under_way_is_refused(pgweir):
    """It gets the error after the password check: no login completes after the DRAIN has begun."""
    weir = pgweir(auth_type="plain", pool_mode="transaction")
    half = weir.wire().startup("plain_user")
    half.expect("R")
    weir.ask_admin("DRAIN")
    half.send(message("p", cstr(USERS["plain_user"])))
    assert told(half) == NOT_NOW


def test_who_has_not_been_welcomed_is_refused(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={far.port}"})
    newcomer = weir.wire().startup()
    weir.wait_pool(cl_waiting=1)
    console = drain(weir)
    assert told(newcomer) == NOT_NOW
    assert console.read_result().tags == ["DRAIN"]


def test_cancel_requests_come_through(weir):
    client = weir.client()
    sql, tag = sleep_query()
    client.send(query(sql))
    wait_asleep(weir, tag)
    drain(weir)
    send_cancel(weir.address, client.key)
    assert client.read_result().error["C"] == "57014"
    assert told(client) == DRAINING


# -- the deadline ---------------------------------------------------------------------------------


def test_the_deadline_ends_the_others(weir):
    inside, asking = weir.client(), weir.client()
    for client in (inside, asking):
        client.query("BEGIN")
    waiting = weir.client()
    waiting.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    console = drain(weir, 1)
    assert 0 <= row(weir)["seconds_left"] <= 1
    assert [told(client) for client in (inside, asking, waiting)] == [OVERDUE] * 3
    assert console.read_result().tags == ["DRAIN"]
    assert row(weir)["cut"] == 3
    weir.wait_log("the deadline of DRAIN has passed: closing the 3 clients left")


def test_a_transaction_that_no_server_knows_of(weir):
    """With a late BEGIN it is in a transaction like any other, until its end or the deadline."""
    weir.reload(late_begin="1")
    ending, staying = weir.client(), weir.client()
    for client in (ending, staying):
        assert client.query("BEGIN").status == "T"
    console = drain(weir, 3600)
    assert row(weir)["clients"] == 2
    assert ending.query("ROLLBACK").tags == ["ROLLBACK"]
    assert told(ending) == DRAINING
    hurried = weir.console()
    hurried.send(query("DRAIN 0"))
    assert told(staying) == OVERDUE
    assert console.read_result().tags == hurried.read_result().tags == ["DRAIN"]
    assert (row(weir)["closed"], row(weir)["cut"]) == (1, 1)


def test_no_time_at_all(weir):
    client = weir.client()
    client.query("BEGIN")
    console = drain(weir, 0)
    assert told(client) == OVERDUE
    assert console.read_result().tags == ["DRAIN"]


def test_another_deadline(weir):
    client = weir.client()
    client.query("BEGIN")
    first = drain(weir, 3600)
    assert row(weir)["seconds_left"] > 3500
    second = weir.console()
    second.send(query("DRAIN 0"))
    assert told(client) == OVERDUE
    assert first.read_result().tags == second.read_result().tags == ["DRAIN"]


# -- progress and end of a DRAIN ------------------------------------------------------------------


def test_progress_is_told(weir):
    client = weir.client()
    client.query("BEGIN")
    console = drain(weir, 3600)
    notice = console.read()
    assert notice.type == "N"
    assert notice.fields["M"].startswith(
        "draining: 1 clients left, 1 of them at work, 0 waiting for a server; "
        "0 closed between transactions, 0 at the deadline; ")
    assert notice.fields["M"].endswith(" s left")
    weir.wait_log("draining: 1 clients left, ")
    # One more arrives each second.
    assert console.read().type == "N"


def test_what_is_shown(weir):
    assert row(weir)["state"] == "no" and ready(weir) == ("yes", "")
    client = weir.client()
    client.query("BEGIN")
    drain(weir)
    assert row(weir) == {"state": "draining", "clients": 1, "working": 1, "waiting": 0,
                         "closed": 0, "cut": 0, "seconds_left": -1}
    assert ready(weir) == ("no", "draining")
    assert {line["key"]: line["value"] for line in weir.admin("SHOW STATE")} == \
        {"active": "no", "paused": "no", "suspended": "no"}


def test_resume_ends_it(weir):
    client = weir.client()
    client.query("BEGIN")
    console = drain(weir)
    assert weir.ask_admin("RESUME").tags == ["RESUME"]
    error = console.read_result().error
    assert (error["C"], error["M"]) == ("57014", "DRAIN was ended before all clients had left")
    assert client.query("COMMIT").tags == ["COMMIT"]
    assert client.value("SELECT 1") == "1"
    assert weir.client().value("SELECT 1") == "1"
    assert ready(weir) == ("yes", "") and state(weir) == "no"
    assert weir.ask_admin("RESUME").error["M"] == "pooler is not paused/suspended"


def test_resume_after_its_end(weir):
    weir.ask_admin("DRAIN")
    assert weir.ask_admin("RESUME").tags == ["RESUME"]
    assert weir.client().value("SELECT 1") == "1"


# -- SIGTERM with shutdown_drain ------------------------------------------------------------------


def test_sigterm_drains_and_ends(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2, shutdown_drain="60s")
    idle, busy, console = weir.client(), weir.client(), weir.console()
    busy.query("BEGIN")
    weir.signal(signal.SIGTERM)
    weir.wait_log(r"got SIGTERM, shutting down, disconnecting clients within 60 s "
                  r"\(shutdown_drain\)")
    assert told(idle) == DRAINING
    assert busy.value("SELECT 1") == "1"
    weir.signal(signal.SIGUSR2)
    weir.wait_log("got SIGUSR2 while shutting down, ignoring")
    assert weir.process.poll() is None
    busy.send(query("COMMIT"))
    assert busy.read_result().tags == ["COMMIT"]
    assert told(busy) == DRAINING
    # The open console does not delay it, and gets an error.
    assert weir.wait_exit() == 0
    assert told(console) == ENDED


@pytest.mark.parametrize("names", ("SIGINT", "SIGTERM, sigint"))
def test_sigint_drains_too(pgweir, names):
    weir = pgweir(pool_mode="transaction", shutdown_drain=3600, shutdown_drain_signals=names)
    idle, busy = weir.client(), weir.client()
    busy.query("BEGIN")
    weir.signal(signal.SIGINT)
    weir.wait_log("got SIGINT, shutting down, disconnecting clients within 3600 s")
    assert told(idle) == DRAINING
    busy.query("COMMIT")
    assert told(busy) == DRAINING
    assert weir.wait_exit() == 0


def test_only_the_signals_named(pgweir):
    weir = pgweir(pool_mode="transaction", shutdown_drain=3600, shutdown_drain_signals="SIGINT")
    client = weir.client()
    weir.signal(signal.SIGTERM)
    weir.wait_log("got SIGTERM, shutting down, waiting for all clients to disconnect")
    assert client.value("SELECT 1") == "1"
    client.close()
    assert weir.wait_exit() == 0


@pytest.mark.parametrize("names", ("SIGHUP", "!SIGINT"))
def test_other_signals_are_refused(make_pgweir, names):
    weir = make_pgweir(shutdown_drain_signals=names)
    done = weir.run("--check", weir.ini)
    assert done.returncode == 1 and "shutdown_drain_signals" in done.stderr


def test_sigterm_has_a_deadline(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2, shutdown_drain="300ms")
    client = weir.client()
    client.query("BEGIN")
    weir.signal(signal.SIGTERM)
    assert told(client) == OVERDUE
    assert weir.wait_exit() == 0


def test_sigterm_with_nobody_there(pgweir):
    weir = pgweir(shutdown_drain=3600)
    weir.signal(signal.SIGTERM)
    assert weir.wait_exit() == 0


def test_a_second_sigterm_ends_at_once(pgweir):
    weir = pgweir(pool_mode="transaction", shutdown_drain=3600)
    client = weir.client()
    client.query("BEGIN")
    weir.signal(signal.SIGTERM)
    weir.wait_log("draining: 1 clients left")
    weir.signal(signal.SIGTERM)
    assert told(client) == ENDED
    assert weir.wait_exit() == 0


# -- shutdown_accept: what comes before ---------------------------------------------------------------


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT))
def test_clients_are_accepted_until_the_balancers_know(pgweir, number):
    """All goes on as before, but for what the probes say. A second signal ends it at once."""
    weir = pgweir(pool_mode="transaction", shutdown_accept=3600, shutdown_drain=3600)
    resting, busy = weir.client(), weir.client()
    busy.query("BEGIN")
    weir.ask_admin("SHOW STATE")
    weir.signal(number)
    weir.wait_log(rf"got {number.name}, accepting clients for 3600 s more \(shutdown_accept\)")
    assert ready(weir) == ("no", "shutting down")
    assert probe(weir) == (1, "not ready: shutting down")
    for client in (resting, busy, weir.client()):
        assert client.value("SELECT 1") == "1"
    assert busy.query("COMMIT").status == "I"
    assert busy.value("SELECT 1") == "1"
    weir.signal(number)
    assert told(resting) == ENDED
    assert weir.wait_exit() == 0


def test_then_they_are_drained(pgweir):
    weir = pgweir(pool_mode="transaction", shutdown_accept="300ms", shutdown_drain=3600)
    resting, busy = weir.client(), weir.client()
    busy.query("BEGIN")
    weir.signal(signal.SIGTERM)
    weir.wait_log("accepting clients for 1 s more")
    assert told(resting) == DRAINING
    with pytest.raises(ConnectionRefusedError):
        Wire(weir.address)
    busy.query("COMMIT")
    assert told(busy) == DRAINING
    assert weir.wait_exit() == 0


def test_then_running_work_ends(pgweir):
    weir = pgweir(pool_mode="transaction", shutdown_accept="300ms")
    busy = weir.client()
    busy.query("BEGIN")
    weir.signal(signal.SIGINT)
    weir.wait_log("got SIGINT, shutting down, waiting for all servers to disconnect")
    assert busy.query("COMMIT").tags == ["COMMIT"]
    assert weir.wait_exit() == 0


def test_the_console_need_not_wait_for_it(pgweir):
    weir = pgweir(pool_mode="transaction", shutdown_accept=3600)
    weir.console_address = weir.socket_path
    client = weir.client()
    weir.ask_admin("SHOW STATE")
    weir.signal(signal.SIGTERM)
    weir.wait_log("accepting clients for 3600 s more")
    assert weir.ask_admin("RESUME").error["M"] == "pooler is shutting down"
    assert weir.ask_admin("SHUTDOWN WAIT_FOR_CLIENTS").tags == ["SHUTDOWN"]
    with pytest.raises(ConnectionRefusedError):
        Wire(weir.address)
    assert client.value("SELECT 1") == "1"
    client.close()
    weir.disconnect()
    assert weir.wait_exit() == 0


def test_where_nobody_is_accepted_it_begins_at_once(pgweir):
    weir = pgweir(pool_mode="transaction", shutdown_accept=3600, shutdown_drain=3600)
    weir.ask_admin("DRAIN")
    weir.signal(signal.SIGTERM)
    assert weir.wait_exit() == 0


# -- more of DRAIN ------------------------------------------------------------------------------------


def test_a_cancel_request_ends_it(weir):
    client = weir.client()
    client.query("BEGIN")
    console = drain(weir)
    send_cancel(weir.address, console.key)
    result = console.read_result()
    assert result.error["C"] == "57014"
    assert state(weir) == "no"
    assert weir.client().value("SELECT 1") == "1"


def test_it_goes_on_without_its_console(weir):
    client = weir.client()
    client.query("BEGIN")
    drain(weir).close()
    for _ in range(3):
        assert state(weir) == "draining"
    client.query("COMMIT")
    assert told(client) == DRAINING


def test_the_signal_to_resume_ends_it_too(weir):
    client = weir.client()
    client.query("BEGIN")
    drain(weir)
    weir.signal(signal.SIGUSR2)
    wait_until(lambda: state(weir) == "no")
    assert weir.client().value("SELECT 1") == "1"


@pytest.mark.parametrize("words, says", (
    ("DRAIN x", "DRAIN takes seconds"), ("DRAIN 5s", "DRAIN takes seconds"),
    ("DRAIN 99999999999", "DRAIN takes seconds"), ("DRAIN 1 2", "invalid command")))
def test_bad_words(weir, words, says):
    assert weir.ask_admin(words).error["M"].startswith(says)
    assert state(weir) == "no"


def test_not_while_all_is_held_back(weir):
    weir.ask_admin("PAUSE")
    assert weir.ask_admin("DRAIN").error["M"] == "already suspended/paused"
    weir.ask_admin("RESUME")


def test_a_pause_during_a_drain(weir):
    """PAUSE keeps clients waiting; RESUME ends both."""
    client = weir.client()
    client.query("BEGIN")
    drain(weir)
    console = weir.console()
    console.send(query("PAUSE"))
    wait_until(lambda: ready(weir) == ("no", "draining") and
               weir.admin("SHOW STATE")[1]["value"] == "yes")
    client.query("COMMIT")
    assert told(client) == DRAINING
    assert console.read_result().tags == ["PAUSE"]
    weir.ask_admin("RESUME")
    assert ready(weir) == ("yes", "")
    assert weir.client().value("SELECT 1") == "1"


def test_shutdown_follows(weir):
    client = weir.client()
    client.query("BEGIN")
    console = drain(weir, 3600)
    client.query("COMMIT")
    assert told(client) == DRAINING
    assert console.read_result().tags == ["DRAIN"]
    weir.disconnect()
    weir.signal(signal.SIGTERM)
    assert weir.wait_exit() == 0


def test_drain_hurries_a_shutdown(weir):
    """Clients of a connection pool would never disconnect."""
    client = weir.client()
    console = weir.console()
    console.query("SHUTDOWN WAIT_FOR_CLIENTS")
    console.send(query("DRAIN"))
    assert told(client) == DRAINING
    assert console.read_result().tags == ["DRAIN"]
    assert console.query("RESUME").error["M"] == "pooler is shutting down"
    weir.disconnect()
    assert weir.wait_exit() == 0


def is_refused(address):
    try:
        Wire(address).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        pass  # the listening socket was closed during the handshake
    return False


def test_a_port_of_many_is_left(make_pgweir):
    """Other instances with so_reuseport get the new connections; after RESUME it gets its share
    again.
    """
    weir = make_pgweir(so_reuseport=1, pool_mode="transaction")
    weir.console_address = weir.socket_path
    weir.start()
    client = weir.client()
    client.query("BEGIN")
    weir.ask_admin("SHOW STATE")
    weir._console.send(query("DRAIN"))
    wait_until(lambda: is_refused(weir.address))
    client.query("COMMIT")
    assert told(client) == DRAINING
    assert weir._console.read_result().tags == ["DRAIN"]
    assert weir.ask_admin("RESUME").tags == ["RESUME"]
    assert weir.client().value("SELECT 1") == "1"


# -- --ready --------------------------------------------------------------------------------------


def probe(weir, *args, socket=None):
    done = weir.run("--ready", socket or weir.socket_path, *args)
    return done.returncode, done.stderr.strip()


def test_ready(weir):
    assert probe(weir) == (0, "")


@pytest.mark.parametrize("command, reason", (
    ("PAUSE", "paused"), ("DRAIN", "draining"), ("SHUTDOWN WAIT_FOR_CLIENTS", "shutting down")))
def test_not_ready(weir, command, reason):
    client = weir.client()
    if command == "DRAIN":
        console = drain(weir)
        assert told(client) == DRAINING
        assert console.read_result().tags == ["DRAIN"]
    else:
        weir.ask_admin(command)
    assert probe(weir) == (1, f"not ready: {reason}")
    client.close()


def test_a_probe_does_not_wait_for_ever(weir):
    """A suspended daemon accepts no connections."""
    weir.ask_admin("SUSPEND")
    status, says = probe(weir)
    assert status == 1 and says.endswith("no answer in time")
    assert weir.ask_admin("RESUME").tags == ["RESUME"]


def test_all_databases_are_shut(weir):
    for command in ("PAUSE app", "DISABLE app2"):
        weir.ask_admin(command)
    assert probe(weir) == (0, "")
    weir.ask_admin("DISABLE app3")
    assert probe(weir) == (1, "not ready: every database is paused or disabled")
    weir.ask_admin("ENABLE app3")
    assert probe(weir) == (0, "")


def test_others_may_be_had_by_the_star(pgweir):
    weir = pgweir(databases={"app": "", "*": ""})
    weir.ask_admin("DISABLE app")
    assert probe(weir) == (0, "")


def test_no_process_listens(make_pgweir, postgres):
    weir = make_pgweir()
    status, says = probe(weir)
    assert status == 1 and "No such file or directory" in says
    status, says = probe(weir, socket=f"{postgres.socket_dir}/.s.PGSQL.{postgres.port}")
    assert status == 1 and says


def test_a_daemon_that_does_not_answer(weir):
    with weir.one_turn():
        status, says = probe(weir)
    assert status == 1 and says.endswith("no answer in time")


def test_a_probe_with_no_more_rights_than_it_needs(pgweir, account):
    """A stats user with its own HBA rule may run SHOW READY and nothing else."""
    weir = pgweir()
    path = f"{weir.dir}/hba.conf"
    account.write(path, "local pgbouncer stats trust\n"
                        "local pgbouncer admin scram-sha-256\n")
    weir.reload(auth_type="hba", auth_hba_file=path)
    assert probe(weir, "--as", "stats") == (0, "")
    status, says = probe(weir, "--as", "alice")
    assert status == 1 and "not allowed" in says
    status, says = probe(weir, "--as", "admin")
    assert status == 1 and "requests a password" in says
    done = weir.run("--drain", weir.socket_path, "0", "--as", "stats")
    assert (done.returncode, done.stderr.strip()) == (1, "console error: admin access needed")


def test_drain_from_outside(weir):
    client = weir.client()
    client.query("BEGIN")
    done = []
    process = weir.account.popen([weir.binary, "--drain", weir.socket_path, "3600"],
                                 stderr=subprocess.PIPE, text=True, cwd=weir.dir)
    try:
        assert process.stderr.readline().startswith("draining: 1 clients left")
        client.query("COMMIT")
        assert told(client) == DRAINING
        done.append(process.wait(LIMIT))
    finally:
        if not done:
            process.kill()
        process.stderr.close()
    assert done == [0]
    assert probe(weir) == (1, "not ready: draining")


def test_drain_from_outside_that_is_ended(weir):
    client = weir.client()
    client.query("BEGIN")
    process = weir.account.popen([weir.binary, "--drain", weir.socket_path],
                                 stderr=subprocess.PIPE, text=True, cwd=weir.dir)
    try:
        assert process.stderr.readline().startswith("draining: 1 clients left")
        weir.ask_admin("RESUME")
        rest = process.stderr.read()
        assert process.wait(LIMIT) == 1
    finally:
        process.stderr.close()
    assert rest.strip().endswith("DRAIN was ended before all clients had left")
    assert client.query("COMMIT").tags == ["COMMIT"]


# -- connections in the backlog -------------------------------------------------------------------


def knockers(weir, count=20):
    """Connections in the kernel's backlog, not yet accepted by the daemon, with their first packet
    sent.
    """
    weir.signal(signal.SIGSTOP)
    return [weir.wire().startup() for _ in range(count)]


def test_the_backlog_is_served_before_a_shutdown(weir):
    """The shutdown waits for them like for others: the kernel would reset them with the listener.
    """
    weir.client().query("SELECT 1")
    late = knockers(weir)
    weir.signal(signal.SIGTERM)
    weir.signal(signal.SIGCONT)
    for client in late:
        client.finish_login("alice")
        assert client.value("SELECT 1") == "1"
    with pytest.raises(ConnectionRefusedError):
        Wire(weir.address)
    weir.disconnect()
    assert weir.wait_exit() == 0


def test_the_backlog_gets_an_error_at_an_immediate_end(weir):
    holder = weir.client()
    holder.query("BEGIN")
    late = knockers(weir)
    weir.signal(signal.SIGINT)
    weir.signal(signal.SIGCONT)
    for client in late:
        client.send(query("SELECT 1"))
        assert told(client)[1] == "57P01"
    holder.query("COMMIT")
    assert weir.wait_exit() == 0


def test_the_backlog_of_a_closed_port_gets_an_error(make_pgweir):
    weir = make_pgweir(so_reuseport=1, pool_mode="transaction")
    weir.console_address = weir.socket_path
    weir.start()
    first = weir.client()
    first.query("SELECT 1")
    assert ready(weir) == ("yes", "")
    late = knockers(weir)
    weir._console.send(query("DRAIN"))
    weir.signal(signal.SIGCONT)
    assert told(first) == DRAINING
    assert {told(client) for client in late} <= {NOT_NOW, DRAINING}
    assert weir._console.read_result().tags == ["DRAIN"]
