"""The detection-adaptation loop: plans follow a stream whose rates change, and the matches stay what they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_pipeline as cep
from cep_pipeline.adaptation import loop, plan_loop
from cep_pipeline.adaptation.decisions import DECISION_FUNCTIONS, InvariantBased, Unconditional, decision_function
from cep_pipeline.adaptation.distance import Distances, MetaAdaptive
from cep_pipeline.adaptation.loop import AdaptiveDetection
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.errors import InputError, PlanError, TooManyMatches, UnsupportedPattern
from cep_pipeline.patterns.pattern import Pattern
from tests.contracts.mechanisms import drawn
from tests.streams import Row, events_table, rows, stream_schema
from tests.thoroughness import examples

detect_adaptively = partial(cep.detect_adaptively, minimum_gain=0.0)
"""Which plans are used does not depend on the clock then."""

SECOND = 1_000_000
ABC = "NAME abc PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 3 seconds"
ORDERED = "NAME next PATTERN SEQ(A a, C c) WHERE skip_till_next_match(a, c) { a.x < c.x } WITHIN 3 seconds"


def drifting(events: int = 1200, changes: int = 4, seed: int = 3) -> pa.Table:
    """Two events a second; which of A, B and C is the rare one changes."""
    chance = random.Random(seed)
    stream = []
    for at in range(events):
        weights = [6, 6, 6]
        weights[at * changes // events % 3] = 1
        kind = chance.choices("ABC", weights)[0]
        stream.append({"timestamp": at // 2 * SECOND, "kind": kind, "x": chance.randrange(9), "s": chance.choice("pq")})
    return events_table(stream)


def patterns_of(*texts: str) -> list[Pattern]:
    return cep.parse_patterns("; ".join(texts), stream_schema())


def in_parts(table: pa.Table, size: int) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches():
        for first in range(0, batch.num_rows, size):
            yield batch.slice(first, size)


@pytest.mark.parametrize(
    ("mechanism", "planner"),
    [
        ("fused", "dp_left_deep"),
        ("fused", "dp_bushy"),
        ("lazy_chain_nfa", "greedy"),
        ("lazy_tree_nfa", "event_frequency"),
        ("evaluation_tree", "zstream"),
        (None, None),
    ],
)
@pytest.mark.parametrize("decision", DECISION_FUNCTIONS)
def test_the_matches_are_those_of_one_plan(mechanism: str | None, planner: str | None, decision: str) -> None:
    patterns, events = patterns_of(ABC, ABC.replace("abc", "few") + " OUTPUT NON_OVERLAP"), drifting()
    tables, report = detect_adaptively(
        patterns, events, decision=decision, mechanism=mechanism, planner=planner, every_events=100, detect_events=150
    )
    expected = cep.detect(patterns, events, mechanism=mechanism)
    assert tables == expected
    assert all(table.num_rows > 20 for table in tables.values())
    assert {check.row for check in report.checks} == (set() if decision == "static" else set(range(200, 1200, 100)))
    if decision != "static":
        assert {switch.pattern for switch in report.switches} == {"abc", "few"}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data(), stream_rows=rows(max_size=16))
def test_any_pattern_on_any_stream(mechanism: str, data: st.DataObject, stream_rows: list[Row]) -> None:
    """A decision at every event or two, the events at once or in parts, in every form of output."""
    pattern = drawn(data, mechanism, preferred=data.draw(st.booleans())).pattern
    table = events_table(stream_rows)
    counted = pattern.output.is_preferred or not has_output_policy(pattern)
    forms = ["verbose", "count"] if counted else ["verbose"]
    output = data.draw(st.sampled_from(forms))
    interval = data.draw(st.sampled_from([{"every_events": 1}, {"every_events": 2}, {"every": "2 seconds"}]))
    events = data.draw(st.sampled_from([table, in_parts(table, 1), in_parts(table, 3)]))
    tables, report = detect_adaptively(
        [pattern],
        events,
        mechanism=mechanism,
        decision=Unconditional(),
        output=output,
        detect_events=data.draw(st.sampled_from([1, 4])),
        **interval,
    )
    expected = cep.detect([pattern], table, mechanism=mechanism, output=output)
    [found], [wanted] = tables.values(), expected.values()
    assert found.schema.equals(wanted.schema, check_metadata=True)
    if output == "count":
        assert found == wanted
    else:
        assert found.column("match_id").equals(wanted.column("match_id"))
    assert report.events == len(stream_rows)


def test_a_switch_says_when_and_why() -> None:
    patterns, events = patterns_of(ABC), drifting()
    _, report = detect_adaptively(patterns, events, planner="event_frequency", every_events=100, window=200)
    assert len(report.switches) >= 3
    timestamps, seqs = events.column("timestamp").cast(pa.int64()), events.column("seq")
    checks = {check.row: check for check in report.checks}
    for before, switch in zip([None, *report.switches], report.switches, strict=False):
        assert switch.t0 == (timestamps[switch.row].as_py(), seqs[switch.row].as_py())
        assert switch.old_plan != switch.new_plan
        assert switch.gain > 0
        check = checks[switch.row]
        assert check.deployed and check.replanned and check.gain == switch.gain
        assert check.reason == switch.reason and "exceeds" in switch.reason
        assert check.timestamp_us == timestamps[switch.row - 1].as_py()
        assert before is None or before.row < switch.row
    assert {check.row for check in report.checks if check.deployed} == {switch.row for switch in report.switches}
    assert report.replannings >= len(report.switches)
    assert report.metrics.mechanisms == {"abc": "fused"}
    assert report.total.detecting > 0 and report.total.planning > 0 and report.total.deciding > 0
    assert 0 < report.overhead < 1


def test_events_are_looked_at_when_they_have_come() -> None:
    """Decisions rest on what came before them: whatever follows, they are the same."""
    patterns, events = patterns_of(ABC), drifting()
    _, whole = detect_adaptively(patterns, events, every_events=100)
    _, beginning = detect_adaptively(patterns, events.slice(0, 650), every_events=100)
    assert beginning.checks == tuple(check for check in whole.checks if check.row < 650)


def test_by_default_a_decision_is_taken_every_so_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "EVERY_EVENTS", 10)
    patterns, events = patterns_of(ABC), drifting(400)
    for stream in (events, in_parts(events, 37)):
        tables, report = detect_adaptively(patterns, stream, mechanism="lazy_chain_nfa", decision=Unconditional())
        assert tables == cep.detect(patterns, events)
        assert sorted({check.row for check in report.checks}) == [*range(20, 400, 10)]


def test_a_new_plan_is_used_only_where_it_is_better() -> None:
    patterns, events = patterns_of(ABC), drifting()
    _, report = detect_adaptively(patterns, events, decision="unconditional", every_events=100, minimum_gain=0.95)
    assert report.replannings == 10
    assert not report.switches
    assert any(check.gain for check in report.checks)


@pytest.mark.parametrize("run_s", [1e-9, 10.0])
def test_a_switch_is_made_where_it_pays(run_s: float) -> None:
    """By a clock that every run of detection moves on by as much, whatever it reads: that is the price of a switch."""
    patterns, events = patterns_of(ABC), drifting(changes=12)
    now = count()
    settings = {"planner": "event_frequency", "decision": Unconditional(), "every_events": 50, "detect_events": 50}
    free, always = cep.detect_adaptively(patterns, events, minimum_gain=0.0, **settings)
    paid, seldom = cep.detect_adaptively(patterns, events, clock=lambda: run_s * next(now), **settings)
    assert paid["abc"].equals(free["abc"])
    assert 0 < len(seldom.switches) < len(always.switches)
    assert all(check.gain > 0 for check in seldom.checks if check.deployed and check.gain is not None)


@pytest.mark.parametrize("size", [1, 37])
def test_the_price_of_a_switch_is_the_same_however_the_events_come(size: int) -> None:
    """A window is counted by events that have come, not by those that a table happens to hold already."""
    patterns, events = patterns_of(ABC.replace("3 seconds", "40 seconds")), drifting(changes=12)
    whole, parts = (
        cep.detect_adaptively(patterns, stream, planner="event_frequency", every_events=20, clock=lambda: 0.0)[1]
        for stream in (events, in_parts(events, size))
    )
    assert whole.switches == parts.switches
    assert 0 < len(whole.switches) < sum(check.gain is not None for check in whole.checks)


def test_refused_plans_do_not_put_off_a_switch() -> None:
    """A plan that stays the better one is put in use once the rent is paid, however often it was refused before."""
    for gain in (0.05, 0.3, 0.9):
        rule = plan_loop.SwitchRule()
        due = next(at for at in range(10, 100_000, 10) if rule.is_due(gain, at - 10, at, window=1_000))
        assert due <= 1_000 / gain + 10
        again = next(at for at in range(due + 10, 100_000, 10) if rule.is_due(gain, at - 10, at, window=1_000))
        assert again - due <= 1_000 / gain + 10
    # Short episodes that cost less than the price never lead to a switch while no long life of plans is in sight.
    rule = plan_loop.SwitchRule()
    assert not any(rule.is_due(0.1, at - 10, at, window=1_000) for at in range(20, 50_000, 20))


def test_a_plan_that_saves_less_than_the_minimum_has_gained_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much it would save: distances that follow what replanning brings grow by it.

    A plan that waits until its switch pays has not been judged: distances learn what it saves by its cost.
    """
    gains: list[float] = []

    def after_replanning(self: MetaAdaptive, distances: Distances, violated: object, gain: float) -> Distances:
        gains.append(gain)
        return distances

    monkeypatch.setattr(MetaAdaptive, "after_replanning", after_replanning)
    patterns, events = patterns_of(ABC), drifting()
    for minimum_gain in (0.0, 0.95):
        gains.clear()
        _, report = detect_adaptively(
            patterns,
            events,
            decision=InvariantBased(distance=MetaAdaptive()),
            every_events=100,
            minimum_gain=minimum_gain,
        )
        replanned = [check for check in report.checks if check.replanned]
        assert any(check.gain is not None and check.gain > 0.05 for check in replanned)
        assert len(gains) == len(replanned)
        assert not any(gain for gain, check in zip(gains, replanned, strict=True) if not check.deployed)
        assert any(check.deployed for check in replanned) == any(gains) == (minimum_gain == 0.0)
    gains.clear()
    _, report = cep.detect_adaptively(
        patterns_of(ABC.replace("3 seconds", "60 seconds")),
        events,
        decision=InvariantBased(distance=MetaAdaptive()),
        every_events=100,
        clock=lambda: 0.0,
    )
    replanned = [check for check in report.checks if check.replanned]
    waiting = [(check.gain, told) for check, told in zip(replanned, gains, strict=True) if not check.deployed]
    assert all(told == (gain or 0.0) for gain, told in waiting)
    assert any(told > 0.05 for _, told in waiting)


def test_the_first_plan_may_be_given() -> None:
    patterns, events = patterns_of(ABC, ORDERED), drifting()
    snapshot = cep.estimate_statistics(patterns[:1], events.slice(0, 300))
    first = cep.plan(patterns[:1], snapshot, planner="event_frequency")
    settings = {"planner": "event_frequency", "every_events": 100}
    _, report = detect_adaptively(patterns[:1], events, first, snapshot, **settings)
    assert report.checks[0].row == 100  # the plan was there before the first event
    assert report.switches[0].old_plan == first.plan_id
    with pytest.raises(PlanError, match="next"):
        detect_adaptively(patterns, events, first)


def test_a_given_plan_is_held_to_the_numbers_that_it_names() -> None:
    """Not to those that the stream begins with: the first decision already sees that they are others."""
    patterns, events = patterns_of(ABC), drifting()
    snapshot = cep.estimate_statistics(patterns, events.slice(0, 300))
    elsewhere = cep.estimate_statistics(patterns, events.slice(300, 300))
    settings = {"decision": "constant_threshold", "planner": "event_frequency", "every_events": 100}
    for made_from, replanned in ((snapshot, False), (elsewhere, True)):
        plan = cep.plan(patterns, made_from, planner="event_frequency")
        for of in (None, made_from):
            (first, *_) = detect_adaptively(patterns, events.slice(0, 300), plan, of, **settings)[1].checks
            assert first.row == 100 and first.replanned is replanned


def test_a_stream_that_has_not_begun_asks_for_nothing() -> None:
    for text in (
        "PATTERN SEQ(~A n, A+ b[], C c) WITHIN 1 day TIES ANY",
        "PATTERN SEQ(A+ b[], ~A n, C c) WITHIN 2 EVENTS",
    ):
        patterns, none = patterns_of(text), drifting(0)
        for output in ("verbose", "count"):
            run = AdaptiveDetection(every_events=1).begin(patterns, in_parts(none, 1), output=output)
            assert [loop.needs_from for loop in run._loops] == [0]
            found = pa.Table.from_batches([batch for _, batch in run.batches()], run.schemas[patterns[0].name])
            [expected] = cep.detect(patterns, none, output=output).values()
            assert found.to_pylist() == expected.to_pylist()


def test_without_patterns_there_is_nothing_to_find() -> None:
    tables, report = detect_adaptively([], drifting(), every_events=100)
    assert (tables, report.checks) == ({}, ())


def test_patterns_of_one_order_are_not_decided_about() -> None:
    patterns, events = patterns_of(ABC, ORDERED), drifting()
    tables, report = detect_adaptively(patterns, events, decision="unconditional", every_events=200)
    assert {check.pattern for check in report.checks} == {"abc"}
    assert tables == cep.detect(patterns, events)
    _, report = detect_adaptively(patterns, events, decision="unconditional", mechanism="nfab", every_events=200)
    assert not report.checks
    assert report.total.deciding < report.total.detecting


def test_a_static_plan_asks_for_no_statistics_beyond_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("statistics that nobody asks for")

    monkeypatch.setattr("cep_pipeline.adaptation.loop.RecentStatistics", refuse)
    patterns, events = patterns_of(ABC), drifting()
    tables, report = detect_adaptively(patterns, events, decision="static", every_events=100)
    assert tables == cep.detect(patterns, events)
    assert not report.checks and not report.switches and report.replannings == 0


def test_decisions_by_time() -> None:
    """At the times of the stream, none where no events came."""
    stream = [{"timestamp": at * SECOND, "kind": "ABC"[at % 3], "x": at} for at in (*range(25), *range(100, 130))]
    patterns, events = patterns_of(ABC), events_table(stream)
    tables, report = detect_adaptively(patterns, events, decision="unconditional", every="10 seconds")
    assert [check.row for check in report.checks] == [20, 25, 35, 45]
    assert tables == cep.detect(patterns, events)


def test_a_limit_is_that_of_all_matches() -> None:
    events = drifting(300)
    for text in (ABC, "NAME abc PATTERN SEQ(A a, B+ b[], C c) WHERE sum(b[].x) > 9 WITHIN 3 seconds"):
        patterns = patterns_of(text)
        found = cep.detect(patterns, events)["abc"].num_rows
        for output in ("verbose", "count"):
            tables, _ = detect_adaptively(patterns, events, output=output, limit=found, every_events=100)
            assert tables["abc"].num_rows
        for output in ("verbose", "count") if "sum" in text else ("verbose",):
            with pytest.raises(TooManyMatches):
                detect_adaptively(patterns, events, output=output, limit=found - 1, every_events=100, detect_events=50)


def test_lists_are_not_made_to_be_counted() -> None:
    """Two to the number of events in a window, however it is cut."""
    patterns = patterns_of("NAME many PATTERN SEQ(A a, B+ b[]) WITHIN 90 seconds")
    stream = [{"timestamp": at * SECOND, "kind": "A" if at % 100 == 0 else "B", "x": at} for at in range(500)]
    events = events_table(stream)
    expected = cep.detect(patterns, events, output="count")
    assert int(expected["many"]["count"][0].as_py()) == 5 * (2**90 - 1)
    tables, _ = detect_adaptively(patterns, events, output="count", every_events=100, detect_events=50)
    assert tables == expected


def test_options_are_those_of_the_mechanism() -> None:
    patterns, events = patterns_of(ORDERED), drifting(300)
    tables, report = detect_adaptively(patterns, events, mechanism="nfab", options=("merge",))
    assert tables == cep.detect(patterns, events) and report.metrics.runs
    with pytest.raises(InputError, match="no option 'merge'"):
        detect_adaptively(patterns_of(ABC), events, options=("merge",))
    with pytest.raises(InputError, match="do not follow a plan: leave adaptation"):
        detect_adaptively(patterns, events, output="compressed")
    with pytest.raises(InputError, match="no output 'rows'"):
        detect_adaptively(patterns, events, output="rows")
    with pytest.raises(UnsupportedPattern, match="NON_OVERLAP"):
        detect_adaptively(patterns_of(ABC + " OUTPUT NON_OVERLAP"), events, output="count")
    with pytest.raises(UnsupportedPattern, match="nothing runs SUMMARIZE by plans that follow the stream; use detect"):
        detect_adaptively(patterns_of(ABC + " SUMMARIZE COUNT(*) AS n"), events)
    with pytest.raises(InputError, match="the limit is -1"):
        detect_adaptively(patterns, events, limit=-1)


def test_no_events() -> None:
    patterns = patterns_of(ABC)
    for events in (drifting().slice(0, 0), [], [drifting().slice(0, 0)]):
        tables, report = detect_adaptively(patterns, events)
        assert tables == cep.detect(patterns, drifting().slice(0, 0))
        assert report.events == 0 and not report.checks


def test_tables_of_a_stream_come_in_its_order() -> None:
    patterns, events = patterns_of(ABC), drifting(40)
    with pytest.raises(InputError, match="not sorted"):
        detect_adaptively(patterns, [events.slice(20), events.slice(0, 20)])
    texts = events.set_column(events.column_names.index("x"), "x", events.column("x").cast(pa.int32()))
    with pytest.raises(InputError, match="same types"):
        detect_adaptively(patterns, [events.slice(0, 20), texts.slice(20)])


def test_settings_are_checked() -> None:
    for wrong in (
        {"every_events": 5, "every": "1 second"},
        {"every_events": 0},
        {"every": "soon"},
        {"window": 0},
        {"minimum_gain": 1.0},
        {"detect_events": 0},
    ):
        with pytest.raises(InputError):
            AdaptiveDetection(**wrong)
    patterns, events = patterns_of(ABC), drifting(40)
    with pytest.raises(InputError, match="no setting 'windows'"):
        detect_adaptively(patterns, events, windows="1 second")
    with pytest.raises(InputError, match="no decision function 'never'"):
        detect_adaptively(patterns, events, decision="never")
    with pytest.raises(InputError, match="max_pairs"):
        detect_adaptively(patterns, events, max_pairs=0)
    with pytest.raises(UnsupportedPattern):
        detect_adaptively(patterns_of(ORDERED), events, mechanism="fused")


def test_settings_serve_many_streams() -> None:
    """A loop is a value: what one stream taught it is not there for the next."""
    decision = decision_function("invariant", distance="meta_adaptive")
    loop = AdaptiveDetection(decision=decision, every_events=100, minimum_gain=0.0)
    patterns, events = patterns_of(ABC), drifting()
    (one, first), (other, second) = loop.detect(patterns, events), loop.detect(patterns, events)
    assert one == other
    assert first.checks == second.checks


def test_patterns_that_compose_others_are_refused() -> None:
    patterns = cep.parse_patterns(
        "NAME one PATTERN SEQ(A a, B b) WITHIN 1 second; NAME two PATTERN SEQ(one p, one q) WITHIN 5 seconds",
        stream_schema(),
    )
    with pytest.raises(UnsupportedPattern, match="pattern 'two': nothing runs the composition of patterns"):
        AdaptiveDetection().detect(patterns, drifting(200))
