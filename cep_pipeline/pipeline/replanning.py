"""A plan made again: by fresh statistics, compared with the current one, made current where it is better, recorded.

Better is what costs less by the fresh statistics.

Whatever comes of it is one decision of the kind "replanning", recorded in the commit that makes the plan the current
one. A run that is repeated under its id, or another one for the same violation, finds that decision and does nothing
twice; a plan that a run recorded before it was killed is found by its content, as any earlier version is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cep_pipeline.adaptation.plan_makers import gain, ln_cost_on, same_plans
from cep_pipeline.errors import InputError
from cep_pipeline.pipeline.plan_checks import (
    CurrentPlan,
    FreshStatistics,
    current_plan,
    decision_settings,
    finite,
    fresh_statistics,
    latest_day,
    log_decision,
)
from cep_pipeline.pipeline.plans import (
    ALL,
    PLAN_WAIT_S,
    append_plan,
    described_part,
    goes_on,
    outdated,
    part_of_set,
    plan_of,
    plan_of_changed,
    plan_pattern_set,
    replan_components,
)
from cep_pipeline.pipeline.violations import REPLANNING, Violation
from cep_pipeline.planning import Plan
from cep_pipeline.planning.multi_pattern.plan_workload import connected
from cep_pipeline.warehouse.records import Decision, PlanRecord

if TYPE_CHECKING:
    from cep_pipeline.adaptation.decisions import Verdict
    from cep_pipeline.pipeline.configuration import PatternSet, Stream
    from cep_pipeline.warehouse.stream_tables import StreamTables


MADE, REPLACED, KEPT = "made", "replaced", "kept"
"""Outcomes of a replanning: there was no plan to compare with; the new plan is the current one; the old one is."""


@dataclass(frozen=True)
class PlanRequest:
    """A request for another plan, with its reason.

    It answers a violation; None: a person wants it. With `force` the plan becomes current even if it is not better. Of
    a plan of many patterns together only the components of those that the violation is about are planned again.
    """

    reason: str
    violation: Violation | None = None
    force: bool = False


@dataclass(frozen=True)
class PlanComparison:
    """A new plan beside the current one; they are the `same` where they run every pattern alike.

    The costs are by the new plan's cost models on the fresh statistics. The new plan must save more than the share
    `minimum_gain`.
    """

    same: bool
    ln_current: float
    ln_new: float
    minimum_gain: float = 0.0

    @property
    def gain(self) -> float:
        """The share of the current plan's cost that the new one saves."""
        return 0.0 if self.same else gain(self.ln_current, self.ln_new)

    @property
    def better(self) -> bool:
        """True if the new plan costs less, and saves more than the least gain."""
        return self.gain > self.minimum_gain

    def describe(self) -> str:
        """A sentence for people."""
        if self.same:
            return "planning again gives the same plan"
        if abs(self.gain) < 0.0005:
            return "by cost the new plan is as good"
        said = f"saves {self.gain:.1%}" if self.gain > 0 else f"takes {-self.gain:.1%} more"
        if 0 < self.gain <= self.minimum_gain:
            said += f"; it has to save more than {self.minimum_gain:.1%} (minimum_gain)"
        return f"by cost the new plan {said}"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        costs = {"ln_current": finite(self.ln_current), "ln_new": finite(self.ln_new), "gain": finite(self.gain)}
        return {"same": self.same, **costs, "minimum_gain": self.minimum_gain}


def compare(pattern_set: PatternSet, current: Plan, made: Plan, fresh: FreshStatistics) -> PlanComparison:
    """Compare a new plan with the current one of some patterns, by fresh statistics.

    The patterns are all of a set, or a part of it that shares nothing with the rest; the plans are of these at least.
    """
    patterns = pattern_set.patterns
    if len(patterns) < len(made.patterns):
        current, made = (one.part(pattern.name for pattern in patterns) for one in (current, made))
    ln_current = ln_cost_on(_costed_as(current, made), patterns, fresh.snapshot)
    ln_made = ln_cost_on(made, patterns, fresh.snapshot) if made.sharing != "none" else made.ln_cost
    return PlanComparison(same_plans(current, made), ln_current, ln_made, pattern_set.adaptation.minimum_gain)


def _costed_as(plan: Plan, other: Plan) -> Plan:
    """Return a plan with the cost models of another one."""
    patterns = (
        replace(one, cost_model=other.for_pattern(one.pattern).cost_model, unit=other.for_pattern(one.pattern).unit)
        for one in plan.patterns
    )
    return replace(plan, alpha=other.alpha, patterns=tuple(patterns))


def made_alike(plan: Plan, other: Plan) -> bool:
    """Return True if plans are the same, and made by the same planners for the same costs."""
    by = [{one.pattern: (one.planner, one.cost_model) for one in of.patterns} for of in (plan, other)]
    return same_plans(plan, other) and by[0] == by[1] and plan.alpha == other.alpha


@dataclass(frozen=True)
class Replanning:
    """The result of a replanning.

    The decision is as it is recorded; of a dry run, as it would be. `before` was current, and `made` is the new plan;
    None where there was none, and nothing to do. `current` is the plan that is current now; of a dry run the one that
    was and is. There is no comparison where there was no current plan, or nothing to do.
    """

    decision: Decision
    before: Plan | None = None
    made: Plan | None = None
    current: PlanRecord | None = None
    comparison: PlanComparison | None = None
    notes: tuple[str, ...] = ()


def replan(
    tables: StreamTables,
    stream: Stream,
    pattern_set: PatternSet,
    asked: PlanRequest,
    *,
    run_id: str,
    dry_run: bool = False,
) -> Replanning:
    """Make the plan of a pattern set again, and make it the current one where it is better.

    Plan and decision are recorded under `run_id`; a dry run makes and compares, and records nothing. An InputError says
    that no events or statistics are published; a BusyError that another run has just changed the current plan, or is
    recording one.
    """
    decisions = tables.decisions(pattern_set.name)
    done = _done_before(tables, pattern_set, asked, decisions, run_id)
    if done is not None and not dry_run:
        return done
    in_place_of = tables.current_plan(pattern_set.name)
    found = current_plan(tables, pattern_set, decisions)
    current = found if isinstance(found, CurrentPlan) else None
    overtaken = _overtaken(asked, current, found)
    if overtaken:
        decision = _decision(pattern_set, KEPT, overtaken, run_id, asked, current)
        if not dry_run:
            tables.record_decision(decision)
        log_decision(stream, decision)
        return Replanning(decision, current=None if current is None else current.record)
    day = latest_day(tables)
    if day is None:
        raise InputError(f"stream {stream.name!r} has no events to plan by: run `cep run --stream {stream.name}`")
    fresh = fresh_statistics(tables, stream, pattern_set, day)
    verdict = None if asked.violation is None or current is None else current.verdict(fresh.snapshot)
    in_place_of = in_place_of if current is None else current.record
    made, again, said = _plan(pattern_set, _concerned(asked, verdict), current, in_place_of, fresh)
    comparison = None
    if current is not None:
        part = pattern_set if again is None else part_of_set(pattern_set, again)
        comparison = compare(part, current.plan, made, fresh)
    forced = asked.force and current is not None and not made_alike(current.plan, made)
    replaces = comparison is None or comparison.better or forced
    outcome = MADE if current is None else REPLACED if replaces else KEPT
    reason = _reason(asked, said, comparison, replaces)
    details: dict[str, Any] = {
        "statistics": fresh.to_json(),
        "snapshot": fresh.snapshot.to_json(),
        "comparison": None if comparison is None else comparison.to_json(),
        "planner": made.planner,
        "cost_model": made.cost_model,
        "distances": _distances(pattern_set, asked, current, made, fresh, comparison, verdict, outcome),
    }
    if made.workload is not None:
        details["planned_again"] = ALL if again is None else sorted(again)

    def decided(record: PlanRecord | None) -> Decision:
        current_version = {"current": None if record is None else record.version}
        of = _decision(pattern_set, outcome, reason, run_id, asked, current, {**details, **current_version})
        return replace(of, day=fresh.day)

    record = None if current is None else current.record
    if replaces and not dry_run:
        before = None if in_place_of is None else in_place_of.version
        with tables.plan_lease(pattern_set.name, run_id=run_id, wait_s=PLAN_WAIT_S) as lease:
            record = _recorded_alike(tables, pattern_set, made) or append_plan(
                tables, pattern_set, made, fresh.snapshot, lease=lease, reason=reason, make_current=False
            )
            decision = decided(record)
            tables.record_decision(decision, makes_current=record.version, in_place_of=before)
    else:
        decision = decided(record)
        if not dry_run:
            tables.record_decision(decision)
    log_decision(stream, decision)
    return Replanning(decision, None if current is None else current.plan, made, record, comparison)


def _concerned(asked: PlanRequest, verdict: Verdict | None) -> tuple[str, ...]:
    """The patterns whose components are planned again; (): all.

    A replanning answers all that is violated by now, not only what the check had found that asked for it.
    """
    concerned = () if asked.violation is None else asked.violation.patterns
    if verdict is None or not verdict.replan or not concerned:
        return concerned
    return tuple(dict.fromkeys((*concerned, *verdict.patterns))) if verdict.patterns else ()


def _plan(
    pattern_set: PatternSet,
    concerned: Sequence[str],
    current: CurrentPlan | None,
    in_place_of: PlanRecord | None,
    fresh: FreshStatistics,
) -> tuple[Plan, frozenset[str] | None, str]:
    """The new plan, the patterns that were planned again (None: all), and a sentence about them.

    A search of all patterns together goes on from the current plan, where that is such a one.
    """
    if current is None:
        made, said = plan_of_changed(pattern_set, fresh.snapshot, in_place_of)
        return made, None, said
    if not goes_on(current.plan, pattern_set):
        return plan_pattern_set(pattern_set, fresh.snapshot), None, ""
    if not concerned:
        return plan_pattern_set(pattern_set, fresh.snapshot, start=current.plan), None, ""
    again = connected(pattern_set.patterns, current.plan.sharing, concerned)
    made = replan_components(pattern_set, fresh.snapshot, current.plan, again)
    return made, again, described_part(pattern_set, again)


def _done_before(
    tables: StreamTables, pattern_set: PatternSet, asked: PlanRequest, decisions: Sequence[Decision], run_id: str
) -> Replanning | None:
    """Return the decision that a run of this id, or another one for this violation, has recorded."""
    for one in decisions:
        if one.kind != REPLANNING:
            continue
        handled = asked.violation is not None and one.details.get("violation") == asked.violation.key
        if handled or one.run_id == run_id:
            note = f"it was done before, by run {one.run_id}"
            return Replanning(one, current=tables.current_plan(pattern_set.name), notes=(note,))
    return None


def _overtaken(asked: PlanRequest, current: CurrentPlan | None, found: CurrentPlan | str) -> str:
    """Say why the violation is no longer one; "" where it still is."""
    if asked.violation is None:
        return ""
    version = asked.violation.plan_version
    if current is None:
        return f"plan {version} is no longer in use: {found}"
    if current.record.version != version:
        return f"plan {version} is no longer the current one: version {current.record.version} is"
    return ""


def _reason(asked: PlanRequest, anew: str, comparison: PlanComparison | None, replaces: bool) -> str:
    """The reason of a decision: why a plan was asked for, what of it was planned anew, and how it compares."""
    said = "" if comparison is None else comparison.describe()
    if replaces and comparison is not None and not comparison.better:
        said = f"{said}; it is made current all the same, as asked"
    # The reason of a violation says already what is planned anew.
    return "; ".join(filter(None, (asked.reason, "" if anew in asked.reason else anew, said)))


def _recorded_alike(tables: StreamTables, pattern_set: PatternSet, made: Plan) -> PlanRecord | None:
    """Return an earlier version that is the same plan: it becomes current again, and no plan is recorded twice."""
    for record in tables.plans(pattern_set.name):
        if outdated(record, pattern_set) is None and made_alike(plan_of(record), made):
            return record
    return None


def _distances(
    pattern_set: PatternSet,
    asked: PlanRequest,
    current: CurrentPlan | None,
    made: Plan,
    fresh: FreshStatistics,
    comparison: PlanComparison | None,
    verdict: Verdict | None,
    outcome: str,
) -> Mapping[str, Any]:
    """Return the minimal distances to go on with, which follow from what answering a violation has gained."""
    function = pattern_set.adaptation.function()
    if current is None or comparison is None:
        return function.begin(made, pattern_set.patterns, fresh.snapshot).distances.to_json()
    state = current.state(fresh.snapshot)
    if asked.violation is None:
        return state.distances.to_json()
    replaced = outcome == REPLACED
    verdict = verdict or function.decide(state, fresh.snapshot)
    plan, gained = (made, comparison.gain) if replaced else (current.plan, 0.0)
    return function.replanned(state, verdict, plan, fresh.snapshot, gain=gained).distances.to_json()


def _decision(
    pattern_set: PatternSet,
    outcome: str,
    reason: str,
    run_id: str,
    asked: PlanRequest,
    current: CurrentPlan | None,
    details: Mapping[str, Any] | None = None,
) -> Decision:
    version = None if current is None else current.record.version
    if asked.violation is not None:
        version = asked.violation.plan_version  # the plan may be another one by now: this is what was answered
    content: dict[str, Any] = {
        "asked": asked.reason,
        "violation": None if asked.violation is None else asked.violation.key,
        "settings": decision_settings(pattern_set),
        "pattern_set_version": pattern_set.version,
        **(details or {}),
    }
    return Decision(pattern_set.name, REPLANNING, outcome, reason, datetime.now(UTC), None, version, run_id, content)
