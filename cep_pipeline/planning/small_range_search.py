"""`RangeSearch` of a clause whose sets' costs are known: the same trees, without arrays, which cost more than sums of
as few numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cep_pipeline.planning.cardinality import mask_of
from cep_pipeline.planning.comparisons import Way
from cep_pipeline.planning.ln_tables import SetTables, ln_add
from cep_pipeline.planning.ordering import grains
from cep_pipeline.planning.trees import PositionTree, positions_below


class SmallRangeSearch:
    """The cheapest tree of every range of a sequence of leaves, without what its leaves cost.

    Parameters
    ----------
    tables
        The costs of the clause's sets, by a model that does not tell linear trees apart.
    """

    def __init__(self, tables: SetTables, leaves: Sequence[int]) -> None:
        self._leaves = tuple(leaves)
        size = len(leaves)
        self._sets = {
            (first, last): mask_of(leaves[first : last + 1]) for first in range(size) for last in range(first, size)
        }
        self._best: dict[tuple[int, int], float] = {(place, place): -math.inf for place in range(size)}
        self._below: dict[tuple[int, int], list[float]] = {}
        """Of each range the cost below its join, by the last leaf of the left side, the last one first."""
        for length in range(2, size + 1):
            for first in range(size - length + 1):
                self._fill(tables, first, first + length - 1)
        self._trees: dict[tuple[int, int], PositionTree] = {}

    def tree(self, first: int = 0, last: int | None = None) -> PositionTree:
        """The cheapest tree of a range; of equal ones the one whose left side is the longest."""
        last = len(self._leaves) - 1 if last is None else last
        if last - first < 2:
            return (self._leaves[first], self._leaves[last]) if first < last else self._leaves[first]
        if (first, last) not in self._trees:
            cells = [grains(ln) for ln in self._below[first, last]]
            self._trees[first, last] = self._split(first, last, cells.index(min(cells)))
        return self._trees[first, last]

    def ways(self, tree: PositionTree, *, linear: bool) -> list[Way]:
        """All ways to split the range of a join, each with the cheapest trees of its sides."""
        leaves = positions_below(tree)
        first, last = self._leaves.index(leaves[0]), self._leaves.index(leaves[-1])
        return [
            Way(self._split(first, last, rank), ln_below, (rank,))
            for rank, ln_below in enumerate(self._below[first, last])
        ]

    def _fill(self, tables: SetTables, first: int, last: int) -> None:
        found = []
        for middle in range(last - 1, first - 1, -1):
            sides = ln_add(self._best[first, middle], self._best[middle + 1, last])
            found.append(
                ln_add(sides, tables.ln_own(self._sets[first, middle], self._sets[middle + 1, last], linear=False))
            )
        self._below[first, last] = found
        self._best[first, last] = ln_add(tables.node[self._sets[first, last]], min(found))

    def _split(self, first: int, last: int, rank: int) -> PositionTree:
        middle = last - 1 - rank
        return self.tree(first, middle), self.tree(middle + 1, last)
