# SPDX-License-Identifier: ISC
"""Puts figures and pictures into a document, between two marks; the words around them stay."""

import report

BEGIN = "<!-- figures: begin; written by test/bench/run --doc -->"
END = "<!-- figures: end -->"


class NoPlace(Exception):
    """The document has no place for figures."""


def place_in(text, figures):
    """The document with these figures in the place of those that were there."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise NoPlace(f"no two lines {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{figures.strip()}\n\n{END}{tail}"


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
    parts = [_facts(facts), "### Goals", report.goals_table(cases, results) or "None was judged."]
    parts += ["### Pictures", *(f"![{title}]({path})" for path, title in pictures)]
    parts += ["### All figures", report.table(cases, results, targets)]
    left_out = _skipped(skipped)
    if left_out:
        parts += ["Left out:", left_out]
    return "\n\n".join(parts)
