"""The eager NFA counts as the paper does, whatever room its memory begins with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.conditions.program import CellRing
from cep_pipeline.detection.mechanisms import Metrics
from cep_pipeline.detection.network import memory, run
from cep_pipeline.errors import DataError, PlanError, UnsupportedPattern
from cep_pipeline.statistics.observed import NodeCounts
from tests.answers import comparable, from_tables
from tests.oracle import evaluate
from tests.pattern_strategies import Features, statements
from tests.streams import SECOND, events_table, rows, stream_schema
from tests.thoroughness import examples


def events_of(text: str) -> list[dict[str, Any]]:
    """`a3 b7`: an event a second of type A with x = 3, then one of type B with x = 7."""
    return [
        {"timestamp": place * SECOND, "kind": word[0].upper(), "x": int(word[1:])}
        for place, word in enumerate(text.split())
    ]


def metrics_of(text: str, stream: str) -> tuple[list[list[int]], Metrics]:
    """The seqs of each match, and what was counted."""
    patterns = cep.parse_patterns(text, stream_schema())
    tables, metrics = cep.detect(patterns, events_table(events_of(stream)), mechanism="eager_nfa", metrics=True)
    [table] = tables.values()
    return [[binding["seq"] for binding in row] for row in table.column("bindings").to_pylist()], metrics


def test_the_example_of_the_paper() -> None:
    """DEBS'15, section 1: three prefixes after the a's, all five pairs but (a3, b1) after the b's, two matches."""
    text = "NAME p PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 1 hour"
    found, metrics = metrics_of(text, "a3 a5 a8 b7 b13 c9")
    assert found == [[0, 3, 5], [1, 3, 5]]
    assert metrics.peak_instances == 3 + 5
    assert metrics.condition_evaluations == 2 * 3 + 5
    assert metrics.events_buffered == 0
    assert metrics.nodes == (
        NodeCounts("p", 0, ("a",), candidates=3, passes=3, created=3),
        NodeCounts("p", 0, ("a", "b"), candidates=6, passes=5, created=5),
        NodeCounts("p", 0, ("a", "b", "c"), candidates=5, passes=2, created=0),
    )


def test_it_is_counted_which_conjuncts_lead_to_a_state() -> None:
    text = "PATTERN AND(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x AND a.x < c.x WITHIN 1 hour"
    _, metrics = metrics_of(text, "a3 b7 c9")
    tested = {node.node: node.tested for node in metrics.nodes}
    assert [sorted(conjunct.variables) for conjunct in tested["a", "c"] or ()] == [["a", "c"]]
    assert tested["a", "b", "c"] is None  # it is reached by edges that test different ones


def test_instances_die_with_their_window() -> None:
    found, metrics = metrics_of("PATTERN SEQ(A a, B b) WITHIN 2 seconds", "a1 a2 a3 a4 a5 b1")
    assert found == [[3, 5], [4, 5]]
    assert metrics.peak_instances == 3


def test_each_list_is_an_instance() -> None:
    found, metrics = metrics_of("PATTERN SEQ(A a, B+ b[], C c) WITHIN 1 hour", "a1 b1 b2 b3 c1")
    assert len(found) == 2**3 - 1
    assert metrics.peak_instances == 1 + 2**3 - 1
    assert [node.created for node in metrics.nodes] == [1, 7, 0]


def test_events_that_conditions_of_their_own_exclude_are_no_candidates() -> None:
    _, metrics = metrics_of("PATTERN SEQ(A a, B b) WHERE a.x > 1 WITHIN 1 hour", "a1 a2 b1 c5")
    assert metrics.condition_evaluations == 2  # of each event of type A, when it is read
    assert metrics.nodes[0].candidates == 1


def test_instances_of_other_partitions_are_no_candidates() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE [x] WITHIN 1 hour"
    found, metrics = metrics_of(text, "a1 a2 a1 b2 b1")
    assert found == [[1, 3], [0, 4], [2, 4]]
    assert [node.candidates for node in metrics.nodes] == [3, 3]
    assert metrics.peak_instances == 3


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), stream=rows(min_size=4))
def test_memory_that_is_full_grows_without_a_trace(data: st.DataObject, stream: list[dict[str, Any]]) -> None:
    features = Features(nested=True, kleene=True, max_operands=3, ties=("ARRIVAL", "STRICT"))
    pattern = data.draw(statements(features)).pattern
    table = events_table(stream)
    expected, counted = cep.detect([pattern], table, mechanism="eager_nfa", metrics=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "CellRing", lambda *of: CellRing(*of, size=1))
        patch.setattr(memory, "ROOM", 1)
        patch.setattr(run, "FIRST_FOUND_ALONE", 1)
        found, again = cep.detect([pattern], table, mechanism="eager_nfa", metrics=True)
    matches = comparable(evaluate([pattern], table))
    assert comparable(from_tables([pattern], found)) == comparable(from_tables([pattern], expected)) == matches
    assert again == counted


def test_too_many_instances_are_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "ROOM", 2)
    monkeypatch.setattr(memory, "MOST_WORDS", 6 * 4)
    text = "PATTERN SEQ(A a, B b) WITHIN 1 hour"
    assert len(metrics_of(text, "a1 a2 a3 a4 b1")[0]) == 4
    with pytest.raises(DataError, match="a state of the eager automaton holds more than 4 instances"):
        metrics_of(text, "a1 a2 a3 a4 a5 b1")


def test_conditions_on_indexes_are_tested_from_the_second_element_on() -> None:
    text = "PATTERN SEQ(A a, B+ b[]) WHERE b[i].x > b[i-1].x AND b[].x > a.x WITHIN 1 hour"
    found, metrics = metrics_of(text, "a1 b2 b3")
    assert found == [[0, 1], [0, 1, 2], [0, 2]]
    assert metrics.condition_evaluations == 1 + 1 + 2


def test_another_order_is_refused() -> None:
    patterns = cep.parse_patterns("PATTERN SEQ(A a, B b, B c) WITHIN 1 hour", stream_schema())
    table = events_table(events_of("a1 a1 a1 a1 b1"))
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, table), planner="event_frequency")
    with pytest.raises(PlanError, match="in the pattern's order, a, b, c"):
        cep.detect(patterns, table, plan=plan, mechanism="eager_nfa")


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("PATTERN SEQ(A a, B b) WITHIN 1 hour TIES ANY", "TIES ANY"),
        ("PATTERN SEQ(A a, B b) WHERE skip_till_next_match { [x] } WITHIN 1 hour", "the strategy skip_till_next_match"),
    ],
)
def test_what_it_does_not_run_is_refused_by_name(text: str, feature: str) -> None:
    patterns = cep.parse_patterns(text, stream_schema())
    with pytest.raises(UnsupportedPattern) as refusal:
        cep.detect(patterns, events_table(events_of("a1 b1")), mechanism="eager_nfa")
    assert (refusal.value.mechanism, refusal.value.feature) == ("eager_nfa", feature)
