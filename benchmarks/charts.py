"""Charts as SVG, small, and readable on light and on dark pages: no background, and colours of middle lightness."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import altair as alt

from cep_pipeline.charts import GRID, INK, PALETTE

Row = Mapping[str, str | int | float | bool | None]
"""The data of one mark of a chart: field -> value."""


@dataclass(frozen=True)
class Axis:
    """A quantity of the rows: its field, its title with the unit, and whether it is drawn on a logarithmic scale."""

    field: str
    title: str
    log: bool = False

    def values(self, rows: Sequence[Row]) -> list[float]:
        """Its values in rows that all have one; of none there is 1."""
        return [cast(float, row[self.field]) for row in rows] or [1.0]

    def encoded(self, channel: type[Any], rows: Sequence[Row]) -> Any:
        """The quantity as a channel of a chart that shows these rows."""
        if not self.log:
            return channel(f"{self.field}:Q", title=self.title, axis=alt.Axis(tickCount=6, format="~s"))
        values = self.values(rows)
        powers = [10.0**power for power in range(_power_below(min(values)), math.ceil(math.log10(max(values))) + 1)]
        axis = alt.Axis(values=powers, format="~g" if max(values) <= 1 else "~s")
        return channel(f"{self.field}:Q", title=self.title, axis=axis, scale=alt.Scale(type="log", nice=False))


@dataclass(frozen=True)
class Style:
    """The look of one series: its colour, and a dashed line or a full one."""

    color: str
    dashed: bool = False


Styles = Mapping[str, Style] | None
HEIGHT = 240
"""The height of a panel, in pixels."""


def line_chart(
    rows: Sequence[Row],
    x: Axis,
    y: Axis,
    series: str,
    *,
    styles: Styles = None,
    facet: str | None = None,
    points: bool = True,
    width: int = 300,
) -> str:
    """Draw lines over a quantity, one a series, and one panel a value of `facet`, as SVG.

    A row is a point; one without a value of `y` is left out, and so is what cannot stand on a logarithmic scale. The
    styles say how series are drawn, in the order of the legend; others are given the palette's colours. Panels are in
    the order in which their values come. The width is that of one panel, in pixels.
    """
    chart, color = _chart(rows, x, y, series, styles, facet, width, symbolType="stroke")
    names = color["sort"]
    dashed = {name for name, style in (styles or {}).items() if style.dashed}
    dashes = alt.Scale(domain=names, range=[[5, 3] if name in dashed else [1, 0] for name in names])
    dash = alt.StrokeDash(f"{series}:N", sort=names, legend=color["legend"], scale=dashes)
    line = chart.mark_line(point=alt.OverlayMarkDef(size=28) if points else False, strokeWidth=2)
    return _rendered(line.encode(strokeDash=dash))


def scatter_chart(rows: Sequence[Row], x: Axis, y: Axis, series: str, *, facet: str | None = None) -> str:
    """Points that belong to no line; otherwise as `line_chart`."""
    chart, _ = _chart(rows, x, y, series, None, facet, 300)
    return _rendered(chart.mark_circle(size=18, opacity=0.6))


def _chart(
    rows: Sequence[Row], x: Axis, y: Axis, series: str, styles: Styles, facet: str | None, width: int, **legend: Any
) -> tuple[Any, Any]:
    """A chart of two quantities without marks, and the channel of its colours."""
    shown = _shown(rows, x, y)
    color = _colors(shown, series, styles, **legend)
    fields = {x.field, y.field, series, *([facet] if facet else [])}
    data = alt.Data(values=[{name: row[name] for name in fields} for row in shown])
    chart: Any = alt.Chart(data, width=width, height=HEIGHT).encode(
        x=x.encoded(alt.X, shown), y=y.encoded(alt.Y, shown), color=color
    )
    if facet is not None:
        panels = [str(value) for value in dict.fromkeys(row[facet] for row in shown)]
        header = alt.Header(title=None, labelColor=INK, labelFontSize=13)
        chart = chart.encode(facet=alt.Facet(f"{facet}:N", sort=panels, columns=3, header=header))
    return chart, color


def _shown(rows: Sequence[Row], *axes: Axis) -> list[Row]:
    """The rows that have a place on all axes."""
    return [
        row
        for row in rows
        if all(isinstance(value := row.get(one.field), int | float) and (not one.log or value > 0) for one in axes)
    ]


def _colors(rows: Sequence[Row], series: str, styles: Styles, **legend: Any) -> Any:
    """The colour of each series, those with a style first, and the legend below the chart."""
    given = styles if styles is not None else {}
    names = [str(name) for name in dict.fromkeys(row[series] for row in rows)]
    names = [name for name in given if name in names] + [name for name in names if name not in given]
    colors = [given.get(name, Style(PALETTE[place % len(PALETTE)])).color for place, name in enumerate(names)]
    return alt.Color(
        f"{series}:N",
        sort=names,
        legend=alt.Legend(title=None, orient="bottom", columns=4, **legend),
        scale=alt.Scale(domain=names, range=colors),
    )


def bar_chart(
    rows: Sequence[Row], group: Axis, y: Axis, series: str, *, styles: Styles = None, width: int = 520
) -> str:
    """Bars side by side: a group for each value of `group.field`, a bar for each series in it."""
    shown = _shown(rows, y)
    color = _colors(shown, series, styles)
    groups = [str(value) for value in dict.fromkeys(row[group.field] for row in shown)]
    # On a logarithmic scale bars begin a little below the power of ten under the lowest, so that all can be seen.
    floor = 0.5 * 10.0 ** _power_below(min(y.values(shown))) if y.log else 0.0
    data = alt.Data(values=[{**row, "floor": floor} for row in shown])
    chart: Any = alt.Chart(data, width=width, height=HEIGHT).mark_bar()
    return _rendered(
        chart.encode(
            x=alt.X(f"{group.field}:N", title=group.title, sort=groups, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset(f"{series}:N", sort=color["sort"]),
            y=y.encoded(alt.Y, shown),
            y2=alt.Y2("floor:Q"),
            color=color,
        )
    )


def _rendered(chart: Any) -> str:
    """A chart in the house's colours, as SVG."""
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    lines = {"domainColor": INK, "tickColor": INK, "gridColor": GRID, "gridOpacity": 0.25}
    configured = (
        chart.configure(background="transparent", font="sans-serif", padding=8)
        .configure_view(stroke=None)
        .configure_axis(**text, **lines)
        .configure_legend(labelColor=INK, labelFontSize=12, symbolStrokeWidth=2, labelLimit=300)
    )
    rendered = io.StringIO()
    configured.save(rendered, format="svg")
    return rendered.getvalue()


def _power_below(value: float) -> int:
    """Power of ten at or below a value."""
    return math.floor(math.log10(value))
