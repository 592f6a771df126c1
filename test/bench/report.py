# SPDX-License-Identifier: ISC
"""Figures into a table. Medians over the rounds; spread is (largest - smallest) / median."""

import statistics

METRICS = {
    "tps": ("transactions/s", "{:.0f}"),
    "cpu_us": ("CPU us/transaction", "{:.2f}"),
    "transaction_mode_cpu_us": ("CPU us/transaction, transaction mode", "{:.2f}"),
    "loop_cpu_us": ("CPU us/transaction, loop's thread", "{:.2f}"),
    "p50_ms": ("p50 ms", "{:.3f}"),
    "p99_ms": ("p99 ms", "{:.3f}"),
    "connect_ms": ("mean ms to connect", "{:.3f}"),
    "rows_s": ("rows/s", "{:.0f}"),
    "cpu_ms_per_million": ("CPU ms/million rows", "{:.1f}"),
    "login_bytes": ("bytes/client, logged in", "{:.0f}"),
    "query_bytes": ("bytes/client, after a query", "{:.0f}"),
    "names_mb": ("MB in all", "{:.1f}"),
    "alone_cpu_us": ("CPU us/transaction, alone", "{:.2f}"),
    "beside_cpu_us": ("CPU us/transaction, beside", "{:.2f}"),
    "alone_p99_ms": ("p99 ms, alone", "{:.3f}"),
    "storm_p99_ms": ("p99 ms, amid the storm", "{:.3f}"),
    "p99_growth": ("p99 amid the storm / alone", "{:.2f}"),
    "logins_s": ("logins/s of the storm", "{:.0f}"),
    "growth_percent": ("growth %", "{:.1f}"),
}


def medians(runs):
    """metric -> median, over the dicts of one target's runs."""
    names = {name for run in runs for name in run}
    return {name: statistics.median(run[name] for run in runs if name in run) for name in names}


def spread(runs, metric):
    values = [run[metric] for run in runs if metric in run]
    middle = statistics.median(values) if values else 0
    return (max(values) - min(values)) / abs(middle) if middle else None


def _cell(runs, metric, pattern):
    value = medians(runs).get(metric) if runs else None
    if value is None:
        return "-"
    if metric == "growth_percent" or len(runs) < 2:
        return pattern.format(value)
    return f"{pattern.format(value)} ±{spread(runs, metric) * 50:.0f}%"


def _ratio(results, above, below, metric):
    values = [medians(results[name]).get(metric) if results.get(name) else None
              for name in (above, below)]
    if metric == "growth_percent" or None in values or not values[1]:
        return "-"
    return f"{values[0] / values[1]:.2f}"


def rows_of(case, results, targets):
    """One row for each metric of a case; results: target -> runs."""
    for metric, (says, pattern) in METRICS.items():
        if not any(metric in run for runs in results.values() for run in runs):
            continue
        yield [case.name, says,
               *(_cell(results.get(target), metric, pattern) for target in targets),
               _ratio(results, "pgbouncer", "postgresql", metric),
               _ratio(results, "pgweir", "postgresql", metric),
               _ratio(results, "pgweir", "pgbouncer", metric),
               str(case.reach.get(metric, "-"))]


def table(cases, results, targets):
    """The whole table as Markdown. results: case name -> target -> runs."""
    lines = [["case", "figure", *targets, "pgbouncer/direct", "pgweir/direct",
              "pgweir/pgbouncer", "to reach"]]
    for case in cases:
        lines += rows_of(case, results.get(case.name, {}), targets)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
            for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def as_json(cases, results, facts):
    return {"facts": facts, "cases": {
        case.name: {"says": case.says,
                    "reach": {metric: str(reach) for metric, reach in case.reach.items()},
                    "runs": results.get(case.name, {}),
                    "medians": {target: medians(runs)
                                for target, runs in results.get(case.name, {}).items() if runs}}
        for case in cases}}
