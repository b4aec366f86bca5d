"""By how much numbers have moved, as `thresholds.Deviation.relative`. Imported only where it is compiled."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
from __future__ import annotations

import math
from typing import Any

from numba import carray, njit

from cep_pipeline.adaptation.threshold_codes import ARE_LN, BEFORE, NOW, NUMBERS, READ, THRESHOLD, WORDS
from cep_pipeline.compiled.pointers import float64_at, uint8_at


@njit(error_model="numpy")
def relative(now: float, before: float) -> float:
    """|now - before| / before."""
    return abs(now - before) / before


def moved(words_at: Any) -> int:
    """Take the numbers that are read; the place of the first that moved by the threshold or more, or their number."""
    words = carray(words_at, WORDS)
    now, before, read = float64_at(words[NOW]), float64_at(words[BEFORE]), float64_at(words[READ])
    are_ln, threshold = uint8_at(words[ARE_LN]), float64_at(words[THRESHOLD])[0]
    count = words[NUMBERS]
    first = count
    for place in range(count):
        number = math.exp(read[place]) if are_ln[place] else read[place]
        now[place] = number
        if first == count and relative(number, before[place]) >= threshold:
            first = place
    return first
