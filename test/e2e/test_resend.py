# SPDX-License-Identifier: ISC
"""Statements that a lost server has certainly not run: they are sent to another one, unseen."""

import os
import signal
import ssl

import pytest

from .kit import fake
from .kit.account import free_port
from .kit.wait import wait_until
from .kit.wire import (SSL_REQUEST, bind, close, describe, execute, message, parse, query, special,
                       sync)

HOSTS = ("127.0.0.2", "127.0.0.3")
IDLE_OVER = fake.error("terminating connection due to idle-session timeout", "57P05", "FATAL")
SHUT_DOWN = fake.error("terminating connection due to administrator command", "57P01", "FATAL")
PREPARED = (parse("SELECT 1"), bind(), execute(), sync())
CRASHED = fake.notice("terminating connection because of crash of another server process", "57P02",
                      "WARNING")
TOO_LONG = fake.error("terminating connection due to idle-in-transaction timeout", "25P03",
                      "FATAL")
RESENT = "the server was lost before it ran the statement"
RESENT_MAX = 10
BEGUN_AGAIN = "the server was lost after BEGIN"
# BEGIN ahead of a statement, and the replies to it
BEGIN_AGAIN = (message("B", b"\0\0" + b"\0\0" * 3), execute(), close("P", ""))
BEGAN = message("1") + message("2") + fake.complete("BEGIN") + message("3")


class Scene:
    """A client, and the server that it has had. `next()` is the server after that."""

    def __init__(self, pgweir, fake_server, certificate=None, **settings):
        self.certificate = certificate  # TLS to the servers, if there is one
        self.port = port = free_port()
        self.hosts = [fake_server(host, port) for host in HOSTS]
        self.weir = pgweir(databases={"app": f"host={','.join(HOSTS)} port={port}"},
                           **{"pool_mode": "transaction", "default_pool_size": 1, **settings})
        self.client = self.weir.wire().startup()
        self.server = self.next(0)
        self.client.finish_login("alice")
        self.weir.wait_pool(sv_idle=1)

    def next(self, number=1):
        if not self.certificate:
            return self.hosts[number].accept().login()
        server, context = self.hosts[number].accept_raw(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        assert server.take(8) == special(SSL_REQUEST)
        server.send(b"S")
        context.load_cert_chain(self.certificate.cert, self.certificate.key)
        server.sock = context.wrap_socket(server.sock, server_side=True)
        return server.login()

    def while_stopped(self, *steps):
        """The daemon finds all of it done when it continues."""
        os.kill(self.weir.process.pid, signal.SIGSTOP)
        for step in steps:
            step()
        os.kill(self.weir.process.pid, signal.SIGCONT)

    def begin(self, sql="BEGIN"):
        self.client.send(query(sql))
        self.server.expect("Q")
        self.server.send(fake.complete("BEGIN"), fake.ready("T"))
        assert self.client.read_result().status == "T"

    def has_begun(self, server, sql="BEGIN"):
        """The server gets the BEGIN again, with the first statement, which it executes."""
        for sent in (parse(sql), *BEGIN_AGAIN):
            assert server.expect(sent[:1].decode()).body == sent[5:]
        assert server.expect("Q").body == b"SELECT 1\0"
        server.send(BEGAN, fake.answer("1", status="T"))
        got = self.client.read_result()
        assert (got.rows, got.tags, got.errors, got.status) == ([["1"]], ["SELECT 1"], [], "T")
        self.client.send(query("COMMIT"))
        assert server.expect("Q").body == b"COMMIT\0"
        server.send(fake.complete("COMMIT"), fake.ready())
        assert self.client.read_result().tags == ["COMMIT"]

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


def behind_a_query_of_ours(one, sql):
    """The client has waited for its server, which gets the client's application_name first."""
    one.begin()
    second = one.weir.wire().startup(application_name="second").finish_login("alice")
    second.send(query(sql))
    one.weir.wait_pool(cl_waiting=1)
    one.client.send(query("COMMIT"))
    one.server.expect("Q")
    one.server.send(fake.complete("COMMIT"), fake.ready())
    assert b"application_name" in one.server.expect("Q").body
    assert one.server.expect("Q").body == sql.encode() + b"\0"
    return second


OURS_DONE = fake.complete("SET") + fake.ready()
BY_POSTGRESQL = fake.error("terminating connection", "57P01", "FATAL", "ProcessInterrupts")


@pytest.mark.parametrize("sql", ("SELECT 1", "BEGIN"))
@pytest.mark.parametrize("last", (OURS_DONE + IDLE_OVER, BY_POSTGRESQL),
                         ids=("57P05", "57P01 before ours is answered"))
def test_behind_a_query_of_ours(scene, sql, last):
    one = scene()
    behind_a_query_of_ours(one, sql)
    one.server.send(last)
    one.server.close()
    other = one.next()
    assert b"application_name" in other.expect("Q").body
    assert other.expect("Q").body == sql.encode() + b"\0"


@pytest.mark.parametrize("last", (OURS_DONE + BY_POSTGRESQL, SHUT_DOWN),
                         ids=("ours is answered", "by another pooler"))
def test_behind_a_query_of_ours_it_may_have_run(scene, last):
    """It may be what was interrupted; or the answer to ours was on its way already."""
    one = scene()
    second = behind_a_query_of_ours(one, "SELECT 1")
    one.server.send(last)
    one.server.close()
    assert second.read_refusal().sqlstate == "57P01"


@pytest.mark.parametrize("sql, last", (
    ("SELECT 1", IDLE_OVER), ("BEGIN", SHUT_DOWN), ("BEGIN", b""),
), ids=("57P05", "BEGIN, 57P01", "BEGIN, lost"))
def test_the_next_server_is_lost_too(scene, sql, last):
    """As on a host that ends its sessions one after the other."""
    one = scene()
    one.client.send(query(sql))
    for number in range(1, RESENT_MAX + 1):
        assert one.server.expect("Q").body == sql.encode() + b"\0"
        one.server.send(last)
        one.server.close()
        one.server = one.next(number % 2)
    one.server.expect("Q")
    one.is_answered(one.server)


def test_but_not_without_end(scene):
    one = scene()
    one.client.send(query("SELECT 1"))
    for number in range(1, RESENT_MAX + 2):
        one.server.expect("Q")
        one.server.send(IDLE_OVER)
        one.server.close()
        if number <= RESENT_MAX:
            one.server = one.next(number % 2)
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
@pytest.mark.parametrize("last", (SHUT_DOWN, b"", CRASHED), ids=("57P01", "lost", "57P02"))
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


def test_the_last_words_behind_what_may_have_run(scene):
    one = scene()
    one.client.send(query("SELECT 1"))
    one.server.expect("Q")
    one.server.send(CRASHED)
    one.server.close()
    assert one.client.read().type == "N"
    assert one.client.read_refusal().sqlstate == "08006"


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


def test_what_was_refused_before_it_is_not_said_twice(scene):
    """A statement of [statements] that is only prepared arrives together with another one."""
    one = scene(track_statements=100)
    one.client.send(query("SELECT 1, 1"))
    one.server.expect("Q")
    one.is_answered(one.server)
    (row,) = one.weir.admin("SHOW STATEMENTS")
    one.weir.sections["statements"] = {row["digest"]: "block=1"}
    one.weir.reload()
    one.client.send(b"".join((parse("SELECT 1, 1", "s"), describe("S", "s"), sync(), *PREPARED)))
    for kind in "PBES":
        one.server.expect(kind)
    one.server.send(IDLE_OVER)
    one.server.close()
    assert one.client.read_result().error["C"] == "42501"
    assert one.client.read_refusal().sqlstate == "57P05"


# -- transactions ----------------------------------------------------------------------------------


def test_a_transaction_is_not(scene):
    one = scene()
    one.begin()
    one.client.send(query("SELECT 1"))
    one.server.expect("Q")
    one.server.send(fake.answer("1", status="T"))
    one.client.read_result()
    one.server.close()
    assert one.client.read_refusal().sqlstate == "08006"
    assert BEGUN_AGAIN not in one.weir.log


@pytest.mark.parametrize("words", ((), (SHUT_DOWN,)), ids=("lost", "57P01"))
@pytest.mark.parametrize("sent", (
    (query("INSERT 2"),), (parse("INSERT 2"), bind(), execute(), sync()),
), ids=("Query", "Execute"))
def test_nor_is_a_later_statement_that_has_not_arrived(scene, words, sent):
    """It would be committed alone, on another server."""
    one = scene()
    one.begin()
    one.client.send(query("INSERT 1"))
    one.server.expect("Q")
    one.server.send(fake.complete("INSERT 0 1"), fake.ready("T"))
    one.client.read_result()
    one.while_stopped(lambda: one.client.send(*sent), lambda: one.server.send(*words),
                      one.server.close)
    one.client.read_refusal()
    assert RESENT not in one.weir.log and BEGUN_AGAIN not in one.weir.log


@pytest.mark.parametrize("words, sqlstate", (((), "08006"), ((SHUT_DOWN,), "57P01")),
                         ids=("lost", "57P01"))
def test_nor_is_its_first_statement_if_it_may_have_run(scene, words, sqlstate):
    one = scene()
    one.begin()
    one.client.send(query("SELECT 1"))
    one.server.expect("Q")
    one.server.send(*words)
    one.server.close()
    assert one.client.read_refusal().sqlstate == sqlstate


def test_one_that_has_failed_here_does_not_begin_again(scene):
    """It would be one that has not failed, and what is behind the refused BEGIN would be committed."""
    one = scene(max_waiting=1)
    one.begin()
    waiter, refused = (one.weir.wire().startup().finish_login("alice") for _ in range(2))
    waiter.send(query("SELECT 1"))
    one.weir.wait_pool(cl_waiting=1)
    refused.send(query("BEGIN"))
    assert refused.read_result().status == "E"
    one.client.send(query("COMMIT"))
    one.server.expect("Q")
    one.server.send(fake.complete("COMMIT"), fake.ready())
    one.server.expect("Q")
    one.server.send(fake.answer("1"))
    waiter.read_result()
    refused.send(query("INSERT 2"))
    for kind in "PBECQ":
        failing = one.server.expect(kind)
    assert failing.body.startswith(b"ROLLBACK TO SAVEPOINT")
    assert one.server.expect("Q").body == b"INSERT 2\0"
    one.server.send(IDLE_OVER)
    one.server.close()
    assert refused.read_refusal().sqlstate == "57P05"
    assert RESENT not in one.weir.log


@pytest.mark.parametrize("words", ((), (SHUT_DOWN,), (CRASHED,)), ids=("lost", "57P01", "57P02"))
@pytest.mark.parametrize("sql", ("BEGIN", "start transaction isolation level repeatable read"))
def test_a_transaction_that_has_only_begun_begins_again(scene, words, sql):
    one = scene()
    one.begin(sql)
    one.server.send(*words)
    one.server.close()
    one.weir.wait_log(BEGUN_AGAIN)
    one.client.send(query("SELECT 1"))
    one.has_begun(one.next(), sql)


def test_it_begins_again_as_often_as_necessary(scene):
    one = scene()
    one.begin()
    one.server.close()
    one.weir.wait_log(BEGUN_AGAIN)
    one.while_stopped(lambda: one.client.send(query("SELECT 1")))
    other = one.next()
    other.expect("P")
    other.close()
    assert one.client.read_refusal().sqlstate == "08006"


@pytest.mark.parametrize("end", ("COMMIT", "ROLLBACK"))
def test_it_may_end_without_a_server(scene, end):
    one = scene()
    one.begin()
    one.server.close()
    one.weir.wait_log(BEGUN_AGAIN)
    one.client.send(query(end))
    got = one.client.read_result()
    assert (got.tags, got.status) == ([end], "I")
    one.client.send(query("SELECT 1"))
    other = one.next()
    assert other.expect("Q").body == b"SELECT 1\0"
    one.is_answered(other)


def test_it_begins_again_within_a_message(scene):
    """The rest of the message comes when the server is gone."""
    one = scene()
    one.begin()
    whole = query("SELECT 1")
    one.client.send(whole[:3])
    one.server.close()
    one.weir.wait_log(BEGUN_AGAIN)
    one.client.send(whole[3:])
    one.has_begun(one.next())


def test_its_first_statement_has_not_arrived(scene):
    one = scene()
    """Or the server is seen to be gone first."""
    one.begin()
    one.while_stopped(lambda: one.client.send(query("SELECT 1")), one.server.close)
    one.has_begun(one.next())


def test_a_late_begin_and_its_statement_have_not_arrived(scene):
    one = scene(late_begin=1)
    assert one.client.query("BEGIN").status == "T"
    one.while_stopped(lambda: one.client.send(query("SELECT 1")), one.server.close)
    one.has_begun(one.next())
    one.weir.wait_log(RESENT)


def test_a_session_that_was_idle_in_its_transaction_is_over(scene):
    """PostgreSQL has ended it for that reason."""
    one = scene()
    one.begin()
    one.server.send(TOO_LONG)
    one.server.close()
    assert one.client.read_refusal().sqlstate == "25P03"


def test_a_begin_of_another_client_is_forgotten(scene):
    """The next client of the server begins in a way that is not kept."""
    one = scene()
    one.begin()
    one.client.send(query("COMMIT"))
    one.server.expect("Q")
    one.server.send(fake.complete("COMMIT"), fake.ready())
    one.client.read_result()
    other = one.weir.wire().startup().finish_login("alice")
    other.send(query("BEGIN; SELECT 1"))
    one.server.expect("Q")
    one.server.send(fake.complete("BEGIN"), fake.answer("1", status="T"))
    other.read_result()
    one.server.close()
    assert other.read_refusal().sqlstate == "08006"


def test_a_begin_that_failed_is_forgotten(scene):
    one = scene()
    one.client.send(query("BEGIN"))
    one.server.expect("Q")
    one.server.send(fake.error("not now", "XX000"), fake.ready())
    one.client.read_result()
    one.client.send(query("BEGIN; SELECT 1"))
    one.server.expect("Q")
    one.server.send(fake.complete("BEGIN"), fake.answer("1", status="T"))
    one.client.read_result()
    one.server.close()
    assert one.client.read_refusal().sqlstate == "08006"


@pytest.mark.one_loop("each loop has a queue of its own")
def test_who_is_sent_again_is_the_first_in_the_queue(scene):
    one = scene()
    others = [one.weir.wire().startup().finish_login("alice") for _ in range(2)]
    one.client.send(query("SELECT 1"))
    one.server.expect("Q")
    for number, other in enumerate(others):
        other.send(query(f"SELECT 1{number}"))
        one.weir.wait_pool(cl_waiting=number + 1)
    one.server.send(IDLE_OVER)
    one.server.close()
    server = one.next()
    for client, sql in zip((one.client, *others), ("SELECT 1", "SELECT 10", "SELECT 11")):
        assert server.expect("Q").body == sql.encode() + b"\0"
        server.send(fake.answer("1"))
        assert client.read_result().rows == [["1"]]


# -- openings --------------------------------------------------------------------------------------


def run_of(*statements, name=""):
    """What executes them, with one Sync."""
    return b"".join(parse(sql, name) + bind(name=name) + execute() for sql in statements) + sync()


def done(*tags):
    return b"".join(message("1") + message("2") + fake.complete(tag) for tag in tags)


def say(one, sent, tags, types=None):
    """The client says it, and the server answers."""
    one.client.send(sent)
    one.server.expect(types or "Q")
    replies = done(*tags) if types else b"".join(fake.complete(tag) for tag in tags) or message("I")
    if types and "D" in types:
        replies = message("1") + message("2") + message("n") + fake.complete(*tags)
    one.server.send(replies, fake.ready("T"))
    assert one.client.read_result().status == "T"


SET_LOCAL = "SET LOCAL statement_timeout = '5s'"
SET_TRANSACTION = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"


def is_opened_again(server, *texts):
    """All of them, and then the first statement."""
    for sql in texts:
        assert server.expect("P").body == parse(sql)[5:]
        server.expect("BE")
    server.expect("C")
    assert server.expect("Q").body == b"SELECT 1\0"


@pytest.mark.parametrize("words", ((), (SHUT_DOWN,)), ids=("lost", "57P01"))
@pytest.mark.parametrize("said, texts", [
    ([(run_of("BEGIN"), ["BEGIN"], "PBES")], ["BEGIN"]),
    ([(parse("BEGIN") + bind() + describe("P", "") + execute() + sync(), ["BEGIN"], "PBDES")],
     ["BEGIN"]),
    ([(run_of("BEGIN", name="b"), ["BEGIN"], "PBES")], ["BEGIN"]),
    ([(query("BEGIN"), ["BEGIN"]), (query(SET_LOCAL), ["SET"])], ["BEGIN", SET_LOCAL]),
    ([(query("BEGIN"), ["BEGIN"]), (query(SET_TRANSACTION), ["SET"]), (query(SET_LOCAL), ["SET"])],
     ["BEGIN", SET_TRANSACTION, SET_LOCAL]),
    ([(run_of("BEGIN"), ["BEGIN"], "PBES"), (run_of(SET_LOCAL), ["SET"], "PBES")],
     ["BEGIN", SET_LOCAL]),
    ([(run_of("BEGIN", SET_LOCAL), ["BEGIN", "SET"], "PBEPBES")], ["BEGIN", SET_LOCAL]),
    ([(query("BEGIN"), ["BEGIN"]), (query(""), [])], ["BEGIN"]),
], ids=("extended", "described", "prepared", "SET LOCAL", "three", "extended SET LOCAL", "pipeline",
        "nothing"))
def test_a_transaction_that_is_only_opened_begins_again(scene, said, texts, words):
    one = scene()
    for what in said:
        say(one, *what)
    one.server.send(*words)
    one.server.close()
    one.weir.wait_log(BEGUN_AGAIN)
    one.client.send(query("SELECT 1"))
    other = one.next()
    is_opened_again(other, *texts)
    other.send(done(*("SET" if text.startswith("SET") else text for text in texts)), message("3"),
               fake.answer("1", status="T"))
    assert one.client.read_result().rows == [["1"]]
    one.client.send(query("COMMIT"))
    other.expect("Q")
    other.send(fake.complete("COMMIT"), fake.ready())
    assert one.client.read_result().status == "I"


def test_what_an_opening_sets_again_changes_no_statement_of_others(scene):
    """Theirs of the same text is prepared again, as it may have another meaning."""
    one = scene()
    local = "SET LOCAL transform_null_equals = on"
    use = parse("SELECT 1", "s") + bind(name="s") + execute() + sync()
    say(one, query("BEGIN"), ["BEGIN"])
    say(one, query(local), ["SET"])
    one.server.close()
    one.weir.wait_log(BEGUN_AGAIN)
    one.client.send(use)
    other = one.next()
    other.expect("PBEPBECC" + "PBES")
    other.send(done("BEGIN", "SET"), 2 * message("3"), done("SELECT 1"), fake.ready("T"))
    assert one.client.read_result().status == "T"
    one.client.send(query("COMMIT"))
    other.expect("Q")
    other.send(fake.complete("COMMIT"), fake.ready())
    assert one.client.read_result().status == "I"
    second = one.weir.wire().startup()
    second.finish_login("alice")
    second.send(use)
    assert other.expect("C").body.startswith(b"S")
    other.expect("PBES")


@pytest.mark.parametrize("sql", [
    "SET statement_timeout = '5s'", "SELECT 1", "SAVEPOINT a", "SET LOCAL a.b = 1; SELECT 1",
    "SET LOCAL TRANSACTION SNAPSHOT '1'", SET_LOCAL + 300 * " ",
])
def test_what_is_no_opening_is_not_repeated(scene, sql):
    one = scene()
    one.begin()
    say(one, query(sql), ["DONE"])
    one.server.close()
    assert one.client.read_refusal().sqlstate == "08006"


@pytest.mark.parametrize("last", (SHUT_DOWN, b""), ids=("57P01", "lost"))
@pytest.mark.parametrize("sent, types", [
    (query(SET_LOCAL), "Q"), (run_of(SET_LOCAL), "PBES"), (run_of(SET_TRANSACTION), "PBES"),
])
def test_a_part_of_an_opening_is_said_again(scene, sent, types, last):
    """Whether or not it has run, its transaction is lost with its server."""
    one = scene()
    one.begin()
    one.client.send(sent)
    one.server.expect(types)
    one.server.send(last)
    one.server.close()
    other = one.next()
    assert other.expect("P").body == parse("BEGIN")[5:]
    other.expect("BEC" if types == "Q" else "BECC")
    other.expect(types)


@pytest.mark.parametrize("last", (SHUT_DOWN, b""), ids=("57P01", "lost"))
def test_an_extended_opening_is_said_again(scene, last):
    one = scene()
    one.client.send(run_of("BEGIN", SET_LOCAL))
    one.server.expect("PBEPBES")
    one.server.send(last)
    one.server.close()
    one.next().expect("PBEPBES")


def test_a_statement_behind_its_begin_has_not_arrived(scene):
    """As JDBC sends them."""
    one = scene()
    one.while_stopped(lambda: one.client.send(run_of("BEGIN", "SELECT 1")), one.server.close)
    one.next().expect("PBEPBES")
    one.weir.wait_log(RESENT)


@pytest.mark.parametrize("sent, types", [
    (run_of("BEGIN", "SELECT 1"), "PBEPBES"), (run_of("BEGIN", "SELECT 1", "COMMIT"), "PBEPBEPBES"),
    (run_of("SELECT 1", "BEGIN"), "PBEPBES"),
    (parse("SELECT 1") + bind(portal="a") + parse("BEGIN") + bind(portal="b") + execute("a")
     + sync(), "PBPBES"),
])
def test_a_statement_behind_its_begin_may_have_run(scene, sent, types):
    one = scene()
    one.client.send(sent)
    one.server.expect(types)
    one.server.close()
    assert one.client.read_refusal().sqlstate == "08006"


def test_an_opening_that_failed_is_not_repeated(scene):
    one = scene()
    one.begin()
    one.client.send(query(SET_LOCAL))
    one.server.expect("Q")
    one.server.send(fake.error("no", "22023"), fake.ready("E"))
    assert one.client.read_result().status == "E"
    one.server.close()
    assert one.client.read_refusal().sqlstate == "08006"


def test_an_opening_is_forgotten_when_a_reload_leaves_one_host(scene):
    one = scene()
    one.begin()
    one.weir.reload(databases={"app": f"host={HOSTS[0]} port={one.port}"})
    say(one, query("INSERT INTO t VALUES (1)"), ["INSERT 0 1"])
    one.server.close()
    assert one.client.read_refusal().sqlstate == "08006"
    assert BEGUN_AGAIN not in one.weir.log


def test_a_description_does_not_end_an_opening(scene):
    one = scene()
    one.begin()
    one.client.send(parse("SELECT 1"), describe("S", ""), sync())
    one.server.expect("PDS")
    one.server.send(message("1"), message("t", b"\0\0"), fake.columns("c"), fake.ready("T"))
    assert one.client.read_result().status == "T"
    one.server.close()
    one.weir.wait_log(BEGUN_AGAIN)
    one.client.send(bind(), execute(), sync())
    other = one.next()
    assert other.expect("P").body == parse("BEGIN")[5:]
    other.expect("BECC")
    assert other.expect("P").body == parse("SELECT 1")[5:]
    other.expect("BES")


# -- a server that is gone -------------------------------------------------------------------------


@pytest.mark.parametrize("words", ((), (SHUT_DOWN,)), ids=("lost", "57P01"))
def test_the_server_was_gone_before_the_statement_left(scene, words):
    """Both are there in the same turn of the loop, the statement first."""
    one = scene()
    one.while_stopped(lambda: one.client.send(query("SELECT 1")),
                      lambda: one.server.send(*words), one.server.close)
    other = one.next()
    other.expect("Q")
    one.is_answered(other)


@pytest.mark.parametrize("is_secure", (False, True), ids=("plain", "TLS"))
def test_what_came_without_its_sync_may_have_run(scene, server_certificate, is_secure):
    """The Sync has not arrived: with TLS that is more bytes than a Sync has."""
    one = scene(certificate=server_certificate if is_secure else None,
                server_tls_sslmode="require" if is_secure else "disable")
    one.client.send(parse("SELECT 1"), bind(), execute())
    one.server.expect("PBE")
    one.while_stopped(lambda: one.client.send(sync()), one.server.close)
    assert one.client.read_refusal().sqlstate == "08006"


@pytest.mark.parametrize("sent", ((query("SELECT 1"),), PREPARED), ids=("simple", "extended"))
def test_the_server_was_gone_before_the_statement_left_by_tls(scene, server_certificate, sent):
    one = scene(certificate=server_certificate, server_tls_sslmode="require")
    one.while_stopped(lambda: one.client.send(*sent), one.server.close)
    one.next().expect("Q" if len(sent) == 1 else "PBES")


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
