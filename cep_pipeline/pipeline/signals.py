"""Signals of a day for those who watch the pipeline from outside: metrics, alerts, unusual numbers of matches.

All of it comes from what the run has recorded and published. Whoever runs the steps (`dags/`) sends it on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from math import ceil, floor, sqrt
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

from cep_pipeline.errors import InputError
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.pipeline.configuration import Configuration

if TYPE_CHECKING:
    from cep_pipeline.pipeline.day_work import DayWork
    from cep_pipeline.warehouse.records import RunRecord

_NORMAL = 1.4826
"""The standard deviation of a normal distribution, in median distances from its median."""
BAND_DAYS, LEAST_BAND_DAYS, BAND_WIDTH = 28, 7, 6.0
"""A band is made of the counts of so many latest days, and of so many at least; it is so many deviations wide."""


def usual_band(counts: Sequence[int]) -> tuple[int, int] | None:
    """The band in which the next count is expected, both ends included; None where there are too few counts.

    It lies around the median of the latest counts. The median and the median distance from it are not moved by single
    days that were unusual themselves. A count that never varied, or is small, still has the width that chance makes:
    square roots of the median.

    Examples
    --------
    >>> usual_band([100, 102, 98, 5_000, 101, 99, 100])
    (40, 160)
    >>> usual_band([0, 0, 0, 0, 0, 0, 0])
    (0, 6)
    """
    counts = counts[-BAND_DAYS:]
    if len(counts) < LEAST_BAND_DAYS:
        return None
    middle = median(counts)
    spread = _NORMAL * median(abs(count - middle) for count in counts)
    width = BAND_WIDTH * max(spread, sqrt(middle), 1.0)
    return max(0, ceil(middle - width)), floor(middle + width)


def unusual_matches(work: DayWork) -> dict[str, dict[str, int]]:
    """The patterns whose numbers of matches lie outside their band: pattern set and name -> matches, least and most.

    The band is made of the days before that are published by the same version of the pattern set. Days on which a
    pattern was limited say nothing of it: none of its matches is published. Each finding is told to the observer.
    """
    found: dict[str, dict[str, int]] = {}
    if not work.detected:
        return found
    units = [unit for unit in work.tables.matches_days() if unit.final_day < work.day]
    for name, detected in work.detected.items():
        version = detected.fingerprint.pattern_set_version
        own = [unit for unit in units if unit.pattern_set == name and unit.fingerprint.pattern_set_version == version]
        latest = sorted(own, key=lambda unit: unit.final_day)[-BAND_DAYS:]
        for pattern, matches in detected.matches.items():
            if pattern in detected.limited:
                continue
            known = [unit for unit in latest if pattern in unit.counts and pattern not in unit.limited]
            band = usual_band([unit.counts[pattern] for unit in known])
            if band is not None and not band[0] <= matches <= band[1]:
                found[f"{name}.{pattern}"] = {"matches": matches, "least": band[0], "most": band[1]}
                work.observer.note(f"{work.day}: {_unusual(f'{name}.{pattern}', found[f'{name}.{pattern}'])}")
    return found


def _unusual(pattern: str, one: Mapping[str, int]) -> str:
    return f"{pattern} has {one['matches']:,} matches; {one['least']:,} to {one['most']:,} are usual"


@dataclass(frozen=True)
class Metric:
    """One number for a collector of metrics; `labels` say what it is of, in their order."""

    name: str
    kind: Literal["count", "gauge", "seconds"]
    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True)
class DayReport:
    """The work of a run on a day, as it is recorded and published.

    The day is `over` at that instant in the stream's time zone.
    """

    stream: str
    day: date
    run: RunRecord
    over: datetime

    @classmethod
    def read(cls, config: Path, stream: str, day: date, run_id: str) -> DayReport:
        """Read the report of a run and day from the warehouse; an InputError says that nothing is recorded of them."""
        configuration = Configuration.load(config)
        loaded = configuration.stream(stream)
        tables = configuration.open_warehouse().stream(loaded.schema)
        run = next((one for one in tables.runs() if (one.run_id, one.day) == (run_id, day)), None)
        if run is None:
            raise InputError(f"stream {stream!r}: run {run_id} has recorded nothing of {day}")
        over = datetime.fromtimestamp(day_bounds(day, loaded.schema.timezone)[1] / 1e6, UTC)
        return cls(stream, day, run, over)

    @property
    def lateness_s(self) -> float | None:
        """Seconds from the end of the day to that of the run; None while it runs."""
        return None if self.run.finished_at is None else (self.run.finished_at - self.over).total_seconds()

    def metrics(self) -> Iterator[Metric]:
        """The counts and times of the run."""
        of_stream = {"stream": self.stream}
        for name, value in (("events", self.run.events), ("rejected", self.run.rejected)):
            if value is not None:
                yield Metric(name, "count", value, of_stream)
        for pattern, matches in self.run.matches.items():
            pattern_set, _, name = pattern.partition(".")
            yield Metric("matches", "count", matches, {**of_stream, "pattern_set": pattern_set, "pattern": name})
        for step in self.run.steps:
            yield Metric("step", "seconds", step.seconds, {**of_stream, "step": step.name})
        if self.lateness_s is not None:
            yield Metric("lateness", "gauge", self.lateness_s, of_stream)
        yield Metric("lease_wait", "seconds", self.run.details.get("lease_wait_s", 0.0), of_stream)
        for name in ("unusual", "limited"):
            yield Metric(name, "gauge", len(self.run.details.get(name, {})), of_stream)

    def alerts(self, late_hours: float | None = None) -> list[str]:
        """The sentences that somebody should be told of a run that has succeeded."""
        about = f"{self.stream} {self.day}"
        told = [f"{about}: {_unusual(name, one)}" for name, one in self.run.details.get("unusual", {}).items()]
        told += [f"{about}: pattern {name} was {what}" for name, what in self.run.details.get("limited", {}).items()]
        taken = None if self.run.finished_at is None else self.run.finished_at - self.run.started_at
        if late_hours is not None and taken is not None and taken > timedelta(hours=late_hours):
            told.append(f"{about}: the run took {taken.total_seconds() / 3600:.1f} hours, more than {late_hours:g}")
        return told
