"""The hour that comes twice: which rows of a file are of its second pass.

At the end of summer time the clocks show an hour twice. Local times without an offset do not say which of the two they
are; the order of the file does. In rows that are in order the clock goes back once in that hour, and the rows behind
are of the second pass. It is looked for in the rows of the hour in three ways, the first that fits:

1. in all of them, where the clock goes back by half an hour or more (half of what the clocks are put back by) at most
   once: less may be a row that came late;
2. in those of each event type, in the same way;
3. in those of each key that has the timestamp: of two rows with the same key and time the later one is of the second
   pass, if the clock goes back, or stands still, once within the key.

Where nothing fits, all rows are of the first pass; so they are where the hour reaches over midnight (in Newfoundland
until 2011), since days would overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.row_checks import LINE, LOCAL_DAY, TWICE, day_of
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.timestamps import US_PER_DAY, day_bounds

Array = np.ndarray[Any, Any]

_RISES = 4
"""Steps forward for each step back within event types, at least; else there is no order."""


def rows_shown_twice(events: pa.Table, schema: StreamSchema) -> pa.Table:
    """Return what decides about the checked rows whose local time the clocks show twice: time, line, day, type, key."""
    names = list(dict.fromkeys((TIMESTAMP, LINE, LOCAL_DAY, schema.type_attribute, *schema.key)))
    return events.filter(events.column(TWICE)).select(names)


@dataclass(frozen=True)
class SecondPass:
    """The lines of a file, ascending, whose local times are of the second pass, and what a person is told, by day."""

    lines: Array
    notes: tuple[tuple[date, str], ...]


def second_pass(twice: pa.Table, schema: StreamSchema, file: str) -> SecondPass:
    """Decide which rows of a file are of the second pass, from all its `rows_shown_twice` in their order.

    Only the rows of a day decide about its hour, so that it does not matter which other days are read.
    """
    lines: list[Array] = [np.zeros(0, np.int64)]
    notes: list[tuple[date, str]] = []
    for number in sorted(pc.unique(twice.column(LOCAL_DAY)).to_pylist()):
        day, zone = day_of(number), schema.file_timezone
        rows = twice.filter(pc.equal(twice.column(LOCAL_DAY), number)).combine_chunks()
        begin, end = day_bounds(rows.column(TIMESTAMP)[0].as_py().astimezone(ZoneInfo(zone)).date(), zone)
        shift_us = end - begin - US_PER_DAY  # none of the day before, where the hour reaches over midnight
        lines.append(_second(rows, schema, shift_us // 2) if shift_us > 0 else np.zeros(0, np.int64))
        notes.append((day, f"{file}: {_said(day, zone, rows.num_rows, lines[-1])}"))
    return SecondPass(np.sort(np.concatenate(lines)), tuple(notes))


def _said(day: date, timezone: str, rows: int, second: Array) -> str:
    ends = (
        f"on {day}, at the end of summer time, the clocks of {timezone} are put back and show some times twice; "
        f"the times of {rows:,} row{'' if rows == 1 else 's'} do not say which of the two they are"
    )
    if len(second):
        return (
            f"{ends}; the file is in order, so that {len(second):,} of them, the first on line {second.min()}, are "
            "taken as the second"
        )
    return f"{ends}, nor does the order of the rows; all are taken as the first: give them with their offset from UTC"


def _second(rows: pa.Table, schema: StreamSchema, half_us: int) -> Array:
    """Return the lines of those rows of an hour, in the order of the file, that are of its second pass."""
    for names in ([], [schema.type_attribute]):
        steps = _Steps.within(rows, names)
        back = steps.of_group & (steps.step_us <= -half_us)
        rises, falls = (int((steps.of_group & chosen).sum()) for chosen in (steps.step_us > 0, steps.step_us < 0))
        if back.any() and steps.count(back).max() == 1 and (not names or rises >= _RISES * falls):
            return steps.lines_behind(back)
    if TIMESTAMP not in schema.key:
        return np.zeros(0, np.int64)
    steps = _Steps.within(rows, [name for name in schema.key if name != TIMESTAMP])
    back = steps.of_group & (steps.step_us <= 0)
    times = np.unique(np.stack([steps.groups, steps.stamps]), axis=1)
    has_repeated = np.bincount(steps.groups) > np.bincount(times[0])
    return steps.lines_behind(back & ((steps.count(back) == 1) & has_repeated)[steps.groups[1:]])


@dataclass(frozen=True)
class _Steps:
    """The steps in time from row to row within each group, whose rows stand one after the other."""

    groups: Array
    stamps: Array
    lines: Array

    @classmethod
    def within(cls, rows: pa.Table, names: Sequence[str]) -> _Steps:
        rows = rows.sort_by([(name, "ascending") for name in (*names, LINE)])
        differs = np.zeros(rows.num_rows - 1, bool)
        for name in names:
            codes = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
            differs |= codes[1:] != codes[:-1]
        stamps = rows.column(TIMESTAMP).cast(pa.int64()).to_numpy()
        return cls(np.concatenate([[0], np.cumsum(differs)]), stamps, rows.column(LINE).to_numpy())

    @property
    def step_us(self) -> Array:
        """The time from each row to the next."""
        return np.diff(self.stamps)

    @property
    def of_group(self) -> Array:
        """True for steps of which both rows are of one group."""
        return np.asarray(self.groups[1:] == self.groups[:-1])

    def count(self, marked: Array) -> Array:
        """Return how many steps of each group are marked."""
        return np.bincount(self.groups[1:][marked], minlength=int(self.groups[-1]) + 1)

    def lines_behind(self, back: Array) -> Array:
        """Return the lines of the rows that are behind the marked step of their group."""
        passed = np.concatenate([[0], np.cumsum(back)])
        return self.lines[passed > passed[np.searchsorted(self.groups, self.groups)]]
