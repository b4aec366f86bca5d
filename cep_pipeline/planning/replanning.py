"""Plan one pattern again and again, as the adaptive loop does between any two stretches of detection.

Facts that follow from the pattern alone are worked out once. Searches run in the compiled tier where that has them
(`planning.search`), and a plan's explanation is written only when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import PatternPlan, StatisticsSummary, ln_cost_of_clauses
from cep_pipeline.planning.numbers.clause_questions import ClauseQuestions
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.numbers.logarithms import ln_sum
from cep_pipeline.planning.orderings import Ordering, TreeOrdering, ln_costs, named_over, ordering_over
from cep_pipeline.planning.planned_clauses import Expectations, clause_plan, cost_model, pattern_plan, summary_of
from cep_pipeline.planning.planners import planner_named
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.search.clause_search import ClauseSearch, ClauseSearchResult, load_searches, searched
from cep_pipeline.planning.trees import OrderOrTree
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


class SearchResult:
    """The result of one search: the orders or trees of a pattern's clauses, and the statistics behind them.

    Attributes
    ----------
    snapshot
        The statistics.
    clauses
        What compiled searches found of each clause; None where the planner itself has to be asked.
    """

    def __init__(
        self, replanner: Replanner, snapshot: StatisticsSnapshot, clauses: tuple[ClauseSearchResult, ...] | None
    ) -> None:
        self.replanner, self.snapshot, self.clauses = replanner, snapshot, clauses

    @cached_property
    def statistics(self) -> tuple[ClauseStatistics, ...]:
        """The numbers of each clause."""
        return tuple(asked.statistics(self.snapshot) for asked in self.replanner.questions)

    @cached_property
    def orderings(self) -> tuple[Ordering | TreeOrdering, ...]:
        """The planner's result for each clause."""
        if self.clauses is not None:
            return tuple(clause.ordering for clause in self.clauses)
        return tuple(self.replanner.planner(numbers, self.replanner.model) for numbers in self.statistics)

    @property
    def runs(self) -> list[OrderOrTree]:
        """The order or tree of each clause."""
        names = ([variable.name for variable in of.positive] for of in self.replanner.pattern.clauses)
        if self.clauses is None:
            return list(map(named_over, self.orderings, names))
        return [clause.named(of_clause) for clause, of_clause in zip(self.clauses, names, strict=True)]


class LazyPlan(Plan):
    """A plan whose fields are written when somebody reads them; it is equal to the plan that it is written as.

    Most plans of a stream are only run: nobody reads more of them than their orders or trees. So the fields of `Plan`
    are computed on first access, and an instance is made by `of`, not by the constructor.

    Attributes
    ----------
    found
        The latest search that found this plan: its comparisons are the plan's.
    made
        The search, or the earlier plan, whose expected numbers the plan shows.
    """

    found: SearchResult | None = None
    made: SearchResult | Plan | None = None

    @classmethod
    def of(cls, found: SearchResult, made: SearchResult | Plan | None = None) -> LazyPlan:
        """The plan of a search result; or an earlier plan that has been found again."""
        plan = object.__new__(cls)
        plan.__dict__.update(found=found, made=found if made is None else made)
        if isinstance(made, Plan):
            plan.__dict__.update(sharing=made.sharing, workload=made.workload)
        return plan

    @cached_property
    def alpha(self) -> float:
        return self.written.alpha

    @cached_property
    def statistics(self) -> StatisticsSummary:
        return self.written.statistics

    @cached_property
    def patterns(self) -> tuple[PatternPlan, ...]:
        return self.written.patterns

    @cached_property
    def written(self) -> Plan:
        """The plan with all of its fields."""
        assert self.found is not None and self.made is not None
        replanner = self.found.replanner
        if self.made is self.found:
            return replanner.written(self.found)
        made = replanner.written(self.made) if isinstance(self.made, SearchResult) else self.made
        return replanner.with_comparisons(made, self.found)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return self is other or _said(self) == _said(other)

    def __hash__(self) -> int:
        return hash(_said(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Plan, _said(self)


def _said(plan: Plan) -> tuple[Any, ...]:
    return tuple(getattr(plan, field.name) for field in fields(Plan))


class Replanner:
    """Plans a pattern by one planner and cost model on statistics that change.

    Parameters
    ----------
    pattern, planner, cost, alpha
        As `planning.plan` takes them; the planner plans the pattern's selection strategy.

    Attributes
    ----------
    pattern, planner, model
        The planner's function, and the cost model.
    name, alpha
        The planner's name, and the weight of latency.
    questions
        What snapshots are asked, clause by clause.
    """

    def __init__(self, pattern: Pattern, planner: str, cost: str | None, alpha: float = 0.0) -> None:
        self.pattern, self.alpha = pattern, alpha
        self.name, self.planner = planner, planner_named(planner)
        self.model = cost_model(pattern, cost, alpha)
        self.questions = tuple(ClauseQuestions(pattern, clause, often=True) for clause in pattern.clauses)

    def prepare(self) -> None:
        """Work out what follows from the pattern alone, and load compiled searches; else the first search does so."""
        if self._searches is not None:
            load_searches()

    @cached_property
    def _searches(self) -> tuple[ClauseSearch, ...] | None:
        """The compiled searches of all clauses; None where one has none."""
        found = [searched(asked.shape, self.name, self.model, asked) for asked in self.questions]
        known = tuple(one for one in found if one is not None)
        return known if len(known) == len(found) else None

    def search(self, snapshot: StatisticsSnapshot) -> SearchResult:
        """Search the orders or trees for these statistics.

        Raises
        ------
        PlanError
            The snapshot does not know a leaf.
        """
        clauses: list[ClauseSearchResult] = []
        for search in self._searches or ():
            found = search(snapshot)
            if found is None:
                break
            clauses.append(found)
        known = tuple(clauses) if len(clauses) == len(self.questions) else None
        made = SearchResult(self, snapshot, known)
        if known is None:
            _ = made.orderings  # what the planner has to be asked, it is asked now
        return made

    def is_of(self, plan: Plan, found: SearchResult) -> bool:
        """True if a plan has the orders and trees that were found."""
        before = _clauses_of(plan, found)
        if before is not None:
            return all(old.plan == new.plan for old, new in before)
        return runs_of(plan, self.pattern.name) == found.runs

    def ln_costs(self, plan: Plan, found: SearchResult) -> tuple[float, float]:
        """Natural logarithms of what a plan costs on the statistics, and of what was found."""
        before = _clauses_of(plan, found)
        if before is not None:
            of_old, of_new = (
                [(ln_sum(new.prices(clause)), None) for clause, new in zip(of_all, found.clauses or (), strict=True)]
                for of_all in ([old for old, _ in before], [new for _, new in before])
            )
            return ln_cost_of_clauses(of_old), ln_cost_of_clauses(of_new)
        names = [numbers.names for numbers in found.statistics]
        old = map(ordering_over, runs_of(plan, self.pattern.name), names)
        return self._ln_cost(old, found), self._ln_cost(found.orderings, found)

    def _ln_cost(self, clauses: Iterable[Ordering | TreeOrdering], found: SearchResult) -> float:
        pairs = zip(clauses, found.statistics, strict=True)
        return ln_cost_of_clauses(ln_costs(self.model, numbers, clause) for clause, numbers in pairs)

    def confirmed(self, plan: Plan, found: SearchResult) -> Plan:
        """A plan with the comparisons that decide for it now, where the same orders and trees were found again.

        What it says of its numbers stays as it was made.
        """
        if isinstance(plan, LazyPlan) and plan.found is not None and plan.found.replanner is self:
            return LazyPlan.of(found, plan.made)
        of = plan.for_pattern(self.pattern.name)
        if (of.planner, of.cost_model, plan.alpha) != (self.name, self.model.name, self.alpha):
            return LazyPlan.of(found)
        return LazyPlan.of(found, plan)

    def written(self, found: SearchResult) -> Plan:
        """The plan of a search result with all of its fields."""
        expected = [
            Expectations(self.pattern, clause, found.snapshot, asked)
            for clause, asked in zip(self.pattern.clauses, self.questions, strict=True)
        ]
        clauses = (clause_plan(e, ordering, self.model) for e, ordering in zip(expected, found.orderings, strict=True))
        made = pattern_plan(expected, clauses, self.name, self.model)
        return Plan(alpha=self.alpha, statistics=summary_of(found.snapshot), patterns=(made,))

    def with_comparisons(self, plan: Plan, found: SearchResult) -> Plan:
        """A plan with the comparisons of what was found."""
        of = plan.for_pattern(self.pattern.name)
        clauses = (
            replace(clause, comparisons=ordering.comparisons)
            for clause, ordering in zip(of.clauses, found.orderings, strict=True)
        )
        made = replace(of, clauses=tuple(clauses))
        return Plan(plan.alpha, plan.statistics, (made,), plan.sharing, plan.workload)


def _clauses_of(plan: Plan, found: SearchResult) -> list[tuple[ClauseSearchResult, ClauseSearchResult]] | None:
    """The clauses of a plan beside those that were found, where both are compiled searches' of one planner."""
    if not isinstance(plan, LazyPlan) or plan.found is None or plan.found.replanner is not found.replanner:
        return None
    if plan.found.clauses is None or found.clauses is None:
        return None
    return list(zip(plan.found.clauses, found.clauses, strict=True))


def runs_of(plan: Plan, pattern: str) -> list[OrderOrTree]:
    """The orders or trees of a pattern's clauses; of a plan as it was found without writing it."""
    if isinstance(plan, LazyPlan) and plan.found is not None:
        return plan.found.runs
    return [clause.order_or_tree for clause in plan.for_pattern(pattern).clauses]
