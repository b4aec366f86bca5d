"""What the two sides of a deciding comparison measure, when the plan is made and on later statistics.

Both sides of a comparison of orders or trees bind the same variables. What all plans over them share (the step that
completes the set, the leaves and the root of a tree) is left out, so that comparisons do not drown in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

import numpy as np

from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import CostModel, SetTerm, is_linear, ln_order_cost
from cep_pipeline.planning.logarithms import ln_sum
from cep_pipeline.planning.ordering import GRAIN, DecidingComparison, Side, grains, joins_of, positions_of
from cep_pipeline.planning.trees import PositionTree

NOTHING = SetTerm(lambda statistics, positions: -math.inf, lambda statistics: np.full(1 << statistics.size, -np.inf))
"""A term that costs nothing."""
CLOSE = 100 * GRAIN
"""Two sides that are closer than this are measured anew: equal parts may have added up to some grains."""
MOST_COMPARISONS = 24
"""Comparisons that are kept of each join of a tree, the tightest ones: all of them up to 24 splits."""


def ln_measure(measure: str, side: Side, statistics: ClauseStatistics, cost: CostModel) -> float:
    """Natural logarithm of one side of a comparison, by a key of `MEASURES`."""
    if measure == "tree":
        return ln_below(cost, statistics, cast(PositionTree, side))
    order = cast(tuple[int, ...], side)
    if measure == "instances":
        return statistics.ln_instances[order[-1]]
    return cost.ln_step(statistics, order) if measure == "step" else ln_before(cost, statistics, order)


def holds_on(comparison: DecidingComparison, statistics: ClauseStatistics, cost: CostModel) -> bool:
    """Whether the planner would still choose the same side, on these statistics."""
    return comparison.holds(
        ln_measure(comparison.measure, comparison.chosen, statistics, cost),
        ln_measure(comparison.measure, comparison.rejected, statistics, cost),
    )


def ln_before(cost: CostModel, statistics: ClauseStatistics, beginning: Sequence[int]) -> float:
    """ln of the cost of the beginning of an order without what completing its set costs in any order."""
    own = replace(cost, node=NOTHING).ln_step(statistics, beginning)
    return ln_sum((ln_order_cost(cost, statistics, beginning[:-1]), own))


def ln_below(cost: CostModel, statistics: ClauseStatistics, tree: PositionTree) -> float:
    """ln of the cost of a tree without its leaves, and without what its root costs with any two sides."""
    if isinstance(tree, int):
        return -math.inf
    costs = next((known for known in statistics.joins if known.cost is cost), None)
    if costs is None:
        costs = JoinCosts(cost, replace(cost, node=NOTHING))
        statistics.joins.append(costs)
    return ln_sum(
        (costs.own_of(statistics, tree), *costs.below(statistics, tree[0]), *costs.below(statistics, tree[1]))
    )


@dataclass(frozen=True, slots=True, eq=False)
class JoinCosts:
    """What a cost model charges for the joins of trees that are compared: most of their subtrees are the same.

    Attributes
    ----------
    cost, without_node
        The model, and what it charges beside what the node of a join costs.
    known
        Tree -> ln of what each of its joins costs.
    own
        Tree -> ln of what its last join costs beside what its node costs.
    """

    cost: CostModel
    without_node: CostModel
    known: dict[PositionTree, tuple[float, ...]] = field(default_factory=dict)
    own: dict[PositionTree, float] = field(default_factory=dict)

    def own_of(self, statistics: ClauseStatistics, tree: tuple[PositionTree, PositionTree]) -> float:
        """ln of what the last join of a tree costs beside what its node costs with any two sides."""
        found = self.own.get(tree)
        if found is None:
            found = self.own[tree] = self.without_node.ln_join(statistics, *tree)
        return found

    def below(self, statistics: ClauseStatistics, tree: PositionTree) -> tuple[float, ...]:
        """ln of what each join of a tree costs."""
        if isinstance(tree, int):
            return ()
        found = self.known.get(tree)
        if found is None:
            inner = self.below(statistics, tree[0]) + self.below(statistics, tree[1])
            found = self.known[tree] = (*inner, self.cost.ln_join(statistics, *tree))
        return found


def ln_joins(cost: CostModel, statistics: ClauseStatistics, tree: PositionTree) -> float:
    """ln of the cost of a tree without its leaves, which all trees share."""
    return ln_sum(cost.ln_join(statistics, *join) for join in joins_of(tree))


@dataclass(frozen=True, slots=True)
class Way:
    """One way to build a block: the order or tree up to it, ln of what it measures, and its rank among equal ones."""

    side: Side
    ln_measure: float
    rank: tuple[int, ...]


class TreesOfSets(Protocol):
    """A search that knows, for each join of its tree, the other ways that it was chosen over."""

    def ways(self, tree: PositionTree, *, linear: bool) -> list[Way]:
        """Ways to build a join, the chosen one among them; `linear`: where only linear trees were looked at."""
        ...


def comparisons_of_block(
    step: int,
    measure: str,
    chosen: Side,
    ways: Iterable[Way],
    statistics: ClauseStatistics,
    cost: CostModel,
    most: int = MOST_COMPARISONS,
) -> Iterator[DecidingComparison]:
    """The comparisons that decided a block, the tightest ones first, `most` of them.

    `chosen` is the side of one of the ways; where it is not, nothing that is known decided the block. Where a side is
    listed twice, it measures the less of both.
    """
    by_side = {way.side: way for way in sorted(ways, key=lambda way: -way.ln_measure)}
    own = by_side.pop(chosen, None)
    if own is None:
        return
    for way in sorted(by_side.values(), key=lambda way: (way.ln_measure, way.rank))[:most]:
        wins_ties = own.rank < way.rank
        sides = own.ln_measure, way.ln_measure
        if abs(sides[0] - sides[1]) < CLOSE:
            # Ways are known by the cheapest plans of their parts; where those had equals, others of them were taken.
            sides = ln_measure(measure, chosen, statistics, cost), ln_measure(measure, way.side, statistics, cost)
        # What differs by less than a grain, or by nothing beside the cost of the plan, decided nothing.
        if grains(sides[0]) < grains(sides[1]) + wins_ties:
            yield DecidingComparison(step, measure, chosen, way.side, *sides, wins_ties)


def tree_comparisons(
    tree: PositionTree,
    search: TreesOfSets,
    statistics: ClauseStatistics,
    cost: CostModel,
    most: int = MOST_COMPARISONS,
) -> tuple[DecidingComparison, ...]:
    """The comparisons that decided a tree: of each join, from the leaves up, the tightest ones, `most` of them."""
    # Where the cost model tells linear trees apart, some joins were chosen among those only.
    under_linear = set() if cost.held is None else sides_of_linear_joins(tree)
    comparisons: list[DecidingComparison] = []
    for step, join in enumerate(joins_of(tree)):
        if len(positions_of(join)) > 2:
            ways = search.ways(join, linear=join in under_linear)
            comparisons += comparisons_of_block(step, "tree", join, ways, statistics, cost, most)
    return tuple(comparisons)


def sides_of_linear_joins(tree: PositionTree) -> set[PositionTree]:
    """The joins that were chosen among linear trees only, as they are below a linear join."""
    return {side for join in joins_of(tree) if is_linear(join) for side in join if not isinstance(side, int)}
