# SPDX-License-Identifier: ISC
"""Faults in production. Nothing hangs without a limit; other clients never notice."""

import os
import resource
import signal
import struct
import threading
import time

import psycopg
import pytest

from .kit import fake
from .kit.wait import LIMIT, wait_until
from .kit.wire import (Closed, Refused, Wire, extended, message, parse, query, refusal, startup,
                       sync)

MB = 1024 * 1024


def still_works(weir, database="app", user="alice"):
    with weir.connect(database, user) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


# -- lost servers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
def test_backend_killed_in_mid_query(pgweir, private_postgres, mode):
    server = private_postgres()
    weir = pgweir(postgres=server, pool_mode=mode, server_login_retry="0.1")
    client = weir.client()
    client.send(query("SELECT pg_sleep(60)"))
    (pid,) = wait_until(lambda: server.backends("alice"))
    os.kill(pid, signal.SIGKILL)
    refused = client.read_refusal()
    assert refused.severity == "FATAL"
    assert refused.sqlstate in ("08006", "57P02")
    # PostgreSQL ends all its backends after such a crash and recovers.
    wait_until(lambda: can_log_in(weir))


@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
def test_backend_terminated_hurts_its_own_client_only(pgweir, postgres, mode):
    weir = pgweir(pool_mode=mode, default_pool_size=2)
    victim, other = weir.client(), weir.client()
    other.send(query("SELECT pg_sleep(0.5), 'mine'"))
    victim.send(query("SELECT pg_sleep(60), 'victim'"))
    pid = wait_until(lambda: postgres.query(
        "SELECT pid FROM pg_stat_activity WHERE query LIKE '%%60), ''victim%%'"
        " AND usename = 'alice'"))[0][0]
    postgres.query("SELECT pg_terminate_backend(%s)", pid)
    seen = [got.fields for got in victim.read_to_end() if got.type == "E"]
    assert seen[0]["C"] == "57P01"  # PostgreSQL's own error comes first
    assert other.read_result().rows == [["", "mine"]]
    still_works(weir)


@pytest.mark.parametrize("mode, answered, last, detail", (
    ("session", ("SELECT 1",), None, "No statement was running."),
    ("transaction", (), "SELECT 1", "The statement might have been executed."),
    ("transaction", ("BEGIN", "SELECT 1"), None, "The transaction was not committed."),
    ("transaction", ("BEGIN", "SELECT 1"), "COMMIT",
     "The transaction was not committed, unless COMMIT was sent last."),
), ids=("idle", "a statement", "a transaction", "its end"))
def test_server_lost_without_a_word_is_08006(pgweir, fake_server, mode, answered, last, detail):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry}, pool_mode=mode)
    client = weir.wire().startup()
    with far.accept() as server:
        server.login()
        client.finish_login("alice")
        for sql in answered:
            client.send(query(sql))
            server.expect("Q")
            server.send(fake.complete("X"), fake.ready("I" if mode == "session" else "T"))
            client.read_result()
        if last:
            client.send(query(last))
            server.expect("Q")
    refused = client.read_refusal()
    assert (refused.sqlstate, refused.text) == ("08006", "server conn crashed?")
    assert refused.fields["D"] == detail


def test_idle_server_lost_is_replaced(pgweir, postgres):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    connection = weir.connect()
    before = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
    postgres.query("SELECT pg_terminate_backend(%s, 5000)", before)
    weir.wait_pool(sv_idle=0)
    assert connection.execute("SELECT pg_backend_pid()").fetchone()[0] != before


def test_restart_under_load(pgweir, private_postgres):
    server = private_postgres()
    weir = pgweir(postgres=server, pool_mode="transaction", default_pool_size=5,
                  server_login_retry="0.1", query_wait_timeout="10")
    stop, wrong, done = threading.Event(), [], [0] * 10

    def work(number):
        connection, turn = None, 0
        while not stop.is_set():
            turn += 1
            try:
                connection = connection or psycopg.connect(
                    host="127.0.0.1", port=weir.port, dbname="app", user="alice",
                    autocommit=True, prepare_threshold=None, connect_timeout=int(LIMIT))
                mine = number * 1000000 + turn
                row = connection.execute("SELECT %s::int", [mine]).fetchone()
                if row != (mine,):
                    wrong.append((mine, row))
                done[number] += 1
            except psycopg.Error:
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(len(done))]
    for worker in workers:
        worker.start()
    try:
        for how in (signal.SIGINT, signal.SIGQUIT):
            before = list(done)
            wait_until(lambda: all(n > old + 10 for n, old in zip(done, before)))
            server.restart(how)
        before = list(done)
        wait_until(lambda: all(n > old + 10 for n, old in zip(done, before)), limit=30)
    finally:
        stop.set()
        for worker in workers:
            worker.join(30)
    assert not any(worker.is_alive() for worker in workers)
    assert not wrong
    still_works(weir)


def test_nobody_listens_at_the_servers_address(pgweir):
    weir = pgweir(postgres=None, databases={"app": "host=127.0.0.1 port=1"},
                  client_login_timeout="0.5")
    refused = refusal(weir.address)
    assert refused.text == "client_login_timeout (server down)"


def test_connected_clients_wait_for_a_dead_server_only_so_long(pgweir, private_postgres):
    server = private_postgres()
    weir = pgweir(postgres=server, pool_mode="transaction", query_wait_timeout="0.5",
                  server_login_retry="0.1")
    client = weir.client()
    client.query("SELECT 1")
    server.stop()
    client.send(query("SELECT 2"))
    refused = client.read_refusal()
    assert refused.sqlstate in ("53300", "08006")
    server.start()
    wait_until(lambda: can_log_in(weir), what="a login after PostgreSQL came back")


def can_log_in(weir):
    try:
        still_works(weir)
        return True
    except psycopg.Error:
        return False


def test_a_server_that_never_answers(pgweir, fake_server, postgres):
    silent = fake_server()
    weir = pgweir(server_connect_timeout="0.4", client_login_timeout="1.5", databases={
        "app": silent.entry, "app2": f"host=127.0.0.1 port={postgres.port}"})
    client = weir.wire().startup()
    server = silent.accept()
    still_works(weir, "app2")
    weir.wait_log("connect timeout")
    server.wait_closed()
    assert client.read_refusal().text == "client_login_timeout (server down)"


# -- the server refuses ---------------------------------------------------------------------------


def test_wrong_password_at_the_server(pgweir):
    weir = pgweir(databases={"app": "user=scram_user password=wrong"})
    refused = refusal(weir.address)
    assert refused.sqlstate == "28P01"
    assert refused.text.endswith('password authentication failed for user "scram_user"')


def test_no_such_database_at_the_server(pgweir):
    weir = pgweir(databases={"app": "dbname=nowhere"})
    refused = refusal(weir.address)
    assert refused.sqlstate == "3D000"
    assert 'database "nowhere" does not exist' in refused.text


def test_no_such_role_at_the_server(pgweir):
    weir = pgweir(userlist={"ghost": "x", "admin": "admin secret"})
    refused = refusal(weir.address, "ghost")
    assert refused.sqlstate == "28000"
    assert 'role "ghost" does not exist' in refused.text


def test_too_many_connections_at_the_server(pgweir):
    weir = pgweir(pool_mode="session", default_pool_size=2, server_login_retry="0.1",
                  query_wait_timeout="1")
    first, second = weir.client("limited"), weir.client("limited")
    assert first.value("SELECT 1") == "1"
    # There is a connected server, so waiting clients keep waiting: it may become free.
    second.send(query("SELECT 2"))
    weir.wait_log("too many connections for role")
    refused = second.read_refusal()
    assert refused.sqlstate == "53300"
    assert first.value("SELECT 3") == "3"


def test_too_many_connections_with_nothing_connected(pgweir, postgres):
    taken = postgres.connect(user="limited")
    weir = pgweir(server_login_retry="0.1")
    refused = refusal(weir.address, "limited")
    assert refused.sqlstate == "53300"
    assert "too many connections for role" in refused.text
    taken.close()
    wait_until(lambda: not postgres.backends("limited"))
    wait_until(lambda: can_log_in_as(weir, "limited"))


def can_log_in_as(weir, user):
    try:
        still_works(weir, user=user)
        return True
    except psycopg.Error:
        return False


# -- lost clients ---------------------------------------------------------------------------------

partings = pytest.mark.parametrize("parting", ("close", "reset"))


@partings
@pytest.mark.parametrize("mode", ("session", "transaction"))
def test_client_vanishes_in_mid_transaction(pgweir, postgres, mode, parting):
    weir = pgweir(pool_mode=mode, default_pool_size=1)
    client = weir.client()
    client.query("BEGIN")
    assert client.query("SELECT pg_advisory_lock(4711)").status == "T"
    getattr(client, parting)()
    # The lock ends with the server's session; no later client may find it held.
    with weir.connect() as connection:
        took = wait_until(
            lambda: connection.execute("SELECT pg_try_advisory_lock(4711)").fetchone()[0])
        assert took
        connection.execute("SELECT pg_advisory_unlock_all()")


@partings
def test_client_vanishes_in_mid_query(pgweir, postgres, parting):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(query("SELECT pg_sleep(0.3)"))
    weir.wait_pool(sv_active=1)
    getattr(client, parting)()
    still_works(weir)
    weir.wait_pool(cl_active=0, cl_waiting=0)


@partings
def test_client_vanishes_in_mid_copy_in(pgweir, postgres, parting):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    postgres.query("CREATE TABLE vanished (t text)")
    postgres.query("GRANT ALL ON vanished TO PUBLIC")
    client = weir.client()
    client.send(query("COPY vanished FROM STDIN"))
    client.expect("G")
    client.send(message("d", b"one row\n"), message("d", b"half a ro")[:9])
    getattr(client, parting)()
    with weir.connect() as connection:
        assert connection.execute("SELECT count(*) FROM vanished").fetchone() == (0,)
    postgres.query("DROP TABLE vanished")


@partings
def test_client_vanishes_in_mid_copy_out(pgweir, parting):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(query("COPY (SELECT repeat('x', 1000) FROM generate_series(1, 100000)) TO STDOUT"))
    client.expect("Hd")
    getattr(client, parting)()
    still_works(weir)


@partings
def test_client_vanishes_while_waiting(pgweir, parting):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter, other = weir.client(), weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 'nobody will read this'"))
    weir.wait_pool(cl_waiting=1)
    other.send(query("SELECT 'mine'"))
    weir.wait_pool(cl_waiting=2)
    getattr(waiter, parting)()
    # It leaves the queue at once, not when it is served.
    weir.wait_pool(cl_waiting=1)
    assert holder.query("COMMIT").tags == ["COMMIT"]
    assert other.read_result().rows == [["mine"]]


def test_client_vanishes_between_parse_and_sync(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(parse("SELECT 'half'"))
    weir.wait_pool(sv_active=1)
    client.close()
    assert weir.client().ask(extended("SELECT 'whole'")).rows == [["whole"]]


def test_client_vanishes_within_a_message(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(query("SELECT " + "1" * 100000)[:50000])
    client.close()
    still_works(weir)


@partings
def test_clients_vanish_within_the_login(pgweir, parting):
    weir = pgweir()
    packet = startup(user="alice", database="app")
    for cut in range(len(packet)):
        client = Wire(weir.address)
        client.send(packet[:cut])
        getattr(client, parting)()
    still_works(weir)
    wait_until(lambda: list_item(weir, "login_clients") == 0)


def list_item(weir, name):
    return {row["list"]: row["items"] for row in weir.admin("SHOW LISTS")}[name]


def test_probes_that_say_nothing_are_not_logged(pgweir):
    weir = pgweir()
    still_works(weir)
    before = weir.log
    for _ in range(20):
        Wire(weir.address).close()
    still_works(weir)
    weir.wait_log("login attempt", since=len(before))
    new = weir.log[len(before):]
    assert new.count("closing because") <= 2, new  # the one that did log in


# -- slow ones ------------------------------------------------------------------------------------


def test_a_client_that_reads_nothing(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    still_works(weir)
    client = weir.client()
    before = weir.rss()
    client.send(query("SELECT repeat('x', 1000) FROM generate_series(1, 200000)"))  # 200 MB
    weir.wait_pool(sv_active=1)
    for _ in range(200):
        still_works(weir)
    assert weir.rss() - before < 20 * MB
    rows = sum(got.type == "D" for got in client.read_until("Z"))
    assert rows == 200000


def test_a_server_that_reads_nothing(pgweir, fake_server, postgres):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry, "app2": f"host=127.0.0.1 port={postgres.port}"})
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    still_works(weir, "app2")
    before = weir.rss()
    sent = 0
    client.sock.settimeout(0.5)
    piece = message("d", b"x" * 65536)
    client.sock.sendall(query("COPY t FROM STDIN"))
    server.expect("Q")
    server.send(message("G", b"\0\0\0"))
    try:
        while sent < 500 * MB:
            client.sock.sendall(piece)
            sent += len(piece)
    except TimeoutError:
        pass
    assert sent < 100 * MB, "nobody read it, so where is it?"
    assert weir.rss() - before < 20 * MB
    still_works(weir, "app2")


@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
def test_one_byte_at_a_time(pgweir, mode):
    weir = pgweir(pool_mode=mode)
    client = weir.wire()
    client.send_slowly(startup(user="alice", database="app"))
    client.finish_login("alice")
    client.send_slowly(query("SELECT 'drop by drop'"))
    assert client.read_result().rows == [["drop by drop"]]
    client.send_slowly(extended("SELECT $1::text", ["again"]))
    assert client.read_result().rows == [["again"]]


def test_a_server_that_sends_one_byte_at_a_time(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry})
    client = weir.wire().startup()
    server = far.accept()
    server.sock.setsockopt(6, 1, 1)  # TCP_NODELAY
    server.send_slowly(fake.auth(0))
    server.send_slowly(fake.parameter("server_version", "15.0"))
    server.send_slowly(message("K", fake.KEY) + fake.ready())
    client.finish_login("alice")
    client.send(query("SELECT 1"))
    server.expect("Q")
    server.send_slowly(fake.answer("slow") + fake.notice("and a late notice"))
    assert client.read_result().rows == [["slow"]]


def test_slow_logins_are_ended(pgweir):
    weir = pgweir(client_login_timeout="0.3")
    client = weir.wire()
    client.send(startup(user="alice", database="app")[:10])
    refused = client.read_refusal()
    assert refused.text == "client_login_timeout"


# -- invalid messages -----------------------------------------------------------------------------

NONSENSE_AT_LOGIN = {
    "http": b"HTTP/1.1 400 Bad Request\r\nServer: something else\r\n\r\n",
    "zeros": b"\0" * 64,
    "length too short": b"R\0\0\0\3",
    "length beyond all": b"R\xff\xff\xff\xff",
    "length negative": b"R\x80\0\0\0",
    "huge authentication": message("R", b"\0" * 200000),
    "authentication without code": message("R"),
    "unknown authentication": fake.auth(77),
    "kerberos": fake.auth(2),
    "gss": fake.auth(7),
    "ready before authentication": fake.ready(),
    "row before authentication": fake.row("x"),
    "md5 without salt": fake.auth(5),
    "sasl without mechanisms": fake.auth(10),
    "sasl of unknown mechanisms": fake.auth(10, b"PLAIN\0\0"),
    "sasl unterminated": fake.auth(10, b"SCRAM-SHA-256"),
    "sasl continue at once": fake.auth(11, b"r=x,s=eHg=,i=4096"),
    "sasl final at once": fake.auth(12, b"v=eHg="),
    "error without fields": message("E"),
    "error unterminated": message("E", b"SFATAL\0Mcut he"),
    "parameter unterminated": fake.auth(0) + message("S", b"TimeZone"),
    "parameter empty": fake.auth(0) + message("S"),
    "key too short": fake.auth(0) + message("K", b"\0") + fake.ready(),
    "ready without status": fake.auth(0) + message("K", fake.KEY) + message("Z"),
    "copy in": fake.auth(0) + message("G", b"\0\0\0"),
}


@pytest.mark.parametrize("says", NONSENSE_AT_LOGIN.values(), ids=NONSENSE_AT_LOGIN.keys())
def test_nonsense_at_the_servers_login(pgweir, fake_server, postgres, says):
    far = fake_server()
    weir = pgweir(client_login_timeout="1", server_connect_timeout="0.4", server_login_retry="0.2",
                  databases={"app": far.entry, "app2": f"host=127.0.0.1 port={postgres.port}"})
    other = weir.client(database="app2")

    def talk(server):
        server.send(says)
        server.wait_closed()

    far.serve(talk)
    client = weir.wire().startup()
    assert client.read_refusal().severity == "FATAL"
    assert other.value("SELECT 1") == "1"


NONSENSE_IN_AN_ANSWER = {
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "unknown type": message("@", b"?"),
    "length too short": b"T\0\0\0\3",
    "length beyond all": b"D\xff\xff\xff\xff",
    "row without end": fake.columns("a") + message("D", b"\0\1\0\0\0\1x") + b"D\x7f\xff\xff\xff",
    "ready twice": fake.answer("1") + fake.ready(),
    "complete twice": fake.columns("a") + fake.complete("SELECT 0") + fake.ready()
    + fake.complete("SELECT 0"),
    "ready of unknown status": fake.columns("a") + fake.complete("SELECT 0") + fake.ready("?"),
    "ready without status": message("Z"),
    "parse complete nobody asked for": message("1"),
    "bind complete nobody asked for": message("2"),
    "authentication": fake.auth(0),
    "password wanted": fake.auth(3),
    "parameter unterminated": message("S", b"TimeZone\0Mars"),
    "error without ready, then close": fake.error("bye", severity="FATAL"),
    "close in a message": fake.columns("a")[:-3],
}


@pytest.mark.parametrize("mode", ("session", "transaction"))
@pytest.mark.parametrize("says", NONSENSE_IN_AN_ANSWER.values(), ids=NONSENSE_IN_AN_ANSWER.keys())
def test_nonsense_in_an_answer(pgweir, fake_server, postgres, says, mode):
    """In each case the daemon continues, and no later client gets a byte of it."""
    far = fake_server()
    weir = pgweir(pool_mode=mode, default_pool_size=1, server_login_retry="0.1",
                  databases={"app": far.entry, "app2": f"host=127.0.0.1 port={postgres.port}"})
    other = weir.client(database="app2")

    client = weir.wire().startup()
    with far.accept().login() as server:
        client.finish_login("alice")
        client.send(query("SELECT 1"))
        server.expect("Q")
        server.send(says)
    client.read_to_end() if mode == "session" else client.close()
    assert other.value("SELECT 1") == "1"

    far.serve(lambda server: server.login().answer_queries(lambda sql: fake.answer(sql)))
    late = weir.client()
    assert late.query("SELECT 'mine'").rows == [["SELECT 'mine'"]]


def fatal(*fields):
    return message("E", b"".join(field.encode() + b"\0" for field in fields)
                   + b"\0")


@pytest.mark.parametrize("behind", (b"", fake.ready()), ids=("nothing", "ready"))
@pytest.mark.parametrize("last_words", (
    fatal("SFATAL", "VFATAL", "C57P01", "Mgoing"), fatal("SFATAL", "Mgoing")),
    ids=("with SQLSTATE", "without"))
def test_last_words_of_a_server_reach_its_client(pgweir, fake_server, last_words, behind):
    """Even if invalid data follows in the same packet."""
    far = fake_server()
    weir = pgweir(pool_mode="transaction", databases={"app": far.entry}, server_login_retry="0.1")
    client = weir.wire().startup()
    with far.accept().login() as server:
        client.finish_login("alice")
        client.send(query("SELECT 1"))
        server.expect("Q")
        server.send(last_words + behind)
    assert client.read_refusal().text == "going"


IDLE_NONSENSE = {
    "a row": fake.row("whose?"),
    "an answer": fake.answer("whose?"),
    "ready": fake.ready(),
    "an error": fake.error("terminating", "57P01", "FATAL"),
    "garbage": b"\xff" * 100,
    "half a header": b"D\0\0",
}


@pytest.mark.parametrize("says", IDLE_NONSENSE.values(), ids=IDLE_NONSENSE.keys())
def test_a_server_that_talks_while_idle(pgweir, fake_server, says):
    """Messages of an idle server are discarded, and the next client must not get them."""
    far = fake_server()
    weir = pgweir(pool_mode="transaction", databases={"app": far.entry}, server_login_retry="0.1")
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    client.send(query("SELECT 1"))
    server.expect("Q")
    server.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]
    server.send(says)
    if says != b"D\0\0":
        server.wait_closed()
    server.close()
    weir.wait_pool(sv_idle=0)
    far.serve(lambda server: server.login().answer_queries(lambda sql: fake.answer("fresh")))
    assert client.query("SELECT 2").rows == [["fresh"]]


def test_notices_and_notifications_of_an_idle_server_reach_nobody(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(pool_mode="transaction", databases={"app": far.entry}, server_login_retry="0.1")
    client = weir.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    server.send(message("A", struct.pack("!I", 1) + b"channel\0payload\0"))
    server.send(fake.parameter("application_name", "other"))
    wait_until(lambda: [row["application_name"] for row in weir.admin("SHOW SERVERS")] == ["other"])
    client.send(query("SELECT 1"))
    got = server.read()
    while got.type == "Q" and got.body.startswith(b"SET"):
        server.send(fake.complete("SET"), fake.ready())
        got = server.read()
    assert got.type == "Q"
    server.send(fake.answer("1"))
    assert client.read_result().types.strip("S") == "TDCZ"


NONSENSE_OF_CLIENTS = {
    "unknown type": message("@", b"?"),
    "length too short": b"Q\0\0\0\3",
    "length negative": b"Q\x80\0\0\0",
    "a server's message": message("Z", b"I"),
    "startup again": startup(user="alice", database="app"),
    "password out of the blue": message("p", b"secret\0"),
    "query unterminated": message("Q", b"SELECT 1"),
    "empty bind": message("B"),
    "empty parse": message("P"),
    "empty execute": message("E"),
    "http": b"GET / HTTP/1.1\r\nHost: weir\r\n\r\n",
    "binary": bytes(range(256)),
}


@pytest.mark.parametrize("says", NONSENSE_OF_CLIENTS.values(), ids=NONSENSE_OF_CLIENTS.keys())
@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
def test_nonsense_of_clients(same_pgweir, says, mode):
    weir = same_pgweir(pool_mode=mode, default_pool_size=1)
    other, client = weir.client(), weir.client()
    client.send(says)
    client.send(sync())
    try:
        # Either PostgreSQL or the pooler sends the error.
        got = client.read()
        while got.type not in "E":
            got = client.read()
    except Closed:
        pass
    client.close()
    assert other.value("SELECT 'mine'") == "mine"


# -- shortage -------------------------------------------------------------------------------------


def test_descriptors_exhausted(pgweir):
    weir = pgweir(open_files=(40, 40), pool_mode="transaction", default_pool_size=2,
                  max_client_conn=1000)
    first = weir.client()
    assert first.value("SELECT 1") == "1"
    crowd = []
    for _ in range(100):
        wire = Wire(weir.address)
        wire.startup()
        crowd.append(wire)
    # Connected clients continue undisturbed.
    for number in range(50):
        assert first.value(f"SELECT {number}") == str(number)
    before = weir.cpu()
    time_of_rest(0.3)
    assert weir.cpu() - before < 0.25, "it spins on a listener that it cannot serve"
    for wire in crowd:
        wire.close()
    wait_until(lambda: can_log_in(weir))
    assert len(weir.log) < 100000, "one warning is enough"


def test_strangers_do_not_hold_all_descriptors(pgweir):
    """64 files: 8 are reserved for servers; clients that have not logged in are closed, oldest
    first.
    """
    weir = pgweir(open_files=(64, 64), pool_mode="transaction", default_pool_size=6,
                  max_client_conn=1000, tcp_defer_accept=0, listen_backlog=1000)
    strangers = [weir.wire() for _ in range(200)]
    client = weir.client()
    weir.wait_log("WARNING running out of open files: for each new connection, the oldest one")
    gone = "closing because: not logged in when open files ran short"
    wait_until(lambda: weir.log.count(gone) >= 200 - 57)
    assert weir.open_files() <= 58
    strangers[0].wait_closed()
    # Descriptors for servers are available.
    clients = [client] + [weir.client() for _ in range(3)]
    for each in clients:
        assert each.query("BEGIN").status == "T"
    assert len({each.value("SELECT pg_backend_pid()") for each in clients}) == 4
    assert {row["reason"]: row["is_error"] for row in weir.admin("SHOW ERRORS")}[
        "not logged in when open files ran short"] == "yes"
    # The newest of them is still connected.
    strangers[-1].send(startup(user="alice", database="app"))
    strangers[-1].finish_login("alice")
    assert weir.log.count("WARNING running out of open files") == 1


def test_the_last_descriptors_are_for_servers(pgweir):
    weir = pgweir(open_files=(64, 64), pool_mode="transaction", default_pool_size=5,
                  max_client_conn=1000)
    clients = []
    with pytest.raises(Refused) as refused:
        for _ in range(64):
            clients.append(weir.client())
    assert (refused.value.sqlstate, refused.value.text) == \
        ("53300", "no more connections allowed (open files)")
    assert "LimitNOFILE=" in refused.value.fields["H"]
    assert refused.value.fields["D"] == "56 open files of pgweir may belong to clients."
    limits = {row["limit"]: row for row in weir.admin("SHOW LIMITS")}
    assert (limits["open_files"]["value"], limits["open_files"]["hits"]) == (56, 1)
    assert limits["max_client_conn"]["hits"] == 0
    assert any("running out of open files" in row["text"] for row in weir.admin("SHOW EVENTS"))
    for client in clients[:3]:
        client.query("BEGIN")
    assert len({client.value("SELECT pg_backend_pid()") for client in clients[:3]}) == 3
    assert weir.admin("SHOW VERSION")
    clients.pop().close()
    wait_until(lambda: can_log_in(weir))


def time_of_rest(seconds):
    """Waits while something must *not* happen."""
    time.sleep(seconds)


def test_the_soft_limit_on_descriptors_is_raised(pgweir):
    hard = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 4096)
    weir = pgweir(open_files=(30, hard), pool_mode="transaction")
    with open(f"/proc/{weir.pid}/limits", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("Max open files"))
    assert line.split()[3] == str(hard)


def test_a_hundred_clients_on_a_pool_of_one(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    clients = [weir.client() for _ in range(100)]
    for turn in range(3):
        for number, client in enumerate(clients):
            client.send(query(f"BEGIN; SELECT '{turn}:{number}'; COMMIT"))
        for number, client in enumerate(clients):
            assert client.read_result().rows == [[f"{turn}:{number}"]]


@pytest.mark.one_loop("the answers are read in the order of one queue")
def test_a_hundred_clients_in_session_mode_on_a_pool_of_one(pgweir):
    weir = pgweir(pool_mode="session", default_pool_size=1)
    clients = [weir.client() for _ in range(100)]
    for number, client in enumerate(clients):
        client.send(query(f"SELECT {number}"))
    for number, client in enumerate(clients):
        assert client.read_result().rows == [[str(number)]]
        client.close()


def test_many_come_and_go(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=3)
    still_works(weir)
    for _ in range(3):
        crowd = [weir.client() for _ in range(150)]
        for wire in crowd[::2]:
            wire.send(query("SELECT 1"))
        for wire in crowd:
            wire.reset()
        weir.connections = []
    weir.wait_pool(cl_active=0, cl_waiting=0)
    still_works(weir)
    assert list_item(weir, "used_clients") == 1  # the console


def test_login_refused_tells_why_before_the_close(pgweir):
    """No reset discards the error, even if more data of the client is still in flight."""
    weir = pgweir()
    for _ in range(20):
        client = weir.wire()
        client.send(startup(user="nobody_knows", database="app"), query("SELECT 1") * 100)
        with pytest.raises(Refused):
            client.finish_login("nobody_knows")


def test_errors_are_delivered_although_the_client_keeps_sending(pgweir):
    weir = pgweir(pool_mode="statement")
    for _ in range(20):
        client = weir.client()
        client.send(query("BEGIN"), *[query("SELECT 1")] * 1000)
        words = [got.fields["M"] for got in client.read_to_end() if got.type == "E"]
        assert "transaction blocks not allowed in statement pooling mode" in words
