"""Events as plain Python values, in stream order (docs/language.md, section 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cep_pipeline.patterns.pattern import Pattern


@dataclass(frozen=True, eq=False)
class Event:
    """One event; two events are the same only if they are the same object.

    `place` is its position in the stream from 0; `attributes` holds `timestamp` and `seq` too.
    """

    place: int
    timestamp: int
    seq: int
    types: frozenset[str]
    attributes: dict[str, Any]


def read_events(table: pa.Table, pattern: Pattern) -> list[Event]:
    """The events of a table in the order of the stream, `(timestamp, seq)`."""
    columns = {name: table.column(name).to_pylist() for name in table.column_names if name != "timestamp"}
    columns["timestamp"] = table.column("timestamp").cast(pa.int64()).to_pylist()
    rows = [{name: values[row] for name, values in columns.items()} for row in range(table.num_rows)]
    rows.sort(key=lambda row: (row["timestamp"], row["seq"]))
    events = []
    for place, row in enumerate(rows):
        types = {type_text(row[pattern.type_attribute]), pattern.base_type} - {None}
        events.append(Event(place, row["timestamp"], row["seq"], frozenset(types), row))
    return events


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
    """The position of every event in the stream, or in its partition."""
    if not partition_by:
        return {event: event.place for event in events}
    seen: dict[tuple[Any, ...], int] = {}
    result = {}
    for event in events:
        key = partition_key(event, partition_by)
        if key is None:
            result[event] = 0
        else:
            result[event] = seen.get(key, 0)
            seen[key] = result[event] + 1
    return result
