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
from cep_pipeline.statistics.observed import NodeCounts, Observed, OutputProfile
from tests.statistics.market import market, parse


def watch(
    patterns: list[Pattern], events: pa.Table, plan: Plan | None = None, mechanism: str | None = None
) -> dict[tuple[str, frozenset[str]], NodeCounts]:
    """What happened at the nodes of plans, by their variables."""
    _, metrics = cep.detect(patterns, events, plan, mechanism, output="count", metrics=True)
    return {
        (name, frozenset(variables)): node
        for node in metrics.nodes
        for name, _, variables in ((node.pattern, node.clause, node.node), *node.shared_with)
    }


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
        planned.append(replace(one, clauses=(replace(clause, steps=steps, order=(), alternatives=(), comparisons=()),)))
    seen = watch(patterns, events, replace(plan, patterns=tuple(planned), sharing="prefix"), mechanism)
    wide, narrow = seen["wide", frozenset("ab")], seen["narrow", frozenset("pq")]
    assert (wide.candidates, wide.passes) == (narrow.candidates, narrow.passes) and wide.passes
    assert seen["other", frozenset("ab")].candidates > wide.candidates * 0.5


def test_the_nodes_of_a_plan_are_observed_with_what_was_tested_and_passed() -> None:
    [pattern] = parse("NAME p PATTERN SEQ(A a, B b) WHERE a.price < b.price WITHIN 2 seconds")
    events = market(900)
    observation = watch([pattern], events)["p", frozenset("ab")]
    [exact] = cep.estimate_statistics([pattern], events, max_pairs=10**9).selectivities
    assert observation.tested
    assert observation.candidates == exact.pairs
    assert observation.passes == pytest.approx(exact.value * exact.pairs)


def test_what_is_observed_is_handed_on_as_json() -> None:
    observed = Observed((OutputProfile("both", ("a", "b"), (1, 2)),))
    content = json.loads(json.dumps(observed.to_json()))
    assert Observed.from_json(content) == observed
    assert Observed.from_json({**content, "observations": [["both", ["a"], 3, 2]]}) == observed  # of an earlier record
    with pytest.raises(InputError, match="no record of what detection observed"):
        Observed.from_json({**content, "profiles": [["p"]]})
    with pytest.raises(InputError, match="version"):
        Observed.from_json({"version": 99})


def test_plans_go_by_the_profiles_of_their_own_patterns() -> None:
    patterns = parse(
        "NAME both PATTERN AND(A a, B b) WITHIN 2 seconds; NAME one PATTERN AND(A a, C c) WITHIN 2 seconds"
    )
    known = OutputProfile("both", ("a", "b"), (1, 2))
    gone = replace(known, pattern="gone")
    assert Observed((known, gone)).profiles_of(patterns) == (known,)
