# SPDX-License-Identifier: ISC
"""Waiting for an event, always with a limit."""

import os
import time

# How long anything may take before a test calls it lost. It bounds a hang; no test measures by it.
LIMIT = float(os.environ.get("PGWEIR_TEST_LIMIT", "30"))


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
