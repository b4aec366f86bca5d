"""The arrays that the kernel of a lazy automaton works in, and their growth between its calls."""

from __future__ import annotations

import numpy as np

from cep_pipeline.detection.instances import CellRing, Program, StreamRules
from cep_pipeline.detection.instances.clause_runs import Lives
from cep_pipeline.detection.instances.found import FoundMatches
from cep_pipeline.detection.lazy_nfa import codes as c
from cep_pipeline.detection.lazy_nfa.states import States
from cep_pipeline.detection.lazy_nfa.stream import LazyStream
from cep_pipeline.detection.room import ask_for
from cep_pipeline.expressions.columns import Array

INSTANCE_ROOM, SEARCH_ROOM = 1 << 8, 1 << 6
"""Stored instances, and searches within each other, that there is room for at first."""


class Memory:
    """All that the kernel reads and writes for one clause over one slice.

    Parameters
    ----------
    program, rules, stream, states, found
        The clause compiled, its rules, the events that are read, the automaton's states, and where matches are put.
    even_window
        Whether windows reach equally far for all keys.
    first_output_row
        The row from which on the last event of a match lies.
    """

    def __init__(
        self,
        program: Program,
        rules: StreamRules,
        stream: LazyStream,
        states: States,
        found: FoundMatches,
        *,
        even_window: bool,
        first_output_row: int,
    ) -> None:
        self.program, self.rules, self.stream, self.states, self.found = program, rules, stream, states, found
        width = len(program.clause.positive)
        kleene = [slot for slot, variable in enumerate(program.clause.positive) if variable.kleene]
        self.ring = CellRing(program)
        self.registers = np.zeros(c.REGISTERS, np.int64)
        self.lives = Lives(len(program.events))
        self._heads, self._tails = stream.starts.copy(), stream.starts.copy()
        self._amounts = np.zeros(width, np.int64)
        self._waiting = np.full(2 * width * stream.groups, -1, np.int32)
        self._entries = np.empty(INSTANCE_ROOM * c.ENTRY_WORDS, np.int32)
        self._entry_slots = np.empty(INSTANCE_ROOM * width, np.int32)
        self._searches = np.empty(SEARCH_ROOM * c.FRAME_WORDS, np.int64)
        self._slots = np.zeros(len(program.variables), np.int32)
        self._expected = np.zeros(width + 1, np.float64)
        root = states.root
        r = self.registers
        r[c.VARIABLES], r[c.KEYS], r[c.PLACES] = width, stream.groups, len(stream.rows)
        r[c.KLEENE], r[c.ALL_BOUND] = sum(1 << slot for slot in kleene), (1 << width) - 1
        r[c.ADAPTIVE], r[c.ROOT] = root < 0, root
        r[c.EVEN_WINDOW], r[c.OUTPUT_FROM] = even_window, first_output_row
        r[c.SWEEP_AT] = INSTANCE_ROOM

    def words(self) -> Array:
        """int64: the addresses of all arrays as they are now, for the kernel."""
        r, stream = self.registers, self.stream
        r[c.POOL_ROOM] = len(self._entries) // c.ENTRY_WORDS
        r[c.STACK_ROOM] = len(self._searches) // c.FRAME_WORDS
        arrays = (
            *(r, stream.rows, stream.keys, stream.fits),
            *(stream.buffer, self._heads, self._tails, self._amounts),
            *(self.states.words, self.states.children, self.states.scopes, self.states.counts),
            *(self.states.shares, self.states.pairs),
            *(self._waiting, self._entries, self._entry_slots, self.lives.changes),
            *(self._searches, self._slots, self._expected),
        )
        own = [int(array.ctypes.data) for array in arrays]
        assert len(own) == c.AUTOMATON_WORDS
        parts = (self.found, self.rules, self.program, self.ring)
        return np.array([*own, *(word for part in parts for word in part.kernel_words())], np.int64)

    def make_room(self, reason: int) -> None:
        """Make what the kernel has stopped for."""
        r = self.registers
        if reason == c.NEW_STATE:
            self.states.add_children(int(r[c.PENDING_STATE]))
        elif reason == c.POOL_FULL:
            held = len(self._entries) // c.ENTRY_WORDS
            size = 2 * (self._entries.nbytes + self._entry_slots.nbytes)
            ask_for(size, f"the lazy automaton holds {held:,} partial matches within a window")
            self._entries, self._entry_slots = _doubled(self._entries), _doubled(self._entry_slots)
        elif reason == c.STACK_FULL:
            self._searches = _doubled(self._searches)
        elif reason == c.CELLS_FULL:
            self.ring.grow()


def _doubled(array: Array) -> Array:
    return np.concatenate((array, np.empty_like(array)))
