"""`TypeSpells`: when events of each type occur in a file of events, and between which values.

The events of a type come in spells with silences between them. A file's summary lists the spells of all types, cut
where the silences are longest: a rare type is known event by event, a frequent one by a few long spells. It is small, a
fraction of a byte for each event, and stands in the footer of the Parquet file, so that a file that is copied keeps it.
Whoever writes a file of events anew calls `footer_of` for the rows that it writes.

Detection asks it which parts of a day can hold a match (`slices/candidates.py`).
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import DAY, SEQ, TIMESTAMP
from cep_pipeline.lazy_names import late_module

pc = late_module("pyarrow.compute")

Array = npt.NDArray[Any]

FOOTER_KEY = "cep.type_spells"
"""Key of the summary in the metadata of a Parquet file."""
VERSION = 1
"""Version of the text form; a summary of another version is as none."""
ROWS_OF_A_CUT = 512
"""One silence for so many events of the file ends a spell; the first spell of each type comes on top."""
LEAST_CUTS = 16
MOST_TYPES, ROWS_OF_A_TYPE = 4096, 64
"""A file lists no more types than that, and at most one for so many events; more are put together by a hash."""
MOST_TEXTS, LONGEST_TEXT = 4096, 64
"""The values of an attribute with more or longer texts are not summarised."""
EXACT = 2**53
"""Whole numbers up to here are the same as float64; an attribute with others is not summarised."""


@dataclass(frozen=True, eq=False)
class TypeSpells:
    """The spells of the events of each type in a file, by type and within a type by time.

    The types are texts of `type_attribute`, None for events without one. Where they are many, a hash puts them into
    `hashed` classes (else 0), and `types` is empty. Arrays of int64 have for each spell its `kind`, the place of the
    type in `types` or its class, the timestamps and rows in the file of its first and last event, and the number of its
    events. `bounds` has the least and greatest value in each spell of an attribute, without null and NaN; None where
    there is no other value. An attribute that is not in it is not known.

    Examples
    --------
    >>> events = pa.table({"timestamp": [0, 1, 2, 90], "seq": [0, 1, 2, 3], "kind": ["A", "B", "A", "A"]})
    >>> spells = TypeSpells.of(events, "kind")
    >>> spells.of_type("B"), spells.first_us[spells.of_type("A")].tolist(), spells.of_type("C").tolist()
    (array([3]), [0, 2, 90], [])
    """

    type_attribute: str
    types: tuple[str | None, ...]
    hashed: int
    kind: Array
    first_us: Array
    last_us: Array
    first_row: Array
    last_row: Array
    events: Array
    bounds: Mapping[str, tuple[Sequence[Any], Sequence[Any]]]

    @classmethod
    def of(cls, events: pa.Table, type_attribute: str) -> TypeSpells:
        """Summarise events sorted by (timestamp, seq)."""
        times = events[TIMESTAMP].cast(pa.int64()).to_numpy()
        kinds, types, hashed = _kinds(events[type_attribute])
        order = np.argsort(kinds.astype(np.uint16), kind="stable")  # so short that it is sorted by its digits
        of_row, clock = kinds[order], times[order]
        begins = np.ones(len(times), dtype=bool)
        begins[1:] = of_row[1:] != of_row[:-1]
        silences = np.where(begins[1:], 0, np.diff(clock))
        cuts = min(max(LEAST_CUTS, len(times) // ROWS_OF_A_CUT), len(silences))
        if cuts:
            longest = np.argpartition(silences, -cuts)[-cuts:]
            begins[1:][longest[silences[longest] > 0]] = True
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(times)) - 1 if len(starts) else starts
        bounds = {}
        for name in events.column_names:
            if name not in (TIMESTAMP, SEQ, DAY) and (found := _bounds(events[name], order, starts)) is not None:
                bounds[name] = found
        return cls(
            type_attribute,
            types,
            hashed,
            of_row[starts].astype(np.int64),
            clock[starts],
            clock[ends],
            order[starts],
            order[ends],
            ends - starts + 1,
            bounds,
        )

    @classmethod
    def unknown(cls, type_attribute: str, first_us: int, last_us: int, rows: int) -> TypeSpells:
        """The summary of a file of which nothing is known: any event may be anywhere in it."""
        kind, first, last, first_row, last_row, events = np.array(
            [[0], [first_us], [last_us], [0], [rows - 1], [rows]], np.int64
        )
        return cls(type_attribute, (), 1, kind, first, last, first_row, last_row, events, {})

    @property
    def rows(self) -> int:
        """Number of events of the file."""
        return int(self.events.sum())

    def of_type(self, event_type: str) -> Array:
        """Return the places of the spells that may hold events of a type, in order of time."""
        if self.hashed:
            wanted = _hash_of(event_type) % self.hashed
        elif event_type in self.types:
            wanted = self.types.index(event_type)
        else:
            return np.empty(0, np.int64)
        return np.flatnonzero(self.kind == wanted)

    def to_text(self) -> str:
        """The text form, read back by `from_text`: plain letters, packed."""
        document = {
            "version": VERSION,
            "type_attribute": self.type_attribute,
            "types": list(self.types),
            "hashed": self.hashed,
            "kind": np.diff(self.kind, prepend=0).tolist(),
            "first_us": np.diff(self.first_us, prepend=0).tolist(),
            "last_us": (self.last_us - self.first_us).tolist(),
            "first_row": np.diff(self.first_row, prepend=0).tolist(),
            "last_row": (self.last_row - self.first_row).tolist(),
            "events": self.events.tolist(),
            "bounds": {name: [list(least), list(greatest)] for name, (least, greatest) in self.bounds.items()},
        }
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        return base64.b64encode(zlib.compress(text.encode())).decode()

    @classmethod
    def from_text(cls, text: str) -> TypeSpells | None:
        """Read the text form; None where it is of another version, InputError where it is damaged."""
        try:
            return cls._read(json.loads(zlib.decompress(base64.b64decode(text))))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, zlib.error) as error:
            raise InputError(
                f"the summary of event types in a data file is damaged: {error!r}; `cep verify` finds the file"
            ) from error

    @classmethod
    def _read(cls, document: Mapping[str, Any]) -> TypeSpells | None:
        if document["version"] != VERSION:
            return None
        numbers = {
            name: np.array(document[name], np.int64)
            for name in ("kind", "first_us", "last_us", "first_row", "last_row", "events")
        }
        for name in ("kind", "first_us", "first_row"):
            numbers[name] = np.cumsum(numbers[name])
        numbers["last_us"] += numbers["first_us"]
        numbers["last_row"] += numbers["first_row"]
        return cls(
            document["type_attribute"],
            tuple(document["types"]),
            document["hashed"],
            **numbers,
            bounds={name: (least, greatest) for name, (least, greatest) in document["bounds"].items()},
        )


def footer_of(events: pa.Table, type_attribute: str) -> dict[str, str]:
    """Return the metadata that a Parquet file with exactly these sorted events is written with."""
    return {FOOTER_KEY: TypeSpells.of(events, type_attribute).to_text()} if events.num_rows else {}


def spells_in(
    footer: Mapping[bytes, bytes] | None, type_attribute: str, renamed: Mapping[str, str] = MappingProxyType({})
) -> TypeSpells | None:
    """Return the summary in the metadata of a file; None for a file without one, as earlier versions wrote them.

    `renamed` has the attributes that are named otherwise in the file: attribute -> its name there.
    """
    found = _in_footer(footer)
    if found is None or found.type_attribute != renamed.get(type_attribute, type_attribute):
        return None
    now = {there: attribute for attribute, there in renamed.items()}
    bounds = {now.get(name, name): both for name, both in found.bounds.items()}
    return replace(found, type_attribute=type_attribute, bounds=bounds)


def type_attribute_in(footer: Mapping[bytes, bytes] | None) -> str | None:
    """Return the type attribute of the summary in the metadata of a file; None for a file without one."""
    found = _in_footer(footer)
    return None if found is None else found.type_attribute


def _in_footer(footer: Mapping[bytes, bytes] | None) -> TypeSpells | None:
    text = (footer or {}).get(FOOTER_KEY.encode())
    return TypeSpells.from_text(text.decode()) if text is not None else None


def _kinds(column: pa.ChunkedArray) -> tuple[Array, tuple[str | None, ...], int]:
    """The class of each event, the type of each class, and the number of classes where a hash makes them."""
    coded = _coded(column)
    texts = [None if text is None else str(text) for text in coded.dictionary.to_pylist()]
    codes = coded.indices.fill_null(len(texts)).to_numpy()
    most = min(MOST_TYPES, max(len(codes) // ROWS_OF_A_TYPE, MOST_TYPES // ROWS_OF_A_TYPE))
    if len(texts) > most:
        classes = [0 if text is None else _hash_of(text) % most for text in texts]
        return np.array([*classes, 0], np.int64)[codes], (), most
    first = {text: place for place, text in reversed([*enumerate([*texts, None])])}
    types = tuple(sorted(first, key=first.__getitem__))
    place_of = {text: place for place, text in enumerate(types)}
    return np.array([*(place_of[text] for text in texts), place_of[None]], np.int64)[codes], types, 0


def _hash_of(event_type: str) -> int:
    return zlib.crc32(event_type.encode())


def _coded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """The column as one dictionary of its values, and a code for each row."""
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.unify_dictionaries().chunks)
    return whole if pa.types.is_dictionary(whole.type) else pc.dictionary_encode(whole)


def _bounds(column: pa.ChunkedArray, order: Array, starts: Array) -> tuple[list[Any], list[Any]] | None:
    """The least and the greatest value of each spell; None for an attribute whose values are not summarised."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not len(starts):
        return None
    if pa.types.is_floating(kind):
        values = column.cast(pa.float64()).fill_null(np.nan).to_numpy()[order]
        ends = (np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts))
        least, greatest = ([None if value != value else value for value in end.tolist()] for end in ends)
        return least, greatest
    meaning: Sequence[Any] | None = None
    if pa.types.is_boolean(kind):
        numbers, meaning = column.cast(pa.int64()), (False, True)
    elif pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        numbers = column.cast(pa.int64())
        extremes = pc.min_max(numbers).as_py()
        if extremes["min"] is not None and (extremes["min"] < -EXACT or extremes["max"] > EXACT):
            return None
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        coded = _coded(column)
        texts = coded.dictionary.to_pylist()
        if None in texts or len(texts) > MOST_TEXTS or any(len(text) > LONGEST_TEXT for text in texts):
            return None
        meaning = sorted(texts)
        rank = {text: place for place, text in enumerate(meaning)}
        ranks = pa.array([rank[text] for text in texts], pa.int64())
        numbers = pa.chunked_array([ranks.take(coded.indices)])
    else:
        return None
    beyond = np.iinfo(np.int64).max
    lows = np.minimum.reduceat(numbers.fill_null(beyond).to_numpy()[order], starts)
    highs = np.maximum.reduceat(numbers.fill_null(-beyond).to_numpy()[order], starts)
    some = lows <= highs
    least, greatest = (
        [
            (value if meaning is None else meaning[value]) if there else None
            for value, there in zip(end, has, strict=True)
        ]
        for end, has in ((lows.tolist(), some.tolist()), (highs.tolist(), some.tolist()))
    )
    return least, greatest
