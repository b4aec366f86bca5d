"""ZSTREAM: the cheapest tree over the pattern's own order (JQPG section 7.1; Mei and Madden 2009)."""

from __future__ import annotations

from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.comparisons import tree_comparisons
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.ln_tables import set_tables
from cep_pipeline.planning.ordering import TreeOrdering
from cep_pipeline.planning.range_search import RangeSearch
from cep_pipeline.planning.small_range_search import SmallRangeSearch


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
    tables = set_tables(cost, statistics)
    if tables is not None and tables.held is None and tables.delay is None:
        search: SmallRangeSearch | RangeSearch = SmallRangeSearch(tables, leaves)
    else:
        search = RangeSearch.run(statistics, cost, leaves)
    tree = search.tree()
    return TreeOrdering(tree, tree_comparisons(tree, search, statistics, cost))
