"""What detection observed, held against counting, and what plans become of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import Plan
from cep_pipeline.planning.numbers.clause_questions import clause_statistics
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
CHAIN = """
NAME chain PATTERN AND(A a, B b, C c, D d)
WHERE a.hot < b.hot AND b.warm > c.warm AND abs(b.x - d.x) < 0.17
WITHIN 10 seconds
"""


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


def order_of(plan: Plan) -> str:
    return "".join(plan.patterns[0].clauses[0].order)


def work_of(pattern: Pattern, events: pa.Table, plan: Plan) -> int:
    """Partial matches that the kernel makes by a plan: those that pass the nodes but the last."""
    _, metrics = cep.detect([pattern], events, plan, "fused", metrics=True)
    return sum(node.passes for node in metrics.nodes if len(node.node) < len(pattern.clauses[0].positive))


def test_correlated_conditions_are_planned_by_what_detection_observed() -> None:
    """Under independence the plan is wrong; with the joint selectivity it is the one that makes fewest matches."""
    [pattern] = cep.parse_patterns(CHAIN, SCHEMA)
    events = correlated(1500)
    sampled = cep.estimate_statistics([pattern], events, max_pairs=4000)
    independent = cep.plan([pattern], sampled, planner="dp_left_deep")
    observed = watch([pattern], events, independent)
    snapshot = combine_observed(sampled, [pattern], observed)
    [joint] = snapshot.joints
    hot = len([row for row in events.to_pylist() if row["hot"] == 2.0]) / (events.num_rows / 4)
    assert joint.independent == pytest.approx(hot**2, rel=0.4)
    assert joint.value == pytest.approx(hot, rel=0.2)
    assert joint.low < joint.value < joint.high
    assert joint.conditions == tuple(sorted(joint.conditions)) and len(joint.conditions) == 2
    corrected = cep.plan([pattern], snapshot, planner="dp_left_deep")
    assert set(order_of(independent)[:3]) == set("abc")
    assert set(order_of(corrected)[:3]) != set("abc")
    assert work_of(pattern, events, corrected) < 0.6 * work_of(pattern, events, independent)
    assert Plan.from_json(json.loads(json.dumps(corrected.to_json()))) == corrected
    explained = corrected.explain()
    assert "a.hot < b.hot and b.warm > c.warm" in explained and "times what each alone says" in explained
    steps = corrected.patterns[0].clauses[0].steps
    _, metrics = cep.detect([pattern], events, corrected, "fused", metrics=True)
    ratios = [node.passes / math.exp(step.ln_partial_matches) for node, step in zip(metrics.nodes, steps, strict=True)]
    assert max(ratios[1:]) / min(ratios[1:]) < 4  # windows' edges and what a window is counted as; by independence: 10


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


def test_what_a_plan_corrects_is_not_corrected_again() -> None:
    """The next day observes the corrected plan: its joint selectivities do not pile up."""
    [pattern] = cep.parse_patterns(CHAIN, SCHEMA)
    sampled = cep.estimate_statistics([pattern], correlated(1500), max_pairs=4000)
    snapshot = combine_observed(sampled, [pattern], watch([pattern], correlated(1500), cep.plan([pattern], sampled)))
    again = combine_observed(snapshot, [pattern], watch([pattern], correlated(1500), cep.plan([pattern], snapshot)))
    assert again.joints == snapshot.joints != ()
    assert combine_observed(snapshot, [pattern], Observed()) == snapshot


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


def test_agreement_that_goes_with_a_condition_is_found() -> None:
    """Within a sector prices are alike: of the pairs that agree on it nearly all pass, of all pairs a third."""
    [pattern] = parse(
        "NAME p PATTERN SEQ(A a, B b, C c) WHERE [sector] AND abs(a.price - b.price) < 10 WITHIN 3 seconds"
    )
    events = market(900)
    level = {"x": 0.0, "y": 1000.0, "z": 2000.0}
    rows = events.to_pylist()
    for row in rows:
        row["price"] = level[row["sector"]] + row["price"] / 10
    table = pa.Table.from_pylist(rows, schema=events.schema)
    sampled = cep.estimate_statistics([pattern], table)
    snapshot = combine_observed(sampled, [pattern], watch([pattern], table, cep.plan([pattern], sampled, "trivial")))
    [joint] = snapshot.joints
    assert joint.value == pytest.approx(1 / 3, rel=0.1)
    assert joint.independent == pytest.approx(1 / 9, rel=0.1)


def test_conditions_that_exclude_each_other_are_found() -> None:
    [pattern] = parse(
        "NAME p PATTERN SEQ(A a, B b, C c) WHERE a.price < b.price AND b.price < 0.2 * c.price + 10 WITHIN 3 seconds"
    )
    events = market(1200)
    rows = events.to_pylist()
    for row in rows:  # a above 50: a b above it is above what any c allows
        row["price"] = 60 + row["price"] / 10 if row["symbol"] == "A" else row["price"]
    table = pa.Table.from_pylist(rows, schema=events.schema)
    sampled = cep.estimate_statistics([pattern], table)
    snapshot = combine_observed(sampled, [pattern], watch([pattern], table, cep.plan([pattern], sampled, "trivial")))
    [joint] = snapshot.joints
    assert joint.low < joint.value < joint.high < joint.independent / 2


def test_the_factor_decides_what_counts_as_dependent() -> None:
    [pattern] = cep.parse_patterns(CHAIN, SCHEMA)
    events = correlated(1500)
    sampled = cep.estimate_statistics([pattern], events)
    observed = watch([pattern], events, cep.plan([pattern], sampled))
    assert combine_observed(sampled, [pattern], observed, factor=20.0).joints == ()
    for factor in (1.0, 0.5, math.nan, math.inf):
        with pytest.raises(InputError, match="is above 1"):
            combine_observed(sampled, [pattern], observed, factor)


def test_a_joint_selectivity_is_of_conditions_that_share_variables_alike() -> None:
    """Of four A the chains of two conditions are corrected, the two conditions on one event are not."""
    text = "NAME p PATTERN SEQ(A a, A b, A c) WHERE a.price < b.price AND b.price < c.price WITHIN 2 seconds"
    star = text.replace("b.price < c.price", "a.price < c.price")
    longer = text.replace("A c)", "A c, A d)").replace(" WITHIN", " AND c.price < d.price WITHIN")
    [chain], [of_one], [of_four] = parse(text), parse(star), parse(longer)
    events = market(900)
    sampled = cep.estimate_statistics([chain, of_one, of_four], events)
    observed = watch([chain], events, cep.plan([chain], sampled, "trivial"))
    snapshot = combine_observed(sampled, [chain, of_one, of_four], observed, factor=1.2)
    [joint] = snapshot.joints
    assert joint.value == pytest.approx(1 / 6, rel=0.1) and joint.independent == pytest.approx(1 / 4, rel=0.1)
    found = [clause_statistics(p, p.clauses[0], snapshot).joints for p in (chain, of_one, of_four)]
    assert [[joint.positions for joint in joints] for joints in found] == [[(0, 1, 2)], [], [(0, 1, 2), (1, 2, 3)]]
    assert found[0][0].ln_ratio == pytest.approx(math.log(joint.value / joint.independent))


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


def test_nothing_that_passed_is_not_nothing_to_come() -> None:
    [pattern] = parse("NAME p PATTERN SEQ(A a, B b, C c) WHERE a.price < b.price AND b.diff < c.diff WITHIN 2 seconds")
    sampled = cep.estimate_statistics([pattern], market(900))
    plan = cep.plan([pattern], sampled, "trivial")
    observations = watch([pattern], market(900), plan).observations
    none = tuple(replace(o, passes=0) if len(o.variables) == 3 else o for o in observations)
    [joint] = combine_observed(sampled, [pattern], Observed(none)).joints
    assert joint.low < joint.value < joint.high < joint.independent
    assert isinstance(cep.plan([pattern], replace(sampled, joints=(joint,))), Plan)


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
