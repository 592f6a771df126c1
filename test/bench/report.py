# SPDX-License-Identifier: ISC
"""Converts figures to tables and JSON. Medians over the rounds; spread is (maximum - minimum) /
median.

Throughout, `results` is case name -> target -> runs, and a run is metric -> figure.
"""

import statistics

TARGETS = ("postgresql", "relay", "haproxy", "pgbouncer", "pgweir")
METRICS = {
    "tps": ("transactions/s", "{:.0f}"),
    "cpu_us": ("CPU us/transaction", "{:.2f}"),
    "transaction_mode_cpu_us": ("CPU us/transaction, transaction mode", "{:.2f}"),
    "loop_cpu_us": ("CPU us/transaction, loop's thread", "{:.2f}"),
    "p50_ms": ("p50 ms", "{:.3f}"),
    "p99_ms": ("p99 ms", "{:.3f}"),
    "mean_ms": ("mean ms", "{:.3f}"),
    "begin_ms": ("mean ms of BEGIN", "{:.3f}"),
    "select_ms": ("mean ms of SELECT", "{:.3f}"),
    "commit_ms": ("mean ms of COMMIT", "{:.3f}"),
    "connect_ms": ("mean ms to connect", "{:.3f}"),
    "connecting_ms": ("ms that connecting costs", "{:.3f}"),
    "initial_ms": ("ms until all are connected", "{:.1f}"),
    "few_tps": ("transactions/s, few clients", "{:.0f}"),
    "many_tps": ("transactions/s, many clients", "{:.0f}"),
    "kept_percent": ("% that many clients keep", "{:.1f}"),
    "rows_s": ("rows/s", "{:.0f}"),
    "cpu_ms_per_million": ("CPU ms/million rows", "{:.1f}"),
    "replay_bytes": ("bytes in a TCP segment", "{:.0f}"),
    "login_bytes": ("bytes/client, logged in", "{:.0f}"),
    "query_bytes": ("bytes/client, after a query", "{:.0f}"),
    "names_mb": ("MB in all", "{:.1f}"),
    "memory_mb": ("MB of PostgreSQL", "{:.0f}"),
    "connections": ("connections of PostgreSQL", "{:.0f}"),
    "alone_cpu_us": ("CPU us/transaction, alone", "{:.2f}"),
    "beside_cpu_us": ("CPU us/transaction, beside", "{:.2f}"),
    "alone_p99_ms": ("p99 ms, alone", "{:.3f}"),
    "storm_p99_ms": ("p99 ms, during the login storm", "{:.3f}"),
    "beside_p99_ms": ("p99 ms, beside a storm at another process", "{:.3f}"),
    "p99_held_up": ("p99 during the login storm / beside it", "{:.2f}"),
    "p99_growth": ("p99 during the login storm / alone", "{:.2f}"),
    "logins_s": ("logins/s", "{:.0f}"),
    "login_cpu_us": ("CPU us/login", "{:.1f}"),
    "growth_percent": ("growth %", "{:.1f}"),
    "wait_p50_ms": ("p50 ms of waiting", "{:.3f}"),
    "wait_p99_ms": ("p99 ms of waiting", "{:.3f}"),
    "uneven": ("clients: largest loop/mean", "{:.3f}"),
    "moved_percent": ("servers moved/100 transactions", "{:.2f}"),
    "busiest_percent": ("% of a core, busiest thread", "{:.0f}"),
    "generator_us": ("CPU us/transaction, load generator", "{:.2f}"),
    "machine_percent": ("% of the machine", "{:.0f}"),
}
# What the pictures of a page do not draw, and CPU time, by which poolers are compared.
ON_PAGE = ("cpu_us", "few_tps", "many_tps", "cpu_ms_per_million", "query_bytes", "names_mb",
           "memory_mb", "p99_growth", "login_cpu_us", "growth_percent")
VERDICTS = {True: "met", False: "missed", None: "-"}


def medians(runs):
    """metric -> median, over the runs of one target."""
    names = {name for run in runs for name in run}
    return {name: statistics.median(run[name] for run in runs if name in run) for name in names}


def medians_of(case, results):
    """target -> metric -> median."""
    return {target: medians(runs) for target, runs in results.get(case.name, {}).items() if runs}


def extremes(runs, metric):
    """The smallest and the largest."""
    values = [run[metric] for run in runs if metric in run]
    return min(values), max(values)


def spread(runs, metric):
    values = [run[metric] for run in runs if metric in run]
    middle = statistics.median(values) if values else 0
    return (max(values) - min(values)) / abs(middle) if middle else None


def figure(metric, value):
    return METRICS[metric][1].format(value)


def cell(runs, metric):
    value = medians(runs).get(metric) if runs else None
    if value is None:
        return "-"
    width = spread(runs, metric)
    if metric == "growth_percent" or len(runs) < 2 or width is None:
        return figure(metric, value)
    return f"{figure(metric, value)} ±{width * 50:.0f}%"


def ratio(figures, above, below, metric):
    values = [figures.get(name, {}).get(metric) for name in (above, below)]
    if metric == "growth_percent" or None in values or not values[1]:
        return "-"
    return f"{values[0] / values[1]:.2f}"


def _goals(case, metric, figures):
    goals = [goal for goal in case.goals if goal.metric == metric]
    return (", ".join(map(str, goals)) or "-",
            ", ".join(VERDICTS[goal.is_met(figures)] for goal in goals) or "-")


def metrics_of(case, results):
    """The metrics that were measured and are shown, in order."""
    runs = [run for runs in results.get(case.name, {}).values() for run in runs]
    return [metric for metric in METRICS if any(metric in run for run in runs)
            and (not case.keeps or metric in case.keeps)]


def rows_of(case, results, targets, on_page):
    """One row for each metric of a case."""
    figures = medians_of(case, results)
    runs = results.get(case.name, {})
    for metric in metrics_of(case, results):
        if on_page and metric not in ON_PAGE:
            continue
        yield [case.name, METRICS[metric][0],
               *(cell(runs.get(target), metric) for target in targets),
               ratio(figures, "pgweir", "pgbouncer", metric),
               *(() if on_page else (ratio(figures, "pgweir", "relay", metric),
                                     *_goals(case, metric, figures)))]


def markdown(lines):
    """A table; the first line is its head."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ["| " + " | ".join(word.ljust(width) for word, width in zip(line, widths)) + " |"
            for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def table(cases, results, targets, on_page=False):
    """All figures; on a page, those that a reader compares, of the two poolers."""
    if on_page:
        targets = [target for target in targets if target in ("pgbouncer", "pgweir")]
    lines = [["case", "figure", *targets, "pgweir/pgbouncer",
              *(() if on_page else ("pgweir/relay", "goal", "verdict"))]]
    for case in cases:
        lines += rows_of(case, results, targets, on_page)
    return markdown(lines)


def _judged(case, goal, results):
    """A row of the goals' table; None if the goal cannot be judged."""
    figures = medians_of(case, results)
    verdict = goal.is_met(figures)
    if verdict is None:
        return None
    own = figures["pgweir"][goal.metric]
    other = figures[goal.of][goal.metric] if goal.of else None
    reached = f"{own / other:.2f} x" if other else figure(goal.metric, own)
    return [case.name, METRICS[goal.metric][0], str(goal), reached, VERDICTS[verdict]]


def goals_table(cases, results):
    """Goals and results. Empty if there is nothing to compare."""
    rows = [_judged(case, goal, results) for case in cases for goal in case.goals]
    rows = [row for row in rows if row]
    return markdown([["case", "figure", "goal", "reached", "verdict"], *rows]) if rows else ""


def _goal_as_json(goal, figures):
    return {"metric": goal.metric, "words": str(goal), "bound": goal.bound, "of": goal.of,
            "is_least": goal.is_least, "limit": goal.limit(figures),
            "is_met": goal.is_met(figures)}


def _case_as_json(case, results, skipped):
    figures, runs = medians_of(case, results), results.get(case.name, {})
    return {"says": case.says,
            "runs": runs,
            "medians": figures,
            "spreads": {target: {metric: spread(runs[target], metric) for metric in values}
                        for target, values in figures.items()},
            "goals": [_goal_as_json(goal, figures) for goal in case.goals],
            "skipped": skipped.get(case.name, {})}


def as_json(cases, results, facts, skipped):
    """`skipped`: case name -> target -> why."""
    return {"facts": facts,
            "cases": {case.name: _case_as_json(case, results, skipped) for case in cases}}


def from_json(parts):
    """Merges several files: (results, facts, skipped). Later values override earlier ones."""
    results, facts, skipped = {}, {}, {}
    for part in parts:
        facts = {**part["facts"], "versions": {**facts.get("versions", {}),
                                               **part["facts"].get("versions", {})}}
        for name, case in part["cases"].items():
            results[name], skipped[name] = case["runs"], case["skipped"]
    return results, facts, skipped
