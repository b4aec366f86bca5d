"""The planners of many patterns by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from cep_pipeline.planning.multi_pattern.baselines.merge_decomposition import merge_decomposition
from cep_pipeline.planning.multi_pattern.baselines.none import none
from cep_pipeline.planning.multi_pattern.baselines.redundancy_ratio import redundancy_ratio
from cep_pipeline.planning.multi_pattern.baselines.reordering import reordering
from cep_pipeline.planning.multi_pattern.baselines.sharing import sharing
from cep_pipeline.planning.multi_pattern.simulated_annealing import simulated_annealing
from cep_pipeline.planning.multi_pattern.tabu import tabu
from cep_pipeline.planning.multi_pattern.workload import Plans, SearchOptions, Workload

MultiPatternPlanner: TypeAlias = Callable[[Workload, SearchOptions], tuple[Plans, int]]
"""The order or tree of each member, and the number of steps of its search."""

UNSHARED: frozenset[str] = frozenset({"none", "reordering"})
"""Those whose plans share nothing."""

MULTI_PATTERN_PLANNERS: dict[str, MultiPatternPlanner] = {
    "simulated_annealing": simulated_annealing,
    "tabu": tabu,
    "none": none,
    "sharing": sharing,
    "reordering": reordering,
    "redundancy_ratio": redundancy_ratio,
    "merge_decomposition": merge_decomposition,
}
"""The local searches, and what they are measured against."""
