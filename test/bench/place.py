# SPDX-License-Identifier: ISC
"""Where the benchmark runs: one PostgreSQL, and what stands in front of it, started when asked for.

A target is what clients connect to: postgresql itself, haproxy, pgbouncer or pgweir. The two
poolers get the same file, in one of several flavours (below), each flavour a process of its own.
"""

import re
import subprocess
import time

import servers

DATABASE = "bench"
TRUSTED_USER = "bench"
SCRAM_USER = "bench_scram"
SECRET = "pencil"
RESTING_POOLS = 1000
SAMPLING = 0.25  # of the transactions whose latency pgbench logs

TARGETS = ["postgresql", "pgbouncer", "haproxy", "pgweir"]
POOLERS = ["pgbouncer", "pgweir"]

# Settings of each flavour, the same for both poolers.
FLAVOURS = {
    "trust": {},
    "scram": {"auth_type": "scram-sha-256"},
    "idle": {},
    "session": {"pool_mode": "session"},
    "pools_base": {"server_idle_timeout": 1},
    "pools_rest": {"server_idle_timeout": 1},
    "tls": {},
    "tls_scram": {"auth_type": "scram-sha-256"},
    "tls_idle": {},
}


class Place:
    """The servers of a run. `programs`: target name -> path."""

    def __init__(self, workplace, programs, rows):
        self.workplace = workplace
        self.programs = programs
        self.scale = max(1, rows // 100000)  # pgbench's: 100000 rows each
        self.rows = self.scale * 100000
        self.started = {}
        self.postgres = workplace.start(servers.Postgres(workplace, max_connections=300))
        self._fill()

    def _fill(self):
        self.postgres.add_role(TRUSTED_USER)
        self.postgres.add_role(SCRAM_USER, SECRET)
        self.postgres.sql(f"CREATE DATABASE {DATABASE} OWNER {TRUSTED_USER}")
        subprocess.run(["pgbench", "-i", "-q", "-I", "dtGvp", "--unlogged-tables",
                        "-s", str(self.scale),
                        self.postgres.conninfo(DATABASE, TRUSTED_USER)],
                       check=True, timeout=600, cwd="/",
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.sql("CREATE UNLOGGED TABLE copy_target (LIKE pgbench_accounts)")

    def sql(self, text):
        """Past all poolers."""
        return self.postgres.sql(text, DATABASE)

    def target(self, name, flavour="trust"):
        """The server process of a target."""
        if name == "postgresql":
            return self.postgres
        key = (name, flavour if name in POOLERS else "")
        if key not in self.started:
            self.started[key] = self.start(name, flavour)
        return self.started[key]

    def start(self, name, flavour):
        if name == "haproxy":
            return self.workplace.start(
                servers.Relay(self.workplace, self.programs[name], self.postgres.port))
        server = f"host=127.0.0.1 port={self.postgres.port}"
        lines = [f"{DATABASE} = {server}"]
        if flavour.startswith("pools_"):
            lines += [f"rest{i} = {server} dbname={DATABASE}" for i in range(RESTING_POOLS)]
        settings = dict(FLAVOURS[flavour])
        if flavour.startswith("tls"):
            settings |= self._tls()
        return self.workplace.start(servers.Pooler(
            self.workplace, f"{name}-{flavour}", self.programs[name], lines,
            {TRUSTED_USER: SECRET, SCRAM_USER: SECRET}, settings))

    def _tls(self):
        """The settings of TLS: one certificate on P-256, the same for both poolers."""
        key, certificate = (self.workplace.directory / f"tls.{end}" for end in ("key", "crt"))
        if not certificate.exists():
            subprocess.run(["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:prime256v1", "-days", "2", "-subj", "/CN=localhost",
                            "-keyout", key, "-out", certificate],
                           check=True, capture_output=True, timeout=60)
            key.chmod(0o644)  # of a server that is gone in a minute
        return {"client_tls_sslmode": "require", "client_tls_key_file": key,
                "client_tls_cert_file": certificate}

    def stop(self, name, flavour):
        self.workplace.stop(self.started.pop((name, flavour)))


def cpu_ns(name, process):
    """CPU time of what stands before PostgreSQL; None where nothing does."""
    return None if name == "postgresql" else servers.cpu_ns(process.pid)


def loop_ns(name, process):
    """The same of its loop's thread alone."""
    return None if name == "postgresql" else servers.main_thread_cpu_ns(process.pid)


def latency_of(words):
    """Of a line in pgbench's log: without how late it began, if it had a time to begin at."""
    return int(words[2]) - (int(words[6]) if len(words) > 6 else 0)


class Pgbench:
    """One kind of pgbench run; `run` gives tps, cpu_us, p50_ms and p99_ms, or connect_ms."""

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
        prefix = self.workplace.directory / "latency"
        before, loop_before = cpu_ns(name, process), loop_ns(name, process)
        out = self._call(self.command(process, [
            "-T", str(seconds), *self._log_words(prefix)]), seconds + 120)
        after, loop_after = cpu_ns(name, process), loop_ns(name, process)
        count = int(re.search(r"actually processed: (\d+)", out)[1])
        result = {"tps": float(re.search(r"tps = ([\d.]+)", out)[1])}
        if before is not None:
            result["cpu_us"] = (after - before) / 1000 / count
        if self.is_connecting:
            if before is not None:
                result["loop_cpu_us"] = (loop_after - loop_before) / 1000 / count
            return result | {"connect_ms": float(re.search(r"connection time = ([\d.]+)", out)[1])}
        return result | self._latencies(prefix)

    def _log_words(self, prefix):
        """The log leaves out the time of connecting, so it says nothing of those runs."""
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
    """One psql that moves `rows` rows: rows a second, and CPU for a million of them."""
    before, began = cpu_ns(name, process), time.monotonic()
    done = subprocess.run(["psql", "-Xq", "-d", process.conninfo(DATABASE, TRUSTED_USER),
                           "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, timeout=600, cwd="/")
    if done.returncode != 0:
        raise servers.ServerError(f"{command}: {done.stderr.strip()}")
    result = {"rows_s": rows / (time.monotonic() - began)}
    if before is not None:
        result["cpu_ms_per_million"] = (cpu_ns(name, process) - before) / rows
    return result
