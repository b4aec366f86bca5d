"""What statistics say of the events that follow them: numbers of the next interval, and what plans save there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.decisions import DecisionFunction, DecisionState, Verdict
from cep_pipeline.adaptation.plan_quality import ln_cost_on
from cep_pipeline.adaptation.thresholds import numbers_now, questions_of
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics import StatisticsSnapshot

REACHES = (1, 2, 4, 8)
"""Intervals whose numbers, in their mean, are taken for those of the next one."""


@dataclass(frozen=True)
class Prediction:
    """How far the statistics of a run can be trusted.

    Attributes
    ----------
    error
        Of the last so many intervals -> by how much their mean misses a rate or selectivity of the next one: the
        factor, in the geometric mean.
    by_latest
        How many times less than the first plan the plans in use cost, by the statistics that they were chosen by.
    by_next
        The same by the statistics of the interval that they then ran over.
    """

    error: dict[int, float]
    by_latest: float
    by_next: float


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


def prediction(loop: AdaptiveDetection, pattern: Pattern, events: pa.Table) -> Prediction:
    """How well the statistics of a loop predict, deciding every so many events.

    Parameters
    ----------
    loop
        With the planner, the interval and the window of statistics; what it decides by does not matter.
    """
    every = loop.interval_events
    assert every is not None, "intervals are of so many events"
    used, single = (_watched(loop, window, pattern, events) for window in (loop.window, every))
    first = used.plans[0]
    time_us = events.column("timestamp").cast(pa.int64()).to_numpy()
    costs: dict[str, list[tuple[float, float, float]]] = {"latest": [], "next": []}
    for place, plan in enumerate(used.plans[:-1]):
        # The plan of this place is used over the next interval; a cost is of a window, and time has as many as it has.
        stop = min((place + 2) * every, len(time_us)) - 1
        seconds = float(time_us[stop] - time_us[(place + 1) * every]) / 1e6
        for by, snapshot in (("latest", used.snapshots[place]), ("next", single.snapshots[place + 1])):
            ln_first, ln_used = (ln_cost_on(one, [pattern], snapshot) for one in (first, plan))
            costs[by].append((seconds, ln_first, ln_used))
    return Prediction(_errors(pattern, single.snapshots), _less(costs["latest"]), _less(costs["next"]))


def _watched(loop: AdaptiveDetection, window: str | int | None, pattern: Pattern, events: pa.Table) -> _Watching:
    watching = _Watching()
    settings = {name: getattr(loop, name) for name in ("planner", "cost", "mechanism", "every_events", "seed")}
    AdaptiveDetection(**settings, max_pairs=loop.max_pairs, window=window, decision=watching, find=False).detect(
        [pattern], events, output="count" if not any(one.kleene for one in pattern.operands) else "verbose"
    )
    return watching


def _less(costs: Sequence[tuple[float, float, float]]) -> float:
    """How many times less the second costs come to than the first ones."""
    if not costs:
        return 1.0
    most = max(max(ln_first, ln_used) for _, ln_first, ln_used in costs)
    first, used = (math.fsum(of[0] * math.exp(of[by] - most) for of in costs) for by in (1, 2))
    return first / used if used else 1.0


def _errors(pattern: Pattern, snapshots: Sequence[StatisticsSnapshot]) -> dict[int, float]:
    """Of the last so many intervals -> the mean factor by which the numbers of the next one are missed."""
    questions = questions_of([pattern])[pattern.name]
    numbers = [numbers_now(questions, snapshot) for snapshot in snapshots]
    found = {}
    for reach in REACHES:
        missed = []
        for place in range(max(REACHES), len(numbers)):  # the same intervals for all reaches
            before = numbers[place - reach : place]
            for what, number in numbers[place].items():
                mean = math.fsum(of[what] for of in before) / reach
                if mean > 0 and number > 0:
                    missed.append(abs(math.log(mean / number)))
        found[reach] = math.exp(math.fsum(missed) / len(missed)) if missed else 1.0
    return found
