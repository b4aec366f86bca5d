"""What a run did: with each of its days, and as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from cep_pipeline.warehouse.records import PlanRecord, RunStep


@dataclass(frozen=True)
class DayOutcome:
    """What a run did with one day.

    Attributes
    ----------
    status
        `done`; `fresh`: there was nothing to do; `skipped`: a day without files that is not published.
    events, rejected
        Published events and rejected rows; None where ingestion was not run.
    matches, pending
        Pattern set -> pattern -> matches: those that became final on the day, and those that, or others before them,
        were not final when it was over.
    end_of_stream
        Whether the stream was taken to end with the day.
    """

    day: date
    status: str
    events: int | None = None
    rejected: int | None = None
    matches: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    steps: tuple[RunStep, ...] = ()
    pending: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    end_of_stream: bool = False


@dataclass(frozen=True)
class RunOutcome:
    """What a run did: its days, the plan that each pattern set ran by, and how long all of it took."""

    run_id: str
    days: tuple[DayOutcome, ...]
    plans: Mapping[str, PlanRecord]
    ingest_seconds: Mapping[str, float]
    seconds: float

    @property
    def pending(self) -> Mapping[str, Mapping[str, int]]:
        """Pattern set -> pattern -> matches that wait for days after the last one whose matches were detected."""
        return next((day.pending for day in reversed(self.days) if day.matches), {})


def pending_details(pending: Mapping[str, Mapping[str, int]], end_of_stream: bool) -> dict[str, Any]:
    """What a run's record says of matches that wait, and of the end of the stream."""
    waiting = {f"{name}.{pattern}": number for name, found in pending.items() for pattern, number in found.items()}
    return {**({"pending": waiting} if waiting else {}), **({"end_of_stream": True} if end_of_stream else {})}
