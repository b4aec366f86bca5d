"""The order of checked events that are in memory: by time, by file and line, with each key once.

Ingestion does the same on Spark, for days of any size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.events.columns import TIMESTAMP
from cep_pipeline.events.row_checks import FINER, LINE

FILE = "_file"


def in_order(events: pa.Table, columns: list[str]) -> pa.Table:
    """The events sorted by these columns, the first of them the timestamp; nothing to do where they already are."""
    keys = [events.column(TIMESTAMP).cast(pa.int64()).to_numpy()]
    keys += [events.column(column).to_numpy() for column in columns[1:]]
    tied = np.ones(max(events.num_rows - 1, 0), dtype=bool)  # each row with the one behind it, by the columns before
    for key in keys:
        if (tied & (key[1:] < key[:-1])).any():
            return events.take(pa.array(np.lexsort(keys[::-1])))
        tied &= key[1:] == key[:-1]
    return events


def first_of_each_key(events: pa.Table, key: Sequence[str]) -> np.ndarray:
    """Index of the first event, in order of arrival (`_file` and `_line`), with the same key as each event.

    A timestamp is compared to the nanosecond.
    """
    codes = np.zeros(events.num_rows, dtype=np.int64)
    for name in (*key, *([FINER] if TIMESTAMP in key else [])):
        encoded = pc.dictionary_encode(events.column(name).combine_chunks(), null_encoding="encode")
        column = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + column, return_inverse=True)
    arrival = np.lexsort([events.column(LINE).to_numpy(), events.column(FILE).to_numpy()])
    _, first = np.unique(codes[arrival], return_index=True)
    return np.asarray(arrival[first][codes], dtype=np.int64)
