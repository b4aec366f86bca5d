"""The record of how matches were found: what `explain` says of a pattern, and a run of its events."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import cep_pipeline as cep
from cep_pipeline.detection.counting import sweep
from cep_pipeline.detection.detect import DetectionRun, detect_slice
from cep_pipeline.detection.mechanisms import EVERYTHING, Sink, by_route
from cep_pipeline.detection.outputs import route_of
from cep_pipeline.questions.explained_mechanisms import explained_choice
from tests.streams import stream_schema

PAIR = "PATTERN SEQ(A a, B b) WITHIN 1 day"
PRODUCT = "PATTERN SEQ(A a, B b) WHERE a.x * b.x > 3 WITHIN 1 day"
LISTS = "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x WITHIN 1 day"
ABOVE = "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[1].x WITHIN 1 day"
ANY_LIST = "PATTERN SEQ(A a, B+ b[]) WITHIN 1 day"
TOTAL = "PATTERN SEQ(A a, B+ b[]) WHERE sum(b[].x) > 3 WITHIN 1 day"
FIRST = "PATTERN SEQ(A a, B b) WITHIN 1 day OUTPUT NON_OVERLAP"
GROUPS = "PATTERN SEQ(A a, B b) WITHIN 1 day SUMMARIZE count(*), sum(a.x)"
RATIOS = "PATTERN SEQ(A a, B b) WITHIN 1 day SUMMARIZE avg(a.x / b.x)"

SWEPT = "by a semiring sweep over the events"
FOUND = "by finding each match"


def parsed(text: str) -> cep.Pattern:
    [pattern] = cep.parse_patterns(text, stream_schema())
    return pattern


@pytest.mark.parametrize(
    ("text", "sink", "expected"),
    [
        (PAIR, Sink.LIST, f"listed {FOUND}"),
        (PAIR, Sink.COUNT, f"counted {SWEPT}"),
        (PRODUCT, Sink.COUNT, f"counted {FOUND}: no sweep tests its conditions"),
        (LISTS, Sink.COUNT, f"counted {SWEPT}"),
        (ABOVE, Sink.COUNT, "counted by finding single events, and counting the lists beside them"),
        (LISTS, Sink.COMPRESS, "compressed by a factorised graph"),
        (TOTAL, Sink.COMPRESS, f"compressed {FOUND}: sum() over the list 'b'"),
        (FIRST, Sink.COUNT, f"counted {FOUND}: OUTPUT and CONSUME choose among them"),
        (GROUPS, Sink.SUMMARIZE, f"summarized {SWEPT}"),
        (RATIOS, Sink.SUMMARIZE, f"summarized {FOUND}: one value is read of a and b"),
    ],
)
def test_the_route_of_a_pattern(text: str, sink: Sink, expected: str) -> None:
    assert str(route_of(parsed(text), sink)) == expected


def routes_over(text: str, events: int, output: str, *, metrics: bool = True) -> Mapping[str, tuple[str, ...]]:
    run = DetectionRun(output=output, metrics=metrics)
    table = stream_schema().table([{"timestamp": at, "kind": "AB"[at % 2], "x": at % 7} for at in range(events)])
    run.matches([parsed(text)], table)
    return by_route(run.metrics().routes)


@pytest.mark.parametrize(
    ("text", "events", "output", "expected"),
    [
        (PAIR, 8, "verbose", f"listed {FOUND}"),
        (PAIR, 8, "count", f"counted {FOUND}: the work at each node is asked for"),
        (PAIR, 8, "compressed", f"compressed {FOUND}: finding the matches takes less time here"),
        (ANY_LIST, 80, "compressed", "compressed by a factorised graph"),
        (GROUPS, 8, "verbose", f"summarized {FOUND}: there are few matches"),
        (GROUPS, 4_000, "verbose", f"summarized {SWEPT}"),
    ],
)
def test_a_run_tells_the_route_that_it_took(text: str, events: int, output: str, expected: str) -> None:
    assert routes_over(text, events, output) == {expected: ("pattern_1",)}


def test_a_count_of_which_nobody_asks_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    found = f"counted {FOUND}: finding the matches takes less time here"
    assert routes_over(PAIR, 8, "count", metrics=False) == {found: ("pattern_1",)}
    monkeypatch.setattr(sweep, "pays", lambda *_: True)
    assert routes_over(PAIR, 8, "count", metrics=False) == {f"counted {SWEPT}": ("pattern_1",)}


def test_a_slice_tells_the_routes_of_all_its_patterns() -> None:
    patterns = cep.parse_patterns(f"NAME pair {PAIR}; NAME groups {GROUPS}", stream_schema())
    table = stream_schema().table([{"timestamp": at, "kind": "AB"[at % 2], "x": at} for at in range(4_000)])
    small = detect_slice(patterns, None, table.slice(0, 8), EVERYTHING, lambda *_: None).metrics.routes
    large = detect_slice(patterns[1:], None, table, EVERYTHING, lambda *_: None).metrics.routes
    assert by_route(small) == {
        f"listed {FOUND}": ("pair",),
        f"summarized {FOUND}: there are few matches": ("groups",),
    }
    assert by_route(large) == {f"summarized {SWEPT}": ("groups",)}


def test_explain_says_the_same() -> None:
    patterns = cep.parse_patterns(f"NAME total {TOTAL}; NAME ratios {RATIOS}", stream_schema())
    said = explained_choice(patterns)
    for name, sink in (("total", Sink.COMPRESS), ("ratios", Sink.SUMMARIZE)):
        [pattern] = [one for one in patterns if one.name == name]
        assert route_of(pattern, sink).because in said[name]
