# SPDX-License-Identifier: ISC
"""What a database has that leaves session state without a word of it in the text that makes it do so."""

import os
import subprocess

from e2e.kit.postgres import find_bin

HERE = os.path.dirname(os.path.abspath(__file__))

# In every database: what shows whose search path applies.
COMMON = """
CREATE TABLE public.which AS SELECT text 'public' AS name; GRANT SELECT ON public.which TO PUBLIC;
CREATE SCHEMA s{n}; GRANT USAGE ON SCHEMA s{n} TO PUBLIC;
CREATE TABLE s{n}.which AS SELECT text 's{n}' AS name; GRANT SELECT ON s{n}.which TO PUBLIC;
CREATE SEQUENCE public.q{n} START {n}000001; GRANT ALL ON public.q{n} TO PUBLIC;
"""

# Functions that run a text, and what calls them. No row stays where a trigger can prevent it.
FUNCTIONS = """
CREATE FUNCTION h_exec(sql text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; END';
CREATE FUNCTION h_hex(hex text) RETURNS void LANGUAGE plpgsql
	AS 'BEGIN EXECUTE convert_from(decode(hex, ''hex''), ''UTF8''); END';
CREATE FUNCTION h_true(sql text) RETURNS bool LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; RETURN true; END';
CREATE FUNCTION h_outer(sql text) RETURNS void LANGUAGE plpgsql AS 'BEGIN PERFORM h_middle(sql); END';
CREATE FUNCTION h_middle(sql text) RETURNS void LANGUAGE sql AS 'SELECT h_exec($1)';
CREATE FUNCTION h_deep(n int, sql text) RETURNS void LANGUAGE plpgsql
	AS 'BEGIN IF n > 0 THEN PERFORM h_deep(n - 1, sql); ELSE EXECUTE sql; END IF; END';
CREATE FUNCTION h_atomic(sql text) RETURNS void BEGIN ATOMIC SELECT h_exec($1); END;
CREATE FUNCTION h_definer(sql text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN EXECUTE sql; END';
CREATE FUNCTION h_caught(sql text) RETURNS void LANGUAGE plpgsql
	AS 'BEGIN BEGIN EXECUTE sql; PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN EXECUTE sql; END; END';
CREATE FUNCTION h_scoped(sql text) RETURNS void LANGUAGE plpgsql SET extra_float_digits = 0
	AS 'BEGIN EXECUTE sql; END';
CREATE FUNCTION h_constant(sql text) RETURNS bool LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN EXECUTE sql; RETURN true; END';
CREATE FUNCTION h_set(name text, value text) RETURNS text LANGUAGE sql AS 'SELECT set_config($1, $2, false)';
CREATE FUNCTION h_perform(name text, value text) RETURNS void LANGUAGE plpgsql
	AS 'BEGIN PERFORM set_config(name, value, false); END';
CREATE FUNCTION h_format(name text, value text) RETURNS void LANGUAGE plpgsql
	AS 'BEGIN EXECUTE format(''SET %s = %L'', name, value); END';
CREATE FUNCTION h_set_a(value text) RETURNS text LANGUAGE sql AS 'SELECT set_config(''hid.a'', $1, false)';
CREATE FUNCTION h_set_b(value text) RETURNS void LANGUAGE plpgsql
	AS 'BEGIN PERFORM set_config(''hid.b'', value, false); END';
CREATE FUNCTION h_set_c(value text) RETURNS void LANGUAGE plpgsql
	AS 'BEGIN EXECUTE ''SET hid.c = '' || quote_literal(value); END';
CREATE FUNCTION h_swapped(sql text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; END';
CREATE FUNCTION h_next(name text) RETURNS int8 LANGUAGE plpgsql AS 'BEGIN RETURN nextval(name::regclass); END';
CREATE FUNCTION h_last() RETURNS int8 LANGUAGE plpgsql AS 'BEGIN RETURN lastval(); END';
CREATE PROCEDURE h_call(sql text) LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; END';
CREATE PROCEDURE h_commits(sql text) LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; COMMIT; END';

CREATE FUNCTION h_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN EXECUTE NEW.sql; RETURN NULL; END';
CREATE FUNCTION h_trigger_old() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN EXECUTE OLD.sql; RETURN OLD; END';
CREATE TABLE h_triggered (sql text);
CREATE TRIGGER t BEFORE INSERT ON h_triggered FOR EACH ROW EXECUTE FUNCTION h_trigger();
CREATE VIEW h_viewed AS SELECT sql FROM h_triggered;
CREATE VIEW h_instead AS SELECT text '' AS sql;
CREATE TRIGGER t INSTEAD OF INSERT ON h_instead FOR EACH ROW EXECUTE FUNCTION h_trigger();
CREATE TABLE h_parted (n int, sql text) PARTITION BY LIST (n);
CREATE TABLE h_part PARTITION OF h_parted FOR VALUES IN (1);
CREATE TRIGGER t BEFORE INSERT ON h_part FOR EACH ROW EXECUTE FUNCTION h_trigger();
CREATE TABLE h_deferred (sql text);
CREATE CONSTRAINT TRIGGER t AFTER INSERT ON h_deferred DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION h_trigger();
CREATE TABLE h_ruled (sql text);
CREATE RULE r AS ON INSERT TO h_ruled DO INSTEAD SELECT h_exec(NEW.sql);
CREATE TABLE h_also (sql text);
CREATE RULE r AS ON INSERT TO h_also DO ALSO SELECT h_exec(NEW.sql);
CREATE TABLE h_guarded (sql text);
ALTER TABLE h_guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON h_guarded FOR INSERT WITH CHECK (h_true(sql));
CREATE TABLE h_checked (sql text CHECK (h_true(sql)));
CREATE DOMAIN h_domain AS text CHECK (h_true(VALUE));
CREATE TABLE h_typed (sql h_domain);
CREATE TABLE h_generated (sql text, done bool GENERATED ALWAYS AS (h_constant(sql)) STORED);
CREATE TABLE h_indexed (sql text); CREATE INDEX ON h_indexed (h_constant(sql));
CREATE TABLE h_parents (id int PRIMARY KEY);
CREATE TABLE h_children (id int REFERENCES h_parents ON DELETE CASCADE, sql text); CREATE INDEX ON h_children (id);
CREATE TRIGGER t BEFORE DELETE ON h_children FOR EACH ROW EXECUTE FUNCTION h_trigger_old();
CREATE TABLE h_todo (client text, sql text); CREATE INDEX ON h_todo (client);
CREATE VIEW h_doing AS SELECT client, h_true(sql) AS done FROM h_todo;
CREATE VIEW h_settings AS SELECT * FROM pg_settings;

CREATE FUNCTION h_operator(sql text, n int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; RETURN true; END';
CREATE OPERATOR <!!> (FUNCTION = h_operator, LEFTARG = text, RIGHTARG = int);
CREATE OPERATOR ==> (FUNCTION = h_set, LEFTARG = text, RIGHTARG = text);
CREATE TYPE h_type AS (sql text);
CREATE FUNCTION h_cast(v h_type) RETURNS bool LANGUAGE plpgsql AS 'BEGIN EXECUTE v.sql; RETURN true; END';
CREATE CAST (h_type AS bool) WITH FUNCTION h_cast(h_type);
CREATE FUNCTION h_step(done bool, sql text) RETURNS bool LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; RETURN true; END';
CREATE AGGREGATE h_agg(text) (SFUNC = h_step, STYPE = bool);
CREATE OPERATOR @!! (FUNCTION = pg_advisory_lock, LEFTARG = int, RIGHTARG = int);
GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC;
"""

# Functions of these languages, with what must be there for them.
LANGUAGES = {
    "PL/Perl": "CREATE EXTENSION plperl; CREATE FUNCTION h_perl(text) RETURNS void LANGUAGE plperl"
               " AS 'spi_exec_query($_[0]); return undef'",
    "PL/Python": "CREATE EXTENSION plpython3u; CREATE FUNCTION h_python(sql text) RETURNS void LANGUAGE plpython3u"
                 " AS 'plpy.execute(sql)'",
}
IN_C = """
CREATE FUNCTION h_c(text) RETURNS void STRICT LANGUAGE c AS '{path}', 'hidden_exec';
CREATE FUNCTION h_c_set(text, text) RETURNS void STRICT LANGUAGE c AS '{path}', 'hidden_set';
CREATE FUNCTION h_c_lock(int, int) RETURNS void STRICT LANGUAGE c AS '{path}', 'hidden_lock';
CREATE FUNCTION h_c_listen(text) RETURNS void STRICT LANGUAGE c AS '{path}', 'hidden_listen';
"""


def make_common(postgres, database, clients):
    common = COMMON.strip().splitlines()
    postgres.query(common[0], dbname=database)
    for number in range(clients):
        postgres.query(" ".join(common[1:]).format(n=number), dbname=database)


def make_functions(postgres, database, place):
    """Returns what is missing, in words."""
    postgres.query(FUNCTIONS, dbname=database)
    missing = []
    for name, text in LANGUAGES.items():
        try:
            postgres.query(text, dbname=database)
        except Exception as problem:  # of psycopg: there is no such file
            missing.append(f"{name}: {str(problem).splitlines()[0]}")
    try:
        postgres.query(IN_C.format(path=compile_library(place)), dbname=database)
    except (OSError, LookupError) as problem:
        missing.append(f"functions in C: {problem}")
    return missing


def compile_library(place):
    """The file, to be loaded by the server of this major version."""
    library = os.path.join(place, "hidden.so")
    made = subprocess.run([os.environ.get("CC", "cc"), "-fPIC", "-shared", "-O1", "-I", find_headers(),
                           os.path.join(HERE, "hidden.c"), "-o", library], capture_output=True, text=True)
    if made.returncode:
        raise LookupError(f"not compiled: {made.stderr[:500]}")
    os.chmod(library, 0o755)
    return library


def find_headers():
    """The folder with postgres.h: PGWEIR_TEST_HEADERS, or where postgresql-server-dev puts it."""
    told = subprocess.run([f"{find_bin()}/postgres", "--version"], capture_output=True, text=True).stdout
    version = told.split()[2].split(".")[0]
    folder = os.environ.get("PGWEIR_TEST_HEADERS", f"/usr/include/postgresql/{version}/server")
    if not os.path.exists(f"{folder}/postgres.h"):
        raise LookupError(f"no {folder}/postgres.h (Debian: postgresql-server-dev-{version})")
    return folder
