"""The local planner: with given parts it finds the cheapest of all orders, or trees, that have them."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import InputError, PlanError
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.costs import COSTS, THROUGHPUT, CostModel, with_latency
from cep_pipeline.planning.multi_pattern.costs import SHARED_COSTS
from cep_pipeline.planning.multi_pattern.local_plans import MAX_VARIABLES, LocalPlans
from cep_pipeline.planning.orderings import ln_order_cost, ln_tree_cost
from cep_pipeline.planning.trees import PositionTree, left_deep, positions_of, tree_of_positions
from tests.planning.clauses import clause_statistics
from tests.planning.multi_pattern.literal import all_trees, any_tree
from tests.planning.multi_pattern.planned import MODELS
from tests.thoroughness import examples


def trees_of(size: int) -> list[PositionTree]:
    names = [str(place) for place in range(size)]
    return [tree_of_positions(tree, names) for tree in all_trees(names)]


def subtrees(tree: PositionTree) -> set[object]:
    below = {_shape(tree)}
    return below if isinstance(tree, int) else below | subtrees(tree[0]) | subtrees(tree[1])


def _shape(tree: PositionTree) -> object:
    return tree if isinstance(tree, int) else frozenset(map(_shape, tree))


@MODELS
@settings(max_examples=examples(40))
@given(clause_statistics(max_size=5), st.randoms(use_true_random=False))
def test_orders_are_the_cheapest_that_begin_as_they_shall(
    model: CostModel, statistics: ClauseStatistics, random: Random
) -> None:
    plans = LocalPlans(statistics, model, trees=False)
    prefix = tuple(random.sample(range(statistics.size), random.randint(0, statistics.size)))
    given_trees = [left_deep(prefix)] if prefix else []
    tree = plans.cheapest(given_trees)
    found = positions_of(tree)
    assert tree == left_deep(found)
    assert found[: len(prefix)] == prefix and sorted(found) == list(range(statistics.size))
    all_ways = (order for order in permutations(range(statistics.size)) if order[: len(prefix)] == prefix)
    least = min(ln_order_cost(model, statistics, order) for order in all_ways)
    assert ln_order_cost(model, statistics, found) == pytest.approx(least, abs=1e-9)
    assert plans.cheapest(given_trees) is tree


@MODELS
@settings(max_examples=examples(40))
@given(clause_statistics(max_size=5), st.randoms(use_true_random=False))
def test_trees_are_the_cheapest_that_contain_what_they_shall(
    model: CostModel, statistics: ClauseStatistics, random: Random
) -> None:
    plans = LocalPlans(statistics, model)
    shuffled = random.sample(range(statistics.size), statistics.size)
    given_trees = []
    while len(shuffled) > 1 and random.random() < 0.6:
        size = random.randint(2, len(shuffled))
        part, shuffled = shuffled[:size], shuffled[size:]
        names = [str(place) for place in range(statistics.size)]
        given_trees.append(tree_of_positions(any_tree([str(place) for place in part], random), names))
    found = plans.cheapest(given_trees)
    assert sorted(positions_of(found)) == list(range(statistics.size))
    assert all(_shape(tree) in subtrees(found) for tree in given_trees)
    allowed = [
        tree for tree in trees_of(statistics.size) if all(_shape(part) in subtrees(tree) for part in given_trees)
    ]
    least = min(ln_tree_cost(model, statistics, tree) for tree in allowed)
    assert ln_tree_cost(model, statistics, found) == pytest.approx(least, abs=1e-9)


def test_more_parts_than_are_searched_are_joined_greedily() -> None:
    size = 14
    plans = LocalPlans(ClauseStatistics(tuple(map(str, range(size))), tuple(float(place) for place in range(size))))
    tree = plans.cheapest([(12, 13)])
    assert sorted(positions_of(tree)) == list(range(size))
    assert frozenset({12, 13}) in subtrees(tree)


def test_what_is_beyond_the_budget_or_no_cost_of_sets_is_refused() -> None:
    many = MAX_VARIABLES + 1
    with pytest.raises(PlanError, match="17 variables exceed the local planner's budget of 16"):
        LocalPlans(ClauseStatistics(tuple(map(str, range(many))), (0.0,) * many))
    statistics = ClauseStatistics(("a", "b"), (0.0, 0.0))
    for model in (*(COSTS[name] for name in COSTS if name not in SHARED_COSTS), with_latency(THROUGHPUT, 0.5)):
        with pytest.raises(InputError, match="planned together by the cost 'throughput' or 'instances' with alpha 0"):
            LocalPlans(statistics, model)
    with pytest.raises(ValueError, match="a variable in common"):
        LocalPlans(ClauseStatistics(tuple("abc"), (0.0,) * 3)).cheapest([(0, 1), (1, 2)])
