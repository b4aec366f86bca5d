"""Hypothesis strategies for small streams, and the schema that they share with the conformance cases.

The streams hold what breaks engines: nulls and NaN, equal timestamps, events of types that no pattern names, events
without a type, integers next to 2^53 and at the ends of int64, infinities, one event, and none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from cep_pipeline.events.schema import StreamSchema

Row = dict[str, Any]

SCHEMA: dict[str, Any] = {
    "base_type": "Ev",
    "type_attribute": "kind",
    "attributes": {
        "kind": "string",
        "id": "int64",
        "x": "int64",
        "y": "float64",
        "s": "string",
        "f": "bool",
        "h": "list<float64>",
    },
}
TYPES = ("A", "B", "A", "B", "C", "X.1")
"""Types that the patterns of `pattern_strategies` name, the more frequent ones twice."""
SECOND = 1_000_000

EDGE_INTEGERS = (2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1)
EDGE_FLOATS = (math.nan, math.inf, -math.inf, -0.0, 0.1, float(2**53), float(2**53 + 2), 9.223372036854775807e18, 1e308)


def stream_schema() -> StreamSchema:
    """The schema of all streams of this module."""
    return StreamSchema.from_dict(SCHEMA)


def events_table(rows: Sequence[Row]) -> pa.Table:
    """The events table of rows."""
    return stream_schema().table(list(rows))


def mostly(common: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of `common`, and one in six of `rare` (`st.one_of` would not keep such a proportion)."""
    return st.integers(0, 5).flatmap(lambda number: rare if number == 5 else common)


def integers(edges: bool = True) -> st.SearchStrategy[int | None]:
    """Values of an int64 attribute: mostly small, so that comparisons go both ways."""
    common = st.integers(-2, 9)
    if not edges:
        return common
    return mostly(common, st.sampled_from((*EDGE_INTEGERS, None, None)))


def floats(edges: bool = True) -> st.SearchStrategy[float | None]:
    """Values of a float64 attribute: mostly quarters."""
    common = st.integers(-8, 40).map(lambda quarters: quarters / 4)
    if not edges:
        return common
    return mostly(common, st.sampled_from((*EDGE_FLOATS, math.nan, None, None)))


def histories(edges: bool = True) -> st.SearchStrategy[list[float | None] | None]:
    """Values of a list attribute: mostly four numbers."""
    common = st.lists(st.integers(0, 6).map(lambda halves: halves / 2), min_size=4, max_size=4)
    if not edges:
        return common
    rare = st.lists(st.one_of(floats(), st.just(1.0)), max_size=4)
    return mostly(common, st.one_of(rare, st.none()))


@st.composite
def rows(
    draw: st.DrawFn, min_size: int = 0, max_size: int = 12, edges: bool = True, types: Sequence[str] = TYPES
) -> list[Row]:
    """Rows of a stream in stream order.

    Parameters
    ----------
    min_size, max_size
        Number of events.
    edges
        Whether attribute values may be null, NaN, infinite or next to the limits of their type, and the type unknown
        or null.
    types
        The event types to draw from.
    """
    kinds = st.sampled_from(types)
    if edges:
        kinds = mostly(kinds, st.sampled_from(["Unknown", None]))
    labels = st.sampled_from(["p", "p", "q", "q", "é", "😀", None] if edges else ["p", "q"])
    row = st.fixed_dictionaries(
        {
            "gap": st.sampled_from([1, 0, 1, 0, 1, 2, 0, 3, 7]),
            "kind": kinds,
            "id": st.sampled_from([1, 1, 1, 2, 2, None] if edges else [1, 2]),
            "x": integers(edges),
            "y": floats(edges),
            "s": labels,
            "f": st.sampled_from([True, False, None] if edges else [True, False]),
            "h": histories(edges),
        }
    )
    # Lists of no least size are mostly too short to match anything.
    usual_size = max(min_size, max_size // 2)
    drawn = draw(
        mostly(
            st.lists(row, min_size=usual_size, max_size=max_size), st.lists(row, min_size=min_size, max_size=max_size)
        )
    )
    timestamp = draw(st.sampled_from([0, -3 * SECOND, 1_700_000_000_123_456]))
    first_seq, seq_step = draw(st.sampled_from([(0, 1), (735_000 * 2**40, 1), (5, 3)]))
    stream = []
    for place, fields in enumerate(drawn):
        timestamp += fields.pop("gap") * SECOND
        stream.append({"timestamp": timestamp, "seq": first_seq + place * seq_step, **fields})
    return stream


def cut(table: pa.Table, at: Sequence[int]) -> Iterator[pa.Table]:
    """The parts of a table that begin at these rows, and at the first."""
    for first, stop in pairwise([0, *at, table.num_rows]):
        yield table.slice(first, stop - first)
