"""The loop over patterns that are planned together: decided, planned again and switched by component."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import cep_pipeline as cep
from cep_pipeline.adaptation.decisions import ConstantThreshold, InvariantBased, Static, Unconditional
from cep_pipeline.adaptation.loop import AdaptiveDetection
from cep_pipeline.errors import InputError, PlanError, TooManyMatches
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning import Plan

detect_adaptively = partial(cep.detect_adaptively, minimum_gain=0.0)
"""Which plans are used does not depend on the clock then."""

SECOND = 1_000_000
SCHEMA = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
TEXT = """
NAME rise PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 3 seconds;
NAME calm PATTERN SEQ(D d, E e, F f) WHERE d.x <= e.x WITHIN 3 seconds;
NAME slow PATTERN SEQ(A p, B q, C r) WHERE p.x < q.x AND q.x < r.x WITHIN 4 seconds;
NAME still PATTERN SEQ(D d, E e, F f, NOT(A n)) WHERE d.x <= e.x WITHIN 2 seconds;
NAME next PATTERN SEQ(A a, C c) WHERE skip_till_next_match(a, c) { a.x < c.x } WITHIN 3 seconds
"""
MOVING, STAYING = ("rise", "slow"), ("calm", "still")
SEARCHED: dict[str, Any] = {"planner": "simulated_annealing", "search": {"steps": 2_000}, "every_events": 200}


def patterns_of(text: str = TEXT) -> list[Pattern]:
    return cep.parse_patterns(text, SCHEMA)


def drifting(events: int = 2000) -> pa.Table:
    """Five events a second; which of A, B and C is the rare one changes, D, E and F stay as they are."""
    chance = random.Random(2)
    stream = []
    for at in range(events):
        weights = [9, 9, 9, 1, 6, 3]
        weights[at * 4 // events % 3] = 1
        kind = chance.choices("ABCDEF", weights)[0]
        stream.append({"timestamp": at // 5 * SECOND, "kind": kind, "x": chance.randrange(9)})
    return SCHEMA.table(stream)


EVENTS = drifting()


def chosen(patterns: list[Pattern], mechanism: str | None) -> list[Pattern]:
    """Those that a mechanism for shared plans runs."""
    return [one for one in patterns if mechanism is None or one.name != "next"]


@pytest.mark.parametrize("mechanism", ["multi_pattern_nfa", "multitree", "fused", None])
@pytest.mark.parametrize("output", ["verbose", "count"])
def test_what_drifts_is_planned_again_and_switched_together(mechanism: str | None, output: str) -> None:
    patterns = chosen(patterns_of(), mechanism)
    decision = InvariantBased(threshold=0.9)
    given: dict[str, Any] = {"mechanism": mechanism, "output": output}
    tables, report = detect_adaptively(patterns, EVENTS, decision=decision, **given, **SEARCHED)
    for name, expected in cep.detect(patterns, EVENTS, **given).items():
        assert tables[name] == expected and expected.num_rows
    assert report.together == {"rise": MOVING, "calm": STAYING}
    assert set(report.decided) == {*MOVING, *STAYING}
    assert {check.patterns for check in report.checks} == {MOVING, STAYING}
    switched = [switch for switch in report.switches if switch.patterns == MOVING]
    timestamps, seqs = EVENTS.column("timestamp").cast(pa.int64()), EVENTS.column("seq")
    assert len(switched) >= 2
    for switch in switched:
        assert switch.pattern == "rise" and switch.gain > 0 and switch.old_plan != switch.new_plan
        assert switch.t0 == (timestamps[switch.row].as_py(), seqs[switch.row].as_py())
        assert len(switch.orders.split("; ")) == 2
        [check] = [one for one in report.checks if one.row == switch.row and one.pattern == "rise"]
        assert check.deployed and check.reason == switch.reason
    replanned = {name: sum(one.replanned for one in report.checks if one.pattern == name) for name in report.together}
    assert replanned["rise"] > replanned["calm"]
    if mechanism in ("multitree", "multi_pattern_nfa") and output == "verbose":
        both = [{node.pattern, *(name for name, *_ in node.shared_with)} for node in report.metrics.nodes]
        assert set(MOVING) in both and set(STAYING) in both


def test_a_threshold_on_all_numbers_asks_too() -> None:
    """Where invariants hold, what is shared may still be worth another plan: any number that moves says so."""
    patterns = chosen(patterns_of(), "fused")
    _, report = detect_adaptively(patterns, EVENTS, decision=ConstantThreshold(0.4), **SEARCHED)
    replanned = [check for check in report.checks if check.replanned]
    assert any("moved from" in check.reason for check in replanned if check.pattern == "rise")
    _, never = detect_adaptively(patterns, EVENTS, decision=ConstantThreshold(1e9), **SEARCHED)
    assert not never.replannings and len(never.checks) == len(report.checks)


@pytest.mark.parametrize("sharing", ["prefix", "subexpression"])
@pytest.mark.parametrize("planner", ["tabu", "merge_decomposition", "sharing"])
def test_the_first_plan_may_be_a_shared_one(planner: str, sharing: Any) -> None:
    """What its patterns share, and by which planner, is what the plans after it go by."""
    patterns = chosen(patterns_of(), "fused")
    snapshot = cep.estimate_statistics(patterns, EVENTS.slice(0, 500))
    options: dict[str, Any] = {"steps": 500} if planner == "tabu" else {}
    plan = cep.plan(patterns, snapshot, planner=planner, sharing=sharing, **options)
    expected = cep.detect(patterns, EVENTS)
    for named in (None, "dp_left_deep"):
        tables, report = detect_adaptively(
            patterns, EVENTS, plan, snapshot, planner=named, every_events=200, search={"steps": 500}
        )
        assert tables == expected
        assert MOVING in report.together.values()
        moving = [check for check in report.checks if check.pattern == "rise"]
        if planner == "sharing":  # orders as they are written: planning again would change nothing
            assert not any(check.replanned for check in moving)
        else:
            assert any(check.replanned for check in moving)
        if planner == "tabu":
            assert {switch.pattern for switch in report.switches} >= {"rise"}


def test_plans_of_each_pattern_alone_may_come_first_or_stay() -> None:
    patterns = chosen(patterns_of(), "fused")
    snapshot = cep.estimate_statistics(patterns, EVENTS.slice(0, 500))
    alone = cep.plan(patterns, snapshot, planner="dp_left_deep")
    expected = cep.detect(patterns, EVENTS)
    tables, report = detect_adaptively(patterns, EVENTS, alone, decision=Unconditional(), **SEARCHED)
    assert tables == expected and report.switches and report.together
    tables, report = detect_adaptively(patterns, EVENTS, decision=Static(), **SEARCHED)
    assert tables == expected and not report.checks
    for planner in ("none", "reordering"):  # which share nothing: each pattern is decided about for itself
        tables, report = detect_adaptively(patterns, EVENTS, planner=planner, every_events=200)
        assert tables == expected and not report.together


def test_a_plan_is_deployed_only_if_it_saves_enough() -> None:
    patterns = chosen(patterns_of(), "fused")
    for least in (0.0, 0.9):
        _, report = detect_adaptively(patterns, EVENTS, decision=Unconditional(), minimum_gain=least, **SEARCHED)
        made = [check for check in report.checks if check.replanned and check.pattern == "rise"]
        assert len(made) == 8
        assert all(check.gain is not None for check in made)
        assert [check.deployed for check in made] == [(check.gain or 0.0) > least for check in made]
        assert any(check.deployed for check in made) is (least == 0.0)


def test_a_search_goes_on_from_the_plan_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the component alone, with its share of the steps, and on the statistics of the decision."""
    from cep_pipeline.adaptation import plan_makers as plans_anew

    patterns = chosen(patterns_of(), "fused")
    asked: list[tuple[tuple[str, ...], Plan | None, int]] = []
    plan_for = plans_anew.plan_for

    def noted(part: Any, snapshot: Any, *given: Any, **options: Any) -> Plan:
        asked.append((tuple(one.name for one in part), options.get("start"), options["steps"]))
        return plan_for(part, snapshot, *given, **options)

    monkeypatch.setattr(plans_anew, "plan_for", noted)
    _, report = detect_adaptively(patterns, EVENTS, decision=Unconditional(), **SEARCHED)
    assert [names for names, start, _ in asked if start is None] == [MOVING, STAYING]
    assert {steps for *_, steps in asked} == {1_000}
    started = [start.plan_id for names, start, _ in asked if start is not None and names == MOVING]
    in_use = [switch.new_plan for switch in report.switches if switch.patterns == MOVING]
    assert in_use and set(in_use[:-1]) <= set(started)


def test_the_output_comes_as_it_is_known_in_the_memory_of_some_windows() -> None:
    patterns = chosen(patterns_of(), "multitree")
    loop = AdaptiveDetection(mechanism="multitree", detect_events=200, **SEARCHED)
    run = loop.begin(patterns, (EVENTS.slice(first, 50) for first in range(0, EVENTS.num_rows, 50)))
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in run.schemas}
    for name, batch in run.batches():
        found[name].append(batch)
    assert list(run.schemas) == [pattern.name for pattern in patterns]
    assert run.most_events_held <= 1_400
    for name, expected in cep.detect(patterns, EVENTS).items():
        assert pa.Table.from_batches(found[name], run.schemas[name]) == expected
        assert len(found[name]) > 2


def test_a_limit_holds_for_each_pattern() -> None:
    patterns = chosen(patterns_of(), "multitree")
    most = {name: table.num_rows for name, table in cep.detect(patterns, EVENTS).items()}
    largest = max(most, key=lambda name: most[name])
    for mechanism in ("multitree", "fused"):
        given: dict[str, Any] = {"mechanism": mechanism, "detect_events": 300, **SEARCHED}
        tables, _ = detect_adaptively(patterns, EVENTS, limit=most[largest], **given)
        assert tables[largest].num_rows == most[largest]
        with pytest.raises(TooManyMatches, match=largest):
            detect_adaptively(patterns, EVENTS, limit=most[largest] - 1, **given)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"search": {"steps": 9}}, InputError, "steps: for planners of many patterns together"),
        ({"planner": "tabu", "search": {"step": 9}}, InputError, "a search has no setting 'step'; it has: neighbour"),
        ({"planner": "tabu", "search": {"steps": 0}}, InputError, "a search of 0 steps"),
        ({"planner": "tabu", "search": {"neighbourhood": "near"}}, InputError, "near"),
        ({"planner": "tabu", "cost": "kernel"}, InputError, "planned together by the cost 'throughput'"),
        ({"planner": "tabu", "alpha": 0.5}, InputError, "with alpha 0.5"),
        (
            {"planner": "tabu", "mechanism": "multi_pattern_nfa", "search": {"sharing": "subexpression"}},
            PlanError,
            "runs orders, and subexpressions are shared by trees",
        ),
    ],
)
def test_wrong_settings_are_told_before_any_event_is_read(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    def events() -> Any:
        raise AssertionError("events were read")
        yield

    with pytest.raises(error, match=message):
        detect_adaptively(chosen(patterns_of(), "multitree"), events(), **settings)
