"""Plans of pattern sets: as `pipeline.yaml` asks for them, and where a set has changed only as far as that reaches.

Where patterns are planned together, each with those that it may share work with, a pattern that comes changes the plans
of its component of the multi-pattern graph, and one that goes those of the components that it shared work in; all
others keep theirs (MCEP [0098], [0157]).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.mechanisms import choose_mechanisms, in_pattern_order
from cep_pipeline.detection.planned import plan_for, runs_on
from cep_pipeline.errors import BusyError
from cep_pipeline.language.formatter import format_pattern
from cep_pipeline.planning import Plan
from cep_pipeline.planning.planners import MULTI_PATTERN_PLANNER_NAMES
from cep_pipeline.planning.plans import VERSION as PLAN_VERSION
from cep_pipeline.questions.explained_mechanisms import explained_choice
from cep_pipeline.statistics import StatisticsSnapshot

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.pipeline.configuration import PatternSet
    from cep_pipeline.pipeline.day_work import DayWork
    from cep_pipeline.warehouse.records import PlanRecord
    from cep_pipeline.warehouse.stream_tables import StreamTables

logger = logging.getLogger(__name__)

MOST_PLANS = 8
"""Plans that are remembered; those that were read first go first."""
_plans: OrderedDict[Hashable, Plan] = OrderedDict()


def plan_of(record: PlanRecord) -> Plan:
    """The plan of a record; what is recorded does not change. One of another version is an InputError."""
    key = record.run_id, record.created_at, record.pattern_set, record.version, record.plan.get("plan_id")
    if key not in _plans:
        while len(_plans) >= MOST_PLANS:
            _plans.popitem(last=False)
        _plans[key] = Plan.from_json(record.plan, f"plan {record.version} of {record.pattern_set}")
    return _plans[key]


ALL = "all"
"""The name that a replanning of all patterns records, in place of theirs."""
MOST_NAMED = 5
"""The most patterns whose names are listed."""


def plan_pattern_set(
    pattern_set: PatternSet,
    snapshot: StatisticsSnapshot,
    *,
    start: Plan | None = None,
    **search: Any,
) -> Plan:
    """Plan a pattern set as it is configured.

    Options of a search of all patterns together may stand in place of those of the pattern set; `start` is what such a
    search starts from. Errors are those of `plan_for`.
    """
    chosen = choose_mechanisms(pattern_set.patterns, pattern_set.mechanism)
    options: dict[str, Any] = {}
    if pattern_set.planner in MULTI_PATTERN_PLANNER_NAMES:
        options = {**pattern_set.search, **search}
        if start is not None:
            options["start"] = start
    asked = pattern_set.planner, pattern_set.cost, pattern_set.alpha
    return plan_for(pattern_set.patterns, snapshot, chosen, *asked, **options)


def replan_components(
    pattern_set: PatternSet,
    snapshot: StatisticsSnapshot,
    plan: Plan,
    names: Collection[str],
    **search: Any,
) -> Plan:
    """Plan some patterns anew, from what a shared plan has of them on, while all others keep what it says.

    The names are those of whole components (`connected`). The plan has the others; of the patterns to be planned it may
    have some. The other parameters are as of `plan_pattern_set`.
    """
    from cep_pipeline.planning.multi_pattern.plan_workload import plan_to_start_from, with_part

    made = None
    if names:
        part = part_of_set(pattern_set, names)
        options = search if plan.sharing == "none" else {**search, "sharing": plan.sharing}
        start = plan_to_start_from(plan, part.patterns)
        made = plan_pattern_set(part, snapshot, start=start, **options)
    return with_part(plan, made, pattern_set.patterns, snapshot)


def part_of_set(pattern_set: PatternSet, names: Collection[str]) -> PatternSet:
    """A pattern set of which only some patterns are there."""
    return replace(pattern_set, patterns=tuple(one for one in pattern_set.patterns if one.name in names))


def statements_of(patterns: Sequence[Pattern]) -> dict[str, Any]:
    """Pattern name -> its statement with the values of its parameters, as JSON values."""
    return {
        one.name: {"statement": format_pattern(one), "parameters": dict(one.parameters_as_json)} for one in patterns
    }


def described_part(pattern_set: PatternSet, again: Collection[str]) -> str:
    """A sentence for people about the patterns of a set that are planned again."""
    names = [one.name for one in pattern_set.patterns if one.name in again]
    return _anew(len(names), len(pattern_set.patterns), f" ({_listed(names)})")


def _anew(number: int, patterns: int, which: str = "") -> str:
    return f"planned anew: {number:,} of {patterns:,} patterns{which}; {patterns - number:,} keep their plan"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def change_since(record: PlanRecord, pattern_set: PatternSet) -> tuple[frozenset[str], str] | None:
    """Return the patterns to be planned anew since a plan was made, and why; None where that is the whole set.

    That is where its patterns are not planned together, or were not, or by another planner or for another sharing; or
    the plan cannot be read, or does not say what it was made for. With a pattern that is gone or has changed, those are
    planned anew that shared work with it.
    """
    from cep_pipeline.planning.multi_pattern.plan_workload import connected

    plan = _shared_plan(record, pattern_set)
    if plan is None or plan.workload is None:
        return None
    now = statements_of(pattern_set.patterns)
    before = record.statements
    changed = tuple(name for name in now if name in before and now[name] != before[name])
    added = tuple(name for name in now if name not in before)
    removed = tuple(name for name in before if name not in now)
    gone = {*removed, *changed}
    # A single variable is in the trees of all patterns that have its type, and connects none of them.
    nodes = [one for one in plan.workload.shared if plan.sharing == "prefix" or len(one.uses[0].variables) > 1]
    users = [{use.pattern for use in node.uses} for node in nodes]
    left = {name for of_node in users if of_node & gone for name in of_node - gone}
    again = connected(pattern_set.patterns, plan.sharing, (*added, *changed, *left))
    if not _runs(plan, pattern_set, again):
        return None
    what = [
        f"{said} {_listed(names)}"
        for said, names in (("added", added), ("removed", removed), ("changed", changed))
        if names
    ]
    anew = _anew(len(again), len(pattern_set.patterns))
    return again, f"{', '.join(what) or 'the patterns stand in another order'}; {anew}"


def _shared_plan(record: PlanRecord, pattern_set: PatternSet) -> Plan | None:
    """The plan of a record where the pattern set would be planned in the same way."""
    if pattern_set.planner not in MULTI_PATTERN_PLANNER_NAMES or record.plan.get("version") != PLAN_VERSION:
        return None
    plan = plan_of(record)
    return plan if record.statements and goes_on(plan, pattern_set) else None


def goes_on(plan: Plan, pattern_set: PatternSet) -> bool:
    """Return True if the planner of a pattern set makes plans of this kind of many patterns, and can go on from it."""
    if plan.workload is None or plan.workload.search.planner != pattern_set.planner:
        return False
    return plan.sharing in ("none", pattern_set.search.get("sharing", plan.sharing))


def _runs(plan: Plan, pattern_set: PatternSet, again: Collection[str]) -> bool:
    """Return True if the mechanisms of a pattern set run a plan for the patterns that keep it, and its sharing."""
    chosen = choose_mechanisms(pattern_set.patterns, pattern_set.mechanism)
    if not runs_on(plan, [one for one in pattern_set.patterns if one.name not in again], chosen):
        return False
    ordered = set(chosen) - in_pattern_order(chosen)
    return plan.sharing != "subexpression" or all(MECHANISMS[chosen[name]].runs_trees for name in ordered)


def plan_of_changed(
    pattern_set: PatternSet, snapshot: StatisticsSnapshot, before: PlanRecord | None
) -> tuple[Plan, str]:
    """Plan a pattern set that has no current plan for its patterns; the one that was current is `before`, if any was.

    Returned are the plan, and what of it was planned anew, "" where all was.
    """
    change = None if before is None else change_since(before, pattern_set)
    if before is None or change is None:
        return plan_pattern_set(pattern_set, snapshot), ""
    again, said = change
    return replan_components(pattern_set, snapshot, plan_of(before), again), said


def plan_day(work: DayWork, pattern_set: PatternSet, snapshot: StatisticsSnapshot) -> PlanRecord:
    """Return the current plan of a pattern set; make one where there is none, or where it is for other patterns."""
    with work.timed("plan"):
        before = work.tables.current_plan(pattern_set.name)
        why = "first plan of the pattern set" if before is None else outdated(before, pattern_set)
        if before is not None and why is None:
            return before
        reason = f"{why}, by the statistics of {work.day}"
        try:
            return record_plan(
                work.tables,
                pattern_set,
                snapshot,
                in_place_of=before,
                run_id=work.run_id,
                reason=reason,
            )
        except BusyError:
            made_meanwhile = current_plan(work, pattern_set)
            if made_meanwhile is None:
                raise
            return made_meanwhile


def current_plan(work: DayWork, pattern_set: PatternSet) -> PlanRecord | None:
    """Return the current plan of a pattern set; None where there is none for these patterns and mechanisms."""
    record = work.tables.current_plan(pattern_set.name)
    return None if record is None or outdated(record, pattern_set) else record


def of_another_format(record: PlanRecord) -> str | None:
    """Say that a recorded plan has another version of the format than the one that is read; None where it has not."""
    version = record.plan.get("version")
    return None if version == PLAN_VERSION else f"the current plan is of version {version} of the format"


def outdated(record: PlanRecord, pattern_set: PatternSet) -> str | None:
    """Say why a recorded plan cannot be run; None where it can."""
    if reason := of_another_format(record):
        return reason
    if record.pattern_set_version != pattern_set.version:
        return "the pattern set has changed"
    plan = plan_of(record)
    chosen = choose_mechanisms(pattern_set.patterns, pattern_set.mechanism)
    return None if runs_on(plan, pattern_set.patterns, chosen) else "the mechanism of the pattern set has changed"


def record_plan(
    tables: StreamTables,
    pattern_set: PatternSet,
    snapshot: StatisticsSnapshot,
    *,
    in_place_of: PlanRecord | None,
    run_id: str,
    reason: str,
) -> PlanRecord:
    """Make a plan as the pattern set is configured, and make it the current one in place of the one that was.

    Where that is one of all patterns together, only those are planned anew that a change of the pattern set reaches
    (`plan_of_changed`); the reason says so. Where another plan has become current in
    the meantime, or is just being recorded, that is a BusyError, and nothing has changed.
    """
    made, anew = plan_of_changed(pattern_set, snapshot, in_place_of)
    logger.info("run %s: %s, %s: %r: %s", run_id, tables.name, pattern_set.name, made, reason)
    with tables.plan_lease(pattern_set.name, run_id=run_id, wait_s=PLAN_WAIT_S) as lease:
        why, before = "; ".join(filter(None, (reason, anew))), None if in_place_of is None else in_place_of.version
        return append_plan(tables, pattern_set, made, snapshot, lease=lease, reason=why, in_place_of=before)


def append_plan(
    tables: StreamTables, pattern_set: PatternSet, plan: Plan, snapshot: StatisticsSnapshot, **record: Any
) -> PlanRecord:
    """Record a plan with what it was made from and for; `record` are other arguments of `StreamTables.record_plan`."""
    patterns, mechanism = pattern_set.patterns, pattern_set.mechanism
    return tables.record_plan(
        pattern_set.name,
        plan.to_json(),
        explain=plan.explain(explained_choice(patterns, mechanism)),
        pattern_set_version=pattern_set.version,
        statistics=snapshot.to_json(),
        statements=statements_of(patterns),
        **record,
    )


PLAN_WAIT_S = 30.0
"""Seconds to wait for another day's run that is just recording a plan of the same pattern set."""
