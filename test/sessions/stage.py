# SPDX-License-Identifier: ISC
"""PostgreSQL, pgweir, and the clients that keep its servers changing."""

import itertools
import threading
import time

import psycopg

from e2e.kit.wire import Wire

from .compare import Verdict, compare, shrink
from .grammar import INSPECT, LANE, LANE_DROP, OBJECTS, SETUP, SIDES
from .player import PATIENCE, Player, fill
from .writer import Writer

DIRECT, POOLED = "app2", "app"
DIRECT_LIMIT = 5  # seconds: then it waits for itself, for example for a lock of its prepared transaction
STEPS_PER_LOOK = 5
LANES_KEPT = 60  # the objects of a lane are dropped when so many others have begun


def prepare_database(postgres):
    for statement in SETUP.strip().splitlines():
        postgres.query(statement)
    for name in (DIRECT, POOLED):
        postgres.query(OBJECTS, dbname=name)
        postgres.query(f"ALTER DATABASE {name} SET app.from_database = 'from the database'")
        postgres.query("CREATE EXTENSION IF NOT EXISTS dblink", dbname=name)


class Companion:
    """A direct connection of the superuser to one database."""

    def __init__(self, postgres, database):
        self.connection = postgres.connect(database)
        self.connection.execute("SET lock_timeout = '1s'")
        self.lock = threading.Lock()

    def run(self, text):
        with self.lock:
            self.connection.execute(text)

    def try_run(self, text):
        try:
            self.run(text)
        except psycopg.Error:
            pass  # of a client that is still at work, or of a session that dropped it


def seen_by(wire, clean):
    """What is not as in the row of a clean server."""
    result = wire.query(INSPECT)
    if result.errors:
        return result.errors[0]
    return {column.name: (now or "nothing")[:60]
            for column, now, then in zip(result.columns, result.rows[0], clean) if now != then}


class Stage:
    def __init__(self, address, hosts, seed, features, busy, servers, renew, show):
        self.address, self.hosts = address, hosts
        self.postgres = postgres = hosts.primary
        self.seed, self.features = seed, features
        self.lanes = itertools.count(1000001)
        self.steps = itertools.count(1)
        self.used = []
        self.lock = threading.Lock()
        self.is_over = threading.Event()
        self.problems = []
        self.counts = {}
        self.servers = servers
        self.renew = renew
        self.show = show
        self.looks_due = threading.Semaphore(0)
        self.clean = {user: self.clean_row(user) for user in ("alice", "boss")}
        self.companions = {name: Companion(postgres, name) for name in (DIRECT, POOLED)}
        self.dblink = f"host={postgres.host} port={postgres.port} dbname=app3 user=alice"
        self.threads = [threading.Thread(target=self.guarded, args=(self.look, number), daemon=True)
                        for number in range(2)]
        self.threads += [threading.Thread(target=self.guarded, args=(self.be_busy, number), daemon=True)
                         for number in range(busy)]

    def clean_row(self, user):
        with Wire((self.postgres.host, self.postgres.port)).login(user, POOLED) as wire:
            return wire.query(INSPECT).rows[0]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.looks_due.release(len(self.threads))
        for thread in self.threads:
            thread.join(60)
            if thread.is_alive():
                self.problems.append("a busy client did not come to its end")
        for companion in self.companions.values():
            companion.connection.close()

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    # -- lanes --------------------------------------------------------------------------------

    def open_lane(self, databases):
        with self.lock:
            lane = next(self.lanes)
        names = {"n": str(lane), "dblink": self.dblink}
        for name in databases:
            self.companions[name].run(fill(LANE, names))
        self.hosts.wait_replayed()
        return names

    def close_lane(self, names, databases):
        """Its session is over. But a server may still be at work for it."""
        with self.lock:
            self.used.append((names["n"], databases))
            old = self.used.pop(0) if len(self.used) > LANES_KEPT else None
        if old:
            self.drop_lane(*old)

    def drop_lane(self, lane, databases):
        for name in databases:
            for text in LANE_DROP:
                self.companions[name].try_run(fill(text, {"n": lane, "side": SIDES[name]}))

    # -- other clients ------------------------------------------------------------------------

    def guarded(self, work, number):
        try:
            while not self.is_over.is_set():
                work(number)
        except Exception as problem:  # reported at the end
            self.problems.append(f"{work.__name__} {number}: {type(problem).__name__}: {problem}")
            self.is_over.set()

    def look(self, number):
        """A client without any state: it must never see any."""
        user = ("alice", "boss")[number % 2]
        with Wire(self.address, 60).login(user, POOLED) as wire:
            while True:
                self.looks_due.acquire()
                if self.is_over.is_set():
                    return
                if number:
                    wire.query("BEGIN")
                foreign = seen_by(wire, self.clean[user])
                if foreign:
                    self.note_problem(f"a client without state sees {foreign}")
                if number:
                    wire.query("COMMIT")
                self.count("looks")

    def note_problem(self, problem):
        if problem not in self.problems:
            self.problems.append(problem)

    def be_busy(self, number):
        """Sessions whose answers are not compared; they leave their state behind."""
        for turn in itertools.count():
            if self.is_over.is_set():
                return
            names = self.open_lane((POOLED,))
            writer = Writer(f"{self.seed} busy {number} {turn}", self.features)
            player = Player(self.address, POOLED, self.companions[POOLED].run, names)
            player.play(writer.session())
            self.close_lane(names, (POOLED,))
            self.count("busy sessions")

    # -- one session --------------------------------------------------------------------------

    def on_step(self):
        """A session has played a step: one look for so many."""
        if next(self.steps) % STEPS_PER_LOOK == 0:
            self.looks_due.release()

    def judge(self, session, patience=PATIENCE):
        names = self.open_lane((DIRECT, POOLED))
        verdict = self.compare(session, patience, names)
        self.close_lane(names, (DIRECT, POOLED))
        return verdict

    def compare(self, session, patience, names):
        player = Player((self.postgres.host, self.postgres.port), DIRECT, self.companions[DIRECT].run, names)
        player.has_prelude, player.limit = True, DIRECT_LIMIT
        direct = player.play(session)
        if direct.end:
            return Verdict("skipped", direct.end)
        player = Player(self.address, POOLED, self.companions[POOLED].run, names, direct)
        player.patience, player.on_step, player.on_hang = patience, self.on_step, self.show
        return compare(direct, player.play(session), self.hosts.settings.get("route_reads", "off") != "off")

    def judge_closely(self, session, patience=PATIENCE):
        """Sees also what the session has left on the servers that are free afterwards."""
        verdict = self.judge(session, patience)
        foreign = self.probe(session.user)
        if foreign and verdict.what != "differs":
            verdict = Verdict("differs", f"afterwards another client sees {foreign}")
        return verdict

    def probe(self, user):
        """What a client without state sees on the servers that are free now."""
        with Wire(self.address, 60).login(user, POOLED) as wire:
            for _ in range(self.servers + 1):
                foreign = seen_by(wire, self.clean[user])
                if foreign:
                    self.renew()  # so that the next session begins with clean servers
                    return foreign
        return None

    def differs(self, session, tries=2):
        return any(self.judge_closely(session, 2).what == "differs" for _ in range(tries))

    def shorten(self, session, seconds):
        end = time.monotonic() + seconds
        return shrink(session, self.differs, lambda: time.monotonic() < end and not self.is_over.is_set())
