"""Run the NFA^b of a chain over one slice: what its kernels work on, and their calls until the stream has been read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.instances import KERNEL_SOURCES, Moment, Program, compile_program
from cep_pipeline.detection.instances.cell_ring import CellRing
from cep_pipeline.detection.instances.event_columns import of_any_event
from cep_pipeline.detection.instances.stream_rules import StreamRules
from cep_pipeline.detection.instances.term_writer import Accumulators
from cep_pipeline.detection.limits import go_on
from cep_pipeline.detection.nfab import words as at
from cep_pipeline.detection.nfab.automaton import Move, mentions, tested_at
from cep_pipeline.detection.nfab.memory import FinishedMatches, RunPool
from cep_pipeline.detection.nfab.stream import RunEvents, sequence_of
from cep_pipeline.detection.nfab.value_vector import VectorWords, vector_words
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Consume, Output, Pattern, Strategy
from cep_pipeline.slices.blocks import Block, ListBlock, MatchBlock
from cep_pipeline.slices.order import WindowInstants, clock_to_compare, earlier_is_before, instants_in_view, instants_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import holds_for_all

_advance = NativeKernel(
    "cep_pipeline.detection.nfab.automaton_kernel",
    "advance",
    ("int64*",),
    sources=(
        *KERNEL_SOURCES,
        *(f"cep_pipeline.detection.nfab.{name}" for name in ("machine", "words")),
    ),
)


class AutomatonRuns:
    """All runs of a chain over one slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    pattern, clause, events
        A pattern, one of its clauses, which is a chain, and the slice with the look-back before it.
    first_row, end_row
        Runs begin from the first of these rows on, and read events before the second.
    merge, backtrack
        The options of the mechanism. One run at a time has none to merge with. Runs of a clause with negated variables
        are never merged: whether an event rejects a match depends on all that it binds.
    prune
        Whether a match ends all other runs of its partition, where `is_prunable` says that nothing is lost by it.
    construct
        Whether matches are constructed; if not, there are no blocks, and `control` says how often runs were finished.

    Attributes
    ----------
    control
        int64: what the kernel counted; see `words.py`.
    counts
        int64, shape (variables, 2): candidates and passes of each variable.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        events: PreparedEvents,
        first_row: int,
        end_row: int,
        *,
        merge: bool = False,
        backtrack: bool = False,
        prune: bool = False,
        construct: bool = True,
    ) -> None:
        self.pattern, self.clause, self.events = pattern, clause, events
        self.first_row, self.end_row = first_row, end_row
        self.merges = merge and not backtrack and not clause.negated
        self.backtracks, self.constructs = backtrack, construct
        self.prunes = prune and is_prunable(pattern, clause)
        self.program: Program = compile_program(pattern, clause, events)
        self.variables = len(clause.positive)
        self.control = np.zeros(at.CONTROL_WORDS, np.int64)
        self.counts = np.zeros((self.variables, 2), np.int64)
        self.change = np.zeros(len(events) + 1, np.int32)
        self.expired = np.zeros(0, np.int32)

    @property
    def evaluations(self) -> int:
        """Tests of one conjunct, on one event or on a run."""
        return self.program.evaluations + self.program.unary_evaluations

    @cached_property
    def instants(self) -> WindowInstants:
        """The instants in which the window is measured."""
        return instants_of(self.pattern, self.events)

    @cached_property
    def sequence(self) -> RunEvents:
        """The events that runs read."""
        return sequence_of(self.pattern, self.clause, self.events, self.program.fits)

    def __iter__(self) -> Iterator[Block]:
        if not self.program.possible or self.end_row <= self.first_row:
            return
        starts = self._starts()
        if not len(starts):
            return
        yield from self._run(starts)

    def rows_of_expired(self) -> Array:
        """The rows of the first events of runs that expired, once for each run."""
        places = np.flatnonzero(self.expired != 0)
        return np.repeat(self.sequence.view.rows[places], self.expired[places])

    def _starts(self) -> Array:
        """int32: the places of the events that can begin the pattern."""
        first = self.clause.positive[0]
        conjuncts = frozenset(c for c in self.clause.conjuncts if c.variables == {first.name})
        key = ("starts", self.sequence.view.identity, first, conjuncts)
        starts: Array = self.events.derive(key, lambda: self._all_starts(conjuncts))
        if self.first_row > 0 or self.end_row < len(self.events):
            rows = self.sequence.view.rows[starts]
            starts = starts[(rows >= self.first_row) & (rows < self.end_row)]
        return starts

    def _all_starts(self, conjuncts: Iterable[Conjunct]) -> Array:
        """int32: the places of the events of all rows that can begin the pattern."""
        rows = self.sequence.view.rows
        begins = self.sequence.fits[0].view(np.bool_)
        for conjunct in conjuncts if self.clause.positive[0].kleene else ():
            if tested_at(conjunct, self.clause)[1] == {Move.BEGIN} and _reads_events(conjunct):
                holds = holds_for_all(self.events, of_any_event(conjunct))
                begins = begins & (np.take(holds, rows, mode="clip") if len(holds) > 1 else holds)
        return np.flatnonzero(begins).astype(np.int32)

    def _groups(self) -> Array:
        """int64, shape (variables, 3): the groups of conjuncts of each begin edge, take edge and of leaving; or -1."""
        groups = np.full((self.variables, 3), -1, np.int64)
        before = Moment()
        for place, variable in enumerate(self.clause.positive):
            groups[place, 0] = self.program.groups.first_group(variable.name, before)
            complete = before.complete | {variable.name}
            bound = before.bound | {variable.name}
            if variable.kleene:
                growing = Moment(bound, before.complete)
                groups[place, 1] = self.program.groups.element_group(variable.name, growing)
                groups[place, 2] = self.program.groups.left_group(growing, (variable.name,))
            before = Moment(bound, complete)
        empty = [group for group in np.unique(groups[groups >= 0]) if self.program.groups.is_empty(group)]
        groups[np.isin(groups, empty)] = -1
        return groups

    def _run(self, starts: Array) -> Iterator[Block]:
        sequence, control = self.sequence, self.control
        words = np.zeros(at.NUMBER, np.int64)
        groups = self._groups()
        cells, buffer = CellRing(self.program), CellRing.of_types(Accumulators(), [""], 1 << 12)
        vector: VectorWords = vector_words(self.pattern, self.clause, self.program, self.merges)
        compared = 2 if self.backtracks else vector.most
        pool = RunPool(self.variables, len(self.program.variables), compared, control)
        found = FinishedMatches(control)
        most = [one.maximum or np.iinfo(np.int64).max if one.kleene else 0 for one in self.clause.positive]
        greatest = np.array(most, np.int64)
        clocks = clock_to_compare(self.events, sequence.view, self.pattern.ties)
        instants = instants_in_view(self.pattern, self.events, sequence.view)
        self.expired = np.zeros(len(sequence.view), np.int32)
        at.set_words(
            words,
            control=control,
            variables=self.variables,
            options=self._options(),
            width=self.instants.width,
            size=len(sequence.view),
            end_row=self.end_row,
            starts=starts,
            number_of_starts=len(starts),
            rows=sequence.view.rows,
            clocks=clocks,
            instants=instants,
            instants_of_rows=self.instants.of_row,
            keys=sequence.keys,
            fits=sequence.fits,
            ends=sequence.ends,
            most=greatest,
            groups=groups,
            vector=vector.words,
            vector_starts=vector.starts,
            counts=self.counts,
            change=self.change,
            expired=self.expired,
        )
        if self.clause.negated:
            rules = StreamRules(self.pattern, self.clause, self.events, self.program)
            rules.prepare()
            words[at.RULES :] = rules.kernel_words()
        words[at.CODE : at.BUFFER] = self.program.kernel_words()
        growing = {
            at.RUNS_FULL: pool.grow,
            at.CELLS_FULL: cells.grow,
            at.BUFFER_FULL: buffer.grow,
            at.FINISHED_FULL: found.grow_finished,
        }
        wanted = at.DONE  # after the first call: why it returned, and so what has other words now
        while True:
            if wanted in (at.DONE, at.RUNS_FULL):
                pool.set_words(words)
            if wanted in (at.DONE, at.CELLS_FULL):
                words[at.CELLS : at.CODE] = cells.kernel_words()
                words[at.CELLS - 1] = words[at.CELLS + 3]  # `real_bits`
            if wanted in (at.DONE, at.BUFFER_FULL):
                words[at.BUFFER : at.RULES] = buffer.kernel_words()
            found.set_words(words, buffer.size)
            go_on()
            wanted = _advance(words)
            if wanted in (at.DONE, at.OUTPUT_FULL):
                offsets, rows, variables = found.drain()
                if len(offsets) > 1:
                    yield self._block(offsets, rows, variables)
                if wanted == at.DONE:
                    return
            elif wanted in growing:
                growing[wanted]()

    def _block(self, offsets: Array, rows: Array, variables: Array) -> Block:
        if any(variable.kleene for variable in self.clause.positive):
            return ListBlock(self.clause, offsets, rows, variables)
        return MatchBlock(self.clause, np.ascontiguousarray(rows.reshape(-1, self.variables).T))

    def _options(self) -> int:
        strategy = self.pattern.strategy
        wanted = {
            at.CONTIGUOUS: strategy in (Strategy.PARTITION_CONTIGUITY, Strategy.STRICT_CONTIGUITY),
            at.ANY_MATCH: strategy is Strategy.SKIP_TILL_ANY_MATCH,
            at.COMPARES_CLOCKS: not earlier_is_before(self.pattern.ties),
            at.AGREEING: len(self.sequence.keys) > 0,
            at.MERGING: self.merges,
            at.NEGATION: bool(self.clause.negated),
            at.BACKTRACKING: self.backtracks,
            at.MATCHING_ONLY: not self.constructs,
            at.PRUNING: self.prunes,
        }
        return sum(option for option, is_set in wanted.items() if is_set)


def is_prunable(pattern: Pattern, clause: Clause) -> bool:
    """Return whether a match of the clause ends all other runs over its partition, since their matches overlap it.

    OUTPUT NON_OVERLAP keeps the match that ends first among all matches of the pattern in a partition that begin behind
    the last one kept, whatever comes later. The runs of one clause that read a partition each know all of them.
    """
    return (
        pattern.output is Output.NON_OVERLAP
        and not clause.negated_structures  # of a match that is rejected nobody knows yet
        and pattern.consume is Consume.NONE
        and len(pattern.clauses) == 1
        and set(clause.agree_on) == set(pattern.partition_by)
        and not (clause.agree_on and pattern.strategy is Strategy.STRICT_CONTIGUITY)
    )


def _reads_events(conjunct: Conjunct) -> bool:
    """Return whether a conjunct of one variable reads its first event only, and no aggregate but `first`."""
    return all(hasattr(node, "attribute") for node in mentions(conjunct))
