"""JSON documents with a version: those of another one are refused.

Arrays stand in them as text: little-endian, and compressed.
"""

from __future__ import annotations

import reprlib
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

from cep_pipeline.errors import InputError

Array = np.ndarray[Any, Any]


class OtherVersion(InputError):
    """A document that another version of this package wrote."""


def check_version(content: object, version: int, what: str, source: str) -> None:
    """Refuse JSON that is no object (InputError) or of another version than this package writes (OtherVersion)."""
    if not isinstance(content, Mapping):
        raise InputError(f"{source}: a {what} is a JSON object, not {type(content).__name__}")
    found = content.get("version")
    if found != version:
        raise OtherVersion(
            f"{source}: a {what} of version {reprlib.repr(found)}; this package reads version {version}: make it again"
        )


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
