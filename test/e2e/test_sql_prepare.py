# SPDX-License-Identifier: ISC
"""SQL's own PREPARE, EXECUTE and DEALLOCATE in transaction mode, against PostgreSQL itself."""

import asyncio

import asyncpg
import pytest

from .kit import fake
from .kit.wire import (Closed, Wire, bind, close, describe, execute, extended, flush, message, parse,
                       query, sync)

LIMITS = pytest.mark.parametrize("limit_of_statements", (200, 2))


@pytest.fixture
def weir(pgweir, limit_of_statements):
    return pgweir(pool_mode="transaction", default_pool_size=2, server_round_robin=1,
                  max_prepared_statements=limit_of_statements)


@pytest.fixture
def direct(postgres):
    with Wire((postgres.host, postgres.port)).login("alice", "app2") as wire:
        yield wire


def said(result):
    errors = [tuple(error.get(letter) for letter in "SVCMD") for error in result.errors]
    return result.types, result.rows, result.tags, errors, result.status


def positions(result):
    return [error.get("P") for error in result.errors]


# Each is a dialogue; an item is a Query, or messages that end with a Sync.
DIALOGUES = {
    "prepare, execute, deallocate": [
        "PREPARE s AS SELECT 1", "EXECUTE s", "EXECUTE s", "DEALLOCATE s", "EXECUTE s"],
    "with types and parameters": [
        "PREPARE s (int, text) AS SELECT $1 + 1, $2 || 'x'", "EXECUTE s (1 + 1, 'a')",
        "EXECUTE s(1)", "EXECUTE s(1, 2, 3)", "EXECUTE s('x', 'a')", "EXECUTE s(2, NULL);"],
    "names": [
        'PREPARE "S" AS SELECT 1', "PREPARE S AS SELECT 2", 'EXECUTE "S"', "EXECUTE s",
        "prepare \"a \"\"b\" as select 3", 'execute "a ""b"', 'deallocate prepare "S"',
        'EXECUTE "S"', "EXECUTE s", 'PREPARE "" AS SELECT 1'],
    "a name that is taken": [
        "PREPARE s AS SELECT 1", "PREPARE s AS SELECT 2", "PREPARE s AS SELEC",
        "PREPARE s AS SELECT * FROM nowhere", "EXECUTE s"],
    "a name that is not there": ["EXECUTE s", "DEALLOCATE s", "BEGIN", "EXECUTE s", "EXECUTE s",
                                 "ROLLBACK", "EXECUTE PGBOUNCER_1", 'EXECUTE "PGBOUNCER_1"',
                                 'DEALLOCATE "PGBOUNCER_1"'],
    "wrong texts": [
        "PREPARE s AS BEGIN", "PREPARE s AS SELECT * FROM nowhere", "EXECUTE s", "PREPARE s",
        "PREPARE s AS", "EXECUTE s x", "PREPARE s (int", "PREPARE s AS SELECT $1",
        "PREPARE s AS SELECT 'no end", "EXECUTE s", "DEALLOCATE"],
    "in a transaction that rolls back": [
        "BEGIN", "PREPARE s AS SELECT 1", "EXECUTE s", "ROLLBACK", "EXECUTE s", "BEGIN",
        "DEALLOCATE s", "ROLLBACK", "EXECUTE s"],
    "in a transaction that has failed": [
        "PREPARE t AS SELECT 3", "BEGIN", "SELEC", "PREPARE s AS SELECT 1", "EXECUTE t",
        "DEALLOCATE t", "PREPARE t AS SELECT 1; SELECT 1", "ROLLBACK", "EXECUTE s", "EXECUTE t"],
    "EXPLAIN": [
        "PREPARE s AS SELECT 1 WHERE 1 = $1", "EXPLAIN (COSTS off) EXECUTE s(1)",
        "EXPLAIN (COSTS off) EXECUTE s", "EXPLAIN SELECT 1, 2, 3 WHERE 1 = 0"],
    "CREATE TABLE AS": [
        "PREPARE s AS SELECT 1 AS a", "BEGIN", "CREATE TABLE made AS EXECUTE s", "TABLE made",
        "CREATE TEMP TABLE made2 (b) ON COMMIT DROP AS EXECUTE s WITH NO DATA", "TABLE made2",
        "ROLLBACK"],
    "strings and comments": [
        "/* ; */ PREPARE s AS SELECT ';', $$;'$$, E'\\';', '\\d' -- ;", "EXECUTE s", ";EXECUTE s;;",
        "PREPARE t AS SELECT $a$ $$;$$ $a$ /* /* ; */ ; */;", "-- x\nEXECUTE/**/t"],
    "DEALLOCATE ALL": [
        "PREPARE s AS SELECT 1", [parse("SELECT 2", "t"), sync()], "DEALLOCATE ALL", "EXECUTE s",
        "EXECUTE t", "PREPARE s AS SELECT 3", "EXECUTE s", "DISCARD ALL", "EXECUTE s"],
    "DEALLOCATE ALL among other messages": [
        [parse("SELECT 1", "s"), parse("SELECT 2", "t"), sync()],
        [parse("DEALLOCATE ALL"), bind(), execute(), parse("SELECT 1", "s"), bind((), "s"), execute(),
         sync()],
        [bind((), "s"), execute(), sync()], [bind((), "t"), execute(), sync()],
        [parse("DISCARD ALL"), bind(), execute(), sync()], [bind((), "s"), sync()],
        [parse("SELECT 1", "s"), sync()],
        [parse("DEALLOCATE ALL"), bind(), execute(), bind((), "s"), execute(), sync()],
        [parse("SELECT 1", "s"), sync()], [bind((), "s"), execute(), sync()],
        [parse("DEALLOCATE ALL"), bind((), "", "p"), execute("p"), parse("SELECT 1", "t"),
         bind((), "t"), execute(), sync()]],
    "DEALLOCATE ALL by a statement with a name": [
        [parse("SELECT 1", "s"), parse("deallocate all", "d"), sync()],
        [bind((), "d"), execute(), parse("SELECT 1", "t"), bind((), "t"), execute(), sync()],
        [bind((), "s"), sync()], [bind((), "d"), sync()], [bind((), "t"), execute(), sync()]],
    "DEALLOCATE ALL behind what has just been parsed": [
        [parse("SELECT 1", "s"), parse("DEALLOCATE ALL"), bind(), execute(), parse("SELECT 1", "s"),
         bind((), "s"), execute(), sync()],
        [bind((), "s"), execute(), sync()],
        [parse("SELECT 2", "t"), parse("DEALLOCATE ALL", "d"), bind((), "d"), execute(),
         parse("SELECT 2", "u"), bind((), "u"), execute(), sync()]],
    "DISCARD ALL that fails": [
        [parse("SELECT 1", "s"), sync()], "BEGIN",
        [parse("SELECT 2", "t"), parse("DISCARD ALL"), bind(), execute(), bind((), "s"), sync()],
        "ROLLBACK", [bind((), "s"), execute(), sync()], [bind((), "t"), execute(), sync()],
        [parse("SELECT 3", "s"), sync()], "BEGIN", "DISCARD ALL", "ROLLBACK",
        [bind((), "s"), execute(), sync()]],
    "SQL's statements by the protocol": [
        "PREPARE s (int) AS SELECT $1 + 1",
        [describe("S", "s"), bind((1,), "s"), describe(), execute(), sync()],
        [parse("SELECT 2", "s"), sync()], [close("S", "s"), sync()], "EXECUTE s(1)",
        [bind((1,), "s"), sync()]],
    "the protocol's statements by SQL": [
        [parse("SELECT $1::int + 1", "s"), sync()], "EXECUTE s(1)", "EXECUTE s", "EXECUTE s(2)",
        "PREPARE s AS SELECT 1", "DEALLOCATE s", [bind((1,), "s"), sync()], "EXECUTE s(1)"],
    "the protocol's statements behind other statements of one text": [
        [parse("SELECT $1::int + 1", "a"), parse("SELECT 2", "b"), sync()], "SELECT 0; EXECUTE a(1)",
        "EXECUTE b; SELECT 1/0", "DEALLOCATE b; PREPARE q AS SELECT 21;", "EXECUTE q", "EXECUTE b",
        [bind((), "b"), sync()], "DEALLOCATE a; SELECT 1/0; EXECUTE a;", [bind((1,), "a"), sync()],
        "SELECT 0; EXECUTE a(1)", "DEALLOCATE q", [parse("SELECT 3", "b"), sync()],
        "BEGIN", "SELECT 0; EXECUTE b", [bind((), "b"), execute(), sync()], "COMMIT"],
    "a name that a text has taken": [
        "PREPARE s AS SELECT 1; SELECT 2", "PREPARE s AS SELECT 3", "EXECUTE s",
        [extended("PREPARE s AS SELECT 3")], "PREPARE t AS SELECT 4", "EXECUTE t", "DEALLOCATE t",
        "DEALLOCATE s", "PREPARE s AS SELECT 5", "EXECUTE s", "BEGIN; PREPARE u AS SELECT 6",
        "PREPARE u AS SELECT 7", "ROLLBACK", "EXECUTE u"],
    "by statements that have names themselves": [
        [parse("SELECT $1::int + 1 AS a", "s"), sync()],
        [parse("EXECUTE s(1)", "n"), describe("S", "n"), sync()], [bind((), "n"), describe(), execute(), sync()],
        [parse("PREPARE s AS SELECT 1", "p"), bind((), "p"), execute(), sync()],
        [parse("PREPARE t AS SELECT 1 AS b", "q"), sync()], [bind((), "q"), execute(), sync()],
        [bind((), "q"), execute(), sync()], "EXECUTE t", "PREPARE t AS SELECT 2",
        [parse("DEALLOCATE s", "d"), sync()], [bind((), "d"), execute(), sync()],
        [bind((), "d"), execute(), sync()], [bind((), "n"), execute(), sync()],
        [parse("SELECT 'x' AS c", "s"), sync()], [parse("EXECUTE s", "m"), bind((), "m"), describe(), execute(), sync()],
        [parse("EXPLAIN (COSTS off) EXECUTE s", "e"), sync()], [bind((), "e"), execute(), sync()],
        "DEALLOCATE t", [bind((), "m"), execute(), sync()]],
    "a name that changes under what executes it": [
        [parse("SELECT 1 AS a", "s"), parse("EXECUTE s"), sync()],
        [close("S", "s"), parse("SELECT 2 AS b", "s"), bind(), describe(), execute(), sync()],
        [close("S", "s"), bind(), execute(), sync()], [parse("DEALLOCATE t"), sync()],
        [parse("SELECT 3", "t"), bind(), execute(), bind(), execute(), sync()]],
    "a portal that is executed twice, or later": [
        [parse("PREPARE s AS SELECT generate_series(1, 3)"), bind(), execute(), execute(), sync()],
        [parse("EXECUTE s"), bind(), execute(limit=1), execute(limit=1), execute(), execute(), sync()],
        "BEGIN", [parse("EXECUTE s"), bind(), sync()], [execute(limit=2), sync()],
        [close("S", "s"), execute(), sync()], [bind(), sync()], "ROLLBACK",
        "BEGIN", "PREPARE s AS SELECT 1", [parse("EXECUTE s"), bind(), sync()],
        [close("S", "s"), execute(), sync()], "ROLLBACK",
        "BEGIN", "PREPARE s AS SELECT 1", [parse("DEALLOCATE s"), bind(), sync()],
        [execute(), sync()], [execute(), sync()], "COMMIT", "EXECUTE s",
        "BEGIN", [parse("PREPARE s AS SELECT 2"), bind(), sync()], [execute(), sync()], "COMMIT",
        "EXECUTE s", [execute(), sync()]],
    "answers that a Flush asks for": [
        [parse("PREPARE s (int) AS SELECT $1"), bind(), flush(), execute(), flush(), parse("EXECUTE s(1)"),
         flush(), describe("S"), flush(), bind(), flush(), describe(), flush(), execute(), flush(),
         close("S", "s"), flush(), bind(), flush(), execute(), sync()],
        [parse("PREPARE s AS SELEC"), flush(), bind(), execute(), flush(), parse("EXECUTE s"), sync()],
        [parse("PREPARE s AS SELECT nowhere"), bind(), flush(), execute(), flush(), parse("EXECUTE s"), sync()],
        "EXECUTE s"],
    "by the extended protocol": [
        [extended("PREPARE s (int) AS SELECT $1 + 1")], [extended("EXECUTE s(1)")],
        [extended("PREPARE s AS SELECT 1")], [extended("EXECUTE s")], [extended("DEALLOCATE s")],
        [extended("DEALLOCATE s")], [extended("EXECUTE s(1)")], "EXECUTE s(1)"],
    "in one pipeline": [
        [extended("PREPARE s AS SELECT 1")[:-5], extended("EXECUTE s")],
        [extended("DEALLOCATE s")[:-5], extended("PREPARE s AS SELECT 2")[:-5],
         extended("EXECUTE s")]],
    "a wrong text by the extended protocol": [
        [extended("PREPARE s AS SELECT * FROM nowhere")], [extended("PREPARE s AS SELEC")],
        [extended("EXECUTE s")], "PREPARE s AS SELECT 1", "EXECUTE s"],
    "a pipeline that fails": [
        [parse("SELECT 1/0"), bind(), execute(), extended("PREPARE s AS SELECT 1")], "EXECUTE s",
        "PREPARE s AS SELECT 1",
        [parse("SELECT 1/0"), bind(), execute(), extended("DEALLOCATE s")], "EXECUTE s"],
    "behind other statements of one text": [
        "PREPARE s AS SELECT 1 AS a", "PREPARE t (int) AS SELECT $1 + 1", 'PREPARE "T u" AS SELECT 3',
        "SELECT 0; EXECUTE s", "SELECT 0; EXECUTE t(1); EXECUTE s", 'SELECT 0; EXECUTE "T u"',
        "SELECT 0; EXPLAIN (COSTS off) EXECUTE s", "EXECUTE s; SELECT 0",
        "BEGIN; CREATE TEMP TABLE made ON COMMIT DROP AS EXECUTE s; TABLE made; COMMIT",
        "SELECT 0; EXECUTE nowhere", "SELECT 0; PREPARE s AS SELECT 2", "SELECT 0; EXECUTE s",
        "SELECT 0; DEALLOCATE s", "EXECUTE s", "SELECT 0; EXECUTE s", "EXECUTE t(4)",
        "PREPARE s AS SELECT 5", "SELECT 0; DEALLOCATE s; SELECT 1/0", "EXECUTE s"],
    "behind other statements in a transaction": [
        "PREPARE s AS SELECT 1", "PREPARE t AS SELECT 2", "BEGIN", "SELECT 0; EXECUTE s", "EXECUTE s",
        "SELECT 0; DEALLOCATE s", "EXECUTE s", "ROLLBACK", "EXECUTE s", "EXECUTE t", "BEGIN",
        "SELECT 0; DEALLOCATE t; SELECT 1/0", "SELECT 0; EXECUTE t", "ROLLBACK", "EXECUTE t"],
    "behind other statements, and then gone and made again": [
        [parse("SELECT 1", "s"), sync()], "BEGIN", "SELECT 0; EXECUTE s", [close("S", "s"), sync()],
        [parse("SELECT 2", "s"), sync()], "EXECUTE s", "SELECT 0; EXECUTE s", "COMMIT", "EXECUTE s",
        "BEGIN", "SELECT 0; EXECUTE s", "DEALLOCATE s", [parse("SELECT 3", "s"), sync()], "EXECUTE s",
        "COMMIT", "EXECUTE s", [bind((), "s"), execute(), sync()]],
    "behind other statements, all of them": [
        "PREPARE s AS SELECT 1", "PREPARE t AS SELECT 2", "SELECT 0; DEALLOCATE ALL", "EXECUTE s",
        "SELECT 0; EXECUTE t", "PREPARE s AS SELECT 3", "EXECUTE s"],
    "in strings that are executed": [
        "PREPARE s AS SELECT 1 AS a",
        "DO $$ BEGIN EXECUTE 'CREATE TEMP TABLE made ON COMMIT DROP AS EXECUTE s'; "
        "PERFORM * FROM made; END $$",
        "DO $$ BEGIN EXECUTE 'CREATE TEMP TABLE made ON COMMIT DROP AS EXEC' || 'UTE s'; END $$",
        [extended("DO $$ BEGIN EXECUTE 'DEALLOCATE s'; END $$")], "EXECUTE s",
        "PREPARE s AS SELECT 2", "BEGIN",
        "DO $$ BEGIN EXECUTE 'EXECUTE s'; END $$", "SAVEPOINT a",
        "DO $$ BEGIN EXECUTE 'DEALLOCATE s'; END $$", "ROLLBACK TO a", "EXECUTE s", "COMMIT",
        "EXECUTE s"],
    "what cannot be prepared any more": [
        "CREATE TEMP TABLE made AS SELECT 1", "PREPARE s AS TABLE made", "PREPARE t AS SELECT 2",
        "DROP TABLE made", "BEGIN", "SELECT 's'; EXECUTE t", "DO $$ BEGIN EXECUTE 'EXECUTE t'; END $$",
        "COMMIT", "SELECT 's'; EXECUTE t", "DO $$ BEGIN EXECUTE 'EXECUTE t'; END $$"],
    "together with other statements": [
        "PREPARE s AS SELECT 1; EXECUTE s", "EXECUTE s", "EXECUTE s; SELECT 2", "DEALLOCATE s; SELECT 3",
        "EXECUTE s", "PREPARE s AS SELECT 4", "EXECUTE s", "EXECUTE s; EXECUTE s",
        "DEALLOCATE s; PREPARE s AS SELECT 5", "EXECUTE s", "DEALLOCATE s", "EXECUTE s"],
    "types and names that are not known": [
        "PREPARE s (information_schema.sql_identifier) AS SELECT $1", "EXECUTE s('a')",
        'PREPARE U&"t" AS SELECT 1', "EXECUTE t", 'EXECUTE U&"t"', "DEALLOCATE s", 'DEALLOCATE U&"t"',
        "EXECUTE t", "PREPARE t AS SELECT 2", 'EXECUTE U&"t"', 'DEALLOCATE U&"t"', "EXECUTE t"],
}


def tell(wire, what):
    return wire.query(what) if isinstance(what, str) else wire.ask(*what)


def ask(wire, what):
    return said(tell(wire, what))


@pytest.mark.parametrize("says", DIALOGUES)
@LIMITS
def test_as_directly(same_pgweir, direct, says, limit_of_statements):
    weir = same_pgweir(pool_mode="transaction", default_pool_size=2, server_round_robin=1,
                       max_prepared_statements=limit_of_statements)
    others = [weir.client() for _ in range(2)]
    client = weir.client()
    for what in DIALOGUES[says]:
        ours, theirs = tell(client, what), tell(direct, what)
        assert said(ours) == said(theirs), what
        for have, wanted in zip(positions(ours), positions(theirs)):
            assert have in (None, wanted), what
        for at, other in enumerate(others):  # servers are reassigned, and statements are evicted
            text = f"SELECT {at}, {DIALOGUES[says].index(what)}"
            assert other.ask(parse(text), bind(), execute(), sync()).rows
            other.ask(close("S", "o"), parse(text, "o"), bind((), "o"), execute(), sync())


# What must be sent before, and a text with an error of which the position is known.
POSITIONS = (
    ((), "PREPARE a_long_name_that_is_the_clients_own_and_longer_than_ours AS SELECT 1 +"),
    ((), "PREPARE s AS SELECT nowhere"), ((), "  /* ä */ PREPARE s AS SELEC"),
    ((), "PREPARE s (int) AS SELECT $1, ä"), ((), 'PREPARE "ä ä" AS SELECT 1, nowhere'),
    (("PREPARE s (int) AS SELECT $1",), "EXECUTE s ('x')"),
    (("PREPARE s (int) AS SELECT $1",), "EXPLAIN ANALYZE EXECUTE s (1 + 'y')"),
)


@pytest.mark.parametrize("first, text", POSITIONS)
def test_positions_are_those_of_the_clients_text(pgweir, direct, first, text):
    client = pgweir(pool_mode="transaction", default_pool_size=1).client()
    for messages in ((query(text),), (extended(text),)):
        for wire in (client, direct):
            for what in first:
                wire.query(what)
        ours, theirs = client.ask(*messages), direct.ask(*messages)
        assert positions(ours) == positions(theirs) != [None]
        assert said(ours) == said(theirs)


def test_no_position_in_what_was_analyzed_again(pgweir, direct):
    client = pgweir(pool_mode="transaction", default_pool_size=1).client()
    for text in ("CREATE TABLE analyzed (a int)", "PREPARE s (int) AS SELECT a FROM analyzed",
                 "DROP TABLE analyzed"):
        client.query(text)
    got = client.query("EXECUTE s ((SELECT 1 WHERE true OR 1 = 1))")
    assert got.error["C"] in ("42P01", "0A000") and "P" not in got.error


@LIMITS
def test_deallocate_all_in_one_write(weir, direct):
    """With a Query, and the following message does not wait for the response."""
    client = weir.client()
    for wire in (client, direct):
        assert not wire.ask(parse("SELECT 1", "s"), parse("SELECT 2", "t"), sync()).errors
        wire.send(query("DEALLOCATE ALL"), parse("SELECT 2", "s"), bind((), "s"), execute(), sync(),
                  bind((), "t"), sync())
    for _ in range(3):
        assert said(client.read_result()) == said(direct.read_result())
    assert ask(client, [bind((), "s"), execute(), sync()])[1] == [["2"]]


def test_in_pieces(pgweir, postgres):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    for text in ("/* a */ PREPARE s (int) AS SELECT $1", "EXECUTE s(7)", "SELECT 7", "DEALLOCATE s"):
        client.send_slowly(query(text))
        assert not client.read_result().errors


REFUSED = (
    "PREPARE s AS SELECT 1; EXECUTE s", "EXECUTE s; SELECT 1", "DEALLOCATE s; SELECT 1",
    'PREPARE U&"s" AS SELECT 1', f"PREPARE {'x' * 64} AS SELECT 1")


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("state", ("refuse", "off"))
def test_what_is_not_certain_is_refused(pgweir, text, state):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, session_state=state)
    client = weir.client()
    for messages in ((query(text),), (extended(text),)):
        got = client.ask(*messages)
        assert got.types == "EZ" and got.error["C"] == "0A000"
        assert "cannot be tracked" in got.error["M"] and "prepared statements" in got.error["M"]
    client.query("BEGIN")
    assert client.query(text).status == "E"
    assert client.query("SELECT 1").error["C"] == "25P02"
    client.query("ROLLBACK")
    assert client.value("SELECT 1") == "1"


@pytest.fixture
def mood(postgres):
    postgres.query("DROP TYPE IF EXISTS mood")
    postgres.query("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    yield
    postgres.query("DROP TYPE mood")


ANY_TYPE = {
    "of the database": ("PREPARE s (mood, mood[]) AS SELECT $1 > $2[1]", "EXECUTE s ('ok', '{sad}')", ["t"]),
    "not used in the text": ("PREPARE s (int, mood) AS SELECT 1", "EXECUTE s (2, 'ok')", ["1"]),
    "with a modifier": ("PREPARE s (numeric(3, 1), bit varying(4)[]) AS SELECT $1, $2",
                        "EXECUTE s (1.25, '{1,01}')", ["1.25", "{1,01}"]),
    "of a schema": ('PREPARE s (pg_catalog."char") AS SELECT $1', "EXECUTE s ('abc')", ["a"]),
    "beside a cast to unknown": ("PREPARE s (mood, text) AS SELECT $1, $2, $3::unknown",
                                 "EXECUTE s ('ok', 'a', 'b')", ["ok", "a", "b"]),
}


@pytest.mark.parametrize("state", ("follow", "off"))
@pytest.mark.parametrize("way", (query, extended), ids=("query", "extended"))
@pytest.mark.parametrize("prepares, executes, row", ANY_TYPE.values(), ids=ANY_TYPE)
@pytest.mark.one_loop("the two take turns on both servers")
def test_parameters_of_any_type(pgweir, mood, prepares, executes, row, way, state):
    """PostgreSQL says which types a PREPARE has named, and so the statement follows its client."""
    weir = pgweir(pool_mode="transaction", default_pool_size=2, server_round_robin=1,
                  session_state=state)
    client, other = weir.client(), weir.client()
    for text in ("BEGIN", "SELECT 1"):
        assert not other.query(text).errors
    client.send(way(prepares), way(executes))
    assert client.read_result().tags == ["PREPARE"]
    pids = set()
    for at in range(4):
        assert (client.read_result() if at == 0 else client.ask(way(executes))).rows == [row]
        if at == 0:
            assert not other.query("COMMIT").errors
        pids.add(client.value("SELECT pg_backend_pid()"))
        assert other.value("SELECT 1") == "1"
    assert len(pids) == 2
    assert weir.console().query("SHOW PINNED").rows == []
    assert client.ask(way("DEALLOCATE s")).tags == ["DEALLOCATE"]
    assert client.ask(way(executes)).error["C"] == "26000"


def test_a_named_statement_means_its_own_clients(pgweir):
    """Two clients have the same text by name, which means something else for each."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    clients = [weir.client() for _ in range(2)]
    for at, client in enumerate(clients):
        assert not client.ask(parse(f"SELECT {at} AS s{at}", "s"), sync()).errors
        assert not client.ask(parse("EXECUTE s", "n"), sync()).errors
    for _ in range(2):
        for at, client in enumerate(clients):
            got = client.ask(describe("S", "n"), bind((), "n"), execute(), sync())
            assert got.rows == [[str(at)]] and got.columns[0].name == f"s{at}"
    assert weir.console().query("SHOW PINNED").rows == []


def test_a_named_statement_was_described_elsewhere(pgweir):
    """On a server that does not have the statement that it means."""
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    client, other = weir.client(), weir.client()
    assert not client.ask(parse("SELECT 1 AS a", "s"), sync()).errors
    assert not client.ask(parse("EXECUTE s", "n"), describe("S", "n"), sync()).errors
    other.query("BEGIN")
    other.query("SELECT 1")  # the server that was used last
    assert client.ask(bind((), "n"), execute(), sync()).rows == [["1"]]
    other.query("COMMIT")


def test_a_named_statement_behind_an_error(pgweir):
    """The statement that it means was skipped: the next message does not rely on it."""
    client = pgweir(pool_mode="transaction", default_pool_size=1).client()
    assert not client.query("PREPARE s AS SELECT 1").errors
    assert not client.ask(parse("EXECUTE s", "n"), sync()).errors
    client.send(bind((), "nowhere"), bind((), "n"), execute(), sync(), query("DEALLOCATE s"))
    assert client.read_result().error["C"] == "26000"
    assert client.read_result().tags == ["DEALLOCATE"]


@pytest.mark.parametrize("state", ("follow", "refuse", "off"))
def test_by_a_named_statement_is_followed(pgweir, state):
    """What a statement with a name prepares is known on each server."""
    weir = pgweir(pool_mode="transaction", default_pool_size=2, server_round_robin=1,
                  session_state=state)
    client, other = weir.client(), weir.client()
    assert not client.ask(parse("PREPARE s AS SELECT 1", "p"), parse("EXECUTE s", "n"), sync()).errors
    assert not client.ask(bind((), "p"), execute(), sync()).errors
    for _ in range(3):
        assert client.query("EXECUTE s").rows == [["1"]]
        assert client.ask(bind((), "n"), execute(), sync()).rows == [["1"]]
        assert other.value("SELECT 2") == "2"
    assert weir.console().query("SHOW PINNED").rows == []
    assert client.ask(bind((), "p"), execute(), sync()).error["C"] == "42P05"


@pytest.mark.parametrize("unnamed", ("SELECT 1", "EXECUTE one"))
def test_what_a_named_statement_sets_does_not_stay_for_others(pgweir, unnamed):
    """Whatever the client has prepared without a name before."""
    weir = pgweir(pool_mode="transaction", default_pool_size=2, session_state="follow",
                  session_sample=0)
    client, other = weir.client(), weir.client()
    client.ask(parse("SELECT set_config($1, $2, false)", "conf"), parse("SELECT 1", "one"),
               parse("EXECUTE conf('my.secret', 'mine')", "n"), parse(unnamed), sync())
    assert client.ask(bind((), "n"), execute(), sync()).rows == [["mine"]]
    assert client.value("SELECT current_setting('my.secret', true)") == "mine"
    assert not other.value("SELECT current_setting('my.secret', true)")


@pytest.mark.parametrize("use", ("query", "unnamed", "named"))
def test_what_a_nested_execute_sets_does_not_stay_for_others(pgweir, use):
    """An EXECUTE whose statement is an EXECUTE: of a name that only the server has."""
    weir = pgweir(pool_mode="transaction", default_pool_size=2, session_state="follow",
                  session_sample=0)
    client, other = weir.client(), weir.client()
    client.ask(parse("SELECT set_config('my.secret', 'mine', false)", "conf"), sync())
    ours = client.value("SELECT name FROM pg_prepared_statements WHERE statement LIKE '%secret%' "
                        "AND statement NOT LIKE '%pg_prepared%'")
    client.ask(parse(f'EXECUTE "{ours}"', "n"), sync())
    if use == "query":
        client.query("EXECUTE n")
    elif use == "unnamed":
        client.ask(parse("EXECUTE n"), bind(), execute(), sync())
    else:
        client.ask(parse("EXECUTE n", "m"), bind((), "m"), execute(), sync())
    assert not other.value("SELECT current_setting('my.secret', true)")


@pytest.mark.parametrize("state", ("follow", "refuse", "off"))
@pytest.mark.parametrize("use", ("query", "unnamed", "named"))
def test_what_a_nested_execute_prepares_is_not_for_others(pgweir, use, state):
    weir = pgweir(pool_mode="transaction", default_pool_size=2, session_state=state,
                  session_sample=0)
    client, other = weir.client(), weir.client()
    client.ask(parse("PREPARE x AS SELECT 'secret'", "n"), sync())
    if use == "query":
        client.query("EXECUTE n")
    elif use == "unnamed":
        client.ask(parse("EXECUTE n"), bind(), execute(), sync())
    else:
        client.ask(parse("EXECUTE n", "m"), bind((), "m"), execute(), sync())
    assert other.query("EXECUTE x").error["C"] == "26000"
    assert client.value("SELECT 1") == "1"


@pytest.mark.parametrize("use", ("query", "unnamed", "named"))
def test_what_a_nested_execute_deallocates_is_not_missed_by_others(pgweir, use):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, session_sample=0)
    client, other = weir.client(), weir.client()
    other.ask(parse("SELECT 42 AS other", "s"), sync())
    ours = client.value("SELECT name FROM pg_prepared_statements "
                        "WHERE statement = 'SELECT 42 AS other'")
    client.ask(parse(f'DEALLOCATE "{ours}"', "n"), sync())
    if use == "query":
        result = client.query("EXECUTE n")
    elif use == "unnamed":
        result = client.ask(parse("EXECUTE n"), bind(), execute(), sync())
    else:
        result = client.ask(parse("EXECUTE n", "m"), bind((), "m"), execute(), sync())
    assert result.tags == ["DEALLOCATE"]
    assert other.ask(bind((), "s"), execute(), sync()).rows == [["42"]]


def test_a_named_statement_leaves_the_unnamed_one(pgweir, direct):
    told = []
    for client in (direct, pgweir(pool_mode="transaction", default_pool_size=1).client()):
        client.query("PREPARE s AS SELECT 1 AS a")
        told.append([said(client.ask(*messages)) for messages in (
            (parse("EXECUTE s", "n"), parse("SELECT 2 AS b"), bind((), "n"), execute(), bind(),
             describe(), execute(), sync()),
            (parse("SELECT 3 AS c"), describe("S", ""), sync()),
            (describe("S", "n"), bind((), "n"), execute(), bind(), execute(), sync()))])
    assert told[1] == told[0]


def test_a_query_behind_no_sync(pgweir):
    """It is unknown whether the server runs it: pgweir must not add internal queries around it."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(parse("SELEC"), query("PREPARE s AS SELECT 1"), sync())
    assert client.read_result().types == "EZ"
    client.send(parse("SELECT 1"), query("PREPARE s AS SELECT 1"), sync())
    assert client.read_result().error["C"] == "0A000"
    assert client.read_result().types == "Z"
    assert client.value("SELECT 1") == "1"


def test_sessions_and_zero_pass(pgweir):
    for settings in ({"pool_mode": "session"}, {"pool_mode": "transaction",
                                                "max_prepared_statements": 0}):
        weir = pgweir(default_pool_size=1, **settings)
        client = weir.client()
        assert not client.query("PREPARE s AS SELECT 1; EXECUTE s").errors
        names = client.query("SELECT name FROM pg_prepared_statements").rows
        assert names == [["s"]]


def test_clients_do_not_meet(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    clients = [weir.client() for _ in range(3)]
    for at, client in enumerate(clients):
        assert not client.query(f"PREPARE s AS SELECT {at}").errors
    for _ in range(2):
        for at, client in enumerate(clients):
            assert client.query("EXECUTE s").rows == [[str(at)]]
    clients[0].query("DEALLOCATE s")
    assert clients[0].query("EXECUTE s").error["C"] == "26000"
    assert clients[1].query("EXECUTE s").rows == [["1"]]


HAS_S = "SELECT count(*) FROM pg_prepared_statements WHERE name = 's'"


@pytest.mark.parametrize("leaves", ("COMMIT", "ROLLBACK", "SELECT 1/0", "X"))
def test_names_do_not_stay_on_the_server(pgweir, leaves):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client, other = weir.client(), weir.client()
    for text in ("PREPARE s AS SELECT 1", "PREPARE t AS SELECT 2", "BEGIN", "SELECT 0; EXECUTE s"):
        assert not client.query(text).errors
    assert client.value(HAS_S) == "1"
    if leaves == "X":
        client.close()
    else:
        client.query(leaves)
        client.query("COMMIT")
    assert other.value(HAS_S) == "0"
    assert other.query("SELECT 0; EXECUTE s").error["C"] == "26000"
    assert weir.console().query("SHOW PINNED").rows == []


def test_execute_behind_the_end_of_a_failed_transaction(pgweir, direct):
    """The EXECUTE waits for what precedes it: a Parse that fails, and a ROLLBACK."""
    def run(sql, name=""):
        return parse(sql, name) + bind((), name) + describe() + execute()

    told = []
    for client in (direct, pgweir(pool_mode="transaction").client()):
        client.query("PREPARE p AS SELECT 5")
        client.query("BEGIN")
        client.send(run("SELEC", "s"), sync(), run("ROLLBACK"), run("EXECUTE p"), sync())
        told.append([said(client.read_result()) for _ in range(2)])
    assert told[1] == told[0]
    assert told[0][1][1] == [["5"]]


@pytest.mark.parametrize("text", ("", " ", ";", "-- execute"))
def test_a_text_without_a_statement_exposes_nothing(pgweir, text):
    """SET TRANSACTION must come before any query."""
    client = pgweir(pool_mode="transaction", default_pool_size=1).client()
    for said in ("PREPARE s AS SELECT 1", "BEGIN", text,
                 "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "COMMIT"):
        assert not client.query(said).errors


def test_a_name_that_only_a_function_has(pgweir, postgres):
    """Nothing shows that SELECT f() executes s; a DO block shows it."""
    postgres.query("CREATE OR REPLACE FUNCTION executes() RETURNS void LANGUAGE plpgsql"
                   " AS $$ BEGIN EXECUTE 'EXECUTE s'; END $$")
    client = pgweir(pool_mode="transaction", default_pool_size=1).client()
    client.query("PREPARE s AS SELECT 1")
    assert client.query("SELECT executes()").error["C"] == "26000"
    assert not client.query("DO $$ BEGIN PERFORM executes(); END $$").errors


def test_more_names_than_are_exposed(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client, other = weir.client(), weir.client()
    for at in range(150):
        assert not client.query(f"PREPARE s{at} AS SELECT {at}").errors
    for at in (0, 149):
        assert client.query(f"SELECT 0; EXECUTE s{at}").rows == [["0"], [str(at)]]
    everything = "; ".join(f"EXECUTE s{at}" for at in range(150))
    assert client.query("SELECT 0; " + everything).error["C"] == "26000"
    assert not client.query("DO $$ BEGIN END $$").errors
    assert other.value("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 's%'") == "0"
    assert client.query("EXECUTE s149").rows == [["149"]]


def test_many_executes_in_one_text(pgweir, postgres):
    """psycopg2.extras.execute_batch() as it is documented: PREPARE in a text of its own, pages of
    EXECUTE, each in a transaction of its own and perhaps on another server."""
    postgres.query("DROP TABLE IF EXISTS pages; CREATE TABLE pages (at int);"
                   " GRANT ALL ON pages TO PUBLIC")
    weir = pgweir(pool_mode="transaction", default_pool_size=2, server_round_robin=1)
    client, other = weir.client(), weir.client()
    assert not client.query("BEGIN; SELECT 1").errors
    assert not other.query("SELECT 1").errors
    assert not client.query("COMMIT").errors
    assert not client.query("PREPARE s (int) AS INSERT INTO pages VALUES ($1)").errors
    pids = set()
    for page in range(0, 8, 2):
        result = client.query(f"EXECUTE s ({page});EXECUTE s ({page + 1})")
        assert (result.tags, result.errors) == (["INSERT 0 1"] * 2, [])
        pids.add(client.value("SELECT pg_backend_pid()"))
        pids.add(other.value("SELECT pg_backend_pid()"))
    assert len(pids) == 2
    assert other.value("SELECT string_agg(at::text, ' ' ORDER BY at) FROM pages") == (
        "0 1 2 3 4 5 6 7")
    assert not client.query("BEGIN; EXECUTE s (8)").errors
    assert client.query("EXECUTE s (9);EXECUTE s (10)").tags == ["INSERT 0 1"] * 2
    assert not client.query("COMMIT; DEALLOCATE s").errors
    assert client.query("EXECUTE s (0);EXECUTE s (1)").error["C"] == "26000"
    assert other.value("SELECT count(*) FROM pages") == "11"


def test_exposed_names_in_pieces_and_pipelines(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    assert not client.query("PREPARE s AS SELECT 1").errors
    client.send(query("SELECT 5"), query("SELECT 6; EXECUTE s"), query("SELECT 7; DEALLOCATE s"),
                query("EXECUTE s"))
    assert client.read_result().rows == [["5"]]
    assert client.read_result().rows == [["6"], ["1"]]
    assert client.read_result().rows == [["7"]]
    assert client.read_result().error["C"] == "26000"
    assert not client.query("PREPARE s AS SELECT 1").errors
    client.send_slowly(query("SELECT 6; EXECUTE s"))
    assert client.read_result().rows == [["6"], ["1"]]


def test_what_is_parsed_or_bound_without_a_name_is_taken_over(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    parsed, bound = weir.client(), weir.client()
    assert not parsed.ask(extended("PREPARE s AS SELECT 1 AS a"), parse("EXECUTE s"), sync()).errors
    parsed.read_result()
    assert not bound.query("BEGIN").errors
    assert not bound.ask(parse("PREPARE s AS SELECT 2"), bind(), sync()).errors
    new = weir.take_over()
    assert bound.ask(execute(), sync()).tags == ["PREPARE"]
    assert bound.query("COMMIT").tags == ["COMMIT"]
    assert new.wait(15) == 0
    assert parsed.ask(bind(), describe(), execute(), sync()).rows == [["1"]]
    assert bound.query("EXECUTE s").rows == [["2"]]


def test_a_name_that_is_exposed_waits_for_its_take_over(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    for text in ("PREPARE s AS SELECT 1", "BEGIN", "SELECT 0; EXECUTE s"):
        assert not client.query(text).errors
    new = weir.take_over()
    assert client.query("SELECT 0; EXECUTE s").rows == [["0"], ["1"]]
    client.query("COMMIT")
    assert new.wait(15) == 0
    assert client.query("SELECT 0; EXECUTE s").rows == [["0"], ["1"]]
    assert client.query("EXECUTE s").rows == [["1"]]


# -- "cached plan must not change result type" ---------------------------------------------------


@pytest.fixture
def table(postgres):
    postgres.query("DROP TABLE IF EXISTS healed")
    postgres.query("CREATE TABLE healed (a int)")
    postgres.query("INSERT INTO healed VALUES (1)")
    postgres.query("GRANT ALL ON healed TO PUBLIC")
    yield lambda: postgres.query("ALTER TABLE healed ADD b int DEFAULT 2")
    postgres.query("DROP TABLE healed")


USE = bind((), "s") + describe() + execute() + sync()


@pytest.fixture
def prepared(pgweir, table):
    client = pgweir(pool_mode="transaction", default_pool_size=1).client()
    assert not client.ask(parse("SELECT * FROM healed", "s"), USE).errors
    return client


def test_heals_unseen(prepared, table):
    table()
    got = prepared.ask(USE)
    assert got.types == "2TDCZ" and got.rows == [["1", "2"]]
    assert prepared.ask(USE).types == "2TDCZ"


def test_psycopg_forgets_by_sql(pgweir):
    """It DEALLOCATEs statements beyond its own limit; after a pipeline, all at once."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.connect(prepare_threshold=0)
    client.prepared_max = 2
    for number in range(6):
        assert client.execute(f"SELECT {number}").fetchone() == (number,)
    with client.pipeline():
        cursors = [client.execute(f"SELECT {number}") for number in range(10, 16)]
        assert [cursor.fetchone()[0] for cursor in cursors] == list(range(10, 16))
    for number in range(20, 24):
        assert client.execute(f"SELECT {number}").fetchone() == (number,)
    held = [row["prepared_statements"] for row in weir.admin("SHOW CLIENTS")
            if row["database"] == "app"]
    assert held[0] <= 3


def test_heals_in_psycopg(pgweir, table):
    client = pgweir(pool_mode="transaction", default_pool_size=1).connect(prepare_threshold=0)
    assert client.execute("SELECT * FROM healed").fetchall() == [(1,)]
    table()
    assert client.execute("SELECT * FROM healed").fetchall() == [(1, 2)]


def test_asyncpg_is_told(pgweir, table):
    """It caches the columns, so it must get the error: it prepares the statement again itself."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)

    async def work():
        client = await asyncpg.connect(host="127.0.0.1", port=weir.port, user="alice", database="app")
        assert [tuple(row) for row in await client.fetch("SELECT * FROM healed")] == [(1,)]
        table()
        assert [tuple(row) for row in await client.fetch("SELECT * FROM healed")] == [(1, 2)]
        await client.close()

    asyncio.run(work())


def test_what_is_behind_is_said_again(prepared, table):
    table()
    got = prepared.ask(bind((), "s"), describe(), execute(), parse("SELECT 5"), bind(), execute(),
                       parse("SELECT 6", "t"), sync())
    assert got.types == "2TDC12DC1Z" and got.rows == [["1", "2"], ["5"]]
    assert prepared.ask(bind((), "t"), execute(), sync()).rows == [["6"]]


@pytest.mark.parametrize("batch", (
    [bind((), "s"), execute(), sync()],                                  # relies on the old columns
    [parse("SELECT 1"), bind(), execute(), bind((), "s"), describe(), execute(), sync()],
    [bind((), "s"), describe("P", "other"), execute(), sync()],
    # More statements are in flight.
    [bind((), "s"), describe(), execute(), sync(), query("SELECT 1")],
    [bind((), "s"), describe(), execute(), parse(f"SELECT '{'x' * 5000}'"), sync()],
))
def test_does_not_heal_what_is_not_certain(prepared, table, batch):
    table()
    got = prepared.ask(*batch)
    assert got.error["C"] == "0A000"
    while batch[-1][:1] == b"Q" and not prepared.read_result().rows:
        pass
    assert prepared.ask(USE).types == "2TDCZ"


def test_does_not_heal_in_a_transaction(prepared, table):
    prepared.query("BEGIN")
    table()
    got = prepared.ask(USE)
    assert got.error["C"] == "0A000" and got.status == "E"
    prepared.query("ROLLBACK")
    assert prepared.ask(USE).types == "2TDCZ"


def test_a_statement_that_cannot_be_healed(prepared, postgres, table):
    """The second response is forwarded to the client, whatever it is."""
    postgres.query("DROP TABLE healed")
    assert prepared.ask(USE).error["C"] == "42P01"
    postgres.query("CREATE TABLE healed (c text)")
    postgres.query("GRANT ALL ON healed TO PUBLIC")
    got = prepared.ask(USE)
    assert got.types == "2TCZ" and [column.name for column in got.columns] == ["c"]


# -- the first statement on a server that has another client's parameters ------------------------

FIRST = {
    "PREPARE": (["PREPARE s AS SELECT 1"], "CZ"),
    "a refused PREPARE": (["PREPARE s AS SELEC"], "EZ"),
    "DEALLOCATE": (["PREPARE s AS SELECT 1", "DEALLOCATE s"], "CZ"),
    "EXECUTE": (["PREPARE s AS SELECT 1", "EXECUTE s"], "TDCZ"),
    "EXPLAIN EXECUTE": (["PREPARE s AS SELECT 1", "EXPLAIN EXECUTE s"], "TDCZ"),
    "CREATE TABLE AS EXECUTE": (
        ["PREPARE s AS SELECT 1", "CREATE TEMPORARY TABLE first_test ON COMMIT DROP AS EXECUTE s"], "CZ"),
}


@pytest.mark.parametrize("begins_late", (0, 1), ids=("", "late begin"))
@pytest.mark.parametrize("adds_host", (0, 1), ids=("", "add host"))
@pytest.mark.parametrize("sends, types", FIRST.values(), ids=FIRST.keys())
def test_first_on_a_server_with_another_name(pgweir, sends, types, adds_host, begins_late):
    """What waits for the answer to our SET must not wait before that has been sent."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1, late_begin=begins_late,
                  application_name_add_host=adds_host, max_prepared_statements=1,
                  server_reset_query="DISCARD ALL", server_reset_query_always=1)
    ours = weir.client(application_name="ours")
    others = weir.client(application_name="others")
    *before, last = sends
    for sql in before:
        assert not ours.query(sql).errors
    assert others.value("SELECT 1") == "1"
    if begins_late:
        assert ours.query("BEGIN").tags == ["BEGIN"]
    assert ours.query(last).types == types
    if begins_late:
        assert ours.query("ROLLBACK").tags == ["ROLLBACK"]
    assert others.value("SELECT 2") == "2"
    assert weir.pool()["sv_active"] == 0


NO_TYPES = message("t", bytes(2)), message("n")


def test_who_waits_for_our_own_query_keeps_the_server(scripted):
    """The answer to our SET is no end of a batch: what waits for it goes on on that server."""
    weir, first, server = scripted(default_pool_size=1)
    second = weir.client(application_name="second")
    third = weir.client(application_name="third")
    second.send(query("PREPARE s AS SELECT 1"))
    assert server.expect("Q").body.startswith(b"SET \"application_name\"='second'")
    third.send(query("SELECT 3"))
    weir.wait_pool(cl_waiting=1)
    server.send(fake.complete("SET"), fake.parameter("application_name", "second"), fake.ready())
    server.expect("C")
    assert server.expect("Q").body == b'PREPARE "PGBOUNCER_0" AS SELECT 1\0'
    assert server.expect("D").body == b"SPGBOUNCER_0\0"
    server.expect("S")
    server.send(message("3"), fake.complete("PREPARE"), fake.ready(), *NO_TYPES, fake.ready())
    assert second.read_result().types == "CZ"
    assert weir.admin("SHOW STATS")[0]["total_query_count"] == 2


@pytest.mark.parametrize("is_reloaded", (False, True))
def test_names_are_withdrawn_within_a_limit(scripted, is_reloaded):
    """The server has said that the name is still there, and does not answer to its Close."""
    weir, client, server = scripted(default_pool_size=1, server_connect_timeout=1)
    client.send(query("PREPARE s AS SELECT 5"))
    for kind in "CQDS":
        server.expect(kind)
    server.send(message("3"), fake.complete("PREPARE"), fake.ready(), *NO_TYPES, fake.ready())
    assert client.read_until("Z")
    client.send(query("SELECT 1; EXECUTE s"))
    assert server.expect("P").body.startswith(b"s\0")
    server.expect("S")
    server.send(message("1"), fake.ready())
    server.expect("Q")
    server.send(fake.complete("SELECT 1"), fake.complete("SELECT 1"), fake.ready())
    assert client.read_until("Z")
    server.expect("Q")  # the question
    server.send(fake.columns("k", "n", "v"), fake.row("e", b"s".hex(), ""), fake.complete("SELECT 1"),
                fake.ready())
    assert server.expect("C").body == b"Ss\0"
    server.expect("S")
    if is_reloaded:
        weir.reload(log_connections=0)
    weir.wait_log("server parameters timeout")
    with pytest.raises(Closed):
        client.read_until("Z")


@pytest.mark.parametrize("status, failed", [("I", "I"), ("T", "E")])
def test_a_cancel_that_hits_our_describe_is_told(scripted, status, failed):
    """Else a COMMIT would roll back, and no error would have said so."""
    _, client, server = scripted(default_pool_size=1)
    if status == "T":
        client.send(query("BEGIN"))
        server.expect("Q")
        server.send(fake.complete("BEGIN"), fake.ready("T"))
        client.read_until("Z")
    client.send(query("PREPARE s AS SELECT 1"))
    for kind in "CQDS":
        server.expect(kind)
    server.send(message("3"), fake.complete("PREPARE"), fake.ready(status),
                fake.error("canceling statement due to user request", "57014"), fake.ready(failed))
    got = client.read_result()
    assert got.types == "CEZ" and got.error["C"] == "57014"
    assert got.messages[-1].body == failed.encode()


def test_a_prepare_that_fails_is_told_once(scripted):
    _, client, server = scripted(default_pool_size=1)
    client.send(query("PREPARE s AS SELECT a"))
    for kind in "CQDS":
        server.expect(kind)
    server.send(message("3"), fake.error("no column", "42703"), fake.ready(),
                fake.error("no statement", "26000"), fake.ready())
    assert client.read_result().types == "EZ"
    client.send(query("SELECT 1"))
    server.expect("Q")
    server.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]
