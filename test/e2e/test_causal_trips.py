# SPDX-License-Identifier: ISC
"""causal_reads: when positions in the WAL are asked for, and in which write; with scripted hosts."""

import re

import pytest

from .kit import fake
from .kit.account import free_port
from .kit.wait import wait_until
from .kit.wire import (bind, describe, execute, extended, flush, message, parse, query,
                       sync)

PRIMARY, STANDBY = "127.0.0.2", "127.0.0.3"
STARTED = 1795409802.5
INSERT = "INSERT INTO t VALUES (1)"
SETTINGS = {"pool_mode": "transaction", "default_pool_size": 1, "route_reads": "statements",
            "causal_reads": "session", "causal_reads_wait": "30"}


def is_role_question(sql):
    return "pg_is_in_recovery" in sql and "wal_block_size" not in sql


def is_position_question(sql):
    return "wal_block_size" in sql


def role_answer(is_standby, position, started=STARTED, timeline=1):
    at = str(timeline) if is_standby else f"{timeline:08X}000000000000000A"
    return fake.answer("t" if is_standby else "f", "off", at, "7", str(started),
                       f"0/{position:X}", None)


def position_answer(position, started=STARTED):
    said = "8192".encode().hex(), f"0/{position:X} {started}".encode().hex()
    return (fake.complete("SET") * 2 + fake.columns("k", "n", "v") + fake.row("w", *said)
            + fake.complete("SELECT 1") + fake.ready())


def wait_answer(status):
    return fake.columns("status") + fake.row(status) + fake.complete("WAIT")


# -- behind a transaction --------------------------------------------------------------------------


class Scene:
    """A client that has used its server at the primary."""

    def __init__(self, pgweir, server, **settings):
        self.weir = pgweir(databases={"app": server.entry}, **{**SETTINGS, **settings})
        self.client = self.weir.wire().startup()
        self.accept = server.accept
        self.server = self.accept()
        self.server.login(in_hot_standby="off", default_transaction_read_only="off")
        assert is_role_question(self.text())
        self.server.send(role_answer(False, 0x1000))
        self.client.finish_login("alice")

    def text(self):
        """The next message of the server, a query."""
        return self.server.expect("Q").body[:-1].decode()

    def run(self, sql, reply=None):
        """Returns whether the question was in the same write."""
        self.client.send(query(sql))
        assert self.text() == sql
        is_behind = bool(self.server.buffer)
        self.server.send(reply or fake.complete("DONE") + fake.ready())
        return is_behind

    def is_idle_with(self, position=0x2000):
        """The question comes; nobody else has sent anything."""
        assert is_position_question(self.text()) and not self.server.buffer
        self.server.send(position_answer(position))
        self.weir.wait_pool(sv_idle=1, sv_active=0)


@pytest.fixture
def scene(pgweir, fake_server):
    return lambda **settings: Scene(pgweir, fake_server(), **settings)


@pytest.mark.parametrize("sql, is_behind", [
    (INSERT, True),
    ("WITH x AS (UPDATE t SET a = 1 RETURNING a) SELECT * FROM x;", True),
    ("SELECT f()", True),
    ("COMMIT", True),
    ("ROLLBACK", True),
    (INSERT + "; SELECT 1", False),
    ("GRANT SELECT ON t TO u", False),
    ("VACUUM", False),
    ("SELECT 'a\\'", False),  # not certain
    (INSERT + " -- " + 20000 * "x", False),  # too long to be read
])
def test_the_question_goes_out_with_what_ends_the_transaction(scene, sql, is_behind):
    one = scene()
    assert one.run(sql) == is_behind
    assert one.client.read_result().tags == ["DONE"]
    one.is_idle_with()
    assert not one.client.is_closed()


def test_a_commit(scene):
    one = scene()
    assert one.client.query("BEGIN").status == "T"
    one.client.send(query(INSERT))
    one.server.expect("PBEC")
    assert one.text() == INSERT and not one.server.buffer
    one.server.send(message("1"), message("2"), fake.complete("BEGIN"), message("3"),
                    fake.complete("INSERT 0 1"), fake.ready("T"))
    assert one.client.read_result().status == "T"
    assert one.run("COMMIT")
    assert one.client.read_result().status == "I"
    one.is_idle_with()


def test_a_statement_that_fails(scene):
    one = scene()
    assert one.run(INSERT, fake.error("no", "23505") + fake.ready())
    assert one.client.read_result().error["C"] == "23505"
    one.is_idle_with()


@pytest.mark.parametrize("sql", (INSERT, "VACUUM"), ids=("behind it", "when it is answered"))
@pytest.mark.parametrize("words", (b"", fake.error("shutting down", "57P01", "FATAL")),
                         ids=("lost", "57P01"))
def test_a_server_that_is_lost_before_it_has_said_its_position(scene, sql, words):
    """The statement is acknowledged: the client does not notice."""
    one = scene()
    one.run(sql, fake.complete("DONE") + fake.parameter("TimeZone", "Asia/Tokyo") + fake.ready())
    assert one.client.read_result().tags == ["DONE"]
    assert is_position_question(one.text())
    one.server.send(words)
    one.server.close()
    one.client.send(query(INSERT))
    one.server = one.accept().login(in_hot_standby="off", default_transaction_read_only="off")
    while (text := one.text()) != INSERT:
        if is_role_question(text):
            one.server.send(role_answer(False, 0x1000))
        else:
            assert "Asia/Tokyo" in text  # what it had before
            one.server.send(fake.complete("SET"), fake.ready())
    one.server.send(fake.complete("DONE"), fake.ready())
    assert one.client.read_result().tags == ["DONE"]
    one.is_idle_with()


def test_the_question_is_behind_the_last_of_several(scene):
    one = scene()
    one.client.send(query(INSERT), query(INSERT))
    assert [one.text(), one.text()] == [INSERT, INSERT] and one.server.buffer
    for _ in range(2):
        one.server.send(fake.complete("INSERT 0 1"), fake.ready())
        assert one.client.read_result().status == "I"
    one.is_idle_with()


# -- the extended protocol -------------------------------------------------------------------------


def run_of(*statements):
    """What executes them, with one Sync."""
    return b"".join(parse(sql) + bind() + execute() for sql in statements) + sync()


def done(*tags):
    return b"".join(message("1") + message("2") + fake.complete(tag) for tag in tags)


BEGIN, COMMIT = "BEGIN", "COMMIT"


@pytest.mark.parametrize("sent, types, reply, status, is_behind", [
    (extended(INSERT), "PBDES", message("1") + message("2") + message("n")
     + fake.complete("INSERT 0 1"), "I", True),
    (run_of(INSERT, INSERT), "PBEPBES", done("INSERT 0 1", "INSERT 0 1"), "I", True),
    (run_of(BEGIN, INSERT, COMMIT), "PBEPBEPBES", done(BEGIN, "INSERT 0 1", COMMIT), "I", True),
    (parse(INSERT) + describe("S") + sync(), "PDS", message("1") + message("t", b"\0\0")
     + message("n"), "I", True),
    (sync(), "S", b"", "I", True),
    (run_of(BEGIN, INSERT), "PBEPBES", done(BEGIN, "INSERT 0 1"), "T", False),
    (run_of("GRANT SELECT ON t TO u"), "PBES", done("GRANT"), "I", False),
    (parse(INSERT) + bind(portal="p") + execute("p") + sync(), "PBES", done("INSERT 0 1"), "I",
     False),  # portals with names are not followed
])
def test_the_question_goes_out_with_a_sync(scene, sent, types, reply, status, is_behind):
    one = scene()
    one.client.send(sent)
    one.server.expect(types)
    assert bool(one.server.buffer) == is_behind
    one.server.send(reply, fake.ready(status))
    assert one.client.read_result().status == status
    if status == "I":
        one.is_idle_with()


def test_an_extended_commit(scene):
    one = scene()
    one.client.send(run_of(BEGIN, INSERT))
    one.server.expect("PBEPBES")
    one.server.send(done(BEGIN, "INSERT 0 1"), fake.ready("T"))
    assert one.client.read_result().status == "T"
    one.client.send(run_of(COMMIT))
    one.server.expect("PBES")
    assert one.server.buffer
    one.server.send(done(COMMIT), fake.ready())
    assert one.client.read_result().status == "I"
    one.is_idle_with()


def test_a_prepared_statement(scene):
    one = scene()
    one.client.send(parse(INSERT, name="s"), bind(name="s"), execute(), sync())
    one.server.expect("PBES")
    assert one.server.buffer
    one.server.send(done("INSERT 0 1"), fake.ready())
    assert one.client.read_result().status == "I"
    one.is_idle_with()
    one.client.send(bind(name="s"), execute(), sync())
    one.server.expect("BES")
    assert one.server.buffer
    one.server.send(message("2"), fake.complete("INSERT 0 1"), fake.ready())
    assert one.client.read_result().status == "I"
    one.is_idle_with()


def fail_in_a_block(one):
    """A pipeline ends its transaction, but a statement of it fails. The question was sent."""
    one.client.send(run_of(BEGIN, INSERT, COMMIT))
    one.server.expect("PBEPBEPBES")
    assert is_position_question(one.text())
    one.server.send(done(BEGIN), message("1"), message("2"), fake.error("no", "23505"),
                    fake.ready("E"))
    answer = one.client.read_result()
    assert answer.error["C"] == "23505" and answer.status == "E"


def refuse_question(one):
    one.server.send(fake.error("current transaction is aborted", "25P02"), fake.ready("E"))


def test_a_transaction_that_fails_and_does_not_end(scene):
    one = scene()
    fail_in_a_block(one)
    refuse_question(one)
    assert one.run("ROLLBACK")
    assert one.client.read_result().status == "I"
    one.is_idle_with()


def test_the_client_goes_on_before_the_question_is_refused(scene):
    one = scene()
    fail_in_a_block(one)
    one.client.send(query("ROLLBACK"))
    assert one.text() == "ROLLBACK"
    refuse_question(one)
    one.server.send(fake.complete("ROLLBACK"), fake.ready())
    assert one.client.read_result().tags == ["ROLLBACK"]
    one.is_idle_with()


def test_the_unnamed_statement_outlives_a_question_that_is_refused(scene):
    one = scene()
    one.client.send(run_of(BEGIN))
    one.server.expect("PBES")
    one.server.send(done(BEGIN), fake.ready("T"))
    assert one.client.read_result().status == "T"
    one.client.send(parse("ROLLBACK"), describe("S"), sync())
    one.server.expect("PDS")
    one.server.send(message("1"), message("t", b"\0\0"), message("n"), fake.ready("T"))
    assert one.client.read_result().status == "T"
    one.client.send(*(parse(sql, name=sql) + bind(name=sql) + execute() for sql in (INSERT, COMMIT)),
                    sync())
    one.server.expect("PBEPBES")
    assert is_position_question(one.text())
    one.server.send(message("1"), fake.error("no", "23505"), fake.ready("E"))
    assert one.client.read_result().status == "E"
    refuse_question(one)
    one.client.send(bind(), execute(), sync())
    one.server.expect("PBES")
    one.server.send(done("ROLLBACK"), fake.ready())
    assert one.client.read_result().status == "I"
    one.is_idle_with()


def test_the_client_is_ahead_of_the_failure(scene):
    one = scene()
    one.client.send(run_of(BEGIN, INSERT, COMMIT))
    one.server.expect("PBEPBEPBES")
    one.client.send(query("SELECT 1"))
    assert is_position_question(one.text())
    one.server.send(done(BEGIN), message("1"), message("2"), fake.error("no", "23505"),
                    fake.ready("E"))
    assert one.client.read_result().error["C"] == "23505"
    assert not one.server.buffer
    refuse_question(one)
    assert one.text() == "SELECT 1"
    one.server.send(fake.error("current transaction is aborted", "25P02"), fake.ready("E"))
    assert one.client.read_result().error["C"] == "25P02"


def test_a_statement_that_fails_in_a_batch(scene):
    one = scene()
    one.client.send(run_of(INSERT, INSERT))
    one.server.expect("PBEPBES")
    one.server.send(done("INSERT 0 1"), message("1"), fake.error("no", "23505"), fake.ready())
    assert one.client.read_result().error["C"] == "23505"
    one.is_idle_with()


def test_a_statement_is_prepared_again_ahead_of_the_question(scene):
    one = scene()
    one.client.send(parse(INSERT, name="s"), sync())
    one.server.expect("PS")
    one.server.send(message("1"), fake.ready())
    assert one.client.read_result().status == "I"
    one.is_idle_with()
    one.client.send(bind(name="s"), describe("P"), execute(), sync())
    one.server.expect("BDES")
    assert is_position_question(one.text())
    one.server.send(fake.error("cached plan must not change result type", "0A000"), fake.ready())
    one.server.send(position_answer(0x1000))
    one.server.expect("CPBDES")
    one.server.send(message("3"), message("1"), message("2"), message("n"),
                    fake.complete("INSERT 0 1"), fake.ready())
    assert one.client.read_result().tags == ["INSERT 0 1"]
    one.is_idle_with()


def test_a_description_is_for_a_later_bind(scene):
    """The question ends the unnamed statement on the server, so that it is prepared again."""
    one = scene()
    one.client.send(parse(INSERT), describe("S"), sync())
    one.server.expect("PDS")
    one.server.send(message("1"), message("t", b"\0\0"), message("n"), fake.ready())
    assert one.client.read_result().status == "I"
    one.is_idle_with()
    one.client.send(bind(), execute(), sync())
    one.server.expect("PBES")
    one.server.send(done("INSERT 0 1"), fake.ready())
    assert one.client.read_result().status == "I"
    one.is_idle_with()


def test_what_was_flushed_counts(scene):
    one = scene()
    one.client.send(parse(BEGIN), bind(), execute(), flush())
    one.server.expect("PBEH")
    one.server.send(done(BEGIN))
    one.client.expect("12C")
    one.client.send(run_of(INSERT))
    one.server.expect("PBES")
    assert not one.server.buffer
    one.server.send(done("INSERT 0 1"), fake.ready("T"))
    assert one.client.read_result().status == "T"


def test_no_question_is_behind_a_query_that_is_skipped(scene):
    one = scene()
    one.client.send(parse("SELEC"), flush())
    one.server.expect("PH")
    one.server.send(fake.error("syntax error", "42601"))
    one.client.expect("E")
    one.client.send(query("COMMIT"))
    assert one.text() == "COMMIT" and not one.server.buffer
    one.client.send(sync())
    one.server.expect("S")
    one.server.send(fake.ready())
    assert one.client.read_result().status == "I"
    one.is_idle_with()


def test_no_question_is_behind_a_query_that_may_be_skipped(scene):
    """The COMMIT fails; the Sync comes later."""
    one = scene()
    one.client.send(parse("COMMIT"), bind(), execute(), query(INSERT))
    one.server.expect("PBE")
    assert one.text() == INSERT and not one.server.buffer
    one.server.send(message("1"), message("2"), fake.error("deferred", "23503"))
    one.client.expect("12E")
    one.client.send(sync())
    one.server.expect("S")
    one.server.send(fake.ready())
    assert one.client.read_result().status == "I"
    one.is_idle_with()


def test_nothing_of_the_client_is_behind_the_question(scene):
    one = scene()
    one.client.send(query(INSERT))
    assert one.text() == INSERT
    one.client.send(query("BEGIN; DELETE FROM t"))
    assert is_position_question(one.text())
    one.server.send(fake.complete("INSERT 0 1"), fake.ready())
    assert one.client.read_result().tags == ["INSERT 0 1"]
    assert not one.server.is_closed() and not one.server.buffer
    one.server.send(position_answer(0x2000))
    assert one.text() == "BEGIN; DELETE FROM t"
    one.server.send(fake.complete("BEGIN"), fake.complete("DELETE 0"), fake.ready("T"))
    assert one.client.read_result().status == "T"


def test_a_cancel_request_that_hits_the_question(scene):
    one = scene()
    assert one.run(INSERT)
    assert one.client.read_result().status == "I"
    assert is_position_question(one.text())
    one.server.send(fake.error("canceling statement", "57014"), fake.ready())
    one.is_idle_with()


def test_a_transaction_that_goes_on_against_all_certainty(scene):
    one = scene()
    assert one.run(INSERT, fake.complete("INSERT 0 1") + fake.ready("T"))
    one.weir.wait_log("a transaction is open that should have ended")


def test_a_server_that_is_lost_before_the_answer(scene):
    one = scene()
    assert one.run(INSERT)
    assert one.client.read_result().tags == ["DONE"]
    one.server.close()
    one.weir.wait_pool(sv_idle=0, sv_active=0)


# -- before a read ---------------------------------------------------------------------------------


class Host:
    """Answers everything, and notes what servers get: "ask" is the question for the position, and
    "wait for X" the same with a wait.
    """

    def __init__(self, server, is_standby, version="15.0"):
        self.is_standby, self.version = is_standby, version
        self.waited = "success"  # how a wait ends; None: it is an error
        self.position, self.started = 0x1000, STARTED  # of its servers
        self.seen_position, self.seen_started = 0x1000, STARTED  # as the watch sees it
        self.timeline = 1
        self.got = []
        server.serve(self._serve)

    def _serve(self, channel):
        channel.login(in_hot_standby="on" if self.is_standby else "off",
                      default_transaction_read_only="off", server_version=self.version)
        while (got := channel.read()).type != "X":
            assert got.type == "Q"
            channel.send(self._reply(got.body[:-1].decode()))

    def _reply(self, sql):
        if is_role_question(sql):
            return role_answer(self.is_standby, self.seen_position, self.seen_started,
                               self.timeline)
        if is_position_question(sql):
            answer = position_answer(self.position, self.started)
            wait = re.search(r"WAIT FOR LSN '0/(\w+)' WITH \(TIMEOUT '\d+ms',NO_THROW\);", sql)
            self.got.append(f"wait for {wait[1]}" if wait else "ask")
            if wait and not self.waited:
                return fake.error("no such command", "42601") + fake.ready()
            return wait_answer(self.waited) * bool(wait) + answer
        self.got.append(sql)
        return fake.complete(sql.split()[0]) + fake.ready()

    def fail_over(self):
        self.position = self.seen_position = 0x3000
        self.timeline = 2

    def take(self):
        taken, self.got = self.got, []
        return taken


class Pair:
    def __init__(self, pgweir, fake_server, version):
        port = free_port()
        self.primary = Host(fake_server(PRIMARY, port), False, version)
        self.standby = Host(fake_server(STANDBY, port), True, version)
        self.weir = pgweir(databases={"app": f"host={PRIMARY},{STANDBY} port={port}"},
                           **SETTINGS, host_check_user="alice", host_check_interval="0.1")
        self.wait_seen(self.standby)
        self.client = self.weir.client()
        wait_until(lambda: self.read() != [], what="a server on the standby")
        self.weir.wait_pool(sv_active=0)  # the question behind that was answered

    def seen(self):
        return {row["host"]: row["position"] for row in self.weir.admin("SHOW HOSTS app")}

    def wait_seen(self, host):
        name = STANDBY if host.is_standby else PRIMARY
        wait_until(lambda: self.seen().get(name) == f"0/{host.seen_position:X}",
                   what=f"{name} at {host.seen_position:X}")

    def write(self, position):
        """The primary is there behind the write."""
        self.primary.position = position
        self.primary.take()
        self.client.query(INSERT)
        wait_until(lambda: self.primary.got[-1:] == ["ask"], what="the question behind the write")

    def read(self):
        """What the standby gets for a read. The first one at a server has a question behind it."""
        self.standby.take()
        self.client.query("SELECT 1")
        return self.standby.take()


@pytest.fixture
def pair(pgweir, fake_server):
    return lambda version="15.0": Pair(pgweir, fake_server, version)


def test_a_standby_that_is_known_to_have_replayed_is_not_asked_first(pair):
    one = pair()
    one.write(0x4000)
    one.standby.position = 0x5000
    assert one.read() == ["ask", "SELECT 1"]
    one.write(0x6000)
    one.standby.position = one.standby.seen_position = 0x7000
    one.wait_seen(one.standby)
    assert one.read() == ["SELECT 1"]
    one.write(0x8000)  # further than the watch has seen it
    one.standby.position = 0x9000
    assert one.read() == ["ask", "SELECT 1"]


def test_what_the_watch_sees_may_be_another_server_at_the_same_address(pair):
    one = pair()
    one.write(0x4000)
    one.standby.position, one.standby.seen_position = 0x5000, 0x7000
    one.standby.seen_started = STARTED + 1
    one.wait_seen(one.standby)
    assert one.read() == ["ask", "SELECT 1"]
    one.write(0x6000)
    one.standby.position = 0x6500
    assert one.read() == ["ask", "SELECT 1"]


# -- a standby that waits --------------------------------------------------------------------------


def test_a_standby_of_19_answers_when_it_has_replayed(pair):
    one = pair("19rc1")
    one.write(0x4000)
    assert one.primary.got[-1] == "ask"
    one.standby.position = 0x4000
    assert one.read() == ["wait for 4000", "SELECT 1"]


@pytest.mark.parametrize("status", ("timeout", "not in recovery"))
def test_a_wait_that_ends_too_early_is_repeated(pair, status):
    one = pair("19rc1")
    one.write(0x4000)
    one.standby.waited = status
    one.client.send(query("SELECT 1"))
    wait_until(lambda: one.standby.got.count("wait for 4000") > 1, what="more than one wait")
    one.standby.position, one.standby.waited = 0x4000, "success"
    assert one.client.read_result().tags == ["SELECT"]
    assert one.standby.got[-2:] == ["wait for 4000", "SELECT 1"]


def test_what_cannot_wait_is_asked(pair):
    """What says that it is 19 need not know the command. Its server stays, and is not told again."""
    one = pair("19rc1")
    one.write(0x4000)
    one.standby.waited, one.standby.position = None, 0x4000
    assert one.read() == ["wait for 4000", "ask", "SELECT 1"]
    one.write(0x5000)
    one.standby.position = 0x5000
    assert one.read() == ["ask", "SELECT 1"]


# -- WAL that was lost -----------------------------------------------------------------------------


def fail_over(one):
    """Both have a new timeline, with less WAL than the client has written. The standby is seen there
    first: else it would be a host that has stayed on the old one, and its reads go to the primary.
    """
    one.standby.fail_over()
    one.wait_seen(one.standby)
    one.primary.fail_over()


def test_a_position_that_is_lost_is_not_waited_for(pair):
    one = pair()
    one.write(0x9000)
    fail_over(one)
    one.wait_seen(one.primary)
    one.wait_seen(one.standby)
    assert one.read() == ["SELECT 1"]


def test_a_read_that_waits_for_a_lost_position_goes_on(pair):
    one = pair()
    one.write(0x9000)
    one.standby.take()
    one.client.send(query("SELECT 1"))
    wait_until(lambda: "ask" in one.standby.got, what="a read that waits")
    fail_over(one)
    assert one.client.read_result().tags == ["SELECT"]
    assert "SELECT 1" in one.standby.got and "SELECT 1" not in one.primary.got


def test_what_is_not_lost_is_waited_for(pair):
    """The new primary has more."""
    one = pair()
    one.write(0x9000)
    fail_over(one)
    one.primary.position = one.primary.seen_position = 0xA000
    one.wait_seen(one.primary)
    one.wait_seen(one.standby)
    one.standby.take()
    one.client.send(query("SELECT 1"))
    wait_until(lambda: one.standby.got.count("ask") > 2, what="a read that waits")
    assert "SELECT 1" not in one.standby.got
    one.standby.position = 0xA000
    assert one.client.read_result().tags == ["SELECT"]
