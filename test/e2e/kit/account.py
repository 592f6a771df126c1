# SPDX-License-Identifier: ISC
"""The unprivileged user that PostgreSQL and the pooler run as, and a directory for them.

Both refuse to run as root. If started as root, the tests run as root and start everything else as
this user; if started as another user, they use that user.
"""

import dataclasses
import functools
import glob
import itertools
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile

KEEP = os.environ.get("PGWEIR_TEST_KEEP")


@dataclasses.dataclass
class Account:
    name: str
    uid: int
    gid: int
    is_other: bool  # not the user that runs the tests

    def popen(self, args, **kw):
        if self.is_other:
            # Not by Popen(user=...): that copies the page tables of this process each time.
            args = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", *args]
            kw.setdefault("cwd", "/")  # the other user may have no access to our directory
        kw.setdefault("stdin", subprocess.DEVNULL)
        env = dict(os.environ, **kw.pop("env", {}))
        env.pop("PGDATA", None)
        return subprocess.Popen(args, env=env, **kw)

    def run(self, args, timeout=60, **kw):
        """Runs a command to its end; returns a CompletedProcess with text output for any exit
        status.
        """
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.STDOUT)
        given = kw.pop("input", None)
        if given is not None:
            kw["stdin"] = subprocess.PIPE
        with self.popen(args, text=True, **kw) as process:
            try:
                out, err = process.communicate(given, timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def own(self, path, mode=0o700):
        os.chmod(path, mode)
        if self.is_other:
            os.chown(path, self.uid, self.gid)
        return path

    def mkdir(self, path, mode=0o755):
        os.mkdir(path)
        return self.own(path, mode)

    def write(self, path, text, mode=0o644):
        """Replaces the file atomically, as a careful administrator would."""
        fresh = f"{path}.new"
        with open(fresh, "w", encoding="utf-8") as file:
            file.write(text)
        self.own(fresh, mode)
        os.replace(fresh, path)
        return path


def find_account():
    if os.geteuid() != 0:
        me = pwd.getpwuid(os.geteuid())
        return Account(me.pw_name, me.pw_uid, me.pw_gid, False)
    for name in (os.environ.get("PGWEIR_TEST_USER"), "postgres", "nobody"):
        try:
            them = pwd.getpwnam(name) if name else None
        except KeyError:
            them = None
        if them and them.pw_uid != 0:
            return Account(them.pw_name, them.pw_uid, them.pw_gid, True)
    raise RuntimeError("no unprivileged user found; name one in PGWEIR_TEST_USER")


MEMORY = "/dev/shm"
MEMORY_FREE = 4 << 30  # bytes; a PostgreSQL takes 50 MB, and there are some hundred, one after the other


def _has_memory():
    try:
        facts = os.statvfs(MEMORY)
    except OSError:
        return False
    return (os.access(MEMORY, os.W_OK) and not facts.f_flag & os.ST_NOEXEC
            and facts.f_bavail * facts.f_frsize >= MEMORY_FREE)


def _drop_abandoned():
    """Those of runs that were killed."""
    for path in glob.glob(f"{MEMORY}/pgweir-*"):
        if not os.path.exists(f"/proc/{path.rpartition('-')[2]}"):
            shutil.rmtree(path, ignore_errors=True)


def make_place(account):
    """Creates a directory with a short path, because a Unix socket path is limited to 107 bytes; in
    memory if that is large, since copies of PostgreSQL's files take much of the tests' time.
    """
    if KEEP or not _has_memory():
        return account.own(tempfile.mkdtemp(prefix="pgweir-", dir="/tmp"), 0o755)
    _drop_abandoned()
    return account.mkdir(f"{MEMORY}/pgweir-{os.getpid()}")


def drop_place(path):
    if KEEP:
        print(f"kept: {path}")
        return
    shutil.rmtree(path, ignore_errors=True)


class Ports:
    """The ports of this process: a slice of those below the range for outgoing connections.

    Runs side by side, in whatever checkout, must not find the same port free. So each reserves a
    slice by the name of an abstract Unix socket, which goes with the process.
    """

    FIRST, SLICE, COUNT = 12000, 1000, 20
    DEAD = range(FIRST + SLICE * COUNT, 32768)

    def __init__(self):
        self._lock = socket.socket(socket.AF_UNIX)
        self._next = itertools.cycle(self._reserve())

    def _reserve(self):
        for number in random.sample(range(self.COUNT), self.COUNT):
            try:
                self._lock.bind(f"\0pgweir-test-ports-{number}")
            except OSError:
                continue
            begin = self.FIRST + number * self.SLICE
            return range(begin, begin + self.SLICE)
        raise RuntimeError("all ports for tests are reserved by other test runs")

    def take(self):
        for port in itertools.islice(self._next, self.SLICE):
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            return port
        raise RuntimeError("no free port found")


@functools.cache
def _ports():
    return Ports()


def free_port():
    """A port that is free now and that no other process takes. A later test may get it, too. Not when
    tests are collected: all processes that share them would have it.
    """
    return _ports().take()


def has_taken_ports():
    return _ports.cache_info().currsize > 0


_dead_ports = itertools.cycle(Ports.DEAD)


def dead_port():
    """A port on which nothing ever listens: also for what is made when tests are collected."""
    return next(_dead_ports)
