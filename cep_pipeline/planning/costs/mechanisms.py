"""The time that mechanisms are expected to take, by constants that `cep bench choice` measures.

A mechanism is called, prepares each pattern, reads events, tests candidates, makes partial matches and writes matches
in some form of output. How much of that there is a plan says; what a unit of it costs each mechanism is measured. So
mechanisms are compared by time, where cost models compare plans of one mechanism. What it takes to make a plan is
measured, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from cep_pipeline.planning.clause_plans import ClausePlan, PatternPlan, PlanNode, PlanStep, StatisticsSummary
from cep_pipeline.planning.trees import Join, Tree, leaves_of

CONSTANTS_FILE = "mechanism_costs.json"
WORK = ("call", "row", "pattern", "event", "candidate", "partial", "match")
"""Units of work: to be called for some patterns, to check an event of the table, to prepare a pattern, to read an event
of its types, to test a candidate, to make a partial match, to find and write a match."""
PLANNING = ("call", "row", "pattern")
"""Units of planning: to estimate any statistics, to read an event of the table, to estimate and to plan a pattern."""
_MOST_LN, _LEAST = 100.0, 1e-12


@dataclass(frozen=True)
class MechanismCosts:
    """Nanoseconds of one core.

    Attributes
    ----------
    by_mechanism
        Mechanism -> form of output -> the cost of a unit of each kind of `WORK`.
    planning
        The cost of a unit of each kind of `PLANNING`.
    measured_on
        The machine, and the date.
    """

    by_mechanism: Mapping[str, Mapping[str, tuple[float, ...]]]
    planning: tuple[float, ...]
    measured_on: str = ""

    def expected_s(self, mechanism: str, work: Sequence[float]) -> float | None:
        """The seconds that a mechanism is expected to take to list all matches; None where it was not measured."""
        return self.seconds(mechanism, work) if mechanism in self.by_mechanism else None

    def seconds(self, mechanism: str, work: Sequence[float], output: str = "verbose") -> float:
        """The seconds that a measured mechanism is expected to take."""
        return sum(map(float.__mul__, self.by_mechanism[mechanism][output], map(float, work))) * 1e-9

    def planning_s(self, patterns: int, events: int) -> float:
        """The seconds that it is expected to take to estimate statistics of events and to plan patterns."""
        call, row, pattern = self.planning
        return (call + row * events + pattern * patterns) * 1e-9


@cache
def mechanism_costs() -> MechanismCosts:
    """The constants of the package."""
    text = (files("cep_pipeline.planning.costs") / CONSTANTS_FILE).read_text(encoding="utf-8")
    content: Mapping[str, Any] = json.loads(text)
    found = {
        name: {output: tuple(float(costs[unit]) for unit in WORK) for output, costs in outputs.items()}
        for name, outputs in content["mechanisms"].items()
    }
    return MechanismCosts(found, tuple(float(content["planning"][unit]) for unit in PLANNING), content["measured_on"])


def expected_work(plan: PatternPlan, statistics: StatisticsSummary) -> tuple[float, ...]:
    """The work of a plan over the events of its statistics, by `WORK`.

    Negated events, and lists one by one, are not counted.
    """
    windows = statistics.events / plan.events_in_window if plan.events_in_window else 1.0
    span_s = max((statistics.end_us or 0) - (statistics.start_us or 0), 1) / 1e6
    events = candidates = partial = matches = 0.0
    for clause in plan.clauses:
        events += sum(span_s * step.rate_per_s for step in clause.steps)
        own = _work_of_clause(clause, min(windows, 1.0))
        candidates, partial, matches = candidates + own[0], partial + own[1], matches + own[2]
    return 1.0, statistics.events, 1.0, events, candidates * windows, partial * windows, matches * windows


def _work_of_clause(clause: ClausePlan, filled: float) -> tuple[float, float, float]:
    """Candidates, partial matches and matches while the time of one window passes.

    Parameters
    ----------
    filled
        The share of a window that events fill, 1 but where they end sooner: so many are within reach of each one.
    """
    if clause.tree is None:
        first, *others = clause.steps
        candidates, made, before = 0.0, [_number(first.ln_made)], first.ln_made
        for place, step in enumerate(others, 1):
            found = before + step.ln_instances + math.log(step.order_share * _looked_up(step))
            candidates += _number(found) * filled**place
            made.append(_number(step.ln_made) * filled**place)
            before = step.ln_made
        return candidates, sum(made[:-1]), made[-1]
    expected = clause.expected
    candidates = 0.0
    made = []
    waiting: list[Tree] = [clause.tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Join) or leaves_of(node) not in expected:
            continue
        sides = [expected[leaves_of(side)] for side in (node.left, node.right)]
        reached = filled ** (len(leaves_of(node)) - 1)
        share = math.log(expected[leaves_of(node)].order_share * _looked_up(expected[leaves_of(node)]))
        candidates += reached * sum(
            _number(one.ln_made + other.ln_partial_matches + share - math.log(2))
            for one, other in (sides, reversed(sides))
        )
        made.append(_number(expected[leaves_of(node)].ln_made) * reached)
        waiting += [node.left, node.right]
    return candidates, sum(made[1:]), made[0] if made else 0.0


def _looked_up(expected: PlanStep | PlanNode) -> float:
    """The share of the combinations that agree on attributes; no others are tested."""
    shares = (one.selectivity.value for one in expected.conditions if one.agreement)
    return max(math.prod(shares), _LEAST)


def _number(ln: float) -> float:
    return math.exp(min(ln, _MOST_LN))
