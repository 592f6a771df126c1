# SPDX-License-Identifier: ISC
"""A plugin for pytest: notes for each test which mutants it gets to, and how long it takes.

In the folder MUTANTS_FOLDER it makes two files for each test that passes: N.met has one byte for
each mutant, and N.passed the test's name and its seconds.
"""

import os
import time

import pytest

from . import points

FOLDER = os.environ.get("MUTANTS_FOLDER")
_count = [0]


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    del nextitem
    if not FOLDER:
        yield
        return
    _count[0] += 1
    base = os.path.join(FOLDER, str(_count[0]))
    with open(f"{base}.met", "wb") as met:
        met.truncate(points.MUTANTS_MAX)
    os.chmod(f"{base}.met", 0o666)
    os.environ["MUTANTS_MET"] = f"{base}.met"
    item.mutants_base, item.mutants_failed = base, False
    begin = time.monotonic()
    yield
    if not item.mutants_failed:
        with open(f"{base}.passed", "w", encoding="utf-8") as record:
            name = item.nodeid.removeprefix("test/e2e/")
            record.write(f"{name}\n{time.monotonic() - begin}\n")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    item.mutants_failed = getattr(item, "mutants_failed", False) or not report.passed
