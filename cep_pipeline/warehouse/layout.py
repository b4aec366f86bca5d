"""The tables of a stream: their columns, partitions and sort orders, and how names become folders.

Every table is an Apache Iceberg table in the namespace of its stream, at `<warehouse>/<stream>/<table>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import DAY, QUARANTINE_SCHEMA

if TYPE_CHECKING:
    pass

FORMAT_VERSION = 1
"""Version of everything in a warehouse that Iceberg does not define: the tables here and those of the database."""


SCRATCH = "scratch"
"""Folder of a warehouse for what runs write on the way; not a stream."""

UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")

BINDINGS = pa.list_(pa.struct([("variable", pa.string()), ("seq", pa.int64())]))


MATCHES_SCHEMA = pa.schema(
    [
        ("pattern_set", pa.string()),
        ("final_day", pa.date32()),
        ("pattern", pa.string()),
        ("pattern_version", pa.string()),
        ("match_id", pa.string()),
        ("start_ts", UTC_MICROSECONDS),
        ("end_ts", UTC_MICROSECONDS),
        ("bindings", BINDINGS),
        ("returns", pa.string()),
    ]
)
"""Matches: the row of the language page, with `returns` as JSON text, and what it was published under."""

REPEATING_IN_MATCHES = ("pattern_set", "final_day", "pattern", "pattern_version", "bindings.list.element.variable")
"""Columns of matches that gain from a dictionary; ids and seqs do not."""

STATISTICS_SCHEMA = pa.schema(
    [
        ("pattern_set", pa.string()),
        (DAY, pa.date32()),
        ("run_id", pa.string()),
        ("recorded_at", UTC_MICROSECONDS),
        ("snapshot", pa.string()),
        ("state", pa.string()),
        ("basis", pa.string()),
        ("windows", pa.string()),
        ("observed", pa.string()),
    ]
)
"""Statistics of a day, one row a pattern set: `StatisticsRecord` says what the texts, all JSON, hold."""

PLANS_SCHEMA = pa.schema(
    [
        ("pattern_set", pa.string()),
        ("version", pa.int64()),
        ("plan", pa.string()),
        ("explain", pa.string()),
        ("reason", pa.string()),
        ("pattern_set_version", pa.string()),
        ("run_id", pa.string()),
        ("created_at", UTC_MICROSECONDS),
        ("statistics", pa.string()),
        ("statements", pa.string()),
    ]
)

DECISIONS_SCHEMA = pa.schema(
    [
        ("pattern_set", pa.string()),
        ("kind", pa.string()),
        ("outcome", pa.string()),
        ("reason", pa.string()),
        ("decided_at", UTC_MICROSECONDS),
        (DAY, pa.date32()),
        ("plan_version", pa.int64()),
        ("run_id", pa.string()),
        ("details", pa.string()),
    ]
)

RUNS_SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        (DAY, pa.date32()),
        ("status", pa.string()),
        ("started_at", UTC_MICROSECONDS),
        ("finished_at", UTC_MICROSECONDS),
        ("recorded_at", UTC_MICROSECONDS),
        ("events", pa.int64()),
        ("rejected", pa.int64()),
        ("steps", pa.string()),
        ("matches", pa.string()),
        ("plans", pa.string()),
        ("validation", pa.string()),
        ("error", pa.string()),
        ("details", pa.string()),
    ]
)


@dataclass(frozen=True)
class TableLayout:
    """Columns, identity partitions and sort order of one table."""

    name: str
    schema: pa.Schema
    partitions: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()


def table_layouts(events_schema: pa.Schema) -> dict[str, TableLayout]:
    """Return table name -> layout of all tables of a stream with such events (`events_columns`)."""
    layouts = (
        TableLayout("events", events_schema, (DAY,), ("timestamp", "seq")),
        TableLayout("quarantine", QUARANTINE_SCHEMA, (DAY,)),
        TableLayout("statistics", STATISTICS_SCHEMA, ("pattern_set", DAY)),
        TableLayout("plans", PLANS_SCHEMA),
        TableLayout("decisions", DECISIONS_SCHEMA),
        TableLayout("matches", MATCHES_SCHEMA, ("pattern_set", "final_day"), ("pattern",)),
        TableLayout("runs", RUNS_SCHEMA),
    )
    return {layout.name: layout for layout in layouts}


_STREAM_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def check_stream_name(name: str) -> str:
    """Return a stream's name if it can be a namespace and a folder.

    Raises
    ------
    InputError
        It has other characters than letters, digits, `_` and `-`, or begins with a digit or `-`, or is `scratch`.
    """
    if name == SCRATCH:
        raise InputError(f"stream name {name!r}: the warehouse has a folder of this name; choose another name")
    if not _STREAM_NAME.fullmatch(name):
        raise InputError(f"stream name {name!r}: only letters, digits, '_' and '-', not beginning with a digit or '-'")
    return name
