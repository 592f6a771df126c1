# SPDX-License-Identifier: ISC
"""PROXY headers: which proxies are trusted, what is shown of the client, and attacks.

The address of this machine, 127.0.0.1, is used as the address of the proxy.
"""

import os
import shutil
import socket
import ssl
import struct

import psycopg
import pytest

from .kit.account import free_port
from .kit.wait import LIMIT, wait_until
from .kit.wire import CANCEL_REQUEST, GSSENC_REQUEST, SSL_REQUEST, query, special, startup

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
FAR, FAR6 = "192.0.2.7", "2001:db8::7"
UNTRUSTED = "a PROXY header from an address that is not in proxy_protocol_from"
MISSING = "no PROXY header, and proxy_protocol = require"


def v1(source=FAR, port=56324):
    kind, target = ("TCP6", "::1") if ":" in source else ("TCP4", "192.0.2.1")
    return f"PROXY {kind} {source} {target} {port} 6432\r\n".encode()


def v2(source=FAR, port=56324, extensions=b"", command=0x21):
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    host = socket.inet_pton(family, source)
    body = host + bytes(len(host)) + struct.pack("!HH", port, 6432) + extensions
    code = 0x21 if ":" in source else 0x11
    return SIGNATURE + struct.pack("!BBH", command, code, len(body)) + body


LOCAL = SIGNATURE + b"\x20\0\0\0"
UNSPECIFIED = SIGNATURE + b"\x21\0\0\0"
UNIX = SIGNATURE + b"\x21\x31\0\xd8" + bytes(216)


@pytest.fixture
def weir(pgweir):
    """Starts a daemon that trusts this machine."""

    def start(mode="accept", trusted="127.0.0.1", **settings):
        daemon = pgweir(proxy_protocol=mode, proxy_protocol_from=trusted, **settings)
        daemon.console_address = daemon.socket_path
        return daemon

    return start


def through(weir, header, unix=False, **login):
    """A client that has logged in through a proxy."""
    wire = weir.wire(unix)
    wire.send(header)
    return wire.login(**login)


def refused(weir, header, unix=False):
    wire = weir.wire(unix)
    wire.send(header, startup(user="alice", database="app"))
    got = wire.read_refusal()
    return got.sqlstate, got.text


def seen(weir, user="alice"):
    return [(row["addr"], row["port"]) for row in weir.admin("SHOW CLIENTS") if row["user"] == user]


# -- what is shown of the client ------------------------------------------------------------------


@pytest.mark.parametrize("header, addr", ((v1(), FAR), (v1(FAR6), FAR6), (v2(), FAR),
                                          (v2(FAR6), FAR6), (v2(extensions=b"\4\0\1x"), FAR)))
@pytest.mark.parametrize("mode", ("accept", "require"))
def test_the_client_behind_is_seen(weir, mode, header, addr):
    daemon = weir(mode, application_name_add_host=1)
    client = through(daemon, header, application_name="x")
    where = f"[{addr}]:56324" if ":" in addr else f"{addr}:56324"
    assert seen(daemon) == [(addr, 56324)]
    assert client.value("SHOW application_name") == f"x - {where}"
    daemon.wait_log(rf"app/alice@{where.replace('[', '.').replace(']', '.')} login attempt")


@pytest.mark.parametrize("header", (b"PROXY UNKNOWN\r\n", LOCAL, UNSPECIFIED, UNIX))
def test_who_is_not_named_has_the_proxys_address(weir, header):
    daemon = weir("require")
    through(daemon, header)
    assert [addr for addr, _ in seen(daemon)] == ["127.0.0.1"]


def test_header_in_pieces_and_with_the_startup(weir):
    daemon = weir("require")
    first, second = daemon.wire(), daemon.wire()
    first.send_slowly(v2() + startup(user="alice", database="app"))
    assert first.finish_login("alice").value("SELECT 1") == "1"
    second.send_slowly(v1(FAR6) + startup(user="alice", database="app"))
    assert second.finish_login("alice").value("SELECT 1") == "1"
    assert sorted(seen(daemon)) == [(FAR, 56324), (FAR6, 56324)]


def test_rules_look_at_the_client_behind(make_pgweir):
    daemon = make_pgweir()
    rules = daemon.account.write(f"{daemon.dir}/hba.conf", "host all all 192.0.2.0/24 trust\n"
                                 "local all all trust\nhost all all 127.0.0.1/32 reject\n")
    daemon.configure(auth_type="hba", auth_hba_file=rules, proxy_protocol="accept",
                     proxy_protocol_from="127.0.0.0/8").start()
    assert through(daemon, v2()).value("SELECT 1") == "1"
    state, text = refused(daemon, v2("198.51.100.1"))
    assert state == "28000" and 'host "198.51.100.1"' in text
    state, text = refused(daemon, b"")
    assert state == "28000" and "an HBA rule rejects" in text


def test_cancel_behind_a_proxy(weir):
    daemon = weir("require")
    client = through(daemon, v1())
    client.send(query("SELECT pg_sleep(60)"))
    wait_until(lambda: daemon.postgres.query(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))
    wire = daemon.wire()
    wire.send(v1(), special(CANCEL_REQUEST, client.key))
    assert wire.read_to_end() == []
    assert client.read_result().error["C"] == "57014"


# -- trusted proxies ------------------------------------------------------------------------------


def test_no_header_is_fine_where_it_is_not_required(weir):
    daemon = weir("accept")
    daemon.client().query("SELECT 1")
    assert [addr for addr, _ in seen(daemon)] == ["127.0.0.1"]


def test_required_of_proxies_only(weir):
    daemon = weir("require")
    assert refused(daemon, b"") == ("28000", MISSING)
    daemon.reload(proxy_protocol_from="192.0.2.0/24")
    assert daemon.client().value("SELECT 1") == "1"


@pytest.mark.parametrize("header", (v1(), v2(), LOCAL))
@pytest.mark.parametrize("mode", ("accept", "require"))
def test_strangers_are_not_believed(weir, mode, header):
    daemon = weir(mode, trusted="192.0.2.0/24, ::1, unix")
    assert refused(daemon, header) == ("28000", UNTRUSTED)
    daemon.wait_log(f"pooler error: {UNTRUSTED}")


def test_off(weir):
    daemon = weir("off")
    assert refused(daemon, v1()) == ("08P01", f"bad packet header: '{v1()[:16].hex()}'")


def test_unix_sockets_only_by_name(weir):
    daemon = weir("accept", trusted="0.0.0.0/0, ::/0")
    assert refused(daemon, v1(), unix=True) == ("28000", UNTRUSTED)
    daemon.reload(proxy_protocol_from="unix")
    through(daemon, v1(), unix=True)
    assert seen(daemon) == [(FAR, 56324)]


def test_a_proxys_system_user_is_not_the_clients(make_pgweir):
    """The daemon's system user is an administrator by the Unix socket; clients of its proxy are
    not.
    """
    daemon = make_pgweir(proxy_protocol="accept", proxy_protocol_from="unix").start()
    child = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.sendall(bytes.fromhex(sys.argv[2]))
while True:
    got = sock.recv(65536)
    sys.stdout.buffer.write(got)
    if not got or got[-6:] == b"Z\\0\\0\\0\\x05I":
        break
"""

    def ask(header):
        text = header + startup(user="pgbouncer", database="pgbouncer")
        return daemon.account.run(["/usr/bin/python3", "-c", child, daemon.socket_path,
                                   text.hex()], errors="replace").stdout

    assert "not allowed" not in ask(b"") and "not allowed" not in ask(LOCAL)
    for header in (v1("127.0.0.1"), b"PROXY UNKNOWN\r\n", UNSPECIFIED, UNIX):
        assert "not allowed" in ask(header)


# -- attacks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", (v1("198.51.100.1"), v2("198.51.100.1"), LOCAL))
@pytest.mark.parametrize("first", (v1(), v2(), LOCAL))
def test_one_header_only(weir, first, second):
    state, text = refused(weir("require"), first + second)
    assert state == "08P01" and text.startswith("bad packet header: ")


def test_no_header_behind_other_packets(weir):
    daemon = weir("accept")
    wire = daemon.wire()
    wire.send(special(SSL_REQUEST))
    assert wire.take(1) == b"N"
    wire.send(v1(), startup(user="alice", database="app"))
    assert wire.read_refusal().text.startswith("bad packet header: ")


@pytest.mark.parametrize("code, what", ((SSL_REQUEST, "SSL"), (GSSENC_REQUEST, "GSSAPI encryption")))
def test_plain_bytes_behind_header_and_request(weir, own, code, what):
    daemon = weir("accept", client_tls_sslmode="prefer", client_tls_cert_file=own.cert,
                  client_tls_key_file=own.key)
    wire = daemon.wire()
    wire.send(v2(), special(code), startup(user="alice", database="app"))
    got = wire.read_refusal()
    assert got.text == f"received unencrypted data after {what} request"
    daemon.wait_log("closing because: ")
    assert "login attempt" not in daemon.log


@pytest.mark.parametrize("header, words", (
    (v1().replace(b"TCP4", b"UDP4"), "a protocol that is not TCP4, TCP6 or UNKNOWN"),
    (b"PROXY UNKNOWN " + b"x" * 100, "the line has no end"),
    (b"PROXY TCP4 192.0.2.7\0 1 1 1\r\n", "a byte that is no text"),
    (v1("192.0.2.7.8"), "addresses or ports that are none"),
    (v2(extensions=b"\3\0\4\0\0\0\0"), "the checksum is wrong"),
    (v2(extensions=b"\4\xff\xff"), "an extension that is longer than the header"),
    (SIGNATURE + b"\x31", "unknown version or command"),
    (SIGNATURE + b"\x21\x12", "unknown address family"),
    (SIGNATURE + b"\x21\x11\0\0", "it is too short for its addresses"),
))
def test_broken_headers(weir, header, words):
    daemon = weir("accept")
    assert refused(daemon, header) == ("08P01", f"bad PROXY header: {words}")
    daemon.wait_log("closing because: ")
    assert "login attempt" not in daemon.log


def test_half_a_header_has_the_time_of_a_login(weir):
    daemon = weir("require", client_login_timeout=1)
    wire = daemon.wire()
    wire.send(v2()[:20])
    assert wire.read_refusal().text == "client_login_timeout"


# -- with TLS -------------------------------------------------------------------------------------


def trusting():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["postgresql"])
    return context


@pytest.mark.parametrize("is_direct", (False, True))
@pytest.mark.parametrize("unix", (False, True))
def test_header_before_tls(weir, own, is_direct, unix):
    daemon = weir("require", trusted="127.0.0.1 unix", client_tls_sslmode="require",
                  client_tls_cert_file=own.cert, client_tls_key_file=own.key,
                  admin_users="admin, alice")
    wire = daemon.wire(unix)
    wire.send(v2(FAR6))
    if not is_direct:
        wire.send(special(SSL_REQUEST))
        assert wire.take(1) == b"S"
    wire.sock = trusting().wrap_socket(wire.sock)
    assert wire.login().value("SELECT 1") == "1"
    wire = daemon.wire()
    wire.send(v1(), special(SSL_REQUEST))
    assert wire.take(1) == b"S"
    wire.sock = trusting().wrap_socket(wire.sock)
    wire.login(database="pgbouncer")
    rows = {(row["addr"], bool(row["tls"])) for row in wire.query("SHOW CLIENTS").dicts()}
    assert rows == {(FAR6, True), (FAR, True)}


def test_no_header_within_tls(weir, own):
    daemon = weir("accept", client_tls_sslmode="require", client_tls_cert_file=own.cert,
                  client_tls_key_file=own.key)
    wire = daemon.wire()
    wire.send(special(SSL_REQUEST))
    assert wire.take(1) == b"S"
    wire.sock = trusting().wrap_socket(wire.sock)
    wire.send(v1(), startup(user="alice", database="app"))
    assert wire.read_refusal().text.startswith("bad packet header: ")


# -- a real proxy ---------------------------------------------------------------------------------

HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"


@pytest.mark.skipif(not os.path.exists(HAPROXY), reason="there is no haproxy")
@pytest.mark.parametrize("how", ("send-proxy", "send-proxy-v2",
                                 "send-proxy-v2 proxy-v2-options crc32c,unique-id"))
def test_haproxy(weir, account, how):
    daemon, port = weir("require"), free_port()
    path = account.write(f"{daemon.dir}/haproxy.cfg", f"""
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend front
    bind 127.0.0.1:{port}
    unique-id-format %pid
    default_backend back
backend back
    server weir 127.0.0.1:{daemon.port} {how} check check-send-proxy
""")
    proxy = account.popen([HAPROXY, "-db", "-f", path])
    try:
        def is_up():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0
        wait_until(is_up)
        with psycopg.connect(host="127.0.0.1", port=port, user="alice", dbname="app") as connection:
            own = connection.pgconn.socket
            with socket.socket(fileno=os.dup(own)) as sock:
                where = sock.getsockname()
            assert connection.execute("SELECT 1").fetchone() == (1,)
            assert where in seen(daemon)
    finally:
        proxy.terminate()
        proxy.wait(LIMIT)


# -- the settings ---------------------------------------------------------------------------------


def test_settings_that_make_no_sense(make_pgweir):
    daemon = make_pgweir()

    def says(**settings):
        daemon.configure(**settings)
        done = daemon.run("--check", daemon.ini)
        return done.returncode and done.stderr

    assert "proxy_protocol needs proxy_protocol_from" in says(proxy_protocol="require")
    for bad in ("10.0.0.0/33", "10.0.0.1/8", "proxy.example", "*"):
        assert "proxy_protocol_from: " in says(proxy_protocol_from=bad)
    assert "maybe" in says(proxy_protocol="maybe", proxy_protocol_from="10.0.0.0/8")
    assert says(proxy_protocol="accept") == 0


def test_a_bad_list_keeps_the_old_one(weir):
    daemon = weir("require")
    daemon.configure(proxy_protocol_from="10.0.0.1/8")
    assert daemon.ask_admin("RELOAD").error
    daemon.wait_log("proxy_protocol_from: .* begins at 10.0.0.0")
    assert daemon.ask_admin("SET proxy_protocol_from = '10.0.0.1/8'").error
    assert through(daemon, v1()).value("SELECT 1") == "1"
    assert refused(daemon, b"") == ("28000", MISSING)
