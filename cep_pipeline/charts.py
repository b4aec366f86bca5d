"""Charts by Vega-Lite, drawn by vl-convert: no browser, no network, and legible on white and on black.

The chart of a match stands at the end: its events marked on the series that they come from. Pages show it within their
text, notebooks show it, and commands write it to a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from cep_pipeline.errors import InputError
from cep_pipeline.events.timestamps import moved
from cep_pipeline.foreign_text import visible

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from cep_pipeline.patterns.pattern import Pattern

Spec = Mapping[str, Any]
"""A part of a Vega-Lite specification, as JSON."""

INK, GRID = "#79818c", "#79818c"
"""Colours of text and axes, and of the grid, which is drawn faintly: legible on white and on black."""
PALETTE = ("#d1495b", "#2a9d5c", "#3b82d6", "#b7791f", "#8e6bbf", "#1f9aa5", "#c2569b", "#7d8a2e")
VERSION = "6.1"
_TEXT = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"}
_CONFIG: Spec = {
    "font": "system-ui, sans-serif",
    "axis": {**_TEXT, "domainColor": INK, "tickColor": INK, "gridColor": GRID, "gridOpacity": 0.25, "title": None},
    "axisX": {"grid": False, "labelOverlap": "greedy", "labelSeparation": 8, "tickCount": 6},
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
    begin, end = first_ms - room, last_ms + room
    scale: dict[str, Any] = {"domain": [begin, end], "nice": False}
    if end - begin >= 60_000:
        return {"field": field, "type": "temporal", "scale": {**scale, "type": "utc"}, "axis": {"format": _CLOCKS}}
    # Of the ticks within a second Vega keeps one, since it tells times apart by their text: here they are numbers.
    sizes = (digit * 10.0**tens for tens in range(-3, 5) for digit in (1, 2, 5))
    step = next(size for size in sizes if end - begin <= 7 * size)
    values = [step * place for place in range(math.ceil(begin / step), math.floor(end / step) + 1)]
    clock = "%H:%M:%S" if step >= 1000 else "%H:%M:%S.%L"
    axis = {"values": values, "labelExpr": f"utcFormat(datum.value, '{clock}')"}
    return {"field": field, "type": "quantitative", "scale": {**scale, "zero": False}, "axis": axis}


def layer(values: Sequence[Spec], mark: Spec, **channels: Any) -> dict[str, Any]:
    """Marks of one kind for some rows; text in a channel stands for the field of that name, a quantity.

    Nothing is in the rows that a reader cannot see.
    """
    shown = [
        {name: visible(value) if isinstance(value, str) else value for name, value in one.items()} for one in values
    ]
    encoding = {
        name: {"field": one, "type": "quantitative"} if isinstance(one, str) else one for name, one in channels.items()
    }
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

    head, _, rest = drawing.replace(f'fill="{INK}"', 'fill="#333"').partition(">")
    return bytes(vl_convert.svg_to_png(f'{head}><rect width="100%" height="100%" fill="white"/>{rest}', scale=2))


WIDTH, PANEL_HEIGHT, STRIP_HEIGHT = 780, 170, 50
"""The size of one panel in pixels, and the height of a strip that shows what lies around a short match."""
SHORT = 5
"""A match that takes less than this part of the times that are drawn is also drawn alone."""
MOST_PANELS = 8
"""Series that are drawn below each other; of a match with more of them the first ones are."""
MOST_LABELS = 40
"""Places of bound events that are named in one panel; the others are marked without a name."""
MOST_EVENTS = 2 * WIDTH
"""Events that a match is drawn on; of more, those of the match and as many others, evenly spread."""
CHART_ENDINGS = (".html", ".svg", ".png")
SERIES_COLOUR = PALETTE[2]
MARK_COLOURS = (PALETTE[0], PALETTE[1], *PALETTE[3:])
"""Colours of variables: never that of the series."""


@dataclass(frozen=True)
class MatchSeries:
    """The series on which a match is drawn: a column of numbers, and the columns that tell series `apart`."""

    attribute: str
    apart: tuple[str, ...]

    @classmethod
    def of(
        cls, events: pa.Schema, pattern: Pattern | None, attribute: str | None = None, type_attribute: str | None = None
    ) -> MatchSeries:
        """Choose the series of a match from the columns of its events.

        The pattern says what the events of a match have in common. Without `attribute` the first one of numbers is
        drawn that the pattern reads and that may differ between the events of a match, rather one of float64 than one
        of int64. `type_attribute` is needed where the pattern is not known. An attribute that has no numbers is an
        InputError.
        """
        import pyarrow as pa

        from cep_pipeline.slices.events_input import columns_of

        kinds = {field.name: field.type for field in events if field.name not in ("timestamp", "seq", "day")}
        numbers = [name for name, kind in kinds.items() if _is_number(kind)]
        equal = () if pattern is None else tuple(dict.fromkeys(n for one in pattern.clauses for n in one.agree_on))
        read = [] if pattern is None else [name for name in columns_of(pattern) if name in numbers]
        read.sort(key=lambda name: not pa.types.is_floating(kinds[name]))
        wanted = [attribute] if attribute else [*(name for name in read if name not in equal), *read, *numbers]
        if not wanted or wanted[0] not in numbers:
            raise InputError(
                f"a match is drawn over an attribute of numbers, {repr(attribute) + ' is none' if attribute else ''}; "
                f"the events have: {', '.join(numbers) or 'none'}"
            )
        if pattern is None:
            return cls(wanted[0], (type_attribute,) if type_attribute in kinds else ())  # type: ignore[arg-type]
        keys = [name for name in equal if name in kinds and name != wanted[0] and not pa.types.is_floating(kinds[name])]
        apart = [name for name in keys if name not in numbers] or keys
        if not apart or all(pattern.base_type not in operand.types for operand in pattern.operands):
            apart = [pattern.type_attribute, *apart]
        return cls(wanted[0], tuple(dict.fromkeys(name for name in apart if name in kinds)))

    @property
    def columns(self) -> list[str]:
        """The columns that the chart reads."""
        return [*dict.fromkeys(("timestamp", "seq", *self.apart, self.attribute))]

    def near(self, match: Mapping[str, Any], bound: pa.Table) -> tuple[datetime, datetime, pc.Expression]:
        """Return the times between which events are drawn beside a match, and the condition for these events.

        `bound` are the events of the match, with the columns that tell series apart.
        """
        import pyarrow.compute as pc

        room = max((match["end_ts"] - match["start_ts"]) / 2, timedelta(seconds=1))
        first, last = moved(match["start_ts"], -room), moved(match["end_ts"], room)
        chosen = (pc.field("timestamp") >= first) & (pc.field("timestamp") <= last)
        for name in self.apart:
            chosen &= pc.field(name).isin(pc.unique(bound[name]))
        return first, last, chosen


@dataclass(frozen=True)
class Drawing:
    """A drawing, which a notebook shows and which `save` writes to a file.

    Attributes
    ----------
    svg
        The drawing as an `svg` element.
    title
        The title of the page that `save` makes of it.
    """

    svg: str
    title: str = ""

    def _repr_html_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the drawing to a file, in the format that its ending names: .html, .svg or .png.

        Raises
        ------
        InputError
            The file has another ending.
        """
        path = Path(path)
        check_chart_file(path)
        if path.suffix == ".svg":
            path.write_text(self.svg, encoding="utf-8")
        elif path.suffix == ".html":
            page = f'<!doctype html>\n<meta charset="utf-8">\n<title>{quoted(self.title)}</title>\n'
            style = "<style>:root { color-scheme: light dark }</style>\n"
            path.write_text(f"{page}{style}{self.svg}\n", encoding="utf-8")
        else:
            path.write_bytes(png_of(self.svg))


def check_chart_file(path: Path) -> None:
    """Refuse a file in which no drawing can be saved: an InputError."""
    if path.suffix not in CHART_ENDINGS:
        raise InputError(f"{path}: a chart of a match is a page or a picture: name it .html, .svg or .png")


def draw_match(
    match: Mapping[str, Any], events: pa.Table, series: MatchSeries, pattern: Pattern | None, timezone: str = "UTC"
) -> Drawing:
    """Draw a match on the events beside it, those for which `series.near` holds, in order of time.

    All values of the columns `series.apart` together that have an event of the match get a panel of their own. The end
    of the pattern's window, from the first event of the match on, is drawn where it is known and lies among the events.

    Examples
    --------
    >>> import pyarrow as pa
    >>> events = pa.table({
    ...     "timestamp": pa.array([0, 1_000_000, 2_000_000], pa.timestamp("us", tz="UTC")),
    ...     "seq": [0, 1, 2],
    ...     "price": [3.0, 2.5, 4.0],
    ... })
    >>> bindings = [{"variable": "a", "seq": 0}, {"variable": "b", "seq": 2}]
    >>> match = {"pattern": "v_reversal", "match_id": "1f8a", "bindings": bindings}
    >>> drawing = draw_match(match, events, MatchSeries("price", ()), None)
    >>> drawing.svg.startswith("<svg"), drawing.svg.count("<title>")
    (True, 2)
    """
    zone = ZoneInfo(timezone)
    line, marks = _rows_of(events, match["bindings"], series, zone)
    inside = [one["at"] for one in marks] or [0.0]
    first, last = min(inside), max(inside)
    begin, end = min([first, *(one["at"] for one in line)]), max([last, *(one["at"] for one in line)])
    short = last - first < (end - begin) / SHORT
    room = max((last - first) / 2, (end - begin) / 500)
    shown = (first - room, last + room) if short else (begin, end)
    window_us = None if pattern is None else pattern.window.time_us
    over = None if window_us is None else first + window_us / 1000
    order = list(dict.fromkeys(visible(one["variable"]) for one in match["bindings"]))
    colours = [MARK_COLOURS[number % len(MARK_COLOURS)] for number in range(len(order))]
    colour = {"field": "variable", "type": "nominal", "legend": None, "scale": {"domain": order, "range": colours}}
    view = partial(_view, span=(first, last, over), colour=colour, zone=zone)
    views = []
    for panel in dict.fromkeys(one["series"] for one in marks):
        own, bound = [one for one in line if one["series"] == panel], [one for one in marks if one["series"] == panel]
        views.append(view(visible(panel), own, bound, shown))
        if short:
            views.append(view("the match, shaded, and what lies around it", own, [], (begin, end)))
    spec = {
        "title": {"text": visible(match["pattern"]), "fontSize": 13, "fontWeight": "bold"},
        "vconcat": views or [view("", [], [], shown)],
        "spacing": 12,
    }
    return Drawing(rendered(spec, quoted(match["pattern"])), f"{match['pattern']} {match['match_id']}")


def _view(
    title: str,
    line: Sequence[Spec],
    marks: Sequence[Spec],
    shown: tuple[float, float],
    span: tuple[float, float, float | None],
    colour: Spec,
    zone: ZoneInfo,
) -> dict[str, Any]:
    """One series between two times, with the marks of the match.

    `span` is the first and the last time of the match, and the end of its window. A view without marks is a strip
    that shows where the match is.
    """
    height = PANEL_HEIGHT if marks else STRIP_HEIGHT
    before = max((one["at"] for one in line if one["at"] < shown[0]), default=shown[0])
    near = [{**one, "at": max(one["at"], shown[0])} for one in line if before <= one["at"] <= shown[1]]
    values = [one["y"] for one in (*near, *marks)] or [0.0]
    low, high = min(values), max(values)
    room = (high - low) * 0.15 or abs(high) / 1000 or 1.0
    axis = time_axis("at", *shown)
    left, right = axis["scale"]["domain"]
    days = [f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d}" for ms in shown]
    axis["axis"]["title"] = f"{' to '.join(dict.fromkeys(days))}, {zone.key}" if marks else None
    scale = {"domain": [low - room, high + room], "nice": False, "zero": False}
    y = {"field": "y", "type": "quantitative", "scale": scale, "axis": {} if marks else {"tickCount": 2}}
    placed = _named_apart(marks, (left, right), (low - room, high + room))
    tip, names = ({"field": name, "type": "nominal"} for name in ("tip", "names"))
    series = {"type": "line", "color": SERIES_COLOUR, "strokeWidth": 1.2, "interpolate": "step-after"}
    point = {"type": "point", "filled": True, "size": 70, "opacity": 1, "stroke": "white", "aria": True}
    text = {"type": "text", "fontSize": 12, "fontWeight": "bold"}
    inside = [{"at": span[0], "to": span[1]}]
    stroke = {"type": "rect", "color": SERIES_COLOUR, "opacity": 0.1 if marks else 0.3, "stroke": SERIES_COLOUR}
    layers = [layer(inside, stroke, x=axis, x2={"field": "to"}), layer(near, series, x=axis, y=y)]
    if span[2] is not None and span[2] <= shown[1]:
        layers.append(layer([{"at": span[2]}], {"type": "rule", "color": INK, "strokeDash": [5, 3]}, x=axis))
    if marks:
        layers.append(layer(marks, point, x=axis, y=y, color=colour, description=tip))
        layers.append(layer(placed, text, x=axis, y=y, color=colour, text=names))
    return {"title": {"text": title, "offset": 4}, "width": WIDTH, "height": height, "layer": layers}


def _named_apart(marks: Sequence[Spec], across: tuple[float, float], up: tuple[float, float]) -> list[dict[str, Any]]:
    """The names of marks, each at a height near its mark where it covers no mark and no other name."""
    per_x, per_y = WIDTH / (across[1] - across[0]), PANEL_HEIGHT / (up[1] - up[0])
    spots = [((one["at"] - across[0]) * per_x, (up[1] - one["y"]) * per_y) for one in marks]
    taken = [(x, y, 4.0, 4.0) for x, y in spots]
    placed = []
    for one, (x, y) in zip(marks, spots, strict=True):
        wide = 4 * len(one["names"])
        heights = [y + away for step in range(8) for away in (-13 - 13 * step, 14 + 13 * step)]
        free = (
            at
            for at in heights
            if 6 <= at <= PANEL_HEIGHT - 6
            and all(abs(x - x2) >= wide + wide2 or abs(at - y2) >= 6 + high2 for x2, y2, wide2, high2 in taken)
        )
        if one["names"]:
            taken.append((x, at := next(free, heights[0]), float(wide), 6.0))
            placed.append({**one, "y": up[1] - at / per_y})
    return placed


def _rows_of(
    events: pa.Table, bound: Sequence[Mapping[str, Any]], series: MatchSeries, zone: ZoneInfo
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The events of the series that have one of the match, and those of the match, which have a tip."""
    import pyarrow as pa

    events = _thinned(events, [one["seq"] for one in bound])
    instants = events["timestamp"].cast(pa.int64()).to_pylist()
    values = [None if value != value else value for value in events[series.attribute].cast(pa.float64()).to_pylist()]
    columns = zip(*(events[name].to_pylist() for name in (*series.apart, "seq")), strict=True)
    keys = [" ".join(str(one) for one in told if one is not None) for *told, _ in columns]
    rows = {seq: row for row, seq in enumerate(events["seq"].to_pylist())}
    marked = [(one["variable"], rows[one["seq"]]) for one in bound if one["seq"] in rows]
    panels = list(dict.fromkeys(keys[row] for _, row in marked))[:MOST_PANELS]
    # One offset for the whole chart, so that a clock that is set back does not turn the line around.
    begin = datetime.fromtimestamp(min(instants, default=0) // 1_000_000, zone)
    shift_ms = (begin.utcoffset() or timedelta(0)) / timedelta(milliseconds=1)
    all_rows = [
        {"series": f"{key} {series.attribute}".strip(), "at": instant / 1000 + shift_ms, "y": value}
        for key, instant, value in zip(keys, instants, values, strict=True)
    ]
    line = [one for one, key in zip(all_rows, keys, strict=True) if key in panels and one["y"] is not None]
    marks = []
    at_once: dict[int, list[str]] = {}
    for variable, row in marked:
        if keys[row] in panels:
            at_once.setdefault(row, []).append(variable)
            seconds, micros = divmod(instants[row], 1_000_000)
            clock = datetime.fromtimestamp(seconds, zone).replace(tzinfo=None, microsecond=micros).isoformat(sep=" ")
            value = "none" if values[row] is None else f"{values[row]:,.6g}"
            tip = f"{variable}: {series.attribute} {value}, {clock}"
            lowest = min((one["y"] for one in line if one["series"] == all_rows[row]["series"]), default=0.0)
            height = lowest if values[row] is None else values[row]
            marks.append({**all_rows[row], "y": height, "variable": variable, "tip": tip, "row": row})
    for number, one in enumerate(marks):
        names = at_once.pop(one.pop("row"), []) if number < MOST_LABELS else []
        one["names"] = ", ".join(names)
    return line, marks


def _thinned(events: pa.Table, kept: Sequence[int]) -> pa.Table:
    """Return at most `MOST_EVENTS`, evenly spread, and besides those of some seqs."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if events.num_rows <= MOST_EVENTS:
        return events
    marked = np.flatnonzero(pc.is_in(events["seq"], pa.array(kept, pa.int64())).to_numpy())
    return events.take(np.union1d(marked, np.linspace(0, events.num_rows - 1, MOST_EVENTS).astype(np.int64)))


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def quoted(text: str) -> str:
    """Write text so that it is text in an element and in an attribute, with nothing in it that a reader cannot see."""
    return escape(visible(text))
