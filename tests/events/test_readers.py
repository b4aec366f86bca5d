"""Every format of raw files is read in the same way."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.events.readers import READERS, open_rows
from cep_pipeline.events.stream_document import SourceSettings
from tests.events.raw import source_file, trades

ROWS = pa.table(
    {
        "symbol": ["SPY", "IBM", "SPY"],
        "timestamp": [datetime(2014, 8, day) for day in (1, 2, 3)],
        "price": [1.5, 2.5, 3.5],
        "size": [1, 2, 3],
        "note": ["x", "y", "z"],
    }
)
WRITERS = {
    "csv": pacsv.write_csv,
    "jsonl": lambda table, path: path.write_text(
        "".join(f"{json.dumps(row, default=str)}\n" for row in table.to_pylist())
    ),
    "regex": lambda table, path: path.write_text(
        "".join(f"{list(map(str, row.values()))}\n" for row in table.to_pylist())
    ),
    "parquet": lambda table, path: pq.write_table(table, path, row_group_size=2),
    "iceberg": lambda table, path: pq.write_table(table, path, row_group_size=2),
}
GROUPS = ", ".join(f"'(?P<{name}>[^']*)'" for name in ROWS.column_names)


def place_of(name: str) -> dict[str, str]:
    """A table, or the path of a file, which is read in the place of the table."""
    return {"table": "market.rows"} if name == "iceberg" else {"path": f"rows.{name}"}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_gives_all_rows_the_columns_that_are_left_out_and_the_fingerprint(tmp_path: Path, name: str) -> None:
    further = {"pattern": rf"\[{GROUPS}\]"} if name == "regex" else {}
    source = trades(tmp_path, timezone="UTC", source={"format": name, **place_of(name), **further}).source
    assert source is not None
    WRITERS[name](ROWS, tmp_path / f"rows.{name}")
    file = source_file(tmp_path / f"rows.{name}")
    with open_rows(file, source) as rows:
        blocks = list(rows)
        assert rows.dropped_columns == ("note",)
        parts = rows.parts()
    symbols = [symbol for block in blocks for symbol in block.columns["symbol"].to_pylist()]
    assert symbols == ["SPY", "IBM", "SPY"]
    if parts is not None:
        assert sum(part.rows for part in parts) == 3
        with open_rows(file, source, parts[-1:]) as rows:
            assert [int(line) for block in rows for line in block.lines] == [3]


@pytest.mark.parametrize("name", READERS)
def test_names_of_columns_are_refused_where_a_file_says_them_itself(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"source\.columns is only for (CSV files|`format: csv`)"):
        trades(tmp_path, source={"format": name, **place_of(name), "columns": ["symbol"]})


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            {"format": "iceberg"},
            r"yaml:\d+: .*source\.table: `format: iceberg` has a table and no path; write .*table: ",
        ),
        (
            {"format": "iceberg", "table": "a.b", "path": "x"},
            r"source\.table: `format: iceberg` has a table and no path",
        ),
        ({"format": "csv"}, r"source\.path: `format: csv` has at least one path, .*; write for example `path: "),
        ({"format": "csv", "path": []}, r"source\.path: `format: csv` has at least one path"),
        (
            {"format": "parquet", "path": "x", "table": "a.b"},
            r"source\.path: .*no table, which is for `format: iceberg`",
        ),
    ],
)
def test_a_source_is_paths_or_a_table(tmp_path: Path, source: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        trades(tmp_path, source=source)


def test_the_formats_of_a_stream_schema_are_those_that_can_be_read() -> None:
    assert SourceSettings.model_json_schema()["properties"]["format"]["enum"] == list(READERS)
