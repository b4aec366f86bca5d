"""The time that mechanisms are expected to take for a plan, by constants that `cep bench choice` measures.

A mechanism prepares each pattern, reads events, tests candidates and makes partial matches. How much of that there is
the plan says; what a unit of it costs each mechanism is measured. So mechanisms are compared by time, where cost models
compare plans of one mechanism.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from cep_pipeline.planning.clause_plans import ClausePlan, PatternPlan, StatisticsSummary
from cep_pipeline.planning.trees import Join, Tree, leaves_of

CONSTANTS_FILE = "mechanism_costs.json"
WORK = ("pattern", "event", "candidate", "made")
"""Units of work: to prepare a pattern, to read an event of its types, to test a candidate, to make a partial match."""
_MOST_LN = 100.0


@dataclass(frozen=True)
class MechanismCosts:
    """Nanoseconds of one core for a unit of each kind of work, by mechanism."""

    by_mechanism: Mapping[str, tuple[float, ...]]
    measured_on: str = ""

    def expected_s(self, mechanism: str, work: tuple[float, ...]) -> float | None:
        """The seconds that a mechanism is expected to take; None where it was not measured."""
        costs = self.by_mechanism.get(mechanism)
        return None if costs is None else sum(map(float.__mul__, costs, work)) * 1e-9


@cache
def mechanism_costs() -> MechanismCosts:
    """The constants of the package."""
    text = (files("cep_pipeline.planning.costs") / CONSTANTS_FILE).read_text(encoding="utf-8")
    content: Mapping[str, Any] = json.loads(text)
    found = {name: tuple(float(one[unit]) for unit in WORK) for name, one in content["mechanisms"].items()}
    return MechanismCosts(found, content["measured_on"])


def expected_work(plan: PatternPlan, statistics: StatisticsSummary) -> tuple[float, ...]:
    """The work of a plan over the events of its statistics, by `WORK`.

    Negated events, and lists one by one, are not counted.
    """
    windows = statistics.events / plan.events_in_window if plan.events_in_window else 1.0
    span_s = max((statistics.end_us or 0) - (statistics.start_us or 0), 1) / 1e6
    work = [1.0, 0.0, 0.0, 0.0]
    for clause in plan.clauses:
        work[1] += sum(span_s * step.rate_per_s for step in clause.steps)
        candidates, made = _work_of_clause(clause)
        work[2] += candidates * windows
        work[3] += made * windows
    return tuple(work)


def _work_of_clause(clause: ClausePlan) -> tuple[float, float]:
    """Candidates and partial matches while the time of one window passes."""
    if clause.tree is None:
        first, *others = clause.steps
        candidates, made, before = 0.0, 0.0, first.ln_made
        for step in others:
            candidates += _number(before + step.ln_instances + math.log(step.order_share))
            made += _number(step.ln_made)
            before = step.ln_made
        return candidates, made
    expected = clause.expected
    candidates = made = 0.0
    waiting: list[Tree] = [clause.tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Join) or leaves_of(node) not in expected:
            continue
        sides = [expected[leaves_of(side)] for side in (node.left, node.right)]
        share = math.log(expected[leaves_of(node)].order_share)
        candidates += sum(
            _number(one.ln_made + other.ln_partial_matches + share - math.log(2))
            for one, other in (sides, reversed(sides))
        )
        made += _number(expected[leaves_of(node)].ln_made)
        waiting += [node.left, node.right]
    return candidates, made


def _number(ln: float) -> float:
    return math.exp(min(ln, _MOST_LN))
