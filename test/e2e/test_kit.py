# SPDX-License-Identifier: ISC
"""Tests of the tests' own kit: the variant with several event loops, what is counted."""

import types

import pytest

from .conftest import Tally
from .kit.daemon import with_loops

ADDED = "[pgbouncer]\nloops = 3\nservers_per_loop = 0\n"


@pytest.mark.parametrize("text, expected", (
    ("[pgbouncer]\na = 1\n", "[pgbouncer]\na = 1\n" + ADDED),
    ("[pgbouncer]\na = 1", "[pgbouncer]\na = 1\n" + ADDED),
    ("[pgbouncer]\n[users]\nloopsy = pool_size=1\n",
     "[pgbouncer]\n[users]\nloopsy = pool_size=1\n" + ADDED),
    ("[databases]\n* =\n", "[databases]\n* =\n"),
    ("", ""),
    ("[pgbouncer]\n;loops = 2\n", "[pgbouncer]\n;loops = 2\n" + ADDED),
    ("[pgbouncer]\nloops=2\n", "[pgbouncer]\nloops=2\n"),
    ("[pgbouncer]\nservers_per_loop=2\n",
     "[pgbouncer]\nservers_per_loop=2\n[pgbouncer]\nloops = 3\n"),
    ("[pgbouncer]\n  loops = 1\n[users]\n", "[pgbouncer]\n  loops = 1\n[users]\n"),
))
def test_a_configuration_gets_the_loops_of_the_variant(text, expected):
    assert with_loops(text, "3") == expected
    assert with_loops(text, None) == text


def written(weir):
    with open(weir.ini, encoding="utf-8") as file:
        return file.read()


def test_every_daemon_gets_them(make_pgweir, monkeypatch):
    monkeypatch.setenv("PGWEIR_TEST_LOOPS", "3")
    assert written(make_pgweir()).endswith(ADDED)
    assert written(make_pgweir(loops=None)).endswith(ADDED)
    assert written(make_pgweir(ini="[pgbouncer]\n")).endswith(ADDED)
    assert written(make_pgweir(loops=1)).count("loops = ") == 1


@pytest.mark.one_loop("this is the test of the marker")
def test_a_test_can_have_one_loop(make_pgweir, monkeypatch):
    monkeypatch.setenv("PGWEIR_TEST_LOOPS", "3")
    assert "loops" not in written(make_pgweir())


def test_without_the_variant_nothing_is_added(make_pgweir, monkeypatch):
    monkeypatch.delenv("PGWEIR_TEST_LOOPS", raising=False)
    assert "loops" not in written(make_pgweir())


def report(name, outcome, why=None):
    return types.SimpleNamespace(nodeid=name, failed=outcome == "failed", skipped=outcome == "skipped",
                                 longrepr=why and ("file", 1, f"Skipped: {why}"))


def test_what_is_skipped_is_counted_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PGWEIR_TEST_TALLY", str(tmp_path / "tally"))
    tally = Tally()
    for one in (report("a", "passed"), report("b", "skipped", "no gdb"), report("b", "passed"),
                report("c", "skipped", "no gdb"), report("d", "passed"), report("d", "failed"),
                report("e", "skipped", "not root"), report("e", "failed")):
        tally.pytest_runtest_logreport(one)
    tally.pytest_collectreport(report("f", "skipped", "could not import 'x'"))
    tally.pytest_sessionfinish()
    assert (tmp_path / "tally").read_text() == ("e2e 1 2 0\ne2e 0 0 2 no gdb\n"
                                                "e2e 0 0 1 could not import 'x'\n")
