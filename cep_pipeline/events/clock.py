"""Clocks that go back: rows of a raw file that are earlier than the row of their event type before them.

A file may hold its events in any order, and they are put in the order of time. That a file is sorted by event type, and
then by time, is ordinary; within a type the clock goes on. Where it does not, a clock was set back, a file was put
together wrongly, or rows came late: matches are still those of the order of time, but a person should know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.row_checks import LINE, LOCAL_DAY, day_of

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
    event type in the part, and the instant of its last one.
    """

    found: tuple[ClockBack, ...] = ()
    first: Mapping[str | None, FirstRow] = field(default_factory=dict)
    latest: Mapping[str | None, int] = field(default_factory=dict)


def found_in(parts: Iterable[WatchedPart]) -> tuple[ClockBack, ...]:
    """Return where the clock of a file goes back, one for each day; its parts come in order."""
    latest: dict[str | None, int] = {}
    found: dict[date | None, ClockBack] = {}
    for part in parts:
        meeting = (
            ClockBack(row.day, 1, latest[name] - row.instant_us, row.line, str(name))
            for name, row in part.first.items()
            if name in latest and row.instant_us < latest[name]
        )
        for back in (*meeting, *part.found):
            found[back.day] = found[back.day] + back if back.day in found else back
        latest.update(part.latest)
    return tuple(found[day] for day in sorted(found, key=lambda day: day or date.min))


class ClockWatch:
    """Watches the clock of one file, or of a part of it, from its beginning, by event type.

    It takes O(rows), and memory for the first row and the latest instant of each event type.
    """

    def __init__(self, type_attribute: str) -> None:
        self._type_attribute = type_attribute
        self._first: dict[str | None, FirstRow] = {}
        self._latest: dict[str | None, int] = {}
        self._most: int | None = None
        self._found: dict[int, ClockBack] = {}

    def take(self, events: pa.Table) -> None:
        """Look at the next rows of the file: checked events, with their lines and, if they have them, local days."""
        if not events.num_rows:
            return
        stamps = events.column(TIMESTAMP).cast(pa.int64()).to_numpy()
        encoded = events.column(self._type_attribute).combine_chunks().dictionary_encode()
        names = encoded.dictionary.to_pylist()
        codes = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
        names.append(None)
        ascending = bool((stamps[1:] >= stamps[:-1]).all()) and (self._most is None or int(stamps[0]) >= self._most)
        if not ascending:
            self._look(events, stamps, codes, names)
        last = np.full(len(names), -1)
        last[codes] = np.arange(len(codes))
        seen = np.flatnonzero(last >= 0).tolist()
        self._note_first(events, stamps, codes, {code: names[code] for code in seen if names[code] not in self._first})
        self._latest.update((names[code], int(stamps[last[code]])) for code in seen)
        most = int(stamps.max())
        self._most = most if self._most is None else max(self._most, most)

    @property
    def found(self) -> tuple[ClockBack, ...]:
        """Return where the clock goes back, one for each day."""
        return tuple(self._found[day] for day in sorted(self._found))

    @property
    def part(self) -> WatchedPart:
        """Return what was seen, with the rows that the parts before and after this one are compared with."""
        return WatchedPart(self.found, dict(self._first), dict(self._latest))

    def _note_first(self, events: pa.Table, stamps: Array, codes: Array, new: Mapping[int, str | None]) -> None:
        if not new:
            return
        rows = np.full(max(new) + 1, -1)
        backwards = np.flatnonzero(codes <= max(new))[::-1]
        rows[codes[backwards]] = backwards
        lines = events.column(LINE).to_numpy()
        days = events.column(LOCAL_DAY).to_numpy() if LOCAL_DAY in events.column_names else None
        for code, name in new.items():
            row = int(rows[code])
            day = None if days is None else day_of(int(days[row]))
            self._first[name] = FirstRow(int(stamps[row]), int(lines[row]), day)

    def _look(self, events: pa.Table, stamps: Array, codes: Array, names: list[str | None]) -> None:
        before = np.empty(len(stamps), np.int64)
        order = np.argsort(codes, kind="stable")
        before[order[1:]] = stamps[order[:-1]]
        first = order[np.concatenate([[True], codes[order[1:]] != codes[order[:-1]]])]
        before[first] = [self._latest.get(names[code], _LONG_AGO) for code in codes[first].tolist()]
        back = np.flatnonzero(stamps < before)
        if not len(back):
            return
        days = events.column(LOCAL_DAY).to_numpy()[back] if LOCAL_DAY in events.column_names else np.zeros(len(back))
        lines = events.column(LINE).to_numpy()
        for number in np.unique(days).astype(np.int64).tolist():
            own = back[days == number]
            here = ClockBack(
                day_of(number) if LOCAL_DAY in events.column_names else None,
                len(own),
                int((before[own] - stamps[own]).max()),
                int(lines[own[0]]),
                str(names[codes[own[0]]]),
            )
            self._found[number] = self._found[number] + here if number in self._found else here


_LONG_AGO = -(2**63)
