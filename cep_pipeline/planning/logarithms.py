"""Sums of numbers that are known by their natural logarithms, of any size."""

from __future__ import annotations

import math
from collections.abc import Iterable


def ln_sum(logarithms: Iterable[float]) -> float:
    """ln of the sum of the numbers with these natural logarithms; of none, minus infinity."""
    terms = list(logarithms)
    largest = max(terms, default=-math.inf)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum(math.exp(term - largest) for term in terms))


def from_ln(logarithm: float) -> float:
    """The number with this natural logarithm; infinity where it exceeds a float.

    Examples
    --------
    >>> from_ln(0.0), from_ln(1000.0)
    (1.0, inf)
    """
    return math.exp(logarithm) if logarithm < 709 else math.inf
