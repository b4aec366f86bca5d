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
"""Matches: the row of docs/language.md, section 5.2, with `returns` as JSON text, and what it was published under."""

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


MEANINGS: Mapping[str, Mapping[str, str]] = {
    "events": {
        "timestamp": "Time of the event.",
        "seq": "Position of the event in the stream: it grows with time, and no two events of a stream share one. It "
        "is the number of the day (1 for 0001-01-01) times 2^40, plus the position in the day, from 0.",
        DAY: "Day of the event in the time zone of the stream.",
    },
    "quarantine": {
        DAY: "Day of the row; the first day of its file where the row itself does not say its day.",
        "file": "Raw file, relative to the data folder.",
        "line": "Line of the file on which the row begins, from 1; in a Parquet file the number of the row, from 1.",
        "reason": "Why the row is rejected; several reasons are separated by semicolons.",
        "raw": "Text of the row; for a Parquet file and for a repeated key its values as JSON.",
    },
    "matches": {
        "pattern_set": "Name of the pattern set.",
        "final_day": "Day on which the match became final: usually the day of its last event.",
        "pattern": "Name of the pattern.",
        "pattern_version": "Version of the pattern set: it changes with any statement or parameter of the set.",
        "match_id": "Id of the match: 32 hexadecimal digits. The same events and the same statement give the same id "
        "in every run.",
        "start_ts": "Time of the first event of the match.",
        "end_ts": "Time of the last event of the match.",
        "bindings": "Events of the match: the variable of the pattern and the `seq` of the event, in the order of the "
        "variables in the pattern. A Kleene variable has an element for each of its events.",
        "returns": "Values of the RETURN clause as a JSON object; null where the pattern has none.",
    },
    "statistics": {
        "pattern_set": "Name of the pattern set.",
        DAY: "Day that the statistics are of.",
        "run_id": "Id of the run that wrote the row last.",
        "recorded_at": "Time at which the row was written.",
        "snapshot": "Arrival rates and selectivities from which plans are made, as JSON.",
        "state": "What the statistics of the next day go on from, as JSON.",
        "basis": "What the statistics were made from, as JSON: window, error bound, digests of events and patterns.",
        "windows": "Statistics of single windows in rows of older versions, as a JSON list.",
        "observed": "What detection counted on the day, as JSON; null before detection.",
    },
    "plans": {
        "pattern_set": "Name of the pattern set.",
        "version": "Version of the plan, from 1 within the pattern set.",
        "plan": "The plan, as JSON.",
        "explain": "The plan as `cep explain` prints it.",
        "reason": "Why the plan was made.",
        "pattern_set_version": "Version of the pattern set for which the plan was made.",
        "run_id": "Id of the run that made the plan.",
        "created_at": "Time at which the plan was made.",
        "statistics": "The statistics from which the plan was made, as JSON.",
        "statements": "Statement and parameters of each pattern for which the plan was made, as JSON.",
    },
    "decisions": {
        "pattern_set": "Name of the pattern set.",
        "kind": "Name of the decision function that decided, or `replanning` for the outcome of a replanning.",
        "outcome": "What was decided, such as `replan` or `keep`.",
        "reason": "Why, as a sentence.",
        "decided_at": "Time of the decision.",
        DAY: "Day whose statistics were looked at; null for a replanning.",
        "plan_version": "Version of the plan that was current.",
        "run_id": "Id of the run that decided.",
        "details": "The violated invariant, measured values and the like, as JSON.",
    },
    "runs": {
        "run_id": "Id of the run. A run has one row when it starts and one when it ends, for each of its days.",
        DAY: "Day of the stream.",
        "status": "`running`, `succeeded` or `failed`.",
        "started_at": "Time at which the run began.",
        "finished_at": "Time at which the run was done with the day; null while it runs.",
        "recorded_at": "Time at which the row was written: the latest row of a run and day counts.",
        "events": "Events published; null where the run did not come that far.",
        "rejected": "Rows rejected; null where the run did not come that far.",
        "steps": "Steps done, as a JSON list of `name`, `seconds` and `counts`.",
        "matches": "Numbers of matches by `pattern set.pattern`, as JSON.",
        "plans": "Versions of the plans that were used, by pattern set, as JSON.",
        "validation": "Result of the data checks, as JSON.",
        "error": "What went wrong in a failed run; else empty.",
        "details": "Matches that wait for later events, and the end of the stream, as JSON.",
    },
}
"""Table -> column -> its meaning, for a person; attributes of events are described by the stream schema."""


@dataclass(frozen=True)
class TableLayout:
    """Columns, identity partitions and sort order of one table."""

    name: str
    schema: pa.Schema
    partitions: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()

    def meaning(self, column: str) -> str | None:
        """Return the meaning of a column, None for an attribute of events."""
        return MEANINGS[self.name].get(column)


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
