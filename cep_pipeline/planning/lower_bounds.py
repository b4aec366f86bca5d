"""What no plan of a clause can cost less than, so that one that was not found exactly can say how far it may be off."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import CostModel
from cep_pipeline.planning.costs.model import Array
from cep_pipeline.planning.costs.throughput import PARTIAL_MATCHES
from cep_pipeline.planning.logarithms import ln_sum


def ln_least_order(statistics: ClauseStatistics, cost: CostModel) -> float:
    """ln of a bound that no order is cheaper than: for each step the least node of its size."""
    return ln_sum(_ln_least_nodes(statistics, cost)[1:].tolist())


def ln_least_tree(statistics: ClauseStatistics, cost: CostModel) -> float:
    """ln of a bound that no tree is cheaper than: its leaves, its root, a join of two leaves, and the least others."""
    size = statistics.size
    least = _ln_least_nodes(statistics, cost)
    parts = cost.node.of(statistics, np.eye(size, dtype=bool)).tolist()
    if size > 1:
        parts.append(float(least[size]))
    if size > 2:
        parts.append(float(least[2]))
    if size > 3:
        parts.append(float(least[2:size].min()) + math.log(size - 3))
    return ln_sum(parts)


def _ln_least_nodes(statistics: ClauseStatistics, cost: CostModel) -> Array:
    """ln of what a node of k variables costs at least, by k: float64 of shape (n + 1,)."""
    size = statistics.size
    least = np.full(size + 1, -np.inf)
    if cost.node is PARTIAL_MATCHES:
        # Each variable with its share of all conditions that it is in, whether or not their other variables are there.
        alone = np.array(statistics.ln_instances)
        for positions, factor in statistics.factors:
            alone[list(positions)] += min(factor, 0.0) / len(positions)
        for agreement in statistics.agreements:
            alone += np.array(agreement.ln_selectivities).min(axis=1)
        least[1:] = np.cumsum(np.sort(alone))
        if statistics.sequences:
            least[1:] -= [math.lgamma(count + 1) for count in range(1, size + 1)]
    for count in {1, 2, size - 1, size} & set(range(1, size + 1)):
        rows = list(combinations(range(size), min(count, size - count)))
        members = np.zeros((len(rows), size), dtype=bool)
        members[np.arange(len(rows))[:, None], np.array(rows, dtype=np.int64).reshape(len(rows), -1)] = True
        least[count] = cost.node.of(statistics, members if count <= size - count else ~members).min()
    return least
