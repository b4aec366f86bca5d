"""The latency cost: what has to be looked through once the last event of a match has come (JQPG section 6.1).

For an order these are the buffered events of the variables that it binds after the last one, W r of each; for a tree
the partial matches that the siblings hold on the way from the last one's leaf to the root. Which variable is the last
says the temporal order, and where it leaves that open the output profile, `ClauseStatistics.last`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cep_pipeline.planning.costs.model import Array, CostModel, SetSum, SetTerm
from cep_pipeline.planning.costs.throughput import PARTIAL_MATCHES
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics


def _ln_one(statistics: ClauseStatistics, positions: Sequence[int]) -> float:
    return 0.0


def _ln_one_of_all(statistics: ClauseStatistics) -> Array:
    return np.zeros(1 << statistics.size)


def _nothing() -> SetSum:
    return SetSum(instances=False, equalities=False, tested=False, joints=False, together=False)


def _ln_one_of_some(statistics: ClauseStatistics, members: Array) -> Array:
    return np.zeros(len(members))


LATENCY = CostModel(
    name="latency",
    unit="partial matches looked through after the last event, and one a step",
    node=SetTerm(_ln_one, _ln_one_of_all, _ln_one_of_some, _nothing),
    delay=PARTIAL_MATCHES,
    alpha=1.0,
)
"""Latency alone. One for each step or node, the same for all plans, keeps its logarithm finite where nothing waits."""


def with_latency(model: CostModel, alpha: float) -> CostModel:
    """Cost(plan) = Cost of the model(plan) + alpha * Cost of latency(plan)."""
    return replace(model, delay=PARTIAL_MATCHES, alpha=alpha) if alpha > 0 else model
