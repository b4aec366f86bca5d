"""Arrays as text inside JSON: little-endian, compressed, and read back without trusting what they hold."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def packed(array: Array) -> str:
    """An array of 8-byte numbers as text.

    Examples
    --------
    >>> unpacked(packed(np.array([[1, 2], [3, 4]])), np.int64, rows=2).tolist()
    [[1, 2], [3, 4]]
    """
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()
    return b64encode(zlib.compress(data, 6)).decode("ascii")


def unpacked(text: str, dtype: type[np.int64] | type[np.float64], rows: int) -> Array:
    """The array of so many rows that `packed` wrote.

    Raises
    ------
    ValueError
        The text is none, or holds numbers that are not finite.
    """
    try:
        data = zlib.decompress(b64decode(text, validate=True))
    except zlib.error as error:
        raise ValueError(f"an array is damaged: {error}") from error
    array = np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype(dtype).reshape(rows, -1)
    if not np.isfinite(array).all():
        raise ValueError("an array holds numbers that are not finite")
    return array
