"""The result of a planner: an order or a tree of positions, and the comparisons that decided it.

Both sides of a comparison of orders or trees bind the same variables. The costs that all plans over them share (of the
step that completes the set, of the leaves and of the root of a tree) are left out of their measures, so that
comparisons do not drown in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from cep_pipeline.planning.clause_statistics import ClauseStatistics, ln_sum
from cep_pipeline.planning.costs import Array, CostModel, SetTerm
from cep_pipeline.planning.trees import (
    Join,
    OrderOrTree,
    PositionTree,
    Side,
    named_join,
    positions_of,
    tree_of_positions,
)

MEASURES = {
    "instances": "expected instances in a window",
    "step": "cost of the step",
    "cost": "cost before the step",
    "tree": "cost below the join",
}
"""The kinds of sides of a comparison: numbers of the last variable; of the set of all; of the order without its last
variable; of a tree without its leaves and its root. Where both sides bind the same set, what they have in common (the
last step, the leaves and the root) is left out."""

GRAIN = 1e-9
"""Costs whose logarithms fall into one cell of this width are equal: planners take sums in different ways, and
rounding shall decide neither a tie nor whether a comparison still holds."""


def grains(logarithm: float) -> int:
    """The cell of a cost by its natural logarithm; planners and invariants compare costs by their cells.

    The logarithm of a cost of nothing is minus infinity, and lies below all others.

    Examples
    --------
    >>> grains(0.1 + 0.2) == grains(0.3), grains(0.3) < grains(0.3 + 1e-8), grains(-math.inf) < grains(-700)
    (True, True, True)
    """
    if math.isinf(logarithm):
        return int(math.copysign(_BEYOND, logarithm))
    return round(logarithm / GRAIN)


_BEYOND = 10**30
"""The cell of infinity; no finite cost comes near it."""


@dataclass(frozen=True, slots=True)
class DecidingComparison:
    """A block-building comparison that put a block in its place (acep-invariants patent, section 4).

    In an order the block is "variable `chosen[-1]` at step `step`", in a tree it is a join. It stands because the
    measure of `chosen` was not above that of `rejected`, another way to build the block.

    Attributes
    ----------
    step
        Place in the order from 0; of a join, its place among the tree's joins from the leaves up (`joins_of`).
    measure
        A key of `MEASURES`.
    chosen, rejected
        Beginnings of orders, as positions; for measure `tree` trees of positions over the same variables.
    ln_chosen, ln_rejected
        Natural logarithms of both sides when the plan was made.
    wins_ties
        Whether the chosen side is also taken where both sides are equal.
    """

    step: int
    measure: str
    chosen: Side
    rejected: Side
    ln_chosen: float
    ln_rejected: float
    wins_ties: bool = True

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise ValueError(f"{self.measure!r} is no measure; they are {', '.join(MEASURES)}")
        if not (math.isfinite(self.ln_chosen) and math.isfinite(self.ln_rejected)):
            raise ValueError("both sides of a comparison are finite logarithms")
        if not self.holds(self.ln_chosen, self.ln_rejected):
            raise ValueError("the chosen side of a comparison is not the larger one")

    def holds(self, ln_chosen: float, ln_rejected: float) -> bool:
        """True if the planner would choose the same side where the two sides measure this much."""
        chosen, rejected = grains(ln_chosen), grains(ln_rejected)
        return chosen < rejected or (chosen == rejected and self.wins_ties)


@dataclass(frozen=True, slots=True)
class Ordering:
    """An order of all positions, why it is this one, and what a person should know of how it was found."""

    order: tuple[int, ...]
    comparisons: tuple[DecidingComparison, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.order))):
            raise ValueError(f"{self.order} is no order of all positions")


@dataclass(frozen=True, slots=True)
class TreeOrdering:
    """A tree over all positions, why it is this one, and what a person should know of how it was found."""

    tree: PositionTree
    comparisons: tuple[DecidingComparison, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.order))):
            raise ValueError(f"{self.tree} is no tree over all positions")

    @property
    def order(self) -> tuple[int, ...]:
        """The leaves from left to right."""
        return positions_of(self.tree)


def ordering_over(
    order_or_tree: OrderOrTree | str, names: Sequence[str], comparisons: tuple[DecidingComparison, ...] = ()
) -> Ordering | TreeOrdering:
    """An order or a tree of variables over the places that they have among some names."""
    if isinstance(order_or_tree, Join):
        return TreeOrdering(tree_of_positions(order_or_tree, names), comparisons)
    order = (order_or_tree,) if isinstance(order_or_tree, str) else order_or_tree
    return Ordering(tuple(map(names.index, order)), comparisons)


def named_over(found: Ordering | TreeOrdering, names: Sequence[str]) -> OrderOrTree:
    """The order or tree of variables that an order or tree of places stands for; of one variable an order."""
    if isinstance(found, TreeOrdering) and not isinstance(found.tree, int):
        return named_join(found.tree, names)
    return tuple(names[position] for position in found.order)


def named(tree: Side, names: Sequence[str]) -> str:
    """A tree of positions as people read it.

    Examples
    --------
    >>> named(((2, 0), 1), "abc")
    '((c, a), b)'
    """
    return names[tree] if isinstance(tree, int) else f"({', '.join(named(part, names) for part in tree)})"


def joins_of(tree: PositionTree) -> Iterator[tuple[PositionTree, PositionTree]]:
    """The joins of a tree of positions, each after those below it.

    Examples
    --------
    >>> list(joins_of(((0, 1), (2, 3))))
    [(0, 1), (2, 3), ((0, 1), (2, 3))]
    """
    if isinstance(tree, int):
        return
    yield from joins_of(tree[0])
    yield from joins_of(tree[1])
    yield tree


def tightest_of_blocks(comparisons: Iterable[DecidingComparison], k: int | None = 1) -> list[DecidingComparison]:
    """The k comparisons of each block that were closest to coming out otherwise (None: all), the closest ones first.

    The blocks are in the order in which they were decided. All comparisons of a block have their chosen side in common.
    """
    blocks: dict[tuple[str, int], list[DecidingComparison]] = {}
    for comparison in comparisons:
        blocks.setdefault((comparison.measure, comparison.step), []).append(comparison)
    return [one for block in blocks.values() for one in sorted(block, key=_margin)[:k]]


def _margin(comparison: DecidingComparison) -> tuple[float, bool]:
    return comparison.ln_rejected - comparison.ln_chosen, comparison.wins_ties


NOTHING = SetTerm(lambda statistics, positions: -math.inf, lambda statistics, members: np.full(len(members), -np.inf))
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


def ln_before(cost: CostModel, statistics: ClauseStatistics, beginning: Sequence[int]) -> float:
    """ln of the cost of the beginning of an order without what completing its set costs in any order."""
    own = replace(cost, node=NOTHING).ln_step(statistics, beginning)
    return ln_sum((ln_order_cost(cost, statistics, beginning[:-1]), own))


def ln_below(cost: CostModel, statistics: ClauseStatistics, tree: PositionTree) -> float:
    """ln of the cost of a tree without its leaves, and without what its root costs with any two sides."""
    if isinstance(tree, int):
        return -math.inf
    if cost.runs_orders:
        return ln_before(cost, statistics, positions_of(tree))
    # Most subtrees of compared trees are the same: what their joins cost is kept.
    known = statistics.derived(("joins", cost), dict[PositionTree, tuple[float, ...]])
    own = statistics.derived(("own joins", cost), dict[PositionTree, float])

    def below(side: PositionTree) -> tuple[float, ...]:
        """ln of what each join of a tree costs."""
        if isinstance(side, int):
            return ()
        if side not in known:
            known[side] = (*below(side[0]), *below(side[1]), cost.ln_join(statistics, *side))
        return known[side]

    if tree not in own:
        own[tree] = replace(cost, node=NOTHING).ln_join(statistics, *tree)
    return ln_sum((own[tree], *below(tree[0]), *below(tree[1])))


@dataclass(frozen=True, slots=True)
class Way:
    """One way to build a block: the order or tree up to it, ln of what it measures, and its rank among equal ones."""

    side: Side
    ln_measure: float
    rank: tuple[int, ...]


WaysOf = Callable[[PositionTree], list[Way]]
"""Ways to build a join of a tree, the chosen one among them: those that a search knows."""


def comparisons_of_block(
    step: int,
    measure: str,
    chosen: Side,
    ways: Iterable[Way],
    statistics: ClauseStatistics,
    cost: CostModel,
) -> Iterator[DecidingComparison]:
    """The comparisons that decided a block, the tightest ones first, `MOST_COMPARISONS` at most.

    `chosen` is the side of one of the ways; where it is not, nothing that is known decided the block. Where a side is
    listed twice, it measures the less of both.
    """
    by_side = {way.side: way for way in sorted(ways, key=lambda way: -way.ln_measure)}
    own = by_side.pop(chosen, None)
    if own is None:
        return
    for way in sorted(by_side.values(), key=lambda way: (way.ln_measure, way.rank))[:MOST_COMPARISONS]:
        wins_ties = own.rank < way.rank
        sides = own.ln_measure, way.ln_measure
        if abs(sides[0] - sides[1]) < CLOSE:
            # Ways are known by the cheapest plans of their parts; where those had equals, others of them were taken.
            sides = ln_measure(measure, chosen, statistics, cost), ln_measure(measure, way.side, statistics, cost)
        # What differs by less than a grain, or by nothing beside the cost of the plan, decided nothing.
        if grains(sides[0]) < grains(sides[1]) + wins_ties:
            yield DecidingComparison(step, measure, chosen, way.side, *sides, wins_ties)


def tree_comparisons(
    tree: PositionTree, ways_of: WaysOf, statistics: ClauseStatistics, cost: CostModel
) -> tuple[DecidingComparison, ...]:
    """The comparisons that decided a tree: of each join, from the leaves up, the tightest ones."""
    comparisons: list[DecidingComparison] = []
    for step, join in enumerate(joins_of(tree)):
        if len(positions_of(join)) > 2:
            comparisons += comparisons_of_block(step, "tree", join, ways_of(join), statistics, cost)
    return tuple(comparisons)


def ln_order_cost(model: CostModel, statistics: ClauseStatistics, order: Sequence[int]) -> float:
    """Natural logarithm of the cost of an order, or of the beginning of one."""
    return ln_sum(model.ln_step(statistics, order[:length]) for length in range(1, len(order) + 1))


def ln_tree_cost(model: CostModel, statistics: ClauseStatistics, tree: PositionTree) -> float:
    """Natural logarithm of the cost of a tree, or of a part of one."""
    if model.runs_orders:
        return ln_order_cost(model, statistics, positions_of(tree))
    terms = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, int):
            terms.append(model.node.one(statistics, [node]))
        else:
            terms.append(model.ln_join(statistics, *node))
            waiting += node
    return ln_sum(terms)


def ln_costs(
    model: CostModel, statistics: ClauseStatistics, found: Ordering | TreeOrdering
) -> tuple[float, float | None]:
    """ln of the cost of an order or a tree, and of the weighed share of it that is latency (None: there is none)."""
    if isinstance(found, TreeOrdering):
        return ln_tree_cost(model, statistics, found.tree), ln_tree_delay(model, statistics, found.tree)
    return ln_order_cost(model, statistics, found.order), ln_order_delay(model, statistics, found.order)


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
    if model.runs_orders:
        return ln_order_delay(model, statistics, positions_of(tree))
    waiting = []
    while not isinstance(tree, int):
        left, right = tree
        inside = statistics.last_variable in positions_of(left)
        waiting.append(model.ln_join_delay(statistics, left, right))
        tree = left if inside else right
    return _finite(ln_sum(waiting))


def _finite(logarithm: float) -> float | None:
    return logarithm if logarithm > -math.inf else None


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
        late = cost.late_of(statistics)
        if late is not None:
            sets = whole[joins], earlier[joins], alone[joins]
            passing = late.passing.of(statistics, sets[1]) + late.passing.of(statistics, sets[2])
            within = [late.within(statistics, members) for members in sets]
            with np.errstate(divide="ignore"):
                ln_new = np.log(within[0] - within[1] - within[2])
            tests = np.logaddexp(tests, late.tuples.of(statistics, sets[0]) + passing + ln_new)
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
