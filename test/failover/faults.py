# SPDX-License-Identifier: ISC
"""What happens to hosts: each fault ends with a primary that works."""

import signal
import time

from e2e.kit.wait import wait_until

WATCHER = "carol"  # the user of the host watches


class Scene:
    def __init__(self, cluster, weir, board, seconds):
        self.cluster, self.weir, self.board, self.seconds = cluster, weir, board, seconds
        self.times, self.links = {}, {}

    def let_run(self):
        time.sleep(self.seconds)

    def note_ready(self, fault, ready):
        """Waits until statements succeed again."""
        end = time.monotonic() + 30
        while self.board.first_after(ready) is None:
            if time.monotonic() > end:
                self.board.find(f"{fault}: no statement within 30 s")
                return
            time.sleep(0.01)
        self.times.setdefault(fault, []).append(self.board.first_after(ready))


def restart(scene):
    """pg_ctl restart -m fast"""
    host = scene.cluster.primary
    host.stop(signal.SIGINT)
    host.start()
    return time.monotonic()


def crash(scene):
    """kill -9, and the same host again"""
    host = scene.cluster.primary
    host.kill()
    host.start()
    return time.monotonic()


def hang(scene):
    """SIGSTOP of all processes, and later SIGCONT: statements wait, and none fails"""
    go_on = scene.cluster.primary.hang()
    scene.let_run()
    go_on()
    return time.monotonic()


def failover(scene):
    """kill -9 of the primary, a standby is promoted, the old primary becomes a standby"""
    old = scene.cluster.primary
    old.kill()
    new = scene.cluster.fail_over()
    ready = time.monotonic()
    scene.note_ready("failover", ready)
    old.rewind(new).start()
    scene.cluster.wait_streaming(old)
    return None


def switchover(scene):
    """the primary is shut down, a standby is promoted, the old primary follows it"""
    old = scene.cluster.primary
    old.stop(signal.SIGINT)
    new = scene.cluster.fail_over()
    ready = time.monotonic()
    scene.note_ready("switchover", ready)
    old.follow(new).start()
    scene.cluster.wait_streaming(old)
    return None


def split(scene):
    """the primary hangs, a standby is promoted, and the old primary is back as a second one"""
    old = scene.cluster.primary
    go_on = old.hang()
    new = scene.cluster.fail_over([host for host in scene.cluster.hosts if host is not old])
    go_on()
    ready = time.monotonic()
    scene.note_ready("split", ready)
    scene.let_run()
    old.stop(signal.SIGINT)
    old.rewind(new).start()
    scene.cluster.wait_streaming(old)
    return None


def drain(scene):
    """a planned switchover: DRAIN HOST, then as switchover; nothing may fail"""
    old, before = scene.cluster.primary, sum(scene.board.excused.values())
    scene.weir.admin(f"DRAIN HOST {old.host}")
    old.stop(signal.SIGINT)
    new = scene.cluster.fail_over()
    scene.note_ready("drain", time.monotonic())
    if sum(scene.board.excused.values()) != before:
        scene.board.find(f"drain: {dict(scene.board.excused)}")
    old.follow(new).start()
    scene.cluster.wait_streaming(old)
    scene.weir.admin(f"ENABLE HOST {old.host}")
    return None


def blackhole(scene):
    """the network to the primary drops everything, a standby is promoted, and the network is back"""
    old = scene.cluster.primary
    scene.links[old].cut()
    new = scene.cluster.fail_over([host for host in scene.cluster.hosts if host is not old])
    scene.note_ready("blackhole", time.monotonic())
    scene.let_run()
    scene.links[old].mend()
    scene.let_run()
    old.stop(signal.SIGINT)
    old.rewind(new).start()
    scene.cluster.wait_streaming(old)
    return None


def refused(scene):
    """failover while PostgreSQL refuses the user of the host watches"""
    old = scene.cluster.primary
    for host in scene.cluster.hosts:
        host.refuse(WATCHER)
    wait_until(lambda: all("reject" in (row["last_error"] or "")
                           for row in scene.weir.admin("SHOW HOSTS")), what="watches refused")
    old.kill()
    new = scene.cluster.fail_over()
    scene.note_ready("refused", time.monotonic())
    old.rewind(new).start()
    scene.cluster.wait_streaming(old)
    for host in scene.cluster.hosts:
        host.refuse(None)
    return None


def standbys(scene):
    """the standbys are killed one after the other, and come back"""
    for host in scene.cluster.standbys:
        host.kill()
        scene.let_run()
        host.start()
        scene.cluster.wait_streaming(host)
    return time.monotonic()


IN_PLACE = (restart, crash, hang)
WITH_ROLES = (failover, switchover, drain, split, blackhole, refused, standbys)
