"""Each term of a cost model says the same of one set and of many."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings

from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import COSTS, LATENCY
from cep_pipeline.planning.orderings import ln_tree_cost
from tests.planning import clauses
from tests.thoroughness import examples


@pytest.mark.parametrize("cost", COSTS)
@settings(deadline=None, max_examples=examples(50))
@given(statistics=clauses.clause_statistics(max_size=5))
def test_one_all_and_some(cost: str, statistics: ClauseStatistics) -> None:
    model = COSTS[cost]
    masks = np.arange(1, 1 << statistics.size)
    members = (masks[:, None] >> np.arange(statistics.size) & 1).astype(bool)
    for term in (model.node, model.pair, model.product, model.delay):
        if term is not None:
            table = term.all(statistics)[1:]
            assert term.of(statistics, members) == pytest.approx(table, rel=1e-12, abs=1e-9)
            one = [term.one(statistics, np.flatnonzero(row).tolist()) for row in members]
            assert table == pytest.approx(one, rel=1e-12, abs=1e-9)


def test_only_joins_with_the_last_variable_wait() -> None:
    """JQPG section 6.1: the siblings on the way from the last variable's leaf to the root."""
    statistics = ClauseStatistics(tuple("abc"), (math.log(2), math.log(3), math.log(5)))
    nodes = 5 - 2  # LATENCY counts one a node: leaves and joins
    for one, other in permutations((0, 1)):
        cost = math.exp(ln_tree_cost(LATENCY, statistics, ((one, other), 2)))
        assert cost == pytest.approx(nodes + 2 + 2 * 3)
    assert math.exp(ln_tree_cost(LATENCY, statistics, ((0, 2), 1))) == pytest.approx(nodes + 2 + 2 + 3)
