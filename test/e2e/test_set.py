# SPDX-License-Identifier: ISC
"""SET of settings that depend on each other: one by one, in an order that fits."""

import os

import pytest

from .kit.wait import wait_until
from .kit.wire import SSL_REQUEST, refusal, special
from .test_tls import tls_client
from .test_tls_files import shown, shown_by


def ask_tls(weir):
    wire = weir.wire()
    wire.send(special(SSL_REQUEST))
    answer = wire.take(1)
    wire.close()
    return answer


def value(weir, name):
    return {row["key"]: row["value"] for row in weir.admin("SHOW CONFIG")}[name]


def put(weir, name, text):
    """Runs SET, which is in force at once."""
    result = weir.ask_admin(f"SET {name} = '{text}'")
    assert not result.errors, [notice["M"] for notice in result.notices]
    assert result.tags == [f"SET {name}={text}"] and not result.notices
    assert value(weir, name) == text


def refused(weir, name, text, why):
    """Runs a SET that does not fit: the NOTICE and the log say why, and nothing has changed."""
    since, before = len(weir.log), value(weir, name)
    result = weir.ask_admin(f"SET {name} = '{text}'")
    assert result.errors and result.error["M"] == "SET failed"
    assert why in result.notices[0]["M"], result.notices
    weir.wait_log(f"SET {name} failed: ", since=since)
    assert value(weir, name) == before


@pytest.fixture
def secure(pgweir, own):
    def start(**settings):
        settings.setdefault("client_tls_sslmode", "prefer")
        return pgweir(client_tls_cert_file=own.cert, client_tls_key_file=own.key, **settings)

    return start


@pytest.mark.parametrize("word", ("cert", "key"))
def test_a_certificate_and_its_key(secure, ca, word):
    """One of them alone does not fit; both are changed by a RELOAD."""
    weir, other = secure(), ca.issue("successor", "successor")
    before = shown_by(weir)
    refused(weir, f"client_tls_{word}_file", getattr(other, word), "not the one of")
    assert shown_by(weir) == before
    weir.configure(client_tls_cert_file=other.cert, client_tls_key_file=other.key)
    weir.admin("RELOAD")
    assert shown_by(weir) not in (before, None)


def test_tls_is_switched_on_one_by_one(pgweir, own):
    weir = pgweir()
    refused(weir, "client_tls_sslmode", "prefer", "must be set")
    put(weir, "client_tls_key_file", own.key)
    put(weir, "client_tls_cert_file", own.cert)
    assert ask_tls(weir) == b"N"
    put(weir, "client_tls_sslmode", "prefer")
    assert ask_tls(weir) == b"S"


def test_certificates_of_clients(secure, ca):
    weir = secure()
    refused(weir, "auth_type", "cert", "needs client_tls_sslmode = verify-full")
    refused(weir, "client_tls_sslmode", "verify-full", "needs client_tls_ca_file")
    put(weir, "client_tls_ca_file", ca.cert)
    put(weir, "client_tls_sslmode", "verify-full")
    put(weir, "auth_type", "cert")
    assert ask_tls(weir) == b"S"
    assert refusal(weir.address, "bob").text == "SSL required"


def test_what_others_need_stays(secure, ca):
    weir = secure(client_tls_sslmode="verify-full", client_tls_ca_file=ca.cert, auth_type="cert")
    weir._console = tls_client(weir, shown(ca.issue("console", "admin")), "admin", "pgbouncer")
    refused(weir, "client_tls_sslmode", "prefer", "auth_type = cert needs")
    assert refusal(weir.address, "bob").text == "SSL required"
    put(weir, "auth_type", "trust")
    put(weir, "client_tls_sslmode", "prefer")
    assert weir.client("bob").query("SELECT 1").rows


def test_rules_and_their_files(pgweir):
    weir = pgweir()
    weir.account.write(f"{weir.dir}/hba.conf", "host all alice all trust\n"
                       "local all all peer map=m\nlocal all all trust\nhost all admin all trust\n")
    weir.account.write(f"{weir.dir}/ident.conf", "m nobody nobody\n")
    refused(weir, "auth_type", "hba", "needs auth_hba_file")
    put(weir, "auth_hba_file", f"{weir.dir}/hba.conf")
    refused(weir, "auth_type", "hba", "there is no map m")
    assert weir.client("bob").query("SELECT 1").rows
    put(weir, "auth_ident_file", f"{weir.dir}/ident.conf")
    put(weir, "auth_type", "hba")
    assert "no authentication method" in refusal(weir.address, "bob").text
    assert weir.client().query("SELECT 1").rows


def test_a_list_of_users_that_cannot_be_read(pgweir):
    weir = pgweir(databases={"app": "user=alice"})
    put(weir, "auth_type", "any")
    put(weir, "auth_file", "/nowhere")  # which any does not read
    refused(weir, "auth_type", "trust", "auth_file: cannot open /nowhere")
    assert weir.client("anybody").query("SELECT 1").rows
    put(weir, "auth_file", weir.userlist)
    put(weir, "auth_type", "trust")
    assert refusal(weir.address, "anybody").sqlstate == "28000"


@pytest.mark.parametrize("first, second, why", (
    (("proxy_protocol", "require"), ("proxy_protocol_from", "10.0.0.0/8"), "needs"),
    (("server_tls_negotiation", "direct"), ("server_tls_sslmode", "require"), "needs a server_tls"),
))
def test_further_pairs(pgweir, first, second, why):
    weir = pgweir()
    refused(weir, *first, why)
    assert weir.client().query("SELECT 1").rows
    put(weir, *second)
    weir.console_address = weir.socket_path
    put(weir, *first)


def test_proxies_without_any(pgweir):
    weir = pgweir(proxy_protocol="require", proxy_protocol_from="127.0.0.0/8")
    weir.console_address = weir.socket_path
    refused(weir, "proxy_protocol_from", "", "needs proxy_protocol_from")
    assert "PROXY header" in refusal(weir.address, "bob").text
    put(weir, "proxy_protocol", "off")
    put(weir, "proxy_protocol_from", "")
    assert weir.client("bob").query("SELECT 1").rows


WRONG_IN_ITSELF = (
    ("client_tls_key_file", "/nowhere"), ("client_tls_cert_file", "/nowhere"),
    ("client_tls_ciphers", "nonsense"), ("client_tls_protocols", "legacy"),
    ("server_tls_ca_file", "/nowhere"), ("auth_file", "/nowhere"), ("auth_hba_file", "/nowhere"),
    ("auth_ident_file", "/nowhere"), ("auth_pam_service", "a/b"), ("proxy_protocol_from", "x"),
)


def test_what_is_wrong_in_itself_is_refused(secure):
    weir = secure(server_tls_sslmode="verify-ca")
    weir.account.write(f"{weir.dir}/hba.conf", "local all all trust\nhost all all all trust\n")
    put(weir, "auth_hba_file", f"{weir.dir}/hba.conf")
    put(weir, "auth_type", "hba")
    for name, text in WRONG_IN_ITSELF:
        before = value(weir, name)
        result = weir.ask_admin(f"SET {name} = '{text}'")
        assert result.errors and result.error["M"] == "SET failed", name
        assert name in result.notices[0]["M"] or "/nowhere" in result.notices[0]["M"]
        assert value(weir, name) == before


def test_a_broken_certificate_does_not_refuse_a_set_of_something_else(pgweir, store, own):
    with open(own.cert, "rb") as cert, open(own.key, "rb") as key:
        files = [store.write("set.crt", cert.read()), store.write("set.key", key.read())]
    weir = pgweir(client_tls_sslmode="prefer", client_tls_cert_file=files[0],
                  client_tls_key_file=files[1])
    before = shown_by(weir)
    store.write("set.crt", b"nothing\n")
    put(weir, "default_pool_size", "7")
    assert shown_by(weir) == before
    refused(weir, "client_tls_protocols", "tlsv1.3", "no good certificate")
    assert shown_by(weir) == before


def naps(weir, threads):
    """How often these threads have waited for work; once all of them do."""
    def read(thread):
        with open(f"/proc/{weir.pid}/task/{thread}/status", encoding="utf-8") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file)

    wait_until(lambda: all(read(thread)["State"].startswith("S") for thread in threads))
    return [read(thread)["voluntary_ctxt_switches"] for thread in threads]


def test_keys_that_were_derived_are_kept(pgweir):
    """A SET does not change the users. A RELOAD may: then keys are derived again."""
    weir = pgweir(auth_type="scram-sha-256")
    before = set(os.listdir(f"/proc/{weir.pid}/task"))
    weir.client(password="alice secret").close()
    helpers = sorted(set(os.listdir(f"/proc/{weir.pid}/task")) - before)
    assert helpers, "the first login has started a thread"
    first = naps(weir, helpers)
    weir.client(password="alice secret").close()
    assert naps(weir, helpers) == first
    put(weir, "default_pool_size", "7")
    first = naps(weir, helpers)  # the console's own login may have needed one
    weir.client(password="alice secret").close()
    assert naps(weir, helpers) == first
    weir.reload()
    first = naps(weir, helpers)
    weir.client(password="alice secret").close()
    assert naps(weir, helpers) != first
