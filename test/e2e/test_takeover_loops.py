# SPDX-License-Identifier: ISC
"""-R between processes with different numbers of event loops: nobody loses anything.

test_takeover.py has all the rest, and runs with several loops too.
"""

import pytest

from .kit.wait import wait_until
from .kit.wire import bind, execute, parse, query, send_cancel, sync
from .test_takeover import PID, SLEEP, note_of, wait_asleep

# How many loops the old process has, and the new one.
MOVES = ((1, 3), (3, 1), (3, 3), (2, 4), (4, 2))


@pytest.fixture(params=MOVES, ids=lambda move: f"{move[0]}-{move[1]}")
def move(request, make_pgweir):
    """A daemon whose `move` has a process with another number of loops take over."""
    first, second = request.param

    def start(**settings):
        weir = make_pgweir(pool_mode="transaction", loops=first, **settings).start()

        def go():
            weir.disconnect_console()
            weir.configure(loops=second)
            return weir.take_over()

        weir.move = go
        return weir

    return start


def test_idle_clients_with_their_statements(move):
    weir = move(default_pool_size=6)
    clients = [weir.client() for _ in range(8)]
    for number, client in enumerate(clients):
        client.query(f"SET work_mem = '{number + 1}MB'")
        client.ask(parse(f"SELECT {number} + $1::int", "own"), parse("SELECT 5", "common"), sync())
        client.ask(bind([1], "own"), execute(), bind([], "common"), execute(), sync())
    assert weir.move().wait(15) == 0
    for number, client in enumerate(clients):
        assert client.value("SHOW work_mem") == f"{number + 1}MB"
        got = client.ask(bind([1], "own"), execute(), bind([], "common"), execute(), sync())
        assert got.rows == [[str(number + 1)], ["5"]]
    assert weir.client().value("SELECT 8") == "8"


def test_every_server_passes(move, postgres):
    """PostgreSQL sees the same connections, and no other."""
    weir = move(default_pool_size=6)
    clients = [weir.client() for _ in range(6)]
    for client in clients:
        client.query("BEGIN")
    before = {client.value(PID) for client in clients}
    for client in clients[:3]:
        client.query("COMMIT")
    assert weir.move().wait(15) == 0
    assert {client.value(PID) for client in clients[3:]} <= before
    for client in clients[:3]:
        client.query("BEGIN")
    assert {client.value(PID) for client in clients} == before
    for client in clients:
        client.query("COMMIT")


def test_transactions_and_pins(move):
    weir = move(default_pool_size=4, max_pinned_servers=2, query_wait_timeout=2)
    working, pinned, third = (weir.client() for _ in range(3))
    pinned.query("CREATE TEMP TABLE mine AS SELECT 6 AS six")
    working.query("BEGIN")
    working.query("DECLARE c CURSOR FOR SELECT generate_series(1, 5)")
    working.query("FETCH 2 FROM c")
    backends = working.value(PID), pinned.value(PID)
    assert weir.move().wait(15) == 0
    assert (working.value(PID), pinned.value(PID)) == backends
    assert working.query("FETCH 2 FROM c").rows == [["3"], ["4"]]
    assert working.query("COMMIT").status == "I"
    assert pinned.value("SELECT six FROM mine") == "6"
    assert third.value("SELECT to_regclass('pg_temp.mine') IS NULL") == "t"
    assert third.query("CREATE TEMP TABLE t (a int)").tags == ["CREATE TABLE"]
    working.query("BEGIN")
    assert working.query("CREATE TEMP TABLE t (a int)").error["C"] == "53300"


def test_listeners(move, postgres):
    """Their cancel keys may lead to different loops, and one connection serves all of them."""
    weir = move(default_pool_size=4)
    listeners = [weir.client() for _ in range(6)]
    for listener in listeners:
        listener.query("LISTEN news")
    listeners[0].query("LISTEN more")
    assert weir.move().wait(15) == 0
    postgres.query("NOTIFY news, 'x'")
    assert [note_of(listener.expect("A")) for listener in listeners] == ["x"] * 6
    postgres.query("NOTIFY more, 'y'")
    assert note_of(listeners[0].expect("A")) == "y"
    for listener in listeners:
        assert listener.value("SELECT 1") == "1"
    new = weir.client()
    new.query("LISTEN news")
    postgres.query("NOTIFY news, 'z'")
    assert [note_of(listener.expect("A")) for listener in (*listeners, new)] == ["z"] * 7
    # A cancel request finds each of them, and each new client.
    for client in (*listeners, new):
        client.send(query(SLEEP))
        wait_asleep(postgres)
        send_cancel(weir.address, client.key)
        assert client.read_result().error["C"] == "57014"


def test_cancel_keys(move, postgres):
    """Of clients in the new process, and of those that still work in the old one."""
    weir = move(default_pool_size=8)
    stay = [weir.client() for _ in range(3)]
    leave = [weir.client() for _ in range(3)]
    for client in stay:
        client.send(query(SLEEP))
    wait_asleep(postgres, 3)
    old = weir.move()
    for client in leave:
        client.send(query(SLEEP))
    wait_asleep(postgres, 6)
    for client in leave + stay:
        send_cancel(weir.address, client.key)
        assert client.read_result().error["C"] == "57014"
    assert old.wait(15) == 0
    assert [client.value("SELECT 3") for client in leave + stay] == ["3"] * 6


def test_waiting_clients(move):
    """They wait in different loops of the old process, and in different ones of the new."""
    weir = move(default_pool_size=1)
    holder, *waiting = (weir.client() for _ in range(5))
    holder.query("BEGIN")
    for client in waiting:
        client.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=4)
    assert weir.move().wait(15) == 0
    weir.wait_pool(cl_waiting=4)
    holder.query("COMMIT")
    assert [client.read_result().rows for client in waiting] == [[["1"]]] * 4


def test_a_pause_passes_to_each_loop(move, postgres):
    weir = move(default_pool_size=2)
    clients = [weir.client() for _ in range(6)]
    weir.admin("PAUSE app")
    assert weir.move().wait(15) == 0
    for client in clients:
        client.send(query("SELECT clock_timestamp()"))
    weir.wait_pool(cl_waiting=6)
    before = postgres.value("SELECT clock_timestamp()::text")
    weir.admin("RESUME app")
    assert all(client.read_result().rows[0][0] > before for client in clients)


def test_those_that_authenticated_with_passwords(make_pgweir, postgres):
    """A loop in which no client has logged in opens servers with what the others have shown."""
    weir = make_pgweir(userlist={"scram_user": postgres.secret("scram_user")}, pool_mode="transaction",
                       default_pool_size=4, auth_type="scram-sha-256", loops=1)
    weir.start()
    clients = [weir.client("scram_user", password="scram secret") for _ in range(6)]
    weir.configure(loops=3)
    assert weir.take_over().wait(15) == 0
    for client in clients[:4]:
        client.query("BEGIN")
    assert len({client.value(PID) for client in clients[:4]}) == 4
    for client in clients[:4]:
        client.query("COMMIT")
    assert [client.value("SELECT 1") for client in clients] == ["1"] * 6


def test_again_and_again(make_pgweir):
    """Clients pass through processes with 1 to 4 loops, and keep what they have."""
    weir = make_pgweir(pool_mode="transaction", default_pool_size=3, loops=2)
    weir.start()
    clients = [weir.client() for _ in range(5)]
    for number, client in enumerate(clients):
        client.query(f"SET application_name = 'number {number}'")
        client.query(f"PREPARE p AS SELECT {number}")
    listener = clients[2]
    listener.query("LISTEN news")
    for loops in (3, 1, 4, 2):
        weir.configure(loops=loops)
        assert weir.take_over().wait(15) == 0
        for number, client in enumerate(clients):
            assert client.value("SHOW application_name") == f"number {number}"
            assert client.value("EXECUTE p") == str(number)
        clients[0].query("NOTIFY news, 'x'")
        assert note_of(listener.expect("A")) == "x"
    wait_until(lambda: weir.log.count("the take-over is complete") == 4)
