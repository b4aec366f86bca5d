"""`cep init`, `preview`, `check` and `generate`: files to begin with, a project for them, and looks before a run."""

from __future__ import annotations

import math
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click
import numpy as np
import pyarrow as pa
from rich.progress import Progress

from cep_pipeline.cli.options import (
    PATH,
    Day,
    configuration_options,
    counted,
    json_option,
    parameter_option,
    parse_parameters,
    writing,
)
from cep_pipeline.cli.terminal import Terminal, next_command, output_console, say, say_json, table_of
from cep_pipeline.errors import CepError, InputError

if TYPE_CHECKING:
    from cep_pipeline.events.inference import InferredSchema, SampledFile
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.pipeline.configuration import Configuration, Stream


@click.command()
@click.argument("folder", type=PATH)
@click.option(
    "--data",
    type=PATH,
    help="Raw file of the stream: CSV, JSON lines, an access log or Parquet. Without it a small example is made.",
)
@click.option("--timezone", metavar="ZONE", help="Zone of times that do not say theirs, and of the stream's days.")
@click.option("--time", "time_column", metavar="COLUMN", help="Column with the time of an event.")
@click.option("--type", "type_column", metavar="COLUMN", help="Column with the type of an event.")
def init(
    folder: Path, data: Path | None, timezone: str | None, time_column: str | None, type_column: str | None
) -> None:
    """Make a project folder: pipeline.yaml, a stream schema and a first pattern, all with comments.

    Files that are there already are not overwritten. With --data the project is about the stream of that file. Its
    schema is inferred: the delimiter and the header, the types of the columns, the column with the time and how it is
    written, and a column whose values divide the events into types. Comments in it say what is doubtful. The pattern is
    counted on the rows that were read, and made so that it has tens to thousands of matches a day. Without --data the
    project is about two days of readings in cold rooms, which are made too.

    \b
    Examples:
      cep init demo                                              a project to play with
      cep init project --data readings/2025-03-04.csv --timezone Europe/Copenhagen
    """
    from cep_pipeline.events.inference import infer_schema
    from cep_pipeline.events.schema import StreamSchema

    name = None
    names = ("pipeline.yaml", "streams", "patterns")
    if there := [name for name in names if (folder / name).exists()]:
        raise InputError(f"{folder}: {there[0]} is there already, and nothing is overwritten; name another folder")
    if data is None:
        if (folder / "data").exists():
            raise InputError(f"{folder}: data is there already, and nothing is overwritten; give its file with --data")
        data, timezone, name = _example_days(folder / "data"), timezone or "Europe/Copenhagen", "cold_rooms"
    made = infer_schema(data, name=name, timezone=timezone, time_column=time_column, type_column=type_column)
    root = data.absolute().parents[made.path.count("/")]
    root_text = os.path.relpath(root, folder)
    stream_file = folder / "streams" / f"{made.name}.yaml"
    pattern_file = folder / "patterns" / f"{made.name}.sase"
    _write_new(stream_file, made.text)
    first = _fitting_pattern(made, StreamSchema.load(stream_file))
    _write_new(pattern_file, first.text)
    _write_new(folder / "pipeline.yaml", _pipeline_text(made, root_text))
    for path in (folder / "pipeline.yaml", stream_file, pattern_file):
        say(f"made {path}")
    of = f"{made.days[0]} to {made.days[-1]}" if len(made.days) > 1 else made.days[0]
    matches = f"{first.matches:,} match{'' if first.matches == 1 else 'es'}"
    say(f"the first pattern, rising, has {matches} in the {counted(made.sample.rows, 'row')} that were read, of {of}")
    days = {} if made.dated else {"from": made.days[0], "to": made.days[-1]}
    say(f"next:\n  {shlex.join(['cd', str(folder)])}\n  cep check\n  {next_command('run', **days)}\n  cep matches")


def _write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet, and its folder."""
    if path.exists():
        raise InputError(f"{path} is there already, and nothing is overwritten; name another file")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _example_days(folder: Path) -> Path:
    """Write two days of readings of cold rooms; one door stands open for half an hour."""
    for day in (datetime(2025, 3, 3), datetime(2025, 3, 4)):
        rows = ["time,room,temperature,door"]
        for minute in range(0, 24 * 60, 5):
            for room in range(1, 5):
                is_open = day.day == 4 and room == 3 and 600 <= minute < 640
                degrees = -18 + math.sin(minute / 200 + room) + ((minute - 595) / 10 if is_open else 0)
                time = f"{day + timedelta(minutes=minute):%Y-%m-%d %H:%M}"
                rows.append(f"{time},room-{room},{degrees:.1f},{'open' if is_open else 'closed'}")
        path = folder / f"{day:%Y-%m-%d}.csv"
        _write_new(path, "\n".join(rows) + "\n")
    return path


@dataclass(frozen=True)
class FirstPattern:
    """The text of a first pattern, and the number of its matches in the sample."""

    text: str
    matches: int


FEW_A_DAY, MANY_A_DAY = 10, 2_000
"""The matches that a first pattern should have on a day: there is something to see, and not more than one looks at."""


def _fitting_pattern(made: InferredSchema, schema: StreamSchema) -> FirstPattern:
    """A first pattern with tens to thousands of matches a day, as far as its window and its rise give them."""
    from cep_pipeline.detection.detect import detect
    from cep_pipeline.language.parser import parse_patterns

    events = _events_of(made.sample, schema)
    usual, days = max(made.gap_us * 3, 1), len(made.days)

    def made_of(window_us: int, rise: float) -> FirstPattern:
        text = _first_pattern(made, window_us, rise)
        (counts,) = detect(parse_patterns(text, schema), events, output="count").values()
        return FirstPattern(text, int(counts["count"][0].as_py()))

    for window_us in (usual * by for by in (1, 3, 10, 30, 100)):
        found = made_of(window_us, 0.0)
        if found.matches >= FEW_A_DAY * days:
            break
    rises = _steps_of(events[made.numbers[0]]) if made.numbers else []
    for at, rise in [(window_us, rise) for rise in rises] + [(max(usual // by, 1), 0.0) for by in (3, 10, 100)]:
        if found.matches <= MANY_A_DAY * days:
            break
        narrower = made_of(at, rise)
        found = narrower if 0 < narrower.matches < found.matches else found
    return found


def _events_of(sample: SampledFile, schema: StreamSchema) -> pa.Table:
    from cep_pipeline.events.raw_files import UNBOUNDED
    from cep_pipeline.events.readers import RawBlock
    from cep_pipeline.events.row_checks import check_rows

    rows = RawBlock(sample.columns, np.arange(1, sample.rows + 1), lambda row: f"row {row + 1}")
    found = check_rows(rows, schema, UNBOUNDED, str(sample.path)).events.sort_by("timestamp")
    found = found.append_column("seq", pa.array(np.arange(found.num_rows)))
    return found.select(schema.arrow_schema.names).cast(schema.arrow_schema)


def _steps_of(column: pa.ChunkedArray) -> list[float]:
    """Differences that values of a column may have, ascending: from the least between two of them to that of most."""
    values = np.unique(np.asarray(column.drop_null().cast(pa.float64())))
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return []
    spread = values[-1] - values[0]
    least = max(float(np.diff(values).min()), spread / 1e5)
    steps = (float(f"{least * by * 10**power:.1g}") for power in range(6) for by in (1, 2, 5))
    return [step for step in steps if step < spread]


def _first_pattern(made: InferredSchema, window_us: int, rise: float) -> str:
    """The text of a first pattern over a stream: three events of one type, of which a number rises."""
    from cep_pipeline.events.inference import BASE_TYPE
    from cep_pipeline.language.formatter import format_window
    from cep_pipeline.patterns.pattern import Window

    window = format_window(Window(time_us=window_us))
    same = [f"[{made.type_column}]"] if made.type_column else []
    number = made.numbers[0] if made.numbers else None
    rises = [f"second.{number} > first.{number}", f"third.{number} > second.{number}"] if number else []
    if number and rise:
        rises.append(f"third.{number} - first.{number} > {np.format_float_positional(rise, trim='-')}")
    where = f"WHERE {' AND '.join([*same, *rises])}\n" if same or rises else ""
    returns = f"RETURN first.{number} AS low, third.{number} AS high" if number else ""
    agree = (
        f"-- [{made.type_column}] says that the three are of one {made.type_column}. " if made.type_column else "-- "
    )
    return (
        "-- A pattern file: statements, with ; between them. `cep help language` explains the language.\n"
        "-- SEQ is an order in time: the three events come one after the other, maybe with others between them.\n"
        f"{agree}WITHIN is the longest time from the first to the last.\n"
        "NAME rising\n"
        f"PATTERN SEQ({BASE_TYPE} first, {BASE_TYPE} second, {BASE_TYPE} third)\n"
        f"{where}WITHIN {window}\n{returns}".rstrip()
        + "\n"
    )


def _pipeline_text(made: InferredSchema, root: str) -> str:
    from cep_pipeline.events.inference import yaml_scalar

    return f"""\
# What the commands of this project work on; paths are relative to this file.
streams:
  {made.name}:
    schema: streams/{made.name}.yaml   # what the raw files look like
    data: {yaml_scalar(root)}   # the folder of the raw files
    pattern_sets:
      first: {{file: patterns/{made.name}.sase}}   # more sets, or more patterns in the file, as you like

warehouse: {{location: warehouse}}   # the tables: a folder, or the address of an object store
statistics: {{window: 1 hour}}   # rates are measured over so much time; plans follow them
limits: {{max_matches: 1000000}}   # of each pattern on each day: one that finds more is stopped, the others go on
"""


# -- preview ----------------------------------------------------------------------------------------------------------

TYPES_SHOWN = 20
ATTRIBUTES_SHOWN = 10


@click.command()
@click.argument("files", nargs=-1, type=PATH)
@click.option("--schema", type=PATH, help="Stream schema (YAML), where there is no pipeline.yaml.")
@configuration_options
@click.option("--day", type=Day(), help="A day of the configured stream, in place of files; the first if not given.")
@click.option(
    "--rows", type=click.IntRange(min=0), default=10, show_default=True, help="Events, and rejected rows, to show."
)
@json_option
def preview(
    files: tuple[Path, ...],
    schema: Path | None,
    config: Path,
    stream: str | None,
    day: date | None,
    rows: int,
    as_json: bool,
) -> None:
    """Read raw files by a stream schema and show what comes of them; nothing is published.

    It shows the days and the event types with their numbers, the first events in the time zone of the stream with their
    derived attributes, and the first rejected rows with their reasons. A warning names text attributes that patterns of
    the stream order by < or >, and whose values look like numbers.

    \b
    Examples:
      cep preview readings/2025-03-04.csv --schema cold_rooms.yaml
      cep preview --stream cold_rooms                     the first day of the stream that has files
      cep preview --stream cold_rooms --day 2025-03-04
    """
    from cep_pipeline.cli.sources import event_paths
    from cep_pipeline.events.event_files import load_events
    from cep_pipeline.language.doubts import doubts_about_order

    read, paths, patterns = _asked_files(files, schema, config, stream, day)
    loaded = load_events(read, event_paths(paths, read))
    events, kind, zone = loaded.events, read.type_attribute, ZoneInfo(read.timezone)
    shown = events.slice(0, rows).drop_columns(["seq"]).to_pylist()
    ends = [events.column("timestamp")[at].as_py().astimezone(zone) for at in (0, -1)] if events.num_rows else []
    types = events.group_by(kind).aggregate([([], "count_all")])
    types = types.sort_by([("count_all", "descending"), (kind, "ascending")])
    document = {
        "stream": read.name,
        "files": list(map(str, paths)),
        "events": events.num_rows,
        "rejected": loaded.rejected,
        "days": [end.date().isoformat() for end in ends],
        "types": {str(one[kind]): one["count_all"] for one in types.to_pylist()},
        "first": [{name: _local(value, zone) for name, value in one.items()} for one in shown],
        "rejected_rows": [
            {"file": file, "line": row.line, "reason": row.reason, "row": row.raw}
            for file, row in loaded.examples[:rows]
        ],
        "notes": list(loaded.notes),
        "warnings": doubts_about_order(patterns, events),
    }
    if as_json:
        say_json(document)
    else:
        _print_preview(document, read.timezone)


def _local(value: Any, zone: ZoneInfo) -> Any:
    """A value of an event, a time as the clocks of a zone show it."""
    return value.astimezone(zone).isoformat(sep=" ") if isinstance(value, datetime) else value


def _asked_files(
    files: Sequence[Path], schema: Path | None, config: Path, stream: str | None, day: date | None
) -> tuple[StreamSchema, list[Path], Sequence[Pattern]]:
    """The schema and the files that are meant, and the patterns of the stream where the configuration says them.

    Without files they are those of a day of the stream, of the first one that has files if none is given.
    """
    from cep_pipeline.events.raw_files import UNBOUNDED, files_of_day
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.pipeline.configuration import Configuration, patterns_of
    from cep_pipeline.pipeline.run import days_with_files

    if schema is not None:
        if not files:
            raise InputError("--schema says how files are read: name the files too")
        return StreamSchema.load(schema), list(files), ()
    configuration = Configuration.load(config)
    opened = configuration.stream(stream or configuration.stream_names()[0])
    patterns = patterns_of(opened.pattern_sets)
    if files:
        return opened.schema, list(files), patterns
    assert opened.schema.source is not None
    if opened.schema.source_table is not None:
        raise InputError(f"{opened.schema.source_table} is a table, and a preview is of files: name one with such rows")
    templates, any_day = opened.schema.source.paths, date(2000, 1, 1)
    undated = all(template.period(any_day) == UNBOUNDED for template in templates)
    chosen = day or (any_day if undated else days_with_files(opened)[0])
    found, missing = files_of_day(templates, opened.data, chosen)
    if not found:
        of = "the stream" if undated else chosen
        raise InputError(f"{opened.data}: there is no file of {of}: {', '.join(missing)}")
    return opened.schema, [Path(file.path) for file in found], patterns


def _print_preview(of: dict[str, Any], timezone: str) -> None:
    """Print the document of `cep preview`, of many types and attributes the first ones."""
    console = output_console()
    console.print(f"stream {of['stream']}: {counted(of['events'], 'event')}, {counted(of['rejected'], 'row')} rejected")
    if of["days"]:
        console.print(f"days: {' to '.join(dict.fromkeys(of['days']))} ({timezone})", highlight=False)
    for note in of["notes"]:
        console.note(note)
    for text in of["warnings"]:
        console.print(f"warning: {text}", highlight=False, markup=False)
    if of["types"]:
        types = [(name, f"{number:,}") for name, number in of["types"].items()]
        caption = f"and {len(types) - TYPES_SHOWN:,} types more" if len(types) > TYPES_SHOWN else None
        shown = table_of(("type", "events"), types[:TYPES_SHOWN], "event types", right=slice(1, 2), caption=caption)
        console.print(shown)
    if of["first"]:
        names, more = list(of["first"][0])[: ATTRIBUTES_SHOWN + 1], list(of["first"][0])[ATTRIBUTES_SHOWN + 1 :]
        first = (["" if row[name] is None else str(row[name]) for name in names] for row in of["first"])
        caption = f"and {', '.join(more)}" if more else None
        console.print(table_of(names, first, f"the first events (times of {timezone})", caption=caption))
    if of["rejected_rows"]:
        rejected = ([str(value or "") for value in row.values()] for row in of["rejected_rows"])
        console.print(table_of(("file", "line", "reason", "row"), rejected, "rejected rows"))


# -- check ------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("files", metavar="[PATTERNS]...", nargs=-1, type=PATH)
@click.option("--schema", type=PATH, help="Stream schema of pattern files without a project.")
@parameter_option
@configuration_options
@json_option
def check(
    files: tuple[Path, ...],
    schema: Path | None,
    parameters: tuple[str, ...],
    config: Path,
    stream: str | None,
    as_json: bool,
) -> None:
    """Check the configuration, the stream schemas and the patterns, and tell all errors at once.

    Where days of a stream are published, types and texts that patterns name and that no event of the last day has are
    told as warnings, with what there is. So are text attributes that patterns order by < or >, and whose values look
    like numbers; `cep preview` looks at those of raw files. A note names streams whose raw files are not there yet. The
    exit code is 2 where there is an error. With --schema, pattern files are checked without a project, and no data is
    looked at.

    \b
    Examples:
      cep check                                           all of pipeline.yaml
      cep check --stream cold_rooms
      cep check warming.sase --schema cold_rooms.yaml     pattern files without a project
    """
    errors: list[str] = []
    doubts: list[str] = []
    notes: list[str] = []
    checked = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        if schema is not None or files:
            checked = _check_files(files, schema, parameters, errors)
        elif parameters:
            raise InputError("--param is for pattern files; those of a project have their values in the configuration")
        else:
            checked = _check_project(config, stream, errors, doubts, notes)
    doubts += [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    if as_json:
        say_json({"errors": errors, "warnings": doubts, "notes": notes})
    else:
        for text in errors:
            say(f"error: {text}", err=True)
        for text in doubts:
            say(f"warning: {text}", err=True)
        found = f"{counted(len(errors), 'file')} with errors" if errors else "no errors"
        say(f"{checked}: {found}, {counted(len(doubts), 'warning')}")
        for text in notes:
            say(f"note: {text}")
    if errors:
        sys.exit(InputError.exit_code)


def _check_files(patterns: Sequence[Path], schema: Path | None, parameters: tuple[str, ...], errors: list[str]) -> str:
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.pipeline.configuration import read_patterns

    if schema is None:
        raise InputError(
            "a pattern file is checked by a stream schema: give --schema FILE, or `cep check` for a project"
        )
    try:
        read = StreamSchema.load(schema)
    except CepError as error:
        errors.append(str(error))
        return str(schema)
    number, values = 0, parse_parameters(parameters)
    for file in patterns:
        try:
            number += len(read_patterns(file, read, values))
        except CepError as error:
            errors.append(str(error))
    return f"schema {read.name}, {counted(number, 'pattern')}"


def _check_project(config: Path, stream: str | None, errors: list[str], doubts: list[str], notes: list[str]) -> str:
    from cep_pipeline.pipeline.configuration import Configuration, check_runnable

    configuration = Configuration.load(config)
    names = [stream] if stream else list(configuration.stream_names())
    for name in names:
        configuration.stream_settings(name)
    wrong: set[str] = set()
    for name, error in configuration.faults(names):
        wrong.add(name)
        errors.append(str(error))
    number, missing = 0, dict[str, str]()
    for name in names:
        if name not in wrong:
            opened = configuration.stream(name)
            for one in opened.pattern_sets:
                try:
                    check_runnable([one])
                except CepError as error:
                    errors.append(str(error))
            number += sum(len(one.statements) for one in opened.pattern_sets)
            if (said := configuration.missing_data(name)) is not None:
                missing[name] = said
            _add_doubts(configuration, opened, doubts)
    if len(missing) == 1:
        notes += missing.values()
    elif missing:
        listed = f"{', '.join(missing)} are not there yet; `cep check --stream {next(iter(missing))}` names the folder"
        notes.append(f"the raw files of {listed}")
    return f"{counted(len(names), 'stream')}, {counted(number, 'pattern')}"


def _add_doubts(configuration: Configuration, opened: Stream, doubts: list[str]) -> None:
    """Add what is strange about the patterns of a stream over its last published day, if there is one."""
    from cep_pipeline.language.doubts import doubts_about, ordered_texts, texts_compared
    from cep_pipeline.pipeline.configuration import patterns_of
    from cep_pipeline.storage import read_data_file

    patterns, location = patterns_of(opened.pattern_sets), configuration.warehouse_location
    if not patterns or ("://" not in location and not Path(location).exists()):
        return
    warehouse = configuration.open_warehouse()
    if opened.name not in warehouse.streams():
        return
    tables = warehouse.open_stream(opened.name)
    days = [record.day for record in tables.days() if record.events]
    asked = {opened.schema.type_attribute}
    for one in patterns:
        asked.update(ordered_texts(one), (attribute for attribute, _ in texts_compared(one)))
    columns = pa.schema([one for one in tables.events_schema if one.name in asked])
    if days and len(columns) == len(asked):  # a new attribute has no column yet
        files = tables.events_files(days[-1], days[-1])
        events = pa.concat_tables([read_data_file(file.path, columns) for file in files])
        types = {str(one) for one in events.column(opened.schema.type_attribute).unique().to_pylist()}
        said = doubts_about(patterns, types, events)
        doubts += [f"stream {opened.name}, {days[-1]}: {text}" for text in said]


# -- generate ---------------------------------------------------------------------------------------------------------

FIRST_DAY = date(2025, 1, 6)
GENERATED = Path("var/generated_trades")
"""The folder of the days that `cep generate`, and so `make run`, makes."""


@click.command()
@click.option(
    "--out",
    type=PATH,
    default=GENERATED,
    show_default=True,
    help="Folder; a day becomes DATE/trades.csv.gz in it.",
)
@click.option("--from", "first", type=Day(), default=FIRST_DAY, show_default=True, help="First day.")
@click.option("--days", type=click.IntRange(1, 3660), default=3, show_default=True, help="Trading days to make.")
@click.option(
    "--stocks",
    type=click.IntRange(4, 2100),
    default=8,
    show_default=True,
    help="SPY, BAC, AIG, IBM, then S0004, S0005, ...",
)
@click.option(
    "--events-per-day",
    type=click.IntRange(min=1),
    default=150_000,
    show_default=True,
    help="The session ends after about so many trades.",
)
@click.option("--full", is_flag=True, help="Whole sessions, without a limit of events.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Another seed, another market.")
@click.option("--missing-only", is_flag=True, help="Leave days alone that are there already.")
def generate(
    out: Path, first: date, days: int, events_per_day: int, full: bool, missing_only: bool, **market: Any
) -> None:
    """Make days of a trading stream, in the raw layout in which a vendor delivers them.

    Prices walk together (market, sector, stock), trading is busiest at the opening and the close, rates drift from day
    to day, and weekends have no file. The same settings give the same bytes.

    \b
    Examples:
      cep generate                                            three days for a first `cep run`
      cep generate --stocks 200 --days 5 --full --out stocks  the stream of the papers' experiments
    """
    from cep_pipeline.generate import FILE_NAME, GeneratedDay, generate_days, is_trading_day

    wanted = list(islice(filter(is_trading_day, (first + timedelta(days=number) for number in count())), days))
    missing = [day for day in wanted if not (missing_only and (out / day.isoformat() / FILE_NAME).exists())]
    console = Terminal(stderr=True)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("making days of trades", total=len(missing))

        def done(made: GeneratedDay) -> None:
            progress.advance(task)
            console.print(f"{made.day}: {made.events:,} trades in {made.path}")

        generate_days(out, missing, events_per_day=None if full else events_per_day, progress=done, **market)
    if len(missing) < len(wanted):
        console.print(f"there already: {counted(len(wanted) - len(missing), 'day')}")
