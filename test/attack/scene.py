# SPDX-License-Identifier: ISC
"""State shared by all actors of the attack: servers, seed, findings and counts."""

import contextlib
import os
import random
import ssl
import threading

from e2e.kit.certificates import Store
from e2e.kit.wire import SSL_REQUEST, Wire, special


class Disturbed(Exception):
    """The connection ended for a reason caused by the attack itself."""


class Finding(Exception):
    """Something that must never happen."""


@contextlib.contextmanager
def plain_errors():
    """A connection that is closed breaks TLS, too."""
    try:
        yield
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as gone:
        raise ConnectionResetError(str(gone)) from gone


def tls_of(account, place):
    """Settings of PostgreSQL and of pgweir, which use TLS on both sides then."""
    own = Store(account, os.path.join(place, "certificates")).authority("own", "127.0.0.1")
    return ({"ssl": "on", "ssl_cert_file": own.cert, "ssl_key_file": own.key},
            {"client_tls_sslmode": "allow", "client_tls_cert_file": own.cert, "client_tls_key_file": own.key})


class SecureWire(Wire):
    """Begins with TLS; other errors of TLS are findings."""

    def __init__(self, *args):
        super().__init__(*args)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            self.send(special(SSL_REQUEST))
            if self.take(1) != b"S":
                raise Finding("TLS was declined")
            with plain_errors():
                self.sock = context.wrap_socket(self.sock)
        except BaseException:
            self.close()
            raise

    def send(self, *parts):
        with plain_errors():
            super().send(*parts)


class Scene:
    """The pooler, PostgreSQL, and the findings of the actors.

    Every actor is a thread with its own random generator, seeded from the seed and its name, so its
    choices can be repeated; the scheduling of the threads cannot.
    """

    def __init__(self, weir, postgres, seed, has_tls=False):
        self.weir = weir
        self.has_tls = has_tls
        self.postgres = postgres
        self.seed = seed
        self.is_over = threading.Event()
        self.findings = []
        self.counts = {}
        self.is_session_mode = True  # of the database app2; changed with the lock held
        self.mode_lock = threading.Lock()
        self._lock = threading.Lock()

    def wire(self, limit):
        """A connection to the pooler."""
        return (SecureWire if self.has_tls else Wire)(self.weir.address, limit)

    def rng(self, name):
        return random.Random(f"{self.seed} {name}")

    def count(self, what, number=1):
        with self._lock:
            self.counts[what] = self.counts.get(what, 0) + number

    def find(self, name, finding):
        with self._lock:
            self.findings.append(f"{name}: {finding}")
        self.is_over.set()


class Actor(threading.Thread):
    """Performs one step after the other until the scene ends. A failed step is a finding."""

    pause = 0  # seconds between two steps

    def __init__(self, scene, name):
        super().__init__(name=name, daemon=True)
        self.scene = scene
        self.rng = scene.rng(name)

    def run(self):
        try:
            while not self.scene.is_over.is_set():
                self.step()
                if self.pause:
                    self.scene.is_over.wait(self.pause)
            self.leave()
        except Exception as failure:  # the main thread checks it
            self.scene.find(self.name, f"{type(failure).__name__}: {failure}")

    def step(self):
        raise NotImplementedError

    def leave(self):
        """The end of the scene."""


def play(scene, cast, seconds):
    """Lets the actors act, and returns when all have come to their end."""
    for actor in cast:
        actor.start()
    scene.is_over.wait(seconds)
    scene.is_over.set()
    for actor in cast:
        actor.join(90)
        if actor.is_alive():
            scene.find(actor.name, "did not come to its end within 90 s")


def stop(weir):
    """Stops the pooler; what is wrong with its end is a finding too."""
    if not weir:
        return []
    try:
        weir.stop()
    except AssertionError as problem:
        return [f"{problem}\n{weir.log[-3000:]}"]
    return []
