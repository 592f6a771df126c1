# SPDX-License-Identifier: ISC
"""The extended protocol: pipelines, errors in pipelines, Flush, portals, function calls."""

import struct
import threading

import psycopg
import pytest

from .kit import fake
from .kit.wire import (bind, close, describe, execute, extended, flush, message, parse, query, sync)

modes = pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
keeping = pytest.mark.parametrize("mode", ("session", "transaction"))


@modes
def test_psycopg_pipeline(pgweir, mode):
    connection = pgweir(pool_mode=mode).connect()
    with connection.pipeline():
        cursors = [connection.execute("SELECT %s::int", [number]) for number in range(500)]
    assert [cursor.fetchone()[0] for cursor in cursors] == list(range(500))


@keeping
def test_psycopg_pipeline_with_errors(pgweir, mode):
    connection = pgweir(pool_mode=mode).connect()
    with pytest.raises(psycopg.errors.DivisionByZero):
        with connection.pipeline():
            connection.execute("SELECT 1")
            connection.execute("SELECT 1 / %s", [0])
            connection.execute("SELECT 2")
    assert connection.execute("SELECT 3").fetchone() == (3,)


@modes
def test_many_batches_in_one_packet(pgweir, mode):
    client = pgweir(pool_mode=mode, default_pool_size=2).client()
    client.send(*[extended("SELECT $1::text", [number]) for number in range(300)])
    for number in range(300):
        result = client.read_result()
        assert (result.types, result.rows) == ("12TDCZ", [[str(number)]])


@modes
def test_simple_queries_in_a_pipeline(pgweir, mode):
    client = pgweir(pool_mode=mode, default_pool_size=2).client()
    client.send(*[query(f"SELECT {number}") for number in range(300)])
    for number in range(300):
        assert client.read_result().rows == [[str(number)]]


@modes
def test_an_error_skips_to_the_sync(pgweir, mode):
    client = pgweir(pool_mode=mode, default_pool_size=1).client()
    client.send(parse("SELECT 1"), bind(), execute(), parse("SELECT nonsense nonsense nonsense"),
                bind(), execute(), parse("SELECT 3"), bind(), execute(), sync(),
                extended("SELECT 4"))
    first, second = client.read_result(), client.read_result()
    assert first.types == "12DCEZ" and first.error["C"] == "42601"
    assert second.rows == [["4"]]


@modes
def test_error_after_error(pgweir, mode):
    weir = pgweir(pool_mode=mode, default_pool_size=1)
    client = weir.client()
    client.send(*[extended("SELECT 1/0")] * 50, extended("SELECT 'fine'"))
    for _ in range(50):
        assert client.read_result().error["C"] == "22012"
    assert client.read_result().rows == [["fine"]]


@modes
def test_flush(pgweir, mode):
    client = pgweir(pool_mode=mode).client()
    client.send(parse("SELECT 1"), flush())
    client.expect("1")
    client.send(bind(), flush())
    client.expect("2")
    client.send(describe(), execute(), flush())
    client.expect("TDC")
    client.send(sync())
    assert client.expect("Z").body == b"I"


@modes
def test_sync_alone(pgweir, mode):
    client = pgweir(pool_mode=mode).client()
    client.send(sync(), sync(), sync())
    for _ in range(3):
        assert client.expect("Z").body == b"I"
    assert client.value("SELECT 1") == "1"


@modes
def test_flush_alone(pgweir, mode):
    client = pgweir(pool_mode=mode).client()
    client.send(flush(), flush())
    assert client.value("SELECT 1") == "1"


@keeping
def test_portals_with_limits(pgweir, mode):
    client = pgweir(pool_mode=mode).client()
    client.query("BEGIN")
    client.send(parse("SELECT generate_series(1, 10)"), bind(portal="p"), execute("p", 4), sync())
    assert client.read_result().types == "12DDDDsZ"
    client.send(execute("p", 4), sync())
    assert client.read_result().types == "DDDDsZ"
    client.send(execute("p", 4), close("P", "p"), sync())
    assert client.read_result().types == "DDC3Z"
    client.query("COMMIT")


@modes
def test_describe_and_empty_query_and_no_data(pgweir, mode):
    client = pgweir(pool_mode=mode).client()
    client.send(parse("SELECT $1::int"), describe("S"), sync())
    assert client.read_result().types == "1tTZ"
    client.send(extended(""))
    assert client.read_result().types == "12nIZ"
    client.send(extended("SET LOCAL work_mem = '5MB'"))
    assert client.read_result().types == "12nNCZ"


@modes
def test_close_of_what_does_not_exist(pgweir, mode):
    client = pgweir(pool_mode=mode).client()
    client.send(close("P", "nothing"), close("S", ""), sync())
    assert client.read_result().types == "33Z"


@modes
def test_null_and_binary_values(pgweir, mode):
    client = pgweir(pool_mode=mode).client()
    client.send(parse("SELECT $1::text, $2::text"), bind([None, ""]), execute(), sync())
    assert client.read_result().rows == [[None, ""]]
    client.send(parse("SELECT 258"), bind(result_format=1), execute(), sync())
    result = client.read_result()
    assert [m.body for m in result.messages if m.type == "D"] == [b"\0\1\0\0\0\4\0\0\1\2"]


@modes
def test_large_binds_in_a_pipeline(pgweir, mode):
    client = pgweir(pool_mode=mode).client()
    sizes = (1, 100, 4000, 4096, 65536, 70000, 1000000)
    for size in sizes:
        client.send(extended("SELECT md5($1), length($1)", ["z" * size]))
    for size in sizes:
        assert client.read_result().rows[0][1] == str(size)


@modes
def test_function_call(pgweir, mode):
    client = pgweir(pool_mode=mode).client()
    oid = int(client.value("SELECT 'pg_catalog.int4pl'::regproc::oid::int"))
    body = struct.pack("!IHHH", oid, 1, 1, 2)
    for value in (40, 2):
        body += struct.pack("!Ii", 4, value)
    client.send(message("F", body + struct.pack("!H", 1)))
    client.expect("V")
    assert client.expect("Z").body == b"I"


@keeping
def test_a_pipeline_over_a_whole_transaction(pgweir, mode):
    weir = pgweir(pool_mode=mode, default_pool_size=1)
    client = weir.client()
    client.send(parse("BEGIN"), bind(), execute(), parse("SELECT 1"), bind(), execute(),
                parse("COMMIT"), bind(), execute(), sync())
    result = client.read_result()
    assert result.tags == ["BEGIN", "SELECT 1", "COMMIT"] and result.status == "I"


def test_batches_without_a_pause_do_not_starve_others(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    greedy, other = weir.client(), weir.client()
    greedy.send(*[extended("SELECT pg_sleep(0.01)")] * 100)
    other.send(extended("SELECT 'other'"))
    assert other.read_result().rows == [["other"]]
    for _ in range(100):
        greedy.read_result()


def test_disable_pqexec(pgweir):
    weir = pgweir(disable_pqexec=1)
    client = weir.client()
    assert client.ask(extended("SELECT 1")).rows == [["1"]]
    client.send(query("SELECT 1"))
    assert client.read_refusal().text == "PQexec disallowed"


def test_max_packet_size(pgweir):
    weir = pgweir(max_packet_size=100000, pool_mode="transaction")
    client = weir.client()
    assert client.value("SELECT length('" + "x" * 50000 + "')") == "50000"
    client.send(query("SELECT '" + "x" * 200000 + "'"))
    client.wait_closed()
    assert weir.client().value("SELECT 1") == "1"


# -- the ledger, against a script -----------------------------------------------------------------


@pytest.fixture
def pair(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode="transaction", default_pool_size=1,
                  server_login_retry="0.1")
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    weir.far = far
    return weir, client, server


OUT_OF_STEP = {
    "bind complete for a parse": (parse("x") + sync(), message("2")),
    "two parse completes": (parse("x") + sync(), message("1") * 2),
    "ready without parse complete": (parse("x") + sync(), fake.ready()),
    "rows for a parse": (parse("x") + sync(), fake.row("1")),
    "close complete for a bind": (bind() + sync(), message("3")),
    "ready before the sync": (parse("x") + flush(), message("1") + fake.ready()),
}


@pytest.mark.parametrize("asks, says", OUT_OF_STEP.values(), ids=OUT_OF_STEP.keys())
def test_a_server_out_of_step_is_not_lent_again(pair, asks, says):
    """Its own client may get wrong messages; the next client must not."""
    weir, client, server = pair
    client.send(asks)
    server.take(len(asks))
    server.send(says, fake.ready())
    client.limit = 2
    client.close()
    other = weir.client()
    other.send(query("SELECT 1"))
    fresh = weir.far.accept().login()
    fresh.expect("Q")
    fresh.send(fake.answer("fresh"))
    assert other.read_result().rows == [["fresh"]]


def test_nothing_is_sent_before_its_turn(pair):
    """A second client's data is never sent to a server that still owes responses to the first."""
    weir, client, server = pair
    other = weir.client()
    client.send(extended("SELECT 1"))
    server.expect("PBDES")
    other.send(extended("SELECT 2"))
    weir.wait_pool(cl_waiting=1)
    server.send(message("1") + message("2"))
    assert server.buffer == b"" and not server.is_closed() and server.buffer == b""
    server.send(fake.answer("1"))
    client.read_result()
    server.expect("PBDES")
    server.send(message("1") + message("2") + fake.answer("2"))
    assert other.read_result().rows == [["2"]]


def test_answers_cut_anywhere(pair):
    weir, client, server = pair
    whole = message("1") + message("2") + fake.answer("cut")
    for at in range(1, len(whole)):
        client.send(extended("SELECT 1"))
        server.expect("PBDES")
        server.send(whole[:at])
        server.send(whole[at:])
        assert client.read_result().types == "12TDCZ"


def test_asynchronous_messages_anywhere(pair):
    weir, client, server = pair
    between = fake.notice("by the way") + message("A", struct.pack("!I", 7) + b"c\0p\0") \
        + fake.parameter("weir_test", "changed")
    client.send(extended("SELECT 1"))
    server.expect("PBDES")
    parts = [message("1"), message("2"), fake.columns("a"), fake.row("1"),
             fake.complete("SELECT 1"), fake.ready()]
    for part in parts:
        server.send(between, part)
    result = client.read_result()
    assert result.types.replace("N", "").replace("A", "").replace("S", "") == "12TDCZ"
    assert result.types.count("N") == 6
    client.send(query("SELECT 2"))
    server.expect("Q")
    server.send(fake.answer("2"))
    assert client.read_result().rows == [["2"]]


# -- the limit of owed responses ------------------------------------------------------------------

LEDGER_MAX = 64 * 1024


def held_back(client, server, asks, answers, expected):
    """The server responds only after the maximum number of responses is owed."""
    sender = threading.Thread(target=client.send, args=asks)
    sender.start()
    kinds, flushes, owed = "", 0, 0
    while owed < LEDGER_MAX:
        kind = server.read().type
        owed += kind in answers
        kinds += kind
    assert server.read().type == "H"  # pgweir sends the Flush that lets it respond
    server.send(*(answers[kind] for kind in kinds if kind in answers))
    seen = 0
    while seen < expected.count("Z"):
        kind = server.read().type
        if kind in answers:
            server.send(answers[kind])
        seen += kind == "S"
    got = client.read_result()
    sender.join(60)
    assert got.types == expected


ANSWERS = {"P": message("1"), "B": message("2"), "D": message("n"), "E": fake.complete("SELECT 0"),
           "C": message("3"), "S": fake.ready()}


@pytest.mark.parametrize("part, types, count, follows", [
    (parse(""), "1", 70000, 200),
    (parse(""), "1", 70000, 0),
    (close("P", ""), "3", 70000, 200),
    (parse("") + bind() + describe() + execute(), "12nC", 18000, 200),
    (parse("", name="s") + close("S", "s"), "13", 35000, 0),
], ids=("Parse", "Parse, not followed", "Close", "PBDE", "names, not followed"))
def test_longer_than_what_may_be_owed(scripted, part, types, count, follows):
    """One Sync for all of it: only pgweir's Flush makes the server respond, and wakes the client.
    """
    _, client, server = scripted(max_prepared_statements=follows)
    held_back(client, server, [part * count, sync()], ANSWERS, types * count + "Z")


@pytest.mark.parametrize("count", (LEDGER_MAX, LEDGER_MAX + 5000), ids=("full", "more"))
def test_full_of_what_is_answered_here(scripted, count):
    """One message needs the server; pgweir responds to all others itself."""
    _, client, server = scripted()
    ours = close("S", "PGBOUNCER_0")  # no client has statements with such names
    sender = threading.Thread(target=client.send, args=(
        parse("SELECT 1", name="s"), ours * (count - 1), sync()))
    sender.start()
    server.expect("P")
    server.expect("H")
    server.send(message("1"))
    server.expect("S")
    server.send(fake.ready())
    assert client.read_result().types == "1" + "3" * (count - 1) + "Z"
    sender.join(60)


def test_psycopg_with_more_than_may_be_owed(pgweir):
    """Each row is a Parse or Bind, Describe and Execute, with one Sync for all."""
    count = LEDGER_MAX // 3 + 500
    connection = pgweir(pool_mode="transaction").connect()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE many_test (n int)")
        cursor.executemany("INSERT INTO many_test VALUES (%s)", [(n,) for n in range(count)])
        assert cursor.rowcount == count
        with connection.pipeline():
            cursors = [connection.execute("SELECT %s::int", [n]) for n in range(count)]
        assert [each.fetchone()[0] for each in cursors] == list(range(count))
        assert cursor.execute("SELECT count(*) FROM many_test").fetchone() == (count,)
        cursor.execute("DROP TABLE many_test")
