"""What statistics say of the events that follow them: numbers of the next interval, and what plans save there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.decisions import DecisionFunction, DecisionState, Verdict
from cep_pipeline.adaptation.plan_quality import ln_cost_on
from cep_pipeline.adaptation.thresholds import numbers_now, questions_of
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics import StatisticsSnapshot

REACHES = (1, 2, 4, 8, 16)
"""Intervals whose numbers, in their mean, are taken for those of the next one."""


@dataclass(eq=False)
class _Watching(DecisionFunction):
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


@dataclass(frozen=True)
class Prediction:
    """How well the numbers of some intervals say those of the next one, over a stream.

    Attributes
    ----------
    error
        Of the last so many intervals -> by how much their mean misses a rate or selectivity of the next one: the
        factor, in the geometric mean.
    snapshots
        The statistics of each interval by itself.
    """

    error: dict[int, float]
    snapshots: Sequence[StatisticsSnapshot]

    @property
    def reach(self) -> int:
        """The number of intervals that misses by least."""
        return min(self.error, key=self.error.__getitem__)


def prediction(
    loop: AdaptiveDetection, pattern: Pattern, events: pa.Table, reaches: Sequence[int] = REACHES
) -> Prediction:
    """How well the numbers of intervals predict those of the next one.

    Parameters
    ----------
    loop
        With the planner and the interval; how far its statistics reach, and what it decides by, do not matter.
    reaches
        The numbers of intervals that are tried.
    """
    watching = _Watching()
    _run_unseen(replace(loop, window=loop.every, decision=watching), pattern, events)
    return Prediction(_errors(pattern, watching.snapshots, reaches), watching.snapshots)


def saved(loop: AdaptiveDetection, pattern: Pattern, events: pa.Table, told: Prediction) -> tuple[float, float]:
    """How many times less than the first plan the plans of planning always cost.

    Parameters
    ----------
    loop
        With the planner, the interval and the reach of the statistics.
    told
        The prediction over the same events.

    Returns
    -------
    (float, float)
        By the statistics that each plan was chosen by, and by those of the interval that it then ran over. The first
        plan is that of as many intervals as the statistics reach over.
    """
    watching = _Watching()
    _run_unseen(replace(loop, decision=watching), pattern, events)
    costs: dict[str, list[tuple[float, float]]] = {"latest": [], "next": []}
    begin = told.reach - 1
    first = watching.plans[begin]
    # The plan of a place is used over the next interval; a cost is of a window, and all intervals are as long.
    for place in range(begin, len(watching.plans) - 1):
        for by, snapshot in (("latest", watching.snapshots[place]), ("next", told.snapshots[place + 1])):
            of_first, of_used = (ln_cost_on(one, [pattern], snapshot) for one in (first, watching.plans[place]))
            costs[by].append((of_first, of_used))
    return _less(costs["latest"]), _less(costs["next"])


def _run_unseen(loop: AdaptiveDetection, pattern: Pattern, events: pa.Table) -> None:
    """Decide without detection."""
    lists = any(one.kleene for one in pattern.operands)
    replace(loop, find=False).detect([pattern], events, output="verbose" if lists else "count")


def _less(costs: Sequence[tuple[float, float]]) -> float:
    """How many times less the second costs come to than the first ones."""
    if not costs:
        return 1.0
    most = max(map(max, costs))
    first, used = (math.fsum(math.exp(of[by] - most) for of in costs) for by in (0, 1))
    return first / used if used else 1.0


def _errors(pattern: Pattern, snapshots: Sequence[StatisticsSnapshot], reaches: Sequence[int]) -> dict[int, float]:
    """Of the last so many intervals -> the mean factor by which the numbers of the next one are missed."""
    questions = questions_of([pattern])[pattern.name]
    numbers = [numbers_now(questions, snapshot) for snapshot in snapshots]
    found = {}
    for reach in reaches:
        missed = []
        for place in range(max(reaches), len(numbers)):  # the same intervals for all reaches
            before = numbers[place - reach : place]
            for what, number in numbers[place].items():
                mean = math.fsum(of[what] for of in before) / reach
                if mean > 0 and number > 0:
                    missed.append(abs(math.log(mean / number)))
        found[reach] = math.exp(math.fsum(missed) / len(missed)) if missed else 1.0
    return found
