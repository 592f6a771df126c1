# SPDX-License-Identifier: ISC
"""A client of the scripts' own pool that must never see what a script does to its session."""

import threading

import psycopg

from .stage import DATABASE, USER

PAUSE_S = 0.02

# Names that a client gives at startup are its own; reset_val is what the server began with.
LOOK = """
SELECT 'user ' || current_user || ', ' || session_user
 WHERE (current_user, session_user) <> ('postgres', 'postgres')
UNION ALL SELECT name || ' = ' || setting FROM pg_catalog.pg_settings
 WHERE source = 'session' AND setting IS DISTINCT FROM reset_val
   AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone',
                    'IntervalStyle')
UNION ALL SELECT 'a channel ' || pg_catalog.pg_listening_channels()
UNION ALL SELECT 'a cursor ' || name FROM pg_catalog.pg_cursors WHERE is_holdable
UNION ALL SELECT 'a temporary relation ' || relname FROM pg_catalog.pg_class
 WHERE relnamespace = pg_catalog.pg_my_temp_schema()
UNION ALL SELECT 'an advisory lock' FROM pg_catalog.pg_locks
 WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid()
"""
OWN = "SELECT current_setting('TimeZone'), current_setting('IntervalStyle')"
OWN_VALUES = ("Asia/Tokyo", "iso_8601")


def connect(port):
    return psycopg.connect(host="127.0.0.1", port=port, dbname=DATABASE, user=USER,
                           autocommit=True, prepare_threshold=None, connect_timeout=10,
                           application_name="bystander",
                           options="-c TimeZone=Asia/Tokyo -c intervalstyle=iso_8601")


def open_servers(port, count):
    """Has the pool open as many servers as it may."""
    connections = [connect(port) for _ in range(count)]
    for connection in connections:
        connection.execute("BEGIN")
    for connection in connections:
        connection.execute("COMMIT")
        connection.close()


class Bystander(threading.Thread):
    """Looks at its session all the time; `seen` has what was not its own."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.seen = set()
        self.looks = 0
        self._is_over = threading.Event()

    def run(self):
        try:
            with connect(self.port) as connection:
                while not (self.looks and self._is_over.wait(PAUSE_S)):
                    self._look(connection)
        except psycopg.Error as error:
            self.seen.add(f"its connection failed: {error}")

    def _look(self, connection):
        self.seen.update(row[0] for row in connection.execute(LOOK))
        own = connection.execute(OWN).fetchone()
        if own != OWN_VALUES:
            self.seen.add(f"its own parameters are {own}")
        self.looks += 1

    def end(self):
        self._is_over.set()
        self.join(30)
        if self.is_alive():
            self.seen.add("it has waited for a server for 30 s after the script")
        return sorted(self.seen)
