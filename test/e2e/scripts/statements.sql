-- Statements of SQL, locks, libraries, functions that keep state. currval() and lastval() may be refused: not here.
CREATE TABLE :lane (id serial, v text);
PREPARE add (text) AS INSERT INTO :lane (v) VALUES ($1) RETURNING id;
EXECUTE add ('one'); EXECUTE add ('two');
BEGIN; EXECUTE add ('three'); ROLLBACK;
SELECT setval(:'lane' || '_id_seq', 100); SELECT nextval(:'lane' || '_id_seq');
SELECT hashtext(:'lane') AS key \gset
SELECT pg_advisory_lock(:key), pg_try_advisory_lock_shared(:key, 1), pg_advisory_lock(:key);
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory';
SELECT pg_advisory_unlock(:key), pg_advisory_unlock(:key), pg_advisory_unlock(:key);
BEGIN; SELECT pg_advisory_lock(:key); ROLLBACK; SELECT pg_advisory_unlock(:key);
SELECT pg_advisory_unlock_all(); SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory';
DEALLOCATE add; EXECUTE add ('five'); DEALLOCATE add;
PREPARE shows AS SELECT v FROM :lane ORDER BY id; EXECUTE shows;
DISCARD PLANS; EXECUTE shows; DEALLOCATE ALL; EXECUTE shows;
LOAD 'auto_explain'; SHOW auto_explain.log_min_duration; SET auto_explain.log_min_duration = '1h';
SHOW auto_explain.log_min_duration; RESET auto_explain.log_min_duration; SHOW auto_explain.log_min_duration;
SELECT setseed(0.5); SELECT random() AS first \gset
SELECT setseed(0.5); SELECT random() = :first AS is_repeated, random() = :first AS is_not;
CREATE FUNCTION :lane() RETURNS text LANGUAGE plpgsql SET work_mem = '9MB' AS
	$$ BEGIN PERFORM set_config('app.by_function', 'kept', false); RETURN current_setting('work_mem'); END $$;
SELECT :lane(); SHOW work_mem;
DO $$ BEGIN PERFORM set_config('app.by_do', 'kept', false); PERFORM pg_advisory_lock(77); EXECUTE 'SET work_mem = ''2MB'''; END $$;
SELECT current_setting('app.by_do'), pg_advisory_unlock(77); SHOW work_mem;
\set ON_ERROR_ROLLBACK on
BEGIN; SET work_mem = '3MB'; SELECT 1 / 0; SHOW work_mem; INSERT INTO :lane (v) VALUES ('kept') RETURNING id; COMMIT;
\set ON_ERROR_ROLLBACK off
SELECT v FROM :lane ORDER BY id;
SHOW work_mem;
SELECT 'described' AS a, 1 AS b \gdesc
SELECT format('SELECT %s AS n', g) FROM generate_series(1, 2) g \gexec
\errverbose
DROP FUNCTION :lane(); DROP TABLE :lane;
