"""Plans for the loop, made again and again: of one pattern by itself, or of patterns that are planned together.

First stand the cost of a plan on statistics that it was not made from, and the gain of another plan over it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import PatternPlan, Sharing, WorkloadSearch
from cep_pipeline.planning.clause_questions import ClauseQuestions, clause_statistics, questions_of
from cep_pipeline.planning.costs import cost_named, with_latency
from cep_pipeline.planning.make_plan import Replanner, sharing_for
from cep_pipeline.planning.multi_pattern.costs import Statistics, cost_model_of, ln_cost, shared_cost, workload_plan
from cep_pipeline.planning.multi_pattern.costs import ln_cost_on as ln_shared_cost_on
from cep_pipeline.planning.multi_pattern.shared_plan import shared_plan_of
from cep_pipeline.planning.multi_pattern.workload import Neighbourhood, SearchOptions
from cep_pipeline.planning.orderings import GRAIN, ln_costs, ordering_over
from cep_pipeline.planning.planners import MULTI_PATTERN_PLANNERS
from cep_pipeline.planning.plans import Plan, validate
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


def ln_cost_on(plan: Plan, patterns: Sequence[Pattern], snapshot: StatisticsSnapshot) -> float:
    """Natural logarithm of what the plan's orders and trees of these patterns cost, each by its own cost model.

    What patterns share counts once.

    Raises
    ------
    PlanError
        The plan was not made for the patterns, or the snapshot does not know a leaf.
    """
    validate(plan, patterns)
    if plan.sharing != "none":
        return ln_shared_cost_on(plan, patterns, snapshot)
    found = tuple(_on(plan.for_pattern(pattern.name), pattern, plan.alpha, snapshot) for pattern in patterns)
    return replace(plan, patterns=found, workload=None).ln_cost


def gain(ln_old: float, ln_new: float) -> float:
    """The share of the old cost that the new one saves, negative where it costs more; 0 of a tie, as planners see it.

    Two plans that cost the same by sums in another order are not to take each other's place for ever.

    Examples
    --------
    >>> round(gain(math.log(200.0), math.log(150.0)), 9)
    0.25
    >>> gain(5.0, 5.0 - 1e-12)
    0.0
    """
    if ln_new == ln_old or abs(ln_new - ln_old) < GRAIN:
        return 0.0
    return -math.expm1(min(ln_new - ln_old, 700.0))


def same_plans(one: Plan, other: Plan) -> bool:
    """True if two plans run every pattern by the same orders and trees, and share the same."""
    return one.sharing == other.sharing and _run(one) == _run(other)


def _run(plan: Plan) -> dict[str, list[object]]:
    return {of.pattern: [clause.order_or_tree for clause in of.clauses] for of in plan.patterns}


def _on(plan: PatternPlan, pattern: Pattern, alpha: float, snapshot: StatisticsSnapshot) -> PatternPlan:
    model = with_latency(cost_named(plan.cost_model), alpha)
    clauses = []
    for clause_plan, clause in zip(plan.clauses, pattern.clauses, strict=True):
        statistics = clause_statistics(pattern, clause, snapshot)
        ordering = ordering_over(clause_plan.order_or_tree, statistics.names)
        ln_cost, ln_waiting = ln_costs(model, statistics, ordering)
        clauses.append(replace(clause_plan, ln_cost=ln_cost, ln_waiting=ln_waiting))
    return replace(plan, clauses=tuple(clauses))


SEARCH_STEPS = 100_000
"""Steps of a search over all patterns of the loop, where neither steps nor a time limit are asked for."""
DEFAULT_TOGETHER = "simulated_annealing"
"""The planner of shared plans that do not say by which one they were made."""
SEARCH_SETTINGS = ("neighbourhood", "sharing", "time_limit_s", "steps", "seed", "idle_steps")


@dataclass(frozen=True)
class PlanProposal:
    """The result of planning again.

    Attributes
    ----------
    gain
        The share of the old plan's cost that the new one saves; None: it is the same plan.
    write
        Gives the new plan; of the same one, with the comparisons that decide for it now.
    """

    gain: float | None
    write: Callable[[], Plan]


class SinglePlanMaker:
    """Plans of one pattern by itself."""

    def __init__(self, pattern: Pattern, replanner: Replanner) -> None:
        self._replanner = replanner
        self.questions: Mapping[str, Sequence[ClauseQuestions]] = {pattern.name: replanner.questions}

    def taken(self, plan: Plan, snapshot: StatisticsSnapshot) -> Plan:
        """A plan that was made before, as the loop takes it in use."""
        return plan

    def first(self, snapshot: StatisticsSnapshot) -> Plan:
        """A plan from these statistics alone."""
        return self._replanner.written(self._replanner.search(snapshot))

    def again(self, plan: Plan, snapshot: StatisticsSnapshot) -> PlanProposal:
        """A plan from these statistics in place of the one in use."""
        found = self._replanner.search(snapshot)
        if self._replanner.is_of(plan, found):
            return PlanProposal(None, lambda: self._replanner.confirmed(plan, found))
        return PlanProposal(gain(*self._replanner.ln_costs(plan, found)), lambda: self._replanner.written(found))


@dataclass(frozen=True)
class JointPlanning:
    """The settings by which patterns are planned together.

    Attributes
    ----------
    planner
        A planner of many patterns.
    sharing
        What they share.
    search
        Options of `plan_workload` beside.
    cost, alpha
        As `planning.plan` takes them.
    """

    planner: str
    sharing: Sharing
    search: Mapping[str, Any]
    cost: str | None = None
    alpha: float = 0.0

    def of_part(self, share: float) -> JointPlanning:
        """Return settings to plan this share of the patterns, with the same share of the time and of the steps."""
        options = dict(self.search)
        if options.get("time_limit_s") is not None:
            options["time_limit_s"] = options["time_limit_s"] * share
        if options.get("steps") is not None:
            options["steps"] = max(math.ceil(options["steps"] * share), 1)
        return replace(self, search=options)


class JointPlanMaker:
    """Plans of patterns that may share work with each other: a search that goes on from the plan in use.

    Parameters
    ----------
    patterns
        A component of the multi-pattern graph.
    chosen
        Pattern name -> the mechanism that runs it.
    together
        How they are planned.
    """

    def __init__(self, patterns: Sequence[Pattern], chosen: Mapping[str, str], together: JointPlanning) -> None:
        self._patterns, self._together = patterns, together
        self._chosen = {pattern.name: chosen[pattern.name] for pattern in patterns}

    @cached_property
    def questions(self) -> Mapping[str, Sequence[ClauseQuestions]]:
        return questions_of(self._patterns)

    def taken(self, plan: Plan, snapshot: StatisticsSnapshot) -> Plan:
        if plan.workload is not None:
            return plan
        shared = shared_plan_of(plan, self._patterns)
        search = WorkloadSearch(self._together.planner)
        model = cost_model_of(plan)
        return replace(plan, workload=workload_plan(shared, self._statistics(snapshot), search, model))

    def first(self, snapshot: StatisticsSnapshot) -> Plan:
        return self._planned(snapshot)

    def again(self, plan: Plan, snapshot: StatisticsSnapshot) -> PlanProposal:
        # One alone is not searched, but planned by itself: it goes on from nothing.
        found = self._planned(snapshot, **({"start": plan} if len(self._patterns) > 1 else {}))
        if same_plans(plan, found):
            return PlanProposal(None, lambda: found)
        statistics = self._statistics(snapshot)
        model = cost_model_of(found)
        old, new = (ln_cost(shared_plan_of(one, self._patterns), statistics, model) for one in (plan, found))
        return PlanProposal(gain(old, new), lambda: found)

    def _planned(self, snapshot: StatisticsSnapshot, **options: Any) -> Plan:
        of = self._together
        if of.sharing != "none":
            options["sharing"] = of.sharing
        options = {**of.search, **options}
        return plan_for(self._patterns, snapshot, self._chosen, of.planner, of.cost, of.alpha, compare=False, **options)

    def _statistics(self, snapshot: StatisticsSnapshot) -> Statistics:
        """The numbers of each clause."""
        return {
            (name, number): clause.statistics(snapshot)
            for name, asked in self.questions.items()
            for number, clause in enumerate(asked)
        }


PlanMaker = SinglePlanMaker | JointPlanMaker
"""A maker of plans for patterns that follow one plan."""


def planned_together(
    patterns: Sequence[Pattern],
    chosen: Mapping[str, str],
    planner: str | None,
    cost: str | None = None,
    alpha: float = 0.0,
    search: Mapping[str, Any] | None = None,
    plan: Plan | None = None,
) -> JointPlanning | None:
    """The settings by which patterns are planned together; None: each is planned by itself.

    Parameters
    ----------
    chosen
        Pattern name -> the mechanism that runs it.
    planner, cost, alpha
        As `planning.plan` takes them.
    search
        Options of a search: `SEARCH_SETTINGS`; without a limit it ends after `SEARCH_STEPS` steps.
    plan
        The first plan. One that lets patterns share is followed by others like it, whatever planner of single patterns
        is named.

    Raises
    ------
    InputError
        There is no such option of a search, or its value is wrong, or each pattern is planned by itself.
    PlanError
        Trees are to be shared, and a mechanism runs orders only; or they are to be planned by another cost.
    """
    search = search or {}
    if planner is None or planner not in MULTI_PATTERN_PLANNERS:
        if plan is None or plan.sharing == "none":
            if search:
                raise InputError(f"{', '.join(search)}: for planners of many patterns together, not for {planner}")
            return None
        planner = DEFAULT_TOGETHER if plan.workload is None else plan.workload.search.planner
    shared_cost(cost, alpha)
    options = _checked_search(search)
    if not MULTI_PATTERN_PLANNERS[planner].shares:
        return JointPlanning(planner, "none", options, cost, alpha)
    asked = search.get("sharing")
    if asked is None and plan is not None and plan.sharing != "none":
        asked = plan.sharing
    mechanisms = {name: MECHANISMS[mechanism] for name, mechanism in chosen.items()}
    ordered = [name for name, of in mechanisms.items() if not of.runs_trees and not of.in_pattern_order]
    return JointPlanning(planner, sharing_for(asked, ordered), options, cost, alpha)


def _checked_search(search: Mapping[str, Any]) -> dict[str, Any]:
    """The options of searches as the loop uses them, without what they share."""
    unknown = [name for name in search if name not in SEARCH_SETTINGS]
    if unknown:
        raise InputError(f"a search has no setting {unknown[0]!r}; it has: {', '.join(SEARCH_SETTINGS)}")
    options = {name: value for name, value in search.items() if value is not None and name != "sharing"}
    if "time_limit_s" not in options:
        options.setdefault("steps", SEARCH_STEPS)
    neighbourhood = Neighbourhood.of(options.get("neighbourhood", "edge"))
    idle = options.get("idle_steps")
    limits = options.get("time_limit_s"), options.get("steps")
    SearchOptions(neighbourhood, *limits, options.get("seed", 0), idle_steps=idle)
    return options
