"""TRIVIAL, EFREQ and GREEDY on clauses whose orders can be told by hand."""

from __future__ import annotations

import math

from cep_pipeline.planning.algorithms.heuristics import event_frequency_order, greedy_order, trivial_order
from cep_pipeline.planning.clause_statistics import ClauseStatistics, PlanCondition
from cep_pipeline.planning.costs import THROUGHPUT

# a is rare; b and c are frequent; c hardly ever fits a.
CLAUSE = ClauseStatistics(
    ("c", "b", "a"),
    (math.log(100), math.log(50), math.log(2)),
    (PlanCondition((0, 2), math.log(0.01)),),
)


def test_trivial_keeps_the_patterns_order() -> None:
    ordering = trivial_order(CLAUSE, THROUGHPUT)
    assert ordering.order == (0, 1, 2)
    assert ordering.comparisons == ()


def test_event_frequency_takes_the_rarest_first() -> None:
    ordering = event_frequency_order(CLAUSE, THROUGHPUT)
    assert ordering.order == (2, 1, 0)
    assert [(c.step, c.chosen, c.rejected) for c in ordering.comparisons] == [
        (0, (2,), (1,)),
        (0, (2,), (0,)),
        (1, (1,), (0,)),
    ]
    assert ordering.comparisons[0].ln_chosen == math.log(2)
    assert ordering.comparisons[0].ln_rejected == math.log(50)


def test_greedy_weighs_conditions_too() -> None:
    ordering = greedy_order(CLAUSE, THROUGHPUT)
    assert ordering.order == (2, 0, 1)
    second = [c for c in ordering.comparisons if c.step == 1]
    assert [(c.chosen, c.rejected) for c in second] == [((2, 0), (2, 1))]
    assert math.isclose(second[0].ln_chosen, math.log(2 * 100 * 0.01))
    assert math.isclose(second[0].ln_rejected, math.log(2 * 50))


def test_ties_go_to_the_variable_that_the_pattern_names_first() -> None:
    same = ClauseStatistics(tuple("abcd"), (0.5,) * 4)
    for planner in (trivial_order, event_frequency_order, greedy_order):
        assert planner(same, THROUGHPUT).order == (0, 1, 2, 3)
