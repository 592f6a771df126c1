# SPDX-License-Identifier: ISC
"""Hostile peers: clients without a password, logged-in clients, a PostgreSQL that sends wrong
messages.

None of them may see a row of another client, and none may disturb the honest clients, which check
their results.
"""

import os
import socket
import struct

from e2e.kit import fake
from e2e.kit.wire import (CANCEL_REQUEST, GSSENC_REQUEST, PROTOCOL_GREASE, SSL_REQUEST, Closed,
                          Refused, Scram, Wire, bind, cstr, describe, execute, message, parse,
                          query, sasl_initial, special, startup, sync)

from .scene import Actor, Finding

SHORT = 20  # seconds that a hostile peer waits for an answer


class Stranger(Actor):
    """A client without a password. It must never get more than an error."""

    pause = 0.01

    def step(self):
        attack = self.rng.choice(self.attacks)
        wire = Wire(self.scene.weir.address, SHORT)
        try:
            attack(self, wire)
            if self.rng.random() < 0.3:
                wire.reset()
                return
            wire.sock.shutdown(socket.SHUT_WR)
            for got in self.read_all(wire):
                if got[:1] in (b"D", b"d"):
                    raise Finding(f"{attack.__name__} was answered with rows: {got[:200]}")
        except (Closed, ConnectionError, BrokenPipeError):
            pass
        finally:
            wire.close()
            self.scene.count("strangers")

    @staticmethod
    def read_all(wire):
        """The received messages, as bytes; bytes that are no message are one piece."""
        raw = wire.buffer
        try:
            while True:
                more = wire.sock.recv(65536)
                if not more:
                    break
                raw += more
        except ConnectionError:
            pass
        while len(raw) >= 5:
            size = 1 + struct.unpack_from("!I", raw, 1)[0]
            yield raw[:size]
            raw = raw[size:]
        if raw:
            yield raw

    def noise(self, wire):
        wire.send(os.urandom(self.rng.choice((1, 7, 8, 9, 100, 5000))))

    def mutated(self, wire):
        """A startup packet with some bytes changed."""
        sent = bytearray(startup(user="plain_user", database="app", application_name="x" * 40))
        for _ in range(self.rng.randint(1, 6)):
            sent[self.rng.randrange(len(sent))] = self.rng.randrange(256)
        wire.send(bytes(sent))

    def lengths(self, wire):
        length = self.rng.choice((0, 1, 3, 4, 7, 8, 9, 10001, 65536, 0x7fffffff, 0x80000000,
                                  0xffffffff))
        wire.send(struct.pack("!II", length, 0x30000) + b"x" * self.rng.choice((0, 100, 70000)))

    def many_parameters(self, wire):
        count = self.rng.choice((100, 1000, 13000))
        body = struct.pack("!I", 0x30000) + cstr("user") + cstr("plain_user")
        body += b"".join(cstr(f"a.{number}") + b"\0" for number in range(count)) + b"\0"
        wire.send(struct.pack("!I", len(body) + 4) + body)

    def options(self, wire):
        text = self.rng.choice(("-c=", "-c", "--=", "--x", "-c a=\\", "-c " * 3000, "\\" * 3000,
                                "-c a.b=" + "c" * 5000))
        wire.send(startup(user="plain_user", options=text))

    def encrypted(self, wire):
        """Plain-text bytes after a request for encryption."""
        code = self.rng.choice((SSL_REQUEST, GSSENC_REQUEST))
        wire.send(special(code) + self.rng.choice((b"", startup(user="alice"), os.urandom(50))))

    def hello(self, wire):
        wire.send(b"\x16\x03\x01" + os.urandom(self.rng.choice((2, 200, 2000))))

    def wrong_password(self, wire):
        wire.startup("plain_user")
        wire.read()
        wire.send(message("p", cstr(self.rng.choice(("", "wrong", "x" * 60000)))))

    def sasl(self, wire):
        """Malformed SCRAM: without a nonce, with another user's name, with random bytes."""
        wire.startup("scram_user")
        wire.read()
        first = Scram("guessed").first()
        wire.send(sasl_initial(self.rng.choice((first, b"", b"n,,", b"n,,n=,r=", os.urandom(40))),
                               self.rng.choice(("SCRAM-SHA-256", "SCRAM-SHA-256-PLUS", "NONE"))))
        wire.read()
        wire.send(message("p", self.rng.choice((b"", b"c=biws", b"c=biws,r=x,p=eA==",
                                                os.urandom(90)))))

    def startup_twice(self, wire):
        wire.startup("scram_user", "nowhere")
        wire.read()
        wire.send(startup(user="alice", database="app"), query("SELECT 1"))

    def query_first(self, wire):
        wire.startup("plain_user")
        wire.send(query("SELECT 'stolen'"), parse("SELECT 'stolen'"), bind(), execute(), sync())

    def cancel_keys(self, wire):
        size = self.rng.choice((4, 8, 8, 8, 32, 36, 256))
        wire.send(special(CANCEL_REQUEST, os.urandom(size)))

    def negotiation(self, wire):
        wire.send(startup(PROTOCOL_GREASE, user="plain_user", **{
            f"_pq_.option{number}": "x" for number in range(self.rng.choice((1, 200)))}))

    def slowly(self, wire):
        wire.send_slowly(startup(user="plain_user")[:-1])

    def proxy_header(self, wire):
        wire.send(self.rng.choice((b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", b"PROXY UNKNOWN\r\n",
                                   b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + b"\1" * 12)),
                  startup(user="plain_user"))

    attacks = (noise, mutated, mutated, lengths, many_parameters, options, encrypted, hello,
               wrong_password, sasl, startup_twice, query_first, cancel_keys, negotiation, slowly,
               proxy_header)


class Abuser(Actor):
    """A logged-in client that shares servers with others and sends what no driver sends."""

    pause = 0.02

    def step(self):
        try:
            with Wire(self.scene.weir.address, SHORT).login("alice", "app") as wire:
                attack = self.rng.choice(self.attacks)
                attack(self, wire)
                # Disconnecting at once would close the server, and with it the manipulated state.
                if attack in self.orderly:
                    wire.send(sync(), query("SELECT 'own' AS the_end"))
                    self.judge(self.until_the_end(wire))
                else:
                    wire.sock.shutdown(socket.SHUT_WR)
                    self.judge(wire.read_to_end())
        except (Closed, Refused, ConnectionError):
            pass
        self.scene.count("abuses")

    @staticmethod
    def until_the_end(wire):
        messages = []
        while not messages or messages[-1].type != "T" or b"the_end\0" not in messages[-1].body:
            messages.append(wire.read())
        return messages + wire.read_until("Z")

    @staticmethod
    def judge(messages):
        for got in messages:
            if got.type == "D" and got.row[:1] not in (["own"], [None]):
                raise Finding(f"a foreign row: {got.row}")

    def ours(self):
        """A guess of a statement name that pgweir uses on servers."""
        return f'"PGBOUNCER_{self.rng.randint(0, 60)}"'

    def replace_statements(self, wire):
        """Another text with a name that may belong to a statement of other clients."""
        name = self.ours()
        wire.send(query(f"SELECT 'own'; DEALLOCATE {name}"),
                  query(f"SELECT 'own'; PREPARE {name} AS SELECT 'stolen'"))

    def forget_statements(self, wire):
        wire.send(query(self.rng.choice((
            "SELECT 'own'; DEALLOCATE ALL",
            "SELECT 'own'; DISCARD PLANS; DEALLOCATE ALL; SELECT 'own'"))))

    def forget_statements_unseen(self, wire):
        if self.rng.random() < 0.3:
            self.scene.count("hidden deallocations")
            wire.send(query("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"))

    def use_statements(self, wire):
        name = self.ours().strip('"')
        wire.send(bind(("own",), name), execute(), sync(), describe("S", name), sync())

    def soup(self, wire):
        """Valid messages in random order."""
        parts = [query("SELECT 'own'"), parse("SELECT 'own'"), bind(), execute(), sync(),
                 describe("S", ""), message("c"), message("d", b"x\n"), message("f", b"no\0"),
                 message("H"), query(""), parse("COPY soup FROM STDIN"), message("C", b"S\0"),
                 query("COPY soup FROM STDIN"), parse("SELECT 'own'", "s"), bind((), "s")]
        wire.send(b"".join(self.rng.choices(parts, k=self.rng.randint(1, 40))))

    def broken(self, wire):
        kind = self.rng.choice("QPBDECFSHdcfp")
        wire.send(message(kind, os.urandom(self.rng.choice((0, 1, 4, 30, 3000)))), sync())

    def lengths(self, wire):
        kind = self.rng.choice(b"QPBDECFSHdcfpXz\0\xff").to_bytes(1, "big")
        wire.send(kind + struct.pack("!I", self.rng.choice((0, 3, 4, 0x40000000, 0x7fffffff,
                                                            0x80000000, 0xffffffff))) + b"x" * 99)

    def unfinished(self, wire):
        """Begins a message that must be complete before it is processed, and never ends it."""
        begin = self.rng.choice((b"P", b"Q", b"B")) + struct.pack("!I", 300_000_000)
        wire.send(begin + self.rng.choice((b"name\0", b"/* ")) + b"x" * 500_000)

    def many(self, wire):
        count = self.rng.choice((100, 5000))
        wire.send(parse("SELECT 'own'") * count, sync())

    orderly = (replace_statements, forget_statements, forget_statements_unseen, use_statements)
    attacks = (*orderly, *orderly, soup, soup, broken, lengths, unfinished, many)


class Liar(Actor):
    """A PostgreSQL that sends arbitrary messages, and its clients."""

    pause = 0.02

    def step(self):
        try:
            with Wire(self.scene.weir.address, SHORT).login("alice", "evil") as wire:
                wire.send(*(query("SELECT 'evil'") for _ in range(self.rng.randint(1, 3))),
                          parse("SELECT 1", "s"), bind((), "s"), execute(), sync())
                wire.sock.shutdown(socket.SHUT_WR)
                wire.read_to_end()
        except (Closed, Refused, ConnectionError, AssertionError, ValueError, struct.error):
            pass  # it got wrong messages
        self.scene.count("lies")


def liar_script(rng):
    """What the server side of a Liar does with a connection."""

    def some(channel):
        text = "y" * rng.choice((1, 100, 9000))
        return rng.choice((
            lambda: fake.answer("evil"),
            lambda: fake.row("evil", text),
            lambda: fake.ready(rng.choice("ITE?")),
            lambda: fake.error(text, rng.choice(("XX000", "57P01", "25006"))),
            lambda: fake.error(text, "57P01", "FATAL"),
            lambda: fake.notice(text),
            lambda: b"".join(fake.parameter(f"evil.{n}", text[:50]) for n in range(rng.choice((1, 3000)))),
            lambda: b"".join(fake.parameter("application_name", str(n)) for n in range(500)),
            lambda: message("A", struct.pack("!I", 1) + cstr("channel") + cstr(text)),
            lambda: message(rng.choice("123nstcdGHWIVZKRvEN"), os.urandom(rng.choice((0, 1, 5, 60)))),
            lambda: bytes([rng.randrange(256)]) + struct.pack("!I", rng.choice((0, 3, 0x7fffffff, 0xffffffff))),
            lambda: message("E", b""),
            lambda: message("E", b"SERROR\0"),
            lambda: fake.complete("SELECT 1"),
            lambda: message("1") + message("2"),
        ))()

    def login(channel):
        how = rng.randrange(8)
        if how == 0:
            channel.send(fake.error("no", rng.choice(("28P01", "53300", "57P03", "3D000")), "FATAL"))
            return False
        if how == 1:
            channel.send(fake.auth(10, b"SCRAM-SHA-256\0\0"))
            channel.read()
            channel.send(fake.auth(11, rng.choice((
                b"r=,s=,i=1", b"r=x,s=eA==,i=2000000000", b"r=" + b"n" * 9000 + b",s=eA==,i=4096",
                os.urandom(50)))))
            return False
        if how == 2:
            channel.send(fake.auth(rng.choice((3, 5, 7, 9, 12, 99)), os.urandom(4)))
            return False
        if how == 3:
            channel.send(fake.auth(0), some(channel), some(channel))
            return False
        channel.welcome()
        return True

    def script(channel):
        if not login(channel):
            return
        while True:
            channel.read()
            channel.send(*(some(channel) for _ in range(rng.randint(0, 4))))

    return script
