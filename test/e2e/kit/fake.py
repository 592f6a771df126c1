# SPDX-License-Identifier: ISC
"""A scripted server that can send what no PostgreSQL would send.

A test either handles each connection itself,

    with fake.accept() as server:
        server.login()
        server.expect("Q")
        server.send(...)

so that it reads as a dialogue, or serves every connection by a script in the background with
fake.serve(script). Cancel requests are stored separately, in `cancels`.
"""

import base64
import hashlib
import hmac
import select
import socket
import struct
import threading

from .wait import LIMIT, wait_until
from .wire import (CANCEL_REQUEST, GSSENC_REQUEST, SSL_REQUEST, Channel, Closed, cstr, message, packed)

PARAMETERS = {
    "server_version": "15.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "TimeZone": "GMT",
    "IntervalStyle": "postgres",
    "standard_conforming_strings": "on",
    "integer_datetimes": "on",
    "application_name": "",
}

KEY = struct.pack("!II", 4711, 815)


def auth(code, rest=b""):
    return message("R", struct.pack("!I", code) + rest)


def parameter(name, value):
    return message("S", cstr(name) + cstr(value))


def ready(status="I"):
    return message("Z", status.encode())


def complete(tag):
    return message("C", cstr(tag))


def columns(*names):
    body = struct.pack("!H", len(names))
    for name in names:
        body += cstr(name) + struct.pack("!IHIhih", 0, 0, 25, -1, -1, 0)
    return message("T", body)


def row(*values):
    return message("D", packed(values))


def error(text, sqlstate="XX000", severity="ERROR", routine=None):
    """`routine`: of PostgreSQL's source; an error that a pooler has made does not name one."""
    fields = [("S", severity), ("V", severity), ("C", sqlstate), ("M", text)]
    fields += [("F", "postgres.c"), ("L", "3300"), ("R", routine)] if routine else []
    return message("E", b"".join(k.encode() + cstr(v) for k, v in fields) + b"\0")


def notice(text, sqlstate="00000", severity="NOTICE"):
    fields = (("S", severity), ("V", severity), ("C", sqlstate), ("M", text))
    return message("N", b"".join(k.encode() + cstr(v) for k, v in fields) + b"\0")


def answer(*values, status="I"):
    """The complete response to a simple query with one row."""
    names = [f"c{n}" for n in range(len(values))]
    return columns(*names) + row(*values) + complete("SELECT 1") + ready(status)


class ServerChannel(Channel):
    """The server's side of one connection."""

    def __init__(self, sock, limit=LIMIT):
        super().__init__(sock, limit)
        self.parameters = None

    def read_startup(self):
        """The startup packet's parameters; encryption is declined. None: a cancel request."""
        while True:
            (length, code) = struct.unpack("!II", self.take(8))
            rest = self.take(length - 8)
            if code in (SSL_REQUEST, GSSENC_REQUEST):
                self.send(b"N")
                continue
            if code == CANCEL_REQUEST:
                self.cancel_key = rest
                return None
            parts = rest.rstrip(b"\0").decode().split("\0")
            parts += [""] * (len(parts) % 2)
            self.version = code
            self.parameters = dict(zip(parts[::2], parts[1::2]))
            return self.parameters

    def welcome(self, status="I", key=KEY, **parameters):
        """All messages after successful authentication."""
        said = dict(PARAMETERS, **parameters)
        self.send(auth(0), *(parameter(*pair) for pair in said.items()),
                  message("K", key), ready(status))

    def login(self, **parameters):
        """Startup and welcome, without a password request."""
        if self.parameters is None:
            self.read_startup()
        self.welcome(**parameters)
        return self

    def ask_password(self):
        """The response to a request for a clear-text password; b"" if there is none."""
        self.send(auth(3))
        return self.expect("p").body[:-1]

    def ask_scram(self, secret):
        """SCRAM-SHA-256 up to the client proof, with a secret as in pg_authid. Returns whether it
        is valid.
        """
        offer, (stored, self.scram_server_key) = secret.split("$")[1], [
            base64.b64decode(key) for key in secret.split("$")[2].split(":")]
        rounds, salt = offer.split(":")
        self.send(auth(10, b"SCRAM-SHA-256\0\0"))
        bare = self.expect("p").body.partition(b"n,,")[2]
        nonce = bare.rpartition(b"r=")[2] + b"more"
        first = b"r=%s,s=%s,i=%s" % (nonce, salt.encode(), rounds.encode())
        self.send(auth(11, first))
        without, _, proof = self.expect("p").body.rpartition(b",p=")
        self.scram_said = b",".join((bare, first, without))
        signature = hmac.digest(stored, self.scram_said, "sha256")
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature))
        return hashlib.sha256(key).digest() == stored

    def prove_scram(self):
        """Sends the server signature, after ask_scram()."""
        said = hmac.digest(self.scram_server_key, self.scram_said, "sha256")
        self.send(auth(12, b"v=" + base64.b64encode(said)))

    def answer_queries(self, reply=None):
        """Responds to simple queries until the connection ends: with reply(sql), or else one row
        '1'.

        The pooler's internal queries (SET, the reset query, the empty query) get plain responses.
        """
        while True:
            got = self.read()
            if got.type == "X":
                return
            if got.type != "Q":
                raise AssertionError(f"the script knows simple queries only, not {got}")
            sql = got.body[:-1].decode()
            if sql.strip(" ;") == "":
                self.send(message("I"), ready())
            elif sql.startswith("SET "):
                self.send(*(complete("SET") for part in sql.split(";") if part.strip()), ready())
            elif sql.startswith("DISCARD"):
                self.send(complete("DISCARD ALL"), ready())
            else:
                self.send(reply(sql) if reply else answer("1"))


class FakeServer:
    def __init__(self, limit=LIMIT, host="127.0.0.1", port=0):
        self.limit = limit
        self.listener = socket.create_server((host, port), backlog=128)
        self.listener.settimeout(limit)
        self.host, self.port = self.listener.getsockname()
        self.cancels = []
        self.failures = []
        self.accepted = []
        self._threads = []
        self._stopping = False

    @property
    def entry(self):
        """The value of an entry in [databases]."""
        return f"host={self.host} port={self.port}"

    def accept(self):
        """The next connection, after its startup packet; cancel requests are stored in `cancels`.
        """
        while True:
            channel = self.accept_raw()
            if channel.read_startup() is not None:
                return channel
            self.cancels.append(channel.cancel_key)
            channel.close()

    def accept_raw(self):
        """The next connection, before anything is read."""
        try:
            sock, _ = self.listener.accept()
        except socket.timeout as late:
            raise TimeoutError(f"no connection came within {self.limit} s") from late
        channel = ServerChannel(sock, self.limit)
        self.accepted.append(channel)
        return channel

    def has_caller(self):
        """Whether a connection waits to be accepted."""
        return bool(select.select([self.listener], [], [], 0)[0])

    def serve(self, script):
        """Runs script(channel) in a thread for each connection, after its startup packet."""
        thread = threading.Thread(target=self._accept_all, args=(script,), daemon=True)
        self._threads.append(thread)
        thread.start()
        return self

    def _accept_all(self, script):
        while not self._stopping:
            try:
                channel = self.accept()
            except (TimeoutError, Closed):
                continue
            except OSError:
                return
            worker = threading.Thread(target=self._run, args=(script, channel), daemon=True)
            self._threads.append(worker)
            worker.start()

    def _run(self, script, channel):
        try:
            script(channel)
        except (Closed, OSError):
            pass
        except Exception as failure:  # raised in close(), where the test can see it
            self.failures.append(failure)
        finally:
            channel.close()

    def wait_cancel(self):
        """Waits for the first cancel request and returns its key; for servers started by serve().
        """
        return wait_until(lambda: self.cancels and self.cancels[0], what="a cancel request")

    def close(self):
        self._stopping = True
        # Wakes accept() in the thread; close() alone would not.
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        for channel in self.accepted:
            try:
                channel.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            channel.close()
        for thread in self._threads:
            thread.join(LIMIT)
        if self.failures:
            raise self.failures[0]
