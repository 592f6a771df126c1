# SPDX-License-Identifier: ISC
"""Random sequences of messages, sent to PostgreSQL directly and through pgweir in transaction mode.

Other clients make the servers change and statements be evicted; the responses must nevertheless be
identical, message for message. Inherent differences are not generated: the unnamed statement is
parsed right before each use, because the next batch may run on another server.

A sequence is a list of steps, each of which can be removed to shrink a failing sequence. More
sequences: PGWEIR_DIFFERENTIAL=COUNT; other sequences: PGWEIR_SEED=NUMBER.
"""

import os
import random
import threading

import pytest

from .kit.wire import Closed, Wire, bind, close, describe, execute, flush, message, parse, query, sync

COUNT = int(os.environ.get("PGWEIR_DIFFERENTIAL", "150"))
SEED = int(os.environ.get("PGWEIR_SEED", "1"))
BUSY = 3  # other clients
END = "end_of_sequence"

NAMES = ("s1", "s2", "s3", "a rather long name of a statement " * 4)
# Texts with the number of their parameters. The last ones cannot be prepared.
WITH_ROWS = [("SELECT 1", 0), ("SELECT $1::int + 1", 1), ("SELECT 1 / $1::int", 1),
             ("SELECT generate_series(1, $1::int), $2::text", 2), ("SELECT n FROM d WHERE n < 0", 0),
             ("SELECT $1 + 1", 1), ("SELECT $2 || 'x', $1 * 2.5", 2)]
WITHOUT_ROWS = [("INSERT INTO d VALUES ($1::int)", 1), ("BEGIN", 0), ("COMMIT", 0),
                ("ROLLBACK", 0), ("", 0)]
BROKEN = [("SELEC 1", 0), ("SELECT * FROM nowhere", 0), ("SELECT nothing($1)", 1)]
QUERIES = ["SELECT 1", "BEGIN", "BEGIN", "COMMIT", "ROLLBACK", "SELECT 1/0", "SELEC", "",
           "SELECT 1; SELECT 2", "INSERT INTO d VALUES (1)"]
# Statements that begin a transaction (some only seemingly), run inside it, and end it.
BEGINNINGS = ["BEGIN", "BEGIN", "begin;", " BEGIN WORK /* so */ ; -- it is", "START TRANSACTION",
              "BEGIN READ ONLY", "BEGIN ISOLATION LEVEL SERIALIZABLE, READ WRITE, NOT DEFERRABLE",
              "START TRANSACTION ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL NONSENSE",
              "BEGIN READ ONLY READ WRITE", "BEGIN; SELECT 1", "BEGIN;;", "START WORK", "BEGIN -- \u00e4"]
WITHIN = ["SELECT 1", "INSERT INTO d VALUES (1)", "SELECT 1/0", "SELEC", "", "SAVEPOINT a", "ROLLBACK TO a",
          "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET TRANSACTION READ ONLY",
          "SHOW transaction_isolation", "SHOW transaction_read_only", "SET LOCAL work_mem = 64",
          "LOCK TABLE d", "COPY (SELECT 1) TO STDOUT", "BEGIN", "START TRANSACTION",
          "SELECT count(*) FROM pg_cursors", "SELECT count(*) FROM pg_prepared_statements WHERE name = ''",
          "DECLARE c CURSOR FOR SELECT 1", "SELECT pg_current_xact_id_if_assigned()", "VACUUM d",
          "DISCARD ALL"]
ENDS = ["COMMIT", "COMMIT", "ROLLBACK", "END;", "ABORT WORK", "COMMIT AND NO CHAIN", "COMMIT AND CHAIN",
        "ROLLBACK AND CHAIN", "ROLLBACK TO nowhere", "COMMIT; SELECT 1", "PREPARE TRANSACTION 'x'"]


# -- steps: (what, arguments...) -----------------------------------------------------------------

BUILD = {
    "parse": lambda name, text: parse(text, name),
    "bind": lambda name, portal, values: bind(values, name, portal),
    "describe": lambda what, name: describe(what, name),
    "execute": lambda portal, limit: execute(portal, limit),
    "close": lambda what, name: close(what, name),
    "unnamed": lambda text, values: parse(text) + bind(values) + execute(),
    "broken": lambda kind: message(kind, b"Sno end"),
    "sync": lambda: sync(),
    "flush": lambda: flush(),
    "query": lambda text: query(text),
    # Waits for the response, if nothing else is owed.
    "ask": lambda text: query(text),
    # SQL's PREPARE, EXECUTE and DEALLOCATE, which need a Sync before them and the unnamed portal.
    "sql": lambda text: sync() + query(text),
    "sql extended": lambda text: parse(text) + bind() + execute(),
    # Waits for all responses, so that no other step can cause an error.
    "wait": lambda mark: sync() + query(mark),
    # Steps after these must not be sent before their response.
    "all": lambda text, mark: sync() + query(text) + sync() + query(mark),
}


def random_text(rng):
    return rng.choice(rng.choice((WITH_ROWS, WITH_ROWS, WITH_ROWS, WITHOUT_ROWS, BROKEN)))


def random_values(rng, count):
    if rng.random() < 0.05:
        count += 1
    return tuple(rng.choice(("0", "1", "3", "x", None)) for _ in range(count))


class Writer:
    """Writes one sequence; tracks the statement names so that most steps are valid."""

    def __init__(self, rng):
        self.rng = rng
        self.texts = {}
        self.waits = 0

    def sequence(self):
        return [step for _ in range(self.rng.randint(4, 25)) for step in self.some()]

    def some(self):
        makers = (self.prepare, self.prepare, self.sql, self.sql, self.use, self.use, self.use, self.describe,
                  self.forget, self.unnamed, self.sync, self.sync, self.query, self.portal,
                  self.transaction, self.transaction, self.rare)
        return self.rng.choice(makers)()

    def name(self):
        known = [name for name in NAMES if name in self.texts]
        return self.rng.choice(known if known and self.rng.random() < 0.9 else NAMES)

    def prepare(self):
        free = [name for name in NAMES if name not in self.texts]
        name = self.rng.choice(free if free and self.rng.random() < 0.9 else NAMES)
        text = self.texts[name] = random_text(self.rng)
        return [("parse", name, text[0])]

    def use(self):
        name, portal = self.name(), self.rng.choice(("", "", "p1", "p2"))
        count = self.texts.get(name, ("", 0))[1]
        steps = [("bind", name, portal, random_values(self.rng, count))]
        if self.rng.random() < 0.5:
            steps.append(("describe", "P", portal))
        return steps + [("execute", portal, self.rng.choice((0, 0, 1)))]

    def describe(self):
        name = self.name()
        # In a failed transaction PostgreSQL describes statements without rows, if they already
        # exist.
        without = self.texts.get(name, ("", 0)) in WITHOUT_ROWS
        return [] if without else [("describe", "S", name)]

    def forget(self):
        name = self.name()
        self.texts.pop(name, None)
        return [("close", "S", name)]

    def unnamed(self):
        text, count = random_text(self.rng)
        return [("unnamed", text, random_values(self.rng, count))]

    def sql(self):
        what = self.rng.randrange(4)
        name = self.rng.choice(NAMES[:3])
        if what == 0:
            text, count = self.rng.choice((*WITH_ROWS, *BROKEN))
            types = self.rng.choice(("", " (int)", " (int, text)")) if count else ""
            sql = f"PREPARE {name}{types} AS {text}"
            self.texts.setdefault(name, (text, count))
        elif what == 1:
            self.texts.pop(name, None)
            sql = f"DEALLOCATE {name}"
        else:
            count = self.texts.get(name, ("", 0))[1]
            values = ["NULL" if value is None else f"'{value}'"
                      for value in random_values(self.rng, count)]
            sql = f"EXECUTE {name}" + (f" ({', '.join(values)})" if values else "")
        return [(self.rng.choice(("sql", "sql extended")), sql)]

    def sync(self):
        return [("sync",)]

    def query(self):
        return [("query", self.rng.choice(QUERIES))]

    def transaction(self):
        """As most drivers do it: waits for each response."""
        steps = [("wait", self.mark()), ("ask", self.rng.choice(BEGINNINGS))]
        for _ in range(self.rng.randrange(3)):
            steps += self.rng.choice((self.use, self.unnamed, self.portal, self.describe, self.prepare,
                                      self.sync, self.within, self.within, self.within, self.sql))()
        return steps + [("ask", self.rng.choice(ENDS))]

    def within(self):
        return [("ask", self.rng.choice(WITHIN))]

    def portal(self):
        portal = self.rng.choice(("", "p1", "p2"))
        return [self.rng.choice((("execute", portal, 0), ("close", "P", portal),
                                 ("describe", "P", portal), ("flush",)))]

    def mark(self):
        self.waits += 1
        return f"mark_{self.waits}"

    def rare(self):
        mark = self.mark()
        what = self.rng.randrange(4)
        if what == 0:
            return [("broken", self.rng.choice("PBDC"))]
        if what == 1:
            self.texts = {}
            text = self.rng.choice(("DEALLOCATE ALL", "DISCARD ALL"))
            return [("all", text, mark)]
        return [("wait", mark)]


# -- running a sequence ---------------------------------------------------------------------------


def normal(got):
    """The part of a message that must be identical."""
    if got.type == "E":
        fields = got.fields
        return "E", *(fields.get(letter) for letter in "SVCMD")
    if got.type == "T":
        return "T", tuple(column._replace(table=0) for column in got.columns)
    return tuple(got)


def is_answer_to(got, text):
    return got.type == "E" and f'"{text}"' in (got.fields.get("M") or "")


def play(address, database, steps, seed):
    """Runs a sequence; returns all messages of the response."""
    rng = random.Random(seed)
    heard = []

    def hear(text):
        while not heard or not is_answer_to(heard[-1], text):
            heard.append(wire.read())
        heard.append(wire.read())
        assert heard[-1].type == "Z", heard

    with Wire(address).login("alice", database) as wire:
        waiting, is_settled = b"", True
        for step in [*steps, ("wait", END)]:
            waiting += BUILD[step[0]](*step[1:])
            is_last = step[0] in ("wait", "all")
            is_asking = step[0] == "ask" and is_settled
            if is_last or is_asking or rng.random() < 0.3:
                cut = len(waiting) if is_last or is_asking else rng.randint(0, len(waiting))
                wire.send(waiting[:cut])
                waiting = waiting[cut:]
            if is_last:
                hear(step[-1])
            if is_asking:
                heard += wire.read_until("Z")
            is_settled = is_last or is_asking
        wire.send(message("X"))
    return [normal(got) for got in heard]


def are_alike(direct, pooled):
    """In a failed transaction, a statement that must be prepared again on the server fails."""
    if direct[0] == pooled[0] == "E" and pooled[3] == "25P02":
        return True
    return direct == pooled


def difference(direct, pooled):
    for at, pair in enumerate(zip(direct, pooled)):
        if not are_alike(*pair):
            return f"message {at}: directly {pair[0]}, through pgweir {pair[1]}"
    if len(direct) != len(pooled):
        return f"directly {len(direct)} messages, through pgweir {len(pooled)}"
    return None


class Stage:
    def __init__(self, weir, postgres):
        self.weir = weir
        self.direct = (postgres.host, postgres.port)
        self.is_over = False
        self.problems = []
        self.threads = [threading.Thread(target=self.be_busy, args=(number,), daemon=True)
                        for number in range(BUSY)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()

    def be_busy(self, number):
        """Runs its own statements, and those of the sequences, in transactions of several batches.
        """
        texts = [text for text, count in WITH_ROWS if count == 0] + [f"SELECT 'busy {number}'"]
        try:
            with Wire(self.weir.address).login("alice", "app") as wire:
                for at, text in enumerate(texts):
                    assert not wire.ask(parse(text, f"s{at}"), sync()).errors
                while not self.is_over:
                    for at in range(len(texts)):
                        wire.query("BEGIN")
                        got = wire.ask(bind((), f"s{at}"), execute(), sync())
                        assert not got.errors, got
                        wire.query("COMMIT")
        except Exception as problem:  # reported to the thread of the test
            self.problems.append(repr(problem))

    def differ(self, steps, seed):
        try:
            direct = play(self.direct, "app2", steps, seed)
        # BEGIN after a BEGIN by EXECUTE, in one batch, is FATAL in PostgreSQL itself.
        except Closed:
            return None
        try:
            pooled = play(self.weir.address, "app", steps, seed)
        except Exception as problem:  # a close, or no response, is a difference too
            return f"through pgweir: {problem!r}"
        return difference(direct, pooled)

    def shrink(self, steps, seed):
        """Removes steps that are not needed for a difference; three passes, because steps depend on
        others.
        """
        size = max(1, len(steps) // 2)
        while size:
            at = 0
            while at < len(steps):
                fewer = steps[:at] + steps[at + size:]
                if any(self.differ(fewer, seed) for _ in range(3)):
                    steps = fewer
                else:
                    at += size
            size //= 2
        return steps


@pytest.fixture
def stage(same_pgweir, postgres, request):
    limit, late_begin, io_uring = request.param
    weir = same_pgweir(pool_mode="transaction", default_pool_size=BUSY, server_round_robin=1,
                       max_prepared_statements=limit, late_begin=late_begin, io_uring=io_uring,
                       server_connect_timeout=60, log_connections=0, log_disconnections=0)
    for database in ("app", "app2"):
        postgres.query("CREATE TABLE IF NOT EXISTS d (n int)", dbname=database)
        postgres.query("GRANT ALL ON d TO PUBLIC", dbname=database)
    with Stage(weir, postgres) as stage:
        yield stage
    assert not stage.problems


BOTH = pytest.mark.parametrize("stage", ((200, 0, 1), (2, 1, 1), (200, 1, 0), (2, 0, 0)), indirect=True,
                               ids=("200", "2-late", "200-late-one-by-one", "2-one-by-one"))


@BOTH
@pytest.mark.limit(60 + COUNT)
def test_answers_are_those_of_postgresql(stage):
    for number in range(COUNT):
        seed = f"{SEED} {number}"
        steps = Writer(random.Random(seed)).sequence()
        found = stage.differ(steps, seed)
        if found:
            small = stage.shrink(steps, seed)
            again = next(filter(None, (stage.differ(small, seed) for _ in range(9))), None)
            lines = "\n".join(f"        {step}," for step in small)
            pytest.fail(f"sequence {seed}: {found}\nshrunk:\n{lines}\n{again}")
        assert not stage.problems
    (row,) = [row for row in stage.weir.admin("SHOW CONFIG") if row["key"] == "late_begin"]
    (cache,) = [row for row in stage.weir.admin("SHOW MEM") if row["name"] == "late_begin_cache"]
    assert bool(cache["used"] + cache["free"]) == (row["value"] == "1")  # some differences, or none


# Sequences whose response once differed.
KEPT = {
    "a statement whose Parse was skipped is parsed for the next batch": [
        ("parse", "s1", "SELECT 1"), ("wait", "w"),
        ("bind", "s2", "", ()), ("bind", "s1", "", ()), ("sync",),
        ("bind", "s1", "", ()), ("execute", "", 0), ("sync",)],
    "a name whose Parse was skipped is not there in the next batch": [
        ("bind", "s2", "", ()), ("parse", "s1", "SELECT 1"), ("sync",),
        ("bind", "s1", "", ()), ("execute", "", 0), ("sync",),
        ("parse", "s1", "SELECT 1"), ("bind", "s1", "", ()), ("execute", "", 0), ("sync",)],
    "a Close that was skipped leaves the name": [
        ("parse", "s1", "SELECT 1"), ("sync",),
        ("bind", "s2", "", ()), ("close", "S", "s1"), ("sync",),
        ("parse", "s1", "SELECT 1"), ("sync",), ("bind", "s1", "", ()), ("sync",)],
    "the names in errors are the client's": [
        ("parse", "s1", "SELECT $1::int + 1"), ("bind", "s1", "", ()), ("sync",)],
    "names of ours do not reach the statements of others": [
        ("parse", "s1", "SELECT 1"), ("sync",), ("bind", "PGBOUNCER_1", "", ()), ("sync",),
        ("describe", "S", "PGBOUNCER_1"), ("sync",)],
    "a name that is taken, in a transaction that has failed": [
        ("parse", "s1", "SELECT 1"), ("query", "BEGIN"), ("query", "SELEC"),
        ("parse", "s1", "SELECT 1"), ("sync",), ("parse", "s1", "ROLLBACK"), ("sync",)],
    "a name that is taken, for a text that is none": [
        ("parse", "s1", "SELECT 1"), ("sync",), ("parse", "s1", "SELEC"), ("sync",)],
    "SQL's PREPARE and the protocol, in one transaction": [
        ("query", "BEGIN"), ("query", "PREPARE s1 AS SELECT 1"), ("bind", "s1", "", ()),
        ("execute", "", 0), ("close", "S", "s1"), ("sync",), ("bind", "s1", "", ()), ("sync",)],
    "SQL's PREPARE in a batch that is skipped": [
        ("sql", "PREPARE s1 AS SELECT 1"), ("bind", "s2", "", ()),
        ("sql extended", "DEALLOCATE s1"), ("sql", "EXECUTE s1"),
        ("bind", "s3", "", ()), ("sql extended", "PREPARE s2 AS SELECT 1"), ("sql", "EXECUTE s2")],
    "a Close that was skipped leaves a name that DISCARD ALL takes": [
        ("parse", "s3", "SELECT 1"), ("bind", "s1", "", ()), ("close", "S", "s3"),
        ("all", "DISCARD ALL", "w"), ("parse", "s3", "SELECT 2"), ("sync",)],
    "DEALLOCATE ALL": [
        ("parse", "s1", "SELECT 1"), ("sync",), ("all", "DEALLOCATE ALL", "w"),
        ("bind", "s1", "", ()), ("sync",), ("parse", "s1", "SELECT 1"), ("sync",)],
}


@pytest.mark.parametrize("says", KEPT)
@BOTH
def test_kept(stage, says):
    assert stage.differ(KEPT[says], says) is None
