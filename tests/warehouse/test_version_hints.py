"""The hint beside a table's metadata, by which engines open the table by its folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from cep_pipeline.warehouse import catalog
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    Trades,
    publish_day,
    publish_everything,
    publish_matches,
)

TABLES = ("events", "quarantine", "matches", "statistics", "plans", "decisions", "runs")


def by_folder(tables: StreamTables, name: str) -> pa.Table:
    return StaticTable.from_metadata(tables.warehouse.table_location("trades", name)).scan().to_arrow()


@pytest.mark.long
def test_each_table_is_opened_by_its_folder_from_the_beginning(tables: StreamTables) -> None:
    assert [by_folder(tables, name).num_rows for name in TABLES] == [0] * len(TABLES)
    publish_everything(tables)
    assert by_folder(tables, "events").column("price").to_pylist() == tables.read_events().column("price").to_pylist()
    assert by_folder(tables, "matches").num_rows == tables.read_matches("demo").num_rows > 0
    for name, (snapshot, _) in tables.snapshots.items():
        current = StaticTable.from_metadata(tables.warehouse.table_location("trades", name)).current_snapshot()
        assert (None if current is None else current.snapshot_id) == snapshot
    assert not list(Path(tables.warehouse.location).rglob(f".{catalog.VERSION_HINT}*"))


def test_polars_reads_a_table_by_its_folder(tables: StreamTables) -> None:
    polars = pytest.importorskip("polars")
    publish_day(tables, MONDAY, [3.0, 1.0])
    found = polars.scan_iceberg(tables.warehouse.table_location("trades", "events")).collect()
    assert sorted(found["price"]) == [1.0, 3.0]


def test_a_writer_that_ends_before_the_hint_leaves_the_table_of_before(
    tables: StreamTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_day(tables, MONDAY, [1.0, 2.0])

    class KilledError(BaseException):
        pass

    def killed(location: str) -> None:
        raise KilledError

    with monkeypatch.context() as patched, pytest.raises(KilledError):
        patched.setattr(catalog, "write_version_hint", killed)
        publish_day(tables, TUESDAY, [7.0])
    later = Warehouse.open(tables.warehouse.location, clock=lambda: 2e9).open_stream("trades")
    assert [one.day for one in later.days()] == [MONDAY, TUESDAY]
    assert by_folder(later, "events").column("price").to_pylist() == [1.0, 2.0]
    later.warehouse.maintain()
    assert sorted(by_folder(later, "events").column("price").to_pylist()) == [1.0, 2.0, 7.0]


def test_a_hint_that_cannot_be_written_stops_nothing(
    tables: StreamTables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    publish_day(tables, MONDAY, [1.0, 2.0])

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        publish_day(tables, TUESDAY, [7.0])
    assert "No space left" in caplog.text and "cep maintain" in caplog.text
    assert [one.day for one in tables.days()] == [MONDAY, TUESDAY]
    assert by_folder(tables, "events").column("price").to_pylist() == [1.0, 2.0]
    publish_matches(tables, TUESDAY, ["m"])
    publish_day(tables, TUESDAY, [8.0])
    assert sorted(by_folder(tables, "events").column("price").to_pylist()) == [1.0, 2.0, 8.0]


@pytest.mark.long
def test_maintenance_keeps_the_hint(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "original", clock=lambda: 2e9)
    tables = warehouse.stream(Trades())
    publish_everything(tables)
    rows = tables.read_events().num_rows
    warehouse.maintain(grace_s=3600, keep_snapshots_s=0)
    assert by_folder(tables, "events").num_rows == rows
