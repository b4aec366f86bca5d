"""Events of one slice, prepared once for all patterns that run over it.

The split by event type, the converted columns and whatever a kernel derives from them (views, index ranges) belong to
the slice and not to a pattern: sharing them is most of what a light workload of many patterns can save.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from cep_pipeline.errors import DataError, InputError
from cep_pipeline.events.columns import ascend
from cep_pipeline.expressions.columns import Array, Column, TableColumns, column_from_arrow
from cep_pipeline.patterns.composing import COMPOSED_MATCH
from cep_pipeline.patterns.structure import EventType, types_of
from cep_pipeline.slices.routines import PADDING, padded_copy, select_codes

Boundary = tuple[int, int]
"""A point `(timestamp in microseconds, seq)` of the stream's order."""
MAX_ROWS = 2**31 - 64
"""Row numbers are int32; a slice that has more must be cut."""

KEPT_BYTES, KEPT_SLICES = 1 << 28, 4
"""Derived arrays are kept up to this size, or up to so many times the size of the slice."""

T = TypeVar("T")


class PreparedEvents:
    """The events of one slice, with the split by type and all derived arrays made on first use.

    Parameters
    ----------
    table
        Events sorted by (timestamp, seq): `timestamp`, `seq` and the attributes.
    type_attribute
        The attribute whose text is an event's type.
    base_type
        A type that every event has, or None.

    Raises
    ------
    InputError
        The table lacks one of the columns `timestamp`, `seq` and the type attribute.
    DataError
        The slice is too large for int32 row numbers.
    """

    def __init__(self, table: pa.Table, *, type_attribute: str, base_type: str | None = None) -> None:
        for name in ("timestamp", "seq", type_attribute):
            if name not in table.column_names:
                raise InputError(f"the events have no column {name!r}; they have {', '.join(table.column_names)}")
        if table.num_rows > MAX_ROWS:
            raise DataError(f"a slice of {table.num_rows:,} events is too large (at most {MAX_ROWS:,}): cut it")
        self.table = table
        self.type_attribute = type_attribute
        self.base_type = base_type
        self._columns = TableColumns(table)
        self._leaves: dict[EventType, Array] = {}
        self._derived: OrderedDict[Hashable, Any] = OrderedDict()
        self._derived_bytes = 0
        self._handles: dict[Hashable, Any] = {}
        self._rows_before: dict[Boundary | int, int] = {}
        self._most_bytes = max(KEPT_BYTES, KEPT_SLICES * table.nbytes)
        self._codes: tuple[Array, list[str]] | None = None
        self._numbers: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def timestamps(self) -> Array:
        """int64, shape (n,): microseconds since the epoch, ascending."""
        return self._columns.column("timestamp").values

    @property
    def seqs(self) -> Array:
        """int64, shape (n,)."""
        return self._columns.column("seq").values

    @cached_property
    def seqs_grow(self) -> bool:
        """True if each event has a larger seq than the one before it."""
        return ascend(self.seqs, strictly=True)

    @cached_property
    def span_us(self) -> int:
        """The time between the first and the last event; 0 if there are none."""
        stamps = self.timestamps
        return int(stamps[-1]) - int(stamps[0]) if len(stamps) else 0

    @cached_property
    def every_row(self) -> Array:
        """int32, with readable elements behind the end: all rows in order."""
        return self.numbers(0, len(self))

    def numbers(self, first: int, end: int) -> Array:
        """int32, with readable elements behind the end: the numbers from `first` up to `end`, below `len(self) + 2`."""
        return self._numbered[first:end]

    @cached_property
    def _numbered(self) -> Array:
        return np.arange(len(self) + 1 + 2 * PADDING, dtype=np.int32)[:-PADDING]

    @cached_property
    def of_stream(self) -> Array | None:
        """bool, shape (n,): False for composed events, which have no base type and no positions; None: there are none.

        Only the longer stream of a composing pattern has composed events (`detection.composition`).
        """
        if COMPOSED_MATCH not in self.table.column_names:
            return None
        composed = self.table.column(COMPOSED_MATCH)
        if composed.null_count == len(composed):
            return None
        own: Array = composed.is_null().to_numpy()
        return own

    def row_back(self, row: int, events: int) -> int:
        """The first row that lies at most so many events of the stream before another one."""
        own = self.of_stream
        if own is None:
            return max(row - events, 0)
        counted = self.derive(("events up to",), lambda: np.cumsum(own))
        before = int(counted[row - 1]) if row else 0
        return int(np.searchsorted(counted, max(before - events, 0)))

    def column(self, name: str) -> Column:
        """The column of an attribute, or of `timestamp` or `seq`; converted on first use."""
        return self._columns.column(name)

    def split(self, event_types: Iterable[EventType]) -> None:
        """Find the rows of all these types in one pass, so that `leaf_rows` need not ask for them one by one."""
        asked = [event_type for event_type in dict.fromkeys(event_types) if event_type not in self._leaves]
        missing = [name for name in dict.fromkeys(chain(*map(types_of, asked))) if name not in self._leaves]
        self._split(missing)
        for event_type in asked:
            if not isinstance(event_type, str):
                of_any = np.zeros(len(self), dtype=bool)
                for name in event_type:
                    of_any[self._leaves[name]] = True
                rows = np.flatnonzero(of_any)
                self._leaves[event_type] = self.every_row if len(rows) == len(self) else padded_copy(rows, np.int32)

    def _split(self, missing: list[str]) -> None:
        if self.base_type in missing:
            missing.remove(self.base_type)
            own = self.of_stream
            self._leaves[self.base_type] = self.every_row if own is None else padded_copy(np.flatnonzero(own), np.int32)
        if not missing:
            return
        codes, names = self._type_codes()
        code_of = {name: code for code, name in reversed([*enumerate(names)])}
        present = [name for name in missing if name in code_of]
        self._leaves.update((name, padded_copy(np.empty(0, np.int32))) for name in missing if name not in code_of)
        if present:
            rows = select_codes(codes, len(names), [code_of[name] for name in present])
            self._leaves.update(zip(present, rows, strict=True))

    def leaf_rows(self, event_type: EventType) -> Array:
        """int32, ascending, with readable elements behind the end: the rows of all events of a type.

        Those of `(A | B)` are the events that have one of the types.
        """
        self.split((event_type,))
        return self._leaves[event_type]

    def rows_before(self, boundary: Boundary) -> int:
        """Count the events before a point of the stream's order."""
        found = self._rows_before.get(boundary)
        if found is None:
            found = self._rows_before[boundary] = rows_before(self.timestamps, self.seqs, boundary)
        return found

    def rows_in(self, part: tuple[Boundary | None, Boundary | None]) -> tuple[int, int]:
        """The rows `[first, end)` of a part of the stream; None is an open end."""
        start, end = part
        first = 0 if start is None else self.rows_before(start)
        return first, len(self) if end is None else self.rows_before(end)

    def rows_before_time(self, timestamp_us: int) -> int:
        """Count the events with an earlier timestamp."""
        found = self._rows_before.get(timestamp_us)
        if found is None:
            found = int(np.searchsorted(self.timestamps, max(timestamp_us, -(2**63))))
            self._rows_before[timestamp_us] = found
        return found

    def derive(self, key: Hashable, make: Callable[[], T]) -> T:
        """The array (or whatever else) kept under `key`, made on first use; patterns share it through its key.

        What has not been asked for longest is let go of beyond `KEPT_BYTES` or some multiple of the slice itself, so
        that memory does not grow with the number of patterns.
        """
        if key in self._derived:
            self._derived.move_to_end(key)
            return cast(T, self._derived[key])
        value = make()
        self._derived[key] = value
        self._derived_bytes += _size_of(value)
        while self._derived_bytes > self._most_bytes and len(self._derived) > 1:
            _, oldest = self._derived.popitem(last=False)
            self._derived_bytes -= _size_of(oldest)
            self._handles.clear()
        return value

    def handle(self, key: Hashable, make: Callable[..., T], *arguments: Any) -> T:
        """An object by which derived arrays are found quickly, such as their addresses, kept under `key`.

        It takes no memory to speak of but holds derived arrays, so that it is let go of when one of them is.
        """
        found = self._handles.get(key)
        if found is None:
            found = make(*arguments)
            self._handles[key] = found
        return cast(T, found)

    def let_go(self) -> None:
        """Forget what was derived, when no more patterns are run over the slice.

        Some of it holds the slice itself. Its memory would be given back by the next collection of cycles only, and a
        following call would take fresh memory, whose first use costs more than reading the events does.
        """
        self._derived.clear()
        self._derived_bytes = 0
        self._handles.clear()

    def number_of(self, key: Hashable) -> int:
        """A number that stands for a key in this slice: keys of derived arrays are made of keys, and hashed often."""
        return self._numbers.setdefault(key, len(self._numbers))

    @contextmanager
    def forgetting(self) -> Iterator[None]:
        """Forget at the end what is derived inside: that of a part of the slice, which nothing else shares."""
        kept, size, handles = self._derived.copy(), self._derived_bytes, self._handles.copy()
        try:
            yield
        finally:
            self._derived, self._derived_bytes, self._handles = kept, size, handles

    def _type_codes(self) -> tuple[Array, list[str]]:
        """int32: a code for each event, -1 for a null type; and the text of each code."""
        if self._codes is None:
            column = self.column(self.type_attribute)
            if column.dictionary is None:
                column = column_from_arrow(self.table.column(self.type_attribute).cast(pa.string()))
            assert column.dictionary is not None
            codes = column.values if column.valid is None else np.where(column.valid, column.values, np.int32(-1))
            self._codes = codes, column.dictionary.tolist()
        return self._codes


def _size_of(value: Any) -> int:
    """Bytes of the arrays in a derived value."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, tuple | list):
        return sum(map(_size_of, value))
    return sum(_size_of(getattr(value, name)) for name in _parts_of(value.__class__))


@cache
def _parts_of(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass that may hold arrays of their own."""
    return tuple(field.name for field in fields(kind) if field.name != "base") if is_dataclass(kind) else ()


def rows_before(timestamps: Array, seqs: Array, point: Boundary) -> int:
    """Count the sorted events before a point."""
    first, last = (int(np.searchsorted(timestamps, point[0], side)) for side in ("left", "right"))
    return first + int(np.searchsorted(seqs[first:last], point[1]))


Streams = dict[tuple[str, str | None], PreparedEvents]
"""Prepared events by the type attribute and the base type."""
