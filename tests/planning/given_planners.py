"""A planner for a test, whose plan the test gives."""

from __future__ import annotations

import pytest

from cep_pipeline.planning import make_plan, planned_clauses, planners
from cep_pipeline.planning.explain import compare
from cep_pipeline.planning.orderings import PlannerFunction

QUICK = ("trivial", "event_frequency", "greedy", "dp_left_deep")
"""The planners beside the one that is given."""


def give(monkeypatch: pytest.MonkeyPatch, function: PlannerFunction, *, makes_trees: bool = False) -> str:
    """Let there be this planner, beside the quick ones only; its name."""
    known = {name: planners.PLANNERS[name] for name in QUICK}
    known["given"] = planners.Planner("given", "the plan of a test", function, makes_trees=makes_trees)
    for module in (planners, make_plan, planned_clauses, compare):
        monkeypatch.setattr(module, "PLANNERS", known)
    return "given"
