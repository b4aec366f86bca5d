"""A shared plan of which one part is made anew: the patterns that are connected are, all others keep their plan.

Components of the multi-pattern graph can be planned apart (MCEP [0098]). A pattern of several clauses connects theirs,
so that no pattern is planned in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.clause_plans import Sharing
from cep_pipeline.planning.multi_pattern.costs import cost_model_of, member_statistics, workload_plan
from cep_pipeline.planning.multi_pattern.members import members_of
from cep_pipeline.planning.multi_pattern.order_tests import give_up_order_tests, with_trees
from cep_pipeline.planning.multi_pattern.pattern_graph import components
from cep_pipeline.planning.multi_pattern.shared_plan import shared_plan_of
from cep_pipeline.planning.planned_clauses import summary_of
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics.snapshot import StatisticsSnapshot


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
    search = replace(search, compares_sharing=search.compares_sharing and kept.workload.search.compares_sharing)
    statistics, model = member_statistics(shared.members, snapshot), cost_model_of(of)
    give_up_order_tests(shared, statistics, model)
    patterns_then = tuple(with_trees(one, shared.plans) for one in whole.patterns)
    return replace(whole, patterns=patterns_then, workload=workload_plan(shared, statistics, search, model))
