from __future__ import annotations

import os
import signal
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sql

from cep_pipeline.errors import CepError
from cep_pipeline.events.columns import QUARANTINE_SCHEMA
from cep_pipeline.storage import open_data_file, write_data_file
from cep_pipeline.warehouse import catalog
from cep_pipeline.warehouse.records import DayStatistics
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.units import Draft
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.processes import CONTEXT
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    WEDNESDAY,
    Trades,
    events_of,
    fingerprint_of,
    matches_of,
    names_of,
    publish_day,
    publish_events,
    publish_match_files,
    publish_matches,
    publish_quarantine,
    publish_statistics,
    write_events,
)


def prices_of(tables: StreamTables, *days: date) -> list[float]:
    first, last = (days[0], days[-1]) if days else (None, None)
    return tables.read_events(first, last).column("price").to_pylist()


def test_a_day_is_read_back_as_it_was_written(tables: StreamTables) -> None:
    published = publish_day(tables, MONDAY, [1.0, 2.0, 3.0, 4.0, 5.0], parts=2)
    assert (published.day, published.events, published.rejected) == (MONDAY, 5, 0)
    read = tables.read_events(MONDAY, MONDAY)
    written = events_of(MONDAY, [1.0, 2.0, 3.0, 4.0, 5.0]).drop_columns(["day"])
    assert read.to_pylist() == written.to_pylist()
    assert read.column_names == Trades().arrow_schema.names
    assert read.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")


def test_publishing_again_replaces_the_day_and_no_other(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    publish_day(tables, TUESDAY, [2.0])
    publish_day(tables, MONDAY, [7.0, 8.0])
    assert prices_of(tables) == [7.0, 8.0, 2.0]
    assert [(entry.day, entry.events) for entry in tables.days()] == [(MONDAY, 2), (TUESDAY, 1)]


def test_days_published_in_any_order_read_in_order_of_time(tables: StreamTables) -> None:
    for day, price in ((WEDNESDAY, 3.0), (MONDAY, 1.0), (TUESDAY, 2.0)):
        publish_day(tables, day, [price])
    assert prices_of(tables) == [1.0, 2.0, 3.0]
    assert [entry.day for entry in tables.days()] == [MONDAY, TUESDAY, WEDNESDAY]


def test_an_empty_day_is_published(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [])
    assert [(entry.day, entry.events) for entry in tables.days()] == [(MONDAY, 0)]
    assert tables.read_events().num_rows == 0
    assert tables.events_files() == []


def test_a_day_can_become_empty(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    publish_day(tables, TUESDAY, [2.0])
    publish_day(tables, MONDAY, [])
    assert prices_of(tables) == [2.0]
    assert [(entry.day, entry.events) for entry in tables.days()] == [(MONDAY, 0), (TUESDAY, 1)]


def test_files_without_rows_are_left_out(tables: StreamTables) -> None:
    directory = tables.events_directory(MONDAY, run_id="run")
    empty = write_data_file(directory.file(0), events_of(MONDAY, []), tables.events_schema)
    full = write_data_file(directory.file(1), events_of(MONDAY, [1.0]), tables.events_schema)
    with tables.day_lease(MONDAY, run_id="run") as lease:
        fingerprint = fingerprint_of(tables, MONDAY, 1)
        publish_events(tables, MONDAY, [empty, full], lease=lease, fingerprint=fingerprint, carry_out={})
    assert [file.path for file in tables.events_files()] == [full]


def test_files_of_a_failed_attempt_are_never_added(tables: StreamTables) -> None:
    directory = tables.events_directory(MONDAY, run_id="run")
    failed = directory.file(0, attempt=0)
    with pytest.raises(RuntimeError), open_data_file(failed, tables.events_schema) as writer:
        writer.write_table(events_of(MONDAY, [99.0]).cast(tables.events_schema))
        raise RuntimeError("the task dies after it wrote")
    assert Path(failed).exists()
    second = write_data_file(directory.file(0, attempt=1), events_of(MONDAY, [1.0]), tables.events_schema)
    with tables.day_lease(MONDAY, run_id="run") as lease:
        fingerprint = fingerprint_of(tables, MONDAY, 1)
        publish_events(tables, MONDAY, [second], lease=lease, fingerprint=fingerprint, carry_out={})
    assert prices_of(tables) == [1.0]


def test_a_resumed_run_never_writes_over_its_own_published_file(tables: StreamTables) -> None:
    directory = tables.events_directory(MONDAY, run_id="run")
    assert directory.file(0) != directory.file(0)


def test_event_files_carry_their_rows_and_exact_bounds(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0, 2.0, 3.0, 4.0], parts=2)
    first, second = tables.events_files(MONDAY, MONDAY)
    events = events_of(MONDAY, [1.0, 2.0, 3.0, 4.0])
    points = list(
        zip(events.column("timestamp").cast(pa.int64()).to_pylist(), events.column("seq").to_pylist(), strict=True)
    )
    assert (first.rows, first.first, first.last) == (2, points[0], points[1])
    assert (second.rows, second.first, second.last) == (2, points[2], points[3])
    assert first.day == second.day == MONDAY
    assert first.size_bytes == Path(first.path).stat().st_size


def test_a_pinned_snapshot_is_not_changed_by_later_commits(tables: StreamTables) -> None:
    empty = tables.pin_events()
    publish_day(tables, MONDAY, [1.0])
    pin = tables.pin_events()
    publish_day(tables, MONDAY, [2.0])
    publish_day(tables, TUESDAY, [3.0])
    assert tables.read_events(snapshot=pin).column("price").to_pylist() == [1.0]
    assert list(pin.days) == [MONDAY]
    assert tables.read_events(snapshot=empty).num_rows == 0
    assert prices_of(tables) == [2.0, 3.0]


def test_events_of_overlapping_files_are_sorted(tables: StreamTables) -> None:
    directory = tables.events_directory(MONDAY, run_id="run")
    events = events_of(MONDAY, [0.0, 1.0, 2.0, 3.0])
    paths = [
        write_data_file(directory.file(task), events.take(rows), tables.events_schema)
        for task, rows in enumerate(([0, 2], [1, 3]))
    ]
    with tables.day_lease(MONDAY, run_id="run") as lease:
        fingerprint = fingerprint_of(tables, MONDAY, 1)
        publish_events(tables, MONDAY, paths, lease=lease, fingerprint=fingerprint, carry_out={})
    assert prices_of(tables) == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("missing", "is not there"),
        ("other day", "its rows are of day 2013-10-08, not of 2013-10-07"),
        ("two days", "does not fit trades.events"),
        ("elsewhere", "not under the location of trades.events"),
        ("twice", "the same file was given twice"),
        ("other columns", "does not fit trades.events"),
        ("other type", "does not fit trades.events"),
        ("no parquet", "does not fit trades.events"),
    ],
)
def test_a_wrong_file_is_refused_and_nothing_changes(
    tables: StreamTables, tmp_path: Path, fault: str, message: str
) -> None:
    publish_day(tables, MONDAY, [1.0])
    before = (tables.pin_events(), tables.events_files())
    path = tables.events_directory(MONDAY, run_id="run").file(0)
    columns = tables.events_schema
    events = events_of(MONDAY, [1.0])
    paths = [path]
    if fault == "other day":
        write_data_file(path, events_of(TUESDAY, [1.0]), columns)
    elif fault == "two days":
        write_data_file(path, pa.concat_tables([events, events_of(TUESDAY, [1.0])]), columns)
    elif fault == "elsewhere":
        paths = [write_data_file(str(tmp_path / "a.parquet"), events, columns)]
    elif fault == "twice":
        paths = [write_data_file(path, events, columns)] * 2
    elif fault == "other columns":
        extra = events.append_column("volume", pa.array([1]))
        write_data_file(path, extra, columns.append(pa.field("volume", pa.int64())))
    elif fault == "other type":
        index = columns.get_field_index("price")
        write_data_file(path, events, columns.set(index, pa.field("price", pa.string())))
    elif fault == "no parquet":
        Path(path).write_text("no")
    with tables.day_lease(MONDAY, run_id="run") as lease, pytest.raises(CepError, match=message):
        fingerprint = fingerprint_of(tables, MONDAY, 2)
        publish_events(tables, MONDAY, paths, lease=lease, fingerprint=fingerprint, carry_out={})
    assert (tables.pin_events(), tables.events_files()) == before


def test_publishing_needs_the_lease_of_that_day(tables: StreamTables) -> None:
    with tables.day_lease(TUESDAY, run_id="run") as lease, pytest.raises(CepError, match="day:2013-10-08"):
        publish_events(tables, MONDAY, [], lease=lease, fingerprint=fingerprint_of(tables, MONDAY, 1), carry_out={})
    assert tables.days() == []


def test_quarantined_rows_are_replaced_and_counted(tables: StreamTables) -> None:
    for count in (3, 2):
        with tables.day_lease(MONDAY, run_id="run") as lease:
            rows = [
                {"day": MONDAY, "file": "a.csv", "line": line + 2, "reason": "no price", "raw": "x,,"}
                for line in range(count)
            ]
            path = tables.quarantine_directory(MONDAY, run_id="run").file(0)
            write_data_file(path, pa.Table.from_pylist(rows, schema=QUARANTINE_SCHEMA), QUARANTINE_SCHEMA)
            fingerprint = fingerprint_of(tables, MONDAY, 1)
            assert publish_quarantine(tables, MONDAY, [path], lease=lease, fingerprint=fingerprint) == count
            publish_events(tables, MONDAY, [], lease=lease, fingerprint=fingerprint, carry_out={})
    assert tables.read_quarantine().column("line").to_pylist() == [2, 3]
    assert tables.read_quarantine(TUESDAY).num_rows == 0
    assert tables.read_quarantine(limit=1).num_rows == 1
    assert tables.days()[0].rejected == 2


def test_the_unit_of_matches_is_pattern_set_and_day(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    publish_day(tables, TUESDAY, [1.0])
    publish_matches(tables, MONDAY, ["a", "b"])
    publish_matches(tables, TUESDAY, ["c"])
    publish_matches(tables, MONDAY, ["x"], pattern_set="other set/ü")
    publish_matches(tables, MONDAY, ["d"])
    assert names_of(tables.read_matches("demo")) == ["d", "c"]
    assert names_of(tables.read_matches("demo", TUESDAY)) == ["c"]
    assert names_of(tables.read_matches("demo", limit=1)) == ["d"]
    assert tables.read_matches("demo", pattern="fall").num_rows == 0
    assert tables.read_matches("other set/ü").to_pylist() == matches_of("other set/ü", MONDAY, ["x"]).to_pylist()
    assert tables.read_matches("none of them").num_rows == 0
    assert [(m.pattern_set, m.final_day, m.matches) for m in tables.matches_days("demo")] == [
        ("demo", MONDAY, 1),
        ("demo", TUESDAY, 1),
    ]


def test_matches_of_one_pattern_are_selected_across_files(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    directory = tables.matches_directory("demo", MONDAY, run_id="run")
    both = [matches_of("demo", MONDAY, [f"{p}{t}" for t in range(2)], pattern=p) for p in ("fall", "rise")]
    paths = [
        write_data_file(directory.file(task), pa.concat_tables(part.slice(task, 1) for part in both), both[0].schema)
        for task in range(2)
    ]
    with tables.day_lease(MONDAY, run_id="run") as lease:
        fingerprint = tables.pin_events().matches_fingerprint("v1", MONDAY, MONDAY, carry_in="")
        publish_match_files(tables, "demo", MONDAY, paths, lease=lease, fingerprint=fingerprint)
    assert names_of(tables.read_matches("demo", pattern="rise")) == ["rise0", "rise1"]
    assert names_of(tables.read_matches("demo", pattern="rise", limit=1)) == ["rise0"]


def test_statistics_are_replaced(tables: StreamTables) -> None:
    for rate in (1.0, 2.0):
        with tables.day_lease(MONDAY, run_id="run") as lease:
            publish_statistics(tables, MONDAY, {"demo": DayStatistics({"rate": rate})}, lease=lease)
    assert tables.read_statistics("demo", MONDAY) == {"rate": 2.0}
    assert tables.read_statistics("demo", TUESDAY) is None


def test_a_new_attribute_becomes_a_column_that_is_null_in_older_days(warehouse: Warehouse) -> None:
    publish_day(warehouse.stream(Trades()), MONDAY, [1.0])
    wider = warehouse.stream(Trades(volume=pa.int64()))
    assert wider.read_events().column("volume").to_pylist() == [None]
    path = wider.events_directory(TUESDAY, run_id="run").file(0)
    events = events_of(TUESDAY, [2.0]).append_column("volume", pa.array([5]))
    write_data_file(path, events, wider.events_schema)
    with wider.day_lease(TUESDAY, run_id="run") as lease:
        fingerprint = fingerprint_of(wider, TUESDAY, 1)
        publish_events(wider, TUESDAY, [path], lease=lease, fingerprint=fingerprint, carry_out={})
    assert wider.read_events().column("volume").to_pylist() == [None, 5]
    assert "volume" in warehouse.open_stream(wider.name).events_schema.names
    # A schema without the attribute reads and publishes as before.
    assert warehouse.stream(Trades()).read_events().column_names == Trades().arrow_schema.names
    publish_day(warehouse.stream(Trades()), WEDNESDAY, [3.0])
    assert wider.read_events().column("volume").to_pylist() == [None, 5, None]


def test_an_attribute_keeps_its_type(warehouse: Warehouse) -> None:
    warehouse.stream(Trades(volume=pa.int64()))
    with pytest.raises(CepError, match="attribute 'volume' is int64 in the published events, and float64"):
        warehouse.stream(Trades(volume=pa.float64()))


def test_attribute_names_of_any_kind_are_stored(warehouse: Warehouse) -> None:
    odd = {"a b": pa.int64(), "ü": pa.float64(), "Price": pa.string(), "select": pa.bool_()}
    tables = warehouse.stream(Trades("odd", **odd))
    events = events_of(MONDAY, [1.0])
    values = (3, 0.5, "P", True)
    for (name, kind), value in zip(odd.items(), values, strict=True):
        events = events.append_column(name, pa.array([value], kind))
    path = write_data_file(tables.events_directory(MONDAY, run_id="r").file(0), events, tables.events_schema)
    with tables.day_lease(MONDAY, run_id="r") as lease:
        fingerprint = fingerprint_of(tables, MONDAY, 1)
        publish_events(tables, MONDAY, [path], lease=lease, fingerprint=fingerprint, carry_out={})
    assert tuple(tables.read_events().to_pylist()[0][name] for name in odd) == values


def _publish_in_a_process(location: str, day: date, count: int) -> None:
    tables = Warehouse.open(location).stream(Trades())
    for _ in range(count):
        publish_day(tables, day, [float(day.day)], run_id=f"run-{day}")


@pytest.mark.long
def test_concurrent_publishes_of_different_days_all_land(tmp_path: Path) -> None:
    # The processes open a warehouse that is not there yet, so that making it is concurrent too.
    days = [MONDAY + timedelta(days=i) for i in range(8)]
    processes = [CONTEXT.Process(target=_publish_in_a_process, args=(str(tmp_path / "w"), day, 3)) for day in days]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 8
    tables = Warehouse.open(tmp_path / "w").open_stream("trades")
    assert [entry.day for entry in tables.days()] == days
    assert prices_of(tables) == [float(day.day) for day in days]
    assert len(tables.events_files()) == 8


def test_other_engines_can_read_the_table(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0, 2.0])
    publish_day(tables, MONDAY, [3.0], run_id="again")
    table = tables.warehouse.catalog.load_table(("trades", "events"))
    assert table.scan().to_arrow().column("price").to_pylist() == [3.0]
    summary = table.current_snapshot().summary
    assert summary["cep.run"] == "again"
    assert summary["cep.unit"] == "2013-10-07"
    assert summary["cep.fingerprint"] == tables.days()[0].fingerprint.digest
    assert len(table.snapshots()) == 2


def test_the_record_of_a_day_names_the_snapshot_that_published_it(tables: StreamTables) -> None:
    published = publish_day(tables, MONDAY, [1.0])
    assert tables.pin_events().snapshot_id == published.snapshot_id
    publish_day(tables, TUESDAY, [1.0])
    assert tables.days()[0] == published


def test_written_files_are_kept_apart_by_run_task_and_attempt(tables: StreamTables) -> None:
    (path,) = write_events(tables, MONDAY, [1.0], run_id="scheduled__2013-10-07T00:00:00+00:00")
    assert "scheduled__2013-10-07T00-00-00-00-00_9824b601-00000-0-" in path
    assert ":" not in path


@pytest.mark.parametrize("state", ["40P01", "40001"])
def test_a_transaction_that_gave_way_to_another_is_tried_again(
    tables: StreamTables, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    class Ended(Exception):
        pgcode = state

    tried: list[sql.Connection] = []
    write = Draft.write

    def ended_once(draft: Draft, connection: sql.Connection, *more: Any) -> None:
        write(draft, connection, *more)
        if draft.table == "events":
            tried.append(connection)
            if len(tried) == 1:
                raise sql.exc.OperationalError("UPDATE", {}, Ended("deadlock detected"))

    monkeypatch.setattr(Draft, "write", ended_once)
    publish_day(tables, MONDAY, [1.0])
    assert len(tried) == 2 and prices_of(tables) == [1.0]


def test_a_publication_that_is_stopped_before_it_has_written_its_manifests_says_nothing(
    tables: StreamTables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    publish_day(tables, MONDAY, [1.0])

    def stopped(producer: Any) -> None:
        producer._written_manifests.append(f"{tables.warehouse.location}/trades/events/metadata/not-yet-m0.avro")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, caplog.at_level("WARNING"), pytest.raises(KeyboardInterrupt):
        patch.setattr(catalog._Replacement, "_manifests", stopped)
        publish_day(tables, MONDAY, [2.0])
    assert caplog.records == []
    assert prices_of(tables) == [1.0]


def test_a_signal_waits_until_a_commit_has_ended(tables: StreamTables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raised while Pydantic writes the metadata, it would be an error of Pydantic, and the run a failed one."""
    write, signals = catalog.WarehouseCatalog._write_metadata, [signal.SIGINT]  # a second one ends the process at once

    def interrupted(*arguments: Any) -> None:
        while signals:
            os.kill(os.getpid(), signals.pop())
        write(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(catalog.WarehouseCatalog, "_write_metadata", staticmethod(interrupted))
        publish_day(tables, MONDAY, [1.0])
    assert prices_of(tables) == [1.0]
