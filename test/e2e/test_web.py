# SPDX-License-Identifier: ISC
"""The web server of metrics_listen: its paths, the tables as JSON, its rights and its limits."""

import base64
import contextlib
import ctypes
import errno
import hashlib
import http.client
import os
import re
import select
import signal
import socket
import ssl
import stat

import pytest

from .kit.account import free_port
from .kit.wait import LIMIT, wait_exit, wait_until
from .kit.web import Web, talk
from .kit.wire import Refused, query

# Tables whose rows change from one moment to the next.
RESTLESS = {"MEM", "SOCKETS", "ACTIVE_SOCKETS", "STATS", "STATS_TOTALS", "STATS_AVERAGES", "TOTALS",
            "CLIENTS", "SERVERS", "LOOPS", "AUDIT", "LISTS", "POOLS", "HISTORY", "LATENCY", "STATEMENTS",
            "ADVICE", "APPLICATIONS", "EVENTS", "EVENTS_TOTALS", "TRANSACTIONS"}


@pytest.fixture
def web(pgweir):
    """A daemon with a web server, and a function that opens connections to it."""
    port = free_port()
    weir = pgweir(metrics_listen=f"127.0.0.1:{port}", stats_users="stats", pool_mode="transaction")
    weir.web_port = port
    yield weir


def ask(weir, path, method="GET", **headers):
    return Web(weir.web_port).ask(path, method, **headers)


# -- a loop that does not turn -----------------------------------------------------------------------

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # threads, too


@contextlib.contextmanager
def stopped(tid):
    """Stops one thread of another process; its other threads go on."""
    libc = ctypes.CDLL(None, use_errno=True)

    def ptrace(what):
        if libc.ptrace(what, tid, 0, 0):
            number = ctypes.get_errno()
            if number == errno.EPERM:
                pytest.skip("this system lets nobody trace a process")
            raise OSError(number, os.strerror(number))

    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    ptrace(PTRACE_SEIZE)
    ptrace(PTRACE_INTERRUPT)
    os.waitpid(tid, WALL)
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH)


def threads(weir):
    names = {"the main thread": weir.pid}
    for tid in os.listdir(f"/proc/{weir.pid}/task"):
        with open(f"/proc/{weir.pid}/task/{tid}/comm", encoding="utf-8") as file:
            names[file.read().strip()] = int(tid)
    return names


@pytest.mark.one_loop("it sets loops itself")
@pytest.mark.parametrize("name", ("the main thread", "pgweir/1"))
def test_health_when_a_loop_does_not_turn(pgweir, name):
    port = free_port()
    weir = pgweir(metrics_listen=f"127.0.0.1:{port}", loops=2)
    assert Web(port).ask("/healthz").status == 200
    with stopped(threads(weir)[name]):
        waiting = [Web(port), Web(port)]
        for one in waiting:
            one.request("GET", "/healthz")
        for one in waiting:
            answer = one.getresponse()
            assert (answer.status, answer.read()) == (503, b"an event loop does not answer\n")
        # The SHOW READY of these two is still on its way: the next request has its own.
        assert Web(port).ask("/healthz").status == 503
    assert Web(port).ask("/healthz").status == 200
    assert weir.client().value("SELECT 1") == "1"


# -- paths -----------------------------------------------------------------------------------------


def test_paths(web):
    one = Web(web.web_port)
    for path, status, kind in (("/", 200, "text/html; charset=utf-8"),
                               ("/healthz", 200, "text/plain; charset=utf-8"),
                               ("/readyz", 200, "text/plain; charset=utf-8"),
                               ("/api/v1/show", 200, "application/json"),
                               ("/api/v1/show/pools", 200, "application/json"),
                               ("/favicon.ico", 204, None),
                               ("/api/v1/show/", 404, "application/json"),
                               ("/api/v1/show/nothing", 404, "application/json"),
                               ("/api/v1/show/fds", 403, "application/json"),
                               ("/api/v1/show/pool_mode", 404, "application/json"),
                               ("/api/v1/show/%zz", 400, "application/json"),
                               ("/healthz/", 404, "application/json"),
                               ("/nothing", 404, "application/json")):
        whole = one.ask(path)
        assert (whole.status, whole.headers["content-type"]) == (status, kind), path
        if status >= 400:
            assert whole.json["error"], path
        head = one.ask(path, "HEAD")
        assert (head.status, head.headers["content-type"]) == (status, kind), path
        assert whole.headers["x-content-type-options"] == "nosniff"
        assert whole.headers["cache-control"] == "no-store"
    assert one.ask("/healthz").text == "ok\n"
    assert one.ask("/readyz").text == "ready\n"


def test_the_page_can_load_nothing_else(web):
    page = ask(web, "/")
    policy = page.headers["content-security-policy"]
    for element in ("style", "script"):
        inside = re.findall(f"<{element}>(.*?)</{element}>", page.text, re.DOTALL)
        hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inside]
        assert hashes and f"{element}-src " + " ".join(f"'sha256-{text}'" for text in hashes) + ";" in policy
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("method", ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"))
def test_nothing_can_be_changed(web, method):
    answer = ask(web, "/api/v1/show/pools", method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


def test_the_list(web):
    tables = ask(web, "/api/v1/show").json["tables"]
    shown = [table["name"] for table in tables]
    assert "POOLS" in shown and "FDS" not in shown
    assert {"name": "COLUMNS", "argument": "[table]"}.items() <= next(
        table for table in tables if table["name"] == "COLUMNS").items()
    for table in tables:
        assert ask(web, f"/api/v1/show/{table['name'].lower()}").status == 200


# -- tables ----------------------------------------------------------------------------------------


def test_tables_are_those_of_the_console(web):
    client = web.client()
    assert client.value("SELECT 1") == "1"
    one = Web(web.web_port)
    for table in one.ask("/api/v1/show").json["tables"]:
        name = table["name"]
        asked, told = web.admin(f"SHOW {name}"), one.show(name)
        if name in RESTLESS:
            assert [list(row) for row in told[:1]] == [list(row) for row in asked[:1]], name
        else:
            assert told == asked, name


def test_types(web):
    answer = ask(web, "/api/v1/show/clients").json
    assert answer["name"] == "CLIENTS"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", answer["at"])
    types = {column["name"]: column["type"] for column in answer["columns"]}
    assert types["port"] == "int4" and types["user"] == "text"


def test_null_and_strange_names(pgweir):
    port = free_port()
    strange = "a\"b \u00e4+&?"
    weir = pgweir(databases={"app": "", f'"{strange.replace(chr(34), chr(34) * 2)}"': "dbname=app"},
                  metrics_listen=f"127.0.0.1:{port}")
    one = Web(port)
    assert strange in [row["name"] for row in one.show("DATABASES")]
    assert weir.client().value("SELECT 1") == "1"
    assert one.show("CLIENTS")[0]["link"] is not None
    answer = one.ask("/api/v1/show/limits?argument=hit")
    assert answer.status == 200


def test_an_argument(web):
    one = Web(web.web_port)
    assert {row["item"] for row in one.show("COLUMNS pools")} == {"POOLS"}
    assert one.ask("/api/v1/show/columns?argument=nothing").status == 404
    assert one.ask("/api/v1/show/columns?argument=a;%20SHUTDOWN").status == 404
    assert one.ask("/api/v1/show/columns?argument=%22").status == 404
    assert one.ask("/api/v1/show/columns?argument=" + "x" * 5000).status == 404
    assert one.ask("/api/v1/show/shutdown;").status == 404


def test_many_rows_come_in_pieces(pgweir):
    port = free_port()
    weir = pgweir(databases={f"d{number:04}": "host=127.0.0.1" for number in range(3000)},
                  metrics_listen=f"127.0.0.1:{port}")
    rows = Web(port).show("DATABASES")
    assert [row["name"] for row in rows] == [row["name"] for row in weir.admin("SHOW DATABASES")]
    assert len(rows) > 3000


# -- states of the daemon --------------------------------------------------------------------------


def test_not_ready(web):
    client = web.client()
    one = Web(web.web_port)
    web.admin("PAUSE")
    answer = one.ask("/readyz")
    assert (answer.status, answer.text) == (503, "paused\n")
    assert one.ask("/healthz").status == 200
    assert one.show("STATE")
    web.admin("RESUME")
    assert one.ask("/readyz").status == 200
    web.signal(signal.SIGTERM)
    wait_until(lambda: one.ask("/readyz").text == "shutting down\n", what="the answer of /readyz")
    assert one.ask("/healthz").text == "ok\n"
    assert [row["user"] for row in one.show("CLIENTS")].count("alice") == 1
    web.disconnect()
    assert web.wait_exit() == 0


def test_draining(web):
    client = web.client()
    client.send(query("BEGIN"))
    client.read_until("Z")
    waiting = web.client("admin", "pgbouncer", password="admin secret")
    waiting.send(query("DRAIN"))
    one = Web(web.web_port)
    wait_until(lambda: one.ask("/readyz").text == "draining\n", what="the answer of /readyz")
    assert one.show("DRAIN")[0]["clients"] == 1
    client.close()


def test_several_loops(pgweir):
    port = free_port()
    weir = pgweir(metrics_listen=f"127.0.0.1:{port}", loops=3)
    clients = [weir.client() for _ in range(7)]
    one = Web(port)
    for _ in range(20):
        assert one.ask("/healthz").text == "ok\n"
        assert sum(row["user"] == "alice" for row in one.show("CLIENTS")) == len(clients)


# -- rights ----------------------------------------------------------------------------------------


def test_addresses(web):
    web.reload(metrics_allow="192.0.2.0/24, unix")
    answer = ask(web, "/healthz")
    assert (answer.status, answer.json["error"]) == (403, "this address is not in metrics_allow")
    web.reload(metrics_allow="127.0.0.1")
    assert ask(web, "/healthz").status == 200


@pytest.mark.parametrize("name, status", (
    ("localhost:9127", 200), ("LocalHost", 200), ("127.0.0.1", 200), ("192.0.2.1:80", 200), ("[::1]:80", 200),
    ("evil.example", 403), ("localhost.evil.example", 403), ("127.0.0.1.evil.example", 403),
    ("localhost@evil.example", 403), ("weir.example", 200)))
def test_names_of_the_host(web, name, status):
    """A page of a stranger, whose name leads to us, must not read what we show."""
    web.reload(metrics_hosts="weir.example")
    assert ask(web, "/healthz", Host=name).status == status


def test_any_name(web):
    web.reload(metrics_hosts="*")
    assert ask(web, "/healthz", Host="evil.example").status == 200


def test_unix_socket(make_pgweir):
    weir = make_pgweir()
    path = f"{weir.dir}/web.sock"
    weir.configure(metrics_listen=f"unix:{path}", unix_socket_mode="0750").start()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o750
    one = Web(path)
    assert one.ask("/healthz", Host="any.example").status == 200
    assert one.show("VERSION")
    weir.reload(metrics_allow="127.0.0.1")
    assert one.ask("/healthz").status == 403
    weir.stop()
    assert not os.path.exists(path)


# -- secrets ---------------------------------------------------------------------------------------


def basic(text):
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.fixture
def locked(make_pgweir, account):
    weir = make_pgweir()
    weir.secrets = f"{weir.dir}/secrets"
    account.write(weir.secrets, "# for tests\n\nalice:a secret:with colon\nbearer T0ken \n", 0o600)
    weir.web_port = free_port()
    return weir.configure(metrics_listen=f"127.0.0.1:{weir.web_port}",
                          metrics_secret_file=weir.secrets).start()


@pytest.mark.parametrize("authorization, status", (
    (None, 401), (basic("alice:a secret:with colon"), 200), ("Bearer T0ken", 200), ("bearer  T0ken", 200),
    (basic("alice:a secret"), 401), (basic("alice:"), 401), (basic("T0ken"), 401), ("Bearer alice", 401),
    ("Bearer alice:a secret:with colon", 401), ("Bearer", 401), ("Bearer ", 401), ("Basic", 401),
    ("Basic !!!", 401), ("Digest x", 401), (basic("x" * 3000), 401), (basic("tT0ken"), 401)))
def test_secrets(locked, authorization, status):
    headers = {"Authorization": authorization} if authorization else {}
    for path in ("/", "/metrics", "/api/v1/show", "/api/v1/show/pools", "/nothing"):
        answer = ask(locked, path, **headers)
        assert answer.status == (404 if (status, path) == (200, "/nothing") else status), path
        assert (answer.headers["www-authenticate"] is None) == (answer.status != 401)
    assert ask(locked, "/healthz", **headers).status == 200
    assert ask(locked, "/readyz", **headers).status == 200
    if status == 401 and authorization:
        locked.wait_log(r"WARNING metrics_listen: wrong secret from 127\.0\.0\.1")
    assert "T0ken" not in locked.log and "a secret" not in locked.log


def test_with_a_secret_any_name_of_the_host_will_do(locked):
    assert ask(locked, "/metrics", Host="any.example").status == 401
    assert ask(locked, "/readyz", Host="any.example").status == 403
    assert ask(locked, "/metrics", Host="any.example", Authorization="Bearer T0ken").status == 200


def test_secrets_are_read_again(locked, account):
    one = Web(locked.web_port)
    assert one.ask("/metrics", Authorization="Bearer T0ken").status == 200
    account.write(locked.secrets, "bearer other\n", 0o600)
    locked.admin("RELOAD")
    assert one.ask("/metrics", Authorization="Bearer T0ken").status == 401
    assert one.ask("/metrics", Authorization="Bearer other").status == 200


def guess(weir, source="127.0.0.1"):
    """A connection that waits for the answer to a wrong secret."""
    sock = socket.create_connection(("127.0.0.1", weir.web_port), timeout=LIMIT, source_address=(source, 0))
    sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer guess\r\n\r\n")
    return sock


def test_wrong_secrets_are_slowed_down(locked):
    locked.reload(auth_failure_delay=900, auth_failure_limit=2)
    right = {"Authorization": "Bearer T0ken"}
    guesses = [guess(locked), guess(locked)]
    wait_until(lambda: ask(locked, "/metrics", **right).status == 429, what="two wrong secrets")
    assert ask(locked, "/readyz").status == 200
    # Another address is not concerned, and this one is free again when the two are gone.
    other = Web(locked.web_port)
    other.source_address = ("127.0.0.2", 0)
    assert other.ask("/metrics", **right).status == 200
    for sock in guesses:
        sock.close()
    wait_until(lambda: ask(locked, "/metrics", **right).status == 200, what="nothing is delayed")
    locked.admin("SET auth_failure_delay = 0.1")
    assert guess(locked).recv(12) == b"HTTP/1.1 401"


def test_so_many_wrong_secrets_are_delayed_and_no_more(locked):
    locked.reload(auth_failure_delay=900)
    guesses = [guess(locked) for _ in range(33)]
    assert len(select.select(guesses, [], [], LIMIT)[0]) == 1
    assert ask(locked, "/metrics", Authorization="Bearer T0ken").status == 200
    for sock in guesses:
        sock.close()


def test_a_probe_does_not_tell_whether_a_secret_is_right(locked):
    for secret in ("T0ken", "guess"):
        answer = ask(locked, "/readyz", Host="any.example", Authorization=f"Bearer {secret}")
        assert answer.status == 403


@pytest.mark.parametrize("settings, is_open", (
    (dict(metrics_listen="127.0.0.1:9127"), True),
    (dict(metrics_listen="*:9127"), True),
    (dict(metrics_listen="localhost:9127"), True),
    (dict(metrics_listen="*:9127", metrics_allow="10.0.0.5"), False),
    (dict(metrics_listen="10.0.0.5:9127", metrics_allow="10.0.0.0/8"), True),
    (dict(metrics_listen="10.0.0.5:9127", metrics_allow="10.0.0.9"), False),
    (dict(metrics_listen="unix:/run/web.sock"), True),
    (dict(metrics_listen="unix:/run/web.sock", metrics_allow="127.0.0.1"), False),
    (dict(metrics_listen="unix:/run/web.sock", unix_socket_mode="0770"), False),
    (dict(metrics_listen="unix:@web", unix_socket_mode="0700"), True),
))
def test_what_every_user_of_the_machine_may_read_is_said(make_pgweir, account, settings, is_open):
    weir = make_pgweir(**settings)
    warning = f"every user of this machine may read what {settings['metrics_listen']} shows: set metrics_secret_file"
    done = weir.run("--check", weir.ini)
    assert done.returncode == 0 and (warning in done.stderr) == is_open, done.stderr
    account.write(f"{weir.dir}/secrets", "bearer T0ken\n", 0o600)
    weir.configure(metrics_secret_file=f"{weir.dir}/secrets")
    assert warning not in weir.run("--check", weir.ini).stderr


def test_start_and_reload_say_it_too(make_pgweir):
    weir = make_pgweir(metrics_listen=f"127.0.0.1:{free_port()}").start()
    weir.wait_log(r"WARNING .*pgweir\.ini:\d+: metrics_listen: every user of this machine may read")
    weir.admin("RELOAD")
    wait_until(lambda: weir.log.count("every user of this machine may read") == 2, what="the same again")


@pytest.mark.parametrize("text, error", (
    ("", "has no secret"), ("# nothing\n", "has no secret"), ("alice\n", "1 is not user:password"),
    ("bearer x\nbearer\n", "2 is not user:password"), (":x\n", "1 is not user:password"),
    ("a:" + "x" * 2000 + "\n", "1 is too long"), (None, "cannot open")),
                         ids=lambda value: (value or "nothing")[:20])
def test_bad_secrets(locked, account, text, error):
    """The old secrets stay: a mistake must not let everybody in."""
    if text is None:
        os.remove(locked.secrets)
    else:
        account.write(locked.secrets, text, 0o600)
    with pytest.raises(Refused):
        locked.admin("RELOAD")
    locked.wait_log(re.escape(error))
    assert ask(locked, "/metrics").status == 401
    assert ask(locked, "/metrics", Authorization="Bearer T0ken").status == 200
    done = locked.run("--check", locked.ini)
    assert done.returncode == 1 and error in done.stdout + done.stderr


# -- TLS -------------------------------------------------------------------------------------------


@pytest.fixture
def secured(pgweir, ca):
    leaf = ca.issue("web", "pooler.example")
    port = free_port()
    weir = pgweir(metrics_listen=f"127.0.0.1:{port}", metrics_tls=1, metrics_hosts="pooler.example",
                  client_tls_cert_file=leaf.cert, client_tls_key_file=leaf.key)
    weir.web_port = port
    return weir


def context(ca, alpn=("h2", "http/1.1")):
    made = ssl.create_default_context(cafile=ca.cert)
    made.check_hostname = False
    if alpn:
        made.set_alpn_protocols(list(alpn))
    return made


@pytest.mark.parametrize("alpn", (("h2", "http/1.1"), ("http/1.1",), None))
def test_tls(secured, ca, alpn):
    one = Web(secured.web_port, context=context(ca, alpn))
    assert one.ask("/readyz").text == "ready\n"
    assert one.show("VERSION")
    assert one.sock.selected_alpn_protocol() == ("http/1.1" if alpn else None)
    assert one.ask("/metrics").status == 200


def test_no_tls_where_it_is_needed(secured, ca):
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(secured, "/readyz")
    with pytest.raises(ssl.SSLError):
        Web(secured.web_port, context=context(ca, ("postgresql",))).ask("/readyz")
    assert Web(secured.web_port, context=context(ca)).ask("/readyz").status == 200


def test_many_rows_with_tls(secured, ca):
    secured.reload(databases={f"d{number:04}": "host=127.0.0.1" for number in range(3000)})
    assert len(Web(secured.web_port, context=context(ca)).show("DATABASES")) > 3000


def test_a_certificate_is_replaced(secured, ca):
    def number():
        one = Web(secured.web_port, context=context(ca))
        assert one.ask("/readyz").status == 200
        return one.sock.getpeercert()["serialNumber"]

    before = number()
    other = ca.issue("other", "pooler.example")
    secured.reload(client_tls_cert_file=other.cert, client_tls_key_file=other.key)
    assert number() != before


def test_a_certificate_is_needed(secured, ca):
    secured.reload(client_tls_sslmode="verify-ca", client_tls_ca_file=ca.cert)
    secured.console_address = secured.socket_path
    with pytest.raises((OSError, http.client.HTTPException)):
        Web(secured.web_port, context=context(ca)).ask("/readyz")
    own = ca.issue("prometheus", "prometheus")
    with_one = context(ca)
    with_one.load_cert_chain(own.cert, own.key)
    assert Web(secured.web_port, context=with_one).ask("/readyz").status == 200


# -- what a client can cause -----------------------------------------------------------------------


@pytest.mark.parametrize("request_, status", (
    (b"GET / HTTP/1.1\r\n\r\n", 400),
    (b"GET / HTTP/3.0\r\nHost: localhost\r\n\r\n", 505),
    (b"nonsense\r\n\r\n", 400),
    (b"\0" * 100 + b"\n\n", 400),
    (b"x" * 10000, 431),
    (b"GET /" + b"x" * 10000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 413),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413),
))
def test_malformed(web, request_, status):
    answer = talk(web.web_port, request_)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    assert answer.count(b"HTTP/1.1 ") == 1
    assert ask(web, "/healthz").status == 200


def test_requests_in_one_packet(web):
    several = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50
    last = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = talk(web.web_port, several + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 51
    assert answer.endswith(b"ready\n")


def test_http_1_0(web):
    answer = talk(web.web_port, b"GET /api/v1/show/version HTTP/1.0\r\n\r\n")
    assert b"chunked" not in answer and answer.endswith(b"]}\n")


def test_byte_by_byte(web):
    with socket.create_connection(("127.0.0.1", web.web_port), timeout=LIMIT) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n":
            sock.sendall(bytes([byte]))
        assert sock.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_too_many_connections(web):
    """Those that send no whole head keep nobody out: the oldest of them is closed."""
    idle = [socket.create_connection(("127.0.0.1", web.web_port), timeout=LIMIT) for _ in range(72)]
    for sock in idle:
        sock.sendall(b"GET /metrics HTTP/1.1\r\n")
    assert ask(web, "/healthz").status == 200
    with contextlib.suppress(ConnectionResetError):  # its request had not been read yet
        assert idle[0].recv(1) == b""
    assert ask(web, "/metrics").status == 200
    assert web.client().value("SELECT 1") == "1"
    for sock in idle:
        sock.close()


def test_those_who_do_not_close_keep_no_probe_out(web):
    """Each has its answer, and waits: the oldest makes room."""
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    done = []
    for _ in range(72):
        sock = socket.create_connection(("127.0.0.1", web.web_port), timeout=LIMIT)
        sock.sendall(request)
        assert sock.recv(12) == b"HTTP/1.1 200"
        done.append(sock)
    for path in ("/healthz", "/readyz"):
        assert ask(web, path).status == 200
    for sock in done:
        sock.close()


def test_a_reader_that_stops(pgweir):
    """Rows are made as fast as they are read: memory does not grow, and the daemon goes on."""
    port = free_port()
    weir = pgweir(databases={f"d{number:04}": "host=127.0.0.1" for number in range(4000)},
                  metrics_listen=f"127.0.0.1:{port}")
    readers = []
    for _ in range(40):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", port))
        sock.sendall(b"GET /api/v1/show/databases HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert sock.recv(10)
        readers.append(sock)
    before = weir.rss()
    assert Web(port).show("VERSION")
    assert weir.rss() - before < 20_000_000
    for sock in readers:
        sock.close()
    assert len(Web(port).show("DATABASES")) > 4000


def test_clients_that_leave_in_the_middle(pgweir):
    port = free_port()
    weir = pgweir(databases={f"d{number:04}": "host=127.0.0.1" for number in range(2000)},
                  metrics_listen=f"127.0.0.1:{port}", loops=2)
    for turn in range(100):
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as sock:
            sock.sendall(b"GET /api/v1/show/databases HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if turn % 2:
                sock.recv(1000)
    assert len(Web(port).show("DATABASES")) > 2000
    files = weir.open_files()
    wait_until(lambda: weir.open_files() <= files, what="closed connections")


# -- sockets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings, error", (
    (dict(metrics_listen="9127"), r'metrics_listen: "9127" is not ADDRESS:PORT or unix:/PATH'),
    (dict(metrics_listen="localhost"), r'metrics_listen: "localhost" is not'),
    (dict(metrics_listen="127.0.0.1:99999"), r'metrics_listen: "127.0.0.1:99999" is not'),
    (dict(metrics_listen="unix:web.sock"), r'metrics_listen: "unix:web.sock" is not'),
    (dict(metrics_listen="127.0.0.1:9127", metrics_allow="10.0.0.1/8"), r"metrics_allow: "),
    (dict(metrics_listen="127.0.0.1:9127", metrics_allow="somebody"), r"metrics_allow: "),
))
def test_bad_settings(make_pgweir, settings, error):
    weir = make_pgweir(**settings)
    for arguments in ((), ("--check",)):
        done = weir.run(*arguments, weir.ini)
        assert done.returncode == 1 and re.search(error, done.stdout + done.stderr), done


def test_a_place_in_use(pgweir):
    """Clients of the pooler are served although nobody can look at it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        weir = pgweir(metrics_listen=f"127.0.0.1:{port}")
        weir.wait_log(r"WARNING metrics_listen: cannot listen on 127\.0\.0\.1:\d+: Address already in use")
        assert weir.client().value("SELECT 1") == "1"
    wait_until(lambda: weir.log.count(f"listening on 127.0.0.1:{port}"), what="the listening socket")
    assert Web(port).ask("/healthz").status == 200


def test_take_over(web):
    client = web.client()
    old = web.take_over()
    wait_exit(old, LIMIT)
    wait_until(lambda: web.log.count(f"listening on 127.0.0.1:{web.web_port}") == 2,
               what="the socket of the new process")
    assert [row["user"] for row in Web(web.web_port).show("CLIENTS")] == ["alice"]
    assert client.value("SELECT 1") == "1"
    assert "Address already in use" not in web.log
