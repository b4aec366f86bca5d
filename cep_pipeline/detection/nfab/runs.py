"""Run one clause over one slice: a run from each event that can begin it, some hundred thousand runs at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.instances import KERNEL_SOURCES
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Owned
from cep_pipeline.detection.nfab import codes
from cep_pipeline.detection.nfab.automaton import is_chain
from cep_pipeline.detection.nfab.contiguous import follow_contiguous
from cep_pipeline.detection.nfab.lives import Lives
from cep_pipeline.detection.nfab.negation import surviving_matches
from cep_pipeline.detection.nfab.program import Program, compile_conditions
from cep_pipeline.detection.nfab.stream import Sequence, sequence_of
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.evaluate import conjunct_holds, constants_hold
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy, Ties
from cep_pipeline.slices.blocks import MatchBlock
from cep_pipeline.slices.order import Instants, instants_of
from cep_pipeline.slices.ownership import Finality, earliest_row, owned_matches
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import gather
from cep_pipeline.statistics.node_counts import NodeCounts

RUNS_AT_ONCE = 1 << 17
"""Runs followed at once: their state is what is held beside the columns."""
MOST_NODES = 1 << 12
"""Sets of variables that are counted one by one."""

_advance = NativeKernel(
    "cep_pipeline.detection.nfab.kernel",
    "advance",
    (
        *["int64"] * 7,
        *("int32*", "int64*", "int64*", "int32*", "uint8*", "int32*"),
        *("float64*", "int64", "int64*", "int64", "int64*", "int64*", "uint8*"),
        *("int32*", "int32*", "int32*", "int32*", "int32*", "uint8*"),
        *("int64*", "int64", "float64*", "int64"),
    ),
    sources=(*KERNEL_SOURCES, "cep_pipeline.detection.nfab.codes"),
)


class ClauseRuns:
    """The runs of one clause over one slice.

    Parameters
    ----------
    pattern, clause
        A pattern, and one of its clauses: a chain or an AND of single events.
    events, owned
        The slice's own events with the look-back before them, and the slice `[start, end)`.
    finality
        When a match counts as final.
    lives
        Where `count` notes the runs' lives.

    Notes
    -----
    A run depends on nothing but the events from its first to its last, which are no more than the window apart: a slice
    that reads back the window follows just those runs that a longer one does.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        events: PreparedEvents,
        owned: Owned,
        finality: Finality,
        lives: Lives,
    ) -> None:
        self.pattern, self.clause, self.events, self.owned = pattern, clause, events, owned
        self.first_row = 0 if owned[0] is None else events.rows_before(owned[0])
        self.end_row = len(events) if owned[1] is None else events.rows_before(owned[1])
        self.chain = is_chain(clause)
        self.finality = finality
        self.evaluations = 0
        self.lives = lives
        self._ends: list[tuple[Array, Array]] = []
        variables = len(clause.positive)
        self._nodes = variables if self.chain else 1 << variables
        if self._nodes > MOST_NODES:
            self._nodes = 1
        self._counts = np.zeros(2 * self._nodes + 1, np.int64)

    def __iter__(self) -> Iterator[MatchBlock]:
        if self.end_row == 0 or not constants_hold(self.clause.conjuncts, self.events):
            return
        instants = self._instants
        starts = self._starts()
        for first in range(0, len(starts), RUNS_AT_ONCE):
            found = self._follow(starts[first : first + RUNS_AT_ONCE])
            if self.owned != EVERYTHING:
                found = found[:, self._is_owned(found)]
            if self.clause.negated and found.shape[1]:
                survives, tested = surviving_matches(self.pattern, self.clause, found, self.events, instants)
                self.evaluations += tested
                found = found[:, survives]
            if found.shape[1]:
                yield MatchBlock(self.clause, np.ascontiguousarray(found))
        self.evaluations += int(self._counts[-1])

    def count(self, counters: Counters) -> None:
        """Add what happened at each state that binds events: a chain's prefixes, or an AND's sets."""
        for begun, ended in self._ends:
            self.lives.add(begun, ended)
        names = [variable.name for variable in self.clause.positive]
        if self._nodes == 1 and len(names) > 1:
            return
        for node in range(self._nodes):
            candidates, passes = self._counts[2 * node : 2 * node + 2].tolist()
            bound = names[: node + 1] if self.chain else [name for i, name in enumerate(names) if node >> i & 1]
            if bound and (candidates or self.chain):
                created = passes if len(bound) < len(names) else 0
                counts = NodeCounts(self.pattern.name, self.clause.index, tuple(bound), candidates, passes, created)
                counters.count(counts)
        counters.evaluations += self.evaluations

    def _starts(self) -> Array:
        """int32, ascending: the places of the events that can begin a match."""
        sequence = self._sequence
        rows = sequence.view.rows
        beginning = (sequence.fits[0] if self.chain else sequence.fits.max(axis=0)).view(np.bool_)
        first_row = earliest_row(self.pattern, self.events, self.owned)
        if first_row > 0:
            beginning = beginning & (rows >= first_row)
        if self.end_row < len(self.events):
            beginning = beginning & (rows < self.end_row)
        if beginning.all():
            return np.arange(len(rows), dtype=np.int32)
        return np.flatnonzero(beginning).astype(np.int32)

    def _follow(self, starts: Array) -> Array:
        """The matches of the runs from these places, int32 of shape (variables, n)."""
        sequence = self._sequence
        runs = len(starts)
        together = int(starts[-1]) - int(starts[0]) + 1 == runs  # all places: a slice, which costs less than a choice
        chosen = slice(int(starts[0]), int(starts[-1]) + 1) if together else starts
        ends = sequence.ends[chosen].astype(np.int32)
        keyed = len(sequence.keys) > 0
        if keyed:  # an event that lacks a key agrees with none
            alone = sequence.keys[starts] < 0
            ends[alone] = starts[alone] + 1
        options = codes.CHAIN * self.chain | codes.AGREEING * keyed | codes.STRICT * (self.pattern.ties is Ties.STRICT)
        if self.pattern.strategy is not Strategy.SKIP_TILL_NEXT_MATCH:
            options |= codes.CONTIGUOUS
        if self._binds_in_a_row:
            self._counts[:2] += runs
            found, ended, expired = follow_contiguous(
                sequence,
                self._program,
                *(options, self._instants.width, self.end_row),
                *(self._times, self._instants_of_places, starts, ends, self._counts),
            )
        else:
            found, ended, expired = self._follow_one_by_one(starts, ends, options)
        begun = sequence.view.rows[chosen]
        if len(expired):
            ended[expired] = np.minimum(self._instants.end_row_within(begun[expired]), self.end_row)
        self._ends.append((begun, np.maximum(ended, begun, out=ended)))
        return found

    @property
    def _binds_in_a_row(self) -> bool:
        """Whether a run's events stand one behind the other, and the kernel can decide all conditions."""
        contiguous = self.pattern.strategy is not Strategy.SKIP_TILL_NEXT_MATCH
        return contiguous and self.chain and len(self.clause.positive) > 1 and not self._program.residual

    def _follow_one_by_one(self, starts: Array, ends: Array, options: int) -> tuple[Array, Array, Array]:
        """Rows of the matches, the row that each run ended with, and which runs expired; `contiguous.py` says more."""
        clause, sequence, program = self.clause, self._sequence, self._program
        variables, size = sequence.fits.shape
        runs = len(starts)
        places = np.full((runs, variables), -1, np.int32)
        if self.chain:
            places[:, 0] = starts
            self._counts[:2] += runs
        else:
            first = sequence.fits[:, starts].argmax(axis=0)
            places[np.arange(runs), first] = starts
            began = np.bincount(1 << first, minlength=self._nodes) if self._nodes > 1 else np.array([runs])
            self._counts[0:-1:2] += began
            self._counts[1:-1:2] += began
        states = np.full(runs, codes.MATCHED if variables == 1 else codes.RUNNING, np.uint8)
        cursors, tried = starts.copy(), np.zeros(runs, np.int32)
        residual = np.array([any(v.name in c.variables for c in program.residual) for v in clause.positive], np.uint8)
        stack = np.empty(program.most_scans + program.depth + 1, np.float64)
        while variables > 1:
            waiting = _advance(
                *(runs, variables, size, options, self._instants.width, len(self.events), self.end_row),
                *(
                    sequence.view.rows,
                    self._times,
                    self._instants_of_places,
                    sequence.keys,
                    sequence.fits,
                    sequence.links,
                ),
                *(
                    program.columns,
                    len(program.columns),
                    program.words,
                    len(program.words),
                    program.tests,
                    program.scans,
                    residual,
                ),
                *(starts, ends, places, cursors, tried, states),
                *(self._counts, self._nodes, stack, program.most_scans),
            )
            if not waiting:
                break
            self._decide(places, cursors, tried, states)
        rows = sequence.view.rows
        ended = rows[np.minimum(cursors, size - 1)]
        return rows[places[states == codes.MATCHED].T], ended, np.flatnonzero(states == codes.EXPIRED)

    def _decide(self, places: Array, cursors: Array, tried: Array, states: Array) -> None:
        """Decide the residual conjuncts of the runs that wait."""
        waiting = np.flatnonzero(states == codes.PENDING)
        bound = places[waiting]
        candidate = tried[waiting]
        bound[np.arange(len(waiting)), candidate] = cursors[waiting]
        names = [variable.name for variable in self.clause.positive]
        takes = np.ones(len(waiting), dtype=bool)
        for conjunct in self._program.residual:
            own = [place for place, name in enumerate(names) if name in conjunct.variables]
            completed = np.flatnonzero(takes & np.isin(candidate, own) & (bound[:, own] >= 0).all(axis=1))
            if len(completed):
                rows = {names[place]: self._sequence.view.rows[bound[completed, place]] for place in own}
                takes[completed] = conjunct_holds(conjunct, self.events, rows)
                self.evaluations += len(completed)
        states[waiting] = np.where(takes, codes.ACCEPTED, codes.REJECTED)

    def _is_owned(self, found: Array) -> Array:
        """Whether the slice owns each match: the one in which it becomes final."""
        first, last = found.min(axis=0), found.max(axis=0)
        final = owned_matches(self.pattern, self.events, self.owned, self.finality, first, last)
        return np.asarray(final & (last < self.end_row))

    @cached_property
    def _sequence(self) -> Sequence:
        return sequence_of(self.pattern, self.clause, self.events, self.chain)

    @cached_property
    def _instants(self) -> Instants:
        return instants_of(self.pattern, self.events)

    @cached_property
    def _program(self) -> Program:
        skipping = self.pattern.strategy is Strategy.SKIP_TILL_NEXT_MATCH
        return compile_conditions(self.clause, self._sequence.view, self.events, chain=self.chain, skipping=skipping)

    @cached_property
    def _times(self) -> Array:
        """int64, the timestamp of each place; of no place where ties do not matter."""
        view = self._sequence.view
        if self.pattern.ties is not Ties.STRICT:
            return np.empty(0, np.int64)
        return self.events.derive(("times", view.identity), lambda: gather(self.events.timestamps, view.rows))

    @cached_property
    def _instants_of_places(self) -> Array:
        view = self._sequence.view
        key = "clock" if self.pattern.window.time_us is not None else ("positions", self.pattern.partition_by)
        return self.events.derive(("instants", key, view.identity), lambda: gather(self._instants.of_row, view.rows))
