"""Clocks that go back: rows of a raw file that are earlier than the row of their event type before them.

A file may hold its events in any order, and they are put in the order of time. That a file is sorted by event type, and
then by time, is ordinary; within a type the clock goes on. Where it does not, a clock was set back, a file was put
together wrongly, or rows came late: matches are still those of the order of time, but a person should know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.events.row_checks import LINE, LOCAL_DAY, day_of
from cep_pipeline.events.schema import TIMESTAMP

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ClockBack:
    """Where the clock of a file goes back within an event type.

    Attributes
    ----------
    day
        The local day of the rows that it goes back to; None where days are not told apart.
    rows
        How many rows are earlier than the one of their type before them.
    most_us
        By how many microseconds, at most.
    line, event_type
        The first of them.
    """

    day: date | None
    rows: int
    most_us: int
    line: int
    event_type: str

    def __add__(self, later: ClockBack) -> ClockBack:
        """Both together, of one day."""
        return replace(self, rows=self.rows + later.rows, most_us=max(self.most_us, later.most_us))

    def said(self, file: str) -> str:
        """A sentence for a person."""
        times = "once" if self.rows == 1 else f"{self.rows:,} times"
        most = timedelta(microseconds=self.most_us)
        return (
            f"{file}: the clock goes back {times} within an event type, by up to {most} (first: {self.event_type} on "
            f"line {self.line}); the rows are put in the order of time"
        )


class ClockWatch:
    """Watches the clock of one file, read from its beginning.

    Parameters
    ----------
    type_attribute
        The column that tells the types of events apart.

    Notes
    -----
    O(rows), and memory for the latest instant of each event type.
    """

    def __init__(self, type_attribute: str) -> None:
        self._type_attribute = type_attribute
        self._latest: dict[Any, int] = {}
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
        self._latest.update((names[code], int(stamps[last[code]])) for code in np.flatnonzero(last >= 0).tolist())
        most = int(stamps.max())
        self._most = most if self._most is None else max(self._most, most)

    @property
    def found(self) -> tuple[ClockBack, ...]:
        """Where the clock goes back, one for each day."""
        return tuple(self._found[day] for day in sorted(self._found))

    def _look(self, events: pa.Table, stamps: Array, codes: Array, names: list[Any]) -> None:
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


def sum_of(found: Iterable[ClockBack]) -> ClockBack | None:
    """What was found of several days or parts, in order; None where nothing was."""
    whole: ClockBack | None = None
    for part in found:
        whole = part if whole is None else whole + part
    return whole
