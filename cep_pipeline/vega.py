"""Charts by Vega-Lite, drawn by vl-convert: no browser, no network, and legible on white and on black."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from cep_pipeline.foreign_text import visible

Spec = Mapping[str, Any]
"""A part of a Vega-Lite specification, as JSON."""

INK, GRID = "#79818c", "#79818c"
"""Colours of text and axes, and of the grid, which is drawn faintly: legible on white and on black."""
PALETTE = ("#d1495b", "#2a9d5c", "#3b82d6", "#b7791f", "#8e6bbf", "#1f9aa5", "#c2569b", "#7d8a2e")
VERSION = "6.1"
_TEXT = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 12}
_CONFIG: Spec = {
    "font": "system-ui, sans-serif",
    "axis": {**_TEXT, "domainColor": INK, "tickColor": INK, "gridColor": GRID, "gridOpacity": 0.25, "title": None},
    "axisX": {"grid": False, "labelOverlap": True, "tickCount": 8},
    "axisY": {"tickCount": 4, "minExtent": 60},
    "axisQuantitative": {"format": ",.6~g"},
    "title": {"color": INK, "subtitleColor": INK, "anchor": "start", "fontSize": 12, "fontWeight": "normal"},
    "view": {"stroke": None},
    "mark": {"aria": False, "invalid": "break-paths-show-path-domains"},
}
_CLOCKS: Spec = {
    **dict.fromkeys(("hours", "minutes"), "%H:%M"),
    **dict.fromkeys(("date", "day", "week"), "%d %b"),
    "milliseconds": "%H:%M:%S.%L",
    "seconds": "%H:%M:%S",
    "month": "%b %Y",
    "quarter": "%b %Y",
    "year": "%Y",
}
"""How times stand at an axis, by the unit that divides it."""
_LABELLED = re.compile(r'<path aria-label="([^"]*)"([^>]*)/>')


def clock_ms(at: datetime) -> float:
    """The place of a clock's time on the axis of a chart (`time_axis`): a day and an hour, whatever the time zone."""
    return (at.replace(tzinfo=None) - datetime(1970, 1, 1)) / timedelta(milliseconds=1)


def time_axis(field: str, first_ms: float, last_ms: float) -> Spec:
    """The horizontal axis of times that are `clock_ms`, with a little room at both ends."""
    room = max((last_ms - first_ms) / 50, 0.001)
    domain = [first_ms - room, last_ms + room]
    scale = {"type": "utc", "domain": domain, "nice": False}
    return {"field": field, "type": "temporal", "scale": scale, "axis": {"format": _CLOCKS}}


def layer(values: Sequence[Spec], mark: Spec, **channels: Any) -> dict[str, Any]:
    """Marks of one kind; text in a channel stands for the field of that name, a quantity."""
    encoding = {
        name: {"field": one, "type": "quantitative"} if isinstance(one, str) else one for name, one in channels.items()
    }
    shown = [
        {name: visible(value) if isinstance(value, str) else value for name, value in one.items()} for one in values
    ]
    return {"data": {"values": shown}, "mark": mark, "encoding": encoding}


def rendered(spec: Spec, label: str) -> str:
    """Draw a chart as an `svg` element that shrinks to the room that it has; `description` of a mark is its tip."""
    import vl_convert

    document = {"background": None, "padding": 4, "config": _CONFIG, **spec}
    drawn: str = vl_convert.vegalite_to_svg(document, vl_version=VERSION)
    tipped = _LABELLED.sub(r"<path\2><title>\1</title></path>", drawn)
    head = f'<svg role="img" aria-label="{label}" style="max-width:100%;height:auto"'
    return tipped.replace("<svg", head, 1)


def png_of(drawing: str) -> bytes:
    """An `svg` element as the pixels of a PNG, on white, since not every viewer has a background."""
    import vl_convert

    head, _, rest = drawing.partition(">")
    return bytes(vl_convert.svg_to_png(f'{head}><rect width="100%" height="100%" fill="white"/>{rest}', scale=2))
