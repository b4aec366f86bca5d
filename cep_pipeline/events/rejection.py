"""Rejected rows on their way to quarantine, and why rows are rejected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from cep_pipeline.events.columns import QUARANTINE_SCHEMA


@dataclass(frozen=True)
class Rejected:
    """One rejected row.

    Parameters
    ----------
    line
        Physical line on which the row begins, from 1; the row number, from 1, in Parquet.
    reason
        Why, for a person.
    raw
        Its text; JSON of the read columns for Parquet.
    day
        Days since 1970-01-01 of the day it belongs to; None where its own timestamp does not say it.
    """

    line: int
    reason: str
    raw: str
    day: int | None = None


def rejected_table(rows: Iterable[Rejected], file: str) -> pa.Table:
    """Return rejected rows of one file with the columns of the quarantine table, by line."""
    ordered = sorted(rows, key=lambda row: row.line)
    return pa.table(
        {
            "day": pa.array([row.day for row in ordered], pa.int32()).cast(pa.date32()),
            "file": pa.array([file] * len(ordered), pa.string()),
            "line": pa.array([row.line for row in ordered], pa.int64()),
            "reason": pa.array([row.reason for row in ordered], pa.string()),
            "raw": pa.array([row.raw for row in ordered], pa.string()),
        },
        schema=QUARANTINE_SCHEMA,
    )
