"""What detection observed, held against counting, and what plans become of it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import Plan
from cep_pipeline.statistics.observed import (
    Observation,
    Observed,
    clause_key,
    combine_observed,
    merge_observations,
    observations_of,
)
from cep_pipeline.statistics.snapshot import Source
from tests.statistics.market import market, parse

SCHEMA = cep.StreamSchema.from_dict(
    {
        "base_type": "Event",
        "type_attribute": "kind",
        "attributes": {"kind": "string", "hot": "float64", "warm": "float64", "x": "float64"},
    },
    name="correlated",
)


def correlated(events: int, seed: int = 3) -> pa.Table:
    """One b in ten is hot, and then it is warm too: `a.hot < b.hot` and `b.warm > c.warm` hold of the same ones."""
    draw = np.random.default_rng(seed)
    kinds = draw.choice(list("ABCD"), events)
    hot = (kinds == "B") & (draw.random(events) < 0.1)
    return SCHEMA.table(
        [
            {
                "timestamp": 250_000 * place,
                "kind": str(kind),
                "hot": 2.0 if is_hot else 1.0 + 0.001 * draw.random() if kind == "A" else 0.5,
                "warm": 2.0 if is_hot else 1.0 if kind == "C" else 0.5,
                "x": draw.random(),
            }
            for place, (kind, is_hot) in enumerate(zip(kinds, hot, strict=True))
        ]
    )


def watch(
    patterns: list[Pattern], events: pa.Table, plan: Plan | None = None, mechanism: str | None = None
) -> Observed:
    _, metrics = cep.detect(patterns, events, plan, mechanism, output="count", metrics=True)
    return Observed(observations_of(patterns, metrics.nodes))


SHARED = """
NAME wide PATTERN AND(A a, B b, C c) WHERE a.hot < b.hot AND a.x <= 1.5 AND b.warm > c.warm WITHIN 4 seconds;
NAME narrow PATTERN AND(B q, A p, D d) WHERE q.hot > p.hot AND p.x <= 1.5 AND d.x < 0.5 WITHIN 2 seconds;
NAME other PATTERN AND(A a, B b) WHERE a.x < b.x WITHIN 4 seconds
"""


@pytest.mark.parametrize("mechanism", ["multi_pattern_nfa", "multitree"])
def test_what_a_shared_node_observed_is_credited_to_all_that_share_it(mechanism: str) -> None:
    """Each in its own conditions and variables; the statistics of either are combined with it."""
    patterns, events = cep.parse_patterns(SHARED, SCHEMA), correlated(600)
    sampled = cep.estimate_statistics(patterns, events, max_pairs=50)
    plan = cep.plan(patterns, sampled, planner="trivial")
    orders = {"wide": "abc", "narrow": "pqd", "other": "ab"}
    planned = []
    for one in plan.patterns:
        [clause] = one.clauses
        steps = tuple(sorted(clause.steps, key=lambda step: orders[one.pattern].index(step.variable)))
        planned.append(replace(one, clauses=(replace(clause, steps=steps, alternatives=(), comparisons=()),)))
    shared = watch(patterns, events, replace(plan, patterns=tuple(planned), sharing="prefix"), mechanism)
    seen = {(one.pattern, one.variables): one for one in shared.observations}
    wide, narrow = seen["wide", ("a", "b")], seen["narrow", ("q", "p")]
    assert wide.tested == ("a.hot < b.hot",) and narrow.tested == ("q.hot > p.hot",)
    assert (wide.candidates, wide.passes) == (narrow.candidates, narrow.passes) and wide.passes
    assert wide.clause != narrow.clause
    assert seen["other", ("a", "b")].candidates > wide.candidates * 0.5
    for pattern in patterns[:2]:
        combined = combine_observed(sampled, [pattern], Observed((wide, narrow)))
        assert combined.selectivities != sampled.selectivities


@pytest.mark.parametrize("mechanism", ["fused", "evaluation_tree", "eager_nfa", "lazy_chain_nfa", "lazy_tree_nfa"])
def test_all_pairs_that_detection_tested_give_the_share_of_all_pairs(mechanism: str) -> None:
    [pattern] = parse("NAME p PATTERN SEQ(A a, B b, C c) WHERE a.price < b.price AND b.diff < c.diff WITHIN 2 seconds")
    events = market(900)
    plan = cep.plan([pattern], cep.estimate_statistics([pattern], events), planner="trivial")
    exact = cep.estimate_statistics([pattern], events, max_pairs=10**9)
    sampled = cep.estimate_statistics([pattern], events, max_pairs=700)
    snapshot = combine_observed(sampled, [pattern], watch([pattern], events, plan, mechanism))
    clause = pattern.clauses[0]
    first, _ = sorted(clause.conjuncts, key=lambda conjunct: "price" not in str(conjunct))
    before, after, truth = (s.selectivity(pattern, clause, first) for s in (sampled, snapshot, exact))
    assert before.source is Source.SAMPLED_PAIRS
    if mechanism == "lazy_tree_nfa":  # it tests some of the pairs in other orders
        return
    assert after.source is Source.COMBINED
    assert after.high - after.low < before.high - before.low
    assert after.low <= truth.value <= after.high
    assert abs(after.value - truth.value) <= abs(before.value - truth.value)
    assert snapshot.joints == ()


def test_a_stream_that_has_changed_is_planned_by_its_sample() -> None:
    [pattern] = parse("NAME p PATTERN SEQ(A a, B b) WHERE a.price < b.price WITHIN 2 seconds")
    events = market(900)
    sampled = cep.estimate_statistics([pattern], events, max_pairs=300)
    [observation] = watch([pattern], events).observations
    changed = replace(observation, passes=observation.candidates // 50)
    assert combine_observed(sampled, [pattern], Observed((changed,))) == sampled
    exact = cep.estimate_statistics([pattern], events, max_pairs=10**9)
    assert combine_observed(exact, [pattern], Observed((observation,))) == exact


def test_what_was_never_sampled_is_known_by_observation() -> None:
    [pattern] = parse("NAME p PATTERN SEQ(A a, B b) WHERE a.price < b.price WITHIN 2 seconds")
    nothing = cep.estimate_statistics([pattern], market(0))
    observed = watch([pattern], market(900))
    [selectivity] = combine_observed(nothing, [pattern], observed).selectivities
    [observation] = observed.observations
    assert selectivity.source is Source.OBSERVED
    assert selectivity.value == observation.passes / observation.candidates
    assert 0 < selectivity.low < selectivity.value < selectivity.high < 1


def test_observations_are_of_a_text_and_add_up() -> None:
    text = "NAME p PATTERN SEQ(A a, B b) WHERE a.price < b.price WITHIN 2 seconds"
    [pattern], [other], [renamed] = (
        parse(text),
        parse(text.replace("2 s", "3 s")),
        parse(text.replace("NAME p", "NAME q")),
    )
    observed = watch([pattern], market(300))
    assert clause_key(renamed, renamed.clauses[0]) == clause_key(pattern, pattern.clauses[0])
    sampled = cep.estimate_statistics([pattern, other], market(0))
    assert combine_observed(sampled, [other], observed) == sampled
    [one] = observed.observations
    assert merge_observations([one, one]) == (replace(one, candidates=2 * one.candidates, passes=2 * one.passes),)
    assert (observed + observed).observations == merge_observations([one, one])
    assert Observed.from_json(json.loads(json.dumps(observed.to_json()))) == observed
    with pytest.raises(InputError, match="no record of what detection observed"):
        Observed.from_json({**observed.to_json(), "observations": [["p"]]})
    with pytest.raises(InputError, match="version"):
        Observed.from_json({"version": 99})
    with pytest.raises(ValueError, match="3 of 2 candidates"):
        Observation("p", "", ("a",), (), 2, 3)


@pytest.mark.parametrize("condition", ["a.price < b.price", "abs(a.price - b.price) < 5"])
def test_of_another_day_the_interval_has_the_share_as_often_as_it_says(condition: str) -> None:
    """What yesterday's detection observed makes today's estimate better, and no surer than it is."""
    [pattern] = parse(f"NAME p PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 2 seconds")
    inside, errors = [], []
    for day in range(60):
        observed = watch([pattern], market(600, seed=day + 1000))
        [exact] = cep.estimate_statistics([pattern], market(600, seed=day), max_pairs=10**9).selectivities
        sampled = cep.estimate_statistics([pattern], market(600, seed=day), max_pairs=100, seed=day)
        [before], [after] = sampled.selectivities, combine_observed(sampled, [pattern], observed).selectivities
        assert after.low is not None and after.high is not None
        inside.append(after.low <= exact.value <= after.high)
        errors.append([abs(before.value - exact.value), abs(after.value - exact.value)])
    assert np.mean(inside) >= 0.9
    assert np.less(*np.mean(errors, axis=0)[::-1])
