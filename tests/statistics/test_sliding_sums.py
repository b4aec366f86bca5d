"""Sums that are cut at the same instants: bounds that hold whatever is added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_pipeline.statistics.sliding_window import SlidingWindow
from cep_pipeline.statistics.windowed import packed, unpacked
from tests.thoroughness import examples

values = st.lists(st.tuples(st.integers(0, 40), st.sampled_from([1.0, 1.0, 5.0, 1000.0])), max_size=60)


@settings(deadline=None, max_examples=examples(200))
@given(
    values,
    st.lists(st.integers(1, 20), min_size=1, max_size=6),
    st.sampled_from([0.01, 0.1, 0.5]),
    st.integers(0, 900),
    st.integers(0, 900),
)
def test_the_true_sums_lie_between_what_is_inside_and_what_is_cut(
    steps: Sequence[tuple[int, float]], sizes: Sequence[int], epsilon: float, one: int, other: int
) -> None:
    start, end = sorted((one, other))
    times = np.cumsum([gap for gap, _ in steps] or [0])[: len(steps)]
    weights = np.array([weight for _, weight in steps])
    passing = np.where(np.arange(len(steps)) % 3 == 0, weights, 0.0)
    sums, begin = SlidingWindow(500, epsilon, 2), 0
    while begin < len(steps):
        stop = begin + sizes[begin % len(sizes)]
        part = SlidingWindow(500, epsilon, 2)
        part.add(np.stack((times[begin:stop],) * 2), np.stack((weights[begin:stop], passing[begin:stop])))
        sums.merge(part)
        begin = stop
    remembered = times[-1] - 500 if len(times) else 0
    if start < remembered:
        return
    found = sums.between(start, end)
    inside = (times >= start) & (times <= end)
    for row, truth in enumerate((weights[inside].sum(), passing[inside].sum())):
        assert found.inside[row] - 1e-9 <= truth <= found.inside[row] + found.cut[row] + 1e-9


def test_a_cut_bucket_holds_little_of_all_that_is_newer() -> None:
    sums = SlidingWindow(10**9, 0.05)
    for start in range(0, 100_000, 1000):
        times = np.arange(start, start + 1000)
        sums.add(np.stack((times, times)), np.ones((1, 1000)))
    assert len(sums) < 400
    for start in range(0, 99_990, 777):
        found = sums.between(start, 10**6)
        assert found.inside[0] + found.cut[0] >= 100_000 - start >= found.inside[0]
        assert found.cut[0] <= 2 * 0.05 * (100_000 - start) + 1


def test_sums_of_another_shape_are_refused() -> None:
    window = SlidingWindow(100, 0.1, 2)
    window.add(np.array([[0, 5], [4, 9]]), np.array([[3.0, 1.0], [2.0, 0.0]]))
    assert window.estimate(9).value == 4.0
    with pytest.raises(ValueError, match="do not merge"):
        window.merge(SlidingWindow(100, 0.1, 3))
    with pytest.raises(ValueError, match="shape"):
        window.hold(np.zeros((2, 1), np.int64), np.ones((3, 1)))


@pytest.mark.parametrize("text", ["", "%%%", "AAAA", packed(np.array([1.0, np.nan])), packed(np.arange(3))])
def test_arrays_that_are_damaged_are_told(text: str) -> None:
    with pytest.raises(ValueError):
        unpacked(text, np.float64, 2)
