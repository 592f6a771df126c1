# SPDX-License-Identifier: ISC
"""The service manager: readiness, reload, watchdog, socket activation, the journal, units."""

import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from .kit.account import free_port
from .kit.wait import LIMIT, wait_until
from .kit.wire import Wire

TOP = os.path.join(os.path.dirname(__file__), "..", "..")


class Manager:
    """The receiver of NOTIFY_SOCKET."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name[1:] if name[0] == "@" else name)
        self.socket.settimeout(LIMIT)
        self.name = name
        if name[0] != "@":
            os.chmod(name, 0o777)

    def next(self):
        return self.socket.recv(4096).decode().split("\n")

    def wait(self, line):
        """The first message that has this line."""
        while True:
            message = self.next()
            if any(re.fullmatch(line, said) for said in message):
                return message


@pytest.fixture(params=("path", "abstract"))
def manager(request, make_pgweir):
    weir = make_pgweir()
    name = f"{weir.dir}/notify" if request.param == "path" else f"@pgweir-test-{os.getpid()}"
    manager = Manager(name)
    manager.weir = weir
    yield manager
    manager.socket.close()


# -- notify ---------------------------------------------------------------------------------------


def test_ready_reload_and_stop(manager):
    weir = manager.weir
    weir.start(env={"NOTIFY_SOCKET": manager.name})
    ready = manager.next()
    assert ready[0] == "READY=1" and f"MAINPID={weir.pid}" in ready
    assert weir.client().value("SELECT 1") == "1"
    weir.signal(signal.SIGHUP)
    reloading = manager.next()
    assert reloading[0] == "RELOADING=1" and re.fullmatch(r"MONOTONIC_USEC=\d+", reloading[1])
    assert manager.next() == ["READY=1", "STATUS=reloaded"]
    weir.configure(ini="nonsense")
    assert weir.ask_admin("RELOAD").error
    assert manager.next()[0] == "RELOADING=1"
    assert manager.next()[0] == "READY=1"
    weir.disconnect()
    weir.signal(signal.SIGTERM)
    assert manager.wait("STOPPING=1")
    assert weir.wait_exit() == 0


def test_status_has_the_averages(manager):
    manager.weir.configure(stats_period=1, log_stats=0)
    manager.weir.start(env={"NOTIFY_SOCKET": manager.name})
    assert manager.wait(r"STATUS=\d+ xacts/s, \d+ queries/s, .*")
    assert "stats: " not in manager.weir.log


@pytest.mark.parametrize("loops", (1, 3))
def test_the_watchdog_is_fed(manager, loops):
    manager.weir.configure(loops=loops)
    manager.weir.start(env={"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "100000"})
    for _ in range(3):
        assert manager.wait("WATCHDOG=1")


def test_a_watchdog_of_another_process_is_not_fed(manager):
    manager.weir.configure(stats_period=1)
    manager.weir.start(env={"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "100000",
                            "WATCHDOG_PID": "1"})
    said = [manager.next()]
    while not said[-1][0].startswith("STATUS="):
        said.append(manager.next())
    assert ["WATCHDOG=1"] not in said


def test_a_manager_that_cannot_be_reached_is_no_hindrance(make_pgweir):
    weir = make_pgweir()
    weir.start(env={"NOTIFY_SOCKET": "vsock:2:1234"})
    weir.wait_log("WARNING cannot use NOTIFY_SOCKET=vsock:2:1234: ")
    assert weir.client().value("SELECT 1") == "1"


# -- sockets --------------------------------------------------------------------------------------

LAUNCH = """#!/usr/bin/python3
import os, socket, sys
made = []
for word in {sockets!r}:
    if word.startswith("/"):
        made.append(socket.socket(socket.AF_UNIX))
        made[-1].bind(word)
    else:
        made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM if word == "udp" else
                                  socket.SOCK_STREAM))
        made[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made[-1].bind(("127.0.0.1", 0 if word == "udp" else int(word)))
    if word not in ("udp", {deaf!r}):
        made[-1].listen(16)
copies = [os.dup(one.fileno()) for one in made]
high = [os.dup2(copy, 100 + number) for number, copy in enumerate(copies)]
for number, fd in enumerate(high):
    os.dup2(fd, 3 + number)
os.closerange(3 + len(high), 200)
os.environ.update(LISTEN_FDS=str(len(high)), LISTEN_FDNAMES=":".join({names!r} or ["x"] * len(high)))
os.environ["LISTEN_PID"] = {pid!r} or str(os.getpid())
os.execv({binary!r}, sys.argv)
"""


def launched(weir, *sockets, deaf="", pid="", names=()):
    """Starts the daemon with these sockets open."""
    path = f"{weir.dir}/launch"
    weir.account.write(path, LAUNCH.format(sockets=sockets, deaf=deaf, pid=pid, names=names,
                                           binary=weir.binary), 0o755)
    weir.binary = path
    return weir


def test_given_sockets_are_handed_over(make_pgweir):
    """The file of a Unix socket stays: it belongs to the service manager."""
    weir = make_pgweir(pool_mode="transaction")
    own = weir.binary
    launched(weir, str(weir.port), weir.socket_path).start()
    client = weir.client()
    for _ in range(2):
        since = len(weir.log)
        assert weir.take_over(binary=own).wait(15) == 0
        weir.wait_log(r"listening on .*\(opened by the service manager\)", since=since)
        assert client.value("SELECT 1") == "1"
        assert weir.client().value("SELECT 2") == "2"
    weir.signal(signal.SIGINT)
    assert weir.wait_exit() == 0
    assert os.path.exists(weir.socket_path)


def test_the_sockets_are_used_as_they_are(make_pgweir):
    weir = make_pgweir()
    launched(weir, str(weir.port), weir.socket_path).start()
    weir.wait_log(rf"listening on 127\.0\.0\.1:{weir.port} \(opened by the service manager\)")
    weir.wait_log(rf"listening on unix:{weir.socket_path} \(opened by the service manager\)")
    assert weir.client().value("SELECT 1") == "1"
    assert weir.wire(unix=True).login("alice", "app").value("SELECT 1") == "1"
    weir.disconnect()
    weir.stop()
    assert os.path.exists(weir.socket_path)  # pgweir must not remove it


def test_what_the_settings_name_beyond_them_is_a_warning(make_pgweir):
    weir = make_pgweir()
    other = free_port()
    launched(weir, str(other)).start()
    weir.wait_log("WARNING listen_addr and unix_socket_dir are ignored for listening")
    client = Wire(("127.0.0.1", other)).login("alice", "app")
    assert client.value("SELECT 1") == "1"
    client.close()
    with pytest.raises(OSError):
        weir.wire()


@pytest.mark.parametrize("word, deaf", (("udp", ""), ("{port}", "{port}")))
def test_a_socket_that_is_of_no_use(make_pgweir, word, deaf):
    weir = make_pgweir()
    port = str(weir.port)
    launched(weir, word.format(port=port), deaf=deaf.format(port=port))
    weir.may_fail = True
    done = weir.run(weir.ini)
    assert done.returncode == 1
    assert "descriptor 3 of the service manager is not a stream socket that listens" in done.stderr


def test_sockets_of_another_process_are_not_ours(make_pgweir):
    weir = make_pgweir()
    launched(weir, str(free_port()), pid="1").start()
    assert "service manager" not in weir.log
    assert weir.client().value("SELECT 1") == "1"


# -- the journal ----------------------------------------------------------------------------------


def test_lines_for_the_journal_have_priorities(make_pgweir):
    weir = make_pgweir()
    with open(weir.log_path, "ab") as file:
        found = os.fstat(file.fileno())
    weir.process = None
    weir.account.own(weir.log_path)
    weir._log = open(weir.log_path, "ab")
    env = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
    weir.process = weir.account.popen([weir.binary, weir.ini], stdout=weir._log,
                                      stderr=weir._log, cwd=weir.dir, env=env)
    weir.wait_log(r"^<6>process up: ")
    weir.client()
    weir.wait_log(r"^<6>C-0x\w+: app/alice@\S+ login attempt: db=app user=alice")
    assert all(re.match(r"<\d>", line) for line in weir.log.splitlines())


def test_what_is_not_the_journal_gets_whole_lines(make_pgweir):
    weir = make_pgweir().start(env={"JOURNAL_STREAM": "1:1"})
    assert all(re.match(r"\d{4}-", line) for line in weir.log.splitlines())


# -- units ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
@pytest.mark.parametrize("unit, verified", (("pgweir.service", "pgweir.service"),
                                            ("pgweir@.service", "pgweir@1.service")))
def test_units_are_good(make_pgweir, place, unit, verified):
    weir = make_pgweir()
    with open(os.path.join(TOP, "etc", f"{unit}.in"), encoding="utf-8") as file:
        text = file.read().replace("@bindir@/pgweir", weir.binary).replace("@user@", "postgres")
    text = text.replace("@config@", weir.ini).replace("@configs@", weir.dir)
    assert "@" not in text.replace("SystemCallFilter=@", "").replace("SystemCallFilter=~@", "")
    path = f"{weir.dir}/{verified}"
    weir.account.write(path, text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True,
                          text=True, timeout=60, check=False)
    said = [line for line in (done.stderr + done.stdout).splitlines() if "pgweir" in line]
    assert (done.returncode, said) == (0, [])


# -- a take-over under a service manager ------------------------------------------------------------

MANAGER = """
mount --make-rprivate / && mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system /run/lock
printf '[Unit]\\nDefaultDependencies=no\\n' >/run/systemd/system/test.target
cp {unit} /run/systemd/system/pgweir.service
export container=test
exec /lib/systemd/systemd --system --unit=test.target
"""

UNIT = """[Unit]
DefaultDependencies=no
[Service]
Type=notify
NotifyAccess=main
WatchdogSec=2
User={user}
Environment=ASAN_OPTIONS=detect_leaks=0
ExecStart={binary} {config}
ExecReload=/bin/sh -c 'kill -HUP $MAINPID'
StandardError=append:{log}
"""


class RealManager:
    """systemd as the first process of namespaces of its own."""

    def __init__(self, unit):
        self.process = subprocess.Popen(
            ["unshare", "-pmCuif", "--kill-child", "--mount-proc", "sh", "-ec",
             MANAGER.format(unit=unit)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run(self, *args):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            first = file.read().split()[:1]
        return subprocess.run(["nsenter", "-t", *first, "-p", "-m", "-C", "-u", "-i", *args],
                              capture_output=True, text=True, timeout=LIMIT, check=False)

    def shown(self, name):
        return self.run("systemctl", "show", "--value", "-p", name, "pgweir").stdout.strip()

    def wait_ready(self):
        wait_until(lambda: self.process.poll() is not None or
                   self.run("systemctl", "is-active", "test.target").stdout == "active\n",
                   what="a service manager")
        return self.process.poll() is None


@pytest.fixture
def real_manager(make_pgweir):
    if os.getuid() or not shutil.which("systemctl") or not os.path.exists("/lib/systemd/systemd"):
        pytest.skip("needs root and systemd")
    weir = make_pgweir()
    unit = f"{weir.dir}/test.service"
    with open(unit, "w") as file:
        file.write(UNIT.format(user=weir.account.name, binary=weir.binary, config=weir.ini,
                               log=weir.log_path))
    manager = RealManager(unit)
    manager.weir = weir
    try:
        if not manager.wait_ready():
            pytest.skip("systemd cannot run in namespaces here")
        yield manager
    finally:
        manager.process.kill()
        manager.process.wait()


def test_a_take_over_within_the_unit_and_a_reload_are_two_things(real_manager):
    weir = real_manager.weir
    assert real_manager.run("systemctl", "start", "pgweir").returncode == 0
    before = real_manager.shown("MainPID")
    client = weir.client()
    client.query("BEGIN")
    taken = real_manager.run(f"{TOP}/etc/pgweir-takeover")
    after = real_manager.shown("MainPID")
    assert taken.returncode == 0 and after not in ("0", before), taken.stderr
    assert client.value("SELECT 1") == "1"
    client.query("COMMIT")
    assert real_manager.run("systemctl", "reload", "pgweir").returncode == 0
    assert real_manager.shown("MainPID") == after
    wait_until(lambda: real_manager.shown("ActiveState") == "active", what="the end of the reload")
    assert "got SIGHUP, re-reading config" in weir.log
