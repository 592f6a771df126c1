# SPDX-License-Identifier: ISC
"""Tests of the benchmark of event loops: made-up figures through its report, and one short run."""

import importlib.machinery
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

from .kit.daemon import find_binary

TEST = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TEST / "bench"), str(TEST / "lib")]

import loop_cases  # noqa: E402  (the paths come first)
import loop_report  # noqa: E402
import report  # noqa: E402
from loop_cases import BEFORE, LoopCase, LoopGoal, NotThere  # noqa: E402

SCRIPT = TEST / "bench" / "loops"


def made_up(goals=()):
    """A case, and results: two loops take 33 instead of 30, and make 18 of 10 transactions."""
    runs = {BEFORE: [{"cpu_us": 25.0}], "1": [{"cpu_us": 29.0, "tps": 10.0}, {"cpu_us": 31.0}],
            "2": [{"cpu_us": 33.0, "tps": 18.0, "machine_percent": 60.0}],
            "4": [{"tps": 19.0, "machine_percent": 99.0, "uneven": 1.2}]}
    return LoopCase("some", "made up", None, "instant", 1, 1, goals=goals), {"some": runs}


@pytest.mark.parametrize("goal, is_met", (
    (LoopGoal("cpu_us", 1.1, "2", "1"), True),
    (LoopGoal("cpu_us", 1.09, "2", "1"), False),
    (LoopGoal("cpu_us", 1.02, "1", BEFORE), False),
    (LoopGoal("cpu_us", 1.02, "8", "1"), None),
    (LoopGoal("cpu_us", 1.02, "4", "1"), None),
    (LoopGoal("p99_ms", 1.02, "2", "1"), None),
    (LoopGoal("uneven", 1.1, "4"), False),
    (LoopGoal("uneven", 1.2, "4"), True),
    (LoopGoal("tps", 1.7, "2", "1", True), True),
    (LoopGoal("tps", 1.9, "2", "1", True), False),
    (LoopGoal("tps", 3.4, "4", "1", True), None),  # the machine was busy
))
def test_goal(goal, is_met):
    case, results = made_up()
    assert goal.is_met(report.medians_of(case, results)) is is_met


def cells(table, row):
    return [cell.strip() for cell in table.splitlines()[row].strip("|").split("|")]


def test_table():
    case, results = made_up()
    table = loop_report.table([case], results, [BEFORE, "1", "2"])
    assert cells(table, 0) == ["case", "figure", "before", "loops = 1", "loops = 2", "before/1", "2/1"]
    assert cells(table, 2) == ["some", "transactions/s", "-", "10 ±0%", "18", "-", "1.80"]
    assert cells(table, 3) == ["some", "CPU us/transaction", "25.00", "30.00 ±3%", "33.00", "0.83",
                               "1.10"]


def test_table_of_goals():
    case, results = made_up((LoopGoal("cpu_us", 1.1, "2", "1"), LoopGoal("cpu_us", 1, "8", "1")))
    table = loop_report.goals_table([case], results)
    assert cells(table, 2) == ["some", "CPU us/transaction", "2: <= 1.1 x 1", "1.10", "met"]
    assert len(table.splitlines()) == 3
    assert loop_report.goals_table([case], {}) == ""


def test_json_has_what_was_measured():
    case, results = made_up()
    written = loop_report.as_json([case], results, {"cores": 2}, {"some": {"8": "is not there"}})
    assert written["cases"]["some"]["medians"]["2"]["cpu_us"] == 33
    assert written["cases"]["some"]["skipped"] == {"8": "is not there"}


def test_every_case_has_figures_that_are_known():
    cases = loop_cases.make_cases()
    assert len(cases) == len({case.name for case in cases})
    for case in cases:
        assert set(case.keeps) <= set(report.METRICS), case.name
        assert {goal.metric for goal in case.goals} <= set(report.METRICS), case.name


# -- SHOW LOOPS -----------------------------------------------------------------------------------


class Console:
    """A process whose console knows SHOW LOOPS, or not."""

    port = 1

    def __init__(self, rows):
        self.rows = rows

    def console_dicts(self, command):
        assert command == "SHOW LOOPS"
        if self.rows is None:
            raise loop_cases.servers.ServerError("no such command")
        return self.rows


def test_figures_of_show_loops():
    name = loop_cases.COLUMNS["moved"][0]
    rows = [{"loop": "0", "clients": "3", name: "7"}, {"loop": "1", "clients": "5", name: "2"}]
    assert loop_cases.column_of(rows, "clients") == [3, 5]
    assert loop_cases.moved(Console(rows)) == 9
    assert loop_cases.moved(Console([{"loop": "0"}])) is None
    assert loop_cases.moved(Console(None)) is None
    assert loop_cases.unevenness([3, 5]) == 1.25
    assert loop_cases.unevenness([500, 500]) == 1


def test_without_show_loops_the_dealing_is_left_out():
    class Bench:
        @staticmethod
        def pgweir(case, variant):
            return Console(None)

    with pytest.raises(NotThere):
        loop_cases.dealt(Bench, None, "1")


# -- the script -----------------------------------------------------------------------------------


def script():
    loader = importlib.machinery.SourceFileLoader("bench_loops", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_loops", loader))
    loader.exec_module(module)
    return module


def test_a_pgweir_without_the_setting_has_one_column(capsys):
    class Bench:
        @staticmethod
        def knows(setting):
            return False

    class Options:
        loops, before = ["1", "2"], None

    assert script().chosen_variants(Bench, Options) == ["1"]
    assert "does not know the setting loops" in capsys.readouterr().err
    Bench.knows = lambda setting: True
    assert script().chosen_variants(Bench, Options) == ["1", "2"]
    Options.before = "/some/pgweir"
    assert script().chosen_variants(Bench, Options) == [BEFORE, "1", "2"]


@pytest.mark.parametrize("words", (["--loops", "0"], ["--loops", "a"], ["--cases", "no-such-case"],
                                   ["--pgweir", "/no/such/pgweir"]))
def test_wrong_options_are_refused(words):
    done = subprocess.run([SCRIPT, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "error: " in done.stderr


def test_a_short_run(tmp_path):
    """The build under test beside itself: each figure is there, whatever it is."""
    tools = pathlib.Path(find_binary()).parent
    if not (tools / "test" / "bench" / "instant").exists() or not shutil.which("pgbench"):
        pytest.skip("no pgbench, or no stand-in for PostgreSQL")
    done = subprocess.run(
        [SCRIPT, "--pgweir", tools / "pgweir", "--before", tools / "pgweir", "--loops", "1",
         "--cases", "instant-16-4,tls-logins", "--seconds", "1", "--rounds", "1", "--json",
         tmp_path / "figures.json"], capture_output=True, text=True, timeout=80)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))["cases"]
    for variant in (BEFORE, "1"):
        assert cases["instant-16-4"]["medians"][variant].keys() >= {"tps", "cpu_us", "p99_ms"}
        assert cases["tls-logins"]["medians"][variant].keys() >= {"logins_s", "login_cpu_us"}
    assert "before/1" in done.stdout
