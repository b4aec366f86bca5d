"""Plans for the mechanisms that will run them, and the reason for each mechanism in words for `explain`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from cep_pipeline.detection.choice import may_have_another
from cep_pipeline.detection.counting.list_parts import counted_by_parts
from cep_pipeline.detection.kleene.extension import ListConditions, limit_in, possible_course
from cep_pipeline.detection.mechanisms import MECHANISMS, Orders, choose_mechanisms, in_pattern_order
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.outputs import binds_lists, listed_because
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.language.checks import no_events_text
from cep_pipeline.patterns.composing import plain_pattern
from cep_pipeline.patterns.conditions import Conjunct, expressions_of
from cep_pipeline.patterns.expressions import Aggregate, Reference, ValueType, walk
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.patterns.rewriting import TimeSpan
from cep_pipeline.planning import Plan, plan_by_strategy
from cep_pipeline.planning.clause_plans import ClausePlan
from cep_pipeline.planning.costs.mechanisms import WORK, expected_work, mechanism_costs
from cep_pipeline.planning.explain.text import in_columns
from cep_pipeline.planning.make_plan import planner_for
from cep_pipeline.planning.planned_clauses import default_cost
from cep_pipeline.planning.planners import DEFAULT_PLANNER, planner_named
from cep_pipeline.planning.replanning import Replanner
from cep_pipeline.planning.trees import Join
from cep_pipeline.slices.keys import keys_of
from cep_pipeline.slices.views import implied_by
from cep_pipeline.statistics.snapshot import StatisticsSnapshot
from cep_pipeline.statistics.terms import format_conjunct

MOST_FACTS = 4
"""The most facts that are listed of those that follow from a pattern's conditions; of more, their number is told."""
OUTPUTS = ("verbose", "compressed", "count")
"""Forms of output, in the order of the table of a whole set."""
MOST_COMPARED = 100
"""Patterns whose other plans are made beside the chosen ones, for people to compare, unless that is asked for: it takes
ten times as long as planning."""


def plan_for(
    patterns: Sequence[Pattern],
    snapshot: StatisticsSnapshot,
    chosen: Mapping[str, str],
    planner: str | None = None,
    cost: str | None = None,
    alpha: float = 0.0,
    *,
    compare: bool | None = None,
    **options: Any,
) -> Plan:
    """Plan patterns for the mechanisms that were chosen for them.

    Parameters
    ----------
    patterns, snapshot, alpha, options
        As `planning.plan` takes them.
    compare
        As `planning.plan` takes it; None: for up to `MOST_COMPARED` patterns.
    chosen
        Pattern name -> its mechanism (`choose_mechanisms`).
    planner, cost
        As `planning.plan` takes them; None takes the defaults: planner `dp_left_deep`, and for each pattern the cost
        model of its mechanism.

    Raises
    ------
    InputError, PlanError
        As `planning.plan`.

    Notes
    -----
    Patterns of mechanisms that bind events in the pattern's order only are planned so, whatever the planner; where a
    planner makes trees, those of mechanisms that run orders only are planned by the default one.
    """
    return plan_by_strategy(
        patterns,
        snapshot,
        DEFAULT_PLANNER if planner is None else planner,
        cost,
        in_pattern_order=in_pattern_order(chosen),
        orders_only={name for name, mechanism in chosen.items() if not MECHANISMS[mechanism].runs_trees},
        on_kernel={name for name, mechanism in chosen.items() if MECHANISMS[mechanism].is_columnar},
        alpha=alpha,
        compare=len(patterns) <= MOST_COMPARED if compare is None else compare,
        **options,
    )


def replanner_for(
    pattern: Pattern, mechanism: str, planner: str | None = None, cost: str | None = None, alpha: float = 0.0
) -> Replanner:
    """A replanner that plans one pattern for its mechanism, by the planner and cost model of `plan_for`.

    Raises
    ------
    InputError
        `planner` or `cost` is unknown, or `alpha` is no weight.
    """
    of = MECHANISMS[mechanism]
    in_order = pattern.name in in_pattern_order({pattern.name: mechanism})
    wanted = DEFAULT_PLANNER if planner is None else planner
    planner_named(wanted)
    name = planner_for(pattern, wanted, in_pattern_order=in_order, orders_only=not of.runs_trees)
    return Replanner(pattern, name, cost or default_cost(pattern, on_kernel=of.is_columnar), alpha)


def plan_refusal(mechanism: str, pattern: Pattern, orders: Orders) -> str:
    """The reason why a mechanism does not run the orders or trees of a pattern's clauses; empty where it does."""
    kind = MECHANISMS[mechanism]
    if not kind.runs_trees and any(isinstance(order, Join) for order in orders):
        return "runs orders only"
    in_order = [tuple(variable.name for variable in clause.positive) for clause in pattern.clauses]
    bound = [order.leaves if isinstance(order, Join) else tuple(order) for order in orders]
    if kind.in_pattern_order and bound != in_order:
        return "binds in the pattern's order only"
    return ""


def runs_on(plan: Plan, patterns: Sequence[Pattern], chosen: Mapping[str, str]) -> bool:
    """Return whether the mechanisms chosen for the patterns run the orders or trees that a plan has for them."""
    planned = ([clause.order_or_tree for clause in plan.for_pattern(pattern.name).clauses] for pattern in patterns)
    return not any(
        plan_refusal(chosen[pattern.name], pattern, orders) for pattern, orders in zip(patterns, planned, strict=True)
    )


def explained_choice(
    patterns: Sequence[Pattern], mechanism: str | None = None, plan: Plan | None = None
) -> dict[str, str]:
    """Each pattern's mechanism and the reason for it, by the pattern's name; `Plan.explain` prints it.

    It also says how matches are counted where that is not by finding them; of a pattern with Kleene variables whether
    they are listed to be counted or compressed; which equalities are used as keys, and which conditions no events
    fulfil; and of one that `fused` runs what follows from its conditions and is used beside them. With a plan it says
    which share of the events is expected to be removed before any are combined, and how long the mechanism, and the
    others that run it, are expected to take by that plan.

    Raises
    ------
    InputError, UnsupportedPattern
        As `choose_mechanisms`.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string"}})
    >>> text = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { a.kind < b.kind } WITHIN 1 second"
    >>> explained_choice(cep.parse_patterns(text, schema))["pattern_1"]
    'nfab, the fastest that runs it: no faster one runs the strategy skip_till_next_match'
    """
    chosen = choose_mechanisms(patterns, mechanism)
    explained = {}
    for pattern in map(plain_pattern, patterns):
        name = chosen[pattern.name]
        reason = _reason(pattern, name) if mechanism is None else "as asked for"
        implied = [implied_by(clause, pattern.window, pattern.ties) for clause in pattern.clauses]
        if all(found.contradiction for found in implied):
            explained[pattern.name] = f"{name}, {reason}; it has no matches: {no_events_text(pattern, implied)}"
            continue
        rewritten = f"{_keys(pattern, name)}{_implied(pattern, name)}{_removed(pattern, name, plan)}"
        told = f"{_on_counts(pattern, name)}{rewritten}{_expected(pattern, name, plan)}"
        explained[pattern.name] = f"{name}, {reason}{told}"
    return explained


def _keys(pattern: Pattern, mechanism: str) -> str:
    """Name the equalities by which events are divided or sorted, beside those that are written `[k]`."""
    facts: dict[str, None] = {}
    types = {**dict(pattern.attributes), "timestamp": ValueType.INT64, "seq": ValueType.INT64}
    for written, clause in zip(pattern.written_clauses, pattern.clauses, strict=True):
        said = [
            (*one.conjuncts, *(c for s in one.negated_structures for own in s.clauses for c in own.conjuncts))
            for one in (written, clause)
        ]
        made = [conjunct for conjunct in clause.conjuncts if conjunct not in written.conjuncts]
        facts.update((f"{format_conjunct(conjunct)} is asked of a list as it grows", None) for conjunct in made)
        gone = [one for one in dict.fromkeys(said[0]) if one not in said[1] and not _of_timestamps(one)]
        if gone:
            agreed = [attribute for attribute in clause.agree_on if attribute not in written.agree_on]
            test = f"[{', '.join(agreed or clause.agree_on)}]"
            facts[f"{' AND '.join(map(format_conjunct, gone))} is a key of all events, like {test}"] = None
        for key in keys_of(clause, types) if mechanism == "fused" else ():
            if key.conjuncts:
                equal = " AND ".join(sorted(map(format_conjunct, key.conjuncts)))
                facts[f"{equal} is a key of {' and '.join(key.variables)}"] = None
    return "".join(f"; {fact}" for fact in facts)


def _of_timestamps(conjunct: Conjunct) -> bool:
    read = (node for atom in conjunct.atoms for side in expressions_of(atom) for node in walk(side))
    return any(isinstance(node, Reference | Aggregate) and node.attribute == "timestamp" for node in read)


def _implied(pattern: Pattern, mechanism: str) -> str:
    """The facts that follow from the conditions of a pattern and are written in none of them."""
    facts: dict[str, None] = {}
    for clause in pattern.clauses:
        found = implied_by(clause, pattern.window, pattern.ties)
        if found.contradiction:
            facts[f"clause {clause.index + 1} has no matches, since {no_events_text(pattern, [found])}"] = None
            continue
        if mechanism != "fused":
            continue
        facts.update(
            (f"{format_conjunct(conjunct)} is a range of times, which is not tested", None) for conjunct in found.spans
        )
        facts.update((f"it follows that {_in_words(span)}", None) for span in found.narrowed)
        facts.update((f"it follows that {format_conjunct(one)}", None) for one in (*found.filters, *found.comparisons))
    shown = list(facts)[:MOST_FACTS]
    more = f"; and {len(facts) - MOST_FACTS} more of this kind" if len(facts) > MOST_FACTS else ""
    return "".join(f"; {fact}" for fact in shown) + more


def _removed(pattern: Pattern, mechanism: str, plan: Plan | None) -> str:
    """Say whether events that are in no match may be removed before any are combined, and which share is expected.

    That is decided when the events are there, by their number and samples of them. By the statistics an event of one
    variable fits none of another one with the share of a Poisson distribution: events come at random, and each fits
    with the mean selectivity.
    """
    if mechanism != "fused" or plan is None or not plan.statistics.events or binds_lists(pattern):
        return ""
    from cep_pipeline.detection.fused import reduction

    planned = plan.for_pattern(pattern.name)
    work = dict(zip(WORK, expected_work(planned, plan.statistics), strict=True))
    candidates = work["candidate"]
    if candidates < max(reduction.FEWEST_CANDIDATES, 2 * reduction.CANDIDATES_AN_EVENT * work["event"]):
        return ""
    for clause, by in zip(pattern.clauses, planned.clauses, strict=True):
        if len(by.steps) > 1 and by.tree is None:
            shares = {name: 1 - share for name, share in _kept(clause, by).items()}
            going = ", ".join(f"{share:.0%} of {name}" for name, share in shares.items() if share >= 0.01)
            return (
                f"; {candidates:.1g} candidates are expected, so events that fit no event of another variable are "
                "removed first, where samples show that at most half of the combinations stay (by rates and mean "
                f"selectivities alone, {going or 'hardly an event'} would go)"
            )
    return ""


def _kept(clause: Clause, plan: ClausePlan) -> dict[str, float]:
    """Return for each variable the expected share of its events that fit some event of each other variable."""
    steps = {step.variable: step for step in plan.steps}
    tested = [one for step in plan.steps for one in step.conditions]
    selectivity = {one.text: one.selectivity.value for one in tested if not one.agreement}
    agreement = min((one.selectivity.value for one in tested if one.agreement), default=1.0)
    kept = dict.fromkeys(steps, 1.0)
    for one, other in permutations(steps, 2):
        said = [format_conjunct(conjunct) for conjunct in clause.conjuncts if conjunct.variables == {one, other}]
        share = agreement * math.prod(selectivity.get(text, 1.0) for text in said)
        kept[one] = min(kept[one], -math.expm1(-share * math.exp(min(steps[other].ln_instances, 700.0))))
    return kept


def _in_words(span: TimeSpan) -> str:
    if span.most_us == 0:
        return f"{span.second} is not later than {span.first}"
    distance = Window(time_us=abs(span.most_us))
    if span.most_us > 0:
        return f"{span.second} is at most {distance} later than {span.first}"
    return f"{span.second} is at least {distance} earlier than {span.first}"


def _on_counts(pattern: Pattern, mechanism: str) -> str:
    """Say how SUMMARIZE makes groups, and how matches are counted where that is not by finding them, or takes lists."""
    if pattern.summary is not None:
        from cep_pipeline.detection.summaries.unlisted import explained

        return f"; {explained(pattern)}{_on_counts(replace(pattern, summary=None), mechanism)}"
    if binds_lists(pattern):
        return _on_lists(pattern, MECHANISMS[mechanism].is_columnar)
    if not MECHANISMS[mechanism].is_columnar or has_output_policy(pattern):
        return ""
    from cep_pipeline.detection.counting.choice import sweeps_over

    if sweeps_over(pattern):
        return "; many matches are counted by a sweep over the events, without being found"
    return ""


def expected_seconds(patterns: Sequence[Pattern], plan: Plan, chosen: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """The seconds of one core that mechanisms are expected to take to list each pattern's matches by a plan.

    Parameters
    ----------
    chosen
        Pattern name -> its mechanism.

    Returns
    -------
    dict
        Pattern name -> mechanism -> seconds over the events of the plan's statistics: the chosen mechanism, and the
        others that run the pattern and its order or tree, the fastest first. Empty where the chosen one was not
        measured, or the plan was made without statistics.
    """
    costs, found = mechanism_costs(), {}
    for pattern in map(plain_pattern, patterns) if plan.statistics.events else ():
        work = expected_work(plan.for_pattern(pattern.name), plan.statistics)
        seconds = {name: costs.expected_s(name, work) for name in _measured_for(pattern, plan, chosen[pattern.name])}
        if chosen[pattern.name] in seconds:
            able = {name: took for name, took in seconds.items() if took is not None}
            found[pattern.name] = dict(sorted(able.items(), key=lambda one: one[1]))
    return found


def _measured_for(pattern: Pattern, plan: Plan, chosen: str) -> list[str]:
    """The mechanisms that run a pattern by its order or tree and were measured, the chosen one among them."""
    orders: Orders = [clause.order_or_tree for clause in plan.for_pattern(pattern.name).clauses]
    return [
        name
        for name in mechanism_costs().by_mechanism
        if not plan_refusal(name, pattern, orders)
        and (name == chosen or MECHANISMS[name].unsupported_feature(pattern) is None)
    ]


def expected_seconds_of_set(
    patterns: Sequence[Pattern], plan: Plan, chosen: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """The seconds of one core that a whole set is expected to take in each way that `choose` compares, by a plan.

    Parameters
    ----------
    chosen
        Pattern name -> its mechanism.

    Returns
    -------
    dict
        Way -> form of output -> seconds over the events of the plan's statistics; first the chosen mechanisms, then one
        mechanism for all patterns that it runs, and for each pattern the mechanism that is cheapest for it. A mechanism
        is called and reads the events once, whatever the number of its patterns. Patterns whose costs the model does
        not describe keep their mechanisms. Empty for a single pattern, where a chosen mechanism was not measured, or
        where the plan was made without statistics.
    """
    plain, costs = [plain_pattern(pattern) for pattern in patterns], mechanism_costs()
    own = tuple(chosen[pattern.name] for pattern in plain)
    if len(plain) < 2 or not plan.statistics.events or not set(own) <= costs.by_mechanism.keys():
        return {}
    works = [expected_work(plan.for_pattern(pattern.name), plan.statistics) for pattern in plain]
    able = [
        set(_measured_for(pattern, plan, name)) if may_have_another(pattern) else {name}
        for pattern, name in zip(plain, own, strict=True)
    ]
    ways = {f"as it is run: {_on(own)}": own}

    def add(names: tuple[str, ...]) -> None:
        if names not in ways.values():
            ways[_on(names)] = names

    for one in costs.by_mechanism:
        add(tuple(one if one in ables else name for name, ables in zip(own, able, strict=True)))
    own_works = [(0.0, 0.0, *work[2:]) for work in works]
    add(
        tuple(
            min(ables, key=lambda name: (costs.seconds(name, work), name))
            for ables, work in zip(able, own_works, strict=True)
        )
    )
    once = (*works[0][:2], *[0.0] * (len(WORK) - 2))
    return {
        way: {
            output: sum(costs.seconds(name, once, output) for name in set(names))
            + sum(costs.seconds(name, work, output) for name, work in zip(names, own_works, strict=True))
            for output in OUTPUTS
        }
        for way, names in ways.items()
    }


def _on(names: Sequence[str]) -> str:
    """The mechanisms of a set's patterns, in words."""
    counted = Counter(names).most_common()
    return counted[0][0] if len(counted) == 1 else ", ".join(f"{name} for {number:,}" for name, number in counted)


def expected_lines(patterns: Sequence[Pattern], plan: Plan, chosen: Mapping[str, str]) -> list[str]:
    """The table of `expected_seconds_of_set` for people, the chosen way first; empty where there is no other."""
    ways = expected_seconds_of_set(patterns, plan, chosen)
    if len(ways) < 2:
        return []
    own, *others = ways.items()
    rows: list[tuple[str, ...]] = [("mechanisms", "listing", "compressed", "count")]
    for way, seconds in (own, *sorted(others, key=lambda one: one[1]["verbose"])):
        rows.append((way, *(_rounded(seconds[output]) for output in OUTPUTS)))
    return [
        f"  expected time of all {len(patterns):,} patterns together, by the form of output:",
        *in_columns(rows, "    "),
    ]


def _expected(pattern: Pattern, chosen: str, plan: Plan | None) -> str:
    """The seconds that the mechanisms which run a plan are expected to take, in words."""
    if plan is None:
        return ""
    seconds = expected_seconds([pattern], plan, {pattern.name: chosen}).get(pattern.name)
    if seconds is None:
        return ""
    own = _rounded(seconds.pop(chosen))
    others = ", ".join(f"{name} {_rounded(took)}" for name, took in seconds.items())
    lists = " beside its lists" if binds_lists(pattern) else ""
    return f"; expected to take {own}{lists}" + (f" ({others})" if others else "")


def _rounded(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1e3:.2g} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:,.0f} s"


def _kept_apart(pattern: Pattern, columnar: bool) -> str:
    """Say which conditions join lists so that no sweep counts them, but runs for each value that is compared."""
    from cep_pipeline.detection.counting.choice import sweeps_over

    if columnar and (sweeps_over(pattern) or counted_by_parts(pattern)):
        return ""
    joined = [
        format_conjunct(conjunct)
        for clause in pattern.clauses
        for conjunct in clause.conjuncts
        if sum(clause.by_name[name].kleene for name in conjunct.variables) > 1
    ]
    if not joined:
        return ""
    return f"; for {joined[0]}, which joins two lists, runs are kept apart by each value that may still be compared"


def _on_lists(pattern: Pattern, columnar: bool) -> str:
    """Say of a pattern with Kleene variables whether its matches are counted and compressed without being listed."""
    reason = listed_because(pattern)
    if reason is None:
        return f"; matches are counted and compressed without being listed{_kept_apart(pattern, columnar)}"
    if columnar and counted_by_parts(pattern):
        return f"; matches are counted without being listed; they are listed to be compressed, because of {reason}"
    tried = [
        format_conjunct(conjunct)
        for clause in pattern.clauses
        for variable in clause.positive
        if variable.kleene
        for conjunct in ListConditions.of(clause, variable.name, frozenset(clause.by_name)).whole
        if limit_in(conjunct, variable.name, possible_course) is None
    ]
    # A list of which no condition ends the growth may be any of 2**n.
    all_lists = (
        f"; for {tried[0]}, which only a whole list decides, all lists are tried: 2**n of n events" if tried else ""
    )
    return f"; matches are listed to be counted or compressed (within --limit), because of {reason}{all_lists}"


def _reason(pattern: Pattern, chosen: str) -> str:
    refusals: dict[str, list[str]] = {}
    for faster in MECHANISMS:  # from fast to slow
        if faster == chosen:
            break
        try:
            MECHANISMS[faster].check(pattern)
        except UnsupportedPattern as refusal:
            refusals.setdefault(refusal.feature, []).append(faster)
    if not refusals:
        return "the fastest mechanism"
    if len(refusals) == 1 and len(next(iter(refusals.values()))) > 1:
        return f"the fastest that runs it: no faster one runs {next(iter(refusals))}"
    told = (
        f"{', '.join(names)} {'do' if len(names) > 1 else 'does'} not run {feature}"
        for feature, names in refusals.items()
    )
    return f"the fastest that runs it: {'; '.join(told)}"
