# SPDX-License-Identifier: ISC
"""Several loops in one process: limits hold for all of them together, exactly, and servers go where
clients wait.
"""

import collections
import random
import threading

import pytest

from .kit.counting import HOLD, CountingServer
from .kit.wait import wait_until
from .kit.wire import Closed, Refused, Wire, query

LOOPS = 4
USERS = ("alice", "bob", "carol")
DATABASES = ("app", "app2")
POOL, OF_DATABASE, OF_USER = 6, 9, 8
SETTINGS = {"loops": LOOPS, "pool_mode": "transaction", "default_pool_size": POOL,
            "max_db_connections": OF_DATABASE, "max_user_connections": OF_USER,
            "session_state": "off", "query_wait_timeout": 60}


@pytest.fixture
def counting():
    made = []

    def make(*limits):
        made.append(CountingServer(limits))
        return made[-1]

    yield make
    for server in made:
        server.close()


def limits(pool=POOL):
    """All limits of SETTINGS, as a counting server checks them at each login."""
    return (("pool_size", lambda user, database: (user, database), pool),
            ("max_db_connections", lambda user, database: database, OF_DATABASE),
            ("max_user_connections", lambda user, database: user, OF_USER))


def start(pgweir, server, **settings):
    return pgweir(databases={name: server.entry for name in DATABASES},
                  userlist={name: "" for name in (*USERS, "admin", "stats")},
                  **{**SETTINGS, **settings})


def enter(weir, user="alice", database="app"):
    wire = Wire(("127.0.0.1", weir.port))
    wire.login(user, database)
    return wire


def holders(weir, each, users=USERS, databases=DATABASES):
    """So many clients of each user on each database, whose queries the server keeps."""
    found = []
    for _ in range(each):
        for user in users:
            for database in databases:
                found.append(enter(weir, user, database))
                found[-1].send(query(f"SELECT {HOLD}"))
    return found


# -- limits of servers ----------------------------------------------------------------------------


def nobody_could_be_served(held, left):
    """Whether each client that waits, of those that are left, waits because of a limit."""
    of_database, of_user = collections.Counter(), collections.Counter()
    for (user, database), count in held.items():
        of_database[database] += count
        of_user[user] += count
    return all(held[who] in (POOL, count) or of_database[who[1]] == OF_DATABASE
               or of_user[who[0]] == OF_USER for who, count in left.items())


def test_all_permits_are_used_while_clients_wait_and_never_one_more(pgweir, counting):
    server = counting(*limits())
    weir = start(pgweir, server)
    clients = holders(weir, 8)
    full = len(DATABASES) * OF_DATABASE
    wait_until(lambda: server.held_count() == full, what="all permits are used")
    # Whichever answers first: its permit serves another client, until nobody waits.
    left = collections.Counter({(user, database): 8 for user in USERS for database in DATABASES})
    while left.total():
        left.subtract(server.release())
        wait_until(lambda: nobody_could_be_served(server.held_by(), left),
                   what="the permit is used")
        assert not server.excesses
    for client in clients:
        assert client.read_result().rows == [["1"]]
        client.close()
    assert not server.excesses


def storm(weir, workers, rounds, seed):
    """Clients that come and go, with work; returns what went wrong."""
    wrong = []

    def work(number):
        dice = random.Random(f"{seed} {number}")
        for _ in range(rounds):
            try:
                client = enter(weir, dice.choice(USERS), dice.choice(DATABASES))
                for _ in range(dice.randrange(6)):
                    if client.value("SELECT 1") != "1":
                        wrong.append("a wrong answer")
                if dice.random() < 0.1:
                    client.send(query("SELECT 1"))  # and leaves
                client.close()
            except (Closed, Refused, OSError, TimeoutError) as failure:
                wrong.append(repr(failure))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


@pytest.mark.limit(120)
@pytest.mark.parametrize("seed", range(2))
def test_no_limit_is_exceeded_in_a_storm(pgweir, counting, seed):
    server = counting(*limits())
    weir = start(pgweir, server, server_idle_timeout=1, server_lifetime=2)
    assert storm(weir, 24, 15, seed) == []
    assert server.excesses == []
    # And all permits are there afterwards: none was lost on the way.
    clients = holders(weir, 6)
    wait_until(lambda: server.held_count() == len(DATABASES) * OF_DATABASE)
    server.release_all()
    for client in clients:
        client.read_result()
    assert server.excesses == []


def test_the_reserve_is_exact(pgweir, counting):
    server = counting(*limits(pool=4))
    weir = start(pgweir, server, default_pool_size=2, reserve_pool_size=2,
                 reserve_pool_timeout="0.1")
    clients = holders(weir, 12, ("alice",), ("app",))
    wait_until(lambda: server.held_count() == 4)
    for left in range(len(clients) - 1, -1, -1):
        server.release()
        wait_until(lambda: server.held_count() == min(left, 4))
    for client in clients:
        assert client.read_result().rows == [["1"]]
    assert server.excesses == []
    assert server.count() <= 4


def test_min_pool_size_is_one_number_for_all_loops(pgweir, counting):
    server = counting(*limits())
    weir = start(pgweir, server, min_pool_size=5)
    clients = [enter(weir) for _ in range(2 * LOOPS)]
    wait_until(lambda: server.count() == 5)
    assert server.logins == 5
    for client in clients:
        assert client.value("SELECT 1") == "1"


def test_an_idle_server_of_another_loop_gives_way(pgweir, counting):
    """max_db_connections is used up by idle servers of one user, in all loops."""
    server = counting(*limits())
    weir = start(pgweir, server, default_pool_size=20, max_user_connections=0)
    clients = holders(weir, OF_DATABASE, ("alice",), ("app",))
    wait_until(lambda: server.held_count() == OF_DATABASE)
    server.release(OF_DATABASE)
    for client in clients:
        client.read_result()
    others = holders(weir, OF_DATABASE, ("bob",), ("app",))
    wait_until(lambda: server.held_count() == OF_DATABASE)
    assert server.count("alice") == 0
    server.release(OF_DATABASE)
    for client in others:
        client.read_result()
    assert [text for text in server.excesses if not text.startswith("pool_size")
            and not text.startswith("max_user")] == []


# -- servers go where clients wait ----------------------------------------------------------------


def moves(weir):
    return weir.log.count("moves to another loop")


def test_one_server_serves_the_clients_of_all_loops(pgweir, counting):
    server = counting(*limits(pool=1))
    weir = start(pgweir, server, default_pool_size=1, verbose=2)
    clients = [enter(weir) for _ in range(3 * LOOPS)]
    for _ in range(3):
        for client in clients:
            assert client.value("SELECT 1") == "1"
    assert server.logins == 1
    assert moves(weir) > 0


def test_a_client_finds_the_welcome_while_all_servers_are_busy(pgweir, counting):
    """A login in one loop is enough for all: no server more is opened to let clients in."""
    server = counting(*limits(pool=1))
    weir = start(pgweir, server, default_pool_size=1)
    first = enter(weir)
    first.send(query(f"SELECT {HOLD}"))
    wait_until(lambda: server.held_count() == 1)
    for _ in range(2 * LOOPS):
        enter(weir)
    assert server.logins == 1
    server.release()
    assert first.read_result().rows == [["1"]]


def test_servers_do_not_wander_when_there_are_enough(pgweir, counting):
    """As many servers as clients: after each loop has its own, none moves."""
    server = counting(*limits())
    weir = start(pgweir, server, default_pool_size=LOOPS, verbose=2)
    clients = [enter(weir) for _ in range(LOOPS)]

    def work(client):
        for _ in range(100):
            assert client.value("SELECT 1") == "1"

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert moves(weir) <= 2 * LOOPS


# -- limits of clients ----------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ("max_client_conn", "max_db_client_connections",
                                     "max_user_client_connections"))
def test_as_many_clients_as_allowed_and_not_one_more(pgweir, counting, setting):
    server = counting(*limits())
    weir = start(pgweir, server, **{setting: 20})
    clients, refused = [], []

    def come():
        try:
            clients.append(enter(weir))
        except (Refused, Closed) as failure:
            refused.append(failure)

    threads = [threading.Thread(target=come) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(clients), len(refused)) == (20, 30)
    for _ in range(5):
        clients.pop().close()
        clients.append(wait_until(lambda: try_enter(weir)))


def try_enter(weir):
    try:
        return enter(weir)
    except (Refused, Closed):
        return None
