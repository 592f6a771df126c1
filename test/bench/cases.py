# SPDX-License-Identifier: ISC
"""What is measured: one row for each case, and the goals of pgweir in it.

Cases that others have published are in published.py.
"""

import place
from case import Case, Goal, client_count
from measures import (BSC, CROWD, IDLE_CLIENTS, IDLE_TLS_CLIENTS, PREPARING_CLIENTS, STATEMENTS,
                      STORM_LOGINS, copy_in, copy_out, idle_cost, idle_memory, login_crowd,
                      login_storm, prepared, prepared_memory, resting_cost, transactions)
from place import MD5_USER, POOLERS, SCRAM_USER
from published import published_cases

# pgbench blocks while it logs in, so each client needs its own thread.
CONNECT_WORDS = ("-C", "-j", "8")
CONNECT = "SELECT 1;\n"
STEADY_RATE = 1000  # transactions a second, so that the machine itself has time left


def cpu(most, of="pgbouncer"):
    return Goal("cpu_us", most, of)


def faster(least):
    return Goal("tps", least, "pgbouncer", is_least=True)


CONNECT_TLS = (cpu(1), Goal("loop_cpu_us", 0.3, "pgbouncer"))
COPY = (Goal("cpu_ms_per_million", 0.5, "pgbouncer"),
        Goal("rows_s", 0.95, "postgresql", is_least=True))
IDLE = (Goal("login_bytes", 600), Goal("query_bytes", 600))
NO_GROWTH = (Goal("growth_percent", 2),)

GOALS = {
    "bsc-16": (cpu(0.8),),
    "bsc-64": (cpu(0.8), cpu(1.1, "relay")),
    "late-begin-16": (cpu(0.65), faster(1.25)),
    "late-begin-64": (cpu(0.65), faster(1.25)),
    "late-begin-poll-1": (faster(1.5),),
    "select-simple-16": (cpu(0.8),),
    "select-extended-16": (cpu(0.8),),
    "prepared-16": (cpu(0.8),),
    "connect-trust-8": (cpu(0.5),),
    "connect-trust-logged-8": (cpu(0.5),),
    "connect-scram-8": (cpu(0.75),),
    "connect-tls": CONNECT_TLS,
    "connect-tls-scram": CONNECT_TLS,
    "tls-bsc-16": (cpu(0.85),),
    "tls-server-bsc-16": (cpu(0.85),),
    "tls-both-bsc-16": (cpu(0.85),),
    "login-storm": (Goal("p99_growth", 1.5),),
    "copy-out": COPY,
    "copy-in": COPY,
    "idle-memory": IDLE,
    "prepared-memory": (Goal("names_mb", 20),),
    "idle-cost": NO_GROWTH,
    "resting-cost": NO_GROWTH,
}

# These use one thread only, or their CPU time does not matter here.
FIGURES = ("tps", "cpu_us", "p50_ms", "p99_ms")
CONNECT_FIGURES = ("tps", "connect_ms", "cpu_us", "loop_cpu_us")
SIMPLE = ("-M", "simple")


def bsc(name, says, clients, **more):
    return Case(name, f"BEGIN; SELECT 1; COMMIT, {says}", transactions, clients, SIMPLE, BSC,
                keeps=FIGURES, **more)


def select(protocol):
    return Case(f"select-{protocol}-16", f"pgbench -S, {protocol}, 16 clients", transactions, 16,
                ("-S", "-M", protocol), keeps=FIGURES)


def connect(name, says, **more):
    return Case(name, f"connect, SELECT 1, disconnect; {says}, 8 clients", transactions, 8,
                CONNECT_WORDS, CONNECT, keeps=CONNECT_FIGURES, **more)


def statements():
    poolers, tls = tuple(POOLERS), {"sslmode": "require"}
    return [
        *(bsc(f"bsc-{clients}", client_count(clients), clients) for clients in (1, 16, 64)),
        *(bsc(f"late-begin-{clients}", f"{client_count(clients)}; pgweir with late_begin", clients,
              flavour="late", targets=poolers) for clients in (1, 16, 64)),
        *(bsc(f"poll-{clients}", f"{client_count(clients)}; pgweir with busy_poll", clients,
              flavour="poll", targets=poolers) for clients in (1, 16)),
        bsc("late-begin-poll-1", "1 client; pgweir with late_begin and busy_poll", 1,
            flavour="late_poll", targets=poolers),
        select("simple"),
        select("extended"),
        Case("prepared-16", "pgbench -S, prepared, 16 clients, session mode", prepared, 16,
             ("-S", "-M", "prepared"), flavour="session",
             keeps=(*FIGURES, "transaction_mode_cpu_us")),
        Case("tpcb-16", "pgbench's TPC-B, 16 clients", transactions, 16, SIMPLE, keeps=FIGURES),
        bsc("tls-bsc-16", "16 clients, TLS to the clients", 16, flavour="tls", targets=poolers,
            **tls),
        bsc("tls-server-bsc-16", "16 clients, TLS to PostgreSQL", 16, flavour="tls_server",
            targets=poolers),
        bsc("tls-both-bsc-16", "16 clients, TLS on both sides (relays: passed through)", 16,
            flavour="tls_both", **tls),
    ]


def connections():
    tls = {"sslmode": "require", "targets": tuple(POOLERS)}
    return [
        connect("connect-trust-8", "trust; relay: the bare pool",
                flavour="trust_connect"),
        connect("connect-trust-logged-8", "trust, with the default log lines",
                flavour="trust_logged"),
        connect("connect-md5-8", "md5", flavour="md5", user=MD5_USER),
        connect("connect-scram-8", "SCRAM", flavour="scram", user=SCRAM_USER),
        connect("connect-scram-plain-8", "SCRAM, plain passwords in the pooler's file",
                flavour="scram_plain", user=SCRAM_USER),
        connect("connect-tls", "trust, TLS", flavour="tls", **tls),
        connect("connect-tls-scram", "SCRAM, TLS", flavour="tls_scram", user=SCRAM_USER, **tls),
        Case("login-storm", f"16 clients with TLS; {STORM_LOGINS} logins/s (TLS, SCRAM) beside",
             login_storm, 16, (*SIMPLE, "-R", str(STEADY_RATE)), BSC, flavour="tls_scram",
             user=SCRAM_USER, **tls),
        Case("login-crowd", f"{CROWD} clients log in as fast as the sockets allow; trust",
             login_crowd, targets=tuple(POOLERS)),
    ]


def amounts():
    poolers = {"targets": tuple(POOLERS)}
    return [
        Case("copy-out", "COPY TO STDOUT", copy_out),
        Case("copy-in", "COPY FROM STDIN", copy_in),
        Case("idle-memory", f"RSS per client, {IDLE_CLIENTS} idle clients", idle_memory,
             flavour="idle", **poolers),
        Case("idle-tls-memory", f"RSS per client, {IDLE_TLS_CLIENTS} idle clients with TLS",
             idle_memory, flavour="tls_idle", sslmode="require", **poolers),
        Case("prepared-memory",
             f"RSS for {PREPARING_CLIENTS} clients x {STATEMENTS} statements of the same texts",
             prepared_memory, flavour="idle", targets=("pgweir",)),
        Case("idle-cost", f"bsc-16 beside {IDLE_CLIENTS} idle clients", idle_cost, **poolers),
        Case("resting-cost", f"bsc-16 beside {place.RESTING_POOLS} idle pools", resting_cost,
             flavour="pools_rest", **poolers),
    ]


def make_cases():
    """All of them, in order."""
    every = [*statements(), *connections(), *amounts(), *published_cases()]
    for case in every:
        case.goals = GOALS.get(case.name, ())
    return every
