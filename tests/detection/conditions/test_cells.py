"""What cells sum up, exactly."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from cep_pipeline.detection.conditions.cells import exact_average

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(total=st.one_of(st.integers(-(2**94), 2**94), INT64), count=st.integers(1, 2**31 - 1))
@example(total=2**63 + 2**10, count=1)
@example(total=2**63 + 2**10 + 1, count=1)
@example(total=-(2**63) - 3 * 2**10, count=1)
@example(total=2**54 + 1, count=2**31 - 1)
@example(total=(2**53 + 1) * 3, count=3)
def test_averages_are_rounded_once(total: int, count: int) -> None:
    average = exact_average.py_func(total >> 32, total & (2**32 - 1), count)
    assert average == float(Fraction(total, count))
