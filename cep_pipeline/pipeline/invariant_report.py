"""The report of `cep invariants`: the invariants of a plan then and now, and which of them are near a violation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from cep_pipeline.adaptation import Trend, Verdict, Verification, invariants_of, without_invariants
from cep_pipeline.adaptation.forecast import forecast
from cep_pipeline.adaptation.thresholds import Deviation
from cep_pipeline.adaptation.verification import InvariantCheck
from cep_pipeline.errors import InputError
from cep_pipeline.guarded import without_collecting
from cep_pipeline.pipeline.fresh_statistics import (
    FreshStatistics,
    StatisticsRequest,
    fresh_statistics,
    latest_day,
    published_history,
)
from cep_pipeline.pipeline.plan_checks import (
    CurrentPlan,
    current_plan,
    decision_settings,
    deviation_json,
    finite,
    verification_json,
)
from cep_pipeline.pipeline.violations import REPLANNING, describe_answer
from cep_pipeline.statistics.drift import numbers_of

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import PatternSet, Stream
    from cep_pipeline.pipeline.day_work import Progress
    from cep_pipeline.warehouse.records import Decision
    from cep_pipeline.warehouse.stream_tables import StreamReader


@dataclass(frozen=True)
class InvariantReport:
    """The invariants of the current plan of a pattern set, verified on fresh statistics.

    `verdict` is that of the decision function of the pattern set. `verifications` are of all of the invariants, in
    their order. The patterns `without` any are there with the reason. `trends` forecast over the published days, the
    soonest violated first. `answered` says how a replanning has dealt with the verdict, by these very statistics.
    """

    current: CurrentPlan
    fresh: FreshStatistics
    verdict: Verdict
    verifications: Sequence[Verification]
    without: Mapping[str, str]
    trends: tuple[Trend, ...]
    answered: str = ""

    @property
    def moved(self) -> tuple[Deviation, ...]:
        """The numbers that are checked by a threshold, and how far they have moved."""
        return tuple(one for one in self.verdict.checks if isinstance(one, Deviation))

    def nearest(self, most: int | None) -> list[Verification]:
        """Return the `most` verifications (None: all) furthest beyond their violation or nearest to it, in order."""
        return sorted(self.verifications, key=lambda one: one.distance_to_violation)[:most]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for a person."""
        return (*self.current.notes, *self.fresh.notes)

    def to_json(self, nearest: int | None = None) -> dict[str, Any]:
        """All of it as JSON values; of the invariants only so many, if asked, those nearest to their violation."""
        by_name = {pattern.name: pattern for pattern in self.current.pattern_set.patterns}
        by_invariant = {trend.invariant.key: trend for trend in self.trends}
        invariants = []
        for one in self.verifications if nearest is None else self.nearest(nearest):
            content = verification_json(one, [by_name[one.invariant.pattern]])
            trend = by_invariant.get(one.invariant.key)
            invariants.append({**content, "forecast": None if trend is None else _trend_json(trend)})
        return {
            "pattern_set": self.current.pattern_set.name,
            "plan_version": self.current.record.version,
            "statistics": self.fresh.to_json(),
            "settings": decision_settings(self.current.pattern_set),
            "replan": self.verdict.replan,
            "reason": self.verdict.reason,
            "answered": self.answered,
            "invariants": invariants,
            "without_invariants": dict(self.without),
            "moved": [deviation_json(one) for one in self.moved],
            "notes": list(self.notes),
        }


def _trend_json(trend: Trend) -> dict[str, Any]:
    return {
        "days": [day.isoformat() for day in trend.days],
        "distances": [finite(one) for one in trend.distances],
        "per_day": trend.per_day,
        "error": trend.error,
        "falls": trend.falls,
        "violated_on": _day(trend.violated_on),
        "between": [_day(day) for day in trend.between],
    }


def _day(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


def _answered(decisions: Sequence[Decision], current: CurrentPlan, fresh: FreshStatistics) -> str:
    """Say what came of the replanning that looked at these statistics, and left this plan; "" where there was none."""
    for one in decisions:
        of_this = one.kind == REPLANNING and one.plan_version == current.record.version
        if of_this and one.details.get("statistics", {}).get("digest") == fresh.snapshot.digest:
            return describe_answer(one)
    return ""


@without_collecting()
def show_invariants(
    tables: StreamReader,
    stream: Stream,
    pattern_set: PatternSet,
    asked: StatisticsRequest | None = None,
    progress: Progress | None = None,
    *,
    most_forecasts: int | None = None,
    most_days: int | None = None,
    most_numbers: int | None = None,
) -> InvariantReport:
    """Verify the current plan of a pattern set on fresh statistics, and forecast from those of all published days.

    Forecast are at most so many invariants, those nearest to their violation, from so many latest days. Where
    `most_numbers` is given, those days have so many numbers together, or there are fewer of them, down to two. Without
    a plan to check, or events, that is an InputError.
    """
    events = tables.pin_events()
    day = latest_day(events)
    decisions = tables.decisions(pattern_set.name)
    current = current_plan(tables, pattern_set, decisions)
    if isinstance(current, str):
        raise InputError(f"stream {stream.name!r}, pattern set {pattern_set.name!r}: {current}")
    if day is None:
        raise InputError(f"stream {stream.name!r} has no events yet: run `cep run --stream {stream.name}`")
    fresh = fresh_statistics(tables, stream, pattern_set, events, day, asked, progress)
    state = current.state(fresh.snapshot)
    verdict = pattern_set.adaptation.function().decide(state, fresh.snapshot)
    invariants, check = state.invariants, state.check
    if not invariants:  # the decision function looks at none
        invariants = invariants_of(current.plan, pattern_set.patterns, pattern_set.adaptation.most_invariants)
        check = InvariantCheck(invariants, pattern_set.patterns)
    distance = state.distances.of(invariants)
    verifications = check.checked(fresh.snapshot, distance=distance, to_the_end=True)
    without = without_invariants(current.plan)
    answered = _answered(decisions, current, fresh) if verdict.replan else ""
    report = InvariantReport(current, fresh, verdict, verifications, without, (), answered)
    forecast_of = invariants
    if most_forecasts is not None:
        forecast_of = [one.invariant for one in report.nearest(most_forecasts)]
    if most_numbers is not None:
        few = max(2, most_numbers // max(1, len(numbers_of(fresh.snapshot))))
        most_days = few if most_days is None else min(most_days, few)
    named = {one.pattern for one in forecast_of}
    patterns = [one for one in pattern_set.patterns if one.name in named]
    history = published_history(tables, stream, pattern_set, events, most_days, patterns)
    if not (asked or StatisticsRequest()).to_json():
        history = {**history, day: fresh.snapshot}  # those of the latest day may have been counted anew
    return replace(report, trends=forecast(forecast_of, patterns, history, distance=distance)) if history else report
