"""Gathering the events before a day by partition: the last ones of each, and nothing before them is read."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.spark.partitions import Gathering, PartitionedEvents
from cep_pipeline.spark.slicing import RowGroup, read_row_groups
from cep_pipeline.storage import DataDirectory
from tests.thoroughness import examples

if TYPE_CHECKING:
    pass

SCHEMA = cep.StreamSchema.from_dict(
    {"base_type": "Ev", "type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}}
)
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
EVENT = st.tuples(st.sampled_from("AAAABBC"), st.sampled_from([0, 0, 0, 1, 2, None]))
DAY = st.lists(EVENT, min_size=1, max_size=12)


def microseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


def gathering_of(
    folder: Path,
    days: list[list[tuple[str, int | None]]],
    *,
    positions: int = 2,
    by: tuple[str, ...] = ("kind", "x"),
    pending: Sequence[str] = (),
    rows_of_a_group: int = 3,
    begun_minutes: int = 0,
) -> Gathering:
    """The gathering of the events before the last of some days, each of which is a file of two events a minute."""
    files = []
    for number, events in enumerate(days):
        begin = MONDAY + timedelta(days=number)
        rows = [
            {"timestamp": microseconds(begin + timedelta(minutes=place // 2)), "kind": kind, "x": x}
            for place, (kind, x) in enumerate(events)
        ]
        path = folder / f"{number}.parquet"
        pq.write_table(SCHEMA.table(rows), path, row_group_size=rows_of_a_group)
        files.append((begin.date(), str(path)))
    (day, own), schema = files.pop(), SCHEMA.table([]).schema
    start = MONDAY + timedelta(days=len(files), minutes=begun_minutes)
    row_groups = tuple(read_row_groups([own]))
    return Gathering(
        PartitionedEvents(by, positions, row_groups, microseconds(start)),
        ("timestamp", "seq", "kind", "x"),
        schema,
        files,
        day,
        DataDirectory(str(folder / "scratch"), "run"),
        pending,
    )


def answer(gathered: tuple[tuple[RowGroup, ...], date | None]) -> tuple[list[dict[str, object]], date | None]:
    events: list[dict[str, object]] = []
    for group in gathered[0]:
        events += pq.ParquetFile(group.path).read_row_group(group.index).to_pylist()
    return events, gathered[1]


@settings(max_examples=examples(80), deadline=None)
@given(
    days=st.lists(DAY, min_size=1, max_size=7),
    positions=st.integers(1, 5),
    pending=st.lists(st.sampled_from(['["C"]', '["D"]']), unique=True),
)
def test_the_last_events_of_each_partition_are_gathered(
    days: list[list[tuple[str, int | None]]], positions: int, pending: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        gathering = gathering_of(Path(folder), days, positions=positions, by=("kind",), pending=pending)
        found = answer(gathering.run())
    wanted = {kind for kind, _ in days[-1]} | {text[2:-2] for text in pending}
    expected, first_day, missing = [], gathering.day, dict.fromkeys(wanted, positions)
    first: dict[str, tuple[int, int]] = {}
    for number in range(len(days) - 2, -1, -1):
        for place in range(len(days[number]) - 1, -1, -1):
            kind, _ = days[number][place]
            if missing.get(kind) or first.get(kind) == (number, place // 2):  # events of one time are read together
                missing[kind] = max(missing[kind] - 1, 0)
                first[kind] = number, place // 2
                expected.append((number, place, kind))
                first_day = (MONDAY + timedelta(days=number)).date()
    times = [MONDAY + timedelta(days=number, minutes=place // 2) for number, place, _ in reversed(expected)]
    assert [(event["timestamp"], event["kind"]) for event in found[0]] == [
        (time, kind) for time, (_, _, kind) in zip(times, reversed(expected), strict=True)
    ]
    assert found[1] == (None if any(missing.values()) else first_day)


def test_reading_back_stops_where_every_partition_has_its_events(tmp_path: Path) -> None:
    days = [[("B", 1)] * 8] * 20 + [[("A", 1)] * 8] * 3 + [[("A", 1), ("B", 1)]]
    gathering = gathering_of(tmp_path, days, rows_of_a_group=2)
    for _, path in gathering.files[:17]:
        Path(path).unlink()  # whoever opened one of these would fail
    found, first_day = answer(gathering.run())
    assert [event["kind"] for event in found] == ["B", "B", "A", "A"]
    assert first_day == (MONDAY + timedelta(days=19)).date()


def test_a_row_group_of_nulls_is_in_no_partition(tmp_path: Path) -> None:
    days: list[list[tuple[str, int | None]]] = [[("A", 1)] * 3, [("A", None)] * 4, [("A", 1), ("A", None)]]
    found, first_day = answer(gathering_of(tmp_path, days, by=("x",)).run())
    assert ([event["x"] for event in found], first_day) == ([1, 1, 1], MONDAY.date()), "two are of one time"
