"""What a plan costs on other statistics than its own."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation.plan_makers import gain, ln_cost_on, same_plans
from cep_pipeline.planning import PLANNERS, plan
from tests.adaptation import drifting
from tests.thoroughness import examples


@settings(max_examples=examples(40))
@given(data=st.data(), planner=st.sampled_from(sorted(PLANNERS)), alpha=st.sampled_from([0.0, 0.5]))
def test_on_its_own_statistics_it_costs_what_it_says(data: st.DataObject, planner: str, alpha: float) -> None:
    patterns = data.draw(drifting.patterns())
    before, after = data.draw(drifting.snapshots(patterns)), data.draw(drifting.snapshots(patterns))
    made, again = (plan(patterns, stats, planner, "throughput", alpha) for stats in (before, after))
    assert ln_cost_on(made, patterns, before) == pytest.approx(made.ln_cost)
    if same_plans(made, again):
        assert ln_cost_on(made, patterns, after) == pytest.approx(again.ln_cost)
    elif planner == "dp_left_deep" and not alpha:
        assert ln_cost_on(made, patterns, after) >= again.ln_cost - 1e-9


def test_gain() -> None:
    assert gain(0.0, 0.0) == 0.0
    assert gain(math.log(4), math.log(1)) == pytest.approx(0.75)
    assert gain(math.log(1), math.log(4)) == pytest.approx(-3.0)
    assert math.isfinite(gain(0.0, 1e6))
    assert gain(-math.inf, -math.inf) == 0.0
    assert gain(7.0, 7.0 - 2e-9) > 0 == gain(7.0, 7.0 - 1e-10) == gain(7.0, 7.0 + 1e-10)
