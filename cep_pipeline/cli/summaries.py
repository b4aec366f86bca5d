"""`cep summaries` shows the rows of patterns with SUMMARIZE, put together over days."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow as pa
from rich.table import Table

from cep_pipeline.cli.matches import cell, local_in
from cep_pipeline.cli.options import Day, configuration_options, counted, json_option, pattern_set_option
from cep_pipeline.cli.sources import chosen_set, chosen_stream
from cep_pipeline.cli.tables import check_output_file, write_table
from cep_pipeline.cli.terminal import output_console, plain_value, say_json
from cep_pipeline.errors import InputError
from cep_pipeline.storage import rows_of

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.warehouse.stream_tables import StreamTables

SHOWN_ROWS = 100
"""Rows of a pattern that are shown."""


@click.command()
@configuration_options
@pattern_set_option
@click.option("--pattern", metavar="NAME", help="Only this pattern.")
@click.option("--day", type=Day(), help="Only matches that became final on this day.")
@click.option("--from", "first", type=Day(), help="First day.")
@click.option("--to", "last", type=Day(), help="Last day, included.")
@click.option("--by-day", is_flag=True, help="The rows of each day, in place of those of all days together.")
@json_option
@click.option("--out", type=click.Path(path_type=Path), help="Write the rows to a .parquet, .csv or .json file.")
def summaries(
    config: Path,
    stream: str | None,
    pattern_set: str | None,
    pattern: str | None,
    day: date | None,
    first: date | None,
    last: date | None,
    by_day: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """Show the rows of patterns with SUMMARIZE over the matches of some days.

    The rows of several days are put together exactly: they are those of one run over all of these days.

    \b
    Examples:
      cep summaries                                        over all published days
      cep summaries --from 2013-10-07 --to 2013-10-11 --pattern spreads
      cep summaries --by-day --pattern spreads             a row for each day and group
      cep summaries --pattern spreads --out spreads.csv
    """
    from cep_pipeline.pipeline.configuration import Configuration

    if out:
        check_output_file(out)
    configuration = Configuration.load(config)
    name = chosen_stream(configuration, stream)
    pattern_set = chosen_set(name, tuple(configuration.stream_settings(name).pattern_sets), pattern_set)
    known = [one for one in configuration.stream(name).pattern_set(pattern_set).statements if one.summary is not None]
    chosen = [one for one in known if pattern in (None, one.name)]
    if not chosen:
        names = ", ".join(one.name for one in known) or "none"
        asked = "no pattern" if pattern is None else f"no pattern {pattern!r}"
        raise InputError(f"pattern set {pattern_set!r} has {asked} with SUMMARIZE; there are: {names}")
    if out and len(chosen) > 1:
        raise InputError(f"--out writes the rows of one pattern; name one: --pattern {chosen[0].name}")
    first, last = (day, day) if day else (first, last)
    tables = configuration.open_warehouse().open_stream(name).pinned(("summaries",))
    zone = configuration.stream_schema(name).timezone
    found = {one.name: _rows(tables, pattern_set, one, first, last, by_day=by_day) for one in chosen}
    if out:
        [rows] = found.values()
        write_table(rows, out)
        output_console().print(f"{counted(rows.num_rows, 'row')} written to {out}")
    elif as_json:
        shown = {of: plain_value(rows_of(rows)) for of, rows in found.items()}
        say_json({"stream": name, "pattern_set": pattern_set, "summaries": shown})
    else:
        for of, rows in found.items():
            output_console().print(summary_table(of, rows, zone))


def _rows(
    tables: StreamTables, pattern_set: str, pattern: Pattern, first: date | None, last: date | None, *, by_day: bool
) -> pa.Table:
    """The rows of a pattern without its name: of all days together, or each day's, with its day."""
    from cep_pipeline.detection.summaries.partial import summary_schema

    def of_days(start: date | None, end: date | None) -> pa.Table:
        return tables.summary_of(pattern_set, pattern, start, end).table().drop_columns("pattern")

    if not by_day:
        return of_days(first, last)
    days = tables.read_summaries(pattern_set, first, last, pattern=pattern.name)["final_day"].to_pylist()
    found = {day: of_days(day, day) for day in dict.fromkeys(days)}
    rows = pa.concat_tables([summary_schema(pattern).empty_table().drop_columns("pattern"), *found.values()])
    column = pa.array([day for day, own in found.items() for _ in range(own.num_rows)], pa.date32())
    return rows.add_column(0, "final_day", column)


def summary_table(name: str, rows: pa.Table, zone: str) -> Table:
    """The rows of a pattern, the first ones of very many, with times in a zone."""
    more = f", the first {SHOWN_ROWS} of {rows.num_rows:,}" if rows.num_rows > SHOWN_ROWS else ""
    shown, local = Table(*rows.column_names, title=f"{name}{more}"), local_in(zone)
    for row in rows_of(rows.slice(0, SHOWN_ROWS)):
        shown.add_row(*(local(value) if isinstance(value, datetime) else cell(value) for value in row.values()))
    return shown
