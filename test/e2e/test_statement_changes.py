# SPDX-License-Identifier: ISC
"""A statement means what it would mean without us, whoever has prepared its text before, and where.

The tables are changed behind pgweir's back.
"""

import asyncio
import struct

import asyncpg
import pytest

from .kit.wire import bind, close, describe, execute, flush, parameter_types, parse, query, sync

INT4, INT8, FLOAT8, NUMERIC = 23, 20, 701, 1700
SERVERS = 3
CHANGED = "cached plan must not change result type"


@pytest.fixture
def weir(pgweir):
    """Its servers take turns."""
    weir = pgweir(pool_mode="transaction", default_pool_size=SERVERS, server_round_robin=1)
    clients = [weir.client() for _ in range(SERVERS)]
    for text in ("BEGIN", "COMMIT"):
        for client in clients:
            client.query(text)
    return weir


@pytest.fixture
def table(postgres):
    """Makes a table for everybody; it can be made again."""
    made = set()

    def make(name, columns, *values):
        made.add(name)
        postgres.query(f"DROP TABLE IF EXISTS {name}")
        postgres.query(f"CREATE TABLE {name} ({columns})")
        postgres.query(f"GRANT ALL ON {name} TO PUBLIC")
        for value in values:
            postgres.query(f"INSERT INTO {name} VALUES ({value})")

    yield make
    for name in made:
        postgres.query(f"DROP TABLE IF EXISTS {name}")


def everywhere(act):
    """On each server, twice."""
    return [act() for _ in range(2 * SERVERS)]


def counted(weir, column="total_server_parse_count"):
    (row,) = [row for row in weir.admin("SHOW STATS") if row["database"] == "app"]
    return row[column]


def prepare(client, text, name="s"):
    got = client.ask(parse(text, name), describe("S", name), sync())
    assert not got.errors, got.error
    return parameter_types(next(said.body for said in got.messages if said.type == "t"))


@pytest.mark.parametrize("change", (
    ("ALTER TABLE orders ALTER amount TYPE numeric",),
    ("BEGIN", "ALTER TABLE orders ALTER amount TYPE numeric", "COMMIT"),
    ("DROP TABLE orders; CREATE TABLE orders (amount numeric)",),
    ("DO $$ BEGIN ALTER TABLE orders ALTER amount TYPE numeric; END $$",)))
def test_a_new_client_is_told_the_types_of_now(weir, change):
    admin, one, other = weir.client(), weir.client(), weir.client()
    text = "INSERT INTO orders VALUES ($1)"
    admin.query("DROP TABLE IF EXISTS orders; CREATE TABLE orders (amount float8)")
    assert prepare(one, text) == (FLOAT8,)
    for query in change:
        assert not admin.query(query).errors
    assert prepare(other, text) == (NUMERIC,)
    value = "0.12345678901234567891"
    assert not other.ask(bind((value,), "s"), execute(), sync()).errors
    assert other.query("SELECT amount FROM orders").rows == [[value]]
    admin.query("DROP TABLE orders")


def test_a_table_made_again(weir):
    """The old statement cannot be described any more."""
    admin, one, other = weir.client(), weir.client(), weir.client()
    text = "SELECT * FROM made"
    for kind in ("int", "text", "date"):
        admin.query(f"DROP TABLE IF EXISTS made; CREATE TABLE made (v {kind})")
        for at, client in enumerate((one, other)):
            assert prepare(client, text, f"{kind}{at}") == ()
    admin.query("DROP TABLE made")


# -- parameter types ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_described", (True, False))
def test_new_clients_after_a_change_by_others(weir, postgres, table, is_described):
    """On every server, also where the text is prepared since long ago."""
    table("orders", "amount float8")
    old, text, value = weir.client(), "INSERT INTO orders VALUES ($1)", "0.12345678901234567891"
    assert prepare(old, text) == (FLOAT8,)
    everywhere(lambda: old.ask(bind(("1",), "s"), execute(), sync()))
    table("orders", "amount numeric")
    for client in everywhere(weir.client):
        if is_described:
            assert prepare(client, text) == (NUMERIC,)
        else:
            assert not client.ask(parse(text, "s"), sync()).errors
        for got in everywhere(lambda: client.ask(bind((value,), "s"), execute(), sync())):
            assert not got.errors, got.error
    stored = {tuple(row) for row in postgres.query("SELECT amount::text FROM orders")}
    assert stored == {(value,)}


def test_it_is_parsed_once_for_each_newer_client(weir, table):
    """A server that has parsed the text later than the client did has the client's statement."""
    table("orders", "amount float8")
    text = "INSERT INTO orders VALUES ($1::float8)"
    clients = [weir.client() for _ in range(4)]
    for client in clients:
        assert not client.ask(parse(text, "s"), sync()).errors
    assert counted(weir) == 4
    for _ in range(3):
        for client in reversed(clients):
            for got in everywhere(lambda: client.ask(bind(("1",), "s"), execute(), sync())):
                assert not got.errors, got.error
    assert counted(weir) == 4 + SERVERS - 1


# -- tables and types that are made again ---------------------------------------------------------


def test_a_type_made_again(weir, postgres):
    text = "SELECT v FROM moody WHERE v = $1"
    clients = [weir.client() for _ in range(4)]
    try:
        for at in range(4):
            postgres.query("DROP TABLE IF EXISTS moody")
            postgres.query("DROP TYPE IF EXISTS mood")
            postgres.query("CREATE TYPE mood AS ENUM ('sad', 'ok')")
            postgres.query("CREATE TABLE moody AS SELECT 'ok'::mood AS v")
            postgres.query("GRANT SELECT ON moody TO PUBLIC")
            for client in clients:
                prepare(client, text, f"s{at}")
                for got in everywhere(
                        lambda: client.ask(bind(("ok",), f"s{at}"), describe(), execute(), sync())):
                    assert got.rows == [["ok"]], got
    finally:
        postgres.query("DROP TABLE IF EXISTS moody")
        postgres.query("DROP TYPE IF EXISTS mood")


def test_temporary_tables_made_again(weir):
    """One client alone, on whatever servers it gets."""
    client = weir.client()
    insert, select = "INSERT INTO mine VALUES ($1)", "SELECT * FROM mine"
    values = {"int": (INT4, "5"), "float8": (FLOAT8, "0.5"), "numeric": (NUMERIC, "7.1")}
    for at in range(4):
        for kind, (oid, value) in values.items():
            assert not client.query(f"CREATE TEMP TABLE mine (v {kind})").errors
            name = f"{kind}{at}"
            assert prepare(client, insert, f"i{name}") == (oid,)
            assert not client.ask(bind((value,), f"i{name}"), execute(), sync()).errors
            assert prepare(client, select, name) == ()
            got = client.ask(bind((), name), execute(), sync())
            assert got.rows == [[value]], got
            client.query("DROP TABLE mine")
            client.query("SELECT 1")


# -- the columns of the result --------------------------------------------------------------------


def expect_change(got):
    assert got.error["C"] == "0A000" and got.error["M"] == CHANGED, got
    assert got.error["R"] == "RevalidateCachedQuery"
    assert not got.rows


def run(client, name="s"):
    return client.ask(bind((), name, result_format=1), execute(), sync())


@pytest.mark.parametrize("what", ("statement", "portal"))
def test_other_columns_than_the_client_was_told(weir, table, what):
    """PostgreSQL's error on each server, each time, until the client prepares again."""
    table("t", "v int4", "5")
    client, other, text = weir.client(), weir.client(), "SELECT * FROM t"
    if what == "statement":
        prepare(client, text)
    else:
        assert client.ask(parse(text, "s"), bind((), "s"), describe(), execute(), sync()).columns
    for got in everywhere(lambda: run(client)):
        assert got.rows == [[struct.pack("!i", 5)]] or got.rows, got
    table("t", "v float4", "5")
    for got in everywhere(lambda: run(client)):
        expect_change(got)
    prepare(other, text)
    for got in everywhere(lambda: run(other)):
        assert not got.errors
    for got in everywhere(lambda: run(client)):
        expect_change(got)
    got = client.ask(query("BEGIN"), bind((), "s"), execute(), sync())
    client.read_result()
    assert client.query("SELECT 1").error["C"] == "25P02"
    client.query("ROLLBACK")
    # One that is told again gets the new rows.
    got = client.ask(bind((), "s"), describe(), execute(), sync())
    assert got.rows == [["5"]], got
    assert not client.ask(close("S", "s"), sync()).errors
    prepare(client, text)
    for got in everywhere(lambda: run(client)):
        assert not got.errors


def test_the_same_columns(weir, table):
    """The statement is described once for each Parse that a server gets, and then never again."""
    table("t", "v int4", "5")
    clients, text = [weir.client() for _ in range(3)], "SELECT * FROM t"
    for client in clients:
        prepare(client, text)
    for _ in range(2):
        for client in clients:
            for got in everywhere(lambda: run(client)):
                assert got.types == "2DCZ", got
    assert counted(weir) == 3 + SERVERS - 1


def test_columns_over_a_take_over(weir, table):
    table("t", "v int4", "5")
    client = weir.client()
    prepare(client, "SELECT * FROM t")
    everywhere(lambda: run(client))
    assert weir.take_over().wait(15) == 0
    for got in everywhere(lambda: run(client)):
        assert got.types == "2DCZ", got
    table("t", "v float4", "5")
    for got in everywhere(lambda: run(client)):
        expect_change(got)


def test_asyncpg_prepares_again(weir, table):
    """It executes by what it was told at first, and prepares again after this error alone."""
    async def work():
        client = await asyncpg.connect(host="127.0.0.1", port=weir.port, user="alice",
                                       database="app")
        for kind, value in (("int4", 5), ("float8", 5.5), ("text", "5"), ("int4", 6)):
            table("t", f"v {kind}", f"'{value}'")
            for _ in range(2 * SERVERS):
                assert await client.fetchval("SELECT * FROM t") == value
        await client.close()

    asyncio.run(work())


# -- the repeat after that error ------------------------------------------------------------------


def test_a_format_for_each_column(weir, table):
    """There are fewer columns than formats now."""
    table("t", "a int, b int, c int", "1, 2, 3")
    client = weir.client()
    assert not client.ask(parse("SELECT * FROM t", "s"), sync()).errors
    messages = bind((), "s", result_formats=(0, 0, 0)), describe(), execute(), sync()
    for got in everywhere(lambda: client.ask(*messages)):
        assert got.rows == [["1", "2", "3"]]
    client.query("ALTER TABLE t ADD d int")
    client.query("SELECT 1")
    table("t", "a int, b int", "1, 2")
    for got in everywhere(lambda: client.ask(*messages))[:SERVERS]:
        assert got.error["C"] == "0A000" and got.error["M"] == CHANGED, got


def test_the_repeat_fails_otherwise(pgweir, table):
    """The client gets the first error: drivers know what to do after that one."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    table("t", "v int4", "5")
    client = weir.client()
    assert not client.ask(parse("SELECT v FROM t WHERE v = $1", "s"), sync()).errors
    messages = bind((struct.pack("!i", 5),), "s", is_binary=True), describe(), execute(), sync()
    assert client.ask(*messages).rows == [["5"]]
    table("t", "v int8", "5")
    got = client.ask(*messages)
    assert got.error["C"] == "0A000" and got.error["M"] == CHANGED, got
    assert got.error["R"] == "RevalidateCachedQuery"
    # What follows has errors of its own.
    got = client.ask(bind(("x",), "s"), describe(), execute(), sync())
    assert got.error["C"] == "22P02", got
    got = client.ask(bind(("5",), "s"), describe(), execute(), sync())
    assert got.rows == [["5"]], got


# -- the unnamed statement ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("", "s"))
@pytest.mark.parametrize("types", ((), (705,)))
@pytest.mark.parametrize("text", ("SELECT $1::unknown", "SELECT CAST($1 AS  UNKNOWN)"))
def test_a_parameter_of_unknown_type(weir, text, types, name):
    """PostgreSQL reports that it is text, but does not accept that in a Parse of the same text."""
    client = weir.client()
    assert not client.ask(parse(text, name, types), describe("S", name), sync()).errors
    for _ in range(2 * SERVERS):
        got = client.ask(bind(("x",), name), execute(), sync())
        assert got.rows == [["x"]], got


@pytest.mark.parametrize("size", (0, 100_000))
@pytest.mark.parametrize("text", ("CREATE TEMP TABLE kept (v int)", "SELECT pg_advisory_lock(5)"))
def test_our_question_and_the_unnamed_statement(weir, size, text):
    """It is asked about the session state, and the server stays."""
    client = weir.client()
    client.send(parse(f"SELECT 5 /* {'x' * size} */"), flush())
    client.send(parse(text, "other"), bind((), "other"), execute(), sync())
    assert not client.read_result().errors
    got = client.ask(bind(()), execute(), sync())
    assert got.rows == [["5"]], got


def test_our_question_in_session_mode(pgweir):
    weir = pgweir(pool_mode="session", default_pool_size=1)
    client = weir.client(application_name="x")
    client.send(parse("SELECT 5"), flush())
    client.send(parse("RESET jit", "other"), bind((), "other"), execute(), sync())
    assert not client.read_result().errors
    for _ in range(2):
        assert client.ask(bind(()), execute(), sync()).rows == [["5"]]


# -- plans ----------------------------------------------------------------------------------------


def test_the_planner_settings_of_another_client(pgweir, table, postgres):
    """A generic plan is kept with the statement: it is nobody else's."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    table("t", "v int PRIMARY KEY")
    postgres.query("INSERT INTO t SELECT generate_series(1, 10000)")
    postgres.query("ANALYZE t")
    text = "PREPARE p(int) AS SELECT * FROM t WHERE v = $1"
    one, other = weir.client(), weir.client()
    for setting in ("enable_indexscan = off", "enable_indexonlyscan = off",
                    "enable_bitmapscan = off"):
        assert not one.query(f"SET {setting}").errors
    for client in (one, other):
        assert not client.query("SET plan_cache_mode = force_generic_plan").errors
        assert not client.query(text).errors
    for client, plan in ((one, "Seq Scan"), (other, "Index"), (one, "Seq Scan")):
        assert plan in client.query("EXPLAIN EXECUTE p(5)").rows[0][0]
