# SPDX-License-Identifier: ISC
"""A primary and its streaming standbys, as hosts 127.0.0.2, 127.0.0.3, ... on one port, or each on a
machine of its own (network.py).

All are copies of the template, so they have one system identifier, and a standby streams from the
state in which the template was shut down. Nothing is copied from a running server.
"""

import os
import signal
import unittest

from .account import drop_place, free_port
from .postgres import HBA, Postgres
from .wait import wait_until

# Of a host that can fail: what is acknowledged is on its disk, and pg_rewind can follow.
SETTINGS = {
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_log_hints": "on",
    "wal_keep_size": "256MB",
    "wal_receiver_status_interval": "1s",
    "wal_retrieve_retry_interval": "100ms",
}


class Host(Postgres):
    def __init__(self, cluster, number, **settings):
        address = f"{cluster.net}.{number + 2}"
        self.machine = cluster.network and cluster.network.machine(f"{address}/24")
        settings = {**SETTINGS, **settings, "listen_addresses": address}
        super().__init__(self.machine or cluster.account, cluster.place, cluster.template,
                         f"{cluster.name}{number}", **settings)
        self.name = f"host{number}"
        self.host = address
        self.port = cluster.port
        self.account.mkdir(self.socket_dir)

    @property
    def socket_dir(self):
        return f"{self.dir}.s"  # not in the data directory, where pg_rewind cannot replace it

    @property
    def log_path(self):
        return f"{self.socket_dir}/log"

    def follow(self, primary):
        """Streams from this host from its next start on."""
        self.account.write(os.path.join(self.dir, "postgresql.auto.conf"),
                           f"primary_conninfo = '{self._conninfo(primary)}'\n", 0o600)
        self.account.write(os.path.join(self.dir, "standby.signal"), "")
        return self

    def repoint(self, primary):
        """Streams from another host, without a restart."""
        self.query(f"ALTER SYSTEM SET primary_conninfo = '{self._conninfo(primary)}'")
        self.query("SELECT pg_reload_conf()")

    def stop_receiving(self):
        """What a primary that hangs has sent may arrive long after that."""
        self.query("ALTER SYSTEM SET primary_conninfo = ''")
        self.query("SELECT pg_reload_conf()")
        wait_until(lambda: not self.value("SELECT count(*) FROM pg_stat_wal_receiver"),
                   what=f"the end of {self.name}'s stream")

    def _conninfo(self, primary):
        return (f"host={primary.host} port={primary.port} user=streamer"
                f" application_name={self.name}")

    def is_standby(self):
        return self.value("SELECT pg_is_in_recovery()")

    def promote(self):
        """Returns when it takes writes."""
        self.value("SELECT pg_promote(true, 60)")
        wait_until(lambda: not self.is_standby(), what=f"the promotion of {self.name}")
        return self

    def kill(self):
        """As if its machine had lost power: kill -9 of the postmaster and all its processes."""
        pids = [self.process.pid, *_children(self.process.pid)]
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        self.stop(signal.SIGKILL)
        wait_until(lambda: not any(_is_alive(pid) for pid in pids), what=f"the end of {self.name}")

    def hang(self):
        """SIGSTOP for all its processes. The returned function lets it continue."""
        pids = [self.process.pid, *_children(self.process.pid)]
        for pid in pids:
            _signal(pid, signal.SIGSTOP)

        def go_on():
            for pid in pids:
                _signal(pid, signal.SIGCONT)

        return go_on

    def rewind(self, primary):
        """An old primary, stopped, becomes a standby of the new one."""
        if not os.path.exists(f"{self.bin}/pg_rewind"):
            raise unittest.SkipTest("this PostgreSQL has no pg_rewind")  # test/lib/fetch-postgresql
        primary.query("CHECKPOINT")  # pg_rewind reads the new timeline in the control file
        if os.path.exists(os.path.join(self.dir, "postmaster.pid")):
            # Recovers first, as pg_rewind wants a clean shutdown.
            args = [f"{self.bin}/postgres", "--single", "-F", "-D", self.dir]
            for key in ("wal_log_hints", "wal_keep_size"):  # pg_rewind needs both
                args += ["-c", f"{key}={SETTINGS[key]}"]
            self.account.run([*args, "template1"], input="", cwd="/")
        done = self.account.run(
            [f"{self.bin}/pg_rewind", "-D", self.dir, "--source-server",
             f"host={primary.host} port={primary.port} user=postgres dbname=postgres"], cwd="/")
        if done.returncode != 0:
            raise RuntimeError(f"pg_rewind failed:\n{done.stdout}")
        return self.follow(primary)

    def refuse(self, user):
        """Ends this user's connections and refuses new ones; None: refuses nobody."""
        rule = f"host all {user} 0.0.0.0/0 reject\n" if user else ""
        self.account.write(os.path.join(self.dir, "pg_hba.conf"), rule + HBA, 0o600)
        self.query("SELECT pg_reload_conf()")
        wait_until(lambda: bool(user) == (self.value("SELECT count(*) FROM pg_hba_file_rules"
                                                     " WHERE auth_method = 'reject'") > 0),
                   what=f"new rules of {self.name}")
        if user:
            self.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                       f" WHERE usename = '{user}'")

    def pause_replay(self):
        self.query("SELECT pg_wal_replay_pause()")
        wait_until(lambda: self.value("SELECT pg_get_wal_replay_pause_state()") == "paused",
                   what=f"the pause of {self.name}")

    def resume_replay(self):
        self.query("SELECT pg_wal_replay_resume()")

    def replayed(self):
        return self.value("SELECT pg_last_wal_replay_lsn()::text")


class Cluster:
    """hosts[0] is the first primary, the others its standbys. All are started.

    With is_synchronous, a commit is acknowledged when one standby has it, so a failover to the
    standby that is the furthest loses nothing.

    With a network, each host is a machine there, with an address of `net`.
    """

    def __init__(self, account, place, template, name, standbys=2, is_synchronous=False,
                 network=None, net="127.0.0", **settings):
        self.account, self.place, self.template, self.name = account, place, template, name
        self.network, self.net = network, net
        self.port = free_port()
        if is_synchronous:
            settings["synchronous_standby_names"] = "ANY 1 (*)"
        self.hosts = [Host(self, number, **settings) for number in range(standbys + 1)]

    def start(self):
        primary = self.hosts[0].start()
        for host in self.hosts[1:]:
            host.follow(primary).start()
        for host in self.hosts[1:]:
            self.wait_streaming(host)
        return self

    @property
    def host_list(self):
        """As in an entry of [databases]."""
        return ",".join(host.host for host in self.hosts)

    @property
    def primary(self):
        """The one host that is running and takes writes."""
        found = [host for host in self.hosts if host.is_running() and not host.is_standby()]
        assert len(found) == 1, [host.name for host in found]
        return found[0]

    @property
    def standbys(self):
        return [host for host in self.hosts if host.is_running() and host.is_standby()]

    def wait_streaming(self, host):
        wait_until(lambda: host.value("SELECT count(*) FROM pg_stat_wal_receiver"
                                      " WHERE status = 'streaming'") == 1,
                   limit=60, what=f"{host.name} streaming")

    def furthest(self, among=None):
        """The standby that has received most, which loses nothing if it is promoted.

        among: standbys, if one of the hosts hangs and does not say what it is.
        """
        def received(host):
            return host.value("SELECT pg_wal_lsn_diff(greatest(pg_last_wal_receive_lsn(),"
                              " pg_last_wal_replay_lsn()), '0/0')")
        return max(among or self.standbys, key=received)

    def fail_over(self, among=None):
        """Promotes the furthest standby, and the others follow it; returns the new primary.

        The old primary must be stopped, hang, or be no primary any more.
        """
        among = among or self.standbys
        for host in among:
            host.stop_receiving()
        chosen = self.furthest(among)
        others = [host for host in among if host is not chosen]
        chosen.promote()
        for host in others:
            host.repoint(chosen)
        return chosen

    def wait_replayed(self, host, primary=None):
        """Until the standby shows everything that the primary has acknowledged.

        Not pg_current_wal_insert_lsn(): at the start of a page or segment it is behind the page's
        header, a position that pg_last_wal_replay_lsn() reaches only when more is written.
        """
        primary = primary or self.primary
        lsn = primary.value("SELECT pg_current_wal_flush_lsn()::text")
        wait_until(lambda: host.value("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", lsn),
                   what=f"{host.name} at {lsn}")

    def stop(self):
        for host in self.hosts:
            for pid in _children(host.process.pid) if host.is_running() else []:
                _signal(pid, signal.SIGCONT)
            if host.is_running():
                _signal(host.process.pid, signal.SIGCONT)
            host.stop(signal.SIGQUIT)
            drop_place(host.dir)
            drop_place(host.socket_dir)


def _children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
