"""Events in no match are removed beforehand: no answer changes, and nothing is enumerated that cannot be completed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.fused import reduction
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.patterns.pattern import Pattern
from tests.detection.fused.running import (
    boundaries_of,
    expected,
    found,
    pattern_of,
    prepare,
    reduce_every_run,
    run_clause,
    written_orders,
)
from tests.pattern_strategies import FIRST_SLICE, Statement, statements
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

FEATURES = replace(
    FIRST_SLICE, nested=True, negation=True, count_windows=True, max_operands=4, max_condition_variables=3
)


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    reduce_every_run(monkeypatch)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(statements(FEATURES), rows(max_size=14), st.data())
def test_reduced_runs_give_the_answer_of_the_oracle(
    statement: Statement, stream: list[Row], data: st.DataObject
) -> None:
    pattern = statement.pattern
    table = events_table(stream)
    orders = [data.draw(st.permutations(order)) for order in written_orders(pattern)]
    events = prepare(pattern, table)
    assert set(found(pattern, events, orders)) == set(expected(pattern, table))
    if len(pattern.clauses) == 1 and not pattern.clauses[0].negated:
        points = [None, *boundaries_of(events), None]
        parts = [found(pattern, events, orders, owned) for owned in pairwise(points)]
        assert sorted(match for part in parts for match in part) == expected(pattern, table)


COMPARED = ["a.x < b.x", "b.x <= c.x", "c.y < b.x", "b.s = a.s", "c.s < b.s", "c.x = b.x", "[id]", "n.x > b.x"]
LIMITS = ["a.x > 1", "a.x <= 4", "c.x < 5", "b.x >= 2.5", "c.y > 0.75", "b.s <= 'q'", "a.s = 'p'", "b.x = 3", "n.x < 5"]


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(["SEQ(A a, B b, C c)", "AND(A a, B b, C c)", "SEQ(A a, ~A n, B b, C c)", "SEQ(A a, A b, A c)"]),
    st.lists(st.sampled_from(COMPARED), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(LIMITS), min_size=1, max_size=2, unique=True),
    rows(max_size=14),
    st.data(),
)
def test_filters_that_follow_change_no_answer(
    structure: str, compared: list[str], limits: list[str], stream: list[Row], data: st.DataObject
) -> None:
    conditions = [one for one in (*compared, *limits) if "n." not in one or "~" in structure]
    pattern = pattern_of(f"PATTERN {structure} WHERE {' AND '.join(conditions or ['TRUE'])} WITHIN 4 seconds")
    table = events_table(stream)
    orders = [data.draw(st.permutations(order)) for order in written_orders(pattern)]
    assert set(found(pattern, prepare(pattern, table), orders)) == set(expected(pattern, table))


def test_events_that_fail_what_follows_are_removed_before_pairs_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "FEWEST_CANDIDATES", 1 << 62)
    pattern = pattern_of(
        "PATTERN SEQ(A a, B b, C c) WHERE a.x > 500 AND a.x < b.x AND b.y < c.y AND c.y < -1 WITHIN 200 us"
    )
    table = stream_schema().table(stream_of(1500))
    matches, tested = counts(pattern, table)
    monkeypatch.setattr(reduction, "FEWEST_COMBINATIONS", 1 << 62)
    assert counts(pattern, table)[0] == matches > 0
    assert 4 * tested < counts(pattern, table)[1]


def stream_of(count: int) -> list[Row]:
    random = np.random.default_rng(11)
    return [
        {
            "timestamp": place,
            "kind": "ABC"[int(random.integers(3))],
            "x": int(random.integers(1000)),
            "y": float(random.normal()),
            "id": int(random.integers(5)),
        }
        for place in range(count)
    ]


def counts(pattern: Pattern, table: object) -> tuple[int, int]:
    """The matches, and the candidates of all levels behind the first."""
    events = prepare(pattern, table)  # type: ignore[arg-type]
    run = run_clause(pattern, pattern.clauses[0], "abc", events)
    matches = sum(map(len, run))
    return matches, sum(count.candidates for count in run.counts[1:])


@pytest.mark.parametrize(
    "condition",
    [
        "b.x > a.x AND c.x > b.x + 950",
        "b.x > a.x + 600 AND c.x > b.x + 350",
        "[id] AND b.x > a.x + 800 AND c.x < a.x - 100",
        "b.id = a.id AND b.x > a.x + 800 AND c.y > b.y + 3",
    ],
)
def test_what_cannot_be_completed_is_not_enumerated(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = pattern_of(f"PATTERN SEQ(A a, B b, C c) WHERE {condition} WITHIN 200 us")
    table = stream_schema().table(stream_of(1500))
    matches, tested = counts(pattern, table)
    monkeypatch.setattr(reduction, "FEWEST_CANDIDATES", 1 << 62)
    assert counts(pattern, table)[0] == matches
    assert matches
    assert 4 * tested < counts(pattern, table)[1]


def test_runs_in_which_hardly_an_event_goes_are_not_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "WORTH_IT", 0.5)
    looked: list[float] = []
    share = reduction._kept_share
    monkeypatch.setattr(reduction, "_kept_share", lambda *asked: (looked.append(share(*asked)), looked[-1])[1])
    reduced: list[object] = []
    part = reduction._part
    monkeypatch.setattr(reduction, "_part", lambda *asked: (reduced.append(asked), part(*asked))[1])
    table = stream_schema().table(stream_of(600))
    assert counts(pattern_of("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 200 us"), table)[0]
    assert looked[0] > 0.5 and not reduced
    assert counts(pattern_of("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x - 900 WITHIN 200 us"), table)[0]
    assert looked[1] < 0.5 and reduced


def test_small_runs_are_not_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    reduced: list[object] = []
    find = reduction._pairs_of
    monkeypatch.setattr(reduction, "_pairs_of", lambda planned: (reduced.append(planned), find(planned))[1])
    pattern = pattern_of("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 200 us")
    assert counts(pattern, stream_schema().table(stream_of(300)))[0]
    assert not reduced


def test_shares_of_reduced_runs_are_not_taken_for_those_of_the_stream() -> None:
    pattern = pattern_of("PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x AND c.x > b.x + 950 WITHIN 200 us")
    counters = Counters()
    events = prepare(pattern, stream_schema().table(stream_of(600)))
    assert sum(map(len, MECHANISMS["fused"].find(pattern, [tuple("abc")], events, (None, None), counters)))
    nodes = sorted(counters.nodes.values(), key=lambda node: len(node.node))
    assert [node.tested for node in nodes] == [None, None, None]
    assert nodes[0].candidates == len(events.leaf_rows("A")) > nodes[0].passes
