"""Avro files, the form of Iceberg's lists of files: read whole, by the schema that each of them begins with."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Reader = Callable[[bytes, int], tuple[Any, int]]
"""Takes bytes and a position; gives the value that stands there, and the position behind it."""

_MAGIC = b"Obj\x01"
_MARK_BYTES = 16


def read_avro(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records of an Avro file.

    Raises
    ------
    ValueError, KeyError, IndexError, …
        The content is damaged, or compressed otherwise than by deflate. Whoever reads files turns that into an error
        that names the file.
    """
    if not content.startswith(_MAGIC):
        raise ValueError("it does not begin as an Avro file")
    header, at = _read_map(_read_bytes)(content, len(_MAGIC))
    codec = header.get("avro.codec", b"null")
    if codec not in (b"null", b"deflate"):
        raise ValueError(f"it is compressed by {codec.decode()}, which is not known")
    read = _reader_of(json.loads(header["avro.schema"]), {})
    mark, at = content[at : at + _MARK_BYTES], at + _MARK_BYTES
    while at < len(content):
        count, at = _read_long(content, at)
        block, at = _read_bytes(content, at)
        if content[at : at + _MARK_BYTES] != mark:
            raise ValueError("a block does not end where it should")
        at += _MARK_BYTES
        if codec == b"deflate":
            block = zlib.decompress(block, -zlib.MAX_WBITS)
        place = 0
        for _ in range(count):
            record, place = read(block, place)
            yield record
        if place != len(block):
            raise ValueError("a block holds more than its records")


def _read_long(content: bytes, at: int) -> tuple[int, int]:
    byte = content[at]
    at += 1
    if byte < 128:  # nearly all of them
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 127, 7
    while byte & 128:
        byte = content[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), at


def _read_bytes(content: bytes, at: int) -> tuple[bytes, int]:
    length, at = _read_long(content, at)
    end = at + length
    if not at <= end <= len(content):
        raise ValueError("a text is longer than the rest of the file")
    return content[at:end], end


def _read_text(content: bytes, at: int) -> tuple[str, int]:
    text, at = _read_bytes(content, at)
    return text.decode(), at


def _read_number(form: str) -> Reader:
    unpack = struct.Struct(form)

    def read(content: bytes, at: int) -> tuple[Any, int]:
        return unpack.unpack_from(content, at)[0], at + unpack.size

    return read


def _read_fixed(size: int) -> Reader:
    return lambda content, at: (content[at : at + size], at + size)


def _items(read: Reader, content: bytes, at: int, found: list[Any]) -> int:
    """Append the items of an array's or a map's blocks; returns the position behind them."""
    while True:
        count, at = _read_long(content, at)
        if count == 0:
            return at
        if count < 0:  # the size of the block follows
            count = -count
            _, at = _read_long(content, at)
        for _ in range(count):
            item, at = read(content, at)
            found.append(item)


def _read_array(item: Reader) -> Reader:
    def read(content: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        return found, _items(item, content, at, found)

    return read


def _read_map(value: Reader) -> Reader:
    def pair(content: bytes, at: int) -> tuple[tuple[str, Any], int]:
        key, at = _read_text(content, at)
        held, at = value(content, at)
        return (key, held), at

    def read(content: bytes, at: int) -> tuple[dict[str, Any], int]:
        found: list[Any] = []
        at = _items(pair, content, at, found)
        return dict(found), at

    return read


def _read_record(fields: Mapping[str, Reader]) -> Reader:
    readers = tuple(fields.items())

    def read(content: bytes, at: int) -> tuple[dict[str, Any], int]:
        record = {}
        for name, field in readers:
            record[name], at = field(content, at)
        return record, at

    return read


def _read_one_of(options: tuple[Reader, ...]) -> Reader:
    def read(content: bytes, at: int) -> tuple[Any, int]:
        which, at = _read_long(content, at)
        if which < 0:
            raise ValueError("a union has no such member")
        return options[which](content, at)

    return read


_SIMPLE: Mapping[str, Reader] = {
    "null": lambda content, at: (None, at),
    "boolean": lambda content, at: (content[at] == 1, at + 1),
    "int": _read_long,
    "long": _read_long,
    "float": _read_number("<f"),
    "double": _read_number("<d"),
    "bytes": _read_bytes,
    "string": _read_text,
}


def _reader_of(schema: Any, named: dict[str, Reader]) -> Reader:
    """Make what reads values of a schema; `named` has the types that have been given a name before."""
    if isinstance(schema, list):
        return _read_one_of(tuple(_reader_of(option, named) for option in schema))
    if isinstance(schema, str):
        return named[schema] if schema in named else _SIMPLE[schema]
    kind = schema["type"]
    if kind == "record":
        reader = _read_record({field["name"]: _reader_of(field["type"], named) for field in schema["fields"]})
    elif kind == "array":
        reader = _read_array(_reader_of(schema["items"], named))
    elif kind == "map":
        reader = _read_map(_reader_of(schema["values"], named))
    elif kind == "fixed":
        reader = _read_fixed(schema["size"])
    else:
        reader = _reader_of(kind, named)
    if "name" in schema:
        named[schema["name"]] = reader
    return reader
