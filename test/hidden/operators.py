# SPDX-License-Identifier: ISC
"""Those who are connected to PostgreSQL directly: they replace functions, make new ones, and notify."""

import psycopg

from attack.scene import Actor

BODIES = ("LANGUAGE plpgsql AS 'BEGIN EXECUTE sql; END'", "LANGUAGE plpgsql AS 'BEGIN PERFORM h_exec(sql); END'",
          "LANGUAGE sql AS 'SELECT h_exec($1)'")
DROP_OTHERS = """DO $$ DECLARE f regprocedure; BEGIN
	FOR f IN SELECT oid FROM pg_proc WHERE proname LIKE 'h\\_own\\_%' LOOP EXECUTE 'DROP FUNCTION ' || f; END LOOP;
	END $$"""


class Direct(Actor):
    database = "app"

    def run_texts(self, *texts):
        try:
            with self.scene.postgres.connect(self.database) as connection:
                for text in texts:
                    connection.execute(text)
        except psycopg.Error as problem:
            self.scene.count(f"direct: {str(problem).splitlines()[0][:60]}")


class Swapper(Direct):
    """Gives a function another body."""

    pause = 0.3

    def step(self):
        body = self.rng.choice(BODIES)
        self.run_texts(f"CREATE OR REPLACE FUNCTION h_swapped(sql text) RETURNS void {body}")
        self.scene.count("functions replaced")


class Maker(Direct):
    """Makes a function in a database that had none, which pgweir can only learn from PostgreSQL's counts,
    and drops it again, with those that others have left.
    """

    database = "app2"
    serial = 0

    def step(self):
        self.scene.is_over.wait(2)
        self.serial += 1
        name = f"public.new_{self.serial}"
        self.run_texts(f"CREATE FUNCTION {name}(v text) RETURNS text LANGUAGE sql"
                       " AS 'SELECT set_config(''hid.b'', $1, false)'")
        self.scene.gap_function = name
        self.scene.is_over.wait(1.5)
        self.scene.gap_function = None
        self.run_texts(f"DROP FUNCTION {name}(text)", DROP_OTHERS)
        self.scene.count("functions made directly")


class Notifier(Direct):
    """Notifies channels that some client listens to, or that a server perhaps still does."""

    pause = 0.05

    def step(self):
        channels = list(self.scene.channels)
        if channels:
            for self.database in ("app", "app2"):
                self.run_texts(*(f"NOTIFY {self.rng.choice(channels)}" for _ in range(5)))
