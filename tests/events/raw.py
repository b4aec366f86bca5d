"""Small streams with their raw files, for tests of ingestion."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from cep_pipeline.events.raw_files import UNBOUNDED, Period, SourceFile
from cep_pipeline.events.readers import CsvReader
from cep_pipeline.events.row_checks import CheckedBlock, check_rows
from cep_pipeline.events.schema import StreamSchema

CHECKOUT = Path(__file__).resolve().parents[2]
SHARED = CHECKOUT.parent / "shared" / "data"
HEADER = "symbol,timestamp,price,size\n"


def trades_document(**changes: Any) -> dict[str, Any]:
    """The YAML content of a small stream of trades; `changes` replace top-level settings, None removes one."""
    document: dict[str, Any] = {
        "name": "trades",
        "timezone": "America/New_York",
        "base_type": "Trade",
        "type_attribute": "symbol",
        "timestamp": "timestamp",
        "attributes": {"symbol": "string", "price": "float64", "size": "int64"},
        "derived": {"diff": {"diff": {"of": "price"}}, "past": {"history": {"of": "price", "length": 3}}},
        "source": {"format": "csv", "path": "{day:%Y-%m-%d}/trades*.csv.gz"},
        "quality": {
            "max_rejected_share": 0.5,
            "expectations": [{"column": "price", "above": 0}],
        },
    }
    document.update(changes)
    return {name: value for name, value in document.items() if value is not None}


def write_schema(folder: Path, **changes: Any) -> Path:
    path = folder / "stream.yaml"
    path.write_text(yaml.safe_dump(trades_document(**changes), sort_keys=False), encoding="utf-8")
    return path


def trades(folder: Path, **changes: Any) -> StreamSchema:
    return StreamSchema.load(write_schema(folder, **changes))


def write_gzip(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text if isinstance(text, bytes) else text.encode(), mtime=0))
    return path


def source_file(path: Path) -> SourceFile:
    return SourceFile(path.name, str(path), path.stat().st_size, UNBOUNDED)


def read_csv(
    path: Path, schema: StreamSchema, period: Period = UNBOUNDED, *, at_once: int = 1 << 20
) -> tuple[pa.Table, dict[int, str], dict[int, str]]:
    """The accepted rows of a CSV file, and reason and raw text of the others by line."""
    assert schema.source is not None
    reader = CsvReader(source_file(path), schema.source)
    reader.at_once = at_once
    checked: list[CheckedBlock] = [check_rows(block, schema, period, str(path)) for block in reader]
    rejected = [row for block in checked for row in block.rejected]
    events = [block.events for block in checked]
    table = pa.concat_tables(events) if events else pa.table({"_line": pa.array([], pa.int64())})
    return table, {row.line: row.reason for row in rejected}, {row.line: row.raw for row in rejected}
