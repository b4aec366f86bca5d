"""Files of a stream for some days: those that its paths name, or data files of the snapshot of an Iceberg table.

A table is a stream without a copy of what it holds. Its data files are planned once for all days that are asked for:

1. the manifests of the current snapshot are read, without those that a filter on the time column leaves out;
2. each data file covers the days between the bounds of its times, or those of its partition; where the metadata say
   neither, all time;
3. a day has the files that cover it. They are read like raw files, and stand in its fingerprint by their paths, their
   deletes and the ids of the columns that are read: a day is stale when the files that cover it are others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.events.raw_files import PathTemplate, Period, SourceFile, TableFile, files_of_day, periods_of
from cep_pipeline.events.row_checks import day_of
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.stream_document import SourceLayout, find_columns
from cep_pipeline.events.timestamps import US_PER_DAY, day_bounds, read_timestamps
from cep_pipeline.foreign_text import did_you_mean
from cep_pipeline.guarded import brief
from cep_pipeline.storage import digest_of

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.table import Table

_UNITS = {"epoch_s": 1, "epoch_ms": 10**3, "epoch_us": 10**6, "epoch_ns": 10**9}
_UNITS |= {"date": 0, "timestamp": 10**6, "timestamptz": 10**6, "timestamp_ns": 10**9, "timestamptz_ns": 10**9}
"""Units a second of the numbers of a format or of a type of Iceberg, 0 for days."""
_DAY = timedelta(days=1)
_DAYS_OF = {"year": "{day:%Y}", "month": "{day:%Y-%m}", "day": "{day:%Y-%m-%d}", "hour": "{day:%Y-%m-%d}-*"}
"""Transform of a partition by time -> the form in which PyIceberg says its values."""


def files_of_days(
    schema: StreamSchema, data_root: str, days: Collection[date]
) -> dict[date, tuple[list[SourceFile], list[str]]]:
    """Find the files that may hold rows of each day, and the paths, or the table, that have none of it.

    An InputError says what is wrong with the data folder, the catalog or the table.
    """
    if schema.source_table is None:
        source = source_of(schema)
        return {day: files_of_day(source.paths, data_root, day) for day in days}
    wanted = sorted(set(days))
    found: dict[date, list[SourceFile]] = {day: [] for day in wanted}
    for file in files_of_table(schema, wanted) if wanted else ():
        first, last = file.period.first or date.min, file.period.last or date.max
        for day in wanted[bisect_left(wanted, first) : bisect_right(wanted, last)]:
            found[day].append(file)
    return {day: (files, [] if files else [schema.source_table]) for day, files in found.items()}


def periods_of_stream(schema: StreamSchema, data_root: str) -> list[Period]:
    """Return the periods that the files of a stream cover, in order of time, each once."""
    if schema.source_table is None:
        return periods_of(source_of(schema).paths, data_root)
    periods = {file.period for file in files_of_table(schema)}
    return sorted(periods, key=lambda period: period.first or date.min)


def source_of(schema: StreamSchema) -> SourceLayout:
    """Return the source of a stream; without one its files cannot be found, which is an InputError."""
    if schema.source is None:
        raise InputError(f"stream {schema.name!r} has no source; its schema must say what its raw files look like")
    return schema.source


def files_of_table(schema: StreamSchema, days: Sequence[date] = ()) -> list[SourceFile]:
    """Return the data files of the current snapshot of a stream's table, by name, each with the days that it covers.

    With some days, ascending, those may be left out that have no rows of them or of days between.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    source = source_of(schema)
    table = open_table(source)
    said = f"table {source.settings.table}"
    find_columns(said, source.listed, [one.name for one in table.schema().fields], "table")
    with _table_errors(source, f"reading the metadata of {said}"):
        scan = table.scan(row_filter=_times_of(table, schema, days)) if days else table.scan()
        tasks = list(scan.plan_files())
        fields = {name: table.schema().find_field(name) for name in source.listed}
        ids = {name: one.field_id for name, one in fields.items()}
        values = {
            name: pa.scalar(one.initial_default, schema_to_pyarrow(one.field_type)) for name, one in fields.items()
        }
        names = table.metadata.name_mapping()
        mapping = {name: one.field_id for one in (names.root if names else ()) for name in one.names if one.field_id}
        files, specs = [], table.specs()
        for task, period in zip(tasks, _periods_of_files(table, schema, [task.file for task in tasks]), strict=True):
            path, deletes = task.file.file_path, sorted(one.file_path for one in task.delete_files)
            if task.file.file_format != "PARQUET":
                raise InputError(f"{said}: {path} is no Parquet file; rewrite the table's data files as Parquet")
            digest = digest_of({"path": path, "deletes": deletes, "ids": ids})
            own = {
                part.source_id: task.file.partition[at]
                for at, part, how in _parts(specs, task.file)
                if how == "identity"
            }
            of_parts = {name: pa.scalar(own[ids[name]], one.type) for name, one in values.items() if ids[name] in own}
            made = TableFile(table.io, task, ids, values | of_parts, mapping, digest)
            name = path.removeprefix(f"{table.location()}/")
            files.append(SourceFile(name, path, task.file.file_size_in_bytes, period, made))
    return sorted(files, key=lambda file: file.name)


def _parts(specs: Mapping[int, PartitionSpec], file: DataFile) -> list[tuple[int, PartitionField, str]]:
    """The parts of the partition of a file, each with its place and the name of its transform."""
    return [(at, part, str(part.transform)) for at, part in enumerate(specs[file.spec_id].fields)]


def open_table(source: SourceLayout) -> Table:
    """Load the table of a source from its catalog, which is only read."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    given, wanted = source.settings.catalog, str(source.settings.table)
    properties: dict[str, Any] = {"name": given} if isinstance(given, str) else dict(given)
    name = str(properties.pop("name", "default"))
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in properties.items()}
    # Files that a server plans come without the bounds of their times.
    texts |= {"init_catalog_tables": "false", "scan-planning-mode": "client"}
    with _table_errors(source, f"opening catalog {name!r}"):
        catalog = load_catalog(name, **texts)
    with _table_errors(source, f"loading table {wanted} of catalog {name!r}"):
        try:
            return catalog.load_table(wanted)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            known: list[str] = []
            with suppress(Exception):  # not everybody may list tables
                known = [".".join(one) for one in catalog.list_tables(wanted.rpartition(".")[0])]
            hint = did_you_mean(wanted, known) or "; write it with its namespace, as in `table: market.trades`"
            raise InputError(f"source.table: there is no table {wanted} in catalog {name!r}{hint}") from error


@contextmanager
def _table_errors(source: SourceLayout, doing: str) -> Iterator[None]:
    """Turn whatever a catalog or the storage of a table raises into an InputError that names the setting."""
    try:
        yield
    except CepError:
        raise
    except Exception as error:
        given = source.settings.catalog
        name = str(given if isinstance(given, str) else given.get("name", "default")).upper()
        text = brief(error).partition(" with the following properties")[0]  # which may be secret
        raise InputError(
            f"source.catalog: {doing}: {type(error).__name__}: {text}; see the properties of the catalog, and "
            "the right to read the table: they are in the schema, in .pyiceberg.yaml, or in the environment, as "
            f"PYICEBERG_CATALOG__{name}__URI and PYICEBERG_CATALOG__{name}__CREDENTIAL"
        ) from error


def _time_units(table: Table, schema: StreamSchema) -> int | None:
    """Units a second of the numbers that times are in Iceberg's metadata, 0 for days; None: they cannot be compared."""
    stamps = source_of(schema).timestamp
    kind, formats = str(table.schema().find_type(stamps.column[0])), list(stamps.format.values())
    if len(stamps.column) > 1:
        return None
    if kind in ("int", "long") and len(formats) == len(formats[0]) == 1:
        return _UNITS.get(formats[0][0])
    return _UNITS.get(kind)


def _times_of(table: Table, schema: StreamSchema, days: Sequence[date]) -> BooleanExpression:
    """Return what the rows of some days fulfil, and those without a time; a day is left at each end for any zone."""
    from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, IsNull, LessThan, Or

    units, (name, *_) = _time_units(table, schema), source_of(schema).timestamp.column
    field = table.schema().find_field(name)
    of_times = [part for spec in table.specs().values() for part in spec.fields if part.source_id == field.field_id]
    # PyIceberg compares no nanoseconds. A file covers the same days, whatever other days are asked for: nothing may be
    # left out by a partition of which `_periods_of_files` does not know the days.
    if units is None or "_ns" in str(field.field_type) or any(str(one.transform) not in _DAYS_OF for one in of_times):
        return AlwaysTrue()
    low, high = day_bounds(days[0], "UTC")[0] - US_PER_DAY, day_bounds(days[-1], "UTC")[1] + US_PER_DAY
    begin, end = ((one * units // 1_000_000 if units else one // US_PER_DAY) for one in (low, high))
    return Or(And(GreaterThanOrEqual(name, begin), LessThan(name, end + 1)), IsNull(name))  # type: ignore


def _periods_of_files(table: Table, schema: StreamSchema, files: Sequence[DataFile]) -> list[Period]:
    """Return the days between the bounds of the times of each file, by the stream's time zone.

    Without bounds they are those of its partition, and one more at each end for any zone.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    periods, stamps, specs = [Period(None, None)] * len(files), source_of(schema).timestamp, table.specs()
    if _time_units(table, schema) is None:
        return periods
    field = table.schema().find_field(stamps.column[0])
    kind = schema_to_pyarrow(field.field_type)
    width = kind.bit_width // 8
    bounds: list[bytes] = []
    known: list[int] = []
    for at, file in enumerate(files):
        pair = [(one or {}).get(field.field_id) or b"" for one in (file.lower_bounds, file.upper_bounds)]
        # Narrower bounds are from before the column had its type: numbers, or dates, which stand for other times.
        if all(len(one) == width or (one and pa.types.is_integer(kind)) for one in pair):
            known.append(at)
            bounds += pair
            continue
        for place, part, how in _parts(specs, file):
            if part.source_id == field.field_id and how in _DAYS_OF and file.partition[place] is not None:
                said = part.transform.to_human_string(field.field_type, file.partition[place])
                for own in PathTemplate(_DAYS_OF[how]).periods_in(
                    [said]
                ):  # in UTC, where the days may be of another zone
                    periods[at] = Period(own.first and own.first - _DAY, own.last and own.last + _DAY)
    numbers = pa.array([int.from_bytes(one, "little", signed=True) for one in bounds], pa.int64())
    values = numbers.cast(pa.int32() if width == 4 else pa.int64()).cast(kind)
    formats, later = next(iter(stamps.format.values())), np.tile([False, True], len(known))
    read = read_timestamps(values, formats, schema.file_timezone, later=later, days_of=schema.timezone)
    for place, at in enumerate(known):
        if read.utc.slice(2 * place, 2).null_count == 0:
            first, last = map(day_of, read.local_day[2 * place : 2 * place + 2].tolist())
            periods[at] = Period(first, last)
    return periods
