# SPDX-License-Identifier: ISC
"""A way to a host that can be cut as a network is: nothing arrives any more, and neither end notices."""

import socket
import threading


class Tunnel:
    """Forwards connections to `host`:`port` on another address.

    listen_port: the port there; None: the same one, 0: any free one.
    """

    def __init__(self, address, host, port, listen_port=None):
        self.address, self._target = address, (host, port)
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server((address, port if listen_port is None else listen_port), backlog=128)
        self.port = self._listener.getsockname()[1]
        _start(self._accept)

    def cut(self):
        """Bytes, ends of connections and answers to new ones are held back from now on."""
        self._open.clear()

    def mend(self):
        """All that was held back arrives."""
        self._open.set()

    def close(self):
        self.mend()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            _start(self._connect, near)

    def _connect(self, near):
        self._open.wait()
        try:
            far = socket.create_connection(self._target)
        except OSError:
            near.close()
            return
        for one in (near, far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = _start(self._pump, far, near, self._allowed)
        self._pump(near, far, len)
        back.join()
        near.close()
        far.close()

    def _allowed(self, data):
        """How many bytes of this part of a reply pass. If some do not, the connection ends there."""
        return len(data)

    def _pump(self, source, sink, allowed):
        try:
            while data := source.recv(65536):
                self._open.wait()
                count = allowed(data)
                sink.sendall(data[:count])
                if count < len(data):
                    source.shutdown(socket.SHUT_RDWR)
                    sink.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._open.wait()
        try:
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def _start(function, *args):
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread
