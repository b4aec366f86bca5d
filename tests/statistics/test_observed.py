"""What detection observed: the work at the nodes of plans, and the last events of matches."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import Plan
from cep_pipeline.statistics.observed import (
    Observation,
    Observed,
    OutputProfile,
    merge_observations,
    observations_of,
)
from tests.statistics.market import market, parse


def watch(
    patterns: list[Pattern], events: pa.Table, plan: Plan | None = None, mechanism: str | None = None
) -> Observed:
    _, metrics = cep.detect(patterns, events, plan, mechanism, output="count", metrics=True)
    return Observed(observations_of(metrics.nodes))


SHARED = """
NAME wide PATTERN AND(A a, B b, C c) WHERE a.price < b.price AND b.diff > c.diff WITHIN 4 seconds;
NAME narrow PATTERN AND(B q, A p, C d) WHERE q.price > p.price AND d.diff < 0.5 WITHIN 2 seconds;
NAME other PATTERN AND(A a, B b) WHERE a.diff < b.diff WITHIN 4 seconds
"""


@pytest.mark.parametrize("mechanism", ["multi_pattern_nfa", "multitree"])
def test_what_a_shared_node_observed_is_credited_to_all_that_share_it(mechanism: str) -> None:
    """Each in its own variables."""
    patterns, events = parse(SHARED), market(600)
    plan = cep.plan(patterns, cep.estimate_statistics(patterns, events, max_pairs=50), planner="trivial")
    orders = {"wide": "abc", "narrow": "pqd", "other": "ab"}
    planned = []
    for one in plan.patterns:
        [clause] = one.clauses
        steps = tuple(sorted(clause.steps, key=lambda step: orders[one.pattern].index(step.variable)))
        planned.append(replace(one, clauses=(replace(clause, steps=steps, alternatives=(), comparisons=()),)))
    shared = watch(patterns, events, replace(plan, patterns=tuple(planned), sharing="prefix"), mechanism)
    seen = {(one.pattern, one.variables): one for one in shared.observations}
    wide, narrow = seen["wide", ("a", "b")], seen["narrow", ("p", "q")]
    assert (wide.candidates, wide.passes) == (narrow.candidates, narrow.passes) and wide.passes
    assert seen["other", ("a", "b")].candidates > wide.candidates * 0.5


def test_the_nodes_of_a_plan_are_observed_with_what_was_tested_and_passed() -> None:
    [pattern] = parse("NAME p PATTERN SEQ(A a, B b) WHERE a.price < b.price WITHIN 2 seconds")
    events = market(900)
    [observation] = watch([pattern], events).observations
    [exact] = cep.estimate_statistics([pattern], events, max_pairs=10**9).selectivities
    assert (observation.pattern, observation.variables) == ("p", ("a", "b"))
    assert observation.candidates == exact.pairs
    assert observation.passes == pytest.approx(exact.value * exact.pairs)


def test_observations_add_up_and_are_handed_on_as_json() -> None:
    [pattern] = parse("NAME p PATTERN SEQ(A a, B b) WHERE a.price < b.price WITHIN 2 seconds")
    observed = watch([pattern], market(300))
    [one] = observed.observations
    assert merge_observations([one, one]) == (replace(one, candidates=2 * one.candidates, passes=2 * one.passes),)
    assert (observed + observed).observations == merge_observations([one, one])
    assert Observed.from_json(json.loads(json.dumps(observed.to_json()))) == observed
    with pytest.raises(InputError, match="no record of what detection observed"):
        Observed.from_json({**observed.to_json(), "observations": [["p"]]})
    with pytest.raises(InputError, match="version"):
        Observed.from_json({"version": 99})
    with pytest.raises(ValueError, match="3 of 2 candidates"):
        Observation("p", ("a",), 2, 3)


def test_plans_go_by_the_profiles_of_their_own_patterns() -> None:
    patterns = parse(
        "NAME both PATTERN AND(A a, B b) WITHIN 2 seconds; NAME one PATTERN AND(A a, C c) WITHIN 2 seconds"
    )
    known = OutputProfile("both", ("a", "b"), (1, 2))
    gone = replace(known, pattern="gone")
    assert Observed((), (known, gone)).profiles_of(patterns) == (known,)
