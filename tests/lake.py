"""A small lake for tests: a SQL catalog in a folder, with a table of ticks of some days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

TABLE = "market.ticks"
TICKS = pa.schema([("time", pa.timestamp("us", tz="UTC")), ("kind", pa.string()), ("x", pa.int64())])


@dataclass
class Lake:
    """The folder of the lake."""

    folder: Path

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the catalog."""
        place = self.folder / "lake"
        return {"name": "lake", "type": "sql", "uri": f"sqlite:///{place}.db", "warehouse": f"file://{place}"}

    def create(self, schema: pa.Schema = TICKS, **options: Any) -> Table:
        """Make the table, without rows."""
        catalog = load_catalog(**self.properties)
        catalog.create_namespace_if_not_exists("market")
        return catalog.create_table(TABLE, schema=schema, **options)

    @property
    def table(self) -> Table:
        """The table as it is now."""
        return load_catalog(**self.properties).load_table(TABLE)

    def source(self) -> dict[str, Any]:
        """The `source` of a stream schema that reads the table."""
        return {"format": "iceberg", "catalog": self.properties, "table": TABLE}


def ticks(*rows: str) -> pa.Table:
    """Rows as `2024-03-04T10:00:00,A,1`; the times are of UTC."""
    parts = [row.split(",") for row in rows]
    times = [datetime.fromisoformat(time).replace(tzinfo=UTC) if time else None for time, _, _ in parts]
    columns = [times, [kind or None for _, kind, _ in parts], [int(x) for _, _, x in parts]]
    return pa.table(columns, schema=TICKS)


def delete_rows(table: Table, first: str, positions: Sequence[int]) -> None:
    """Delete rows of a data file as engines do that merge on read: by a file of positions, from 0."""
    fields = [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
    ]
    path = first.replace(".parquet", f"-deletes-{positions[0]}.parquet")
    pq.write_table(
        pa.table([[first] * len(positions), list(positions)], schema=pa.schema(fields)), path[len("file://") :]
    )
    bounds = {2147483546: first.encode()}
    deletes = DataFileContent.POSITION_DELETES
    append_file(table, path, Record(), content=deletes, lower_bounds=bounds, upper_bounds=bounds)


def append_file(table: Table, path: str, partition: Record, **known: Any) -> None:
    """Add a file to a table as it is, without the statistics that pyiceberg would take from it."""
    made = DataFile.from_args(
        **{"content": DataFileContent.DATA, **known},
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=1,
        file_size_in_bytes=1,
    )
    made.spec_id = table.spec().spec_id
    mapping = {"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()}
    with table.transaction() as transaction:
        transaction.set_properties(mapping)
        with transaction.update_snapshot().fast_append() as append:
            append.append_data_file(made)
