"""Typed pointers made from addresses, so that a kernel takes one array of words instead of dozens of arguments.

Numba reads and writes `pointer[i]` without a check or a wrapped index. Imported only where kernels are compiled.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call"
from __future__ import annotations

from typing import Any, TypeAlias

from numba import types
from numba.extending import intrinsic


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
