"""Staged days become the files that are published: events in order, with derived attributes and `seq`, and quarantine.

    spark-submit spark_jobs/preprocess.py --config pipeline.yaml --stream S --day D --given staged.json

1. Each accepted row is given its range, by the exact counts that ingestion made.
2. Ranges are brought in order: by time, nanoseconds, file and line; rows of a table by their values before that.
3. The last values of each event type before each range are looked for, where there are several ranges.
4. Tasks derive attributes from the values that are carried in, number the events by the counts, and write a file each.
5. Rejected rows are brought in order by file and line, and written as a file of the quarantine for each day.

Nothing is published yet: the paths go to the warehouse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as all of PySpark's users name it

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.events.columns import (
    DAY,
    QUARANTINE_SCHEMA,
    SEQ,
    SEQ_PER_DAY,
    TIMESTAMP,
    events_columns,
)
from cep_pipeline.events.derived import Carry, carry_lengths, derive, last_values
from cep_pipeline.events.parse import RAW, REASON, StagedDay
from cep_pipeline.events.row_checks import FILE, FINER, LINE, LOCAL_DAY, day_number, day_of
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.spark.reading import accepted_rows, rejected_rows
from cep_pipeline.spark.tasks import Batches, of_partitions
from cep_pipeline.storage import ROW_GROUP_ROWS, DataDirectory, conform, open_data_file, write_data_file, written
from cep_pipeline.warehouse.records import EventsFingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cep_pipeline.spark.session import SparkSession
    from cep_pipeline.spark.tasks import Batches, Progress, of_partitions

_RANGE = "_range"
_DAY_OF_KEY = 1 << 40
"""A day in a number that orders days and the seconds of each, which are fewer since 1970, and before."""


@dataclass(frozen=True)
class IngestResult:
    """The files of events and rejected rows that a day became; they are not published yet.

    Parameters
    ----------
    staged
        The day as it was staged; one that is `empty` is published without events, one that is `skipped` not at all.
    events_files, quarantine_files
        Paths that successful attempts returned, to be handed to the warehouse.
    carry_out
        What the next day carries in, JSON.
    fingerprint
        What the events were made from.
    """

    staged: StagedDay
    events_files: tuple[str, ...]
    quarantine_files: tuple[str, ...]
    carry_out: Mapping[str, Any]
    fingerprint: EventsFingerprint


@dataclass(frozen=True)
class Range:
    """A range of a day, whose events are behind `position` events of the day and begin with the second `begin_s`."""

    day: date
    begin_s: int
    rows: int
    position: int
    directory: DataDirectory


def preprocess_days(
    spark: SparkSession,
    schema: StreamSchema,
    staged: Sequence[StagedDay],
    *,
    events_directory: Callable[[date], DataDirectory],
    quarantine_directory: Callable[[date], DataDirectory],
    carry_in: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> list[IngestResult]:
    """Order staged days, add derived attributes, seq and day, and write the files that are published.

    Parameters
    ----------
    staged
        Days that passed validation, ascending. Each carries in what the one before carries out.
    events_directory, quarantine_directory
        Where the tasks write the files of a day that are published.
    carry_in
        The carry-out of the latest published day before the first of them, JSON.
    progress
        Called with the number of tasks done and of all tasks.

    Raises
    ------
    InputError
        A day was staged by another version of the stream schema.
    """
    for day in staged:
        day.require()
        if day.schema != schema.digest:
            raise InputError(
                f"stream {schema.name!r}, day {day.day}: the stream schema has changed since the day was ingested; "
                "ingest it again"
            )
    carry = Carry.from_json(carry_in or {})
    ranges = ranges_of(staged, events_directory)
    total = len(ranges) + sum(1 for day in staged if day.rejected_rows)
    tell = progress or (lambda done, of: None)
    tell(0, total)
    files, carries = write_events(spark, schema, staged, ranges, carry)
    tell(len(ranges), total)
    quarantine = write_quarantine(spark, schema, staged, quarantine_directory)
    tell(total, total)
    results = []
    for day in staged:
        own = [place for place, one in enumerate(ranges) if one.day == day.day]
        before, carry = carry, carries[own[-1] + 1] if own else carry
        results.append(
            IngestResult(
                day,
                tuple(files[place] for place in own),
                tuple(path for of, path in quarantine if of == day.day),
                carry.to_json(),
                EventsFingerprint(day.files, schema.digest, before.digest),
            )
        )
    return results


# -- events ------------------------------------------------------------------------------------------------------------


def ranges_of(staged: Sequence[StagedDay], directory: Callable[[date], DataDirectory]) -> list[Range]:
    """Return the ranges of all days, in order."""
    found = []
    for day in staged:
        position = 0
        for one in day.ranges:
            found.append(Range(day.day, one.begin_s, one.rows, position, directory(day.day)))
            position += one.rows
    return found


def write_events(
    spark: SparkSession, schema: StreamSchema, staged: Sequence[StagedDay], ranges: Sequence[Range], carry_in: Carry
) -> tuple[list[str], list[Carry]]:
    """Write each range as a file; returns the paths, and what is carried into each range and out of the last one."""
    if not ranges:
        return [], [carry_in]
    places = (TIMESTAMP, FINER, *schema.raw_attributes, FILE, LINE)
    order = [name for name in places if any(name in day.order for day in staged)]
    accepted = with_range(accepted_rows(spark, [day for day in staged if day.ranges], schema), ranges)
    columns = [_RANGE, TIMESTAMP, *schema.raw_attributes]
    ordered = accepted.repartitionById(len(ranges), _RANGE).sortWithinPartitions(*order).select(*columns)
    carries = find_carries(spark, schema, ordered, ranges, carry_in)
    write = partial(_write_range, schema, tuple(ranges), tuple(carries))
    outcomes = sorted(of_partitions(spark, ordered, write, f"{schema.name}: writing events"))
    if [place for place, *_ in outcomes] != list(range(len(ranges))):
        raise CepError(f"{schema.name}: events that were staged are gone; ingest the days again")
    paths = [path for _, path, _ in outcomes]
    return paths, [*carries, carries[-1].followed_by(outcomes[-1][2], carry_lengths(schema.derived))]


def with_range(accepted: DataFrame, ranges: Sequence[Range]) -> DataFrame:
    """Add the number of its range to each row: the last one that begins with its day and second, or before.

    It is searched for by halves, with an expression of Spark for each half: a function of each row and of all ranges
    would be slow for large days, which have many.
    """
    starts = F.array(*(F.lit(day_number(one.day) * _DAY_OF_KEY + one.begin_s) for one in ranges))
    own = F.col(LOCAL_DAY).cast("long") * _DAY_OF_KEY + F.unix_seconds(TIMESTAMP)
    found = accepted.withColumn(_RANGE, F.lit(0))
    for power in reversed(range((len(ranges) - 1).bit_length())):
        further = F.col(_RANGE) + (1 << power)
        found = found.withColumn(_RANGE, F.when(F.get(starts, further) <= own, further).otherwise(F.col(_RANGE)))
    return found


def _write_range(
    schema: StreamSchema, ranges: Sequence[Range], carries: Sequence[Carry], rows: Batches, _: int, attempt: int
) -> tuple[int, str, Carry]:
    """Write the ordered rows of a range as a file of events; returns its number, the path, and its last values."""
    table = pa.Table.from_batches(list(rows))
    place = table.column(_RANGE)[0].as_py()
    own = ranges[place]
    if table.num_rows != own.rows:
        raise CepError(
            f"stream {schema.name!r}, day {own.day}: {table.num_rows:,} events are there of a range that had "
            f"{own.rows:,} when it was ingested; ingest the day again"
        )
    events = derive(
        table.drop_columns([_RANGE]).combine_chunks(), schema.derived, schema.type_attribute, carries[place]
    )
    first = own.day.toordinal() * SEQ_PER_DAY + own.position
    events = events.append_column(SEQ, pa.array(np.arange(first, first + own.rows, dtype=np.int64)))
    events = events.append_column(DAY, pa.repeat(pa.scalar(own.day, pa.date32()), own.rows))
    path = own.directory.file(place, attempt)
    path = write_data_file(path, events, events_columns(schema.arrow_schema))
    return place, path, last_values(events, schema.derived, schema.type_attribute) if schema.derived else Carry()


# -- values that are carried from range to range -----------------------------------------------------------------------


def find_carries(
    spark: SparkSession, schema: StreamSchema, ordered: DataFrame, ranges: Sequence[Range], carry_in: Carry
) -> list[Carry]:
    """Return the last values of each event type before each range, which its task looks for in the ordered rows."""
    lengths = carry_lengths(schema.derived)
    carries = [carry_in]
    if len(ranges) == 1 or not lengths:
        return carries * len(ranges)
    what = f"{schema.name}: looking for values to carry"
    found = dict(of_partitions(spark, ordered.where(F.col(_RANGE) < len(ranges) - 1), partial(_last_of, schema), what))
    for place in range(len(ranges) - 1):
        carries.append(carries[-1].followed_by(found.get(place, Carry()), lengths))
    return carries


def _last_of(schema: StreamSchema, rows: Batches, _: int, __: int) -> tuple[int, Carry]:
    """Return the number of a range and its last values."""
    table = pa.Table.from_batches(list(rows))
    return table.column(_RANGE)[0].as_py(), last_values(table, schema.derived, schema.type_attribute)


# -- rejected rows -----------------------------------------------------------------------------------------------------


def write_quarantine(
    spark: SparkSession, schema: StreamSchema, staged: Sequence[StagedDay], directory: Callable[[date], DataDirectory]
) -> list[tuple[date, str]]:
    """Write the rejected rows of each day, by file and line, as a file; returns days and paths."""
    days = [day for day in staged if day.rejected_rows]
    if not days:
        return []
    place = {day_number(day.day): F.lit(number) for number, day in enumerate(days)}
    rows = rejected_rows(spark, days, schema)
    of_day = F.create_map(*(one for number, of in place.items() for one in (F.lit(number), of)))[F.col(LOCAL_DAY)]
    ordered = rows.repartitionById(len(days), of_day).sortWithinPartitions(FILE, LINE)
    write = partial(_write_quarantine_of_day, {day.day: directory(day.day) for day in days})
    return sorted(of_partitions(spark, ordered, write, f"{schema.name}: writing rejected rows"))


def _write_quarantine_of_day(
    directories: Mapping[date, DataDirectory], rows: Batches, number: int, attempt: int
) -> tuple[date, str]:
    """Write the ordered rejected rows of a day as a file; returns the day and the path."""
    batches = iter(rows)
    batch = next(batches)
    day = day_of(batch.column(LOCAL_DAY)[0].as_py())
    path = directories[day].file(number, attempt)
    with open_data_file(path, QUARANTINE_SCHEMA) as writer:
        while batch is not None:
            days = pa.repeat(pa.scalar(day, pa.date32()), batch.num_rows)
            names = {"file": FILE, "line": LINE, "reason": REASON, "raw": RAW}
            table = pa.table({DAY: days, **{name: batch.column(of) for name, of in names.items()}})
            writer.write_table(conform(table, QUARANTINE_SCHEMA), row_group_size=ROW_GROUP_ROWS)
            batch = next(batches, None)
    return day, written(path)


if __name__ == "__main__":
    from cep_pipeline.pipeline.tasks import main

    main("preprocess", __doc__)
