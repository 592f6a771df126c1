# SPDX-License-Identifier: ISC
"""What queues of jobs and gateways to HTTP do to their sessions, with psycopg.

Job queues in the manner of GoodJob and Que: a worker listens, takes a job by an advisory lock of
its session, does it in transactions of its own, and releases the lock. A gateway in the manner of
PostgREST: each request is a transaction with a local role, search_path and claims.
"""

import json

import psycopg
from harness import run, same

SETUP = """
CREATE TABLE jobs (id serial PRIMARY KEY, queue text NOT NULL, finished_by text);
CREATE TABLE performed (job int PRIMARY KEY, by text NOT NULL);
CREATE FUNCTION tell_workers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_notify('jobs_' || NEW.queue, NEW.id::text);
	RETURN NULL;
END $$;
CREATE TRIGGER tell_workers AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION tell_workers();

CREATE SCHEMA api;
CREATE TABLE api.items (id serial, owner text NOT NULL, name text NOT NULL);
ALTER TABLE api.items ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON api.items TO driver_role
	USING (owner = current_setting('request.jwt.claims', true)::json ->> 'sub');
GRANT USAGE ON SCHEMA api TO driver_role;
GRANT ALL ON ALL TABLES IN SCHEMA api TO driver_role;
GRANT ALL ON ALL SEQUENCES IN SCHEMA api TO driver_role;
"""

# The lock is taken only of the job that is returned.
TAKE = """
WITH waiting AS MATERIALIZED (
	SELECT id FROM jobs WHERE queue = %s AND finished_by IS NULL ORDER BY id LIMIT 100)
SELECT id FROM waiting WHERE pg_try_advisory_lock(72, id) LIMIT 1
"""
OWN_LOCKS = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 72 AND objid = %s
   AND pid = pg_backend_pid()
"""
REQUEST = """
SELECT set_config('search_path', %s, true), set_config('role', %s, true),
       set_config('request.jwt.claims', %s, true), set_config('request.method', %s, true)
"""


def connect():
    return psycopg.connect("", autocommit=True, prepare_threshold=0)


def value(connection, sql, *values):
    row = connection.execute(sql, values or None).fetchone()
    return row and row[0]


def work_off(connection, who, queue):
    """Does all jobs of the queue that nobody else does; returns how many."""
    count = 0
    while (job := value(connection, TAKE, queue)) is not None:
        same(value(connection, OWN_LOCKS, job), 1)
        # The list of jobs is older than the lock.
        if value(connection, "SELECT finished_by FROM jobs WHERE id = %s", job) is None:
            with connection.transaction():
                connection.execute("INSERT INTO performed VALUES (%s, %s)", (job, who))
            connection.execute("UPDATE jobs SET finished_by = %s WHERE id = %s", (who, job))
            count += 1
        same(value(connection, "SELECT pg_advisory_unlock(72, %s)", job), True)
    return count


def shared_jobs(connection, who):
    """All connections work on one queue; a job that is done twice breaks a primary key."""
    for _ in range(3):
        connection.execute("INSERT INTO jobs (queue) VALUES ('all')")
    work_off(connection, who, "all")


def told_jobs(connection, who):
    """A worker with a channel for its own process, as Que has it."""
    queue = str(connection.info.backend_pid)
    connection.execute(f"LISTEN jobs_{queue}")
    with connect() as other:
        jobs = [value(other, "INSERT INTO jobs (queue) VALUES (%s) RETURNING id", queue)
                for _ in range(3)]
    stream = connection.notifies()
    same([int(next(stream).payload) for _ in jobs], jobs)
    stream.close()
    same(work_off(connection, who, queue), 3)
    connection.execute("UNLISTEN *")


def request(connection, who, sql, *values, method="GET"):
    """One transaction in a pipeline; returns the rows of the statement."""
    claims = json.dumps({"sub": who, "role": "driver_role"})
    with connection.pipeline():
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        connection.execute(REQUEST, ("api, public", "driver_role", claims, method))
        result = connection.execute(sql, values)
        connection.execute("COMMIT")
        return result.fetchall()


def requests(connection, who):
    request(connection, who, "INSERT INTO items (owner, name) VALUES (%s, 'one') RETURNING id", who,
            method="POST")
    same(request(connection, who, "SELECT owner, current_user::text FROM items WHERE name = %s",
                 "one"), [(who, "driver_role")])
    same(connection.execute("SELECT current_user::text, nullif(current_setting("
                            "'request.jwt.claims', true), '')").fetchone(), ("alice", None))
    same(request(connection, who, "DELETE FROM items WHERE name = %s RETURNING owner", "one"),
         [(who,)])


def failed_requests(connection, who):
    """A request that fails leaves nothing of its role behind."""
    for _ in range(2):
        try:
            request(connection, who, "INSERT INTO items (owner, name) VALUES (%s, %s) RETURNING id",
                    "somebody else", "theirs", method="POST")
            raise AssertionError("a row of somebody else was accepted")
        except psycopg.errors.InsufficientPrivilege:
            connection.execute("ROLLBACK")
    same(value(connection, "SELECT current_user::text"), "alice")


def reloads(connection, who):
    """The gateway's listener for changes of the schema."""
    connection.execute("LISTEN gateway")
    with connect() as other:
        other.execute(f"NOTIFY gateway, 'reload schema of {who}'")
    stream = connection.notifies()
    while next(stream).payload != f"reload schema of {who}":
        pass
    stream.close()
    connection.execute("UNLISTEN gateway")


with psycopg.connect("", autocommit=True) as first:
    first.execute(SETUP)
run({function.__name__: function for function in (
    shared_jobs, told_jobs, requests, failed_requests, reloads)}, connect)
