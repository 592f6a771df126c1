# SPDX-License-Identifier: ISC
"""LISTEN, UNLISTEN and NOTIFY in transaction mode: as with PostgreSQL, on one server connection for
all clients of a pool."""

import os
import signal
import threading
from collections import Counter

import psycopg
import pytest

from .kit import wire
from .kit.daemon import LOOPS
from .kit.wait import wait_until

LISTENING = "listening"


@pytest.fixture
def start(pgweir):
    """Transaction mode; all clients share one server."""
    def start(servers=1, pool_mode="transaction", **settings):
        return pgweir(pool_mode=pool_mode, default_pool_size=servers, **settings)
    return start


def listeners_of(weir):
    return [row for row in weir.admin("SHOW SERVERS") if row["state"] == LISTENING]


def heard(client, count):
    """The next notifications, as channel and payload; whatever else comes is an error."""
    got = []
    while len(got) < count:
        message = client.read()
        assert message.type == "A", message
        got.append(note_of(message))
    return got


def note_of(message):
    channel, payload, _ = message.body[4:].split(b"\0")
    return channel.decode(), payload.decode()


def silent(client):
    """Nothing has come: a query is answered, without a notification."""
    assert client.query("SELECT 1").types == "TDCZ"


def test_notification_reaches_an_idle_client(start, postgres):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    postgres.query("SELECT pg_notify('news', 'first')")
    postgres.query("NOTIFY other")
    postgres.query("NOTIFY news")
    assert heard(client, 2) == [("news", "first"), ("news", "")]


def test_listening_connection_serves_all_and_ends_with_the_last(start, postgres):
    weir = start()
    clients = [weir.client() for _ in range(5)]
    for client in clients:
        client.query("LISTEN news")
    rows = wait_until(lambda: listeners_of(weir))
    assert len(rows) <= LOOPS
    assert {row["application_name"] for row in rows} == {"pgweir LISTEN"}
    weir.wait_pool(sv_active=0, sv_idle=1)
    postgres.query("NOTIFY news, 'all'")
    for client in clients:
        assert heard(client, 1) == [("news", "all")]
    for client in clients[1:]:
        client.close()
    postgres.query("NOTIFY news, 'one'")
    assert heard(clients[0], 1) == [("news", "one")]
    clients[0].query("UNLISTEN news")
    wait_until(lambda: not listeners_of(weir))


def test_listen_is_undone_by_a_rollback(start, postgres):
    weir = start()
    client = weir.client()
    client.query("BEGIN")
    client.query("LISTEN gone")
    client.query("ROLLBACK")
    client.query("BEGIN")
    client.query("LISTEN kept")
    client.query("SAVEPOINT s")
    client.query("LISTEN undone")
    client.query("ROLLBACK TO s")
    postgres.query("NOTIFY kept, 'early'")
    assert client.query("COMMIT").types == "CAZ"  # PostgreSQL would not send it
    for channel in ("gone", "undone", "kept"):
        postgres.query(f"NOTIFY {channel}, 'now'")
    assert heard(client, 1) == [("kept", "now")]
    silent(client)


def test_nothing_comes_within_a_transaction(start, postgres):
    weir = start(servers=2)
    client = weir.client()
    client.query("LISTEN news")
    client.query("BEGIN")
    for number in range(3):
        postgres.query(f"NOTIFY news, '{number}'")
    silent(client)
    client.send(wire.query("COMMIT"))
    kinds = [client.read().type for _ in range(5)]
    assert kinds == ["C", "Z", "A", "A", "A"]


@pytest.mark.parametrize("unlisten", ["UNLISTEN a", "UNLISTEN *", "DISCARD ALL"])
@pytest.mark.parametrize("how", ["query", "extended"])
def test_unlisten(start, postgres, unlisten, how):
    weir = start()
    client = weir.client()
    client.query("LISTEN a")
    client.query("LISTEN b")
    ask(client, unlisten, how)
    postgres.query("NOTIFY a")
    if unlisten.endswith("a"):
        postgres.query("NOTIFY b")
        assert heard(client, 1) == [("b", "")]
    else:
        wait_until(lambda: not listeners_of(weir))
    silent(client)


def ask(client, sql, how="query"):
    if how == "query":
        return client.query(sql)
    client.send(wire.extended(sql))
    messages = client.read_until("Z")
    assert not [message for message in messages if message.type == "E"], messages
    return messages


@pytest.mark.parametrize("how", ["query", "extended"])
@pytest.mark.parametrize("unlisten, left", [("UNLISTEN a", ["b"]), ("UNLISTEN *", [])])
@pytest.mark.parametrize("end, works", [("COMMIT", True), ("ROLLBACK", False)])
def test_unlisten_in_a_transaction(start, postgres, unlisten, left, end, works, how):
    weir = start()
    client = weir.client()
    client.query("LISTEN a")
    client.query("LISTEN b")
    ask(client, "BEGIN", how)
    ask(client, unlisten, how)
    ask(client, end, how)
    wanted = left if works else ["a", "b"]
    postgres.query("NOTIFY a")
    postgres.query("NOTIFY b")
    assert heard(client, len(wanted)) == [(name, "") for name in wanted]
    silent(client)


@pytest.mark.parametrize("count, left", [(9_999, []), (10_000, ["a"])])
def test_a_transaction_unlistens_10000_names_at_most(start, postgres, count, left):
    """In doubt the client goes on to get the notifications, until it says so again."""
    weir = start()
    client = weir.client()
    client.query("LISTEN a; LISTEN b")
    names = ["a", *(f"x{number}" for number in range(count))]
    client.query("BEGIN")
    for first in range(0, len(names), 2500):
        client.query("".join(f"UNLISTEN {name};" for name in names[first:first + 2500]))
    assert client.query("COMMIT").tags == ["COMMIT"]
    postgres.query("NOTIFY a")
    postgres.query("NOTIFY b")
    assert heard(client, len(left) + 1) == [(name, "") for name in [*left, "b"]]
    client.query("UNLISTEN a")
    postgres.query("NOTIFY a")
    postgres.query("NOTIFY b")
    assert heard(client, 1) == [("b", "")]


@pytest.mark.parametrize("how", ["query", "extended"])
@pytest.mark.parametrize("texts", (["UNLISTEN a"], ["UNLISTEN *"], ["DISCARD ALL"],
                                   ["BEGIN", "UNLISTEN a", "COMMIT"]), ids=lambda texts: texts[-1])
def test_unlisten_takes_back_nothing_that_was_sent_before(start, postgres, texts, how):
    """The notification is under way: without pgweir it has come before UNLISTEN is read."""
    weir = start()
    client = weir.client()
    client.query("LISTEN a")
    client.query("LISTEN b")
    (pid,) = listening_pids(weir)
    os.kill(pid, signal.SIGSTOP)
    try:
        postgres.query("SELECT pg_notify('a', 'ü')")
        postgres.query("SELECT pg_notify('b', 'second')")
        for text in texts[:-2]:
            ask(client, text, how)
        client.send((wire.query if how == "query" else wire.extended)(texts[-2:][0]))
        weir.wait_pool(sv_active=1)
    finally:
        os.kill(pid, signal.SIGCONT)
    got = client.read_until("Z")
    if len(texts) > 1:
        client.send((wire.query if how == "query" else wire.extended)(texts[-1]))
        got += client.read_until("Z")
    notes = [note_of(message) for message in got if message.type == "A"]
    assert notes == [("a", "ü"), ("b", "second")]
    postgres.query("NOTIFY a, 'third'")
    silent(client)


def test_unlisten_and_savepoints(start, postgres):
    weir = start()
    client = weir.client()
    for name in "abc":
        client.query(f"LISTEN {name}")
    for sql in ("BEGIN", "UNLISTEN a", "SAVEPOINT s", "UNLISTEN *", "ROLLBACK TO s", "COMMIT"):
        client.query(sql)
    for name in "abc":
        postgres.query(f"NOTIFY {name}")
    assert heard(client, 3) == [("a", ""), ("b", ""), ("c", "")]  # in doubt, all remain
    for sql in ("BEGIN", "UNLISTEN *", "LISTEN d", "COMMIT"):
        client.query(sql)
    for name in "abcd":
        postgres.query(f"NOTIFY {name}")
    assert heard(client, 1) == [("d", "")]
    silent(client)


@pytest.mark.parametrize("statements, left", [
    (["UNLISTEN *", "DO $$ BEGIN END $$", "LISTEN b"], "b"),
    (["UNLISTEN a", "LISTEN a", "UNLISTEN c"], "ab"),
    (["LISTEN a", "UNLISTEN a; UNLISTEN b"], "c"),
    (["SAVEPOINT s", "UNLISTEN *", "RELEASE s"], ""),
    (["SAVEPOINT s; UNLISTEN *; ROLLBACK TO s"], "abc"),
    (["UNLISTEN *; ROLLBACK", "BEGIN"], "abc"),
    (["UNLISTEN a; ROLLBACK", "BEGIN"], "abc"),
    (["UNLISTEN a; COMMIT; BEGIN", "UNLISTEN b"], "c"),
    (["UNLISTEN *; COMMIT", "BEGIN"], ""),
    (["UNLISTEN *; COMMIT; BEGIN"], ""),
    (["UNLISTEN *; LISTEN b; COMMIT", "BEGIN"], "b"),
    (["UNLISTEN *; ROLLBACK; BEGIN; COMMIT", "BEGIN"], "abc"),
    (["SAVEPOINT s", "UNLISTEN *; ROLLBACK TO s; COMMIT", "BEGIN"], "abc"),
    (["SAVEPOINT s", "UNLISTEN *", "ROLLBACK TO s; COMMIT", "BEGIN"], "abc"),
    (["UNLISTEN *; SELECT 1/0; COMMIT"], "abc"),
    (["SAVEPOINT s; UNLISTEN *; ROLLBACK TO s; COMMIT", "BEGIN"], "abc"),
    (["ROLLBACK; UNLISTEN *", "BEGIN"], ""),
    (["ROLLBACK;\nSELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;", "BEGIN"], ""),
    (["ROLLBACK; UNLISTEN a; LISTEN b", "BEGIN"], "bc"),
    (["ABORT; UNLISTEN *; LISTEN b", "BEGIN"], "b"),
    (["COMMIT; UNLISTEN *", "BEGIN"], ""),
    (["COMMIT; UNLISTEN a", "BEGIN"], "bc"),
    (["COMMIT; UNLISTEN a; SELECT 1/0", "BEGIN"], "abc"),
    (["COMMIT; UNLISTEN *; SELECT 1/0", "BEGIN"], "abc"),
    (["ROLLBACK; UNLISTEN *; SELECT 1/0", "BEGIN"], "abc"),
    (["UNLISTEN a; COMMIT; UNLISTEN b", "BEGIN"], "c"),
    (["UNLISTEN *; ROLLBACK AND CHAIN"], "abc"),
    (["ROLLBACK; UNLISTEN a; BEGIN", "ROLLBACK", "BEGIN"], "abc"),
    (["ROLLBACK; UNLISTEN a; BEGIN"], "bc"),
    (["ROLLBACK; BEGIN; UNLISTEN *; COMMIT", "BEGIN"], ""),
    (["ROLLBACK; BEGIN; SAVEPOINT s; UNLISTEN *; ROLLBACK TO s"], "abc"),
    (["ROLLBACK; DO $$ BEGIN END $$; BEGIN"], "abc"),
    (["SELECT 1/0", "ROLLBACK; UNLISTEN *", "BEGIN"], ""),
    (["SELECT 1/0", "COMMIT; UNLISTEN a", "BEGIN"], "bc"),
    (["SELECT 1/0", "UNLISTEN *; ROLLBACK; UNLISTEN c"], "abc"),
    (["SELECT 1/0", "ROLLBACK TO s; UNLISTEN *"], "abc"),
    # in doubt, they remain
    (["SAVEPOINT s", "UNLISTEN a", "ROLLBACK TO s", "UNLISTEN b"], "abc"),
    (["SAVEPOINT s", "UNLISTEN *", "LISTEN c", "ROLLBACK TO s", "UNLISTEN b"], "abc"),
    (["SAVEPOINT s; UNLISTEN a; ROLLBACK TO s; UNLISTEN b"], "abc"),
    (["UNLISTEN *; COMMIT AND CHAIN; LISTEN b; ROLLBACK", "BEGIN"], "abc"),
    (["UNLISTEN a; ROLLBACK; UNLISTEN b", "BEGIN"], "abc"),
    (["UNLISTEN a; ROLLBACK AND CHAIN; UNLISTEN b"], "abc"),
    (["ROLLBACK; UNLISTEN b; COMMIT; UNLISTEN a; BEGIN", "ROLLBACK", "BEGIN"], "abc"),
    (["UNLISTEN a; COMMIT; BEGIN; UNLISTEN b; ROLLBACK", "BEGIN"], "abc"),
    (["UNLISTEN a", "DO $$ BEGIN EXECUTE 'UNLISTEN b'; END $$"], "bc"),
    (["DO $$ BEGIN EXECUTE 'UNLISTEN *'; EXECUTE 'LISTEN b'; END $$; COMMIT", "BEGIN"], "abc"),
    (["UNLISTEN a", "SAVEPOINT s", "LISTEN a", "ROLLBACK TO s"], "abc"),
])
@pytest.mark.parametrize("how", ["query", "extended"])
def test_unlisten_of_many_kinds(same_pgweir, postgres, statements, left, how):
    weir = same_pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    for name in "abc":
        client.query(f"LISTEN {name}")
    client.query("BEGIN")
    for sql in statements:
        ask(client, sql, how if ";" not in sql and "1/0" not in sql or sql.endswith("$$") else "query")
    client.query("COMMIT")
    for name in "abc":
        postgres.query(f"NOTIFY {name}")
    assert heard(client, len(left)) == [(name, "") for name in left]
    silent(client)


PREPARED = [
    (["PREPARE TRANSACTION 'x'; UNLISTEN *"], ""),
    (["PREPARE TRANSACTION 'x'; UNLISTEN b"], "ac"),
    (["PREPARE TRANSACTION 'x'; BEGIN; UNLISTEN *"], ""),
    (["PREPARE TRANSACTION 'x'; UNLISTEN a; BEGIN", "ROLLBACK"], "abc"),
    (["PREPARE TRANSACTION 'x'; COMMIT; BEGIN; UNLISTEN *; ROLLBACK"], "abc"),
    (["PREPARE TRANSACTION 'x'; UNLISTEN *; SELECT 1/0"], "abc"),
    (["UNLISTEN a", "PREPARE TRANSACTION 'x'; UNLISTEN b"], "abc"),
    (["UNLISTEN a; PREPARE TRANSACTION 'x'; UNLISTEN b"], "abc"),
    (["SELECT 1/0", "PREPARE TRANSACTION 'x'; UNLISTEN a"], "bc"),
]


def test_unlisten_behind_prepare_transaction(pgweir, private_postgres):
    postgres = private_postgres(max_prepared_transactions=4)
    weir = pgweir(postgres=postgres, pool_mode="transaction", default_pool_size=1)
    for statements, left in PREPARED:
        clients = weir.client(), wire.Wire((postgres.host, postgres.port)).login()
        for client in clients:
            for name in "abc":
                client.query(f"LISTEN {name}")
            client.query("BEGIN")
        outcomes = []
        for client in clients:
            results = [client.query(sql) for sql in [*statements, "COMMIT"]]
            outcomes.append([(result.tags, result.error and result.error["C"]) for result in results])
            if client.query("SELECT 1 FROM pg_prepared_xacts").rows:
                client.query("ROLLBACK PREPARED 'x'")
        assert outcomes[0] == outcomes[1], statements
        for name in "abc":
            postgres.query(f"NOTIFY {name}")
        for client in clients:
            assert heard(client, len(left)) == [(name, "") for name in left], statements
            silent(client)
            client.close()


@pytest.mark.parametrize("begin", [["BEGIN"], ["BEGIN", "SELECT 1/0"]])
@pytest.mark.parametrize("sqls, left", [
    (["ROLLBACK", "UNLISTEN *"], ""), (["ROLLBACK", "UNLISTEN a"], "b"), (["UNLISTEN *"], "ab"),
    (["ROLLBACK", "UNLISTEN a", "SELECT 1/0"], "ab"), (["ROLLBACK", "BEGIN", "UNLISTEN *"], "ab"),
    (["ROLLBACK", "BEGIN", "UNLISTEN a", "COMMIT", "BEGIN", "UNLISTEN b"], "ab"),
    (["ROLLBACK", "UNLISTEN a", "CALL roll_back()"], "ab"),
    (["ROLLBACK", "CALL roll_back()", "UNLISTEN a"], "b"),
])
def test_unlisten_behind_an_end_in_one_batch(start, postgres, begin, sqls, left):
    postgres.query("CREATE OR REPLACE PROCEDURE roll_back() LANGUAGE plpgsql AS 'BEGIN ROLLBACK; END'")
    client = start().client()
    for sql in ["LISTEN a", "LISTEN b", *begin]:
        client.query(sql)
    client.send(*(wire.parse(sql) + wire.bind() + wire.execute() for sql in sqls), wire.sync())
    result = client.read_result()
    has_failed = "SELECT 1/0" in sqls or len(sqls) == 1 and len(begin) == 2
    assert bool(result.error) == has_failed
    client.query("ROLLBACK")
    for name in "ab":
        postgres.query(f"NOTIFY {name}")
    assert heard(client, len(left)) == [(name, "") for name in left]
    silent(client)


# It executes nothing, also if any text counts as one that may call a procedure.
def test_unlisten_and_an_empty_text_in_one_batch(start, postgres):
    client = start(session_sample=1).client()
    client.query("LISTEN a")
    client.send(*(wire.parse(sql) + wire.bind() + wire.execute() for sql in ["UNLISTEN *", "", "NOTIFY a"]),
                wire.sync())
    assert client.read_result().types == "12C12I12CZ"
    postgres.query("NOTIFY a")
    silent(client)


@pytest.mark.parametrize("begin", [[], ["BEGIN"]])
def test_unlisten_that_is_not_executed(start, postgres, begin):
    client = start().client()
    for sql in ["LISTEN a", "LISTEN b", *begin]:
        client.query(sql)
    client.send(wire.parse("UNLISTEN a") + wire.bind() + wire.sync())
    assert client.read_result().types == "12Z"
    client.query("UNLISTEN b; COMMIT")
    postgres.query("NOTIFY a")
    assert heard(client, 1) == [("a", "")]


@pytest.mark.parametrize("sql", ["CALL roll_back()", "DO $$ BEGIN PERFORM 1; ROLLBACK; END $$",
                                 "DO $$ BEGIN CALL roll_back(); END $$"])
@pytest.mark.parametrize("how", ["query", "extended"])
def test_procedure_that_rolls_back_keeps_the_channels(start, postgres, sql, how):
    postgres.query("CREATE OR REPLACE PROCEDURE roll_back() LANGUAGE plpgsql AS 'BEGIN ROLLBACK; END'")
    client = start().client()
    client.query("LISTEN a")
    ask(client, sql, how)
    postgres.query("NOTIFY a, 'x'")
    assert heard(client, 1) == [("a", "x")]
    client.query("UNLISTEN a")
    postgres.query("NOTIFY a")
    silent(client)


def test_failed_unlisten_changes_nothing(start, postgres):
    weir = start()
    client = weir.client()
    client.query("LISTEN a")
    assert client.query("UNLISTEN a; SELECT 1/0").error["C"] == "22012"
    client.query("BEGIN")
    assert client.query("SELECT 1/0").error
    assert client.query("UNLISTEN a").error["C"] == "25P02"
    client.query("COMMIT")
    postgres.query("NOTIFY a")
    assert heard(client, 1) == [("a", "")]


@pytest.mark.parametrize("how", ["query", "extended"])
def test_own_notification_comes_before_ready(start, how):
    """As with PostgreSQL; and its process id is the one that the client knows."""
    weir = start(servers=2)
    client = weir.client()
    client.query("LISTEN news")
    for number in range(20):
        client.send(wire.query(f"NOTIFY news, '{number}'") if how == "query"
                    else wire.extended("SELECT pg_notify('news', $1)", [str(number)]))
        messages = client.read_until("Z")
        (note,) = [message for message in messages if message.type == "A"]
        assert note_of(note) == ("news", str(number))
        assert note.body[:4] == client.key[:4]
        assert [message.type for message in messages][-2:] == ["A", "Z"]


NOTIFIERS = """
CREATE OR REPLACE PROCEDURE notify_and_commit() LANGUAGE plpgsql AS 'BEGIN NOTIFY a, ''x''; COMMIT; END';
CREATE OR REPLACE FUNCTION notify_of_row() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN PERFORM pg_notify(''a'', NEW.v); RETURN NEW; END';
CREATE TABLE IF NOT EXISTS notifying (v text); GRANT ALL ON notifying TO PUBLIC;
CREATE OR REPLACE TRIGGER notify AFTER INSERT ON notifying FOR EACH ROW EXECUTE FUNCTION notify_of_row()"""


@pytest.mark.parametrize("statements", [
    ["CALL notify_and_commit()"], ["DO $$ BEGIN NOTIFY a, 'x'; END $$"], ["INSERT INTO notifying VALUES ('x')"],
    ["UNLISTEN other", "NOTIFY a, 'x'"], ["NOTIFY a, 'x'", "UNLISTEN b"], ["LISTEN c", "NOTIFY a, 'x'"],
])
@pytest.mark.parametrize("how", ["query", "extended", "block"])
def test_own_notification_comes_before_ready_in_any_case(same_pgweir, postgres, statements, how):
    """Whatever sends it, and whatever else the transaction does with channels."""
    if how == "block" and statements[0].startswith("CALL"):
        statements = ["DO $$ BEGIN PERFORM pg_notify('a', 'x'); END $$"]  # as it cannot commit
    postgres.query(NOTIFIERS)
    weir = same_pgweir(pool_mode="transaction", default_pool_size=2)
    client, other = weir.client(), weir.client()
    client.query("LISTEN a; LISTEN b")
    for _ in range(5):
        other.query("NOTIFY a, 'of another client'")
        assert heard(client, 1) == [("a", "of another client")]
        if how == "block":
            for sql in ["BEGIN", *statements]:
                client.query(sql)
            client.send(wire.query("COMMIT"))
        elif how == "extended":
            client.send(b"".join(wire.parse(sql) + wire.bind() + wire.execute() for sql in statements) + wire.sync())
        else:
            client.send(wire.query("; ".join(statements)))
        got = client.read_until("Z")
        assert "".join(message.type for message in got).endswith("CAZ"), got
        assert note_of(got[-2]) == ("a", "x") and got[-2].body[:4] == client.key[:4]
        client.query("LISTEN b")


@pytest.mark.parametrize("listens", [False, True])
def test_do_block_that_listens_and_notifies(start, listens):
    weir = start(servers=2)
    client = weir.client()
    if listens:
        client.query("LISTEN old")
    client.send(wire.query("DO $$ BEGIN NOTIFY a, 'x'; LISTEN a; END $$"))
    got = client.read_until("Z")
    assert [message.type for message in got] == ["C", "A", "Z"]
    assert note_of(got[1]) == ("a", "x") and got[1].body[:4] == client.key[:4]
    client.send(wire.query("NOTIFY a, 'y'"))
    assert [message.type for message in client.read_until("Z")] == ["C", "A", "Z"]


def test_statements_of_sql_do_not_disturb(start):
    weir = start()
    client = weir.client()
    client.query("LISTEN a; LISTEN b")
    client.query("PREPARE mine AS SELECT 1")
    client.query("DEALLOCATE mine")
    client.query("PREPARE mine AS SELECT 2")
    batch = b"".join(wire.parse(sql) + wire.bind() + wire.execute() for sql in ("SELECT 1", "UNLISTEN b", "NOTIFY a"))
    for _ in range(2):
        client.send(batch + wire.sync())
        assert "".join(message.type for message in client.read_until("Z")) == "12DC" + "12C" + "12C" + "AZ"


def test_pipeline_of_transactions_that_notify(start):
    """Each ReadyForQuery comes behind the notifications of its transaction, and ahead of the next
    response."""
    weir = start(servers=2)
    client = weir.client()
    client.query("LISTEN a")
    client.send(b"".join(map(wire.query, ("NOTIFY a, '1'", "BEGIN", "NOTIFY a, '2'", "SELECT 1", "COMMIT", "LISTEN b",
                                          "SELECT 1", "UNLISTEN b", "NOTIFY a, '3'"))))
    kinds = ""
    while kinds.count("Z") < 9:
        kinds += client.read().type
    assert kinds == "CAZ" + "CZ" + "CZ" + "TDCZ" + "CAZ" + "CZ" + "TDCZ" + "CZ" + "CAZ"


def test_own_notification_in_the_transaction_that_listens(start):
    weir = start()
    client = weir.client()
    client.query("BEGIN")
    client.query("LISTEN news")
    client.query("NOTIFY news, 'mine'")
    client.send(wire.query("COMMIT"))
    messages = client.read_until("Z")
    assert [message.type for message in messages] == ["C", "A", "Z"]
    assert messages[1].body[:4] == client.key[:4]
    silent(client)


def test_notification_of_another_client_has_another_pid(start):
    weir = start(servers=1)
    first, second = weir.client(), weir.client()
    first.query("LISTEN news")
    for _ in range(5):
        second.query("NOTIFY news")
        assert first.expect("A").body[:4] != first.key[:4]
        first.query("SELECT 1")


def test_own_notification_in_session_mode(start):
    weir = start(servers=2, pool_mode="session")
    first, second = weir.client(), weir.client()
    first.query("LISTEN news")
    first.send(wire.query("NOTIFY news"))
    _, note, _ = first.read_until("Z")
    assert note.type == "A" and note.body[:4] == first.key[:4]
    second.query("NOTIFY news")
    assert first.expect("A").body[:4] != first.key[:4]


def test_listen_in_a_failed_block(failed, postgres):
    """Its Parse fails while the Bind waits for the listening connection."""
    client = failed()
    client.query("UNLISTEN *; ROLLBACK")
    for sql in ("ROLLBACK; UNLISTEN *", "BEGIN", "SELECT 1/0"):
        client.query(sql)
    client.send(wire.extended("LISTEN gone"))
    assert client.read_result().types == "EZ"
    client.query("ROLLBACK")
    client.query("LISTEN news")
    postgres.query("NOTIFY gone; NOTIFY news")
    assert heard(client, 1) == [("news", "")]
    for sql in ("BEGIN", "SELECT 1/0"):
        client.query(sql)
    client.send(wire.extended("LISTEN gone"))
    assert client.read_result().types == "EZ"
    client.query("ROLLBACK")
    postgres.query("NOTIFY gone")
    silent(client)


def test_listening_to_the_same_channel_again(start, postgres):
    weir = start()
    client = weir.client()
    for _ in range(3):
        client.query("LISTEN a")
        client.query("LISTEN b; LISTEN a; LISTEN b")
        postgres.query("NOTIFY a, 'once'")
        postgres.query("NOTIFY b, 'once'")
        assert heard(client, 2) == [("a", "once"), ("b", "once")]
    silent(client)


def test_names_are_quoted(start, postgres):
    weir = start()
    client = weir.client()
    name = 'A "b" ; UNLISTEN *; -- ä'
    quoted = '"' + name.replace('"', '""') + '"'
    client.query(f"LISTEN {quoted}")
    postgres.query(f"NOTIFY {quoted}, 'x'")
    assert heard(client, 1) == [(name, "x")]
    client.query(f"UNLISTEN {quoted}")
    wait_until(lambda: not listeners_of(weir))


@pytest.mark.parametrize("sql", ["DO $$ BEGIN EXECUTE 'LISTEN news'; END $$", "LISTEN U&\"n\\0065ws\"",
                                 "SELECT listen_to_news()"])
def test_hidden_listen(start, postgres, sql):
    """No text names the channel, so the server stays, until it is unlistened."""
    postgres.query("CREATE OR REPLACE FUNCTION listen_to_news() RETURNS text LANGUAGE plpgsql"
                   " AS 'BEGIN LISTEN news; RETURN 1; END'")
    weir = start(servers=2)
    client, other = weir.client(), weir.client()
    client.query("LISTEN old")
    client.query(sql)
    for channel in ("news", "old", "news"):
        other.query(f"NOTIFY {channel}, 'x'")
        assert heard(client, 1) == [(channel, "x")]
    (row,) = weir.admin("SHOW PINNED")
    assert row["why"] == "channels"
    client.query("LISTEN news; LISTEN more")
    for channel in ("news", "more", "old"):
        assert client.query(f"NOTIFY {channel}").types == "CAZ"
    client.query("UNLISTEN *")
    assert not weir.admin("SHOW PINNED") and not listeners_of(weir)
    other.query("NOTIFY news; NOTIFY more; NOTIFY old")
    silent(client)


@pytest.mark.parametrize("name", [b'""', b'"\xff"', b'"a\xc3"', b'"\xed\xa0\x80"', b'"\xf8\x88\x80\x80\x80"'])
def test_a_name_that_postgresql_refuses_ends_no_other_listener(start, postgres, name):
    weir = start(servers=2)
    other, client = weir.client(), weir.client()
    other.query("LISTEN news")
    client.send(wire.message("Q", b"LISTEN " + name + b"\0"))
    assert client.read_result().error["C"] in ("42601", "22021")
    client.query("LISTEN news")
    postgres.query("NOTIFY news, 'x'")
    assert heard(other, 1) == heard(client, 1) == [("news", "x")]


def test_a_name_that_the_listening_connection_would_read_otherwise(start, postgres):
    """It keeps the client_encoding that the client had when it began to listen."""
    weir = start(servers=2)
    other, client = (weir.client(client_encoding="EUC_JP") for _ in range(2))
    for listener in (other, client):
        assert not listener.query("LISTEN news").error
    client.query("SET client_encoding = 'UTF8'")
    assert not client.query('LISTEN "\u65e5"').error
    postgres.query("NOTIFY news, 'x'")
    assert heard(other, 1) == heard(client, 1) == [("news", "x")]
    postgres.query('NOTIFY "\u65e5"')
    assert heard(client, 1) == [("\u65e5", "")]


def test_nobody_else_hears(start, postgres):
    weir = start()
    first, second = weir.client(), weir.client()
    first.query("LISTEN news")
    assert second.value("SELECT count(*) FROM pg_listening_channels()") == "0"
    assert first.value("SELECT count(*) FROM pg_listening_channels()") == "0"
    postgres.query("NOTIFY news, 'x'")
    assert heard(first, 1) == [("news", "x")]
    silent(second)


def test_client_that_leaves_in_the_middle(start, postgres):
    weir = start(servers=2)
    for sql in ("LISTEN news", "BEGIN; LISTEN news", "LISTEN news; SELECT pg_sleep(0.1)"):
        client = weir.client()
        client.send(wire.query(sql))
        client.close()
    wait_until(lambda: not listeners_of(weir))
    fresh = weir.client()
    assert fresh.value("SELECT count(*) FROM pg_listening_channels()") == "0"


def test_lost_connection_closes_the_listeners(start, postgres):
    weir = start(servers=2)
    idle, busy, other = weir.client(), weir.client(), weir.client()
    idle.query("LISTEN a")
    busy.query("LISTEN b")
    busy.query("BEGIN")
    for row in wait_until(lambda: listeners_of(weir)):  # one for each event loop with listeners
        postgres.query("SELECT pg_terminate_backend(%s)", row["remote_pid"])
    for client in (idle, busy):
        error = client.expect("E").fields
        assert error["C"] == "08006" and "listening connection" in error["M"], error
    assert other.value("SELECT 1") == "1"
    other.query("LISTEN a")
    postgres.query("NOTIFY a")
    assert heard(other, 1) == [("a", "")]


def test_psycopg(start, postgres):
    weir = start()
    with weir.connect(autocommit=True) as conn:
        notes = []
        conn.add_notify_handler(notes.append)
        conn.execute("LISTEN news")
        conn.execute("SELECT pg_notify('news', 'one')")
        assert [note.payload for note in notes] == ["one"]
        assert notes[0].pid == conn.info.backend_pid
        postgres.query("NOTIFY news, 'two'")
        assert next(conn.notifies()).payload == "two"


# -- what waits --------------------------------------------------------------------------------


def notify_many(postgres, count, size=7000, channel="news"):
    postgres.query("SELECT pg_notify(%s, repeat('x', %s - length(n::text)) || n)"
                   " FROM generate_series(1, %s) AS n", channel, size, count)


def test_client_that_does_not_read_is_closed(start, postgres):
    weir = start()
    deaf, other = weir.client(), weir.client()
    for client in (deaf, other):
        client.query("LISTEN news")
    for _ in range(6):
        notify_many(postgres, 1000)
        assert len(heard(other, 1000)) == 1000
    weir.wait_log("too many notifications were not read")
    with pytest.raises((wire.Closed, ConnectionError)):
        deaf.query("SELECT 1")
        deaf.query("SELECT 1")
    assert other.value("SELECT 1") == "1"


def test_too_many_in_a_long_transaction(start, postgres):
    weir = start(servers=2)
    busy = weir.client()
    busy.query("LISTEN news")
    busy.query("BEGIN")
    for _ in range(2):
        notify_many(postgres, 1000)
    error = busy.expect("E").fields
    assert error["C"] == "53300" and "not read" in error["M"]
    fresh = weir.client()
    assert fresh.value("SELECT 1") == "1"


def test_slow_reader_gets_all_in_order(start, postgres):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    notify_many(postgres, 900)
    weir.one_turn()
    numbers = [int(payload.lstrip("x")) for _, payload in heard(client, 900)]
    assert numbers == list(range(1, 901))
    silent(client)


def test_commits_keep_their_order(start, postgres):
    """Notifications of one transaction, of several channels, and of several transactions."""
    weir = start(servers=3)
    client = weir.client()
    for name in "abc":
        client.query(f"LISTEN {name}")
    wanted = []
    for number in range(60):
        names = "abc"[number % 3:] + "abc"[:number % 3]
        postgres.query(";".join(f"NOTIFY {name}, '{number}'" for name in names))
        wanted += [(name, str(number)) for name in names]
    assert heard(client, len(wanted)) == wanted


def test_begin_of_listening_loses_nothing_and_repeats_nothing(start, postgres):
    """A sender notifies all the time; from its LISTEN on, the client gets each number once."""
    weir = start(servers=2)
    others = [weir.client() for _ in range(3)]
    others[0].query("LISTEN other")
    with weir.connect(autocommit=True) as sender:
        number = 0
        for round_ in range(20):
            client = weir.client()
            client.send(wire.query("LISTEN news"))
            for _ in range(10):
                number += 1
                sender.execute(f"NOTIFY news, '{number}'")
            client.read_until("Z")
            number += 1
            sender.execute(f"NOTIFY news, '{number}'")
            got = [int(heard(client, 1)[0][1])]
            while got[-1] != number:
                got.append(int(heard(client, 1)[0][1]))
            assert got == list(range(got[0], number + 1)), (round_, got)
            client.close()


def test_new_channel_keeps_the_order(start, postgres):
    """What came for other channels during the transaction comes before what came after it."""
    weir = start(servers=2)
    client = weir.client()
    client.query("LISTEN a")
    for number in range(10):
        client.query("BEGIN")
        client.query(f"LISTEN b{number}")
        postgres.query("NOTIFY a, 'first'")
        client.query(f"NOTIFY b{number}, 'second'")
        client.send(wire.query("COMMIT"))
        got = client.read_until("Z")
        assert "".join(message.type for message in got) == "CAAZ", (number, got)
        postgres.query(f"NOTIFY b{number}, 'third'")
        postgres.query("NOTIFY a, 'fourth'")
        assert heard(client, 2) == [(f"b{number}", "third"), ("a", "fourth")]


@pytest.mark.parametrize("texts", [
    ["LISTEN b"], ["UNLISTEN c", "LISTEN b"], ["BEGIN", "SAVEPOINT s", "LISTEN b"],
    ["BEGIN", "UNLISTEN c", "LISTEN b", "UNLISTEN other"], ["BEGIN", "LISTEN b", "LISTEN b2", "UNLISTEN c"],
])
@pytest.mark.parametrize("how", ["query", "extended"])
def test_old_and_new_channels_have_one_order(start, postgres, texts, how):
    """Within the transaction that listens, and up to the moment when the listening connection has
    the new channel."""
    weir = start(servers=2)
    other, witness = weir.client(), wire.Wire((postgres.host, postgres.port)).login("alice", "app")
    witness.query("LISTEN a")
    for number in range(6):
        client = weir.client()
        client.query("LISTEN a; LISTEN c; LISTEN d")
        for sql in texts:
            ask(client, sql, how)
        if texts[0] != "BEGIN":
            client.query("BEGIN")
        client.query("NOTIFY a, '1'; NOTIFY b, '2'; NOTIFY d, '3'; NOTIFY b, '4'")
        client.send(wire.query("NOTIFY a, '5'; COMMIT") + wire.query("SELECT 1"))
        assert heard(witness, 2) == [("a", "1"), ("a", "5")]  # it is committed
        other.query("NOTIFY d, '6'; NOTIFY b, '7'; NOTIFY a, '8'")
        assert heard(witness, 1) == [("a", "8")]
        got, kinds = [], ""
        while kinds.count("Z") < 2 or len(got) < 8:
            message = client.read()
            kinds += message.type
            got += [note_of(message)] if message.type == "A" else []
        assert got == [(channel, str(at + 1)) for at, channel in enumerate("abdbadba")], number
        assert kinds.startswith("CC" + "A" * 5), kinds
        client.close()


def test_late_begin(start, postgres):
    weir = start(servers=2, late_begin=1)
    client = weir.client()
    client.query("LISTEN news")
    client.query("BEGIN")
    postgres.query("NOTIFY news, 'x'")
    weir.one_turn()
    client.query("UNLISTEN other")
    client.send(wire.query("COMMIT"))
    kinds = [client.read().type for _ in range(3)]
    assert kinds in (["C", "A", "Z"], ["C", "Z", "A"]), kinds
    for sql in ("BEGIN", "UNLISTEN news", "ROLLBACK", "BEGIN", "LISTEN more", "COMMIT"):
        client.query(sql)
    postgres.query("NOTIFY news")
    postgres.query("NOTIFY more")
    assert heard(client, 2) == [("news", ""), ("more", "")]
    for sql in ("BEGIN", "UNLISTEN *", "COMMIT"):
        client.query(sql)
    wait_until(lambda: not listeners_of(weir))


@pytest.mark.parametrize("sql", ["DO $$ BEGIN END $$", "UNLISTEN news", "UNLISTEN *", "NOTIFY other; UNLISTEN news",
                                 "LISTEN more; UNLISTEN news"])
@pytest.mark.parametrize("how", ["query", "extended"])
@pytest.mark.parametrize("late_begin", [0, 1])
def test_rollback_keeps_the_channels(same_pgweir, late_begin, sql, how):
    weir = same_pgweir(pool_mode="transaction", default_pool_size=2, late_begin=late_begin)
    client = weir.client()
    client.query("LISTEN news; LISTEN third")
    for _ in range(3):
        client.query("BEGIN")
        ask(client, sql, how if ";" not in sql else "query")
        ask(client, "SELECT 1", "extended")
        client.query("ROLLBACK")
        assert client.query("NOTIFY news; NOTIFY third").types == "CCAAZ"


def test_pipeline(start, postgres):
    weir = start()
    client = weir.client()
    client.send(wire.query("LISTEN a") + wire.query("LISTEN b") + wire.query("BEGIN")
                + wire.query("UNLISTEN a") + wire.query("COMMIT") + wire.query("NOTIFY b, 'x'")
                + wire.query("SELECT 1"))
    kinds = []
    while kinds.count("Z") < 7:
        kinds.append(client.read().type)
    assert "".join(kinds) == "CZ" * 5 + "CAZ" + "TDCZ"
    postgres.query("NOTIFY a")
    postgres.query("NOTIFY b")
    assert heard(client, 1) == [("b", "")]
    silent(client)


def test_pipeline_that_listens_and_notifies(start, postgres):
    weir = start(servers=2)
    client = weir.client()
    client.query("LISTEN old")
    client.send(wire.query("LISTEN a") + wire.query("NOTIFY a, '1'") + wire.query("NOTIFY old, '2'")
                + wire.query("LISTEN b") + wire.query("NOTIFY b, '3'"))
    got = []
    while [message.type for message in got].count("Z") < 5:
        got.append(client.read())
    notes = [note_of(message) for message in got if message.type == "A"]
    notes += heard(client, 3 - len(notes))
    assert sorted(notes) == [("a", "1"), ("b", "3"), ("old", "2")]
    silent(client)


@pytest.mark.parametrize("unlisten", ["UNLISTEN a", "UNLISTEN *"])
def test_own_notification_of_a_channel_that_is_unlistened(start, postgres, unlisten):
    weir = start()
    client = weir.client()
    client.query("LISTEN a")
    for sql in ("BEGIN", "NOTIFY a, 'x'", unlisten):
        client.query(sql)
    assert client.query("COMMIT").types == "CZ"
    silent(client)


def test_pinned_client_listens(start, postgres):
    weir = start(servers=2, max_pinned_servers=1)
    client = weir.client()
    client.query("CREATE TEMP TABLE mine (a int)")
    client.query("LISTEN news")
    postgres.query("NOTIFY news, 'x'")
    assert heard(client, 1) == [("news", "x")]
    assert client.value("SELECT count(*) FROM mine") == "0"
    client.query("UNLISTEN *")
    wait_until(lambda: not listeners_of(weir))


def test_encodings(start, postgres):
    weir = start(servers=2)
    utf8, latin = weir.client(), weir.client(client_encoding="LATIN1")
    for client in (utf8, latin):
        client.query("LISTEN news")
    postgres.query("NOTIFY news, 'ä'")
    assert heard(utf8, 1) == [("news", "ä")]
    assert latin.expect("A").body.endswith(b"\xe4\0")
    wait_until(lambda: len(listeners_of(weir)) == 2)
    weir.wait_pool(sv_active=0)
    utf8.query("SET client_encoding = 'LATIN1'")
    postgres.query("NOTIFY news, 'a'")
    assert heard(utf8, 1) == [("news", "a")]
    postgres.query("NOTIFY news, 'ä'")
    assert "client_encoding" in utf8.expect("E").fields["M"]
    latin.expect("A")
    latin.expect("A")


def test_limit_of_the_database(start, postgres):
    weir = start(max_db_connections=1, server_connect_timeout=1)
    client = weir.client()
    client.send(wire.query("LISTEN news"))
    error = client.expect("E").fields
    assert error["C"] == "08006" and "one more server" in error["M"]
    fresh = weir.client()
    assert fresh.value("SELECT 1") == "1"


@pytest.mark.parametrize("limit", ("max_db_connections", "max_user_connections"))
@pytest.mark.parametrize("loops", (1, 4))
def test_clients_that_listen_do_not_wait_for_each_other(start, postgres, loops, limit):
    """All servers are held by clients that wait for a listening connection, in one loop or in each
    of several: one client is refused, and the others get what it had.
    """
    weir = start(servers=4, loops=loops, server_connect_timeout=900, **{limit: 4})
    clients = [weir.client() for _ in range(4)]
    for client in clients:
        client.query("BEGIN")
    for client in clients:
        client.send(wire.query("LISTEN news; COMMIT"))
    refused = 0
    for client in clients:
        answer = client.read()
        refused += answer.type == "E"
        if answer.type == "E":
            assert answer.fields["C"] == "08006" and limit in answer.fields["M"]
            client.wait_closed()
        else:
            assert client.read_until("Z")
    assert 1 <= refused <= max(1, loops - 1)
    assert weir.client().value("SELECT 1") == "1"


def test_counts_for_database_and_user(start):
    weir = start(servers=1)
    client = weir.client()
    client.query("LISTEN news")
    wait_until(lambda: listeners_of(weir))
    (row,) = [row for row in weir.admin("SHOW DATABASES") if row["name"] == "app"]
    assert row["current_connections"] == 2
    others = [weir.client() for _ in range(2)]
    others[0].query("BEGIN; SELECT 1")
    others[1].send(wire.query("SELECT 2"))
    weir.wait_pool(cl_waiting=1)
    others[0].query("COMMIT")
    assert others[1].read_result().rows == [["2"]]


# -- the administrator -------------------------------------------------------------------------


def test_pause_keeps_the_listeners(start, postgres):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    weir.admin("PAUSE")
    postgres.query("NOTIFY news, 'paused'")
    assert heard(client, 1) == [("news", "paused")]
    client.send(wire.query("UNLISTEN *"))
    weir.wait_pool(cl_waiting=1)
    weir.admin("RESUME")
    client.read_until("Z")
    wait_until(lambda: not listeners_of(weir))


def test_kill_ends_the_connection(start, postgres):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    wait_until(lambda: listeners_of(weir))
    weir.admin("KILL app")
    assert client.expect("E").fields["C"] == "57P01"
    wait_until(lambda: not listeners_of(weir))
    weir.admin("RESUME app")
    fresh = weir.client()
    fresh.query("LISTEN news")
    postgres.query("NOTIFY news, 'x'")
    assert heard(fresh, 1) == [("news", "x")]


def test_disable_keeps_the_listeners(start, postgres):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    weir.admin("DISABLE app")
    postgres.query("NOTIFY news, 'x'")
    assert heard(client, 1) == [("news", "x")]
    weir.admin("ENABLE app")


def test_drain_closes_idle_listeners(start):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    weir.admin("DRAIN")
    assert client.expect("E").fields["C"] == "57P01"
    wait_until(lambda: not listeners_of(weir))


def test_suspend_delays_notifications(start, postgres):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    wait_until(lambda: listeners_of(weir))
    weir.admin("SUSPEND")
    postgres.query("NOTIFY news, 'later'")
    weir.admin("RESUME")
    assert heard(client, 1) == [("news", "later")]


def test_reload(start, postgres):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    weir.reload(query_timeout=1, idle_transaction_timeout=1, server_lifetime=1,
                server_idle_timeout=1)
    client.query("LISTEN more")
    postgres.query("SELECT pg_sleep(1.5)")
    postgres.query("NOTIFY news, 'x'")
    postgres.query("NOTIFY more, 'x'")
    assert heard(client, 2) == [("news", "x"), ("more", "x")]


def test_session_mode_ends_the_listeners(start, postgres):
    """The client's own server would have to listen: it is closed, but not within a transaction."""
    weir = start(servers=4)
    idle, busy, other = weir.client(), weir.client(), weir.client()
    for client in (idle, busy):
        client.query("LISTEN a")
    busy.query("BEGIN; SELECT 1")
    other.query("LISTEN b; UNLISTEN b")
    weir.reload(pool_mode="session")
    postgres.query("NOTIFY a, '1'")
    assert heard(idle, 1) == [("a", "1")]
    assert busy.query("SELECT 1; COMMIT").tags == ["SELECT 1", "COMMIT"]
    for client in (idle, busy):
        client.send(wire.query("SELECT 1"))
        error = next(message for message in client.read_until("E") if message.type == "E").fields
        assert error["C"] == "08006" and "pool_mode is session now" in error["M"]
    wait_until(lambda: not listeners_of(weir))
    other.query("LISTEN b")
    postgres.query("NOTIFY b")
    assert heard(other, 1) == [("b", "")]


def test_transaction_mode_follows(start, postgres):
    """The server that listens already stays with its client."""
    weir = start(servers=4, pool_mode="session")
    client = weir.client()
    client.query("LISTEN a; LISTEN b")
    weir.reload(pool_mode="transaction")
    postgres.query("NOTIFY a, '1'")
    assert heard(client, 1) == [("a", "1")]
    assert client.query("SELECT 1").types == "TDCZ"
    silent(client)
    postgres.query("NOTIFY a, '2'; NOTIFY b, '3'")
    assert heard(client, 2) == [("a", "2"), ("b", "3")]
    assert client.query("NOTIFY b, '4'").types == "CAZ"
    assert len(weir.admin("SHOW PINNED")) == 1
    client.query("UNLISTEN *; LISTEN b")
    assert len(listeners_of(weir)) <= 1
    postgres.query("NOTIFY a; NOTIFY b, '5'")
    assert heard(client, 1) == [("b", "5")]
    silent(client)


def test_shutdown_waits_for_no_listener(start):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    weir.admin("SHUTDOWN WAIT_FOR_SERVERS")
    weir.wait_exit()


# -- take-overs --------------------------------------------------------------------------------


class Speaker:
    """Notifies the channel without a pause until the end: 0, 1, 2 ..."""

    def __init__(self, postgres, channel):
        self.count = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.speak, args=(postgres.connect(), channel))
        self.thread.start()

    def speak(self, connection, channel):
        with connection:
            while not self.is_over.is_set():
                connection.execute("SELECT pg_notify(%s, %s)", (channel, str(self.count)))
                self.count += 1

    def wait_more(self):
        since = self.count
        wait_until(lambda: self.count > since + 20)

    def stop(self):
        self.is_over.set()
        self.thread.join(30)


def listening_pid(weir):
    (pid,) = listening_pids(weir)
    return pid


def listening_pids(weir):
    """One for each event loop that has clients that listen."""
    return {row["remote_pid"] for row in listeners_of(weir)}


def test_listeners_pass_with_their_connection(start, postgres):
    weir = start()
    clients = [weir.client() for _ in range(3)]
    for client in clients:
        client.query("LISTEN news")
    clients[0].query("LISTEN first")
    backends = listening_pids(weir)
    weir.disconnect_console()
    postgres.query("NOTIFY news, 'before'")
    assert weir.take_over().wait(30) == 0
    assert listening_pids(weir) == backends
    postgres.query("NOTIFY first, 'own'")
    postgres.query("NOTIFY news, 'after'")
    assert heard(clients[0], 3) == [("news", "before"), ("first", "own"), ("news", "after")]
    for client in clients[1:]:
        assert heard(client, 2) == [("news", "before"), ("news", "after")]
    clients[0].query("UNLISTEN news")
    clients[1].query("LISTEN more")
    weir.client().query("LISTEN news")
    assert listening_pids(weir) >= backends
    for channel in ("news", "more", "first"):
        postgres.query(f"NOTIFY {channel}, 'x'")
    assert heard(clients[0], 1) == [("first", "x")]
    assert heard(clients[1], 2) == [("news", "x"), ("more", "x")]
    assert heard(clients[2], 1) == [("news", "x")]
    for client in clients:
        silent(client)


def test_take_overs_lose_and_repeat_no_notification(start, postgres):
    weir = start()
    clients = [weir.client() for _ in range(5)]
    for client in clients:
        client.query("LISTEN news")
    weir.disconnect_console()
    speaker = Speaker(postgres, "news")
    try:
        for _ in range(4):
            speaker.wait_more()
            assert weir.take_over().wait(30) == 0
        speaker.wait_more()
    finally:
        speaker.stop()
    for client in clients:
        got = [int(payload) for _, payload in heard(client, speaker.count)]
        assert got == list(range(speaker.count))
        silent(client)


def test_take_over_of_listeners_at_work(start, postgres):
    """Each of them is at rest for short moments only."""
    weir = start(servers=4)
    got, problems, is_over = [[] for _ in range(8)], [], threading.Event()

    def work(number):
        try:
            with psycopg.connect(host="127.0.0.1", port=weir.port, dbname="app", user="alice",
                                 autocommit=True) as connection:
                connection.add_notify_handler(lambda note: got[number].append(int(note.payload)))
                connection.execute("LISTEN news")
                while not is_over.is_set():
                    with connection.transaction():
                        connection.execute("SELECT pg_sleep(0.001)")
                    connection.execute("SELECT pg_sleep(0.001)")
                connection.execute("UNLISTEN *")
        except Exception as problem:  # pylint: disable=broad-except
            problems.append(repr(problem))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(got))]
    for thread in threads:
        thread.start()
    wait_until(lambda: problems or
               weir.admin("SHOW SESSION_STATE") and
               all(row["channels"] for row in weir.admin("SHOW SESSION_STATE")) and
               len(weir.admin("SHOW SESSION_STATE")) == len(got))
    weir.disconnect_console()
    speaker = Speaker(postgres, "news")
    try:
        for _ in range(3):
            speaker.wait_more()
            assert weir.take_over().wait(60) == 0
        speaker.wait_more()
    finally:
        speaker.stop()
        wait_until(lambda: problems or all(len(each) >= speaker.count for each in got))
        is_over.set()
        for thread in threads:
            thread.join(30)
    assert not problems
    assert got == [list(range(speaker.count))] * len(got)


def test_unread_notifications_pass_with_their_client(start, postgres):
    weir = start(servers=2)
    client = weir.client()
    client.query("LISTEN news")
    client.query("BEGIN")
    client.query("SELECT 1")
    for number in range(3):
        postgres.query(f"NOTIFY news, '{number}'")
    other = weir.client()
    other.query("LISTEN news")
    postgres.query("NOTIFY news, 'all'")
    assert heard(other, 1) == [("news", "all")]
    weir.disconnect_console()
    assert weir.take_over().wait(30) == 0
    assert client.query("SELECT 2").types == "TDCZ"
    client.send(wire.query("COMMIT"))
    # The new process has not read the catalog yet, so SELECT 2 may have notified.
    got = [note_of(each) for each in client.read_until("Z") if each.type == "A"]
    got += heard(client, 4 - len(got))
    assert got == [("news", str(number)) for number in range(3)] + [("news", "all")]


def test_slow_reader_passes(start, postgres):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    notify_many(postgres, 500)
    assert weir.take_over().wait(30) == 0
    postgres.query("NOTIFY news, 'last'")
    got = [payload.lstrip("x") for _, payload in heard(client, 501)]
    assert got == [str(number) for number in range(1, 501)] + ["last"]


def test_own_notifications_after_a_take_over(start, postgres):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    assert weir.take_over().wait(30) == 0
    got = client.query("NOTIFY news, 'own'")
    assert got.types == "CAZ"


def test_encodings_pass(start, postgres):
    weir = start(servers=2)
    plain, latin = weir.client(), weir.client(client_encoding="LATIN1")
    for client in (plain, latin):
        client.query("LISTEN news")
    assert weir.take_over().wait(30) == 0
    postgres.query("NOTIFY news, 'é'")
    assert heard(plain, 1) == [("news", "é")]
    assert latin.expect("A").body.endswith(b"\xe9\0")


@pytest.mark.one_loop("both listeners share a connection")
def test_listener_within_an_unlisten_waits(start, postgres):
    """Both listeners stay until it is known to what one of them listens."""
    weir = start(servers=2)
    client, other = weir.client(), weir.client()
    for each in (client, other):
        each.query("LISTEN news")
    client.query("BEGIN")
    client.query("UNLISTEN news")
    weir.disconnect_console()
    old = weir.take_over()
    postgres.query("NOTIFY news, 'x'")
    assert heard(other, 1) == [("news", "x")]
    assert old.poll() is None
    assert other.value("SELECT 2") == "2"
    assert client.query("ROLLBACK").types == "CAZ"
    assert old.wait(30) == 0
    postgres.query("NOTIFY news, 'y'")
    for each in (client, other):
        assert heard(each, 1) == [("news", "y")]


def test_take_over_to_another_host_replaces_the_connection(start, postgres):
    """The old process did not use this host, so it is not sure that the server is the same."""
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    backend = listening_pid(weir)
    weir.disconnect_console()
    weir.configure(databases={name: f"host=localhost port={weir.postgres.port}"
                              for name in ("app", "app2", "app3")})
    assert weir.take_over().wait(30) == 0
    wait_until(lambda: [row["remote_pid"] for row in listeners_of(weir)] != [backend])
    weir.wait_log("the listening connection was replaced")
    postgres.query("NOTIFY news, 'x'")
    assert heard(client, 1) == [("news", "x")]


# -- the connection is replaced ----------------------------------------------------------------


def test_reconnect_loses_and_repeats_no_notification(start, postgres):
    weir = start(servers=3)
    clients = [weir.client() for _ in range(5)]
    for client in clients:
        client.query("LISTEN news")
    notes = [[] for _ in clients]
    speakers = [Speaker(postgres, "news") for _ in range(2)]
    try:
        for turn in range(30):
            before = listening_pids(weir)
            speakers[0].wait_more()
            weir.admin("RECONNECT")
            result = clients[turn % 5].query(f"LISTEN channel{turn}")
            assert result.tags == ["LISTEN"]
            notes[turn % 5] += [note_of(each) for each in result.messages if each.type == "A"]
            weir.admin("WAIT_CLOSE")
            assert not listening_pids(weir) & before
        for speaker in speakers:
            speaker.wait_more()
    finally:
        for speaker in speakers:
            speaker.stop()
    postgres.query("NOTIFY news, 'end'")
    count = sum(speaker.count for speaker in speakers)
    first = None
    for number, client in enumerate(clients):
        got = notes[number] + heard(client, count + 1 - len(notes[number]))
        assert got[-1] == ("news", "end")
        assert Counter(got[:-1]) == Counter(("news", str(i)) for speaker in speakers
                                            for i in range(speaker.count))
        first = first or got
        assert got == first  # the order is the same for all
        for turn in range(number, 30, 5):
            postgres.query(f"NOTIFY channel{turn}, 'x'")
            assert heard(client, 1) == [(f"channel{turn}", "x")]
        silent(client)


def test_reconnect_waits_for_a_permit(start, postgres):
    weir = start(max_db_connections=2)
    client, worker = weir.client(), weir.client()
    client.query("LISTEN news")
    worker.query("BEGIN")
    worker.query("SELECT 1")
    backend = listening_pid(weir)
    weir.admin("RECONNECT")
    weir.wait_log("the listening connection cannot be replaced yet: max_db_connections")
    assert listening_pid(weir) == backend
    postgres.query("NOTIFY news, 'still'")
    assert heard(client, 1) == [("news", "still")]
    worker.query("COMMIT")
    weir.admin("WAIT_CLOSE")
    assert listening_pid(weir) != backend
    postgres.query("NOTIFY news, 'new'")
    assert heard(client, 1) == [("news", "new")]
    assert weir.log.count("cannot be replaced yet") == 1


def test_reload_with_another_name_of_the_server(start, postgres):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    backend = listening_pid(weir)
    weir.reload(databases={"app": f"host=localhost port={weir.postgres.port}"})
    weir.admin("WAIT_CLOSE")
    assert listening_pid(weir) != backend
    postgres.query("NOTIFY news, 'x'")
    assert heard(client, 1) == [("news", "x")]


def test_reload_with_another_database_ends_the_listeners(start, postgres):
    weir = start()
    client = weir.client()
    client.query("LISTEN news")
    weir.reload(databases={"app": f"host=127.0.0.1 port={weir.postgres.port} dbname=app2"})
    error = client.expect("E").fields
    assert error["C"] == "08006"
    assert "its successor is connected to another server or database" in error["M"]
    fresh = weir.client()
    fresh.query("LISTEN news")
    postgres.query("NOTIFY news, 'x'", dbname="app2")
    assert heard(fresh, 1) == [("news", "x")]


def test_a_successor_that_cannot_be_opened(start, postgres):
    """The old connection stays in use, and a later attempt succeeds."""
    weir = start(server_login_retry=0)
    client = weir.client()
    client.query("LISTEN news")
    backend = listening_pid(weir)
    postgres.query("ALTER ROLE alice NOLOGIN")
    try:
        weir.admin("RECONNECT")
        weir.wait_log("the listening connection was not replaced, it stays in use: .*not permitted")
        postgres.query("NOTIFY news, 'still'")
        assert heard(client, 1) == [("news", "still")]
        assert listening_pid(weir) == backend
    finally:
        postgres.query("ALTER ROLE alice LOGIN")
    weir.admin("WAIT_CLOSE")
    assert listening_pid(weir) != backend
    postgres.query("NOTIFY news, 'new'")
    assert heard(client, 1) == [("news", "new")]


def test_commands_while_the_connection_is_replaced(start, postgres):
    """Clients that come, listen, notify and leave during all that."""
    weir = start(servers=3)
    problems, is_over = [], threading.Event()

    def work(number):
        turn = 0
        try:
            while not is_over.is_set():
                turn += 1
                with weir.client() as client:
                    client.query(f"LISTEN a{number}")
                    client.query(f"LISTEN b{number}")
                    client.query(f"UNLISTEN a{number}")
                    for i in range(5):
                        got = client.query(f"NOTIFY b{number}, '{turn}.{i}'")
                        notes = [note_of(each) for each in got.messages if each.type == "A"]
                        if notes != [(f"b{number}", f"{turn}.{i}")]:
                            problems.append(notes)
        except Exception as problem:  # pylint: disable=broad-except
            problems.append(repr(problem))

    keeper = weir.client()
    keeper.query("LISTEN news")
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(40):
            weir.admin("RECONNECT")
            weir.admin("WAIT_CLOSE")
            postgres.query(f"NOTIFY news, '{turn}'")
    finally:
        is_over.set()
        for thread in threads:
            thread.join(30)
    assert not problems
    assert heard(keeper, 40) == [("news", str(turn)) for turn in range(40)]


# -- many --------------------------------------------------------------------------------------

# More of them: PGWEIR_LISTENERS=5000 PGWEIR_NOTIFICATIONS=20 ./test/run test/e2e/test_listen.py
LISTENERS = int(os.environ.get("PGWEIR_LISTENERS", "300"))
NOTIFICATIONS = int(os.environ.get("PGWEIR_NOTIFICATIONS", "100"))


def test_many_listeners_on_one_connection(start, postgres):
    speaker = postgres.connect()  # before the clients: psycopg cannot wait for a high descriptor
    weir = start(servers=2, max_client_conn=LISTENERS + 10, query_wait_notify=0)
    clients = [weir.client() for _ in range(LISTENERS)]
    for client in clients:
        client.send(wire.query("LISTEN news"))
    for client in clients:
        assert client.read_until("Z")[0].type == "C"
    weir.wait_pool(sv_active=0)
    assert len(listeners_of(weir)) == LOOPS
    (count,), = speaker.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = 'alice'")
    assert count <= 2 + LOOPS
    for number in range(NOTIFICATIONS):
        if number == NOTIFICATIONS // 2:
            weir.admin("RECONNECT")
        speaker.execute(f"NOTIFY news, '{number}'")
    weir.admin("WAIT_CLOSE")
    speaker.close()
    wanted = [("news", str(number)) for number in range(NOTIFICATIONS)]
    for client in clients:
        assert heard(client, NOTIFICATIONS) == wanted
    for client in clients:
        silent(client)


def test_many_notifications_while_clients_work(start, postgres):
    """Listeners that also run transactions get each notification once, in order."""
    weir = start(servers=3)
    clients = [weir.client() for _ in range(8)]
    for client in clients:
        client.query("LISTEN news")
    count, batch = 2000, 40
    got = {client: [] for client in clients}
    for at in range(0, count, batch):
        postgres.query("SELECT pg_notify('news', n::text) FROM generate_series(%s::int, %s::int) n",
                       at, at + batch - 1)
        for client in clients:
            client.send(wire.query("BEGIN") + wire.query("SELECT 1") + wire.query("COMMIT"))
        for client in clients:
            ready = 0
            while ready < 3:
                message = client.read()
                ready += message.type == "Z"
                if message.type == "A":
                    got[client].append(int(note_of(message)[1]))
    for client in clients:
        got[client] += [int(payload) for _, payload in heard(client, count - len(got[client]))]
        assert got[client] == list(range(count))


# -- functions that notify ---------------------------------------------------------------------


def prepare_function(postgres):
    postgres.query("CREATE OR REPLACE FUNCTION tell(text) RETURNS void LANGUAGE plpgsql AS "
                   "$$ BEGIN PERFORM pg_notify('news', $1); END $$")


def own_of(client, text):
    """The notifications before ReadyForQuery, all with the client's own process id."""
    notes = [each for each in client.query(text).messages if each.type == "A"]
    assert {each.body[:4] for each in notes} <= {client.key[:4]}
    return [note_of(each) for each in notes]


def wait_catalog(weir, client, *names):
    """The catalog is looked at again when the database is used."""
    def is_there():
        client.query("SELECT 1")
        return set(names) <= {row["name"] for row in weir.admin("SHOW CATALOG")}
    wait_until(is_there)


def test_function_that_notifies(start, postgres):
    """The catalog says so: its notifications come in time, in each form of the statement."""
    prepare_function(postgres)
    weir = start()
    client, other = weir.client(), weir.client()
    wait_catalog(weir, client, "tell")
    for each in (client, other):
        each.query("LISTEN news")
    assert own_of(client, "SELECT tell('one')") == [("news", "one")]
    assert heard(other, 1) == [("news", "one")]
    client.query("PREPARE say AS SELECT tell($1)")
    client.query("BEGIN")
    client.query("EXECUTE say('two')")
    assert own_of(client, "COMMIT") == [("news", "two")]
    client.send(wire.extended("SELECT tell($1)", ["three"]))
    assert [note_of(each) for each in client.read_until("Z") if each.type == "A"] == [("news", "three")]
    assert heard(other, 2) == [("news", "two"), ("news", "three")]
    silent(client)


def test_notifications_of_others_on_the_same_server_are_no_own_ones(start, postgres):
    weir = start()
    client, other = weir.client(), weir.client()
    client.query("LISTEN news")
    for turn in range(30):
        client.query("SELECT 1")
        other.query(f"NOTIFY news, '{turn}'")
        assert heard(client, 1) == [("news", str(turn))]


def test_own_notification_of_a_statement_that_is_prepared_ahead(pgweir):
    """The server does not have it yet, so a Sync of pgweir's follows the EXECUTE."""
    weir = pgweir(pool_mode="transaction", default_pool_size=2, server_round_robin=1)
    client = weir.client()
    client.query("LISTEN c1")
    client.query("PREPARE p AS SELECT pg_notify('c1', $1)")
    for number in range(4):
        client.send(wire.query(f"EXECUTE p('{number}')"))
        got = client.read_until("Z")
        assert [message.type for message in got] == ["T", "D", "C", "A", "Z"]
        assert got[3].body == client.key[:4] + b"c1\0%d\0" % number


def test_execute_that_may_unlisten_on_a_server_without_the_statement(start, postgres):
    """What was put ahead of the text must not come again while the text waits for its statement."""
    weir = start(servers=3, session_sample=1, server_round_robin=1)
    client = weir.client()
    for sql in ("LISTEN news", "PREPARE p AS SELECT 41"):
        client.query(sql)
    for _ in range(6):
        assert client.query("EXECUTE p").rows
    postgres.query("NOTIFY news, 'x'")
    assert heard(client, 1) == [("news", "x")]


# -- the end of a failed transaction block -----------------------------------------------------


@pytest.fixture
def failed(start, postgres):
    """Clients that listen to "a" and "b", in a transaction block that has failed. In a sample any
    statement may have done anything."""
    weir = start(servers=3, session_sample=1, server_round_robin=1)

    def failed():
        client = weir.client()
        for sql in ("LISTEN a", "LISTEN b", "BEGIN", "SAVEPOINT s", "SELECT 1/0"):
            client.query(sql)
        return client
    return failed


END_OF_BLOCK = {"ROLLBACK AND CHAIN": "T", "COMMIT AND CHAIN": "T", "ROLLBACK TO s": "T"}


@pytest.mark.parametrize("sql", END_OF_BLOCK)
@pytest.mark.parametrize("name", ["", "p"])
@pytest.mark.parametrize("cut", ["whole", "messages", "bytes"])
def test_suspect_that_ends_a_failed_block(failed, postgres, sql, name, cut):
    """Nothing of ours can be executed ahead of it."""
    client = failed()
    batch = [wire.parse(sql, name), wire.bind(name=name), wire.describe(), wire.execute(),
             wire.parse("SELECT 41"), wire.bind(), wire.execute(), wire.sync()]
    send_cut(client, batch, cut)
    result = client.read_result()
    assert (result.types, result.status) == ("12nC12DCZ", END_OF_BLOCK[sql])
    client.query("COMMIT")
    for channel in "ab":
        postgres.query(f"NOTIFY {channel}")
    assert heard(client, 2) == [("a", ""), ("b", "")]
    silent(client)


def send_cut(client, batch, cut):
    """Sends messages at once, each by itself, or byte by byte; what was sent by itself is answered."""
    whole = b"".join(batch)
    pieces = {"whole": [whole], "messages": batch, "bytes": [whole[at:at + 1] for at in range(len(whole))]}[cut]
    for piece in pieces:
        client.send(piece)


@pytest.mark.parametrize("sql, left", [
    ("ROLLBACK; UNLISTEN *", ""), ("ROLLBACK; UNLISTEN a", "b"), ("ROLLBACK; UNLISTEN a; SELECT 1/0", "ab"),
    ("ROLLBACK AND CHAIN; UNLISTEN a; COMMIT", "b"), ("UNLISTEN *", "ab"),
])
def test_query_that_ends_a_failed_block_behind_a_parse(failed, postgres, sql, left):
    client = failed()
    client.send(wire.parse("ROLLBACK", "p") + wire.query(sql))
    result = client.read_result()
    assert result.types[0] == "1"
    assert bool(result.error) == (left == "ab")
    client.query("ROLLBACK")
    for channel in "ab":
        postgres.query(f"NOTIFY {channel}")
    assert heard(client, len(left)) == [(channel, "") for channel in left]
    silent(client)


def test_text_that_was_bound_before_its_block_failed(failed, postgres):
    """It is never executed, although the next Execute of the client succeeds."""
    client = failed()
    client.query("ROLLBACK TO s")
    client.send(wire.parse("UNLISTEN *", "u") + wire.bind(name="u", portal="u") + wire.sync() + wire.query("SELECT 1/0")
                + wire.parse("ROLLBACK AND CHAIN", "p") + wire.bind(name="p") + wire.execute() + wire.sync())
    assert [client.read_result().types for _ in range(3)] == ["12Z", "EZ", "12CZ"]
    client.query("COMMIT")
    postgres.query("NOTIFY a")
    assert heard(client, 1) == [("a", "")]


def test_marks_of_a_failed_block_are_not_looked_for_in_the_next(failed, postgres):
    client = failed()
    client.query("ROLLBACK")
    for sql in ("BEGIN", "DO $$ BEGIN END $$", "SELECT 1/0", "ROLLBACK AND CHAIN; DO $$ BEGIN END $$", "COMMIT"):
        client.query(sql)
    postgres.query("NOTIFY a")
    assert heard(client, 1) == [("a", "")]
