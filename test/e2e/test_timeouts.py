# SPDX-License-Identifier: ISC
"""Every time limit takes effect, is named in the error, and affects no other client."""

import socket

import pytest

from .kit.wait import wait_until
from .kit.wire import Wire, bind, execute, flush, parse, query, startup, sync

SHORT = "0.3"

modes = pytest.mark.parametrize("mode", ("session", "transaction"))


def places(setting):
    """The limit as a global setting, and as a key of the user (in whole seconds)."""
    return pytest.mark.parametrize("settings", (
        {setting: SHORT},
        {"users": {"alice": f"{setting}=1"}},
    ), ids=("global", "user"))


def ends_with(client, sqlstate, text):
    refused = client.read_refusal()
    assert (refused.severity, refused.sqlstate, refused.text) == ("FATAL", sqlstate, text)


@modes
@places("query_timeout")
def test_query_timeout(pgweir, settings, mode):
    weir = pgweir(pool_mode=mode, **settings)
    client = weir.client()
    client.send(query("SELECT pg_sleep(30)"))
    ends_with(client, "57014", "query timeout")
    assert weir.client().value("SELECT 1") == "1"


def test_query_timeout_is_not_for_idle_transactions(pgweir):
    weir = pgweir(pool_mode="transaction", query_timeout=5, idle_transaction_timeout=6)
    client = weir.client()
    client.query("BEGIN")
    ends_with(client, "25P03", "idle transaction timeout")


def test_query_timeout_applies_to_each_query(pgweir):
    weir = pgweir(pool_mode="transaction", query_timeout="2")
    client = weir.client()
    for _ in range(5):
        client.query("SELECT pg_sleep(0.5)")


def test_query_timeout_in_the_line(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, query_timeout=SHORT)
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    ends_with(waiter, "57014", "query_timeout")
    assert holder.query("COMMIT").tags == ["COMMIT"]


def test_a_users_own_query_timeout_in_the_line(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, users={"bob": "query_timeout=1"},
                  databases={"app": "user=alice"})
    holder, waiter = weir.client("alice"), weir.client("bob")
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    ends_with(waiter, "57014", "query_timeout")


def test_limits_change_at_reload_for_clients_that_rest_or_wait(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter, idle = weir.client(), weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    weir.reload(pool_mode="transaction", default_pool_size=1, query_wait_timeout=SHORT,
                client_idle_timeout=SHORT)
    ends_with(waiter, "53300", "query_wait_timeout")
    ends_with(idle, "57P05", "client_idle_timeout")


@modes
@places("idle_transaction_timeout")
def test_idle_transaction_timeout(pgweir, postgres, settings, mode):
    weir = pgweir(pool_mode=mode, **settings)
    client = weir.client()
    client.query("BEGIN")
    ends_with(client, "25P03", "idle transaction timeout")
    wait_until(lambda: postgres.value("SELECT state FROM pg_stat_activity"
                                      " WHERE usename = 'alice'") == "idle")


def test_idle_transaction_timeout_in_a_failed_transaction(pgweir):
    weir = pgweir(pool_mode="transaction", idle_transaction_timeout=SHORT)
    client = weir.client()
    client.query("BEGIN; SELECT 1/0")
    ends_with(client, "25P03", "idle transaction timeout")


def test_idle_transaction_timeout_leaves_work_alone(pgweir):
    weir = pgweir(pool_mode="transaction", idle_transaction_timeout=SHORT)
    client = weir.client()
    client.query("BEGIN")
    assert client.query("SELECT pg_sleep(1.2)").tags == ["SELECT 1"]
    assert client.query("COMMIT").tags == ["COMMIT"]


@modes
@places("transaction_timeout")
def test_transaction_timeout(pgweir, settings, mode):
    weir = pgweir(pool_mode=mode, **settings)
    client = weir.client()
    client.query("BEGIN")
    client.send(query("SELECT pg_sleep(30)"))
    ends_with(client, "25P04", "transaction timeout")


def test_transaction_timeout_applies_to_each_transaction_of_a_pipeline(pgweir):
    """The second transaction begins at the end of the first, without a message of its own."""
    weir = pgweir(pool_mode="transaction", transaction_timeout=SHORT)
    client = weir.client(application_name="sets its name first")
    client.send(query("SELECT 1"), query("SELECT pg_sleep(60)"))
    assert client.read_result().rows == [["1"]]
    assert client.read_refusal().sqlstate == "25P04"


def test_transaction_timeout_leaves_short_ones_alone(pgweir):
    weir = pgweir(pool_mode="transaction", transaction_timeout="1")
    client = weir.client()
    for _ in range(4):
        client.query("BEGIN; SELECT pg_sleep(0.4); COMMIT")


@places("client_idle_timeout")
def test_client_idle_timeout(pgweir, settings):
    weir = pgweir(pool_mode="transaction", **settings)
    client = weir.client()
    client.query("SELECT 1")
    ends_with(client, "57P05", "client_idle_timeout")


def test_client_idle_timeout_of_one_user_touches_nobody_else(pgweir):
    weir = pgweir(pool_mode="transaction", users={"alice": "client_idle_timeout=1"})
    alice, bob = weir.client("alice"), weir.client("bob")
    ends_with(alice, "57P05", "client_idle_timeout")
    assert bob.value("SELECT 1") == "1"


def test_client_idle_timeout_is_not_for_clients_with_a_server(pgweir):
    weir = pgweir(pool_mode="transaction", client_idle_timeout=SHORT, idle_transaction_timeout="1.5")
    client = weir.client()
    client.query("BEGIN")
    ends_with(client, "25P03", "idle transaction timeout")


@pytest.mark.parametrize("setting, before", (
    ("query_timeout", "SELECT pg_sleep(30)"),
    ("idle_transaction_timeout", "BEGIN"),
    ("transaction_timeout", "BEGIN"),
    ("client_idle_timeout", None),
))
def test_a_users_own_limit_touches_only_that_user(pgweir, setting, before):
    weir = pgweir(pool_mode="transaction", users={"bob": f"{setting}=1"})
    alice, bob = weir.client("alice"), weir.client("bob")
    if before:
        for client in (alice, bob):
            client.send(query(before))
    bob.wait_closed()
    assert not alice.is_closed()


def test_client_login_timeout(pgweir):
    weir = pgweir(client_login_timeout=SHORT)
    silent, half = Wire(weir.address), Wire(weir.address)
    half.send(startup(user="alice", database="app")[:20])
    for client in (silent, half):
        refused = client.read_refusal()
        assert refused.text == "client_login_timeout"


def test_client_login_timeout_at_the_password(pgweir):
    weir = pgweir(client_login_timeout=SHORT, auth_type="scram-sha-256")
    client = weir.wire().startup()
    client.expect("R")
    assert client.read_refusal().text == "client_login_timeout"


def test_client_login_timeout_is_over_after_the_login(pgweir):
    weir = pgweir(client_login_timeout=SHORT, pool_mode="transaction")
    client = weir.client()
    client.query("SELECT pg_sleep(1)")
    assert client.value("SELECT 1") == "1"


def test_a_host_that_drops_what_is_sent_to_it(pgweir, fake_server):
    """Its backlog is full, so the connection gets no response: this is not a slow login."""
    far = fake_server()
    far.listener.listen(0)
    crowd = []
    for _ in range(3):
        crowd.append(socket.socket())
        crowd[-1].setblocking(False)
        crowd[-1].connect_ex((far.host, far.port))
    weir = pgweir(server_connect_timeout=SHORT, databases={"app": far.entry},
                  server_login_retry="3600")
    weir.wire().startup()
    weir.wait_log("closing because: connect failed: Connection timed out ")
    assert "connect timeout" not in weir.log
    for each in crowd:
        each.close()


def test_server_connect_timeout_covers_the_login(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(server_connect_timeout=SHORT, server_login_retry="0.1",
                  databases={"app": far.entry})
    client = weir.wire().startup()
    far.accept().wait_closed()  # reads the startup packet, sends nothing
    weir.wait_log("connect timeout")
    far.accept().login()
    client.finish_login("alice")


def test_cancel_wait_timeout(pgweir, fake_server):
    """A cancel request that cannot be delivered is not kept without limit."""
    from .kit.wire import CANCEL_REQUEST, special
    far = fake_server()
    weir = pgweir(cancel_wait_timeout=SHORT, databases={"app": far.entry}, server_connect_timeout="30")
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    client.send(query("SELECT 1"))
    server.expect("Q")
    with Wire(weir.address) as cancel:
        cancel.send(special(CANCEL_REQUEST, client.key))
        caller = far.accept_raw()
        assert caller.read_startup() is None
        caller.close()
        cancel.wait_closed()


def test_limits_change_at_reload_for_those_who_are_there(pgweir):
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    client.query("BEGIN")
    weir.reload(idle_transaction_timeout=SHORT)
    ends_with(client, "25P03", "idle transaction timeout")


def test_a_busy_pipeline_is_one_query(pgweir):
    weir = pgweir(pool_mode="transaction", query_timeout=SHORT)
    client = weir.client()
    client.send(parse("SELECT pg_sleep(30)"), sync())
    assert client.read_result().types == "1Z"
    assert client.value("SELECT 1") == "1"


@pytest.mark.parametrize("unit, setting", (
    ("300ms", "idle_transaction_timeout"),
    ("0.3s", "idle_transaction_timeout"),
    ("300000us", "idle_transaction_timeout"),
))
def test_units(pgweir, unit, setting):
    weir = pgweir(pool_mode="transaction", **{setting: unit})
    client = weir.client()
    client.query("BEGIN")
    ends_with(client, "25P03", "idle transaction timeout")


def test_query_timeout_is_for_queries(pgweir):
    """If no query runs, only other limits can end the client."""
    weir = pgweir(pool_mode="transaction", idle_transaction_timeout="0.4")
    begun, flushed, failed = clients = [weir.client() for _ in range(3)]
    for client in clients:
        client.query("BEGIN")
    for client in clients:
        client.query("COMMIT")
    weir.admin("SET query_timeout = '0.1'")  # not for logins of servers, which may take longer
    begun.query("BEGIN")
    flushed.send(parse("SELECT 1"), bind(), execute(), flush())
    flushed.expect("12DC")
    failed.send(parse("SELEC"), flush())
    failed.expect("E")
    for client in (begun, flushed, failed):
        refusal = client.read_refusal()
        assert (refusal.sqlstate, refusal.text) == ("25P03", "idle transaction timeout")


def test_query_timeout_counts_from_the_query(pgweir):
    """In a batch that pauses without a Sync, a later query has the full time, and not more."""
    weir = pgweir(pool_mode="transaction", query_timeout="0.3")
    client, other = weir.client(), weir.client()
    client.send(parse("SELECT 1"), bind(), execute(), flush())
    client.expect("12DC")
    for _ in range(4):
        other.value("SELECT pg_sleep(0.1)")
    client.send(parse("SELECT 2"), bind(), execute(), flush())
    client.expect("12DC")
    client.send(parse("SELECT pg_sleep(60)"), bind(), execute(), flush())
    assert client.read_refusal().text == "query timeout"


def test_a_session_that_was_reset_may_rest(pgweir):
    """Its parameters are set again: the limit for this does not apply to what follows."""
    weir = pgweir(pool_mode="session", server_connect_timeout="0.5")
    client = weir.client(options="-c lock_timeout=5s")
    client.query("RESET ALL")
    weir.client().query("SELECT pg_sleep(0.7)")
    assert client.value("SHOW lock_timeout") == "5s"
