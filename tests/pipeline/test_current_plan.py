"""Which recorded plan a daily run goes on with."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cep_pipeline as cep
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.errors import InputError
from cep_pipeline.pipeline import plans
from cep_pipeline.pipeline.configuration import PatternSet
from cep_pipeline.planning import Plan
from cep_pipeline.warehouse.records import PlanRecord
from tests.statistics.market import market, parse

PATTERNS = tuple(parse("NAME rise PATTERN SEQ(A a, B b, C c) WHERE a.diff < b.diff WITHIN 2 seconds"))
SNAPSHOT = cep.estimate_statistics(PATTERNS, market(200))
PATTERN_SET = PatternSet("all", Path("all.sase"), PATTERNS, "v1", "greedy", None)


def record(**changes: Any) -> PlanRecord:
    made = plan_for(PATTERNS, SNAPSHOT, {"rise": "fused"}, "greedy")
    one = PlanRecord("all", 3, made.to_json(), made.explain(), "first", "v1", "run", datetime.now(UTC))
    return replace(one, **changes)


def work_with(current: PlanRecord | None) -> Any:
    tables = SimpleNamespace(current_plan=lambda name: current)
    return SimpleNamespace(day=date(2024, 3, 4), run_id="day", tables=tables, timed=lambda step: nullcontext())


def of_version_1() -> dict[str, Any]:
    """What the first version of the format looked like."""
    content = record().plan
    return {**content, "version": 1, "planner": "greedy", "cost_model": "throughput", "unit": "partial matches"}


def test_a_plan_for_these_patterns_and_mechanisms_is_kept() -> None:
    one = record()
    assert plans.current_plan(work_with(one), PATTERN_SET) is one
    assert plans.current_plan(work_with(None), PATTERN_SET) is None


@pytest.mark.parametrize(
    ("changes", "pattern_set", "reason"),
    [
        ({"plan": of_version_1()}, PATTERN_SET, "the current plan is of version 1 of the format"),
        ({"pattern_set_version": "v0"}, PATTERN_SET, "the pattern set has changed"),
        ({}, replace(PATTERN_SET, mechanism="eager_nfa"), "the mechanism of the pattern set has changed"),
    ],
)
def test_another_plan_counts_as_none_and_the_next_one_says_why(
    changes: dict[str, Any], pattern_set: PatternSet, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = record(**changes)
    work = work_with(before)
    assert plans.current_plan(work, pattern_set) is None
    asked: dict[str, Any] = {}
    monkeypatch.setattr(plans, "record_plan", lambda *_, **options: asked.update(options))
    plans.plan_day(work, pattern_set, SNAPSHOT)
    assert asked["reason"] == f"{reason}, by the statistics of 2024-03-04"
    assert asked["in_place_of"] is before


def test_a_file_of_an_older_version_is_to_be_made_again() -> None:
    with pytest.raises(InputError, match=r"plan\.json: a plan of version 1; .*make it again"):
        Plan.from_json(of_version_1(), "plan.json")
