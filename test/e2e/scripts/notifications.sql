-- Notifications to oneself. psql prints them behind the statement with which they came.
LISTEN :lane;
NOTIFY :lane; NOTIFY :lane, 'with a payload';
BEGIN; NOTIFY :lane, 'first'; NOTIFY :lane, 'second'; NOTIFY :lane, 'first'; SELECT 'not yet'; COMMIT;
BEGIN; NOTIFY :lane, 'never'; ROLLBACK;
SELECT pg_notify(:'lane', 'by function ' || g) FROM generate_series(1, 3) g;
BEGIN; LISTEN other_channel; ROLLBACK; NOTIFY other_channel, 'never';
BEGIN; UNLISTEN :lane; ROLLBACK; NOTIFY :lane, 'still';
DO $$ BEGIN LISTEN script_do; END $$;
NOTIFY script_do, 'heard';
UNLISTEN script_do; NOTIFY script_do, 'not heard'; NOTIFY :lane, 'heard';
BEGIN; SAVEPOINT a; NOTIFY :lane, 'undone'; ROLLBACK TO a; NOTIFY :lane, 'done'; COMMIT;
LISTEN second_channel; NOTIFY second_channel, 'on the second'; NOTIFY :lane, 'on the first';
DISCARD ALL;
NOTIFY :lane, 'not heard'; NOTIFY second_channel, 'not heard';
LISTEN :lane; LISTEN :lane; NOTIFY :lane, 'once';
UNLISTEN *; NOTIFY :lane, 'not heard';
SELECT 'the end';
