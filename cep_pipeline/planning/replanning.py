"""Plan one pattern again and again: what follows from the pattern alone is worked out once, and a plan's explanation
only where the plan is used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import ClausePlan
from cep_pipeline.planning.clause_questions import ClauseQuestions
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import ln_order_cost, ln_order_delay, ln_tree_cost, ln_tree_delay
from cep_pipeline.planning.expected import Expectations
from cep_pipeline.planning.make_plan import clause_plan, cost_model, pattern_plan, summary_of
from cep_pipeline.planning.ordering import Ordering, TreeOrdering
from cep_pipeline.planning.planners import planner_named
from cep_pipeline.planning.plans import Plan, ln_cost_of_clauses
from cep_pipeline.planning.trees import PositionTree, tree_of_positions
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

Running: TypeAlias = "tuple[tuple[int, ...] | None, PositionTree | None]"
"""An order, or a tree."""


@dataclass(frozen=True, eq=False)
class Found:
    """What a planner makes of a pattern's clauses, and by what numbers."""

    snapshot: StatisticsSnapshot
    statistics: tuple[ClauseStatistics, ...]
    orderings: tuple[Ordering | TreeOrdering, ...]


class Replanner:
    """Plans a pattern by one planner and cost model on statistics that change.

    Parameters
    ----------
    pattern, planner, cost, alpha
        As `planning.plan` takes them; the planner plans the pattern's selection strategy.

    Attributes
    ----------
    questions
        What snapshots are asked, clause by clause.
    """

    def __init__(self, pattern: Pattern, planner: str, cost: str | None, alpha: float = 0.0) -> None:
        self._pattern, self._alpha = pattern, alpha
        self._name, self._planner = planner, planner_named(planner)
        self._model = cost_model(pattern, cost, alpha)
        self.questions = tuple(ClauseQuestions(pattern, clause, often=True) for clause in pattern.clauses)

    def search(self, snapshot: StatisticsSnapshot) -> Found:
        """Search the orders or trees for these statistics.

        Raises
        ------
        PlanError
            The snapshot does not know a leaf.
        """
        statistics = tuple(asked.statistics(snapshot) for asked in self.questions)
        return Found(snapshot, statistics, tuple(self._planner(numbers, self._model) for numbers in statistics))

    def is_of(self, plan: Plan, found: Found) -> bool:
        """Whether a plan has the orders and trees that were found."""
        clauses = plan.for_pattern(self._pattern.name).clauses
        return all(
            _of_plan(clause, numbers) == _as_run(ordering)
            for clause, numbers, ordering in zip(clauses, found.statistics, found.orderings, strict=True)
        )

    def ln_costs(self, plan: Plan, found: Found) -> tuple[float, float]:
        """Natural logarithms of what a plan costs on the statistics, and of what was found."""
        clauses = plan.for_pattern(self._pattern.name).clauses
        old = map(_of_plan, clauses, found.statistics)
        return self._ln_cost(old, found), self._ln_cost(map(_as_run, found.orderings), found)

    def _ln_cost(self, clauses: Iterable[Running], found: Found) -> float:
        costs = []
        for (order, tree), numbers in zip(clauses, found.statistics, strict=True):
            if order is not None:
                costs.append((ln_order_cost(self._model, numbers, order), ln_order_delay(self._model, numbers, order)))
            elif tree is not None:
                costs.append((ln_tree_cost(self._model, numbers, tree), ln_tree_delay(self._model, numbers, tree)))
        return ln_cost_of_clauses(costs)

    def confirmed(self, plan: Plan, found: Found) -> Plan:
        """A plan with the comparisons that decide for it now, where the same orders and trees were found again.

        What it says of its numbers stays as it was made.
        """
        of = plan.for_pattern(self._pattern.name)
        if (of.planner, of.cost_model, plan.alpha) != (self._name, self._model.name, self._alpha):
            return self.plan(found)
        clauses = (
            replace(clause, comparisons=ordering.comparisons)
            for clause, ordering in zip(of.clauses, found.orderings, strict=True)
        )
        return replace(plan, patterns=(replace(of, clauses=tuple(clauses)),))

    def plan(self, found: Found) -> Plan:
        """What was found as a plan."""
        expected = [
            Expectations(self._pattern, clause, found.snapshot, asked)
            for clause, asked in zip(self._pattern.clauses, self.questions, strict=True)
        ]
        clauses = (clause_plan(e, ordering, self._model) for e, ordering in zip(expected, found.orderings, strict=True))
        made = pattern_plan(expected, clauses, self._name, self._model)
        return Plan(alpha=self._alpha, statistics=summary_of(found.snapshot), patterns=(made,))


def _as_run(ordering: Ordering | TreeOrdering) -> Running:
    if isinstance(ordering, TreeOrdering) and not isinstance(ordering.tree, int):
        return None, ordering.tree
    return ordering.order, None


def _of_plan(plan: ClausePlan, statistics: ClauseStatistics) -> Running:
    if plan.tree is None:
        return tuple(statistics.names.index(name) for name in plan.order), None
    return None, tree_of_positions(plan.tree, statistics.names)
