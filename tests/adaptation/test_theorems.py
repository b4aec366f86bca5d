"""The theorems of the acep-invariants patent, on drawn statistics before and after a change."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation.invariants import invariants_of
from cep_pipeline.adaptation.plan_makers import same_plans
from cep_pipeline.planning import COSTS, plan
from tests.adaptation import drifting
from tests.adaptation.memo_cells import verify_all_cells
from tests.adaptation.verified import verify
from tests.thoroughness import examples

BY_BLOCKS = ("event_frequency", "greedy")
BY_CELLS = ("dp_left_deep", "zstream", "dp_bushy")
WITH_INVARIANTS = (*BY_BLOCKS, *BY_CELLS, "zstream_ordered")
costs = st.tuples(st.sampled_from(sorted(COSTS)), st.sampled_from([0.0, 0.5])).filter(
    lambda cost: cost != ("latency", 0.5)
)


@pytest.mark.parametrize("planner", WITH_INVARIANTS)
@settings(max_examples=examples(120))
@given(data=st.data(), cost=costs, k=st.sampled_from([1, 2, None]))
def test_theorem_1(planner: str, data: st.DataObject, cost: tuple[str, float], k: int | None) -> None:
    """Whenever an invariant is violated, planning again gives another plan."""
    patterns = data.draw(drifting.patterns())
    before, after = data.draw(drifting.snapshots(patterns)), data.draw(drifting.snapshots(patterns))
    made = plan(patterns, before, planner, *cost, compare=False)
    invariants = invariants_of(made, patterns, k)
    assert all(not one.violated or drifting.rounding_decides(one) for one in verify(invariants, patterns, before))
    violated = [one for one in verify(invariants, patterns, after) if one.violated]
    again = plan(patterns, after, planner, *cost, compare=False)
    for one in violated:
        assert drifting.rounding_decides(one) or not same_plans(made, again)


@pytest.mark.parametrize("planner", BY_BLOCKS)
@settings(max_examples=examples(120))
@given(data=st.data(), cost=costs)
def test_theorem_2(planner: str, data: st.DataObject, cost: tuple[str, float]) -> None:
    """With all deciding conditions: planning again gives another plan if and only if one of them is violated."""
    patterns = data.draw(drifting.patterns())
    before, after = data.draw(drifting.snapshots(patterns)), data.draw(drifting.snapshots(patterns))
    made = plan(patterns, before, planner, *cost, compare=False)
    found = verify(invariants_of(made, patterns, k=None), patterns, after)
    assume(not any(drifting.rounding_decides(one) for one in found))
    again = plan(patterns, after, planner, *cost, compare=False)
    assert any(one.violated for one in found) == (not same_plans(made, again))


@pytest.mark.parametrize("planner", [*BY_CELLS, "zstream_ordered"])
@settings(max_examples=examples(120))
@given(data=st.data(), cost=costs)
def test_theorem_2_of_dynamic_programming(planner: str, data: st.DataObject, cost: tuple[str, float]) -> None:
    """The same with all memo cells that the chosen plan depends on."""
    patterns = data.draw(drifting.patterns())
    before, after = data.draw(drifting.snapshots(patterns)), data.draw(drifting.snapshots(patterns))
    made = plan(patterns, before, planner, *cost, compare=False)
    calm = verify_all_cells(made, patterns, before)
    assert all(not one.violated or drifting.rounding_decides(one) for one in calm)
    found = verify_all_cells(made, patterns, after)
    assume(not any(drifting.rounding_decides(one) for one in found))
    again = plan(patterns, after, planner, *cost, compare=False)
    assert any(one.violated for one in found) == (not same_plans(made, again))
