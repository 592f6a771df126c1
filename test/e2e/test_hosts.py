# SPDX-License-Identifier: ISC
"""Several hosts for one database, and host names with several addresses."""

import itertools
import os
import signal
import threading

import pytest

from .kit.account import drop_place, free_port
from .kit import fake
from .kit.postgres import Postgres
from .kit.wait import LIMIT, wait_until
from .kit.wire import query, refusal, send_cancel

WHERE = "SELECT host(inet_server_addr())"
ONE, TWO, THREE, DEAD = "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.9"
LONG = "3600"


_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def three_addresses(account, place, template):
    cluster = Postgres(account, place, template, f"everywhere{next(_numbers)}",
                       listen_addresses=f"{ONE},{TWO},{THREE}")
    yield cluster
    cluster.stop(signal.SIGQUIT)
    drop_place(cluster.dir)


@pytest.fixture
def everywhere(three_addresses):
    """A PostgreSQL that listens on three addresses; nothing listens on 127.0.0.9. It runs, and is idle."""
    if not three_addresses.is_running():
        three_addresses.start()
    three_addresses.end_backends()
    return three_addresses


def entry(hosts, port, more=""):
    return {"app": f"host={','.join(hosts)} port={port} {more}"}


def serving(channel):
    """Accepts every login, and keeps connections that begin a transaction."""
    def reply(sql):
        return fake.complete("BEGIN") + fake.ready("T") if sql == "BEGIN" else fake.answer("1")

    channel.login().answer_queries(reply)


def logged(weir, text, count):
    """The log has this exactly `count` times."""
    wait_until(lambda: weir.log.count(text) >= count, what=f"{count} times {text!r} in the log")
    return weir.log.count(text) == count


def hold(weir, **kw):
    """A client in a transaction, and the address of the server that it has."""
    client = weir.client(**kw)
    client.query("BEGIN")
    return client, client.value(WHERE)


# -- distribution ----------------------------------------------------------------------------------


def test_hosts_are_taken_in_turn(pgweir, everywhere):
    weir = pgweir(databases=entry([ONE, TWO, THREE], everywhere.port), pool_mode="transaction")
    seen = [hold(weir)[1] for _ in range(6)]
    assert seen == [ONE, TWO, THREE] * 2


def test_the_host_with_the_fewest_servers(pgweir, everywhere):
    """Servers of another entry count too; with loops those of all loops."""
    how = "load_balance_hosts=least-connections"
    weir = pgweir(databases={**entry([ONE, TWO, THREE], everywhere.port, how),
                             "other": f"host={TWO} port={everywhere.port} dbname=app"},
                  pool_mode="transaction", default_pool_size=20)
    others = [hold(weir, database="other") for _ in range(3)]
    seen = [hold(weir) for _ in range(4)]
    assert [where for _, where in seen] == [ONE, THREE] * 2
    assert {hold(weir)[1] for _ in range(2)} == {ONE, THREE}
    assert {hold(weir)[1] for _ in range(3)} == {ONE, TWO, THREE}
    for client, _ in others:
        client.query("COMMIT")
    weir.admin("RECONNECT other")
    weir.wait_pool(database="other", sv_idle=0, sv_active=0)
    assert [hold(weir)[1] for _ in range(3)] == [TWO] * 3
    everywhere.end_backends()
    weir.wait_pool(sv_idle=0, sv_active=0)
    assert sorted(hold(weir)[1] for _ in range(6)) == [ONE, ONE, TWO, TWO, THREE, THREE]


def test_disable_stays(pgweir, everywhere):
    weir = pgweir(databases=entry([TWO, ONE, THREE], everywhere.port, "load_balance_hosts=disable"),
                  pool_mode="transaction")
    assert {hold(weir)[1] for _ in range(5)} == {TWO}


def test_disable_goes_on_when_a_connect_fails_and_stays_there(pgweir, fake_server):
    port = free_port()
    first, second = fake_server(TWO, port), fake_server(THREE, port)
    for far in (first, second):
        far.serve(serving)
    weir = pgweir(databases=entry([TWO, THREE], port, "load_balance_hosts=disable"),
                  pool_mode="transaction", server_login_retry="0.05")
    held = [weir.client() for _ in range(2)]
    for client in held:
        client.query("BEGIN")
    assert len(second.accepted) == 0
    first.close()
    weir.wait_pool(sv_active=0)
    for _ in range(3):
        client = weir.client()
        client.send(query("SELECT 1"))
        assert client.read_result().rows
    back = fake_server(TWO, port).serve(serving)
    before = len(second.accepted)
    weir.admin("RECONNECT")
    weir.client().query("SELECT 1")
    assert len(second.accepted) == before + 1
    assert not back.accepted


def test_a_mixed_list(pgweir, everywhere):
    hosts = [everywhere.socket_dir, "localhost", TWO]
    weir = pgweir(databases=entry(hosts, everywhere.port), pool_mode="transaction")
    seen = [hold(weir)[1] for _ in range(3)]
    assert seen[0] in ("", None) and seen[2] == TWO
    shown = {row["addr"] for row in weir.admin("SHOW SERVERS")}
    assert {"unix", TWO} < shown


# -- dead hosts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ("round-robin", "disable"))
def test_nobody_notices_a_dead_host(pgweir, everywhere, how):
    weir = pgweir(databases=entry([DEAD, TWO, THREE], everywhere.port, f"load_balance_hosts={how}"),
                  pool_mode="transaction", server_login_retry=LONG)
    seen = {hold(weir)[1] for _ in range(6)}
    assert seen == ({TWO, THREE} if how == "round-robin" else {TWO})
    assert logged(weir, "connect failed", 1)


def test_many_at_once_do_not_notice_it(pgweir, everywhere):
    weir = pgweir(databases=entry([DEAD, TWO], everywhere.port), pool_mode="transaction",
                  server_login_retry=LONG)
    clients = [weir.wire().startup() for _ in range(12)]
    for client in clients:
        client.finish_login("alice")
        client.send(query("BEGIN"))
    for client in clients:
        assert client.read_result().tags == ["BEGIN"]


def test_a_dead_address_of_a_name(make_pgweir, everywhere):
    weir = make_pgweir(databases=entry(["many.test"], everywhere.port), pool_mode="transaction",
                       server_login_retry=LONG)
    names = f"{weir.dir}/hosts"
    weir.account.write(names, f"{DEAD} many.test\n{TWO} many.test\n{THREE} many.test\n", 0o644)
    weir.start(env={"CARES_HOSTS": names})
    assert {hold(weir)[1] for _ in range(6)} == {TWO, THREE}
    assert weir.log.count("connect failed") <= 1


def test_a_host_that_says_nothing(pgweir, everywhere, fake_server):
    """Its backlog accepts the connection, but nothing responds."""
    mute = fake_server(DEAD, everywhere.port)
    weir = pgweir(databases=entry([DEAD, TWO], everywhere.port), pool_mode="transaction",
                  server_connect_timeout="5", server_login_retry=LONG)
    assert {hold(weir)[1] for _ in range(4)} == {TWO}
    assert mute.has_caller()
    assert logged(weir, "closing because: no answer, another host is tried", 1)


def test_a_silent_host_with_one_server_only(pgweir, everywhere, fake_server):
    """The only connection allowed for the pool must not stay at the silent host."""
    fake_server(DEAD, everywhere.port)
    weir = pgweir(databases=entry([DEAD, TWO], everywhere.port), default_pool_size=1,
                  pool_mode="transaction", server_connect_timeout="5", server_login_retry="0.05")
    assert weir.client().value(WHERE) == TWO
    for _ in range(3):
        weir.admin("RECONNECT")
        assert weir.client().value(WHERE) == TWO


def test_the_last_host_has_all_the_time(pgweir, fake_server):
    """Both hosts are silent: the second one has the whole time, because there is no third."""
    port = free_port()
    for host in (TWO, THREE):
        fake_server(host, port)
    weir = pgweir(databases=entry([TWO, THREE], port), server_connect_timeout="2",
                  server_login_retry=LONG)
    weir.wire().startup()
    weir.wait_log("127.0.0.2:.*closing because: no answer, another host is tried")
    weir.wait_log("127.0.0.3:.*closing because: connect timeout")
    assert weir.log.count("closing because: no answer") == 1


def test_a_host_that_comes_back_is_used_again(pgweir, fake_server):
    port = free_port()
    fake_server(TWO, port).serve(serving)
    weir = pgweir(databases=entry([THREE, TWO], port), pool_mode="transaction",
                  default_pool_size=0, server_login_retry="0.2")
    weir.client().query("SELECT 1")
    weir.wait_log("connect failed")
    back = fake_server(THREE, port).serve(serving)

    def comes_back():
        weir.client().query("BEGIN")  # keeps its server, so that the next client needs another
        return back.accepted

    assert wait_until(comes_back, what="a connection to the host that is back")


def test_a_refusal_of_one_host_is_not_told(pgweir, everywhere, fake_server):
    full = fake_server(DEAD, everywhere.port)
    full.serve(lambda channel: channel.send(fake.error("sorry, too many clients already", "53300",
                                                       "FATAL")))
    weir = pgweir(databases=entry([DEAD, TWO], everywhere.port), pool_mode="transaction",
                  server_login_retry=LONG)
    assert {hold(weir)[1] for _ in range(4)} == {TWO}
    weir.wait_log("too many clients already")


def test_a_refusal_of_all_is(pgweir, fake_server):
    port = free_port()
    for host in (TWO, THREE):
        far = fake_server(host, port)
        far.serve(lambda channel: channel.send(fake.error("no entry for you", "28000", "FATAL")))
    weir = pgweir(databases=entry([TWO, THREE], port), server_login_retry=LONG)
    refused = refusal(weir.address)
    assert (refused.sqlstate, refused.text) == ("28000", "no entry for you")
    assert logged(weir, "server login failed: FATAL no entry for you", 2)


# -- all hosts down ------------------------------------------------------------------------------


def test_all_dead_for_a_new_client(pgweir):
    weir = pgweir(databases=entry([TWO, THREE], free_port()), client_login_timeout="1",
                  server_login_retry=LONG)
    refused = refusal(weir.address)
    assert refused.text == "client_login_timeout (server down)"
    assert logged(weir, "closing because: connect failed", 2)


def test_all_dead_and_back(pgweir, everywhere):
    weir = pgweir(databases=entry([TWO, THREE], everywhere.port), pool_mode="transaction",
                  query_wait_timeout="1", server_login_retry=LONG)
    first, second = weir.client(), weir.client()
    first.query("SELECT 1")
    everywhere.stop(signal.SIGQUIT)
    weir.wait_pool(sv_idle=0, sv_active=0)
    first.send(query("SELECT 1"))
    assert first.read_refusal().text == "query_wait_timeout"
    second.send(query("SELECT 1"))
    weir.wait_pool(cl_waiting=1)
    everywhere.start()
    assert second.read_result().rows == [["1"]]
    assert weir.client().value(WHERE) in (TWO, THREE)


# -- cancel --------------------------------------------------------------------------------------


def test_a_cancel_goes_to_the_servers_own_host(pgweir, fake_server):
    port = free_port()
    over = threading.Event()

    def reply(sql):
        if "slow" in sql:
            over.wait(LIMIT)
        return fake.answer("1")

    hosts = [fake_server(host, port).serve(lambda channel: channel.login().answer_queries(reply))
             for host in (TWO, THREE)]
    weir = pgweir(databases=entry([TWO, THREE], port), pool_mode="transaction")
    clients = []
    for number, far in enumerate(hosts, 1):
        clients.append(weir.client())
        clients[-1].send(query("SELECT slow"))
        weir.wait_pool(sv_active=number)
        assert len(far.accepted) == 1
    for client, own, other in ((clients[1], hosts[1], hosts[0]), (clients[0], hosts[0], hosts[1])):
        before = len(other.cancels)
        send_cancel(weir.address, client.key)
        own.wait_cancel()
        assert len(other.cancels) == before
    over.set()
    for client in clients:
        assert client.read_result().rows == [["1"]]


def test_a_cancel_ends_the_query_at_its_host(pgweir, everywhere):
    weir = pgweir(databases=entry([TWO, everywhere.socket_dir, THREE], everywhere.port),
                  pool_mode="transaction")
    clients = [weir.client() for _ in range(3)]
    for number, client in enumerate(clients, 1):
        client.send(query("SELECT pg_sleep(60)"))
        weir.wait_pool(sv_active=number)
    # A server whose query has not begun would not notice the cancel request.
    wait_until(lambda: everywhere.value(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == len(clients))
    for client in clients:
        send_cancel(weir.address, client.key)
        assert client.read_result().error["C"] == "57014"


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.one_loop("each loop looks names up, and notices at its own next lookup")
@pytest.mark.parametrize("hosts", (["db.test"], ["db.test", DEAD]))
def test_an_address_that_left_dns_retires_its_servers(make_pgweir, everywhere, hosts):
    weir = make_pgweir(databases=entry(hosts, everywhere.port), pool_mode="transaction",
                       dns_max_ttl="0", server_login_retry=LONG)
    names = f"{weir.dir}/hosts"
    weir.account.write(names, f"{TWO} db.test\n", 0o644)
    weir.start(env={"CARES_HOSTS": names})
    busy, where = hold(weir)
    idle, also = hold(weir)
    assert where == also == TWO
    third, _ = hold(weir)
    third.query("COMMIT")
    weir.wait_pool(sv_idle=1, sv_active=2)
    weir.account.write(names, f"{THREE} db.test\n", 0o644)
    idle.query("COMMIT")
    assert [hold(weir)[1] for _ in range(2)] == [TWO, TWO]  # the name has not been looked up yet
    assert hold(weir)[1] == THREE  # now it has been looked up
    wait_until(lambda: sum(row["close_needed"] for row in weir.admin("SHOW SERVERS")) == 3)
    assert busy.value(WHERE) == TWO
    busy.query("COMMIT")
    weir.wait_log("closing because: its address has left DNS")
    assert busy.value(WHERE) == THREE


def start_with_names(weir, name_server):
    weir.account.write(f"{weir.dir}/resolv.conf", f"nameserver {name_server.address}\n", 0o644)
    return weir.configure(resolv_conf=f"{weir.dir}/resolv.conf").start()


def test_a_zone_that_grows_moves_idle_servers(make_pgweir, everywhere, name_server):
    name_server.names["db.zone.test"] = [TWO]
    name_server.serials["zone.test"] = 2026112001
    weir = make_pgweir(databases=entry(["db.zone.test"], everywhere.port), pool_mode="transaction",
                       dns_max_ttl=LONG, dns_zone_check_period="0.1")
    start_with_names(weir, name_server)
    client = weir.client()
    assert client.value(WHERE) == TWO
    wait_until(lambda: name_server.asked.count(("zone.test", 6)) > 2)
    assert weir.admin("SHOW DNS_ZONES") == [
        {"zonename": "zone.test", "serial": 2026112001, "count": 1}]
    lists = {row["list"]: row["items"] for row in weir.admin("SHOW LISTS")}
    assert lists["dns_zones"] == 1 and lists["dns_names"] == 1
    assert name_server.asked.count(("db.zone.test", 1)) == 1
    name_server.names["db.zone.test"] = [THREE]
    name_server.serials["zone.test"] += 1
    weir.wait_log("closing because: its address has left DNS")
    assert client.value(WHERE) == THREE
    weir.reload(dns_zone_check_period="0")
    assert weir.admin("SHOW DNS_ZONES") == []


def test_loops_share_their_lookups(make_pgweir, everywhere, name_server):
    name = "db.zone.test"
    name_server.names[name] = [TWO]
    name_server.serials["zone.test"] = 1
    weir = start_with_names(make_pgweir(databases=entry([name], everywhere.port), loops=3,
                                        pool_mode="transaction", dns_max_ttl=LONG,
                                        dns_zone_check_period="0.1"), name_server)
    held = [hold(weir) for _ in range(6)]
    assert [where for _, where in held] == [TWO] * 6
    assert all(row["servers"] == 2 for row in weir.admin("SHOW LOOPS"))
    assert name_server.asked.count((name, 1)) == 1
    assert [(row["hostname"], row["addrs"]) for row in weir.admin("SHOW DNS_HOSTS")] == [(name, f"{TWO}:0")]
    assert weir.admin("SHOW DNS_ZONES") == [{"zonename": "zone.test", "serial": 1, "count": 1}]
    wait_until(lambda: name_server.asked.count(("zone.test", 6)) > 2)
    name_server.names[name] = [THREE]
    name_server.serials["zone.test"] += 1
    for client, _ in held:
        client.query("COMMIT")
    left = "closing because: its address has left DNS"
    wait_until(lambda: weir.log.count(left) == 6, what="each loop to close its servers")
    assert hold(weir)[1] == THREE
    assert name_server.asked.count((name, 1)) <= 4  # each loop may have seen that the zone has changed


# -- ports of their own ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", ("host={a},{b} port={one},{two}", "host={a}:{one},{b}:{two} port=1"))
def test_each_host_has_its_port(pgweir, fake_server, form):
    far = [fake_server(ONE), fake_server(ONE)]
    for number, server in enumerate(far):
        def reply(_, number=number):
            return fake.answer(str(number))
        server.serve(lambda channel, reply=reply: channel.login().answer_queries(reply))
    ports = [server.port for server in far]
    weir = pgweir(databases={"app": form.format(a=ONE, b=ONE, one=ports[0], two=ports[1])},
                  pool_mode="session")
    assert [weir.client().value("SELECT 1") for _ in range(4)] == ["0", "1", "0", "1"]
    rows = {row["host"]: row["servers"] for row in weir.admin("SHOW HOSTS")}
    assert rows == {f"{ONE}:{port}": 2 for port in ports}
    weir.disconnect()
    weir.admin(f"DRAIN HOST '{ONE}:{ports[0]}'")
    assert [weir.client().value("SELECT 1") for _ in range(2)] == ["1", "1"]
    far[1].close()
    weir.wait_log(f"{ONE}:{ports[1]}")


@pytest.mark.parametrize("entry_text, why", (
    ("host=a,b port=1,2,3", "as many ports as hosts"),
    ("host=a,b,c port=1,2", "as many ports as hosts"),
    ("port=1,2", "as many ports as hosts"),
    ("host=a,b port=1,70000", "from 1 to 65535"),
    ("host=a,b port=1,", "port"),
    ("host=a,b port=1,x", "port"),
))
def test_bad_ports_are_refused(make_pgweir, entry_text, why):
    weir = make_pgweir()
    weir.sections["databases"] = {"app": entry_text}
    weir.configure()
    done = weir.run("--check", weir.ini)
    assert done.returncode == 1
    assert why in done.stdout + done.stderr


# -- reload and SHOW -----------------------------------------------------------------------------


@pytest.mark.parametrize("hosts, more, is_recycled", (
    ([TWO, THREE], "", False),
    ([TWO, THREE], "pool_size=7", False),
    ([TWO, THREE], "load_balance_hosts=round-robin", False),
    ([TWO, THREE], "load_balance_hosts=disable", True),
    ([THREE, TWO], "", False),
    ([TWO], "", False),
    ([THREE], "", True),
))
def test_what_a_reload_recycles(pgweir, everywhere, hosts, more, is_recycled):
    weir = pgweir(databases=entry([TWO, THREE], everywhere.port), pool_mode="transaction")
    client = weir.client()
    before = client.value("SELECT pg_backend_pid()")
    weir.reload(databases=entry(hosts, everywhere.port, more))
    after = client.value("SELECT pg_backend_pid()")
    assert (before != after) == is_recycled


@pytest.mark.parametrize("hosts, more, shown", (
    ([TWO], "load_balance_hosts=disable", None),
    ([TWO, THREE], "", "round-robin"),
    ([TWO, THREE], "load_balance_hosts=disable", "disable"),
    ([TWO, THREE], "load_balance_hosts=least-connections", "least-connections"),
))
def test_show(pgweir, everywhere, hosts, more, shown):
    weir = pgweir(databases=entry(hosts, everywhere.port, more))
    weir.client()
    database = [row for row in weir.admin("SHOW DATABASES") if row["name"] == "app"][0]
    assert database["host"] == ",".join(hosts)
    assert database["load_balance_hosts"] == shown
    assert weir.pool()["load_balance_hosts"] == shown


def test_a_bad_list_is_refused(make_pgweir):
    weir = make_pgweir(databases={"app": "host=a,,b port=1"})
    done = weir.run("--check", weir.ini)
    assert done.returncode == 1
    assert "contains an empty name" in done.stdout + done.stderr
    assert os.path.basename(weir.ini) in done.stdout + done.stderr
