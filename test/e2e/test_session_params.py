# SPDX-License-Identifier: ISC
"""Parameters, roles and libraries of a session follow their client, whatever sets them."""

import struct

import pytest

from .kit.wait import wait_until
from .kit.wire import bind, execute, flush, message, parse, query, sync

PID = "SELECT pg_backend_pid()"
LIBRARY = "auto_explain"
HAS_LIBRARY = f"SELECT count(*) FROM pg_settings WHERE name = '{LIBRARY}.log_analyze'"


@pytest.fixture
def one(pgweir):
    """Transaction mode with a single server, which all clients share."""
    def start(**settings):
        return pgweir(pool_mode="transaction", default_pool_size=1, **settings)
    return start


@pytest.fixture
def superuser(one):
    """Clients that may do everything."""
    def start(**settings):
        settings.setdefault("databases", {"app": "user=postgres"})
        weir = one(**settings)
        return weir, weir.client
    return start


def alternate(first, second, asked, mine, other):
    """Each client has its own answer, whichever ran before on their server."""
    for _ in range(3):
        assert first.value(asked) == mine
        assert second.value(asked) == other


# ---- values --------------------------------------------------------------------------------------

WAYS = {
    "SET": "SET {name} = '{value}'",
    "SET SESSION": "SET SESSION {name} TO '{value}'",
    "a function": "SELECT set_config('{name}', '{value}', false)",
    "a function within a block": "DO $$BEGIN PERFORM set_config('{name}', '{value}', false); END$$",
    "several statements": "SELECT 1; SET {name} = '{value}'; SELECT 2",
    "a transaction": "BEGIN; SET {name} = '{value}'; COMMIT",
    "a savepoint that stays": "BEGIN; SAVEPOINT a; SET {name} = '{value}'; RELEASE a; COMMIT",
    "quotes": "SET \"{quoted}\" = '{value}'",
    "the value of another": "SELECT set_config('{name}', current_setting('app.source'), false)",
}


@pytest.mark.parametrize("name, value", (("work_mem", "77kB"), ("app.tenant", "it''s \\ x"),
                                         ("app.tenant", ""), ("search_path", "nowhere, public")))
@pytest.mark.parametrize("way", WAYS)
def test_a_value_follows(one, way, name, value):
    weir = one()
    first, second = weir.client(), weir.client()
    first.query(f"SET app.source = '{value}'")
    asked = f"SELECT coalesce(current_setting('{name}', true), '')"
    normal = second.value(asked)
    result = first.query(WAYS[way].format(name=name, value=value,
                                          quoted=name.replace(".", '"."')))
    assert not result.error
    plain = value.replace("''", "'")
    mine = first.value(asked)
    assert mine.replace('"', "") == plain
    alternate(first, second, asked, mine, normal)


ODD_NAMES = {
    "quotes in a block": "DO $$BEGIN SET \"app\".\"tenant\" = 'x'; END$$",
    "spaces": "SET app . tenant = 'x'",
    "a name made by the text": "SELECT set_config('app.' || 'tenant', 'x', false)",
    "a bound name": None,
}


@pytest.mark.parametrize("way", ODD_NAMES)
def test_no_value_is_left_behind(pgweir, way):
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    first, second = weir.client(), weir.client()
    if ODD_NAMES[way]:
        first.query(ODD_NAMES[way])
    else:
        first.send(parse("SELECT set_config($1, $2, false)")
                   + bind((b"app.tenant", b"x")) + execute() + sync())
        first.read_result()
    assert first.value("SELECT current_setting('app.tenant', true)") == "x"
    for _ in range(3):
        assert second.value("SELECT current_setting('app.tenant', true)") in (None, "")
    first.close()
    third = weir.client()
    for client in (second, third):
        assert client.value("SELECT current_setting('app.tenant', true)") in (None, "")


@pytest.mark.parametrize("name", ("app.ключ", "app.\"ключ\"", "a" * 63 + "." + "b" * 63 + ".c"))
def test_a_name_that_cannot_be_asked_for_keeps_the_server(pgweir, name):
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    first, second = weir.client(), weir.client()
    first.query(f"SET {name} = 'x'")
    plain = name.replace('"', "")
    assert first.value(f"SELECT current_setting('{plain}', true)") == "x"
    first.close()
    for client in (second, weir.client(), weir.client()):
        assert client.value(f"SELECT current_setting('{plain}', true)") in (None, "")


# ---- names, however they are written -------------------------------------------------------------

PREPARED = "PREPARE p AS SELECT set_config($1, $2, false)"
CONFIG = "SELECT set_config({}, 'x', false)"
BOUND = "SELECT set_config({}, $2, false)"

# A text, or a text and the values that are bound.
SPELT = {
    "blanks": "SET app . tenant = 'x'",
    "a comment": "SET app/* . */.tenant = 'x'",
    "newlines": "SET app.\n-- x\n\ttenant = 'x'",
    "quotes and blanks": "SET \"app\" . \"tenant\" = 'x'",
    "in a block": "BEGIN; SET app . tenant = 'x'; COMMIT",
    "in a DO block": "DO $$BEGIN SET app . tenant = 'x'; END$$",
    "a cast": CONFIG.format("'app.tenant'::text"),
    "CAST": CONFIG.format("CAST('app.tenant' AS varchar)"),
    "dollar quotes": CONFIG.format("$$app.tenant$$"),
    "two parts": CONFIG.format("'app.'\n'tenant'"),
    "a padded constant": CONFIG.format("'app.tenant  '::bpchar"),
    "a bound name": ((BOUND.format("$1"), (b"app.tenant", b"x")),),
    "a bound name with a cast": ((BOUND.format("$1::text"), (b"app.tenant", b"x")),),
    "a bound name that is padded": ((BOUND.format("$1::bpchar"), (b"app.tenant ", b"x")),),
    "CALL": "CALL set_it('app.tenant', 'x')",
    "a bound name in CALL": (("CALL set_it($1, $2)", (b"app.tenant", b"x")),),
}


@pytest.fixture
def turns(pgweir, postgres):
    """Two clients, and servers that take turns."""
    postgres.query("CREATE OR REPLACE PROCEDURE set_it(name text, value text) LANGUAGE plpgsql AS "
                   "$$ BEGIN PERFORM set_config(name, value, false); END $$")

    def start(size):
        weir = pgweir(pool_mode="transaction", default_pool_size=size, server_round_robin=1,
                      session_sample=0)
        return weir, weir.client(), weir.client()
    yield start
    postgres.query("DROP PROCEDURE set_it")


def run_all(client, texts):
    for text in (texts,) if isinstance(texts, str) else texts:
        if isinstance(text, str):
            assert not client.query(text).error
        else:
            client.send(parse(text[0]) + bind(text[1]) + execute() + sync())
            assert not client.read_result().error


@pytest.mark.parametrize("way", SPELT)
def test_a_name_in_any_spelling_follows(turns, way):
    """On one server that both have in turn, and so is cleaned; and on several."""
    asked = "SELECT coalesce(current_setting('app.tenant', true), '')"
    for size in (1, 3):
        weir, first, second = turns(size)
        run_all(first, SPELT[way])
        alternate(first, second, asked, "x", "")
        alternate(second, first, asked, "", "x")
        assert not weir.admin("SHOW PINNED")


COMPUTED = {
    "an argument of EXECUTE": (PREPARED, "EXECUTE p('app.tenant', 'x')"),
    "a computed argument of EXECUTE": (PREPARED, "EXECUTE p('app.' || 'tenant', 'x')"),
    "EXPLAIN EXECUTE": (PREPARED, "EXPLAIN ANALYZE EXECUTE p('app.tenant', 'x')"),
    "EXECUTE in a block": (PREPARED, "BEGIN", "EXECUTE p('app.tenant', 'x')", "COMMIT"),
    "CREATE TABLE AS EXECUTE": (PREPARED, "BEGIN", "CREATE TABLE made AS EXECUTE p('app.tenant', 'x')",
                                "DROP TABLE made", "COMMIT"),
    "EXECUTE in the extended protocol": (PREPARED, ("EXECUTE p('app.tenant', 'x')", ())),
    "PREPARE and EXECUTE in one text": PREPARED + "; EXECUTE p('app.tenant', 'x'); DEALLOCATE p",
    "a dynamic SET": "DO $$BEGIN EXECUTE 'SET app.' || 'tenant' || ' = 1'; END$$",
    "another type": CONFIG.format("'app.tenantx'::varchar(10)"),
    "unicode": "SET U&\"app\\002etenant\" = 'x'",
    "a unicode function": "SELECT U&\"set\\005fconfig\"('app.tenant', 'x', false)",
    "an escape string": CONFIG.format("E'app\\x2etenant'"),
    "a unicode string": CONFIG.format("U&'app!002etenant' UESCAPE '!'"),
}


@pytest.mark.parametrize("way", COMPUTED)
def test_a_name_that_is_computed_keeps_the_server(turns, way):
    weir, first, second = turns(3)
    asked = "SELECT coalesce(current_setting('app.tenant', true), '')"
    run_all(first, COMPUTED[way])
    value = first.value(asked)
    assert value
    for _ in range(4):
        assert first.value(asked) == value
        assert second.value(asked) == ""
    (pinned,) = weir.admin("SHOW PINNED")
    assert "parameters" in pinned["why"]


def test_values_that_are_no_names_are_not_asked_for(turns, postgres):
    """Only what a text binds as a name is one, however many values look like one."""
    weir, first, second = turns(3)
    values = (b"app.tenant", *(b"www.host%d" % number for number in range(1500)))
    asked = "SELECT coalesce(current_setting('app.tenant', true), '')"
    run_all(first, ("SELECT 1",))  # the catalog is read now
    text = BOUND.format("$1") + " WHERE '' NOT IN (" + ",".join(
        f"${number}" for number in range(3, len(values) + 1)) + ")"
    run_all(first, ((text, values),))
    for _ in range(3):
        assert first.value(asked) == "www.host0"
        assert second.value(asked) == ""
    assert not weir.admin("SHOW PINNED")


# ---- objects that a search_path makes temporary --------------------------------------------------

HIDDEN_TEMP = {
    "SET LOCAL": ["BEGIN", "SET LOCAL search_path = pg_temp, public", "CREATE TABLE basket (a int)",
                  "COMMIT"],
    "set_config": ["BEGIN", "SELECT set_config('search_path', 'pg_temp, public', true)",
                   "SELECT 1 AS a INTO basket", "COMMIT"],
    "a default": ["CREATE TABLE basket (a int)"],
}


@pytest.mark.parametrize("way", HIDDEN_TEMP)
def test_a_table_that_a_hidden_search_path_makes_temporary(pgweir, postgres, way):
    """Its client finds it in its later transactions, and nobody else does."""
    if way == "a default":
        postgres.query("ALTER ROLE alice SET search_path = pg_temp, public")
    weir = pgweir(pool_mode="transaction", default_pool_size=2, session_sample=0)
    try:
        first, second = weir.client(), weir.client()
        run_all(first, HIDDEN_TEMP[way])
        asked = "SELECT coalesce(to_regclass('pg_temp.basket')::text, '')"
        wait_until(lambda: weir.admin("SHOW PINNED"))
        for _ in range(3):
            assert second.value(asked) == ""
            assert first.value(asked) != ""
        first.query("DROP TABLE pg_temp.basket")
        wait_until(lambda: not weir.admin("SHOW PINNED"))
    finally:
        postgres.query("ALTER ROLE alice RESET search_path")


def test_a_schema_whose_name_has_pg_temp_in_it(one):
    weir = one()
    first, second = weir.client(), weir.client()
    first.query("SET search_path = x_pg_temp_y, \"pg_temporal\", public")
    first.query("CREATE TABLE IF NOT EXISTS permanent (a int)")
    assert not weir.admin("SHOW PINNED")
    assert second.query("DROP TABLE permanent").error is None


LOST = {
    "a local value": "BEGIN; SET LOCAL work_mem = '77kB'; COMMIT",
    "a rollback": "BEGIN; SET work_mem = '77kB'; ROLLBACK",
    "a rollback to a savepoint": "BEGIN; SAVEPOINT a; SET work_mem = '77kB'; ROLLBACK TO a; COMMIT",
    "a later error": "SET work_mem = '77kB'; SELECT 1 / 0",
    "set and reset": "SET work_mem = '77kB'; RESET work_mem",
    "DISCARD ALL": "DISCARD ALL",
}


@pytest.mark.parametrize("way", LOST)
def test_a_value_that_is_not_kept(one, way):
    weir = one()
    first, second = weir.client(), weir.client()
    normal = first.value("SHOW work_mem")
    first.query("SET work_mem = '99kB'" if way == "DISCARD ALL" else "SELECT 1")
    first.query(LOST[way])
    alternate(first, second, "SHOW work_mem", normal, normal)


@pytest.mark.parametrize("opened", (flush(), b""))
def test_a_value_in_a_block_that_no_sync_has_shown(one, opened):
    """The block is rolled back with what seems to be the only statement of its transaction."""
    weir = one()
    first, second = weir.client(), weir.client()
    second.query("SET work_mem = '77kB'")
    first.send(parse("BEGIN"), bind(), execute(), opened)
    if opened:
        assert first.read_until("C")
    first.query("SET work_mem = '77kB'")
    assert first.query("ROLLBACK").tags == ["ROLLBACK"]
    assert second.value("SHOW work_mem") == "77kB"
    assert first.value("SHOW work_mem") == "4MB"


def test_letters_in_a_value(one):
    weir = one()
    first, second = weir.client(), weir.client(client_encoding="LATIN2")
    first.query("SET app.tenant = 'žlutý жук \\'")
    second.query("SELECT 1")
    for _ in range(3):
        assert second.value("SELECT coalesce(current_setting('app.tenant', true), '')") == ""
        assert first.value("SHOW app.tenant") == "žlutý жук \\"


def test_letters_that_another_encoding_lacks(one):
    """They cannot be written in the client's encoding."""
    weir = one()
    first, second = weir.client(client_encoding="LATIN1"), weir.client()
    assert first.value("SELECT length(set_config('app.tenant', chr(382), false))") == "1"
    alternate(first, second, "SELECT ascii(coalesce(current_setting('app.tenant', true), ''))", "382", "0")


def test_too_many_values_keep_the_server(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    first, second = weir.client(), weir.client()
    first.query("SELECT set_config('app.tenant', repeat('x', 70000), false)")
    first.query("SELECT 1")
    (pinned,) = weir.admin("SHOW PINNED")
    assert pinned["why"] == "parameters"
    for _ in range(3):
        assert first.value("SELECT length(current_setting('app.tenant'))") == "70000"
        assert second.value("SELECT current_setting('app.tenant', true)") in (None, "")
    first.close()
    third = weir.client()
    for client in (second, third):
        assert client.value("SELECT current_setting('app.tenant', true)") in (None, "")


# ---- the startup's values ------------------------------------------------------------------------

BACK = ("RESET {name}", "SET {name} TO DEFAULT", "SET SESSION {name} = DEFAULT", "RESET ALL",
        "DISCARD ALL", "BEGIN; SET {name} TO DEFAULT; COMMIT")
BACK_ZONE = ("SET TIME ZONE DEFAULT", "SET TIME ZONE LOCAL")


@pytest.mark.parametrize("name, given, other", (("TimeZone", "Asia/Tokyo", "CET"),
                                                ("DateStyle", "German, DMY", "SQL, MDY"),
                                                ("work_mem", "77kB", "99kB")))
@pytest.mark.parametrize("back", BACK)
@pytest.mark.parametrize("mode", ("transaction", "session"))
def test_a_value_of_the_startup_comes_back(same_pgweir, mode, name, given, other, back):
    weir = same_pgweir(pool_mode=mode, default_pool_size=2, track_extra_parameters="work_mem")
    first, second = weir.client(**{name: given}), weir.client()
    normal = second.value(f"SHOW {name}")
    assert first.value(f"SHOW {name}") == given
    for statement in ("SELECT 1", f"SET {name} = '{other}'"):
        first.query(statement)
        assert not first.query(back.format(name=name)).error
        alternate(first, second, f"SHOW {name}", given, normal)


def test_a_function_gives_the_value_of_the_startup_back(one):
    weir = one()
    first, second = weir.client(TimeZone="Asia/Tokyo"), weir.client()
    normal = second.value("SHOW TimeZone")
    first.query("SELECT set_config('TimeZone', NULL, false)")
    alternate(first, second, "SHOW TimeZone", "Asia/Tokyo", normal)


@pytest.mark.parametrize("mode", ("transaction", "session"))
@pytest.mark.parametrize("back", BACK_ZONE)
def test_the_time_zone_comes_back(pgweir, mode, back):
    weir = pgweir(pool_mode=mode, default_pool_size=2)
    first = weir.client(TimeZone="Asia/Tokyo")
    first.query("SET TIME ZONE 'CET'")
    first.query(back)
    assert first.value("SHOW TimeZone") == "Asia/Tokyo"


@pytest.mark.parametrize("before", ("SELECT 1", "SET TimeZone = 'CET'"))
def test_a_hidden_reset_is_reported(one, postgres, before):
    """At last the client knows the value that it has, and it is that of its startup packet."""
    postgres.query("ALTER DATABASE app SET TimeZone = 'UTC'")
    try:
        weir = one()
        first, second = weir.client(TimeZone="Asia/Tokyo"), weir.client()
        known = ["Asia/Tokyo"]
        for text in (before, "DO $$ BEGIN EXECUTE 'RESET TimeZone'; END $$", "SHOW TimeZone"):
            second.query("SELECT 1")
            first.send(query(text))
            for message in first.read_until("Z"):
                if message.type == "S":
                    known.append(message.body[:-1].split(b"\0")[1].decode())
                if message.type == "D" and text.startswith("SHOW"):
                    assert message.body.endswith(b"Asia/Tokyo")
        assert known[-1] == "Asia/Tokyo", known
    finally:
        postgres.query("ALTER DATABASE app RESET TimeZone")


def test_the_default_is_no_reset(one):
    """The client wants the server's default, and not what its startup had."""
    weir = one()
    first, second = weir.client(TimeZone="Asia/Tokyo"), weir.client()
    normal = second.value("SHOW TimeZone")
    first.query(f"SELECT set_config('TimeZone', '{normal}', false)")
    alternate(first, second, "SHOW TimeZone", normal, normal)


@pytest.mark.parametrize("touch", ("SET DateStyle TO DEFAULT", "RESET work_mem", "DO 'BEGIN END'"))
def test_the_default_is_no_reset_in_a_later_transaction(one, touch):
    """On a server that another client had, nothing need be set for it."""
    weir = one()
    first, second = weir.client(TimeZone="Asia/Tokyo"), weir.client()
    normal = second.value("SHOW TimeZone")
    first.query(f"SET TimeZone = '{normal}'")
    second.query("SELECT 1")
    first.send(query(touch))
    assert "S" not in [message.type for message in first.read_until("Z")]
    alternate(first, second, "SHOW TimeZone", normal, normal)


def test_a_reset_that_is_rolled_back(one):
    weir = one(track_extra_parameters="work_mem")
    first, second = weir.client(work_mem="77kB"), weir.client()
    first.query("SET work_mem = '99kB'")
    first.query("BEGIN; RESET work_mem; ROLLBACK")
    normal = second.value("SHOW work_mem")
    alternate(first, second, "SHOW work_mem", "99kB", normal)


def test_a_value_of_the_startup_comes_back_while_the_server_stays(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    first = weir.client(TimeZone="Asia/Tokyo")
    first.query("CREATE TEMP TABLE mine (a int)")
    pid = first.value(PID)
    first.query("SET TimeZone = 'CET'")
    first.query("RESET TimeZone")
    assert first.value("SHOW TimeZone") == "Asia/Tokyo"
    assert first.value(PID) == pid


# ---- connect_query -------------------------------------------------------------------------------

CONNECT = ("connect_query='SET work_mem = ''77kB''; SET app.kind = ''plain'';"
           " SET TimeZone = ''Asia/Tokyo'''")
CONNECTED = ("SELECT concat_ws(' ', current_setting('work_mem'), current_setting('app.kind'),"
             " current_setting('TimeZone'))")


@pytest.mark.parametrize("touch", (
    "SET app.other = 'x'", "DO 'BEGIN NULL; END'", "RESET ALL", "DISCARD ALL", "RESET work_mem",
    "SET work_mem TO DEFAULT", "SET work_mem = '77kB'"))
def test_what_connect_query_sets_stays(one, touch):
    weir = one(databases={"app": CONNECT})
    first, second = weir.client(), weir.client()
    normal = "77kB plain Asia/Tokyo"
    alternate(first, second, CONNECTED, normal, normal)
    first.query(touch)
    alternate(first, second, CONNECTED, normal, normal)


def test_a_value_in_place_of_that_of_connect_query(one):
    weir = one(databases={"app": CONNECT})
    first, second = weir.client(), weir.client()
    first.query("SET work_mem = '99kB'")
    first.query("SELECT set_config('app.kind', 'special', false)")
    alternate(first, second, CONNECTED, "99kB special Asia/Tokyo", "77kB plain Asia/Tokyo")
    first.query("RESET work_mem")
    alternate(first, second, CONNECTED, "77kB special Asia/Tokyo", "77kB plain Asia/Tokyo")


def test_what_connect_query_sets_after_a_client_that_left_state(one):
    weir = one(databases={"app": CONNECT})
    first = weir.client()
    first.query("CREATE TEMP TABLE mine (a int)")
    first.close()
    assert weir.client().value(CONNECTED) == "77kB plain Asia/Tokyo"


def test_a_connect_query_that_sets_a_role(superuser, roles):
    weir, client = superuser(databases={
        "app": "user=postgres connect_query='SET ROLE follows_one'"})
    first, second = client(), client()
    alternate(first, second, WHO, "follows_one postgres", "follows_one postgres")
    first.query("SET ROLE follows_two")
    alternate(first, second, WHO, "follows_two postgres", "follows_one postgres")
    first.query("RESET ROLE")
    alternate(first, second, WHO, "follows_one postgres", "follows_one postgres")


# ---- roles ---------------------------------------------------------------------------------------

WHO = "SELECT current_user || ' ' || session_user"


@pytest.fixture
def roles(postgres):
    postgres.query("CREATE ROLE follows_one")
    postgres.query("CREATE ROLE follows_two")
    yield
    for name in ("follows_one", "follows_two"):
        postgres.query(f"DROP ROLE IF EXISTS {name}")


def test_a_role_follows(superuser, roles):
    weir, client = superuser()
    first, second, third = client(), client(), client()
    first.query("SET ROLE follows_one")
    second.query("SET ROLE follows_two")
    for _ in range(2):
        assert first.value(WHO) == "follows_one postgres"
        assert second.value(WHO) == "follows_two postgres"
        assert third.value(WHO) == "postgres postgres"
    first.query("RESET ROLE")
    second.query("SET ROLE NONE")
    for one_of in (first, second, third):
        assert one_of.value(WHO) == "postgres postgres"


def test_what_was_set_before_the_role(superuser, roles):
    """The role must not set log_statement, and must not read where libraries are."""
    weir, client = superuser()
    first, second = client(), client()
    first.query("SET log_min_duration_statement = '17min'")
    first.query("SET dynamic_library_path = '$libdir:/nowhere'")
    first.query("SET ROLE follows_one")
    for _ in range(3):
        assert second.value("SHOW log_min_duration_statement") == "-1"
        assert second.value("SHOW dynamic_library_path") == "$libdir"
        assert first.value("SHOW log_min_duration_statement") == "17min"
        assert first.value(WHO) == "follows_one postgres"
    first.query("SET work_mem = '77kB'")
    assert second.value("SHOW work_mem") != "77kB"
    assert first.value("SHOW work_mem") == "77kB"
    first.query("RESET ROLE")
    assert first.value("SHOW dynamic_library_path") == "$libdir:/nowhere"


def test_a_role_within_a_session_authorization(superuser, roles, postgres):
    postgres.query("GRANT follows_two TO follows_one")
    weir, client = superuser()
    first, second = client(), client()
    first.query("SET SESSION AUTHORIZATION follows_one")
    first.query("SET ROLE follows_two")
    alternate(first, second, WHO, "follows_two follows_one", "postgres postgres")
    first.query("RESET SESSION AUTHORIZATION")
    alternate(first, second, "SELECT session_user", "postgres", "postgres")


def test_a_role_after_discard_all(one, roles, postgres):
    """DISCARD ALL, which cleans the server of a pinned client, sets the role back to its default."""
    postgres.query("DROP ROLE IF EXISTS follows_login")
    postgres.query("CREATE ROLE follows_login LOGIN SUPERUSER")
    postgres.query("ALTER ROLE follows_login SET role = 'follows_one'")
    weir = one(databases={"app": "user=follows_login"})
    first, second, third = weir.client(), weir.client(), weir.client()
    first.query("SET ROLE follows_two")
    second.query("SET ROLE NONE; CREATE TEMP TABLE held (); SET ROLE follows_two")
    second.close()
    assert first.value(WHO) == "follows_two follows_login"
    assert third.value(WHO) == "follows_one follows_login"


def test_a_role_that_cannot_be_set_any_more(superuser, roles, postgres):
    weir, client = superuser()
    first, second = client(), client()
    first.query("SET ROLE follows_one")
    assert second.value(WHO) == "postgres postgres"
    postgres.query("DROP ROLE follows_one")
    first.send(query("SELECT 1"))
    error = first.read_refusal()
    assert "follows_one" in error.fields["M"]
    assert second.value(WHO) == "postgres postgres"


def test_reports_of_a_role_come_once(superuser, roles):
    """is_superuser is reported when the role changes: to its client, and to no other."""
    weir, client = superuser()
    first, second = client(), client()
    result = first.query("SET ROLE follows_one")
    assert "S" in result.types
    for _ in range(3):
        assert second.query("SELECT 1").types == "TDCZ"
        assert first.query("SELECT 1").types == "TDCZ"
    assert "S" in first.query("RESET ROLE").types


# ---- prepared statements -------------------------------------------------------------------------

@pytest.fixture
def two_schemas(postgres):
    for name in ("first_one", "second_one"):
        postgres.query(f"CREATE SCHEMA {name}")
        postgres.query(f"CREATE TABLE {name}.t AS SELECT '{name}'::text AS a")
    postgres.query("GRANT USAGE ON SCHEMA first_one, second_one TO PUBLIC")
    postgres.query("GRANT SELECT ON first_one.t, second_one.t TO PUBLIC")
    yield
    postgres.query("DROP SCHEMA first_one, second_one CASCADE")


def run(name):
    return bind(name=name) + execute()


def test_a_statement_is_prepared_in_its_scope(one, two_schemas):
    weir = one()
    first, second = weir.client(), weir.client()
    first.query("SET search_path = first_one")
    second.query("SET search_path = second_one")
    for _ in range(2):
        for client, name in ((first, "first_one"), (second, "second_one")):
            client.send(parse("SELECT a FROM t", f"s{_}") + run(f"s{_}") + sync())
            assert client.read_result().rows == [[name]]
    for client, name in ((first, "first_one"), (second, "second_one")):
        client.send(run("s0") + sync())
        assert client.read_result().rows == [[name]]


def test_a_statement_in_the_transaction_that_sets_the_scope(one, two_schemas):
    """What search_path is, is not known before the transaction ends."""
    weir = one()
    first, second = weir.client(), weir.client()
    second.send(parse("SET search_path = second_one", "") + bind() + execute() + sync())
    second.read_result()
    first.send(query("BEGIN") + query("SET search_path = first_one")
               + parse("SELECT a FROM t", "mine") + run("mine") + sync() + query("COMMIT"))
    for _ in range(2):
        assert not first.read_result().error
    assert first.read_result().rows == [["first_one"]]
    first.read_result()
    second.send(parse("SELECT a FROM t", "mine") + run("mine") + sync())
    assert second.read_result().rows == [["second_one"]]
    third = weir.client()
    third.send(parse("SELECT a FROM t", "mine") + run("mine") + sync())
    assert third.read_result().error["C"] == "42P01"
    first.send(run("mine") + sync())
    assert first.read_result().rows == [["first_one"]]


def test_a_statement_behind_set_in_the_same_pipeline(one, two_schemas):
    weir = one()
    first, second = weir.client(), weir.client()
    for client, name in ((first, "first_one"), (second, "second_one")):
        client.send(parse(f"SET search_path = {name}") + bind() + execute()
                    + parse("SELECT a FROM t", "mine") + run("mine") + sync())
        assert client.read_result().rows == [[name]]
    third = weir.client()
    third.send(parse("SELECT a FROM t", "mine") + run("mine") + sync())
    assert third.read_result().error["C"] == "42P01"
    for client, name in ((first, "first_one"), (second, "second_one")):
        client.send(run("mine") + sync())
        assert client.read_result().rows == [[name]]


ODD = "SELECT a = NULL FROM (VALUES (NULL::int)) AS v (a)"
ODD_ON = "SET transform_null_equals = on"


@pytest.mark.parametrize("begins", (True, False))
def test_a_statement_that_means_something_else(one, begins):
    """How PostgreSQL has read it cannot be changed any more, and is not reported."""
    weir = one()
    first, second, third = weir.client(), weir.client(), weir.client()
    second.send(parse(ODD, "mine") + run("mine") + sync())
    assert second.read_result().rows == [[None]]
    if begins:
        first.query("BEGIN")
    first.send(parse(ODD_ON) + bind() + execute() + parse(ODD, "mine") + run("mine") + sync())
    assert first.read_result().rows == [["t"]]
    if begins:
        first.query("COMMIT")
    for client in (second, third):
        client.send((parse(ODD, "mine") if client is third else b"") + run("mine") + sync())
        assert client.read_result().rows == [[None]]
    first.send(run("mine") + sync())
    assert first.read_result().rows == [["t"]]
    second.send(run("mine") + sync())
    assert second.read_result().rows == [[None]]


def test_a_date_that_means_another_day(one):
    """The report comes too late for a statement in the same write."""
    weir = one()
    text = "SELECT extract(month FROM '01/02/2024'::date)::int"
    first, second = weir.client(), weir.client()
    first.send(parse("SET DateStyle = 'ISO, DMY'") + bind() + execute()
               + parse(text, "mine") + run("mine") + sync())
    assert first.read_result().rows == [["2"]]
    second.send(parse(text, "mine") + run("mine") + sync())
    assert second.read_result().rows == [["1"]]
    first.send(run("mine") + sync())
    assert first.read_result().rows == [["2"]]


def test_a_statement_behind_a_local_set(one, two_schemas):
    """SET LOCAL is not kept, but a statement that is prepared behind it must not be another's."""
    weir = one()
    first, second = weir.client(), weir.client()
    first.send(query("BEGIN") + query("SET LOCAL search_path = first_one")
               + parse("SELECT a FROM t", "mine") + run("mine") + sync() + query("COMMIT"))
    for _ in range(2):
        first.read_result()
    assert first.read_result().rows == [["first_one"]]
    first.read_result()
    second.send(parse("SELECT a FROM t", "mine") + run("mine") + sync())
    assert second.read_result().error["C"] == "42P01"


# ---- libraries ----------------------------------------------------------------------------------


def test_a_library_follows_its_client(superuser):
    weir, client = superuser()
    first, second = client(), client()
    assert second.value(HAS_LIBRARY) == "0"
    first.query(f"LOAD '{LIBRARY}'")
    first.query(f"SET {LIBRARY}.log_min_duration = '1h'")
    for _ in range(3):
        assert second.value(HAS_LIBRARY) == "0"
        assert first.value(HAS_LIBRARY) == "1"
        assert first.value(f"SHOW {LIBRARY}.log_min_duration") == "1h"
    assert weir.log.count("a client has loaded a library") >= 3


def test_a_library_removes_placeholders_of_its_name(superuser):
    """PostgreSQL 15 does; then the next server would refuse the placeholder."""
    _, client = superuser()
    first, second = client(), client()
    first.query(f"SET {LIBRARY}.nonsense = '1'")
    first.query(f"LOAD '{LIBRARY}'")
    has = first.value(f"SELECT current_setting('{LIBRARY}.nonsense', true)")
    for _ in range(3):
        assert second.value(HAS_LIBRARY) == "0"
        assert first.value(f"SELECT current_setting('{LIBRARY}.nonsense', true)") == has


def test_two_clients_with_a_library_share_servers(superuser):
    weir, client = superuser()
    first, second = client(), client()
    first.query(f"LOAD '{LIBRARY}'")
    second.query(f"LOAD '{LIBRARY}'")
    pid = second.value(PID)
    assert [first.value(PID), second.value(PID), first.value(PID)] == [pid] * 3


def test_a_library_that_is_not_there(superuser):
    weir, client = superuser()
    first, second = client(), client()
    assert first.query("LOAD 'nowhere'").error["C"] == "58P01"
    pid = second.value(PID)
    assert first.value(PID) == pid
    assert first.value("SELECT 1") == "1"


def test_one_library_of_two_is_there(superuser):
    """Which of the two was loaded is not known: the server stays."""
    weir, client = superuser()
    first, second = client(), client()
    first.query("BEGIN")
    first.query("SAVEPOINT a")
    assert first.query("LOAD 'nowhere'").error
    first.query("ROLLBACK TO a")
    first.query(f"LOAD '{LIBRARY}'")
    first.query("COMMIT")
    assert first.value(HAS_LIBRARY) == "1"
    (pinned,) = weir.admin("SHOW PINNED")
    assert pinned["why"] == "library"
    first.close()
    assert second.value(HAS_LIBRARY) == "0"


def test_a_library_stays_loaded_after_a_rollback(superuser):
    weir, client = superuser()
    first, second = client(), client()
    first.query("BEGIN")
    first.query(f"LOAD '{LIBRARY}'")
    first.query("ROLLBACK")
    assert second.value(HAS_LIBRARY) == "0"
    assert first.value(HAS_LIBRARY) == "1"
    first.query("DISCARD ALL")
    assert second.value(HAS_LIBRARY) == "0"
    assert first.value(HAS_LIBRARY) == "1"


def test_a_client_that_loaded_a_library_leaves_in_its_transaction(superuser):
    weir, client = superuser()
    first, second = client(), client()
    first.query("BEGIN")
    first.query(f"LOAD '{LIBRARY}'")
    first.close()
    assert second.value(HAS_LIBRARY) == "0"


def test_a_library_in_session_mode(pgweir):
    weir = pgweir(pool_mode="session", default_pool_size=1, databases={"app": "user=postgres"})
    first = weir.client()
    first.query(f"LOAD '{LIBRARY}'")
    pid = first.value(PID)
    first.close()
    second = weir.client()
    assert second.value(HAS_LIBRARY) == "0"
    assert second.value(PID) != pid


# ---- options of the startup packet ---------------------------------------------------------------

@pytest.mark.parametrize("mode", ("transaction", "session"))
@pytest.mark.parametrize("order", (("options", "work_mem"), ("work_mem", "options")))
def test_a_parameter_given_directly_wins_over_options(pgweir, mode, order):
    given = {"options": "-c work_mem=6MB -c app.one=x", "work_mem": "5MB"}
    given = {name: given[name] for name in order}
    client = pgweir(pool_mode=mode).client(**given)
    for _ in range(2):
        assert client.value("SHOW work_mem") == "5MB"
        assert client.value("SHOW app.one") == "x"


# ---- what outlives DISCARD ALL -------------------------------------------------------------------

ORIGIN = "SELECT pg_replication_origin_session_setup('origin_{}')"
HAS_ORIGIN = "SELECT pg_replication_origin_session_is_setup()"


@pytest.fixture
def origin(postgres):
    name = postgres.value("SELECT 'n' || floor(random() * 1e9)::text")
    postgres.query(f"SELECT pg_replication_origin_create('origin_{name}')")
    return ORIGIN.format(name)


def run_query(client, text):
    assert not client.query(text).error


def run_prepared(client, text):
    client.send(parse(text, "s") + bind(name="s") + execute() + sync())
    assert not client.read_result().error


@pytest.mark.parametrize("run", (run_query, run_prepared))
@pytest.mark.parametrize("mode", ("transaction", "session"))
def test_what_outlives_discard_all_is_left_to_nobody(pgweir, origin, mode, run):
    weir = pgweir(pool_mode=mode, default_pool_size=1, databases={"app": "user=postgres"})
    first = weir.client()
    run_all(first, origin)
    first.query("DISCARD ALL")
    assert first.value(HAS_ORIGIN) == "t"
    pid = first.value(PID)
    first.close()
    second = weir.client()
    assert second.value(HAS_ORIGIN) == "f"
    assert second.value(PID) != pid


def test_set_config_by_a_function_call(pgweir, postgres):
    """The server stays with its client: which parameter it is is not looked for."""
    number = int(postgres.value("SELECT 'set_config'::regproc::oid::bigint"))
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    first, second = weir.client(), weir.client()
    values = b"".join(struct.pack("!i", len(value)) + value for value in (b"app.tenant", b"mine", b"f"))
    first.send(message("F", struct.pack("!IHH", number, 0, 3) + values + struct.pack("!H", 0)))
    assert not first.read_result().error
    asked = "SELECT coalesce(current_setting('app.tenant', true), '')"
    for _ in range(3):
        assert first.value(asked) == "mine"
        assert second.value(asked) == ""
    assert "parameters" in str(weir.admin("SHOW PINNED"))


@pytest.mark.parametrize("mode", ("transaction", "session"))
def test_nor_by_a_function_call(pgweir, postgres, origin, mode):
    name = "'pg_replication_origin_session_setup'::regproc"
    number = int(postgres.value(f"SELECT {name}::oid::bigint"))
    values = [origin.split("'")[1].encode()]
    if int(postgres.value(f"SELECT pronargs FROM pg_proc WHERE oid = {name}")) == 2:
        values.append(b"0")  # PostgreSQL 19: the process that has it already, and 0 for none
    arguments = b"".join(struct.pack("!i", len(value)) + value for value in values)
    weir = pgweir(pool_mode=mode, default_pool_size=1, databases={"app": "user=postgres"})
    first = weir.client()
    first.send(message("F", struct.pack("!IHH", number, 0, len(values)) + arguments + struct.pack("!H", 0)))
    assert not first.read_result().error
    assert first.value(HAS_ORIGIN) == "t"
    first.close()
    assert weir.client().value(HAS_ORIGIN) == "f"


# What it has done when its client leaves within the transaction.
UNFINISHED = {
    "an origin": (None, HAS_ORIGIN, "f"),
    "a library": ("DO $$ BEGIN EXECUTE 'LOAD ''auto_explain'''; END $$",
                  "SELECT count(*) FROM pg_settings WHERE name LIKE 'auto_explain%'", "0"),
}


@pytest.mark.parametrize("what", UNFINISHED)
def test_nor_by_who_leaves_in_the_transaction(pgweir, origin, what):
    text, look, clean = UNFINISHED[what]
    weir = pgweir(pool_mode="transaction", default_pool_size=1, databases={"app": "user=postgres"})
    first = weir.client()
    first.query("BEGIN")
    assert not first.query(text or origin).error
    first.close()
    assert weir.client().value(look) == clean


def test_an_origin_keeps_its_server_after_discard_all(pgweir, origin):
    weir = pgweir(pool_mode="transaction", default_pool_size=2,
                  databases={"app": "user=postgres"})
    first, second = weir.client(), weir.client()
    first.query(origin)
    first.query("DISCARD ALL")
    for _ in range(3):
        assert second.value(HAS_ORIGIN) == "f"
        assert first.value(HAS_ORIGIN) == "t"


def test_other_clients_in_session_mode_keep_their_server(pgweir):
    weir = pgweir(pool_mode="session", default_pool_size=1)
    first = weir.client()
    pid = first.value(PID)
    first.close()
    assert weir.client().value(PID) == pid


# ---- startup values within a transaction ---------------------------------------------------------

MODES = pytest.mark.parametrize("mode", ("transaction", "session"))
GIVEN = {"search_path": "odd, \"S 2\", public", "work_mem": "77kB", "DateStyle": "German, DMY"}
RESETS = ("RESET {}", "SET {} TO DEFAULT", "SET SESSION {} = DEFAULT", "RESET ALL",
          "SELECT 1; RESET {}", "RESET ALL; CLOSE ALL; SELECT pg_advisory_unlock_all()")


def extended(text):
    return parse(text) + bind() + execute()


def reports(messages):
    return [got.body.split(b"\0")[:2] for got in messages if got.type == "S"]


@MODES
def test_long_startup_values_are_back_at_once(pgweir, mode):
    """What sets them back is longer than what a batch has room for."""
    path = ", ".join(f"schema_{number}" for number in range(300))
    client = pgweir(pool_mode=mode).client(**{**GIVEN, "search_path": path})
    client.query("BEGIN")
    client.query("RESET ALL")
    assert client.value("SHOW search_path") == path
    client.query("COMMIT")
    client.send(extended("RESET ALL") + extended("SHOW search_path") + sync())
    assert client.read_result().rows == [[path]]


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("reset", RESETS)
@MODES
def test_a_startup_value_is_back_at_once(same_pgweir, mode, name, reset):
    weir = same_pgweir(pool_mode=mode, default_pool_size=2)
    client, other = weir.client(**GIVEN), weir.client()
    normal, mine = other.value(f"SHOW {name}"), client.value(f"SHOW {name}")
    assert mine != normal
    for begin in ("BEGIN", f"BEGIN; SET {name} TO DEFAULT"):
        client.query(begin)
        assert not client.query(reset.format(name)).error
        assert client.value(f"SHOW {name}") == mine
        client.query("COMMIT")
    for _ in range(2):
        assert other.value(f"SHOW {name}") == normal
        assert client.value(f"SHOW {name}") == mine


@MODES
def test_a_startup_value_is_back_in_the_extended_protocol(pgweir, mode):
    client = pgweir(pool_mode=mode).client(**GIVEN)
    for steps in ([extended("BEGIN"), extended("RESET work_mem"), extended("SHOW work_mem"), sync()],
                  [extended("COMMIT"), extended("RESET ALL"), extended("SHOW work_mem"), sync()],
                  [extended("BEGIN"), sync(), extended("RESET work_mem"), sync(),
                   extended("SHOW work_mem"), sync()],
                  [query("RESET work_mem"), extended("SHOW work_mem"), sync()],
                  [query("COMMIT"), query("RESET work_mem"), query("SHOW work_mem")]):
        client.send(b"".join(steps))
        ends = sum(step[:1] in b"QS" for step in steps)
        result = [client.read_result() for _ in range(ends)][-1]
        assert result.rows[-1][0] == "77kB", (len(steps), ends)


@MODES
def test_what_is_set_behind_a_reset_stays(pgweir, mode):
    client = pgweir(pool_mode=mode).client(**GIVEN)
    for texts in (["RESET work_mem; SET work_mem = '99kB'"],
                  ["RESET work_mem", "SET work_mem = '99kB'"],
                  ["SAVEPOINT a", "RESET work_mem", "SET work_mem = '99kB'", "RELEASE a"]):
        client.query("BEGIN")
        for text in texts:
            assert not client.query(text).error
        assert client.value("SHOW work_mem") == "99kB"
        client.query("COMMIT")
        assert client.value("SHOW work_mem") == "99kB"
        client.query("BEGIN; SET work_mem = '55kB'")
        client.query("RESET work_mem")
        client.query("ROLLBACK")
        assert client.value("SHOW work_mem") == "99kB"


@MODES
def test_a_reset_takes_no_snapshot(pgweir, mode):
    client = pgweir(pool_mode=mode).client(**GIVEN)
    client.query("BEGIN")
    client.query("RESET ALL")
    assert not client.query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").error
    client.query("SELECT 1 / 0")
    assert client.query("RESET ALL").error["C"] == "25P02"
    assert client.query("SHOW work_mem").error["C"] == "25P02"
    client.query("ROLLBACK")
    assert client.value("SHOW work_mem") == "77kB"


def test_statements_behind_a_reset_in_one_text(one):
    weir = one()
    client, other = weir.client(**GIVEN), weir.client(application_name="x")
    for text in ("RESET ALL; SELECT 1", "BEGIN; RESET search_path; SELECT 1; COMMIT",
                 "BEGIN; RESET work_mem; ROLLBACK"):
        assert client.query(text).error["C"] == "0A000"
        client.query("ROLLBACK")
        assert client.value("SHOW work_mem") == "77kB"
        assert not other.query(text).error
    assert not client.query("RESET geqo; SELECT 1").error


@MODES
def test_a_reset_in_a_text_with_a_backslash(pgweir, mode):
    client = pgweir(pool_mode=mode, default_pool_size=2).client(**GIVEN)
    for conforming in ("on", "off"):
        client.query(f"SET standard_conforming_strings = {conforming}")
        for text in ("SELECT 'a\\b'; RESET work_mem", "SELECT E'\\''; RESET work_mem",
                     "SELECT 'it''s \\\\'; RESET work_mem"):
            client.query("BEGIN")
            assert not client.query(text).error, text
            assert client.value("SHOW work_mem") == "77kB", text
            client.query("COMMIT")
            assert client.value("SHOW work_mem") == "77kB", text
        # with one of the two it is a string
        client.query("BEGIN")
        error = client.query("SELECT '\\'; RESET work_mem --'").error
        assert not error if mode == "session" else error["C"] == "0A000"
        client.query("COMMIT")
        assert client.value("SHOW work_mem") == "77kB"


def test_statements_behind_a_reset_in_a_text_with_a_backslash(one):
    weir = one()
    client, other = weir.client(**GIVEN), weir.client(application_name="x")
    for conforming in ("on", "off"):
        client.query(f"SET standard_conforming_strings = {conforming}")
        other.query(f"SET standard_conforming_strings = {conforming}")
        for text in ("RESET work_mem; SELECT 'a\\b'",
                     # with one of the two it is a comment or a string
                     "SELECT '\\'; RESET work_mem; SELECT 1 --'",
                     "RESET search_path; SELECT '\\'; SELECT 2 --'"):
            assert client.query(text).error["C"] == "0A000", text
            assert client.value("SHOW work_mem") == "77kB", text
            assert not other.query(text).error, text


@MODES
@pytest.mark.parametrize("name", GIVEN)
def test_a_startup_value_is_the_default_of_set_local(pgweir, mode, name):
    weir = pgweir(pool_mode=mode, default_pool_size=2)
    client, other = weir.client(**GIVEN), weir.client()
    mine, odd = client.value(f"SHOW {name}"), {"work_mem": "99kB", "DateStyle": "SQL, MDY"}.get(name, "pg_catalog")
    for before in ("SELECT 1", f"SET LOCAL {name} = {odd!r}", f"SET {name} = {odd!r}"):
        client.query("BEGIN")
        client.query(before)
        client.query(f"SET LOCAL {name} TO DEFAULT")
        assert client.value(f"SHOW {name}") == mine, before
        client.query(f"SET LOCAL {name} = {odd!r}")
        assert client.value(f"SHOW {name}") == odd, before
        client.send(query(f"SET LOCAL {name} TO DEFAULT") + query("SAVEPOINT a") + query(f"SHOW {name}"))
        assert [client.read_result() for _ in range(3)][-1].rows == [[mine]]
        client.query("COMMIT")
        assert client.value(f"SHOW {name}") == (odd if before.startswith("SET " + name) else mine), before
        assert other.value(f"SHOW {name}") != mine
    assert client.query(f"SET LOCAL {name} TO DEFAULT; SHOW {name}").error or mode == "session"


@MODES
def test_set_local_to_default_in_the_extended_protocol(pgweir, mode):
    client = pgweir(pool_mode=mode).client(**GIVEN)
    for begin in (extended("BEGIN"), extended("BEGIN") + sync()):
        client.send(begin + extended("SET LOCAL work_mem = '99kB'") + extended("SET LOCAL work_mem TO DEFAULT")
                    + extended("SHOW work_mem") + extended("COMMIT") + extended("SHOW work_mem") + sync())
        results = [client.read_result() for _ in range(begin[-5:] == sync() and 2 or 1)]
        assert results[-1].rows == [["77kB"], ["77kB"]]
        assert not [got for got in results[-1].messages if got.type == "N"]
    client.send(extended("SET LOCAL work_mem TO DEFAULT") + extended("SHOW work_mem") + sync())
    result = client.read_result()
    assert result.rows == [["77kB"]]
    assert result.types.count("N") == 1  # that it has no effect outside of a transaction block


@MODES
def test_a_client_is_not_told_the_value_of_the_server_by_set_local(pgweir, mode):
    client = pgweir(pool_mode=mode, default_pool_size=1).client(DateStyle="German, DMY")
    for before, told in ((None, []), ("SET DateStyle = 'SQL, DMY'", [b"SQL, DMY", b"German, DMY", b"SQL, DMY"])):
        got = []
        for text in (before or "SELECT 1", "BEGIN", "SET LOCAL DateStyle TO DEFAULT", "SELECT 1", "COMMIT"):
            client.send(query(text))
            got += client.read_until("Z")
        assert [value for _, value in reports(got)] == told
        got = []
        for text in ("BEGIN", "SET LOCAL DateStyle TO DEFAULT", "COMMIT"):
            client.send(query(text))
            got += client.read_until("Z")
        assert [value for _, value in reports(got)] == told[1:]


@MODES
@pytest.mark.parametrize("begin, text", [("SELECT 1", "SET LOCAL DateStyle TO DEFAULT"),
                                         ("BEGIN", "SET LOCAL DateStyle TO DEFAULT; COMMIT")])
def test_set_local_tells_nothing_when_its_transaction_has_ended(pgweir, mode, begin, text):
    client = pgweir(pool_mode=mode, default_pool_size=1).client(DateStyle="German, DMY")
    for sql in ("SET DateStyle = 'SQL, DMY'", begin):
        client.query(sql)
    for sql in (text, "SELECT 1"):
        client.send(query(sql))
        assert reports(client.read_until("Z")) == [], sql
    assert client.value("SHOW DateStyle") == "SQL, DMY"


@MODES
@pytest.mark.parametrize("block", (False, True))
def test_a_client_is_not_told_the_value_of_the_server(pgweir, mode, block):
    """PostgreSQL would report nothing if the client has its startup value, or else that value."""
    client = pgweir(pool_mode=mode, default_pool_size=1).client(DateStyle="German, DMY")
    mine = [b"DateStyle", b"German, DMY"]
    client.query("SELECT 1")
    for before, told in (("SELECT 1", []), ("SET DateStyle = 'SQL, DMY'", [mine])):
        for reset in ("RESET DateStyle", "RESET ALL", "SET DateStyle TO DEFAULT", "DISCARD ALL"):
            if block and reset == "DISCARD ALL":
                continue
            client.query(before)
            got = []
            for text in ("BEGIN", reset, "SELECT 1", "COMMIT") if block else (reset, "SELECT 1"):
                client.send(query(text))
                got += client.read_until("Z")
            assert reports(got) == told, (before, reset)
            assert client.value("SHOW DateStyle") == "German, DMY"


@MODES
def test_a_client_is_told_what_it_has_set_behind_a_reset(pgweir, mode):
    weir = pgweir(pool_mode=mode, default_pool_size=1)
    normal = weir.client().value("SHOW DateStyle") if mode == "transaction" else "ISO, MDY"
    client = weir.client(DateStyle="German, DMY")
    client.send(query(f"RESET ALL; SET DateStyle = '{normal}'"))
    got = client.read_until("Z")
    client.send(query("SHOW DateStyle"))
    got += client.read_until("Z")
    assert reports(got)[-1] == [b"DateStyle", normal.encode()]
    assert client.value("SHOW DateStyle") == normal


NATIVE = "SELECT encode(convert_to(current_setting('{}', true), 'UTF8'), 'hex')"


def test_custom_parameter_that_is_not_ascii_and_another_encoding(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=3, server_round_robin=1)
    client, other = weir.client(), weir.client()
    client.query("SET app.user_id = 'ä'")
    client.query("SET client_encoding = LATIN1")
    asked = NATIVE.format("app.user_id")
    for sql in ("SELECT 1", "RESET TIME ZONE", "SELECT 2"):
        client.query(sql)
        assert client.value(asked) == "c3a4", sql
        assert other.value("SELECT current_setting('app.user_id', true)") in (None, "")
    client.query(b"SET app.user_id = '\xe9'")
    client.query("RESET client_encoding")
    for _ in range(4):
        assert client.value(asked) == "c3a9"
    assert not weir.admin("SHOW PINNED")
    client.query("DISCARD ALL")
    assert client.value(asked) in (None, "")


@pytest.mark.parametrize("startup", ({}, {"options": "-c app.user_id=options"}, {"app.user_id": "ö"}))
@pytest.mark.parametrize("encoding", ("LATIN1", "SQL_ASCII", "SJIS"))
def test_a_value_that_is_not_ascii_replaces_that_of_the_startup(pgweir, encoding, startup):
    weir = pgweir(pool_mode="transaction", default_pool_size=3, server_round_robin=1)
    client, others = weir.client(client_encoding=encoding, **startup), [weir.client() for _ in range(2)]
    asked = NATIVE.format("app.user_id")
    client.query("SET app.user_id = E'\\xc3\\xa4'")
    for sql in ("SELECT 1", "SET default_transaction_read_only TO off", "SET work_mem = '77kB'", "RESET work_mem"):
        assert not client.query(sql).error
        for other in others:
            assert other.value("SELECT current_setting('app.user_id', true)") in (None, "")
        assert client.value(asked) == "c3a4", sql
    client.query("RESET app.user_id")
    assert client.value(asked) == ({"options": "options".encode().hex(), "app.user_id": "c3b6"}[min(startup)]
                                   if startup else "")


@MODES
def test_a_startup_value_that_is_not_ascii_and_another_encoding(pgweir, mode):
    """PostgreSQL takes the bytes of the startup packet to be in the encoding of the database."""
    weir = pgweir(pool_mode=mode, default_pool_size=2)
    clients = [weir.client(client_encoding="LATIN1", search_path=f"{name}, public") for name in "äö"]
    for sql in ("SELECT 1", "RESET search_path", "SET work_mem = '77kB'", "BEGIN; RESET search_path; COMMIT"):
        for client, first in zip(clients, ("c3a4", "c3b6")):
            assert not client.query(sql).error
            assert client.value(NATIVE.format("search_path")).startswith(first + "2c"), sql


def test_a_role_that_is_not_ascii_and_another_encoding(superuser, postgres):
    """Its report is in the client's encoding: another role may have a name of these bytes."""
    weir, connect = superuser()
    for role in ("ä", "Ã¤"):
        postgres.query(f'CREATE ROLE "{role}"')
    first, second = connect(client_encoding="LATIN1"), connect()
    asked = NATIVE.format("session_authorization")
    for text in ('SET SESSION AUTHORIZATION "Ã¤"', "SELECT set_config('session_authorization', 'Ã¤', false)"):
        assert not first.query(text.encode("latin1")).error
        alternate(first, second, asked, "Ã¤".encode().hex(), "postgres".encode().hex())
        first.query("RESET SESSION AUTHORIZATION")
        alternate(first, second, asked, "postgres".encode().hex(), "postgres".encode().hex())


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_value_set_after_a_reset_is_reported(pgweir, mode):
    """It is the server's own value, so a RESET would have the same report."""
    client = pgweir(pool_mode=mode).client(client_encoding="LATIN1")
    client.query("BEGIN")
    client.query("SET TIME ZONE DEFAULT")
    told = client.query("SET client_encoding = UTF8")
    assert [message.body for message in told.messages if message.type == "S"] == [
        b"client_encoding\0UTF8\0"]


@MODES
@pytest.mark.parametrize("before, reset, value", (
    ([], "RESET ALL", "iso_8601"), (["BEGIN"], "RESET ALL", "iso_8601"), ([], "RESET IntervalStyle", "iso_8601"),
    (["BEGIN"], "SET IntervalStyle TO DEFAULT", "iso_8601"), ([], "RESET ALL; SELECT 1/0", None)))
def test_a_startup_value_that_is_back_is_reported(pgweir, mode, before, reset, value):
    """PostgreSQL reports nothing: the server had its own value before, too."""
    client = pgweir(pool_mode=mode).client(options="-c IntervalStyle=iso_8601")
    for sql in [*before, "SET IntervalStyle = postgres"]:
        client.query(sql)
    result = client.query(reset)
    told = reports(result.messages)
    assert told == ([[b"IntervalStyle", value.encode()]] if value else [])
    assert client.value("SHOW IntervalStyle") == (value or "postgres")


@MODES
@pytest.mark.parametrize("sample", (1, 10000))
def test_a_custom_startup_value_is_back(pgweir, mode, sample):
    """PostgreSQL shows "" for what was reset, as if the client had set that."""
    weir = pgweir(pool_mode=mode, session_sample=sample, default_pool_size=2)
    client, asked = weir.client(options="-c app.tenant=mine"), "SELECT current_setting('app.tenant', true)"
    for reset in ("RESET app.tenant", "RESET ALL", "SET app.tenant TO DEFAULT", "DISCARD ALL"):
        assert not client.query(reset).error
        assert client.value(asked) == "mine", reset
    for kept in ("RESET app.tenant; SET app.tenant = ''", "RESET work_mem"):
        client.query(kept)
        assert client.value(asked) == "", kept
    client.query("RESET app.tenant")
    assert client.value(asked) == "mine"


@MODES
def test_startup_values_behind_discard_all_in_one_batch(pgweir, mode):
    """DISCARD ALL commits at once: a ROLLBACK behind it does not concern it."""
    weir = pgweir(pool_mode=mode, default_pool_size=2)
    client = weir.client(search_path="pg_catalog", DateStyle="German, DMY")
    show = extended("SHOW search_path") + extended("SHOW DateStyle")
    for texts in (("DISCARD ALL",), ("DISCARD ALL", "BEGIN"), ("DISCARD ALL", "DISCARD ALL")):
        client.send(b"".join(map(extended, texts)) + show + sync())
        got = client.read_until("Z")
        assert not reports(got), texts
        assert [message.body[6:] for message in got if message.type == "D"] == [b"pg_catalog", b"German, DMY"]
        client.query("ROLLBACK")
        assert client.value("SHOW search_path") == "pg_catalog"


@MODES
def test_startup_values_behind_the_sync_of_discard_all(pgweir, mode):
    weir = pgweir(pool_mode=mode, default_pool_size=2)
    client = weir.client(search_path="pg_catalog", default_transaction_isolation="repeatable read")
    for text, value in (("SHOW search_path", "pg_catalog"), ("SHOW transaction_isolation", "repeatable read")):
        for show in (query(text), extended(text) + sync()):
            client.send(extended("DISCARD ALL") + sync() + show + show)
            assert not client.read_result().error
            assert [client.read_result().rows for _ in range(2)] == [[[value]]] * 2
    client.query("BEGIN")
    client.send(extended("DISCARD ALL") + sync() + query("SHOW search_path") + query("ROLLBACK") + show)
    assert [(client.read_result().error or {}).get("C") for _ in range(3)] == ["25001", "25P02", None]
    assert client.read_result().rows == [["repeatable read"]]


def test_statements_behind_discard_all_in_one_batch(pgweir):
    client = pgweir(pool_mode="transaction").client()
    use = bind((), "s") + execute()

    def prepare():
        client.send(parse("SELECT 1", "s") + sync())
        client.read_until("Z")

    prepare()
    client.send(extended("DISCARD ALL") + use + sync())
    assert client.read_result().error["C"] == "26000"
    prepare()
    client.query("BEGIN")
    client.send(query("DISCARD ALL") + use + sync())
    assert client.read_result().error["C"] == "25001"
    assert client.read_result().error["C"] == "25P02"
    client.query("ROLLBACK")
    client.send(use + sync())
    assert client.read_result().rows == [["1"]]


@MODES
def test_application_name_of_the_startup_behind_other_statements(pgweir, mode):
    weir = pgweir(pool_mode=mode, default_pool_size=1)
    client = weir.client(application_name="mine")
    for text, name in (("RESET application_name; SELECT 1", "mine"),
                       ("RESET application_name; SELECT set_config('application_name', 'other', false)", "other")):
        client.query("BEGIN")
        client.send(query(text))
        told = reports(client.read_until("Z"))
        assert told == ([] if name == "mine" else [[b"application_name", b"other"]])
        assert client.value("SHOW application_name") == name
        client.query("COMMIT")
        assert client.value("SHOW application_name") == name
