"""The plan switch: which events a plan reads, and which matches are its own, where plans follow one another.

The acep-invariants patent has the partial matches with an event before t0, when a new plan comes, go on by the old one,
and those of new events only by the new one, until t0 + W, when the last old event expires. A match has an event before
t0 exactly if its first event is. So a plan that is in use in `[t0, t1)` owns the matches whose first event comes there,
whatever becomes of them later: each match has one owner, nothing is lost and nothing is found twice, and of plans that
switch faster than windows pass any number are at work at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.detection.clause_runs import JointRun
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Mechanism, Orders
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block, MatchBlock
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.ownership import counts_in_partitions
from cep_pipeline.slices.partitions import Partitions, partitions_of
from cep_pipeline.slices.prepared import PreparedEvents

Array = np.ndarray[Any, Any]

_LONGEST_US = 2**62
"""Windows are cut to this, so that sums with timestamps stay in range."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the stream with the plan that owns the matches which begin in it.

    Attributes
    ----------
    first, stop
        Rows `[first, stop)` of the events that may be a match's first one; at least one.
    orders
        Pattern name -> the orders or trees of the plan.
    shares
        Whether the plan lets its patterns share what these have in common.
    """

    first: int
    stop: int
    orders: Mapping[str, Orders]
    shares: bool = False


@dataclass(frozen=True, slots=True)
class Negations:
    """The demands of negated variables on events outside of a match.

    Attributes
    ----------
    leading
        One has nothing before it: events up to a window before the match's last one may reject it.
    trailing
        One has nothing after it: events up to a window after the match's first one may.
    tied
        Under TIES ANY, events of the time of the first or last one may, whatever their place.
    """

    leading: bool
    trailing: bool
    tied: bool

    @classmethod
    def of(cls, pattern: Pattern) -> Negations:
        negated = [(clause, name) for clause in pattern.clauses for name in clause.negations]
        leading = any(not clause.predecessors(name) for clause, name in negated)
        trailing = any(not clause.successors(name) for clause, name in negated)
        return cls(leading, trailing, bool(negated) and not before_is_earlier(pattern.ties))


class Reading:
    """The events of a stream that decide about the matches of a pattern that begin in a part of it.

    Attributes
    ----------
    negations
        What its negated variables ask of other events.
    """

    def __init__(self, pattern: Pattern, stream: EventStream) -> None:
        self._pattern, self._stream = pattern, stream
        self.negations = Negations.of(pattern)
        self._whole: tuple[int, PreparedEvents] | None = None

    def has_come(self, stop: int) -> bool:
        """True if all events have been read that decide about matches which begin before this row.

        Where a window counts the events of a partition, which may never come, that is at the end of the stream.
        """
        if self._stream.ended:
            return True
        return not counts_in_partitions(self._pattern) and self._behind(stop) < len(self._stream)

    def ahead(self, stop: int) -> int:
        """The number of events behind this row that matches begun before it may hold; 0 where that is not known."""
        return 0 if counts_in_partitions(self._pattern) else self._behind(stop) - stop

    def window_at(self, row: int) -> int:
        """The number of events of the latest window before an event that has come; 0 where that is not known."""
        return 0 if counts_in_partitions(self._pattern) else row - self.window_before(row)

    def rows(self, first: int, stop: int) -> tuple[int, int]:
        """The rows `[from, up to)` that matches which begin in `[first, stop)` depend on."""
        if not counts_in_partitions(self._pattern):
            return self._before(first), self._behind(stop)
        partitions, own, events = self._partitions(), np.arange(first, stop), len(self._stream)
        assert self._pattern.window.events is not None
        distance = min(self._pattern.window.events - 1, events)
        start = int(partitions.rows_back(own, distance).min()) if self.negations.leading else first
        end = min(int(partitions.rows_ahead(own, distance).max()) + 1, events)
        return self._with_tied_before(start, first), self._with_tied_behind(end)

    def rows_of_ends(self, first: int, stop: int) -> tuple[int, int]:
        """The rows `[from, up to)` that matches which end in `[first, stop)` depend on."""
        if counts_in_partitions(self._pattern):
            return 0, len(self._stream)
        end = self._behind(stop) if self.negations.trailing else stop
        return self.ends_read_from(first), self._with_tied_behind(end)

    def ends_read_from(self, first: int) -> int:
        """The row from which on events are read for matches that end with `first`, an event to come, or later."""
        start = self.window_before(first)
        return self._with_tied_before(start, start) if start else 0

    def reads_from(self, first: int) -> int:
        """The row from which on events are read for matches that begin at `first`, an event to come, or later."""
        if counts_in_partitions(self._pattern) or not len(self._stream):
            return 0
        return self._before(min(first, len(self._stream) - 1))

    def window_before(self, row: int) -> int:
        """The first row that a match which ends with this event, or one to come, may hold or be rejected by."""
        if counts_in_partitions(self._pattern) or not len(self._stream):
            return 0
        window, row = self._pattern.window, min(row, len(self._stream) - 1)
        if window.time_us is not None:
            return self._stream.row_at(self._stream.time_of(row) - min(window.time_us, _LONGEST_US))
        assert window.events is not None
        return self._with_tied_before(max(row - (window.events - 1), 0), row)

    def _before(self, first: int) -> int:
        """The first row that may reject matches which begin at this row or later, or this row."""
        start = self.window_before(first) if self.negations.leading else first
        return self._with_tied_before(start, first)

    def _behind(self, stop: int) -> int:
        """The row behind the last one that matches which begin before `stop` may hold or be rejected by."""
        window, stream = self._pattern.window, self._stream
        if window.time_us is not None:
            return stream.row_at(stream.time_of(stop - 1) + min(window.time_us, _LONGEST_US), "right")
        assert window.events is not None
        return self._with_tied_behind(min(stop + window.events - 1, len(stream)))

    def _with_tied_before(self, start: int, first: int) -> int:
        if not self.negations.tied:
            return start
        return min(start, self._stream.row_at(self._stream.time_of(first)))

    def _with_tied_behind(self, end: int) -> int:
        if not self.negations.tied:
            return end
        return self._stream.row_at(self._stream.time_of(end - 1), "right")

    def _partitions(self) -> Partitions:
        """The partitions of all events that have been read."""
        if self._whole is None or self._whole[0] != len(self._stream):
            self._whole = len(self._stream), _prepared(self._pattern, self._stream.table)
        return partitions_of(self._whole[1], self._pattern.partition_by)


class SlicesOfStream:
    """Parts of what is held of a stream, prepared for detection; patterns that ask for the same one share it."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._latest: tuple[tuple[object, ...], PreparedEvents] | None = None

    @property
    def first(self) -> int:
        """The row of the first event that is held."""
        return self._stream.first

    def prepared(self, pattern: Pattern, rows: tuple[int, int]) -> PreparedEvents:
        """The events of the rows `[from, up to)`."""
        key = (*rows, pattern.type_attribute, pattern.base_type)
        if self._latest is None or self._latest[0] != key:
            self._latest = key, _prepared(pattern, self._stream.between(*rows))
        return self._latest[1]


def matches_of_stretch(
    patterns: Sequence[Pattern],
    mechanism: Mechanism,
    stretch: Stretch,
    reading: Reading | CommonReading,
    slices: SlicesOfStream,
    counters: Counters,
    most: Sequence[int | None] | None = None,
) -> Iterator[list[list[Block]]]:
    """The matches that begin in a stretch, by its plan, part after part; rows count from the first event that is held.

    Parameters
    ----------
    patterns
        Of one stream; several are run together, as their plan and the mechanism share.
    reading
        Which events decide about the matches of all of them.
    most
        For each pattern, the most matches that may be listed; None: no limit.

    Yields
    ------
    list of list of Block
        For each pattern all its matches of one part, as `detection.parts.JointRun.parts` yields them.

    Raises
    ------
    TooManyMatches
        A pattern has more than may be listed.

    Notes
    -----
    Within the window behind the stretch the mechanism may also find matches that begin there: they are the next plan's,
    and left out here. That, and partial matches of events behind the stretch alone, is what a switch costs.
    """
    rows = reading.rows(stretch.first, stretch.stop)
    events = slices.prepared(patterns[0], rows)
    events.split(operand.event_type for pattern in patterns for operand in pattern.operands)
    orders = [stretch.orders[pattern.name] for pattern in patterns]

    def own(block: Block) -> Block:
        first = first_rows(block) + rows[0]
        return block.take((first >= stretch.first) & (first < stretch.stop))

    owning = replace(
        mechanism, find=lambda *asked: map(own, mechanism.find(*asked)), find_many=_owning(mechanism.find_many, own)
    )
    most = [None] * len(patterns) if most is None else most
    for parts in JointRun(patterns, owning, orders, events, EVERYTHING, counters, most).parts():
        yield [[moved(block, rows[0] - slices.first) for block in blocks] for blocks in parts]


def _owning(
    find_many: Callable[..., Iterable[tuple[int, Block]]] | None, own: Callable[[Block], Block]
) -> Callable[..., Iterable[tuple[int, Block]]] | None:
    """Finds of the matches of several patterns those that are a stretch's own."""
    if find_many is None:
        return None
    find = find_many
    return lambda *asked: ((number, own(block)) for number, block in find(*asked))


def _prepared(pattern: Pattern, table: pa.Table) -> PreparedEvents:
    return PreparedEvents(table, type_attribute=pattern.type_attribute, base_type=pattern.base_type)


def moved(block: Block, by: int) -> Block:
    """The block with row numbers that count from elsewhere."""
    return block if by == 0 else replace(block, rows=block.rows + np.int32(by))


def first_rows(block: Block) -> Array:
    """The row of each match's first event in the stream."""
    return _row_of_each(block, np.minimum)


def last_rows(block: Block) -> Array:
    """The row of each match's last event in the stream."""
    return _row_of_each(block, np.maximum)


def _row_of_each(block: Block, extreme: np.ufunc) -> Array:
    if isinstance(block, MatchBlock):
        return np.asarray(extreme.reduce(block.rows, axis=0))
    return extreme.reduceat(block.rows, block.offsets[:-1]) if len(block) else np.empty(0, np.int32)


class CommonReading:
    """The events that several patterns read together: all between the first and the last one that any of them needs.

    Each finds the same matches as with its own events: those that begin in a part of the stream, and what rejects them,
    lie in its window, whatever others read behind it.
    """

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings

    def has_come(self, stop: int) -> bool:
        return all(reading.has_come(stop) for reading in self._readings)

    def ahead(self, stop: int) -> int:
        return max(reading.ahead(stop) for reading in self._readings)

    def window_at(self, row: int) -> int:
        return max(reading.window_at(row) for reading in self._readings)

    def rows(self, first: int, stop: int) -> tuple[int, int]:
        spans = [reading.rows(first, stop) for reading in self._readings]
        return min(span[0] for span in spans), max(span[1] for span in spans)
