"""A planner for a test, whose plan the test gives."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count

import pytest

from cep_pipeline.planning import make_plan, planned_clauses, planners

QUICK = ("trivial", "event_frequency", "greedy", "dp_left_deep")
"""The planners beside the one that is given."""


_NUMBERS = count()


def give(monkeypatch: pytest.MonkeyPatch, function: Callable[..., object], *, makes_trees: bool = False) -> str:
    """Let there be this planner, beside the quick ones only; its name."""
    known = {name: planners.PLANNERS[name] for name in QUICK}
    name = f"planner_{next(_NUMBERS)}"  # a planner is remembered by its name
    monkeypatch.setattr(sys.modules[__name__], name, function, raising=False)
    known["given"] = planners.Planner("given", "the plan of a test", f"{__name__}:{name}", makes_trees=makes_trees)
    for module in (planners, make_plan, planned_clauses):
        monkeypatch.setattr(module, "PLANNERS", known)
    return "given"
