# SPDX-License-Identifier: ISC
"""Puts figures and pictures into a document, between two marks; the text around them stays.

Figures can be read back from its tables.
"""

import re

import report

BEGIN = "<!-- figures: begin; written by test/bench/run --doc -->"
END = "<!-- figures: end -->"
TABLE_HEAD = "case"


class NoPlace(Exception):
    """The document has no place for figures."""


def place_in(text, figures):
    """The document with these figures in the place of those that were there."""
    head, has_begin, rest = text.partition(BEGIN)
    _, has_end, tail = rest.partition(END)
    if not has_begin or not has_end:
        raise NoPlace(f"no two lines like {BEGIN}")
    return f"{head}{BEGIN}\n\n{figures.strip()}\n\n{END}{tail}"


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
    _, _, figures = text.partition(BEGIN)
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
