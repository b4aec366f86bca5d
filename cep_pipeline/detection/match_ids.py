"""`match_id`: a 128-bit hash of what a match is, the same on every plan, mechanism, slicing and rerun.

An id is a UUID (RFC 9562, version 8). Its key is the SHA-256 of the statement: the UTF-8 text of a JSON array without
spaces,

    [version of ids, stream, pattern name, match text, {parameter: [values]}]

The match text is the formatted statement without its OUTPUT, CONSUME and RETURN clauses. Parameters are the sets that
the statement uses: names and values in ascending order, so that the order in which a caller lists them is no matter.

The message is the bindings of the match: for each event the position of its variable in the pattern, and its seq; and
where matches of other statements are among them, the ids of these. They
enter a state of two 64-bit words, and after each event the words are mixed with each other. That is a Feistel network:
different states stay different, so that two matches get the same id as rarely as two random numbers are the same.
`MatchIdentity.id_of` is the definition. Ids of many matches are made by a kernel, in one pass with the rest of their
rows.

Until November 2026 an id was the first half of a SHA-256, which took most of the time of detection. Such ids are of
version 1, and stand in tables that were published then.
"""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.ordering import OrderedLists, OrderedMatches
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.conditions import Value
from cep_pipeline.patterns.pattern import Pattern, once_a_pattern
from cep_pipeline.slices.routines import room_for
from cep_pipeline.storage import IDS_VERSION

_FACTORS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
"""Odd numbers without a pattern: the fractions of the golden ratio and of the root of 3."""
_WORD = 2**64 - 1
_CONSTANTS = (*_FACTORS, _WORD ^ 0xF << 52, 8 << 52, _WORD ^ 0xC0, 0x80)
"""The factors; then for each word of an id, in little-endian order, the bits that are kept and those that are set: the
version of a UUID is the high half of its byte 6, the variant the highest bits of its byte 8."""
_describe_matches = NativeKernel(
    "cep_pipeline.detection.match_kernels",
    "describe_matches",
    (*("int64",) * 3, "int64*", "int32*", "int32*", *("int64*",) * 3, *("uint64*",) * 3, *("int64*",) * 3),
)


@dataclass(frozen=True, eq=False)
class MatchRows:
    """The fixed columns of the rows of n matches, as arrays.

    Attributes
    ----------
    ids
        uint64, shape (n, 2): the bytes of the ids.
    starts, ends
        int64, shape (n,): the times of the first and of the last event in microseconds.
    seqs
        int64, shape (elements,): each element's seq.
    offsets
        int64, shape (n + 1,): match m binds the elements from `offsets[m]` to `offsets[m + 1]`.
    variables
        int32, shape (elements,): each element's variable as an index into the names; None where each match binds all
        of them, in their order.
    """

    ids: Array
    starts: Array
    ends: Array
    seqs: Array
    offsets: Array
    variables: Array | None = None


@dataclass(frozen=True)
class MatchIdentity:
    """The part that the ids of a pattern's matches have in common.

    Attributes
    ----------
    digest
        The key: 32 bytes.
    variables
        The variables of the pattern, in its order.
    """

    digest: bytes
    variables: tuple[str, ...]

    @staticmethod
    def of(pattern: Pattern) -> MatchIdentity:
        """The identity of a parsed pattern."""
        return _identity_of(pattern)

    def id_of(self, bindings: Iterable[tuple[str, int]], composed: Iterable[tuple[str, uuid.UUID]] = ()) -> uuid.UUID:
        """The id of one match, from its bindings in pattern order (the definition, used by tests and for one row).

        Behind the bindings come the composed events among them: each with the two words of its match's id, and with
        the position of its variable counted on behind the last one, so that none of them looks like a binding.

        Examples
        --------
        >>> MatchIdentity(bytes(range(32)), ("a", "b")).id_of([("a", 7), ("b", 9)])
        UUID('da91ae6e-fc40-8ed3-8a86-6bf037d3d1fd')
        """
        a, b, last_a, last_b = struct.unpack("<4Q", self.digest)
        words = [(int(seq) & _WORD, self.variables.index(variable)) for variable, seq in bindings]
        for variable, match_id in composed:
            position = len(self.variables) + self.variables.index(variable)
            words += [(word, position) for word in struct.unpack("<2Q", match_id.bytes)]
        count = len(words)
        for word, position in words:
            a, b = _stirred(a ^ word, b ^ position)
        a, b = _stirred(*_stirred(a ^ last_a, b ^ last_b ^ count))
        _, _, *bits = _CONSTANTS
        return uuid.UUID(bytes=struct.pack("<2Q", a & bits[0] | bits[1], b & bits[2] | bits[3]))

    def rows_of(self, matches: OrderedMatches | OrderedLists, timestamps: Array, seqs: Array) -> MatchRows:
        """The fixed columns of matches.

        Parameters
        ----------
        timestamps, seqs
            int64: those of the events that the matches' rows are of.
        """
        count = len(matches)
        ids, starts, ends = room_for(2 * count, np.uint64), room_for(count, np.int64), room_for(count, np.int64)
        ids = ids.reshape(count, 2)
        positions = np.array([self.variables.index(name) for name in matches.names], np.int64)
        timestamps, seqs = np.ascontiguousarray(timestamps), np.ascontiguousarray(seqs)
        given = seqs, timestamps, positions, self._key, _CONSTANT_WORDS, ids
        if isinstance(matches, OrderedMatches) and matches.rows.strides[1] == 4:
            width, stride = len(matches.rows), matches.rows.strides[0] // 4
            bound, none = room_for(width * count, np.int64), np.zeros(1, np.int64)
            # A part of the matches is a slice of the rows of all, which is not contiguous.
            arrays = none, matches.rows, none, *given, bound, starts, ends
            _describe_matches.function(count, width, stride, *(one.ctypes.data for one in arrays))
            return MatchRows(ids, starts, ends, bound, np.arange(count + 1) * width)
        offsets, rows, variables = matches.elements()
        bound = room_for(len(rows), np.int64)
        elements = (np.ascontiguousarray(offsets), np.ascontiguousarray(rows), np.ascontiguousarray(variables))
        _describe_matches(count, 0, 1, *elements, *given, bound, starts, ends)
        return MatchRows(ids, starts, ends, bound, offsets, variables)

    def ids_of(self, offsets: Array, variables: pa.Array, seqs: Array, composed: pa.Array) -> Array:
        """The ids of matches of which some bind composed events, as `id_of` defines them.

        Parameters
        ----------
        offsets
            int64, shape (n + 1,): match m binds the elements from `offsets[m]` to `offsets[m + 1]`.
        variables, seqs, composed
            Of each element: the name of its variable, its seq, and the 16 bytes of the id of its match, or null where
            it is an event of the stream.

        Returns
        -------
        Array
            uint64, shape (n, 2).
        """
        width = len(self.variables)
        position = pc.index_in(variables, value_set=pa.array(self.variables)).to_numpy().astype(np.int32)
        inside = np.flatnonzero(composed.is_valid().to_numpy(zero_copy_only=False))
        match_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        before = np.searchsorted(inside, offsets)  # composed events of the matches before each
        starts = offsets + 2 * before
        words = np.empty(int(starts[-1]), np.int64)
        slots = np.empty(len(words), np.int32)
        own = np.arange(len(seqs)) + 2 * before[match_of]
        words[own], slots[own] = seqs, position
        known = composed.drop_null()
        pairs = np.frombuffer(known.buffers()[1] or b"", "<i8").reshape(-1, 2)[known.offset :]
        of_match = match_of[inside]
        first = starts[of_match] + np.diff(offsets)[of_match] + 2 * (np.arange(len(inside)) - before[of_match])
        for place in (0, 1):
            words[first + place], slots[first + place] = pairs[:, place], width + position[inside]
        count = len(offsets) - 1
        ids, instants = np.empty((count, 2), np.uint64), np.empty((2, count), np.int64)
        elements = starts, np.arange(len(words), dtype=np.int32), slots
        of_words = words, np.zeros(len(words), np.int64), np.arange(2 * width)
        bound = np.empty(len(words), np.int64)
        _describe_matches(count, 0, 1, *elements, *of_words, self._key, _CONSTANT_WORDS, ids, bound, *instants)
        return ids

    @cached_property
    def _key(self) -> Array:
        return np.frombuffer(self.digest, "<u8").astype(np.uint64)


@once_a_pattern
def _identity_of(pattern: Pattern) -> MatchIdentity:
    text = statement_text(pattern)
    return MatchIdentity(hashlib.sha256(text.encode()).digest(), tuple(one.variable for one in pattern.operands))


_CONSTANT_WORDS = np.array(_CONSTANTS, np.uint64)


def _stirred(a: int, b: int) -> tuple[int, int]:
    """Mix the two words of a state with each other."""
    b ^= _mixed(a, _FACTORS[0])
    return a ^ _mixed(b, _FACTORS[1]), b


def _mixed(value: int, factor: int) -> int:
    value = (value ^ value >> 32) * factor & _WORD
    return value ^ value >> 29


def ids_array(words: Array) -> pa.Array:
    """Ids, uint64 of shape (n, 2), as an Arrow array of UUIDs without copying."""
    storage = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(words), [None, pa.py_buffer(words)])
    return pa.ExtensionArray.from_storage(pa.uuid(), storage)


def ids_from_text(texts: Iterable[str]) -> pa.Array:
    """Ids that are written as text, as an Arrow array of UUIDs."""
    written = [bytes.fromhex(text.replace("-", "")) for text in texts]
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(written, pa.binary(16)))


def statement_text(pattern: Pattern) -> str:
    """The JSON text that the ids of a pattern's matches have in common."""
    from cep_pipeline.language.formatter import match_text

    bound = sorted(pattern.parameters, key=lambda one: one[0])
    listed = ",".join(f"{_canonical(name)}:{_bound_text(values)}" for name, values in bound)
    head = [IDS_VERSION, pattern.stream, pattern.name, match_text(pattern)]
    return f"{_canonical(head)[:-1]},{{{listed}}}]"


def _bound_text(bound: tuple[Value, ...] | Value) -> str:
    """A parameter as JSON: a set as a list without an order, or one value."""
    return f"[{','.join(sorted(set(map(_canonical, bound))))}]" if isinstance(bound, tuple) else _canonical(bound)


def _canonical(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
