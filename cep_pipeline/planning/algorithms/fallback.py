"""Plans for patterns that are too large for exact search: good orders, and the cheapest tree over them.

Linearized dynamic programming (Neumann and Radke 2018): IKKBZ arranges the variables so that those that belong together
are neighbours, and dynamic programming over the ranges of that arrangement finds the cheapest tree, in O(n^3).

Lower bounds on the cost of any order or tree tell how far such a plan may be from the optimum.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from cep_pipeline.planning.algorithms.event_frequency import event_frequency_order
from cep_pipeline.planning.algorithms.greedy import greedy_order
from cep_pipeline.planning.algorithms.ikkbz import has_asi, ikkbz_order
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.costs.model import Array
from cep_pipeline.planning.costs.partial_matches import PARTIAL_MATCHES
from cep_pipeline.planning.costs.plan_costs import ln_order_cost, ln_tree_cost
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.numbers.logarithms import ln_sum
from cep_pipeline.planning.orderings import left_deep
from cep_pipeline.planning.search.ranges import RangeSearch
from cep_pipeline.planning.search.sums import log_tables
from cep_pipeline.planning.trees import PositionTree


def known_tree(statistics: ClauseStatistics, cost: CostModel) -> PositionTree:
    """A tree that exact search can measure others against: greedy's order, where all sets are known at once."""
    if log_tables(cost, statistics) is not None:
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


def ln_least_order(statistics: ClauseStatistics, cost: CostModel) -> float:
    """ln of a bound that no order is cheaper than: for each step the least node of its size."""
    return ln_sum(_ln_least_nodes(statistics, cost)[1:].tolist())


def ln_least_tree(statistics: ClauseStatistics, cost: CostModel) -> float:
    """ln of a bound that no tree is cheaper than: its leaves, its root, a join of two leaves, and the least others."""
    size = statistics.size
    least = _ln_least_nodes(statistics, cost)
    parts = cost.node.of(statistics, np.eye(size, dtype=bool)).tolist()
    if size > 1:
        parts.append(float(least[size]))
    if size > 2:
        parts.append(float(least[2]))
    if size > 3:
        parts.append(float(least[2:size].min()) + math.log(size - 3))
    return ln_sum(parts)


def _ln_least_nodes(statistics: ClauseStatistics, cost: CostModel) -> Array:
    """ln of what a node of k variables costs at least, by k: float64 of shape (n + 1,)."""
    size = statistics.size
    least = np.full(size + 1, -np.inf)
    if cost.node is PARTIAL_MATCHES:
        # Each variable with its share of all conditions that it is in, whether or not their other variables are there.
        alone = np.array(statistics.ln_instances)
        for positions, factor in statistics.factors:
            alone[list(positions)] += min(factor, 0.0) / len(positions)
        for agreement in statistics.agreements:
            alone += np.array(agreement.ln_selectivities).min(axis=1)
        least[1:] = np.cumsum(np.sort(alone))
        if statistics.sequences:
            least[1:] -= [math.lgamma(count + 1) for count in range(1, size + 1)]
    for count in {1, 2, size - 1, size} & set(range(1, size + 1)):
        rows = list(combinations(range(size), min(count, size - count)))
        members = np.zeros((len(rows), size), dtype=bool)
        members[np.arange(len(rows))[:, None], np.array(rows, dtype=np.int64).reshape(len(rows), -1)] = True
        least[count] = cost.node.of(statistics, members if count <= size - count else ~members).min()
    return least
