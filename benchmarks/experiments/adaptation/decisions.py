"""The decision functions that `cep experiment adaptation` compares, by their names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cep_pipeline.adaptation.decisions import (
    DecisionFunction,
    DecisionState,
    InvariantBased,
    Static,
    Unconditional,
    Verdict,
)
from cep_pipeline.adaptation.distance import AverageRelativeDifference, Fixed, MetaAdaptive
from cep_pipeline.adaptation.thresholds import Deviation, describe_deviation, deviations
from cep_pipeline.statistics import StatisticsSnapshot

STATIC, UNCONDITIONAL, AVERAGE, META = "static", "unconditional", "average", "meta"
RELATIVE, ABSOLUTE, RATIO = "relative t", "absolute t", "ratio t"
DISTANCE = "d"
MEASURES: Mapping[str, Callable[[Deviation], float]] = {
    RELATIVE: lambda moved: moved.relative,
    ABSOLUTE: lambda moved: abs(moved.now - moved.before),
    RATIO: lambda moved: math.expm1(abs(math.log(moved.now / moved.before))),
}
"""How far a number has moved: as a share of what it was, in its own unit, and by its ratio, up or down, less 1."""
KINDS = (STATIC, UNCONDITIONAL, *MEASURES, DISTANCE, AVERAGE, META)


@dataclass(frozen=True, slots=True)
class Threshold(DecisionFunction):
    """Plan again when a number that the plan rests on has moved by `least` or more, in one of `MEASURES`."""

    measure: str
    least: float

    def decide(self, state: DecisionState, snapshot: StatisticsSnapshot) -> Verdict:
        for moved in deviations(state.before, state.questions, snapshot):
            if MEASURES[self.measure](moved) >= self.least:
                return Verdict(True, describe_deviation(moved), (moved,))
        return Verdict(False, f"no number has moved by {self.least:g} or more")


def named(kind: str, parameter: float) -> str:
    """The name of a decision function with a parameter."""
    return f"{kind}={parameter:g}"


def decisions_of(parameters: Sequence[float]) -> dict[str, DecisionFunction]:
    """The decision functions, each kind of threshold and the distances with these parameters; d = 0 is among them."""
    return {
        STATIC: Static(),
        UNCONDITIONAL: Unconditional(),
        **{named(of, t): Threshold(of, t) for of in MEASURES for t in parameters},
        **{named(DISTANCE, d): InvariantBased(distance=Fixed(d)) for d in (0.0, *parameters)},
        AVERAGE: InvariantBased(distance=AverageRelativeDifference()),
        META: InvariantBased(distance=MetaAdaptive()),
    }
