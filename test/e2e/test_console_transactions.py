# SPDX-License-Identifier: ISC
"""Clients that hold servers: SHOW TRANSACTIONS, and the longest holder in messages to waiting
clients.
"""

import re

import pytest

from .kit.wait import wait_until
from .kit.wire import bind, execute, parse, query, sync


def transactions(weir, **wanted):
    """The rows, once one of them has all of these values."""
    def there():
        rows = weir.admin("SHOW TRANSACTIONS")
        return [row for row in rows if all(row[name] == value for name, value in wanted.items())] \
            and rows
    return wait_until(there, what=f"SHOW TRANSACTIONS with {wanted}")


def client_id(weir, name):
    (row,) = [row for row in weir.admin("SHOW CLIENTS") if row["application_name"] == name]
    return row["id"]


def waiter(weir, **kw):
    client = weir.client(**kw)
    client.send(query("SELECT 'waited'"))
    weir.wait_pool(cl_waiting=1)
    return client


# -- SHOW TRANSACTIONS -----------------------------------------------------------------------------


def test_nobody_is_in_a_transaction(pgweir):
    weir = pgweir(pool_mode="transaction")
    weir.client().query("SELECT 1")
    assert weir.admin("SHOW TRANSACTIONS") == []


def test_idle_running_and_waiting(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    idle = weir.client(application_name="idle one")
    idle.query("BEGIN")
    pid = int(idle.value("SELECT pg_backend_pid()"))
    running = weir.client(application_name="running one")
    running.send(query("SELECT pg_sleep(60)"))
    transactions(weir, state="running")
    waits = waiter(weir, application_name="waiting one")
    rows = {row["application_name"]: row for row in transactions(weir, state="waiting")}
    assert {name: row["state"] for name, row in rows.items()} == \
        {"idle one": "idle in transaction", "running one": "running", "waiting one": "waiting"}
    row = rows["idle one"]
    assert (row["id"], row["database"], row["user"], row["addr"], row["server_pid"]) == \
        (client_id(weir, "idle one"), "app", "alice", "127.0.0.1", pid)
    assert row["statement"] is None  # log_min_duration is off
    assert row["xact_since"] <= row["state_since"] and row["xact_seconds"] >= row["seconds"]
    assert rows["waiting one"]["server_pid"] == 0 < rows["running one"]["server_pid"]
    weir.admin(f"KILL_CLIENT {rows['running one']['id']}")
    assert waits.read_result().rows == [["waited"]]
    idle.query("COMMIT")
    wait_until(lambda: weir.admin("SHOW TRANSACTIONS") == [])


def test_a_transaction_that_has_no_server_yet(pgweir):
    weir = pgweir(pool_mode="transaction", late_begin=1)
    client = weir.client()
    client.query("BEGIN")
    (row,) = weir.admin("SHOW TRANSACTIONS")
    assert (row["state"], row["server_pid"]) == ("idle in transaction", 0)
    client.query("COMMIT")
    assert weir.admin("SHOW TRANSACTIONS") == []


def test_sessions(pgweir):
    """Clients with a server are listed only while they are in a transaction."""
    weir = pgweir(pool_mode="session")
    client = weir.client()
    client.query("SELECT 1")
    assert weir.admin("SHOW TRANSACTIONS") == []
    client.query("BEGIN")
    (row,) = weir.admin("SHOW TRANSACTIONS")
    assert row["state"] == "idle in transaction"


def test_of_one_database(pgweir):
    weir = pgweir(pool_mode="transaction")
    for database in ("app", "app2"):
        weir.client(database=database).query("BEGIN")
    assert [row["database"] for row in weir.admin("SHOW TRANSACTIONS app2")] == ["app2"]
    assert len(weir.admin("SHOW TRANSACTIONS")) == 2


def test_the_statement(pgweir):
    """As with log_min_duration: never parameter values, and not for stats_users."""
    weir = pgweir(pool_mode="transaction", log_min_duration="1h")
    client = weir.client()
    client.query("BEGIN /* begins */")
    client.ask(parse("SELECT $1::text /* last */"), bind(values=["sesame"]), execute(), sync())
    (row,) = weir.admin("SHOW TRANSACTIONS")
    assert (row["state"], row["statement"]) == ("idle in transaction", "SELECT $1::text /* last */")
    assert weir.console("stats").query("SHOW TRANSACTIONS").dicts()[0]["statement"] is None
    client.send(query("SELECT pg_sleep(60) /* now */"))
    row = transactions(weir, state="running")[0]
    assert row["statement"] == "SELECT pg_sleep(60) /* now */"
    weir.admin("SET log_min_duration = 0")
    assert transactions(weir, state="running")[0]["statement"] is None


def test_the_statement_ends_with_the_transaction(pgweir):
    weir = pgweir(pool_mode="transaction", log_min_duration="1h", default_pool_size=1)
    client = weir.client()
    client.query("BEGIN")
    client.query("SELECT 'first'")
    client.query("COMMIT")
    other = weir.client()
    other.query("BEGIN")
    client.send(query("SELECT 'second'"))
    weir.wait_pool(cl_waiting=1)
    rows = {row["state"]: row["statement"] for row in weir.admin("SHOW TRANSACTIONS")}
    assert rows == {"idle in transaction": "BEGIN", "waiting": None}


# -- the longest holder ----------------------------------------------------------------------------


def test_the_longest_holder_is_named(pgweir):
    """In the error of a client that gives up, in SHOW WAITING, and in the log; then the next
    holder.
    """
    weir = pgweir(pool_mode="transaction", default_pool_size=2, query_wait_timeout=0)
    first, second = weir.client(application_name="worker-3"), weir.client("bob", "app2")
    first.query("BEGIN")
    second.query("BEGIN")  # of another pool: it has no server of this one
    third = weir.client(application_name='"\x1b[2Jcaf\xe9')
    third.query("BEGIN")
    waits = waiter(weir)
    number = client_id(weir, "worker-3")
    (row,) = weir.admin("SHOW WAITING")
    assert re.fullmatch(rf'2 servers, pool_size 2; longest held by alice@127\.0\.0\.1 "worker-3"'
                        rf" \(id {number}\) for \d+ s, idle in transaction", row["detail"])
    first.send(query("SELECT pg_sleep(60)"))
    wait_until(lambda: weir.admin("SHOW WAITING")[0]["detail"].endswith("s, running"))
    weir.admin("SET query_wait_timeout = 0.001")
    refused = waits.read_refusal()
    assert refused.text == "query_wait_timeout"
    assert re.fullmatch(rf'pool full: 2 servers, pool_size 2; longest held by alice@127\.0\.0\.1'
                        rf' "worker-3" \(id {number}\) for \d+ s, running', refused.fields["D"])
    weir.wait_log(rf'pooler error: query_wait_timeout: pool full: .* "worker-3" \(id {number}\)')
    weir.admin("SET query_wait_timeout = 0")
    weir.admin(f"KILL_CLIENT {number}")
    fourth = weir.client(application_name="fourth")
    fourth.query("BEGIN")
    waiter(weir)
    # Names shown to other clients are sanitized.
    assert ' "??[2Jcaf??" (id ' in weir.admin("SHOW WAITING")[0]["detail"]


def test_the_holder_goes_by_being_lent(pgweir):
    """The time since the assignment counts, not the age of the client or of the server connection.
    """
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    old, young = weir.client(application_name="old"), weir.client(application_name="young")
    old.query("SELECT 1")
    young.query("BEGIN")
    old.query("BEGIN")
    waiter(weir)
    assert '"young"' in weir.admin("SHOW WAITING")[0]["detail"]
    young.query("COMMIT")
    # In another loop the waiter gets the server after a millisecond.
    wait_until(lambda: not weir.admin("SHOW WAITING"), what="the waiter to get that server")
    young.query("BEGIN")
    waiter(weir)
    assert '"old"' in weir.admin("SHOW WAITING")[0]["detail"]


@pytest.mark.parametrize("setting", ("max_db_connections", "max_user_connections"))
def test_the_holder_in_another_pool(pgweir, setting):
    """The limit is shared with other pools of the database or of the user."""
    weir = pgweir(pool_mode="transaction", **{setting: 1})
    other = {"max_db_connections": ("bob", "app"), "max_user_connections": ("alice", "app2")}
    weir.client(*other[setting], application_name="elsewhere").query("BEGIN")
    weir.wire().startup()  # its pool has no server yet
    wait_until(lambda: weir.admin("SHOW WAITING"))
    (row,) = weir.admin("SHOW WAITING")
    assert f'longest held by {other[setting][0]}@127.0.0.1 "elsewhere" (id ' in row["detail"]


def test_idle_sessions_hold(pgweir):
    weir = pgweir(pool_mode="session", default_pool_size=1)
    weir.client().query("SELECT 1")
    waiter(weir)
    assert re.search(r"longest held by alice@127\.0\.0\.1 \(id \d+\) for \d+ s, idle$",
                     weir.admin("SHOW WAITING")[0]["detail"])
