# SPDX-License-Identifier: ISC
"""SHOW HISTORY: seconds and minutes of all pools together. Minutes and the rings are checked by the
unit tests of the timeline.
"""

import datetime

from .kit.wait import wait_until
from .kit.wire import query


def seconds(weir):
    return [row for row in weir.admin("SHOW HISTORY") if row["resolution"] == "second"]


def total(weir, name):
    return sum(row[name] for row in seconds(weir))


def test_counts_are_those_of_the_statistics(pgweir):
    weir = pgweir(pool_mode="transaction")
    clients = [weir.client("alice", database) for database in ("app", "app2") for _ in range(3)]
    for client in clients:
        for text in ("BEGIN", "SELECT 1", "COMMIT", "SELECT 1", "SELECT 1 / 0"):
            client.query(text)
    # the second in which the last one fell has ended
    wait_until(lambda: total(weir, "queries") == 30)
    assert (total(weir, "xacts"), total(weir, "errors"), total(weir, "logins")) == (18, 6, 6)
    rows = {row["database"]: row for row in weir.admin("SHOW STATS_TOTALS")}
    for here, there in (("received", "bytes_received"), ("sent", "bytes_sent")):
        assert total(weir, here) == sum(int(rows[name][there]) for name in ("app", "app2"))


def test_connections_and_waits_at_the_end_of_a_second(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter, _ = (weir.client() for _ in range(3))
    other = weir.client("alice", "app2")
    other.query("SELECT 1")
    holder.query("BEGIN")
    waiter.send(query("SELECT 1"))
    last = wait_until(lambda: [row for row in seconds(weir) if row["cl_waiting"] == 1])[-1]
    assert (last["cl_active"], last["sv_active"], last["sv_idle"]) == (3, 1, 1)
    wait_until(lambda: seconds(weir)[-1]["maxwait_us"] > 1000000)
    holder.query("COMMIT")
    waiter.read_result()
    last = wait_until(lambda: [row for row in seconds(weir) if row["wait_p99_us"] > 900000])[-1]
    assert (last["cl_waiting"], last["maxwait_us"]) == (0, 0)
    assert last["statement_p99_us"] > 0 and last["xact_p99_us"] > 0


def test_rows_are_in_the_order_of_time(pgweir):
    weir = pgweir()
    rows = wait_until(lambda: len(seconds(weir)) >= 3 and seconds(weir))
    times = [datetime.datetime.fromisoformat(row["at"].replace("Z", "+00:00")) for row in rows]
    assert times == sorted(times)
    assert [row["age_s"] for row in rows] == sorted((row["age_s"] for row in rows), reverse=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    assert abs((now - times[-1]).total_seconds()) < 60
