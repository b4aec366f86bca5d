"""A pattern's own order, and whether a plan is worth making in its place.

To plan a pattern takes a millisecond or more: its statistics are estimated, and orders are compared. Over few events,
or of rare types, a mechanism has read any order by then. So the work of each pattern is told roughly, from the number
of events of each type and the share of the stream that a window is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from cep_pipeline.detection.chooser import route_of
from cep_pipeline.detection.clause_runs import ClauseSlice
from cep_pipeline.detection.costs import CALL_NS, CANDIDATE_NS, CROWDED, PATTERN_NS, ROW_NS, SAVED, candidates_of
from cep_pipeline.detection.counting.choice import binds_lists
from cep_pipeline.detection.mechanisms import MECHANISMS
from cep_pipeline.detection.route import Sink
from cep_pipeline.patterns.normal_form import Clause
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.planning.clause_plans import ClausePlan, PatternPlan, PlanStep, StatisticsSummary
from cep_pipeline.planning.plans import Plan
from cep_pipeline.slices.prepared import PreparedEvents, Streams
from cep_pipeline.slices.views import clause_cache_of


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
    planned, saved_ns = [], 0.0
    for pattern in patterns:
        of_stream = prepared[pattern.type_attribute, pattern.base_type]
        gain_ns = SAVED * _finding_ns(pattern, of_stream, chosen[pattern.name])
        if gain_ns > PATTERN_NS and _has_orders(pattern, chosen[pattern.name], output):
            planned.append(pattern)
            saved_ns += gain_ns
    return planned if saved_ns > CALL_NS + ROW_NS * rows + PATTERN_NS * len(planned) else []


def _finding_ns(pattern: Pattern, events: PreparedEvents, mechanism: str) -> float:
    """The time to find the matches of a pattern in its own order, where windows are crowded."""
    if binds_lists(pattern) and not MECHANISMS[mechanism].is_columnar:
        return math.inf  # nobody knows
    found = 0.0
    for clause in pattern.clauses:
        sizes = {one.name: len(events.leaf_rows(one.event_type)) for one in clause.positive if not one.kleene}
        found += candidates_of(ClauseSlice(pattern, clause, events), 1, sizes, crowding=CROWDED) * CANDIDATE_NS
    return found


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
