# SPDX-License-Identifier: ISC
"""Colours and small pieces of SVG that all pictures share.

The background is transparent. A picture either follows the reader's preference by a media query,
or is drawn once for each theme, for pages that choose between two files.
"""

from xml.sax.saxutils import escape

LIGHT = """\
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 15px; font-weight: 600; }
.faint { fill: #6e7781; }
.head { font-weight: 600; }
.line { stroke: #24292f; stroke-width: 1; }
.goal { stroke: #cf222e; stroke-width: 2; stroke-dasharray: 3 2; }
.goal-word { fill: #cf222e; }
.error { fill: #cf222e; }
.band { fill: #8b949e; fill-opacity: 0.2; }"""
DARK = """\
text { fill: #e6edf3; }
.faint { fill: #9198a1; }
.line { stroke: #e6edf3; }
.goal { stroke: #ff7b72; }
.goal-word { fill: #ff7b72; }
.error { fill: #ff7b72; }"""

BOTH_STYLE = f"{LIGHT}\n@media (prefers-color-scheme: dark) {{\n{DARK}\n}}"
THEMES = {"light": LIGHT, "dark": f"{LIGHT}\n{DARK}"}

PLAIN = "#8b949e"
COLOURS = {"postgresql": "#8b949e", "relay": "#57a0a0", "haproxy": "#b08bd0",
           "pgbouncer": "#5b8dd6", "pgweir": "#e0823d"}


def text(x, y, words, kind="", anchor="start"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">'
            f'{escape(words)}</text>')


def line(x1, y1, x2, y2, kind="line"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def curve(points, colour):
    """A line through all points (x, y)."""
    at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="2"/>'


def bar(x, y, width, height, colour):
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
            f' fill="{colour}"/>')


def area(x, y, width, height, kind):
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
            f' class="{kind}"/>')


def picture(title, width, height, parts, style=BOTH_STYLE):
    """The whole file, as text."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="{escape(title, {chr(34): "&quot;"})}">',
        f"<style>\n{style}\n</style>", *parts, "</svg>", ""])
