-- Cursors that outlive their transaction, and psql's own (FETCH_COUNT).
DECLARE held SCROLL CURSOR WITH HOLD FOR SELECT g FROM generate_series(1, 9) g;
FETCH 2 FROM held; SELECT 'between'; FETCH 2 FROM held; MOVE BACKWARD 3 IN held; FETCH held;
BEGIN; DECLARE inner_one CURSOR FOR SELECT 1; DECLARE second CURSOR WITH HOLD FOR SELECT 'second'; FETCH inner_one; COMMIT;
FETCH inner_one; FETCH second; FETCH ALL FROM held;
SELECT name, is_holdable, statement FROM pg_cursors WHERE name <> '' ORDER BY name;
BEGIN; CLOSE second; ROLLBACK; FETCH second;
CLOSE held; CLOSE held;
CLOSE ALL;
SELECT count(*) FROM pg_cursors WHERE name <> '';
BEGIN; DECLARE failing CURSOR WITH HOLD FOR SELECT 1 / (2 - g) FROM generate_series(1, 3) g; COMMIT;
SELECT count(*) FROM pg_cursors WHERE name <> '';
DECLARE doomed CURSOR WITH HOLD FOR SELECT 1; DISCARD ALL; FETCH doomed;
\set FETCH_COUNT 3
SELECT g FROM generate_series(1, 8) g;
SELECT 10 / (5 - g) FROM generate_series(1, 8) g;
\set FETCH_COUNT 0
\set AUTOCOMMIT off
DECLARE quiet CURSOR FOR SELECT 'in a transaction of psql';
FETCH quiet; COMMIT; FETCH quiet; ROLLBACK;
\set AUTOCOMMIT on
