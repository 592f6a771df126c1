# SPDX-License-Identifier: ISC
"""The checker of `test/run histories` finds what is wrong in a history, and nothing in a right one."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from histories import check  # noqa: E402  (the path first)
from histories.check import FAILED, NEVER, UNKNOWN, Op, Transaction  # noqa: E402


def register(kind, value, begin, end=NEVER, outcome=check.OK, key="r"):
    return Op("c", kind, key, value, begin, end, outcome)


RIGHT = {
    "one after the other": [register("write", 1, 0, 1), register("read", 1, 2, 3)],
    "a read at the same time sees the old": [register("write", 1, 0, 3), register("read", 0, 1, 2)],
    "or the new": [register("write", 1, 0, 3), register("read", 1, 1, 2)],
    "two writes at the same time": [register("write", 1, 0, 3), register("write", 2, 1, 2),
                                    register("read", 1, 4, 5)],
    "what failed was not done": [register("write", 1, 0, 1, FAILED), register("read", 0, 2, 3)],
    "what is unknown was done later": [register("write", 1, 0, 1, UNKNOWN), register("read", 0, 2, 3),
                                       register("read", 1, 4, 5)],
    "or never": [register("write", 1, 0, 1, UNKNOWN), register("read", 0, 2, 3)],
    "a swap that fits": [register("swap", (0, 1, True), 0, 1), register("read", 1, 2, 3)],
    "one that does not": [register("write", 5, 0, 1), register("swap", (0, 1, False), 2, 3),
                          register("read", 5, 4, 5)],
    "one of which nobody knows": [register("swap", (0, 1, None), 0, 1, UNKNOWN),
                                  register("read", 1, 2, 3)],
    "two keys have nothing to do with each other": [register("write", 1, 0, 1),
                                                    register("read", 0, 2, 3, key="other")],
}

WRONG = {
    "a read of what was before": [register("write", 1, 0, 1), register("read", 0, 2, 3)],
    "what failed was done": [register("write", 1, 0, 1, FAILED), register("read", 1, 2, 3)],
    "a write was lost": [register("write", 1, 0, 1), register("write", 2, 2, 3),
                         register("read", 1, 4, 5)],
    "new, then old": [register("write", 1, 0, 9), register("read", 1, 1, 2), register("read", 0, 3, 4)],
    "nobody wrote it": [register("read", 7, 0, 1)],
    "unknown, done, and undone": [register("write", 1, 0, 1, UNKNOWN), register("read", 1, 2, 3),
                                  register("read", 0, 4, 5)],
    "before its begin": [register("read", 1, 0, 1), register("write", 1, 2, 3)],
    "two swaps from the same value": [register("swap", (0, 1, True), 0, 3),
                                      register("swap", (0, 2, True), 1, 2)],
    "a swap that should have been done": [register("swap", (0, 1, False), 0, 1)],
    "an unknown swap does not do what no swap does": [
        register("swap", (3, 1, None), 0, 1, UNKNOWN), register("read", 1, 2, 3)],
}


@pytest.mark.parametrize("name", RIGHT)
def test_registers_that_are_linearizable(name):
    assert not list(check.check_registers(RIGHT[name]))


@pytest.mark.parametrize("name", WRONG)
def test_registers_that_are_not(name):
    (found,) = check.check_registers(WRONG[name])
    assert "not linearizable" in found


def test_too_much_at_the_same_time_is_said(monkeypatch):
    monkeypatch.setattr(check, "CONFIGURATIONS", 100)
    ops = [register("write", number, 0, 1) for number in range(1, 20)] + [register("read", 99, 2, 3)]
    (found,) = check.check_registers(ops)
    assert found == "1 of 1 registers were not decided"


def test_a_long_history_is_linear():
    """Two clients, one after the other: about one configuration for each operation."""
    ops = []
    for number in range(500):
        ops.append(register("write", number + 1, 2 * number, 2 * number + 1.5))
        ops.append(register("read", number + 1, 2 * number + 0.5, 2 * number + 1.8))
    assert not list(check.check_registers(ops))


def appends(*pairs, read=None, outcome=check.OK):
    return Transaction("c", list(pairs), read or {}, outcome)


LISTS = {
    "nothing wrong": ([appends(("x", 1), ("y", 2)), appends(read={"x": [1], "y": [2]})],
                      {"x": [1], "y": [2]}, None),
    "unknown and done": ([appends(("x", 1), ("y", 2), outcome=UNKNOWN)], {"x": [1], "y": [2]}, None),
    "unknown and not done": ([appends(("x", 1), ("y", 2), outcome=UNKNOWN)], {}, None),
    "failed and not done": ([appends(("x", 1), outcome=FAILED)], {"x": []}, None),
    "lost": ([appends(("x", 1))], {"x": []}, "acknowledged and lost"),
    "half of it lost": ([appends(("x", 1), ("y", 2))], {"x": [1]}, "acknowledged and lost"),
    "half of it done": ([appends(("x", 1), ("y", 2), outcome=UNKNOWN)], {"y": [2]}, "torn"),
    "failed and done": ([appends(("x", 1), outcome=FAILED)], {"x": [1]}, "failed and done"),
    "half of what failed": ([appends(("x", 1), ("y", 2), outcome=FAILED)], {"y": [2]},
                            "failed and done"),
    "twice": ([appends(("x", 1))], {"x": [1, 1]}, "appended 2 times"),
    "from nowhere": ([], {"x": [1]}, "never sent"),
    "in another list": ([appends(("x", 1))], {"y": [1]}, "lost"),
    "read of a failed one": ([appends(("x", 1), outcome=FAILED), appends(read={"x": [1]})], {},
                             "of a failed transaction"),
    "read in another order": ([appends(("x", 1)), appends(("x", 2)), appends(read={"x": [2, 1]})],
                              {"x": [1, 2]}, "no beginning"),
    "two writes in two orders": ([appends(("x", 1), ("y", 2)), appends(("x", 3), ("y", 4))],
                                 {"x": [1, 3], "y": [4, 2]}, "a circle"),
    "two that do not see each other": (
        [appends(("x", 1), read={"y": []}), appends(("y", 2), read={"x": []})],
        {"x": [1], "y": [2]}, "a circle"),
    "half of another's is seen": (
        [appends(("x", 1), ("y", 2)), appends(read={"x": [1], "y": []})],
        {"x": [1], "y": [2]}, "a circle"),
    "of three": (
        [appends(("x", 1), read={"y": [9]}), appends(("y", 9), read={"z": [5]}),
         appends(("z", 5), read={"x": [1]})],
        {"x": [1], "y": [9], "z": [5]}, "a circle"),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists(name):
    transactions, final, expected = LISTS[name]
    found = list(check.check_lists(transactions, final))
    if expected is None:
        assert found == []
    else:
        assert any(expected in one for one in found), found


def counter(client, kind, value, outcome=check.OK):
    return Op(client, kind, "", value, outcome=outcome)


@pytest.mark.parametrize("ops, expected", (
    ([counter("a", "inc", 1), counter("a", "read", {"a": 1})], None),
    ([counter("a", "inc", 1), counter("a", "read", {})], "stale"),
    ([counter("a", "inc", 1, UNKNOWN), counter("a", "read", {}), counter("a", "read", {"a": 1})], None),
    ([counter("a", "inc", 1, UNKNOWN), counter("a", "read", {"a": 1}), counter("a", "read", {})],
     "stale"),
    ([counter("a", "inc", 1, FAILED), counter("a", "read", {"a": 1})], "never written"),
    ([counter("a", "inc", 1), counter("b", "read", {})], None),
    ([counter("a", "inc", 1), counter("b", "read", {"a": 1}), counter("b", "read", {"a": 0})], "stale"),
    ([counter("a", "inc", 1), counter("b", "read", {"a": 2})], "never written"),
))
def test_counters(ops, expected):
    found = list(check.check_counters(ops))
    assert all(expected and expected in one for one in found) and bool(found) == bool(expected)


@pytest.mark.parametrize("ops, expected", (
    ([counter("a", "connect", None), counter("a", "see", ("", ""))], None),
    ([counter("a", "set", "a1"), counter("a", "see", ("a1", ""))], None),
    ([counter("a", "set", "a1"), counter("a", "see", ("", ""))], "has ''"),
    ([counter("a", "set", "a1"), counter("a", "set", "a2"), counter("a", "see", ("a1", ""))], "has 'a1'"),
    ([counter("a", "set", "a1"), counter("b", "see", ("a1", ""))], "has 'a1'"),
    ([counter("a", "set", "a1", FAILED), counter("a", "see", ("a1", ""))], "has 'a1'"),
    ([counter("a", "set", "a1", UNKNOWN), counter("a", "see", ("a1", ""))], None),
    ([counter("a", "set", "a1", UNKNOWN), counter("a", "see", ("", ""))], None),
    ([counter("a", "set", "a1"), counter("a", "connect", None), counter("a", "see", ("a1", ""))],
     "has 'a1'"),
    ([counter("a", "hide", "h1"), counter("a", "see", ("", "h1"))], None),
    ([counter("a", "hide", "h1"), counter("a", "see", ("", ""))], None),
    ([counter("a", "hide", "h1"), counter("b", "see", ("", "h1"))], "never set"),
))
def test_session_state(ops, expected):
    found = list(check.check_states(ops))
    assert all(expected and expected in one for one in found) and bool(found) == bool(expected)
