# SPDX-License-Identifier: ISC
"""asyncpg. It prepares whatever it runs."""

import asyncio
import functools
import io
import sys

import asyncpg
from harness import (CONNECTIONS, LINES, PAYLOADS, TEXTS, failed, in_turn, ok, same,
                     session_steps)

DIVIDE = "SELECT 10 / $1::int"
COUNT = "SELECT count(*) FROM driver_rows WHERE who = $1"
DELETE = "DELETE FROM driver_rows WHERE who = $1"
INSERT = "INSERT INTO driver_rows VALUES ($1, $2)"


async def must_fail(error, awaited):
    try:
        await awaited
    except error:
        return
    raise AssertionError("no error came")


async def simple(connection, _who):
    same(await connection.execute("SELECT 1; SELECT 2"), "SELECT 1")


async def prepared(connection, _who):
    for _ in range(2):
        for number in range(TEXTS):
            for again in range(2):
                same(await connection.fetchval(f"SELECT $1::int + {number}", again),
                     again + number)
    statement = await connection.prepare("SELECT $1::text || 'x'")
    same([await statement.fetchval(word) for word in "ab"], ["ax", "bx"])


async def rollback(connection, who):
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(INSERT, who, 1)
    same(await connection.fetchval(COUNT, who), 1)
    await transaction.rollback()
    same(await connection.fetchval(COUNT, who), 0)
    async with connection.transaction():
        await connection.execute(INSERT, who, 2)
    same(await connection.fetchval(COUNT, who), 1)
    await connection.execute(DELETE, who)


async def recovery(connection, _who):
    await must_fail(asyncpg.DivisionByZeroError, connection.fetchval(DIVIDE, 0))
    await must_fail(asyncpg.UndefinedTableError, connection.fetch("SELECT $1::int FROM nowhere", 1))
    same(await connection.fetchval(DIVIDE, 5), 2)
    async with connection.transaction():
        try:
            async with connection.transaction():
                await connection.fetchval(DIVIDE, 0)
        except asyncpg.DivisionByZeroError:
            pass
        same(await connection.fetchval(DIVIDE, 2), 5)
    transaction = connection.transaction()
    await transaction.start()
    await must_fail(asyncpg.DivisionByZeroError, connection.fetchval(DIVIDE, 0))
    await must_fail(asyncpg.InFailedSQLTransactionError, connection.fetchval(DIVIDE, 1))
    await transaction.rollback()


async def copy(connection, who):
    await connection.copy_records_to_table("driver_rows", records=[(who, number)
                                                                   for number in range(LINES)])
    out = io.BytesIO()
    await connection.copy_from_query("SELECT number FROM driver_rows WHERE who = $1 ORDER BY 1",
                                     who, output=out)
    same(out.getvalue().split(), [str(number).encode() for number in range(LINES)])
    await connection.execute(DELETE, who)


async def batch(connection, who):
    await connection.executemany(INSERT, [(who, number) for number in range(20)])
    same(await connection.fetchval(COUNT, who), 20)
    await must_fail(asyncpg.DivisionByZeroError, connection.executemany(DIVIDE, [(1,), (0,), (2,)]))
    await connection.execute(DELETE, who)


async def cursor(connection, _who):
    async with connection.transaction():
        rows = connection.cursor("SELECT generate_series(1, $1::int)", 100, prefetch=10)
        same([row[0] async for row in rows], list(range(1, 101)))


async def cancel(connection, _who):
    await must_fail(asyncio.TimeoutError, connection.fetchval("SELECT pg_sleep($1)", 60,
                                                              timeout=0.2))
    same(await connection.fetchval(DIVIDE, 5), 2)


async def notices(connection, who):
    told = []

    def listener(_connection, said):
        told.append(said.message)

    connection.add_log_listener(listener)
    await connection.execute(f"DO $$ BEGIN RAISE NOTICE '{who}'; END $$")
    await asyncio.sleep(0)  # listeners are called from the loop
    connection.remove_log_listener(listener)
    same(told, [who])


async def follow(steps, connection, who):
    for statement, result in steps:
        try:
            got = await connection.fetchval(statement.replace("{n}", who[-1]))
        except asyncpg.PostgresError as error:
            if result != "*":
                raise AssertionError(f"{statement}: {error}") from error
            continue
        if result not in (None, "*"):
            same((statement, got), (statement, result.replace("{n}", who[-1])))


async def listen(connection, who):
    channel, told = f"channel_{who[-1]}", asyncio.Queue()

    def listener(_connection, _pid, _channel, payload):
        told.put_nowait(payload)

    await connection.add_listener(channel, listener)
    other = await asyncpg.connect()
    for payload in PAYLOADS[:-1]:
        await other.execute("SELECT pg_notify($1, $2)", channel, payload)
    await other.close()
    await connection.execute(f"NOTIFY {channel}, '{PAYLOADS[-1]}'")
    same([await told.get() for _ in PAYLOADS], PAYLOADS)
    await connection.remove_listener(channel, listener)
    await connection.execute(f"NOTIFY {channel}, 'nobody listens'")
    same(told.empty(), True)


async def leave_clean(connection, who):
    """As asyncpg's pool resets a connection before it gives it to somebody else."""
    await connection.execute(f"SET work_mem = '12{who[-1]}MB'")
    await connection.execute(f"SET app.tenant = '{who}'")
    same(await connection.fetchval("SELECT current_setting('app.tenant')"), who)
    await connection.reset()
    same(await connection.fetchval("SELECT nullif(current_setting('app.tenant', true), '')"), None)


PLAIN = (simple, prepared, rollback, recovery, copy, batch, cursor, cancel, notices)
if sys.argv[2:] == ["session"]:
    SCENARIOS = {name: functools.partial(follow, steps) for name, steps in session_steps().items()}
    SCENARIOS.update(listen=listen, leave_clean=leave_clean)
else:
    SCENARIOS = {function.__name__: function for function in PLAIN}


async def work(number):
    name = "connect"
    try:
        connection = await asyncpg.connect()
        for name, scenario in in_turn(SCENARIOS, number):
            await scenario(connection, f"connection {number}")
            ok(name)
        name = "leave"
        await connection.close()
    except Exception as error:  # pylint: disable=broad-except
        failed(name, number, error)


async def main():
    await asyncio.gather(*map(work, range(CONNECTIONS)))


asyncio.run(main())
