"""Charts of a match: its events marked on the series that they come from.

Pages show it within their text, notebooks show it, and commands write it to a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from cep_pipeline.errors import InputError
from cep_pipeline.events.timestamps import moved
from cep_pipeline.foreign_text import visible
from cep_pipeline.vega import INK, PALETTE, Spec, layer, png_of, rendered, time_axis

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from cep_pipeline.patterns.pattern import Pattern

WIDTH, PANEL_HEIGHT = 780, 170
"""The size of one panel in pixels."""
MOST_PANELS = 8
"""Series that are drawn below each other; of a match with more of them the first ones are."""
MOST_LABELS = 40
"""Places of bound events that are named in one panel; the others are marked without a name."""
MOST_EVENTS = 4 * WIDTH
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

    The window of the pattern is drawn, where it is known.
    """
    bound = [(one["variable"], one["seq"]) for one in match["bindings"]]
    drawing = match_chart(
        events,
        bound,
        series.attribute,
        timezone=timezone,
        series=series.apart,
        window_us=None if pattern is None else pattern.window.time_us,
        title=match["pattern"],
    )
    return Drawing(drawing, f"{match['pattern']} {match['match_id']}")


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


def match_chart(
    events: pa.Table,
    bound: Sequence[tuple[str, int]],
    attribute: str,
    *,
    timezone: str = "UTC",
    series: Sequence[str] = (),
    window_us: int | None = None,
    title: str = "",
) -> str:
    """Draw the events of a match over the values of an attribute, as an `svg` element.

    The events of the match and of its surroundings are in order of time: `timestamp` (microseconds, UTC), `seq`, the
    attribute, and the columns that tell series apart. `bound` has variable and seq of each event of the match. Of the
    columns `series`, such as the event type, all values together that have an event of the match get a panel of their
    own; None: all events are one series. The window is drawn from the first event of the match on. A column that is
    missing, or an attribute without numbers, is an InputError.

    Examples
    --------
    >>> import pyarrow as pa
    >>> events = pa.table({
    ...     "timestamp": pa.array([0, 1_000_000, 2_000_000], pa.timestamp("us", tz="UTC")),
    ...     "seq": [0, 1, 2],
    ...     "price": [3.0, 2.5, 4.0],
    ... })
    >>> drawing = match_chart(events, [("a", 0), ("b", 2)], "price", title="v_reversal")
    >>> drawing.startswith("<svg"), drawing.count("<title>")
    (True, 2)
    """
    for name in ("timestamp", "seq", attribute, *series):
        if name not in events.column_names:
            raise InputError(f"a match cannot be drawn: its events have no column {name!r}")
    kind = events.schema.field(attribute).type
    if not _is_number(kind):
        raise InputError(f"a match is drawn over an attribute of numbers; {attribute!r} is of type {kind}")
    panels = _panels(_thinned(events, [seq for _, seq in bound]), bound, attribute, series)
    zone = ZoneInfo(timezone)
    instants = [at for panel in panels for at in (*panel.at[:1], *panel.at[-1:], *(one.at for one in panel.marks))]
    # One offset for the whole chart, so that a clock that is set back does not turn the line around.
    begin = datetime.fromtimestamp(min(instants, default=0) // 1_000_000, zone)
    shift_ms = (begin.utcoffset() or timedelta(0)) / timedelta(milliseconds=1)

    def place(at_us: float) -> float:
        return at_us / 1000 + shift_ms

    axis = time_axis("at", place(min(instants, default=0)), place(max(instants, default=0)))
    marks = [one.at for panel in panels for one in panel.marks] or [0]
    span = [{"at": place(min(marks)), "to": place(max(marks))}]
    shared = [layer(span, {"type": "rect", "color": SERIES_COLOUR, "opacity": 0.1}, x=axis, x2={"field": "to"})]
    if window_us is not None and min(marks) + window_us <= max(instants, default=0):
        end = [{"at": place(min(marks) + window_us)}]
        shared.append(layer(end, {"type": "rule", "color": INK, "strokeDash": [5, 3]}, x=axis))
    order = list(dict.fromkeys(visible(variable) for variable, _ in bound))
    colours = [MARK_COLOURS[number % len(MARK_COLOURS)] for number in range(len(order))]
    colour = {"field": "variable", "type": "nominal", "legend": None, "scale": {"domain": order, "range": colours}}
    drawn = [
        {
            "title": visible(f"{panel.name} {attribute}".strip()),
            "width": WIDTH,
            "height": PANEL_HEIGHT,
            "layer": [*shared, *_layers(panel, attribute, axis, place, colour, zone)],
        }
        for panel in panels
    ]
    heading = {"title": {"text": visible(title), "fontSize": 13, "fontWeight": "bold"}} if title else {}
    return rendered({**heading, "vconcat": drawn, "spacing": 12}, quoted(title or "a match on its series"))


@dataclass(frozen=True)
class _Mark:
    """An event of the match: its variable, its instant in microseconds, and its value."""

    variable: str
    at: int
    value: float | None


@dataclass(frozen=True)
class _Panel:
    """One series: instants and values of its events, and its events of the match."""

    name: str
    at: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]
    marks: Sequence[_Mark]


def _panels(events: pa.Table, bound: Sequence[tuple[str, int]], attribute: str, series: Sequence[str]) -> list[_Panel]:
    import numpy as np
    import pyarrow as pa

    at = np.asarray(events.column("timestamp").cast(pa.int64()).to_numpy())
    values = np.asarray(events.column(attribute).cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=float)
    parts = zip(*(events.column(name).to_pylist() for name in series), strict=True)
    names = [" ".join(str(one) for one in values if one is not None) for values in parts] or [""] * len(at)
    rows = {int(seq): row for row, seq in enumerate(events.column("seq").to_pylist())}
    marks: dict[str, list[_Mark]] = {}
    for variable, seq in bound:
        if (row := rows.get(seq)) is not None:
            value = None if math.isnan(values[row]) else float(values[row])
            marks.setdefault(names[row], []).append(_Mark(variable, int(at[row]), value))
    labels = np.array(names, dtype=object)
    panels = []
    for name in list(marks)[:MOST_PANELS] or [""]:
        own = (labels == name) & ~np.isnan(values)
        panels.append(_Panel(name, at[own], values[own], marks.get(name, [])))
    return panels


def _layers(
    panel: _Panel, attribute: str, axis: Spec, place: Callable[[float], float], colour: Spec, zone: ZoneInfo
) -> Iterator[dict[str, Any]]:
    """The line of a series, the events of the match on it, and the names of their variables."""
    y = {"field": "y", "type": "quantitative", "scale": {"zero": False}}
    line = [{"at": place(at), "y": float(value)} for at, value in zip(panel.at, panel.values, strict=True)]
    yield layer(line, {"type": "line", "color": SERIES_COLOUR, "strokeWidth": 1.2}, x=axis, y=y)
    lowest = float(min(panel.values, default=0.0))
    marks, named = list[Spec](), dict[tuple[float, float], list[str]]()
    for mark in panel.marks:
        known = lowest if mark.value is None else mark.value
        seconds, micros = divmod(mark.at, 1_000_000)
        clock = datetime.fromtimestamp(seconds, zone).replace(tzinfo=None, microsecond=micros).isoformat(sep=" ")
        value = "none" if mark.value is None else f"{mark.value:,.6g}"
        marks.append(
            {
                "at": place(mark.at),
                "y": known,
                "variable": mark.variable,
                "tip": f"{mark.variable}: {attribute} {value}, {clock}",
            }
        )
        named.setdefault((place(mark.at), known), []).append(mark.variable)
    tip = {"field": "tip", "type": "nominal"}
    point = {"type": "point", "filled": True, "size": 70, "opacity": 1, "stroke": "white", "aria": True}
    yield layer(marks, point, x=axis, y=y, color=colour, description=tip)
    names = [
        {"at": at, "y": value, "variable": variables[0], "names": ", ".join(variables)}
        for (at, value), variables in list(named.items())[:MOST_LABELS]
    ]
    text = {"type": "text", "dy": -11, "fontSize": 12, "fontWeight": "bold"}
    yield layer(names, text, x=axis, y=y, color=colour, text={"field": "names", "type": "nominal"})


def quoted(text: str) -> str:
    """Write text so that it is text in an element and in an attribute, with nothing in it that a reader cannot see."""
    return escape(visible(text))
