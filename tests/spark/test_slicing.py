"""Slices: together they own everything once, wherever they are cut."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.limits import Limits
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.slices.ownership import LookBack, look_back
from cep_pipeline.spark.detection import estimated_work
from cep_pipeline.spark.slicing import (
    Pieces,
    RowGroup,
    Slice,
    cut,
    instant_before,
    read_row_groups,
    slices_between,
)
from tests.thoroughness import examples

SCHEMA = StreamSchema.from_dict(
    {"base_type": "Ev", "type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}}
)
PATTERNS = cep.parse_patterns(
    """
    NAME chain   PATTERN SEQ(A a, B b) WHERE a.x <= b.x WITHIN 3 us;
    NAME tied    PATTERN SEQ(A a, A b, Ev c) WHERE a.x != c.x WITHIN 4 us TIES ANY;
    NAME apart   PATTERN SEQ(A a, Ev b) WITHIN 2 us TIES STRICT RETURN b.x AS x;
    NAME both    PATTERN AND(A a, B b, B c) WHERE b.x < c.x WITHIN 3 us;
    NAME keyed   PATTERN AND(Ev a, Ev b) WHERE [x] WITHIN 5 us;
    NAME single  PATTERN B b WHERE b.x > 1 WITHIN 1 us;
    NAME few     PATTERN SEQ(A a, Ev b) WHERE a.x <= b.x WITHIN 4 EVENTS;
    NAME nearby  PATTERN SEQ(~C n, A a, B b) WHERE n.x > a.x WITHIN 3 EVENTS TIES STRICT
    """,
    SCHEMA,
)
ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from("ABC"), st.one_of(st.none(), st.integers(0, 3))), max_size=9
)


def table_of(drawn: list[tuple[int, str, int | None]]) -> pa.Table:
    """Rows whose timestamps are the running sums of the drawn gaps: ties are common."""
    rows, time = [], 100
    for gap, kind, x in drawn:
        time += gap
        rows.append({"timestamp": time, "kind": kind, "x": x})
    return SCHEMA.table(rows)


def write(table: pa.Table, folder: Path, row_group_size: int, files: int = 1) -> list[str]:
    paths = []
    size = max(1, -(-table.num_rows // files))
    for number in range(files):
        part = table.slice(number * size, size)
        if part.num_rows or not number:
            path = folder / f"{number}.parquet"
            pq.write_table(part, path, row_group_size=row_group_size)
            paths.append(str(path))
    return paths


def found_in(slices: list[Slice], patterns: list[Pattern], table: pa.Table) -> dict[str, list[dict[str, object]]]:
    """The matches of slices, in the order in which slices are published."""
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, table))
    found: dict[str, list[dict[str, object]]] = {pattern.name: [] for pattern in patterns}
    for part in slices:
        events = part.read(columns_needed(patterns))
        detect_slice(
            patterns,
            plan,
            events,
            (part.start, part.end),
            lambda pattern, batch: found[pattern.name].extend(batch.to_pylist()),
        )
    return found


def whole(patterns: list[Pattern], table: pa.Table) -> dict[str, list[tuple[object, ...]]]:
    fixed = ["match_id", "start_ts", "end_ts", "bindings"]
    tables = cep.detect(patterns, table)
    return {name: [tuple(map(str, row.values())) for row in t.select(fixed).to_pylist()] for name, t in tables.items()}


def comparable(found: dict[str, list[dict[str, object]]]) -> dict[str, list[tuple[object, ...]]]:
    fixed = ["match_id", "start_ts", "end_ts", "bindings"]
    return {name: [tuple(str(row[key]) for key in fixed) for row in rows] for name, rows in found.items()}


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=ROWS, row_group_size=st.integers(1, 4), files=st.integers(1, 3))
def test_boundaries_between_every_two_events_change_nothing(
    drawn: list[tuple[int, str, int | None]], row_group_size: int, files: int
) -> None:
    table = table_of(drawn)
    times, seqs = table["timestamp"].cast(pa.int64()).to_pylist(), table["seq"].to_pylist()
    points = [(0, -1), *zip(times, seqs, strict=True), (10_000, 0)]
    with tempfile.TemporaryDirectory() as folder:
        row_groups = read_row_groups(write(table, Path(folder), row_group_size, files))
        slices = slices_between(row_groups, points, look_back(PATTERNS))
        assert comparable(found_in(slices, PATTERNS, table)) == whole(PATTERNS, table)


@settings(deadline=None, max_examples=examples(40))
@given(drawn=ROWS, row_group_size=st.integers(1, 4), count=st.integers(1, 12))
def test_any_number_of_slices_owns_everything_once(
    drawn: list[tuple[int, str, int | None]], row_group_size: int, count: int
) -> None:
    table = table_of(drawn)
    with tempfile.TemporaryDirectory() as folder:
        row_groups = read_row_groups(write(table, Path(folder), row_group_size))
        slices = cut(Pieces.even(row_groups), start=(0, 0), end=(10_000, 0), look_back=look_back(PATTERNS), count=count)
        assert len(slices) <= count
        assert all(a.end == b.start for a, b in pairwise(slices))
        assert comparable(found_in(slices, PATTERNS, table)) == whole(PATTERNS, table)


def points_of(events: pa.Table) -> list[tuple[int, int]]:
    return list(zip(events["timestamp"].cast(pa.int64()).to_pylist(), events["seq"].to_pylist(), strict=True))


@settings(deadline=None, max_examples=examples(40))
@given(drawn=ROWS, row_group_size=st.integers(1, 4), count=st.integers(1, 4), most_rows=st.integers(1, 5))
def test_no_slice_owns_more_events_than_it_may(
    drawn: list[tuple[int, str, int | None]], row_group_size: int, count: int, most_rows: int
) -> None:
    table = table_of(drawn)
    bounds: dict[str, Any] = {"start": (0, 0), "end": (10_000, 0), "look_back": LookBack()}
    with tempfile.TemporaryDirectory() as folder:
        pieces = Pieces.even(read_row_groups(write(table, Path(folder), row_group_size)))
        slices = cut(pieces, **bounds, count=count, work=np.arange(len(pieces)) % 3, most_rows=most_rows)
        owned = [sum(point >= part.start for point in points_of(part.read(["kind"]))) for part in slices]
        assert sum(owned) == table.num_rows and max(owned, default=0) <= most_rows
        assert all(a.end == b.start for a, b in pairwise(slices))


@pytest.mark.parametrize("look_back_us", [0, 30, 450])
@pytest.mark.parametrize("events", [1_000, 8_000])
def test_what_a_slice_loads_depends_on_the_slice_and_not_on_the_day(
    tmp_path: Path, events: int, look_back_us: int
) -> None:
    """The memory of a task follows the events that it reads; only a look-back of more than half of them reads more."""
    table = table_of([(1, "A", 0)] * events)
    pieces = Pieces.even(read_row_groups(write(table, tmp_path, 500)))
    back = LookBack(time_us=look_back_us)
    slices = cut(pieces, start=(0, 0), end=(10**6, 0), look_back=back, count=1, most_rows=400)
    read = [part.read(["kind", "x"]).num_rows for part in slices]
    assert sum(read) >= events and max(read) <= max(400, 2 * look_back_us) + 2
    assert len(slices) <= events / (max(400 - look_back_us, look_back_us) - 2) + 2, "and is worth its look-back"


def test_pieces_tell_times(tmp_path: Path) -> None:
    table = table_of([(number % 3, "ABC"[number % 7 % 3], number % 4) for number in range(1_000)])
    row_groups = read_row_groups(write(table, tmp_path, 130, files=3))
    pieces = Pieces.read(row_groups)
    times = table["timestamp"].cast(pa.int64()).to_numpy()
    assert pieces.rows[0] == 0 and pieces.rows[-1] == 1_000 and len(pieces) >= len(row_groups)
    assert pieces.times_us.tolist() == [*times[pieces.rows[:-1]], times[-1]]
    assert Pieces.even(row_groups).rows.tolist() == pieces.rows.tolist()
    assert [pieces.point(row) for row in (0, 500, 999)] == [points_of(table)[row] for row in (0, 500, 999)]


SKEWED = cep.parse_patterns(
    """
    NAME climb PATTERN SEQ(Ev a, Ev b, Ev c) WHERE a.x < b.x AND b.x < c.x WITHIN 2 seconds;
    NAME pair  PATTERN SEQ(A a, B b) WHERE a.x <= b.x WITHIN 3 seconds;
    NAME other PATTERN AND(B b, C c) WHERE b.x = c.x WITHIN 1 second
    """,
    SCHEMA,
)


def skewed_day(skew: str) -> pa.Table:
    """Thirteen minutes of 6,000 events; one minute holds half of them, or one type 90 % in bursts, or nothing does."""
    random = np.random.default_rng(5)
    times = random.integers(0, 780_000_000, 6_000)
    kinds = random.choice(["A", "B", "C", "D"], 6_000)
    if skew == "minute":
        times[:3_000] = random.integers(300_000_000, 360_000_000, 3_000)
    if skew == "type":
        kinds = random.choice(["A", "B", "C", "D"], 6_000, p=[0.9, 0.04, 0.03, 0.03])
        of_a = np.flatnonzero(kinds == "A")
        times[of_a[::2]] = random.choice([100_000_000, 600_000_000], len(of_a[::2])) + random.integers(
            0, 20_000_000, len(of_a[::2])
        )
    order = np.argsort(times, kind="stable")
    rows = [{"timestamp": int(times[at]), "kind": str(kinds[at]), "x": int(at) % 97} for at in order]
    return SCHEMA.table(rows)


def work_of(slices: list[Slice], plan: cep.Plan) -> list[int]:
    """The events that each task reads and the tuples that it tests: what it does, whatever the machine."""
    done = []
    for part in slices:
        events = part.read(columns_needed(SKEWED))
        found = detect_slice(SKEWED, plan, events, (part.start, part.end), lambda pattern, batch: None)
        done.append(events.num_rows + sum(node.candidates for node in found.metrics.nodes))
    return done


@pytest.mark.parametrize("skew", ["minute", "type", "none"])
def test_the_largest_task_is_hardly_larger_than_the_mean_one(tmp_path: Path, skew: str) -> None:
    table = skewed_day(skew)
    row_groups = read_row_groups(write(table, tmp_path, 65_536))
    assert len(row_groups) == 1, "the burst is inside a row group"
    plan = cep.plan(SKEWED, cep.estimate_statistics(SKEWED, table))
    pieces = Pieces.read(row_groups)
    work, _ = estimated_work(SKEWED, plan, pieces, Limits())
    bounds: dict[str, Any] = {"start": (0, 0), "end": (10**9, 0), "look_back": look_back(SKEWED), "count": 12}
    done = work_of(cut(pieces, **bounds, work=work), plan)
    assert len(done) >= 10 and max(done) <= 1.5 * np.mean(done)
    if skew != "none":
        by_events = work_of(cut(pieces, **bounds), plan)
        assert max(by_events) > 1.5 * np.mean(by_events), "events alone do not tell the work"


def test_a_slice_reads_its_look_back_and_nothing_else(tmp_path: Path) -> None:
    table = table_of([(1, "A", 0)] * 20)
    row_groups = read_row_groups(write(table, tmp_path, 5))
    part = slices_between(row_groups, [(111, 10), (116, 15)], LookBack(time_us=3))[0]
    assert [group.index for group in part.row_groups] == [1, 2]
    assert part.read(["kind"])["timestamp"].cast(pa.int64()).to_pylist() == list(range(108, 116))


def test_an_attribute_that_is_newer_than_the_files_is_null(tmp_path: Path) -> None:
    table = table_of([(1, "A", 0)] * 3)
    row_groups = read_row_groups(write(table.drop_columns("x"), tmp_path, 2))
    part = slices_between(row_groups, [(0, 0), (1000, 0)], LookBack())[0]
    assert part.read(["kind", "x"])["x"].to_pylist() == [None] * 3
    patterns = cep.parse_patterns("NAME p PATTERN A a WHERE a.x >= 0 OR a.kind = 'A' WITHIN 1 us", SCHEMA)
    assert len(found_in([part], patterns, table)["p"]) == 3


def test_a_slice_of_count_windows_reads_positions_back(tmp_path: Path) -> None:
    table = table_of([(1, "A", 0)] * 20)
    row_groups = read_row_groups(write(table, tmp_path, 5))
    part = slices_between(row_groups, [(111, 10), (116, 15)], LookBack(positions=7))[0]
    assert [group.index for group in part.row_groups] == [0, 1, 2]
    assert part.read(["kind"])["timestamp"].cast(pa.int64()).to_pylist() == list(range(104, 116))
    behind = slices_between(row_groups, [(121, 0), None], LookBack(positions=3))[0]
    assert behind.read(["kind"])["timestamp"].cast(pa.int64()).to_pylist() == [118, 119, 120]
    assert [instant_before(row_groups, positions) for positions in (0, 1, 5, 6, 20, 21)] == [
        120,
        120,
        116,
        115,
        101,
        None,
    ]


def test_row_groups_tell_the_points_of_their_first_and_last_event(tmp_path: Path) -> None:
    table = table_of([(1, "A", 0), (0, "B", 1), (2, "C", 2)])
    first, second = read_row_groups(write(table, tmp_path, 2))
    assert (first.first, first.last, first.rows) == ((101, 0), (101, 1), 2)
    assert (second.first, second.last, second.rows) == ((103, 2), (103, 2), 1)


def test_a_burst_is_cut_finer_than_its_number_of_events_says(tmp_path: Path) -> None:
    quiet = [(1_000_000, "A", 0)] * 50
    burst = [(1_000, "A", 0)] * 50
    table = table_of([*quiet, *burst])
    patterns = cep.parse_patterns("PATTERN SEQ(A a, A b, A c) WITHIN 1 second", SCHEMA)
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, table))
    pieces = Pieces.read(read_row_groups(write(table, tmp_path, 100)))
    work, _ = estimated_work(patterns, plan, pieces, Limits())
    assert work[50:].sum() > 10 * work[:50].sum()


def test_work_of_events_at_one_instant_is_finite() -> None:
    pieces = Pieces.even([RowGroup("f", 0, 10, (5, 0), (5, 9))])
    patterns = cep.parse_patterns("PATTERN SEQ(A a, B b) WITHIN 1 second", SCHEMA)
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, SCHEMA.table([])))
    work, again = estimated_work(patterns, plan, pieces, Limits())
    assert (work > 0).all() and all(np.isfinite(found).all() for found in (work, again))


def test_a_count_window_looks_back_over_events() -> None:
    texts = ("SEQ(A a, B b)", "SEQ(~C c, A a, B b, ~C d)", "A a")
    patterns = [cep.parse_patterns(f"PATTERN {text} WITHIN 5 EVENTS", SCHEMA)[0] for text in texts]
    assert [look_back([pattern]).positions for pattern in patterns] == [4, 8, 4]
    assert look_back(patterns) == LookBack(0, 8)


def test_the_columns_needed_are_those_that_are_mentioned() -> None:
    schema = StreamSchema.from_dict(
        {"type_attribute": "t", "attributes": {"t": "string", **dict.fromkeys("uvwxyz", "int64")}}
    )
    (pattern,) = cep.parse_patterns(
        "PATTERN SEQ(A a, B b) WHERE [u] AND NOT (a.v > 1 OR b.w IN (2)) WITHIN 1 ms PARTITION BY x RETURN a.y", schema
    )
    assert set(columns_needed([pattern])) == {"timestamp", "seq", "t", "u", "v", "w", "x", "y"}
