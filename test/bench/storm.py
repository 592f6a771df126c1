# SPDX-License-Identifier: ISC
"""A login storm: clients that log in with TLS and SCRAM at a given rate and disconnect at once.

It is a separate process, started by `Storm`. To use little CPU beside the pooler, it derives the
keys of the password once and runs at idle priority (background.py): the benchmark measures how the
pooler delays its clients, not how this program competes for CPUs. Its output: the number of
successful and of failed logins.
"""

import base64
import hashlib
import hmac
import os
import pathlib
import queue
import struct
import subprocess
import sys
import threading
import time

from background import Background
from idle_clients import IdleClients, client_context, connect, message, startup

THREADS = 8
MECHANISM = b"SCRAM-SHA-256"


def _hmac(key, text):
    return hmac.digest(key, text, "sha256")


class Visitor:
    """Logs in and leaves, over and over."""

    def __init__(self, port, user, database, secret):
        self.port, self.user, self.database, self.secret = port, user, database, secret.encode()
        self.context = client_context()
        self.keys = {}

    def _salted(self, salt, rounds):
        if (salt, rounds) not in self.keys:
            self.keys[salt, rounds] = hashlib.pbkdf2_hmac("sha256", self.secret, salt, rounds)
        return self.keys[salt, rounds]

    @staticmethod
    def _read(sock, wanted):
        """The body of the next authentication request, which must be of this kind."""
        head = sock.recv(5)
        while len(head) < 5:
            head += sock.recv(5 - len(head)) or b"E\0\0\0\4"
        rest = struct.unpack("!i", head[1:])[0] - 4
        body = b""
        while len(body) < rest:
            body += sock.recv(rest - len(body))
        if head[:1] != b"R" or struct.unpack_from("!i", body)[0] != wanted:
            raise ConnectionError(repr(head + body))
        return body[4:]

    def _prove(self, sock):
        self._read(sock, 10)
        bare = b"n=,r=" + base64.b64encode(os.urandom(18))
        first = b"n,," + bare
        sock.sendall(message(b"p", MECHANISM + b"\0" + struct.pack("!i", len(first)) + first))
        answer = self._read(sock, 11)
        fields = dict(part.split(b"=", 1) for part in answer.split(b","))
        salted = self._salted(base64.b64decode(fields[b"s"]), int(fields[b"i"]))
        client_key = _hmac(salted, b"Client Key")
        final = b"c=biws,r=" + fields[b"r"]
        signature = _hmac(hashlib.sha256(client_key).digest(), b",".join((bare, answer, final)))
        proof = bytes(a ^ b for a, b in zip(client_key, signature))
        sock.sendall(message(b"p", final + b",p=" + base64.b64encode(proof)))

    def visit(self):
        sock = connect(self.port, self.context)
        try:
            sock.sendall(startup(self.user, self.database))
            self._prove(sock)
            IdleClients.read_until_ready(sock)
            sock.sendall(message(b"X", b""))
        finally:
            sock.close()


def _work(visitor, due, counts):
    while due.get():
        try:
            visitor.visit()
            counts.append(True)
        except OSError:
            counts.append(False)


def main():
    sys.stdin.readline()  # from here on at idle priority
    port, user, database, rate = int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
    visitor, due, counts = Visitor(port, user, database, sys.argv[5]), queue.Queue(), []
    visitor.visit()
    threads = [threading.Thread(target=_work, args=(visitor, due, counts)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    print("go", flush=True)
    begin = time.monotonic()
    end = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), end.set()), daemon=True).start()
    number = 0
    while not end.wait(max(0.0, begin + number / rate - time.monotonic())):
        due.put(True)
        number += 1
    seconds = time.monotonic() - begin
    in_time = counts.count(True)
    for _ in threads:
        due.put(False)
    for thread in threads:
        thread.join()
    print(f"{in_time / seconds:.1f} {counts.count(False)}", flush=True)


class Storm:
    """A context manager; `logins_s` is known when it is over."""

    def __init__(self, port, user, database, rate, secret):
        self.command = [sys.executable, str(pathlib.Path(__file__).resolve()), str(port), user,
                        database, str(rate), secret]
        self.background = Background()
        self.process, self.logins_s = None, 0.0

    def __enter__(self):
        self.background.__enter__()
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.background.add(self.process.pid)
        print(file=self.process.stdin, flush=True)
        if self.process.stdout.readline() != "go\n":
            self._end()
            raise OSError("the storm of logins did not begin")
        return self

    def _end(self):
        self.process.kill()
        self.process.wait(10)
        self.background.__exit__()

    def __exit__(self, *failure):
        try:
            out = self.process.communicate("", 60)[0]
            logins, failures = out.split()
            self.logins_s = float(logins)
            if failures != "0" and not failure[0]:
                raise OSError(f"{failures} logins of the storm failed")
        finally:
            self._end()


if __name__ == "__main__":
    main()
