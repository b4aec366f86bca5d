"""ZSTREAM and ZSTREAM-ORD: the cheapest tree over the pattern's own order, and over the order that GREEDY finds.

JQPG section 7.1; Mei and Madden 2009.
"""

from __future__ import annotations

from cep_pipeline.planning.algorithms.greedy import greedy_order
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
