"""What a unit of the kernel's work costs: the constants, and how plans are ranked by them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks.kernel_costs import (
    BoundBy,
    PatternRuns,
    PlanRun,
    calibrated,
    condition_costs,
    dear_runs,
    kernel_costs_page,
    measured_runs,
    positive_least_squares,
    rankings,
)
from benchmarks.measure import Progress
from benchmarks.stock_stream import generate_stock_stream
from cep_pipeline.planning.costs import THROUGHPUT
from cep_pipeline.planning.costs.kernel import CONDITION_KINDS, UNITS, costs_from_json, costs_to_json, kernel_model
from cep_pipeline.planning.numbers.clause_statistics import ClauseStatistics

TRUE = (0.5, 4.0, 2.0, 3.0, 60.0)
ANY = ClauseStatistics(tuple("abc"), (1.0, 2.0, 3.0))


def made_up(times: float = 1.0) -> list[PatternRuns]:
    """Runs whose times are exactly what their work costs."""
    draw = random.Random(3)
    runs = []
    for number in range(40):
        work = tuple(float(draw.randrange(10**6)) for _ in TRUE)
        seconds = times * (sum(units * cost for units, cost in zip(work, TRUE, strict=True)) + 1e5) / 1e9
        runs.append(PlanRun(BoundBy(((0, 1), 2), number % 2 == 0), work, seconds))
    return [PatternRuns("made up", ANY, tuple(runs))]


def test_the_constants_of_exact_times_are_found() -> None:
    costs = calibrated(made_up())
    assert [getattr(costs, name) for name in UNITS] == pytest.approx(TRUE, rel=1e-3)
    assert [getattr(calibrated(made_up(2.0)), name) for name in UNITS] == pytest.approx([2 * c for c in TRUE], rel=1e-3)
    assert costs_from_json(costs_to_json(costs), "here") == costs
    assert "cores" in costs.measured_on


def test_conditions_are_measured_by_kind() -> None:
    found = condition_costs("lazy_chain_nfa", 1, Progress(), largest=30)
    tests = condition_costs("fused", 1, Progress(), largest=30)
    assert tuple(found) == CONDITION_KINDS and all(cost > 0 for cost in found.values())
    assert {*tests} == {*CONDITION_KINDS} - {"list"} and all(cost > 0 for cost in tests.values())
    costs = calibrated(made_up(), found, tests)
    assert costs.conditions == found and costs.tests == tests and costs_from_json(costs_to_json(costs), "here") == costs


def test_no_constant_is_negative() -> None:
    rows = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert positive_least_squares(rows, np.array([3.0, 2.0, 1.0])) == pytest.approx([2.0, 0.0])
    assert positive_least_squares(rows, np.array([2.0, 3.0, 4.0])) == pytest.approx([1.0, 1.0])


def test_plans_are_measured_and_ranked() -> None:
    found = measured_runs(generate_stock_stream(5_000).table(), 1, Progress(), drawn=2)
    assert [pattern.name for pattern in found] == ["W1", "W2", "W3", "drawn_0", "drawn_1", "all_pass", "none_pass"]
    w1, w2, *_ = found
    assert [len(w1.runs), len(w2.runs)] == [6, 16]
    assert sum(not run.plan.is_order for run in w2.runs) == 4
    for pattern in found:
        for run in pattern.runs:
            assert run.seconds > 0
            assert (run.work[UNITS.index("materialized")] > 0) == (not run.plan.is_order)
    assert len({run.work[UNITS.index("match")] for run in w2.runs}) == 1
    costs = calibrated(found)
    ranked = rankings(found, kernel_model(lambda: costs), trees=True)
    assert all(one.fastest <= one.chosen <= one.slowest and -1 <= one.correlation <= 1 for one in ranked)
    dear = dear_runs(generate_stock_stream(1_000).table(), 1, Progress(), number=2)
    assert [len(pattern.runs) for pattern in dear] == [6, 24]
    page = kernel_costs_page(found, costs, [THROUGHPUT], dear)
    assert page.count("| kernel, all alike ") == 3
    assert "| candidate " in page
    assert page.count("| W2 ") == 4
