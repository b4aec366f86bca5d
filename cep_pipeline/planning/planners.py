"""The planners by name."""

from __future__ import annotations

from cep_pipeline.errors import InputError
from cep_pipeline.planning.algorithms.dp_bushy import dp_bushy_tree
from cep_pipeline.planning.algorithms.dp_left_deep import dp_left_deep_order
from cep_pipeline.planning.algorithms.event_frequency import event_frequency_order
from cep_pipeline.planning.algorithms.greedy import greedy_order
from cep_pipeline.planning.algorithms.iterative_improvement import ii_greedy_order, ii_random_order
from cep_pipeline.planning.algorithms.trivial import trivial_order
from cep_pipeline.planning.algorithms.zstream import zstream_tree
from cep_pipeline.planning.algorithms.zstream_ordered import zstream_ordered_tree
from cep_pipeline.planning.orderings import Planner

PLANNERS: dict[str, Planner] = {
    "trivial": trivial_order,
    "event_frequency": event_frequency_order,
    "greedy": greedy_order,
    "ii_random": ii_random_order,
    "ii_greedy": ii_greedy_order,
    "dp_left_deep": dp_left_deep_order,
    "zstream": zstream_tree,
    "zstream_ordered": zstream_ordered_tree,
    "dp_bushy": dp_bushy_tree,
}
"""The planners of one pattern, by name; `plan` takes a name of them."""

MULTI_PATTERN_PLANNER_NAMES = (
    "simulated_annealing",
    "tabu",
    "none",
    "sharing",
    "reordering",
    "redundancy_ratio",
    "merge_decomposition",
)
"""The planners of many patterns together, by name: `planning.multi_pattern.planners` has them."""

LOCAL_SEARCHES: frozenset[str] = frozenset({"simulated_annealing", "tabu"})
"""Those of them that search for as long as they may; the others are done when they are done."""

TREE_PLANNERS: frozenset[str] = frozenset({"zstream", "zstream_ordered", "dp_bushy"})
"""The planners that make trees."""

_LOCAL_SEARCH = "local search improves whole orders: none of its comparisons is of one block"
_KEPT = "the pattern's order is kept whatever the statistics"
_TOGETHER = "the plans of all patterns together decided, not a comparison of blocks"
WITHOUT_INVARIANTS = {
    "trivial": _KEPT,
    "none": _KEPT,
    "sharing": _KEPT,
    "ii_random": _LOCAL_SEARCH,
    "ii_greedy": _LOCAL_SEARCH,
    "reordering": _TOGETHER,
    "redundancy_ratio": _TOGETHER,
    "merge_decomposition": _TOGETHER,
}
"""The planners whose plans have no invariants, and why: they record no deciding comparisons."""

MAX_COMPARED_VARIABLES = {
    "ii_random": 14,
    "ii_greedy": 14,
    "dp_left_deep": 16,
    "zstream": 40,
    "zstream_ordered": 40,
    "dp_bushy": 14,
}
"""Above this size a planner is not run merely to be compared with the one that was asked for: up to it, it takes a few
hundredths of a second."""


def check_planner(name: str) -> None:
    """Refuse a name that is no planner's, of one pattern or of many; InputError lists the known ones."""
    if name not in MULTI_PATTERN_PLANNER_NAMES:
        planner_named(name)


def planner_named(name: str) -> Planner:
    """The planner of this name, of one pattern; InputError lists the known ones otherwise."""
    if name in MULTI_PATTERN_PLANNER_NAMES:
        raise InputError(f"planner {name!r} plans many patterns together; of one there are: {', '.join(PLANNERS)}")
    if name not in PLANNERS:
        known = ", ".join((*PLANNERS, *MULTI_PATTERN_PLANNER_NAMES))
        raise InputError(f"there is no planner {name!r}; there are: {known}")
    return PLANNERS[name]
