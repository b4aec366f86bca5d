"""Plans for patterns that are too large for exact search: good orders, and the cheapest tree over them.

Linearized dynamic programming (Neumann and Radke 2018): IKKBZ arranges the variables so that those that belong together
are neighbours, and dynamic programming over the ranges of that arrangement finds the cheapest tree, in O(n^3).
"""

from __future__ import annotations

import math

from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import CostModel, ln_order_cost, ln_tree_cost
from cep_pipeline.planning.event_frequency import event_frequency_order
from cep_pipeline.planning.greedy import greedy_order
from cep_pipeline.planning.ikkbz import has_asi, ikkbz_order
from cep_pipeline.planning.ln_tables import set_tables
from cep_pipeline.planning.lower_bounds import ln_least_order, ln_least_tree
from cep_pipeline.planning.ordering import left_deep
from cep_pipeline.planning.range_search import RangeSearch
from cep_pipeline.planning.trees import PositionTree


def known_tree(statistics: ClauseStatistics, cost: CostModel) -> PositionTree:
    """A tree that exact search can measure others against: where all sets are known at once, greedy's order, which is
    made at once too."""
    if set_tables(cost, statistics) is not None:
        return left_deep(greedy_order(statistics, cost).order)
    return cheapest_known_tree(statistics, cost)[1]


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


def order_note(statistics: ClauseStatistics, cost: CostModel, name: str, order: tuple[int, ...]) -> str:
    """Whose order was taken instead of the exact planner's, and how far from the cheapest one it may be."""
    known = ""
    if name == "ikkbz" and has_asi(statistics, cost):
        known = ", the cheapest one without cross products"
    bound = _ratio(ln_order_cost(cost, statistics, order) - ln_least_order(statistics, cost))
    return f"the order is {name}'s{known}{bound}; it has no deciding comparisons"


def tree_note(statistics: ClauseStatistics, cost: CostModel, name: str, tree: PositionTree) -> str:
    """Over whose order the tree is that was taken instead of the exact planner's, and how far off it may be."""
    bound = _ratio(ln_tree_cost(cost, statistics, tree) - ln_least_tree(statistics, cost))
    return f"the tree is the cheapest one over the order of {name}{bound}; it has no deciding comparisons"


def _ratio(ln_ratio: float) -> str:
    if ln_ratio > math.log(1e6):
        return ", how far from the cheapest of all is not known"
    return f", at most {math.exp(max(ln_ratio, 0.0)):.3g} times the cheapest of all"
