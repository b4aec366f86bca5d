"""`cep statistics`: rates and selectivities with their bounds, over the day and over days, and how far they moved."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import click

from cep_pipeline.cli.options import (
    Day,
    complete,
    configuration_options,
    json_option,
    pattern_file_options,
    pattern_set_option,
    with_options,
)
from cep_pipeline.cli.progress import ConsoleObserver
from cep_pipeline.cli.sources import Asked
from cep_pipeline.cli.terminal import Terminal, output_console, say, say_json
from cep_pipeline.errors import InputError

if TYPE_CHECKING:
    from cep_pipeline.pipeline.statistics_history import StatisticsOverview


@dataclass(frozen=True)
class _Asked(Asked):
    """The options that say of what statistics are wanted."""

    days: str | None
    as_of: str | None
    window: str | None

    def resolve(self, observer: ConsoleObserver) -> StatisticsOverview:
        """Find the snapshot that the options ask for."""
        if self.days and (self.day or self.as_of or self.window):
            raise InputError("--days shows days as they are published: leave --day, --as-of and --window out")
        return self._of_files(observer) if self.over_files else self._of_stream(observer)

    def _of_files(self, observer: ConsoleObserver) -> StatisticsOverview:
        from cep_pipeline.events.event_files import load_events
        from cep_pipeline.pipeline.configuration import parse_window
        from cep_pipeline.pipeline.statistics_history import statistics_of_events

        if self.days or self.day:
            raise InputError("--day and --days are of a published stream; of files, --as-of takes a date and a time")
        if self.window:
            parse_window(self.window)  # a wrong one is told before anything is read
        stream, parsed = self.over_these_files()
        with observer.step("reading events"):
            loaded = load_events(stream, self.event_paths(stream))
        with observer.step("statistics"):
            return statistics_of_events(
                parsed, loaded.events, stream.timezone, self.as_of, self.window, notes=loaded.notes
            )

    def _of_stream(self, observer: ConsoleObserver) -> StatisticsOverview:
        from cep_pipeline.events.timestamps import parse_moment
        from cep_pipeline.pipeline.configuration import parse_window
        from cep_pipeline.pipeline.statistics_history import StatisticsHistory

        opened = self.open()
        stream, pattern_set = opened.stream, opened.pattern_sets[0]
        window = parse_window(self.window) if self.window else None
        history = StatisticsHistory(opened.tables, stream, pattern_set)
        if self.days:
            return history.of_days(*days_of(self.days))
        if self.as_of is None and window is None:
            return history.of_day(self.day)
        with observer.step("statistics") as progress:
            if self.as_of is None:
                assert window is not None
                return history.over_windows(self.day, window, progress)
            day = self.day or history.latest_published_day()
            moment = parse_moment(self.as_of, stream.schema.timezone, day)
            return history.at_moment(moment, window, progress)


def days_of(text: str) -> tuple[date | None, date | None, int | None]:
    """First day, last day and number of days that a text says; an InputError says that it says none of them.

    Examples
    --------
    >>> days_of("7"), days_of("2013-10-07..2013-10-09")[1], days_of("2013-10-07..")[1]
    ((None, None, 7), datetime.date(2013, 10, 9), None)
    """
    if re.fullmatch(r"[1-9][0-9]{0,5}", text):
        return None, None, int(text)
    first, dots, last = text.partition("..")
    try:
        if not dots:
            raise ValueError("no .. in it")
        return date.fromisoformat(first) if first else None, date.fromisoformat(last) if last else None, None
    except ValueError as error:
        raise InputError(
            f"--days {text!r}: write a number of days, as in 7, or the first and the last, as in 2013-10-07..2013-10-09"
        ) from error


_options = with_options(
    configuration_options,
    pattern_file_options(required=False),
    pattern_set_option,
    click.option("--day", type=Day(), help="Published day; the latest with statistics if not given."),
    click.option("--days", metavar="DAYS", help="Days one after another: 2013-10-07..2013-10-09, or the latest 7."),
    click.option("--as-of", metavar="TIME", help="The window that ends then: 14:30, or '2013-10-07 14:30'."),
    click.option("--window", metavar="LENGTH", help="Such as '20 minutes' or '5000 events'; else as configured."),
    click.option("--match", default="", metavar="TEXT", help="Only leaves and conditions with this text in them."),
    json_option,
)


@click.command()
@_options
def statistics(match: str, as_json: bool, **options: object) -> None:
    """Show arrival rates and selectivities with their bounds, what each rests on, and how far it has moved.

    Of a published day each number is the mean over the windows of the day: plans are made from it. Beside it stand the
    window in which it was largest, its course over the day, and its change since the day before and since the current
    plan was made. A change is a factor (≈: by less than half a percent) and a number of widths of the 95 % interval.
    More than one width, in bold, is no accident of the sample. With --as-of: the window that ends at that time, by the
    clocks of the stream.

    `cep help glossary` says what a leaf and a selectivity are.

    \b
    Examples:
      cep statistics                                       the latest day that has some
      cep statistics --stream us_equity_trades --day 2013-10-07 --match SPY
      cep statistics --as-of 14:30 --window '20 minutes'   on the latest day
      cep statistics --days 7                              the latest seven days
      cep statistics --day 2013-10-07 --json
      cep statistics --patterns patterns/us_equity_trades.sase --schema streams/us_equity_trades.yaml \\
                     --events 2013-10-07/trades.csv.gz --as-of '2013-10-07 15:59'
    """
    from cep_pipeline.cli.statistics_view import StatisticsView

    with ConsoleObserver(Terminal(stderr=True)) as observer:
        view = StatisticsView(_Asked(**options).resolve(observer), match)  # type: ignore[arg-type]
    if match and not view.numbers():
        raise InputError(f"--match {match!r}: no leaf and no condition has this text in it")
    if as_json:
        say_json(view.to_json())
        return
    console = output_console()
    console.print(view.headline(), highlight=False)
    if view.of.days:
        console.print(view.history_table())
    for table in view.tables():
        console.print(table)
    for note in (*view.of.shown.snapshot.notes, *view.of.notes):
        say(f"note: {complete(note)}", err=True)
