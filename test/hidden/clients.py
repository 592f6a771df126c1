# SPDX-License-Identifier: ISC
"""Clients that make session state in hidden ways, and look at what they find of it.

Every value has the mark of the connection that made it. So a client knows which of the values that
it finds are its own, and needs no other run to compare with. A value of another connection is
foreign, and never allowed. One of its own that is gone, or is there again, is counted.
"""

import collections
import copy
import re
import threading

from attack.guest import Guest
from attack.scene import Disturbed, Finding
from e2e.kit.wire import query

from .ways import INSPECT, PARAMETERS, Step, acts, choose, choose_plain

MARK = re.compile(r"c(\d+)_(\d+)_(\d+)")
NUMBERED = re.compile(r"^(\d{6,})(?:kB|ms)?$")
OWNED = re.compile(r"^[rs](\d+)\b")
SETS = ("tables", "cursors", "locks")
DEFAULTS = {"hid.a": "", "hid.b": "", "hid.c": "", "search_path": '"$user", public', "work_mem": "4MB",
            "statement_timeout": "0", "role": "none", "tables": frozenset(), "cursors": frozenset(),
            "locks": frozenset()}
MARKS_KEPT = 200000
PATIENCE_WITH_PINS = 5  # steps for which a client keeps what makes a server stay
# Of pgweir or PostgreSQL, and never in order.
WRONG = re.compile("XX|08|26000|42P05|34000")
WHICH = "SELECT name, current_setting('search_path') FROM which"


class Book:
    """What was found, by the way in which the state was made."""

    def __init__(self):
        self._lock = threading.Lock()
        self.made = {}  # a mark or number -> its way
        self.counts = collections.Counter()  # (what, way) -> number
        self.kinds = collections.Counter()  # (what, kind) -> number
        self.examples = {}

    def note(self, what, way, kind, example):
        with self._lock:
            self.counts[what, way] += 1
            self.kinds[what, kind] += 1
            self.examples.setdefault((what, way, kind), example)

    def count(self, what, way):
        with self._lock:
            self.counts[what, way] += 1

    def make(self, mark, way):
        with self._lock:
            self.made[mark] = way
            if len(self.made) > MARKS_KEPT:
                del self.made[next(iter(self.made))]

    def way_of(self, mark):
        return self.made.get(mark, "an earlier state")


class Hidden(Guest):
    entry = "app"

    def __init__(self, scene, number):
        super().__init__(scene, number)
        self.name = f"{type(self).__name__} {number}"
        self.own, self.begun, self.ever = {}, None, set()

    # -- who made what ------------------------------------------------------------------------

    def options(self):
        """Its connection has the number of the login."""
        self.serial_of_act = 0
        self.pins_since = None
        self.begun = None
        mark = self.next_mark("startup packet")
        self.at_startup = {**DEFAULTS, "application_name": mark}
        more = {"application_name": mark}
        if self.rng.random() < 0.4:
            self.at_startup["hid.c"] = mark
            more["options"] = f"-c hid.c={mark}"
        self.own = dict(self.at_startup)
        self.ways = dict.fromkeys(self.own, "startup packet")
        self.ever = set()
        return more

    def next_mark(self, way):
        mark = f"c{self.number}_{self.logins}_{self.serial_of_act}"
        self.scene.book.make(mark, way)
        return mark

    def number_of(self):
        """Its last two digits are odd, so that PostgreSQL shows it in the same unit."""
        return ((self.number + 10) * 100 + self.logins % 100) * 100 + self.serial_of_act % 50 * 2 + 1

    def is_own(self, kind, value):
        """Whether each mark of it is this connection's; values without a mark are nobody's."""
        for number, login, _ in MARK.findall(value):
            if (int(number), int(login)) != (self.number, self.logins):
                return False
        owned = OWNED.match(value) if kind in ("role", "search_path", "current_user") else None
        if owned and (int(owned.group(1)) != self.number or kind == "role" and kind not in self.ever):
            return False
        numbered = NUMBERED.match(value)
        return not numbered or int(numbered.group(1)) // 100 == self.number_of() // 100

    def either(self, text):
        how = self.rng.randrange(4)
        return query(text) if how < 2 else self.bound(text, (), how == 3 and len(text) < 60)

    # -- making ---------------------------------------------------------------------------------

    def act(self):
        self.serial_of_act += 1
        mark = self.next_mark("?")
        act = self.rng.choice(list(acts(mark, self.number_of(), self.number)))
        act, way, steps = self.choose(act)
        for each in (mark, str(self.number_of())):
            self.scene.book.make(each, way)
        is_in_block = self.begun is not None
        for step in steps:
            if is_in_block and not step.in_block:
                return
        for step in steps:
            # A function may fail behind what it has done to a lock.
            if step.acts:
                self.ever.add(act.kind)
            result = self.tell(step.sent)
            self.heed(result, way)
            if result.errors:
                break
            if step.acts:
                self.learn(act, way)
                self.scene.book.count("made", way)

    def choose(self, act):
        return act, *choose(self, act, self.scene.missing)

    def learn(self, act, way):
        self.ways[act.kind] = way
        if act.kind in SETS:
            self.own[act.kind] |= {act.value}
        elif act.kind in DEFAULTS or act.kind == "application_name":
            self.own[act.kind] = act.value
        if act.kind == "channels":
            self.scene.channels.append(act.value)

    def heed(self, result, way):
        """Errors, notifications, and the state of the transaction."""
        for got in result.messages:
            if got.type == "A":
                channel = got.body[4:].split(b"\0")[0].decode()
                if not self.is_own("channels", channel):
                    self.find_foreign("notifications", channel)
        for error in result.errors:
            self.scene.count(f"error {error['C']}")
            self.scene.book.count(f"error {error['C']}", way)
            self.scene.book.examples.setdefault(("error", way, error["C"]), error["M"])
            if WRONG.match(error["C"]):
                raise Finding(f"{way}: {error}")
        self.has_failed = result.status == "E"
        if result.status != "I" and self.begun is None and way != "BEGIN":
            self.tell(query("ROLLBACK"))  # a text has begun a block, and has failed within
            self.has_failed = False
        if result.status == "I":
            if self.begun and result.tags[-1:] != ["COMMIT"]:
                self.undo()
            self.begun = None

    def undo(self):
        """Session locks outlive a rollback."""
        self.own, self.ways = {**self.begun[0], "locks": self.own["locks"]}, self.begun[1]

    def begin(self):
        if self.begun is None:
            self.heed(self.tell(query("BEGIN")), "BEGIN")
            self.begun = (copy.copy(self.own), copy.copy(self.ways))

    def end(self):
        if self.begun is not None:
            self.heed(self.tell(query(self.rng.choice(("COMMIT", "COMMIT", "ROLLBACK")))), "COMMIT")

    def clean(self):
        if self.begun is not None:
            self.end()
        how = self.rng.randrange(3)
        if how == 0:
            self.heed(self.tell(query("DISCARD ALL")), "DISCARD ALL")
            self.known.clear()
            self.own = dict(self.at_startup)
            self.ways = dict.fromkeys(self.own, "DISCARD ALL")
        else:
            for text in ("RESET ROLE", "DISCARD TEMP", "CLOSE ALL", "SELECT pg_advisory_unlock_all()", "UNLISTEN *"):
                self.heed(self.tell(query(text)), "clean")
            self.own.update(tables=frozenset(), cursors=frozenset(), locks=frozenset(), role="none")
        self.pins_since = None

    # -- looking --------------------------------------------------------------------------------

    def look(self):
        result = self.tell(query(INSPECT) if self.rng.random() < 0.6 else self.bound(INSPECT, (), True))
        self.heed(result, "look")
        if result.rows:
            found = dict(zip((column.name for column in result.columns or self.columns), result.rows[0]))
            self.columns = result.columns or self.columns
            self.judge(found)

    def judge(self, found):
        book = self.scene.book
        book.count("looks", "all")
        for kind in ("current_user", *PARAMETERS, *SETS, "channels"):
            value = found[kind] or ""
            foreign = [part for part in (value.split() if kind in (*SETS, "channels") else [value])
                       if not self.is_own(kind, part)]
            if foreign:
                self.find_foreign(kind, foreign[0])
            elif kind not in ("channels", "current_user"):
                self.compare(kind, frozenset(value.split()) if kind in SETS else value)
        if found["role"] != "none" and found["current_user"] != found["role"]:
            self.find_foreign("current_user", found["current_user"])
        if found["session_user"] != "alice":
            self.find_foreign("session_user", found["session_user"])

    def compare(self, kind, value):
        wanted = self.own[kind]
        if value == wanted:
            return
        what = "came back" if wanted == self.at_startup[kind] else "lost"
        example = f"{self.name}: {kind} is {show(value)} instead of {show(wanted)}"
        if kind in SETS:
            for each in wanted ^ value:
                mark = MARK.search(each)
                self.scene.book.note("lost" if each in wanted else "came back",
                                     self.scene.book.way_of(mark.group() if mark else each), kind, example)
        else:
            self.scene.book.note(what, self.ways[kind], kind, example)
        self.own[kind] = value
        if self.begun:
            self.begun[0][kind] = value

    def find_foreign(self, kind, value):
        mark = MARK.search(value)
        number = NUMBERED.match(value)
        way = self.scene.book.way_of(mark.group() if mark else number.group(1) if number else value)
        what = "foreign within the gap" if value.startswith("gap ") else "foreign"
        self.scene.book.note(what, way, kind, f"{self.name}, connection {self.logins}: {kind} is {value}")

    def which(self):
        """Rows must be those of the search path that the same statement shows."""
        result = self.tell(self.bound(WHICH, (), True) if self.rng.random() < 0.7 else query(WHICH))
        self.heed(result, "which")
        for name, path in result.rows:
            wanted = path.split(",")[0] if OWNED.match(path) else "public"
            if name != wanted or not self.is_own("search_path", path):
                self.scene.book.note("wrong rows", "which", "rows", f"{self.name}: {name} with the path {path}")

    def ask_last(self):
        """A value of a sequence of its own, or an error."""
        result = self.tell(self.either(self.rng.choice(self.lasts)))
        self.heed(result, "lastval")
        for (value,) in result.rows:
            if int(value) // 1000000 != self.number:
                self.find_foreign("lastval", f"q{value}")

    lasts = ("SELECT lastval()", "SELECT h_last()")
    nexts = ("SELECT h_next('q{n}')", "SELECT nextval('q{n}')", "SELECT 1 WHERE h_next('q{n}') > 0")

    def ask_random(self):
        """Nobody else's seed must have made it."""
        result = self.tell(self.either("SELECT random()"))
        self.heed(result, "random")
        for (value,) in result.rows:
            owner = self.scene.seeded.get(value, self.number)
            if owner != self.number:
                self.find_foreign("seed", f"that of client {owner}")

    def take_next(self):
        self.heed(self.tell(self.either(self.rng.choice(self.nexts).format(n=self.number))), "nextval")

    # -- a step ---------------------------------------------------------------------------------

    def work(self):
        if any(self.own[kind] for kind in SETS):
            self.pins_since = self.pins_since or self.steps
            if self.steps - self.pins_since > PATIENCE_WITH_PINS:
                self.clean()
        else:
            self.pins_since = None
        self.steps += 1
        chance = self.rng.random()
        if self.begun is not None and chance < (0.8 if self.has_failed else 0.4):
            self.end()
        elif chance < 0.45:
            self.act()
        elif chance < 0.75:
            self.look()
        elif chance < 0.83:
            self.which()
        elif chance < 0.87:
            self.begin()
        elif chance < 0.90:
            self.take_next()
        elif chance < 0.93:
            self.ask_last()
        elif chance < 0.97:
            self.ask_random() if chance < 0.95 else self.heed(self.tell(self.either("SELECT 1")), "plain")
        elif chance < 0.985:
            self.clean()
        elif chance < 0.99:
            self.leave()
            raise Disturbed("another connection")

    steps = 0
    has_failed = False
    columns = ()
    kinds = [work]


class Plain(Hidden):
    """In a database whose catalog has nothing that could touch session state, most of the time."""

    entry = "app2"
    lasts = ("SELECT lastval()", "SELECT currval('q{n}')")
    nexts = ("SELECT nextval('q{n}')", "SELECT 1 WHERE nextval('q{n}') > 0")

    def choose(self, act):
        if act.name == "hid.b" and self.scene.gap_function and self.rng.random() < 0.5:
            act = act._replace(value=f"gap {act.value}")
            sent = query(f"SELECT {self.scene.gap_function}('{act.value}')")
            return act, "new function of others", [Step(sent, True, True)]
        while True:
            way, steps = choose_plain(self, act)
            if way != "own function" or self.rng.random() < 0.1:
                return act, way, steps

    def ask_last(self):
        result = self.tell(self.either(self.rng.choice(self.lasts).format(n=self.number)))
        self.heed(result, "lastval")
        for (value,) in result.rows:
            if int(value) // 1000000 != self.number:
                self.find_foreign("lastval", f"q{value}")


def show(value):
    return " ".join(sorted(value)) if isinstance(value, frozenset) else value
