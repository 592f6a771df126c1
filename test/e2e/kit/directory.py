# SPDX-License-Identifier: ISC
"""An LDAP server: slapd, with its own entries and certificates, and a gate in front of it."""

import os
import shutil
import socket
import subprocess
import threading

from .account import free_port
from .wait import wait_until

BASE = "dc=example,dc=com"
PEOPLE = f"ou=people,{BASE}"
SEARCHER = f"cn=searcher,{BASE}"
SEARCHER_SECRET = 'sear"ch er'

# Passwords are the same as in PostgreSQL, where it requests one.
ENTRIES = {
    "alice": "alice secret",
    "plain_user": "plain secret",
    "md5_user": "md5 secret",
    "scram_user": "scram secret",
    "admin": "admin secret",
    "o,brien*(x)": "odd secret",
}

CONF = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
allow bind_anon_cred
TLSCACertificateFile {dir}/ca.crt
TLSCertificateFile {dir}/server.crt
TLSCertificateKeyFile {dir}/server.key
database mdb
suffix "{base}"
directory {dir}/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{searcher}" read by anonymous read by * none
"""


def _attribute(name, value):
    return f"{name}: {value}\n"


def _entry(dn, kind, **attributes):
    lines = f"dn: {dn}\nobjectClass: {kind}\n"
    return lines + "".join(_attribute(name, value) for name, value in attributes.items()) + "\n"


def _person(uid, password, unit="people"):
    escaped = uid.replace(",", "\\,")
    return _entry(f"uid={escaped},ou={unit},{BASE}", "inetOrgPerson", uid=uid, cn=uid, sn=uid,
                  mail=f"{uid}@example.com" if uid.isalnum() else "odd@example.com",
                  userPassword=password)


def entries():
    text = f"dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: x\n\n"
    for unit in ("people", "others"):
        text += _entry(f"ou={unit},{BASE}", "organizationalUnit", ou=unit)
        text += _person("bob", "bob secret", unit)  # twice: ambiguous
    text += _entry(SEARCHER, "person", cn="searcher", sn="x", userPassword=SEARCHER_SECRET)
    return text + "".join(_person(uid, password) for uid, password in ENTRIES.items())


def find_slapd():
    return shutil.which("slapd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/libexec")


class Directory:
    def __init__(self, account, folder):
        self.account = account
        self.dir = account.mkdir(folder)
        self.port, self.tls_port = free_port(), free_port()
        self.process = None
        self._log = None
        for name in ("ca", "other"):
            self._authority(name)
        self._certificate()
        account.mkdir(f"{self.dir}/data")
        account.write(f"{self.dir}/slapd.conf",
                      CONF.format(dir=self.dir, base=BASE, searcher=SEARCHER))
        account.write(f"{self.dir}/entries.ldif", entries())
        self._run(find_slapd(), "-T", "add", "-f", f"{self.dir}/slapd.conf",
                  "-l", f"{self.dir}/entries.ldif")

    def _run(self, *args):
        done = self.account.run(args, cwd=self.dir)
        if done.returncode != 0:
            raise RuntimeError(f"{args[0]} failed:\n{done.stdout}")

    def _authority(self, name):
        self._run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                  "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")

    def _certificate(self):
        self.account.write(f"{self.dir}/names", "subjectAltName=IP:127.0.0.1\n")
        self._run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1",
                  "-keyout", "server.key", "-out", "server.csr")
        self._run("openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey",
                  "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names",
                  "-out", "server.crt")

    def start(self):
        self._log = open(f"{self.dir}/log", "ab")
        self.process = self.account.popen(
            [find_slapd(), "-d", "0", "-f", f"{self.dir}/slapd.conf",
             "-h", f"ldap://127.0.0.1:{self.port} ldaps://127.0.0.1:{self.tls_port}"],
            stdout=self._log, stderr=subprocess.STDOUT, cwd=self.dir)
        wait_until(self._answers, what="slapd")
        return self

    def _answers(self):
        if self.process.poll() is not None:
            with open(f"{self.dir}/log", encoding="utf-8", errors="replace") as log:
                raise RuntimeError(f"slapd ended:\n{log.read()}")
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(30)
        if self._log:
            self._log.close()


# The response to the first message: an ExtendedResponse with success only.
START_TLS_DONE = bytes.fromhex("300c02010178070a010004000400")
# The header of a TLS handshake record of 16384 bytes.
RECORD_HEAD = bytes.fromhex("1603034000")


class Staller:
    """Accepts StartTLS and then stalls the handshake: sends `said`, then nothing, or closes."""

    def __init__(self, said=b"", drops=False):
        self.said, self.drops = said, drops
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.stalled = self.left = 0
        self._sockets = []
        self._closed = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        try:
            while True:
                sock = self.listener.accept()[0]
                self._sockets.append(sock)
                threading.Thread(target=self._stall, args=(sock,), daemon=True).start()
        except OSError:
            pass

    def _stall(self, sock):
        try:
            sock.recv(65536)  # the request
            sock.sendall(START_TLS_DONE)
            sock.recv(65536)  # ClientHello
            sock.sendall(self.said)
            with self._lock:
                self.stalled += 1
            while self.drops and not self._closed.wait(0.05):
                sock.sendall(b"\0")
            while sock.recv(65536):
                pass
        except OSError:
            pass
        with self._lock:
            self.left += 1

    def close(self):
        self._closed.set()
        for sock in (self.listener, *self._sockets):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()


class Gate:
    """A proxy that holds connections until open() is called; `waiting` counts them."""

    def __init__(self, port, host="127.0.0.1"):
        self.target = ("127.0.0.1", port)
        self.listener = socket.create_server((host, 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.waiting = 0
        self._opened = threading.Event()
        self._sockets = []
        self._start(self._accept)

    @staticmethod
    def _start(target, *args):
        threading.Thread(target=target, args=args, daemon=True).start()

    def open(self):
        self._opened.set()

    @property
    def is_left(self):
        """Whether all connections were closed by the other side; for a closed gate."""
        try:
            for sock in self._sockets:
                while sock.recv(65536, socket.MSG_DONTWAIT):
                    pass
        except BlockingIOError:
            return False
        return True

    def close(self):
        for sock in (self.listener, *self._sockets):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()

    def _accept(self):
        try:
            while True:
                near = self.listener.accept()[0]
                self._sockets.append(near)
                self.waiting += 1
                self._start(self._pass, near)
        except OSError:
            pass

    def _pass(self, near):
        self._opened.wait()
        try:
            far = socket.create_connection(self.target)
        except OSError:
            near.close()
            return
        self._sockets.append(far)
        self._start(self._copy, far, near)
        self._copy(near, far)

    @staticmethod
    def _copy(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
