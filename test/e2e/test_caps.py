# SPDX-License-Identifier: ISC
"""One cap over all pools: max_server_connections, max_host_connections."""

import random
import threading

import pytest

from .kit.wait import wait_until

TENANTS = 120


def busy(weir, user="alice", database="app"):
    client = weir.client(user, database)
    assert client.query("BEGIN").status == "T"
    return client


@pytest.fixture
def small_postgres(private_postgres):
    """With room for 40 sessions, and a role for each of many tenants."""
    postgres = private_postgres(max_connections=40, superuser_reserved_connections=3)
    postgres.query("DO $$ BEGIN FOR i IN 0.."f"{TENANTS - 1}"
                   " LOOP EXECUTE format('CREATE ROLE tenant%s LOGIN', i); END LOOP; END $$")
    return postgres


def refusals(postgres):
    return [line for line in postgres.log.splitlines()
            if "too many clients" in line or "connection slots are reserved" in line]


def limit(weir, name, host=None):
    (row,) = [row for row in weir.admin("SHOW LIMITS")
              if row["limit"] == name and (host is None or row["host"] == host)]
    return row


CAPS = (("max_server_connections", "server limit"), ("max_host_connections", "host limit"))


@pytest.mark.parametrize("setting, reason", CAPS)
@pytest.mark.parametrize("loops", (1, 3))
def test_many_tenants_and_no_refusal(pgweir, small_postgres, setting, reason, loops):
    """PostgreSQL has 37 slots for tenants; the cap leaves as many as there are clients for sessions
    that have been closed and are not over yet.
    """
    weir = pgweir(postgres=small_postgres, pool_mode="transaction", loops=loops, default_pool_size=3,
                  databases={name: "dbname=app" for name in ("db0", "db1", "db2", "db3", "db4", "last")},
                  query_wait_timeout=60, **{setting: 20},
                  userlist={**{f"tenant{number}": "" for number in range(TENANTS)},
                            "admin": "", "stats": ""})
    failures, peak = [], []

    def work(seed):
        draw = random.Random(seed)
        try:
            for _ in range(25):
                user = f"tenant{draw.randrange(TENANTS)}"
                with weir.wire() as wire:
                    wire.login(user, f"db{draw.randrange(5)}")
                    assert wire.value("SELECT current_user") == user
        except Exception as problem:  # noqa: BLE001: told below
            failures.append(problem)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        peak.append(limit(weir, setting)["used"])
        threads[0].join(0.2)
    for thread in threads:
        thread.join(60)
    assert not failures, failures[:3]
    assert not refusals(small_postgres)
    assert max(peak) <= 20
    weir.wait_log(f"closing because: evicted for {setting}")
    # What was reached in the end is used: the limit is no lower than it says.
    holders = [busy(weir, f"tenant{number}", f"db{number % 5}") for number in range(20)]
    waiter = weir.wire().startup("tenant20", "last")
    wait_until(lambda: [row for row in weir.admin("SHOW WAITING") if row["reason"] == reason])
    assert len(small_postgres.backends(dbname="app")) == 20
    assert limit(weir, setting)["waiting"] == 1
    holders[0].query("COMMIT")
    waiter.finish_login("tenant20")


def test_an_address_counts_and_not_its_name(pgweir, postgres):
    at = f"port={postgres.port} dbname=app"
    weir = pgweir(pool_mode="transaction", max_host_connections=2,
                  databases={"one": f"host=127.0.0.1 {at}", "two": f"host=localhost {at}",
                             "other": f"host={postgres.socket_dir} {at}"})
    first, _second = busy(weir, "alice", "one"), busy(weir, "alice", "two")
    waiter = weir.wire().startup("bob", "one")
    wait_until(lambda: [row for row in weir.admin("SHOW WAITING") if row["reason"] == "host limit"])
    (row,) = weir.admin("SHOW WAITING")
    assert row["detail"].startswith(
        f"2 servers, max_host_connections 2, host 127.0.0.1:{postgres.port}")
    busy(weir, "alice", "other")
    first.query("COMMIT")
    waiter.finish_login("bob")
    weir.wait_log("closing because: evicted for max_host_connections")
    weir.wait_log("max_host_connections = 2 is reached by the servers of host 127.0.0.1:")
    assert limit(weir, "max_host_connections", f"127.0.0.1:{postgres.port}")["used"] == 2


@pytest.mark.parametrize("setting, reason", CAPS)
def test_it_can_be_set_while_servers_are_there(pgweir, postgres, setting, reason):
    weir = pgweir(pool_mode="transaction")
    idle = [weir.client(user) for user in ("alice", "bob")]
    for client in idle:
        client.query("SELECT 1")
    weir.admin(f"SET {setting} = 2")
    assert weir.client("carol").value("SELECT 1") == "1"
    wait_until(lambda: len(postgres.backends(dbname="app")) == 2)
    weir.wait_log(f"closing because: evicted for {setting}")
    weir.admin(f"SET {setting} = 0")
    for client in idle:
        client.query("BEGIN")
    busy(weir, "carol")
    wait_until(lambda: len(postgres.backends(dbname="app")) == 3)


@pytest.mark.parametrize("setting, reason", CAPS)
def test_a_take_over_keeps_the_count(make_pgweir, setting, reason):
    weir = make_pgweir(pool_mode="transaction", **{setting: 2}).start()
    holders = [busy(weir, "alice"), busy(weir, "bob")]
    for holder in holders:
        holder.query("COMMIT")
    weir.take_over()
    wait_until(lambda: limit(weir, setting)["used"] == 2)
    for holder in holders:
        holder.query("BEGIN")
    waiter = weir.wire().startup("carol")
    wait_until(lambda: [row for row in weir.admin("SHOW WAITING") if row["reason"] == reason])
    holders[0].query("COMMIT")
    waiter.finish_login("carol")
    assert limit(weir, setting)["used"] == 2


def test_a_host_watch_counts(pgweir, postgres):
    weir = pgweir(pool_mode="transaction", max_host_connections=3, host_check_user="alice",
                  databases={"app": "target_session_attrs=primary"})
    _holder = busy(weir)
    wait_until(lambda: limit(weir, "max_host_connections")["used"] == 2)
    assert limit(weir, "max_server_connections")["used"] == 2
    assert len(postgres.backends("alice")) == 2
