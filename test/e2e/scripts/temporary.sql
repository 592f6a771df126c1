-- Temporary objects of all kinds, and statements that were prepared before them.
CREATE TABLE :lane AS SELECT 'permanent' AS kind;
PREPARE which AS SELECT kind FROM :lane;
EXECUTE which;
CREATE TEMP TABLE :lane AS SELECT 'temporary'::text AS kind;
SELECT kind FROM :lane; SELECT kind FROM public.:lane;
DROP TABLE :lane;
SELECT kind FROM :lane;
CREATE TEMP TABLE deleted (n int) ON COMMIT DELETE ROWS; INSERT INTO deleted VALUES (1); SELECT count(*) FROM deleted;
BEGIN; INSERT INTO deleted VALUES (1); SELECT count(*) FROM deleted; COMMIT; SELECT count(*) FROM deleted;
BEGIN; CREATE TEMP TABLE dropped (n int) ON COMMIT DROP; INSERT INTO dropped VALUES (1); SELECT * FROM dropped; COMMIT;
SELECT * FROM dropped;
SELECT 7 AS n INTO TEMP made; SELECT n FROM made;
CREATE TEMP SEQUENCE counter; SELECT nextval('counter'), nextval('counter');
CREATE TEMP VIEW seen AS SELECT n + 1 AS more FROM made; SELECT more FROM seen;
CREATE FUNCTION pg_temp.answer() RETURNS int LANGUAGE sql AS 'SELECT 42'; SELECT pg_temp.answer();
CREATE TYPE pg_temp.mood AS ENUM ('fine'); SELECT 'fine'::pg_temp.mood;
CREATE TABLE pg_temp.other (n serial, v text); INSERT INTO other (v) VALUES ('a'), ('b') RETURNING n;
\copy other (v) FROM STDIN
from psql
another
\.
SELECT * FROM other ORDER BY n;
\copy (SELECT v FROM other ORDER BY n) TO STDOUT
\dt pg_temp.*
BEGIN; CREATE TEMP TABLE undone (n int); ROLLBACK; SELECT * FROM undone;
BEGIN; SAVEPOINT a; CREATE TEMP TABLE undone (n int); ROLLBACK TO a; COMMIT; SELECT * FROM undone;
DO $$ BEGIN CREATE TEMP TABLE by_do AS SELECT 'by DO' AS v; END $$;
SELECT v FROM by_do;
CREATE TEMP TABLE by_execute AS EXECUTE which; SELECT * FROM by_execute;
SELECT 1 / 0; SELECT v FROM by_do;
DISCARD TEMP;
SELECT v FROM by_do; SELECT nextval('counter'); SELECT pg_temp.answer();
CREATE TEMP TABLE last_one (n int); DROP TABLE last_one;
EXECUTE which;
DROP TABLE public.:lane;
