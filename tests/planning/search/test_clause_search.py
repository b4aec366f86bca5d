"""Compiled searches find the plans of the planners: orders, trees, comparisons, prices, and what checks them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation.verification import is_violated
from cep_pipeline.planning import PLANNERS
from cep_pipeline.planning.costs import COSTS, CostModel, with_latency
from cep_pipeline.planning.numbers.clause_questions import ClauseQuestions
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics
from cep_pipeline.planning.numbers.logarithms import ln_sum
from cep_pipeline.planning.orderings import (
    DecidingComparison,
    Ordering,
    TreeOrdering,
    ln_measure,
    ln_order_cost,
    ln_tree_cost,
    tightest_of_blocks,
)
from cep_pipeline.planning.search import clause_search_codes as codes
from cep_pipeline.planning.search.clause_search import SEARCHED, ClauseSearchResult, searched
from cep_pipeline.planning.search.sums import MOST_VARIABLES
from cep_pipeline.statistics.terms import terms_of
from tests.adaptation import drifting
from tests.planning.test_replanning import close, of_any_shape, with_shape
from tests.statistics.market import parse
from tests.thoroughness import examples

UNLIKE = ClauseStatistics(
    ("a", "b", "c", "d", "e", "f"),
    (0.0, -1.2, 27.6, 6.5, 5.8, -69.0),
    sequences=(((1,), (2,)), ((4,), (5,))),
    kleene=frozenset({2, 5}),
    ln_events=(0.0, -1.2, 4.5, 6.5, 5.8, 0.1),
)
"""Of whose trees the comparisons are found in another order than that of their margins."""

LISTS = "NAME one PATTERN SEQ(A a, B+ b[], C c, D d) WHERE a.diff < c.diff AND b[i].diff < d.diff WITHIN 2 seconds"


def found_for(planner: str, cost: CostModel, known: ClauseStatistics) -> ClauseSearchResult | None:
    assert known.shape is not None
    search = searched(known.shape, planner, cost)
    assert search is not None
    return search(known.numbers)


@pytest.mark.parametrize("cost", ["throughput", "instances", "kernel"])
@pytest.mark.parametrize("planner", sorted(SEARCHED))
@settings(max_examples=examples(60))
@given(statistics=of_any_shape(MOST_VARIABLES), data=st.data())
@example(statistics=UNLIKE, data=None)
def test_compiled_searches_find_what_planners_find(
    planner: str, cost: str, statistics: ClauseStatistics, data: st.DataObject | None
) -> None:
    model, known = COSTS[cost], with_shape(statistics)
    if model.held is not None and planner.startswith("zstream"):
        assert known.shape is not None and searched(known.shape, planner, model) is None
        return
    found, expected = found_for(planner, model, known), PLANNERS[planner](known, model)
    if found is None:  # given up where planners measure two sides anew
        assume(False)
        return
    made = found.ordering
    if planner == "greedy":
        assert made == expected
    else:
        plans_are_alike(made, expected, model, known)
    if isinstance(made, TreeOrdering):
        assert ln_sum(found.prices(found)) == ln_tree_cost(model, known, made.tree)
    else:
        assert ln_sum(found.prices(found)) == ln_order_cost(model, known, made.order)
    k = None if data is None else data.draw(st.sampled_from([1, 2, None]))
    order = range(statistics.size) if data is None else data.draw(st.permutations(range(statistics.size)))
    other = replace(statistics, ln_instances=tuple(statistics.ln_instances[place] for place in order), joints=())
    checks_are_readable(found, k, tightest_of_blocks(made.comparisons, k), model, (statistics, other, statistics))


def plans_are_alike(
    made: Ordering | TreeOrdering, expected: Ordering | TreeOrdering, cost: CostModel, known: ClauseStatistics
) -> None:
    """Both tiers find a plan of the same cost; the same plan and comparisons, but where two ways cost the same."""
    if isinstance(made, TreeOrdering) and isinstance(expected, TreeOrdering):
        costs = [ln_tree_cost(cost, known, one.tree) for one in (made, expected)]
    else:
        costs = [ln_order_cost(cost, known, one.order) for one in (made, expected)]
    assert costs[0] == pytest.approx(costs[1], abs=1e-9)
    for one in made.comparisons:
        sides = [ln_measure(one.measure, side, known, cost) for side in (one.chosen, one.rejected)]
        assert [one.ln_chosen, one.ln_rejected] == pytest.approx(sides, abs=1e-7)
    if any(map(close, (*made.comparisons, *expected.comparisons))):
        return
    if isinstance(made, TreeOrdering) and isinstance(expected, TreeOrdering):
        assert made.tree == expected.tree
    assert made.order == expected.order
    for blocks in zip(in_blocks(made), in_blocks(expected), strict=True):
        assert [(one.step, one.measure, one.chosen) for one in blocks[0]] == [
            (one.step, one.measure, one.chosen) for one in blocks[1]
        ]
        beside = [[one.ln_rejected for one in block] for block in blocks]
        assert beside[0] == pytest.approx(beside[1], abs=1e-7)


def in_blocks(made: Ordering | TreeOrdering) -> list[list[DecidingComparison]]:
    """The comparisons block by block, the tightest ones first."""
    blocks: dict[tuple[str, int], list[DecidingComparison]] = {}
    for one in tightest_of_blocks(made.comparisons, None):
        blocks.setdefault((one.measure, one.step), []).append(one)
    return list(blocks.values())


def checks_are_readable(
    found: ClauseSearchResult,
    k: int | None,
    expected: list[DecidingComparison],
    cost: CostModel,
    days: tuple[ClauseStatistics, ...],
) -> None:
    """The programs of compiled searches measure what `ln_measure` does, and say which comparison is violated first."""
    sums = found.search.kept(found, k)
    assert [sums.comparison(place) for place in range(sums.count)] == expected
    for now in days:
        first, violated = sums(now.numbers), []
        for one, (left, right, wins_ties) in zip(expected, sums.sides.tolist(), strict=True):
            sides = [ln_measure(one.measure, side, with_shape(now), cost) for side in (one.chosen, one.rejected)]
            measured = sums.registers[left], sums.registers[right]
            assert list(measured) == pytest.approx(sides, abs=1e-9) and wins_ties == one.wins_ties
            violated.append(is_violated(one, *measured))
        assert first == ([*violated, True].index(True))


@pytest.mark.parametrize("planner", ["greedy", "dp_left_deep"])
@settings(max_examples=examples(60))
@given(data=st.data(), cost=st.sampled_from(["throughput", "kernel"]))
def test_snapshots_are_read_as_questions_read_them(planner: str, data: st.DataObject, cost: str) -> None:
    """Snapshot after snapshot, with lists, and with conditions that are measured in some of them only."""
    text = data.draw(st.sampled_from([*drifting.PATTERNS, LISTS]))
    [pattern, *_] = parse(text)
    leaves, conditions = terms_of([pattern])
    for clause in pattern.clauses:
        questions = ClauseQuestions(pattern, clause, often=True)
        search = searched(questions.shape, planner, COSTS[cost], questions)
        assert search is not None
        for _ in range(3):
            rates = {leaf.key: data.draw(drifting.RATES | st.just(0.0)) for leaf in leaves}
            known = {
                one.key: data.draw(drifting.SHARES | st.just(0.0)) for one in conditions if data.draw(st.booleans())
            }
            snapshot = drifting.snapshot(rates, known)
            found, expected = search(snapshot), search(questions.asked(snapshot).numbers)
            assert (found is None) == (expected is None)
            assert found is None or expected is None or found.plan == expected.plan
            assert found is None or expected is None or found.comparisons == expected.comparisons
            assert found is None or expected is None or found.prices(found) == expected.prices(expected)


@settings(max_examples=examples(40))
@given(statistics=of_any_shape(), data=st.data())
def test_a_plan_is_priced_by_the_numbers_of_another_day(statistics: ClauseStatistics, data: st.DataObject) -> None:
    """Also after the search has gone on to other numbers, and where the plans of both days are the same."""
    order = data.draw(st.permutations(range(statistics.size)))
    other = replace(statistics, ln_instances=tuple(statistics.ln_instances[place] for place in order))
    one, known = with_shape(statistics), with_shape(other)
    assert one.shape is not None
    search = searched(one.shape, "greedy", COSTS["instances"])
    assert search is not None
    before, after = search(one.numbers), search(known.numbers)
    assert before is not None and after is not None
    assert ln_sum(before.prices(after)) == ln_order_cost(COSTS["instances"], one, after.order)
    assert ln_sum(after.prices(before)) == ln_order_cost(COSTS["instances"], known, before.order)
    assert (before.plan == after.plan) == (before.order == after.order)
    # What is checked in between takes other numbers.
    search.kept(before, None)(before.numbers)
    assert ln_sum(after.prices(after)) == ln_order_cost(COSTS["instances"], known, after.order)
    assert search.kept(before, None).found.comparisons == before.comparisons


def test_ties_are_left_to_planners() -> None:
    alike = with_shape(ClauseStatistics(("a", "b", "c"), (1.0, 1.0, 1.0)))
    for planner in SEARCHED:
        found = found_for(planner, COSTS["throughput"], alike)
        assert (found is None) == (planner != "greedy")


def test_other_planners_and_latency_have_no_compiled_search() -> None:
    shape = with_shape(UNLIKE).shape
    assert shape is not None and codes.MOST == MOST_VARIABLES
    assert all((searched(shape, name, COSTS["throughput"]) is None) == (name not in SEARCHED) for name in PLANNERS)
    assert searched(shape, "greedy", with_latency(COSTS["throughput"], 0.5)) is None
