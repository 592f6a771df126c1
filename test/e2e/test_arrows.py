# SPDX-License-Identifier: ISC
"""test/lib/arrows, the check of dependencies between files, with small trees of its own."""

import importlib.machinery
import importlib.util
import pathlib
import subprocess

import pytest

PROGRAM = pathlib.Path(__file__).parents[1] / "lib" / "arrows"

MODULES = [
    ("base", ["base/*"], []),
    ("net", ["net/*"], ["base"]),
    ("loop", ["loop/*"], ["base"]),
    ("pool/server", ["pool/server/*"], ["net"]),
    ("pool", ["pool/*"], ["pool/server"]),
]


@pytest.fixture(scope="module")
def arrows():
    loader = importlib.machinery.SourceFileLoader("arrows", str(PROGRAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("arrows", loader))
    loader.exec_module(module)
    return module


class Tree:
    """A tree of sources which are compiled into build/, as automake does it."""

    def __init__(self, arrows, path):
        self.arrows, self.path, self.level = arrows, path, "-O0"
        self.exceptions = {"circles": {}, "names": {}, "words": {}}

    def write(self, path, text):
        path = self.path / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def source(self, path, text, built_as=None):
        self.write(f"src/{path}", text)
        target = self.path / "build" / "src" / (built_as or path[:-2] + ".o")
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-c", self.level, "-I", self.path / "include", "-o", target,
                        self.path / "src" / path], check=True)

    def calls(self, path, function, *called):
        """A file with one function which calls others."""
        lines = [f"void {name}(void);" for name in (function, *called)]
        body = " ".join(f"{name}();" for name in called)
        self.source(path, "\n".join(lines) + f"\nvoid {function}(void) {{ {body} }}\n")

    def problems(self):
        rules = self.arrows.Rules(modules=MODULES, **self.exceptions)
        return self.arrows.check(str(self.path), str(self.path / "build"), rules)[2]


@pytest.fixture
def tree(arrows, tmp_path):
    return Tree(arrows, tmp_path)


def one(problems):
    assert len(problems) == 1, problems
    return problems[0]


def test_calls_down_are_allowed_near_and_far(tree):
    tree.calls("base/buf.c", "buf_add")
    tree.calls("net/stream.c", "stream_send", "buf_add")
    tree.calls("pool/server/server.c", "server_open", "stream_send", "buf_add")
    tree.calls("pool/pool.c", "pool_grow", "server_open", "buf_add")
    assert tree.problems() == []


def test_a_call_up_between_modules_fails(tree):
    tree.calls("base/buf.c", "buf_add", "stream_send")
    tree.calls("net/stream.c", "stream_send")
    assert one(tree.problems()) == (
        "base/buf may not use net/stream, which is not below base: stream_send")


def test_a_call_up_from_an_inner_folder_fails(tree):
    tree.calls("pool/server/server.c", "server_open", "pool_wake")
    tree.calls("pool/pool.c", "pool_wake")
    assert "pool/server/server may not use pool/pool" in one(tree.problems())


def test_a_call_to_a_module_beside_fails(tree):
    tree.calls("net/stream.c", "stream_send", "loop_now")
    tree.calls("loop/loop.c", "loop_now")
    assert "net/stream may not use loop/loop" in one(tree.problems())


def test_data_counts_as_calls_do(tree):
    tree.source("base/buf.c", "extern int stream_count; int buf_add(void);\n"
                              "int buf_add(void) { return stream_count; }\n")
    tree.source("net/stream.c", "int stream_count = 1;\n")
    assert "stream_count" in one(tree.problems())


def test_an_include_of_a_header_above_fails(tree):
    tree.write("include/pgweir/net/stream.h", "struct stream;\n")
    tree.write("include/pgweir/base/buf.h", '#include "pgweir/net/stream.h"\n')
    tree.source("base/buf.c", '#include "pgweir/base/buf.h"\n')
    assert one(tree.problems()) == ("include/pgweir/base/buf.h may not include "
                                    "pgweir/net/stream.h, which is not below base")


def test_a_folder_that_is_no_module_fails(tree):
    tree.calls("misc/odd.c", "odd_do")
    assert "src/misc/odd.c is in no module" in one(tree.problems())


def test_two_files_may_need_each_other(tree):
    tree.calls("base/buf.c", "buf_add", "log_write")
    tree.calls("base/log.c", "log_write", "buf_add")
    assert tree.problems() == []


def three_in_a_circle(tree):
    tree.calls("base/buf.c", "buf_add", "log_write")
    tree.calls("base/log.c", "log_write", "err_set")
    tree.calls("base/err.c", "err_set", "buf_add")


def test_three_files_may_not_and_are_named(tree):
    three_in_a_circle(tree)
    problem = one(tree.problems())
    assert problem.startswith("3 files depend on each other in a circle, at most 2 may:")
    assert "base/buf -> base/log" in problem and "base/err -> base/buf" in problem


def test_an_exception_for_circles_counts_for_its_module_only(tree):
    three_in_a_circle(tree)
    tree.exceptions["circles"] = {"net": 3}
    assert "3 files" in one(tree.problems())
    tree.exceptions["circles"] = {"base": 3}
    assert tree.problems() == []


def with_inlines(tree, level):
    """buf and log in a circle with err only by inline functions of headers."""
    tree.level = level
    tree.write("include/pgweir/base/err.h",
               "void err_set(void);\nstatic inline int err_is_set(void) { return 1; }\n")
    tree.write("include/pgweir/base/log.h",
               "void log_write(void);\n/* buf_add() */\nvoid buf_add(void);\n"
               "static inline void log_add(int a)\n{\n\tif (a)\n\t\tbuf_add();\n}\n")
    tree.source("base/buf.c", '#include "pgweir/base/err.h"\nvoid buf_add(void);\n'
                              "void buf_add(void) { if (!err_is_set()) buf_add(); }\n")
    tree.source("base/log.c", '#include "pgweir/base/log.h"\nvoid log_write(void) {}\n')
    tree.source("base/err.c", '#include "pgweir/base/err.h"\n#include "pgweir/base/log.h"\n'
                              "void err_set(void) { log_add(0); }\n")


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_inline_functions_belong_to_the_file_of_their_header(tree, level):
    with_inlines(tree, level)
    problem = one(tree.problems())
    assert problem.startswith("3 files depend on each other in a circle")
    # What an inline function needs, its own file needs.
    assert "base/log -> base/buf" in problem and "base/buf -> base/err" in problem
    assert "base/err -> base/log" in problem.replace("base/buf base/log", "base/log")


def test_an_inline_function_above_is_a_call_up(tree):
    tree.write("include/pgweir/net/stream.h", "static inline int stream_size(void) { return 1; }\n")
    tree.calls("net/stream.c", "stream_send")
    tree.source("base/buf.c", '#include "pgweir/net/stream.h"\nint buf_add(void);\n'
                              "int buf_add(void) { return stream_size(); }\n")
    assert "base/buf may not use net/stream, which is not below base: stream_size" in tree.problems()


@pytest.mark.parametrize("path, function", [
    ("base/buf.c", "buf_add"),                # the file
    ("pool/pool_grow.c", "pool_grow_by"),     # the file, in two words
    ("pool/pool_grow.c", "pool_ask"),         # the first word of the file
    ("pool/admin.c", "pool_kill"),            # the folder
    ("pool/admin.c", "pools_kill"),           # the same in plural
    ("base/settings.c", "setting_find"),      # singular
    ("pool/server/frames.c", "server_read"),  # the inner folder
    ("pool/server/frames.c", "frames_read"),
])
def test_a_function_is_named_after_its_file_or_folder(tree, path, function):
    tree.calls(path, function)
    assert tree.problems() == []


@pytest.mark.parametrize("path, function", [
    ("base/buf.c", "buffer_add"),
    ("base/buf.c", "add_buf"),
    ("pool/pool_grow.c", "grow_pool"),
])
def test_another_name_fails(tree, path, function):
    tree.calls(path, function)
    assert one(tree.problems()) == f"{function}() is in src/{path}: its name does not say so"


def test_an_exception_for_a_name_counts(tree):
    tree.calls("base/buf.c", "add_buf")
    tree.exceptions["names"] = {"add_buf": "because"}
    assert tree.problems() == []


def test_a_file_of_two_subjects_has_two_words(tree):
    tree.calls("base/buf.c", "bytes_take", "pipe_take")
    tree.calls("net/dial.c", "bytes_give")
    tree.exceptions["words"] = {"base/buf.c": ["byte"]}
    assert one(tree.problems()).startswith("bytes_give()")


def test_a_source_without_an_object_fails(tree):
    tree.calls("base/buf.c", "buf_add")
    tree.write("src/base/log.c", "")
    assert "src/base/log.c has no object file" in one(tree.problems())


def test_an_object_without_a_source_is_left_over_and_does_not_count(tree):
    tree.calls("base/buf.c", "buf_add")
    tree.calls("base/old.c", "wrong_name")
    (tree.path / "src/base/old.c").unlink()
    assert tree.problems() == []


def test_objects_may_bear_the_name_of_their_program(tree):
    tree.source("base/buf.c", "void wrong_name(void);\nvoid wrong_name(void) {}\n",
                built_as="base/libbase_a-buf.o")
    assert "wrong_name()" in one(tree.problems())


def test_exceptions_that_nothing_needs_are_named(arrows, tree):
    three_in_a_circle(tree)
    rules = arrows.Rules(modules=MODULES, circles={"base": 7}, names={"buf_add": "no"},
                         words={"base/buf.c": ["buffer"]})
    files, graph, _ = arrows.check(str(tree.path), str(tree.path / "build"), rules)
    assert arrows.needless(files, graph, rules) == [
        "CIRCLES: base 7 could be 3", "NAMES: buf_add needs no exception",
        "WORDS: base/buf.c needs no buffer"]


def test_the_graph_counts_arrows_between_modules(arrows, tree, capsys):
    tree.calls("base/buf.c", "buf_add")
    tree.calls("net/stream.c", "stream_send", "buf_add", "dial_start")
    tree.calls("net/dial.c", "dial_start", "buf_add")
    rules = arrows.Rules(modules=MODULES)
    files, graph, _ = arrows.check(str(tree.path), str(tree.path / "build"), rules)
    arrows.print_graph(files, graph, rules)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "net 2 1 base 2" in lines
    assert lines[-1] == ("3 files, 3 arrows between them, 3 public functions; "
                         "0 circles, the largest of 1 files")
