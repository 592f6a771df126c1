# SPDX-License-Identifier: ISC
"""TLS for clients: which clients get it, which must use it, and attacks."""

import os
import random
import re
import ssl
import subprocess

import psycopg
import pytest
from cryptography import x509

from .kit.account import free_port
from .kit.records import BAD_RECORD_MAC, DATA, SUITES, Records
from .kit.wait import wait_until
from .kit.wire import (GSSENC_REQUEST, SSL_REQUEST, Closed, Refused, bind, execute, parse, query,
                       special, startup, sync)


@pytest.fixture
def weir(pgweir, own):
    """Starts a daemon that has TLS for clients."""

    def start(sslmode="require", **settings):
        settings.setdefault("client_tls_cert_file", own.cert)
        settings.setdefault("client_tls_key_file", own.key)
        daemon = pgweir(client_tls_sslmode=sslmode, **settings)
        daemon.console_address = daemon.socket_path
        return daemon

    return start


def trusting(ca=None, alpn=("postgresql",), **kw):
    """The TLS settings of a scripted client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED if ca else ssl.CERT_NONE
    if ca:
        context.load_verify_locations(ca.cert)
    if alpn:
        context.set_alpn_protocols(alpn)
    for name, value in kw.items():
        setattr(context, name, value)
    return context


def encrypt(wire, context=None, **kw):
    """Encrypts the connection of a scripted client."""
    wire.sock = (context or trusting()).wrap_socket(wire.sock, **kw)
    return wire


def asked(weir):
    """A scripted client whose SSLRequest was accepted."""
    wire = weir.wire()
    wire.send(special(SSL_REQUEST))
    assert wire.take(1) == b"S"
    return wire


def tls_client(weir, context=None, user="alice", database="app", **kw):
    return encrypt(asked(weir), context).login(user, database, **kw)


def record_client(weir):
    """One whose records the test makes."""
    wire = asked(weir)
    wire.sock = Records(wire.sock, trusting())
    return wire.login()


# -- client_tls_sslmode ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ("allow", "prefer", "require"))
def test_a_client_that_asks_for_it(weir, mode, ca):
    daemon = weir(mode)
    with daemon.connect(sslmode="verify-ca", sslrootcert=ca.cert) as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT 1").fetchone() == (1,)
        (row,) = [row for row in daemon.admin("SHOW CLIENTS") if row["user"] == "alice"]
        assert re.fullmatch(r"TLSv1\.3/TLS_\w+/ECDH=\w+/own", row["tls"])


def test_the_host_name_is_in_the_certificate(weir, ca):
    daemon = weir()
    with daemon.connect(sslmode="verify-full", sslrootcert=ca.cert, host="127.0.0.1") as conn:
        assert conn.execute("SELECT 2").fetchone() == (2,)


def test_a_client_that_trusts_somebody_else(weir, wrong_ca):
    daemon = weir()
    with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
        daemon.connect(sslmode="verify-ca", sslrootcert=wrong_ca.cert)
    daemon.wait_log("closing because: TLS handshake failed: .*unknown ca")


def test_the_chain_is_sent(weir, ca):
    between = ca.authority("between", "Between")
    leaf = between.issue("leaf", "pooler.example")
    daemon = weir(client_tls_cert_file=leaf.cert, client_tls_key_file=leaf.key)
    with daemon.connect(sslmode="verify-ca", sslrootcert=ca.cert) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("mode", ("require", "verify-ca"))
def test_plain_is_refused_where_tls_is_required(weir, mode, ca):
    daemon = weir(mode, client_tls_ca_file=ca.cert)
    with pytest.raises(psycopg.OperationalError, match="SSL required"):
        daemon.connect(sslmode="disable")
    with pytest.raises(Refused) as refused:
        daemon.client()
    assert (refused.value.text, refused.value.sqlstate) == ("SSL required", "28000")


@pytest.mark.parametrize("mode", ("allow", "prefer"))
def test_plain_is_good_where_tls_is_not_required(weir, mode):
    daemon = weir(mode)
    assert daemon.client().query("SELECT 1").rows == [["1"]]
    (row,) = [row for row in daemon.admin("SHOW CLIENTS") if row["user"] == "alice"]
    assert row["tls"] == ""


@pytest.mark.parametrize("days, says", (((-2, -1), "has expired"), ((-2, 1), "expires in 2[34] hours")))
def test_a_certificate_at_its_end(pgweir, ca, days, says):
    issued = ca.issue(f"end{days[1]}", "localhost", days=days)
    weir = pgweir(client_tls_sslmode="allow", client_tls_cert_file=issued.cert,
                  client_tls_key_file=issued.key)
    warning = f"client_tls_cert_file: the certificate in {issued.cert} {says}"
    assert re.search(warning, weir.run("--check", weir.ini).stderr)
    weir.wait_log("WARNING .*" + warning)
    weir.reload(query_timeout=900)
    assert len(re.findall(warning, weir.log)) >= 2


def test_certificates_that_come_near_to_their_end(make_pgweir, ca):
    """Each once, at the moment that is due; of a listener and of names, too."""
    def due_in(days):
        return ca.issue(f"due{days}", "localhost", days=(-2, days + 15 / 86400))

    main, door, first, second = (due_in(days) for days in (30, 7, 1, 0))
    weir = make_pgweir(client_tls_sslmode="allow", client_tls_cert_file=main.cert,
                       client_tls_key_file=main.key, stats_period=1,
                       client_tls_name_files=f"{both(first)},{both(second)}")
    weir.sections["listeners"] = {"door": f"addr=127.0.0.1 port={free_port()} client_tls_cert_file={door.cert} "
                                          f"client_tls_key_file={door.key}"}
    weir.configure()
    weir.start()
    warnings = [f"WARNING client_tls_cert_file: the certificate in {main.cert} expires in (29|30) days",
                f"WARNING client_tls_cert_file: the certificate in {door.cert} expires in [67] days",
                f"WARNING client_tls_name_files: the certificate in {first.cert}.both expires in 2[34] hours",
                f"WARNING client_tls_name_files: the certificate in {second.cert}.both has expired"]
    for warning in warnings:
        weir.wait_log(warning, limit=60)
    assert [(row["setting"], row["file"]) for row in weir.admin("SHOW CERTIFICATES")] == [
        ("client_tls_cert_file", main.cert), ("client_tls_name_files", f"{first.cert}.both"),
        ("client_tls_name_files", f"{second.cert}.both"), ("client_tls_cert_file", door.cert)]
    weir.wait_log("stats: ", since=len(weir.log))
    assert [len(re.findall(warning, weir.log)) for warning in warnings] == [1] * 4


# -- certificates for names (SNI) -----------------------------------------------------------------


def both(issued):
    """The certificate and its key in one file."""
    path = issued.cert + ".both"
    with open(path, "wb") as out:
        for name in (issued.cert, issued.key):
            with open(name, "rb") as part:
                out.write(part.read())
    return path


def names_of(weir, name, **kw):
    wire = encrypt(asked(weir), trusting(**kw), server_hostname=name)
    certificate = x509.load_der_x509_certificate(wire.sock.getpeercert(True))
    assert wire.login().query("SELECT 1").rows == [["1"]]
    wire.close()
    return certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value


@pytest.mark.parametrize("version", (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3))
def test_a_certificate_for_the_name_that_is_asked_for(weir, ca, version):
    one, two, wild = (ca.issue(name.split(".")[0].replace("*", "any"), name)
                      for name in ("one.example", "two.example", "*.many.example"))
    daemon = weir(client_tls_name_files=f"{both(one)}, {both(wild)}")
    kw = {"maximum_version": version, "minimum_version": version}
    default = names_of(daemon, None, **kw)
    assert names_of(daemon, "one.example", **kw) == "one.example"
    assert names_of(daemon, "ONE.example", **kw) == "one.example"
    assert names_of(daemon, "a.many.example", **kw) == "*.many.example"
    for name in ("two.example", "a.b.many.example", "xone.example", "localhost", default):
        assert names_of(daemon, name, **kw) == default
    living = encrypt(asked(daemon), server_hostname="one.example").login()
    daemon.reload(client_tls_name_files=both(two))
    assert names_of(daemon, "two.example", **kw) == "two.example"
    assert names_of(daemon, "one.example", **kw) == default
    assert living.query("SELECT 1").rows == [["1"]]


def test_channel_binding_to_the_certificate_for_a_name(weir, ca):
    named = ca.issue("bound", "localhost2.example")
    daemon = weir(auth_type="scram-sha-256", client_tls_name_files=both(named))
    with daemon.connect(user="scram_user", password="scram secret", sslmode="verify-full", sslrootcert=ca.cert,
                        host="localhost2.example", hostaddr="127.0.0.1",
                        channel_binding="require") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_handshake_for_a_name_during_a_reload(weir, ca):
    """It began with certificates that are gone."""
    daemon = weir(client_tls_name_files=both(ca.issue("brief", "brief.example")))
    wire = asked(daemon)
    hello = client_hello("brief.example")
    wire.send(hello[:100])
    daemon.reload(client_tls_name_files="")
    wire.send(hello[100:])
    assert wire.take(1) == b"\x16"
    assert tls_client(daemon).query("SELECT 1").rows == [["1"]]


@pytest.mark.parametrize("is_key", (True, False))
def test_a_bad_file_for_a_name(weir, ca, is_key):
    daemon = weir()
    half = ca.issue("half", "half.example")
    bad = half.key if is_key else half.cert
    with pytest.raises(Refused):
        daemon.reload(client_tls_name_files=bad)
    daemon.wait_log(f"client_tls_name_files: no good {'certificate' if is_key else 'key'} in {bad}")
    assert names_of(daemon, "half.example") != "half.example"


@pytest.mark.parametrize("count, words", ((1000, "cannot read /none"),
                                          (1001, "1001 files, at most 1000 are possible")))
def test_too_many_files_for_names(weir, count, words):
    daemon = weir()
    with pytest.raises(Refused):
        daemon.reload(client_tls_name_files=", ".join(["/none"] * count))
    daemon.wait_log(rf"pgweir\.ini:\d+: client_tls_name_files: {words}")


def test_unix_sockets_need_none(weir):
    daemon = weir("require")
    wire = daemon.wire(unix=True)
    wire.send(special(SSL_REQUEST))
    assert wire.take(1) == b"N"
    assert wire.login().query("SELECT 1").rows == [["1"]]


def test_without_tls_the_answer_is_no(pgweir):
    wire = pgweir().wire()
    wire.send(special(SSL_REQUEST))
    assert wire.take(1) == b"N"
    assert wire.login().query("SELECT 1").rows == [["1"]]


def test_the_log_says_how(weir):
    daemon = weir()
    tls_client(daemon)
    daemon.wait_log(r"login attempt: db=app user=alice tls=TLSv1\.3/TLS_\w+/ECDH=\w+ repl")


# -- direct TLS -----------------------------------------------------------------------------------


def direct(weir, context=None):
    return encrypt(weir.wire(), context)


def test_direct(weir):
    wire = direct(weir("require"))
    assert wire.sock.selected_alpn_protocol() == "postgresql"
    assert wire.login().query("SELECT 1").rows == [["1"]]


def test_direct_without_alpn(weir):
    wire = direct(weir("require"), trusting(alpn=None))
    assert wire.login().query("SELECT 1").rows == [["1"]]


def test_direct_with_another_protocol(weir):
    daemon = weir("require")
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        direct(daemon, trusting(alpn=("http/1.1",)))


def test_direct_where_there_is_none(pgweir):
    wire = pgweir().wire()
    wire.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64)
    assert "bad packet header" in wire.read_to_end()[-1].fields["M"]


# -- attacks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("code, what", ((SSL_REQUEST, "SSL"),
                                        (GSSENC_REQUEST, "GSSAPI encryption")))
@pytest.mark.parametrize("mode", ("disable", "require"))
def test_plain_bytes_behind_the_request(weir, code, what, mode):
    """CVE-2021-23222 and similar attacks."""
    daemon = weir(mode)
    wire = daemon.wire()
    wire.send(special(code), startup(user="alice", database="app"))
    (told,) = wire.read_to_end()
    assert told.fields["M"] == f"received unencrypted data after {what} request"


def test_plain_bytes_behind_the_answer(weir):
    """A plain-text startup packet instead of a handshake is refused."""
    daemon = weir("prefer")
    wire = asked(daemon)
    wire.send(startup(user="alice", database="app"))
    with pytest.raises(Closed):
        while True:
            wire.take(1)
    daemon.wait_log("closing because: TLS handshake failed")
    assert "login attempt" not in daemon.log


def test_asking_twice(weir):
    wire = encrypt(asked(weir("prefer")))
    wire.send(special(SSL_REQUEST))
    wire.wait_closed()


@pytest.mark.parametrize("within", (False, True))
def test_gss_before_and_within(weir, within):
    wire = weir("require").wire()
    if not within:
        wire.send(special(GSSENC_REQUEST))
        assert wire.take(1) == b"N"
    wire.send(special(SSL_REQUEST))
    assert wire.take(1) == b"S"
    encrypt(wire)
    if within:
        wire.send(special(GSSENC_REQUEST))
        assert wire.take(1) == b"N"
    assert wire.login().query("SELECT 1").rows == [["1"]]


def test_a_client_that_disconnects_during_the_handshake(weir):
    daemon = weir("require")
    for cut in (0, 1, 5, 40, 200):
        wire = asked(daemon)
        hello = client_hello()
        wire.send(hello[:cut])
        wire.close()
    for cut in (0, 100):
        wire = asked(daemon)
        wire.send(client_hello()[:cut or None])
        wire.reset()
    assert tls_client(daemon).query("SELECT 1").rows == [["1"]]


def test_clients_that_disconnect_during_handshakes_leave_nothing(weir):
    """They disconnect before, during and after the work of a helper thread."""
    daemon, hello = weir("require"), client_hello()
    with tls_client(daemon):
        before = daemon.open_files()
    for i in range(300):
        wire = asked(daemon)
        wire.send(hello[:(0, 40, len(hello))[i % 3]])
        if i % 2:
            wire.reset()
        else:
            wire.close()
    wait_until(lambda: daemon.open_files() <= before, what="all sockets to be closed")
    assert tls_client(daemon).query("SELECT 1").rows == [["1"]]


def client_hello(name=None):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    engine = trusting().wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        engine.do_handshake()
    return outgoing.read()


def test_the_time_for_a_login_covers_the_handshake(weir):
    daemon = weir("require", client_login_timeout="0.3")
    with tls_client(daemon):
        before = daemon.open_files()
    wire = asked(daemon)
    wire.send(client_hello()[:50])
    wire.wait_closed()
    daemon.wait_log("client_login_timeout")
    wait_until(lambda: daemon.open_files() < before, what="the socket to be closed")


NOISES = {
    "too long": b"\x16\x03\x01\xff\xff" + b"\0" * 70000,
    "data": b"\x17\x03\x03\0\5hello",
    "another protocol": b"GET / HTTP/1.0\r\n\r\n",
}


@pytest.mark.parametrize("name", NOISES)
def test_noise_instead_of_a_handshake(weir, name):
    daemon, noise = weir("require"), NOISES[name]
    wire = asked(daemon)
    try:
        wire.send(noise)
        while wire.sock.recv(65536):
            pass
    except OSError:
        pass
    daemon.wait_log("closing because: ")
    assert tls_client(daemon).query("SELECT 1").rows == [["1"]]


# -- the record layer -----------------------------------------------------------------------------


class OpensslClient:
    """openssl s_client, which begins with SSLRequest and changes its keys when it is told to."""

    def __init__(self, weir, *options):
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{weir.port}", "-starttls", "postgres",
             *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.got = b""

    def login(self):
        self.wait(b"Verify return code: ")
        self.wait(b"---\n")
        self.send(startup(user="alice", database="app"))
        self.wait(b"Z\0\0\0\5I")

    def close(self):
        self.process.kill()
        self.process.communicate()

    def send(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def wait(self, what):
        def came():
            self.got += self.process.stdout.read() or b""
            return what in self.got
        wait_until(came, what=repr(what))
        self.got = self.got.split(what, 1)[1]


def test_a_client_that_changes_its_keys(weir):
    daemon = weir()
    client = OpensslClient(daemon)
    try:
        client.login()
        for number in range(10):
            client.send(b"K\n" if number % 2 else b"k\n")  # K: we are to change ours, too
            client.wait(b"KEYUPDATE\n")
            # Not a Query, whose first byte would be a command.
            client.send(parse(f"SELECT 'number', {number}") + bind([]) + execute() + sync())
            client.wait(b"number")
            client.wait(b"Z\0\0\0\5I")
        (row,) = [row for row in daemon.admin("SHOW CLIENTS") if row["user"] == "alice"]
        assert row["tls"].endswith("/own")
    finally:
        client.close()


def test_a_client_that_wants_small_records(weir):
    """OpenSSL keeps what only it knows: the greatest size that was agreed on."""
    daemon = weir()
    client = OpensslClient(daemon, "-maxfraglen", "512")
    try:
        client.login()
        client.send(parse("SELECT repeat('x', 5000), 'the end'") + bind([]) + execute() + sync())
        client.wait(b"the end")
        (row,) = [row for row in daemon.admin("SHOW CLIENTS") if row["user"] == "alice"]
        assert row["tls"].endswith("/openssl")
    finally:
        client.close()


@pytest.mark.parametrize("suite", SUITES)
def test_all_sizes_on_both_sides(weir, suite, secure_postgres):
    """Random sizes, to and from PostgreSQL, several statements in one write; then a COPY."""
    daemon = weir(postgres=secure_postgres, server_tls_sslmode="require",
                  client_tls13_ciphers=suite, server_tls13_ciphers=suite)
    chance = random.Random(suite)
    with daemon.connect(sslmode="require") as connection:
        for _ in range(20):
            sizes = [chance.choice((0, 1, 100, 16383, 16384, 16385, chance.randrange(200000)))
                     for _ in range(5)]
            texts = [chance.choice("abcdef") * size for size in sizes]
            with connection.pipeline():
                cursors = [connection.execute("SELECT %s::text", (text,)) for text in texts]
            assert [cursor.fetchone()[0] for cursor in cursors] == texts
        connection.execute("CREATE TEMP TABLE copied (line text)")
        lines = ["%d %s" % (number, "x" * chance.randrange(3000)) for number in range(3000)]
        with connection.cursor().copy("COPY copied FROM STDIN") as copy:
            for line in lines:
                copy.write_row((line,))
        with connection.cursor().copy("COPY copied TO STDOUT") as copy:
            copy.set_types(["text"])
            assert sorted(row[0] for row in copy.rows()) == sorted(lines)


@pytest.mark.parametrize("records", ("own", "openssl"))
def test_a_broken_record_is_the_end(weir, records):
    """The client gets an alert, and the log the reason."""
    daemon = weir(tls_records=records)
    client = record_client(daemon)
    record = bytearray(client.sock.seal(DATA, query("SELECT 1")))
    record[-1] ^= 1
    client.sock.sock.sendall(record)
    client.wait_closed()
    assert client.sock.alert == BAD_RECORD_MAC
    daemon.wait_log("closing because: invalid TLS record or fatal alert")
    daemon.wait_pool(cl_active=0)


def test_secrets_are_not_logged(weir, tmp_path):
    """The client notes its secrets, as ours are the same."""
    daemon = weir(verbose=2)
    context = trusting()
    context.keylog_filename = str(tmp_path / "keys")
    tls_client(daemon, context).query("SELECT 1")
    secrets = [line.split()[2] for line in (tmp_path / "keys").read_text().splitlines()
               if not line.startswith("#")]
    daemon.wait_log("TLS records: own")
    assert len(secrets) >= 4
    assert not any(secret in daemon.log for secret in secrets)


def memory(pid, is_dumped):
    """The memory that a core dump has, or what it leaves out, in pieces that overlap."""
    piece = 1 << 20
    with open(f"/proc/{pid}/smaps", encoding="ascii") as file:
        areas = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", file.read(), flags=re.MULTILINE)[1:]
    with open(f"/proc/{pid}/mem", "rb", 0) as file:
        for area in areas:
            begin, end = (int(word, 16) for word in area.split()[0].split("-"))
            flags = re.search(r"^VmFlags: (.*)$", area, re.MULTILINE)[1].split()
            # Large ones that are left out are a sanitizer's.
            if ("dd" not in flags) != is_dumped or "\nRss:                   0 kB" in area or (
                    "dd" in flags and end - begin > piece):
                continue
            for at in range(begin, end, piece):
                try:
                    yield os.pread(file.fileno(), min(piece + 64, end - at), at)
                except OSError:  # of the kernel
                    pass


def test_secrets_are_not_in_a_core_dump(weir, secure_postgres, tmp_path):
    """Neither while it is used nor when it has ended are they in memory that is dumped."""
    daemon = weir(postgres=secure_postgres, server_tls_sslmode="require")
    context = trusting()
    context.keylog_filename = str(tmp_path / "keys")
    clients = [tls_client(daemon, context) for _ in range(3)]
    for client in clients:
        client.query("SELECT 1")
    logged = [line.split() for line in (tmp_path / "keys").read_text().splitlines() if line[0] != "#"]
    secrets = [bytes.fromhex(secret) for label, _, secret in logged if "_TRAFFIC_SECRET_0" in label]
    assert len(secrets) == 6
    # Those of the handshake, and what OpenSSL's key log makes of all, are nowhere at any time.
    gone = [form for _, _, secret in logged for form in (secret.encode(), bytes.fromhex(secret))
            if form not in secrets]
    assert len(gone) > 20
    pid = daemon.process.pid
    found = [secret for part in memory(pid, False) for secret in secrets if secret in part]
    assert set(found) == set(secrets)
    assert not [secret for part in memory(pid, True) for secret in secrets + gone if secret in part]
    for client in clients:
        client.close()
    wait_until(lambda: not [row for row in daemon.admin("SHOW CLIENTS") if row["user"] == "alice"],
               what="the clients to be gone")
    assert not [secret for is_dumped in (False, True) for part in memory(pid, is_dumped)
                for secret in secrets + gone if secret in part]
