"""Sharing only, SH: as many common sub-expressions as possible, whatever they cost (MCEP [0146], [0156])."""

from __future__ import annotations

from collections.abc import Sequence

from cep_pipeline.planning.multi_pattern.baselines.blocks import (
    Block,
    common_blocks,
    cover_greedily,
    plans_around,
)
from cep_pipeline.planning.multi_pattern.workload import Plans, SearchOptions, Workload


def sharing(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Share maximal common sub-expressions, and bind everything in pattern order.

    The patent does not say how sub-expressions are chosen that exclude one another: here the one comes first that saves
    the most nodes of the plan.
    """
    return plans_around(workload, cover_greedily(workload, common_blocks(workload), _nodes_saved)), 0


def _nodes_saved(blocks: Sequence[Block]) -> float:
    return (len(blocks) - 1) * (len(blocks[0].places) - 1) if blocks else 0.0
