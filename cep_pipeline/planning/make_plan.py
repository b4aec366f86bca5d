"""Make a plan: the numbers of each clause, the planner's order, and what it was chosen over."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.planning.cardinality import ln_order_share, ln_partial_matches
from cep_pipeline.planning.clause_statistics import ClauseStatistics, clause_statistics, ln_planned_selectivity
from cep_pipeline.planning.costs import CostModel, cost_named, ln_order_cost
from cep_pipeline.planning.planners import MAX_COMPARED_VARIABLES, PLANNERS, planner_named
from cep_pipeline.planning.plans import (
    Alternative,
    ClausePlan,
    PatternPlan,
    Plan,
    PlanStep,
    StatisticsSummary,
    StepCondition,
)
from cep_pipeline.statistics.snapshot import StatisticsSnapshot
from cep_pipeline.statistics.terms import (
    agreeing_attributes,
    format_conjunct,
    format_window,
    leaf_of,
    positive_conjuncts,
)

BEST_SWAP = "swapping two neighbours"
"""Name of the cheapest order that exchanges two neighbours of the chosen one."""
MAX_SWAPPED_VARIABLES = 22
"""Above this size neighbours are not tried."""


def plan(
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    planner: str = "dp_left_deep",
    cost: str = "throughput",
    alpha: float = 0.0,
) -> Plan:
    """Plan patterns by the statistics of their stream.

    Parameters
    ----------
    patterns
        Patterns of one stream.
    snapshot
        Must know the leaves of all the patterns; conditions that it does not know are planned with priors.
    planner, cost
        Keys of `PLANNERS` and `COSTS`.
    alpha
        Weight of latency against `cost`; 0, as long as there is no latency cost among `COSTS`.

    Raises
    ------
    InputError
        `planner` or `cost` is unknown, or `alpha` asks for a cost that there is not.
    PlanError
        The snapshot does not know a leaf, or the planner does not plan a pattern's selection strategy: those of the
        language page's section 4 run in the pattern's order, which is planner `trivial`'s.

    Notes
    -----
    An order is over the positive variables. Negated variables are placed by the mechanism, at the earliest step
    at which all that they depend on is bound (JQPG section 5.3).
    """
    planner_named(planner)
    model = cost_named(cost)
    if alpha != 0:
        raise InputError(f"alpha is {alpha}: it weighs latency against {cost}, and there is no cost model 'latency'")
    for pattern in patterns:
        _refuse_strategy(pattern, planner)
    return Plan(
        planner=planner,
        cost_model=model.name,
        unit=model.unit,
        alpha=alpha,
        statistics=StatisticsSummary(
            snapshot.digest, snapshot.stream, snapshot.events, snapshot.start_us, snapshot.end_us
        ),
        patterns=tuple(
            PatternPlan(
                pattern.name,
                format_window(pattern.window),
                pattern.strategy.value,
                tuple(_plan_clause(pattern, clause, snapshot, planner, model) for clause in pattern.clauses),
            )
            for pattern in patterns
        ),
    )


def plan_by_strategy(
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    planner: str = "dp_left_deep",
    cost: str = "throughput",
    in_pattern_order: Collection[str] = (),
) -> Plan:
    """Plan a file of patterns whose selection strategies, or mechanisms, differ.

    Under the strategies of the language page's section 4 there is one order, the pattern's, which is planner
    `trivial`'s; so it is for the patterns named in `in_pattern_order`, whose mechanisms know no other. The rest are
    planned by `planner`.

    Raises
    ------
    InputError, PlanError
        As `plan`.
    """
    ordered = [
        pattern
        for pattern in patterns
        if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH or pattern.name in in_pattern_order
    ]
    given = {pattern.name for pattern in ordered}
    free = [pattern for pattern in patterns if pattern.name not in given]
    made = plan(free, snapshot, planner, cost) if free or not ordered else plan(ordered, snapshot, "trivial", cost)
    if not (free and ordered):
        return made
    by_name = {p.pattern: p for p in (*made.patterns, *plan(ordered, snapshot, "trivial", cost).patterns)}
    return replace(made, patterns=tuple(by_name[pattern.name] for pattern in patterns))


def _refuse_strategy(pattern: Pattern, planner: str) -> None:
    single = all(len(clause.positive) == 1 for clause in pattern.clauses)
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH and planner != "trivial" and not single:
        raise PlanError(
            f"pattern {pattern.name!r}: planner {planner!r} plans skip_till_any_match; {pattern.strategy.value} runs "
            "in the pattern's order only: use planner 'trivial'"
        )


def _plan_clause(
    pattern: Pattern, clause: Clause, snapshot: StatisticsSnapshot, planner: str, model: CostModel
) -> ClausePlan:
    statistics = clause_statistics(pattern, clause, snapshot)
    chosen = PLANNERS[planner](statistics, model)
    others = {
        name: other(statistics, model).order
        for name, other in PLANNERS.items()
        if name != planner and statistics.size <= MAX_COMPARED_VARIABLES.get(name, statistics.size)
    }
    if 1 < statistics.size <= MAX_SWAPPED_VARIABLES:
        others[BEST_SWAP] = _best_swap(statistics, model, chosen.order)
    costs = {name: ln_order_cost(model, statistics, order) for name, order in others.items()}
    return ClausePlan(
        clause=clause.index,
        steps=tuple(
            _step(pattern, clause, snapshot, statistics, chosen.order[:length])
            for length in range(1, statistics.size + 1)
        ),
        ln_cost=ln_order_cost(model, statistics, chosen.order),
        alternatives=tuple(
            Alternative(name, tuple(statistics.names[position] for position in others[name]), costs[name])
            for name in sorted(others, key=lambda name: costs[name])
        ),
        comparisons=chosen.comparisons,
        note=chosen.note,
    )


def _best_swap(statistics: ClauseStatistics, model: CostModel, order: tuple[int, ...]) -> tuple[int, ...]:
    neighbours = [
        (*order[:place], order[place + 1], order[place], *order[place + 2 :]) for place in range(len(order) - 1)
    ]
    return min(neighbours, key=lambda neighbour: ln_order_cost(model, statistics, neighbour))


def _step(
    pattern: Pattern,
    clause: Clause,
    snapshot: StatisticsSnapshot,
    statistics: ClauseStatistics,
    beginning: tuple[int, ...],
) -> PlanStep:
    """The last step of the beginning of an order."""
    *earlier, position = beginning
    variable = statistics.names[position]
    rate = snapshot.rate(pattern, clause, variable)
    share = math.exp(ln_order_share(statistics, beginning) - ln_order_share(statistics, earlier))
    return PlanStep(
        variable=variable,
        leaf=leaf_of(pattern, clause, variable).key,
        rate_per_s=rate.per_s,
        count=rate.count,
        ln_instances=statistics.ln_instances[position],
        order_share=min(share, 1.0),
        conditions=tuple(_conditions(pattern, clause, snapshot, [statistics.names[p] for p in earlier], variable)),
        ln_partial_matches=ln_partial_matches(statistics, beginning),
    )


def _conditions(
    pattern: Pattern, clause: Clause, snapshot: StatisticsSnapshot, earlier: Sequence[str], variable: str
) -> Iterable[StepCondition]:
    bound = {*earlier, variable}
    for conjunct in positive_conjuncts(clause):
        if variable in conjunct.variables and conjunct.variables <= bound:
            yield StepCondition(format_conjunct(conjunct), snapshot.selectivity(pattern, clause, conjunct))
    for attribute in agreeing_attributes(pattern, clause) if earlier else ():
        agreements = {other: snapshot.agreement(pattern, clause, attribute, other, variable) for other in earlier}
        other = min(agreements, key=lambda name: ln_planned_selectivity(agreements[name]))
        yield StepCondition(f"[{attribute}] with {other}", agreements[other])
