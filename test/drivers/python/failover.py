# SPDX-License-Identifier: ISC
"""What the Python programs of test/failover share: names, the lines, the end.

A program has some clients of each kind. Each writes rows with names of their own again and again,
on one connection as long as that lives, and prints what has become of them: "ok", the kind and the
rows; or "failed", the kind, the stage, SQLSTATE, words and the rows. It ends with its input.
"""

import os
import sys
import threading

CLIENTS = 2  # of each kind
PAUSE = 0.005  # seconds between two steps of a client
INPUT_OVER = threading.Event()


def say(*fields):
    """In one write, so that what threads say at once does not mix."""
    os.write(sys.stdout.fileno(), ("\t".join(fields) + "\n").encode())


class Client:
    """`stage` is what it is about to do: connect, begin, work or commit."""

    def __init__(self, step, number):
        self.kind, self.step = step.__name__, step
        self.name = f"{os.environ['PGAPPNAME']}/{self.kind}/{number}"
        self.count, self.rows, self.stage, self.connection = 0, [], "connect", None

    def new_row(self):
        self.count += 1
        self.rows.append(f"{self.name}/{self.count}")
        return (self.rows[-1],)

    def begin_step(self):
        self.rows, self.stage = [], "work" if self.connection else "connect"

    def done(self):
        say("ok", self.kind, " ".join(self.rows))

    def failed(self, error):
        words = f"{type(error).__name__}: {error}".replace("\n", " ").replace("\t", " ")
        say("failed", self.kind, self.stage, getattr(error, "sqlstate", None) or "-", words,
            " ".join(self.rows))
        self.connection = None


def wait_for_end_of_input():
    sys.stdin.read()
    INPUT_OVER.set()
