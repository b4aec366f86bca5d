"""Vectorized comparisons of the pattern language: exact between int64 and float64, strings by code point.

Each comparison gives the rows at which it is *true*; null and NaN make it unknown, which is not true, whether it is
negated or not. `least`, `greatest` and `coalesce` stand at the end: they give one of the columns that they compare.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np

from cep_pipeline.expressions.arithmetic import INT64_MAX, INT64_MIN, both_valid
from cep_pipeline.expressions.columns import Array, Column
from cep_pipeline.patterns.conditions import Comparator, Value
from cep_pipeline.patterns.expressions import ValueType

EXACT_IN_FLOAT = 2**53
"""The magnitude up to which every int64 is a float64."""

_COMPARE: dict[Comparator, Callable[[Array, Array], Array]] = {
    Comparator.EQ: np.equal,
    Comparator.NE: np.not_equal,
    Comparator.LT: np.less,
    Comparator.LE: np.less_equal,
    Comparator.GT: np.greater,
    Comparator.GE: np.greater_equal,
}


def known(column: Column) -> Array | None:
    """A mask of the values that are neither null nor NaN; None: all are."""
    if column.type is not ValueType.FLOAT64:
        return column.valid
    nan = np.isnan(column.values)
    return both_valid(column.valid, ~nan) if nan.any() else column.valid


def compare(comparator: Comparator, left: Column, right: Column) -> Array:
    """The rows at which `left comparator right` is true.

    Raises
    ------
    TypeError
        The types do not compare; the language refuses such patterns.
    """
    if left.type.is_number and right.type.is_number:
        if left.type is right.type:
            truth = _COMPARE[comparator](left.values, right.values)
        elif left.type is ValueType.INT64:
            truth = _compare_mixed(comparator, left.values, right.values)
        else:
            truth = _compare_mixed(comparator.mirror, right.values, left.values)
    elif left.type is right.type is ValueType.STRING:
        truth = _compare_strings(comparator, left, right)
    elif left.type is right.type is ValueType.BOOL and comparator in (Comparator.EQ, Comparator.NE):
        truth = _COMPARE[comparator](left.values, right.values)
    else:
        raise TypeError(f"{left.type.value} {comparator.value} {right.type.value} is no comparison of the language")
    mask = left.valid
    mask = both_valid(mask, right.valid)
    if comparator is Comparator.NE:  # the only one that IEEE 754 makes true of a NaN
        mask = both_valid(known(left), known(right))
    return truth if mask is None else truth & mask


def _compare_mixed(comparator: Comparator, integers: Array, floats: Array) -> Array:
    """Exact comparison: rounding an int64 keeps its order to every float64 but the one that it is rounded to."""
    rounded = integers.astype(np.float64)
    truth = _COMPARE[comparator](rounded, floats)
    tie = (rounded == floats) & (np.abs(rounded) >= EXACT_IN_FLOAT)
    if tie.any():
        exact = np.broadcast_to(integers, tie.shape)[tie]
        target = np.broadcast_to(floats, tie.shape)[tie]
        beyond = target >= 2.0**63  # above every int64
        whole = np.where(beyond, 0.0, target).astype(np.int64)
        order = np.where(beyond, -1, (exact > whole).astype(np.int8) - (exact < whole).astype(np.int8))
        truth[tie] = _COMPARE[comparator](order, np.zeros_like(order))
    return truth


def _compare_strings(comparator: Comparator, left: Column, right: Column) -> Array:
    assert left.dictionary is not None
    assert right.dictionary is not None
    if left.dictionary is right.dictionary:
        return _COMPARE[comparator](left.values, right.values)
    if len(left.dictionary) < len(right.dictionary):
        return _compare_strings(comparator.mirror, right, left)
    # Ranks in the larger dictionary, doubled: a string that it lacks gets the odd number between its neighbours.
    place = np.searchsorted(left.dictionary, right.dictionary)
    present = np.zeros(len(place), dtype=bool)
    inside = place < len(left.dictionary)
    present[inside] = left.dictionary[place[inside]] == right.dictionary[inside]
    doubled = 2 * place - ~present
    if len(doubled) == 0:  # every row is null
        doubled = np.zeros(1, np.int64)
    return _COMPARE[comparator](2 * left.values.astype(np.int64), doubled[right.values])


def between(operand: Column, low: Column, high: Column, *, negated: bool) -> Array:
    """The rows at which `operand [NOT] BETWEEN low AND high` is true, both ends included.

    As in SQL, being below the lower end is enough for NOT BETWEEN, even if the higher one is unknown.
    """
    if negated:
        return compare(Comparator.LT, operand, low) | compare(Comparator.GT, operand, high)
    return compare(Comparator.GE, operand, low) & compare(Comparator.LE, operand, high)


def member(operand: Column, values: tuple[Value, ...], *, negated: bool) -> Array:
    """The rows at which `operand [NOT] IN (values)` is true; a NaN among the values leaves NOT IN unknown."""
    if operand.type is ValueType.STRING:
        assert operand.dictionary is not None
        wanted = {value for value in values if isinstance(value, str)}
        listed = np.fromiter((entry in wanted for entry in operand.dictionary), bool, len(operand.dictionary))
        found = listed[operand.values] if len(listed) else np.zeros(len(operand), dtype=bool)
    elif operand.type is ValueType.BOOL:
        found = np.isin(operand.values, np.array([v for v in values if isinstance(v, bool)], dtype=bool))
    elif operand.type.is_number:
        found = np.isin(operand.values, members_of(operand.type, values))
    else:
        raise TypeError(f"{operand.type.value} IN (...) is no comparison of the language")
    if negated:
        unknown = any(isinstance(value, float) and value != value for value in values)
        found = np.zeros_like(found) if unknown else ~found
    mask = known(operand)
    return found if mask is None else found & mask


def is_null(operand: Column, *, negated: bool) -> Array:
    """The rows at which `operand IS [NOT] NULL` is true; NaN is not null."""
    if operand.valid is None:
        return np.full(len(operand), negated)
    return operand.valid if negated else ~operand.valid


def like(operand: Column, text: str, *, negated: bool) -> Array:
    """The rows at which `operand [NOT] LIKE text` is true."""
    assert operand.dictionary is not None
    alike = like_expression(text).fullmatch
    listed = np.fromiter((alike(entry) is not None for entry in operand.dictionary), bool, len(operand.dictionary))
    found = listed[operand.values] if len(listed) else np.zeros(len(operand), dtype=bool)
    if negated:
        found = ~found
    return found if operand.valid is None else found & operand.valid


@lru_cache(maxsize=256)
def like_expression(text: str) -> re.Pattern[str]:
    r"""The regular expression of a LIKE text, which a whole string must match.

    Examples
    --------
    >>> [text for text in ("50%", "50 %", "500", "5%") if like_expression(r"50_\%").fullmatch(text)]
    ['50 %']
    """
    parts = re.findall(r"\\[%_\\]|.", text, re.DOTALL)
    forms = {"%": ".*", "_": "."}
    # A backslash before one of the three is left out; any other is itself.
    escaped = (forms.get(part) or re.escape(part[-1]) for part in parts)
    return re.compile("".join(escaped), re.DOTALL)


def members_of(kind: ValueType, values: tuple[Value, ...]) -> Array:
    """Select the numbers that a column of this type can hold exactly."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if kind is ValueType.INT64:
        whole = {int(v) for v in numbers if isinstance(v, int) or v.is_integer()}
        return np.array(sorted(v for v in whole if INT64_MIN <= v <= INT64_MAX), np.int64)
    return np.array([float(v) for v in numbers if isinstance(v, float) or _is_float(v)], np.float64)


def _is_float(value: int) -> bool:
    try:
        return float(value) == value
    except OverflowError:
        return False


# --- least, greatest and coalesce ------------------------------------------------------------------------------------


def coalesce(kind: ValueType, arguments: list[Column]) -> Column:
    """The first of the arguments that is not null."""
    return _folded(kind, arguments, lambda held, _: np.zeros(len(held), dtype=bool))


def extreme(kind: ValueType, arguments: list[Column], *, smaller: bool) -> Column:
    """The least or the greatest of the arguments that are not null; NaN where one of them is NaN."""
    return _folded(kind, arguments, partial(is_exceeded, smaller=smaller))


def is_exceeded(held: Array, new: Array, *, smaller: bool) -> Array:
    """Select the new values that replace the extreme ones held: a NaN replaces any number, and nothing replaces it."""
    exceeded: Array = (new < held) if smaller else (new > held)
    if new.dtype.kind == "f":
        exceeded = (exceeded | np.isnan(new)) & ~np.isnan(held)
    return exceeded


def _folded(kind: ValueType, arguments: list[Column], replaces: Callable[[Array, Array], Array]) -> Column:
    """The first argument, in whose place each next one comes where it is null, and where the rule says."""
    count = next((len(argument) for argument in arguments if len(argument) != 1), 1)
    if kind is ValueType.STRING:
        arguments = of_one_dictionary(arguments)
    dtype = np.float64 if kind is ValueType.FLOAT64 else arguments[0].values.dtype
    held, some = np.zeros(count, dtype), np.zeros(count, dtype=bool)
    for argument in arguments:
        new = np.broadcast_to(argument.values.astype(dtype, copy=False), count)
        present = np.ones(count, dtype=bool) if argument.valid is None else np.broadcast_to(argument.valid, count)
        taken = present & (~some | replaces(held, new))
        held, some = np.where(taken, new, held), some | present
    return Column(kind, held, None if some.all() else some, arguments[0].dictionary)


def of_one_dictionary(columns: Sequence[Column]) -> list[Column]:
    """String columns with their ranks in one dictionary."""
    dictionaries = [column.dictionary for column in columns if column.dictionary is not None]
    if all(one is dictionaries[0] for one in dictionaries):
        return list(columns)
    dictionary = np.array(sorted({text for one in dictionaries for text in one}), dtype=object)
    found = []
    for column, own in zip(columns, dictionaries, strict=True):
        ranks = np.searchsorted(dictionary, own).astype(np.int32)
        values = ranks[column.values] if len(own) else np.zeros(len(column), np.int32)
        found.append(Column(ValueType.STRING, values, column.valid, dictionary))
    return found


CHOICES: dict[str, Callable[[ValueType, list[Column]], Column]] = {
    "least": partial(extreme, smaller=True),
    "greatest": partial(extreme, smaller=False),
    "coalesce": coalesce,
}
"""The functions by the names that the language gives them."""
