"""Each planner that searches a set of plans exactly finds the cheapest of them, under every cost model."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings

from cep_pipeline.planning.algorithms.dynamic_programming import dp_bushy_tree, dp_left_deep_order
from cep_pipeline.planning.algorithms.heuristics import greedy_order
from cep_pipeline.planning.algorithms.set_search import SetSearch, SetTables
from cep_pipeline.planning.algorithms.zstream import zstream_ordered_tree, zstream_tree
from cep_pipeline.planning.clause_statistics import ClauseStatistics, PlanCondition, ln_sum
from cep_pipeline.planning.costs import INSTANCES, THROUGHPUT, CostModel
from cep_pipeline.planning.orderings import (
    DecidingComparison,
    Ordering,
    TreeOrdering,
    joins_of,
    ln_below,
    ln_measure,
    ln_order_cost,
    ln_tree_cost,
)
from cep_pipeline.planning.trees import left_deep
from tests.planning.all_plans import ALL_TERMS, MODELS, all_trees, holds_on, trees_over, with_any_last
from tests.planning.clauses import random_statistics
from tests.thoroughness import examples

every_model = pytest.mark.parametrize("cost", MODELS.values(), ids=MODELS)
CLOSE = 1e-7
"""A chain of ties, each within a grain of 1e-9, may add up to so much."""


def check_comparisons(found: Ordering | TreeOrdering, statistics: ClauseStatistics, cost: CostModel) -> None:
    """They hold, and both sides measure on these statistics what the planner saw."""
    for comparison in found.comparisons:
        assert holds_on(comparison, statistics, cost)
        for side, logarithm in (
            (comparison.chosen, comparison.ln_chosen),
            (comparison.rejected, comparison.ln_rejected),
        ):
            assert ln_measure(comparison.measure, side, statistics, cost) == pytest.approx(logarithm, abs=CLOSE)


@every_model
@settings(deadline=None, max_examples=examples(40))
@given(statistics=with_any_last(max_size=5))
def test_no_order_is_cheaper(cost: CostModel, statistics: ClauseStatistics) -> None:
    found = dp_left_deep_order(statistics, cost)
    cheapest = min(ln_order_cost(cost, statistics, order) for order in permutations(range(statistics.size)))
    assert ln_order_cost(cost, statistics, found.order) == pytest.approx(cheapest, abs=CLOSE)
    assert found.note == ""
    check_comparisons(found, statistics, cost)


@every_model
@settings(deadline=None, max_examples=examples(40))
@given(statistics=with_any_last(max_size=5))
def test_no_tree_is_cheaper(cost: CostModel, statistics: ClauseStatistics) -> None:
    found = dp_bushy_tree(statistics, cost)
    orders = permutations(range(statistics.size))
    trees = list(map(left_deep, orders)) if cost.runs_orders else list(all_trees(range(statistics.size)))
    cheapest = min(ln_tree_cost(cost, statistics, tree) for tree in trees)
    assert ln_tree_cost(cost, statistics, found.tree) == pytest.approx(cheapest, abs=CLOSE)
    assert found.note == ""
    if statistics.size > 2:
        # Without what all trees share, next to which the rest may be nothing.
        cheapest = min(ln_below(cost, statistics, tree) for tree in trees)
        assert ln_below(cost, statistics, found.tree) == pytest.approx(cheapest, abs=CLOSE)
    check_comparisons(found, statistics, cost)


@every_model
@settings(deadline=None, max_examples=examples(40))
@given(statistics=with_any_last(max_size=6))
def test_no_tree_over_the_same_leaves_is_cheaper(cost: CostModel, statistics: ClauseStatistics) -> None:
    for planner, leaves in (
        (zstream_tree, tuple(range(statistics.size))),
        (zstream_ordered_tree, greedy_order(statistics, cost).order),
    ):
        found = planner(statistics, cost)
        assert found.order == leaves
        cheapest = min(ln_below(cost, statistics, tree) for tree in trees_over(leaves))
        below = ln_below(cost, statistics, found.tree)
        assert below == cheapest or below == pytest.approx(cheapest, abs=CLOSE)
        check_comparisons(found, statistics, cost)


@every_model
@pytest.mark.parametrize("seed", [1])
def test_seven_variables(cost: CostModel, seed: int) -> None:
    statistics = random_statistics(7, seed)
    steps: dict[tuple[frozenset[int], int], float] = {}
    for order in permutations(range(7)):
        for length in range(1, 8):
            key = frozenset(order[: length - 1]), order[length - 1]
            if key not in steps:
                steps[key] = math.exp(cost.ln_step(statistics, order[:length]))
    costs = (
        math.fsum(steps[frozenset(order[:place]), order[place]] for place in range(7))
        for order in permutations(range(7))
    )
    found = ln_order_cost(cost, statistics, dp_left_deep_order(statistics, cost).order)
    assert found == pytest.approx(math.log(min(costs)), abs=CLOSE)
    if cost.runs_orders:
        assert dp_bushy_tree(statistics, cost).order == dp_left_deep_order(statistics, cost).order
        return
    joins: dict[object, float] = {}
    tree_costs = []
    for tree in all_trees(range(7)):
        total = 0.0
        for join in joins_of(tree):
            if join not in joins:
                joins[join] = math.exp(cost.ln_join(statistics, *join))
            total += joins[join]
        tree_costs.append(total)
    best = dp_bushy_tree(statistics, cost).tree
    assert ln_sum(cost.ln_join(statistics, *join) for join in joins_of(best)) == pytest.approx(
        math.log(min(tree_costs)), abs=CLOSE
    )


def test_threads_find_what_one_thread_finds() -> None:
    """Above 13 variables sets are searched by threads; and pruning gives up no best tree."""
    statistics = random_statistics(14, 3)
    for cost in (THROUGHPUT, INSTANCES, MODELS["all terms, weighted"]):
        ln_limit = ln_below(cost, statistics, left_deep(greedy_order(statistics, cost).order))
        whole = (1 << 14) - 1
        searches = [
            SetSearch.run(SetTables.of(statistics, cost, ln_limit + unpruned), orders=False, threads=threads)
            for unpruned, threads in ((0.0, 1), (0.0, 3), (50.0, 1))
        ]
        trees = [search.plan(whole) for search in searches]
        assert trees[0] == trees[1] == trees[2]
        below = math.log(searches[0].best[whole]) + ln_limit
        assert below == pytest.approx(ln_below(cost, statistics, trees[0]), abs=CLOSE)
        for members in random.Random(1).sample(range(3, whole), 50):
            costs = [
                math.log(search.best[members]) + search.tables.ln_limit if 0 < search.best[members] < math.inf else None
                for search in searches
            ]
            if costs[0] is not None:
                assert costs == pytest.approx([costs[2]] * 3, abs=CLOSE)


def test_a_tree_of_sixteen_variables_is_a_local_minimum() -> None:
    statistics = random_statistics(16, 5)
    found = dp_bushy_tree(statistics, THROUGHPUT)
    assert found.note == ""
    cost = ln_below(THROUGHPUT, statistics, found.tree)
    draw = random.Random(0)
    for _ in range(200):
        one, other = draw.sample(range(16), 2)
        assert cost <= ln_below(THROUGHPUT, statistics, exchanged(found.tree, one, other)) + CLOSE
    for planner in (zstream_tree, zstream_ordered_tree):
        assert cost <= ln_below(THROUGHPUT, statistics, planner(statistics, THROUGHPUT).tree) + CLOSE


def exchanged(tree, one, other):  # type: ignore[no-untyped-def]
    if isinstance(tree, int):
        return {one: other, other: one}.get(tree, tree)
    return exchanged(tree[0], one, other), exchanged(tree[1], one, other)


def test_equal_variables_keep_the_patterns_order() -> None:
    same = ClauseStatistics(tuple("abcdef"), (0.0,) * 6)
    for planner in (dp_bushy_tree, zstream_tree, zstream_ordered_tree):
        assert planner(same, THROUGHPUT).tree == left_deep(tuple(range(6)))


def test_figure_3_of_the_paper() -> None:
    """A and C have a strict condition, and only a tree that does not keep the leaves' order begins with them."""
    statistics = ClauseStatistics(tuple("abc"), (math.log(10),) * 3, (PlanCondition((0, 2), math.log(0.001)),))
    assert zstream_tree(statistics, THROUGHPUT).tree in (((0, 1), 2), (0, (1, 2)))
    assert dp_bushy_tree(statistics, THROUGHPUT).tree == ((0, 2), 1)
    assert set(zstream_ordered_tree(statistics, THROUGHPUT).order[:2]) == {0, 2}


def test_comparisons_of_a_tree_go_from_the_leaves_up() -> None:
    statistics = random_statistics(6, 5)
    found = dp_bushy_tree(statistics, THROUGHPUT)
    joins = list(joins_of(found.tree))
    assert [comparison.step for comparison in found.comparisons] == sorted(c.step for c in found.comparisons)
    for comparison in found.comparisons:
        assert comparison.chosen == joins[comparison.step]
        assert comparison.rejected != comparison.chosen
    assert {comparison.step for comparison in found.comparisons} == {
        step for step, join in enumerate(joins) if any(not isinstance(side, int) for side in join)
    }


def test_what_does_not_hold_is_no_comparison() -> None:
    with pytest.raises(ValueError, match="larger"):
        DecidingComparison(0, "tree", ((0, 1), 2), ((0, 2), 1), 1.0, 0.5)
    with pytest.raises(ValueError, match="larger"):
        DecidingComparison(0, "tree", ((0, 1), 2), ((0, 2), 1), 1.0, 1.0, wins_ties=False)


@pytest.mark.parametrize("planner", [dp_bushy_tree, dp_left_deep_order])
def test_beyond_its_budget_an_exact_planner_says_so(planner) -> None:  # type: ignore[no-untyped-def]
    statistics = random_statistics(8, 2)
    exact, other = planner(statistics, THROUGHPUT), planner(statistics, THROUGHPUT, max_variables=7)
    assert exact.note == ""
    assert other.note.startswith("8 variables exceed the exact search's budget of 7: ")
    assert "; it has no deciding comparisons" in other.note
    assert other.comparisons == ()
    costs = [
        ln_tree_cost(THROUGHPUT, statistics, found.tree)
        if isinstance(found, TreeOrdering)
        else ln_order_cost(THROUGHPUT, statistics, found.order)
        for found in (exact, other)
    ]
    assert costs[0] - CLOSE <= costs[1]


def test_out_of_time() -> None:
    statistics = random_statistics(15, 2)
    found = dp_bushy_tree(statistics, THROUGHPUT, max_seconds=0.0)
    assert found.note.startswith("the exact search of 15 variables did not end within its budget of 0 s: the tree is")


def test_rates_of_kleene_lists_beyond_a_float() -> None:
    """2^(W r) lists, e^1000 of them: what they cost is in every plan, and the rest is still ordered by its numbers."""
    statistics = replace(
        random_statistics(6, 1), ln_instances=(1000.0, math.log(10), math.log(3), math.log(5), 2000.0, -50.0)
    )
    for cost in (THROUGHPUT, MODELS["weighted"], MODELS["consume_matched"]):
        found = dp_bushy_tree(statistics, cost)
        cheapest = min(ln_below(cost, statistics, tree) for tree in all_trees(range(6)))
        assert ln_below(cost, statistics, found.tree) == pytest.approx(cheapest, abs=CLOSE)
    for planner in (dp_bushy_tree, dp_left_deep_order, zstream_tree):
        assert sorted(planner(statistics, ALL_TERMS).order) == list(range(6))
