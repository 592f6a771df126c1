# SPDX-License-Identifier: ISC
"""TLS for clients: certificates of clients and of pgweir, settings, reload."""

import socket
import ssl
import threading

import pytest

from .kit.records import ALERT, CLOSE_NOTIFY
from .kit.wait import LIMIT, wait_until
from .kit.wire import CANCEL_REQUEST, SSL_REQUEST, Refused, query, special, startup
from .test_tls import asked, client_hello, encrypt, record_client, tls_client, trusting, weir


# -- certificates of clients ----------------------------------------------------------------------


def shown(certificate, ca=None):
    context = trusting(ca)
    context.load_cert_chain(certificate.cert, certificate.key)
    return context


@pytest.mark.parametrize("mode", ("verify-ca", "verify-full"))
def test_a_certificate_is_asked_for(weir, ca, mode):
    daemon = weir(mode, client_tls_ca_file=ca.cert)
    alice = ca.issue("alice", "alice")
    assert tls_client(daemon, shown(alice)).query("SELECT 1").rows == [["1"]]
    assert refusal(daemon, trusting()) == "certificate_required"


def refusal(daemon, context):
    """The TLS alert for a refused client."""
    wire = asked(daemon)
    with pytest.raises((ssl.SSLError, ConnectionError)) as refused:
        encrypt(wire, context)
        wire.sock.recv(1)
    return (refused.value.reason or "").lower().split("alert_")[-1]


def test_bad_certificates(weir, ca, wrong_ca):
    daemon = weir("verify-ca", client_tls_ca_file=ca.cert)
    stranger = wrong_ca.issue("stranger", "alice")
    expired = ca.issue("expired", "alice", days=(-30, -1))
    not_yet = ca.issue("not_yet", "alice", days=(1, 30))
    assert "unknown_ca" in refusal(daemon, shown(stranger))
    assert "expired" in refusal(daemon, shown(expired))
    refusal(daemon, shown(not_yet))
    daemon.wait_log("certificate verify failed: certificate has expired")
    daemon.wait_log("certificate verify failed: certificate is not yet valid")


@pytest.mark.parametrize("mode", ("prefer", "require"))
def test_a_certificate_that_is_shown_unasked_for_must_be_good(weir, ca, wrong_ca, mode):
    daemon = weir(mode, client_tls_ca_file=ca.cert)
    assert tls_client(daemon).query("SELECT 1").rows == [["1"]]
    assert tls_client(daemon, shown(ca.issue("bob", "bob"))).query("SELECT 1").rows == [["1"]]
    assert "unknown_ca" in refusal(daemon, shown(wrong_ca.issue("stranger", "alice")))


def test_a_chain_of_a_client(weir, ca):
    between = ca.authority("between_clients", "Between")
    daemon = weir("verify-ca", client_tls_ca_file=ca.cert)
    assert tls_client(daemon, shown(between.issue("deep", "alice"))).query("SELECT 1").rows


# -- invalid files and values ---------------------------------------------------------------------


def complaint(make_pgweir, own, **settings):
    settings.setdefault("client_tls_sslmode", "require")
    settings.setdefault("client_tls_cert_file", own.cert)
    settings.setdefault("client_tls_key_file", own.key)
    daemon = make_pgweir(**settings)
    done = daemon.run("--check", daemon.ini)
    assert done.returncode == 1, done.stdout
    return done.stderr + done.stdout


def test_what_is_said_of_bad_files(make_pgweir, own, ca, store):
    nothing = store.write("nothing", b"nothing at all\n")
    other = ca.issue("other", "other")
    half = store.write("half.crt", open(own.cert, "rb").read()[:300])

    def says(**settings):
        return complaint(make_pgweir, own, **settings)

    assert "client_tls_cert_file and client_tls_key_file must be set" in says(
        client_tls_cert_file="", client_tls_key_file="")
    assert "client_tls_cert_file: cannot read /nowhere: No such file" in says(
        client_tls_cert_file="/nowhere")
    assert f"client_tls_cert_file: no good certificate in {nothing}" in says(
        client_tls_cert_file=nothing)
    assert f"client_tls_cert_file: no good certificate in {half}" in says(client_tls_cert_file=half)
    assert f"{other.key}, or not the one of {own.cert}: " in says(client_tls_key_file=other.key)
    assert f"client_tls_key_file: the key in {own.encrypted_key()} is encrypted" in says(
        client_tls_key_file=own.encrypted_key())
    assert "client_tls_ca_file: cannot read /nowhere" in says(client_tls_ca_file="/nowhere")
    assert f"client_tls_ca_file: no good certificates in {nothing}" in says(
        client_tls_ca_file=nothing)
    assert "server_tls_ca_file: cannot read /nowhere" in says(server_tls_ca_file="/nowhere",
                                                              server_tls_sslmode="verify-ca")
    assert "server_tls_cert_file and server_tls_key_file must be set" in says(
        server_tls_cert_file=own.cert)


def test_what_is_said_of_bad_words(make_pgweir, own):
    def says(**settings):
        return complaint(make_pgweir, own, **settings)

    assert 'client_tls_protocols: "legacy" is not one of' in says(client_tls_protocols="legacy")
    assert "nothing is left of" in says(client_tls_protocols="tlsv1.2,!tlsv1.2")
    assert "client_tls_ciphers: \"nonsense\": no cipher match" in says(
        client_tls_ciphers="nonsense")
    assert "client_tls13_ciphers" in says(client_tls13_ciphers="nonsense")
    assert "client_tls_ecdhcurve" in says(client_tls_ecdhcurve="nonsense")
    assert "client_tls_dheparams" in says(client_tls_dheparams="nonsense")
    assert "verify-full needs client_tls_ca_file" in says(client_tls_sslmode="verify-full")
    assert "disable, allow, prefer, require, verify-ca or verify-full" in says(
        client_tls_sslmode="on")
    assert "server_tls_negotiation = direct needs" in says(server_tls_negotiation="direct")


# -- versions and ciphers -------------------------------------------------------------------------


def version(daemon, **kw):
    context = trusting(**kw)
    context.set_ciphers("ALL:@SECLEVEL=0")
    wire = encrypt(asked(daemon), context)
    wire.login()
    said = wire.sock.version(), wire.sock.cipher()[0]
    wire.close()
    return said


V1_1, V1_2, V1_3 = ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def test_versions(weir):
    daemon = weir()
    assert version(daemon)[0] == "TLSv1.3"
    assert version(daemon, maximum_version=V1_2)[0] == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        version(daemon, maximum_version=V1_1, minimum_version=V1_1)


@pytest.mark.parametrize("words, good, bad", (
    ("tlsv1.2", V1_2, V1_3), ("tlsv1.3", V1_3, V1_2), ("all:!tlsv1.3", V1_2, V1_3),
    ("!tlsv1.2, !tlsv1.1 !tlsv1.0", V1_3, V1_2)))
def test_versions_by_setting(weir, words, good, bad):
    daemon = weir(client_tls_protocols=words)
    assert version(daemon, maximum_version=good, minimum_version=good)[0]
    with pytest.raises(ssl.SSLError):
        version(daemon, maximum_version=bad, minimum_version=bad)


def test_ciphers_by_setting(weir):
    daemon = weir(client_tls_ciphers="ECDHE-ECDSA-AES128-GCM-SHA256",
                  client_tls13_ciphers="TLS_CHACHA20_POLY1305_SHA256",
                  client_tls_ecdhcurve="secp384r1")
    assert version(daemon) == ("TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256")
    assert version(daemon, maximum_version=V1_2)[1] == "ECDHE-ECDSA-AES128-GCM-SHA256"
    tls_client(daemon)
    daemon.wait_log("tls=TLSv1.3/TLS_CHACHA20_POLY1305_SHA256/ECDH=secp384r1 ")


def test_sessions_are_resumed(weir):
    daemon = weir()
    for most in (V1_2, V1_3):
        context = trusting(maximum_version=most)
        wire = tls_client(daemon, context)
        wire.query("SELECT 1")
        session = wire.sock.session
        wire.close()
        again = encrypt(asked(daemon), context, session=session).login()
        assert again.sock.session_reused
        assert again.query("SELECT 1").rows == [["1"]]


def gets_ticket(daemon, context, session=None):
    """(whether it got a ticket, its session)"""
    wire = encrypt(asked(daemon), context, session=session).login()
    assert wire.sock.session_reused == (session is not None)
    session = wire.sock.session
    wire.close()
    return session.has_ticket, session


def test_tickets_are_spared_while_nobody_brings_one(weir):
    """The first 64 get one, then one of 16; a client that presents one always gets the next."""
    daemon, context = weir(), trusting(minimum_version=V1_3)
    kept = gets_ticket(daemon, context)[1]
    given = [gets_ticket(daemon, context)[0] for _ in range(99)]
    assert given == [number < 64 or number % 16 == 0 for number in range(1, 100)]
    is_given, kept = gets_ticket(daemon, context, kept)
    assert is_given
    assert gets_ticket(daemon, context)[0]
    assert gets_ticket(daemon, context, kept)[0]


# -- reload ---------------------------------------------------------------------------------------


def shown_by(daemon):
    wire = encrypt(asked(daemon))
    der = wire.sock.getpeercert(True)
    wire.close()
    return der


def test_a_new_certificate_by_reload(weir, store, ca):
    first, second = ca.issue("first", "first"), ca.issue("second", "second")
    cert = store.write("live.crt", open(first.cert, "rb").read())
    key = store.write("live.key", open(first.key, "rb").read())
    daemon = weir("require", client_tls_cert_file=cert, client_tls_key_file=key)
    living = tls_client(daemon)
    before = shown_by(daemon)
    store.write("live.crt", open(second.cert, "rb").read())

    with pytest.raises(Refused):
        daemon.admin("RELOAD")
    daemon.wait_log(f"client_tls_key_file: no good key in {key}, or not the one of {cert}: ")
    assert shown_by(daemon) == before

    store.write("live.key", open(second.key, "rb").read())
    daemon.admin("RELOAD")
    assert shown_by(daemon) not in (before, None)
    assert living.query("SELECT 1").rows == [["1"]]


def test_tls_is_switched_on_and_off_by_reload(pgweir, own):
    daemon = pgweir()
    plain = daemon.client()
    daemon.reload(client_tls_sslmode="prefer", client_tls_cert_file=own.cert,
                  client_tls_key_file=own.key)
    encrypted = tls_client(daemon)
    daemon.reload(client_tls_sslmode="disable")
    wire = daemon.wire()
    wire.send(special(SSL_REQUEST))
    assert wire.take(1) == b"N"
    for client in (plain, encrypted):
        assert client.query("SELECT 1").rows == [["1"]]


def test_a_handshake_during_a_reload(weir, ca):
    """A handshake that began with the old certificate completes with it."""
    daemon = weir("prefer")
    wire = asked(daemon)
    hello = client_hello()
    wire.send(hello[:100])
    other = ca.issue("newer", "newer")
    daemon.reload(client_tls_cert_file=other.cert, client_tls_key_file=other.key)
    wire.send(hello[100:])
    assert wire.take(1) == b"\x16"
    assert tls_client(daemon).query("SELECT 1").rows == [["1"]]


# -- bytes ----------------------------------------------------------------------------------------


def test_byte_by_byte(weir):
    """Each byte in its own packet, including the handshake."""
    daemon = weir()
    wire = asked(daemon)
    wire.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    engine = trusting().wrap_bio(incoming, outgoing)

    def pump(step):
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                done = None
            for byte in outgoing.read():
                wire.sock.sendall(bytes((byte,)))
            if done is not None:
                return done
            incoming.write(wire.sock.recv(65536))

    pump(lambda: engine.do_handshake() or True)
    pump(lambda: engine.write(startup(user="alice", database="app")))
    got = b""
    while not got.endswith(b"Z\0\0\0\5I"):
        got += pump(lambda: engine.read(65536))
    pump(lambda: engine.write(query("SELECT 'slow and whole'")))
    got = b""
    while not got.endswith(b"Z\0\0\0\5I"):
        got += pump(lambda: engine.read(65536))
    assert b"slow and whole" in got


def test_startup_in_the_same_flight_as_the_end_of_the_handshake(weir):
    """With TLS 1.3 a client may send at once, and everything arrives in one packet."""
    daemon = weir()
    wire = asked(daemon)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    engine = trusting().wrap_bio(incoming, outgoing)
    while True:
        try:
            engine.do_handshake()
            break
        except ssl.SSLWantReadError:
            wire.send(outgoing.read())
            incoming.write(wire.sock.recv(65536))
    engine.write(startup(user="alice", database="app"))
    engine.write(query("SELECT 'early'"))
    wire.send(outgoing.read())
    got = b""
    while b"early" not in got:
        incoming.write(wire.sock.recv(65536))
        try:
            while True:
                got += engine.read(65536)
        except ssl.SSLWantReadError:
            pass
    assert got.count(b"Z\0\0\0\5I") <= 2


def test_many_handshakes_at_once(weir):
    daemon = weir("require", max_client_conn=200)
    failures = []

    def come():
        try:
            with tls_client(daemon) as wire:
                assert wire.query("SELECT 7").rows == [["7"]]
        except Exception as failure:  # noqa: BLE001: reported by the thread of the test
            failures.append(failure)

    threads = [threading.Thread(target=come) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not failures


def test_a_cancel_request_under_tls(weir):
    daemon = weir("require")
    sleeper = tls_client(daemon)
    sleeper.send(query("SELECT pg_sleep(60)"))
    wait_until(lambda: daemon.postgres.value(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(60)%%'"))
    canceller = encrypt(asked(daemon))
    canceller.send(special(CANCEL_REQUEST, sleeper.key))
    canceller.wait_closed()
    assert any(got.type == "E" and got.fields["C"] == "57014" for got in sleeper.read_until("Z"))


@pytest.mark.parametrize("records", ("own", "openssl"))
def test_a_client_that_says_good_bye(weir, records):
    """close_notify ends a client like a closed socket, and is answered."""
    daemon = weir("require", tls_records=records)
    client = record_client(daemon)
    client.sock.sock.sendall(client.sock.seal(ALERT, b"\1\0"))
    client.wait_closed()
    assert client.sock.alert == CLOSE_NOTIFY
    daemon.wait_log("closing because: client unexpected eof")
