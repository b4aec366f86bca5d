"""Types of expressions, and what may be compared with what (docs/language.md, section 3.4).

Every rule returns a type, or the reason why there is none: the parser knows the place, the rules know the types.
"""

from __future__ import annotations

from collections.abc import Sequence

from cep_pipeline.patterns.conditions import Comparator, Value
from cep_pipeline.patterns.expressions import ValueType

AGGREGATES = ("avg", "sum", "min", "max", "count", "first", "last")
"""Aggregates over all elements of a Kleene variable."""
PREFIX_AGGREGATES = ("avg", "sum", "min", "max", "count")
"""Aggregates over the elements before `v[i]`."""
FUNCTIONS = {"abs": 1, "sqrt": 1, "ln": 1, "corr": 2}
"""Functions of values, with their number of arguments."""

_NAMES = {
    ValueType.INT64: "int",
    ValueType.FLOAT64: "float",
    ValueType.BOOL: "bool",
    ValueType.STRING: "string",
    ValueType.FLOAT64_LIST: "list",
}


class TypeMismatch(Exception):
    """Why an operation has no type for its operands; the parser adds the place and makes it a PatternError."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def type_name(kind: ValueType) -> str:
    """The type's name in messages."""
    return _NAMES[kind]


def type_of_value(value: Value) -> ValueType:
    """The type of a constant."""
    if isinstance(value, bool):
        return ValueType.BOOL
    if isinstance(value, int):
        return ValueType.INT64
    return ValueType.FLOAT64 if isinstance(value, float) else ValueType.STRING


def type_of_negative(operand: ValueType) -> ValueType:
    """The type of `-operand`; TypeMismatch unless the operand is a number."""
    if not operand.is_number:
        raise TypeMismatch(f"cannot apply '-' to {type_name(operand)}")
    return operand


def type_of_arithmetic(operator: str, left: ValueType, right: ValueType) -> ValueType:
    """int64 of two int64 but for `/`, else float64."""
    if not (left.is_number and right.is_number):
        raise TypeMismatch(f"cannot apply '{operator}' to {type_name(left)} and {type_name(right)}")
    if operator != "/" and left is right is ValueType.INT64:
        return ValueType.INT64
    return ValueType.FLOAT64


def type_of_call(function: str, arguments: Sequence[ValueType]) -> ValueType:
    """Type of `abs`, `sqrt`, `ln` or `corr` of arguments of these types."""
    expected = FUNCTIONS[function]
    if len(arguments) != expected:
        plural = "" if expected == 1 else "s"
        raise TypeMismatch(f"{function} takes {expected} argument{plural}, {len(arguments)} given")
    for kind in arguments:
        if function == "corr" and kind is not ValueType.FLOAT64_LIST:
            raise TypeMismatch(f"corr takes two list attributes, not {type_name(kind)}")
        if function != "corr" and not kind.is_number:
            raise TypeMismatch(f"cannot apply {function} to {type_name(kind)}")
    return arguments[0] if function == "abs" else ValueType.FLOAT64


def type_of_aggregate(function: str, attribute: ValueType) -> ValueType:
    """Type of an aggregate over an attribute of this type."""
    if function == "count":
        return ValueType.INT64
    if function in ("sum", "avg") and not attribute.is_number:
        raise TypeMismatch(f"cannot apply {function} to {type_name(attribute)}: it needs numbers")
    if function in ("min", "max") and attribute in (ValueType.BOOL, ValueType.FLOAT64_LIST):
        raise TypeMismatch(f"cannot apply {function} to {type_name(attribute)}: its values have no order")
    return ValueType.FLOAT64 if function == "avg" else attribute


def check_comparable(comparator: Comparator, left: ValueType, right: ValueType) -> None:
    """Numbers compare with numbers, strings with strings, bools by = and != only, lists never."""
    if ValueType.FLOAT64_LIST in (left, right) or not (left is right or (left.is_number and right.is_number)):
        raise TypeMismatch(f"cannot compare {type_name(left)} with {type_name(right)}")
    if left is ValueType.BOOL and comparator not in (Comparator.EQ, Comparator.NE):
        raise TypeMismatch(f"bools compare only by = and !=, not by {comparator.value}")
