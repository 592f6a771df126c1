# SPDX-License-Identifier: ISC
"""causal_reads: what a client has seen on a standby and nobody has asked for; with scripted hosts."""

import socket
import threading

import pytest

from .kit import fake
from .kit.account import free_port
from .kit.wait import wait_until
from .kit.wire import query
from .test_causal_trips import (INSERT, PRIMARY, SETTINGS, STANDBY, STARTED, Host,
                                is_position_question)

OTHER = "127.0.0.4"
HELD = "SELECT 2"  # is not answered before release()


class Standby(Host):
    def __init__(self, server, is_standby):
        self.channels = []  # of the pool's servers, in order of what they have read last
        self.gate = threading.Event()
        self.says_position = True
        super().__init__(server, is_standby)

    def _serve(self, channel):
        channel.login(in_hot_standby="on" if self.is_standby else "off",
                      default_transaction_read_only="off")
        while (got := channel.read()).type != "X":
            assert got.type == "Q"
            sql = got.body[:-1].decode()
            if sql.startswith("SELECT ") and len(sql) == len(HELD):
                self.channels = [one for one in self.channels if one is not channel] + [channel]
            reply = self._reply(sql)
            if sql == HELD:
                self.gate.wait(30)
                self.gate.clear()
            channel.send(reply)

    def _reply(self, sql):
        if is_position_question(sql) and not self.says_position:
            return fake.complete("SELECT 0") + fake.ready()
        return super()._reply(sql)

    def drop(self, count=None):
        """Ends the connections, or those that have read last."""
        for channel in self.channels[-(count or len(self.channels)):]:
            channel.sock.shutdown(socket.SHUT_RDWR)
        self.channels = []


class Scene:
    """A primary and standbys, at which a client has used one server."""

    def __init__(self, pgweir, fake_server, standbys, **settings):
        port = free_port()
        self.primary = Standby(fake_server(PRIMARY, port), False)
        self.standbys = [Standby(fake_server(name, port), True) for name in standbys]
        for number, one in enumerate(self.standbys):
            one.started = one.seen_started = STARTED + number
        hosts = ",".join((PRIMARY, *standbys))
        self.weir = pgweir(databases={"app": f"host={hosts} port={port}"},
                           **{**SETTINGS, "host_check_user": "alice", **settings})
        wait_until(lambda: {row["role"] for row in self.weir.admin("SHOW HOSTS app")}
                   == {"primary", "standby"} and None not in
                   [row["position"] for row in self.weir.admin("SHOW HOSTS app")], what="the roles")
        self.client = self.weir.client()

    def take(self):
        """What each standby has got, when all was answered."""
        self.weir.wait_pool(sv_active=0, cl_waiting=0)
        self.primary.take()
        return [one.take() for one in self.standbys]

    def read(self, client=None):
        """Who serves a read, and what the standbys get for it."""
        self.take()
        assert (client or self.client).query("SELECT 1").tags == ["SELECT"]
        hosts = [self.primary, *self.standbys]
        names = ["primary", *"AB"]
        (by,) = [name for name, host in zip(names, hosts) if "SELECT 1" in host.got]
        return by, *self.take()

    def hold(self, client):
        """A read that has been sent to a standby, which answers on release."""
        before = [one.got.count(HELD) for one in self.standbys]
        client.send(query(HELD))
        wait_until(lambda: [one.got.count(HELD) for one in self.standbys] != before, what="a read")
        (host,) = [one for one, count in zip(self.standbys, before) if one.got.count(HELD) != count]
        return host

    def lose(self, standby, count=None):
        """The same as drop(), and it was noticed."""
        standby.drop(count)
        self.weir.wait_log("server conn crashed")

    def write(self, position):
        self.primary.position = position
        self.client.query(INSERT)
        self.weir.wait_pool(sv_active=0)


@pytest.fixture
def scene(pgweir, fake_server):
    def start(*standbys, **settings):
        return Scene(pgweir, fake_server, standbys or (STANDBY,), **settings)

    return start


# -- one standby -----------------------------------------------------------------------------------


def test_only_the_first_read_at_a_server_is_asked(scene):
    one = scene()
    assert one.read() == ("A", ["SELECT 1", "ask"])
    for _ in range(3):
        assert one.read() == ("A", ["SELECT 1"])
    assert one.read(one.weir.client()) == ("A", ["SELECT 1"])


def test_a_write_between_reads(scene):
    one = scene()
    one.read()
    assert one.read() == ("A", ["SELECT 1"])
    one.write(0x8000)
    (standby,) = one.standbys
    standby.position = 0x7000
    one.client.send(query("SELECT 1"))
    wait_until(lambda: standby.got.count("ask") > 2, what="a read that waits")
    assert "SELECT 1" not in standby.got
    standby.position = 0x8000
    assert one.client.read_result().tags == ["SELECT"]
    assert "SELECT 1" in standby.got
    assert one.read() == ("A", ["SELECT 1"])


@pytest.mark.parametrize("is_known", [False, True])
def test_a_standby_that_has_crashed_may_show_less(scene, is_known):
    one = scene()
    other = one.weir.client()
    (standby,) = one.standbys
    standby.position = 0x5000
    one.read()
    assert one.read() == ("A", ["SELECT 1"])
    standby.position = 0x3000
    one.lose(standby)
    if is_known:  # another client has used the new connection
        assert one.read(other) == ("A", ["SELECT 1", "ask"])
    by, got = one.read()
    assert by == "primary" and "SELECT 1" not in got
    one.primary.position = standby.position = 0x6000
    one.read()
    assert one.read() == ("A", ["SELECT 1"])


def test_a_standby_that_stays_with_a_former_primary(scene):
    """It would not show what the new one has."""
    one = scene(host_check_interval="0.1")
    one.read()
    assert one.read() == ("A", ["SELECT 1"])
    one.primary.timeline = 2
    wait_until(lambda: 2 in [row["timeline"] for row in one.weir.admin("SHOW HOSTS app")],
               what="the new timeline")
    assert one.read()[0] == "primary"


def two_servers(one):
    """The client and another one have used two servers, each of them twice."""
    other = one.weir.client()
    for _ in range(2):
        first = one.hold(one.client)
        second = one.hold(other)
        for client, host in ((one.client, first), (other, second)):
            host.gate.set()
            client.read_result()
        one.take()
    return other, first, second


def test_a_server_that_was_there_before_shows_it(scene):
    """One connection has ended, but not all of them."""
    one = scene(default_pool_size=2)
    two_servers(one)
    (standby,) = one.standbys
    assert len(standby.channels) == 2
    assert one.read() == ("A", ["SELECT 1"])
    one.lose(standby, 1)
    assert one.read() == ("A", ["SELECT 1"])


def test_a_position_that_does_not_come_is_not_known(scene):
    one = scene()
    (standby,) = one.standbys
    one.read()
    one.lose(standby)
    standby.says_position = False
    client = one.weir.client()
    assert one.read(client) == ("A", ["SELECT 1"])
    assert one.read(client)[0] == "primary"


# -- two standbys ----------------------------------------------------------------------------------


def test_another_standby_is_not_known_to_show_it(scene):
    one = scene(STANDBY, OTHER)
    ahead, behind = one.standbys
    ahead.position, behind.position = 0x9000, 0x3000
    one.weir.admin(f"DISABLE HOST {OTHER}")
    one.read()
    assert one.read() == ("A", ["SELECT 1"], [])
    one.weir.admin(f"ENABLE HOST {OTHER}")
    one.weir.admin(f"DISABLE HOST {STANDBY}")
    one.primary.position = 0x9000
    by, _, got = one.read()
    assert by == "primary" and "SELECT 1" not in got
    one.client.send(query("SELECT 1"))  # now its position is known
    wait_until(lambda: behind.got.count("ask") > 2, what="a read that waits")
    assert "SELECT 1" not in behind.got
    behind.position = 0x9000
    assert one.client.read_result().tags == ["SELECT"]
    assert "SELECT 1" in behind.got


def at_both(scene):
    """Two clients that have read last on standbys of their own; (scene, clients)."""
    one = scene(STANDBY, OTHER, default_pool_size=2, loops=1)  # each loop has a wait queue
    other, first, second = two_servers(one)
    assert first is not second
    clients = [one.client, other]
    return one, clients if first is one.standbys[0] else clients[::-1]


def test_a_client_goes_to_the_standby_where_it_has_read(scene):
    one, (at_a, at_b) = at_both(scene)
    for _ in range(3):
        assert one.read(at_a) == ("A", ["SELECT 1"], [])
        assert one.read(at_b) == ("B", [], ["SELECT 1"])


def hold_both(one):
    """Two new clients have the servers; the one at the second standby."""
    clients = [one.weir.client(), one.weir.client()]
    hosts = [one.hold(client) for client in clients]
    assert hosts[0] is not hosts[1]
    return clients[hosts.index(one.standbys[1])]


def test_a_client_that_waits_gets_a_server_of_that_standby(scene):
    one, (at_a, at_b) = at_both(scene)
    hold_both(one)
    for number, client in enumerate((at_a, at_b)):
        client.send(query(HELD))
        one.weir.wait_pool(cl_waiting=number + 1)
    a, b = one.standbys
    b.gate.set()
    wait_until(lambda: b.got[-2:] == [HELD, HELD], what="the second one that waits")
    assert one.weir.pool()["cl_waiting"] == 1
    a.gate.set()
    wait_until(lambda: a.got[-2:] == [HELD, HELD], what="the first one that waits")


def test_one_that_waits_for_a_standby_is_passed_over_so_often_only(scene):
    one, (at_a, at_b) = at_both(scene)
    _, b = one.standbys
    active, waiting = hold_both(one), at_b
    at_a.send(query("SELECT 1"))
    one.weir.wait_pool(cl_waiting=1)
    for passed in range(100):
        waiting.send(query(HELD))
        one.weir.wait_pool(cl_waiting=2)
        count = b.got.count(HELD)
        b.gate.set()
        assert active.read_result().tags == ["SELECT"]
        wait_until(lambda: b.got.count(HELD) > count, what="the one that waits")
        if not one.weir.pool()["cl_waiting"]:
            break
        active, waiting = waiting, active
    assert passed == 64 and at_a.read_result().tags == ["SELECT"]
    assert "SELECT 1" in one.primary.got


def test_a_server_does_not_stay_idle_for_that(scene):
    """The primary serves the client that waits for another standby."""
    one, (at_a, _) = at_both(scene)
    hold_both(one)
    at_a.send(query("SELECT 1"))
    one.weir.wait_pool(cl_waiting=1)
    a, b = one.standbys
    b.gate.set()
    assert at_a.read_result().tags == ["SELECT"]
    assert "SELECT 1" in one.primary.got and "SELECT 1" not in a.got + b.got


# -- loops -----------------------------------------------------------------------------------------


def test_a_server_of_another_loop_is_known(scene):
    one = scene(loops=2)
    others = [one.weir.client() for _ in range(3)]  # some of them in the other loop
    assert all(row["clients"] for row in one.weir.admin("SHOW LOOPS"))
    assert one.read() == ("A", ["SELECT 1", "ask"])
    for client in 2 * [*others, one.client]:
        assert one.read(client) == ("A", ["SELECT 1"])
    moved = [row["servers_in"] for row in one.weir.admin("SHOW LOOPS")]
    assert sum(moved) > 2
