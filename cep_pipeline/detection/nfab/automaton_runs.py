"""Run the NFA^b of a chain over one slice: what its kernels work on, and their calls until the stream has been read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.conditions.groups import Moment, mentions, of_any_event
from cep_pipeline.detection.conditions.program import KERNEL_SOURCES, CellRing, Program, StreamRules
from cep_pipeline.detection.conditions.writer import Accumulators
from cep_pipeline.detection.limits import ask_for, go_on
from cep_pipeline.detection.mechanisms import EVERYTHING, PRUNE, Counters, RunCounts, conjuncts_joining
from cep_pipeline.detection.nfab import words as at
from cep_pipeline.detection.nfab.automaton import Move, tested_at, vector_words
from cep_pipeline.detection.nfab.runs import RunEvents, RunLives, sequence_of
from cep_pipeline.errors import NoRoom
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Consume, Output, Pattern
from cep_pipeline.slices.blocks import Block, ListBlock, MatchBlock
from cep_pipeline.slices.order import WindowInstants, instants_of
from cep_pipeline.slices.views import holds_for_all
from cep_pipeline.statistics.observed import NodeCounts

_advance = NativeKernel(
    "cep_pipeline.detection.nfab.automaton_kernel",
    "advance",
    ("int64*",),
    sources=(
        *KERNEL_SOURCES,
        "cep_pipeline.detection.nfab.words",
    ),
)
ELEMENTS_AT_ONCE = 1 << 18
"""Elements of matches written before they are handed on: what a processor keeps at hand while it writes them."""
FIRST_RUNS = 1 << 10
"""Runs that there is room for at first."""
MOST = 1 << 30
"""Runs of one window beyond which nobody waits for an answer."""


class AutomatonRuns:
    """All runs of a chain over one slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    of
        A clause over a slice: a chain.
    options
        `merge`, `backtrack` and `PRUNE`. One run at a time has none to merge with. Runs of a clause with negated
        variables are never merged: whether an event rejects a match depends on all that it binds. With `PRUNE` a match
        ends all other runs of its partition, where `is_prunable` says that nothing is lost by it.
    lives
        Where `count` notes the runs' lives.
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
        self, of: ClauseSlice, options: frozenset[str], lives: RunLives | None = None, *, construct: bool = True
    ) -> None:
        self.of, self.lives, self.constructs = of, lives or RunLives(), construct
        self.pattern, self.clause, self.events, self.owned, _ = of
        self.backtracks = "backtrack" in options
        self.merges = "merge" in options and not self.backtracks and not self.clause.negated
        self.prunes = PRUNE in options and self.owned == EVERYTHING and is_prunable(self.pattern, self.clause)
        self.program: Program = Program(self.pattern, self.clause, self.events)
        self.variables = len(self.clause.positive)
        self.control = np.zeros(at.CONTROL_WORDS, np.int64)
        self.counts = np.zeros((self.variables, 2), np.int64)
        self.change = np.zeros(len(self.events) + 1, np.int32)
        self.expired = np.zeros(0, np.int32)

    @cached_property
    def instants(self) -> WindowInstants:
        """The instants in which the window is measured."""
        return instants_of(self.pattern, self.events)

    @cached_property
    def sequence(self) -> RunEvents:
        """The events that runs read."""
        return sequence_of(self.pattern, self.clause, self.events, self.program.fits)

    def __iter__(self) -> Iterator[Block]:
        if not self.program.possible or self.of.end_row <= self.of.earliest_row:
            return
        starts = self.sequence.starts(self.of, self._beginning())
        for block in self._run(starts) if len(starts) else ():
            if self.owned != EVERYTHING:
                block = block.take(self.of.owns(block.first_rows(), block.last_rows()))
            if len(block):
                yield block

    def count(self, counters: Counters) -> None:
        """Add what happened at each state, and what became of the runs."""
        names = [variable.name for variable in self.clause.positive]
        for place, (candidates, passes) in enumerate(self.counts.tolist()):
            created = passes if place + 1 < len(names) or self.clause.positive[place].kleene else 0
            bound = tuple(names[: place + 1])
            # Runs that others go on for are not tried, and other strategies do not try all events.
            tried_all = self.pattern.strategy.forks and not self.merges
            tested = conjuncts_joining(self.clause, bound[:-1], bound[-1:]) if place and tried_all else None
            counters.count(
                NodeCounts(self.pattern.name, self.clause.index, bound, candidates, passes, created, tested=tested)
            )
        counters.condition_evaluations += self.program.evaluations + self.program.unary_evaluations
        control = self.control.tolist()
        counters.count_runs(
            self.pattern.name,
            RunCounts(
                started=control[at.STARTED],
                merged=control[at.MERGED],
                selected=int(self.counts[:, 1].sum()),
                read=control[at.READ],
                read_again=control[at.READ_AGAIN],
                most_entries=control[at.MOST_ENTRIES],
            ),
        )
        rows = np.flatnonzero(self.change != 0)  # bools are searched many at a time
        self.lives.add(rows, self.change[rows])
        places = np.flatnonzero(self.expired)
        begun = np.repeat(self.sequence.view.rows[places], self.expired[places])
        self.lives.add(np.minimum(self.instants.end_row_within(begun), self.of.end_row), -1)

    def _beginning(self) -> Array:
        """bool, by place: the events that can begin the pattern."""
        first = self.clause.positive[0]
        rows = self.sequence.view.rows
        begins: Array = self.sequence.fits[0].view(np.bool_)
        for conjunct in self.clause.conjuncts if first.kleene else ():
            own = conjunct.variables == {first.name} and tested_at(conjunct, self.clause)[1] == {Move.BEGIN}
            # It reads the first event only, and no aggregate but `first`.
            if own and all(hasattr(node, "attribute") for node in mentions(conjunct.atoms)):
                holds = holds_for_all(self.events, of_any_event(conjunct))
                begins = begins & (np.take(holds, rows, mode="clip") if len(holds) > 1 else holds)
        return begins

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
        cells, buffer = self.program.ring(), CellRing(Accumulators(), [""], 1 << 12)
        # The columns live as long as the words that point to them.
        vector, vector_starts, _columns = vector_words(self.pattern, self.clause, self.program, self.merges)
        compared = 2 if self.backtracks else int(np.diff(vector_starts).max())
        pool = RunPool(self.variables, len(self.program.variables), compared, control)
        found = FinishedMatches(control)
        most = [one.maximum or np.iinfo(np.int64).max if one.kleene else 0 for one in self.clause.positive]
        greatest = np.array(most, np.int64)
        self.expired = np.zeros(len(sequence.view), np.int32)
        at.set_words(
            words,
            control=control,
            variables=self.variables,
            options=self._options(),
            width=self.instants.width,
            size=len(sequence.view),
            end_row=self.of.end_row,
            starts=starts,
            number_of_starts=len(starts),
            rows=sequence.view.rows,
            clocks=sequence.clocks,
            instants=sequence.instants,
            instants_of_rows=self.instants.of_row,
            keys=sequence.keys,
            fits=sequence.fits,
            ends=sequence.ends,
            most=greatest,
            groups=groups,
            vector=vector,
            vector_starts=vector_starts,
            counts=self.counts,
            change=self.change,
            expired=self.expired,
        )
        if self.clause.negated:
            rules = StreamRules(self.pattern, self.clause, self.events, self.program)
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
        return (
            self.sequence.options
            | at.ANY_MATCH * (self.pattern.strategy.forks)
            | at.MERGING * self.merges
            | at.NEGATION * bool(self.clause.negated)
            | at.BACKTRACKING * self.backtracks
            | at.MATCHING_ONLY * (not self.constructs)
            | at.PRUNING * self.prunes
        )


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
        and not (clause.agree_on and pattern.strategy.crosses_partitions)
    )


class RunPool:
    """The runs of a clause, and the lists of those in each state.

    Parameters
    ----------
    variables, stride, values
        Positive variables, slots of a run, and values of its vector that are compared.
    control
        The kernel's control words, in which the free runs are counted.
    """

    def __init__(self, variables: int, stride: int, values: int, control: Array) -> None:
        self.control = control
        self._list_sizes = np.full(2 * variables, -1, np.int64)
        self._list_sizes[:variables] = 0
        self._slots = np.zeros((FIRST_RUNS, stride), np.int32)
        self._runs = np.zeros((FIRST_RUNS, at.R_VALUES + values), np.int64)
        self._lists = np.zeros((variables, FIRST_RUNS), np.int32)
        self._free = np.arange(FIRST_RUNS, dtype=np.int32)[::-1].copy()
        self._table = np.zeros(4 * FIRST_RUNS, np.int32)
        control[at.FREE_RUNS] = FIRST_RUNS

    def grow(self) -> None:
        """Double the pool; its words change."""
        old, free = len(self._runs), self._free[: int(self.control[at.FREE_RUNS])]
        if 2 * old > MOST:
            raise NoRoom(f"more than {old:,} runs live at a time: shorten the window")
        large = self._slots, self._runs, self._lists, self._table
        ask_for(2 * sum(array.nbytes for array in large), f"{old:,} runs live at a time")
        self._slots = np.concatenate((self._slots, np.zeros_like(self._slots)))
        self._runs = np.concatenate((self._runs, np.zeros_like(self._runs)))
        self._lists = np.concatenate((self._lists, np.zeros_like(self._lists)), axis=1)
        self._free = np.zeros(2 * old, np.int32)
        self._free[:old] = np.arange(old, 2 * old)[::-1]
        self._free[old : old + len(free)] = free
        self.control[at.FREE_RUNS] = old + len(free)
        self._table = np.concatenate((self._table, np.zeros_like(self._table)))

    def set_words(self, words: Array) -> None:
        """Write the addresses."""
        at.set_words(
            words,
            stride=self._slots.shape[1],
            capacity=len(self._runs),
            run_words=self._runs.shape[1],
            slots=self._slots,
            runs=self._runs,
            free=self._free,
            lists=self._lists,
            list_sizes=self._list_sizes,
            table=self._table,
        )


class FinishedMatches:
    """Room for the runs that an event finishes, for the way back through the buffer, and for written matches."""

    def __init__(self, control: Array) -> None:
        self.control = control
        self.finished = np.zeros(1 << 11, np.int32)
        self.offsets = np.zeros(ELEMENTS_AT_ONCE + 2, np.int64)
        self.pending = self.path = np.zeros(0, np.int32)
        self._make_room(ELEMENTS_AT_ONCE)

    def _make_room(self, elements: int) -> None:
        self.rows, self.variables = np.empty((2, elements), np.int32)

    def set_words(self, words: Array, entries: int) -> None:
        """Write the addresses; the way back passes at most so many entries of the buffer."""
        if len(self.path) < entries + 1:
            self.path = _longer(self.path, entries + 1)
            self.pending = _longer(self.pending, 2 * entries + 2)
        at.set_words(
            words,
            finished_capacity=len(self.finished),
            out_capacity=len(self.rows),
            out_matches=len(self.offsets) - 2,
            finished=self.finished,
            pending=self.pending,
            path=self.path,
            out_rows=self.rows,
            out_variables=self.variables,
            out_offsets=self.offsets,
        )

    def grow_finished(self) -> None:
        """Double the room for finished runs."""
        self.finished = _longer(self.finished, 2 * len(self.finished))

    def drain(self) -> tuple[Array, Array, Array]:
        """Offsets, rows and variables of the written matches; more room if there was too little for a single one."""
        matches, written = int(self.control[at.MATCHES]), int(self.control[at.WRITTEN])
        offsets, rows, variables = self.offsets[: matches + 1].copy(), self.rows[:written], self.variables[:written]
        if 2 * written < len(self.rows):  # few are copied, many are handed on as they are
            rows, variables = rows.copy(), variables.copy()
        else:
            self._make_room(len(self.rows))
        if not matches:
            self._make_room(2 * len(self.rows))
        self.control[at.WRITTEN] = self.control[at.MATCHES] = 0
        return offsets, rows, variables


def _longer(values: Array, size: int) -> Array:
    longer = np.zeros(size, values.dtype)
    longer[: len(values)] = values
    return longer
