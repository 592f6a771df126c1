# SPDX-License-Identifier: ISC
"""SHOW PINNED, SHOW SESSION_STATE, the limit of pinned servers, and what the log says of them."""

import re

import pytest

from .kit.wait import wait_until
from .kit.wire import bind, execute, parse, query, sync

PID = "SELECT pg_backend_pid()"
TABLE = "CREATE TEMP TABLE mine (a int)"
CURSOR = "DECLARE c CURSOR WITH HOLD FOR SELECT 1"


@pytest.fixture
def start(pgweir):
    def start(servers=5, **settings):
        return pgweir(pool_mode="transaction", default_pool_size=servers, **settings)
    return start


def pinned(weir, *whys, item="PINNED"):
    """Its rows, when these are the reasons. A client's answer comes before the server is asked."""
    def rows():
        found = weir.admin(f"SHOW {item}")
        return (found,) if [row["why"] for row in found] == list(whys) else None
    return wait_until(rows)[0]


def states(weir, *names):
    """The rows by application_name, when these clients have one."""
    def rows():
        found = {row["application_name"]: row for row in weir.admin("SHOW SESSION_STATE")}
        return (found,) if sorted(found) == sorted(names) else None
    return wait_until(rows)[0]


def limit(weir, database="app", user="alice"):
    (row,) = [row for row in weir.admin("SHOW LIMITS")
              if (row["limit"], row["database"], row["user"]) ==
              ("max_pinned_servers", database, user)]
    return row["value"], row["used"], row["hits"]


# -- SHOW PINNED -----------------------------------------------------------------------------------


def test_whose_server_stays(start):
    weir = start()
    client, other = weir.client(application_name="reporter"), weir.client()
    client.query(TABLE)
    other.query("SELECT 1")
    (row,) = pinned(weir, "temporary object")
    (shown,) = [line for line in weir.admin("SHOW CLIENTS")
                if line["application_name"] == "reporter"]
    assert (row["database"], row["user"], row["application_name"]) == ("app", "alice", "reporter")
    assert [row[name] for name in ("id", "addr", "port", "ptr", "link")] == \
        [shown[name] for name in ("id", "addr", "port", "ptr", "link")]
    assert str(row["server_pid"]) == client.value(PID)
    assert (row["why"], row["statement"]) == ("temporary object", TABLE)
    assert row["since"] >= shown["connect_time"] and row["seconds"] >= 0
    client.query("DROP TABLE mine")
    pinned(weir)


def test_several_reasons_end_one_by_one(start):
    weir = start()
    client = weir.client()
    client.query(CURSOR)
    client.query("SELECT pg_advisory_lock(7)")
    (row,) = pinned(weir, "held cursor, session lock")
    assert (row["objects"], row["statement"]) == ("held cursor c; session lock 7", CURSOR)
    client.query("CLOSE c")
    pinned(weir, "session lock")
    client.query("SELECT pg_advisory_unlock(7)")
    pinned(weir)


NAMED = {
    "objects of all kinds": (
        ['CREATE TEMP TABLE "my Cart" (id serial)', "CREATE TEMP VIEW v AS SELECT 1",
         "CREATE FUNCTION pg_temp.f(int) RETURNS int LANGUAGE sql AS 'SELECT 1'"],
        'temporary sequence "my Cart_id_seq", table "my Cart", view v, function pg_temp.f(integer)'),
    "locks with one key and with two": (
        ["SELECT pg_advisory_lock(-5), pg_advisory_lock(815), pg_advisory_lock(3, -4)"],
        "session lock (3,-4), -5, 815"),
    "the first five": (
        [f"CREATE TEMP TABLE t{number} (a int)" for number in range(12)],
        "temporary table t0, table t1, table t2, table t3, table t4 and 7 more"),
    "long names": (
        [f"CREATE TEMP TABLE {letter * 63} (a int)" for letter in "abcd"],
        f"temporary table {'a' * 58}, table {'b' * 58}, table {'c' * 58} and 1 more"),
    "statements": (["SELECT 1; PREPARE one AS SELECT 1; PREPARE two AS SELECT 2"],
                   "prepared statement one, two"),
    "what extensions keep": (["SELECT setseed(0.5)", TABLE],
                             "temporary table mine; function of an extension"),
}


@pytest.mark.parametrize("says", NAMED)
def test_the_names_of_what_keeps_the_server(start, says):
    statements, names = NAMED[says]
    weir = start()
    client = weir.client()
    for statement in statements:
        assert not client.query(statement).errors

    def objects():
        (text,) = [row["objects"] for row in weir.admin("SHOW PINNED")] or [""]
        for kind in ("session lock ", "prepared statement "):  # PostgreSQL has no order for them
            if text.startswith(kind):
                text = kind + ", ".join(sorted(text[len(kind):].split(", ")))
        return re.sub("pg_temp_[0-9]+", "pg_temp", text)
    wait_until(lambda: objects() == names, what=names)


def test_a_client_that_leaves_is_not_listed(start):
    weir = start()
    with weir.client() as client:
        client.query(TABLE)
        pinned(weir, "temporary object")
    pinned(weir)
    assert limit(weir)[1] == 0


def test_pinned_of_one_database(start):
    weir = start()
    clients = [weir.client(database=database) for database in ("app", "app2")]
    for client in clients:
        client.query(TABLE)
    pinned(weir, "temporary object", "temporary object")
    (row,) = pinned(weir, "temporary object", item="PINNED app2")
    assert row["database"] == "app2"


def test_the_statement_is_for_administrators(start):
    weir = start()
    client = weir.client()
    client.ask(parse("CREATE TEMP TABLE mine AS SELECT 1"), bind(), execute(), sync())
    (row,) = pinned(weir, "temporary object")
    assert row["statement"] == "CREATE TEMP TABLE mine AS SELECT 1"
    (row,) = weir.console("stats").query("SHOW PINNED").dicts()
    assert (row["why"], row["statement"]) == ("temporary object", None)


def test_a_pinned_client_can_be_killed(start):
    weir = start(servers=1)
    client = weir.client()
    client.query(TABLE)
    weir.admin(f"KILL_CLIENT {pinned(weir, 'temporary object')[0]['id']}")
    client.wait_closed()
    pinned(weir)
    assert limit(weir)[1] == 0
    assert weir.client().value("SELECT to_regclass('pg_temp.mine') IS NULL") == "t"


# -- pin_functions ---------------------------------------------------------------------------------


CALL = "SELECT count(pg_catalog.PG_Backend_Pid())"


@pytest.mark.parametrize("steps", (
    [[query(CALL)]], [[parse(CALL), bind(), execute(), sync()]],
    [[parse(CALL, "s"), sync()], [bind(name="s"), execute(), sync()]],
    [[query(f"PREPARE s AS {CALL}")], [query("EXECUTE s")]]),
    ids=("simple", "extended", "named", "PREPARE"))
def test_functions_that_keep_the_server(start, steps):
    weir = start(pin_functions="other, pg_backend_PID")
    client = weir.client()
    client.query("SELECT 'pg_backend_pid', pg_backend_pid_other FROM (SELECT 1) x (pg_backend_pid_other)")
    weir.wait_pool(sv_active=0)
    for step in steps:
        assert not client.ask(*step).errors
    (row,) = pinned(weir, "function of an extension")
    assert "PG_Backend_Pid" in row["statement"]
    client.query("SELECT 1")
    pinned(weir, "function of an extension")
    client.query("DISCARD ALL")  # which PostgreSQL does not tell any function
    pinned(weir, "function of an extension")
    client.close()
    weir.wait_pool(sv_active=0, sv_idle=0)


def test_functions_of_one_database(start):
    weir = start(pin_functions="other", databases={"app": "pin_functions=pg_backend_pid", "app2": ""})
    one, two = weir.client(), weir.client(database="app2")
    two.query(CALL)
    one.query(CALL)
    (row,) = pinned(weir, "function of an extension")
    assert row["database"] == "app"


@pytest.mark.parametrize("steps", ([[query(TABLE)]], [[parse(TABLE, "s"), sync()],
                                                      [bind(name="s"), execute(), sync()]]),
                         ids=("simple", "named"))
def test_no_server_stays_if_state_is_off(start, steps):
    weir = start(session_state="off", pin_functions="pg_backend_pid")
    client = weir.client()
    for step in steps:
        assert not client.ask(*step).errors
    client.query(CALL)
    weir.wait_pool(sv_active=0)
    assert weir.admin("SHOW PINNED") == []


# -- SHOW SESSION_STATE ----------------------------------------------------------------------------


def test_what_follows_each_client(start):
    weir = start()
    one, two = weir.client(application_name="one"), weir.client(application_name="two")
    weir.client(application_name="three", search_path="pg_catalog").query("SELECT 1")
    one.query("SET work_mem = '77MB'")
    one.query("SET search_path = public")
    two.query(CURSOR)

    def listed():
        rows = states(weir, "one", "two")
        return [[rows[who][name] for name in ("parameters", "libraries", "channels", "pins")]
                for who in ("one", "two")]
    wait_until(lambda: listed() == [["search_path, work_mem", "", "", ""],
                                    ["", "", "", "held cursor c"]])
    one.query("RESET ALL")
    two.query("CLOSE ALL")
    states(weir)


def test_libraries_and_channels(start):
    weir = start(databases={"app": "user=postgres"})
    client = weir.client(application_name="app")
    client.query("LOAD 'auto_explain'")
    client.query("LISTEN first")
    client.query('LISTEN "Second one"')

    def listed():
        row = states(weir, "app")["app"]
        return row["libraries"], sorted(row["channels"].split(", "))
    wait_until(lambda: listed() == ("auto_explain", ["Second one", "first"]))
    client.query("UNLISTEN first")
    wait_until(lambda: listed() == ("auto_explain", ["Second one"]))


def test_what_was_given_at_the_login_is_not_listed(start):
    weir = start()
    client = weir.client(application_name="app", search_path="pg_catalog")
    client.query("SET search_path = public")
    assert states(weir, "app")["app"]["parameters"] == "search_path"
    client.query("SET search_path = pg_catalog")
    states(weir)


def test_sessions_are_not_listed(pgweir):
    weir = pgweir(pool_mode="session")
    client = weir.client()
    client.query("SET search_path = public")
    client.query(TABLE)
    assert client.value("SELECT 1") == "1"
    assert weir.admin("SHOW SESSION_STATE") == [] == weir.admin("SHOW PINNED")


# -- max_pinned_servers ----------------------------------------------------------------------------


def test_the_limit_and_who_was_refused(start):
    weir = start(servers=3, query_wait_timeout=1,
                 databases={"app": "", "app2": "max_pinned_servers=0"})
    clients = [weir.client() for _ in range(3)]
    assert limit(weir) == (2, 0, 0)
    for client in clients[:2]:
        client.query(TABLE)
    assert limit(weir) == (2, 2, 0)
    clients[2].query("BEGIN")
    error = clients[2].query(TABLE).error
    clients[2].query("ROLLBACK")
    assert error["C"] == "53300" and "max_pinned_servers" in error["M"]
    assert limit(weir) == (2, 2, 1)
    weir.client(database="app2").query(TABLE)
    assert limit(weir, "app2") == (0, 0, 1)
    clients[0].query("DROP TABLE mine")
    wait_until(lambda: limit(weir) == (2, 1, 1))
    assert clients[2].query(TABLE).tags == ["CREATE TABLE"]
    hit = [row["limit"] for row in weir.admin("SHOW LIMITS HIT") if row["database"] == "app"]
    assert "max_pinned_servers" in hit


def test_where_the_limit_comes_from(start):
    weir = start(servers=0, databases={"app": "max_pinned_servers=4", "app2": ""})
    weir.client().query("SELECT 1")
    weir.client(database="app2").query("SELECT 1")
    rows = {row["database"]: row for row in weir.admin("SHOW LIMITS")
            if row["limit"] == "max_pinned_servers"}
    assert rows["app"]["value"] == 4 and rows["app"]["source"].endswith("(database app)")
    assert (rows["app2"]["value"], rows["app2"]["source"]) == (-1, "default")
    weir.admin("SET max_pinned_servers = 3")
    rows = {row["database"]: row for row in weir.admin("SHOW LIMITS")
            if row["limit"] == "max_pinned_servers"}
    assert (rows["app2"]["value"], rows["app2"]["source"]) == (3, "SET")


@pytest.mark.parametrize("settings", (dict(pool_mode="session"),
                                      dict(pool_mode="transaction", session_state="off")))
def test_no_limit_where_no_server_stays(pgweir, settings):
    weir = pgweir(**settings)
    weir.client().query("SELECT 1")
    assert "max_pinned_servers" not in [row["limit"] for row in weir.admin("SHOW LIMITS")]


# -- time ------------------------------------------------------------------------------------------


def test_an_idle_client_that_keeps_its_server_is_closed(start):
    weir = start(servers=1, pin_idle_timeout="0.2")
    client, other = weir.client(), weir.client()
    client.query(TABLE)
    other.send(query("SELECT to_regclass('pg_temp.mine') IS NULL"))
    refusal = client.read_refusal()
    assert (refusal.sqlstate, refusal.text) == ("57P05", "pin_idle_timeout")
    weir.wait_log("pooler error: pin_idle_timeout: Others waited, .*: temporary table mine")
    (row,) = [row for row in weir.admin("SHOW ERRORS") if row["reason"] == "pin_idle_timeout"]
    assert (row["type"], row["count"], row["last_user"]) == ("C", 1, "alice")
    assert other.read_result().rows == [["t"]]


@pytest.mark.parametrize("loops", (1, 2))
def test_one_of_several_idle_clients_is_closed(start, loops):
    """Its server is enough for those who wait. Each loop closes one."""
    weir = start(servers=3, max_pinned_servers=3, pin_idle_timeout="4", loops=loops)
    clients = [weir.client() for _ in range(3)]
    for client in clients:
        client.query(TABLE)
    others = [weir.client() for _ in range(4)]
    for other in others:
        other.send(query("SELECT 1"))
    for other in others:
        assert other.read_result().rows == [["1"]]
    (row,) = [row for row in weir.admin("SHOW ERRORS") if row["reason"] == "pin_idle_timeout"]
    assert row["count"] <= loops
    wait_until(lambda: len(weir.admin("SHOW PINNED")) == 3 - row["count"])


@pytest.mark.parametrize("loops", (1, 3))
def test_who_waits_for_a_place_ends_an_idle_stay(start, loops):
    """Also in another loop."""
    weir = start(servers=3, max_pinned_servers=1, pin_idle_timeout="0.2", loops=loops)
    client, without, within = (weir.client() for _ in range(3))
    client.query(TABLE)
    without.send(query(TABLE))
    assert client.read_refusal().sqlstate == "57P05"
    assert without.read_result().tags == ["CREATE TABLE"]
    within.query("BEGIN")
    within.send(query(TABLE))
    assert without.read_refusal().sqlstate == "57P05"
    assert within.read_result().tags == ["CREATE TABLE"]


def test_a_client_that_nobody_waits_for_may_be_idle(start):
    weir = start(servers=1, pin_idle_timeout="0.2", users={"bob": "pin_idle_timeout=3600"})
    client, other = weir.client(), weir.client()
    bob, waiting = weir.client("bob"), weir.client("bob")
    for keeper in (client, bob):
        keeper.query(TABLE)
    waiting.send(query("SELECT 1"))
    for _ in range(3):  # each of them lasts longer than the limit
        weir.client(database="app2").query("SELECT pg_sleep(0.3)")
        assert client.query("SELECT * FROM mine").tags == ["SELECT 0"]
    other.send(query("SELECT 1"))
    assert client.read_refusal().sqlstate == "57P05"
    assert other.read_result().rows == [["1"]]
    assert bob.query("SELECT * FROM mine").tags == ["SELECT 0"]


def test_the_log_has_servers_that_stay_for_long(start):
    weir = start(log_pin_duration="0.1")
    client = weir.client(application_name="reporter")
    client.query('CREATE TEMP TABLE "odd""name\n" AS SELECT \'secret\'')
    line = weir.wait_log("its server has stayed with it for .*$").group(0)
    assert 'temporary table ?odd??name??' in line and 'application_name="reporter"' in line
    client.query("CREATE TEMP TABLE other (a int)")  # the same stay
    client.query('DROP TABLE "odd""name\n", other')
    client.query(CURSOR)
    weir.wait_log("its server has stayed with it for .*held cursor c")
    assert weir.log.count("its server has stayed with it for") == 2
    assert "secret" not in weir.log


# -- errors ----------------------------------------------------------------------------------------


REFUSED = {
    "SET work_mem = '1MB'": ("SET for the session", "SET LOCAL"),
    "LOAD 'plpgsql'": ("LOAD", "session_preload_libraries"),
    "LISTEN a": ("LISTEN", "pool_mode = session"),
    TABLE: ("a temporary object", "ON COMMIT DROP"),
    "SELECT pg_advisory_lock(1)": ("a session advisory lock", "pg_advisory_xact_lock"),
    "SELECT lastval()": ("currval() or lastval()", "RETURNING"),
}


@pytest.mark.parametrize("mode, name, unit", (
    ("transaction", "session_state = refuse", "transaction"),
    ("statement", "pool_mode = statement", "statement")))
def test_what_is_refused_is_named(pgweir, mode, name, unit):
    weir = pgweir(pool_mode=mode, session_state="refuse" if mode == "transaction" else "follow")
    client = weir.client()
    for sql, (feature, way_out) in REFUSED.items():
        for answer in (client.query(sql), client.ask(parse(sql), bind(), execute(), sync())):
            error = answer.error
            assert (error["S"], error["C"]) == ("ERROR", "0A000")
            assert error["M"] == f"{feature} is not available here ({name})"
            assert f"next {unit} may run" in error["D"] and way_out in error["H"]
            assert f"pooler error: {error['M']}: {error['D']}" in weir.log
    assert client.value("SELECT 1") == "1"


def test_refusals_are_counted(pgweir):
    weir = pgweir(pool_mode="transaction", session_state="refuse")
    client = weir.client()
    for sql in (TABLE, CURSOR, "SELECT 1"):
        client.query(sql)
    (row,) = [row for row in weir.admin("SHOW LIMITS HIT") if row["limit"] == "session_state"]
    assert (row["database"], row["user"], row["hits"]) == ("app", "alice", 2)
    assert "pgweir.ini:" in row["source"]


def test_the_limit_says_what_to_do(start):
    weir = start(servers=2, log_pooler_errors=1, query_wait_timeout=1)
    first, second = weir.client(), weir.client()
    first.query(TABLE)
    second.query("BEGIN")
    error = second.query(CURSOR).error
    assert (error["S"], error["C"]) == ("ERROR", "53300")
    assert error["M"] == "a cursor WITH HOLD needs a server of its own (max_pinned_servers)"
    assert error["D"].startswith("Servers of this pool that stay with clients: 1 of 1. SHOW PINNED")
    assert "WITHOUT HOLD" in error["H"]
    assert f"pooler error: {error['M']}: {error['D']}" in weir.log


def test_refusals_are_logged_only_if_wanted(start):
    weir = start(session_state="refuse", log_pooler_errors=0)
    assert weir.client().query(TABLE).error["C"] == "0A000"
    assert "pooler error" not in weir.log
