# SPDX-License-Identifier: ISC
"""Writes random sessions.

A session is a user, its startup parameters, and steps. Each step is one tuple of plain values, so
that a session can be printed, pasted and shortened:

    ("query", flags, [text, ...])            one simple Query with all texts
    ("extended", flags, [item, ...])         one batch of the extended protocol, with its Sync
        ("run", name, text, values, limit)   Parse (after a Close, if it has a name), Bind, Describe, Execute
        ("again", name, values, limit)       Bind, Describe, Execute
    ("copy", flags, text, [line, ...], end)  COPY FROM STDIN; end: "done" or "fail"
    ("notify", flags, channel, payload)      another client notifies, and commits before the next step

Flags: "p": the next step is sent without waiting for the response; "c": sent in two pieces.
Every step has exactly one ReadyForQuery.
"""

import ast
import random
import re
from collections import namedtuple

from .grammar import CHANNELS, COMMON, CONSTANT, FEATURES, HIDDEN_TABLE, PREPARES, Grammar

Session = namedtuple("Session", "user startup steps")

STARTUP = {
    "application_name": ("a program", ""),
    "client_encoding": ("UTF8", "LATIN1"),
    "search_path": ("s1", "s2, public"),
    "DateStyle": ("SQL, DMY",),
    "TimeZone": ("Asia/Tokyo",),
    "work_mem": ("5MB",),
    "default_transaction_isolation": ("repeatable read",),
    "app.tenant": ("from startup",),
    "options": ("-c enable_seqscan=off -c app.user_id=options", "-c standard_conforming_strings=off"),
}

NAMES = ("s1", "s2", "s3")

# UNLISTEN that is not seen: in one text that goes back to a savepoint and ends its transaction, and
# in a procedure.
IN_PROCEDURE = re.compile(r"CALL.*UNLISTEN|DO .*UNLISTEN.*ROLLBACK", re.S)  # in the extended protocol
UNSEEN_UNLISTEN = re.compile(r"UNLISTEN.*ROLLBACK TO.*(COMMIT|END)", re.S)


class Writer:
    def __init__(self, seed, features=None, length=30, reads_only=0):
        """reads_only: the share of sessions whose startup packet says that they only read."""
        self.rng = random.Random(seed)
        self.reads_only = reads_only
        self.length = length
        allowed = [name for name in features or FEATURES if name not in ("startup", "names")]
        self.has_startup = "startup" in (features or FEATURES)
        self.has_names = "names" in (features or FEATURES)
        chosen = self.rng.sample(allowed, self.rng.randint(1, min(4, len(allowed))))
        if {"notifications", "two_phase"} <= set(chosen):
            chosen.remove("two_phase")  # see Grammar.transaction()
        kinds = list(COMMON)
        for feature in chosen:
            kinds += FEATURES[feature] * 2
        self.features = chosen
        self.user = self.rng.choice(("alice", "alice", "boss"))
        self.grammar = Grammar(self.rng, self.user == "boss", kinds)
        self.names = {}

    def session(self):
        startup = {name: self.rng.choice(values) for name, values in STARTUP.items()
                   if self.has_startup and self.rng.random() < 0.12}
        if self.reads_only and self.rng.random() < self.reads_only:
            startup["default_transaction_read_only"] = "on"
        steps = [self.step() for _ in range(self.rng.randint(3, self.length))]
        return Session(self.user, startup, steps)

    def step(self):
        kinds = (self.simple,) * 10 + (self.several, self.several) + (self.extended,) * 6 + (self.copy,)
        if "notifications" in self.features:
            kinds += (self.notify,) * 3
        return self.rng.choice(kinds)()

    def flags(self):
        return ("p" if self.rng.random() < 0.15 else "") + ("c" if self.rng.random() < 0.1 else "")

    def simple(self):
        return ("query", self.flags(), [self.disguised(self.grammar.text())])

    def several(self):
        texts = [self.followed() for _ in range(self.rng.randint(2, 4))]
        while UNSEEN_UNLISTEN.search("; ".join(texts)):
            texts = [self.followed() for _ in range(self.rng.randint(2, 4))]
        return ("query", self.flags(), texts)

    def followed(self):
        """A text that pgweir follows wherever it is."""
        while True:
            text = self.grammar.text()
            if "prepare_anywhere" in self.features or not PREPARES.match(text):
                return text

    def named(self):
        """A text for a named statement, which may be prepared again: a temporary table must not hide
        what it reads, no parameter may change it, and it must not remove itself.
        """
        while True:
            text = self.followed()
            may_hide = "temporary" in self.features and HIDDEN_TABLE.search(text)
            if not may_hide and text not in ("DEALLOCATE ALL", CONSTANT):
                return text

    def disguised(self, text):
        """Comments and case change nothing for PostgreSQL."""
        chance = self.rng.random()
        if chance > 0.12 or "'" in text or "$" in text or '"' in text or "--" in text:
            return text
        if chance < 0.04:
            return text.upper().replace("{N}", "{n}")
        if chance < 0.08:
            return " /* so */ " + text.replace(" ", " /* SET /* x */ */\n\t", 1) + " ; -- LISTEN"
        return text.replace(" ", "\t--'\n", 1) + ";;"

    def extended(self):
        count = self.rng.choice((1, 1, 1, 2, 3))
        return ("extended", self.flags(), [self.item() for _ in range(count)])

    def item(self):
        if self.names and self.rng.random() < 0.35:
            name = self.rng.choice(sorted(self.names))
            return ("again", name, self.names[name], self.limit())
        name = self.rng.choice(("", "", *NAMES)) if self.has_names else ""
        text, values = self.named() if name else self.grammar.text(), ()
        while IN_PROCEDURE.search(text):
            text = self.named() if name else self.grammar.text()
        if "parameters" in self.features and self.rng.random() < 0.25:
            text, values = self.grammar.set_config_bound()
        if name:
            self.names[name] = values
        return ("run", name, text, values, self.limit())

    def limit(self):
        return self.rng.choice((0, 0, 0, 0, 1))

    def copy(self):
        table = self.rng.choice(("public.own_{n} (v)", "own_{n} (v)", "t1 (name)", "pg_temp.t2 (name)", "which (name)"))
        lines = [self.rng.choice(("one", "two", "too\tmany", "\\N")) for _ in range(self.rng.randint(0, 3))]
        return ("copy", self.flags(), f"COPY {table} FROM STDIN", lines, self.rng.choice(("done", "done", "fail")))

    def notify(self):
        return ("notify", "", self.rng.choice(CHANNELS), str(self.rng.randrange(1000)))


def parse_session(text):
    """Reads what show_session() has printed."""
    user, startup, steps = ast.literal_eval(text)
    return Session(user, startup, [tuple(step) for step in steps])


def show_session(session):
    lines = "\n".join(f"    {step!r}," for step in session.steps)
    return f"({session.user!r}, {session.startup!r}, [\n{lines}\n])"
