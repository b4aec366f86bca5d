"""The columns of a stream's events and of its rejected rows: names, types, and the schemas that are published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from cep_pipeline.patterns.expressions import ValueType

Array = np.ndarray[Any, Any]

TIMESTAMP, SEQ = "timestamp", "seq"
EVENT_TYPE = "event_type"
"""The attribute with the type of events whose files have no column of it."""
DAY = "day"
"""Column of the stored date in `events`, `quarantine` and `statistics`."""
ORDER_COLUMNS: Mapping[str, ValueType] = {TIMESTAMP: ValueType.INT64, SEQ: ValueType.INT64}
"""The columns that order a stream; patterns reference them like attributes, as int64."""
SEQ_PER_DAY = 1 << 40
"""The seq of a published event is its day's ordinal times this, plus its position in the day."""
ARROW_TYPES: Mapping[ValueType, pa.DataType] = {
    ValueType.INT64: pa.int64(),
    ValueType.FLOAT64: pa.float64(),
    ValueType.BOOL: pa.bool_(),
    ValueType.STRING: pa.string(),
    ValueType.FLOAT64_LIST: pa.list_(pa.float64()),
}
"""The Arrow type in which an attribute of each type is stored."""
QUARANTINE_SCHEMA = pa.schema(
    [(DAY, pa.date32()), ("file", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("raw", pa.string())]
)
"""Rejected rows: the name of the raw file, the line in it (from 1; the row number in Parquet), why, and its text."""


def in_step(timestamps: Array, seqs: Array) -> bool:
    """True if timestamps ascend and each seq is above the one before it; events may be in order without that."""
    return ascend(seqs, strictly=True) and ascend(timestamps)


def ascend(values: Array, *, strictly: bool = False) -> bool:
    """True if each value is not below the one before it, or above it."""
    later, before = values[1:], values[:-1]
    return bool((later > before if strictly else later >= before).all())


def events_columns(in_memory: pa.Schema) -> pa.Schema:
    """Return the columns of the `events` table: those of the events in memory, then `day`."""
    return pa.schema([*in_memory, pa.field(DAY, pa.date32())])
