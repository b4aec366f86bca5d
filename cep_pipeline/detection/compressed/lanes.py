"""Lanes: what merged runs read. A lane has the runs that begin with one event, and the events in its window.

Where windows reach to the end of the stream, the first event decides nothing any more: the runs of all such beginnings
share one lane, and are merged. A guessed event makes a lane of its own for each candidate.

`CompiledRuns` reads lanes one after another by a compiled loop, where runs remember no more than single events: every
condition compares an event that is being bound with one event that was bound before, as in `a.x < b.x`,
`v[i].x > v[i-1].x`, `v.x < a.x` behind a, and `v[v.LEN].x < c.x`; or there is no condition. `MergedRuns` reads all
others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.compressed.buffers import NO_NODE, TARGET, GraphBuilder
from cep_pipeline.detection.compressed.fields import Condition, Field, Group, RunScope, RunStates, fields_of, mentions
from cep_pipeline.detection.costs import MOST_OF_ENDS
from cep_pipeline.detection.limits import go_on
from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.expressions.evaluate import conjunct_holds
from cep_pipeline.expressions.lists import Lists, holds_over_lists, pieces, ranges
from cep_pipeline.patterns.conditions import Comparator, Comparison, Conjunct
from cep_pipeline.patterns.expressions import Element, Expression, Reference
from cep_pipeline.patterns.normal_form import Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.keys import agreement_codes, comparable
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
MOST_VARIABLES = 10
"""Most variables for which tables of all their sets are made."""
ROOM_FOR_EDGES, ROOM_FOR_ENDS, ROOM_FOR_RUNS = 1 << 18, 1 << 16, 1 << 10
"""Room that is there at first; a lane that needs more has it."""
WORK_AT_ONCE = 1 << 25
"""Runs that are tried before the work is interrupted, so that somebody may end it."""

_read_lanes = NativeKernel(
    "cep_pipeline.detection.compressed.graph_kernels",
    "read_lanes",
    (
        *("int64", "int64*", "int64*", "int64*", "int64", "int64", "int64*", "int64*"),
        *("int64", "int64*", "int64*", "int64", "int64*", "int64*", "int64", "int64*"),
        *("int64", "int64*", "int64*", "int64*", "int64*", "int64*", "int64*", "int64", "int64*", "int64*"),
        *("int64", "int64", "int64"),
        *("int64*", "int64*", "int64*", "int64*", "int64*", "int64*", "int64*"),
    ),
    ("cep_pipeline.compiled.pointers",),
)

_SIGNS = {
    Comparator.LT: 1,
    Comparator.EQ: 2,
    Comparator.LE: 3,
    Comparator.GT: 4,
    Comparator.NE: 5,
    Comparator.GE: 6,
}
_SLOTS = {Element.ONLY: "row", Element.FIRST: "first", Element.LAST: "last", Element.PREVIOUS: "last"}
_ALWAYS, _AT_FIRST, _LATER = 0, 1, 2
_NO_ROOM_FOR_RUNS, _INTERRUPTED = 1, 2
_CHOSEN = (Element.EACH, Element.CURRENT)
_WHOLE = (Element.ONLY, Element.FIRST)


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


@dataclass(frozen=True)
class BindingTest:
    """A comparison of an event that is being bound to the variable of `own` with the event of `other`.

    Attributes
    ----------
    when
        Of each event, of a first one, or of further ones.
    """

    own: Reference
    own_side: Expression
    comparator: Comparator
    other: Reference
    other_side: Expression
    when: int


class CompiledRuns:
    """The merged runs of one group of clauses over a slice, whose graph a compiled loop writes.

    Parameters
    ----------
    fields, tests
        What the runs remember, and what is asked when they bind an event (`tests_of`).
    equal
        Of each variable the events that its conditions do not tell apart (`equal_rows`).

    Attributes
    ----------
    peak
        The most runs of one lane.
    """

    def __init__(
        self,
        sequence: LaneEvents,
        fields: tuple[Field, ...],
        equal: dict[str, Array],
        graph: GraphBuilder,
        tests: list[BindingTest],
    ) -> None:
        self._sequence, self._graph, self.peak = sequence, graph, 0
        states, names = sequence.states, sequence.states.names
        self._variables = len(names)
        self._rows = np.ascontiguousarray(sequence.rows, np.int64)
        self._fits = np.zeros(len(self._rows), np.int64)
        for number, fits in enumerate(sequence.fits):
            self._fits |= fits[self._rows].astype(np.int64) << number
        every = np.arange(states.full + 1)
        self._may_bind = np.zeros(len(every), np.int64)
        for number, name in enumerate(names):
            before, after, bit = states.before[name], states.after[name], states.bit[name]
            may = (every & after == 0) & (every & before == before)
            if bit & states.singles:
                may &= every & bit == 0
            self._may_bind |= may.astype(np.int64) << number
        self._needed = np.zeros(len(every), np.int64)
        for number, one in enumerate(fields):
            needed = np.array([one.needed(state) for state in every.tolist()], dtype=bool)
            self._needed |= needed.astype(np.int64) << number
        self._held: list[Array] = []
        slots = [one.name.split(" ", 1) for one in fields]
        of_slots = [(names.index(name), int(kind == "first"), self._address(equal[name])) for kind, name in slots]
        self._slots = np.array(of_slots or [(0,) * 3], np.int64)
        self._tests = np.array([self._words(test, slots) for test in tests] or [(0,) * 7], np.int64)
        self._counts = len(slots), len(tests)

    def _address(self, array: Array) -> int:
        """The address of an array, which is held from now on."""
        array = np.ascontiguousarray(array)
        self._held.append(array)
        return array.ctypes.data

    def _words(self, test: BindingTest, slots: list[list[str]]) -> tuple[int, ...]:
        names = self._sequence.states.names
        sides = comparable([_values(self._sequence, side) for side in (test.own_side, test.other_side)])
        slot = slots.index([_SLOTS[test.other.element], test.other.variable])
        other = names.index(test.other.variable)
        signs = _SIGNS[test.comparator]
        return (names.index(test.own.variable), test.when, other, slot, signs, *map(self._address, sides))

    def read(self, lanes: Lanes) -> Iterator[Lanes]:
        """Read lanes, and give those whose edges and ends are in the graph, some at a time."""
        starts, stops, begins = (np.ascontiguousarray(one, np.int64) for one in (lanes.start, lanes.stop, lanes.begin))
        slots, tests = self._counts
        most_edges, most_ends, most_runs = ROOM_FOR_EDGES, ROOM_FOR_ENDS, ROOM_FOR_RUNS
        state = np.array([0, 1, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0], np.int64)
        places = self._graph.places
        stamps: Array | None = None
        edges = ends = np.empty((4, 0), np.int64)
        first = 0
        while first < len(lanes):
            if stamps is None:
                stamps = np.zeros(4 * most_runs, np.int64)
                table = np.empty(4 * most_runs, np.int64)
                of_runs = np.empty((3, most_runs), np.int64)
                bound, values = np.empty((6, most_runs), np.int64), np.empty(most_runs * slots + 1, np.int64)
            if edges.shape[1] < most_edges:
                edges, ends = np.empty((4, most_edges), np.int64), np.empty((3, most_ends), np.int64)
            reason = _INTERRUPTED
            while reason == _INTERRUPTED:
                go_on()
                read = _read_lanes(
                    *(len(lanes), starts, stops, begins, int(lanes.closing), len(self._rows), self._rows, self._fits),
                    *(self._variables, self._may_bind, places, slots, self._slots, self._needed, tests, self._tests),
                    *(most_runs, *of_runs, values, table, stamps, len(stamps), bound, state),
                    *(most_edges, most_ends, WORK_AT_ONCE, *edges, *ends),
                )
                nodes, edge_count, end_count, peak, reason = state[2:7].tolist()
                self.peak = max(self.peak, peak)
            if read > first:
                own = np.insert(ends[:, :end_count], TARGET, NO_NODE, axis=0)
                self._graph.add(nodes, edges[:, :edge_count], own)
                yield lanes.take(np.arange(first, read))
                first = read
            elif reason == _NO_ROOM_FOR_RUNS:
                most_runs, stamps = 4 * most_runs, None
                state[1] = 1
            else:
                most_edges, most_ends = 4 * most_edges, 4 * most_ends


def tests_of(sequence: LaneEvents, fields: tuple[Field, ...] | None = None) -> list[BindingTest] | None:
    """The comparisons of events as runs bind them; None where runs remember more, or the order is not that of rows."""
    group, states = sequence.group, sequence.states
    if not sequence.untied or group.negations or group.guessed or len(states.names) > MOST_VARIABLES:
        return None
    if any(variable.maximum is not None for variable in group.positive):
        return None
    remembered = fields_of(group, states) if fields is None else fields
    if any(one.name.split(" ", 1)[0] not in _SLOTS.values() for one in remembered):
        return None
    found = [_tests_of(condition, sequence) for condition in group.conditions]
    return [test for tests in found for test in tests] if all(found) else None


def _tests_of(condition: Condition, sequence: LaneEvents) -> list[BindingTest]:
    """The comparisons of events as they are bound that make a condition hold; [] where there are no such ones."""
    if len(condition.components) != 1 or len(condition.components[0].atoms) != 1:
        return []
    [atom] = condition.components[0].atoms
    if not isinstance(atom, Comparison):
        return []
    sides = [_only_reference(atom.left), _only_reference(atom.right)]
    if sides[0] is None or sides[1] is None:
        return []
    one = BindingTest(sides[0], atom.left, atom.comparator, sides[1], atom.right, _ALWAYS)
    other = BindingTest(sides[1], atom.right, atom.comparator.mirror, sides[0], atom.left, _ALWAYS)
    found = []
    for test in (one, other):
        when = _moment(test.own, test.other, sequence)
        if when is not None:
            found.append(replace(test, when=when))
    # Of two variables that bind one event each, or a first one, whichever comes last is compared.
    twice = sides[0].element in _WHOLE and sides[1].element in _WHOLE
    return found if len(found) == 1 + twice else []


def _moment(own: Reference, other: Reference, sequence: LaneEvents) -> int | None:
    """The events of `own` that are compared when they are bound; None: none, or not only then."""
    states = sequence.states
    if own.variable == other.variable:
        follows = other.element in (Element.PREVIOUS, Element.FIRST)
        return _LATER if own.element is Element.CURRENT and follows else None
    comes_before = states.bit[other.variable] & states.before[own.variable] != 0
    if own.element in _CHOSEN:
        of_one = other.element in _WHOLE or other.element is Element.LAST
        when = _ALWAYS if own.element is Element.EACH else _LATER
        return when if of_one and comes_before else None
    if own.element in _WHOLE and (other.element in _WHOLE or (other.element is Element.LAST and comes_before)):
        return _AT_FIRST
    return None


def _only_reference(side: Expression) -> Reference | None:
    """A reference to the one event that a side mentions; None where it mentions none, several, or a list."""
    found = [*mentions((Comparison(Comparator.EQ, side, side),))]
    first = found[0] if found else None
    if not isinstance(first, Reference):
        return None
    alike = all(
        isinstance(one, Reference) and (one.variable, one.element) == (first.variable, first.element) for one in found
    )
    return first if alike else None


def _values(sequence: LaneEvents, side: Expression) -> Column:
    """The value of a side for each event, as the one that it mentions."""
    every = np.arange(sequence.size)
    names = sequence.states.names
    fields = {f"{kind} {name}": every for kind in ("row", "first", "last") for name in names}
    chosen = dict.fromkeys(names, (every, fields))
    return RunScope(sequence.events, fields, sequence.size, {}, chosen).values(side)
