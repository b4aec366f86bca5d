"""Charts of estimates over time: a panel a quantity, with a band of its bounds and what was reckoned with."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from cep_pipeline.foreign_text import visible
from cep_pipeline.vega import PALETTE, Spec, clock_ms, layer, png_of, rendered, time_axis

WIDTH, HEIGHT = 420, 110
"""The size of one panel in pixels."""
COLUMNS = 2
TITLE_CHARACTERS = 62
DOTTED = 100
"""The points of a panel with more of them are a line only."""
HALF_A_DAY_MS = 43_200_000


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
    times = [clock_ms(point.at) for panel in panels for point in panel.points]
    first, last = min(times, default=0.0), max(times, default=0.0)
    if first == last:  # of one instant the hours around it
        first, last = first - HALF_A_DAY_MS, last + HALF_A_DAY_MS
    axis = time_axis("at", first, last)
    note = level_title if any(panel.level is not None for panel in panels) else ""
    heading = {"title": visible(f"dashed: {note}")} if note else {}
    spec = {**heading, "columns": COLUMNS, "concat": [_panel(panel, axis) for panel in panels], "spacing": 12}
    drawing = rendered(spec, "estimates over time with their bounds")
    return drawing.encode() if format == "svg" else png_of(drawing)


def _panel(panel: BandPanel, axis: Spec) -> dict[str, Any]:
    points = [{"at": clock_ms(one.at), "value": one.value, "low": one.low, "high": one.high} for one in panel.points]
    dots = len(points) <= DOTTED
    layers = [
        layer(points, {"type": "area", "color": PALETTE[2], "opacity": 0.3}, x=axis, y="low", y2={"field": "high"}),
        layer(points, {"type": "line", "color": PALETTE[2], "strokeWidth": 1.5}, x=axis, y="value"),
    ]
    if dots:
        layers.append(layer(points, {"type": "circle", "color": PALETTE[2], "size": 14}, x=axis, y="value"))
    if panel.level is not None:
        dashed = {"type": "rule", "color": PALETTE[0], "strokeDash": [5, 3]}
        layers.append(layer([{"level": panel.level}], dashed, y="level"))
    title = textwrap.wrap(visible(panel.title), TITLE_CHARACTERS) or [""]
    return {"title": title, "width": WIDTH, "height": HEIGHT, "layer": layers}
