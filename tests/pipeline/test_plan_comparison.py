"""A new plan beside the current one: when it is better, and what is said of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from cep_pipeline.pipeline.replanning import PlanComparison


def comparison(**changes: Any) -> PlanComparison:
    return replace(PlanComparison(False, 1.0, 0.5), **changes)


@pytest.mark.parametrize(
    ("changes", "better"),
    [
        ({}, True),
        ({"same": True}, False),
        ({"ln_new": 1.0}, False),
        ({"minimum_gain": 0.3}, True),
        ({"minimum_gain": 0.4}, False),
    ],
)
def test_a_better_plan_saves_more_than_the_least_gain(changes: dict[str, Any], better: bool) -> None:
    assert comparison(**changes).better is better


def test_a_comparison_says_what_is_saved_or_lost() -> None:
    said = [
        comparison(ln_current=math.log(200.0), ln_new=math.log(150.0)),
        comparison(ln_current=math.log(100.0), ln_new=math.log(150.0)),
        comparison(ln_current=0.0, ln_new=1e-12),
        comparison(ln_current=0.0, ln_new=-0.3, minimum_gain=0.5),
    ]
    assert [one.describe() for one in said] == [
        "by cost the new plan saves 25.0%",
        "by cost the new plan takes 50.0% more",
        "by cost the new plan is as good",
        "by cost the new plan saves 25.9%; it has to save more than 50.0% (minimum_gain)",
    ]
