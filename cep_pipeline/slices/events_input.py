"""Events as they are handed in, checked against what the patterns need: columns, their types, and the order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import ARROW_TYPES, in_step
from cep_pipeline.expressions.columns import CLOCK_COLUMNS, TableColumns
from cep_pipeline.foreign_text import listed
from cep_pipeline.patterns.composing import COMPOSED_MATCH, EVENT_TYPE
from cep_pipeline.patterns.conditions import Equivalence, expressions_of, parts_of
from cep_pipeline.patterns.expressions import Aggregate, Expression, Reference, ValueType, walk
from cep_pipeline.patterns.pattern import Pattern, once_a_pattern, once_a_set


def as_table(events: Any) -> pa.Table:
    """Events as an Arrow table: as they are, or of whatever has the Arrow C stream interface.

    Raises
    ------
    InputError
        They are neither; or a data frame whose times have no time zone, which could be those of any place.
    """
    if isinstance(events, pa.Table):
        return events
    if not hasattr(events, "__arrow_c_stream__"):
        raise InputError(f"events are an Arrow table or a data frame, not {type(events).__name__}")
    table = pa.table(events)
    if "timestamp" in table.column_names:
        kind = table.schema.field("timestamp").type
        if pa.types.is_timestamp(kind) and kind.tz is None:
            raise InputError(
                "the timestamps have no time zone: make the events by read(schema, …), which takes them as local times "
                "of the stream"
            )
    return table


def events_for(patterns: Iterable[Pattern], events: pa.Table, source: str = "events") -> pa.Table:
    """The columns that the patterns need, checked.

    Parameters
    ----------
    patterns
        Patterns of one stream.
    events
        An events table; `timestamp` may be int64 microseconds, strings may be dictionaries, and numbers narrower than
        int64 and float64.
    source
        What to call the events in messages.

    Raises
    ------
    InputError
        A column is missing or has another type than the patterns were checked with, `timestamp` or `seq` has nulls,
        a seq occurs twice, or the events are not sorted by (timestamp, seq).
    """
    declared = declared_columns(list(patterns))
    missing = [name for name in declared if name not in events.column_names]
    if missing:
        raise InputError(
            f"the {source} have no column {listed([*map(repr, missing)])}; they have "
            f"{listed(events.column_names) or 'none'}; detect over events of the "
            "patterns' stream, as cep.read makes them"
        )
    columns = {name: _checked_column(events, name, kind, source) for name, kind in declared.items()}
    checked = pa.table(columns)
    _check_order(checked, source)
    return checked


@once_a_set
def declared_columns(patterns: Sequence[Pattern]) -> dict[str, ValueType | None]:
    """The columns that detection reads, with the type that the patterns were checked with; None: there is none."""
    declared = {name: kind for pattern in patterns for name, kind in pattern.attributes}
    return {name: declared.get(name) for name in columns_needed(patterns)}


def _checked_column(events: pa.Table, name: str, declared: ValueType | None, source: str) -> pa.ChunkedArray:
    column = events.column(name)
    kind = column.type
    if name in CLOCK_COLUMNS:
        if not (pa.types.is_int64(kind) or (name == "timestamp" and pa.types.is_timestamp(kind))):
            wanted = "int64 microseconds or timestamp[us]" if name == "timestamp" else "int64"
            raise InputError(f"column {name!r} of the {source} has the type {kind}; it must be {wanted}")
        if column.null_count:
            raise InputError(f"column {name!r} of the {source} has {column.null_count} nulls; every event has a {name}")
        column = column if pa.types.is_int64(kind) else _cast(column, pa.timestamp("us", kind.tz), name, source)
        # In one piece, since all that follows reads it as an array; to combine one piece would copy it.
        return column if column.num_chunks == 1 else pa.chunked_array([column.combine_chunks()])
    if declared is ValueType.INT64 and pa.types.is_timestamp(kind):  # an attribute that is a time
        if kind.tz is None:
            raise InputError(
                f"the times in column {name!r} of the {source} have no time zone: make the events by read(schema, …), "
                "which takes them as local times of the stream; in Spark, cast them to timestamps of the session's zone"
            )
        return _cast(column, pa.timestamp("us", kind.tz), name, source).cast(pa.int64())
    if declared is None or _value_type(kind) is declared:
        return column.cast(pa.string()) if pa.types.is_string_view(kind) else column
    if pa.types.is_null(kind) or (declared is ValueType.FLOAT64 and pa.types.is_integer(kind)):
        return _cast(column, ARROW_TYPES[declared], name, source)
    raise InputError(
        f"column {name!r} of the {source} has the type {kind}; the patterns were parsed with {declared.value}: use the "
        "schema of these events"
    )


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str, source: str) -> pa.ChunkedArray:
    """Cast a column to another type. A value that does not fit the type is an InputError."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise InputError(f"column {name!r} of the {source} does not fit {kind}: {error}") from error


def _value_type(kind: pa.DataType) -> ValueType | None:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return ValueType.INT64
    if pa.types.is_floating(kind):
        return ValueType.FLOAT64
    if pa.types.is_boolean(kind):
        return ValueType.BOOL
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return ValueType.STRING
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _value_type(kind.value_type) is ValueType.FLOAT64:
        return ValueType.FLOAT64_LIST
    return None


def _check_order(events: pa.Table, source: str) -> None:
    clock = TableColumns(events)
    timestamps, seqs = clock.column("timestamp").values, clock.column("seq").values
    if in_step(timestamps, seqs):
        return
    steps, growth = np.diff(timestamps), np.diff(seqs)
    unordered = (steps < 0) | ((steps == 0) & (growth <= 0))
    if unordered.any():
        row = int(unordered.argmax()) + 1
        raise InputError(
            f"the {source} are not sorted by (timestamp, seq): row {row} has ({timestamps[row]}, {seqs[row]}) after "
            f"({timestamps[row - 1]}, {seqs[row - 1]}); sort them, and give each event its own seq"
        )
    if (growth <= 0).any():
        ordered = np.sort(seqs)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(twice):
            raise InputError(f"the {source} have the seq {twice[0]} twice; a seq identifies one event")


def columns_needed(patterns: Iterable[Pattern]) -> tuple[str, ...]:
    """The columns that detection reads: timestamp, seq, the type attribute and every attribute that is mentioned."""
    names: dict[str, None] = dict.fromkeys(("timestamp", "seq"))
    for pattern in patterns:
        names.update(columns_of(pattern))
    return tuple(names)


@once_a_pattern
def columns_of(pattern: Pattern) -> dict[str, None]:
    """Return the columns that a pattern mentions."""
    names: dict[str, None] = {pattern.type_attribute: None}
    names.update(dict.fromkeys(pattern.partition_by))
    for part in parts_of(pattern.condition):
        read = part.attributes if isinstance(part, Equivalence) else _attributes(expressions_of(part))
        names.update(dict.fromkeys(read))
    names.update(dict.fromkeys(_attributes(item.expression for item in pattern.items)))
    if pattern.composes:  # of matches that are events, RETURN columns are no columns of the stream
        own = {*dict(pattern.attributes), pattern.type_attribute}
        names = {name: None for name in names if name in own}
    if pattern.type_attribute == EVENT_TYPE:
        names[COMPOSED_MATCH] = None
    return names


def attributes_returned(pattern: Pattern) -> tuple[str, ...]:
    """The attributes that RETURN reads, each once."""
    return tuple(dict.fromkeys(_attributes(item.expression for item in pattern.items)))


def _attributes(expressions: Iterable[Expression]) -> Iterator[str]:
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Reference | Aggregate):
                yield node.attribute
