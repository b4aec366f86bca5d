"""What every planner must do, whatever the pattern and the statistics."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.detect import detect
from cep_pipeline.documents import in_json, read_as
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.planning import PLANNERS, Plan, plan, validate
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.orderings import DecidingComparison, Ordering, TreeOrdering, grains, joins_of, ln_measure
from cep_pipeline.planning.trees import positions_of
from cep_pipeline.statistics import LeafRate, Selectivity, Source, StatisticsSnapshot, estimate_statistics
from cep_pipeline.statistics.terms import terms_of
from tests import streams
from tests.answers import comparable, from_tables
from tests.oracle import evaluate
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, FIRST_SLICE, Statement, statements
from tests.planning import clauses
from tests.planning.all_plans import MODELS, holds_on
from tests.thoroughness import examples

every_planner = pytest.mark.parametrize("planner", sorted(PLANNERS))
EXTREMES = st.one_of(st.sampled_from([0.0, 1e-12, 1.0]), st.floats(0, 1))


@every_planner
@settings(deadline=None, max_examples=examples(60))
@given(statistics=clauses.clause_statistics(), model=st.sampled_from(sorted(MODELS)))
def test_a_plan_of_all_variables_on_any_statistics(planner: str, statistics: ClauseStatistics, model: str) -> None:
    cost = MODELS[model]
    found = PLANNERS[planner](statistics, cost)
    assert isinstance(found, TreeOrdering) == (PLANNERS[planner].makes_trees)
    assert sorted(found.order) == list(range(statistics.size))
    assert found == PLANNERS[planner](statistics, cost)
    for comparison in found.comparisons:
        assert comparison.holds(comparison.ln_chosen, comparison.ln_rejected)
        assert holds_on(comparison, statistics, cost)
        assert read_as(DecidingComparison, in_json(comparison), "", "", "") == comparison
        assert comparison.rejected != comparison.chosen
        if comparison.measure == "tree":
            assert isinstance(found, TreeOrdering)
            assert comparison.chosen == list(joins_of(found.tree))[comparison.step]
            assert sorted(positions_of(comparison.rejected)) == sorted(positions_of(comparison.chosen))
        else:
            assert positions_of(comparison.chosen)[-1] == found.order[comparison.step]


@every_planner
@settings(deadline=None, max_examples=examples(60))
@given(data=st.data(), model=st.sampled_from(sorted(MODELS)))
def test_where_a_comparison_no_longer_holds_the_plan_is_another(planner: str, data: st.DataObject, model: str) -> None:
    """Theorem 1 of the acep-invariants patent."""
    before = data.draw(clauses.clause_statistics(min_size=2, max_size=5))
    after = data.draw(clauses.clause_statistics(min_size=before.size, max_size=before.size))
    cost = MODELS[model]
    found = PLANNERS[planner](before, cost)
    again = PLANNERS[planner](after, cost)
    violated = [
        comparison
        for comparison in found.comparisons
        if not holds_on(comparison, after, cost)
        # Equal parts of a plan may add up to some grains, by which a side is dearer than the planner saw it.
        and not 0 < abs(_difference(comparison, after, cost)) < 1e-8
    ]
    if violated:
        assert _plan_of(again) != _plan_of(found)
    elif planner in ("event_frequency", "greedy"):  # Theorem 2: all their comparisons are there
        assert again.order == found.order


def _difference(comparison: DecidingComparison, statistics: ClauseStatistics, cost: CostModel) -> float:
    """By how much the chosen side measures more, 0 where it is equal to a grain."""
    sides = (comparison.chosen, comparison.rejected)
    chosen, rejected = (ln_measure(comparison.measure, side, statistics, cost) for side in sides)
    return 0.0 if grains(chosen) == grains(rejected) else chosen - rejected


def _plan_of(found: Ordering | TreeOrdering) -> Any:
    return found.tree if isinstance(found, TreeOrdering) else found.order


def snapshot_of(statement: Any, draw: st.DataObject) -> StatisticsSnapshot:
    """Any numbers for all that the patterns ask for; now and then a condition is not known."""
    leaves, conditions = terms_of(statement)
    known = [condition for condition in conditions if draw.draw(st.integers(0, 4))]
    return StatisticsSnapshot(
        stream=statement[0].stream,
        events=draw.draw(st.sampled_from([0, 1, 10**9])),
        start_us=0,
        end_us=draw.draw(st.sampled_from([0, 1, 10**6, 10**13])),
        rates=tuple(LeafRate(leaf.key, draw.draw(EXTREMES) * 10 ** draw.draw(st.integers(0, 12))) for leaf in leaves),
        selectivities=tuple(
            Selectivity(condition.key, draw.draw(EXTREMES), 10, 10, Source.ALL_PAIRS) for condition in known
        ),
    )


@every_planner
@settings(deadline=None, max_examples=examples(60))
@given(statement=statements(ANY_MATCH_LANGUAGE), draw=st.data())
def test_a_valid_plan_of_any_pattern_on_any_snapshot(planner: str, statement: Statement, draw: st.DataObject) -> None:
    patterns = parse_patterns(statement.text, streams.stream_schema(), statement.params)
    made = plan(patterns, snapshot_of(patterns, draw), planner=planner)
    validate(made, patterns)
    assert math.isfinite(made.ln_cost)
    again = Plan.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False)))
    assert again == made
    assert again.plan_id == made.plan_id
    assert patterns[0].name in made.explain("fused")
    for pattern_plan in made.patterns:
        for clause_plan in pattern_plan.clauses:
            assert all(other.ln_cost > -math.inf for other in clause_plan.alternatives)
            if planner in ("dp_left_deep", "dp_bushy"):
                others = [
                    other for other in clause_plan.alternatives if (other.tree is None) == (clause_plan.tree is None)
                ]
                assert all(other.ln_cost >= clause_plan.ln_cost - 1e-7 for other in others)


@every_planner
@settings(deadline=None, max_examples=examples(25))
@given(statement=statements(ANY_MATCH_LANGUAGE), rows=streams.rows(max_size=8))
def test_a_plan_from_estimates_of_any_stream(planner: str, statement: Statement, rows: list[Any]) -> None:
    patterns = parse_patterns(statement.text, streams.stream_schema(), statement.params)
    snapshot = estimate_statistics(patterns, streams.events_table(rows))
    made = plan(patterns, snapshot, planner=planner)
    validate(made, patterns)
    assert made == plan(patterns, snapshot, planner=planner)


@every_planner
def test_other_strategies_run_in_the_patterns_order_only(planner: str) -> None:
    text = "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { a.x < b.x } WITHIN 1 second"
    patterns = parse_patterns(text, streams.stream_schema())
    snapshot = estimate_statistics(patterns, streams.events_table([{"timestamp": 0, "kind": "A"}]))
    (made,) = plan(patterns, snapshot, planner=planner).patterns
    assert (made.planner, made.clauses[0].order) == ("trivial", ("a", "b"))


@every_planner
def test_one_event_needs_no_strategy(planner: str) -> None:
    text = "PATTERN A a WHERE strict_contiguity { a.x > 1 } WITHIN 1 second"
    patterns = parse_patterns(text, streams.stream_schema())
    snapshot = estimate_statistics(patterns, streams.events_table([]))
    assert plan(patterns, snapshot, planner=planner).patterns[0].clauses[0].order == ("a",)


@every_planner
@settings(deadline=None, max_examples=examples(25))
@given(statement=statements(FIRST_SLICE), rows=streams.rows(max_size=8))
def test_every_plan_gives_the_oracles_matches(planner: str, statement: Statement, rows: list[Any]) -> None:
    patterns = parse_patterns(statement.text, streams.stream_schema(), statement.params)
    events = streams.events_table(rows)
    made = plan(patterns, estimate_statistics(patterns, events), planner=planner)
    tables = detect(patterns, events, plan=made)
    assert comparable(from_tables(patterns, tables)) == comparable(evaluate(patterns, events))
