"""The mechanism of each pattern, and whether to plan it, chosen together by the time that all of it takes.

To plan a pattern takes a millisecond or more: its statistics are estimated, and orders are compared. Over few events,
or of rare types, the kernel has read any order by then. To call a mechanism that shares its work between patterns may
cost less than to prepare the kernel for each of them. So the work of each pattern in its own order is told roughly,
from how many events come within a window of an event and from the share of each type, which are counted in one pass for
all patterns. `planning.costs.mechanisms` says what that work costs each mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cep_pipeline.detection.known_events import Streams
from cep_pipeline.detection.mechanisms import MECHANISMS
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.outputs import binds_lists, listed_because
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Comparator, Comparison, Conjunct
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy, Window
from cep_pipeline.patterns.structure import EventType
from cep_pipeline.planning.clause_plans import ClausePlan, PatternPlan, PlanStep, StatisticsSummary
from cep_pipeline.planning.costs.mechanisms import WORK, MechanismCosts, mechanism_costs
from cep_pipeline.planning.plans import Plan
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.views import clause_cache_of

SAMPLE = 256
"""Events that are looked at."""
SOON, CROWDED = 1 << 15, 10
"""A slice of so few events is run without counting its windows if `CROWDED` times the average in each is cheap."""
PASSING, PASSING_EQUAL = 0.5, 0.1
"""The shares that are taken to pass a condition of which nothing is known: a comparison, and an equality, by which
events are looked up."""
SAVED = 0.5
"""The share of what orders decide about that a plan is taken to save."""
LOADING_S = 0.1
"""Seconds that it takes to load a mechanism which has not been used yet."""
RISK = 1.5
"""Another mechanism than the fastest one may take so many times its time if all conditions were fulfilled."""
_MOST_VARIABLES = 12
_CALL, _PATTERN, _CANDIDATE, _PARTIAL = map(WORK.index, ("call", "pattern", "candidate", "partial"))


@dataclass(frozen=True)
class Chosen:
    """The mechanism of each pattern by its name, and the patterns that are worth planning."""

    mechanisms: Mapping[str, str]
    planned: Sequence[Pattern]


def choose(
    patterns: Sequence[Pattern],
    prepared: Streams,
    chosen: Mapping[str, str],
    output: str = "verbose",
    *,
    any_mechanism: bool = False,
) -> Chosen:
    """Choose whether to plan patterns, and which mechanisms run them.

    Parameters
    ----------
    prepared
        The events, by stream.
    chosen
        The fastest mechanism that runs each pattern, or the one that was asked for.
    output
        The form of output.
    any_mechanism
        Whether other mechanisms may be chosen than these.
    """
    costs, rows = mechanism_costs(), max(map(len, prepared.values()), default=0)
    others_may_pay = any_mechanism and _may_pay(chosen, output, costs)
    if rows <= SOON and not others_may_pay:
        most = list(map(_Works(prepared, _most_powers).of, patterns))
        if not _worth_planning(patterns, most, 0, chosen, output, costs):
            return Chosen(chosen, [])
    rough = list(map(_Works(prepared, _powers).of, patterns))
    if others_may_pay:
        chosen = _mechanisms(patterns, np.array(rough), chosen, output, costs)
    return Chosen(chosen, _worth_planning(patterns, rough, rows, chosen, output, costs))


def _worth_planning(
    patterns: Sequence[Pattern],
    rough: Sequence[Sequence[Sequence[float]]],
    rows: int,
    chosen: Mapping[str, str],
    output: str,
    costs: MechanismCosts,
) -> list[Pattern]:
    """The patterns whose plans are expected to save more time than it takes to make them."""
    each_s = costs.planning_s(1, 0) - costs.planning_s(0, 0)
    planned, gained_s = [], 0.0
    for pattern, (work, _) in zip(patterns, rough, strict=True):
        mechanism = chosen[pattern.name]
        per_unit = costs.by_mechanism.get(mechanism, {}).get(output)
        if per_unit is None or (binds_lists(pattern) and not MECHANISMS[mechanism].is_columnar):
            gain_s = math.inf  # nobody knows
        else:
            gain_s = SAVED * (work[_CANDIDATE] * per_unit[_CANDIDATE] + work[_PARTIAL] * per_unit[_PARTIAL]) * 1e-9
        if gain_s > each_s and _has_orders(pattern, mechanism, output):
            planned.append(pattern)
            gained_s += gain_s
    return planned if gained_s > costs.planning_s(len(planned), rows) else []


def _has_orders(pattern: Pattern, mechanism: str, output: str) -> bool:
    """True if what a mechanism does for a pattern depends on the order of a plan."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH or MECHANISMS[mechanism].in_pattern_order:
        return False
    if all(len(clause.positive) == 1 for clause in pattern.clauses):
        return False
    return output != "count" or not binds_lists(pattern) or listed_because(pattern) is not None


def _may_pay(chosen: Mapping[str, str], output: str, costs: MechanismCosts) -> bool:
    """True if another mechanism is called for so many patterns, and prepares them, sooner than their fastest ones."""
    before_s = {}
    for name, outputs in costs.by_mechanism.items():
        call, pattern = (outputs[output][unit] for unit in (_CALL, _PATTERN))
        loading_s = 0.0 if MECHANISMS.is_loaded(name) else LOADING_S
        before_s[name] = (call + pattern * len(chosen)) * 1e-9 + loading_s
    own = {name for name in set(chosen.values()) if name in before_s}
    return bool(own) and min(before_s.values()) < min(before_s[name] for name in own)


def _mechanisms(
    patterns: Sequence[Pattern], rough: Array, chosen: Mapping[str, str], output: str, costs: MechanismCosts
) -> Mapping[str, str]:
    """The mechanisms that take the least time together: one for all patterns, or for each pattern its own.

    Parameters
    ----------
    rough
        Shape (patterns, 2, kinds of work): the work of each pattern as expected, and where all conditions hold.
    """
    names = list(costs.by_mechanism)
    free = [n for n, one in enumerate(patterns) if may_have_another(one) and chosen[one.name] in names]
    if not free:
        return chosen
    per_unit_s = np.array([own[output] for own in costs.by_mechanism.values()]).T * 1e-9
    expected, at_worst = rough[free, 0] @ per_unit_s, rough[free, 1] @ per_unit_s
    calls = per_unit_s[_CALL] + [0.0 if MECHANISMS.is_loaded(name) else LOADING_S for name in names]
    own = np.array([names.index(chosen[patterns[n].name]) for n in free])

    def seconds(places: Array, of: Array) -> float:
        return float(of[np.arange(len(of)), places].sum() + calls[np.unique(places)].sum())

    together = int((expected.sum(axis=0) + calls).argmin())
    ways = [own, np.full(len(free), together), expected.argmin(axis=1)]
    best = min(ways, key=lambda places: seconds(places, expected))
    # What is stored may be much more than it is taken to be.
    if seconds(best, at_worst) > RISK * seconds(own, at_worst):
        return chosen
    found = dict(chosen)
    for n, place in zip(free, best.tolist(), strict=True):
        if MECHANISMS[names[place]].unsupported_feature(patterns[n]) is None:
            found[patterns[n].name] = names[place]
    return found


def may_have_another(pattern: Pattern) -> bool:
    """True if the costs describe what mechanisms do for a pattern: it binds single events, and nothing is dropped."""
    if pattern.strategy is not Strategy.SKIP_TILL_ANY_MATCH or has_output_policy(pattern):
        return False
    if binds_lists(pattern) or pattern.summary is not None:
        return False
    return not any(clause.negations for clause in pattern.clauses)


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

    def of(self, pattern: Pattern) -> list[list[float]]:
        """The work of a pattern by `WORK`: as it is expected, and where all conditions are fulfilled."""
        events = self._prepared[pattern.type_attribute, pattern.base_type]
        read, expected, at_worst = 0, [0.0] * 3, [0.0] * 3
        for clause in pattern.clauses:
            levels = clause_cache_of(clause).once("levels", partial(_levels, clause))
            counts = [self._count(events, event_type) for event_type, _, _ in levels]
            read += sum(counts)
            if not all(counts) or not counts:
                continue
            if len(levels) > _MOST_VARIABLES:
                expected[0] = at_worst[0] = math.inf
                continue
            powers = self._powers_of(events, pattern.window, len(levels))
            share = share_at_worst = 1.0
            for (_, found, passing), count, power in zip(levels, counts, powers, strict=False):
                share *= found * count / len(events)
                share_at_worst *= found * count / len(events)
                expected[0] += share * power
                at_worst[0] += share_at_worst * power
                share *= passing
                expected[1] += share * power
                at_worst[1] += share_at_worst * power
            for work, matches in ((expected, share * power), (at_worst, share_at_worst * power)):
                work[1] -= matches
                work[2] += matches
        return [[0.0, 0.0, 1.0, read, *expected], [0.0, 0.0, 1.0, read, *at_worst]]

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
