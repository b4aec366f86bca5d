"""Statistics on the fly are those of the events in the window, as one estimate over them gives them."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from cep_pipeline.adaptation.event_stream import EventStream, RecentStatistics
from tests.adaptation.test_loop import ABC, SECOND, drifting, patterns_of

AND = ABC.replace("SEQ", "AND")


@pytest.mark.parametrize(
    ("window", "first"),
    [
        (10_000, 0),
        (300, 300),
        (200, 400),
        (150, 500),  # of whole parts, as many as it holds
        (60, 540),  # of a part, the end
    ],
)
def test_the_window_holds_the_latest_events(window: int, first: int) -> None:
    """Every pair whose later event lies in it is tested, also where the earlier one came before it."""
    patterns, table = patterns_of(AND), drifting()
    stream, statistics = EventStream(patterns, table), RecentStatistics(patterns, window, max_pairs=10**9)
    for _ in range(6):
        statistics.update(stream, *stream.advance_by(100))
    found = statistics.snapshot()
    assert (found.events, found.window_us, found.window_events) == (600 - first, None, window)
    kinds = table.column("kind").to_pylist()[first:600]
    spans = table.column("timestamp").cast("int64").to_pylist()[first:600]
    seconds = (spans[-1] - spans[0]) / SECOND
    for rate in found.rates:
        assert rate.count == kinds.count(rate.leaf)
        assert rate.per_s == pytest.approx(rate.count / seconds)
    whole = cep.estimate_statistics(patterns, table.slice(first, 600 - first), max_pairs=10**9)
    for one, other in zip(found.selectivities, whole.selectivities, strict=True):
        # An estimate over these events alone knows none of the pairs that reach back before them.
        assert other.pairs <= one.pairs <= other.pairs + (60 if first else 0)
        assert one.tested == one.pairs


def test_without_a_window_they_are_those_of_the_last_two_parts() -> None:
    patterns, table = patterns_of(AND), drifting()
    stream, statistics = EventStream(patterns, table), RecentStatistics(patterns, None, max_pairs=10**9)
    for events, first in ((100, 0), (50, 0), (300, 100), (10, 150)):
        statistics.update(stream, *stream.advance_by(events))
        found = statistics.snapshot()
        assert found.events == found.window_events == stream.arrived - first
        kinds = table.column("kind").to_pylist()[first : stream.arrived]
        assert {rate.leaf: rate.count for rate in found.rates} == {kind: kinds.count(kind) for kind in "ABC"}


def test_they_are_those_of_a_table_of_the_same_events() -> None:
    patterns, table = patterns_of(ABC), drifting()
    stream, statistics = EventStream(patterns, table), RecentStatistics(patterns, 400, max_pairs=10**9)
    statistics.update(stream, *stream.advance_by(400))
    found, whole = statistics.snapshot(), cep.estimate_statistics(patterns, table.slice(0, 400), max_pairs=10**9)
    assert (found.rates, found.selectivities, found.joints) == (whole.rates, whole.selectivities, whole.joints)


def test_the_same_seed_draws_the_same_pairs() -> None:
    def selectivities(seed: int) -> list[float]:
        patterns, table = patterns_of(ABC), drifting()
        stream = EventStream(patterns, table)
        statistics = RecentStatistics(patterns, 400, seed=seed, max_pairs=50)
        for _ in range(3):
            statistics.update(stream, *stream.advance_by(200))
        return [selectivity.value for selectivity in statistics.snapshot().selectivities]

    assert selectivities(1) == selectivities(1) != selectivities(2)
