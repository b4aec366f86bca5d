"""DP-LD and DP-B: the cheapest order and the cheapest tree, exactly (JQPG section 7.1; Selinger et al. 1979).

Both go through the sets of variables. Patterns that are too large for that get the cheapest plan known: the cheapest of
the orders that take polynomial time, or the cheapest tree over greedy's or IKKBZ's order. The latter is linearized
dynamic programming (Neumann and Radke 2018): IKKBZ arranges the variables so that those that belong together are
neighbours, and dynamic programming over the ranges of that arrangement finds the cheapest tree, in O(n^3).
"""

from __future__ import annotations

import math
from dataclasses import replace

from cep_pipeline.planning.algorithms.heuristics import event_frequency_order, greedy_order
from cep_pipeline.planning.algorithms.ikkbz import has_asi, ikkbz_order
from cep_pipeline.planning.algorithms.set_search import LN_UNPRUNED, OutOfTime, SetSearch, SetTables
from cep_pipeline.planning.algorithms.zstream import RangeSearch
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import Array, CostModel
from cep_pipeline.planning.orderings import (
    DecidingComparison,
    Ordering,
    TreeOrdering,
    comparisons_of_block,
    ln_before,
    ln_below,
    ln_order_cost,
    ln_tree_cost,
    tree_comparisons,
)
from cep_pipeline.planning.trees import PositionTree, left_deep, positions_of

MAX_VARIABLES = 22
"""Budget: with 22 variables there are 4 million sets. Orders take 0.2 GB and a fraction of a second; trees 0.3 GB and
16 billion splits, which are seconds on 4 cores."""
MAX_SECONDS = 60.0
"""Budget of time for trees, for machines that have less to give."""
UNPRUNED_VARIABLES = 12
"""Largest size at which no tree is given up for being dearer than a known one: it takes milliseconds, and all
comparisons have both of their sides."""

FAR_CHEAPER = math.exp(-LN_UNPRUNED - 100.0)
"""A share of the limit that the pattern's own order sets. Where the cheapest order costs less, the numbers of the
search may not reach down to its parts, and the search is done again beside a better order."""


def dp_left_deep_order(
    statistics: ClauseStatistics, cost: CostModel, *, max_variables: int = MAX_VARIABLES
) -> Ordering:
    """The order of least cost, exactly; of several, the one that binds the pattern's first variables first.

    Parameters
    ----------
    max_variables
        Above this size the cheapest order that takes polynomial time is returned instead; its note says so.

    Notes
    -----
    best(S) = step(S) + min over j in S of best(S without j): O(n 2^n) time. A step whose cost depends on the variable
    that it binds, too (latency, tests of candidates), adds that to best(S without j).
    """
    size = statistics.size
    if size == 1:
        return Ordering((0,))
    why = _beyond(size, max_variables)
    if not why:
        search = search_orders(statistics, cost, tuple(range(size)))
        if not FAR_CHEAPER < search.best[-1] < math.inf:
            search = search_orders(statistics, cost, cheapest_known_order(statistics, cost)[1])
        why = _beyond_numbers(size, search.best)
    if why:
        name, known = cheapest_known_order(statistics, cost)
        exact = name == "ikkbz" and has_asi(statistics, cost)
        best = ", the cheapest one without cross products" if exact else ""
        return Ordering(known, (), f"{why}: the order is {name}'s{best}; it has no deciding comparisons")
    order = search.plan((1 << size) - 1)
    beginnings = [order[: step + 1] for step in range(1, size)]
    comparisons = (
        comparison
        for step, beginning in enumerate(beginnings, 1)
        for comparison in comparisons_of_block(step, "cost", beginning, search.ways(beginning), statistics, cost)
    )
    return Ordering(order, tuple(comparisons))


def dp_bushy_tree(
    statistics: ClauseStatistics,
    cost: CostModel,
    *,
    max_variables: int = MAX_VARIABLES,
    max_seconds: float = MAX_SECONDS,
) -> TreeOrdering:
    """The tree of least cost, cross products among them, exactly; of equal ones the closest to the pattern's order.

    Parameters
    ----------
    max_variables, max_seconds
        Beyond them the cheapest tree over a good order is returned instead; the note says so.

    Notes
    -----
    best(S) = node(S) + min over L + R = S of best(L) + best(R) + what joining them costs; O(3^n), each split tried
    once. A set is given up when its node, or its cheapest tree, with the least that the joins above it can cost
    (`least_above`), is dearer than the best tree over greedy's or IKKBZ's order. Where trees run as the order
    of their leaves the cheapest one is the left-deep tree of the cheapest order.
    """
    size = statistics.size
    if cost.runs_orders:
        order = dp_left_deep_order(statistics, cost, max_variables=max_variables)
        return TreeOrdering(left_deep(order.order), tuple(map(_of_trees, order.comparisons)), order.note)
    if size < 3:
        return TreeOrdering(left_deep(tuple(range(size))))
    why = _beyond(size, max_variables)
    if not why:
        try:
            search = search_trees(statistics, cost, cheapest_known_tree(statistics, cost)[1], max_seconds=max_seconds)
            why = _beyond_numbers(size, search.best)
        except OutOfTime:
            why = f"the exact search of {size} variables did not end within its budget of {max_seconds:g} s"
    if why:
        name, known = cheapest_known_tree(statistics, cost)
        said = f"the tree is the cheapest one over the order of {name}; it has no deciding comparisons"
        return TreeOrdering(known, (), f"{why}: {said}")
    tree = search.plan((1 << size) - 1)
    return TreeOrdering(tree, tree_comparisons(tree, search.ways, statistics, cost))


def _of_trees(comparison: DecidingComparison) -> DecidingComparison:
    """A comparison of two beginnings of orders as one of the left-deep trees that run as them."""
    chosen, rejected = (left_deep(positions_of(side)) for side in (comparison.chosen, comparison.rejected))
    return replace(comparison, step=comparison.step - 1, measure="tree", chosen=chosen, rejected=rejected)


def _beyond(size: int, most: int) -> str:
    """The reason why a clause is not searched; empty where it is."""
    return f"{size} variables exceed the exact search's budget of {most}" if size > most else ""


def _beyond_numbers(size: int, best: Array) -> str:
    """The reason why a search found nothing; empty where it did."""
    if best[-1] < math.inf:
        return ""
    return f"the costs of {size} variables differ by more than the exact search's numbers can"


def search_orders(statistics: ClauseStatistics, cost: CostModel, known: tuple[int, ...]) -> SetSearch:
    """The cheapest order of every set, in numbers beside the cost of a known order."""
    tables = SetTables.of(statistics, cost, ln_before(cost, statistics, known) + LN_UNPRUNED)
    return SetSearch.run(tables, orders=True)


def search_trees(
    statistics: ClauseStatistics, cost: CostModel, known: PositionTree, *, max_seconds: float = MAX_SECONDS
) -> SetSearch:
    """The cheapest tree of every set, in numbers beside the cost of a known tree; OutOfTime where it takes too long."""
    unpruned = LN_UNPRUNED if statistics.size <= UNPRUNED_VARIABLES else 0.0
    tables = SetTables.of(statistics, cost, ln_below(cost, statistics, known) + unpruned)
    return SetSearch.run(tables, orders=False, max_seconds=max_seconds)


def cheapest_known_order(statistics: ClauseStatistics, cost: CostModel) -> tuple[str, tuple[int, ...]]:
    """The cheapest of the orders that take polynomial time, and whose it is."""
    orders = {
        "greedy": greedy_order(statistics, cost).order,
        "ikkbz": ikkbz_order(statistics),
        "event_frequency": event_frequency_order(statistics, cost).order,
        "trivial": tuple(range(statistics.size)),
    }
    name = min(orders, key=lambda name: ln_order_cost(cost, statistics, orders[name]))
    return name, orders[name]


def cheapest_known_tree(statistics: ClauseStatistics, cost: CostModel) -> tuple[str, PositionTree]:
    """The cheapest of the trees over greedy's and IKKBZ's orders, and over whose order it is."""
    orders = {"greedy": greedy_order(statistics, cost).order, "ikkbz": ikkbz_order(statistics)}
    trees = {name: RangeSearch.run(statistics, cost, order).tree() for name, order in orders.items()}
    name = min(trees, key=lambda name: ln_tree_cost(cost, statistics, trees[name]))
    return name, trees[name]
