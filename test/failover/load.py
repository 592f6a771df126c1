# SPDX-License-Identifier: ISC
"""Clients that know afterwards what must be in the table, and which of their errors may be."""

import collections
import contextlib
import statistics
import threading
import time

import psycopg

# The statement may have run when the server was lost: PostgreSQL's last words, or none.
MAY_HAVE_RUN = ("terminating connection", "server conn crashed", "server closed the connection",
                "server ended the connection", "the connection is lost", "host is fenced")
PAUSE = 0.005  # seconds between two statements of a client

TABLE = ("CREATE TABLE written (id text); CREATE TABLE counts (client text PRIMARY KEY, i int);"
         " GRANT ALL ON written, counts TO PUBLIC;")


class Board:
    """What all clients have done."""

    def __init__(self, conninfo, reads_alone=False):
        self.conninfo = conninfo
        self.reads_alone = reads_alone  # a SELECT outside of a transaction may go to a standby
        self.is_over = threading.Event()
        self._lock = threading.Lock()
        self.acknowledged = set()
        self.doubtful = set()
        self.done_at = []
        self.excused = collections.Counter()  # errors of statements that may have run
        self.findings = collections.Counter()
        self.reads = collections.Counter()  # of Causal: by whether a standby has served them

    def note(self, ids=()):
        with self._lock:
            self.acknowledged.update(ids)
            self.done_at.append(time.monotonic())

    def note_error(self, kind, error, ids, is_open):
        text = str(error).strip().split("\n")[0]
        may_have_run = any(words in text for words in MAY_HAVE_RUN)
        kind += " (in a transaction)" if may_have_run and is_open else ""
        self.note_failure(kind, f"{getattr(error, 'sqlstate', None)} {text}", ids, may_have_run)

    def note_failure(self, kind, text, ids, may_have_run):
        with self._lock:
            self.doubtful.update(ids)
            (self.excused if may_have_run else self.findings)[f"{kind}: {text[:160]}"] += 1

    def note_read(self, is_standby):
        with self._lock:
            self.reads[is_standby] += 1

    def find(self, text):
        with self._lock:
            self.findings[text] += 1

    def first_after(self, moment):
        """Seconds from that moment to the next statement that succeeded. None: there was none."""
        with self._lock:
            later = [at for at in self.done_at if at >= moment]
        return min(later) - moment if later else None

    def compare(self, rows):
        """The rows of the table, as they are in the end."""
        counts = collections.Counter(rows)
        for what, ids in (("written twice", [one for one, count in counts.items() if count > 1]),
                          ("acknowledged and lost", self.acknowledged - set(counts)),
                          ("never sent", set(counts) - self.acknowledged - self.doubtful)):
            if ids:
                self.findings[f"{what}: {len(ids)}, for example {sorted(ids)[0]}"] += 1


class Client(threading.Thread):
    """Does one thing again and again, on one connection as long as that lives."""

    def __init__(self, board, number):
        super().__init__(name=f"{type(self).__name__} {number}", daemon=True)
        self.board, self.number, self.count = board, number, 0
        self.connection, self.pending, self.is_open = None, (), False

    def run(self):
        while not self.board.is_over.is_set():
            self.once()
            self.board.is_over.wait(PAUSE)
        if self.connection:
            self.connection.close()

    def once(self):
        self.pending, self.is_open = (), False
        try:
            if not self.connection:
                self.connect()
            self.step()
        except psycopg.Error as error:
            self.board.note_error(type(self).__name__, error, self.pending, self.is_open)
            if self.connection:
                self.connection.close()
            self.connection = None
            return
        self.board.note(self.pending)

    def connect(self):
        self.connection = psycopg.connect(self.board.conninfo, autocommit=True,
                                          application_name=self.name)
        self.connection.prepare_threshold = None

    def new_id(self):
        self.count += 1
        self.pending += (f"{self.name} {self.count}",)
        return self.pending[-1]

    def insert(self, **kw):
        self.connection.execute("INSERT INTO written VALUES (%s)", (self.new_id(),), **kw)


class Writer(Client):
    def step(self):
        self.insert()


class Prepared(Client):
    def step(self):
        self.insert(prepare=True)


class Reader(Client):
    def step(self):
        row = self.connection.execute("SELECT %s::int, pg_is_in_recovery()",
                                      (self.count,)).fetchone()
        if row != (self.count, False):
            self.board.find(f"Reader: {row} instead of {(self.count, False)}")
        self.count += 1


class InTransaction(Client):
    def step(self):
        with self.connection.transaction():
            self.is_open = True
            self.insert()
            self.insert()


class WithState(Client):
    """Its parameters follow it to any server."""

    def connect(self):
        super().connect()
        self.connection.execute(f"SET app.own = '{self.name}'")

    def step(self):
        (own,) = self.connection.execute("SELECT current_setting('app.own')").fetchone()
        if own != self.name:
            self.board.find(f"WithState: {own} instead of {self.name}")
        self.insert()


class AtRest(Client):
    """Sends nothing while hosts fail, and must not notice anything."""

    def run(self):
        self.once()

    def step(self):
        self.connection.execute("SELECT 1")

    def wake(self):
        if not self.connection:
            self.board.find("AtRest: could not connect at the beginning")
            return
        self.once()
        if not self.connection:
            self.board.find("AtRest: lost its connection")


class Causal(Client):
    """Counts up in its own row, and reads what it and the others have written: never less than
    before."""

    READ = ("SELECT (SELECT i FROM counts WHERE client = %s), (SELECT sum(i) FROM counts),"
            " pg_is_in_recovery()")
    least = total = 0  # acknowledged of its own, and seen of all

    def write(self):
        self.count += 1
        sql = ("INSERT INTO counts VALUES (%s, %s) ON CONFLICT (client) DO UPDATE SET"
               " i = EXCLUDED.i")
        if self.count % 3:
            psycopg.ClientCursor(self.connection).execute(sql, (self.name, self.count))
        else:
            with self.connection.transaction():
                self.is_open = True
                self.connection.execute(sql, (self.name, self.count))
        self.is_open = False
        self.least = self.count

    def read(self):
        if self.board.reads_alone and self.count % 2:
            cursor = (psycopg.ClientCursor(self.connection) if self.count % 4 == 1
                      else self.connection)
            return cursor.execute(self.READ, (self.name,)).fetchone()
        with self.reading():
            return self.connection.execute(self.READ, (self.name,)).fetchone()

    @contextlib.contextmanager
    def reading(self):
        """A transaction that may run on a standby."""
        self.connection.read_only = True
        try:
            with self.connection.transaction():
                self.is_open = True
                yield
        finally:
            self.connection.read_only = None
            self.is_open = False

    def step(self):
        self.write()
        for _ in range(2):
            own, total, is_standby = self.read()
            if not self.least <= own <= self.count or total < self.total:
                self.board.find(f"Causal: stale, {own} of all {total} instead of {self.least} of"
                                f" {self.total}, {'on a standby' if is_standby else ''}")
            self.total = total
            self.board.note_read(is_standby)


class CausalWithState(Causal):
    """The same, and its parameters follow it to the standbys and back."""

    def connect(self):
        super().connect()
        self.connection.execute(f"SET app.own = '{self.name}'")

    def check(self):
        (own,) = self.connection.execute("SELECT current_setting('app.own')").fetchone()
        if own != self.name:
            self.board.find(f"CausalWithState: {own} instead of {self.name}")

    def write(self):
        super().write()
        self.check()

    def read(self):
        row = super().read()
        with self.reading():
            self.check()
        return row


KINDS = (Writer, Reader, Prepared, InTransaction, WithState)
READING = (Causal, CausalWithState)  # with --reads


def crowd(board, count, kinds=KINDS):
    return [kinds[number % len(kinds)](board, number) for number in range(count)]


def summary(seconds):
    if not seconds:
        return "no times"
    return (f"median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s"
            f" of {len(seconds)}")
