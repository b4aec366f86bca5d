"""Ingests raw files into a folder of a test, and reads back what came of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.spark.tasks import Progress
from cep_pipeline.storage import DataDirectory, new_scratch, remove_scratch
from spark_jobs.ingest import TASK_ROWS, stage_days
from spark_jobs.preprocess import IngestResult, preprocess_days
from tests.events.raw import HEADER, write_gzip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MONDAY, TUESDAY, WEDNESDAY = (date(2013, 10, day) for day in (7, 8, 9))


def ingest_day(
    spark: SparkSession,
    schema: StreamSchema,
    day: date,
    data_root: str | Path,
    *,
    events_directory: DataDirectory,
    quarantine_directory: DataDirectory,
    scratch: str | Path,
    carry_in: Mapping[str, Any] | None = None,
    earlier_row_counts: Sequence[int] = (),
    progress: Progress | None = None,
) -> IngestResult:
    """Ingest one day; see `ingest_days`."""
    return next(
        ingest_days(
            spark,
            schema,
            [day],
            data_root,
            events_directory=lambda _: events_directory,
            quarantine_directory=lambda _: quarantine_directory,
            scratch=scratch,
            carry_in=carry_in,
            earlier_row_counts=earlier_row_counts,
            progress=progress,
        )
    )


def ingest_days(
    spark: SparkSession,
    schema: StreamSchema,
    days: Sequence[date],
    data_root: str | Path,
    *,
    events_directory: Callable[[date], DataDirectory],
    quarantine_directory: Callable[[date], DataDirectory],
    scratch: str | Path,
    carry_in: Mapping[str, Any] | None = None,
    earlier_row_counts: Sequence[int] = (),
    task_rows: int = TASK_ROWS,
    progress: Progress | None = None,
) -> Iterator[IngestResult]:
    """Ingest several days as the steps of a day do: staged side by side, then finished; the first that fails raises."""
    folder = new_scratch(scratch)
    try:
        staged = stage_days(
            lambda: spark,
            schema,
            days,
            data_root,
            scratch=folder,
            earlier_row_counts=earlier_row_counts,
            task_rows=task_rows,
            progress=progress,
        )
        yield from preprocess_days(
            spark,
            schema,
            [day for day in staged if not day.failure],
            events_directory=events_directory,
            quarantine_directory=quarantine_directory,
            carry_in=carry_in,
            progress=progress,
        )
        for day in staged:
            day.require()
    finally:
        remove_scratch(folder)


class Ingester:
    """Ingests into a folder of its own and reads back what the results name."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir()

    def directory(self, table: str, day: date) -> DataDirectory:
        return DataDirectory(str(self.folder / "warehouse" / table / f"day={day}"), "run-1")

    def days(self, schema: StreamSchema, days: Sequence[date], **options: Any) -> list[IngestResult]:
        return list(
            ingest_days(
                self.spark,
                schema,
                days,
                options.pop("data", self.data),
                events_directory=lambda day: self.directory("events", day),
                quarantine_directory=lambda day: self.directory("quarantine", day),
                scratch=self.folder / "scratch",
                **options,
            )
        )

    def day(self, schema: StreamSchema, day: date = MONDAY, **options: Any) -> IngestResult:
        (result,) = self.days(schema, [day], **options)
        return result

    def published(self) -> list[Path]:
        return sorted((self.folder / "warehouse").rglob("*.parquet"))

    def scratch(self) -> list[Path]:
        return sorted((self.folder / "scratch").rglob("*.parquet"))


def events_of(*results: IngestResult) -> pa.Table:
    return pa.concat_tables([pq.read_table(path, partitioning=None) for r in results for path in r.events_files])


def quarantine_of(*results: IngestResult) -> list[dict[str, Any]]:
    paths = [path for result in results for path in result.quarantine_files]
    return [row for path in paths for row in pq.read_table(path, partitioning=None).to_pylist()]


def rows_of(day: date, count: int, seed: int, *, equal: int = 3) -> list[str]:
    """Trades of a day in order of time, with equal instants and some rows equal to others."""
    generator = random.Random(seed)
    instant = datetime(day.year, day.month, day.day, 9, 30)
    rows: list[str] = []
    while len(rows) < count:
        instant += timedelta(milliseconds=generator.choice([0, 0, 1, 40]))
        row = f"{generator.choice(['SPY', 'BAC', 'IBM'])},{instant},{generator.randint(1, 999) / 8},{len(rows) % 7}\n"
        rows += [row] * generator.choice([1, 1, equal])
    return rows[:count]


def write_day(ingest: Ingester, day: date, rows: Sequence[str], name: str = "trades.csv.gz") -> Path:
    return write_gzip(ingest.data / str(day) / name, HEADER + "".join(rows))
