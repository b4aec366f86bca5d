"""The file that `cep detect` writes: the matches of one pattern after those of another, as they are found."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.cli.options import writing
from cep_pipeline.cli.tables import STDOUT, check_output_file, write_batches

if TYPE_CHECKING:
    from cep_pipeline.events.event_files import EventPlaces

ROWS_AT_ONCE = 1 << 16
BYTES_AT_ONCE = 1 << 26
"""Rows are written by so many, or so much."""


def write_matches(
    path: Path | None,
    output: str,
    schemas: Mapping[str, pa.Schema],
    found: Iterable[tuple[str, pa.RecordBatch]],
    places: EventPlaces | None = None,
) -> dict[str, int]:
    """Write what is found in a form of output, in memory that does not grow with it; returns the matches by pattern.

    The schemas have the columns of each pattern's output, in the order of the file. What is `found` are patterns' names
    and some of their output; that of several patterns, which may come in turns, waits in files beside the one that is
    written. Verbose output has the places of the events in their files beside each bound event, where they are given.
    The path `-` is stdout: CSV, once all of it is found. Without a path the matches are only counted. A place that
    cannot be written is an InputError; after this, or whatever `found` raises, there is no file.
    """
    check_output_file(path)
    counts = dict.fromkeys(schemas, 0)
    by_pattern = _counted(found, output, counts)
    schema = _of_file(output, schemas)
    if path is None:
        deque(by_pattern, maxlen=0)
        return counts
    if len(schemas) == 1:
        _write(schema, (batch for _, batch in by_pattern), path, places)
        return counts
    beside = None if path == STDOUT else path.absolute().parent
    with writing(path), tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=beside) as folder:
        waiting = {name: Path(folder) / f"{place}.arrows" for place, name in enumerate(schemas)}
        _put_apart(by_pattern, schemas, waiting)
        _write(schema, _one_after_the_other(output, schema, waiting), path, places)
    return counts


def _write(schema: pa.Schema, batches: Iterable[pa.RecordBatch], path: Path, places: EventPlaces | None) -> None:
    """Write batches to the file, with the places of their events."""
    rows = _larger(schema, batches)
    if places is None:
        write_batches(schema, rows, path)
        return
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, one.type) for one in schema], schema=schema)
    write_batches(_with_places(empty, places).schema, (_with_places(batch, places) for batch in rows), path)


def _with_places(batch: pa.RecordBatch, places: EventPlaces) -> pa.RecordBatch:
    """Matches in whose bindings `file` and `line` stand beside each event."""
    column = batch.schema.get_field_index("bindings")
    bindings = batch.column(column)
    bound = bindings.flatten()
    parts = [bound.field("variable"), bound.field("seq"), *places.of(bound.field("seq"))]
    placed = pa.StructArray.from_arrays(parts, ["variable", "seq", "file", "line"])
    offsets = pc.subtract(bindings.offsets, bindings.offsets[0])
    return batch.set_column(column, "bindings", pa.ListArray.from_arrays(offsets, placed))


def _counted(
    found: Iterable[tuple[str, pa.RecordBatch]], output: str, counts: dict[str, int]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    from cep_pipeline.storage import from_decimal_text

    for name, batch in found:
        counts[name] += (
            batch.num_rows if output == "verbose" else sum(map(from_decimal_text, batch["count"].to_pylist()))
        )
        yield name, batch


def _put_apart(
    found: Iterable[tuple[str, pa.RecordBatch]], schemas: Mapping[str, pa.Schema], files: Mapping[str, Path]
) -> None:
    with ExitStack() as stack:
        writers = {name: stack.enter_context(pa.ipc.new_stream(str(files[name]), schemas[name])) for name in schemas}
        for name, batch in found:
            writers[name].write_batch(batch)


def _one_after_the_other(output: str, schema: pa.Schema, files: Mapping[str, Path]) -> Iterator[pa.RecordBatch]:
    for file in files.values():
        with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as batches:
            for batch in batches:
                if output == "verbose":
                    batch = with_json_returns(batch, schema)
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _of_file(output: str, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """The columns that the patterns' outputs have in one file."""
    from cep_pipeline.detection.compressed.tables import concat_compressed
    from cep_pipeline.detection.matches import COMPOSING_PATTERNS, MANY_PATTERNS, composes

    first: pa.Schema = next(iter(schemas.values()))
    if output == "verbose":
        if len(schemas) == 1:
            return first
        return COMPOSING_PATTERNS if any(map(composes, schemas.values())) else MANY_PATTERNS
    if output == "compressed":
        return concat_compressed([schema.empty_table() for schema in schemas.values()]).schema
    return first


def _larger(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join batches to fewer and larger ones, because each one becomes a row group of a Parquet file."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()
            waiting, rows, size = [], 0, 0
    yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()


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
