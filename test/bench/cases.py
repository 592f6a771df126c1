# SPDX-License-Identifier: ISC
"""What is measured. One row of CASES for each case; a case gives one dict of figures per run."""

import dataclasses
import typing

import place
import servers
from idle_clients import IdleClients, client_context
from place import DATABASE, POOLERS, SCRAM_USER, SECRET, TARGETS, TRUSTED_USER, Pgbench
from storm import Storm

BSC = "BEGIN;\nSELECT 1;\nCOMMIT;\n"
CONNECT = "SELECT 1;\n"
# pgbench logs in blockingly, so each client needs a thread of its own.
CONNECT_WORDS = ("-C", "-j", "8")
IDLE_CLIENTS = 5000
IDLE_TLS_CLIENTS = 1000
STORM_LOGINS = 200  # a second
STEADY_RATE = 1000  # transactions a second, so that the machine itself has time left
PREPARING_CLIENTS = 1000
STATEMENTS = 200
BUSY_CLIENTS = 16
BATCH = 100  # pools that are touched at a time, below PostgreSQL's max_connections


@dataclasses.dataclass
class Case:
    """`measure(bench, case, target)` gives metric -> figure; `reach`: what is aimed at."""

    name: str
    says: str
    measure: typing.Callable
    clients: int = 0
    words: tuple = ()
    script: str = None
    flavour: str = "trust"
    user: str = TRUSTED_USER
    sslmode: str = "disable"
    targets: tuple = tuple(TARGETS)
    reach: dict = dataclasses.field(default_factory=dict)
    warmed: set = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Reach:
    """What is aimed at: a share of PgBouncer's figure, or a figure of our own."""

    most: float
    is_ratio: bool = True

    def __str__(self):
        return f"<= {self.most:g}" + (" x" if self.is_ratio else "")


def transactions(bench, case, target, flavour=None):
    """One pgbench run, after a short one the first time."""
    flavour = flavour or case.flavour
    process = bench.place.target(target, flavour)
    pgbench = Pgbench(bench.workplace, case.words, case.clients, case.script,
                      case.user, case.sslmode)
    if (target, flavour) not in case.warmed:
        pgbench.warm(process)
        case.warmed.add((target, flavour))
    return pgbench.run(target, process, bench.seconds)


def prepared(bench, case, target):
    """In session mode, as Debian's PgBouncer follows no statements; pgweir in the other mode too."""
    figures = transactions(bench, case, target)
    if target == "pgweir":
        beside = transactions(bench, case, target, "trust")
        figures["transaction_mode_cpu_us"] = beside["cpu_us"]
    return figures


def prepared_memory(bench, case, target):
    """What the names of all clients cost, the texts being the same. Each runs on its own."""
    process = bench.place.target(target, case.flavour)
    texts = [f"SELECT aid, abalance, {number} FROM pgbench_accounts WHERE aid = $1"
             for number in range(STATEMENTS)]
    try:
        with IdleClients(process.port, TRUSTED_USER, DATABASE, PREPARING_CLIENTS) as clients:
            clients.ask_all()
            before = servers.rss_bytes(process.pid)
            clients.prepare_all(texts)
            after = servers.rss_bytes(process.pid)
    finally:
        bench.place.stop(target, case.flavour)
    return {"names_mb": (after - before) / 1e6}


def copy_out(bench, case, target):
    return place.timed_copy(target, bench.place.target(target, case.flavour),
                            "COPY pgbench_accounts TO STDOUT", bench.place.rows)


def copy_in(bench, case, target):
    data = bench.workplace.directory / "rows.copy"
    if not data.exists():
        bench.place.sql(f"\\copy pgbench_accounts TO '{data}'")
    bench.place.sql("TRUNCATE copy_target")
    return place.timed_copy(target, bench.place.target(target, case.flavour),
                            f"\\copy copy_target FROM '{data}'", bench.place.rows)


def idle_memory(bench, case, target):
    """A fresh pooler each time: memory once grown is not given back."""
    process = bench.place.target(target, case.flavour)
    try:
        with IdleClients(process.port, TRUSTED_USER, DATABASE, 1) as one:
            one.ask_all()
        before = servers.rss_bytes(process.pid)
        with IdleClients(process.port, TRUSTED_USER, DATABASE, IDLE_CLIENTS) as many:
            after_login = servers.rss_bytes(process.pid)
            many.ask_all()
            after_query = servers.rss_bytes(process.pid)
    finally:
        bench.place.stop(target, case.flavour)
    return {"login_bytes": (after_login - before) / IDLE_CLIENTS,
            "query_bytes": (after_query - before) / IDLE_CLIENTS}


def idle_tls_memory(bench, case, target):
    process = bench.place.target(target, case.flavour)
    try:
        with IdleClients(process.port, TRUSTED_USER, DATABASE, 1, client_context()) as one:
            one.ask_all()
        before = servers.rss_bytes(process.pid)
        with IdleClients(process.port, TRUSTED_USER, DATABASE, IDLE_TLS_CLIENTS,
                         client_context()) as many:
            after_login = servers.rss_bytes(process.pid)
            many.ask_all()
            after_query = servers.rss_bytes(process.pid)
    finally:
        bench.place.stop(target, case.flavour)
    return {"login_bytes": (after_login - before) / IDLE_TLS_CLIENTS,
            "query_bytes": (after_query - before) / IDLE_TLS_CLIENTS}


def login_storm(bench, case, target):
    """The latency of clients at a steady rate, alone and while others log in."""
    process = bench.place.target(target, case.flavour)
    pgbench = Pgbench(bench.workplace, case.words, case.clients, case.script, case.user,
                      case.sslmode, 1)
    pgbench.warm(process)
    alone = pgbench.run(target, process, bench.seconds)["p99_ms"]
    with Storm(process.port, SCRAM_USER, DATABASE, STORM_LOGINS, SECRET) as storm:
        amid = pgbench.run(target, process, bench.seconds)["p99_ms"]
    return {"alone_p99_ms": alone, "storm_p99_ms": amid, "p99_growth": amid / alone,
            "logins_s": storm.logins_s}


def busy_run(bench, target, process):
    pgbench = Pgbench(bench.workplace, ["-M", "simple"], BUSY_CLIENTS, BSC)
    pgbench.warm(process)
    return pgbench.run(target, process, bench.seconds)


def compared(alone, beside):
    return {"alone_cpu_us": alone["cpu_us"], "beside_cpu_us": beside["cpu_us"],
            "growth_percent": (beside["cpu_us"] / alone["cpu_us"] - 1) * 100}


def idle_cost(bench, case, target):
    process = bench.place.target(target, case.flavour)
    alone = busy_run(bench, target, process)
    with IdleClients(process.port, TRUSTED_USER, DATABASE, IDLE_CLIENTS) as many:
        many.ask_all()
        beside = busy_run(bench, target, process)
    return compared(alone, beside)


def touch_pools(bench, process):
    """Makes every pool by one client each, in batches, and waits until its servers have gone."""
    for first in range(0, place.RESTING_POOLS, BATCH):
        with IdleClients(process.port, TRUSTED_USER, DATABASE, 0) as clients:
            for i in range(first, first + BATCH):
                clients.add(f"rest{i}")
            clients.ask_all()
        servers.wait_until(lambda: bench.place.postgres.sessions(DATABASE) < BATCH,
                           "the servers of resting pools to go")
    pools = sum(row[0].startswith("rest") for row in process.console("SHOW POOLS"))
    if pools != place.RESTING_POOLS:
        raise servers.ServerError(f"{pools} resting pools, not {place.RESTING_POOLS}")


def resting_cost(bench, case, target):
    base = bench.place.target(target, "pools_base")
    rest = bench.place.target(target, "pools_rest")
    if target not in case.warmed:
        touch_pools(bench, rest)
        case.warmed.add(target)
    return compared(busy_run(bench, target, base), busy_run(bench, target, rest))


def bsc(clients, **more):
    return Case(f"bsc-{clients}", f"BEGIN; SELECT 1; COMMIT, {clients} clients", transactions,
                clients, ("-M", "simple"), BSC, **more)


def make_cases():
    """All of them, in order."""
    poolers = tuple(POOLERS)
    return [
        bsc(1),
        bsc(16, reach={"cpu_us": Reach(0.95)}),
        bsc(64, reach={"cpu_us": Reach(0.95)}),
        Case("select-simple-16", "pgbench -S, simple, 16 clients", transactions, 16,
             ("-S", "-M", "simple")),
        Case("select-extended-16", "pgbench -S, extended, 16 clients", transactions, 16,
             ("-S", "-M", "extended")),
        Case("prepared-16", "pgbench -S, prepared, 16 clients, session mode", prepared, 16,
             ("-S", "-M", "prepared"), flavour="session", reach={"cpu_us": Reach(0.85)}),
        Case("connect-trust-8", "connect, SELECT 1, leave; trust, 8 clients", transactions, 8,
             CONNECT_WORDS, CONNECT, reach={"cpu_us": Reach(0.8)}),
        Case("connect-scram-8", "connect, SELECT 1, leave; SCRAM, 8 clients", transactions, 8,
             CONNECT_WORDS, CONNECT, flavour="scram", user=place.SCRAM_USER,
             reach={"cpu_us": Reach(0.8)}),
        Case("tls-bsc-16", "BEGIN; SELECT 1; COMMIT, 16 clients with TLS", transactions, 16,
             ("-M", "simple"), BSC, flavour="tls", sslmode="require", targets=poolers,
             reach={"cpu_us": Reach(0.9)}),
        Case("connect-tls", "connect, SELECT 1, leave; trust, TLS, 8 clients", transactions, 8,
             CONNECT_WORDS, CONNECT, flavour="tls", sslmode="require", targets=poolers,
             reach={"loop_cpu_us": Reach(0.5), "cpu_us": Reach(1)}),
        Case("connect-tls-scram", "connect, SELECT 1, leave; SCRAM, TLS, 8 clients", transactions,
             8, CONNECT_WORDS, CONNECT, flavour="tls_scram", user=SCRAM_USER, sslmode="require",
             targets=poolers, reach={"loop_cpu_us": Reach(0.5), "cpu_us": Reach(1)}),
        Case("login-storm", f"16 clients with TLS; {STORM_LOGINS} logins/s (TLS, SCRAM) beside",
             login_storm, 16, ("-M", "simple", "-R", str(STEADY_RATE)), BSC, flavour="tls_scram",
             user=SCRAM_USER, sslmode="require", targets=poolers,
             reach={"p99_growth": Reach(1.5, False)}),
        Case("copy-out", "COPY TO STDOUT", copy_out,
             reach={"cpu_ms_per_million": Reach(0.6)}),
        Case("copy-in", "COPY FROM STDIN", copy_in,
             reach={"cpu_ms_per_million": Reach(0.6)}),
        Case("idle-memory", f"RSS for each of {IDLE_CLIENTS} idle clients", idle_memory,
             flavour="idle", targets=poolers,
             reach={"login_bytes": Reach(800, False), "query_bytes": Reach(800, False)}),
        Case("idle-tls-memory", f"RSS for each of {IDLE_TLS_CLIENTS} idle clients with TLS",
             idle_tls_memory, flavour="tls_idle", targets=poolers),
        Case("prepared-memory",
             f"RSS for {PREPARING_CLIENTS} clients x {STATEMENTS} statements of the same texts",
             prepared_memory, flavour="idle", targets=("pgweir",),
             reach={"names_mb": Reach(20, False)}),
        Case("idle-cost", f"bsc-16 beside {IDLE_CLIENTS} idle clients", idle_cost,
             flavour="trust", targets=poolers, reach={"growth_percent": Reach(3, False)}),
        Case("resting-cost", f"bsc-16 beside {place.RESTING_POOLS} pools at rest", resting_cost,
             targets=poolers, reach={"growth_percent": Reach(3, False)}),
    ]
