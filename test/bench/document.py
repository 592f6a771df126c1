# SPDX-License-Identifier: ISC
"""Puts figures and pictures into documents, each part between two marks.

A document has one part or more, and the text around them stays. Figures can be read back from
their tables.
"""

import re

import report

PARTS = ("figures", "goals")
TABLE_HEAD = "case"


class NoPlace(Exception):
    """The document has no place for any part."""


def marks(part):
    """The lines around a part."""
    return f"<!-- {part}: begin; written by test/bench/run --doc -->", f"<!-- {part}: end -->"


def _parts_of(text):
    """part -> (text before it, text after it)."""
    found = {}
    for part in PARTS:
        begin, end = marks(part)
        head, has_begin, rest = text.partition(begin)
        _, has_end, tail = rest.partition(end)
        if has_begin and has_end:
            found[part] = head, tail
    return found


def has_part(text, part):
    return part in _parts_of(text)


def place_in(text, contents):
    """The document with these contents (part -> text) in the place of those that were there."""
    if not _parts_of(text):
        raise NoPlace(f"no two lines like {marks('figures')}")
    for part in _parts_of(text):
        begin, end = marks(part)
        head, tail = _parts_of(text)[part]
        text = f"{head}{begin}\n\n{contents[part].strip()}\n\n{end}{tail}"
    return text


def medians_in(text):
    """(case, figure) -> target -> median, from the tables of a document."""
    medians, targets = {}, []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) < 3:
            targets = []
        elif cells[:2] == [TABLE_HEAD, "figure"]:
            targets = cells[2:]
        elif targets and not cells[0].startswith("-"):
            row = medians.setdefault((cells[0], cells[1]), {})
            row.update((target, float(cell.split()[0])) for target, cell in zip(targets, cells[2:])
                       if target in report.TARGETS and cell != "-")
    return medians


def version_in(text, program):
    """Its version, from the line of facts; empty if there is none."""
    _, _, figures = text.partition(marks("figures")[0])
    found = re.search(rf"{program} (\d+(\.\d+)*)", figures)
    return found.group(1) if found else ""


def _facts(facts):
    versions = "; ".join(facts["versions"].values())
    return (f"{facts['cores']} cores ({facts['machine']}), Linux {facts['kernel']}; "
            f"{facts['rounds']} rounds, {facts['seconds']} s for each pgbench run, "
            f"{facts['rows']} rows. {versions}.")


def _skipped(skipped):
    return "\n".join(f"- {name}, {target}: {why}" for name, targets in skipped.items()
                     for target, why in targets.items())


def figures_as_text(cases, results, targets, facts, skipped, pictures):
    """`pictures`: (path from the document, title)."""
    parts = [_facts(facts), "### Pictures",
             *(f"![{title}]({path})" for path, title in pictures),
             "### Table", report.table(cases, results, targets, on_page=True)]
    left_out = _skipped(skipped)
    if left_out:
        parts += ["Left out:", left_out]
    return "\n\n".join(parts)


def goals_as_text(cases, results):
    return report.goals_table(cases, results) or "None was judged."
