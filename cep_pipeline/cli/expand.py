"""`cep expand`: the matches in a compressed file, one row each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa

from cep_pipeline.cli.options import PATH, counted
from cep_pipeline.cli.tables import STDOUT, check_output_file, write_batches
from cep_pipeline.cli.terminal import output_console
from cep_pipeline.errors import InputError

MOST_ROWS = 1_000_000_000
"""Rows that are written without --first: more are an oversight."""


@click.command()
@click.argument("file", type=PATH)
@click.option("--out", type=PATH, default=STDOUT, help="File to write: .parquet, .csv or .json; CSV on stdout if none.")
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="Only the first N matches of the file.")
@click.option("--pattern", metavar="NAME", help="Only the matches of this pattern.")
def expand(file: Path, out: Path, first: int | None, pattern: str | None) -> None:
    """List the matches that `cep detect --output compressed` wrote to a Parquet FILE.

    A compressed file has one row for all matches of a pattern that end with the same event, with their exact number.
    Expanding it gives the rows of the verbose output, in its order; they are found one after another, so the first
    ones of very many come at once.

    \b
    Examples:
      cep expand matches.parquet --first 20           how many there are, and the first 20
      cep expand matches.parquet --first 1000 --out first.csv
      cep expand matches.parquet --pattern climb --out climb.parquet
    """
    from cep_pipeline.detection.compressed.tables import count_of
    from cep_pipeline.detection.compressed.tables import expand as read_matches
    from cep_pipeline.storage import decimal_text, grouped

    check_output_file(out)
    table = read_compressed(file)
    if pattern is not None:
        table = _of_pattern(table, pattern, file)
    reader = read_matches(table)
    total = sum(map(count_of, table.column("count").to_pylist()))
    there = f"{grouped(decimal_text(total))} matches that end with {counted(table.num_rows, 'event')}"
    if first is None and total > MOST_ROWS:
        raise InputError(f"{file}: has {there}, too many for a file: write some with --first N")
    rows = min(total, first) if first else total
    write_batches(reader.schema, _first(reader, rows), out)
    said = "" if out == STDOUT else f"; {counted(rows, 'match')} written to {out}"
    output_console(stderr=True).print(f"{there}{said}")


def read_compressed(file: Path) -> pa.Table:
    """The table of a compressed file; InputError where it is none."""
    import pyarrow.parquet as pq

    try:
        return pq.read_table(file, page_checksum_verification=True)
    except FileNotFoundError as error:
        raise InputError(
            f"{file}: there is no such file; `cep detect --output compressed --out FILE` makes one"
        ) from error
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read as Parquet: {error}") from error


def _of_pattern(table: pa.Table, pattern: str, file: Path) -> pa.Table:
    """The rows of one pattern, and what the file says of it."""
    from cep_pipeline.detection.compressed.tables import only_pattern

    found = only_pattern(table, pattern)
    if found is None:
        names = sorted(set(table.column("pattern").to_pylist())) if "pattern" in table.column_names else []
        raise InputError(
            f"{file}: has no matches of a pattern {pattern!r}; it has those of: {', '.join(names) or 'none'}"
        )
    return found


def _first(reader: pa.RecordBatchReader, rows: int) -> Iterator[pa.RecordBatch]:
    """The first rows of a reader."""
    for batch in reader:
        yield batch.slice(0, rows)
        rows -= batch.num_rows
        if rows <= 0:
            return
