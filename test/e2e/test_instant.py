# SPDX-License-Identifier: ISC
"""The stand-in for PostgreSQL of the benchmark (test/bench/instant.c): clients take it for one."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading

import psycopg
import pytest

from .kit.account import free_port
from .kit.daemon import find_binary
from .kit.postgres import find_bin
from .kit.wait import LIMIT, wait_until
from .kit.wire import (SSL_REQUEST, Wire, bind, describe, execute, extended, parse, query, special,
                       startup, sync)

BSC = "BEGIN;\nSELECT 1;\nCOMMIT;\n"
THREADS = 3
QUIET = {"session_state": "off"}  # it cannot say what session state a server has


class Instant:
    """The running program, and the counts that it prints."""

    def __init__(self, account, place, *words):
        program = pathlib.Path(find_binary()).parent / "test" / "bench" / "instant"
        if not program.exists():
            pytest.skip(f"no {program}")
        # Other users may have no access to the checkout.
        copy = account.own(shutil.copy(program, os.path.join(place, "instant.program")), 0o755)
        self.port = free_port()
        self.process = account.popen([copy, "-t", str(THREADS), *words, str(self.port)],
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_until(self.accepts, what="the stand-in to listen")
        os.unlink(copy)

    def accepts(self):
        assert self.process.poll() is None, self.process.stdout.read()
        with contextlib.suppress(OSError):
            Wire(("127.0.0.1", self.port)).close()
            return True
        return False

    @property
    def conninfo(self):
        return f"host=127.0.0.1 port={self.port} dbname=any user=somebody"

    def counts(self):
        self.process.send_signal(signal.SIGUSR1)
        return self.parse(self.process.stdout.readline())

    @staticmethod
    def parse(line):
        found = re.fullmatch(r"connections=(\d+) open=(\d+) queries=(\d+)\n", line)
        assert found, line
        return dict(zip(("connections", "open", "queries"), map(int, found.groups())))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        out = self.process.communicate(timeout=LIMIT)[0]
        assert self.process.returncode == 0, out
        return self.parse(out)


@pytest.fixture
def instant(account, place):
    """Starts the program; at the end it must stop without a report of the sanitizers."""
    started = []

    def start(*words):
        started.append(Instant(account, place, *words))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.end()
        one.process.stdout.close()


@pytest.fixture
def script(account, place):
    """Writes a script for pgbench; returns its path."""
    paths = []

    def write(text):
        paths.append(account.write(os.path.join(place, f"script{len(paths)}.sql"), text))
        return paths[-1]

    yield write
    for path in paths:
        os.unlink(path)


def run(account, *words, sslmode="disable"):
    done = account.run([os.path.join(find_bin(), words[0]), *words[1:]], 
                       env={"PGSSLMODE": sslmode, "HOME": "/"})
    assert done.returncode == 0, done.stdout
    return done.stdout


# -- programs and drivers --------------------------------------------------------------------------


def test_psql(instant, account):
    one = instant()
    words = [word for text in ("SELECT 1; SELECT 2", "BEGIN", "SET DateStyle TO 'German'",
                               "DISCARD ALL", "COMMIT", "VACUUM", "-- nothing")
             for word in ("-c", text)]
    assert run(account, "psql", "-XAt", *words, "-d", one.conninfo) == (
        "1\n1\nBEGIN\nSET\nDISCARD ALL\nCOMMIT\nOK\n")
    assert one.end()["queries"] == 7


@pytest.mark.parametrize("protocol", ("simple", "extended", "prepared"))
@pytest.mark.parametrize("sslmode", ("disable", "require"))
def test_pgbench(instant, account, own, script, protocol, sslmode):
    one = instant("-k", own.key, "-c", own.cert)
    out = run(account, "pgbench", "-n", "-M", protocol, "-c", "8", "-j", "2", "-t", "20",
              "-f", script(BSC), "-f", script("\\set a 7\nSELECT a FROM some WHERE b = :a;\n"),
              one.conninfo, sslmode=sslmode)
    assert "actually processed: 160/160" in out
    assert "failed transactions: 0 " in out
    counts = one.end()
    # 160 transactions of 3 statements or of 1; pgbench decides by chance.
    assert 160 <= counts["queries"] <= 480
    assert counts["connections"] >= 8


def test_psycopg(instant):
    one = instant()
    with psycopg.connect(one.conninfo, sslmode="disable") as connection:
        assert connection.execute("SELECT %s", (1,), prepare=True).fetchall() == [("1",)]
        assert connection.execute("SELECT 1", binary=True).fetchall() == [("1",)]
        assert connection.info.transaction_status.name == "INTRANS"
        connection.commit()
        assert connection.info.transaction_status.name == "IDLE"
        with connection.pipeline():
            cursors = [connection.execute("SELECT %s", (i,)) for i in range(500)]
        assert all(cursor.fetchone() == ("1",) for cursor in cursors)
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute("COPY some FROM STDIN")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        text = "SELECT '" + "; COMMIT; " * 90000 + "'"
        assert len(connection.execute(text).fetchall()) == 1
        assert connection.info.transaction_status.name == "INTRANS"


@pytest.mark.parametrize("mode", ("transaction", "session"))
def test_behind_pgweir(instant, pgweir, account, script, mode):
    one = instant()
    weir = pgweir(databases={"app": f"host=127.0.0.1 port={one.port}"}, pool_mode=mode,
                  default_pool_size=4 if mode == "transaction" else 8, **QUIET)
    path = script(BSC)
    for protocol in ("simple", "extended", "prepared"):
        out = run(account, "pgbench", "-n", "-M", protocol, "-c", "8", "-j", "8", "-t", "20", "-f", path,
                  f"host=127.0.0.1 port={weir.port} dbname=app user=alice")
        assert "actually processed: 160/160" in out
    with weir.connect(application_name="some") as connection:
        connection.execute("SET DateStyle = 'SQL, DMY'")
        assert connection.info.parameter_status("DateStyle") == "SQL, DMY"
        assert connection.execute("SELECT 1").fetchall() == [("1",)]
    assert not weir.warnings and "ERROR" not in weir.log


# -- messages --------------------------------------------------------------------------------------


@pytest.fixture
def wire(instant):
    client = Wire(("127.0.0.1", instant().port))
    client.login("somebody", "any")
    yield client
    client.close()


def kinds_until_ready(client):
    return "".join(message.type for message in client.read_until("Z"))


def test_after_an_error_the_extended_protocol_skips_to_sync(wire):
    wire.send(bind(name="unknown"), execute(), parse("SELECT 1", "a"), sync())
    assert kinds_until_ready(wire) == "EZ"
    wire.send(bind(name="a"), sync())
    assert kinds_until_ready(wire) == "EZ"
    wire.send(parse("SELECT $2", "a"), describe("S", "a"), bind((1, 2), "a"), describe(),
              execute(), sync())
    assert kinds_until_ready(wire) == "1tT2TDCZ"


def test_an_empty_text_and_too_many_statements(wire):
    wire.send(query(" ; ; "))
    assert kinds_until_ready(wire) == "IZ"
    wire.send(query("SELECT 1;" * 1001))
    assert kinds_until_ready(wire) == "TDC" * 1000 + "EZ"


def test_answers_to_a_client_that_does_not_read(wire):
    """More than the sockets can hold: it stops reading, and loses nothing."""
    text = query("SELECT 1;" * 1000)
    writer = threading.Thread(target=lambda: wire.send(*[text] * 200))
    writer.start()
    for _ in range(200):
        assert kinds_until_ready(wire) == "TDC" * 1000 + "Z"
    writer.join(LIMIT)


def test_messages_byte_by_byte(wire):
    wire.send_slowly(query("BEGIN") + extended("SELECT 1"))
    assert kinds_until_ready(wire) == "CZ"
    assert kinds_until_ready(wire) == "12TDCZ"


@pytest.mark.parametrize("data", (b"Q\0\0\0\3", b"Q\x7f\0\0\0", b"Q\0\0\0\5x", b"?\0\0\0\4"))
def test_a_malformed_message_ends_the_connection(wire, data):
    wire.send(data)
    assert "".join(message.type for message in wire.read_to_end()) == "E"


def test_bytes_behind_an_ssl_request_end_the_connection(instant, own):
    one = instant("-k", own.key, "-c", own.cert)
    with Wire(("127.0.0.1", one.port)) as client:
        client.send(special(SSL_REQUEST), startup(user="a", database="b"))
        assert client.take(1) == b"S"
        client.wait_closed()


def test_it_forgets_connections_that_ended(instant):
    one = instant()
    clients = [Wire(("127.0.0.1", one.port)).login("a", "b") for _ in range(20)]
    assert one.counts()["open"] >= 20
    for client in clients:
        client.close()
    wait_until(lambda: one.counts()["open"] == 0, what="the end of all connections")
