/* SPDX-License-Identifier: ISC */
/*
 * pgwire/sql_touch.c: texts that touch what PostgreSQL keeps in a session, and similar ones that
 * do not.
 */
#include "pgweir/pgwire/sql_touch.h"

#include <stdio.h>
#include <string.h>

#include "pgweir/pgwire/sql_block.h"

#include "../../../src/pgwire/sql_priv.h"
#include "../../lib/unclear.h"
#include "../unit.h"

/* One letter for each bit. */
static const char letters[] = "PDYLUNCTKQXHERWOFpkdls-r";

/*
 * P parameters, D default, Y library, L listen, U unlisten, N notify, C cursor, T temporary,
 * K lock, Q sequence, X extension, H hidden, E execute, R release, W write, O object, F forget,
 * p prepare, k lock of the transaction, d a database without sessions,
 * l parameters of the transaction, s what decides how statements are read, r the same, reported
 */
static const struct {
	const char *text;
	const char *bits;
} cases[] = {
	/* plain texts */
	{ "", "" },
	{ ";", "" },
	{ " ; ;; ", "" },
	{ "SELECT 1", "" },
	{ "BEGIN", "" },
	{ "COMMIT;", "" },
	{ "end", "" },
	{ "END;SELECT 1", "" },
	{ "SELECT abalance FROM pgbench_accounts WHERE aid = 1", "" },
	{ "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 1", "W" },
	{ "INSERT INTO h (tid, bid, mtime) VALUES (1, 2, CURRENT_TIMESTAMP)", "W" },
	{ "INSERT INTO \"users\" (\"id\", \"name\") VALUES ($1, $2) RETURNING \"id\"", "W" },
	{ "DELETE FROM t WHERE a IN (1, 2)", "W" },
	{ "SELECT count(*), coalesce(a, 1), concat(b, 'x') FROM t", "" },
	{ "SELECT a FROM t ORDER BY a LIMIT 10 OFFSET 20 FOR UPDATE", "" },
	{ "WITH x AS (SELECT 1) SELECT * FROM x", "W" },
	{ "SHOW work_mem", "" },
	{ "VACUUM", "" },
	{ "REPACK (CONCURRENTLY) t USING INDEX i", "" },
	{ "WAIT FOR LSN '0/306EE20' WITH (MODE 'standby_replay', NO_THROW)", "" },
	{ "GRANT SELECT ON t TO u", "s" },
	{ "SELECT (1 + 2) / (3)", "" },
	{ "SELECT 'set_config(' || \"set_config\" FROM t", "" },
	{ "-- nothing but a comment", "" },
	{ "/* SET x = 1; LISTEN a */ SELECT 1", "" },
	{ "SELECT 1 -- ; SET x = 1", "" },
	{ "SELECT '; SET x = 1; LISTEN a'", "" },
	{ "SELECT $$; SET x = 1; LISTEN a$$", "" },
	{ "SELECT $a$; SET x = 1; $$ LISTEN a$a$", "" },
	{ "SELECT \"; SET x = 1\" FROM t", "" },
	{ "SELECT * FROM t WHERE a && b AND c & d > 1", "" },

	/* parameters */
	{ "SET x = 1", "Ps" },
	{ "set X to 1;", "Ps" },
	{ "SET SESSION x = 1", "Ps" },
	{ "SET app.tenant = 'a'", "P" },
	{ "SET TIME ZONE 'UTC'", "Pr" },
	{ "SET TIME ZONE INTERVAL '1' HOUR TO MINUTE", "Pr" },
	{ "SET TIME ZONE LOCAL", "PDr" },
	{ "SET TIME ZONE DEFAULT", "PDr" },
	{ "SET NAMES 'utf8'", "Pr" },
	{ "SET NAMES", "PDr" },
	{ "SET NAMES;", "PDr" },
	{ "SET SCHEMA 'a'", "Ps" },
	{ "SET ROLE r", "Ps" },
	{ "SET ROLE NONE", "PDs" },
	{ "SET SESSION ROLE r", "Ps" },
	{ "SET SESSION AUTHORIZATION r", "Ps" },
	{ "SET SESSION AUTHORIZATION DEFAULT", "PDs" },
	{ "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "Ps" },
	{ "SET XML OPTION DOCUMENT", "Ps" },
	{ "SET x TO DEFAULT", "PDs" },
	{ "SET x = default", "PDs" },
	{ "SET x = 'default'", "Ps" },
	{ "SET SEED TO 0.5", "PXs" },
	{ "SET seed = 0.5", "PXs" },
	{ "SET LOCAL seed = 0.5", "Xls" },
	{ "SET SESSION \"Seed\" = 0.5", "PXs" },
	{ "RESET x", "PDs" },
	{ "RESET ALL", "PDs" },
	{ "RESET ROLE", "PDs" },
	{ "RESET SESSION AUTHORIZATION", "PDs" },
	{ "DISCARD ALL", "PDURFs" },
	{ "DISCARD TEMP", "Rs" },
	{ "DISCARD PLANS", "Rs" },
	{ "DISCARD SEQUENCES", "RF" },
	{ "SET LOCAL x = 1", "ls" },
	{ "SET LOCAL app.tenant = 1", "l" },
	{ "SET LOCAL \"app.tenant\" = 1", "l" },
	{ "SET LOCAL ROLE r", "ls" },
	{ "SET LOCAL TIME ZONE 'UTC'", "lr" },
	{ "SET LOCAL x TO DEFAULT", "Dls" },
	{ "SET LOCAL x = DEFAULT", "Dls" },
	{ "SET LOCAL TIME ZONE LOCAL", "Dlr" },
	{ "SET LOCAL x = 'default'", "ls" },
	{ "SET LOCAL SESSION AUTHORIZATION r", "ls" },
	{ "SET TRANSACTION READ ONLY", "" },
	{ "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "" },
	{ "SET TRANSACTION SNAPSHOT 'a'", "" },
	{ "SET CONSTRAINTS ALL DEFERRED", "" },
	{ "SET CONSTRAINTS \"a\" IMMEDIATE", "" },
	{ "SET local.x = 1", "PD" },
	{ "SET local . x = 1", "PD" },
	{ "SET local /* */ .x = 1", "PD" },
	{ "SET transaction.x = 1", "P" },
	{ "SET constraints.x = 1", "P" },
	{ "SET session.x = 1", "P" },
	{ "SET LOCAL = 1", "PDs" },
	{ "SET LOCAL TO 1", "PDs" },
	{ "SELECT set_config('x', '1', false)", "Ps" },
	{ "SELECT set_config('x', '1', true)", "ls" },
	{ "SELECT set_config($1, $2, TRUE), set_config($3, $4, true)", "ls" },
	{ "SELECT set_config('x', $1, false)", "PDs" },
	{ "SELECT set_config($1, $2, $3)", "PDs" },
	{ "SELECT set_config('x', '1', true), set_config('y', '1', false)", "Pls" },
	{ "SELECT set_config('x', '1', false), set_config('y', '1', true)", "Pls" },
	{ "SELECT set_config('x', NULL, false)", "PDs" },
	{ "SELECT set_config('x', '1', is_local => true)", "ls" },
	{ "SELECT set_config('x', '1', is_local := true)", "ls" },
	{ "SELECT set_config('x', '1', \"is_local\" => true)", "ls" },
	{ "SELECT set_config('x', '1', is_local => false)", "Ps" },
	{ "SELECT set_config(is_local => true, setting_name => 'x', new_value => 'y')", "ls" },
	{ "SELECT set_config('x', is_local => true, new_value => 'y')", "ls" },
	{ "SELECT set_config(setting_name => 'x', is_local => false, new_value => true)", "PDs" },
	{ "SELECT set_config('x', new_value => '1', is_local => not true)", "Ps" },
	{ "SELECT set_config('x', '1', true and false)", "Ps" },
	{ "SELECT set_config('x', '1', 'true')", "Ps" },
	{ "SELECT set_config('x', '1', (true))", "Ps" },
	{ "SELECT set_config('x', f(1, 2, true), true)", "ls" },
	{ "SELECT set_config('x', (array['a', 'b', 'c'])[1], true)", "ls" },
	{ "SELECT set_config('x', (array['a', 'b', true])[1], false)", "PDs" },
	{ "SELECT set_config('x', set_config('y', '1', false), true)", "PDs" },
	{ "SELECT set_config('x', 'a' || 'b', true", "PDs" },
	{ "SET LOCAL statement_timeout = 1", "l" },
	{ "SET Work_Mem = '1MB'", "P" },
	{ "SET enable_seqscan = off", "P" },
	{ "RESET jit", "PD" },
	{ "SELECT set_config('app.tenant', $1, true)", "l" },
	{ "SELECT set_config('app.tenant'::text, $1, true)", "l" },
	{ "SELECT set_config('app.tenant'::t, $1, true)", "ls" },
	{ "SELECT set_config('TimeZone', $1, true)", "lr" },
	{ "SELECT set_config('search_path', $1, true)", "ls" },
	{ "SELECT set_config('a' || '.b', $1, true)", "ls" },
	{ "SELECT set_config(E'a.b', $1, true)", "ls" },
	{ "SELECT set_config('a'\n'.b', $1, true)", "ls" },
	{ "SELECT set_config('a.b', $1, true), set_config('DateStyle', $2, true)", "lr" },
	{ "SELECT set_config", "" },
	{ "SELECT set_config(", "PDs" },
	{ "SELECT pg_catalog.set_config('x', '1', false)", "Ps" },
	{ "SELECT \"set_config\"('x', '1', false)", "Ps" },
	{ "SELECT \"pg_catalog\".\"set_config\" ('x', '1', false)", "Ps" },
	{ "SELECT \"SET_CONFIG\"('x', '1', false)", "Ps" },
	{ "SELECT SET_CONFIG('x', '1', false)", "Ps" },
	{ "SELECT set_config ('x', '1', false)", "Ps" },
	{ "SELECT set_config\n\t('x', '1', false)", "Ps" },
	{ "SELECT set_config/* a */('x', '1', false)", "Ps" },
	{ "SELECT set_config /* a /* ( */ */ ('x', '1', false)", "Ps" },
	{ "SELECT set_config -- a\n('x', '1', false)", "Ps" },
	{ "SELECT set_config -- (\r('x', '1', false)", "Ps" },
	{ "SELECT set_config('seed', '0.1', false)", "PXs" },
	{ "SELECT set_config('Seed'::text, '0.1', true)", "Xls" },
	{ "SELECT set_config('SEED', '0.1', true)", "Xls" },
	{ "SELECT set_limit(0.5)", "P" },
	{ "SELECT my_set_config('x', '1', false)", "" },
	{ "SELECT set_config_2('x', '1', false)", "" },
	{ "SELECT 'a', set_config('x', '1', false)", "Ps" },
	{ "SELECT 'it''s', set_config('x', '1', false)", "Ps" },
	{ "SELECT 'a' 'b', set_config('x', '1', false)", "Ps" },
	{ "SELECT a.b.set_config('x', '1', false)", "Ps" },
	{ "INSERT INTO t SELECT set_config('x', '1', false)", "PWs" },
	{ "WITH x AS (SELECT set_config('x', '1', false)) SELECT * FROM x", "PWs" },
	{ "COPY (SELECT set_config('x', '1', false)) TO STDOUT", "PWs" },
	{ "EXPLAIN ANALYZE SELECT set_config('x', '1', false)", "Ps" },
	{ "CREATE TABLE t AS SELECT set_config('x', '1', false)", "PWOs" },
	{ "PREPARE p AS SELECT set_config('x', '1', false)", "Pps" },
	{ "DECLARE c CURSOR FOR SELECT set_config('x', '1', false)", "Ps" },
	{ "ALTER TABLE t ADD c text DEFAULT set_config('x', '1', false)", "PWs" },
	{ "(SELECT set_config('x', '1', false))", "Ps" },
	{ "VALUES (set_config('x', '1', false))", "Ps" },
	{ "SELECT set_conf\335g('x', '1', false)", "Ps" },
	{ "SELECT set_conf\304\260g('x', '1', false)", "Ps" },
	{ "UPDATE pg_settings SET setting = '1' WHERE name = 'x'", "PDWsr" },
	{ "UPDATE ONLY pg_settings SET setting = '1'", "PDWsr" },
	{ "UPDATE pg_catalog.pg_settings SET setting = '1'", "PDWsr" },
	{ "UPDATE \"pg_catalog\" . \"pg_settings\" AS s SET setting = '1'", "PDWsr" },
	{ "UPDATE/* */pg_settings SET setting = '1'", "PDWsr" },
	{ "UPDATE -- a\npg_settings SET setting = '1'", "PDWsr" },
	{ "WITH x AS (SELECT 1) UPDATE pg_settings SET setting = '1'", "PDWsr" },
	{ "EXPLAIN ANALYZE UPDATE PG_SETTINGS SET setting = '1'", "PDWsr" },
	{ "UPDATE t SET a = (SELECT setting FROM pg_settings)", "W" },
	{ "UPDATE people SET a = 1", "W" },
	{ "UPDATE ONLY people SET a = 1", "W" },
	{ "UPDATE pg_x SET a = 1", "W" },
	{ "SELECT * FROM pg_settings", "" },

	/* several statements, comments */
	{ "SELECT 1; SET x = 1", "Ps" },
	{ "SELECT 1;SET x = 1;SELECT 2", "Ps" },
	{ "SELECT 1; /* a */ SET x = 1", "Ps" },
	{ "SELECT 1; -- a\nSET x = 1", "Ps" },
	{ "SELECT 1; -- a\rSET x = 1", "Ps" },
	{ "/* a */ SET x = 1", "Ps" },
	{ "/* a /* b */ ; */ SET x = 1", "Ps" },
	{ "-- a\nSET x = 1", "Ps" },
	{ "--\nSET x = 1", "Ps" },
	{ "\t\n\r\f\v SET x = 1", "Ps" },
	{ ";;SET x = 1", "Ps" },
	{ "SET/**/x = 1", "Ps" },
	{ "SET LOCAL x = 1; SET y = 1", "Pls" },
	{ "SET x = 1; SET LOCAL y = 1", "Pls" },
	{ "SELECT 1 */* a */ 2; SET x = 1", "Ps" },
	{ "BEGIN; SET x = 1; COMMIT", "Ps" },
	{ "LISTEN a; NOTIFY a; LOAD 'b'", "YLN" },

	/* backslashes: with and without standard_conforming_strings */
	{ "SELECT 'a\\'; SET x = 1; --'", "Ps" },
	{ "SELECT 'a\\'' ; SET x = 1; --'", "Ps" },
	{ "SELECT E'a\\'; SET x = 1; --'", "" },
	{ "SELECT E'a\\\\'; SET x = 1; --'", "Ps" },
	{ "SELECT E'a'\n'b\\'; SET x = 1; --'", "" },
	{ "SELECT E'a'\n'\\'', 'c:\\' ; SET x = 1; SELECT '\\'", "Ps" },
	{ "SELECT e'a' -- b\n '\\'; SET x = 1; --'", "" },
	{ "SELECT B'\\'; SET x = 1; SELECT 'a\\''", "Ps" },
	{ "SELECT 'a\\\\'; SET x = 1", "Ps" },
	{ "SELECT U&'a\\'; SET x = 1", "Ps" },
	{ "SELECT N'a'; SET x = 1", "Ps" },
	{ "SELECT 1$$'$$; SET x = 1 --'", "Ps" },

	/* libraries, notifications */
	{ "LOAD 'a'", "Y" },
	{ "load '$libdir/plugins/a'", "Y" },
	{ "LISTEN a", "L" },
	{ "listen \"A b\"", "L" },
	{ "UNLISTEN a", "U" },
	{ "UNLISTEN *", "U" },
	{ "NOTIFY a", "N" },
	{ "NOTIFY a, 'b'", "N" },
	{ "SELECT pg_notify('a', 'b')", "N" },
	{ "SELECT pg_notify($1, $2) FROM t", "N" },
	{ "SELECT pg_listening_channels()", "" },

	/* cursors */
	{ "DECLARE c CURSOR WITH HOLD FOR SELECT 1", "C" },
	{ "DECLARE c NO SCROLL CURSOR with /**/ hold FOR SELECT 1", "C" },
	{ "DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1", "" },
	{ "DECLARE c CURSOR FOR SELECT 1", "" },
	{ "DECLARE c CURSOR FOR WITH hold AS (SELECT 1) SELECT * FROM hold", "" },
	{ "DECLARE hold CURSOR FOR SELECT 1", "" },
	{ "DECLARE hold CURSOR WITH HOLD FOR SELECT 1", "C" },
	{ "CLOSE c", "R" },
	{ "CLOSE ALL", "R" },
	{ "FETCH 1 FROM c", "" },
	{ "MOVE 1 IN c", "" },

	/* temporary objects */
	{ "CREATE TEMP TABLE t (a int)", "TWO" },
	{ "CREATE TEMPORARY TABLE t (a int)", "TWO" },
	{ "CREATE LOCAL TEMP TABLE t (a int)", "TWO" },
	{ "CREATE GLOBAL TEMPORARY TABLE t (a int)", "TWO" },
	{ "CREATE TEMP TABLE t AS SELECT 1", "TWO" },
	{ "CREATE TEMP TABLE t (a int) ON COMMIT DELETE ROWS", "TWO" },
	{ "CREATE TEMP TABLE t (a int) ON COMMIT PRESERVE ROWS", "TWO" },
	{ "CREATE TEMP TABLE t (a int) ON COMMIT DROP", "WO" },
	{ "create temp table t on commit /* */ drop as select 1", "WO" },
	{ "CREATE TEMP TABLE t (a int) ON COMMIT DROP; CREATE TEMP TABLE u (a int)", "TWO" },
	{ "CREATE TEMP TABLE u (a int); CREATE TEMP TABLE t (a int) ON COMMIT DROP;", "TWO" },
	{ "CREATE TEMP TABLE t (a text DEFAULT 'ON COMMIT DROP')", "TWO" },
	{ "CREATE TEMP TABLE IF NOT EXISTS t (a int)", "TWO" },
	{ "CREATE TEMP SEQUENCE s", "TWO" },
	{ "CREATE TEMP VIEW v AS SELECT 1", "TWO" },
	{ "CREATE OR REPLACE TEMP VIEW v AS SELECT 1", "TWO" },
	{ "CREATE OR REPLACE TEMPORARY RECURSIVE VIEW v (n) AS SELECT 1", "TWO" },
	{ "CREATE TABLE pg_temp.t (a int)", "TWO" },
	{ "CREATE TABLE \"pg_temp\".t (a int)", "TWO" },
	{ "CREATE TABLE pg_temp_3.t (a int)", "TWO" },
	{ "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "TWO" },
	{ "CREATE TYPE pg_temp.t AS (a int)", "TWO" },
	{ "CREATE SCHEMA s CREATE TEMP TABLE t (a int)", "TWO" },
	{ "EXPLAIN ANALYZE CREATE TEMP TABLE t AS SELECT 1", "TO" },
	{ "IMPORT FOREIGN SCHEMA s FROM SERVER r INTO pg_temp", "TO" },
	{ "IMPORT FOREIGN SCHEMA s FROM SERVER r INTO t", "O" },
	{ "CREATE TABLE t (a int)", "WO" },
	{ "CREATE TABLE t (temp int)", "WO" },
	{ "CREATE TABLE temp (a int)", "WO" },
	{ "CREATE TABLE t AS SELECT temp FROM u", "WO" },
	{ "CREATE INDEX ON t (a)", "WO" },
	{ "SELECT 1 INTO TEMP t", "TO" },
	{ "SELECT 1 AS a INTO TEMPORARY TABLE t FROM u", "TO" },
	{ "SELECT 1 INTO LOCAL TEMP t", "TO" },
	{ "SELECT 1 INTO pg_temp.t", "TO" },
	{ "SELECT 1 INTO TABLE \"pg_temp\".t", "TO" },
	{ "SELECT 1 INTO t", "O" },
	{ "SELECT 1INTO TEMP t", "TO" },
	{ "SELECT 1e5INTO TEMP t", "TO" },
	{ "SELECT 1.INTO TEMP t", "TO" },
	{ "SELECT $1INTO TEMP t", "TO" },
	{ "(SELECT 1 INTO TEMP t)", "TO" },
	{ "WITH x AS (SELECT 1) SELECT * INTO TEMP t FROM x", "TWO" },
	{ "TABLE u; SELECT 1 INTO TEMP t", "TO" },
	{ "SELECT 'a;update' INTO TEMP t", "TO" },
	{ "EXPLAIN ANALYZE SELECT 1 INTO TEMP t", "TO" },
	{ "INSERT INTO temp VALUES (1)", "W" },
	{ "INSERT INTO pg_temp.t VALUES (1)", "W" },
	{ "WITH x AS (INSERT INTO temp VALUES (1) RETURNING 1) SELECT 1", "W" },
	{ "MERGE INTO temp USING u ON a = b WHEN MATCHED THEN DELETE", "W" },
	{ "SELECT temp, temporary FROM pg_temp.t", "" },
	{ "SELECT * FROM u WHERE temp > 20", "" },
	{ "SELECT pg_temp.f()", "" },
	{ "DROP TABLE t", "Rs" },
	{ "DROP TABLE pg_temp.t", "Rs" },

	/* locks */
	{ "SELECT pg_advisory_lock(1)", "K" },
	{ "SELECT pg_advisory_lock_shared(1, 2)", "K" },
	{ "SELECT pg_try_advisory_lock(1)", "K" },
	{ "SELECT pg_try_advisory_lock_shared(1)", "K" },
	{ "SELECT * FROM t WHERE pg_try_advisory_lock(a)", "K" },
	{ "SELECT pg_advisory_xact_lock(1)", "k" },
	{ "SELECT pg_advisory_xact_lock_shared(1)", "k" },
	{ "SELECT pg_try_advisory_xact_lock(1)", "k" },
	{ "SELECT pg_try_advisory_xact_lock_shared(1)", "k" },
	{ "SELECT pg_advisory_unlock(1)", "R" },
	{ "SELECT pg_advisory_unlock_shared(1)", "R" },
	{ "SELECT pg_advisory_unlock_all()", "R" },
	{ "LOCK TABLE t", "" },

	/* sequences */
	{ "SELECT currval('s')", "Q" },
	{ "SELECT lastval()", "Q" },
	{ "SELECT LASTVAL ( )", "Q" },
	{ "SELECT a, lastval()", "Q" },
	{ "SELECT a, b, c, lastval()", "Q" },
	{ "SELECT aa, bb, cc, lastval() ", "Q" },
	{ "SELECT INTO t", "O" },
	{ "TABLE u INTO t", "O" },
	{ "BEGINNING", "" },
	{ "BEGIN;a", "H" },
	{ "SELECT nextval('s')", "W" },
	{ "SELECT setval('s', 1)", "W" },
	{ "INSERT INTO t VALUES (1) RETURNING currval('s')", "QW" },

	/* (x).f is f(x) */
	{ "SELECT (7::bigint).pg_advisory_lock", "K" },
	{ "SELECT ('sq'::regclass).currval", "Q" },
	{ "SELECT ( 's' :: regclass ) . \"currval\"", "Q" },
	{ "SELECT ('s'::regclass)./* */currval", "Q" },
	{ "SELECT ('s'::regclass).--\ncurrval", "Q" },
	{ "SELECT ('s'::regclass).\n\tCURRVAL AS a", "Q" },
	{ "SELECT ('s'::regclass).U&\"curr\\0076al\"", "H" },
	{ "SELECT x.setseed FROM generate_series(0.1, 0.1) x", "X" },
	{ "SELECT x.setseed FROM s x", "X" },
	{ "SELECT s.x.setseed FROM s.x", "X" },
	{ "SELECT a[1].currval FROM t", "Q" },
	{ "SELECT $1.currval", "Q" },
	{ "SELECT $1.a.currval", "Q" },
	{ "SELECT $1. currval", "Q" },
	{ "SELECT $1.\"currval\"", "Q" },
	{ "SELECT (0.5).set_limit", "P" },
	{ "SELECT (x).crosstab2", "H" },
	{ "SELECT a.b, (SELECT c.pg_advisory_unlock FROM c)", "R" },
	{ "TABLE t; SELECT t.pg_advisory_lock FROM t", "K" },
	{ "SELECT (x).set_config", "" }, /* it needs three arguments */
	{ "SELECT a.b, a.c, a.currency, a.secret, a.customer FROM t a WHERE a.id = 1.5", "" },
	{ "SELECT currval, a.currvals, 'x.currval', \"x.currval\" FROM t -- x.currval", "" },

	/* what cannot be asked for */
	{ "SELECT setseed(0.5)", "X" },
	{ "SELECT dblink_connect('a', 'b')", "X" },
	{ "SELECT dblink_connect_u('a', 'b')", "X" },
	{ "SELECT dblink_disconnect('a')", "R" },
	{ "SELECT * FROM dblink('a', 'b') AS t(c int)", "" },
	{ "SELECT pg_replication_origin_session_setup('a')", "X" },
	{ "SELECT pg_replication_origin_session_reset()", "R" },
	{ "SELECT pg_backup_start('a')", "X" },
	{ "SELECT pg_start_backup('a', true, false)", "X" },
	{ "SELECT * FROM pg_backup_stop()", "R" },
	{ "SELECT * FROM pg_stop_backup(false)", "R" },
	{ "SELECT sepgsql_setcon('a')", "X" },
	{ "SELECT isn_weak(true)", "X" },
	{ "SELECT pg_create_logical_replication_slot('a', 'b')", "" },
	{ "SELECT pg_create_logical_replication_slot('a', 'b', false)", "" },
	{ "SELECT pg_create_logical_replication_slot('a', 'b', true)", "X" },
	{ "SELECT pg_create_logical_replication_slot('a', 'b', temporary => true)", "X" },
	{ "SELECT pg_create_logical_replication_slot('a', 'b', temporary := false)", "" },
	{ "SELECT pg_create_logical_replication_slot('a', 'b', $1)", "X" },
	{ "SELECT pg_create_logical_replication_slot('a', 'b', twophase => true)", "" },
	{ "SELECT pg_create_physical_replication_slot('a')", "" },
	{ "SELECT pg_create_physical_replication_slot('a', true, true)", "X" },
	{ "SELECT pg_copy_logical_replication_slot('a', 'b', true)", "X" },
	{ "SELECT pg_copy_physical_replication_slot('a', 'b')", "" },
	{ "SELECT pg_copy_physical_replication_slot('a', 'b', true)", "X" },

	/* what may do anything */
	{ "DO $$ BEGIN PERFORM set_config('x', '1', false); END $$", "HW" },
	{ "CALL p()", "HW" },

	/* within the strings of what may do anything: what the server cannot be asked for */
	{ "DO $$ BEGIN PERFORM dblink_connect('a', 'b'); END $$", "XHW" },
	{ "CALL p('SELECT public.DBLINK_CONNECT(''a'', ''b'')')", "XHW" },
	{ "SELECT query_to_xml('SELECT setseed(0)', true, true, '')", "XH" },
	{ "SELECT table_to_xml (a, true, true, '')", "H" },
	{ "SELECT schema_to_xml('a', true, true, '')", "H" },
	{ "SELECT database_to_xml(true, true, '')", "H" },
	{ "SELECT (true).\335sn_weak FROM t", "X" }, /* in LATIN5, a capital I with a dot */
	{ "SELECT 'SELECT setseed(0)'", "" },
	{ "DO $$ BEGIN LOAD 'a'; END $$", "YHW" },
	{ "DO $$ BEGIN EXECUTE format('load %L', 'a'); END $$", "YHW" },
	{ "DO $$ BEGIN RAISE NOTICE 'load is high'; load := 1; END $$", "HW" },
	{ "SELECT U&\"set\\005fconfig\"('x', '1', false)", "H" },
	{ "SELECT u&\"d\\0061t\\+000061\" FROM t", "H" },
	{ "SELECT U&'d\\0061t\\+000061'", "" },
	{ "SELECT 1U&\"a\" FROM t", "H" },
	{ "CREATE EXTENSION a", "HWO" },
	{ "ALTER EXTENSION a UPDATE", "HWs" },
	{ "SELECT query_to_xml('SELECT 1', true, true, '')", "H" },
	{ "SELECT query_to_xmlschema($1, true, true, '')", "H" },
	{ "SELECT query_to_xml_and_xmlschema($1, true, true, '')", "H" },
	{ "SELECT * FROM ts_stat('SELECT a FROM t')", "H" },
	{ "SELECT ts_rewrite(a, 'SELECT a FROM t')", "H" },
	{ "SELECT * FROM crosstab('SELECT a FROM t') AS t(a int)", "H" },
	{ "SELECT * FROM crosstab2('SELECT a FROM t')", "H" },
	{ "SELECT * FROM connectby('t', 'a', 'b', 'c', 0) AS t(a int)", "H" },
	{ "SELECT * FROM xpath_table('a', 'b', 'c', 'd', 'e') AS t(a int)", "H" },
	{ "NONESUCH x", "H" },

	/* prepared statements */
	{ "EXECUTE p", "E" },
	{ "EXECUTE p (1, 2)", "E" },
	{ "EXPLAIN ANALYZE EXECUTE p", "E" },
	{ "EXPLAIN (ANALYZE, BUFFERS) EXECUTE p(1)", "E" },
	{ "CREATE TABLE t AS EXECUTE p", "EWO" },
	{ "CREATE TEMP TABLE t AS EXECUTE p", "TEWO" },
	{ "CREATE TRIGGER t BEFORE INSERT ON u EXECUTE FUNCTION f()", "WO" },
	{ "GRANT EXECUTE ON FUNCTION f() TO u", "s" },
	{ "SELECT a AS execute FROM t", "" },
	{ "PREPARE p AS SELECT 1", "p" },
	{ "PREPARE p (int) AS INSERT INTO t VALUES ($1)", "Wp" },
	{ "PREPARE p AS SELECT pg_advisory_lock(1)", "Kp" },
	{ "PREPARE TRANSACTION 'a'", "p" },
	{ "COMMIT PREPARED 'a'", "" },
	{ "DEALLOCATE p", "R" },

	/* other statements with these words */
	{ "ALTER ROLE r SET x = 1", "Ws" },
	{ "ALTER SYSTEM SET x = 1", "Ws" },
	{ "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET x = 1 AS 'SELECT 1'", "WO" },
	{ "CREATE RULE r AS ON UPDATE TO t DO ALSO NOTIFY a", "WO" },
	{ "CREATE RULE r AS ON UPDATE TO t DO (SELECT 1; SELECT 2)", "WO" },
	{ "MERGE INTO t USING u ON a = b WHEN MATCHED THEN UPDATE SET a = 1", "W" },
	{ "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2", "W" },
	{ "COPY t FROM STDIN", "W" },
	{ "TRUNCATE t RESTART IDENTITY", "" },
	{ "REFRESH MATERIALIZED VIEW v", "W" },
	{ "SAVEPOINT a", "" },
	{ "ROLLBACK TO SAVEPOINT a", "" },
	{ "COMMENT ON TABLE t IS 'SET x = 1'", "" },
	{ "SECURITY LABEL ON TABLE t IS 'a'", "" },

	/* PostgreSQL refuses these */
	{ "SET x = 'no end", "Ps" },
	{ "/* no end SET x = 1", "" },
	{ "SELECT 'no end; SET x = 1", "" },
	{ "SELECT $$no end; SET x = 1", "" },
	{ "\"SET\" x = 1", "" },
	{ "\"a\" SET x = 1", "" },
	{ "(SET x = 1)", "" },
	{ "SELECT $$a$$INTO TEMP t", "TO" },
	{ "SELECT $a$b$a$set_config(1)", "PDs" },
	{ "SELECT 1set_config(1)", "PDs" },
	{ "SELECT crosstab22('a')", "" },
	{ "*; SET x = 1", "Ps" },
};

static const char *letters_of(unsigned int bits, char out[static 32])
{
	size_t used = 0;

	for (size_t i = 0; letters[i]; i++) {
		if (bits >> i & 1)
			out[used++] = letters[i];
	}
	out[used] = 0;
	return out;
}

START_TEST(touches)
{
	char found[32];

	letters_of(sql_touch(bytes_text(cases[_i].text)), found);
	ck_assert_msg(strcmp(found, cases[_i].bits) == 0, "%s: %s, not %s", cases[_i].text, found,
	              cases[_i].bits);
}
END_TEST

/* What is looked for in blocks of bytes is found at each place of a block. */
START_TEST(every_place)
{
	static const struct {
		const char *text;
		unsigned int bits;
	} ends[] = {
		{ ", lastval()", SQL_TOUCH_SEQUENCE }, { ", a INTO TEMP b", SQL_TOUCH_TEMP },
		{ ";SET a=1", SQL_TOUCH_PARAMS },      { ", U&\"a\"", SQL_TOUCH_HIDDEN },
		{ ", 1;LOAD''", SQL_TOUCH_LIBRARY },
	};
	char text[200];

	for (size_t i = 0; i < COUNT_OF(ends); i++) {
		for (int before = 0; before < 70; before++) {
			for (int after = 0; after < 40; after++) {
				snprintf(text, sizeof(text), "SELECT 1%*s%s%*s", before + 1, " ",
				         ends[i].text, after, "");
				ck_assert_msg(sql_touch(bytes_text(text)) & ends[i].bits, "%s",
				              text);
			}
		}
	}
}
END_TEST

/* Without the end of a text nothing is read after it; the bits of its first words stay. */
START_TEST(every_cut)
{
	const char *text = cases[_i].text;

	for (size_t count = 0; count <= strlen(text); count++) {
		char *copy = malloc(count ? count : 1); /* the sanitizer detects reads after it */

		memcpy(copy, text, count);
		unit_expect(sql_touch(bytes_of(copy, count)) == sql_touch(bytes_of(text, count)));
		unclear_touches(bytes_of(copy, count));
		free(copy);
	}
}
END_TEST

/* Together with other statements a text touches what both touch. */
START_TEST(in_company)
{
	static const char *const others[] = { "SELECT 1", "UPDATE t SET a = 1", "LISTEN a",
		                              "/* ( */ SELECT 'a;b(c'", "SELECT \"a\" (1)" };
	const char *text = cases[_i].text;
	unsigned int bits = sql_touch(bytes_text(text));
	char both[1000];

	if (strstr(text, "no end") || strstr(text, "--") || strstr(text, "/*"))
		return;
	for (size_t i = 0; i < COUNT_OF(others); i++) {
		unsigned int more = sql_touch(bytes_text(others[i]));

		snprintf(both, sizeof(both), "%s;%s", others[i], text);
		ck_assert_msg((sql_touch(bytes_text(both)) & bits) == bits, "%s", both);
		snprintf(both, sizeof(both), "%s;\n%s", text, others[i]);
		ck_assert_msg((sql_touch(bytes_text(both)) & more) == more, "%s", both);
	}
}
END_TEST

/* When quotes are not followed, no bit is missing. */
START_TEST(unclear)
{
	unsigned int bits = sql_touch(bytes_text(cases[_i].text));

	ck_assert_msg((unclear_touches(bytes_text(cases[_i].text)) & bits) == bits, "%s",
	              cases[_i].text);
}
END_TEST

/* Shift JIS: the last byte of \225\\ looks like a backslash, that of \203[ like a bracket. */
START_TEST(unclear_quotes)
{
	static const struct {
		const char *text;
		unsigned int bits;
	} texts[] = {
		{ "SELECT E'\225\\'; SET x = 1; --'", SQL_TOUCH_PARAMS },
		{ "SELECT E'\225\\'; LISTEN a; --'", SQL_TOUCH_LISTEN },
		{ "SELECT $\203[$ ' $\203[$; /* a */ SET x = 1; --'", SQL_TOUCH_PARAMS },
		{ "SELECT $\203[$ ' $\203[$, lastval() --'", SQL_TOUCH_SEQUENCE },
		{ "SELECT $\203[$ ' $\203[$; -- a\nDO '' --'", SQL_TOUCH_HIDDEN },
		{ "SELECT E'\225\\'; CREATE TEMP TABLE t (); --'", SQL_TOUCH_TEMP },
		{ "SELECT E'\225\\'; EXPLAIN EXECUTE p; --'", SQL_TOUCH_EXECUTE },
	};

	for (size_t i = 0; i < COUNT_OF(texts); i++)
		ck_assert_msg((sql_touch(bytes_text(texts[i].text)) & texts[i].bits) ==
		                  texts[i].bits,
		              "%s", texts[i].text);
	ck_assert_uint_eq(sql_touch(bytes_text("SELECT '\303\244\\n; 1'")), 0);
	ck_assert_uint_eq(sql_touch(bytes_text("SELECT lastval(), '\303\244: set the table; a'")),
	                  SQL_TOUCH_SEQUENCE);
	ck_assert(unclear_touches(bytes_text("SELECT '; LISTEN a'")) & SQL_TOUCH_LISTEN);
}
END_TEST

/* The time is linear in the size: each of these would take minutes if it were the square. */
START_TEST(long_texts)
{
	static const char *const parts[] = {
		"set_config(", "set_config(a,", "nextval/*", "/*",
		"';/*",        ";--",           "$a",        "$a$",
		"1.",          ";   ",          "\n(",       "a (",
		"U&\"",        "SET x = ",      "\"a\"(",    "'\\",
		"E'a'\n",      "EXPLAIN ",      "f(g(",      "[",
		"set_config[",
	};
	static const char *const fronts[] = { "", "SELECT ", "SET x = set_config(", "SELECT '",
		                              "LISTEN a; SELECT set_config(1, 2, f(" };
	size_t size = 1 << 18;
	char *text = malloc(size);

	for (size_t i = 0; i < COUNT_OF(parts) * COUNT_OF(fronts); i++) {
		const char *part = parts[i % COUNT_OF(parts)], *front = fronts[i / COUNT_OF(parts)];
		size_t used = strlen(front);

		memcpy(text, front, used);
		for (; used + strlen(part) <= size; used += strlen(part))
			memcpy(text + used, part, strlen(part));
		sql_touch(bytes_of(text, used));
		unclear_touches(bytes_of(text, used));
	}
	free(text);
}
END_TEST

/* The frequent statements need no look at their tokens, which costs ten times as much. */
/* NULL: it is another statement, or several. */
static const struct {
	const char *text;
	const char *name;
} databases[] = {
	{ "DROP DATABASE a", "a" },
	{ " drop /* b */ Database If Exists Ab ; ;", "ab" },
	{ "DROP DATABASE \"A \"\"b\" WITH (FORCE)", "A \"b" },
	{ "ALTER DATABASE a RENAME TO b", "a" },
	{ "ALTER DATABASE a SET TABLESPACE b;", "a" },
	{ "CREATE DATABASE a", "template1" },
	{ "CREATE DATABASE a WITH OWNER = o TEMPLATE = b ENCODING 'UTF8'", "b" },
	{ "CREATE DATABASE a TEMPLATE 'b''c' ALLOW_CONNECTIONS true", "b'c" },
	{ "ALTER DATABASE a SET work_mem = '1MB'", NULL },
	{ "DROP DATABASE a; SELECT 1", NULL },
	{ "SELECT 1; DROP DATABASE a", NULL },
	{ "DROP DATABASE", NULL },
	{ "DROP DATABASE \"\"", NULL },
	{ "DROP DATABASE U&\"\\0061\"", NULL },
	{ "DROP DATABASE a /* b", NULL },
	{ "DROP TABLE database", NULL },
	{ "DROP DATABASE aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg",
	  "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg" },
	{ "DROP DATABASE aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg", NULL },
};

START_TEST(named_database)
{
	const char *wanted = databases[_i].name;
	char name[SQL_DATABASE_SIZE];
	bool is_found = sql_database(bytes_text(databases[_i].text), name);

	ck_assert_msg(is_found == (wanted != NULL), "%s", databases[_i].text);
	if (wanted)
		ck_assert_str_eq(name, wanted);
	if (wanted)
		ck_assert(sql_touch(bytes_text(databases[_i].text)) & SQL_TOUCH_DATABASE);
}
END_TEST

START_TEST(quick)
{
	static const char *const texts[] = {
		"SELECT 1",
		"SELECT 1;",
		"select count(*) from t",
		"SELECT a, b FROM t WHERE a = 1 AND b IN (1, 2)",
		"SELECT lower(name) FROM accounts; SELECT 2",
		"WITH a AS (SELECT 1) SELECT * FROM a",
		"VALUES (1), (2)",
		"TABLE t",
		"INSERT INTO accounts (id, name) VALUES (1, lower('A'))",
		"UPDATE accounts SET name = upper('a') WHERE id = 1",
		"DELETE FROM accounts WHERE id IN (1, 2, 3)",
		"BEGIN",
		"COMMIT;",
		"ROLLBACK TO SAVEPOINT a",
	};

	for (size_t i = 0; i < COUNT_OF(texts); i++)
		ck_assert_msg(!(sql_touch_quick(bytes_text(texts[i])) & SQL_TOUCH_UNREAD), "%s",
		              texts[i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pgwire/sql_touch");
	TCase *tests = tcase_create("sql_touch");

	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, touches, 0, COUNT_OF(cases));
	tcase_add_test(tests, every_place);
	tcase_add_loop_test(tests, every_cut, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, in_company, 0, COUNT_OF(cases));
	tcase_add_loop_test(tests, unclear, 0, COUNT_OF(cases));
	tcase_add_test(tests, unclear_quotes);
	tcase_add_test(tests, long_texts);
	tcase_add_loop_test(tests, named_database, 0, COUNT_OF(databases));
	tcase_add_test(tests, quick);
	suite_add_tcase(suite, tests);
	return unit_run(suite);
}
