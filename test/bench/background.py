# SPDX-License-Identifier: ISC
"""Processes that run only when no other process can run: load whose own CPU use is not measured.

SCHED_IDLE alone is not sufficient. If sessions are scheduled as groups
(/proc/sys/kernel/sched_autogroup_enabled), it applies within a session only, and each server has
its own session. Therefore the processes get a control group that is idle as a whole. Only root can
create one; without root, only SCHED_IDLE is used.
"""

import contextlib
import os
import pathlib
import sys

CONTROL_GROUPS = pathlib.Path("/sys/fs/cgroup")


class Background:
    """A context manager; the added processes end before it does."""

    def __init__(self, control_groups=CONTROL_GROUPS):
        switch = control_groups / "cgroup.subtree_control"
        is_second = switch.exists()  # for both versions of control groups
        is_on = is_second and "cpu" in switch.read_text().split()
        parent = control_groups if is_second else control_groups / "cpu"
        self.switch = switch if is_second and not is_on else None
        self.group = parent / f"pgweir-background-{os.getpid()}"
        self.is_whole = False  # lower priority than all processes, not only within a session

    def __enter__(self):
        try:
            if self.switch:
                self.switch.write_text("+cpu")
            self.group.mkdir()
            (self.group / "cpu.idle").write_text("1")
            self.is_whole = True
        except OSError as error:
            print(f"bench: gives way within its own session only: {error}", file=sys.stderr)
            self._remove()
        return self

    def _remove(self):
        with contextlib.suppress(OSError):
            self.group.rmdir()
        if self.switch:
            with contextlib.suppress(OSError):
                self.switch.write_text("-cpu")

    def add(self, pid):
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        if self.is_whole:
            (self.group / "cgroup.procs").write_text(str(pid))

    def __exit__(self, *failure):
        self._remove()
