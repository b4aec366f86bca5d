"""Integers of any size as decimal text and back; Python's own conversion stops at 4,300 digits."""

from __future__ import annotations

from decimal import Decimal


def to_text(number: int) -> str:
    """The digits of an integer.

    Examples
    --------
    >>> to_text(2**60), len(to_text(2**100_000))
    ('1152921504606846976', 30103)
    """
    return str(Decimal(number))


def from_text(text: str) -> int:
    """The integer again.

    Examples
    --------
    >>> from_text(to_text(2**100_000)) == 2**100_000
    True
    """
    return int(Decimal(text))


def grouped(text: str) -> str:
    """Digits in groups of three, as a person reads them.

    Examples
    --------
    >>> grouped("1152921504606846976")
    '1,152,921,504,606,846,976'
    """
    return f"{Decimal(text):,}"
