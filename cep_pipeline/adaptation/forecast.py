"""Forecasts of invariants: the one closest to violation, and the day on which its trend will have violated it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from cep_pipeline.adaptation.invariants import Invariant
from cep_pipeline.adaptation.verification import InvariantCheck, Verification
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.statistics.snapshot import StatisticsSnapshot

FEWEST_DAYS = 3
"""Two points make a line, but no trend."""
FARTHEST_DAYS = 3660
"""Beyond ten years a trend of days says nothing."""


@dataclass(frozen=True)
class Trend:
    """The distance of an invariant to its violation over the days.

    Attributes
    ----------
    days, distances
        The days of the history, and `Verification.distance_to_violation` on each: ln((1 + d) f2 / f1).
    latest
        The verification on the last day.
    per_day
        Slope of the least-squares line through them; None of fewer than three days.
    error
        Standard error of the slope.
    violated_on
        The first day on which the line is below 0, where it falls; None where it does not, or not within ten years.
        The last day of the history where the invariant is violated already.
    between
        Earliest and latest such day with the slope 2 standard errors away; the latter is None where the slope may as
        well not fall.
    """

    invariant: Invariant
    days: tuple[date, ...]
    distances: tuple[float, ...]
    latest: Verification
    per_day: float | None = None
    error: float | None = None
    violated_on: date | None = None
    between: tuple[date | None, date | None] = (None, None)

    @property
    def falls(self) -> bool:
        """True if the distance falls by more than chance: 2 standard errors."""
        return self.per_day is not None and self.error is not None and self.per_day + 2 * self.error < 0


def forecast(
    invariants: Sequence[Invariant],
    patterns: Sequence[Pattern],
    history: Mapping[date, StatisticsSnapshot],
    *,
    distance: float | Mapping[str, float] = 0.0,
) -> tuple[Trend, ...]:
    """The trends of invariants, those first that are violated the soonest, then those closest to violation.

    Parameters
    ----------
    history
        The statistics of each day; days that are missing are gaps in time.
    distance
        As `InvariantCheck.checked` takes it.

    Raises
    ------
    InputError, PlanError
        As `InvariantCheck.checked`.

    Notes
    -----
    A line through ln((1 + d) f2 / f1): rates that grow by the same share every day move it by the same amount a day.
    """
    days = tuple(sorted(history))
    check = InvariantCheck(invariants, patterns)
    by_day = [check.checked(history[day], distance=distance, to_the_end=True) for day in days]
    trends = [_trend(days, of_days) for of_days in zip(*by_day, strict=True)]
    return tuple(sorted(trends, key=lambda trend: (trend.violated_on or date.max, trend.distances[-1])))


def _trend(days: tuple[date, ...], found: Sequence[Verification]) -> Trend:
    distances = tuple(one.distance_to_violation for one in found)
    latest = found[-1]
    line = _line([(day - days[-1]).days for day in days], distances)
    if line is None:
        now = days[-1] if latest.violated else None
        return Trend(latest.invariant, days, distances, latest, violated_on=now, between=(now, now))
    slope, error, today = line
    if latest.violated:
        return Trend(latest.invariant, days, distances, latest, slope, error, days[-1], (days[-1], days[-1]))
    # From where the line stands today, or, where it already lies below, from what was measured.
    height = today if today > 0 else distances[-1]
    soonest, latest_day = (_crossing(days[-1], height, slope + side * 2 * error) for side in (-1, 1))
    return Trend(
        latest.invariant,
        days,
        distances,
        latest,
        slope,
        error,
        _crossing(days[-1], height, slope),
        (soonest, latest_day),
    )


def _line(times: Sequence[int], values: Sequence[float]) -> tuple[float, float, float] | None:
    """Slope, its standard error, and the value at time 0 of the least-squares line; None of too few points."""
    count = len(times)
    if count < FEWEST_DAYS:
        return None
    time, value = math.fsum(times) / count, math.fsum(values) / count
    spread = math.fsum((one - time) ** 2 for one in times)
    slope = math.fsum((one - time) * (at - value) for one, at in zip(times, values, strict=True)) / spread
    residues = math.fsum((at - value - slope * (one - time)) ** 2 for one, at in zip(times, values, strict=True))
    return slope, math.sqrt(residues / (count - 2) / spread), value - slope * time


def _crossing(today: date, height: float, slope: float) -> date | None:
    if slope >= 0:
        return None
    away = height / -slope
    if away > FARTHEST_DAYS:
        return None
    return today + timedelta(days=max(1, math.ceil(away)))
