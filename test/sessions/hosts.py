# SPDX-License-Identifier: ISC
"""Where sessions are played: one PostgreSQL, or a primary with a standby (--roles)."""

import signal
import threading

from e2e.kit.cluster import Cluster
from e2e.kit.postgres import Postgres
from e2e.kit.wait import wait_until

from .grammar import PRELUDE

WATCHER = "carol"


class One:
    """PostgreSQL without a standby."""

    connect_query = PRELUDE
    standby = None
    settings = {}

    def __init__(self, account, place, template, **settings):
        self.primary = Postgres(account, place, template, "pg", **settings)

    def start(self):
        self.primary.start()
        return self

    def wait_replayed(self):
        pass

    def entry(self):
        return f"connect_query='{self.connect_query}'"

    def end(self):
        self.primary.stop(signal.SIGQUIT)


class Pair(One):
    """A primary and its standby. Reads go to the standby, as route_reads says."""

    # A standby refuses temporary tables.
    connect_query = f"DO $$ BEGIN IF NOT pg_is_in_recovery() THEN {PRELUDE}; END IF; END $$"

    def __init__(self, account, place, template, route_reads, **settings):
        self.cluster = Cluster(account, place, template, "host", standbys=1, **settings)
        self.primary, self.standby = self.cluster.hosts
        self.settings = {"route_reads": route_reads, "causal_reads": "session", "host_check_user": WATCHER}
        self.lock = threading.Lock()

    def start(self):
        self.cluster.start()
        self.sent, self.replayed = self.primary.connect("postgres"), self.standby.connect("postgres")
        return self

    def wait_replayed(self):
        """Until the standby has what other clients have written so far."""
        with self.lock:
            (position,) = self.sent.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
            wait_until(lambda: self.has_replayed(position), what=f"the standby at {position}")

    def has_replayed(self, position):
        return self.replayed.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [position]).fetchone()[0]

    def entry(self):
        return (f"host={self.cluster.host_list} port={self.cluster.port} target_session_attrs=primary"
                f" {super().entry()}")

    def end(self):
        self.cluster.stop()
