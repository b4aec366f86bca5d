"""Finished matches: a buffer that kernels fill between two calls (`finished.py`), and the blocks made of it."""

from __future__ import annotations

from functools import reduce

import numpy as np

from cep_pipeline.detection.mechanisms import EVERYTHING, Owned
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block, ListBlock, MatchBlock
from cep_pipeline.slices.ownership import Finality, owned_matches
from cep_pipeline.slices.prepared import PreparedEvents

FOUND_WORDS = 6
"""Words by which a kernel finds the buffer (`finished.found_at`)."""


class FoundMatches:
    """The finished matches of one clause since the buffer was drained.

    Parameters
    ----------
    owned, finality
        The slice, and when the clause's matches are final: only the matches that the slice owns come out.
    elements
        Events of matches that the buffer holds; it grows where one event finishes more.
    """

    def __init__(
        self,
        pattern: Pattern,
        clause: Clause,
        events: PreparedEvents,
        owned: Owned,
        finality: Finality,
        elements: int = 1 << 18,
    ) -> None:
        self.pattern, self.clause, self.events = pattern, clause, events
        self.owned, self.finality = owned, finality
        self._lists = any(variable.kleene for variable in clause.positive)
        self._used = np.zeros(2, np.int64)
        self._allocate(max(elements, len(clause.positive)))

    def _allocate(self, elements: int) -> None:
        self.capacity = elements
        self._rows = np.empty(elements, np.int32)
        self._variables = np.empty(elements if self._lists else 0, np.int32)
        self._ends = np.empty(elements + 1 if self._lists else 1, np.int64)

    def __len__(self) -> int:
        return int(self._used[0])

    def grow(self) -> None:
        """Double the drained buffer; its words change."""
        assert not len(self), "the buffer is drained first"
        self._allocate(2 * self.capacity)

    def drain(self) -> Block | None:
        """The matches that the slice owns, and an empty buffer."""
        matches, elements = self._used.tolist()
        self._used[:] = 0
        if not matches:
            return None
        if not self._lists:
            rows = self._rows[:elements].reshape(matches, -1).T
            if self.owned != EVERYTHING:
                rows = rows[:, self._owned(reduce(np.minimum, rows), reduce(np.maximum, rows))]
            return MatchBlock(self.clause, np.array(rows, order="C")) if rows.shape[1] else None
        rows, variables = self._rows[:elements], self._variables[:elements]
        offsets = np.concatenate((np.zeros(1, np.int64), self._ends[:matches]))
        if self.owned == EVERYTHING:
            return ListBlock(self.clause, offsets, rows.copy(), variables.copy())
        starts, lengths = offsets[:-1], np.diff(offsets)
        keep = self._owned(np.minimum.reduceat(rows, starts), np.maximum.reduceat(rows, starts))
        if not keep.any():
            return None
        kept = np.repeat(keep, lengths)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths[keep])))
        return ListBlock(self.clause, offsets, rows[kept], variables[kept])

    def _owned(self, first: Array, last: Array) -> Array:
        return owned_matches(self.pattern, self.events, self.owned, self.finality, first, last)

    def kernel_words(self) -> list[int]:
        """The `FOUND_WORDS` words for a kernel; they change when the buffer grows."""
        return [
            int(self._used.ctypes.data),
            int(self._rows.ctypes.data),
            int(self._variables.ctypes.data),
            int(self._ends.ctypes.data),
            self.capacity,
            int(self._lists),
        ]
