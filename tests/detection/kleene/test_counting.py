"""Matches counted without listing them: the same number, of any size."""

from __future__ import annotations

from unittest.mock import patch
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from benchmarks.stock_stream import generate_stock_stream
from benchmarks.workloads import stock_schema
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.counting import sweep
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.kleene import growing
from cep_pipeline.detection.kleene.growing import ListGrowth, StagedRun
from cep_pipeline.detection.ordering import order_lists
from cep_pipeline.slices.prepared import PreparedEvents
from tests.answers import comparable, from_tables
from tests.oracle import evaluate
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

STRUCTURES = [
    "SEQ(A a, {}+ v[])",
    "SEQ({}+ v[], B a)",
    "SEQ(A a, {}+ v[], B b)",
    "{}+ v[]",
    "AND(A a, {}+ v[])",
    "AND(A a, B b, {}+ v[])",
    "OR({}+ v[], SEQ(A a, Ev+ w[]))",
    "SEQ(AND(A a, {}+ v[]), B b)",
    "AND(SEQ(A a, {}+ v[]), Ev b)",
]
CONDITIONS = [
    "v.x > 1",
    "v[i].x > v[i-1].x",
    "v[i].x >= v[i-1].x AND v.y < 3",
    "[id]",
    "(v[i].x + v[i-1].x > 2 OR v[i].s = v[i-1].s)",
    "1 = 2",
    "v.x != a.x",
    "v.id = a.id",
    "v.x + 1 = a.x AND v.y = a.y",
    "(v[i].x > a.x OR v[i-1].x < a.x)",
    "v[i].x % 3 < a.x + v[i-1].x",
    "corr(v.h, a.h) > 0",
]


def counted(text: str, table: object) -> int:
    patterns = cep.parse_patterns(text, stream_schema())
    [row] = cep.detect(patterns, table, mechanism="fused", output="count")[patterns[0].name].to_pylist()
    return int(row["count"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    structure = draw(st.sampled_from(STRUCTURES)).format(draw(st.sampled_from(["A", "B", "Ev"])))
    usable = [text for text in CONDITIONS if "a." not in text or " a" in structure]
    condition = " AND ".join(draw(st.lists(st.sampled_from(usable), max_size=2)))
    window = draw(st.sampled_from(["1 second", "2 seconds", "3 seconds", "1 day", "3 EVENTS", "6 EVENTS"]))
    text = f"PATTERN {structure} {condition and f'WHERE {condition}'} WITHIN {window}"
    text += draw(st.sampled_from(["", " PARTITION BY s"]))
    text += f" TIES {draw(st.sampled_from(['ARRIVAL', 'STRICT', 'ANY']))}"
    return text


@settings(max_examples=examples(200), deadline=None)
@given(data=st.data(), stream_rows=rows(max_size=12))
def test_counts_equal_the_matches_of_the_oracle(data: st.DataObject, stream_rows: list[Row]) -> None:
    """By compiled code, and by merged runs where the numbers are large or a condition is not tested in a loop."""
    text = data.draw(texts())
    table = events_table(stream_rows)
    with (
        patch.object(sweep, "LONG_LISTS", data.draw(st.sampled_from([48, 1, 0]))),
        patch.object(sweep, "MOST_ESTIMATED", data.draw(st.sampled_from([2.0**1000, 0.0]))),
        patch.object(sweep, "MOST_BITS_OF_A_WORD", data.draw(st.sampled_from([64.0, -1.0]))),
        patch.object(ListGrowth, "matches", side_effect=AssertionError("lists are made")),
    ):
        found = counted(text, table)
    assert found == len(evaluate(cep.parse_patterns(text, stream_schema()), table))


@settings(max_examples=examples(60), deadline=None)
@given(text=texts(), stream_rows=rows(max_size=12), at_once=st.sampled_from([1 << 18, 2]), data=st.data())
def test_lists_written_by_compiled_code_are_the_oracles(
    text: str, stream_rows: list[Row], at_once: int, data: st.DataObject
) -> None:
    """In blocks of any size, and of a stream that is cut in two."""
    patterns, table = cep.parse_patterns(text, stream_schema()), events_table(stream_rows)
    with patch.object(growing, "ELEMENTS_AT_ONCE", at_once):
        tables = cep.detect(patterns, table, mechanism="fused")
        assert comparable(from_tables(patterns, tables)) == comparable(evaluate(patterns, table))
        cut = data.draw(st.integers(0, len(stream_rows)))
        point = (stream_rows[cut]["timestamp"], stream_rows[cut]["seq"]) if cut < len(stream_rows) else None
        plan = cep.plan(patterns, cep.estimate_statistics(patterns, table))
        found: list[str] = []
        for owned, read in (((None, point), stream_rows[:cut]), ((point, None), stream_rows)):
            if point is not None or owned == (None, None):
                detect_slice(
                    patterns, plan, events_table(read), owned, lambda _, batch: found.extend(ids_of(batch)), "fused"
                )
    if point is not None:
        assert sorted(found) == sorted(ids_of(tables[patterns[0].name]))


@pytest.mark.parametrize("text", ["SEQ(A a, B+ b[], C c)", "SEQ(A+ a[], C c)", "SEQ(A a, B{2,3} b[], C c)"])
def test_lists_before_a_later_event_are_written_in_the_order_of_the_page(text: str) -> None:
    """Where the plan begins with the last event, so that nothing is left to sort."""
    rng = np.random.default_rng(3)
    stream = [{"timestamp": at, "seq": at, "kind": str(rng.choice([*"ABCD"])), "x": at} for at in range(60)]
    (pattern,) = cep.parse_patterns(f"PATTERN {text} WITHIN 9 us", stream_schema())
    (kleene_clause,) = pattern.clauses
    order = tuple(one.name for one in reversed(kleene_clause.positive))
    events = PreparedEvents(events_table(stream), type_attribute="kind", base_type="Ev")
    blocks = list(StagedRun(ClauseSlice(pattern, kleene_clause, events), order))
    found = order_lists(blocks, events.seqs)
    assert len(found) > 50
    assert found.bound_rows.tolist() == [row for block in blocks for row in block.rows]


def ids_of(rows: pa.Table | pa.RecordBatch) -> list[UUID]:
    ids: list[UUID] = rows.column("match_id").to_pylist()
    return ids


def test_more_candidates_than_bits_of_a_word_are_listed_too() -> None:
    """One list of 65 and one of 64 rising elements, and all their shorter ones that skip none."""
    text = "PATTERN SEQ(A a, B+ v[], C c) WHERE v[i].x = v[i-1].x + 1 WITHIN 1 day"
    for size in (64, 65):
        middle = [{"timestamp": place, "kind": "B", "x": place} for place in range(1, size + 1)]
        events = [{"timestamp": 0, "kind": "A"}, *middle, {"timestamp": size + 1, "kind": "C"}]
        patterns = cep.parse_patterns(text, stream_schema())
        table = stream_schema().table(events)
        lengths = sorted(
            len(bindings) - 2
            for bindings in cep.detect(patterns, table, mechanism="fused")["pattern_1"].column("bindings").to_pylist()
        )
        assert lengths == sorted(length for length in range(1, size + 1) for _ in range(size + 1 - length))


@pytest.mark.parametrize(
    "condition", ["v[i].x > v[i-1].x", "v[i-1].x > v[i].x", "v[i].x >= v[i-1].x", "v[i].x = v[i-1].x"]
)
@pytest.mark.parametrize("window", ["20 us", "20 us PARTITION BY id", "20 EVENTS"])
def test_chains_go_on_from_one_partial_match_to_the_next(condition: str, window: str) -> None:
    """Some partial matches begin at the place of the one before and reach further, some do not."""
    rng = np.random.default_rng(5)
    events = [
        {"timestamp": at, "kind": str(rng.choice([*"ABBBC"])), "x": int(rng.integers(9)), "id": int(rng.integers(2))}
        for at in range(300)
    ]
    text, table = f"PATTERN SEQ(A a, B+ v[], C c) WHERE {condition} WITHIN {window}", stream_schema().table(events)
    patterns = cep.parse_patterns(text, stream_schema())
    listed = cep.detect(patterns, table)[patterns[0].name].num_rows
    assert counted(text, table) == listed > 0


def fibonacci(n: int) -> int:
    one, other = 0, 1
    for _ in range(n):
        one, other = other, one + other
    return one


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("PATTERN SEQ(A a, B+ v[], C c) WITHIN 1 day", 60, 2**60 - 1),
        ("PATTERN SEQ(A a, B+ v[], C c) WITHIN 1 day", 500, 2**500 - 1),
        ("PATTERN SEQ(A a, B+ v[], C c) WHERE v[i].x > v[i-1].x WITHIN 1 day", 60, 2**60 - 1),
        ("PATTERN SEQ(A a, B+ v[], C c) WHERE v[i].x > v[i-1].x WITHIN 1 day", 100, 2**100 - 1),
        ("PATTERN SEQ(A a, B+ v[], C c) WHERE v.x > 40 WITHIN 1 day", 100, 2**60 - 1),
        ("PATTERN B+ v[] WITHIN 1 day", 200, 2**200 - 1),
        ("PATTERN AND(A a, B+ v[]) WITHIN 1 day", 70, 2**70 - 1),
        ("PATTERN SEQ(A a, B+ v[], C c) WHERE v[i-1].x < v[i].x WITHIN 1 day", 1_200, 2**1200 - 1),
        ("PATTERN B+ v[] WHERE v[i].x > v[i-1].x WITHIN 50 us", 100, 51 * 2**50 - 1),
        ("PATTERN B+ v[] WHERE v[i].x > v[i-1].x WITHIN 51 EVENTS", 100, 51 * 2**50 - 1),
        ("PATTERN B+ v[] WHERE v[i].x > v[i-1].x WITHIN 70 us", 100, 31 * 2**70 - 1),
        # 50 later events at most are in the window of a first one.
        ("PATTERN B+ v[] WITHIN 50 us", 100, 51 * 2**50 - 1),
        # Sub-sets without neighbours.
        ("PATTERN B+ v[] WHERE v[i].x > v[i-1].x + 1 WITHIN 1 day", 100, fibonacci(102) - 1),
    ],
)
def test_large_counts_are_exact(text: str, size: int, expected: int) -> None:
    middle = [{"timestamp": place, "kind": "B", "x": place} for place in range(1, size + 1)]
    events = [{"timestamp": 0, "kind": "A"}, *middle, {"timestamp": size + 1, "kind": "C"}]
    assert counted(text, stream_schema().table(events)) == expected


@pytest.mark.parametrize(
    ("condition", "window", "expected"),
    [
        ("a.diff < c.diff", "700 ms", 4_461),
        ("a.diff < c.diff AND b[i].diff > b[i-1].diff", "1500 ms", 18_023),
    ],
)
def test_workloads_of_the_benchmarks(condition: str, window: str, expected: int) -> None:
    text = f"NAME w PATTERN SEQ(S08 a, S10+ b[], S12 c) WHERE {condition} WITHIN {window}"
    patterns = cep.parse_patterns(text, stock_schema())
    events = generate_stock_stream(10_000)
    assert cep.detect(patterns, events, output="count")["w"].to_pylist() == [{"pattern": "w", "count": str(expected)}]
    assert cep.detect(patterns, events)["w"].num_rows == expected
