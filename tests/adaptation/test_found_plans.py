"""Plans that are found again: they keep what they say of their numbers, and rest on the new comparisons."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation.decisions import decision_function
from cep_pipeline.errors import PlanError
from cep_pipeline.planning.make_plan import Replanner, runs_of
from cep_pipeline.statistics.terms import terms_of
from tests.adaptation import drifting
from tests.statistics.market import parse
from tests.thoroughness import examples


@settings(max_examples=examples(40))
@given(data=st.data(), planner=st.sampled_from(["greedy", "zstream", "zstream_ordered", "dp_left_deep"]))
def test_a_plan_that_is_found_again_keeps_its_numbers(data: st.DataObject, planner: str) -> None:
    pattern = data.draw(drifting.patterns())[0]
    replanner = Replanner(pattern, planner, "instances")
    plan = replanner.written(replanner.search(data.draw(drifting.snapshots([pattern]))))
    again = replanner.search(data.draw(drifting.snapshots([pattern])))
    if not replanner.is_of(plan, again):
        assert runs_of(replanner.written(again), pattern.name) != runs_of(plan, pattern.name)
        return
    [confirmed], [before], [anew] = (
        made.patterns for made in (replanner.confirmed(plan, again), plan, replanner.written(again))
    )
    for one, old, new in zip(confirmed.clauses, before.clauses, anew.clauses, strict=True):
        assert (one.steps, one.nodes, one.ln_cost) == (old.steps, old.nodes, old.ln_cost)
        assert one.comparisons == new.comparisons


def test_what_a_snapshot_does_not_know_is_said() -> None:
    """Of a leaf, as planning says it; of a condition there is a prior, also where it was measured before."""
    pattern = parse(drifting.PATTERNS[2])[0]
    leaves, conditions = terms_of([pattern])
    rates, shares = {leaf.key: 2.0 for leaf in leaves}, {condition.key: 0.1 for condition in conditions}
    decision, replanner = decision_function("constant_threshold"), Replanner(pattern, "greedy", "throughput")
    known = drifting.snapshot(rates, shares)
    plan = replanner.written(replanner.search(known))
    states = decision.begin(plan, [pattern], known), decision_function("invariant").begin(plan, [pattern], known)
    assert decision.decide(states[0], drifting.snapshot(rates)).replan
    assert (
        replanner.search(drifting.snapshot(rates)).orderings
        == Replanner(pattern, "greedy", "throughput").search(drifting.snapshot(rates)).orderings
    )
    lacking = drifting.snapshot(dict(list(rates.items())[1:]), shares)
    for asked in (
        lambda: replanner.search(lacking),
        lambda: decision.decide(states[0], lacking),
        lambda: decision_function("invariant").decide(states[1], lacking),
    ):
        with pytest.raises(PlanError, match="no arrival rate"):
            asked()
