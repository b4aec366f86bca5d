"""The local planner of the search (A of MCEP [0108]-[0109], [0123]-[0124]): the cheapest plan with given parts.

What a step or join costs depends on the set of variables that it completes, and, where candidates are counted, on the
two sides that it is joined of. So the cheapest way on from the beginning of an order does not depend on the order of
that, and a tree that contains given subtrees is one over these and the other variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.errors import PlanError
from cep_pipeline.planning.costs import THROUGHPUT, CostModel
from cep_pipeline.planning.costs.model import Array
from cep_pipeline.planning.multi_pattern.costs import check_model
from cep_pipeline.planning.multi_pattern.search_codes import LARGEST_COST
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics, mask_of
from cep_pipeline.planning.trees import PositionTree, positions_below

MAX_VARIABLES = 16
"""Budget: members with more variables are planned by themselves, before the search."""

LOCAL_KERNEL = "cep_pipeline.planning.multi_pattern.plans_around_kernel"
KERNEL_SOURCES = (
    "cep_pipeline.compiled.pointers",
    "cep_pipeline.planning.multi_pattern.node_table_kernel",
    "cep_pipeline.planning.multi_pattern.search_codes",
)
_fill_trees, _fill_orders, _join = LOCAL_KERNELS = tuple(
    NativeKernel(LOCAL_KERNEL, name, types, KERNEL_SOURCES)
    for name, types in (
        ("fill_trees", ("int64", *["float64*"] * 4, "int64*")),
        ("fill_orders", ("int64", *["float64*"] * 4, "int64*", "int64*")),
        ("join", ("int64", "int64*", *["float64*"] * 4, *["int64*"] * 4)),
    )
)


class JoinCosts(NamedTuple):
    """The costs of sets of variables by their bits, as in `CostModel`: float64, shapes (2^n,).

    Attributes
    ----------
    nodes
        The cost of a set's partial matches.
    pairs, products
        Of the candidates of a join of L and R in S: `pairs[S] products[L] products[R]`. The empty set's product is 0.

    Examples
    --------
    >>> tables = [0.0, 2.0, 3.0, 1.0], [0.0, 0.0, 0.0, 8.0], [0.0, 1.0, 0.5, 0.25]
    >>> costs = JoinCosts(*map(np.array, tables))
    >>> costs.joined(0b11, 0b01), costs.joined(0b01, 0b01)
    (5.0, 2.0)
    """

    nodes: Array
    pairs: Array
    products: Array

    @classmethod
    def behind_one_another(cls, of_each: Iterable[JoinCosts]) -> JoinCosts:
        """The costs of several members in one table."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*of_each, strict=True)))

    def joined(self, inside: int, side: int) -> float:
        """The cost of joining a set of one side and the rest, without the costs of these.

        A set that is its own side is joined of nothing.
        """
        candidates = self.pairs[inside] * self.products[side] * self.products[inside ^ side]
        return float(self.nodes[inside] + candidates)


@dataclass(eq=False)
class LocalPlans:
    """The cheapest orders and trees of one member; each is found once.

    Attributes
    ----------
    statistics
        The numbers of its clause: at most `MAX_VARIABLES` variables.
    model
        One of `SHARED_COSTS`.

    Raises
    ------
    PlanError
        The clause has more variables.

    Examples
    --------
    >>> plans = LocalPlans(ClauseStatistics(("a", "b", "c"), (3.0, 2.0, 1.0)))
    >>> plans.cheapest_order(), plans.cheapest_order(prefix=(0,)), plans.cheapest_tree(subtrees=[(0, 2)])
    ((2, 1, 0), (0, 2, 1), ((0, 2), 1))
    """

    statistics: ClauseStatistics
    model: CostModel = THROUGHPUT
    _orders: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict, init=False, repr=False)
    _trees: dict[tuple[PositionTree, ...], PositionTree] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_model(self.model)
        if self.statistics.size > MAX_VARIABLES:
            raise PlanError(f"{self.statistics.size} variables exceed the local planner's budget of {MAX_VARIABLES}")

    @property
    def size(self) -> int:
        """Number of variables."""
        return self.statistics.size

    @cached_property
    def ln_costs(self) -> Array:
        """ln of what each set's partial matches cost: float64, shape (2^n,), by the bits of the set."""
        return self.model.node.all(self.statistics)

    @cached_property
    def ln_least(self) -> float:
        """ln of what is in every plan: the dearest of its single variables and of all together."""
        return float(max(self.ln_costs[[1 << place for place in range(self.size)]].max(), self.ln_costs[-1]))

    def costs(self, ln_scale: float) -> JoinCosts:
        """The costs of sets, divided by e^ln_scale; a cost too large for sums of floats is the largest number."""
        largest = np.log(LARGEST_COST)
        nodes = np.exp(np.clip(self.ln_costs - ln_scale, -2 * largest, largest))
        pairs, products = np.zeros_like(nodes), np.ones_like(nodes)
        if self.model.pair is not None:
            pairs = np.exp(np.clip(self.model.pair.all(self.statistics) - ln_scale, -2 * largest, largest))
        if self.model.product is not None:
            products = np.exp(np.clip(self.model.product.all(self.statistics), -largest / 2, largest / 2))
        products[0] = 0.0
        return JoinCosts(nodes, pairs, products)

    @cached_property
    def sides(self) -> Array:
        """One side of the cheapest tree of each set, as a set: int64, shape (2^n,)."""
        sides = np.zeros(1 << self.size, np.int64)
        _fill_trees(self.size, *self._costs, np.empty(1 << self.size), sides)
        return sides

    @cached_property
    def last_and_next(self) -> tuple[Array, Array]:
        """The variable that the cheapest order of each set binds last, and the next one of the cheapest way on."""
        lasts, nexts = np.zeros(1 << self.size, np.int64), np.zeros(1 << self.size, np.int64)
        _fill_orders(self.size, *self._costs, np.empty(1 << self.size), lasts, nexts)
        return lasts, nexts

    def cheapest_order(self, prefix: Sequence[int] = ()) -> tuple[int, ...]:
        """The cheapest order that begins with some variables in this sequence, all by their places in pattern order."""
        given = tuple(prefix)
        if given not in self._orders:
            self._orders[given] = self._complete(given) if given else self.order_of((1 << self.size) - 1)
        return self._orders[given]

    def order_of(self, members: int) -> tuple[int, ...]:
        """The cheapest order of a set of variables."""
        order: list[int] = []
        while members:
            order.append(int(self.last_and_next[0][members]))
            members ^= 1 << order[-1]
        return tuple(reversed(order))

    def _complete(self, given: tuple[int, ...]) -> tuple[int, ...]:
        order = list(given)
        reached = mask_of(order)
        while len(order) < self.size:
            order.append(int(self.last_and_next[1][reached]))
            reached |= 1 << order[-1]
        return tuple(order)

    def cheapest_tree(self, subtrees: Sequence[PositionTree] = ()) -> PositionTree:
        """The cheapest tree that contains some trees without a variable in common.

        Above `search_codes.MAX_ITEMS` given trees and other variables the two that are cheapest together are joined
        first, and so on.
        """
        given = tuple(subtrees)
        if given not in self._trees:
            self._trees[given] = self._joined(given) if given else self.tree_of((1 << self.size) - 1)
        return self._trees[given]

    def tree_of(self, members: int) -> PositionTree:
        """The cheapest tree of a set of variables."""
        if members & (members - 1) == 0:
            return members.bit_length() - 1
        side = int(self.sides[members])
        return self.tree_of(members ^ side), self.tree_of(side)

    def _joined(self, given: tuple[PositionTree, ...]) -> PositionTree:
        parts: dict[int, PositionTree] = {mask_of(positions_below(tree)): tree for tree in given}
        covered = 0
        for members in parts:
            if covered & members:
                raise ValueError(f"the subtrees {given} have a variable in common")
            covered |= members
        parts |= {1 << place: place for place in range(self.size) if not covered >> place & 1}
        items = np.zeros(self.size, np.int64)
        items[: len(parts)] = sorted(parts, key=lambda members: members & -members)
        sets, sides = np.zeros(self.size, np.int64), np.zeros(self.size, np.int64)
        room = np.zeros((2, 1 << self.size), np.int64)
        count = _join(len(parts), items, *self._costs, np.empty(1 << self.size), room[0], room[1], sets, sides)
        for members, side in zip(sets[:count].tolist(), sides[:count].tolist(), strict=True):
            parts[members] = (parts[members ^ side], parts[side])
        return parts[(1 << self.size) - 1]

    @cached_property
    def _costs(self) -> JoinCosts:
        return self.costs(self.ln_least)
