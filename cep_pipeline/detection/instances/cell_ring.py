"""The memory of Kleene lists: a ring of cells that kernels fill (`cells.py`) and that grows between their calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.program import Program
from cep_pipeline.detection.instances.term_writer import Accumulators
from cep_pipeline.detection.room import ask_for
from cep_pipeline.errors import DataError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.structure import EventType

RING_WORDS = 9
"""Words by which a kernel finds a ring (`cells.cells_at`)."""
NUMBERS = 2**31
"""A cell's number is the count of cells made before it, modulo this."""


class CellRing:
    """The cells of the lists of one clause, or of all clauses that are run together.

    Attributes
    ----------
    size
        Cells that the ring holds, a power of two.
    """

    def __init__(self, program: Program, size: int = 1 << 10) -> None:
        self._begin(program.accumulators, [variable.name for variable in program.variables], size)

    @classmethod
    def of_types(cls, accumulators: Accumulators, event_types: Sequence[EventType], size: int = 1 << 10) -> CellRing:
        """The cells of the lists of several clauses: kernels give the place of a list's event type as its variable."""
        ring = cls.__new__(cls)
        ring._begin(accumulators, event_types, size)
        return ring

    def _begin(self, accumulators: Accumulators, lists: Sequence[EventType], size: int) -> None:
        self.size = size
        self._ends = np.zeros(2, np.int64)
        self._links = np.zeros(size * codes.LINK_WORDS, np.int32)
        self._whole_words, self._real_words = accumulators.whole_words, accumulators.real_words
        self._wholes = np.zeros(size * self._whole_words + 1, np.int64)
        self._reals = np.zeros(size * self._real_words + 1, np.float64)
        entries = [accumulators.entries.get(name, []) for name in lists]
        self._starts = np.cumsum([0, *map(len, entries)]).astype(np.int64)
        self._accumulators = np.array([word for own in entries for entry in own for word in entry] or [0], np.int64)

    def grow(self) -> None:
        """Double the ring; its words change.

        Raises
        ------
        DataError
            It cannot be doubled: cells are numbered by 31 bits; or there is no memory for that.
        """
        if 2 * self.size > NUMBERS:
            raise DataError(f"the lists within a window have more than {self.size:,} elements: shorten the window")
        size = 2 * (self._links.nbytes + self._wholes.nbytes + self._reals.nbytes)
        ask_for(size, f"the lists within a window have {self.size:,} elements")
        numbers = np.arange(self._ends[0], self._ends[1])
        old, new = numbers & (self.size - 1), numbers & (2 * self.size - 1)
        self.size *= 2
        self._links = _moved(self._links, self.size, codes.LINK_WORDS, old, new)
        self._wholes = _moved(self._wholes, self.size, self._whole_words, old, new)
        self._reals = _moved(self._reals, self.size, self._real_words, old, new)

    def rows(self, cell: int) -> list[int]:
        """The elements of the list that ends with a cell, in stream order."""
        found = []
        length = int(self._links[(cell & (self.size - 1)) * codes.LINK_WORDS + codes.LIST_LENGTH])
        for _ in range(length):
            links = (cell & (self.size - 1)) * codes.LINK_WORDS
            found.append(int(self._links[links + codes.ROW]))
            cell = int(self._links[links + codes.BEFORE])
        return found[::-1]

    def kernel_words(self) -> list[int]:
        """The `RING_WORDS` words for a kernel; they change when the ring grows."""
        return [
            int(self._ends.ctypes.data),
            int(self._links.ctypes.data),
            int(self._wholes.ctypes.data),
            int(self._reals.ctypes.data),
            self.size - 1,
            self._whole_words,
            self._real_words,
            int(self._starts.ctypes.data),
            int(self._accumulators.ctypes.data),
        ]


def _moved(values: Array, size: int, words: int, old: Array, new: Array) -> Array:
    moved = np.zeros(size * words + 1, values.dtype)
    if words:
        moved[:-1].reshape(size, words)[new] = values[: len(values) // words * words].reshape(-1, words)[old]
    return moved
