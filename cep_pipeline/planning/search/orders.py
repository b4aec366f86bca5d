"""Exact search over orders: the cheapest order of every set of variables; and the costs of many steps at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.costs.model import Array
from cep_pipeline.planning.numbers.cardinality import mask_of
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import Way, grains, ln_before
from cep_pipeline.planning.search.tables import (
    ABOVE,
    SMALLEST,
    SetTables,
    cheapest_orders,
    least_nodes,
    positions_in,
)


@dataclass(eq=False)
class OrderSearch:
    """The cheapest order of every set.

    Attributes
    ----------
    tables
        What plans cost.
    best
        The cost of each set's cheapest order, that of all variables without its last step's node; infinity where no
        order of all variables within the limit begins with the set.
    """

    tables: SetTables
    best: Array
    _orders: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def run(cls, tables: SetTables) -> OrderSearch:
        """Search; 22 variables take a fraction of a second."""
        least = least_nodes(tables)
        # Below the last step an order has one more step of each size.
        limits = [ABOVE - float(np.sum(least[size + 1 : -1])) for size in range(tables.size + 1)]
        return cls(tables, cheapest_orders(tables, np.array(limits), of_tree=False))

    def order(self, members: int) -> tuple[int, ...]:
        """The cheapest order of a set; of equal ones the one that binds the pattern's last variables last."""
        if members & (members - 1) == 0:
            return tuple(positions_in(members))
        if members not in self._orders:
            cells = {
                position: grains(math.log(below) + self.tables.ln_limit)
                for position in positions_in(members)
                if (below := self._below(members, position)) < math.inf
            }
            last = min(cells, key=lambda position: (cells[position], -position))
            self._orders[members] = (*self.order(members & ~(1 << last)), last)
        return self._orders[members]

    def ways(self, beginning: Sequence[int]) -> Iterator[Way]:
        """The ways to bind the variables of the beginning of an order.

        Each of them is bound last, after the cheapest order of the others; ways beyond the limit are left out.
        """
        members = mask_of(beginning)
        tables = self.tables
        for position in positions_in(members):
            below = self._below(members, position)
            if below < math.inf:
                order = (*self.order(members & ~(1 << position)), position)
                ln_below = (
                    ln_before(tables.cost, tables.statistics, order)
                    if below < SMALLEST
                    else math.log(below) + tables.ln_limit
                )
                yield Way(order, ln_below, (-position,))

    def _below(self, members: int, last: int) -> float:
        """The cost of the cheapest order of a set that binds this variable last, without the last step's node."""
        tables = self.tables
        bit = 1 << last
        rest = members & ~bit
        below = float(self.best[rest])
        if tables.pair is not None and tables.product is not None:
            below += float(tables.pair[members] * (tables.product[rest] * tables.product[bit]))
        if tables.latency is not None and rest >> tables.last & 1:
            below += float(tables.latency[bit])
        return below


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
