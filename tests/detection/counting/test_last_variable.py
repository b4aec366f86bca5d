"""Matches counted behind partial matches of all variables but the last one."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.counting import last_variable
from cep_pipeline.detection.fused import mechanism as fused
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

STATEMENTS = [
    "SEQ(A a, Ev b, B c) WHERE a.x < b.x AND a.y != b.y",
    "SEQ(A a, Ev b, B c, Ev d) WHERE a.x < b.x AND b.x >= c.x AND [id]",
    "AND(Ev a, Ev b, B c, Ev d) WHERE a.x + b.x > c.x AND a.y != c.y AND d.x > 2",
    "SEQ(AND(A a, B b), Ev c, A d) WHERE a.x < b.x AND (a.x < c.x OR b.y < c.y)",
    "SEQ(Ev a, Ev b, B c) WHERE corr(a.h, b.h) > 0 AND a.x < b.x",
    "SEQ(A a, Ev b, B c) WHERE a.x + b.x < c.x",
]


@settings(max_examples=examples(60), deadline=None)
@given(
    statement=st.sampled_from(STATEMENTS),
    rest=st.sampled_from(["2 seconds", "1 day", "4 EVENTS", "1 day TIES ANY", "2 seconds TIES STRICT"]),
    stream_rows=rows(max_size=12),
)
def test_counts_are_the_oracles(statement: str, rest: str, stream_rows: list[Row]) -> None:
    [pattern] = cep.parse_patterns(f"PATTERN {statement} WITHIN {rest}", stream_schema())
    table = events_table(stream_rows)
    with patch.object(last_variable, "LEAST_NS", -1.0):
        counted = cep.detect([pattern], table, output="count")["pattern_1"].to_pylist()
    assert counted == [{"pattern": "pattern_1", "count": str(len(evaluate([pattern], table)))}]


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("SEQ(A a, B b, A c) WHERE a.x < b.x AND a.id < b.id", 30 * 30 * 30),
        ("SEQ(A a, B b, A c) WHERE a.id < c.id AND a.x < c.x", 30 * 30 * 30),
    ],
)
def test_matches_are_not_found(text: str, matches: int) -> None:
    kinds = "A" * 30 + "B" * 30 + "A" * 30
    rows = [{"timestamp": n, "kind": kind, "x": n, "id": n // 30} for n, kind in enumerate(kinds)]
    patterns = cep.parse_patterns(f"PATTERN {text} WITHIN 1 day", stream_schema())
    with (
        patch.object(last_variable, "LEAST_NS", -1.0),
        patch.object(fused, "start", side_effect=AssertionError("matches are found")),
    ):
        counted = cep.detect(patterns, stream_schema().table(rows), output="count")
    assert counted["pattern_1"]["count"].to_pylist() == [str(matches)]
