# SPDX-License-Identifier: ISC
"""A crowd of clients under load, each as a connection pool's library would be.

Each member writes a row in each of its transactions, so that lost or duplicate transactions can be
detected. It reconnects only if that is safe: when a login is refused because the other side is
shutting down, and when it gets 57P01 before the first response of a transaction. Any other end of
a connection, and any error, is a failure and is stored in `failures`.
"""

import threading

from .wait import wait_until
from .wire import Closed, Refused, Wire, query

GOING = ("57P01", "57P03")  # a login that may be tried again


class Gone(Exception):
    """No server accepts connections any more."""


class Crowd:
    def __init__(self, address, count, table="crowd", renew=None, may_end=False):
        """renew: number of transactions after which a connection is replaced by a new one.
        may_end: if the other side closes connections between transactions, with or without a
        message, and accepts no new ones, that is no failure; the members end.
        """
        self.address, self.table, self.renew, self.may_end = address, table, renew, may_end
        self.failures = []
        self.done = [0] * count  # acknowledged transactions of each member
        self.moves = 0           # connections that were closed between transactions
        self.retries = 0         # logins refused because the other side was shutting down
        self._lock = threading.Lock()
        self._stopping = False
        self._threads = [threading.Thread(target=self._live, args=(number,), daemon=True)
                         for number in range(count)]

    @staticmethod
    def table_of(postgres, name="crowd"):
        postgres.query(f"CREATE TABLE IF NOT EXISTS {name} (member int, number int)")
        postgres.query(f"TRUNCATE {name}")
        postgres.query(f"GRANT ALL ON {name} TO PUBLIC")
        return name

    def start(self):
        for thread in self._threads:
            thread.start()
        self.wait_progress(1)
        return self

    def wait_progress(self, each=1):
        """Waits until every member has completed this many more transactions."""
        goals = [count + each for count in self.done]
        wait_until(lambda: self.failures or
                   all(now >= goal for now, goal in zip(self.done, goals)),
                   60, "progress of every member")
        assert not self.failures, self.failures[:5]

    def stop(self):
        self._stopping = True
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads), "a member hangs"
        assert not self.failures, self.failures[:5]

    def wait_end(self):
        """Waits until all members have ended by themselves."""
        wait_until(lambda: not any(thread.is_alive() for thread in self._threads), 60,
                   "the end of every member")
        assert not self.failures, self.failures[:5]

    def give_up(self):
        self._stopping = True

    def check(self, postgres):
        """Each acknowledged transaction is in the table exactly once, and no other is."""
        rows = postgres.query(f"SELECT member, count(*), count(DISTINCT number) FROM {self.table}"
                              " GROUP BY 1 ORDER BY 1")
        expected = [(number, count, count) for number, count in enumerate(self.done) if count]
        assert [tuple(row) for row in rows] == expected

    # -- a member ---------------------------------------------------------------------------------

    def _live(self, number):
        wire = None
        try:
            while not self._stopping:
                wire = wire or self._connect()
                if not self._transact(wire, number):
                    self._count("moves")
                    wire.close()
                    wire = None
                elif self.renew and self.done[number] % self.renew == 0:
                    wire.close()
                    wire = None
        except Gone:
            pass
        except Exception as error:  # any exception is a failure
            self.failures.append(f"member {number}: {type(error).__name__}: {error}")
        finally:
            if wire:
                wire.close()

    def _count(self, name):
        with self._lock:
            setattr(self, name, getattr(self, name) + 1)

    def _connect(self):
        while True:
            try:
                wire = Wire(self.address, limit=60)
            except ConnectionRefusedError:
                if not self.may_end:
                    raise
                raise Gone from None
            try:
                return wire.login()
            except Refused as refused:
                wire.close()
                if refused.sqlstate not in GOING:
                    raise
                self._count("retries")

    def _transact(self, wire, number):
        """Returns False if the connection was closed before the transaction began."""
        try:
            wire.send(query("BEGIN"))
        except (BrokenPipeError, ConnectionResetError):
            pass  # messages sent before the close must still be read
        try:
            first = wire.read()
        except Closed:
            if not self.may_end:
                raise
            return False
        if first.type == "E" and first.fields["C"] == "57P01":
            return False
        assert first.type == "C", first
        assert wire.read_result().status == "T"
        count = self.done[number]
        for sql, tag in ((f"INSERT INTO {self.table} VALUES ({number}, {count})", "INSERT 0 1"),
                         ("COMMIT", "COMMIT")):
            result = wire.query(sql)
            assert result.tags == [tag], result.errors
        self.done[number] += 1
        return True
