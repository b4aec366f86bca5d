"""Events as plain Python values, in stream order (docs/language.md, section 1), and matches that are events."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from cep_pipeline.patterns.pattern import Pattern


@dataclass(frozen=True, eq=False)
class Event:
    """One event; two events are the same only if they are the same object.

    Attributes
    ----------
    place
        Its position in the stream of the statement, from 0.
    attributes
        The values by name, `timestamp` and `seq` too.
    underlying
        The place of the event in the table; for a match that is an event, that of the last event that it is made of.
    match
        The statement and the number of the match that the event is, if it is one.
    """

    place: int
    timestamp: int
    seq: int
    types: frozenset[str]
    attributes: dict[str, Any]
    underlying: int
    match: tuple[str, int] | None = None


def read_events(table: pa.Table, pattern: Pattern) -> list[Event]:
    """The events of a table in the order of the stream, `(timestamp, seq)`.

    A type that is the name of a statement which the pattern composes means the matches of that statement alone.
    """
    columns = {name: table.column(name).to_pylist() for name in table.column_names if name != "timestamp"}
    columns["timestamp"] = table.column("timestamp").cast(pa.int64()).to_pylist()
    rows = [{name: values[row] for name, values in columns.items()} for row in range(table.num_rows)]
    rows.sort(key=lambda row: (row["timestamp"], row["seq"]))
    composed = {statement.name for statement in pattern.composes}
    events = []
    for place, row in enumerate(rows):
        types = {type_text(row[pattern.type_attribute]), pattern.base_type} - {None} - composed
        events.append(Event(place, row["timestamp"], row["seq"], frozenset(types), row, underlying=place))
    return events


def with_matches(events: Sequence[Event], matches: Sequence[Event]) -> list[Event]:
    """The stream in which each match stands behind the last event that it is made of.

    `matches` come by statement in the order of the file, then in the order of their statement.
    """
    in_order = sorted([*events, *matches], key=lambda event: event.underlying)
    return [replace(event, place=place) for place, event in enumerate(in_order)]


def type_text(value: str | int | None) -> str | None:
    """The event type that a value of the type attribute names."""
    return None if value is None else str(value)


def is_absent(value: Any) -> bool:
    """Whether a value is null or NaN, which agrees and compares with nothing."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def partition_key(event: Event, attributes: Sequence[str]) -> tuple[Any, ...] | None:
    """What tells the partition of an event; None where it is alone in its partition."""
    key = tuple(event.attributes[attribute] for attribute in attributes)
    return None if any(is_absent(value) for value in key) else key


def agree(one: Event, other: Event, attributes: Sequence[str]) -> bool:
    """Whether two events agree on every attribute of equivalence tests."""
    key = partition_key(one, attributes)
    return key is not None and key == partition_key(other, attributes)


def positions(events: Sequence[Event], partition_by: Sequence[str]) -> dict[Event, int]:
    """The position of every event in the stream, or in its partition.

    A match is not counted: its position is that of the last event that is counted before it.
    """
    counted: dict[tuple[Any, ...], int] = {}
    result = {}
    for event in events:
        key = partition_key(event, partition_by)
        if key is None:  # alone in its partition
            result[event] = 0
            continue
        if event.match is None:
            counted[key] = counted.get(key, 0) + 1
        result[event] = counted.get(key, 0) - 1
    return result
