# SPDX-License-Identifier: ISC
"""Bars as SVG: groups of lying bars with their names, figures, spreads, and lines to reach.

Nothing but text is made here. The ground is transparent, and the colours of words follow what the
reader's screen prefers, so that a picture is readable on light and on dark.
"""

import dataclasses
from xml.sax.saxutils import escape

WIDTH = 760
NAMES_WIDTH = 96
FIGURES_WIDTH = 170
TOP = 56
BAR = 13
STEP = 17
HEAD = 22
GAP = 10
PLAIN = "#8b949e"
COLOURS = {"postgresql": "#8b949e", "relay": "#57a0a0", "haproxy": "#b08bd0",
           "pgbouncer": "#5b8dd6", "pgweir": "#e0823d"}

STYLE = """\
<style>
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 15px; font-weight: 600; }
.faint { fill: #6e7781; }
.head { font-weight: 600; }
.line { stroke: #24292f; stroke-width: 1; }
.goal { stroke: #cf222e; stroke-width: 2; stroke-dasharray: 3 2; }
.goal-word { fill: #cf222e; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.faint { fill: #9198a1; }
.line { stroke: #e6edf3; }
.goal { stroke: #ff7b72; }
.goal-word { fill: #ff7b72; }
}
</style>"""


@dataclasses.dataclass(frozen=True)
class Bar:
    """A median with the smallest and the largest; `goal`: the figure to reach, if there is one."""

    name: str
    value: float
    low: float
    high: float
    words: str  # the value as it is to be read
    goal: float = None
    goal_words: str = ""


@dataclasses.dataclass(frozen=True)
class Group:
    name: str
    bars: tuple


class Scale:
    """Figures of one group to pixels."""

    def __init__(self, group):
        most = max(max(bar.high, bar.value, bar.goal or 0) for bar in group.bars)
        self.factor = (WIDTH - NAMES_WIDTH - FIGURES_WIDTH) / most if most > 0 else 0

    def at(self, value):
        return NAMES_WIDTH + max(0, value) * self.factor


def _text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def _line(x1, y1, x2, y2, kind="line"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _whisker(scale, bar, y):
    low, high, middle = scale.at(bar.low), scale.at(bar.high), y + BAR / 2
    yield _line(low, middle, high, middle)
    yield _line(low, middle - 3, low, middle + 3)
    yield _line(high, middle - 3, high, middle + 3)


def _bar(scale, bar, y):
    end = scale.at(bar.value)
    yield _text(NAMES_WIDTH - 6, y + BAR - 2, bar.name, anchor="end")
    yield (f'<rect x="{NAMES_WIDTH}" y="{y:.1f}" width="{end - NAMES_WIDTH:.1f}" height="{BAR}"'
           f' fill="{COLOURS.get(bar.name, PLAIN)}"/>')
    if bar.low < bar.high:
        yield from _whisker(scale, bar, y)
    after, goal = max(end, scale.at(bar.high)), bar.goal is not None
    if goal:
        yield _line(scale.at(bar.goal), y - 3, scale.at(bar.goal), y + BAR + 3, "goal")
        after = max(after, scale.at(bar.goal))
    yield _text(after + 6, y + BAR - 2, bar.words)
    if goal:
        yield _text(WIDTH - 4, y + BAR - 2, bar.goal_words, "goal-word", "end")


def _group(group, y):
    scale = Scale(group)
    yield _text(4, y + 13, group.name, "head")
    for number, bar in enumerate(group.bars):
        yield from _bar(scale, bar, y + HEAD + number * STEP)


def picture(title, unit, groups):
    """The whole file, as text. Each group has a scale of its own, from zero."""
    parts, y = [], TOP
    for group in groups:
        parts += _group(group, y)
        y += HEAD + len(group.bars) * STEP + GAP
    note = f"{unit}; median, smallest and largest; each group has its own scale"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}"'
        f' viewBox="0 0 {WIDTH} {y}" role="img" aria-label="{escape(title, {chr(34): "&quot;"})}">',
        STYLE,
        _text(4, 20, title, "title"),
        _text(4, 39, note, "faint"),
        *parts,
        "</svg>", ""])
