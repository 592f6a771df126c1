# SPDX-License-Identifier: ISC
"""Cases that others have measured and published, repeated here with their names.

    pgecons    PostgreSQL Enterprise Consortium, 2022: session mode, a pool as large as the
               concurrency, BEGIN; SELECT 1; COMMIT
    polska     Linux Polska: transaction mode, TPC-B and SELECT only, up to 4000 clients
    cybertec   CYBERTEC, 2016: 8 clients that connect for each SELECT
    compose    an experiment with docker-compose: TPC-B, 50 clients over a pool of 20

Absolute figures depend on the machine; the case and the ratios are comparable. The originals ran
for minutes; here --seconds sets the duration of a run.
"""

import pathlib
import re
import socket
import threading
import time

import place
from case import Case, client_count
from idle_clients import IdleClients, connect, message, startup
from measures import BSC, pgbench_of, transactions
from place import DATABASE, POOLERS, TRUSTED_USER

SIMPLE = ("-M", "simple")
EACH = ("-C",)
TPCB = SIMPLE
MANY = 64
BULK_ROWS = 10000
BULK_TIMES = 20
BULK = f"SELECT * FROM pgbench_accounts LIMIT {BULK_ROWS}"
TCP_INFO_BYTES_RECEIVED, TCP_INFO_DATA_SEGMENTS_IN = (128, 8), (152, 4)  # linux/tcp.h: at, size
LIMIT_S = 600


def statement_times(bench, case, target):
    """Like `transactions`, plus the latency of each of the three statements."""
    process = bench.place.target(target, case.flavour)
    pgbench = pgbench_of(bench, case, ("-r",))
    pgbench.warm(process)
    return pgbench.run(target, process, bench.seconds)


def clients_beyond_cores(bench, case, target):
    """Direct: one connection per client. Pooled: one per transaction, over the given number of
    servers.
    """
    process = bench.place.target(target, case.flavour)
    words = () if target == "postgresql" else ("-C", "-j", "8")
    few, many = (pgbench_of(bench, case, words, clients).run(target, process, bench.seconds)
                 for clients in (case.clients, MANY))
    return {"few_tps": few["tps"], "many_tps": many["tps"],
            "kept_percent": many["tps"] / few["tps"] * 100}


def cost_of_connecting(bench, case, target):
    """Connecting for each transaction against connecting once."""
    process = bench.place.target(target, case.flavour)
    once, each = (pgbench_of(bench, case, words).run(target, process, bench.seconds)
                  for words in ((), EACH))
    return {"mean_ms": each["mean_ms"], "connecting_ms": each["mean_ms"] - once["mean_ms"]}


def _field(info, field):
    at, size = field
    return int.from_bytes(info[at:at + size], "little")


def bulk_read(bench, case, target):
    """One client reads rows; the size of the TCP segments shows the size of the forwarded pieces.
    """
    process = bench.place.target(target, case.flavour)
    sock = connect(process.port)
    try:
        sock.sendall(startup(TRUSTED_USER, DATABASE))
        IdleClients.read_until_ready(sock)
        before, began = place.cpu_ns(target, process), time.monotonic()
        for _ in range(BULK_TIMES):
            sock.sendall(message(b"Q", BULK.encode() + b"\0"))
            IdleClients.read_until_ready(sock)
        took = time.monotonic() - began
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    finally:
        sock.close()
    rows = BULK_ROWS * BULK_TIMES
    figures = {"rows_s": rows / took,
               "replay_bytes": _field(info, TCP_INFO_BYTES_RECEIVED) / _field(
                   info, TCP_INFO_DATA_SEGMENTS_IN)}
    if before is not None:
        figures["cpu_ms_per_million"] = (place.cpu_ns(target, process) - before) / rows
    return figures


class Watch(threading.Thread):
    """Maximum memory of PostgreSQL's processes during the run; a context manager."""

    def __init__(self, postgres):
        super().__init__()
        self.postgres = postgres
        self.memory_mb, self.connections = 0.0, 0
        self.has_ended = threading.Event()

    def _pids(self):
        children = pathlib.Path(f"/proc/{self.postgres.pid}/task/{self.postgres.pid}/children")
        return [self.postgres.pid, *map(int, children.read_text().split())]

    @staticmethod
    def _share(pid):
        """Memory of a process, with its part of shared memory; 0 if the process has ended."""
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            return 0
        return int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1]) / 1024

    def run(self):
        while not self.has_ended.wait(0.5):
            self.memory_mb = max(self.memory_mb, sum(map(self._share, self._pids())))
            self.connections = max(self.connections, self.postgres.sessions(DATABASE))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *failure):
        self.has_ended.set()
        self.join(60)


def so_many_each(bench, case, target):
    """pgbench -t: each client runs this many transactions, all clients at once, after a few that
    warm the pool.
    """
    process = bench.place.target(target, case.flavour)
    if target not in case.warmed:
        pgbench_of(bench, case, clients=10).run_for(target, process, ["-t", "10"], LIMIT_S)
        case.warmed.add(target)
    with Watch(bench.place.postgres) as watch:
        figures = pgbench_of(bench, case).run_for(target, process, [], LIMIT_S)
    return figures | {"memory_mb": watch.memory_mb, "connections": watch.connections}


def pgecons():
    common = {"flavour": "session", "script": BSC}
    pooled = {**common, "targets": tuple(POOLERS)}
    means = ("tps", "mean_ms", "cpu_us")
    three = (*means, "begin_ms", "select_ms", "commit_ms")
    beyond = {"script": BSC, "targets": ("postgresql", *POOLERS)}
    return [
        Case("pgecons-1", "1 client that connects for each transaction", transactions, 1,
             SIMPLE + EACH, keeps=means, **common),
        *(Case(f"pgecons-2-{pool}", f"4 and {MANY} clients; pooled: connect each, {pool} servers",
               clients_beyond_cores, 4, SIMPLE, flavour=f"session_{pool}", **beyond)
          for pool in (4, 8)),
        Case("pgecons-3", "1 client, statement by statement", statement_times, 1, SIMPLE,
             keeps=three, **common),
        Case("pgecons-4", "1 client that connects for each transaction, against once",
             cost_of_connecting, 1, SIMPLE, **pooled),
        Case("pgecons-5", "as pgecons-3 with TLS on both sides", statement_times, 1, SIMPLE,
             keeps=three, sslmode="require", **{**common, "flavour": "session_tls"}),
        Case("pgecons-6", f"one client reads {BULK_ROWS} rows, {BULK_TIMES} times", bulk_read,
             flavour="session"),
    ]


def polska():
    figures = ("tps", "mean_ms", "initial_ms", "cpu_us")
    crowd = (*figures, "memory_mb", "connections")
    beside = ("postgresql", *POOLERS)
    return [
        *(Case(f"polska-{clients}", f"TPC-B, {client_count(clients)}", transactions, clients, TPCB,
               keeps=figures, targets=beside) for clients in (1, 10, 100)),
        Case("polska-500", "TPC-B, 500 clients, 50 transactions each", so_many_each, 500,
             (*TPCB, "-t", "50"), keeps=crowd, targets=beside),
        *(Case(f"polska-4000-{name}", f"{says}, 4000 clients, 5 transactions each; {mode} mode",
               so_many_each, 4000, (*words, "-t", "5"), keeps=crowd, flavour=flavour,
               targets=tuple(POOLERS))
          for name, says, words, mode, flavour in (
              ("tpcb", "TPC-B", TPCB, "transaction", "pool_100"),
              ("session", "TPC-B", TPCB, "session", "session"),
              ("select", "SELECT only", ("-S", *SIMPLE), "transaction", "pool_100"))),
    ]


def published_cases():
    return [
        *pgecons(),
        *polska(),
        Case("cybertec", "SELECT only, 8 clients that connect for each", transactions, 8,
             ("-S", "-C", "-j", "8"), keeps=("tps", "connect_ms", "cpu_us")),
        Case("compose", "TPC-B, 50 clients, 4 threads of pgbench, pool of 20", transactions, 50,
             (*TPCB, "-j", "4"), keeps=("tps", "mean_ms", "initial_ms", "cpu_us")),
    ]
