# SPDX-License-Identifier: ISC
"""Whole scripts of psql that use everything a session can keep, directly and through pgweir.

In transaction mode three servers take turns, also by the statements of other clients. The output
must be the same.
"""

import glob
import os
import re
import threading

import pytest

from .kit.daemon import USERS
from .kit.wire import Wire

FOLDER = os.path.join(os.path.dirname(__file__), "scripts")
SCRIPTS = sorted(os.path.basename(path)[:-4] for path in glob.glob(f"{FOLDER}/*.sql"))

# The temporary schema of a backend stays when its tables are gone. Without it names are looked up differently.
PRELUDE = "CREATE TEMP TABLE prelude (); DROP TABLE prelude"

# What is another number elsewhere.
ELSEWHERE = re.compile(r"(?<=with PID )\d+|(?<=pg_temp_)\d+")


def run_script(account, postgres, name, port, database, lane):
    with open(f"{FOLDER}/{name}.sql", encoding="utf-8") as file:
        text = file.read()
    done = account.run([f"{postgres.bin}/psql", "-X", "-a", "-h", "127.0.0.1", "-p", str(port), "-U", "scripter",
                        "-d", database, "-v", f"lane={lane}"], input=text,
                       env={"PGOPTIONS": "", "PGTZ": "UTC", "PGAPPNAME": "script"})
    return [ELSEWHERE.sub("N", line) for line in done.stdout.splitlines()]


@pytest.fixture
def scripter(postgres):
    if not postgres.query("SELECT 1 FROM pg_roles WHERE rolname = 'scripter'"):
        for text in ("CREATE ROLE scripter SUPERUSER LOGIN", "CREATE ROLE script_a", "CREATE ROLE script_b",
                     "GRANT script_a TO script_b"):
            postgres.query(text)


class Others:
    """Clients whose statements make the servers take turns."""

    def __init__(self, address):
        self.address = address
        self.is_over = threading.Event()
        self.problems = []
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(2)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join(30)
        assert not self.problems, self.problems

    def work(self):
        wanted = ['scripter', '"$user", public', "4MB", "", "0"]
        try:
            with Wire(self.address).login("scripter") as wire:
                while not self.is_over.is_set():
                    result = wire.query(
                        "SELECT current_user, current_setting('search_path'), current_setting('work_mem'),"
                        " coalesce(current_setting('app.tenant', true), ''), (SELECT count(*) FROM pg_class"
                        " WHERE relnamespace = pg_my_temp_schema())")
                    assert not result.errors and result.rows == [wanted], result
        except Exception as problem:  # reported to the thread of the test
            self.problems.append(repr(problem))


@pytest.mark.parametrize("mode", ("session", "transaction"))
@pytest.mark.parametrize("name", SCRIPTS)
def test_output_is_that_of_postgresql(account, postgres, pgweir, scripter, name, mode):
    weir = pgweir(pool_mode=mode, default_pool_size=3, server_round_robin=1,
                  databases={"app": f"connect_query='{PRELUDE}'"}, userlist={**USERS, "scripter": "scripter secret"})
    lane = f"script_{name}"
    direct = run_script(account, postgres, name, postgres.port, "app2", lane)
    assert len(direct) > 20, direct
    with Others(weir.address):
        pooled = run_script(account, postgres, name, weir.port, "app", lane)
    assert pooled == direct
