"""ZSTREAM: the cheapest tree over the pattern's own order (JQPG section 7.1; Mei and Madden 2009)."""

from __future__ import annotations

from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import TreeOrdering, tree_comparisons
from cep_pipeline.planning.search.ranges import RangeSearch


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
