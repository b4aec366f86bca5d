"""The facts that follow from conditions: what is found, and that it is true of every match."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.patterns.implications import Implications, implications_of
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics.terms import format_conjunct
from tests.detection.fused.running import expected, found, pattern_of, prepare, written_orders
from tests.streams import Row, events_table, rows
from tests.thoroughness import examples


def implied(
    condition: str, structure: str = "SEQ(A a, B b, C c)", window: str = "1 hour", ties: str = "ARRIVAL"
) -> Implications:
    pattern: Pattern = pattern_of(f"PATTERN {structure} WHERE {condition} WITHIN {window} TIES {ties}")
    return implications_of(pattern.clauses[0], pattern.window.time_us, pattern.ties)


@pytest.mark.parametrize(
    ("condition", "spans"),
    [
        ("b.timestamp - a.timestamp <= 10", [("a", "b", 10)]),
        ("b.timestamp - a.timestamp < 10", [("a", "b", 9)]),
        ("b.timestamp - a.timestamp < 9.5", [("a", "b", 9)]),
        ("b.timestamp - a.timestamp > 9.5", [("b", "a", -10)]),
        ("b.timestamp - a.timestamp >= 9.5", [("b", "a", -10)]),
        ("10 > b.timestamp - a.timestamp", [("a", "b", 9)]),
        ("b.timestamp < a.timestamp + 2 * 5", [("a", "b", 9)]),
        ("a.timestamp - 3 = b.timestamp + 1", [("b", "a", 4), ("a", "b", -4)]),
        ("b.timestamp - a.timestamp = 2.5", [("a", "b", 2), ("b", "a", -3)]),
        ("b.timestamp - a.timestamp BETWEEN 2 AND 7", [("b", "a", -2), ("a", "b", 7)]),
        ("-(a.timestamp - b.timestamp) <= 4", [("a", "b", 4)]),
        ("abs(b.timestamp - a.timestamp) <= 4", [("a", "b", 4), ("b", "a", 4)]),
        ("5 > abs(a.timestamp - b.timestamp + 1)", [("b", "a", 3), ("a", "b", 5)]),
        ("b.timestamp - a.timestamp <= 1.5 * 1 second", [("a", "b", 1_500_000)]),
    ],
)
def test_spans(condition: str, spans: list[tuple[str, str, int]]) -> None:
    said = [span for found in implied(condition).spans.values() for span in found]
    assert [(span.first, span.second, span.most_us) for span in said] == spans


@pytest.mark.parametrize(
    "condition",
    [
        "b.timestamp - a.timestamp != 10",
        "(b.timestamp - a.timestamp) / 1 second <= 2",
        "(b.timestamp - a.timestamp) * 3 <= 30",
        "(b.timestamp - a.timestamp) / 0 <= 30",
        "3 / (b.timestamp - a.timestamp) <= 30",
        "(b.timestamp - a.timestamp) / -2 <= 30",
        "7 - (b.timestamp - a.timestamp) / 2 >= 3",
        "b.timestamp - a.timestamp + 1.5 <= 5",
        "(b.timestamp - a.timestamp) / 10 <= 1e300",
        "abs(b.timestamp - a.timestamp) >= 10",
        "abs(b.timestamp - a.timestamp) / 2 <= 4",
        "b.timestamp / 2 - a.timestamp / 2 <= 4",
        "b.timestamp - a.timestamp NOT BETWEEN 2 AND 7",
        "b.timestamp - a.timestamp <= a.x",
        "b.timestamp - a.timestamp <= 5 OR a.x = 3",
        "b.timestamp + a.timestamp <= 5",
        "b.timestamp - 2 * a.timestamp <= 5",
        "b.timestamp - a.timestamp + a.timestamp - a.timestamp <= 5",
        "b.timestamp - a.timestamp <= 9000000000000000000",
        "b.timestamp / 1 - a.timestamp <= 9",
        "b.timestamp - a.timestamp <= c.timestamp - a.timestamp",
        "b.seq - a.seq <= 5",
    ],
)
def test_what_is_no_span(condition: str) -> None:
    assert not implied(condition).spans


def test_spans_are_added_up() -> None:
    found = implied("b.timestamp - a.timestamp <= 10 AND c.timestamp - b.timestamp <= 20")
    assert {(span.first, span.second): span.most_us for span in found.narrowed} == {("a", "c"): 30}
    found = implied("c.timestamp - a.timestamp <= 10")
    assert {(span.first, span.second): span.most_us for span in found.narrowed} == {("a", "b"): 10, ("b", "c"): 10}
    assert not implied("c.timestamp - a.timestamp <= 10", window="10 us").narrowed
    assert not implied("b.timestamp - a.timestamp <= 10 AND c.timestamp - b.timestamp <= 20", window="30 us").narrowed


@pytest.mark.parametrize(
    ("condition", "comparisons"),
    [
        ("a.x < b.x AND b.x < c.x", ["a.x < c.x"]),
        ("a.x <= b.x AND b.x < c.x", ["a.x < c.x"]),
        ("a.x <= b.y AND c.x >= b.y", ["a.x <= c.x"]),
        ("a.x < b.x AND b.x < c.x AND a.x < c.x", []),
        ("a.x < b.x AND b.x < c.x AND a.x <= c.x", ["a.x < c.x"]),
        ("a.x < b.x AND b.x != c.x", []),
        ("a.x < b.x AND b.y < c.x", []),
        ("a.x = b.x AND b.x = c.x", []),
        ("a.x = b.x AND b.x < c.x", ["a.x < c.x"]),
        ("a.s < b.s AND b.s < c.s", ["a.s < c.s"]),
        ("a.f = b.f AND b.f = c.f", []),
        ("a.x BETWEEN b.x AND c.x", ["b.x <= a.x", "b.x <= c.x", "a.x <= c.x"]),
        ("a.x < 3 AND b.x > 3", []),
        ("b.timestamp <= a.timestamp + 5 AND c.timestamp <= b.timestamp + 5", []),
        ("(a.x < b.x OR a.y = 1) AND b.x < c.x", []),
        ("a.x + 1 < b.x AND b.x < c.x + a.x", []),
    ],
)
def test_comparisons(condition: str, comparisons: list[str]) -> None:
    found = implied(condition)
    assert [format_conjunct(conjunct) for conjunct in found.comparisons] == comparisons
    assert not found.contradiction


@pytest.mark.parametrize(
    ("condition", "filters"),
    [
        ("a.x > 5 AND a.x < b.x", ["b.x > 5"]),
        ("a.x >= 5 AND a.x <= b.x AND b.x <= c.y", ["b.x >= 5", "c.y >= 5"]),
        ("a.x >= 5 AND a.x <= b.x AND b.x > 5", []),
        ("a.x > 5 AND a.x <= b.x AND b.x >= 5", ["b.x > 5"]),
        ("a.x > 5 AND a.x < b.x AND b.x > 7", []),
        ("a.x > 5 AND a.x > 6.5 AND a.x < b.x", ["b.x > 6.5"]),
        ("a.x = 5 AND a.x = b.x", ["b.x <= 5", "b.x >= 5"]),
        ("a.s < b.s AND b.s <= 'q'", ["a.s < 'q'"]),
        ("a.x > 5 AND a.x != b.x", []),
        ("a.x > 5 AND b.x > 3", []),
        ("b.x BETWEEN a.x AND 9", ["a.x <= 9", "b.x <= 9"]),
        ("[id] AND a.id < b.x AND c.id > 3", ["a.id > 3", "b.x > 3"]),
        ("n.x > 5 AND n.x < a.x", []),
        ("a.x IN (4, 6, 9) AND a.x < b.x", ["b.x > 4"]),
        ("a.s = b.s AND b.s IN ('p', 'r')", ["a.s <= 'r'", "a.s >= 'p'"]),
        ("a.x NOT IN (4, 6) AND a.x < b.x", []),
    ],
)
def test_filters(condition: str, filters: list[str]) -> None:
    found = implied(condition, "SEQ(A a, ~A n, B b, C c)")
    assert sorted(map(format_conjunct, found.filters)) == filters
    assert not found.contradiction


def test_what_events_agree_on_counts_as_equal() -> None:
    assert implied("[x] AND a.x < b.x").contradiction
    assert implied("a.x = b.x AND b.x = c.x AND c.x > a.x").contradiction
    found = implied("[x] AND a.x < b.y AND c.x >= b.id")
    assert "c.x < b.y" in map(format_conjunct, found.comparisons)


@pytest.mark.parametrize(
    "condition",
    [
        "a.x < 3 AND a.x > 5",
        "a.x < 3 AND a.x >= 3",
        "a.x = 1 AND a.x = 2.5",
        "a.s = 'p' AND a.s = 'q'",
        "a.x < a.x",
        "a.x < b.x AND b.x < a.x",
        "a.x < b.x AND b.x <= c.x AND c.x <= a.x",
        "a.x > b.x AND b.x > 7 AND a.x < 6",
        "a.x BETWEEN 5 AND 3",
        "a.y = 1 AND a.y > 1.5",
        "b.timestamp - a.timestamp <= 5 AND b.timestamp - a.timestamp >= 6",
        "a.timestamp - b.timestamp > 0",
        "b.timestamp - a.timestamp > 3600000000",
        "b.timestamp - a.timestamp = 1.5",
        "1 > 2",
        "1 + 1 > 3",
        "NOT TRUE",
        "a.x IN (1, 2) AND a.x > 2",
        "a.x IN (1, 3) AND a.x = 2",
        "a.s IN ('p', 'q') AND a.s > 'q'",
        "a.x NOT IN (1, 2) AND 1 = a.x",
        "a.x != a.x",
        "a.x = 1 AND a.x != 1",
        "a.x <= b.x AND b.x <= a.x AND a.x != b.x",
        "[x] AND c.x != a.x",
        "a.x NOT BETWEEN 0 AND 5 AND a.x = 3",
        "a.x IS NULL AND a.x < 3",
        "a.y IS NULL AND NOT a.y IS NULL",
        "(a.x > 5 OR b.x > 5) AND a.x < 3 AND b.x <= 5",
        "(a.x > 5 OR b.y IS NULL) AND a.x < 3 AND b.y != 7.5",
    ],
)
def test_contradictions(condition: str) -> None:
    assert implied(condition).contradiction
    pattern = pattern_of(f"PATTERN SEQ(A a, B b, C c) WHERE {condition} WITHIN 1 hour")
    table = events_table(
        [{"timestamp": place, "kind": "ABC"[place % 3], "x": place % 7, "y": 1.0, "s": "p"} for place in range(30)]
    )
    assert found(pattern, prepare(pattern, table)) == expected(pattern, table) == []


@pytest.mark.parametrize(
    ("condition", "contradicts"),
    [
        ("v[].x < 3 AND v[].x > 5", True),
        ("a.x < v[].x AND v[].x < a.x", True),
        ("a.x > v[].x AND v[].x >= c.x AND c.x > 5 AND a.x <= 5", True),
        ("[x] AND v[].x != c.x", True),
        ("v[].x IS NULL AND v[].x > a.x", True),
        ("v[1].x > v[1].x", True),
        ("v[v.LEN].x < v[v.LEN].x", True),
        ("v[].x != v[].x", True),
        ("v.LEN > v.LEN", True),
        ("avg(v[].x) != avg(v[].x)", True),
        ("v[1].x < 3 AND v[1].x > a.x AND a.x > 5", True),
        ("v[v.LEN].x = 4 AND v[v.LEN].x IS NULL", True),
        ("[x] AND v[1].x != v[v.LEN].x", True),
        ("v[i].x > v[i].x", False),
        ("a.x > avg(v[..i-1].x) AND a.x < avg(v[..i-1].x)", False),
        ("v[1].x != v[v.LEN].x", False),
        ("v[1].x < 3 AND v[].x > 5", False),
        ("v[i].x < v[i-1].x AND v[i].x > v[i-1].x", False),
        ("a.x < v[].x AND v[].x < c.x", False),
        ("v[1].x > 5 AND v[v.LEN].x < 3", False),
        ("v[i].x IS NULL AND v[i].x > v[i-1].x", False),
        ("v[i].x IS NULL AND v[i].x IS NOT NULL AND v[i].x > v[1].x", False),
        ("v.LEN < 3 AND v[].x > 5 AND a.x < 3", False),
    ],
)
def test_contradictions_about_each_event_of_a_list(condition: str, contradicts: bool) -> None:
    assert bool(implied(condition, "SEQ(A a, B+ v[], C c)").contradiction) is contradicts
    pattern = pattern_of(f"PATTERN SEQ(A a, B+ v[], C c) WHERE {condition} WITHIN 1 hour")
    kinds = "ABBC" * 2
    table = events_table([{"timestamp": at, "kind": kind, "x": at % 3 + 4} for at, kind in enumerate(kinds)])
    count = len(set(expected(pattern, table)))
    assert len(cep.detect(pattern, table)[pattern.name]) == count and not (contradicts and count)


@pytest.mark.parametrize(
    "condition",
    [
        "a.x < 5 AND a.x > 3",
        "a.x <= 3 AND a.x >= 3.0",
        "a.x = 1 AND a.x = 1.0",
        "(a.x < 3 OR b.x = 1) AND a.x > 5",
        "a.x < 3 AND b.x > 5",
        "n.x < 3 AND n.x > 5",
        "a.y <= b.y AND b.y <= a.y",
        "b.timestamp - a.timestamp >= 3600000000",
        "a.timestamp - b.timestamp >= 0",
        "a.x IN (1, 3) AND a.x = 3.0",
        "a.x NOT IN (1, 3) AND a.x >= 1",
        "a.x <= b.x AND a.x != b.x",
        "a.x NOT BETWEEN 0 AND 5 AND a.x >= 3",
        "a.x IS NOT NULL AND a.x < 3",
        "a.y IS NULL AND a.x > 3",
        "coalesce(a.x, 1) > 3 AND a.x IS NULL",
        "(a.x > 5 OR b.x > 5) AND a.x < 3",
    ],
)
def test_what_is_no_contradiction(condition: str) -> None:
    assert not implied(condition, "SEQ(A a, ~A n, B b, C c)").contradiction
    assert implied("a.timestamp - b.timestamp >= 0", ties="STRICT").contradiction


SPANS = [
    "b.timestamp - a.timestamp <= 1000000",
    "c.timestamp - b.timestamp < 2000000",
    "c.timestamp - a.timestamp >= 1000000",
    "c.timestamp - a.timestamp BETWEEN 0 AND 2500000",
    "b.timestamp + 1000000 = c.timestamp",
    "a.timestamp >= b.timestamp",
    "n.timestamp - a.timestamp <= 1000000",
    "n.timestamp > c.timestamp - 1500000",
    "n.timestamp = b.timestamp",
    "abs(c.timestamp - a.timestamp) <= 2000000",
    "(b.timestamp - a.timestamp) / 1 second < 1.5",
    "1 <= (c.timestamp - b.timestamp) / 1000000",
]
COMPARISONS = [
    "a.x < b.x",
    "b.x < c.x",
    "a.y <= c.x",
    "c.x < b.x",
    "c.y < a.y",
    "b.x >= 2",
    "a.x < 4",
    "a.id = b.id",
    "[id]",
    "b.s = c.s",
    "n.id = c.id",
    "n.x > a.x",
    "a.x IN (1, 3)",
    "b.x NOT IN (1, 2)",
    "a.x != c.x",
    "a.x IS NULL",
    "(a.x > b.x OR c.x = 1)",
]
STRUCTURES = [
    "SEQ(A a, B b, C c)",
    "AND(A a, B b, C c)",
    "SEQ(A a, ~B n, B b, C c)",
    "SEQ(AND(A a, B b), ~A n, C c)",
    "AND(SEQ(A a, B b), C c, ~B n)",
    "SEQ(~A n, A a, B b, C c)",
    "SEQ(A a, B b, C c, ~A n)",
]


@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(STRUCTURES),
    st.lists(st.sampled_from(SPANS), max_size=3, unique=True),
    st.lists(st.sampled_from(COMPARISONS), max_size=4, unique=True),
    st.sampled_from(["ARRIVAL", "STRICT", "ANY"]),
    st.sampled_from(["3 seconds", "6 EVENTS", "5 EVENTS PARTITION BY s"]),
    rows(max_size=14),
    st.data(),
)
def test_no_answer_changes(
    structure: str,
    spans: list[str],
    compared: list[str],
    ties: str,
    window: str,
    stream: list[Row],
    data: st.DataObject,
) -> None:
    named = [one for one in (*spans, *compared) if " n" in structure or not one.startswith("n.")]
    where = f"WHERE {' AND '.join(named)} " if named else ""
    pattern = pattern_of(f"PATTERN {structure} {where}WITHIN {window} TIES {ties}")
    table = events_table(stream)
    order = data.draw(st.permutations(written_orders(pattern)[0]))
    answer = expected(pattern, table)
    events = prepare(pattern, table)
    assert found(pattern, events, [order], block_rows=5) == answer
    assert found(pattern, events, [order]) == answer  # as the first run was laid out
