# SPDX-License-Identifier: ISC
"""Clients of an application that sees a restart: they run transactions at a steady rate.

Each client starts its transactions on a schedule of its own, so that a pooler that stops for a
moment does not also lower the demand. A client whose connection is lost connects again, as a
connection pool does; with an error alone it stays connected. Everything runs in one thread, by
asyncio, and speaks the protocol itself.
"""

import asyncio
import dataclasses
import os
import random
import struct
import time

from idle_clients import message, startup

RETRY_S = 0.05  # between two attempts to connect
LIMIT_S = 30  # for one answer


@dataclasses.dataclass(frozen=True)
class Work:
    """One transaction: each text is a query of its own, `pause_s` lies between two of them."""

    texts: tuple
    every_s: float
    pause_s: float = 0
    is_random: bool = False  # every_s is the average of an exponential distribution

    def gap_s(self):
        return random.expovariate(1 / self.every_s) if self.is_random else self.every_s


@dataclasses.dataclass
class Seen:
    """What the application saw: all times are those of time.monotonic()."""

    committed: list = dataclasses.field(default_factory=list)  # (end, seconds it took)
    failed: list = dataclasses.field(default_factory=list)  # (time, text of the error)
    refused: list = dataclasses.field(default_factory=list)  # (time, text of the error)


class Refused(Exception):
    """The server answered with an error, and the connection is of no further use."""


class Failed(Refused):
    """The server answered with an error, and is ready for the next transaction."""


def _text_of(body):
    fields = dict((part[:1], part[1:]) for part in body.split(b"\0") if part)
    return fields.get(b"M", b"").decode(errors="replace")


def _words_of(error):
    return os.strerror(error.errno) if error.errno else str(error)


class Client:
    def __init__(self, port, user, database, work, seen):
        self.port, self.work, self.seen = port, work, seen
        self.startup = startup(user, database)
        self.reader = self.writer = None

    async def _until_ready(self):
        """Reads to the next ReadyForQuery; raises if there was an error before it or instead."""
        error = None
        while True:
            try:
                head = await self.reader.readexactly(5)
                body = await self.reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
            except (OSError, asyncio.IncompleteReadError):
                raise Refused(error or "connection lost") from None
            if head[:1] == b"E":
                error = _text_of(body)
            if head[:1] == b"Z":
                if error:
                    raise (Failed if body == b"I" else Refused)(error)
                return

    async def _ask(self, data):
        self.writer.write(data)
        await asyncio.wait_for(self._until_ready(), LIMIT_S)

    async def _connect(self):
        while not self.writer:
            try:
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
                await self._ask(self.startup)
            except OSError as error:
                self._lost(self.seen.refused, _words_of(error))
                await asyncio.sleep(RETRY_S)
            except Refused as error:
                self._lost(self.seen.refused, str(error))
                await asyncio.sleep(RETRY_S)

    def _lost(self, errors, words):
        errors.append((time.monotonic(), words))
        self._leave()

    def _leave(self):
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None

    async def _transaction(self):
        begin = time.monotonic()
        try:
            for number, text in enumerate(self.work.texts):
                if number and self.work.pause_s:
                    await asyncio.sleep(self.work.pause_s)
                await self._ask(message(b"Q", text.encode() + b"\0"))
        except Failed as error:
            self.seen.failed.append((time.monotonic(), str(error)))
        except Refused as error:
            self._lost(self.seen.failed, str(error))
        else:
            end = time.monotonic()
            self.seen.committed.append((end, end - begin))

    async def run(self, first, end):
        """Transactions from `first` on, until `end`. Turns that were missed are not made up for."""
        turn = first
        await self._connect()
        while turn < end:
            await asyncio.sleep(max(0, turn - time.monotonic()))
            await self._connect()
            await self._transaction()
            turn += self.work.gap_s()
            while turn < time.monotonic():
                turn += self.work.gap_s()
        self._leave()


async def run(clients, begin, seconds):
    """All of them from `begin` on; their schedules are spread evenly."""
    await asyncio.gather(*(
        client.run(begin + client.work.every_s * number / len(clients), begin + seconds)
        for number, client in enumerate(clients)))
