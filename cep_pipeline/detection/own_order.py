"""A pattern's own order, and whether a plan is worth making in its place.

To plan a pattern takes a millisecond or more: its statistics are estimated, and orders are compared. Over few events,
or of rare types, a mechanism has read any order by then. So the work of each pattern in its own order is told roughly,
from how many events come within a window of an event and from the share of each type, which are counted in one pass for
all patterns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from cep_pipeline.detection.chooser import route_of
from cep_pipeline.detection.costs import (
    CALL_NS,
    COLUMNAR_NS,
    CROWDED,
    PARTIAL_NS,
    PASSING,
    PASSING_EQUAL,
    PATTERN_NS,
    ROW_NS,
    SAMPLE,
    SAVED,
    SOON,
    STORING_NS,
)
from cep_pipeline.detection.counting.choice import binds_lists
from cep_pipeline.detection.mechanisms import MECHANISMS
from cep_pipeline.detection.route import Sink
from cep_pipeline.patterns.conditions import Comparator, Comparison, Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy, Window
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.planning.clause_plans import ClausePlan, PatternPlan, PlanStep, StatisticsSummary
from cep_pipeline.planning.plans import Plan
from cep_pipeline.slices.prepared import PreparedEvents, Streams
from cep_pipeline.slices.views import clause_cache_of

_MOST_VARIABLES = 12


def worth_planning(
    patterns: Sequence[Pattern], prepared: Streams, chosen: Mapping[str, str], output: str = "verbose"
) -> list[Pattern]:
    """The patterns whose plans are expected to save more time than it takes to make them.

    Parameters
    ----------
    prepared
        The events, by stream.
    chosen
        Pattern name -> its mechanism.
    output
        The form of output.
    """
    rows = max(map(len, prepared.values()), default=0)
    if rows <= SOON and not _worth(patterns, _Works(prepared, _most_powers), 0, chosen, output):
        return []
    return _worth(patterns, _Works(prepared, _powers), rows, chosen, output)


def _worth(
    patterns: Sequence[Pattern], works: _Works, rows: int, chosen: Mapping[str, str], output: str
) -> list[Pattern]:
    planned, gained_ns = [], 0.0
    for pattern in patterns:
        mechanism = chosen[pattern.name]
        columnar = MECHANISMS[mechanism].is_columnar
        if binds_lists(pattern) and not columnar:
            gain_ns = math.inf  # nobody knows
        else:
            candidates, partial_matches = works.of(pattern)
            each_ns = COLUMNAR_NS if columnar else STORING_NS
            gain_ns = SAVED * (candidates * each_ns + partial_matches * PARTIAL_NS)
        if gain_ns > PATTERN_NS and _has_orders(pattern, mechanism, output):
            planned.append(pattern)
            gained_ns += gain_ns
    return planned if gained_ns > CALL_NS + ROW_NS * rows + PATTERN_NS * len(planned) else []


def _has_orders(pattern: Pattern, mechanism: str, output: str) -> bool:
    """True if what a mechanism does for a pattern depends on the order of a plan."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH or MECHANISMS[mechanism].in_pattern_order:
        return False
    if all(len(clause.positive) == 1 for clause in pattern.clauses):
        return False
    return output != "count" or not binds_lists(pattern) or route_of(pattern, Sink.COMPRESS).lists


def own_order_plan(patterns: Sequence[Pattern]) -> Plan:
    """A plan that says nothing but the own order of each pattern."""
    planned = (
        PatternPlan(
            pattern.name,
            str(pattern.window),
            pattern.strategy.value,
            tuple(clause_cache_of(clause).once("own order", partial(_own_order, clause)) for clause in pattern.clauses),
            "trivial",
            "kernel",
            "none estimated",
        )
        for pattern in patterns
    )
    return Plan(0.0, StatisticsSummary("", "", 0, None, None), tuple(planned))


def _own_order(clause: Clause) -> ClausePlan:
    steps = (PlanStep(one.name, "", 0.0, None, 0.0, 1.0, (), 0.0, 0.0) for one in clause.positive)
    return ClausePlan(clause.index, tuple(steps), 0.0)


class _Works:
    """The rough work of patterns in their own orders over events that are prepared."""

    def __init__(self, prepared: Streams, powers: Callable[[PreparedEvents, Window, int], list[float]]) -> None:
        self._prepared, self._find_powers = prepared, powers
        self._powers: dict[tuple[int, Window, int], list[float]] = {}
        self._counts: dict[tuple[int, EventType], int] = {}

    def of(self, pattern: Pattern) -> tuple[float, float]:
        """The candidates that are tested, and the partial matches that are made."""
        events = self._prepared[pattern.type_attribute, pattern.base_type]
        candidates = partial_matches = 0.0
        for clause in pattern.clauses:
            levels = clause_cache_of(clause).once("levels", partial(_levels, clause))
            counts = [self._count(events, event_type) for event_type, _, _ in levels]
            if not all(counts) or not counts:
                continue
            if len(levels) > _MOST_VARIABLES:
                return math.inf, 0.0
            powers = self._powers_of(events, pattern.window, len(levels))
            share, made = 1.0, [0.0]
            for (_, found, passing), count, power in zip(levels, counts, powers, strict=False):
                share *= found * count / len(events)
                candidates += share * power
                share *= passing
                made.append(share * power)
            partial_matches += sum(made[:-1])
        return candidates, partial_matches

    def _count(self, events: PreparedEvents, event_type: EventType) -> int:
        key = id(events), event_type
        if key not in self._counts:
            self._counts[key] = len(events.leaf_rows(event_type))
        return self._counts[key]

    def _powers_of(self, events: PreparedEvents, window: Window, size: int) -> list[float]:
        key = id(events), window, size
        if key not in self._powers:
            self._powers[key] = self._find_powers(events, window, size)
        return self._powers[key]


def _levels(clause: Clause) -> tuple[tuple[EventType, float, float], ...]:
    """Describe each single variable of a clause in its own order: type, share looked up, share of those that pass."""
    bound: set[str] = set()
    levels = []
    for variable in clause.positive:
        if variable.kleene:
            continue  # lists are bound last, whatever the plan says
        # In a sequence events come one after another; others come before or after, and in any order.
        ordered = sum((one, variable.name) in clause.precedence for one in bound)
        found = 2 ** (ordered == 0 and bool(bound)) / max(ordered, 1)
        found *= PASSING_EQUAL if bound and clause.agree_on else 1.0
        passing = 1.0
        bound.add(variable.name)
        for one in clause.conjuncts:
            if variable.name in one.variables and one.variables <= bound and len(one.variables) > 1:
                if _is_equality(one):
                    found *= PASSING_EQUAL
                else:
                    passing *= PASSING
        levels.append((variable.event_type, found, passing))
    return tuple(levels)


def _is_equality(conjunct: Conjunct) -> bool:
    first, *others = conjunct.atoms
    return not others and isinstance(first, Comparison) and first.comparator is Comparator.EQ


def _most_powers(events: PreparedEvents, window: Window, size: int) -> list[float]:
    """Return upper bounds of `_powers`, unless some windows are very crowded."""
    total = len(events)
    if window.time_us is None:
        most = float(window.events or 1)
    else:
        most = CROWDED * total * window.time_us / max(events.span_us, 1)
    return [total * min(most, total) ** power for power in range(size)]


def _powers(events: PreparedEvents, window: Window, size: int) -> list[float]:
    """Sum for each k below a size, over all events, the k-th power of the number of events within a window of each."""
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
