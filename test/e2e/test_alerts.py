# SPDX-License-Identifier: ISC
"""Each alert of etc/prometheus fires when it should, evaluated on what an exporter would have read.
"""

import os
import re

import pytest

from .kit import fake, prometheus
from .kit.account import free_port
from .kit.wait import wait_until
from .kit.wire import query, refusal

TOP = os.path.join(os.path.dirname(__file__), "..", "..")
FILE = os.path.join(TOP, "etc", "prometheus", "pgweir-rules.yaml")
RULES = prometheus.rules(FILE)
LONG = "900"

DEAD = {"PgweirServerDoesNotAnswer", "PgweirLoginsFail"}
WAIT = {"PgweirClientsWait"}
FULL = {"PgweirPoolFull"}


def alerts(weir):
    return prometheus.firing(RULES, prometheus.scrape(weir.admin))


def fires(weir, expected):
    """Waits until exactly these alerts fire, because a waiting time has to grow first."""
    seen = []

    def is_so():
        seen[:] = [alerts(weir)]
        return set(seen[0]) == expected

    try:
        wait_until(is_so)
    except TimeoutError:
        raise AssertionError(f"fires: {seen}, and should: {expected}") from None
    return seen[0]


def entry(port, host="127.0.0.1", more=""):
    return {"app": f"host={host} port={port} {more}"}


def test_nothing_fires_while_all_is_well(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    clients = [weir.client() for _ in range(5)]
    fires(weir, set())
    for client in clients:
        client.query("SELECT 1")
    fires(weir, set())
    for client in clients[:2]:
        client.query("BEGIN")
    fires(weir, set())  # all servers are in use, and no client waits
    weir.admin("RECONNECT")
    weir.client(database="app2")
    fires(weir, set())


def test_no_limit_is_nothing_to_be_near_to(pgweir):
    weir = pgweir(max_client_conn=0)
    weir.client()
    fires(weir, set())


def test_a_database_that_is_down(pgweir):
    weir = pgweir(databases=entry(free_port()), server_login_retry=LONG)
    client = weir.wire().startup()
    assert fires(weir, DEAD | WAIT)["PgweirServerDoesNotAnswer"] == [
        {"database": "app", "user": "alice"}]
    assert not client.is_closed()


def test_a_database_that_is_down_with_fail_fast(pgweir):
    """No client waits, so the failed logins must reveal it."""
    weir = pgweir(databases=entry(free_port()), server_login_retry=LONG, fail_fast=1)
    refusal(weir.address)
    fires(weir, DEAD)


def test_a_database_that_went_down(pgweir, fake_server):
    """Connected clients wait, too."""
    far = fake_server().serve(lambda server: server.login().answer_queries())
    weir = pgweir(databases=entry(far.port), pool_mode="transaction", server_login_retry=LONG)
    first, second = weir.client(), weir.client()
    first.query("SELECT 1")
    fires(weir, set())
    far.close()
    weir.wait_pool(sv_idle=0)
    first.send(query("SELECT 1"))
    fires(weir, DEAD | WAIT)
    first.close()
    second.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    fires(weir, DEAD | WAIT)


def test_requests_to_connect_are_dropped(pgweir, deaf_port):
    weir = pgweir(databases=entry(deaf_port), server_login_retry="0.1",
                  server_connect_timeout="0.3")
    client = weir.wire().startup()
    fires(weir, DEAD | WAIT)
    assert not client.is_closed()


def test_a_wrong_password_for_the_server(pgweir, postgres):
    weir = pgweir(databases={"app": "user=scram_user password=wrong"}, server_login_retry=LONG)
    assert refusal(weir.address).sqlstate == "28P01"
    fires(weir, DEAD)


@pytest.mark.parametrize("is_alive", (False, True), ids=("no server left", "one server left"))
def test_postgresql_takes_no_more_connections(pgweir, fake_server, is_alive):
    far = fake_server()
    weir = pgweir(databases=entry(far.port), pool_mode="transaction", server_login_retry=LONG)
    client = weir.wire().startup()
    server = far.accept()
    if is_alive:
        server.login()
        client.finish_login("alice")
        client.send(query("SELECT 1"))
        server.expect("Q")
        second = weir.client()
        second.send(query("SELECT 2"))
        server = far.accept()
    server.send(fake.error("sorry, too many clients already", "53300", "FATAL"))
    if is_alive:
        fires(weir, {"PgweirLoginsFail"} | FULL | WAIT)
    else:
        assert client.read_refusal().sqlstate == "53300"
        fires(weir, DEAD)


def test_a_pool_that_is_full(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    assert fires(weir, FULL | WAIT)["PgweirPoolFull"] == [{"database": "app", "user": "alice"}]
    holder.query("COMMIT")
    assert waiter.read_result().rows == [["1"]]
    fires(weir, set())


def test_max_client_conn_is_reached(pgweir):
    weir = pgweir(max_client_conn=20)
    clients = [weir.client() for _ in range(10)]
    fires(weir, set())
    clients += [weir.client() for _ in range(9)]
    fires(weir, {"PgweirAlmostFull"})


def test_a_host_that_comes_and_goes(pgweir, fake_server):
    """The host works in between, and a scrape then would see only the trace of a failure."""
    port = free_port()
    weir = pgweir(databases=entry(port), pool_mode="transaction", server_login_retry="0.05")
    for _ in range(3):
        client = weir.wire().startup()
        weir.wait_log("connect failed: Connection refused")
        far = fake_server(port=port).serve(lambda server: server.login().answer_queries())
        client.finish_login("alice")
        assert client.value("SELECT 1") == "1"
        fires(weir, {"PgweirLoginsFail"})
        far.close()
        weir.wait_pool(sv_idle=0, sv_active=0)
        weir.admin("RECONNECT")  # the next login needs a server
        client.close()


@pytest.mark.parametrize("command, back", (
    ("PAUSE", "RESUME"), ("PAUSE app", "RESUME app"), ("DISABLE app", "ENABLE app"),
    ("KILL app", "RESUME app"),
))
def test_a_forgotten_command(pgweir, command, back):
    weir = pgweir()
    weir.client()
    weir.admin(command)
    found = fires(weir, {"PgweirDatabasePaused"})["PgweirDatabasePaused"]
    assert "app" in {of["name"] for of in found}
    assert len(found) == (1 if "app" in command else 3)
    weir.admin(back)
    fires(weir, set())


def test_the_console_does_not_answer():
    assert set(prometheus.firing(RULES, {"pgbouncer_up": {(): 0.0}})) == {"PgweirDown"}


def test_the_manual_explains_each_alert():
    with open(os.path.join(TOP, "doc", "monitoring.md"), encoding="utf-8") as file:
        assert set(re.findall(r"^\| `(Pgweir\w+)` \|", file.read(), re.M)) == set(RULES)
