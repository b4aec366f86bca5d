"""Merged runs: all partial matches of a group of clauses, those together of which nothing different can be asked.

The events of many lanes are read side by side, one event of each lane a step. A run may ignore an event, or bind it to
one variable; runs that are equal afterwards become one (SIGMOD'08 section 5.2.2, over states that are sets of
variables), whose count is the sum of theirs and whose edges lead to all of them. So neither time nor memory grows with
the number of matches.

References
----------
J. Agrawal et al., "Efficient pattern matching over event streams", SIGMOD 2008, sections 5.1 and 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cep_pipeline.detection.compressed.binding import Binder
from cep_pipeline.detection.compressed.fields import Fields, fields_of
from cep_pipeline.detection.compressed.graph import IGNORED, GraphBuilder
from cep_pipeline.detection.compressed.lanes import Lanes, Sequence
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import atom_holds
from cep_pipeline.patterns.pattern import Ties

RUNS_AT_ONCE = 1 << 21
"""Most runs alive in several lanes together; with more, fewer lanes are read side by side."""
_INT64_BITS = 62
_WORD_BITS = 64
_MIX = np.uint64(0x9E3779B97F4A7C15)


class _TooManyRuns(Exception):
    """Fewer lanes must be read side by side."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs, each of which stands for `count` partial matches.

    Attributes
    ----------
    lane, state, clauses, fresh
        int64: the lane; the set of bound variables; the clauses that may still match; the variables with an event
        (under TIES ANY: a first one) of the present timestamp.
    fields
        What else the runs remember.
    count
        int64, or Python integers.
    node
        The node of the shared buffer that ends here, -1 for none.
    """

    lane: Array
    state: Array
    clauses: Array
    fresh: Array
    fields: Fields
    count: Array
    node: Array

    def __len__(self) -> int:
        return len(self.lane)

    def take(self, places: Array) -> Runs:
        """Some of the runs."""
        return Runs(
            self.lane[places],
            self.state[places],
            self.clauses[places],
            self.fresh[places],
            {name: values[places] for name, values in self.fields.items()},
            self.count[places],
            self.node[places],
        )


class MergedRuns:
    """The merged runs of one group of clauses over a slice.

    Parameters
    ----------
    sequence
        What they read.
    graph
        Takes the nodes and edges of the shared buffer; None: matches are counted only.
    """

    def __init__(self, sequence: Sequence, graph: GraphBuilder | None = None) -> None:
        self.sequence, self.graph = sequence, graph
        self.group, self.states = sequence.group, sequence.states
        self.fields = fields_of(self.group, self.states)
        self.binder = Binder(sequence, {field.name for field in self.fields})
        self.total = 0
        self.peak = 0

    def run(self) -> int:
        """Read all lanes; the number of matches."""
        events = self.sequence.events
        for conjunct in self.group.constants:
            if not any(atom_holds(atom, events, {}).all() for atom in conjunct.atoms):
                return 0
        for lanes in self.sequence.lanes():
            self._read(lanes)
        return self.total

    def _read(self, lanes: Lanes) -> None:
        marked = None if self.graph is None else self.graph.mark()
        total = self.total
        try:
            self._read_side_by_side(lanes, RUNS_AT_ONCE if len(lanes) > 1 else None)
        except _TooManyRuns:
            self.total = total
            if self.graph is not None:
                self.graph.rewind(marked)
            half = len(lanes) // 2
            self._read(lanes.take(np.arange(half)))
            self._read(lanes.take(np.arange(half, len(lanes))))

    def _read_side_by_side(self, lanes: Lanes, limit: int | None) -> None:
        sequence = self.sequence
        runs = self._beginnings(np.empty(0, np.int64))
        lengths = lanes.stop - lanes.start
        for step in range(int(lengths.max(initial=0))):
            place = lanes.start + step
            row_of_lane = sequence.rows[np.minimum(place, len(sequence.rows) - 1)]
            active = step < lengths
            if step:
                if not active.all():
                    runs = runs.take(np.flatnonzero(active[runs.lane]))
                runs = self._advanced(runs, lanes, place, row_of_lane)
            begin = np.flatnonzero(active & (place < lanes.begin))
            sources = _together([runs, self._beginnings(begin)]) if len(begin) else runs
            runs = self._step(sources, len(runs), row_of_lane, lanes)
            self.peak = max(self.peak, len(runs))
            if limit is not None and len(runs) > limit:
                raise _TooManyRuns

    def _beginnings(self, lanes: Array) -> Runs:
        """A run without events in each lane."""
        zeros = np.zeros(len(lanes), np.int64)
        return Runs(
            lane=lanes,
            state=zeros,
            clauses=np.full(len(lanes), (1 << self.group.clauses) - 1, np.int64),
            fresh=zeros,
            fields={field.name: np.full(len(lanes), field.empty, np.int64) for field in self.fields},
            count=np.ones(len(lanes), np.int64),
            node=np.full(len(lanes), -1, np.int64),
        )

    def _advanced(self, runs: Runs, lanes: Lanes, place: Array, row_of_lane: Array) -> Runs:
        """The runs when time has passed: what was bound at the same timestamp is so no more."""
        if self.sequence.ties is Ties.ARRIVAL or not len(runs):
            return runs
        clock = self.sequence.clock
        passed = clock[row_of_lane] > clock[self.sequence.rows[np.minimum(place, lanes.stop) - 1]]
        passed &= place < lanes.stop
        later = passed[runs.lane]
        if self.sequence.ties is Ties.ANY:
            keep = ~later | self.states.where(self._is_in_order, runs.state)
            if not keep.all():
                runs, later = runs.take(np.flatnonzero(keep)), later[keep]
        return Runs(
            runs.lane, runs.state, runs.clauses, np.where(later, 0, runs.fresh), runs.fields, runs.count, runs.node
        )

    def _is_in_order(self, state: int) -> bool:
        """Whether everything that comes before a bound variable is bound."""
        states = self.states
        return not any(
            states.bit[name] & state and states.before[name] & ~state for name in states.names if states.before[name]
        )

    def _step(self, sources: Runs, alive: int, row_of_lane: Array, lanes: Lanes) -> Runs:
        """The runs after one event of each lane; of the sources the first ones may ignore it."""
        binder = self.binder
        row = row_of_lane[sources.lane]
        found: list[Runs] = []
        variables: list[Array] = []
        for number in range(len(self.states.names)):
            may = binder.may_bind(number, sources, row, lanes)
            if not may.any():
                continue
            places = np.flatnonzero(may)
            bound = binder.bound(number, sources.take(places), row[places], lanes)
            if not len(bound):
                continue
            self._emit(number, bound, row_of_lane, lanes)
            found.append(bound)
            variables.append(np.full(len(bound), number, np.int64))
        kept = sources if alive == len(sources) else sources.take(np.arange(alive))
        ignores = binder.may_ignore(kept, row[:alive], lanes)
        if not ignores.all():
            kept = kept.take(np.flatnonzero(ignores))
        if not found:
            return kept
        variable = np.concatenate([np.full(len(kept), IGNORED, np.int64), *variables])
        return self._merged(self._forgetful(_together([kept, *found])), variable, row_of_lane)

    def _emit(self, number: int, bound: Runs, row_of_lane: Array, lanes: Lanes) -> None:
        full = bound.state == self.states.full
        if not full.any():
            return
        complete = bound if full.all() else bound.take(np.flatnonzero(full))
        row = row_of_lane[complete.lane]
        matches = self.binder.matches(complete, row, lanes)
        if not matches.any():
            return
        count = complete.count[matches]
        self.total += exact_sum(count)
        if self.graph is not None:
            self.graph.end(row[matches], complete.node[matches], number, count)

    def _forgetful(self, runs: Runs) -> Runs:
        """The runs without the fields that nothing asks for any more."""
        fields = {}
        for field in self.fields:
            needed = self.states.where(field.needed, runs.state)
            values = runs.fields[field.name]
            fields[field.name] = values if needed.all() else np.where(needed, values, field.empty)
        return Runs(runs.lane, runs.state, runs.clauses, runs.fresh, fields, runs.count, runs.node)

    def _merged(self, runs: Runs, variable: Array, row_of_lane: Array) -> Runs:
        """Equal runs as one; the variable of each says what it has just done."""
        columns = [runs.lane, runs.state, runs.clauses, runs.fresh, *runs.fields.values()]
        columns = [column for column in columns if len(column) and (column != column[0]).any()]
        order, first = _groups(columns, len(runs))
        group = np.cumsum(first) - 1
        size = np.bincount(group)
        leader = order[first]
        merged = runs.take(leader)
        count = runs.count[order]
        if len(leader) < len(runs):
            if count.dtype != object and int(count.max()).bit_length() + int(size.max()).bit_length() > _INT64_BITS:
                count = count.astype(object)
            count = np.add.reduceat(count, np.flatnonzero(first))
        else:
            count = runs.count[leader]
        if count.dtype != object and len(count) and int(count.max()).bit_length() > _INT64_BITS - 4:
            count = count.astype(object)
        node = merged.node
        if self.graph is not None:
            fresh = (size > 1) | (variable[leader] != IGNORED)
            node = node.copy()
            node[fresh] = self.graph.nodes(int(fresh.sum()))
            new = fresh[group]
            from_run = order[new]
            self.graph.edges(
                runs.node[from_run], node[group[new]], variable[from_run], row_of_lane[runs.lane[from_run]]
            )
        return Runs(merged.lane, merged.state, merged.clauses, merged.fresh, merged.fields, count, node)


def exact_sum(counts: Array) -> int:
    """The sum of counts as a Python integer."""
    if counts.dtype == object:
        return int(sum(counts.tolist()))
    return (int((counts >> 32).sum()) << 32) + int((counts & (2**32 - 1)).sum())


def _together(parts: list[Runs]) -> Runs:
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return Runs(
        np.concatenate([part.lane for part in parts]),
        np.concatenate([part.state for part in parts]),
        np.concatenate([part.clauses for part in parts]),
        np.concatenate([part.fresh for part in parts]),
        {name: np.concatenate([part.fields[name] for part in parts]) for name in parts[0].fields},
        np.concatenate([part.count for part in parts]),
        np.concatenate([part.node for part in parts]),
    )


def _groups(columns: list[Array], size: int) -> tuple[Array, Array]:
    """An order in which equal rows of columns stand together, and where a new row begins in it.

    Where a row does not fit 64 bits, rows are brought together by a hash and compared by value: should two different
    rows share a hash, equal ones may stay apart, which costs memory only.
    """
    first = np.ones(size, dtype=bool)
    lows = [int(column.min()) for column in columns]
    widths = [(int(column.max()) - low).bit_length() for column, low in zip(columns, lows, strict=True)]
    if sum(widths) < _WORD_BITS:
        word = np.zeros(size, np.int64)
        for column, low, width in zip(columns, lows, widths, strict=True):
            word = (word << width) | (column - low)
        order = np.argsort(word, kind="stable")  # the parts of a step come in order: they are merged
        ordered = word[order]
        first[1:] = ordered[1:] != ordered[:-1]
        return order, first
    mixed = np.zeros(size, np.uint64)
    for column in columns:
        mixed = (mixed ^ column.view(np.uint64)) * _MIX
        mixed ^= mixed >> np.uint64(29)
    order = np.argsort(mixed, kind="stable")
    if size > 1:
        differs = np.zeros(size - 1, dtype=bool)
        for column in columns:
            ordered = column[order]
            differs |= ordered[1:] != ordered[:-1]
        first[1:] = differs
    return order, first
