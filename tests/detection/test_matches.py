"""Rows of the matches table: fixed columns, typed RETURN columns, and RETURN as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.detection import matches as matches_module
from cep_pipeline.detection.match_ids import MatchIdentity
from cep_pipeline.detection.matches import (
    BINDINGS,
    MANY_PATTERNS,
    matches_schema,
    write_matches,
)
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import MatchBlock
from cep_pipeline.slices.prepared import PreparedEvents
from tests.detection.matching import block_of
from tests.streams import events_table, stream_schema
from tests.thoroughness import examples

ROWS: list[dict[str, Any]] = [
    {"timestamp": 10, "seq": 100, "kind": "A", "x": 1, "y": 0.5, "s": 'é"', "f": True, "h": [1.0, None]},
    {"timestamp": 20, "seq": 200, "kind": "A", "x": None, "y": math.nan, "s": None, "f": None, "h": None},
    {"timestamp": 20, "seq": 300, "kind": "B", "x": 4, "y": math.inf, "s": "b", "f": False, "h": []},
    {"timestamp": 40, "seq": 400, "kind": "B", "x": 2**62, "y": 2.0, "s": "b", "f": False, "h": [3.0]},
]


def prepared() -> PreparedEvents:
    return PreparedEvents(events_table(ROWS), type_attribute="kind", base_type="Ev")


def matches_table(pattern: Pattern, blocks: list[MatchBlock], events: PreparedEvents) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    assert write_matches(pattern, blocks, events, batches.append, typed=True) == sum(b.num_rows for b in batches)
    return pa.Table.from_batches(batches, matches_schema(pattern))


def pattern_of(text: str) -> Pattern:
    (pattern,) = parse_patterns(f"NAME p {text} WITHIN 1 second", stream_schema())
    return pattern


def returning(*items: str) -> Pattern:
    (pattern,) = parse_patterns(
        f"NAME p PATTERN SEQ(A a, B b) WITHIN 1 second RETURN {', '.join(items)}", stream_schema()
    )
    return pattern


MATCHES = [[1, 3], [0, 3], [0, 2], [1, 2]]
IN_ORDER = [[0, 2], [1, 2], [0, 3], [1, 3]]


def test_fixed_columns() -> None:
    pattern = pattern_of("PATTERN SEQ(A a, B b)")
    table = matches_table(pattern, [block_of(pattern.clauses[0], MATCHES)], prepared())
    assert table.schema == pa.schema(
        [
            ("pattern", pa.string()),
            ("match_id", pa.uuid()),
            ("start_ts", pa.timestamp("us", tz="UTC")),
            ("end_ts", pa.timestamp("us", tz="UTC")),
            ("bindings", pa.list_(pa.struct([("variable", pa.string()), ("seq", pa.int64())]))),
        ]
    )
    table.validate(full=True)
    assert table.column("pattern").to_pylist() == ["p"] * 4
    assert table.column("start_ts").cast(pa.int64()).to_pylist() == [10, 20, 10, 20]
    assert table.column("end_ts").cast(pa.int64()).to_pylist() == [20, 20, 40, 40]
    bindings = [[("a", ROWS[a]["seq"]), ("b", ROWS[b]["seq"])] for a, b in IN_ORDER]
    assert table.column("bindings").to_pylist() == [
        [{"variable": name, "seq": seq} for name, seq in match] for match in bindings
    ]
    assert table.column("match_id").to_pylist() == [MatchIdentity.of(pattern).id_of(match) for match in bindings]


def test_start_and_end_are_those_of_the_events_not_of_the_variables() -> None:
    pattern = pattern_of("PATTERN AND(A a, B b, A c)")
    table = matches_table(pattern, [block_of(pattern.clauses[0], [[1, 3, 0]])], prepared())
    assert table.column("start_ts").cast(pa.int64()).to_pylist() == [10]
    assert table.column("end_ts").cast(pa.int64()).to_pylist() == [40]


@pytest.mark.parametrize(
    ("item", "kind", "values"),
    [
        ("a.x", pa.int64(), [1, None, 1, None]),
        ("b.x * 4", pa.int64(), [16, 16, None, None]),
        ("a.x / 2", pa.float64(), [0.5, None, 0.5, None]),
        ("b.y", pa.float64(), [math.inf, math.inf, 2.0, 2.0]),
        ("a.s", pa.string(), ['é"', None, 'é"', None]),
        ("b.f", pa.bool_(), [False] * 4),
        ("a.h", pa.list_(pa.float64()), [[1.0, None], None, [1.0, None], None]),
        ("b.timestamp - a.timestamp", pa.int64(), [10, 0, 30, 20]),
        ("a.seq", pa.int64(), [100, 200, 100, 200]),
        ("'text'", pa.string(), ["text"] * 4),
        ("1 + 2", pa.int64(), [3] * 4),
    ],
)
def test_return_columns_are_typed(item: str, kind: pa.DataType, values: list[Any]) -> None:
    pattern = returning(f"{item} AS v")
    table = matches_table(pattern, [block_of(pattern.clauses[0], MATCHES)], prepared())
    assert table.schema.field("v").type == kind
    assert table.column("v").to_pylist() == values


def test_nan_is_returned_as_nan_not_as_null() -> None:
    pattern = returning("a.y")
    column = matches_table(pattern, [block_of(pattern.clauses[0], [[1, 3]])], prepared()).column("a.y")
    assert column.null_count == 0
    assert math.isnan(column[0].as_py())


def test_many_patterns_share_one_schema_with_returns_as_json() -> None:
    pattern = returning("a.x", "a.y", "b.y AS far", "a.s", "b.f", "a.h", "b.h AS h2", "b.x / 2 AS half")
    batches: list[pa.RecordBatch] = []
    count = write_matches(pattern, [block_of(pattern.clauses[0], [[0, 3], [1, 2]])], prepared(), batches.append)
    table = pa.Table.from_batches(batches)
    assert count == 2
    assert table.schema == MANY_PATTERNS
    rows = [json.loads(text) for text in table.column("returns").to_pylist()]
    assert rows == [
        {
            "a.x": None,
            "a.y": "NaN",
            "far": "Infinity",
            "a.s": None,
            "b.f": False,
            "a.h": None,
            "h2": [],
            "half": 2.0,
        },
        {
            "a.x": 1,
            "a.y": 0.5,
            "far": 2.0,
            "a.s": 'é"',
            "b.f": False,
            "a.h": [1.0, None],
            "h2": [3.0],
            "half": 2.0**61,
        },
    ]


def test_without_return_there_is_no_json() -> None:
    pattern = pattern_of("PATTERN SEQ(A a, B b)")
    batches: list[pa.RecordBatch] = []
    write_matches(pattern, [block_of(pattern.clauses[0], MATCHES)], prepared(), batches.append)
    assert pa.Table.from_batches(batches).column("returns").to_pylist() == [None] * 4


def test_branches_of_or_in_one_table() -> None:
    pattern = parse_patterns(
        "NAME p PATTERN OR(SEQ(A a, B b), B c) WITHIN 1 second RETURN a.x, c.x AS cx, a.s AS s, a.h AS h",
        stream_schema(),
    )[0]
    pairs, single = pattern.clauses
    table = matches_table(pattern, [block_of(pairs, [[0, 3], [0, 2]]), block_of(single, [[2]])], prepared())
    bindings = [[(b["variable"], b["seq"]) for b in match] for match in table.column("bindings").to_pylist()]
    assert bindings == [[("a", 100), ("b", 300)], [("c", 300)], [("a", 100), ("b", 400)]]
    assert table.column("a.x").to_pylist() == [1, None, 1]
    assert table.column("cx").to_pylist() == [None, 4, None]
    assert table.column("s").to_pylist() == ['é"', None, 'é"']
    assert table.column("h").to_pylist() == [[1.0, None], None, [1.0, None]]
    assert table.column("start_ts").cast(pa.int64()).to_pylist() == [10, 20, 10]


def test_a_return_item_of_a_branch_without_matches_is_null() -> None:
    pattern = parse_patterns(
        "NAME p PATTERN OR(SEQ(A a, B b), B c) WITHIN 1 second RETURN a.h AS h, c.x AS cx", stream_schema()
    )[0]
    table = matches_table(pattern, [block_of(pattern.clauses[1], [[2]])], prepared())
    assert table.column("h").to_pylist() == [None]
    assert table.column("cx").to_pylist() == [4]


@pytest.mark.parametrize("blocks", [[], [[]]])
def test_no_matches_are_an_empty_table_of_the_same_columns(blocks: list[list[list[int]]]) -> None:
    pattern = returning("a.s")
    table = matches_table(pattern, [block_of(pattern.clauses[0], block) for block in blocks], prepared())
    assert table.num_rows == 0
    assert table.schema == matches_schema(pattern)


def test_batches_are_bounded_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches_module, "BATCH_ROWS", 3)
    pattern = returning("a.x")
    whole: list[pa.RecordBatch] = []
    rng = np.random.default_rng(0)
    pairs = [[a, b] for a in (0, 1) for b in (2, 3)]
    write_matches(
        pattern, [block_of(pattern.clauses[0], rng.permutation(pairs).tolist())], prepared(), whole.append, typed=True
    )
    assert [batch.num_rows for batch in whole] == [3, 1]
    table = pa.Table.from_batches(whole)
    assert [[b["seq"] for b in match] for match in table.column("bindings").to_pylist()] == [
        [ROWS[a]["seq"], ROWS[b]["seq"]] for a, b in IN_ORDER
    ]


@pytest.mark.long
def test_more_letters_than_an_array_holds_are_refused() -> None:
    names, count = ("x" * 100_000, "y"), 22_000
    with pytest.raises(MemoryError, match=r"1 matches have more than 2\*\*31 letters"):
        matches_module._named(names, np.array([0, count]), np.zeros(count, np.int32))


def test_written_to_parquet_and_read_back(tmp_path: Any) -> None:
    pattern = returning("a.x")
    path = tmp_path / "matches.parquet"
    with pq.ParquetWriter(path, MANY_PATTERNS) as writer:
        write_matches(pattern, [block_of(pattern.clauses[0], MATCHES)], prepared(), writer.write_batch)
    table = pq.read_table(path)
    assert table.column("bindings").type.value_type.field("variable").type == BINDINGS.value_type.field("variable").type
    assert [[b["seq"] for b in match] for match in table.column("bindings").to_pylist()] == [
        [ROWS[a]["seq"], ROWS[b]["seq"]] for a, b in IN_ORDER
    ]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["A a, B b", "A b, B a", "A left, B right", "A a, B b, B c"]), st.integers(1, 4)),
        min_size=2,
        max_size=5,
    )
)
def test_patterns_over_the_same_events_have_the_rows_that_each_has_alone(drawn: list[tuple[str, int]]) -> None:
    """Patterns whose variables are named alike share what is written of them, whichever has more matches."""
    together = prepared()
    for operands, count in drawn:
        pattern = pattern_of(f"PATTERN SEQ({operands})")
        rows = MATCHES if len(pattern.operands) == 2 else [[1, 2, 3], [0, 2, 3]]
        blocks = [block_of(pattern.clauses[0], rows[:count])]
        assert matches_table(pattern, blocks, together) == matches_table(pattern, blocks, prepared())
