# SPDX-License-Identifier: ISC
"""SET of settings that depend on each other: one by one, in any order."""

import pytest

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


def pending(weir):
    return {row["key"]: row for row in weir.admin("SHOW PENDING")}


def put(weir, name, text):
    """Runs SET, which must succeed; returns the NOTICE, or None if the value is in effect."""
    result = weir.ask_admin(f"SET {name} = '{text}'")
    assert not result.errors, [notice["M"] for notice in result.notices]
    assert result.tags == [f"SET {name}={text}"]
    assert value(weir, name) == text
    return result.notices[0]["M"] if result.notices else None


def put_held(weir, name, text, why):
    """Runs a SET that does not fit yet: the NOTICE, the log and SHOW PENDING report it."""
    since, before = len(weir.log), value(weir, name)
    notice = put(weir, name, text)
    assert notice and "accepted, but not in effect" in notice and why in notice, notice
    weir.wait_log(f"WARNING SET {name}: not in effect: ", since=since)
    row = pending(weir)[name]
    assert (row["value"], row["in_force"]) == (text, before)
    assert why in row["reason"]


def put_in_force(weir, name, text):
    assert put(weir, name, text) is None
    assert pending(weir) == {}


@pytest.fixture
def secure(pgweir, own):
    def start(**settings):
        settings.setdefault("client_tls_sslmode", "prefer")
        return pgweir(client_tls_cert_file=own.cert, client_tls_key_file=own.key, **settings)

    return start


@pytest.mark.parametrize("order", ("cert key", "key cert"))
def test_a_certificate_and_its_key(secure, ca, order):
    weir, other = secure(), ca.issue("successor", "successor")
    first, second = [(f"client_tls_{word}_file", getattr(other, word)) for word in order.split()]
    before = shown_by(weir)
    put_held(weir, *first, "not the one of")
    assert shown_by(weir) == before
    # an unrelated SET succeeds, and does not change the pending ones
    put(weir, "default_pool_size", "7")
    assert shown_by(weir) == before and list(pending(weir)) == [first[0]]
    put_in_force(weir, *second)
    assert shown_by(weir) not in (before, None)
    weir.wait_log("LOG client_tls_...: the SET value is in effect now")


def test_back_to_the_old_value(secure, ca, own):
    weir, other = secure(), ca.issue("never", "never")
    put_held(weir, "client_tls_cert_file", other.cert, "not the one of")
    put_in_force(weir, "client_tls_cert_file", own.cert)


def test_a_reload_forgets_what_does_not_fit(secure, ca, own):
    weir, other = secure(), ca.issue("forgotten", "forgotten")
    put_held(weir, "client_tls_cert_file", other.cert, "not the one of")
    weir.admin("RELOAD")
    assert pending(weir) == {} and value(weir, "client_tls_cert_file") == own.cert
    put_held(weir, "client_tls_key_file", other.key, "not the one of")


def test_a_failed_reload_does_not(secure, ca):
    weir, other = secure(), ca.issue("kept", "kept")
    put_held(weir, "client_tls_cert_file", other.cert, "not the one of")
    weir.configure(default_pool_size="nonsense")
    assert weir.ask_admin("RELOAD").error
    put_in_force(weir, "client_tls_key_file", other.key)


def test_tls_is_switched_on_one_by_one(pgweir, own):
    weir = pgweir()
    put_held(weir, "client_tls_sslmode", "prefer", "must be set")
    put_held(weir, "client_tls_key_file", own.key, "must be set")
    assert ask_tls(weir) == b"N"
    put_in_force(weir, "client_tls_cert_file", own.cert)
    assert ask_tls(weir) == b"S"


def test_certificates_of_clients(secure, ca):
    """Three settings of two kinds: the last SET makes all take effect."""
    weir = secure()
    put_held(weir, "client_tls_sslmode", "verify-full", "needs client_tls_ca_file")
    put_held(weir, "auth_type", "cert", "needs client_tls_sslmode = verify-full")
    assert weir.client("bob").query("SELECT 1").rows  # auth_type = trust is in effect
    assert set(pending(weir)) == {"auth_type", "client_tls_sslmode"}
    put_in_force(weir, "client_tls_ca_file", ca.cert)
    assert ask_tls(weir) == b"S"
    assert refusal(weir.address, "bob").text == "SSL required"


def test_what_others_need_stays(secure, ca):
    weir = secure(client_tls_sslmode="verify-full", client_tls_ca_file=ca.cert, auth_type="cert")
    weir._console = tls_client(weir, shown(ca.issue("console", "admin")), "admin", "pgbouncer")
    put_held(weir, "client_tls_sslmode", "prefer", "auth_type = cert needs")
    assert refusal(weir.address, "bob").text == "SSL required"
    put_in_force(weir, "auth_type", "trust")
    assert weir.client("bob").query("SELECT 1").rows


def test_rules_and_their_files(pgweir):
    weir = pgweir()
    weir.account.write(f"{weir.dir}/hba.conf", "host all alice all trust\n"
                       "local all all peer map=m\nlocal all all trust\nhost all admin all trust\n")
    weir.account.write(f"{weir.dir}/ident.conf", "m nobody nobody\n")
    put_held(weir, "auth_type", "hba", "needs auth_hba_file")
    put_held(weir, "auth_hba_file", f"{weir.dir}/hba.conf", "there is no map m")
    assert weir.client("bob").query("SELECT 1").rows
    put_in_force(weir, "auth_ident_file", f"{weir.dir}/ident.conf")
    assert "no authentication method" in refusal(weir.address, "bob").text
    assert weir.client().query("SELECT 1").rows


def test_a_list_of_users_that_cannot_be_read_yet(pgweir):
    weir = pgweir(databases={"app": "user=alice"})
    put_in_force(weir, "auth_type", "any")
    put_in_force(weir, "auth_file", "/nowhere")  # which any does not read
    put_held(weir, "auth_type", "trust", "auth_file: cannot open /nowhere")
    assert weir.client("anybody").query("SELECT 1").rows
    put_in_force(weir, "auth_file", weir.userlist)
    assert refusal(weir.address, "anybody").sqlstate == "28000"


@pytest.mark.parametrize("first, second, why", (
    (("proxy_protocol", "require"), ("proxy_protocol_from", "10.0.0.0/8"), "needs"),
    (("server_tls_negotiation", "direct"), ("server_tls_sslmode", "require"), "needs a server_tls"),
))
def test_further_pairs(pgweir, first, second, why):
    weir = pgweir()
    put_held(weir, *first, why)
    assert weir.client().query("SELECT 1").rows
    put_in_force(weir, *second)


def test_proxies_without_any(pgweir):
    weir = pgweir(proxy_protocol="require", proxy_protocol_from="127.0.0.0/8")
    weir.console_address = weir.socket_path
    put_held(weir, "proxy_protocol_from", "", "needs proxy_protocol_from")
    assert "PROXY header" in refusal(weir.address, "bob").text
    put_in_force(weir, "proxy_protocol", "off")
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
    put_in_force(weir, "auth_hba_file", f"{weir.dir}/hba.conf")
    put_in_force(weir, "auth_type", "hba")
    for name, text in WRONG_IN_ITSELF:
        before = value(weir, name)
        result = weir.ask_admin(f"SET {name} = '{text}'")
        assert result.errors and result.error["M"] == "SET failed", name
        assert name in result.notices[0]["M"] or "/nowhere" in result.notices[0]["M"]
        assert value(weir, name) == before and pending(weir) == {}


def test_a_broken_certificate_does_not_refuse_a_set_of_something_else(pgweir, store, own):
    with open(own.cert, "rb") as cert, open(own.key, "rb") as key:
        files = [store.write("set.crt", cert.read()), store.write("set.key", key.read())]
    weir = pgweir(client_tls_sslmode="prefer", client_tls_cert_file=files[0],
                  client_tls_key_file=files[1])
    before = shown_by(weir)
    store.write("set.crt", b"nothing\n")
    put_in_force(weir, "default_pool_size", "7")
    assert shown_by(weir) == before
    put_held(weir, "client_tls_protocols", "tlsv1.3", "no good certificate")
    assert shown_by(weir) == before
