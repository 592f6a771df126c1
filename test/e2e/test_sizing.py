# SPDX-License-Identifier: ISC
"""pool_size = auto, and SHOW ADVICE: how many servers a pool needs."""

import contextlib
import re
import threading

import pytest

from .kit.wait import wait_until
from .kit.wire import Refused, Wire

SLEEP = "SELECT pg_sleep(0.03)"
CROWD = ("SELECT pg_sleep(0.004 * count(*) ^ 1.5) FROM pg_stat_activity"
         " WHERE usename = current_user AND state = 'active'")


@pytest.fixture
def sized(pgweir, request):
    def start(**settings):
        settings = {"default_pool_size": "auto", "min_pool_size": 3, "max_pool_size": 8,
                    "pool_mode": "transaction", "server_idle_timeout": 600, **settings}
        return pgweir(**settings)
    return start


def size(weir):
    return next((row["value"] for row in weir.admin("SHOW LIMITS")
                 if row["limit"] == "pool_size" and row["user"] == "alice"), None)


def servers(weir):
    return len([row for row in weir.admin("SHOW SERVERS") if row["user"] == "alice"])


def changes(weir):
    """What the events say: before, after, why."""
    return [(int(found[1]), int(found[2]), found[3])
            for row in weir.admin("SHOW EVENTS") if row["kind"] == "pool size"
            for found in [re.search(r"pool_size = auto: (\d+) -> (\d+) servers: (.*)", row["text"])]]


@contextlib.contextmanager
def load(weir, statement, clients=16):
    """Each client runs the statement again and again."""
    is_over, failures = threading.Event(), []

    def work():
        try:
            with Wire(weir.address, limit=60) as wire:
                wire.login()
                while not is_over.is_set():
                    result = wire.query(statement)
                    assert not result.errors, result.error
        except Exception as problem:  # noqa: BLE001: told below
            failures.append(problem)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield failures
    finally:
        is_over.set()
        for thread in threads:
            thread.join(60)
    assert not failures, failures[:3]


def logins(weir):
    return len(re.findall(r"app/alice\S* .*new connection to server", weir.log))


def grow(weir, to=8):
    def is_grown():
        assert servers(weir) <= to
        return size(weir) == to

    with load(weir, SLEEP) as failures:
        wait_until(lambda: failures or is_grown(), 75, f"a size of {to}")
        wait_until(lambda: failures or servers(weir) == to, 20, f"{to} servers")


@pytest.mark.parametrize("loops", (1, 3))
def test_it_grows_while_clients_wait_and_no_further_than_its_bound(sized, loops):
    weir = sized(loops=loops)
    grow(weir)
    told = changes(weir)
    assert [change for change in told if "clients wait" in change[2]]
    for (_, after, _), (before, _, _) in zip(told, told[1:]):
        assert after == before
    assert told[0][0] == 3 and told[-1][1] == 8
    # Two sizes took turns, and no turn began with logins.
    assert logins(weir) <= 3 + sum(max(0, after - before) for before, after, _ in told)


@pytest.mark.limit(200)  # it grows, and then two fifths less are tried again and again
@pytest.mark.parametrize("loops", (1, 3))
def test_it_shrinks_where_fewer_do_more(sized, loops):
    """Eight at once take more than twice as long as four: by sleeping, whatever else is running."""
    weir = sized(loops=loops, min_pool_size=1)
    grow(weir)
    held_back = set()

    def is_small():
        held_back.add(sum(row["sv_used"] for row in weir.admin("SHOW POOLS")
                          if row["user"] == "alice"))
        return size(weir) <= 4 and servers(weir) <= 4

    with load(weir, CROWD):
        wait_until(is_small, 120, "fewer servers")
    assert held_back > {0}
    # In a trial of fewer, or at the end of the one of eight that goes on when the load changes.
    assert [change for change in changes(weir) if change[1] < change[0]
            and re.search("fewer may do as much|they did hardly more", change[2])]
    weir.wait_log("closing because: too many servers in the pool")


def test_nobody_waits_and_nothing_changes(sized):
    weir = sized()
    client = weir.client()
    for _ in range(50):
        client.query(SLEEP)
    assert size(weir) == 3 and not changes(weir)


def test_reload_and_take_over(sized):
    weir = sized()
    grow(weir)
    weir.reload(max_pool_size=9)
    assert size(weir) == 8
    weir.disconnect_console()
    weir.take_over()
    assert size(weir) == 8
    weir.reload(max_pool_size=5)
    assert size(weir) == 5
    wait_until(lambda: servers(weir) <= 5, 60, "five servers")
    weir.reload(default_pool_size=7)
    assert size(weir) == 7
    weir.reload(default_pool_size="auto", min_pool_size=2)
    assert size(weir) in (2, 5)


def test_users_and_databases_have_sizes_of_their_own(sized):
    weir = sized(default_pool_size=20, max_pool_size=0, min_pool_size=0,
                 databases={"app": "pool_size=auto max_pool_size=6 min_pool_size=2"},
                 users={"bob": "pool_size=4"})
    weir.client().query("SELECT 1")
    weir.client("bob").query("SELECT 1")
    sizes = {row["user"]: row["value"] for row in weir.admin("SHOW LIMITS")
             if row["limit"] == "pool_size" and row["database"] == "app"}
    assert sizes == {"alice": 2, "bob": 4}
    (row,) = [row for row in weir.admin("SHOW DATABASES") if row["name"] == "app"]
    assert row["pool_size"] == 6


REFUSED = (
    ({"max_pool_size": 0}, "needs an upper bound: set max_pool_size"),
    ({"min_pool_size": 30}, "min_pool_size = 30 is above max_pool_size = 8"),
    ({"default_pool_size": 5, "max_pool_size": 0, "databases": {"app": "pool_size=auto"}},
     'database "app": a pool size that is auto needs an upper bound'),
    ({"default_pool_size": 5, "max_pool_size": 0, "users": {"bob": "pool_size=auto"}},
     'user "bob": a pool size that is auto needs an upper bound'),
)


@pytest.mark.parametrize("settings, says", REFUSED)
def test_without_bounds_it_is_refused(sized, settings, says):
    weir = sized()
    with pytest.raises(Refused, match="RELOAD failed"):
        weir.reload(**settings)
    weir.wait_log(re.escape(says))
    assert not weir.client().query("SELECT 1").errors


def test_set_without_a_bound_is_refused(sized):
    weir = sized(default_pool_size=20, max_pool_size=0)
    with pytest.raises(Refused, match="SET failed"):
        weir.admin("SET default_pool_size = 'auto'")
    weir.admin("SET max_pool_size = 5")
    weir.admin("SET default_pool_size = 'auto'")
    (row,) = [row for row in weir.admin("SHOW CONFIG") if row["key"] == "default_pool_size"]
    assert row["value"] == "auto"


# -- a size that became smaller ---------------------------------------------------------------------


def test_servers_above_a_smaller_pool_size_are_closed_when_they_come_back(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=4)
    clients = [weir.client() for _ in range(4)]
    for client in clients:
        client.query("BEGIN")
    weir.reload(default_pool_size=1)
    for client, left in zip(clients, (3, 2, 1, 1)):
        client.query("COMMIT")
        wait_until(lambda left=left: servers(weir) == left, what=f"{left} servers")


# -- SHOW ADVICE ------------------------------------------------------------------------------------


def advice(weir):
    rows = [row for row in weir.admin("SHOW ADVICE app") if row["user"] == "alice"]
    return rows[0] if rows else {"requests": 0}


@pytest.mark.parametrize("loops", (1, 3))
def test_a_pool_that_is_too_small(pgweir, loops):
    weir = pgweir(pool_mode="transaction", default_pool_size=2, loops=loops)
    with load(weir, SLEEP, 12):
        wait_until(lambda: advice(weir)["requests"] >= 300, 60, "300 requests")
    row = advice(weir)
    assert row["advice"].startswith("too small: 1 % of the requests waited longer than")
    assert 10 <= row["wanted_p99"] <= 13 and row["wanted_p50"] <= row["wanted_p99"]
    assert row["wait_p99_us"] >= row["wait_p50_us"] > 50_000
    assert row["used_us"] >= 30_000
    # 12 clients want one all the time; a wait of 10 ms beside work of 30 ms saves a quarter of them
    assert 7 <= row["needed_p99"] < 12
    assert row["setting"] == f"pool_size = {row['needed_p99']}"


def test_a_pool_that_is_too_large(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=20)
    client, other = weir.client(), weir.client()
    assert advice(weir)["advice"] == "fewer than 100 requests: too few to tell"
    other.query("BEGIN")
    for _ in range(400):
        client.query("SELECT 1")
    row = advice(weir)
    assert (row["wanted_p50"], row["wanted_p99"], row["wanted_max"]) == (2, 2, 2)
    assert row["advice"] == "too large: never more than 2 servers were wanted at once"
    assert row["setting"] == "pool_size = 3"
    client.query("BEGIN")
    assert advice(weir)["idle_us"] == 0
    for other in (client, other):
        other.query("COMMIT")
    before = advice(weir)["idle_us"]
    wait_until(lambda: client.value("SELECT 1") and advice(weir)["idle_us"] > before + 100_000)
    other.query("BEGIN")
    # What is set anew is looked at anew.
    weir.reload(default_pool_size=3)
    assert advice(weir)["requests"] == 0
    for _ in range(400):
        client.query("SELECT 1")
    assert advice(weir)["advice"].startswith("it fits: ")
    assert advice(weir)["setting"] is None


@pytest.mark.parametrize("mode", ("session", "statement"))
def test_advice_in_other_modes(pgweir, mode):
    # However slow a login is, no wait is long.
    weir = pgweir(pool_mode=mode, default_pool_size=20, queue_target=600)
    for _ in range(400):
        with weir.wire() as wire:
            wire.login()
            wire.query("SELECT 1")
    row = advice(weir)
    assert row["pool_mode"] == mode and row["requests"] >= 400
    assert row["wanted_p50"] == 1
    assert row["advice"].startswith("too large: never more than")


def test_pins_are_named(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2, max_pinned_servers=2)
    pinned = weir.client()
    pinned.query("CREATE TEMP TABLE kept (number int)")
    wait_until(lambda: weir.admin("SHOW PINNED"), what="a pinned server")
    with load(weir, SLEEP, 8):
        wait_until(lambda: advice(weir)["requests"] >= 150, 60, "150 requests")
        row = advice(weir)
    assert row["pinned"] == 1
    assert row["advice"].startswith("1 of 2 servers stay with clients: SHOW PINNED has why")


def test_advice_with_auto(sized):
    weir = sized()
    with load(weir, SLEEP):
        wait_until(lambda: advice(weir)["requests"] >= 300, 60, "300 requests")
        row = advice(weir)
    assert row["advice"].startswith(("auto, 3 to 8: SHOW EVENTS", "too small: ", "it fits"))
    assert row["setting"] is None or row["setting"].startswith("max_pool_size = ")
