# SPDX-License-Identifier: ISC
"""hosts_from: hosts that are found by DNS or named by Patroni, while the daemon runs."""

import base64
import contextlib
import datetime
import http.server
import json
import re
import ssl
import threading

import pytest

from .kit import fake
from .kit.account import free_port
from .kit.wait import LIMIT, wait_until

PERIOD = "0.1"


class Rest:
    """A REST interface like Patroni's: the test sets the members, or a whole answer."""

    def __init__(self, context=None, port=0):
        self.members, self.more, self.raw, self.asked = [], {}, None, []
        rest = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                rest.asked.append((self.path, self.headers.get("Authorization")))
                self.wfile.write(rest.answer())

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that does not like the certificate, or the answer

        self.server = Server(("127.0.0.1", port), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def answer(self):
        if self.raw is not None:
            return self.raw
        body = json.dumps({"members": self.members, "scope": "demo", **self.more}).encode()
        return (b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body)) + body

    def wait_asked(self, more=2):
        """An answer that was given after now has been read: the question after it has come."""
        before = len(self.asked)
        wait_until(lambda: len(self.asked) >= before + more, what="further questions")

    def close(self):
        self.server.shutdown()
        self.thread.join(LIMIT)
        self.server.server_close()


@pytest.fixture
def make_rest():
    made = []

    def make(**kw):
        made.append(Rest(**kw))
        return made[-1]

    yield make
    for rest in made:
        with contextlib.suppress(OSError):
            rest.close()


@pytest.fixture
def rest(make_rest):
    return make_rest()


@pytest.fixture
def named(fake_server):
    """PostgreSQL servers on one address, each with a port of its own, that say their names."""

    def make(name):
        def reply(sql):
            if sql == "BEGIN":
                return fake.complete("BEGIN") + fake.ready("T")
            if sql == "COMMIT":
                return fake.complete("COMMIT") + fake.ready()
            return fake.answer(name, status="T" if sql == "SELECT in transaction" else "I")

        server = fake_server().serve(lambda channel: channel.login().answer_queries(reply))
        server.name = name
        return server

    return make


def place(server):
    return f"{server.host}:{server.port}"


def member(server, role="replica", **more):
    return {"name": server.name, "role": role, "state": "running", "host": server.host,
            "port": server.port, "timeline": 1, **more}


def start(make_pgweir, source, more="", **settings):
    settings = {"hosts_from_period": PERIOD, "pool_mode": "transaction", **settings}
    weir = make_pgweir(**settings)
    weir.sections["databases"] = {"app": f"hosts_from={source} {more}"}
    return weir.configure()


def patroni(rest, scheme="http", login=""):
    return f"patroni:{scheme}://{login}127.0.0.1:{rest.port}/cluster"


def shown(weir):
    return {row["host"]: row for row in weir.admin("SHOW HOSTS")}


def wait_hosts(weir, *servers):
    wait_until(lambda: set(shown(weir)) == {place(server) for server in servers},
               what=f"the hosts {[server.name for server in servers]}")


def names(weir, count=4):
    """Who serves so many transactions at the same time."""
    clients = [weir.client() for _ in range(count)]
    for client in clients:
        client.query("BEGIN")
    seen = [client.value("SELECT in transaction") for client in clients]
    for client in clients:
        client.query("COMMIT")
        client.close()
    return set(seen)


# -- Patroni ---------------------------------------------------------------------------------------


def test_members_come_and_go_without_reload(make_pgweir, rest, named):
    """A transaction on a member that is gone goes on to its end; only then its server is closed."""
    one, two, three = named("one"), named("two"), named("three")
    rest.members = [member(one, "leader"), member(two)]
    weir = start(make_pgweir, patroni(rest)).start()
    wait_hosts(weir, one, two)
    assert names(weir) == {"one", "two"}
    busy = weir.client()
    busy.query("BEGIN")
    there = busy.value("SELECT in transaction")
    left = {"one": one, "two": two}[there]
    stays = two if left is one else one
    rest.members = [member(stays, "leader"), member(three)]
    wait_hosts(weir, stays, three)
    assert busy.value("SELECT in transaction") == there
    assert names(weir, 12) == {stays.name, "three"}  # more than the servers that are open
    busy.query("COMMIT")
    assert busy.value("SELECT 1") != there
    wait_until(lambda: place(left) not in {f"{row['addr']}:{row['port']}"
                                           for row in weir.admin("SHOW SERVERS")})
    assert "RELOAD" not in weir.log and "re-reading" not in weir.log
    row = [row for row in weir.admin("SHOW DATABASES") if row["name"] == "app"][0]
    assert set(row["host"].split(",")) == {place(stays), place(three)}


def test_servers_of_members_that_stay_are_kept(make_pgweir, rest, named):
    one, two = named("one"), named("two")
    rest.members = [member(one, "leader")]
    weir = start(make_pgweir, patroni(rest)).start()
    wait_hosts(weir, one)
    client = weir.client()
    assert client.value("SELECT 1") == "one"
    before = len(one.accepted)
    rest.members = [member(two), member(one, "leader")]
    wait_hosts(weir, one, two)
    assert client.value("SELECT 1") == "one"
    assert len(one.accepted) == before


def test_the_last_list_stays_while_the_rest_interface_is_down(make_pgweir, rest, make_rest, named):
    one, two = named("one"), named("two")
    rest.members = [member(one, "leader")]
    weir = start(make_pgweir, patroni(rest)).start()
    wait_hosts(weir, one)
    rest.close()
    weir.wait_log("cannot be asked, the last list of hosts stays: ")
    wait_until(lambda: ": fails for " in shown(weir)[place(one)]["hosts_from"])
    assert weir.client().value("SELECT 1") == "one"
    back = make_rest(port=rest.port)
    back.members = [member(two, "leader")]
    wait_hosts(weir, two)
    weir.wait_log("answers again")
    assert shown(weir)[place(two)]["hosts_from"] == f"patroni:http://127.0.0.1:{rest.port}/cluster"
    # each failure once
    assert len(re.findall("cannot be asked", weir.log)) <= 2


def test_clients_wait_for_the_first_answer(make_pgweir, rest, named):
    one = named("one")
    rest.raw = b"HTTP/1.0 503 Service Unavailable\r\n\r\n"
    weir = start(make_pgweir, patroni(rest), server_login_retry="0.1").start()
    weir.wait_log("it has not named any hosts yet: it answers with status 503")
    done = []
    thread = threading.Thread(target=lambda: done.append(weir.client().value("SELECT 1")))
    thread.start()
    weir.wait_log("the hosts of database .app. are not known yet")
    rest.raw, rest.members = None, [member(one, "leader")]
    thread.join(LIMIT)
    assert done == ["one"]


def test_host_serves_until_the_first_answer(make_pgweir, rest, named):
    one, two = named("one"), named("two")
    rest.raw = b"HTTP/1.0 503 Service Unavailable\r\n\r\n"
    weir = start(make_pgweir, patroni(rest), f"host={one.host} port={one.port}").start()
    assert weir.client().value("SELECT 1") == "one"
    rest.raw, rest.members = None, [member(two, "leader")]
    wait_until(lambda: place(two) in shown(weir))
    assert weir.client().value("SELECT 1") == "two"


def test_the_next_rest_interface_is_asked(make_pgweir, rest, named):
    one = named("one")
    rest.members = [member(one, "leader")]
    source = f"patroni:http://127.0.0.1:{free_port()},127.0.0.1:{rest.port}/cluster"
    weir = start(make_pgweir, source).start()
    wait_hosts(weir, one)
    rest.wait_asked()
    assert "cannot be asked" not in weir.log


def test_an_interface_that_hangs_is_left_in_time(make_pgweir, rest, fake_server, named):
    one, deaf = named("one"), fake_server()
    rest.members = [member(one, "leader")]
    source = f"patroni:http://127.0.0.1:{deaf.port},127.0.0.1:{rest.port}/cluster"
    weir = start(make_pgweir, source, host_check_timeout="0.2").start()
    wait_hosts(weir, one)


def test_login_and_https(make_pgweir, make_rest, ca, named):
    """The certificate must have the name; the password is in no log and no SHOW."""
    certificate = ca.issue("rest", "localhost", names=["localhost"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    rest, one = make_rest(context=context), named("one")
    rest.members = [member(one, "leader")]
    source = patroni(rest, "https", "me:secret@")
    weir = start(make_pgweir, source, hosts_from_ca_file=ca.cert, verbose=2).start()
    weir.wait_log("cannot be asked, it has not named any hosts yet: .*(certificate|name)")
    weir.sections["databases"] = {"app": f"hosts_from={source.replace('127.0.0.1', 'localhost')}"}
    weir.reload()
    wait_hosts(weir, one)
    expected = "Basic " + base64.b64encode(b"me:secret").decode()
    assert rest.asked[-1] == ("/cluster", expected)
    assert "secret" not in weir.log
    assert "secret" not in str(weir.admin("SHOW HOSTS")) + str(weir.admin("SHOW DATABASES"))


def long_body():
    return b"HTTP/1.0 200 OK\r\n\r\n{\"members\": [" + b" " * (300 * 1024) + b"]}"


BAD_ANSWERS = (
    (b"", "its answer is no HTTP"),
    (b"SSH-2.0-OpenSSH_9.2 and more\r\n\r\n", "its answer is no HTTP"),
    (b"HTTP/1.0 401 Unauthorized\r\n\r\n", "status 401"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "a transfer encoding"),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{}", "its answer was cut"),
    (b"HTTP/1.0 200 OK\r\n\r\nnothing", "not that of Patroni"),
    (b"HTTP/1.0 200 OK\r\n\r\n{\"members\": []}", "it has no members"),
    (b"HTTP/1.0 200 OK\r\n\r\n{\"members\": [{\"host\": \"/tmp\", \"port\": 1}]}", "it has no members"),
    (b"HTTP/1.0 200 OK\r\n\r\n{\"members\": [{\"host\": \"a,b\", \"port\": 1}]}", "it has no members"),
    (b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 50000, "not that of Patroni"),
    (long_body(), "its answer is longer than 262144 bytes"),
    (b"HTTP/1.0 200 OK\r\n\r\n{\"members\": [" +
     b",".join(b'{"host": "h", "port": %d}' % port for port in range(1, 100)) + b"]}",
     "more than 64 members"),
)


@pytest.mark.parametrize("raw, why", BAD_ANSWERS, ids=range(len(BAD_ANSWERS)))
def test_a_bad_answer_changes_nothing(make_pgweir, rest, named, raw, why):
    one = named("one")
    rest.members = [member(one, "leader")]
    weir = start(make_pgweir, patroni(rest)).start()
    wait_hosts(weir, one)
    rest.raw = raw
    weir.wait_log(f"the last list of hosts stays: .*{why}")
    assert set(shown(weir)) == {place(one)}
    assert weir.client().value("SELECT 1") == "one"


def soon(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.isoformat()


def test_a_planned_switchover_drains_the_leader(make_pgweir, rest, named):
    one, two = named("one"), named("two")
    rest.members = [member(one, "leader"), member(two)]
    rest.more = {"scheduled_switchover": {"at": soon(3600), "from": "one"}}
    weir = start(make_pgweir, patroni(rest)).start()
    wait_hosts(weir, one, two)
    rest.wait_asked()
    assert shown(weir)[place(one)]["state"] != "draining" and "DRAIN HOST" not in weir.log
    rest.more = {"scheduled_switchover": {"at": soon(1), "from": "one", "to": "two"}}
    weir.wait_log(f"DRAIN HOST {place(one)}")
    wait_until(lambda: shown(weir)[place(one)]["state"] == "drained")
    assert names(weir) == {"two"}
    rest.more = {}
    weir.wait_log(f"ENABLE HOST {place(one)}")
    assert shown(weir)[place(one)]["state"] not in ("draining", "drained")
    assert names(weir, 12) == {"one", "two"}  # more than the servers that are open


def test_what_an_administrator_has_drained_stays_so(make_pgweir, rest, named):
    one, two = named("one"), named("two")
    rest.members = [member(one, "leader"), member(two)]
    weir = start(make_pgweir, patroni(rest)).start()
    wait_hosts(weir, one, two)
    weir.admin(f"DRAIN HOST '{place(one)}'")
    rest.more = {"scheduled_switchover": {"at": soon(1), "from": "one"}}
    rest.wait_asked()
    rest.more = {}
    rest.wait_asked()
    assert shown(weir)[place(one)]["state"] == "drained"


def test_a_plan_that_changes(make_pgweir, rest, named):
    """It has another time, or another member, or its time has passed long ago."""
    one, two = named("one"), named("two")
    rest.members = [member(one, "leader"), member(two)]
    weir = start(make_pgweir, patroni(rest)).start()
    wait_hosts(weir, one, two)

    def plan(seconds, server, *drained):
        rest.more = {"scheduled_switchover": {"at": soon(seconds), "from": server.name}}
        wait_until(lambda: [host for host, row in shown(weir).items()
                            if row["state"] in ("draining", "drained")] ==
                   [place(each) for each in drained], what=f"{len(drained)} drained")

    plan(1, one, one)
    plan(3600, one)
    plan(1, one, one)
    plan(1, two, two)
    plan(-3600, two)


def test_what_an_administrator_says_meanwhile_stays(make_pgweir, rest, named):
    one, two = named("one"), named("two")
    rest.members = [member(one, "leader"), member(two)]
    rest.more = {"scheduled_switchover": {"at": soon(1), "from": "one"}}
    weir = start(make_pgweir, patroni(rest)).start()
    weir.wait_log(f"DRAIN HOST {place(one)}")
    weir.admin(f"DISABLE HOST '{place(one)}'")
    rest.more = {}
    rest.wait_asked(3)
    assert shown(weir)[place(one)]["state"] == "disabled"


def test_a_take_over_during_a_planned_switchover(make_pgweir, rest, named):
    one, two = named("one"), named("two")
    rest.members = [member(one, "leader"), member(two)]
    rest.more = {"scheduled_switchover": {"at": soon(1), "from": "one"}}
    weir = start(make_pgweir, patroni(rest)).start()
    weir.wait_log(f"DRAIN HOST {place(one)}")
    weir.disconnect_console()
    weir.take_over()

    def is_drained():
        row = shown(weir).get(place(one))
        return row and row["state"] in ("draining", "drained")

    wait_until(is_drained)
    rest.more = {}
    wait_until(lambda: not is_drained())


# -- reload, SET, take-over --------------------------------------------------------------------------


def test_what_was_found_outlives_reload_and_set(make_pgweir, rest, named):
    one, two = named("one"), named("two")
    rest.members = [member(one, "leader")]
    weir = start(make_pgweir, patroni(rest)).start()
    wait_hosts(weir, one)
    rest.close()
    weir.admin("SET default_pool_size = 7")
    weir.reload(max_client_conn=77)
    assert set(shown(weir)) == {place(one)}
    assert weir.client().value("SELECT 1") == "one"
    weir.sections["databases"] = {"app": f"host={two.host} port={two.port}"}
    weir.reload()
    assert weir.client().value("SELECT 1") == "two"
    assert shown(weir)[two.host]["hosts_from"] is None


def test_the_period_is_reloaded(make_pgweir, rest, named):
    one, two = named("one"), named("two")
    rest.members = [member(one, "leader")]
    weir = start(make_pgweir, patroni(rest), hosts_from_period="3600").start()
    wait_hosts(weir, one)
    rest.members = [member(two, "leader")]
    weir.reload(hosts_from_period=PERIOD)
    wait_hosts(weir, two)


@pytest.mark.parametrize("source", (
    "", "consul:x", "srv:", "patroni:ftp://a/cluster", "patroni:http://", "patroni:http:///cluster",
))
def test_a_bad_source_is_refused(make_pgweir, source):
    weir = make_pgweir(databases={"app": f"host=a hosts_from='{source}'"})
    done = weir.run("--check", weir.ini)
    assert done.returncode == 1
    assert "hosts_from" in done.stdout + done.stderr


# -- DNS -------------------------------------------------------------------------------------------


def test_srv_records(make_pgweir, name_server, named):
    one, two, three = named("one"), named("two"), named("three")
    service = "_postgresql._tcp.db.test"
    name_server.names["pg.test"] = ["127.0.0.1"]
    name_server.services[service] = [(0, one.port, "pg.test"), (0, two.port, "pg.test")]
    weir = start(make_pgweir, f"srv:{service}")
    weir.account.write(f"{weir.dir}/resolv.conf", f"nameserver {name_server.address}\n", 0o644)
    weir.configure(resolv_conf=f"{weir.dir}/resolv.conf").start()
    wait_until(lambda: set(shown(weir)) == {f"pg.test:{one.port}", f"pg.test:{two.port}"})
    assert names(weir) == {"one", "two"}
    name_server.services[service] = [(0, three.port, "pg.test")]
    wait_until(lambda: set(shown(weir)) == {f"pg.test:{three.port}"})
    assert names(weir) == {"three"}
    del name_server.services[service]
    weir.wait_log("cannot be asked, the last list of hosts stays: ")
    assert ": fails for " in shown(weir)[f"pg.test:{three.port}"]["hosts_from"]
    assert names(weir) == {"three"}


def test_srv_records_with_names_of_no_host(make_pgweir, name_server, named):
    one = named("one")
    service = "_postgresql._tcp.db.test"
    name_server.names["pg.test"] = ["127.0.0.1"]
    name_server.services[service] = [(0, one.port, name) for name in
                                     ("/tmp", "@one", "a,b", "," * 60, "pg.test", "[a]")]
    weir = start(make_pgweir, f"srv:{service}")
    weir.account.write(f"{weir.dir}/resolv.conf", f"nameserver {name_server.address}\n", 0o644)
    weir.configure(resolv_conf=f"{weir.dir}/resolv.conf").start()
    wait_until(lambda: set(shown(weir)) == {f"pg.test:{one.port}"})
    assert names(weir) == {"one"}


def test_a_take_over_keeps_clients(make_pgweir, rest, named):
    one = named("one")
    rest.members = [member(one, "leader")]
    weir = start(make_pgweir, patroni(rest)).start()
    wait_hosts(weir, one)
    client = weir.client()
    assert client.value("SELECT 1") == "one"
    weir.disconnect_console()
    weir.take_over()
    assert client.value("SELECT 1") == "one"
    wait_hosts(weir, one)
