"""Buffers: all matches of a pattern that end with one event, self-contained, as bytes.

A buffer begins with the magic `CEPB`, the version and the kind (uint8), two zero bytes, and the length of the rest
before it was compressed (uint64). There are three versions of the rest. Numbers are little-endian.

Version 1, compressed with Zstandard: the lengths of the two sections that follow, padded with zeros (uint32); the
statement (UTF-8 JSON) and the attributes that RETURN reads (an Arrow IPC stream, or nothing); and then the events and
what matches they make:

    events, edges or elements, nodes or matches       uint32 x 3
    timestamps, seqs                                  int64, of each event in stream order, less those of the one before
    kind 0, the shared versioned buffer (SIGMOD'08 section 5.1): for each edge by ascending target
        targets                                       int32, less that of the edge before
        sources                                       int32, less the edge's target; node 0 has no events, the last node
                                                      is the end
        events                                        int32, less that of the edge before
        variables                                     int16: its place in the pattern, -1 where the event is ignored
    kind 1, matches listed in order: read, and no longer written
        lengths                                       int64, of each match
        events, variables                             int32, int16, of each element

Version 2, not compressed, has matches listed in order only (kind 1), so that the buffers of all end events are written
at once:

    length of the statement, events, matches          uint32 x 3
    events that each match binds, or 0                uint32
    bytes of an event's place: 1, 2 or 4              uint32
    the statement                                     UTF-8 JSON
    timestamps, seqs                                  int64, of each event in stream order
    lengths                                           uint32, of each match, where they are not all the same
    variables                                         int16, of each element of any match, or of each element
    events                                            of each element: its place among the events
    each attribute that RETURN reads, in its order
        presence                                      uint8, of each event: 0 for null
        numbers                                       int64 or float64; truth as uint8
        texts; lists as JSON text                     uint32, the length of each; then UTF-8

Version 3 is as version 2, but has no statement: where the length of the rest stands, it has the digest of the statement
(the first 8 bytes of its SHA-256), and the four numbers behind the length of the statement follow at once. Most buffers
of listed matches have few of them, so the statement would be most of each. The first buffer of each pattern in a table
is of version 2, and the metadata of the table have the statement, too.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.decimal_text import to_text
from cep_pipeline.errors import InputError, NoRoom
from cep_pipeline.events.columns import ARROW_TYPES
from cep_pipeline.expressions.columns import Array
from cep_pipeline.guarded import brief, parse_json
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.patterns.pattern import Pattern, once_a_pattern
from cep_pipeline.slices.events_input import attributes_returned
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import room_for

MAGIC = b"CEPB"
COMPRESSED, PLAIN, BRIEF = 1, 2, 3
"""The versions of a buffer: compressed, not compressed, and without its statement."""
GRAPH, LISTED = 0, 1
_HEAD = struct.Struct("<4sBBxxQ")
_SECTIONS = struct.Struct("<II")
_SIZES = struct.Struct("<III")
_LISTED_SIZES = struct.Struct("<IIII")
_DIGEST = struct.Struct("<q")
VERSION_AT, DIGEST_AT = 4, 8
"""The places in a buffer of its version (one byte) and, without the statement, its digest (8 bytes)."""
_ALIGNMENT = 8
MOST_BYTES = 1 << 34
"""A buffer that claims to be longer is damaged."""
MOST_RATIO = 40_000
"""Zstandard makes blocks of 128 KB no smaller than 4 bytes: one that claims more than this is damaged."""

MOST_AT_ONCE, ENDS_AT_ONCE = 1 << 23, 1 << 15
"""Bytes and number of buffers of listed matches that are written at once: memory of that size is soon had again."""
MOST_BYTES_OF_ARROW = (1 << 31) - 1
"""Bytes that an Arrow array of binary values has room for."""
_FIXED_SIZE = _HEAD.size + 4 + _LISTED_SIZES.size + 8
_write_listed = NativeKernel(
    "cep_pipeline.detection.compressed.graph_kernels",
    "write_listed",
    (
        *("int64", "int64", "int64", "int64", "int64*", "int32*", "int64", "int16*", "int64", "int64", "int64"),
        *("int64*", "int64*", "int64", "int64*", "int32*", "int32*", "int32*", "int64*", "int64", "int64"),
        *("int64*", "int64*", "int32*", "uint8*", "int32*", "int64"),
    ),
    ("cep_pipeline.compiled.pointers",),
)
_read_listed = NativeKernel(
    "cep_pipeline.detection.compressed.graph_kernels",
    "read_listed",
    (
        *("int64", "int64", "int64*", "int64", "int64", "int64", "int64", "int64*", "int64", "int64*"),
        *("int64*", "int64*", "int64*", "int32*", "int16*"),
    ),
    ("cep_pipeline.compiled.pointers",),
)
_write_graphs = NativeKernel(
    "cep_pipeline.detection.compressed.graph_kernels",
    "write_graphs",
    (
        *("int64", "int64*", "int64*", "int64*", "int64*", "int64", "int64*", "int64*", "int64*", "int64*"),
        *("int64", "int64", "int64", "int64*", "int64*"),
        *("int64*", "int64*", "int64*", "int64*", "int32*", "int32*", "int64", "int64*", "int64*"),
        *("int64", "int64", "int64*", "int64*", "int64*", "int64*", "int64"),
    ),
    ("cep_pipeline.compiled.pointers",),
)


@dataclass(frozen=True, eq=False)
class Paths:
    """Matches as the paths of a graph from node 0 to the last node.

    Attributes
    ----------
    nodes
        Number of nodes.
    sources, targets
        int32, by ascending target; a source is less than its target.
    events, variables
        int32 and int16: the event as a place among the buffer's events, and its variable's place in the pattern, or -1.
    """

    nodes: int
    sources: Array
    targets: Array
    events: Array
    variables: Array

    def check(self, events: int) -> None:
        """Raise ValueError unless each edge is on a path from the first to the last node, over so many events.

        So a walk over a graph that somebody has changed ends, and never looks beside the events.
        """
        nodes, sources, targets = self.nodes, self.sources, self.targets
        if not 2 <= nodes <= len(targets) + 1:
            raise ValueError(f"{nodes:,} nodes and {len(targets):,} edges are no graph of matches")
        if (sources < 0).any() or (sources >= targets).any() or (np.diff(targets) < 0).any() or targets[-1] >= nodes:
            raise ValueError("an edge leads back, or out of the graph")
        reached, left = np.zeros(nodes, dtype=bool), np.zeros(nodes, dtype=bool)
        reached[targets], left[sources] = True, True
        if not (reached[1:].all() and left[:-1].all()):
            raise ValueError("a node is on no path of a match")
        _check_events(self.events, events)


@dataclass(frozen=True, eq=False)
class ListedMatches:
    """Matches one after another in the page's order.

    Attributes
    ----------
    offsets
        int64, shape (n + 1,).
    events, variables
        int32 and int16, of each element.
    """

    offsets: Array
    events: Array
    variables: Array

    def check(self, events: int) -> None:
        """Raise ValueError unless each match binds one event or more, of so many."""
        if (np.diff(self.offsets) < 1).any() or self.offsets[-1] != len(self.events):
            raise ValueError("the lengths of its matches are not those of their events")
        _check_events(self.events, events)


def _check_events(places: Array, events: int) -> None:
    if not len(places) or places.min() < 0 or places.max() >= events:
        raise ValueError(f"it binds other events than its {events:,}")


@dataclass(frozen=True, eq=False)
class MatchesOfEvent:
    """A buffer's content.

    Attributes
    ----------
    statement
        JSON text of the statement.
    events
        Columns `timestamp` (int64), `seq` and the attributes that RETURN reads, in stream order.
    matches
        Which matches they make.
    """

    statement: str
    events: pa.Table
    matches: Paths | ListedMatches

    @classmethod
    def from_bytes(cls, data: bytes, statements: Mapping[int, str] | None = None) -> MatchesOfEvent:
        """Read a buffer.

        Parameters
        ----------
        statements
            By their digests those that a buffer may leave out.

        Raises
        ------
        InputError
            The bytes are no buffer, one of a later version, or cut off; or its statement is none of those given.
        """
        try:
            magic, version, kind, size = _HEAD.unpack_from(data)
            if magic != MAGIC:
                raise InputError("a value of the column 'buffer' is no buffer of matches: expand what was compressed")
            if version not in (COMPRESSED, PLAIN, BRIEF) or kind not in (GRAPH, LISTED):
                raise InputError(f"a buffer of matches has version {version}; this release reads 1, 2 and 3")
            if version == BRIEF:
                reader = _Reader(data, _HEAD.size)
                sizes = reader.array(np.uint8, _LISTED_SIZES.size).tobytes()
                return _listed(_statement_left_out(data, statements or {}), reader, sizes)
            if version == PLAIN:
                if size != len(data) - _HEAD.size:
                    raise ValueError(f"it claims {size:,} bytes and has {len(data) - _HEAD.size:,}")
                reader = _Reader(data, _HEAD.size)
                [length] = reader.array(np.uint32, 1).tolist()
                sizes = reader.array(np.uint8, _LISTED_SIZES.size).tobytes()
                return _listed(reader.array(np.uint8, length).tobytes().decode(), reader, sizes)
            if size > min(MOST_BYTES, len(data) * MOST_RATIO):
                raise ValueError(f"it claims {size:,} bytes")
            data = _codec().decompress(data[_HEAD.size :], decompressed_size=size, asbytes=True)
            statement_size, attribute_size = _SECTIONS.unpack_from(data)
            at = _SECTIONS.size
            statement = data[at : at + statement_size].rstrip(b"\0").decode()
            at += statement_size
            attributes = data[at : at + attribute_size]
            at += attribute_size
            events, second, third = _SIZES.unpack_from(data, at)
            reader = _Reader(data, at + _SIZES.size)
            clocks = [np.cumsum(reader.array(np.int64, events)) for _ in range(2)]
            table = pa.table({"timestamp": clocks[0], "seq": clocks[1]})
            matches: Paths | ListedMatches
            if kind == GRAPH:
                targets = np.cumsum(reader.array(np.int32, second), dtype=np.int32)
                sources = reader.array(np.int32, second) + targets
                of_edges = np.cumsum(reader.array(np.int32, second), dtype=np.int32)
                matches = Paths(third, sources, targets, of_edges, reader.array(np.int16, second))
            else:
                offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(reader.array(np.int64, third))))
                matches = ListedMatches(offsets, reader.array(np.int32, second), reader.array(np.int16, second))
            _check_clocks(*clocks)
            matches.check(events)
            if attribute_size:
                for field, column in zip(*_columns(attributes), strict=True):
                    table = table.append_column(field, column)
                if len(set(table.column_names)) != table.num_columns:
                    raise ValueError("it has an attribute twice")
            return cls(statement, table, matches)
        except (struct.error, ValueError, TypeError, OverflowError, OSError, pa.ArrowException) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"a buffer of matches is damaged: {brief(error)}") from error


def _check_clocks(timestamps: Array, seqs: Array) -> None:
    if len(seqs) != len(np.unique(seqs)) or (np.diff(timestamps) < 0).any():
        raise ValueError("its events are not in the order of the stream, each once")


@dataclass(frozen=True, eq=False)
class Listing:
    """Matches in order, whose elements lie anyhow.

    Attributes
    ----------
    count
        The number of matches.
    width, match_step, step
        Element e of match m is `rows[m * match_step + e * step]`, e below `width`; with width 0 they are those from
        `offsets[m]` to `offsets[m + 1]`.
    offsets
        int64, shape (n + 1,), where `width` is 0.
    rows
        int32: the event of each element.
    variables
        int16: the variable of each element; where all matches bind the same ones, it may be those of one match.
    """

    count: int
    width: int
    match_step: int
    step: int
    offsets: Array
    rows: Array
    variables: Array

    @classmethod
    def in_columns(cls, rows: Array, variables: Array) -> Listing:
        """The matches of `OrderedMatches` of one form."""
        width, count = rows.shape
        return cls(count, width, 1, count, _NO_OFFSETS, np.ascontiguousarray(rows).reshape(-1), variables)

    @property
    def elements(self) -> int:
        """The number of all elements."""
        return self.count * self.width if self.width else int(self.offsets[-1])


_NO_OFFSETS = np.zeros(1, np.int64)


@lru_cache(maxsize=4096)
def digest_of(statement: str) -> int:
    """The first 8 bytes of the SHA-256 of a statement."""
    return int.from_bytes(sha256(statement.encode()).digest()[:8], "little", signed=True)


class ListWriter:
    """Writes the buffers of listed matches of one pattern: the first one has its statement, the others the digest."""

    def __init__(self, pattern: Pattern, events: PreparedEvents) -> None:
        self._events, self._attributes = events, attributes_beside_clocks(pattern)
        statement = statement_of(pattern)
        self._statement = np.frombuffer(statement.encode() + bytes(8), np.uint8)
        self._digest = digest_of(statement)
        total = len(events)
        self._stamps, self._places = np.zeros(total, np.int32), np.empty(total, np.int32)
        self._distinct, self._state = np.empty(total + 1, np.int32), np.array([0, 1, 0])

    def write(self, listing: Listing) -> Iterator[tuple[Array, Array, pa.Array, pa.Array]]:
        """Write a buffer for all matches that end with the same event.

        Yields
        ------
        seqs, timestamps, counts, buffers
            Of some ends, in the order of the matches: seq and timestamp in microseconds, int64; the number of matches
            as text; and the buffer, which is binary.
        """
        events, state, length = self._events, self._state, len(self._statement) - 8
        values = [_PlainValues.of(events, name, listing.rows) for name in self._attributes]
        words = np.array([one.words() for one in values] or [_NO_WORDS], np.int64)
        an_element = 20 + sum(one.mean_size for one in values)
        least, state[0] = 0, 0
        while int(state[0]) < listing.count:
            left = listing.count - int(state[0])
            ends = min(left, ENDS_AT_ONCE)
            share = left / listing.count
            estimate = int(left * (_FIXED_SIZE + 2 * listing.width) + share * listing.elements * an_element) + length
            size = max(least, min(estimate, MOST_AT_ONCE))
            seqs, timestamps = room_for(ends, np.int64), room_for(ends, np.int64)
            count_offsets, buffer_offsets = room_for(ends + 1, np.int32), room_for(ends + 1, np.int32)
            counts, buffers = room_for(20 * ends, np.uint8), room_for(size, np.uint8)
            found = _write_listed(
                *(listing.count, listing.width, listing.match_step, listing.step, listing.offsets, listing.rows),
                *(int(len(listing.variables) < listing.elements), listing.variables),
                *(self._statement.ctypes.data, length, self._digest, events.timestamps, events.seqs),
                *(len(values), words, self._stamps, self._places, self._distinct, state, ends, size),
                *(seqs, timestamps, count_offsets, counts, buffer_offsets, buffers.ctypes.data),
            )
            if not found:
                if size >= MOST_BYTES_OF_ARROW:
                    raise NoRoom("the matches that end with one event take more than 2 GB: shorten the window")
                least = min(4 * size, MOST_BYTES_OF_ARROW)
                continue
            least = 0
            texts = _spelled(pa.string(), found, count_offsets, counts)
            yield seqs[:found], timestamps[:found], texts, _spelled(pa.binary(), found, buffer_offsets, buffers)


class GraphWriter:
    """Writes the buffers of the matches of one pattern that the paths of graphs are."""

    def __init__(self, pattern: Pattern, events: PreparedEvents) -> None:
        self._events = events
        self._attributes = attributes_beside_clocks(pattern)
        self._statement = _padded(statement_of(pattern).encode())
        # With attributes, their length comes before the statement, and they come behind it.
        head = b"" if self._attributes else _SECTIONS.pack(len(self._statement), 0) + self._statement
        self._head_size, self._head = len(head), np.frombuffer(head + bytes(8), np.uint8)
        total = len(events)
        self._timestamps, self._seqs = np.ascontiguousarray(events.timestamps), np.ascontiguousarray(events.seqs)
        self._stamps, self._places = np.zeros(total, np.int64), np.empty(total, np.int32)
        self._distinct = np.empty(total + 1, np.int32)
        self._stamp = 1

    def write(self, graph: Graph) -> Iterator[tuple[Array, list[str], list[bytes]]]:
        """Write a buffer for each event that ends matches, some at a time: rows, numbers of matches, and buffers."""
        edges, ends = graph.edges, graph.ends
        begins = np.flatnonzero(np.append(True, ends.row[1:] != ends.row[:-1])) if len(ends) else _NO_OFFSETS[:0]
        offsets = np.append(begins, len(ends)).astype(np.int64)
        edge_offsets = np.append(0, np.cumsum(np.bincount(edges.target, minlength=graph.nodes)))
        columns = [np.ascontiguousarray(one) for one in (edges.source, edges.variable, edges.row)]
        end_columns = [np.ascontiguousarray(one) for one in (ends.source, ends.variable, ends.row)]
        stamps = np.zeros(graph.nodes, np.int64)
        numbers, reached = np.empty(graph.nodes, np.int64), np.empty(graph.nodes, np.int64)
        state = np.array([0, self._stamp, 0], np.int64)
        digits, size = 2, MOST_AT_ONCE
        amounts = np.empty((graph.nodes + 1) * digits, np.int64)
        while int(state[0]) < len(begins):
            first = int(state[0])
            most = min(len(begins) - first, ENDS_AT_ONCE)
            counts = np.empty(most * digits, np.int64)
            row_offsets, buffer_offsets = np.empty(most + 1, np.int64), np.empty(most + 1, np.int64)
            rows, buffers = room_for(size // 16, np.int64), room_for(size, np.uint8)
            written = _write_graphs(
                *(len(begins), offsets),
                *end_columns,
                *(graph.nodes, edge_offsets),
                *columns,
                *(self._head.ctypes.data, self._head_size, len(self._events), self._timestamps, self._seqs),
                *(stamps, numbers, reached, self._stamps, self._places, self._distinct),
                *(digits, amounts, state),
                *(most, size, counts, row_offsets, rows, buffer_offsets, buffers.ctypes.data),
            )
            self._stamp = int(state[1])
            if written:
                buffers_of_ends = self._compressed(rows, row_offsets[: written + 1], buffers, buffer_offsets.tolist())
                counted = _numbers(counts.reshape(most, digits)[:written])
                yield ends.row[begins[first : first + written]], counted, [*buffers_of_ends]
            elif state[2]:
                digits *= 2
                amounts = np.empty((graph.nodes + 1) * digits, np.int64)
            else:
                size *= 2

    def _compressed(self, rows: Array, offsets: Array, graphs: Array, bounds: list[int]) -> Iterator[bytes]:
        """The buffers of graphs, over events of some rows."""
        compress = _codec().compress
        if self._attributes:
            taken = pa.array(rows[: offsets[-1]])
            values = self._events.table.select(self._attributes).take(taken).combine_chunks()
        for place, (first, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            rest: Any = graphs[bounds[place] : bounds[place + 1]]
            if self._attributes:
                attributes = _padded(_ipc(values.slice(first, stop - first)))
                sections = _SECTIONS.pack(len(self._statement), len(attributes))
                rest = b"".join((sections, self._statement, attributes, rest))
            yield _HEAD.pack(MAGIC, COMPRESSED, GRAPH, len(rest)) + compress(rest, asbytes=True)


def _numbers(digits: Array) -> list[str]:
    """Numbers as texts, of digits of 32 bits, the least first."""
    if digits.shape[1] == 2 and not (digits[:, 1] >> 31).any():
        return [*map(str, (digits[:, 0] | digits[:, 1] << 32).tolist())]
    return [to_text(int.from_bytes(one.tobytes(), "little")) for one in digits.astype("<u4")]


def _spelled(kind: pa.DataType, count: int, offsets: Array, data: Array) -> pa.Array:
    """The first texts, or bytes, of an array that has room for more."""
    used = int(offsets[count])
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets[: count + 1]), pa.py_buffer(data[:used])])


@dataclass(frozen=True, eq=False)
class _PlainValues:
    """The values of an attribute as `write_listed` takes them.

    Attributes
    ----------
    size
        The bytes of a value, 0 for texts.
    values
        The value of each event, or the number of its text, int32.
    presence
        bool, of each event; None: all have a value.
    bounds, letters
        int64 and uint8: where each text begins, and behind the last one, and all texts.
    """

    size: int
    values: Array
    presence: Array | None
    bounds: Array
    letters: Array

    @classmethod
    def of(cls, events: PreparedEvents, name: str, rows: Array) -> _PlainValues:
        """The values of an attribute; of many texts only those that the events with these rows have."""
        column = events.column(name)
        presence = None if column.valid is None else np.ascontiguousarray(column.valid)
        if column.dictionary is None and column.offsets is None:
            values = np.ascontiguousarray(column.values)
            return cls(values.itemsize, values, presence, _NO_OFFSETS, np.zeros(8, np.uint8))
        texts = column.offsets[:-1] if column.offsets is not None else column.dictionary
        assert texts is not None
        numbers = column.values if column.offsets is None else events.every_row[: len(events)]
        numbers = np.ascontiguousarray(numbers, np.int32)
        used = np.full(len(texts), len(texts) <= len(rows) and column.offsets is None)
        if not used.all():
            used[numbers[rows if presence is None else rows[presence[rows]]]] = True
        places = np.flatnonzero(used)
        if column.offsets is None:
            spelled = [text.encode() for text in texts[places].tolist()]
        else:
            lists = events.table.column(name).take(pa.array(places)).to_pylist()
            spelled = [json.dumps(own).encode() for own in lists]
        lengths = np.zeros(len(texts), np.int64)
        lengths[places] = [*map(len, spelled)]
        bounds = np.append(0, np.cumsum(lengths))
        return cls(0, numbers, presence, bounds, np.frombuffer(b"".join([*spelled, bytes(8)]), np.uint8))

    def words(self) -> tuple[int, ...]:
        """The attributes as the kernel reads them."""
        presence = 0 if self.presence is None else self.presence.ctypes.data
        return self.size, self.values.ctypes.data, presence, self.bounds.ctypes.data, self.letters.ctypes.data

    @property
    def mean_size(self) -> int:
        """Estimated bytes of an event."""
        return 1 + self.size if self.size else 5 + 2 * len(self.letters) // len(self.bounds)


_NO_WORDS = (0,) * 5


def _statement_left_out(data: bytes, statements: Mapping[int, str]) -> str:
    """The statement of a buffer of version 3; an InputError where it is unknown."""
    [digest] = _DIGEST.unpack_from(data, DIGEST_AT)
    if digest not in statements:
        raise InputError(
            "the statement of a buffer of matches is in neither the metadata nor another row of the table: "
            "give the whole table that output 'compressed' made"
        )
    return statements[digest]


def _listed(statement: str, reader: _Reader, sizes: bytes) -> MatchesOfEvent:
    """Read what version 2 and 3 have behind their sizes; ValueError or struct.error where it is damaged."""
    events, count, width, place = _LISTED_SIZES.unpack(sizes)
    size = len(reader.data)
    clocks = [reader.array(np.int64, events).copy() for _ in range(2)]
    if place not in (1, 2, 4):
        raise ValueError(f"the place of an event has {place} bytes")
    if max(count, width, count * width * place) > size:
        raise ValueError(f"it claims {count:,} matches")
    if width:
        elements = count * width
        offsets = np.arange(count + 1, dtype=np.int64) * width
        variables = np.tile(reader.array(np.int16, width), count)
    else:
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(reader.array(np.uint32, count), dtype=np.int64)))
        elements = int(offsets[-1])
        variables = reader.array(np.int16, elements)
    places = reader.array(np.dtype(f"<u{place}"), elements).astype(np.int32)
    matches = ListedMatches(offsets, places, variables)
    _check_clocks(*clocks)
    matches.check(events)
    table = pa.table({"timestamp": clocks[0], "seq": clocks[1]})
    for name, kind in _attributes_kept(pattern_of(statement)):
        table = table.append_column(name, reader.column(kind, events))
    reader.end()
    return MatchesOfEvent(statement, table, matches)


class BriefBuffers:
    """Buffers of version 3, of which many are read at a time.

    Parameters
    ----------
    buffers
        The buffers of a table, of any version.
    statements
        By their digests those of its patterns.
    """

    def __init__(self, buffers: pa.Array, statements: Mapping[int, str]) -> None:
        self._statements = statements
        _, offsets, self._data = buffers.buffers()
        own = slice(buffers.offset, buffers.offset + len(buffers) + 1)
        self._offsets = np.frombuffer(offsets, np.int32)[own].astype(np.int64)
        data, begins = np.frombuffer(self._data, np.uint8), self._offsets[:-1]
        self._is_brief = np.diff(self._offsets) >= DIGEST_AT + _DIGEST.size
        begins = begins[self._is_brief]
        self._is_brief[self._is_brief] = data[begins + VERSION_AT] == BRIEF
        self._data_from = self._data.address

    def read(self, first: int, stop: int) -> tuple[int, MatchesOfEvent] | None:
        """The matches of the buffers from `first` on that have the same statement, and behind which of them they end.

        The events of each buffer come after those of the one before. None: the first buffer is read by itself, as it is
        of another version, or damaged, or has a list attribute.
        """
        if not self._is_brief[first]:
            return None
        [digest] = _DIGEST.unpack_from(self._data, int(self._offsets[first]) + DIGEST_AT)
        if digest not in self._statements:
            return None
        statement = self._statements[digest]
        pattern = pattern_of(statement)
        attributes = _attributes_kept(pattern)
        if any(kind is ValueType.FLOAT64_LIST for _, kind in attributes):
            return None
        sizes = [_VALUE_BYTES[kind] for _, kind in attributes]
        words = np.array([(size, 0, 0, 0) for size in sizes] or [_NO_WORDS[:4]], np.int64)
        totals = np.zeros(3 + len(sizes), np.int64)
        asked = (self._offsets, self._data_from, digest, len(pattern.operands), len(sizes), words)
        nothing = (_NO_OFFSETS, _NO_OFFSETS, _NO_OFFSETS, _NO_OFFSETS.view(np.int32), _NO_OFFSETS.view(np.int16))
        found = _read_listed(first, stop, *asked, 0, totals, *nothing)
        if not found or totals.max() > MOST_BYTES_OF_ARROW:
            return None
        events, matches, elements, *letters = totals.tolist()
        times, seqs, offsets = np.empty(events, np.int64), np.empty(events, np.int64), np.empty(matches + 1, np.int64)
        rows, variables = np.empty(elements, np.int32), np.empty(elements, np.int16)
        values = [
            [np.empty(room, np.uint8) for room in (events, (size or 4) * events, used)]
            for size, used in zip(sizes, letters, strict=True)
        ]
        for word, arrays in zip(words, values, strict=False):
            word[1:] = [one.ctypes.data for one in arrays]
        _read_listed(first, first + found, *asked, 1, totals, times, seqs, offsets, rows, variables)
        table = pa.table({"timestamp": times, "seq": seqs})
        try:
            for (name, kind), arrays in zip(attributes, values, strict=True):
                table = table.append_column(name, _column(kind, *arrays))
        except pa.ArrowInvalid:
            return None
        return first + found, MatchesOfEvent(statement, table, ListedMatches(offsets, rows, variables))


_VALUE_BYTES = {ValueType.INT64: 8, ValueType.FLOAT64: 8, ValueType.BOOL: 1, ValueType.STRING: 0}


def _attributes_kept(pattern: Pattern) -> list[tuple[str, ValueType]]:
    """The attributes that a buffer has, beside timestamp and seq."""
    kinds = dict(pattern.attributes)
    return [(name, kinds[name]) for name in attributes_returned(pattern) if name in kinds]


def _column(kind: ValueType, presence: Array, values: Array, letters: Array) -> pa.Array:
    """An attribute of some events, of bytes: the values, or the lengths of texts and their letters.

    Raises
    ------
    pa.ArrowInvalid
        The letters are no UTF-8.
    """
    missing = presence == 0
    if kind is ValueType.BOOL:
        return pa.array(values != 0, mask=missing)
    if kind is not ValueType.STRING:
        return pa.array(values.view(kind.value), mask=missing)
    offsets = np.append(0, np.cumsum(values.view(np.uint32), dtype=np.int64)).astype(np.int32)
    buffers = [np.packbits(~missing, bitorder="little"), offsets, letters]
    texts = pa.Array.from_buffers(pa.string(), len(missing), [pa.py_buffer(one) for one in buffers])
    texts.validate(full=True)
    return texts


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def array(self, dtype: Any, count: int) -> Array:
        array = np.frombuffer(self.data, dtype, count, self.at)
        self.at += array.nbytes
        return array

    def column(self, kind: ValueType, count: int) -> pa.Array:
        """An attribute of so many events."""
        is_list = kind is ValueType.FLOAT64_LIST
        size = 0 if is_list else _VALUE_BYTES[kind]
        presence, values = self.array(np.uint8, count), self.array(np.uint8, (size or 4) * count).copy()
        letters = self.array(np.uint8, 0 if size else int(values.view(np.uint32).sum(dtype=np.int64)))
        column = _column(ValueType.STRING if is_list else kind, presence, values, letters)
        if not is_list:
            return column
        what = "a list attribute in a buffer of matches"
        lists = [None if text is None else parse_json(text, what, "text") for text in column.to_pylist()]
        return pa.array(lists, ARROW_TYPES[kind])

    def end(self) -> None:
        """Raise ValueError unless all has been read."""
        if self.at != len(self.data):
            raise ValueError(f"it has {len(self.data) - self.at:,} bytes that belong to nothing")


@lru_cache(maxsize=1)
def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=1)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNMENT)


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _columns(data: bytes) -> tuple[list[pa.Field], list[pa.ChunkedArray]]:
    table = pa.ipc.open_stream(data).read_all()
    table.validate(full=True)
    return list(table.schema), table.columns


def attributes_beside_clocks(pattern: Pattern) -> tuple[str, ...]:
    """The attributes that RETURN reads, beside timestamp and seq, which every buffer has."""
    return tuple(name for name in attributes_returned(pattern) if name not in ("timestamp", "seq"))


@once_a_pattern
def statement_of(pattern: Pattern) -> str:
    """The part of a pattern that a buffer keeps: enough to parse it again."""
    from cep_pipeline.language.formatter import format_pattern

    return json.dumps(
        {
            "name": pattern.name,
            "text": format_pattern(pattern),
            "parameters": dict(pattern.parameters_as_json),
            "stream": pattern.stream,
            "schema": {
                "base_type": pattern.base_type,
                "type_attribute": pattern.type_attribute,
                "attributes": {name: kind.value for name, kind in pattern.attributes},
                **({} if pattern.timezone == "UTC" else {"timezone": pattern.timezone}),
            },
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


_STATEMENT = "the statement in a buffer of matches"


@lru_cache(maxsize=1)
def _statement_form() -> Any:
    """The JSON form of what `statement_of` writes."""
    from typing import NotRequired

    from cep_pipeline.documents import form_of

    value = form_of(bool | int | float | str)
    return form_of(
        {
            "name": str,
            "text": str,
            "parameters": form_of(Mapping[str, tuple[Any, ...] | Any], {}, {Any: value}),
            "stream": str,
            "schema": {
                "base_type": str | None,
                "type_attribute": str,
                "attributes": Mapping[str, str],
                "timezone": NotRequired[str],
            },
        }
    )


@lru_cache(maxsize=256)
def pattern_of(statement: str) -> Pattern:
    """The pattern again.

    Raises
    ------
    InputError
        The statement is none that `statement_of` wrote.
    """
    import warnings

    from cep_pipeline.documents import check_form
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.language.parser import parse_patterns

    told = parse_json(statement, _STATEMENT, "text")
    check_form(_statement_form(), told, "is damaged", _STATEMENT, "compress the matches again")
    try:
        schema = StreamSchema.from_dict(told["schema"], name=told["stream"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said when the pattern was detected
            [pattern] = parse_patterns(told["text"], schema, params=told["parameters"], source="<buffer>")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{_STATEMENT} cannot be read: {brief(error)}") from error
    return replace(pattern, name=told["name"])


IGNORED = -1
"""The number in place of a variable where the run did not bind the event."""
NO_NODE = -1
"""The node of a run without events."""


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges of the buffer.

    Attributes
    ----------
    source, target
        int64: the node of a run before and after an event; a target of -1 is the end of a match.
    variable, row
        int64: the event's variable, or `IGNORED`, and the event.
    """

    source: Array
    target: Array
    variable: Array
    row: Array

    def __len__(self) -> int:
        return len(self.source)

    def take(self, places: Array | slice) -> Edges:
        """Some of the edges."""
        return Edges(self.source[places], self.target[places], self.variable[places], self.row[places])

    def shifted(self, nodes: int) -> Edges:
        """The same between nodes so much greater."""
        if not nodes:
            return self
        source, target = (np.where(one < 0, one, one + nodes) for one in (self.source, self.target))
        return Edges(source, target, self.variable, self.row)

    @classmethod
    def together(cls, parts: Sequence[Edges]) -> Edges:
        """All edges of some parts, one part after another."""
        if len(parts) == 1:
            return parts[0]
        columns = [[one.source, one.target, one.variable, one.row] for one in parts]
        return (
            cls(*(np.concatenate(column) for column in zip(*columns, strict=True)))
            if parts
            else cls(*[_NO_OFFSETS[:0]] * 4)
        )


@dataclass(frozen=True, eq=False)
class Graph:
    """Matches as the paths of a graph to their last events.

    Attributes
    ----------
    nodes
        Number of nodes.
    edges
        By ascending target.
    ends
        The last event of matches, by ascending row.
    """

    nodes: int
    edges: Edges
    ends: Edges

    @classmethod
    def together(cls, graphs: Sequence[Graph]) -> Graph:
        """Join several graphs to one."""
        if len(graphs) == 1:
            return graphs[0]
        shifts = np.cumsum([0, *(graph.nodes for graph in graphs)])[:-1].tolist()
        edges = Edges.together([graph.edges.shifted(by) for graph, by in zip(graphs, shifts, strict=True)])
        ends = Edges.together([graph.ends.shifted(by) for graph, by in zip(graphs, shifts, strict=True)])
        order = np.argsort(ends.row, kind="stable")
        return cls(sum(graph.nodes for graph in graphs), edges, ends.take(order))


class GraphBuilder:
    """Collects nodes, edges and the ends of matches.

    Parameters
    ----------
    places
        int64: of each variable the number that edges have in its place, and `IGNORED` behind them.
    """

    def __init__(self, places: Array) -> None:
        self.places = places
        self._nodes = 0
        self._edges: list[Edges] = []
        self._ends: list[Edges] = []

    def mark(self) -> tuple[int, int, int]:
        """The state that `rewind` goes back to."""
        return self._nodes, len(self._edges), len(self._ends)

    def rewind(self, mark: tuple[int, int, int] | None) -> None:
        """Forget what was added since."""
        assert mark is not None
        self._nodes, edges, ends = mark
        del self._edges[edges:], self._ends[ends:]

    def clear(self) -> None:
        """Forget all."""
        self.rewind((0, 0, 0))

    def nodes(self, count: int) -> Array:
        """Add `count` nodes behind all others and return their numbers."""
        self._nodes += count
        return np.arange(self._nodes - count, self._nodes)

    def edges(self, source: Array, target: Array, variable: Array, row: Array) -> None:
        """Edges from older nodes to new ones, by ascending target."""
        self._edges.append(Edges(source, target, self.places[variable], row))

    def end(self, row: Array, source: Array, variable: int) -> None:
        """Matches that end with an event bound to a variable, from each run."""
        place = np.full(len(source), self.places[variable])
        self._ends.append(Edges(source, np.full(len(source), NO_NODE, np.int64), place, row))

    def add(self, nodes: int, edges: Edges, ends: Edges) -> None:
        """A graph of so many nodes of its own, whose variables are numbered already."""
        self._edges.append(edges.shifted(self._nodes))
        self._ends.append(ends.shifted(self._nodes))
        self._nodes += nodes

    def finished(self) -> Graph:
        """All that was added."""
        ends = Edges.together(self._ends)
        return Graph(self._nodes, Edges.together(self._edges), ends.take(np.argsort(ends.row, kind="stable")))
