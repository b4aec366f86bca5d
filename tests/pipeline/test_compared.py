"""What a check records: all comparisons of few patterns, of many those that decide and how many there are."""

from __future__ import annotations

import pytest

from cep_pipeline.adaptation import decision_function
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.pipeline.plan_checks import MOST_RECORDED, compared_json, deviation_json, verification_json
from cep_pipeline.planning import plan
from tests.adaptation.drifting import snapshot
from tests.adaptation.verified import verify
from tests.statistics.market import parse

FEW, MANY = 3, 60
KINDS = [f"K{place:02d}" for place in range(MANY + 2)]
CALM = {kind: 10.0 + place % 7 for place, kind in enumerate(KINDS)}


def patterns_of(number: int) -> list[Pattern]:
    return parse(
        ";\n".join(
            f"NAME p{place} PATTERN AND({', '.join(f'{kind} v{kind}' for kind in KINDS[place : place + 3])}) "
            "WITHIN 2 seconds"
            for place in range(number)
        )
    )


@pytest.mark.parametrize("number", [FEW, MANY])
@pytest.mark.parametrize("every", [1, 5])
def test_of_many_invariants_those_are_recorded_that_are_violated_or_next_to(number: int, every: int) -> None:
    """One kind of so many grows: all of them alike, which violates nothing, or some alone."""
    patterns, calm = patterns_of(number), snapshot(CALM)
    fresh = snapshot(
        {kind: rate * (1.8 if place % every == 0 else 1) for place, (kind, rate) in enumerate(CALM.items())}
    )
    function = decision_function("invariant")
    state = function.begin(plan(patterns, calm, "greedy", "throughput"), patterns, calm)
    found = verify(state.invariants, patterns, fresh)
    told = compared_json(state, function.decide(state, fresh), patterns, fresh)
    whole = [verification_json(one, patterns) for one in found]
    assert told["verified"] == len(found) and told["violated"] == sum(one.violated for one in found)
    assert bool(told["violated"]) == (every > 1)
    assert told["tightest"] == min(whole, key=lambda one: one["distance_to_violation"])
    if number == FEW:
        assert len(found) <= MOST_RECORDED and told["verdicts"] == whole
        return
    assert len(told["verdicts"]) == MOST_RECORDED < len(found)
    assert told["verdicts"] == [one for one in whole if one in told["verdicts"]], "in the order of the plan"
    left = [one for one in whole if one not in told["verdicts"]]
    assert not any(one["violated"] for one in left), "there are fewer than are recorded"
    farthest = max(one["distance_to_violation"] for one in told["verdicts"])
    assert farthest <= min(one["distance_to_violation"] for one in left)


def test_of_many_numbers_those_are_recorded_that_have_moved_most() -> None:
    patterns, calm = patterns_of(MANY), snapshot(CALM)
    fresh = snapshot({kind: rate * (1 + place / 100) for place, (kind, rate) in enumerate(CALM.items())})
    function = decision_function("constant_threshold", threshold=5.0)
    state = function.begin(plan(patterns, calm, "greedy", "throughput"), patterns, calm)
    verdict = function.decide(state, fresh)
    told = compared_json(state, verdict, patterns, fresh)
    assert told["numbers"] == len(verdict.checks) == len(KINDS) and told["verified"] == 0
    assert told["moved"] == [deviation_json(one) for one in verdict.checks][-MOST_RECORDED:]
