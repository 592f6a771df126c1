# SPDX-License-Identifier: ISC
"""Session state that no text shows, because a function makes it, where the catalog is not read;
pin_functions, session_sample."""

import pytest

from .kit import wire
from .kit.wait import wait_until

PID = "SELECT pg_backend_pid()"
MAKERS = {
    "set_work_mem": "PERFORM set_config('work_mem', '77MB', false)",
    "make_table": "CREATE TEMP TABLE hidden_one (a int)",
    "take_lock": "PERFORM pg_advisory_lock(4711)",
}


@pytest.fixture
def start(pgweir, postgres):
    """Transaction mode; all clients share a few servers. Functions that make session state."""
    for name, body in MAKERS.items():
        postgres.query(f"CREATE OR REPLACE FUNCTION {name}() RETURNS int LANGUAGE plpgsql AS "
                       f"$$ BEGIN {body}; RETURN 1; END $$")

    def start(servers=1, **settings):
        return pgweir(pool_mode="transaction", default_pool_size=servers, **settings)
    return start


RUNS = pytest.mark.parametrize("run", [wire.run_simple, wire.run_unnamed, wire.run_named])


@RUNS
def test_found_in_each_transaction(start, run):
    weir = start(session_sample=1)
    first, second = weir.client(), weir.client()
    default = second.value("SHOW work_mem")
    run(first, "SELECT set_work_mem()")
    assert second.value("SHOW work_mem") == default
    assert first.value("SHOW work_mem") == "77MB"


@pytest.mark.parametrize("maker", ["make_table", "take_lock"])
def test_server_stays(start, maker):
    weir = start(servers=2, session_sample=1)
    first, second = weir.client(), weir.client()
    first.query(f"SELECT {maker}()")
    pid = first.value(PID)
    assert pid not in {second.value(PID) for _ in range(5)}
    first.close()
    weir.wait_pool(cl_active=1, sv_active=0, sv_tested=0)
    third = weir.client()
    assert third.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == "0"
    assert third.value("SELECT to_regclass('pg_temp.hidden_one') IS NULL") == "t"


def test_no_sample(start):
    weir = start(session_sample=0)
    first, second = weir.client(), weir.client()
    first.query("SELECT set_work_mem()")
    assert second.value("SHOW work_mem") == "77MB"


def test_what_a_block_does_follows(start):
    weir = start()
    first, second = weir.client(), weir.client()
    default = second.value("SHOW work_mem")
    first.query("DO $$ BEGIN PERFORM set_work_mem(); END $$")
    assert second.value("SHOW work_mem") == default
    assert first.value("SHOW work_mem") == "77MB"


@RUNS
def test_pin_functions(start, run):
    weir = start(servers=2, pin_functions="one_of_ours, set_work_mem")
    first, second = weir.client(), weir.client()
    run(first, "SELECT public.set_work_mem()")
    pid = first.value(PID)
    assert pid not in {second.value(PID) for _ in range(5)}
    first.close()
    third = weir.client()
    assert pid not in {second.value(PID), third.value(PID)}  # nobody else gets that server


@RUNS
def test_placeholder_that_a_function_sets(start, postgres, run):
    """Its name is in the text, in a string: a sample asks for it."""
    postgres.query("CREATE OR REPLACE FUNCTION run_it(text) RETURNS int LANGUAGE plpgsql AS "
                   "$$ BEGIN EXECUTE $1; RETURN 1; END $$")
    weir = start(session_sample=1)
    first, second = weir.client(), weir.client()
    run(first, "SELECT run_it('SET app.hidden = 7')")
    for _ in range(2):
        assert second.value("SELECT current_setting('app.hidden', true)") in (None, "")
        assert first.value("SELECT current_setting('app.hidden', true)") == "7"


@pytest.mark.parametrize("sql", (
    "DO $do$ BEGIN PERFORM setseed(0.5); END $do$",
    "DO $do$ BEGIN EXECUTE $in$SELECT setseed(0.5)$in$; END $do$",
))
def test_function_of_an_extension_within_a_string(pgweir, sql):
    """The server cannot be asked for what it keeps: so it stays."""
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    first, second = weir.client(), weir.client()
    first.query(sql)
    pid = first.value(PID)
    assert [row["why"] for row in weir.admin("SHOW PINNED")] == ["function of an extension"]
    assert second.value(PID) != pid
    assert first.value(PID) == pid


def test_library_within_a_string(pgweir, postgres):
    postgres.query("ALTER ROLE alice SUPERUSER")
    try:
        weir = pgweir(pool_mode="transaction", default_pool_size=2)
        first, second = weir.client(), weir.client()
        first.query("DO $do$ BEGIN LOAD 'auto_explain'; END $do$")
        assert first.value("SHOW auto_explain.log_min_duration") == "-1"
        assert [row["why"] for row in weir.admin("SHOW PINNED")] == ["library"]
        first.close()
        for _ in range(3):
            assert "auto_explain" in second.query("SHOW auto_explain.log_min_duration").error["M"]
    finally:
        postgres.query("ALTER ROLE alice NOSUPERUSER")


# ---- custom parameters that a function sets ------------------------------------------------------

def custom(name):
    return f"SELECT coalesce(current_setting('{name}', true), '')"


@pytest.fixture
def disguised(postgres):
    """A function that executes a text in hexadecimal digits: nobody can see names in it."""
    postgres.query("CREATE OR REPLACE FUNCTION disguised(text) RETURNS int LANGUAGE plpgsql AS "
                   "$$ BEGIN EXECUTE convert_from(decode($1, 'hex'), 'UTF8'); RETURN 1; END $$")
    return lambda text: f"disguised('{text.encode().hex()}')"


@pytest.mark.parametrize("way", ["sample", "DO"])
def test_a_name_that_nobody_knows_is_not_left_behind(start, disguised, way):
    call = disguised("SET hid.secret = 'x'")
    query = "SET hid.own = ''mine''; SET TimeZone = ''Asia/Tokyo''"
    weir = start(session_sample=1 if way == "sample" else 0,
                 databases={"app": f"user=postgres connect_query='{query}'"})
    first, second = weir.client(), weir.client(work_mem="99kB")
    first.query("SET work_mem = '77kB'; SET hid.known = 'k'; SET ROLE alice")
    first.query(f"DO $$BEGIN PERFORM {call}; END$$" if way == "DO" else f"SELECT {call}")
    for _ in range(2):
        assert second.value(custom("hid.secret")) == ""
        assert second.value(custom("hid.own")) == "mine"
        assert second.value("SHOW work_mem") == "99kB"
        assert first.value(custom("hid.secret")) == ""
        for name, value in (("work_mem", "77kB"), ("hid.known", "k"), ("hid.own", "mine"),
                            ("role", "alice"), ("TimeZone", "Asia/Tokyo")):
            assert first.value(f"SHOW {name}") == value, name


def test_each_transaction_of_a_pinned_client_is_a_sample(start, disguised):
    """The stay ends with a transaction that concerns the temporary table only."""
    weir = start(servers=2, session_sample=1)
    first = weir.client()
    first.query("CREATE TEMP TABLE stays (a int)")
    first.query(f"SELECT {disguised('SET hid.pinned = 1')}")
    assert first.value("SHOW hid.pinned") == "1"
    first.query("SELECT set_work_mem()")
    first.query("DROP TABLE stays")
    others = [weir.client() for _ in range(2)]
    for client in others:
        client.query("BEGIN")
        assert client.value(custom("hid.pinned")) == ""
        assert client.value("SHOW work_mem") != "77MB"


def test_what_samples_have_shown_is_not_refused_by_session_state(start):
    weir = start(session_sample=1, session_state="refuse")
    client = weir.client()
    for _ in range(3):
        assert not client.query("SELECT set_work_mem()").error
        assert client.value("SHOW work_mem") == "77MB"
    assert client.query("SET work_mem = '1MB'").error["C"] == "0A000"
