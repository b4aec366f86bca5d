"""What a unit of the kernel's work costs: the constants, and how plans are ranked by them."""

from __future__ import annotations

import random

import pytest

from benchmarks import kernel_costs
from benchmarks.kernel_costs import PlanRun, calibrated, condition_costs, measured_runs
from benchmarks.measure import Progress
from benchmarks.page import Settings, make_page
from benchmarks.stock_stream import generate_stock_stream
from cep_pipeline.planning.costs.kernel import CONDITION_KINDS, NUMBER, UNITS, costs_from_json, costs_to_json

TRUE = (0.5, 4.0, 2.0, 3.0)


def made_up(times: float = 1.0) -> list[PlanRun]:
    """Runs whose times are exactly what their work costs."""
    draw = random.Random(3)
    runs = []
    for _ in range(40):
        work = tuple(float(draw.randrange(10**6)) for _ in TRUE)
        seconds = times * (sum(units * cost for units, cost in zip(work, TRUE, strict=True)) + 1e5) / 1e9
        runs.append(PlanRun((0, 1, 2), work, seconds))
    return runs


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


def test_orders_are_measured() -> None:
    found = measured_runs(generate_stock_stream(5_000).table(), 1, Progress(), drawn=2)
    assert all(run.seconds > 0 for run in found)
    costs = calibrated(found)
    assert all(getattr(costs, name) > 0 for name in UNITS)


def test_the_page_has_every_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_costs, "measured_runs", lambda *_: made_up())
    monkeypatch.setattr(kernel_costs, "condition_costs", lambda name, *_: {NUMBER: 1.5 if name == "fused" else 2.5})
    page = make_page(Settings(names=("kernel-costs",)), Progress())
    assert all(f"| {name.replace('_', ' ')} | " in page for name in UNITS) and "| number | 2.5 | 1.5 |" in page
