"""Buffers: all matches of a pattern that end with one event, self-contained, as bytes.

A buffer begins with the magic `CEPB`, the version and the kind (uint8), two zero bytes, and the length of the rest
before it was compressed with Zstandard (uint64). The rest is, little-endian: the lengths of the two sections that
follow, padded with zeros (uint32); the statement (UTF-8 JSON) and the attributes that RETURN reads (an Arrow IPC
stream, or nothing); and then the events and what matches they make:

    events, edges or elements, nodes or matches       uint32 x 3
    timestamps, seqs                                  int64, of each event in stream order, less those of the one before
    kind 0, the shared versioned buffer (SIGMOD'08 section 5.1): for each edge by ascending target
        targets                                       int32, less that of the edge before
        sources                                       int32, less the edge's target; node 0 has no events, the last node
                                                      is the end
        events                                        int32, less that of the edge before
        variables                                     int16: its place in the pattern, -1 where the event is ignored
    kind 1, matches listed in order
        lengths                                       int64, of each match
        events, variables                             int32, int16, of each element
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.guarded import brief, parse_json
from cep_pipeline.patterns.pattern import Pattern

MAGIC = b"CEPB"
VERSION = 1
GRAPH, LISTED = 0, 1
_HEAD = struct.Struct("<4sBBxxQ")
_SECTIONS = struct.Struct("<II")
_SIZES = struct.Struct("<III")
_ALIGNMENT = 8
MOST_BYTES = 1 << 34
"""A buffer that claims to be longer is damaged."""
MOST_RATIO = 40_000
"""Zstandard makes blocks of 128 KB no smaller than 4 bytes: one that claims more than this is damaged."""


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

    def to_bytes(self) -> bytes:
        """The buffer's bytes."""
        statement = _padded(self.statement.encode())
        others = [name for name in self.events.column_names if name not in ("timestamp", "seq")]
        attributes = _padded(_ipc(self.events.select(others)) if others else b"")
        matches = self.matches
        parts: list[Array]
        if isinstance(matches, Paths):
            sizes = (self.events.num_rows, len(matches.sources), matches.nodes)
            steps = (_differences(matches.targets), matches.sources - matches.targets, _differences(matches.events))
            parts = [*steps, matches.variables]
        else:
            sizes = (self.events.num_rows, len(matches.events), len(matches.offsets) - 1)
            parts = [np.diff(matches.offsets), matches.events, matches.variables]
        kind = GRAPH if isinstance(matches, Paths) else LISTED
        clocks = [_differences(self.events.column(name).to_numpy()) for name in ("timestamp", "seq")]
        arrays = (np.ascontiguousarray(array).tobytes() for array in clocks + parts)
        sections = _SECTIONS.pack(len(statement), len(attributes))
        rest = b"".join((sections, statement, attributes, _SIZES.pack(*sizes), *arrays))
        compressed: bytes = _codec().compress(rest, asbytes=True)
        return _HEAD.pack(MAGIC, VERSION, kind, len(rest)) + compressed

    @classmethod
    def from_bytes(cls, data: bytes) -> MatchesOfEvent:
        """Read a buffer.

        Raises
        ------
        InputError
            The bytes are no buffer, one of a later version, or cut off.
        """
        try:
            magic, version, kind, size = _HEAD.unpack_from(data)
            if magic != MAGIC:
                raise InputError("a value of the column 'buffer' is no buffer of matches: expand what was compressed")
            if version != VERSION or kind not in (GRAPH, LISTED):
                raise InputError(f"a buffer of matches has version {version}; this release reads version {VERSION}")
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
            if len(clocks[1]) != len(np.unique(clocks[1])) or (np.diff(clocks[0]) < 0).any():
                raise ValueError("its events are not in the order of the stream, each once")
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


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def array(self, dtype: Any, count: int) -> Array:
        array = np.frombuffer(self.data, dtype, count, self.at)
        self.at += array.nbytes
        return array


@lru_cache(maxsize=1)
def _codec() -> pa.Codec:
    return pa.Codec("zstd", compression_level=1)


def _differences(numbers: Array) -> Array:
    """Each number less the one before: small numbers, which compress well."""
    return np.diff(numbers, prepend=numbers.dtype.type(0))


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


def statement_of(pattern: Pattern) -> str:
    """The part of a pattern that a buffer keeps: enough to parse it again."""
    from cep_pipeline.language.formatter import format_pattern

    return json.dumps(
        {
            "name": pattern.name,
            "text": format_pattern(pattern),
            "parameters": {name: list(values) for name, values in pattern.parameters},
            "stream": pattern.stream,
            "schema": {
                "base_type": pattern.base_type,
                "type_attribute": pattern.type_attribute,
                "attributes": {name: kind.value for name, kind in pattern.attributes},
            },
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


_STATEMENT = "the statement in a buffer of matches"


@lru_cache(maxsize=1)
def _statement_form() -> Any:
    """The JSON form of what `statement_of` writes."""
    from cep_pipeline.documents import form_of

    value = form_of(bool | int | float | str)
    return form_of(
        {
            "name": str,
            "text": str,
            "parameters": form_of(Mapping[str, tuple[Any, ...]], {}, {Any: value}),
            "stream": str,
            "schema": {
                "base_type": str | None,
                "type_attribute": str,
                "attributes": Mapping[str, str],
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
"""In place of a variable: the run did not bind the event."""
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

    def take(self, places: Array) -> Edges:
        """Some of the edges."""
        return Edges(self.source[places], self.target[places], self.variable[places], self.row[places])


class GraphBuilder:
    """Collects nodes, edges and the ends of matches."""

    def __init__(self) -> None:
        self._nodes = 0
        self._edges: list[tuple[Array, Array, Array, Array]] = []
        self._ends: list[tuple[Array, Array, Array, Array]] = []

    @property
    def size(self) -> int:
        """Number of nodes."""
        return self._nodes

    def mark(self) -> tuple[int, int, int]:
        """The state that `rewind` goes back to."""
        return self._nodes, len(self._edges), len(self._ends)

    def rewind(self, mark: tuple[int, int, int] | None) -> None:
        """Forget what was added since."""
        assert mark is not None
        self._nodes, edges, ends = mark
        del self._edges[edges:], self._ends[ends:]

    def nodes(self, count: int) -> Array:
        """So many new nodes, which come after all others."""
        self._nodes += count
        return np.arange(self._nodes - count, self._nodes)

    def edges(self, source: Array, target: Array, variable: Array, row: Array) -> None:
        """Edges from older nodes to new ones."""
        self._edges.append((source, target, variable, row))

    def end(self, row: Array, source: Array, variable: int, count: Array) -> None:
        """Matches that end with an event bound to a variable: so many from each run."""
        self._ends.append((source, np.full(len(source), variable, np.int64), row, count))

    def finished(self) -> tuple[Edges, Edges, Array]:
        """All edges by ascending target, the ends of matches by ascending event, and how many matches each end has."""
        source, target, variable, row = _edge_columns(self._edges)
        order = np.argsort(target, kind="stable")
        edges = Edges(source, target, variable, row).take(order)
        source, variable, row, count = _edge_columns(self._ends)
        order = np.argsort(row, kind="stable")
        ends = Edges(source, np.full(len(source), NO_NODE, np.int64), variable, row).take(order)
        return edges, ends, count[order]


def _edge_columns(parts: list[tuple[Array, Array, Array, Array]]) -> list[Array]:
    if not parts:
        return [np.empty(0, np.int64)] * 4
    return [np.concatenate(column) for column in zip(*parts, strict=True)]
