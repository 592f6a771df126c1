-- Parameters of every kind, in and out of transactions.
SHOW search_path;
CREATE SCHEMA :lane;
SET search_path = :lane, public;
CREATE TABLE place AS SELECT 'in the schema' AS name;
SELECT name FROM place;
SET work_mem = '3MB'; SET SESSION statement_timeout TO '10min';
SHOW work_mem; SHOW statement_timeout;
SET TIME ZONE 'Asia/Tokyo';
SELECT timestamptz '2026-01-01 12:00+00';
SET DateStyle = 'German, DMY'; SET IntervalStyle = sql_standard; SET bytea_output = escape; SET extra_float_digits = 0;
SELECT timestamptz '2026-01-01 12:00+00', interval '1 day 2 hours', 'a\001'::bytea, 0.1::float8 + 0.2;
SET app.tenant = 'it''s; SET app.tenant = ''x''';
SELECT current_setting('app.tenant');
SELECT set_config('app.user_id', '42', false), set_config('app.local', 'gone', true);
SELECT current_setting('app.user_id'), current_setting('app.local');
SELECT set_config('app.' || lower('COMPUTED'), 'value', false) \gset
SELECT current_setting('app.computed');
BEGIN;
SET app.tenant = 'rolled back'; SET work_mem = '4MB';
SAVEPOINT a;
SET work_mem = '5MB';
SHOW work_mem;
ROLLBACK TO a;
SHOW work_mem;
ROLLBACK;
SHOW work_mem; SELECT current_setting('app.tenant');
BEGIN;
SET LOCAL work_mem = '6MB'; SET app.tenant = 'committed';
COMMIT AND CHAIN;
SHOW work_mem; SET work_mem = '7MB';
COMMIT;
SHOW work_mem; SELECT current_setting('app.tenant');
SET work_mem = '8MB'\; SELECT 1 / 0;
SHOW work_mem;
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY;
SHOW transaction_isolation; SHOW transaction_read_only;
CREATE TABLE not_here (n int);
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SHOW transaction_isolation;
SET standard_conforming_strings = off; SET escape_string_warning = off;
SELECT 'a\'; SET work_mem = 1234 --';
SHOW work_mem;
RESET standard_conforming_strings;
SET client_encoding = 'LATIN1'; SHOW client_encoding;
SET NAMES 'UTF8'; SHOW client_encoding;
RESET work_mem; SHOW work_mem;
SET search_path TO DEFAULT; SHOW search_path;
SET no.such.thing.at.all = 1; SET work_mem = 'nonsense'; SET nonsense = 1; RESET nonsense;
RESET ALL;
SHOW TimeZone; SHOW statement_timeout; SELECT nullif(current_setting('app.tenant', true), '');
\encoding LATIN1
SHOW client_encoding;
DISCARD ALL;
SHOW client_encoding; SHOW DateStyle; SELECT nullif(current_setting('app.user_id', true), '');
SET search_path = :lane;
\d
\d place
DROP SCHEMA :lane CASCADE;
