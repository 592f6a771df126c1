# SPDX-License-Identifier: ISC
"""TLS of other libraries against pgweir's own record layer.

Each client sends texts of random sizes in random pieces, and checks that they come back; those
of Java and Rust change their keys meanwhile. At the end each sends close_notify and is told the
end. The same programs are servers: each gives PostgreSQL TLS. These programs use nothing but TLS;
those of pgjdbc and pgx from test/drivers follow.
"""

import concurrent.futures
import contextlib
import os
import pathlib
import random
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from drivers import build
from drivers.test_drivers import RUN_LIMIT_S, TABLES, call, judge
from e2e.kit.account import free_port
from e2e.kit.wait import wait_until
from e2e.kit.wire import SSL_REQUEST, message, query, special

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent.parent / "out" / "tls"
SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
ROUNDS, LIMIT_S = 60, 600


def tool(name):
    return shutil.which(name) or pytest.skip(f"there is no {name}")


def built(command, **environment):
    OUT.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, cwd=HERE, env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def go():
    built((tool("go"), "build", "-o", OUT / "go", "peer.go"), GOCACHE=str(OUT / "go-build"))
    return (OUT / "go",)


def java():
    tool("java")
    built((tool("javac"), "-d", OUT / "java", "Peer.java"))
    return ("java", "-cp", OUT / "java", "Peer")


def rust():
    built((tool("cargo"), "build", "--quiet", "--locked", "--manifest-path", "rust/Cargo.toml"),
          CARGO_HOME=str(OUT / "cargo"), CARGO_TARGET_DIR=str(OUT / "rust"))
    return (OUT / "rust" / "debug" / "peer",)


@pytest.fixture
def weir(pgweir, own, secure_postgres):
    def start(suite):
        weir = pgweir(postgres=secure_postgres, client_tls_sslmode="require", client_tls_cert_file=own.cert,
                      client_tls_key_file=own.key, server_tls_sslmode="require", client_tls13_ciphers=suite,
                      server_tls13_ciphers=suite)
        weir.console_address = weir.socket_path
        return weir

    return start


def records(weir, show="CLIENTS"):
    return [row["tls"].rpartition("/")[2] for row in weir.admin(f"SHOW {show}") if row["user"] == "alice"]


@pytest.mark.limit(LIMIT_S)
@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("program", (go, java, rust))
def test_client(weir, program, suite):
    command, daemon = program(), weir(suite)
    for seed in (1, 2):
        done = subprocess.run((*command, str(daemon.port), str(seed), str(ROUNDS)), capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.stdout == "ok\n", done.stdout + done.stderr
    assert set(records(daemon, "SERVERS")) == {"own"}
    assert "invalid TLS record" not in daemon.log


@contextlib.contextmanager
def serving(command, *args):
    """Its port, and the lines that it writes."""
    lines = []
    server = subprocess.Popen((*command, "server", *map(str, args)), stdout=subprocess.PIPE, text=True)
    reader = threading.Thread(target=lambda: lines.extend(map(str.strip, server.stdout)))
    reader.start()
    try:
        wait_until(lambda: lines or server.poll() is not None, 30, what="the server's port")
        yield int(lines.pop(0)), lines
    finally:
        server.kill()
        server.wait()
        reader.join()


def keys_of(program, own):
    if program is not java:
        return own.cert, own.key
    file = OUT / "java" / "keys.p12"
    built(("openssl", "pkcs12", "-export", "-in", own.cert, "-inkey", own.key, "-passout", "pass:secret",
           "-out", file))
    return (file,)


@pytest.mark.limit(LIMIT_S)
@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("program", (go, java, rust))
def test_server(pgweir, postgres, own, program, suite):
    """Texts of any size go to it and come back, four clients at once, and it is told the end."""
    command = program()
    with serving(command, postgres.port, *keys_of(program, own)) as (port, lines):
        weir = pgweir(databases={"app": f"host=127.0.0.1 port={port}"}, server_tls_sslmode="require",
                      server_tls13_ciphers=suite, pool_mode="transaction")

        def work(seed):
            chance = random.Random(seed)
            with weir.client() as client:
                for _ in range(ROUNDS):
                    size = chance.choice((0, 1, 16383, 16384, 16385, chance.randrange(100000)))
                    text = chr(ord("a") + chance.randrange(26)) * size
                    assert client.query(f"SELECT '{text}'").rows == [[text]]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        used = records(weir, "SERVERS")
        assert used and set(used) == {"own"}
        weir.admin("RECONNECT app")
        wait_until(lambda: lines.count("closed") == len(used), what="the end of all servers")
    assert set(lines) == {"closed"}
    assert "invalid TLS record" not in weir.log


@pytest.mark.parametrize("suite", SUITES)
def test_python(weir, suite):
    """The bytes of the wire are cut anywhere, too."""
    daemon, chance = weir(suite), random.Random(suite)
    sock = socket.create_connection(("127.0.0.1", daemon.port), 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(special(SSL_REQUEST))
    assert sock.recv(1) == b"S"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    came, left = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(came, left)

    def flush():
        data = left.read()
        while data:
            count = chance.randrange(1, len(data) + 1)
            sock.sendall(data[:count])
            data = data[count:]

    def call(step, *args):
        while True:
            try:
                done = step(*args)
                flush()
                return done
            except ssl.SSLWantReadError:
                flush()
                came.write(sock.recv(chance.choice((1, 5, 100, 65536))))

    def answer():
        got = b""
        while not got.endswith(b"Z\0\0\0\5I"):
            got += call(tls.read, 65536)
        return got

    call(tls.do_handshake)
    call(tls.write, b"\0\0\0\x21\0\3\0\0user\0alice\0database\0app\0\0")
    answer()
    assert records(daemon) == ["own"]
    for _ in range(ROUNDS):
        text = b"x" * chance.choice((0, 1, 16383, 16384, 16385, chance.randrange(40000)))
        data = query(f"SELECT '{text.decode()}'")
        while data:
            count = chance.randrange(1, len(data) + 1)
            call(tls.write, data[:count])
            data = data[count:]
        assert len(text).to_bytes(4, "big") + text in answer()
    sock.close()


def test_openssl_s_server(pgweir, fake_server, own):
    """As a PostgreSQL with direct TLS, it changes its keys, and asks for ours."""
    port = free_port()
    server = subprocess.Popen(
        ("openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", own.cert, "-key", own.key, "-tls1_3",
         "-alpn", "postgresql"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    os.set_blocking(server.stdout.fileno(), False)
    got = all_of_it = b""

    def wait(what):
        nonlocal got

        def came():
            nonlocal got, all_of_it
            more = server.stdout.read() or b""
            got += more
            all_of_it += more
            return what in got
        wait_until(came, what=repr(what))
        got = got.split(what, 1)[1]

    def say(*parts):
        """The first letter of what is read at once may be a command: that of a notice is none."""
        server.stdin.write(b"".join((message("N", b"SNOTICE\0C00000\0Mx\0\0"), *parts)))
        server.stdin.flush()

    try:
        wait(b"ACCEPT")
        weir = pgweir(databases={"app": f"host=127.0.0.1 port={port}"}, server_tls_sslmode="require",
                      server_tls_negotiation="direct")
        client = weir.wire().startup()
        wait(b"alice\0")
        say(message("R", b"\0\0\0\0"), message("K", b"\0\0\0\1\0\0\0\2"), message("Z", b"I"))
        client.finish_login("alice")
        for number in range(20):
            server.stdin.write(b"K\n" if number % 2 else b"k\n")
            server.stdin.flush()
            client.send(query(f"number {number}"))
            wait(f"number {number}\0".encode())
            say(message("C", b"DONE %d\0" % number), message("Z", b"I"))
            assert [told.body for told in client.read_until("Z") if told.type == "C"] == [b"DONE %d\0" % number]
        assert records(weir, "SERVERS") == ["own"]
        server.stdin.write(b"Q\n")
        server.stdin.flush()
        all_of_it += server.communicate(timeout=30)[0]
        assert all_of_it.count(b"SSL_do_handshake -> 1") == 20, all_of_it
    finally:
        server.kill()
        server.wait()


def built_driver(name):
    (driver,) = [each for each in build.DRIVERS if each.name == name]
    missing = build.missing_tool(driver)
    if missing:
        pytest.skip(f"{name}: there is no {missing}")
    try:
        build.build(driver)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{name} cannot be had: {error}")
    return driver


@pytest.mark.limit(build.BUILD_LIMIT_S + RUN_LIMIT_S)
@pytest.mark.parametrize("name", ("pgjdbc", "pgx"))
def test_drivers_with_take_overs(pgweir, own, secure_postgres, name):
    """All that their programs do, with channel binding, while one process follows the other."""
    driver = built_driver(name)
    secure_postgres.query(TABLES)
    daemon = pgweir(postgres=secure_postgres, pool_mode="transaction", default_pool_size=3, server_round_robin=1,
                    auth_type="scram-sha-256", client_tls_sslmode="require", client_tls_cert_file=own.cert,
                    client_tls_key_file=own.key, server_tls_sslmode="require")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(call, driver, daemon.port, driver.variants[0], PGUSER="scram_user",
                          PGPASSWORD="scram secret", PGSSLMODE="require", PGCHANNELBINDING="require")
        while not run.done():
            assert daemon.take_over().wait(60) == 0
    for scenario in driver.scenarios.split():
        judge(run.result(), scenario)
    assert daemon.log.count("everything is handed over") == len(daemon.retired)
    assert "invalid TLS record" not in daemon.log
