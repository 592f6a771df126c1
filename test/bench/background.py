# SPDX-License-Identifier: ISC
"""Processes that run when no other has anything to do: load whose own work is not to be measured.

SCHED_IDLE does not do it alone. Where the sessions are scheduled as groups
(/proc/sys/kernel/sched_autogroup_enabled), it counts within a session only, and each server is
one of its own. So it takes a control group that is idle as a whole; who may not make one
(only root may) gets what SCHED_IDLE gives.
"""

import contextlib
import os
import pathlib
import sys

CONTROL_GROUPS = pathlib.Path("/sys/fs/cgroup")


class Background:
    """A context manager; those that were added have ended before it does."""

    def __init__(self, control_groups=CONTROL_GROUPS):
        switch = control_groups / "cgroup.subtree_control"
        is_second = switch.exists()  # of the two versions of control groups
        is_on = is_second and "cpu" in switch.read_text().split()
        parent = control_groups if is_second else control_groups / "cpu"
        self.switch = switch if is_second and not is_on else None
        self.group = parent / f"pgweir-background-{os.getpid()}"
        self.is_whole = False  # they give way to all processes, and not within a session only

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
