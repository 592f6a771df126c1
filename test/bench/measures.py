# SPDX-License-Identifier: ISC
"""Measurement of our own cases: each function returns the figures of one run."""

import place
import servers
from crowd import Crowd
from idle_clients import IdleClients, client_context
from place import DATABASE, SCRAM_USER, SECRET, TRUSTED_USER, Pgbench
from storm import Storm

BSC = "BEGIN;\nSELECT 1;\nCOMMIT;\n"
IDLE_CLIENTS = 8000
IDLE_TLS_CLIENTS = 1000
STORM_LOGINS = 200  # a second
STORM_SECONDS = 5  # at least: pgbench counts the time of its own logins
CROWD = 8000
CROWD_IN_FLIGHT = 64
PREPARING_CLIENTS = 1000
STATEMENTS = 200
BUSY_CLIENTS = 16
BATCH = 500  # pools that are touched at a time
ROOM = place.MAX_SERVERS - BATCH - 50  # servers that may remain from the batch before


def pgbench_of(bench, case, more=(), clients=None):
    return Pgbench(bench.workplace, [*case.words, *more], clients or case.clients, case.script,
                   case.user, case.sslmode)


def transactions(bench, case, target, flavour=None):
    """One pgbench run, after a short one the first time."""
    flavour = flavour or case.flavour
    process = bench.place.target(target, flavour)
    pgbench = pgbench_of(bench, case)
    if (target, flavour) not in case.warmed:
        pgbench.warm(process)
        case.warmed.add((target, flavour))
    return pgbench.run(target, process, bench.seconds)


def prepared(bench, case, target):
    """In session mode, because Debian's PgBouncer tracks no statements; pgweir also in transaction
    mode.
    """
    figures = transactions(bench, case, target)
    if target == "pgweir":
        beside = transactions(bench, case, target, "trust")
        figures["transaction_mode_cpu_us"] = beside["cpu_us"]
    return figures


def prepared_memory(bench, case, target):
    """Memory for the statement names of all clients, with identical texts. Each target runs alone.
    """
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
    is_tls = case.sslmode == "require"
    count = IDLE_TLS_CLIENTS if is_tls else IDLE_CLIENTS
    process = bench.place.target(target, case.flavour)
    context = client_context() if is_tls else None
    try:
        with IdleClients(process.port, TRUSTED_USER, DATABASE, 1, context) as one:
            one.ask_all()
        before = servers.rss_bytes(process.pid)
        with IdleClients(process.port, TRUSTED_USER, DATABASE, count, context) as many:
            after_login = servers.rss_bytes(process.pid)
            many.ask_all()
            after_query = servers.rss_bytes(process.pid)
    finally:
        bench.place.stop(target, case.flavour)
    return {"login_bytes": (after_login - before) / count,
            "query_bytes": (after_query - before) / count}


def login_storm(bench, case, target):
    """Latency of clients at a steady rate: alone; while others log in; and while others log in to
    another process of the same program, which shows the effect of the machine's load alone.
    """
    process = bench.place.target(target, case.flavour)
    other = bench.place.target(target, "tls_scram_beside")
    pgbench = Pgbench(bench.workplace, case.words, case.clients, case.script, case.user,
                      case.sslmode, 1)
    pgbench.warm(process)
    seconds = max(bench.seconds, STORM_SECONDS)
    alone = pgbench.run(target, process, seconds)["p99_ms"]
    with Storm(process.port, SCRAM_USER, DATABASE, STORM_LOGINS, SECRET) as storm:
        amid = pgbench.run(target, process, seconds)["p99_ms"]
    with Storm(other.port, SCRAM_USER, DATABASE, STORM_LOGINS, SECRET):
        beside = pgbench.run(target, process, seconds)["p99_ms"]
    return {"alone_p99_ms": alone, "storm_p99_ms": amid, "beside_p99_ms": beside,
            "p99_growth": amid / alone, "p99_held_up": amid / beside,
            "logins_s": storm.logins_s}


def login_crowd(bench, case, target):
    """All clients log in as fast as possible, and stay connected until the last one has logged in.
    """
    process = bench.place.target(target, case.flavour)
    with IdleClients(process.port, TRUSTED_USER, DATABASE, 1) as one:
        one.ask_all()
    before = place.cpu_ns(target, process)
    with Crowd(bench.programs["crowd"], process.port, TRUSTED_USER, DATABASE, CROWD,
               in_flight=CROWD_IN_FLIGHT) as crowd:
        spent = place.cpu_ns(target, process) - before
        return {"logins_s": CROWD / crowd.seconds, "login_cpu_us": spent / 1000 / CROWD}


def busy_run(bench, target, process):
    pgbench = Pgbench(bench.workplace, ["-M", "simple"], BUSY_CLIENTS, BSC)
    pgbench.warm(process)
    return pgbench.run(target, process, bench.seconds)


def compared(before, beside, after):
    """The baseline is the mean of before and after, because the speed of a machine varies."""
    alone = (before["cpu_us"] + after["cpu_us"]) / 2
    return {"alone_cpu_us": alone, "beside_cpu_us": beside["cpu_us"],
            "growth_percent": (beside["cpu_us"] / alone - 1) * 100}


def idle_cost(bench, case, target):
    process = bench.place.target(target, case.flavour)
    before = busy_run(bench, target, process)
    with IdleClients(process.port, TRUSTED_USER, DATABASE, IDLE_CLIENTS) as many:
        many.ask_all()
        beside = busy_run(bench, target, process)
    return compared(before, beside, busy_run(bench, target, process))


def touch_pools(bench, process):
    """Creates every pool with one client each, in batches, and waits until its servers are closed.
    """
    for first in range(0, place.RESTING_POOLS, BATCH):
        with IdleClients(process.port, TRUSTED_USER, DATABASE, 0) as clients:
            for i in range(first, first + BATCH):
                clients.add(f"rest{i}")
            clients.ask_all()
        servers.wait_until(lambda: bench.place.postgres.sessions(DATABASE) < ROOM,
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
    return compared(*(busy_run(bench, target, process) for process in (base, rest, base)))
