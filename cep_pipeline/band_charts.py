"""Charts of estimates over time: a panel a quantity, with a band of its bounds and what was reckoned with."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Literal

from cep_pipeline.match_chart import GRID, INK, PALETTE, TimeAxis, line, png_of, svg, text_at, value_ticks

WIDTH, HEIGHT = 420, 110
"""Width and height of one panel, in pixels."""
COLUMNS = 2
LEFT, RIGHT, LINE, BOTTOM = 58, 10, 14, 34
TITLE_CHARACTERS = 62
DOTTED = 100
"""The points of a panel with more of them are a line only."""
TIMES = 6
HALF_A_DAY_US = 43_200_000_000


@dataclass(frozen=True)
class BandPoint:
    """A quantity at an instant, as the clocks of the stream's time zone show it.

    The estimate, and the ends of its interval, are None where there is none, which breaks the line.
    """

    at: datetime
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class BandPanel:
    """One panel: its title, the points in order of time, and a level to compare them with (None: no such)."""

    title: str
    points: Sequence[BandPoint]
    level: float | None = None


def band_chart(
    panels: Sequence[BandPanel],
    *,
    level_title: str = "",
    format: Literal["svg", "png"] = "svg",
) -> bytes:
    """Draw panels below and beside each other, each on a vertical scale of its own that begins at zero.

    A panel without points stays empty. `level_title` says once above the panels what the dashed level is.
    """
    times = [_instant(point.at) for panel in panels for point in panel.points]
    first, last = min(times, default=0), max(times, default=0)
    if first == last:  # of one instant the hours around it
        first, last = first - HALF_A_DAY_US, last + HALF_A_DAY_US
    note = level_title if any(panel.level is not None for panel in panels) else ""
    parts = [text_at(8, 16, f"dashed: {note}", size=12)] if note else []
    top = 26.0 if note else 6.0
    for place in range(0, len(panels), COLUMNS):
        row = panels[place : place + COLUMNS]
        titles = [textwrap.wrap(panel.title, TITLE_CHARACTERS) or [""] for panel in row]
        below = top + LINE * max(map(len, titles)) + 4
        for column, (panel, title) in enumerate(zip(row, titles, strict=True)):
            left = column * (LEFT + WIDTH + RIGHT) + LEFT
            # Times are those of the stream's clocks: drawn as if they were UTC, they look alike on every machine.
            axis = TimeAxis(first, last, left, left + WIDTH, "UTC")
            parts += [text_at(left, top + LINE * (at + 1) - 3, text, size=11) for at, text in enumerate(title)]
            parts += _panel(panel, axis, below)
        top = below + HEIGHT + BOTTOM
    width = min(COLUMNS, max(len(panels), 1)) * (LEFT + WIDTH + RIGHT)
    drawing = svg(width, top, parts, "estimates over time with their bounds")
    return drawing.encode() if format == "svg" else png_of(drawing)


def _panel(panel: BandPanel, axis: TimeAxis, top: float) -> Iterator[str]:
    """The parts of one panel: its grid and axes, the band, the line, and the level."""
    bottom = top + HEIGHT
    ends = [one for point in panel.points for one in (point.value, point.low, point.high) if one is not None]
    low, high = (choose([0.0, *ends, *([] if panel.level is None else [panel.level])]) for choose in (min, max))
    high = high if high > low else low + 1.0

    def y(value: float) -> float:
        return bottom - (value - low) / (high - low) * HEIGHT

    for tick in value_ticks(low, high):
        yield line(axis.left, y(tick), axis.right, y(tick), GRID, opacity=0.25)
        yield text_at(axis.left - 6, y(tick) + 4, f"{tick:,.6g}", anchor="end", size=11)
    yield from axis.drawn(bottom, TIMES)
    for band in _runs(panel.points, lambda one: one.low is not None and one.high is not None):
        sides = [(axis.x(_instant(one.at)), one.low, one.high) for one in band]
        way = [f"{x:.1f},{y(high or 0.0):.1f}" for x, _, high in sides]
        way += [f"{x:.1f},{y(low or 0.0):.1f}" for x, low, _ in reversed(sides)]
        stroke = f' stroke="{PALETTE[2]}"' if len(band) == 1 else ""  # of one point the band has no width
        yield f'<polygon points="{" ".join(way)}" fill="{PALETTE[2]}" opacity="0.3"{stroke}/>'
    for known in _runs(panel.points, lambda one: one.value is not None):
        points = [(axis.x(_instant(one.at)), y(one.value or 0.0)) for one in known]
        way = [f"{x:.1f},{height:.1f}" for x, height in points]
        yield f'<polyline points="{" ".join(way)}" fill="none" stroke="{PALETTE[2]}" stroke-width="1.5"/>'
        if len(known) == 1 or len(panel.points) <= DOTTED:
            for x, height in points:
                yield f'<circle cx="{x:.1f}" cy="{height:.1f}" r="2" fill="{PALETTE[2]}"/>'
    if panel.level is not None:
        yield line(axis.left, y(panel.level), axis.right, y(panel.level), PALETTE[0], dashes="5 3")
    yield line(axis.left, top, axis.left, bottom, INK)


def _runs(points: Iterable[BandPoint], known: Callable[[BandPoint], bool]) -> Iterator[list[BandPoint]]:
    """The points without a gap between them, run by run."""
    return (list(run) for is_known, run in groupby(points, known) if is_known)


def _instant(at: datetime) -> int:
    return int(at.replace(tzinfo=UTC).timestamp() * 1e6)
