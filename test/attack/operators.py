# SPDX-License-Identifier: ISC
"""Privileged actors: an administrator, a DBA who changes tables, a PostgreSQL that ends backends.
"""

import psycopg

from .scene import Actor


class Administrator(Actor):
    """Reloads, commands, take-overs. ENDS in honest.py lists what clients may notice of each."""

    pause = 0.2

    def step(self):
        what = self.rng.choice(self.deeds)
        what(self)
        self.scene.count(what.__name__.replace("_", " "))

    def reload(self):
        self.scene.weir.reload(
            default_pool_size=self.rng.choice((2, 3, 5)),
            max_prepared_statements=self.rng.choice((1, 3, 10, 200)),
            server_round_robin=self.rng.choice((0, 1)),
            server_lifetime=self.rng.choice((1, 3600)),
            late_begin=self.rng.choice((0, 1)),
            sbuf_loopcnt=self.rng.choice((1, 5)))

    def change_mode(self):
        weir, scene = self.scene.weir, self.scene
        mode = self.rng.choice(("session", "transaction"))
        with scene.mode_lock:
            entries = weir.sections["databases"]
            entries["app2"] = entries["app"] + f" pool_mode={mode}"
            weir.reload()
            scene.is_session_mode = mode == "session"

    def reconnect(self):
        self.scene.weir.admin("RECONNECT")

    def pause_and_resume(self):
        # Session mode would wait for its clients.
        self.scene.weir.admin("PAUSE app")
        self.scene.weir.admin("RESUME app")

    def kill_a_client(self):
        rows = [row for row in self.scene.weir.admin("SHOW CLIENTS") if row["database"] == "app"]
        if rows:
            self.scene.weir.ask_admin(f"KILL_CLIENT {self.rng.choice(rows)['id']}")

    def look_at_all(self):
        for what in ("CLIENTS", "SERVERS", "POOLS", "STATS", "WAITING", "LIMITS", "ERRORS", "MEM"):
            self.scene.weir.admin(f"SHOW {what}")

    def drain_and_resume(self):
        # Clients that do not leave within a second are disconnected.
        self.scene.weir.admin("DRAIN 1")
        self.scene.weir.admin("RESUME")

    def take_over(self):
        self.scene.weir.disconnect_console()
        self.scene.weir.take_over()

    deeds = ([reload] * 4 + [change_mode, reconnect, pause_and_resume, kill_a_client, kill_a_client,
                             look_at_all, look_at_all, drain_and_resume, take_over])

    def leave(self):
        self.scene.weir.disconnect_console()


class Architect(Actor):
    """Changes tables while statements of other clients use them."""

    pause = 0.3

    def step(self):
        try:
            with self.scene.postgres.connect("app") as connection:
                connection.execute("SET lock_timeout = '2s'")
                connection.execute(self.rng.choice((
                    "ALTER TABLE typed ALTER COLUMN v TYPE double precision",
                    "ALTER TABLE typed ALTER COLUMN v TYPE bigint",
                    "ALTER TABLE changing ADD COLUMN IF NOT EXISTS more text DEFAULT 'more'",
                    "ALTER TABLE changing DROP COLUMN IF EXISTS more")))
                self.scene.count("changes of tables")
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected,
                psycopg.OperationalError):
            pass  # blocks other clients, or is ended by the Reaper


class Reaper(Actor):
    """Ends backends, as an operator or a failover would."""

    pause = 1

    def step(self):
        pids = self.scene.postgres.backends(dbname="app")
        if pids:
            self.scene.postgres.query("SELECT pg_terminate_backend(%s)", self.rng.choice(pids))
            self.scene.count("backends ended")


class Operator(Administrator):
    """Does to one pool in transaction mode what must change nothing for its clients, or ends them."""

    pause = 0.5

    def reload(self):
        self.scene.weir.reload(default_pool_size=self.rng.choice((3, 4, 5)),
                               server_lifetime=self.rng.choice((1, 3600)),
                               max_prepared_statements=self.rng.choice((3, 200)))

    deeds = [reload, reload, Administrator.reconnect, Administrator.pause_and_resume,
             Administrator.kill_a_client, Administrator.look_at_all, Administrator.take_over]
