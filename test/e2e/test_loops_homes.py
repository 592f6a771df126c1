# SPDX-License-Identifier: ISC
"""In which loops the clients of a pool are: small pools in few, large ones in all (servers_per_loop).
"""

import collections
import threading

import pytest

from .kit.wait import wait_until
from .kit.wire import Refused, query, send_cancel

LOOPS = 4


@pytest.fixture
def start(pgweir):
    def start(**settings):
        return pgweir(**{"pool_mode": "transaction", "loops": LOOPS, "max_client_conn": 500,
                         "default_pool_size": 4,
                         "servers_per_loop": None, **settings})
    return start


def loops_of(weir):
    """loop -> number of clients there, without the console."""
    counts = collections.Counter({row["loop"]: row["clients"] for row in weir.admin("SHOW LOOPS")})
    counts[0] -= 1
    return +counts


def enter(weir, count, *who, **kw):
    return [weir.client(*who, **kw) for _ in range(count)]


def test_a_small_pool_is_in_one_loop(start):
    weir = start()
    clients = enter(weir, 12)
    assert list(loops_of(weir).values()) == [12]
    for client in clients:
        assert client.value("SELECT 1") == "1"
    # Clients that never work at the same time share one server, as with one loop.
    assert sum(row["servers"] for row in weir.admin("SHOW LOOPS")) == 1
    assert all(row["servers_out"] == 0 for row in weir.admin("SHOW LOOPS"))


def test_a_larger_pool_is_in_more(start):
    weir = start(default_pool_size=10)
    clients = enter(weir, 40)
    assert list(loops_of(weir).values()) == [20, 20]
    assert [client.value("SELECT 1") for client in clients] == ["1"] * 40


@pytest.mark.parametrize("settings", (
    {"default_pool_size": 20}, {"default_pool_size": 0}, {"servers_per_loop": 0},
    {"servers_per_loop": 1}))
def test_clients_of_others_are_dealt_evenly(start, settings):
    weir = start(**settings)
    weir.disconnect_console()
    clients = enter(weir, 200)
    dealt = loops_of(weir)
    assert len(dealt) == LOOPS and sum(dealt.values()) == 200
    assert max(dealt.values()) - min(dealt.values()) <= 2
    assert clients[-1].value("SELECT 1") == "1"


def test_homes_are_given_in_turn(start):
    weir = start()
    clients, homes, before = [], collections.Counter(), loops_of(weir)
    for who in (("alice", "app"), ("alice", "app2"), ("alice", "app3"), ("bob", "app")):
        clients += enter(weir, 3, *who)
        now = loops_of(weir)
        homes += now - before
        assert list((now - before).values()) == [3]
        before = now
    assert len(homes) >= LOOPS - 1  # two names may have the same hash


def test_clients_that_share_a_forced_user_share_its_pool(start):
    weir = start(databases={"app": "user=bob"})
    clients = enter(weir, 3, "alice") + enter(weir, 3, "carol")
    assert list(loops_of(weir).values()) == [6]
    assert {client.value("SELECT current_user") for client in clients} == {"bob"}


@pytest.mark.parametrize("where", ("entry", "user", "other"))
def test_the_size_that_counts_is_that_of_the_pool(start, where, postgres):
    databases = {"app": "pool_size=20" if where == "entry" else ""}
    if where == "other":
        databases = {"*": f"host={postgres.host} port={postgres.port} pool_size=20"}
    weir = start(databases=databases, users={"alice": "pool_size=20"} if where == "user" else None)
    clients = enter(weir, 8)
    assert len(loops_of(weir)) == LOOPS
    assert [client.value("SELECT 1") for client in clients] == ["1"] * 8


def test_polling_is_not_work(start):
    """A loop that polls uses a processor, and is not busy: its pool does not go to other loops."""
    weir = start(busy_poll=1_000_000)
    client = weir.client()

    def work():
        return sum(row["cpu_time"] for row in weir.admin("SHOW LOOPS")) / 1e6

    before, begun = work(), weir.cpu()
    wait_until(lambda: client.value("SELECT 1") == "1" and weir.cpu() > begun + 0.5)
    assert work() - before < 0.25
    clients = enter(weir, 5)
    assert list(loops_of(weir).values()) == [6]
    assert [client.value("SELECT 1") for client in clients] == ["1"] * 5


def test_a_reload_is_for_clients_that_connect_later(start):
    weir = start()
    early = enter(weir, 8)
    assert list(loops_of(weir).values()) == [8]
    weir.reload(servers_per_loop=0)
    late = enter(weir, 24)
    dealt = loops_of(weir)
    assert len(dealt) == LOOPS and max(dealt.values()) - min(dealt.values()) <= 1
    assert [client.value("SELECT 1") for client in early + late] == ["1"] * 32


def test_clients_go_home_with_tls_and_passwords(start, own):
    weir = start(client_tls_sslmode="allow", client_tls_cert_file=own.cert,
                 client_tls_key_file=own.key, auth_type="scram-sha-256")
    clients = [weir.connect(user="scram_user", password="scram secret", sslmode="require")
               for _ in range(6)]
    assert [client.execute("SELECT 1").fetchone() for client in clients] == [(1,)] * 6
    assert list(loops_of(weir).values()) == [6]


def test_a_cancel_request_finds_them(start, postgres):
    weir = start()
    clients = enter(weir, 4)
    for client in clients:
        client.send(query("SELECT pg_sleep(600)"))
    wait_until(lambda: postgres.value("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' "
                                      "AND query = 'SELECT pg_sleep(600)'") == 4)
    for client in clients:
        send_cancel(weir.address, client.key)
        assert client.read_result().error["C"] == "57014"


def test_a_take_over_keeps_the_homes(start):
    weir = start()
    other = enter(weir, 3, "alice", "app2")
    elsewhere = loops_of(weir)
    clients = enter(weir, 5)
    (home,) = loops_of(weir) - elsewhere
    weir.disconnect_console()
    assert weir.take_over().wait(15) == 0
    clients += enter(weir, 5)
    assert loops_of(weir) - elsewhere == {home: 10}
    assert [client.value("SELECT 1") for client in clients + other] == ["1"] * 13


def test_a_crowd_of_strangers_changes_nothing(start):
    """Names without a database or password get no memory, and clients of pools are dealt as before."""
    weir = start()
    clients = enter(weir, 4)

    def stranger(number):
        for round_number in range(50):
            wire = weir.wire()
            with pytest.raises(Refused):
                wire.login(f"nobody {number} {round_number}", f"none {round_number}")
            wire.close()

    threads = [threading.Thread(target=stranger, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    clients += enter(weir, 4)
    assert list(loops_of(weir).values()) == [8]
    assert [client.value("SELECT 1") for client in clients] == ["1"] * 8
