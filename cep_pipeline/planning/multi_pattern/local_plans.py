"""The local planner of the search (A of MCEP [0108]-[0109], [0123]-[0124]): the cheapest plan with given parts.

What a step or join costs depends on the set of variables that it completes, and, where candidates are counted, on the
two sides that it is joined of. So the cheapest way on from the beginning of an order does not depend on the order of
that, and a tree that contains given subtrees is one over these and the other variables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from cep_pipeline.errors import PlanError
from cep_pipeline.planning.algorithms.dynamic_programming import dp_bushy_tree, dp_left_deep_order
from cep_pipeline.planning.costs import THROUGHPUT, CostModel
from cep_pipeline.planning.costs.model import Array
from cep_pipeline.planning.multi_pattern.costs import check_model
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics, mask_of
from cep_pipeline.planning.orderings import TreeOrdering, positions_of
from cep_pipeline.planning.trees import (
    Join,
    OrderOrTree,
    PositionTree,
    as_tree,
    leaves_of,
    named_tree,
    placed,
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

PositionPlan: TypeAlias = "tuple[int, ...] | PositionTree"
"""The plan of a member over the places of its variables: an order, or a tree."""


@lru_cache(1 << 16)
def variables_of(plan: PositionPlan) -> int:
    """The variables of an order or a tree as a set."""
    return mask_of(positions_of(plan))


def plan_of_places(plan: OrderOrTree | str, names: Sequence[str], *, trees: bool) -> PositionPlan:
    """The order or tree of a member over the places of its variables."""
    if trees:
        return tree_of_positions(plan if isinstance(plan, str | Join) else as_tree(plan), names)
    return tuple(map(names.index, leaves_of(plan) if isinstance(plan, str | Join) else plan))


def named_plan(plan: PositionPlan, names: Sequence[str], *, trees: bool) -> OrderOrTree | str:
    """A plan over places as one over variables."""
    return named_tree(cast(PositionTree, plan), names) if trees else tuple(names[place] for place in positions_of(plan))


def mapped(plan: PositionPlan, places: Mapping[int, int], *, trees: bool) -> PositionPlan:
    """An order or a tree over other variables."""
    if trees:
        return placed(cast(PositionTree, plan), places)
    return tuple(places[place] for place in positions_of(plan))


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
    _plans: dict[tuple[object, ...], PositionPlan] = field(default_factory=dict, init=False, repr=False)

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

    def cheapest_order(self, prefix: Sequence[int] = ()) -> tuple[int, ...]:
        """The cheapest order that begins with some variables in this sequence, all by their places in pattern order."""
        return cast("tuple[int, ...]", self.cheapest((tuple(prefix),) if prefix else (), trees=False))

    def cheapest_tree(self, subtrees: Sequence[PositionTree] = ()) -> PositionTree:
        """The cheapest tree that contains some trees without a variable in common."""
        return cast(PositionTree, self.cheapest(subtrees, trees=True))

    def cheapest(self, given: Sequence[PositionPlan], members: int | None = None, *, trees: bool) -> PositionPlan:
        """The cheapest tree of a set (None: of all variables) that contains some trees, or order that begins so.

        Of more than `MAX_ITEMS` given trees and other variables the two that are cheapest together are joined first,
        and so on; an order goes on with the cheapest next variable.
        """
        known = tuple(given), members, trees
        if known not in self._plans:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            inside = (1 << self.size) - 1 if members is None else members
            covered = [variables_of(part) for part in given]
            if sum(covered).bit_count() < sum(part.bit_count() for part in covered):
                raise ValueError(f"the subtrees {tuple(given)} have a variable in common")
            free = [place for place in range(self.size) if (inside & ~sum(covered)) >> place & 1]
            if len(free) > MAX_ITEMS and not given and members is None:
                exact = (dp_bushy_tree if trees else dp_left_deep_order)(self.statistics, self.model)
                self._plans[known] = exact.tree if isinstance(exact, TreeOrdering) else exact.order
            elif trees:
                self._plans[known] = self._tree_over([*cast(Sequence[PositionTree], given), *free])
            else:
                self._plans[known] = self._order_from(cast("tuple[int, ...]", given[0]) if given else (), free)
        return self._plans[known]

    def _tree_over(self, items: list[PositionTree]) -> PositionTree:
        """The cheapest tree over some trees, by dynamic programming over the sets of them: O(3^n)."""
        costs = self._costs
        while len(items) > MAX_ITEMS:
            pairs = combinations(items, 2)
            joined = min(pairs, key=lambda pair: costs.joined(variables_of(pair), variables_of(pair[0])))
            items = [joined, *(item for item in items if item not in joined)]
        sets = 1 << len(items)
        unions, best, trees = [0] * sets, [0.0] * sets, [cast(PositionTree, 0)] * sets
        for some in range(1, 1 << len(items)):
            low = some & -some
            side = rest = some ^ low
            if not rest:
                trees[some] = items[low.bit_length() - 1]
                unions[some] = variables_of(trees[some])
                continue
            unions[some] = inside = unions[low] | unions[rest]
            least, pair = math.inf, costs.pairs[inside]
            while side:
                other = some ^ side
                below = best[side] + best[other]
                below += pair * costs.products[unions[side]] * costs.products[unions[other]]
                if below < least:
                    least, chosen = below, side
                side = (side - 1) & rest
            best[some] = least + costs.nodes[inside]
            trees[some] = trees[some ^ chosen], trees[chosen]
        return trees[-1]

    def _order_from(self, beginning: tuple[int, ...], free: list[int]) -> tuple[int, ...]:
        """The cheapest way on from the beginning of an order, by dynamic programming over what is bound: O(n 2^n)."""
        costs, bound = self._costs, variables_of(beginning)
        while len(free) > MAX_ITEMS:
            following = min(free, key=lambda place: costs.joined(bound | 1 << place, 1 << place))
            beginning, bound = (*beginning, following), bound | 1 << following
            free = [place for place in free if place != following]
        ways = {bound: (0.0, beginning)}
        for _ in free:
            longer: dict[int, tuple[float, tuple[int, ...]]] = {}
            for reached, (cost, order) in ways.items():
                for place in free:
                    if not reached >> place & 1:
                        inside = reached | 1 << place
                        way = cost + costs.joined(inside, 1 << place), (*order, place)
                        longer[inside] = min(longer.get(inside, way), way)
            ways = longer
        [(_, order)] = ways.values()
        return order

    @cached_property
    def _costs(self) -> JoinCosts:
        return self.costs(self.ln_least)
