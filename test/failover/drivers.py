# SPDX-License-Identifier: ISC
"""Programs of drivers as the clients: see test/drivers/python/failover.py."""

import collections
import subprocess
import threading

from drivers import build

# What PostgreSQL or pgweir says when a statement may have run.
LOST = ("57P01", "57P02", "08006")
# What drivers say instead, if they find the connection closed before they have read that.
OWN_WORDS = (
    "consuming input failed: ", "cannot exit pipeline mode while busy",  # psycopg
    "connection is closed", "connection was closed in the middle of operation",  # asyncpg
    "conn closed",  # pgx
    "driver: bad connection",  # lib/pq, even if it has read that
    "Client has encountered a connection error and is not queryable",  # node-postgres
    "write CONNECTION_CLOSED", "reading 'write'",  # postgres.js
    "connection closed",  # tokio-postgres
    "General error: 7 ",  # PDO, with what was read
)
NOTHING_RAN = ("connect", "begin")  # stages that no failover may disturb


class Program(threading.Thread):
    """One driver's program, with several clients. It ends when its input ends."""

    def __init__(self, board, driver, variant, port):
        super().__init__(name=f"{driver.name}-{variant}", daemon=True)
        self.board, self.counts = board, collections.Counter()
        environment = build.environment_of(
            driver, PGHOST="127.0.0.1", PGPORT=str(port), PGUSER="alice", PGDATABASE="app",
            PGSSLMODE="disable", PGAPPNAME=self.name)
        self.process = subprocess.Popen(
            [*driver.failover, variant, "failover"], cwd=driver.place, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self):
        for line in self.process.stdout:
            self.take(*line.rstrip("\n").split("\t"))
        if self.process.wait():
            self.board.find(f"{self.name} ended with {self.process.returncode}")

    def take(self, outcome, *fields):
        if outcome == "ok" and len(fields) == 2:
            self.board.note(fields[1].split())
            self.counts["done"] += 1
        elif outcome == "failed" and len(fields) == 5:
            kind, stage, sqlstate, words, rows = fields
            is_lost = sqlstate in LOST or any(own in words for own in OWN_WORDS)
            self.board.note_failure(f"{self.name} {kind} {stage}", f"{sqlstate} {words}",
                                    rows.split(), is_lost and stage not in NOTHING_RAN)
            self.counts["failed"] += 1
        else:
            self.board.find(f"{self.name}: {outcome} {' '.join(fields)}"[:200])

    def join(self, timeout=None):
        self.process.stdin.close()
        super().join(timeout)
        if self.is_alive():
            self.process.kill()
        print(f"failover: {self.name}: {self.counts['done']} done, {self.counts['failed']} failed")


def programs(board, names, port):
    """Of the drivers with these names, or of all; prints those that are not available."""
    chosen = [driver for driver in build.DRIVERS
              if driver.failover and (not names or driver.name in names.split(","))]
    for driver in list(chosen):
        missing = build.missing_tool(driver)
        if missing:
            print(f"failover: {driver.name} is left out: there is no {missing}")
            chosen.remove(driver)
        else:
            build.build(driver)
    return [Program(board, driver, variant, port)
            for driver in chosen for variant in driver.variants]
