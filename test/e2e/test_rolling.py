# SPDX-License-Identifier: ISC
"""Restarts and shutdowns under load: a hundred clients, and no statement fails."""

import signal

import pytest

from .kit.crowd import Crowd
from .kit.wait import wait_until
from .kit.wire import Wire
from .test_peers import share_port

COUNT = 100
SETTINGS = {"pool_mode": "transaction", "default_pool_size": 5}


@pytest.fixture
def table(postgres):
    return Crowd.table_of(postgres)


@pytest.fixture
def crowd():
    """The crowd ends with the test, whatever its result."""
    started = []

    def start(address, count=COUNT, **kw):
        started.append(Crowd(address, count, **kw))
        return started[-1].start()

    yield start
    for one in started:
        one.give_up()


def inside(weir):
    return sum(row["user"] == "alice" for row in weir.admin("SHOW CLIENTS"))


def replace(weir):
    """Stops the process and starts a new one, like a service manager."""
    weir.disconnect()
    assert weir.wait_exit(60) == 0
    weir.start()
    weir._console = Wire(weir.socket_path).login("admin", "pgbouncer")


# -- three instances on one port ------------------------------------------------------------------


@pytest.mark.limit(240)
@pytest.mark.parametrize("mode, count", (("transaction", COUNT), ("session", 20)))
def test_a_rolling_restart_by_drain(make_pgweir, postgres, table, crowd, mode, count):
    weirs = share_port(make_pgweir, 3, pool_mode=mode,
                       default_pool_size=5 if mode == "transaction" else count)
    load = crowd(weirs[0].address, count)
    for weir in weirs:
        assert inside(weir) > 0
        done = weir.run("--drain", weir.socket_path, "60", timeout=90)
        assert done.returncode == 0, done.stderr
        (row,) = weir.admin("SHOW DRAIN")
        assert (row["state"], row["cut"]) == ("drained", 0) and row["closed"] > 0
        load.wait_progress()  # the two others serve all clients
        weir.signal(signal.SIGTERM)
        replace(weir)
        assert weir.run("--ready", weir.socket_path).returncode == 0
        wait_until(lambda: has_its_share(weir))
    load.stop()
    load.check(postgres)
    assert load.moves >= count


def has_its_share(weir):
    """Whether it gets its share of new connections; existing ones stay where they are."""
    with Wire(weir.address) as wire:
        wire.login()
    return any(row["database"] == "app" for row in weir.admin("SHOW POOLS"))


@pytest.mark.limit(240)
def test_a_rolling_restart_of_clients_that_renew_their_connections(make_pgweir, postgres, table,
                                                                   crowd):
    """No client is disconnected: they disconnect by themselves, and nothing is refused or reset."""
    weirs = share_port(make_pgweir, 3, **SETTINGS)
    load = crowd(weirs[0].address, renew=7)
    for weir in weirs:
        weir.signal(signal.SIGTERM)
        replace(weir)
        load.wait_progress()
    load.stop()
    load.check(postgres)
    assert (load.moves, load.retries) == (0, 0)


# -- one instance ---------------------------------------------------------------------------------


@pytest.mark.limit(120)
@pytest.mark.parametrize("how", ("SIGTERM", "SHUTDOWN WAIT_FOR_CLIENTS"))
def test_waiting_for_clients_cuts_nothing(pgweir, postgres, table, crowd, how):
    weir = pgweir(**SETTINGS)
    load = crowd(weir.address)
    assert weir.admin("SHOW READY")[0]["ready"] == "yes"
    weir.signal(signal.SIGTERM) if how == "SIGTERM" else weir.ask_admin(how)
    wait_until(lambda: weir.admin("SHOW READY")[0]["ready"] == "no")
    load.wait_progress(2)  # all clients are served as before, without a time limit
    assert weir.process.poll() is None
    load.stop()
    weir.disconnect()
    assert weir.wait_exit(30) == 0
    load.check(postgres)
    assert (load.moves, load.retries) == (0, 0)


@pytest.mark.limit(120)
def test_a_successor_may_come_after_the_signal(pgweir, postgres, table, crowd):
    """With shutdown_accept the port is served until then, and no client notices."""
    weir = pgweir(shutdown_accept=3600, shutdown_drain=3600, **SETTINGS)
    load = crowd(weir.address, renew=7)
    assert weir.admin("SHOW READY")[0]["ready"] == "yes"
    weir.signal(signal.SIGTERM)
    wait_until(lambda: weir.admin("SHOW READY")[0]["ready"] == "no")
    load.wait_progress(2)
    weir.disconnect()
    assert weir.take_over().wait(60) == 0
    assert weir.admin("SHOW READY")[0]["ready"] == "yes"
    load.wait_progress()
    load.stop()
    load.check(postgres)
    assert (load.moves, load.retries) == (0, 0)
    weir.reload(shutdown_accept=0)  # the test's end is a SIGINT


@pytest.mark.limit(120)
@pytest.mark.parametrize("how", ("SIGINT", "SHUTDOWN WAIT_FOR_SERVERS"))
def test_waiting_for_servers_ends_no_transaction(pgweir, postgres, table, crowd, how):
    """Running transactions finish, waiting clients get an error, and no further client is served.
    """
    weir = pgweir(**SETTINGS)
    load = crowd(weir.address, may_end=True)
    weir.signal(signal.SIGINT) if how == "SIGINT" else weir.ask_admin(how)
    assert weir.wait_exit(60) == 0
    load.wait_end()
    load.check(postgres)
