"""What a planner returns: an order or a tree of positions, and the comparisons that decided it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.trees import PositionTree

Side: TypeAlias = "tuple[int, ...] | PositionTree"
"""One side of a comparison: the beginning of an order, or for measure `tree` a tree."""

MEASURES = {
    "instances": "expected instances in a window",
    "step": "cost of the step",
    "cost": "cost before the step",
    "tree": "cost below the join",
}
"""What the two sides of a comparison can be: of the last variable; of the set of all; of the order without its last
variable; of a tree without its leaves and its root. Where both sides bind the same set, what they have in common (the
last step, the leaves and the root) is left out."""

GRAIN = 1e-9
"""Costs whose logarithms fall into one cell of this width are equal: planners take sums in different ways, and
rounding shall decide neither a tie nor whether a comparison still holds."""


def grains(logarithm: float) -> int:
    """The cell of a cost by its natural logarithm; planners and invariants compare costs by their cells.

    Examples
    --------
    >>> grains(0.1 + 0.2) == grains(0.3), grains(0.3) < grains(0.3 + 1e-8)
    (True, True)
    """
    return round(logarithm / GRAIN)


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
        """Whether the planner would choose the same side where the two sides measure this much."""
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


Planner = Callable[[ClauseStatistics, CostModel], Ordering | TreeOrdering]


def positions_of(side: Side) -> tuple[int, ...]:
    """The leaves of a tree of positions from left to right; an order as it is."""
    return (side,) if isinstance(side, int) else tuple(position for part in side for position in positions_of(part))


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


def left_deep(order: tuple[int, ...]) -> PositionTree:
    """The tree that joins one variable of an order after the other.

    Examples
    --------
    >>> left_deep((2, 0, 1))
    ((2, 0), 1)
    """
    tree: PositionTree = order[0]
    for position in order[1:]:
        tree = (tree, position)
    return tree


def tightest_of_blocks(comparisons: Iterable[DecidingComparison], k: int | None = 1) -> list[DecidingComparison]:
    """Of each block the k comparisons that were closest to coming out otherwise (None: all), the closest ones first.

    The blocks are in the order in which they were decided. All comparisons of a block have their chosen side in common.
    """
    blocks: dict[tuple[str, int], list[DecidingComparison]] = {}
    for comparison in comparisons:
        blocks.setdefault((comparison.measure, comparison.step), []).append(comparison)
    return [one for block in blocks.values() for one in sorted(block, key=_margin)[:k]]


def _margin(comparison: DecidingComparison) -> tuple[float, bool]:
    return comparison.ln_rejected - comparison.ln_chosen, comparison.wins_ties


def comparison_to_json(comparison: DecidingComparison) -> dict[str, Any]:
    """A comparison as JSON values; orders and trees as nested lists."""
    return {
        "step": comparison.step,
        "measure": comparison.measure,
        "chosen": _lists(comparison.chosen),
        "rejected": _lists(comparison.rejected),
        "ln_chosen": comparison.ln_chosen,
        "ln_rejected": comparison.ln_rejected,
        "wins_ties": comparison.wins_ties,
    }


def comparison_from_json(content: Mapping[str, Any]) -> DecidingComparison:
    """Read what `comparison_to_json` wrote; KeyError, TypeError or ValueError where it is none."""
    sides = {"chosen": _tuples(content["chosen"]), "rejected": _tuples(content["rejected"])}
    return DecidingComparison(**{**content, **sides})


def side_text(side: Side) -> str:
    """One side of a comparison as JSON.

    Examples
    --------
    >>> side_text((2, (0, 1)))
    '[2, [0, 1]]'
    """
    return str(side) if isinstance(side, int) else f"[{', '.join(map(side_text, side))}]"


def _lists(side: Side) -> Any:
    return side if isinstance(side, int) else [_lists(part) for part in side]


def _tuples(content: Any) -> Any:
    return content if isinstance(content, int) else tuple(_tuples(part) for part in content)
