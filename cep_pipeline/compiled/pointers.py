"""Typed pointers made from addresses, so that a kernel takes one array of words instead of dozens of arguments.

Numba reads and writes `pointer[i]` without a check or a wrapped index. Imported only where kernels are compiled.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call"
from __future__ import annotations

from typing import Any

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
