"""Rows of SUMMARIZE beside what the page says, computed from the matches themselves in plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.summaries.partial import PartialSummary, bucket_starts, summary_schema
from cep_pipeline.errors import UnsupportedPattern
from cep_pipeline.events.schema import StreamSchema
from tests.thoroughness import examples

SCHEMA = StreamSchema.from_dict(
    {
        "type_attribute": "kind",
        "attributes": {"kind": "string", "x": "int64", "y": "float64", "s": "string", "f": "bool"},
        "timezone": "America/New_York",
    }
)
MATCHED = "PATTERN OR(SEQ(A a, B b), C c) WITHIN 3 us "
READ = "RETURN a.s AS g, c.f AS f, b.x AS x, b.y AS y, c.s AS s"
SUMMARIZED = (
    "SUMMARIZE count(*) AS n, sum(b.x) AS sx, avg(b.x) AS ax, min(b.x) AS lx, max(b.x) AS mx, sum(b.y) AS sy, "
    "avg(b.y) AS ay, min(b.y) AS ly, max(b.y) AS my, min(c.s) AS ls, max(c.s) AS ms GROUP BY a.s AS g, c.f AS f"
)
LARGE = st.sampled_from([2**63 - 1, -(2**63), 7, 0, None])
REAL = st.sampled_from([0.1, 1e300, -1e300, 5e-324, 2.5, -0.0, math.nan, None, math.inf])
events = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from("ABC"),
            "x": LARGE,
            "y": REAL,
            "s": st.sampled_from(["q", "é", "P", None]),
            "f": st.sampled_from([True, False, None]),
        }
    ),
    max_size=12,
)


def table_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return SCHEMA.table([{"timestamp": at, **row} for at, row in enumerate(rows)])


def rank(value: Any) -> tuple[int, Any]:
    return (2, 0) if value is None else (1, 0) if value != value else (0, value)


def total(values: Sequence[Any], number: int = 1) -> float | None:
    if not values:
        return None
    if not all(map(math.isfinite, values)):
        return sum(one for one in values if not math.isfinite(one))
    exact = sum(map(Fraction, values)) / number
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)


def by_the_page(matches: Sequence[dict[str, Any]]) -> list[list[Any]]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    for match in matches:
        groups.setdefault((match["g"], match["f"]), []).append(match)
    rows = []
    for key in sorted(groups, key=lambda key: list(map(rank, key))):
        of = {name: [one[name] for one in groups[key] if one[name] is not None] for name in "xys"}

        def chosen(values: list[Any], choose: Any) -> Any:
            nan = next((value for value in values if value != value), None)
            return None if not values else choose(values) if nan is None else nan

        x, y, s = of["x"], of["y"], of["s"]
        rows.append(
            [
                *key,
                str(len(groups[key])),
                str(sum(x)) if x else None,
                float(Fraction(sum(x), len(x))) if x else None,
                *(chosen(x, choose) for choose in (min, max)),
                total(y),
                total(y, len(y)) if y else None,
                *(chosen(y, choose) for choose in (min, max)),
                *(chosen(s, choose) for choose in (min, max)),
            ]
        )
    return rows


def values_of(table: pa.Table) -> list[list[Any]]:
    return [list(row.values())[1:] for row in table.to_pylist()]


def same(one: list[list[Any]], other: list[list[Any]]) -> bool:
    return repr(one).replace("-0.0", "0.0") == repr(other).replace("-0.0", "0.0")


@settings(max_examples=examples(40), deadline=None)
@given(rows=events)
def test_rows_are_those_of_group_by_over_the_matches(rows: list[dict[str, Any]]) -> None:
    matched, summarized = cep.parse_patterns(f"NAME m {MATCHED}{READ}; NAME g {MATCHED}{SUMMARIZED}", SCHEMA)
    found = cep.detect([matched, summarized], table_of(rows))
    assert found["g"].schema == summary_schema(summarized)
    assert same(values_of(found["g"]), by_the_page(found["m"].to_pylist()))


@settings(max_examples=examples(40), deadline=None)
@given(rows=events, cut=st.integers(0, 12))
def test_parts_in_any_order_give_the_same_rows(rows: list[dict[str, Any]], cut: int) -> None:
    [pattern] = cep.parse_patterns(MATCHED + SUMMARIZED, SCHEMA)
    columns = (
        [
            pa.array([row[name] for row in rows], kind)
            for name, kind in [("s", pa.string()), ("f", pa.bool_()), *[("x", pa.int64())] * 4]
        ]
        + [pa.array([row["y"] for row in rows], pa.float64())] * 4
        + [pa.array([row["s"] for row in rows], pa.string())] * 2
    )
    ends = np.zeros(len(rows), np.int64)

    def part(start: int, stop: int) -> PartialSummary:
        summary = PartialSummary(pattern)
        summary.add_matches(ends[start:stop], [column.slice(start, stop - start) for column in columns])
        return PartialSummary.from_json(pattern, summary.to_json())

    whole, merged = part(0, len(rows)), part(min(cut, len(rows)), len(rows))
    merged.add(part(0, min(cut, len(rows))))
    assert repr(merged.to_json()) == repr(whole.to_json())
    assert same(values_of(merged.table()), values_of(whole.table()))


def test_without_groups_there_is_a_row_of_no_match() -> None:
    [pattern] = cep.parse_patterns("PATTERN A a WITHIN 1 us SUMMARIZE count(*) AS n, sum(a.x), max(a.s)", SCHEMA)
    table = cep.detect([pattern], table_of([]))["pattern_1"]
    assert table.to_pylist() == [{"pattern": "pattern_1", "n": "0", "sum(a.x)": None, "max(a.s)": None}]


def test_kept_matches_count_and_other_outputs() -> None:
    rows = table_of([{"kind": kind} for kind in "AABB"])
    text = "PATTERN SEQ(A a, B b) WITHIN 9 us OUTPUT {} SUMMARIZE count(*) AS n"
    every, kept = cep.parse_patterns(f"{text.format('ALL')}; {text.format('NON_OVERLAP')}", SCHEMA)
    found = cep.detect([every, kept], rows)
    assert [found[name].column("n").to_pylist() for name in found] == [["4"], ["1"]]
    assert cep.detect([every], rows, output="count")["pattern_1"].column("count").to_pylist() == ["4"]
    with pytest.raises(UnsupportedPattern, match="'compressed' with SUMMARIZE"):
        cep.detect([every], rows, output="compressed")


ZONES = ["UTC", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Sao_Paulo"]
LENGTHS = [timedelta(minutes=minutes) for minutes in (1, 20, 40, 60, 180, 1440, 7 * 1440, 30 * 1440)]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@settings(max_examples=examples(200), deadline=None)
@given(
    instant=st.datetimes(datetime(1900, 1, 1), datetime(2037, 12, 31))
    | st.datetimes(datetime(2013, 11, 3), datetime(2013, 11, 4)),
    zone=st.sampled_from(ZONES),
    length=st.sampled_from(LENGTHS),
)
def test_buckets_follow_the_local_clock(instant: datetime, zone: str, length: timedelta) -> None:
    of, end = ZoneInfo(zone), instant.replace(tzinfo=UTC)
    clock = end.astimezone(of).replace(tzinfo=None)
    cut = clock - (clock - datetime(2000, 1, 3)) % length
    shown = cut.replace(tzinfo=of, fold=0).astimezone(UTC)
    if shown.astimezone(of).replace(tzinfo=None) != cut:  # in a gap: the clock jumps over it at one instant
        low, high = shown - timedelta(days=1), shown + timedelta(days=1)
        while high - low > timedelta(microseconds=1):
            middle = low + (high - low) // 2
            low, high = (low, middle) if middle.astimezone(of).replace(tzinfo=None) > cut else (middle, high)
        shown = high
    [found] = bucket_starts(
        np.array([(end - EPOCH) // timedelta(microseconds=1)]), length // timedelta(microseconds=1), zone
    ).to_pylist()
    assert found == (shown - EPOCH) // timedelta(microseconds=1)


def test_buckets_outside_the_calendar_are_null() -> None:
    assert bucket_starts(np.array([-(2**63), 0, 2**63 - 1]), 86_400_000_000, "UTC").to_pylist() == [
        None,
        -259_200_000_000 + 259_200_000_000,
        None,
    ]
