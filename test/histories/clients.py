# SPDX-License-Identifier: ISC
"""Clients that write down what they ask for and what they are told."""

import contextlib
import random
import threading
import time

import psycopg
from e2e.kit.wire import Closed, Refused, Wire, query, send_cancel
from failover.load import MAY_HAVE_RUN, PAUSE

from .check import FAILED, OK, UNKNOWN, Op, Transaction

TABLES = """
CREATE TABLE registers (key text PRIMARY KEY, value int NOT NULL);
CREATE TABLE lists (key text PRIMARY KEY, items int[] NOT NULL);
CREATE TABLE counters (client text PRIMARY KEY, i int NOT NULL);
CREATE FUNCTION hide(text) RETURNS text LANGUAGE plpgsql AS
  $$ BEGIN RETURN set_config('histories.' || 'hidden', $1, false); END $$;
GRANT ALL ON registers, lists, counters TO PUBLIC;
"""

# Nothing of it was done: a cancel request, what SERIALIZABLE refuses, a deadlock, the rest of a
# transaction that has failed.
CERTAIN = {"57014", "40001", "40P01", "25P02"}
NOT_COMMITTED = "The transaction was not committed."
IDLE = psycopg.pq.TransactionStatus.IDLE
PER_KEY = 40  # operations with one register, so that its history can be decided
LISTS = 6


class History:
    """What all clients have written down."""

    def __init__(self):
        self._lock = threading.Lock()
        self.registers, self.transactions, self.counters, self.states = [], [], [], []

    def add(self, kind, entry):
        with self._lock:
            getattr(self, kind).append(entry)

    def count(self):
        every = self.registers + self.transactions + self.counters + self.states
        return {word: sum(op.outcome == word for op in every) for word in (OK, FAILED, UNKNOWN)}


class Client(threading.Thread):
    """Does one thing again and again, on one connection as long as that lives."""

    database = "app"

    def __init__(self, scene, number):
        super().__init__(name=f"{type(self).__name__} {number}", daemon=True)
        self.scene, self.number, self.count = scene, number, 0
        self.rng = random.Random(f"{scene.seed} {self.name}")
        self.connection = None

    def run(self):
        try:
            while not self.scene.board.is_over.is_set():
                if self.connection or self.connect():
                    self.step()
                self.scene.board.is_over.wait(PAUSE * self.rng.random())
        except Exception as failure:  # the main thread looks at it
            self.scene.board.find(f"{self.name}: {type(failure).__name__}: {failure}")
        self.drop()

    def connect(self):
        try:
            self.connection = psycopg.connect(
                host="127.0.0.1", port=self.scene.weir.port, dbname=self.database, user="alice",
                autocommit=True, application_name=self.name)
        except psycopg.Error as error:
            self.judge(error, "connect")
            return False
        if self.number % 2:
            self.connection.prepare_threshold = 0
        return True

    def drop(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def cancel(self):
        """From another thread."""
        connection = self.connection
        with contextlib.suppress(psycopg.Error, OSError):
            if connection and not connection.closed:
                connection.cancel()

    def judge(self, error, what):
        """Whether it may have been done; an error that nothing explains is a finding."""
        text = str(error).strip().replace("\n", " ")
        state = getattr(error, "sqlstate", None)
        if state in CERTAIN or (NOT_COMMITTED in text):
            outcome = FAILED
        elif any(words in text for words in MAY_HAVE_RUN):
            outcome = UNKNOWN
        else:
            self.scene.board.find(f"{type(self).__name__} {what}: {state} {text[:200]}")
            outcome = UNKNOWN
        if self.connection and (self.connection.closed or state is None):
            self.drop()
        return outcome

    def roll_back(self):
        """A cancel request may hit the ROLLBACK, too."""
        try:
            while self.connection and self.connection.info.transaction_status != IDLE:
                with contextlib.suppress(psycopg.errors.QueryCanceled):
                    self.connection.execute("ROLLBACK")
        except psycopg.Error:
            self.drop()

    def attempt(self, kind, op, work):
        """Does the work, and writes the operation down as it ended."""
        op.client, op.begin = self.name, time.monotonic()
        try:
            work(op)
            self.scene.board.note()
        except psycopg.Error as error:
            op.outcome, op.why = self.judge(error, op.kind), str(error).replace("\n", " ")
        op.end = time.monotonic()
        self.scene.history.add(kind, op)
        return op.outcome == OK

    def new_value(self):
        """Unique among all clients."""
        self.count += 1
        return self.count * 1000 + self.number


class Register(Client):
    """Reads, writes and swaps values of registers that others use at the same time."""

    def key(self):
        return self.scene.register_of(self.number // 4)

    def step(self):
        key = self.key()
        work = self.rng.choice((self.read, self.read, self.write, self.swap))
        work(key)

    def read(self, key):
        def work(op):
            row = self.connection.execute(
                "SELECT value FROM registers WHERE key = %s", (key,)).fetchone()
            op.value = row[0] if row else 0

        self.attempt("registers", Op("", "read", key), work)

    def write(self, key):
        def work(op):
            self.connection.execute("INSERT INTO registers VALUES (%s, %s) ON CONFLICT (key) DO"
                                    " UPDATE SET value = EXCLUDED.value", (key, op.value))

        self.attempt("registers", Op("", "write", key, self.new_value()), work)

    def swap(self, key):
        """Only where there is a row: a missing one is 0, which is never the old value."""
        row = None
        with contextlib.suppress(psycopg.Error):
            row = self.connection.execute(
                "SELECT value FROM registers WHERE key = %s", (key,)).fetchone()
        if not row:
            if self.connection.closed:
                self.drop()
            return
        old, new = row[0], self.new_value()

        def work(op):
            cursor = self.connection.execute("UPDATE registers SET value = %s WHERE key = %s AND"
                                             " value = %s", (new, key, old))
            op.value = (old, new, cursor.rowcount == 1)

        self.attempt("registers", Op("", "swap", key, (old, new, None)), work)


class Lists(Client):
    """Transactions that read lists and append to others, so that none sees half of another."""

    APPEND = "UPDATE lists SET items = items || %s WHERE key = %s"
    BEGIN = "BEGIN ISOLATION LEVEL SERIALIZABLE"

    def step(self):
        keys = self.rng.sample(self.scene.lists(), 3)
        read = keys[:self.rng.randrange(3)]
        appended = [(key, self.new_value()) for key in keys[len(read):]]
        each = Transaction(self.name, appended)
        outcome = OK
        try:
            self.play(each, read, appended)
            self.scene.board.note()
        except psycopg.Error as error:
            outcome = self.judge(error, "transaction")
            self.roll_back()
        each.outcome = outcome
        self.scene.history.add("transactions", each)

    def play(self, each, read, appended):
        run = self.connection.execute
        run(self.BEGIN)
        for key in read:
            each.read[key] = run("SELECT items FROM lists WHERE key = %s", (key,)).fetchone()[0]
        for key, element in appended:
            run(self.APPEND, (element, key))
        run("COMMIT")


class InOneWrite(Client):
    """The same in one write: BEGIN, the appends and COMMIT each are a message of their own, as some
    drivers send them. All of them or none.
    """

    def connect(self):
        try:
            self.connection = Wire(self.scene.weir.address, 60).login(
                "alice", self.database, application_name=self.name)
        except (Refused, Closed, OSError) as error:
            if isinstance(error, Refused):
                self.judge(error, "connect")
            return False
        return True

    def cancel(self):
        connection = self.connection
        with contextlib.suppress(OSError, AttributeError, Closed):
            send_cancel(self.scene.weir.address, connection.key)

    def judge(self, error, what):
        self.connection = None
        return super().judge(error, what)

    def step(self):
        keys = self.rng.sample(self.scene.lists(), 2)
        each = Transaction(self.name, [(key, self.new_value()) for key in keys])
        texts = [Lists.BEGIN]
        texts += [f"UPDATE lists SET items = items || {element} WHERE key = '{key}'"
                  for key, element in each.appended]
        try:
            each.outcome = self.play([*texts, "COMMIT"])
            if each.outcome == OK:
                self.scene.board.note()
        except (Closed, OSError):
            each.outcome = UNKNOWN
            self.drop()
        self.scene.history.add("transactions", each)

    def play(self, texts):
        self.connection.send(*[query(text) for text in texts])
        results = [self.connection.read_result() for _ in texts]
        errors = [result.error for result in results if result.errors]
        for error in errors:
            if error["C"] not in CERTAIN:
                self.scene.board.find(f"InOneWrite: {error['C']} {error['M']}")
        return OK if results[-1].tags == ["COMMIT"] and not errors else FAILED


class Counter(Client):
    """Counts up in its own row, and reads all rows on standbys."""

    database = "reads"

    def step(self):
        if not self.inc():
            return
        for _ in range(2):
            if not self.connection or not self.read():
                return

    def inc(self):
        self.count += 1

        def work(op):
            self.connection.execute("INSERT INTO counters VALUES (%s, %s) ON CONFLICT (client) DO"
                                    " UPDATE SET i = EXCLUDED.i", (self.name, op.value))

        return self.attempt("counters", Op("", "inc", "", self.count), work)

    def read(self):
        def work(op):
            self.connection.execute("BEGIN READ ONLY")
            rows = self.connection.execute(
                "SELECT client, i, pg_is_in_recovery() FROM counters").fetchall()
            self.connection.execute("COMMIT")
            op.value = {client: count for client, count, _ in rows}
            self.scene.board.note_read(any(row[2] for row in rows))

        is_done = self.attempt("counters", Op("", "read", ""), work)
        if not is_done:
            self.roll_back()
        return is_done


class State(Client):
    """Sets values of its session, openly and within a function, and looks at them."""

    SEE = ("SELECT coalesce(current_setting('histories.own', true), ''),"
           " coalesce(current_setting('histories.hidden', true), '')")

    def connect(self):
        if not super().connect():
            return False
        self.scene.history.add("states", Op(self.name, "connect", ""))
        return True

    def step(self):
        text = f"{self.name}-{self.new_value()}"
        kind = self.rng.choice(("set", "hide", "see", "see", "see"))
        work = {"set": self.set,
                "hide": lambda op: self.connection.execute("SELECT hide(%s)", (text,)),
                "see": self.see}[kind]
        self.attempt("states", Op("", kind, "", text), work)

    def set(self, op):
        """Each text of SET is another one. If psycopg prepared it, it would deallocate an older one
        in the same step, and a cancel request for that would seem to be one for the SET.
        """
        if self.rng.randrange(2):
            self.connection.execute(f"SET histories.own = '{op.value}'", prepare=False)
        else:
            self.connection.execute("SELECT set_config('histories.own', %s, false)", (op.value,))

    def see(self, op):
        op.value = self.connection.execute(self.SEE).fetchone()


class Canceler(threading.Thread):
    """Sends cancel requests for one client or another."""

    def __init__(self, scene, clients):
        super().__init__(name="Canceler", daemon=True)
        self.scene, self.clients = scene, clients
        self.rng, self.count = random.Random(f"{scene.seed} cancels"), 0

    def run(self):
        while not self.scene.board.is_over.is_set():
            self.rng.choice(self.clients).cancel()
            self.count += 1
            self.scene.board.is_over.wait(0.02)


def crowd(scene, only=None):
    kinds = (Register, Register, Lists, Lists, InOneWrite, Counter, State, State)
    kinds = tuple(kind for kind in kinds if not only or kind.__name__ == only)
    numbers = {kind: 0 for kind in kinds}
    clients = []
    for at in range(scene.clients):
        kind = kinds[at % len(kinds)]
        clients.append(kind(scene, numbers[kind] + 100 * kinds.index(kind)))
        numbers[kind] += 1
    return clients
