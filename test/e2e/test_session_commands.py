# SPDX-License-Identifier: ISC
"""Console commands and a take-over while servers stay with clients: PAUSE, RECONNECT, DRAIN,
KILL_CLIENT, -R. The other settings of transaction mode: late_begin, max_prepared_statements."""

import pytest

from .kit.wait import wait_until
from .kit.wire import bind, execute, parse, query, sync

PID = "SELECT pg_backend_pid()"
UNKNOWN = "55000"

# What makes a server stay, what shows that it is there, what ends it.
STAYS = {
    "table": ("CREATE TEMP TABLE mine AS SELECT 6 AS six", "SELECT six FROM mine", "6", "DROP TABLE mine"),
    "cursor": ("DECLARE c CURSOR WITH HOLD FOR SELECT 6 FROM generate_series(1, 9)", "FETCH c", "6", "CLOSE c"),
    "lock": ("SELECT pg_advisory_lock(8)",
             "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()", "1",
             "SELECT pg_advisory_unlock(8)"),
}
NEXT = "SELECT nextval('turn')"
LAST = "SELECT lastval()"


@pytest.fixture(params=STAYS)
def stay(request):
    return STAYS[request.param]


@pytest.fixture
def start(make_pgweir, postgres):
    postgres.query("DROP SEQUENCE IF EXISTS turn; CREATE SEQUENCE turn; GRANT ALL ON SEQUENCE turn TO PUBLIC")

    def start(servers=2, **settings):
        weir = make_pgweir(pool_mode="transaction", default_pool_size=servers, **settings)
        return weir.start()
    return start


def lastval(client):
    result = client.query(LAST)
    return result.error["C"] if result.error else result.rows[0][0]


def hold(weir):
    """A client whose server stays with it for a moment, as it may ask for lastval() next, and the value."""
    client = weir.client()
    client.query(LAST)  # from now on the pool knows that it is asked for
    return client, client.value(NEXT)


# -- servers that stay ------------------------------------------------------------------------------


def test_pause_waits_for_the_client(start, stay):
    make, look, seen, end = stay
    weir = start()
    client = weir.client()
    client.query(make)
    pid = client.value(PID)
    console = weir.console()
    console.send(query("PAUSE"))
    wait_until(lambda: [row["paused"] for row in weir.admin("SHOW DATABASES") if row["name"] == "app"] == [1],
               what="the PAUSE")
    assert client.value(look) == seen
    assert client.value(PID) == pid
    client.query(end)
    assert not console.read_result().errors
    weir.admin("RESUME")
    assert client.value("SELECT 1") == "1"


def test_reconnect_replaces_the_server_when_it_is_free(start, stay):
    make, look, seen, end = stay
    weir = start()
    client = weir.client()
    client.query(make)
    pid = client.value(PID)
    weir.admin("RECONNECT")
    assert client.value(look) == seen
    assert client.value(PID) == pid
    client.query(end)
    assert client.value(PID) != pid


def test_drain_disconnects_the_client(start, stay):
    weir = start()
    client = weir.client()
    client.query(stay[0])
    client.value(PID)
    console = weir.console()
    console.send(query("DRAIN"))
    assert client.read_refusal().sqlstate == "57P01"
    client.close()
    assert not console.read_result().errors


def test_kill_frees_the_server(start, stay):
    make, look, _, _ = stay
    weir = start(servers=1)
    client, other = weir.client(), weir.client()
    client.query(make)
    pid = client.value(PID)
    (row,) = weir.admin("SHOW PINNED")
    weir.admin(f"KILL_CLIENT {row['id']}")
    client.read_refusal()
    client.close()
    assert other.value(PID) == pid
    result = other.query(look)
    assert result.errors or result.rows == [["0"]]
    assert weir.admin("SHOW PINNED") == []


def test_take_over_within_a_transaction(start, stay):
    """What the transaction adds or ends is known in the new process."""
    make, look, seen, end = stay
    weir = start()
    client, other = weir.client(), weir.client()
    client.query(make)
    client.query("BEGIN")
    client.query("CREATE TEMP TABLE more AS SELECT 7 AS seven")
    pid = client.value(PID)
    weir.disconnect_console()
    assert weir.take_over().wait(15) == 0
    assert client.value(look) == seen
    client.query("COMMIT")
    assert client.value("SELECT seven FROM more") == "7"
    assert (client.value(PID), other.value(PID) == pid) == (pid, False)
    client.query(end)
    client.query("DROP TABLE more")
    client.value(PID)
    assert weir.admin("SHOW PINNED") == []


# -- servers that stay for lastval() ----------------------------------------------------------------


def test_pause_does_not_wait_for_lastval(start):
    weir = start()
    client, value = hold(weir)
    weir.admin("PAUSE")
    weir.admin("RESUME")
    assert lastval(client) in (value, UNKNOWN)


def test_reconnect_and_lastval(start):
    weir = start()
    client, value = hold(weir)
    weir.admin("RECONNECT")
    assert lastval(client) in (value, UNKNOWN)
    assert lastval(client) in (value, UNKNOWN)


def test_drain_disconnects_who_may_ask_for_lastval(start):
    weir = start()
    client, _ = hold(weir)
    console = weir.console()
    console.send(query("DRAIN"))
    assert client.read_refusal().sqlstate == "57P01"
    client.close()
    assert not console.read_result().errors


@pytest.mark.parametrize("servers", (1, 3))
def test_take_over_and_lastval(start, servers):
    """Nobody gets the value of another, and within a transaction each gets its own."""
    weir = start(servers=servers)
    client, value = hold(weir)
    others = [weir.client() for _ in range(servers + 1)]
    for other in others:
        other.query(NEXT)
    late = client.value(NEXT)
    weir.disconnect_console()
    assert weir.take_over().wait(15) == 0
    assert value != late
    for other in others[:-1]:
        other.query("BEGIN")
        value = other.value(NEXT)
        assert lastval(other) == value
        other.query("COMMIT")
    assert lastval(others[-1]) == UNKNOWN
    assert lastval(client) in (late, UNKNOWN)
    for _ in range(3):
        own = [(each, each.value(NEXT), lastval(each)) for each in (client, *others)]
        assert all(seen == number for _, number, seen in own)


# -- other settings ---------------------------------------------------------------------------------


def test_late_begin_with_state(start, stay):
    make, look, seen, end = stay
    weir = start(late_begin=1)
    client, other = weir.client(), weir.client()
    client.query("BEGIN")
    client.query(make)
    client.query("SET work_mem = '77MB'")
    client.query("COMMIT")
    pid = client.value(PID)
    for _ in range(2):
        client.query("BEGIN")
        assert client.value(look) == seen
        client.query("COMMIT")
        assert other.value(PID) != pid
    assert client.value("SHOW work_mem") == "77MB"
    assert other.value("SHOW work_mem") != "77MB"
    client.query("BEGIN")
    client.query(end)
    client.query("ROLLBACK")
    client.query(end)
    client.value(PID)
    assert weir.admin("SHOW PINNED") == []


@pytest.mark.parametrize("count", (0, 2))
def test_few_prepared_statements(start, stay, count):
    make, look, seen, end = stay
    weir = start(max_prepared_statements=count)
    client, other = weir.client(), weir.client()

    def run(text):
        return client.ask(parse(text), bind(), execute(), sync())

    run("SET work_mem = '77MB'")
    run(make)
    for number in range(4):
        assert run(look).rows == [[seen]]
        assert run(f"SELECT {number}").rows == [[str(number)]]
        assert other.value("SHOW work_mem") != "77MB"
    assert run("SHOW work_mem").rows == [["77MB"]]
    run(end)
    client.value(PID)
    assert weir.admin("SHOW PINNED") == []
