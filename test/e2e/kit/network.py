# SPDX-License-Identifier: ISC
"""Machines of one network, as network namespaces. They end with their processes, and leave nothing
on the machine of the tests.
"""

import os
import shutil
import subprocess

from .account import Account
from .wait import wait_until

TOOLS = ("unshare", "nsenter", "ip", "nft")


def why_impossible():
    """Why there can be no namespaces here; None: there can be."""
    if os.geteuid() != 0:
        return "namespaces need root"
    lacking = [name for name in TOOLS if not shutil.which(name)]
    if lacking:
        return f"there is no {', '.join(lacking)}"
    tried = subprocess.run(["unshare", "--net", "--mount", "ip", "link", "add", "switch", "type",
                            "bridge"], capture_output=True, text=True)
    return tried.stderr.strip() if tried.returncode else None


def _do(*args):
    done = subprocess.run(args, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(args)}: {done.stderr}")
    return done.stdout


class Machine(Account):
    """Runs programs in a namespace of its own, with the files of this machine, but its own /run.

    It is an account: what runs in it is that user, or root (`as_root`).
    """

    def __init__(self, account):
        super().__init__(account.name, account.uid, account.gid, account.is_other)
        self._holder = subprocess.Popen(["unshare", "--net", "--mount", "cat"],
                                        stdin=subprocess.PIPE)
        self.pid = self._holder.pid
        wait_until(self._is_apart, what="a new namespace")
        self.do("mount", "-t", "tmpfs", "tmpfs", "/run")
        self.do("ip", "link", "set", "lo", "up")

    def _is_apart(self):
        """unshare has become cat, so both namespaces are new."""
        with open(f"/proc/{self.pid}/comm", encoding="ascii") as file:
            return file.read() == "cat\n"

    @property
    def _enter(self):
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", f"--mount=/proc/{self.pid}/ns/mnt"]

    def popen(self, args, as_root=False, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        who = [] if as_root else [f"--setuid={self.uid}", f"--setgid={self.gid}"]
        kw["env"] = dict(os.environ, **kw.pop("env", {}))
        return subprocess.Popen([*self._enter, *who, "--", *args], **kw)

    def do(self, *args):
        """A command of root's that must succeed."""
        return _do(*self._enter, "--", *args)

    def has(self, address):
        return f" {address}/" in self.do("ip", "-4", "addr")

    def cut(self):
        """A firewall that drops all, so that neither end notices."""
        self.do("nft", "add table inet cut;"
                " add chain inet cut in { type filter hook input priority 0; };"
                " add chain inet cut out { type filter hook output priority 0; };"
                " add rule inet cut in iifname eth0 drop;"
                " add rule inet cut out oifname eth0 drop")

    def mend(self):
        self.do("nft", "delete table inet cut")

    def close(self):
        self._holder.stdin.close()
        self._holder.wait()


class Network:
    """Machines behind one switch."""

    def __init__(self, account):
        self.account, self.switch, self.machines = account, Machine(account), []
        self.switch.do("ip", "link", "add", "switch", "type", "bridge")
        self.switch.do("ip", "link", "set", "switch", "up")

    def join(self, address):
        """This machine gets a port, too, which is gone with the network."""
        name = f"test{self.switch.pid}"
        _do("ip", "link", "add", name, "type", "veth", "peer", "name", "host",
            "netns", str(self.switch.pid))
        self.switch.do("ip", "link", "set", "host", "master", "switch", "up")
        _do("ip", "addr", "add", address, "dev", name)
        _do("ip", "link", "set", name, "up")

    def machine(self, address):
        """A machine whose eth0 has this address, as 10.0.0.11/24."""
        made = Machine(self.account)
        self.machines.append(made)
        self.switch.do("ip", "link", "add", _port(made), "type", "veth", "peer", "name", "eth0",
                       "netns", str(made.pid))
        self.switch.do("ip", "link", "set", _port(made), "master", "switch", "up")
        made.do("ip", "addr", "add", address, "dev", "eth0")
        made.do("ip", "link", "set", "eth0", "up")
        return made

    def unplug(self, machine):
        self.switch.do("ip", "link", "set", _port(machine), "down")

    def close(self):
        for machine in [*self.machines, self.switch]:
            machine.close()


def _port(machine):
    return f"port{machine.pid}"
