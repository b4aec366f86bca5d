"""The costs of all sets of a clause's variables as linear numbers, relative to the cost of a known plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.search.sums import set_arrays

Array = np.ndarray[Any, Any]

ABOVE = 1.0 + 1e-6
"""The limit, where it is 1: a plan that costs as much as the best known one is not lost to rounding."""
LARGEST_LN = 340.0
"""Products of two numbers and a third one up to here are floats."""
LN_UNPRUNED = 300.0
"""Added to the limit, it keeps all but what is beyond comparison with a known plan."""
SMALLEST = math.exp(-600.0)
"""Costs below are not told apart: beside a plan they are nothing."""
KERNEL = "cep_pipeline.planning.search.set_search_kernel"
_search_orders = NativeKernel(KERNEL, "search_orders", ("int64",) * 4 + ("float64*",) * 6)


@dataclass(frozen=True, eq=False)
class SetTables:
    """The terms of a cost model for all sets, divided by e^ln_limit: what is above 1 is dearer than a known plan.

    The arrays are `SetCosts`' (float64 of shape (2^n,)), but that the node of all variables, which is in every plan,
    is 0, and that the node of a set that is in no better plan is infinite.
    """

    statistics: ClauseStatistics
    cost: CostModel
    ln_limit: float
    node: Array
    pair: Array | None
    product: Array | None
    held: Array | None
    latency: Array | None
    last: int

    @classmethod
    def of(cls, statistics: ClauseStatistics, cost: CostModel, ln_limit: float) -> SetTables:
        """The tables of a clause, given the cost of a known plan."""

        def linear(logarithms: Array, divided_by: float) -> Array:
            logarithms -= divided_by
            np.clip(logarithms, -2 * LARGEST_LN, LARGEST_LN, out=logarithms)
            return np.asarray(np.exp(logarithms, out=logarithms))

        node, pair, product, held, delay = set_arrays(cost, statistics) or _terms_of_all(cost, statistics)
        assert node is not None
        if pair is not None:
            pair = linear(pair, ln_limit)
            if product is None:
                product = np.ones(1 << statistics.size)
            else:
                product = np.exp(np.clip(product, -LARGEST_LN, LARGEST_LN / 2))  # two of the least are a float yet
        node = linear(node, ln_limit)
        node[-1] = 0.0
        return cls(
            statistics,
            cost,
            ln_limit,
            node,
            pair,
            None if pair is None else product,
            None if held is None else linear(held, ln_limit),
            None if delay is None else linear(delay, ln_limit),
            statistics.last_variable if cost.waits else -1,
        )

    def exchanged(self, one: int, other: int) -> SetTables:
        """The same with two variables in each other's place."""
        if one == other:
            return self

        def changed(array: Array | None) -> Array | None:
            return None if array is None else exchange(array, one, other)

        return replace(
            self,
            node=exchange(self.node, one, other),
            pair=changed(self.pair),
            product=changed(self.product),
            held=changed(self.held),
            latency=changed(self.latency),
            last={one: other, other: one}.get(self.last, self.last),
        )

    @property
    def size(self) -> int:
        """Number of variables."""
        return self.statistics.size


def _terms_of_all(cost: CostModel, statistics: ClauseStatistics) -> list[Array | None]:
    """The terms of a cost model for all sets, as `CostModel.terms` has them; the delay weighed."""
    found = [None if term is None else term.all(statistics) for term in cost.terms]
    if found[-1] is not None:
        found[-1] = found[-1] + math.log(cost.alpha)
    return found


def exchange(array: Array, one: int, other: int) -> Array:
    """A table of all sets in which two variables are in each other's place."""
    low, high = sorted((one, other))
    parts = array.reshape(-1, 2, 1 << (high - low - 1), 2, 1 << low)
    return np.ascontiguousarray(parts.swapaxes(1, 3)).reshape(-1)


def cheapest_orders(tables: SetTables, limits: Array, *, of_tree: bool) -> Array:
    """The cost of the cheapest order of each set, or of its cheapest linear tree without leaves.

    Parameters
    ----------
    limits
        float64 of shape (n + 1,): what a set of k variables may cost.

    Returns
    -------
    Array
        float64 of shape (2^n,), that of all variables without its last step's node; infinity above the limit.
    """
    best = np.empty(1 << tables.size)
    pair = tables.node if tables.pair is None else tables.pair
    product = tables.node if tables.product is None else tables.product
    latency = tables.node if tables.latency is None else tables.latency
    _search_orders(
        tables.size,
        int(of_tree),
        tables.last,
        int(tables.pair is not None),
        limits,
        marked(tables.node, limits[np.bitwise_count(np.arange(1 << tables.size, dtype=np.uint32))]),
        pair,
        product,
        latency,
        best,
    )
    return best


def least_nodes(tables: SetTables) -> Array:
    """The least cost of a node by the size of its set, float64 of shape (n + 1,)."""
    sizes = np.bitwise_count(np.arange(1 << tables.size, dtype=np.uint32))
    least = np.full(tables.size + 1, np.inf)
    np.minimum.at(least, sizes, tables.node)
    return least


def least_above(tables: SetTables) -> Array:
    """The least cost of a tree above each of its sets, float64 of shape (2^n,); 0 for the set of all variables.

    Above a set are the root's tests, which join some set that holds it to the rest, the nodes of these two, and,
    where sides are held, the set itself, as a side of a join that is not linear, and the root's sides. Linear trees,
    which hold none, have limits of their own.
    """
    side = tables.node.copy()
    side[1 << np.arange(tables.size)] = 0.0  # leaves, which all plans share
    rest = side[::-1].copy()  # the set without the bits of m is the one m places before the last
    if tables.held is not None:
        rest += tables.held[::-1]
    if tables.pair is not None and tables.product is not None:
        rest += tables.pair[-1] * (tables.product * tables.product[::-1])
    rest[[0, -1]] = np.inf  # no sides of the root
    above = rest + side
    if tables.held is not None:
        above += tables.held
    for position in range(tables.size):
        without, having = above.reshape(-1, 2, 1 << position).swapaxes(0, 1)
        np.minimum(without, having, out=without)
    if tables.held is not None:
        above += tables.held
        rest += tables.held
    np.minimum(above, rest, out=above)
    above[-1] = 0.0
    return above


def marked(node: Array, limits: Array) -> Array:
    """The nodes of all sets, infinity for those that alone are above their limit."""
    return np.where(node > limits, np.inf, node)


def positions_in(members: int) -> Iterator[int]:
    """The positions of a set, ascending."""
    return (position for position in range(members.bit_length()) if members >> position & 1)
