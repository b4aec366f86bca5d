"""The plan switch: which events a plan reads, and which matches are its own, where plans follow one another.

The acep-invariants patent has the partial matches with an event before t0, when a new plan comes, go on by the old one,
and those of new events only by the new one, until t0 + W, when the last old event expires. A match has an event before
t0 exactly if its first event is. So a plan that is in use in `[t0, t1)` owns the matches whose first event comes there,
whatever becomes of them later: each match has one owner, nothing is lost and nothing is found twice, and of plans that
switch faster than windows pass any number are at work at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.detection.clause_runs import JointRun
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Mechanism, Orders
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.order import before_is_earlier
from cep_pipeline.slices.ownership import counts_in_partitions
from cep_pipeline.slices.prepared import PreparedEvents

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


class Reading:
    """The events of a stream that decide about the matches of patterns that begin, or end, in a part of it.

    Patterns that are found together read together what any of them may need. Each finds the same matches as with its
    own events: those that begin in a part of the stream, and what rejects them, lie in its window, whatever others read
    beside it.

    Attributes
    ----------
    whole
        Whether a window counts the events of a partition, which may go on at any time: then all of the stream is read,
        at its end.
    """

    def __init__(self, patterns: Sequence[Pattern], stream: EventStream) -> None:
        self._stream = stream
        self.whole = any(map(counts_in_partitions, patterns))
        times = [min(pattern.window.time_us, _LONGEST_US) for pattern in patterns if pattern.window.time_us is not None]
        self._time_us = max(times, default=None)
        self._more_events = max(pattern.window.events or 1 for pattern in patterns) - 1
        clauses = [(pattern, clause) for pattern in patterns for clause in pattern.clauses]
        negated = [(clause, name) for _, clause in clauses for name in clause.negations]
        # Events up to a window before a match's last one, or after its first one, may reject it.
        self._leading = any(not clause.predecessors(name) for clause, name in negated)
        self._trailing = any(not clause.successors(name) for clause, name in negated)
        # Under TIES ANY, events of the time of the first or last one may, whatever their place.
        self._tied = any(clause.negations and not before_is_earlier(pattern.ties) for pattern, clause in clauses)

    def has_come(self, stop: int) -> bool:
        """True if all events have been read that decide about matches which begin before this row."""
        return self._stream.ended or (not self.whole and self._behind(stop) < len(self._stream))

    def ahead(self, stop: int) -> int:
        """The number of events behind this row that matches begun before it may hold; 0 where that is not known."""
        return 0 if self.whole else self._behind(stop) - stop

    def window_at(self, row: int) -> int:
        """The number of events of the latest window before an event that has come; 0 where that is not known."""
        return 0 if self.whole else row - self.window_before(row)

    def rows(self, first: int, stop: int) -> tuple[int, int]:
        """The rows `[from, up to)` that matches which begin in `[first, stop)` depend on."""
        return (0, len(self._stream)) if self.whole else (self._before(first), self._behind(stop))

    def rows_of_ends(self, first: int, stop: int) -> tuple[int, int]:
        """The rows `[from, up to)` that matches which end in `[first, stop)` depend on."""
        if self.whole:
            return 0, len(self._stream)
        end = self._behind(stop) if self._trailing else stop
        return self.ends_read_from(first), self._with_tied_behind(end)

    def ends_read_from(self, first: int) -> int:
        """The row from which on events are read for matches that end with `first`, an event to come, or later."""
        start = self.window_before(first)
        return self._with_tied_before(start, start) if start else 0

    def reads_from(self, first: int) -> int:
        """The row from which on events are read for matches that begin at `first`, an event to come, or later."""
        if self.whole or not len(self._stream):
            return 0
        return self._before(min(first, len(self._stream) - 1))

    def window_before(self, row: int) -> int:
        """The first row that a match which ends with this event, or one to come, may hold or be rejected by."""
        if self.whole or not len(self._stream):
            return 0
        row = min(row, len(self._stream) - 1)
        start = self._with_tied_before(max(row - self._more_events, 0), row)
        if self._time_us is None:
            return start
        return min(start, self._stream.row_at(self._stream.time_of(row) - self._time_us))

    def _before(self, first: int) -> int:
        """The first row that may reject matches which begin at this row or later, or this row."""
        start = self.window_before(first) if self._leading else first
        return self._with_tied_before(start, first)

    def _behind(self, stop: int) -> int:
        """The row behind the last one that matches which begin before `stop` may hold or be rejected by."""
        end = self._with_tied_behind(min(stop + self._more_events, len(self._stream)))
        if self._time_us is None:
            return end
        return max(end, self._stream.row_at(self._stream.time_of(stop - 1) + self._time_us, "right"))

    def _with_tied_before(self, start: int, first: int) -> int:
        return min(start, self._stream.row_at(self._stream.time_of(first))) if self._tied else start

    def _with_tied_behind(self, end: int) -> int:
        return self._stream.row_at(self._stream.time_of(end - 1), "right") if self._tied else end


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
            self._latest = (
                key,
                PreparedEvents(
                    self._stream.between(*rows), type_attribute=pattern.type_attribute, base_type=pattern.base_type
                ),
            )
        return self._latest[1]


def matches_of_stretch(
    patterns: Sequence[Pattern],
    mechanism: Mechanism,
    stretch: Stretch,
    reading: Reading,
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
        first = block.first_rows() + rows[0]
        return block.take((first >= stretch.first) & (first < stretch.stop))

    many = mechanism.find_many
    owning = replace(
        mechanism,
        find=lambda *asked: map(own, mechanism.find(*asked)),
        find_many=many and (lambda *asked: ((number, own(block)) for number, block in many(*asked))),
    )
    most = [None] * len(patterns) if most is None else most
    for parts in JointRun(patterns, owning, orders, events, EVERYTHING, counters, most).parts():
        yield [[moved(block, rows[0] - slices.first) for block in blocks] for blocks in parts]


def moved(block: Block, by: int) -> Block:
    """The block with row numbers that count from elsewhere."""
    return block if by == 0 else replace(block, rows=block.rows + np.int32(by))
