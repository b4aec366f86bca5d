"""Decision functions: what they decide, why, and what they remember."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cep_pipeline.adaptation.decisions import (
    DECISION_FUNCTIONS,
    Deviation,
    decision_function,
    deviations,
    numbers_in,
    numbers_now,
)
from cep_pipeline.adaptation.distance import Distances, MetaAdaptive
from cep_pipeline.adaptation.invariants import Verification
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.pipeline.configuration import AdaptationSettings, StatisticsSettings
from cep_pipeline.planning import Plan, plan
from cep_pipeline.planning.clause_questions import questions_of
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.statistics.terms import terms_of
from tests.adaptation.drifting import PATTERNS, snapshot
from tests.adaptation.test_invariants import ABC, CALM
from tests.statistics.market import parse

SLOWLY = snapshot({"A": 15.0, "B": 11.0, "C": 10.5})
CROSSED = snapshot({"A": 15.0, "B": 10.0, "C": 11.0})


def shared(patterns: Sequence[Pattern], share: float) -> StatisticsSnapshot:
    """Every leaf has the rate 1, every condition this selectivity."""
    leaves, conditions = terms_of(patterns)
    return snapshot({leaf.key: 1.0 for leaf in leaves}, {condition.key: share for condition in conditions})


def greedy(stats: StatisticsSnapshot) -> Plan:
    return plan(ABC, stats, "greedy", "throughput")


def test_static_and_unconditional() -> None:
    made = greedy(CALM)
    for name, replan in (("static", False), ("unconditional", True)):
        decision = decision_function(name)
        state = decision.begin(made, ABC, CALM)
        verdicts = [decision.decide(state, stats) for stats in (CALM, CROSSED)]
        assert [verdict.replan for verdict in verdicts] == [replan, replan]
        assert all(verdict.reason and verdict.checks == () for verdict in verdicts)


def test_constant_threshold() -> None:
    made = greedy(CALM)
    moved = snapshot({"A": 15.0, "B": 10.0, "C": 7.0})  # by 40 %
    for threshold, replan in ((0.39, True), (0.4, True), (0.41, False)):
        decision = decision_function("constant_threshold", threshold=threshold)
        state = decision.begin(made, ABC, CALM)
        verdict = decision.decide(state, moved)
        assert verdict.replan == replan
        assert [one.what for one in verdict.checks if isinstance(one, Deviation)] == ["A", "B", "C"]
        assert not decision.decide(decision.replanned(state, verdict, made, moved, gain=0.0), moved).replan
    assert verdict.reason == "no number has moved by 41.0% or more"
    down = decision_function("constant_threshold", threshold=0.5).decide(
        state, snapshot({"A": 7.5, "B": 1.0, "C": 5.0})
    )
    assert down.replan and len(down.checks) == 1
    assert down.reason == "pattern one: A moved from 15 to 7.5, by 50.0%, 50.0% or more"


def test_thresholds_look_at_selectivities_and_at_nothing_twice() -> None:
    text = "NAME {} PATTERN SEQ(A a, B b) WHERE a.diff < b.diff AND [sector] AND a.price > 3 WITHIN 2 seconds"
    patterns = parse(text.format("one")) + parse(text.format("two"))
    before = shared(patterns, 0.5)
    asked = questions_of(patterns)
    known = {name: numbers_now(asked[name], before) for name in asked}
    found = list(deviations(known, asked, shared(patterns, 0.25)))
    assert len(found) == len({one.what for one in found}) == 4
    assert {one.pattern for one in found} == {"one"}
    assert [round(one.relative, 9) for one in found if "diff" in one.what] == [0.5]


def test_nothing_seen_is_not_nothing_to_come() -> None:
    """A leaf without events counts as half an event: it can move, and by a finite share."""
    nothing = snapshot({"A": 0.0, "B": 1.0, "C": 1.0})
    made = plan(ABC, nothing, "greedy")
    for before in (numbers_now(questions_of(ABC)["one"], nothing), numbers_in(made, "one")):
        found = list(deviations({"one": before}, questions_of(ABC), CALM))
        assert found[0].before == 0.5 / 1000
        assert found[0].relative > 1000


@pytest.mark.parametrize("planner", ["trivial", "greedy", "zstream"])
def test_a_plan_holds_the_numbers_that_it_rests_on(planner: str) -> None:
    for text in PATTERNS:
        patterns = parse(text)
        stats = shared(patterns, 0.3)
        made = plan(patterns, stats, planner)
        asked = questions_of(patterns)["one"]
        assert numbers_in(made, "one").items() <= numbers_now(asked, stats).items()
        if "[sector]" not in text:  # of agreement a plan names some pairs
            assert numbers_in(made, "one") == numbers_now(asked, stats)
    decision = decision_function("constant_threshold", threshold=0.5)
    assert not decision.decide(decision.begin(made, patterns), stats).replan
    assert decision.decide(decision.begin(made, patterns), shared(patterns, 0.1)).replan


def test_invariants_decide_by_order_not_by_size() -> None:
    """A leaf that doubles without passing another one asks for nothing; one that passes does, by however little."""
    made = greedy(CALM)
    decision = decision_function("invariant")
    state = decision.begin(made, ABC, CALM)
    held = decision.decide(state, SLOWLY)
    assert (held.replan, held.reason, held.violated) == (False, "all 2 invariants hold", ())
    assert len(held.checks) == 2
    broken = decision.decide(state, CROSSED)
    assert broken.replan
    assert broken.reason == "pattern one, step 1: c rather than b: 11 exceeds 10"
    assert broken.violated == (state.invariants[0],)
    assert [isinstance(one, Verification) for one in broken.checks] == [True]  # nothing beyond the first violation
    assert (
        not decision_function("invariant", distance=0.2)
        .decide(decision_function("invariant", distance=0.2).begin(made, ABC, CALM), CROSSED)
        .replan
    )


def test_the_distance_of_a_pipeline_is_above_the_error_of_the_estimates() -> None:
    settings, epsilon = AdaptationSettings(), StatisticsSettings().epsilon
    assert isinstance(settings.distance, float)
    assert settings.distance > (1 + epsilon) / (1 - epsilon) - 1, "of the ratio of two counts"
    assert settings.distance >= settings.minimum_gain, "a plan that saves less is not taken"
    made = greedy(CALM)
    for rate, by_default, at_zero in ((13.83, False, True), (14.4, False, True), (14.6, True, True)):
        moved = snapshot({"A": 15.0, "B": 13.81, "C": rate})
        for asked, replan in ((settings, by_default), (AdaptationSettings(distance=0), at_zero)):
            function = asked.function()
            assert function.decide(function.begin(made, ABC, CALM), moved).replan == replan


def test_a_new_plan_has_invariants_of_its_own() -> None:
    decision = decision_function("invariant")
    state = decision.begin(greedy(CALM), ABC, CALM)
    verdict = decision.decide(state, CROSSED)
    again = greedy(CROSSED)
    deployed = decision.replanned(state, verdict, again, CROSSED, gain=0.3)
    assert deployed.plan is again and deployed.snapshot is CROSSED
    assert not decision.decide(deployed, CROSSED).replan
    kept = decision.replanned(state, verdict, state.plan, CROSSED, gain=-0.1)
    assert kept.invariants == state.invariants


@pytest.mark.parametrize("per_invariant", [False, True])
def test_replannings_that_gain_little_stop(per_invariant: bool) -> None:
    """Two rates that change places by little again and again: the distance grows until nobody asks any more."""
    near = [snapshot({"A": 15.0, "B": 10.0, "C": c}) for c in (10.5, 9.5)]
    decision = decision_function("invariant", distance=MetaAdaptive(per_invariant=per_invariant))
    state = decision.begin(greedy(near[1]), ABC, near[1])
    asked = []
    for turn in range(8):
        stats = near[turn % 2]
        verdict = decision.decide(state, stats)
        asked.append(verdict.replan)
        if verdict.replan:
            state = decision.replanned(state, verdict, greedy(stats), stats, gain=0.01)
    assert asked == [True] * 3 + [False] * 5
    assert bool(state.distances.own) == per_invariant


def test_planners_without_invariants_are_checked_by_thresholds() -> None:
    for planner in ("ii_random", "ii_greedy"):
        decision = decision_function("invariant", threshold=0.5)
        state = decision.begin(plan(ABC, CALM, planner), ABC, CALM)
        assert state.invariants == ()
        assert decision.decide(state, CROSSED).reason == "pattern one: C moved from 5 to 11, by 120.0%, 50.0% or more"
        calm = decision.decide(state, snapshot({"A": 15.0, "B": 10.0, "C": 7.0}))
        assert (calm.replan, len(calm.checks)) == (False, 3)


def test_the_patterns_order_is_not_asked_for_again() -> None:
    decision = decision_function("invariant")
    state = decision.begin(plan(ABC, CALM, "trivial"), ABC, CALM)
    verdict = decision.decide(state, CROSSED)
    assert not verdict.replan
    assert verdict.reason == "nothing of the plan was decided by its statistics"
    assert verdict.checks == ()


def test_decisions_go_on_where_they_stopped() -> None:
    """A process that checks once a day keeps the plan and its distances, and no more."""
    decision = decision_function("invariant", distance="meta_adaptive")
    state = decision.begin(greedy(CALM), ABC, CALM)
    after = decision.replanned(state, decision.decide(state, CROSSED), greedy(CROSSED), CROSSED, gain=0.01)
    assert after.distances == Distances(0.01)
    again = Plan.from_json(after.plan.to_json()), Distances.from_json(after.distances.to_json())
    resumed = decision.begin(again[0], ABC, distances=again[1])
    assert (resumed.invariants, resumed.distances) == (after.invariants, after.distances)
    for stats in (CALM, SLOWLY, CROSSED):
        assert decision.decide(resumed, stats) == decision.decide(after, stats)


def test_settings_are_checked() -> None:
    assert list(DECISION_FUNCTIONS) == ["static", "unconditional", "constant_threshold", "invariant"]
    for name, settings, message in (
        (
            "clever",
            {},
            "no decision function 'clever'; there are: static, unconditional, constant_threshold, invariant",
        ),
        ("static", {"k": 1}, "has no 'k'; it has no settings"),
        ("constant_threshold", {"t": 0.5}, "has no 't'; its settings are: threshold"),
        ("constant_threshold", {"threshold": 0.0}, "above 0"),
        ("invariant", {"threshold": -1.0}, "above 0"),
        ("invariant", {"k": 0}, "one invariant or more"),
        ("invariant", {"distance": "far"}, "no distance 'far'"),
    ):
        with pytest.raises(InputError, match=message):
            decision_function(name, **settings)  # type: ignore[arg-type]
