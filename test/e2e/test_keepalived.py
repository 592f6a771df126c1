# SPDX-License-Identifier: ISC
"""The example for keepalived in doc/high-availability.md: two machines, and one address that moves."""

import os
import re
import shutil
import signal

import pytest

from .kit import network
from .kit.daemon import Pgweir
from .kit.wait import LIMIT, wait_exit, wait_until
from .test_docs import TOP

KEEPALIVED = shutil.which("keepalived") or "/usr/sbin/keepalived"
PAGE = os.path.join(TOP, "doc/high-availability.md")
ADDRESS = "10.0.0.100"
LOGIN = "login attempt: db=app user=alice"
HEALTH = "/usr/bin/curl -fs http://127.0.0.1:9127/healthz"

pytestmark = [
    pytest.mark.skipif(not os.path.exists(KEEPALIVED), reason="there is no keepalived"),
    pytest.mark.skipif(bool(network.why_impossible()), reason=f"{network.why_impossible()}"),
]


def example(account, priority, script):
    """The configuration of the page."""
    with open(PAGE, encoding="utf-8") as page:
        text = page.read()
    assert HEALTH in text
    text = re.search(r"### keepalived\n.*?```\n(.*?)```", text, re.S).group(1)
    changes = {"user pgweir\n": f"user {account.name}\n", "priority 100\n": f"priority {priority}\n"}
    if not script:
        # psql may take long on a busy machine; here its pgweir answers, or is gone.
        changes["timeout 2\n"] = f"timeout {int(LIMIT)}\n"
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    assert f"{ADDRESS}/24" in text
    return re.sub(r'script ".*"', f'script "{script}"', text) if script else text


class Pooler:
    """A machine with pgweir and keepalived."""

    def __init__(self, machine, weir, config):
        self.machine, self.weir, self.config = machine, weir, config
        self.log_path = f"{weir.dir}/keepalived.log"
        self.keepalived = None

    @property
    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def start_keepalived(self):
        with open(self.log_path, "ab") as log:
            self.keepalived = self.machine.popen(
                [KEEPALIVED, "--vrrp", "--dont-fork", "--log-console",
                 f"--use-file={self.config}"], as_root=True, stdout=log, stderr=log)

    def end_keepalived(self):
        self.keepalived.send_signal(signal.SIGTERM)
        wait_exit(self.keepalived, LIMIT)

    def kill_weir(self):
        self.weir.process.kill()
        self.weir.process.wait()
        self.weir.process = None

    def has_address(self):
        return self.machine.has(ADDRESS)

    def wait_for(self, pattern):
        """A line of keepalived's log that was not there before."""
        known = len(re.findall(pattern, self.log))
        return lambda: wait_until(lambda: len(re.findall(pattern, self.log)) > known,
                                  what=f"the line {pattern} in\n{self.log}")


@pytest.fixture
def lan(account):
    made = network.Network(account)
    yield made
    made.close()


@pytest.fixture
def make_poolers(account, binary, place, postgres, lan, daemons):
    started = []

    def make(script=None, **settings):
        for number, priority in enumerate((100, 90), 1):
            machine = lan.machine(f"10.0.0.1{number}/24")
            machine.do("install", "-d", "-o", account.name, "/run/pgweir")
            weir = Pgweir(machine, binary,
                          os.path.join(place, f"keepalived{number}"))
            daemons.append(weir)
            weir.port = 6432
            weir.configure(databases={"app": f"host={postgres.socket_dir} port={postgres.port}"},
                           listen_addr="*", unix_socket_dir="/run/pgweir",
                           auth_type="hba", auth_hba_file=account.write(
                               f"{weir.dir}/hba", "host app alice all trust\n"), **settings)
            config = account.write(f"{weir.dir}/keepalived.conf",
                                   example(account, priority, script))
            pooler = Pooler(machine, weir.start(), config)
            started.append(pooler)
            pooler.start_keepalived()
            if number == 1:
                wait_until(pooler.has_address, what="the address at its first master")
        return started

    yield make
    for pooler in started:
        if pooler.keepalived.poll() is None:
            pooler.end_keepalived()


@pytest.fixture
def client(lan):
    return lan.machine("10.0.0.20/24")


def served_by(client, poolers):
    """The number of the pooler that serves a new client of the address."""
    before = [pooler.weir.log.count(LOGIN) for pooler in poolers]
    done = client.run(["psql", "-Atc", "SELECT 17", f"host={ADDRESS} port=6432 user=alice"
                       f" dbname=app connect_timeout={int(LIMIT)}"])
    assert (done.returncode, done.stdout) == (0, "17\n")
    after = [pooler.weir.log.count(LOGIN) for pooler in poolers]
    return [now - then for now, then in zip(after, before)].index(1) + 1


def test_the_address_leaves_what_has_failed(make_poolers, lan, client):
    one, two = poolers = make_poolers()
    assert served_by(client, poolers) == 1

    one.kill_weir()
    wait_until(two.has_address, what="the address at the second machine")
    wait_until(lambda: not one.has_address(), what="the first machine to give it up")
    assert served_by(client, poolers) == 2

    # What comes back is no master, although its priority is higher.
    is_back = one.wait_for("Entering BACKUP STATE")
    one.weir.start()
    is_back()
    assert served_by(client, poolers) == 2

    two.end_keepalived()
    wait_until(one.has_address, what="the address at the first machine")
    assert served_by(client, poolers) == 1

    is_back = two.wait_for("VRRP_Script.* succeeded")
    two.start_keepalived()
    is_back()
    lan.unplug(one.machine)
    wait_until(two.has_address, what="the address at the machine that has a network")
    assert served_by(client, poolers) == 2


def test_the_address_leaves_what_hangs(make_poolers, client):
    one, two = poolers = make_poolers(HEALTH, metrics_listen="127.0.0.1:9127")
    one.weir.signal(signal.SIGSTOP)
    try:
        wait_until(two.has_address, what="the address at the second machine")
        wait_until(lambda: not one.has_address(), what="the first machine to give it up")
        assert served_by(client, poolers) == 2
    finally:
        one.weir.signal(signal.SIGCONT)
