"""Rows of the table `statistics`: one a (pattern set, day), written by the statistics step, added to by detection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cep_pipeline.errors import InputError
from cep_pipeline.storage import canonical_json
from cep_pipeline.warehouse.records import StatisticsRecord


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
