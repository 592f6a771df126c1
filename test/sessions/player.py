# SPDX-License-Identifier: ISC
"""Plays a session at one address and records every message of the response.

Notifications of other clients arrive when they arrive. They are recorded apart; what counts is
their order, and that each has come before the next step that waits, as far as it had come when the
session was played directly. Own notifications count as such, too, if a function in a SELECT may have
made them: pgweir does not recognize those.
"""

import re
import select
import struct
from collections import namedtuple

from e2e.kit.wire import (Closed, Refused, Wire, bind, close, cstr, describe, execute, message, parse, query,
                          sync)

from .compare import RECOVERY
from .grammar import CHANNELS, INSPECT, PRELUDE, SIDES

PATIENCE = 20  # seconds; detects a hang, nothing is measured with it
# What is another name elsewhere: the temporary schema, a prepared transaction, and a function in the
# context of an error, whose name is that of its first use on this server.
ELSEWHERE = re.compile(r"pg_(?:toast_)?(temp_)\d+|(?<=\bx\d{7})[dp]\b|(?<= function )public\.")
ELSEWHERE_BYTES = re.compile(ELSEWHERE.pattern.encode())
LISTENS = re.compile(r'LISTEN (c\d_|"C\d )', re.I)
OWN, OTHER = "own", "other"
COMPANION = b"from the companion"

# A function in a SELECT that notifies: pgweir does not recognize the notifications as own ones.
NOTIFIES_INSIDE = re.compile(r"SELECT public\.hid\w*\(.*notify", re.I | re.S)

# Where it is in doubt for pgweir whether an UNLISTEN was committed: with an error or a ROLLBACK TO in the
# same transaction, behind ends, in a function. Notifications may go on to come. Where it takes a later
# LISTEN for the same one: in a block that AND CHAIN continues.
END = r"\b(?:COMMIT|END|ROLLBACK(?! TO)|ABORT)\b"
IN_DOUBT = re.compile(rf"\bROLLBACK TO\b|{END}.*{END}|\bDO\b|\bCALL\b|\bhid", re.I | re.S)
RELISTENS = rf"UNLISTEN (?:\*|\W*{{0}}).*{END}.*(?<!UN)LISTEN \W*{{0}}"
# What a session has sent itself before the end of such a transaction; see Outcome.early.
LISTENS_LATE = rf"(?:NOTIFY |notify\(')\W*{{0}}.*{END}.*(?<!UN)LISTEN \W*{{0}}"

# What came in response to one step; texts: what it executed; notes: notifications up to the end of
# this step, if it waited; loose: channels whose notifications may go on to come.
Part = namedtuple("Part", "step texts messages notes loose")


class Outcome:
    """Everything that a session has received."""

    def __init__(self):
        self.parameters = {}
        self.parts = []
        self.end = None  # why the session ended early, if it did
        self.startup = {}
        # Notifications that were sent during a transaction which executed LISTEN or UNLISTEN.
        # pgweir sends them, and so does PostgreSQL to a session that listens already and has not
        # read them before. It promises only those that are committed after the transaction.
        self.early = set()

    def sure_notes(self, notes, loose):
        return [note for note in notes if note[1:] not in self.early and note[1] not in loose]


def encode(text):
    return text.encode("utf-8", "surrogateescape")


def build(step, names):
    kind = step[0]
    if kind == "query":
        return query(encode(fill("; ".join(step[2]), names)))
    if kind == "extended":
        return b"".join(build_item(item, names) for item in step[2]) + sync()
    if kind == "copy":
        text = encode(fill(step[2], names))
        lines = b"".join(message("d", encode(line + "\n")) for line in step[3])
        return query(text) + lines + (message("c") if step[4] == "done" else message("f", cstr("given up")))
    return query(b"")  # of "notify": behind it a notification has come, if there is one


def build_item(item, names):
    if item[0] == "run":
        _, name, text, values, limit = item
        begin = close("S", name) if name else b""
        begin += parse(encode(fill(text, names)), name)
    else:
        _, name, values, limit = item
        begin = b""
    values = tuple(encode(value) if isinstance(value, str) else value for value in values)
    return begin + bind(values, name) + describe() + execute("", limit)


def fill(text, names):
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    return text


class Player:
    has_prelude = False  # a server runs it as its connect_query
    limit = PATIENCE  # for a message
    patience = PATIENCE  # for notifications
    has_own_key = True  # its own notifications have the process ID of its cancel key

    def __init__(self, address, database, companion, names, direct=None):
        """companion: a function that runs a text as another client. direct: the outcome of the same
        session without pgweir, which says how many notifications to wait for.
        """
        self.address, self.database = address, database
        self.companion, self.direct = companion, direct
        self.names = {**names, "side": SIDES[database], "inspect": INSPECT}
        self.outcome = Outcome()
        self.notes = []
        self.sent_within, self.run_within = [], []  # notifications and texts of the open transaction
        self.loose = frozenset()
        # A standby has refused a statement, perhaps LISTEN or NOTIFY: the comparison ends there, and
        # notifications that came directly need not come.
        self.is_elsewhere = False
        self.texts = {}  # of named statements
        self.status = "I"
        self.unfinished = []  # what has come of a response
        self.on_step = lambda: None
        self.on_hang = lambda: None

    def play(self, session):
        try:
            with Wire(self.address, self.limit) as self.wire:
                self.wire.login(session.user, self.database, **session.startup)
                self.outcome.parameters = self.wire.parameters
                self.outcome.startup = session.startup
                self.knows_own = not NOTIFIES_INSIDE.search(repr(session.steps))
                if self.has_prelude:
                    self.wire.query(f"BEGIN READ WRITE; {PRELUDE}; COMMIT")
                self.play_steps(session.steps)
                self.play_end(session.steps)
                self.wire.send(message("X"))
        except (Closed, ConnectionError, Refused, TimeoutError) as problem:
            if isinstance(problem, TimeoutError):
                self.on_hang()  # while the connection is open
            self.outcome.end = f"{type(problem).__name__}: {problem}, behind {self.unfinished}"
        return self.outcome

    def play_steps(self, steps):
        owed = []
        for number, step in enumerate(steps):
            if step[0] == "notify" and not owed:
                self.notify(fill(step[2], self.names), f"from the companion {step[3]}")
            self.send(build(step, self.names), "c" in step[1])
            self.on_step()
            owed.append(step)
            if "p" not in step[1] or number == len(steps) - 1 or steps[number + 1][0] == "notify":
                self.hear_all(owed)
                owed = []

    def notify(self, channel, payload):
        self.companion(f"NOTIFY {channel}, '{payload}'")
        if self.status != "I":
            self.sent_within.append((channel, payload))

    def executed(self, step):
        """The texts that a step executes."""
        if step[0] != "extended":
            return tuple(step[2]) if step[0] == "query" else ()
        for item in step[2]:
            if item[0] == "run":
                self.texts[item[1]] = item[2]
        return tuple(item[2] if item[0] == "run" else self.texts.get(item[1], "") for item in step[2])

    def note_early(self, texts):
        if self.status == "I":
            self.sent_within, self.run_within = [], []
        self.run_within += texts
        for channel, payload in self.sent_within:
            if any("LISTEN" in text for text in self.run_within):
                self.outcome.early.add((channel.strip('"').encode(), payload.encode()))

    def note_loose(self, step, texts, has_failed):
        whole = fill("; ".join(self.run_within), self.names)
        channels = [fill(channel, self.names) for channel in CHANNELS]
        found = {channel for channel in channels for rule in (RELISTENS, LISTENS_LATE)
                 if re.search(rule.format(re.escape(channel.strip('"'))), whole, re.I | re.S)}
        ends_within = step[0] == "extended" and re.search(END, "; ".join(texts), re.I)
        if has_failed or ends_within or IN_DOUBT.search(whole):
            found |= set(channels) if "UNLISTEN" in whole else set()
        self.loose |= {channel.strip('"').encode() for channel in found}

    def send(self, data, in_pieces):
        if in_pieces:
            self.wire.send(data[:len(data) // 2])
            data = data[len(data) // 2:]
        self.wire.send(data)

    def hear_all(self, owed):
        for step in owed:
            texts = self.executed(step)
            self.note_early(texts)
            messages = self.hear()
            self.note_loose(step, texts, any(got[0] == "E" for got in messages))
            self.is_elsewhere |= any(got[0] == "E" and RECOVERY.search(got[4]) for got in messages)
            if self.direct and step is owed[-1]:
                self.wait_notes()
            notes = list(self.notes) if step is owed[-1] else None
            self.outcome.parts.append(Part(step, texts, messages, notes, self.loose))

    def hear(self):
        """Reads up to ReadyForQuery."""
        self.unfinished = messages = []
        while True:
            got = self.wire.read()
            self.keep(got, messages)
            if got.type == "Z":
                self.status = got.body.decode()
                return messages

    def keep(self, got, messages):
        if got.type == "A":
            note = self.note(got)
            self.notes.append(note)
            if note[0] == OTHER:
                return
        messages.append(normal(got) if got.type != "A" else ("A", *note))

    def note(self, got):
        (pid,) = struct.unpack_from("!I", got.body)
        channel, payload, _ = got.body[4:].split(b"\0")
        is_own = not payload.startswith(COMPANION)
        has_own_pid = pid == struct.unpack_from("!I", self.wire.key)[0]
        if is_own != has_own_pid and self.has_own_key and self.knows_own:
            return ("with a wrong process ID", channel, payload)
        return (OWN if is_own and self.knows_own else OTHER, channel, payload)

    def wait_notes(self):
        at = len(self.outcome.parts)
        parts = self.direct.parts
        notes = parts[at].notes if at < len(parts) else None
        wanted = len(self.direct.sure_notes(notes or [], self.loose))
        while len(self.direct.sure_notes(self.notes, self.loose)) < wanted and self.status == "I":
            patience = 0 if self.is_elsewhere else self.patience
            if not self.wire.buffer and not select.select([self.wire.sock], [], [], patience)[0]:
                return
            extra = []
            self.keep(self.wire.read(), extra)
            self.outcome.parts.append(Part(("between two steps",), (), extra, None, self.loose)) if extra else None

    def play_end(self, steps):
        """Shows the state at the end. Everything that was to be notified has come before the last
        notification.
        """
        self.play_steps([("query", "", ["ROLLBACK"])])
        if LISTENS.search(repr(steps)):
            end = fill("end_{n}", self.names)
            self.play_steps([("query", "", [f"LISTEN {end}"]), ("notify", "", end, "end")])


def normal(got):
    """The part of a message that must be equal."""
    if got.type in "EN":
        fields = got.fields
        return (got.type, *(clean(fields.get(letter)) for letter in "SVCMDHPW"), "R" in fields)
    if got.type == "T":
        return "T", tuple((column.name, custom(column.type), column.size, column.modifier, column.format)
                          for column in got.columns)
    return got.type, ELSEWHERE_BYTES.sub(b"", got.body)


def clean(text):
    return text and ELSEWHERE.sub("", text)


def custom(type_oid):
    """Types that a session or a database has made have other numbers elsewhere."""
    return type_oid if type_oid < 16384 else "custom"
