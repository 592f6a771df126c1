# SPDX-License-Identifier: ISC
"""Named prepared statements in transaction and statement mode, as drivers use them."""

import asyncio
import subprocess

import asyncpg
import pg8000
import psycopg
import pytest

from .kit.daemon import LOOPS
from .kit.fake import error, ready
from .kit.wire import Wire, bind, close, describe, execute, message, parse, query, sync

LIMITS = pytest.mark.parametrize("limit_of_statements", (200, 2))


@pytest.fixture
def weir(pgweir, limit_of_statements):
    return pgweir(pool_mode="transaction", default_pool_size=2, server_round_robin=1,
                  max_prepared_statements=limit_of_statements)


@LIMITS
@pytest.mark.parametrize("threshold", (0, 1))
def test_psycopg(weir, threshold):
    clients = [weir.connect(prepare_threshold=threshold) for _ in range(4)]
    for number in range(40):
        for at, client in enumerate(clients):
            sql = f"SELECT %s::int + {number % 5}"
            assert client.execute(sql, (at,)).fetchone() == (at + number % 5,)
    with pytest.raises(psycopg.errors.DivisionByZero):
        clients[0].execute("SELECT 1 / %s::int", (0,))
    assert clients[0].execute("SELECT 1 / %s::int", (1,)).fetchone() == (1,)


@LIMITS
def test_psycopg_in_pipelines(weir):
    client = weir.connect(prepare_threshold=0)
    for _ in range(10):
        with client.pipeline():
            cursors = [client.execute(f"SELECT %s::int + {number}", (number,))
                       for number in range(6)]
            assert [cursor.fetchone()[0] for cursor in cursors] == [0, 2, 4, 6, 8, 10]


@LIMITS
def test_asyncpg(weir):
    async def work():
        clients = [await asyncpg.connect(host="127.0.0.1", port=weir.port, user="alice",
                                         database="app") for _ in range(3)]
        for number in range(20):
            for client in clients:
                assert await client.fetchval(f"SELECT $1::int + {number % 4}", 1) == 1 + number % 4
        with pytest.raises(asyncpg.UndefinedTableError):
            await clients[0].fetch("SELECT * FROM nowhere")
        async with clients[0].transaction():
            assert await clients[0].fetchval("SELECT $1::text", "x") == "x"
        for client in clients:
            await client.close()

    asyncio.run(work())


@LIMITS
def test_pg8000(weir):
    clients = [pg8000.connect("alice", host="127.0.0.1", port=weir.port, database="app")
               for _ in range(3)]
    for number in range(20):
        for client in clients:
            cursor = client.cursor()
            cursor.execute(f"SELECT cast(%s as int) + {number % 4}", (1,))
            assert cursor.fetchone()[0] == 1 + number % 4
            client.commit()
    for client in clients:
        client.close()


@LIMITS
def test_pgbench(weir, postgres):
    # In a database where no other test creates the same tables as the same user.
    made = subprocess.run(["pgbench", "-h", "127.0.0.1", "-p", str(postgres.port), "-U", "postgres",
                           "-i", "-q", "app3"], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    postgres.query("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC", dbname="app3")
    # pgbench prepares and waits: no more clients than servers.
    done = subprocess.run(["pgbench", "-h", "127.0.0.1", "-p", str(weir.port), "-U", "alice", "-n",
                           "-M", "prepared", "-c", "2", "-t", "50", "app3"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "transactions actually processed: 100/100" in done.stdout


def test_a_text_is_held_once(pgweir):
    """Thousands of names: the memory per client must not grow with the length of the texts."""
    weir = pgweir(pool_mode="transaction", default_pool_size=2, max_client_conn=200)
    texts = [f"SELECT {number} /* {'x' * 20000} */" for number in range(50)]
    clients = [weir.client() for _ in range(100)]
    assert not clients[0].ask(*[parse(text, f"s{at}") for at, text in enumerate(texts)],
                              sync()).errors
    before = weir.rss()
    for client in clients[1:]:
        got = client.ask(*[parse(text, f"s{at}") for at, text in enumerate(texts)], sync())
        assert not got.errors
    # The texts of all would be 100 MB. Each loop has buffers of its own.
    assert weir.rss() - before < (45 + 5 * LOOPS) << 20
    row = next(row for row in weir.admin("SHOW STATS") if row["database"] == "app")
    assert row["total_client_parse_count"] == 5000
    assert row["total_server_parse_count"] == 5000
    assert row["total_bind_count"] == 0
    held = [row["prepared_statements"] for row in weir.admin("SHOW CLIENTS")
            if row["database"] == "app"]
    assert held == [50] * 100


def test_reload_while_clients_have_statements(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, max_prepared_statements=200)
    client = weir.client()
    for at in range(5):
        assert not client.ask(parse(f"SELECT {at}", f"s{at}"), sync()).errors
    for limit in (0, 2, 200):
        weir.reload(max_prepared_statements=limit)
        for _ in range(2):
            for at in range(5):
                got = client.ask(bind((), f"s{at}"), execute(), sync())
                assert got.rows == [[str(at)]], got


def test_what_clients_leave_is_nobody_elses(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1, max_prepared_statements=2)
    for _ in range(5):
        client = weir.client()
        # It disconnects during a transaction, and the server is closed with it.
        client.send(*[parse(f"SELECT {at}, pg_sleep(0.05)", f"s{at}") + bind((), f"s{at}") + execute()
                      for at in range(4)], sync())
        client.reset()
        other = weir.client()
        assert other.ask(bind((), "s1"), sync()).error["C"] == "26000"
        assert other.ask(parse("SELECT 7", "s1"), bind((), "s1"), execute(), sync()).rows == [["7"]]


def test_the_unnamed_statement_over_two_transactions(pgweir):
    """pgx and other drivers describe it first, in a separate transaction."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    one, other = weir.client(), weir.client()
    for number in range(3):
        got = one.ask(parse(f"SELECT $1::int + {number}"), describe("S"), sync())
        assert not got.errors
        got = other.ask(parse(f"SELECT 'of the other', {number}"), bind(()), execute(), sync())
        assert got.rows == [["of the other", str(number)]]
        for value in range(2):
            got = one.ask(bind((str(value),)), describe(), execute(), sync())
            assert got.rows == [[str(number + value)]], got


def test_nobody_finds_the_unnamed_statement_of_another(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    one, other = weir.client(), weir.client()

    def leave_one_there():
        assert not other.ask(parse("SELECT 'of the other'"), sync()).errors

    leave_one_there()
    assert one.ask(bind(()), execute(), sync()).error["C"] == "26000"
    assert not one.ask(parse("SELECT 'mine'"), sync()).errors
    assert one.query("SELECT 1").rows == [["1"]]  # a Query removes the unnamed statement
    leave_one_there()
    assert one.ask(bind(()), execute(), sync()).error["C"] == "26000"
    assert one.ask(parse("SELEC"), sync()).error["C"] == "42601"
    leave_one_there()
    assert one.ask(describe("S"), sync()).error["C"] == "26000"
    assert other.ask(bind(()), execute(), sync()).rows == [["of the other"]]


def test_the_unnamed_statement_behind_a_failed_batch(pgweir):
    """The Parse was skipped, so the unnamed statement for the next batch is not the client's."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    one, other = weir.client(), weir.client()
    assert not other.ask(parse("SELECT 'of the other'"), sync()).errors
    one.send(parse("SELEC", "bad") + parse("SELECT 'mine'") + sync()
             + bind(()) + execute() + sync())
    assert one.read_result().error["C"] == "42601"
    assert one.read_result().error["C"] == "26000"


def test_a_failed_batch_behind_which_a_known_text_is_parsed(pgweir):
    """The Parse is forwarded at once, and must not hide that the batch before it may have failed.
    """
    weir = pgweir(pool_mode="transaction", default_pool_size=1, max_prepared_statements=2)
    client = weir.client()
    texts = {name: f"SELECT $1::int + {number}" for number, name in enumerate("xyz")}
    assert not client.ask(*[parse(text, name) for name, text in texts.items()], sync()).errors
    for name in "zx":
        assert not client.ask(bind(("1",), name), execute(), sync()).errors
    # The server has z and x; y replaces z, but is skipped.
    client.send(bind(("none",), "x") + bind(("1",), "y") + execute() + sync()
                + parse(texts["x"], "again") + bind(("1",), "z") + execute() + sync())
    assert client.read_result().error["C"] == "22P02"
    assert client.read_result().rows == [["3"]]


def test_zero_while_clients_have_statements(pgweir):
    """Clients with statements are tracked until they have closed the last one."""
    weir = pgweir(pool_mode="transaction", default_pool_size=2, server_round_robin=1)
    client, other = weir.client(), weir.client()
    assert not client.ask(parse("SELECT 7", "s"), sync()).errors
    weir.admin("SET max_prepared_statements = 0")
    # A second server, which does not have it; and the client may prepare more.
    other.query("BEGIN")
    for _ in range(2):
        assert client.ask(bind((), "s"), execute(), sync()).rows == [["7"]]
        assert not client.ask(parse("SELECT 8", "t"), sync()).errors
        assert client.ask(bind((), "t"), execute(), sync()).rows == [["8"]]
        assert client.ask(close("S", "t"), sync()).types == "3Z"
        other.query("COMMIT")
    # A client without statements prepares on the server itself, with the unchanged name.
    assert client.ask(close("S", "s"), sync()).types == "3Z"
    assert client.ask(bind((), "s"), sync()).error["C"] == "26000"
    assert client.ask(parse("SELECT 9", "mine"), bind((), "mine"), execute(), sync()).rows == [["9"]]
    held = [row["prepared_statements"] for row in weir.admin("SHOW CLIENTS")
            if row["database"] == "app"]
    assert held == [0, 0]
    weir.admin("SET max_prepared_statements = 200")
    assert not client.ask(parse("SELECT 10", "again"), sync()).errors
    assert client.ask(bind((), "again"), execute(), sync()).rows == [["10"]]


def test_wrong_names_are_errors_and_the_connection_lives(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    assert not client.ask(parse("SELECT 1", "s"), sync()).errors
    for messages, sqlstate in (((bind((), "unknown"), execute()), "26000"),
                               ((describe("S", "unknown"),), "26000"),
                               ((parse("SELECT 2", "s"),), "42P05")):
        got = client.ask(*messages, sync())
        assert got.types == "EZ" and got.status == "I"
        assert (got.error["S"], got.error["C"]) == ("ERROR", sqlstate)
    assert client.ask(bind((), "s"), execute(), sync()).rows == [["1"]]


# -- bugs that PgBouncer has fixed ---------------------------------------------------------------


def test_parse_and_close_mixed_without_sync(pgweir, postgres):
    """pgweir responds to some, the server to others: the order must be that of the requests."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1, max_prepared_statements=2)
    client = weir.client()
    with Wire((postgres.host, postgres.port)).login("alice", "app2") as direct:
        for _ in range(2):
            batch = [parse("SELECT 1", "a"), close("S", "a"), parse("SELECT 2", "a"), parse("SELECT 1", "b"),
                     close("S", "none"), bind((), "a"), execute(), close("S", "b"), parse("SELECT 1", "b"),
                     parse("SELECT 3", "c"), bind((), "b"), describe("S", "c"), execute(), close("S", "a"),
                     close("S", "b"), close("S", "c"), parse("SELECT 1"), close("S", ""), sync()]
            got, wanted = client.ask(*batch), direct.ask(*batch)
            assert (got.types, got.rows) == (wanted.types, wanted.rows)


# -- servers that send invalid messages ----------------------------------------------------------


@pytest.mark.parametrize("body", (b"", b"\0", b"\0\1", b"\0\1\0\0\0", b"\0\0x", b"\xff\xff\0\0\0\x17"))
@pytest.mark.parametrize("name", ("", "s"))
def test_broken_descriptions(scripted, name, body):
    _, client, server = scripted(pool_mode="transaction")
    client.send(parse("SELECT $1", name), describe("S", name), sync())
    server.expect("PDS")
    server.send(message("1"), message("t", body))
    assert "broken ParameterDescription" in client.read_refusal().text
    server.wait_closed()


def test_descriptions_of_all_sizes(scripted):
    """The longest possible description must be processed as a whole."""
    _, client, server = scripted(pool_mode="transaction")
    for count in (0, 1, 65535):
        types = count.to_bytes(2, "big") + b"\0\0\0\x17" * count
        client.send(parse(f"SELECT {count}", f"s{count}"), describe("S", f"s{count}"), sync())
        server.expect("PDS")
        server.send(message("1"), message("t", types), message("n"), ready())
        assert client.read_result().messages[1].body == types


def test_types_of_a_parse_that_fails_behind_them(scripted):
    """An error instead of the columns: the client has the types nevertheless."""
    _, client, server = scripted(pool_mode="transaction")
    client.send(parse("SELECT $1", "s"), describe("S", "s"), sync())
    server.expect("PDS")
    server.send(message("1"), message("t", b"\0\1\0\0\0\x14"), error("no"), ready())
    assert client.read_result().types == "1tEZ"
    client.send(bind((), "s"), sync())
    server.expect("BS")
    server.send(message("E", b"\0"), ready())  # and an empty error
    assert client.read_result().types == "EZ"


# -- mixed responses of pgweir and the server ------------------------------------------------------

MIXED = {
    "Parse and Close": [("P", "s"), ("C", "s"), ("P", "s"), ("C", "s")],
    "two names": [("P", "s"), ("P", "t"), ("C", "s"), ("C", "t")],
    "known behind new": [("P", "new"), ("P", "s"), ("C", "new"), ("C", "s")],
    "Close of nothing": [("C", "s"), ("P", "s"), ("C", "none"), ("C", "s"), ("C", "s")],
    "with a use between": [("P", "s"), ("B", "s"), ("C", "s"), ("E", ""), ("P", "s"), ("D", "s")],
    "with an error": [("P", "s"), ("C", "s"), ("P", "bad"), ("C", "s"), ("P", "s")],
    "an error at the end": [("C", "s"), ("P", "s"), ("B", "s"), ("C", "s"), ("B", "s")],
    "a name twice": [("P", "s"), ("P", "t"), ("P", "s"), ("C", "t")],
}


def mixed(batch):
    texts = {"new": "SELECT 'new'", "bad": "SELEC"}
    make = {"P": lambda name: parse(texts.get(name, "SELECT 1"), name=name),
            "C": lambda name: close("S", name), "B": lambda name: bind(name=name),
            "D": lambda name: describe("S", name), "E": lambda name: execute()}
    return [make[kind](name) for kind, name in batch]


@pytest.mark.parametrize("ends", (sync(), None), ids=("Sync", "Flush"))
@pytest.mark.parametrize("batch", MIXED.values(), ids=MIXED.keys())
def test_answers_come_in_the_order_of_the_questions(pgweir, postgres, batch, ends):
    """Parse and Close without Sync between them: pgweir responds to some, the server to others."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    # From now on the server has its text.
    weir.client().ask(parse("SELECT 1", name="other"), sync())
    with Wire((postgres.host, postgres.port)).login("alice", "app") as direct:
        said = []
        for client in (direct, weir.client()):
            for _ in range(3):
                for part in mixed(batch):
                    client.send(part, *([] if ends else [message("H")]))
                said.append(client.ask(sync()).types)
                client.query("DEALLOCATE ALL")
    assert said[3:] == said[:3]


def test_notice_of_a_parse_comes_once(pgweir):
    """PostgreSQL repeats it on each server that parses the statement."""
    weir = pgweir(pool_mode="transaction", default_pool_size=2, server_round_robin=1)
    client = weir.client()
    run = bind(name="s") + describe("P") + execute() + sync()
    made = client.ask(parse("CREATE GLOBAL TEMPORARY TABLE t (a int) ON COMMIT DROP", name="s"), sync())
    assert made.types == "N1Z"
    for _ in range(3):
        assert client.ask(run).types == "2nCZ"


# -- how many a client may have ------------------------------------------------------------------


def test_names_have_a_limit(pgweir):
    client = pgweir(pool_mode="transaction", default_pool_size=1).client()
    for first in range(0, 10000, 1000):
        got = client.ask(*(parse("SELECT 1", f"s{at}") for at in range(first, first + 1000)), sync())
        assert got.types == "1" * 1000 + "Z"
    got = client.ask(parse("SELECT 1", "more"), sync())
    assert got.error["C"] == "53300" and "10000" in got.error["M"] and "DEALLOCATE" in got.error["H"]
    assert client.query("PREPARE more AS SELECT 1").error["C"] == "53300"
    assert client.ask(parse("PREPARE more AS SELECT 1"), bind(), execute(), sync()).error["C"] == "53300"
    assert client.ask(bind((), "s9999"), execute(), sync()).rows == [["1"]]
    client.ask(close("S", "s0"), sync())
    assert client.ask(parse("SELECT 1", "more"), sync()).types == "1Z"
    assert client.ask(parse("SELECT 1", "s0"), sync()).error["C"] == "53300"
    assert not client.query("DEALLOCATE ALL").errors
    assert client.ask(parse("SELECT 1", "s0"), sync()).types == "1Z"


def test_texts_have_a_limit(pgweir):
    client = pgweir(pool_mode="transaction", default_pool_size=1).client()
    texts = [f"SELECT {at} /* {'x' * 15 * 1024 * 1024} */" for at in range(5)]
    for at in range(4):
        assert client.ask(parse(texts[at], f"s{at}"), sync()).types == "1Z"
    got = client.ask(parse(texts[4], "s4"), sync())
    assert got.error["C"] == "53300" and "64 MB" in got.error["M"]
    client.ask(close("S", "s0"), sync())
    assert client.ask(parse(texts[4], "s4"), sync()).types == "1Z"


def test_names_count_as_texts_do(pgweir):
    client = pgweir(pool_mode="transaction", default_pool_size=1).client()
    for first in range(0, 4100, 100):
        got = client.ask(*(parse("SELECT 1", f"{at:016}" * 1000) for at in range(first, first + 100)), sync())
        assert got.types == "1" * 100 + "Z"
    got = client.ask(*(parse("SELECT 1", f"{at:016}" * 1000) for at in range(4100, 4200)), sync())
    assert got.error["C"] == "53300" and "64 MB" in got.error["M"]
    assert client.ask(bind((), f"{1:016}" * 1000), execute(), sync()).rows == [["1"]]


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_name_has_a_limit(pgweir, is_cut):
    """Whether or not the network cuts its message."""
    client = pgweir(pool_mode="transaction", default_pool_size=1).client()
    sent = parse("SELECT 1", 16385 * "x")
    client.send(sent[:10])
    if is_cut:
        client.send_slowly(sent[10:100])
        client.send(sent[100:])
    else:
        client.send(sent[10:])
    got = client.ask(sync())
    assert got.error["C"] == "54000" and "16384 bytes" in got.error["M"]
    assert client.ask(parse("SELECT 1", 16384 * "x"), sync()).types == "1Z"


def test_what_has_no_answer_yet_is_small(pgweir, fake_server):
    """A name in it is not kept once more, or only its start."""
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode="transaction")
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    name = 16000 * "x"
    client.send(parse("SELECT 1", name), sync())
    server.expect("PS")
    server.send(message("1"), ready())
    assert client.read_result().types == "1Z"
    before = weir.rss()
    client.send(query("SELECT pg_sleep(1)"))
    server.expect("Q")
    for _ in range(50):
        client.send(*(100 * [parse("SELECT 1", name) + close("S", "PGBOUNCER_" + name)]))
        server.expect("CPP" * 100)
    assert weir.rss() - before < 40 * 1024 * 1024


def test_what_is_refused_behind_others_is_small(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode="transaction")
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    client.send(parse("SELECT pg_sleep(1)"))
    server.expect("P")
    before = weir.rss()
    for _ in range(60):
        client.send(1000 * query("PREPARE s AS SELECT 1"))
        server.expect("Q" * 1000)
    assert weir.rss() - before < 60 * 1024 * 1024
