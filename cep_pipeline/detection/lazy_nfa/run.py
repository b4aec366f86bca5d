"""Run one clause over one slice on a lazy automaton: the driver of the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cep_pipeline.detection.blocks import Block, ListBlock, MatchBlock
from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.finality import Finality, finality_of
from cep_pipeline.detection.fused.keys import agreement_codes
from cep_pipeline.detection.fused.routines import group_rows
from cep_pipeline.detection.instances.cell_ring import CellRing
from cep_pipeline.detection.instances.program import compile_program
from cep_pipeline.detection.instances.stream_rules import StreamRules
from cep_pipeline.detection.lazy_nfa import codes as c
from cep_pipeline.detection.lazy_nfa.states import States
from cep_pipeline.detection.mechanism import Counters, NodeCounts, Owned
from cep_pipeline.detection.native import NativeKernel
from cep_pipeline.detection.ownership import earliest_row, owned_matches
from cep_pipeline.detection.prepared import PreparedEvents
from cep_pipeline.errors import PlanError
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern

MATCH_ROOM = 1 << 16
"""Matches that the kernel hands over at once."""
_INSTANCES = "cep_pipeline.detection.instances"
_advance = NativeKernel(
    "cep_pipeline.detection.lazy_nfa.kernel",
    "advance",
    ("int64*",),
    sources=(
        "cep_pipeline.detection.lazy_nfa.codes",
        "cep_pipeline.detection.lazy_nfa.automaton",
        *(f"{_INSTANCES}.{name}" for name in ("cells", "codes", "interpreter", "pointers", "program", "rules")),
        f"{_INSTANCES}.stream_rules",
    ),
)


class LazyRun:
    """One run of a clause over a slice: iterate over it once for its blocks of matches.

    Parameters
    ----------
    pattern, clause
        A pattern under skip_till_any_match, and one of its clauses.
    order
        Names of the clause's positive variables in evaluation order, for the chain automaton; None for the tree
        automaton, which finds its own.
    events, owned
        The slice's own events with the look-back before them, and the slice `[start, end)`.
    finality
        When a match counts as final; None for what the clause says.

    Raises
    ------
    PlanError
        `order` is no order of the clause's positive variables.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        order: Sequence[str] | None,
        events: PreparedEvents,
        owned: Owned,
        finality: Finality | None = None,
    ) -> None:
        names = [variable.name for variable in clause.positive]
        if order is not None and sorted(order) != sorted(names):
            raise PlanError(
                f"pattern {pattern.name!r}: the plan orders {', '.join(order)}, but clause {clause.index} binds "
                f"{', '.join(names)}: plan the pattern again"
            )
        self.pattern, self.clause, self.events, self.owned = pattern, clause, events, owned
        self.finality = finality_of(pattern, clause) if finality is None else finality
        self._order = None if order is None else [names.index(name) for name in order]
        self._lists = any(variable.kleene for variable in clause.positive)
        self._registers = np.zeros(c.REGISTERS, np.int64)

    def __iter__(self) -> Iterator[Block]:
        self._program = compile_program(self.pattern, self.clause, self.events)
        if not self._program.possible:
            return
        self._rules = StreamRules(self.pattern, self.clause, self.events, self._program)
        self._prepare()
        while True:
            reason = _advance(self._words())
            r = self._registers
            if reason == c.NEW_STATE:
                self._states.add(int(r[c.PENDING_STATE]), int(r[c.WANTED]))
            elif reason == c.POOL_FULL:
                self._entries, self._entry_slots = _doubled(self._entries), _doubled(self._entry_slots)
            elif reason == c.STACK_FULL:
                self._frames = _doubled(self._frames)
            elif reason == c.CELLS_FULL:
                self._ring.grow()
            else:
                block = self._found()
                if block is not None:
                    yield block
                if reason == c.FINISHED:
                    return
                if self._lists and r[c.NEEDED] > len(self._match_rows):
                    self._match_rows = np.empty(2 * int(r[c.NEEDED]), np.int32)
                    self._match_variables = np.empty(2 * int(r[c.NEEDED]), np.int32)

    def count(self, counters: Counters) -> None:
        """Add what has been counted, when the run is over: a node is a state."""
        if not hasattr(self, "_states"):
            return
        r = self._registers
        for state in range(1, len(self._states)):
            tried, passed, created, _, held, *_ = self._states.counts[state].tolist()
            if tried or self._order is not None:
                path = self._states.path(state)
                counters.count(
                    NodeCounts(self.pattern.name, self.clause.index, path, tried, passed, created, held)
                )
        counters.peak_instances = max(counters.peak_instances, int(r[c.PEAK]))
        counters.events_buffered = max(counters.events_buffered, int(r[c.PEAK_STORED]))
        counters.condition_evaluations += self._program.evaluations + self._program.unary_evaluations

    # --- arrays ----------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        program, events = self._program, self.events
        width = len(self.clause.positive)
        begin = earliest_row(self.pattern, events, self.owned)
        first = 0 if self.owned[0] is None else events.rows_before(self.owned[0])
        end = len(events) if self.owned[1] is None else events.rows_before(self.owned[1])
        fits = program.fits[:width, begin:end]
        keys, groups = self._keys(begin, end)
        known = None if keys is None else keys >= 0
        sets = np.zeros(max(end - begin, 0), np.int64)
        leaves, bounds = [], []
        for slot in range(width):
            own = fits[slot] != 0 if known is None else (fits[slot] != 0) & known
            sets |= own.astype(np.int64) << slot
            rows = np.flatnonzero(own).astype(np.int32)
            if keys is None:
                starts = np.array([0, len(rows)])
            else:
                order, starts = group_rows(keys[rows], groups)
                rows = rows[order]
            bounds.append(starts[:-1] + sum(map(len, leaves)))
            leaves.append(rows + np.int32(begin))
        places = np.flatnonzero(sets)
        self._rows = (places + begin).astype(np.int32)
        self._fits = sets[places]
        self._key_of = np.zeros(len(places), np.int32) if keys is None else keys[places]
        self._buffer = np.concatenate(leaves)
        self._heads = np.concatenate(bounds).astype(np.int32)
        self._tails = self._heads.copy()
        self._amounts = np.zeros(width, np.int64)
        self._states = States(program, self._rules, self._order)
        self._rules.prepare()
        self._waiting = np.full(2 * width * groups, -1, np.int32)
        self._entries = np.empty(256 * c.ENTRY_WORDS, np.int32)
        self._entry_slots = np.empty(256 * width, np.int32)
        self._ending = np.zeros(len(events) + 2, np.int32)
        self._frames = np.empty(64 * c.FRAME_WORDS, np.int64)
        self._slots = np.zeros(len(program.variables), np.int32)
        self._match_rows = np.empty(MATCH_ROOM * width, np.int32)
        self._match_variables = np.empty(MATCH_ROOM * width if self._lists else 0, np.int32)
        self._match_offsets = np.zeros(MATCH_ROOM + 1 if self._lists else 0, np.int64)
        self._ring = CellRing(program)
        chain = self._order is not None
        buffered = (1 << width) - 1
        if self._order is not None:
            buffered &= ~(1 << self._order[0])
        r = self._registers
        r[c.VARIABLES], r[c.WIDTH], r[c.KEYS] = width, len(program.variables), groups
        r[c.PLACES], r[c.SIZE] = len(places), len(events)
        r[c.KLEENE] = sum(1 << slot for slot, variable in enumerate(self.clause.positive) if variable.kleene)
        r[c.ALL_BOUND] = (1 << width) - 1
        r[c.ADAPTIVE], r[c.ROOT] = not chain, -1 if self._order is None else self._order[0]
        r[c.BUFFERED_SET] = buffered
        r[c.EVEN_WINDOW] = self.pattern.window.time_us is not None or not self.pattern.partition_by
        r[c.OUTPUT_FROM] = first if self.finality is Finality.LAST_EVENT else 0
        r[c.FIXED_WIDTH], r[c.MATCH_ROOM] = not self._lists, MATCH_ROOM
        r[c.UNUSED], r[c.SWEEP_AT] = -1, 1024

    def _keys(self, begin: int, end: int) -> tuple[Array | None, int]:
        """int32: what each event agrees with others in, -1 where it can be in no match; and the number of keys."""
        if not self.clause.agree_on:
            return None, 1
        codes, groups = agreement_codes(self.events, self.clause.agree_on)
        codes = codes[begin:end]
        if len(self.clause.positive) > 1:
            return codes, max(groups, 1)
        if not self._lists:
            return None, 1
        alone = np.flatnonzero(codes < 0)  # an event that agrees with none may be a list of its own
        if len(alone):
            codes = codes.copy()
            codes[alone] = groups + np.arange(len(alone), dtype=np.int32)
        return codes, max(groups + len(alone), 1)

    def _words(self) -> Array:
        """The addresses of all arrays as they are now, for the kernel."""
        r = self._registers
        r[c.POOL_ROOM] = len(self._entries) // c.ENTRY_WORDS
        r[c.STACK_ROOM] = len(self._frames) // c.FRAME_WORDS
        r[c.ELEMENT_ROOM] = len(self._match_rows)
        arrays = (
            *(r, self._rows, self._key_of, self._fits, self._buffer, self._heads, self._tails, self._amounts),
            *self._states.arrays(),
            *(self._waiting, self._entries, self._entry_slots, self._ending, self._frames, self._slots),
            *(self._match_rows, self._match_variables, self._match_offsets),
        )
        own = [int(array.ctypes.data) for array in arrays]
        words = (*own, *self._rules.kernel_words(), *self._program.kernel_words(), *self._ring.kernel_words())
        return np.array(words, np.int64)

    def _found(self) -> Block | None:
        """The matches that the kernel has put down, as far as the slice owns them."""
        r = self._registers
        count, elements = int(r[c.MATCHES]), int(r[c.ELEMENTS])
        r[c.MATCHES] = r[c.ELEMENTS] = 0
        if not count:
            return None
        if not self._lists:
            rows = self._match_rows.reshape(-1, MATCH_ROOM)[:, :count]
            kept = self._owned(rows.min(axis=0), rows.max(axis=0))
            return MatchBlock(self.clause, np.ascontiguousarray(rows) if kept is None else rows[:, kept])
        offsets = self._match_offsets[: count + 1].copy()
        rows, variables = self._match_rows[:elements].copy(), self._match_variables[:elements].copy()
        block = ListBlock(self.clause, offsets, rows, variables)
        kept = self._owned(np.minimum.reduceat(rows, offsets[:-1]), np.maximum.reduceat(rows, offsets[:-1]))
        return block if kept is None else block.take(kept)

    def _owned(self, first: Array, last: Array) -> Array | None:
        if self.owned == (None, None):
            return None
        return owned_matches(self.pattern, self.events, self.owned, self.finality, first, last)


def _doubled(array: Array) -> Array:
    return np.concatenate((array, np.empty_like(array)))
