# SPDX-License-Identifier: ISC
"""A statement that would make one server too many stay, within a transaction: it waits with its
server until another one is free (max_pinned_servers). test_session_state.py has those that are the
first of their transaction, and wait without a server."""

import pytest

from .kit.wait import wait_until
from .kit.wire import bind, execute, parse, query, send_cancel, sync

CREATE = "CREATE TEMP TABLE mine (a int)"
LOCK = "SELECT pg_advisory_lock(1), pg_advisory_unlock(1)"
PID = "SELECT pg_backend_pid()"


@pytest.fixture
def start(pgweir):
    def start(servers=3, pins=1, before=(), **settings):
        weir = pgweir(pool_mode="transaction", default_pool_size=servers, max_pinned_servers=pins,
                      **settings)
        first, second = [weir.client(application_name=name) for name in ("first", "second")]
        for part in before:
            assert not second.ask(part).errors
        weir.second = second
        first.query(CREATE)
        return weir, first
    return start


def begin(weir, *messages, name="second"):
    """A client that waits for a place, in a transaction."""
    client = weir.client(application_name=name)
    client.query("BEGIN")
    client.query("SELECT 1")
    for message in messages or [query(CREATE)]:
        client.send(message)
    return client


def waiting(weir, *names):
    """The rows of SHOW WAITING, when these clients wait for a place."""
    def rows():
        found = weir.admin("SHOW WAITING")
        who = [(row["application_name"], row["reason"]) for row in found]
        return (found,) if who == [(name, "pinned") for name in names] else None
    return wait_until(rows, what=f"{names} to wait")[0]


MESSAGES = {
    "simple": ([], query(CREATE)),
    "extended": ([], parse(CREATE) + bind() + execute() + sync()),
    "named": ([parse(CREATE, "s") + sync()], bind(name="s") + execute() + sync()),
    "of SQL": ([query(f"PREPARE s AS {LOCK}")], query("EXECUTE s")),
    "of SQL, extended": ([query(f"PREPARE s AS {LOCK}")],
                         parse("EXECUTE s") + bind() + execute() + sync()),
    "of SQL, named": ([query(f"PREPARE s AS {LOCK}"), parse("EXECUTE s", "e") + sync()],
                      bind(name="e") + execute() + sync()),
    "a cursor": ([], query("DECLARE c CURSOR WITH HOLD FOR SELECT 1")),
    "several": ([], query("SELECT 1") + query("SELECT 2") + query(CREATE)),
}


@pytest.mark.parametrize("loops", (1, 2))
@pytest.mark.parametrize("says", MESSAGES)
def test_it_waits_with_its_server(start, says, loops):
    before, message = MESSAGES[says]
    weir, first = start(loops=loops, before=before)
    second, other = weir.second, weir.client()
    second.query("BEGIN")
    pid = second.value(PID)
    second.send(message)
    (row,) = waiting(weir, "second")
    assert row["detail"].endswith(" servers stay with clients: SHOW PINNED")
    assert weir.pool()["cl_waiting"] == 1
    assert other.value("SELECT 1") == "1"
    first.query("DROP TABLE mine")
    results = [second.read_result() for _ in range(message.count(b"Q\0") or 1)]
    assert not [error for result in results for error in result.errors]
    assert second.value(PID) == pid
    assert second.query("COMMIT").tags == ["COMMIT"]
    waiting(weir)


def test_the_place_is_its_own_then(start):
    weir, first = start()
    second = begin(weir)
    waiting(weir, "second")
    first.close()
    assert second.read_result().tags == ["CREATE TABLE"]
    second.query("COMMIT")
    wait_until(lambda: [row["application_name"] for row in weir.admin("SHOW PINNED")] == ["second"])
    assert second.query("SELECT * FROM mine").tags == ["SELECT 0"]


def test_a_place_that_it_did_not_need_is_free_again(start):
    weir, first = start()
    for _ in range(3):
        second = begin(weir, query(LOCK))
        waiting(weir, "second")
        first.query("DROP TABLE mine")
        assert second.read_result().error is None
        first.send(query(CREATE))
        waiting(weir, "first")  # until the transaction's end: only then it is known
        second.query("COMMIT")
        assert first.read_result().tags == ["CREATE TABLE"]
    wait_until(lambda: len(weir.admin("SHOW PINNED")) == 1)


def test_it_is_refused_after_query_wait_timeout(start):
    weir, first = start(query_wait_timeout=1)
    for message in (query(CREATE), parse(CREATE) + bind() + execute() + sync()):
        second = begin(weir, message)
        error = second.read_result().error
        assert error["C"] == "53300" and "max_pinned_servers" in error["M"]
        assert error["D"].startswith("Servers of this pool that stay with clients: 1 of 1.")
        assert second.query("SELECT 1").error["C"] == "25P02"
        assert second.query(CREATE).error["C"] == "25P02"  # without another wait
        second.query("ROLLBACK")
        assert second.value("SELECT 1") == "1"
    assert first.query("SELECT * FROM mine").tags == ["SELECT 0"]


def test_without_any_place_it_is_refused_at_once(pgweir):
    weir = pgweir(pool_mode="transaction", max_pinned_servers=0)
    client = begin(weir)
    assert client.read_result().error["C"] == "53300"
    client.query("ROLLBACK")
    assert client.value("SELECT 1") == "1"


@pytest.mark.one_loop("each loop has a queue of its own")
def test_those_who_came_first_are_served_first(start):
    """With and without a server."""
    weir, first = start(servers=5)
    second = begin(weir, query(LOCK))
    waiting(weir, "second")
    third = weir.client(application_name="third")
    third.send(query(LOCK))
    waiting(weir, "third", "second")
    fourth = begin(weir, query(LOCK), name="fourth")
    waiting(weir, "third", "second", "fourth")
    first.query("DROP TABLE mine")
    assert second.read_result().error is None
    waiting(weir, "third", "fourth")
    second.query("COMMIT")
    assert third.read_result().error is None
    assert fourth.read_result().error is None


@pytest.mark.parametrize("message", (query(CREATE), parse(CREATE) + bind() + execute() + sync()))
def test_it_can_be_canceled(start, message):
    weir, first = start()
    second = begin(weir, message)
    waiting(weir, "second")
    send_cancel(weir.address, second.key)
    assert second.read_result().error["C"] == "57014"
    assert second.query("SELECT 1").error["C"] == "25P02"
    second.query("ROLLBACK")
    first.query("DROP TABLE mine")
    assert second.query(CREATE).tags == ["CREATE TABLE"]


def test_its_client_may_leave(start):
    weir, first = start()
    second = begin(weir)
    waiting(weir, "second")
    second.close()
    waiting(weir)
    third = begin(weir, name="third")
    waiting(weir, "third")
    first.query("DROP TABLE mine")
    assert third.read_result().tags == ["CREATE TABLE"]


def test_its_server_may_fail(start, postgres):
    weir, first = start()
    second = weir.client(application_name="second")
    second.query("BEGIN")
    pid = second.value(PID)
    second.send(query(CREATE))
    waiting(weir, "second")
    postgres.query(f"SELECT pg_terminate_backend({pid})")
    assert second.read_refusal().sqlstate in ("57P01", "08006")
    waiting(weir)
    first.query("DROP TABLE mine")
    wait_until(lambda: not weir.admin("SHOW PINNED"))
    assert weir.client().query(CREATE).tags == ["CREATE TABLE"]


def test_what_failed_already_does_not_wait(start):
    """A Bind whose Parse has failed: its Sync is what the client waits for."""
    weir, _ = start()
    second = weir.client()
    second.query("BEGIN")
    lock = parse("SELECT pg_advisory_lock(nothing)") + bind() + execute() + sync()
    assert second.ask(lock).error["C"] == "42703"
    assert second.ask(lock).error["C"] == "25P02"


def test_it_works_on_in_pause(start):
    """PAUSE waits for the transaction, and so nobody without a server may take the place."""
    weir, first = start()
    third = weir.client(application_name="third")
    third.send(query(LOCK))
    waiting(weir, "third")
    second = begin(weir, query(LOCK))
    waiting(weir, "third", "second")
    console = weir.console()
    console.send(query("PAUSE"))
    wait_until(lambda: [row["reason"] for row in weir.admin("SHOW WAITING")] == ["paused", "pinned"])
    first.query("DROP TABLE mine")
    assert second.read_result().error is None
    second.query("COMMIT")
    assert console.read_result().tags == ["PAUSE"]
    console.query("RESUME")
    assert third.read_result().error is None


def test_a_larger_limit_ends_it(start):
    weir, first = start()
    second = begin(weir)
    waiting(weir, "second")
    weir.admin("SET max_pinned_servers = 2")
    assert second.read_result().tags == ["CREATE TABLE"]
    third = begin(weir, name="third")
    waiting(weir, "third")
    weir.admin("SET query_wait_timeout = 1")
    assert third.read_result().error["C"] == "53300"


def test_it_can_be_killed(start):
    weir, first = start()
    second = begin(weir)
    weir.admin(f"KILL_CLIENT {waiting(weir, 'second')[0]['id']}")
    second.wait_closed()
    waiting(weir)
    third = begin(weir, name="third")
    waiting(weir, "third")
    weir.admin("KILL app")
    third.wait_closed()
    assert weir.admin("SHOW WAITING") == []


def test_drain_waits_for_it(start):
    weir, first = start()
    second = begin(weir, query(LOCK))
    waiting(weir, "second")
    console = weir.console()
    console.send(query("DRAIN"))
    first.wait_closed()
    assert second.read_result().error is None
    second.query("COMMIT")
    second.wait_closed()


def test_it_passes_to_a_new_process(make_pgweir):
    """The other one may pass after it: until then, the new process has a place for it."""
    weir = make_pgweir(pool_mode="transaction", default_pool_size=3, max_pinned_servers=1)
    weir.start()
    first = weir.client()
    first.query(CREATE)
    second = begin(weir)
    waiting(weir, "second")
    weir.disconnect_console()
    assert weir.take_over().wait(30) == 0
    first.query("DROP TABLE mine")
    assert second.read_result().tags == ["CREATE TABLE"]
    assert second.query("COMMIT").tags == ["COMMIT"]
    wait_until(lambda: [row["application_name"] for row in weir.admin("SHOW PINNED")] == ["second"])


# -- nobody is blamed for another ------------------------------------------------------------------


REPORT = """CREATE OR REPLACE FUNCTION prepare_report() RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN CREATE TEMP TABLE report_tmp (a int); RETURN 1; END $$"""


@pytest.mark.parametrize("isolation", ("known", "strict"))
@pytest.mark.parametrize("victim", (
    [f"{CREATE}; DROP TABLE mine"], [CREATE, "DROP TABLE mine"],
    ["BEGIN", CREATE, "DROP TABLE mine", "COMMIT"], [LOCK],
    ["CREATE TEMP TABLE mine (a int) ON COMMIT DROP"],
    ["DECLARE c CURSOR WITH HOLD FOR SELECT 1", "CLOSE c"]),
    ids=("one text", "two", "a transaction", "a lock", "ON COMMIT DROP", "a cursor"))
def test_a_client_is_not_pinned_by_what_a_function_of_another_has_left(pgweir, postgres, isolation,
                                                                       victim):
    postgres.query(REPORT)
    weir = pgweir(pool_mode="transaction", default_pool_size=4, session_sample=0,
                  session_isolation=isolation)
    makers, victims = [[weir.client() for _ in range(count)] for count in (4, 3)]
    for maker in makers:  # each on a server of its own
        maker.query("BEGIN")
        maker.query("SELECT 1")
    for maker in makers:
        assert maker.query("SELECT prepare_report()").rows == [["1"]]
        maker.query("COMMIT")
    # The catalog says what the function may do, so its own client keeps what it has made.
    wait_until(lambda: [row["objects"] for row in weir.admin("SHOW PINNED")] ==
               ["temporary table report_tmp"] * 4)
    for maker in makers:
        maker.close()
    for client in victims:
        for text in victim:
            assert not client.query(text).errors
        wait_until(lambda: not weir.admin("SHOW PINNED"))
        assert client.value("SELECT to_regclass('report_tmp') IS NULL") == "t"
    for _ in range(8):
        assert weir.client().value("SELECT 1") == "1"


def test_who_waits_for_pinned_servers_is_told_so(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=4, query_wait_timeout=1)
    keepers, fourth, web = [weir.client() for _ in range(3)], weir.client(), weir.client()
    for keeper in keepers:
        keeper.query(CREATE)
    fourth.query("BEGIN")
    fourth.query("SELECT 1")
    web.send(query("SELECT 1"))
    wait_until(lambda: [row["reason"] for row in weir.admin("SHOW WAITING")] == ["pool full"])
    assert "; 3 of 4 servers stay with clients: SHOW PINNED; longest held by" in \
        weir.admin("SHOW WAITING")[0]["detail"]
    (error,) = [got.fields for got in web.read_to_end() if got.type == "E"]
    assert "3 of 4 servers stay with clients: SHOW PINNED" in error["D"]
    assert "SHOW PINNED" in error["H"]


def test_who_is_refused_for_pinned_servers_is_told_so(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, max_waiting=1)
    keeper, first, second = (weir.client() for _ in range(3))
    keeper.query(CREATE)
    first.send(query("SELECT 1"))
    wait_until(lambda: weir.admin("SHOW WAITING"))
    second.send(query("SELECT 1"))
    assert second.read_result().error["D"].endswith(
        " s; 1 of 1 servers stay with clients: SHOW PINNED.")


def test_behind_the_end_of_a_failed_block(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=3, max_pinned_servers=1, query_wait_timeout=1)
    clients = [weir.client(), weir.client()]
    for client in clients:
        client.query("BEGIN")
        client.query("SELECT 1/0")
    text = "ROLLBACK; CREATE TEMP TABLE mine (a int)"
    assert clients[0].query(text).tags == ["ROLLBACK", "CREATE TABLE"]
    assert clients[1].query("CREATE TEMP TABLE mine (a int)").error["C"] == "25P02"
    assert clients[1].query(text).error["C"] == "53300"
    assert clients[1].query("ROLLBACK").tags == ["ROLLBACK"]
    assert len(weir.admin("SHOW PINNED")) == 1
