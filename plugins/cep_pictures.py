"""Drawings of the pages, each an SVG: charts by Vega-Lite, and by hand the days of a stream."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from cep_pipeline.charts import GRID, INK, PALETTE, clock_ms, layer, quoted, rendered, time_axis
from cep_pipeline.warehouse.records import RunStep

RED, GREEN, BLUE, AMBER, VIOLET = PALETTE[:5]
STATES: Mapping[str, tuple[str, str]] = {
    "published": (GREEN, "all is published and fits its inputs"),
    "waiting": (BLUE, "matches wait for events of later days"),
    "limited": (VIOLET, "a pattern reached a limit, so its matches are not published"),
    "stale": (AMBER, "an input has changed since the day was published"),
    "failed": (RED, "the latest run of the day has failed"),
    "running": (PALETTE[5], "a run is at it"),
    "nothing": (GRID, "nothing is published"),
}
"""State of a day -> its colour and meaning."""
CELL = 20


@dataclass(frozen=True)
class DayCell:
    """A day of the calendar: its state, the sentence that explains it, and the page that it leads to ("" for none)."""

    day: date
    state: str
    says: str
    link: str


def year_of_days(cells: Sequence[DayCell]) -> str:
    """Draw the days of one year as squares, a row for each month that has some; each leads to its run."""
    parts, left = [], 40
    months = sorted({cell.day.month for cell in cells})
    for row, month in enumerate(months):
        parts.append(text_at(0, row * CELL + 14, f"{date(2000, month, 1):%b}", size=11))
        own = {cell.day.day: cell for cell in cells if cell.day.month == month}
        for number in range(1, monthrange(cells[0].day.year, month)[1] + 1):
            x, y, cell = left + (number - 1) * CELL, row * CELL, own.get(number)
            colour, opacity = (STATES["nothing"][0], 0.2) if cell is None else (STATES[cell.state][0], 1)
            says = "" if cell is None else f"<title>{quoted(f'{cell.day}: {cell.says}')}</title>"
            square = (
                f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 3}" height="{CELL - 3}" rx="3" fill="{colour}" '
                f'fill-opacity="{opacity}">{says}</rect>'
            )
            if cell is not None and cell.state != "published":
                letter = cell.state[0].upper()
                square += text_at(
                    x + CELL / 2 - 0.5, y + 14, letter, anchor="middle", size=11, weight="bold", fill="white"
                )
            parts.append(f'<a href="{quoted(cell.link)}">{square}</a>' if cell is not None and cell.link else square)
    bottom = len(months) * CELL
    parts += [text_at(left + (day - 1) * CELL + 3, bottom + 12, str(day), size=10) for day in (1, 8, 15, 22, 29)]
    return svg(left + 31 * CELL, bottom + 16, parts, f"the days of {cells[0].day.year} that the stream has")


def steps_chart(steps: Sequence[RunStep]) -> str:
    """Draw the steps of a run one after the other on a line of seconds."""
    rows, begun = list[dict[str, Any]](), 0.0
    for step in steps:
        counts = ", ".join(f"{name} {number:,}" for name, number in step.counts.items())
        seconds = f"{step.seconds:.1f} s"
        tip = f"{step.name}: {seconds} {counts}"
        rows.append({"step": step.name, "from": begun, "to": begun + step.seconds, "seconds": seconds, "tip": tip})
        begun += step.seconds
    y = {"field": "step", "type": "nominal", "sort": None}
    bar = {"type": "bar", "color": BLUE, "aria": True, "cornerRadius": 2}
    tips = {"field": "tip", "type": "nominal"}
    label = {"type": "text", "align": "left", "dx": 4, "color": INK}
    layers = [
        layer(rows, bar, x="from", x2={"field": "to"}, y=y, description=tips),
        layer(rows, label, x="to", y=y, text={"field": "seconds", "type": "nominal"}),
    ]
    spec = {"width": 700, "height": {"step": 24}, "layer": layers}
    return rendered(spec, "the steps of the run on a line of seconds")


def histogram(edges_us: Sequence[int], counts: Sequence[int], timezone: str) -> str:
    """Draw how many there were between instants."""
    clocks = [datetime.fromtimestamp(one / 1e6, ZoneInfo(timezone)).replace(tzinfo=None) for one in edges_us]
    rows = [
        {"at": clock_ms(begin), "to": clock_ms(end), "count": count, "tip": f"{count:,} from {begin} on"}
        for begin, end, count in zip(clocks, clocks[1:], counts, strict=False)
        if count
    ]
    axis = time_axis("at", clock_ms(clocks[0]), clock_ms(clocks[-1]))
    bar = {"type": "rect", "color": BLUE, "aria": True}
    tips = {"field": "tip", "type": "nominal"}
    bars = layer(rows, bar, x=axis, x2={"field": "to"}, y="count", y2={"datum": 0}, description=tips)
    return rendered({"width": 780, "height": 110, **bars}, "matches over the time of their last event")


def count_line(counts: Sequence[int]) -> str:
    """Draw numbers of matches day by day as a small line."""
    most = max([*counts, 1])

    def y(value: float) -> float:
        return 24 - value / most * 22

    step = 150 / max(len(counts) - 1, 1)
    way = " ".join(f"{5 + place * step:.1f},{y(count):.1f}" for place, count in enumerate(counts))
    last = 5 + (len(counts) - 1) * step
    parts = [
        f'<polyline points="{way}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>',
        f'<circle cx="{last:.1f}" cy="{y(counts[-1]):.1f}" r="3" fill="{BLUE}"/>',
    ]
    return svg(160, 26, parts, "numbers of matches of the latest days")


def svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    """Make an `svg` element of parts; it shrinks to the room that it has."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{quoted(label)}" font-family="system-ui, sans-serif" '
        f'style="max-width:100%;height:auto">{"".join(parts)}</svg>'
    )


def text_at(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, weight: str = "normal", fill: str = INK
) -> str:
    """Make a `text` element; nothing of the text is read as markup."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{fill}">{quoted(text)}</text>'
    )
