# SPDX-License-Identifier: ISC
"""A server that is lost at any place of its replies, whatever it was asked and by whom.

The clients get what was complete, and one error at most; nothing hangs, and all counts are right again.
"""

import struct
import threading

import pytest

from .kit.tunnel import Tunnel
from .kit.wait import wait_until
from .kit.wire import (Closed, Message, bind, close, collect, describe, execute, flush, message, parse, query, sync)

SETTINGS = {"pool_mode": "transaction", "default_pool_size": 1, "max_pinned_servers": 1, "server_login_retry": 0.05,
            "log_connections": 0, "log_disconnections": 0, "log_pooler_errors": 0, "cancel_grace": 20,
            "query_wait_timeout": 15}


class Cutter(Tunnel):
    """Forwards connections to PostgreSQL, and ends one of them after so many bytes of its replies."""

    def __init__(self, target):
        self._lock = threading.Lock()
        self.replies, self.count, self._left = [], 0, None
        super().__init__("127.0.0.1", *target, listen_port=0)

    def watch(self, cut_after=None):
        with self._lock:
            self.replies, self.count, self._left = [], 0, cut_after

    @property
    def has_cut(self):
        return self._left == -1

    def _allowed(self, data):
        """How much of the data passes."""
        with self._lock:
            self.count += len(data)
            self.replies.append(data)
            if self._left is None or self._left < 0:
                return len(data)
            if self._left >= len(data):
                self._left -= len(data)
                return len(data)
            allowed, self._left = self._left, -1
            return allowed


def places(stream):
    """Where to cut: before, within and at the end of the first message of each type behind each other type."""
    at, last, seen, found = 0, "", set(), set()
    while at + 5 <= len(stream):
        kind, length = struct.unpack_from("!cI", stream, at)
        if (last, kind) not in seen:
            seen.add((last, kind))
            found |= {at, at + 3, at + 5, at + length}
        last, at = kind, at + 1 + length
    return sorted(place for place in found if place < len(stream))


def hear(client, count=1):
    """The answers up to so many ReadyForQuery; Closed if the client was disconnected, with one error."""
    messages, is_within = [], False
    try:
        while count:
            kind, length = struct.unpack("!cI", client.take(5))
            is_within = True
            messages.append(Message(kind.decode(), client.take(length - 4)))
            is_within = False
            count -= kind == b"Z"
    except Closed:
        # An error cannot be sent within a message.
        assert is_within or client.buffer or [got.type == "E" and got.fields["S"] == "FATAL" for got in messages][-1:] == [True]
        raise
    return collect(messages)


def tell(client, *sent, count=1):
    try:
        client.send(*sent)
    except OSError:
        pass
    return hear(client, count)


def plain(one, other):
    assert tell(one, query("SELECT 1")).rows == [["1"]]
    assert tell(one, query("BEGIN"), query("SELECT 2"), query("COMMIT"), count=3).rows == [["2"]]


def named(one, other):
    whole = parse("SELECT $1::int", "s") + describe("S", "s") + bind(("7",), "s") + execute() + sync()
    assert tell(one, whole).rows == [["7"]]
    assert tell(one, bind(("8",), "s") + execute() + sync() + close("S", "s") + sync(), count=2).rows == [["8"]]


def temporary(one, other):
    tell(one, query("CREATE TEMP TABLE cut (a int)"))
    tell(one, query("COPY cut FROM STDIN") + message("d", b"1\n") + message("c"))
    assert tell(one, query("COPY cut TO STDOUT")).tags == ["COPY 1"]
    tell(one, query("DISCARD TEMP"))


def listens(one, other):
    tell(one, query("LISTEN cut"))
    tell(other, query("BEGIN; NOTIFY cut; COMMIT"))
    tell(one, query("UNLISTEN *"))


def parameters(one, other):
    tell(one, query("SET work_mem = '5MB'"))
    assert tell(other, query("SHOW work_mem")).rows == [["4MB"]]
    tell(one, query("SELECT set_config('cut.a', 'one', false), nextval('cut_s')"))
    assert tell(other, query("SELECT current_setting('cut.a', true)")).rows in ([[""]], [[None]])
    assert tell(one, query("SHOW work_mem")).rows == [["5MB"]]


def pipelines(one, other):
    """To a server that has to be cleaned first, or gets other parameters."""
    tell(one, query("SELECT set_config('cut.b', 'one', false)"))
    sent = (parse("SELECT current_setting('cut.b', true)", "p") + bind((), "p") + execute(), flush(),
            parse("SET cut.b = 'other'") + bind() + execute() + sync(), query("SHOW cut.b"))
    assert tell(other, *sent, count=2).rows[1:] == [["other"]]
    assert tell(one, query("SHOW cut.b")).rows == [["one"]]


def defines(one, other):
    tell(one, query("CREATE OR REPLACE FUNCTION cut_f() RETURNS int LANGUAGE sql AS 'SELECT 1'"))
    assert tell(other, query("SELECT cut_f()")).rows == [["1"]]
    tell(one, query("BEGIN; DROP FUNCTION cut_f(); ROLLBACK"))


def fails(one, other):
    sent = parse("SELECT 1/0") + bind() + execute() + query("SELECT 1") + sync() + query("SELECT 3")
    assert tell(one, sent, count=2).rows == [["3"]]


def leaves(one, other):
    """In mid-statement: it is cancelled, and the server is cleaned."""
    one.send(query("BEGIN; SELECT pg_sleep(30)"))
    one.close()
    assert tell(other, query("SELECT 4")).rows == [["4"]]


@pytest.fixture(scope="module")
def cutter(postgres):
    cutter = Cutter((postgres.host, postgres.port))
    postgres.query("CREATE SEQUENCE cut_s; GRANT ALL ON cut_s TO PUBLIC; GRANT ALL ON SCHEMA public TO PUBLIC")
    yield cutter
    cutter.close()
    postgres.query("DROP SEQUENCE cut_s; DROP FUNCTION IF EXISTS cut_f()")


def counts(weir):
    """What must be the same when all clients have gone."""
    pool = weir.pool()
    limits = [(row["limit"], row["database"], row["user"], row["used"]) for row in weir.admin("SHOW LIMITS")
              if row["used"] and "client" not in row["limit"] and row["limit"] != "open_files"]
    states = [row["state"] for row in weir.admin("SHOW SERVERS")]
    # sv_login is 1 for a minute after a login has failed.
    return {name: count for name, count in pool.items()
            if name[:3] in ("cl_", "sv_") and count and name != "sv_login"}, states, limits


def perform(weir, script):
    """Returns whether a client was disconnected."""
    one, other = weir.client(application_name="one"), weir.client(application_name="other")
    try:
        script(one, other)
    except Closed:
        return True
    finally:
        one.close()
        other.close()
    return False


def rest(weir):
    """All is as before the clients came: one server that waits for the next ones."""
    assert weir.client().value("SELECT 5") == "5"
    weir.connections.pop().close()
    settle(weir, lambda: counts(weir)[:2] == ({"sv_idle": 1}, ["idle"]))


def is_known(weir):
    """No definition is under way any more. A database that is used is looked at once a second."""
    assert weir.client().value("SELECT 6") == "6"
    weir.connections.pop().close()
    return all(row["state"] != "unread" for row in weir.admin("SHOW CATALOG"))


def settle(weir, is_so):
    try:
        wait_until(is_so)
    except TimeoutError:
        raise AssertionError((counts(weir), weir.admin("SHOW SERVERS"), weir.admin("SHOW CLIENTS"))) from None


@pytest.mark.parametrize("script, isolation", [
    *((script, "known") for script in (plain, named, temporary, listens, parameters, pipelines, defines, fails, leaves)),
    *((script, "strict") for script in (temporary, listens, parameters, pipelines, leaves))])
def test_a_server_is_lost_anywhere(same_pgweir, postgres, cutter, script, isolation):
    weir = same_pgweir(databases={"app": f"host=127.0.0.1 port={cutter.port}"}, session_isolation=isolation, **SETTINGS)
    assert not perform(weir, script)
    rest(weir)
    limits = counts(weir)[2]
    for is_new in (False, True):  # with a login
        if is_new:
            weir.admin("RECONNECT app")
        cutter.watch()
        assert not perform(weir, script)
        rest(weir)
        cuts = places(b"".join(cutter.replies))
        assert cuts
        for cut in cuts:
            if is_new:
                weir.admin("RECONNECT app")
            cutter.watch(cut)
            perform(weir, script)
            cutter.watch()
            rest(weir)
        settle(weir, lambda: counts(weir)[2] == limits)
    settle(weir, lambda: is_known(weir))
