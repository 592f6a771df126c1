# SPDX-License-Identifier: ISC
"""A server that is not known to be clean is cleaned before another client's first message is sent."""

import os
import re
import signal
import time
from concurrent import futures

import pytest

from .kit import fake, wire
from .kit.wait import wait_until
from .test_listeners import client as client_at, listeners

CLEANING = "DISCARD TEMP"

# With these the server stays with its client, once it was asked for them.
STAYS = ("a temporary table", "a lock", "a channel")

# What a function can leave in a session, and how another client would meet it: SQL, clean answer.
LEFT = {
    "a parameter": ("PERFORM set_config('work_mem', '77MB', false)", "SHOW work_mem", "4MB"),
    "a custom parameter": ("PERFORM set_config('app.' || 'tenant', 'left', false)",
                           "SELECT coalesce(current_setting('app.tenant', true), '')", ""),
    "a search path": ("PERFORM set_config('search_path', 'pg_catalog', false)",
                      "SELECT current_setting('search_path')", '"$user", public'),
    "a role": ("EXECUTE 'SET ROLE pg_monitor'", "SELECT current_user", "alice"),
    "a temporary table": ("CREATE TEMP TABLE IF NOT EXISTS left_there (a int)",
                          "SELECT count(*) FROM pg_class WHERE relname = 'left_there' "
                          "AND relnamespace = pg_my_temp_schema()", "0"),
    "a lock": ("PERFORM pg_advisory_lock(815)",
               "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()", "0"),
    "a channel": ("LISTEN left_there", "SELECT count(*) FROM pg_listening_channels()", "0"),
    "a short time": ("PERFORM set_config('statement_timeout', '3min', false)",
                     "SHOW statement_timeout", "0"),
}


@pytest.fixture
def start(pgweir, postgres):
    """Two clients of one server, where nobody looks for state that functions leave."""
    def start(**settings):
        weir = pgweir(**{"pool_mode": "transaction", "default_pool_size": 1, **settings})
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
    first, second = start(session_isolation="strict", default_pool_size=2 if what in STAYS else 1)
    for run in (lambda: first.query("SELECT leave()"),
                lambda: first.ask(wire.extended("SELECT leave()"))):
        run()
        assert second.value(look) == clean
        run()
        assert second.ask(wire.extended(look)).rows == [[clean]]


def test_a_held_cursor_is_closed(start, postgres):
    make(postgres, "EXECUTE 'DECLARE kept CURSOR WITH HOLD FOR SELECT 1'")
    first, second = start(session_isolation="strict", session_state="off")
    first.query("SELECT leave()")
    assert second.value("SELECT count(*) FROM pg_cursors") == "0"


def test_values_of_sequences_are_forgotten(start, postgres):
    postgres.query("CREATE SEQUENCE IF NOT EXISTS counted")
    make(postgres, "PERFORM nextval('counted')")
    first, second = start(session_isolation="strict", session_state="off")
    first.query("SELECT leave()")
    assert second.query("SELECT lastval()").error["C"] == "55000"


# DISCARD ALL leaves the seed of random(): how a client parts from its server.
PARTINGS = {
    "by a temporary table": ({}, ["CREATE TEMP TABLE t ()", "SELECT leave()"]),
    "server_reset_query_always": ({"server_reset_query_always": 1}, ["SELECT leave()"]),
    "within a transaction": ({}, ["BEGIN", "SELECT leave()"]),
    "in session mode": ({"pool_mode": "session"}, ["SELECT leave()"]),
}


@pytest.mark.parametrize("how", PARTINGS)
def test_nobody_gets_the_seed_of_another(start, postgres, how):
    settings, texts = PARTINGS[how]
    make(postgres, "EXECUTE 'SELECT set' || 'seed(0.5)'")
    with postgres.connect() as connection:
        connection.execute("SELECT setseed(0.5)")
        known = connection.execute("SELECT random()::text").fetchone()[0]
    first, second = start(session_isolation="strict", **settings)
    for text in texts:
        pid = first.query(text.replace("()", "(), pg_backend_pid()", text[:6] == "SELECT")).rows
    first.close()
    value, server = second.query("SELECT random(), pg_backend_pid()").rows[0]
    assert server == pid[0][1] and value != known


# How a client makes its transactions wait for a safe snapshot, and what another one has set.
WAITS = {
    "a function": ("SELECT leave()", "SELECT 1"),
    "a function, parameters": ("SELECT leave()", "SET work_mem = '3MB'"),
    "a statement, a list": ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, "
                            "DEFERRABLE", "SET search_path = pg_catalog, public"),
}


@pytest.mark.parametrize("what", WAITS)
@pytest.mark.parametrize("isolation", ["known", "strict"])
def test_nothing_of_ours_waits_for_a_snapshot(start, postgres, isolation, what):
    make(postgres, "; ".join(f"PERFORM set_config('default_transaction_{name}', '{value}', false)"
                             for name, value in (("isolation", "serializable"), ("read_only", "on"),
                                                 ("deferrable", "on"))))
    text, before = WAITS[what]
    first, second = start(session_isolation=isolation, server_connect_timeout=120)
    second.query(before)
    with postgres.connect() as holder:
        holder.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        holder.execute("BEGIN")
        holder.execute("CREATE TABLE of_holder ()")
        first.query(text)
        assert second.value("SELECT 1") == "1"
        holder.execute("ROLLBACK")


def test_a_refused_parameter_is_no_refused_cleaning(pgweir, postgres):
    """Then DISCARD ALL would come in its place from then on, which leaves the seed."""
    make(postgres, "EXECUTE 'SELECT set' || 'seed(0.5)'")
    with postgres.connect() as connection:
        connection.execute("SELECT setseed(0.5)")
        known = connection.execute("SELECT random()::text").fetchone()[0]
    weir = pgweir(pool_mode="transaction", default_pool_size=1, session_isolation="strict")
    first, second = weir.client(), weir.client()
    first.query("SELECT leave()")
    weir.wait_pool(sv_idle=1)
    with pytest.raises(wire.Refused) as refused:
        weir.client(options="-c log_statement=all")
    assert refused.value.sqlstate == "42501"
    first.query("SELECT leave()")
    assert second.value("SELECT random()") != known
    assert "cleaning failed" not in weir.log


def test_a_session_whose_parameters_are_refused_is_cleaned(pgweir, postgres):
    """RESET gives it the role of its startup again, which is gone."""
    make(postgres, LEFT["a custom parameter"][0])
    postgres.query("DROP ROLE IF EXISTS short_lived")
    postgres.query("CREATE ROLE short_lived")
    postgres.query("GRANT short_lived TO alice")
    weir = pgweir(session_isolation="strict", pool_mode="session", server_reset_query="",
                  default_pool_size=1)
    weir.client(role="short_lived").close()  # the role was tried for it
    first = weir.client(role="short_lived")
    assert first.query("SELECT leave()").tags
    postgres.query("DROP ROLE short_lived")
    first.send(wire.query("RESET ROLE"))
    first.read_to_end()
    assert weir.client().value(TENANT) == ""


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_no_library_of_a_canceled_statement_stays(pgweir, postgres, mode):
    """Its tag had not come when the client left."""
    weir = pgweir(pool_mode=mode, default_pool_size=1, databases={"app": "user=postgres"})
    client = weir.client()
    client.send(wire.query("LOAD 'auto_explain'; SELECT pg_sleep(60)"))
    wait_until(lambda: postgres.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))
    client.close()
    assert weir.client().query("SHOW auto_explain.log_min_duration").error["C"] == "42704"


def test_another_reset_query_is_not_trusted(start, postgres):
    make(postgres, "PERFORM set_config('work_mem', '77MB', false)")
    first, second = start(session_isolation="strict", pool_mode="session",
                          server_reset_query="DEALLOCATE ALL")
    first.query("SELECT leave()")
    first.close()
    assert second.value("SHOW work_mem") == "4MB"


def test_a_listener_for_transactions_gets_no_server_of_sessions(make_pgweir):
    """They were reset by a query that is not DISCARD ALL."""
    weir = make_pgweir(pool_mode="session", server_reset_query="DEALLOCATE ALL", default_pool_size=1).start()
    first = weir.client()
    first.query("SET app.tenant = 'left'")
    first.close()
    weir.wait_pool(sv_idle=1)
    listeners(weir, transactions="pool_mode=transaction").reload()
    assert client_at(weir, "transactions").value(TENANT) == ""


@pytest.mark.parametrize("state", ("off", "refuse", "follow"))
def test_what_connect_query_sets_stays(start, postgres, state):
    make(postgres, "PERFORM set_config('work_mem', '77MB', false)")
    first, second = start(session_isolation="strict", session_state=state,
                          databases={"app": "connect_query='SET work_mem = ''9MB'''"})
    first.query("SELECT leave()")
    assert second.value("SHOW work_mem") == "9MB"


def test_connect_query_of_before_it_is_set(pgweir, postgres):
    make(postgres, "PERFORM set_config('work_mem', '77MB', false)")
    weir = pgweir(pool_mode="transaction", default_pool_size=1, session_state="off",
                  databases={"app": "connect_query='SET work_mem = ''9MB'''"})
    first, second = weir.client(), weir.client()
    first.query("SELECT leave()")
    weir.reload(session_isolation="strict")
    assert second.value("SHOW work_mem") == "9MB"


@pytest.mark.parametrize("way", ("RELOAD", "-R"))
@pytest.mark.parametrize("to", ("known", "strict"))
def test_what_was_left_before_it_is_set(pgweir, postgres, to, way):
    make(postgres, "PERFORM set_config('work_mem', '77MB', false)")
    weir = pgweir(pool_mode="transaction", default_pool_size=1, session_state="off")
    first, second = weir.client(), weir.client()
    first.query("SELECT leave()")
    weir.configure(session_isolation=to, session_state="follow")
    if way == "RELOAD":
        weir.admin("RELOAD")
    else:
        assert weir.take_over().wait(15) == 0
    assert second.value("SHOW work_mem") == "4MB"
    assert first.value("SHOW work_mem") == "4MB"


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
    expect_cleaning(server)
    server.send(*CLEANED)
    assert server.expect("Q").body == wire.cstr("SELECT 3")


@pytest.fixture
def doubtful(scripted):
    """A daemon, the last client of its only server, that server, and another client."""
    weir, client, server = scripted(default_pool_size=1, session_isolation="strict",
                                    session_state="off")
    client.send(wire.query("SELECT 1"))
    server.expect("Q")
    server.send(fake.answer("1"))
    client.read_result()
    other = weir.wire().startup()
    other.finish_login("alice")
    return weir, client, server, other


CLEANED = (fake.complete("DISCARD SEQUENCES"), fake.ready())
CANCELED = fake.error("canceling statement", "57014")
FAILURES = {"its begin": [CANCELED, fake.ready()], "its end": [fake.complete("SET"), CANCELED, fake.ready()]}


def expect_cleaning(server):
    assert CLEANING in server.expect("Q").body.decode()


# Some of them would end a failed block.
BEHIND = {
    "a query": [wire.query("ROLLBACK; SELECT secret")],
    "a comment": [wire.query("/* SELECT */ COMMIT; SELECT secret")],
    "an unnamed statement": [wire.parse("SELECT secret"), wire.bind(), wire.execute(), wire.sync()],
    "an end": [wire.parse("ABORT"), wire.bind(), wire.execute(), wire.sync()],
    "a statement": [wire.parse("END", "s"), wire.bind(name="s"), wire.execute(), wire.sync()],
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("what", BEHIND)
def test_a_cleaning_that_fails_answers_nothing(doubtful, what, failure):
    """Nothing was sent behind it, and the statement is sent to another server."""
    weir, _, server, other = doubtful
    other.send(*BEHIND[what])
    expect_cleaning(server)
    server.send(*FAILURES[failure])
    server.expect("X")
    server = weir.far.accept().login()
    if len(BEHIND[what]) == 1:
        assert server.expect("Q").body in BEHIND[what][0]
        server.send(fake.answer("my own"))
    else:
        server.expect("PBES")
        server.send(wire.message("1"), wire.message("2"), fake.row("my own"), fake.complete("SELECT 1"),
                    fake.ready())
    assert "my own" in str(other.read_result())


def test_what_the_cleaning_says_is_not_for_the_next_client(doubtful):
    """With client_min_messages = debug2 it has the names of what it drops."""
    weir, _, server, other = doubtful
    other.send(wire.query("SELECT 3"))
    expect_cleaning(server)
    server.send(fake.notice("drop of somebody's table"), *CLEANED)
    server.expect("Q")
    server.send(fake.notice("mine"), fake.answer("3"))
    result = other.read_result()
    assert ([notice["M"] for notice in result.notices], result.rows) == (["mine"], [["3"]])


def test_a_cleaning_at_rest_that_fails(pgweir, postgres):
    """It goes there alone, as what the next client has set changes how its statement is sent."""
    make(postgres, "IF NOT EXISTS (SELECT FROM pg_prepared_statements WHERE name = 'planted') THEN "
                   "EXECUTE 'PREPARE planted AS SELECT 1'; END IF")
    weir = pgweir(pool_mode="transaction", default_pool_size=1, session_isolation="strict",
                  session_state="off")
    first, second = weir.client(), weir.client()
    second.query("SET client_encoding = 'LATIN1'")
    first.ask(wire.parse("SELECT 1", "s"), wire.sync())
    first.ask(wire.bind(name="s"), wire.execute(), wire.sync())
    first.query("SELECT leave()")
    assert second.value("SELECT 'my own'") == "my own"
    assert second.value("SHOW client_encoding") == "LATIN1"


def test_nothing_runs_behind_a_cleaning_that_postgresql_refuses(start, postgres):
    """What a function has prepared makes it fail. The text would end the block that is left."""
    make(postgres, "EXECUTE 'PREPARE planted AS SELECT 1'")
    first, second = start(session_isolation="strict", session_state="off")
    first.ask(wire.parse("SELECT 1", "kept"), wire.sync())
    first.query("SELECT leave()")
    assert second.value("ROLLBACK; SELECT count(*) FROM pg_prepared_statements WHERE from_sql") == "0"


def test_nothing_runs_behind_a_cleaning_that_somebody_cancels(start, postgres):
    """Also before its first statement: PostgreSQL looks for requests to cancel ahead of that."""
    make(postgres, "PERFORM set_config('work_mem', '77MB', false)")
    first, second = start(session_isolation="strict", session_state="off")
    spam = """DO $$ DECLARE until timestamptz := clock_timestamp() + '30 ms'; BEGIN
        WHILE clock_timestamp() < until AND pg_cancel_backend(%s) LOOP END LOOP; END $$"""
    with postgres.connect() as other, futures.ThreadPoolExecutor() as threads:
        for _ in range(100):
            pid = first.query("SELECT leave(), pg_backend_pid()").rows[0][1]
            spamming = threads.submit(other.execute, spam % pid)
            time.sleep(0.01)
            result = second.query("SHOW work_mem")
            assert result.error or result.rows == [["4MB"]]
            spamming.result()


@pytest.mark.parametrize("size", [3, 10, 14])
def test_what_has_arrived_behind_it_follows_the_statement_to_another_server(doubtful, size):
    weir, _, server, other = doubtful
    text = wire.query("SELECT 3")
    other.send(wire.query("SELECT 22") + text[:size])
    expect_cleaning(server)
    server.send(CANCELED, fake.ready())
    server = weir.far.accept().login()
    assert server.expect("Q").body == wire.cstr("SELECT 22")
    other.send(text[size:])
    server.send(fake.answer("22"))
    assert "22" in str(other.read_result())
    assert server.expect("Q").body == wire.cstr("SELECT 3")
    server.send(fake.answer("3"))
    assert "3" in str(other.read_result())


def test_a_long_text_follows_too(doubtful):
    weir, _, server, other = doubtful
    text = "SELECT " + "1, " * 4000 + "1"
    other.send(wire.query(text))
    expect_cleaning(server)
    server.send(CANCELED, fake.ready())
    server = weir.far.accept().login()
    assert server.expect("Q").body == wire.cstr(text)
    server.send(fake.answer("1"))
    assert "1" in str(other.read_result())


def test_all_waits_for_the_cleaning(doubtful):
    weir, _, server, other = doubtful
    other.send(wire.parse("SELECT 1"), wire.bind(), wire.execute(), wire.sync(),
               wire.query("SELECT 2"))
    expect_cleaning(server)
    weir.admin("SHOW VERSION")
    assert not server.is_closed() and not server.buffer
    server.send(*CLEANED)
    server.read_until("S")
    server.send(wire.message("1"), wire.message("2"), fake.row("1"), fake.complete("SELECT 1"), fake.ready())
    assert server.read_until("Q")[-1].body == wire.cstr("SELECT 2")


@pytest.mark.parametrize("sqlstate, is_for_good", [("57014", False), ("22P02", False),
                                                   ("42501", True), ("0A000", True)])
def test_what_cannot_be_cleaned_is_discarded(doubtful, sqlstate, is_for_good):
    """A request to cancel, or what somebody has left, does not change how the pool works."""
    weir, _, server, other = doubtful
    other.send(wire.query("SELECT 2"))
    expect_cleaning(server)
    server.send(fake.error("no", sqlstate), fake.ready())
    server = weir.far.accept().login()
    server.expect("Q")
    server.send(fake.answer("2"))
    other.read_result()
    if is_for_good:
        assert server.expect("Q").body == wire.cstr("DISCARD ALL")
    else:
        weir.wait_pool(sv_idle=1)


@pytest.mark.parametrize("where", ["setting", "database", "user"])
def test_can_be_set_for_a_database_and_a_user(pgweir, postgres, where):
    make(postgres, "PERFORM set_config('work_mem', '77MB', false)")
    entry = f"host={postgres.host} port={postgres.port}"
    sections = {"setting": {"session_isolation": "strict"},
                "database": {"databases": {"app": f"{entry} session_isolation=strict"}},
                "user": {"users": {"alice": "session_isolation=strict"}}}
    weir = pgweir(pool_mode="transaction", default_pool_size=1, **sections[where])
    first, second = weir.client(), weir.client()
    first.query("SELECT leave()")
    assert second.value("SHOW work_mem") == "4MB"


# -- known: what the catalog says ------------------------------------------------------------------

QUIET = "no function of the database can touch session state"
FOUND = "(functions of the database can|any statement can) touch session state.*: "


@pytest.fixture
def known(pgweir, postgres):
    """Clients of a database of its own, in which nothing was made."""
    postgres.query("DROP DATABASE IF EXISTS known WITH (FORCE)")
    postgres.query("CREATE DATABASE known OWNER alice")

    class Known:
        def make(self, *texts):
            for text in texts:
                postgres.query(text, dbname="known")

        def start(self, **settings):
            settings.setdefault("default_pool_size", 1)
            self.weir = pgweir(pool_mode="transaction", 
                               databases={"app": "dbname=known"}, **settings)
            self.first, self.second = self.weir.client(), self.weir.client()
            self.first.query("SELECT 1")
            return self

        def wait_found(self, what):
            """The catalog is looked at again when the database is used."""
            def is_found():
                self.second.query("SELECT 1")
                return re.search(FOUND + what, self.weir.log)
            wait_until(is_found, what=what)

    return Known()


def plpgsql(body, name="f", returns="int", tail="RETURN 1;"):
    return (f"CREATE OR REPLACE FUNCTION {name}() RETURNS {returns} LANGUAGE plpgsql AS "
            f"$$ BEGIN {body}; {tail} END $$")


# What is harmless, and what is not: SQL, and how the log names it.
HARMLESS = {
    "an update": plpgsql("-- set it\n UPDATE t SET a = 1"),
    "words in strings": plpgsql("PERFORM 'set x', 'it''s temp' /* set */"),
    "an update of an alias": plpgsql("UPDATE ONLY public.t AS x SET a = 1"),
    "of the transaction": plpgsql("SET CONSTRAINTS ALL DEFERRED; SET LOCAL work_mem = '9MB'"),
    "comments": plpgsql("/* don't */ PERFORM 1; -- it's\n PERFORM 1 /* a * b */"),
    "parameters": "CREATE FUNCTION f(int, int) RETURNS int LANGUAGE sql AS 'SELECT $1+$2'",
    "a lock of rows": plpgsql("PERFORM 1 FROM t FOR UPDATE"),
    "an upsert": plpgsql("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING"),
    "statements in SQL": "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS "
                         "$$ /* a */ UPDATE t SET a = 1; (SELECT 1); INSERT INTO t SELECT 1; $$",
    "a view": "CREATE VIEW v AS SELECT * FROM t",
    "a default": "ALTER TABLE t ADD b int DEFAULT random()",
    "a body that was parsed": "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END",
    "its own setting": "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET work_mem = '9MB' "
                       "AS 'SELECT 1'",
    "an extension of PostgreSQL": "CREATE EXTENSION citext",
}
HARMFUL = {
    "set": (plpgsql("/* update */ SET search_path TO x"), "function f"),
    "set behind an update": (plpgsql("UPDATE t SET a = 1; SET search_path TO x"), "function f"),
    "set behind for update":
        (plpgsql("FOR i IN SELECT a FROM t FOR UPDATE LOOP SET app.x = 'y'; END LOOP",
                 tail="RETURN 1;").replace("BEGIN", "DECLARE i int; BEGIN", 1), "function f"),
    "set in a loop over update":
        (plpgsql("FOR i IN SELECT 1 AS \"update\" LOOP SET app.x = 'y'; END LOOP",
                 tail="RETURN 1;").replace("BEGIN", "DECLARE i int; BEGIN", 1), "function f"),
    "set behind a condition":
        (plpgsql("IF update THEN SET app.x = 'y'; END IF").replace(
            "BEGIN", "DECLARE update bool := true; BEGIN", 1), "function f"),
    "a parameter like a keyword": (plpgsql("SET transaction.x = 1"), "function f"),
    "set behind a comment in a comment":
        (plpgsql("/* /* */ -- */ SET app.x = 1; -- */\n PERFORM 1"), "function f"),
    "set behind other letters":
        (plpgsql("PERFORM $ä$'$ä$; SET app.x = 1; PERFORM $ä$'$ä$").replace("$$", "$f$"),
         "function f"),
    "deallocate": (plpgsql("DEALLOCATE ALL"), "function f"),
    "set_config": ("CREATE FUNCTION f() RETURNS text LANGUAGE sql AS "
                   "$$ SELECT set_config('app.x', 'y', false) $$", "function f"),
    "a quoted name": ("CREATE FUNCTION f() RETURNS text LANGUAGE sql AS "
                      "$$ SELECT \"set_config\"('app.x', 'y', false) $$", "function f"),
    "a body that was parsed": ("CREATE FUNCTION f() RETURNS text BEGIN ATOMIC "
                               "SELECT set_config('app.x', 'y', false); END", "function f"),
    "dynamic SQL": (plpgsql("EXECUTE 'S' || 'ET app.x = 1'"), "function f"),
    "a table in pg_temp": ("CREATE FUNCTION f() RETURNS void LANGUAGE sql SET search_path = pg_temp "
                           "AS 'SELECT 1 AS a INTO left_there'", "function f"),
    "a statement that is not known": ("CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'CHECKPOINT'",
                                      "function f"),
    "a backslash": (plpgsql("PERFORM E'\\\\'; PERFORM '; SET app.x = 1; --'"), "function f"),
    "another language": ("CREATE FUNCTION f() RETURNS text LANGUAGE internal AS 'current_user'",
                         "function f"),
    "a view": ("CREATE VIEW v AS SELECT set_config('app.x', 'y', false)", "view v"),
    "a view of settings": ("CREATE VIEW v AS SELECT * FROM pg_settings", "view v"),
    "a rule": ("CREATE RULE r AS ON INSERT TO t DO ALSO SELECT set_config('app.x', 'y', false)",
               "table t"),
    "a default": ("ALTER TABLE t ADD b text DEFAULT set_config('app.x', 'y', false)",
                  "table t"),
    "a check": ("ALTER TABLE t ADD CONSTRAINT c CHECK (set_config('app.x', 'y', false) = 'y')",
                "table t"),
    "a domain": ("CREATE DOMAIN d AS int CONSTRAINT c CHECK (set_config('app.x', 'y', false) = 'y')",
                 "an operator, cast, type or domain"),
    "a domain's default": ("CREATE DOMAIN d AS text DEFAULT set_config('app.x', 'y', false)",
                           "an operator, cast, type or domain"),
    "a statistic": ("CREATE STATISTICS s ON (pg_try_advisory_lock(a)), a FROM t",
                    "an operator, cast, type or domain"),
    "a policy": ("CREATE POLICY p ON t USING (set_config('app.x', 'y', false) = 'y')", "table t"),
    "a trigger": ("CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW "
                  "WHEN (set_config('app.x', 'y', false) = 'y') "
                  "EXECUTE FUNCTION suppress_redundant_updates_trigger()", "table t"),
    "a trigger of what TRUNCATE CASCADE empties, too": (
        "ALTER TABLE t ADD PRIMARY KEY (a); CREATE TABLE z (a int REFERENCES t);"
        + plpgsql("SET app.x = 1", returns="trigger", tail="RETURN NULL;") +
        "; CREATE TRIGGER g AFTER TRUNCATE ON z EXECUTE FUNCTION f()", None),
}


def test_harmless_things_keep_the_database_quiet(known):
    """All of them together."""
    known.make("CREATE TABLE t (a int)")
    for number, text in enumerate(HARMLESS.values()):
        known.make(text.replace("FUNCTION f(", f"FUNCTION f{number}("))
    known.start().weir.wait_log(QUIET)


@pytest.mark.parametrize("what", HARMFUL)
def test_what_is_found(known, what):
    text, name = HARMFUL[what]
    known.make("CREATE TABLE t (a int)", text)
    known.start().weir.wait_log(FOUND + (name or ""))
    if not name:
        wait_until(lambda: "t" in [row["name"] for row in known.weir.admin("SHOW CATALOG")])


def test_a_quiet_database_sends_nothing(known, postgres):
    """No cleaning between clients: what the second one left for the first is not sent either."""
    known.start().weir.wait_log(QUIET)
    for client in (known.first, known.second, known.first):
        client.query("SELECT 'what was in doubt before is cleaned'")
    since = len(postgres.log)
    postgres.query("ALTER SYSTEM SET log_statement = 'all'")
    postgres.query("SELECT pg_reload_conf()")
    try:
        wait_until(lambda: known.first.value("SHOW log_statement") == "all")
        for _ in range(3):
            known.first.query("SELECT 'first'")
            known.second.query("SELECT 'second'")
        wait_until(lambda: postgres.log.count("SELECT 'second'", since) >= 3)
        assert postgres.log.count("DISCARD", since) == 0
    finally:
        postgres.query("ALTER SYSTEM RESET log_statement")
        postgres.query("SELECT pg_reload_conf()")


@pytest.mark.parametrize("what", LEFT)
def test_known_leaves_nothing(known, what):
    body, look, clean = LEFT[what]
    known.make(plpgsql(body, name="leave"))
    known.start(default_pool_size=2 if what in STAYS else 1)
    for run in (lambda: known.first.query("SELECT leave()"),
                lambda: known.first.ask(wire.extended("SELECT leave()"))):
        run()
        assert known.second.value(look) == clean


@pytest.mark.parametrize("text", ("ANALYZE", "VACUUM ANALYZE", "REINDEX TABLE t"))
def test_indexes_of_any_table_are_worked_on(known, text):
    known.make("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", "ALTER TABLE t OWNER TO alice",
               "CREATE FUNCTION f(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
               "$$ BEGIN PERFORM pg_advisory_lock_shared(815); RETURN a; END $$",
               "CREATE INDEX i ON t (f(a))")
    known.start(default_pool_size=2)
    known.weir.wait_log("can touch")
    known.first.query(text)
    assert known.first.value(LEFT["a lock"][1]) == "1"
    assert len(known.weir.admin("SHOW PINNED")) == 1


def test_a_function_made_by_a_client_is_known_at_once(known):
    known.start().weir.wait_log(QUIET)
    known.first.query("CREATE FUNCTION leave() RETURNS text LANGUAGE sql AS "
                      "$$ SELECT set_config('work_mem', '77MB', false) $$")
    known.first.query("SELECT leave()")
    assert known.second.value("SHOW work_mem") == "4MB"
    known.wait_found("function leave")


def test_a_function_made_elsewhere_is_noticed(known):
    known.start().weir.wait_log(QUIET)
    known.make(plpgsql("PERFORM set_config('work_mem', '77MB', false)", name="leave"))
    known.wait_found("function leave")
    known.first.query("SELECT leave()")
    assert known.second.value("SHOW work_mem") == "4MB"


def test_what_cannot_be_read_is_cleaned(known, postgres):
    """No right to the catalog: nobody is sure, and nobody is disconnected."""
    known.make("REVOKE SELECT ON pg_policy FROM PUBLIC",
               plpgsql("PERFORM set_config('work_mem', '77MB', false)", name="leave"))
    known.start().weir.wait_log("the question about the catalog failed")
    known.first.query("SELECT leave()")
    assert known.second.value("SHOW work_mem") == "4MB"
    assert known.first.value("SELECT 1") == "1"


# Forms in which a name is not recognized: the texts, what another client looks at, and sees.
TENANT = "SELECT coalesce(current_setting('app.tenant', true), '')"
UNSEEN = {
    "blanks at the dot": (["SET app . tenant = 'left'"], TENANT, ""),
    "a comment at the dot": (["SET app/* */.tenant = 'left'"], TENANT, ""),
    "quotes": (['SET "app" . "tenant" = \'left\''], TENANT, ""),
    "in a block": (["BEGIN", "SET app . tenant = 'left'", "COMMIT"], TENANT, ""),
    "a function in attribute notation":
        (["SELECT (815::bigint).pg_advisory_lock", "SELECT pg_advisory_unlock_all()"],
         "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", "0"),
}


@pytest.mark.parametrize("what", UNSEEN)
def test_what_no_text_shows_clearly_is_seen_by_nobody_else(known, what):
    texts, look, clean = UNSEEN[what]
    known.start().weir.wait_log(QUIET)
    for _ in range(2):
        for text in texts:
            known.first.query(text)
        assert known.second.value(look) == clean
        known.first.query("DEALLOCATE ALL")


# -- an error of an idle session: PostgreSQL up to 18.0 cannot convert a notification ----------------


def stray(client, server, text):
    """The server has not read the text yet: what it says is no reply to it."""
    client.send(wire.query(text))
    server.expect("Q")
    server.send(fake.error("no equivalent in encoding", "22P05"), fake.ready())
    assert client.read_result().error["C"] == "22P05"


@pytest.mark.parametrize("reset", ["DISCARD ALL", ""])
def test_replies_out_of_step_behind_a_session(scripted, reset):
    weir, client, server = scripted(pool_mode="session", default_pool_size=1, server_reset_query=reset)
    stray(client, server, "SELECT 1")
    client.close()
    late = [fake.answer("secret")] + [fake.complete("DISCARD ALL") + fake.ready()] * bool(reset)
    server.expect("Q")
    other = weir.client()
    other.send(wire.query("SELECT 2"))
    for number, reply in enumerate(late, 1):
        server.send(reply)
        server.expect("Q" if number < len(late) else "X")
    successor = weir.far.accept().login()
    successor.expect("Q")
    successor.send(fake.answer("2"))
    assert other.read_result().rows == [["2"]]


def test_replies_are_proven_behind_a_take_over_too(scripted):
    weir, client, server = scripted(pool_mode="session", default_pool_size=1, server_reset_query="")
    stray(client, server, "SELECT 1")
    assert weir.take_over().wait(15) == 0
    client.close()
    assert server.expect("Q").body.startswith(b"SELECT '")


def test_an_error_in_a_session_costs_a_question(scripted):
    weir, client, server = scripted(pool_mode="session", default_pool_size=1)
    client.send(wire.query("SELECT"))
    server.expect("Q")
    server.send(fake.error("wrong", "42601"), fake.ready())
    assert client.read_result().error["C"] == "42601"
    client.close()
    server.expect("Q")
    server.send(fake.complete("DISCARD ALL"), fake.ready())
    asked = server.expect("Q").body.decode()
    assert asked.startswith("SELECT '")
    server.send(fake.answer(asked.split("'")[1]))
    weir.wait_pool(sv_idle=1)
    other = weir.client()
    other.send(wire.query("SELECT 2"))
    server.expect("Q")
    server.send(fake.answer("2"))
    assert other.read_result().rows == [["2"]]


def test_the_question_after_an_error_cleans_nothing(start, postgres):
    """In transaction mode it is asked of a server that has listened."""
    postgres.query("CREATE OR REPLACE FUNCTION leave(what text) RETURNS void LANGUAGE plpgsql AS "
                   "$$ BEGIN EXECUTE what; END $$")
    first, second = start()
    first.query("SELECT leave('LISTEN left_there')")
    assert first.query("SELECT 1 / 0").error["C"] == "22012"
    first.query("SELECT leave('SELECT set_config(''app.'' || ''tenant'', ''left'', false)')")
    first.query("SELECT leave('UNLISTEN *')")
    assert second.value("SELECT coalesce(current_setting('app.tenant', true), '')") == ""


@pytest.mark.parametrize("how", ("late", "canceled", "terminated", "no answer", "KILL", "RELOAD", "client left"))
def test_a_server_that_stops_while_it_is_cleaned(postgres, pgweir, how):
    weir = pgweir(pool_mode="transaction", session_isolation="strict", default_pool_size=1, server_login_retry=0.1)
    maker = weir.client()
    maker.value("SELECT set_config('cleaned.a', 'foreign', false)")
    pid = int(maker.value("SELECT pg_backend_pid()"))
    weir.wait_pool(sv_idle=1)
    maker.close()
    os.kill(pid, signal.SIGSTOP)
    try:
        client = weir.client()
        look = "SELECT coalesce(current_setting('cleaned.a', true), '')"
        client.send(wire.parse(look) + wire.bind() + wire.execute() + wire.sync(), wire.query("SELECT 'second'"))
        weir.wait_pool(sv_active=1)
        if how == "canceled":
            wire.send_cancel(weir.address, client.key)
        elif how == "terminated":
            os.kill(pid, signal.SIGTERM)
        elif how == "no answer":
            weir.admin("SET server_connect_timeout = 0.2")
            weir.wait_log("closing because:.*timeout")
        elif how == "KILL":
            weir.admin("KILL app")
            weir.admin("RESUME app")
        elif how == "RELOAD":
            weir.reload(default_pool_size=2)
        elif how == "client left":
            client.close()
    finally:
        os.kill(pid, signal.SIGCONT)
    if how == "KILL":
        assert client.read_refusal().sqlstate == "57P01"
    elif how != "client left":
        assert client.read_result().rows == [[""]]
        assert client.read_result().rows == [["second"]]
    client.close()
    assert weir.client().value(look) == ""
    weir.wait_pool(cl_waiting=0, sv_active=0, sv_tested=0)
