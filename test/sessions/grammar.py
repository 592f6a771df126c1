# SPDX-License-Identifier: ISC
"""SQL texts that make, change, drop and show session state.

`{n}` is replaced by the number of the session's lane, so that sessions running at the same time do
not disturb each other: advisory locks, channels, sequences and permanent tables have it in their
names. What a session keeps for itself (parameters, temporary tables, cursors) has the same names in
all sessions, so that a leak is seen.

Texts that have not always one result are left out: random() without a seed, process IDs, plans with
costs. So is whether a custom parameter is empty or unknown, which depends on the server's past, and
pg_prepared_statements, where a server has names of pgweir's.
"""

import re

SETUP = """
CREATE ROLE boss SUPERUSER LOGIN
CREATE ROLE role_a
CREATE ROLE role_b
GRANT role_a, role_b TO alice
GRANT pg_read_all_settings TO alice
"""

# In each database.
OBJECTS = """
CREATE SCHEMA s1; CREATE SCHEMA s2;
GRANT ALL ON SCHEMA public, s1, s2 TO PUBLIC;
CREATE VIEW s1.which AS SELECT text 's1' AS name; CREATE VIEW s2.which AS SELECT text 's2' AS name;
CREATE VIEW public.which AS SELECT text 'public' AS name;
CREATE TABLE public.for_role_a AS SELECT 'a' AS name;
GRANT SELECT ON s1.which, s2.which, public.which TO PUBLIC; GRANT SELECT ON public.for_role_a TO role_a;
CREATE FUNCTION public.hid(sql text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; END';
CREATE FUNCTION public.hid_hex(hex text) RETURNS void LANGUAGE plpgsql
	AS 'BEGIN EXECUTE convert_from(decode(hex, ''hex''), ''UTF8''); END';
CREATE FUNCTION public.hid_caught(sql text) RETURNS text LANGUAGE plpgsql
	AS 'BEGIN EXECUTE sql; RETURN 1 / 0; EXCEPTION WHEN division_by_zero THEN RETURN ''caught''; END';
CREATE FUNCTION public.hid_scoped(sql text) RETURNS text LANGUAGE plpgsql
	SET work_mem = '3MB' SET "app.tenant" = 'scoped'
	AS 'BEGIN EXECUTE sql; RETURN current_setting(''app.tenant''); END';
CREATE PROCEDURE public.hid_call(sql text) LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; COMMIT; END';
CREATE PROCEDURE public.hid_undone(sql text) LANGUAGE plpgsql
	AS 'BEGIN EXECUTE sql; ROLLBACK; PERFORM 1; COMMIT; END';
"""

# What is always there once a backend had a temporary table: its temporary schema. Servers and direct
# connections begin with it, as names that it could have are looked up differently without it.
PRELUDE = "CREATE TEMP TABLE prelude (); DROP TABLE prelude"

# Run by the companion of a session before it begins, and at some time after its end.
LANE = """CREATE TABLE public.own_{n} (id serial, v text); GRANT ALL ON public.own_{n} TO PUBLIC;
	GRANT ALL ON SEQUENCE public.own_{n}_id_seq TO PUBLIC;
	CREATE SEQUENCE public.q_{n} START 100; GRANT ALL ON SEQUENCE public.q_{n} TO PUBLIC"""
LANE_DROP = ("ROLLBACK PREPARED 'x{n}{side}'", "DROP TABLE public.own_{n}; DROP SEQUENCE public.q_{n}")
# Names of prepared transactions must be unique in all databases.
SIDES = {"app2": "d", "app": "p"}

PARAMETERS = {
    "search_path": ("public", "s1", "s2, public", "s1, s2", "public, pg_temp", '""', '"$user", public'),
    "work_mem": ("64", "'2MB'", "'1GB'"),
    "statement_timeout": ("600000", "'11min'", "0"),
    "lock_timeout": ("'10min'", "0"),
    "idle_in_transaction_session_timeout": ("'10min'", "0"),
    "DateStyle": ("'ISO, DMY'", "German", "SQL", "iso"),
    "TimeZone": ("'UTC'", "'Europe/Berlin'", "'<+03>-03'", "3"),
    "extra_float_digits": ("0", "3"),
    "bytea_output": ("escape", "hex"),
    "client_min_messages": ("warning", "notice", "error"),
    "standard_conforming_strings": ("off", "on"),
    "default_transaction_isolation": ("'repeatable read'", "'read committed'", "serializable"),
    "default_transaction_read_only": ("on", "off"),
    "default_transaction_deferrable": ("on", "off"),
    "application_name": ("'one'", "'the other'", "''"),
    "IntervalStyle": ("iso_8601", "postgres"),
    "enable_seqscan": ("off", "on"),
    "client_encoding": ("UTF8", "LATIN1", "'SQL_ASCII'"),
    "row_security": ("off", "on"),
    "escape_string_warning": ("off",),
    "xmloption": ("document", "content"),
    "array_nulls": ("off", "on"),
    "default_table_access_method": ("heap",),
    "temp_tablespaces": ("''",),
    "session_replication_role": ("replica", "origin"),
    "log_min_messages": ("error",),
    "nonsense": ("1",),
    "max_connections": ("1",),
    "role": ("role_a", "none"),
    "session_authorization": ("alice",),
}

CUSTOM = ("app.tenant", "app.user_id", "App.Mixed", "app.a.b", "other.x")
# What a function cannot hide: it is replaced before, or its name must be in a text.
NAMED = re.compile(r"\{(n|dblink)\}|" + "|".join(map(re.escape, CUSTOM)), re.I)
CUSTOM_VALUES = ("one", "two", "", "it''s", "a\nb", "back\\slash", "\u00e4", "z" * 300, "42")

ROLES = ("role_a", "role_b", "alice", "none", "boss", "nobody", "'role_a'", "role_a")
CHANNELS = ("c1_{n}", "c2_{n}", '"C3 {n}"')
TABLES = ("t1", "t2", "which")  # the last one hides a permanent table
CURSORS = ("cur1", "cur2")
SAVEPOINTS = ("a", "b")
STATEMENTS = ("p1", "p2")

INSPECT = """SELECT session_user, current_user, pg_catalog.current_setting('role') AS role,
 nullif(pg_catalog.current_setting('app.tenant', true), '') AS "app.tenant",
 nullif(pg_catalog.current_setting('app.user_id', true), '') AS "app.user_id",
 nullif(pg_catalog.current_setting('app.mixed', true), '') AS "app.mixed",
 nullif(pg_catalog.current_setting('app.a.b', true), '') AS "app.a.b",
 nullif(pg_catalog.current_setting('other.x', true), '') AS "other.x",
 pg_catalog.current_setting('app.from_database', true) AS "app.from_database",
 (SELECT pg_catalog.string_agg(pg_catalog.format('%s=%s', name, setting), ' ' ORDER BY name COLLATE "C")
   FROM pg_catalog.pg_settings WHERE setting IS DISTINCT FROM boot_val AND context IN ('user', 'superuser')) AS settings,
 (SELECT pg_catalog.array_agg(pg_catalog.format('%s %s %s', name, is_holdable, statement) ORDER BY name)
   FROM pg_catalog.pg_cursors WHERE name <> '') AS cursors,
 (SELECT pg_catalog.array_agg(relname::text ORDER BY relname) FROM pg_catalog.pg_class
   WHERE relnamespace = pg_catalog.pg_my_temp_schema()) AS relations,
 (SELECT pg_catalog.array_agg(proname::text ORDER BY proname) FROM pg_catalog.pg_proc
   WHERE pronamespace = pg_catalog.pg_my_temp_schema()) AS functions,
 (SELECT pg_catalog.array_agg(pg_catalog.format('%s %s %s %s', classid, objid, objsubid, mode)
    ORDER BY classid, objid, objsubid, mode)
   FROM pg_catalog.pg_locks WHERE pid = pg_catalog.pg_backend_pid() AND locktype = 'advisory') AS locks"""

# PostgreSQL reads the constant when it prepares the statement, with the array_nulls of that moment.
CONSTANT = "SELECT '{{NULL}}'::text[]"

# What INSPECT shows of the whole database's own objects and settings is equal in both databases.
LOOKS = (
    "SELECT name FROM which", "SELECT name FROM for_role_a", "SELECT count(*) FROM own_{n}",
    "SELECT timestamptz '2026-01-01 12:00+00', interval '1 day 2 hours', '\\x41'::bytea",
    "SELECT 1.1::float8 / 3, 'a\\tb'", "SELECT current_user, session_user, user",
    "SHOW transaction_isolation", "SHOW transaction_read_only", "SHOW search_path", "SHOW TIME ZONE",
    "SHOW SESSION AUTHORIZATION", "SHOW auto_explain.log_nested_statements",
    "SELECT current_schema()", "SELECT quote_ident('x')", "SELECT ARRAY['NULL', NULL]::text",
    CONSTANT, "SELECT xmlparse(CONTENT 'x') IS DOCUMENT",
    "SELECT CASE WHEN current_setting('app.seeded', true) = 'yes' THEN random() END",
    "SELECT name, is_holdable FROM pg_cursors WHERE name <> '' ORDER BY 1",
)


class Grammar:
    """Chooses texts. What is known of the session's state makes most of them valid."""

    def __init__(self, rng, is_super, kinds):
        self.rng = rng
        self.is_super = is_super
        self.kinds = kinds
        self.is_in_transaction = False
        self.tables, self.cursors, self.prepared = [], [], []

    def text(self):
        return getattr(self, self.rng.choice(self.kinds))()

    def pick(self, *texts):
        return self.rng.choice(texts)

    def maybe(self, text, chance=0.5):
        return text if self.rng.random() < chance else ""

    # -- parameters ---------------------------------------------------------------------------

    def parameter(self):
        name = self.rng.choice(list(PARAMETERS))
        return name, self.rng.choice(PARAMETERS[name])

    def custom(self):
        return self.rng.choice(CUSTOM), "'" + self.rng.choice(CUSTOM_VALUES) + "'"

    def set(self):
        name, value = self.pick(self.parameter, self.parameter, self.custom)()
        if self.rng.random() < 0.15:
            value = "DEFAULT"
        return f"SET {self.pick('', '', 'SESSION ', 'LOCAL ')}{name} {self.pick('=', 'TO')} {value}"

    def set_form(self):
        return self.pick(
            "SET TIME ZONE 'Asia/Tokyo'", "SET TIME ZONE LOCAL", "SET TIME ZONE DEFAULT", "SET TIME ZONE -7.5",
            "SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE", "SET LOCAL TIME ZONE 'UTC'", "SET NAMES 'LATIN1'",
            "SET NAMES DEFAULT", "SET SCHEMA 's1'", "SET LOCAL SCHEMA 's2'", "SET XML OPTION DOCUMENT",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE, NOT DEFERRABLE",
            "SET TRANSACTION READ ONLY", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "SET CONSTRAINTS ALL DEFERRED", "SET search_path TO s2, \"$user\", public",
            "SET search_path FROM CURRENT", "UPDATE own_{n} SET v = 'search_path'")

    def role(self):
        role = self.rng.choice(ROLES)
        if self.is_super and self.rng.random() < 0.4:
            return self.pick("SET SESSION AUTHORIZATION alice", "SET LOCAL SESSION AUTHORIZATION bob",
                             "SET SESSION AUTHORIZATION DEFAULT", "RESET SESSION AUTHORIZATION",
                             "SET SESSION SESSION AUTHORIZATION 'alice'")
        return self.pick(f"SET ROLE {role}", f"SET ROLE {role}", f"SET LOCAL ROLE {role}",
                         f"SET SESSION ROLE {role}", "RESET ROLE", "SET ROLE NONE", "SET role TO DEFAULT")

    def reset(self):
        name, _ = self.pick(self.parameter, self.parameter, self.custom)()
        return self.pick(f"RESET {name}", f"RESET {name}", f"SET {name} TO DEFAULT", "RESET ALL",
                         "RESET TIME ZONE")

    def set_config(self):
        name, value = self.pick(self.parameter, self.custom, self.custom)()
        value = value if value.startswith("'") else f"'{value}'"
        local = self.pick("false", "false", "false", "true", "'f'", "1 = 2")
        call = self.pick(f"set_config('{name}', {value}, {local})",
                         f"pg_catalog.set_config('{name}', {value}, {local})",
                         f'"set_config" (\'{name}\',{value},{local})',
                         f"set_config(is_local => {local}, setting_name => '{name}', new_value => {value})")
        return self.pick(f"SELECT {call}", f"SELECT {call}", f"WITH x AS (SELECT {call}) SELECT * FROM x",
                         f"SELECT 1 FROM own_{{n}} WHERE {call} IS NULL",
                         f"INSERT INTO public.own_{{n}} (v) VALUES ({call})", f"VALUES ({call}, 1)",
                         f"SELECT 1 / 0, {call}", f"COPY (SELECT {call}) TO STDOUT")

    def set_config_bound(self):
        """A text and its values."""
        name, value = self.custom()
        value = value[1:-1]
        return self.pick(("SELECT set_config($1, $2, $3)", (name, value, self.pick("f", "f", "t"))),
                         (f"SELECT set_config('{name}', $1, false)", (value,)),
                         ("SELECT set_config('app.' || $1, $2, false)", ("tenant", value)),
                         ("SELECT set_config($1, $2, false)", ("search_path", self.pick("s1", "s2"))))

    def show(self):
        name, _ = self.pick(self.parameter, self.custom)()
        if "." in name:
            return f"SELECT nullif(current_setting('{name}', true), '')"
        return self.pick(f"SHOW {name}", f"SELECT current_setting('{name}', true)")

    def look(self):
        return self.rng.choice(LOOKS + ("{inspect}",) * 6)

    def discard(self):
        what = self.pick("ALL", "ALL", "TEMP", "TEMPORARY", "PLANS", "SEQUENCES")
        if what not in ("PLANS", "SEQUENCES"):
            self.tables = []
        return f"DISCARD {what}"

    def load(self):
        return self.pick("LOAD 'auto_explain'", "LOAD '$libdir/auto_explain'", "LOAD 'pg_trgm'", "LOAD 'nonsense'")

    # -- statements of SQL --------------------------------------------------------------------

    def prepare(self):
        name = self.rng.choice(STATEMENTS)
        if self.prepared and self.rng.random() < 0.6:
            name = self.rng.choice(self.prepared)
            return self.pick(f"EXECUTE {name}", f"EXECUTE {name}", f"DEALLOCATE {name}", "DEALLOCATE ALL",
                             f"CREATE TEMP TABLE from_execute AS EXECUTE {name}",
                             f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE {name}")
        self.prepared.append(name)
        return f"PREPARE {name} AS " + self.pick(
            "SELECT name FROM s1.which", "SELECT set_config('app.tenant', 'by execute', false)",
            "SELECT pg_try_advisory_lock({n}, 7)", "INSERT INTO public.own_{n} (v) VALUES ('by execute') RETURNING id",
            "SELECT pg_notify('c1_{n}', 'by execute')", "SELECT nextval('public.q_{n}')")

    # -- notifications ------------------------------------------------------------------------

    def listen(self):
        channel = self.rng.choice(CHANNELS)
        return self.pick(f"LISTEN {channel}", f"LISTEN {channel}", f"UNLISTEN {channel}", "UNLISTEN *")

    def notify(self):
        channel = self.rng.choice(CHANNELS)
        payload = self.pick("", ", 'x'", ", 'it''s'", f", '{self.rng.randrange(99)}'")
        return self.pick(f"NOTIFY {channel}{payload}", f"NOTIFY {channel}{payload}",
                         f"SELECT pg_notify('{channel.strip(chr(34))}', '{self.rng.randrange(99)}')",
                         "SELECT pg_notify('c2_{n}', v) FROM (VALUES ('m'), ('n')) x (v)")

    # -- cursors ------------------------------------------------------------------------------

    def cursor(self):
        name = self.rng.choice(CURSORS)
        if self.cursors and self.rng.random() < 0.7:
            name = self.rng.choice(self.cursors)
            return self.pick(f"FETCH 2 FROM {name}", f"FETCH {name}", f"FETCH ALL FROM {name}", f"MOVE 1 {name}",
                             f"FETCH BACKWARD 1 FROM {name}", f"CLOSE {name}", "CLOSE ALL")
        self.cursors.append(name)
        hold = self.pick("WITH HOLD ", "WITH HOLD ", "WITH HOLD ", "WITHOUT HOLD ", "")
        scroll = self.pick("", "SCROLL ", "NO SCROLL ", "BINARY ")
        return (f"DECLARE {name} {scroll}CURSOR {hold}FOR "
                + self.pick("SELECT generate_series(1, 5)", "SELECT name FROM which",
                            "SELECT id, v FROM public.own_{n}",
                            "SELECT 1 / (3 - g) FROM generate_series(1, 5) g"))

    # -- temporary objects --------------------------------------------------------------------

    def temporary(self):
        name = self.rng.choice(TABLES)
        if self.tables and self.rng.random() < 0.65:
            return self.with_table(self.rng.choice(self.tables))
        self.tables.append(name)
        end = self.pick("", "", "", " ON COMMIT DROP", " ON COMMIT DELETE ROWS", " ON COMMIT PRESERVE ROWS")
        word = self.pick("TEMP", "TEMPORARY", "LOCAL TEMP", "GLOBAL TEMPORARY")
        return self.pick(
            f"CREATE {word} TABLE {name} (n int, name text DEFAULT 'temporary'){end}",
            f"CREATE {word} TABLE {name} (n int, name text DEFAULT 'temporary'){end}",
            f"CREATE {word} TABLE {name}{end} AS SELECT 1 AS n, 'made'::text AS name",
            f"SELECT 2 AS n, 'into'::text AS name INTO {word} {name}",
            f"CREATE TABLE pg_temp.{name} (n int, name text)",
            f"CREATE TABLE IF NOT EXISTS pg_temp.{name} (n int, name text)",
            f"CREATE {word} TABLE {name} (n serial, name text){end}",
            f"CREATE {self.pick('TEMP', 'TEMPORARY')} VIEW {name} AS SELECT 3 AS n, 'view'::text AS name",
            f"CREATE TEMP SEQUENCE {name}_s",
            "CREATE FUNCTION pg_temp.f1() RETURNS int LANGUAGE sql AS 'SELECT 41'",
            "CREATE TYPE pg_temp.color AS ENUM ('red')", "CREATE DOMAIN pg_temp.positive AS int CHECK (value > 0)")

    def with_table(self, name):
        mine = "pg_temp." + name  # what all sessions share must not be dropped
        return self.pick(
            f"INSERT INTO {name} (n) VALUES (1), (2)", f"SELECT * FROM {name} ORDER BY 1",
            f"SELECT * FROM {mine} ORDER BY 1",
            f"SELECT name FROM {name} ORDER BY 1", f"DROP TABLE {mine}", f"DROP TABLE IF EXISTS {mine}",
            f"DROP VIEW {mine}",
            f"ALTER TABLE {mine} ADD COLUMN more int DEFAULT 4", f"TRUNCATE {mine}", f"DROP SEQUENCE {name}_s",
            f"ALTER TABLE {mine} SET SCHEMA public", f"SELECT nextval('{name}_s')", "SELECT pg_temp.f1()",
            "DROP FUNCTION pg_temp.f1()", "SELECT 'red'::pg_temp.color", "DROP TYPE pg_temp.color",
            "SELECT 1::pg_temp.positive", "DROP DOMAIN pg_temp.positive CASCADE", f"CREATE INDEX ON {name} (n)")

    # -- locks and sequences ------------------------------------------------------------------

    def lock(self):
        key = self.pick("{n}", "{n}, 1", "{n}, 2")
        shared = self.pick("", "", "_shared")
        return "SELECT " + self.pick(
            f"pg_advisory_lock{shared}({key})", f"pg_advisory_lock{shared}({key})",
            f"pg_try_advisory_lock{shared}({key})",
            f"pg_advisory_unlock{shared}({key})", f"pg_advisory_unlock{shared}({key})",
            f"pg_advisory_unlock{shared}({key})",
            "pg_advisory_unlock_all()", f"pg_advisory_xact_lock{shared}({key})", f"pg_try_advisory_xact_lock({key})")

    def sequence(self):
        return self.pick(
            "SELECT nextval('public.q_{n}')", "SELECT nextval('public.q_{n}')", "SELECT currval('public.q_{n}')",
            "SELECT lastval()", "SELECT lastval()", "SELECT setval('public.q_{n}', 500)",
            "INSERT INTO public.own_{n} (v) VALUES ('row') RETURNING id",
            "INSERT INTO public.own_{n} (v) VALUES ('row')",
            "SELECT currval('public.own_{n}_id_seq')", "SELECT currval(pg_get_serial_sequence('public.own_{n}', 'id'))")

    # -- what extensions keep -----------------------------------------------------------------

    def extension(self):
        texts = ["SELECT setseed(0.25), set_config('app.seeded', 'yes', false)",
                 "SELECT CASE WHEN current_setting('app.seeded', true) = 'yes' THEN random() END"]
        if self.is_super:
            texts += ["SELECT public.dblink_connect('d1', '{dblink}')", "SELECT public.dblink_disconnect('d1')",
                      "SELECT public.dblink_get_connections()",
                      "SELECT * FROM public.dblink('d1', 'SELECT 5') AS x (n int)",
                      "SELECT pg_replication_origin_session_is_setup()"]
        return self.rng.choice(texts)

    # -- transactions, rows and errors --------------------------------------------------------

    def transaction(self):
        if not self.is_in_transaction:
            self.is_in_transaction = True
            return self.pick("BEGIN", "BEGIN", "BEGIN", "START TRANSACTION", "BEGIN ISOLATION LEVEL REPEATABLE READ",
                             "BEGIN READ ONLY", "begin work",
                             "BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE READ WRITE")
        if self.rng.random() < 0.45:
            name = self.rng.choice(SAVEPOINTS)
            return self.pick(f"SAVEPOINT {name}", f"SAVEPOINT {name}", f"ROLLBACK TO {name}",
                             f"ROLLBACK TO SAVEPOINT {name}",
                             f"RELEASE {name}")
        text = self.pick("COMMIT", "COMMIT", "COMMIT", "COMMIT", "ROLLBACK", "ROLLBACK", "END", "ABORT",
                         "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "PREPARE TRANSACTION 'x{n}{side}'")
        if "listen" in self.kinds and text.startswith("PREPARE"):
            text = "COMMIT"  # a backend that once listened refuses it after UNLISTEN
        self.is_in_transaction = text.endswith("CHAIN")
        return text

    def prepared_transaction(self):
        return self.pick("COMMIT PREPARED 'x{n}{side}'", "ROLLBACK PREPARED 'x{n}{side}'")

    def rows(self):
        return self.pick("SELECT 1", "SELECT count(*) FROM public.own_{n}",
                         "INSERT INTO public.own_{n} (v) VALUES ('x')",
                         "UPDATE public.own_{n} SET v = 'y' WHERE id = 1", "DELETE FROM public.own_{n} WHERE id = 2",
                         "SELECT name FROM which", "COPY public.own_{n} TO STDOUT", "", "-- nothing",
                         "SELECT 'SET x = 1; LISTEN y'")

    def failure(self):
        return self.pick("SELECT 1 / 0", "SELEC", "SELECT * FROM nowhere", "SET nonsense.x.y = ", "SELECT 'x'::int",
                         "DO 'BEGIN RAISE EXCEPTION ''raised''; END'")

    # -- hidden in functions ------------------------------------------------------------------

    def inner(self, without=()):
        kinds = [kind for kind in ("set", "set", "set_form", "role", "reset", "set_config", "temporary", "temporary",
                                   "lock", "sequence", "listen", "notify", "extension", "failure")
                 if kind in self.kinds and kind not in without]
        return getattr(self, self.rng.choice(kinds or ["set"]))()

    def do(self):
        text = self.inner()
        return self.pick(f"DO $do$ BEGIN EXECUTE $in${text}$in$; END $do$", f"CALL public.hid_call($in${text}$in$)",
                         f"DO $do$ BEGIN EXECUTE $in${text}$in$; PERFORM 1 / 0;"
                         " EXCEPTION WHEN division_by_zero THEN NULL; END $do$",
                         f"DO $do$ BEGIN EXECUTE $in${text}$in$; COMMIT;"
                         f" EXECUTE $in${self.inner()}$in$; ROLLBACK; END $do$",
                         f"CALL public.hid_undone($in${text}$in$)")

    def hidden(self):
        while True:
            text = self.inner(without=("extension",))  # that is followed only if pin_functions has the function
            if not text.startswith("UNLISTEN"):  # that is not seen
                break
        if not self.rng.randrange(2) and not NAMED.search(text):
            return f"SELECT public.hid_hex('{text.encode().hex()}')"
        return self.pick(f"SELECT public.hid($in${text}$in$)", f"SELECT public.hid_caught($in${text}$in$)",
                         f"SELECT public.hid_scoped($in${text}$in$)")


# These are followed only where they are alone in a simple query, or in one without a name; see the
# feature prepare_anywhere, which is not among the default ones.
PREPARES = re.compile(r"(EXPLAIN .*|CREATE TEMP TABLE .* AS )?(PREPARE [^T]|EXECUTE |DEALLOCATE )")
# What a temporary table may hide later, or a type that may be dropped and made again: a statement
# keeps what it had at its PREPARE only until it is prepared again on another server.
HIDDEN_TABLE = re.compile(r"(?<![.\w])which\b(?!_)|pg_temp\.(color|positive)", re.I)
NOT_DEFAULT = ("prepare_anywhere",)

# How often each kind is chosen in a session that has it.
COMMON = ("transaction",) * 9 + ("look",) * 6 + ("show", "show", "rows", "rows", "rows", "failure")
FEATURES = {
    "parameters": ("set",) * 6 + ("set_form", "set_form", "reset", "reset", "set_config", "set_config"),
    "roles": ("role",) * 4 + ("set",),
    "discard": ("discard",),
    "libraries": ("load", "load", "set"),
    "prepare": ("prepare",) * 4,
    "prepare_anywhere": ("prepare",) * 4,
    "notifications": ("listen",) * 5 + ("notify",) * 5,
    "cursors": ("cursor",) * 6,
    "temporary": ("temporary",) * 8,
    "locks": ("lock",) * 5,
    "sequences": ("sequence",) * 5,
    "extensions": ("extension",) * 2,
    "two_phase": ("prepared_transaction",) * 2,
    "do": ("do",) * 4,
    "hidden": ("hidden",) * 4,
    "startup": (),  # parameters in the startup packet
    "names": (),  # named statements of the protocol; for max_prepared_statements = 0 without this and "prepare"
}
