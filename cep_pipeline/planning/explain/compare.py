"""All planners side by side on one pattern: the order or tree of each, what it costs, how long finding it took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import ln_cost_of_clauses
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.numbers.clause_questions import clause_statistics
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import ln_costs, named_over
from cep_pipeline.planning.planned_clauses import cost_model
from cep_pipeline.planning.planners import PLANNERS, planner_named
from cep_pipeline.planning.trees import OrderOrTree
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

MOST_RUNS, RUN_AGAIN_S = 3, 1.0
"""A planner that took no longer is run again, so often at most, and its shortest time counts: what is compiled or
looked up once is no part of it."""


@dataclass(frozen=True)
class PlannerResult:
    """The plan of one planner for a pattern.

    Attributes
    ----------
    planner
        Its name.
    orders
        For each clause an order or a tree.
    ln_cost
        Natural logarithm of the cost of all clauses.
    seconds
        Seconds of planning, without the time for explanations.
    notes
        What a person should know of how it was found, in the order of the clauses; those that say nothing left out.
    """

    planner: str
    orders: tuple[OrderOrTree, ...]
    ln_cost: float
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The orders and trees as people read them.

        Examples
        --------
        >>> PlannerResult("greedy", (("b", "a"), ("c",)), 0.0, 0.001).text
        'b, a; c'
        """
        return "; ".join(", ".join(order) if isinstance(order, Sequence) else str(order) for order in self.orders)


def planners_for(pattern: Pattern) -> tuple[str, ...]:
    """The planners that plan a pattern: all of them under skip_till_any_match, else the one of the pattern's order."""
    return tuple(PLANNERS) if pattern.strategy.forks else ("trivial",)


def compare_planners(
    pattern: Pattern,
    snapshot: StatisticsSnapshot,
    planners: Sequence[str] | None = None,
    cost: str | None = None,
    alpha: float = 0.0,
) -> tuple[PlannerResult, ...]:
    """Let several planners plan a pattern.

    Parameters
    ----------
    pattern, snapshot, cost, alpha
        As `planning.plan` takes them.
    planners
        Keys of `PLANNERS`; None: those of `planners_for`.

    Raises
    ------
    InputError, PlanError
        As `planning.plan`.
    """
    model = cost_model(pattern, cost, alpha)
    names = planners_for(pattern) if planners is None else tuple(planners)
    for name in names:
        planner_named(name)
    statistics = [clause_statistics(pattern, clause, snapshot) for clause in pattern.clauses]
    return tuple(_planned_by(name, statistics, model) for name in names)


def _planned_by(name: str, statistics: Sequence[ClauseStatistics], model: CostModel) -> PlannerResult:
    seconds: list[float] = []
    while not seconds or (len(seconds) < MOST_RUNS and seconds[-1] <= RUN_AGAIN_S):
        begin = time.perf_counter()
        found = [PLANNERS[name](of_clause, model) for of_clause in statistics]
        seconds.append(time.perf_counter() - begin)
    together = list(zip(statistics, found, strict=True))
    return PlannerResult(
        name,
        tuple(named_over(made, of_clause.names) for of_clause, made in together),
        ln_cost_of_clauses(ln_costs(model, of_clause, made) for of_clause, made in together),
        min(seconds),
        tuple(made.note for made in found if made.note),
    )
