"""The use of statistics for the events that follow them: how well they tell the numbers, and what plans save there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from benchmarks.experiments.adaptation.decisions import Later, Watching
from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.plan_quality import ln_cost_on
from cep_pipeline.adaptation.thresholds import numbers_now, questions_of
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics import StatisticsSnapshot, estimate_statistics

REACHES = (1, 2, 4, 8, 16)
"""Intervals whose numbers, in their mean, are taken for those of the events that follow."""


@dataclass(frozen=True)
class Prediction:
    """The error of intervals' numbers, as forecasts of those of the events that a plan then runs over.

    A plan that is put in use between two intervals runs over the events of the next one, and over those of the window
    behind it: no match that is its own has an event before. So the numbers to be told are those of these events alone.
    The next interval's pairs, whose earlier events are of the window before, are more alike to those that came before
    than a plan will find them.

    Attributes
    ----------
    error
        Of the last so many intervals -> by how much their mean misses a rate or selectivity of what follows: the
        factor, in the geometric mean.
    following
        For each interval the statistics of the events that matches which begin in it are of.
    """

    error: dict[int, float]
    following: Sequence[StatisticsSnapshot]

    @property
    def reach(self) -> int:
        """The number of intervals that misses by least."""
        return min(self.error, key=self.error.__getitem__)


def prediction(
    loop: AdaptiveDetection, pattern: Pattern, events: pa.Table, reaches: Sequence[int] = REACHES
) -> Prediction:
    """Measure how well the numbers of intervals predict those of the events that follow.

    Parameters
    ----------
    loop
        With the planner and the interval; how far its statistics reach, and what it decides by, do not matter.
    reaches
        The numbers of intervals that are tried.
    """
    watching = Watching()
    _run_unseen(replace(loop, window=loop.every, decision=watching), pattern, events)
    following, whole = _following(loop, pattern, events)
    return Prediction(_errors(pattern, watching.snapshots, following[:whole], reaches), following)


def _following(loop: AdaptiveDetection, pattern: Pattern, events: pa.Table) -> tuple[list[StatisticsSnapshot], int]:
    """For each interval the statistics of it and the window behind it; for so many the stream has all of that."""
    every_us, window_us = loop.interval_us, pattern.window.time_us
    assert every_us is not None and window_us is not None
    time_us = events.column("timestamp").cast(pa.int64()).to_numpy()
    begin_us = np.arange(time_us[0], time_us[-1] + 1, every_us)
    rows = np.searchsorted(time_us, (begin_us, begin_us + every_us + window_us))
    max_pairs = loop.max_pairs * (every_us + window_us) // every_us
    found = [
        estimate_statistics([pattern], events.slice(first, stop - first), seed=loop.seed, max_pairs=max_pairs)
        for first, stop in rows.T.tolist()
    ]
    return found, int(np.count_nonzero(begin_us + every_us + window_us <= time_us[-1]))


def saved(
    loop: AdaptiveDetection, pattern: Pattern, events: pa.Table, told: Prediction, planned_from: StatisticsSnapshot
) -> tuple[float, float]:
    """The cost of the first plan, as a multiple of that of planning always.

    Parameters
    ----------
    loop
        With the planner, the interval and the reach of the statistics.
    told
        The prediction over the same events.
    planned_from
        The statistics of the first plan, of as many intervals as they reach over; it is in use up to the first decision
        behind them.

    Returns
    -------
    (float, float)
        By the statistics that each plan was chosen by, and by those of the events that it then ran over.
    """
    watching = Watching()
    assert planned_from.end_us is not None, "the first plan is made from events"
    _run_unseen(replace(loop, decision=Later(watching, planned_from.end_us)), pattern, events, planned_from)
    costs: dict[str, list[tuple[float, float]]] = {"latest": [], "next": []}
    first = watching.plans[0]
    # The plan of a decision is used over the next interval; a cost is of a window, and all intervals are as long.
    for decision, (plan, latest) in enumerate(zip(watching.plans, watching.snapshots, strict=True)):
        interval = told.reach + decision
        if interval == len(told.following):
            break
        for by, snapshot in (("latest", latest), ("next", told.following[interval])):
            of_first, of_used = (ln_cost_on(one, [pattern], snapshot) for one in (first, plan))
            costs[by].append((of_first, of_used))
    return _less(costs["latest"]), _less(costs["next"])


def _run_unseen(
    loop: AdaptiveDetection, pattern: Pattern, events: pa.Table, planned_from: StatisticsSnapshot | None = None
) -> None:
    """Decide without detection."""
    lists = any(one.kleene for one in pattern.operands)
    output = "verbose" if lists else "count"
    replace(loop, find=False).detect([pattern], events, snapshot=planned_from, output=output)


def _less(costs: Sequence[tuple[float, float]]) -> float:
    """The sum of the first costs, as a multiple of that of the second ones."""
    if not costs:
        return 1.0
    most = max(map(max, costs))
    first, used = (math.fsum(math.exp(of[by] - most) for of in costs) for by in (0, 1))
    return first / used if used else 1.0


def _errors(
    pattern: Pattern,
    snapshots: Sequence[StatisticsSnapshot],
    following: Sequence[StatisticsSnapshot],
    reaches: Sequence[int],
) -> dict[int, float]:
    """For each number of intervals the mean factor by which they miss the numbers of what follows."""
    questions = questions_of([pattern])[pattern.name]
    numbers = [numbers_now(questions, snapshot) for snapshot in snapshots]
    found = {}
    for reach in reaches:
        missed = []
        for place in range(max(reaches), len(following)):  # the same intervals for all reaches
            before = numbers[place - reach : place]
            for what, number in numbers_now(questions, following[place]).items():
                mean = math.fsum(of[what] for of in before) / reach
                if mean > 0 and number > 0:
                    missed.append(abs(math.log(mean / number)))
        found[reach] = math.exp(math.fsum(missed) / len(missed)) if missed else 1.0
    return found
