# SPDX-License-Identifier: ISC
"""track_statements: what SHOW STATEMENTS counts."""

import pytest

from .kit.wire import (bind, close, cstr, describe, execute, flush, message, parse, query,
                       sync)

TRACKED = dict(pool_mode="transaction", track_statements=100)


def statements(weir, what=""):
    """The rows by their texts; there must be one of each."""
    rows = weir.admin(f"SHOW STATEMENTS {what}")
    found = {row["query"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def count(weir, text):
    row = statements(weir).get(text)
    return row and row["calls"]


def ask(client, *parts):
    return client.ask(*parts, sync())


@pytest.fixture(params=["transaction", "session"])
def weir(pgweir, request):
    return pgweir(pool_mode=request.param, track_statements=100)


# -- simple queries --------------------------------------------------------------------------------


def test_nothing_is_tracked_by_default(pgweir):
    weir = pgweir()
    weir.client().query("SELECT 1")
    assert weir.admin("SHOW STATEMENTS") == []


def test_simple_queries(weir):
    client = weir.client(application_name="worker")
    for number in range(1, 6):
        result = client.query(f"SELECT /* {number} */ g, 'x{number}' "
                              f"FROM generate_series(1, {number}) g")
    (row,) = weir.admin("SHOW STATEMENTS")
    assert row["query"] == "SELECT g, $1 FROM generate_series($2, $3) g"
    assert (row["database"], row["user"], row["application"]) == ("app", "alice", "worker")
    assert (row["calls"], row["rows"], row["errors"], row["sqlstate"]) == (5, 15, 0, None)
    assert row["error_bound"] == 0 and len(row["digest"]) == 16
    assert row["total_us"] >= row["max_us"] >= row["mean_us"] > 0
    assert row["wait_total_us"] == row["wait_p95_us"] == 0 or row["wait_total_us"] > 0
    assert row["p95_us"] <= row["max_us"] and row["wait_p95_us"] <= row["wait_total_us"]
    assert len(result.rows) == 5


def test_bytes_are_those_of_the_replies(weir):
    client = weir.client()
    client.send(query("SELECT repeat('x', 100000)"))
    size = 0
    while True:
        reply = client.read()
        size += 5 + len(reply.body)
        if reply.type == "Z":
            break
    (row,) = weir.admin("SHOW STATEMENTS")
    assert row["bytes"] == size


def test_several_statements_of_one_text_are_one(weir):
    weir.client().query("SELECT 1; SELECT generate_series(1, 3)")
    (row,) = weir.admin("SHOW STATEMENTS")
    assert (row["query"], row["calls"], row["rows"]) == \
        ("SELECT $1; SELECT generate_series($2, $3)", 1, 4)


def test_errors(weir):
    client = weir.client()
    for divisor in (1, 0, 0):
        client.query(f"SELECT 1 / {divisor}")
    client.query("SELEKT 1")
    found = statements(weir, "BY errors")
    row = found["SELECT $1 / $2"]
    assert (row["calls"], row["errors"], row["sqlstate"], row["rows"]) == (3, 2, "22012", 1)
    assert (found["SELEKT $1"]["errors"], found["SELEKT $1"]["sqlstate"]) == (1, "42601")


def test_a_call_of_a_function(weir):
    client = weir.client()
    oid = int(client.value("SELECT 'now'::regproc::oid"))
    call = message("F", oid.to_bytes(4, "big") + b"\0\0" b"\0\0" b"\0\0")
    client.send(call)
    client.read_until("Z")
    assert count(weir, "(function call)") == 1


def test_copy(weir):
    client = weir.client()
    client.query("CREATE TEMP TABLE t (a int)")
    client.send(query("COPY t FROM stdin"))
    client.read_until("G")
    client.send(message("d", b"1\n2\n3\n"), message("c"))
    client.read_until("Z")
    client.query("COPY t TO stdout")
    found = statements(weir)
    assert found["COPY t FROM stdin"]["rows"] == found["COPY t TO stdout"]["rows"] == 3


def test_waiting_counts(pgweir):
    weir = pgweir(**TRACKED, default_pool_size=1)
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 'waited'"))
    weir.wait_pool(cl_waiting=1)
    holder.query("COMMIT")
    waiter.read_result()
    row = statements(weir, "BY wait")["SELECT $1"]
    assert row["wait_total_us"] == row["wait_mean_us"] > 0
    # within 7 %, and whole microseconds
    assert row["wait_total_us"] / 1.07 - 1 <= row["wait_p95_us"] <= row["wait_total_us"] * 1.07
    assert list(statements(weir, "1 BY wait")) == ["SELECT $1"]


def test_a_begin_that_is_answered_here(pgweir):
    weir = pgweir(**TRACKED, late_begin=1)
    client = weir.client()
    for text in ("BEGIN", "SELECT 1", "COMMIT", "BEGIN", "COMMIT"):
        client.query(text)
    assert {text: row["calls"] for text, row in statements(weir).items()} == \
        {"BEGIN": 2, "SELECT $1": 1, "COMMIT": 2}


# -- the extended protocol -------------------------------------------------------------------------


def test_unnamed_statements(weir):
    client = weir.client()
    for number in range(3):
        ask(client, parse("SELECT $1::int, 7"), bind([str(number)]), execute())
    (row,) = weir.admin("SHOW STATEMENTS")
    assert (row["query"], row["calls"], row["rows"]) == ("SELECT $1::int, $2", 3, 3)


def test_named_statements(weir):
    client = weir.client()
    ask(client, parse("SELECT $1::int", name="s"))
    assert count(weir, "SELECT $1::int") == 0
    for number in range(4):
        ask(client, bind([str(number)], name="s"), describe("P"), execute())
    assert count(weir, "SELECT $1::int") == 4


def test_prepared_in_one_transaction_and_executed_in_another(weir):
    client = weir.client()
    ask(client, parse("SELECT 'kept'"), describe("S"))
    ask(client, bind(), execute())
    ask(client, bind(), execute())
    assert count(weir, "SELECT $1") == 2


def test_pipelines(weir):
    client = weir.client()
    ask(client, parse("SELECT 1", name="one"), parse("SELECT g FROM generate_series(1, 9) g", name="nine"),
               bind(name="one"), execute(), bind(name="nine"), execute(), bind(name="one"), execute())
    found = statements(weir)
    one, nine = found["SELECT $1"], found["SELECT g FROM generate_series($1, $2) g"]
    assert (one["calls"], one["rows"], nine["calls"], nine["rows"]) == (2, 2, 1, 9)
    assert nine["bytes"] > one["bytes"] / 2


def test_portals_with_names_and_in_pieces(weir):
    client = weir.client()
    ask(client, parse("SELECT g FROM generate_series(1, 5) g"), bind(portal="p"),
               parse("SELECT 2"), bind(), execute("p", 2), execute(), execute("p", 2), execute("p"))
    found = statements(weir)
    row = found["SELECT g FROM generate_series($1, $2) g"]
    assert (row["calls"], row["rows"], found["SELECT $1"]["calls"]) == (3, 5, 1)


def test_an_error_in_a_pipeline(weir):
    """What the server skips is no call."""
    client = weir.client()
    ask(client, parse("SELECT 1 / $1::int", name="divide"), parse("SELECT 'x'", name="x"))
    ask(client, bind(["1"], name="divide"), execute(), bind(["0"], name="divide"), execute(),
               bind(name="x"), execute())
    found = statements(weir)
    row = found["SELECT $2 / $1::int"]
    assert (row["calls"], row["errors"], row["sqlstate"]) == (2, 1, "22012")
    assert found["SELECT $1"]["calls"] == 0
    ask(client, bind(name="x"), execute())
    assert count(weir, "SELECT $1") == 1


def test_an_error_of_a_parse(weir):
    client = weir.client()
    ask(client, parse("SELECT * FROM nowhere"), describe("S"))
    ask(client, parse("SELECT * FROM nowhere"), bind(), execute())
    row = statements(weir)["SELECT * FROM nowhere"]
    assert (row["calls"], row["errors"], row["sqlstate"]) == (0, 2, "42P01")


def test_an_error_of_a_bind(weir):
    client = weir.client()
    ask(client, parse("SELECT $1::int"), bind(["no number"]), execute())
    row = statements(weir)["SELECT $1::int"]
    assert (row["calls"], row["errors"], row["sqlstate"]) == (1, 1, "22P02")


def test_an_error_at_a_commit_is_of_no_statement(weir):
    client = weir.client()
    client.query("CREATE TEMP TABLE t (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    ask(client, parse("INSERT INTO t VALUES (1), (1)"), bind(), execute())
    ask(client, parse("SELECT 5"), bind(), execute())
    found = statements(weir)
    assert found["INSERT INTO t VALUES ($1), ..."]["errors"] == 0
    assert found["SELECT $1"]["errors"] == 0


def test_a_flush_and_a_close(weir):
    client = weir.client()
    client.send(parse("SELECT 3", name="s"), bind(name="s"), execute(), flush())
    client.read_until("C")
    ask(client, close("S", "s"))
    ask(client, parse("SELECT 4, 4", name="s"), bind(name="s"), execute())
    assert (count(weir, "SELECT $1"), count(weir, "SELECT $1, $2")) == (1, 1)


def test_a_copy_in_the_extended_protocol(weir):
    client = weir.client()
    client.query("CREATE TEMP TABLE t (a int)")
    client.send(parse("COPY t FROM stdin"), bind(), execute(), flush())
    client.read_until("G")
    client.send(message("d", b"1\n2\n"), message("c"), sync())
    client.read_until("Z")
    assert statements(weir)["COPY t FROM stdin"]["rows"] == 2


def test_a_broken_bind(weir):
    """Its names cannot be read, so nobody knows what its Execute means."""
    client = weir.client()
    ask(client, parse("SELECT 1"), bind(), execute())
    client.send(message("B", cstr("") + b"x"), execute(), sync())
    client.read_until("Z")
    assert count(weir, "SELECT $1") == 1


# -- EXECUTE of SQL --------------------------------------------------------------------------------


def test_execute_of_sql(pgweir):
    weir = pgweir(**TRACKED)
    client = weir.client()
    client.query("PREPARE s (int) AS SELECT $1 + 40")
    client.query("EXECUTE s (1)")
    client.query("EXECUTE s (2)")
    ask(client, parse("EXECUTE s (3)"), bind(), execute())
    found = statements(weir)
    assert found["SELECT $1 + $2"]["calls"] == 3
    client.query("EXECUTE nothing (2)")
    assert count(weir, "EXECUTE nothing ($1)") == 1


# -- long texts ------------------------------------------------------------------------------------


def test_a_text_that_comes_in_pieces(weir):
    client = weir.client()
    text = "SELECT 1" + " -- x" * 3000 + "\n, 2"
    client.query(text)
    client.send_slowly(query(text), 977)
    client.read_until("Z")
    client.send_slowly(parse(text) + bind() + execute() + sync(), 1999)
    client.read_until("Z")
    assert count(weir, "SELECT $1 , $2") == 3


def test_a_text_beyond_the_digest(weir):
    client = weir.client()
    for number in (1, 2):
        text = "SELECT 1" + ", 1" * 100000 + f", {number}"
        client.send_slowly(query(text), 30011)
        client.read_until("Z")
    (row,) = weir.admin("SHOW STATEMENTS")
    assert row["calls"] == 2 and len(row["query"]) == 1000


# -- the table -------------------------------------------------------------------------------------


def test_the_rarest_leave(pgweir):
    weir = pgweir(**dict(TRACKED, track_statements=10))
    client = weir.client()
    for number in range(50):
        client.query("SELECT 'often'")
        client.query(f"SELECT 1 AS c{number}")
    rows = weir.admin("SHOW STATEMENTS BY calls")
    assert len(rows) == 10
    assert (rows[0]["query"], rows[0]["calls"], rows[0]["error_bound"]) == ("SELECT $1", 50, 0)
    for row in rows[1:]:
        assert row["calls"] == 1 <= row["error_bound"] + 1 <= 100 / 10


def test_another_size_keeps_the_most_frequent(pgweir):
    weir = pgweir(**TRACKED)
    client = weir.client()
    for number in range(20):
        for _ in range(number + 1):
            client.query(f"SELECT 1 AS c{number}")
    weir.admin("SET track_statements = 5")
    rows = weir.admin("SHOW STATEMENTS BY calls")
    assert [row["calls"] for row in rows] == [20, 19, 18, 17, 16]
    weir.admin("SET track_statements = 1000")
    client.query("SELECT 'new'")
    found = statements(weir)
    assert len(found) == 6 and found["SELECT $1"]["error_bound"] == 15
    weir.admin("SET track_statements = 0")
    assert weir.admin("SHOW STATEMENTS") == []
    client.query("SELECT 'more'")
    weir.admin("SET track_statements = 10")
    client.query("SELECT 'more'")
    assert count(weir, "SELECT $1") == 1


def test_switched_while_statements_run(pgweir):
    weir = pgweir(pool_mode="session")
    client = weir.client()
    client.send(query("SELECT pg_sleep(0.2)"))
    weir.wait_pool(sv_active=1)
    weir.admin("SET track_statements = 10")
    client.send(query("SELECT 'behind'"))
    client.read_until("Z")
    client.read_until("Z")
    assert count(weir, "SELECT $1") == 1
    client.send(query("SELECT pg_sleep(0.2)"))
    weir.admin("SET track_statements = 0")
    client.send(query("SELECT 'untracked'"))
    weir.admin("SET track_statements = 10")
    client.send(query("SELECT 'tracked'"))
    for _ in range(3):
        client.read_until("Z")
    assert client.value("SELECT 8") == "8"


def test_reset(pgweir):
    weir = pgweir(**TRACKED)
    client = weir.client()
    ask(client, parse("SELECT $1::int", name="s"))
    client.query("SELECT 1")
    weir.admin("RESET STATEMENTS")
    assert weir.admin("SHOW STATEMENTS") == []
    ask(client, bind(["1"], name="s"), execute())
    assert list(statements(weir)) == ["SELECT $1::int"]


def test_reset_needs_an_administrator(pgweir):
    weir = pgweir(**TRACKED)
    weir.client().query("SELECT 1")
    stats = weir.console("stats")
    assert stats.query("RESET STATEMENTS").error["M"] == "admin access needed"
    assert len(stats.query("SHOW STATEMENTS").rows) == 1
    assert not stats.query("RESET work_mem").error


# -- SHOW STATEMENTS -------------------------------------------------------------------------------


def test_orders(pgweir):
    weir = pgweir(**TRACKED)
    client = weir.client()
    for text, times in (("SELECT 'often'", 30), ("SELECT 1 FROM generate_series(1, 99)", 5),
                        ("SELECT pg_sleep(1)", 1), ("SELECT 1/0", 3)):
        for _ in range(times):
            client.query(text)
    firsts = {order: weir.admin(f"SHOW STATEMENTS 1 BY {order}")[0]["query"]
              for order in ("time", "calls", "rows", "errors")}
    assert firsts == {"time": "SELECT pg_sleep($1)", "calls": "SELECT $1",
                      "rows": "SELECT $1 FROM generate_series($2, $3)", "errors": "SELECT $1/$2"}
    for order in ("time", "calls", "wait", "rows", "errors"):
        column = {"time": "total_us", "wait": "wait_total_us"}.get(order, order)
        values = [row[column] for row in weir.admin(f"show statements by {order}")]
        assert len(values) == 4 and values == sorted(values, reverse=True)
    assert len(weir.admin("SHOW STATEMENTS 2")) == 2


@pytest.mark.parametrize("what", ["0", "100001", "BY", "BY nothing", "5 calls", "BY calls 5",
                                  "5 BY calls now", "x"])
def test_what_it_does_not_take(pgweir, what):
    weir = pgweir()
    result = weir.console().query(f"SHOW STATEMENTS {what}")
    assert result.error["M"].startswith("invalid command")
    assert result.error["H"] == "Syntax: SHOW STATEMENTS [n] [BY time|calls|wait|rows|errors]."


# -- a new process ---------------------------------------------------------------------------------


def test_a_take_over_begins_again(pgweir):
    """The statements that clients have prepared are known in the new process, too."""
    weir = pgweir(pool_mode="transaction", track_statements=10)
    client = weir.client(application_name="web")
    ask(client, parse("SELECT $1::int + 5", name="s"))
    client.query("SELECT 1")
    assert weir.take_over().wait(30) == 0
    assert weir.admin("SHOW STATEMENTS") == []
    assert ask(client, bind(["7"], name="s"), execute()).rows == [["12"]]
    client.query("SELECT 2")
    assert {row["query"]: (row["calls"], row["application"]) for row in weir.admin("SHOW STATEMENTS")} == {
        "SELECT $1::int + $2": (1, "web"), "SELECT $1": (1, "web")}
    (row,) = weir.admin("SHOW APPLICATIONS")
    assert (row["application_name"], row["clients"], row["xacts"]) == ("web", 1, 2)


# -- beside pg_stat_statements ---------------------------------------------------------------------


def test_the_same_calls_and_rows_as_postgresql_counts(private_postgres, make_pgweir):
    """In the same order. PostgreSQL does not count calls that have failed."""
    theirs = private_postgres(shared_preload_libraries="pg_stat_statements")
    theirs.query("CREATE EXTENSION pg_stat_statements")
    weir = make_pgweir(postgres=theirs, pool_mode="transaction", track_statements=100)
    weir.start()
    theirs.query("SELECT pg_stat_statements_reset()")
    clients = [weir.client() for _ in range(3)]
    for number in range(1, 25):
        more = " + 1" * number  # PostgreSQL does not tell aliases apart
        for client in clients[:number % 3 + 1]:
            for times in range(number):
                client.query(f"SELECT g{more} FROM generate_series(1, {times}) g")
            ask(client, parse(f"SELECT $1::int{more}", name=f"s{number}"))
            for times in range(number + 30):
                ask(client, bind([str(times)], name=f"s{number}"), execute(),
                    bind(["1"], name=f"s{number}"), execute())
            client.query(f"SELECT 1 / 0{more}")
    ours = {row["query"]: (row["calls"] - row["errors"], row["rows"])
            for row in weir.admin("SHOW STATEMENTS 1000 BY calls")}
    counted = theirs.query("SELECT query, calls, rows FROM pg_stat_statements s JOIN pg_roles r"
                           " ON r.oid = s.userid WHERE rolname = 'alice' ORDER BY calls DESC")
    assert len(counted) == 48
    assert {text: ours[text] for text, _, _ in counted} == \
        {text: (calls, rows) for text, calls, rows in counted}
    order = [calls for calls, _ in ours.values()]
    assert order[:20] == [calls for _, calls, _ in counted][:20]
