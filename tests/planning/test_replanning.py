"""Planning one pattern again and again: what planning it once makes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation.invariants import invariants_of
from cep_pipeline.adaptation.plan_makers import ln_cost_on, same_plans
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import plan
from cep_pipeline.planning.make_plan import Replanner
from cep_pipeline.planning.orderings import DecidingComparison
from cep_pipeline.planning.plans import Plan
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.terms import terms_of
from tests.adaptation import drifting
from tests.adaptation.verified import verify
from tests.statistics.market import parse
from tests.thoroughness import examples

LINEAR = ("throughput", "instances")
"""The cost models that do not tell linear trees apart, nor what waits."""


def close(comparison: DecidingComparison) -> bool:
    return math.isclose(comparison.ln_chosen, comparison.ln_rejected, abs_tol=1e-7)


def alone(made: Plan, name: str) -> Plan:
    return replace(made, patterns=(made.for_pattern(name),))


@pytest.mark.parametrize("planner", ["greedy", "zstream", "zstream_ordered", "dp_left_deep", "trivial"])
@settings(max_examples=examples(50))
@given(data=st.data(), cost=st.sampled_from([*LINEAR, "kernel"]), alpha=st.sampled_from([0.0, 0.5]))
def test_planning_again_is_planning(planner: str, data: st.DataObject, cost: str, alpha: float) -> None:
    """The plan of `plan`; the old one costs what it does elsewhere; what is found again is confirmed."""
    patterns = data.draw(drifting.patterns())
    before, after = data.draw(drifting.snapshots(patterns)), data.draw(drifting.snapshots(patterns))
    of_all = plan(patterns, before, planner, cost, alpha, compare=False)
    for pattern in patterns:
        old, again = alone(of_all, pattern.name), plan([pattern], after, planner, cost, alpha, compare=False)
        replanner = Replanner(pattern, planner, cost, alpha)
        found = replanner.search(after)
        new = replanner.written(found)
        assert new.ln_cost == pytest.approx(again.ln_cost) and replanner.is_of(new, found)
        assert replanner.ln_costs(old, found) == pytest.approx((ln_cost_on(old, [pattern], after), again.ln_cost))
        decided = [one for clause in again.patterns[0].clauses for one in clause.comparisons]
        assume(not any(map(close, decided)))
        assert same_plans(new, again) and replanner.is_of(old, found) == same_plans(old, again)
        assert explained(new) == explained(again)
        confirmed = replanner.confirmed(new, found)
        assert same_plans(confirmed, new) and invariants_of(confirmed, [pattern]) == invariants_of(new, [pattern])
        violated = [one for one in verify(invariants_of(old, [pattern], None), [pattern], after) if one.violated]
        assert all(drifting.rounding_decides(one) for one in violated) or not replanner.is_of(old, found)


def explained(made: Plan) -> list[tuple[object, ...]]:
    """What a plan says of its steps, the numbers rounded."""
    clauses = [clause for pattern in made.patterns for clause in pattern.clauses]
    steps = [step for clause in clauses for step in (*clause.steps, *clause.nodes)]
    return [
        (step.conditions, *(round(n, 6) for n in (step.order_share, step.ln_partial_matches, step.ln_made)))
        for step in steps
    ]


def example() -> tuple[Pattern, StatisticsSnapshot]:
    [pattern] = parse(drifting.PATTERNS[2])
    leaves, conditions = terms_of([pattern])
    rates = {leaf.key: 1.0 + place for place, leaf in enumerate(leaves)}
    return pattern, drifting.snapshot(rates, {condition.key: 0.25 for condition in conditions})


def test_a_plan_of_another_planner_is_not_confirmed_but_made_anew() -> None:
    pattern, snapshot = example()
    made = plan([pattern], snapshot, "dp_left_deep", "throughput", compare=False)
    replanner = Replanner(pattern, "greedy", "throughput")
    found = replanner.search(snapshot)
    assert replanner.confirmed(made, found).planner == "greedy"
