"""The tables of a stream: their columns, partitions and sort orders, and the rows of those that hold records.

Every table is an Apache Iceberg table in the namespace of its stream, at `<warehouse>/<stream>/<table>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import DAY, QUARANTINE_SCHEMA
from cep_pipeline.storage import canonical_json
from cep_pipeline.warehouse.records import Decision, PlanRecord, RunRecord, RunStep, StatisticsRecord

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


Row = dict[str, Any]


def run_row(record: RunRecord, recorded_at: datetime) -> Row:
    """Return the row of a run record."""
    steps = [{"name": step.name, "seconds": step.seconds, "counts": dict(step.counts)} for step in record.steps]
    return {
        "run_id": record.run_id,
        "day": record.day,
        "status": record.status,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
        "recorded_at": recorded_at,
        "events": record.events,
        "rejected": record.rejected,
        "steps": canonical_json(steps),
        "matches": canonical_json(dict(record.matches)),
        "plans": canonical_json(dict(record.plans)),
        "validation": None if record.validation is None else canonical_json(dict(record.validation)),
        "error": record.error,
        "details": canonical_json(dict(record.details)),
    }


def run_record(row: Mapping[str, Any]) -> RunRecord:
    """Return the run record of a row."""
    return RunRecord(
        run_id=row["run_id"],
        day=row["day"],
        status=row["status"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        steps=tuple(RunStep(step["name"], step["seconds"], step["counts"]) for step in json.loads(row["steps"])),
        events=row["events"],
        rejected=row["rejected"],
        matches=json.loads(row["matches"]),
        plans=json.loads(row["plans"]),
        validation=None if row["validation"] is None else json.loads(row["validation"]),
        error=row["error"] or "",
        details=json.loads(row["details"]),
    )


def plan_row(record: PlanRecord) -> Row:
    """Return the row of a plan record."""
    return {
        "pattern_set": record.pattern_set,
        "version": record.version,
        "plan": canonical_json(dict(record.plan)),
        "explain": record.explain,
        "reason": record.reason,
        "pattern_set_version": record.pattern_set_version,
        "run_id": record.run_id,
        "created_at": record.created_at,
        "statistics": None if record.statistics is None else canonical_json(dict(record.statistics)),
        "statements": canonical_json(dict(record.statements)),
    }


def plan_record(row: Mapping[str, Any]) -> PlanRecord:
    """Return the plan record of a row."""
    made_from = row.get("statistics")
    return PlanRecord(
        **{
            **row,
            "plan": json.loads(row["plan"]),
            "statistics": None if made_from is None else json.loads(made_from),
            "statements": json.loads(row.get("statements") or "{}"),
        }
    )


def decision_row(record: Decision) -> Row:
    """Return the row of a decision."""
    return {
        "pattern_set": record.pattern_set,
        "kind": record.kind,
        "outcome": record.outcome,
        "reason": record.reason,
        "decided_at": record.decided_at,
        "day": record.day,
        "plan_version": record.plan_version,
        "run_id": record.run_id,
        "details": canonical_json(dict(record.details)),
    }


def decision_record(row: Mapping[str, Any]) -> Decision:
    """Return the decision of a row."""
    return Decision(**{**row, "details": json.loads(row["details"])})


def statistics_row(record: StatisticsRecord) -> dict[str, Any]:
    """Return the row of a record."""
    return {
        "pattern_set": record.pattern_set,
        "day": record.day,
        "run_id": record.run_id,
        "recorded_at": record.recorded_at,
        "snapshot": _text(record.snapshot),
        "state": record.state,
        "basis": _text(record.basis),
        "windows": _text(list(record.windows)),
        "observed": _text(record.observed),
    }


def statistics_record(row: Mapping[str, Any]) -> StatisticsRecord:
    """Return the record of a row; columns that an older version did not write are as if nothing was recorded.

    Raises
    ------
    InputError
        A text of the row is no JSON.
    """
    return StatisticsRecord(
        pattern_set=row["pattern_set"],
        day=row["day"],
        run_id=row["run_id"],
        recorded_at=row["recorded_at"],
        snapshot=_value(row, "snapshot"),
        state=row["state"],
        basis=_value(row, "basis") or {},
        windows=tuple(_value(row, "windows") or ()),
        observed=_value(row, "observed"),
    )


def _text(value: Any) -> str | None:
    return None if value is None else canonical_json(value)


def _value(row: Mapping[str, Any], column: str) -> Any:
    if row[column] is None:
        return None
    try:
        return json.loads(row[column])
    except ValueError as error:
        raise InputError(
            f"statistics of {row['day']} of pattern set {row['pattern_set']!r}: the column {column} is no JSON "
            f"({error}); make them again: cep run --steps statistics --redo --day {row['day']}"
        ) from error
