"""What readers see of a table is what pyiceberg sees of it; and damaged lists of files are errors that name them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from cep_pipeline.errors import DamagedError
from cep_pipeline.warehouse.published_table import PublishedTable
from cep_pipeline.warehouse.stream_tables import StreamTables
from tests.warehouse.published_days import MONDAY, publish_day, publish_matches

DAYS = [MONDAY + timedelta(days=number) for number in range(25)]


@pytest.fixture
def many(tables: StreamTables) -> StreamTables:
    """Enough commits for manifests to be merged, days that were published again, and an empty one."""
    for day in DAYS:
        publish_day(tables, day, [1.0, 2.0], parts=2)
    publish_day(tables, DAYS[3], [5.0])
    publish_day(tables, DAYS[4], [])
    for name in ("all", "some"):
        publish_matches(tables, DAYS[0], ["a", "b"], pattern_set=name)
    return tables


def scanned(
    table: Table,
    day_column: str,
    first: date | None = None,
    last: date | None = None,
    *,
    equal: Mapping[str, str] | None = None,
    snapshot_id: int | None = None,
) -> list[DataFile]:
    """The data files that pyiceberg finds."""
    asked = [f"{column} = '{value}'" for column, value in (equal or {}).items()]
    asked += [f"{day_column} {sign} '{day}'" for sign, day in ((">=", first), ("<=", last)) if day is not None]
    scan = table.scan(row_filter=" and ".join(asked) or AlwaysTrue(), snapshot_id=snapshot_id)
    return [task.file for task in scan.plan_files()] if scan.snapshot() is not None else []


def both(tables: StreamTables, name: str, day_column: str, *asked: Any, **more: Any) -> list[list[Any]]:
    """The files by the reader and by pyiceberg, each with all that is asked of a file."""
    table = tables.warehouse.catalog.load_table((tables.name, name))
    known = PublishedTable.read(None, "trades", name, table.metadata_location).files(day_column, *asked, **more)
    listed = scanned(table, day_column, *asked, **more)
    return [
        [
            {
                **{said: getattr(one, said) for said in ("file_path", "record_count", "file_size_in_bytes")},
                "partition": [one.partition[at] for at in range(len(table.spec().fields))],
                "bounds": (dict(one.lower_bounds), dict(one.upper_bounds)),
            }
            for one in files
        ]
        for files in (known, listed)
    ]


@pytest.mark.long
@pytest.mark.parametrize("asked", [(None, None), (DAYS[2], DAYS[4]), (None, DAYS[1]), (DAYS[20], None), (DAYS[5],) * 2])
def test_the_files_of_days_are_those_of_pyiceberg(many: StreamTables, asked: tuple[date | None, date | None]) -> None:
    known, listed = both(many, "events", "day", *asked)
    assert known == listed and known


@pytest.mark.long
def test_the_files_of_a_pattern_set_and_of_each_snapshot_are_those_of_pyiceberg(many: StreamTables) -> None:
    for name in ("all", "some", "none"):
        known, listed = both(many, "matches", "final_day", DAYS[0], DAYS[0], equal={"pattern_set": name})
        assert known == listed and len(known) == (name != "none")
    for snapshot in many.warehouse.catalog.load_table((many.name, "events")).snapshots():
        known, listed = both(many, "events", "day", None, None, snapshot_id=snapshot.snapshot_id)
        assert known == listed and known


def test_the_columns_are_those_of_pyiceberg(tables: StreamTables) -> None:
    for name in ("events", "matches", "statistics", "plans", "runs", "decisions", "quarantine"):
        table = tables.warehouse.catalog.load_table((tables.name, name))
        known = PublishedTable.read(None, "trades", name, table.metadata_location)
        assert known.columns.names == schema_to_pyarrow(table.schema()).names
        assert known.missing_columns(tables._layouts[name]) == []
        assert known.current_snapshot_id is None and known.files("day") == []


@pytest.mark.long
def test_damaged_lists_are_told_by_their_names(many: StreamTables) -> None:
    at = many.warehouse.catalog.load_table((many.name, "events")).metadata_location
    lists = [path for path in Path(at).parent.iterdir() if path.suffix == ".avro"]
    chosen = random.Random(1)
    for path in lists[-6:]:
        whole = path.read_bytes()
        for cut in (0, 3, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:cut] if cut else b"Obj\x01" + chosen.randbytes(400))
            try:
                PublishedTable.read(None, "trades", "events", at).files("day")
            except DamagedError as error:
                assert str(path) in str(error)
        path.write_bytes(whole)
    current = many.warehouse.catalog.load_table((many.name, "events")).current_snapshot()
    assert current is not None
    Path(current.manifest_list).write_bytes(b"")
    with pytest.raises(DamagedError, match="it has 0 bytes, and should have"):
        many.events_files()
    Path(current.manifest_list).unlink()
    with pytest.raises(DamagedError, match="it is not there"):
        many.events_files()
