# SPDX-License-Identifier: ISC
"""The console with drivers: the extended protocol, and the statements that drivers send."""

import asyncio
import subprocess

import psycopg
import pytest

from .kit.wait import LIMIT
from .kit.wire import bind, close, describe, execute, extended, flush, parse, query, sync

asyncpg = pytest.importorskip("asyncpg")
pg8000 = pytest.importorskip("pg8000")


@pytest.fixture
def weir(pgweir):
    return pgweir()


@pytest.fixture
def console(weir):
    return weir.console()


def test_extended_query(console):
    result = console.ask(extended("SHOW POOLS"))
    assert result.types.startswith("12T") and result.types.endswith("CZ")
    assert result.columns[0].name == "database"
    assert result.rows[0][0] == "pgbouncer"
    assert result.tags == ["SHOW"]


def test_extended_command_without_rows(console):
    result = console.ask(extended("RELOAD"))
    assert result.types == "12nCZ" and result.tags == ["RELOAD"]


def test_describe_of_a_statement(console):
    console.send(parse("SHOW VERSION", name="s"), describe("S", "s"), sync())
    assert console.read_result().types == "1tTZ"
    console.send(bind(name="s"), execute(), sync())
    assert console.read_result().types == "2DCZ"
    console.send(close("S", "s"), sync())
    assert console.read_result().types == "3Z"
    console.send(bind(name="s"), execute(), sync())
    result = console.read_result()
    assert (result.types, result.error["C"]) == ("EZ", "26000")


def test_an_error_skips_to_the_sync(console):
    console.send(parse("NONSENSE"), bind(), execute(), parse("SHOW VERSION"), bind(), execute(),
                 sync())
    result = console.read_result()
    assert "E" in result.types and "D" not in result.types
    assert console.query("SHOW VERSION").tags == ["SHOW"]


def test_flush(console):
    console.send(parse("SHOW VERSION"), bind(), describe(), execute(), flush())
    console.expect("12TDC")
    console.send(sync())
    console.expect("Z")


def test_pipelines(console):
    console.send(*[extended("SHOW VERSION")] * 50)
    for _ in range(50):
        assert console.read_result().types == "12TDCZ"


def test_portals_with_a_limit(weir, console):
    for _ in range(5):
        weir.client()
    console.send(parse("SHOW DATABASES"), bind(), execute(limit=2), execute(limit=1), execute(),
                 sync())
    assert console.read_result().types == "12DDsDsDCZ"


def test_simple_queries_in_one_packet(console):
    console.send(*[query("SHOW VERSION")] * 20)
    for _ in range(20):
        assert console.read_result().types == "TDCZ"


@pytest.mark.parametrize("words", ("BEGIN", "COMMIT", "ROLLBACK", ";", "", "-- ping", "DISCARD ALL",
                                   "BEGIN;", "  ", "/* ping */", "SELECT 1", "SELECT 1;",
                                   "SET client_encoding TO 'UTF8'", "SET DateStyle = 'ISO'",
                                   "SET extra_float_digits = 3", "SET application_name = 'x'",
                                   "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
                                   "START TRANSACTION", "RESET ALL", "DEALLOCATE ALL"))
@pytest.mark.parametrize("how", ("simple", "extended"))
def test_small_talk(same_pgweir, words, how):
    console = same_pgweir().console()
    result = console.ask(query(words) if how == "simple" else extended(words))
    assert not result.errors, result.error
    assert console.query("SHOW VERSION").tags == ["SHOW"]


def test_select_1_is_one(console):
    assert console.query("SELECT 1").rows == [["1"]]


def test_empty_query(console):
    assert console.query("").types in ("IZ", "CZ")


def test_psql(weir):
    command = ["psql", "-X", "-h", "127.0.0.1", "-p", str(weir.port), "-U", "admin", "-d",
               "pgbouncer"]
    done = subprocess.run([*command, "-Atc", "SHOW VERSION"], capture_output=True, text=True,
                          timeout=30)
    assert done.returncode == 0 and "PgBouncer" in done.stdout, done.stderr
    script = "SHOW POOLS;\nSHOW HELP;\n\\x\nSHOW STATS;\nnonsense;\nSHOW LISTS;\n"
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=30)
    assert "cl_active" in done.stdout and "total_xact_count" in done.stdout
    assert "used_clients" in done.stdout and "invalid command" in done.stderr


@pytest.mark.parametrize("autocommit", (True, False))
def test_psycopg(weir, autocommit):
    connection = weir.connect("pgbouncer", "admin", autocommit=autocommit)
    row = connection.execute("SHOW VERSION").fetchone()
    assert row[0].startswith("PgBouncer ")
    cursor = connection.execute("SHOW POOLS")
    assert cursor.description[0].name == "database"
    rows = connection.execute("SHOW LISTS").fetchall()
    assert dict(rows)["used_clients"] == 1
    with pytest.raises(psycopg.Error, match="invalid command"):
        connection.execute("NONSENSE")
    connection.rollback()
    connection.execute("SET default_pool_size = 9")
    connection.commit()


def test_psycopg_extended_and_pipelined(weir):
    connection = weir.connect("pgbouncer", "admin", prepare_threshold=0)
    for _ in range(3):
        assert connection.execute("SHOW DATABASES", prepare=True).fetchone()
    with connection.cursor(binary=False) as cursor:
        cursor.execute(b"SHOW VERSION", [])
        assert cursor.fetchone()
    with connection.pipeline():
        cursors = [connection.execute("SHOW VERSION") for _ in range(5)]
    assert all(cursor.fetchone() for cursor in cursors)


def test_asyncpg(weir):
    async def talk():
        connection = await asyncpg.connect(host="127.0.0.1", port=weir.port, user="admin",
                                           database="pgbouncer", timeout=LIMIT,
                                           server_settings={"application_name": "asyncpg"})
        try:
            rows = await connection.fetch("SHOW POOLS")
            assert rows[0]["database"] == "pgbouncer"
            assert (await connection.fetchval("SHOW VERSION")).startswith("PgBouncer ")
            assert await connection.fetchval("SELECT 1") in (1, "1")
            await connection.execute("RELOAD")
            with pytest.raises(asyncpg.PostgresError, match="invalid command"):
                await connection.fetch("NONSENSE")
            assert await connection.fetch("SHOW STATS")
        finally:
            await connection.close()

    asyncio.run(talk())


def test_asyncpg_pool(weir):
    async def talk():
        async with asyncpg.create_pool(host="127.0.0.1", port=weir.port, user="admin",
                                       database="pgbouncer", min_size=1, max_size=3,
                                       timeout=LIMIT) as pool:
            for _ in range(5):
                async with pool.acquire() as connection:
                    assert await connection.fetch("SHOW LISTS")

    asyncio.run(talk())


def test_pg8000(weir):
    connection = pg8000.connect(user="admin", host="127.0.0.1", port=weir.port,
                                database="pgbouncer", password="admin secret")
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("SHOW VERSION")
    assert cursor.fetchone()[0].startswith("PgBouncer ")
    cursor.execute("SHOW POOLS")
    assert [column[0] in ("database", b"database") for column in cursor.description][0]
    connection.close()


def test_pg8000_and_asyncpg_work_through_the_pooler(pgweir):
    weir = pgweir(pool_mode="session")
    connection = pg8000.connect(user="alice", host="127.0.0.1", port=weir.port, database="app",
                                password="alice secret")
    cursor = connection.cursor()
    cursor.execute("SELECT %s + 1", (41,))
    assert tuple(cursor.fetchone()) == (42,)
    connection.close()

    async def talk():
        connection = await asyncpg.connect(host="127.0.0.1", port=weir.port, user="alice",
                                           database="app", timeout=LIMIT)
        assert await connection.fetchval("SELECT $1::int + 1", 41) == 42
        async with connection.transaction():
            assert await connection.fetchval("SELECT count(*) FROM generate_series(1, 10)") == 10
        await connection.close()

    asyncio.run(talk())


def test_asyncpg_without_statement_cache_in_transaction_mode(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)

    async def talk():
        connections = [await asyncpg.connect(host="127.0.0.1", port=weir.port, user="alice",
                                             database="app", timeout=LIMIT, statement_cache_size=0)
                       for _ in range(5)]
        for connection in connections:
            assert await connection.execute("SELECT 1") == "SELECT 1"
        for connection in connections:
            await connection.close()

    asyncio.run(talk())
