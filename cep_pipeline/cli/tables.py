"""`cep maintain`, `verify` and `restore` tidy, check and bring back tables; files of rows are written."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from cep_pipeline.cli.options import (
    Day,
    check_folder,
    complete,
    config_option,
    configuration_options,
    counted,
    json_option,
    writing,
)
from cep_pipeline.cli.terminal import output_console, plain_value, say, say_json, show_file
from cep_pipeline.errors import DataError, InputError
from cep_pipeline.foreign_text import without_formulas
from cep_pipeline.storage import id_texts

OF_MANY_VALUES = frozenset({"match_id", "bindings.list.element.seq", "composed.list.element.match_id"})
"""Columns of matches for which a Parquet file has no dictionary: to try one takes a sixth of the time to write them."""


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table to a .parquet, .csv or .json (one object a line) file; another ending is an InputError.

    In a .csv file an apostrophe stands before text that a spreadsheet would run as a formula (`without_formulas`).
    """
    write_batches(table.schema, table.to_batches(), path)


def write_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch], path: Path) -> None:
    """Write batches of one schema as they come, as `write_table` writes a table; a file that is cut off is removed.

    The path `-` is stdout: CSV, once all of it is there.
    """
    check_output_file(path)
    if path == STDOUT:
        with tempfile.TemporaryDirectory(prefix="cep-stdout-") as folder:
            written = Path(folder) / "rows.csv"
            write_batches(schema, batches, written)
            show_file(written)
        return
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with writing(path):
            with _opened(schema, path.suffix, unfinished) as write:
                for batch in batches:
                    write(batch)
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def csv_pieces(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """The text of a .csv file of `write_batches`, piece by piece, each made when it is asked for."""
    pieces = _Pieces()
    with _opened(schema, ".csv", pieces) as write:
        yield pieces.take()
        for batch in batches:
            for first in range(0, batch.num_rows, _ROWS_OF_A_PIECE):
                write(batch.slice(first, _ROWS_OF_A_PIECE))
                yield pieces.take()


_ROWS_OF_A_PIECE = 5_000


class _Pieces(io.RawIOBase):
    """A file that hands over what was written to it."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._written.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        """Return what was written since it was last asked for."""
        written, self._written = self._written, []
        return b"".join(written)


@contextmanager
def _opened(schema: pa.Schema, ending: str, path: Path | _Pieces) -> Iterator[Callable[[pa.RecordBatch], object]]:
    """Open a file in the format of its ending; the result writes one batch."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    if ending == ".parquet":
        repeating = [leaf for field in schema for leaf in _leaves(field.name, field.type) if leaf not in OF_MANY_VALUES]
        with pq.ParquetWriter(path, schema, use_dictionary=repeating) as writer:
            yield writer.write_batch
    elif ending == ".csv":
        lists = [place for place, field in enumerate(schema) if _is_list_of_structs(field.type)]
        plain, ids = schema, schema.get_field_index("match_id")
        for place in lists if ids < 0 else (*lists, ids):
            plain = plain.set(place, pa.field(schema.names[place], pa.string()))
        names = without_formulas(pa.array(plain.names, pa.string())).to_pylist()
        plain = pa.schema([field.with_name(name) for field, name in zip(plain, names, strict=True)])

        def write_plain(batch: pa.RecordBatch) -> None:
            for place in lists:
                rows = id_texts(batch.column(place)).to_pylist()
                texts = [None if row is None else json.dumps([[*one.values()] for one in row]) for row in rows]
                batch = batch.set_column(place, plain.field(place), pa.array(texts, pa.string()))
            columns = [without_formulas(id_texts(column)) for column in batch.columns]
            writer.write_batch(pa.record_batch(columns, schema=plain))

        with pa_csv.CSVWriter(path, plain) as writer:
            yield write_plain
    else:
        assert isinstance(path, Path)
        with path.open("w", encoding="utf-8") as file:

            def write_lines(batch: pa.RecordBatch) -> None:
                columns = [id_texts(column) for column in batch.columns]
                for row in pa.record_batch(columns, batch.schema.names).to_pylist():
                    text = json.dumps(plain_value(row), default=str, ensure_ascii=False, allow_nan=False)
                    file.write(text + "\n")

            yield write_lines


def _leaves(name: str, kind: pa.DataType) -> Iterator[str]:
    """The columns that a Parquet file has for one of a table."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{name}.{field.name}", field.type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{name}.list.element", kind.value_type)
    else:
        yield name


def _is_list_of_structs(kind: pa.DataType) -> bool:
    """True for `bindings` and `composed`, which a line of text has as JSON."""
    import pyarrow as pa

    return bool(pa.types.is_list(kind) and pa.types.is_struct(kind.value_type))


STDOUT = Path("-")
"""Stands for stdout in the place of a file to write."""


def check_output_file(path: Path | None) -> None:
    """Refuse (InputError) a file that `write_table` could not write, before the work whose result it is to hold."""
    if path is None or path == STDOUT:
        return
    if path.suffix not in (".parquet", ".csv", ".json"):
        raise InputError(f"{path}: the file's ending says its format: name a file with .parquet, .csv or .json")
    check_folder(path)


@click.command()
@config_option
@click.option(
    "--grace-hours",
    type=click.FloatRange(min=1 / 6),
    default=24.0,
    show_default=True,
    help="Files younger than this are left alone.",
)
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="Snapshots younger than this are kept.",
)
@json_option
def maintain(config: Path, grace_hours: float, keep_days: float, as_json: bool) -> None:
    """Expire old snapshots, remove files that no snapshot names (of failed and killed runs), and merge small files.

    Files are merged within a day, with the same rows in the same order, up to a million rows. It may run beside other
    runs. The files that were merged stay until their snapshots are as old as --keep-days. A table with damaged metadata
    is named with what to do and left as it is; the command then ends with exit code 3.

    \b
    Examples:
      cep maintain
      cep maintain --grace-hours 1 --keep-days 0      free what can be freed now
    """
    from cep_pipeline.pipeline.configuration import Configuration

    warehouse = Configuration.load(config).open_warehouse()
    report = warehouse.maintain(grace_s=grace_hours * 3600, keep_snapshots_s=keep_days * 86_400)
    if as_json:
        say_json(report)
        return
    console = output_console()
    for table, done in report.by_table.items():
        if any(done.values()):
            console.print(f"{table}: " + ", ".join(f"{what.replace('_', ' ')} {n:,}" for what, n in done.items()))
    console.print(
        f"removed {counted(report.removed_files, 'file')} ({report.removed_bytes / 1e6:,.1f} MB), "
        f"expired {counted(report.expired_snapshots, 'snapshot')}, "
        f"merged small files: {counted(report.merged_files, 'file')} fewer"
    )
    for damage in report.damages:
        say(f"damage: {damage}")
    if report.damages:
        raise DataError(
            f"{counted(len(report.damages), 'damaged table')} in {warehouse.location}, left as before; the others are "
            "done. `cep verify` names all damages"
        )


@click.command()
@configuration_options
@click.option("--day", "days", type=Day(), multiple=True, help="Only the data of this day; may be given several times.")
@click.option("--deep", is_flag=True, help="Read all data, and compare each file with its digest.")
@json_option
def verify(config: Path, stream: str | None, days: tuple[date, ...], deep: bool, as_json: bool) -> None:
    """Check that all that is published is there, whole and as its records say.

    The way goes from the catalog to metadata, snapshots, manifests and data files: their sizes, their footers, and the
    rows that the records of each day tell of. Runs may go on meanwhile. Each damage is a line with what to do; the
    command then ends with exit code 3.

    \b
    Examples:
      cep verify
      cep verify --deep                               also read all data, and compare its digests
      cep verify --stream us_equity_trades --day 2013-10-07 --deep
    """
    from cep_pipeline.cli.progress import ConsoleObserver
    from cep_pipeline.pipeline.configuration import Configuration

    warehouse = Configuration.load(config).open_warehouse()
    streams = [stream] if stream else None
    with ConsoleObserver(output_console(stderr=True)) as observer, observer.step("verify") as told:
        report = warehouse.verify(streams, days or None, deep=deep, told=told)
    damages = [replace(damage, remedy=complete(damage.remedy)) for damage in report.damages]
    if as_json:
        say_json(replace(report, damages=tuple(damages)))
    else:
        for damage in damages:
            say(f"damage: {damage}")
    looked = (
        f"{counted(report.tables, 'table')}, {counted(report.files, 'data file')} ({report.size_bytes / 1e6:,.1f} MB), "
        f"{counted(report.rows, 'row')}"
    )
    if report.damages:
        raise DataError(f"{counted(len(report.damages), 'damage')} in {warehouse.location}; looked at {looked}")
    if not as_json:
        say(f"no damage; looked at {looked}")


@click.command()
@config_option
@click.option("--replace", is_flag=True, help="There may be a catalog that names tables; it is put aside.")
@json_option
def restore(config: Path, replace: bool, as_json: bool) -> None:
    """Make a catalog that was lost anew from the metadata files of the tables.

    All tables are there again, and all days are stale: `cep run --stale` publishes them anew from their raw files.
    How a warehouse is copied and brought back from a copy: `cep help operations`.

    \b
    Examples:
      cep restore
      cep restore --replace                           the catalog is there, and damaged
    """
    from cep_pipeline.cli.progress import ConsoleObserver
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.warehouse.warehouse import Warehouse

    configuration = Configuration.load(config)
    place, catalog = configuration.warehouse_location, configuration.settings.warehouse.catalog
    with ConsoleObserver(output_console(stderr=True)) as observer, observer.step("restore") as told:
        rebuilt = Warehouse.rebuild_catalog(place, catalog, replace=replace, told=told)
    if as_json:
        say_json(rebuilt)
        return
    for path in rebuilt.left_out:
        say(f"left out, since it cannot be read: {path}")
    tables = sum(map(len, rebuilt.tables.values()))
    say(
        f"catalog of {rebuilt.location} made from {counted(tables, 'table')} with {counted(rebuilt.days, 'day')}, all "
        f"of them stale: {complete('`cep run --stale`')} publishes them anew from their raw files"
    )
