"""The cost of a whole order or tree, and the share of it that is latency."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cep_pipeline.planning.costs.model import CostModel
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.numbers.logarithms import ln_sum
from cep_pipeline.planning.search.sums import log_tables
from cep_pipeline.planning.trees import PositionTree, positions_below


def ln_order_cost(model: CostModel, statistics: ClauseStatistics, order: Sequence[int]) -> float:
    """Natural logarithm of the cost of an order, or of the beginning of one."""
    tables = log_tables(model, statistics)
    if tables is not None:
        bound = 0
        steps = []
        for position in order:
            steps.append(tables.ln_step(bound, position))
            bound |= 1 << position
        return ln_sum(steps)
    return ln_sum(model.ln_step(statistics, order[:length]) for length in range(1, len(order) + 1))


def ln_tree_cost(model: CostModel, statistics: ClauseStatistics, tree: PositionTree) -> float:
    """Natural logarithm of the cost of a tree, or of a part of one."""
    tables = log_tables(model, statistics)
    if tables is not None:
        return ln_sum(tables.ln_nodes(tree))
    terms = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, int):
            terms.append(model.ln_leaf(statistics, node))
        else:
            terms.append(model.ln_join(statistics, *node))
            waiting += node
    return ln_sum(terms)


def ln_order_delay(model: CostModel, statistics: ClauseStatistics, order: Sequence[int]) -> float | None:
    """ln of the share of an order's cost that is latency, weighed; None where there is none."""
    if not model.waits:
        return None
    waiting = [model.ln_step_delay(statistics, order[:length]) for length in range(1, len(order) + 1)]
    return _finite(ln_sum(waiting))


def ln_tree_delay(model: CostModel, statistics: ClauseStatistics, tree: PositionTree) -> float | None:
    """ln of the share of a tree's cost that is latency, weighed; None where there is none."""
    if not model.waits:
        return None
    waiting = []
    while not isinstance(tree, int):
        left, right = tree
        inside = statistics.last_variable in positions_below(left)
        waiting.append(model.ln_join_delay(statistics, left, right))
        tree = left if inside else right
    return _finite(ln_sum(waiting))


def _finite(logarithm: float) -> float | None:
    return logarithm if logarithm > -math.inf else None
