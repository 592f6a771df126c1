# SPDX-License-Identifier: ISC
"""The state of PostgreSQL before each script, and the runs from there.

Scripts use what earlier ones have left. So that each is judged alone, all are run directly, one
after the other, and the data directory before each is kept: a *snapshot*. Files that have not
changed since the snapshot before are hard links to it. A run begins with a copy of its snapshot.
"""

import os
import pathlib
import shutil
import signal
import subprocess

from e2e.kit.account import free_port
from e2e.kit.postgres import Postgres, find_bin

from .sources import REGRESS

DATABASE = "regression"
USER = "postgres"
SCRIPT_LIMIT_S = 300
LATE = "the script is not over after {} s\n"

SETTINGS = {"max_prepared_transactions": "2", "max_wal_size": "64MB", "min_wal_size": "32MB"}

# What pg_regress sets: see psql_start_test() and initialize_environment() there.
ENVIRONMENT = {"LANG": "C", "LC_MESSAGES": "C", "PGTZ": "America/Los_Angeles",
               "PGDATESTYLE": "Postgres, MDY", "PGOPTIONS": "-c intervalstyle=postgres_verbose",
               "PG_LIBDIR": ".", "PG_DLSUFFIX": ".so"}

DATABASE_SETUP = "CREATE DATABASE {0} TEMPLATE = template0;" + "".join(
    "ALTER DATABASE {0} SET %s TO '%s';" % pair for pair in (
        ("lc_messages", "C"), ("lc_monetary", "C"), ("lc_numeric", "C"), ("lc_time", "C"),
        ("bytea_output", "hex"), ("timezone_abbreviations", "Default")))


class Cluster(Postgres):
    """A PostgreSQL whose data directory is a copy of a snapshot."""

    def __init__(self, account, source, folder):  # pylint: disable=super-init-not-called
        self.account = account
        self.bin = find_bin()
        self.dir = str(folder)
        self.host, self.port = "127.0.0.1", free_port()
        self.settings = SETTINGS
        self.process = self._log = self._attendant = None
        shutil.copytree(source, folder, symlinks=True)
        hand_over(account, folder)


def hand_over(account, folder):
    """The folder and all below it belong to the user of the servers."""
    if account.is_other:
        subprocess.run(["chown", "-R", f"{account.uid}:{account.gid}", folder], check=True)
    os.chmod(folder, 0o700)


def keep(source, snapshot, before):
    """A snapshot of a stopped cluster, with links into the one before it."""

    def copy(origin, target):
        old = before and before / os.path.relpath(origin, source)
        mine = os.stat(origin)
        if old and old.exists():
            theirs = old.stat()
            if (mine.st_size, mine.st_mtime_ns) == (theirs.st_size, theirs.st_mtime_ns):
                return os.link(old, target)
        return shutil.copy2(origin, target)

    shutil.rmtree(snapshot, ignore_errors=True)
    shutil.copytree(source, snapshot, symlinks=True, copy_function=copy)


class Stage:
    """Where the scripts are and run: `cache` is kept, `place` is of this run."""

    def __init__(self, account, place, folder):
        self.account = account
        self.place = pathlib.Path(place)
        self.folder = folder
        shutil.copytree(folder / REGRESS / "data", self.place / "data")
        for path in (self.place / "data").iterdir():
            path.chmod(0o644)

    def snapshot(self, name):
        return self.folder / "before" / name

    def direct_output(self, name):
        return self.folder / "direct" / f"{name}.out"

    def cluster(self, name, source):
        return Cluster(self.account, source, self.place / f"pg-{name}")

    def first_snapshot(self, template):
        """Returns a template with the database and the libraries in it."""
        cluster = self.cluster("first", template)
        for library in (self.folder / "lib").iterdir():
            shutil.copy(library, cluster.dir)
        hand_over(self.account, cluster.dir)
        cluster.start()
        for statement in DATABASE_SETUP.format(DATABASE).split(";")[:-1]:
            cluster.query(statement, dbname="postgres")
        cluster.stop()
        return cluster.dir

    def psql(self, name, port):
        """Runs a script with psql, as pg_regress does; returns what it prints."""
        results = self.place / f"out-{name}"
        self.account.mkdir(results)
        self.account.mkdir(results / "results")
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("PG", "LC_")) and name != "LANGUAGE"}
        environment.update(ENVIRONMENT, PGAPPNAME=f"pg_regress/{name}", PGHOST="127.0.0.1",
                           PGPORT=str(port), PGUSER=USER, PG_ABS_SRCDIR=str(self.place),
                           PG_ABS_BUILDDIR=str(results))
        printed = results / "printed"
        with open(self.folder / REGRESS / "sql" / f"{name}.sql", "rb") as script, \
                open(printed, "wb") as output:
            process = subprocess.Popen(
                [f"{find_bin()}/psql", "-X", "-a", "-q", "-d", DATABASE, "-v", "HIDE_TABLEAM=on",
                 "-v", "HIDE_TOAST_COMPRESSION=on"], stdin=script, stdout=output,
                stderr=output, env=environment, cwd=results, **self._identity())
            try:
                process.wait(SCRIPT_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                output.write(LATE.format(SCRIPT_LIMIT_S).encode())
        text = printed.read_bytes()
        shutil.rmtree(results)
        return text.replace(str(results).encode(), b"BUILD").replace(
            str(self.place).encode(), b"SOURCE")

    def _identity(self):
        if not self.account.is_other:
            return {}
        return {"user": self.account.uid, "group": self.account.gid, "extra_groups": []}

    def run_directly(self, names, make_template, say):
        """Runs all scripts of the schedule that have not been run directly, and keeps the states
        before them.
        """
        done = [name for name in names if self.direct_output(name).exists()]
        rest = names[len(done):]
        if not rest:
            return
        (self.folder / "before").mkdir(exist_ok=True)
        (self.folder / "direct").mkdir(exist_ok=True)
        if not done:
            first = self.first_snapshot(make_template(self.account, str(self.place)))
            keep(first, self.snapshot(rest[0]), None)
            shutil.rmtree(first)
        cluster = self.cluster("direct", self.snapshot(rest[0]))
        try:
            for name, following in zip(rest, [*rest[1:], None]):
                say(f"directly: {name}")
                cluster.start()
                output = self.psql(name, cluster.port)
                cluster.stop()
                if following:
                    keep(cluster.dir, self.snapshot(following), self.snapshot(name))
                self.direct_output(name).write_bytes(output)
        finally:
            cluster.stop(signal.SIGQUIT)
            shutil.rmtree(cluster.dir)
