# SPDX-License-Identifier: ISC
"""A restart as a picture: transactions in each interval upwards, errors downwards.

One panel for each way of restarting, all with the same scales.
"""

import math

import themes

WIDTH = 760
LEFT = 40
RIGHT = 16
TOP = 50
HEAD = 38
COMMITTED_HEIGHT = 64
ERRORS_HEIGHT = 64
FOOT = 34
GAP = 14
TITLE = "A restart under load"


def counted(times, before, after, interval):
    """How many of these times are in each interval; 0 is the beginning of the restart."""
    counts = [0] * round((before + after) / interval)
    for at in times:
        number = math.floor((at + before) / interval)
        if 0 <= number < len(counts):
            counts[number] += 1
    return counts


def errors_of(way):
    """How many errors the application saw in each interval."""
    return [failed + refused for failed, refused in zip(way["failed"], way["refused"])]


def summary(way):
    """The counts, as words."""
    return (f"{sum(way['committed'])} transactions committed, {sum(way['failed'])} failed,"
            f" {sum(way['refused'])} connections refused; the restart took {way['took']:.2f} s")


class Panel:
    """Where a panel's times and counts are drawn."""

    def __init__(self, facts, most, y, has_errors):
        self.facts = facts
        self.zero = y + HEAD + COMMITTED_HEIGHT
        self.end = self.zero + (ERRORS_HEIGHT if has_errors else 0)
        self.y = y
        self.per_second = (WIDTH - LEFT - RIGHT) / (facts["before"] + facts["after"])
        self.per_count = COMMITTED_HEIGHT / most
        self.interval = facts["interval"]

    def at(self, second):
        return LEFT + (second + self.facts["before"]) * self.per_second

    def bars(self, counts, is_error):
        width = self.interval * self.per_second - 1
        for number, count in enumerate(counts):
            height = min(count * self.per_count, ERRORS_HEIGHT)
            x = self.at(number * self.interval - self.facts["before"])
            if count and is_error:
                yield themes.area(x, self.zero, width, height, "error")
            elif count:
                yield themes.bar(x, self.zero - height, width, height, themes.COLOURS["pgweir"])

    def axis(self):
        yield themes.line(LEFT, self.zero, WIDTH - RIGHT, self.zero)
        for second in range(-int(self.facts["before"]), int(self.facts["after"]) + 1):
            yield themes.text(self.at(second), self.end + 14, f"{second} s", "faint", "middle")


def _panel(panel, way):
    yield themes.text(4, panel.y + 13, way["words"], "head")
    yield themes.text(4, panel.y + 29, summary(way), "faint")
    yield themes.area(panel.at(0), panel.zero - COMMITTED_HEIGHT, way["took"] * panel.per_second,
                      panel.end - panel.zero + COMMITTED_HEIGHT, "band")
    yield from panel.bars(way["committed"], False)
    yield from panel.bars(errors_of(way), True)
    yield from panel.axis()


def draw(measured, theme):
    """The picture in one theme."""
    facts, ways = measured["facts"], list(measured["ways"].values())
    most = max(max(way["committed"] + errors_of(way)) for way in ways) or 1
    parts = [themes.text(4, 20, TITLE, "title"),
             themes.text(4, 38, "committed transactions per"
                         f" {facts['interval'] * 1000:.0f} ms upwards, errors downwards; grey:"
                         " until the old process has ended", "faint")]
    y = TOP
    for way in ways:
        panel = Panel(facts, most, y, any(errors_of(way)))
        parts += _panel(panel, way)
        y = panel.end + FOOT + GAP
    return themes.picture(TITLE, WIDTH, y - GAP, parts, themes.THEMES[theme])


def write(folder, measured):
    """Writes one file for each theme."""
    folder.mkdir(parents=True, exist_ok=True)
    for theme in themes.THEMES:
        (folder / f"restart-{theme}.svg").write_text(draw(measured, theme), encoding="utf-8")
