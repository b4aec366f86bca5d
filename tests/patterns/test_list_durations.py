"""Bounds on the time of the last event of a list: they are asked of each of its events, and change no answer."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.questions.explained_mechanisms import explained_choice
from cep_pipeline.statistics.terms import format_conjunct
from tests.detection.fused.running import expected, pattern_of
from tests.streams import Row, events_table, rows
from tests.thoroughness import examples


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        ("v[v.LEN].timestamp - a.timestamp <= 5", ["v[].timestamp - a.timestamp <= 5"]),
        ("a.timestamp + 5 > v[v.LEN].timestamp", ["a.timestamp + 5 > v[].timestamp"]),
        ("v[v.LEN].timestamp - v[1].timestamp <= 5", ["v[i].timestamp - v[1].timestamp <= 5"]),
        ("abs(v[1].timestamp - v[v.LEN].timestamp) < 5", ["abs(v[1].timestamp - v[i].timestamp) < 5"]),
    ],
)
def test_a_bound_on_the_last_event_is_asked_of_each(condition: str, asked: list[str]) -> None:
    pattern = pattern_of(f"PATTERN SEQ(A a, B+ v[]) WHERE {condition} WITHIN 1 hour")
    [clause], [written] = pattern.clauses, pattern.written_clauses
    assert list(map(format_conjunct, clause.conjuncts)) == asked != list(map(format_conjunct, written.conjuncts))
    said = explained_choice([pattern])[pattern.name]
    assert f"; {asked[-1]} is asked of a list as it grows" in said and "is a key" not in said


@pytest.mark.parametrize(
    "condition",
    [
        "v[v.LEN].timestamp - a.timestamp >= 5",
        "v[v.LEN].timestamp - a.timestamp = 5",
        "abs(v[v.LEN].timestamp - a.timestamp) <= 5",
        "v[v.LEN].timestamp - v[1].timestamp <= -5",
        "v[v.LEN].timestamp - v[1].timestamp > 5",
        "v[v.LEN].x - v[1].x <= 5",
        "max(v[].x) - min(v[].x) <= 5",
        "v[i].timestamp - max(v[..i-1].timestamp) <= 5",
        "v[v.LEN].timestamp - a.timestamp <= a.x",
        "v[v.LEN].timestamp - a.timestamp <= 5 OR a.x = 1",
        "n.timestamp - v[v.LEN].timestamp <= 5",
        "v[v.LEN].timestamp - v[i].timestamp <= 5",
        "w[w.LEN].timestamp - v[1].timestamp <= 5",
        "v[v.LEN].x BETWEEN 2 AND 5",
    ],
)
def test_what_is_no_bound_on_each_stays(condition: str) -> None:
    pattern = pattern_of(f"PATTERN SEQ(A a, ~A n, B+ v[], B+ w[]) WHERE {condition} WITHIN 1 hour")
    assert pattern.clauses[0].conjuncts == pattern.written_clauses[0].conjuncts


def test_a_list_beyond_the_bound_is_not_grown() -> None:
    table = events_table([{"timestamp": place * 1_000_000, "kind": "AB"[place > 0], "x": 1} for place in range(60)])
    for condition, count in (
        ("v[v.LEN].timestamp - a.timestamp <= 3 seconds", 7),
        ("v[v.LEN].timestamp - v[1].timestamp <= 3 seconds", 56 * 8 + 4 + 2 + 1),
    ):
        pattern = pattern_of(f"PATTERN SEQ(A a, B+ v[]) WHERE {condition} WITHIN 1 hour")
        for mechanism in MECHANISMS.keys() - {"evaluation_tree"}:  # it makes all lists first: of 59 events 2^59
            found, metrics = cep.detect(pattern, table, mechanism=mechanism, metrics=True)
            assert len(found[pattern.name]) == count
            assert sum(node.candidates for node in metrics.nodes) < 60 * 60 * 10


CONDITIONS = [
    "v[v.LEN].timestamp - a.timestamp <= 1 second",
    "v[v.LEN].timestamp < a.timestamp + 1500 ms",
    "(v[v.LEN].timestamp - v[1].timestamp) / 1 second <= 1",
    "v[v.LEN].timestamp - v[1].timestamp BETWEEN 500 ms AND 2 seconds",
    "a.timestamp >= v[v.LEN].timestamp",
    "v[v.LEN].timestamp - v[1].timestamp <= 0",
    "max(v[].timestamp) - min(v[].timestamp) < 1 second",
    "max(v[].timestamp) - a.timestamp <= 500 ms",
    "v[i].x >= v[i-1].x",
    "v[v.LEN].x > a.x",
    "v[1].x = a.x",
    "v.LEN >= 2",
    "n.x > v[v.LEN].x",
    "sum(v[].x) > 3",
]


@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(
        ["SEQ(A a, B+ v[])", "AND(A a, B+ v[])", "SEQ(B+ v[], A a)", "SEQ(A a, ~A n, B+ v[])", "SEQ(A a, B* v[])"]
    ),
    st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=3, unique=True),
    st.sampled_from(["ARRIVAL", "STRICT", "ANY"]),
    st.sampled_from(["3 seconds", "6 EVENTS"]),
    rows(max_size=9),
)
def test_no_answer_changes(structure: str, conditions: list[str], ties: str, window: str, stream: list[Row]) -> None:
    named = [one for one in conditions if " n" in structure or not one.startswith("n.")] or ["a.x > 0"]
    pattern = pattern_of(f"PATTERN {structure} WHERE {' AND '.join(named)} WITHIN {window} TIES {ties}")
    table = events_table(stream)
    count = len(set(expected(pattern, table)))
    for mechanism in MECHANISMS:
        try:
            found = cep.detect(pattern, table, mechanism=mechanism)[pattern.name]
            counted = cep.detect(pattern, table, mechanism=mechanism, output="count")[pattern.name]
        except UnsupportedPattern:
            continue
        assert len(found) == count and counted["count"].to_pylist() == [str(count)], mechanism
