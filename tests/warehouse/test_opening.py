from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sql

from cep_pipeline.errors import BusyError, CepError, DamagedError, InputError
from cep_pipeline.storage import explain_storage_error, storage_errors
from cep_pipeline.warehouse import database
from cep_pipeline.warehouse.database import SETTINGS, explain_database_error
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    Trades,
    fingerprint_of,
    publish_day,
    publish_events,
    write_events,
)


def test_a_warehouse_is_made_on_first_use_and_opened_again(tmp_path: Path) -> None:
    location = tmp_path / "a new" / "ware#house ?ü%20"
    assert Warehouse.open(location).streams() == []
    publish_day(Warehouse.open(location).stream(Trades()), MONDAY, [1.0])
    again = Warehouse.open(location)
    assert again.streams() == ["trades"]
    assert again.open_stream("trades").read_events().column("price").to_pylist() == [1.0]


def test_a_relative_location_is_the_same_place_as_its_full_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    publish_day(Warehouse.open("w").stream(Trades()), MONDAY, [1.0])
    assert Warehouse.open(tmp_path / "w" / "..").location == str(tmp_path)
    assert Warehouse.open(tmp_path / "w").open_stream("trades").read_events().num_rows == 1


def test_a_location_under_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"file/warehouse"):
        Warehouse.open(tmp_path / "file" / "warehouse")
    with pytest.raises(InputError, match=r"making the folder .*file.*no folder"):
        Warehouse.open(tmp_path / "file")


def test_a_folder_without_write_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The super-user may write everywhere, so the answer of the system is given here.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match=r"cannot be written; give this user write access"):
        Warehouse.open(tmp_path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda catalog: catalog.write_bytes(b"this is no database" * 1000), r"catalog\.db.*put it back from a backup"),
        (lambda catalog: catalog.write_bytes(catalog.read_bytes()[:5000]), r"catalog\.db.*put it back from a backup"),
        (lambda catalog: catalog.unlink(), r"catalog\.db is missing"),
    ],
    ids=["overwritten", "truncated", "removed"],
)
def test_a_damaged_catalog_is_refused(tmp_path: Path, damage: Callable[[Path], object], message: str) -> None:
    publish_day(Warehouse.open(tmp_path).stream(Trades()), MONDAY, [1.0])
    damage(tmp_path / "catalog.db")
    with pytest.raises(InputError, match=message):
        Warehouse.open(tmp_path).open_stream("trades").days()


def test_another_format_version_is_refused(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path)
    with warehouse.database.begin() as connection:
        connection.execute(sql.update(SETTINGS).where(SETTINGS.c.name == "format_version").values(value="2"))
    with pytest.raises(InputError, match="format version 2, and this version of cep-pipeline knows 3"):
        Warehouse.open(tmp_path)


def test_a_moved_warehouse_is_refused(tmp_path: Path) -> None:
    Warehouse.open(tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    with pytest.raises(InputError, match=r"belongs to the warehouse at .*here, not to .*there"):
        Warehouse.open(tmp_path / "there")


def test_lost_metadata_of_a_table_is_named(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    location = tables.warehouse.table_location("trades", "events")
    for path in Path(location, "metadata").glob("*.json"):
        path.write_text("{}")
    with pytest.raises(
        DamagedError,
        match=rf"{location}/metadata/.*\.json: it has 2 bytes, and should have .*`cep verify`.*cep help operations",
    ):
        tables.read_events()
    for path in Path(location, "metadata").glob("*.json"):
        path.unlink()
    with pytest.raises(DamagedError, match=rf"{location}/metadata/.*\.json: it is not there.*`cep verify`"):
        tables.read_events()


def test_a_damaged_manifest_list_is_named(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    lists = list(Path(tables.warehouse.table_location("trades", "events")).glob("metadata/snap-*.avro"))
    for path in lists:
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DamagedError, match=r"snap-.*\.avro: it has 100 bytes.*`cep verify`.*cep help operations"):
        tables.read_events()


def test_a_lost_data_file_is_named(tables: StreamTables) -> None:
    publish_day(tables, MONDAY, [1.0])
    path = tables.events_files()[0].path
    Path(path).unlink()
    with pytest.raises(DamagedError, match=f"{path}: it is not there.*`cep verify`.*cep help operations"):
        tables.read_events()


def test_an_unknown_stream_is_refused_with_those_there_are(warehouse: Warehouse) -> None:
    with pytest.raises(InputError, match="it has none yet"):
        warehouse.open_stream("trades")
    warehouse.stream(Trades())
    with pytest.raises(InputError, match="no stream 'trade': there are trades"):
        warehouse.open_stream("trade")


@pytest.mark.parametrize("name", ["", "../x", "a.b", "1st", "a/b", "a b", "scratch"])
def test_a_stream_name_is_a_folder_name(warehouse: Warehouse, name: str) -> None:
    with pytest.raises(InputError, match="stream name"):
        warehouse.stream(Trades(name))


@pytest.mark.parametrize(
    ("location", "uri", "message"),
    [
        ("s3://bucket/warehouse", None, "needs a database of its own"),
        ("nowhere://x", "sqlite://", "not a place that can be read and written"),
        ("w", "no address", "no usable database address"),
        ("w", "nodb://user:secret@host/x", "no usable database address"),
        ("w", "postgresql+psycopg2://user:secret@127.0.0.1:1/cep", "cannot be reached"),
        ("w", "sqlite:////nowhere/at/all.db", "cannot be opened"),
    ],
)
def test_a_wrong_address_is_refused_without_showing_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str, uri: str | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message) as raised:
        Warehouse.open(location, uri)
    assert "secret" not in str(raised.value)


def test_a_full_disk_leaves_the_published_day(tables: StreamTables, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_day(tables, MONDAY, [1.0])
    before = tables.pin_events()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", full)
        with pytest.raises(CepError, match=r"writing .*: the disk is full. Nothing that is published has changed"):
            publish_day(tables, MONDAY, [2.0])
    with tables.day_lease(MONDAY, run_id="run") as lease:
        paths = write_events(tables, MONDAY, [2.0], run_id="run")
        fingerprint = fingerprint_of(tables, MONDAY, 2)
        monkeypatch.setattr(tables.warehouse.catalog, "_write_metadata", full)
        with pytest.raises(CepError, match=r"committing to trades\.events in .*: the disk is full"):
            publish_events(tables, MONDAY, paths, lease=lease, fingerprint=fingerprint, carry_out={})
    assert tables.pin_events() == before
    assert tables.read_events().column("price").to_pylist() == [1.0]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_device_without_space_is_said_to_be_full() -> None:
    with (
        pytest.raises(CepError, match="the disk is full"),
        storage_errors("writing /dev/full"),
        Path("/dev/full").open("w") as stream,
    ):
        stream.write("x" * 100_000)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), CepError, "disk is full"),
        (OSError("[Errno 28] Error writing bytes: No space left on device"), CepError, "disk is full"),
        (PermissionError(errno.EACCES, "Permission denied"), InputError, "permission denied"),
        (OSError(errno.EROFS, "Read-only file system"), InputError, "permission denied"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), CepError, "No such file"),
    ],
)
def test_failures_of_storage_say_what_to_do(error: OSError, kind: type[CepError], message: str) -> None:
    explained = explain_storage_error("writing /w/x", error)
    assert type(explained) is kind
    assert str(explained).startswith("writing /w/x: ")
    assert message in str(explained)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("database is locked", BusyError, "kept it locked"),
        ("database or disk is full", CepError, "the disk is full"),
        ("attempt to write a readonly database", InputError, "cannot be opened for writing"),
        ("database disk image is malformed", InputError, "put it back from a backup"),
        ("something else", CepError, "something else"),
    ],
)
def test_failures_of_the_catalog_say_what_to_do(text: str, kind: type[CepError], message: str) -> None:
    error = sql.exc.OperationalError("UPDATE", {}, sqlite3.OperationalError(text))
    explained = explain_database_error("sqlite:////w/catalog.db", error)
    assert type(explained) is kind
    assert message in str(explained)


def test_a_locked_catalog_is_busy_and_nothing_changes(tables: StreamTables, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_day(tables, MONDAY, [1.0])
    location = tables.warehouse.location
    monkeypatch.setattr(database, "SQLITE_WAIT_S", 0.1)
    impatient = Warehouse.open(location).open_stream("trades")
    blocker = sqlite3.connect(Path(location) / "catalog.db", isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    with pytest.raises(BusyError, match="locked"):
        impatient.day_lease(TUESDAY, run_id="run")
    blocker.execute("ROLLBACK")
    blocker.close()
    assert [entry.day for entry in impatient.days()] == [MONDAY]
