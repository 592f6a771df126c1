# SPDX-License-Identifier: ISC
"""Bars as SVG: groups of horizontal bars with names, figures, spreads, and goals."""

import dataclasses

import themes

WIDTH = 760
NAMES_WIDTH = 96
FIGURES_WIDTH = 170
TOP = 56
BAR = 13
STEP = 17
HEAD = 22
GAP = 10


@dataclasses.dataclass(frozen=True)
class Bar:
    """A median with minimum and maximum; `goal`: the goal of this figure, if any."""

    name: str
    value: float
    low: float
    high: float
    words: str  # the value for the reader
    goal: float = None
    goal_words: str = ""


@dataclasses.dataclass(frozen=True)
class Group:
    name: str
    bars: tuple


class Scale:
    """Converts the figures of one group to pixels."""

    def __init__(self, group):
        most = max(max(bar.high, bar.value, bar.goal or 0) for bar in group.bars)
        self.factor = (WIDTH - NAMES_WIDTH - FIGURES_WIDTH) / most if most > 0 else 0

    def at(self, value):
        return NAMES_WIDTH + max(0, value) * self.factor


def _whisker(scale, bar, y):
    low, high, middle = scale.at(bar.low), scale.at(bar.high), y + BAR / 2
    yield themes.line(low, middle, high, middle)
    yield themes.line(low, middle - 3, low, middle + 3)
    yield themes.line(high, middle - 3, high, middle + 3)


def _bar(scale, bar, y):
    end = scale.at(bar.value)
    yield themes.text(NAMES_WIDTH - 6, y + BAR - 2, bar.name, anchor="end")
    yield themes.bar(NAMES_WIDTH, y, end - NAMES_WIDTH, BAR,
                     themes.COLOURS.get(bar.name, themes.PLAIN))
    if bar.low < bar.high:
        yield from _whisker(scale, bar, y)
    after, goal = max(end, scale.at(bar.high)), bar.goal is not None
    if goal:
        yield themes.line(scale.at(bar.goal), y - 3, scale.at(bar.goal), y + BAR + 3, "goal")
        after = max(after, scale.at(bar.goal))
    yield themes.text(after + 6, y + BAR - 2, bar.words)
    if goal:
        yield themes.text(WIDTH - 4, y + BAR - 2, bar.goal_words, "goal-word", "end")


def _group(group, y):
    scale = Scale(group)
    yield themes.text(4, y + 13, group.name, "head")
    for number, bar in enumerate(group.bars):
        yield from _bar(scale, bar, y + HEAD + number * STEP)


def picture(title, unit, groups):
    """The complete file, as text. Each group has its own scale, from zero."""
    parts, y = [], TOP
    for group in groups:
        parts += _group(group, y)
        y += HEAD + len(group.bars) * STEP + GAP
    note = f"{unit}; median, smallest and largest; each group has its own scale"
    return themes.picture(title, WIDTH, y, [
        themes.text(4, 20, title, "title"), themes.text(4, 39, note, "faint"), *parts])
