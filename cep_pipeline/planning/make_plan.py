"""Make a plan: the numbers of each clause, the planner's order or tree, and what it was chosen over.

`Replanner` plans one pattern again and again, as the adaptive loop does between any two stretches of detection. Facts
that follow from the pattern alone are worked out once, and what a plan says of its numbers is written only where it is
taken. `compare_planners` has all planners side by side on one pattern.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.patterns.composing import plain_pattern
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import Sharing, ln_cost_of_clauses
from cep_pipeline.planning.clause_questions import ClauseQuestions
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.orderings import Ordering, TreeOrdering, ln_costs, named_over, ordering_over
from cep_pipeline.planning.planned_clauses import (
    Expectations,
    check_alpha,
    clause_plan,
    cost_model,
    default_cost,
    pattern_plan,
    summary_of,
)
from cep_pipeline.planning.planners import DEFAULT_PLANNER, MULTI_PATTERN_PLANNER_NAMES, PLANNERS, planner_named
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import OrderOrTree
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

logger = logging.getLogger(__name__)


def plan(
    patterns: Pattern | Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    planner: str = DEFAULT_PLANNER,
    cost: str | None = None,
    alpha: float = 0.0,
    *,
    compare: bool = True,
    in_pattern_order: Collection[str] = (),
    orders_only: Collection[str] = (),
    on_kernel: Collection[str] | None = None,
    **options: Any,
) -> Plan:
    """Plan patterns by the statistics of their stream, each by itself or all of them together.

    Parameters
    ----------
    patterns
        Patterns of one stream, or one pattern.
    snapshot
        Must know the leaves of all the patterns; conditions that it does not know are planned with priors.
    planner
        A key of `PLANNERS`; or one of `MULTI_PATTERN_PLANNER_NAMES`, which plans all patterns together.
    cost
        A key of `COSTS`; None takes for each pattern the one that `default_cost` says, and for all of them together
        the one that `plan_workload` does.
    alpha
        Weight of latency against `cost`: cost(plan) + alpha * latency(plan) (JQPG section 6.1), 0 or more. Each clause
        is planned by the sum of its own; the cost of a pattern counts the largest latency of its clauses.
    compare
        Whether the other planners' plans are put beside, for explain.
    in_pattern_order, orders_only
        Names of patterns whose mechanisms run the pattern's order only, or no trees. The former are planned by
        `trivial`; the latter by the default planner where the one that is asked for makes trees.
    on_kernel
        Names of those that the columnar kernel runs, for `default_cost`; None: all.
    options
        Of planners of many patterns: `neighbourhood`, `sharing`, `time_limit_s`, `steps`, `seed`, and all others that
        `multi_pattern.plan_workload` takes.

    Raises
    ------
    InputError
        `planner` or `cost` is unknown, `alpha` is no weight, or an option is wrong or for other planners.
    PlanError
        The snapshot does not know a leaf; or trees are to be planned together for a mechanism that runs orders only.

    Notes
    -----
    The strategies of docs/language.md, section 4, run in the pattern's order, which is planner `trivial`'s; patterns
    that have one of them are planned by it, and all others by the planner that is asked for. Planners of many patterns
    plan for sharing `prefix` where a mechanism runs orders only, unless the options say otherwise.

    An order or a tree is over the positive variables. Negated variables are placed by the mechanism, at the earliest
    point at which all that they depend on is bound (JQPG section 5.3); the plan says where that is.
    """
    patterns = [plain_pattern(one) for one in ([patterns] if isinstance(patterns, Pattern) else patterns)]
    check_alpha(alpha)
    if planner in MULTI_PATTERN_PLANNER_NAMES:
        from cep_pipeline.planning.multi_pattern.costs import shared_cost
        from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload, with_kernel_orders

        ordered = {pattern.name for pattern in patterns} & set(orders_only) - set(in_pattern_order)
        options["sharing"] = sharing_for(options.get("sharing"), ordered)
        by = shared_cost(cost, alpha).name
        made = plan_workload(patterns, snapshot, planner, cost=by, in_pattern_order=in_pattern_order, **options)
        return made if made.sharing == "none" else with_kernel_orders(made, patterns, snapshot)
    planner_named(planner)
    if options:
        raise InputError(f"planner {planner!r} plans each pattern by itself: {', '.join(options)} are for others")
    logger.info("planning %s patterns by %s", len(patterns), planner)
    planned = []
    for pattern in patterns:
        in_order, no_trees = pattern.name in in_pattern_order, pattern.name in orders_only
        name = planner_for(pattern, planner, in_pattern_order=in_order, orders_only=no_trees)
        default = default_cost(pattern, on_kernel=on_kernel is None or pattern.name in on_kernel)
        model = cost_model(pattern, cost or default, alpha)
        expected = [Expectations(pattern, clause, snapshot) for clause in pattern.clauses]
        clauses = (
            clause_plan(one, PLANNERS[name](one.statistics, model), model, compared_with=name if compare else None)
            for one in expected
        )
        planned.append(pattern_plan(expected, clauses, name, model))
        logger.debug("%r", planned[-1])
    return Plan(alpha=alpha, statistics=summary_of(snapshot), patterns=tuple(planned))


def planner_for(pattern: Pattern, planner: str, *, in_pattern_order: bool = False, orders_only: bool = False) -> str:
    """The planner that `plan` takes for a pattern."""
    if not pattern.strategy.forks or in_pattern_order:
        return "trivial"
    return DEFAULT_PLANNER if orders_only and planner_named(planner).makes_trees else planner


def sharing_for(asked: Sharing | None, orders_only: Collection[str]) -> Sharing:
    """The rule of sharing for patterns planned together: the one asked for, or else one that their mechanisms run.

    Parameters
    ----------
    orders_only
        Names of patterns whose mechanisms run no trees.

    Raises
    ------
    PlanError
        Subexpressions are asked for, and there are such patterns.
    """
    if orders_only and asked == "subexpression":
        raise PlanError(
            f"the mechanism of pattern {min(orders_only)!r} runs orders, and subexpressions are shared by trees: plan "
            "for sharing 'prefix', or choose a mechanism that runs trees"
        )
    return asked or ("prefix" if orders_only else "subexpression")


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
        return self.ln_cost(old, found), self.ln_cost(found.orderings, found)

    def ln_cost(self, clauses: Iterable[Ordering | TreeOrdering], found: SearchResult) -> float:
        """Natural logarithm of what orders or trees cost, one a clause, on the statistics of a search."""
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
    names = planners_for(pattern) if planners is None else tuple(planners)
    return tuple(map(_planned_by, [Replanner(pattern, name, cost, alpha) for name in names], repeat(snapshot)))


def _planned_by(planner: Replanner, snapshot: StatisticsSnapshot) -> PlannerResult:
    seconds: list[float] = []
    while not seconds or (len(seconds) < MOST_RUNS and seconds[-1] <= RUN_AGAIN_S):
        begin = time.perf_counter()
        found = planner.search(snapshot)
        seconds.append(time.perf_counter() - begin)
    return PlannerResult(
        planner.name,
        tuple(found.runs),
        planner.ln_cost(found.orderings, found),
        min(seconds),
        tuple(made.note for made in found.orderings if made.note),
    )
