"""The cost under CONSUME MATCHED: an event is in one match only, so that the rarest bounds their number (JQPG 6.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cep_pipeline.planning.costs.model import Array, CostModel, SetSum, SetTerm
from cep_pipeline.planning.numbers.cardinality import (
    ln_partial_matches,
    ln_partial_matches_of_all,
    ln_partial_matches_of_some,
)
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics


def ln_matches_alive(statistics: ClauseStatistics, positions: Sequence[int]) -> float:
    """ln of m[S] = W min(r_i) times the selectivities within S: what of PM(S) is left where events are consumed."""
    instances = [statistics.ln_instances[position] for position in positions]
    return ln_partial_matches(statistics, positions) - sum(instances) + min(instances, default=0.0)


def ln_matches_alive_of_all(statistics: ClauseStatistics) -> Array:
    """The same of every set: float64, shape (2^n,), by the bits of the set."""
    table = ln_partial_matches_of_all(statistics)
    total, rarest = np.zeros(1), np.full(1, np.inf)
    for instances in statistics.ln_instances:
        total = np.concatenate((total, total + instances))
        rarest = np.concatenate((rarest, np.minimum(rarest, instances)))
    rarest[0] = 0.0
    table -= total
    table += rarest
    return table


def ln_matches_alive_of_some(statistics: ClauseStatistics, members: Array) -> Array:
    """The same of some sets: float64, shape (m,), for bools of shape (m, n)."""
    instances = np.array(statistics.ln_instances)
    rarest = np.where(members, instances, np.inf).min(axis=1)
    total = np.where(members, instances, 0.0).sum(axis=1)
    return np.asarray(ln_partial_matches_of_some(statistics, members) - total + rarest)


CONSUME_MATCHED = CostModel(
    name="consume_matched",
    unit="partial matches alive in a window, each event in one match",
    node=SetTerm(ln_matches_alive, ln_matches_alive_of_all, ln_matches_alive_of_some, lambda: SetSum(rarest=True)),
)
"""Cost(O) = sum over k of m[k], Cost(T) = the same over the nodes; the paper's further factor W decides nothing."""
