# SPDX-License-Identifier: ISC
"""session_audit and SHOW AUDIT: which session features clients use in session mode, and how many
servers transaction mode would need."""

import pytest

from .kit.wait import wait_until
from .kit.wire import bind, close, describe, execute, message, parse, query, sync


@pytest.fixture
def start(pgweir):
    def start(**settings):
        return pgweir(pool_mode="session", session_audit=1, default_pool_size=5, **settings)
    return start


def audit(weir, **wanted):
    """The rows of applications, by feature."""
    return {row["feature"]: row for row in weir.admin("SHOW AUDIT")
            if row["application_name"] is not None
            and all(row[key] == value for key, value in wanted.items())}


def pool_of(weir, user="alice"):
    (row,) = [row for row in weir.admin("SHOW AUDIT")
              if row["application_name"] is None and row["user"] == user]
    return row


def peaks(row):
    return row["sessions"], row["servers"]


@pytest.mark.parametrize("text, feature, example", [
    ("SET work_mem = '5MB'", "SET, RESET", "SET work_mem = ?"),
    ("RESET ALL", "SET, RESET", "RESET ALL"),
    ("SELECT set_config('app.tenant', 'secret', false)", "SET, RESET",
     "SELECT set_config(?, ?, ?)"),
    ("SELECT 1; LISTEN a", "LISTEN", "SELECT ?; LISTEN a"),
    ("LOAD 'auto_explain'", "LOAD", "LOAD ?"),
    ("PREPARE p AS SELECT 1; EXECUTE p", "prepared statement", None),
    ("SELECT lastval()", "currval(), lastval()", "SELECT lastval()"),
    ("DO $$ BEGIN NULL; END $$", "DO, CALL", "DO ?"),
    ("BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 'x'; COMMIT", "cursor WITH HOLD", None),
    ("CREATE TEMP TABLE t (a int)", "temporary object", None),
    ("SELECT pg_advisory_lock(5)", "session advisory lock", "SELECT pg_advisory_lock(?)"),
    ("SELECT setseed(0.5)", "function that keeps something", None),
])
def test_features(start, text, feature, example):
    weir = start()
    client = weir.client(application_name="shop")
    client.query(text)
    client.query(text)
    client.query("SELECT 1")
    rows = audit(weir)
    assert list(rows) == [feature]
    row = rows[feature]
    assert (row["database"], row["user"], row["application_name"]) == ("app", "alice", "shop")
    assert row["count"] == 2
    assert row["in_transaction_mode"]
    assert row["example"] and "secret" not in row["example"]
    if example:
        assert row["example"].lower() == example.lower()


def test_functions_of_a_setting(start):
    weir = start(pin_functions="my_keep, remember")
    client = weir.client()
    for text in ("SELECT my_keep(1)", "SELECT tools.Remember (2)", "SELECT 'my_keep(1)'",
                 "SELECT forget(1)"):
        client.query(text)
    row = audit(weir)["function that keeps something"]
    assert (row["count"], row["example"]) == (2, "my_keep: SELECT my_keep(?)")


@pytest.mark.parametrize("text", [
    "SELECT 1", "SET LOCAL work_mem = '5MB'", "BEGIN; CREATE TEMP TABLE t () ON COMMIT DROP; COMMIT",
    "SELECT 'SET x = 1; LISTEN a'", "DISCARD ALL", "SELECT set_config('a.b', 'c', true)",
    "UNLISTEN *", "NOTIFY a", "SELECT pg_advisory_xact_lock(1)",
])
def test_no_features(start, text):
    weir = start()
    weir.client(application_name="shop").query(text)
    (row,) = audit(weir).values()
    assert (row["feature"], row["count"], row["example"]) == (None, 0, None)
    assert row["in_transaction_mode"] == "nothing to carry"


def test_prepared_statements_count_when_they_are_bound(start):
    weir = start()
    client = weir.client()
    client.ask(parse("SELECT pg_advisory_lock($1)", "lock"), describe("S", "lock"), sync())
    assert list(audit(weir)) == ["prepared statement"]
    for _ in range(3):
        client.ask(bind((b"1",), "lock"), execute(), sync())
    row = audit(weir)["session advisory lock"]
    assert (row["count"], row["example"]) == (3, "SELECT pg_advisory_lock(?)")
    client.ask(close("S", "lock"), parse("SELECT 1", "lock"), bind((), "lock"), execute(), sync())
    assert audit(weir)["session advisory lock"]["count"] == 3
    assert audit(weir)["prepared statement"]["count"] == 2


def test_the_unnamed_statement(start):
    weir = start()
    client = weir.client()
    client.ask(parse("LISTEN a"), bind(), execute(), bind(), execute(), sync())
    client.ask(parse("SELECT 1"), bind(), execute(), sync())
    assert {name: row["count"] for name, row in audit(weir).items()} == {"LISTEN": 2}


def test_functions_called_by_the_protocol(start, postgres):
    weir = start()
    oid = int(postgres.value("SELECT 'pg_catalog.now()'::regprocedure::oid"))
    client = weir.client()
    client.send(message("F", oid.to_bytes(4, "big") + b"\0\0\0\0\0\1"))
    client.read_until("Z")
    assert audit(weir)["DO, CALL"]["count"] == 1


def test_a_long_text_is_looked_at_as_far_as_it_has_come(start):
    weir = start()
    client = weir.client()
    client.query("LISTEN a; SELECT '" + "x" * 300000 + "'")
    assert audit(weir)["LISTEN"]["count"] == 1
    assert len(audit(weir)["LISTEN"]["example"]) <= 160


HIDDEN = {
    "SET, RESET": "set_config('work_mem', '5MB', false)",
    "session advisory lock": "pg_advisory_lock(77)",
}


@pytest.fixture
def hidden(postgres):
    """A function for each of them, whose name shows nothing."""
    for at, call in enumerate(HIDDEN.values()):
        postgres.query(f"CREATE FUNCTION hidden{at}() RETURNS void LANGUAGE plpgsql AS "
                       f"'BEGIN PERFORM {call.replace(chr(39), chr(39) * 2)}; END'")
    postgres.query("CREATE FUNCTION hidden_table() RETURNS void LANGUAGE plpgsql AS "
                   "'BEGIN CREATE TEMP TABLE of_function (); END'")
    yield
    for name in ("hidden0()", "hidden1()", "hidden_table()"):
        postgres.query(f"DROP FUNCTION {name}")


def found(weir):
    return {name: row["found"] for name, row in audit(weir).items() if name}


def test_what_functions_did_is_found_by_samples(start, hidden):
    weir = start(session_sample=1)
    client, other = weir.client(), weir.client()
    assert other.value("SELECT 1") == "1"
    assert found(weir) == {}
    for at, feature in enumerate(HIDDEN):
        assert not client.query(f"SELECT hidden{at}()").errors
        assert client.value("SELECT 1") == "1"
        assert found(weir)[feature] == 1
    client.query("SELECT hidden_table()")
    client.ask(parse("SELECT 1"), bind(), execute(), sync())
    assert found(weir) == {**dict.fromkeys(HIDDEN, 1), "temporary object": 1}
    assert {row["count"] for row in audit(weir).values()} == {0}
    assert other.value("SELECT 1") == "1"
    assert peaks(pool_of(weir)) == (2, 2)  # the client keeps its server
    assert client.value("SHOW work_mem") == "5MB"


def test_what_texts_show_is_not_found_again(start):
    weir = start(session_sample=1)
    client = weir.client(options="-c work_mem=6MB")
    for text in ("SET work_mem = '5MB'", "CREATE TEMP TABLE t ()", "LISTEN a", "SELECT 1"):
        assert not client.query(text).errors
    assert found(weir) == {"SET, RESET": 0, "temporary object": 0, "LISTEN": 0}
    assert client.value("SHOW work_mem") == "5MB"


def test_the_next_message_waits_for_a_sample(start, hidden):
    weir = start(session_sample=2)
    client = weir.client()
    client.send(query("SELECT hidden1()"), query("BEGIN"), query("COMMIT"),
                query("SELECT 1"), query("SELECT 2"))
    for _ in range(5):
        assert not client.read_result().errors
    for number in ("3", "4"):
        assert client.value(f"SELECT {number}") == number
    assert found(weir) == {"session advisory lock": 1}


def test_without_samples_nothing_is_found(start, hidden):
    weir = start(session_sample=0)
    client = weir.client()
    client.query("SELECT hidden1()")
    assert client.value("SELECT 1") == "1"
    assert found(weir) == {}


def test_the_function_is_named(start, hidden):
    """The catalog says what it does, without any sample."""
    weir = start(session_isolation="known")
    client = weir.client()
    wait_until(lambda: weir.admin("SHOW CATALOG"))
    for at in range(len(HIDDEN)):
        assert not client.query(f"SELECT hidden{at}()").errors
    client.ask(parse("SELECT hidden_table()"), bind(), execute(), sync())
    rows = audit(weir)
    assert {name: (rows[name]["count"], rows[name]["example"]) for name in rows} == {
        "SET, RESET": (1, "hidden0: SELECT hidden0()"),
        "session advisory lock": (1, "hidden1: SELECT hidden1()"),
        "temporary object": (1, "hidden_table: SELECT hidden_table()"),
    }
    assert peaks(pool_of(weir)) == (1, 1)


@pytest.mark.one_loop("the peaks of several loops are added")
def test_how_many_servers_are_enough(start):
    weir = start()
    clients = [weir.client() for _ in range(4)]
    for client in clients:
        client.query("SELECT 1")
    assert peaks(pool_of(weir)) == (4, 1)
    clients[0].query("BEGIN")
    clients[1].query("BEGIN")
    clients[2].query("SELECT 1")
    assert peaks(pool_of(weir)) == (4, 3)
    clients[0].query("COMMIT")
    clients[1].query("SELEC")
    clients[1].query("ROLLBACK")
    clients[2].query("SELECT 1")
    row = pool_of(weir)
    assert peaks(row) == (4, 3)
    assert row["in_transaction_mode"] == "pool_size = 3 would have been enough for 4 sessions"
    assert row["feature"] is None


def test_what_stays_needs_a_server(start):
    weir = start()
    clients = [weir.client() for _ in range(3)]
    clients[0].query("CREATE TEMP TABLE t ()")
    clients[1].query("SELECT pg_advisory_lock(1)")
    clients[2].query("SELECT 1")
    assert peaks(pool_of(weir)) == (3, 3)
    weir.admin("SET session_audit = 0")
    weir.admin("SET session_audit = 1")
    assert peaks(pool_of(weir)) == (3, 2)
    clients[0].query("DISCARD ALL")
    clients[1].close()
    wait_until(lambda: len(weir.admin("SHOW CLIENTS")) == 3)  # one of them asks this
    weir.admin("SET session_audit = 0")
    weir.admin("SET session_audit = 1")
    assert peaks(pool_of(weir)) == (2, 0)


@pytest.mark.one_loop("the peaks of several loops are added")
def test_rows_of_applications(start):
    weir = start()
    first = weir.client(application_name="a")
    second = weir.client(application_name="b")
    other = weir.client("bob", application_name="a")
    for client in (first, second, second, other):
        client.query("LISTEN x")
    counts = [(row["user"], row["application_name"], row["sessions"], row["count"])
              for row in weir.admin("SHOW AUDIT") if row["feature"]]
    assert counts == [("alice", "a", 1, 1), ("alice", "b", 1, 2), ("bob", "a", 1, 1)]
    assert peaks(pool_of(weir)) == (2, 1)
    assert peaks(pool_of(weir, "bob")) == (1, 1)


def test_off(start):
    weir = start()
    weir.admin("SET session_audit = 0")
    client = weir.client()
    client.query("LISTEN a")
    assert weir.admin("SHOW AUDIT") == []
    weir.admin("SET session_audit = 1")
    client.query("LISTEN a")
    assert audit(weir)["LISTEN"]["count"] == 1
    weir.admin("SET session_audit = 0")
    client.query("LISTEN a")
    assert audit(weir)["LISTEN"]["count"] == 1
    weir.admin("SET session_audit = 1")
    assert list(audit(weir)) == [None]


def test_other_modes_are_not_audited(start):
    weir = start(databases={"app": "pool_mode=transaction", "app2": ""})
    weir.client().query("SET work_mem = '5MB'")
    assert weir.admin("SHOW AUDIT") == []
    weir.client(database="app2").query("SET work_mem = '5MB'")
    assert audit(weir)["SET, RESET"]["database"] == "app2"


@pytest.mark.one_loop("each loop has rows of its own")
def test_the_number_of_rows_is_bounded(start):
    weir = start()
    names = [f"application {number}" for number in range(1010)]
    stays = weir.client(application_name="stays")
    stays.query("LISTEN a")
    for name in names:
        with weir.client(application_name=name) as client:
            client.query("SELECT 1")
    rows = weir.admin("SHOW AUDIT")
    assert len(rows) == 1000
    shown = {row["application_name"] for row in rows}
    assert {"stays", names[-1]} <= shown and names[0] not in shown
    assert audit(weir)["LISTEN"]["count"] == 1


def test_a_client_that_is_killed_within_a_transaction(start):
    weir = start()
    client = weir.client()
    client.query("BEGIN")
    client.reset()
    wait_until(lambda: len(weir.admin("SHOW CLIENTS")) == 1)
    weir.admin("SET session_audit = 0")
    weir.admin("SET session_audit = 1")
    weir.client().query("SELECT 1")
    assert peaks(pool_of(weir)) == (1, 1)
