"""All planners of a pattern side by side: what their plans are expected to cost, and how fast each runs on a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.measured_plans import MeasuredRun, Run, measure_runs
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.errors import InputError, TooManyMatches
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.costs import cost_named
from cep_pipeline.planning.explain.compare import PlannerResult, compare_planners
from cep_pipeline.planning.numbers.logarithms import from_ln
from cep_pipeline.planning.planned_clauses import default_cost
from cep_pipeline.planning.trees import Join
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

MOST_MATCHES = 20_000_000
"""That are listed of a sample."""


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
class Comparison:
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
) -> Comparison:
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
    model = cost_named(cost or default_cost(pattern, on_kernel=mechanism == "fused"))
    chosen = plan_for([pattern], snapshot, {pattern.name: mechanism}, planner, cost, alpha).patterns[0].planner
    planned = compare_planners(pattern, snapshot, None, model.name, alpha)
    refused = {one.planner: _refusal(mechanism, pattern, one) for one in planned}
    runs = {one.planner: Run(mechanism, one.orders) for one in planned if not refused[one.planner]}
    try:
        measured: Mapping[str, MeasuredRun] = measure_runs(pattern, runs, sample, limit=limit)
    except TooManyMatches as many:
        raise InputError(
            f"pattern {pattern.name!r} has more than {limit:,} matches in a sample of {sample.num_rows:,} events, and "
            "plans are compared by listing them: give a smaller --sample"
        ) from many
    return Comparison(
        pattern.name,
        mechanism,
        model.name,
        model.unit,
        sample.num_rows,
        tuple(
            ComparedPlan(one, one.planner == chosen, measured.get(one.planner), refused[one.planner]) for one in planned
        ),
    )


def _refusal(mechanism: str, pattern: Pattern, planned: PlannerResult) -> str:
    """Why a mechanism does not run a plan; empty where it does."""
    kind = MECHANISMS[mechanism]
    if not kind.runs_trees and any(isinstance(order, Join) for order in planned.orders):
        return "runs orders only"
    in_order = [[variable.name for variable in clause.positive] for clause in pattern.clauses]
    if kind.in_pattern_order and [_leaves(order) for order in planned.orders] != in_order:
        return "binds in the pattern's order only"
    return ""


def _leaves(order: Sequence[str] | Join) -> list[str]:
    return list(order.leaves if isinstance(order, Join) else order)


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
