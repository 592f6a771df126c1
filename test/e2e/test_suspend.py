# SPDX-License-Identifier: ISC
"""SUSPEND: everything stops between two messages, and continues after RESUME."""

import select

import pytest

from .kit.wait import wait_until
from .kit.wire import query, send_cancel, startup


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction", default_pool_size=3)


def state(console):
    return dict(console.query("SHOW STATE").rows)


def is_silent(client):
    """Whether nothing has arrived, and the connection is open."""
    return not client.is_closed() and client.buffer == b""


def test_suspend_and_resume(weir):
    idle, busy, console = weir.client(), weir.client(), weir.console()
    busy.query("BEGIN")
    assert console.query("SUSPEND").tags == ["SUSPEND"]
    assert state(console) == {"active": "no", "paused": "no", "suspended": "yes"}
    idle.send(query("SELECT 'idle'"))
    busy.send(query("SELECT 'busy'"))
    for _ in range(5):
        console.query("SHOW CLIENTS")
    assert is_silent(idle) and is_silent(busy)
    assert console.query("RESUME").tags == ["RESUME"]
    assert idle.read_result().rows == [["idle"]]
    assert busy.read_result().rows == [["busy"]]
    assert state(console)["active"] == "yes"


def test_servers_are_kept(weir):
    """Unlike PAUSE, which closes them."""
    client, console = weir.client(), weir.console()
    pid = client.value("SELECT pg_backend_pid()")
    console.query("SUSPEND")
    console.query("RESUME")
    assert client.value("SELECT pg_backend_pid()") == pid


def test_new_connections_wait_in_the_backlog(weir):
    console = weir.console()
    console.query("SUSPEND")
    late = weir.wire()
    late.send(startup(user="alice", database="app"))
    for _ in range(5):
        console.query("SHOW STATE")
    assert is_silent(late)
    console.query("RESUME")
    late.finish_login("alice")
    assert late.value("SELECT 1") == "1"


def undrained(weir):
    """A SUSPEND that cannot complete, on its own console."""
    client, console = weir.client(), weir.console()
    client.query("BEGIN")
    whole = query("SELECT length('" + "x" * 300000 + "')")
    client.send(whole[:200000])
    wait_until(lambda: any(row["pkt_remain"] for row in weir.admin("SHOW SOCKETS")))
    console.send(query("SUSPEND"))
    wait_until(lambda: weir.admin("SHOW STATE")[2]["value"] == "yes")
    return client, whole[200000:], console


def test_a_message_under_way_ends_first(weir):
    client, rest, console = undrained(weir)
    weir.wait_log("SUSPEND command issued")
    assert is_silent(console)
    # Data after the message is not read.
    client.send(rest + query("SELECT 'second'"))
    assert console.read_result().tags == ["SUSPEND"]
    assert not any(row["pkt_remain"] for row in weir.admin("SHOW SOCKETS"))
    weir.admin("RESUME")
    assert client.read_result().rows == [["300000"]]
    assert client.read_result().rows == [["second"]]


def test_a_stream_of_rows_stops_between_two(weir):
    client, console = weir.client(), weir.console()
    client.send(query("SELECT repeat('y', 100000) FROM generate_series(1, 300)"))
    weir.wait_pool(sv_active=1)
    console.send(query("SUSPEND"))
    while console.buffer == b"" and not console.is_closed():
        if select.select([client.sock], [], [], 0.05)[0]:
            client.buffer += client.sock.recv(1 << 16)
    assert console.read_result().tags == ["SUSPEND"]
    assert {row["pkt_remain"] for row in weir.admin("SHOW SOCKETS")} == {0}
    weir.admin("RESUME")
    assert [len(value) for (value,) in client.read_result().rows] == [100000] * 300


def test_connections_that_do_not_stop_are_closed(pgweir):
    weir = pgweir(pool_mode="transaction", suspend_timeout="0.3")
    client, other, console = weir.client(), weir.client(), weir.console()
    client.query("BEGIN")
    client.send(query("SELECT length('" + "x" * 300000 + "')")[:200000])
    wait_until(lambda: any(row["pkt_remain"] for row in weir.admin("SHOW SOCKETS")))
    assert console.query("SUSPEND").tags == ["SUSPEND"]
    refused = client.read_refusal()
    assert (refused.severity, refused.sqlstate, refused.text) == \
        ("FATAL", "57P01", "suspend_timeout")
    console.query("RESUME")
    assert other.value("SELECT 1") == "1"


def test_refusals(weir):
    def fails(text):
        return weir.ask_admin(text).error["M"]
    weir.admin("PAUSE app")
    assert fails("SUSPEND") == "cannot suspend with paused databases"
    weir.admin("RESUME app")
    weir.admin("PAUSE")
    assert fails("SUSPEND") == "already suspended/paused"
    weir.admin("RESUME")
    weir.admin("SUSPEND")
    for command in ("SUSPEND", "PAUSE", "PAUSE app", "KILL app"):
        assert fails(command) == "already suspended/paused"
    weir.admin("RESUME")
    assert fails("RESUME") == "pooler is not paused/suspended"
    assert fails("SUSPEND app").startswith("invalid command")


def test_the_last_console_to_leave_resumes(weir):
    client, first, second = weir.client(), weir.console(), weir.console()
    first.query("SUSPEND")
    client.send(query("SELECT 'on'"))
    first.close()
    for _ in range(5):
        second.query("SHOW STATE")
    assert state(second)["suspended"] == "yes" and is_silent(client)
    second.close()
    assert client.read_result().rows == [["on"]]


def test_cancel_ends_a_waiting_suspend(pgweir):
    weir = pgweir(pool_mode="transaction", suspend_timeout=0)
    client, rest, console = undrained(weir)
    send_cancel(weir.address, console.key)
    assert console.read_result().error["C"] == "57014"
    wait_until(lambda: weir.admin("SHOW STATE")[0]["value"] == "yes")
    client.send(rest)
    assert client.read_result().rows == [["300000"]]


def test_resume_from_elsewhere_ends_a_waiting_suspend(pgweir):
    weir = pgweir(pool_mode="transaction", suspend_timeout=0)
    client, rest, console = undrained(weir)
    weir.admin("RESUME")
    assert console.read_result().error["M"] == \
        "SUSPEND was ended before all connections were at rest"
    client.send(rest)
    assert client.read_result().rows == [["300000"]]


def test_clients_that_arrive_during_a_suspend_wait(pgweir):
    weir = pgweir(pool_mode="transaction", suspend_timeout=0)
    client, rest, console = undrained(weir)
    late = weir.wire()
    late.send(startup(user="alice", database="app"))
    for _ in range(5):
        weir.admin("SHOW STATE")
    assert is_silent(late)
    client.send(rest)
    assert console.read_result().tags == ["SUSPEND"]
    weir.admin("RESUME")
    late.finish_login("alice")
    assert client.read_result().rows == [["300000"]]


def test_a_waiting_suspend_whose_console_goes_away(pgweir):
    """Another console is connected, so everything stays suspended, and can be resumed."""
    weir = pgweir(pool_mode="transaction", suspend_timeout=0)
    client, rest, console = undrained(weir)
    console.reset()
    client.send(rest)
    wait_until(lambda: len([row for row in weir.admin("SHOW CLIENTS")
                            if row["database"] == "pgbouncer"]) == 1)
    weir.admin("RESUME")
    assert client.read_result().rows == [["300000"]]


@pytest.mark.parametrize("leave", ("close", "reset"))
def test_a_waiting_suspend_ends_with_the_last_console(pgweir, leave):
    """No console could end it. Connections from the backlog are then accepted."""
    weir = pgweir(pool_mode="transaction", suspend_timeout=0)
    client, rest, console = undrained(weir)
    late = weir.wire().startup()
    weir.disconnect_console()
    getattr(console, leave)()
    weir.wait_log("SUSPEND ended")
    assert late.finish_login("alice").value("SELECT 'late'") == "late"
    client.send(rest)
    assert client.read_result().rows == [["300000"]]
    assert {row["key"]: row["value"] for row in weir.admin("SHOW STATE")} == \
        {"active": "yes", "paused": "no", "suspended": "no"}
    assert weir.ask_admin("SUSPEND").tags == ["SUSPEND"]
    assert weir.ask_admin("RESUME").tags == ["RESUME"]
    assert client.query("COMMIT").tags == ["COMMIT"]


def test_a_shutdown_ends_it(weir):
    client, console = weir.client(), weir.console()
    console.query("SUSPEND")
    console.send(query("SHUTDOWN WAIT_FOR_CLIENTS"))
    client.send(query("SELECT 'last'"))
    assert client.read_result().rows == [["last"]]
    client.close()
    weir.disconnect()
    assert weir.wait_exit() == 0


def test_tls_comes_to_rest_too(pgweir, own, ca):
    weir = pgweir(pool_mode="transaction", client_tls_sslmode="allow", client_tls_cert_file=own.cert,
                  client_tls_key_file=own.key)
    client = weir.connect(sslmode="require")
    console = weir.console()
    assert client.execute("SELECT 1").fetchone() == (1,)
    assert console.query("SUSPEND").tags == ["SUSPEND"]
    console.query("RESUME")
    assert client.execute("SELECT 2").fetchone() == (2,)
