# SPDX-License-Identifier: ISC
"""Which figures become pictures: one row of PICTURES for each file; the summary for the README."""

import dataclasses

import bars
import report
import themes


@dataclasses.dataclass(frozen=True)
class Picture:
    """One metric of several cases; `cases` are names or their beginnings."""

    name: str
    title: str
    metric: str
    unit: str
    cases: tuple


PICTURES = (
    Picture("cpu", "CPU time per transaction", "cpu_us",
            "microseconds of the pooler or relay, less is better",
            ("bsc-", "late-begin-", "select-", "prepared-16", "tpcb-16")),
    Picture("tps", "Transactions per second", "tps", "transactions/s, more is better",
            ("bsc-", "late-begin-", "poll-", "select-", "tpcb-16")),
    Picture("p99", "Latency, 99th percentile", "p99_ms",
            "milliseconds, less is better", ("bsc-", "late-begin-", "select-", "tpcb-16")),
    Picture("connect", "Connect, SELECT 1, disconnect: CPU time", "cpu_us",
            "microseconds per connection, all threads, less is better", ("connect-",)),
    Picture("connect-loop", "Connect, SELECT 1, disconnect: CPU time of the event loop",
            "loop_cpu_us", "microseconds per connection, less is better", ("connect-",)),
    Picture("tls", "TLS: CPU time per transaction", "cpu_us",
            "microseconds per transaction, less is better", ("tls-",)),
    Picture("copy-cpu", "COPY: CPU time", "cpu_ms_per_million",
            "milliseconds per million rows, less is better", ("copy-",)),
    Picture("copy-rows", "COPY: rows per second", "rows_s", "rows/s, more is better", ("copy-",)),
    Picture("memory", "Memory of an idle client", "query_bytes",
            "bytes of RSS after a query, less is better", ("idle-memory", "idle-tls-memory")),
    Picture("growth", "What idle clients and pools cost busy ones", "beside_cpu_us",
            "microseconds of CPU per transaction, less is better",
            ("idle-cost", "resting-cost")),
    Picture("published", "Published cases", "tps", "transactions/s, more is better",
            ("pgecons-", "polska-", "cybertec", "compose")),
)


@dataclasses.dataclass(frozen=True)
class Summary:
    """One row of the small picture: a figure of one case, as the tables name them."""

    case: str
    figure: str
    title: str
    unit: str


SUMMARY_TITLE = "pgweir beside PgBouncer {version}, less is better"
SUMMARY = (
    Summary("bsc-64", "CPU us/transaction", "CPU time per transaction, 64 clients", "µs"),
    Summary("idle-memory", "bytes/client, after a query", "Memory per idle client", "bytes"),
)
SUMMARY_TARGETS = (("pgbouncer", "PgBouncer"), ("pgweir", "pgweir"))
SUMMARY_WIDTH = 560
SUMMARY_NAMES = 84
SUMMARY_FIGURES = 84


def _goal(case, metric, figures):
    """(figure, text) of the hardest goal for this metric, if any."""
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
    """Writes the files; returns (file name, title) of each."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, title, text in draw(cases, results, targets):
        (folder / f"{name}.svg").write_text(text, encoding="utf-8")
        written.append((f"{name}.svg", title))
    return written


def _summary_row(row, medians, y):
    """One bar for each pooler; `medians` is target -> figure."""
    longest = max(medians[target] for target, _ in SUMMARY_TARGETS)
    per_unit = (SUMMARY_WIDTH - SUMMARY_NAMES - SUMMARY_FIGURES) / longest
    yield themes.text(4, y + 13, row.title, "head")
    for number, (target, name) in enumerate(SUMMARY_TARGETS):
        top, width = y + 22 + number * 20, medians[target] * per_unit
        yield themes.text(SUMMARY_NAMES - 6, top + 12, name, anchor="end")
        yield themes.bar(SUMMARY_NAMES, top, width, 15, themes.COLOURS[target])
        yield themes.text(SUMMARY_NAMES + width + 6, top + 12,
                          f"{medians[target]:.0f} {row.unit}")


def summary(medians, version, theme):
    """The small picture in one theme; `medians` as document.medians_in() gives them, and the
    version of PgBouncer."""
    title = SUMMARY_TITLE.format(version=version)
    parts, y = [themes.text(4, 18, title, "faint")], 30
    for row in SUMMARY:
        parts += _summary_row(row, medians[row.case, row.figure], y)
        y += 74
    return themes.picture(title, SUMMARY_WIDTH, y, parts, themes.THEMES[theme])


def has_summary(medians):
    """Whether all of its figures are there."""
    return all(target in medians.get((row.case, row.figure), ())
               for row in SUMMARY for target, _ in SUMMARY_TARGETS)


def write_summary(folder, medians, version):
    """Writes one file for each theme."""
    for theme in themes.THEMES:
        (folder / f"summary-{theme}.svg").write_text(
            summary(medians, version, theme), encoding="utf-8")
