# SPDX-License-Identifier: ISC
"""What holds for a transaction, a parameter or a table, may decide how PostgreSQL reads a statement
that is prepared in it. Another client's statement of the same text does not get that meaning."""

import struct

import pytest

from .kit.wire import bind, close, describe, execute, parse, query, sync

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
    def make(*texts, isolation="known"):
        postgres.query("DROP DATABASE IF EXISTS scopes WITH (FORCE)")
        postgres.query("CREATE DATABASE scopes OWNER alice")
        for text in texts:
            postgres.query(text, dbname="scopes")
        postgres.query("GRANT ALL ON ALL TABLES IN SCHEMA public TO alice", dbname="scopes")
        weir = pgweir(pool_mode="transaction", default_pool_size=1, session_isolation=isolation,
                      databases={"app": "dbname=scopes"})
        clients = [weir.client(timezone="UTC") for _ in range(2)]
        clients[0].query("SELECT 'the catalog is read'")
        return clients
    return make


@pytest.mark.parametrize("is_piped", (False, True), ids=("in turn", "in one write"))
@pytest.mark.parametrize("isolation", ("known", "strict"))
@pytest.mark.parametrize("what", INSIDE)
def test_nor_does_what_a_function_sets(two_of, what, isolation, is_piped):
    texts, call, text = INSIDE[what]
    changes_none_of_others(*two_of(*texts, isolation=isolation), "BEGIN; " + call, text, is_piped)


def test_what_is_prepared_again_is_of_the_scope_of_now(pgweir):
    """A server has the statement from before the client's Parse, so it is parsed there again, but
    the client has another TimeZone by now."""
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    client, other, holder = (weir.client(timezone="UTC") for _ in range(3))
    assert not other.ask(parse(TIME, "s"), describe("S", "s"), sync()).error
    before = other.ask(run()).rows
    holder.query("BEGIN")  # the server that was used last
    assert not client.ask(parse(TIME, "s"), describe("S", "s"), sync()).error
    holder.query("COMMIT")
    client.query("SET timezone = 'Asia/Tokyo'")
    assert not client.ask(run()).error
    assert other.ask(run()).rows == before


def parses(client, begin, before=()):
    """When the server has parsed what the client prepares in its first transaction, or before."""
    times = set()
    if before:
        client.ask(*before)
    for at in range(4):
        client.query(begin)
        if at == 0 and not before:
            client.ask(parse(TIME, "s"), sync())
        client.ask(run())
        times.add(client.value("SELECT min(prepare_time) FROM pg_prepared_statements "
                               "WHERE statement LIKE '%2020-01-01%' AND NOT from_sql"))
        client.query("COMMIT")
    return len(times)


@pytest.mark.parametrize("body", ("PERFORM set_config('app.tenant', 'x', true)",
                                  "SET LOCAL app.tenant = 'x'; SET LOCAL statement_timeout = '5s'"))
def test_a_plain_parameter_costs_no_other_parse(two_of, body):
    client, _ = two_of(function(body))
    assert parses(client, "BEGIN; SELECT inside()") == 1


@pytest.mark.parametrize("text", (
    "SET LOCAL app.tenant = 'x'", "SET LOCAL work_mem = '1MB'; SET LOCAL lock_timeout = '1s'",
    "SELECT set_config('app.tenant'::text, 'x', true), set_config('jit', 'off', true)",
    "SELECT set_config('TimeZone', 'UTC', true)"))
def test_nor_does_one_of_a_text(two, text):
    assert parses(two[0], f"BEGIN; {text}") == 1


@pytest.mark.parametrize("text", ("SELECT inside()", "SET LOCAL search_path = public",
                                  "CREATE TEMP TABLE tt (v int) ON COMMIT DROP"))
def test_what_was_prepared_before_is_not_parsed_again(two_of, text):
    client, _ = two_of(*INSIDE["a parsed body"][0])
    assert parses(client, f"BEGIN; {text}", (parse(TIME, "s"), sync())) == 1


def test_what_was_prepared_in_it_keeps_its_meaning(two):
    """Whatever others have prepared since."""
    client, other = two
    begin = "BEGIN; SET LOCAL transform_null_equals = on"
    client.query(begin)
    client.ask(parse(NULLS, "s"), sync())
    client.query("COMMIT")
    for _ in range(2):
        assert other.ask(parse(NULLS, "t") + run("t")).rows == [["0"]]
        client.query(begin)
        assert client.ask(run()).rows == [["1"]]
        client.query("COMMIT")
        assert other.ask(run("t")).rows == [["0"]]
        other.ask(close("S", "t"), sync())


@pytest.mark.parametrize("is_made", (False, True), ids=("known", "just made"))
def test_a_trigger_sets_it(two_of, is_made):
    """Between its making and the next reading of the catalog any text may start it."""
    body = [text.format("SET LOCAL transform_null_equals = on") for text in ON_ROW]
    client, other = two_of(*([] if is_made else body))
    other.ask(parse(NULLS, "s"), sync())
    for text in body if is_made else ():
        assert not other.query(text).error
    client.query("BEGIN; INSERT INTO t VALUES (1)")
    assert client.ask(parse(NULLS, "s") + run()).rows == [["1"]]
    client.query("COMMIT")
    assert other.ask(run()).rows == [["0"]]


# -- which table a text means, and of which types its columns are ----------------------------------

# PostgreSQL looks up names again for each client, but keeps the types of the parameters.
WHERE = "SELECT count(*) FROM tt WHERE v = $1"
PATH = '"$user", s4, s5'

TABLES = {
    "search_path": "SET LOCAL search_path = s5",
    "by set_config()": "SELECT set_config('search_path', 's5', true)",
    "SCHEMA": "SET LOCAL SCHEMA 's5'",
    "a role": "SET LOCAL ROLE s5",
    "a temporary table": "CREATE TEMP TABLE tt ON COMMIT DROP AS SELECT * FROM s5.tt",
    "a table made again": "DROP TABLE s4.tt; SELECT * INTO s4.tt FROM s5.tt",
    "a column altered": "ALTER TABLE s4.tt ALTER v TYPE float8",
    "a right": "REVOKE USAGE ON SCHEMA s4 FROM alice, PUBLIC",
    "other names": "ALTER TABLE s4.tt RENAME TO other; ALTER TABLE s5.tt SET SCHEMA s4",
}


@pytest.fixture
def tables(postgres):
    """tt of s4 has integers, that of s5 floats."""
    postgres.query("CREATE ROLE s5")
    postgres.query("GRANT s5 TO alice")
    for schema, kind in (("s4", "int8"), ("s5", "float8")):
        postgres.query(f"CREATE SCHEMA {schema} AUTHORIZATION alice CREATE TABLE tt (v {kind})")
        postgres.query(f"INSERT INTO {schema}.tt VALUES (5)")
        postgres.query(f"ALTER TABLE {schema}.tt OWNER TO alice")
        postgres.query(f"GRANT ALL ON SCHEMA {schema} TO PUBLIC")
        postgres.query(f"GRANT ALL ON {schema}.tt TO PUBLIC")
    yield postgres
    postgres.query("DROP SCHEMA s4, s5 CASCADE")
    postgres.query("DROP ROLE s5")


@pytest.fixture
def two_at(pgweir, tables):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    yield weir, *[weir.client(search_path=PATH) for _ in range(2)]
    weir.stop()


def count(kind, value):
    return bind((struct.pack(kind, value),), "s", is_binary=True) + execute() + sync()


@pytest.mark.parametrize("is_piped", (False, True), ids=("in turn", "in one write"))
@pytest.mark.parametrize("what", TABLES)
def test_another_table_in_a_transaction(two_at, what, is_piped):
    _, client, other = two_at
    assert other.ask(parse(WHERE, "s") + count("!q", 5)).rows == [["1"]]
    messages = query("BEGIN; " + TABLES[what]), parse(WHERE, "s") + count("!d", 5), query("ROLLBACK")
    if is_piped:
        client.send(*messages)
    results = [client.read_result() if is_piped else client.ask(one) for one in messages]
    assert not [result.error for result in results if result.error]
    assert results[1].rows == [["1"]]
    assert other.ask(count("!q", 5)).rows == [["1"]]


def test_a_path_that_a_function_sets(two_of):
    client, other = two_of("CREATE TABLE tt AS SELECT 5::int8 AS v", "CREATE SCHEMA s5",
                           "CREATE TABLE s5.tt AS SELECT 5::float8 AS v",
                           "GRANT USAGE ON SCHEMA s5 TO PUBLIC", "GRANT SELECT ON s5.tt TO PUBLIC",
                           function("SET LOCAL search_path = s5"))
    assert other.ask(parse(WHERE, "s") + count("!q", 5)).rows == [["1"]]
    client.query("BEGIN; SELECT inside()")
    assert client.ask(parse(WHERE, "s") + count("!d", 5)).rows == [["1"]]
    client.query("COMMIT")
    assert other.ask(count("!q", 5)).rows == [["1"]]


def test_a_temporary_table_of_a_stay(two_at):
    _, client, other = two_at
    assert other.ask(parse(WHERE, "s") + count("!q", 5)).rows == [["1"]]
    for text in ("CREATE TEMP TABLE tt AS SELECT * FROM s5.tt", "SELECT 'stays'"):
        assert not client.query(text).error
    for _ in range(2):
        assert client.ask(parse(WHERE, "s") + count("!d", 5)).rows == [["1"]]
        client.ask(close("S", "s"), sync())
    client.query("DROP TABLE pg_temp.tt")
    assert other.ask(count("!q", 5)).rows == [["1"]]


def test_what_an_execute_prepares_again_in_it(pgweir):
    """SQL's EXECUTE is bound, its statement gives way to another one, and then the scope is opened."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1, max_prepared_statements=1)
    client, other = weir.client(), weir.client()
    other.ask(parse(NULLS, "s"), sync())
    before = other.ask(run()).rows
    client.ask(parse(NULLS, "s"), sync())
    client.query("BEGIN")
    result = client.ask(parse("EXECUTE s") + bind() + parse("SELECT 1", "t")
                        + parse("SET LOCAL transform_null_equals = on") + bind(portal="p")
                        + execute("p") + execute() + sync())
    assert not result.error and result.rows != before
    client.query("COMMIT")
    assert other.ask(run()).rows == before


@pytest.mark.parametrize("when", ("before", "behind"))
def test_over_a_take_over(two_at, when):
    weir, client, other = two_at
    assert other.ask(parse(WHERE, "s") + count("!q", 5)).rows == [["1"]]
    client.query("BEGIN; SET LOCAL search_path = s5")
    for now in ("before", "behind"):
        if now == when:
            assert client.ask(parse(WHERE, "s") + count("!d", 5)).rows == [["1"]]
        if now == "before":
            assert weir.take_over().wait(15) == 0
    client.query("COMMIT")
    assert other.ask(count("!q", 5)).rows == [["1"]]


def test_another_session_authorization_ends_a_role(pgweir, tables):
    """What PostgreSQL does not report: the role is none then."""
    tables.query("GRANT s5 TO bob")
    weir = pgweir(pool_mode="transaction", default_pool_size=1, databases={"app": "user=postgres"})
    client, other = (weir.client(search_path=PATH) for _ in range(2))
    for text in ("SET SESSION AUTHORIZATION bob", "SET ROLE s5"):
        assert not other.query(text).error
    assert other.ask(parse(WHERE, "s") + count("!d", 5)).rows == [["1"]]
    assert not client.query("SET ROLE s5").error
    assert not client.query("BEGIN; SET LOCAL SESSION AUTHORIZATION bob").error
    assert client.ask(parse(WHERE, "s") + count("!q", 5)).rows == [["1"]]
    client.query("COMMIT")
    assert other.ask(count("!d", 5)).rows == [["1"]]
