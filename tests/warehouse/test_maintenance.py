from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.storage import write_data_file
from cep_pipeline.warehouse import catalog, maintenance
from cep_pipeline.warehouse.database import Database
from cep_pipeline.warehouse.maintenance import LEAST_GRACE_S
from cep_pipeline.warehouse.records import RunRecord, StaleDay
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    Trades,
    events_of,
    fingerprint_of,
    publish_day,
    publish_events,
    publish_matches,
    write_events,
)

DAY_S = 86_400.0


class Clock:
    """The present, moved on."""

    ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tables(tmp_path: Path, clock: Clock) -> StreamTables:
    return Warehouse.open(tmp_path / "w", clock=clock).stream(Trades())


def files_under(tables: StreamTables, table: str) -> set[str]:
    location = Path(tables.warehouse.table_location("trades", table))
    return {str(path) for path in location.rglob("*") if path.is_file()}


def test_only_files_that_nothing_names_are_removed(tables: StreamTables, clock: Clock) -> None:
    publish_day(tables, MONDAY, [1.0, 2.0])
    publish_matches(tables, MONDAY, ["a"])
    before = {table: files_under(tables, table) for table in ("events", "matches", "quarantine")}
    orphans = write_events(tables, MONDAY, [9.0], run_id="died")
    clock.ahead_s = 2 * DAY_S
    report = tables.warehouse.maintain()
    assert report.removed_files == 1
    assert report.removed_bytes > 0
    assert report.expired_snapshots == 0
    assert report.by_table["trades.events"]["removed_files"] == 1
    assert not Path(orphans[0]).exists()
    assert {table: files_under(tables, table) for table in before} == before
    assert tables.read_events().column("price").to_pylist() == [1.0, 2.0]
    assert tables.warehouse.maintain().removed_files == 0


def test_young_files_and_those_of_a_running_run_are_kept(tables: StreamTables, clock: Clock) -> None:
    old = write_events(tables, MONDAY, [9.0], run_id="died")
    clock.ahead_s = DAY_S - 100
    assert tables.warehouse.maintain().removed_files == 0
    clock.ahead_s = DAY_S + 100
    with tables.day_lease(MONDAY, run_id="died"):
        assert tables.warehouse.maintain().removed_files == 0
    assert tables.warehouse.maintain().removed_files == 1
    assert not Path(old[0]).exists()


def test_replaced_files_go_when_their_snapshot_has_expired(tables: StreamTables, clock: Clock) -> None:
    publish_day(tables, MONDAY, [1.0])
    pin = tables.pin_events()
    replaced = tables.events_files()[0].path
    publish_day(tables, MONDAY, [2.0])
    publish_day(tables, TUESDAY, [3.0])
    clock.ahead_s = 2 * DAY_S
    assert tables.warehouse.maintain().expired_snapshots == 0
    assert tables.read_events(snapshot=pin).column("price").to_pylist() == [1.0]
    clock.ahead_s = 6 * DAY_S
    report = tables.warehouse.maintain()
    assert report.by_table["trades.events"]["expired_snapshots"] == 2
    assert not Path(replaced).exists()
    assert tables.read_events().column("price").to_pylist() == [2.0, 3.0]
    assert [entry.events for entry in tables.days()] == [1, 1]
    with pytest.raises(CepError, match="has been expired by `cep maintain`"):
        tables.read_events(snapshot=pin)
    publish_day(tables, MONDAY, [4.0])
    assert tables.read_events().column("price").to_pylist() == [4.0, 3.0]


@pytest.mark.long
def test_tables_of_single_rows_are_packed(tables: StreamTables) -> None:
    start = datetime(2013, 10, 8, tzinfo=UTC)
    for number in range(40):
        tables.record_run(RunRecord(f"run-{number}", MONDAY, "running", start))
    before = tables.runs()
    table = tables.warehouse.catalog.load_table(("trades", "runs"))
    assert len(list(table.scan().plan_files())) == 40
    tables.warehouse.maintain()
    assert len(list(table.refresh().scan().plan_files())) == 1
    assert {run.run_id for run in tables.runs()} == {run.run_id for run in before}
    tables.record_run(RunRecord("run-0", MONDAY, "succeeded", start))
    assert {run.status for run in tables.runs() if run.run_id == "run-0"} == {"succeeded"}


def test_a_grace_period_that_could_hit_a_commit_is_refused(tables: StreamTables) -> None:
    with pytest.raises(InputError, match="too short"):
        tables.warehouse.maintain(grace_s=10)


def test_scratch_of_dead_runs_is_removed(tables: StreamTables, clock: Clock) -> None:
    scratch = Path(tables.warehouse.scratch)
    for name in ("ingest-1/day", "ingest-2"):
        (scratch / name).mkdir(parents=True)
        (scratch / name / "part.bin").write_bytes(b"12345")
    os.utime(scratch / "ingest-2" / "part.bin", (time.time() + DAY_S, time.time() + DAY_S))
    assert tables.warehouse.maintain().removed_files == 0
    clock.ahead_s = DAY_S + 100
    report = tables.warehouse.maintain()
    assert report.by_table["scratch"] == {
        "removed_files": 1,
        "removed_bytes": 5,
        "expired_snapshots": 0,
        "merged_files": 0,
    }
    assert [path.name for path in scratch.iterdir()] == ["ingest-2"]


@pytest.mark.long
def test_the_metadata_of_a_table_stops_growing(tables: StreamTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "PINNED_S", -60.0)
    monkeypatch.setattr(catalog, "MOST_SNAPSHOTS", 12)
    monkeypatch.setattr(catalog, "LEAST_SNAPSHOTS", 8)
    days = [MONDAY + timedelta(days=number) for number in range(45)]
    for number, day in enumerate(days):
        publish_day(tables, day, [float(number)])
    publish_day(tables, days[3], [30.0])
    table = tables.warehouse.catalog.load_table(("trades", "events"))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert 8 <= len(table.snapshots()) <= 13
    assert len(snapshot.manifests(table.io)) < 20
    assert len(table.metadata.metadata_log) <= 20
    assert len([name for name in files_under(tables, "events") if name.endswith(".metadata.json")]) <= 21
    expected = [30.0 if number == 3 else float(number) for number in range(45)]
    assert tables.read_events().column("price").to_pylist() == expected
    assert [file.day for file in tables.events_files(days[5], days[7])] == days[5:8]


def test_a_commit_keeps_the_snapshots_that_a_run_may_be_pinned_to(
    tables: StreamTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "MOST_SNAPSHOTS", 3)
    monkeypatch.setattr(catalog, "LEAST_SNAPSHOTS", 2)
    monkeypatch.setattr(catalog, "PINNED_S", 0.0)
    publish_day(tables, MONDAY, [1.0])
    with tables.day_lease(TUESDAY, run_id="reader"):
        pin = tables.pin_events()
        for price in range(6):
            publish_day(tables, MONDAY, [float(price)])
        assert tables.read_events(snapshot=pin).column("price").to_pylist() == [1.0]
    publish_day(tables, MONDAY, [7.0])
    with pytest.raises(CepError, match="has been expired"):
        tables.read_events(snapshot=pin)


def test_small_files_of_a_day_are_merged_with_the_same_rows_in_the_same_order(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [float(number) for number in range(10)], parts=5)
    publish_day(tables, TUESDAY, [11.0])
    publish_matches(tables, MONDAY, ["b", "a"])
    pin = tables.pin_events()
    days, events, matches = tables.days(), tables.read_events(), tables.read_matches("demo")
    assert len(tables.events_files()) == 6
    report = tables.warehouse.maintain()
    assert report.by_table["trades.events"]["merged_files"] == report.merged_files == 4
    assert [(file.day, file.rows) for file in tables.events_files()] == [(MONDAY, 10), (TUESDAY, 1)]
    assert tables.read_events() == events
    assert tables.read_events(snapshot=pin) == events
    assert tables.read_matches("demo") == matches
    assert tables.days() == days
    assert tables.stale_days(pattern_sets={"demo": "v1"}) == [
        StaleDay(TUESDAY, "demo", ("its matches have not been detected yet",))
    ]
    assert tables.warehouse.maintain().merged_files == 0
    publish_day(tables, MONDAY, [5.0, 6.0], parts=2)
    assert tables.read_events().column("price").to_pylist() == [5.0, 6.0, 11.0]


def test_files_are_merged_up_to_the_number_of_rows_and_never_across_an_overlap(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [float(number) for number in range(10)], parts=5)
    assert tables.warehouse.maintain(file_rows=5).merged_files == 2
    assert [file.rows for file in tables.events_files()] == [4, 4, 2]
    assert tables.read_events().column("price").to_pylist() == [float(number) for number in range(10)]
    directory = tables.events_directory(TUESDAY, run_id="apart")
    events = events_of(TUESDAY, [0.0, 1.0, 2.0, 3.0])
    apart = [
        write_data_file(directory.file(task), events.take(rows), tables.events_schema)
        for task, rows in enumerate(([0, 2], [1, 3]))
    ]
    with tables.day_lease(TUESDAY, run_id="apart") as lease:
        fingerprint = fingerprint_of(tables, TUESDAY, "apart")
        publish_events(tables, TUESDAY, apart, lease=lease, fingerprint=fingerprint, carry_out={})
    assert tables.warehouse.maintain(file_rows=5).merged_files == 0
    assert tables.read_events(TUESDAY).column("price").to_pylist() == [0.0, 1.0, 2.0, 3.0]


def test_a_day_that_is_redone_while_its_files_are_merged_stays_redone(
    tables: StreamTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_day(tables, MONDAY, [1.0, 2.0], parts=2)
    publish_day(tables, TUESDAY, [3.0, 4.0], parts=2)
    written = maintenance.rewrite_files

    def redone(paths: list[str], *rest: Any) -> str:
        merged = written(paths, *rest)
        if "day=2013-10-07" in paths[0]:
            publish_day(tables, MONDAY, [5.0, 6.0, 7.0], parts=3)
        return merged

    monkeypatch.setattr(maintenance, "rewrite_files", redone)
    tables.warehouse.maintain()
    assert tables.read_events().column("price").to_pylist() == [5.0, 6.0, 7.0, 3.0, 4.0]
    assert [file.rows for file in tables.events_files()] == [1, 1, 1, 2]


def test_maintenance_leaves_what_a_run_with_a_lease_may_read(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0, 2.0], parts=2)
    with tables.day_lease(TUESDAY, run_id="reader"):
        pin = tables.pin_events()
        for _ in range(2):
            tables.warehouse.maintain(keep_snapshots_s=-60.0, grace_s=LEAST_GRACE_S)
        assert tables.read_events(snapshot=pin).column("price").to_pylist() == [1.0, 2.0]
    assert tables.warehouse.maintain(keep_snapshots_s=-60.0, grace_s=LEAST_GRACE_S).expired_snapshots > 0


@pytest.mark.long
@pytest.mark.parametrize("ahead_s", [-7200.0, 7200.0])
def test_a_lease_is_as_old_as_the_clock_of_the_database_says(
    tables: StreamTables, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    def now_there(_: Database, clock: Callable[[], float]) -> sql.ColumnElement[float]:
        return sql.literal(clock() + ahead_s, sql.Double)

    monkeypatch.setattr(Database, "now", now_there)
    for name, number in (("MOST_SNAPSHOTS", 3), ("LEAST_SNAPSHOTS", 2), ("PINNED_S", 0.0)):
        monkeypatch.setattr(catalog, name, number)
    publish_day(tables, MONDAY, [1.0])
    publish_day(tables, MONDAY, [2.0])
    before = tables.pin_events()
    publish_day(tables, MONDAY, [3.0])
    with tables.day_lease(TUESDAY, run_id="reader"):
        pin = tables.pin_events()
        for price in range(4):
            publish_day(tables, MONDAY, [float(price)])
        tables.warehouse.maintain(keep_snapshots_s=-60.0, grace_s=LEAST_GRACE_S)
        assert tables.read_events(snapshot=pin).column("price").to_pylist() == [3.0]
    with pytest.raises(CepError, match="has been expired"):
        tables.read_events(snapshot=before)
