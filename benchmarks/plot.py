"""Line charts as SVG: logarithmic axes, labelled at the lines' ends, legible on light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 920, 400  # of the whole picture
LEFT, RIGHT, TOP, BOTTOM = 62, 18, 66, 92  # around a panel's axes
STEPS = (1, 2, 5)
STYLE = """
  .page { fill: #ffffff } text { fill: #1f2328; font: 13px system-ui, sans-serif }
  .title { font-size: 15px; font-weight: 600 }
  .tick { font-size: 12px; fill: #59636e } .grid { stroke: #d1d9e0; stroke-width: 1 }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round } .dashed { stroke-dasharray: 6 4 }
  .a { stroke: #0969da; fill: #0969da } .b { stroke: #bc4c00; fill: #bc4c00 } .line.a, .line.b { fill: none }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #f0f6fc } .tick { fill: #9198a1 } .grid { stroke: #3d444d }
    .a { stroke: #58a6ff; fill: #58a6ff } .b { stroke: #ffa657; fill: #ffa657 } .line.a, .line.b { fill: none }
  }
"""


@dataclass(frozen=True)
class Line:
    """`colour` is a or b."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]


def svg(panels: Sequence[Panel], summary: str) -> str:
    """One picture, the panels side by side. `summary` is for readers who do not see it."""
    width = WIDTH / len(panels)
    drawn = "\n".join(_panel(panel, i * width, width) for i, panel in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(summary)}">\n<style>{STYLE}</style>\n'
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="8"/>\n{drawn}\n</svg>\n'
    )


@dataclass(frozen=True)
class Axis:
    """From values to places in the picture."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)


def ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every power of ten in between; where those are many, the powers of ten alone."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = STEPS if high / low <= 2000 else (1,)
    return [value for power in powers for step in steps if low <= (value := step * 10.0**power) <= high]


def _around(values: Sequence[float]) -> tuple[float, float]:
    """Round numbers below the least and above the greatest."""
    rounds = [step * 10.0**power for power in range(-3, 8) for step in STEPS]
    low = max(value for value in rounds if value <= min(values))
    high = min(value for value in rounds if value >= max(values))
    return low, high if high > low else 10 * low


def _panel(panel: Panel, offset: float, width: float) -> str:
    points = [point for line in panel.lines for point in line.points]
    doublings = sorted({x for x, _ in points})
    left, right, top, bottom = offset + LEFT, offset + width - RIGHT, TOP, HEIGHT - BOTTOM
    x = Axis(min(doublings), max(doublings) if len(doublings) > 1 else 2 * max(doublings), left + 12, right - 12)
    y = Axis(*_around([value for _, value in points]), bottom, top)
    parts = [f'<text class="title" x="{left}" y="28">{escape(panel.title)}</text>']
    parts.append(f'<text class="tick" x="{left}" y="50">{escape(panel.y_label)}</text>')
    for value in ticks(y.low, y.high):
        at = round(y(value), 1)
        parts.append(f'<line class="grid" x1="{left}" y1="{at}" x2="{right}" y2="{at}"/>')
        parts.append(f'<text class="tick" x="{left - 8}" y="{at + 4}" text-anchor="end">{value:,g}</text>')
    for value in doublings:
        at = round(x(value), 1)
        parts.append(f'<text class="tick" x="{at}" y="{bottom + 18}" text-anchor="middle">{value:g}</text>')
    middle = (left + right) / 2
    parts.append(
        f'<text class="tick" x="{middle}" y="{bottom + 36}" text-anchor="middle">{escape(panel.x_label)}</text>'
    )
    for number, line in enumerate(panel.lines):
        parts += _line(line, x, y)
        parts += _key(line, left + (number % 2) * (right - left) / 2, bottom + 58 + 20 * (number // 2))
    return "\n".join(parts)


def _line(line: Line, x: Axis, y: Axis) -> list[str]:
    places = [(round(x(a), 1), round(y(b), 1)) for a, b in sorted(line.points)]
    path = " ".join(f"{a},{b}" for a, b in places)
    name = escape(line.name)
    dots = [
        f'<circle class="{line.colour}" cx="{a}" cy="{b}" r="3.5"><title>{name}: {value:,g}</title></circle>'
        for (a, b), (_, value) in zip(places, sorted(line.points), strict=True)
    ]
    return [f'<polyline class="{_classes(line)}" points="{path}"/>', *dots]


def _key(line: Line, left: float, at: float) -> list[str]:
    return [
        f'<line class="{_classes(line)}" x1="{left}" y1="{at - 4}" x2="{left + 26}" y2="{at - 4}"/>',
        f'<text class="tick" x="{left + 34}" y="{at}">{escape(line.name)}</text>',
    ]


def _classes(line: Line) -> str:
    return f"line {line.colour}" + (" dashed" if line.dashed else "")
