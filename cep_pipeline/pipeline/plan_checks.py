"""Checks of current plans against fresh statistics, for `cep invariants` and the DAG `invariant_check`.

A check verifies the current plan on fresh statistics with the decision function of the pattern set, and records one
decision. What decision functions remember between checks is made again from what is recorded: the current plan, the
statistics that were last planned from, and the minimal distances after the last decision.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from cep_pipeline.adaptation.decisions import DecisionState, Deviation, Verdict
from cep_pipeline.adaptation.distance import Distances
from cep_pipeline.adaptation.invariants import InvariantCheck, Verification, describe, invariants_of, without_invariants
from cep_pipeline.errors import InputError
from cep_pipeline.guarded import without_collecting
from cep_pipeline.pipeline.plans import described_part, outdated, plan_of
from cep_pipeline.pipeline.statistics import out_of_date
from cep_pipeline.pipeline.violations import (
    KEEP,
    NO_NEW_DATA,
    REPLAN,
    REPLANNING,
    Violation,
    checks_of,
    describe_answer,
    pending_violation,
    replannings_of,
)
from cep_pipeline.planning import Plan
from cep_pipeline.planning.multi_pattern.plan_workload import components_of_patterns, within
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.storage import digest_of
from cep_pipeline.warehouse.records import Decision, PlanRecord

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.pipeline.configuration import PatternSet, Stream
    from cep_pipeline.warehouse.stream_tables import StreamReader, StreamTables

logger = logging.getLogger(__name__)


def finite(number: float) -> float | None:
    """Return a number in a form that JSON has: None for an infinity."""
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class FreshStatistics:
    """Statistics of the latest day that has events, as they are published: plans are checked and made again by them."""

    day: date
    snapshot: StatisticsSnapshot

    @property
    def label(self) -> str:
        """The name of the statistics for a person."""
        return f"business day {self.day}"

    def to_json(self) -> dict[str, Any]:
        """Return what a decision records of the statistics, as JSON values."""
        return {"digest": self.snapshot.digest, "label": self.label, "events": self.snapshot.events}


def latest_day(tables: StreamReader) -> date | None:
    """The latest published day that has events; None where there is none."""
    return max((record.day for record in tables.days() if record.events), default=None)


def fresh_statistics(tables: StreamReader, stream: Stream, pattern_set: PatternSet, day: date) -> FreshStatistics:
    """Return the published statistics of a day, the `latest_day`.

    An InputError says that there are none of the events, settings and patterns as they are now.
    """
    what = f"statistics of {day} of pattern set {pattern_set.name!r}"
    published = next((record for record in tables.days() if record.day == day), None)
    try:
        records = tables.statistics(pattern_set.name, day, day, without=("state",))
        record = next((record for record in records if record.snapshot is not None), None)
        if record is None or record.snapshot is None:
            raise InputError(f"there are no {what}")
        if reason := out_of_date(record, published, stream.statistics):
            raise InputError(f"{what}: {reason}")
        snapshot = StatisticsSnapshot.from_json(record.snapshot, what)
        if not snapshot.covers(pattern_set.patterns):
            raise InputError(f"{what} are of other patterns")
    except InputError as error:
        command = f"cep run --stream {stream.name} --steps statistics --redo --day {day}"
        raise InputError(f"{error}; the next daily run makes statistics, or: {command}") from error
    return FreshStatistics(day, snapshot)


@dataclass(frozen=True)
class PlanCheck:
    """The result of a check: the decision as it is recorded.

    `violation` asks for a replanning that has not been done; it may be being handled.
    """

    decision: Decision
    violation: Violation | None = None


@dataclass(frozen=True)
class CurrentPlan:
    """The current plan of a pattern set, and what decisions about it rest on.

    `planned_from` are the statistics that were planned from last, whether or not that plan was deployed; None where
    they are gone, and for a plan of many patterns together, which has their numbers. `distances` are the minimal ones
    after the last replanning; None where there has been none with these settings. `replannings` counts how often this
    version was planned again, and kept or replaced.
    """

    pattern_set: PatternSet
    record: PlanRecord
    plan: Plan
    planned_from: StatisticsSnapshot | None
    distances: Distances | None
    replannings: int

    @property
    def together(self) -> bool:
        """True if the patterns were planned together."""
        return self.plan.workload is not None

    def state(self, fresh: StatisticsSnapshot) -> DecisionState:
        """Return the state of the decision function; without older statistics, thresholds begin with the fresh ones."""
        planned_from = None if self.together else self.planned_from or fresh
        function, patterns = self.pattern_set.adaptation.function(), self.pattern_set.patterns
        return function.begin(self.plan, patterns, planned_from, distances=self.distances)

    def verdict(self, fresh: StatisticsSnapshot) -> Verdict:
        """Return the verdict of the decision function on the plan, by fresh statistics."""
        return self.pattern_set.adaptation.function().decide(self.state(fresh), fresh)

    def violation(self, verdict: Verdict) -> Violation:
        """The violation that a verdict speaks of."""
        made = {"version": self.record.version, "created_at": self.record.created_at.isoformat()}
        key = digest_of({"plan": made, "replannings": self.replannings})[:12]
        reason, patterns = verdict.reason, verdict.patterns
        if patterns:
            components = components_of_patterns(self.pattern_set.patterns, self.plan.sharing)
            again = within(components, patterns)
            reason += f"; {described_part(self.pattern_set, again)}"
        return Violation(self.pattern_set.name, self.record.version, key, reason, patterns)


def check_invariants(
    tables: StreamTables, stream: Stream, pattern_sets: Sequence[PatternSet], *, run_id: str
) -> tuple[PlanCheck, ...]:
    """Verify the current plan of each pattern set on fresh statistics, and record a decision for each.

    It goes by the published statistics of the latest day. An InputError says that a recorded plan cannot be read.
    """
    checks = []
    for pattern_set in pattern_sets:
        decisions = tables.decisions(pattern_set.name)
        check = _check(tables, stream, pattern_set, decisions, run_id)
        tables.record_decision(check.decision)
        log_decision(stream, check.decision)
        checks.append(check)
    return tuple(checks)


def log_decision(stream: Stream, decision: Decision) -> None:
    """Log a decision about a plan with its reason."""
    told = decision.run_id, stream.name, decision.day, decision.pattern_set, decision.outcome, decision.reason
    logger.info("run %s: %s %s, %s: %s: %s", *told)


@without_collecting()
def _check(
    tables: StreamTables,
    stream: Stream,
    pattern_set: PatternSet,
    decisions: Sequence[Decision],
    run_id: str,
) -> PlanCheck:
    current = current_plan(tables, pattern_set, decisions)
    day = latest_day(tables)
    if day is None or isinstance(current, str):
        reason = current if isinstance(current, str) else "no events are published"
        outcome = NO_NEW_DATA if day is None else KEEP
        return PlanCheck(_decision(pattern_set, outcome, reason, run_id, day))
    try:
        fresh = fresh_statistics(tables, stream, pattern_set, day)
    except InputError as error:
        return PlanCheck(_decision(pattern_set, KEEP, str(error), run_id, day, current.record.version))
    checks = checks_of(decisions, current.record.version)
    before = next((one for one in checks if _of_the_same(one, current, fresh)), None)
    if before is not None:
        reason = f"the statistics of {fresh.label} are those that plan {current.record.version} was checked by before"
        return _no_new_data(current, before, decisions, reason, run_id, day)
    state = current.state(fresh.snapshot)
    verdict = pattern_set.adaptation.function().decide(state, fresh.snapshot)
    details = {
        "statistics": fresh.to_json(),
        "settings": decision_settings(pattern_set),
        "distances": state.distances.to_json(),
        "replannings": current.replannings,
    }
    if not verdict.replan:
        decision = _decision(pattern_set, KEEP, verdict.reason, run_id, day, current.record.version, details)
        return PlanCheck(decision)
    violation = current.violation(verdict)
    details["violation"] = violation.to_json()
    decision = _decision(pattern_set, REPLAN, violation.reason, run_id, day, current.record.version, details)
    return PlanCheck(decision, violation)


def _of_the_same(check: Decision, current: CurrentPlan, fresh: FreshStatistics) -> bool:
    """Return True if a check of the plan was by the same numbers and settings: its verdict would be the same."""
    of_settings = check.details.get("settings") == decision_settings(current.pattern_set)
    return of_settings and check.details.get("statistics", {}).get("digest") == fresh.snapshot.digest


def _no_new_data(
    current: CurrentPlan, before: Decision, decisions: Sequence[Decision], reason: str, run_id: str, day: date
) -> PlanCheck:
    """Return the check of a plan for which there are no new events; a violation may still wait."""
    details: dict[str, Any] = {"since": before.decided_at.isoformat()}
    violation = pending_violation(decisions, current.record.version)
    if violation is not None:
        details["violation"] = violation.to_json()
        reason += "; its violation has not been handled yet"
    decision = _decision(current.pattern_set, NO_NEW_DATA, reason, run_id, day, current.record.version, details)
    return PlanCheck(decision, violation)


def decision_settings(pattern_set: PatternSet) -> dict[str, Any]:
    """The decision function of a pattern set with its settings, as JSON values."""
    return {"decision": pattern_set.adaptation.decision, **pattern_set.adaptation.decisive()}


def current_plan(tables: StreamReader, pattern_set: PatternSet, decisions: Sequence[Decision]) -> CurrentPlan | str:
    """Return the current plan with its records, or the reason why there is none that can be checked.

    The decisions are those of the pattern set, the latest first.
    """
    record = tables.current_plan(pattern_set.name)
    if record is None:
        return "the pattern set has no plan yet: the next daily run makes one"
    if reason := outdated(record, pattern_set):
        return f"{reason}: the next daily run makes a plan"
    plan = plan_of(record)
    replannings = [one for one in decisions if one.kind == REPLANNING]
    together = plan.workload is not None
    return CurrentPlan(
        pattern_set,
        record,
        plan,
        None if together else _planned_from(record, replannings),
        _distances(pattern_set, replannings),
        replannings_of(decisions, record.version),
    )


def _planned_from(record: PlanRecord, replannings: Sequence[Decision]) -> StatisticsSnapshot | None:
    """The statistics that were planned from last: by the last replanning, or when the plan was made."""
    since = (
        one.details["snapshot"]
        for one in replannings
        if one.details.get("current") == record.version and "snapshot" in one.details
    )
    content = next(since, record.statistics)
    try:
        return None if content is None else StatisticsSnapshot.from_json(content)
    except InputError:  # of an older version
        return None


def _distances(pattern_set: PatternSet, replannings: Sequence[Decision]) -> Distances | None:
    """The minimal distances after the last replanning of these patterns with these settings."""
    for one in replannings:
        of_these = one.details.get("pattern_set_version") == pattern_set.version
        of_these = of_these and "distances" in one.details
        if of_these and one.details.get("settings") == decision_settings(pattern_set):
            return Distances.from_json(one.details["distances"], f"the replanning of {one.decided_at}")
    return None


def _decision(
    pattern_set: PatternSet,
    outcome: str,
    reason: str,
    run_id: str,
    day: date | None,
    version: int | None = None,
    details: Mapping[str, Any] | None = None,
) -> Decision:
    kind = pattern_set.adaptation.decision
    now = datetime.now(UTC)
    return Decision(pattern_set.name, kind, outcome, reason, now, day, version, run_id, details or {})


# -- the report of `cep invariants` -----------------------------------------------------------------------------------


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
        "says": str(one),
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
    day = latest_day(tables)
    decisions = tables.decisions(pattern_set.name)
    current = current_plan(tables, pattern_set, decisions)
    if isinstance(current, str):
        raise InputError(f"stream {stream.name!r}, pattern set {pattern_set.name!r}: {current}")
    if day is None:
        raise InputError(f"stream {stream.name!r} has no events yet: run `cep run --stream {stream.name}`")
    fresh = fresh_statistics(tables, stream, pattern_set, day)
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
