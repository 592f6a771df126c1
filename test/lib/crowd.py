# SPDX-License-Identifier: ISC
"""Python interface to a crowd of clients (test/load/crowd.c) that log in, may send queries, and
idle.
"""

import subprocess

import servers


class Crowd:
    """A context manager; within it all `count` clients are logged in.

    seconds: how long the login took, or the last `ask`.
    """

    def __init__(self, binary, port, user, database, count, databases=1, in_flight=64):
        self.command = [str(word) for word in (
            binary, port, user, database, count, databases, in_flight)]
        self.count = count
        self.process, self.seconds = None, 0.0

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            self._take("logins")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failure):
        """The program ends at the end of its input; closing thousands of sockets takes a moment."""
        try:
            self.process.stdin.close()
            self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait(10)
            self.process.stdout.close()
            self.process.stderr.close()

    def _take(self, what):
        """Reads a line; the program itself reports if nothing arrives for a minute."""
        words = self.process.stdout.readline().split()
        if not words:
            raise servers.ServerError(f"{what}: {self.process.stderr.read().strip()[-500:]}")
        done, failed, self.seconds = int(words[0]), int(words[1]), float(words[2])
        if failed or done != self.count:
            self.process.stdin.close()
            raise servers.ServerError(f"{what}: {done} of {self.count}, {failed} failed: "
                                      + self.process.stderr.read().strip()[-500:])

    def ask(self):
        """Each client sends a query and reads the response."""
        self.process.stdin.write("ask\n")
        self.process.stdin.flush()
        self._take("answers")
