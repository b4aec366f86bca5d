"""Planning one pattern again and again: what planning it once makes, by sums that were written down before."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation import invariants_of
from cep_pipeline.adaptation.plan_quality import ln_cost_on, same_plans
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import plan
from cep_pipeline.planning.costs import COSTS
from cep_pipeline.planning.numbers.clause_questions import ClauseQuestions
from cep_pipeline.planning.numbers.clause_statistics import ClauseShape, ClauseStatistics
from cep_pipeline.planning.orderings import DecidingComparison, ln_order_cost, ln_tree_cost
from cep_pipeline.planning.plans import Plan
from cep_pipeline.planning.replanning import Replanner
from cep_pipeline.planning.search.sums import MOST_VARIABLES, log_tables, set_arrays
from cep_pipeline.planning.trees import PositionTree
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.terms import terms_of
from tests.adaptation import drifting
from tests.adaptation.verified import verify
from tests.planning.all_plans import MODELS, with_any_last
from tests.statistics.market import parse
from tests.thoroughness import examples

LINEAR = ("throughput", "instances")
"""The cost models that do not tell linear trees apart, nor what waits."""


def with_shape(statistics: ClauseStatistics) -> ClauseStatistics:
    """The statistics with what is written down of them, as `ClauseQuestions` does for many snapshots."""
    conditions = tuple((one.positions, one.equality, one.span, one.kind) for one in statistics.conditions)
    of = statistics.size, conditions, statistics.sequences, statistics.kleene, len(statistics.agreements)
    return replace(statistics, shape=ClauseShape(*of))


@st.composite
def of_any_shape(draw: st.DrawFn, max_size: int = 6) -> ClauseStatistics:
    """Drawn statistics with Kleene variables, equalities, bounds on gaps, and any variable as the last one."""
    known = draw(with_any_last(max_size))
    conditions = tuple(
        replace(one, **draw(st.sampled_from([{}, {"equality": True}, {"span": True}]))) for one in known.conditions
    )
    joints = tuple(
        replace(one, **draw(st.sampled_from([{}, {"in_range": True}, {"equality": True}]))) for one in known.joints
    )
    kleene = draw(st.sets(st.integers(0, known.size - 1), max_size=2))
    return replace(
        known,
        conditions=conditions,
        joints=joints,
        kleene=frozenset(kleene),
        ln_events=tuple(draw(st.floats(-5, 5)) if place in kleene else n for place, n in enumerate(known.ln_instances)),
    )


@pytest.mark.parametrize("name", MODELS)
@given(statistics=of_any_shape())
def test_the_sums_are_the_models_terms(name: str, statistics: ClauseStatistics) -> None:
    cost = MODELS[name]
    arrays = set_arrays(cost, with_shape(statistics))
    assert arrays is not None and set_arrays(cost, statistics) is None
    for term, array in zip(cost.terms, arrays, strict=True):
        assert (term is None) == (array is None)
        if term is not None and array is not None:
            weight = math.log(cost.alpha) if term is cost.delay and array is arrays[-1] else 0.0
            assert array[1:] - weight == pytest.approx(term.all(statistics)[1:], rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
@given(statistics=of_any_shape(), data=st.data())
def test_the_tables_hold_what_the_model_charges(name: str, statistics: ClauseStatistics, data: st.DataObject) -> None:
    cost = MODELS[name]
    tables = log_tables(cost, with_shape(statistics))
    assert tables is not None and log_tables(cost, statistics) is None
    order = data.draw(st.permutations(range(statistics.size)))
    bound = 0
    for place, position in enumerate(order):
        assert tables.ln_step(bound, position) == pytest.approx(cost.ln_step(statistics, order[: place + 1]))
        bound |= 1 << position
    known = with_shape(statistics)
    assert ln_order_cost(cost, known, order) == pytest.approx(ln_order_cost(cost, statistics, order))
    tree: PositionTree = order[0]
    for position in order[1:]:
        tree = (tree, position) if data.draw(st.booleans()) else (position, tree)
    assert ln_tree_cost(cost, known, tree) == pytest.approx(ln_tree_cost(cost, statistics, tree))


def close(comparison: DecidingComparison) -> bool:
    return math.isclose(comparison.ln_chosen, comparison.ln_rejected, abs_tol=1e-7)


def test_large_clauses_and_other_models_have_no_tables() -> None:
    names = tuple(f"v{place}" for place in range(MOST_VARIABLES + 1))
    many, few = (ClauseStatistics(of, (1.0,) * len(of)) for of in (names, names[:2]))
    assert log_tables(COSTS["throughput"], with_shape(many)) is None
    unknown = replace(COSTS["throughput"], node=replace(COSTS["throughput"].node, sum=None))
    assert log_tables(COSTS["throughput"], with_shape(few)) and log_tables(unknown, with_shape(few)) is None


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


def test_questions_are_asked_of_any_snapshot_alike() -> None:
    pattern, snapshot = example()
    [clause] = pattern.clauses
    often, once = (ClauseQuestions(pattern, clause, often=which).statistics(snapshot) for which in (True, False))
    assert often == once
    for name in LINEAR:
        assert log_tables(COSTS[name], often) is not None and log_tables(COSTS[name], once) is None
