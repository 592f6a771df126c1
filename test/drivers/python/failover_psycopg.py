# SPDX-License-Identifier: ISC
"""psycopg 3 while hosts fail. The argument is prepare_threshold."""

import asyncio
import logging
import sys
import threading

import psycopg
from failover import CLIENTS, INPUT_OVER, PAUSE, Client, wait_for_end_of_input

INSERT = "INSERT INTO written VALUES (%s)"
logging.getLogger("psycopg").setLevel(logging.ERROR)  # not of lost connections
OPTIONS = {"prepare_threshold": int(sys.argv[1])}


def autocommit(client):
    client.connection.execute(INSERT, client.new_row())


def simple(client):
    psycopg.ClientCursor(client.connection).execute(INSERT, client.new_row())


def transaction(client):
    client.stage = "begin"
    with client.connection.transaction():
        client.stage = "work"
        autocommit(client)
        autocommit(client)
        client.stage = "commit"


def implicit(client):
    """psycopg's default: it sends BEGIN by itself."""
    client.connection.autocommit = False
    autocommit(client)
    autocommit(client)
    client.stage = "commit"
    client.connection.commit()


def pipeline(client):
    """One implicit transaction: there is one Sync."""
    with client.connection.pipeline():
        autocommit(client)
        autocommit(client)


def pipelined_transaction(client):
    """BEGIN and what follows are sent together."""
    with client.connection.pipeline(), client.connection.transaction():
        autocommit(client)
        autocommit(client)


def many(client):
    cursor = client.connection.cursor()
    cursor.executemany(INSERT, [client.new_row() for _ in range(3)])


def run(client):
    while not INPUT_OVER.wait(PAUSE):
        client.begin_step()
        try:
            if not client.connection:
                client.connection = psycopg.connect("", autocommit=True, **OPTIONS)
                client.stage = "work"
            client.step(client)
            client.done()
        except psycopg.Error as error:
            client.failed(error)


async def async_autocommit(client):
    await client.connection.execute(INSERT, client.new_row())


async def async_transaction(client):
    client.stage = "begin"
    async with client.connection.transaction():
        client.stage = "work"
        await async_autocommit(client)
        await async_autocommit(client)
        client.stage = "commit"


async def run_async(client):
    while not INPUT_OVER.is_set():
        client.begin_step()
        try:
            if not client.connection:
                client.connection = await psycopg.AsyncConnection.connect("", autocommit=True,
                                                                          **OPTIONS)
                client.stage = "work"
            await client.step(client)
            client.done()
        except psycopg.Error as error:
            client.failed(error)
        await asyncio.sleep(PAUSE)


def clients(*steps):
    return [Client(step, number) for step in steps for number in range(CLIENTS)]


async def run_all_async():
    await asyncio.gather(*map(run_async, clients(async_autocommit, async_transaction)))


threads = [threading.Thread(target=run, args=(client,)) for client in clients(
    autocommit, simple, transaction, implicit, pipeline, pipelined_transaction, many)]
threads.append(threading.Thread(target=asyncio.run, args=(run_all_async(),)))
for thread in threads:
    thread.start()
wait_for_end_of_input()
for thread in threads:
    thread.join()
