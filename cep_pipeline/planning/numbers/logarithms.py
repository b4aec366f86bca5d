"""Numbers of any size, known by their natural logarithms: their sums, and how people read them."""

from __future__ import annotations

import math
from collections.abc import Iterable


def ln_sum(logarithms: Iterable[float]) -> float:
    """ln of the sum of the numbers with these natural logarithms; of none, minus infinity."""
    terms = list(logarithms)
    largest = max(terms, default=-math.inf)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum([math.exp(term - largest) for term in terms]))


def from_ln(logarithm: float) -> float:
    """The number with this natural logarithm; infinity where it exceeds a float.

    Examples
    --------
    >>> from_ln(0.0), from_ln(1000.0)
    (1.0, inf)
    """
    return math.exp(logarithm) if logarithm < 709 else math.inf


def format_number(value: float) -> str:
    """Four significant digits.

    Examples
    --------
    >>> format_number(1234567.0), format_number(0.49871), format_number(0.0), format_number(2e-9)
    ('1,235,000', '0.4987', '0', '2e-09')
    """
    if value == 0:
        return "0"
    return format_ln(math.log(value))


def format_ln(logarithm: float) -> str:
    """The number with this natural logarithm, to four significant digits, however large.

    Examples
    --------
    >>> format_ln(math.log(136.54)), format_ln(0.0), format_ln(1000.0), format_ln(2.0**63)
    ('136.5', '1', '1.97e+434', '1e+4005659580146784768')
    """
    if logarithm == -math.inf:
        return "0"
    exponent = math.floor(logarithm / math.log(10) + 1e-12)
    if -4 <= exponent < 9:
        value = float(f"{math.exp(logarithm):.4g}")
        return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    mantissa = 10 ** (logarithm / math.log(10) - exponent)  # of a logarithm without any decimals left it is 1
    return f"{mantissa:.4g}e{exponent:+03d}"
