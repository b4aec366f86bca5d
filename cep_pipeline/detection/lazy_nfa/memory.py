"""The arrays that the kernel of a lazy automaton works in, and their growth between its calls."""

from __future__ import annotations

import numpy as np

from cep_pipeline.detection.blocks import Block, ListBlock, MatchBlock
from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.instances import CellRing, Program, StreamRules
from cep_pipeline.detection.lazy_nfa import codes as c
from cep_pipeline.detection.lazy_nfa.states import States
from cep_pipeline.detection.lazy_nfa.stream import LazyStream

MATCH_ROOM = 1 << 16
"""Matches that the kernel hands over at once."""
INSTANCE_ROOM, SEARCH_ROOM = 1 << 8, 1 << 6
"""Stored instances, and searches within each other, that there is room for at first."""


class Memory:
    """All that the kernel reads and writes for one clause over one slice.

    Parameters
    ----------
    program, rules, stream, states
        The clause compiled, its rules, the events that are read, and the automaton's states.
    adaptive
        Whether the root variable is chosen by the counters of the input buffer; else it is the first of the order.
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
        *,
        even_window: bool,
        first_output_row: int,
    ) -> None:
        self.program, self.rules, self.stream, self.states = program, rules, stream, states
        self.clause = program.clause
        width = len(self.clause.positive)
        kleene = [slot for slot, variable in enumerate(self.clause.positive) if variable.kleene]
        self.ring = CellRing(program)
        self.registers = np.zeros(c.REGISTERS, np.int64)
        self._lists = bool(kleene)
        self._heads, self._tails = stream.starts.copy(), stream.starts.copy()
        self._amounts = np.zeros(width, np.int64)
        self._waiting = np.full(2 * width * stream.groups, -1, np.int32)
        self._entries = np.empty(INSTANCE_ROOM * c.ENTRY_WORDS, np.int32)
        self._entry_slots = np.empty(INSTANCE_ROOM * width, np.int32)
        self._ending = np.zeros(len(program.events) + 2, np.int32)
        self._searches = np.empty(SEARCH_ROOM * c.FRAME_WORDS, np.int64)
        self._slots = np.zeros(len(program.variables), np.int32)
        self._rows = np.empty(MATCH_ROOM * width, np.int32)
        self._variables = np.empty(MATCH_ROOM * width if self._lists else 0, np.int32)
        self._offsets = np.zeros(MATCH_ROOM + 1 if self._lists else 0, np.int64)
        root = states.root
        everything = (1 << width) - 1
        r = self.registers
        r[c.VARIABLES], r[c.WIDTH], r[c.KEYS] = width, len(program.variables), stream.groups
        r[c.PLACES], r[c.SIZE] = len(stream.rows), len(program.events)
        r[c.KLEENE], r[c.ALL_BOUND] = sum(1 << slot for slot in kleene), everything
        r[c.ADAPTIVE], r[c.ROOT] = root < 0, root
        r[c.BUFFERED_SET] = everything if root < 0 else everything & ~(1 << root)
        r[c.EVEN_WINDOW], r[c.OUTPUT_FROM] = even_window, first_output_row
        r[c.FIXED_WIDTH], r[c.MATCH_ROOM] = not self._lists, MATCH_ROOM
        r[c.UNUSED], r[c.SWEEP_AT] = -1, INSTANCE_ROOM

    def words(self) -> Array:
        """int64: the addresses of all arrays as they are now, for the kernel."""
        r, stream = self.registers, self.stream
        r[c.POOL_ROOM] = len(self._entries) // c.ENTRY_WORDS
        r[c.STACK_ROOM] = len(self._searches) // c.FRAME_WORDS
        r[c.ELEMENT_ROOM] = len(self._rows)
        arrays = (
            *(r, stream.rows, stream.keys, stream.fits),
            *(stream.buffer, self._heads, self._tails, self._amounts),
            *(self.states.words, self.states.children, self.states.scopes, self.states.counts),
            *(self._waiting, self._entries, self._entry_slots, self._ending, self._searches, self._slots),
            *(self._rows, self._variables, self._offsets),
        )
        own = [int(array.ctypes.data) for array in arrays]
        assert len(own) == c.AUTOMATON_WORDS
        others = (*self.rules.kernel_words(), *self.program.kernel_words(), *self.ring.kernel_words())
        return np.array([*own, *others], np.int64)

    def make_room(self, reason: int) -> None:
        """Make what the kernel has stopped for."""
        r = self.registers
        if reason == c.NEW_STATE:
            self.states.add(int(r[c.PENDING_STATE]), int(r[c.WANTED]))
        elif reason == c.POOL_FULL:
            self._entries, self._entry_slots = _doubled(self._entries), _doubled(self._entry_slots)
        elif reason == c.STACK_FULL:
            self._searches = _doubled(self._searches)
        elif reason == c.CELLS_FULL:
            self.ring.grow()
        elif self._lists and r[c.NEEDED] > len(self._rows):
            self._rows = np.empty(2 * int(r[c.NEEDED]), np.int32)
            self._variables = np.empty(2 * int(r[c.NEEDED]), np.int32)

    def take_matches(self) -> Block | None:
        """The matches that the kernel has put down since the last time; None if there are none."""
        r = self.registers
        matches, elements = int(r[c.MATCHES]), int(r[c.ELEMENTS])
        r[c.MATCHES] = r[c.ELEMENTS] = 0
        if not matches:
            return None
        if not self._lists:
            return MatchBlock(self.clause, self._rows.reshape(-1, MATCH_ROOM)[:, :matches].copy())
        rows, variables = self._rows[:elements].copy(), self._variables[:elements].copy()
        return ListBlock(self.clause, self._offsets[: matches + 1].copy(), rows, variables)


def _doubled(array: Array) -> Array:
    return np.concatenate((array, np.empty_like(array)))
