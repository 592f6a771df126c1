# SPDX-License-Identifier: ISC
"""Clients that log in without a password, may run a query or prepare statements, and then keep
their connection open.

They implement the protocol themselves: thousands of libpq connections would cost more than the
measured effect.
"""

import socket
import ssl
import struct

LIMIT_S = 30
SSL_REQUEST = struct.pack("!ii", 8, 80877103)


def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body


def startup(user, database):
    body = struct.pack("!i", 3 << 16)
    body += b"user\0" + user.encode() + b"\0database\0" + database.encode() + b"\0\0"
    return message(b"", body)


def client_context():
    """TLS settings of clients that do not verify the server certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def connect(port, context=None):
    """A connection to 127.0.0.1, encrypted if there is a context."""
    sock = socket.create_connection(("127.0.0.1", port), LIMIT_S)
    if not context:
        return sock
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(SSL_REQUEST)
    if sock.recv(1) != b"S":
        sock.close()
        raise ConnectionError("no TLS there")
    return context.wrap_socket(sock)


class IdleClients:
    """A context manager that holds `count` connections to 127.0.0.1:port."""

    def __init__(self, port, user, database, count, context=None):
        self.port, self.user, self.database, self.count = port, user, database, count
        self.context = context
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

    @staticmethod
    def read_until_ready(sock):
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

    def add(self, database):
        sock = connect(self.port, self.context)
        self.sockets.append(sock)
        sock.sendall(startup(self.user, database))
        self.read_until_ready(sock)

    def ask_all(self):
        """Each client sends one query and reads the response."""
        for sock in self.sockets:
            sock.sendall(message(b"Q", b"SELECT 1\0"))
            self.read_until_ready(sock)

    def prepare_all(self, texts):
        """Each client prepares all texts, with its own statement names."""
        messages = b"".join(
            message(b"P", b"s%d\0" % number + text.encode() + b"\0\0\0")
            for number, text in enumerate(texts)) + message(b"S", b"")
        for sock in self.sockets:
            sock.sendall(messages)
            self.read_until_ready(sock)
