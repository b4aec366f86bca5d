"""The aggregates of SUMMARIZE: a record of each, and what is known of a group's values after some of its matches.

To add an aggregate, add a record: parser, types, listed matches, slices and sweeps ask it. What is known of the values
is one of two states. Sums over a semiring give `Total`, and those over ranks give `Extreme`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from cep_pipeline.patterns.expressions import ValueType

Value = int | float | str | bool | None
"""A value of a group's column, or an aggregate; a bucket of time is int64 microseconds."""
FRACTION_BITS = 1074
"""Every float64 is a whole multiple of 2 to the minus this."""


@dataclass
class Total:
    """The sum of some values and their number; nulls are left out before.

    Attributes
    ----------
    values
        How many values there are.
    exact
        The sum of the finite ones: of int64 itself, of float64 in units of 2 ** -1074.
    special
        The sum of those that are NaN or infinite; 0.0 where there is none.
    """

    values: int = 0
    exact: int = 0
    special: float = 0.0

    def add(self, other: State) -> None:
        """Take other values."""
        assert isinstance(other, Total)
        self.values += other.values
        self.exact += other.exact
        self.special += other.special

    def over(self, divisor: int, *, is_float: bool) -> float | None:
        """The float64 next to the sum divided by a number; None where there are no values."""
        if not self.values:
            return None
        return self.special or _quotient(self.exact, divisor << FRACTION_BITS if is_float else divisor)


@dataclass
class Extreme:
    """The least or the greatest of some values; NaN where one of them is."""

    greatest: bool
    value: Value = None

    def add(self, other: State) -> None:
        """Take other values."""
        own, new = self.value, other.value if isinstance(other, Extreme) else None
        if new is None or is_nan(own):
            return
        assert own is None or type(own) is type(new)
        if own is None or is_nan(new) or (new > own if self.greatest else new < own):  # type: ignore[operator]
            self.value = new


State = Total | Extreme


@dataclass(frozen=True)
class SummaryFunction:
    """An aggregate of SUMMARIZE.

    Attributes
    ----------
    state
        What is known of no value; None where the number of matches says all.
    value
        Returns the aggregate, by a state, and whether the values are float64.
    takes, needs
        Whether it takes values of a type, and what it says of others.
    result
        Returns the type of its value; None stands for a whole number of any size, which is written as text.
    """

    name: str
    state: Callable[[], State] | None
    value: Callable[[Any, bool], Value]
    takes: Callable[[ValueType], bool] = lambda kind: kind.is_number
    needs: str = "it needs numbers"
    result: Callable[[ValueType], ValueType | None] = lambda kind: kind

    @property
    def argument(self) -> str:
        """The argument, as a message shows it."""
        return "*" if self.state is None else "…"


def _of_total(total: Total, is_float: bool) -> Value:
    return total.over(1, is_float=True) if is_float else total.exact if total.values else None


def _extreme(name: str, *, greatest: bool) -> SummaryFunction:
    return SummaryFunction(
        name,
        partial(Extreme, greatest),
        lambda state, _: state.value,
        lambda kind: kind not in (ValueType.BOOL, ValueType.FLOAT64_LIST),
        "its values have no order",
    )


SUMMARY_FUNCTIONS = {
    one.name: one
    for one in (
        SummaryFunction("count", None, lambda matches, _: matches, result=lambda _: None),
        SummaryFunction("sum", Total, _of_total, result=lambda kind: None if kind is ValueType.INT64 else kind),
        SummaryFunction(
            "avg",
            Total,
            lambda total, is_float: total.over(total.values, is_float=is_float),
            result=lambda _: ValueType.FLOAT64,
        ),
        _extreme("min", greatest=False),
        _extreme("max", greatest=True),
    )
}
"""The aggregates by their names."""


def _quotient(number: int, divisor: int) -> float:
    """The float64 next to a quotient: Python divides whole numbers exactly, and rounds once."""
    try:
        return number / divisor
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def is_nan(value: Value) -> bool:
    """True for NaN."""
    return isinstance(value, float) and math.isnan(value)
