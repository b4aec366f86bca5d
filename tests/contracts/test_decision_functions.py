"""What every decision function must do, whatever the planner and the statistics."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation.decisions import DECISION_FUNCTIONS, Deviation, decision_function
from cep_pipeline.adaptation.plan_makers import gain, ln_cost_on
from cep_pipeline.planning import PLANNERS, plan
from tests.adaptation import drifting
from tests.thoroughness import examples


@pytest.mark.parametrize("name", sorted(DECISION_FUNCTIONS))
@settings(max_examples=examples(60))
@given(data=st.data(), planner=st.sampled_from(sorted(PLANNERS)))
def test_decide_and_go_on(name: str, data: st.DataObject, planner: str) -> None:
    settings_of = {"invariant": st.fixed_dictionaries({"k": st.sampled_from([1, 3, None])})}
    decision = decision_function(name, **data.draw(settings_of.get(name, st.just({}))))
    patterns = data.draw(drifting.patterns())
    before, after = data.draw(drifting.snapshots(patterns)), data.draw(drifting.snapshots(patterns))
    made = plan(patterns, before, planner, "throughput", compare=False)
    state = decision.begin(made, patterns, before)
    # Statistics that have not changed ask for nothing.
    calm = decision.decide(state, before)
    assert calm.replan == (name == "unconditional")
    assert calm.violated == ()
    verdict = decision.decide(state, after)
    assert decision.decide(state, after) == verdict
    assert verdict.reason
    assert bool(verdict.violated) <= verdict.replan
    if name in ("static", "unconditional"):
        assert verdict.checks == ()
    if verdict.replan:
        again = plan(patterns, after, planner, "throughput", compare=False)
        gained = gain(ln_cost_on(made, patterns, after), again.ln_cost)
        going_on = decision.replanned(state, verdict, again, after, gain=gained)
        assert going_on.plan is again
        assert decision.decide(going_on, after).replan == (name == "unconditional")
        if name == "constant_threshold":  # also where the old plan stays
            kept = decision.replanned(state, verdict, made, after, gain=gained)
            assert not decision.decide(kept, after).replan
            assert isinstance(verdict.checks[-1], Deviation)
