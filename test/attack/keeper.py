# SPDX-License-Identifier: ISC
"""Clients in transaction mode that keep session state, and check all of it with every statement.

Each has values of its own: a role, a search_path, a custom parameter, a temporary table, an
advisory lock, a channel. A value of another client, or one that is missing, is a finding. Each
client notifies others; the notifications must come complete, once, and in order.
"""

from e2e.kit.wire import bind, execute, message, parse, query, sync

from .honest import Honest
from .scene import Finding

SETUP = """
CREATE ROLE kept_1; CREATE ROLE kept_2; GRANT kept_1, kept_2 TO alice, bob;
CREATE SCHEMA kept_1; CREATE SCHEMA kept_2; GRANT USAGE ON SCHEMA kept_1, kept_2 TO PUBLIC;
GRANT SELECT ON written TO kept_1, kept_2;
CREATE TABLE kept_counts (client text PRIMARY KEY, i int); GRANT ALL ON kept_counts TO PUBLIC;
"""

# One row, one column: everything that a client keeps. A missing custom parameter is as an empty one.
CHECK = """SELECT pg_catalog.concat_ws('/', current_user, pg_catalog.current_setting('search_path'),
 coalesce(pg_catalog.current_setting('attack.kept', true), ''), pg_catalog.current_setting('work_mem'),
 (SELECT coalesce(pg_catalog.string_agg(relname, ',' ORDER BY relname), '') FROM pg_catalog.pg_class
   WHERE relnamespace = pg_catalog.pg_my_temp_schema()),
 (SELECT coalesce(pg_catalog.string_agg(objid::text, ',' ORDER BY objid), '') FROM pg_catalog.pg_locks
   WHERE pid = pg_catalog.pg_backend_pid() AND locktype = 'advisory' AND classid = 4711))"""

LIMIT = "53300"  # the limit of pinned servers


class Board:
    """The channels on which clients listen, and how many notifications of each sender are committed.

    A sender has a new name after each login, so that the numbers of a name have no gap.
    """

    def __init__(self, lock):
        self._lock = lock
        self._sent = {}  # channel -> {sender: committed notifications}

    def open(self, channel):
        with self._lock:
            self._sent[channel] = {}

    def close(self, channel):
        with self._lock:
            self._sent.pop(channel, None)

    def channels(self):
        with self._lock:
            return sorted(self._sent)

    def committed(self, channel, sender):
        with self._lock:
            senders = self._sent.get(channel)
            if senders is not None:
                senders[sender] = senders.get(sender, 0) + 1

    def state_of(self, channel):
        with self._lock:
            return dict(self._sent.get(channel, {}))


class Keeper(Honest):
    """All its state can be carried from server to server."""

    def login(self):
        super().login()
        self.kept = {"role": self.user, "search_path": '"$user", public', "custom": "", "work_mem": "4MB",
                     "table": "", "lock": ""}
        self.channel = None
        self.is_within = False  # a transaction
        self.sent = {}   # channel -> notifications sent by this connection
        self.heard = {}  # sender -> last number
        self.me = self.mark()
        self.check()  # nothing of another client is here

    def drop(self):
        if self.wire and self.channel:
            self.scene.board.close(self.channel)
        super().drop()

    # -- checking -----------------------------------------------------------------------------

    def wanted(self):
        return "/".join(self.kept[name] for name in ("role", "search_path", "custom", "work_mem", "table", "lock"))

    def check(self):
        if self.rng.random() < 0.5:
            sent = query(CHECK)
        else:
            sent = parse(CHECK) + bind() + execute() + sync()
        self.tell(sent, self.wanted())

    def tell(self, sent, *rows, errors=()):
        """Sends what has these rows as response; returns the errors."""
        self.say(sent)
        messages = self.hear()
        seen = [got.row[0] for got in messages if got.type == "D"]
        failed = [got.fields for got in messages if got.type == "E"]
        for error in failed:
            if error["C"] not in errors:
                raise Finding(f"an error without a reason: {error}; sent {sent[:300]}")
        if not failed and seen != list(rows):
            raise Finding(f"has {seen} and should have {list(rows)}; sent {sent[:200]}")
        self.scene.count("own states", len(seen))
        return failed

    def hear(self):
        messages = super().hear()
        for got in messages:
            if got.type == "A":
                self.take_note(got.body)
        is_within, self.is_within = self.is_within, messages[-1].body != b"I"
        if is_within and self.is_within and any(got.type == "A" for got in messages):
            raise Finding("a notification within a transaction")
        return messages

    def take_note(self, body):
        channel, payload, _ = body[4:].split(b"\0")
        if channel.decode() != self.channel:
            raise Finding(f"a notification of {channel}, but the channel is {self.channel}: {payload}")
        sender, number = payload.decode().split(":")
        if int(number) != self.heard.get(sender, 0) + 1:
            raise Finding(f"notification {payload}, but the last one was {self.heard.get(sender)}")
        self.heard[sender] = int(number)
        self.scene.count("notifications")

    # -- what it does -------------------------------------------------------------------------

    def change(self, sent, **changes):
        """Changes state; sometimes in a transaction, that is rolled back or not."""
        how = self.rng.randrange(5)
        old = dict(self.kept)
        if how > 1:
            self.tell(sent)
            self.kept.update(changes)
        else:
            self.tell(query("BEGIN"))
            self.tell(sent)
            self.kept.update(changes)
            self.check()
            self.tell(query(("COMMIT", "ROLLBACK")[how]))
            if how == 1:
                self.kept = old
        self.check()

    def set_role(self):
        role = self.rng.choice(("kept_1", "kept_2", self.user))
        self.change(query("SET ROLE NONE" if role == self.user else f"SET ROLE {role}"), role=role)

    def set_path(self):
        path = self.rng.choice(("kept_1, public", "kept_2"))
        self.change(query(f"SET search_path = {path}"), search_path=path)

    def set_custom(self):
        value = self.mark()
        if self.rng.random() < 0.5:
            self.change(query(f"SET attack.kept = '{value}'"), custom=value)
        else:
            bound = parse("SELECT 1 FROM set_config($1, $2, false) x WHERE x = ''")
            self.change(bound + bind(("attack.kept", value)) + execute() + sync(), custom=value)

    def set_number(self):
        value = f"{self.rng.randrange(2001, 4000, 2)}kB"
        self.change(query(f"DO $$ BEGIN EXECUTE 'SET work_mem = ''{value}'''; END $$"), work_mem=value)

    def set_locally(self):
        self.tell(query("BEGIN; SET LOCAL search_path = kept_2; SET LOCAL attack.kept = 'local';"
                        " SET LOCAL ROLE kept_1; COMMIT"))
        self.check()

    def fail(self):
        """A text that fails leaves everything as it was."""
        self.tell(query("SET search_path = nowhere; SET attack.kept = 'lost'; SELECT 1 / 0"), errors=("22012",))
        self.check()

    def reset(self):
        self.change(query("RESET ALL"), search_path='"$user", public', custom="", work_mem="4MB")

    def begin_again(self):
        """Another connection, at once or after DISCARD ALL."""
        if self.rng.random() < 0.3:
            self.tell(query("DISCARD ALL"))
        if self.rng.random() < 0.7:
            self.say(message("X"))
        self.drop()

    kinds = [Honest.simple, set_role, set_path, set_custom, set_custom, set_number, set_locally, fail,
             reset, begin_again]


class Pinned(Keeper):
    """Has a temporary table and an advisory lock as well, for which a server must stay."""

    def make_table(self):
        self.tell(query("SET ROLE NONE"))  # it owns the table
        self.kept["role"] = self.user
        if self.kept["table"]:
            self.tell(query("SELECT mark FROM pg_temp.kept"), self.in_table)
            self.change(query("DROP TABLE pg_temp.kept"), table="")
            return
        mark = self.mark()
        if not self.tell(query(f"CREATE TEMP TABLE kept AS SELECT '{mark}'::text AS mark"), errors=(LIMIT,)):
            self.in_table, self.kept["table"] = mark, "kept"
        else:
            self.scene.count("pins refused")
        self.check()

    def take_lock(self):
        if self.kept["lock"]:
            self.change(query(f"SELECT pg_advisory_unlock(4711, {self.kept['lock']}), ''"), lock="")
            return
        key = str(self.number * 1000000 + self.serial)
        errors = self.tell(query(f"SELECT pg_advisory_lock(4711, {key})"), "", errors=(LIMIT,))
        if errors:
            self.scene.count("pins refused")
        else:
            self.kept["lock"] = key
        self.check()

    def change(self, sent, **changes):
        # Unlocking answers with a row, and is not undone by a rollback.
        if "lock" not in changes:
            super().change(sent, **changes)
            return
        self.tell(sent, "t")
        self.kept.update(changes)
        self.check()

    kinds = Keeper.kinds + [make_table] * 6 + [take_lock] * 6


class Listening(Keeper):
    """Listens, and notifies others and itself."""

    def listen(self):
        channel = f"kept {self.me} {self.mark()}"
        if self.channel:
            self.scene.board.close(self.channel)
            # A notification may still come with the response.
            self.tell(query("UNLISTEN *"))
            self.channel = None
        self.tell(query(f'LISTEN "{channel}"'))
        self.channel = channel
        self.heard = {}
        self.scene.board.open(channel)
        self.check()

    def notify(self):
        """Notifies another client, or itself; the transaction may be rolled back."""
        channels = self.scene.board.channels()
        if not channels:
            return
        channel = self.rng.choice(channels)
        if self.rng.random() < 0.2:
            self.tell(query(f"BEGIN; NOTIFY \"{channel}\", '{self.me}:0'; ROLLBACK"))
        number = self.sent[channel] = self.sent.get(channel, 0) + 1
        self.tell(query(f"NOTIFY \"{channel}\", '{self.me}:{number}'"))
        self.scene.board.committed(channel, self.me)

    def notice_all(self):
        """What was committed before an own notification has come with that notification."""
        if not self.channel:
            return
        before = self.scene.board.state_of(self.channel)
        number = self.sent[self.channel] = self.sent.get(self.channel, 0) + 1
        self.tell(query(f"NOTIFY \"{self.channel}\", '{self.me}:{number}'"))
        self.scene.board.committed(self.channel, self.me)
        for sender, count in {**before, self.me: number}.items():
            if self.heard.get(sender, 0) < count:
                raise Finding(f"{count} notifications of {sender} and only {self.heard.get(sender, 0)} have come")

    kinds = Keeper.kinds + [listen, listen, notify, notify, notify, notify, notice_all, notice_all]


class Reading(Keeper):
    """Counts in a row of its own, and reads it on standbys: what it has written and no less, with all
    its state.
    """

    count = 0

    def login(self):
        self.count = 0
        super().login()

    def write(self):
        count = self.count + 1
        sql = (f"INSERT INTO public.kept_counts VALUES ('{self.me}', {count}) ON CONFLICT (client)"
               f" DO UPDATE SET i = {count}")
        how = self.rng.randrange(4)
        if how == 0:
            self.tell(query("BEGIN"))
            self.tell(query(sql))
            if self.rng.random() < 0.3:
                self.tell(query("ROLLBACK"))
                return
            self.tell(query("COMMIT"))
        elif how == 1:
            self.tell(parse(sql) + bind() + execute() + sync())
        else:
            self.tell(query(sql))
        self.count = count

    def read_alone(self):
        sql = (f"SELECT i, pg_is_in_recovery() FROM (SELECT coalesce(sum(i), 0) FROM"
               f" public.kept_counts WHERE client = '{self.me}') own (i)")
        self.look(query(sql) if self.rng.random() < 0.5
                  else parse(sql) + bind() + execute() + sync())

    def read_in_transaction(self):
        self.tell(query("BEGIN READ ONLY"))
        self.check()
        self.read_alone()
        self.tell(query("COMMIT"))

    def look(self, sent):
        self.say(sent)
        messages = self.hear()
        rows = [got.row for got in messages if got.type == "D"]
        if len(rows) != 1 or rows[0][0] != str(self.count):
            failed = [got.fields for got in messages if got.type == "E"]
            raise Finding(f"has written {self.count} and reads {rows or failed}")
        self.scene.count("reads on standbys" if rows[0][1] == "t" else "reads on the primary")

    kinds = Keeper.kinds + [write] * 6 + [read_alone, read_in_transaction] * 6
