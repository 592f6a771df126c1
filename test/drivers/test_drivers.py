# SPDX-License-Identifier: ISC
"""Drivers of other languages in transaction mode, several connections on few servers.

Each driver has a program. It opens six connections; each goes through the scenarios three times,
beginning with another one, and prints "ok NAME" or "failed NAME why" for each. So all that
drivers do happens at once, and with max_prepared_statements = 2 statements are evicted all the
time. A scenario is a test here: it has passed if it was ok each time.

simple     several statements in one Query message
prepared   more texts than the servers may know, each several times
rollback   what is rolled back is gone, what is committed is there
recovery   the same statements go on after errors, in and out of transactions, with savepoints
copy       COPY in and out
batch      many statements at once, and one that fails among them
pipeline   the same, where the driver has pipelines besides
cursor     rows in pieces
cancel     a statement that sleeps is cancelled, and the next one runs
notices    reach who has caused them

What drivers keep in their sessions has runs of its own, with the scenarios of session.txt and these:

listen     LISTEN, then notifications of another connection and of its own, in order, each once
leave_clean  the reset of a driver's own pool
"""

import collections
import os
import subprocess

import pytest

from . import build

CONNECTIONS, ROUNDS = 6, 3
RUN_LIMIT_S = 120
SESSION = "session"  # in the place of a limit: the scenarios of the session, with the default limit
PIPELINING = "simple prepared rollback recovery batch notices"


def scenarios_of(driver, variant, limit):
    if limit == SESSION:
        return driver.session.split()
    return (PIPELINING if variant == "pipeline" else driver.scenarios).split()


RUNS = [(driver, variant, limit) for driver in build.DRIVERS for variant in driver.variants
        for limit in (200, 2, SESSION)]
CASES = [pytest.param((driver, variant, limit), scenario,
                      id=f"{driver.name}-{variant}-{limit}-{scenario}")
         for driver, variant, limit in RUNS for scenario in scenarios_of(driver, variant, limit)]

TABLES = """
DROP OWNED BY alice;
DROP TABLE IF EXISTS driver_rows, driver_lock, driver_numbers;
CREATE TABLE driver_rows (who text, number int);
CREATE TABLE driver_lock (holder text);
INSERT INTO driver_lock VALUES ('nobody');
CREATE TABLE driver_numbers (id serial, who text);
GRANT ALL ON driver_rows, driver_lock, driver_numbers, driver_numbers_id_seq TO PUBLIC;
DO $$ BEGIN CREATE ROLE driver_role; EXCEPTION WHEN duplicate_object THEN END $$;
GRANT driver_role TO alice;
GRANT CREATE ON DATABASE app TO alice;
"""

# Three servers for six connections. Those that keep a server for themselves need more: nobody may
# have to wait, as that ends what is kept for values of sequences.
SETTINGS = {"default_pool_size": 3}
SETTINGS_SESSION = {"default_pool_size": 13}


@pytest.fixture(scope="session")
def built():
    """Builds a driver's program once; skips what cannot be built for want of tools."""
    outcomes = {}

    def build_once(driver):
        missing = build.missing_tool(driver)
        if missing:
            pytest.skip(f"{driver.name}: there is no {missing}")
        if driver.name not in outcomes:
            try:
                build.build(driver)
                outcomes[driver.name] = None
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                outcomes[driver.name] = error
        if outcomes[driver.name]:
            pytest.fail(f"{driver.name} cannot be built: {outcomes[driver.name]}", pytrace=False)

    return build_once


@pytest.fixture(scope="session")
def printed():
    """What the programs have printed, by run."""
    return {}


@pytest.fixture
def lines(built, printed, pgweir, postgres, run):
    """The lines that a run has printed; it is made when its first scenario asks for it."""
    driver, variant, limit = run
    built(driver)
    if run not in printed:
        postgres.query(TABLES)
        settings = (SETTINGS_SESSION if limit == SESSION
                    else {**SETTINGS, "max_prepared_statements": limit})
        weir = pgweir(pool_mode="transaction", server_round_robin=1, **settings)
        printed[run] = call(driver, weir.port, variant, *[SESSION][:limit == SESSION])
        # The pool must be at rest: no statement was left behind, no server lost.
        weir.wait_pool(sv_active=0, cl_waiting=0)
    return printed[run]


def call(driver, port, *words, **more):
    """Runs its program. `more`: other variables of libpq."""
    environment = build.environment_of(driver, **{"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "alice",
                                                  "PGDATABASE": "app", "PGSSLMODE": "disable", **more})
    try:
        done = subprocess.run([*driver.run, *words], cwd=driver.place, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=RUN_LIMIT_S)
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace")
        return output.splitlines() + [f"failed everything: not over after {RUN_LIMIT_S} s"]
    return done.stdout.splitlines()


@pytest.mark.limit(build.BUILD_LIMIT_S + RUN_LIMIT_S)
@pytest.mark.parametrize("run, scenario", CASES)
def test_driver(lines, scenario):
    judge(lines, scenario)


def judge(lines, scenario):
    wrong = [line for line in lines if not line.startswith("ok ")]
    ok = collections.Counter(lines)[f"ok {scenario}"]
    assert ok == CONNECTIONS * ROUNDS, os.linesep.join(wrong)
    assert not [line for line in wrong if line.startswith(f"failed {scenario} ")]
