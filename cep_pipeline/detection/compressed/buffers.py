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
from typing import NotRequired

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import TypedDict

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.ordering import OrderedLists, OrderedMatches
from cep_pipeline.errors import InputError, NoRoom
from cep_pipeline.events.columns import ARROW_TYPES
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import pieces
from cep_pipeline.guarded import brief, parse_json
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.patterns.pattern import Pattern, once_a_pattern
from cep_pipeline.slices.events_input import attributes_returned
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.slices.routines import room_for
from cep_pipeline.storage import decimal_text

MAGIC = b"CEPB"
COMPRESSED, PLAIN, BRIEF = 1, 2, 3
"""The versions of a buffer: compressed, not compressed, and without its statement."""
GRAPH, LISTED = 0, 1
_HEAD = struct.Struct("<4sBBxxQ")
VERSION_AT, DIGEST_AT = 4, 8
"""The places in a buffer of its version (one byte) and, without the statement, its digest (8 bytes)."""
MOST_BYTES = 1 << 34
"""A buffer that claims to be longer is damaged."""
MOST_RATIO = 40_000
"""Zstandard makes blocks of 128 KB no smaller than 4 bytes: one that claims more than this is damaged."""

MATCHES_AT_ONCE, EDGES_AT_ONCE = 1 << 18, 1 << 20
"""Matches, and edges of graphs, of which buffers are written at once, or those of one buffer."""
MOST_BYTES_OF_ARROW = (1 << 31) - 1
"""Bytes that an Arrow array of binary values has room for."""
_KERNELS, _POINTERS = "cep_pipeline.detection.compressed.graph_kernels", ("cep_pipeline.compiled.pointers",)
_events_of_ends = NativeKernel(
    _KERNELS,
    "events_of_ends",
    ("int64", "int64*", *["int32*"] * 3, "int64", "int64*", "int32*", "int32*"),
    _POINTERS,
)
_graphs_of_ends = NativeKernel(
    _KERNELS,
    "graphs_of_ends",
    ("int64", "int64", *["int64*"] * 7, "int64", *["int64*"] * 5),
    _POINTERS,
)
_copy_ranges = NativeKernel(_KERNELS, "copy_ranges", ("int64", *["int64*"] * 3, "int64", "int64"), _POINTERS)


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
    """The content of a buffer, or of several ones of listed matches.

    Attributes
    ----------
    statement
        JSON text of the statement.
    events
        Columns `timestamp` (int64), `seq` and the attributes that RETURN reads, in stream order; those of each buffer
        come behind those of the one before.
    matches
        Which matches they make.
    """

    statement: str
    events: pa.Table
    matches: Paths | ListedMatches

    @classmethod
    def from_bytes(cls, data: bytes, statements: Mapping[int, str] | None = None) -> MatchesOfEvent:
        """Read one buffer, as `read` does."""
        return cls.read(pa.array([data], pa.binary()), statements or {})

    @classmethod
    def read(cls, buffers: pa.Array, statements: Mapping[int, str]) -> MatchesOfEvent:
        """Read one buffer, or several ones whose first bytes are alike (`runs_of_alike`).

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
            _, offsets, data = buffers.buffers()
            parts = _Parts(data, np.frombuffer(offsets, np.int32)[buffers.offset : buffers.offset + len(buffers) + 1])
            magic, version, kind, size = _HEAD.unpack(parts.take(np.uint8, _HEAD.size)[: _HEAD.size].tobytes())
            if magic != MAGIC:
                raise InputError("a value of the column 'buffer' is no buffer of matches: expand what was compressed")
            if version not in (COMPRESSED, PLAIN, BRIEF) or kind not in (GRAPH, LISTED):
                raise InputError(f"a buffer of matches has version {version}; this release reads 1, 2 and 3")
            if version == COMPRESSED:
                return cls._uncompressed(parts.take(np.uint8, parts.left), kind, size)
            if version == BRIEF:
                sizes = parts.take(np.int32, 4)
                statement = _statement_left_out(size, statements)
            else:
                if size != parts.left[0]:
                    raise ValueError(f"it claims {size:,} bytes and has {parts.left[0]:,}")
                length, *sizes_of_one = parts.take(np.uint32, 5).tolist()
                sizes = np.array(sizes_of_one)
                statement = parts.take(np.uint8, length).tobytes().decode()
            return cls(statement, *_listed(parts, sizes.reshape(-1, 4), pattern_of(statement)))
        except (struct.error, ValueError, TypeError, OverflowError, OSError, pa.ArrowException) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"a buffer of matches is damaged: {brief(error)}") from error

    @classmethod
    def _uncompressed(cls, data: Array, kind: int, size: int) -> MatchesOfEvent:
        """Read what a buffer of version 1 has behind its head."""
        if size > min(MOST_BYTES, len(data) * MOST_RATIO):
            raise ValueError(f"it claims {size:,} bytes")
        parts = _Parts(_codec().decompress(data, decompressed_size=size), np.array([0, size]))
        statement_size, attribute_size = parts.take(np.uint32, 2).tolist()
        statement = parts.take(np.uint8, statement_size).tobytes().rstrip(b"\0").decode()
        attributes = parts.take(np.uint8, attribute_size)
        events, second, third = parts.take(np.uint32, 3).tolist()
        times, seqs = (np.cumsum(parts.take(np.int64, events)) for _ in range(2))
        matches: Paths | ListedMatches
        if kind == GRAPH:
            targets = np.cumsum(parts.take(np.int32, second), dtype=np.int32)
            sources = parts.take(np.int32, second) + targets
            of_edges = np.cumsum(parts.take(np.int32, second), dtype=np.int32)
            matches = Paths(third, sources, targets, of_edges, parts.take(np.int16, second))
        else:
            offsets = np.append(0, np.cumsum(parts.take(np.int64, third)))
            matches = ListedMatches(offsets, parts.take(np.int32, second), parts.take(np.int16, second))
        _check_clocks(times, seqs, np.array([events]))
        matches.check(events)
        table = pa.table({"timestamp": times, "seq": seqs})
        if attribute_size:
            own = pa.ipc.open_stream(attributes).read_all()
            own.validate(full=True)
            for field, column in zip(own.schema, own.columns, strict=True):
                table = table.append_column(field, column)
            if len(set(table.column_names)) != table.num_columns:
                raise ValueError("it has an attribute twice")
        return cls(statement, table, matches)


def runs_of_alike(buffers: pa.Array) -> Array:
    """The places behind the buffers that are read together: of version 3, of one statement, with numbers of one size.

    Returns
    -------
    Array
        int64, ascending; the last one is the number of buffers.
    """
    heads = pc.binary_join_element_wise(pc.binary_slice(buffers, 0, 16), pc.binary_slice(buffers, 24, 32), b"")
    codes = heads.dictionary_encode().indices.to_numpy()
    alone = pc.not_equal(pc.binary_slice(buffers, VERSION_AT, VERSION_AT + 1), bytes([BRIEF]))
    other = (codes[1:] != codes[:-1]) | alone.to_numpy(zero_copy_only=False)[1:]
    return np.append(np.flatnonzero(other) + 1, len(buffers))


def _statement_left_out(head: int, statements: Mapping[int, str]) -> str:
    """The statement of a buffer of version 3; an InputError where it is unknown."""
    digest = head - (head >> 63 << 64)  # with its sign
    if digest not in statements:
        raise InputError(
            "the statement of a buffer of matches is in neither the metadata nor another row of the table: "
            "give the whole table that output 'compressed' made"
        )
    return statements[digest]


class _Parts:
    """Takes the parts of some buffers, which lie one behind another in each of them."""

    def __init__(self, data: pa.Buffer, offsets: Array) -> None:
        self._data = data
        self._at, self._ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)

    @property
    def left(self) -> Array:
        """int64: the bytes of each buffer that have not been taken."""
        left: Array = self._ends - self._at
        return left

    def take(self, kind: npt.DTypeLike, count: int | Array) -> Array:
        """The next numbers, so many of each buffer; those of all buffers one behind another."""
        dtype = np.dtype(kind)
        counts = np.broadcast_to(np.asarray(count, np.int64), len(self._at))
        if (counts < 0).any() or (counts > self.left // dtype.itemsize).any():
            raise ValueError("it is cut off")
        sizes = counts * dtype.itemsize
        taken = np.empty(int(sizes.sum()), np.uint8)
        _copy_ranges(len(sizes), self._at, _begins(sizes), sizes, self._data.address, taken.ctypes.data)
        self._at = self._at + sizes
        return taken.view(dtype)

    def column(self, kind: ValueType, events: Array) -> pa.Array:
        """An attribute of so many events."""
        missing = self.take(np.uint8, events) == 0
        if kind is ValueType.BOOL:
            return pa.array(self.take(np.uint8, events) != 0, mask=missing)
        if kind not in (ValueType.STRING, ValueType.FLOAT64_LIST):
            return pa.array(self.take(kind.value, events), mask=missing)
        lengths = self.take(np.uint32, events).astype(np.int64)
        letters = self.take(np.uint8, np.add.reduceat(lengths, _begins(events)))
        offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
        buffers = [np.packbits(~missing, bitorder="little"), offsets, letters]
        texts = pa.Array.from_buffers(pa.string(), len(missing), [pa.py_buffer(one) for one in buffers])
        texts.validate(full=True)
        if kind is ValueType.STRING:
            return texts
        what = "a list attribute in a buffer of matches"
        lists = [None if text is None else parse_json(text, what, "text") for text in texts.to_pylist()]
        return pa.array(lists, ARROW_TYPES[kind])


def _begins(sizes: Array) -> Array:
    """The begin of each of some ranges that lie one behind another."""
    begins: Array = np.cumsum(sizes) - sizes
    return begins


def _listed(parts: _Parts, sizes: Array, pattern: Pattern) -> tuple[pa.Table, ListedMatches]:
    """Read what buffers of version 2 or 3 have behind their sizes; ValueError where they are damaged."""
    events, matches = sizes[:, 0].astype(np.int64), sizes[:, 1].astype(np.int64)
    width, place = sizes[0, 2:].tolist()
    if place not in (1, 2, 4) or width < 0 or min(events.min(), matches.min()) < 1:
        raise ValueError(f"the place of an event has {place} bytes, or it has no matches")
    times, seqs = parts.take(np.int64, events), parts.take(np.int64, events)
    if width:
        elements, of_buffers = matches * width, parts.take(np.int16, width).reshape(-1, width)
        places = parts.take(f"<u{place}", elements)
        lengths, variables = np.full(matches.sum(), width), np.repeat(of_buffers, matches, axis=0).reshape(-1)
    else:
        lengths = parts.take(np.uint32, matches).astype(np.int64)
        elements = np.add.reduceat(lengths, _begins(matches))
        variables, places = parts.take(np.int16, elements), parts.take(f"<u{place}", elements)
    if (places >= np.repeat(events, elements)).any():
        raise ValueError("it binds other events than its own")
    _check_clocks(times, seqs, events)
    rows = np.repeat(_begins(events), elements) + places
    listed = ListedMatches(np.append(0, np.cumsum(lengths)), rows.astype(np.int32), variables)
    listed.check(int(events.sum()))
    table = pa.table({"timestamp": times, "seq": seqs})
    for name, kind in attributes_kept(pattern):
        table = table.append_column(name, parts.column(kind, events))
    if parts.left.any():
        raise ValueError(f"it has {parts.left.max():,} bytes that belong to nothing")
    return table, listed


def _check_clocks(timestamps: Array, seqs: Array, events: Array) -> None:
    """Raise ValueError unless the events of each buffer are in the order of the stream, each once."""
    owners = np.repeat(np.arange(len(events)), events)
    alike = owners[1:] == owners[:-1]
    right = not (alike & (np.diff(timestamps) < 0)).any()
    if right and (alike & (np.diff(seqs) <= 0)).any():
        right = not (alike & (np.diff(seqs[np.lexsort((seqs, owners))]) == 0)).any()
    if not right:
        raise ValueError("its events are not in the order of the stream, each once")


def attributes_kept(pattern: Pattern) -> list[tuple[str, ValueType]]:
    """The attributes that RETURN reads, beside timestamp and seq, which every buffer has."""
    kinds = dict(pattern.attributes)
    return [(name, kinds[name]) for name in attributes_returned(pattern) if name in kinds]


@lru_cache(maxsize=4096)
def digest_of(statement: str) -> int:
    """The first 8 bytes of the SHA-256 of a statement."""
    return int.from_bytes(sha256(statement.encode()).digest()[:8], "little", signed=True)


class _EventsOfEnds:
    """Finds the events of the matches that end with the same event, each once."""

    def __init__(self, events: int) -> None:
        self._stamps, self._places, self._stamp = np.zeros(events, np.int32), np.empty(events, np.int32), 1

    def find(self, elements: Array, rows: Array) -> tuple[Array, Array, Array]:
        """The number of events of each end, these, and the place of the event of each element.

        Parameters
        ----------
        elements, rows
            The number of each end's elements; int32, the event of each element.
        """
        bounds, counts = np.append(0, np.cumsum(elements)), np.empty(len(elements), np.int64)
        distinct, places = room_for(len(rows), np.int32), room_for(len(rows), np.int32)
        of_slice = self._stamps, self._places, self._stamp
        found = _events_of_ends(len(elements), bounds, rows, *of_slice, counts, distinct, places)
        self._stamp += len(elements)
        return counts, distinct[:found], places


class ListWriter:
    """Writes the buffers of listed matches of one pattern: the first one has its statement, the others the digest."""

    def __init__(self, pattern: Pattern, events: PreparedEvents) -> None:
        self._events, self._attributes = events, attributes_kept(pattern)
        self._statement, self._is_told = statement_of(pattern), False
        self._variables = {operand.variable: place for place, operand in enumerate(pattern.operands)}
        self._of_ends = _EventsOfEnds(len(events))

    def write(self, found: OrderedMatches | OrderedLists) -> Iterator[tuple[Array, Array, pa.Array, pa.Array]]:
        """Write a buffer for all matches that end with the same event.

        Yields
        ------
        seqs, timestamps, counts, buffers
            Of some ends, in the order of the matches: seq and timestamp in microseconds, int64; the number of matches
            as text; and the buffer, which is binary.
        """
        events, last = self._events, found.last_rows()
        numbers = np.array([self._variables[name] for name in found.names], np.int16)
        bounds = np.concatenate(([0], np.flatnonzero(last[1:] != last[:-1]) + 1, [len(found)]))
        for begin, behind in pieces(np.diff(bounds), MATCHES_AT_ONCE):
            part, matches = found.between(int(bounds[begin]), int(bounds[behind])), np.diff(bounds[begin : behind + 1])
            ends = last[bounds[begin:behind]]
            if isinstance(part, OrderedMatches):
                width, elements = len(part.rows), matches * len(part.rows)
                rows, of_matches = room_for(part.rows.size, np.int32), []
                rows.reshape(-1, width)[:] = part.rows.T
                variables = (np.tile(numbers, len(ends)), np.full(len(ends), width))
            else:
                width, (offsets, rows, own) = 0, part.elements()
                lengths = np.diff(offsets)
                elements = np.add.reduceat(lengths, _begins(matches))
                of_matches, variables = [(lengths.astype(np.uint32), matches)], (numbers[own], elements)
            counts, distinct, places = self._of_ends.find(elements, np.ascontiguousarray(rows, np.int32))
            size = 1 if counts.max() <= 1 << 8 else 2 if counts.max() <= 1 << 16 else 4
            parts = [(events.timestamps[distinct], counts), (events.seqs[distinct], counts), *of_matches, variables]
            parts.append((places.astype(f"<u{size}"), elements))
            for name, kind in self._attributes:
                parts += self._values(name, kind, distinct, counts)
            sizes = np.stack([counts, matches, np.full_like(counts, width), np.full_like(counts, size)], axis=1)
            data, offsets = _joined([self._heads(sizes.astype(np.uint32), parts), *parts])
            if offsets[-1] > MOST_BYTES_OF_ARROW:
                raise NoRoom("the matches that end with one event take more than 2 GB: shorten the window")
            buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
            written = pa.Array.from_buffers(pa.binary(), len(ends), buffers)
            yield events.seqs[ends], events.timestamps[ends], pa.array(matches).cast(pa.string()), written

    def _heads(self, sizes: Array, parts: list[_Part]) -> _Part:
        """The head of each buffer, before its parts."""
        heads = np.empty(len(sizes), [("head", f"V{_HEAD.size}"), ("sizes", np.uint32, 4)])
        heads["head"] = np.void(_HEAD.pack(MAGIC, BRIEF, LISTED, digest_of(self._statement) % (1 << 64)))
        heads["sizes"] = sizes
        lengths = np.full(len(sizes), heads.itemsize)
        data = heads.tobytes()
        if not self._is_told:
            statement = self._statement.encode()
            rest = struct.pack("<I", len(statement)) + sizes[0].tobytes() + statement
            size = len(rest) + sum(int(counts[0]) * numbers.itemsize for numbers, counts in parts)
            first = _HEAD.pack(MAGIC, PLAIN, LISTED, size) + rest
            data, lengths[0], self._is_told = first + data[heads.itemsize :], len(first), True
        return np.frombuffer(data, np.uint8), lengths

    def _values(self, name: str, kind: ValueType, rows: Array, counts: Array) -> list[_Part]:
        """The parts that an attribute of events makes."""
        column = self._events.column(name)
        present = np.ones(len(rows), bool) if column.valid is None else column.valid[rows]
        if kind not in (ValueType.STRING, ValueType.FLOAT64_LIST):
            values = column.values[rows]
            return [(present.view(np.uint8), counts), (np.where(present, values, values.dtype.type(0)), counts)]
        texts = self._events.table.column(name).take(pa.array(rows))
        if kind is ValueType.FLOAT64_LIST:
            texts = pa.array([None if own is None else json.dumps(own) for own in texts.to_pylist()], pa.string())
        texts = pc.fill_null(texts.cast(pa.string()), "")
        lengths = pc.binary_length(texts).to_numpy().astype(np.int64)
        letters = np.frombuffer("".join(texts.to_pylist()).encode(), np.uint8)
        of_ends = np.add.reduceat(lengths, _begins(counts))
        return [(present.view(np.uint8), counts), (lengths.astype(np.uint32), counts), (letters, of_ends)]


_Part = tuple[Array, Array]
"""Numbers, those of all buffers one behind another, and how many each of these has."""


def _joined(parts: Sequence[_Part]) -> tuple[Array, Array]:
    """The bytes of buffers, which have these parts one behind another; and where each begins, and the last one ends."""
    sizes = [counts * numbers.itemsize for numbers, counts in parts]
    offsets = np.append(0, np.cumsum(sum(sizes)))
    data, at = room_for(int(offsets[-1]), np.uint8), offsets[:-1]
    for (numbers, _), size in zip(parts, sizes, strict=True):
        numbers = np.ascontiguousarray(numbers)
        _copy_ranges(len(size), _begins(size), at, size, numbers.ctypes.data, data.ctypes.data)
        at = at + size
    return data, offsets


class GraphWriter:
    """Writes the buffers of the matches of one pattern that the paths of graphs are."""

    def __init__(self, pattern: Pattern, events: PreparedEvents) -> None:
        self._events, self._of_ends = events, _EventsOfEnds(len(events))
        self._attributes = [name for name, _ in attributes_kept(pattern)]
        self._statement = _padded(statement_of(pattern).encode())

    def write(self, nodes: int, edges: Array, ends: Array) -> Iterator[tuple[Array, list[str], list[bytes]]]:
        """Write a buffer for each event that ends matches, some at a time: rows, numbers of matches, and buffers.

        Parameters
        ----------
        nodes, edges, ends
            As `GraphBuilder.finished` gives them.
        """
        first_of_end = np.flatnonzero(np.append(True, ends[ROW, 1:] != ends[ROW, :-1])[: ends.shape[1]])
        count, entries = len(first_of_end), np.diff(first_of_end, append=ends.shape[1])
        offsets = np.append(0, np.cumsum(np.append(np.bincount(edges[TARGET], minlength=nodes), entries)))
        sources, variables, rows = (np.append(edges[one], ends[one]) for one in (SOURCE, VARIABLE, ROW))
        variables, rows = variables.astype(np.int16), rows.astype(np.int32)
        stamps, amounts = np.zeros(nodes + count, np.int64), np.empty(nodes + count, np.int64)
        numbers, reached = np.empty(nodes + count, np.int64), np.empty(nodes + count, np.int64)
        edge_counts, node_counts = np.empty(count, np.int64), np.empty(count, np.int64)
        state, most = np.array([0, 1]), EDGES_AT_ONCE
        while (first := int(state[0])) < count:
            taken = np.empty((3, most), np.int64)
            found = _graphs_of_ends(
                *(nodes, count, offsets, sources, stamps, numbers, reached, amounts, state, most),
                *(edge_counts, node_counts, *taken),
            )
            if not found:
                most *= 4
                continue
            edge, from_places, to_places = taken[:, : edge_counts[:found].sum()]
            amount = amounts[nodes + first : nodes + first + found]
            columns = (from_places, to_places, variables[edge], rows[edge])
            yield self._written(*columns, edge_counts[:found], node_counts[:found], amount)

    def _written(
        self,
        sources: Array,
        targets: Array,
        variables: Array,
        rows_of_edges: Array,
        counts: Array,
        nodes: Array,
        amounts: Array,
    ) -> tuple[Array, list[str], list[bytes]]:
        """The buffers of graphs, of edges between places of nodes, so many each."""
        bounds = np.append(0, np.cumsum(counts))
        events, rows, places = self._of_ends.find(counts, rows_of_edges)
        parts = [
            self._heads(rows, events),
            (np.stack([events, counts, nodes], axis=1).astype(np.int32).reshape(-1), np.full(len(counts), 3)),
            (_steps(self._events.timestamps[rows], events), events),
            (_steps(self._events.seqs[rows], events), events),
            (_steps(targets, counts).astype(np.int32), counts),
            ((sources - targets).astype(np.int32), counts),
            (_steps(places, counts), counts),
            (variables, counts),
        ]
        data, offsets = _joined(parts)
        numbers = [
            str(amount) if amount < MOST_COUNTED else decimal_text(_paths(sources[first:stop], targets[first:stop]))
            for amount, first, stop in zip(amounts.tolist(), bounds[:-1], bounds[1:], strict=True)
        ]
        compress = _codec().compress
        buffers = [
            _HEAD.pack(MAGIC, COMPRESSED, GRAPH, stop - first) + compress(data[first:stop], asbytes=True)
            for first, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        ]
        return rows[np.cumsum(events) - 1], numbers, buffers

    def _heads(self, rows: Array, events: Array) -> _Part:
        """The head of each graph, before its parts: lengths, the statement, and the attributes of its events."""
        heads = [struct.pack("<II", len(self._statement), 0) + self._statement] * len(events)
        if self._attributes:
            values = self._events.table.select(self._attributes).take(pa.array(rows)).combine_chunks()
            for place, (first, count) in enumerate(zip(_begins(events).tolist(), events.tolist(), strict=True)):
                own = _padded(_ipc(values.slice(first, count)))
                heads[place] = struct.pack("<II", len(self._statement), len(own)) + self._statement + own
        return np.frombuffer(b"".join(heads), np.uint8), np.array([*map(len, heads)], np.int64)


MOST_COUNTED = 1 << 61
"""Paths that compiled passes count; where there are more, they are counted anew."""


def _paths(sources: Array, targets: Array) -> int:
    """The number of paths from place 0 to the last one, along edges by ascending target."""
    amounts = [1] + [0] * int(targets[-1])
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        amounts[target] += amounts[source]
    return amounts[-1]


def _steps(numbers: Array, counts: Array) -> Array:
    """Numbers of some ranges, each less the one before in its range."""
    steps = np.diff(numbers, prepend=numbers[:1])
    begins = _begins(counts)
    steps[begins] = numbers[begins]
    return steps


@lru_cache(maxsize=1)
def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=1)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 8)


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


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
                "attributes": {
                    name: "timestamp" if name in pattern.times else kind.value for name, kind in pattern.attributes
                },
                **({} if pattern.timezone == "UTC" else {"timezone": pattern.timezone}),
            },
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


_STATEMENT = "the statement in a buffer of matches"


class SchemaForm(TypedDict):
    """The part of a stream's schema that a statement needs."""

    base_type: str | None
    type_attribute: str
    attributes: Mapping[str, str]
    timezone: NotRequired[str]


class StatementForm(TypedDict):
    """The JSON form of what `statement_of` writes."""

    name: str
    text: str
    parameters: Mapping[str, tuple[bool | int | float | str, ...] | bool | int | float | str]
    stream: str
    schema: SchemaForm


@lru_cache(maxsize=256)
def pattern_of(statement: str) -> Pattern:
    """The pattern again.

    Raises
    ------
    InputError
        The statement is none that `statement_of` wrote.
    """
    import warnings

    from cep_pipeline.documents import read_as
    from cep_pipeline.events.schema import StreamSchema
    from cep_pipeline.language.parser import parse_patterns

    told = parse_json(statement, _STATEMENT, "text")
    told = read_as(StatementForm, told, "is damaged", _STATEMENT, "compress the matches again")
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


SOURCE, TARGET, VARIABLE, ROW = range(4)
"""The rows of an array of edges, int64, shape (4, n): the nodes of a run before and after an event, which are `NO_NODE`
before the first event and behind the end of a match; the event's variable, or `IGNORED`; and the event."""


class GraphBuilder:
    """Collects nodes, edges and the ends of matches.

    Attributes
    ----------
    places
        int64: of each variable the number that edges have in its place, and `IGNORED` behind them.
    """

    def __init__(self, places: Array) -> None:
        self.places = places
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._nodes = 0
        self._edges, self._ends = list[Array](), list[Array]()

    def nodes(self, count: int) -> Array:
        """Add `count` nodes behind all others and return their numbers."""
        self._nodes += count
        return np.arange(self._nodes - count, self._nodes)

    def edges(self, source: Array, target: Array, variable: Array, row: Array) -> None:
        """Edges from older nodes to new ones, by ascending target."""
        self._edges.append(np.stack([source, target, self.places[variable], row]))

    def end(self, row: Array, source: Array, variable: int) -> None:
        """Matches that end with an event bound to a variable, from each run."""
        target, place = np.full_like(row, NO_NODE), np.full_like(row, self.places[variable])
        self._ends.append(np.stack([source, target, place, row]))

    def finished(self) -> tuple[int, Array, Array]:
        """The number of nodes, the edges by ascending target, and the ends of matches by ascending row."""
        edges, ends = (
            parts[0] if len(parts) == 1 else np.concatenate([np.empty((4, 0), np.int64), *parts], axis=1)
            for parts in (self._edges, self._ends)
        )
        return self._nodes, edges, ends[:, np.argsort(ends[ROW], kind="stable")]
