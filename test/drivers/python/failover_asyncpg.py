# SPDX-License-Identifier: ISC
"""asyncpg while hosts fail."""

import asyncio

import asyncpg
from failover import CLIENTS, INPUT_OVER, PAUSE, Client, wait_for_end_of_input

INSERT = "INSERT INTO written VALUES ($1)"
ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)


async def autocommit(client):
    await client.connection.execute(INSERT, *client.new_row())


async def simple(client):
    await client.connection.execute("INSERT INTO written VALUES ('%s')" % client.new_row())


async def transaction(client):
    client.stage = "begin"
    async with client.connection.transaction():
        client.stage = "work"
        await autocommit(client)
        await autocommit(client)
        client.stage = "commit"


async def many(client):
    await client.connection.executemany(INSERT, [client.new_row() for _ in range(3)])


async def run(client):
    while not INPUT_OVER.is_set():
        client.begin_step()
        try:
            if not client.connection:
                client.connection = await asyncpg.connect()
                client.stage = "work"
            await client.step(client)
            client.done()
        except ERRORS as error:
            client.failed(error)
        await asyncio.sleep(PAUSE)


async def main():
    steps = (autocommit, simple, transaction, many)
    waiting = asyncio.get_running_loop().run_in_executor(None, wait_for_end_of_input)
    await asyncio.gather(waiting, *(run(Client(step, number)) for step in steps
                                    for number in range(CLIENTS)))


asyncio.run(main())
