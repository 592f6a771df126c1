# SPDX-License-Identifier: ISC
"""Clients that log in without a password, may ask or prepare something, and then hold their
connection.

They speak the protocol by themselves: thousands of libpq connections would cost more than what
is measured.
"""

import socket
import struct

LIMIT_S = 30


def _message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body


def _startup(user, database):
    body = struct.pack("!i", 3 << 16)
    body += b"user\0" + user.encode() + b"\0database\0" + database.encode() + b"\0\0"
    return _message(b"", body)


def _read_until_ready(sock):
    """Reads up to the ReadyForQuery that ends the login or the answer."""
    data = b""
    while True:
        data += sock.recv(65536) or b"E\0\0\0\4"
        at = 0
        while len(data) - at >= 5:
            length = struct.unpack_from("!i", data, at + 1)[0]
            if len(data) - at < length + 1:
                break
            if data[at:at + 1] == b"E":
                words = data[at + 5:at + length + 1].replace(b"\0", b" ")
                raise ConnectionError(words.decode(errors="replace") or "connection closed")
            if data[at:at + 1] == b"Z":
                return
            at += length + 1
        data = data[at:]


class IdleClients:
    """A context manager that holds `count` connections to 127.0.0.1:port."""

    def __init__(self, port, user, database, count):
        self.port, self.user, self.database, self.count = port, user, database, count
        self.sockets = []

    def __enter__(self):
        try:
            for _ in range(self.count):
                self.add(self.database)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failure):
        for sock in self.sockets:
            sock.close()
        self.sockets.clear()

    def add(self, database):
        sock = socket.create_connection(("127.0.0.1", self.port), LIMIT_S)
        self.sockets.append(sock)
        sock.sendall(_startup(self.user, database))
        _read_until_ready(sock)

    def ask_all(self):
        """Each sends one query and takes its answer."""
        for sock in self.sockets:
            sock.sendall(_message(b"Q", b"SELECT 1\0"))
            _read_until_ready(sock)

    def prepare_all(self, texts):
        """Each prepares all texts, under names of its own."""
        messages = b"".join(
            _message(b"P", b"s%d\0" % number + text.encode() + b"\0\0\0")
            for number, text in enumerate(texts)) + _message(b"S", b"")
        for sock in self.sockets:
            sock.sendall(messages)
            _read_until_ready(sock)
