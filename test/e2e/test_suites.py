# SPDX-License-Identifier: ISC
"""How `test/run suites` compares the runs of a driver's tests."""

import importlib.machinery
import importlib.util
import pathlib
import sys

import pytest

TEST = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TEST))

from suites import sources  # noqa: E402  (the path first)

PASSED, FAILED = (sources.PASSED, ""), (sources.FAILED, "words")


@pytest.fixture(scope="module")
def program():
    """The script, which has no suffix."""
    loader = importlib.machinery.SourceFileLoader("suites_run", str(TEST / "suites" / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("suites_run", loader))
    loader.exec_module(module)
    return module


def test_what_passes_directly_must_pass(program):
    direct = {"a": PASSED, "b": PASSED, "c": FAILED, "d": PASSED}
    assert list(program.differences(direct, {"a": PASSED, "b": FAILED, "c": FAILED})) == ["b", "d"]


def play(program, tmp_path, monkeypatch, runs, expected="", least=1):
    """What a suite with these runs yields, direct and through in turn; and what is reported."""
    path = tmp_path / "expected.txt"
    path.write_text("# a comment\n\n" + expected)
    monkeypatch.setattr(program, "EXPECTED", path)
    monkeypatch.setattr(program, "LEAST", least)
    runs, said = iter(runs), []

    class Stage:
        class options:
            rounds, only = 2, None

        def run(self, suite, through):
            return next(runs)

    counts = program.play(Stage(), sources.Suite("some", "1"), said.append)
    return counts, "\n".join(said)


def test_a_test_that_differs_each_time_is_found(program, tmp_path, monkeypatch):
    good, bad = {"a": PASSED, "b": PASSED}, {"a": PASSED, "b": FAILED}
    counts, said = play(program, tmp_path, monkeypatch, [good, bad, good, bad])
    assert counts == (1, 1, 0) and "DIFFERENT b: words" in said


def test_one_that_differs_once_is_not(program, tmp_path, monkeypatch):
    good, bad = {"a": PASSED, "b": PASSED}, {"a": PASSED, "b": FAILED}
    counts, said = play(program, tmp_path, monkeypatch, [good, bad, good, good])
    assert counts == (2, 0, 0) and "DIFFERENT" not in said


def test_what_is_expected_is_run_once(program, tmp_path, monkeypatch):
    good, bad = {"a": PASSED, "b.x": PASSED}, {"a": PASSED, "b.x": FAILED}
    counts, said = play(program, tmp_path, monkeypatch, [good, bad],
                        "some | b.* | a reason\nother | a | of another suite\nsome | c | no more\n")
    assert counts == (1, 0, 1) and "expected  b.x: words" in said and "no more   c" in said


def test_a_suite_that_does_not_run_is_no_success(program, tmp_path, monkeypatch):
    with pytest.raises(sources.SuiteError, match="only 1 of 2"):
        play(program, tmp_path, monkeypatch, [{"a": PASSED, "b": FAILED}] * 2, least=2)


def test_each_line_has_a_suite_and_a_reason():
    names = {suite.name for suite in sources.SUITES}
    lines = [line for line in (TEST / "suites" / "expected.txt").read_text().splitlines()
             if line and not line.startswith("#")]
    for line in lines:
        name, _, reason = line.split(" | ")
        assert name in names and len(reason) > 10


def test_outcomes_of_go():
    suite = sources.Go("some", "1", module="example.com/some")
    lines = ['{"Action":"run","Package":"example.com/some/sub","Test":"TestA"}\n', "no event\n",
             '{"Action":"output","Package":"example.com/some/sub","Test":"TestA","Output":"why\\n"}\n',
             '{"Action":"fail","Package":"example.com/some/sub","Test":"TestA"}\n',
             '{"Action":"pass","Package":"example.com/some","Test":"TestB/tmp0123456789"}\n',
             '{"Action":"skip","Package":"example.com/some","Test":"TestC"}\n',
             '{"Action":"fail","Package":"example.com/some"}\n']
    assert dict(suite._outcomes(lines)) == {"/sub.TestA": ("failed", "why"),
                                            ".TestB/tmpN": ("passed", "")}


def test_outcomes_of_pytest(tmp_path):
    (tmp_path / "r.xml").write_text(
        '<testsuite><testcase classname="t" name="a"/><testcase classname="t" name="b">'
        '<failure message="why"/></testcase><testcase classname="t" name="c"><skipped/></testcase>'
        '</testsuite>')
    assert dict(sources.Pytest._outcomes(tmp_path / "r.xml")) == {"t.a": ("passed", ""),
                                                                  "t.b": ("failed", "why")}
