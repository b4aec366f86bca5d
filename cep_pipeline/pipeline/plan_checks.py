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

from cep_pipeline.adaptation import DecisionState, Distances, Verdict
from cep_pipeline.errors import InputError
from cep_pipeline.guarded import without_collecting
from cep_pipeline.pipeline.fresh_statistics import FreshStatistics, fresh_statistics, latest_day
from cep_pipeline.pipeline.plans import described_part, outdated, plan_of
from cep_pipeline.pipeline.violations import (
    KEEP,
    NO_NEW_DATA,
    REPLAN,
    REPLANNING,
    Violation,
    checks_of,
    pending_violation,
    replannings_of,
)
from cep_pipeline.planning import Plan
from cep_pipeline.planning.multi_pattern.plan_workload import components_of_patterns, within
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.storage import digest_of
from cep_pipeline.warehouse.records import Decision, EventsSnapshot, PlanRecord

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import PatternSet, Stream
    from cep_pipeline.warehouse.stream_tables import StreamReader, StreamTables

logger = logging.getLogger(__name__)


def finite(number: float) -> float | None:
    """Return a number in a form that JSON has: None for an infinity."""
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class PlanCheck:
    """The result of a check: the decision as it is recorded, and what a person should know.

    `violation` asks for a replanning that has not been done; it may be being handled.
    """

    decision: Decision
    violation: Violation | None = None
    notes: tuple[str, ...] = ()


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

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what could not be found."""
        if self.planned_from is not None or self.together:
            return ()
        version = self.record.version
        return (f"the statistics that plan {version} was made from are no longer there: thresholds begin anew",)


def check_invariants(
    tables: StreamTables, stream: Stream, pattern_sets: Sequence[PatternSet], *, run_id: str
) -> tuple[PlanCheck, ...]:
    """Verify the current plan of each pattern set on fresh statistics, and record a decision for each.

    It goes by the published statistics of the latest day. An InputError says that a recorded plan cannot be read.
    """
    events = tables.pin_events()
    checks = []
    for pattern_set in pattern_sets:
        decisions = tables.decisions(pattern_set.name)
        check = _check(tables, stream, pattern_set, events, decisions, run_id)
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
    events: EventsSnapshot,
    decisions: Sequence[Decision],
    run_id: str,
) -> PlanCheck:
    current = current_plan(tables, pattern_set, decisions)
    day = latest_day(events)
    if day is None or isinstance(current, str):
        reason = current if isinstance(current, str) else "no events are published"
        outcome = NO_NEW_DATA if day is None else KEEP
        return PlanCheck(_decision(pattern_set, outcome, reason, run_id, day))
    try:
        fresh = fresh_statistics(tables, stream, pattern_set, events, day)
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
        return PlanCheck(decision, notes=current.notes)
    violation = current.violation(verdict)
    details["violation"] = violation.to_json()
    decision = _decision(pattern_set, REPLAN, violation.reason, run_id, day, current.record.version, details)
    return PlanCheck(decision, violation, current.notes)


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
    return PlanCheck(decision, violation, current.notes)


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
    return None if content is None else _readable(content)


def _readable(snapshot: Mapping[str, Any]) -> StatisticsSnapshot | None:
    """Recorded statistics; None where they are of an older version, and so as good as gone."""
    try:
        return StatisticsSnapshot.from_json(snapshot)
    except InputError:
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
