# SPDX-License-Identifier: ISC
"""The pages of the tree: their links, the files they name, and the texts they quote.

None of these tests starts a daemon.
"""

import functools
import html
import os
import re
import subprocess

import pytest

from .kit.daemon import find_binary

TOP = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", ".."))

LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
NAMED = re.compile(r"`((?:src|include|test|etc|doc)/[\w./@+-]*)`")
# A source named without its folder, so that it can move.
BARE = re.compile(r"`([\w-]+\.(?:[ch]|py))`")
FENCE = re.compile(r"^ *```")
ELSEWHERE = re.compile(r"[a-z]+:")


def pages(top=TOP):
    """Every Markdown page but those of build folders, by its path within the tree."""
    found = []
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name not in ("out", ".git", "build")
                      and not name.startswith(".")]
        found += [os.path.relpath(os.path.join(folder, name), top) for name in names
                  if name.endswith(".md")]
    return sorted(found)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def lines_outside_fences(text):
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    found, seen = set(), {}
    for _, line in lines_outside_fences(text):
        heading = re.match(r"#{1,6} +(.*?) *#*$", line)
        if heading:
            words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
            slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            count = seen.get(slug, 0)
            seen[slug] = count + 1
            found.add(f"{slug}-{count}" if count else slug)
        found.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", line))
    return found


def sources(top):
    return {name for part in ("src", "include", "test") for _, _, names in os.walk(os.path.join(top, part))
            for name in names}


def broken_links(top=TOP):
    """`page:line: what does not exist`, for each relative link and each file named in backquotes."""
    broken = []
    known = sources(top)
    for page in pages(top):
        here = os.path.dirname(os.path.join(top, page))
        for number, line in lines_outside_fences(read(os.path.join(top, page))):
            for link in LINK.finditer(line):
                target = link.group(1) or link.group(2)
                if ELSEWHERE.match(target):
                    continue
                path, _, anchor = target.partition("#")
                path = os.path.normpath(os.path.join(here, path)) if path else os.path.join(top, page)
                if not os.path.exists(path):
                    broken.append(f"{page}:{number}: {target}")
                elif anchor and anchor not in anchors(read(path)):
                    broken.append(f"{page}:{number}: {target}")
            for name in NAMED.findall(line):
                if not os.path.exists(os.path.join(top, name)):
                    broken.append(f"{page}:{number}: {name}")
            broken += [f"{page}:{number}: {name}" for name in BARE.findall(line) if name not in known]
    return broken


def test_links_lead_somewhere():
    assert len(pages()) > 20
    assert broken_links() == []


def test_every_page_is_in_a_release():
    listed = read(os.path.join(TOP, "Makefile.am"))
    assert [page for page in pages() if page not in listed] == []


@pytest.mark.parametrize("line, is_good", [
    ("[x](other.md)", True),
    ("[x](missing.md)", False),
    ("[x](other.md#a-second-heading)", True),
    ("[x](other.md#third)", False),
    ("[x](#first)", True),
    ("[x](#second)", False),
    ("[x](https://example.com/missing.md)", True),
    ('<img src="missing.svg">', False),
    ("see `src/here.c`", True),
    ("see `src/missing.c`", False),
    ("see `here.c`", True),
    ("see `missing.c`", False),
])
def test_a_broken_link_is_found(tmp_path, line, is_good):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "here.c").write_text("")
    (tmp_path / "page.md").write_text(f"# First\n{line}\n```\n[x](no-link.md)\n```\n")
    (tmp_path / "other.md").write_text("## A `second` heading\n```\n# third\n```\n")
    assert (broken_links(str(tmp_path)) == []) == is_good


def test_the_index_has_every_page():
    index = read(os.path.join(TOP, "doc", "README.md"))
    missing = [page for page in pages() if os.path.basename(page) != "README.md"
               and not re.search(rf"[(/]{re.escape(os.path.basename(page))}[)#]", index)]
    assert missing == []


def names_of_tests(path):
    """The names of the tests in a file, by its text: nothing is imported."""
    return set(re.findall(r"^def (test_\w+)\(", read(path), re.M)) if os.path.exists(path) else set()


def missing_tests(page):
    """`file::test` of a page that are in no file of test/e2e."""
    named = re.findall(r"`(\w+\.py)::(\w+)`", read(page))
    return [f"{file}::{test}" for file, test in named
            if test not in names_of_tests(os.path.join(TOP, "test", "e2e", file))]


@pytest.mark.parametrize("page", ("limits.md", "security-cases.md"))
def test_tests_that_a_page_names_exist(page):
    path = os.path.join(TOP, "doc", page)
    rows = [line for line in read(path).split("\n") if line.startswith("| ")]
    said = re.compile(r"::test_|not tested|`./test/run|\| (Here|Test) \|$")
    assert [row for row in rows if not said.search(row)] == []
    assert read(path).count("::test_") > 40
    assert missing_tests(path) == []


def test_a_missing_test_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("`test_docs.py::test_a_missing_test_is_found`, `test_docs.py::test_nothing`,"
                    " `test_no.py::test_x`")
    assert missing_tests(str(page)) == ["test_docs.py::test_nothing", "test_no.py::test_x"]


# -- texts that pages quote ----------------------------------------------------------------------

# Those that PostgreSQL, libpq or the system say.
FOREIGN = (
    "Address already in use", "Connection refused", "cached plan must not change result type",
    "no pg_hba.conf entry for", "sorry, too many clients already", "too many connections for role",
    "unnamed prepared statement does not exist", "password authentication failed for user",
    "must be superuser or replication role to start walsender",
    "number of requested standby connections exceeds max_wal_senders",
)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# One literal or several side by side, which are one text; a character such as '"' begins none.
LITERALS = re.compile(r''''(?:[^'\\\n]|\\.)'|(?:"(?:[^"\\\n]|\\.)*"\s*)+''')
FORMAT = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j|t)?[a-zA-Z]")


@functools.lru_cache
def source_texts():
    """What the program can say: its string literals, those that stand side by side as one."""
    found = set()
    for part in ("src", "include"):
        for folder, _, names in os.walk(os.path.join(TOP, part)):
            for name in names:
                if name.endswith((".c", ".h")):
                    text = read(os.path.join(folder, name)).replace("\\\n", "\n")
                    for texts in LITERALS.finditer(text):
                        found.add("".join(LITERAL.findall(texts.group(0))).replace('\\"', '"'))
    return found


@functools.lru_cache
def whole_patterns():
    """Those with values in them, as patterns for a text in which the values have been filled in."""
    patterns = []
    for text in source_texts():
        pieces = FORMAT.split(text)
        if len(pieces) > 1 and len("".join(pieces)) > 12:
            patterns.append(re.compile(re.sub(r"(\.\*\?)+", ".*?", ".*?".join(map(re.escape, pieces)))))
    return patterns


def is_said(text):
    """Whether the program, or PostgreSQL, can say this. `...` in it is something that varies."""
    for piece in text.removeprefix("closing because: ").split("..."):
        piece = piece.strip(" :;,").strip('"') if "..." in text else piece
        if len(piece.strip()) < 4 or any(piece in foreign or foreign in piece for foreign in FOREIGN):
            continue
        if not any(piece in literal for literal in source_texts()) and \
                not any(pattern.search(piece) for pattern in whole_patterns()):
            return False
    return True


def quoted_in_troubleshooting():
    """The texts in the first column of tables that begin with "Text"."""
    is_quoting = False
    for number, line in lines_outside_fences(read(os.path.join(TOP, "doc", "troubleshooting.md"))):
        if not line.startswith("|"):
            is_quoting = False
        elif re.match(r"\| (Text|`reason`) ", line):
            is_quoting = True
        elif is_quoting:
            for text in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                yield number, text


def quoted_in_errors():
    """The texts in bold that begin an entry."""
    text = read(os.path.join(TOP, "doc", "errors.md"))
    for entry in re.finditer(r"^- \*\*.*?(?=^- |^#|\Z)", text, re.M | re.S):
        words = " ".join(entry.group(0).split())
        # The rest is explanation, where bold is for other things too.
        for quoted in re.findall(r"\*\*(.+?)\*\*", words.split("): ")[0]):
            yield text[:entry.start()].count("\n") + 1, quoted


@pytest.mark.parametrize("quoted", [quoted_in_troubleshooting, quoted_in_errors])
def test_quoted_texts_exist(quoted):
    texts = list(quoted())
    assert len(texts) > 30
    assert [(line, text) for line, text in texts if not is_said(text)] == []


def test_a_text_that_nobody_says_is_found():
    assert is_said("query_wait_timeout")
    assert not is_said("query_wait_timeouts")
    assert not is_said("no such databases: ...")


# -- the site ------------------------------------------------------------------------------------

def manual_pages():
    """The built manual pages, beside the program under test."""
    folder = os.path.join(os.path.dirname(find_binary()), "doc")
    return [path for path in (os.path.join(folder, name) for name in ("pgweir.1", "pgweir.ini.5"))
            if os.path.exists(path)]


def broken_hyperlinks(site):
    broken = []
    texts = {}
    for folder, _, names in os.walk(site):
        texts.update({os.path.join(folder, name): read(os.path.join(folder, name))
                      for name in names if name.endswith(".html")})
    ids = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    for path, text in texts.items():
        for target in re.findall(r'\b(?:href|src|srcset)="([^"]*)"', text):
            if ELSEWHERE.match(target):
                continue
            file, _, anchor = html.unescape(target).partition("#")
            file = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            if not os.path.isfile(file) or anchor and anchor not in ids.get(file, ()):
                broken.append(f"{os.path.relpath(path, site)}: {target}")
    return broken


def test_the_site_has_every_page_and_no_broken_link(tmp_path):
    site = str(tmp_path / "site")
    subprocess.run([os.path.join(TOP, "doc", "site"), site, *manual_pages()], check=True, timeout=60,
                   stdout=subprocess.DEVNULL)
    for page in pages():
        built = page[:-len(".md")].replace("README", "index") + ".html"
        assert os.path.exists(os.path.join(site, built)), built
    assert broken_hyperlinks(site) == []
    index = os.path.join(site, "doc", "index.html")
    with open(index, "a", encoding="utf-8") as file:
        file.write('<a href="missing.html"></a><a href="#missing"></a><a href="errors.html#missing"></a>')
    assert len(broken_hyperlinks(site)) == 3
