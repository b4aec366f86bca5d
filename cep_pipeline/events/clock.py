"""Clocks that go back: rows of a raw file that are earlier than the row before them.

A file may hold its events in any order, and they are put in the order of time. That a file is sorted by event type, and
then by time, is ordinary; within a type the clock goes on. Where it does not, a clock was set back, a file was put
together wrongly, or rows came late: matches are still those of the order of time, but a person should know.

At the end of summer time the clocks show an hour twice. Local times without an offset do not say which of the two they
are; the order of the file does. In a file that is in order the clock goes back once in that hour, and the rows behind
are of the second pass. It is looked for in three ways, the first that fits:

1. the file goes on in time that day, or is made of sections that do (sorted by sensor, then by time), and within each
   the clock goes back at most once in the hour;
2. it does so within each event type;
3. the key, which has the timestamp, says that a row is another one: of two rows with the same key and time the later
   one is of the second pass, if the clock goes back, or stands still, once within the key.

The clock goes back by half an hour or more (half of what the clocks are put back by): less may be a row that came
late. A step back by less counts only in a file that is in order all day else, two rows at one time only if it also
has no other two. Where nothing fits, all rows are of the first pass; so they are where the hour reaches over midnight
(in Newfoundland until 2011), since days would overlap.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.row_checks import LINE, LOCAL_DAY, TWICE, day_of
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.timestamps import US_PER_DAY, RepeatedHour, repeated_hours

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ClockBack:
    """The rows of a file at which the clock goes back within an event type, to one day (None: days are not told apart).

    `rows` of them are earlier than the one of their type before them, by at most `most_us`; `line` and `event_type` are
    of the first.
    """

    day: date | None
    rows: int
    most_us: int
    line: int
    event_type: str

    def __add__(self, other: ClockBack) -> ClockBack:
        """Return the sum of both, which are of one day and file."""
        first = min(self, other, key=lambda one: one.line)
        return replace(first, rows=self.rows + other.rows, most_us=max(self.most_us, other.most_us))

    def said(self, file: str) -> str:
        """A sentence for a person."""
        times = "once" if self.rows == 1 else f"{self.rows:,} times"
        most = timedelta(microseconds=self.most_us)
        return (
            f"{file}: the clock goes back {times} within an event type, by up to {most} (first: {self.event_type} on "
            f"line {self.line}); the rows are put in the order of time"
        )


class FirstRow(NamedTuple):
    """The first row of an event type in a part of a file: its instant, line, and local day (None: not told apart)."""

    instant_us: int
    line: int
    day: date | None


@dataclass(frozen=True)
class WatchedPart:
    """The clock of a part of a file, with what it takes to look at the rows where two parts meet.

    `found` is where it goes back within the part, one for each day; `first` and `latest` have the first row of each
    event type in the part, and the instant of its last one. Parts are added up in their order.
    """

    found: tuple[ClockBack, ...] = ()
    first: Mapping[str | None, FirstRow] = field(default_factory=dict)
    latest: Mapping[str | None, int] = field(default_factory=dict)

    @classmethod
    def of(cls, events: pa.Table, type_attribute: str) -> WatchedPart:
        """Look at consecutive rows: checked events, with their lines and, if they have them, local days."""
        if not events.num_rows:
            return cls()
        stamps = events.column(TIMESTAMP).cast(pa.int64()).to_numpy()
        lines = events.column(LINE).to_numpy()
        numbers = events.column(LOCAL_DAY).to_numpy() if LOCAL_DAY in events.column_names else None
        encoded = events.column(type_attribute).combine_chunks().dictionary_encode()
        names = [*encoded.dictionary.to_pylist(), None]
        codes = encoded.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False)
        rows = np.arange(len(codes))
        first, last = np.full((2, len(names)), -1)
        first[codes[::-1]], last[codes] = rows[::-1], rows

        def day(row: int) -> date | None:
            return None if numbers is None else day_of(int(numbers[row]))

        found: dict[date | None, ClockBack] = {}
        if (stamps[1:] < stamps[:-1]).any():
            order = np.argsort(codes, kind="stable")
            same = codes[order[1:]] == codes[order[:-1]]
            by_us = np.zeros(len(codes), np.int64)
            by_us[order[1:]] = np.where(same, stamps[order[:-1]] - stamps[order[1:]], 0)
            back = np.flatnonzero(by_us > 0)
            for number in np.unique(numbers[back]).tolist() if numbers is not None else [None] * bool(len(back)):
                own = back if numbers is None else back[numbers[back] == number]
                kind = str(names[codes[own[0]]])
                found[day(own[0])] = ClockBack(day(own[0]), len(own), int(by_us[own].max()), int(lines[own[0]]), kind)
        seen = [(names[code], int(first[code]), int(last[code])) for code in np.flatnonzero(first >= 0).tolist()]
        return cls(
            tuple(found.values()),
            {name: FirstRow(int(stamps[row]), int(lines[row]), day(row)) for name, row, _ in seen},
            {name: int(stamps[row]) for name, _, row in seen},
        )

    def __add__(self, later: WatchedPart) -> WatchedPart:
        """Return what is seen of both, the later of which follows this one in the file."""
        meeting = (
            ClockBack(row.day, 1, self.latest[name] - row.instant_us, row.line, str(name))
            for name, row in later.first.items()
            if name in self.latest and row.instant_us < self.latest[name]
        )
        found: dict[date | None, ClockBack] = {}
        for back in (*self.found, *meeting, *later.found):
            found[back.day] = found[back.day] + back if back.day in found else back
        in_order = tuple(found[day] for day in sorted(found, key=lambda day: day or date.min))
        return WatchedPart(in_order, {**later.first, **self.first}, {**self.latest, **later.latest})


_SECTION = "_section"
_ROWS_OF_A_SECTION = 10
"""Rows for each section of a file, at least on average; with fewer the file is not in order."""
_RISES = 4
"""Steps forward for each step back within event types, at least; with fewer the rows are not in order."""


@dataclass(frozen=True)
class _SeenDay:
    """The rows of a day, in a file or a part of it, that are of an hour that comes twice, and what is seen of all.

    `rows` have timestamps of the first pass, lines, types, keys, and the section of the file, counted from 0. There are
    `splits` between sections; `ties` are rows outside of such hours at the time of the row before. `first` and `last`
    of the `events` have an instant, and whether it is of such an hour.
    """

    rows: tuple[pa.Table, ...]
    events: int
    splits: int
    ties: int
    first: tuple[int, bool]
    last: tuple[int, bool]

    @classmethod
    def of(cls, events: pa.Table, schema: StreamSchema) -> _SeenDay:
        stamps = events.column(TIMESTAMP).cast(pa.int64()).to_numpy()
        twice = events.column(TWICE).to_numpy()
        split = _splits(stamps[:-1], stamps[1:], twice[:-1] & twice[1:])
        ties = int(((stamps[1:] == stamps[:-1]) & ~twice[1:]).sum())
        names = dict.fromkeys((TIMESTAMP, LINE, schema.type_attribute, *schema.key))
        section = pa.array(np.concatenate([[0], np.cumsum(split)]))
        rows = events.select(list(names)).append_column(_SECTION, section).filter(pa.array(twice))
        first, last = ((int(stamps[at]), bool(twice[at])) for at in (0, -1))
        return cls((rows,), events.num_rows, int(split.sum()), ties, first, last)

    def __add__(self, later: _SeenDay) -> _SeenDay:
        (before, before_twice), (after, after_twice) = self.last, later.first
        offset = self.splits + int(_splits(before, after, before_twice & after_twice))
        moved = (
            table.set_column(table.num_columns - 1, _SECTION, pa.array(table.column(_SECTION).to_numpy() + offset))
            for table in later.rows
        )
        return _SeenDay(
            (*self.rows, *moved),
            self.events + later.events,
            offset + later.splits,
            self.ties + later.ties + (before == after and not after_twice),
            self.first,
            later.last,
        )


@dataclass(frozen=True)
class SeenHours:
    """The days in a file, or in a part of it, that have an hour that comes twice; parts are added up in their order.

    Only the rows of such a day decide about its hour, so that it does not matter which other days are read.
    """

    days: Mapping[int, _SeenDay] = field(default_factory=dict)

    @classmethod
    def of(cls, events: pa.Table, schema: StreamSchema, days: Collection[date] | None = None) -> SeenHours:
        """Look at checked rows, which are consecutive in a file, of some days (None: of all)."""
        local = events.column(LOCAL_DAY).to_numpy()
        found = {}
        for number in np.unique(local).tolist():
            day = day_of(number)
            if (days is None or day in days) and _hour_of(day, schema.timezone) is not None:
                found[number] = _SeenDay.of(events.filter(pa.array(local == number)), schema)
        return cls(found)

    def __add__(self, later: SeenHours) -> SeenHours:
        """Return what is seen of both, the later of which follows this one in the file."""
        both = {day: self.days[day] + seen if day in self.days else seen for day, seen in later.days.items()}
        return SeenHours({**self.days, **both})

    @property
    def lines(self) -> Array:
        """The lines of the rows that are of an hour that comes twice."""
        return np.concatenate(
            [np.zeros(0, np.int64), *(rows.column(LINE).to_numpy() for day in self.days.values() for rows in day.rows)]
        )


def _hour_of(day: date, timezone: str) -> RepeatedHour | None:
    return next((hour for hour in repeated_hours(timezone, day.year) if hour.day == day), None)


def _splits(before: Any, after: Any, both_twice: Any) -> Any:
    """Return whether a row begins a section: it is earlier than the one before, and not both are of one such hour."""
    return (after < before) & ~(both_twice & (before - after < US_PER_DAY))


@dataclass(frozen=True)
class SecondPass:
    """The lines of a file, ascending, whose local times are of the second pass, and what a person is told, by day."""

    lines: Array
    notes: tuple[tuple[date, str], ...]


def second_pass(seen: SeenHours, schema: StreamSchema, file: str) -> SecondPass:
    """Decide which rows of a whole file are of the second pass of an hour that comes twice."""
    lines: list[Array] = [np.zeros(0, np.int64)]
    notes: list[tuple[date, str]] = []
    for number, of_day in sorted(seen.days.items()):
        hour = _hour_of(day_of(number), schema.timezone)
        rows = pa.concat_tables(of_day.rows).combine_chunks()
        if hour is None or not rows.num_rows:
            continue
        lines.append(
            rows.column(LINE).to_numpy()[_second(rows, of_day, schema, hour.shift_us // 2) & hour.is_of_one_day]
        )
        notes.append((hour.day, f"{file}: {_said(hour, schema.timezone, rows.num_rows, lines[-1])}"))
    return SecondPass(np.sort(np.concatenate(lines)), tuple(notes))


def _said(hour: RepeatedHour, timezone: str, rows: int, second: Array) -> str:
    ends = (
        f"on {hour.day}, at the end of summer time, the clocks of {timezone} are put back and show {hour} twice; "
        f"the times of {rows:,} row{'' if rows == 1 else 's'} do not say which of the two they are"
    )
    if len(second):
        return (
            f"{ends}; the file is in order, so that {len(second):,} of them, the first on line {second.min()}, are "
            "taken as the second"
        )
    return f"{ends}, nor does the order of the rows; all are taken as the first: give them with their offset from UTC"


def _second(rows: pa.Table, seen: _SeenDay, schema: StreamSchema, half_us: int) -> Array:
    """Mark the rows, all of one hour and in the order of the file, that are of its second pass."""
    stamps = rows.column(TIMESTAMP).cast(pa.int64()).to_numpy()
    fits = False
    if seen.splits * _ROWS_OF_A_SECTION <= seen.events:
        steps = _Steps.within(rows.column(_SECTION).to_numpy(), stamps)
        in_order = not seen.splits
        series = _codes(rows, [schema.type_attribute, *(name for name in schema.key if name != TIMESTAMP)])
        strictly = in_order and not seen.ties and seen.events > len(stamps) and not series.any()
        back, fits = steps.once_back(half_us, small=in_order, tie=strictly)
        if fits and back.any():
            return steps.behind(back)
    if not fits:
        steps = _Steps.within(_codes(rows, [schema.type_attribute]), stamps)
        back, fits = steps.once_back(half_us)
        if fits and back.any() and steps.rises >= _RISES * steps.falls:
            return steps.behind(back)
    if TIMESTAMP not in schema.key:
        return np.zeros(len(stamps), dtype=bool)
    key = _codes(rows, [name for name in schema.key if name != TIMESTAMP])
    steps = _Steps.within(key, stamps)
    back, _ = steps.once_back(half_us, small=True, tie=True)
    return steps.behind(back & steps.has_repeated(stamps))


def _codes(rows: pa.Table, names: Collection[str]) -> Array:
    codes = np.zeros(rows.num_rows, np.int64)
    for name in names:
        own = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        own = own.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = np.unique(codes * (int(own.max()) + 1) + own, return_inverse=True)[1]
    return codes


@dataclass(frozen=True)
class _Steps:
    """The steps in time from row to row within each group.

    The groups of the rows are `codes`, in this `order` of the rows; `step_us` is the time to the next row, which is in
    the `same` group or not.
    """

    order: Array
    codes: Array
    step_us: Array
    same: Array

    @classmethod
    def within(cls, codes: Array, stamps: Array) -> _Steps:
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        return cls(order, codes, np.diff(stamps[order]), codes[1:] == codes[:-1])

    @property
    def rises(self) -> int:
        return int((self.same & (self.step_us > 0)).sum())

    @property
    def falls(self) -> int:
        return int((self.same & (self.step_us < 0)).sum())

    def once_back(self, half_us: int, *, small: bool = False, tie: bool = False) -> tuple[Array, bool]:
        """Mark the one step back of each group that has one.

        That is a step by `half_us` or more; with `small` it may be a shorter one, and with `tie` one of no time, if it
        is the only one. False is returned beside it if a group has several long ones.
        """
        long, back, still = (
            self.same & chosen for chosen in (self.step_us <= -half_us, self.step_us < 0, self.step_us == 0)
        )
        longs, backs, stills = map(self._count, (long, back, still))
        found = long & (longs == 1)
        if small:
            found |= back & (longs == 0) & (backs == 1)
        if tie:
            found |= still & (backs == 0) & (stills == 1)
        return found, bool((longs <= 1).all())

    def has_repeated(self, stamps: Array) -> Array:
        """Mark the steps of groups in which a time comes more than once."""
        by_time = np.lexsort((stamps[self.order], self.codes))
        times = stamps[self.order][by_time]
        return self._count(self.same & (times[1:] == times[:-1])) > 0

    def behind(self, back: Array) -> Array:
        """Mark the rows behind the marked step of their group."""
        passed = np.concatenate([[0], np.cumsum(back)])
        behind = np.empty(len(self.order), dtype=bool)
        behind[self.order] = passed > passed[np.searchsorted(self.codes, self.codes)]
        return behind

    def _count(self, marked: Array) -> Array:
        """Return for each step how many of its group are marked."""
        of = self.codes[1:]
        return np.bincount(of[marked], minlength=int(self.codes[-1]) + 1)[of]
