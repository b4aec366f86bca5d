"""Compiled loops of the preparation: split by type, sort by group, gather.

They are written in LLVM IR by hand and kept like the generated code, so that a worker that only runs kernels loads
them in milliseconds and imports no compiler front end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from cep_pipeline.compiled import object_code
from cep_pipeline.compiled.ir_text import WIDTH, offsets_table
from cep_pipeline.expressions.columns import Array
from cep_pipeline.slices.workspace import uninitialized

PADDING = WIDTH
"""Readable elements behind the end of every array that a kernel or a routine reads."""
COUNTED_AT_ONCE = 1 << 16
"""Codes that are counted in one go."""
SPLIT_AT_ONCE = 8
"""With more types than this, a counting sort of all events is faster than comparing with each type."""


def padded(count: int, dtype: Any) -> Array:
    """An uninitialized array of `count` elements with `PADDING` readable ones behind them."""
    return uninitialized(count + PADDING, dtype)[:count]


def is_padded(values: Array) -> bool:
    """Return whether `PADDING` elements behind the array's end are readable, since its base array owns them."""
    owner = values.base
    if not isinstance(owner, np.ndarray) or not values.flags.c_contiguous:
        return False
    end = values.ctypes.data + values.nbytes + PADDING * values.itemsize
    return end <= owner.ctypes.data + owner.nbytes


def padded_copy(values: Array, dtype: Any = None) -> Array:
    """The values, padded, converted to `dtype` if one is given."""
    copy = padded(len(values), dtype or values.dtype)
    copy[:] = values
    return copy


def select_codes(codes: Array, wanted: Sequence[int]) -> list[Array]:
    """The places of each wanted code, ascending.

    Parameters
    ----------
    codes
        int32, shape (n,).
    wanted
        At most `SPLIT_AT_ONCE` codes.

    Returns
    -------
    list of Array
        int32, padded, one for each wanted code.
    """
    codes = np.ascontiguousarray(codes, np.int32)
    whole = len(codes) // WIDTH * WIDTH
    targets = np.array(wanted, np.int32)
    found = np.zeros(len(wanted), np.int64)
    _function("tally", 5)(codes.ctypes.data, whole, targets.ctypes.data, len(wanted), found.ctypes.data)
    buffers = [uninitialized(int(count) + 3 * PADDING, np.int32) for count in found]
    found[:] = 0
    addresses = np.array([buffer.ctypes.data for buffer in buffers], np.int64)
    _function("select", 6)(
        codes.ctypes.data, whole, targets.ctypes.data, len(wanted), addresses.ctypes.data, found.ctypes.data
    )
    rest = codes[whole:]
    rows = []
    for place, (code, buffer) in enumerate(zip(wanted, buffers, strict=True)):
        tail = np.flatnonzero(rest == code) + whole
        end = int(found[place]) + len(tail)
        buffer[int(found[place]) : end] = tail
        rows.append(buffer[:end])
    return rows


def group_rows(codes: Array, groups: int) -> tuple[Array, Array]:
    """Stable counting sort.

    Parameters
    ----------
    codes
        int32, shape (n,), each from 0 to `groups` - 1.

    Returns
    -------
    order : Array
        int32, shape (n,), padded: the places sorted by code, ascending within a code.
    starts : Array
        int64, shape (groups + 1,): group g is `order[starts[g]:starts[g + 1]]`.
    """
    codes = np.ascontiguousarray(codes, np.int32)
    starts = np.zeros(groups + 1, np.int64)
    for first in range(0, len(codes), max(COUNTED_AT_ONCE, groups)):  # NumPy converts what it counts
        starts[1:] += np.bincount(codes[first : first + max(COUNTED_AT_ONCE, groups)], minlength=groups)
    np.cumsum(starts, out=starts)
    cursors = starts[:-1].copy()
    order = padded(len(codes), np.int32)
    _function("scatter", 4)(codes.ctypes.data, len(codes), cursors.ctypes.data, order.ctypes.data)
    return order, starts


def gather(values: Array, rows: Array) -> Array:
    """`values[rows]` of 64-bit values by int32 rows, padded."""
    values = np.ascontiguousarray(values)
    out = padded(len(rows), values.dtype)
    _function("gather", 4)(values.ctypes.data, rows.ctypes.data, len(rows), out.ctypes.data)
    return out


@cache
def _function(name: str, arguments: int) -> Any:
    return object_code.library(_IR).function(name, arguments)


_SELECT = f"""
define i64 @select(ptr %codes, i64 %n, ptr %wanted, i64 %k, ptr %buffers, ptr %found) {{
entry:
  br label %chunk
chunk:
  %i = phi i64 [ 0, %entry ], [ %i2, %next ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %read, label %done
read:
  %cp = getelementptr i32, ptr %codes, i64 %i
  %c = load <{WIDTH} x i32>, ptr %cp, align 4
  %i32 = trunc i64 %i to i32
  %b0 = insertelement <8 x i32> poison, i32 %i32, i32 0
  %base = shufflevector <8 x i32> %b0, <8 x i32> poison, <8 x i32> zeroinitializer
  %base8 = add <8 x i32> %base, splat (i32 8)
  br label %type
type:
  %t = phi i64 [ 0, %read ], [ %t2, %one ]
  %any = icmp slt i64 %t, %k
  br i1 %any, label %one, label %next
one:
  %wp = getelementptr i32, ptr %wanted, i64 %t
  %w = load i32, ptr %wp
  %w0 = insertelement <{WIDTH} x i32> poison, i32 %w, i32 0
  %ws = shufflevector <{WIDTH} x i32> %w0, <{WIDTH} x i32> poison, <{WIDTH} x i32> zeroinitializer
  %eq = icmp eq <{WIDTH} x i32> %c, %ws
  %m16 = bitcast <{WIDTH} x i1> %eq to i{WIDTH}
  %m = zext i{WIDTH} %m16 to i64
  %lo = and i64 %m, 255
  %hi = lshr i64 %m, 8
  %bp = getelementptr ptr, ptr %buffers, i64 %t
  %buf = load ptr, ptr %bp
  %fp = getelementptr i64, ptr %found, i64 %t
  %f = load i64, ptr %fp
  %lop = getelementptr [256 x <8 x i8>], ptr @offsets, i64 0, i64 %lo
  %lo8 = load <8 x i8>, ptr %lop, align 8
  %lo32 = zext <8 x i8> %lo8 to <8 x i32>
  %lov = add <8 x i32> %lo32, %base
  %o1 = getelementptr i32, ptr %buf, i64 %f
  store <8 x i32> %lov, ptr %o1, align 4
  %lon = call i64 @llvm.ctpop.i64(i64 %lo)
  %f1 = add i64 %f, %lon
  %hip = getelementptr [256 x <8 x i8>], ptr @offsets, i64 0, i64 %hi
  %hi8 = load <8 x i8>, ptr %hip, align 8
  %hi32 = zext <8 x i8> %hi8 to <8 x i32>
  %hiv = add <8 x i32> %hi32, %base8
  %o2 = getelementptr i32, ptr %buf, i64 %f1
  store <8 x i32> %hiv, ptr %o2, align 4
  %hin = call i64 @llvm.ctpop.i64(i64 %hi)
  %f2 = add i64 %f1, %hin
  store i64 %f2, ptr %fp
  %t2 = add i64 %t, 1
  br label %type
next:
  %i2 = add i64 %i, {WIDTH}
  br label %chunk
done:
  ret i64 0
}}
"""

_TALLY = f"""
define i64 @tally(ptr noalias %codes, i64 %n, ptr noalias %wanted, i64 %k, ptr noalias %found) {{
entry:
  br label %type
type:
  %t = phi i64 [ 0, %entry ], [ %t2, %counted ]
  %any = icmp slt i64 %t, %k
  br i1 %any, label %one, label %done
one:
  %wp = getelementptr i32, ptr %wanted, i64 %t
  %w = load i32, ptr %wp
  %w0 = insertelement <{WIDTH} x i32> poison, i32 %w, i32 0
  %ws = shufflevector <{WIDTH} x i32> %w0, <{WIDTH} x i32> poison, <{WIDTH} x i32> zeroinitializer
  br label %head
head:
  %i = phi i64 [ 0, %one ], [ %i2, %body ]
  %sum = phi <{WIDTH} x i32> [ zeroinitializer, %one ], [ %sum2, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %counted
body:
  %cp = getelementptr i32, ptr %codes, i64 %i
  %c = load <{WIDTH} x i32>, ptr %cp, align 4
  %eq = icmp eq <{WIDTH} x i32> %c, %ws
  %one32 = zext <{WIDTH} x i1> %eq to <{WIDTH} x i32>
  %sum2 = add <{WIDTH} x i32> %sum, %one32
  %i2 = add i64 %i, {WIDTH}
  br label %head
counted:
  %total = call i32 @llvm.vector.reduce.add.v{WIDTH}i32(<{WIDTH} x i32> %sum)
  %wide = zext i32 %total to i64
  %fp = getelementptr i64, ptr %found, i64 %t
  store i64 %wide, ptr %fp
  %t2 = add i64 %t, 1
  br label %type
done:
  ret i64 0
}}
"""

_SCATTER = """
define i64 @scatter(ptr noalias %codes, i64 %n, ptr noalias %cursors, ptr noalias %order) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i2, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %cp = getelementptr i32, ptr %codes, i64 %i
  %c = load i32, ptr %cp
  %c64 = sext i32 %c to i64
  %up = getelementptr i64, ptr %cursors, i64 %c64
  %u = load i64, ptr %up
  %u2 = add i64 %u, 1
  store i64 %u2, ptr %up
  %op = getelementptr i32, ptr %order, i64 %u
  %i32 = trunc i64 %i to i32
  store i32 %i32, ptr %op
  %i2 = add i64 %i, 1
  br label %head
done:
  ret i64 0
}
"""

_GATHER = """
define i64 @gather(ptr noalias %values, ptr noalias %rows, i64 %n, ptr noalias %out) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i2, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %rp = getelementptr i32, ptr %rows, i64 %i
  %r = load i32, ptr %rp
  %r64 = sext i32 %r to i64
  %vp = getelementptr i64, ptr %values, i64 %r64
  %v = load i64, ptr %vp
  %op = getelementptr i64, ptr %out, i64 %i
  store i64 %v, ptr %op
  %i2 = add i64 %i, 1
  br label %head
done:
  ret i64 0
}
"""

_IR = "\n".join(
    (
        offsets_table(),
        "declare i64 @llvm.ctpop.i64(i64)",
        f"declare i32 @llvm.vector.reduce.add.v{WIDTH}i32(<{WIDTH} x i32>)",
        _SELECT,
        _TALLY,
        _SCATTER,
        _GATHER,
    )
)
