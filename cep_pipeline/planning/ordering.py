"""What a planner returns: an order, and the comparisons that decided it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import CostModel

MEASURES = {
    "instances": "expected instances in a window",
    "step": "cost of the step",
    "cost": "cost before the step",
}
"""What the two sides of a comparison can be: of the last variable, of the set of all, of the order without its last
(both sides complete the same set, so that the last step costs the same)."""


@dataclass(frozen=True, slots=True)
class DecidingComparison:
    """A block-building comparison that put a variable in its place (acep-invariants patent, section 4).

    The building block is "variable `chosen[-1]` at step `step`"; it stands because the measure of `chosen` was not
    above that of `rejected`, another beginning of the order.

    Attributes
    ----------
    step
        Place in the order, from 0.
    measure
        A key of `MEASURES`.
    chosen, rejected
        Positions; the measure depends on the last one, on their set, or on their order.
    ln_chosen, ln_rejected
        Natural logarithms of both sides when the plan was made.
    """

    step: int
    measure: str
    chosen: tuple[int, ...]
    rejected: tuple[int, ...]
    ln_chosen: float
    ln_rejected: float

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise ValueError(f"{self.measure!r} is no measure; they are {', '.join(MEASURES)}")
        if not (math.isfinite(self.ln_chosen) and math.isfinite(self.ln_rejected)):
            raise ValueError("both sides of a comparison are finite logarithms")
        if self.ln_chosen > self.ln_rejected:
            raise ValueError("the chosen side of a comparison is not the larger one")


@dataclass(frozen=True, slots=True)
class Ordering:
    """An order of all positions, why it is this one, and what a person should know of how it was found."""

    order: tuple[int, ...]
    comparisons: tuple[DecidingComparison, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.order))):
            raise ValueError(f"{self.order} is no order of all positions")


Planner = Callable[[ClauseStatistics, CostModel], Ordering]
