"""Exponential histograms against exact windows: the error that they promise, on streams made to break it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.statistics.sliding_window import SlidingWindow
from tests.thoroughness import examples

both = pytest.mark.parametrize("counted", [True, False])
EPSILONS = st.sampled_from([0.01, 0.1, 0.3, 0.5])
Values = list[tuple[int, float]]


@st.composite
def streams(draw: st.DrawFn) -> Values:
    """Bursts of equal times, gaps, runs of one value, and values whose sizes differ by many orders."""
    values: Values = []
    instant = draw(st.sampled_from([0, -50, 10**15]))
    for _ in range(draw(st.integers(1, 12))):
        gap = draw(st.sampled_from([0, 1, 1, 7, 40, 1000]))
        step = draw(st.sampled_from([0, 0, 1, 3]))
        value = draw(st.sampled_from([0.0, 1.0, 1.0, 100.0, 1e-6, 1e6, 0.1]))
        other = draw(st.sampled_from([value, value, 0.0, 3.0]))
        instant += gap
        for number in range(draw(st.sampled_from([1, 2, 10, 60]))):
            values.append((instant, value if number % 3 else other))
            instant += step
    return values


def take(window: SlidingWindow, values: Values, *, counted: bool) -> None:
    """Count the events, or add their values in buckets of their own."""
    instants = np.array([instant for instant, _ in values], np.int64)
    if counted:
        window.count(instants)
    else:
        window.add(np.stack((instants, instants)), np.array([[value for _, value in values]], np.float64))


def checked(window: SlidingWindow, values: Values, now: int, *, counted: bool, within: float | None) -> None:
    """The bounds hold, and the error is at most `within`."""
    found = window.estimate(now)
    truth = math.fsum(1.0 if counted else value for instant, value in values if instant >= now - window.width)
    slack = 1e-9 * max(truth, found.high)
    assert found.low - slack <= truth <= found.high + slack
    if within is not None:
        assert abs(found.value - truth) <= within * truth + slack


def last_moments(values: Values, width: int) -> Sequence[int]:
    """When each value is in the window for the last time, and the moment after."""
    latest = values[-1][0]
    return sorted({max(instant + width + late, latest) for instant, _ in values for late in (0, 1)} | {latest})


@both
@settings(deadline=None, max_examples=examples(150))
@given(values=streams(), width=st.sampled_from([0, 1, 5, 60, 500, 10_000]), epsilon=EPSILONS)
def test_error_is_at_most_epsilon_at_every_moment(counted: bool, values: Values, width: int, epsilon: float) -> None:
    window = SlidingWindow(width, epsilon)
    for place, value in enumerate(values, 1):
        take(window, [value], counted=counted)
        if place % 37 == 0 and (counted or value[1]):
            checked(window, values[:place], value[0], counted=counted, within=epsilon)
    for now in last_moments(values, width):
        checked(window, values, now, counted=counted, within=epsilon)


@both
@settings(deadline=None, max_examples=examples(100))
@given(values=streams(), cuts=st.lists(st.integers(0, 400), max_size=4), epsilon=EPSILONS)
def test_consecutive_parts_merge_within_epsilon(counted: bool, values: Values, cuts: list[int], epsilon: float) -> None:
    edges = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    merged = SlidingWindow(60, epsilon)
    for begin, end in pairwise(edges):
        part = SlidingWindow(60, epsilon)
        take(part, values[begin:end], counted=counted)
        merged.merge(part)
    for now in last_moments(values, 60):
        checked(merged, values, now, counted=counted, within=epsilon)


@both
@settings(deadline=None, max_examples=examples(100))
@given(values=streams(), epsilon=EPSILONS)
def test_bounds_hold_for_histograms_of_interleaved_streams(counted: bool, values: Values, epsilon: float) -> None:
    merged = SlidingWindow(60, epsilon)
    for part in (values[::2], values[1::2]):
        window = SlidingWindow(60, epsilon)
        take(window, part, counted=counted)
        merged.merge(window)
    for now in last_moments(values, 60):
        checked(merged, values, now, counted=counted, within=None)


@both
def test_a_burst_needs_few_buckets(counted: bool) -> None:
    """The number of buckets grows with the logarithm of the number of values."""
    generator = np.random.default_rng(7)
    sizes = []
    for number in (10_000, 100_000, 1_000_000):
        window = SlidingWindow(number, 0.05)
        take(window, list(enumerate(generator.lognormal(size=number))), counted=counted)
        sizes.append(len(window))
    assert sizes[2] < 2000
    assert sizes[2] - sizes[1] < 2 * (sizes[1] - sizes[0]) + 50


@settings(deadline=None, max_examples=examples(60))
@given(
    number=st.integers(1, 30_000),
    epsilon=EPSILONS,
    parts=st.integers(1, 5),
    spread=st.sampled_from([0, 1, 7]),
)
def test_buckets_are_few_whatever_the_parts(number: int, epsilon: float, parts: int, spread: int) -> None:
    """Of counts O(1/epsilon log n): two neighbours hold more than 2 epsilon of all that is newer."""
    whole = SlidingWindow(10**9, epsilon)
    for instants in np.array_split(np.arange(number) * spread, parts):
        part = SlidingWindow(10**9, epsilon)
        part.count(instants)
        whole.merge(part)
    most = 2 + 1 / epsilon + 2 * math.log(max(2 * epsilon * number, 1)) / math.log1p(2 * epsilon)
    assert len(whole) <= most
    assert abs(whole.estimate().value - number) <= epsilon * number


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.integers(0, 300), max_size=400), EPSILONS)
def test_events_out_of_order_count_as_those_in_order(instants: list[int], epsilon: float) -> None:
    ordered, mixed = SlidingWindow(100, epsilon), SlidingWindow(100, epsilon)
    ordered.count(sorted(instants))
    mixed.count(instants)
    for one, other in zip(ordered.held, mixed.held, strict=True):
        assert np.array_equal(one, other)


def test_nothing_has_come() -> None:
    assert SlidingWindow(10, 0.1).estimate(5).value == 0
    assert len(SlidingWindow(10, 0.1)) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SlidingWindow(-1, 0.1), "not negative"),
        (lambda: SlidingWindow(1, 0.0), "epsilon"),
        (lambda: SlidingWindow(1, 0.1).merge(SlidingWindow(2, 0.1)), "do not merge"),
    ],
)
def test_wrong_use_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_the_past_is_gone() -> None:
    window = SlidingWindow(10, 0.1)
    window.count([100])
    with pytest.raises(ValueError, match="has gone on to 100"):
        window.estimate(99)


@pytest.mark.parametrize(
    ("spans", "sums"),
    [([[1], [0]], [[1.0]]), ([[1, 2]], [[1.0]]), ([[1], [2]], [[math.nan]]), ([[1], [2]], [[0.0]]), ([[1], [2]], [])],
)
def test_buckets_that_are_none_are_refused(spans: list[list[int]], sums: list[list[float]]) -> None:
    with pytest.raises(ValueError, match=r"of shape|bucket"):
        SlidingWindow(10, 0.1).hold(np.array(spans, np.int64), np.array(sums, np.float64))
