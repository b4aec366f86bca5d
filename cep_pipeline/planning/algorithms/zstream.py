"""ZSTREAM and ZSTREAM-ORD: the cheapest tree over the pattern's own order, and over the order that GREEDY finds.

JQPG section 7.1; Mei and Madden 2009, section 5.2.3: dynamic programming over the ranges of a fixed sequence of leaves.
It takes O(n^3) for n leaves, in logarithms, so that there is no limit to what numbers mean; a pattern of 100 variables
takes tens of milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cep_pipeline.planning.algorithms.heuristics import greedy_order
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import Array, CostModel, SetTerm
from cep_pipeline.planning.orderings import TreeOrdering, Way, grains, tree_comparisons
from cep_pipeline.planning.trees import PositionTree, left_deep


def zstream_tree(statistics: ClauseStatistics, cost: CostModel) -> TreeOrdering:
    """The tree of least cost among those whose leaves are in the order of the pattern."""
    return cheapest_over_leaves(statistics, cost, tuple(range(statistics.size)))


def cheapest_over_leaves(statistics: ClauseStatistics, cost: CostModel, leaves: tuple[int, ...]) -> TreeOrdering:
    """The tree of least cost among those with these leaves from left to right.

    Notes
    -----
    Algorithm 3 of the acep-invariants patent: O(n^3). Of equal trees the one whose left side is the longest is taken,
    so that an order comes out where trees bring nothing. Where a tree runs as the order of its leaves all are equal.
    """
    if cost.runs_orders:
        return TreeOrdering(left_deep(leaves))
    search = RangeSearch.run(statistics, cost, leaves)
    tree = search.tree()
    return TreeOrdering(tree, tree_comparisons(tree, search.ways, statistics, cost))


def zstream_ordered_tree(statistics: ClauseStatistics, cost: CostModel) -> TreeOrdering:
    """ZStream's tree, with the leaves in greedy's order.

    Notes
    -----
    The comparisons are greedy's, which put the leaves in their places, and then those of the tree: as long as
    all of greedy's hold, the leaves are the same ones, and the tree's say whether it still is the best over them.
    """
    ordering = greedy_order(statistics, cost)
    over = cheapest_over_leaves(statistics, cost, ordering.order)
    return TreeOrdering(over.tree, (*ordering.comparisons, *over.comparisons))


@dataclass(eq=False)
class RangeSearch:
    """The cheapest tree of every range of a sequence of leaves, without what its leaves cost.

    All arrays are float64 logarithms of shape (n, n), by the first and the last leaf of a range. Those of `best` are
    of the cheapest tree; `late` of that where the other side has the variable after which latency counts.
    """

    leaves: tuple[int, ...]
    best: Array
    late: Array
    pair: Array | None
    product: Array
    delay: Array | None
    last: int
    _trees: dict[tuple[int, int], PositionTree] = field(default_factory=dict)

    @classmethod
    def run(cls, statistics: ClauseStatistics, cost: CostModel, leaves: Sequence[int]) -> RangeSearch:
        """Search all ranges, the short ones first."""
        size = len(leaves)
        firsts, lasts = np.triu_indices(size)
        members = np.zeros((len(firsts), size), dtype=bool)
        for place, position in enumerate(leaves):
            members[:, position] = (firsts <= place) & (place <= lasts)

        def of_ranges(term: SetTerm | None) -> Array:
            table = np.full((size, size), -np.inf)
            table[firsts, lasts] = 0.0 if term is None else term.of(statistics, members)
            return table

        waits = cost.delay is not None and cost.alpha > 0
        search = cls(
            leaves=tuple(leaves),
            best=np.full((size, size), -np.inf),
            late=np.full((size, size), -np.inf),
            pair=None if cost.pair is None else of_ranges(cost.pair),
            product=of_ranges(cost.product),
            delay=of_ranges(cost.delay) + math.log(cost.alpha) if waits else None,
            last=leaves.index(statistics.last_variable) if waits else -1,
        )
        node = of_ranges(cost.node)
        for length in range(1, size + 1):
            search._fill(np.arange(size - length + 1), length, node)
        return search

    def tree(self, first: int = 0, last: int | None = None) -> PositionTree:
        """The cheapest tree of a range; of equal ones the one whose left side is the longest."""
        last = len(self.leaves) - 1 if last is None else last
        if first == last:
            return self.leaves[first]
        if (first, last) not in self._trees:
            cells = [grains(ln) for ln in self._splits(first, last)]
            self._trees[first, last] = self._tree_of(first, last, cells.index(min(cells)))
        return self._trees[first, last]

    def ways(self, tree: PositionTree) -> list[Way]:
        """All ways to split the range of a join, each with the cheapest trees of its sides."""
        first, last = (self.leaves.index(position) for position in _ends(tree))
        below = self._splits(first, last)
        return [Way(self._tree_of(first, last, rank), ln_below, (rank,)) for rank, ln_below in enumerate(below)]

    def _fill(self, firsts: Array, length: int, node: Array) -> None:
        lasts = firsts + length - 1
        if length > 1:
            self.best[firsts, lasts] = np.logaddexp(node[firsts, lasts], self._below(firsts, length).min(axis=1))
        self.late[firsts, lasts] = self.best[firsts, lasts]
        if self.delay is not None:
            self.late[firsts, lasts] = np.logaddexp(self.best[firsts, lasts], self.delay[firsts, lasts])

    def _below(self, firsts: Array, length: int) -> Array:
        """The costs below the join of ranges of one length, by the place of the split: shape (m, length - 1)."""
        first, last = firsts[:, None], firsts[:, None] + length - 1
        middle = first + np.arange(length - 1)  # the last leaf of the left side
        waiting = (first <= self.last) & (self.last <= last)
        left_waits = waiting & (self.last > middle)
        right_waits = waiting & (self.last <= middle)
        left = np.where(left_waits, self.late[first, middle], self.best[first, middle])
        right = np.where(right_waits, self.late[middle + 1, last], self.best[middle + 1, last])
        below = np.logaddexp(left, right)
        if self.pair is not None:
            tests = self.pair[first, last] + self.product[first, middle] + self.product[middle + 1, last]
            below = np.logaddexp(below, tests)
        return np.asarray(below)

    def _splits(self, first: int, last: int) -> list[float]:
        """The costs below a range by its splits, in the order of preference among equals: long left sides first."""
        found: list[float] = self._below(np.array([first]), last - first + 1)[0, ::-1].tolist()
        return found

    def _tree_of(self, first: int, last: int, rank: int) -> PositionTree:
        middle = last - 1 - rank
        return self.tree(first, middle), self.tree(middle + 1, last)


def _ends(tree: PositionTree) -> tuple[int, int]:
    left, right = tree, tree
    while not isinstance(left, int):
        left = left[0]
    while not isinstance(right, int):
        right = right[1]
    return left, right
