# SPDX-License-Identifier: ISC
"""Tables and JSON of `test/bench/loops`.

`results` is case name -> variant -> runs, and a run is metric -> figure. A variant is the number of
loops, or another program.
"""

import report
from loop_cases import BEFORE


def head(variant):
    """The title of its column."""
    return variant if variant == BEFORE else f"loops = {variant}"


def rows_of(case, results, variants):
    """One row for each metric of a case: the figures, then their ratios to those of one loop."""
    runs, figures = results.get(case.name, {}), report.medians_of(case, results)
    for metric in report.metrics_of(case, results):
        yield [case.name, report.METRICS[metric][0],
               *(report.cell(runs.get(variant), metric) for variant in variants),
               *(report.ratio(figures, variant, "1", metric) for variant in variants
                 if variant != "1")]


def table(cases, results, variants):
    """All figures."""
    lines = [["case", "figure", *map(head, variants),
              *(f"{variant}/1" for variant in variants if variant != "1")]]
    for case in cases:
        lines += rows_of(case, results, variants)
    return report.markdown(lines)


def goals_table(cases, results):
    """Goals and results. Empty if none can be judged."""
    lines = [["case", "figure", "goal", "reached", "verdict"]]
    for case in cases:
        figures = report.medians_of(case, results)
        for goal in case.goals:
            reached = goal.reached(figures)
            if reached is not None:
                lines.append([case.name, report.METRICS[goal.metric][0], str(goal),
                              f"{reached:.2f}", report.VERDICTS[goal.is_met(figures)]])
    return report.markdown(lines) if len(lines) > 1 else ""


def as_json(cases, results, facts, skipped):
    """`skipped`: case name -> variant -> why."""
    return {"facts": facts, "cases": {
        case.name: {"says": case.says, "runs": results[case.name],
                    "medians": report.medians_of(case, results),
                    "skipped": skipped.get(case.name, {})}
        for case in cases if case.name in results}}
