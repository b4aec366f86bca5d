"""A planner for a test, whose plan the test gives."""

from __future__ import annotations

import pytest

from cep_pipeline.planning import make_plan, planners
from cep_pipeline.planning.orderings import Planner

QUICK = ("trivial", "event_frequency", "greedy", "dp_left_deep")
"""The planners beside the one that is given."""


def give(monkeypatch: pytest.MonkeyPatch, planner: Planner, *, makes_trees: bool = False) -> str:
    """Let there be this planner, beside the quick ones only; its name."""
    known = {name: planners.PLANNERS[name] for name in QUICK} | {"given": planner}
    trees = frozenset({"given"}) if makes_trees else frozenset()
    for module in (planners, make_plan):
        monkeypatch.setattr(module, "PLANNERS", known)
        monkeypatch.setattr(module, "TREE_PLANNERS", trees)
    return "given"
