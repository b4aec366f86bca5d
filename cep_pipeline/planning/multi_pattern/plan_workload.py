"""`plan_workload`: one plan for all patterns of a workload, by what they have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import repeat

from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.algorithms.heuristics import greedy_order
from cep_pipeline.planning.clause_plans import (
    ON_KERNEL,
    SHARINGS,
    Alternative,
    ClausePlan,
    PatternPlan,
    Sharing,
    WorkloadSearch,
)
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import KERNEL
from cep_pipeline.planning.multi_pattern.costs import cost_model_of, member_statistics, shared_cost, workload_plan
from cep_pipeline.planning.multi_pattern.members import Member, components, members_of
from cep_pipeline.planning.multi_pattern.order_tests import give_up_order_tests, serve_by_and_nodes, with_trees
from cep_pipeline.planning.multi_pattern.shared_plan import shared_plan_of
from cep_pipeline.planning.multi_pattern.workload import Neighbourhood, Plans, SearchOptions, Workload
from cep_pipeline.planning.orderings import ln_order_cost, ordering_over
from cep_pipeline.planning.planned_clauses import Expectations, clause_plan, pattern_plan, summary_of
from cep_pipeline.planning.planners import LOCAL_SEARCHES, MULTI_PATTERN_PLANNERS, Planner
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import as_tree, without_order_tests
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

TIME_LIMIT_S = 5.0
"""Seconds that a local search goes on where no limit is asked for."""
SERVED_BY_AND = (*LOCAL_SEARCHES, "merge_decomposition")
"""The planners that let AND nodes serve SEQ nodes: local searches, and MOTTO's."""


def plan_workload(
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    planner: str = "simulated_annealing",
    *,
    cost: str | None = None,
    neighbourhood: str = "edge",
    sharing: Sharing = "subexpression",
    time_limit_s: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    start: Plan | None = None,
    in_pattern_order: Collection[str] = (),
    idle_steps: int | None = None,
) -> Plan:
    """Plan all patterns together, so that they share work (MCEP).

    Parameters
    ----------
    patterns
        Patterns of one stream.
    snapshot
        Must know the leaves of all the patterns; conditions that it does not know are planned with priors.
    planner
        A key of `MULTI_PATTERN_PLANNERS`.
    cost
        A key of `SHARED_COSTS`; None: `DEFAULT_SHARED_COST`.
    neighbourhood
        Of a local search: `edge`, or `vertex:k`.
    sharing
        `prefix`: orders, which share beginnings; `subexpression`: trees, which share subtrees.
    time_limit_s, steps
        A local search ends after so many seconds or steps (neighbours evaluated), whichever comes first; without either
        after 5 s. To compare all patterns before is counted, to write the plan afterwards is not. With a limit of steps
        alone it finds the same plan each time.
    seed
        Of a local search's random numbers.
    start
        A plan to start from, in place of the cheapest ones of each pattern where it costs no more. It need not have all
        the patterns, nor no others; where it has trees and orders are asked for, it is not used.
    in_pattern_order
        Names of patterns that keep their order, as their mechanisms know no other.
    idle_steps
        A local search of connected patterns ends when so many of its steps have found nothing cheaper, if it has not
        ended before.

    Raises
    ------
    InputError
        A name or a limit is wrong.
    PlanError
        The snapshot does not know a leaf.

    Notes
    -----
    What plans cost is the sum over their nodes, shared ones counted once within their largest window: by `instances`
    the candidates that they test and the partial matches that they make, by `throughput` the partial matches alive in a
    window alone, which is the patent's (MCEP [0079], [0169]). Patterns of other strategies than skip_till_any_match
    keep their order and share nothing.

    What a search has found may cost less where nodes of AND serve those that have the same in order
    (`order_tests`); that is tried in the end, one pattern after the other.
    """
    found = _named(planner, sharing)
    model = shared_cost(cost)
    options = SearchOptions(
        Neighbourhood.of(neighbourhood),
        TIME_LIMIT_S if time_limit_s is None and steps is None else time_limit_s,
        steps,
        seed,
        idle_steps=idle_steps,
    )
    members = members_of(patterns)
    expected = {member.id: Expectations(member.pattern, member.clause, snapshot) for member in members}
    rule: Sharing = sharing if found.shares else "none"
    statistics = {name: of_member.statistics for name, of_member in expected.items()}
    given = {} if start is None else _given(members, start, rule)
    workload = Workload(members, statistics, rule, given, in_pattern_order, model)
    plans, taken = found(workload, options)
    shared = workload.shared(plans)
    searched = planner in LOCAL_SEARCHES
    if planner in SERVED_BY_AND:
        again = [one.id for one in members if not workload.keeps_order(one)]
        serve_by_and_nodes(shared, workload.statistics, model, again)
    plans = dict(shared.plans)
    planned = {member.pattern.name for member in members if not workload.keeps_order(member)}
    search = WorkloadSearch(
        planner,
        neighbourhood if searched else None,
        seed if searched else None,
        taken if searched else None,
    )

    def written(pattern: Pattern, planned_by: str) -> PatternPlan:
        of_clauses = [expected[pattern.name, clause.index] for clause in pattern.clauses]
        found = (
            ordering_over(plans[member], expected[member].statistics.names)
            for member in ((pattern.name, clause.index) for clause in pattern.clauses)
        )
        made = pattern_plan(of_clauses, map(clause_plan, of_clauses, found, repeat(model)), planned_by, model)
        return with_trees(made, plans)

    return Plan(
        alpha=0.0,
        statistics=summary_of(snapshot),
        patterns=tuple(written(pattern, planner if pattern.name in planned else "trivial") for pattern in patterns),
        sharing=rule,
        workload=workload_plan(shared, workload.statistics, search, model),
    )


def _named(planner: str, sharing: str) -> Planner:
    if planner not in MULTI_PATTERN_PLANNERS:
        known = ", ".join(MULTI_PATTERN_PLANNERS)
        raise InputError(f"there is no planner {planner!r} of many patterns; there are: {known}")
    found = MULTI_PATTERN_PLANNERS[planner]
    if sharing not in SHARINGS or (sharing == "none" and found.shares):
        asked = ", ".join(rule for rule in SHARINGS if rule != "none")
        raise InputError(f"planner {planner!r} does not plan for sharing {sharing!r}; there are: {asked}")
    return found


def _given(members: Sequence[Member], start: Plan, rule: Sharing) -> Plans:
    """The orders or trees of members in the plan to start from."""
    trees = rule != "prefix"
    found: Plans = {}
    known = {plan.pattern: plan for plan in start.patterns}
    for member in members:
        name, clause = member.id
        if name not in known or clause >= len(known[name].clauses):
            continue
        planned = known[name].clauses[clause]
        if sorted(planned.order) == sorted(member.names) and (trees or planned.tree is None):
            found[member.id] = without_order_tests(as_tree(planned.order_or_tree)) if trees else planned.order
    return found


def with_kernel_orders(plan: Plan, patterns: Sequence[Pattern], snapshot: StatisticsSnapshot) -> Plan:
    """Put beside each clause of a shared plan the order that the kernel runs instead, by the cost model `kernel`.

    Parameters
    ----------
    plan
        A plan of these patterns by this snapshot, with sharing.

    Notes
    -----
    The columnar kernel stores no partial match of an order, so that there is nothing that patterns could share: each
    runs in the order that is cheapest for it alone. Mechanisms that read event by event store all partial matches, and
    gain from every shared one. To find the orders takes a millisecond for each clause.
    """
    statistics = member_statistics(shared_plan_of(plan, patterns).members, snapshot)
    found: list[PatternPlan] = []
    for pattern in patterns:
        planned = plan.for_pattern(pattern.name)
        clauses = []
        for clause in planned.clauses:
            own = _own_order(statistics.get((pattern.name, clause.clause)), pattern, clause)
            others = tuple(other for other in clause.alternatives if other.planner != ON_KERNEL)
            clauses.append(replace(clause, alternatives=(own, *others)))
        found.append(replace(planned, clauses=tuple(clauses)))
    return replace(plan, patterns=tuple(found))


def _own_order(statistics: ClauseStatistics | None, pattern: Pattern, clause: ClausePlan) -> Alternative:
    if statistics is None or not pattern.strategy.forks:
        return Alternative(ON_KERNEL, clause.order, 0.0)
    order = greedy_order(statistics, KERNEL).order if statistics.size > 1 else (0,)
    names = tuple(statistics.names[position] for position in order)
    return Alternative(ON_KERNEL, names, ln_order_cost(KERNEL, statistics, order))


def components_of_patterns(patterns: Sequence[Pattern], sharing: Sharing) -> list[tuple[str, ...]]:
    """The names of patterns that are connected by what they may share, in the order of the patterns.

    Parameters
    ----------
    sharing
        Beginnings of orders connect from one variable on, subtrees from two: single variables are shared by all trees
        alike. Where nothing is shared, each pattern is by itself.

    Examples
    --------
    >>> from cep_pipeline.events.schema import StreamSchema
    >>> from cep_pipeline.language.parser import parse_patterns
    >>> schema = StreamSchema.from_dict({"type_attribute": "type", "attributes": {"type": "string"}})
    >>> text = '''NAME p PATTERN SEQ(A a, B b) WITHIN 1 second; NAME q PATTERN SEQ(C c, D d) WITHIN 1 second;
    ...           NAME r PATTERN SEQ(X x, A a, B b) WITHIN 1 second'''
    >>> components_of_patterns(parse_patterns(text, schema), "subexpression")
    [('p', 'r'), ('q',)]
    """
    if sharing == "none":
        return [(pattern.name,) for pattern in patterns]
    of_patterns = [(member.id[0], member) for member in members_of(patterns)]
    return components([pattern.name for pattern in patterns], of_patterns, 1 if sharing == "prefix" else 2)


def connected(patterns: Sequence[Pattern], sharing: Sharing, names: Iterable[str]) -> frozenset[str]:
    """The patterns of all components that some are in, by their names; those that are not there have none."""
    return within(components_of_patterns(patterns, sharing), names)


def within(components: Iterable[Sequence[str]], names: Iterable[str]) -> frozenset[str]:
    """All names of the components that some are in."""
    asked = set(names)
    return frozenset(name for component in components if not asked.isdisjoint(component) for name in component)


def plan_to_start_from(plan: Plan, patterns: Sequence[Pattern]) -> Plan:
    """The part of a plan that a search may start from: the patterns that have something in common with others.

    A pattern that has nothing in common is not searched, but planned by itself.
    """
    known = {one.pattern for one in plan.patterns}
    components = components_of_patterns(patterns, plan.sharing)
    return plan.part(name for names in components if len(names) > 1 for name in names if name in known)


def with_part(kept: Plan, made: Plan | None, patterns: Sequence[Pattern], snapshot: StatisticsSnapshot) -> Plan:
    """The plan of all patterns: what was made for some of them, and what another plan says of the others.

    Parameters
    ----------
    kept, made
        A shared plan that has the others, and what was made for some, None where there are none; where both have a
        pattern, what was made counts. They share by one rule.
    patterns, snapshot
        All patterns; the statistics that costs and shared nodes are said by.

    Raises
    ------
    PlanError
        Neither plan has a pattern.

    Notes
    -----
    The others keep all that their plan says: the numbers that they were planned by, and what decided for them. Only
    those that were served by an AND of a pattern that has changed may make their joins themselves again.
    """
    of = kept if made is None else made
    if of.sharing != kept.sharing or kept.workload is None:
        raise ValueError(f"patterns that share {kept.sharing} and {of.sharing} have no plan together")
    new = {one.pattern for one in of.patterns}
    of_each = tuple((of if one.name in new else kept).for_pattern(one.name) for one in patterns)
    whole = replace(of, statistics=summary_of(snapshot), patterns=of_each, workload=None)
    shared = shared_plan_of(whole, patterns)
    search = kept.workload.search if of.workload is None else of.workload.search
    statistics, model = member_statistics(shared.members, snapshot), cost_model_of(of)
    give_up_order_tests(shared, statistics, model)
    patterns_then = tuple(with_trees(one, shared.plans) for one in whole.patterns)
    return replace(whole, patterns=patterns_then, workload=workload_plan(shared, statistics, search, model))
