# SPDX-License-Identifier: ISC
"""A DNS server for one zone; the test sets its names and its serial number."""

import errno
import socket
import struct
import threading

from .wait import LIMIT, wait_until

TYPE_A, TYPE_SOA, TYPE_PTR, TYPE_SRV = 1, 6, 12, 33
PORT = 53  # resolv.conf supports no other


def _forward(name):
    """The address in the name of a PTR record."""
    return ".".join(reversed(name.split(".")[:4]))


def _packed(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


class NameServer:
    """Raises PermissionError if this user may not bind the port. It waits while another test has it."""

    def __init__(self, address="127.0.53.1"):
        self.address = address
        self.names = {}  # name: list of IPv4 addresses
        self.hosts = {}  # IPv4 address: its name
        self.services = {}  # name: list of (priority, port, name of the host)
        self.serials = {}  # zone: its serial number
        self.asked = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        wait_until(self._bind, what=f"{address} to be free")
        self._socket.settimeout(0.1)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _bind(self):
        try:
            self._socket.bind((self.address, PORT))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
        return True

    def close(self):
        self._stopping = True
        self._thread.join(LIMIT)
        self._socket.close()

    def _run(self):
        while not self._stopping:
            try:
                question, who = self._socket.recvfrom(512)
            except socket.timeout:
                continue
            self._socket.sendto(self._answer(question), who)

    def _answer(self, question):
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode())
            at += question[at] + 1
        name, (kind,) = ".".join(labels), struct.unpack("!H", question[at + 1:at + 3])
        self.asked.append((name, kind))
        records = self._records(name, kind)
        known = name in self.names or name in self.serials or records
        flags = 0x8580 if known else 0x8583
        head = question[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0)
        return head + question[12:at + 5] + b"".join(
            b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(data)) + data for data in records)

    def _records(self, name, kind):
        if kind == TYPE_A:
            return [socket.inet_aton(address) for address in self.names.get(name, ())]
        if kind == TYPE_PTR and _forward(name) in self.hosts:
            return [_packed(self.hosts[_forward(name)])]
        if kind == TYPE_SRV:
            return [struct.pack("!HHH", priority, 0, port) + _packed(host)
                    for priority, port, host in self.services.get(name, ())]
        if kind == TYPE_SOA and name in self.serials:
            return [b"\0\0" + struct.pack("!IIIII", self.serials[name], 60, 60, 60, 60)]
        return []
