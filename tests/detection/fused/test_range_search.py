"""Events that reject, found by keys, extremes and blocks: the oracle's matches, and those of a search that reads."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cep_pipeline.detection.fused import reduction
from tests.detection.fused.running import expected, found, pattern_of, prepare, written_orders
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

STRUCTURES = [
    "SEQ(A a, ~B n, C c)",
    "SEQ(~B n, A a, C c)",
    "SEQ(A a, C c, ~B n)",
    "AND(A a, ~B n, C c)",
    "SEQ(A a, B d, ~B n, C c)",
    "SEQ(A a, AND(~A n, C c))",
    "SEQ(A a, ~Ev n)",
]
EQUALITIES = [
    "n.id = a.id",
    "n.id = c.id",
    "a.id = c.id",
    "n.x = a.y",
    "n.s = c.s",
    "n.x + 1 = a.x",
    "n.y = a.y - c.y",
    "[id]",
]
INEQUALITIES = [
    "n.x > a.x + c.x",
    "n.y <= a.y - c.y",
    "n.x - a.x < c.x",
    "n.y * a.y > c.y",
    "n.y / a.x - a.y * c.y <= c.x",
    "a.x * (c.y - 2 * n.y) >= 1",
    "c.y - n.y >= a.y",
    "-n.y + a.y > c.y",
    "n.x < a.x",
    "n.y > c.y",
    "n.y != a.y",
    "n.y BETWEEN a.y AND c.y",
    "n.y BETWEEN a.y AND a.y + 1",
    "n.y < c.y AND n.x >= c.x",
    "n.x > a.x OR n.y < c.y",
    "n.x > a.x + c.x OR n.y + a.y < c.y AND n.x < 3",
    "n.y > a.y AND abs(n.x - c.x) < 2",
    "abs(n.y - a.y) < 1 AND n.x < c.x",
    "n.y BETWEEN c.y AND c.y + a.y AND n.x > a.x",
    "n.x = a.x + c.x AND n.y > c.y",
    "n.y * a.y > c.y AND n.x < c.x",
    "abs(n.y - a.y - c.y) < 1",
    "n.y / c.y > a.y OR n.x * c.x <= n.y + a.x AND n.x != a.x",
    "sqrt(n.y) >= c.y - a.y AND n.y + c.y < n.x + a.y",
]


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[*HealthCheck])
@given(
    st.sampled_from(STRUCTURES),
    st.lists(st.sampled_from(EQUALITIES), max_size=3, unique=True),
    st.lists(st.sampled_from(INEQUALITIES), max_size=2, unique=True),
    st.sampled_from(["ARRIVAL", "STRICT", "ANY"]),
    st.sampled_from(["3 seconds", "6 EVENTS", "5 EVENTS PARTITION BY s"]),
    rows(max_size=14),
    st.data(),
)
def test_what_rejects_is_found_as_by_the_oracle(
    structure: str, equal: list[str], unequal: list[str], ties: str, window: str, stream: list[Row], data: st.DataObject
) -> None:
    named = [f"({one})" if " OR " in one else one for one in (*equal, *unequal)]
    named = [one for one in named if "C c" in structure or "c." not in one]
    where = f"WHERE {' AND '.join(named)} " if named else ""
    pattern = pattern_of(f"PATTERN {structure} {where}WITHIN {window} TIES {ties}")
    table = events_table(stream)
    order = data.draw(st.permutations(written_orders(pattern)[0]))
    most_bytes = data.draw(st.sampled_from([0, reduction.MOST_BYTES]))
    with patch.object(reduction, "MOST_BYTES", most_bytes):
        assert found(pattern, prepare(pattern, table), [order], block_rows=5) == expected(pattern, table)


NUMBERS = [-np.inf, -2.0, -0.0, 0.0, 1.0, 1.0 + 2**-52, 3.0, 1e308, np.inf, np.nan]


def drawn_stream(seed: int, count: int, *, edges: bool) -> pa.Table:
    random = np.random.default_rng(seed)
    values = random.choice(NUMBERS, count) if edges else random.normal(size=count)
    return stream_schema().table(
        [
            {
                "timestamp": int(place // 3),
                "kind": "ABBBBC"[int(random.integers(6))],
                "x": int(random.integers(50)) if random.random() < 0.9 else None,
                "y": float(values[place]),
                "id": int(random.integers(3)),
            }
            for place in range(count)
        ]
    )


@pytest.mark.parametrize(
    ("structure", "condition"),
    [
        ("SEQ(A a, ~B n, C c)", "n.y > a.y + c.y"),
        ("SEQ(A a, ~B n, C c)", "a.y - n.y >= c.y"),
        ("SEQ(A a, ~B n, C c)", "n.y > a.y AND n.x < c.x"),
        ("SEQ(A a, ~B n, C c)", "n.y > a.y + 2 AND n.x < a.x"),
        ("SEQ(A a, ~B n, C c)", "(n.y < a.y - 2 OR n.x > c.x) AND n.y <= c.y"),
        ("SEQ(A a, ~B n, C c)", "n.y BETWEEN a.y AND a.y + 0.1"),
        ("SEQ(A a, ~B n, C c)", "n.y BETWEEN c.y AND c.y + 0.1"),
        ("SEQ(A a, ~B n, C c)", "n.y > c.y + 1.5 AND n.x <= c.x"),
        ("SEQ(A a, ~B n, C c)", "n.y < a.y AND n.x != c.x AND n.id = a.id"),
        ("SEQ(A a, ~B n, C c)", "n.y - a.y > c.y AND n.x < c.x - 10"),
        ("SEQ(A a, ~B n, C c)", "n.x = a.x + c.x AND a.id = c.id AND n.id = a.id"),
        ("SEQ(A a, ~B n, C c)", "n.x > a.x + 45 AND n.id = a.id"),
        ("SEQ(~B n, A a, C c)", "n.y > c.y + 2.5 AND n.x > c.x"),
        ("AND(A a, ~B n, C c)", "n.y + a.y < c.y"),
        ("SEQ(A a, ~B n, C c)", "n.y * a.y > c.y"),
        ("SEQ(A a, ~B n, C c)", "n.y < c.y / a.id - 2"),
        ("SEQ(A a, ~B n, C c)", "2 - n.y * a.y / (c.x + 1) < c.y"),
        ("SEQ(A a, ~B n, C c)", "n.y * a.y > c.y AND n.id = c.id"),
        ("SEQ(A a, ~B n, C c)", "n.x = a.x + c.x AND n.id = a.id"),
        ("AND(A a, ~B n, C c)", "n.y / a.x > c.y + 1 AND n.id = c.id"),
        ("SEQ(A a, ~B n, C c)", "n.y < c.y / a.id - 2 AND (n.x > a.x OR n.y > a.y)"),
        ("SEQ(A a, ~B n, C c)", "n.y > a.y + c.y AND n.id = a.id"),
        ("SEQ(~B n, A a, C c)", "n.y > a.y + c.y AND n.id = c.id"),
        ("SEQ(A a, ~B n, C c)", "n.id + a.id != c.id"),
        ("SEQ(A a, ~B n, C c)", "n.y = a.y + c.y"),
        ("AND(A a, ~B n, C c)", "2 * c.x + a.x = n.x"),
        ("SEQ(A a, ~B n, C c)", "abs(n.y - a.y) < 0.1 AND n.x < c.x"),
        ("SEQ(A a, ~B n, C c)", "abs(c.y - n.y) < 0.1 AND n.x < a.x"),
        ("SEQ(A a, ~B n, C c)", "abs(n.y - c.y) > 2 AND n.x < a.x"),
        ("SEQ(A a, ~B n, C c)", "n.y * a.y < c.y AND n.x > a.x + c.x"),
        ("SEQ(A a, ~B n, C c)", "n.y BETWEEN a.y + c.y AND c.y AND n.x < a.x"),
        ("SEQ(A a, ~B n, C c)", "n.x + 1 = c.x AND n.y < a.y"),
        ("SEQ(A a, ~B n, C c)", "n.x = a.x + c.x AND n.y < a.y"),
        ("SEQ(A a, ~B n, C c)", "(n.y > a.y + 1 AND n.x < c.x - 10) OR n.id = a.id + c.id"),
        ("SEQ(A a, ~B n, C c)", "n.x != c.x AND n.y < a.y - 1 AND n.x > a.x"),
        ("SEQ(A a, ~B n, C c)", "n.x + c.x > 60 AND n.y < a.y"),
        ("AND(A a, ~B n, C c)", "n.y < c.y - 1 AND n.x < a.x"),
        ("SEQ(~B n, A a, C c)", "n.y > c.y + 2.5 AND n.x > a.x AND n.id = a.id"),
        ("SEQ(A a, C c, ~B n)", "c.y - n.y < a.y OR n.y > a.y + 2 * c.y"),
        ("SEQ(A a, ~B n, C c)", "n.y * a.y > c.y AND n.x < c.x"),
        ("SEQ(A a, ~B n, C c)", "abs(n.y - a.y - c.y) < 0.01"),
        ("SEQ(A a, ~B n, C c)", "n.y / c.y > a.y + 2 AND n.x / a.x < c.y"),
        ("SEQ(A a, ~B n, C c)", "n.y * c.x - n.x * c.y > 40 + a.x"),
        ("SEQ(A a, ~B n, C c)", "sqrt(n.y) > sqrt(c.y) + a.y AND -n.x < c.x - 20"),
        ("SEQ(A a, ~B n, C c)", "abs(n.y * c.y) > 2 + a.y AND (n.x = c.x + 1 OR n.y > n.x * c.y)"),
        ("AND(A a, ~B n, C c)", "n.y > a.y AND n.y < c.y AND n.x > c.x"),
        ("SEQ(~B n, A a, C c)", "n.y * a.y > c.y + 1 AND n.x < c.x - 20"),
        ("SEQ(A a, B d, ~B n, C c)", "n.y > d.y AND n.x * a.x < c.x AND d.y > 1 AND a.y < c.y"),
        ("SEQ(A a, ~B n, ~A m, C c)", "n.y > a.y + 1 AND n.y > c.y AND m.y < c.y - 1 AND m.x > a.x"),
    ],
)
@pytest.mark.parametrize("edges", [False, True])
def test_extremes_and_reading_find_the_same(
    structure: str, condition: str, edges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = pattern_of(f"PATTERN {structure} WHERE {condition} WITHIN 100 us")
    table = drawn_stream(7, 700, edges=edges)
    by_extremes = found(pattern, prepare(pattern, table))
    monkeypatch.setattr(reduction, "MOST_BYTES", 0)
    read = found(pattern, prepare(pattern, table), block_rows=1000)
    assert by_extremes == read
    assert read
