"""The files of rows that commands write: matches and their events, as Parquet, CSV or JSON."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.cli.options import check_folder, writing
from cep_pipeline.cli.terminal import plain_value, show_file
from cep_pipeline.errors import InputError
from cep_pipeline.foreign_text import without_formulas
from cep_pipeline.storage import id_texts

if TYPE_CHECKING:
    from cep_pipeline.events.event_files import EventPlaces

STDOUT = Path("-")
"""Stands for stdout in the place of a file to write."""

ROWS_AT_ONCE = 1 << 16
"""Rows that are made text at once."""


def check_output_file(path: Path | None) -> None:
    """Refuse (InputError) a file that `write_table` could not write, before the work whose result it is to hold."""
    if path is None or path == STDOUT:
        return
    if path.suffix not in (".parquet", ".csv", ".json"):
        raise InputError(f"{path}: the file's ending says its format: name a file with .parquet, .csv or .json")
    check_folder(path)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table to a .parquet, .csv or .json (one object a line) file; another ending is an InputError.

    In a .csv file an apostrophe stands before text that a spreadsheet would run as a formula (`without_formulas`). The
    path `-` is stdout: CSV, once all of it is there.
    """
    check_output_file(path)
    if path == STDOUT:
        with tempfile.TemporaryDirectory(prefix="cep-stdout-") as folder:
            written = Path(folder) / "rows.csv"
            write_table(table, written)
            show_file(written)
    else:
        write_tables(table.schema, [table], path)


def write_tables(schema: pa.Schema, tables: Iterable[pa.Table], path: Path) -> None:
    """Write tables of one schema as they come, as `write_table` writes one; a file that is cut off is removed."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with writing(path):
            with _opened(schema, path.suffix, unfinished) as write:
                for table in tables:
                    write(table)
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _opened(schema: pa.Schema, ending: str, path: Path) -> Iterator[Callable[[pa.Table], object]]:
    """Open a file in the format of its ending; the result writes one table."""
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    if ending == ".parquet":
        # To try a dictionary of ids and seqs, of which none comes twice, takes a sixth of the time to write.
        repeating = [name for name in schema.names if name not in ("match_id", "bindings", "composed")]
        with pq.ParquetWriter(path, schema, use_dictionary=repeating) as writer:
            yield writer.write_table
    elif ending == ".csv":
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
        with pa_csv.CSVWriter(path, _as_text(empty).schema) as writer:

            def write_texts(table: pa.Table) -> None:
                for batch in table.to_batches(ROWS_AT_ONCE):
                    writer.write_batch(_as_text(batch))

            yield write_texts
    else:
        with path.open("w", encoding="utf-8") as file:

            def write_lines(table: pa.Table) -> None:
                for batch in table.to_batches(ROWS_AT_ONCE):
                    columns = [id_texts(column) for column in batch.columns]
                    for row in pa.record_batch(columns, batch.schema.names).to_pylist():
                        text = json.dumps(plain_value(row), default=str, ensure_ascii=False, allow_nan=False)
                        file.write(text + "\n")

            yield write_lines


def _as_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as a CSV file has them."""
    columns = []
    for column in map(id_texts, batch.columns):
        if pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type):  # of events or matches
            texts = [
                None if row is None else json.dumps([[*one.values()] for one in row]) for row in column.to_pylist()
            ]
            column = pa.array(texts, pa.string())
        columns.append(without_formulas(column))
    return pa.record_batch(columns, without_formulas(pa.array(batch.schema.names, pa.string())).to_pylist())


def write_matches(
    path: Path | None, output: str, tables: Mapping[str, pa.Table], places: EventPlaces | None = None
) -> dict[str, int]:
    """Write what patterns have in a form of output, one pattern after another; returns the matches by pattern.

    The places of the events in their files stand beside each bound event, where they are given. Without a path the
    matches are only counted. A place that cannot be written is an InputError.
    """
    from cep_pipeline.detection.matches import COMPOSING_PATTERNS, MANY_PATTERNS, composes
    from cep_pipeline.storage import from_decimal_text

    if path is not None:
        own = list(tables.values())
        if output == "verbose" and len(own) > 1:
            shared = COMPOSING_PATTERNS if any(composes(table.schema) for table in own) else MANY_PATTERNS
            batches = [with_json_returns(batch, shared) for table in own for batch in table.to_batches()]
            own = [pa.Table.from_batches(batches, shared)]
        table = pa.concat_tables(own)
        write_table(table if places is None else _with_places(table, places), path)
    if output == "verbose":
        return {name: table.num_rows for name, table in tables.items()}
    return {name: sum(map(from_decimal_text, table["count"].to_pylist())) for name, table in tables.items()}


def _with_places(table: pa.Table, places: EventPlaces) -> pa.Table:
    """Matches in whose bindings `file` and `line` stand beside each event."""
    column = table.schema.get_field_index("bindings")
    bindings = table.column(column).combine_chunks()
    bound = bindings.flatten()
    parts = [bound.field("variable"), bound.field("seq"), *places.of(bound.field("seq"))]
    placed = pa.StructArray.from_arrays(parts, ["variable", "seq", "file", "line"])
    offsets = pc.subtract(bindings.offsets, bindings.offsets[0])
    return table.set_column(column, "bindings", pa.ListArray.from_arrays(offsets, placed))


def with_json_returns(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Rows of a pattern in the columns (`MANY_PATTERNS` or `COMPOSING_PATTERNS`) that those of many patterns share.

    Those of SUMMARIZE are in `returns`.
    """
    from cep_pipeline.detection.matches import FIXED_FIELDS, composes, json_objects

    fixed = [*(field.name for field in FIXED_FIELDS), *(["composed"] if composes(batch.schema) else [])]
    there = {name: batch.column(name) for name in fixed if name in batch.schema.names}
    names = [name for name in batch.schema.names if name not in fixed]
    if names:
        there["returns"] = json_objects(names, [batch.column(name) for name in names])
    arrays = [
        there[one.name].cast(one.type) if one.name in there else pa.nulls(batch.num_rows, one.type) for one in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)
