# SPDX-License-Identifier: ISC
"""What is shared: one cap over all pools, and wait queues that do not become too long."""

import random
import re
import select
import signal
import socket
import threading

import pytest

from .kit.daemon import LOOPS
from .kit.fake import answer, complete, ready
from .kit.wait import LIMIT, wait_until
from .kit.wire import Refused, bind, execute, parse, query, send_cancel, sync

TENANTS = 1000
ENTRIES = 10_000
SLOTS = 57


def busy(weir, user="alice", database="app"):
    client = weir.client(user, database)
    assert client.query("BEGIN").status == "T"
    return client


# -- one cap --------------------------------------------------------------------------------------


@pytest.fixture
def small_postgres(private_postgres):
    """With room for 60 sessions, and a role for each of many tenants."""
    postgres = private_postgres(max_connections=60, superuser_reserved_connections=3)
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
@pytest.mark.limit(300)
def test_many_tenants_and_no_refusal(pgweir, small_postgres, setting, reason, loops):
    """PostgreSQL has 57 slots for tenants, and the cap is as high: what has been closed and is not
    over yet has its slot, too.
    """
    weir = pgweir(postgres=small_postgres, pool_mode="transaction", loops=loops, default_pool_size=3,
                  databases={f"db{number}": f"dbname=app user=tenant{number % TENANTS}"
                             for number in range(ENTRIES)},
                  query_wait_timeout=60, **{setting: SLOTS})
    failures, peak = [], []

    def work(seed):
        draw = random.Random(seed)
        try:
            for _ in range(TENANTS // 16 + 1):
                number = draw.randrange(ENTRIES)
                with weir.client("alice", f"db{number}") as client:
                    assert client.value("SELECT current_user") == f"tenant{number % TENANTS}"
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
    assert max(peak) <= SLOTS
    weir.wait_log(f"closing because: evicted for {setting}")
    # What was reached in the end is used: the limit is no lower than it says.
    holders = [busy(weir, "alice", f"db{number}") for number in range(SLOTS)]
    waiter = weir.wire().startup("alice", f"db{SLOTS}")
    wait_until(lambda: [row for row in weir.admin("SHOW WAITING") if row["reason"] == reason])
    assert (limit(weir, setting)["used"], limit(weir, setting)["waiting"]) == (SLOTS, 1)
    holders[0].query("COMMIT")
    waiter.finish_login("alice")


def rest(weir, far, database):
    """A client of a scripted server, its answer read, and that server."""
    client = weir.wire().startup("alice", database)
    server = far.accept().login()
    client.finish_login("alice")
    client.send(query("SELECT 1"))
    server.expect("Q")
    server.send(answer("1"))
    assert client.read_result().rows == [["1"]]
    return server


def leaving(weir):
    return sum(row["state"] == "closing" for row in weir.admin("SHOW SERVERS"))


def ask_late(weir, limit_name, count):
    """Newcomers that wait, each in a pool of its own, because of the limit."""
    waiters = [weir.wire().startup("alice", f"late{number}") for number in range(count)]
    wait_until(lambda: limit(weir, limit_name)["waiting"] == count)
    return waiters


@pytest.mark.parametrize("setting, reason", CAPS)
@pytest.mark.parametrize("loops", (1, 3))
def test_a_session_counts_until_postgresql_has_ended_it(pgweir, fake_server, setting, reason, loops):
    """Terminate was sent. And for each server that is needed only one leaves."""
    far = fake_server()
    weir = pgweir(pool_mode="transaction", loops=loops,
                  databases={f"{name}{number}": far.entry for name in ("idle", "late") for number in range(3)},
                  **{setting: 3})
    servers = [rest(weir, far, f"idle{number}") for number in range(3)]
    waiters = ask_late(weir, setting, 2)
    wait_until(lambda: leaving(weir) == 2)
    assert {row["reason"] for row in weir.admin("SHOW WAITING")} == {reason}
    assert limit(weir, setting)["used"] == 3
    assert not far.has_caller()
    left = [server for server in servers if select.select([server.sock], [], [], 0)[0]]
    assert len(left) == 2
    for server in left:
        server.expect("X")
        server.close()
        far.accept().login()
    for waiter in waiters:
        waiter.finish_login("alice")
    assert limit(weir, setting)["used"] == 3


@pytest.mark.parametrize("setting, reason", CAPS)
@pytest.mark.parametrize("loops", (1, 3))
def test_sessions_of_idle_pools_end_side_by_side(pgweir, fake_server, setting, reason, loops):
    """Those that do not end their sessions keep a client waiting once, and not each the next one."""
    far = fake_server()
    weir = pgweir(pool_mode="transaction", loops=loops,
                  databases={f"{name}{number}": far.entry for name in ("idle", "late") for number in range(14)},
                  **{setting: 14})
    _servers = [rest(weir, far, f"idle{number}") for number in range(14)]
    _waiters = ask_late(weir, setting, 12)
    wait_until(lambda: leaving(weir) >= 12)
    assert weir.admin("SHOW VERSION")
    assert leaving(weir) == 12


@pytest.mark.parametrize("setting, reason", CAPS)
@pytest.mark.parametrize("loops", (1, 3))
def test_sessions_that_come_to_rest_end_side_by_side(pgweir, fake_server, setting, reason, loops):
    far = fake_server()
    weir = pgweir(pool_mode="transaction", loops=loops,
                  databases={f"{name}{number}": far.entry for name in ("idle", "late") for number in range(6)},
                  **{setting: 6})
    clients, servers = [], []
    for number in range(6):
        clients.append(weir.wire().startup("alice", f"idle{number}"))
        servers.append(far.accept().login())
        clients[-1].finish_login("alice").send(query("SELECT 1"))
        servers[-1].expect("Q")
    _waiters = ask_late(weir, setting, 4)
    for server, client in zip(servers, clients):
        server.send(answer("1"))
        client.read_result()
    wait_until(lambda: leaving(weir) >= 4)
    assert weir.admin("SHOW VERSION")
    assert leaving(weir) == 4


def test_a_pool_takes_no_more_than_its_size(pgweir, fake_server):
    """However many of its clients wait."""
    far = fake_server()
    weir = pgweir(pool_mode="transaction", max_server_connections=6, default_pool_size=2,
                  databases={f"{name}{number}": far.entry for name in ("idle", "late") for number in range(6)})
    _servers = [rest(weir, far, f"idle{number}") for number in range(5)]
    late = rest(weir, far, "late0")
    waiters = [weir.wire().startup("alice", "late0").finish_login("alice") for _ in range(5)]
    for waiter in waiters:
        waiter.send(query("SELECT 1"))
    late.expect("Q")
    wait_until(lambda: leaving(weir))
    assert limit(weir, "max_server_connections")["waiting"] == 1
    assert leaving(weir) == 1


def test_a_session_that_does_not_end(pgweir, fake_server):
    """PostgreSQL is given some time, and a client's wait no longer than that."""
    far = fake_server()
    weir = pgweir(pool_mode="transaction", max_server_connections=1, cancel_wait_timeout=1,
                  databases={"idle0": far.entry, "late0": far.entry})
    server = rest(weir, far, "idle0")
    (waiter,) = ask_late(weir, "max_server_connections", 1)
    server.expect("X")
    far.accept().login()
    waiter.finish_login("alice")
    weir.wait_log("PostgreSQL has not ended the session within cancel_wait_timeout")


@pytest.mark.parametrize("loops", (1, 3))
def test_who_waits_for_a_full_address_gets_another_one_by_reload(pgweir, fake_server, loops):
    one, other = fake_server(), fake_server()
    weir = pgweir(pool_mode="transaction", max_host_connections=1, loops=loops,
                  databases={"busy0": one.entry, "late0": one.entry})
    holder = weir.wire().startup("alice", "busy0")
    server = one.accept().login()
    holder.finish_login("alice").send(query("SELECT 1"))
    server.expect("Q")
    (waiter,) = ask_late(weir, "max_host_connections", 1)
    weir.reload(databases={"busy0": one.entry, "late0": other.entry})
    other.accept().login()
    waiter.finish_login("alice")
    server.send(answer("1"))
    assert holder.read_result().rows == [["1"]]


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGQUIT))
def test_a_shutdown_ends_sessions_and_does_not_wait(pgweir, fake_server, number):
    far = fake_server()
    weir = pgweir(pool_mode="transaction", max_server_connections=9, databases={"idle0": far.entry})
    server = rest(weir, far, "idle0")
    weir.disconnect()
    weir.signal(number)
    server.expect("X")
    assert weir.wait_exit() == 0


def test_without_a_cap_nobody_waits_for_the_end(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(pool_mode="transaction", max_user_connections=1,
                  databases={"idle0": far.entry, "late0": far.entry})
    server = rest(weir, far, "idle0")
    waiter = weir.wire().startup("alice", "late0")
    far.accept().login()
    waiter.finish_login("alice")
    server.expect("X")


def test_servers_above_the_size_leave_and_no_more(pgweir, fake_server):
    """Those that leave count for pool_size, too: that closes no others."""
    far = fake_server()
    weir = pgweir(pool_mode="session", max_server_connections=9, databases={"idle0": far.entry})
    clients, servers = [], []
    for _ in range(4):
        clients.append(weir.wire().startup("alice", "idle0"))
        if not servers:
            servers.append(far.accept().login())
        clients[-1].finish_login("alice")
        clients[-1].send(query("SELECT 1"))
        if len(servers) < len(clients):
            servers.append(far.accept().login())
        servers[-1].expect("Q")
        servers[-1].send(answer("1"))
        clients[-1].read_result()
    for client, server in zip(clients, servers):
        client.close()
        server.expect("Q")  # the reset
        server.send(complete("DISCARD ALL"), ready())
    wait_until(lambda: [row["state"] for row in weir.admin("SHOW SERVERS")] == ["idle"] * 4)
    weir.admin("SET default_pool_size = 2")
    wait_until(lambda: leaving(weir) == 2)
    assert sorted(row["state"] for row in weir.admin("SHOW SERVERS")) == ["closing"] * 2 + ["idle"] * 2


class Busy:
    """Clients that always wait for an answer, two for each server: none of these is ever idle."""

    def __init__(self, weir, far, databases, size):
        self.clients, self.servers, self.ending = {}, [], []
        for number in range(2 * size * len(databases)):
            client = weir.wire().startup("alice", databases[number % len(databases)])
            if number < len(databases):
                self.servers.append(far.accept().login())
            client.finish_login("alice").send(query("SELECT 1"))
            if len(databases) <= number < size * len(databases):
                self.servers.append(far.accept().login())
            self.clients[client.sock] = client

    def go_on(self):
        """Each server answers once, but for those that are to end: they do not."""
        for server in list(self.servers):
            if server.read().type == "X":
                self.servers.remove(server)
                self.ending.append(server)
                continue
            server.send(answer("1"))
            for sock in select.select(list(self.clients), [], [], LIMIT)[0]:
                self.clients[sock].read_result()
                self.clients[sock].send(query("SELECT 1"))


@pytest.mark.parametrize("setting, reason", CAPS)
def test_sessions_of_busy_pools_end_side_by_side(pgweir, fake_server, setting, reason):
    """Each pool that waits takes the place of another server."""
    far = fake_server()
    weir = pgweir(pool_mode="transaction", default_pool_size=1, **{setting: 3},
                  databases={f"{name}{number}": far.entry for name in ("busy", "late") for number in range(3)})
    busy = Busy(weir, far, [f"busy{number}" for number in range(3)], 1)
    waiters = [weir.wire().startup("alice", f"late{number}") for number in range(3)]
    wait_until(lambda: busy.go_on() or len(busy.ending) == len(waiters))
    assert leaving(weir) == 3


def test_who_gives_servers_up_keeps_its_guarantee(pgweir, fake_server):
    """Those that leave are no longer its own."""
    far = fake_server()
    weir = pgweir(pool_mode="transaction", max_server_connections=4, default_pool_size=4,
                  databases={"app": f"{far.entry} guaranteed_servers=3", "late0": far.entry, "late1": far.entry})
    busy = Busy(weir, far, ["app"], 4)
    waiters = [weir.wire().startup("alice", f"late{number}") for number in range(2)]
    wait_until(lambda: busy.go_on() or busy.ending)
    for _ in range(100):
        busy.go_on()
    assert (len(busy.ending), leaving(weir), len(waiters)) == (1, 1, 2)


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
    wait_until(lambda: len(postgres.backends(dbname="app")) >= 3)


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
    wait_until(lambda: len(postgres.backends("alice")) == 2)


@pytest.mark.parametrize("loops", (1, 3))
def test_what_postgresql_grants(make_pgweir, private_postgres, loops):
    """20 less 3 for superusers are 17, less 3 as a margin. When PostgreSQL is restarted with another
    number, the next login shows it, in all loops; so it is for a process that takes over.
    """
    postgres = private_postgres(max_connections=20, superuser_reserved_connections=3)
    weir = make_pgweir(postgres=postgres, pool_mode="transaction", loops=loops, default_pool_size=60,
                       max_host_connections="auto", query_wait_timeout=60).start()

    def fill(count):
        holders = [busy(weir, "alice" if number % 2 else "bob") for number in range(count)]
        waiter = wait_for(weir)
        wait_until(lambda: [row for row in weir.admin("SHOW WAITING") if row["reason"] == "host limit"])
        row = limit(weir, "max_host_connections")
        assert (row["value"], row["used"]) == (count, count)
        for holder in holders:
            holder.query("COMMIT")
        assert waiter.read_result().rows == [["served"]]
        assert not refusals(postgres)

    fill(14)
    (shown,) = [row for row in weir.admin("SHOW CONFIG") if row["key"] == "max_host_connections"]
    assert shown["value"] == "auto"
    for number, least in ((40, 34), (12, 6)):
        postgres.stop()
        postgres.settings["max_connections"] = number
        postgres.start()
        fill(least)
    weir.take_over()
    weir._console = None  # that of the old process
    weir.admin("RECONNECT")
    assert weir.client().value("SELECT 1") == "1"
    fill(6)


class Crowd:
    """Clients that always ask again: (user, database), so many of each."""

    def __init__(self, weir, pools):
        self.served, self.failures, self.end = {pool: 0 for pool in pools}, [], threading.Event()

        def work(pool):
            try:
                with weir.client(*pool) as client:
                    while not self.end.is_set():
                        client.value("SELECT pg_sleep(0.02)")
                        self.served[pool] += 1
            except Exception as problem:  # noqa: BLE001: told below
                self.failures.append(problem)

        self.threads = [threading.Thread(target=work, args=(pool,))
                        for pool, count in pools.items() for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.end.set()
        for thread in self.threads:
            thread.join(60)
        assert not self.failures, self.failures[:3]


def shares(weir):
    found = {}
    for row in weir.admin("SHOW POOLS"):
        servers = sum(row[name] for name in row if name.startswith("sv_"))
        if servers:
            found[row["user"], row["database"]] = found.get((row["user"], row["database"]), 0) + servers
    return found


ALICE, BOB = ("alice", "app"), ("bob", "app2")


@pytest.mark.parametrize("loops", (1, 3))
@pytest.mark.parametrize("setting", ("max_server_connections", "max_host_connections"))
@pytest.mark.parametrize("entries, parts", (
    (dict(), (4, 4)),
    (dict(databases={"app": "weight=3", "app2": ""}), (6, 2)),
    (dict(users={"bob": "weight=3"}, databases={"app": "", "app2": ""}), (2, 6)),
    (dict(users={"bob": "guaranteed_servers=5"}, databases={"app": "weight=3", "app2": ""}), (3, 5)),
    (dict(databases={"app": "weight=3", "app2": "guaranteed_servers=5"}), (3, 5))))
def test_shares_of_a_cap(pgweir, loops, setting, entries, parts):
    """One pool has all servers, and its clients always wait; then clients of another come, and both
    get their parts.
    """
    weir = pgweir(pool_mode="transaction", loops=loops, default_pool_size=20, query_wait_timeout=60,
                  **{setting: 8}, **{"databases": {"app": "", "app2": ""}, **entries})
    first = Crowd(weir, {ALICE: 12})
    wait_until(lambda: first.failures or shares(weir) == {ALICE: 8})
    second = Crowd(weir, {BOB: 12})
    wait_until(lambda: second.failures or shares(weir) == dict(zip((ALICE, BOB), parts)), 60)
    before = dict(second.served)
    wait_until(lambda: second.failures or second.served[BOB] > before[BOB] + 50)
    second.stop()
    wait_until(lambda: first.failures or shares(weir) == {ALICE: 8}, 60)
    first.stop()


@pytest.mark.parametrize("loops", (1, 3))
@pytest.mark.parametrize("limit", (dict(max_db_connections=1), dict(max_server_connections=1)))
def test_more_pools_than_servers(pgweir, loops, limit):
    """They take turns, though clients of each always wait."""
    weir = pgweir(pool_mode="transaction", loops=loops, query_wait_timeout=60, **limit)
    crowd = Crowd(weir, {(user, "app"): 3 for user in ("alice", "bob", "carol")})
    wait_until(lambda: crowd.failures or min(crowd.served.values()) > 20, 60)
    crowd.stop()


@pytest.mark.parametrize("how, problem", (
    (dict(databases={"app": "guaranteed_servers=3", "app2": "guaranteed_servers=1"},
          users={"alice": "guaranteed_servers=2"}, max_server_connections=5),
     "guaranteed_servers of databases are 4 and those of users 2: in sum 6, and max_server_connections is 5"),
    (dict(databases={"app": "guaranteed_servers=3 max_db_connections=2"}),
     'database "app": guaranteed_servers is 3, and max_db_connections is 2'),
    (dict(databases={"app": "guaranteed_servers=3"}, max_host_connections=2),
     'database "app": guaranteed_servers is 3, and max_host_connections is 2'),
    (dict(users={"alice": "guaranteed_servers=3 max_user_connections=2"}),
     'user "alice": guaranteed_servers is 3, and max_user_connections is 2'),
    (dict(max_server_connections="auto"),
     'setting "max_server_connections": auto is for max_host_connections, as a process may have several PostgreSQLs'),
    (dict(databases={"*": "guaranteed_servers=3"}),
     'database "*": guaranteed_servers needs the name of a database'),
    (dict(databases={"app": "weight=0"}), 'database "app": weight: must be from 1 to 1000'),
    (dict(databases={"app": "weight=1001"}), 'database "app": weight: must be from 1 to 1000')))
def test_shares_that_cannot_be(pgweir, how, problem):
    weir = pgweir()
    with pytest.raises(Refused):
        weir.reload(**how)
    weir.wait_log(re.escape(problem))


def test_a_cap_below_the_guarantees_is_refused(pgweir):
    weir = pgweir(databases={"app": "guaranteed_servers=3"})
    with pytest.raises(Refused):
        weir.admin("SET max_server_connections = 2")
    weir.wait_log("in sum 3, and max_server_connections is 2")
    weir.admin("SET max_server_connections = 3")


# -- wait queues ----------------------------------------------------------------------------------


def wait_for(weir, user="alice", database="app", text="SELECT 'served'", **more):
    """A client that waits for a server."""
    client = weir.client(user, database, **more)
    client.send(query(text))
    return client


def all_waiting(weir, count):
    wait_until(lambda: len(weir.admin("SHOW WAITING")) == count, what=f"{count} that wait")


@pytest.mark.parametrize("loops", (1, 3))
@pytest.mark.parametrize("where, detail", (
    ("pool", "2 clients wait in this pool"), ("database", "2 clients wait for the database"),
    ("user", "2 clients wait for the user")))
def test_max_waiting(pgweir, where, detail, loops):
    """The pools of alice on two databases, and those of two users on one."""
    limits = {"pool": dict(max_waiting=2),
              "database": dict(databases={"app": "max_waiting=2", "app2": ""}),
              "user": dict(users={"alice": "max_waiting=2"})}[where]
    weir = pgweir(pool_mode="transaction", default_pool_size=1, loops=loops, servers_per_loop=0,
                  **limits)
    pools = {"pool": (("alice", "app"),), "database": (("alice", "app"), ("bob", "app")),
             "user": (("alice", "app"), ("alice", "app2"))}[where]
    others = {"pool": ("bob", "app"), "database": ("alice", "app2"), "user": ("bob", "app")}[where]
    holders = [busy(weir, *pool) for pool in (*pools, others)]
    waiters = [wait_for(weir, *pools[number % len(pools)]) for number in range(2)]
    all_waiting(weir, 2)
    late = wait_for(weir, *pools[0])
    refused = late.read_result().error
    assert (refused["S"], refused["C"]) == ("ERROR", "53300")
    assert refused["M"] == "too many clients wait for a server (max_waiting)"
    assert re.fullmatch(detail + r"; the first of app/alice has waited \d+\.\d{3} s\.", refused["D"])
    other = wait_for(weir, *others)
    all_waiting(weir, 3)
    for holder in holders:
        holder.query("COMMIT")
    for waiter in (*waiters, other):
        assert waiter.read_result().rows == [["served"]]
    assert late.value("SELECT 1") == "1"
    names = {"pool": ("app", "alice"), "database": ("app", None), "user": (None, "alice")}
    shown = {(row["database"], row["user"]): row for row in weir.admin("SHOW LIMITS")
             if row["limit"] == "max_waiting"}
    row = shown.pop(names[where])
    assert (row["value"], row["used"], row["hits"]) == (2, 0, 1)
    assert row["source"].endswith("(database app)" if where == "database" else
                                  "(user alice)" if where == "user" else "")
    assert not [row for row in shown.values() if row["hits"]]


def test_who_was_handed_over_counts_for_max_waiting(make_pgweir):
    weir = make_pgweir(pool_mode="transaction", default_pool_size=1, max_waiting=2,
                       queue_target="1h", fair_by="user").start()
    holder = busy(weir)
    waiters = [wait_for(weir) for _ in range(2)]
    all_waiting(weir, 2)
    weir.disconnect_console()
    weir.take_over()
    all_waiting(weir, 2)
    late = weir.client()
    assert late.query("SELECT 1").error["M"].endswith("(max_waiting)")
    (row,) = weir.admin("SHOW SHARES app")
    assert (row["group"], row["cl_waiting"], row["sv_active"]) == ("alice", 2, 1)
    holder.query("COMMIT")
    for waiter in waiters:
        assert waiter.read_result().rows == [["served"]]
    assert late.value("SELECT 1") == "1"


@pytest.fixture
def full(pgweir):
    """One holds the server of alice, another waits for it, and a third one may not."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1, max_waiting=1, loops=1)
    weir.late = weir.client()
    weir.late.ask(parse("SELECT 'old'"), parse("SELECT length($1)", "long"), sync())
    weir.holder = busy(weir)
    weir.waiter = wait_for(weir)
    all_waiting(weir, 1)
    yield weir
    weir.holder.query("COMMIT")
    assert weir.waiter.read_result().rows == [["served"]]


def refused_in(weir):
    (row,) = [row for row in weir.admin("SHOW LIMITS")
              if row["limit"] == "max_waiting" and row["user"] == "alice"]
    return row["hits"]


def test_who_does_not_read_its_refusals_is_not_read(full):
    """What is kept for it is bounded: it gets no more answers than its socket takes."""
    count, seen = 60_000, [0]
    full.late.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    full.late.send(query("") * count)

    def stands_still():
        seen.append(refused_in(full))
        return seen[-1] == seen[-2] > 0
    wait_until(stands_still)
    assert seen[-1] < count / 2
    for _ in range(count):
        assert full.late.read_result().error["C"] == "53300"
    assert refused_in(full) == count


def test_a_message_that_comes_in_parts_is_refused_once_when_it_is_there(full):
    sent = bind(("x" * 20_000,), "long")
    for begin in range(0, len(sent), 5000):
        assert refused_in(full) == 0
        full.late.send(sent[begin:begin + 5000])
    full.late.send(sync())
    assert full.late.read_result().error["S"] == "ERROR"
    assert refused_in(full) == 1


def test_the_log_says_each_of_the_two_limits(pgweir):
    limits = dict(pool_mode="transaction", default_pool_size=1, max_waiting=3, loops=1)
    weir = pgweir(**limits)
    holder = busy(weir)
    waiters = [wait_for(weir) for _ in range(3)]
    all_waiting(weir, 3)
    assert weir.client().query("SELECT 1").error["M"].endswith("(max_waiting)")
    weir.reload(**limits, queue_target="1ms", queue_interval="1ms")
    for waiter in waiters[1:]:
        assert waiter.read_result().error["M"].endswith("(queue_target)")
    weir.wait_log("max_waiting = 3 is reached by")
    weir.wait_log("queue_target = 1 is reached by")
    holder.query("COMMIT")
    assert waiters[0].read_result().rows == [["served"]]


def test_a_refused_bind_keeps_the_unnamed_statement(full):
    assert full.late.ask(bind(), execute(), sync()).error["C"] == "53300"
    full.holder.query("COMMIT")
    assert full.late.ask(bind(), execute(), sync()).rows == [["old"]]


def test_a_refused_parse_ends_the_unnamed_statement(full):
    """A client that does not wait for the answer must not execute another statement."""
    assert full.late.ask(parse("SELECT 'named'", "s"), sync()).error["C"] == "53300"
    full.holder.query("COMMIT")
    assert full.late.ask(bind(), execute(), sync()).rows == [["old"]]
    full.holder.query("BEGIN")
    full.late.send(parse("SELECT 'new'"), sync(), bind(), execute(), sync())
    all_waiting(full, 1)
    send_cancel(full.address, full.late.key)
    assert full.late.read_result().error["C"] == "57014"
    full.holder.query("COMMIT")
    assert full.late.read_result().error["C"] == "26000"


MARK = query("INSERT INTO marks VALUES (1)")
BEGINNINGS = {
    "simple": query("BEGIN") + MARK + query("COMMIT"),
    "start": query("START TRANSACTION READ WRITE") + MARK + query("COMMIT"),
    "one text": query("BEGIN; INSERT INTO marks VALUES (1)") + MARK + query("COMMIT"),
    "extended": parse("BEGIN") + bind() + execute() + sync() + MARK + query("COMMIT"),
    "named": bind(name="b") + execute() + sync() + MARK + query("COMMIT"),
    "unnamed": bind() + execute() + sync() + MARK + query("COMMIT"),
}


@pytest.fixture
def marks(postgres):
    postgres.query("DROP TABLE IF EXISTS marks")
    postgres.query("CREATE TABLE marks (a int); GRANT ALL ON marks TO PUBLIC")
    return lambda: int(postgres.value("SELECT count(*) FROM marks"))


@pytest.mark.parametrize("late_begin", (0, 1))
@pytest.mark.parametrize("how", BEGINNINGS)
def test_what_follows_a_refused_begin_is_not_done_alone(pgweir, marks, how, late_begin):
    """The transaction has begun, and failed: so says the answer, and so fails what is behind it."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1, max_waiting=1, loops=1,
                  late_begin=late_begin)
    late = weir.client()
    late.ask(parse("BEGIN", "b"), parse("BEGIN"), sync())
    holder = busy(weir)
    holder.query("SELECT 1")
    waiter = wait_for(weir)
    all_waiting(weir, 1)
    late.send(BEGINNINGS[how])
    refused = late.read_result()
    if late_begin and not refused.error:  # its BEGIN needs no server, but what follows does
        refused = late.read_result()
    assert (refused.error["S"], refused.error["C"], refused.status) == ("ERROR", "53300", "E")
    holder.query("COMMIT")
    assert waiter.read_result().rows == [["served"]]
    late.send(query("SELECT 'behind'"))
    answers = [refused]
    while not answers[-1].rows:
        answers.append(late.read_result())
    assert {answer.error["C"] for answer in answers if answer.error} <= {"53300", "25P02"}
    assert [answer.tags for answer in answers if answer.tags][0] == ["ROLLBACK"]
    assert answers[-1].status == "I" and marks() == 0


@pytest.mark.parametrize("mode", ("transaction", "session"))
def test_a_refused_begin_can_be_rolled_back_and_begun_again(pgweir, mode, marks):
    weir = pgweir(pool_mode=mode, default_pool_size=1, max_waiting=1, loops=1)
    holder, late = weir.client(), weir.client()
    holder.query("BEGIN")
    holder.query("SELECT 1")
    waiter = wait_for(weir)
    all_waiting(weir, 1)
    assert late.query("BEGIN").status == "E"
    assert late.query("SELECT 1").status == "E"  # refused again
    rolled_back = late.query("ROLLBACK")  # this needs no server
    assert (rolled_back.tags, rolled_back.status) == (["ROLLBACK"], "I")
    late.send(query("SELECT 1; BEGIN"))  # how far it would have come is not known
    assert late.read_refusal().sqlstate == "53300"
    holder.query("COMMIT")
    holder.close()
    assert waiter.read_result().rows == [["served"]]
    waiter.close()
    late = weir.client()
    late.send(query("BEGIN") + MARK + query("COMMIT"))
    assert [late.read_result().error for _ in range(3)] == [None] * 3
    assert marks() == 1


def test_in_statement_mode_a_refused_begin_ends_its_client(pgweir):
    weir = pgweir(pool_mode="statement", default_pool_size=1, max_waiting=1, loops=1)
    holder, late = wait_for(weir, text="SELECT pg_sleep(60)"), weir.client()
    wait_until(lambda: weir.pool()["sv_active"] == 1)
    wait_for(weir)
    all_waiting(weir, 1)
    late.send(query("BEGIN"))
    assert late.read_refusal().sqlstate == "53300"
    holder.close()


def test_a_queue_that_stands_is_shed(pgweir, postgres):
    """One server that hangs: when the first has waited for long, all but one are refused, the
    newest first; who comes then is refused at once. When the server is back, all may wait again.
    """
    weir = pgweir(pool_mode="transaction", default_pool_size=1, loops=1, queue_target="200ms",
                  queue_interval="300ms")
    holder = busy(weir)
    waiters = []
    for number in range(5):
        waiters.append(wait_for(weir, application_name=f"n{number}"))
    all_waiting(weir, 1)
    for waiter in waiters[1:]:
        refused = waiter.read_result().error
        assert (refused["S"], refused["C"]) == ("ERROR", "53300")
        assert refused["M"] == "clients wait too long for a server (queue_target)"
    late = wait_for(weir)
    assert "clients wait in this pool; the first of app/alice has waited" in late.read_result().error["D"]
    begins = wait_for(weir, text="BEGIN")
    assert begins.read_result().status == "E"
    holder.query("COMMIT")
    assert waiters[0].read_result().rows == [["served"]]
    assert weir.log.count("queue_target = 200 is reached by") == 1
    begins.query("ROLLBACK")
    for client in (*waiters[1:], late, begins):
        assert client.value("SELECT 1") == "1"

    def limit():
        (row,) = [row for row in weir.admin("SHOW LIMITS") if row["limit"] == "queue_target"]
        return row
    assert (limit()["value"], limit()["used"], limit()["hits"]) == (200, 0, 6)

    def waits():
        """Whether a client may wait behind another one."""
        before = limit()["hits"]
        with busy(weir), weir.client() as first, weir.client() as second:
            first.send(query("SELECT 1"))
            second.send(query("SELECT 1"))
            wait_until(lambda: len(weir.admin("SHOW WAITING")) == 2 or limit()["hits"] > before)
            return limit()["hits"] == before
    wait_until(waits)


@pytest.mark.one_loop("each loop has a queue of its own")
@pytest.mark.parametrize("how", (dict(users={"alice": "priority=low"}), dict(fair_by="user")))
def test_who_comes_first_is_not_shed_for_those_who_wait(pgweir, how):
    """One of bob comes while nobody else may wait: it is one of alice that is refused."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1, queue_target="50ms",
                  queue_interval="100ms", databases={"app": "user=carol"}, **how)
    with weir.client("alice") as greedy:
        greedy.value("SELECT pg_sleep(0.2)")  # its group has used something
    holder = busy(weir, "bob")
    waiters = [wait_for(weir, "alice") for _ in range(3)]
    all_waiting(weir, 1)
    late = wait_for(weir, "bob")
    for waiter in waiters:
        assert waiter.read_result().error["C"] == "53300"
    all_waiting(weir, 1)
    holder.query("COMMIT")
    assert late.read_result().rows == [["served"]]


def test_paused_clients_are_not_shed(pgweir):
    """Nor when the PAUSE is over: only from then on do they wait for a server."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1, queue_target="5s",
                  queue_interval="1ms")
    weir.client().query("SELECT 1")
    weir.admin("PAUSE")
    waiters = [wait_for(weir, text="SELECT 'served' FROM pg_sleep(0.1)") for _ in range(5)]
    all_waiting(weir, 5)
    wait_until(lambda: weir.admin("SHOW WAITING")[-1]["wait"] >= 8)
    weir.admin("RESUME")
    for waiter in waiters:
        assert waiter.read_result().rows == [["served"]]


@pytest.mark.parametrize("loops", (1, 3))
def test_overload(pgweir, loops):
    """Sixty clients on two servers that each statement keeps for 20 ms: with a target of 100 ms ten
    may wait, and those that are not refused are served soon.
    """
    weir = pgweir(pool_mode="transaction", default_pool_size=2, loops=loops, queue_target="100ms",
                  queue_interval="100ms", max_client_conn=1000)
    served, refused, failures = [], [], []
    end = threading.Event()

    def work():
        while not end.is_set():
            try:
                with weir.client() as client:
                    client.send(query("SELECT pg_sleep(0.02)"))
                    said = client.read()
                    if said.type == "E":
                        refused.append(said.fields["C"])
                    else:
                        served.append(client.read_result())
            except Refused as problem:
                refused.append(problem.sqlstate)
            except Exception as problem:  # noqa: BLE001: told below
                failures.append(problem)

    threads = [threading.Thread(target=work) for _ in range(60)]
    for thread in threads:
        thread.start()
    wait_until(lambda: failures or (len(served) > 300 and len(refused) > 100), 60)
    end.set()
    for thread in threads:
        thread.join(60)
    assert not failures, failures[:3]
    assert set(refused) == {"53300"}
    assert weir.client().value("SELECT 1") == "1"


OWN_PATIENCE = ({"pgweir.wait_timeout": "200ms"}, {"options": "-c pgweir.wait_timeout=0.2"})


@pytest.mark.parametrize("own", OWN_PATIENCE)
@pytest.mark.parametrize("takes_over", (False, True))
def test_a_client_says_how_long_it_waits(make_pgweir, own, takes_over):
    weir = make_pgweir(pool_mode="transaction", default_pool_size=1).start()
    holder, hasty = weir.client(), weir.client(**own)
    assert hasty.query("SHOW pgweir.wait_timeout").errors  # PostgreSQL was not told
    holder.query("BEGIN")
    patient = wait_for(weir)
    if takes_over:
        weir.take_over()
        wait_until(lambda: len(weir.admin("SHOW CLIENTS")) == 4)
    hasty.send(query("SELECT 1"))
    refused = hasty.read_refusal()
    assert (refused.sqlstate, refused.text) == ("53300", "query_wait_timeout")
    all_waiting(weir, 1)
    holder.query("COMMIT")
    assert patient.read_result().rows == [["served"]]


def test_a_statement_that_was_handed_over_waits_as_long_as_it_says(make_pgweir):
    weir = make_pgweir(pool_mode="transaction", default_pool_size=1, query_wait_timeout="1h").start()
    holder, hasty = weir.client(), weir.client()
    hasty.query("SELECT 1")
    holder.query("BEGIN")
    hasty.send(query("SELECT 1 /*pgweir.wait_timeout='4s'*/"))
    all_waiting(weir, 1)
    weir.disconnect_console()
    weir.take_over()
    assert hasty.read_refusal().text == "query_wait_timeout"
    assert holder.query("COMMIT").tags == ["COMMIT"]


def test_no_client_waits_for_longer(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    _holder = busy(weir)
    # only now, as the login of its server may take longer
    weir.reload(pool_mode="transaction", default_pool_size=1, query_wait_timeout="0.2")
    for own in ("1h", "0"):
        waiter = wait_for(weir, **{"pgweir.wait_timeout": own})
        assert waiter.read_refusal().text == "query_wait_timeout"


@pytest.mark.parametrize("value, problem", (
    ("soon", '"soon" is not a duration'), ("-1", "must be at least 0")))
def test_a_patience_that_is_none(pgweir, value, problem):
    weir = pgweir(pool_mode="transaction")
    refused = weir.wire().startup(**{"pgweir.wait_timeout": value}).read_refusal()
    assert refused.sqlstate == "22023"
    assert refused.text.startswith("startup parameter pgweir.wait_timeout: " + problem)


# -- shares ---------------------------------------------------------------------------------------


@pytest.mark.one_loop("each loop has a queue of its own")
@pytest.mark.parametrize("how, last, groups", (
    (dict(), "4", []), (dict(fair_by="none"), "4", []),
    (dict(fair_by="user"), "1", [("alice", "normal", 1, 3, 1), ("bob", "normal", 1, 1, 0)]),
    (dict(fair_by="application"), "1", [("greedy", "normal", 1, 3, 1), ("polite", "normal", 1, 1, 0)]),
    (dict(users={"bob": "priority=high"}), "1", [("", "high", 1, 1, 0), ("", "normal", 1, 3, 1)]),
    (dict(users={"alice": "priority=low"}), "1", [("", "normal", 1, 1, 0), ("", "low", 1, 3, 1)]),
    (dict(users={"alice": "weight=3", "bob": "priority=low"}, fair_by="user"), "4",
     [("alice", "normal", 3, 3, 1), ("bob", "low", 1, 1, 0)])))
def test_who_is_next(pgweir, postgres, how, last, groups):
    """Three of alice wait behind one of alice, and then one of bob."""
    postgres.query("CREATE SEQUENCE IF NOT EXISTS places; GRANT ALL ON places TO PUBLIC;")
    postgres.query("ALTER SEQUENCE places RESTART")
    weir = pgweir(pool_mode="transaction", default_pool_size=1,
                  databases={"app": "user=carol", "app2": ""}, **how)
    holder = weir.client("alice", application_name="greedy")
    holder.query("SELECT pg_sleep(0.01)")  # its group has used something
    holder.query("BEGIN")
    waiters = []
    for number, (user, application) in enumerate((("alice", "greedy"),) * 3 + (("bob", "polite"),), 1):
        waiters.append(weir.client(user, application_name=application))
        waiters[-1].send(query("SELECT nextval('places')"))
        wait_until(lambda count=number: len(weir.admin("SHOW WAITING")) == count)
    told = {(row["reason"], "SHOW SHARES" in row["detail"]) for row in weir.admin("SHOW WAITING")
            if row["user"] == "alice"}
    assert told == {("share", True) if last == "1" else ("pool full", False)}
    shares = weir.admin("SHOW SHARES app")
    assert [(row["group"], row["priority"], row["weight"], row["cl_waiting"], row["sv_active"])
            for row in shares] == groups
    assert all((row["used_us"] > 0) == (row["sv_active"] == 1) for row in shares)
    holder.query("COMMIT")
    places = [waiter.read_result().rows[0][0] for waiter in waiters]
    assert places[3] == last
    assert places[:3] == sorted(places[:3])


@pytest.mark.parametrize("loops", (1, 3))
def test_weights(pgweir, loops):
    """Clients of two users that always ask again: three of one are served for each of the other."""
    weir = pgweir(pool_mode="transaction", default_pool_size=3, loops=loops, fair_by="user",
                  databases={"app": "user=carol"}, users={"alice": "weight=3", "bob": "weight=1"})
    served, failures, end = {"alice": 0, "bob": 0}, [], threading.Event()

    def work(user):
        try:
            with weir.client(user) as client:
                while not end.is_set():
                    client.value("SELECT pg_sleep(0.01)")
                    served[user] += 1
        except Exception as problem:  # noqa: BLE001: told below
            failures.append(problem)

    threads = [threading.Thread(target=work, args=(user,)) for user in served for _ in range(12)]
    for thread in threads:
        thread.start()
    wait_until(lambda: failures or min(served.values()) > 30, 60)
    before = dict(served)
    wait_until(lambda: failures or served["bob"] - before["bob"] > 100, 60)
    gained = {user: served[user] - before[user] for user in served}
    used = [(row["group"], row["used_us"]) for row in weir.admin("SHOW SHARES")]
    assert [group for group, _ in used] == ["alice", "bob"]  # of all loops
    assert used[0][1] > used[1][1] > 0
    weir.reload(fair_by="none", users={})  # while they wait and have servers
    wait_until(lambda: failures or served["bob"] - before["bob"] > 200, 60)
    weir.reload(fair_by="application")
    end.set()
    for thread in threads:
        thread.join(60)
    assert not failures, failures[:3]
    assert 2.5 < gained["alice"] / gained["bob"] < 3.5, gained
