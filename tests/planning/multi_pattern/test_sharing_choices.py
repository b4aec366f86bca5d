"""The comparisons of what patterns share: differences of the cost of the shared plan, which restarts follow."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation import invariants_of
from cep_pipeline.adaptation.decisions import InvariantBased
from cep_pipeline.adaptation.invariants import describe
from cep_pipeline.adaptation.thresholds import Deviation
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.planning.multi_pattern import Member, Sharing, share, shared_plan_of
from cep_pipeline.planning.multi_pattern.costs import cost_model_of, ln_cost, member_statistics
from cep_pipeline.planning.multi_pattern.plan_workload import plan_workload
from cep_pipeline.planning.multi_pattern.sharing_choices import exchanges_anew
from cep_pipeline.planning.orderings import DecidingComparison
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.trees import named_tree
from tests.adaptation.verified import verify
from tests.planning.multi_pattern.planned import alike, patterns_of, snapshot_of
from tests.planning.multi_pattern.test_local_zones import SHARING, local_plans, other_snapshot, rates
from tests.planning.multi_pattern.workloads import SCHEMA, workloads
from tests.thoroughness import examples

TEXT = """NAME p PATTERN AND(A a, B b, C c) WITHIN 2 seconds; NAME q PATTERN AND(A a, B b, D d) WITHIN 2 seconds;
          NAME r PATTERN AND(A a, C c, D d) WITHIN 1 seconds"""
RARE_PAIR = {"A": 10, "B": 10, "C": 14, "D": 20, "X": 40}


def sharing_ones(plan: Plan) -> list[tuple[tuple[str, int], DecidingComparison]]:
    return [
        ((of.pattern, clause.clause), one)
        for of in plan.patterns
        for clause in of.clauses
        for one in clause.comparisons
        if one.given
    ]


@settings(max_examples=examples(40), deadline=None)
@given(st.one_of(alike(), workloads()), SHARING, st.integers(0, 30))
def test_a_comparison_is_what_the_exchange_would_cost(members: list[Member], sharing: Sharing, seed: int) -> None:
    """By any statistics: the plan with the rejected side costs as much more as the two sides differ, or less.

    The shares of what is given are of exchanges of several members, and left out here.
    """
    patterns = patterns_of(members)
    made = plan_workload(patterns, snapshot_of(members), cost="throughput", sharing=sharing, steps=60, seed=seed)
    plan, fresh = shared_plan_of(made, patterns).without_order_tests(), other_snapshot(members, seed)
    statistics, model = member_statistics(plan.members, fresh), cost_model_of(made)
    now = math.exp(ln_cost(plan, statistics, model))
    found = invariants_of(made, patterns, None)
    free = [replace(one, comparison=replace(one.comparison, share=0.0)) for one in found]
    sides = {
        (one.pattern, one.clause, one.comparison): (verified.left, verified.right)
        for one, verified in zip(found, verify(free, patterns, fresh), strict=True)
    }
    for member, one in sharing_ones(made):
        names = statistics[member].names
        rejected = named_tree(one.rejected, names) if one.measure == "tree" else tuple(names[p] for p in one.rejected)  # type: ignore[arg-type, union-attr]
        plans = {**plan.plans, member: rejected}
        other = share(plan.members.values(), [plans[name] for name in plan.members], sharing)
        left, right = sides[*member, one]
        assert math.exp(ln_cost(other, statistics, model)) - now <= math.exp(right) - math.exp(left) + 1e-6 * now


@settings(max_examples=examples(40), deadline=None)
@given(st.one_of(alike(), workloads()), SHARING, st.integers(0, 30))
def test_exchanges_cost_no_more(members: list[Member], sharing: Sharing, seed: int) -> None:
    patterns = patterns_of(members)
    made = plan_workload(patterns, snapshot_of(members), cost="throughput", sharing=sharing, steps=60, seed=seed)
    plan = shared_plan_of(made, patterns).without_order_tests()
    statistics, model = member_statistics(plan.members, other_snapshot(members, seed)), cost_model_of(made)
    before = ln_cost(plan, statistics, model)
    exchanges_anew(plan, local_plans(statistics, model))
    assert ln_cost(plan, statistics, model) <= before + 1e-9


def test_what_is_shared_has_invariants_and_no_threshold() -> None:
    patterns = parse_patterns(TEXT, SCHEMA)
    first = rates(patterns, RARE_PAIR)
    made = plan_workload(patterns, first, sharing="subexpression", steps=500)
    invariants = [one for one in invariants_of(made, patterns) if one.comparison.given]
    assert any(describe(one, patterns).endswith(" alone") for one in invariants)
    assert all(", sharing: " in describe(one, patterns) for one in invariants)
    assert "sharing: " in made.explain()
    decision = InvariantBased()
    moved = rates(patterns, {**RARE_PAIR, "X": 240})  # no pattern asks for X, but each rate is another one now
    half = rates(patterns, {name: number for name, number in RARE_PAIR.items() if name != "X"})
    for fresh in (first, moved, half):
        verdict = decision.decide(decision.begin(made, patterns), fresh)
        assert not verdict.replan and "moved" not in verdict.reason, verdict.reason
    crowded = rates(patterns, {"A": 30, "B": 90, "C": 3, "D": 2, "X": 10})
    verdict = decision.decide(decision.begin(made, patterns), crowded)
    assert verdict.replan and set(verdict.patterns) & {"p", "q", "r"}
    again = plan_workload(patterns, crowded, sharing="subexpression", steps=500, start=made)
    assert again.ln_cost < ln_cost(
        shared_plan_of(made, patterns),
        member_statistics(shared_plan_of(made, patterns).members, crowded),
        cost_model_of(made),
    )


def test_plans_of_earlier_versions_are_read_and_keep_their_threshold() -> None:
    patterns = parse_patterns(TEXT, SCHEMA)
    first = rates(patterns, RARE_PAIR)
    made = plan_workload(patterns, first, sharing="subexpression", steps=500)
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made
    content = json.loads(json.dumps(made.to_json()))
    del content["workload"]["search"]["compares_sharing"]
    for of in content["patterns"]:
        for clause in of["clauses"]:
            clause["comparisons"] = [one for one in clause["comparisons"] if "given" not in one]
    old = Plan.from_json(content)
    assert old.workload is not None and old.workload == replace(
        made.workload,
        search=replace(made.workload.search, compares_sharing=False),  # type: ignore[type-var, union-attr]
    )
    decision = InvariantBased()
    moved = rates(patterns, {**RARE_PAIR, "A": 90})
    looked = [decision.decide(decision.begin(one, patterns), moved).checks for one in (old, made)]
    assert [any(isinstance(check, Deviation) for check in checks) for checks in looked] == [True, False]
