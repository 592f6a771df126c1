# SPDX-License-Identifier: ISC
"""Several instances: a cancel request reaches its client through any instance."""

import collections
import contextlib
import itertools
import os
import re
import select
import signal
import socket
import threading

import psycopg
import pytest

from .kit.account import free_port
from .kit.daemon import USERS
from .kit.wait import LIMIT, wait_until
from .kit.wire import (CANCEL_REQUEST, PROTOCOL_3_0, PROTOCOL_3_2, Refused, Wire, query, send_cancel,
                       special)



def peer_of(key):
    return key[1] | key[2] << 8


def ttl_of(key):
    return key[7] & 3


def key_for(peer_id, ttl=3):
    """A cancel key of a peer that belongs to no client."""
    key = bytearray(os.urandom(8))
    key[0] &= 0x7f
    key[1], key[2] = peer_id & 0xff, peer_id >> 8
    key[7] = key[7] & ~3 | ttl
    return bytes(key)


def by_tcp(weir):
    return f"host=127.0.0.1 port={weir.port}"


def by_unix(weir):
    return f"host={weir.dir} port={weir.port}"


def set_peers(weir, peers, **settings):
    weir.sections["peers"] = peers
    weir.configure(**settings)


@pytest.fixture
def fleet(make_pgweir):
    """Starts instances that are peers of each other: ids from 1."""

    def start(count, way=by_tcp, more="", **settings):
        weirs = [make_pgweir(peer_id=number + 1, **settings) for number in range(count)]
        peers = {number + 1: f"{way(weir)} {more}" for number, weir in enumerate(weirs)}
        for weir in weirs:
            set_peers(weir, peers)
            weir.start()
        return weirs

    return start


def hold(address, key):
    """Sends a cancel request and returns its open connection."""
    wire = Wire(address)
    wire.send(special(CANCEL_REQUEST, key))
    return wire


def peer_pool(weir, peer_id):
    rows = [row for row in weir.admin("SHOW PEER_POOLS") if row["peer_id"] == peer_id]
    return rows[0] if rows else None


def wait_peer_pool(weir, peer_id, **wanted):
    wait_until(lambda: (row := peer_pool(weir, peer_id)) and wanted.items() <= row.items(),
               what=f"{wanted} of peer {peer_id}")


def forwards(weir):
    return len(re.findall(r": peer-\d+@\S+ new connection to peer$", weir.log, re.MULTILINE))


_tags = itertools.count(1)


def sleep_query():
    """A unique statement, and the word that identifies it."""
    tag = f"sleeper {os.getpid()}.{next(_tags)}"
    return f"SELECT pg_sleep(30) /* {tag} */", tag


def wait_asleep(weir, tag):
    """Waits until the statement runs: a cancel request before its start is lost, as without a
    pooler.
    """
    with weir.postgres.connect() as observer:
        wait_until(lambda: observer.execute(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE %s",
            (f"%{tag} %",)).fetchone(), what="the statement's begin")


def running(weir, **kw):
    """A scripted client whose statement is running."""
    client = weir.client(**kw)
    sql, tag = sleep_query()
    client.send(query(sql))
    wait_asleep(weir, tag)
    return client


# -- two instances --------------------------------------------------------------------------------


@pytest.mark.parametrize("way", (by_tcp, by_unix))
@pytest.mark.parametrize("door", ("address", "socket_path"), ids=("tcp", "unix"))
def test_a_cancel_at_the_other_instance(fleet, way, door):
    """By TCP or Unix socket, to a peer by TCP or Unix socket."""
    one, two = fleet(2, way)
    for owner, other in ((one, two), (two, one)):
        client = running(owner)
        send_cancel(getattr(other, door), client.key)
        assert client.read_result().error["C"] == "57014"
        assert client.value("SELECT 'alive'") == "alive"
        client.close()
        owner.wait_pool(cl_active=0, sv_active=0)


def test_clients_of_protocol_3_2_too(fleet):
    """Their keys are longer, with the same fields at the same positions."""
    one, two = fleet(2)
    for owner, other in ((one, two), (two, one)):
        client = running(owner, version=PROTOCOL_3_2)
        assert len(client.key) == 36
        send_cancel(other.address, client.key[:8])
        send_cancel(other.address, client.key[:-1] + bytes([client.key[-1] ^ 1]))
        assert client.is_closed() is False and client.buffer == b""
        send_cancel(other.address, client.key)
        assert client.read_result().error["C"] == "57014"
        client.close()
        owner.wait_pool(cl_active=0, sv_active=0)


@pytest.mark.parametrize("version", (PROTOCOL_3_0, PROTOCOL_3_2), ids=("3.0", "3.2"))
def test_keys_say_whose_they_are(fleet, version):
    weirs = fleet(2)
    for number, weir in enumerate(weirs):
        keys = [weir.client(version=version).key for _ in range(20)]
        assert {peer_of(key) for key in keys} == {number + 1}
        assert {ttl_of(key) for key in keys} == {3}
        assert all(key[0] < 0x80 for key in keys)
        assert len({key[3:7] for key in keys}) == 20


def test_a_large_id(make_pgweir):
    weir = make_pgweir(peer_id=16383).start()
    assert peer_of(weir.client().key) == 16383


def test_only_the_own_query_is_cancelled(fleet):
    one, two = fleet(2)
    client, other = running(one), two.client()
    other.send(query("SELECT pg_sleep(0.5), 'mine'"))
    two.wait_pool(sv_active=1)
    send_cancel(two.address, client.key)
    assert client.read_result().error["C"] == "57014"
    assert other.read_result().rows == [["", "mine"]]


def test_the_clients_connection_stays_until_it_is_done(fleet, fake_server):
    """The close of the connection tells the requesting client that the request has arrived."""
    far = fake_server()
    one, two = fleet(2)
    two.reload(databases={"app": far.entry})
    client = two.wire().startup()
    server = far.accept().login()
    client.finish_login("alice")
    client.send(query("SELECT 1"))
    server.expect("Q")
    with hold(one.address, client.key) as cancel:
        caller = far.accept_raw()
        assert caller.read_startup() is None
        wait_peer_pool(one, 2, cl_active_cancel_req=1, cl_waiting_cancel_req=0,
                       sv_active_cancel=1, sv_login=0)
        states = {row["state"] for row in one.admin("SHOW CLIENTS") if row["database"] == "(nodb)"}
        assert states == {"active_cancel_req"}
        assert not cancel.is_closed()
        caller.close()
        cancel.wait_closed()
    wait_peer_pool(one, 2, cl_active_cancel_req=0, sv_active_cancel=0)


def test_a_cancel_of_a_waiting_console(fleet):
    one, two = fleet(2)
    one.client().query("BEGIN")
    console = one.console()
    console.send(query("PAUSE"))
    wait_until(lambda: {"key": "paused", "value": "yes"} in one.admin("SHOW STATE"))
    send_cancel(two.address, console.key)
    console.read_result()
    assert {"key": "paused", "value": "no"} in one.admin("SHOW STATE")


def test_the_log_names_the_peer(fleet):
    one, two = fleet(2)
    send_cancel(one.address, key_for(2))
    one.wait_log(rf"S-0x[0-9a-f]+: peer-2@127\.0\.0\.1:{two.port} new connection to peer$")
    two.wait_log(r"\(nodb\)/\(nouser\)@\S+ closing because: failed cancel request ")


def test_a_client_that_goes_away_at_once(fleet):
    one, two = fleet(2)
    client = running(two)
    hold(one.address, client.key).close()
    assert client.read_result().error["C"] == "57014"


def test_kill_client_of_a_request(fleet, fake_server):
    far = fake_server()
    (one,) = fleet(1)
    one.sections["peers"][2] = far.entry
    one.reload()
    with hold(one.address, key_for(2)) as cancel:
        caller = far.accept_raw()
        wait_peer_pool(one, 2, cl_active_cancel_req=1)
        (row,) = [row for row in one.admin("SHOW CLIENTS") if row["database"] == "(nodb)"]
        one.admin(f"KILL_CLIENT {row['id']}")
        cancel.wait_closed()
        caller.close()
    wait_peer_pool(one, 2, cl_active_cancel_req=0)


# -- three instances on one port ------------------------------------------------------------------


def share_port(make_pgweir, count, **settings):
    port = free_port()
    weirs = []
    for number in range(count):
        weir = make_pgweir(peer_id=number + 1, listen_port=port, so_reuseport=1, **settings)
        weir.port = port
        weirs.append(weir)
    peers = {number + 1: by_unix(weir) for number, weir in enumerate(weirs)}
    for weir in weirs:
        set_peers(weir, peers)
        weir.start()
        # by TCP one would reach any of them
        weir._console = Wire(weir.socket_path).login("admin", "pgbouncer", USERS["admin"])
    return weirs


def connect_to_each(weirs):
    """Opens Opens psycopg connections by TCP until each instance has one: the kernel chooses."""
    found = {}
    for _ in range(200):
        connection = weirs[0].connect()
        pid = connection.info.backend_pid
        owner = (pid >> 16 & 0xff) | (pid >> 8 & 0xff) << 8
        if owner in found:
            connection.close()
        found.setdefault(owner, connection)
        if len(found) == len(weirs):
            return found
    raise AssertionError(f"the kernel used only {sorted(found)}")


def cancel_sleep(weir, connection):
    result = []
    sql, tag = sleep_query()

    def work():
        try:
            connection.execute(sql)
        except psycopg.Error as error:
            result.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    wait_asleep(weir, tag)
    connection.cancel()
    worker.join(LIMIT)
    assert isinstance(result[0], psycopg.errors.QueryCanceled), result


@pytest.mark.parametrize("mode", ("session", "transaction"))
def test_three_instances_on_one_port(make_pgweir, mode):
    """A request for any client through any instance cancels the statement."""
    weirs = share_port(make_pgweir, 3, pool_mode=mode)
    connections = connect_to_each(weirs)
    ways = set()
    for _ in range(60):
        for number, weir in enumerate(weirs):
            cancel_sleep(weir, connections[number + 1])
        ways |= {(number + 1, row["peer_id"]) for number, weir in enumerate(weirs)
                 for row in weir.admin("SHOW PEER_POOLS")}
        if len(ways) == 6:
            break
    assert ways == {(here, there) for here in (1, 2, 3) for there in (1, 2, 3) if here != there}
    for connection in connections.values():
        assert connection.execute("SELECT 'alive'").fetchone() == ("alive",)


def test_an_instance_that_shuts_down_still_hears_its_peers(make_pgweir):
    """A rolling restart: its TCP listener is closed, its clients still work and can still cancel.
    """
    one, two = share_port(make_pgweir, 2, pool_mode="transaction")
    connections = connect_to_each([one, two])
    connections[2].close()
    one.signal(signal.SIGTERM)
    one.wait_log("got SIGTERM")
    for _ in range(3):
        cancel_sleep(one, connections[1])
    wait_until(lambda: forwards(two) == 3)
    connections[1].close()
    one.disconnect()
    assert one.wait_exit() == 0


# -- what cannot be delivered ---------------------------------------------------------------------


def test_an_id_that_nobody_has(fleet):
    (one,) = fleet(1)
    send_cancel(one.address, key_for(77))
    one.wait_log("closing because: failed cancel request: no such peer 77 ")
    send_cancel(one.address, key_for(1))
    one.wait_log(r"closing because: failed cancel request \(")
    assert one.admin("SHOW PEER_POOLS") == []


def test_without_a_peer_id_nothing_is_passed_on(fake_server, make_pgweir):
    far = fake_server()
    weir = make_pgweir()
    set_peers(weir, {2: far.entry})
    weir.start()
    send_cancel(weir.address, key_for(2))
    weir.wait_log("closing because: failed cancel request ")
    assert not far.has_caller()


def test_the_key_that_is_passed_on(fleet, fake_server):
    far = fake_server()
    (one,) = fleet(1)
    one.sections["peers"][2] = far.entry
    one.reload()
    for ttl in (3, 2, 1):
        key = key_for(2, ttl)
        with hold(one.address, key) as cancel:
            caller = far.accept_raw()
            assert caller.read_startup() is None
            assert caller.cancel_key[:7] == key[:7]
            assert caller.cancel_key[7] == key[7] - 1
            caller.close()
            cancel.wait_closed()
    send_cancel(one.address, key_for(2, 0))
    one.wait_log("closing because: failed cancel request: passed on too often ")
    assert not far.has_caller()


def circle(make_pgweir, more="", **settings):
    """Each is configured with the other one as number 3."""
    one, two = (make_pgweir(peer_id=number, **settings) for number in (1, 2))
    set_peers(one, {3: f"{by_tcp(two)} {more}"})
    set_peers(two, {3: f"{by_tcp(one)} {more}"})
    return one.start(), two.start()


def test_a_circle_of_peers_ends(make_pgweir):
    one, two = circle(make_pgweir)
    send_cancel(one.address, key_for(3))
    two.wait_log("closing because: failed cancel request: passed on too often ")
    wait_until(lambda: (forwards(one), forwards(two)) == (2, 1))


def test_a_circle_that_stands_in_its_own_way_ends(make_pgweir):
    """The second round waits for the slot that the first one occupies."""
    one, _ = circle(make_pgweir, "pool_size=1", cancel_wait_timeout=0.3)
    send_cancel(one.address, key_for(3))
    one.wait_log(r"peer-3@\S+ failed cancel request: cancel_wait_timeout$")
    wait_peer_pool(one, 3, cl_active_cancel_req=0, cl_waiting_cancel_req=0)


def test_a_peer_that_is_away(make_pgweir):
    weir = make_pgweir(peer_id=1)
    set_peers(weir, {2: f"host=127.0.0.1 port={free_port()}", 3: f"host={weir.dir}/none",
                     4: "host=no-such-host.invalid"})
    weir.start()
    for peer_id in (2, 3, 4):
        send_cancel(weir.address, key_for(peer_id))
        weir.wait_log(rf"WARNING S-\S+: peer-{peer_id}@\S+ failed cancel request: ")
        wait_peer_pool(weir, peer_id, cl_active_cancel_req=0, cl_waiting_cancel_req=0)


def test_a_peer_that_never_answers(make_pgweir, fake_server):
    """Neither the requesting client nor queued requests wait without limit."""
    far = fake_server()
    weir = make_pgweir(peer_id=1, server_connect_timeout=1, cancel_wait_timeout=0.3)
    set_peers(weir, {2: f"{far.entry} pool_size=1"})
    weir.start("-v")  # a second warning within the same second is logged at debug level only
    with hold(weir.address, key_for(2)) as first:
        far.accept_raw()
        with hold(weir.address, key_for(2)) as second:
            second.wait_closed()
            weir.wait_log("failed cancel request: cancel_wait_timeout$")
        first.wait_closed()
    weir.wait_log("failed cancel request: the peer does not answer$")
    wait_peer_pool(weir, 2, cl_active_cancel_req=0, cl_waiting_cancel_req=0)
    assert not far.has_caller()


# -- the limit ------------------------------------------------------------------------------------


def test_keys_from_before_the_peer_id(make_pgweir):
    """Each may seem to be of another peer, and its client is in any loop."""
    weir = make_pgweir(loops=4, pool_mode="transaction", servers_per_loop=1)
    set_peers(weir, {2: by_tcp(weir)})
    weir.start()
    clients = [running(weir) for _ in range(8)]
    weir.reload(peer_id=1)
    for client in clients:
        for _ in range(4):
            send_cancel(weir.address, client.key)
        assert client.read_result().error["C"] == "57014"


@pytest.mark.parametrize("loops", (1, 4))
def test_pool_size_limits_what_is_on_its_way(make_pgweir, fake_server, loops):
    far = fake_server()
    weir = make_pgweir(peer_id=1, loops=loops)
    set_peers(weir, {2: f"{far.entry} pool_size=2"})
    weir.start()
    keys = [key_for(2) for _ in range(5)]
    wires = [hold(weir.address, key) for key in keys]
    wait_peer_pool(weir, 2, cl_active_cancel_req=2, cl_waiting_cancel_req=3, sv_active_cancel=2,
                   sv_login=0)
    callers = [far.accept_raw(), far.accept_raw()]
    assert not far.has_caller()
    for _ in range(3):
        callers.pop(0).close()
        callers.append(far.accept_raw())
        assert not far.has_caller()
    for caller in callers:
        caller.read_startup()
        caller.close()
    for wire in wires:
        wire.wait_closed()
        wire.close()
    assert callers[-1].cancel_key[:7] in {key[:7] for key in keys}


def test_default_pool_size_is_the_peers(make_pgweir, fake_server):
    far = fake_server()
    weir = make_pgweir(peer_id=1, default_pool_size=1)
    set_peers(weir, {2: far.entry})
    weir.start()
    wires = [hold(weir.address, key_for(2)) for _ in range(3)]
    wait_peer_pool(weir, 2, cl_active_cancel_req=1, cl_waiting_cancel_req=2)
    # A reload that raises the limit takes effect at once; 0 is no limit.
    set_peers(weir, {2: f"{far.entry} pool_size=0"})
    weir.reload()
    wait_peer_pool(weir, 2, cl_active_cancel_req=3, cl_waiting_cancel_req=0)
    for _ in wires:
        far.accept_raw().close()
    for wire in wires:
        wire.wait_closed()
        wire.close()


# -- reload ---------------------------------------------------------------------------------------


def test_reload_adds_and_removes_peers(make_pgweir):
    one, two = (make_pgweir(peer_id=number).start() for number in (1, 2))
    client = running(two)
    send_cancel(one.address, client.key)
    one.wait_log("no such peer 2 ")
    one.sections["peers"] = {2: by_tcp(two)}
    one.reload()
    send_cancel(one.address, client.key)
    assert client.read_result().error["C"] == "57014"
    client.close()
    assert [row["peer_id"] for row in one.admin("SHOW PEER_POOLS")] == [2]
    one.sections["peers"] = {}
    one.reload()
    assert one.admin("SHOW PEERS") == one.admin("SHOW PEER_POOLS") == []
    mark = len(one.log)
    send_cancel(one.address, key_for(2))
    one.wait_log("no such peer 2 ", since=mark)


@pytest.mark.parametrize("line", ({"x": "host=b"}, {"5": ""}, {"5": "host=b user=c"},
                                  {"65536": "host=b"}, {"5": "host=b,c"}))
def test_a_bad_line_keeps_all_peers(make_pgweir, line):
    weir = make_pgweir(peer_id=1)
    set_peers(weir, {2: "host=a", 7: "host=/tmp port=7"})
    weir.start()
    before = weir.admin("SHOW PEERS")
    weir.sections["peers"] = {3: "host=c", **line, 4: "host=d"}
    with pytest.raises(Refused):
        weir.reload(peer_id=9)
    weir.wait_log(f'ERROR .*peer "{next(iter(line))}": ')
    assert weir.admin("SHOW PEERS") == before
    assert peer_of(weir.client().key) == 1


@pytest.mark.parametrize("value", (16384, -1, "x"))
def test_a_peer_id_that_cannot_be(make_pgweir, value):
    weir = make_pgweir(peer_id=value)
    done = weir.run("--check", weir.ini)
    assert done.returncode == 1
    assert "peer_id" in done.stderr + done.stdout


def test_a_changed_peer_id_is_for_new_keys(fleet):
    one, two = fleet(2)
    old = running(one)
    one.reload(peer_id=300)
    new = running(one, database="app2")
    assert (peer_of(old.key), peer_of(new.key)) == (1, 300)
    send_cancel(two.address, old.key)  # whose list still has the old number
    assert old.read_result().error["C"] == "57014"
    two.sections["peers"][300] = by_tcp(one)
    two.reload()
    send_cancel(two.address, new.key)
    assert new.read_result().error["C"] == "57014"
    one.admin("SET peer_id = 5")
    assert peer_of(one.client().key) == 5


# -- the console ----------------------------------------------------------------------------------


def test_show(make_pgweir):
    weir = make_pgweir(peer_id=1, default_pool_size=9)
    set_peers(weir, {300: "host=/tmp/x port=7 pool_size=0", 1: "host=127.0.0.1",
                     17: "host=::1 pool_size=3"})
    weir.start()
    assert weir.admin("SHOW PEERS") == [
        {"peer_id": 1, "host": "127.0.0.1", "port": 6432, "pool_size": 9},
        {"peer_id": 17, "host": "::1", "port": 6432, "pool_size": 3},
        {"peer_id": 300, "host": "/tmp/x", "port": 7, "pool_size": 0}]
    assert weir.admin("SHOW PEER_POOLS") == []
    send_cancel(weir.address, key_for(300))
    assert weir.admin("SHOW PEER_POOLS") == [
        {"peer_id": 300, "cl_active_cancel_req": 0, "cl_waiting_cancel_req": 0,
         "sv_active_cancel": 0, "sv_login": 0}]
    lists = {row["list"]: row["items"] for row in weir.admin("SHOW LISTS")}
    assert (lists["peers"], lists["peer_pools"]) == (3, 1)
    caches = {row["name"]: row["used"] for row in weir.admin("SHOW MEM")}
    assert (caches["peer_cache"], caches["peer_pool_cache"]) == (3, 1)
    config = {row["key"]: row for row in weir.admin("SHOW CONFIG")}
    assert config["peer_id"] == {"key": "peer_id", "value": "1", "default": "0",
                                 "changeable": "yes"}


# -- peers_dns ------------------------------------------------------------------------------------

NAME = "pooler.peers.test"


def at(weir, number, name_server, port=None, **settings):
    """Configures an instance on an address of its own; all have the same port."""
    weir.port = port or weir.port
    account = weir.account
    account.write(f"{weir.dir}/resolv.conf", f"nameserver {name_server.address}\n")
    account.write(f"{weir.dir}/secret", "0123456789 a shared secret\n", 0o600)
    weir.settings.update(listen_addr=f"127.0.77.{number}", listen_port=weir.port, peers_dns=f"{NAME}:{weir.port}",
                         peers_secret_file=f"{weir.dir}/secret", resolv_conf=f"{weir.dir}/resolv.conf")
    weir.console_address = weir.place = (f"127.0.77.{number}", weir.port)
    return weir.configure(**settings)


@pytest.fixture
def nameless(make_pgweir, name_server):
    def start(count, **settings):
        weirs = [make_pgweir(**settings) for _ in range(count)]
        for number, weir in enumerate(weirs, 1):
            at(weir, number, name_server, weirs[0].port).start()
        name_server.names[NAME] = [weir.place[0] for weir in weirs]
        return weirs
    return start


def asked(weirs):
    return sum(len(re.findall(r": peers@\S+ new connection to peer$", weir.log, re.MULTILINE))
               for weir in weirs)


@pytest.mark.parametrize("loops", (None, 3))
@pytest.mark.parametrize("version, count", ((PROTOCOL_3_0, 3), (PROTOCOL_3_2, 1)), ids=("3.0", "3.2"))
def test_a_cancel_finds_its_instance_by_dns(nameless, version, count, loops):
    """A long key has its owner's address. With a short one all are asked, each once."""
    weirs = nameless(3, loops=loops)
    for owner, door in itertools.permutations(weirs, 2):
        client = Wire(owner.place).login(version=version)
        sql, tag = sleep_query()
        client.send(query(sql))
        wait_asleep(owner, tag)
        before = asked(weirs)
        send_cancel(door.place, client.key)
        assert client.read_result().error["C"] == "57014"
        assert asked(weirs) - before == count
        assert client.value("SELECT 'alive'") == "alive"
        send_cancel(owner.place, client.key)  # its own: nobody is asked
        assert asked(weirs) - before == count
        client.close()
    rows = [row for weir in weirs for row in weir.admin("SHOW PEER_POOLS")]
    assert [set(row.values()) for row in rows] == 3 * [{0}]  # peer_id 0, and nothing under way


def test_a_stranger_makes_no_peer_work(nameless):
    one, two = nameless(2)
    client = Wire(two.place).login(version=PROTOCOL_3_2)
    short = Wire(two.place).login()
    for key in (client.key, short.key):
        for place in (0, 4, len(key) - 1 if len(key) > 8 else 5):
            forged = bytearray(key)
            forged[place] ^= 1
            send_cancel(one.place, bytes(forged))
        # What only a peer can make: the proof is wrong, and with it the key's length.
        send_cancel(two.place, key + bytes(16))
        send_cancel(one.place, key + os.urandom(16))
    assert asked((one, two)) == 0
    # The right ones lead there, where nothing runs.
    send_cancel(one.place, client.key)
    assert asked((one, two)) == 1
    assert client.value("SELECT 1") == short.value("SELECT 1") == "1"


def test_an_instance_that_has_gone(nameless, name_server):
    """DNS still has it. The others are asked, and the request ends."""
    one, two = nameless(2)
    name_server.names[NAME] = ["127.0.77.9", *name_server.names[NAME]]
    client = Wire(two.place).login()
    sql, tag = sleep_query()
    client.send(query(sql))
    wait_asleep(two, tag)
    send_cancel(one.place, client.key)
    assert client.read_result().error["C"] == "57014"
    one.wait_log(r"peers@\S+ failed cancel request: .*refused")


def test_the_name_is_unknown(nameless, name_server):
    one, two = nameless(2)
    name_server.names.clear()
    client = Wire(two.place).login()
    send_cancel(one.place, client.key)
    one.wait_log(rf"peers@{NAME}:\d+ failed cancel request: .*{NAME}")


def test_not_more_than_so_many_are_asked(make_pgweir, name_server):
    """As many as fit into a message of DNS would not be enough for this: a file of hosts has them."""
    weir = at(make_pgweir(cancel_wait_timeout=60), 1, name_server)
    names = [f"127.0.78.{number}" for number in range(1, 71)]
    hosts = weir.account.write(f"{weir.dir}/hosts", "".join(f"{name} {NAME}\n" for name in names))
    weir.start(env={"CARES_HOSTS": hosts})
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server((name, weir.port))) for name in names]
        client = Wire(weir.place).login()
        key = client.key
        client.close()
        weir.wait_pool(cl_active=0)
        requester = stack.enter_context(hold(weir.place, key))
        told = collections.Counter()

        def take():
            for listener in select.select(listeners, [], [], 0)[0]:
                connection = listener.accept()[0]
                assert len(connection.recv(100)) == 8 + 8 + 16
                told[listener.getsockname()[0]] += 1
                connection.close()
            return requester.is_closed()

        wait_until(take, what="the end of the request")
        assert len(told) == 64 and set(told.values()) == {1}


@pytest.mark.parametrize("settings, says", (
    (dict(peers_dns="pooler"), '"pooler" is not name:port'),
    (dict(peers_dns="pooler:0"), '"pooler:0" is not name:port'),
    (dict(peers_dns="pooler:12x"), '"pooler:12x" is not name:port'),
    (dict(peers_dns=":6432"), '":6432" is not name:port'),
    (dict(peer_id=3), "peers_dns excludes peer_id"),
    (dict(peers_secret_file="/nowhere"), "peers_secret_file: cannot open /nowhere"),
    (dict(peers_secret_file="/dev/null"), "peers_secret_file: /dev/null has less than 16 bytes"),
))
def test_bad_settings_of_peers_dns(make_pgweir, settings, says):
    weir = make_pgweir(**{"peers_dns": "pooler:6432", "peers_secret_file": "/proc/version", **settings})
    for args in (("--check", weir.ini), (weir.ini,)):
        done = weir.run(*args)
        assert done.returncode == 1 and says in done.stderr, done.stderr
    weir.may_fail = True
