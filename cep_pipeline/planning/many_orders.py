"""What many orders cost at once, for clauses of any size."""

from __future__ import annotations

import math

import numpy as np

from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.costs.model import Array


def ln_steps(cost: CostModel, statistics: ClauseStatistics, earlier: Array, added: Array) -> Array:
    """ln of what steps cost, as `CostModel.ln_step` of each.

    Parameters
    ----------
    earlier
        bool, shape (m, n): the variables that are bound before each step.
    added
        Integer, shape (m,): the variable that the step binds.

    Returns
    -------
    Array
        float64, shape (m,).
    """
    rows = np.arange(len(added))
    alone = np.zeros_like(earlier)
    alone[rows, added] = True
    whole = earlier | alone
    total = cost.node.of(statistics, whole)
    if cost.pair is not None:
        joins = np.flatnonzero(earlier.any(axis=1))
        tests = cost.pair.of(statistics, whole[joins])
        if cost.product is not None:
            tests = tests + cost.product.of(statistics, earlier[joins]) + cost.product.of(statistics, alone[joins])
        total[joins] = np.logaddexp(total[joins], tests)
    if cost.delay is not None and cost.alpha > 0:
        waits = np.flatnonzero(earlier[:, statistics.last_variable])
        delays = cost.delay.of(statistics, alone[waits]) + math.log(cost.alpha)
        total[waits] = np.logaddexp(total[waits], delays)
    return total


def ln_order_costs(cost: CostModel, statistics: ClauseStatistics, orders: Array) -> Array:
    """ln of what orders cost, as `ln_order_cost` of each.

    Parameters
    ----------
    orders
        Integer, shape (m, n): in each row the positions in their order.

    Returns
    -------
    Array
        float64, shape (m,).
    """
    count, size = orders.shape
    earlier = np.zeros((count, size, size), dtype=bool)
    rows = np.arange(count)
    for place in range(1, size):
        earlier[:, place] = earlier[:, place - 1]
        earlier[rows, place, orders[:, place - 1]] = True
    steps = ln_steps(cost, statistics, earlier.reshape(-1, size), orders.reshape(-1))
    return np.asarray(np.logaddexp.reduce(steps.reshape(count, size), axis=1))
