# SPDX-License-Identifier: ISC
"""The pooler under test: its files, its process, its console.

Each daemon has its own directory. It runs in the foreground as the unprivileged user, with stderr
in a file. At the end of a test it must stop on SIGINT with exit status 0 and without a sanitizer
report; otherwise the test fails.
"""

import contextlib
import glob
import os
import re
import resource
import shutil
import signal
import subprocess

import psycopg

from .account import free_port
from .wait import LIMIT, wait_exit, wait_until
from .wire import Refused, Wire

LOOPS = int(os.environ.get("PGWEIR_TEST_LOOPS", "1"))  # event loops of a daemon, unless it says
USERS = {name: "" for name in ("alice", "bob", "carol", "limited", "streamer")}
USERS.update(plain_user="plain secret", md5_user="md5 secret", scram_user="scram secret",
             scram_other="another secret", admin="admin secret", stats="stats secret")
# auth_type = trust requests no password, but an entry with an empty secret counts as no secret.
for _name, _secret in USERS.items():
    USERS[_name] = _secret or f"{_name} secret"

SANITIZERS = {
    # An illegal instruction is what UBSan has found: configure.ac.
    "ASAN_OPTIONS": "abort_on_error=0:detect_leaks=1:detect_stack_use_after_return=1:handle_sigill=1:log_path=",
    # Those of `test/run tsan`, which name the suppressions.
    "TSAN_OPTIONS": f"{os.environ.get('TSAN_OPTIONS', '')} log_path=",
}


def find_binary():
    path = os.environ.get("PGWEIR_BIN")
    if not path:
        top = os.path.join(os.path.dirname(__file__), "..", "..", "..")
        path = os.path.normpath(os.path.join(top, "out", "test", "pgweir"))
    if not os.path.exists(path):
        raise FileNotFoundError(f"no {path}: build it with test/run, or name another in PGWEIR_BIN")
    return os.path.abspath(path)


def place_binary(account, place):
    """Makes a copy that the unprivileged user can run, wherever the checkout is."""
    return account.own(shutil.copy(find_binary(), os.path.join(place, "pgweir")), 0o755)


def with_loops(text, count):
    """The configuration with `loops`, unless it sets that itself, or has no settings at all, which is
    then what a test is about. At its end: lines keep their number. Small pools are in all loops,
    too.
    """
    if (not count or not re.search(r"^\[pgbouncer\]", text, re.MULTILINE)
            or re.search(r"^\s*loops\s*=", text, re.MULTILINE)):
        return text
    more = f"[pgbouncer]\nloops = {count}\n"
    if not re.search(r"^\s*servers_per_loop\s*=", text, re.MULTILINE):
        more += "servers_per_loop = 0\n"
    return text + ("" if text.endswith("\n") else "\n") + more


def quote_userlist(users):
    return "".join('"%s" "%s"\n' % (name.replace('"', '""'), secret.replace('"', '""'))
                   for name, secret in users.items())


class Pgweir:
    def __init__(self, account, binary, folder, postgres=None, has_one_loop=False):
        self.account = account
        self.loops = None if has_one_loop else os.environ.get("PGWEIR_TEST_LOOPS")
        self.binary = binary
        self.dir = account.mkdir(folder)
        self.postgres = postgres
        self.port = free_port()
        self.ini = f"{self.dir}/pgweir.ini"
        self.userlist = f"{self.dir}/userlist.txt"
        self.sections = {}
        self.settings = {}
        self.users = dict(USERS)
        self.process = None
        self.retired = []  # processes that another process has taken over from
        self.log_path = f"{self.dir}/stderr.log"
        self.connections = []
        self.complaint = None
        self.console_address = None  # TLS settings of admin(), if plain TCP is refused
        self._console = None
        self._log = None

    # -- files --------------------------------------------------------------------------------

    def configure(self, databases=None, users=None, userlist=None, ini=None, **settings):
        """Writes the files. Settings given as None are left out; `ini` replaces the whole text.

        With several loops, small pools are in all of them: most tests have such pools.
        """
        base = dict(listen_addr="127.0.0.1", listen_port=self.port, unix_socket_dir=self.dir,
                    auth_type="trust", auth_file=self.userlist, admin_users="admin",
                    stats_users="stats", max_client_conn=500)
        if not self.settings:
            self.settings = base
        self.settings.update(settings)
        if str(self.settings.get("loops") or 1) != "1":
            self.settings.setdefault("servers_per_loop", 0)
        if databases is not None or "databases" not in self.sections:
            self.sections["databases"] = self._databases(databases)
        if users is not None:
            self.sections["users"] = users
        if userlist is not None:
            self.users = dict(userlist)
        self.account.write(self.userlist, quote_userlist(self.users), 0o600)
        self.account.write(self.ini, with_loops(ini if ini is not None else self.text(), self.loops))
        return self

    def _databases(self, given):
        """Each value is a connection string; missing keys refer to the shared PostgreSQL."""
        given = given if given is not None else {"app": "", "app2": "", "app3": ""}
        entries = {}
        for name, entry in given.items():
            if self.postgres and "host=" not in entry:
                entry = f"host={self.postgres.host} port={self.postgres.port} {entry}"
            entries[name] = entry.strip()
        return entries

    def text(self):
        lines = []
        for section, entries in (*self.sections.items(), ("pgbouncer", self.settings)):
            lines.append(f"[{section}]")
            lines += [f"{key} = {value}" for key, value in entries.items() if value is not None]
        return "\n".join(lines) + "\n"

    def reload(self, **changes):
        """Changes the files and runs RELOAD; an error response raises Refused."""
        self.configure(**changes)
        self.admin("RELOAD")

    # -- process ------------------------------------------------------------------------------

    def start(self, *args, open_files=None, env=None, wait=True, as_root=False):
        before = self.log
        self._log = open(self.log_path, "ab")
        settings = {name: f"{value}{self.dir}/sanitizer" for name, value in SANITIZERS.items()}
        settings.update(env or {})
        more = {}
        if open_files:
            more["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, open_files)
        command = [self.binary, *args, self.ini]
        popen = subprocess.Popen if as_root else self.account.popen
        if as_root:
            settings = dict(os.environ, **settings)
        self.process = popen(command, stdout=self._log, stderr=self._log, cwd=self.dir,
                             env=settings, **more)
        if wait:
            wait_until(lambda: self._is_up(len(before)), what="the line 'process up'")
        return self

    def _is_up(self, since):
        if self.process.poll() is not None:
            raise RuntimeError(f"the daemon ended with {self.process.returncode}:\n{self.log}")
        return "process up" in self.log[since:]

    def take_over(self, *args, env=None, binary=None, wait=True):
        """Starts a second process that takes over; the first one is then in `retired`."""
        since = len(self.log)
        old, own = self.process, self.binary
        self.binary = binary or own
        self.start("-R", *args, env=env, wait=False)
        self.binary = own
        self.retired.append(old)
        if wait:
            wait_until(lambda: self._is_up(since), what="the line 'process up'")
        return old

    def run(self, *args, timeout=LIMIT, binary=None, as_root=False, env=None):
        """Runs the program to its end, for short runs: --version, an invalid file."""
        settings = {name: f"{value}{self.dir}/sanitizer" for name, value in SANITIZERS.items()}
        settings.update(env or {})
        command = [binary or self.binary, *args]
        if as_root:
            return subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                                  cwd=self.dir, env=dict(os.environ, **settings))
        return self.account.run(command, timeout=timeout, env=settings, cwd=self.dir,
                                stderr=subprocess.PIPE)

    def signal(self, number):
        self.process.send_signal(number)

    @contextlib.contextmanager
    def one_turn(self):
        """Stops the daemon, so that it reads all data sent within this context in one turn."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def wait_exit(self, limit=LIMIT):
        """Returns the exit status of a daemon that the test has made end."""
        try:
            return wait_exit(self.process, limit)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the daemon still runs after {limit} s") from None

    def stop(self):
        """Ends the daemon as an administrator would, and checks how it ended."""
        problems = [self.complaint] if self.complaint else []
        self.disconnect()
        if self.process:
            problems += self._stop_process()
        problems += [problem for process in self.retired for problem in self._judge(process)]
        if self._log:
            self._log.close()
            self._log = None
        problems += self.sanitizer_reports()
        assert not problems, "\n".join(problems)

    def _judge(self, process):
        """A process that handed over ends by itself."""
        try:
            status = wait_exit(process, LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return [f"process {process.pid}, which was taken over from, did not end: it "
                    f"{self._why_it_stays(process.pid)}"]
        return [f"it ended with {status}, and was taken over from"] if status else []

    def _why_it_stays(self, pid):
        """A process may wait for its last clients, until takeover_timeout has disconnected them."""
        own = "\n".join(line for line in self.log.splitlines() if f"[{pid}]" in line)
        if "this process continues" in own:
            return "accepts clients again, beside the newest process"
        if "takeover_timeout: closing the last" in own:
            return "hangs: takeover_timeout has disconnected its last clients"
        if "accepting no new clients" in own:
            return "waits for its last clients, as documented, and takeover_timeout is longer"
        return "has handed over nothing"

    def _stop_process(self):
        problems = []
        had_ended = self.process.poll() is not None
        if not had_ended:
            self.process.send_signal(signal.SIGINT)
            try:
                wait_exit(self.process, LIMIT)
            except subprocess.TimeoutExpired:
                problems.append(f"the daemon did not stop within {LIMIT} s after SIGINT")
                self.process.send_signal(signal.SIGQUIT)
                try:
                    wait_exit(self.process, LIMIT)
                except subprocess.TimeoutExpired:
                    problems.append("nor after SIGQUIT")
                    self.process.kill()
                    self.process.wait()
        if self.process.returncode != 0 and not getattr(self, "may_fail", False):
            problems.append(f"the daemon's exit status is {self.process.returncode}")
        self.process = None
        return problems

    def is_well(self):
        return self.process.poll() is None and not self.sanitizer_reports()

    def sanitizer_reports(self):
        reports = []
        for path in glob.glob(f"{self.dir}/sanitizer.*"):
            with open(path, encoding="utf-8", errors="replace") as file:
                reports.append(file.read())
        if "runtime error:" in self.log or "ERROR: AddressSanitizer" in self.log:
            reports.append("a sanitizer's report stands in the log")
        return reports

    # -- observing ----------------------------------------------------------------------------

    @property
    def log(self):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def wait_log(self, pattern, limit=None, since=0):
        """Waits for a log line; returns the match. `since`: ignore this many bytes of the log."""
        return wait_until(lambda: re.search(pattern, self.log[since:], re.MULTILINE), limit,
                          f"the log line {pattern!r}")

    @property
    def warnings(self):
        """The log lines of that level, but for the one about the processors of this machine."""
        return [line for line in self.log.splitlines()
                if " WARNING " in line and "but this process may use" not in line]

    @property
    def pid(self):
        return self.process.pid

    def rss(self):
        """Resident memory in bytes."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def cpu(self):
        """Seconds of processor time used so far."""
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def uses_io_uring(self):
        folder = f"/proc/{self.pid}/fd"
        return any("io_uring" in os.readlink(f"{folder}/{name}") for name in os.listdir(folder))

    # -- clients ------------------------------------------------------------------------------

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    @property
    def socket_path(self):
        return f"{self.dir}/.s.PGSQL.{self.port}"

    def connect(self, dbname="app", user="alice", **kw):
        """A psycopg connection, by default with autocommit and without named statements."""
        kw.setdefault("host", "127.0.0.1")
        kw.setdefault("port", self.port)
        kw.setdefault("autocommit", True)
        kw.setdefault("prepare_threshold", None)
        kw.setdefault("connect_timeout", int(LIMIT))
        connection = psycopg.connect(dbname=dbname, user=user, **kw)
        self.connections.append(connection)
        return connection

    def wire(self, unix=False):
        """A scripted client that has not sent anything yet."""
        wire = Wire(self.socket_path if unix else self.address)
        self.connections.append(wire)
        return wire

    def client(self, user="alice", database="app", **kw):
        """A scripted client that is logged in."""
        return self.wire().login(user, database, **kw)

    def disconnect(self):
        if self._console:
            self.connections.append(self._console)
            self._console = None
        for connection in self.connections:
            connection.close()
        self.connections = []

    def disconnect_console(self):
        """Closes the console of ask_admin(): it would not be handed over."""
        if self._console:
            self._console.close()
            self._console = None

    def console(self, user="admin"):
        """A scripted client connected to the console."""
        return self.wire().login(user, "pgbouncer", USERS.get(user))

    def ask_admin(self, sql):
        """The complete response of the console, including errors."""
        if self._console is None:
            self._console = Wire(self.console_address or self.address).login("admin", "pgbouncer", USERS["admin"])
        return self._console.query(sql)

    def admin(self, sql):
        """The rows of a console command, as dicts; numbers are ints. An error raises Refused."""
        result = self.ask_admin(sql)
        if result.errors:
            raise Refused(result.error)
        numbers = {column.name for column in result.columns if column.type in (20, 23, 1700)}
        return [{name: int(value) if name in numbers and value is not None else value
                 for name, value in row.items()} for row in result.dicts()]

    def totals(self, database):
        """What SHOW STATS has counted for this database since the start."""
        rows = {row["database"]: row for row in self.admin("SHOW STATS")}
        return {name: value for name, value in rows[database].items() if name.startswith("total_")}

    def all_loops_turn(self):
        """Returns when each loop has opened the letters that were posted to it before: after a hold,
        a loop makes a turn before it can be held again.
        """
        for _ in range(2):
            self.admin("SHOW LOOPS")

    def pool(self, database="app", user="alice"):
        """The row of SHOW POOLS, or zeros where the pool does not exist (yet)."""
        for row in self.admin("SHOW POOLS"):
            if (row["database"], row["user"]) == (database, user):
                return row
        return NO_POOL

    def wait_pool(self, database="app", user="alice", limit=None, **wanted):
        """Waits until the pool's row has these values."""
        last = {}

        def matches():
            last.clear()
            last.update(self.pool(database, user))
            return all(last.get(name, 0) == value for name, value in wanted.items())

        try:
            wait_until(matches, limit)
        except TimeoutError:
            raise TimeoutError(f"the pool never had {wanted}; last seen: {last}") from None
        return last


class _Zeros(dict):
    def __missing__(self, key):
        return 0


NO_POOL = _Zeros()


