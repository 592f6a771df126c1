# SPDX-License-Identifier: ISC
"""Several event loops: start, stop, and what the service manager sees of them."""

import os
import signal

import pytest

from .kit.wait import wait_until
from .kit.wire import query
from .test_takeover import SLEEP, wait_asleep


def threads_of(pid):
    """The names of its threads."""
    names = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="ascii") as file:
            names.append(file.read().strip())
    return names


def loops_of(weir):
    """How many threads run a loop; the main thread is one of them."""
    return 1 + sum(name.startswith("pgweir/") for name in threads_of(weir.pid))


def test_auto_is_one_for_each_processor(pgweir):
    weir = pgweir(loops="auto")
    wait_until(lambda: loops_of(weir) == len(os.sched_getaffinity(weir.pid)))
    (row,) = [row for row in weir.admin("SHOW CONFIG") if row["key"] == "loops"]
    assert (row["value"], row["default"], row["changeable"]) == ("auto", "1", "no")
    assert not [line for line in weir.log.splitlines() if "but this process may use" in line]


def test_more_loops_than_processors_are_a_warning(pgweir):
    weir = pgweir(loops=64)
    wait_until(lambda: loops_of(weir) == 64)
    weir.wait_log(r"WARNING loops = 64, but this process may use \d+ processors? only")
    assert weir.client().value("SELECT 1") == "1"


def test_one_loop_has_no_thread_of_its_own(pgweir):
    assert loops_of(pgweir(loops=1)) == 1


@pytest.fixture
def few_threads(account, binary, place):
    """The program, allowed some threads more than its user has now, which are not enough."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid == account.uid:
                count += len(os.listdir(f"/proc/{pid}/task"))
        except FileNotFoundError:
            pass
    path = os.path.join(place, "few-threads")
    account.write(path, f'#!/bin/bash\nulimit -u {count + 40}\nexec {binary} "$@"\n', 0o755)
    return path


def test_a_thread_that_cannot_be_started(make_pgweir, few_threads):
    weir = make_pgweir(loops=64)
    done = weir.run(weir.ini, binary=few_threads)
    assert done.returncode == 1
    assert "process up" not in done.stderr and "thread" in done.stderr, done.stderr


def test_a_take_over_whose_threads_cannot_be_started(make_pgweir, few_threads):
    """It fails before the running process has given anything."""
    weir = make_pgweir(loops=3, pool_mode="transaction").start()
    clients = [weir.client() for _ in range(4)]
    weir.configure(loops=64)
    done = weir.run("-R", weir.ini, binary=few_threads)
    assert done.returncode == 1 and "thread" in done.stderr, done.stderr
    weir.wait_log("take-over failed, this process continues")
    assert [client.value("SELECT 3") for client in clients] == ["3"] * 4
    assert weir.client().value("SELECT 4") == "4"


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT))
def test_signals_that_stop(pgweir, postgres, number):
    """Clients of all loops are waited for, or not; each line is in the log once."""
    weir = pgweir(loops=3, pool_mode="transaction")
    working, idle = [weir.client() for _ in range(4)], [weir.client() for _ in range(4)]
    for client in working:
        client.query("BEGIN")
    weir.signal(number)
    weir.wait_log(f"got {signal.Signals(number).name}, ")
    if number != signal.SIGQUIT:
        for client in working:
            assert client.query("COMMIT").tags == ["COMMIT"]
    if number == signal.SIGTERM:
        for client in working + idle:
            client.close()
    assert weir.wait_exit() == 0
    assert weir.log.count(f"got {signal.Signals(number).name}, ") == 1
    assert weir.log.count(", shutting down\n") == (number != signal.SIGQUIT)


def test_a_drain_at_the_end(pgweir, postgres):
    """shutdown_drain: clients of all loops go, those within a transaction when it ends."""
    weir = pgweir(loops=3, pool_mode="transaction", shutdown_drain=600)
    working, idle = [weir.client() for _ in range(4)], [weir.client() for _ in range(4)]
    for client in working:
        client.query("BEGIN")
    weir.signal(signal.SIGTERM)
    assert {client.read().fields["C"] for client in idle} == {"57P01"}
    for client in working:
        assert client.query("COMMIT").tags == ["COMMIT"]
    assert weir.wait_exit() == 0
    assert weir.log.count("drained: no client is left") == 1


def test_the_end_meets_everything_under_way(pgweir, postgres):
    """Servers and clients between two loops, queries that run: nothing is left behind."""
    weir = pgweir(loops=4, pool_mode="transaction", default_pool_size=2)
    clients = [weir.client() for _ in range(12)]
    for client in clients:
        client.send(query("SELECT 1"), query(SLEEP))
    wait_asleep(postgres, 2)
    consoles = [weir.wire() for _ in range(8)]
    for console in consoles:
        console.startup("admin", "pgbouncer")
    weir.signal(signal.SIGQUIT)
    assert weir.wait_exit() == 0
    postgres.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = %s", SLEEP)
