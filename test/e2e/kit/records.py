# SPDX-License-Identifier: ISC
"""A peer whose TLS 1.3 records the test makes: of any kind and size, and good or bad.

    wire.sock = Records(wire.sock, context)

Python's TLS does the handshake; then the secrets in its key log are all that is needed.
"""

import ssl
import struct
import tempfile

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

ALERT, HANDSHAKE, DATA = 21, 22, 23
CLOSE_NOTIFY, UNEXPECTED_MESSAGE, BAD_RECORD_MAC = 0, 10, 20
KEY_UPDATE = b"\x18\0\0\1"
RECORD_MAX = 16384
SUITES = {"TLS_AES_128_GCM_SHA256": (AESGCM, hashes.SHA256, 16),
          "TLS_AES_256_GCM_SHA384": (AESGCM, hashes.SHA384, 32),
          "TLS_CHACHA20_POLY1305_SHA256": (ChaCha20Poly1305, hashes.SHA256, 32)}


class Way:
    """One direction."""

    def __init__(self, suite, secret):
        self._aead, self._hash, self._key_size = SUITES[suite]
        self._use(secret)

    def _expand(self, label, size):
        label = b"tls13 " + label
        info = struct.pack("!HB", size, len(label)) + label + b"\0"
        return HKDFExpand(self._hash(), size, info).derive(self._secret)

    def _use(self, secret):
        self._secret, self._number = secret, 0
        self._cipher = self._aead(self._expand(b"key", self._key_size))
        self._iv = int.from_bytes(self._expand(b"iv", 12), "big")

    def advance(self):
        self._use(self._expand(b"traffic upd", len(self._secret)))

    def apply(self, call, data, header):
        nonce = (self._iv ^ self._number).to_bytes(12, "big")
        self._number += 1
        return getattr(self._cipher, call)(nonce, data, header)


class Records:
    """Stands where the socket of a channel is."""

    def __init__(self, sock, context, is_server=False):
        self.sock = sock
        self.alert = None  # the last one of the other side: that is its end
        self.updates = 0  # of its keys
        self._data = b""
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if is_server:
            context.num_tickets = 0
        with tempfile.NamedTemporaryFile("r") as log:
            context.keylog_filename = log.name
            suite, self._raw = self._shake(context, is_server)
            secrets = dict(line.split()[::2] for line in log if "_TRAFFIC_SECRET_0 " in line)
        ways = [Way(suite, bytes.fromhex(secrets[side + "_TRAFFIC_SECRET_0"])) for side in ("CLIENT", "SERVER")]
        self._in, self._out = ways if is_server else ways[::-1]

    def _shake(self, context, is_server):
        """The suite, and what came after the handshake."""
        came, left = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls, is_over = context.wrap_bio(came, left, is_server), False
        while not is_over:
            try:
                tls.do_handshake()
                is_over = True
            except ssl.SSLWantReadError:
                pass
            self.sock.sendall(left.read())
            if not is_over:
                came.write(self.sock.recv(65536))
        return tls.cipher()[0], came.read()

    def __getattr__(self, name):
        return getattr(self.sock, name)

    # -- sending ---------------------------------------------------------------------------------

    def seal(self, kind, data, padding=0):
        inner = data + bytes((kind,)) + bytes(padding)
        header = struct.pack("!BHH", DATA, 0x303, len(inner) + 16)
        return header + self._out.apply("encrypt", inner, header)

    def key_update(self, asks=False, cuts=()):
        """The records of one, cut before these bytes of its five."""
        message, cuts = KEY_UPDATE + bytes((asks,)), (0, *cuts, 5)
        sealed = b"".join(self.seal(HANDSHAKE, message[begin:end]) for begin, end in zip(cuts, cuts[1:]))
        self._out.advance()
        return sealed

    def sendall(self, data):
        self.sock.sendall(b"".join(self.seal(DATA, data[at:at + RECORD_MAX])
                                   for at in range(0, len(data), RECORD_MAX)))

    # -- receiving -------------------------------------------------------------------------------

    def recv(self, size):
        """b"": an alert or the end."""
        while not self._data and self.alert is None and self._has(5) and self._has(
                5 + int.from_bytes(self._raw[3:5], "big")):
            self._open(5 + int.from_bytes(self._raw[3:5], "big"))
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def _has(self, size):
        while len(self._raw) < size:
            more = self.sock.recv(65536)
            if not more:
                return False
            self._raw += more
        return True

    def _open(self, size):
        record, self._raw = self._raw[:size], self._raw[size:]
        inner = self._in.apply("decrypt", record[5:], record[:5]).rstrip(b"\0")
        kind, content = inner[-1], inner[:-1]
        if kind == DATA:
            self._data += content
        elif kind == ALERT:
            self.alert = content[1]
        elif content[:4] == KEY_UPDATE:  # else a ticket
            self.updates += 1
            self._in.advance()
