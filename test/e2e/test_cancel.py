# SPDX-License-Identifier: ISC
"""A cancel request cancels its own query or nothing at all."""

import os
import re
import signal
import socket
import struct
import threading

import psycopg
import pytest

from .kit import fake
from .kit.wait import LIMIT, wait_until
from .kit.wire import (CANCEL_REQUEST, Wire, bind, execute, extended, message, parse, query,
                       send_cancel, special, sync)

modes = pytest.mark.parametrize("mode", ("session", "transaction", "statement"))

SLEEP = "SELECT pg_sleep(30)"


def wait_asleep(postgres, count=1):
    """Waits until the query runs: a cancel request before its start cancels nothing."""
    wait_until(lambda: postgres.value("SELECT count(*) FROM pg_stat_activity"
                                      " WHERE state = 'active' AND query = %s", SLEEP) == count)


@modes
def test_psycopg_cancels(pgweir, postgres, mode):
    weir = pgweir(pool_mode=mode)
    connection = weir.connect()
    result = []

    def work():
        try:
            connection.execute(SLEEP)
        except psycopg.Error as error:
            result.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    wait_asleep(postgres)
    connection.cancel()
    worker.join(LIMIT)
    assert isinstance(result[0], psycopg.errors.QueryCanceled)
    assert connection.execute("SELECT 1").fetchone() == (1,)


@modes
def test_only_the_own_query_is_cancelled(pgweir, postgres, mode):
    weir = pgweir(pool_mode=mode, default_pool_size=2)
    victim, other = weir.client(), weir.client()
    victim.send(query(SLEEP))
    other.send(query("SELECT pg_sleep(0.5), 'mine'"))
    weir.wait_pool(sv_active=2)
    wait_asleep(postgres)
    send_cancel(weir.address, victim.key)
    assert victim.read_result().error["C"] == "57014"
    assert other.read_result().rows == [["", "mine"]]


def test_cancel_over_a_unix_socket(pgweir, postgres):
    weir = pgweir()
    client = weir.wire(unix=True).login()
    client.send(query(SLEEP))
    wait_asleep(postgres)
    send_cancel(weir.socket_path, client.key)
    assert client.read_result().error["C"] == "57014"


def test_cancel_to_a_server_on_a_unix_socket(pgweir, postgres):
    weir = pgweir(databases={"app": f"host={postgres.socket_dir} port={postgres.port}"})
    client = weir.client()
    client.send(query(SLEEP))
    wait_asleep(postgres)
    send_cancel(weir.address, client.key)
    assert client.read_result().error["C"] == "57014"


def test_cancel_behind_an_encryption_request(pgweir, postgres):
    from .kit.wire import SSL_REQUEST
    weir = pgweir()
    client = weir.client()
    client.send(query(SLEEP))
    wait_asleep(postgres)
    with Wire(weir.address) as cancel:
        cancel.send(special(SSL_REQUEST))
        assert cancel.take(1) == b"N"
        cancel.send(special(CANCEL_REQUEST, client.key))
        cancel.wait_closed()
    assert client.read_result().error["C"] == "57014"


def test_cancel_of_an_idle_client_hits_nobody(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    idle, busy = weir.client(), weir.client()
    idle.query("SELECT 1")
    busy.send(query("SELECT pg_sleep(0.5), 'mine'"))
    weir.wait_pool(sv_active=1)
    send_cancel(weir.address, idle.key)
    assert busy.read_result().rows == [["", "mine"]]


def test_cancel_of_an_idle_transaction_is_no_harm(pgweir):
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    client.query("BEGIN")
    send_cancel(weir.address, client.key)
    assert client.query("SELECT 1").status in "TE"


def test_a_waiting_client_that_cancels(pgweir):
    """It waits for a server: nothing may be sent to the server that another client uses."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    waiter.send(query("SELECT 'waited'"))
    weir.wait_pool(cl_waiting=1)
    holder.send(query("SELECT pg_sleep(0.5), 'mine'"))
    with Wire(weir.address) as cancel:
        cancel.send(special(CANCEL_REQUEST, waiter.key))
        assert holder.read_result().rows == [["", "mine"]]
        holder.query("COMMIT")
        cancel.wait_closed()
    # It was canceled in the queue, or served after all; it must not hang.
    result = waiter.read_to_end()[-1] if waiter.is_closed() else waiter.read_result()
    assert result


def simple(*texts):
    return b"".join(query(text) for text in texts)


INSERT = "INSERT INTO torn VALUES (1)"
BEGINNINGS = {
    "simple": simple("BEGIN", INSERT, "COMMIT"),
    "one text": simple(f"BEGIN; {INSERT}", INSERT, "COMMIT"),
    "extended": b"".join((extended("BEGIN"), extended(INSERT), extended("COMMIT"))),
    "extended in front": extended("BEGIN") + simple(INSERT, "COMMIT"),
    "start": simple("START TRANSACTION READ WRITE", INSERT, "COMMIT"),
    "named": bind(name="b") + execute() + sync() + simple(INSERT, "COMMIT"),
}


def test_a_cancel_of_a_beginning_that_has_not_arrived_in_full_tears_no_transaction(pgweir, postgres):
    postgres.query("DROP TABLE IF EXISTS torn")
    postgres.query("CREATE TABLE torn (a int); GRANT ALL ON torn TO PUBLIC")
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, waiter = weir.client(), weir.client()
    holder.query("BEGIN")
    holder.query("SELECT 1")
    text = query(f"BEGIN; {INSERT} /* {'x' * 200000} */")
    waiter.send(text[:-1])
    weir.wait_pool(cl_waiting=1)
    send_cancel(weir.address, waiter.key)
    canceled = waiter.read_result()
    assert (canceled.error["C"], canceled.status) == ("57014", "E")
    holder.query("COMMIT")
    waiter.send(text[-1:] + simple(INSERT, "COMMIT"))
    assert waiter.read_result().error["C"] == "25P02"
    assert waiter.read_result().tags == ["ROLLBACK"]
    assert postgres.value("SELECT count(*) FROM torn") == 0


@pytest.mark.parametrize("late_begin", [0, 1])
@pytest.mark.parametrize("how", BEGINNINGS)
def test_a_cancel_in_the_queue_tears_no_transaction(pgweir, postgres, how, late_begin):
    """Whatever becomes of the BEGIN, what is behind it is not committed alone."""
    postgres.query("DROP TABLE IF EXISTS torn")
    postgres.query("CREATE TABLE torn (a int)")
    postgres.query("GRANT ALL ON torn TO alice")
    weir = pgweir(pool_mode="transaction", default_pool_size=1, late_begin=late_begin)
    holder, waiter = weir.client(), weir.client()
    waiter.ask(parse("BEGIN", "b"), sync())
    holder.query("BEGIN")
    holder.query("SELECT 1")
    waiter.send(BEGINNINGS[how])
    weir.wait_pool(cl_waiting=1)
    send_cancel(weir.address, waiter.key)
    holder.query("COMMIT")
    answers = [waiter.read_result() for _ in range(3)]
    began = not answers[0].error
    rows = postgres.value("SELECT count(*) FROM torn")
    assert rows == (1 + (how == "one text") if began and not answers[1].error else 0), answers
    assert answers[-1].status == "I"


KEYS = {
    "unknown": lambda key: os.urandom(8),
    "zeros": lambda key: b"\0" * 8,
    "last byte differs": lambda key: key[:7] + bytes([key[7] ^ 1]),
    "first byte differs": lambda key: bytes([key[0] ^ 1]) + key[1:],
    "top bit set": lambda key: bytes([key[0] | 0x80]) + key[1:],
    "too short": lambda key: key[:4],
    "empty": lambda key: b"",
    "too long": lambda key: key + b"more",
    "very long": lambda key: key + b"x" * 5000,
}


@pytest.mark.parametrize("bend", KEYS.values(), ids=KEYS.keys())
def test_wrong_keys_hit_nobody(pgweir, bend):
    weir = pgweir()
    client = weir.client()
    client.send(query("SELECT pg_sleep(0.4), 'mine'"))
    weir.wait_pool(sv_active=1)
    send_cancel(weir.address, bend(client.key))
    assert client.read_result().rows == [["", "mine"]]


def test_wrong_length_in_the_packet(pgweir):
    weir = pgweir()
    with Wire(weir.address) as wire:
        wire.send(struct.pack("!II", 12, CANCEL_REQUEST) + b"\0" * 4)
        assert wire.read_to_end() == []
    assert weir.client().value("SELECT 1") == "1"


def test_the_servers_real_key_is_sent(pgweir, fake_server):
    far = fake_server()
    weir = pgweir(databases={"app": far.entry})
    client = weir.wire().startup()
    key = struct.pack("!II", 123456, 654321)
    far.accept()
    server = far.accepted[0]
    server.welcome(key=key)
    client.finish_login("alice")
    client.send(query("SELECT 1"))
    server.expect("Q")
    with Wire(weir.address) as cancel:
        cancel.send(special(CANCEL_REQUEST, client.key))
        caller = far.accept_raw()
        assert caller.read_startup() is None
        assert caller.cancel_key == key
        # The client's cancel connection stays open until the server has processed the request.
        assert not cancel.is_closed()
        caller.close()
        cancel.wait_closed()
    server.send(fake.error("cancelled", "57014"), fake.ready())
    assert client.read_result().error["C"] == "57014"


def test_a_server_with_a_cancel_on_its_way_is_lent_to_nobody(scripted):
    """Otherwise it would cancel the next client's query."""
    weir, client, server = scripted(default_pool_size=1)
    other = weir.client()
    client.send(query("SELECT 1"))
    server.expect("Q")
    with Wire(weir.address) as cancel:
        cancel.send(special(CANCEL_REQUEST, client.key))
        caller = weir.far.accept_raw()
        caller.read_startup()
        # The query ends by itself before the cancel request has arrived.
        server.send(fake.answer("1"))
        assert client.read_result().rows == [["1"]]
        other.send(query("SELECT 'other'"))
        weir.wait_pool(cl_waiting=1)
        assert weir.pool()["sv_being_canceled"] == 1
        assert not server.is_closed() and server.buffer == b""
        caller.close()
        cancel.wait_closed()
    assert server.expect("Q").body == b"SELECT 'other'\0"
    server.send(fake.answer("other"))
    assert other.read_result().rows == [["other"]]


def test_a_server_whose_cancel_never_ended_serves_nobody_else(scripted):
    """It is unknown when that cancel request will arrive."""
    weir, client, server = scripted(default_pool_size=1, server_connect_timeout="1")
    client.send(query("SELECT 1"))
    server.expect("Q")
    with Wire(weir.address) as cancel:
        cancel.send(special(CANCEL_REQUEST, client.key))
        caller = weir.far.accept_raw()
        assert caller.read_startup() is None
        cancel.wait_closed()  # timed out, although the server has not processed it
    server.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]
    server.wait_closed()
    weir.wait_log("closing because: a cancel request may still arrive")


def test_many_cancels_at_once(pgweir, postgres):
    weir = pgweir(pool_mode="transaction", default_pool_size=5)
    clients = [weir.client() for _ in range(5)]
    for client in clients:
        client.send(query(SLEEP))
    wait_asleep(postgres, 5)
    wires = []
    for client in clients * 10:
        wires.append(Wire(weir.address))
        wires[-1].send(special(CANCEL_REQUEST, client.key))
    for wire in wires:
        wire.wait_closed()
        wire.close()
    for client in clients:
        assert client.read_result().error["C"] == "57014"
    weir.wait_pool(cl_active_cancel_req=0, cl_waiting_cancel_req=0, sv_active_cancel=0,
                   sv_being_canceled=0)
    for client in clients:
        assert client.value("SELECT 'alive'") == "alive"


def test_a_cancel_client_that_goes_away(pgweir, postgres):
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    client.send(query(SLEEP))
    wait_asleep(postgres)
    wire = Wire(weir.address)
    wire.send(special(CANCEL_REQUEST, client.key))
    wire.close()
    assert client.read_result().error["C"] == "57014"


def test_cancels_of_clients_who_left(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    key = client.key
    client.query("SELECT 1")
    client.close()
    weir.wait_pool(cl_active=0)
    other = weir.client()
    other.send(query("SELECT pg_sleep(0.4), 'mine'"))
    weir.wait_pool(sv_active=1)
    send_cancel(weir.address, key)
    assert other.read_result().rows == [["", "mine"]]


def test_cancel_in_the_crowd_never_hits_another(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=2)
    stop, wrong = threading.Event(), []
    victim = weir.client()

    def work(number):
        client = Wire(weir.address).login()
        while not stop.is_set():
            result = client.query(f"SELECT '{number}', pg_sleep(0.002)")
            if result.errors or result.rows[0][0] != str(number):
                wrong.append(result)
        client.close()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(100):
            victim.send(query("SELECT pg_sleep(0.003)"))
            send_cancel(weir.address, victim.key)
            victim.read_result()
    finally:
        stop.set()
        for worker in workers:
            worker.join(LIMIT)
    assert not wrong
    wait_until(lambda: weir.pool()["sv_active"] == 0)


def asked(weir, client, cancel, what):
    """The log line with the result of the cancel request, the requesting client, and the server."""
    own, other = client.sock.getsockname(), cancel
    return weir.wait_log(rf"LOG \S+ {what}, asked by {other[0]}:{other[1]} for client "
                         rf"{own[0]}:{own[1]} \(id \d+\), for server (\S+), pid (\d+)$")


def test_a_delivered_cancel_has_its_line(pgweir, postgres):
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    client.send(query(SLEEP))
    wait_asleep(postgres)
    pid = postgres.value("SELECT pid FROM pg_stat_activity WHERE query = %s", SLEEP)
    with Wire(weir.address) as cancel:
        asker = cancel.sock.getsockname()
        cancel.send(special(CANCEL_REQUEST, client.key))
        cancel.wait_closed()
    assert client.read_result().error["C"] == "57014"
    line = asked(weir, client, asker, "cancel request delivered")
    assert line.groups() == (f"{postgres.host}:{postgres.port}", str(pid))


def test_a_cancel_of_one_that_waits_has_its_line(pgweir):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    holder, client = weir.client(), weir.client()
    holder.query("BEGIN")
    client.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    send_cancel(weir.address, client.key)
    assert client.read_result().error["C"] == "57014"
    own = client.sock.getsockname()
    assert re.search(r"cancel request while waiting for a server, asked by 127\.0\.0\.1:\d+ for "
                     rf"client 127\.0\.0\.1:{own[1]} \(id \d+\)", weir.log)


def reset(wire):
    """Closes it with a reset, so that the other side notices at once even if it does not read."""
    wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.sock.close()


def held_cancel(scripted, **settings):
    """A pool of one server that is processing a cancel request, so a second request has to wait."""
    weir, client, server = scripted(default_pool_size=1, **settings)
    client.send(query("SELECT 1"))
    server.expect("Q")
    first, second = Wire(weir.address), Wire(weir.address)
    first.send(special(CANCEL_REQUEST, client.key))
    caller = weir.far.accept_raw()
    assert caller.read_startup() is None
    second.send(special(CANCEL_REQUEST, client.key))
    wait_until(lambda: weir.pool()["cl_waiting_cancel_req"] == 1)
    return weir, client, server, first, caller, second


def test_a_cancel_whose_connection_goes_is_sent_all_the_same(scripted):
    weir, client, server, first, caller, second = held_cancel(scripted)
    asker = second.sock.getsockname()
    reset(second)
    assert not weir.far.has_caller()
    caller.close()
    first.wait_closed()
    late = weir.far.accept_raw()
    assert late.read_startup() is None
    assert late.cancel_key == caller.cancel_key
    late.close()
    asked(weir, client, asker, "cancel request delivered")
    server.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]


def test_one_that_is_too_late_has_its_line(scripted):
    weir, client, server, first, caller, second = held_cancel(scripted, cancel_wait_timeout="0.3")
    asker = second.sock.getsockname()
    second.wait_closed()
    line = asked(weir, client, asker, "cancel request not sent within cancel_wait_timeout")
    assert line.group(1) == f"{weir.far.host}:{weir.far.port}"
    # The first one was sent, so this limit does not apply to it.
    assert weir.pool()["sv_active_cancel"] == 1
    caller.close()
    first.wait_closed()
    server.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]


def fill_backlog(far):
    """The server accepts no more connections; returns those that fill the queue."""
    far.listener.listen(0)
    crowd = [socket.socket() for _ in range(3)]
    for sock in crowd:
        sock.setblocking(False)
        sock.connect_ex((far.host, far.port))
    return crowd


def test_the_limit_counts_while_it_gets_its_connection(scripted):
    """The server accepts no connections: connecting could take up to server_connect_timeout."""
    weir, client, server = scripted(default_pool_size=1, cancel_wait_timeout="0.3",
                                    server_connect_timeout="3600")
    client.send(query("SELECT 1"))
    server.expect("Q")
    crowd = fill_backlog(weir.far)
    with Wire(weir.address) as cancel:
        asker = cancel.sock.getsockname()
        cancel.send(special(CANCEL_REQUEST, client.key))
        cancel.wait_closed()
    asked(weir, client, asker, "cancel request not sent within cancel_wait_timeout")
    for each in crowd:
        each.close()
    server.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]


# -- statements that nobody waits for any more -----------------------------------------------------

LONG = "SELECT pg_sleep(1000)"


def backends_at_work(postgres):
    return postgres.value("SELECT count(*) FROM pg_stat_activity"
                          " WHERE state = 'active' AND query LIKE %s", LONG + "%")


def terminates(weir, client):
    weir.admin("KILL app")


def kills_client(weir, client):
    (row,) = [row for row in weir.admin("SHOW CLIENTS") if row["user"] == "alice"]
    weir.admin(f"KILL_CLIENT {row['id']}")


LEFT = "client disconnect while server was not ready"
ENDINGS = {
    "query_timeout": ({"query_timeout": "0.5"}, None, "query timeout"),
    "transaction_timeout": ({"transaction_timeout": "0.5"}, None, "transaction timeout"),
    "KILL": ({}, terminates, LEFT),
    "KILL_CLIENT": ({}, kills_client, LEFT),
    "close": ({}, lambda weir, client: client.close(), LEFT),
    "reset": ({}, lambda weir, client: client.reset(), LEFT),
}


def lose_at_work(pgweir, postgres, how, **settings):
    """A client is lost while its statement runs; returns (daemon, reason)."""
    more, act, why = ENDINGS[how]
    weir = pgweir(**settings, **more)
    client = weir.client()
    client.send(query(LONG))
    if act:
        wait_until(lambda: backends_at_work(postgres) == 1)
        act(weir, client)
    else:
        assert client.read_refusal().text == why
    return weir, why


@pytest.mark.parametrize("mode", ("session", "transaction"))
@pytest.mark.parametrize("how", ENDINGS)
def test_a_statement_ends_with_its_client(pgweir, postgres, how, mode):
    weir, why = lose_at_work(pgweir, postgres, how, pool_mode=mode, cancel_grace=0)
    wait_until(lambda: not postgres.backends("alice"), what="the end of the statement")
    weir.wait_log(rf"cancel request delivered, asked by pgweir because: {why}, for server "
                  rf"{postgres.host}:{postgres.port}, pid \d+")
    weir.wait_pool(sv_active=0, sv_being_canceled=0)


def test_it_ends_over_tls(pgweir, secure_postgres):
    weir = pgweir(postgres=secure_postgres, server_tls_sslmode="require", cancel_grace=0,
                  databases={"app": f"host=127.0.0.1 port={secure_postgres.port}"})
    client = weir.client()
    client.send(query(LONG))
    wait_until(lambda: backends_at_work(secure_postgres) == 1)
    client.close()
    wait_until(lambda: not secure_postgres.backends("alice"))
    weir.wait_log("cancel request delivered, asked by pgweir")


def test_it_ends_while_its_rows_are_not_read(pgweir, postgres):
    """PostgreSQL does not notice the request as long as it cannot send."""
    weir = pgweir(pool_mode="transaction", cancel_grace=0)
    client = weir.client()
    client.send(query("SELECT repeat('x', 1000), generate_series(1, 1000000000)"))
    client.expect("TD")
    client.close()
    wait_until(lambda: not postgres.backends("alice"))


def test_terminate_is_read_behind_the_statement(pgweir, postgres):
    """As with PostgreSQL, which reads Terminate when the statement is over."""
    postgres.query("DROP TABLE IF EXISTS parting")
    postgres.query("CREATE TABLE parting (a int)")
    postgres.query("GRANT ALL ON parting TO alice")
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    client.send(query("INSERT INTO parting SELECT 1 FROM pg_sleep(1)"))
    weir.wait_pool(sv_active=1)
    client.send(message("X"))
    client.wait_closed()
    wait_until(lambda: postgres.value("SELECT count(*) FROM parting") == 1)
    assert "cancel request" not in weir.log


def left_at_work(scripted, **settings):
    """A client has left while its statement runs; returns the connection of the cancel request."""
    settings.setdefault("cancel_grace", 0)
    weir, client, server = scripted(**settings)
    client.send(query("SELECT 1"))
    server.expect("Q")
    client.close()
    caller = weir.far.accept_raw()
    assert caller.read_startup() is None and caller.cancel_key == fake.KEY
    return weir, server, caller


def test_the_server_counts_until_postgresql_has_ended_it(scripted):
    weir, server, caller = left_at_work(scripted, max_db_connections=1, default_pool_size=1)
    other = weir.client()
    other.send(query("SELECT 'other'"))
    weir.wait_pool(cl_waiting=1, sv_being_canceled=1)
    (row,) = [row for row in weir.admin("SHOW SERVERS") if row["database"] == "app"]
    assert (row["state"], row["link"]) == ("being_canceled", "")
    assert "1 server, pool_size 1; 1 being canceled" in weir.admin("SHOW WAITING")[0]["detail"]
    assert not server.is_closed() and server.buffer == b""
    caller.close()
    assert server.read().type == "X"
    server.wait_closed()  # its own side is still open
    assert not weir.far.has_caller()
    server.send(fake.error("canceled", "57014"), fake.ready())
    server.close()
    last = weir.far.accept().login()
    assert last.expect("Q").body == b"SELECT 'other'\0"
    last.send(fake.answer("other"))
    assert other.read_result().rows == [["other"]]


def test_the_request_is_repeated(scripted):
    """It may have come before the statement had begun."""
    weir, server, caller = left_at_work(scripted, cancel_wait_timeout=0)
    for _ in range(2):
        caller.close()
        caller = weir.far.accept_raw()
        assert caller.read_startup() is None and caller.cancel_key == fake.KEY
    caller.close()
    server.close()
    weir.wait_pool(sv_being_canceled=0)


def test_a_statement_that_does_not_end_is_left_alone(scripted):
    weir, server, caller = left_at_work(scripted, cancel_wait_timeout=0, max_db_connections=1)
    caller.close()
    other = weir.client()
    other.send(query("SELECT 'other'"))
    weir.wait_pool(cl_waiting=1)
    weir.reload(cancel_wait_timeout="0.3", max_db_connections=1, cancel_grace=0)
    last = weir.far.accept().login()
    last.expect("Q")
    weir.wait_log("WARNING .*PostgreSQL has not ended the statement within cancel_wait_timeout")


def test_where_nobody_takes_the_request(scripted):
    weir, client, server = scripted()
    client.send(query("SELECT 1"))
    server.expect("Q")
    weir.far.listener.close()
    client.close()
    server.wait_closed()
    weir.wait_pool(sv_being_canceled=0)


def test_a_request_of_the_client_that_was_not_sent_yet(scripted):
    """That one is dropped with its client, and does not count as ours."""
    weir, client, server = scripted(query_timeout="1", cancel_wait_timeout="3", cancel_grace=0)
    client.send(query("SELECT 1"))
    server.expect("Q")
    crowd = fill_backlog(weir.far)
    send_cancel(weir.address, client.key)
    assert client.read_refusal().text == "query timeout"
    assert weir.pool()["sv_being_canceled"] == 1
    assert not server.is_closed()
    for each in crowd:
        each.close()


def test_what_was_not_sent_is_not_sent_any_more(scripted):
    weir, client, server = scripted(query_timeout=8, cancel_grace=0)
    client.send(query("SELECT 1"))
    server.expect("Q")
    client.sock.settimeout(1)
    with pytest.raises(TimeoutError):
        client.send(query("SELECT '" + "x" * 50_000_000 + "'"))
    caller = weir.far.accept_raw()
    assert caller.read_startup() is None
    caller.close()
    rest = b""
    while got := server.sock.recv(1_000_000):
        rest += got
    assert len(rest) < 50_000_000
    server.close()
    weir.wait_pool(sv_being_canceled=0)


@pytest.mark.parametrize("grace", (0, 10))
def test_many_leave_at_once(pgweir, postgres, grace):
    """PostgreSQL never has more connections than max_db_connections allows."""
    weir = pgweir(pool_mode="transaction", default_pool_size=5, max_db_connections=5,
                  cancel_grace=grace)
    most = 0
    for _ in range(4):
        clients = [weir.client() for _ in range(5)]
        for client in clients:
            client.send(query(LONG))
        wait_until(lambda: backends_at_work(postgres) == 5)
        for client in clients:
            client.close()
        while backends_at_work(postgres):
            most = max(most, len(postgres.backends("alice")))
    assert most <= 5
    assert weir.client().value("SELECT 1") == "1"


def test_shutdown_waits_for_it(pgweir, postgres):
    weir = pgweir(pool_mode="transaction")
    client = weir.client()
    client.send(query(LONG))
    wait_until(lambda: backends_at_work(postgres) == 1)
    with weir.one_turn():
        client.close()
        weir.signal(signal.SIGTERM)
    assert weir.wait_exit() == 0
    wait_until(lambda: not postgres.backends("alice"))
    assert "cancel request delivered" in weir.log


def test_it_stays_with_the_process_that_is_replaced(scripted):
    weir, server, caller = left_at_work(scripted, cancel_wait_timeout=0)
    old = weir.take_over()
    assert old.poll() is None
    assert not [row for row in weir.admin("SHOW SERVERS") if row["database"] == "app"]
    caller.close()
    server.expect("X")
    server.close()
    assert old.wait(15) == 0


# -- servers that are kept -------------------------------------------------------------------------

@pytest.mark.parametrize("mode", ("session", "transaction", "statement"))
@pytest.mark.parametrize("how", [how for how in ENDINGS if how != "KILL"])
def test_the_server_is_kept(pgweir, postgres, how, mode):
    weir, _ = lose_at_work(pgweir, postgres, how, pool_mode=mode, default_pool_size=1)
    (pid,) = postgres.backends("alice")
    assert weir.client().value("SELECT pg_backend_pid()") == str(pid)
    assert backends_at_work(postgres) == 0


def idle_in_transaction(weir, client):
    assert client.read_refusal().sqlstate == "25P03"


LEAVES = {
    "idle_transaction_timeout": ({"idle_transaction_timeout": "0.3"}, idle_in_transaction),
    "close": ({}, lambda weir, client: client.close()),
    "Terminate": ({}, lambda weir, client: client.send(message("X"))),
}

# What a client can leave in a session, with the question that shows it.
LEFT_BEHIND = {
    "parameter": ("SET work_mem = '77MB'", "SHOW work_mem", "4MB"),
    "own parameter": ("SET my.own = 'x'", "SELECT current_setting('my.own', true)", ""),
    "reported parameter": ("SET TimeZone = 'Asia/Tokyo'", "SHOW TimeZone", None),
    "role": ("SET ROLE reader", "SELECT current_user", "alice"),
    "temporary table": ("CREATE TEMP TABLE t ()",
                        "SELECT count(*) FROM pg_class WHERE relpersistence = 't'", "0"),
    "lock": ("SELECT pg_advisory_lock(7)",
             "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", "0"),
    "statement": ("PREPARE mine AS SELECT 1", "SELECT count(*) FROM pg_prepared_statements", "0"),
    "cursor": ("DECLARE c CURSOR WITH HOLD FOR SELECT 1; COMMIT; BEGIN",
               "SELECT count(*) FROM pg_cursors", "0"),
    "channel": ("LISTEN here; COMMIT; BEGIN", "SELECT count(*) FROM pg_listening_channels()", "0"),
}


@pytest.mark.parametrize("what", LEFT_BEHIND)
@pytest.mark.parametrize("how", LEAVES)
@pytest.mark.parametrize("mode", ("session", "transaction"))
def test_nothing_is_left_on_it(same_pgweir, postgres, mode, how, what):
    settings, act = LEAVES[how]
    text, question, rest = LEFT_BEHIND[what]
    postgres.query("DO $$ BEGIN CREATE ROLE reader; EXCEPTION WHEN duplicate_object THEN END $$")
    postgres.query("GRANT reader TO alice")
    weir = same_pgweir(pool_mode=mode, default_pool_size=1, max_prepared_statements=0, **settings)
    if rest is None:
        with weir.client() as first:
            rest = first.value(question)
    client = weir.client()
    client.query("BEGIN")
    pid = client.value("SELECT pg_backend_pid()")
    client.query(text)
    act(weir, client)
    weir.wait_pool(sv_active=0, sv_being_canceled=0)
    other = weir.client()
    assert other.value("SELECT pg_backend_pid()") == pid
    assert other.value(question) == rest


def test_what_had_no_sync_is_not_committed(pgweir, postgres):
    """A Sync behind it would commit it."""
    postgres.query("DROP TABLE IF EXISTS parting")
    postgres.query("CREATE TABLE parting (a int)")
    postgres.query("GRANT ALL ON parting TO alice")
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(parse("INSERT INTO parting VALUES (1)"), bind(), execute(), message("H"))
    client.expect("12C")
    client.close()
    weir.wait_pool(sv_active=0, sv_being_canceled=0)
    assert len(postgres.backends("alice")) == 1
    assert weir.client().value("SELECT count(*) FROM parting") == "0"


@pytest.mark.parametrize("batch", (
    (query("COPY parting FROM STDIN"),),
    (parse("COPY parting FROM STDIN"), bind(), execute(), sync()),
), ids=("simple", "extended"))
def test_a_copy_is_ended(pgweir, postgres, batch):
    postgres.query("DROP TABLE IF EXISTS parting")
    postgres.query("CREATE TABLE parting (a int)")
    postgres.query("GRANT ALL ON parting TO alice")
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(*batch)
    client.read_until("G")
    client.send(message("d", b"1\n"))
    client.close()
    weir.wait_pool(sv_active=0, sv_being_canceled=0)
    assert len(postgres.backends("alice")) == 1
    assert weir.client().value("SELECT count(*) FROM parting") == "0"


def test_it_is_kept_while_its_rows_are_not_read(pgweir, postgres):
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    client = weir.client()
    client.send(query("SELECT repeat('x', 1000), generate_series(1, 1000000000)"))
    client.expect("TD")
    client.close()
    weir.wait_pool(sv_active=0, sv_being_canceled=0)
    (pid,) = postgres.backends("alice")
    assert weir.client().value("SELECT pg_backend_pid()") == str(pid)


@pytest.mark.parametrize("grace", (0, 10))
def test_an_abandoned_statement_may_run_on(pgweir, postgres, grace):
    postgres.query("DROP TABLE IF EXISTS parting")
    postgres.query("CREATE TABLE parting (a int)")
    postgres.query("GRANT ALL ON parting TO alice")
    weir = pgweir(pool_mode="transaction", cancel_abandoned=60, cancel_grace=grace)
    client = weir.client()
    client.send(query("INSERT INTO parting SELECT 1 FROM pg_sleep(1)"))
    weir.wait_pool(sv_active=1)
    client.close()
    wait_until(lambda: postgres.value("SELECT count(*) FROM parting") == 1)
    wait_until(lambda: len(postgres.backends("alice")) == (1 if grace else 0))
    weir.wait_pool(sv_being_canceled=0)
    assert "cancel request" not in weir.log


@pytest.mark.parametrize("grace", (0, 10))
def test_an_abandoned_statement_is_cancelled_in_the_end(pgweir, postgres, grace):
    weir = pgweir(pool_mode="transaction", cancel_abandoned="0.3", cancel_grace=grace)
    client = weir.client()
    client.send(query(LONG))
    wait_until(lambda: backends_at_work(postgres) == 1)
    client.close()
    wait_until(lambda: len(postgres.backends("alice")) == (1 if grace else 0))
    weir.wait_pool(sv_being_canceled=0)
    assert backends_at_work(postgres) == 0


def test_it_is_kept_over_tls(pgweir, secure_postgres):
    weir = pgweir(postgres=secure_postgres, server_tls_sslmode="require", default_pool_size=1,
                  databases={"app": f"host=127.0.0.1 port={secure_postgres.port}"})
    client = weir.client()
    client.send(query(LONG))
    wait_until(lambda: backends_at_work(secure_postgres) == 1)
    (pid,) = secure_postgres.backends("alice")
    client.close()
    assert weir.client().value("SELECT pg_backend_pid()") == str(pid)


def cleaned_at_work(scripted, **settings):
    """As left_at_work(), up to the cleaning; returns its mark, too."""
    settings.setdefault("cancel_grace", 10)
    weir, server, caller = left_at_work(scripted, default_pool_size=1, **settings)
    caller.close()
    server.expect("fQSQQ")
    mark = server.read().body.split(b"'")[1].decode()
    return weir, server, mark


CLEAN = (fake.error("canceled", "57014"), fake.ready(), fake.ready(),
         fake.complete("ROLLBACK"), fake.ready())


def next_query(weir):
    other = weir.client()
    other.send(query("SELECT 'other'"))
    return other


def test_the_mark_ends_the_cleaning(scripted):
    weir, server, mark = cleaned_at_work(scripted)
    other = next_query(weir)
    server.send(*CLEAN, fake.complete("DISCARD ALL"), fake.ready(), fake.answer(mark))
    assert server.expect("Q").body == b"SELECT 'other'\0"
    server.send(fake.answer("other"))
    assert other.read_result().rows == [["other"]]


@pytest.mark.parametrize("answer", (
    lambda mark: (fake.answer(mark),),
    lambda mark: (fake.error("no", "25001"), fake.ready(), fake.answer(mark)),
    lambda mark: (fake.complete("DISCARD ALL"), fake.ready("T"), fake.answer(mark)),
    lambda mark: (fake.complete("DISCARD ALL"), fake.ready(), fake.complete("SELECT 1"),
                  fake.ready(), fake.answer(mark)),
), ids=("nothing", "refused", "in a transaction", "something else"))
def test_a_server_that_is_not_clean_is_closed(scripted, answer):
    weir, server, mark = cleaned_at_work(scripted)
    server.send(*CLEAN, *answer(mark))
    server.wait_closed()
    weir.wait_log("closing because: client disconnect while server was not ready")


def test_no_row_is_a_mark_before_the_cleaning(scripted):
    """The client that has left may have asked for such answers: nothing tells when its last one comes."""
    weir, server, caller = left_at_work(scripted, default_pool_size=1, cancel_grace=10)
    server.send(fake.complete("DISCARD ALL"), fake.ready(), fake.answer("\0" * 32))
    for _ in range(2):  # it is handled before the second one
        weir.admin("SHOW SERVERS")
    next_query(weir)
    weir.wait_pool(cl_waiting=1, sv_being_canceled=1)
    caller.close()
    server.expect("fQSQQQ")


def test_another_mark_is_none(scripted):
    weir, server, mark = cleaned_at_work(scripted, cancel_grace=1)
    wrong = "".join("1" if digit == "0" else "0" for digit in mark)
    server.send(*CLEAN, fake.complete("DISCARD ALL"), fake.ready(), fake.answer(wrong))
    server.wait_closed()


def test_the_grace_ends(scripted):
    weir, server, _ = cleaned_at_work(scripted, cancel_grace="0.3")
    server.wait_closed()
    weir.wait_log("closing because: client disconnect while server was not ready")


@pytest.mark.parametrize("command", ("RECONNECT", "KILL app", "SUSPEND"))
def test_an_administrator_wants_it_closed(scripted, command):
    weir, server, _ = cleaned_at_work(scripted)
    weir.admin(command)
    server.wait_closed()


@pytest.mark.parametrize("settings", (
    {"server_reset_query": "DISCARD TEMP"},
    {"databases": {"app": "connect_query='SET work_mem = ''5MB'''"}},
), ids=("reset query", "connect_query"))
def test_it_is_closed_where_discard_all_is_not_enough(pgweir, postgres, settings):
    weir = pgweir(pool_mode="session", **settings)
    client = weir.client()
    client.query("BEGIN")
    client.close()
    wait_until(lambda: not postgres.backends("alice"))
