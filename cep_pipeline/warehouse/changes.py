"""`EventsChange`: how the events of a day differ from those published before it was redone, and what that touches.

Late rows change a day that later days have read already: patterns look back over midnight. A redo compares the two
versions of the day, and the catalog keeps, for each type of event, when the last one that differs occurred. The matches
of a later day stay as they are where no pattern has read a changed event. Whatever cannot be told counts as changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cep_pipeline.events.columns import DAY, SEQ, TIMESTAMP
from cep_pipeline.events.type_spells import spells_in, type_attribute_in
from cep_pipeline.lazy_names import late_module
from cep_pipeline.storage import open_parquet, read_footer, read_group

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern

pc = late_module("pyarrow.compute")

Array = npt.NDArray[Any]

MOST_COMPARED = 1_000_000
"""Number of events at the end of a day that are compared; those before them count as changed."""
MOST_TYPES = 100
"""If more types than this differ, the last change is not found type by type."""


@dataclass(frozen=True)
class EventsChange:
    """The difference between the events of a day as they were and as they are.

    `types` has the timestamp of the last event that differs (microseconds UTC) by type, None for events without one.
    Events of other types may differ up to `others_us`; None: they do not. There are `shift` events more than there
    were: by so many the positions in the day of all events after the last one that differs have changed.
    """

    types: Mapping[str | None, int] = field(default_factory=dict)
    others_us: int | None = None
    shift: int = 0

    def last_us(self, types: frozenset[str] | None = None) -> int | None:
        """Return when the last event of some types (None: of any) that differs occurred; None where none does."""
        found = self.types.values() if types is None else [us for name, us in self.types.items() if name in types]
        return max([*found, *([] if self.others_us is None else [self.others_us])], default=None)

    def then(self, later: EventsChange) -> EventsChange:
        """Return both changes, one after the other, as one."""
        both = (self, later)
        names = {**self.types, **later.types}
        types = {name: max(us for one in both if (us := one.types.get(name)) is not None) for name in names}
        others = [one.others_us for one in both if one.others_us is not None]
        return EventsChange(types, max(others, default=None), self.shift + later.shift)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, read back by `from_json`."""
        types = [[name, us] for name, us in self.types.items()]
        return {"types": types, "others_us": self.others_us, "shift": self.shift}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> EventsChange:
        """Read the JSON form."""
        return cls(dict(document["types"]), document["others_us"], document["shift"])


def find_change(before: Sequence[str], now: Sequence[str], columns: pa.Schema) -> EventsChange | None:
    """Compare the files of two versions of a day's events; None where they do not say which attribute is the type.

    At most `MOST_COMPARED` events of each version, and a row group, are in memory.
    """
    attributes = {attribute for path in (*before, *now) if (attribute := type_attribute_in(read_footer(path).metadata))}
    if len(attributes) != 1:
        return None
    compared = pa.schema([column for column in columns if column.name not in (SEQ, DAY)])
    return _compare(_LastEvents.of(before, compared), _LastEvents.of(now, compared), attributes.pop())


def may_have(paths: Sequence[str], types: frozenset[str]) -> bool:
    """Return whether files of events may have events of one of these types, as far as their summaries tell."""
    for path in paths:
        footer = read_footer(path).metadata
        attribute = type_attribute_in(footer)
        spells = spells_in(footer, attribute) if attribute is not None else None
        if spells is None or any(len(spells.of_type(name)) > 0 for name in types):
            return True
    return False


@dataclass(frozen=True)
class _LastEvents:
    """The last events of a day in order, the number of all of its events, and whether these are all."""

    events: pa.Table
    rows: int

    @property
    def whole(self) -> bool:
        return bool(self.events.num_rows == self.rows)

    @classmethod
    def of(cls, paths: Sequence[str], columns: pa.Schema) -> _LastEvents:
        groups = []
        for path in paths:
            footer = read_footer(path)
            seq = footer.schema.names.index(SEQ)
            for index in range(footer.num_row_groups):
                group = footer.row_group(index)
                groups.append((group.column(seq).statistics.min, path, index, group.num_rows))
        parts = [columns.empty_table()]
        missing = MOST_COMPARED
        for _, path, index, rows in sorted(groups, reverse=True):
            if missing <= 0:
                break
            with open_parquet(path) as file:
                parts.append(read_group(file, index, columns))
            missing -= rows
        return cls(pa.concat_tables(reversed(parts)), sum(rows for *_, rows in groups))


def _compare(before: _LastEvents, now: _LastEvents, type_attribute: str) -> EventsChange:
    """Compare from the end: a type whose events differ is noted with the time, and left out from there on."""
    both = pa.concat_tables([before.events, now.events])
    split = before.events.num_rows
    times = both[TIMESTAMP].cast(pa.int64()).to_numpy()
    kinds, rows = _codes(both[type_attribute]), _row_codes(both)
    first_rows = zip(*np.unique(kinds, return_index=True), strict=True)
    names = {int(kind): _text(both[type_attribute][int(row)].as_py()) for kind, row in first_rows}
    unread_us = max(
        (int(times[at]) for one, at in ((before, 0), (now, split)) if not one.whole), default=None
    )  # an event that was not read is not later
    changed: dict[str | None, int] = {}
    shift = now.rows - before.rows
    left, right = np.arange(split), np.arange(split, len(times))
    while True:
        shared = min(len(left), len(right))
        differ = rows[left[len(left) - shared :]] != rows[right[len(right) - shared :]]
        same = int(np.argmax(differ[::-1])) if differ.any() else shared
        left, right = left[: len(left) - same], right[: len(right) - same]
        if (not len(left) and not before.whole) or (not len(right) and not now.whole):
            return EventsChange(changed, unread_us, shift)
        if not len(left) and not len(right):
            return EventsChange(changed, None, shift)
        if len(changed) > MOST_TYPES:
            return EventsChange(changed, int(max(times[end[-1]] for end in (left, right) if len(end))), shift)
        at, found = _differing(left, right, times, kinds, rows)
        changed.update(dict.fromkeys((names[int(kind)] for kind in found), at))
        left, right = (side[~np.isin(kinds[side], found)] for side in (left, right))


def _text(event_type: Any) -> str | None:
    """Return an event's type as patterns and summaries have it."""
    return None if event_type is None else str(event_type)


def _differing(left: Array, right: Array, times: Array, kinds: Array, rows: Array) -> tuple[int, Array]:
    """Return the time of the last event in one of two versions that the other has not, and the types that differ.

    The last events of the two differ. Events of one timestamp are compared type by type, and where each type has the
    same ones, it is the order of the types that differs.
    """
    at = max(int(times[side[-1]]) for side in (left, right) if len(side))
    last = [side[times[side] == at] for side in (left, right)]
    present = np.unique(kinds[np.concatenate(last)])
    found = [kind for kind in present if not np.array_equal(*(rows[side[kinds[side] == kind]] for side in last))]
    return at, np.array(found) if found else present


def _row_codes(events: pa.Table) -> Array:
    """Return a number for each row: equal exactly where all values are."""
    codes = np.zeros(events.num_rows, np.int64)
    for column in events.columns:
        own = _codes(column)
        _, codes = np.unique(codes * (len(own) + 1) + own + 1, return_inverse=True)
    return codes


def _codes(column: pa.ChunkedArray | pa.Array) -> Array:
    """Return a number for each value, equal exactly where the bits are; -1 for null."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_list(values.type):
        lengths = pc.list_value_length(values)
        ends = np.cumsum([0, *lengths.fill_null(0).to_numpy()]) * np.dtype(np.int64).itemsize
        content, known = _codes(values.flatten()).tobytes(), dict[bytes, int]()
        codes = [known.setdefault(content[begin:end], len(known)) for begin, end in pairwise(ends)]
        return np.where(lengths.is_null().to_numpy(zero_copy_only=False), -1, np.array(codes, np.int64))
    if pa.types.is_floating(values.type):
        values = values.cast(pa.float64()).view(pa.int64())
    return np.asarray(values.dictionary_encode().indices.fill_null(-1).to_numpy(), np.int64)


@dataclass(frozen=True)
class ReadBefore:
    """The part of an earlier day that the matches of a later day have read.

    The later day owns matches from `start_us` on, and the earlier one ends at `end_us`. `first_event_us` returns the
    timestamp of the first event of all matches of the later day, None where it has no matches.
    """

    patterns: Sequence[Pattern]
    start_us: int
    end_us: int
    first_event_us: Callable[[], int | None]

    def touched_by(self, change: EventsChange) -> str:
        """Say why a change of the earlier day touches the matches of the later one; "" where it does not.

        A pattern reads events of its types in the look-back before the day. Bindings and ids hold positions in the day,
        so a match with an event of the earlier day is touched where positions have changed.
        """
        from cep_pipeline.detection.output_policy import has_output_policy
        from cep_pipeline.slices.events_input import columns_of
        from cep_pipeline.slices.ownership import look_back

        anything = change.last_us()
        if anything is None:
            return ""
        for pattern in self.patterns:
            if pattern.window.time_us is None:
                return f"pattern {pattern.name} counts events"
            if SEQ in columns_of(pattern):
                return f"pattern {pattern.name} reads {SEQ}"
            since = self.start_us - look_back([pattern]).time_us
            if has_output_policy(pattern) and (change.shift or anything >= since):
                return f"pattern {pattern.name} has OUTPUT or CONSUME, which compare positions"
            last = change.last_us(_types_read(pattern))
            if last is not None and last >= since:
                return f"pattern {pattern.name} reads events from {_clock(since)} on, of which one of {_clock(last)} is"
        first = self.first_event_us()
        if first is not None and first < self.end_us and (change.shift or anything >= first):
            return "matches hold events of it whose positions have changed"
        return ""


def _types_read(pattern: Pattern) -> frozenset[str] | None:
    """Return the types of event on which matches of a pattern depend, None: on any event."""
    from cep_pipeline.patterns.pattern import Strategy

    types = {name for operand in pattern.operands for name in operand.types}
    contiguous = pattern.strategy in (Strategy.STRICT_CONTIGUITY, Strategy.PARTITION_CONTIGUITY)
    return None if contiguous or pattern.base_type in types else frozenset(types)


def _clock(instant_us: int) -> str:
    return f"{datetime.fromtimestamp(instant_us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
