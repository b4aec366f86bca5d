"""Thresholds on the numbers of one pattern in a row are those on its numbers one by one, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.adaptation import decision_function
from cep_pipeline.adaptation.thresholds import Deviation, ThresholdCheck, deviations, numbers_now, questions_of
from cep_pipeline.errors import PlanError
from cep_pipeline.planning.replanning import Replanner
from cep_pipeline.statistics.terms import terms_of
from tests.adaptation import drifting
from tests.statistics.market import parse
from tests.thoroughness import examples


def up_to(threshold: float, found: Sequence[Deviation]) -> list[Deviation]:
    small = list(takewhile(lambda one: one.relative < threshold, found))
    return [*found][: len(small) + 1]


@settings(max_examples=examples(60))
@given(data=st.data(), threshold=st.sampled_from([0.05, 0.5, 2.0]))
def test_thresholds_in_a_row_are_the_readable_ones(data: st.DataObject, threshold: float) -> None:
    pattern = data.draw(drifting.patterns())[0]
    before, after = (data.draw(drifting.snapshots([pattern])) for _ in range(2))
    questions = questions_of([pattern])[pattern.name]
    check, known = ThresholdCheck(pattern.name, questions), numbers_now(questions, before)
    assert dict(zip(check.keys, check.numbers(before).tolist(), strict=True)) == known
    for now in (after, before, after):
        expected = list(deviations({pattern.name: known}, {pattern.name: questions}, now))
        first, found = check.first_moved(now, check.numbers(before), threshold)
        assert tuple(found) == tuple(up_to(threshold, expected))
        assert (first is None) == all(one.relative < threshold for one in expected)
        assert first is None or found[first] == found[-1] == expected[first]
    assert check.first_moved(after, check.numbers(before), math.inf)[1] == tuple(
        deviations({pattern.name: known}, {pattern.name: questions}, after)
    )


def test_numbers_of_one_key_count_once() -> None:
    """Two events of a type, and two conditions that ask the same of them."""
    [pattern] = parse("NAME p PATTERN SEQ(A a, A b, A c) WHERE a.diff < b.diff AND b.diff < c.diff WITHIN 2 seconds")
    questions = questions_of([pattern])[pattern.name]
    snapshot = drifting.snapshot({"A": 2.0})
    assert list(ThresholdCheck("p", questions).keys) == list(numbers_now(questions, snapshot))
    assert len(questions[0].asked_numbers) > len(numbers_now(questions, snapshot))


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
