"""Events of files as they are read, for who looks at them once and does not want to hold all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import SEQ, TIMESTAMP
from cep_pipeline.events.loading import are_ready, check_columns, load_events
from cep_pipeline.events.schema import StreamSchema

READ_AT_ONCE = 1 << 16
"""Events of a batch, at most."""


@dataclass(frozen=True)
class EventBatches:
    """Events in stream order with the columns of a schema, and what was left out of them.

    Attributes
    ----------
    events
        Their number.
    batches
        Reads them, from the first one on each time.
    rejected, notes
        As in `LoadedEvents`.
    held
        Whether all of them are in memory: raw files, and Parquet files that are not in stream order, have to be sorted.
    """

    events: int
    batches: Callable[[], Iterator[pa.Table]]
    rejected: int = 0
    notes: tuple[str, ...] = ()
    held: bool = False


def stream_events(schema: StreamSchema, paths: Sequence[Path]) -> EventBatches:
    """The events of `load_events`, read as they are asked for where the files hold them in the order of the stream.

    Raises
    ------
    InputError
        As `load_events`; what does not fit the schema, when it is read.

    Notes
    -----
    That Parquet files of events are in order is seen in a pass over their columns `timestamp` and `seq`; so they may
    be given in any order.
    """
    if are_ready(paths):
        check_columns(schema, paths)
        ordered = _in_stream_order(paths)
        if ordered is not None:
            total = sum(pq.read_metadata(path).num_rows for path in paths)
            return EventBatches(total, lambda: _read(schema, ordered))
    loaded = load_events(schema, paths)
    events = loaded.events

    def parts() -> Iterator[pa.Table]:
        for first in range(0, events.num_rows, READ_AT_ONCE):
            yield events.slice(first, READ_AT_ONCE)

    return EventBatches(events.num_rows, parts, loaded.rejected, loaded.notes, held=True)


def _read(schema: StreamSchema, paths: Sequence[Path]) -> Iterator[pa.Table]:
    wanted = schema.arrow_schema
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(READ_AT_ONCE, columns=wanted.names):
                    yield pa.Table.from_batches([batch]).select(wanted.names).cast(wanted)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path}: the file does not fit the stream schema: {error}") from error


def _in_stream_order(paths: Sequence[Path]) -> list[Path] | None:
    """The files one after the other; None where their events are not in order, within a file or among files."""
    extents = []
    for path in paths:
        extent = _extent(path)
        if extent is None:
            return None
        extents += [(*extent, path)] if extent else []
    extents.sort(key=lambda one: one[0])
    if any(later[0] <= earlier[1] for earlier, later in pairwise(extents)):
        return None
    return [path for _, _, path in extents]


def _extent(path: Path) -> tuple[tuple[int, int], tuple[int, int]] | tuple[()] | None:
    """The points of a file's first and last event; () of no event, None where they are not in order."""
    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(READ_AT_ONCE, columns=[TIMESTAMP, SEQ]):
                stamps, seqs = (batch.column(name).cast(pa.int64()) for name in (TIMESTAMP, SEQ))
                if stamps.null_count or seqs.null_count:
                    return None
                if not len(stamps):
                    continue
                at, of = stamps.to_numpy(), seqs.to_numpy()
                steps = np.diff(at)
                begin = int(at[0]), int(of[0])
                if ((steps < 0) | ((steps == 0) & (np.diff(of) <= 0))).any() or (last is not None and begin <= last):
                    return None
                first, last = begin if first is None else first, (int(at[-1]), int(of[-1]))
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: the file cannot be read: {error}") from error
    return () if first is None or last is None else (first, last)
