"""Numbers as people read them: times, rates and ratios with the figures that count."""

from __future__ import annotations


def format_seconds(seconds: float) -> str:
    """Seconds with a unit that reads well.

    Examples
    --------
    >>> format_seconds(0.0123), format_seconds(2.5)
    ('12.3 ms', '2.50 s')
    """
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def count_per_s(rate: float) -> str:
    """A rate with three figures that count.

    Examples
    --------
    >>> [count_per_s(rate) for rate in (153_400_000, 41_234, 0.5e6, 812)]
    ['153 M', '41.2 k', '500 k', '812']
    """
    for unit, letter in ((1e6, " M"), (1e3, " k"), (1.0, "")):
        if rate >= unit:
            scaled = rate / unit
            return f"{scaled:.0f}{letter}" if scaled >= 99.95 else f"{scaled:.3g}{letter}"
    return f"{rate:.2g}"


def times_as_fast(ratio: float) -> str:
    """A ratio with three figures that count, or as a whole number.

    Examples
    --------
    >>> [times_as_fast(ratio) for ratio in (0.2589, 8.0, 32.6, 141.4, 12_431)]
    ['0.259', '8.00', '32.6', '141', '12,431']
    """
    if ratio >= 100:
        return f"{ratio:,.0f}"
    return f"{ratio:#.3g}"
