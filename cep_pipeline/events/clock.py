"""The hour that comes twice: which rows of a file are of its second pass.

At the end of summer time the clocks show an hour twice. Local times without an offset do not say which of the two they
are; the order of the file does. In rows that are in order the clock goes back once in that hour, and the rows behind
are of the second pass. It is looked for in two ways, the first that fits:

1. the file goes on in time that day, or is made of sections that do (sorted by sensor, then by time), or each event
   type does, and within each the clock goes back at most once in the hour;
2. the key, which has the timestamp, says that a row is another one: of two rows with the same key and time the later
   one is of the second pass, if the clock goes back, or stands still, once within the key.

The clock goes back by half an hour or more (half of what the clocks are put back by): less may be a row that came
late. Within a key less counts too, if it is the only step back. Where nothing fits, all rows are of the first pass; so
they are where the hour reaches over midnight (in Newfoundland until 2011), since days would overlap.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.row_checks import LINE, LOCAL_DAY, TWICE, day_of
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.timestamps import US_PER_DAY, day_bounds

Array = np.ndarray[Any, Any]

_RISES = 4
"""Steps forward for each step back within event types, and rows for each section, at least; else there is no order."""


def rows_shown_twice(events: pa.Table, schema: StreamSchema) -> pa.Table:
    """Return what decides about the checked rows whose local time the clocks show twice: time, line, day, type, key.

    With them come the rows of their days at which the file or an event type begins, ends, or goes back in time.
    """
    names = list(dict.fromkeys((TIMESTAMP, LINE, LOCAL_DAY, TWICE, schema.type_attribute, *schema.key)))
    shown = pc.unique(events.filter(events.column(TWICE)).column(LOCAL_DAY)).to_pylist()
    of_all = pc.unique(events.column(LOCAL_DAY)).to_pylist()
    days = [day for day in of_all if day in shown or _is_long(day, schema.timezone)]
    rows = events.select(names).filter(pc.is_in(events.column(LOCAL_DAY), pa.array(days, pa.int32())))
    if not rows.num_rows:
        return rows
    kept = rows.column(TWICE).to_numpy()
    for groups in ([LOCAL_DAY], [LOCAL_DAY, schema.type_attribute]):
        steps = _Steps.within(rows, groups)
        at_end = ~steps.of_group | steps.splits
        kept[steps.order] |= np.concatenate([at_end, [True]]) | np.concatenate([[True], at_end])
    return rows.filter(pa.array(kept))


def _is_long(number: int, timezone: str) -> bool:
    """True for a day on which the clocks are put back."""
    begin, end = day_bounds(day_of(number), timezone)
    return end - begin > US_PER_DAY


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
        begin, end = day_bounds(day, schema.timezone)
        rows = twice.filter(pc.equal(twice.column(LOCAL_DAY), number)).combine_chunks()
        shown = int(pc.sum(rows.column(TWICE)).as_py())
        if not shown:
            continue
        shift_us = end - begin - US_PER_DAY  # none of the day before, where the hour reaches over midnight
        lines.append(_second(rows, schema, shift_us // 2) if shift_us > 0 else np.zeros(0, np.int64))
        notes.append((day, f"{file}: {_said(day, schema.timezone, shown, lines[-1])}"))
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
    """Return the lines of those rows of a day, in the order of the file, that are of the second pass of its hour."""
    for groups in ([], [schema.type_attribute]):
        whole = _Steps.within(rows, groups)
        steps = whole.by_section()
        long = steps.of_group & (steps.step_us <= -half_us)
        both = steps.of_group & steps.both_twice
        rises, falls = (int((both & chosen).sum()) for chosen in (steps.step_us > 0, steps.step_us < 0))
        in_order = steps.twice.sum() >= _RISES * whole.splits.sum() and (not groups or rises >= _RISES * falls)
        if long.any() and (steps.count(long) <= 1).all() and in_order:
            return steps.lines_behind(long)
    if TIMESTAMP not in schema.key:
        return np.zeros(0, np.int64)
    rows = rows.filter(rows.column(TWICE)).combine_chunks()
    steps = _Steps.within(rows, [name for name in schema.key if name != TIMESTAMP])
    only, none = np.zeros(len(steps.step_us), dtype=bool), np.ones(len(steps.step_us), dtype=bool)
    for chosen in (steps.step_us <= -half_us, steps.step_us < 0, steps.step_us == 0):
        marked = steps.of_group & chosen
        only |= none & marked & (steps.count(marked) == 1)
        none &= steps.count(marked) == 0
    return steps.lines_behind(only & steps.has_repeated)


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

    `order` are the rows, group after group; `codes` (the group), `stamps`, `lines` and `twice` are those of the rows in
    this order.
    """

    order: Array
    codes: Array
    stamps: Array
    lines: Array
    twice: Array

    @classmethod
    def within(cls, rows: pa.Table, names: Collection[str]) -> _Steps:
        codes = _codes(rows, names)
        order = np.argsort(codes, kind="stable")
        columns = (rows.column(TIMESTAMP).cast(pa.int64()), rows.column(LINE), rows.column(TWICE))
        return cls(order, codes[order], *(one.to_numpy()[order] for one in columns))

    @property
    def step_us(self) -> Array:
        """The time from each row to the next."""
        return np.diff(self.stamps)

    @property
    def of_group(self) -> Array:
        """True for steps of which both rows are of one group."""
        return np.asarray(self.codes[1:] == self.codes[:-1])

    @property
    def both_twice(self) -> Array:
        """True for steps of which both rows are of the hour."""
        return np.asarray(self.twice[1:] & self.twice[:-1])

    @property
    def splits(self) -> Array:
        """True for steps back of a group that are not within the hour."""
        return np.asarray(self.of_group & (self.step_us < 0) & ~self.both_twice)

    def by_section(self) -> _Steps:
        """The steps of groups that end where the time goes back otherwise than within the hour."""
        return replace(self, codes=np.concatenate([[0], np.cumsum(~self.of_group | self.splits)]))

    def count(self, marked: Array) -> Array:
        """Return for each step how many of its group are marked."""
        of = self.codes[1:]
        return np.bincount(of[marked], minlength=int(self.codes[-1]) + 1)[of]

    @property
    def has_repeated(self) -> Array:
        """True for steps of groups in which a time comes more than once."""
        times = self.stamps[np.lexsort((self.stamps, self.codes))]
        return self.count(self.of_group & (times[1:] == times[:-1])) > 0

    def lines_behind(self, back: Array) -> Array:
        """Return the lines of the rows of the hour that are behind the marked step of their group."""
        passed = np.concatenate([[0], np.cumsum(back)])
        behind = passed > passed[np.searchsorted(self.codes, self.codes)]
        return self.lines[behind & self.twice]
