"""Merge sorted clocks: for each point, where the values that are not below it begin.

All index ranges of the kernel come from here. The loops are in LLVM IR, for int64 timestamps and int32 rows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from cep_pipeline.compiled import object_code
from cep_pipeline.expressions.columns import Array
from cep_pipeline.slices.workspace import uninitialized

LANES = 4
"""Runs of points that are merged side by side: a step waits for the one before it in its own run only."""
VECTOR_BITS = 512
FEW = 64
"""So many points are searched for one by one in less time than it takes to call a merge."""


def count_before(points: Array, point_starts: Array, values: Array, value_starts: Array, delta: int) -> Array:
    """For each point p, the place of the first value of its group that is not below p + delta.

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
    bits = 8 * points.dtype.itemsize
    if not whole:
        _function(f"groups{bits}", 7)(
            points.ctypes.data,
            point_starts.ctypes.data,
            values.ctypes.data,
            value_starts.ctypes.data,
            len(point_starts) - 1,
            delta,
            out.ctypes.data,
        )
        return out
    starts = points[:: len(points) // LANES][:LANES]
    first = values.searchsorted(starts + points.dtype.type(delta))
    _function(f"merge{bits}", 7)(
        points.ctypes.data,
        len(points),
        values.ctypes.data,
        len(values),
        first.ctypes.data,
        delta,
        out.ctypes.data,
    )
    return out


@cache
def _function(name: str, arguments: int) -> Any:
    ir = "\n".join(
        (
            "declare i8 @llvm.cttz.i8(i8, i1)",
            "declare i16 @llvm.cttz.i16(i16, i1)",
            "declare i64 @llvm.smin.i64(i64, i64)",
            *(function for bits in (32, 64) for function in (_merge_ir(bits), _groups_ir(bits))),
        )
    )
    return object_code.library(ir).function(name, arguments)


def _merge_ir(bits: int) -> str:
    """`merge<bits>`: points and values of one group, in `LANES` runs of points."""
    lines = []
    for lane in range(LANES):
        if lane:
            lines += [f"next{lane - 1}:", f"  br label %l{lane}key"]
        lines += _step_ir(f"l{lane}", f"%j{lane}", f"%i{lane}", bits, f"next{lane}")
    starts = []
    for lane in range(LANES):
        starts += [
            f"  %j{lane} = alloca i64",
            f"  %fp{lane} = getelementptr i64, ptr %first, i64 {lane}",
            f"  %f{lane} = load i64, ptr %fp{lane}",
            f"  store i64 %f{lane}, ptr %j{lane}",
            f"  %base{lane} = mul i64 %q, {lane}",
        ]
    rest = _step_ir("r", f"%j{LANES - 1}", "%ir", bits, "rested")
    return "\n".join(
        (
            f"define i64 @merge{bits}(ptr noalias %p, i64 %n, ptr noalias %v, i64 %je, ptr noalias %first,",
            "                      i64 %delta, ptr noalias %out) {",
            "entry:",
            f"  %d = trunc i64 %delta to i{bits}" if bits < 64 else "  %d = add i64 %delta, 0",
            f"  %q = udiv i64 %n, {LANES}",
            *starts,
            "  br label %head",
            "head:",
            f"  %t = phi i64 [ 0, %entry ], [ %t2, %next{LANES - 1} ]",
            "  %more = icmp slt i64 %t, %q",
            "  br i1 %more, label %body, label %tail",
            "body:",
            *(f"  %i{lane} = add i64 %base{lane}, %t" for lane in range(LANES)),
            "  br label %l0key",
            *lines,
            f"next{LANES - 1}:",
            "  %t2 = add i64 %t, 1",
            "  br label %head",
            "tail:",
            f"  %ir0 = mul i64 %q, {LANES}",
            "  br label %rhead",
            "rhead:",
            "  %ir = phi i64 [ %ir0, %tail ], [ %ir2, %rested ]",
            "  %rmore = icmp slt i64 %ir, %n",
            "  br i1 %rmore, label %rkey, label %over",
            *rest,
            "rested:",
            "  %ir2 = add i64 %ir, 1",
            "  br label %rhead",
            "over:",
            "  ret i64 0",
            "}",
        )
    )


def _groups_ir(bits: int) -> str:
    """`groups<bits>`: group after group."""
    return "\n".join(
        (
            f"define i64 @groups{bits}(ptr noalias %p, ptr noalias %ps, ptr noalias %v, ptr noalias %vs, i64 %groups,",
            "                       i64 %delta, ptr noalias %out) {",
            "entry:",
            f"  %d = trunc i64 %delta to i{bits}" if bits < 64 else "  %d = add i64 %delta, 0",
            "  %j = alloca i64",
            "  br label %group",
            "group:",
            "  %g = phi i64 [ 0, %entry ], [ %g2, %head ]",
            "  %any = icmp slt i64 %g, %groups",
            "  br i1 %any, label %ends, label %over",
            "ends:",
            "  %g2 = add i64 %g, 1",
            *(
                f"  %{name}p{end} = getelementptr i64, ptr %{array}, i64 {place}\n"
                f"  %{name}{end} = load i64, ptr %{name}p{end}"
                for name, array in (("i", "ps"), ("j", "vs"))
                for end, place in (("s", "%g"), ("e", "%g2"))
            ),
            "  store i64 %js, ptr %j",
            "  br label %head",
            "head:",
            "  %i = phi i64 [ %is, %ends ], [ %i2, %stepped ]",
            "  %more = icmp slt i64 %i, %ie",
            "  br i1 %more, label %xkey, label %group",
            *_step_ir("x", "%j", "%i", bits, "stepped"),
            "stepped:",
            "  %i2 = add i64 %i, 1",
            "  br label %head",
            "over:",
            "  ret i64 0",
            "}",
        )
    )


def _step_ir(name: str, j: str, i: str, bits: int, leave: str) -> list[str]:
    """One point: pass the values below it, a vector at a time, and write where they end.

    The first value that is not below ends the run of ones in the comparison. What stands behind `%je`, the end of the
    values, may be anything: a run that goes on there is cut off by the minimum.
    """
    width = VECTOR_BITS // bits
    kind, vector = f"i{bits}", f"<{width} x i{bits}>"
    n = f"%{name}"
    return [
        f"{name}key:",
        f"  {n}pp = getelementptr {kind}, ptr %p, i64 {i}",
        f"  {n}pv = load {kind}, ptr {n}pp",
        f"  {n}k = add {kind} {n}pv, %d",
        f"  {n}k0 = insertelement {vector} poison, {kind} {n}k, i32 0",
        f"  {n}kv = shufflevector {vector} {n}k0, {vector} poison, <{width} x i32> zeroinitializer",
        f"  {n}j0 = load i64, ptr {j}",
        f"  br label %{name}skip",
        f"{name}skip:",
        f"  {n}js = phi i64 [ {n}j0, %{name}key ], [ {n}jn, %{name}full ]",
        f"  {n}vp = getelementptr {kind}, ptr %v, i64 {n}js",
        f"  {n}w = load {vector}, ptr {n}vp, align {bits // 8}",
        f"  {n}lt = icmp slt {vector} {n}w, {n}kv",
        f"  {n}m = bitcast <{width} x i1> {n}lt to i{width}",
        f"  {n}not = xor i{width} {n}m, -1",
        f"  {n}c = call i{width} @llvm.cttz.i{width}(i{width} {n}not, i1 false)",
        f"  {n}c64 = zext i{width} {n}c to i64",
        f"  {n}jn = add i64 {n}js, {n}c64",
        f"  {n}all = icmp eq i{width} {n}m, -1",
        f"  {n}in = icmp slt i64 {n}jn, %je",
        f"  {n}go = and i1 {n}all, {n}in",
        f"  br i1 {n}go, label %{name}full, label %{name}write",
        f"{name}full:",
        f"  br label %{name}skip",
        f"{name}write:",
        f"  {n}jw = call i64 @llvm.smin.i64(i64 {n}jn, i64 %je)",
        f"  store i64 {n}jw, ptr {j}",
        f"  {n}op = getelementptr i32, ptr %out, i64 {i}",
        f"  {n}j32 = trunc i64 {n}jw to i32",
        f"  store i32 {n}j32, ptr {n}op",
        f"  br label %{leave}",
    ]
