"""What `why` and `why_not` say of events that are worked out by hand; tests/oracle has the random cases."""

from __future__ import annotations

import random
from typing import Any

import pytest

import cep_pipeline as cep
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.questions import near_misses
from cep_pipeline.questions.near_misses import MatchCount
from tests.language_cases import stream
from tests.streams import SECOND, events_table, stream_schema

EVENTS = events_table(stream("A 0 x=10 id=1; B 1 x=9 id=1; C 2 x=1 id=2; B 3 x=12 id=1; A 9 x=4 id=2"))


def pattern(text: str) -> Pattern:
    [parsed] = cep.parse_patterns(f"NAME p PATTERN {text}", stream_schema())
    return parsed


def reasons(text: str, **events: int | list[int]) -> list[tuple[str, str, str, float | None]]:
    explained = cep.why(pattern(text), EVENTS, events)
    return [(one.rule, one.text, one.seen, one.short_by) for one in explained.failed]


@pytest.mark.parametrize(
    ("text", "events", "expected"),
    [
        ("SEQ(A a, B b) WHERE b.x > a.x WITHIN 5 seconds", {"a": 0, "b": 3}, []),
        (
            "SEQ(A a, B b) WHERE b.x > a.x WITHIN 5 seconds",
            {"a": 0, "b": 1},
            [("condition", "b.x > a.x", "9 > 10", 1.0)],
        ),
        (
            "SEQ(A a, B b) WHERE b.x > 100 OR b.x BETWEEN 10 AND 11 WITHIN 5 seconds",
            {"a": 0, "b": 3},
            [("condition", "b.x > 100 OR b.x BETWEEN 10 AND 11", "12 > 100 OR 12 BETWEEN 10 AND 11", 1.0)],
        ),
        (
            "SEQ(A a, B b) WHERE b.y > 1 AND b.s IN ('p', 'q') WITHIN 5 seconds",
            {"a": 0, "b": 3},
            [
                ("condition", "b.y > 1", "null > 1", None),
                ("condition", "b.s IN ('p', 'q')", "null IN ('p', 'q')", None),
            ],
        ),
        ("SEQ(A a, B b) WITHIN 2 seconds", {"a": 0, "b": 3}, [("window", "WITHIN 2 seconds", "3 of 2 s, 150%", 1.0)]),
        (
            "SEQ(A a, B b) WITHIN 3 EVENTS",
            {"a": 0, "b": 3},
            [("window", "WITHIN 3 EVENTS", "4 of 3 events, 133%", 1.0)],
        ),
        (
            "SEQ(A a, C c) WHERE [id] WITHIN 5 seconds",
            {"a": 0, "c": 2},
            [("agreement", "[id]", "1, 2", None)],
        ),
        (
            "SEQ(B b, A a) WITHIN 5 seconds",
            {"a": 0, "b": 1},
            [("order", "b before a", "1970-01-01 00:00:01.000, 1970-01-01 00:00:00.000", None)],
        ),
        (
            "AND(A a, Ev e) WITHIN 5 seconds",
            {"a": 0, "e": 0},
            [("distinct", "all events are different ones", "A at 1970-01-01 00:00:00.000 is bound twice", None)],
        ),
        (
            "SEQ(A a, A b) WITHIN 5 seconds",
            {"a": 0, "b": 1},
            [("type", "b is of type A", "B at 1970-01-01 00:00:01.000 is of type B", None)],
        ),
        (
            "SEQ(A a, ~C n, B b) WHERE n.x < a.x WITHIN 5 seconds",
            {"a": 0, "b": 3},
            [("negation", "~C n with n.x < a.x", "C x 1 at 1970-01-01 00:00:02.000 is such an event", None)],
        ),
        ("SEQ(A a, ~C n, B b) WHERE n.x > a.x WITHIN 5 seconds", {"a": 0, "b": 3}, []),
        (
            "SEQ(A a, B b) WHERE skip_till_next_match { b.x > 0 } WITHIN 5 seconds",
            {"a": 0, "b": 3},
            [("strategy", "skip_till_next_match", "the run takes b = B x 9 at 1970-01-01 00:00:01.000 instead", None)],
        ),
        (
            "SEQ(A a, B b) WHERE strict_contiguity { b.x > 10 } WITHIN 5 seconds",
            {"a": 0, "b": 3},
            [("strategy", "strict_contiguity", "B x 9 at 1970-01-01 00:00:01.000 stands in between", None)],
        ),
        (
            "SEQ(A a, B+ b[]) WHERE b[i].x < b[i-1].x AND b[].x > 9 WITHIN 5 seconds",
            {"a": 0, "b": [1, 3]},
            [
                ("condition", "b[i].x < b[i-1].x", "12 < 9", 3.0),
                ("condition", "b[].x > 9", "9 > 9 (1 of 2 fail)", 0.0),
            ],
        ),
    ],
)
def test_each_reason_has_the_values_of_both_sides(
    text: str, events: dict[str, int | list[int]], expected: list[tuple[str, str, str, float | None]]
) -> None:
    assert reasons(text, **events) == expected


def test_a_match_has_its_id_and_what_was_looked_for() -> None:
    asked = pattern("SEQ(A a, ~C n, B b) WHERE n.x > a.x WITHIN 5 seconds")
    explained = cep.why(asked, EVENTS, {"a": 0, "b": 3})
    row = cep.detect(asked, EVENTS)["p"].slice(1).to_pylist()[0]
    assert [(one["variable"], one["seq"]) for one in row["bindings"]] == [("a", 0), ("b", 3)]
    assert explained.is_match and explained.match_id == str(row["match_id"])
    assert "none of 1 events of the type, 1970-01-01 00:00:00.000 to 1970-01-01 00:00:03.000" in str(explained)
    assert "<td>WITHIN 5 seconds</td><td>3 of 5 s, 60%</td>" in explained._repr_html_()


def test_a_match_of_another_pattern_is_an_event_with_an_id_and_events_inside() -> None:
    pair = "NAME pair PATTERN SEQ(A a, B b) WITHIN 5 seconds RETURN b.x AS x"
    two = "NAME two PATTERN SEQ(pair p, ~C n, pair q) WHERE p.x < q.x WITHIN 5 seconds"
    three = "NAME three PATTERN AND(two t, A a) WITHIN 20 seconds"
    patterns = cep.parse_patterns(";".join((pair, two, three)), stream_schema())
    first, last = map(str, cep.detect(patterns, EVENTS)["pair"]["match_id"].to_pylist())
    explained = cep.why(patterns[1], EVENTS, {"p": first, "q": last})
    assert [(one.text, one.seen) for one in explained.failed] == [
        ("~C n", "C x 1 at 1970-01-01 00:00:02.000 is such an event")
    ]
    assert explained.bindings == (("p", 1), ("q", 3))
    inside = [(one, f"pair {match_id[:8]}") for one, match_id in (("p", first), ("q", last))]
    assert [(variable, match) for variable, match, _ in explained.inside_rows()] == inside
    assert [events for *_, events in explained.inside_rows()] == [
        f"a 1970-01-01 00:00:00.000 A x 10, b 00:00:0{second}.000 B x {x}" for second, x in ((1, 9), (3, 12))
    ]
    assert explained.names == (f"pair {first[:8]}", f"pair {last[:8]}")
    found = cep.why_not(patterns[1], EVENTS)
    assert found.summary() == "two: 0 matches in 7 events; without ~C n there would be 1"
    assert [one.composed for one in found.near] == [explained.composed]
    told = f"with p = pair {last[:8]} at 1970-01-01 00:00:03.000"
    assert cep.why_not(patterns[1], EVENTS, {"p": last}).meant == told
    assert cep.why(patterns[1], EVENTS, {"p": first[:8], "q": last[:8]}).match_id == explained.match_id
    with pytest.raises(cep.InputError, match="there is no match of two with this id"):
        cep.why(patterns[2], EVENTS, {"t": first, "a": 0})
    with pytest.raises(cep.InputError, match="there is no match of another pattern with this id"):
        cep.why(patterns[0], EVENTS, {"a": first, "b": 3})


def test_output_that_drops_a_match_is_a_reason() -> None:
    asked = pattern("SEQ(A a, B b) WITHIN 5 seconds OUTPUT NON_OVERLAP")
    found = cep.why_not(asked, EVENTS, {"a": 0, "b": 3})
    assert found.explanation is not None
    kept = "kept is: a 1970-01-01 00:00:00.000 A, b 00:00:01.000 B"
    assert [(one.rule, one.seen) for one in found.explanation.failed] == [("output", kept)]
    over_all = cep.why_not(asked, EVENTS)
    assert (over_all.matches, over_all.kept) == (MatchCount(2), 1)


BOTH = "a 1970-01-01 00:00:00.000 A, b 00:00:01.000 B, b 00:00:03.000 B"
PAIR = "a 1970-01-01 00:00:00.000 A, b 00:00:01.000 B"


@pytest.mark.parametrize(
    ("structure", "given", "preferred", "difference"),
    [
        ("SEQ(A a, B+ b[])", {"a": 0, "b": 3}, BOTH, "it binds 1 event to b, the preferred one 2"),
        ("SEQ(A a, B+? b[])", {"a": 0, "b": [1, 3]}, PAIR, "it binds 2 events to b, the preferred one 1"),
        ("SEQ(A a, B+? b[])", {"a": 0, "b": 3}, PAIR, "event 1 of its b comes later than that of the preferred one"),
        ("SEQ(A a, B b)", {"a": 0, "b": 3}, PAIR, "its b comes later than that of the preferred one"),
        ("SEQ(A a, C?? c, B b)", {"a": 0, "c": 2, "b": 3}, PAIR, "it binds c, the preferred one does not"),
        (
            "SEQ(A a, OR(C c, B b))",
            {"a": 0, "b": 1},
            "a 1970-01-01 00:00:00.000 A, c 00:00:02.000 C",
            "it is one of B b, the preferred one of C c",
        ),
        (
            "AND(A a, OR(~Ev n, ~Ev+ m[]), B b) WHERE n.x > 10 AND m.x > 100",
            {"a": 0, "b": 1},
            "a 1970-01-01 00:00:00.000 A x 10, b 00:00:03.000 B x 12",
            "it is one of ~Ev+ m[], the preferred one of ~Ev n",
        ),
    ],
)
def test_a_match_that_is_not_preferred_says_which_one_is_and_why(
    structure: str, given: dict[str, Any], preferred: str, difference: str
) -> None:
    found = cep.why_not(pattern(f"{structure} WITHIN 5 seconds OUTPUT PREFERRED"), EVENTS, given).explanation
    assert found is not None
    assert [(one.text, one.seen) for one in found.failed] == [
        ("OUTPUT PREFERRED", f"preferred is: {preferred}; {difference}")
    ]


def test_a_preferred_match_that_overlaps_one_that_begins_earlier_is_not_kept() -> None:
    asked = pattern("SEQ(Ev a, B b) WITHIN 5 seconds OUTPUT PREFERRED NON_OVERLAP")
    found = cep.why_not(asked, EVENTS, {"a": 1, "b": 3})
    assert found.explanation is not None
    assert [one.seen for one in found.explanation.failed] == [f"kept is: {PAIR}"]
    over_all = cep.why_not(asked, EVENTS)
    assert (over_all.matches, over_all.kept) == (MatchCount(4), 2)


def test_a_preferred_match_of_matches_is_named_by_them() -> None:
    pair = "NAME pair PATTERN SEQ(A a, B b) WITHIN 5 seconds"
    two = "NAME two PATTERN SEQ(Ev e, pair p) WITHIN 5 seconds OUTPUT PREFERRED"
    patterns = cep.parse_patterns(f"{pair};{two}", stream_schema())
    first, last = map(str, cep.detect(patterns, EVENTS)["pair"]["match_id"].to_pylist())
    found = cep.why_not(patterns[1], EVENTS, {"e": 0, "p": last}).explanation
    assert found is not None
    [reason] = found.failed
    assert f"pair {first[:8]}" in reason.seen and "its p comes later" in reason.seen


def test_curves_and_steps_are_counts_of_the_pattern_with_other_values() -> None:
    text = "SEQ(A a, B b) WHERE b.x > {} AND a.x > 2 WITHIN {}"
    found = cep.why_not(pattern(text.format(11, "5 seconds")), EVENTS)
    assert [one.count.matches for one in found.reached] == [2, 1]
    values, others, windows = found.curves
    assert [(one.text, one.current) for one in (values, others)] == [("b.x > 11", "11"), ("a.x > 2", "2")]
    assert windows.current == "5 seconds"
    assert len(values.points) == 3 and len(windows.points) == 5
    for value, count in values.points:
        assert count == MatchCount(cep.detect(pattern(text.format(value, "5 seconds")), EVENTS)["p"].num_rows)
    for window, count in windows.points:
        assert count == MatchCount(cep.detect(pattern(text.format(11, window)), EVENTS)["p"].num_rows)
    assert "without b.x > 11 there would be 2" in found.summary()


def test_lengths_of_time_are_told_in_their_units() -> None:
    text = "SEQ(A a, C c) WHERE c.timestamp - a.timestamp >= {} AND c.timestamp > a.timestamp + 500 ms WITHIN 1 minute"
    rule = "c.timestamp - a.timestamp >= 1 minute"
    assert reasons(text.format("1 minute"), a=0, c=2) == [("condition", rule, "2 s >= 60 s", 58.0)]
    found = cep.why_not(pattern(text.format("1 minute")), EVENTS)
    assert found.summary().endswith(f"without {rule} there would be 1")
    lengths = next(one for one in found.curves if one.text == rule)
    assert lengths.current == "1 minute" and [value for value, _ in lengths.points] == ["2 seconds", "1 minute"]
    for value, count in lengths.points:
        assert count == MatchCount(cep.detect(pattern(text.format(value)), EVENTS)["p"].num_rows)
    assert reasons("SEQ(A a, C c) WHERE c.timestamp <= a.timestamp + 0.5 seconds WITHIN 1 minute", a=0, c=2) == [
        ("condition", "c.timestamp <= a.timestamp + 500 ms", "1970-01-01 00:00:02.000 <= 1970-01-01 00:00:00.500", 1.5)
    ]


@pytest.mark.parametrize("element", ["b[].x", "b[i].x", "b[i].x - b[i-1].x", "b[].x - a.x"])
def test_constants_that_elements_of_lists_are_compared_with_have_curves(element: str) -> None:
    rows = "A 0 x=3; B 1 x=9; B 2 x=4; B 3 x=12; C 4 x=1; A 5 x=1; B 6 x=7; C 7 x=2"
    events = events_table(stream(rows))
    text = f"SEQ(A a, B+ b[], C c) WHERE {element} > {{}} AND c.x > 0 WITHIN 5 seconds"
    found = cep.why_not(pattern(text.format(5)), events)
    [values] = [curve for curve in found.curves if curve.text == f"{element} > 5"]
    counts = [count.matches for _, count in values.points]
    assert len(counts) > 2 and counts == sorted(counts, reverse=True) and counts[0] > counts[-1]
    for value, count in values.points:
        assert count == MatchCount(cep.detect(pattern(text.format(value)), events)["p"].num_rows)


def test_events_of_some_variables_and_times_bound_what_is_looked_at() -> None:
    asked = pattern("SEQ(A a, B b) WHERE b.x > a.x WITHIN 5 seconds")
    with_a = cep.why_not(asked, EVENTS, {"b": 1})
    assert (with_a.matches, with_a.meant) == (MatchCount(0), "with b = B x 9 at 1970-01-01 00:00:01.000")
    assert [near.bindings for near in with_a.near] == [(("a", 0), ("b", 1))]
    assert cep.why_not(asked, EVENTS, at=2 * SECOND).matches == MatchCount(1)
    assert cep.why_not(asked, EVENTS, at=20 * SECOND).matches == MatchCount(0)
    with pytest.raises(cep.InputError, match="binds no 'c'; it binds a, b"):
        cep.why_not(asked, EVENTS, {"c": 1})
    with pytest.raises(cep.InputError, match="no event 77 among these 5 events"):
        cep.why_not(asked, EVENTS, {"a": 77})


def test_types_that_no_event_has_are_told() -> None:
    found = cep.why_not(pattern("SEQ(A a, D d) WITHIN 5 seconds"), EVENTS)
    assert "no event has the type D" in found.notes[0]
    assert found.summary() == "p: 0 matches in 5 events; nothing comes as far as to bind D d"


@pytest.mark.parametrize("window", ["4 seconds", "3 minutes"])
def test_the_nearest_misses_are_found_among_more_than_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, window: str
) -> None:
    seed = random.Random(7)
    rows = "; ".join(f"{seed.choice('AB')} {time} x={seed.randrange(10_000)}" for time in range(120))
    events, asked = events_table(stream(rows)), pattern(f"SEQ(A a, B b) WHERE a.x * 2 > b.x + 30000 WITHIN {window}")
    every = cep.why_not(asked, events)
    monkeypatch.setattr(near_misses, "LOOKED_AT", 40)
    some = cep.why_not(asked, events)
    assert some.left_out == every.left_out
    shares = [[one.failed[0].share for one in found.near] for found in (some, every)]
    assert shares[0] == shares[1] and len(shares[0]) == 3


def test_nothing_takes_longer_than_it_may() -> None:
    found = cep.why_not(pattern("SEQ(A a, B b) WHERE b.x > a.x WITHIN 5 seconds"), EVENTS, seconds=1e-9)
    assert not found.matches.exact and str(found.matches) == "not counted"
    assert any("stopped after" in note for note in found.notes)
    assert found.to_json()["left_out"][0]["without"] == {"matches": 0, "exact": False}
