"""The movement of numbers, as `thresholds.Deviation.relative`. Imported only where it is compiled."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any

from numba import carray, njit

from cep_pipeline.adaptation.threshold_codes import (
    ASKED,
    BEFORE,
    NOW,
    NUMBERS,
    PLACES_AT,
    PRIORS_AT,
    ROW_AT,
    SHARES,
    SMALLEST,
    THRESHOLD,
    WORDS,
)
from cep_pipeline.compiled.pointers import float64_at, int64_at


@njit(error_model="numpy")
def relative(now: float, before: float) -> float:
    """|now - before| / before."""
    return abs(now - before) / before


def moved(words_at: Any) -> int:
    """Take the numbers of a row; the place of the first that moved by the threshold or more, or their number."""
    words = carray(words_at, WORDS)
    row, places, priors = float64_at(words[ROW_AT]), int64_at(words[PLACES_AT]), float64_at(words[PRIORS_AT])
    asked, now, before = int64_at(words[ASKED]), float64_at(words[NOW]), float64_at(words[BEFORE])
    threshold = float64_at(words[THRESHOLD])[0]
    count = words[NUMBERS]
    first = count
    for number in range(count):
        one = asked[number]
        found = row[places[one]] if places[one] >= 0 else priors[one]
        if one >= words[SHARES]:  # known by its logarithm
            found = math.exp(math.log(max(found, SMALLEST)))
        now[number] = found
        if first == count and relative(found, before[number]) >= threshold:
            first = number
    return first
