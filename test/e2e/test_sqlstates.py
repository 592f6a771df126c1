# SPDX-License-Identifier: ISC
"""SHOW SQLSTATES: which errors clients have got, and from whom."""

import pytest

from .kit.fake import error, ready
from .kit.wait import wait_until
from .kit.wire import Refused, bind, execute, parse, query, send_cancel, sync


def said(weir):
    """{(sqlstate, side, severity): count}"""
    return {(row["sqlstate"], row["side"], row["severity"]): row["count"]
            for row in weir.admin("SHOW SQLSTATES")}


def test_no_error_has_no_row(pgweir):
    weir = pgweir()
    weir.client().query("SELECT 1")
    assert said(weir) == {}


def test_errors_of_postgresql(pgweir):
    weir = pgweir(pool_mode="transaction")
    client = weir.client("alice", "app2")
    for _ in range(3):
        assert client.query("SELECT 1 / 0").error["C"] == "22012"
    client.ask(parse("SELECT 1 / $1::int") + bind((0,)) + execute() + sync())
    client.query("SELECT nothing")
    assert said(weir) == {("22012", "server", "ERROR"): 4, ("42703", "server", "ERROR"): 1}
    rows = {row["sqlstate"]: row for row in weir.admin("SHOW SQLSTATES")}
    assert (rows["22012"]["database"], rows["22012"]["user"]) == ("app2", "alice")


def test_notices_are_no_errors(pgweir):
    weir = pgweir()
    weir.client().query("DO $$ BEGIN RAISE WARNING USING ERRCODE = '01999'; END $$")
    assert said(weir) == {}


def test_an_error_in_a_prepared_statement(pgweir):
    """Its text has our name of the statement, so the client gets it in another form."""
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    client.query("PREPARE mine AS SELECT 1 / $1::int")
    assert client.query("EXECUTE mine(0)").error["C"] == "22012"
    assert client.query("EXECUTE mine(1, 2)").error["C"] == "42601"
    assert said(weir) == {("22012", "server", "ERROR"): 1, ("42601", "server", "ERROR"): 1}


def test_a_statement_that_is_not_known(pgweir):
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    refused = client.ask(bind((), "unknown") + execute() + sync())
    assert refused.error["C"] == "26000"
    assert sum(said(weir).values()) == 1


def test_a_fatal_error_of_postgresql(pgweir):
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    client.send(query("SELECT pg_terminate_backend(pg_backend_pid())"))
    with pytest.raises(Exception):
        client.read_result()
    wait_until(lambda: said(weir) == {("57P01", "server", "FATAL"): 1})


def test_errors_of_our_own(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, query_wait_timeout=1)
    with pytest.raises(Refused):
        weir.client("alice", "nowhere")
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    with pytest.raises(Exception):
        waiter.read_result()
    assert said(weir) == {("3D000", "pgweir", "FATAL"): 1, ("53300", "pgweir", "FATAL"): 1}
    (row,) = [row for row in weir.admin("SHOW SQLSTATES") if row["sqlstate"] == "3D000"]
    assert (row["database"], row["user"]) == ("nowhere", "alice")


def test_a_canceled_wait(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    wait_until(lambda: weir.admin("SHOW WAITING"))
    send_cancel(weir.address, waiter.key)
    assert waiter.read_result().error["C"] == "57014"
    assert said(weir) == {("57014", "pgweir", "ERROR"): 1}


def test_codes_that_clients_make_up(pgweir):
    """They have room for 500. A code that is counted keeps its place, and classes of PostgreSQL and
    our own errors have theirs."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1, query_wait_timeout=0)
    client = weir.client()
    client.query("SELECT 1 / 0")
    for number in range(505):
        raised = client.query(f"DO $$ BEGIN RAISE USING ERRCODE = 'Q{number:04}'; END $$")
        assert raised.error["C"] == f"Q{number:04}"
    client.query("SELECT 1 / 0")
    assert client.query("SELECT pg_cancel_backend(pg_backend_pid())").error["C"] == "57014"
    client.query("BEGIN")
    waiter = weir.client()
    waiter.send(query("SELECT 1"))
    wait_until(lambda: weir.admin("SHOW WAITING"))
    send_cancel(weir.address, waiter.key)
    assert waiter.read_result().error["C"] == "57014"
    counted = said(weir)
    assert counted[("other", "server", "ERROR")] == 6
    assert counted[("57000", "server", "ERROR")] == counted[("57014", "pgweir", "ERROR")] == 1
    assert counted[("Q0000", "server", "ERROR")] == 1
    assert counted[("22012", "server", "ERROR")] == 2
    assert len(counted) == 503


def test_a_long_error_in_pieces(scripted):
    """The code is in the first part of it."""
    weir, client, server = scripted()
    client.send(query("SELECT 1"))
    server.read()
    message = error("x" * 100000, "23505")
    for at in range(0, len(message), 997):
        server.send(message[at:at + 997])
    server.send(ready())
    assert client.read_result().error["C"] == "23505"
    assert said(weir) == {("23505", "server", "ERROR"): 1}


def test_errors_of_lookups_reach_no_client(pgweir):
    weir = pgweir(auth_type="scram-sha-256", auth_user="alice",
                  auth_query="SELECT $1::text, 1 / 0")
    with pytest.raises(Refused):
        weir.client("nobody", password="guess")
    assert all(side == "pgweir" for _, side, _ in said(weir))
