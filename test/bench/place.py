# SPDX-License-Identifier: ISC
"""The servers of a benchmark: one PostgreSQL, and the poolers and relays in front of it, started on
demand.

A target is what clients connect to: PostgreSQL itself, a relay, or a pooler. Both poolers get the
same configuration, in one of several flavours (below), one process per flavour; there is one
process per relay.
"""

import dataclasses
import os
import re
import subprocess
import time

import report
import servers

DATABASE = "bench"
TRUSTED_USER = "bench"
SCRAM_USER = "bench_scram"
MD5_USER = "bench_md5"
SECRET = "pencil"
RESTING_POOLS = 1500
MAX_SERVERS = 800
SAMPLING = 0.25  # of the transactions whose latency pgbench logs
BUSY_POLL_US = 100

TARGETS = list(report.TARGETS)
POOLERS = ["pgbouncer", "pgweir"]


@dataclasses.dataclass(frozen=True)
class Flavour:
    """Settings of both poolers; `own`: settings of pgweir only, unknown to PgBouncer.

    The user file has PostgreSQL's hash for SCRAM_USER; or, with plain passwords, its password,
    which costs thousands of iterations per login in a pooler without a cache.
    """

    settings: dict = dataclasses.field(default_factory=dict)
    own: dict = dataclasses.field(default_factory=dict)
    has_client_tls: bool = False
    has_server_tls: bool = False
    has_plain_passwords: bool = False
    resting_pools: int = 0
    is_for_logins: bool = False  # the relay authenticates clients itself


SCRAM = {"auth_type": "scram-sha-256"}
SESSION = {"pool_mode": "session", "default_pool_size": 100}
RESTING = {"server_idle_timeout": 1}

FLAVOURS = {
    "trust": Flavour(),
    "trust_connect": Flavour(is_for_logins=True),
    "trust_logged": Flavour({"log_connections": 1, "log_disconnections": 1}),
    "scram": Flavour(SCRAM),
    "scram_plain": Flavour(SCRAM, has_plain_passwords=True),
    "md5": Flavour({"auth_type": "md5"}),
    "idle": Flavour(),
    "session": Flavour(SESSION),
    "session_tls": Flavour(SESSION, has_client_tls=True, has_server_tls=True),
    "session_4": Flavour(SESSION | {"default_pool_size": 4}),
    "session_8": Flavour(SESSION | {"default_pool_size": 8}),
    "pool_100": Flavour({"default_pool_size": 100}),
    "pools_base": Flavour(RESTING),
    "pools_rest": Flavour(RESTING, resting_pools=RESTING_POOLS),
    "tls": Flavour(has_client_tls=True),
    "tls_server": Flavour(has_server_tls=True),
    "tls_both": Flavour(has_client_tls=True, has_server_tls=True),
    "tls_scram": Flavour(SCRAM, has_client_tls=True),
    "tls_scram_beside": Flavour(SCRAM, has_client_tls=True),
    "tls_idle": Flavour(has_client_tls=True),
    "late": Flavour(own={"late_begin": 1}),
    "poll": Flavour(own={"busy_poll": BUSY_POLL_US}),
    "late_poll": Flavour(own={"late_begin": 1, "busy_poll": BUSY_POLL_US}),
}


def make_certificate(workplace):
    """One P-256 key for all servers: (key, certificate)."""
    key, certificate = (workplace.directory / f"tls.{end}" for end in ("key", "crt"))
    subprocess.run(["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", key, "-out", certificate],
                   check=True, capture_output=True, timeout=60)
    certificate.chmod(0o644)
    key.chmod(0o600)
    if servers.account():
        os.chown(key, servers.account()["user"], servers.account()["group"])
    return key, certificate


def knows_setting(workplace, program, setting):
    """Whether this pgweir program knows a setting."""
    path = workplace.write("check.ini", f"[pgbouncer]\n{setting} = 1\n")
    done = subprocess.run([workplace.program("pgweir-check", program), "--check", path], timeout=60,
                          capture_output=True, text=True, **servers.account())
    return f'unknown setting "{setting}"' not in done.stdout + done.stderr


class Place:
    """The servers of a run. `programs`: target name -> path."""

    def __init__(self, workplace, programs, rows):
        self.workplace = workplace
        self.programs = programs
        self.scale = max(1, rows // 100000)  # pgbench's: 100000 rows each
        self.rows = self.scale * 100000
        self.started = {}
        self.unknown = {}
        self.key, self.certificate = make_certificate(workplace)
        self.postgres = workplace.start(servers.Postgres(
            workplace, max_connections=MAX_SERVERS, settings={
                "ssl": "on", "ssl_key_file": f"'{self.key}'",
                "ssl_cert_file": f"'{self.certificate}'"}))
        self._fill()

    def _fill(self):
        self.postgres.add_role(TRUSTED_USER)
        self.postgres.add_role(SCRAM_USER, SECRET)
        self.postgres.add_role(MD5_USER, SECRET, "md5")
        self.postgres.sql(f"CREATE DATABASE {DATABASE} OWNER {TRUSTED_USER}")
        subprocess.run(["pgbench", "-i", "-q", "-I", "dtGvp", "--unlogged-tables",
                        "-s", str(self.scale),
                        self.postgres.conninfo(DATABASE, TRUSTED_USER)],
                       check=True, timeout=600, cwd="/",
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.sql("CREATE UNLOGGED TABLE copy_target (LIKE pgbench_accounts)")

    def sql(self, text):
        """Runs directly on PostgreSQL, not through a pooler."""
        return self.postgres.sql(text, DATABASE)

    def lacks(self, flavour):
        """The settings of this flavour that this pgweir program does not support."""
        return [setting for setting in FLAVOURS[flavour].own if not self._knows(setting)]

    def _knows(self, setting):
        if setting not in self.unknown:
            self.unknown[setting] = not knows_setting(
                self.workplace, self.programs["pgweir"], setting)
        return not self.unknown[setting]

    def target(self, name, flavour="trust"):
        """The server process of a target."""
        if name == "postgresql":
            return self.postgres
        if name == "relay" and FLAVOURS[flavour].is_for_logins:
            name = "bare_pool"
        key = (name, flavour if name in POOLERS else "")
        if key not in self.started:
            self.started[key] = self.start(name, flavour)
        return self.started[key]

    def start(self, name, flavour):
        relays = {"haproxy": servers.Relay, "relay": servers.BareRelay}
        if name == "bare_pool":
            return self.workplace.start(servers.BareRelay(
                self.workplace, self.programs[name], self.postgres.port, name,
                (TRUSTED_USER, DATABASE)))
        if name in relays:
            return self.workplace.start(
                relays[name](self.workplace, self.programs[name], self.postgres.port))
        server = f"host=127.0.0.1 port={self.postgres.port}"
        lines = [f"{DATABASE} = {server}"]
        lines += [f"rest{i} = {server} dbname={DATABASE}"
                  for i in range(FLAVOURS[flavour].resting_pools)]
        return self.workplace.start(servers.Pooler(
            self.workplace, f"{name}-{flavour}", self.programs[name], lines,
            self._users(FLAVOURS[flavour]), self._settings(name, FLAVOURS[flavour])))

    def _users(self, flavour):
        proof = SECRET if flavour.has_plain_passwords else self.postgres.sql(
            f"SELECT rolpassword FROM pg_authid WHERE rolname = '{SCRAM_USER}'")
        return {TRUSTED_USER: SECRET, MD5_USER: SECRET, SCRAM_USER: proof}

    def _settings(self, name, flavour):
        settings = {"server_tls_sslmode": "require" if flavour.has_server_tls else "disable",
                    **flavour.settings, **(flavour.own if name == "pgweir" else {})}
        if flavour.has_client_tls:
            settings |= {"client_tls_sslmode": "require", "client_tls_key_file": self.key,
                         "client_tls_cert_file": self.certificate}
        return settings

    def stop(self, name, flavour):
        self.workplace.stop(self.started.pop((name, flavour)))


def cpu_ns(name, process):
    """CPU time of the process in front of PostgreSQL; None if there is none."""
    return None if name == "postgresql" else servers.cpu_ns(process.pid)


def loop_ns(name, process):
    """CPU time of the thread of its event loop only."""
    return None if name == "postgresql" else servers.main_thread_cpu_ns(process.pid)


FIGURES = {
    "tps": r"^tps = ([\d.]+)",
    "mean_ms": r"^latency average = ([\d.]+)",
    "initial_ms": r"^initial connection time = ([\d.]+)",
    "connect_ms": r"^average connection time = ([\d.]+)",
    "begin_ms": r"^\s+([\d.]+)\s+\d*\s+BEGIN;$",
    "select_ms": r"^\s+([\d.]+)\s+\d*\s+SELECT 1;$",
    "commit_ms": r"^\s+([\d.]+)\s+\d*\s+COMMIT;$",
}


def figures_of(out):
    """The output of pgbench, as metric -> figure."""
    found = {name: re.search(pattern, out, re.MULTILINE) for name, pattern in FIGURES.items()}
    return {name: float(match[1]) for name, match in found.items() if match}


def latency_of(words):
    """Latency from a line of pgbench's log, without the schedule lag of a throttled run."""
    return int(words[2]) - (int(words[6]) if len(words) > 6 else 0)


class Pgbench:
    """One kind of pgbench run; `run` gives metric -> figure."""

    def __init__(self, workplace, words, clients, script=None, user=TRUSTED_USER,
                 sslmode="disable", sampling=SAMPLING):
        self.workplace = workplace
        self.sslmode = sslmode
        self.sampling = sampling
        self.words = list(words)
        self.clients = clients
        self.is_connecting = "-C" in words
        self.user = user
        if script:
            self.words += ["-f", str(workplace.write("script.sql", script))]

    def command(self, process, words):
        return ["pgbench", "-n", "-c", str(self.clients), "-j", "1", *self.words, *words,
                process.conninfo(DATABASE, self.user)]

    def _call(self, command, limit_s):
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s,
                              cwd=self.workplace.directory,
                              env={"PATH": "/usr/bin:/bin:/usr/local/bin", "PGPASSWORD": SECRET,
                                   "PGSSLMODE": self.sslmode, "PGGSSENCMODE": "disable"})
        if done.returncode != 0:
            raise servers.ServerError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def warm(self, process):
        self._call(self.command(process, ["-t", "20"]), 120)

    def run(self, name, process, seconds):
        return self.run_for(name, process, ["-T", str(seconds)], seconds + 120)

    def run_for(self, name, process, amount, limit_s):
        """`amount`: pgbench's -T or -t."""
        prefix = self.workplace.directory / "latency"
        before, loop_before = cpu_ns(name, process), loop_ns(name, process)
        out = self._call(self.command(process, [*amount, *self._log_words(prefix)]), limit_s)
        after, loop_after = cpu_ns(name, process), loop_ns(name, process)
        result = figures_of(out)
        count = int(re.search(r"actually processed: (\d+)", out)[1])
        if count == 0:
            raise servers.ServerError(f"{name}: not one transaction ended: {' '.join(amount)}")
        if before is not None:
            result["cpu_us"] = (after - before) / 1000 / count
            result["loop_cpu_us"] = (loop_after - loop_before) / 1000 / count
        return result | self._latencies(prefix)

    def _log_words(self, prefix):
        """The log excludes the connection time, so it is useless for such runs."""
        if self.is_connecting:
            return []
        return ["--log", f"--log-prefix={prefix}", f"--sampling-rate={self.sampling}"]

    @staticmethod
    def _latencies(prefix):
        times = []
        for path in prefix.parent.glob(f"{prefix.name}.*"):
            with open(path, encoding="ascii") as file:
                times += [latency_of(line.split()) for line in file]
            path.unlink()
        times.sort()
        if not times:
            return {}
        return {"p50_ms": times[len(times) // 2] / 1000,
                "p99_ms": times[len(times) * 99 // 100] / 1000}


def timed_copy(name, process, command, rows):
    """One psql that transfers `rows` rows: rows per second, and CPU time per million rows."""
    before, began = cpu_ns(name, process), time.monotonic()
    done = subprocess.run(["psql", "-Xq", "-d", process.conninfo(DATABASE, TRUSTED_USER),
                           "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, timeout=600, cwd="/",
                          env={**os.environ, "PGSSLMODE": "disable"})
    if done.returncode != 0:
        raise servers.ServerError(f"{command}: {done.stderr.strip()}")
    result = {"rows_s": rows / (time.monotonic() - began)}
    if before is not None:
        result["cpu_ms_per_million"] = (cpu_ns(name, process) - before) / rows
    return result
