"""The reader of Parquet files: only the columns and the row groups that are needed, every row with its number."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cep_pipeline.errors import InputError
from cep_pipeline.events.raw_files import SourceFile, open_raw, readable
from cep_pipeline.events.raw_rows import FilePart, RawBlock, RowReader, plain
from cep_pipeline.events.source import SourceLayout

BLOCK_ROWS = 262_144
"""Rows that are checked at once."""


class ParquetReader(RowReader):
    """Reads the rows of one Parquet file, a row group at a time."""

    def __init__(self, file: SourceFile, source: SourceLayout, parts: Sequence[FilePart] | None = None) -> None:
        super().__init__(file, source, parts)
        path = file.path
        stream = self._opened.enter_context(open_raw(path))
        with readable(path):
            self._parquet = pq.ParquetFile(stream)
        names = self._parquet.schema_arrow.names
        source.find_columns(path, names)
        self._note_dropped(names)
        for name in source.listed:
            if pa.types.is_nested(self._parquet.schema_arrow.field(name).type):
                raise InputError(
                    f"{path}: column {name!r} has the type {self._parquet.schema_arrow.field(name).type}, "
                    "where the stream schema reads a single value a row"
                )

    def __iter__(self) -> Iterator[RawBlock]:
        return self.read(self.parts() if self._given is None else self._given)

    @classmethod
    def parts_of(cls, file: SourceFile, source: SourceLayout) -> list[FilePart]:
        """Return the row groups of a file."""
        with cls(file, source) as reader:
            return reader.parts()

    def parts(self) -> list[FilePart]:
        """Return the row groups of the file."""
        metadata = self._parquet.metadata
        column = next(
            index
            for index in range(metadata.num_columns)
            if metadata.schema.column(index).path == self._source.timestamp.column
        )
        groups, row = [], 1
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            bounds = _dates(group.column(column).statistics)
            groups.append(FilePart(index, row, group.num_rows, bounds))
            row += group.num_rows
        return groups

    def read(self, parts: Sequence[FilePart]) -> Iterator[RawBlock]:
        """Read row groups, in blocks of at most `BLOCK_ROWS` rows."""
        for part in parts:
            with readable(self._path):
                first = part.first_row
                for batch in self._parquet.iter_batches(
                    BLOCK_ROWS, row_groups=[part.index], columns=list(self._source.listed), use_threads=False
                ):
                    batch.validate(full=True)  # text that is no UTF-8
                    columns = {name: _plain(batch.column(name)) for name in self._source.listed}
                    yield RawBlock(columns, first + np.arange(batch.num_rows, dtype=np.int64), _RowText(columns))
                    first += batch.num_rows


@dataclass(frozen=True)
class _RowText:
    columns: dict[str, pa.Array]

    def __call__(self, index: int) -> str:
        row = {name: plain(values[index]) for name, values in self.columns.items()}
        return json.dumps(row, default=str, ensure_ascii=False)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _dates(statistics: pq.Statistics | None) -> tuple[date, date] | None:
    """The days of all values; None where the file does not say them, or has rows without a value."""
    if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
        return None
    try:
        low, high = statistics.min, statistics.max
    except (ValueError, OverflowError):  # beyond the years that Python knows
        return None
    if not isinstance(low, date) or not isinstance(high, date):
        return None
    day = timedelta(days=1)
    low = low.date() if isinstance(low, datetime) else low
    high = high.date() if isinstance(high, datetime) else high
    if low.year <= 1 or high.year >= 9999:
        return None
    return low - day, high + day
