"""Exact search over orders: the cheapest order of every set of variables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cep_pipeline.planning.cardinality import mask_of
from cep_pipeline.planning.comparisons import Way, ln_before
from cep_pipeline.planning.ordering import grains
from cep_pipeline.planning.set_tables import (
    ABOVE,
    SMALLEST,
    Array,
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
        """The ways to bind the variables of the beginning of an order: by each of them last, after the cheapest order
        of the others; without those that are beyond the limit."""
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
