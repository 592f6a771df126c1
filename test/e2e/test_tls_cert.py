# SPDX-License-Identifier: ISC
"""Authentication by certificate: auth_type = cert, and HBA rules that require one."""

import re
import ssl

import psycopg
import pytest

from .kit.daemon import USERS
from .kit.wait import LIMIT
from .kit.wire import SSL_REQUEST, Closed, Refused, special
from .test_tls import asked, encrypt, tls_client, trusting

FAILED = "certificate authentication failed"
NO_RULE = "no authentication method is found"


def secured(make_pgweir, own, ca, sslmode, **settings):
    return make_pgweir().configure(**{
        "client_tls_sslmode": sslmode, "client_tls_cert_file": own.cert,
        "client_tls_key_file": own.key, "client_tls_ca_file": ca.cert, **settings})


@pytest.fixture
def weir(make_pgweir, own, ca):
    """Starts a daemon with auth_type = cert."""

    def start(**settings):
        return secured(make_pgweir, own, ca, "verify-full", auth_type="cert", **settings).start()

    return start


@pytest.fixture
def ruled(make_pgweir, own, ca):
    """Starts a daemon with HBA rules; certificates are requested, but optional."""

    def start(rules, ident="", sslmode="prefer", **settings):
        daemon = secured(make_pgweir, own, ca, sslmode, auth_type="hba", **settings)
        daemon.account.write(f"{daemon.dir}/hba.conf", rules)
        daemon.account.write(f"{daemon.dir}/ident.conf", ident)
        return daemon.configure(auth_hba_file=f"{daemon.dir}/hba.conf",
                                auth_ident_file=f"{daemon.dir}/ident.conf").start()

    return start


@pytest.fixture(scope="module")
def alice(ca):
    return ca.issue("alice", "alice")


def showing(certificate, **kw):
    context = trusting(**kw)
    if certificate:
        context.load_cert_chain(certificate.cert, certificate.key)
    return context


def enter(daemon, certificate, user="alice", database="app", **kw):
    return tls_client(daemon, showing(certificate), user, database, **kw)


def refusal_of(daemon, certificate, user="alice", **kw):
    with pytest.raises(Refused) as refused:
        enter(daemon, certificate, user, **kw)
    return refused.value.sqlstate, refused.value.text


def fails_to_shake(daemon, certificate, reason):
    """With TLS 1.3 a client learns late that its certificate was refused."""
    with pytest.raises((OSError, Closed)):
        enter(daemon, certificate)
    daemon.wait_log(f"closing because: .*{reason}")


# -- auth_type = cert -----------------------------------------------------------------------------


def test_the_right_name(weir, alice):
    client = enter(weir(), alice)
    assert client.auth_codes == [0]
    assert client.value("SELECT current_user") == "alice"


def libpq(ca, certificate):
    return dict(sslmode="verify-full", sslrootcert=ca.cert, sslcert=certificate.cert,
                sslkey=certificate.key)


def test_libpq(weir, ca, alice):
    with weir().connect(**libpq(ca, alice)) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("alice",)


@pytest.mark.parametrize("user", ("bob", "Alice", "alic", "alice2", "nobody_knows", "x" * 63))
def test_another_name(weir, alice, user):
    daemon = weir()
    assert refusal_of(daemon, alice, user) == ("28000", FAILED)
    daemon.wait_log("login refused, cert: ")


def test_a_user_who_is_not_in_the_file(weir, ca):
    stranger = ca.issue("stranger", "stranger")
    assert refusal_of(weir(), stranger, "stranger") == ("28000", FAILED)


@pytest.mark.parametrize("cn", ("*", "alice.example", "", "ALICE"))
def test_names_are_compared_letter_by_letter(weir, ca, cn):
    odd = ca.issue("odd", cn or " ", names=("alice",))
    assert refusal_of(weir(), odd) == ("28000", FAILED)


def test_a_name_elsewhere_is_not_the_user(weir, ca):
    """PgBouncer accepts it: it also looks at host names in the certificate."""
    assert refusal_of(weir(), ca.issue("host", "bob", names=("alice",))) == ("28000", FAILED)


@pytest.mark.parametrize("names", (("alice", "bob"), ("alice", "bob\0"), ("alice\0",)))
def test_two_names_or_half_of_one(weir, ca, names):
    assert refusal_of(weir(), ca.issue("two", names)) == ("28000", FAILED)


def test_no_certificate(weir):
    fails_to_shake(weir(), None, "peer did not return a certificate")


def test_an_unknown_authority(weir, wrong_ca):
    fails_to_shake(weir(), wrong_ca.issue("forged", "alice"), "certificate verify failed")


def test_a_certificate_that_it_signed_itself(weir, store):
    fails_to_shake(weir(), store.authority("own_alice", "alice"), "self.signed certificate")


@pytest.mark.parametrize("days, reason", (((-9, -1), "certificate has expired"),
                                          ((1, 9), "certificate is not yet valid")))
def test_not_its_time(weir, ca, days, reason):
    fails_to_shake(weir(), ca.issue("timed", "alice", days=days), reason)


def test_a_chain(weir, ca):
    between = ca.authority("clients", "Clients' authority")
    assert enter(weir(), between.issue("far", "alice")).value("SELECT 1") == "1"


def test_a_chain_with_a_gap(weir, ca):
    between = ca.authority("hidden", "An authority nobody shows")
    gap = between.issue("gap", "alice")
    with open(gap.cert, "rb") as file:
        first = file.read().split(b"-----END CERTIFICATE-----")[0] + b"-----END CERTIFICATE-----\n"
    gap.cert = gap.store.write("gap.crt", first, 0o644)
    fails_to_shake(weir(), gap, "unable to get local issuer certificate")


def test_a_signer_that_is_no_authority(weir, alice):
    fails_to_shake(weir(), alice.issue("signed", "bob"), "certificate verify failed")


def test_plain(weir):
    with pytest.raises(Refused, match="SSL required"):
        weir().client()


def test_the_unix_socket_has_no_certificates(weir):
    wire = weir().wire(unix=True)
    wire.send(special(SSL_REQUEST))
    assert wire.take(1) == b"N"
    with pytest.raises(Refused) as refused:
        wire.login()
    assert (refused.value.sqlstate, refused.value.text) == ("28000", FAILED)


def test_the_console(weir, ca, alice):
    daemon = weir()
    console = enter(daemon, ca.issue("admin", "admin"), "admin", "pgbouncer")
    assert console.auth_codes == [0]
    enter(daemon, alice)
    rows = {row["user"]: row["tls"] for row in console.query("SHOW CLIENTS").dicts()}
    assert set(rows) == {"admin", "alice"}
    for text in rows.values():
        assert re.fullmatch(r"TLSv1\.3/TLS_\w+/ECDH=\w+/own", text)


def test_the_console_is_for_its_users(weir, ca, alice):
    daemon = weir()
    assert refusal_of(daemon, alice, database="pgbouncer") == ("28000", "not allowed")
    assert refusal_of(daemon, alice, "admin", database="pgbouncer") == ("28000", FAILED)


def test_a_resumed_session_is_the_same_client(weir, ca, alice):
    daemon = weir()
    context = showing(alice, maximum_version=ssl.TLSVersion.TLSv1_2)
    first = tls_client(daemon, context)
    again = encrypt(asked(daemon), context, session=first.sock.session)
    assert again.sock.session_reused
    assert again.login().value("SELECT current_user") == "alice"
    third = encrypt(asked(daemon), context, session=first.sock.session)
    assert third.sock.session_reused
    with pytest.raises(Refused, match=FAILED):
        third.login("bob")


@pytest.mark.parametrize("changes, reason", (
    (dict(client_tls_sslmode="require"), "auth_type = cert needs client_tls_sslmode = verify-full"),
    (dict(client_tls_sslmode="disable"), "auth_type = cert needs client_tls_sslmode = verify-full"),
    (dict(client_tls_ca_file=None), "client_tls_sslmode = verify-full needs client_tls_ca_file")))
def test_what_it_needs(make_pgweir, own, ca, changes, reason):
    daemon = secured(make_pgweir, own, ca, "verify-full", auth_type="cert", **changes)
    done = daemon.run(daemon.ini)
    assert done.returncode == 1 and reason in done.stderr
    done = daemon.run("--check", daemon.ini)
    assert done.returncode == 1 and reason in done.stderr


def test_a_change_to_it(make_pgweir, own, ca, alice):
    daemon = secured(make_pgweir, own, ca, "verify-full")
    daemon.start()
    boss = ca.issue("boss", "admin")
    assert enter(daemon, alice, "bob").value("SELECT 1") == "1"
    console = enter(daemon, boss, "admin", "pgbouncer")
    daemon.configure(auth_type="cert")
    assert not console.query("RELOAD").errors
    assert refusal_of(daemon, alice, "bob") == ("28000", FAILED)
    assert enter(daemon, alice).value("SELECT 1") == "1"
    daemon.configure(client_tls_sslmode="require")
    assert console.query("RELOAD").errors
    daemon.wait_log("auth_type = cert needs client_tls_sslmode = verify-full")
    assert refusal_of(daemon, alice, "bob") == ("28000", FAILED)


# -- rules ----------------------------------------------------------------------------------------

RULES = "hostssl all all all cert\n"


def test_by_rule(ruled, alice):
    daemon = ruled(RULES)
    assert enter(daemon, alice).auth_codes == [0]
    assert refusal_of(daemon, alice, "bob") == ("28000", FAILED)
    assert refusal_of(daemon, None) == ("28000", FAILED)
    with pytest.raises(Refused, match=NO_RULE):
        daemon.client()


def test_by_rule_an_unknown_authority(ruled, wrong_ca):
    daemon = ruled("hostssl all all all trust\n")
    assert enter(daemon, None).value("SELECT 1") == "1"
    fails_to_shake(daemon, wrong_ca.issue("forged", "alice"), "certificate verify failed")


def test_with_tls_and_without(ruled):
    daemon = ruled("hostssl all alice all trust\nhostnossl all bob all trust\n")
    assert enter(daemon, None).value("SELECT 1") == "1"
    assert daemon.client("bob").value("SELECT 1") == "1"
    for come in (lambda: enter(daemon, None, "bob"), lambda: daemon.client("alice")):
        with pytest.raises(Refused, match=NO_RULE) as refused:
            come()
        assert refused.value.sqlstate == "28000"


def test_the_refusal_says_tls(ruled):
    sqlstate, text = refusal_of(ruled("hostnossl all all all trust\n"), None)
    assert sqlstate == "28000" and text.endswith('database "app", TLS encryption')


def test_host_takes_both(ruled):
    daemon = ruled("host all all all trust\n")
    assert enter(daemon, None).value("SELECT 1") == "1"
    assert daemon.client().value("SELECT 1") == "1"


@pytest.mark.parametrize("wanted, who, good", (
    ("verify-ca", "alice", True), ("verify-ca", "bob", True), ("verify-ca", None, False),
    ("verify-full", "alice", True), ("verify-full", "bob", False), ("verify-full", None, False)))
def test_a_password_and_a_certificate(ruled, ca, alice, wanted, who, good):
    daemon = ruled(f"hostssl all all all scram-sha-256 clientcert={wanted}\n")
    certificate = {"alice": alice, "bob": ca.issue("bob", "bob"), None: None}[who]
    if good:
        client = enter(daemon, certificate, password=USERS["alice"])
        assert client.auth_codes == [10, 11, 12, 0]
        with pytest.raises(Refused, match="SASL authentication failed"):
            enter(daemon, certificate, password="wrong")
    else:
        assert refusal_of(daemon, certificate) == ("28000", FAILED)


def test_any_certificate_will_do_without_a_name_of_its_own(ruled, ca):
    daemon = ruled("hostssl all all all trust clientcert=verify-ca\n")
    assert enter(daemon, ca.issue("many", ("one", "two"))).value("SELECT 1") == "1"


def test_a_map(ruled, ca):
    daemon = ruled("hostssl all all all cert map=staff\n",
                   "staff /^([a-z]+)@good\\.example$ \\1\nstaff root all\nother eve bob\n")
    mail = ca.issue("mail", "alice@good.example")
    assert enter(daemon, mail).value("SELECT current_user") == "alice"
    assert refusal_of(daemon, mail, "bob") == ("28000", FAILED)
    root = ca.issue("root", "root")
    for user in ("alice", "bob"):
        assert enter(daemon, root, user).value("SELECT current_user") == user
    for cn in ("alice", "alice@good.example.evil.example", "alice@goodxexample", "eve"):
        assert refusal_of(daemon, ca.issue("evil", cn), "bob") == ("28000", FAILED)
        assert refusal_of(daemon, ca.issue("evil", cn)) == ("28000", FAILED)


def test_the_console_by_rule(ruled, ca, alice):
    daemon = ruled("hostssl pgbouncer admin all cert\nhostssl all all all trust\n")
    admin = ca.issue("admin2", "admin")
    assert enter(daemon, admin, "admin", "pgbouncer").query("SHOW VERSION").rows
    assert refusal_of(daemon, alice, "admin", database="pgbouncer") == ("28000", FAILED)


def test_where_no_certificate_is_asked_for(ruled):
    """Without client_tls_ca_file no certificate is requested, so no login is possible."""
    daemon = ruled(RULES, client_tls_ca_file=None)
    assert refusal_of(daemon, None) == ("28000", FAILED)


# -- replication ----------------------------------------------------------------------------------


def psql(daemon, replication, sslmode):
    line = (f"host=127.0.0.1 port={daemon.port} user=streamer dbname=app"
            f" replication={replication} sslmode={sslmode} connect_timeout={int(LIMIT)}")
    return daemon.account.run(["psql", "-w", "-X", "-A", "-t", "-c", "IDENTIFY_SYSTEM", line],
                              env={"HOME": daemon.dir})


@pytest.mark.parametrize("rules, logical, physical", (
    ("host app streamer all trust\n", True, False),
    ("host replication streamer all trust\n", False, True),
    ("host all all all trust\n", True, False),
    ("host app,replication all all trust\n", True, True),
    ("host replication all all reject\nhost all all all trust\n", True, False),
    ("hostssl app all all trust\nhostnossl replication all all trust\n", True, True),
    ("hostnossl app all all trust\nhostssl replication all all trust\n", False, False)))
def test_replication_by_rule(ruled, rules, logical, physical):
    """psql as the replication client: logical with TLS, physical without."""
    daemon = ruled(rules)
    for kind, sslmode, good in (("database", "require", logical), ("true", "disable", physical)):
        done = psql(daemon, kind, sslmode)
        assert (done.returncode == 0) == good, done.stdout
        if good:
            assert re.match(r"\d+\|\d+\|", done.stdout)
        else:
            assert NO_RULE in done.stdout or "an HBA rule rejects" in done.stdout
            assert ("replication from host" in done.stdout) == (kind == "true")


def test_replication_by_certificate(ruled, ca):
    daemon = ruled("hostssl app streamer all cert\n")
    streamer, eve = ca.issue("streamer", "streamer"), ca.issue("eve", "eve")
    client = enter(daemon, streamer, "streamer", replication="database")
    assert client.query("IDENTIFY_SYSTEM").rows
    with pytest.raises(Refused, match=FAILED):
        enter(daemon, eve, "streamer", replication="database")


def test_psycopg_replicates(ruled, ca):
    daemon = ruled("hostssl app streamer all cert\n")
    streamer = ca.issue("streamer2", "streamer")
    connection = daemon.connect(user="streamer", replication="database", **libpq(ca, streamer))
    assert connection.pgconn.exec_(b"IDENTIFY_SYSTEM").status == psycopg.pq.ExecStatus.TUPLES_OK
