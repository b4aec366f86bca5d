"""Staged days to files of events and rejected rows that are ready to be published."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from cep_pipeline.errors import InputError
from cep_pipeline.events.carry import Carry
from cep_pipeline.events.preprocessing import carry_lengths
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.settling import FinishTask, QuarantineTask, finish_range, write_quarantine
from cep_pipeline.events.staged import StagedDay, Status
from cep_pipeline.spark.tasks import Progress, run_tasks
from cep_pipeline.storage import DataDirectory
from cep_pipeline.warehouse.fingerprints import EventsFingerprint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class IngestResult:
    """What the raw files of a day became; nothing of it is published yet.

    Parameters
    ----------
    day
        The day.
    status
        `events`; `empty`: a day to publish without events; `skipped`: a day without files that is not published.
    events_files, quarantine_files
        Paths that successful attempts returned, to be handed to the warehouse.
    events, rejected
        Numbers of rows.
    notes, warnings
        Sentences for a person: what was left out, and what validation warns of.
    validation
        Its result document, JSON; empty for a skipped day.
    carry_out
        What the next day carries in, JSON.
    fingerprint
        What the events were made from.
    clock_back
        Rows that were earlier than the row of their event type before them in their raw file.
    seconds
        Step -> wall-clock seconds, of all days that were ingested together.
    """

    day: date
    status: Status
    events_files: tuple[str, ...]
    quarantine_files: tuple[str, ...]
    events: int
    rejected: int
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    validation: Mapping[str, Any]
    carry_out: Mapping[str, Any]
    fingerprint: EventsFingerprint
    clock_back: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)


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
    """Add derived attributes, seq and day to staged days, side by side, and write the files that are published.

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
    finish: list[FinishTask] = []
    quarantine: list[QuarantineTask] = []
    carries: dict[date, tuple[Carry, Carry]] = {}
    lengths = carry_lengths(schema)
    carry = Carry.from_json(carry_in or {})
    for day in staged:
        day.require()
        if day.schema != schema.digest:
            raise InputError(
                f"stream {schema.name!r}, day {day.day}: the stream schema has changed since the day was ingested; "
                "ingest it again"
            )
        before, position = carry, 0
        for settled in day.settled:
            finish.append(FinishTask(schema, settled, position, carry, events_directory(day.day)))
            position += settled.rows
            carry = carry.followed_by(settled.last_values, lengths)
        carries[day.day] = before, carry
        if day.rejected:
            quarantine.append(QuarantineTask(day.day, day.rejected, quarantine_directory(day.day)))
    tasks: list[FinishTask | QuarantineTask] = [*finish, *quarantine]
    begin = time.perf_counter()
    paths = run_tasks(spark, _write, list(enumerate(tasks)), what=f"{schema.name}: writing events", progress=progress)
    seconds = time.perf_counter() - begin
    written = list(zip(tasks, paths, strict=True))
    return [_result(schema, day, written, *carries[day.day], seconds) for day in staged]


def _result(
    schema: StreamSchema,
    staged: StagedDay,
    written: Sequence[tuple[FinishTask | QuarantineTask, str]],
    carry_in: Carry,
    carry_out: Carry,
    seconds: float,
) -> IngestResult:
    day = staged.day
    return IngestResult(
        day=day,
        status=staged.status,
        events_files=tuple(p for t, p in written if isinstance(t, FinishTask) and t.settled.day == day),
        quarantine_files=tuple(p for t, p in written if isinstance(t, QuarantineTask) and t.day == day),
        events=staged.events,
        rejected=staged.rejected_rows,
        notes=staged.notes,
        warnings=staged.warnings,
        validation=staged.validation,
        carry_out=carry_out.to_json(),
        fingerprint=EventsFingerprint(staged.files, schema.digest, carry_in.digest),
        clock_back=staged.clock_back,
        seconds={**staged.seconds, "write": seconds},
    )


def _write(numbered: tuple[int, FinishTask | QuarantineTask], attempt: int) -> str:
    number, task = numbered
    if isinstance(task, FinishTask):
        return finish_range(task, number, attempt)
    return write_quarantine(task, number, attempt)
