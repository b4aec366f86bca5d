"""Blocks, resuming, counts, what is refused, and how much memory a run takes."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest

from benchmarks.stock_stream import generate_stock_stream
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.fused import kernel
from cep_pipeline.errors import PlanError, UnsupportedPattern
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from tests.detection.fused.running import (
    expected,
    found,
    pattern_of,
    prepare,
    run_clause,
)
from tests.streams import events_table

STOCK = StreamSchema.from_dict(
    {
        "base_type": "Stock",
        "type_attribute": "ticker",
        "attributes": {"ticker": "string", "price": "float64", "diff": "float64", "volume": "int64"},
    }
)
W1 = "PATTERN SEQ(S00 a, S07 b, S15 c) WHERE a.diff < b.diff AND b.diff < c.diff WITHIN 2000 ms"
W3 = (
    "PATTERN SEQ(S02 a, ~S12 b, S06 c, S13 d) WHERE a.diff < c.diff AND c.diff < d.diff AND b.diff < a.diff "
    "WITHIN 1500 ms"
)
W2 = "PATTERN AND(S05 a, S08 b, S11 c, S14 d) WHERE a.diff < b.diff AND c.diff < d.diff WITHIN 500 ms"


def long_ranges(count: int = 40) -> list[dict[str, Any]]:
    """As many A, then B, then C, all in one window: ranges are longer than any small block."""
    return [
        {"timestamp": place, "kind": "ABC"[place // count], "x": (place * 7919) % 101, "y": float(place % 13)}
        for place in range(3 * count)
    ]


@pytest.mark.parametrize("block_rows", [1, 2, 3, 15, 16, 17, 31, 33, 1000])
@pytest.mark.parametrize("order", ["abc", "cba", "bac"])
def test_a_block_that_fills_inside_a_range_goes_on_there(block_rows: int, order: str) -> None:
    pattern = pattern_of("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.y < c.y WITHIN 1 second")
    events = prepare(pattern, events_table(long_ranges(20)))
    reference = run_clause(pattern, pattern.clauses[0], order, events)
    rows = np.concatenate([block.rows for block in reference], axis=1)
    run = run_clause(pattern, pattern.clauses[0], order, events, block_rows=block_rows)
    blocks = [block.rows for block in run]
    assert all(block.shape[1] <= block_rows for block in blocks)
    assert np.array_equal(np.concatenate(blocks, axis=1), rows)
    assert run.counts == reference.counts
    assert rows.shape[1] > 500


def test_without_conditions_every_candidate_passes() -> None:
    pattern = pattern_of("PATTERN SEQ(A a, B b, C c) WITHIN 1 second")
    events = prepare(pattern, events_table(long_ranges(30)))
    run = run_clause(pattern, pattern.clauses[0], "abc", events, block_rows=100)
    assert sum(len(block) for block in run) == 30**3
    assert [(count.bound[-1], count.candidates, count.passes) for count in run.counts] == [
        ("a", 30, 30),
        ("b", 900, 900),
        ("c", 27000, 27000),
    ]


def test_counts_are_those_of_the_definition() -> None:
    pattern = pattern_of("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x % 2 = 0 AND b.y < c.y WITHIN 50 us")
    stream = long_ranges(30)
    table = events_table(stream)
    run = run_clause(pattern, pattern.clauses[0], "abc", prepare(pattern, table), block_rows=7)
    matches = sum(len(block) for block in run)
    of = {kind: [row for row in stream if row["kind"] == kind] for kind in "ABC"}
    of["B"] = [row for row in of["B"] if row["x"] % 2 == 0]
    near = [(a, b) for a in of["A"] for b in of["B"] if b["timestamp"] - a["timestamp"] <= 50]
    passed = [(a, b) for a, b in near if a["x"] < b["x"]]
    last = [(b, c) for a, b in passed for c in of["C"] if c["timestamp"] - a["timestamp"] <= 50]
    assert [(count.candidates, count.passes) for count in run.counts] == [
        (30, 30),
        (len(near), len(passed)),
        (len(last), matches),
    ]
    assert matches == sum(b["y"] < c["y"] for b, c in last) > 0


def test_a_run_can_be_repeated_and_its_blocks_kept() -> None:
    pattern = pattern_of("PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 1 second")
    events = prepare(pattern, events_table(long_ranges()))
    run = run_clause(pattern, pattern.clauses[0], "ab", events, block_rows=50)
    kept = list(run)
    copies = [block.rows.copy() for block in run]
    assert np.array_equal(np.hstack([block.rows for block in kept]), np.hstack(copies))
    assert len(kept) > 5


ODD = (
    "PATTERN SEQ(A a, B b, C c, A d) WHERE a.x < b.x AND b.y <= c.y AND d.x > a.x WITHIN 60 us",
    "PATTERN AND(A a, B b, C c) WHERE a.x < b.x AND b.x + a.x < 2 * c.x AND NOT (a.y = 3 OR c.x >= b.x) WITHIN 50 us",
    "PATTERN AND(A a, B b, A c) WHERE sqrt(abs(a.x - b.x)) / (b.y - c.y) != 1 AND c.x BETWEEN a.x - 9 AND b.x "
    "WITHIN 30 us TIES ANY",
    "PATTERN AND(A a, B b) WHERE -b.x * (a.y - b.y) >= b.x / b.y - 7 AND (abs(b.y) = a.y OR b.x - a.x != a.y) "
    "WITHIN 90 us",
    "PATTERN SEQ(A a, ~C n, B b) WHERE n.x > a.x AND n.y < b.y AND a.y != b.y WITHIN 25 us",
    "PATTERN SEQ(A a, ~C n, B b, ~C m, A c) WHERE n.x > a.x + b.x - 9 AND m.y - b.y > c.y AND a.x <= c.x WITHIN 40 us",
    "PATTERN SEQ(~C n, A a, B b) WHERE n.x = a.x + b.x - 9 AND n.y = b.y WITHIN 60 us",
)
ROWS = [
    {"timestamp": place // 2, "kind": "ABC"[place * 7 % 3], "x": place * 7919 % 31, "y": float(place % 13)}
    for place in range(80)
]


@pytest.mark.parametrize("text", ODD)
def test_a_call_that_has_tested_enough_returns_for_an_interrupt(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = pattern_of(text)
    table = events_table(ROWS)
    answer = expected(pattern, table)
    calls: list[int] = []
    call = kernel._call
    monkeypatch.setattr(kernel, "_call", lambda *words: (calls.append(1), call(*words))[1])
    for budget in (0, 1, 100):
        calls.clear()
        monkeypatch.setattr(kernel, "CANDIDATES_A_CALL", budget)
        assert found(pattern, prepare(pattern, table)) == answer
        assert len(calls) > (20 if budget == 0 else 2)
    assert answer


@pytest.mark.parametrize(
    ("text", "order", "length", "matches"),
    [
        (W1, "cba", 10_000, 15_984),
        (W2, "dcba", 10_000, 13_474),
        *((W3, "".join(order), 10_000, 8_136) for order in permutations("acd")),
        (W3, "dca", 100_000, 72_549),
    ],
)
def test_the_benchmark_patterns_have_their_published_counts(text: str, order: str, length: int, matches: int) -> None:
    (pattern,) = parse_patterns(text, STOCK)
    events = prepare(pattern, generate_stock_stream(length))
    assert sum(len(block) for block in run_clause(pattern, pattern.clauses[0], order, events)) == matches


def test_memory_does_not_grow_with_the_number_of_matches() -> None:
    def peak(seconds: int) -> tuple[int, int]:
        pattern = pattern_of(f"PATTERN SEQ(A a, B b, C c) WITHIN {seconds} seconds")
        rows = [{"timestamp": place * 100_000, "kind": "ABC"[place % 3], "x": place} for place in range(3000)]
        events = prepare(pattern, events_table(rows))
        events.timestamps  # noqa: B018
        matches = 0
        tracemalloc.start()
        for block in run_clause(pattern, pattern.clauses[0], "abc", events, block_rows=4096):
            matches += len(block)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return matches, most

    peak(1)
    few, small = peak(2)
    many, large = peak(60)
    assert many > 500 * few
    # A few blocks of 4096 rows and three places are alive at a time, and never the 17 million rows of all matches.
    assert large < small + 8 * (4096 * 3 * 8)


def test_slices_of_a_longer_stream_read_their_look_back_only() -> None:
    pattern = pattern_of("PATTERN AND(A a, B b, C c) WHERE a.x != c.x WITHIN 20 us TIES ANY")
    rows = [{"timestamp": place // 2, "kind": "ABC"[(place * 5) % 3], "x": place % 4} for place in range(300)]
    events = prepare(pattern, events_table(rows))
    points = [None, (30, 0), (30, 61), (31, -5), (90, 10**9), (149, 299), (500, 0), None]
    parts = [found(pattern, events, owned=owned) for owned in pairwise(points)]
    assert sorted(match for part in parts for match in part) == found(pattern, events)
    run = run_clause(pattern, pattern.clauses[0], "abc", events, ((100, 0), (110, 0)))
    list(run)
    assert run.counts[0].candidates <= (110 - 80) * 2 / 3 + 1
    assert parts[-1] == [] == found(pattern, events, owned=((50, 0), (50, 0)))


@pytest.mark.parametrize(
    "text",
    [
        "PATTERN A a WITHIN 1 second",
        "PATTERN A a WHERE a.x > 3 AND [id] WITHIN 1 second PARTITION BY s",
        "PATTERN SEQ(A a, Nothing b) WITHIN 1 second",
        "PATTERN SEQ(A a, B b) WHERE a.x > 1000 WITHIN 1 second",
        "PATTERN SEQ(A a, B b) WHERE 1 > 2 WITHIN 1 second",
        "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 1 second",
        "PATTERN AND(Ev a, Ev b) WITHIN 1 us TIES ANY",
    ],
)
def test_small_cases(text: str) -> None:
    pattern = pattern_of(text)
    for rows in ([], long_ranges(1)[:1], long_ranges(2)):
        table = events_table(rows)
        assert found(pattern, prepare(pattern, table), block_rows=2) == expected(pattern, table)


@pytest.mark.parametrize("origin", [-(2**63), 2**63 - 100, 0])
def test_timestamps_at_the_ends_of_int64(origin: int) -> None:
    import pyarrow as pa

    pattern = pattern_of("PATTERN SEQ(A a, B b) WITHIN 100000 days")
    table = events_table([{"timestamp": place, "kind": "AB"[place % 2]} for place in range(6)])
    stamps = pa.array([origin + place for place in range(6)], pa.int64())
    table = table.set_column(table.column_names.index("timestamp"), "timestamp", stamps)
    assert len(found(pattern, prepare(pattern, table))) == 6


def test_what_does_not_run_is_refused_by_name() -> None:
    pattern = pattern_of("PATTERN SEQ(A a, B b) WHERE skip_till_next_match { a.x = 1 } WITHIN 1 second")
    assert "skip_till_next_match" in str(MECHANISMS["fused"].unsupported_feature(pattern))
    with pytest.raises(UnsupportedPattern) as caught:
        run_clause(pattern, pattern.clauses[0], ("a", "b"), prepare(pattern, events_table([])))
    assert caught.value.mechanism == "fused"
    assert "skip_till_next_match" in caught.value.feature


def test_an_order_of_other_variables_is_refused() -> None:
    pattern = pattern_of("PATTERN SEQ(A a, B b) WITHIN 1 second")
    events = prepare(pattern, events_table([]))
    for order in (("a",), ("a", "a"), ("a", "b", "c")):
        with pytest.raises(PlanError, match="binds a, b"):
            run_clause(pattern, pattern.clauses[0], order, events)


def test_patterns_over_one_slice_share_what_they_derive() -> None:
    def of(text: str) -> Pattern:
        return pattern_of(f"PATTERN {text} WITHIN 1 second")

    first, second = of("SEQ(A a, B b) WHERE a.x < b.x"), of("SEQ(A p, B q, C r) WHERE p.x < q.x AND q.id = r.id")
    third = of("SEQ(C c, A a, B b) WHERE c.id = a.id AND a.id = b.id")
    table = events_table([{**row, "id": place % 5} for place, row in enumerate(long_ranges(12))])
    shared = prepare(first, table)
    for pattern in (first, second, third, first):
        assert found(pattern, shared) == expected(pattern, table)
