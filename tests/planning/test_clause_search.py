"""Compiled searches find what planners find, to the last bit: plans, comparisons, prices, and what checks them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation.measures import Measures
from cep_pipeline.adaptation.verification import is_violated
from cep_pipeline.planning import PLANNERS
from cep_pipeline.planning import clause_search_codes as codes
from cep_pipeline.planning.clause_questions import ClauseQuestions
from cep_pipeline.planning.clause_search import SEARCHED, FoundClause, searched
from cep_pipeline.planning.clause_statistics import ClauseStatistics
from cep_pipeline.planning.cost_terms import MOST_VARIABLES
from cep_pipeline.planning.costs import COSTS, CostModel, ln_order_cost, ln_tree_cost, with_latency
from cep_pipeline.planning.logarithms import ln_sum
from cep_pipeline.planning.ordering import DecidingComparison, TreeOrdering, tightest_of_blocks
from cep_pipeline.statistics.estimate import terms_of
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


def found_for(planner: str, cost: CostModel, known: ClauseStatistics) -> FoundClause | None:
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
    assert found.ordering == expected
    if isinstance(expected, TreeOrdering):
        assert ln_sum(found.prices(found)) == ln_tree_cost(model, known, expected.tree)
    else:
        assert ln_sum(found.prices(found)) == ln_order_cost(model, known, expected.order)
    k = None if data is None else data.draw(st.sampled_from([1, 2, None]))
    order = range(statistics.size) if data is None else data.draw(st.permutations(range(statistics.size)))
    other = replace(statistics, ln_instances=tuple(statistics.ln_instances[place] for place in order), joints=())
    checks_are_readable(found, k, tightest_of_blocks(expected.comparisons, k), model, (statistics, other, statistics))


def checks_are_readable(
    found: FoundClause,
    k: int | None,
    expected: list[DecidingComparison],
    cost: CostModel,
    days: tuple[ClauseStatistics, ...],
) -> None:
    """The programs of compiled searches measure what `Measures` does."""
    sums = found.search.kept(found, k)
    assert [sums.comparison(place) for place in range(sums.count)] == expected
    for now in days:
        first, measures = sums(now.numbers), Measures(with_shape(now), cost)
        violated = []
        for one, (left, right, wins_ties) in zip(expected, sums.sides.tolist(), strict=True):
            sides = measures.of(one.measure, one.chosen), measures.of(one.measure, one.rejected)
            assert (sums.registers[left], sums.registers[right], wins_ties) == (*sides, one.wins_ties)
            violated.append(is_violated(one, *sides))
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
            found, expected = search(snapshot), search(questions.flat(snapshot))
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


@settings(max_examples=examples(40))
@given(statistics=of_any_shape(), cost=st.sampled_from(["throughput", "instances", "kernel"]))
def test_orders_by_logarithms_are_those_of_exact_search(statistics: ClauseStatistics, cost: str) -> None:
    """`SmallOrderSearch` finds the orders that the search by linear numbers does, but where two cost the same."""
    small, usual = (PLANNERS["dp_left_deep"](known, COSTS[cost]) for known in (with_shape(statistics), statistics))
    found = [ln_order_cost(COSTS[cost], statistics, one.order) for one in (small, usual)]
    assert found[0] == pytest.approx(found[1], abs=1e-9)
    if not any(map(close, usual.comparisons)):
        assert small.order == usual.order
        beside = [sorted(one.ln_rejected for one in ordering.comparisons) for ordering in (small, usual)]
        assert beside[0] == pytest.approx(beside[1], abs=1e-7)


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
