# SPDX-License-Identifier: ISC
"""The picture of `test/bench/queues`: how long statements take and how many are done, by load.

Loads and times have logarithmic axes: the largest would hide the others.
"""

import math

import themes

WIDTH = 760
LEFT, RIGHT = 60, 130
HEIGHT = 150
TOP, GAP, FOOT = 66, 64, 40
TITLE = "A pool that is asked for more than it can do"
COLOURS = {"with": themes.COLOURS["pgweir"], "without": themes.PLAIN}
WORDS = {"with": "with queue_target", "without": "without"}


def ratios(measured):
    """With queue_target, at the highest load: (p99 / target, done / the most done at any load)."""
    last = measured["ways"]["with"][-1]
    most = max(level["done"] for levels in measured["ways"].values() for level in levels)
    return last["p99_ms"] / measured["target_ms"], last["done"] / most


class Scale:
    """From a figure to a place on an axis."""

    def __init__(self, low, high, begin, end, turn=math.log10):
        self.turn, self.low, self.begin = turn, turn(low), begin
        self.per_one = (end - begin) / (turn(high) - turn(low))

    def at(self, figure):
        return self.begin + (self.turn(figure) - self.low) * self.per_one


def _curves(ways, figure, x, y):
    """The one without queue_target lies below."""
    for way in ("without", "with"):
        points = [(x.at(level["load"]), y.at(level[figure])) for level in ways[way]]
        yield themes.curve(points, COLOURS[way])


def _axes(x, y, bottom, marks, unit):
    yield themes.line(LEFT, bottom, WIDTH - RIGHT, bottom)
    for load in (0.5, 1, 2, 5, 10):
        yield themes.text(x.at(load), bottom + 16, f"{load:g} x", "faint", "middle")
    for mark in marks:
        yield themes.text(LEFT - 6, y.at(mark) + 4, f"{mark:g}{unit}", "faint", "end")


def _goal(y, figure, words):
    yield themes.line(LEFT, y.at(figure), WIDTH - RIGHT, y.at(figure), "goal")
    yield themes.text(LEFT + 4, y.at(figure) - 5, words, "goal-word")


def draw(measured, theme):
    """The picture in one theme."""
    ways, target, can_do = measured["ways"], measured["target_ms"], measured["can_do"]
    loads = [level["load"] for level in ways["with"]]
    x = Scale(loads[0], loads[-1], LEFT, WIDTH - RIGHT)
    slowest = max(level["p99_ms"] for levels in ways.values() for level in levels)
    bottom = TOP + HEIGHT
    y = Scale(10, slowest, bottom, TOP)
    marks = [10 ** power for power in range(1, 1 + int(math.log10(slowest)))]
    parts = [themes.text(4, 20, TITLE, "title"),
             themes.text(4, 38, f"{measured['servers']} servers that can do {can_do:.0f}/s; across:"
                         " what clients ask for, as a multiple of that", "faint"),
             themes.text(4, TOP - 8, "milliseconds, 99 % of the accepted statements take less",
                         "head"),
             *_axes(x, y, bottom, marks, " ms"),
             *_goal(y, 2 * target, f"2 x queue_target ({target} ms)")]
    parts += _curves(ways, "p99_ms", x, y)
    parts += [themes.text(WIDTH - RIGHT + 6, y.at(levels[-1]["p99_ms"]) + 4, WORDS[way])
              for way, levels in ways.items()]
    top = bottom + GAP
    bottom = top + HEIGHT
    y = Scale(0, 1.1 * can_do, bottom, top, float)
    parts += [themes.text(4, top - 8, "statements done per second", "head"),
              *_axes(x, y, bottom, (0, can_do / 2, can_do), "/s")]
    parts += _curves(ways, "done", x, y)
    return themes.picture(TITLE, WIDTH, bottom + FOOT, parts, themes.THEMES[theme])


def write(folder, measured):
    """Writes one file for each theme."""
    for theme in themes.THEMES:
        (folder / f"queues-{theme}.svg").write_text(draw(measured, theme), encoding="utf-8")
