"""Values of expressions and truth of comparisons (docs/language.md, section 3.4).

A value is an int (int64), float, bool, str, list of floats, or None for null. A truth is True, False, or None for
unknown.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

from cep_pipeline.patterns.conditions import (
    Atom,
    Between,
    Comparator,
    Comparison,
    Like,
    Membership,
    NullTest,
    Truth,
)
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Arithmetic,
    Call,
    Element,
    Expression,
    Length,
    Literal,
    Negative,
    Reference,
    ValueType,
)
from tests.oracle.clock import MIDNIGHT, local_reading, microseconds_between
from tests.oracle.events import Event, is_absent

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Binding = Mapping[str, tuple[Event, ...]]
"""The events of each variable; one event for a variable that is no Kleene variable, none for an absent `v*`."""


@dataclass(frozen=True)
class Choice:
    """The bound element and the index i (from 2) of each Kleene variable that a conjunct mentions so."""

    elements: Mapping[str, Event] = field(default_factory=dict)
    indexes: Mapping[str, int] = field(default_factory=dict)


def value_of(expression: Expression, binding: Binding, choice: Choice) -> Any:
    """The value of an expression; a variable that the binding has not (another branch) gives null."""
    match expression:
        case Literal(value):
            return value
        case Reference(variable, attribute, element):
            event = _event(variable, element, binding, choice)
            return None if event is None else _typed(event.attributes[attribute], expression.type)
        case Length(variable):
            return len(binding[variable]) if variable in binding else None
        case Aggregate(function, variable, attribute, prefix):
            if variable not in binding:
                return None
            events = binding[variable][: choice.indexes[variable] - 1] if prefix else binding[variable]
            return _typed(aggregate(function, [event.attributes[attribute] for event in events]), expression.type)
        case Negative(operand):
            number = value_of(operand, binding, choice)
            return None if number is None else _int64(-number)
        case Arithmetic(operator, left, right):
            return arithmetic(operator, value_of(left, binding, choice), value_of(right, binding, choice))
        case Call(function, arguments, _, zone):
            values = [value_of(argument, binding, choice) for argument in arguments]
            return _typed(call(function, values, zone), expression.type)


def _typed(value: Any, value_type: ValueType) -> Any:
    """The value, or as float64 where an int64 stands beside a float64: of other types, or of other arguments."""
    return float(value) if value_type is ValueType.FLOAT64 and isinstance(value, int) else value


def _event(variable: str, element: Element, binding: Binding, choice: Choice) -> Event | None:
    events = binding.get(variable)
    if not events:
        return None
    match element:
        case Element.ONLY | Element.FIRST:
            return events[0]
        case Element.LAST:
            return events[-1]
        case Element.EACH:
            return choice.elements[variable]
        case Element.CURRENT:
            return events[choice.indexes[variable] - 1]
        case Element.PREVIOUS:
            return events[choice.indexes[variable] - 2]


def _int64(number: int | float) -> int | float | None:
    """The number, or null where an integer leaves int64."""
    if isinstance(number, int) and not INT64_MIN <= number <= INT64_MAX:
        return None
    return number


def arithmetic(operator: str, left: Any, right: Any) -> int | float | None:
    """`left operator right`; null with null, on division by zero and on int64 overflow."""
    if left is None or right is None:
        return None
    match operator:
        case "+":
            return _int64(left + right)
        case "-":
            return _int64(left - right)
        case "*":
            return _int64(left * right)
        case "/":
            return None if right == 0 else float(left) / float(right)
        case "%":
            return None if right == 0 else _remainder(left, right)
    raise AssertionError(operator)


def _remainder(dividend: int | float, divisor: int | float) -> int | float:
    """The remainder with the sign of the dividend."""
    if isinstance(dividend, int) and isinstance(divisor, int):
        size = abs(dividend) % abs(divisor)
        return -size if dividend < 0 else size
    if is_absent(float(dividend)) or is_absent(float(divisor)) or math.isinf(dividend):
        return math.nan
    return math.fmod(dividend, divisor)


def call(function: str, arguments: list[Any], zone: str | None = None) -> Any:
    """A function of values; null outside its domain."""
    present = [argument for argument in arguments if argument is not None]
    match function:
        case "coalesce":
            return present[0] if present else None
        case "least":
            return aggregate("min", present)
        case "greatest":
            return aggregate("max", present)
    if len(present) < len(arguments):
        return None
    if function == "corr":
        return correlation(*arguments)
    (x,) = arguments
    match function:
        case "abs":
            return _int64(abs(x))
        case "sqrt":
            return None if x < 0 else math.sqrt(x)
        case "ln":
            return None if x <= 0 else math.log(x)
    reading = local_reading(x, zone or "UTC")
    match function:
        case "time_of_day":
            return reading and microseconds_between(datetime.combine(reading, MIDNIGHT), reading)
        case "day_of_week":
            return reading and reading.isoweekday()
    raise AssertionError(function)


def correlation(x: list[float | None], y: list[float | None]) -> float | None:
    """Pearson's correlation of two lists; null where it is undefined."""
    if len(x) != len(y) or len(x) < 2 or any(is_absent(number) for number in (*x, *y)):
        return None
    if any(math.isinf(number) for number in (*x, *y)):
        return None
    deviations_x, deviations_y = _deviations(x), _deviations(y)
    square = sum(a * a for a in deviations_x) * sum(b * b for b in deviations_y)
    if square == 0:
        return None
    covariance = sum(a * b for a, b in zip(deviations_x, deviations_y, strict=True))
    size = math.sqrt(covariance * covariance / square)
    return -size if covariance < 0 else size


def _deviations(numbers: list[float]) -> list[Fraction]:
    """The exact differences to the mean: no rounding decides whether there is variance."""
    exact = [Fraction(number) for number in numbers]
    mean = sum(exact) / len(exact)
    return [number - mean for number in exact]


def aggregate(function: str, values: list[Any]) -> Any:
    """An aggregate over the values of a list of events, in stream order."""
    if function in ("first", "last"):
        return values[0 if function == "first" else -1] if values else None
    present = [value for value in values if value is not None]
    if function == "count":
        return len(present)
    if not present:
        return None
    if any(is_absent(value) for value in present):
        return math.nan
    match function:
        case "sum":
            return _int64(sum(present))
        case "avg":
            return sum(present) / len(present)
        case "min":
            return min(present)
        case "max":
            return max(present)
        case "stddev":
            return _deviation_of_sample(present)
        case "median":
            return statistics.median(present)
    raise AssertionError(function)


def _deviation_of_sample(numbers: list[int | float]) -> float | None:
    if len(numbers) < 2:
        return None
    return math.nan if any(map(math.isinf, numbers)) else statistics.stdev(numbers)


def truth_of(atom: Atom, binding: Binding, choice: Choice) -> bool | None:
    """The truth of one comparison."""
    match atom:
        case Comparison(comparator, left, right):
            return compare(comparator, value_of(left, binding, choice), value_of(right, binding, choice))
        case Membership(expression, values, _, negated):
            value = value_of(expression, binding, choice)
            truths = [compare(Comparator.EQ, value, member) for member in values]
            return _negated(any_of(truths), negated) if not is_absent(value) else None
        case Between(expression, low, high, negated):
            value = value_of(expression, binding, choice)
            above = compare(Comparator.GE, value, value_of(low, binding, choice))
            below = compare(Comparator.LE, value, value_of(high, binding, choice))
            return _negated(all_of([above, below]), negated)
        case NullTest(expression, negated):
            return _negated(value_of(expression, binding, choice) is None, negated)
        case Like(expression, text, negated):
            value = value_of(expression, binding, choice)
            return None if value is None else _negated(is_like(value, text), negated)
        case Truth(holds):
            return holds


def compare(comparator: Comparator, left: Any, right: Any) -> bool | None:
    """Exact comparison of two values; unknown with null, NaN or a list.

    Python compares an int with a float exactly, and strings by code point.
    """
    if is_absent(left) or is_absent(right) or isinstance(left, list) or isinstance(right, list):
        return None
    match comparator:
        case Comparator.EQ:
            return left == right
        case Comparator.NE:
            return left != right
        case Comparator.LT:
            return left < right
        case Comparator.LE:
            return left <= right
        case Comparator.GT:
            return left > right
        case Comparator.GE:
            return left >= right


def is_like(value: str, text: str) -> bool:
    """Whether the whole value is what LIKE's text describes."""
    meaning = {"%": ".*", "_": ".", r"\%": "%", r"\_": "_", r"\\": re.escape("\\")}
    parts = re.findall(r"\\[%_\\]|.", text, re.DOTALL)
    return re.fullmatch("".join(meaning.get(part, re.escape(part)) for part in parts), value, re.DOTALL) is not None


def all_of(truths: list[bool | None]) -> bool | None:
    """AND of SQL's logic."""
    if False in truths:
        return False
    return None if None in truths else True


def any_of(truths: list[bool | None]) -> bool | None:
    """OR of SQL's logic."""
    if True in truths:
        return True
    return None if None in truths else False


def _negated(truth: bool | None, negated: bool) -> bool | None:
    return (not truth) if negated and truth is not None else truth
