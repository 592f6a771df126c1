# SPDX-License-Identifier: ISC
"""A real PostgreSQL.

A template data directory with all roles and databases is created once per session. A cluster is a
copy of it with its own port, so that a private cluster costs a fraction of a second.
"""

import os
import signal
import subprocess

import psycopg

from . import share
from .account import free_port
from .wait import LIMIT, wait_exit, wait_until

# Roles, their passwords, and how the secret is stored. Roles without a password are trusted.
ROLES = {
    "alice": None,
    "bob": None,
    "carol": None,
    "limited": None,
    "streamer": None,
    "plain_user": "plain secret",
    "md5_user": "md5 secret",
    "scram_user": "scram secret",
    "scram_other": "another secret",
}

DATABASES = ("app", "app2", "app3")

SETUP = """
CREATE ROLE alice LOGIN
CREATE ROLE bob LOGIN
CREATE ROLE carol LOGIN
CREATE ROLE limited LOGIN CONNECTION LIMIT 1
CREATE ROLE streamer LOGIN REPLICATION
SET password_encryption = 'scram-sha-256'
CREATE ROLE plain_user LOGIN PASSWORD 'plain secret'
CREATE ROLE scram_user LOGIN PASSWORD 'scram secret'
CREATE ROLE scram_other LOGIN PASSWORD 'another secret'
SET password_encryption = 'md5'
CREATE ROLE md5_user LOGIN PASSWORD 'md5 secret'
GRANT pg_signal_backend TO alice
GRANT pg_monitor TO alice
"""

HBA = """
local  all  plain_user               password
host   all  plain_user   0.0.0.0/0   password
local  all  md5_user                 md5
host   all  md5_user     0.0.0.0/0   md5
local  all  scram_user,scram_other             scram-sha-256
host   all  scram_user,scram_other  0.0.0.0/0  scram-sha-256
local  all  all                      trust
host   all  all          0.0.0.0/0   trust
host   all  all          ::/0        trust
host   replication  all  0.0.0.0/0   trust
"""

SETTINGS = """
listen_addresses = '127.0.0.1'
max_connections = 300
shared_buffers = 32MB
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
max_wal_size = 1GB
wal_level = logical
logging_collector = off
log_line_prefix = '%m [%p] %q%u@%d '
"""


def find_bin():
    folder = os.environ.get("PGBIN")
    if folder and not os.path.exists(os.path.join(folder, "initdb")):
        raise RuntimeError(f"there is no initdb in {folder}, which PGBIN names")
    if not folder:
        told = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True)
        folder = told.stdout.strip()
    if not os.path.exists(os.path.join(folder, "initdb")):
        root = "/usr/lib/postgresql"
        versions = sorted(os.listdir(root), key=float) if os.path.isdir(root) else []
        if not versions:
            raise RuntimeError("PostgreSQL was not found; name its bin folder in PGBIN")
        folder = os.path.join(root, versions[-1], "bin")
    return folder


def make_template(account, place):
    """Creates a data directory with roles and databases. It is never started, only copied. All that
    `test/run` starts shares one, since to make it takes seconds of processor time.
    """
    shared = os.environ.get("PGWEIR_TEST_TEMPLATES")
    if not shared:
        return _make_template(account, place)
    name = find_bin().strip("/").replace("/", "-")  # each version has its own
    return share.once(os.path.join(shared, name),
                      lambda folder: _make_template(account, account.mkdir(folder)))


def _make_template(account, place):
    bin_folder, data = find_bin(), os.path.join(place, "template")
    made = account.run([f"{bin_folder}/initdb", "-D", data, "-U", "postgres", "-A", "trust",
                        "-E", "UTF8", "--locale=C", "-N", "--wal-segsize=4"], cwd="/")
    if made.returncode != 0:
        raise RuntimeError(f"initdb failed:\n{made.stdout}")
    account.write(os.path.join(data, "pg_hba.conf"), HBA, 0o600)
    with open(os.path.join(data, "postgresql.conf"), "a", encoding="utf-8") as conf:
        conf.write(SETTINGS)
    wishes = SETUP + "".join(f"CREATE DATABASE {name}\n" for name in DATABASES)
    _single_user(account, bin_folder, data, "postgres", wishes)
    for name in DATABASES:
        # In PostgreSQL 15, only the owner may create objects in "public".
        _single_user(account, bin_folder, data, name, "GRANT ALL ON SCHEMA public TO PUBLIC\n")
    return data


def _single_user(account, bin_folder, data, database, statements):
    made = account.run([f"{bin_folder}/postgres", "--single", "-F", "-D", data, database],
                       input=statements, cwd="/")
    if made.returncode != 0 or "ERROR:" in made.stdout:
        raise RuntimeError(f"setting up PostgreSQL failed:\n{made.stdout}")


class Postgres:
    def __init__(self, account, place, template, name, **settings):
        self.account = account
        self.bin = find_bin()
        self.dir = os.path.join(place, name)
        self.host = "127.0.0.1"
        self.port = free_port()
        self.settings = settings
        self.process = None
        self._log = None
        self._attendant = None  # by which end_backends() goes, again and again
        copied = account.run(["cp", "-a", "--reflink=auto", template, self.dir])
        if copied.returncode != 0:
            raise RuntimeError(copied.stdout)

    @property
    def socket_dir(self):
        return self.dir

    @property
    def log_path(self):
        return f"{self.dir}/log"

    @property
    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def start(self):
        args = [f"{self.bin}/postgres", "-D", self.dir, "-k", self.socket_dir, "-p", str(self.port)]
        for key, value in self.settings.items():
            args += ["-c", f"{key}={value}"]
        self._log = open(self.log_path, "ab")
        self.process = self.account.popen(args, stdout=self._log, stderr=self._log, cwd="/")
        wait_until(self._answers, limit=60, what="PostgreSQL's first answer")
        return self

    def _answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended:\n{self.log}")
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, how=signal.SIGINT):
        """SIGTERM: smart; SIGINT: fast; SIGQUIT: immediate, as after a crash."""
        if self._attendant:
            self._attendant.close()
            self._attendant = None
        if self.is_running():
            self.process.send_signal(how)
            try:
                wait_exit(self.process, 60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        self.process = None
        if self._log:
            self._log.close()
            self._log = None

    def restart(self, how=signal.SIGINT):
        self.stop(how)
        return self.start()

    def connect(self, dbname="app", user="postgres", **kw):
        """A direct connection, not through the pooler."""
        kw.setdefault("autocommit", True)
        return psycopg.connect(host=self.host, port=self.port, dbname=dbname, user=user,
                               connect_timeout=int(LIMIT), **kw)

    def query(self, sql, *args, dbname="app"):
        """The rows of one statement, run directly as superuser."""
        with self.connect(dbname) as connection:
            cursor = connection.execute(sql, args or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, sql, *args, dbname="app"):
        return self.query(sql, *args, dbname=dbname)[0][0]

    def secret(self, role):
        """The hash that PostgreSQL stores for a role, as it is copied into a user list."""
        return self.value("SELECT rolpassword FROM pg_authid WHERE rolname = %s", role)

    def backends(self, user=None, dbname=None):
        """The process IDs of all client connections except this one."""
        rows = self.query(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
            " AND pid <> pg_backend_pid() AND (%s::text IS NULL OR usename = %s)"
            " AND (%s::text IS NULL OR datname = %s)", user, user, dbname, dbname)
        return [row[0] for row in rows]

    def end_backends(self):
        """Ends remaining backends of a test, so that the next test counts only its own."""
        try:
            self._attend()
        except psycopg.OperationalError:  # a test may have ended that one, too
            self._attendant = None
            self._attend()

    def _attend(self):
        if not self._attendant:
            self._attendant = self.connect("postgres")
        self._attendant.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE backend_type IN ('client backend', 'walsender') AND pid <> pg_backend_pid()")
