"""Raw files of some days to files that can be published: staged (`staging`), then preprocessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cep_pipeline.events.parts import RUN_ROWS
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.settling import RANGE_ROWS
from cep_pipeline.spark.preprocessing import IngestResult, preprocess_days
from cep_pipeline.spark.staging import new_scratch, remove_scratch, stage_days
from cep_pipeline.spark.tasks import Progress
from cep_pipeline.storage import DataDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    run_rows: int = RUN_ROWS,
    range_rows: int = RANGE_ROWS,
    progress: Progress | None = None,
) -> Iterator[IngestResult]:
    """Ingest several days in one Spark application, side by side.

    Parameters
    ----------
    days
        Ascending. Each carries in what the one before carries out.
    data_root
        The folder or URI under which the source's paths lie.
    events_directory, quarantine_directory
        Where the tasks write the files of a day that are published.
    scratch
        A folder or URI that all workers reach, for files that live as long as the ingestion.
    carry_in
        The carry-out of the latest published day before the first of `days`, JSON.
    earlier_row_counts
        Numbers of events of published days before the first of `days`, the latest last.
    run_rows, range_rows
        Events that one task holds in memory at once.
    progress
        Called with the number of tasks done and of all tasks of each step.

    Yields
    ------
    IngestResult
        Of each day, in order. A day that fails ends the iteration with its error, after the days before it.

    Raises
    ------
    InputError
        A missing day (`on_missing: error`), a file that is truncated, corrupt or lacks a column.
    DataError
        Too many rejected rows, or a failed critical expectation.

    Notes
    -----
    Memory is bounded by `run_rows` and `range_rows` events a task, whatever the size of files and days.
    """
    folder = new_scratch(scratch)
    try:
        staged = stage_days(
            spark,
            schema,
            days,
            data_root,
            scratch=folder,
            earlier_row_counts=earlier_row_counts,
            run_rows=run_rows,
            range_rows=range_rows,
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
