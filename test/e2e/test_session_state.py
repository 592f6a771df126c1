# SPDX-License-Identifier: ISC
"""What a client keeps in its session, in transaction mode: it follows the client, or the server
stays with the client. No other client ever meets it."""

import pytest

from .kit import fake
from .kit.wait import wait_until
from .kit.wire import bind, execute, parse, query, send_cancel, sync

PID = "SELECT pg_backend_pid()"


@pytest.fixture
def start(pgweir):
    """Transaction mode; all clients share a few servers."""
    def start(servers=1, **settings):
        return pgweir(pool_mode="transaction", default_pool_size=servers, **settings)
    return start


def test_set_follows_its_client(start):
    weir = start()
    first, second = weir.client(), weir.client()
    default = second.value("SHOW work_mem")
    first.query("SET work_mem = '77MB'")
    for _ in range(3):
        assert second.value("SHOW work_mem") == default
        assert first.value("SHOW work_mem") == "77MB"


def test_set_that_is_rolled_back_is_not_kept(start):
    weir = start()
    first, second = weir.client(), weir.client()
    default = second.value("SHOW work_mem")
    first.query("BEGIN")
    first.query("SET work_mem = '77MB'")
    first.query("ROLLBACK")
    assert second.value("SHOW work_mem") == default
    assert first.value("SHOW work_mem") == default


def test_temporary_table_keeps_the_server(start):
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    first.query("CREATE TEMP TABLE mine (a int)")
    pid = first.value(PID)
    assert pid not in {second.value(PID) for _ in range(5)}
    first.query("INSERT INTO mine VALUES (1)")
    assert first.value("SELECT count(*) FROM mine") == "1"
    first.query("DROP TABLE mine")
    busy = weir.client()
    busy.query("BEGIN; SELECT 1")
    other = [client.value(PID) for client in (first, second)]
    assert other[0] == other[1]


def test_client_with_a_temporary_table_leaves(start):
    weir = start()
    first = weir.client()
    first.query("CREATE TEMP TABLE mine (a int)")
    pid = first.value(PID)
    first.close()
    second = weir.client()
    assert second.value(PID) == pid
    assert second.value("SELECT to_regclass('pg_temp.mine') IS NULL") == "t"


def test_lock_keeps_the_server_until_it_is_released(start):
    weir = start(servers=2, max_pinned_servers=2)
    first, second = weir.client(), weir.client()
    first.query("SELECT pg_advisory_lock(1)")
    assert second.value("SELECT pg_try_advisory_lock(1)") == "f"
    first.query("SELECT pg_advisory_unlock(1)")
    assert second.value("SELECT pg_try_advisory_lock(1)") == "t"


CREATE = "CREATE TEMP TABLE mine (a int)"


def waits(weir, reason="pinned"):
    wait_until(lambda: [row["reason"] for row in weir.admin("SHOW WAITING")] == [reason],
               what="a client that waits")
    return weir.admin("SHOW WAITING")[0]["detail"]


@pytest.mark.parametrize("loops", (1, 2))
@pytest.mark.parametrize("message", (query(CREATE), parse(CREATE) + bind() + execute() + sync()))
def test_a_pin_waits_for_its_place(start, message, loops):
    weir = start(servers=2, loops=loops)
    first, second, other = (weir.client() for _ in range(3))
    first.query(CREATE)
    second.send(message)
    assert waits(weir).endswith("servers stay with clients: SHOW PINNED")
    assert other.value("SELECT 1") == "1"  # the server that nobody is pinned to is free
    first.query("DROP TABLE mine")
    assert second.read_result().tags == ["CREATE TABLE"]
    wait_until(lambda: len(weir.admin("SHOW PINNED")) == 1, what="a pinned client")
    first.send(query(CREATE))
    waits(weir)
    second.close()
    assert first.read_result().tags == ["CREATE TABLE"]


def test_a_named_statement_waits_for_its_place(start):
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    second.ask(parse(CREATE, "s"), sync())
    first.query(CREATE)
    second.send(bind(name="s") + execute() + sync())
    waits(weir)
    first.close()
    assert second.read_result().tags == ["CREATE TABLE"]


def test_a_place_that_was_not_needed_is_free_again(start):
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    for _ in range(3):
        first.query(CREATE)
        second.send(query("SELECT pg_advisory_lock(1), pg_advisory_unlock(1)"))
        waits(weir)
        first.query("DROP TABLE mine")
        assert second.read_result().error is None
        first.query(CREATE)
        second.send(parse(CREATE), sync())
        waits(weir)
        first.query("DROP TABLE mine")
        second.read_result()


def test_who_waits_for_a_place_can_cancel(start):
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    first.query(CREATE)
    second.send(query(CREATE))
    waits(weir)
    send_cancel(weir.address, second.key)
    assert second.read_result().error["C"] == "57014"
    assert second.value("SELECT 1") == "1"
    first.query("DROP TABLE mine")
    assert second.query(CREATE).error is None


def test_a_pin_that_has_waited_for_too_long_is_refused(start):
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    first.query("BEGIN")
    second.query("SELECT 1")  # both servers are there: a login may take longer than a second
    first.query("COMMIT")
    first.query(CREATE)
    weir.reload(query_wait_timeout=1)
    assert second.query(CREATE).error["C"] == "53300"
    assert second.value("SELECT 1") == "1"


@pytest.mark.parametrize("message, begins", (
    (query(CREATE), False), (parse(CREATE) + bind() + execute() + sync(), False),
    (query("BEGIN; " + CREATE), True)))
def test_the_time_for_a_place_is_not_followed_by_one_for_a_server(start, message, begins):
    """Refused without a server: there is none, and for the whole test there will be none."""
    weir = start(servers=2)
    first, second, third = (weir.client() for _ in range(3))
    first.query("BEGIN")
    second.query("SELECT 1")
    first.query("COMMIT")
    first.query(CREATE)
    second.query("BEGIN")
    second.query("SELECT 1")
    third.send(message)
    waits(weir)
    weir.reload(query_wait_timeout=1)
    refused = third.read_result()
    assert (refused.error["S"], refused.error["C"]) == ("ERROR", "53300")
    assert refused.error["M"] == "a temporary object needs a server of its own (max_pinned_servers)"
    assert refused.status == ("E" if begins else "I")
    assert weir.pool()["sv_active"] == 2 and not weir.admin("SHOW WAITING")
    third.query("ROLLBACK") if begins else None
    second.query("COMMIT")
    assert third.value("SELECT 1") == "1"


def test_who_waits_for_a_pinned_server_is_told_so(start):
    weir = start(servers=1, query_wait_timeout=1)
    first, second = weir.client(), weir.client()
    first.query(CREATE)
    second.send(query("SELECT 1"))
    assert "1 of 1 servers stay with clients: SHOW PINNED" in waits(weir, "pool full")
    (error,) = [got for got in second.read_to_end() if got.type == "E"]
    assert "SHOW PINNED" in error.fields["H"]


@pytest.fixture
def revoke(postgres):
    """Takes EXECUTE on a function of pg_catalog from all but superusers."""
    revoked = []

    def revoke(function):
        postgres.query(f"REVOKE EXECUTE ON FUNCTION pg_catalog.{function} FROM PUBLIC")
        revoked.append(function)
    yield revoke
    for function in revoked:
        postgres.query(f"GRANT EXECUTE ON FUNCTION pg_catalog.{function} TO PUBLIC")


@pytest.mark.parametrize("function, text, check, value", (
    ("pg_show_all_settings()", "SET search_path = public", "SHOW search_path", "public"),
    ("pg_my_temp_schema()", "CREATE TEMP TABLE mine (a int)", "SELECT count(*) FROM mine", "0"),
    ("pg_lock_status()", "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)", "t"),
    ("pg_lock_status()", "DO $$ BEGIN SET LOCAL work_mem = '1MB'; END $$", "SELECT 1", "1"),
))
def test_what_must_not_be_read_keeps_the_server(start, revoke, function, text, check, value):
    revoke(function)
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    assert first.query(text).error is None
    pid = first.value(PID)
    assert first.value(check) == value
    assert second.value(PID) != pid
    assert len(weir.admin("SHOW PINNED")) == 1
    first.close()
    assert pid not in {second.value(PID) for _ in range(3)}


@pytest.mark.parametrize("name", ("", "named"))
def test_placeholder_in_the_extended_protocol(start, name):
    weir = start()
    first, second = weir.client(), weir.client()
    first.ask(parse("SET other.x = 'y'", name=name), bind(name=name), execute(), sync())
    for _ in range(2):
        assert second.value("SELECT current_setting('other.x', true)") in (None, "")
        assert first.value("SELECT current_setting('other.x', true)") == "y"


@pytest.mark.parametrize("name", ("", "named"))
def test_unknown_placeholder_in_the_extended_protocol(start, name):
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    first.ask(parse("SELECT set_config('app.' || $1, $2, false)", name=name),
              bind(["tenant", "42"], name=name), execute(), sync())
    assert first.value("SELECT current_setting('app.tenant', true)") == "42"
    first.close()
    for _ in range(3):
        assert second.value("SELECT current_setting('app.tenant', true)") is None


def test_placeholder_with_a_bound_value(start):
    weir = start()
    first, second = weir.client(), weir.client()
    first.ask(parse("SELECT set_config($1, $2, false)"), bind(["app.tenant", "17"]), execute(),
              sync())
    for _ in range(2):
        assert second.value("SELECT current_setting('app.tenant', true)") in (None, "")
        assert first.value("SELECT current_setting('app.tenant', true)") == "17"


def test_do_block_that_sets_a_parameter(start):
    weir = start()
    first, second = weir.client(), weir.client()
    default = second.value("SHOW work_mem")
    first.query("DO $$ BEGIN SET work_mem = '77MB'; END $$")
    assert second.value("SHOW work_mem") == default
    assert first.value("SHOW work_mem") == "77MB"


def test_set_role_follows_its_client(start, postgres):
    postgres.query("DROP ROLE IF EXISTS other_role")
    postgres.query("CREATE ROLE other_role")
    postgres.query("GRANT other_role TO alice")
    weir = start()
    first, second = weir.client(), weir.client()
    first.query("SET work_mem = '77MB'")
    first.query("SET ROLE other_role")
    for _ in range(2):
        assert second.value("SELECT current_user") == "alice"
        assert first.value("SELECT current_user") == "other_role"
        assert first.value("SHOW work_mem") == "77MB"
    first.query("RESET ROLE")
    assert first.value("SELECT current_user") == "alice"


def test_placeholder_whose_name_is_computed(start):
    """The name is in no text and no value, so the server stays, and is closed in the end."""
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    first.query("SELECT set_config('app.' || lower('TENANT'), '42', false)")
    pid = first.value(PID)
    assert first.value("SELECT current_setting('app.tenant', true)") == "42"
    assert pid not in {second.value(PID) for _ in range(3)}
    first.close()
    for _ in range(3):
        assert second.value("SELECT current_setting('app.tenant', true)") is None
        assert second.value(PID) != pid


def test_plain_set_asks_no_question(scripted):
    """The effect of a lone SET with a constant is known from its text."""
    weir, client, server = scripted(default_pool_size=1, session_isolation="off")
    client.send(query("SET work_mem = '7MB'"))
    assert server.expect("Q").body == b"SET work_mem = '7MB'\0"
    server.send(fake.complete("SET") + fake.ready())
    assert client.read_result().tags == ["SET"]
    other = weir.client()
    other.send(query("SELECT 1"))
    assert server.expect("Q").body == b'RESET "work_mem";\0'


def test_lone_sets_in_one_write(start):
    weir = start()
    first, second = weir.client(), weir.client()
    defaults = second.value("SHOW work_mem"), second.value("SHOW statement_timeout")
    first.send(query("SET work_mem = '7MB'"), query("SET statement_timeout = '7min'"))
    assert [first.read_result().tags for _ in range(2)] == [["SET"], ["SET"]]
    for _ in range(2):
        assert (second.value("SHOW work_mem"), second.value("SHOW statement_timeout")) == defaults
        assert first.value("SHOW work_mem") == "7MB"
        assert first.value("SHOW statement_timeout") == "7min"


def test_lone_set_and_an_unknown_execute_in_one_write(start):
    weir = start()
    first, second = weir.client(), weir.client()
    default = second.value("SHOW statement_timeout")
    first.query("SELECT 1; PREPARE hidden AS SELECT set_config('statement_timeout', '7min', false)")
    first.send(query("SET work_mem = '7MB'"), query("EXECUTE hidden"))
    assert [bool(first.read_result().errors) for _ in range(2)] == [False, False]
    assert first.query("SELECT 1; DEALLOCATE hidden").errors == []
    for _ in range(2):
        assert second.value("SHOW statement_timeout") == default
        assert first.value("SHOW statement_timeout") == "7min"
        assert first.value("SHOW work_mem") == "7MB"


def test_failed_set_before_another_one(start):
    weir = start()
    first, second = weir.client(), weir.client()
    first.send(query("SET work_mem = 'bad'"), query("SET LOCAL statement_timeout = '7min'"))
    assert first.read_result().error["C"] == "22023"
    assert first.read_result().tags == ["SET"]
    default = second.value("SHOW work_mem")
    assert first.value("SHOW work_mem") == default


REFUSED = {
    "SET": "SET work_mem = '7MB'",
    "LISTEN": "LISTEN x",
    "LOAD": "LOAD 'auto_explain'",
    "held cursor": "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
    "temporary table": "CREATE TEMP TABLE x (a int)",
    "lock": "SELECT pg_advisory_lock(1)",
    "currval": "SELECT lastval()",
}


@pytest.mark.parametrize("pool_mode", ("transaction", "statement"))
@pytest.mark.parametrize("sql", REFUSED.values(), ids=REFUSED.keys())
def test_refuse(pgweir, sql, pool_mode):
    weir = pgweir(pool_mode=pool_mode, session_state="refuse")
    client = weir.client()
    for got in (client.query(sql), client.ask(parse(sql), bind(), execute(), sync())):
        assert got.error["C"] == "0A000" and got.status == "I", got
        assert ("session_state" in got.error["M"]) == (pool_mode == "transaction")
    assert client.value("SELECT 1") == "1"


HARMLESS = ["SET client_encoding = 'LATIN1'", "SET TIME ZONE 'Asia/Tokyo'", "RESET ALL",
            "RESET work_mem", "SET LOCAL work_mem = '7MB'", "DISCARD ALL"]


@pytest.mark.parametrize("sql", HARMLESS)
def test_refuse_lets_what_does_no_harm_run(pgweir, sql):
    client = pgweir(pool_mode="transaction", session_state="refuse").client()
    assert not client.query(sql).errors


def test_refused_statement_fails_its_transaction(pgweir):
    client = pgweir(pool_mode="transaction", session_state="refuse").client()
    client.query("BEGIN")
    assert client.query("CREATE TEMP TABLE x (a int)").status == "E"
    assert client.query("SELECT 1").error["C"] == "25P02"
    assert client.query("ROLLBACK").status == "I"


@pytest.mark.parametrize("sql", ["SELECT 1; PREPARE hidden AS SELECT 'mine'",
                                 "DO $$ BEGIN EXECUTE 'PREPARE hidden AS SELECT 1'; END $$"])
def test_prepare_that_is_not_followed_keeps_the_server(start, sql):
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    first.query(sql)
    pid = first.value(PID)
    assert pid not in {second.value(PID) for _ in range(3)}
    assert second.query("SELECT 1; EXECUTE hidden").error["C"] == "26000"
    assert not first.query("SELECT 1; EXECUTE hidden").errors
    assert not first.query("SELECT 1; DEALLOCATE hidden").errors
    weir.wait_pool(sv_active=0)


def test_prepare_alone_keeps_no_server(start):
    weir = start()
    client = weir.client()
    client.query("PREPARE p AS SELECT 1")
    weir.wait_pool(sv_active=0)


def test_session_mode_ends(pgweir):
    """What the client had in session mode is still there after a RELOAD, or the server stays."""
    weir = pgweir(pool_mode="session", default_pool_size=2)
    first, second = weir.client(), weir.client()
    first.query("SET work_mem = '77MB'; CREATE TEMP TABLE mine (a int)")
    pid = first.value(PID)
    weir.reload(pool_mode="transaction")
    for _ in range(3):
        assert first.value("SELECT count(*) FROM mine") == "0"
        assert first.value("SHOW work_mem") == "77MB"
        assert second.value(PID) != pid


@pytest.mark.parametrize("sqls", [["SET search_path = pg_temp, public", "CREATE TABLE secret (a int)"],
                                  ["BEGIN; SET search_path = pg_temp; CREATE TABLE secret (a int)",
                                   "COMMIT"],
                                  ["SET search_path = pg_temp", "SELECT 1 AS a INTO secret"]])
def test_table_that_search_path_makes_temporary(start, sqls):
    weir = start(servers=2)
    first, second = weir.client(), weir.client()
    for sql in sqls:
        assert not first.query(sql).errors
    for _ in range(3):
        assert not first.query("SELECT a FROM secret").errors
        assert second.query("SELECT a FROM secret").error["C"] == "42P01"


READINGS = pytest.mark.parametrize("name, value, sql, row", (
    ("standard_conforming_strings", "off", "SELECT 'a\\tb'", "a\\tb"),
    ("client_encoding", "LATIN1", "SELECT length('ä')", "1"),
), ids=("backslash", "encoding"))
USES = pytest.mark.parametrize("use", (
    lambda client, name: client.ask(bind((), name), execute(), sync()),
    lambda client, name: client.query(f"EXECUTE {name}"),
    lambda client, name: client.ask(parse(f"EXECUTE {name}"), bind(), execute(), sync()),
), ids=("Bind", "EXECUTE", "Parse of EXECUTE"))


@USES
@READINGS
def test_named_statement_is_read_once(start, name, value, sql, row, use):
    weir = start()
    client = weir.client()
    client.ask(parse(sql, "s"), sync())
    for setting in (f"SET {name} = {value}", f"RESET {name}", f"BEGIN; SET LOCAL {name} = {value}"):
        client.query(setting)
        assert use(client, "s").rows == [[row]], setting


@USES
@READINGS
def test_named_statement_that_this_server_would_read_otherwise(start, name, value, sql, row, use):
    weir = start(servers=2)
    client, other = weir.client(), weir.client()
    client.ask(parse(sql, "s"), parse("SELECT 'plain'", "t"), sync())
    pid = client.value(PID)
    other.query("BEGIN")
    if other.value(PID) != pid:
        other, holder = weir.client(), other
        other.query("BEGIN")
        assert other.value(PID) == pid
        holder.query("ROLLBACK")
    client.query(f"SET {name} = {value}")
    assert use(client, "t").rows == [["plain"]]
    got = use(client, "s")
    assert got.error["C"] == "0A000" and got.error["H"], got
    client.query(f"RESET {name}")
    assert use(client, "s").rows == [[row]]
