# SPDX-License-Identifier: ISC
"""Runs interactive programs in a terminal: psql with TAB completion, pgcli."""

import os
import pty
import re
import select
import signal
import time

from .wait import LIMIT

# Terminal control sequences (colours, cursor position) are not text.
CONTROL = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>]|\][^\x07]*\x07)|[\x07\r]")
WHERE_IS_THE_CURSOR = b"\x1b[6n"


class Terminal:
    def __init__(self, argv, term="dumb", **env):
        self.seen = ""  # all output
        self.text = ""  # output that expect() has not consumed yet
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM=term, PAGER="cat", **env)
            os.execvp(argv[0], argv)

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern, limit=LIMIT):
        """Reads until the pattern occurs in the output since the last call; returns the match."""
        deadline = time.monotonic() + limit
        while not (found := re.search(pattern, self.text, re.S)):
            left = deadline - time.monotonic()
            assert left > 0 and self._read(left), f"no {pattern!r} in {self.text!r}"
        self.text = self.text[found.end():]
        return found

    def _read(self, limit):
        ready, _, _ = select.select([self.fd], [], [], limit)
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # it has ended
            return False
        if WHERE_IS_THE_CURSOR in data:
            os.write(self.fd, b"\x1b[1;1R")
        shown = CONTROL.sub("", data.decode(errors="replace"))
        self.text += shown
        self.seen += shown
        return bool(data)

    def close(self):
        os.close(self.fd)
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)
