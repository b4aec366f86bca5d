"""Drawings of the pages, each an SVG: charts by Vega-Lite, and by hand the days of a stream."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

from cep_pipeline.charts import GRID, INK, PALETTE, clock_ms, layer, quoted, rendered, time_axis
from cep_pipeline.warehouse.records import RunRecord, RunStep

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
SPANS: Mapping[str, tuple[str, str]] = {
    "work": (BLUE, "at work"),
    "process": ("#8a94a0", "start and end of processes"),
    "queue": ("#8a94a055", "in Airflow's queue"),
    "wait": (AMBER, "waiting for another day"),
    "again": (VIOLET, "waiting for the next try"),
    "failed": (RED, "ended by an error"),
}
"""Kind of a part of a run -> its colour and meaning."""
FOLLOWS = {"running": "process", "deferred": "wait", "up_for_retry": "again"}
"""State of a task -> what it is until it comes to the next one."""
TASK_STATES = (*FOLLOWS, "success", "failed", "skipped")
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


@dataclass(frozen=True)
class Span:
    """A part of a run on its line of time: the row that it stands in, one of `SPANS`, and its ends in Unix time."""

    row: str
    kind: str
    begin_s: float
    end_s: float


def spans_of_run(
    run: RunRecord, beside: Sequence[RunStep], asked_s: float | None, states: Sequence[tuple[str, str, float]]
) -> list[Span]:
    """The parts of a run: what its steps did, and what it waited for between them.

    `states` are those that its tasks came to in Airflow, in order of time: (task, state, Unix time); `asked_s` is when
    Airflow was asked for the run. A run of the command line has neither; its steps wait for those of the other days of
    the same run (`beside`). A step of a record of an older version, which says no begin, has no part.
    """
    work = [Span(one.name, "work", one.ended_s - one.seconds, one.ended_s) for one in run.steps if one.began_s]
    begin, last = run.started_at.timestamp(), (run.finished_at or datetime.now(UTC)).timestamp()
    spans, free = list(work), list(work)
    tasks: dict[str, list[tuple[str, float]]] = {}
    for task, state, at in states:
        tasks.setdefault(task, []).append((state, at))
    over = [begin if asked_s is None else asked_s]
    for task, reached in tasks.items():
        first, end, name = reached[0][1], reached[-1][1], task.partition(" ")[0]
        fits = (one for one in free if name.endswith(one.row.partition(" ")[0]) and one.begin_s >= first)
        own = next(fits, None)
        free = [one for one in free if one is not own]
        row = task if own is None else own.row
        spans.append(Span(row, "queue", max((one for one in over if one <= first), default=first), first))
        for (state, at), (follows, until) in pairwise([*reached, ("", max(last, end))]):
            failed = own is None and state == "running" and follows in ("failed", "up_for_retry")
            if state in FOLLOWS:
                spans.append(Span(row, "failed" if failed else FOLLOWS[state], at, until))
        over.append(end)
    others = [(one.ended_s - one.seconds, one.ended_s) for one in beside if one.began_s]
    for one in () if tasks else work:
        waited = any(begin < other_end and other_begin < one.begin_s for other_begin, other_end in others)
        spans.append(Span(one.row, "wait" if waited else "process", begin, one.begin_s))
        begin = max(begin, one.end_s)
    return [one for one in spans if one.kind == "work" or one.end_s - one.begin_s >= 0.05]


def run_chart(spans: Sequence[Span], begin_s: float) -> str:
    """Draw the parts of a run at their real times, on one line of seconds from an instant on."""
    order = list(dict.fromkeys(one.row for one in sorted(spans, key=lambda one: one.begin_s)))
    moved = [replace(one, begin_s=one.begin_s - begin_s, end_s=one.end_s - begin_s) for one in spans]
    moved.sort(key=lambda one: one.kind == "work")  # which lies upon the process that does it
    told = {one: f"{one.end_s - one.begin_s:.1f} s" for one in moved}
    rows = [{**vars(one), "tip": f"{one.row}: {SPANS[one.kind][1]}, {told[one]}"} for one in moved]
    ends = {one.row: max(other.end_s for other in moved if other.row == one.row) for one in moved}
    worked: dict[str, float] = {}
    for one in moved:
        if one.kind == "work":
            worked[one.row] = worked.get(one.row, 0) + one.end_s - one.begin_s
    labels = [{"row": row, "to": ends[row], "says": f"{seconds:.1f} s"} for row, seconds in worked.items()]
    title = f"seconds since {datetime.fromtimestamp(begin_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    x = {"field": "begin_s", "type": "quantitative", "axis": {"title": title}, "scale": {"domainMin": 0}}
    tips = {"field": "tip", "type": "nominal"}
    y = {"field": "row", "type": "nominal", "sort": order, "axis": {"minExtent": 120}}
    colours = {"domain": list(SPANS), "range": [colour for colour, _ in SPANS.values()]}
    colour = {"field": "kind", "type": "nominal", "legend": None, "scale": colours}
    bar = {"type": "bar", "aria": True, "cornerRadius": 2}
    label = {"type": "text", "align": "left", "dx": 5, "color": INK}
    layers = [
        layer(rows, bar, x=x, x2={"field": "end_s"}, y=y, color=colour, description=tips),
        layer(labels, label, x="to", y=y, text={"field": "says", "type": "nominal"}),
    ]
    spec = {"width": 900, "height": {"step": 24}, "layer": layers}
    return rendered(spec, "the steps of the run, and what lies between them, on a line of seconds")


Bar = tuple[int, int, float | None]
"""From an instant (microseconds) to another, a number; None where there is none."""


def histogram(bars: Sequence[Bar], timezone: str, unit: str) -> str:
    """Draw numbers of a unit between instants; where there is none, nothing is drawn."""

    def local(instant_us: int) -> datetime:
        return datetime.fromtimestamp(instant_us / 1e6, ZoneInfo(timezone)).replace(tzinfo=None)

    rows = [
        {
            "at": clock_ms(begin),
            "to": clock_ms(end),
            "count": number,
            "tip": f"{number:,.6g} {unit} from {begin} to {end}",
        }
        for begin, end, number in ((local(begin_us), local(end_us), number) for begin_us, end_us, number in bars)
        if number
    ]
    first, last = local(bars[0][0]), local(bars[-1][1])
    axis = time_axis("at", clock_ms(first), clock_ms(last))
    axis["axis"]["title"] = f"{' to '.join(dict.fromkeys((f'{first:%Y-%m-%d}', f'{last:%Y-%m-%d}')))}, {timezone}"
    y = {"field": "count", "type": "quantitative", "axis": {"title": unit}}
    bar = {"type": "rect", "color": BLUE, "aria": True}
    tips = {"field": "tip", "type": "nominal"}
    drawn = layer(rows, bar, x=axis, x2={"field": "to"}, y=y, y2={"datum": 0}, description=tips)
    return rendered({"width": 780, "height": 110, **drawn}, f"{unit} over time")


def small_histogram(bars: Sequence[Bar]) -> str:
    """Draw numbers between instants as a row of small bars, the highest of which is as high as the row."""
    first, last = bars[0][0], max(bars[-1][1], bars[0][0] + 1)
    most = max((number or 0 for *_, number in bars), default=0) or 1
    way = "".join(
        f"M{(begin - first) / (last - first) * 240:.1f},26V{26 - number / most * 24:.1f}"
        f"H{(end - first) / (last - first) * 240:.1f}V26Z"
        for begin, end, number in bars
        if number
    )
    ground = f'<path d="M0,26.5H240" stroke="{GRID}" stroke-opacity="0.5"/><path d="{way}" fill="{BLUE}"/>'
    return svg(240, 27, [ground], f"in the windows of the day, at most {most:.4g}")


def count_line(counts: Sequence[int]) -> str:
    """Draw numbers of matches day by day as a small line."""
    most = max([*counts, 1])

    def y(value: float) -> float:
        return 22 - value / most * 18

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
