# SPDX-License-Identifier: ISC
"""SHOW LATENCY: percentiles for all, each database and each pool. Windows that pass, and
percentiles beside exact ones, are checked by the unit tests of histograms and latencies.
"""

import collections
import time

import pytest

from .kit.fake import answer
from .kit.wait import wait_until
from .kit.wire import Refused, bind, execute, parse, query, sync

TIMES = ("mean_us", "p50_us", "p90_us", "p95_us", "p99_us", "p999_us", "max_us")


def latency(weir, argument=""):
    return weir.admin(f"SHOW LATENCY {argument}".strip())


def counts(rows, scope, window="start", **where):
    """{kind: count} of the rows with this scope and window."""
    return {row["kind"]: row["count"] for row in rows
            if (row["scope"], row["window"]) == (scope, window)
            and all(row[name] == value for name, value in where.items())}


def stats(weir, database):
    (row,) = [row for row in weir.admin("SHOW STATS_TOTALS") if row["database"] == database]
    return {name: row[name] for name in ("query_count", "xact_count", "client_login_count")}


def work(client):
    """Seven batches in five transactions."""
    client.query("SELECT 1")
    for text in ("BEGIN", "SELECT 1", "COMMIT"):
        client.query(text)
    assert client.query("SELECT 1 / 0").error["C"] == "22012"
    client.ask(parse("SELECT $1::int") + bind((1,)) + execute() + sync())
    client.query("BEGIN; SELECT 1; COMMIT")


def test_counts_are_those_of_the_statistics(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    clients = [weir.client(user, database) for user in ("alice", "bob")
               for database in ("app", "app2") for _ in range(3)]
    for client in clients:
        work(client)
    rows = latency(weir)
    for database in ("app", "app2"):
        of_database = counts(rows, "database", database=database)
        counted = stats(weir, database)
        assert counted == {"query_count": 42, "xact_count": 30, "client_login_count": 6}
        assert (of_database["statement"], of_database["transaction"]) == (42, 30)
        assert of_database["client_login"] == 6
        # one for each assignment, and one for each client that came before the pool had a server
        assert of_database["wait"] >= 30
        for user in ("alice", "bob"):
            of_pool = counts(rows, "pool", database=database, user=user)
            assert (of_pool["statement"], of_pool["transaction"]) == (21, 15)
            assert of_pool["client_login"] == 3 and 1 <= of_pool["server_login"] <= 2
    of_all = counts(rows, "all")
    assert (of_all["statement"], of_all["transaction"]) == (84, 60)
    for kind, count in of_all.items():
        assert count == sum(counts(rows, "database", database=database)[kind]
                            for database in ("app", "app2"))
        of_pools = [row["count"] for row in rows
                    if (row["scope"], row["window"], row["kind"]) == ("pool", "start", kind)]
        assert count == sum(of_pools)


def test_every_window_has_what_has_just_been(pgweir):
    weir = pgweir()
    client = weir.client()
    client.query("SELECT 1")
    rows = latency(weir)
    for scope in ("all", "database", "pool"):
        for window in ("minute", "ten_minutes", "start"):
            assert counts(rows, scope, window)["statement"] == 1


def test_the_values_of_a_row_rise(pgweir):
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    for _ in range(20):
        work(client)
    rows = latency(weir)
    assert rows
    for row in rows:
        values = [row[name] for name in TIMES[1:]]
        assert values == sorted(values) and row["mean_us"] <= row["max_us"]


def test_rows_are_in_the_order_of_names(pgweir):
    weir = pgweir()
    for user, database in (("bob", "app2"), ("alice", "app2"), ("alice", "app")):
        weir.client(user, database).query("SELECT 1")
    names = [(row["database"] or "", row["user"] or "") for row in latency(weir)]
    assert list(dict.fromkeys(names)) == [
        ("", ""), ("app", ""), ("app", "alice"), ("app2", ""), ("app2", "alice"), ("app2", "bob")]


def test_nothing_counted_has_no_row(pgweir):
    assert latency(pgweir()) == []


def test_of_one_database(pgweir):
    weir = pgweir()
    for database in ("app", "app2"):
        weir.client("alice", database).query("SELECT 1")
    rows = latency(weir, "app2")
    assert {(row["scope"], row["database"]) for row in rows} == {("database", "app2"),
                                                                ("pool", "app2")}
    with pytest.raises(Refused):
        latency(weir, "nowhere")


def test_the_mean_is_exact(pgweir):
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    for _ in range(10):
        work(client)
    rows = {row["kind"]: row for row in latency(weir)
            if (row["scope"], row["window"]) == ("all", "start")}
    totals = {row["name"]: row["value"] for row in weir.admin("SHOW TOTALS")}
    assert rows["statement"]["mean_us"] == int(totals["total_query_time"]) // 70
    assert rows["transaction"]["mean_us"] == int(totals["total_xact_time"]) // 50


HELD = 0.3  # seconds


def test_a_slow_answer(scripted):
    """What PostgreSQL takes is in the statement and in its transaction, not in the wait."""
    weir, client, server = scripted(pool_mode="transaction")
    client.send(query("slow"))
    assert server.read()[0] == "Q"
    time.sleep(HELD)
    server.send(answer("done"))
    client.read_result()
    rows = {row["kind"]: row for row in latency(weir, "app")
            if (row["scope"], row["window"]) == ("pool", "minute")}
    for kind in ("statement", "transaction"):
        assert rows[kind]["max_us"] >= HELD * 1e6
        assert rows[kind]["p50_us"] == rows[kind]["p999_us"] >= HELD * 1e6 * 0.98


def test_a_wait_is_counted(pgweir):
    """The one that waits has it in wait, statement and transaction."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    before = counts(latency(weir), "pool")["wait"]
    waiter.send(query("SELECT 1"))
    wait_until(lambda: weir.admin("SHOW WAITING"))
    began = time.monotonic()
    time.sleep(HELD)
    holder.query("COMMIT")
    waiter.read_result()
    assert time.monotonic() - began >= HELD
    rows = {row["kind"]: row for row in latency(weir)
            if (row["scope"], row["window"]) == ("pool", "start")}
    assert rows["wait"]["count"] == before + 1
    for kind in ("wait", "statement", "transaction"):
        assert rows[kind]["max_us"] >= HELD * 1e6


def test_counts_outlive_the_pool(pgweir):
    """KILL begins new counters for the pools; the database keeps all."""
    weir = pgweir()
    client = weir.client()
    client.query("SELECT 1")
    weir.admin("KILL app")
    weir.admin("RESUME app")
    rows = latency(weir)
    assert counts(rows, "pool") == {}
    assert counts(rows, "database")["statement"] == counts(rows, "all")["statement"] == 1
    weir.client().query("SELECT 1")
    rows = latency(weir)
    assert counts(rows, "pool")["statement"] == 1
    assert counts(rows, "database")["statement"] == counts(rows, "all")["statement"] == 2


MANY = 130  # their sums take more than one turn


def test_a_database_with_many_pools(pgweir, postgres):
    users = [f"many{number:03}" for number in range(MANY)]
    for user in users:
        postgres.query(f"DROP ROLE IF EXISTS {user}")
        postgres.query(f"CREATE ROLE {user} LOGIN")
    weir = pgweir(userlist={name: "" for name in ("admin", *users)}, server_lifetime=0)
    for user in users:
        with weir.client(user) as client:
            client.query("SELECT 1")
    for _ in range(2):
        rows = latency(weir, "app")
        for window in ("minute", "ten_minutes", "start"):
            sums = collections.Counter()
            for row in rows:
                if (row["scope"], row["window"]) == ("pool", window):
                    sums[row["kind"]] += row["count"]
            assert counts(rows, "database", window) == sums
            assert sums["statement"] == sums["client_login"] == MANY
        (row,) = [row for row in weir.admin("SHOW HISTOGRAMS app") if row["kind"] == "statement"]
        assert row["count"] == MANY
        longest = max(row["max_us"] for row in rows if row["scope"] == "pool")
        assert longest == max(row["max_us"] for row in rows if row["scope"] == "database")
    weir.admin("KILL app")
    weir.admin("RESUME app")
    assert counts(latency(weir, "app"), "database")["statement"] == MANY


def test_lookups_are_in_the_pool_of_their_user(pgweir):
    weir = pgweir(auth_type="scram-sha-256", auth_user="alice",
                  auth_query="SELECT $1::text, NULL::text")
    with pytest.raises(Refused):
        weir.client("nobody", password="guess")
    assert counts(latency(weir), "pool", user="alice")["server_login"] >= 1


def test_a_take_over_begins_again(pgweir):
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    client.query("SELECT 1")
    weir.take_over()
    assert "statement" not in counts(latency(weir), "all")
    client.query("SELECT 1")
    assert counts(latency(weir), "all")["statement"] == 1
