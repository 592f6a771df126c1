# SPDX-License-Identifier: ISC
"""Pooling: sizes, limits, the wait queue, and the age of servers."""

import pytest

from .kit import fake
from .kit.daemon import USERS
from .kit.wait import wait_until
from .kit.wire import Wire, bind, describe, execute, parse, query, refusal, sync

PID = "SELECT pg_backend_pid()"


def busy(weir, user="alice", database="app"):
    """A client that holds its server in a transaction."""
    client = weir.client(user, database)
    assert client.query("BEGIN").status == "T"
    return client


def queue_up(weir, clients, sql="SELECT 'served'", **pool):
    """Lets the clients send queries one after the other, so that their order in the queue is known.
    """
    start = weir.pool(**pool)["cl_waiting"]
    for place, client in enumerate(clients, start + 1):
        client.send(query(sql))
        weir.wait_pool(cl_waiting=place, **pool)


# -- sizes ----------------------------------------------------------------------------------------


def test_pool_size_is_a_limit(pgweir, postgres):
    weir = pgweir(pool_mode="transaction", default_pool_size=3)
    holders = [busy(weir) for _ in range(3)]
    waiter = weir.client()
    queue_up(weir, [waiter])
    assert len(postgres.backends("alice")) == 3
    assert weir.pool()["sv_active"] == 3
    holders[0].query("COMMIT")
    assert waiter.read_result().rows == [["served"]]


@pytest.mark.parametrize("where", ("database", "user"))
def test_pool_size_of_an_entry(pgweir, where):
    entry = {"databases": {"app": "pool_size=1", "app2": ""}} if where == "database" else \
        {"users": {"alice": "pool_size=1"}}
    weir = pgweir(pool_mode="transaction", default_pool_size=2, **entry)
    holder, waiter = busy(weir), weir.client()
    queue_up(weir, [waiter])
    holder.query("COMMIT")
    assert waiter.read_result().rows == [["served"]]
    # Others have the default.
    other = ("alice", "app2") if where == "database" else ("bob", "app")
    busy(weir, *other), busy(weir, *other)


def test_users_size_beats_the_databases(pgweir):
    weir = pgweir(pool_mode="transaction", databases={"app": "pool_size=1"},
                  users={"alice": "pool_size=2"})
    busy(weir), busy(weir)
    queue_up(weir, [weir.client()])


def test_zero_is_no_limit(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=0)
    for _ in range(30):
        busy(weir)
    assert weir.pool()["sv_active"] == 30


def test_pools_are_for_a_database_and_a_user(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    pids = {busy(weir, user, database).value(PID)
            for user in ("alice", "bob") for database in ("app", "app2")}
    assert len(pids) == 4


def test_a_forced_user_has_one_pool_for_all(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, databases={"app": "user=carol"})
    pids = {weir.client(user).value(PID) for user in ("alice", "bob", "carol")}
    assert len(pids) == 1
    assert weir.pool("app", "carol")["sv_idle"] == 1
    users = sorted(row["user"] for row in weir.admin("SHOW CLIENTS") if row["database"] == "app")
    assert users == ["alice", "bob", "carol"]


@pytest.mark.parametrize("where", ("global", "database", "user"))
def test_pool_mode_of_an_entry(pgweir, where):
    """Two clients share the one server only if the mode is transaction."""
    settings = {"global": {"pool_mode": "transaction"},
                "database": {"databases": {"app": "pool_mode=transaction"}},
                "user": {"databases": {"app": "pool_mode=session"},
                         "users": {"alice": "pool_mode=transaction"}}}[where]
    weir = pgweir(default_pool_size=1, **settings)
    first, second = weir.client(), weir.client()
    assert first.value(PID) == second.value(PID)
    assert weir.pool()["pool_mode"] == "transaction"


def test_session_mode_links_at_the_first_query_only(pgweir):
    weir = pgweir(pool_mode="session", default_pool_size=1)
    idle = [weir.client() for _ in range(5)]
    assert weir.client().value("SELECT 1") == "1"
    assert len(idle) == 5


def test_min_pool_size(pgweir, postgres):
    weir = pgweir(pool_mode="transaction", min_pool_size=3, default_pool_size=5)
    weir.client()
    weir.wait_pool(sv_idle=3)
    lost = postgres.backends("alice")[0]
    postgres.query("SELECT pg_terminate_backend(%s, 5000)", lost)
    wait_until(lambda: len(postgres.backends("alice")) == 3)
    weir.wait_pool(sv_idle=3)
    assert lost not in postgres.backends("alice")


def test_min_pool_size_needs_no_client_with_a_forced_user(pgweir):
    weir = pgweir(databases={"app": "user=bob min_pool_size=2"})
    weir.wait_pool("app", "bob", sv_idle=2)


def test_min_pool_size_is_capped_by_the_pools_size(pgweir):
    weir = pgweir(pool_mode="transaction", min_pool_size=10, default_pool_size=2)
    weir.client()
    weir.wait_pool(sv_idle=2)
    assert weir.client().value("SELECT 1") == "1"
    assert weir.pool()["sv_idle"] == 2


def test_reserve_pool(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, reserve_pool_size=1,
                  reserve_pool_timeout="0.3")
    holder, waiter, third = busy(weir), weir.client(), weir.client()
    waiter.send(query("BEGIN"))
    assert waiter.read_result().tags == ["BEGIN"]
    weir.wait_log("taking connection from reserve_pool")
    queue_up(weir, [third])
    assert weir.pool()["sv_active"] == 2
    holder.query("COMMIT")
    third.read_result()


def test_no_reserve_without_a_reserve_timeout(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, reserve_pool_size=5,
                  reserve_pool_timeout="0", query_wait_timeout="0.7")
    holder, waiter = busy(weir), weir.client()
    waiter.send(query("SELECT 1"))
    assert waiter.read_refusal().text == "query_wait_timeout"
    holder.query("COMMIT")


# -- the wait queue -------------------------------------------------------------------------------


@pytest.mark.one_loop("each loop has a queue of its own")
def test_first_come_first_served(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, session_state="off")
    holder = busy(weir)
    holder.query("CREATE TEMP SEQUENCE turn; COMMIT; BEGIN")
    clients = [weir.client() for _ in range(10)]
    queue_up(weir, clients, "SELECT nextval('pg_temp.turn')")
    holder.query("COMMIT")
    assert [client.read_result().rows[0][0] for client in clients] == \
        [str(number) for number in range(1, 11)]


def test_a_returning_client_stands_at_the_end(pgweir):
    """A client that sends queries without pause must not starve the others."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter = busy(weir), weir.client()
    queue_up(weir, [waiter])
    holder.send(query("COMMIT"), query("SELECT 'greedy'"))
    assert holder.read_result().tags == ["COMMIT"]
    assert waiter.read_result().rows == [["served"]]
    assert holder.read_result().rows == [["greedy"]]


def test_maxwait_is_that_of_the_oldest(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter = busy(weir), weir.client()
    queue_up(weir, [waiter])
    wait_until(lambda: weir.pool()["maxwait"] >= 1)
    holder.query("COMMIT")
    waiter.read_result()
    row = weir.wait_pool(cl_waiting=0)
    assert (row["maxwait"], row["maxwait_us"]) == (0, 0)


def test_query_wait_timeout(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, query_wait_timeout="0.3")
    holder, waiter = busy(weir), weir.client()
    waiter.send(query("SELECT 1"))
    refused = waiter.read_refusal()
    assert (refused.sqlstate, refused.text) == ("53300", "query_wait_timeout")
    assert holder.query("COMMIT").tags == ["COMMIT"]


@pytest.mark.parametrize("where", ("database", "user"))
def test_query_wait_timeout_of_an_entry(pgweir, where):
    entry = {"databases": {"app": "query_wait_timeout=1"}} if where == "database" else \
        {"users": {"alice": "query_wait_timeout=1"}}
    weir = pgweir(pool_mode="transaction", default_pool_size=1, query_wait_timeout="0", **entry)
    holder, waiter = busy(weir), weir.client()
    waiter.send(query("SELECT 1"))
    assert waiter.read_refusal().text == "query_wait_timeout"
    holder.query("COMMIT")


def test_query_wait_notify(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, query_wait_notify=1)
    holder, waiter = busy(weir), weir.client()
    waiter.send(query("SELECT 'patient'"))
    said = waiter.expect("N").fields
    assert (said["S"], said["C"]) == ("NOTICE", "00000")
    assert said["M"] == "No server connection available in postgres backend, client being queued"
    holder.query("COMMIT")
    result = waiter.read_result()
    assert result.rows == [["patient"]]
    assert not result.notices


# -- limits over pools ----------------------------------------------------------------------------


@pytest.mark.parametrize("where", ("global", "entry"))
def test_max_db_connections(pgweir, postgres, where):
    settings = {"max_db_connections": 2} if where == "global" else \
        {"databases": {"app": "max_db_connections=2", "app2": ""}}
    weir = pgweir(pool_mode="transaction", **settings)
    first, _second = busy(weir, "alice"), busy(weir, "bob")
    waiter = weir.wire().startup("carol")
    weir.wait_pool("app", "carol", cl_waiting=1)
    assert len(postgres.backends(dbname="app")) == 2
    busy(weir, "alice", "app2")
    # An idle server of another pool is closed to make room.
    first.query("COMMIT")
    waiter.finish_login("carol")
    assert waiter.value("SELECT current_user") == "carol"
    weir.wait_log("closing because: evicted for max_db_connections")


@pytest.mark.one_loop("the first loop that has an idle server closes it")
def test_max_db_connections_evicts_the_longest_unused(pgweir, postgres):
    weir = pgweir(pool_mode="transaction", max_db_connections=2)
    clients = {user: weir.client(user) for user in ("alice", "bob")}
    for client in clients.values():
        client.query("SELECT 1")
    assert weir.client("carol").value("SELECT 1") == "1"
    wait_until(lambda: not postgres.backends("alice"))
    assert postgres.backends("bob")


@pytest.mark.parametrize("where", ("global", "entry"))
def test_max_user_connections(pgweir, postgres, where):
    settings = {"max_user_connections": 2} if where == "global" else \
        {"users": {"alice": "max_user_connections=2"}}
    weir = pgweir(pool_mode="transaction", **settings)
    first, _second = busy(weir, "alice", "app"), busy(weir, "alice", "app2")
    waiter = weir.wire().startup("alice", "app3")
    weir.wait_pool("app3", "alice", cl_waiting=1)
    assert len(postgres.backends("alice")) == 2
    first.query("COMMIT")
    waiter.finish_login("alice")
    assert waiter.value("SELECT current_database()") == "app3"
    weir.wait_log("closing because: evicted for max_user_connections")


def test_max_client_conn(pgweir):
    weir = pgweir(max_client_conn=3)
    clients = [weir.client() for _ in range(3)]
    refused = refusal(weir.address)
    assert (refused.sqlstate, refused.text) == \
        ("53300", "no more connections allowed (max_client_conn)")
    # Console users can log in nevertheless.
    weir.console().close()
    for client in clients:
        client.close()
    wait_until(lambda: lets_in(weir))


def limit_of(weir, name, **wanted):
    (row,) = [row for row in weir.admin("SHOW LIMITS") if row["limit"] == name
              and all(row[key] == value for key, value in wanted.items())]
    return row["value"], row["used"], row["hits"]


def test_consoles_take_no_place(pgweir):
    weir = pgweir(max_client_conn=2)
    consoles = [weir.console(user) for user in ("admin", "stats", "admin")]
    silent = [weir.wire() for _ in range(3)]  # their database is not known yet
    weir.client(), weir.client()
    assert limit_of(weir, "max_client_conn") == (2, 2, 0)
    assert refusal(weir.address).text == "no more connections allowed (max_client_conn)"
    assert limit_of(weir, "max_client_conn") == (2, 2, 1)
    assert all(console.query("SHOW VERSION").tags for console in consoles)
    assert all(not wire.is_closed() for wire in silent)


def test_a_failed_login_gives_its_place_back(pgweir):
    weir = pgweir(max_client_conn=2, auth_type="scram-sha-256", auth_failure_delay=0)
    for _ in range(5):
        assert refusal(weir.address, "scram_user", password="wrong").sqlstate == "28P01"
    wait_until(lambda: limit_of(weir, "max_client_conn") == (2, 0, 0))


def test_administrators_are_exempt_at_the_console_only(pgweir):
    weir = pgweir(max_user_client_connections=1, max_db_client_connections=2)
    consoles = [weir.console() for _ in range(3)]
    weir.wire().login("bob", "app"), weir.wire().login("carol", "app")
    refused = refusal(weir.address, "admin", "app", USERS["admin"])
    assert refused.text == "client connections exceeded (max_db_client_connections)"
    weir.wire().login("alice", "app2")
    assert refusal(weir.address, "alice", "app3").text == \
        "client connections exceeded (max_user_client_connections)"
    assert limit_of(weir, "max_user_client_connections", user="admin") == (1, 0, 0)
    assert limit_of(weir, "max_db_client_connections", database="app") == (2, 2, 1)
    for console in consoles:
        console.close()


def test_an_administrator_elsewhere_is_as_anybody(pgweir, postgres):
    postgres.query("DO $$ BEGIN CREATE ROLE admin LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
    weir = pgweir(max_user_client_connections=1)
    weir.console(), weir.console()
    weir.wire().login("admin", "app", USERS["admin"])
    assert refusal(weir.address, "admin", "app2", USERS["admin"]).text == \
        "client connections exceeded (max_user_client_connections)"
    assert limit_of(weir, "max_user_client_connections", user="admin") == (1, 1, 1)
    weir.console()


def test_stats_users_count_at_the_console(pgweir):
    weir = pgweir(max_db_client_connections=1)
    weir.console(), weir.console()
    stats = weir.console("stats")
    assert limit_of(weir, "max_db_client_connections", database="pgbouncer") == (1, 1, 0)
    assert refusal(weir.address, "stats", "pgbouncer", USERS["stats"]).text == \
        "client connections exceeded (max_db_client_connections)"
    assert limit_of(weir, "max_db_client_connections", database="pgbouncer") == (1, 1, 1)
    weir.client()  # of another database
    stats.close()
    wait_until(lambda: limit_of(weir, "max_db_client_connections", database="pgbouncer")[1] == 0)
    weir.console("stats")


def lets_in(weir, **kw):
    from .kit.wire import Refused
    try:
        Wire(weir.address).login(**kw).close()
        return True
    except Refused:
        return False


@pytest.mark.parametrize("where", ("global", "entry"))
def test_max_db_client_connections(pgweir, where):
    settings = {"max_db_client_connections": 2} if where == "global" else \
        {"databases": {"app": "max_db_client_connections=2", "app2": ""}}
    weir = pgweir(**settings)
    weir.client(), weir.client("bob")
    refused = refusal(weir.address)
    assert (refused.sqlstate, refused.text) == \
        ("53300", "client connections exceeded (max_db_client_connections)")
    weir.client(database="app2")
    weir.console()


@pytest.mark.parametrize("where", ("global", "entry"))
def test_max_user_client_connections(pgweir, where):
    settings = {"max_user_client_connections": 2} if where == "global" else \
        {"users": {"alice": "max_user_client_connections=2"}}
    weir = pgweir(**settings)
    weir.client(), weir.client(database="app2")
    refused = refusal(weir.address)
    assert (refused.sqlstate, refused.text) == \
        ("53300", "client connections exceeded (max_user_client_connections)")
    weir.client("bob")


def test_users_client_limit_counts_only_who_is_there(pgweir):
    weir = pgweir(max_user_client_connections=2)
    for _ in range(10):
        first, second = weir.client(), weir.client()
        first.close(), second.close()
        wait_until(lambda: lets_in(weir))
        weir.wait_pool(cl_active=0)


# -- choice and age of servers --------------------------------------------------------------------


def warm(weir, count):
    """Opens idle servers; returns the backend ids in the order in which they became idle."""
    holders = [busy(weir) for _ in range(count)]
    pids = [holder.value(PID) for holder in holders]
    for returned, holder in enumerate(holders, 1):
        holder.query("COMMIT")
        weir.wait_pool(sv_idle=returned)
    return pids


@pytest.mark.one_loop("the order of idle servers is that of one loop")
def test_last_in_first_out(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=3)
    pids = warm(weir, 3)
    client = weir.client()
    assert {client.value(PID) for _ in range(6)} == {pids[-1]}


@pytest.mark.one_loop("the order of idle servers is that of one loop")
def test_round_robin(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=3, server_round_robin=1)
    pids = warm(weir, 3)
    client = weir.client()
    assert [client.value(PID) for _ in range(6)] == pids * 2


def test_server_lifetime(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, server_lifetime="0.3")
    client = weir.client()
    before = client.value(PID)
    wait_until(lambda: client.value(PID) != before)
    weir.wait_log("server lifetime over")


def test_server_lifetime_never_cuts_a_transaction(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, server_lifetime="0.1")
    client = busy(weir)
    before = client.value(PID)
    client.query("SELECT pg_sleep(1)")
    assert client.value(PID) == before
    client.query("COMMIT")


def test_server_lifetime_zero_is_single_use(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, server_lifetime="0")
    client = weir.client()
    pids = [client.value(PID) for _ in range(4)]
    assert len(set(pids)) == 4


def test_server_idle_timeout(pgweir):
    weir = pgweir(pool_mode="transaction", server_idle_timeout="0.3")
    client = weir.client()
    client.value(PID)
    weir.wait_pool(sv_idle=0, sv_used=0)
    weir.wait_log("server idle timeout")


@pytest.mark.one_loop("a client of another loop opens a server")
def test_server_idle_timeout_keeps_min_pool_size(pgweir):
    weir = pgweir(pool_mode="transaction", min_pool_size=1)
    warm(weir, 3)
    weir.reload(server_idle_timeout="0.2")
    weir.wait_pool(sv_idle=1)
    weir.client().value(PID)
    assert weir.pool()["sv_idle"] == 1


def test_shrinking_a_pool(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=4)
    warm(weir, 4)
    weir.reload(default_pool_size=1)
    weir.wait_pool(sv_idle=1)
    weir.wait_log("too many servers in the pool")


# -- check and reset ------------------------------------------------------------------------------


def serve(server, client, sql="SELECT 1"):
    client.send(query(sql))
    assert server.expect("Q").body == sql.encode() + b"\0"
    server.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]


def test_check_query_after_every_use(scripted):
    weir, client, server = scripted(server_check_delay="0", server_check_query="SELECT 'alive'")
    serve_after_check(server, client, b"SELECT 'alive'\0")
    serve_after_check(server, client, b"SELECT 'alive'\0")


def serve_after_check(server, client, check):
    client.send(query("SELECT 1"))
    got = server.expect("Q")
    if got.body == check:
        server.send(fake.answer("alive"))
        got = server.expect("Q")
    assert got.body == b"SELECT 1\0"
    server.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]


def test_the_default_check_query_is_the_empty_one(scripted):
    weir, client, server = scripted(server_check_delay="0.2")
    serve(server, client)
    weir.wait_pool(sv_used=1)
    client.send(query("SELECT 2"))
    assert server.expect("Q").body.strip(b"; \0") == b""
    server.send(fake.message("I"), fake.ready())
    assert server.expect("Q").body == b"SELECT 2\0"
    server.send(fake.answer("2"))
    assert client.read_result().rows == [["2"]]


def test_a_server_that_fails_its_check_is_replaced(scripted):
    weir, client, server = scripted(server_check_delay="0.2", server_login_retry="0.1")
    serve(server, client)
    weir.wait_pool(sv_used=1)
    client.send(query("SELECT 2"))
    server.expect("Q")
    server.close()
    server = weir.far.accept().login()
    assert server.expect("Q").body == b"SELECT 2\0"
    server.send(fake.answer("2"))
    assert client.read_result().rows == [["2"]]


def test_no_check_with_an_empty_check_query(scripted):
    weir, client, server = scripted(server_check_delay="0.1", server_check_query="")
    serve(server, client)
    serve(server, client)


def test_reset_query_in_session_mode(scripted):
    weir, client, server = scripted(pool_mode="session", default_pool_size=1)
    serve(server, client)
    client.close()
    assert server.expect("Q").body == b"DISCARD ALL\0"
    weir.wait_pool(sv_tested=1)
    server.send(fake.complete("DISCARD ALL"), fake.ready())
    weir.wait_pool(sv_idle=1)
    serve(server, weir.client())


def test_nobody_gets_a_server_whose_reset_is_not_done(scripted):
    weir, client, server = scripted(pool_mode="session", default_pool_size=1)
    serve(server, client)
    client.close()
    server.expect("Q")
    late = weir.client()
    late.send(query("SELECT 2"))
    weir.wait_pool(cl_waiting=1)
    server.send(fake.complete("DISCARD ALL"), fake.ready())
    assert server.expect("Q").body == b"SELECT 2\0"
    server.send(fake.answer("2"))
    assert late.read_result().rows == [["2"]]


def test_a_server_whose_reset_fails_is_not_lent_again(scripted):
    weir, client, server = scripted(pool_mode="session", default_pool_size=1)
    serve(server, client)
    client.close()
    server.expect("Q")
    server.send(fake.error("cannot reset"), fake.ready())
    server.wait_closed()
    late = weir.client()
    late.send(query("SELECT 1"))
    fresh = weir.far.accept().login()
    fresh.expect("Q")
    fresh.send(fake.answer("1"))
    assert late.read_result().rows == [["1"]]


def test_no_reset_in_transaction_mode(scripted):
    weir, client, server = scripted()
    serve(server, client)
    serve(server, client)


def test_reset_query_always(scripted):
    weir, client, server = scripted(server_reset_query_always=1, server_reset_query="RESET ALL")
    serve(server, client)
    assert server.expect("Q").body == b"RESET ALL\0"
    server.send(fake.complete("RESET"), fake.ready())
    serve(server, client)


def test_no_reset_without_a_reset_query(scripted):
    weir, client, server = scripted(pool_mode="session", server_reset_query="")
    serve(server, client)
    client.close()
    weir.wait_pool(sv_idle=1)
    serve(server, weir.client())


# -- servers that must not return to the pool -----------------------------------------------------


@pytest.mark.parametrize("status", "TE")
def test_a_server_in_a_transaction_is_closed_with_its_client(scripted, status):
    weir, client, server = scripted(cancel_grace=0)
    client.send(query("BEGIN"))
    server.expect("Q")
    server.send(fake.complete("BEGIN"), fake.ready(status))
    client.read_result()
    client.close()
    assert [got.type for got in server.read_to_end()] in (["X"], [])


def test_a_server_that_owes_answers_is_not_lent(scripted):
    weir, client, server = scripted(default_pool_size=1)
    client.send(query("SELECT 1"), query("SELECT 2"))
    server.expect("QQ")
    server.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]
    other = weir.client()
    other.send(query("SELECT 'other'"))
    weir.wait_pool(cl_waiting=1)
    server.send(fake.answer("2"))
    assert client.read_result().rows == [["2"]]
    assert server.expect("Q").body == b"SELECT 'other'\0"


def test_a_server_with_half_a_message_is_not_lent(scripted):
    weir, client, server = scripted(default_pool_size=1, session_state="off")
    long = query("SELECT '" + "x" * 200000 + "'")
    client.send(query("SELECT 1") + long[:100000])
    server.expect("Q")
    server.send(fake.answer("1"))
    client.read_result()
    other = weir.client()
    other.send(query("SELECT 'other'"))
    weir.wait_pool(cl_waiting=1)
    client.send(long[100000:])
    assert server.expect("Q").body == long[5:]
    server.send(fake.answer("2"))
    assert client.read_result().rows == [["2"]]
    assert server.expect("Q").body == b"SELECT 'other'\0"


def test_a_server_with_an_open_batch_is_not_lent(scripted):
    weir, client, server = scripted(default_pool_size=1)
    client.send(parse("SELECT 1"), fake.message("H"))
    server.expect("PH")
    server.send(fake.message("1"))
    client.expect("1")
    other = weir.client()
    other.send(query("SELECT 'other'"))
    weir.wait_pool(cl_waiting=1)
    client.send(sync())
    server.expect("S")
    server.send(fake.ready())
    client.expect("Z")
    assert server.expect("Q").body == b"SELECT 'other'\0"


# -- test_console_commands has pause, resume and others under load --------------------------------


def test_autodb_idle_timeout(pgweir):
    weir = pgweir(databases={"*": ""}, autodb_idle_timeout="0.3", server_idle_timeout="0.2")
    weir.client(database="app").query("SELECT 1")
    weir.disconnect()
    wait_until(lambda: not any(row["name"] == "app" for row in weir.admin("SHOW DATABASES")))
    assert weir.client(database="app").value("SELECT 1") == "1"


def test_pool_idle_timeout(pgweir):
    weir = pgweir(pool_idle_timeout="0.3", server_idle_timeout="0.2")
    weir.client().query("SELECT 1")
    weir.disconnect()
    wait_until(lambda: not any(row["database"] == "app" for row in weir.admin("SHOW POOLS")))
    weir.wait_log("LOG app/alice cleaning up idle pool app/alice$")
    assert weir.client().value("SELECT 1") == "1"


# -- DROP DATABASE and the like: the idle servers of that database ----------------------------------


@pytest.fixture(params=("transaction", "session"))
def vacating(request, make_pgweir, private_postgres):
    """A database with idle servers of two users, and a superuser's client of another database."""
    cluster = private_postgres()
    weir = make_pgweir(postgres=cluster, pool_mode=request.param, databases={"*": ""},
                       userlist={**USERS, "postgres": "pw"}, default_pool_size=5).start()
    for user in ("alice", "bob"):
        for database in ("app2", "template1"):
            with weir.client(user, database) as client:
                client.value("SELECT 1")
    wait_until(lambda: len(cluster.backends(dbname="app2")) == 2)
    return weir, cluster, weir.client("postgres")


def is_there(cluster, name):
    return cluster.value("SELECT count(*) FROM pg_database WHERE datname = %s", name) == 1


@pytest.mark.parametrize("text, gone", (
    ("DROP DATABASE app2", "app2"),
    ("/* no more */ drop database if exists \"app2\" ;", "app2"),
    ("ALTER DATABASE app2 RENAME TO other", "app2"),
    ("CREATE DATABASE other TEMPLATE app2", None),
    ("CREATE DATABASE other TEMPLATE = 'app2' ALLOW_CONNECTIONS true", None),
    ("CREATE DATABASE other", None),
))
def test_idle_servers_are_no_reason_to_keep_a_database(vacating, text, gone):
    _, cluster, client = vacating
    result = client.query(text)
    assert not result.errors, result.error
    assert is_there(cluster, "other") == ("other" in text)
    assert not gone or not is_there(cluster, gone)


@pytest.mark.parametrize("name", ("", "dropping"))
@pytest.mark.parametrize("batches", (1, 2))
def test_in_the_extended_protocol(vacating, name, batches):
    weir, cluster, client = vacating
    pause = [sync()] if batches == 2 else []
    client.send(parse("DROP DATABASE app2", name), *pause)
    if pause:
        client.read_result()
    result = client.ask(bind(name=name), execute(), sync())
    if name and weir.settings["pool_mode"] == "session":
        # What a named statement has is not known there: it waits for nobody.
        assert result.error["C"] == "55006"
    else:
        assert not result.errors, result.error
        assert not is_there(cluster, "app2")


def test_a_server_that_is_returned_while_it_waits(vacating):
    weir, cluster, client = vacating
    worker = busy(weir, database="app2")
    client.send(query("DROP DATABASE app2"))
    wait_until(lambda: len(cluster.backends(dbname="app2")) == 1)  # the idle ones are closed
    worker.query("COMMIT")
    worker.close()
    result = client.read_result()
    assert not result.errors, result.error


@pytest.mark.parametrize("after", (
    [query("SELECT pg_sleep(0.5)")],
    [parse("DROP DATABASE app2"), bind(), parse("SELECT pg_sleep(0.5)", "sleep"),
     bind(name="sleep", portal="sleep"), execute("sleep"), sync()],
    [parse("DROP DATABASE app2"), bind(), parse("SELECT pg_sleep(0.5)"), bind(), execute(), sync()],
    [parse("SELECT pg_sleep(0.5)"), parse("DROP DATABASE app2", "named"), bind(), execute(), sync()],
))
def test_who_may_not_drop_it_closes_nothing(vacating, after):
    weir, cluster, _ = vacating
    before = set(cluster.backends(dbname="app2"))
    client = weir.client("carol")
    assert client.query("DROP DATABASE app3").error  # the first one is slower
    assert client.query("DROP DATABASE app2").error["C"] == "42501"
    client.send(query("SELECT pg_sleep(0.3); DROP DATABASE app2"))
    client.read_result()
    client.send(query("DROP DATABASE app2"), *after)
    assert client.read_result().error["C"] == "42501"
    assert not client.read_result().errors
    assert set(cluster.backends(dbname="app2")) == before


DROP = parse("DROP DATABASE app2") + bind() + execute() + sync()


@pytest.mark.parametrize("sent", (
    parse("SELECT * FROM locked", "s") + DROP,
    parse("SELECT * FROM locked", "s") + query("DROP DATABASE app2"),
    parse("SELECT * FROM locked", "s") + bind(name="drop") + execute() + sync(),
    parse("DROP DATABASE app2") + describe("S", "known") + bind() + execute() + sync(),
    parse("DROP DATABASE app2") + bind() + describe("S", "known") + execute() + sync(),
), ids=range(5))
def test_what_waits_for_a_lock_ahead_of_it_gives_it_no_time(vacating, sent):
    weir, cluster, _ = vacating
    cluster.query("CREATE TABLE locked (); GRANT ALL ON locked TO PUBLIC", dbname="template1")
    before = set(cluster.backends(dbname="app2"))
    client, other = weir.client("carol", "template1"), weir.client("postgres", "template1")
    client.ask(parse("SELECT * FROM locked", "known"), parse("DROP DATABASE app2", "drop"), sync())
    other.query("BEGIN; LOCK TABLE locked")
    client.send(sent + query("SELECT 1"))
    other.query("SELECT pg_sleep(0.5)")
    assert set(cluster.backends(dbname="app2")) == before
    other.query("COMMIT")
    assert client.read_result().error["C"] == "42501"
    assert not client.read_result().errors


@pytest.mark.parametrize("sent", (
    query("SELECT pg_sleep(0.5)") + query("DROP DATABASE app2"),
    query("SELECT pg_sleep(0.5)") + DROP,
    parse("SELECT pg_sleep(0.5)") + bind() + execute() + DROP,
    parse("SELECT pg_sleep(0.5)") + bind() + execute() + query("DROP DATABASE app2"),
    parse("SELECT sleep()") + bind() + DROP,
    parse("SELECT sleep()") + bind() + query("DROP DATABASE app2"),
), ids=range(6))
def test_what_runs_ahead_of_it_gives_it_no_time(vacating, sent):
    weir, cluster, _ = vacating
    cluster.query("CREATE OR REPLACE FUNCTION sleep() RETURNS text LANGUAGE plpgsql IMMUTABLE "
                  "AS 'BEGIN PERFORM pg_sleep(0.5); RETURN 1; END'", dbname="template1")
    before = set(cluster.backends(dbname="app2"))
    client = weir.client("carol", "template1")
    client.query("SELECT 1")
    client.send(sent + query("SELECT 1"))
    while (result := client.read_result()).tags != ["SELECT 1"] or result.error:
        pass
    assert set(cluster.backends(dbname="app2")) == before
