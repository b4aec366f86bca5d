"""Operations on 16 float64s side by side, for kernels written in Numba: each is a few vector instructions.

Loops over so few numbers are unrolled, and then often not made into vectors. A pointer names the first of 16 numbers.
Imported only where kernels are compiled.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call"
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic

LANES = 16
_double, _bit = ir.DoubleType(), ir.IntType(1)
_doubles = ir.VectorType(_double, LANES)
_numbers = types.CPointer(types.float64)


def _load(builder: Any, pointer: Any, after: int = 0) -> Any:
    at = builder.gep(pointer, [ir.Constant(ir.IntType(64), after)])
    return builder.load(builder.bitcast(at, _doubles.as_pointer()), align=8)


def _store(builder: Any, values: Any, pointer: Any, after: int = 0) -> None:
    at = builder.gep(pointer, [ir.Constant(ir.IntType(64), after)])
    builder.store(values, builder.bitcast(at, _doubles.as_pointer()), align=8)


def _splat(builder: Any, value: Any) -> Any:
    one = builder.insert_element(ir.Constant(_doubles, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(_doubles, ir.Undefined), zeros)


def _constant(value: float) -> Any:
    return ir.Constant(_doubles, [value] * LANES)


def _called(builder: Any, name: str, values: Any) -> Any:
    kind = ir.FunctionType(_doubles, [_doubles])
    return builder.call(get_or_insert_function(builder.module, kind, f"{name}.v{LANES}f64"), [values])


def _as_bits(builder: Any, passed: Any) -> Any:
    return builder.zext(builder.bitcast(passed, ir.IntType(LANES)), ir.IntType(64))


def _operation(result: Any, kinds: tuple[Any, ...], code: Callable[..., Any]) -> Any:
    """An intrinsic that takes arguments of these kinds; `code` writes it, given a builder and the arguments."""
    signature = result(*kinds)

    def generate(context: Any, builder: Any, known: Any, arguments: Any) -> Any:
        made = code(builder, *arguments)
        return context.get_dummy_value() if made is None else made

    typed: dict[int, Callable[..., Any]] = {  # Numba wants to know how many arguments there are
        1: lambda typing_context, one: (signature, generate),
        2: lambda typing_context, one, two: (signature, generate),
        3: lambda typing_context, one, two, three: (signature, generate),
        4: lambda typing_context, one, two, three, four: (signature, generate),
        5: lambda typing_context, one, two, three, four, five: (signature, generate),
    }
    return intrinsic(typed[len(kinds)])


def _comparison(comparator: str) -> tuple[Any, Any]:
    """Bits of the numbers that compare so with others beside them, and with one value; none where one is NaN."""

    def compared(builder: Any, left: Any, right: Any) -> Any:
        return _as_bits(builder, builder.fcmp_ordered(comparator, _load(builder, left), right))

    return (
        _operation(
            types.int64,
            (_numbers, _numbers),
            lambda builder, left, right: compared(builder, left, _load(builder, right)),
        ),
        _operation(
            types.int64,
            (_numbers, types.float64),
            lambda builder, left, value: compared(builder, left, _splat(builder, value)),
        ),
    )


less, less_than = _comparison("<")
at_most, at_most_than = _comparison("<=")
greater, greater_than = _comparison(">")
at_least, at_least_than = _comparison(">=")
equal, equal_to = _comparison("==")
unequal, unequal_to = _comparison("!=")


def _in_place(operate: Callable[..., Any], operands: int = 2) -> Any:
    """The numbers become the results of an operation on them and, of two operands, others beside them."""

    def apply(builder: Any, *pointers: Any) -> None:
        _store(builder, operate(builder, *(_load(builder, pointer) for pointer in pointers)), pointers[0])

    return _operation(types.void, (_numbers,) * operands, apply)


def _quotient(builder: Any, left: Any, right: Any) -> Any:
    by_zero = builder.fcmp_ordered("==", right, _constant(0.0))
    return builder.select(by_zero, _constant(math.nan), builder.fdiv(left, right))


def _combined(operate: Callable[[Any, Any, Any], Any]) -> Any:
    """The first numbers become the results of an operation on one value and on others."""

    def combine(builder: Any, target: Any, value: Any, others: Any) -> None:
        _store(builder, operate(builder, _splat(builder, value), _load(builder, others)), target)

    return _operation(types.void, (_numbers, types.float64, _numbers), combine)


one_plus = _combined(lambda builder, one, others: builder.fadd(one, others))
one_minus = _combined(lambda builder, one, others: builder.fsub(one, others))
minus_one = _combined(lambda builder, one, others: builder.fsub(others, one))
one_times = _combined(lambda builder, one, others: builder.fmul(one, others))
one_by = _combined(_quotient)
by_one = _combined(lambda builder, one, others: _quotient(builder, others, one))
add = _in_place(lambda builder, left, right: builder.fadd(left, right))
subtract = _in_place(lambda builder, left, right: builder.fsub(left, right))
multiply = _in_place(lambda builder, left, right: builder.fmul(left, right))
divide = _in_place(_quotient)
negate = _in_place(lambda builder, values: builder.fneg(values), 1)
make_absolute = _in_place(lambda builder, values: _called(builder, "llvm.fabs", values), 1)
take_root = _in_place(lambda builder, values: _called(builder, "llvm.sqrt", values), 1)

fill = _operation(
    types.void,
    (_numbers, types.float64),
    lambda builder, numbers, value: _store(builder, _splat(builder, value), numbers),
)
"""All numbers become one value."""
copy = _operation(
    types.void,
    (_numbers, _numbers),
    lambda builder, target, source: _store(builder, _load(builder, source), target),
)
"""The numbers become those beside them."""


def _places(begin: int, end: int) -> Any:
    """The places of a shuffle, one after another."""
    return ir.Constant(ir.VectorType(ir.IntType(32), end - begin), list(range(begin, end)))


def _wanted(builder: Any, bits: Any) -> Any:
    return builder.bitcast(builder.trunc(bits, ir.IntType(LANES)), ir.VectorType(_bit, LANES))


def _extreme(comparator: str, if_none: float) -> Any:
    """The least or the greatest of the numbers whose bits are set, NaN aside; an infinite number if there is none."""

    def extreme(builder: Any, numbers: Any, bits: Any) -> Any:
        values = _load(builder, numbers)
        wanted = builder.and_(_wanted(builder, bits), builder.fcmp_ordered("ord", values, values))
        values = builder.select(wanted, values, _constant(if_none))
        width = LANES
        while width > 1:
            width //= 2
            halves = [builder.shuffle_vector(values, values, _places(at, at + width)) for at in (0, width)]
            values = builder.select(builder.fcmp_ordered(comparator, *halves), *halves)
        return builder.extract_element(values, ir.Constant(ir.IntType(32), 0))

    return _operation(types.float64, (_numbers, types.int64), extreme)


def _running_least(builder: Any, target: Any, numbers: Any, bits: Any, least: Any) -> Any:
    values = builder.select(_wanted(builder, bits), _load(builder, numbers), _constant(math.inf))
    step = 1
    while step < LANES:
        before = builder.shuffle_vector(_constant(math.inf), values, _places(LANES - step, 2 * LANES - step))
        values = _smaller(builder, values, before)
        step *= 2
    values = _smaller(builder, values, _splat(builder, least))
    _store(builder, values, target)
    return builder.extract_element(values, ir.Constant(ir.IntType(32), LANES - 1))


running_least = _operation(types.float64, (_numbers, _numbers, types.int64, types.float64), _running_least)
"""The least so far of one value and the numbers up to each whose bit is set become the target; the last of them."""
least_of = _extreme("<", math.inf)
greatest_of = _extreme(">", -math.inf)


# -- ends of results ------------------------------------------------------------------------------------------------

Ends = tuple[Any, Any]


def _bounded(builder: Any, low: Any, high: Any) -> Ends:
    """Ends, infinite where they have no value."""
    known = [builder.fcmp_ordered("ord", end, end) for end in (low, high)]
    return (
        builder.select(known[0], low, _constant(-math.inf)),
        builder.select(known[1], high, _constant(math.inf)),
    )


def _smaller(builder: Any, left: Any, right: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", left, right), left, right)


def _larger(builder: Any, left: Any, right: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def _around(builder: Any, corners: list[Any], unknown: Any = None) -> Ends:
    """The ends of four results, infinite where one of these has no value, or nothing is known of them."""
    total = builder.fadd(builder.fadd(corners[0], corners[1]), builder.fadd(corners[2], corners[3]))
    anything = builder.fcmp_unordered("uno", total, total)
    if unknown is not None:
        anything = builder.or_(anything, unknown)
    low = _smaller(builder, _smaller(builder, *corners[:2]), _smaller(builder, *corners[2:]))
    high = _larger(builder, _larger(builder, *corners[:2]), _larger(builder, *corners[2:]))
    return builder.select(anything, _constant(-math.inf), low), builder.select(anything, _constant(math.inf), high)


def _ends_of_product(builder: Any, one: Ends, other: Ends) -> Ends:
    return _around(builder, [builder.fmul(left, right) for left in one for right in other])


def _ends_of_quotient(builder: Any, one: Ends, other: Ends) -> Ends:
    above, below = (
        builder.fcmp_ordered(comparator, end, _constant(0.0)) for comparator, end in zip("><", other, strict=True)
    )
    may_be_zero = builder.not_(builder.or_(above, below))
    return _around(builder, [builder.fdiv(left, right) for left in one for right in other], may_be_zero)


def _ends_of_magnitude(builder: Any, low: Any, high: Any) -> Ends:
    zero = _constant(0.0)
    opposite = builder.fneg(low)
    least = _larger(builder, _larger(builder, low, builder.fneg(high)), zero)
    return least, _larger(builder, opposite, high)


def _ends_of_root(builder: Any, low: Any, high: Any) -> Ends:
    return tuple(_called(builder, "llvm.sqrt", _larger(builder, end, _constant(0.0))) for end in (low, high))


def _store_ends(builder: Any, ends: Ends, target: Any) -> None:
    """Store the low ends, and the high ones behind them."""
    for number, values in enumerate(_bounded(builder, *ends)):
        _store(builder, values, target, LANES * number)


def _both_ends(operate: Callable[..., Ends]) -> Any:
    """Ends, 16 low ones and the high ones behind them, become those of the results with others of the same kind."""

    def apply(builder: Any, *pointers: Any) -> None:
        pairs = [(_load(builder, pointer), _load(builder, pointer, LANES)) for pointer in pointers]
        _store_ends(builder, operate(builder, *pairs), pointers[0])

    return _operation(types.void, (_numbers, _numbers), apply)


def _own_ends(operate: Callable[..., Ends]) -> Any:
    """Ends, 16 low ones and the high ones behind them, become those of the results of an operation."""

    def apply(builder: Any, ends: Any) -> None:
        _store_ends(builder, operate(builder, _load(builder, ends), _load(builder, ends, LANES)), ends)

    return _operation(types.void, (_numbers,), apply)


def _ends_of_sum(builder: Any, one: Ends, other: Ends) -> Ends:
    return builder.fadd(one[0], other[0]), builder.fadd(one[1], other[1])


def _ends_of_difference(builder: Any, one: Ends, other: Ends) -> Ends:
    return builder.fsub(one[0], other[1]), builder.fsub(one[1], other[0])


def _combined_ends(operate: Callable[..., Ends]) -> Any:
    """16 low ends, and the high ones behind them, become those of the results for others and for one more pair."""

    def apply(builder: Any, target: Any, lows: Any, highs: Any, low: Any, high: Any) -> None:
        one, other = (_load(builder, lows), _load(builder, highs)), (_splat(builder, low), _splat(builder, high))
        _store_ends(builder, operate(builder, one, other), target)

    return _operation(types.void, (_numbers,) * 3 + (types.float64,) * 2, apply)


bound_sums = _both_ends(_ends_of_sum)
bound_differences = _both_ends(_ends_of_difference)
bound_products = _both_ends(_ends_of_product)
bound_quotients = _both_ends(_ends_of_quotient)
bound_opposites = _own_ends(lambda builder, low, high: (builder.fneg(high), builder.fneg(low)))
bound_magnitudes = _own_ends(_ends_of_magnitude)
bound_roots = _own_ends(_ends_of_root)
bound_sums_with = _combined_ends(_ends_of_sum)
bound_differences_with = _combined_ends(_ends_of_difference)
bound_differences_from = _combined_ends(lambda builder, one, other: _ends_of_difference(builder, other, one))
bound_products_with = _combined_ends(_ends_of_product)
bound_quotients_by = _combined_ends(_ends_of_quotient)
bound_quotients_of = _combined_ends(lambda builder, one, other: _ends_of_quotient(builder, other, one))
