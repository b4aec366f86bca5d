"""Compiled loops of the preparation: split by type, sort by group, count what lies before a point, gather.

They are written in LLVM IR by hand and kept like the generated code, so that a worker that only runs kernels loads
them in milliseconds and imports no compiler front end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from cep_pipeline.detection.columns import Array
from cep_pipeline.detection.fused import machine
from cep_pipeline.detection.fused.generator import WIDTH, offsets_table

PADDING = WIDTH
"""Readable elements behind the end of every array that a kernel or a routine reads."""
SPLIT_AT_ONCE = 8
"""With more types than this, a counting sort of all events is faster than comparing with each type."""


def padded(count: int, dtype: Any) -> Array:
    """An uninitialized array of `count` elements with `PADDING` readable ones behind them."""
    return np.empty(count + PADDING, dtype)[:count]


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
    buffers = [np.empty(len(codes) + 2 * PADDING, np.int32) for _ in wanted]
    found = np.zeros(max(len(wanted), 1), np.int64)
    addresses = np.array([buffer.ctypes.data for buffer in buffers], np.int64)
    targets = np.array(wanted, np.int32)
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
    np.cumsum(np.bincount(codes, minlength=groups), out=starts[1:])
    cursors = starts[:-1].copy()
    order = padded(len(codes), np.int32)
    _function("scatter", 4)(codes.ctypes.data, len(codes), cursors.ctypes.data, order.ctypes.data)
    return order, starts


def count_before(points: Array, point_starts: Array, values: Array, value_starts: Array, delta: int) -> Array:
    """For each point p, the place of the first value of its group that is not below p + delta.

    Parameters
    ----------
    points
        int64, ascending within each group.
    point_starts
        int64, shape (groups + 1,): where each group of points starts.
    values
        int64, padded, ascending within each group.
    value_starts
        int64, shape (groups + 1,).
    delta
        Such that no sum with a point overflows int64.

    Returns
    -------
    Array
        int32, one for each point: a place in `values`, at least the group's start and at most its end.
    """
    out = np.empty(len(points), np.int32)
    _function("count", 7)(
        points.ctypes.data,
        point_starts.ctypes.data,
        values.ctypes.data,
        value_starts.ctypes.data,
        len(point_starts) - 1,
        delta,
        out.ctypes.data,
    )
    return out


def gather(values: Array, rows: Array) -> Array:
    """`values[rows]` of 64-bit values by int32 rows, padded."""
    values = np.ascontiguousarray(values)
    out = padded(len(rows), values.dtype)
    _function("gather", 4)(values.ctypes.data, rows.ctypes.data, len(rows), out.ctypes.data)
    return out


@cache
def _function(name: str, arguments: int) -> Any:
    return machine.library(_IR).function(name, arguments)


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

# Values are passed 8 at a time: the first one that is not below the point ends the run of ones in the comparison.
# What stands behind a group's end may be anything: a run that goes on there is cut off by the minimum.
_COUNT = """
define i64 @count(ptr noalias %p, ptr noalias %ps, ptr noalias %v, ptr noalias %vs, i64 %groups, i64 %delta,
                  ptr noalias %out) {
entry:
  br label %group
group:
  %g = phi i64 [ 0, %entry ], [ %g2, %grouped ]
  %anyg = icmp slt i64 %g, %groups
  br i1 %anyg, label %bounds, label %done
bounds:
  %g2 = add i64 %g, 1
  %ps0 = getelementptr i64, ptr %ps, i64 %g
  %ps1 = getelementptr i64, ptr %ps, i64 %g2
  %vs0 = getelementptr i64, ptr %vs, i64 %g
  %vs1 = getelementptr i64, ptr %vs, i64 %g2
  %i0 = load i64, ptr %ps0
  %ie = load i64, ptr %ps1
  %j0 = load i64, ptr %vs0
  %je = load i64, ptr %vs1
  br label %point
point:
  %i = phi i64 [ %i0, %bounds ], [ %i2, %write ]
  %j = phi i64 [ %j0, %bounds ], [ %jw, %write ]
  %anyp = icmp slt i64 %i, %ie
  br i1 %anyp, label %key, label %grouped
key:
  %pp = getelementptr i64, ptr %p, i64 %i
  %pv = load i64, ptr %pp
  %k = add i64 %pv, %delta
  %k0 = insertelement <8 x i64> poison, i64 %k, i32 0
  %kv = shufflevector <8 x i64> %k0, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %skip
skip:
  %js = phi i64 [ %j, %key ], [ %jn, %more ]
  %vp = getelementptr i64, ptr %v, i64 %js
  %w = load <8 x i64>, ptr %vp, align 8
  %lt = icmp slt <8 x i64> %w, %kv
  %m = bitcast <8 x i1> %lt to i8
  %full = icmp eq i8 %m, -1
  %not = xor i8 %m, -1
  %cnt8 = call i8 @llvm.cttz.i8(i8 %not, i1 false)
  %cnt = zext i8 %cnt8 to i64
  %jn = add i64 %js, %cnt
  br i1 %full, label %more, label %write
more:
  %inside = icmp slt i64 %jn, %je
  br i1 %inside, label %skip, label %write
write:
  %jw = call i64 @llvm.smin.i64(i64 %jn, i64 %je)
  %op = getelementptr i32, ptr %out, i64 %i
  %j32 = trunc i64 %jw to i32
  store i32 %j32, ptr %op
  %i2 = add i64 %i, 1
  br label %point
grouped:
  br label %group
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
        "declare i8 @llvm.cttz.i8(i8, i1)",
        "declare i64 @llvm.smin.i64(i64, i64)",
        _SELECT,
        _SCATTER,
        _COUNT,
        _GATHER,
    )
)
