# SPDX-License-Identifier: ISC
"""A statement has the same meaning on every server: parameter types, and the objects it refers to.

PostgreSQL infers the types that a Parse leaves unspecified, and keeps them. A client that got them
from Describe sends binary values of these types; on a server with other types, the 8 bytes of an
integer would be read as a float.
"""

import asyncio
import struct

import asyncpg
import pytest

from .kit.wire import (bind, close, describe, execute, parameter_types, parse, sync)

INT8, FLOAT8, TEXT = 20, 701, 25
INSERT = "INSERT INTO tt VALUES ($1)"


def int8(value):
    return struct.pack("!q", value)


def float8(value):
    return struct.pack("!d", value)


@pytest.fixture
def tables(postgres):
    """tt of two schemas: s4 has integers, s5 floats."""
    postgres.query("CREATE SCHEMA s4 CREATE TABLE tt (v bigint)")
    postgres.query("CREATE SCHEMA s5 CREATE TABLE tt (v double precision)")
    for schema in ("s4", "s5"):
        postgres.query(f"GRANT ALL ON SCHEMA {schema} TO PUBLIC")
        postgres.query(f"GRANT ALL ON {schema}.tt TO PUBLIC")
    yield postgres
    postgres.query("DROP SCHEMA s4, s5 CASCADE")


@pytest.fixture
def weir(pgweir):
    return pgweir(pool_mode="transaction", default_pool_size=2)


def values(postgres, schema):
    return [row[0] for row in postgres.query(f"SELECT v FROM {schema}.tt ORDER BY v")]


def alter(postgres):
    postgres.query("ALTER TABLE s4.tt ALTER v TYPE double precision")


def told(got):
    """The types in the response to Describe."""
    assert not got.errors, got.error
    return parameter_types(next(said.body for said in got.messages if said.type == "t"))


def prepare(client, name="s", text=INSERT):
    return told(client.ask(parse(text, name), describe("S", name), sync()))


def insert(client, value, name="s"):
    got = client.ask(bind((value,), name, is_binary=True), execute(), sync())
    assert not got.errors, got.error


class elsewhere:
    """Within this context no client gets the most recently used server."""

    def __init__(self, weir):
        self.holder = weir.client()

    def __enter__(self):
        self.holder.query("BEGIN")

    def __exit__(self, *_):
        self.holder.query("COMMIT")


def test_clients_with_another_search_path(tables, weir):
    one, other = weir.client(search_path="s4"), weir.client(search_path="s5")
    assert prepare(one) == (INT8,)
    assert prepare(other) == (FLOAT8,)
    for _ in range(2):
        insert(one, int8(5))
        insert(other, float8(6))
    with elsewhere(weir):
        insert(other, float8(8))
        insert(one, int8(7))
    assert values(tables, "s4") == [5, 5, 7]
    assert values(tables, "s5") == [6, 6, 8]


@pytest.mark.parametrize("schema, pack, new", (("s4", int8, "double precision"),
                                               ("s5", float8, "bigint")))
def test_a_column_is_altered_in_between(tables, weir, schema, pack, new):
    client = weir.client(search_path=schema)
    prepare(client)
    insert(client, pack(5))
    tables.query(f"ALTER TABLE {schema}.tt ALTER v TYPE {new}")
    with elsewhere(weir):
        insert(client, pack(6))
    insert(client, pack(7))
    assert values(tables, schema) == [5, 6, 7]


def test_as_text(tables, weir):
    """The reported types apply to text as well: PostgreSQL then refuses 6.5 as an integer."""
    client = weir.client(search_path="s4")
    assert prepare(client) == (INT8,)
    alter(tables)
    with elsewhere(weir):
        got = client.ask(bind(("6.5",), "s"), execute(), sync())
        assert got.error["C"] == "22P02" and "bigint" in got.error["M"], got.error
        assert not client.ask(bind(("6",), "s"), execute(), sync()).errors
    assert values(tables, "s4") == [6]


def test_one_was_told_before_and_one_after(tables, weir):
    one, other = weir.client(search_path="s4"), weir.client(search_path="s4")
    assert prepare(one) == (INT8,)
    alter(tables)
    with elsewhere(weir):
        assert prepare(other) == (FLOAT8,)
        insert(one, int8(1))
        insert(other, float8(2.5))
        insert(one, int8(3))
        assert told(one.ask(describe("S", "s"), sync())) == (INT8,)
        assert told(other.ask(describe("S", "s"), sync())) == (FLOAT8,)
    insert(other, float8(4.5))
    insert(one, int8(5))
    assert values(tables, "s4") == [1, 2.5, 3, 4.5, 5]


def test_the_first_description_counts(tables, weir):
    """Also if the second one is on a server where the text has another meaning."""
    client = weir.client(search_path="s4")
    assert prepare(client) == (INT8,)
    alter(tables)
    with elsewhere(weir):
        assert told(client.ask(describe("S", "s"), sync())) == (INT8,)
        # A reused name is another statement.
        client.ask(close("S", "s"), sync())
        assert prepare(client) == (FLOAT8,)
        insert(client, float8(1.5))
    assert values(tables, "s4") == [1.5]


def test_the_unnamed_statement(tables, weir):
    client, other = weir.client(search_path="s4"), weir.client(search_path="s4")
    got = client.ask(parse(INSERT), describe("S"), sync())
    assert told(got) == (INT8,)
    alter(tables)
    with elsewhere(weir):
        assert told(other.ask(parse(INSERT), describe("S"), sync())) == (FLOAT8,)
        for value in (5, 6):
            insert(client, int8(value), "")
    assert other.ask(parse(INSERT), bind((float8(7.5),), is_binary=True), execute(), sync())
    insert(client, int8(8), "")
    assert values(tables, "s4") == [5, 6, 7.5, 8]


def test_a_description_of_an_unnamed_statement_that_was(tables, weir):
    """Two Parses in one write: the types of the first must not be used for the second."""
    client = weir.client(search_path="s4")
    client.send(parse("SELECT $1::text"), describe("S"), sync(), parse(INSERT), sync())
    assert told(client.read_result()) == (TEXT,)
    assert client.read_result().types == "1Z"
    with elsewhere(weir):
        insert(client, int8(5), "")
    assert values(tables, "s4") == [5]


def test_sql_prepared_and_described(tables, weir):
    client = weir.client(search_path="s4")
    assert not client.query(f"PREPARE s AS {INSERT}").errors
    assert told(client.ask(describe("S", "s"), sync())) == (INT8,)
    alter(tables)
    with elsewhere(weir):
        assert not client.query("EXECUTE s (5)").errors
        insert(client, int8(6))
        assert not client.query("EXECUTE s (7.4)").errors  # as without a pooler: an integer now
    assert not client.ask(parse("EXECUTE s (8)"), bind(), execute(), sync()).errors
    assert values(tables, "s4") == [5, 6, 7, 8]


def test_asyncpg(tables, weir):
    async def work():
        one, other = [await asyncpg.connect(host="127.0.0.1", port=weir.port, user="alice",
                                            database="app", server_settings={"search_path": schema})
                      for schema in ("s4", "s5")]
        statements = [await client.prepare(INSERT) for client in (one, other)]
        for at in range(3):
            await statements[0].fetch(at)
            await statements[1].fetch(at + 0.5)
        alter(tables)
        with elsewhere(weir):
            await statements[0].fetch(3)
        for client in (one, other):
            await client.close()

    asyncio.run(work())
    assert values(tables, "s4") == [0, 1, 2, 3]
    assert values(tables, "s5") == [0.5, 1.5, 2.5]


def test_only_a_parse_is_parsed(pgweir):
    """The server on which it was described already has it with these types."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client, other = weir.client(), weir.client()
    text = "SELECT $1 + 1"
    for wire in (client, other, client):
        wire.ask(close("S", "s"), sync())
        prepare(wire, text=text)
        for _ in range(2):
            assert wire.ask(bind(("1",), "s"), execute(), sync()).rows == [["2"]]
    (row,) = [row for row in weir.admin("SHOW STATS") if row["database"] == "app"]
    assert row["total_server_parse_count"] == row["total_client_parse_count"] == 3


def test_with_few_statements_on_a_server(tables, pgweir):
    """A statement known by another name is evicted with it."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1, max_prepared_statements=1)
    client = weir.client(search_path="s4")
    assert prepare(client) == (INT8,)
    for at in range(3):
        insert(client, int8(at))
        assert prepare(client, f"n{at}", f"SELECT $1 + {at}")
        assert client.ask(bind(("1",), f"n{at}"), execute(), sync()).rows == [[str(1 + at)]]
        got = client.ask(bind((), "s"), sync())
        assert '"s"' in got.error["M"], got.error
    assert values(tables, "s4") == [0, 1, 2]


def test_errors_have_the_clients_name(tables, weir):
    client = weir.client(search_path="s4")
    prepare(client)
    for _ in range(2):
        got = client.ask(bind((), "s"), sync())
        assert got.error["M"] == ("bind message supplies 0 parameters, but prepared statement "
                                  '"s" requires 1')


def test_over_a_take_over(tables, weir):
    client, other = weir.client(search_path="s4"), weir.client(search_path="s5")
    assert prepare(client) == (INT8,)
    assert prepare(other) == (FLOAT8,)
    alter(tables)
    assert weir.take_over().wait(15) == 0
    with elsewhere(weir):
        insert(client, int8(5))
        insert(other, float8(6.5))
    assert values(tables, "s4") == [5]
    assert values(tables, "s5") == [6.5]


# -- objects that a statement refers to -----------------------------------------------------------


def test_other_columns_in_another_search_path(tables, pgweir):
    """No "cached plan must not change result type": they are two statements."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    clients = [weir.client(search_path=schema) for schema in ("s4", "s5")]
    for client in clients:
        assert not client.ask(parse("SELECT v FROM tt", "s"), sync()).errors
    for _ in range(2):
        for client, type_ in zip(clients, (INT8, FLOAT8)):
            # A client that does not describe again: pgweir must not prepare it again.
            got = client.ask(bind((), "s"), execute(), sync())
            assert got.types == "2CZ", got.error
            got = client.ask(bind((), "s"), describe(), execute(), sync())
            assert got.columns[0].type == type_


@pytest.mark.parametrize("name, settings, text, expected", (
    ("TimeZone", ("UTC", "Asia/Tokyo"), "SELECT extract(epoch FROM timestamptz '1970-01-02')::int",
     ("86400", "54000")),
    ("DateStyle", ("ISO, MDY", "ISO, DMY"), "SELECT date '01/02/2024'::text",
     ("2024-01-02", "2024-02-01")),
    ("standard_conforming_strings", ("on", "off"), r"SELECT length('\\')", ("2", "1")),
    ("bytea_output", ("hex", "escape"), "SELECT 'a'::bytea::text", (r"\x61", "a")),
    ("extra_float_digits", ("0", "-10"), "SELECT (1::float8 / 3)::text",
     ("0.333333333333333", "0.33333")),
    ("client_encoding", ("UTF8", "LATIN1"), "SELECT length('é')", ("1", "2")),
))
def test_constants(pgweir, name, settings, text, expected):
    """PostgreSQL evaluates constants when it prepares, with the parameters of that session."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    clients = [weir.client(**{name: setting}) for setting in settings]
    for client in clients:
        assert not client.ask(parse(text, "s"), sync()).errors
    for _ in range(2):
        for client, value in zip(clients, expected):
            assert client.ask(bind((), "s"), execute(), sync()).rows == [[value]]


def test_constants_by_what_no_server_reports(pgweir):
    """Each client has a parameter that is reset for the other; the RESET affects no other
    parameter.
    """
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    clients = [weir.client(options=options) for options in (
        "-c array_nulls=off -c lock_timeout=5s", "-c array_nulls=on -c statement_timeout=50s")]
    for text in ("SELECT ('{null}'::text[])[1] IS NULL", "SELECT ('{a,null}'::text[])[2] IS NULL"):
        for client, value in zip(clients, "ft"):
            got = client.ask(parse(text, text), bind((), text), execute(), sync())
            assert got.rows == [[value]], got


def test_a_parameter_is_set_in_between(pgweir):
    """The server has the old statement; it must not be mixed up with the new one or those of
    others.
    """
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client, other = weir.client(), weir.client()
    text = "SELECT timestamptz '1970-01-02 00:00 UTC'::timestamp::text"
    for wire in (client, other):
        wire.query("SET TimeZone = 'UTC'")
        assert not wire.ask(parse(text, "s"), sync()).errors
    client.query("SET TimeZone = 'Asia/Tokyo'")
    for _ in range(2):
        got = client.ask(bind((), "s"), execute(), sync())
        assert got.rows == [["1970-01-02 09:00:00"]], got
        got = other.ask(bind((), "s"), execute(), sync())
        assert got.rows == [["1970-01-02 00:00:00"]], got
