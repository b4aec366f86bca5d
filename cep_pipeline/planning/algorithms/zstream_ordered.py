"""ZSTREAM-ORD: the cheapest tree over the order that GREEDY finds (JQPG section 7.1)."""

from __future__ import annotations

from cep_pipeline.planning.algorithms.greedy import greedy_order
from cep_pipeline.planning.algorithms.zstream import cheapest_over_leaves
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import TreeOrdering


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
