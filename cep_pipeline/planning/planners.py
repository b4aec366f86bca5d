"""The planners by name."""

from __future__ import annotations

from cep_pipeline.errors import InputError
from cep_pipeline.planning.dp_left_deep import dp_left_deep_order
from cep_pipeline.planning.event_frequency import event_frequency_order
from cep_pipeline.planning.greedy import greedy_order
from cep_pipeline.planning.ordering import Planner
from cep_pipeline.planning.trivial import trivial_order

PLANNERS: dict[str, Planner] = {
    "trivial": trivial_order,
    "event_frequency": event_frequency_order,
    "greedy": greedy_order,
    "dp_left_deep": dp_left_deep_order,
}

TREE_PLANNERS: frozenset[str] = frozenset()
"""The planners that make trees."""

MAX_COMPARED_VARIABLES = {"dp_left_deep": 14}
"""Above this size a planner is not run merely to be compared with the one that was asked for."""


def planner_named(name: str) -> Planner:
    """The planner of this name; InputError lists the known ones otherwise."""
    if name not in PLANNERS:
        raise InputError(f"there is no planner {name!r}; there are: {', '.join(PLANNERS)}")
    return PLANNERS[name]
