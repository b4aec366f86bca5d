"""Merged runs: all partial matches of a group of clauses; those that later events cannot tell apart are one run.

The events of many lanes are read side by side, one event of each lane a step. A run may ignore an event, or bind it to
one variable; runs that are equal afterwards become one (SIGMOD'08 section 5.2.2, over states that are sets of
variables), whose count is the sum of theirs and whose edges lead to all of them. So neither time nor memory grows with
the number of matches.

A *lane* has the runs that begin with one event, and the events in its window. Where windows reach to the end of the
stream, the first event decides nothing any more: the runs of all such beginnings share one lane, and are merged. A
guessed event makes a lane of its own for each candidate.

`MergedRuns` reads the events. `Binder` computes the runs that bind an event: their new fields, and the conditions that
can be decided then. `Rejection` applies rule 5 of negation (docs/language.md, section 3.5) when all that it needs is
known: the events that could reject lie in a range of the negated variable's candidates, and a run remembers where that
range begins (behind its last event of P(n)) and where it ends (ahead of its first event of S(n)) as places among the
candidates, so that runs between the same two candidates are equal.

References
----------
J. Agrawal et al., "Efficient pattern matching over event streams", SIGMOD 2008, sections 5.1 and 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from cep_pipeline.detection.compressed.buffers import IGNORED, GraphBuilder
from cep_pipeline.detection.compressed.fields import (
    Condition,
    Fields,
    Group,
    Known,
    NegatedVariable,
    RunScope,
    RunStates,
    all_conditions,
    equal_rows,
    fields_of,
    keeps_failure,
    summary_field,
)
from cep_pipeline.detection.conditions.groups import mentions
from cep_pipeline.detection.costs import EVENT_S, MOST_OF_ENDS, STEP_S
from cep_pipeline.detection.counting.choice import of_one_event
from cep_pipeline.detection.limits import go_on
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import constants_hold
from cep_pipeline.expressions.lists import pieces, ranges
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.expressions import Aggregate, Length, Reference
from cep_pipeline.patterns.normal_form import Variable
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.slices.keys import agreement_codes
from cep_pipeline.slices.order import (
    StreamOrder,
    WindowInstants,
    earlier_is_before,
    instants_of,
    ties_among,
)
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import clock_of, leaf_view, without_name

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
        self.order, self.states = StreamOrder(self.clock, ties), RunStates(group)
        self.untied = earlier_is_before(ties)
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
        beginning = {name for name in states.names if not states.before[name]}
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
            if not states.before[name]:
                first |= fits[rows]
            if not states.after[name]:
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
        closes = self.states.before[name] | self.states.bit[name] == self.states.full
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
    own = tuple(without_name(rewritten(conjunct, of_one_event), variable.name) for conjunct in conjuncts)
    return np.asarray(leaf_view(events, variable.event_type, own, 0, len(events)).rows, np.int64)


RUNS_AT_ONCE = 1 << 21
"""Most runs alive in several lanes together; with more, fewer lanes are read side by side."""
_INT64_BITS = 62


def least_seconds(sequence: LaneEvents) -> float:
    """The time that merged runs take at least to read all lanes, and to write their buffers."""
    lanes = sequence.unguessed(for_buffers=True)
    lengths = lanes.stop - lanes.start
    return float(EVENT_S * lengths.sum() + STEP_S * lengths.max(initial=0))


Runs = dict[str, Array]
"""Runs by columns; each stands for `count` partial matches. What they remember, int64 (`Field`), by name, and:

- `lane`, `state`, `clauses`, `fresh`: int64: the lane; the set of bound variables; the clauses that may still match;
  the variables with an event of the present timestamp;
- `count`: int64, or Python integers;
- `node`: int64: the node of the shared buffer that ends here, -1 for none.
"""


class MergedRuns:
    """The merged runs of one group of clauses over a slice.

    Parameters
    ----------
    sequence
        What they read.
    graph
        Takes the nodes and edges of the shared buffer; None: matches are counted only.
    """

    def __init__(self, sequence: LaneEvents, graph: GraphBuilder | None = None) -> None:
        self.sequence, self.graph = sequence, graph
        self.group, self.states = sequence.group, sequence.states
        self.fields = fields_of(self.group, self.states)
        self.binder = Binder(sequence, {one.name for one in self.fields})
        self.total = 0
        self.peak = 0

    def run(self) -> int:
        """Read all lanes; the number of matches."""
        for _ in self.lane_by_lane():
            pass
        return self.total

    def lane_by_lane(self) -> Iterator[Lanes]:
        """Read all lanes, some at a time, and give these when they have been read."""
        if self.group.constants and not constants_hold(self.group.constants, self.sequence.events):
            return
        for lanes in self.sequence.lanes(for_buffers=self.graph is not None):
            self._read(lanes)
            yield lanes

    def _read(self, lanes: Lanes, runs: Runs | None = None, first: int = 0) -> None:
        """Read lanes side by side, from a step on, with the runs that there are; of very many, one half first."""
        sequence = self.sequence
        runs = self._beginnings(np.empty(0, np.int64)) if runs is None else runs
        lengths = lanes.stop - lanes.start
        for step in range(first, int(lengths.max(initial=0))):
            if _size(runs) > RUNS_AT_ONCE and len(lanes) > 1:
                half = len(lanes) // 2
                for low, high in ((0, half), (half, len(lanes))):
                    own = _some(runs, np.flatnonzero((runs["lane"] >= low) & (runs["lane"] < high)))
                    self._read(lanes.take(np.arange(low, high)), own | {"lane": own["lane"] - low}, step)
                return
            go_on()
            place = lanes.start + step
            row_of_lane = sequence.rows[np.minimum(place, len(sequence.rows) - 1)]
            active = step < lengths
            if step:
                if not active.all():
                    runs = _some(runs, np.flatnonzero(active[runs["lane"]]))
                runs = self._advanced(runs, lanes, place, row_of_lane)
            begin = np.flatnonzero(active & (place < lanes.begin))
            sources = _together([runs, self._beginnings(begin)]) if len(begin) else runs
            runs = self._step(sources, _size(runs), row_of_lane, lanes)
            self.peak = max(self.peak, _size(runs))

    def _beginnings(self, lanes: Array) -> Runs:
        """A run without events in each lane."""
        empty = {"state": 0, "clauses": (1 << self.group.clauses) - 1, "fresh": 0, "count": 1, "node": -1}
        empty |= {one.name: one.empty for one in self.fields}
        return {"lane": lanes, **{name: np.full(len(lanes), value, np.int64) for name, value in empty.items()}}

    def _advanced(self, runs: Runs, lanes: Lanes, place: Array, row_of_lane: Array) -> Runs:
        """The runs when time has passed: what was bound at the same timestamp is so no more."""
        if self.sequence.untied or not _size(runs):
            return runs
        clock = self.sequence.clock
        passed = clock[row_of_lane] > clock[self.sequence.rows[np.minimum(place, lanes.stop) - 1]]
        passed &= place < lanes.stop
        later = passed[runs["lane"]]
        return runs | {"fresh": np.where(later, 0, runs["fresh"])}

    def _step(self, sources: Runs, alive: int, row_of_lane: Array, lanes: Lanes) -> Runs:
        """The runs after one event of each lane. Only the first `alive` sources may ignore it."""
        binder = self.binder
        row = row_of_lane[sources["lane"]]
        found: list[Runs] = []
        variables: list[Array] = []
        for number in range(len(self.states.names)):
            places = np.flatnonzero(binder.may_bind(number, sources, row, lanes))
            if not len(places):
                continue
            bound = binder.bound(number, _some(sources, places), row[places], lanes)
            if _size(bound):
                self._emit(number, bound, row_of_lane, lanes)
                found.append(bound)
                variables.append(np.full(_size(bound), number, np.int64))
        kept = sources if alive == _size(sources) else _some(sources, np.arange(alive))
        ignores = binder.may_ignore(kept, row[:alive], lanes)
        if not ignores.all():
            kept = _some(kept, np.flatnonzero(ignores))
        if not found:
            return kept
        variable = np.concatenate([np.full(_size(kept), IGNORED, np.int64), *variables])
        return self._merged(self._forgetful(_together([kept, *found])), variable, row_of_lane)

    def _emit(self, number: int, bound: Runs, row_of_lane: Array, lanes: Lanes) -> None:
        complete = _some(bound, np.flatnonzero(bound["state"] == self.states.full))
        if not _size(complete):
            return
        row = row_of_lane[complete["lane"]]
        matches = self.binder.matches(complete, row, lanes)
        if lanes.closing:
            matches = matches & (row == self.sequence.rows[lanes.stop[complete["lane"]] - 1])
        self.total += exact_sum(complete["count"][matches])
        if self.graph is not None:
            self.graph.end(row[matches], complete["node"][matches], number)

    def _forgetful(self, runs: Runs) -> Runs:
        """The runs without the fields that nothing asks for any more."""
        for known in self.fields:
            needed = self.states.where(known.needed, runs["state"])
            if not needed.all():
                runs = runs | {known.name: np.where(needed, runs[known.name], known.empty)}
        return runs

    def _merged(self, runs: Runs, variable: Array, row_of_lane: Array) -> Runs:
        """Equal runs as one; the variable of each says what it has just done."""
        columns = [column for name, column in runs.items() if name not in ("count", "node")]
        columns = [column for column in columns if len(column) and (column != column[0]).any()]
        order, first = _groups(columns, _size(runs))
        group = np.cumsum(first) - 1
        size = np.bincount(group)
        leader = order[first]
        merged = _some(runs, leader)
        count = runs["count"][order]
        if len(leader) < _size(runs):
            if count.dtype != object and int(count.max()).bit_length() + int(size.max()).bit_length() > _INT64_BITS:
                count = count.astype(object)
            merged["count"] = np.add.reduceat(count, np.flatnonzero(first))
        if self.graph is not None:
            fresh = (size > 1) | (variable[leader] != IGNORED)
            node = merged["node"]
            node[fresh] = self.graph.nodes(int(fresh.sum()))
            new = fresh[group]
            from_run = order[new]
            self.graph.edges(
                runs["node"][from_run], node[group[new]], variable[from_run], row_of_lane[runs["lane"][from_run]]
            )
        return merged


def exact_sum(counts: Array) -> int:
    """The sum of counts as a Python integer."""
    if counts.dtype == object:
        return int(sum(counts.tolist()))
    return (int((counts >> 32).sum()) << 32) + int((counts & (2**32 - 1)).sum())


def _size(runs: Runs) -> int:
    return len(runs["lane"])


def _some(runs: Fields, places: Array) -> Runs:
    return {name: values[places] for name, values in runs.items()}


def _together(parts: list[Runs]) -> Runs:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _groups(columns: list[Array], size: int) -> tuple[Array, Array]:
    """An order in which equal rows of columns stand together, and where a new row begins in it."""
    order = np.lexsort(columns) if columns else np.arange(size)  # the parts of a step come in order: they are merged
    first = np.arange(size) == 0
    for column in columns:
        ordered = column[order]
        first[1:] |= ordered[1:] != ordered[:-1]
    return order, first


class Binder:
    """Binds events to the variables of a group's runs.

    Parameters
    ----------
    sequence
        The events, with the group and its states.
    fields
        The names of the fields that runs have.
    """

    def __init__(self, sequence: LaneEvents, fields: set[str]) -> None:
        self.sequence, self.fields = sequence, fields
        self.events, self.states, self.group = sequence.events, sequence.states, sequence.group
        self.conditions = [(*pair, keeps_failure(*pair)) for pair in all_conditions(self.group)]
        self.rejections = [Rejection(negation, sequence, self._settle) for negation in self.group.negations]
        used: dict[str, set[str]] = {name: set() for name in self.states.names}
        self.summaries: dict[str, dict[str, Aggregate | Length]] = {name: {} for name in self.states.names}
        for condition, _, _ in self.conditions:
            for node in (node for component in condition.components for node in mentions(component.atoms)):
                if node.variable not in used:
                    continue
                if isinstance(node, Reference) or (isinstance(node, Aggregate) and node.function in ("first", "last")):
                    used[node.variable].add(node.attribute)
                else:
                    self.summaries[node.variable][summary_field(node)] = node
        self.most = {one.name: one.maximum for one in self.group.positive if one.maximum is not None}
        self.equal = {
            name: equal_rows(self.events, attributes, np.flatnonzero(fits), sequence.size)
            for (name, attributes), fits in zip(used.items(), sequence.fits, strict=True)
        }

    # -- who may --------------------------------------------------------------------------------------------------

    def may_bind(self, number: int, runs: Runs, row: Array, lanes: Lanes) -> Array:
        """Return whether each run may bind its lane's event to a variable, by type, order, and what is guessed."""
        states = self.states
        name = states.names[number]
        may: Array = self.sequence.fits[number][row]
        if not may.any():
            return may
        before, after, bit = states.before[name], states.after[name], states.bit[name]
        may = may & (runs["state"] & after == 0) & (runs["state"] & before == before)
        if not self.sequence.untied:
            may &= runs["fresh"] & before == 0
        if bit & states.singles:
            may &= runs["state"] & bit == 0
        for guessed, rows in lanes.guesses.items():
            here = rows[runs["lane"]] == row
            may &= here if guessed == name else ~here
        return may

    def may_ignore(self, runs: Runs, row: Array, lanes: Lanes) -> Array:
        """Return whether each run may ignore its lane's event: not the one that it guesses."""
        may = np.ones(_size(runs), dtype=bool)
        for rows in lanes.guesses.values():
            may &= rows[runs["lane"]] != row
        return may

    # -- binding --------------------------------------------------------------------------------------------------

    def bound(self, number: int, runs: Runs, row: Array, lanes: Lanes) -> Runs:
        """The runs with the event bound, those that may still become a match.

        Parameters
        ----------
        runs, row
            Runs that may bind the variable, and the event of each.
        """
        states = self.states
        name = states.names[number]
        bit = states.bit[name]
        old = runs["state"]
        first = old & bit == 0
        fresh = runs["fresh"] if self.sequence.untied else runs["fresh"] | bit
        new = self._remember(name, runs, row, first) | {"state": old | bit, "fresh": fresh}
        alive = np.ones(len(row), dtype=bool)
        if name in self.most:
            alive &= new.get(f"len {name}", np.zeros(1, np.int64)) <= self.most[name]
        for condition, negation, keeps in self.conditions:
            self._choose(condition, keeps, name, runs, new, row, lanes, alive)
            if negation is None:
                decided = alive & self._newly(partial(states.is_decided, condition), old, new["state"])
                if decided.any():
                    places = np.flatnonzero(decided)
                    part = _some(new, places)
                    alive[places] = self._settle(condition, part, new["lane"][places], lanes, {})
        clauses = new["clauses"]
        for rejection in self.rejections:
            is_decided = partial(states.is_rejection_decided, rejection.negation)
            decided = alive & self._newly(is_decided, old, new["state"])
            if decided.any():
                places = np.flatnonzero(decided)
                rejected = rejection.rejected(_some(new, places), new["lane"][places], lanes, row[places])
                clauses = clauses.copy()
                clauses[places[rejected]] &= ~rejection.clause_bit
        alive &= clauses != 0
        new["clauses"] = clauses
        return new if alive.all() else _some(new, np.flatnonzero(alive))

    def matches(self, runs: Runs, row: Array, lanes: Lanes) -> Array:
        """Select the runs that have bound everything and are matches with the event that they have just bound."""
        states = self.states
        matches = np.ones(_size(runs), dtype=bool)
        for condition in self.group.conditions:
            if not states.is_decided(condition, states.full):
                places = np.flatnonzero(matches)
                part = _some(runs, places)
                matches[places] = self._settle(condition, part, runs["lane"][places], lanes, {})
        clauses = runs["clauses"]
        for rejection in self.rejections:
            if not states.is_rejection_decided(rejection.negation, states.full):
                places = np.flatnonzero(matches & (clauses & rejection.clause_bit != 0))
                rejected = rejection.rejected(_some(runs, places), runs["lane"][places], lanes, row[places])
                clauses = clauses.copy()
                clauses[places[rejected]] &= ~rejection.clause_bit
        kept: Array = matches & (clauses != 0)
        return kept

    def _newly(self, known: Known, old: Array, new: Array) -> Array:
        """Select the runs of which something is known now and was not before; guesses count from the first event on."""
        newly: Array = self.states.where(known, new) & ((old == 0) | ~self.states.where(known, old))
        return newly

    def _remember(self, name: str, old: Fields, row: Array, first: Array) -> dict[str, Array]:
        """The fields with one more event of a variable."""
        fields = dict(old)
        equal = self.equal[name][row]
        for known in (f"row {name}", f"last {name}"):
            if known in fields:
                fields[known] = equal
        if f"own {name}" in fields:
            fields[f"own {name}"] = row
        if f"first {name}" in fields:
            fields[f"first {name}"] = np.where(first, equal, fields[f"first {name}"])
        for known, node in self.summaries[name].items():
            if known in fields:
                fields[known] = self._summed(node, fields[known], row)
        for rejection in self.rejections:
            negation = rejection.negation
            if name in negation.before:
                fields[f"after {negation.name}"] = rejection.places(row, self.sequence.order.rows_after(row))
            if name in negation.after:
                ahead = fields[f"before {negation.name}"]
                behind = rejection.places(row, self.sequence.order.rows_ahead(row))
                fields[f"before {negation.name}"] = np.where(ahead < 0, behind, ahead)
        return fields

    def _summed(self, node: Aggregate | Length, held: Array, row: Array) -> Array:
        """A length or an aggregate with one more event."""
        if isinstance(node, Length):
            return held + 1
        column = self.events.column(node.attribute)
        present = np.ones(len(row), dtype=bool) if column.valid is None else column.valid[row]
        if node.function == "count":
            return held + present
        some = held >= 0
        value, kept = column.values[row], column.values[np.maximum(held, 0)]
        replaced = value < kept if node.function == "min" else value > kept
        if column.values.dtype.kind == "f":
            replaced = (replaced | np.isnan(value)) & ~np.isnan(kept)
        return np.where(present & (~some | replaced), row, held)

    # -- conditions -----------------------------------------------------------------------------------------------

    def _choose(
        self,
        condition: Condition,
        keeps: bool,
        name: str,
        runs: Runs,
        new: Runs,
        row: Array,
        lanes: Lanes,
        alive: Array,
    ) -> None:
        """Test what a condition asks of the event as an element of a list; changes `new` and `alive`."""
        for component in condition.components:
            choice = component.choice
            if choice is None or choice.variable != name:
                continue
            places = np.flatnonzero(alive & (runs["state"] & self.states.bit[name] != 0) if choice.index else alive)
            if not len(places):
                continue
            scope = self._scope(_some(new, places), new["lane"][places], lanes, {})
            scope.chosen = {name: (row[places], _some(runs, places))}
            fails = places[~scope.holds(component)]
            if keeps:
                new[f"failed {component.number}"] = failed = new[f"failed {component.number}"].copy()
                failed[fails] = 1
            else:
                alive[fails] = False

    def _settle(self, condition: Condition, fields: Fields, lane: Array, lanes: Lanes, rows: dict[str, Array]) -> Array:
        """Return whether a condition holds for complete lists; `rows` has the event of the negated variable."""
        scope = self._scope(fields, lane, lanes, rows)
        holds = np.zeros(len(lane), dtype=bool)
        for component in condition.components:
            if component.choice is None:
                holds |= scope.holds(component)
            elif f"failed {component.number}" in fields:
                holds |= fields[f"failed {component.number}"] == 0
            else:  # each element was tested as it came
                holds[:] = True
        return holds

    def _scope(self, fields: Fields, lane: Array, lanes: Lanes, rows: dict[str, Array]) -> RunScope:
        guessed = {name: guess[lane] for name, guess in lanes.guesses.items()}
        return RunScope(self.events, fields, len(lane), {**guessed, **rows})


PAIRS_AT_ONCE = 1 << 20
"""Pairs of a run and an event that may reject it, held at once."""

Settle = Callable[[Condition, Fields, Array, Lanes, dict[str, Array]], Array]
"""True if a condition holds: of runs by fields and lanes, with rows of negated variables."""


class Rejection:
    """The way in which events of one negated variable reject."""

    def __init__(self, negation: NegatedVariable, sequence: LaneEvents, settle: Settle) -> None:
        self.negation, self.sequence, self.settle = negation, sequence, settle
        self.clause_bit = 1 << negation.clause
        rows = candidates_of(negation.variable, negation.leaf, sequence.events)
        codes = sequence.codes[rows]
        rows, codes = rows[codes >= 0], codes[codes >= 0]
        order = np.lexsort((rows, codes))
        self.rows = rows[order]
        self.keys = sequence.key(codes[order], self.rows)

    def places(self, of: Array, rows: Array) -> Array:
        """The places in front of the first candidate from these rows on that agrees with each of some events."""
        return np.searchsorted(self.keys, self.sequence.key(self.sequence.codes[of], rows))

    def rejected(self, fields: Fields, lane: Array, lanes: Lanes, last: Array) -> Array:
        """Select the runs that an event rejects.

        Parameters
        ----------
        fields, lane
            Of the runs.
        last
            The row of the last event of each.
        """
        negation, sequence = self.negation, self.sequence
        if negation.before:
            begin = fields[f"after {negation.name}"]
        else:
            begin = self.places(last, sequence.instants.first_row_within(last))
        end = fields[f"before {negation.name}"] if negation.after else self.places(last, lanes.end_row[lane])
        begin = np.where(sequence.codes[last] >= 0, begin, end)
        count = np.maximum(end - begin, 0)
        if not negation.conditions and not negation.excluded:
            some: Array = count > 0
            return some
        rejected = np.zeros(len(lane), dtype=bool)
        for start, stop in pieces(count, PAIRS_AT_ONCE):
            run = np.repeat(np.arange(start, stop), count[start:stop])
            rows = self.rows[ranges(begin[start:stop], count[start:stop])]
            for name in negation.excluded:
                keep = fields[f"own {name}"][run] != rows
                run, rows = run[keep], rows[keep]
            for condition in negation.conditions:
                if not len(run):
                    break
                part = _some(fields, run)
                keep = self.settle(condition, part, lane[run], lanes, {negation.variable.name: rows})
                run, rows = run[keep], rows[keep]
            rejected[run] = True
        return rejected
