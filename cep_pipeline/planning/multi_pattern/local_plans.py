"""The local planner of the search (A of MCEP [0108]-[0109], [0123]-[0124]): the cheapest plan with given parts.

What a step or join costs depends on the set of variables that it completes, and, where candidates are counted, on the
two sides that it is joined of. So the cheapest way on from the beginning of an order does not depend on the order of
that, and a tree that contains given subtrees is one over these and the other variables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from typing import NamedTuple, cast

import numpy as np

from cep_pipeline.errors import PlanError
from cep_pipeline.planning.algorithms.dynamic_programming import dp_bushy_tree, dp_left_deep_order
from cep_pipeline.planning.clause_statistics import ClauseStatistics, mask_of
from cep_pipeline.planning.costs import THROUGHPUT, Array, CostModel
from cep_pipeline.planning.multi_pattern.costs import check_model
from cep_pipeline.planning.trees import (
    Join,
    OrderOrTree,
    PositionTree,
    as_tree,
    left_deep,
    named_tree,
    positions_of,
    tree_of_positions,
)

MAX_VARIABLES = 16
"""Budget: members with more variables are planned by themselves, before the search."""

MAX_ITEMS = 8
"""Most given parts and other variables over which a plan is the cheapest one; more are put together greedily."""
MOST_PLANS = 1 << 13
"""Plans of one member that are remembered; then they are forgotten, all together."""
LARGEST_COST = math.exp(340.0)
"""Costs are numbers beside the dearest node that no plan avoids; above this they are not told apart."""


@lru_cache(1 << 16)
def variables_of(tree: PositionTree) -> int:
    """The variables of a tree as a set."""
    return mask_of(positions_of(tree))


def plan_of_places(plan: OrderOrTree | str, names: Sequence[str]) -> PositionTree:
    """The tree of a member over the places of its variables; of an order the left-deep one."""
    return tree_of_positions(plan if isinstance(plan, str | Join) else as_tree(plan), names)


def named_plan(plan: PositionTree, names: Sequence[str], *, trees: bool) -> OrderOrTree | str:
    """The tree, or the order of its leaves, over variables."""
    return named_tree(plan, names) if trees else tuple(names[place] for place in positions_of(plan))


class JoinCosts(NamedTuple):
    """The costs of sets of variables by their bits, as in `CostModel`.

    Attributes
    ----------
    nodes
        The cost of a set's partial matches.
    pairs, products
        Of the candidates of a join of L and R in S: `pairs[S] products[L] products[R]`. The empty set's product is 0.

    Examples
    --------
    >>> tables = [0.0, 2.0, 3.0, 1.0], [0.0, 0.0, 0.0, 8.0], [0.0, 1.0, 0.5, 0.25]
    >>> costs = JoinCosts(*tables)
    >>> costs.joined(0b11, 0b01), costs.joined(0b01, 0b01)
    (5.0, 2.0)
    """

    nodes: list[float]
    pairs: list[float]
    products: list[float]

    def joined(self, inside: int, side: int) -> float:
        """The cost of joining a set of one side and the rest, without the costs of these.

        A set that is its own side is joined of nothing.
        """
        candidates = self.pairs[inside] * self.products[side] * self.products[inside ^ side]
        return self.nodes[inside] + candidates


@dataclass(eq=False)
class LocalPlans:
    """The cheapest trees of one member, or its cheapest orders as left-deep trees; each is found once.

    Attributes
    ----------
    statistics
        The numbers of its clause: at most `MAX_VARIABLES` variables.
    model
        One of `SHARED_COSTS`.
    trees
        Whether all trees are looked at, not the left-deep ones that are orders.

    Raises
    ------
    PlanError
        The clause has more variables.

    Examples
    --------
    >>> statistics = ClauseStatistics(("a", "b", "c"), (3.0, 2.0, 1.0))
    >>> LocalPlans(statistics).cheapest([(0, 2)]), LocalPlans(statistics, trees=False).cheapest([0])
    (((0, 2), 1), ((0, 2), 1))
    """

    statistics: ClauseStatistics
    model: CostModel = THROUGHPUT
    trees: bool = True
    _plans: dict[tuple[object, ...], PositionTree] = field(default_factory=dict, init=False, repr=False)

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
        return JoinCosts(nodes.tolist(), pairs.tolist(), products.tolist())

    def cheapest(self, given: Sequence[PositionTree] = (), members: int | None = None) -> PositionTree:
        """The cheapest tree of a set (None: of all variables) that contains some trees, or order that begins so.

        Of more than `MAX_ITEMS` given trees and other variables the two that are cheapest together are joined first,
        and so on; an order goes on with the cheapest next variable.
        """
        known = tuple(given), members
        if known not in self._plans:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            inside = (1 << self.size) - 1 if members is None else members
            covered = [variables_of(part) for part in given]
            if sum(covered).bit_count() < sum(part.bit_count() for part in covered):
                raise ValueError(f"the subtrees {tuple(given)} have a variable in common")
            free = [place for place in range(self.size) if (inside & ~sum(covered)) >> place & 1]
            if len(free) <= MAX_ITEMS or given or members is not None:
                self._plans[known] = self._over([*given, *free], begun=bool(given))
            elif self.trees:
                self._plans[known] = dp_bushy_tree(self.statistics, self.model).tree
            else:
                self._plans[known] = left_deep(dp_left_deep_order(self.statistics, self.model).order)
        return self._plans[known]

    def _over(self, items: list[PositionTree], *, begun: bool) -> PositionTree:
        """The cheapest tree over some trees, by dynamic programming over the sets of them: O(3^n).

        Of an order the last one that is joined is one variable, O(n 2^n); where it has `begun`, the first one of the
        items is its beginning, which costs nothing more.
        """
        costs, trees = self._costs, self.trees
        while len(items) > MAX_ITEMS:
            pairs = combinations(items, 2) if trees else ((items[0], item) for item in items[1:])
            joined = min(pairs, key=lambda pair: costs.joined(variables_of(pair), variables_of(pair[0])))
            items, begun = [joined, *(item for item in items if item not in joined)], True
        sets = 1 << len(items)
        unions, best, plans = [0] * sets, [0.0] * sets, [cast(PositionTree, 0)] * sets
        for some in range(1, sets):
            low = some & -some
            rest = some ^ low
            if not rest:
                plans[some] = items[low.bit_length() - 1]
                unions[some] = variables_of(plans[some])
                if not trees:
                    best[some] = (0.0 if some == 1 else math.inf) if begun else costs.nodes[unions[some]]
                continue
            unions[some] = inside = unions[low] | unions[rest]
            least, chosen, pair = math.inf, low, costs.pairs[inside]
            remaining = rest if trees else some
            while remaining:
                side = remaining if trees else remaining & -remaining
                remaining = (side - 1) & rest if trees else remaining ^ side
                other = some ^ side
                below = best[other] + pair * costs.products[unions[side]] * costs.products[unions[other]]
                if trees:
                    below += best[side]
                if below < least:
                    least, chosen = below, side
            best[some] = least + costs.nodes[inside]
            plans[some] = plans[some ^ chosen], plans[chosen]
        return plans[-1]

    @cached_property
    def _costs(self) -> JoinCosts:
        return self.costs(self.ln_least)
