"""Plan one pattern again and again, as the adaptive loop does between any two stretches of detection.

Facts that follow from the pattern alone are worked out once, and what a plan says of its numbers is written only where
the plan is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import ln_cost_of_clauses
from cep_pipeline.planning.numbers.clause_questions import ClauseQuestions
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import Ordering, TreeOrdering, ln_costs, named_over, ordering_over
from cep_pipeline.planning.planned_clauses import Expectations, clause_plan, cost_model, pattern_plan, summary_of
from cep_pipeline.planning.planners import planner_named
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import OrderOrTree
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


@dataclass(frozen=True)
class SearchResult:
    """The result of one search: the orders or trees of a pattern's clauses, and the statistics behind them.

    Attributes
    ----------
    snapshot
        The statistics.
    statistics, orderings
        The numbers of each clause, and what the planner found for it.
    """

    snapshot: StatisticsSnapshot
    statistics: tuple[ClauseStatistics, ...]
    orderings: tuple[Ordering | TreeOrdering, ...]

    @property
    def runs(self) -> list[OrderOrTree]:
        """The order or tree of each clause."""
        return [named_over(found, of.names) for found, of in zip(self.orderings, self.statistics, strict=True)]


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
        self.questions = tuple(ClauseQuestions(pattern, clause) for clause in pattern.clauses)

    def search(self, snapshot: StatisticsSnapshot) -> SearchResult:
        """Search the orders or trees for these statistics.

        Raises
        ------
        PlanError
            The snapshot does not know a leaf.
        """
        statistics = tuple(asked.statistics(snapshot) for asked in self.questions)
        return SearchResult(snapshot, statistics, tuple(self.planner(of, self.model) for of in statistics))

    def is_of(self, plan: Plan, found: SearchResult) -> bool:
        """True if a plan has the orders and trees that were found."""
        return runs_of(plan, self.pattern.name) == found.runs

    def ln_costs(self, plan: Plan, found: SearchResult) -> tuple[float, float]:
        """Natural logarithms of what a plan costs on the statistics, and of what was found."""
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
        of = plan.for_pattern(self.pattern.name)
        if (of.planner, of.cost_model, plan.alpha) != (self.name, self.model.name, self.alpha):
            return self.written(found)
        clauses = (
            replace(clause, comparisons=ordering.comparisons)
            for clause, ordering in zip(of.clauses, found.orderings, strict=True)
        )
        return replace(plan, patterns=(replace(of, clauses=tuple(clauses)),))

    def written(self, found: SearchResult) -> Plan:
        """The plan of a search result."""
        expected = [
            Expectations(self.pattern, clause, found.snapshot, asked)
            for clause, asked in zip(self.pattern.clauses, self.questions, strict=True)
        ]
        clauses = (clause_plan(e, ordering, self.model) for e, ordering in zip(expected, found.orderings, strict=True))
        made = pattern_plan(expected, clauses, self.name, self.model)
        return Plan(alpha=self.alpha, statistics=summary_of(found.snapshot), patterns=(made,))


def runs_of(plan: Plan, pattern: str) -> list[OrderOrTree]:
    """The orders or trees of a pattern's clauses."""
    return [clause.order_or_tree for clause in plan.for_pattern(pattern).clauses]
