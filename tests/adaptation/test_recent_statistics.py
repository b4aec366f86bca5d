"""Statistics on the fly are those of the events in the window, as one estimate over them gives them."""

from __future__ import annotations

import pytest

import cep_pipeline as cep
from cep_pipeline.adaptation.event_stream import EventStream
from cep_pipeline.adaptation.recent_statistics import RecentStatistics, statistics_window
from cep_pipeline.errors import InputError
from cep_pipeline.patterns.pattern import Window
from tests.adaptation.test_loop import ABC, SECOND, drifting, patterns_of
from tests.streams import events_table

AND = ABC.replace("SEQ", "AND")


@pytest.mark.parametrize(
    ("window", "first"),
    [
        (Window(events=10_000), 0),
        (Window(events=300), 300),
        (Window(events=200), 400),
        (Window(events=150), 500),  # of whole parts, as many as it holds
        (Window(events=60), 540),  # of a part, the end
        (Window(time_us=110 * SECOND), 400),
        (Window(time_us=20 * SECOND), 558),
    ],
)
def test_the_window_holds_the_latest_events(window: Window, first: int) -> None:
    """Every pair whose later event lies in it is tested, also where the earlier one came before it."""
    patterns, table = patterns_of(AND), drifting()
    stream, statistics = EventStream(patterns, table), RecentStatistics(patterns, window, max_pairs=10**9)
    for _ in range(6):
        statistics.update(stream, *stream.advance_by(100))
    found = statistics.snapshot()
    assert (found.events, found.window_us, found.window_events) == (600 - first, window.time_us, window.events)
    kinds = table.column("kind").to_pylist()[first:600]
    spans = table.column("timestamp").cast("int64").to_pylist()[first:600]
    # Of a window of time the time counts from the event before it on, of which it has none.
    begin = spans[0]
    if window.time_us is not None:
        begin = max(table.column("timestamp").cast("int64")[first - 1].as_py(), spans[-1] - window.time_us)
    seconds = (spans[-1] - begin) / SECOND
    for rate in found.rates:
        assert rate.count == kinds.count(rate.leaf)
        assert rate.per_s == pytest.approx(rate.count / seconds)
    whole = cep.estimate_statistics(patterns, table.slice(first, 600 - first), max_pairs=10**9)
    for one, other in zip(found.selectivities, whole.selectivities, strict=True):
        # An estimate over these events alone knows none of the pairs that reach back before them.
        assert other.pairs <= one.pairs <= other.pairs + (60 if first else 0)
        assert one.tested == one.pairs


def test_after_a_silence_rates_are_those_of_the_window() -> None:
    """Three events of one second, with nothing in the 20 minutes before it: nothing suddenly comes often."""
    times = [0, 600, 1200, 8000, 8000, 8001]
    table = events_table([{"timestamp": at * SECOND, "kind": "A"} for at in times])
    patterns = patterns_of(AND)
    stream, statistics = EventStream(patterns, table), RecentStatistics(patterns, Window(time_us=1200 * SECOND))
    for events in (3, 3):
        statistics.update(stream, *stream.advance_by(events))
    found = statistics.snapshot()
    (rate,) = (one for one in found.rates if one.leaf == "A")
    assert rate.count == 3 and rate.per_s == pytest.approx(3 / 1200)


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
    stream, statistics = EventStream(patterns, table), RecentStatistics(patterns, Window(events=400), max_pairs=10**9)
    statistics.update(stream, *stream.advance_by(400))
    found, whole = statistics.snapshot(), cep.estimate_statistics(patterns, table.slice(0, 400), max_pairs=10**9)
    assert (found.rates, found.selectivities, found.joints) == (whole.rates, whole.selectivities, whole.joints)


def test_the_same_seed_draws_the_same_pairs() -> None:
    def selectivities(seed: int) -> list[float]:
        patterns, table = patterns_of(ABC), drifting()
        stream = EventStream(patterns, table)
        statistics = RecentStatistics(patterns, Window(events=400), seed=seed, max_pairs=50)
        for _ in range(3):
            statistics.update(stream, *stream.advance_by(200))
        return [selectivity.value for selectivity in statistics.snapshot().selectivities]

    assert selectivities(1) == selectivities(1) != selectivities(2)


def test_windows_of_statistics() -> None:
    assert statistics_window("2 minutes", 10, None) == Window(time_us=120 * SECOND)
    assert statistics_window(500, None, SECOND) == Window(events=500)
    assert statistics_window(None, 10, None) == Window(events=20)
    assert statistics_window(None, None, SECOND) == Window(time_us=2 * SECOND)
    assert statistics_window(None, None, None) is None
    with pytest.raises(InputError, match="window"):
        statistics_window(0, 10, None)
