# SPDX-License-Identifier: ISC
"""Well-behaved clients that know which results they must get.

Every row that a client requests has a unique mark. A mark of another client, a missing or
duplicate row, a response to another request, an unexplained error, or no response at all is a
finding.
"""

import select
import struct

from e2e.kit.wire import (Closed, Message, Refused, bind, close, cstr, describe, execute, flush,
                          message, parse, query, send_cancel, sync, terminate)

from .scene import Actor, Disturbed, Finding

# Maximum time for a response. It detects a hang; nothing is measured with it.
PATIENCE = 60

# Errors with which an operator, or the end of a backend, may end a client connection.
ENDS = {"57P01", "08006", "57P02"}
# And those with which a login may be refused: the pooler is draining.
REFUSALS = ENDS | {"57P03"}

# A statement that a DO block has removed from a server fails once. test/attack/run checks how
# often.
MISSING = "26000"

INT8, FLOAT8 = 20, 701


class Unit:
    """Some messages, and the expected first column of the rows, in order."""

    def __init__(self, sent, marks, errors=()):
        self.sent = sent
        self.marks = list(marks)
        self.errors = set(errors)  # SQLSTATEs that may replace the remaining rows


class Honest(Actor):
    """A client in transaction mode."""

    database = "app"

    def __init__(self, scene, number):
        super().__init__(scene, f"{type(self).__name__} {number}")
        self.number = number
        self.user = ("alice", "bob")[number % 2]
        self.has_own_parameter = number % 4 < 2
        self.serial = 0
        self.wire = None
        self.names = {}  # statement name -> text
        self.told = None  # the type that Describe reported to typed_write()
        self.may_be_canceled = False

    # -- the connection -----------------------------------------------------------------------

    def login(self):
        self.names = {}
        self.told = None
        self.own = f"own-{self.number}-{self.mark()}"
        # If only application_name must be set, it is sent together with the first statement.
        more = {"options": f"-c attack.own={self.own}"} if self.has_own_parameter else {}
        self.log_in(self.database, application_name=self.own, **more)
        self.scene.count("logins")

    def connect(self):
        try:
            return self.scene.wire(PATIENCE)
        except (Closed, ConnectionResetError) as gone:
            if not self.scene.has_tls:
                raise
            raise Disturbed(gone) from gone

    def log_in(self, entry, **options):
        """Logs in, or says why that could not be."""
        wire = self.connect()
        try:
            self.wire = wire.login(self.user, entry, **options)
        except Refused as refused:
            wire.close()
            if refused.sqlstate in REFUSALS:
                raise Disturbed(refused) from refused
            raise Finding(f"the login was refused: {refused}") from refused
        except (Closed, ConnectionError) as gone:
            wire.close()
            raise Disturbed(gone) from gone

    def drop(self):
        if self.wire:
            self.wire.close()
        self.wire = None

    def step(self):
        try:
            if not self.wire:
                self.login()
            self.rng.choice(self.kinds)(self)
            self.scene.count("batches")
        except Disturbed:
            self.scene.count("disturbed")
            self.drop()
            self.scene.is_over.wait(0.05)  # while it drains, each login is refused
        except TimeoutError as late:
            raise Finding(f"no answer within {PATIENCE} s: {late}") from late

    def leave(self):
        if self.wire:
            self.wire.send(terminate())
        self.drop()

    def mark(self):
        self.serial += 1
        return f"m{self.number}.{self.serial}"

    # -- sending and reading ------------------------------------------------------------------

    def say(self, sent):
        """Sends in one piece most of the time, otherwise in pieces that end anywhere."""
        try:
            if self.rng.random() < 0.8:
                self.wire.send(sent)
                return
            while sent:
                cut = self.rng.choice((1, 2, 5, 6, 17, 400, 70000))
                self.wire.send(sent[:cut])
                sent = sent[cut:]
        except OSError:
            pass  # hear() reads the reason

    def hear(self):
        """Reads all messages up to ReadyForQuery."""
        messages, is_within = [], False
        try:
            while not messages or messages[-1].type != "Z":
                kind, length = struct.unpack("!cI", self.wire.take(5))
                is_within = True
                messages.append(Message(kind.decode("latin-1"), self.wire.take(length - 4)))
                is_within = False
                if messages[-1].type == "E" and messages[-1].fields.get("S") == "FATAL":
                    raise self.ended(messages[-1].fields)
        except Closed as gone:
            if is_within or self.wire.buffer:
                raise Disturbed("an error cannot be sent within a message") from gone
            raise Finding(f"closed without an error after {[got.type for got in messages]}") from gone
        return messages

    def ended(self, fields):
        if fields.get("C") in ENDS:
            return Disturbed(fields)
        return Finding(f"ended with {fields}")

    def judge(self, units, messages):
        """The marks must be those of the units, in order, and complete if there was no error."""
        wanted = [mark for unit in units for mark in unit.marks]
        allowed = {state for unit in units for state in unit.errors}
        if self.may_be_canceled:
            allowed.add("57014")
        allowed.add(MISSING)
        got = [mark_of(each) for each in messages if each.type in "Dd"]
        errors = [each.fields for each in messages if each.type == "E"]
        for error in errors:
            if error.get("C") not in allowed:
                raise Finding(f"an error without a reason: {error}; sent {self.describe(units)}")
        if got != wanted[:len(got)] or (not errors and got != wanted):
            raise Finding(f"asked for {short(wanted)} and got {short(got)};"
                          f" sent {self.describe(units)}")
        self.scene.count("rows", len(got))
        self.scene.count("statements missing", sum(error["C"] == MISSING for error in errors))
        return errors

    @staticmethod
    def describe(units):
        return [unit.sent[:300] for unit in units[:5]]

    def ask(self, *units):
        """Sends units; the last one must end with a Sync or be a Query."""
        self.say(b"".join(unit.sent for unit in units))
        messages = self.hear()
        errors = self.judge(units, messages)
        return messages, errors

    # -- requests -----------------------------------------------------------------------------

    def simple(self):
        mark = self.mark()
        self.ask(Unit(query(f"SELECT '{mark}'"), [mark]))

    def several_in_one(self):
        marks = [self.mark() for _ in range(self.rng.randint(2, 5))]
        self.ask(Unit(query("; ".join(f"SELECT '{mark}'" for mark in marks)), marks))

    def comment_first(self):
        mark = self.mark()
        text = "/* " + "x" * self.rng.choice((1, 1000, 200000)) + f" */ SELECT '{mark}'"
        self.ask(Unit(query(text), [mark]))

    def own_parameters(self):
        self.ask(Unit(query("SELECT current_setting('application_name')"), [self.own]))
        if self.has_own_parameter:
            self.ask(Unit(query("SELECT current_setting('attack.own')"), [self.own]))
        self.ask(Unit(query("SELECT current_user"), [self.user]))

    def unit(self):
        """One statement of the extended protocol, without a Sync."""
        mark = self.mark()
        what = self.rng.randrange(5)
        if what == 0:
            return Unit(parse("SELECT $1::text") + bind((mark,)) + execute(), [mark])
        if what == 1:
            limit = self.rng.randint(1, 4)
            return Unit(parse("SELECT $1::text FROM generate_series(1, 4)") + bind((mark,))
                        + describe() + execute("", limit), [mark] * limit)
        if what == 2 and self.names:
            name = self.rng.choice(sorted(self.names))
            return Unit(bind((mark,), name) + execute(), [mark])
        text = self.rng.choice(TEXTS)
        name = f"s{self.rng.randrange(8)}"
        sent = b""
        if self.names.get(name) != text:
            # Closed first, so that the name is free.
            sent = close("S", name) + parse(text, name)
            self.names[name] = text
        return Unit(sent + bind((mark,), name) + execute(), [mark])

    def batch(self, most=6):
        units = [self.unit() for _ in range(self.rng.randint(1, most))]
        if self.rng.random() < 0.2:
            units.insert(self.rng.randrange(len(units)), Unit(flush(), []))
        return units

    def pipeline(self, most=6):
        before = dict(self.names)
        _, errors = self.ask(*self.batch(most), Unit(sync(), []))
        if errors:
            self.forget_doubtful(before)

    def long_pipeline(self):
        self.pipeline(400)

    def failing_pipeline(self):
        """Messages after the failure are skipped, and their names do not exist."""
        before = dict(self.names)
        units = self.batch()
        at = self.rng.randrange(len(units) + 1)
        broken = Unit(parse("SELECT 1 / $1::int") + bind(("0",)) + execute(), [], {"22012"})
        _, errors = self.ask(*units[:at], broken, *units[at:], Unit(sync(), []))
        if not errors:
            raise Finding("a division by zero went well")
        self.forget_doubtful(before)

    def forget_doubtful(self, before):
        """After an error, only the server's responses show which names exist."""
        doubtful = sorted(name for name in set(before) | set(self.names)
                          if before.get(name) != self.names.get(name))
        if doubtful:
            self.ask(Unit(b"".join(close("S", name) for name in doubtful) + sync(), []))
        for name in doubtful:
            self.names.pop(name, None)

    def several_syncs(self):
        """Several batches in flight: responses arrive in order, one ReadyForQuery each."""
        before = dict(self.names)
        batches = [[*self.batch(3), Unit(sync(), [])] for _ in range(self.rng.randint(2, 5))]
        self.say(b"".join(unit.sent for batch in batches for unit in batch))
        if any([self.judge(batch, self.hear()) for batch in batches]):
            self.forget_doubtful(before)

    def portals(self):
        """Reads a portal in two parts, within a transaction."""
        mark = self.mark()
        self.ask(Unit(query("BEGIN"), []))
        self.ask(Unit(parse("SELECT $1::text FROM generate_series(1, 7)") + bind((mark,), "", "p")
                      + execute("p", 3) + sync(), [mark] * 3))
        self.ask(Unit(execute("p", 0) + sync(), [mark] * 4))
        self.ask(Unit(query(self.rng.choice(("COMMIT", "ROLLBACK"))), []))

    def sql_prepare(self):
        mark, name = self.mark(), f"q{self.rng.randrange(4)}"
        self.ask(Unit(query(f"PREPARE {name} AS SELECT '{mark}'"), []))
        self.ask(Unit(query(f"EXECUTE {name}"), [mark]))
        if self.rng.random() < 0.5:
            self.simple()
            self.ask(Unit(query(f"EXECUTE {name}"), [mark]))
        self.ask(Unit(query(f"DEALLOCATE {name}"), []))

    def forget_all(self):
        self.ask(Unit(query(self.rng.choice(("DEALLOCATE ALL", "DISCARD ALL"))), []))
        self.names = {}
        self.told = None

    def copy_out(self):
        mark, count = self.mark(), self.rng.choice((1, 10, 3000))
        self.ask(Unit(query(f"COPY (SELECT '{mark}' FROM generate_series(1, {count})) TO STDOUT"),
                      [mark] * count))

    def large_rows(self):
        mark = self.mark()
        size = self.rng.choice((9000, 70000, 400000))
        messages, _ = self.ask(Unit(query(f"SELECT '{mark}', repeat('x', {size})"), [mark]))
        row = next(got for got in messages if got.type == "D")
        if len(row.body) != 2 + 4 + len(mark) + 4 + size:
            raise Finding(f"a row of {size} bytes came as {len(row.body)}")

    def copy_in(self):
        """Successful, canceled by the client, or failing in the middle; simple or extended."""
        marks = [self.mark() for _ in range(self.rng.randint(1, 50))]
        lines = b"".join(message("d", f"{mark}\n".encode()) for mark in marks)
        text = "COPY written (mark) FROM STDIN"
        how = self.rng.randrange(3)
        is_simple = self.rng.random() < 0.5
        begin = query(text) if is_simple else parse(text) + bind() + execute()
        end = b"" if is_simple else sync()
        if how == 0:
            tried = Unit(begin + lines + message("c") + end, [])
        elif how == 1:
            tried = Unit(begin + lines + message("f", cstr("given up")) + end, [], {"57014"})
        else:
            broken = message("d", b"two\tcolumns\n")
            tried = Unit(begin + lines + broken + message("c") + end, [], {"22P04"})
        self.unsure(marks)
        _, errors = self.ask(tried)
        if bool(errors) != (how != 0):
            raise Finding(f"a COPY that should {'fail' if how else 'pass'}: {errors}")
        self.sure(marks, how == 0)

    def write(self):
        """A transaction that is committed or rolled back, or whose statement fails."""
        marks = [self.mark() for _ in range(self.rng.randint(1, 3))]
        how = self.rng.choice(("COMMIT", "COMMIT", "ROLLBACK", "fail"))
        self.unsure(marks)
        self.ask(Unit(query("BEGIN"), []))
        for mark in marks:
            self.ask(Unit(parse("INSERT INTO written VALUES ($1)") + bind((mark,)) + execute()
                          + sync(), []))
        if how == "fail":
            self.ask(Unit(query("SELECT 1 / 0"), [], {"22012"}))
            how = "ROLLBACK"
        self.ask(Unit(query(how), []))
        self.sure(marks, how == "COMMIT")

    def write_at_once(self):
        """Sends the whole transaction in one packet."""
        marks = [self.mark() for _ in range(3)]
        self.unsure(marks)
        insert = b"".join(parse("INSERT INTO written VALUES ($1)") + bind((mark,)) + execute()
                          for mark in marks)
        self.ask(Unit(insert + sync(), []))
        self.sure(marks, True)

    def unsure(self, marks):
        self.scene.ledger.unsure(marks)

    def sure(self, marks, is_there):
        self.scene.ledger.sure(marks, is_there)

    def typed_write(self):
        """Types are unspecified, Describe reports them, and the value is sent in binary
        accordingly.

        The column's type changes concurrently. The written value must be the one sent, or an error.
        """
        text = "INSERT INTO typed (mark, v) VALUES ($1, $2)"
        name = "typed"
        if not self.told:
            messages, errors = self.ask(Unit(close("S", name) + parse(text, name)
                                             + describe("S", name) + sync(), []))
            if errors:
                return
            told = [got for got in messages if got.type == "t"]
            if not told:
                raise Finding(f"no ParameterDescription: {[got.type for got in messages]}")
            (_, self.told) = struct.unpack("!II", told[0].body[2:10])
        value = self.rng.randint(1, 1000)
        raw = struct.pack("!q", value) if self.told == INT8 else struct.pack("!d", value)
        mark = self.mark()
        body = (cstr("") + cstr(name) + struct.pack("!HHH", 2, 0, 1) + struct.pack("!H", 2)
                + struct.pack("!I", len(mark)) + mark.encode()
                + struct.pack("!I", len(raw)) + raw + struct.pack("!H", 0))
        _, errors = self.ask(Unit(message("B", body) + execute() + sync(), [],
                                  {"0A000", "22P03", "22003", "42804", "40P01", "XX000"}))
        if errors:
            self.ask(Unit(close("S", name) + sync(), []))
            self.told = None
        else:
            self.scene.ledger.typed(mark, value)

    def changing_table(self):
        """Reads a table whose columns change. A plan that is out of date is PostgreSQL's own error."""
        mark = self.mark()
        _, errors = self.ask(Unit(parse("SELECT $1::text, * FROM changing") + bind((mark,))
                                  + describe() + execute() + sync(), [mark], {"0A000"}))
        if not errors:
            self.scene.count("reads of a changing table")

    def cancel(self):
        """A slow statement and a cancel request, which must not cancel another client's statement.
        """
        self.say(query("SELECT pg_sleep(60)"))
        self.may_be_canceled = True
        try:
            self.cancel_what_runs()
        finally:
            self.may_be_canceled = False

    def has_read(self):
        return self.wire.buffer or (self.scene.has_tls and self.wire.sock.pending())

    def cancel_what_runs(self):
        while not self.has_read() and not select.select([self.wire.sock], [], [], 0.1)[0]:
            # A cancel request may arrive too early.
            send_cancel(self.scene.weir.address, self.wire.key)
        messages = self.hear()
        if not any(got.type == "E" and got.fields["C"] == "57014" for got in messages):
            raise Finding(f"not canceled: {[got.type for got in messages]}")
        self.scene.count("canceled")

    def late_cancel(self):
        """A cancel request that races with the end of its statement may affect this client only."""
        self.say(query(f"SELECT '{self.mark()}'"))
        send_cancel(self.scene.weir.address, self.wire.key)
        self.may_be_canceled = True
        try:
            self.hear()
            mark = self.mark()
            self.ask(Unit(query(f"SELECT '{mark}'"), [mark]))
        finally:
            self.may_be_canceled = False

    def vanish(self):
        """Disconnects at a random point of a request."""
        units = self.batch()
        sent = b"".join(unit.sent for unit in units) + self.rng.choice((b"", sync()))
        if self.rng.random() < 0.3:
            sent = query("SELECT pg_sleep(0.01)") + sent
        self.say(sent[:self.rng.randint(1, len(sent))])
        if self.rng.random() < 0.5:
            self.wire.reset()
        self.drop()

    kinds = ([simple] * 6 + [several_in_one] * 3 + [own_parameters] * 2 + [pipeline] * 8
             + [failing_pipeline] * 4 + [several_syncs] * 4 + [portals] * 2 + [sql_prepare] * 3
             + [copy_out, copy_in, copy_in, large_rows, comment_first, long_pipeline]
             + [write] * 4 + [write_at_once] * 2 + [typed_write] * 3 + [changing_table] * 2
             + [forget_all, cancel, late_cancel, vanish])


# Several clients use these texts, so statements are shared, and there are too many for one server.
TEXTS = [f"SELECT $1::text{tail}" for tail in ("", " WHERE true", " LIMIT 1", ", 1", ", now()")]


class InSession(Actor):
    """A client that leaves much session state behind while its database is in session mode.

    The mode changes concurrently, before it disconnects or after. No other client may find any of
    the state. In transaction mode it leaves nothing: the next client would find it.
    """

    def __init__(self, scene, number):
        super().__init__(scene, f"InSession {number}")

    def step(self):
        try:
            with self.scene.wire(PATIENCE).login("alice", "app2") as wire:
                self.look(wire)
                with self.scene.mode_lock:
                    if self.scene.is_session_mode:
                        self.leave_behind(wire)
                if self.rng.random() < 0.5:
                    wire.query("SELECT 1")
                wire.send(terminate())
        except Refused as refused:
            if refused.sqlstate not in REFUSALS:
                raise
            self.scene.count("disturbed")
        except (Closed, ConnectionError):
            self.scene.count("disturbed")

    def leave_behind(self, wire):
        for text in ("SET SESSION AUTHORIZATION DEFAULT", "SET attack.left = 'behind'",
                     "CREATE TEMP TABLE IF NOT EXISTS left_behind (n int)",
                     "PREPARE left_behind AS SELECT 1", "SET statement_timeout = 4711"):
            wire.query(text)
        self.scene.count("sessions")

    def look(self, wire):
        """The first statement of a client must find no state of another client."""
        result = wire.query("SELECT to_regclass('pg_temp.left_behind') IS NULL,"
                            " coalesce(current_setting('attack.left', true), ''),"
                            " current_setting('statement_timeout'), (SELECT count(*)"
                            " FROM pg_prepared_statements WHERE name = 'left_behind')")
        if result.errors:
            if result.errors[0].get("S") == "FATAL":
                raise Closed("ended")
            raise Finding(f"{result.errors[0]}")
        if result.rows[0] != ["t", "", "0", "0"]:
            raise Finding(f"found what another client has left behind: {result.rows[0]}")


class Ledger:
    """Expected contents of the tables at the end."""

    def __init__(self, lock):
        self._lock = lock
        self._written = {}  # mark -> True, False, or None if unknown
        self._typed = {}

    def unsure(self, marks):
        with self._lock:
            self._written.update((mark, None) for mark in marks)

    def sure(self, marks, is_there):
        with self._lock:
            self._written.update((mark, is_there) for mark in marks)

    def typed(self, mark, value):
        with self._lock:
            self._typed[mark] = value

    def compare(self, postgres):
        """Yields the differences."""
        found = dict(postgres.query("SELECT mark, count(*) FROM written GROUP BY mark"))
        for mark, is_there in self._written.items():
            number = found.pop(mark, 0)
            if number > 1 or (is_there is not None and number != int(is_there)):
                yield f"{mark} is there {number} times, and should {'' if is_there else 'not '}be"
        yield from (f"{mark} was written by nobody" for mark in found)
        typed = {mark: float(value) for mark, value in postgres.query("SELECT mark, v FROM typed")}
        for mark, value in self._typed.items():
            if typed.get(mark) != value:
                yield f"{mark}: {value} was sent in binary and {typed.get(mark)} is stored"

    @property
    def sizes(self):
        return {"written": len(self._written), "typed": len(self._typed)}


def mark_of(got):
    """The first column of a DataRow, or the line of a CopyData."""
    if got.type == "d":
        return got.body.decode().rstrip("\n")
    (length,) = struct.unpack_from("!i", got.body, 2)
    return got.body[6:6 + length].decode()


def short(marks):
    return marks if len(marks) <= 8 else [*marks[:4], f"... {len(marks)} in all", *marks[-3:]]
