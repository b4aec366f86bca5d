"""A day between ingestion and preprocessing: checked and validated events in scratch files, nothing published yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from cep_pipeline.errors import DataError
from cep_pipeline.events.derived import Carry
from cep_pipeline.events.merge import EventRange
from cep_pipeline.events.parse import RejectedRows
from cep_pipeline.events.raw_files import RawFile
from cep_pipeline.events.validate import FailedValidation

Status = Literal["events", "empty", "skipped"]


@dataclass(frozen=True)
class StagedDay:
    """The checked rows of a day's raw files, before anything is derived.

    Accepted events are `settled` in ranges of time, in order; the others are `rejected`. The schema is there by its
    digest. `notes` and `warnings` are sentences for a person: what was left out, and what validation warns of.
    `validation` is its result document as JSON, empty for a skipped day; `failure` says why the day may not be
    published. A day is `skipped` without files. `clock_back` are rows that are earlier than the row of their event type
    before them in their file; `tied` are times at which the names of the files decided the order. `seconds` are those
    of each step, of all days that were ingested together.
    """

    day: date
    files: tuple[RawFile, ...]
    schema: str
    settled: tuple[EventRange, ...] = ()
    rejected: tuple[RejectedRows, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    validation: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    skipped: bool = False
    clock_back: int = 0
    tied: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """Number of accepted events."""
        return sum(settled.rows for settled in self.settled)

    @property
    def rejected_rows(self) -> int:
        """Number of rejected rows."""
        return sum(rows.rows for rows in self.rejected)

    @property
    def status(self) -> Status:
        """`events`; `empty`: a day to publish without events; `skipped`: a day that is not published."""
        return "skipped" if self.skipped else "events" if self.events else "empty"

    def require(self) -> None:
        """Refuse the day if it failed validation: a DataError, or FailedValidation for critical expectations."""
        if self.failure:
            raise FailedValidation(self.failure, self.validation) if self.validation else DataError(self.failure)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, read back by `from_json`: what one task hands to the next."""
        return {
            **vars(self),
            "day": self.day.isoformat(),
            "files": [[file.name, file.size, file.sha256] for file in self.files],
            "settled": [[part.path, part.rows, part.last_values.to_json()] for part in self.settled],
            "rejected": [
                [rows.day.isoformat() if rows.day else None, rows.path, rows.file, rows.rows, rows.examples]
                for rows in self.rejected
            ],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> StagedDay:
        """Read the JSON form; a handover of an older version lacks `clock_back` and `tied`."""
        day = date.fromisoformat(content["day"])
        read = {
            "day": day,
            "files": tuple(RawFile(*file) for file in content["files"]),
            "settled": tuple(EventRange(day, path, rows, Carry.from_json(c)) for path, rows, c in content["settled"]),
            "rejected": tuple(
                RejectedRows(date.fromisoformat(of) if of else None, path, file, rows, tuple(map(tuple, examples)))
                for of, path, file, rows, examples in content["rejected"]
            ),
            "notes": tuple(content["notes"]),
            "warnings": tuple(content["warnings"]),
        }
        return cls(**{**content, **read})
