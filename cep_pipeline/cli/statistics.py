"""`cep statistics`: rates and selectivities with their bounds, over the day, and how far they moved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click
from rich.table import Table

from cep_pipeline.cli.options import Day, configuration_options, json_option, pattern_file_options, pattern_set_option
from cep_pipeline.cli.sources import Asked
from cep_pipeline.cli.terminal import Terminal, output_console, say_json, styled, table_of, tell_notes
from cep_pipeline.errors import InputError
from cep_pipeline.pipeline.configuration import parse_window
from cep_pipeline.pipeline.statistics import (
    StatisticsHistory,
    StatisticsOverview,
    local_time,
    statistics_of_events,
)
from cep_pipeline.planning.clause_statistics import format_number
from cep_pipeline.statistics.drift import Drift, Number, What, drift_between, numbers_of
from cep_pipeline.statistics.snapshot import Kind as SnapshotKind

TITLES: dict[What, tuple[str, str]] = {
    "rate": ("leaf", "events/s"),
    "selectivity": ("condition", "selectivity"),
    "joint selectivity": ("conditions that depend on each other", "selectivity"),
}
SPARK_WIDTH = 24
SHOWN_VARIABLES = 5
"""The most variables of a pattern that are shown with how often their events come last."""


@click.command()
@configuration_options
@pattern_file_options(required=False)
@pattern_set_option
@click.option("--day", type=Day(), help="Published day; the latest with statistics if not given.")
@click.option("--window", metavar="LENGTH", help="Of files: '20 minutes' or '5000 events'.  [default: 1 hour]")
@click.option("--match", default="", metavar="TEXT", help="Only leaves and conditions with this text in them.")
@json_option
def statistics(window: str | None, match: str, as_json: bool, **options: Any) -> None:
    """Show arrival rates and selectivities with their bounds, what each rests on, and how far it has moved.

    Of a published day each number is the mean over the windows of the day: plans are made from it. Beside it stand the
    window in which it was largest, its course over the day, and its change since the day before and since the current
    plan was made. A change is a factor (≈: by less than half a percent) and a number of widths of the 95 % interval.
    More than one width, in bold, is no accident of the sample.

    `cep help glossary` says what a leaf and a selectivity are.

    \b
    Examples:
      cep statistics                                       the latest day that has some
      cep statistics --stream us_equity_trades --day 2013-10-07 --match SPY
      cep statistics --day 2013-10-07 --json
      cep statistics --patterns patterns/us_equity_trades.sase --schema streams/us_equity_trades.yaml \\
                     --events 2013-10-07/trades.csv.gz --window '20 minutes'
    """
    view = StatisticsView(_overview(Asked(**options), window), match)
    if match and not view.numbers():
        raise InputError(f"--match {match!r}: no leaf and no condition has this text in it")
    if as_json:
        say_json(view.to_json())
        return
    console = output_console()
    console.print(view.headline(), highlight=False)
    for table in view.tables():
        console.print(table)
    tell_notes((*view.of.shown.snapshot.notes, *view.of.notes))


def _overview(asked: Asked, window: str | None) -> StatisticsOverview:
    """The statistics of files, or of a day."""
    if asked.over_files:
        if asked.day:
            raise InputError("--day is of a published stream: leave it out with --events")
        if window:
            parse_window(window)  # a wrong one is told before anything is read
        stream, parsed, loaded = asked.read()
        with Terminal(stderr=True).status("statistics"):
            return statistics_of_events(parsed, loaded.events, stream.timezone, window, notes=loaded.notes)
    if window:
        raise InputError("--window is of files: a published stream has that of `statistics:` in pipeline.yaml")
    opened = asked.open()
    return StatisticsHistory(opened.tables, opened.stream, opened.pattern_sets[0]).of_day(asked.day)


@dataclass(frozen=True)
class StatisticsView:
    """Statistics as a person or a machine looks at them; of all numbers those whose key has the text `match` in it."""

    of: StatisticsOverview
    match: str = ""

    def numbers(self) -> list[Number]:
        """The numbers of the shown snapshot."""
        return [number for number in numbers_of(self.of.shown.snapshot).values() if self.match in number.key]

    def headline(self) -> str:
        """The headline of a snapshot: its stream, day and window."""
        snapshot = self.of.shown.snapshot
        span = "no events"
        if snapshot.start_us is not None and snapshot.end_us is not None:
            first, last = (self.clock(us) for us in (snapshot.start_us, snapshot.end_us))
            span = f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} {self.of.timezone}"
        events = f"{snapshot.events:,} events"
        if snapshot.kind is SnapshotKind.BUSINESS_DAY and snapshot.windows:
            of = f"{snapshot.windows} windows" if snapshot.windows > 1 else "1 window"
            events = f"{events} in the mean of {of}"
        return f"stream {snapshot.stream}, {self.of.shown.label}: {events}, {span}"

    def clock(self, instant_us: int) -> datetime:
        """The local time of the stream at an instant."""
        return local_time(instant_us, self.of.timezone)

    def tables(self) -> list[Table]:
        """A table for each kind of number, and one of the last events of matches."""
        last = [self._last_events()] if self.of.shown.snapshot.output_profiles else []
        return [table for kind in TITLES if (table := self._table(kind)) is not None] + last

    def _last_events(self) -> Table:
        rows = []
        for profile in self.of.shown.snapshot.output_profiles:
            last = sorted(profile.variables, key=profile.last_share, reverse=True)
            ends = "\n".join(f"{name}: {profile.last_share(name):.1%}" for name in last[:SHOWN_VARIABLES])
            rows.append((profile.pattern, f"{profile.matches:,}", ends))
        columns = ("pattern", "matches", "last event of its matches")
        return table_of(columns, rows, right=slice(1, 2))

    def _table(self, kind: What) -> Table | None:
        numbers = [number for number in self.numbers() if number.what == kind]
        if not numbers:
            return None
        drifts = [drift_between(other.snapshot, self.of.shown.snapshot) for other in self.of.compared]
        rows = [
            (
                number.key,
                figure(number.estimate.value),
                self.interval(number),
                None if number.worst is None else figure(number.worst),
                number.rests,
                sparkline(self.over_windows(number)) if len(self.of.windows) > 1 else None,
                *(styled(_drift(drift.get((kind, number.key)))) for drift in drifts),
            )
            for number in numbers
        ]
        columns = (*TITLES[kind], f"{self.of.shown.snapshot.confidence:.0%} interval", "worst window", "rests on")
        since = (f"since {other.label}" for other in self.of.compared)
        optional = {"worst window", "over time"}
        table = table_of((*columns, "over time", *since), rows, right=slice(1, 4), optional=optional)
        for column in table.columns:
            column.no_wrap = column.header == "over time"
        return table

    def interval(self, number: Number) -> str:
        """The ends of the interval of a number."""
        low, high = number.estimate.low, number.estimate.high
        return "exact" if low == high else f"{figure(low)} … {figure(high)}"

    def over_windows(self, number: Number) -> list[float | None]:
        """The same number in each of the windows; None where a window has none."""
        key = (number.what, number.key)
        found = (numbers_of(window).get(key) for window in self.of.windows)
        return [None if other is None else other.estimate.value for other in found]

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "label": self.of.shown.label,
            "snapshot": self.of.shown.snapshot.to_json(),
            "drift": [
                {
                    "since": other.label,
                    "kind": kind,
                    "key": key,
                    "before": drift.before.value,
                    "now": drift.now.value,
                    "factor": drift.factor if math.isfinite(drift.factor) else None,
                    "widths": drift.widths if math.isfinite(drift.widths) else None,
                }
                for other in self.of.compared
                for (kind, key), drift in drift_between(other.snapshot, self.of.shown.snapshot).items()
            ],
            "windows": [window.to_json() for window in self.of.windows],
            "notes": list(self.of.notes),
        }


def _drift(drift: Drift | None) -> tuple[str, str]:
    """The movement of a number as text, with the style to show it in."""
    if drift is None:
        return "new", ""
    return f"{drift}", "bold" if drift.sure and drift.widths else ""


def figure(value: float) -> str:
    """A number in few characters.

    Examples
    --------
    >>> figure(0.0), figure(2.344e-5), figure(12.3456), figure(1234567.8)
    ('0', '0.00002344', '12.35', '1,234,568')
    """
    if 0 < value < 0.001:
        return format_number(value)
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def sparkline(values: Iterable[float | None]) -> str:
    """Values from zero to their largest as a line of blocks; a blank where there is none.

    Examples
    --------
    >>> sparkline([0, 1, None, 4, 8])
    '▁▁ ▄█'
    """
    given = list(values)
    size = max(1, math.ceil(len(given) / SPARK_WIDTH))
    cells = [_mean(given[place : place + size]) for place in range(0, len(given), size)]
    most = max((value for value in cells if value is not None), default=0.0)
    blocks = "▁▂▃▄▅▆▇█"
    return "".join(
        " " if value is None else blocks[min(7, int(value / most * 8 - 1e-9))] if most > 0 else blocks[0]
        for value in cells
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
