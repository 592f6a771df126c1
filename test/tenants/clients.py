# SPDX-License-Identifier: ISC
"""Clients of many tenants, each of which knows whose rows it must get."""

import threading

from attack.guest import Guest
from attack.scene import Disturbed, Finding
from e2e.kit.wire import query

# What a write gets that PostgreSQL believes to be nobody's: no right, no tenant, no such table.
NOBODYS = {"42501", "23502", "23514", "42P01", "42883"}
CANCELED = "57014"
ROWS_READ = 20


class Book:
    """What happened, by idiom."""

    KINDS = ("transactions", "rows", "foreign reads", "foreign writes", "lost")

    def __init__(self):
        self._lock = threading.Lock()
        self.counts = {}
        self.examples = {}
        self.stored = {}  # (database, table, writer) -> [certain, perhaps]

    def count(self, idiom, kind, number=1, example=None):
        with self._lock:
            row = self.counts.setdefault(idiom, dict.fromkeys(self.KINDS, 0))
            row[kind] += number
            if example and number:
                self.examples.setdefault((idiom, kind), example)

    def store(self, place, is_certain, number):
        with self._lock:
            self.stored.setdefault(place, [0, 0])[not is_certain] += number


class Tenant(Guest):
    """Works for one tenant after the other."""

    def __init__(self, scene, number, idiom, tenants, entry):
        super().__init__(scene, number)
        self.entry = entry
        self.idiom, self.tenants = idiom, tenants
        self.name = f"{idiom.name} {number}"
        self.tenant = None
        self.is_said = False  # outside of transactions, and PostgreSQL has agreed
        self.has_written = 0  # within the open transaction

    # -- saying the tenant --------------------------------------------------------------------

    def options(self):
        self.tenant, self.is_said, self.has_written, self.said = None, False, 0, b""
        if not self.idiom.startup:
            return {}
        self.tenant = self.rng.choice(self.tenants)
        self.is_said = True
        return {"options": self.idiom.startup.format(t=self.tenant)}

    def tell_all(self, parts):
        """Whether all went well; a cancel request may have come too late for an older statement."""
        for sent in parts:
            self.said = sent[:120]
            result = self.tell(sent)
            if result.errors:
                if result.error["C"] != CANCELED:
                    raise Finding(f"{self.idiom.name}: {result.error} after {sent[:200]}")
                return False
        return True

    def enter(self):
        if self.tenant and self.idiom.leave:
            self.is_said = False
            self.known.clear()  # it may be DISCARD ALL
            if not self.tell_all(self.idiom.leave(self, self.tenant)):
                return
        self.tenant = self.rng.choice(self.tenants)
        self.is_said = self.tell_all(self.idiom.enter(self, self.tenant))

    # -- work ---------------------------------------------------------------------------------

    def work(self):
        if self.idiom.begin:
            self.work_in_block(self.rng.choice(self.tenants))
            return
        if self.idiom.enter and (not self.is_said or self.rng.random() < 0.3):
            self.enter()
        if not self.is_said and self.idiom.enter:
            return
        if self.rng.random() < 0.4:
            self.work_in_block(None)
        else:
            self.read_or_write()
            self.settle(True)
            self.note("transactions")

    def work_in_block(self, tenant):
        """With a tenant, it is said within."""
        if self.tell(query(self.rng.choice(("BEGIN", "START TRANSACTION")))).errors:
            return  # canceled
        before = self.tenant
        if tenant:
            self.tenant = tenant
        if not tenant or self.tell_all(self.idiom.begin(self, tenant)):
            for _ in range(self.rng.randint(1, 3)):
                self.read_or_write()
        if self.rng.random() < 0.1:
            self.tell(query("SELECT 1 / 0"))
        result = self.tell(query(self.rng.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK"))))
        self.settle(result.tags == ["COMMIT"])
        if result.errors:
            self.tell(query("ROLLBACK"))
        if tenant:
            self.tenant = before
        self.note("transactions")

    def read_or_write(self):
        self.write() if self.rng.random() < 0.3 else self.read()

    def read(self):
        text = f"SELECT tenant FROM by_{self.idiom.table} ORDER BY id DESC LIMIT {ROWS_READ}"
        result = self.run_text(text)
        self.note("rows", len(result.rows))
        foreign = [row[0] for row in result.rows if row[0] != self.tenant]
        if foreign:
            self.note("foreign reads", len(foreign), f"{self.name} of {self.tenant} read rows of {foreign[0]}")
        elif self.is_within_error(result):
            return
        elif len(result.rows) != ROWS_READ and self.tenant:
            self.lose(f"{self.name} of {self.tenant} read {len(result.rows)} rows; {result.error}")

    def write(self):
        text = f"INSERT INTO by_{self.idiom.table} (writer) VALUES ('{self.tenant}') RETURNING tenant"
        self.has_written += 1
        result = self.run_text(text)
        if result.rows and result.rows[0][0] != self.tenant:
            self.note("foreign writes", 1, f"{self.name} of {self.tenant} wrote a row of {result.rows[0][0]}")
        if result.errors:
            self.has_written -= 1
            if not self.is_within_error(result) and self.tenant:
                self.lose(f"{self.name} of {self.tenant} could not write: {result.error}")

    def is_within_error(self, result):
        """Nothing is known after a cancel request, or in a transaction that has failed."""
        if not result.errors:
            return False
        if result.error["C"] not in NOBODYS | {CANCELED, "25P02"}:
            raise Finding(f"{result.error}")
        return result.error["C"] in (CANCELED, "25P02")

    def lose(self, example):
        self.note("lost", 1, f"{example}; it was said by {self.said}")
        self.is_said = bool(self.idiom.startup)

    def settle(self, is_committed):
        if self.has_written and is_committed:
            self.scene.book.store((self.entry, self.idiom.table, self.tenant), True, self.has_written)
        self.has_written = 0

    def note(self, kind, number=1, example=None):
        self.scene.book.count(self.idiom.name, kind, number, example)

    def drop(self):
        if self.has_written:
            self.scene.book.store((self.entry, self.idiom.table, self.tenant), False, self.has_written)
        super().drop()

    def come_again(self):
        self.leave()
        raise Disturbed("another connection")

    kinds = [work] * 40 + [Guest.cancel, Guest.late_cancel, come_again]


class Gentle(Tenant):
    """Without cancel requests, whose effect on what is known is not always certain."""

    kinds = [Tenant.work] * 40 + [Tenant.come_again]
