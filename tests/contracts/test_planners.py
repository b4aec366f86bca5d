"""What every planner must do, whatever the pattern and the statistics."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.detect import detect
from cep_pipeline.errors import PlanError
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.planning import PLANNERS, Plan, plan, validate
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import THROUGHPUT
from cep_pipeline.statistics import LeafRate, Selectivity, Source, StatisticsSnapshot, estimate_statistics
from cep_pipeline.statistics.estimate import terms_of
from tests import streams
from tests.answers import comparable, from_tables
from tests.oracle import evaluate
from tests.pattern_strategies import ANY_MATCH_LANGUAGE, FIRST_SLICE, Statement, statements
from tests.planning import clauses

# A condition over several branches of an OR constrains nothing, and drawn statements have such.
pytestmark = pytest.mark.filterwarnings("ignore::cep_pipeline.language.source.PatternWarning")

every_planner = pytest.mark.parametrize("planner", sorted(PLANNERS))
EXTREMES = st.one_of(st.sampled_from([0.0, 1e-12, 1.0]), st.floats(0, 1))


@every_planner
@settings(deadline=None)
@given(statistics=clauses.clause_statistics())
def test_an_order_of_all_variables_on_any_statistics(planner: str, statistics: ClauseStatistics) -> None:
    ordering = PLANNERS[planner](statistics, THROUGHPUT)
    assert sorted(ordering.order) == list(range(statistics.size))
    assert ordering == PLANNERS[planner](statistics, THROUGHPUT)


@every_planner
@settings(deadline=None)
@given(statistics=clauses.clause_statistics())
def test_comparisons_belong_to_the_order_and_hold(planner: str, statistics: ClauseStatistics) -> None:
    ordering = PLANNERS[planner](statistics, THROUGHPUT)
    for comparison in ordering.comparisons:
        assert comparison.chosen[-1] == ordering.order[comparison.step]
        assert comparison.rejected[-1] != comparison.chosen[-1]
        assert comparison.holds(comparison.ln_chosen, comparison.ln_rejected)


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
@settings(deadline=None, max_examples=60)
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
            if planner == "dp_left_deep":
                assert all(other.ln_cost >= clause_plan.ln_cost - 1e-9 for other in clause_plan.alternatives)


@every_planner
@settings(deadline=None, max_examples=25)
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
    if planner == "trivial":
        assert plan(patterns, snapshot, planner=planner).patterns[0].clauses[0].order == ("a", "b")
    else:
        with pytest.raises(PlanError, match=rf"{planner}.*skip_till_next_match.*'trivial'"):
            plan(patterns, snapshot, planner=planner)


@every_planner
def test_one_event_needs_no_strategy(planner: str) -> None:
    text = "PATTERN A a WHERE strict_contiguity { a.x > 1 } WITHIN 1 second"
    patterns = parse_patterns(text, streams.stream_schema())
    snapshot = estimate_statistics(patterns, streams.events_table([]))
    assert plan(patterns, snapshot, planner=planner).patterns[0].clauses[0].order == ("a",)


@every_planner
@settings(deadline=None, max_examples=25)
@given(statement=statements(FIRST_SLICE), rows=streams.rows(max_size=8))
def test_every_plan_gives_the_oracles_matches(planner: str, statement: Statement, rows: list[Any]) -> None:
    patterns = parse_patterns(statement.text, streams.stream_schema(), statement.params)
    events = streams.events_table(rows)
    made = plan(patterns, estimate_statistics(patterns, events), planner=planner)
    tables = detect(patterns, events, plan=made)
    assert comparable(from_tables(patterns, tables)) == comparable(evaluate(patterns, events))
