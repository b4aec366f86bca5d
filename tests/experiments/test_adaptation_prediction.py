"""Plans of `cep experiment adaptation`, and the events that follow them."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import cep_pipeline as cep
from benchmarks.experiments.adaptation.hindsight import (
    cheapest_sequence,
    in_hindsight,
    price_of_a_switch,
    tries_and_matches,
)
from benchmarks.experiments.adaptation.patterns import (
    SEQUENCE,
    fitted_pattern,
    matches_in,
)
from benchmarks.experiments.adaptation.prediction import REACHES, prediction, saved
from benchmarks.experiments.adaptation.streams import permuted_rates
from benchmarks.experiments.findings import rank_correlation
from cep_pipeline.adaptation import AdaptiveDetection
from cep_pipeline.adaptation.plan_makers import SinglePlanMaker
from cep_pipeline.detection.detect import detect
from cep_pipeline.detection.planned import replanner_for
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.statistics import estimate_statistics


def permuted_loop(every_us: int) -> AdaptiveDetection:
    return AdaptiveDetection(planner="greedy", mechanism="lazy_chain_nfa", every=f"{every_us} us", minimum_gain=0.0)


def test_predictions_follow_the_stream() -> None:
    steady, changing = (permuted_rates(20_000, phase, seed=1) for phase in (20_000, 700))
    found, costs = [], []
    for stream in (steady, changing):
        fitted = fitted_pattern(stream, SEQUENCE, 5, 1, 100_000.0, 30)
        loop = permuted_loop(50_000_000)
        found.append(prediction(loop, fitted.pattern, stream.events))
        reaching = replace(loop, window=f"{found[-1].reach * 50_000_000} us")
        begin = stream.before(found[-1].reach * 50_000_000)
        planned_from = estimate_statistics([fitted.pattern], begin, seed=1)
        costs.append(saved(reaching, fitted.pattern, stream.events, found[-1], planned_from))
    assert set(found[0].error) == set(REACHES)
    assert found[0].error[8] < found[0].error[1] < found[1].error[1]
    for told in found:
        assert told.error[told.reach] == min(told.error.values())
    assert costs[0][1] == pytest.approx(1.0, abs=0.2)
    assert costs[1][0] > 1.0


def test_the_first_plan_is_the_one_that_others_are_compared_with() -> None:
    """One made from other statistics than those of the stream: planning always saves what it costs too much."""
    stream = permuted_rates(20_000, 10_000, seed=1)
    before, after = (stream.events.slice(first, 10_000) for first in (0, 10_000))
    counts = [
        {of["values"]: of["counts"] for of in part["symbol"].value_counts().to_pylist()} for part in (before, after)
    ]
    frequent, rare = max(permutations(counts[0], 2), key=lambda two: counts[0][two[0]] * counts[1][two[1]])
    (pattern,) = parse_patterns(
        f'PATTERN SEQ("{frequent}" a, "{rare}" b, "{frequent}" c) WITHIN 9 seconds', stream.schema
    )
    loop = permuted_loop(10_000_000)
    told = prediction(loop, pattern, before)
    reaching = replace(loop, window=f"{told.reach * 10_000_000} us")
    own, other = (
        estimate_statistics([pattern], events, seed=1) for events in (stream.before(told.reach * 10**7), after)
    )
    costs = [
        saved(reaching, pattern, before, told, replace(planned_from, start_us=own.start_us, end_us=own.end_us))
        for planned_from in (own, other)
    ]
    assert costs[0] == pytest.approx((1.0, 1.0), abs=0.03)
    assert min(costs[1]) > 1.1


@given(st.integers(1, 5), st.integers(1, 3), st.data())
def test_the_cheapest_sequence_is_the_cheapest_of_all(intervals: int, plans: int, data: st.DataObject) -> None:
    costs = data.draw(arrays(float, (intervals, plans), elements=st.integers(0, 20).map(float)))
    window, price = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([0.0, 0.25, 1.0]))
    begin = data.draw(st.integers(1, intervals))

    def of(sequence: tuple[int, ...]) -> float:
        """The costs of the intervals, with those of replaced plans over the window behind them."""
        own = sum(costs[interval, plan] for interval, plan in enumerate(sequence))
        for interval, (old, new) in enumerate(pairwise(sequence), 1):
            own += price * costs[interval : interval + window, old].sum() if old != new else 0
        return float(own)

    found = tuple(cheapest_sequence(costs, begin, window, price))
    allowed = [one for one in product(range(plans), repeat=intervals) if not any(one[:begin])]
    assert found in allowed and of(found) == pytest.approx(min(map(of, allowed)))


@pytest.mark.parametrize(("planner", "mechanism"), [("greedy", "lazy_chain_nfa"), ("zstream", "evaluation_tree")])
@pytest.mark.parametrize(
    "structure", ["SEQ(a, b, c)", "OR(SEQ(a, b), SEQ(c, d, e))", "AND(a, b, c, NOT(d))", "SEQ(a, KL(b), c)"]
)
def test_plans_that_take_turns_find_the_same_matches(structure: str, planner: str, mechanism: str) -> None:
    stream = permuted_rates(4_000, 1_000, seed=1)
    typed = structure
    for name, stock in (("a", "S00"), ("b", "S05"), ("c", "S09"), ("d", "S02"), ("e", "S07")):
        typed = re.sub(rf"\b{name}\b", f'"{stock}" {name}', typed)
    (pattern,) = parse_patterns(f"PATTERN {typed} WITHIN 4 seconds", stream.schema)
    loop = AdaptiveDetection(planner=planner, mechanism=mechanism, every="2 seconds", minimum_gain=0.0)
    following = prediction(loop, pattern, stream.events, (1,)).following
    anew = SinglePlanMaker(pattern, replanner_for(pattern, mechanism, planner))
    plans = [anew.first(snapshot) for snapshot in following]
    expected = matches_in(detect([pattern], stream.events, mechanism=mechanism, output="count")[pattern.name])
    for sequence in (plans, plans[:3], plans[:1]):
        tries, matches = tries_and_matches(loop, pattern, stream.events, sequence)
        assert tries > 0 and matches == expected
    best = in_hindsight(loop, pattern, stream.events, following[-1], following, 1, 2)
    assert best.matches == expected and best.tries > 0 and best.price >= 0


def test_plans_in_hindsight_are_less_work_than_the_first_one() -> None:
    stream = permuted_rates(20_000, 5_000, seed=1)
    fitted = fitted_pattern(stream, SEQUENCE, 5, 1, 100_000.0, 30)
    loop = permuted_loop(fitted.every_us)
    following = prediction(loop, fitted.pattern, stream.events, (1,)).following
    best = in_hindsight(loop, fitted.pattern, stream.events, following[0], following, 1, fitted.intervals)
    first = SinglePlanMaker(fitted.pattern, replanner_for(fitted.pattern, "lazy_chain_nfa", "greedy")).first(
        following[0]
    )
    tries, matches = tries_and_matches(loop, fitted.pattern, stream.events, [first])
    assert best.switches and best.matches == matches and best.tries < tries


def test_a_switch_costs_what_the_old_plan_does_in_the_window_behind() -> None:
    """Nothing, by an order that begins with what matches begin with: of that the old plan reads no more."""
    stream = permuted_rates(4_000, 4_000, seed=1)
    (pattern,) = parse_patterns('NAME p PATTERN SEQ("S00" a, "S05" b, "S09" c) WITHIN 4 seconds', stream.schema)
    loop = AdaptiveDetection(planner="trivial", mechanism="lazy_chain_nfa", every="1 seconds", minimum_gain=0.0)
    planned = cep.plan([pattern], estimate_statistics([pattern], stream.events, seed=1), planner="trivial")
    prices = {}
    for order in permutations("abc"):
        [clause] = planned.patterns[0].clauses
        steps = tuple(sorted(clause.steps, key=lambda step, order=order: order.index(step.variable)))  # type: ignore[misc]
        plan = replace(planned, patterns=(replace(planned.patterns[0], clauses=(replace(clause, steps=steps),)),))
        prices[order] = price_of_a_switch(loop, pattern, stream.events, plan, 40, 4)
    assert prices["a", "b", "c"] == prices["a", "c", "b"] == 0
    assert 0 < prices["c", "b", "a"] < 1 and 0 < prices["b", "c", "a"] < 1


def test_ranks_are_correlated() -> None:
    assert rank_correlation([1, 2, 3], [10, 200, 201]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert rank_correlation([1, 1, 1], [3, 2, 1]) == 0.0
