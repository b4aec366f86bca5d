"""Charts of a match: its events marked on the series that they come from, as an SVG or in characters.

The drawing needs no network, no script, no style sheet and no font of its own, and is legible on white and on black.
Pages show it within their text, notebooks show it, and commands write it to a file or to the terminal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from cep_pipeline.errors import InputError
from cep_pipeline.events.timestamps import moved
from cep_pipeline.foreign_text import visible

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from cep_pipeline.patterns.pattern import Pattern

INK, GRID = "#79818c", "#79818c"
"""Colours of text and axes, and of the grid, which is drawn faintly: legible on white and on black."""
PALETTE = ("#d1495b", "#2a9d5c", "#3b82d6", "#b7791f", "#8e6bbf", "#1f9aa5", "#c2569b", "#7d8a2e")
WIDTH, PANEL_HEIGHT = 860, 170
LEFT, RIGHT, TOP, BOTTOM = 70, 16, 30, 26
MOST_PANELS = 8
"""Series that are drawn below each other; of a match with more of them the first ones are."""
MOST_LABELS = 40
"""Bound events that are named in one panel; the others are marked without a name."""
MOST_EVENTS = 20_000
"""Events that a match is drawn on; of more, those of the match and as many others, evenly spread."""
CHART_ENDINGS = (".html", ".svg", ".png")
SERIES_COLOUR = PALETTE[2]
MARK_COLOURS = (PALETTE[0], PALETTE[1], *PALETTE[3:])
"""Colours of variables: never that of the series."""

_STEPS_US = tuple(
    int(seconds * 1_000_000)
    for seconds in (
        *(factor * 10.0**power for power in range(-6, 1) for factor in (1, 2, 5)),
        *(10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400),
    )
)


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
        thinned(events, [seq for _, seq in bound]),
        bound,
        series.attribute,
        timezone=timezone,
        series=series.apart,
        window_us=None if pattern is None else pattern.window.time_us,
        title=match["pattern"],
    )
    return Drawing(drawing, f"{match['pattern']} {match['match_id']}")


def thinned(events: pa.Table, kept: Sequence[int], most: int = MOST_EVENTS) -> pa.Table:
    """Return at most so many events, evenly spread, and besides those of some seqs."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if events.num_rows <= most:
        return events
    marked = np.flatnonzero(pc.is_in(events["seq"], pa.array(kept, pa.int64())).to_numpy())
    return events.take(np.union1d(marked, np.linspace(0, events.num_rows - 1, most).astype(np.int64)))


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
    >>> drawing.startswith("<svg"), drawing.count("<circle")
    (True, 2)
    """
    for name in ("timestamp", "seq", attribute, *series):
        if name not in events.column_names:
            raise InputError(f"a match cannot be drawn: its events have no column {name!r}")
    kind = events.schema.field(attribute).type
    if not _is_number(kind):
        raise InputError(f"a match is drawn over an attribute of numbers; {attribute!r} is of type {kind}")
    panels = _panels(events, bound, attribute, series)
    instants = [one for panel in panels if len(panel.at) for one in (panel.at[0], panel.at[-1])]
    marks = [at for panel in panels for _, at, _, _ in panel.marks]
    span = (min(marks, default=0), max(marks, default=0))
    axis = TimeAxis(
        int(min([*instants, *marks], default=0)),
        int(max([*instants, *marks], default=0)),
        LEFT,
        WIDTH - RIGHT,
        timezone,
    )
    order = list(dict.fromkeys(variable for variable, _ in bound))
    colours = {name: MARK_COLOURS[place % len(MARK_COLOURS)] for place, name in enumerate(order)}
    top = TOP + (14 if title else 0)
    height = top + len(panels) * (PANEL_HEIGHT + 26) + BOTTOM
    parts = [text_at(LEFT, 16, title, weight="bold")] if title else []
    for place, panel in enumerate(panels):
        parts += _drawn_panel(panel, top + place * (PANEL_HEIGHT + 26), axis, span, window_us, colours, attribute)
    parts += axis.drawn(height - BOTTOM)
    return svg(WIDTH, height, parts, title or "a match on the series of its events")


@dataclass(frozen=True)
class _Panel:
    """One series: instants and values of its events, and its events of the match (variable, instant, value, tip)."""

    name: str
    at: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]
    marks: Sequence[tuple[str, int, float | None, str]]


def _panels(events: pa.Table, bound: Sequence[tuple[str, int]], attribute: str, series: Sequence[str]) -> list[_Panel]:
    import numpy as np
    import pyarrow as pa

    at = np.asarray(events.column("timestamp").cast(pa.int64()).to_numpy())
    values = np.asarray(events.column(attribute).cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=float)
    seqs = np.asarray(events.column("seq").to_numpy())
    parts = zip(*(events.column(name).to_pylist() for name in series), strict=True)
    names = [" ".join(str(one) for one in values if one is not None) for values in parts] or [""] * len(seqs)
    rows = {int(seq): row for row, seq in enumerate(seqs)}
    marks: dict[str, list[tuple[str, int, float | None, str]]] = {}
    for variable, seq in bound:
        row = rows.get(seq)
        if row is not None:
            value = None if math.isnan(values[row]) else float(values[row])
            tip = f"{variable}: {attribute} {'none' if value is None else f'{value:,.6g}'}"
            marks.setdefault(names[row], []).append((variable, int(at[row]), value, tip))
    labels = np.array(names, dtype=object)
    panels = []
    for name in list(marks)[:MOST_PANELS] or [""]:
        own = (labels == name) & ~np.isnan(values)
        panels.append(_Panel(name, at[own], values[own], marks.get(name, [])))
    return panels


def _drawn_panel(
    panel: _Panel,
    top: float,
    axis: TimeAxis,
    span: tuple[int, int],
    window_us: int | None,
    colours: dict[str, str],
    attribute: str,
) -> list[str]:
    known = [*panel.values.tolist(), *(value for _, _, value, _ in panel.marks if value is not None)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    margin = (high - low) * 0.08 or abs(high) * 0.01 or 1.0
    low, high = low - margin, high + margin
    bottom = top + PANEL_HEIGHT

    def y(value: float) -> float:
        return bottom - (value - low) / (high - low) * PANEL_HEIGHT

    first, last = axis.x(span[0]), axis.x(span[1])
    parts = [
        f'<rect x="{first:.1f}" y="{top}" width="{max(last - first, 1):.1f}" height="{PANEL_HEIGHT}" '
        f'fill="{SERIES_COLOUR}" fill-opacity="0.1"/>',
        text_at(LEFT, top - 4, f"{panel.name} {attribute}".strip(), size=12),
    ]
    for tick in value_ticks(low, high):
        parts.append(line(LEFT, y(tick), WIDTH - RIGHT, y(tick), GRID, opacity=0.25))
        parts.append(text_at(LEFT - 6, y(tick) + 4, f"{tick:,.6g}", anchor="end", size=11))
    if window_us is not None and axis.x(span[0] + window_us) <= WIDTH - RIGHT + 0.5:
        parts.append(line(axis.x(span[0] + window_us), top, axis.x(span[0] + window_us), bottom, INK, dashes="5 3"))
    points = _thinned(panel, axis)
    if points:
        way = " ".join(f"{x:.1f},{y(value):.1f}" for x, value in points)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{SERIES_COLOUR}" stroke-width="1.2"/>')
    taken: dict[int, list[float]] = {}
    for number, (variable, at, value, tip) in enumerate(panel.marks):
        x, height = axis.x(at), bottom if value is None else y(value)
        colour = colours[variable]
        shown = f"{tip}, {axis.clock(at)}"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{height:.1f}" r="4.5" fill="{colour}" stroke="white" stroke-width="1">'
            f"<title>{quoted(shown)}</title></circle>"
        )
        if number < MOST_LABELS:
            place = height - 9 if height - 9 > top + 8 else height + 17
            step = 13 if place > height else -13
            others = [other for cell in range(int(x) // 12 - 1, int(x) // 12 + 2) for other in taken.get(cell, [])]
            while any(abs(place - other) < 12 for other in others) and top < place + step < bottom + 20:
                place += step
            taken.setdefault(int(x) // 12, []).append(place)
            parts.append(text_at(x, place, variable, anchor="middle", size=12, weight="bold", fill=colour))
    return parts


def _thinned(panel: _Panel, axis: TimeAxis) -> list[tuple[float, float]]:
    """Points of the line: of the events of one pixel only the first, lowest, highest and last."""
    points: list[tuple[float, float]] = []
    pixel: list[tuple[float, float]] = []

    def take() -> None:
        if len(pixel) <= 4:
            points.extend(pixel)
        else:
            low, high = (choose(range(len(pixel)), key=lambda row: pixel[row][1]) for choose in (min, max))
            points.extend(pixel[row] for row in sorted({0, low, high, len(pixel) - 1}))
        pixel.clear()

    for at, value in zip(panel.at.tolist(), panel.values.tolist(), strict=True):
        x = axis.x(at)
        if pixel and int(pixel[-1][0]) != int(x):
            take()
        pixel.append((x, value))
    take()
    return points


# -- charts in characters ----------------------------------------------------------------------------------------------

_HEIGHTS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Sparkline:
    """The course of one series in a line of characters, with the events of a match below it.

    The name is that of the values that tell the series apart; "" for the only one. In `marks` the names of variables
    begin below the places of their events; a name that has no room there is a ^. `low` and `high` are the ends of the
    values.
    """

    name: str
    course: str
    marks: str
    low: float
    high: float


def sparklines(
    events: pa.Table, bound: Sequence[tuple[str, int]], series: MatchSeries, width: int = 60
) -> list[Sparkline]:
    """Draw the series of a match in characters, those of one time below each other.

    A character shows the last value of its time, or that of the event of the match in it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> events = pa.table({
    ...     "timestamp": pa.array(range(8), pa.timestamp("us", tz="UTC")),
    ...     "seq": range(8),
    ...     "price": [3.0, 2.5, 2.0, 1.0, 2.0, 3.5, 4.0, 3.0],
    ... })
    >>> [line] = sparklines(events, [("low", 3), ("back", 6)], MatchSeries("price", ()), 8)
    >>> print(line.course, line.marks, sep="\\n")
    ▆▅▃▁▃▇█▆
       ^  back
    """
    panels = _panels(events, bound, series.attribute, series.apart)
    instants = [at for panel in panels for at in (*panel.at.tolist(), *(mark[1] for mark in panel.marks))]
    if not instants:
        return []
    first, length = min(instants), max(instants) - min(instants) + 1
    return [_sparkline(panel, lambda at: (at - first) * width // length, width) for panel in panels]


def _sparkline(panel: _Panel, cell: Callable[[int], int], width: int) -> Sparkline:
    values = zip(panel.at.tolist(), panel.values.tolist(), strict=True)
    known: dict[int, float] = {cell(at): value for at, value in values}
    known |= {cell(at): value for _, at, value, _ in panel.marks if value is not None}
    low, high = min(panel.values, default=math.nan), max(panel.values, default=math.nan)
    course, height = "", " "
    for place in range(width):
        if place in known:
            share = (known[place] - low) / (high - low) if high > low else 0.5
            height = _HEIGHTS[min(int(share * len(_HEIGHTS)), len(_HEIGHTS) - 1)]
        course += height
    marks = ""
    places = [cell(at) for _, at, _, _ in panel.marks]
    for (variable, *_), place, following in zip(panel.marks, places, [*places[1:], 2 * width], strict=True):
        if place >= len(marks):
            marks = marks.ljust(place) + (variable if place + len(variable) < following else "^")
    return Sparkline(panel.name, course, marks, float(low), float(high))


# -- parts of charts ---------------------------------------------------------------------------------------------------


class TimeAxis:
    """A horizontal axis of instants in microseconds, labelled with the clocks of a time zone."""

    def __init__(self, first_us: int, last_us: int, left: float, right: float, timezone: str) -> None:
        room = max((last_us - first_us) // 50, 1)
        self.first, self.last = first_us - room, last_us + room
        self.left, self.right = left, right
        self.zone = ZoneInfo(timezone)

    def x(self, at_us: float) -> float:
        """The place of an instant."""
        return self.left + (at_us - self.first) / (self.last - self.first) * (self.right - self.left)

    def clock(self, at_us: int) -> str:
        """Local date and time of an instant."""
        return self._local(at_us).replace(tzinfo=None).isoformat(sep=" ")

    def ticks(self, most: int = 8) -> list[tuple[int, str]]:
        """Instants at round times of the local clock, with their labels."""
        span = self.last - self.first
        step = next((one for one in _STEPS_US if span / one <= most), 86_400_000_000 * math.ceil(span / most / 8.64e10))
        offset = self._local(self.first).utcoffset()
        shift = 0 if offset is None else int(offset.total_seconds() * 1e6)
        begin = math.ceil((self.first + shift) / step) * step - shift
        return [(at, self._label(at, step)) for at in range(begin, self.last + 1, step)]

    def drawn(self, y: float, most: int = 8) -> list[str]:
        """The axis as parts of a drawing, with at most so many labels; its line is at y."""
        parts = [line(self.left, y, self.right, y, INK)]
        for at, label in self.ticks(most):
            parts.append(line(self.x(at), y, self.x(at), y + 5, INK))
            anchor = "end" if self.x(at) > self.right - 30 else "middle"
            parts.append(text_at(self.x(at), y + 18, label, anchor=anchor, size=11))
        return parts

    def _label(self, at_us: int, step_us: int) -> str:
        local = self._local(at_us)
        if step_us >= 86_400_000_000:
            return f"{local:%d %b}"
        if self.last - self.first > 86_400_000_000:
            return f"{local:%d %b %H:%M}"
        if step_us >= 60_000_000:
            return f"{local:%H:%M}"
        if step_us >= 1_000_000:
            return f"{local:%H:%M:%S}"
        return f"{local:%H:%M:%S.%f}".rstrip("0").rstrip(".")

    def _local(self, at_us: float) -> datetime:
        seconds, micros = divmod(int(at_us), 1_000_000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros).astimezone(self.zone)


def value_ticks(low: float, high: float, most: int = 4) -> list[float]:
    """Round values between two.

    Examples
    --------
    >>> value_ticks(0.0, 10.0), value_ticks(181.93, 182.41)
    ([0.0, 5.0, 10.0], [182.0, 182.2, 182.4])
    """
    raw = (high - low) / most
    if not (raw > 0 and math.isfinite(raw)):
        return [low] if math.isfinite(low) else []
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    digits = max(0, -math.floor(math.log10(step)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, digits) for number in range(first, last + 1)]


def svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    """Make an `svg` element of parts; it shrinks to the room that it has."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{quoted(label)}" font-family="system-ui, sans-serif" '
        f'style="max-width:100%;height:auto">{"".join(parts)}</svg>'
    )


def png_of(drawing: str) -> bytes:
    """An `svg` element as the pixels of a PNG, on white, since not every viewer has a background."""
    import vl_convert

    head, _, rest = drawing.partition(">")
    return bytes(vl_convert.svg_to_png(f'{head}><rect width="100%" height="100%" fill="white"/>{rest}', scale=2))


def text_at(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, weight: str = "normal", fill: str = INK
) -> str:
    """Make a `text` element; nothing of the text is read as markup."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{fill}">{quoted(text)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, colour: str, *, opacity: float = 1.0, dashes: str = "") -> str:
    """Make a `line` element."""
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-opacity="{opacity:g}"{dashed}/>'
    )


def quoted(text: str) -> str:
    """Write text so that it is text in an element and in an attribute, with nothing in it that a reader cannot see."""
    return escape(visible(text))
