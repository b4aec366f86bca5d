"""The memory of Kleene lists: a ring of cells that kernels fill (`cells.py`) and that grows between their calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep_pipeline.compiled.native import address
from cep_pipeline.detection.instances import codes
from cep_pipeline.detection.instances.writer import Accumulators
from cep_pipeline.detection.room import ask_for
from cep_pipeline.errors import DataError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.structure import EventType

RING_WORDS = 7
"""Words by which a kernel finds a ring (`cells.cells_at`)."""
NUMBERS = 2**31
"""A cell's number is the count of cells made before it, modulo this."""


class CellRing:
    """The cells of the lists of one clause, or of all clauses that are run together.

    Parameters
    ----------
    accumulators, event_types
        What cells sum up, and the type of the elements of each list, by whose place kernels name it.

    Attributes
    ----------
    size
        Cells that the ring holds, a power of two.
    """

    def __init__(self, accumulators: Accumulators, event_types: Sequence[EventType], size: int = 1 << 10) -> None:
        self.size = size
        self._ends = np.zeros(2, np.int64)
        self._links = np.zeros((size, codes.LINK_WORDS), np.int32)
        self._sums = np.zeros((size, accumulators.words), np.int64)
        entries = [list(accumulators.entries.get(name, {}).values()) for name in event_types]
        self._starts = np.cumsum([0, *map(len, entries)]).astype(np.int64)
        self._accumulators = np.array([word for own in entries for entry in own for word in entry], np.int64)

    def grow(self) -> None:
        """Double the ring; its words change.

        Raises
        ------
        DataError
            It cannot be doubled: cells are numbered by 31 bits; or there is no memory for that.
        """
        if 2 * self.size > NUMBERS:
            raise DataError(f"the lists within a window have more than {self.size:,} elements: shorten the window")
        ask_for(2 * (self._links.nbytes + self._sums.nbytes), f"the lists within a window have {self.size:,} elements")
        numbers = np.arange(self._ends[0], self._ends[1])
        old, new = numbers & (self.size - 1), numbers & (2 * self.size - 1)
        self.size *= 2
        self._links, self._sums = (_moved(values, old, new) for values in (self._links, self._sums))

    def rows(self, cell: int) -> list[int]:
        """The elements of the list that ends with a cell, in stream order."""
        found = []
        for _ in range(self._links[cell & (self.size - 1), codes.LIST_LENGTH]):
            links = self._links[cell & (self.size - 1)]
            found.append(int(links[codes.ROW]))
            cell = int(links[codes.BEFORE])
        return found[::-1]

    def kernel_words(self) -> list[int]:
        """The `RING_WORDS` words for a kernel; they change when the ring grows."""
        ends, links, sums, starts, accumulators = (
            address(array) for array in (self._ends, self._links, self._sums, self._starts, self._accumulators)
        )
        return [ends, links, sums, self.size - 1, self._sums.shape[1], starts, accumulators]


def _moved(values: Array, old: Array, new: Array) -> Array:
    moved = np.zeros((2 * len(values), values.shape[1]), values.dtype)
    moved[new] = values[old]
    return moved
