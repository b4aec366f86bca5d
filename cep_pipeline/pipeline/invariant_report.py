"""The report of `cep invariants`: the invariants of a plan then and now, and which of them are near a violation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cep_pipeline.adaptation import Verdict, Verification, invariants_of, without_invariants
from cep_pipeline.adaptation.invariants import InvariantCheck, describe
from cep_pipeline.adaptation.thresholds import Deviation, describe_deviation
from cep_pipeline.errors import InputError
from cep_pipeline.guarded import without_collecting
from cep_pipeline.pipeline.fresh_statistics import (
    FreshStatistics,
    fresh_statistics,
    latest_day,
)
from cep_pipeline.pipeline.plan_checks import (
    CurrentPlan,
    current_plan,
    decision_settings,
    finite,
)
from cep_pipeline.pipeline.violations import REPLANNING, describe_answer

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.pipeline.configuration import PatternSet, Stream
    from cep_pipeline.warehouse.records import Decision
    from cep_pipeline.warehouse.stream_tables import StreamReader


@dataclass(frozen=True)
class InvariantReport:
    """The invariants of the current plan of a pattern set, verified on fresh statistics.

    `verdict` is that of the decision function of the pattern set. `verifications` are of all of the invariants, in
    their order. The patterns `without` any are there with the reason. `answered` says how a replanning has dealt with
    the verdict, by these very statistics.
    """

    current: CurrentPlan
    fresh: FreshStatistics
    verdict: Verdict
    verifications: Sequence[Verification]
    without: Mapping[str, str]
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
        return self.current.notes

    def to_json(self, nearest: int | None = None) -> dict[str, Any]:
        """All of it as JSON values; of the invariants only so many, if asked, those nearest to their violation."""
        by_name = {pattern.name: pattern for pattern in self.current.pattern_set.patterns}
        shown = self.verifications if nearest is None else self.nearest(nearest)
        return {
            "pattern_set": self.current.pattern_set.name,
            "plan_version": self.current.record.version,
            "statistics": self.fresh.to_json(),
            "settings": decision_settings(self.current.pattern_set),
            "replan": self.verdict.replan,
            "reason": self.verdict.reason,
            "answered": self.answered,
            "invariants": [_verification_json(one, [by_name[one.invariant.pattern]]) for one in shown],
            "without_invariants": dict(self.without),
            "moved": [_deviation_json(one) for one in self.moved],
            "notes": list(self.notes),
        }


def _verification_json(one: Verification, patterns: Sequence[Pattern]) -> dict[str, Any]:
    """An invariant with both sides as natural logarithms, when the plan was made and now, as JSON values."""
    comparison = one.invariant.comparison
    return {
        "invariant": one.invariant.key,
        "says": describe(one.invariant, patterns),
        "then": [finite(comparison.ln_chosen), finite(comparison.ln_rejected)],
        "now": [finite(one.left), finite(one.right)],
        "distance": one.distance,
        "distance_to_violation": finite(one.distance_to_violation),
        "violated": one.violated,
    }


def _deviation_json(one: Deviation) -> dict[str, Any]:
    """Return how far a number has moved, as JSON values."""
    return {
        "pattern": one.pattern,
        "what": one.what,
        "before": one.before,
        "now": one.now,
        "moved": finite(one.relative),
        "says": describe_deviation(one),
    }


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
) -> InvariantReport:
    """Verify the current plan of a pattern set on fresh statistics; InputError without a plan to check, or events."""
    events = tables.pin_events()
    day = latest_day(events)
    decisions = tables.decisions(pattern_set.name)
    current = current_plan(tables, pattern_set, decisions)
    if isinstance(current, str):
        raise InputError(f"stream {stream.name!r}, pattern set {pattern_set.name!r}: {current}")
    if day is None:
        raise InputError(f"stream {stream.name!r} has no events yet: run `cep run --stream {stream.name}`")
    fresh = fresh_statistics(tables, stream, pattern_set, events, day)
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
    return InvariantReport(current, fresh, verdict, verifications, without, answered)
