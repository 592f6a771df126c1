# SPDX-License-Identifier: ISC
"""A scripted client that speaks the protocol byte by byte.

It can send what no real driver would send, and shows the exact response. All calls block with a
time limit; a closed connection raises Closed, an ErrorResponse during the login raises Refused.
"""

import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct
from collections import namedtuple

from .wait import LIMIT

PROTOCOL_3_0 = 0x30000
PROTOCOL_3_1 = 0x30001  # reserved, not used by any version
PROTOCOL_3_2 = 0x30002
PROTOCOL_GREASE = 0x3270f  # 3.9999: requested by libpq to test protocol negotiation
SSL_REQUEST = 80877103
GSSENC_REQUEST = 80877104
CANCEL_REQUEST = 80877102


class Closed(Exception):
    """The other side has closed the connection."""


class Refused(Exception):
    """An ErrorResponse instead of a successful login."""

    def __init__(self, fields):
        self.fields = fields
        self.text = fields.get("M")
        self.sqlstate = fields.get("C")
        self.severity = fields.get("S")
        super().__init__(f"{self.severity} {self.sqlstate}: {self.text}")


class Message(namedtuple("Message", "type body")):
    """One message: its type as a one-letter text, and the body without the length."""

    @property
    def fields(self):
        return error_fields(self.body)

    @property
    def row(self):
        return data_row(self.body)

    @property
    def columns(self):
        return row_description(self.body)

    @property
    def tag(self):
        return self.body.rstrip(b"\0").decode()


# -- building ------------------------------------------------------------------------------------


def cstr(text):
    return (text if isinstance(text, bytes) else text.encode()) + b"\0"


def message(kind, body=b""):
    return kind.encode() + struct.pack("!I", len(body) + 4) + body


def startup(version=PROTOCOL_3_0, terminator=b"\0", **params):
    body = struct.pack("!I", version)
    for name, value in params.items():
        body += cstr(name) + cstr(value)
    body += terminator
    return struct.pack("!I", len(body) + 4) + body


def special(code, rest=b""):
    """SSLRequest, GSSENCRequest, CancelRequest: length, code, and data."""
    return struct.pack("!II", 8 + len(rest), code) + rest


def query(sql):
    return message("Q", cstr(sql))


def parse(sql, name="", types=()):
    return message("P", cstr(name) + cstr(sql) + struct.pack(f"!H{len(types)}I", len(types), *types))


def packed(values):
    """The values of a Bind or of a row, as texts unless they are bytes."""
    body = struct.pack("!H", len(values))
    for value in values:
        if value is None:
            body += struct.pack("!i", -1)
        else:
            raw = value if isinstance(value, bytes) else str(value).encode()
            body += struct.pack("!I", len(raw)) + raw
    return body


def bind(values=(), name="", portal="", result_format=0, is_binary=False, result_formats=None):
    """result_formats: one for each column."""
    results = (result_format,) if result_formats is None else result_formats
    formats = struct.pack("!HH", 1, 1) if is_binary else struct.pack("!H", 0)
    return message("B", cstr(portal) + cstr(name) + formats + packed(values)
                   + struct.pack(f"!H{len(results)}H", len(results), *results))


def describe(what="P", name=""):
    return message("D", what.encode() + cstr(name))


def execute(portal="", limit=0):
    return message("E", cstr(portal) + struct.pack("!I", limit))


def close(what="S", name=""):
    return message("C", what.encode() + cstr(name))


def sync():
    return message("S")


def flush():
    return message("H")


def terminate():
    return message("X")


def extended(sql, values=()):
    """A complete unnamed statement, including Sync."""
    return parse(sql) + bind(values) + describe() + execute() + sync()


# -- reading -------------------------------------------------------------------------------------


def error_fields(body):
    fields = {}
    for part in body.rstrip(b"\0").split(b"\0"):
        if part:
            fields[chr(part[0])] = part[1:].decode(errors="replace")
    return fields


def data_row(body):
    (count,) = struct.unpack_from("!H", body)
    at, row = 2, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", body, at)
        at += 4
        row.append(None if length < 0 else body[at:at + length].decode(errors="replace"))
        at += max(length, 0)
    return row


def parameter_types(body):
    """The OIDs of a ParameterDescription."""
    (count,) = struct.unpack_from("!H", body)
    return struct.unpack_from(f"!{count}I", body, 2)


Column = namedtuple("Column", "name table attribute type size modifier format")


def row_description(body):
    (count,) = struct.unpack_from("!H", body)
    at, columns = 2, []
    for _ in range(count):
        end = body.index(b"\0", at)
        rest = struct.unpack_from("!IHIhih", body, end + 1)
        columns.append(Column(body[at:end].decode(), *rest))
        at = end + 1 + 18
    return columns


class Result(namedtuple("Result", "columns rows tags errors notices messages status")):
    """All messages up to ReadyForQuery."""

    @property
    def error(self):
        return self.errors[0] if self.errors else None

    @property
    def types(self):
        return "".join(got.type for got in self.messages)

    def dicts(self):
        names = [column.name for column in self.columns]
        return [dict(zip(names, row)) for row in self.rows]


def collect(messages):
    columns, rows, tags, errors, notices, status = [], [], [], [], [], None
    for got in messages:
        if got.type == "T":
            columns = got.columns
        elif got.type == "D":
            rows.append(got.row)
        elif got.type == "C":
            tags.append(got.tag)
        elif got.type == "E":
            errors.append(got.fields)
        elif got.type == "N":
            notices.append(got.fields)
        elif got.type == "Z":
            status = got.body.decode()
    return Result(columns, rows, tags, errors, notices, messages, status)


class Channel:
    """A socket that is read message by message."""

    def __init__(self, sock, limit=LIMIT):
        self.sock = sock
        self.limit = limit
        # A bytearray, so that its front can be deleted without copying the rest.
        self.buffer = bytearray()
        sock.settimeout(limit)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            # As in libpq and PostgreSQL; otherwise a second send waits for a delayed ACK.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def reset(self):
        """Closes with a reset, like a crashed machine: data in flight is lost."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def send(self, *parts):
        self.sock.sendall(b"".join(parts))

    def send_slowly(self, data, size=1):
        """Sends in pieces of `size` bytes, each in its own packet."""
        for at in range(0, len(data), size):
            self.sock.sendall(data[at:at + size])

    def take(self, size):
        """Reads exactly `count` bytes."""
        while len(self.buffer) < size:
            try:
                more = self.sock.recv(65536)
            except ConnectionResetError as gone:
                raise Closed("reset by the other side") from gone
            except socket.timeout as late:
                raise TimeoutError(f"nothing came within {self.limit} s") from late
            if not more:
                raise Closed(f"closed with {len(self.buffer)} bytes unread")
            self.buffer += more
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken

    def read(self):
        kind, length = struct.unpack("!cI", self.take(5))
        return Message(kind.decode("latin-1"), self.take(length - 4))

    def read_until(self, kind):
        """Reads everything up to and including the first message of this type."""
        messages = []
        while True:
            messages.append(self.read())
            if messages[-1].type == kind:
                return messages

    def read_to_end(self):
        """Reads everything up to the close; returns all messages."""
        messages = []
        try:
            while True:
                messages.append(self.read())
        except Closed:
            return messages

    def expect(self, kinds):
        """Reads as many messages as there are letters and checks the types."""
        messages = []
        for kind in kinds:
            got = self.read()
            assert got.type == kind, \
                f"expected {kind!r} of {kinds!r}, got {got.type!r} {got.body[:200]!r}"
            messages.append(got)
        return messages[-1]

    def is_closed(self):
        """Whether the other side has closed; data received before is kept."""
        self.sock.settimeout(0)
        try:
            more = self.sock.recv(65536)
            self.buffer += more
            return not more
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except ConnectionResetError:
            return True
        finally:
            self.sock.settimeout(self.limit)

    def wait_closed(self):
        self.read_to_end()


class Wire(Channel):
    """The client side of a connection."""

    def __init__(self, address, limit=LIMIT, source=None):
        """address: (host, port), or the path of a Unix socket (abstract: beginning with NUL).

        source: (host, port) to come from.
        """
        family = socket.AF_UNIX
        if not isinstance(address, str):
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.settimeout(limit)
        try:
            if source:
                sock.bind(source)
            sock.connect(address)
        except BaseException:
            sock.close()
            raise
        super().__init__(sock, limit)
        self.address = address
        self.parameters = {}
        self.key = None
        self.notices = []
        self.told = []  # names of the parameters reported at login, in order
        self.auth_codes = []

    def startup(self, user="alice", database="app", **params):
        self.send(startup(user=user, database=database, **params))
        return self

    def login(self, user="alice", database="app", password=None, **params):
        """Sends the startup packet and responds to all authentication requests, up to
        ReadyForQuery.
        """
        self.startup(user, database, **params)
        return self.finish_login(user, password)

    def finish_login(self, user, password=None):
        while True:
            got = self.read()
            if got.type == "R":
                self._authenticate(got.body, user, password)
            elif got.type == "S":
                name, value = got.body[:-1].split(b"\0")
                self.parameters[name.decode()] = value.decode(errors="surrogateescape")
                self.told.append(name.decode())
            elif got.type == "K":
                self.key = got.body
            elif got.type == "N":
                self.notices.append(got.fields)
            elif got.type == "E":
                raise Refused(got.fields)
            elif got.type == "Z":
                assert got.body == b"I", got.body
                return self
            elif got.type != "v":
                raise AssertionError(f"unexpected in a login: {got}")

    def _authenticate(self, body, user, password):
        (code,) = struct.unpack_from("!I", body)
        self.auth_codes.append(code)
        if code == 3:
            self.send(message("p", cstr(password)))
        elif code == 5:
            self.send(message("p", cstr(md5_answer(user, password, body[4:8]))))
        elif code == 10:
            assert b"SCRAM-SHA-256\0" in body
            self.scram = Scram(password)
            self.send(sasl_initial(self.scram.first()))
        elif code == 11:
            self.send(message("p", self.scram.final(body[4:])))
        elif code == 12:
            assert self.scram.is_proven(body[4:]), "the server's SCRAM signature is wrong"
        elif code != 0:
            raise AssertionError(f"unexpected authentication request {code}")

    def read_result(self):
        return collect(self.read_until("Z"))

    def query(self, sql):
        self.send(query(sql))
        return self.read_result()

    def ask(self, *parts):
        """Sends messages that end with a Sync or a Query and returns the response up to 'Z'."""
        self.send(*parts)
        return self.read_result()

    def value(self, sql):
        result = self.query(sql)
        assert not result.errors, result.error
        return result.rows[0][0]

    def read_refusal(self):
        """Reads the ErrorResponse that must precede the close, and the close."""
        last = self.read_to_end()
        errors = [got for got in last if got.type == "E"]
        assert errors, f"closed without an error: {last}"
        assert last[-1].type == "E", f"something came after the error: {last}"
        return Refused(errors[-1].fields)


def refusal(address, user="alice", database="app", password=None, **params):
    """The error of a refused login; fails if the login succeeds."""
    with Wire(address) as wire:
        try:
            wire.login(user, database, password, **params)
        except Refused as refused:
            assert refused.severity == "FATAL", refused
            wire.wait_closed()
            return refused
    raise AssertionError(f"the login of {user!r} to {database!r} was accepted")


def send_cancel(address, key):
    """Sends a cancel request; returns when the pooler has closed the connection."""
    with Wire(address) as wire:
        wire.send(special(CANCEL_REQUEST, key))
        assert wire.read_to_end() == []


# -- authentication ------------------------------------------------------------------------------


def md5_secret(user, password):
    return "md5" + hashlib.md5((password + user).encode()).hexdigest()


def md5_answer(user, password, salt):
    inner = hashlib.md5((password + user).encode()).hexdigest().encode()
    return "md5" + hashlib.md5(inner + salt).hexdigest()


def scram_secret(password, salt=b"0123456789abcdef", iterations=4096):
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    stored = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
    server = _hmac(salted, b"Server Key")
    return (f"SCRAM-SHA-256${iterations}:{_b64(salt)}${_b64(stored)}:{_b64(server)}")


def _hmac(key, text):
    return hmac.new(key, text, hashlib.sha256).digest()


def _b64(raw):
    return base64.b64encode(raw).decode()


def sasl_initial(first, mechanism="SCRAM-SHA-256"):
    return message("p", cstr(mechanism) + struct.pack("!I", len(first)) + first)


class Scram:
    """The client side of SCRAM-SHA-256, implemented here so that a test can manipulate it."""

    def __init__(self, password, gs2=b"n,,", user=b""):
        self.password = password.encode()
        self.gs2 = gs2
        self.nonce = _b64(os.urandom(18)).encode()
        self.bare = b"n=" + user + b",r=" + self.nonce

    def first(self):
        return self.gs2 + self.bare

    def final(self, server_first):
        parts = dict(part.split(b"=", 1) for part in server_first.split(b","))
        assert parts[b"r"].startswith(self.nonce)
        self.server_first = server_first
        self.iterations = int(parts[b"i"])
        self.salt = base64.b64decode(parts[b"s"])
        salted = hashlib.pbkdf2_hmac("sha256", self.password, self.salt, self.iterations)
        without = b"c=" + base64.b64encode(self.gs2) + b",r=" + parts[b"r"]
        everything = self.bare + b"," + server_first + b"," + without
        client_key = _hmac(salted, b"Client Key")
        signature = _hmac(hashlib.sha256(client_key).digest(), everything)
        proof = bytes(a ^ b for a, b in zip(client_key, signature))
        self.server_signature = _hmac(_hmac(salted, b"Server Key"), everything)
        return without + b",p=" + base64.b64encode(proof)

    def is_proven(self, server_final):
        return server_final == b"v=" + base64.b64encode(self.server_signature)


# -- one statement, in three ways ---------------------------------------------------------------------


def run_simple(client, text):
    return client.query(text)


def run_unnamed(client, text):
    return client.ask(extended(text))


def run_named(client, text):
    client.ask(parse(text, "s"), sync())
    result = client.ask(bind(name="s"), execute(), sync())
    client.ask(close("S", "s"), sync())
    return result
