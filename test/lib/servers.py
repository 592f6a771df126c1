# SPDX-License-Identifier: ISC
"""Throw-away servers for tests and benchmarks: PostgreSQL, poolers, a TCP relay.

Everything is in one directory under /tmp, listens on 127.0.0.1 on free ports, runs as an
unprivileged user when started by root, and is removed when the Workplace exits, also after errors.
Every wait has a limit.
"""

import csv
import os
import pathlib
import pwd
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

UNPRIVILEGED_USER = "postgres"
WAIT_LIMIT_S = 60


class ServerError(Exception):
    """A server could not be started, or did not do what was requested."""


def wait_until(is_true, what, limit_s=WAIT_LIMIT_S):
    """Polls until the condition is true; raises ServerError after the limit."""
    end = time.monotonic() + limit_s
    while not is_true():
        if time.monotonic() > end:
            raise ServerError(f"waited {limit_s} s in vain for {what}")
        time.sleep(0.02)


def free_port():
    """A TCP port of 127.0.0.1 that is not in use at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def raise_file_limit():
    """Raises the limit on file descriptors to the maximum; servers started later inherit it.
    Returns it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if os.getuid() == 0 and hard != resource.RLIM_INFINITY:
        most = int(pathlib.Path("/proc/sys/fs/nr_open").read_text())
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(hard, most), max(hard, most)))
            return max(hard, most)
        except (OSError, ValueError):
            pass
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def account():
    """The keyword arguments with which subprocess drops root privileges."""
    if os.getuid() != 0:
        return {}
    entry = pwd.getpwnam(UNPRIVILEGED_USER)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def cpu_ns(pid):
    """CPU time of a process so far, in nanoseconds, for all threads including ended ones.

    The clock ID is the one of clock_getcpuclockid(); /proc/PID/stat only counts ticks.
    """
    return time.clock_gettime_ns((~pid << 3) | 2)


def main_thread_cpu_ns(pid):
    """CPU time so far of the first thread of a process, which runs the event loop."""
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])


def rss_bytes(pid):
    """Resident memory of a process."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise ServerError(f"no Rss of process {pid}")


class Workplace:
    """A directory with servers in it; a context manager that ends and removes everything."""

    def __init__(self, name="pgweir"):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir="/tmp"))
        self.directory.chmod(0o755)
        self._servers = []
        if account():
            os.chown(self.directory, account()["user"], account()["group"])

    def __enter__(self):
        # So that a plain kill ends our servers as well.
        signal.signal(signal.SIGTERM, lambda number, frame: exit(128 + number))
        return self

    def __exit__(self, *failure):
        while self._servers:
            try:
                self._servers.pop().stop()
            except (ServerError, OSError, subprocess.SubprocessError) as error:
                print(f"stopping: {error}")
        shutil.rmtree(self.directory, ignore_errors=True)

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o644)
        return path

    def program(self, name, path):
        """The program of this server, or a copy of it if the servers' user has no access to it."""
        path = pathlib.Path(path).resolve()
        if subprocess.run(["test", "-x", path], cwd="/", check=False, **account()).returncode == 0:
            return path
        copy = pathlib.Path(shutil.copy(path, self.directory / f"{name}.program"))
        copy.chmod(0o755)
        return copy

    def start(self, server):
        """Starts a server and stops it at the end; returns the server."""
        self._servers.append(server)
        server.start()
        return server

    def stop(self, server):
        self._servers.remove(server)
        server.stop()


class Process:
    """A server in the foreground: CPU time is read from its process."""

    def __init__(self, workplace, name, command, port, environment=None):
        self.name = name
        self.port = port
        self.command = [str(word) for word in command]
        # An illegal instruction is what UBSan has found: configure.ac.
        self.environment = {"ASAN_OPTIONS": "handle_sigill=1", **os.environ, "LC_ALL": "C", **(environment or {})}
        self.output = workplace.directory / f"{name}.out"
        self.directory = workplace.directory
        self.process = None

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        with open(self.output, "ab") as output:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                cwd=self.directory, env=self.environment, start_new_session=True, **account())
        wait_until(self._is_up, f"{self.name} to listen on port {self.port}")

    def _is_up(self):
        if not self.is_alive():
            words = self.output.read_text(errors="replace")[-2000:]
            raise ServerError(f"{self.name} ended, status {self.process.returncode}: {words}")
        return accepts(self.port)

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        """Sends SIGQUIT, which ends each server at once; SIGKILL if the server does not end."""
        if not self.is_alive():
            return
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            raise ServerError(f"{self.name} had to be killed") from None

    stop_signal = signal.SIGQUIT


class Postgres(Process):
    """A PostgreSQL without durability, as fast as possible, that trusts all users.

    Roles created by `add_role` with a password must authenticate (with SCRAM by default).
    """

    SETTINGS = {
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "autovacuum": "off",
        "shared_buffers": "256MB",
        "max_wal_size": "4GB",
        "checkpoint_timeout": "1h",
        "listen_addresses": "'127.0.0.1'",
        "log_min_messages": "fatal",
        "logging_collector": "off",
    }
    stop_signal = signal.SIGINT

    def __init__(self, workplace, max_connections=200, name="postgresql", settings=None,
                 environment=None):
        self.data = workplace.directory / name
        self.max_connections = max_connections
        self.settings = settings or {}
        self.bin = self._bin_directory()
        super().__init__(workplace, name, [self.bin / "postgres", "-D", self.data], free_port(),
                         environment)

    @staticmethod
    def _bin_directory():
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"),
                       key=lambda path: int(path.parts[-3]))
        if found:
            return found[-1].parent
        if shutil.which("postgres"):
            return pathlib.Path(shutil.which("postgres")).parent
        raise ServerError("no PostgreSQL server is installed")

    def start(self):
        subprocess.run(
            [self.bin / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-N",
             "--locale=C.UTF-8", "-E", "UTF8"],
            check=True, stdout=subprocess.DEVNULL, timeout=120, cwd=self.directory, **account())
        settings = {**self.SETTINGS, "port": self.port, "max_connections": self.max_connections,
                    "unix_socket_directories": f"'{self.directory}'", **self.settings}
        with open(self.data / "postgresql.conf", "a", encoding="utf-8") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        super().start()
        wait_until(self._answers, "PostgreSQL to answer")

    def _answers(self):
        try:
            return self.sql("SELECT 1") == "1"
        except ServerError:
            return False

    def sql(self, text, database="postgres"):
        """Runs SQL as superuser; returns the output of psql -At."""
        done = subprocess.run(
            ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", self.conninfo(database), "-c", text],
            capture_output=True, text=True, timeout=600, cwd="/")
        if done.returncode != 0:
            raise ServerError(done.stderr.strip())
        return done.stdout.strip()

    def conninfo(self, database="postgres", user="postgres"):
        return f"host=127.0.0.1 port={self.port} dbname={database} user={user}"

    def add_role(self, name, password=None, method="scram-sha-256"):
        self.sql(f"SET password_encryption = '{method}';"
                 f" CREATE ROLE {name} LOGIN SUPERUSER"
                 + (f" PASSWORD '{password}'" if password else ""))
        if password:
            hba = self.data / "pg_hba.conf"
            hba.write_text(f"host all {name} 127.0.0.1/32 {method}\n" + hba.read_text())
            self.sql("SELECT pg_reload_conf()")
            wait_until(lambda: self.sql("SELECT count(*) FROM pg_hba_file_rules"
                                        f" WHERE '{name}' = ANY (user_name)") == "1",
                       "the new pg_hba.conf")

    def sessions(self, database):
        """Number of connections of the database."""
        return int(self.sql("SELECT count(*) FROM pg_stat_activity"
                            f" WHERE datname = '{database}'", database="template1"))


class Pooler(Process):
    """A pooler that reads a pgbouncer.ini: pgweir or PgBouncer.

    databases: lines of [databases]; users: name -> plain password; settings: of [pgbouncer], in
    addition to those of every pooler of a run.
    """

    SETTINGS = {
        "listen_addr": "127.0.0.1",
        "unix_socket_dir": "",
        "auth_type": "trust",
        "pool_mode": "transaction",
        "default_pool_size": 20,
        "max_client_conn": 10000,
        "listen_backlog": 1024,
        "log_connections": 0,
        "log_disconnections": 0,
        "log_pooler_errors": 1,
        "log_stats": 0,
    }

    @staticmethod
    def _of_variant(binary):
        """Each pgweir of `test/run loops` has several event loops, and all pools in all of them."""
        count = os.environ.get("PGWEIR_TEST_LOOPS")
        is_ours = count and pathlib.Path(binary).name == "pgweir"
        return {"loops": count, "servers_per_loop": 0} if is_ours else {}

    def __init__(self, workplace, name, binary, databases, users, settings=None):
        port = free_port()
        users_file = workplace.write(f"{name}.users", "".join(
            f'"{user}" "{secret}"\n' for user, secret in users.items()))
        values = {**self.SETTINGS, "listen_port": port, "auth_file": users_file,
                  "logfile": workplace.directory / f"{name}.log",
                  "admin_users": next(iter(users)), **self._of_variant(binary),
                  **(settings or {})}
        ini = "[databases]\n" + "".join(f"{line}\n" for line in databases) + "\n[pgbouncer]\n"
        ini += "".join(f"{key} = {value}\n" for key, value in values.items())
        self.log = values["logfile"]
        self.user = next(iter(users))
        super().__init__(workplace, name, [workplace.program(name, binary), "-q",
                                           workplace.write(f"{name}.ini", ini)], port)

    def conninfo(self, database, user=None):
        return f"host=127.0.0.1 port={self.port} dbname={database} user={user or self.user}"

    def console(self, command):
        """Rows of a console command, as lists of texts."""
        done = subprocess.run(
            ["psql", "-XAtq", "-F", "\t", "-d", self.conninfo("pgbouncer"), "-c", command],
            capture_output=True, text=True, timeout=60, cwd="/")
        if done.returncode != 0:
            raise ServerError(done.stderr.strip())
        return [line.split("\t") for line in done.stdout.splitlines()]

    def console_dicts(self, command):
        """Rows of a console command: column -> text."""
        done = subprocess.run(
            ["psql", "-Xq", "--csv", "-d", self.conninfo("pgbouncer"), "-c", command],
            capture_output=True, text=True, timeout=60, cwd="/")
        if done.returncode != 0:
            raise ServerError(done.stderr.strip())
        return list(csv.DictReader(done.stdout.splitlines()))


class BareRelay(Process):
    """A benchmark program in front of one port: test/bench/relay.c, or test/bench/bare_pool.c,
    whose additional arguments are the user and the database for its login.
    """

    stop_signal = signal.SIGTERM

    def __init__(self, workplace, binary, target_port, name="relay", words=()):
        port = free_port()
        command = [workplace.program(name, binary), port, target_port, *words]
        super().__init__(workplace, name, command, port)

    def conninfo(self, database, user):
        return f"host=127.0.0.1 port={self.port} dbname={database} user={user}"


class Relay(Process):
    """HAProxy with one thread, as a TCP relay to one port."""

    stop_signal = signal.SIGTERM

    def __init__(self, workplace, binary, target_port, name="haproxy"):
        port = free_port()
        config = workplace.write(f"{name}.cfg", f"""\
global
    nbthread 1
    maxconn 1000
defaults
    mode tcp
    timeout connect 10s
    timeout client 1h
    timeout server 1h
listen relay
    bind 127.0.0.1:{port}
    server postgresql 127.0.0.1:{target_port}
""")
        super().__init__(workplace, name, [binary, "-db", "-q", "-f", config], port)

    def conninfo(self, database, user):
        return f"host=127.0.0.1 port={self.port} dbname={database} user={user}"
