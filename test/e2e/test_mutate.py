# SPDX-License-Identifier: ISC
"""test/mutate: what it finds in a source, and that each mutant can be switched on by itself."""

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from mutants import points  # noqa: E402  (the path comes first)

SOURCE = """\
#include <stdbool.h>
#include <stdio.h>
#include <assert.h>

struct box { int value, limit; };

static const int first[] = { 1 < 2, 3 }; /* no function: nothing to find */

static bool may_add(const struct box *box, int more)
{
	assert(more >= 0);
	return box->value + more <= box->limit && more != 3;
}

static void add(struct box *box, int more)
{
	if (!may_add(box, more))
		return;
	box->value += more;
	printf("%d ", box->value);
}

int main(void)
{
	struct box box = { 0, 10 };

	for (int i = 1; i < 5; i++)
		add(&box, i);
	add(&box, 3);
	add(&box, 30);
	puts(box.value == 10 ? "full" : "space");
	return 0;
}
"""

FOUND = [
    (12, "result", "`return box->value + more <= box->limit && more != 3` returns false"),
    (12, "result", "`return box->value + more <= box->limit && more != 3` returns true"),
    (12, "guard", "`box->value + more <= box->limit` is always true"),
    (12, "bound", "`box->value + more <= box->limit` has <"),
    (12, "guard", "`more != 3` is always true"),
    (17, "guard", "`!may_add(box, more)` is always false"),
    (17, "guard", "`!may_add(box, more)` is always true"),
    (19, "store", "`box->value += more` is not run"),
    (20, "call", "`printf(\"%d \", box->value)` is not run"),
    (27, "bound", "`i < 5` has <="),
    (28, "call", "`add(&box, i)` is not run"),
    (29, "call", "`add(&box, 3)` is not run"),
    (30, "call", "`add(&box, 30)` is not run"),
    (31, "call", "`puts(box.value == 10 ? \"full\" : \"space\")` is not run"),
    (31, "guard", "`box.value == 10` is always false"),
    (31, "guard", "`box.value == 10` is always true"),
]


@pytest.fixture
def program(tmp_path):
    """Runs the source with this mutant; returns what it prints."""
    found = points.find(SOURCE, "x.c")
    (tmp_path / "x.c").write_text(points.rewrite(SOURCE, found))
    subprocess.run(["cc", "-D_GNU_SOURCE", "-w", "-o", tmp_path / "x", tmp_path / "x.c"], check=True,
                   timeout=60)

    def run(number, **more):
        environment = dict(os.environ, MUTANT=str(number), **more)
        return subprocess.run([tmp_path / "x"], env=environment, capture_output=True, text=True,
                              timeout=60).stdout

    return run


def test_what_is_found():
    found = [(mutant.line, mutant.kind, mutant.says) for mutant, _ in points.find(SOURCE, "x.c")]
    assert sorted(found) == sorted(FOUND)


def test_kinds_can_be_chosen():
    assert {mutant.kind for mutant, _ in points.find(SOURCE, "x.c", ("bound", "store"))} == \
        {"bound", "store"}


def test_none_is_chosen(program):
    assert program(0) == "1 3 7 space\n"


def test_each_does_something_else(program):
    """But those that take away what has no effect here: these are what somebody has to look at."""
    as_it_is = program(0)
    same = {mutant.says for mutant, _ in points.find(SOURCE, "x.c")
            if program(mutant.number) == as_it_is}
    assert same == {"`box->value + more <= box->limit` has <", "`i < 5` has <=",
                    "`add(&box, 3)` is not run", "`add(&box, 30)` is not run",
                    "`box.value == 10` is always false"}


def test_what_is_reached_is_noted(program, tmp_path):
    met = tmp_path / "met"
    met.write_bytes(bytes(points.MUTANTS_MAX))
    program(0, MUTANTS_MET=str(met))
    reached = {mutant.says for mutant, _ in points.find(SOURCE, "x.c")
               if met.read_bytes()[mutant.number]}
    assert "`box.value == 10` is always true" in reached  # it was not
    assert "`box.value == 10` is always false" not in reached  # nor does this make a difference
