"""Run one clause over one slice: events enter the leaves of its tree, and matches leave the root."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.evaluation_tree import codes
from cep_pipeline.detection.evaluation_tree.assembly import Assembly
from cep_pipeline.detection.evaluation_tree.stream import TreeStream
from cep_pipeline.detection.instances import (
    CODE_WORDS,
    KERNEL_SOURCES,
    RING_WORDS,
    RULES_WORDS,
    CellRing,
    compile_program,
)
from cep_pipeline.detection.instances.found import FoundMatches
from cep_pipeline.detection.mechanisms import Counters, Owned, conjuncts_joining
from cep_pipeline.detection.room import ask_for
from cep_pipeline.errors import DataError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import Join, Tree, leaves_of
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.ownership import Finality, earliest_row, finality_of
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.node_counts import NodeCounts

ROOM = 1 << 8
"""Instances that each store has room for at first."""
MOST_WORDS = 1 << 31
"""Words of the instances of one node: 8 GB."""
INPUTS = 35
"""Words of `kernel.machine_at` before those of the rules, the conditions, the cells and the matches found."""

_grow_trees = NativeKernel(
    "cep_pipeline.detection.evaluation_tree.kernel",
    "grow_trees",
    ("int64*",),
    sources=(
        *KERNEL_SOURCES,
        *(f"cep_pipeline.detection.evaluation_tree.{name}" for name in ("codes", "finished", "machine", "stores")),
    ),
)


class Held:
    """What the trees of a pattern hold together.

    Parameters
    ----------
    events
        Number of events of the slice.
    """

    def __init__(self, events: int) -> None:
        self._events = events
        self._instances: list[tuple[Array, Array]] = []
        self._buffered: list[Array] = []

    def add(self, rows: Array, instances: Array, buffered: Array | None) -> None:
        """Add a tree: after which rows it held how many instances, and its buffered events after every row."""
        if len(rows):
            self._instances.append((rows, instances))
        if buffered is not None:
            self._buffered.append(buffered)

    @property
    def peak_instances(self) -> int:
        """The most instances after an event."""
        if len(self._instances) == 1:
            return int(self._instances[0][1].max())
        total = np.zeros(self._events, np.int64)
        for rows, instances in self._instances:
            total[rows[0] :] += np.repeat(instances, np.diff(rows, append=self._events))
        return int(total.max(initial=0))

    @property
    def peak_events(self) -> int:
        """The most buffered events."""
        return int(sum(self._buffered, np.zeros(1, np.int64)).max())


class TreeRun:
    """One run of a clause's tree over a slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    pattern, clause, tree
        A pattern under skip_till_any_match, one of its clauses, and a tree with each of its positive variables once.
    events, owned
        The slice's own events with the look-back before them, and the slice `[start, end)`.
    finality
        When a match counts as final.
    held
        Where `count` adds what the tree held.

    Raises
    ------
    DataError
        While it is iterated over: a window has more instances than memory is there for.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        tree: Tree,
        events: PreparedEvents,
        owned: Owned,
        finality: Finality,
        held: Held,
    ) -> None:
        self.pattern, self.clause, self.events, self.owned = pattern, clause, events, owned
        self.assembly = Assembly(pattern, clause, tree)
        self.finality, self.owned_by = finality_of(pattern, clause), finality
        self.program = compile_program(pattern, clause, events)
        nodes = len(self.assembly.nodes)
        self.counts = np.zeros((nodes, codes.COUNTS), np.int64)
        self.peaks = np.zeros(nodes, np.int64)
        self.held_at_steps: Array = np.zeros(0, np.int32)
        self._held = held

    def __iter__(self) -> Iterator[Block]:
        if not self.program.possible or not len(self.stream.rows):
            return
        self.held_at_steps = np.zeros(len(self.stream.rows), np.int32)
        state = _State(self, self.stream)
        while True:
            code = _grow_trees(state.words())
            empty = not len(state.found)
            block = state.found.drain()
            if block is not None:
                yield block
            if code == codes.FINISHED:
                return
            state.make_room(code, empty)

    @cached_property
    def stream(self) -> TreeStream:
        """What the tree reads."""
        first = earliest_row(self.pattern, self.events, self.owned)
        end = len(self.events) if self.owned[1] is None else self.events.rows_before(self.owned[1])
        return TreeStream(self.pattern, self.clause, self.events, self.program, first, end)

    @property
    def first_output_row(self) -> int:
        """The row from which on matches are wanted that are final at their last event."""
        if self.owned[0] is None or self.owned_by is not Finality.LAST_EVENT:
            return 0
        return self.events.rows_before(self.owned[0])

    def count(self, counters: Counters) -> None:
        """Add what happened at the nodes of the tree."""
        for node, tree in enumerate(self.assembly.nodes):
            candidates, passes, created = self.counts[node].tolist()
            if self.assembly.is_single_leaf(node) and self.program.possible:
                candidates, passes = self.stream.entered(node)
            names, peak = leaves_of(tree), int(self.peaks[node])
            tested = None
            if isinstance(tree, Join):
                tested = conjuncts_joining(self.clause, leaves_of(tree.left), leaves_of(tree.right))
            counters.count(
                NodeCounts(self.pattern.name, self.clause.index, names, candidates, passes, created, peak, tested)
            )
        counters.evaluations += self.program.evaluations + self.program.unary_evaluations
        if self.program.possible:
            self._held.add(self.stream.rows, self.held_at_steps, self.stream.negated_held)


class _State:
    """What the kernel works in, and its words."""

    def __init__(self, run: TreeRun, stream: TreeStream) -> None:
        assembly, clause = run.assembly, run.clause
        self.run, self.stream = run, stream
        nodes, variables = len(assembly.nodes), len(clause.positive)
        stores = nodes + variables
        self.layout = assembly.words(run.program)
        members = [len(own) for own in assembly.members]
        self.strides = np.array([*members, *[1] * variables], np.int64) + codes.SLOTS
        kept = [True] * nodes + [variable.kleene for variable in clause.positive]
        self.sizes = np.array([ROOM if own else 0 for own in kept], np.int64)
        self.bases = self._bases()
        self.store = np.empty(int((self.sizes * self.strides).sum()) + 1, np.int32)
        self.tails, self.marks = np.zeros(stores, np.int64), np.zeros(stores, np.int64)
        self.newest = np.full(stores * stream.different + 1, -1, np.int32)
        self.deaths = np.zeros(nodes * (len(stream.rows) + 1), np.int32)
        self.alive = np.zeros(nodes, np.int64)
        self.progress = np.zeros(codes.PROGRESS, np.int64)
        self.progress[codes.FREE] = -1
        self.saved = np.zeros(nodes * codes.COUNTS + 1, np.int64)
        self.bound = np.full(len(run.program.variables) + 1, -1, np.int32)
        self.cells = CellRing(run.program)
        self.waiting_stride = codes.WAITING_SLOTS + variables
        self.waiting_room = ROOM if run.finality is not Finality.LAST_EVENT else 0
        self.waiting = np.empty(self.waiting_room * self.waiting_stride + 1, np.int32)
        self.made = np.empty(self.waiting_room + 1, np.int32)
        self.due_heads = np.full(len(stream.rows) + 1 if self.waiting_room else 1, -1, np.int32)
        self.due = stream.due if run.finality is Finality.LAST_INSTANT else np.empty(1, np.int32)
        self.found = FoundMatches(run.pattern, clause, run.events, run.owned, run.owned_by)
        self.fixed_words = [*stream.rules.kernel_words(), *run.program.kernel_words()]

    def _bases(self) -> Array:
        return np.concatenate(([0], np.cumsum(self.sizes * self.strides)[:-1])).astype(np.int64)

    def words(self) -> Array:
        """int64: what `kernel.machine_at` reads."""
        run, stream = self.run, self.stream
        cells = INPUTS + RULES_WORDS + CODE_WORDS
        numbers: list[int | Array] = [
            *(self.layout, len(run.clause.positive), len(run.assembly.nodes)),
            *(len(stream.rows), stream.rows, stream.expires, self.due, run.program.fits, len(run.events)),
            *(stream.negated, self.store, self.bases, self.sizes, self.tails, self.marks),
            *(
                self.newest,
                stream.different,
                self.deaths,
                self.alive,
                run.peaks,
                run.counts,
                self.saved,
                self.bound,
                run.held_at_steps,
            ),
            *(self.progress, run.first_output_row, int(run.finality)),
            *(self.waiting, self.waiting_room, self.due_heads, self.made),
            *(INPUTS, INPUTS + RULES_WORDS, cells, cells + RING_WORDS),
        ]
        addresses = [number if isinstance(number, int) else int(number.ctypes.data) for number in numbers]
        assert len(addresses) == INPUTS
        return np.array(
            [*addresses, *self.fixed_words, *self.cells.kernel_words(), *self.found.kernel_words()], np.int64
        )

    def make_room(self, code: int, empty: bool) -> None:
        """Make room for what the kernel had none for; `empty` says whether it had found nothing."""
        if code == codes.STORE_FULL:
            self._enlarge_store(int(self.progress[codes.SHORT_OF]))
        elif code == codes.CELLS_FULL:
            self.cells.grow()
        elif code == codes.WAITING_FULL:
            self.waiting_room *= 2
            self.waiting = np.resize(self.waiting, self.waiting_room * self.waiting_stride + 1)
            self.made = np.empty(self.waiting_room + 1, np.int32)
        elif code == codes.FOUND_FULL and empty:  # one event makes more matches than there is room for
            self.found.grow()

    def _enlarge_store(self, store: int) -> None:
        before, store_before = self.bases, self.store
        if 2 * self.sizes[store] * self.strides[store] > MOST_WORDS:
            raise DataError(
                f"a node of the tree holds more than {self.sizes[store]:,} instances within a window: shorten the "
                "window, add conditions, or use mechanism 'fused', which stores none of single events"
            )
        more = 4 * int((self.sizes * self.strides).sum() + self.sizes[store] * self.strides[store])
        ask_for(more, f"a node of the tree holds {self.sizes[store]:,} instances within a window")
        self.sizes[store] *= 2
        self.bases = self._bases()
        self.store = np.empty(int((self.sizes * self.strides).sum()) + 1, np.int32)
        for own, tail in enumerate(self.tails.tolist()):
            held = tail * int(self.strides[own])
            self.store[self.bases[own] : self.bases[own] + held] = store_before[before[own] : before[own] + held]
