from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_files import Period
from cep_pipeline.events.readers import ParquetReader
from cep_pipeline.events.row_checks import check_rows
from cep_pipeline.events.schema import StreamSchema
from tests.events.raw import source_file, trades

MONTH = Period(date(2014, 8, 1), date(2014, 8, 31))


@pytest.fixture
def schema(tmp_path: Path) -> StreamSchema:
    return trades(tmp_path, timezone="UTC", source={"format": "parquet", "path": "{day:%Y-%m}.parquet"})


def write(tmp_path: Path, table: pa.Table, rows: int = 2) -> Path:
    path = tmp_path / "2014-08.parquet"
    pq.write_table(table, path, row_group_size=rows)
    return path


def month(days: list[int], **columns: pa.Array) -> pa.Table:
    count = len(days)
    return pa.table(
        {
            "symbol": pa.array(["SPY"] * count).dictionary_encode(),
            "timestamp": pa.array([datetime(2014, 8, day) for day in days], pa.timestamp("ms")),
            "price": pa.array([1.5] * count, pa.float32()),
            "size": pa.array(list(range(count)), pa.int16()),
            "note": pa.array(["x"] * count),
        }
        | columns
    )


def test_rows_have_numbers_and_types_widen(tmp_path: Path, schema: StreamSchema) -> None:
    assert schema.source is not None
    with ParquetReader(source_file(write(tmp_path, month([1, 1, 2, 2, 3]))), schema.source) as rows:
        assert rows.dropped_columns == ("note",)
        groups = rows.parts()
    assert [group.first_row for group in groups] == [1, 3, 5]
    kept = [group for group in groups if group.may_hold([date(2014, 8, 4)], MONTH)]
    assert [group.first_row for group in kept] == [5]
    with ParquetReader(source_file(tmp_path / "2014-08.parquet"), schema.source, groups[1:]) as rows:
        blocks = [check_rows(block, schema, MONTH, "f") for block in rows]
    table = pa.concat_tables([block.events for block in blocks])
    assert table.column("_line").to_pylist() == [3, 4, 5]
    assert table.schema.field("price").type == pa.float64()
    assert table.column("size").to_pylist() == [2, 3, 4]


def test_the_first_day_of_the_period_takes_the_rows_of_no_day(tmp_path: Path, schema: StreamSchema) -> None:
    assert schema.source is not None
    stamps = pa.array([datetime(2014, 8, 20), None, datetime(2014, 8, 20)], pa.timestamp("ms"))
    path = write(tmp_path, month([20, 20, 20], timestamp=stamps))
    with ParquetReader(source_file(path), schema.source) as rows:
        (block, _) = (check_rows(block, schema, MONTH, "f") for block in rows)
    (rejected,) = block.rejected
    assert (rejected.line, rejected.day) == (2, None)
    assert rejected.reason == "missing timestamp (column 'timestamp')"
    assert json.loads(rejected.raw) == {"timestamp": None, "symbol": "SPY", "price": 1.5, "size": 1}


def test_values_that_do_not_fit_are_rejected_by_row(tmp_path: Path, schema: StreamSchema) -> None:
    assert schema.source is not None
    path = write(tmp_path, month([1, 1], size=pa.array([1.5, 2.0])))
    with ParquetReader(source_file(path), schema.source) as rows:
        (block,) = (check_rows(block, schema, MONTH, "f") for block in rows)
    assert [(row.line, row.reason) for row in block.rejected] == [(1, "column 'size': 1.5 is no int64")]
    assert block.events.column("size").to_pylist() == [2]


def test_a_truncated_file_is_an_error_that_names_it(tmp_path: Path, schema: StreamSchema) -> None:
    assert schema.source is not None
    path = write(tmp_path, month([1, 2]))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"2014-08\.parquet: the file is truncated or corrupt"):
        ParquetReader(source_file(path), schema.source)


def test_a_corrupt_page_is_an_error_that_names_the_file(tmp_path: Path, schema: StreamSchema) -> None:
    assert schema.source is not None
    path = write(tmp_path, month(list(range(1, 29)) * 20), rows=1000)
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    with (
        ParquetReader(source_file(path), schema.source) as rows,
        pytest.raises(InputError, match=r"2014-08\.parquet: the file is truncated or corrupt"),
    ):
        list(rows)


def test_a_missing_column_and_a_nested_one_are_named(tmp_path: Path, schema: StreamSchema) -> None:
    assert schema.source is not None
    path = write(tmp_path, month([1]).drop_columns(["price"]))
    with pytest.raises(InputError, match="'price' is missing"):
        ParquetReader(source_file(path), schema.source)
    path = write(tmp_path, month([1], price=pa.array([[1.0]])))
    with pytest.raises(InputError, match="'price' has the type list"):
        ParquetReader(source_file(path), schema.source)
