"""The last stage of ingestion: merged ranges and rejected rows become the files that are published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa

from cep_pipeline.events.columns import DAY, QUARANTINE_SCHEMA, SEQ, SEQ_PER_DAY, events_columns
from cep_pipeline.events.derived import Carry, derive
from cep_pipeline.events.merge import EventRange
from cep_pipeline.events.parse import RejectedRows, read_run
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.type_spells import footer_of
from cep_pipeline.storage import DataDirectory, write_data_file


@dataclass(frozen=True)
class FinishTask:
    """Write a settled range as a file of published events.

    Before it are `first_position` events of the day, and the last values in `carry_in`.
    """

    schema: StreamSchema
    settled: EventRange
    first_position: int
    carry_in: Carry
    directory: DataDirectory


def finish_range(task: FinishTask, number: int, attempt: int) -> str:
    """Run a `FinishTask`: add derived attributes, seq and day, and write the file; returns its path."""
    events = derive(read_run(task.settled.path), task.schema, task.carry_in)
    day = task.settled.day
    first_seq = day.toordinal() * SEQ_PER_DAY + task.first_position
    seq = pa.array(np.arange(first_seq, first_seq + events.num_rows, dtype=np.int64))
    days = pa.repeat(pa.scalar(day, pa.date32()), events.num_rows)
    events = events.append_column(SEQ, seq).append_column(DAY, days)
    footer = footer_of(events, task.schema.type_attribute)
    return write_data_file(task.directory.file(number, attempt), events, events_columns(task.schema), footer)


@dataclass(frozen=True)
class QuarantineTask:
    """Write the rejected rows of a day, by file and line, as one file of the quarantine."""

    day: date
    rejected: tuple[RejectedRows, ...]
    directory: DataDirectory


def write_quarantine(task: QuarantineTask, number: int, attempt: int) -> str:
    """Run a `QuarantineTask`; returns the file's path."""
    table = pa.concat_tables([read_run(rows.path) for rows in task.rejected]).sort_by(
        [("file", "ascending"), ("line", "ascending")]
    )
    days = pa.repeat(pa.scalar(task.day, pa.date32()), table.num_rows)
    table = table.set_column(table.schema.get_field_index(DAY), DAY, days)
    return write_data_file(task.directory.file(number, attempt), table, QUARANTINE_SCHEMA)
