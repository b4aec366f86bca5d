"""Statistics over slices: together they count everything once, wherever they are cut and whatever was before."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.patterns.pattern import Window
from cep_pipeline.slices.ownership import look_back
from cep_pipeline.spark.slicing import Pieces, Slice, cut, read_row_groups
from cep_pipeline.spark.tasks import run_tasks
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.estimate import windowed_statistics
from spark_jobs.estimate_statistics import count_slice, merged
from tests.thoroughness import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = cep.StreamSchema.from_dict(
    {"base_type": "Ev", "type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}}
)
PATTERNS = tuple(
    cep.parse_patterns(
        "NAME up PATTERN SEQ(A a, B b, A c) WHERE a.x < b.x AND b.x < c.x WITHIN 40 us;"
        "NAME both PATTERN AND(A a, Ev b) WHERE a.x = b.x WITHIN 25 us;"
        "NAME few PATTERN SEQ(A a, B b) WHERE a.x <= b.x WITHIN 4 EVENTS;"
        "NAME never PATTERN SEQ(Z z, A a) WHERE z.x < a.x WITHIN 10 us",
        SCHEMA,
    )
)
WINDOW, EPSILON = Window(time_us=100), 0.1
COUNTING = PATTERNS, WINDOW, EPSILON


def table_of(gaps: list[int]) -> pa.Table:
    rows, time = [], 1_000
    for number, gap in enumerate(gaps):
        time += gap
        rows.append({"timestamp": time, "kind": "AABC"[(number * 7) % 4], "x": (number * 7919) % 11})
    return SCHEMA.table(rows)


def slices_of(table: pa.Table, folder: Path, count: int, start: int = 0, end: int = 10**9) -> list[Slice]:
    path = folder / "events.parquet"
    pq.write_table(table, path, row_group_size=7)
    groups = read_row_groups([str(path)])
    return cut(Pieces.even(groups), start=(start, 0), end=(end, 0), look_back=look_back(PATTERNS), count=count)


def agree(one: StatisticsSnapshot, other: StatisticsSnapshot) -> None:
    """The same leaves and conditions, and intervals that overlap: what both bound is one number."""
    assert [rate.leaf for rate in one.rates] == [rate.leaf for rate in other.rates]
    for rate, same in zip(one.rates, other.rates, strict=True):
        assert rate.low is not None and rate.high is not None and same.low is not None and same.high is not None
        assert max(rate.low, same.low) <= min(rate.high, same.high) * (1 + 1e-9), rate.leaf
    shares = {share.condition: share for share in other.selectivities}
    for share in one.selectivities:
        same_share = shares.get(share.condition)
        if same_share is None or None in (share.low, share.high, same_share.low, same_share.high):
            continue
        assert share.low <= same_share.high + 1e-9 and same_share.low <= share.high + 1e-9, share.condition  # type: ignore[operator]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 6))
@settings(max_examples=examples(40))
def test_slices_are_one_table(gaps: list[int], count: int) -> None:
    table = table_of(gaps)
    with tempfile.TemporaryDirectory() as folder:
        slices = slices_of(table, Path(folder), count)
        state = merged(*COUNTING, [count_slice(*COUNTING, one) for one in slices])
    whole = windowed_statistics(PATTERNS, table, WINDOW, EPSILON)
    first, last = (int(table["timestamp"].cast(pa.int64())[place].as_py()) for place in (0, -1))
    for moment in (last, last + 40, last + 1_000):
        agree(state.snapshot(moment), whole.snapshot(moment))
    day, same_day = state.business_day(first, last + 1), whole.business_day(first, last + 1)
    agree(day, same_day)
    never = next(rate for rate in day.rates if rate.leaf == "Z")
    assert (never.per_s, never.worst_per_s) == (0.0, 0.0)


@given(st.lists(st.integers(0, 30), min_size=2, max_size=60), st.integers(1, 59))
@settings(max_examples=examples(40))
def test_what_is_carried_and_what_follows_are_one_run(gaps: list[int], place: int) -> None:
    table = table_of(gaps)
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    middle = times[min(place, len(times) - 1)]
    with tempfile.TemporaryDirectory() as folder:

        def counted(start: int, end: int, carried: object = None) -> object:
            slices = slices_of(table, Path(folder), 2, start, end)
            counted = [count_slice(*COUNTING, one) for one in slices]
            return merged(*COUNTING, counted, carried)  # type: ignore[arg-type]

        before = counted(0, middle)
        text = before.to_json()  # type: ignore[attr-defined]
        both = counted(middle, 10**9, before)
        assert before.to_json() == text, "what is carried is not changed"  # type: ignore[attr-defined]
        once = counted(0, 10**9)
    agree(both.snapshot(times[-1]), once.snapshot(times[-1]))  # type: ignore[attr-defined]
    assert both.snapshot(times[-1]).events == once.snapshot(times[-1]).events  # type: ignore[attr-defined]


def test_spark_counts_what_this_process_counts(either: SparkSession, tmp_path: Path) -> None:
    table = table_of([3, 0, 14, 1, 9] * 60)
    slices = slices_of(table, tmp_path, 5)
    there = merged(*COUNTING, run_tasks(either, partial(count_slice, *COUNTING), slices, what="counting"))
    here = merged(*COUNTING, [count_slice(*COUNTING, one) for one in slices])
    assert there.to_json() == here.to_json()


def test_no_events_are_no_rates() -> None:
    state = merged(PATTERNS, Window(time_us=50), EPSILON, [])
    snapshot = state.business_day(0, 1_000)
    assert snapshot.events == 0
    assert {rate.per_s for rate in snapshot.rates} == {0.0}
    assert snapshot.covers(PATTERNS)
