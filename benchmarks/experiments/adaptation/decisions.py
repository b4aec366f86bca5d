"""The decision functions that `cep experiment adaptation` compares, and what it sees of a loop by one of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.experiments.adaptation.sizes import (
    AVERAGE,
    META,
    OTHER_K,
    STATIC,
    UNCONDITIONAL,
    Contender,
    Sizes,
    distance_name,
    threshold_name,
)
from cep_pipeline.adaptation import Distances
from cep_pipeline.adaptation.decisions import (
    ConstantThreshold,
    DecisionFunction,
    DecisionState,
    InvariantBased,
    Static,
    Unconditional,
    Verdict,
)
from cep_pipeline.adaptation.distance import (
    AverageRelativeDifference,
    Fixed,
    MetaAdaptive,
    average_relative_difference,
)
from cep_pipeline.adaptation.invariants import Invariant
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics import StatisticsSnapshot

TOO_EARLY = "the statistics do not reach back as far as they are to"


@dataclass
class NotedAverage:
    """The average relative difference, noted as it is found.

    Attributes
    ----------
    found, of_all
        That of the first plan's tightest comparisons, and that of all.
    """

    found: float = 0.0
    of_all: float = 0.0

    def begin(self, plan: Plan) -> Distances:
        distances = AverageRelativeDifference().begin(plan)
        clauses = [clause for pattern in plan.patterns for clause in pattern.clauses]
        self.of_all = average_relative_difference(one for clause in clauses for one in clause.comparisons)
        self.found = distances.everywhere
        return distances

    def after_replanning(self, distances: Distances, violated: Iterable[Invariant], gain: float) -> Distances:
        return distances


@dataclass(frozen=True)
class Later(DecisionFunction):
    """Decides as another one does, but not before the statistics are those of so many intervals as later ones are.

    Attributes
    ----------
    from_us
        The last instant without a decision.
    """

    decided_by: DecisionFunction
    from_us: int

    def begin(self, plan: Plan, *others: Any, **settings: Any) -> DecisionState:
        return self.decided_by.begin(plan, *others, **settings)

    def decide(self, state: DecisionState, snapshot: StatisticsSnapshot) -> Verdict:
        if snapshot.end_us is None or snapshot.end_us <= self.from_us:
            return Verdict(False, TOO_EARLY)
        return self.decided_by.decide(state, snapshot)

    def prepare(self, planners: Collection[str]) -> None:
        self.decided_by.prepare(planners)

    def replanned(self, state: DecisionState, *others: Any, **settings: Any) -> DecisionState:
        return self.decided_by.replanned(state, *others, **settings)


def decisions_of(
    contender: Contender, sizes: Sizes, average: NotedAverage, from_us: int
) -> dict[str, DecisionFunction]:
    """The four decision functions that are compared, with all that is tried of t and d."""
    decisions: dict[str, DecisionFunction] = {
        UNCONDITIONAL: Unconditional(),
        **{threshold_name(t): ConstantThreshold(t) for t in sizes.thresholds},
        **{distance_name(d): InvariantBased(contender.k, Fixed(d)) for d in sizes.distances},
        AVERAGE: InvariantBased(contender.k, average),
        META: InvariantBased(contender.k, MetaAdaptive()),
        OTHER_K: InvariantBased(contender.other_k),
    }
    return {STATIC: Static(), **{name: Later(decision, from_us) for name, decision in decisions.items()}}


@dataclass(eq=False)
class Watching(DecisionFunction):
    """Plans again always, and notes what was planned from what."""

    snapshots: list[StatisticsSnapshot] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)

    def begin(
        self, plan: Plan, patterns: Sequence[Pattern], snapshot: StatisticsSnapshot | None = None, **others: Any
    ) -> DecisionState:
        assert snapshot is not None, "the loop plans from statistics"
        self.snapshots.append(snapshot)
        self.plans.append(plan)
        return super().begin(plan, patterns, snapshot, **others)

    def decide(self, state: DecisionState, snapshot: StatisticsSnapshot) -> Verdict:
        self.snapshots.append(snapshot)
        return Verdict(True, "all is looked at")

    def replanned(
        self, state: DecisionState, verdict: Verdict, plan: Plan, snapshot: StatisticsSnapshot, *, gain: float
    ) -> DecisionState:
        self.plans.append(plan)
        return super().replanned(state, verdict, plan, snapshot, gain=gain)
