"""Memory for the arrays of a slice, used again by the next slice.

Memory that the system gives anew costs more to write than a preparation step costs to compute: a task that runs slice
after slice keeps some and carves its arrays out of it.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

from cep_pipeline.expressions.columns import Array

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
        return np.empty(CHUNK_BYTES, np.uint8)


_workspace = _Workspace()


def uninitialized(count: int, dtype: Any) -> Array:
    """An array of `count` elements of any content."""
    size = count * np.dtype(dtype).itemsize
    if size > CHUNK_BYTES // 4:
        return np.empty(count, dtype)
    return _workspace.take(size)[:size].view(dtype)
