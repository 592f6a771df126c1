# SPDX-License-Identifier: ISC
"""SHOW APPLICATIONS: clients by application_name."""

from .kit.wait import wait_until
from .kit.wire import query


def applications(weir):
    return {row["application_name"]: row for row in weir.admin("SHOW APPLICATIONS")}


def test_what_they_do(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2, track_statements=10)
    idle = [weir.client(application_name="web") for _ in range(3)]
    for client in idle:
        client.query("SELECT 1")
    idle[0].query("SELECT 1/0")
    pinned = weir.client(application_name="keeper")
    pinned.query("CREATE TEMP TABLE t ()")
    works = weir.client(application_name="worker")
    works.query("BEGIN")
    waits = weir.client(application_name="web")
    waits.send(query("SELECT 'waited'"))
    weir.wait_pool(cl_waiting=1)
    # Its server is asked because another client waits: in another loop after a millisecond.
    wait_until(lambda: applications(weir)["keeper"]["pinned"], what="the keeper to be pinned")
    found = applications(weir)
    assert list(found) == ["web", "keeper", "worker"]
    web, keeper, worker = found.values()
    assert (web["clients"], web["active"], web["waiting"], web["pinned"]) == (4, 0, 1, 0)
    assert (web["xacts"], web["errors"]) == (4, 1)
    assert (keeper["clients"], keeper["pinned"]) == (1, 1)
    assert (worker["active"], worker["waiting"], worker["longest_xact_s"]) == (1, 0, 0)
    works.query("COMMIT")
    waits.read_result()
    assert applications(weir)["web"]["xacts"] == 5


def test_a_name_changes(pgweir):
    weir = pgweir(pool_mode="transaction", track_statements=10)
    client = weir.client(application_name="one")
    client.query("SELECT 1")
    client.query("SET application_name = two")
    client.query("SELECT 1")
    found = applications(weir)
    assert list(found) == ["two"] and found["two"]["xacts"] == 1
    (row,) = [row for row in weir.admin("SHOW STATEMENTS") if row["query"] == "SELECT $1"]
    assert row["application"] == "two"


def test_counts_survive_their_clients(pgweir):
    weir = pgweir(pool_mode="transaction", track_statements=10)
    for _ in range(3):
        with weir.client(application_name="short") as client:
            client.query("SELECT 1")
    weir.wait_pool(cl_active=0)
    last = weir.client(application_name="short")
    assert applications(weir)["short"]["xacts"] == 3
    weir.admin("RESET STATEMENTS")
    assert applications(weir)["short"]["xacts"] == 0
    last.query("SELECT 1")
    assert applications(weir)["short"]["xacts"] == 1


def test_without_tracking_and_without_a_name(pgweir):
    weir = pgweir(pool_mode="session")
    client = weir.client()
    client.query("SELECT 1")
    assert weir.admin("SHOW APPLICATIONS") == [
        dict(application_name="", clients=1, active=1, waiting=0, pinned=0, xacts=None, errors=None,
             longest_xact_s=0)]


def test_more_names_than_are_told_apart(pgweir):
    weir = pgweir(pool_mode="transaction", max_client_conn=4200)
    clients = [weir.client(application_name=f"app {number}") for number in range(4106)]
    clients += [weir.client(application_name="app 1")]
    rows = weir.admin("SHOW APPLICATIONS")
    assert len(rows) == 4097
    assert (rows[0]["application_name"], rows[0]["clients"]) == ("app 1", 2)
    assert (rows[-1]["application_name"], rows[-1]["clients"]) == (None, 10)
