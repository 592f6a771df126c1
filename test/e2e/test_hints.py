# SPDX-License-Identifier: ISC
"""Errors of limits report their current use, and what to change."""

import pytest

from .kit.account import free_port
from .kit.wait import wait_until
from .kit.wire import query, refusal

NO_MORE = "no more connections allowed (max_client_conn)"


def said(weir, text):
    return [line for line in weir.log.splitlines() if text in line]


def test_max_client_conn(pgweir):
    weir = pgweir(max_client_conn=4)
    weir.client("alice")
    clients = [weir.client("bob") for _ in range(3)]
    for _ in range(5):
        refused = refusal(weir.address)
        assert (refused.sqlstate, refused.text) == ("53300", NO_MORE)
        assert refused.fields["D"] == "4 of 4"
        assert "max_client_conn" in refused.fields["H"]
        assert "bob" not in str(refused.fields)  # an unauthenticated client gets no names
    wait_until(lambda: len(said(weir, NO_MORE)) >= 5)
    (line,) = said(weir, "max_client_conn is reached")
    assert line.endswith(" WARNING max_client_conn is reached: 4 of 4; user bob has most of them: 3")
    assert clients[0].value("SELECT 1") == "1"


def test_max_client_conn_before_anybody_has_logged_in(pgweir):
    weir = pgweir(max_client_conn=2, auth_type="plain")
    strangers = [weir.wire().startup() for _ in range(2)]
    for stranger in strangers:
        stranger.expect("R")
    assert refusal(weir.address).fields["D"] == "2 of 2"
    weir.wait_log("max_client_conn is reached: 2 of 2; no user is logged in$")


@pytest.mark.parametrize("settings, hint", (
    (dict(default_pool_size=1), "default_pool_size"),
    (dict(max_db_connections=1), "max_db_connections"),
    (dict(max_user_connections=1), "max_user_connections"),
), ids=("pool", "database", "user"))
def test_a_limit_of_servers(pgweir, settings, hint):
    weir = pgweir(pool_mode="transaction", query_wait_timeout="0.3", **settings)
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    refused = waiter.read_refusal()
    assert refused.text == "query_wait_timeout"
    assert f"raise {hint}" in refused.fields["H"]


@pytest.mark.parametrize("command", ("PAUSE", "PAUSE app"))
def test_a_pause(pgweir, command):
    weir = pgweir(query_wait_timeout="0.3")
    weir.admin(command)
    refused = refusal(weir.address)
    assert refused.text == "query_wait_timeout"
    assert refused.fields["H"].startswith("RESUME ")


def test_no_hint_where_nothing_can_be_changed_here(pgweir):
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={free_port()}"}, query_wait_timeout="0.3")
    assert "H" not in refusal(weir.address).fields
