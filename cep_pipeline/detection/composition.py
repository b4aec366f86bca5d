"""Composition: the matches of earlier statements are events of a later one (docs/language.md).

A composing pattern is run like any other, by every mechanism, over a table that has its events in their order:

    events + matches  >  longer stream  >  plain pattern, any mechanism  >  plain matches  >  written matches

- `plain_pattern(pattern)` means the same, but reads the columns of the longer stream. It composes nothing.
- `longer_stream(pattern, events, matches)` is the table: the events of the stream, and behind each of them the composed
  matches whose last event it is. Its column `seq` counts the places, so that all that compares seqs compares places.
- `WrittenMatches(pattern, stream)` turns rows of matches of the plain pattern over the longer stream into rows of the
  composing pattern: with the seqs of events, the column `composed`, and the ids that the composing pattern gives.

`patterns.composing` says which columns the longer stream has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.match_ids import MatchIdentity, ids_array
from cep_pipeline.detection.matches import COMPOSED, type_of
from cep_pipeline.events.columns import ARROW_TYPES, ascend
from cep_pipeline.expressions.columns import Array, one_chunk
from cep_pipeline.patterns.composing import COMPOSED_MATCH, EVENT_TYPE, WRITTEN_SEQ, longer_columns, plain_pattern
from cep_pipeline.patterns.expressions import ValueType
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.storage import id_texts

__all__ = ["WRITTEN_SEQ", "WrittenMatches", "longer_stream", "plain_pattern"]


def longer_stream(pattern: Pattern, events: pa.Table, matches: Mapping[str, pa.Table]) -> pa.Table:
    """The stream of a composing pattern: its events, and behind each of them the matches whose last event it is.

    Parameters
    ----------
    events
        Events sorted by (timestamp, seq), with the columns that the pattern needs. Where their seqs ascend, some may be
        left out, also last ones of the matches.
    matches
        For each statement that the pattern composes, by its name, its kept matches in the order of the page:
        `match_id`, `start_ts`, `end_ts`, `bindings` and the typed RETURN columns. Others may be among them.

    Returns
    -------
    pyarrow.Table
        The columns that `plain_pattern(pattern)` needs, in the order of the longer stream. `seq` is the place, from 0;
        a caller that needs other places may replace the column, as long as it ascends.
    """
    columns = longer_columns(pattern)
    composed = [_Composed.of(matches[one.name], one.match_attributes, events) for one in pattern.composes]
    behind = np.concatenate([one.behind for one in composed])
    order = np.argsort(np.concatenate([one.order for one in composed]), kind="stable")
    rows = pa.array(np.insert(np.arange(len(events)), behind[order], len(events) + order))

    def together(of_events: pa.ChunkedArray, of_composed: Iterable[pa.Array]) -> pa.ChunkedArray:
        kind = of_events.type
        chunks = [*of_events.chunks, *(one.cast(kind) for one in of_composed)]
        return pa.chunked_array(chunks, kind).unify_dictionaries().take(rows)

    types = events.column(pattern.type_attribute).cast(pa.string())  # it may be a dictionary
    named = pc.is_in(types, value_set=pa.array(columns.composed, pa.string()))
    ids = pa.chunked_array([pa.nulls(len(events), pa.binary(16))])
    found = {
        "timestamp": together(events.column("timestamp"), (one.ends for one in composed)),
        "seq": pa.chunked_array([np.arange(len(rows))]),
        WRITTEN_SEQ: together(events.column("seq"), (one.seqs for one in composed)),
        EVENT_TYPE: together(
            pc.if_else(named, pa.scalar(None, pa.string()), types),
            (pa.repeat(one.name, len(own)) for one, own in zip(pattern.composes, composed, strict=True)),
        ),
        COMPOSED_MATCH: together(ids, (one.ids for one in composed)),
    }
    for (attribute, kind), name in columns.names.items():
        if columns.stream.get(attribute) in _READ_AS[kind]:
            own = events.column(attribute)
        else:
            own = pa.chunked_array([pa.nulls(len(events), ARROW_TYPES[kind or ValueType.STRING])])
        if kind is None:
            own = pa.chunked_array([_number_texts(own)])
        elif not pa.types.is_dictionary(own.type):
            own = own.cast(ARROW_TYPES[kind], safe=False)  # an int64 as float64 is the nearest one
        found[name] = together(own, (one.values(attribute, kind) for one in composed))
    return pa.table(found)


def events_read(pattern: Pattern, events: pa.Table) -> pa.Table:
    """The events that a composing pattern reads: those of its types, if the others mean nothing to it, else all.

    All events are read where a window counts them or contiguity asks for neighbours, where a variable has the type of
    every event, and where seqs do not ascend, by which the events of composed matches are found.

    Parameters
    ----------
    events
        Events of the stream, sorted by (timestamp, seq), which the composed patterns have been detected in.
    """
    names = {name for operand in pattern.operands for name in operand.types} - {one.name for one in pattern.composes}
    skips = pattern.strategy.skips
    if not skips or pattern.window.events is not None or pattern.base_type in names:
        return events
    if not ascend(events.column("seq").to_numpy(), strictly=True):
        return events
    types = events.column(pattern.type_attribute)
    encoded = types if pa.types.is_dictionary(types.type) else types.dictionary_encode()
    found = []
    for chunk in encoded.chunks:
        wanted = [entry is not None and str(entry) in names for entry in chunk.dictionary.to_pylist()]
        codes = (chunk.indices.fill_null(-1) if chunk.null_count else chunk.indices).to_numpy()
        found.append(np.array([*wanted, False])[codes])  # a null is the last one
    rows = np.flatnonzero(np.concatenate(found)) if found else np.zeros(0, np.int64)
    return events.select(columns_needed([pattern])).take(pa.array(rows))


def with_typed_returns(pattern: Pattern, matches: pa.Table) -> pa.Table:
    """Matches with the RETURN columns of their pattern, which a table of many patterns has as JSON text."""
    documents = [json.loads(text) for text in matches["returns"].to_pylist()] if pattern.returns else []
    found = matches.drop_columns("returns")
    for item in pattern.returns:
        values: list[Any] = [document[item.name] for document in documents]
        if item.expression.type is ValueType.FLOAT64:  # NaN and the infinities are text in JSON
            values = [value if value is None else float(value) for value in values]
        if item.expression.type is ValueType.FLOAT64_LIST:
            values = [row if row is None else [one if one is None else float(one) for one in row] for row in values]
        texts = pa.array(values, pa.string() if item.is_time else type_of(item))
        found = found.append_column(item.name, texts.cast(type_of(item)))
    return found


class WrittenMatches:
    """Rows of a composing pattern's matches, made of those of its plain pattern.

    Parameters
    ----------
    pattern
        The composing pattern.
    stream
        The longer stream in which the plain matches were found, or the part of it that holds their events.
    """

    def __init__(self, pattern: Pattern, stream: pa.Table) -> None:
        self._identity = MatchIdentity.of(pattern)
        self._places = stream.column("seq").to_numpy()
        # Ascending places without gaps are rows.
        self._dense = len(self._places) > 0 and self._places[-1] - self._places[0] == len(self._places) - 1
        self._seqs = stream.column(WRITTEN_SEQ).to_numpy()
        self._composed = one_chunk(stream.column(COMPOSED_MATCH))

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that has `match_id` and `bindings` with places; its other columns stay as they are."""
        bindings = batch.column("bindings")
        offsets = bindings.offsets.to_numpy().astype(np.int64)
        bound = bindings.values.slice(offsets[0], offsets[-1] - offsets[0])
        offsets -= offsets[0]
        variables = bound.field("variable")
        places = bound.field("seq").to_numpy()
        rows = places - self._places[0] if self._dense else np.searchsorted(self._places, places)
        seqs = self._seqs[rows]
        composed = self._composed.take(pa.array(rows))
        is_composed = composed.is_valid().to_numpy(zero_copy_only=False)
        before = np.concatenate((np.zeros(1, np.int64), np.cumsum(is_composed)))[offsets]
        ids = self._identity.ids_of(offsets, variables, seqs, composed)
        fields = list(bindings.type.value_type)
        written = pa.StructArray.from_arrays([variables, pa.array(seqs)], fields=fields)
        inside = pa.StructArray.from_arrays(
            [
                variables.filter(pa.array(is_composed)),
                pa.ExtensionArray.from_storage(pa.uuid(), composed.drop_null()),
            ],
            fields=list(COMPOSED.value_type),
        )
        columns: dict[str, pa.Array] = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            columns[name] = column
            if name == "match_id":
                columns[name] = ids_array(ids)
            if name == "bindings":
                columns[name] = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), written)
                columns["composed"] = pa.ListArray.from_arrays(pa.array(before.astype(np.int32)), inside)
        return pa.RecordBatch.from_pydict(columns)


_READ_AS: Mapping[ValueType | None, tuple[ValueType, ...]] = {
    **{kind: (kind,) for kind in ValueType},
    ValueType.FLOAT64: (ValueType.INT64, ValueType.FLOAT64),
    None: (ValueType.INT64, ValueType.FLOAT64),
}
"""The types of attributes whose values a column of each type has; None is the exact text of numbers."""


@dataclass(frozen=True, eq=False)
class _Composed:
    """The matches of one statement as events.

    Attributes
    ----------
    table, attributes
        The matches, and the types of their attributes.
    behind, order
        int64, shape (n,): the number of events of the stream that come before each of them, and a number that grows
        with its last event.
    seqs, ends
        int64 arrays: the seq of the last event of each match, and its time.
    ids
        The bytes of `match_id`.
    """

    table: pa.Table
    attributes: Mapping[str, ValueType]
    behind: Array
    order: Array
    seqs: pa.Array
    ends: pa.Array
    ids: pa.Array

    @classmethod
    def of(cls, table: pa.Table, attributes: Mapping[str, ValueType], events: pa.Table) -> _Composed:
        """The matches over these events, of which those that they bind need not all be there."""
        bindings = one_chunk(table.column("bindings"))
        ends = one_chunk(table.column("end_ts")).cast(pa.int64())
        offsets = bindings.offsets.to_numpy()
        bound = bindings.values.field("seq").to_numpy()
        seqs = events.column("seq").to_numpy()
        ids = one_chunk(table.column("match_id")).storage
        if not len(table):
            none = np.zeros(0, np.int64)
            return cls(table, attributes, none, none, pa.array(none), ends, ids)
        if (np.diff(seqs) > 0).all():
            last = np.maximum.reduceat(bound, offsets[:-1])
            behind, order = np.searchsorted(seqs, last, "right"), last
        else:  # seqs that do not grow with the stream: the last event is that of the last row
            by_seq = np.argsort(seqs)
            rows = np.maximum.reduceat(by_seq[np.searchsorted(seqs[by_seq], bound)], offsets[:-1])
            last, behind, order = seqs[rows], rows + 1, rows
        return cls(table, attributes, behind, order, pa.array(last), ends, ids)

    def __len__(self) -> int:
        return len(self.table)

    def values(self, attribute: str, kind: ValueType | None) -> pa.Array:
        """The values of an attribute for a column of a type; null where the attribute is of none that it has."""
        if self.attributes.get(attribute) not in _READ_AS[kind]:
            return pa.nulls(len(self), ARROW_TYPES[kind or ValueType.STRING])
        if attribute == "match_id":
            return id_texts(pa.ExtensionArray.from_storage(pa.uuid(), self.ids))
        values = one_chunk(self.table.column(attribute))
        if attribute in ("start_ts", "end_ts"):
            values = values.cast(pa.int64())
        return _number_texts(values) if kind is None else values.cast(ARROW_TYPES[kind], safe=False)


def _number_texts(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Numbers as text, equal ones of both types as equal text; null for NaN."""
    texts = [
        None if value is None or value != value else str(int(value)) if value == value // 1 else repr(value)
        for value in column.to_pylist()
    ]
    return pa.array(texts, pa.string())
