"""A new plan beside the current one: when it is better, and what is said of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from cep_pipeline.pipeline.plan_comparison import PlanComparison, Trial


def comparison(**changes: Any) -> PlanComparison:
    return replace(PlanComparison(False, 1.0, 0.5, (Trial(10, {}), Trial(5, {}))), **changes)


@pytest.mark.parametrize(
    ("changes", "better"),
    [
        ({}, True),
        ({"same": True}, False),
        ({"ln_new": 1.0}, False),
        ({"trials": None}, True),
        ({"trials": (Trial(10, {}), Trial(11, {}))}, False),
        ({"trials": (Trial(0, {}), Trial(0, {}))}, True),
        ({"trials": (Trial(0, {}), Trial(1, {}))}, False),
    ],
)
def test_a_better_plan_costs_less_and_does_no_more(changes: dict[str, Any], better: bool) -> None:
    assert comparison(**changes).better is better


def test_a_comparison_says_what_is_saved_or_lost() -> None:
    said = [
        comparison(ln_current=math.log(200.0), ln_new=math.log(150.0)),
        comparison(ln_current=math.log(100.0), ln_new=math.log(150.0)),
        comparison(ln_current=0.0, ln_new=1e-12, trials=None),
        comparison(ln_current=0.0, ln_new=-0.3, trials=(Trial(7, {}), Trial(7, {}))),
    ]
    assert [one.describe() for one in said] == [
        "by cost the new plan saves 25.0%, over a sample of the latest day it saves 50.0% of the work",
        "by cost the new plan takes 50.0% more, over a sample of the latest day it saves 50.0% of the work",
        "by cost the new plan is as good",
        "by cost the new plan saves 25.9%, over a sample of the latest day it takes the same work",
    ]
