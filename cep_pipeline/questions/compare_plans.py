"""All planners of a pattern side by side: what their plans are expected to cost, and how fast each runs on a sample."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import EVERYTHING, Counters, Orders
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.outputs import Detection
from cep_pipeline.detection.planned import plan_for, plan_refusal
from cep_pipeline.errors import CepError, InputError, TooManyMatches
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.costs import cost_named
from cep_pipeline.planning.explain.compare import PlannerResult, compare_planners
from cep_pipeline.planning.numbers.logarithms import from_ln
from cep_pipeline.planning.planned_clauses import default_cost
from cep_pipeline.planning.trees import Join
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.statistics.node_counts import NodeCounts
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

SLOW_S = 0.5
"""A plan that takes longer than this is run only once."""


@dataclass(frozen=True)
class PlanRun:
    """A way to run a pattern: a mechanism, and for each clause an order or a tree."""

    mechanism: str
    orders: Orders

    @property
    def key(self) -> Hashable:
        """The same for runs that do the same."""
        return self.mechanism, tuple(one if isinstance(one, Join) else tuple(one) for one in self.orders)


@dataclass(frozen=True)
class MeasuredRun:
    """The measurements of a run.

    Attributes
    ----------
    mechanism
        What ran it.
    times
        Processor seconds of each of the counted runs.
    events, matches
        Events of the stream, and the matches found.
    peak_instances, events_buffered
        The most partial matches, and the most events outside them, held at a time.
    nodes
        What happened at the nodes of the plan.
    """

    mechanism: str
    times: tuple[float, ...]
    events: int
    matches: int
    peak_instances: int
    events_buffered: int
    nodes: tuple[NodeCounts, ...]

    @property
    def seconds(self) -> float:
        """The median of the times."""
        return max(median(self.times), 1e-9)

    @property
    def per_s(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def candidates(self) -> int:
        """Tuples of events that conditions were tested on."""
        return sum(node.candidates for node in self.nodes)


def measure_runs(
    pattern: Pattern, runs: Mapping[str, PlanRun], events: pa.Table, repetitions: int = 3, limit: int | None = None
) -> dict[str, MeasuredRun]:
    """List all matches of a pattern in several ways, in turn; ways that are the same are measured once.

    Parameters
    ----------
    pattern
        The pattern; where it has an output policy, that is part of the run.
    runs
        Name -> how.
    events
        An events table. Reading it into a mechanism's columns is part of a run; what is compiled, is not: there is one
        run before those that count, which counts where it took long.
    repetitions
        Counted runs; with none, the one before them counts.
    limit
        Most matches that may be listed; None: no limit.

    Raises
    ------
    TooManyMatches
        There are more than the limit.
    CepError
        Two of them found different numbers of matches.
    UnsupportedPattern, PlanError
        A mechanism does not run the pattern, or the order or tree.
    """
    distinct = {run.key: run for run in runs.values()}
    seconds: dict[Hashable, list[float]] = {key: [] for key in distinct}
    found: dict[Hashable, tuple[int, Counters]] = {}
    for repetition in range(repetitions + 1):
        for key, run in distinct.items():
            slow = bool(seconds[key]) and seconds[key][-1] > SLOW_S
            if slow and repetition > 1:
                continue
            if slow and seconds[key][-1] > 4 * SLOW_S:  # what it compiled is little beside that
                continue
            if repetition == 1:
                seconds[key].clear()
            taken, matches, counters = _run(pattern, run, events, limit)
            seconds[key].append(taken)
            found[key] = matches, counters
    _refuse_different_matches(pattern, runs, {name: found[run.key][0] for name, run in runs.items()})
    measured = {key: _measured(run, events, seconds[key], *found[key]) for key, run in distinct.items()}
    return {name: measured[run.key] for name, run in runs.items()}


def _run(pattern: Pattern, run: PlanRun, events: pa.Table, limit: int | None) -> tuple[float, int, Counters]:
    mechanism, counters = MECHANISMS[run.mechanism], Counters()
    begin = time.process_time()
    prepared = PreparedEvents(events, type_attribute=pattern.type_attribute, base_type=pattern.base_type)
    if has_output_policy(pattern):
        kept = Detection(pattern, mechanism, run.orders, prepared, counters).batches()
        numbers = (batch.num_rows for batch in kept)
    else:
        numbers = (len(block) for block in mechanism.find(pattern, run.orders, prepared, EVERYTHING, counters))
    matches = 0
    for number in numbers:
        matches += number
        if limit is not None and matches > limit:
            raise TooManyMatches(pattern.name, limit)
    return time.process_time() - begin, matches, counters


def _measured(
    run: PlanRun, events: pa.Table, seconds: Sequence[float], matches: int, counters: Counters
) -> MeasuredRun:
    return MeasuredRun(
        run.mechanism,
        tuple(seconds),
        events.num_rows,
        matches,
        counters.peak_instances,
        counters.events_buffered,
        tuple(counters.nodes.values()),
    )


def _refuse_different_matches(pattern: Pattern, runs: Mapping[str, PlanRun], matches: Mapping[str, int]) -> None:
    names = iter(matches)
    first = next(names, None)
    for name in names:
        assert first is not None
        if matches[name] != matches[first]:
            raise CepError(
                f"pattern {pattern.name!r}: {name} on {runs[name].mechanism} finds {matches[name]:,} matches, {first} "
                f"on {runs[first].mechanism} finds {matches[first]:,}; all plans and mechanisms must find the same"
            )


MOST_MATCHES = 20_000_000
"""The most matches that are listed of a sample."""


@dataclass(frozen=True)
class ComparedPlan:
    """A planner's plan, and its run.

    Attributes
    ----------
    planned
        The plan and its cost.
    chosen
        Whether it is the one that the pattern is run by.
    run
        What was measured; None where the mechanism does not run it.
    refused
        Why it does not; empty where it does.
    """

    planned: PlannerResult
    chosen: bool
    run: MeasuredRun | None
    refused: str = ""


@dataclass(frozen=True)
class PlanComparison:
    """The plans of one pattern.

    Attributes
    ----------
    pattern, mechanism
        The pattern's name, and what ran the plans.
    cost_model, unit
        Of the costs.
    events
        Of the sample.
    plans
        One a planner.
    """

    pattern: str
    mechanism: str
    cost_model: str
    unit: str
    events: int
    plans: tuple[ComparedPlan, ...]

    @property
    def fastest(self) -> ComparedPlan | None:
        """The plan that ran fastest; None where none ran."""
        ran = [plan for plan in self.plans if plan.run is not None]
        return max(ran, key=_per_s, default=None)

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        return {
            "pattern": self.pattern,
            "mechanism": self.mechanism,
            "cost_model": self.cost_model,
            "unit": self.unit,
            "sample_events": self.events,
            "planners": [_as_json(plan) for plan in self.plans],
        }


def compare_plans(
    pattern: Pattern,
    snapshot: StatisticsSnapshot,
    sample: pa.Table,
    mechanism: str,
    planner: str | None = None,
    cost: str | None = None,
    alpha: float = 0.0,
    limit: int = MOST_MATCHES,
) -> PlanComparison:
    """Plan a pattern by every planner, and run the plans over a sample.

    Parameters
    ----------
    pattern, snapshot
        The pattern, and the statistics that it is planned by.
    sample
        Events.
    mechanism
        What runs the plans; those that it does not run are planned only.
    planner, cost, alpha
        As `plan_for` takes them: the plan that it would make is marked as chosen.
    limit
        Most matches that may be listed.

    Raises
    ------
    InputError, PlanError
        As `plan_for`; and where the sample has more matches than the limit.
    UnsupportedPattern
        The mechanism does not run the pattern.
    """
    MECHANISMS[mechanism].check(pattern)
    model = cost_named(cost or default_cost(pattern, on_kernel=MECHANISMS[mechanism].is_columnar))
    chosen = plan_for([pattern], snapshot, {pattern.name: mechanism}, planner, cost, alpha).patterns[0].planner
    planned = compare_planners(pattern, snapshot, None, model.name, alpha)
    refused = {one.planner: plan_refusal(mechanism, pattern, one.orders) for one in planned}
    runs = {one.planner: PlanRun(mechanism, one.orders) for one in planned if not refused[one.planner]}
    try:
        measured: Mapping[str, MeasuredRun] = measure_runs(pattern, runs, sample, limit=limit)
    except TooManyMatches as many:
        raise InputError(
            f"pattern {pattern.name!r} has more than {limit:,} matches in a sample of {sample.num_rows:,} events, and "
            "plans are compared by listing them: give a smaller --sample"
        ) from many
    return PlanComparison(
        pattern.name,
        mechanism,
        model.name,
        model.unit,
        sample.num_rows,
        tuple(
            ComparedPlan(one, one.planner == chosen, measured.get(one.planner), refused[one.planner]) for one in planned
        ),
    )


def _per_s(plan: ComparedPlan) -> float:
    assert plan.run is not None
    return plan.run.per_s


def _as_json(plan: ComparedPlan) -> dict[str, Any]:
    cost = from_ln(plan.planned.ln_cost)
    told: dict[str, Any] = {
        "planner": plan.planned.planner,
        "chosen": plan.chosen,
        "plan": plan.planned.text,
        "cost": cost if cost < float("inf") else None,
        "ln_cost": plan.planned.ln_cost,
        "planning_s": plan.planned.seconds,
        "notes": list(plan.planned.notes),
    }
    if plan.run is None:
        return {**told, "not_run": plan.refused}
    return {
        **told,
        "seconds": plan.run.seconds,
        "events_per_s": plan.run.per_s,
        "matches": plan.run.matches,
        "candidates": plan.run.candidates,
        "peak_instances": plan.run.peak_instances,
        "events_buffered": plan.run.events_buffered,
    }
