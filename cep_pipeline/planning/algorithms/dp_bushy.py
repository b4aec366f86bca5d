"""DP-B: the cheapest tree of all, cross products among them (JQPG section 7.1; Selinger et al. 1979)."""

from __future__ import annotations

import math

from cep_pipeline.planning.algorithms.fallback import cheapest_known_tree, known_tree, tree_note
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import TreeOrdering, left_deep, ln_below, tree_comparisons
from cep_pipeline.planning.search.tables import LN_UNPRUNED, SetTables
from cep_pipeline.planning.search.trees import OutOfTime, TreeSearch
from cep_pipeline.planning.trees import PositionTree

MAX_VARIABLES = 22
"""Budget: with 22 variables there are 4 million sets (0.3 GB) and 16 billion splits (seconds on 4 cores)."""
MAX_SECONDS = 60.0
"""Budget of time, for machines that have less to give."""
UNPRUNED_VARIABLES = 12
"""Up to this size nothing is given up for being dearer than a known plan: it takes milliseconds, and all comparisons
have both of their sides."""


def dp_bushy_tree(
    statistics: ClauseStatistics,
    cost: CostModel,
    *,
    max_variables: int = MAX_VARIABLES,
    max_seconds: float = MAX_SECONDS,
) -> TreeOrdering:
    """The tree of least cost, exactly; of equal ones the one that is closest to the pattern's order.

    Parameters
    ----------
    max_variables, max_seconds
        Beyond them the cheapest tree over a good order is returned instead; the note says so, and how far from the
        optimum that may be.

    Notes
    -----
    best(S) = node(S) + min over L + R = S of best(L) + best(R) + what joining them costs; O(3^n), each split tried
    once. A set is given up when its node, or its cheapest tree, with the least that the joins above it
    can cost (`least_above`), is dearer than the best tree over greedy's or IKKBZ's order.
    """
    size = statistics.size
    if size < 3:
        return TreeOrdering(left_deep(tuple(range(size))))
    if size > max_variables:
        return _instead(statistics, cost, f"{size} variables exceed the exact search's budget of {max_variables}")
    try:
        search = search_trees(statistics, cost, known_tree(statistics, cost), max_seconds=max_seconds)
    except OutOfTime:
        why = f"the exact search of {size} variables did not end within its budget of {max_seconds:g} s"
        return _instead(statistics, cost, why)
    if not search.best[-1] < math.inf:
        why = f"the costs of {size} variables differ by more than the exact search's numbers can"
        return _instead(statistics, cost, why)
    tree = search.tree((1 << size) - 1)
    return TreeOrdering(tree, tree_comparisons(tree, search, statistics, cost))


def _instead(statistics: ClauseStatistics, cost: CostModel, why: str) -> TreeOrdering:
    """The cheapest tree over a good order, and why it is taken."""
    name, known = cheapest_known_tree(statistics, cost)
    return TreeOrdering(known, (), f"{why}: {tree_note(statistics, cost, name, known)}")


def search_trees(
    statistics: ClauseStatistics, cost: CostModel, known: PositionTree, *, max_seconds: float = MAX_SECONDS
) -> TreeSearch:
    """The cheapest tree of every set, in numbers beside the cost of a known tree; OutOfTime where it takes too long."""
    unpruned = LN_UNPRUNED if statistics.size <= UNPRUNED_VARIABLES else 0.0
    tables = SetTables.of(statistics, cost, ln_below(cost, statistics, known) + unpruned)
    return TreeSearch.run(tables, max_seconds=max_seconds)
