"""What hand-written LLVM IR and kernels share: how many numbers they compare at a time, and the table of masks."""

from __future__ import annotations

from functools import cache

WIDTH = 16
"""Doubles compared at a time: columns need as many readable elements behind their end."""


@cache
def offsets_table() -> str:
    """`@offsets`: for each mask of 8 bits the places of its bits, then zeros."""
    entries = []
    for mask in range(256):
        places = [bit for bit in range(8) if mask >> bit & 1]
        places += [0] * (8 - len(places))
        entries.append("<8 x i8> <" + ", ".join(f"i8 {place}" for place in places) + ">")
    return f"@offsets = internal constant [256 x <8 x i8>] [{', '.join(entries)}], align 64"
