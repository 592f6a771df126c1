# SPDX-License-Identifier: ISC
"""What the catalog says about functions and relations: their state follows its client from the first
execution on, and no other client meets it; SHOW CATALOG."""

import contextlib
import os
import time

import pytest

from .kit import fake, wire
from .kit.wait import wait_until

LOOPS = pytest.mark.parametrize("loops", [1, 3])
TENANT = "SELECT coalesce(current_setting('app.tenant', true), '')"
SET = "set_config('app.tenant', {}, false)"


def sql(body, name="set_tenant", arguments="t text", returns="text"):
    return f"CREATE FUNCTION {name}({arguments}) RETURNS {returns} LANGUAGE sql AS $$ {body} $$"


def plpgsql(body, name="set_tenant", arguments="t text", returns="text", tail="RETURN NULL;"):
    return (f"CREATE FUNCTION {name}({arguments}) RETURNS {returns} LANGUAGE plpgsql AS "
            f"$$ BEGIN {body}; {tail} END $$")


BASE = sql("SELECT " + SET.format("$1"))
TRIGGER = plpgsql("PERFORM set_tenant(NEW.a)", "on_row", "", "trigger", "RETURN NEW;")

# How a tenant is set: what is made, and the text of a client that sets it to {}.
WAYS = {
    "a function in SQL": ([BASE], "SELECT set_tenant('{}')"),
    "a function in PL/pgSQL": ([plpgsql("PERFORM " + SET.format("t"))], "SELECT set_tenant('{}')"),
    "SET within it": ([plpgsql("SET app.tenant = 'x'; PERFORM " + SET.format("t"))],
                      "SELECT set_tenant('{}')"),
    "dynamic SQL": ([plpgsql("EXECUTE format('SET app.tenant = %L', t)")], "SELECT set_tenant('{}')"),
    "a parsed body": (["CREATE FUNCTION set_tenant(t text) RETURNS text BEGIN ATOMIC SELECT "
                       + SET.format("t") + "; END"], "SELECT set_tenant('{}')"),
    "a nested function": ([BASE, sql("SELECT set_tenant($1)", "outer_one"),
                           plpgsql("PERFORM outer_one(t)", "outer_two")], "SELECT outer_two('{}')"),
    "a recursive function": ([BASE, plpgsql("IF n > 0 THEN PERFORM deeper(t, n - 1); ELSE PERFORM "
                                            "set_tenant(t); END IF", "deeper", "t text, n int")],
                             "SELECT deeper('{}', 3)"),
    "attribute notation": ([BASE], "SELECT ('{}'::text).set_tenant"),
    "quotes and a schema": ([BASE], "SELECT \"public\" . \"set_tenant\" ('{}')"),
    "an aggregate": ([BASE, "CREATE AGGREGATE last_one(text) (sfunc = textcat, stype = text, "
                      "initcond = '', finalfunc = set_tenant)"], "SELECT last_one('{}')"),
    "a trigger": ([BASE, TRIGGER, "CREATE TABLE t (a text)", "CREATE TRIGGER g BEFORE INSERT ON t "
                   "FOR EACH ROW EXECUTE FUNCTION on_row()"], "INSERT INTO t VALUES ('{}')"),
    "a trigger of a partition":
        ([BASE, TRIGGER, "CREATE TABLE t (a text) PARTITION BY LIST (a)",
          "CREATE TABLE t1 PARTITION OF t DEFAULT", "CREATE TRIGGER g BEFORE INSERT ON t1 "
          "FOR EACH ROW EXECUTE FUNCTION on_row()"], "INSERT INTO t VALUES ('{}')"),
    "a rule": ([BASE, "CREATE TABLE t (a text)", "CREATE RULE r AS ON INSERT TO t DO ALSO "
                "SELECT set_tenant(NEW.a)"], "INSERT INTO t VALUES ('{}')"),
    "a view": ([BASE, "CREATE TABLE t (a text)", "INSERT INTO t VALUES ('one'), ('two')",
                "CREATE VIEW w AS SELECT a, set_tenant(a) FROM t", "CREATE VIEW v AS SELECT * FROM w"],
               "SELECT * FROM v WHERE a = '{}'"),
    "a policy": ([BASE, "CREATE TABLE t (a text)", "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
                  "ALTER TABLE t FORCE ROW LEVEL SECURITY",
                  "CREATE POLICY p ON t WITH CHECK (set_tenant(a) = a)"],
                 "INSERT INTO t VALUES ('{}')"),
    "a default": ([BASE, "CREATE TABLE t (b int, a text DEFAULT "
                   "set_tenant(current_setting('application_name')))"],
                  "SET LOCAL application_name = '{}'; INSERT INTO t VALUES (1)"),
    "a check": ([BASE, "CREATE TABLE t (a text CHECK (set_tenant(a) = a))"],
                "INSERT INTO t VALUES ('{}')"),
    "a domain": ([BASE, "CREATE DOMAIN d AS text CHECK (set_tenant(VALUE) = VALUE)"],
                 "SELECT '{}'::d"),
    "an operator": ([BASE, "CREATE OPERATOR @@@ (FUNCTION = set_tenant, RIGHTARG = text)"],
                    "SELECT @@@ '{}'::text"),
    "a cascade": ([BASE, plpgsql("PERFORM set_tenant(OLD.b)", "on_row", "", "trigger", "RETURN OLD;"),
                   "CREATE TABLE p (a text PRIMARY KEY)",
                   "INSERT INTO p VALUES ('one'), ('two')",
                   "CREATE TABLE c (a text REFERENCES p ON DELETE CASCADE, b text)",
                   "INSERT INTO c SELECT a, a FROM p",
                   "CREATE TRIGGER g BEFORE DELETE ON c FOR EACH ROW EXECUTE FUNCTION on_row()"],
                  "DELETE FROM p WHERE a = '{}'; INSERT INTO p VALUES ('{}'); "
                  "INSERT INTO c VALUES ('{}', '{}')"),
}


@pytest.fixture
def made(pgweir, postgres):
    """A database of its own, with what a test makes there."""
    postgres.query("DROP DATABASE IF EXISTS known WITH (FORCE)")
    postgres.query("CREATE DATABASE known OWNER alice")

    class Made:
        def make(self, *texts):
            for text in texts:
                postgres.query(text, dbname="known")
            postgres.query("GRANT ALL ON ALL TABLES IN SCHEMA public TO alice", dbname="known")

        def start(self, **settings):
            self.weir = pgweir(**{"pool_mode": "transaction", "default_pool_size": 3,
                                  "server_round_robin": 1, "databases": {"app": "dbname=known", "app2": ""},
                                  **settings})
            return self.weir

        def catalog(self):
            """The state, and the kinds and what is touched by name."""
            rows = self.weir.admin("SHOW CATALOG")
            states = [row["state"] for row in rows if row["state"]]
            return (states[0] if states else None,
                    {row["name"]: (row["kind"], row["touches"]) for row in rows if not row["state"]})

        def since(self):
            return next(row["since"] for row in self.weir.admin("SHOW CATALOG") if row["state"])

        def wait(self, state, *names):
            """The catalog is looked at again when the database is used."""
            client = self.weir.client()

            def is_there():
                client.query("SELECT 1")
                now, found = self.catalog()
                return now == state and set(names) <= set(found)
            wait_until(is_there, what=f"{state} {names}")
            client.close()

    return Made()


@contextlib.contextmanager
def logged_statements(postgres, client):
    """PostgreSQL's log has all statements, from the position that it gives on."""
    postgres.query("ALTER SYSTEM SET log_statement = 'all'")
    postgres.query("SELECT pg_reload_conf()")
    try:
        wait_until(lambda: client.value("SHOW log_statement") == "all")
        yield len(postgres.log)
    finally:
        postgres.query("ALTER SYSTEM RESET log_statement")
        postgres.query("SELECT pg_reload_conf()")


def two_tenants(weir, text):
    """Two clients keep their own from the first execution on, whatever servers they get."""
    first, second, third = (weir.client() for _ in range(3))
    for client, name in ((first, "one"), (second, "two")):
        for result in [client.query(text.replace("{}", name))]:
            assert not result.error, result.error
    for _ in range(4):
        assert first.value(TENANT) == "one"
        assert second.value(TENANT) == "two"
        assert third.value(TENANT) == ""


@LOOPS
@pytest.mark.parametrize("what", WAYS)
def test_tenants(made, what, loops):
    texts, text = WAYS[what]
    made.make(*texts)
    two_tenants(made.start(loops=loops), text)


# What leads to it without a word that PostgreSQL has noted.
UNNOTED = {
    "a cascade of refint":
        (["CREATE EXTENSION refint", BASE,
          plpgsql("PERFORM set_tenant(OLD.b)", "on_row", "", "trigger", "RETURN OLD;"),
          "CREATE TABLE p (a text)", "INSERT INTO p VALUES ('one'), ('two')",
          "CREATE TABLE c (a text, b text)", "INSERT INTO c SELECT a, a FROM p",
          "CREATE TRIGGER g BEFORE DELETE ON c FOR EACH ROW EXECUTE FUNCTION on_row()",
          "CREATE TRIGGER g BEFORE DELETE ON p FOR EACH ROW EXECUTE FUNCTION "
          "check_foreign_key(1, 'cascade', 'a', 'c', 'a')"],
         "DELETE FROM p WHERE a = '{}'"),
    "another set_config":
        ([plpgsql("EXECUTE format('SET app.tenant = %L', b)", "set_config", "a text, b text, c bool"),
          sql("SELECT public.set_config('app.tenant', $1, true)")], "SELECT set_tenant('{}')"),
}


@pytest.mark.parametrize("what", UNNOTED)
def test_what_postgresql_has_not_noted(made, what):
    texts, text = UNNOTED[what]
    made.make(*texts)
    weir = made.start()
    made.wait("touches")
    two_tenants(weir, text)


@pytest.mark.parametrize("text", ["ANALYSE", "SELECT brin_summarize_new_values('i')"])
def test_the_index_of_a_table_that_is_not_named(made, postgres, text):
    made.make("CREATE FUNCTION take_lock(a int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS "
              "$$ BEGIN PERFORM pg_advisory_lock(1); RETURN a; END $$",
              "CREATE TABLE t (a int)", "CREATE INDEX i ON t USING brin (take_lock(a))",
              "INSERT INTO t SELECT generate_series(1, 40000)", "ALTER TABLE t OWNER TO alice")
    weir = made.start()
    made.wait("touches", "t")
    client = weir.client()
    assert not client.query(text).error
    wait_until(lambda: [row["why"] for row in weir.admin("SHOW PINNED")] == ["session lock"])


@pytest.mark.parametrize("mode", ["transaction", "session"])
@pytest.mark.parametrize("text", ["SELECT isn_weak(true)", "SELECT * FROM v", "SELECT f()"])
def test_a_variable_of_an_extension(made, text, mode):
    """DISCARD ALL leaves it. In session mode only texts count."""
    made.make("CREATE EXTENSION isn", "CREATE VIEW v AS SELECT isn_weak(true)",
              "CREATE FUNCTION f() RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN isn_weak(true); END'")
    weir = made.start(pool_mode=mode, default_pool_size=2)
    if mode == "transaction":
        made.wait("touches", "v", "f")
    first, second = weir.client(), weir.client()
    second.query("SELECT 1")
    assert first.value(text) == "t"
    if mode == "transaction":
        wait_until(lambda: [row["why"] for row in weir.admin("SHOW PINNED")] == ["function of an extension"])
    first.close()
    second.close()
    if mode == "transaction" or "isn_weak" in text:
        others = [weir.client(), weir.client()]
        assert [client.value("SELECT isn_weak()") for client in others] == ["f", "f"]


@pytest.mark.parametrize("language", ["plperl", "plpython3u"])
def test_a_language_that_cannot_be_read(made, postgres, language):
    """Where PostgreSQL has it. The name of the parameter is in the text of the client."""
    if postgres.value("SELECT count(*) FROM pg_available_extensions "
                      f"WHERE name = '{language}'") == 0:
        pytest.skip(f"no {language}")
    body = {"plperl": "spi_exec_query(\"SET app.tenant = '$_[0]'\"); return $_[0];",
            "plpython3u": "plpy.execute(\"SET app.tenant = '%s'\" % t)"}[language]
    made.make(f"CREATE EXTENSION {language}",
              f"CREATE FUNCTION set_tenant(t text) RETURNS text LANGUAGE {language} AS $$ {body} $$")
    weir = made.start()
    two_tenants(weir, "SELECT set_tenant('{}') , 'app.tenant'")
    assert made.catalog()[1]["set_tenant"] == ("function", "anything")


RUNS = {
    "simple": wire.run_simple,
    "unnamed": wire.run_unnamed,
    "named": wire.run_named,
    "PREPARE": lambda client, text: (client.query("PREPARE p AS " + text), client.query("EXECUTE p"),
                                     client.query("DEALLOCATE p")),
    "a block": lambda client, text: (client.query("BEGIN"), client.query(text), client.query("COMMIT")),
}


@pytest.mark.parametrize("run", RUNS)
def test_each_protocol(made, run):
    made.make(BASE)
    weir = made.start()
    first, second = weir.client(), weir.client()
    for _ in range(2):
        RUNS[run](first, "SELECT set_tenant('one')")
        RUNS[run](second, "SELECT set_tenant('two')")
        for _ in range(4):
            assert (first.value(TENANT), second.value(TENANT)) == ("one", "two")


def test_after_a_take_over(made):
    """Nothing is handed over: the new process reads the catalog before it needs it."""
    made.make(BASE)
    weir = made.start(admin_users="admin")
    two_tenants(weir, "SELECT set_tenant('{}')")
    weir.disconnect_console()
    assert weir.take_over().wait(15) == 0
    two_tenants(weir, "SELECT set_tenant('{}')")


@LOOPS
def test_a_function_that_another_connection_replaces(made, loops):
    made.make(sql("SELECT $1"))
    weir = made.start(loops=loops)
    made.wait("quiet")
    made.make(BASE.replace("CREATE", "CREATE OR REPLACE"))
    made.wait("touches", "set_tenant", "app.tenant")
    two_tenants(weir, "SELECT set_tenant('{}')")


# What another connection changes without a new function or trigger.
ELSEWHERE = {
    "a new name": ("CREATE TABLE old (a text)", "ALTER TABLE old RENAME TO t"),
    "a name for another": ("CREATE TABLE t (a text); CREATE TABLE old (a text)",
                           "ALTER TABLE t RENAME TO other; ALTER TABLE old RENAME TO t"),
    "a partition": ("CREATE TABLE t (a text) PARTITION BY LIST (a); CREATE TABLE old (a text)",
                    "ALTER TABLE t ATTACH PARTITION old DEFAULT"),
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_what_another_connection_changes(made, what):
    before, change = ELSEWHERE[what]
    made.make(BASE, TRIGGER, before,
              "CREATE TRIGGER g BEFORE INSERT ON old FOR EACH ROW EXECUTE FUNCTION on_row()")
    weir = made.start()
    made.wait("touches", "old")
    made.make(change)
    made.wait("touches", "t")
    two_tenants(weir, "INSERT INTO t VALUES ('{}')")


def test_temporary_tables_of_others_are_no_change(made, postgres):
    def are_gone():
        """Then PostgreSQL has counted what they changed."""
        return not postgres.backends("postgres", "known")

    def look(client):
        since = postgres.value("SELECT now()")

        def has_looked():
            client.query("SELECT 1")
            return postgres.value("SELECT count(*) FROM pg_stat_activity WHERE datname = 'known' "
                                  "AND strpos(query, 'tuples_updated') > 0 AND query_start > %s", since)
        wait_until(has_looked)

    made.make(BASE)
    wait_until(are_gone)
    weir = made.start()
    made.wait("touches", "set_tenant")
    client = weir.client()
    since = made.since()
    for _ in range(3):
        with postgres.connect(dbname="known") as connection:
            connection.execute("CREATE TEMP TABLE x (a text, b text[])")
            connection.execute("INSERT INTO x VALUES ('1')")
        wait_until(are_gone)
        look(client)
    look(client)  # the reading that a look brings about has ended
    assert made.since() == since


@LOOPS
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_function_that_a_client_makes_counts_at_once(made, postgres, loops, mode):
    weir = made.start(loops=loops, users={"bob": f"pool_mode={mode}"})
    postgres.query("GRANT CREATE ON SCHEMA public TO bob", dbname="known")
    made.wait("quiet")
    maker = weir.client("bob")
    assert not maker.query(BASE).error
    two_tenants(weir, "SELECT set_tenant('{}')")
    made.wait("touches", "set_tenant")


@LOOPS
def test_what_a_client_of_another_entry_makes_counts_at_once(made, loops):
    """Both lead to the same database."""
    weir = made.start(loops=loops, databases={"app": "dbname=known", "other": "dbname=known"})
    made.wait("quiet")
    assert not weir.client(database="other").query(BASE).error
    two_tenants(weir, "SELECT set_tenant('{}')")
    made.wait("touches", "set_tenant")
    assert {row["database"] for row in weir.admin("SHOW CATALOG")} == {"app", "other"}


def test_an_entry_that_leads_elsewhere_from_now_on(made, postgres):
    weir = made.start(databases={"app": "dbname=postgres", "other": "dbname=known"})
    made.wait("quiet")
    weir.reload(databases={"app": "dbname=known", "other": "dbname=known"})
    assert not weir.client(database="other").query(BASE).error
    two_tenants(weir, "SELECT set_tenant('{}')")


# What is made, and a text that sets the tenant by it without an unknown name.
JUST_MADE = {
    "a trigger": ([TRIGGER, "CREATE TABLE t (a text)"],
                  "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION on_row()",
                  "INSERT INTO t VALUES ('{}')"),
    "a default": (["CREATE TABLE t (b int, a text)"],
                  "ALTER TABLE t ALTER a SET DEFAULT set_tenant(current_setting('application_name'))",
                  "SET LOCAL application_name = '{}'; INSERT INTO t VALUES (1)"),
    "a view": (["CREATE TABLE t (a text)", "INSERT INTO t VALUES ('one'), ('two')"],
               "CREATE VIEW v AS SELECT a, set_tenant(a) FROM t", "SELECT * FROM v WHERE a = '{}'"),
    "a known name": ([], sql("SELECT " + SET.format("$1 #>> '{}'"), "upper", "t json"),
                     "SELECT upper('\"{}\"'::json)"),
}


# Relations that lead to it, by what their own texts name.
IMMUTABLE = BASE.replace("LANGUAGE", "IMMUTABLE LANGUAGE")
BY_DEFAULT = "SET LOCAL application_name = '{}'; INSERT INTO t (b) VALUES (1)"
DEFAULT = "set_tenant(current_setting('application_name'))"
OWN = SET.format("current_setting('application_name')")
JUST_RELATED = {
    "an index": (["CREATE TABLE t (a text)"], ["CREATE INDEX ON t (set_tenant(a))"],
                 "INSERT INTO t VALUES ('{}')"),
    "an index, spelled oddly": (["CREATE TABLE t (a text)"], ['CREATE INDEX ON t (U&"set\\005ftenant"(a))'],
                                "INSERT INTO t VALUES ('{}')"),
    "a default": ([], [f"CREATE TABLE t (b int, a text DEFAULT {DEFAULT})"], BY_DEFAULT),
    "a default of PostgreSQL's own": ([], [f"CREATE TABLE t (b int, a text DEFAULT {OWN})"], BY_DEFAULT),
    "a new default": (["CREATE TABLE t (b int)"], [f"ALTER TABLE t ADD a text DEFAULT {DEFAULT}"],
                      BY_DEFAULT),
    "a check": (["CREATE TABLE t (a text)"], ["ALTER TABLE t ADD CHECK (set_tenant(a) = a)"],
                "INSERT INTO t VALUES ('{}')"),
    "a copy": ([f"CREATE TABLE o (b int, a text DEFAULT {DEFAULT})"],
               ["CREATE TABLE t (LIKE o INCLUDING ALL)"], BY_DEFAULT),
    "a copy of a copy": ([f"CREATE TABLE o (b int, a text DEFAULT {DEFAULT})"],
                         ["CREATE TABLE c (LIKE o INCLUDING ALL)", "CREATE TABLE t (LIKE c INCLUDING ALL)"],
                         BY_DEFAULT),
    "a copy in one text": ([f"CREATE TABLE o (b int, a text DEFAULT {DEFAULT})"],
                           ["CREATE TEMP TABLE x (a int) ON COMMIT DROP; CREATE TABLE t (LIKE o INCLUDING ALL)"],
                           BY_DEFAULT),
    "a child": (["CREATE TABLE o (a text CHECK (set_tenant(a) = a))"], ["CREATE TABLE t () INHERITS (o)"],
                "INSERT INTO t VALUES ('{}')"),
    "another name": (["CREATE TABLE o (a text CHECK (set_tenant(a) = a))"], ["ALTER TABLE o RENAME TO t"],
                     "INSERT INTO t VALUES ('{}')"),
    "a partition": ([TRIGGER, "CREATE TABLE o (a text) PARTITION BY LIST (a)",
                     "CREATE TRIGGER g BEFORE INSERT ON o FOR EACH ROW EXECUTE FUNCTION on_row()"],
                    ["CREATE TABLE t PARTITION OF o DEFAULT"], "INSERT INTO t VALUES ('{}')"),
}


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("run", [wire.run_simple, wire.run_named])
@pytest.mark.parametrize("what", JUST_RELATED)
def test_a_relation_that_leads_to_what_is_known(made, postgres, what, run, block):
    texts, makes, use = JUST_RELATED[what]
    if run is wire.run_named and ";" in makes[0]:
        pytest.skip("one statement")
    made.make(IMMUTABLE, *texts)
    for table in ("t", "o"):
        postgres.query(f"ALTER TABLE IF EXISTS {table} OWNER TO alice", dbname="known")
    weir = made.start()
    made.wait("touches", "set_tenant")
    maker = weir.client()
    for text in ["BEGIN"] * block + makes + ["COMMIT"] * block:
        run(maker, text)
    two_tenants(weir, use)


@LOOPS
@pytest.mark.parametrize("what", ["a default", "a default of PostgreSQL's own", "an index"])
def test_a_relation_that_a_client_in_session_mode_makes(made, postgres, what, loops):
    texts, makes, use = JUST_RELATED[what]
    made.make(IMMUTABLE, *texts)
    weir = made.start(loops=loops, users={"bob": "pool_mode=session"})
    postgres.query("GRANT CREATE ON SCHEMA public TO bob", dbname="known")
    postgres.query("ALTER TABLE IF EXISTS t OWNER TO bob", dbname="known")
    made.wait("touches", "set_tenant")
    maker = weir.client("bob")
    for text in makes + ["GRANT ALL ON t TO alice"]:
        assert not maker.query(text).error
    two_tenants(weir, use)


def test_a_relation_that_is_committed_after_the_next_reading(made, postgres):
    """Its text calls what could touch nothing when it was sent."""
    deep = sql("SELECT $1", "deep")
    made.make(deep, sql("SELECT deep($1)", "mid").replace("LANGUAGE", "IMMUTABLE LANGUAGE"),
              "CREATE TABLE t (a text)", "ALTER TABLE t OWNER TO alice", "ALTER FUNCTION deep OWNER TO alice")
    weir = made.start(default_pool_size=4)
    made.wait("quiet")
    maker, other = weir.client(), weir.client()
    for text in ("BEGIN", "CREATE INDEX ON t (mid(a))"):
        assert not maker.query(text).error
    new = deep.replace("CREATE", "CREATE OR REPLACE").replace("$1", SET.format("$1"))
    assert not other.query(new).error
    made.wait("touches", "deep", "mid")
    assert not maker.query("COMMIT").error
    two_tenants(weir, "INSERT INTO t VALUES ('{}')")


# How what was made in a block comes to be seen without a ReadyForQuery of its transaction's own.
COMMITS = {
    "a chain": lambda client: client.query("COMMIT AND CHAIN"),
    "a client that leaves": lambda client: (client.send(wire.query("COMMIT"), wire.terminate()), client.close()),
    "a client that is gone": lambda client: (client.send(wire.query("COMMIT")), client.close()),
}


IS_COMMITTED = {
    "a function": "SELECT count(*) > 0 FROM pg_proc WHERE proname = 'set_tenant' AND prosrc LIKE '%set_config%'",
    "an index": "SELECT count(*) > 0 FROM pg_index WHERE indrelid = 't'::regclass",
}


@LOOPS
@pytest.mark.parametrize("how", COMMITS)
@pytest.mark.parametrize("what", ["a function", "an index"])
def test_what_is_committed_in_another_way(made, postgres, what, how, loops):
    """The catalog was read while it could not be seen."""
    made.make(*[IMMUTABLE, "CREATE TABLE t (a text)", "ALTER TABLE t OWNER TO alice"][what == "a function":],
              *[sql("SELECT $1"), "ALTER FUNCTION set_tenant OWNER TO alice"][:2 * (what == "a function")])
    weir = made.start(loops=loops, default_pool_size=4)
    made.wait("quiet" if what == "a function" else "touches")
    maker = weir.client()
    for text in ("BEGIN", BASE.replace("CREATE", "CREATE OR REPLACE") if what == "a function"
                 else "CREATE INDEX ON t (set_tenant(a))"):
        assert not maker.query(text).error
    made.wait("quiet" if what == "a function" else "touches")
    COMMITS[how](maker)
    wait_until(lambda: postgres.value(IS_COMMITTED[what], dbname="known"))
    if how != "a chain":  # nobody waits for the reply, but it has come
        wait_until(lambda: {row["state"] for row in weir.admin("SHOW SERVERS")} <= {"idle"})
    two_tenants(weir, "SELECT set_tenant('{}')" if what == "a function" else "INSERT INTO t VALUES ('{}')")


# What others see long before its reply comes: what it waits for is a lock, or a snapshot, of the test.
HELD_UP = "SELECT pg_advisory_xact_lock(5)"
MAKE_IT = ("CREATE PROCEDURE make_it(t text) LANGUAGE plpgsql AS "
           "'BEGIN EXECUTE t; COMMIT; PERFORM pg_advisory_xact_lock(5); END'")
UNANSWERED = {
    "an index": ([IMMUTABLE, "CREATE TABLE t (a text)", "ALTER TABLE t OWNER TO alice"],
                 ["CREATE INDEX CONCURRENTLY ON t (set_tenant(a))"], "INSERT INTO t VALUES ('{}')",
                 "SELECT count(*) > 0 FROM pg_index WHERE indrelid = 't'::regclass AND indisready"),
    "a function": ([], [f"{BASE}; COMMIT; {HELD_UP}"], None, None),
    "a function of a block": ([], ["BEGIN", BASE, f"COMMIT; {HELD_UP}"], None, None),
    "a function of a procedure": ([MAKE_IT], [f"CALL make_it($in${BASE}$in$)"], None, None),
    "a table": ([BASE], [f"CREATE TABLE t (b int, a text DEFAULT {DEFAULT}); COMMIT; {HELD_UP}"],
                BY_DEFAULT, "SELECT to_regclass('t') IS NOT NULL"),
}


def relies_on_the_catalog(weir, postgres):
    """Whether a text without a known name is not asked after."""
    client = weir.client()
    client.query("SELECT 'what was in doubt before is cleaned'")
    with logged_statements(postgres, client) as since:
        client.query("SELECT 'in between'")
        client.query("SELECT 'behind it'")
        wait_until(lambda: "behind it" in postgres.log[since:])
        log = postgres.log[since:].partition("in between")[2]
    client.close()
    return "pg_show_all_settings" not in log


@LOOPS
@pytest.mark.parametrize("what", UNANSWERED)
def test_what_is_committed_before_its_reply_comes(made, postgres, what, loops):
    """It counts from the moment when it is sent, and no longer than it runs."""
    texts, makes, use, is_there = UNANSWERED[what]
    made.make(*texts)
    weir = made.start(loops=loops, default_pool_size=4)
    made.wait("touches" if texts else "quiet")
    maker = weir.client()
    with postgres.connect("known") as other:
        other.execute("SELECT pg_advisory_lock(5)")
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")
        for text in makes[:-1]:
            assert not maker.query(text).error
        maker.send(wire.query(makes[-1]))
        wait_until(lambda: postgres.value(is_there or IS_COMMITTED["a function"], dbname="known"))
        two_tenants(weir, use or "SELECT set_tenant('{}')")
        assert not relies_on_the_catalog(weir, postgres)
    assert not maker.read_result().error
    wait_until(lambda: relies_on_the_catalog(weir, postgres))


def test_a_long_transaction_that_has_made_a_function_holds_up_nobody(made, postgres):
    """It cannot be committed before its client says so."""
    weir = made.start()
    made.wait("quiet")
    maker = weir.client()
    with postgres.connect("known") as other:
        other.execute("SELECT pg_advisory_lock(5)")
        for text in ("BEGIN", BASE):
            assert not maker.query(text).error
        wait_until(lambda: relies_on_the_catalog(weir, postgres))
        maker.send(wire.query(HELD_UP))
        wait_until(lambda: postgres.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' "
                                          "AND NOT granted"))
        assert relies_on_the_catalog(weir, postgres)
    assert not maker.read_result().error
    assert not maker.query("COMMIT").error
    two_tenants(weir, "SELECT set_tenant('{}')")


STUBBORN = ("CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN LOOP BEGIN "
            "PERFORM pg_advisory_xact_lock(5); RETURN NULL; EXCEPTION WHEN query_canceled THEN NULL; "
            "END; END LOOP; END $$")


@LOOPS
def test_a_commit_that_its_client_does_not_wait_for(made, postgres, loops):
    """Until PostgreSQL has ended it, whatever was read in between."""
    made.make(STUBBORN, "CREATE TABLE slow (a int)", "CREATE CONSTRAINT TRIGGER g AFTER INSERT ON slow "
              "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()")
    weir = made.start(loops=loops, default_pool_size=4, cancel_grace="30s")
    made.wait("quiet")
    maker = weir.client()
    with postgres.connect("known") as other:
        other.execute("SELECT pg_advisory_lock(5)")
        for text in ("BEGIN", BASE, "INSERT INTO slow VALUES (1)"):
            assert not maker.query(text).error
        maker.send(wire.query("COMMIT"))
        wait_until(lambda: postgres.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' "
                                          "AND NOT granted"))
        users = [weir.client() for _ in range(loops)]
        since = made.since()
        wait_until(lambda: time.strftime("%F %T", time.gmtime()) > since[:19], what="another second")
        maker.close()
        wait_until(lambda: "being_canceled" in {row["state"] for row in weir.admin("SHOW SERVERS")})
        wait_until(lambda: [user.query("SELECT 1") for user in users] and made.since() != since,
                   what="another reading")
        assert not relies_on_the_catalog(weir, postgres)
    wait_until(lambda: postgres.value(IS_COMMITTED["a function"], dbname="known"))
    two_tenants(weir, "SELECT set_tenant('{}')")
    wait_until(lambda: relies_on_the_catalog(weir, postgres))


ENDS = {
    "its client": lambda made, maker, pid: maker.close(),
    "its server": lambda made, maker, pid: made.postgres.query(f"SELECT pg_terminate_backend({pid})"),
    "KILL": lambda made, maker, pid: made.weir.admin("KILL app"),
    "RECONNECT": lambda made, maker, pid: made.weir.admin("RECONNECT"),
    "its entry": lambda made, maker, pid: made.weir.reload(databases={"app": "dbname=postgres",
                                                                      "app2": "dbname=known"}),
    "its entry's mode": lambda made, maker, pid: made.weir.reload(session_isolation="off"),
}


@LOOPS
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("how", ENDS)
def test_no_end_leaves_a_definition_under_way(made, postgres, how, is_known, loops):
    """Neither here nor at the end of the process, which looks after its counts."""
    made.postgres = postgres
    made.make("CREATE TABLE t (a text)", "ALTER TABLE t OWNER TO alice")
    weir = made.start(loops=loops, default_pool_size=4)
    made.wait("quiet")
    maker = weir.client()
    pid = maker.value("SELECT pg_backend_pid()")
    with postgres.connect("known") as other:
        other.execute("SELECT pg_advisory_lock(5)")
        for text in ("BEGIN", "CREATE INDEX ON t (a)" if is_known else BASE):
            maker.query(text)
        maker.send(wire.query(f"COMMIT; {HELD_UP}"))
        wait_until(lambda: postgres.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' "
                                          "AND NOT granted"))
        ENDS[how](made, maker, pid)
    if how == "KILL":
        weir.admin("RESUME app")
    if how != "its entry's mode":
        wait_until(lambda: relies_on_the_catalog(weir, postgres))


def test_a_block_that_is_handed_over_counts_when_it_is_committed(made):
    weir = made.start(admin_users="admin", default_pool_size=4)
    made.wait("quiet")
    maker = weir.client()
    for text in ("BEGIN", BASE):
        assert not maker.query(text).error
    weir.disconnect_console()
    assert weir.take_over().wait(15) == 0
    made.wait("quiet")
    assert not maker.query("COMMIT").error
    two_tenants(weir, "SELECT set_tenant('{}')")


def test_what_was_prepared_to_be_committed(made, private_postgres):
    postgres = private_postgres(max_prepared_transactions=4)
    postgres.query("CREATE FUNCTION set_tenant(t text) RETURNS text LANGUAGE sql AS 'SELECT $1'", dbname="app")
    postgres.query("ALTER FUNCTION set_tenant OWNER TO alice", dbname="app")
    weir = made.start(postgres=postgres, databases={"app": ""})
    made.wait("quiet")
    maker = weir.client()
    for text in ("BEGIN", BASE.replace("CREATE", "CREATE OR REPLACE"), "PREPARE TRANSACTION 'x'"):
        assert not maker.query(text).error
    made.wait("quiet")
    assert not maker.query("COMMIT PREPARED 'x'").error
    two_tenants(weir, "SELECT set_tenant('{}')")


def test_a_relation_whose_text_was_judged_before_is_used_in_its_transaction(made, postgres):
    """Its client keeps what it has set by that."""
    deep = sql("SELECT $1", "deep")
    made.make(deep, sql("SELECT deep($1)", "mid"), "CREATE TABLE t (a text)", "ALTER TABLE t OWNER TO alice",
              "ALTER FUNCTION deep OWNER TO alice")
    weir = made.start(default_pool_size=4)
    made.wait("quiet")
    maker, other = weir.client(), weir.client()
    for text in ("BEGIN", "ALTER TABLE t ADD CHECK (mid(a) = a)"):
        assert not maker.query(text).error
    new = deep.replace("CREATE", "CREATE OR REPLACE").replace("$1", SET.format("$1"))
    assert not other.query(new).error
    made.wait("touches", "deep", "mid")
    for text in ("INSERT INTO t VALUES ('one')", "COMMIT"):
        assert not maker.query(text).error
    for _ in range(4):
        assert (maker.value(TENANT), other.value(TENANT)) == ("one", "")


MADE_AGAIN = {
    "temporary": ["CREATE TEMP TABLE x (a text)", "CREATE INDEX ON x (lower(a))", "DROP TABLE x"],
    "ordinary": ["CREATE TABLE x (a text)", "CREATE INDEX ON x (a)", "ALTER TABLE x ADD b int",
                 "ALTER TABLE x RENAME TO y", "DROP TABLE y"],
    "in a block": ["BEGIN", "CREATE TABLE x (a text)", "INSERT INTO x (a) VALUES ('b')",
                   "CREATE INDEX ON x (a)", "COMMIT", "DROP TABLE x"],
    "rolled back": ["BEGIN", "CREATE TABLE x (a text)", "CREATE INDEX ON x (a)", "ROLLBACK"],
}


@pytest.mark.parametrize("run", [wire.run_simple, wire.run_unnamed, wire.run_named])
@pytest.mark.parametrize("what", MADE_AGAIN)
def test_relations_that_lead_nowhere_are_no_news(made, postgres, what, run):
    """Nobody is asked for everything because of them."""
    made.make(BASE)
    weir = made.start()
    made.wait("touches", "set_tenant")
    maker, other = weir.client(), weir.client()
    for client in (maker, other):
        client.query("SELECT 'what was in doubt before is cleaned'")
    with logged_statements(postgres, other) as since:
        for _ in range(5):
            for text in MADE_AGAIN[what]:
                run(maker, text)
                assert other.value("SELECT 'in between'") == "in between"
        wait_until(lambda: postgres.log[since:].count("in between") >= 5 * len(MADE_AGAIN[what]))
        assert "pg_show_all_settings" not in postgres.log[since:]


def test_what_is_made_without_a_pause_does_not_hide_the_rest(made):
    """A reading counts although relations are made while PostgreSQL answers."""
    weir = made.start()
    made.wait("quiet")
    maker, other = weir.client(), weir.client()
    assert not other.query(BASE).error
    seen = 0
    for _ in range(2000):
        for text in MADE_AGAIN["temporary"]:
            maker.query(text)
        seen = seen + 1 if made.catalog() == ("touches", {"set_tenant": ("function", "parameters"),
                                                          "app.tenant": ("parameter", None)}) else 0
        if seen == 10:
            break
    assert seen == 10


@pytest.mark.parametrize("text", ["CREATE TABLE x (id serial)", "CREATE TABLE x (LIKE o INCLUDING ALL)",
                                  "CREATE TEMP TABLE t () ON COMMIT DROP; CREATE TABLE x (id serial)"])
@pytest.mark.parametrize("block", [False, True])
def test_the_first_sequence(made, text, block):
    """There was none that another client could use."""
    made.make("CREATE TABLE o (id int)")
    weir = made.start(default_pool_size=1)
    made.wait("quiet")
    maker, other = weir.client(), weir.client()
    for statement in ["BEGIN"] * block + [text] + ["COMMIT"] * block:
        assert not maker.query(statement).error
    if "LIKE" in text:
        assert not maker.query("ALTER TABLE x ALTER id SET NOT NULL, ALTER id "
                               "ADD GENERATED ALWAYS AS IDENTITY").error
    assert not maker.query("INSERT INTO x DEFAULT VALUES").error
    assert other.query("SELECT lastval()").error


@LOOPS
@pytest.mark.parametrize("what", JUST_MADE)
def test_what_has_just_been_made_needs_no_unknown_name(made, postgres, what, loops):
    texts, text, use = JUST_MADE[what]
    made.make(BASE, *texts)
    for table in ("t",) if texts else ():
        postgres.query(f"ALTER TABLE {table} OWNER TO alice", dbname="known")
    weir = made.start(loops=loops)
    made.wait("touches", "set_tenant")
    made_by = weir.client().query(text)
    assert not made_by.error, made_by.error
    two_tenants(weir, use)


def test_one_reading_for_all_who_need_it(made, postgres):
    weir = made.start(loops=2, default_pool_size=20)
    made.wait("quiet")
    clients = [weir.client() for _ in range(8)]
    for client in clients:
        client.query("BEGIN")
    with logged_statements(postgres, clients[0]) as since:
        for number, client in enumerate(clients):
            client.query(f"SAVEPOINT s{number}")
        assert not weir.client().query(BASE).error
        for number, client in enumerate(clients):
            client.send(wire.query(f"SELECT set_tenant('{number}'); COMMIT"))
        for client in clients:
            assert not client.read_result().error
        for number, client in enumerate(clients):
            assert client.value(TENANT) == str(number)
        assert postgres.log[since:].count("more than 4 MB of functions") <= 2


def test_a_function_that_is_made_in_the_same_transaction(made):
    weir = made.start()
    made.wait("quiet")
    first, second = weir.client(), weir.client()
    for text in ("BEGIN", BASE, "SELECT set_tenant('one')", "COMMIT"):
        assert not first.query(text).error
    for _ in range(4):
        assert (first.value(TENANT), second.value(TENANT)) == ("one", "")


@pytest.mark.parametrize("way", ["DO $do$ BEGIN EXECUTE $in${}$in$; END $do$", "CALL make_it($in${}$in$)"])
def test_a_function_that_a_block_makes(made, way):
    made.make("CREATE PROCEDURE make_it(t text) LANGUAGE plpgsql AS 'BEGIN EXECUTE t; END'")
    weir = made.start()
    made.wait("touches", "make_it")
    assert not weir.client().query(way.replace("{}", BASE)).error
    two_tenants(weir, "SELECT set_tenant('{}')")


def test_what_it_says(made):
    made.make(BASE, plpgsql("CREATE TEMP TABLE x (a int)", "make_table", ""),
              plpgsql("PERFORM pg_advisory_lock(1)", "take_lock", ""),
              plpgsql("LISTEN x; NOTIFY y", "hear", ""),
              plpgsql("EXECUTE 'x'", "run", ""),
              plpgsql("PERFORM setseed(0.5)", "seeds", ""),
              plpgsql("UPDATE t SET a = set_config('a.b', 'c', true)", "nothing", ""),
              plpgsql("SET LOCAL app.x = 1", "local_one", ""),
              "CREATE TABLE t (a text DEFAULT set_tenant('x'))", "CREATE VIEW v AS SELECT * FROM t")
    made.start()
    made.wait("touches")
    assert made.catalog()[1] == {
        "set_tenant": ("function", "parameters"),
        "make_table": ("function", "temporary objects"),
        "take_lock": ("function", "session locks"),
        "hear": ("function", "channels, notifications"),
        "run": ("function", "anything"),
        "seeds": ("function", "what cannot be asked for"),
        "nothing": ("function", "parameters"),  # by the table that it writes
        "t": ("table", "parameters"),
        "v": ("view", "parameters"),
        "app.tenant": ("parameter", None),
    }
    assert made.weir.admin("SHOW CATALOG app") and not made.weir.admin("SHOW CATALOG app2")


def test_only_what_a_name_may_touch_is_asked_for(made, postgres):
    """A transaction whose texts have no such name asks nothing, and leaves its server clean."""
    made.make(BASE, plpgsql("PERFORM pg_advisory_lock(1)", "take_lock", ""), "CREATE TABLE t (a int)")
    weir = made.start(default_pool_size=1)
    made.wait("touches")
    first, second = weir.client(), weir.client()
    for client in (first, second, first):
        client.query("SELECT 'what was in doubt before is cleaned'")
    with logged_statements(postgres, first) as since:
        for text in ("SELECT tenant FROM (VALUES (1)) AS v (tenant)", "INSERT INTO t VALUES (1)",
                     "SELECT 'set_tenant()'"):
            first.query(text)
            second.query(text)
        first.query("SELECT take_lock()")
        first.query("SELECT pg_advisory_unlock_all()")
        wait_until(lambda: "pg_advisory_unlock_all" in postgres.log[since:])
        log = postgres.log[since:]
        assert "DISCARD" not in log and "pg_show_all_settings" not in log
        assert log.count("pg_lock_status()AS l") >= 1


def test_locks_and_temporary_tables_stay(made):
    made.make(plpgsql("CREATE TEMP TABLE x (a int)", "make_table", ""),
              plpgsql("PERFORM pg_advisory_lock(1)", "take_lock", ""))
    weir = made.start()
    for function, why in (("make_table", "temporary object"), ("take_lock", "session lock")):
        client = weir.client()
        assert not client.query(f"SELECT {function}()").error
        wait_until(lambda: [row["why"] for row in weir.admin("SHOW PINNED")] == [why])
        client.close()
        wait_until(lambda: not weir.admin("SHOW PINNED"))


def test_all_volatile_functions_of_postgresql_are_known(made, postgres):
    """Those that are in no list of ours would be in this one."""
    made.start()
    made.wait("quiet")
    assert made.catalog() == ("quiet", {})


def test_an_operator_on_a_function_of_postgresql(made):
    made.make("CREATE OPERATOR @@@ (FUNCTION = pg_try_advisory_lock, RIGHTARG = bigint)")
    weir = made.start()
    made.wait("any text")
    client = weir.client()
    assert client.value("SELECT @@@ 7::bigint") == "t"
    wait_until(lambda: [row["why"] for row in weir.admin("SHOW PINNED")] == ["session lock"])


@pytest.mark.parametrize("what, make", {
    "more than 4 MB of functions": lambda n: f"CREATE FUNCTION f{n}() RETURNS text LANGUAGE sql AS "
                                             f"$$ SELECT '{'x' * 1_100_000}' $$",
    "too many names": lambda n: "DO $do$ BEGIN FOR i IN 1..300 LOOP EXECUTE format('CREATE FUNCTION "
                                f"f{n}_%s() RETURNS text LANGUAGE sql AS ''SELECT set_config($$a$$, "
                                "$$b$$, false)''', i); END LOOP; END $do$",
}.items())
def test_too_much(made, what, make):
    """Then any text counts."""
    made.make(BASE, *map(make, range(4)))
    weir = made.start()
    made.wait("any text")
    assert what in str(weir.admin("SHOW CATALOG"))
    first, second = weir.client(), weir.client()
    first.query("SELECT set_tenant('one') , 'app.tenant'")
    assert (first.value(TENANT), second.value(TENANT)) == ("one", "")


def test_no_right_to_read_it(made):
    """Nobody is disconnected; a call of an unknown function is asked after."""
    made.make(BASE, "REVOKE SELECT ON pg_policy FROM PUBLIC")
    weir = made.start()
    first, second = weir.client(), weir.client()
    assert not first.query("SELECT set_tenant('one') , 'app.tenant'").error
    for _ in range(3):
        assert (first.value(TENANT), second.value(TENANT)) == ("one", "")
    assert made.catalog()[0] == "unread"
    weir.wait_log("it could not be read")


def test_an_event_trigger(made):
    made.make(BASE, plpgsql("PERFORM set_tenant('ddl')", "on_ddl", "", "event_trigger", ""),
              "CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION on_ddl()")
    weir = made.start()
    made.wait("touches", "comment")
    first, second = weir.client(), weir.client()
    first.query("COMMENT ON SCHEMA public IS 'x'")
    for _ in range(3):
        assert (first.value(TENANT), second.value(TENANT)) == ("ddl", "")


def test_one_reading_for_all_loops_and_users(made, postgres):
    made.make(BASE)
    weir = made.start(loops=3, default_pool_size=3)
    clients = [weir.client(name) for name in ("alice", "bob") for _ in range(6)]
    for _ in range(3):
        for client in clients:
            client.query("SELECT 1")
    made.wait("touches", "set_tenant")
    assert weir.log.count("can touch session state") == 1
    for number, client in enumerate(clients):
        client.query(f"SELECT set_tenant('{number}')")
    for number, client in enumerate(clients):
        assert client.value(TENANT) == str(number)


def test_a_standby_that_has_not_replayed_a_definition(made, make_cluster):
    """An entry that leads there, too, is no source of what has just been defined."""
    cluster = make_cluster(standbys=1)
    primary, standby = cluster.hosts
    primary.query("CREATE FUNCTION set_tenant(t text) RETURNS text LANGUAGE sql AS 'SELECT $1'", dbname="app")
    primary.query("ALTER FUNCTION set_tenant OWNER TO alice", dbname="app")
    cluster.wait_replayed(standby)
    weir = made.start(default_pool_size=4, host_check_user="alice", databases={
        name: f"host={cluster.host_list} port={cluster.port} dbname=app target_session_attrs={target}"
        for name, target in (("app", "primary"), ("app2", "standby"))})
    made.wait("quiet")
    maker, reader = weir.client(), weir.client(database="app2")
    standby.pause_replay()
    with logged_statements(standby, reader) as since:
        for text in ("BEGIN", BASE.replace("CREATE", "CREATE OR REPLACE"), "COMMIT AND CHAIN"):
            assert not maker.query(text).error
        wait_until(lambda: reader.query("SELECT 1").tags and "pg_rewrite" in standby.log[since:])
    wait_until(lambda: {row["state"] for row in weir.admin("SHOW SERVERS") if row["database"] == "app2"} == {"idle"})
    two_tenants(weir, "SELECT set_tenant('{}')")
    standby.resume_replay()


def test_a_server_that_ends_while_another_one_reads_it(pgweir, fake_server):
    """The client that waits there has its answer: it does not get the last words, and goes on."""
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode="transaction", default_pool_size=2)
    clients = [weir.wire().startup() for _ in range(2)]
    servers = [far.accept().login()]
    for client in clients:
        client.finish_login("alice")
        client.send(wire.query("UPDATE t SET n = 1"))
    servers += [far.accept().login()]
    for server in servers:
        server.expect("Q")
    for client, server in zip(clients, servers):
        server.send(fake.complete("UPDATE 1"), fake.ready())
        assert client.read_result().tags == ["UPDATE 1"]
        if server is servers[0]:
            assert any(b"pg_proc" in got.body for got in server.read_until("S"))
    servers[1].send(fake.error("terminating connection", "57P01", "FATAL", "ProcessInterrupts"))
    servers[1].close()
    weir.wait_log("S-.* closing because: server ")
    clients[1].send(wire.query("SELECT 2"))
    server = far.accept().login()
    server.expect("Q")
    server.send(fake.answer("2"))
    got = clients[1].read_result()
    assert (got.rows, got.errors) == ([["2"]], [])
