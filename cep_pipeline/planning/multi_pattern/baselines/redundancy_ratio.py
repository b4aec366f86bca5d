"""Redundancy ratio, SPASS (MCEP [0147]; Ray et al., SIGMOD 2016)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep_pipeline.planning.multi_pattern.baselines.blocks import (
    Block,
    common_blocks,
    cover_greedily,
    planned_together,
    plans_around,
)
from cep_pipeline.planning.multi_pattern.workload import Plans, SearchOptions, Workload
from cep_pipeline.planning.numbers.cardinality import mask_of


def redundancy_ratio(workload: Workload, options: SearchOptions) -> tuple[Plans, int]:
    """Share the substrings of patterns whose computation would be repeated most often; bind all in pattern order.

    Of the method the patent says that each sub-expression has a score, the redundancy ratio, which "represents the
    potential gain in sharing its computation", and that "the winners are chosen by approximating the well-known minimal
    substring cover problem". Chosen here: sub-expressions are variables that follow one another in each of the
    patterns; the ratio is that of what it would cost the patterns apart to what it costs once; and the cover is
    approximated greedily, the highest ratio times the variables covered first.
    """
    scored = BlockCosts(workload)
    groups = [tuple(block for block in group if block.contiguous) for group in common_blocks(workload)]

    def score(blocks: Sequence[Block]) -> float:
        covered = sum(len(block.places) for block in blocks)
        return scored.ratio(blocks) * covered if len(blocks) > 1 else 0.0

    chosen = cover_greedily(workload, [group for group in groups if len(group) > 1], score)
    return plans_around(workload, chosen), 0


class BlockCosts:
    """What blocks cost: the steps by which their variables are bound one after another."""

    def __init__(self, workload: Workload) -> None:
        self._members = planned_together(workload)
        local = [workload.local[member.id] for member in self._members]
        ln_scale = max((plans.ln_least for plans in local), default=0.0)
        self._costs = [plans.costs(ln_scale) for plans in local]

    def cost(self, block: Block) -> float:
        """What a block costs its member alone, without its single variables."""
        costs = self._costs[block.member]
        places = block.places
        steps = ((mask_of(places[: step + 1]), 1 << places[step]) for step in range(1, len(places)))
        return float(np.sum([costs.joined(reached, added) for reached, added in steps]))

    def ratio(self, blocks: Sequence[Block]) -> float:
        """How many times what blocks cost in one node is what they cost apart."""
        apart = [self.cost(block) for block in blocks]
        windows = [self._members[block.member].window for block in blocks]
        once = max(cost for cost, window in zip(apart, windows, strict=True) if window == max(windows))
        return sum(apart) / once if once > 0 else float(len(blocks))
