"""Plans of patterns of any size: IKKBZ, the linearized search and local search."""

from __future__ import annotations

import math
import random
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.planning.algorithms.dynamic_programming import (
    cheapest_known_tree,
    dp_bushy_tree,
    dp_left_deep_order,
    search_trees,
)
from cep_pipeline.planning.algorithms.heuristics import greedy_order, ii_greedy_order, ii_random_order
from cep_pipeline.planning.algorithms.ikkbz import has_asi, ikkbz_order
from cep_pipeline.planning.clause_statistics import ClauseStatistics, PlanCondition
from cep_pipeline.planning.costs import INSTANCES, THROUGHPUT, CostModel
from cep_pipeline.planning.orderings import ln_order_cost, ln_tree_cost
from cep_pipeline.planning.trees import left_deep
from tests.planning import clauses
from tests.planning.all_plans import MODELS, with_any_last
from tests.thoroughness import examples, long_but

every_model = pytest.mark.parametrize("cost", MODELS.values(), ids=MODELS)


@st.composite
def acyclic(draw: st.DrawFn) -> ClauseStatistics:
    """A clause without order whose conditions connect its variables and form no cycle."""
    size = draw(st.integers(2, 6))
    edges = [(draw(st.integers(0, later - 1)), later) for later in range(1, size)]
    return ClauseStatistics(
        names=tuple(f"v{position}" for position in range(size)),
        ln_instances=tuple(math.log(draw(clauses.INSTANCES)) for _ in range(size)),
        conditions=tuple(PlanCondition(edge, math.log(draw(clauses.SELECTIVITIES))) for edge in edges),
    )


@settings(deadline=None)
@given(acyclic())
def test_ikkbz_is_the_cheapest_order_without_cross_products(statistics: ClauseStatistics) -> None:
    assert has_asi(statistics, THROUGHPUT)
    edges = {condition.positions for condition in statistics.conditions}

    def without_cross_products(order: tuple[int, ...]) -> bool:
        return all(
            any((min(a, b), max(a, b)) in edges for a in order[:place]) for place, b in enumerate(order) if place
        )

    order = ikkbz_order(statistics)
    assert without_cross_products(order)
    cheapest = min(
        ln_order_cost(THROUGHPUT, statistics, other)
        for other in permutations(range(statistics.size))
        if without_cross_products(other)
    )
    assert ln_order_cost(THROUGHPUT, statistics, order) == pytest.approx(cheapest, abs=1e-9)


def test_the_property_that_ikkbz_needs() -> None:
    rates = (0.0, 1.0, 2.0)
    path = (PlanCondition((0, 1), -1.0), PlanCondition((1, 2), -2.0))
    assert has_asi(ClauseStatistics(tuple("abc"), rates, path), THROUGHPUT)
    assert not has_asi(ClauseStatistics(tuple("abc"), rates, path[:1]), THROUGHPUT)  # not connected
    assert not has_asi(ClauseStatistics(tuple("abc"), rates, (*path, PlanCondition((0, 2), -1.0))), THROUGHPUT)
    assert not has_asi(ClauseStatistics(tuple("abc"), rates, path, sequences=(((0,), (1,), (2,)),)), THROUGHPUT)
    assert not has_asi(ClauseStatistics(tuple("abc"), rates, path), MODELS["weighted"])


@settings(deadline=None)
@given(clauses.clause_statistics())
def test_ikkbz_orders_all_variables_of_any_clause(statistics: ClauseStatistics) -> None:
    assert sorted(ikkbz_order(statistics)) == list(range(statistics.size))


@every_model
@settings(deadline=None, max_examples=examples(25))
@given(statistics=with_any_last(max_size=6), seed=st.integers(0, 3))
def test_local_search_ends_where_no_move_improves(cost: CostModel, statistics: ClauseStatistics, seed: int) -> None:
    for planner in (ii_random_order, ii_greedy_order):
        found = planner(statistics, cost, seed=seed)
        assert found == planner(statistics, cost, seed=seed)
        assert found.comparisons == ()
        assert "no swap or cycle improves it" in found.note
        held = ln_order_cost(cost, statistics, found.order)
        for places in permutations(range(statistics.size), 2):
            assert held <= ln_order_cost(cost, statistics, moved(found.order, places)) + 1e-8
        for places in permutations(range(statistics.size), 3):
            assert held <= ln_order_cost(cost, statistics, moved(found.order, places)) + 1e-8
    greedy = ln_order_cost(cost, statistics, greedy_order(statistics, cost).order)
    assert held <= greedy + 1e-9


def moved(order: tuple[int, ...], places: tuple[int, ...]) -> tuple[int, ...]:
    """The variables at these places, each in the place of the next one."""
    changed = list(order)
    for place, following in zip(places, (*places[1:], places[0]), strict=True):
        changed[following] = order[place]
    return tuple(changed)


def test_random_starts_differ_by_their_seeds() -> None:
    statistics = large_clause(60, seed=1)
    found = [ii_random_order(statistics, THROUGHPUT, seed=seed) for seed in (0, 1)]
    assert found[0].order != found[1].order
    assert "seed 1" in found[1].note
    assert "the budget ended before a local minimum" in found[1].note


def large_clause(size: int, seed: int, *, acyclic: bool = False) -> ClauseStatistics:
    draw = random.Random(seed)
    edges = [(draw.randrange(later), later) for later in range(1, size)]
    if not acyclic:
        edges = [tuple(sorted(draw.sample(range(size), 2))) for _ in range(size // 2)]  # type: ignore[misc]
    return ClauseStatistics(
        names=tuple(f"v{position}" for position in range(size)),
        ln_instances=tuple(math.log(draw.uniform(0.5, 50)) for _ in range(size)),
        conditions=tuple(PlanCondition(edge, math.log(draw.uniform(0.002, 0.88))) for edge in edges),
        sequences=() if acyclic else (tuple((position,) for position in range(size)),),
    )


@pytest.mark.parametrize("cost", [THROUGHPUT, INSTANCES], ids=lambda cost: cost.name)
def test_most_sets_are_in_no_tree_as_cheap_as_a_known_one(cost: CostModel) -> None:
    """The root's tests count against the sets below, which cost little themselves."""
    statistics = large_clause(15, seed=2)
    _, known = cheapest_known_tree(statistics, cost)
    search = search_trees(statistics, cost, known)
    assert np.isfinite(search.best[1:]).mean() < 0.2
    found = ln_tree_cost(cost, statistics, search.plan((1 << 15) - 1))
    assert found <= ln_tree_cost(cost, statistics, known) + 1e-9


@pytest.mark.parametrize("cost", [THROUGHPUT, MODELS["all terms, weighted"]], ids=lambda cost: cost.name)
@pytest.mark.parametrize("form", long_but(["acyclic"], ["acyclic", "cyclic"]))
def test_a_hundred_variables(cost: CostModel, form: str) -> None:
    statistics = large_clause(100, seed=2, acyclic=form == "acyclic")
    order, tree = dp_left_deep_order(statistics, cost), dp_bushy_tree(statistics, cost)
    assert sorted(order.order) == sorted(tree.order) == list(range(100))
    for found in (order, tree):
        assert found.note.startswith("100 variables exceed the exact search's budget of 22: the ")
    assert ln_order_cost(cost, statistics, order.order) <= min(
        ln_order_cost(cost, statistics, other)
        for other in (greedy_order(statistics, cost).order, ikkbz_order(statistics))
    )
    over_greedy = left_deep(greedy_order(statistics, cost).order)
    assert ln_tree_cost(cost, statistics, tree.tree) <= ln_tree_cost(cost, statistics, over_greedy) + 1e-9
    if form == "acyclic" and cost is THROUGHPUT:
        assert "the order is ikkbz's, the cheapest one without cross products" in order.note
