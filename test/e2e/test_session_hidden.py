# SPDX-License-Identifier: ISC
"""Session state that no text shows, because a function makes it; pin_functions."""

import pytest

from .kit import wire

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


def run_simple(client, text):
    return client.query(text)


def run_unnamed(client, text):
    return client.ask(wire.extended(text))


def run_named(client, text):
    client.ask(wire.parse(text, "s"), wire.sync())
    result = client.ask(wire.bind(name="s"), wire.execute(), wire.sync())
    client.ask(wire.close("S", "s"), wire.sync())
    return result


RUNS = pytest.mark.parametrize("run", [run_simple, run_unnamed, run_named])


@RUNS
def test_found_in_each_transaction(start, run):
    weir = start(session_sample=1)
    first, second = weir.client(), weir.client()
    default = second.value("SHOW work_mem")
    run(first, "SELECT set_work_mem()")
    assert second.value("SHOW work_mem") == default
    assert first.value("SHOW work_mem") == "77MB"


@RUNS
def test_sample_teaches(start, run):
    """The third transaction is sampled. What it finds is known from then on."""
    weir = start(session_sample=3)
    first, second = weir.client(), weir.client()
    default = first.value("SHOW work_mem")
    first.query("SELECT 1")
    for _ in range(4):  # of three transactions one is a sample
        run(first, "SELECT set_work_mem() -- two")
    weir.wait_log("left session state that its text does not show")
    third = weir.client()
    for _ in range(5):
        run(third, "select SET_WORK_MEM ( )")
        assert third.value("SHOW work_mem") == "77MB"
        assert second.value("SHOW work_mem") == default
        third.query("RESET work_mem")
    assert weir.log.count("SELECT set_work_mem()") == 1


def test_log_has_no_constants(start):
    weir = start(session_sample=1)
    weir.client().query("SELECT set_work_mem(), 'secret', 4711")
    weir.wait_log(r"SELECT set_work_mem\(\), \?, \?")
    assert "secret" not in weir.log and "4711" not in weir.log


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


def test_several_statements_are_suspected(start):
    weir = start(session_sample=1)
    client = weir.client()
    client.query("BEGIN")
    client.query("SELECT 1")
    client.query("SELECT set_work_mem()")
    client.query("COMMIT")
    weir.wait_log(r"several statements has left .*SELECT \?$")
    weir.wait_log(r"several statements has left .*SELECT set_work_mem\(\)$")
    assert "BEGIN" not in weir.log


def test_call_and_do_teach_nothing(start):
    weir = start(session_sample=1)
    first, second = weir.client(), weir.client()
    default = second.value("SHOW work_mem")
    first.query("DO $$ BEGIN PERFORM set_work_mem(); END $$")
    assert second.value("SHOW work_mem") == default
    assert first.value("SHOW work_mem") == "77MB"
    assert "does not show" not in weir.log


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
