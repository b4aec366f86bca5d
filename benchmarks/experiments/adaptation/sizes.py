"""The extents of `cep experiment adaptation`, its cases, and the decision functions that it compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cep_pipeline.adaptation.decisions import (
    ConstantThreshold,
    DecisionFunction,
    InvariantBased,
    Static,
    Unconditional,
)
from cep_pipeline.adaptation.distance import AverageRelativeDifference, Fixed, MetaAdaptive

DAYS, DEAR, DISCREPANCY, FREQUENCY = "days", "dear planners", "discrepancy", "frequency"
PARTS = (DAYS, DEAR, DISCREPANCY, FREQUENCY)
STATIC, UNCONDITIONAL, AVERAGE, META = "static", "unconditional", "average", "meta"
FREE, PRICED = "no price", "a price"
"""A switch for any gain, as in the patent; and one that pays for its price, the product's default."""


@dataclass(frozen=True)
class DaysCase:
    """A set of patterns, planned by a planner, over so many days beside the first one."""

    planner: str
    patterns: int
    days: int


@dataclass(frozen=True)
class DearCase:
    """One pattern of so many events, or a set of so many patterns, over so many jobs of so many events."""

    planner: str
    size: int
    jobs: int
    events: int


@dataclass(frozen=True)
class Sizes:
    """The extent of what is measured.

    Attributes
    ----------
    repetitions
        Of each cell, with other draws.
    thresholds, distances
        What is tried of t, and of d: as many.
    days, dear
        Cases of the first two parts.
    stretches, stretch_s
        Jobs of the third part, and seconds of each.
    frequencies
        Decisions a window in the last part, each with the number of windows.
    few
        What is tried of t, and of d, where there are many decisions a window.
    """

    repetitions: int
    thresholds: tuple[float, ...]
    distances: tuple[float, ...]
    days: tuple[DaysCase, ...]
    dear: tuple[DearCase, ...]
    stretches: int
    stretch_s: int
    frequencies: tuple[tuple[int, int], ...]
    few: tuple[tuple[float, ...], tuple[float, ...]]

    def __post_init__(self) -> None:
        if any(len(of_t) != len(of_d) for of_t, of_d in ((self.thresholds, self.distances), self.few)):
            raise ValueError("as many distances as thresholds are tried")
        if not set(self.few[0]) <= set(self.thresholds) or not set(self.few[1]) <= set(self.distances):
            raise ValueError("the few parameters of the last part are among those of the others")


OWN, TOGETHER = "dp_left_deep", "simulated_annealing"
_DEAR = tuple(DearCase(planner, size, 20, 4_000) for planner in (OWN, "dp_bushy") for size in (9, 12))
SMALL = Sizes(
    5,
    (0.1, 0.3, 1.0, 3.0),
    (0.0, 0.1, 0.3, 1.0),
    (DaysCase(OWN, 100, 5), DaysCase(TOGETHER, 100, 4)),
    (*_DEAR, DearCase(TOGETHER, 40, 8, 4_000)),
    36,
    600,
    ((16, 4), (64, 2)),
    ((0.3, 1.0), (0.0, 0.3)),
)
FULL = Sizes(
    5,
    SMALL.thresholds,
    SMALL.distances,
    tuple(DaysCase(of, many, days) for of in (OWN, TOGETHER) for many, days in ((100, 7), (300, 7), (1_000, 4))),
    (*_DEAR, *(DearCase(TOGETHER, patterns, 16, 4_000) for patterns in (40, 100, 300))),
    72,
    600,
    ((4, 16), (16, 16), (64, 16)),
    SMALL.few,
)


def threshold_name(threshold: float) -> str:
    """The name of a decision function by a constant threshold."""
    return f"t={threshold:g}"


def distance_name(distance: float) -> str:
    """The name of one by invariants with a minimal distance."""
    return f"d={distance:g}"


def decisions_of(
    thresholds: Sequence[float], distances: Sequence[float], *, rules: bool = False
) -> dict[str, DecisionFunction]:
    """The decision functions that are compared; with `rules` also distances that nobody has to try."""
    return {
        STATIC: Static(),
        UNCONDITIONAL: Unconditional(),
        **{threshold_name(t): ConstantThreshold(t) for t in thresholds},
        **{distance_name(d): InvariantBased(distance=Fixed(d)) for d in distances},
        **(
            {
                AVERAGE: InvariantBased(distance=AverageRelativeDifference()),
                META: InvariantBased(distance=MetaAdaptive()),
            }
            if rules
            else {}
        ),
    }
