# SPDX-License-Identifier: ISC
"""A scripted PostgreSQL that counts its connections exactly, and can keep answers back.

One thread serves all connections, and takes what a connection has sent, its end included, before it
accepts another one. So a pooler that closes a connection before it opens the next one is never seen
with both.
"""

import collections
import selectors
import socket
import struct
import threading

from .fake import KEY, PARAMETERS, answer, auth, complete, parameter, ready
from .wait import LIMIT
from .wire import CANCEL_REQUEST, GSSENC_REQUEST, SSL_REQUEST, message

HOLD = "HOLD"  # in a query: it is answered by release()


class _Connection:
    def __init__(self, sock):
        self.sock, self.kept = sock, b""
        self.who = None  # (user, database) after the startup packet


class CountingServer:
    """`limits`: functions of (user, database) pairs -> key, and the greatest number for each key.
    What exceeds it is in `excesses`.
    """

    def __init__(self, limits=()):
        self.limits = limits
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.listener.setblocking(False)
        self.host, self.port = self.listener.getsockname()
        self.open = collections.Counter()  # (user, database) -> connections
        self.held = collections.deque()  # connections whose query is not answered yet
        self.holds = True
        self.excesses, self.logins = [], 0
        self._lock = threading.Lock()
        self._wake, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def entry(self):
        return f"host={self.host} port={self.port}"

    def count(self, user=None, database=None):
        """How many connections are open, of a user or to a database if given."""
        with self._lock:
            return sum(n for (its_user, its_database), n in self.open.items()
                       if user in (None, its_user) and database in (None, its_database))

    def held_count(self):
        with self._lock:
            return len(self.held)

    def held_by(self):
        """(user, database) -> how many queries are held."""
        with self._lock:
            return collections.Counter(connection.who for connection in self.held)

    def release(self, count=1):
        """Answers the queries that are held, the oldest first; returns the (user, database) of
        each.
        """
        released = []
        with self._lock:
            for _ in range(min(count, len(self.held))):
                released.append(self.held[0].who)
                self._send(self.held.popleft(), answer("1"))
        return released

    def release_all(self):
        """The same for all, and for later ones at once."""
        with self._lock:
            self.holds = False
        self.release(len(self.held))

    def close(self):
        self._waker.send(b"x")
        self._thread.join(LIMIT)
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._waker.close()
        self._selector.close()

    # -- the thread ---------------------------------------------------------------------------

    def _serve(self):
        while True:
            ready_now = [key for key, _ in self._selector.select()]
            with self._lock:
                for key in ready_now:
                    if key.data:
                        self._take(key.data)
                if any(key.fileobj is self._wake for key in ready_now):
                    return
                if any(key.fileobj is self.listener for key in ready_now):
                    self._accept()

    def _accept(self):
        try:
            sock, _ = self.listener.accept()
        except BlockingIOError:
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(sock, selectors.EVENT_READ, _Connection(sock))

    def _take(self, connection):
        try:
            data = connection.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(connection)
            return
        connection.kept += data
        while connection.sock and self._take_message(connection):
            pass

    def _take_message(self, connection):
        start = 0 if connection.who is None else 1
        if len(connection.kept) < start + 4:
            return False
        (length,) = struct.unpack_from("!I", connection.kept, start)
        if len(connection.kept) < start + length:
            return False
        whole, connection.kept = (connection.kept[:start + length],
                                  connection.kept[start + length:])
        if connection.who is None:
            self._log_in(connection, whole)
        elif whole[:1] == b"X":
            self._end(connection)
        else:
            self._answer(connection, whole[5:-1].decode())
        return True

    def _log_in(self, connection, packet):
        (code,) = struct.unpack_from("!I", packet, 4)
        if code in (SSL_REQUEST, GSSENC_REQUEST):
            self._send(connection, b"N")
            return
        if code == CANCEL_REQUEST:
            self._end(connection)
            return
        parts = packet[8:].rstrip(b"\0").decode().split("\0")
        said = dict(zip(parts[::2], parts[1::2]))
        connection.who = (said["user"], said["database"])
        self.open[connection.who] += 1
        self.logins += 1
        self._judge()
        self._send(connection, auth(0), *(parameter(*pair) for pair in PARAMETERS.items()),
                   message("K", KEY), ready())

    def _judge(self):
        for name, key_of, most in self.limits:
            sums = collections.Counter()
            for who, count in self.open.items():
                sums[key_of(*who)] += count
            self.excesses += [f"{name}: {key} has {count}, {most} are allowed"
                              for key, count in sums.items() if count > most]

    def _answer(self, connection, sql):
        if HOLD in sql and self.holds:
            self.held.append(connection)
        elif sql.startswith(("SET ", "RESET ", "DISCARD ")):
            self._send(connection, *(complete("SET") for part in sql.split(";") if part.strip()),
                       ready())
        else:
            self._send(connection, answer("1"))

    def _send(self, connection, *parts):
        try:
            connection.sock.sendall(b"".join(parts))
        except OSError:
            pass  # its end is noticed when it is read

    def _end(self, connection):
        if connection.who:
            self.open[connection.who] -= 1
        if connection in self.held:
            self.held.remove(connection)
        self._selector.unregister(connection.sock)
        connection.sock.close()
        connection.sock = None
