"""Arrays of a slice, and the compiled loops that make them: split by type, sort by group, gather, merge sorted clocks.

The loops are written in LLVM IR by hand, compiled on their first use and kept in the user's cache folder, so that later
processes load them in milliseconds.

Arrays lie in memory that a thread keeps for the next slice, or in that of Arrow's pool. Memory that the system gives
anew costs more to write than a preparation step costs to compute.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cep_pipeline.compiled import object_code
from cep_pipeline.compiled.ir_text import WIDTH, offsets_table
from cep_pipeline.expressions.columns import Array

PADDING = WIDTH
"""Readable elements behind the end of every array that a kernel or a routine reads."""
SPLIT_AT_ONCE = 8
"""Number of types above which a counting sort of all events is faster than comparing with each type."""


def room_for(size: int, kind: npt.DTypeLike) -> Array:
    """An array of so many values, not set yet, in memory of Arrow's pool: what is freed there is at hand for the next.

    NumPy takes large arrays from the system each time, and the system clears them, which takes longer than to fill
    them.
    """
    dtype = np.dtype(kind)
    return np.frombuffer(pa.allocate_buffer(size * dtype.itemsize), dtype)


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
    _function("count", 3)(codes.ctypes.data, len(codes), starts[1:].ctypes.data)
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


def _loop_ir(head: str, body: str) -> str:
    """A function that runs its body for each `%i` from 0 to `%n`."""
    return f"""
define i64 @{head} {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i2, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
{body}
  %i2 = add i64 %i, 1
  br label %head
done:
  ret i64 0
}}
"""


_COUNT = _loop_ir(
    "count(ptr noalias %codes, i64 %n, ptr noalias %counts)",
    """
  %cp = getelementptr i32, ptr %codes, i64 %i
  %c = load i32, ptr %cp
  %c64 = sext i32 %c to i64
  %up = getelementptr i64, ptr %counts, i64 %c64
  %u = load i64, ptr %up
  %u2 = add i64 %u, 1
  store i64 %u2, ptr %up""",
)

_SCATTER = _loop_ir(
    "scatter(ptr noalias %codes, i64 %n, ptr noalias %cursors, ptr noalias %order)",
    """
  %cp = getelementptr i32, ptr %codes, i64 %i
  %c = load i32, ptr %cp
  %c64 = sext i32 %c to i64
  %up = getelementptr i64, ptr %cursors, i64 %c64
  %u = load i64, ptr %up
  %u2 = add i64 %u, 1
  store i64 %u2, ptr %up
  %op = getelementptr i32, ptr %order, i64 %u
  %i32 = trunc i64 %i to i32
  store i32 %i32, ptr %op""",
)

FETCHED_AHEAD = 128
"""Places between the value that is gathered and the one that is asked for from memory meanwhile."""
_GATHER = _loop_ir(
    "gather(ptr noalias %values, ptr noalias %rows, i64 %n, ptr noalias %out)",
    f"""
  %ahead = add i64 %i, {FETCHED_AHEAD}
  %last = sub i64 %n, 1
  %place = call i64 @llvm.smin.i64(i64 %ahead, i64 %last)
  %ap = getelementptr i32, ptr %rows, i64 %place
  %ar = load i32, ptr %ap
  %ar64 = sext i32 %ar to i64
  %avp = getelementptr i64, ptr %values, i64 %ar64
  call void @llvm.prefetch.p0(ptr %avp, i32 0, i32 2, i32 1)
  %rp = getelementptr i32, ptr %rows, i64 %i
  %r = load i32, ptr %rp
  %r64 = sext i32 %r to i64
  %vp = getelementptr i64, ptr %values, i64 %r64
  %v = load i64, ptr %vp
  %op = getelementptr i64, ptr %out, i64 %i
  store i64 %v, ptr %op""",
)

CHUNK_BYTES = 1 << 25
"""Size of a piece of memory; larger arrays than a quarter of it get memory of their own."""
KEPT_CHUNKS = 2
"""Pieces kept when no array is in them any more, for each thread."""
_ALIGNMENT = 64
_UNUSED = 2
"""References to a chunk that is only in the list: the list's, and the argument of `getrefcount`."""


class _Workspace(threading.local):
    """The chunks of one thread; the first one is being filled."""

    def __init__(self) -> None:
        self._chunks: list[Array] = []
        self._filled = CHUNK_BYTES

    def take(self, size: int) -> Array:
        size = -(-size // _ALIGNMENT) * _ALIGNMENT
        if self._chunks and sys.getrefcount(self._chunks[0]) == _UNUSED:
            self._filled = 0
        elif self._filled + size > CHUNK_BYTES:
            self._chunks.insert(0, self._empty_chunk())
            del self._chunks[KEPT_CHUNKS:]  # the arrays in it still hold a chunk that is let go of here
            self._filled = 0
        start, self._filled = self._filled, self._filled + size
        piece: Array = self._chunks[0][start : start + size]
        return piece

    def _empty_chunk(self) -> Array:
        for place in range(len(self._chunks)):
            if sys.getrefcount(self._chunks[place]) == _UNUSED:
                return self._chunks.pop(place)
        return room_for(CHUNK_BYTES, np.uint8)


_workspace = _Workspace()


def uninitialized(count: int, dtype: Any) -> Array:
    """An array of `count` elements of any content."""
    size = count * np.dtype(dtype).itemsize
    if size > CHUNK_BYTES // 4:
        return room_for(count, dtype)
    return _workspace.take(size)[:size].view(dtype)


LANES = 6
"""Runs of points that are merged side by side: a step waits for the one before it in its own run only."""
VECTOR_BITS = 512
FEW = 1 << 10
"""Number of points that are searched for one by one in less time than it takes to call a merge."""


def count_before(points: Array, point_starts: Array, values: Array, value_starts: Array, delta: int) -> Array:
    """Return for each point p the place of the first value of its group that is not below p + delta.

    Parameters
    ----------
    points
        int64 or int32, ascending within each group.
    point_starts
        int64, shape (groups + 1,): where each group of points starts.
    values
        Of the same dtype, padded, ascending within each group.
    value_starts
        int64, shape (groups + 1,).
    delta
        Such that no sum with a point overflows.

    Returns
    -------
    Array
        int32, one for each point: a place in `values`, at least the group's start and at most its end.
    """
    if points.dtype != values.dtype:
        raise TypeError(f"points of {points.dtype} do not merge with values of {values.dtype}")
    whole = len(point_starts) == 2
    if whole and len(points) <= FEW:
        return np.asarray(values.searchsorted(points + points.dtype.type(delta)), np.int32)
    out: Array = uninitialized(len(points), np.int32)
    grouped = int(point_starts[-1] - point_starts[0])
    length = grouped // LANES if grouped > FEW else 0
    begins = np.zeros((2, LANES), np.int64)
    if length:
        start = int(point_starts[0])
        firsts = points[start : start + LANES * length : length] + points.dtype.type(delta)
        if whole:
            begins[1] = values[value_starts[0] : value_starts[1]].searchsorted(firsts)
        else:
            groups = point_starts.searchsorted(start + np.arange(LANES) * length, "right") - 1
            begins[0] = groups
            for lane, (first, group) in enumerate(zip(firsts, groups, strict=True)):
                begins[1, lane] = values[value_starts[group] : value_starts[group + 1]].searchsorted(first)
    _function(f"merge{8 * points.dtype.itemsize}", 9)(
        points.ctypes.data,
        point_starts.ctypes.data,
        values.ctypes.data,
        value_starts.ctypes.data,
        len(point_starts) - 1,
        delta,
        length,
        begins.ctypes.data,
        out.ctypes.data,
    )
    return out


def _merge_ir(bits: int) -> str:
    """`merge<bits>`: `LANES` runs of `%q` points side by side, then the points behind them.

    `%begins` has the group of each run's first point, then the place of its end behind the start of that group's
    values. Where `%q` is 0, all points come behind the runs.
    """
    runs = [(f"state{lane}", f"l{lane}", f"next{lane}") for lane in range(LANES)]
    return "\n".join(
        (
            f"define i64 @merge{bits}(ptr noalias %p, ptr noalias %ps, ptr noalias %v, ptr noalias %vs, i64 %groups,",
            "                      i64 %delta, i64 %q, ptr noalias %begins, ptr noalias %out) {",
            "entry:",
            f"  %d = trunc i64 %delta to i{bits}" if bits < 64 else "  %d = add i64 %delta, 0",
            "  %start = load i64, ptr %ps",
            "  %ep = getelementptr i64, ptr %ps, i64 %groups",
            "  %n = load i64, ptr %ep",
            *(f"  %{name}{of} = alloca i64" for name, *_ in runs for of in ("g", "e", "j", "je")),
            "  %some = icmp slt i64 %start, %n",
            "  br i1 %some, label %begin, label %over",
            "begin:",
            *(line for lane, (state, name, _) in enumerate(runs) for line in _begin_ir(lane, state, name)),
            "  br label %head",
            "head:",
            f"  %t = phi i64 [ 0, %begin ], [ %t2, %next{LANES - 1} ]",
            "  %more = icmp slt i64 %t, %q",
            "  br i1 %more, label %body, label %tail",
            "body:",
            *(f"  %i{lane} = add i64 %base{lane}, %t" for lane in range(LANES)),
            "  br label %l0key",
            *(
                line
                for lane, (state, name, leave) in enumerate(runs)
                for line in (
                    *_step_ir(name, state, f"%i{lane}", bits, leave),
                    *((f"{leave}:", f"  br label %l{lane + 1}key") if lane + 1 < LANES else ()),
                )
            ),
            f"next{LANES - 1}:",
            "  %t2 = add i64 %t, 1",
            "  br label %head",
            "tail:",
            f"  %runs = mul i64 %q, {LANES}",
            "  %ir0 = add i64 %start, %runs",
            "  br label %rhead",
            "rhead:",
            "  %ir = phi i64 [ %ir0, %tail ], [ %ir2, %rested ]",
            "  %rmore = icmp slt i64 %ir, %n",
            "  br i1 %rmore, label %rkey, label %over",
            *_step_ir("r", runs[-1][0], "%ir", bits, "rested"),
            "rested:",
            "  %ir2 = add i64 %ir, 1",
            "  br label %rhead",
            "over:",
            "  ret i64 0",
            "}",
        )
    )


def _begin_ir(lane: int, state: str, name: str) -> list[str]:
    """The state of a run before its first point: its group, where that ends among points and values, and the place."""
    n = f"%{name}"
    return [
        f"  %run{lane} = mul i64 %q, {lane}",
        f"  %base{lane} = add i64 %start, %run{lane}",
        f"  {n}bp = getelementptr i64, ptr %begins, i64 {lane}",
        f"  {n}b = load i64, ptr {n}bp",
        f"  store i64 {n}b, ptr %{state}g",
        *_group_ir(f"{name}b", state, f"{n}b"),
        f"  {n}fp = getelementptr i64, ptr {n}bp, i64 {LANES}",
        f"  {n}f = load i64, ptr {n}fp",
        f"  {n}first = add i64 {n}bjs, {n}f",
        f"  store i64 {n}first, ptr %{state}j",
    ]


def _group_ir(name: str, state: str, group: str) -> list[str]:
    """Go to a group: where its points and values end, and the first of its values."""
    n = f"%{name}"
    return [
        f"  {n}next = add i64 {group}, 1",
        *(
            f"  {n}{end}p = getelementptr i64, ptr %{array}, i64 {place}\n  {n}{end} = load i64, ptr {n}{end}p"
            for end, array, place in (("ie", "ps", f"{n}next"), ("js", "vs", group), ("je", "vs", f"{n}next"))
        ),
        f"  store i64 {n}ie, ptr %{state}e",
        f"  store i64 {n}je, ptr %{state}je",
        f"  store i64 {n}js, ptr %{state}j",
    ]


def _step_ir(name: str, state: str, i: str, bits: int, leave: str) -> list[str]:
    """One point: go to its group, pass the values below it, a vector at a time, and write where they end.

    The first value that is not below ends the run of ones in the comparison. What stands behind the end of the group's
    values may be anything: a run that goes on there is cut off by the minimum.
    """
    j = f"%{state}j"
    width = VECTOR_BITS // bits
    kind, vector = f"i{bits}", f"<{width} x i{bits}>"
    n = f"%{name}"
    return [
        f"{name}key:",
        f"  {n}e = load i64, ptr %{state}e",
        f"  {n}here = icmp slt i64 {i}, {n}e",
        f"  br i1 {n}here, label %{name}read, label %{name}group",
        f"{name}group:",
        f"  {n}g = load i64, ptr %{state}g",
        f"  {n}gn = add i64 {n}g, 1",
        f"  store i64 {n}gn, ptr %{state}g",
        *_group_ir(f"{name}n", state, f"{n}gn"),
        f"  br label %{name}key",
        f"{name}read:",
        f"  {n}jend = load i64, ptr %{state}je",
        f"  {n}pp = getelementptr {kind}, ptr %p, i64 {i}",
        f"  {n}pv = load {kind}, ptr {n}pp",
        f"  {n}k = add {kind} {n}pv, %d",
        f"  {n}k0 = insertelement {vector} poison, {kind} {n}k, i32 0",
        f"  {n}kv = shufflevector {vector} {n}k0, {vector} poison, <{width} x i32> zeroinitializer",
        f"  {n}j0 = load i64, ptr {j}",
        f"  br label %{name}skip",
        f"{name}skip:",
        f"  {n}js = phi i64 [ {n}j0, %{name}read ], [ {n}jn, %{name}full ]",
        f"  {n}vp = getelementptr {kind}, ptr %v, i64 {n}js",
        f"  {n}w = load {vector}, ptr {n}vp, align {bits // 8}",
        f"  {n}lt = icmp slt {vector} {n}w, {n}kv",
        f"  {n}m = bitcast <{width} x i1> {n}lt to i{width}",
        f"  {n}not = xor i{width} {n}m, -1",
        f"  {n}c = call i{width} @llvm.cttz.i{width}(i{width} {n}not, i1 false)",
        f"  {n}c64 = zext i{width} {n}c to i64",
        f"  {n}jn = add i64 {n}js, {n}c64",
        f"  {n}all = icmp eq i{width} {n}m, -1",
        f"  {n}in = icmp slt i64 {n}jn, {n}jend",
        f"  {n}go = and i1 {n}all, {n}in",
        f"  br i1 {n}go, label %{name}full, label %{name}write",
        f"{name}full:",
        f"  br label %{name}skip",
        f"{name}write:",
        f"  {n}jw = call i64 @llvm.smin.i64(i64 {n}jn, i64 {n}jend)",
        f"  store i64 {n}jw, ptr {j}",
        f"  {n}op = getelementptr i32, ptr %out, i64 {i}",
        f"  {n}j32 = trunc i64 {n}jw to i32",
        f"  store i32 {n}j32, ptr {n}op",
        f"  br label %{leave}",
    ]


@cache
def _function(name: str, arguments: int) -> Any:
    ir = "\n".join(
        (
            offsets_table(),
            "declare i64 @llvm.ctpop.i64(i64)",
            f"declare i32 @llvm.vector.reduce.add.v{WIDTH}i32(<{WIDTH} x i32>)",
            "declare i8 @llvm.cttz.i8(i8, i1)",
            "declare i16 @llvm.cttz.i16(i16, i1)",
            "declare i64 @llvm.smin.i64(i64, i64)",
            "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
            *(_SELECT, _TALLY, _COUNT, _SCATTER, _GATHER),
            *(_merge_ir(bits) for bits in (32, 64)),
        )
    )
    return object_code.library(ir).function(name, arguments)
