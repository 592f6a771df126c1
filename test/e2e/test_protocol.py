# SPDX-License-Identifier: ISC
"""Protocol versions: clients and servers with 3.0 and 3.2, in any combination.

3.2 changes only the length of cancel keys, and the negotiation.
"""

import os
import struct

import pytest

from .kit import fake
from .kit.wait import wait_until
from .kit.wire import (CANCEL_REQUEST, PROTOCOL_3_0, PROTOCOL_3_1, PROTOCOL_3_2, PROTOCOL_GREASE,
                       describe, message, parse, query, send_cancel, special, startup, sync,
                       terminate)

versions = pytest.mark.parametrize("version", (PROTOCOL_3_0, PROTOCOL_3_2), ids=("3.0", "3.2"))

SLEEP = "SELECT pg_sleep(30)"
TEST_OPTION = "_pq_.test_protocol_negotiation"


def negotiation(version, *options):
    return message("v", struct.pack("!II", version, len(options))
                   + b"".join(name.encode() + b"\0" for name in options))


def wait_asleep(postgres):
    wait_until(lambda: postgres.value("SELECT count(*) FROM pg_stat_activity"
                                      " WHERE state = 'active' AND query = %s", SLEEP) == 1)


def test_a_client_that_leaves_before_its_startup_packet(pgweir):
    wire = pgweir().wire()
    wire.send(terminate())
    assert wire.read_to_end() == []


@pytest.mark.parametrize("name", ("", "s"), ids=("unnamed", "named"))
def test_more_parameters_than_can_be_counted(pgweir, fake_server, name):
    """PostgreSQL's count overflows, and the driver says that there are too many."""
    server = fake_server()
    client = pgweir(databases={"app": server.entry}, pool_mode="transaction").wire().startup()
    channel = server.accept().login()
    client.finish_login("alice")
    client.send(parse("SELECT 1", name), describe("S", name), sync())
    channel.expect("PDS")
    body = struct.pack("!H", 0) + 65536 * struct.pack("!I", 23)
    channel.send(message("1"), message("t", body), message("n"), fake.ready())
    assert client.expect("1tnZ").type == "Z"


# -- clients --------------------------------------------------------------------------------------


@pytest.fixture
def weir(pgweir):
    return pgweir()


@pytest.mark.parametrize("version, options, told, key_size", (
    (PROTOCOL_3_0, (), None, 8),
    (PROTOCOL_3_0, ("_pq_.a", "_pq_.b"), PROTOCOL_3_0, 8),
    (PROTOCOL_3_1, (), PROTOCOL_3_0, 8),
    (PROTOCOL_3_2, (), None, 36),
    (PROTOCOL_3_2, ("_pq_.a",), PROTOCOL_3_2, 36),
    (PROTOCOL_3_2 + 1, (), PROTOCOL_3_2, 36),
    (PROTOCOL_GREASE, (TEST_OPTION,), PROTOCOL_3_2, 36),
))
def test_what_a_client_asks_for_is_negotiated(weir, version, options, told, key_size):
    wire = weir.wire()
    wire.send(startup(version=version, user="alice", database="app", **dict.fromkeys(options, "1")))
    if told:
        assert wire.expect("v").body == negotiation(told, *options)[5:]
    assert wire.expect("R").body == struct.pack("!I", 0)
    wire.finish_login("alice")
    assert len(wire.key) == key_size
    assert wire.value("SELECT 1") == "1"


@versions
def test_the_console_has_keys_of_both_lengths(weir, version):
    wire = weir.wire().login("admin", "pgbouncer", "admin secret", version=version)
    assert len(wire.key) == {PROTOCOL_3_0: 8, PROTOCOL_3_2: 36}[version]
    assert wire.query("SHOW VERSION").rows


@versions
@pytest.mark.parametrize("mode", ("session", "transaction"))
def test_a_cancel_hits_its_query(pgweir, postgres, version, mode):
    weir = pgweir(pool_mode=mode)
    client = weir.client(version=version)
    client.send(query(SLEEP))
    wait_asleep(postgres)
    send_cancel(weir.address, client.key)
    assert client.read_result().error["C"] == "57014"
    assert client.value("SELECT 'alive'") == "alive"


def test_long_keys_are_random_all_over(weir):
    keys = [weir.client(version=PROTOCOL_3_2).key for _ in range(20)]
    for at in range(0, 36, 4):
        assert len({key[at:at + 4] for key in keys}) == 20
    assert all(key[0] < 0x80 for key in keys)


def test_clients_of_both_versions_side_by_side(pgweir):
    """They share the servers, independent of the servers' version."""
    weir = pgweir(pool_mode="transaction", default_pool_size=1)
    old, new = weir.client(), weir.client(version=PROTOCOL_3_2)
    for number in range(3):
        assert old.value(f"SELECT {number}") == new.value(f"SELECT {number}") == str(number)
    assert old.value("SELECT pg_backend_pid()") == new.value("SELECT pg_backend_pid()")


# -- servers --------------------------------------------------------------------------------------


@pytest.fixture
def fake_weir(pgweir, fake_server):
    """A daemon with a scripted server behind it."""

    def start(**settings):
        server = fake_server()
        settings.setdefault("server_login_retry", "0.1")
        return pgweir(databases={"app": server.entry}, **settings), server

    return start


def work(client, backend):
    client.send(query("SELECT 1"))
    backend.expect("Q")
    backend.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]


def begin(weir, **kw):
    """A client whose login needs a server, which has not responded yet."""
    return weir.wire().startup(**kw)


@versions
@pytest.mark.parametrize("size", (8, 9, 36, 260))
def test_a_servers_key_comes_back_whole(fake_weir, version, size):
    weir, server = fake_weir()
    key = os.urandom(size)
    client = begin(weir, version=version)
    backend = server.accept()
    assert backend.version == PROTOCOL_3_2
    backend.welcome(key=key)
    client.finish_login("alice")
    client.send(query("SELECT 1"))
    backend.expect("Q")
    cancel = weir.wire()
    cancel.send(special(CANCEL_REQUEST, client.key))
    channel = server.accept_raw()
    assert channel.read_startup() is None
    assert channel.cancel_key == key
    channel.close()
    cancel.wait_closed()
    backend.send(fake.answer("done"))
    assert client.read_result().rows == [["done"]]


def test_the_whole_of_a_long_key_counts(fake_weir):
    weir, server = fake_weir()
    client = begin(weir, version=PROTOCOL_3_2)
    backend = server.accept()
    backend.welcome()
    client.finish_login("alice").send(query("SELECT 1"))
    backend.expect("Q")
    for key in (client.key[:8], client.key[:-1], client.key + b"\0", client.key[:4] + bytes(32),
                client.key[:-1] + bytes([client.key[-1] ^ 1]), client.key + bytes(260 - 36), b""):
        send_cancel(weir.address, key)
        assert not server.has_caller(), key
    with weir.wire() as cancel:
        cancel.send(special(CANCEL_REQUEST, client.key))
        assert server.accept_raw().read_startup() is None
    backend.send(fake.answer("done"))
    assert client.read_result().rows == [["done"]]


@pytest.mark.parametrize("size", (7, 261))
def test_a_key_of_a_wrong_length_is_refused(fake_weir, size):
    weir, server = fake_weir()
    client = begin(weir)
    server.accept().welcome(key=bytes(size))
    wait_until(lambda: "broken BackendKeyData" in weir.log, what="the refusal")
    client.close()


def test_a_server_that_wants_3_0(fake_weir):
    """3.2 is requested again each time, because the server may have been replaced."""
    weir, server = fake_weir(pool_mode="transaction", default_pool_size=2)
    client = begin(weir)
    first = server.accept()
    assert first.version == PROTOCOL_3_2
    first.send(negotiation(PROTOCOL_3_0))
    first.welcome()
    client.finish_login("alice")
    first.close()
    client.send(query("SELECT 1"))
    second = server.accept()
    assert second.version == PROTOCOL_3_2
    second.send(negotiation(PROTOCOL_3_0))
    second.welcome()
    second.expect("Q")
    second.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]


def refuse_0a000(channel):
    channel.send(fake.error("unsupported frontend protocol 3.2: server supports 1.0 to 3.0",
                            "0A000", "FATAL"))
    channel.close()


def refuse_08p01(channel):
    channel.send(fake.error("unsupported protocol", "08P01", "FATAL"))
    channel.close()


def hang_up(channel):
    channel.close()


@pytest.mark.parametrize("refuse", (refuse_0a000, refuse_08p01, hang_up))
def test_a_server_that_does_not_understand_3_2(fake_weir, refuse):
    """No client notices, and 3.2 is requested only once."""
    weir, server = fake_weir(pool_mode="session", default_pool_size=5)
    first = begin(weir)
    channel = server.accept()
    assert channel.version == PROTOCOL_3_2
    refuse(channel)
    backend = server.accept()
    assert backend.version == PROTOCOL_3_0
    backend.welcome()
    work(first.finish_login("alice"), backend)
    for _ in range(3):
        client = weir.client()
        client.send(query("SELECT 1"))
        backend = server.accept()
        assert backend.version == PROTOCOL_3_0
        backend.welcome()
        backend.expect("Q")
        backend.send(fake.answer("1"))
        assert client.read_result().rows == [["1"]]
    assert not weir.warnings


def test_a_reload_asks_for_3_2_again(fake_weir):
    weir, server = fake_weir(pool_mode="transaction", default_pool_size=1)
    client = begin(weir)
    refuse_0a000(server.accept())
    backend = server.accept()
    assert backend.version == PROTOCOL_3_0
    backend.welcome()
    client.finish_login("alice")
    weir.admin("RELOAD")
    backend.close()
    client.send(query("SELECT 1"))
    backend = server.accept()
    assert backend.version == PROTOCOL_3_2
    backend.welcome(key=bytes(36))
    backend.expect("Q")
    backend.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]


def test_a_server_that_understands_neither(fake_weir):
    weir, server = fake_weir()
    client = begin(weir)
    refuse_0a000(server.accept())
    backend = server.accept()
    assert backend.version == PROTOCOL_3_0
    backend.send(fake.error("not even that", "0A000", "FATAL"))
    backend.close()
    refused = client.read_refusal()
    assert (refused.sqlstate, refused.text) == ("0A000", "not even that")


@pytest.mark.parametrize("sqlstate", ("53300", "28000"))
def test_other_refusals_are_not_about_the_protocol(fake_weir, sqlstate):
    weir, server = fake_weir()
    client = begin(weir)
    channel = server.accept()
    channel.send(fake.error("go away", sqlstate, "FATAL"))
    channel.close()
    assert client.read_refusal().sqlstate == sqlstate
    assert not server.has_caller()


def test_a_server_that_has_responded_is_not_asked_twice(fake_weir):
    """Once a server has accepted 3.2, a closed connection is not taken for lack of 3.2."""
    weir, server = fake_weir(pool_mode="transaction", default_pool_size=1)
    client = begin(weir)
    backend = server.accept()
    backend.welcome(key=bytes(36))
    client.finish_login("alice")
    backend.close()
    client.send(query("SELECT 1"))
    for _ in range(2):
        channel = server.accept()
        assert channel.version == PROTOCOL_3_2
        channel.close()
    backend = server.accept()
    assert backend.version == PROTOCOL_3_2
    backend.welcome(key=bytes(36))
    backend.expect("Q")
    backend.send(fake.answer("1"))
    assert client.read_result().rows == [["1"]]


@pytest.mark.parametrize("said", (
    negotiation(PROTOCOL_3_2 + 1),
    negotiation(0x40000),
    negotiation(PROTOCOL_3_0, "_pq_.never_asked"),
    message("v", struct.pack("!II", PROTOCOL_3_0, 1)),
    message("v", struct.pack("!I", PROTOCOL_3_0)),
    message("v", struct.pack("!II", PROTOCOL_3_0, 0) + b"x"),
    negotiation(PROTOCOL_3_0) * 2,
    fake.auth(3) + negotiation(PROTOCOL_3_0),
    fake.auth(0) + negotiation(PROTOCOL_3_0),
), ids=("newer", "4.0", "option", "cut", "short", "long", "twice", "late", "later"))
def test_broken_negotiations(fake_weir, said):
    weir, server = fake_weir()
    client = begin(weir, user="plain_user")
    server.accept().send(said)
    wait_until(lambda: "broken NegotiateProtocolVersion" in weir.log, what="the refusal")
    client.close()


def test_negotiation_byte_by_byte(fake_weir):
    weir, server = fake_weir()
    client = begin(weir)
    backend = server.accept()
    backend.send_slowly(negotiation(PROTOCOL_3_0))
    backend.welcome()
    client.finish_login("alice")
