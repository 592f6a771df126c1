# SPDX-License-Identifier: ISC
"""COPY in both directions, larger than any buffer, with constant memory."""

import threading

import psycopg
import pytest

from .kit import fake
from .kit.wire import bind, execute, extended, message, parse, query, sync

MB = 1024 * 1024

modes = pytest.mark.parametrize("mode", ("session", "transaction", "statement"))


@pytest.fixture
def table(postgres, request):
    name = f"copy_{abs(hash(request.node.name))}"
    postgres.query(f"CREATE UNLOGGED TABLE {name} (n int, t text)")
    postgres.query(f"GRANT ALL ON {name} TO PUBLIC")
    yield name
    try:
        postgres.query(f"SET lock_timeout = 1; DROP TABLE {name}")
    except psycopg.errors.LockNotAvailable:  # the test has left a transaction open
        postgres.end_backends()
        postgres.query(f"DROP TABLE {name}")


@modes
def test_copy_both_ways(pgweir, table, mode):
    connection = pgweir(pool_mode=mode).connect()
    rows = [(number, f"row {number} " + "x" * (number % 300)) for number in range(20000)]
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {table} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        assert cursor.rowcount == len(rows)
        with cursor.copy(f"COPY (SELECT * FROM {table} ORDER BY n) TO STDOUT") as copy:
            copy.set_types(["int4", "text"])
            assert list(copy.rows()) == rows
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (20000,)


@modes
def test_binary_copy(pgweir, table, mode):
    connection = pgweir(pool_mode=mode).connect()
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "text"])
            for number in range(1000):
                copy.write_row((number, "b" * number))
        with cursor.copy(f"COPY {table} TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int4", "text"])
            assert [row[0] for row in copy.rows()] == list(range(1000))


@modes
def test_copy_that_the_client_gives_up(pgweir, table, mode):
    weir = pgweir(pool_mode=mode, default_pool_size=1)
    client = weir.client()
    client.send(query(f"COPY {table} FROM STDIN"))
    client.expect("G")
    client.send(message("d", b"1\tone\n"), message("f", b"changed my mind\0"))
    result = client.read_result()
    assert result.error["C"] == "57014"
    assert client.value(f"SELECT count(*) FROM {table}") == "0"


@modes
def test_copy_that_the_server_gives_up(pgweir, table, mode):
    """The client keeps sending for a while: that data is discarded."""
    weir = pgweir(pool_mode=mode, default_pool_size=1)
    client = weir.client()
    client.send(query(f"COPY {table} FROM STDIN"))
    client.expect("G")
    client.send(message("d", b"not a number\tx\n"))
    client.send(*[message("d", b"1\tstill sending\n")] * 20000)
    client.send(message("c"))
    result = client.read_result()
    assert result.error["C"] == "22P02"
    assert result.status == "I"
    assert weir.client("alice").value("SELECT 'next'") == "next" if mode != "session" else True
    assert client.value("SELECT 'same'") == "same"


def test_half_a_late_message_takes_its_server_along(pgweir, table):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(query(f"COPY {table} FROM STDIN"))
    client.expect("G")
    client.send(message("d", b"bad\tbad\n"), message("d", b"half of this will never come")[:20])
    assert client.read_result().error["C"] == "22P02"
    client.close()
    assert weir.client().value("SELECT 'whole'") == "whole"


def test_late_copy_data_after_the_server_is_gone_back(pgweir, table):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(query(f"COPY {table} FROM STDIN"))
    client.expect("G")
    client.send(message("d", b"bad\tbad\n"), message("d", b"2\tb\n"))
    result = client.read_result()
    assert result.error["C"] == "22P02"
    client.send(message("d", b"3\tc\n"), message("c"))
    other = weir.client()
    assert other.value("SELECT 'other'") == "other"
    assert client.value("SELECT 'after'") == "after"


@modes
def test_copy_in_extended_protocol(pgweir, table, mode):
    client = pgweir(pool_mode=mode).client()
    client.send(parse(f"COPY {table} FROM STDIN"), bind(), execute(), sync())
    client.expect("12G")
    client.send(message("d", b"1\tone\n2\ttwo\n"), message("c"), sync())
    result = client.read_result()
    assert result.tags == ["COPY 2"] and result.status == "I"
    assert client.value(f"SELECT count(*) FROM {table}") == "2"


GOOD, BAD, DONE = message("d", b"1\tone\n"), message("d", b"bad\tbad\n"), message("c")

# Messages sent right after Parse, Bind and Execute of a COPY, and PostgreSQL's responses.
FAILING = {
    "into a view": ("a_view", sync() + DONE + sync(), "12GEZZ"),
    "into a view, one Sync": ("a_view", sync() + DONE, "12GEZ"),
    "data and no CopyDone": ("{table}", sync() + BAD + sync(), "12GEZ"),
    "two Syncs behind the data": ("{table}", BAD + sync() + sync(), "12GEZZ"),
    "a Sync before and one behind": ("{table}", GOOD + sync() + BAD + sync(), "12GEZ"),
    "CopyDone and Sync": ("{table}", sync() + BAD + DONE + sync(), "12GEZ"),
    "CopyFail": ("{table}", sync() + GOOD + message("f", b"no\0") + sync(), "12GEZ"),
    "a good end": ("{table}", sync() + GOOD + sync() + DONE + sync(), "12GCZ"),
}


@pytest.fixture(scope="module")
def a_view(postgres):
    postgres.query("CREATE VIEW copy_view AS SELECT 1 AS n, 'x' AS t")
    postgres.query("GRANT ALL ON copy_view TO PUBLIC")
    yield "copy_view"
    postgres.query("DROP VIEW copy_view")


@pytest.mark.parametrize("pieces", (1, 2), ids=("at once", "when it has asked"))
@pytest.mark.parametrize("where, sent, types", FAILING.values(), ids=FAILING.keys())
@modes
def test_a_copy_that_fails_with_syncs_in_it(same_pgweir, table, a_view, where, sent, types, pieces, mode):
    """Each Sync that PostgreSQL responds to is forwarded, and the server can be reused."""
    weir = same_pgweir(pool_mode=mode, default_pool_size=1)
    client = weir.client()
    target = where.format(table=table) if where.startswith("{") else a_view
    begin = [parse(f"COPY {target} FROM STDIN"), bind(), execute()]
    pid = client.value("SELECT pg_backend_pid()")
    if pieces == 1:
        client.send(*begin, sent)
        got = "".join(client.read().type for _ in types)
    else:
        client.send(*begin, message("H"))
        got = "".join(client.expect(kind).type for kind in "12G")
        client.send(sent)
        got += "".join(client.read().type for _ in types[3:])
    assert got == types
    assert client.ask(extended("SELECT 'on'")).rows == [["on"]]
    assert client.value("SELECT pg_backend_pid()") == pid
    if mode != "session":
        assert weir.client().value("SELECT pg_backend_pid()") == pid


def test_several_copies_in_one_query(pgweir, table):
    client = pgweir(pool_mode="transaction").client()
    client.send(query(f"COPY {table} FROM STDIN; SELECT 1; COPY {table} FROM STDIN;"
                      f" COPY {table} TO STDOUT"))
    client.expect("G")
    client.send(message("d", b"1\ta\n"), message("c"))
    client.expect("CTDCG")
    client.send(message("d", b"2\tb\n"), message("c"))
    client.expect("CH")
    result = client.read_result()
    assert result.types == "ddcCZ"


def test_no_one_else_gets_the_server_during_a_copy(pgweir, table):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client, other = weir.client(), weir.client()
    client.send(query(f"COPY {table} FROM STDIN"))
    client.expect("G")
    client.send(message("d", b"1\tone\n"))
    other.send(query("SELECT 'other'"))
    weir.wait_pool(cl_waiting=1)
    client.send(message("c"))
    assert client.read_result().tags == ["COPY 1"]
    assert other.read_result().rows == [["other"]]


def test_copy_both_is_kept_in_step(scripted):
    """CopyBothResponse, as in replication."""
    weir, client, server = scripted()
    client.send(query("START SOMETHING"))
    server.expect("Q")
    server.send(message("W", b"\0\0\0"), message("d", b"from the server"))
    client.expect("W")
    assert client.expect("d").body == b"from the server"
    client.send(message("d", b"from the client"))
    assert server.expect("d").body == b"from the client"
    server.send(message("c"))
    client.expect("c")
    client.send(message("c"))
    server.expect("c")
    server.send(fake.complete("COPY 0"), fake.ready())
    assert client.read_result().tags == ["COPY 0"]
    weir.wait_pool(sv_idle=1)


@pytest.mark.limit(180)
def test_memory_is_constant_while_much_passes(pgweir, postgres):
    weir = pgweir(pool_mode="transaction")
    connection = weir.connect()
    connection.execute("SELECT repeat('x', 1000000)").fetchone()
    before, peak = weir.rss(), 0
    out = 0
    with connection.cursor() as cursor:
        statement = "COPY (SELECT repeat('x', 10000) FROM generate_series(1, 20000)) TO STDOUT"
        with cursor.copy(statement) as copy:
            for data in copy:
                out += len(data)
                if out % 5000 < 20:
                    peak = max(peak, weir.rss())
    assert out == 20000 * 10001
    peak = max(peak, weir.rss())
    assert peak - before < 16 * MB

    piece, peak = (b"y" * 9999 + b"\n") * 20, 0
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE heap_of (t text) ON COMMIT DROP")
        # Discarded data needs no disk space.
        with cursor.copy("COPY heap_of FROM STDIN WHERE t IS NULL") as copy:
            for turn in range(1000):
                copy.write(piece)
                if turn % 50 == 0:
                    peak = max(peak, weir.rss())
    assert peak - before < 16 * MB


def test_many_copies_at_once(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=4)
    wrong = []

    def work(number):
        with psycopg.connect(host="127.0.0.1", port=weir.port, dbname="app", user="alice",
                             autocommit=True, prepare_threshold=None) as connection:
            for _ in range(3):
                with connection.cursor() as cursor:
                    sql = f"COPY (SELECT {number} FROM generate_series(1, 5000)) TO STDOUT"
                    with cursor.copy(sql) as copy:
                        got = b"".join(copy)
                    if got != f"{number}\n".encode() * 5000:
                        wrong.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not wrong


# -- bulk data -------------------------------------------------------------------------------------

MUCH = 12 * MB


def test_what_comes_behind_much_comes_without_more_of_it(scripted):
    """During bulk transfer the kernel wakes pgweir for large amounts only; a small rest must not
    wait.
    """
    _, client, server = scripted()
    for _ in range(3):
        client.send(query("SELECT much"))
        server.expect("Q")
        sending = threading.Thread(target=server.send, args=(
            fake.columns("c"), fake.row("x" * 1024) * (MUCH // 1024), fake.row("a little")))
        sending.start()
        client.expect("T" + "D" * (MUCH // 1024))
        assert b"a little" in client.expect("D").body
        sending.join()
        server.send(fake.row("later"))
        assert b"later" in client.expect("D").body
        server.send(fake.complete("SELECT"), fake.ready())
        client.read_until("Z")


@modes
def test_much_each_way_in_turn(pgweir, table, mode):
    """Bulk in, a short query, bulk out, a short query, over the same connections."""
    connection = pgweir(pool_mode=mode, default_pool_size=1).connect(autocommit=True)
    with connection.cursor() as cursor:
        for turn in (1, 2):
            with cursor.copy(f"COPY {table} (t) FROM STDIN") as copy:
                for _ in range(MUCH // (64 * 1024)):
                    copy.write(("y" * 1023 + "\n") * 64)
            assert cursor.execute("SELECT 'between'").fetchone() == ("between",)
            with cursor.copy(f"COPY {table} (t) TO STDOUT") as copy:
                assert sum(len(piece) for piece in copy) == turn * MUCH
            assert cursor.execute("SELECT 'between'").fetchone() == ("between",)


def test_what_waits_is_told_of_a_copy(pgweir, table):
    """PREPARE waits until nothing is owed, and a COPY waits for it: this must not be a deadlock."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    for begin in (query(f"COPY {table} FROM STDIN"),
                  parse(f"COPY {table} FROM STDIN") + bind() + execute() + sync()):
        client = weir.client()
        client.send(begin + query("PREPARE s AS SELECT 1"))
        got = client.read_to_end()
        assert "G" in [each.type for each in got]
        assert got[-1].fields["M"] == "out of step after a COPY that failed"
    assert weir.client().value("SELECT 'next'") == "next"


@pytest.mark.parametrize("before", ("RESET application_name", "RESET ALL", "DISCARD TEMP", "LISTEN c", "UNLISTEN c"))
@pytest.mark.parametrize("is_late", (True, False), ids=("data after the answer", "all at once"))
def test_a_copy_behind_what_is_followed(pgweir, table, before, is_late):
    """The messages of a COPY do not wait for the end of the text that has it."""
    weir = pgweir(pool_mode="transaction")
    client = weir.client(application_name="mine")
    client.query("LISTEN c")
    client.send(query(f"{before}; COPY {table} FROM STDIN"))
    if is_late:
        client.read_until("G")
    client.send(message("d", b"1\ta\n"), message("c"), query("SHOW application_name"))
    assert client.read_result().tags[-1] == "COPY 1"
    assert client.read_result().rows == [["mine"]]


def test_what_may_have_to_wait_within_a_copy(pgweir, table):
    """PostgreSQL ends the connection at such a message: it does not wait."""
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    client.send(query(f"COPY {table} FROM STDIN"))
    client.read_until("G")
    client.send(query("LISTEN c"))
    assert client.read_refusal().sqlstate == "08P01"
    weir.wait_pool(cl_active=0, sv_active=0)
