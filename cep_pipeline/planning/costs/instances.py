"""The cost of instances: nanoseconds that mechanisms which keep instances take while the time of one window passes.

The lazy chain NFA and the evaluation tree keep their partial matches, and test each against what comes, or has come, of
the other side. So their work is counted by

- candidates: k Q(S) P(L) P(R) of them are tested where L and R meet in S, with Q(S) the combinations of one instance of
  each of S that are in window and order and are equal in what conditions ask to be equal, and P(S) the share of them
  that pass the other conditions among S;
- partial matches: k PM(S) of them are made, with k = |S|: of n proportional to W^k, dn/dW are made in each unit of
  time.

The throughput cost counts those that are alive, and no tests. Where selectivities are alike the two agree in which of
two plans is the better one; where they differ much, a join of two frequent sides that hardly anything passes costs
nothing there, and much here: of random trees of six events with selectivities from 0.03 to 0.4 the rank correlation of
measured times with this cost was 0.95, with the throughput cost -0.18.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from cep_pipeline.planning.costs.model import Array, CostModel, SetSum, SetTerm
from cep_pipeline.planning.numbers.cardinality import (
    ln_partial_matches,
    ln_partial_matches_of_all,
    ln_partial_matches_of_some,
)
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics

CANDIDATE_NS = 25.0
"""Nanoseconds to test a candidate, of chain and tree alike: least squares over 48 random orders and trees."""
PARTIAL_MATCH_NS = 55.0
"""Nanoseconds to make a partial match, by the same."""


def _term(of: Callable[[ClauseStatistics], ClauseStatistics], factor: float | None, asked: SetSum) -> SetTerm:
    """PM of sets by some of a clause's statistics; with a factor that times k PM, of sets of k variables."""

    def one(statistics: ClauseStatistics, positions: Sequence[int]) -> float:
        grown = 0.0 if factor is None else math.log(factor * max(len(positions), 1))
        return ln_partial_matches(of(statistics), positions) + grown

    def all_sets(statistics: ClauseStatistics) -> Array:
        sizes = np.bitwise_count(np.arange(1 << statistics.size, dtype=np.uint32)).astype(np.float64)
        grown = 0.0 if factor is None else np.log(factor * np.maximum(sizes, 1.0))
        return np.asarray(ln_partial_matches_of_all(of(statistics)) + grown)

    def some(statistics: ClauseStatistics, members: Array) -> Array:
        grown = 0.0 if factor is None else np.log(factor * np.maximum(members.sum(axis=1), 1))
        return np.asarray(ln_partial_matches_of_some(of(statistics), members) + grown)

    return SetTerm(one, all_sets, some, lambda: asked)


INSTANCES = CostModel(
    name="instances",
    unit="ns a window on one core, of mechanisms that keep instances",
    node=_term(lambda statistics: statistics, PARTIAL_MATCH_NS, SetSum(grown=True, factor=PARTIAL_MATCH_NS)),
    pair=_term(
        lambda statistics: statistics.candidates,
        CANDIDATE_NS,
        SetSum(tested=False, joints=False, grown=True, factor=CANDIDATE_NS),
    ),
    product=_term(
        lambda statistics: statistics.passing, None, SetSum(instances=False, equalities=False, together=False)
    ),
)
"""Nanoseconds by `CANDIDATE_NS` and `PARTIAL_MATCH_NS`."""
