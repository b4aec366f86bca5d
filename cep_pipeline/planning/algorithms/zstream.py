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
from cep_pipeline.planning.costs import CostModel, SetTerm
from cep_pipeline.planning.costs.model import Array
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import TreeOrdering, Way, grains, tree_comparisons
from cep_pipeline.planning.trees import PositionTree


def zstream_tree(statistics: ClauseStatistics, cost: CostModel) -> TreeOrdering:
    """The tree of least cost among those whose leaves are in the order of the pattern."""
    return cheapest_over_leaves(statistics, cost, tuple(range(statistics.size)))


def cheapest_over_leaves(statistics: ClauseStatistics, cost: CostModel, leaves: tuple[int, ...]) -> TreeOrdering:
    """The tree of least cost among those with these leaves from left to right.

    Notes
    -----
    Algorithm 3 of the acep-invariants patent: O(n^3). Of equal trees the one whose left side is the longest is taken,
    so that an order comes out where trees bring nothing.
    """
    search = RangeSearch.run(statistics, cost, leaves)
    tree = search.tree()
    return TreeOrdering(tree, tree_comparisons(tree, search, statistics, cost))


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
    of the cheapest tree; `linear` of the cheapest linear one; `stored` of `best` as a side of a join that is not
    linear; `late` of that where the other side has the variable after which latency counts.
    """

    leaves: tuple[int, ...]
    best: Array
    linear: Array
    stored: Array
    late: Array
    pair: Array | None
    product: Array | None
    late_tests: tuple[Array, Array, Array] | None
    delay: Array | None
    held: Array | None
    last: int
    _trees: dict[tuple[int, int, bool], PositionTree] = field(default_factory=dict)

    @classmethod
    def run(cls, statistics: ClauseStatistics, cost: CostModel, leaves: Sequence[int]) -> RangeSearch:
        """Search all ranges, the short ones first."""
        size = len(leaves)
        firsts, lasts = np.triu_indices(size)
        members = np.zeros((len(firsts), size), dtype=bool)
        for place, position in enumerate(leaves):
            members[:, position] = (firsts <= place) & (place <= lasts)

        def of_ranges(term: SetTerm) -> Array:
            table = np.full((size, size), -np.inf)
            table[firsts, lasts] = term.of(statistics, members)
            return table

        waits = cost.delay is not None and cost.alpha > 0
        pair = product = delay = None
        if cost.pair is not None:
            pair = of_ranges(cost.pair)
            product = np.zeros((size, size)) if cost.product is None else of_ranges(cost.product)
        if waits:
            assert cost.delay is not None
            delay = of_ranges(cost.delay) + math.log(cost.alpha)
        late = cost.late_of(statistics)
        tables = None
        if late is not None:
            tables = of_ranges(late.tuples), of_ranges(late.passing), np.zeros((size, size))
            tables[2][firsts, lasts] = late.within(statistics, members)
        best = np.full((size, size), -np.inf)
        search = cls(
            leaves=tuple(leaves),
            best=best,
            linear=best.copy(),
            stored=best.copy(),
            late=best.copy(),
            pair=pair,
            product=product,
            late_tests=tables,
            delay=delay,
            held=None if cost.held is None else of_ranges(cost.held),
            last=leaves.index(statistics.last_variable) if waits else -1,
        )
        node = of_ranges(cost.node)
        for length in range(1, size + 1):
            search._fill(np.arange(size - length + 1), length, node)
        return search

    def tree(self, first: int = 0, last: int | None = None, *, linear: bool = False) -> PositionTree:
        """The cheapest tree of a range; of equal ones the one whose left side is the longest."""
        last = len(self.leaves) - 1 if last is None else last
        if last - first < 2:
            return (self.leaves[first], self.leaves[last]) if first < last else self.leaves[first]
        key = (first, last, linear)
        if key not in self._trees:
            splits, below = self._splits(first, last, linear)
            cells = [grains(ln) for ln in below]
            self._trees[key] = self._tree_of(first, last, *splits[cells.index(min(cells))])
        return self._trees[key]

    def ways(self, tree: PositionTree, *, linear: bool) -> list[Way]:
        """All ways to split the range of a join, each with the cheapest trees of its sides."""
        first, last = (self.leaves.index(position) for position in _ends(tree))
        splits, below = self._splits(first, last, linear)
        return [Way(self._tree_of(first, last, *split), below[rank], (rank,)) for rank, split in enumerate(splits)]

    def _fill(self, firsts: Array, length: int, node: Array) -> None:
        lasts = firsts + length - 1
        if length > 1:
            general, linear = self._below(firsts, length)
            cheapest_linear = linear.min(axis=1)
            self.best[firsts, lasts] = np.logaddexp(
                node[firsts, lasts], np.minimum(general.min(axis=1), cheapest_linear)
            )
            self.linear[firsts, lasts] = np.logaddexp(node[firsts, lasts], cheapest_linear)
        self.stored[firsts, lasts] = self.best[firsts, lasts]
        if self.held is not None:
            self.stored[firsts, lasts] = np.logaddexp(self.best[firsts, lasts], self.held[firsts, lasts])
        self.late[firsts, lasts] = self.stored[firsts, lasts]
        if self.delay is not None:
            self.late[firsts, lasts] = np.logaddexp(self.stored[firsts, lasts], self.delay[firsts, lasts])

    def _below(self, firsts: Array, length: int) -> tuple[Array, Array]:
        """The costs below the join of ranges of one length.

        They are given by the place of the split, shape (m, length - 1), and as a linear join with the last and with the
        first leaf, shape (m, 2).
        """
        first, last = firsts[:, None], firsts[:, None] + length - 1
        middle = first + np.arange(length - 1)  # the last leaf of the left side
        waiting = (first <= self.last) & (self.last <= last)
        left_waits = waiting & (self.last > middle)
        right_waits = waiting & (self.last <= middle)
        left = np.where(left_waits, self.late[first, middle], self.stored[first, middle])
        right = np.where(right_waits, self.late[middle + 1, last], self.stored[middle + 1, last])
        general = np.logaddexp(left, right)
        with_last, with_first = self.linear[first, last - 1], self.linear[first + 1, last]
        linear = np.concatenate((with_last, with_first), axis=1)
        if self.delay is not None:
            delays = np.concatenate(
                (
                    np.where(self.last == last, self.delay[first, last - 1], self.delay[last, last]),
                    np.where(self.last == first, self.delay[first + 1, last], self.delay[first, first]),
                ),
                axis=1,
            )
            linear = np.logaddexp(linear, np.where(waiting, delays, -np.inf))
        if self.pair is not None:
            assert self.product is not None
            tests = self.pair[first, last] + self.product[first, middle] + self.product[middle + 1, last]
            if self.late_tests is not None:
                tuples, passing, within = self.late_tests
                new = within[first, last] - within[first, middle] - within[middle + 1, last]
                with np.errstate(divide="ignore"):
                    ln_new = np.log(new) + passing[first, middle] + passing[middle + 1, last]
                tests = np.logaddexp(tests, tuples[first, last] + ln_new)
            general = np.logaddexp(general, tests)
            linear = np.logaddexp(linear, tests[:, [-1, 0]])
        return general, linear

    def _splits(self, first: int, last: int, linear: bool) -> tuple[list[tuple[int, bool]], list[float]]:
        """The splits of a range: the last leaf of the left side, whether the join is linear, and the cost below.

        They come in the order of preference among equals.
        """
        general, with_leaf = (found[0].tolist() for found in self._below(np.array([first]), last - first + 1))
        splits, below = [(last - 1, True), (first, True)], with_leaf
        if self.held is None:
            splits, below = [], []
        if not linear or self.held is None:
            splits += [(middle, False) for middle in range(last - 1, first - 1, -1)]
            below += general[::-1]
        return splits, below

    def _tree_of(self, first: int, last: int, middle: int, linear: bool) -> PositionTree:
        left = self.tree(first, middle, linear=linear and middle == last - 1)
        return left, self.tree(middle + 1, last, linear=linear and middle == first)


def _ends(tree: PositionTree) -> tuple[int, int]:
    left, right = tree, tree
    while not isinstance(left, int):
        left = left[0]
    while not isinstance(right, int):
        right = right[1]
    return left, right
