"""The best plans in hindsight: chosen by the statistics of the very events that they run over, switches paid for.

What no decision function could have gone beyond, by the planner and the cost model: it tells how much there is to gain
by deciding well at all, from how much of it a decision function gains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.adaptation.plan_makers import SinglePlanMaker
from cep_pipeline.adaptation.plan_quality import ln_cost_on
from cep_pipeline.adaptation.plan_switch import Reading, SlicesOfStream, Stretch, matches_of_stretch
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.detection.planned import replanner_for
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.replanning import runs_of
from cep_pipeline.planning.trees import written
from cep_pipeline.statistics import StatisticsSnapshot

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class InHindsight:
    """The work of the plans that were best in hindsight.

    Attributes
    ----------
    tries, matches
        Events that were tried on partial matches, and what was found.
    switches
        How often another plan followed.
    price
        What a switch is in tries beside those of the plans, in windows of the plan that is the best one throughout.
    """

    tries: int
    matches: int
    switches: int
    price: float


def in_hindsight(
    loop: AdaptiveDetection,
    pattern: Pattern,
    events: pa.Table,
    planned_from: StatisticsSnapshot,
    following: Sequence[StatisticsSnapshot],
    begin: int,
    window: int,
) -> InHindsight:
    """Run the plans that cost least together, of those that any interval is planned by from what its matches are of.

    Parameters
    ----------
    loop
        With the planner, the cost model, the mechanism and the interval.
    planned_from
        The statistics of the first plan, which is in use before the first decision.
    following
        For each interval the statistics of the events that matches which begin in it are of.
    begin
        The first interval that may have another plan.
    window
        Intervals that a window is long.
    """
    assert loop.mechanism is not None
    anew = SinglePlanMaker(pattern, replanner_for(pattern, loop.mechanism, loop.planner, loop.cost, loop.alpha))
    candidates: dict[tuple[str, ...], Plan] = {}
    for snapshot in (planned_from, *following):
        plan = anew.first(snapshot)
        candidates.setdefault(tuple(map(written, runs_of(plan, pattern.name))), plan)
    plans = [*candidates.values()]
    ln_costs = np.array([[ln_cost_on(plan, [pattern], snapshot) for plan in plans] for snapshot in following])
    costs = np.exp(ln_costs - ln_costs.max())
    always = plans[int(costs.sum(axis=0).argmin())]
    price = price_of_a_switch(loop, pattern, events, always, len(following), window)
    chosen = [plans[place] for place in cheapest_sequence(costs, begin, window, price)]
    tries, matches = tries_and_matches(loop, pattern, events, chosen)
    return InHindsight(tries, matches, sum(one is not other for one, other in pairwise(chosen)), price)


def price_of_a_switch(
    loop: AdaptiveDetection, pattern: Pattern, events: pa.Table, plan: Plan, intervals: int, window: int
) -> float:
    """The price of replacing a plan, in windows of its work: measured by a plan that replaces itself after each window.

    The old plan reads on for a window, but for the events that matches can only begin with, and finds there what the
    new one finds as well.
    """
    alone, _ = tries_and_matches(loop, pattern, events, [plan])
    each = [plan if interval // window % 2 else replace(plan) for interval in range(0, intervals, window)]
    turns = [each[interval // window] for interval in range(intervals)]
    switches = sum(one is not other for one, other in pairwise(turns))
    switched, _ = tries_and_matches(loop, pattern, events, turns)
    return (switched / max(alone, 1) - 1) * intervals / window / switches if switches else 0.0


def cheapest_sequence(costs: Array, begin: int, window: int, price: float = 1.0) -> list[int]:
    """The cheapest plan for each interval, where replacing a plan has a price.

    Parameters
    ----------
    costs
        Shape (intervals, plans): what each interval costs by each plan; the first plan is that of all intervals before
        `begin`.
    window, price
        To leave a plan costs so many times what it would cost over so many more intervals, or up to the end.

    Examples
    --------
    >>> costs = np.array([[1.0, 9.0], [4.0, 1.0], [4.0, 1.0], [4.0, 1.0]])
    >>> cheapest_sequence(costs, begin=1, window=1), cheapest_sequence(costs, begin=1, window=3)
    ([0, 1, 1, 1], [0, 0, 0, 0])
    """
    intervals, plans = costs.shape
    sums = np.vstack((np.zeros(plans), np.cumsum(costs, axis=0)))
    best = np.full(plans, np.inf)
    best[0] = sums[min(begin, intervals), 0]
    came_from = []
    for interval in range(begin, intervals):
        leaving = best + price * (sums[min(interval + window, intervals)] - sums[interval])
        cheapest = int(leaving.argmin())
        switched = leaving[cheapest] < best
        came_from.append(np.where(switched, cheapest, np.arange(plans)))
        best = np.where(switched, leaving[cheapest], best) + costs[interval]
    plan = int(best.argmin())
    found = []
    for before in reversed(came_from):
        found.append(plan)
        plan = int(before[plan])
    return [0] * min(begin, intervals) + found[::-1]


def tries_and_matches(
    loop: AdaptiveDetection, pattern: Pattern, events: pa.Table, plans: Sequence[Plan]
) -> tuple[int, int]:
    """Events that are tried on partial matches, and matches, where each interval's plan owns what begins in it.

    Parameters
    ----------
    loop
        With the mechanism and the interval.
    plans
        That of each interval; the last one has what is left of the stream, too.
    """
    assert loop.mechanism is not None and loop.interval_us is not None
    stream = EventStream([pattern], events)
    stream.advance_by(events.num_rows)
    stream.has_more()
    reading, slices, counters = Reading(pattern, stream), SlicesOfStream(stream), Counters()
    mechanism = MECHANISMS[loop.mechanism].with_options(loop.options)
    matches = 0
    for first, stop, plan in _stretches(stream, plans, loop.interval_us):
        stretch = Stretch(first, stop, {pattern.name: runs_of(plan, pattern.name)})
        for [blocks] in matches_of_stretch([pattern], mechanism, stretch, reading, slices, counters):
            matches += sum(map(len, blocks))
    return sum(node.candidates for node in counters.nodes.values()), matches


def _stretches(stream: EventStream, plans: Sequence[Plan], every_us: int) -> Iterator[tuple[int, int, Plan]]:
    """Rows `[first, stop)` with the plan that owns the matches which begin there; neighbours have different ones."""
    first = 0
    for interval, (plan, following) in enumerate(zip_longest(plans, plans[1:])):
        if plan is following:
            continue
        stop = len(stream) if following is None else stream.row_at(stream.start_us + (interval + 1) * every_us)
        if stop > first:
            yield first, stop, plan
        first = stop
