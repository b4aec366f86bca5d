"""Lanes: what merged runs read. A lane has the runs that begin with one event, and the events in its window.

Where windows reach to the end of the stream, the first event decides nothing any more: the runs of all such beginnings
share one lane, and are merged. A guessed event makes a lane of its own for each candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cep_pipeline.detection.compressed.fields import Group, RunStates
from cep_pipeline.detection.costs import MOST_OF_ENDS
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.expressions.lists import Lists, holds_over_lists, pieces, ranges
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.order import (
    StreamOrder,
    WindowInstants,
    before_is_earlier,
    earlier_is_before,
    instants_of,
    ties_among,
)
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import clock_of

LANES_AT_ONCE = 1 << 14
"""Lanes whose events are read side by side."""
EVENTS_AT_ONCE = 1 << 22
"""Most events of all those lanes together, unless one has more."""
EDGES_AT_ONCE = 1 << 25
"""Pairs of events in the lanes of ends that are read together: their buffers have no more edges."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """Some lanes over a sequence of events.

    Attributes
    ----------
    start, stop
        int64, shape (n,): the places of a lane's events.
    begin
        int64: runs may begin at the places from `start` up to this one.
    end_row
        int64: the row behind the window of the first event.
    guesses
        Guessed variable -> the row of its event in each lane.
    closing
        Whether a lane is there for the matches that end with its last event, and for no others.
    """

    start: Array
    stop: Array
    begin: Array
    end_row: Array
    guesses: Mapping[str, Array] = field(default_factory=dict)
    closing: bool = False

    def __len__(self) -> int:
        return len(self.start)

    def take(self, lanes: Array) -> Lanes:
        """Some of the lanes, or some several times."""
        return Lanes(
            self.start[lanes],
            self.stop[lanes],
            self.begin[lanes],
            self.end_row[lanes],
            {name: rows[lanes] for name, rows in self.guesses.items()},
            self.closing,
        )


class LaneEvents:
    """The events that the runs of a group read, sorted by what the events of a match agree on, then in stream order.

    Attributes
    ----------
    rows
        int64: the event at each place.
    codes
        int64, of all events: equal where they agree, -1 for an event that agrees with none.
    fits
        bool, shape (variables, events): whether an event has a variable's type and passes its own conjuncts.
    untied
        The order of events is that of their rows, whatever their timestamps.
    """

    def __init__(self, pattern: Pattern, group: Group, events: PreparedEvents) -> None:
        self.pattern, self.group, self.events = pattern, group, events
        self.size = len(events)
        self.clock = clock_of(events)
        ties = ties_among(pattern.ties, self.clock)
        self.order, self.states = StreamOrder(self.clock, ties), RunStates(group, ties)
        self.untied = before_is_earlier(ties) and earlier_is_before(ties)
        self.instants: WindowInstants = instants_of(pattern, events)
        agree_on = pattern.clauses[0].agree_on
        self.codes = (
            agreement_codes(events, agree_on)[0].astype(np.int64) if agree_on else np.zeros(self.size, np.int64)
        )
        self.fits = np.zeros((len(group.positive), self.size), dtype=bool)
        for fits, variable in zip(self.fits, group.positive, strict=True):
            fits[candidates_of(variable, group.leaf[variable.name], events)] = True
        rows = np.flatnonzero(self.fits.any(axis=0))
        if agree_on:
            rows = rows[np.lexsort((rows, self.codes[rows]))]
        self.rows = rows
        self.keys = self.key(self.codes[rows], rows)

    def key(self, codes: Array, rows: Array) -> Array:
        """Integers in the order of the sequence."""
        return codes * (self.size + 1) + rows

    def unguessed(self, *, for_buffers: bool) -> Lanes:
        """The lanes that `lanes` gives, whatever is guessed."""
        lanes = self._of_beginnings()
        return (self._of_ends(lanes) if for_buffers else None) or lanes

    def lanes(self, *, for_buffers: bool = False) -> Iterator[Lanes]:
        """All lanes that may hold a match, some at a time, those together that are about as long.

        Parameters
        ----------
        for_buffers
            Whether matches are kept by the event that they end with: then a lane for each of these may be better.
        """
        lanes = self.unguessed(for_buffers=for_buffers)
        lanes = lanes.take(np.argsort(lanes.stop - lanes.start, kind="stable"))
        lengths = lanes.stop - lanes.start
        sizes, most = (lengths**2, EDGES_AT_ONCE) if lanes.closing else (lengths, EVENTS_AT_ONCE)
        for start, stop in pieces(np.maximum(sizes, most // LANES_AT_ONCE), most):
            yield from self._guessed(lanes.take(np.arange(start, stop)), list(self.group.guessed))

    def _of_ends(self, of_beginnings: Lanes) -> Lanes | None:
        """A lane for each event that may be the last of a match; None where that is not to be had, or far more is read.

        Matches with one end are then in one lane, whatever their first events, and their buffer has each partial match
        once. In lanes of beginnings it has it once for each beginning. Runs that remember their first event are not
        merged over beginnings: they stay in lanes of these.
        """
        group, states = self.group, self.states
        if group.negations or group.guessed or not self.untied or self.instants.partitions is not None:
            return None
        beginning = {name for name in states.names if not states.in_order or not states.before[name]}
        if any(condition.events & beginning for condition in group.conditions):
            return None
        rows = self.rows
        first, last = self._first_and_last()
        stop = np.flatnonzero(last).astype(np.int64) + 1
        codes = self.codes[rows[stop - 1]]
        first_row = np.asarray(self.instants.first_row_within(rows[stop - 1]), np.int64)
        start = np.where(codes >= 0, np.searchsorted(self.keys, self.key(codes, first_row)), stop - 1)
        places = np.where(first, np.arange(len(rows)), len(rows))
        opening = np.minimum.accumulate(places[::-1])[::-1]
        start = opening[start] if len(start) else start
        keep = self._may_match(start, stop)
        start, stop = start[keep], stop[keep]
        if (stop - start).sum() > MOST_OF_ENDS * (of_beginnings.stop - of_beginnings.start).sum():
            return None
        return Lanes(start, stop, stop, rows[stop - 1] + 1, closing=True)

    def _may_match(self, start: Array, stop: Array) -> Array:
        """Tell of each range of places if every variable has an event in it."""
        keep: Array = start < stop
        for fits in self.fits:
            counted = np.append(0, np.cumsum(fits[self.rows]))
            keep &= counted[stop] > counted[np.minimum(start, stop)]
        return keep

    def _first_and_last(self) -> tuple[Array, Array]:
        """Tell of the event at each place if it may be the first of a match, and the last one."""
        rows, states = self.rows, self.states
        first = np.zeros(len(rows), dtype=bool)
        last = np.zeros(len(rows), dtype=bool)
        for name, fits in zip(states.names, self.fits, strict=True):
            if not states.in_order or not states.before[name]:
                first |= fits[rows]
            if not states.in_order or not states.after[name]:
                last |= fits[rows]
        return first, last

    def _of_beginnings(self) -> Lanes:
        """A lane for each event that may be the first of a match."""
        rows = self.rows
        first, last = self._first_and_last()
        start = np.flatnonzero(first).astype(np.int64)
        codes = self.codes[rows[start]]
        end_row = np.asarray(self.instants.end_row_within(rows[start]), np.int64)
        stop = np.where(codes >= 0, np.searchsorted(self.keys, self.key(codes, end_row)), start + 1)
        closing = np.maximum.accumulate(np.where(last, np.arange(len(rows)), -1)) if len(rows) else last
        stop = closing[stop - 1] + 1 if len(start) else stop
        keep = self._may_match(start, stop)
        start, stop, end_row, codes = start[keep], stop[keep], end_row[keep], codes[keep]
        open_ended = (end_row == self.size) & (codes >= 0)
        begin, lanes = start + 1, np.arange(len(start))
        if self.instants.partitions is None and open_ended.any():
            # Runs of one code whose windows reach the end of the stream: one lane from the first of them.
            members = np.flatnonzero(open_ended)
            _, leading = np.unique(codes[members], return_index=True)
            shared, behind = members[leading], np.append(members[leading[1:] - 1], members[-1])
            stop[shared], begin[shared] = stop[behind], begin[behind]
            lanes = np.append(np.flatnonzero(~open_ended), shared)
        return Lanes(start, stop, begin, end_row).take(lanes)

    def _guessed(self, lanes: Lanes, names: list[str]) -> Iterator[Lanes]:
        if not names:
            yield lanes
            return
        name, *others = names
        fitting = np.flatnonzero(self.fits[self.states.names.index(name)][self.rows])
        low = np.searchsorted(fitting, lanes.start)
        counts = np.searchsorted(fitting, lanes.stop) - low
        closes = self.states.in_order and self.states.before[name] | self.states.bit[name] == self.states.full
        for at, stop in pieces(counts, LANES_AT_ONCE):
            part = np.repeat(np.arange(at, stop), counts[at:stop])
            places = fitting[ranges(low[at:stop], counts[at:stop])]
            found = lanes.take(part)
            if closes:  # nothing comes after the guessed event
                found = replace(found, stop=places + 1, begin=np.minimum(found.begin, places + 1))
            found = replace(found, guesses={**found.guesses, name: self.rows[places]})
            if len(found):
                yield from self._guessed(found, others)


def candidates_of(variable: Variable, conjuncts: tuple[Conjunct, ...], events: PreparedEvents) -> Array:
    """The rows of the events of a variable's type that pass its own conjuncts, ascending."""
    rows = events.leaf_rows(variable.event_type).astype(np.int64)
    for conjunct in conjuncts:
        if variable.kleene:
            lists = Lists(np.arange(len(rows)), np.ones(len(rows), np.int64), rows)
            rows = rows[holds_over_lists(conjunct, events, {variable.name: lists}, len(rows))]
        else:
            rows = rows[conjunct_holds(conjunct, events, {variable.name: rows})]
    return rows
