# SPDX-License-Identifier: ISC
"""What `test/bench/loops` measures: one pgweir with different numbers of event loops.

A variant is the number of loops, or BEFORE: another program, of a time before the change that is
measured. Behind pgweir is the stand-in for PostgreSQL (instant.c), so that the pooler is the
bottleneck for as long as there are processors for it, or PostgreSQL itself.
"""

import dataclasses
import os
import pathlib
import resource
import subprocess
import time
import typing

import place
import servers
from crowd import Crowd
from measures import BSC
from place import DATABASE, SECRET, TRUSTED_USER, Pgbench

BEFORE = "before"
INSTANT, POSTGRES = "instant", "postgresql"
BUSY_MS = 10  # how long a server works for a client that others wait for
WAITING = f"SELECT pg_sleep({BUSY_MS / 1000});\n"
DEALT = 1000
FIGURES = ("tps", "cpu_us", "p50_ms", "p99_ms", "moved_percent", "busiest_percent",
           "generator_us", "machine_percent")

# The names that a column of SHOW LOOPS may have.
COLUMNS = {"clients": ("clients", "cl_count", "client_count"),
           "moved": ("handed_out", "hand_overs_out", "handovers_out", "servers_out", "moved_out")}


class NotThere(Exception):
    """This pgweir cannot do what the case needs."""


@dataclasses.dataclass(frozen=True)
class LoopGoal:
    """The figure of one variant, at most `bound`, or at least if `is_least`; a multiple of the
    figure of variant `of` if given. A goal for throughput is not judged once the machine is busy.
    """

    metric: str
    bound: float
    variant: str
    of: str = None
    is_least: bool = False

    def __str__(self):
        sign = ">=" if self.is_least else "<="
        of = f" x {self.of}" if self.of else ""
        return f"{self.variant}: {sign} {self.bound:g}{of}"

    def reached(self, figures):
        """The ratio, or the figure; None if it was not measured, or says nothing here."""
        own = figures.get(self.variant, {})
        other = figures.get(self.of, {}).get(self.metric) if self.of else 1
        if own.get(self.metric) is None or not other:
            return None
        if self.is_least and own.get("machine_percent", 0) > 90:
            return None
        return own[self.metric] / other

    def is_met(self, figures):
        reached = self.reached(figures)
        if reached is None:
            return None
        return reached >= self.bound if self.is_least else reached <= self.bound


@dataclasses.dataclass
class LoopCase:
    """`measure(bench, case, variant)` gives metric -> figure."""

    name: str
    says: str
    measure: typing.Callable
    behind: str
    clients: int
    pool: int
    script: str = BSC
    has_tls: bool = False
    keeps: tuple = ()
    goals: tuple = ()
    warmed: set = dataclasses.field(default_factory=set)


def cheap():
    return (LoopGoal("cpu_us", 1.02, "1", BEFORE), LoopGoal("cpu_us", 1.10, "2", "1"))


def scaling(metric):
    return tuple(LoopGoal(metric, 0.85 * count, str(count), "1", True) for count in (2, 4, 8))


def make_cases():
    """All of them, in order."""
    cases = []
    for behind in (INSTANT, POSTGRES):
        for clients in (16, 64):
            for pool in (4, 20):
                goals = cheap() + (scaling("tps") if behind == INSTANT and pool == 20 else ())
                cases.append(LoopCase(
                    f"{behind}-{clients}-{pool}",
                    f"BEGIN; SELECT 1; COMMIT, {clients} clients on a pool of {pool}", transactions,
                    behind, clients, pool, keeps=FIGURES, goals=goals))
    return cases + [
        LoopCase("tls-logins", "connect with TLS, SELECT 1, disconnect, 16 clients", logins, INSTANT,
                 16, 20, "SELECT 1;\n", has_tls=True, goals=scaling("logins_s")),
        LoopCase("waiting-64-20", f"64 clients on a pool of 20, servers busy for {BUSY_MS} ms",
                 waiting, POSTGRES, 64, 20, WAITING,
                 goals=(LoopGoal("wait_p99_ms", 1.2, "2", "1"),)),
        LoopCase("dealt-1000", f"{DEALT} clients log in: how evenly they are dealt", dealt, INSTANT,
                 DEALT, 20, goals=tuple(LoopGoal("uneven", 1.1, str(count))
                                        for count in (2, 4, 8))),
    ]


# -- the servers ----------------------------------------------------------------------------------


class Instant(servers.Process):
    """The stand-in for PostgreSQL."""

    stop_signal = servers.signal.SIGTERM

    def __init__(self, workplace, binary, threads):
        port = servers.free_port()
        super().__init__(workplace, INSTANT,
                         [workplace.program(INSTANT, binary), "-t", threads, port], port)


class Bench:
    """The servers of a run, started when they are needed; `programs`: name -> path."""

    def __init__(self, workplace, programs, seconds, threads):
        self.workplace, self.programs, self.seconds = workplace, programs, seconds
        self.threads = threads
        self.key, self.certificate = place.make_certificate(workplace)
        self.started = {}

    def knows(self, setting, program="pgweir"):
        return place.knows_setting(self.workplace, self.programs[program], setting)

    def _started(self, key, make):
        if key not in self.started:
            self.started[key] = make()
        return self.started[key]

    def _instant(self):
        return self.workplace.start(
            Instant(self.workplace, self.programs[INSTANT], self.threads))

    def _postgres(self):
        postgres = self.workplace.start(servers.Postgres(self.workplace))
        postgres.add_role(TRUSTED_USER)
        postgres.sql(f"CREATE DATABASE {DATABASE} OWNER {TRUSTED_USER}")
        return postgres

    def behind(self, name):
        return self._started(name, self._instant if name == INSTANT else self._postgres)

    def settings(self, case, variant):
        program = BEFORE if variant == BEFORE else "pgweir"
        settings = {"default_pool_size": case.pool, "server_tls_sslmode": "disable"}
        if self.knows("session_sample", program):
            settings["session_sample"] = 0  # the stand-in has no answer to its question
        if variant != BEFORE and self.knows("loops"):
            settings["loops"] = variant
        if case.has_tls:
            settings |= {"client_tls_sslmode": "require", "client_tls_key_file": self.key,
                         "client_tls_cert_file": self.certificate}
        return settings

    def pgweir(self, case, variant):
        port = self.behind(case.behind).port
        name = f"{case.behind}-{case.pool}-{'tls' if case.has_tls else 'plain'}-{variant}"
        program = self.programs[BEFORE if variant == BEFORE else "pgweir"]
        return self._started(name, lambda: self.workplace.start(servers.Pooler(
            self.workplace, name, program, [f"{DATABASE} = host=127.0.0.1 port={port}"],
            {TRUSTED_USER: SECRET}, self.settings(case, variant))))


# -- what else happens during a run ----------------------------------------------------------------


def machine_ticks():
    """(busy, all) of all processors so far, in ticks."""
    fields = [int(word) for word in
              pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n")[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


def thread_ns(pid):
    """thread -> CPU time so far."""
    times = {}
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            times[path.parent.name] = int(path.read_text(encoding="ascii").split()[0])
        except OSError:
            continue  # it has ended
    return times


def generator_s():
    """CPU time of the load generators that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Watch:
    """What limits a run: the busiest thread of pgweir, the load generator, or the machine."""

    def __init__(self, process):
        self.process = process

    def __enter__(self):
        self.before = time.monotonic(), machine_ticks(), thread_ns(self.process.pid), generator_s()
        return self

    def __exit__(self, *failure):
        began, (busy, every), threads, generator = self.before
        seconds = time.monotonic() - began
        busy_now, every_now = machine_ticks()
        self.machine_percent = 100 * (busy_now - busy) / max(1, every_now - every)
        self.busiest_percent = max(
            spent - threads.get(name, 0)
            for name, spent in thread_ns(self.process.pid).items()) / seconds / 1e7
        self.generator_s = generator_s() - generator

    def figures(self, count):
        return {"machine_percent": self.machine_percent, "busiest_percent": self.busiest_percent,
                "generator_us": self.generator_s * 1e6 / count}


def column_of(rows, what):
    """The values of a column of SHOW LOOPS; None if there is no such column."""
    name = next((name for name in COLUMNS[what] if rows and name in rows[0]), None)
    return [int(row[name]) for row in rows] if name else None


def show_loops(process):
    """No rows if this pgweir has no SHOW LOOPS."""
    try:
        return process.console_dicts("SHOW LOOPS")
    except servers.ServerError:
        return []


def moved(process):
    """How often a server went to another loop so far; None if that is not known."""
    counts = column_of(show_loops(process), "moved")
    return sum(counts) if counts else None


# -- measuring -------------------------------------------------------------------------------------


def generator(bench, case, more=(), sampling=place.SAMPLING):
    """pgbench, with threads for all processors, so that it is not the bottleneck itself."""
    threads = min(case.clients, max(2, os.cpu_count()))
    return Pgbench(bench.workplace, ["-M", "simple", "-j", str(threads), *more], case.clients,
                   case.script, sslmode="require" if case.has_tls else "disable",
                   sampling=sampling)


def run(bench, case, variant, pgbench):
    """One run of pgbench, after a short one the first time: (figures, what limited it)."""
    process = bench.pgweir(case, variant)
    if variant not in case.warmed:
        pgbench.warm(process)
        case.warmed.add(variant)
    before = moved(process)
    with Watch(process) as watch:
        figures = pgbench.run("pgweir", process, bench.seconds)
    count = figures["tps"] * bench.seconds
    figures |= watch.figures(count)
    if before is not None:
        figures["moved_percent"] = 100 * (moved(process) - before) / count
    return figures


def transactions(bench, case, variant):
    return run(bench, case, variant, generator(bench, case))


def logins(bench, case, variant):
    """pgbench blocks while it logs in, so each client has a thread."""
    figures = run(bench, case, variant, generator(bench, case, ("-C", "-j", str(case.clients))))
    return {"logins_s": figures["tps"], "login_cpu_us": figures["cpu_us"],
            **{name: figures[name] for name in ("machine_percent", "busiest_percent")}}


def waiting(bench, case, variant):
    """All servers work for as long, so what a transaction takes beyond that is waiting."""
    figures = run(bench, case, variant, generator(bench, case, sampling=1))
    return {"tps": figures["tps"], "wait_p50_ms": figures["p50_ms"] - BUSY_MS,
            "wait_p99_ms": figures["p99_ms"] - BUSY_MS,
            **{name: figures[name] for name in ("moved_percent", "machine_percent")
               if name in figures}}


def unevenness(counts):
    """The largest divided by the mean."""
    return max(counts) * len(counts) / sum(counts)


def dealt(bench, case, variant):
    process = bench.pgweir(case, variant)
    if not show_loops(process):
        raise NotThere("this pgweir has no SHOW LOOPS")
    with Crowd(bench.programs["crowd"], process.port, TRUSTED_USER, DATABASE, DEALT):
        counts = column_of(show_loops(process), "clients")
    if not counts:
        raise NotThere("SHOW LOOPS has no column for clients")
    return {"uneven": unevenness(counts)}


def version_of(program):
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10)
    return (done.stdout or done.stderr).split("\n")[0]
