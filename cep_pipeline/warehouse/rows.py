"""Rows of the tables that only grow: runs, plans and decisions, and how they are read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cep_pipeline.errors import InputError
from cep_pipeline.storage import canonical_json
from cep_pipeline.warehouse.records import Decision, PlanRecord, RunRecord, RunStep, StatisticsRecord

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
