"""Patterns that are run in their own order, since that takes less time than to plan them.

To plan a pattern takes some milliseconds: its statistics are estimated, and orders are compared. Over few events, or of
rare types, the kernel has read any order by then. How long that takes is told by how many events come within a window
of an event, and by the share of each type, which are counted in one pass for all patterns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from cep_pipeline.detection.known_events import Streams
from cep_pipeline.detection.mechanisms import MECHANISMS
from cep_pipeline.detection.outputs import binds_lists
from cep_pipeline.patterns.normal_form import Clause, Variable
from cep_pipeline.patterns.pattern import Pattern, Window
from cep_pipeline.planning.clause_plans import ClausePlan, PatternPlan, PlanStep, StatisticsSummary
from cep_pipeline.planning.plans import Plan
from cep_pipeline.slices.prepared import PreparedEvents

PLANNING_S = 4e-3
"""Seconds that it takes to plan a pattern."""
STATISTICS_S, STATISTICS_OF_EVENT_S = 3e-3, 1.5e-7
"""Seconds that it takes to estimate the statistics of all patterns: at least, and for each event."""
SAMPLE = 1024
"""Events that are looked at."""
CANDIDATE_S, PARTIAL_S = 1e-9, 6e-9
"""Seconds in which the kernel tests a candidate, and goes on with what has passed; its code may be interpreted."""
PASSING = 0.5
"""The share that is taken to pass a condition of which nothing is known."""
_MOST_VARIABLES = 12


def own_order_plan(patterns: Sequence[Pattern]) -> Plan:
    """A plan that says nothing but the own order of each pattern."""
    planned = (
        PatternPlan(
            pattern.name,
            str(pattern.window),
            pattern.strategy.value,
            tuple(ClausePlan(clause.index, tuple(map(_step, clause.positive)), 0.0) for clause in pattern.clauses),
            "trivial",
            "kernel",
            "none estimated",
        )
        for pattern in patterns
    )
    return Plan(0.0, StatisticsSummary("", "", 0, None, None), tuple(planned))


def _step(variable: Variable) -> PlanStep:
    return PlanStep(variable.name, "", 0.0, None, 0.0, 1.0, (), 0.0, 0.0)


def need_no_plan(patterns: Sequence[Pattern], prepared: Streams, chosen: Mapping[str, str]) -> list[Pattern]:
    """The patterns that a columnar mechanism has found in their own order before they could be planned."""
    windows: dict[tuple[int, Window, int], list[float]] = {}
    found = []
    total = max(map(len, prepared.values()), default=0)
    planning_s = PLANNING_S + (STATISTICS_S + STATISTICS_OF_EVENT_S * total) / len(patterns)
    for pattern in patterns:
        events = prepared[pattern.type_attribute, pattern.base_type]
        if binds_lists(pattern) or not MECHANISMS[chosen[pattern.name]].is_columnar:
            continue
        size = max(len(clause.positive) for clause in pattern.clauses)
        key = id(events), pattern.window, size
        if key not in windows:
            windows[key] = _powers(events, pattern.window, min(size, _MOST_VARIABLES))
        if sum(_seconds(clause, events, windows[key]) for clause in pattern.clauses) < planning_s:
            found.append(pattern)
    return found


def _powers(events: PreparedEvents, window: Window, size: int) -> list[float]:
    """For each k below a size: the sum over all events of the k-th power of how many come within a window of each."""
    total = len(events)
    rows = np.arange(0, total, max(total // SAMPLE, 1))
    if window.time_us is None:
        after = np.minimum(window.events or 1, total - rows) - 1
    else:
        stamps = events.timestamps
        after = np.searchsorted(stamps, stamps[rows] + window.time_us, "right") - rows - 1
    around = np.maximum(after, 0).astype(np.float64)
    powers, each = [], np.ones(len(rows))
    for _ in range(size):
        powers.append(float(each.sum()) * total / max(len(rows), 1))
        each = each * around
    return powers


def _seconds(clause: Clause, events: PreparedEvents, powers: Sequence[float]) -> float:
    """The time that the kernel is expected to take for a clause in its own order."""
    size = len(clause.positive)
    if size > _MOST_VARIABLES:
        return math.inf
    total = max(len(events), 1)
    bound: set[str] = set()
    share, seconds = 1.0, 0.0
    for level, variable in enumerate(clause.positive):
        share *= len(events.leaf_rows(variable.event_type)) / total
        # In a sequence events come one after another; others come before or after, and in any order.
        ordered = sum((one, variable.name) in clause.precedence for one in bound)
        share *= 2 ** (ordered == 0 and level > 0) / max(ordered, 1)
        candidates = share * powers[level]
        bound.add(variable.name)
        share *= PASSING ** sum(
            variable.name in one.variables and one.variables <= bound and len(one.variables) > 1
            for one in clause.conjuncts
        )
        seconds += candidates * CANDIDATE_S + share * powers[level] * PARTIAL_S
    return seconds
