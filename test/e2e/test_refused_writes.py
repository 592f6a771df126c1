# SPDX-License-Identifier: ISC
"""Statements that a host refuses because it accepts no writes any more (25006): they are sent to
the new primary, unseen."""

import pytest

from .kit import fake
from .kit.account import free_port
from .kit.wire import message
from .kit.wait import wait_until
from .kit.wire import bind, cstr, describe, execute, parse, query, sync

HOSTS = ("127.0.0.2", "127.0.0.3")
INSERT = "INSERT INTO t VALUES (1)"
BEGAN = message("1") + message("2") + fake.complete("BEGIN") + message("3")
RESENT = "the server was lost before it ran the statement"


def refusal(what="INSERT", context=None):
    words = f"cannot execute {what} in a read-only transaction"
    fields = [("S", "ERROR"), ("V", "ERROR"), ("C", "25006"), ("M", words)]
    fields += [("W", context)] if context else []
    return message("E", b"".join(k.encode() + cstr(v) for k, v in fields) + b"\0")


def be(channel, role="primary", timeline=1, read_only="off"):
    """Logs a server in at a host with this role."""
    is_standby = role == "standby"
    channel.login(in_hot_standby="on" if is_standby else "off",
                  default_transaction_read_only=read_only)
    assert b"pg_is_in_recovery" in channel.expect("Q").body
    at = str(timeline) if is_standby else f"{timeline:08X}000000000000000A"
    channel.send(fake.answer("t" if is_standby else "f", read_only, at, "7", str(timeline),
                             "0/1000", None))
    return channel


class Scene:
    """A client, and the server at the primary that it has had."""

    def __init__(self, pgweir, fake_server, target="primary", **settings):
        port = free_port()
        self.hosts = [fake_server(host, port) for host in HOSTS]
        entry = f"host={','.join(HOSTS)} port={port} target_session_attrs={target}"
        self.weir = pgweir(host_check_borrow=0, databases={"app": entry}, **{"pool_mode": "transaction",
                                                        "default_pool_size": 1, **settings})
        self.client = self.weir.wire().startup()
        self.old = be(self.hosts[0].accept())
        self.client.finish_login("alice")
        self.weir.wait_pool(sv_idle=1)

    def writes_first(self, begin, late_begin, is_answered=True):
        """The first statement of a transaction has arrived at the old primary.

        is_answered: a late BEGIN was answered to the pooler.
        """
        self.client.send(query(begin))
        if not late_begin:
            self.old.expect("Q")
            self.old.send(fake.complete("BEGIN"), fake.ready("T"))
        assert self.client.read_result().status == "T"
        self.client.send(query(INSERT))
        if late_begin:
            for kind in "PBEC":
                self.old.expect(kind)
            if is_answered:
                self.old.send(BEGAN)
        self.old.expect("Q")

    def demoted(self):
        """The server at the new primary; the old one has become a standby."""
        be(self.hosts[0].accept(), "standby", 2)
        return be(self.hosts[1].accept(), "primary", 2)

    def is_passed(self, *replies, status="I"):
        self.old.send(*replies, fake.ready(status))
        got = self.client.read_result()
        assert [error["C"] for error in got.errors] == ["25006"]
        assert RESENT not in self.weir.log


@pytest.fixture
def scene(pgweir, fake_server):
    return lambda *args, **settings: Scene(pgweir, fake_server, *args, **settings)


@pytest.mark.parametrize("target", ("primary", "read-write"))
def test_the_primary_was_demoted(scene, target):
    one = scene(target)
    one.client.send(query(INSERT))
    one.old.expect("Q")
    one.old.send(refusal(), fake.ready())
    # Without a watch, a host that refuses to write is no host for read-write.
    new = one.demoted() if target == "primary" else be(one.hosts[1].accept(), "primary", 2)
    assert new.expect("Q").body == cstr(INSERT)
    new.send(fake.complete("INSERT 0 1"), fake.ready())
    got = one.client.read_result()
    assert (got.tags, got.errors) == (["INSERT 0 1"], [])
    one.weir.wait_log(RESENT)
    one.old.expect("X")


@pytest.mark.parametrize("cut", (False, True), ids=("at once", "byte by byte"))
def test_the_extended_protocol(scene, cut):
    one = scene()
    one.client.send(parse(INSERT, "s1"), bind(name="s1"), describe("P"), execute(), sync())
    for kind in "PBDES":
        one.old.expect(kind)
    reply = message("1") + message("2") + message("n") + refusal() + fake.ready()
    for part in [reply[i:i + 1] for i in range(len(reply))] if cut else [reply]:
        one.old.send(part)
    new = one.demoted()
    for kind in "PBDES":
        new.expect(kind)
    new.send(message("1"), message("2"), message("n"), fake.complete("INSERT 0 1"), fake.ready())
    got = one.client.read_result()
    assert (got.tags, got.errors) == (["INSERT 0 1"], [])


def test_a_prepared_statement_that_the_server_had(scene):
    one = scene(max_prepared_statements=10)
    one.client.send(parse(INSERT, "s1"), sync())
    one.old.expect("P")
    one.old.expect("S")
    one.old.send(message("1"), fake.ready())
    one.client.read_result()
    one.client.send(bind(name="s1"), execute(), sync())
    for kind in "BES":
        one.old.expect(kind)
    one.old.send(message("2"), refusal(), fake.ready())
    new = one.demoted()
    assert cstr(INSERT) in new.expect("P").body
    for kind in "BES":
        new.expect(kind)
    new.send(message("1"), message("2"), fake.complete("INSERT 0 1"), fake.ready())
    got = one.client.read_result()
    assert (got.tags, got.errors) == (["INSERT 0 1"], [])


@pytest.mark.parametrize("late_begin", (0, 1))
def test_the_first_statement_of_a_transaction(scene, late_begin):
    one = scene(late_begin=late_begin)
    one.writes_first("BEGIN", late_begin)
    one.old.send(refusal(), fake.ready("E"))
    new = one.demoted()
    for kind in "PBEC":
        new.expect(kind)
    assert new.expect("Q").body == cstr(INSERT)
    new.send(BEGAN, fake.complete("INSERT 0 1"), fake.ready("T"))
    got = one.client.read_result()
    assert (got.tags, got.errors, got.status) == (["INSERT 0 1"], [], "T")


@pytest.mark.parametrize("late_begin", (0, 1))
def test_a_transaction_that_is_read_only_is_not(scene, late_begin):
    one = scene(late_begin=late_begin)
    one.writes_first("BEGIN READ ONLY", late_begin)
    one.is_passed(refusal(), status="E")


def test_the_second_statement_of_a_transaction_is_not(scene):
    one = scene()
    for sql, reply in (("BEGIN", fake.complete("BEGIN")), ("SELECT 1", fake.answer("1")[:-6])):
        one.client.send(query(sql))
        one.old.expect("Q")
        one.old.send(reply, fake.ready("T"))
        one.client.read_result()
    one.client.send(query(INSERT))
    one.old.expect("Q")
    one.is_passed(refusal(), status="E")


def test_only_once(scene):
    one = scene()
    one.client.send(query(INSERT))
    one.old.expect("Q")
    one.old.send(refusal(), fake.ready())
    one.old = be(one.hosts[0].accept())
    one.old.expect("Q")
    one.old.send(refusal(), fake.ready())
    assert [error["C"] for error in one.client.read_result().errors] == ["25006"]


@pytest.mark.parametrize("sql, what, context", (
    ("SELECT f()", "INSERT", "SQL function \"f\" statement 1"),
    ("SELECT f()", "INSERT", None),
    ("INSERT INTO temporary SELECT nextval('s')", "nextval()", None),
    ("SELECT nextval('s')", "nextval()", None),
    ("SELECT g(), pg_notify('a', 'b')", "NOTIFY", None),
    ("EXECUTE s", "INSERT", None),
    ("CALL p()", "INSERT", "PL/pgSQL function p() line 1 at SQL statement"),
), ids=lambda value: str(value)[:24])
def test_what_may_have_run_in_part_is_not(scene, sql, what, context):
    one = scene()
    one.client.send(query(sql))
    one.old.expect("Q")
    one.is_passed(refusal(what, context))


@pytest.mark.parametrize("sql, what", (
    ("WITH a AS (INSERT INTO t VALUES (1)) SELECT 1", "SELECT"),
    ("/* one */ select * from t for update", "SELECT FOR UPDATE"),
    ("create table t (id int)", "CREATE TABLE"),
))
def test_the_command_is_named_by_the_error(scene, sql, what):
    one = scene()
    one.client.send(query(sql))
    one.old.expect("Q")
    one.old.send(refusal(what), fake.ready())
    assert one.demoted().expect("Q").body == cstr(sql)


@pytest.mark.parametrize("before", (
    fake.complete("SET"), fake.columns("c0") + fake.row("1"), fake.notice("x"),
), ids=("a tag", "a row", "a notice"))
def test_what_was_answered_before_is_not(scene, before):
    one = scene()
    one.client.send(query(INSERT))
    one.old.expect("Q")
    one.is_passed(before, refusal())


def test_a_client_that_has_asked_for_it_is_not(scene):
    one = scene()
    one.client.send(query("SET default_transaction_read_only = on"))
    one.old.expect("Q")
    one.old.send(fake.complete("SET"), fake.parameter("default_transaction_read_only", "on"),
                 fake.ready())
    one.client.read_result()
    one.client.send(query(INSERT))
    one.old.expect("Q")
    one.is_passed(refusal())


@pytest.mark.parametrize("target", ("any", "prefer-standby"))
def test_who_may_be_on_a_standby_is_not(scene, pgweir, fake_server, target):
    port = free_port()
    hosts = [fake_server(host, port) for host in HOSTS]
    weir = pgweir(host_check_borrow=0, databases={"app": f"host={','.join(HOSTS)} port={port}"
                                    f" target_session_attrs={target}"}, pool_mode="transaction")
    client = weir.wire().startup()
    server = hosts[0].accept()
    if target == "any":
        server.login(in_hot_standby="off", default_transaction_read_only="off")
    else:
        be(server)
    client.finish_login("alice")
    client.send(query(INSERT))
    server.expect("Q")
    server.send(refusal(), fake.ready())
    assert [error["C"] for error in client.read_result().errors] == ["25006"]


def test_session_mode_is_not(scene):
    one = scene(pool_mode="session")
    one.client.send(query(INSERT))
    one.old.expect("Q")
    one.is_passed(refusal())


def test_a_host_that_is_made_read_only(make_cluster, pgweir):
    """Nobody watches: the statement itself finds out."""
    cluster = make_cluster(standbys=1)
    old, new = cluster.hosts
    old.query("CREATE TABLE t (id int); GRANT ALL ON t TO PUBLIC;")
    cluster.wait_replayed(new)
    weir = pgweir(host_check_borrow=0, databases={"app": f"host={cluster.host_list} port={cluster.port} dbname=app"
                                    " target_session_attrs=read-write"}, pool_mode="transaction")
    client, prepared = weir.client(), weir.client()
    client.query("INSERT INTO t VALUES (1)")
    cluster.wait_replayed(new)
    old.query("ALTER SYSTEM SET default_transaction_read_only = on")
    old.query("SELECT pg_reload_conf()")
    wait_until(lambda: old.value("SHOW default_transaction_read_only") == "on",
               what="a host that is read only")
    new.promote()
    client.query("INSERT INTO t VALUES (2)")
    prepared.query("INSERT INTO t VALUES (3)")
    rows = new.query("SELECT id FROM t ORDER BY id")
    assert [row[0] for row in rows] == [1, 2, 3]
    weir.wait_log(RESENT)
