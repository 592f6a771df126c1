# SPDX-License-Identifier: ISC
"""SCRAM-SHA-256-PLUS: logins with channel binding, for clients and for servers."""

import base64
import struct

import psycopg
import pytest

from .kit.wire import cstr, message
from .test_tls import asked, encrypt, weir
from .test_tls_servers import secure, through


def sasl_initial(mechanism, data):
    return message("p", cstr(mechanism) + struct.pack("!I", len(data)) + data)


def offered(wire):
    got = wire.read()
    assert got.type == "R" and got.body[:4] == b"\0\0\0\x0a"
    return got.body[4:].rstrip(b"\0").split(b"\0")


@pytest.fixture
def scram_weir(weir):
    return weir("prefer", auth_type="scram-sha-256")


def test_libpq_requires_it(scram_weir, ca):
    with scram_weir.connect(user="scram_user", password="scram secret", sslmode="verify-ca",
                            sslrootcert=ca.cert, channel_binding="require") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("key", ("rsa", "ec"))
def test_with_each_kind_of_certificate(weir, ca, key):
    shown = ca.issue(f"binding_{key}", "pooler.example", key=key)
    daemon = weir("require", auth_type="scram-sha-256", client_tls_cert_file=shown.cert,
                  client_tls_key_file=shown.key)
    with daemon.connect(user="scram_user", password="scram secret", sslmode="require",
                        channel_binding="require") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError, match="SASL authentication failed"):
        daemon.connect(user="scram_user", password="wrong", sslmode="require",
                       channel_binding="require")


def test_it_is_offered_under_tls_only(scram_weir):
    plain = scram_weir.wire().startup("scram_user")
    assert offered(plain) == [b"SCRAM-SHA-256"]
    encrypted = encrypt(asked(scram_weir)).startup("scram_user")
    assert offered(encrypted) == [b"SCRAM-SHA-256-PLUS", b"SCRAM-SHA-256"]


REFUSED = {
    "offer was taken away": ("SCRAM-SHA-256", b"y,,n=,r=abcdefgh"),
    "binding in the plain mechanism": ("SCRAM-SHA-256", b"p=tls-server-end-point,,n=,r=abcdefgh"),
    "no binding in PLUS": ("SCRAM-SHA-256-PLUS", b"n,,n=,r=abcdefgh"),
    "another type": ("SCRAM-SHA-256-PLUS", b"p=tls-unique,,n=,r=abcdefgh"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(scram_weir, name):
    wire = encrypt(asked(scram_weir)).startup("scram_user")
    offered(wire)
    wire.send(sasl_initial(*REFUSED[name]))
    assert wire.read_to_end()[-1].fields["M"] == "SASL authentication failed"


def test_plus_without_tls_is_no_mechanism(scram_weir):
    wire = scram_weir.wire().startup("scram_user")
    offered(wire)
    wire.send(sasl_initial("SCRAM-SHA-256-PLUS", b"p=tls-server-end-point,,n=,r=abcdefgh"))
    assert "invalid SASL authentication mechanism" in wire.read_to_end()[-1].fields["M"]


def test_a_certificate_of_somebody_in_the_middle(scram_weir):
    """Valid channel binding data for another certificate."""
    wire = encrypt(asked(scram_weir)).startup("scram_user")
    offered(wire)
    head = b"p=tls-server-end-point,,"
    wire.send(sasl_initial("SCRAM-SHA-256-PLUS", head + b"n=,r=abcdefgh"))
    challenge = wire.read().body[4:].decode()
    nonce = challenge.split(",")[0]
    binding = base64.b64encode(head + b"\1" * 32).decode()
    proof = base64.b64encode(b"\0" * 32).decode()
    wire.send(message("p", f"c={binding},{nonce},p={proof}".encode()))
    assert wire.read_to_end()[-1].fields["M"] == "SASL authentication failed"
    scram_weir.wait_log("login refused, scram-sha-256: SCRAM channel binding check failed")


@pytest.fixture
def answer_to(pgweir, fake_server, server_certificate):
    """pgweir's response to a TLS server that offers these mechanisms: the mechanism, and its data.
    """

    def offer(*mechanisms):
        fake = fake_server()
        daemon = pgweir(databases={"app": f"host=127.0.0.1 port={fake.port}"},
                        server_tls_sslmode="require")
        daemon.wire().startup("scram_user")
        with fake.accept_raw() as server:
            secure(server, server_certificate)
            server.read_startup()
            server.send(message("R", b"\0\0\0\x0a" + b"".join(map(cstr, mechanisms)) + b"\0"))
            chosen, data = server.expect("p").body.split(b"\0", 1)
            return chosen, data[4:]  # after its length

    return offer


def test_plus_is_used_to_servers(answer_to):
    chosen, data = answer_to("SCRAM-SHA-256-PLUS", "SCRAM-SHA-256")
    assert chosen == b"SCRAM-SHA-256-PLUS"
    assert data.startswith(b"p=tls-server-end-point,,")


def test_a_server_that_does_not_offer_it_hears_that_we_could(answer_to):
    """So that a server whose offer was removed by an attacker can notice."""
    chosen, data = answer_to("SCRAM-SHA-256")
    assert chosen == b"SCRAM-SHA-256"
    assert data.startswith(b"y,,")


def test_pass_through_on_both_legs(pgweir, own, secure_postgres):
    """With PostgreSQL's SCRAM secret in auth_file, only the client has the password."""
    daemon = through(pgweir, secure_postgres, auth_type="scram-sha-256",
                     userlist={"scram_user": secure_postgres.secret("scram_user"),
                               "admin": "admin secret"},
                     client_tls_sslmode="require", client_tls_cert_file=own.cert,
                     client_tls_key_file=own.key, server_tls_sslmode="require")
    with daemon.connect(user="scram_user", password="scram secret", sslmode="require",
                        channel_binding="require") as connection:
        assert connection.execute("SELECT ssl::text FROM pg_stat_ssl "
                                  "WHERE pid = pg_backend_pid()").fetchone() == ("true",)
