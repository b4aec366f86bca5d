"""The memory of the automaton's kernels: the pool of runs, and room for finished matches.

All of it is made once for a clause and grows between two calls of a kernel; what runs give back is used again.
"""

from __future__ import annotations

import numpy as np

from cep_pipeline.detection.nfab import words as at
from cep_pipeline.detection.room import ask_for
from cep_pipeline.errors import NoRoom
from cep_pipeline.expressions.columns import Array

ELEMENTS_AT_ONCE = 1 << 18
"""Elements of matches written before they are handed on: what a processor keeps at hand while it writes them."""
FIRST_RUNS = 1 << 10
"""Runs that there is room for at first."""
MOST = 1 << 30
"""Runs of one window beyond which nobody waits for an answer."""


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
