"""The hour that comes twice: which rows of a file are of its second pass.

At the end of summer time the clocks show an hour twice. Local times without an offset do not say which of the two they
are; the order of the file does. In rows that are in order the clock goes back once in that hour, and the rows behind
are of the second pass. It is looked for in two ways, the first that fits:

1. within each event type the clock goes back at most once, and goes on else;
2. the key, which has the timestamp, says that a row is another one: of two rows with the same key and time the later
   one is of the second pass, if the clock goes back, or stands still, once within the key.

The clock goes back by half an hour or more (half of what the clocks are put back by): less may be a row that came
late. Within a key less counts too, if it is the only step back. Where nothing fits, all rows are of the first pass; so
they are where the hour reaches over midnight (in Newfoundland until 2011), since days would overlap.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.row_checks import LINE, LOCAL_DAY, TWICE, day_of
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.timestamps import RepeatedHour, repeated_hours

Array = np.ndarray[Any, Any]

_RISES = 4
"""Steps forward for each step back within event types, at least; with fewer the rows are not in order."""


def rows_shown_twice(events: pa.Table, schema: StreamSchema) -> pa.Table:
    """Return what decides about the checked rows whose local time the clocks show twice: time, line, day, type, key."""
    names = dict.fromkeys((TIMESTAMP, LINE, LOCAL_DAY, schema.type_attribute, *schema.key))
    return events.filter(events.column(TWICE)).select(list(names))


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
        day = day_of(number)
        hour = next((hour for hour in repeated_hours(schema.timezone, day.year) if hour.day == day), None)
        if hour is None:
            continue
        rows = twice.filter(pc.equal(twice.column(LOCAL_DAY), number)).combine_chunks()
        second = _second(rows, schema, hour.shift_us // 2) & hour.is_of_one_day
        lines.append(rows.column(LINE).to_numpy()[second])
        notes.append((day, f"{file}: {_said(hour, schema.timezone, rows.num_rows, lines[-1])}"))
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


def _second(rows: pa.Table, schema: StreamSchema, half_us: int) -> Array:
    """Mark the rows, all of one hour and in the order of the file, that are of its second pass."""
    stamps = rows.column(TIMESTAMP).cast(pa.int64()).to_numpy()
    steps = _Steps.within(_codes(rows, [schema.type_attribute]), stamps)
    long = steps.of_group & (steps.step_us <= -half_us)
    rises, falls = (int((steps.of_group & chosen).sum()) for chosen in (steps.step_us > 0, steps.step_us < 0))
    if long.any() and (steps.count(long) <= 1).all() and rises >= _RISES * falls:
        return steps.behind(long)
    if TIMESTAMP not in schema.key:
        return np.zeros(len(stamps), dtype=bool)
    steps = _Steps.within(_codes(rows, [name for name in schema.key if name != TIMESTAMP]), stamps)
    only, none = np.zeros(len(steps.step_us), dtype=bool), np.ones(len(steps.step_us), dtype=bool)
    for chosen in (steps.step_us <= -half_us, steps.step_us < 0, steps.step_us == 0):
        marked = steps.of_group & chosen
        only |= none & marked & (steps.count(marked) == 1)
        none &= steps.count(marked) == 0
    return steps.behind(only & steps.has_repeated(stamps))


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

    The groups of the rows are `codes`, in this `order` of the rows; `step_us` is the time to the next row, which is
    `of_group` if both rows are of one group.
    """

    order: Array
    codes: Array
    step_us: Array
    of_group: Array

    @classmethod
    def within(cls, codes: Array, stamps: Array) -> _Steps:
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        return cls(order, codes, np.diff(stamps[order]), codes[1:] == codes[:-1])

    def count(self, marked: Array) -> Array:
        """Return for each step how many of its group are marked."""
        of = self.codes[1:]
        return np.bincount(of[marked], minlength=int(self.codes[-1]) + 1)[of]

    def has_repeated(self, stamps: Array) -> Array:
        """Mark the steps of groups in which a time comes more than once."""
        by_time = np.lexsort((stamps[self.order], self.codes))
        times = stamps[self.order][by_time]
        return self.count(self.of_group & (times[1:] == times[:-1])) > 0

    def behind(self, back: Array) -> Array:
        """Mark the rows behind the marked step of their group."""
        passed = np.concatenate([[0], np.cumsum(back)])
        behind = np.empty(len(self.order), dtype=bool)
        behind[self.order] = passed > passed[np.searchsorted(self.codes, self.codes)]
        return behind
