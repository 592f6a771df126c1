# SPDX-License-Identifier: ISC
"""Waiting for an event, always with a limit."""

import os
import select
import subprocess
import time

# Maximum time for any event in a test. It detects a hang; no test measures with it.
LIMIT = float(os.environ.get("PGWEIR_TEST_LIMIT", "60"))


def wait_until(predicate, limit=None, what=None):
    """Polls until predicate() is true and returns its value; TimeoutError after `limit` seconds."""
    limit = LIMIT if limit is None else limit
    deadline = time.monotonic() + limit
    pause = 0.001
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what or 'what was waited for'} did not come within {limit} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def wait_exit(process, limit):
    """Popen.wait(limit), without the naps of up to 50 ms that it takes: each test ends a process."""
    try:
        end = os.pidfd_open(process.pid)
    except OSError:  # its status was taken already, or there is no such call here
        return process.wait(limit)
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        if not poll.poll(limit * 1000):
            raise subprocess.TimeoutExpired(process.args, limit)
    finally:
        os.close(end)
    return process.wait()
