# SPDX-License-Identifier: ISC
"""Which figures become pictures: one row of PICTURES for each file."""

import dataclasses

import bars
import report


@dataclasses.dataclass(frozen=True)
class Picture:
    """One metric of several cases; `cases` are names or their beginnings."""

    name: str
    title: str
    metric: str
    unit: str
    cases: tuple


PICTURES = (
    Picture("cpu", "CPU of what stands before PostgreSQL", "cpu_us",
            "microseconds for each transaction, less is better",
            ("bsc-", "late-begin-", "select-", "prepared-16", "tpcb-16")),
    Picture("tps", "Transactions a second", "tps", "transactions/s, more is better",
            ("bsc-", "late-begin-", "poll-", "select-", "tpcb-16")),
    Picture("p99", "Latency that 99 of 100 transactions keep", "p99_ms",
            "milliseconds, less is better", ("bsc-", "late-begin-", "select-", "tpcb-16")),
    Picture("connect", "Connect, SELECT 1, leave: CPU", "cpu_us",
            "microseconds for each connection, all threads, less is better", ("connect-",)),
    Picture("connect-loop", "Connect, SELECT 1, leave: CPU of the loop's thread", "loop_cpu_us",
            "microseconds for each connection, less is better", ("connect-",)),
    Picture("tls", "TLS: CPU", "cpu_us", "microseconds for each transaction, less is better",
            ("tls-",)),
    Picture("copy-cpu", "COPY: CPU", "cpu_ms_per_million",
            "milliseconds for a million rows, less is better", ("copy-",)),
    Picture("copy-rows", "COPY: rows a second", "rows_s", "rows/s, more is better", ("copy-",)),
    Picture("memory", "Memory of an idle client", "query_bytes",
            "bytes of RSS after a query, less is better", ("idle-memory", "idle-tls-memory")),
    Picture("growth", "What the idle cost the busy", "beside_cpu_us",
            "microseconds of CPU for each transaction, less is better",
            ("idle-cost", "resting-cost")),
    Picture("published", "Published cases", "tps", "transactions/s, more is better",
            ("pgecons-", "polska-", "cybertec", "compose")),
)


def _goal(case, metric, figures):
    """(figure, words) of the hardest goal in this metric, if there is one."""
    limits = [(goal.limit(figures), goal) for goal in case.goals if goal.metric == metric]
    limits = [(limit, goal) for limit, goal in limits if limit is not None]
    if not limits:
        return None, ""
    limit, _ = (max if limits[0][1].is_least else min)(limits, key=lambda pair: pair[0])
    return limit, f"goal {report.figure(metric, limit)}"


def _bar(case, metric, target, runs, figures):
    value = figures[target][metric]
    low, high = report.extremes(runs, metric)
    goal, words = _goal(case, metric, figures) if target == "pgweir" else (None, "")
    return bars.Bar(target, value, low, high, report.figure(metric, value), goal, words)


def _group(case, metric, results, targets):
    figures, runs = report.medians_of(case, results), results.get(case.name, {})
    made = [_bar(case, metric, target, runs[target], figures) for target in targets
            if metric in figures.get(target, {})]
    return bars.Group(f"{case.name}: {case.says}", tuple(made)) if made else None


def draw(cases, results, targets):
    """(name, title, SVG) of each picture for which something was measured."""
    for picture in PICTURES:
        wanted = [case for case in cases if case.name.startswith(picture.cases)
                  and (not case.keeps or picture.metric in case.keeps)]
        groups = [_group(case, picture.metric, results, targets) for case in wanted]
        groups = [group for group in groups if group]
        if groups:
            yield picture.name, picture.title, bars.picture(picture.title, picture.unit, groups)


def write(folder, cases, results, targets):
    """Writes the files; gives (name of the file, title) of each."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, title, text in draw(cases, results, targets):
        (folder / f"{name}.svg").write_text(text, encoding="utf-8")
        written.append((f"{name}.svg", title))
    return written
