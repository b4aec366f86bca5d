"""Where the minimal distance comes from."""

from __future__ import annotations

import json

import pytest

from cep_pipeline.adaptation.distance import (
    DISTANCES,
    AverageRelativeDifference,
    Distances,
    Fixed,
    MetaAdaptive,
    adapted,
    average_relative_difference,
    distance_rule,
)
from cep_pipeline.adaptation.invariants import invariants_of
from cep_pipeline.errors import InputError
from cep_pipeline.planning import plan
from tests.adaptation.drifting import snapshot
from tests.adaptation.test_invariants import ABC, CALM

MADE = plan(ABC, CALM, "event_frequency")  # rates 15, 10 and 5
FIRST, SECOND = invariants_of(MADE, ABC)


def test_the_average_relative_difference() -> None:
    """Of conditions that differ by (10 - 5) / 5, (15 - 5) / 5 and (15 - 10) / 10: the second is no block's tightest."""
    [clause] = MADE.patterns[0].clauses
    assert average_relative_difference(clause.comparisons) == pytest.approx((1 + 2 + 0.5) / 3)
    assert average_relative_difference([]) == 0.0
    rule = AverageRelativeDifference()
    begun = rule.begin(MADE)
    assert begun.everywhere == 0.5  # (1 + 0.5) / 2, and no more than the largest distance
    assert rule.after_replanning(begun, [FIRST], -1.0) == begun


def test_the_average_of_close_comparisons_is_the_distance() -> None:
    made = plan(ABC, snapshot({"A": 12.0, "B": 10.0, "C": 8.0}), "event_frequency")
    assert AverageRelativeDifference().begin(made).everywhere == pytest.approx((0.25 + 0.2) / 2)


def test_a_fixed_distance_stays() -> None:
    begun = Fixed(0.2).begin(MADE)
    assert begun == Distances(0.2)
    assert Fixed(0.2).after_replanning(begun, [FIRST], 0.9) == begun


def test_the_meta_adaptive_rule() -> None:
    """A replanning that gained under 5 %: min(2 d + 0.01, 0.5); else d / 2."""
    assert adapted(0.0, 0.0) == 0.01
    assert adapted(0.1, 0.0499) == pytest.approx(0.21)
    assert adapted(0.3, -2.0) == 0.5
    assert adapted(0.5, 0.05) == 0.25
    assert adapted(0.0, 1.0) == 0.0


def test_meta_adaptive_for_all() -> None:
    rule = MetaAdaptive()
    distances = rule.begin(MADE)
    assert distances.of([FIRST, SECOND]) == 0.0
    for gain, expected in ((0.01, 0.01), (0.0, 0.03), (-1.0, 0.07), (0.2, 0.035)):
        distances = rule.after_replanning(distances, [FIRST], gain)
        assert distances.of([FIRST, SECOND]) == pytest.approx(expected)


def test_meta_adaptive_for_each_invariant() -> None:
    rule = MetaAdaptive(Fixed(0.1), per_invariant=True)
    distances = rule.after_replanning(rule.begin(MADE), [FIRST], 0.01)
    assert distances.of([FIRST, SECOND]) == {FIRST.key: pytest.approx(0.21), SECOND.key: 0.1}
    distances = rule.after_replanning(distances, [SECOND], 0.5)
    assert distances.of([FIRST, SECOND]) == {FIRST.key: pytest.approx(0.21), SECOND.key: 0.05}
    again = Distances.from_json(json.loads(json.dumps(distances.to_json())))
    assert again == distances


def test_meta_adaptive_begins_with_no_more_than_its_largest() -> None:
    assert MetaAdaptive(AverageRelativeDifference()).begin(MADE).everywhere == 0.5


def test_rules_by_name() -> None:
    assert distance_rule(0.3) == Fixed(0.3)
    assert [distance_rule(name) for name in DISTANCES] == list(DISTANCES.values())
    with pytest.raises(InputError, match=r"no distance 'big'; there are: a number, average_relative_difference"):
        distance_rule("big")
    with pytest.raises(InputError, match="0 or more"):
        distance_rule(-1)
    with pytest.raises(InputError, match="row 3: no distances"):
        Distances.from_json({"own": 3}, "row 3")
