"""A day between ingestion and preprocessing: checked, counted and validated rows in scratch files, none published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from cep_pipeline.errors import DataError
from cep_pipeline.events.raw_files import RawFile
from cep_pipeline.events.validate import FailedValidation

Status = Literal["events", "empty", "skipped"]


@dataclass(frozen=True)
class EventRange:
    """A range of a day: its events, `rows` of them, are of the second `begin_s` (since 1970, UTC) or later ones."""

    begin_s: int
    rows: int


@dataclass(frozen=True)
class StagedDay:
    """The checked rows of a day's raw files, before they are in order and anything is derived.

    The files in `rows` are Parquet files as `events.parse` writes them; those in `repeated` have the rows that are
    rejected because their key came before. Files and rows of other days may be among them. Rows without a day are of
    this one if they are of a file in `undated`. The accepted events are cut into `ranges` of time, and are in the
    order of the columns in `order`. The schema is there by its digest. `notes` and `warnings` are sentences for a
    person: what was left out, and what validation warns of. `validation` is its result document as JSON, empty for a
    skipped day; `failure` says why the day may not be published. A day is `skipped` without files. `clock_back` are
    rows that are earlier than the row of their event type before them in their file; `tied` are times at which the
    names of the files decided the order. `seconds` are those of each step, of all days that were ingested together.
    """

    day: date
    files: tuple[RawFile, ...]
    schema: str
    rows: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    undated: tuple[str, ...] = ()
    ranges: tuple[EventRange, ...] = ()
    order: tuple[str, ...] = ()
    rejected_rows: int = 0
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
        return sum(part.rows for part in self.ranges)

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
            "ranges": [[part.begin_s, part.rows] for part in self.ranges],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> StagedDay:
        """Read the JSON form."""
        texts = ("rows", "repeated", "undated", "order", "notes", "warnings")
        read = {
            "day": date.fromisoformat(content["day"]),
            "files": tuple(RawFile(*file) for file in content["files"]),
            "ranges": tuple(EventRange(*part) for part in content["ranges"]),
            **{name: tuple(content[name]) for name in texts},
        }
        return cls(**{**content, **read})
