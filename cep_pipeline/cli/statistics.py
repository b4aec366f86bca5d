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
    window: str | None

    def resolve(self, observer: ConsoleObserver) -> StatisticsOverview:
        """Find the snapshot that the options ask for."""
        if self.days and self.day:
            raise InputError("--days shows days one after another: leave --day out")
        return self._of_files(observer) if self.over_files else self._of_stream()

    def _of_files(self, observer: ConsoleObserver) -> StatisticsOverview:
        from cep_pipeline.events.event_files import load_events
        from cep_pipeline.pipeline.configuration import parse_window
        from cep_pipeline.pipeline.statistics_history import statistics_of_events

        if self.days or self.day:
            raise InputError("--day and --days are of a published stream: leave them out with --events")
        if self.window:
            parse_window(self.window)  # a wrong one is told before anything is read
        stream, parsed = self.over_these_files()
        with observer.step("reading events"):
            loaded = load_events(stream, self.event_paths(stream))
        with observer.step("statistics"):
            return statistics_of_events(parsed, loaded.events, stream.timezone, self.window, notes=loaded.notes)

    def _of_stream(self) -> StatisticsOverview:
        from cep_pipeline.pipeline.statistics_history import StatisticsHistory

        if self.window:
            raise InputError("--window is of files: a published stream has that of `statistics:` in pipeline.yaml")
        opened = self.open()
        history = StatisticsHistory(opened.tables, opened.stream, opened.pattern_sets[0])
        return history.of_days(*days_of(self.days)) if self.days else history.of_day(self.day)


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
    click.option("--window", metavar="LENGTH", help="Of files: '20 minutes' or '5000 events'.  [default: 1 hour]"),
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
    More than one width, in bold, is no accident of the sample.

    `cep help glossary` says what a leaf and a selectivity are.

    \b
    Examples:
      cep statistics                                       the latest day that has some
      cep statistics --stream us_equity_trades --day 2013-10-07 --match SPY
      cep statistics --days 7                              the latest seven days
      cep statistics --day 2013-10-07 --json
      cep statistics --patterns patterns/us_equity_trades.sase --schema streams/us_equity_trades.yaml \\
                     --events 2013-10-07/trades.csv.gz --window '20 minutes'
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
