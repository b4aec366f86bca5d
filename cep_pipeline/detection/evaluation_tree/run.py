"""Run one clause over one slice: events enter the leaves of its tree, and matches leave the root."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from cep_pipeline.detection.blocks import Block, ListBlock, MatchBlock
from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.evaluation_tree import codes
from cep_pipeline.detection.evaluation_tree.assembly import Assembly
from cep_pipeline.detection.evaluation_tree.stream import TreeStream
from cep_pipeline.detection.finality import Finality, finality_of
from cep_pipeline.detection.instances.cell_ring import CellRing
from cep_pipeline.detection.instances.program import CODE_WORDS, compile_program
from cep_pipeline.detection.instances.stream_rules import RULES_WORDS
from cep_pipeline.detection.mechanism import EVERYTHING, Counters, NodeCounts, Owned
from cep_pipeline.detection.native import NativeKernel
from cep_pipeline.detection.ownership import earliest_row, owned_matches
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.trees import Tree, leaves_of

MATCHES_AT_ONCE, ELEMENTS_AT_ONCE = 1 << 15, 1 << 18
"""Matches, and elements of lists, that are held before they are handed on, unless one event makes more."""
ROOM = 1 << 8
"""Instances that each store has room for at first."""
INPUTS = 40
"""Words of `kernel.machine_at` before those of the rules, of the conditions and of the cells."""

_grow_trees = NativeKernel(
    "cep_pipeline.detection.evaluation_tree.kernel",
    "grow_trees",
    ("int64*",),
    sources=(
        *(f"cep_pipeline.detection.evaluation_tree.{name}" for name in ("codes", "finished", "machine", "stores")),
        "cep_pipeline.detection.instances.cells",
        "cep_pipeline.detection.instances.codes",
        "cep_pipeline.detection.instances.interpreter",
        "cep_pipeline.detection.instances.pointers",
        "cep_pipeline.detection.instances.rules",
    ),
)


class TreeRun:
    """One run of a clause's tree over a slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    pattern, clause, tree
        A pattern under skip_till_any_match, one of its clauses, and a tree with each of its positive variables once.
    events, owned
        The slice's own events with the look-back before them, and the slice `[start, end)`.
    finality
        When a match counts as final; None for what the clause says.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        tree: Tree,
        events: PreparedEvents,
        owned: Owned = EVERYTHING,
        finality: Finality | None = None,
    ) -> None:
        self.pattern, self.clause, self.events, self.owned = pattern, clause, events, owned
        self.assembly = Assembly(pattern, clause, tree)
        self.finality = finality_of(pattern, clause)
        self.owned_by = self.finality if finality is None else finality
        self.program = compile_program(pattern, clause, events)
        nodes = len(self.assembly.nodes)
        self.counts = np.zeros((nodes, codes.COUNTS), np.int64)
        self.peaks = np.zeros(nodes, np.int64)
        self.progress = np.zeros(codes.PROGRESS, np.int64)
        self.progress[codes.FREE] = -1
        self.held = np.zeros(0, np.int32)

    def __iter__(self) -> Iterator[Block]:
        if not self.program.possible:
            return
        stream = self.stream
        if not len(stream.rows):
            return
        self.held = np.zeros(len(stream.rows), np.int32)
        state = _State(self, stream)
        while True:
            code = _grow_trees(state.words())
            block = state.drain()
            if block is not None and len(block):
                yield block
            if code == codes.FINISHED:
                return
            state.make_room(code, drained=block is not None)

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

    def owns(self, block: Block) -> Block:
        """Those matches of a block that the slice owns."""
        if self.owned == EVERYTHING or (self.finality is self.owned_by is Finality.LAST_EVENT):
            return block
        if isinstance(block, MatchBlock):
            first, last = block.rows.min(axis=0), block.rows.max(axis=0)
        else:
            first = np.minimum.reduceat(block.rows, block.offsets[:-1])
            last = np.maximum.reduceat(block.rows, block.offsets[:-1])
        return block.take(owned_matches(self.pattern, self.events, self.owned, self.owned_by, first, last))

    def instances_held(self) -> Array:
        """int64: how many instances are held after the event of each row."""
        found = np.zeros(len(self.events) + 1, np.int64)
        if len(self.held):
            rows = self.stream.rows
            found[rows[0] :] = np.repeat(self.held, np.diff(rows, append=len(found)))
        return found

    def events_held(self) -> Array:
        """int64: how many events of negated variables are held after the event of each row."""
        return self.stream.negated_held if self.program.possible else np.zeros(len(self.events) + 1, np.int64)

    def count(self, counters: Counters) -> None:
        """Add what happened at the nodes of the tree."""
        for node, tree in enumerate(self.assembly.nodes):
            candidates, passes, created = self.counts[node].tolist()
            if node < len(self.clause.positive) and not self.clause.positive[node].kleene:
                candidates, passes = self.stream.entered(node)
            counters.count(
                NodeCounts(
                    self.pattern.name,
                    self.clause.index,
                    leaves_of(tree),
                    candidates,
                    passes,
                    created,
                    int(self.peaks[node]),
                )
            )
        counters.condition_evaluations += self.program.evaluations + self.program.unary_evaluations


class _State:
    """What the kernel works in, and its words."""

    def __init__(self, run: TreeRun, stream: TreeStream) -> None:
        assembly, clause = run.assembly, run.clause
        self.run, self.stream = run, stream
        nodes, variables = len(assembly.nodes), len(clause.positive)
        stores = nodes + variables
        self.lists = any(variable.kleene for variable in clause.positive)
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
        self.saved = np.zeros(nodes * codes.COUNTS + 1, np.int64)
        self.bound = np.full(len(run.program.variables) + 1, -1, np.int32)
        self.cells = CellRing(run.program)
        self.waiting_stride = codes.WAITING_SLOTS + variables
        self.waiting_room = ROOM if run.finality is not Finality.LAST_EVENT else 0
        self.waiting = np.empty(self.waiting_room * self.waiting_stride + 1, np.int32)
        self.made = np.empty(self.waiting_room + 1, np.int32)
        self.due_heads = np.full(len(stream.rows) + 1 if self.waiting_room else 1, -1, np.int32)
        self.most, self.room = MATCHES_AT_ONCE, ELEMENTS_AT_ONCE
        self._make_output()
        self.fixed_words = [*stream.rules.kernel_words(), *run.program.kernel_words()]

    def _bases(self) -> Array:
        return np.concatenate(([0], np.cumsum(self.sizes * self.strides)[:-1])).astype(np.int64)

    def _make_output(self) -> None:
        variables = len(self.run.clause.positive)
        self.output = np.empty(self.room if self.lists else self.most * variables, np.int32)
        self.output_variables = np.empty(self.room if self.lists else 1, np.int32)
        self.output_ends = np.empty(self.most if self.lists else 1, np.int64)

    def words(self) -> Array:
        """int64: what `kernel.machine_at` reads."""
        run, stream = self.run, self.stream
        numbers: list[int | Array] = [
            *(self.layout, len(run.clause.positive), len(run.assembly.nodes)),
            *(len(stream.rows), stream.rows, stream.expires, stream.due, run.program.fits, len(run.events)),
            *(
                stream.negated,
                self.store,
                self.bases,
                self.sizes,
                self.tails,
                self.marks,
                self.newest,
                stream.different,
            ),
            *(self.deaths, self.alive, run.peaks, run.counts, self.saved, self.bound, run.held),
            *(run.progress, self.output, self.output_variables, self.room, self.output_ends, self.most),
            *(run.first_output_row, int(run.finality), int(self.lists)),
            *(self.waiting, self.waiting_room, self.due_heads, self.made),
            *(INPUTS, INPUTS + RULES_WORDS, INPUTS + RULES_WORDS + CODE_WORDS),
        ]
        addresses = [number if isinstance(number, int) else int(number.ctypes.data) for number in numbers]
        assert len(addresses) == INPUTS
        return np.array([*addresses, *self.fixed_words, *self.cells.kernel_words()], np.int64)

    def drain(self) -> Block | None:
        """The matches that have been put out; None if there are none."""
        progress, clause = self.run.progress, self.run.clause
        matches, elements = int(progress[codes.MATCHES]), int(progress[codes.ELEMENTS])
        if not matches:
            return None
        progress[codes.MATCHES] = progress[codes.ELEMENTS] = 0
        if self.lists:
            offsets = np.concatenate((np.zeros(1, np.int64), self.output_ends[:matches]))
            rows, variables = self.output[:elements].copy(), self.output_variables[:elements].copy()
            return self.run.owns(ListBlock(clause, offsets, rows, variables))
        width = len(clause.positive)
        rows = np.ascontiguousarray(self.output[: matches * width].reshape(matches, width).T)
        return self.run.owns(MatchBlock(clause, rows))

    def make_room(self, code: int, drained: bool) -> None:
        """Make room for what the kernel had none for."""
        if code == codes.STORE_FULL:
            self._enlarge_store(int(self.run.progress[codes.SHORT_OF]))
        elif code == codes.CELLS_FULL:
            self.cells.grow()
        elif code == codes.WAITING_FULL:
            self.waiting_room *= 2
            self.waiting = np.resize(self.waiting, self.waiting_room * self.waiting_stride + 1)
            self.made = np.empty(self.waiting_room + 1, np.int32)
        elif not drained:  # one event makes more matches than there is room for
            self.most, self.room = 2 * self.most, 2 * self.room
            self._make_output()

    def _enlarge_store(self, store: int) -> None:
        before, store_before = self.bases, self.store
        self.sizes[store] *= 2
        self.bases = self._bases()
        self.store = np.empty(int((self.sizes * self.strides).sum()) + 1, np.int32)
        for own, tail in enumerate(self.tails.tolist()):
            held = tail * int(self.strides[own])
            self.store[self.bases[own] : self.bases[own] + held] = store_before[before[own] : before[own] + held]
