"""Typed pointers made from addresses, so that a kernel takes one array of words instead of dozens of arguments.

Numba reads and writes `pointer[i]` without a check or a wrapped index. At the end stand comparisons of 16 float64s at a
time, and bits: each is a few instructions. Loops over so few numbers are unrolled, and comparisons whose results are
bits are then not made into vectors. Imported only where kernels are compiled.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call"
from __future__ import annotations

from typing import Any, TypeAlias

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from cep_pipeline.compiled.native import WIDTH


def _pointer_to(kind: Any) -> Any:
    pointer = types.CPointer(kind)

    @intrinsic
    def convert(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(pointer))

        return pointer(types.int64), generate

    return convert


int64_at = _pointer_to(types.int64)
"""The int64s from an address on."""
int32_at = _pointer_to(types.int32)
"""The int32s from an address on."""
uint8_at = _pointer_to(types.uint8)
"""The uint8s from an address on."""
float64_at = _pointer_to(types.float64)
"""The float64s from an address on."""
int8_at = _pointer_to(types.int8)
"""The int8s from an address on."""


@intrinsic
def further(typing_context: Any, pointer: Any, places: Any) -> Any:
    """The pointer to what lies so many places further on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.int64), generate


Int64s: TypeAlias = Any
Int32s: TypeAlias = Any
Int8s: TypeAlias = Any
Uint8s: TypeAlias = Any
Float64s: TypeAlias = Any
"""Annotations of the fields of a record whose word is the address of such numbers (`reader_of`)."""
_POINTERS = {
    "Int64s": types.int64,
    "Int32s": types.int32,
    "Int8s": types.int8,
    "Uint8s": types.uint8,
    "Float64s": types.float64,
}


def reader_of(record: Any) -> Any:
    """The function `(words, at)` that makes a record, a NamedTuple, of the words from `words[at]` on, one a field.

    A word is the address of the numbers that the field's annotation names; of a field of type int it is the value.
    """
    names = [annotation.__forward_arg__ for annotation in record.__annotations__.values()]
    fields = [types.CPointer(_POINTERS[name]) if name in _POINTERS else types.int64 for name in names]
    made = types.NamedTuple(fields, record)

    @intrinsic
    def read(typing_context: Any, words: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values = []
            for number, field in enumerate(fields):
                place = builder.add(arguments[1], context.get_constant(types.int64, number))
                word = builder.load(builder.gep(arguments[0], [place]))
                is_value = field is types.int64
                values.append(word if is_value else builder.inttoptr(word, context.get_value_type(field)))
            return context.make_tuple(builder, made, values)

        return made(words, types.int64), generate

    return read


# -- 16 numbers at a time ----------------------------------------------------------------------------------------------

_doubles = ir.VectorType(ir.DoubleType(), WIDTH)
_numbers = types.CPointer(types.float64)


def _load(builder: Any, pointer: Any) -> Any:
    return builder.load(builder.bitcast(pointer, _doubles.as_pointer()), align=8)


def _spread(builder: Any, value: Any, kind: Any) -> Any:
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def _comparison(comparator: str, right_kind: Any) -> Any:
    """Bits of the numbers behind a pointer that compare so with others, or with one; none where one is NaN."""

    @intrinsic
    def compared(typing_context: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            one, other = arguments
            other = _spread(builder, other, _doubles) if right_kind == types.float64 else _load(builder, other)
            passed = builder.fcmp_ordered(comparator, _load(builder, one), other)
            return builder.zext(builder.bitcast(passed, ir.IntType(WIDTH)), ir.IntType(64))

        return types.int64(_numbers, right_kind), generate

    return compared


less, at_most, greater, at_least, equal, unequal = (
    _comparison(comparator, _numbers) for comparator in ("<", "<=", ">", ">=", "==", "!=")
)
less_than, at_most_than, greater_than, at_least_than, equal_to, unequal_to = (
    _comparison(comparator, types.float64) for comparator in ("<", "<=", ">", ">=", "==", "!=")
)


@intrinsic
def fill(typing_context: Any, numbers: Any, value: Any) -> Any:
    """Make all numbers behind a pointer one value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers, value = arguments
        builder.store(_spread(builder, value, _doubles), builder.bitcast(numbers, _doubles.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(_numbers, types.float64), generate


_OFFSETS = [[bit for bit in range(8) if mask >> bit & 1] for mask in range(256)]
_bytes, _places = ir.VectorType(ir.IntType(8), 8), ir.VectorType(ir.IntType(32), 8)


@intrinsic
def put_places(typing_context: Any, out: Any, first: Any, mask: Any) -> Any:
    """Write the places of the bits of a mask of 8, counted from `first`; what is written behind them may be anything.

    The table that the mask is looked up in has 2 KB: this is within 1.3 times the speed of the native instruction where
    a CPU has it, and 3 to 5 times faster than LLVM's own substitute elsewhere.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, first, mask = arguments
        kind = ir.ArrayType(_bytes, 256)
        table = ir.GlobalVariable(builder.module, kind, builder.module.get_unique_name("offsets"))
        table.global_constant, table.linkage = True, "internal"
        table.initializer = ir.Constant(kind, [ir.Constant(_bytes, (own + [0] * 8)[:8]) for own in _OFFSETS])
        offsets = builder.load(builder.gep(table, [ir.Constant(ir.IntType(64), 0), mask]), align=8)
        places = builder.add(_spread(builder, first, _places), builder.zext(offsets, _places))
        builder.store(places, builder.bitcast(out, _places.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(types.CPointer(types.int32), types.int32, types.int64), generate


@intrinsic
def count_bits(typing_context: Any, bits: Any) -> Any:
    """The number of bits of an int64 that are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


@intrinsic
def lowest_bit(typing_context: Any, bits: Any) -> Any:
    """The place of the lowest bit of an int64 that is set; 64 if none is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate
