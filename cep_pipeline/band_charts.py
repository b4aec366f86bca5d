"""Charts of estimates over time: a panel a quantity, with a band of its bounds and what was reckoned with."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from cep_pipeline.foreign_text import visible

INK, GRID = "#79818c", "#79818c"
"""Of text and axes, and of the grid, which is drawn faintly: legible on white and on black."""
PALETTE = ("#d1495b", "#2a9d5c", "#3b82d6", "#b7791f", "#8e6bbf", "#1f9aa5", "#c2569b", "#7d8a2e")
WIDTH, HEIGHT = 420, 110
"""Of one panel, in pixels."""
COLUMNS = 2
TITLE_CHARACTERS = 62


@dataclass(frozen=True)
class BandPoint:
    """A quantity at an instant.

    Attributes
    ----------
    at
        The instant, as the clocks of the stream's time zone show it.
    value, low, high
        The estimate, and the ends of the interval that it lies in; None where there is none, which breaks the line.
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

    Parameters
    ----------
    panels
        At least one; a panel without points stays empty.
    level_title
        What the dashed level is, said once above the panels.
    """
    import altair as alt

    first = min((point.at for panel in panels for point in panel.points), default=None)
    last = max((point.at for panel in panels for point in panel.points), default=None)
    span = last - first if first and last else timedelta()
    # Times are those of the stream's clocks: drawn as if they were UTC, they look alike on every machine.
    domain: Any = [_instant(first), _instant(last)] if first and last and span else alt.Undefined
    labels = "%H:%M" if span <= timedelta(days=1) else "%d %b %H:%M" if span < timedelta(days=4) else "%d %b"
    axis = alt.Axis(tickCount=6, format=labels, labelOverlap=True)
    x = alt.X("at:T", title=None, scale=alt.Scale(type="utc", domain=domain), axis=axis)
    charts = [_panel(panel, x) for panel in panels]
    rows = [alt.hconcat(*charts[place : place + COLUMNS]) for place in range(0, len(charts), COLUMNS)]
    note = f"dashed: {visible(level_title)}" if level_title and any(panel.level is not None for panel in panels) else ""
    title: Any = alt.TitleParams(note, color=INK, fontSize=12, fontWeight="normal", anchor="start")
    return drawn(alt.vconcat(*rows, title=title if note else alt.Undefined), format)


def _panel(panel: BandPanel, x: Any) -> Any:
    import altair as alt

    values = [
        {"at": _instant(point.at), "value": point.value, "low": point.low, "high": point.high} for point in panel.points
    ]
    base = alt.Chart(alt.Data(values=values), width=WIDTH, height=HEIGHT)
    y_axis = alt.Axis(tickCount=4, format=",.3~r")
    layers = [
        base.mark_area(color=PALETTE[2], opacity=0.3).encode(
            x=x, y=alt.Y("low:Q", title=None, axis=y_axis), y2=alt.Y2("high:Q")
        ),
        base.mark_rule(color=PALETTE[2], opacity=0.5).encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        base.mark_line(color=PALETTE[2], strokeWidth=1.5, point=alt.OverlayMarkDef(size=14, color=PALETTE[2])).encode(
            x=x, y=alt.Y("value:Q", title=None, axis=y_axis, scale=alt.Scale(zero=True))
        ),
    ]
    if panel.level is not None:
        level = alt.Chart(alt.Data(values=[{"level": panel.level}]), width=WIDTH, height=HEIGHT)
        layers.append(level.mark_rule(color=PALETTE[0], strokeDash=[5, 3]).encode(y=alt.Y("level:Q")))
    lines = textwrap.wrap(visible(panel.title), TITLE_CHARACTERS) or [""]
    title = alt.TitleParams(lines, color=INK, fontSize=11, fontWeight="normal", anchor="start")
    return alt.layer(*layers).properties(title=title)


def _instant(at: datetime) -> str:
    return f"{at.isoformat()}Z"


def drawn(chart: Any, format: Literal["svg", "png"] = "svg") -> bytes:
    """A chart in the house's colours, rendered; a PNG has a white background, which not every viewer has."""
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    lines = {"domainColor": INK, "tickColor": INK, "gridColor": GRID, "gridOpacity": 0.25}
    configured = (
        chart.configure(background="transparent" if format == "svg" else "white", font="sans-serif", padding=8)
        .configure_view(stroke=None)
        .configure_axis(**text, **lines)
        .configure_legend(labelColor=INK, labelFontSize=12, symbolStrokeWidth=2, labelLimit=300)
    )
    if format == "svg":
        rendered = io.StringIO()
        configured.save(rendered, format="svg")
        return rendered.getvalue().encode()
    pixels = io.BytesIO()
    configured.save(pixels, format="png", scale_factor=2)
    return pixels.getvalue()
