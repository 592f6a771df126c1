# SPDX-License-Identifier: ISC
"""Statements that a lost server has certainly not run: they are sent to another one, unseen."""

import os
import signal

import pytest

from .kit import fake
from .kit.account import free_port
from .kit.wait import wait_until
from .kit.wire import query
from .kit.wire import bind, describe, execute, parse, sync

HOSTS = ("127.0.0.2", "127.0.0.3")
IDLE_OVER = fake.error("terminating connection due to idle-session timeout", "57P05", "FATAL")
SHUT_DOWN = fake.error("terminating connection due to administrator command", "57P01", "FATAL")
PREPARED = (parse("SELECT 1"), bind(), execute(), sync())
RESENT = "the server was lost before it ran the statement"


class Scene:
    """A client, and the server that it has had. `next()` is the server after that."""

    def __init__(self, pgweir, fake_server, **settings):
        port = free_port()
        self.hosts = [fake_server(host, port) for host in HOSTS]
        self.weir = pgweir(databases={"app": f"host={','.join(HOSTS)} port={port}"},
                           **{"pool_mode": "transaction", "default_pool_size": 1, **settings})
        self.client = self.weir.wire().startup()
        self.server = self.hosts[0].accept().login()
        self.client.finish_login("alice")
        self.weir.wait_pool(sv_idle=1)

    def next(self, number=1):
        return self.hosts[number].accept().login()

    def while_stopped(self, *steps):
        """The daemon finds all of it done when it continues."""
        os.kill(self.weir.process.pid, signal.SIGSTOP)
        for step in steps:
            step()
        os.kill(self.weir.process.pid, signal.SIGCONT)

    def is_answered(self, server, value="1"):
        server.send(fake.answer(value))
        assert self.client.read_result().rows == [[value]]


@pytest.fixture
def scene(pgweir, fake_server):
    return lambda **settings: Scene(pgweir, fake_server, **settings)


def test_a_session_that_was_idle_too_long(scene):
    one = scene()
    one.client.send(query("SELECT 1"))
    one.server.expect("Q")
    one.server.send(IDLE_OVER)
    one.server.close()
    other = one.next()
    assert other.expect("Q").body == b"SELECT 1\0"
    one.is_answered(other)
    one.weir.wait_log(RESENT)


def test_a_prepared_statement(scene):
    one = scene()
    one.client.send(*PREPARED)
    for kind in "PBES":
        one.server.expect(kind)
    one.server.send(IDLE_OVER)
    other = one.next()
    for kind in "PBES":
        other.expect(kind)
    one.server.close()


def test_a_statement_that_the_server_had_already(scene):
    """Its Parse was answered by the pooler, at once."""
    one = scene(max_prepared_statements=10)
    named = (parse("SELECT 1", "s1"), sync())
    one.client.send(*named)
    one.server.expect("P")
    one.server.expect("S")
    one.server.send(fake.message("1"), fake.ready())
    one.client.read_result()
    second = one.weir.wire().startup().finish_login("alice")
    second.send(*named[:1], bind(name="s1"), execute(), sync())
    assert second.read().type == "1"
    for kind in "BES":
        one.server.expect(kind)
    one.server.send(IDLE_OVER)
    one.server.close()
    assert second.read_refusal().sqlstate == "57P05"


def test_only_once(scene):
    one = scene()
    one.client.send(query("SELECT 1"))
    one.server.expect("Q")
    one.server.send(IDLE_OVER)
    other = one.next()
    other.expect("Q")
    other.send(IDLE_OVER)
    other.close()
    assert one.client.read_refusal().sqlstate == "57P05"


def test_the_next_statement_may_be_sent_again_too(scene):
    one = scene()
    for number in (1, 0):
        one.client.send(query("SELECT 1"))
        one.server.expect("Q")
        one.server.send(IDLE_OVER)
        one.server.close()
        one.server = one.next(number)
        one.server.expect("Q")
        one.is_answered(one.server)


@pytest.mark.parametrize("messages", (
    (query("BEGIN"),), (query("START TRANSACTION READ ONLY"),), (query(""),),
    (parse("SELECT 1"), describe("S", ""), sync()),
), ids=("BEGIN", "START", "nothing", "Parse"))
@pytest.mark.parametrize("last", (SHUT_DOWN, b""), ids=("57P01", "lost"))
def test_what_has_no_effect(scene, messages, last):
    one = scene()
    one.client.send(*messages)
    for message in messages:
        one.server.expect(message[:1].decode())
    one.server.send(last)
    one.server.close()
    other = one.next()
    for message in messages:
        other.expect(message[:1].decode())


@pytest.mark.parametrize("messages", (
    (query("SELECT 1"),), (query("BEGIN; SELECT 1"),), PREPARED,
    (parse("SELECT 1"), bind(), sync()),
), ids=("Query", "BEGIN and more", "Execute", "Bind"))
@pytest.mark.parametrize("last, sqlstate", ((SHUT_DOWN, "57P01"), (b"", "08006")),
                         ids=("57P01", "lost"))
def test_what_may_have_run_is_not(scene, messages, last, sqlstate):
    one = scene()
    one.client.send(*messages)
    for message in messages:
        one.server.expect(message[:1].decode())
    one.server.send(last)
    one.server.close()
    assert one.client.read_refusal().sqlstate == sqlstate
    assert RESENT not in one.weir.log


@pytest.mark.parametrize("first", (
    fake.columns("c0"), fake.columns("c0") + fake.row("1"), fake.complete("SELECT 0"),
), ids=("columns", "a row", "a tag"))
def test_what_was_answered_in_part_is_not(scene, first):
    one = scene()
    one.client.send(query("SELECT 1"))
    one.server.expect("Q")
    one.server.send(first, IDLE_OVER)
    one.server.close()
    assert one.client.read_refusal().sqlstate == "57P05"


def test_a_transaction_is_not(scene):
    one = scene()
    one.client.send(query("BEGIN"))
    one.server.expect("Q")
    one.server.send(fake.complete("BEGIN"), fake.ready("T"))
    one.client.read_result()
    one.client.send(query("SELECT 1"))
    one.server.expect("Q")
    one.server.send(IDLE_OVER)
    one.server.close()
    assert one.client.read_refusal().sqlstate == "57P05"


@pytest.mark.parametrize("words", ((), (SHUT_DOWN,)), ids=("lost", "57P01"))
def test_the_server_was_gone_before_the_statement_left(scene, words):
    """Both are there in the same turn of the loop, the statement first."""
    one = scene()
    one.while_stopped(lambda: one.client.send(query("SELECT 1")),
                      lambda: one.server.send(*words), one.server.close)
    other = one.next()
    other.expect("Q")
    one.is_answered(other)


def test_a_server_that_is_lost_while_it_is_prepared(scene):
    """Nothing was sent of the client: also with one host only."""
    one = scene()
    second = one.weir.wire().startup(options="-c work_mem=2MB")
    second.finish_login("alice")
    second.send(query("SELECT 1"))
    assert b"work_mem" in one.server.expect("Q").body
    one.server.close()
    other = one.next()
    assert b"work_mem" in other.expect("Q").body
    other.send(fake.complete("SET"), fake.ready())
    other.expect("Q")
    other.send(fake.answer("1"))
    assert second.read_result().rows == [["1"]]


def test_session_mode_is_not(scene):
    one = scene(pool_mode="session")
    one.client.send(query("SELECT 1"))
    one.server.expect("Q")
    one.server.send(IDLE_OVER)
    one.server.close()
    assert one.client.read_refusal().sqlstate == "57P05"


def test_a_long_statement_is_not_kept(scene):
    one = scene()
    one.client.send(query("SELECT 1 --" + 5000 * "x"))
    one.server.expect("Q")
    one.server.send(IDLE_OVER)
    one.server.close()
    assert one.client.read_refusal().sqlstate == "57P05"


def test_a_client_that_has_left_leaves_nothing(scene):
    """While its statement waits for another server."""
    one = scene()
    for host in one.hosts:
        host.listener.close()
    one.client.send(query("SELECT 1"))
    one.server.expect("Q")
    one.server.send(IDLE_OVER)
    one.weir.wait_pool(cl_waiting=1)
    one.client.close()
    wait_until(lambda: one.weir.pool()["cl_waiting"] == 0, what="nobody waiting")
