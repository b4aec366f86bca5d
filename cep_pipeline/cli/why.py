"""`cep why` explains a match; `cep why-not` says what keeps a pattern from having one, or more of them."""

from __future__ import annotations

import string
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.cli.options import (
    Day,
    configuration_options,
    counted,
    days_asked,
    days_options,
    json_option,
    one_of_two,
    pattern_file_options,
    with_options,
)
from cep_pipeline.cli.sources import Asked
from cep_pipeline.cli.terminal import (
    ConsoleObserver,
    Terminal,
    next_command,
    output_console,
    say_json,
    table_of,
    tell_notes,
)
from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import SEQ, SEQ_PER_DAY, TIMESTAMP
from cep_pipeline.foreign_text import listed
from cep_pipeline.patterns.structure import EventType, type_alternatives, types_of
from cep_pipeline.storage import SHORT_ID, place_of_id

if TYPE_CHECKING:
    from cep_pipeline.events.event_files import EventPlaces
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.questions.match_checks import Explanation

MOST_LISTED = 1_000_000
"""Matches over files among which the one of an id is looked for."""


_SOURCE = with_options(
    configuration_options,
    pattern_file_options(required=False),
    click.option("--pattern-set", metavar="NAME", help="Pattern set; the stream's only one if not given."),
    click.option("--pattern", metavar="NAME", help="The pattern; the only one if not given."),
)


@click.command()
@click.argument("match")
@click.argument("number", type=click.IntRange(min=1), required=False)
@_SOURCE
@click.option("--day", type=Day(), help="The day on which the match became final; all days if not given.")
@json_option
def why(match: str, number: int | None, pattern: str | None, as_json: bool, **options: Any) -> None:
    """Explain a match: its events, and each rule of its pattern with the values that fulfil it.

    MATCH NUMBER is a pattern and the number of one of its matches, as `cep matches` counts them (with --day of that
    day), or over files in the order of `cep detect`. MATCH alone is the id of a match, or a beginning of four digits
    or more that no other id has.

    Told are the local times of the events and what the pattern reads of them, both sides of each condition, how much of
    the window is used, and for each negation how many events were looked at, from when to when.

    \b
    Examples:
      cep why v_reversal 1
      cep why v_reversal 3 --day 2013-10-07
      cep why 1f8a0c5b
      cep why 1f8a0c5b-2d7e-8f60-a1b2-c3d4e5f60718 --day 2013-10-07 --json
      cep why 1f8a0c5b --patterns my.sase --schema streams/trades.yaml --events trades.csv
    """
    asked = Asked(**options)
    if number is not None and pattern not in (None, match):
        raise InputError(f"{match} {number} is a match of the pattern {match}: leave --pattern {pattern} out")
    explained, notes = (_of_files if asked.over_files else _of_warehouse)(asked, match, number, pattern)
    if as_json:
        say_json({**explained.to_json(), "notes": notes})
        return
    _print_explanation(output_console(), explained)
    tell_notes(notes)


def _of_files(asked: Asked, named: str, number: int | None, pattern: str | None) -> tuple[Explanation, list[str]]:
    """The match of an id, or of a number, among those that the patterns have over files."""
    from cep_pipeline.detection.detect import detect
    from cep_pipeline.questions.match_checks import why_match

    schema, patterns, loaded = asked.read(places=True)
    for one in _chosen(patterns, pattern if number is None else named, several=True):
        found = detect([one], loaded.events, limit=MOST_LISTED)[one.name]
        if number is not None and number > found.num_rows:
            raise InputError(f"pattern {named!r} has {counted(found.num_rows, 'match')} over these files")
        place = place_of_id(found["match_id"], named) if number is None else number - 1
        if place >= 0:
            match = found.slice(place, 1).to_pylist()[0]
            return _placed(why_match(one, loaded.events, match, timezone=schema.timezone), loaded.places), []
    raise InputError(f"no match over these files has the id {named}; `cep detect` writes the ids of all")


def _placed(explained: Explanation, places: EventPlaces | None) -> Explanation:
    """The explanation with file and line of each event, where these are known."""
    if places is None:
        return explained
    found = zip(*places.of(pa.array([seq for _, seq in explained.bindings], pa.int64())), strict=True)
    inside = tuple(_placed(one, places) for one in explained.inside)
    return replace(explained, places=tuple(f"{file}:{line}" for file, line in found), inside=inside)


def _of_warehouse(asked: Asked, named: str, number: int | None, pattern: str | None) -> tuple[Explanation, list[str]]:
    """The published match of an id, or of a number."""
    from cep_pipeline.warehouse.match_pages import explain_match, match_row

    opened = asked.open(pattern or (None if number is None else named))
    pattern_set = opened.pattern_sets[0]
    tables = opened.tables.pinned(("matches", "events"))
    days = [unit.final_day for unit in tables.matches_days(pattern_set.name)]
    days = [day for day in reversed(days) if asked.day in (None, day)]
    if number is None:
        first = match_row(tables, pattern_set.name, days, named)
        if first is None:
            raise InputError(
                f"no match of pattern set {pattern_set.name!r} has the id {named} on {counted(len(days), 'day')} that "
                "are published; `cep matches` shows how ids begin (write four digits or more), and numbers, as in "
                f"`{next_command('why', 'PATTERN', '1')}`"
            )
    else:
        _chosen(pattern_set.statements, named)
        first = tables.first_matches(pattern_set.name, asked.day, asked.day, each=number, pattern=named)
        if first.num_rows < number:
            on = "" if asked.day is None else f" on {asked.day}"
            raise InputError(f"pattern {named!r} has {counted(first.num_rows, 'match')}{on} that are published")
        first = first.slice(number - 1)
    row = first.to_pylist()[0]
    [chosen] = _chosen(pattern_set.statements, pattern or row["pattern"])
    explained = explain_match(tables, row, chosen, opened.stream.schema.timezone)
    published = uuid.UUID(str(row["match_id"]))
    notes = []
    if explained.match_id != str(published):
        notes.append(f"the pattern {chosen.name!r} has changed since the match was published; these are its rules now")
    return replace(explained, match_id=str(row["match_id"])), notes


def _chosen(patterns: Sequence[Pattern], named: str | None, *, several: bool = False) -> list[Pattern]:
    """The pattern that is named, or the only one; with `several`, all where none is named."""
    chosen = [one for one in patterns if named in (None, one.name)]
    names = listed([one.name for one in patterns])
    if not chosen:
        raise InputError(f"there is no pattern {named!r}; there are: {names}")
    if len(chosen) > 1 and not several:
        raise InputError(f"there are several patterns: {names}; say which: --pattern {chosen[0].name}")
    return chosen


@click.command(name="why-not")
@_SOURCE
@days_options
@click.option(
    "--event",
    "expected",
    multiple=True,
    metavar="VARIABLE=EVENT",
    help="An event that was expected in a match: its time (09:30:00.1, or '2013-10-07 09:30:00.1'), as `cep matches` "
    "shows it, over files its line (trades.csv:57), its position in its day (57, or 2013-10-07/57), or of a match that "
    "is an event the beginning of its id. Once for each variable, for a list of events several times.",
)
@click.option("--at", metavar="TIME", help="Look for matches around this time: 14:30, or '2013-10-07 14:30'.")
@click.option(
    "--near", type=click.IntRange(min=0), default=3, show_default=True, help="Nearest misses to show, at most."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Time for all that is counted; what is left then is named.",
)
@json_option
def why_not(
    pattern: str | None,
    first: date | None,
    last: date | None,
    expected: tuple[str, ...],
    at: str | None,
    near: int,
    seconds: float,
    as_json: bool,
    **options: Any,
) -> None:
    """Say why a pattern has no match where one was expected, or not more of them.

    Without days or files it looks at the latest published day.

    With an --event for every variable, each rule of the pattern is asked of these events, and the ones that they break
    are shown with the values on both sides. With events of some variables, with a time or over whole days, the pattern
    is detected again with one rule less at a time. That shows how far matches come, how many each rule alone keeps out,
    how many there would be with other constants and other windows, and which events break exactly one rule by the
    least.

    \b
    Examples:
      cep why-not --pattern v_reversal                          the latest published day
      cep why-not --pattern v_reversal --day 2013-10-07 --at 14:30 --near 10
      cep why-not --pattern v_reversal --event high=09:30:11.25 --event low=09:30:12.5 --event back=120
      cep why-not --patterns my.sase --schema streams/trades.yaml --events trades.csv --event a=trades.csv:57
    """
    from cep_pipeline.events.timestamps import parse_moment
    from cep_pipeline.questions.near_misses import why_not as explain

    asked = Asked(**options)
    one_of_two({"--event": expected}, {"--at": at})
    looked = _looked_at(asked, pattern, first, last)
    given, zone = looked.given(expected), looked.timezone
    moment = None if at is None else parse_moment(at, zone, looked.day)
    with ConsoleObserver(Terminal(stderr=True)) as observer, observer.step("counting") as told:
        found = explain(
            looked.pattern, looked.events, given, at=moment, near=near, timezone=zone, seconds=seconds, progress=told
        )
    explained = None if found.explanation is None else _placed(found.explanation, looked.places)
    found = replace(found, explanation=explained, near=tuple(_placed(one, looked.places) for one in found.near))
    if as_json:
        say_json(found.to_json())
        return
    console = output_console()
    if found.explanation is not None:
        _print_explanation(console, found.explanation)
        return
    console.print(found.summary(), soft_wrap=True)
    for title, columns, rows in found.tables():
        console.print(table_of(columns, rows, title))
    tell_notes(found.notes)


@dataclass(frozen=True)
class _Looked:
    """The events in which a match of a pattern was expected, and their places in files, where they are from files."""

    pattern: Pattern
    events: pa.Table
    timezone: str
    places: EventPlaces | None

    @property
    def days(self) -> list[date]:
        """The days of the events, as far as their seqs tell."""
        ordinals = pc.unique(pc.divide(self.events[SEQ], SEQ_PER_DAY)).to_pylist()
        return [date.fromordinal(one) for one in ordinals if 0 < one <= date.max.toordinal()]

    @property
    def day(self) -> date | None:
        """The day of the events, if it is one."""
        return self.days[0] if len(self.days) == 1 else None

    def given(self, expected: Iterable[str]) -> dict[str, list[int | str]]:
        """Variable -> the seqs of the events, and the ids of the matches, that `--event` names."""
        given: dict[str, list[int | str]] = {}
        types = {operand.variable: operand.event_type for operand in self.pattern.operands if not operand.negated}
        for text in expected:
            variable, equals, event = text.partition("=")
            if not equals or not event:
                raise InputError(f"--event {text!r}: write it as VARIABLE=EVENT, such as {next(iter(types))}=57")
            if variable not in types:
                raise InputError(f"--event {text!r}: {self.pattern.name} binds {', '.join(types)}")
            given.setdefault(variable, []).append(self._event(text, event, types[variable]))
        return given

    def _event(self, text: str, event: str, event_type: EventType) -> int | str:
        """The seq of an event, or the id of a match, that a text names."""
        digits = len(event.replace("-", "")) if not {*event} - {*string.hexdigits, "-"} else 0
        composed = {one.name for one in self.pattern.composes} & {*types_of(event_type)}
        if digits == _ID_DIGITS or (composed and digits >= SHORT_ID):
            return event
        file, colon, line = event.rpartition(":")
        if colon and line.isdigit() and self.places is not None and self.places.has_file(file):
            seq = self.places.seq_at(file, int(line)) if len(line) < _MOST_DIGITS else None
            if seq is None:
                raise InputError(f"--event {text!r}: no event was read from line {line} of {file}")
            return seq
        day, slash, position = event.rpartition("/")
        if position.isascii() and position.isdigit() and len(position) < _MOST_DIGITS:
            return self._at_position(text, day if slash else "", int(position))
        return self._at_time(text, event, event_type)

    def _at_position(self, text: str, day: str, position: int) -> int:
        """The seq of the event at a position of a day."""
        if position >= SEQ_PER_DAY or not (self.days or day):
            return position
        if not day and self.day is None:
            at = f"{self.days[0]}/{position}"
            raise InputError(f"--event {text!r}: there are several days; write the day too, as in {at}")
        try:
            of = date.fromisoformat(day) if day else self.days[0]
        except ValueError as error:
            raise InputError(f"--event {text!r}: {day!r} is no day; write it as 2013-10-07/{position}") from error
        return of.toordinal() * SEQ_PER_DAY + position

    def _at_time(self, text: str, time: str, event_type: EventType) -> int:
        """The seq of the one event of a type at a time."""
        from cep_pipeline.events.event_words import event_name, local_time
        from cep_pipeline.events.timestamps import parse_moment

        moment = parse_moment(time, self.timezone, self.day)
        names, kind, of_type = types_of(event_type), type_alternatives(event_type), self.events
        if self.pattern.base_type not in names:
            types = of_type[self.pattern.type_attribute].cast(pa.string())
            of_type = of_type.filter(pc.is_in(types, pa.array(names, pa.string())))
        clock = of_type[TIMESTAMP].cast(pa.int64()).to_numpy()
        start, end = (int(np.searchsorted(clock, moment, side)) for side in ("left", "right"))
        if end - start == 1:
            return int(of_type[SEQ][start].as_py())
        if end > start:
            seen = ", ".join(map(event_name, of_type[SEQ][start:end].to_pylist()[:8]))
            events = counted(end - start, "event")
            raise InputError(f"--event {text!r}: {events} of {kind} have this time: {seen}; name one")
        beside = [local_time(int(clock[row]), self.timezone) for row in (start - 1, start) if 0 <= row < len(clock)]
        next_to_it = ", ".join(beside) or "none"
        raise InputError(f"--event {text!r}: no event of {kind} has this time; next to it are: {next_to_it}")


_MOST_DIGITS = 19
_ID_DIGITS = 32


def _looked_at(asked: Asked, name: str | None, first: date | None, last: date | None) -> _Looked:
    """The pattern that is meant, and the events of the files or days."""
    from cep_pipeline.patterns.pattern import with_composed
    from cep_pipeline.slices.events_input import columns_needed

    places = None
    if asked.over_files:
        if asked.day or first or last:
            raise InputError(
                "--day, --from and --to are of a published stream; over files give the --events of the days"
            )
        schema, patterns, loaded = asked.read(places=True)
        [chosen] = _chosen(patterns, name)
        events, places = loaded.events, loaded.places
    else:
        opened = asked.open(name)
        schema = opened.stream.schema
        [chosen] = _chosen(opened.pattern_sets[0].statements, name)
        first, last = days_asked(asked.day, first, last)
        if not (first or last) and (published := opened.tables.days()):
            first = last = published[-1].day
        events = opened.tables.read_events(first, last, columns=columns_needed(with_composed([chosen])))
    if not events.num_rows:
        raise InputError("there are no events to look at; `cep status` shows the days that are published")
    return _Looked(chosen, events, schema.timezone, places)


def _print_explanation(console: Terminal, explained: Explanation) -> None:
    from cep_pipeline.questions.match_checks import CHECK_COLUMNS, INSIDE_COLUMNS

    console.print(explained.summary(), soft_wrap=True)
    console.print(table_of(explained.event_columns, explained.event_rows(), f"{explained.pattern}: the events"))
    if explained.inside:
        console.print(table_of(INSIDE_COLUMNS, explained.inside_rows(), "the matches among them"))
    console.print(table_of(CHECK_COLUMNS, explained.check_rows(), f"{explained.pattern}: its rules"))
