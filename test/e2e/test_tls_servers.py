# SPDX-License-Identifier: ISC
"""TLS for servers, and for clients and servers together."""

import hashlib
import ssl
import struct
import threading

import psycopg
import pytest

from .kit.fake import answer
from .kit.records import (ALERT, DATA, HANDSHAKE, KEY_UPDATE, SUITES, UNEXPECTED_MESSAGE,
                          Records)
from .kit.wait import wait_until
from .kit.wire import CANCEL_REQUEST, SSL_REQUEST, Refused, extended, query, special
from .test_tls import asked, tls_client, trusting

ENCRYPTED = "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


def through(pgweir, postgres, host="127.0.0.1", **settings):
    return pgweir(postgres=postgres, databases={"app": f"host={host} port={postgres.port}"},
                  **settings)


def ask(daemon, sql="SELECT 1"):
    with daemon.client() as client:
        return client.value(sql)


@pytest.mark.parametrize("mode, expected", (
    (None, "true"), ("disable", "false"), ("allow", "true"), ("prefer", "true"),
    ("require", "true")))
def test_modes_with_a_server_that_has_it(pgweir, secure_postgres, mode, expected):
    daemon = through(pgweir, secure_postgres, server_tls_sslmode=mode)
    assert ask(daemon, ENCRYPTED) == expected
    (row,) = [row for row in daemon.admin("SHOW SERVERS") if row["user"] == "alice"]
    assert bool(row["tls"]) == (expected == "true")
    if expected == "true":
        assert row["tls"].startswith("TLSv1.3/TLS_")
        daemon.wait_log("SSL established: TLSv1.3/TLS_")


@pytest.mark.parametrize("mode", ("allow", "prefer"))
def test_modes_with_a_server_that_has_none(pgweir, postgres, mode):
    assert ask(through(pgweir, postgres, server_tls_sslmode=mode)) == "1"


@pytest.mark.parametrize("mode", ("require", "verify-ca"))
def test_a_server_that_refuses(pgweir, postgres, ca, mode):
    daemon = through(pgweir, postgres, server_tls_sslmode=mode, server_tls_ca_file=ca.cert,
                     client_login_timeout=1)
    with pytest.raises(Refused):
        ask(daemon)
    daemon.wait_log("closing because: server refused SSL")


def test_the_authority_is_checked(pgweir, secure_postgres, ca, wrong_ca):
    daemon = through(pgweir, secure_postgres, server_tls_sslmode="verify-ca",
                     server_tls_ca_file=ca.cert)
    assert ask(daemon, ENCRYPTED) == "true"
    stranger = through(pgweir, secure_postgres, server_tls_sslmode="verify-ca",
                       server_tls_ca_file=wrong_ca.cert, client_login_timeout=1)
    with pytest.raises(Refused):
        ask(stranger)
    stranger.wait_log("closing because: certificate verify failed: ")


def test_the_host_is_checked(pgweir, secure_postgres, ca):
    right = through(pgweir, secure_postgres, host="localhost", server_tls_sslmode="verify-full",
                    server_tls_ca_file=ca.cert)
    assert ask(right, ENCRYPTED) == "true"
    wrong = through(pgweir, secure_postgres, host="127.0.0.1", server_tls_sslmode="verify-full",
                    server_tls_ca_file=ca.cert, client_login_timeout=1)
    with pytest.raises(Refused):
        ask(wrong)
    wrong.wait_log('closing because: its certificate is not that of host "127.0.0.1"')


def test_an_address_in_the_certificate(pgweir, private_postgres, ca, own):
    postgres = private_postgres(ssl="on", ssl_cert_file=own.cert, ssl_key_file=own.key)
    daemon = through(pgweir, postgres, host="127.0.0.1", server_tls_sslmode="verify-full",
                     server_tls_ca_file=ca.cert)
    assert ask(daemon, ENCRYPTED) == "true"


def test_our_certificate_is_shown(pgweir, secure_postgres, ca):
    ours = ca.issue("ours", "alice")
    daemon = through(pgweir, secure_postgres, server_tls_sslmode="require",
                     server_tls_cert_file=ours.cert, server_tls_key_file=ours.key)
    assert ask(daemon, "SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()") \
        == "/CN=alice"


def test_unix_sockets_stay_plain(pgweir, secure_postgres):
    daemon = pgweir(postgres=secure_postgres, server_tls_sslmode="verify-full",
                    databases={"app": f"host={secure_postgres.dir} port={secure_postgres.port}"})
    assert ask(daemon, ENCRYPTED) == "false"


def test_another_set_replaces_the_servers(pgweir, secure_postgres, ca):
    daemon = through(pgweir, secure_postgres, server_tls_sslmode="prefer", pool_mode="transaction")
    client = daemon.client()
    pid = client.query("SELECT pg_backend_pid()").rows
    daemon.admin("RELOAD")
    assert client.query("SELECT pg_backend_pid()").rows == pid
    daemon.reload(server_tls_sslmode="verify-ca", server_tls_ca_file=ca.cert)
    assert client.query("SELECT pg_backend_pid()").rows != pid
    daemon.reload(server_tls_sslmode="disable")
    assert client.query(ENCRYPTED).rows == [["false"]]


# -- hostile servers ------------------------------------------------------------------------------


def scripted(pgweir, fake, **settings):
    settings.setdefault("server_tls_sslmode", "prefer")
    return pgweir(databases={"app": f"host=127.0.0.1 port={fake.port}"}, client_login_timeout=20,
                  server_login_retry="0.1", **settings)


def request_of(server):
    assert server.take(8) == special(SSL_REQUEST)


def secure(server, certificate):
    """The scripted server accepts TLS: encrypted from here on."""
    request_of(server)
    server.send(b"S")
    server.sock = tls_server(certificate).wrap_socket(server.sock, server_side=True)


def test_plain_bytes_behind_the_answer(pgweir, fake_server):
    """CVE-2021-23222: a man in the middle inserts messages."""
    fake = fake_server()
    daemon = scripted(pgweir, fake)
    daemon.wire().startup()
    with fake.accept_raw() as server:
        request_of(server)
        server.send(b"S" + b"R\0\0\0\x08\0\0\0\0")
        server.wait_closed()
    daemon.wait_log("closing because: received unencrypted data after SSL response")


@pytest.mark.parametrize("answer, words", (
    (b"E\0\0\0\x0bSERROR\0\0", "received unencrypted data"), (b"?", "no answer to the SSL request"),
    (b"", "server closed the connection during login")))
def test_answers_that_make_no_sense(pgweir, fake_server, answer, words):
    fake = fake_server()
    daemon = scripted(pgweir, fake)
    daemon.wire().startup()
    with fake.accept_raw() as server:
        request_of(server)
        server.send(answer)
        if answer:
            server.wait_closed()
    daemon.wait_log(f"closing because: .*{words}")


def test_no_way_back_to_plain(pgweir, fake_server):
    """A failed handshake is not followed by an attempt without TLS."""
    fake = fake_server()
    daemon = scripted(pgweir, fake)
    daemon.wire().startup()
    for _ in range(2):
        with fake.accept_raw() as server:
            request_of(server)
            server.send(b"S")
            server.take(5)
            server.send(b"\x15\x03\x01\0\2\2\x28")
            server.wait_closed()
    daemon.wait_log("closing because: TLS handshake failed: ")


def test_a_server_that_hangs_in_the_handshake(pgweir, fake_server):
    fake = fake_server()
    daemon = scripted(pgweir, fake, server_connect_timeout="0.3")
    daemon.wire().startup()
    with fake.accept_raw() as server:
        request_of(server)
        server.send(b"S")
        server.wait_closed()
    daemon.wait_log("closing because: connect timeout")


# -- direct TLS and names -------------------------------------------------------------------------


def tls_server(certificate, alpn=("postgresql",)):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    if alpn:
        context.set_alpn_protocols(alpn)
    return context


def test_direct(pgweir, fake_server, server_certificate, ca):
    """A ClientHello with ALPN and the host name is sent at once."""
    fake, names = fake_server(), []
    daemon = pgweir(databases={"app": f"host=localhost port={fake.port}"},
                    server_tls_sslmode="verify-full", server_tls_ca_file=ca.cert,
                    server_tls_negotiation="direct")
    context = tls_server(server_certificate)
    context.sni_callback = lambda sock, name, ctx: names.append(name)
    client = daemon.wire().startup()
    with fake.accept_raw() as server:
        server.sock = context.wrap_socket(server.sock, server_side=True)
        assert server.sock.selected_alpn_protocol() == "postgresql"
        server.login()
        client.finish_login("alice")
        assert names == ["localhost"]


def test_direct_needs_alpn(pgweir, fake_server, server_certificate):
    fake = fake_server()
    daemon = scripted(pgweir, fake, server_tls_sslmode="require", server_tls_negotiation="direct")
    daemon.wire().startup()
    with fake.accept_raw() as server:
        server.sock = tls_server(server_certificate, None).wrap_socket(server.sock,
                                                                       server_side=True)
        server.wait_closed()
    daemon.wait_log("closing because: server did not agree on PostgreSQL's protocol")


def test_direct_from_pooler_to_pooler(pgweir, own, ca, secure_postgres):
    inner = through(pgweir, secure_postgres, client_tls_sslmode="require",
                    client_tls_cert_file=own.cert, client_tls_key_file=own.key)
    outer = pgweir(databases={"app": f"host=127.0.0.1 port={inner.port}"},
                   server_tls_sslmode="verify-full", server_tls_ca_file=ca.cert,
                   server_tls_negotiation="direct")
    assert ask(outer, ENCRYPTED) == "true"
    sleeper = outer.client()
    sleeper.send(query("SELECT pg_sleep(60)"))
    outer.wait_pool(sv_active=1)
    wait_until(lambda: secure_postgres.value(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%%'"))
    outer.wire().send(special(CANCEL_REQUEST, sleeper.key))
    assert any(got.type == "E" and got.fields["C"] == "57014" for got in sleeper.read_until("Z"))
    outer.stop()  # with open servers the inner one would wait for them


# -- records that the test makes, on each side ----------------------------------------------------


@pytest.fixture(params=("client", "server"))
def by_records(request, pgweir, fake_server, own):
    """(the daemon, a client, its server, and the end of one of them: the other one is plain)."""

    def start(suite):
        fake, is_server = fake_server(), request.param == "server"
        daemon = scripted(pgweir, fake, client_tls_sslmode="allow", client_tls_cert_file=own.cert,
                          client_tls_key_file=own.key, client_tls13_ciphers=suite,
                          server_tls13_ciphers=suite,
                          server_tls_sslmode="require" if is_server else "disable")
        client = daemon.wire() if is_server else asked(daemon)
        if not is_server:
            client.sock = Records(client.sock, trusting())
        client.startup()
        server = fake.accept_raw()
        if is_server:
            request_of(server)
            server.send(b"S")
            server.sock = Records(server.sock, tls_server(own), is_server=True)
        server.login()
        client.finish_login("alice")
        return daemon, client, server, (server if is_server else client).sock

    return start


@pytest.mark.parametrize("suite", SUITES)
def test_key_updates_cut_by_records(by_records, suite):
    """All the ways to cut one, in the midst of a message; half of them ask for ours."""
    _, client, server, records = by_records(suite)

    def say(end, data, update):
        if end.sock is records:
            records.sock.sendall(records.seal(DATA, data[:7]) + update() + records.seal(DATA, data[7:]))
        else:
            end.send(data)

    for number in range(16):
        cuts = [cut + 1 for cut in range(4) if number >> cut & 1]

        def update(cuts=cuts, asks=bool(number % 2)):
            return records.key_update(asks, cuts)

        say(client, query(f"SELECT {number}"), update)
        assert server.expect("Q").body == b"SELECT %d\0" % number
        say(server, answer(str(number)), update)
        assert client.read_result().rows == [[str(number)]]
    client.send(query("SELECT"))  # what comes behind the last one that was asked for
    server.expect("Q")
    server.send(answer("done"))
    assert client.read_result().rows == [["done"]]
    assert records.updates == 8


@pytest.mark.parametrize("kind, content", ((DATA, b"Q"), (DATA, b""), (ALERT, b"\1\x5a"),
                                           (HANDSHAKE, KEY_UPDATE[2:] + b"\1" + KEY_UPDATE)))
def test_nothing_within_a_key_update(by_records, kind, content):
    daemon, _, _, records = by_records("TLS_AES_128_GCM_SHA256")
    records.sock.sendall(records.seal(HANDSHAKE, KEY_UPDATE[:2]) + records.seal(kind, content))
    assert records.recv(1) == b""
    assert records.alert == UNEXPECTED_MESSAGE
    daemon.wait_log("closing because: invalid TLS record or fatal alert")


def test_more_key_updates_than_data(by_records):
    """Each of them asks for one of ours."""
    daemon, _, _, records = by_records("TLS_AES_256_GCM_SHA384")
    records.sock.sendall(b"".join(records.key_update(True, (2,)) for _ in range(1000)))
    while records.recv(65536):
        pass
    assert 32 <= records.updates < 200
    daemon.wait_log("closing because: too many TLS key updates")


# -- clients and servers with TLS -----------------------------------------------------------------


@pytest.fixture
def both(pgweir, own, ca, secure_postgres):
    def start(**settings):
        daemon = through(pgweir, secure_postgres, host="localhost", client_tls_sslmode="require",
                         client_tls_cert_file=own.cert, client_tls_key_file=own.key,
                         server_tls_sslmode="verify-full", server_tls_ca_file=ca.cert, **settings)
        daemon.console_address = daemon.socket_path
        return daemon

    return start


def connect(daemon, ca, **kw):
    return daemon.connect(sslmode="verify-full", sslrootcert=ca.cert, **kw)


ROWS = 60000


@pytest.mark.parametrize("protocols", ("tlsv1.2", "tlsv1.3"))
def test_much_data_both_ways(both, ca, protocols):
    daemon = both(client_tls_protocols=protocols, server_tls_protocols=protocols)
    with connect(daemon, ca) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE much (id int, text text)")
        digest = hashlib.sha256()
        with cursor.copy("COPY much FROM STDIN") as copy:
            for n in range(ROWS):
                line = f"{n}\t{'x' * (n % 200)}\n".encode()
                digest.update(line)
                copy.write(line)
        back = hashlib.sha256()
        with cursor.copy("COPY (SELECT * FROM much ORDER BY id) TO STDOUT") as copy:
            for data in copy:
                back.update(data)
        assert back.digest() == digest.digest()
        (text,) = cursor.execute("SELECT repeat('0123456789', 1000000)").fetchone()
        assert text == "0123456789" * 1000000


def test_a_slow_reader(both):
    """Data that does not fit waits encrypted, and none of it is lost or duplicated."""
    daemon = both()
    wire = tls_client(daemon)
    wire.send(query("SELECT n, repeat('y', 1000) FROM generate_series(1, 20000) n"))
    daemon.wait_pool(sv_active=1)
    wait_until(lambda: any(row["send_avail"] for row in daemon.admin("SHOW SOCKETS")))
    rows = [got.row[0] for got in wire.read_until("Z") if got.type == "D"]
    assert rows == [str(n) for n in range(1, 20001)]


def test_pipelines(both):
    daemon = both(pool_mode="transaction")
    wire = tls_client(daemon)
    wire.send(*(extended("SELECT $1::text", (f"value {n}",)) for n in range(500)))
    for n in range(500):
        rows = [got.row for got in wire.read_until("Z") if got.type == "D"]
        assert rows == [[f"value {n}"]]


def test_many_clients_share_encrypted_servers(both, ca):
    daemon = both(pool_mode="transaction", default_pool_size=3)
    failures = []

    def work(number):
        try:
            with psycopg.connect(host="127.0.0.1", port=daemon.port, dbname="app", user="alice",
                                 sslmode="require", autocommit=True, connect_timeout=30,
                                 prepare_threshold=None) as connection:
                for n in range(20):
                    assert connection.execute(
                        "SELECT %s::int", (number * 100 + n,)).fetchone() == (number * 100 + n,)
        except Exception as failure:  # noqa: BLE001: reported by the thread of the test
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def test_a_cancel_request_goes_encrypted_to_the_server(pgweir, fake_server, server_certificate):
    fake = fake_server()
    daemon = scripted(pgweir, fake, server_tls_sslmode="require")
    client = daemon.wire().startup()
    with fake.accept_raw() as server:
        secure(server, server_certificate)
        server.login()
        client.finish_login("alice")
        client.send(query("SELECT work"))
        server.expect("Q")
        daemon.wire().send(special(CANCEL_REQUEST, client.key))
        with fake.accept_raw() as other:
            secure(other, server_certificate)
            length, code = struct.unpack("!II", other.take(8))
            assert (length, code) == (16, CANCEL_REQUEST)
            assert len(other.take(8)) == 8


def test_a_cancel_request_never_goes_plain_where_the_server_is_encrypted(pgweir, fake_server,
                                                                         server_certificate):
    fake = fake_server()
    daemon = scripted(pgweir, fake)
    client = daemon.wire().startup()
    with fake.accept_raw() as server:
        secure(server, server_certificate)
        server.login()
        client.finish_login("alice")
        client.send(query("SELECT work"))
        server.expect("Q")
        daemon.wire().send(special(CANCEL_REQUEST, client.key))
        with fake.accept_raw() as other:
            request_of(other)
            other.send(b"N")
            other.wait_closed()
    daemon.wait_log("failed cancel request: server refused SSL")


def test_psql_through_both(both, ca, account, secure_postgres):
    daemon = both()
    for mode in ("prefer", "require", "verify-ca", "verify-full"):
        done = account.run(
            [f"{secure_postgres.bin}/psql", "-XAtc", ENCRYPTED,
             f"host=127.0.0.1 port={daemon.port} dbname=app user=alice sslmode={mode}"
             f" sslrootcert={ca.cert}"], cwd="/", env={"HOME": daemon.dir})
        assert done.stdout.strip() == "true", done.stdout
