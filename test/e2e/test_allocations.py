# SPDX-License-Identifier: ISC
"""No kind of query allocates memory once its objects exist.

A library preloaded into the daemon counts allocations (test/lib/allocations.c); the daemon itself
is unchanged. Each kind of work runs until all objects exist; from then on the count must not
change. No test uses the console while it counts, because its responses may allocate.
"""

import itertools
import mmap
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from .kit.daemon import find_binary
from .kit.wire import bind, close, describe, execute, extended, flush, parse, query, sync

# With several loops a client may get to one whose objects do not exist yet.
pytestmark = pytest.mark.one_loop("the objects of one loop are warmed up")

WARM_UP = 30  # rounds until every server has every statement and every buffer has its size
ROUNDS = 20

# The log thread writes at any time, and the log line of a login must not be counted.
QUIET = {"log_connections": 0, "log_disconnections": 0, "log_stats": 0}


class Counter:
    """The number of allocations so far of a daemon that was started with `env`."""

    def __init__(self, account, folder):
        library = pathlib.Path(find_binary()).parent / "test" / "lib" / "allocations.so"
        if not library.exists():
            pytest.skip(f"no {library}")
        # Other users may have no access to the checkout.
        copy = account.own(shutil.copy(library, folder), 0o755)
        path = account.own(shutil.copy("/dev/null", f"{folder}/allocations"), 0o600)
        os.truncate(path, 8)
        with open(path, "rb") as file:
            self.number = memoryview(mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)).cast("Q")
        self.env = {"LD_PRELOAD": " ".join([*sanitizer_of(find_binary()), copy]),
                    "PGWEIR_ALLOCATIONS": path}

    def value(self):
        return self.number[0]


def sanitizer_of(binary):
    """The library of a sanitizer, if there is one: it must be loaded first."""
    said = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    return re.findall(r"lib[at]san\S* => (\S+)", said)


@pytest.fixture
def counted(make_pgweir, account):
    """Starts a daemon whose allocations are counted: (daemon, its counter).

    A sampled transaction allocates, so there are no samples.
    """

    def start(**settings):
        weir = make_pgweir(**{"pool_mode": "transaction", "default_pool_size": 2, "session_sample": 0,
                              "server_round_robin": 1, **QUIET, **settings})
        counter = Counter(account, weir.dir)
        return weir.start(env=counter.env), counter

    return start


# -- kinds of work ---------------------------------------------------------------------------------
# Each creates what it needs and returns a function that does the work once.


def simple(weir):
    client = weir.client()

    def work():
        assert client.query("BEGIN; SELECT 1; COMMIT").tags == ["BEGIN", "SELECT 1", "COMMIT"]

    return work


def statement_by_statement(weir):
    client = weir.client()

    def work():
        tags = [client.query(sql).tags for sql in ("BEGIN", "SELECT 1", "COMMIT")]
        assert tags == [["BEGIN"], ["SELECT 1"], ["COMMIT"]]

    return work


def empty_transaction(weir):
    client = weir.client()

    def work():
        assert [client.query(sql).status for sql in ("BEGIN", "COMMIT")] == ["T", "I"]

    return work


def unnamed(weir):
    client = weir.client()

    def work():
        assert client.ask(extended("SELECT $1::int", (7,))).rows == [["7"]]

    return work


def named(weir):
    """As drivers do it: prepared once, then bound on any server."""
    clients = [weir.client() for _ in range(3)]
    for client in clients:
        client.ask(parse("SELECT $1::int", "known"), describe("S", "known"), sync())

    def work():
        for at, client in enumerate(clients):
            result = client.ask(bind((at,), "known"), describe(), execute(), sync())
            assert (result.types, result.rows) == ("2TDCZ", [[str(at)]])

    return work


def described(weir):
    client = weir.client()
    client.ask(parse("SELECT $1::int", "known"), sync())

    def work():
        assert client.ask(describe("S", "known"), sync()).types == "tTZ"

    return work


def pipeline(weir):
    client = weir.client()
    client.ask(parse("SELECT $1::int", "known"), sync())
    one = bind((1,), "known") + execute() + parse("SELECT 2") + bind() + describe() + execute()
    whole = query("BEGIN") + 20 * one + flush() + sync() + query("COMMIT")

    def work():
        client.send(whole)
        types = "".join(client.read_result().types for _ in range(3))
        assert types == "CZ" + 20 * "2DC12TDC" + "Z" + "CZ"

    return work


def failing(weir):
    client = weir.client()
    client.ask(parse("SELECT 1 / $1::int", "known"), sync())

    def work():
        assert client.query("SELECT 1 / 0").error["C"] == "22012"
        assert client.ask(bind((0,), "known"), execute(), close("P"), sync()).error["C"] == "22012"

    return work


def portals(weir):
    client = weir.client()
    batch = (parse("SELECT generate_series(1, 4)") + bind((), "", "door") + execute("door", 2)
             + execute("door", 2) + close("P", "door") + sync())

    def work():
        assert client.ask(batch).types == "12DDsDDs3Z"

    return work


def long_answer(weir):
    client = weir.client()

    def work():
        assert len(client.query("SELECT repeat('x', 30000)").rows[0][0]) == 30000

    return work


def copying(weir):
    client = weir.client()

    def work():
        got = client.query("COPY (SELECT generate_series(1, 1000)) TO STDOUT")
        assert got.tags == ["COPY 1000"]

    return work


def taking_turns(*wishes):
    """Clients with different values of a parameter, in turn on one server."""

    def prepare(weir):
        clients = [(weir.client(**wish), wish) for wish in wishes]

        def work():
            for client, wish in clients:
                for name, value in wish.items():
                    assert client.value(f"SHOW {name}") == value

        return work

    return prepare


def waiting_line(weir):
    """The other clients queue while the first has the only server, and get it in turn."""
    holder, *others = [weir.client() for _ in range(5)]

    def work():
        holder.query("BEGIN")
        for client in others:
            client.send(query("SELECT 1"))
        holder.query("COMMIT")
        for client in others:
            assert client.read_result().rows == [["1"]]

    return work


APPLICATIONS = taking_turns({"application_name": "one"}, {"application_name": "two"})
PLACES = taking_turns({"TimeZone": "Asia/Tokyo", "DateStyle": "SQL, DMY"}, {"TimeZone": "Europe/Oslo"})

KINDS = {
    "simple": (simple, {}),
    "statement by statement": (statement_by_statement, {}),
    "unnamed": (unnamed, {}),
    "unnamed, no statements kept": (unnamed, {"max_prepared_statements": 0}),
    "named": (named, {}),
    "described": (described, {}),
    "pipeline": (pipeline, {}),
    "failing": (failing, {}),
    "portals": (portals, {}),
    "long answer": (long_answer, {}),
    "copy": (copying, {}),
    "application_name": (APPLICATIONS, {"default_pool_size": 1}),
    "other parameters": (PLACES, {"default_pool_size": 1}),
    "waiting line": (waiting_line, {"default_pool_size": 1}),
    "statement mode": (unnamed, {"pool_mode": "statement"}),
    "session, simple": (simple, {"pool_mode": "session"}),
    "session, unnamed": (unnamed, {"pool_mode": "session"}),
    "session, named": (named, {"pool_mode": "session", "default_pool_size": 3}),
    "session, pipeline": (pipeline, {"pool_mode": "session"}),
    "late BEGIN": (statement_by_statement, {"late_begin": 1}),
    "late BEGIN, nothing in it": (empty_transaction, {"late_begin": 1}),
    "always reset": (simple, {"default_pool_size": 1, "server_reset_query_always": 1}),
    "always reset, application_name": (APPLICATIONS, {"default_pool_size": 1,
                                                      "server_reset_query_always": 1}),
    "always checked": (simple, {"default_pool_size": 1, "server_check_delay": 0,
                                "server_check_query": "SELECT 1"}),
    "limits": (statement_by_statement, {"query_timeout": 60, "transaction_timeout": 60,
                                        "idle_transaction_timeout": 60, "client_idle_timeout": 60}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_allocates_nothing(counted, kind):
    prepare, settings = KINDS[kind]
    weir, counter = counted(**settings)
    work = prepare(weir)

    def allocations(rounds):
        before = counter.value()
        for _ in range(rounds):
            work()
        return counter.value() - before

    allocations(WARM_UP)
    # Something rare may allocate, so the lesser of two counts is judged; ten times the queries must
    # not cost more.
    for count in (ROUNDS, 10 * ROUNDS):
        assert min(allocations(count), allocations(count)) < ROUNDS // 2


def test_some_did_wait(counted):
    """Otherwise waiting_line() above would test nothing."""
    weir, _ = counted(default_pool_size=1)
    work = waiting_line(weir)
    for _ in range(ROUNDS):
        work()
    (row,) = [row for row in weir.admin("SHOW STATS") if row["database"] == "app"]
    assert row["total_wait_time"] > 0


def test_what_must_allocate_is_counted(counted):
    """A new prepared statement is stored; if the counter missed that, a count of 0 would mean
    nothing.
    """
    weir, counter = counted()
    client = weir.client()
    numbers = itertools.count()

    def allocations(rounds):
        before = counter.value()
        for number in itertools.islice(numbers, rounds):
            client.ask(parse(f"SELECT {number}", f"s{number}"), sync())
        return counter.value() - before

    allocations(WARM_UP)
    assert allocations(ROUNDS) >= ROUNDS
