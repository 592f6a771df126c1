# SPDX-License-Identifier: ISC
"""A server that is not known to be clean is cleaned ahead of another client's first message."""

import pytest

from .kit import fake, wire

CLEANING = "DISCARD TEMP"

# What a function can leave in a session, and how another client would meet it: SQL, clean answer.
LEFT = {
    "a parameter": ("PERFORM set_config('work_mem', '77MB', false)", "SHOW work_mem", "4MB"),
    "a custom parameter": ("PERFORM set_config('app.' || 'tenant', 'left', false)",
                           "SELECT coalesce(current_setting('app.tenant', true), '')", ""),
    "a search path": ("PERFORM set_config('search_path', 'pg_catalog', false)",
                      "SELECT current_setting('search_path')", '"$user", public'),
    "a role": ("EXECUTE 'SET ROLE pg_monitor'", "SELECT current_user", "alice"),
    "a temporary table": ("CREATE TEMP TABLE IF NOT EXISTS left_there (a int)",
                          "SELECT count(*) FROM pg_class WHERE relname = 'left_there'", "0"),
    "a lock": ("PERFORM pg_advisory_lock(815)",
               "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", "0"),
    "a channel": ("LISTEN left_there", "SELECT count(*) FROM pg_listening_channels()", "0"),
    "a short time": ("PERFORM set_config('statement_timeout', '3min', false)",
                     "SHOW statement_timeout", "0"),
}


@pytest.fixture
def start(pgweir, postgres):
    """Two clients of one server, where nobody looks for state that functions leave."""
    def start(**settings):
        weir = pgweir(pool_mode="transaction", default_pool_size=1, session_sample=0, **settings)
        return weir.client(), weir.client()
    postgres.query("GRANT pg_monitor TO alice")
    return start


def make(postgres, body):
    postgres.query("CREATE OR REPLACE FUNCTION leave() RETURNS int LANGUAGE plpgsql AS "
                   f"$$ BEGIN {body}; RETURN 1; END $$")


@pytest.mark.parametrize("what", LEFT)
def test_strict_leaves_nothing(start, postgres, what):
    body, look, clean = LEFT[what]
    make(postgres, body)
    first, second = start(session_isolation="strict")
    for run in (lambda: first.query("SELECT leave()"),
                lambda: first.ask(wire.extended("SELECT leave()"))):
        run()
        assert second.value(look) == clean
        run()
        assert second.ask(wire.extended(look)).rows == [[clean]]


def test_a_held_cursor_is_closed(start, postgres):
    make(postgres, "EXECUTE 'DECLARE kept CURSOR WITH HOLD FOR SELECT 1'")
    first, second = start(session_isolation="strict")
    first.query("SELECT leave()")
    assert second.value("SELECT count(*) FROM pg_cursors") == "0"


def test_values_of_sequences_are_forgotten(start, postgres):
    postgres.query("CREATE SEQUENCE IF NOT EXISTS counted")
    make(postgres, "PERFORM nextval('counted')")
    first, second = start(session_isolation="strict", session_state="off")
    first.query("SELECT leave()")
    assert second.query("SELECT lastval()").error["C"] == "55000"


def test_the_client_keeps_what_is_its_own(start, postgres):
    """Its carried parameters are set again behind the cleaning."""
    make(postgres, "PERFORM set_config('work_mem', '77MB', false)")
    first, second = start(session_isolation="strict")
    first.query("SET app.tenant = 'one'")
    second.query("SET app.tenant = 'two'")
    second.query("SET work_mem = '5MB'")
    for _ in range(3):
        first.query("SELECT leave()")
        assert second.value("SELECT current_setting('app.tenant') || current_setting('work_mem')") == "two5MB"
        assert first.value("SELECT current_setting('app.tenant')") == "one"


def test_nothing_is_sent_between_transactions_of_one_client(scripted):
    weir, client, server = scripted(default_pool_size=1, session_isolation="strict",
                                    session_state="off")
    for text in ("SELECT 1", "SELECT 2"):
        client.send(wire.query(text))
        assert server.expect("Q").body == wire.cstr(text)
        server.send(fake.answer("1"))
        client.read_result()
    other = weir.wire().startup()
    other.finish_login("alice")
    other.send(wire.query("SELECT 3"))
    assert CLEANING in server.expect("Q").body.decode()
    assert server.expect("Q").body == wire.cstr("SELECT 3")  # before the cleaning is answered


def test_a_cleaning_that_fails_answers_nothing(scripted):
    """What was sent behind it has met a failed transaction block, and the server is closed."""
    weir, client, server = scripted(default_pool_size=1, session_isolation="strict",
                                    session_state="off")
    client.send(wire.query("SELECT 1"))
    server.expect("Q")
    server.send(fake.answer("1"))
    client.read_result()
    other = weir.wire().startup()
    other.finish_login("alice")
    other.send(wire.query("SELECT secret"))
    assert server.expect("Q").body.decode().startswith("BEGIN ")
    server.expect("Q")
    server.send(fake.error("canceling statement", "57014"), fake.ready("E"),
                fake.answer("the secret of somebody else", status="E"))
    result = other.read_to_end()
    assert "cleaned" in str(result) and "secret of" not in str(result)


@pytest.mark.parametrize("where", ["setting", "database", "user"])
def test_can_be_set_for_a_database_and_a_user(pgweir, postgres, where):
    make(postgres, "PERFORM set_config('work_mem', '77MB', false)")
    entry = f"host={postgres.host} port={postgres.port}"
    sections = {"setting": {"session_isolation": "strict"},
                "database": {"databases": {"app": f"{entry} session_isolation=strict"}},
                "user": {"users": {"alice": "session_isolation=strict"}}}
    weir = pgweir(pool_mode="transaction", default_pool_size=1, session_sample=0,
                  **sections[where])
    first, second = weir.client(), weir.client()
    first.query("SELECT leave()")
    assert second.value("SHOW work_mem") == "4MB"
