# SPDX-License-Identifier: ISC
"""A parameter that holds for a transaction may decide how PostgreSQL reads a statement that is
prepared in it. Another client's statement of the same text does not get that meaning."""

import pytest

from .kit.wire import bind, execute, parse, query, sync

NULLS = "SELECT count(*) FROM (VALUES (NULL::int)) AS v(a) WHERE a = NULL"
TIME = "SELECT '2020-01-01 00:00'::timestamptz AT TIME ZONE 'UTC'"

# What begins the transaction, and a text whose meaning it changes.
LOCAL = {
    "a parameter": ("BEGIN; SET LOCAL transform_null_equals = on", NULLS),
    "by set_config()": ("BEGIN; SELECT set_config('transform_null_equals', 'on', true)", NULLS),
    "by a computed name":
        ("BEGIN; SELECT set_config('transform_null_' || 'equals', 'on', true)", NULLS),
    "one that is reported": ("BEGIN; SET LOCAL timezone = 'Asia/Tokyo'", TIME),
    "that by set_config()": ("BEGIN; SELECT set_config('TimeZone', 'Asia/Tokyo', true)", TIME),
    "of the session": ("BEGIN; SET transform_null_equals = on", NULLS),
    "by pg_settings": ("BEGIN; UPDATE pg_settings SET setting = 'on' "
                       "WHERE name = 'transform_null_' || 'equals'", NULLS),
}


def run(name="s"):
    return bind(name=name) + execute() + sync()


def changes_none_of_others(client, other, begin, text, is_piped):
    other.ask(parse(text, "s"), sync())
    before = other.ask(run()).rows
    use = parse(text, "s") + run()
    if is_piped:
        client.send(query(begin), use, query("COMMIT"))
        results = [client.read_result() for _ in range(3)]
    else:
        results = [client.query(begin), client.ask(use), client.query("COMMIT")]
    assert not [result.error for result in results if result.error]
    assert results[1].rows != before
    assert other.ask(run()).rows == before


@pytest.fixture
def two(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    return [weir.client(timezone="UTC") for _ in range(2)]


@pytest.mark.parametrize("is_piped", (False, True), ids=("in turn", "in one write"))
@pytest.mark.parametrize("what", LOCAL)
def test_what_a_transaction_sets_changes_no_statement_of_others(two, what, is_piped):
    changes_none_of_others(*two, *LOCAL[what], is_piped)


def test_nobody_looks_with_off(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, session_state="off")
    client, other = weir.client(), weir.client()
    other.ask(parse(NULLS, "s"), sync())
    assert other.ask(run()).rows == [["0"]]
    client.query("BEGIN; SET LOCAL transform_null_equals = on")
    client.ask(parse(NULLS, "s") + run())
    client.query("COMMIT")
    assert other.ask(run()).rows == [["1"]]


def test_nor_what_is_prepared_behind_its_end(two):
    """The report that TimeZone is as before comes behind the COMMIT."""
    client, other = two
    other.query("SET timezone = 'Asia/Tokyo'")
    other.ask(parse(TIME, "s"), sync())
    before = other.ask(run()).rows
    client.query("BEGIN; SET LOCAL timezone = 'Asia/Tokyo'")
    client.send(query("COMMIT"), parse(TIME, "s") + run())
    client.read_result()
    assert client.read_result().rows == [["2020-01-01 00:00:00"]]
    assert other.ask(run()).rows == before


def test_a_reported_one_costs_no_other_parse(two):
    """Its statement is another one then, and stays prepared."""
    client, _ = two
    client.query("BEGIN; SET LOCAL timezone = 'Asia/Tokyo'; COMMIT")
    parses = []
    for _ in range(4):
        client.query("BEGIN; SET LOCAL timezone = 'Asia/Tokyo'")
        if not parses:
            client.ask(parse(TIME, "s"), sync())
        assert client.ask(run()).rows == [["2019-12-31 15:00:00"]]
        parses.append(client.value("SELECT min(prepare_time) FROM pg_prepared_statements "
                                   "WHERE statement LIKE '%2020-01-01%' AND NOT from_sql"))
        client.query("COMMIT")
    assert len(set(parses)) == 1


FUNCTION = "CREATE FUNCTION inside() RETURNS {} LANGUAGE plpgsql AS $$ BEGIN {}; RETURN {}; END $$"


def function(body):
    return FUNCTION.format("int", body, "1")


ON_ROW = ("CREATE TABLE t (a int)", FUNCTION.format("trigger", "{}", "NEW"),
          "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION inside()")

# What sets it within a function: what is made, what the client runs, and a text.
INSIDE = {
    "SET LOCAL": ([function("SET LOCAL transform_null_equals = on")], "SELECT inside()", NULLS),
    "set_config()": ([function("PERFORM set_config('transform_null_equals', 'on', true)")],
                     "SELECT inside()", NULLS),
    "a name of a variable":
        ([function("PERFORM set_config(v, 'on', true) FROM (VALUES ('transform_null_equals')) AS x(v)")],
         "SELECT inside()", NULLS),
    "one that is reported": ([function("SET LOCAL timezone = 'Asia/Tokyo'")], "SELECT inside()", TIME),
    "a trigger": ([text.format("SET LOCAL transform_null_equals = on") for text in ON_ROW],
                  "INSERT INTO t VALUES (1)", NULLS),
    "of the session": ([function("SET transform_null_equals = on")], "SELECT inside()", NULLS),
    "that by set_config()": ([function("PERFORM set_config('transform_null_equals', 'on', false)")],
                             "SELECT inside()", NULLS),
    "a parsed body": (["CREATE FUNCTION inside() RETURNS text BEGIN ATOMIC "
                       "SELECT set_config('transform_null_equals', 'on', true); END"],
                      "SELECT inside()", NULLS),
}


@pytest.fixture
def two_of(pgweir, postgres):
    """Two clients of a database of its own, in which the texts were run."""
    def make(*texts):
        postgres.query("DROP DATABASE IF EXISTS scopes WITH (FORCE)")
        postgres.query("CREATE DATABASE scopes OWNER alice")
        for text in texts:
            postgres.query(text, dbname="scopes")
        postgres.query("GRANT ALL ON ALL TABLES IN SCHEMA public TO alice", dbname="scopes")
        weir = pgweir(pool_mode="transaction", default_pool_size=1, session_isolation="known",
                      databases={"app": "dbname=scopes"})
        clients = [weir.client(timezone="UTC") for _ in range(2)]
        clients[0].query("SELECT 'the catalog is read'")
        return clients
    return make


@pytest.mark.parametrize("is_piped", (False, True), ids=("in turn", "in one write"))
@pytest.mark.parametrize("what", INSIDE)
def test_nor_does_what_a_function_sets(two_of, what, is_piped):
    texts, call, text = INSIDE[what]
    changes_none_of_others(*two_of(*texts), "BEGIN; " + call, text, is_piped)


@pytest.mark.parametrize("body", ("PERFORM set_config('app.tenant', 'x', true)",
                                  "SET LOCAL app.tenant = 'x'; SET LOCAL search_path = public"))
def test_a_plain_parameter_costs_no_other_parse(two_of, body):
    client, _ = two_of(function(body))
    parses = []
    for _ in range(4):
        client.query("BEGIN; SELECT inside()")
        if not parses:
            client.ask(parse(TIME, "s"), sync())
        client.ask(run())
        parses.append(client.value("SELECT min(prepare_time) FROM pg_prepared_statements "
                                   "WHERE statement LIKE '%2020-01-01%' AND NOT from_sql"))
        client.query("COMMIT")
    assert len(set(parses)) == 1
