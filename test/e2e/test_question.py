# SPDX-License-Identifier: ISC
"""The query that asks a server for its session state, run in PostgreSQL in many states of a session.
Its text is taken from pgweir by a scripted server."""

import os
from types import SimpleNamespace

import pytest

from .kit import fake
from .kit.wait import wait_until
from .kit.wire import query

LEVEL = ("SELECT current_user, session_user, current_setting('role'),"
         " current_setting('statement_timeout'), current_setting('transaction_isolation'),"
         " current_setting('transaction_read_only'), current_setting('transaction_deferrable')")


@pytest.fixture
def major(postgres):
    return postgres.value("SHOW server_version").split(".")[0]


@pytest.fixture
def asked(pgweir, fake_server, major):
    """pgweir, a client, and a scripted server that is about to get the question."""
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode="transaction")
    client = weir.wire().startup()
    server = far.accept().login(server_version=f"{major}.0")
    client.finish_login("alice")
    client.send(query("DO 'SET app.one = 1; SET app.two = 2'"))
    server.expect("Q")
    server.send(fake.complete("DO"), fake.ready())
    return weir, client, server


@pytest.fixture
def question(asked):
    """The text that asks for everything, with two placeholders."""
    _, _, server = asked
    return server.expect("Q").body[:-1]


def unhex(value):
    return None if value is None else bytes.fromhex(value.decode()).decode()


@pytest.fixture
def ask(question):
    """What the session of a psycopg connection has: parameters, channels, counts and names."""
    def ask(connection):
        told = SimpleNamespace(params={}, channels=[], names=set(), held=[],
                               counts=dict.fromkeys("utls", 0))
        connection.pgconn.send_query(question)
        while result := connection.pgconn.get_result():
            assert not result.error_message, result.error_message
            for row in range(result.ntuples):
                kind, *rest = [result.get_value(row, at) for at in range(result.nfields)]
                take(told, kind.decode(), [unhex(value) for value in rest])
        return told

    return ask


def take(told, kind, values):
    if kind == "r":
        told.timeout, told.normal_timeout, zero = values[:3]
        told.role, told.user, told.normal_user, told.normal_role, none = values[3:]
        assert (zero, none) == ("0", "none")
    elif kind == "p":
        told.params[values[0]] = values[1]
    elif kind == "c":
        told.channels.append(values[0])
    elif kind == "n":
        told.names.add(values[0])
    elif kind == "m":
        told.held.append("s " + values[0])
    else:
        told.counts[kind] = int(values[1])
        if kind != "s":
            told.held.append(kind + " " + values[0])


def session(postgres, *statements, user="alice", **kw):
    connection = postgres.connect(user=user, prepare_threshold=None, **kw)
    for statement in statements:
        connection.execute(statement)
    return connection


# What the question sets for itself, for its own transaction.
OWN = {"statement_timeout", "transaction_isolation", "transaction_read_only",
       "transaction_deferrable"}


def others(told):
    return {name: value for name, value in told.params.items() if name not in OWN}


def test_nothing_is_set(postgres, ask):
    told = ask(session(postgres))
    assert others(told) == {}
    assert told.channels == []
    assert told.counts == {"u": 0, "t": 0, "l": 0, "s": 0}
    assert (told.role, told.normal_role) == ("none", "none")
    assert told.user == told.normal_user == "alice"
    assert told.timeout == told.normal_timeout


STATES = {
    "an odd search_path": ("SET search_path = nowhere, \"$user\", \"O'Neil\"",
                           {"search_path": "nowhere, \"$user\", \"O'Neil\""}),
    "serializable and deferrable": (
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY,"
        " DEFERRABLE",
        {"default_transaction_isolation": "serializable", "default_transaction_read_only": "on",
         "default_transaction_deferrable": "on"}),
    "read only": ("SET default_transaction_read_only = on",
                  {"default_transaction_read_only": "on"}),
    "backslashes in strings": ("SET standard_conforming_strings = off",
                               {"standard_conforming_strings": "off"}),
    "odd comparisons": ("SET transform_null_equals = on", {"transform_null_equals": "on"}),
    "an encoding": ("SET client_encoding = 'LATIN2'", {"client_encoding": "LATIN2"}),
    "an encoding in which a backslash is part of a character": (
        "SET client_encoding = 'SJIS'", {"client_encoding": "SJIS"}),
    "a unit": ("SET work_mem = '3MB'", {"work_mem": "3072"}),
    "a placeholder": ("SET app.one = 'x y'", {"app.one": "x y"}),
    "an empty placeholder": ("SET app.two = ''", {"app.two": ""}),
    "a placeholder that is not asked for": ("SET app.three = 'x'", {}),
    "messages": ("SET client_min_messages = 'debug5'", {"client_min_messages": "debug5"}),
    "parallel workers": (
        "SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0",
        {"parallel_setup_cost": "0", "min_parallel_table_scan_size": "0"}),
    "hexadecimal output": ("SET bytea_output = 'escape'", {"bytea_output": "escape"}),
    "a local value": ("BEGIN; SET LOCAL work_mem = '3MB'; COMMIT", {}),
    "a value set back": ("SET work_mem = '3MB'; SET work_mem TO DEFAULT", {}),
    "a value rolled back": ("BEGIN; SET work_mem = '3MB'; ROLLBACK", {}),
}


@pytest.mark.parametrize("says", STATES)
def test_a_session_with(postgres, ask, says):
    statement, params = STATES[says]
    connection = session(postgres, statement)
    assert others(ask(connection)) == params
    assert others(ask(connection)) == params
    connection.execute("SET client_encoding = 'UTF8'")
    isolation = "serializable" if says.startswith("serializable") else "read committed"
    assert connection.execute(LEVEL).fetchone()[4] == isolation


def test_values_of_any_encoding(postgres, ask):
    """LATIN2 has no such letters: the value would be an error if it were converted."""
    connection = session(postgres, "SET app.one = 'жук'", "SET client_encoding = 'LATIN2'")
    assert ask(connection).params["app.one"] == "жук"


def test_statement_timeout(postgres, ask):
    connection = session(postgres, "SET statement_timeout = '17min'")
    told = ask(connection)
    assert (told.timeout, told.normal_timeout) == ("17min", "0")
    assert connection.execute("SHOW statement_timeout").fetchone() == ("17min",)


@pytest.fixture
def roles(postgres):
    names = ("asked_low", "asked_group", "asked_default", "asked_super")
    postgres.query("CREATE ROLE asked_low LOGIN")
    postgres.query("CREATE ROLE asked_group")
    postgres.query("CREATE ROLE asked_default LOGIN")
    postgres.query("CREATE ROLE asked_super LOGIN SUPERUSER")
    postgres.query("GRANT asked_group TO asked_low, asked_default")
    postgres.query("ALTER ROLE asked_default SET role = asked_group")
    yield
    for name in names:
        postgres.query(f"DROP ROLE {name}")


def test_a_role_of_no_rights(postgres, ask, roles):
    with session(postgres, "SET work_mem = '3MB'", "SET ROLE asked_group",
                 user="asked_low") as connection:
        told = ask(connection)
        assert (told.role, told.normal_role, told.user) == ("asked_group", "none", "asked_low")
        assert others(told) == {"work_mem": "3072"}
        assert connection.execute(LEVEL).fetchone()[:3] \
            == ("asked_group", "asked_low", "asked_group")


def test_what_the_role_must_not_see_is_found(postgres, ask, roles):
    """dynamic_library_path is a superuser's secret."""
    with session(postgres, "SET dynamic_library_path = 'x'",
                 "SET SESSION AUTHORIZATION asked_low", "SET ROLE asked_group",
                 user="asked_super") as connection:
        told = ask(connection)
        assert others(told) == {"dynamic_library_path": "x"}
        assert (told.role, told.user, told.normal_user) \
            == ("asked_group", "asked_low", "asked_super")
        assert connection.execute(LEVEL).fetchone()[:3] \
            == ("asked_group", "asked_low", "asked_group")
        connection.execute("RESET SESSION AUTHORIZATION")
        assert connection.execute(LEVEL).fetchone()[1] == "asked_super"


def test_a_default_role(postgres, ask, roles):
    with session(postgres, user="asked_default") as connection:
        told = ask(connection)
        assert (told.role, told.normal_role) == ("asked_group", "asked_group")
        assert connection.execute(LEVEL).fetchone()[0] == "asked_group"
        connection.execute("SET ROLE NONE")
        told = ask(connection)
        assert (told.role, told.normal_role) == ("none", "asked_group")
        assert connection.execute(LEVEL).fetchone()[0] == "asked_default"
        connection.execute("RESET ROLE")
        assert connection.execute(LEVEL).fetchone()[0] == "asked_group"


def test_a_role_that_is_gone(postgres, ask):
    postgres.query("CREATE ROLE asked_gone")
    postgres.query("GRANT asked_gone TO alice")
    connection = session(postgres, "SET ROLE asked_gone")
    postgres.query("DROP ROLE asked_gone")
    assert ask(connection).role == "asked_gone"


def test_channels(postgres, ask):
    connection = session(postgres, "LISTEN jobs", 'LISTEN "O\'Neil ж"')
    assert sorted(ask(connection).channels) == ["O'Neil ж", "jobs"]


def test_cursors(postgres, ask):
    connection = session(postgres, "DECLARE c CURSOR WITH HOLD FOR SELECT 1")
    assert ask(connection).counts == {"u": 1, "t": 0, "l": 0, "s": 0}
    connection.execute("CLOSE ALL")
    assert ask(connection).counts["u"] == 0


TEMPORARY = {
    "a table": ("CREATE TEMP TABLE x (a int)", "DROP TABLE x"),
    "a view": ("CREATE TEMP VIEW x AS SELECT 1", "DROP VIEW x"),
    "a sequence": ("CREATE TEMP SEQUENCE x", "DROP SEQUENCE x"),
    "a table made by SELECT": ("SELECT 1 AS a INTO TEMP x", "DROP TABLE x"),
    "a function": ("CREATE FUNCTION pg_temp.x() RETURNS int LANGUAGE sql AS 'SELECT 1'",
                   "DROP FUNCTION pg_temp.x"),
    "a type": ("CREATE TYPE pg_temp.x AS ENUM ('a')", "DROP TYPE pg_temp.x"),
    "a domain": ("CREATE DOMAIN pg_temp.x AS int", "DROP DOMAIN pg_temp.x"),
    "an operator": ("CREATE OPERATOR pg_temp.=== (FUNCTION = int4eq, LEFTARG = int4,"
                    " RIGHTARG = int4)", "DROP OPERATOR pg_temp.=== (int4, int4)"),
    "a collation": ("CREATE COLLATION pg_temp.x FROM \"C\"", "DROP COLLATION pg_temp.x"),
    "a text search configuration": ("CREATE TEXT SEARCH CONFIGURATION pg_temp.x (COPY = simple)",
                                    "DROP TEXT SEARCH CONFIGURATION pg_temp.x"),
}


@pytest.mark.parametrize("says", TEMPORARY)
def test_temporary_objects(postgres, ask, says):
    make, drop = TEMPORARY[says]
    connection = session(postgres, make, user="postgres")
    assert ask(connection).counts == {"u": 0, "t": ask(connection).counts["t"], "l": 0, "s": 0}
    told = ask(connection)
    assert told.counts["t"] == len(told.held) > 0 and "x" in told.held[0] or "===" in told.held[0]
    connection.execute(drop)
    assert ask(connection).counts["t"] == 0


def test_temporary_objects_of_others(postgres, ask):
    first = session(postgres, "CREATE TEMP TABLE x (a int)")
    second = session(postgres, "CREATE TEMP TABLE y (a int)", "DROP TABLE y")
    assert ask(first).counts["t"] == 1
    assert ask(second).counts["t"] == 0


def test_locks(postgres, ask):
    first = session(postgres, "SELECT pg_advisory_lock(1), pg_advisory_lock_shared(2, 3)")
    second = session(postgres, "BEGIN; SELECT pg_advisory_xact_lock(9); COMMIT")
    told = ask(first)
    assert (told.counts["l"], sorted(told.held)) == (2, ["l (2,3)", "l 1"])
    assert ask(second).counts["l"] == 0
    first.execute("SELECT pg_advisory_unlock_all()")
    assert ask(first).counts["l"] == 0


def test_a_value_too_long(postgres, ask):
    connection = session(postgres, "SELECT set_config('app.one', repeat('x', 65537), false)")
    told = ask(connection)
    assert told.params["app.one"] is None
    connection.execute("SELECT set_config('app.one', repeat('x', 65536), false)")
    assert ask(connection).params["app.one"] == "x" * 65536


def test_a_standby(private_postgres, account, ask):
    standby = private_postgres()
    standby.stop()
    path = os.path.join(standby.dir, "standby.signal")
    assert account.run(["touch", path]).returncode == 0
    standby.start()
    assert standby.value("SELECT pg_is_in_recovery()")
    connection = session(standby, "SET default_transaction_isolation = 'serializable'",
                         "SET app.one = 'x'")
    told = ask(connection)
    assert others(told) == {"default_transaction_isolation": "serializable", "app.one": "x"}
    assert told.counts == {"u": 0, "t": 0, "l": 0, "s": 0}


def test_others_operators_and_functions_are_not_used(postgres, ask):
    """A client may have its own operators, and put them in front of PostgreSQL's."""
    postgres.query("CREATE SCHEMA trap")
    try:
        postgres.query("CREATE FUNCTION trap.no(text, text) RETURNS bool LANGUAGE plpgsql AS"
                       " $$BEGIN RAISE 'trapped'; END$$")
        postgres.query("CREATE OPERATOR trap.= (FUNCTION = trap.no, LEFTARG = text,"
                       " RIGHTARG = text)")
        postgres.query("CREATE FUNCTION trap.encode(bytea, text) RETURNS text LANGUAGE plpgsql AS"
                       " $$BEGIN RAISE 'trapped'; END$$")
        postgres.query("CREATE VIEW trap.pg_depend AS SELECT 1 / 0 AS a")
        connection = session(postgres, "SET search_path = trap, pg_catalog", user="postgres")
        assert others(ask(connection)) == {"search_path": "trap, pg_catalog"}
        connection.close()
    finally:
        postgres.query("DROP SCHEMA trap CASCADE")


# ---- a question that fails -----------------------------------------------------------------------


def refuse(server, sqlstate):
    body = server.expect("Q").body
    server.send(fake.error("no", sqlstate), fake.ready())
    return body


def test_a_canceled_question_is_asked_again(asked):
    weir, _, server = asked
    first = refuse(server, "57014")
    assert b"app.two" in first
    for _ in range(3):
        assert refuse(server, "57014") == first
    assert server.expect("Q").body == first
    server.send(fake.complete("SELECT 0"), fake.ready())
    weir.wait_pool(sv_idle=1)
    assert weir.admin("SHOW PINNED") == []


@pytest.mark.parametrize("goodbye", [True, False])
def test_its_client_leaves_before_the_answer(asked, goodbye):
    """The server stays: programs that connect for each transaction leave just then."""
    weir, client, server = asked
    server.expect("Q")
    if goodbye:
        client.send(b"X\0\0\0\4")
    client.close()
    weir.admin("SHOW VERSION")
    server.send(fake.complete("SELECT 0"), fake.ready())
    wait_until(lambda: not weir.admin("SHOW CLIENTS")[1:], what="no client but the console")
    other = weir.client()
    other.send(query("SELECT 1"))
    while (text := server.read_until("Q")[-1].body) != b"SELECT 1\0":
        assert b";RESET ALL;" in text  # the cleaning
        server.send(fake.complete("DISCARD SEQUENCES"), fake.ready())


def test_a_question_that_is_always_canceled(asked):
    server = asked[-1]
    for _ in range(5):
        refuse(server, "57014")
    server.expect("X")


def test_a_question_without_rights(asked):
    """One of the placeholders cannot be read."""
    weir, _, server = asked
    assert b"app.two" in refuse(server, "42501")
    second = server.expect("Q").body
    assert b"app.two" not in second and b"pg_show_all_settings" in second
    server.send(fake.complete("SELECT 0"), fake.ready())
    wait_until(lambda: weir.admin("SHOW PINNED"), what="a pinned client")
    (pinned,) = weir.admin("SHOW PINNED")
    assert pinned["why"] == "parameters"


def test_a_question_that_fails_for_another_reason(asked):
    server = asked[-1]
    for _ in range(2):
        refuse(server, "XX000")
    server.expect("X")
