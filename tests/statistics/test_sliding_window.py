"""Exponential histograms against exact windows: the error that they promise, on streams made to break it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.errors import InputError
from cep_pipeline.statistics.sliding_window import SlidingWindow
from tests.thoroughness import examples

STATISTICS: tuple[str, ...] = ("count", "sum", "variance")
every_statistic = pytest.mark.parametrize("statistic", STATISTICS)
EPSILONS = st.sampled_from([0.01, 0.1, 0.3, 0.5])
Values = list[tuple[int, float]]


def exact(statistic: str, values: Values, start: int) -> float:
    inside = [value for instant, value in values if instant >= start]
    if statistic == "count":
        return float(len(inside))
    if statistic == "sum":
        return math.fsum(inside)
    if not inside:
        return 0.0
    mean = math.fsum(inside) / len(inside)
    return math.fsum((value - mean) ** 2 for value in inside) / len(inside)


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


def checked(window: SlidingWindow, values: Values, now: int, *, within: float | None) -> None:
    """The bounds hold, and the error is at most `within`."""
    found = window.estimate(now)
    truth = exact(window.statistic.name, values, now - window.width)
    largest = max((abs(value) for instant, value in values if instant >= now - window.width), default=0.0)
    slack = 1e-9 * max(abs(truth), abs(found.high)) + 1e-15 * largest**2  # what rounding does to equal values
    assert found.low - slack <= truth <= found.high + slack
    if within is not None:
        assert abs(found.value - truth) <= within * truth + slack


def last_moments(values: Values, width: int) -> Sequence[int]:
    """When each value is in the window for the last time, and the moment after."""
    latest = values[-1][0]
    return sorted({max(instant + width + late, latest) for instant, _ in values for late in (0, 1)} | {latest})


@every_statistic
@settings(deadline=None, max_examples=examples(150))
@given(values=streams(), width=st.sampled_from([0, 1, 5, 60, 500, 10_000]), epsilon=EPSILONS)
def test_error_is_at_most_epsilon_at_every_moment(statistic: str, values: Values, width: int, epsilon: float) -> None:
    window = SlidingWindow(statistic, width, epsilon)
    for place, (instant, value) in enumerate(values, 1):
        window.update(instant, value)
        if place % 37 == 0:
            checked(window, values[:place], instant, within=epsilon)
    for now in last_moments(values, width):
        checked(window, values, now, within=epsilon)


@every_statistic
@settings(deadline=None, max_examples=examples(100))
@given(values=streams(), cuts=st.lists(st.integers(0, 400), max_size=4), epsilon=EPSILONS)
def test_consecutive_parts_merge_within_epsilon(
    statistic: str, values: Values, cuts: list[int], epsilon: float
) -> None:
    edges = [0, *sorted(min(cut, len(values)) for cut in cuts), len(values)]
    merged = SlidingWindow(statistic, 60, epsilon)
    for begin, end in pairwise(edges):
        part = SlidingWindow(statistic, 60, epsilon)
        part.update_many([t for t, _ in values[begin:end]], [v for _, v in values[begin:end]])
        merged.merge(SlidingWindow.from_json(json.loads(json.dumps(part.to_json()))))
    for now in last_moments(values, 60):
        checked(merged, values, now, within=epsilon)


@every_statistic
@settings(deadline=None, max_examples=examples(100))
@given(values=streams(), epsilon=EPSILONS)
def test_bounds_hold_for_histograms_of_interleaved_streams(statistic: str, values: Values, epsilon: float) -> None:
    merged = SlidingWindow(statistic, 60, epsilon)
    for part in (values[::2], values[1::2]):
        window = SlidingWindow(statistic, 60, epsilon)
        window.update_many([t for t, _ in part], [v for _, v in part])
        merged.merge(window)
    for now in last_moments(values, 60):
        checked(merged, values, now, within=None)


@every_statistic
def test_a_burst_needs_few_buckets(statistic: str) -> None:
    """The number of buckets grows with the logarithm of the number of values."""
    generator = np.random.default_rng(7)
    sizes = []
    for number in (10_000, 100_000, 1_000_000):
        window = SlidingWindow(statistic, number, 0.05)
        window.update_many(np.arange(number), generator.lognormal(size=number))
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
    whole = SlidingWindow("count", 10**9, epsilon)
    for instants in np.array_split(np.arange(number) * spread, parts):
        part = SlidingWindow("count", 10**9, epsilon)
        part.update_many(instants)
        whole.merge(part)
    most = 2 + 1 / epsilon + 2 * math.log(max(2 * epsilon * number, 1)) / math.log1p(2 * epsilon)
    assert len(whole) <= most
    assert abs(whole.estimate().value - number) <= epsilon * number


def test_one_by_one_and_all_at_once_estimate_alike() -> None:
    one, many = SlidingWindow("sum", 1000, 0.01), SlidingWindow("sum", 1000, 0.01)
    values = np.random.default_rng(3).exponential(size=5000)
    for instant, value in enumerate(values):
        one.update(instant, float(value))
    many.update_many(np.arange(5000), values)
    truth = values[-1001:].sum()
    assert abs(one.estimate().value - truth) <= 0.01 * truth
    assert abs(many.estimate().value - truth) <= 0.01 * truth


def test_nothing_has_come() -> None:
    for statistic in STATISTICS:
        assert SlidingWindow(statistic, 10, 0.1).estimate(5).value == 0
        assert SlidingWindow(statistic, 10, 0.1).latest is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SlidingWindow("median", 1, 0.1), "no statistic 'median'"),  # type: ignore[arg-type]
        (lambda: SlidingWindow("count", -1, 0.1), "not negative"),
        (lambda: SlidingWindow("count", 1, 0.0), "epsilon"),
        (lambda: SlidingWindow("sum", 1, 0.1).update_many([1], [math.nan]), "finite"),
        (lambda: SlidingWindow("sum", 1, 0.1).update_many([1], [-1.0]), "not negative"),
        (lambda: SlidingWindow("sum", 1, 0.1).update_many([1, 2], [1.0]), "2 instants, but 1 values"),
        (lambda: SlidingWindow("sum", 1, 0.1).merge(SlidingWindow("sum", 2, 0.1)), "do not merge"),
    ],
)
def test_wrong_use_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_the_past_is_gone() -> None:
    window = SlidingWindow("count", 10, 0.1)
    window.update(100)
    with pytest.raises(ValueError, match="has gone on to 100"):
        window.estimate(99)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "version"),
        ({"spans": [[1], [0]]}, "no histogram"),
        ({"spans": [[1, 2]]}, "no histogram"),
        ({"sums": [[1.0], [math.nan], [0.0]]}, "no histogram"),
        ({"sums": None}, "no histogram"),
        ({"epsilon": "a"}, "no histogram"),
    ],
)
def test_a_damaged_state_is_told(change: dict[str, object], message: str) -> None:
    window = SlidingWindow("count", 10, 0.1)
    window.update(1)
    with pytest.raises(InputError, match=message):
        SlidingWindow.from_json({**window.to_json(), **change}, "state.json")
