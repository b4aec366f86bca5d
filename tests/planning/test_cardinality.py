"""PM of sets of variables: equal to the literal formula, and monotone."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.planning.clause_statistics import (
    ClauseStatistics,
    PlanCondition,
    ln_order_share,
    ln_partial_matches,
    mask_of,
)
from cep_pipeline.planning.costs import PARTIAL_MATCHES
from tests.planning import clauses

CLOSE = {"rel": 1e-12, "abs": 1e-9}


def sets_of(size: int) -> list[tuple[int, ...]]:
    return list(chain.from_iterable(combinations(range(size), length) for length in range(1, size + 1)))


@settings(deadline=None)
@given(clauses.clause_statistics(max_size=5))
def test_equal_to_the_literal_formula_for_every_set(statistics: ClauseStatistics) -> None:
    table = PARTIAL_MATCHES.all(statistics)
    assert table.shape == (2**statistics.size,)
    assert table[0] == 0
    for members in sets_of(statistics.size):
        expected = clauses.ln_partial_matches(statistics, members)
        assert ln_partial_matches(statistics, members) == pytest.approx(expected, **CLOSE)
        assert table[mask_of(members)] == pytest.approx(expected, **CLOSE)


@given(clauses.clause_statistics(), st.data())
def test_a_further_condition_never_raises_an_estimate(statistics: ClauseStatistics, data: st.DataObject) -> None:
    positions = data.draw(st.sets(st.integers(0, statistics.size - 1), min_size=1))
    selectivity = data.draw(clauses.SELECTIVITIES)
    condition = PlanCondition(tuple(sorted(positions)), math.log(selectivity))
    stricter = replace(statistics, conditions=(*statistics.conditions, condition))
    difference = PARTIAL_MATCHES.all(statistics) - PARTIAL_MATCHES.all(stricter)
    assert (difference >= -1e-9).all()


def test_three_in_sequence_are_in_order_once_in_six() -> None:
    chain_of_three = ClauseStatistics(("a", "b", "c"), (0.0, 0.0, 0.0), sequences=(((0,), (1,), (2,)),))
    assert math.exp(ln_order_share(chain_of_three, (0, 1, 2))) == pytest.approx(1 / 6)
    assert math.exp(ln_order_share(chain_of_three, (2, 0))) == pytest.approx(1 / 2)
    assert math.exp(ln_order_share(chain_of_three, (1,))) == 1


def test_numbers_beyond_a_float_are_kept_apart() -> None:
    huge = ClauseStatistics(("a", "b"), (800.0, 900.0))
    assert ln_partial_matches(huge, (0, 1)) == 1700
    assert list(PARTIAL_MATCHES.all(huge)) == [0, 800, 900, 1700]
