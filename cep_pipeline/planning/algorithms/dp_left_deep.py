"""DP-LD: the cheapest order, by dynamic programming over sets of variables (JQPG section 7.1; Selinger et al. 1979)."""

from __future__ import annotations

import math

from cep_pipeline.planning.algorithms.fallback import cheapest_known_order, order_note
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import Ordering, comparisons_of_block, ln_before
from cep_pipeline.planning.search.orders import OrderSearch
from cep_pipeline.planning.search.tables import LN_UNPRUNED, SetTables

MAX_VARIABLES = 22
"""Budget: above it 2^n sets are too many (22: 0.2 GB and a fraction of a second)."""


def dp_left_deep_order(
    statistics: ClauseStatistics, cost: CostModel, *, max_variables: int = MAX_VARIABLES
) -> Ordering:
    """The order of least cost, exactly; of several, the one that binds the pattern's first variables first.

    Parameters
    ----------
    max_variables
        Above this size the cheapest order that takes polynomial time is returned instead; its note says so, and how
        far from the optimum that may be.

    Notes
    -----
    best(S) = step(S) + min over j in S of best(S without j): O(n 2^n) time. A step whose cost depends on the variable
    that it binds, too (latency, tests of candidates), adds that to best(S without j).
    """
    size = statistics.size
    if size == 1:
        return Ordering((0,))
    if size > max_variables:
        return _instead(statistics, cost, f"{size} variables exceed the exact search's budget of {max_variables}")
    search = search_orders(statistics, cost, cheapest_known_order(statistics, cost)[1])
    if not search.best[-1] < math.inf:
        why = f"the costs of {size} variables differ by more than the exact search's numbers can"
        return _instead(statistics, cost, why)
    order = search.order((1 << size) - 1)
    comparisons = (
        comparison
        for step in range(1, size)
        for comparison in comparisons_of_block(
            step, "cost", order[: step + 1], search.ways(order[: step + 1]), statistics, cost
        )
    )
    return Ordering(order, tuple(comparisons))


def _instead(statistics: ClauseStatistics, cost: CostModel, why: str) -> Ordering:
    """The cheapest order that takes polynomial time, and why it is taken."""
    name, known = cheapest_known_order(statistics, cost)
    return Ordering(known, (), f"{why}: {order_note(statistics, cost, name, known)}")


def search_orders(statistics: ClauseStatistics, cost: CostModel, known: tuple[int, ...]) -> OrderSearch:
    """The cheapest order of every set, in numbers beside the cost of a known order."""
    return OrderSearch.run(SetTables.of(statistics, cost, ln_before(cost, statistics, known) + LN_UNPRUNED))
