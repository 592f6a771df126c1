# SPDX-License-Identifier: ISC
"""The scan of texts against PostgreSQL itself: whatever a text changes in a session is found."""

import pathlib
import random
import subprocess
from collections import namedtuple

import psycopg
import pytest
from psycopg.pq import ExecStatus

from .kit.daemon import find_binary

BITS = {letter: 1 << place for place, letter in enumerate("PDYLUNCTKQXHERWOF")}

KINDS = ("library", "listen", "unlisten", "unlisten *", "unsure", "set", "reset", "discard",
         "rollback", "other")

# What PostgreSQL keeps in a session, one query for each letter. A placeholder that was set for one
# transaction only is '' after it, and was NULL before.
ASK = {
    "P": """
        SELECT string_agg(name || '=' || setting, ' ' ORDER BY name), current_user, session_user,
               nullif(current_setting('app.x', true), ''), current_setting('local.x', true),
               current_setting('role'), current_setting('TimeZone'), current_setting('search_path')
        FROM pg_settings WHERE source = 'session' AND name NOT LIKE 'transaction\\_%'""",
    "Y": "SELECT count(*) FROM pg_settings WHERE name LIKE 'auto\\_explain.%'",
    "L": "SELECT string_agg(c, ' ' ORDER BY c) FROM pg_listening_channels() AS c",
    "C": "SELECT string_agg(name, ' ') FROM pg_cursors WHERE is_holdable",
    "T": """
        SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()),
               (SELECT count(*) FROM pg_proc WHERE pronamespace = pg_my_temp_schema()),
               (SELECT count(*) FROM pg_type WHERE typnamespace = pg_my_temp_schema())""",
    "K": "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'",
    "X": """
        SELECT pg_replication_origin_session_is_setup(),
               (SELECT count(*) FROM pg_replication_slots WHERE active_pid = pg_backend_pid())""",
}

STATEMENTS = """
SET work_mem = '5MB'
SET SESSION work_mem TO 5000
SET app.x = 'a'
SET "app.x" = 'a'
SET local.x = 'a'
SET search_path = pg_temp, public
SET SCHEMA 'pg_catalog'
SET NAMES 'LATIN1'
SET TIME ZONE 'UTC+5'
SET TIME ZONE INTERVAL '1:00' HOUR TO MINUTE
SET ROLE bob
SET SESSION ROLE bob
SET SESSION AUTHORIZATION bob
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE
SET XML OPTION DOCUMENT
SET enable_seqscan TO off
SET LOCAL work_mem = '5MB'
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE
UPDATE pg_settings SET setting = '5000' WHERE name = 'work_mem'
UPDATE ONLY pg_catalog."pg_settings" AS s SET setting = '5000' WHERE name = 'work_mem'
WITH x AS (SELECT 1) UPDATE pg_settings SET setting = '5000' WHERE name = 'work_mem'
RESET work_mem
LOAD 'auto_explain'
LISTEN a
LISTEN "B b"
UNLISTEN *
NOTIFY a
DECLARE c CURSOR WITH HOLD FOR SELECT 1
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 'for', 2
CREATE TEMP TABLE t (a int)
CREATE TEMPORARY TABLE t AS SELECT 1
CREATE LOCAL TEMP TABLE t (a int) ON COMMIT DELETE ROWS
CREATE TEMP TABLE t (a int) ON COMMIT DROP
CREATE TABLE pg_temp.t (a int)
CREATE TABLE "pg_temp".t (a text DEFAULT 'ON COMMIT DROP')
CREATE TEMP SEQUENCE s
CREATE TEMP VIEW v AS SELECT 1
CREATE OR REPLACE TEMPORARY RECURSIVE VIEW v (n) AS SELECT 1
CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'
CREATE TYPE pg_temp.t AS ENUM ('a')
CREATE DOMAIN pg_temp.d AS int
SELECT 1 AS a INTO TEMP t
SELECT 1 AS a INTO TEMPORARY TABLE t
SELECT 1 AS a INTO LOCAL TEMP t
SELECT INTO pg_temp.t
(SELECT 1 AS a INTO TEMP t)
WITH x AS (SELECT 1 AS a) SELECT * INTO TEMP t FROM x
TABLE pg_am; SELECT 'a;update' AS a INTO TEMP t
EXPLAIN ANALYZE CREATE TEMP TABLE t AS SELECT 1
EXPLAIN (ANALYZE) SELECT 1 AS a INTO TEMP t
PREPARE p AS SELECT set_config('app.x', 'a', false)
PREPARE p AS SELECT 1; CREATE TEMP TABLE t AS EXECUTE p
DO 'BEGIN PERFORM set_config(''app.x'', ''a'', false); END'
DO $$ BEGIN CREATE TEMP TABLE t (); LISTEN a; PERFORM pg_advisory_lock(1); END $$
SELECT U&"set\\005fconfig"('app.x', 'a', false)
SELECT query_to_xml('SELECT set_config(''app.x'', ''a'', false)', true, true, '')
SELECT * FROM ts_stat('SELECT set_config(''app.x'', ''a'', false)::tsvector')
DISCARD ALL
DISCARD TEMP
CREATE EXTENSION nonesuch
""".strip().splitlines()

CALLS = """
set_config('app.x', 'a', false)
set_config('app.x', 'a', true)
set_config('app.x', 'a', is_local => false)
set_config(is_local := false, setting_name := 'app.x', new_value := 'true')
set_config('app.x', coalesce(NULL, 'a'), 1 > 2)
pg_catalog.set_config('work_mem', '5MB', false)
"set_config"('app.x', 'a', false)
"pg_catalog" . "set_config" ('app.x', 'a', false)
SET_CONFIG ('app.x', 'a', false)
set_config/* (a */('app.x', 'a', false)
set_config -- ('
\t('app.x', 'a', false)
set_config('app.x', set_config('work_mem', '5MB', false), true)
pg_advisory_lock(1)
pg_advisory_lock_shared(1, 2)
pg_try_advisory_lock(1)
pg_try_advisory_lock_shared(1)
pg_advisory_xact_lock(1)
pg_replication_origin_session_setup('o')
pg_create_physical_replication_slot('s', true, true)
pg_create_physical_replication_slot('s', temporary => true)
""".strip().replace("\n\t", "\0").splitlines()

AROUND_CALLS = """
SELECT {}
SELECT ({}), 2
VALUES ({})
SELECT * FROM {} AS x
WITH x AS MATERIALIZED (SELECT {} AS a) SELECT count(a) FROM x
INSERT INTO kept SELECT 1 FROM (SELECT {} AS a OFFSET 0) x WHERE a IS NOT NULL
UPDATE kept SET a = 2 WHERE ({}) IS NOT NULL
DELETE FROM kept WHERE (SELECT {}) IS NULL
COPY (SELECT {}) TO STDOUT
EXPLAIN ANALYZE SELECT {}
CREATE TABLE other AS SELECT 1 AS b FROM (SELECT {} AS a OFFSET 0) x WHERE a IS NOT NULL
PREPARE p AS SELECT {}; EXECUTE p
PREPARE p AS SELECT {}; EXPLAIN ANALYZE EXECUTE p
BEGIN; DECLARE d CURSOR FOR SELECT {}; FETCH ALL FROM d; COMMIT
DECLARE c CURSOR WITH HOLD FOR SELECT {}
SELECT 1 WHERE ({}) IS NOT NULL ORDER BY 1
""".strip().splitlines()

# {} must be the beginning of a statement here.
AROUND = [
    "{}", "{};", ";;{}", "/* a */ {}", "/* ; /* nested */ ' */ {}", "-- '\n{}", "--\r{}",
    "SELECT 1; {}", "SELECT 1;{}; SELECT 2", "BEGIN; {}; COMMIT", "SELECT 'it''s; \"'; {}",
    "SELECT $$;'$$, $a$ $$ $a$; {}", "SELECT \"a;'\" FROM (SELECT 1 AS \"a;'\") x; {}",
    "SELECT E'\\';'; {}", "SELECT E'a'\n'\\'--'; {}", "SELECT B'1', X'1', N'a', U&'\\0061'; {}",
    "SELECT 'a\\'';'; {}", "SELECT 'a\\\\'; {}; SELECT ''", "SELECT 'a\\'; {}", "SELECT 1 /* a */; \n\t {}",
    "UPDATE kept SET a = (1); {}", "SELECT 1 */**/ 1;{}", "BEGIN; SAVEPOINT a; {}; RELEASE a; END",
]


def texts(number=400):
    """All statements in some company, in the order of a random generator with a fixed seed."""
    chance = random.Random(16)
    calls = [call.replace("\0", "\n\t") for call in CALLS]
    statements = STATEMENTS + [around.format(call) for call in calls for around in AROUND_CALLS]
    yield from statements
    for _ in range(number):
        text = chance.choice(AROUND).format(chance.choice(statements))
        if chance.random() < 0.3 and not any(sign in text for sign in "'\"$-"):
            text = text.upper() if chance.random() < 0.5 else text.replace(" ", "/**/\n")
        yield text


Judged = namedtuple("Judged", "bits items set")


def judge(texts):
    """What is found in each text: both kinds of bits, the items, the name and value of one SET."""
    program = pathlib.Path(find_binary()).parent / "test" / "lib" / "touches"
    if not program.exists():
        pytest.skip(f"no {program}")
    done = subprocess.run([program], input=b"".join(text.encode() + b"\0" for text in texts),
                          capture_output=True, check=True, timeout=60)
    found = []
    for lines in done.stdout.decode().split("\n\n")[:-1]:
        bits, *rest = [line.split("\t") for line in lines.lstrip("\n").split("\n")]
        found.append(Judged(tuple(map(int, bits)),
                            [(KINDS[int(kind)], name) for _, kind, name in
                             (line for line in rest if line[0] == "item")],
                            next((line[1:] for line in rest if line[0] == "set"), None)))
    return found


def ask(connection):
    return {letter: connection.execute(query).fetchall() for letter, query in ASK.items()}


def run(connection, text):
    """Runs one Query, whatever it answers, and ends its transaction."""
    low = connection.pgconn
    low.send_query(text.encode())
    while (result := low.get_result()) is not None:
        while result.status == ExecStatus.COPY_OUT:
            if low.get_copy_data(0)[0] == -1:
                break
    low.exec_(b"ROLLBACK")


def letters(bits):
    return "".join(letter for letter, bit in BITS.items() if bits & bit)


@pytest.mark.limit(240)
def test_what_changes_is_found(private_postgres):
    postgres = private_postgres()
    all_texts = list(texts())
    judged = judge(all_texts)
    where = f"host={postgres.host} port={postgres.port} dbname=app user=postgres"
    changes = 0
    with psycopg.connect(where, autocommit=True) as setup:
        setup.execute("CREATE TABLE kept (a int)")
        setup.execute("INSERT INTO kept VALUES (1)")
        setup.execute("SELECT pg_replication_origin_create('o')")
        setup.execute("GRANT EXECUTE ON FUNCTION pg_replication_origin_session_is_setup TO public")
    for text, found in zip(all_texts, judged, strict=True):
        changed = set()
        for option in ("on", "off")[:1 + ("\\" in text)]:
            option = f"-c standard_conforming_strings={option}"
            with psycopg.connect(where, autocommit=True, options=option) as connection:
                connection.execute("DROP TABLE IF EXISTS other")
                before = ask(connection)
                run(connection, text)
                after = ask(connection)
            changed |= {letter for letter in ASK if before[letter] != after[letter]}
        changes += len(changed)
        for kind in found.bits:
            assert kind & BITS["H"] or changed <= set(letters(kind)), (text, changed, letters(kind))
    assert changes > 500


CHANNELS = [
    "LISTEN a", "LISTEN ABC", 'LISTEN "Ab c"', 'LISTEN "a""b"', "LISTEN a$1", "LISTEN _x",
    "LISTEN /* x */ a -- y", "LISTEN a; LISTEN b; UNLISTEN a", "LISTEN a; UNLISTEN *; LISTEN b",
    "LISTEN a; DISCARD TEMP", 'LISTEN "A"; UNLISTEN a; UNLISTEN "A"; LISTEN c', "listen u",
    "SELECT 'LISTEN a'; LISTEN b", "LISTEN a; LISTEN a; UNLISTEN A", "LISTEN select", "LISTEN E'a'",
    "LISTEN " + "n" * 63, 'LISTEN "\u00e4"', 'LISTEN "' + "n" * 63 + '"', "LISTEN a.b", "LISTEN 'a'",
    "SELECT $$ LISTEN x; $$; LISTEN y;", "SELECT E'\\'; LISTEN x; --'; LISTEN z",
]


def listen(items):
    """The channels after these items."""
    channels = set()
    for kind, name in items:
        if kind == "listen":
            channels.add(name)
        elif kind == "unlisten":
            channels.discard(name)
        elif kind in ("unlisten *", "discard"):
            channels.clear()
    return channels


def test_names_of_channels_are_those_of_postgresql(postgres):
    for text, found in zip(CHANNELS, judge(CHANNELS), strict=True):
        with postgres.connect() as connection:
            run(connection, text)
            rows = connection.execute("SELECT * FROM pg_listening_channels()").fetchall()
            has_failed = not rows and "DISCARD" not in text
        assert ("unsure", "") in found.items or has_failed or \
            {row[0] for row in rows} == listen(found.items), text


@pytest.mark.limit(240)
def test_a_set_that_is_certain_can_be_said_again(postgres):
    """For every parameter that a user may set: the value read from a text has the same effect."""
    asked = """SELECT name, boot_val, coalesce(enumvals, '{}'), vartype, max_val FROM pg_settings
               WHERE context IN ('user', 'superuser') ORDER BY name"""
    texts, names = [], []
    for name, boot, words, kind, most in postgres.query(asked):
        values = [f"'{boot}'" if boot is not None else "''", "default", "'a b'", "x"]
        values += words + [f"'{word}'" for word in words[:1]]
        values += {"bool": ["on", "OFF", "true", "0", "'no'"], "integer": ["10000", "-1", "'20000'", most],
                   "real": ["0.5", "'1e-1'", "2"]}.get(kind, ["'1, 2'", '"Public"'])
        for value in values:
            texts.append(f"SET {name} = {value}")
            names.append(name)
    sure = 0
    with postgres.connect(prepare_threshold=None) as connection:
        for text, name, found in zip(texts, names, judge(texts), strict=True):
            if not found.set:
                continue
            connection.execute("DISCARD ALL")
            connection.pgconn.exec_(text.encode())
            value = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
            source = connection.execute("SELECT source FROM pg_settings WHERE name = %s",
                                        [name]).fetchone()
            if source != ("session",):
                continue  # PostgreSQL refused it
            assert found.set[0] == name.lower()
            connection.execute("DISCARD ALL")
            connection.execute("SELECT set_config(%s, %s, false)", found.set)
            again = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
            assert again == value, (text, value, again)
            sure += 1
    assert sure > 300
