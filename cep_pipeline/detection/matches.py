"""Matches as rows of the matches table (docs/language.md, section 5): ordered, with ids and RETURN columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.list_ordering import OrderedLists
from cep_pipeline.detection.match_ids import MatchIdentity
from cep_pipeline.detection.ordering import OrderedMatches, order_matches
from cep_pipeline.detection.output_policy import Candidates, KeptMatches
from cep_pipeline.detection.return_columns import RETURN_TYPES, json_objects, return_arrays
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents

UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")
BINDINGS = pa.list_(pa.struct([("variable", pa.string()), ("seq", pa.int64())]))
FIXED_FIELDS = (
    pa.field("pattern", pa.string()),
    pa.field("match_id", pa.string()),
    pa.field("start_ts", UTC_MICROSECONDS),
    pa.field("end_ts", UTC_MICROSECONDS),
    pa.field("bindings", BINDINGS),
)
MANY_PATTERNS = pa.schema([*FIXED_FIELDS, pa.field("returns", pa.string())])
"""Columns of a table of the matches of many patterns: RETURN as JSON text, null where the pattern has none."""
CANDIDATES = pa.schema(
    [*MANY_PATTERNS, pa.field("instants", pa.list_(pa.int64())), pa.field("partition", pa.string())],
)
"""Matches that OUTPUT and CONSUME have still to decide about: with the timestamp of each event of the bindings in
microseconds, and the values of PARTITION BY as text (null: alone in its partition)."""
BATCH_ROWS = 1 << 17
"""Matches made into Arrow arrays at once: what is held beside the sorted row numbers."""


def matches_schema(pattern: Pattern) -> pa.Schema:
    """Columns of a table of one pattern's matches: the RETURN columns are typed."""
    returned = (pa.field(item.name, RETURN_TYPES[item.expression.type]) for item in pattern.returns)
    return pa.schema([*FIXED_FIELDS, *returned])


def write_matches(
    pattern: Pattern,
    blocks: Iterable[Block],
    events: PreparedEvents,
    sink: Callable[[pa.RecordBatch], object],
    *,
    typed: bool = False,
    kept: KeptMatches | None = None,
    candidates: bool = False,
) -> int:
    """Hand the matches of one pattern over one slice to a sink, batch after batch in the page's order.

    Parameters
    ----------
    pattern, blocks, events
        The pattern, what a kernel found of it, and the events that the blocks' row numbers mean.
    sink
        Takes each batch, such as the `write_batch` of a Parquet writer.
    typed
        Whether batches have the schema `matches_schema(pattern)`, not `MANY_PATTERNS`.
    kept
        Decides which matches OUTPUT and CONSUME keep; None: all of them are handed on.
    candidates
        Whether batches have the schema `CANDIDATES`, from which another process decides that.

    Returns
    -------
    int
        Number of matches that were handed on.

    Notes
    -----
    Held at once are the row numbers of the slice's matches, and one batch.
    """
    found = [block for block in blocks if len(block)]
    if not found:
        return 0
    ordered = order_matches(found, events.seqs)
    del found
    written = 0
    for batch in match_batches(pattern, ordered, events, kept, typed=typed, candidates=candidates):
        sink(batch)
        written += batch.num_rows
    return written


def match_batches(
    pattern: Pattern,
    ordered: OrderedMatches | OrderedLists,
    events: PreparedEvents,
    kept: KeptMatches | None = None,
    *,
    typed: bool = False,
    candidates: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Ordered matches as batches of rows; the other parameters are those of `write_matches`."""
    identity = MatchIdentity.of(pattern)
    schema = matches_schema(pattern) if typed else CANDIDATES if candidates else MANY_PATTERNS
    for start in range(0, len(ordered), BATCH_ROWS):
        part = ordered.between(start, min(start + BATCH_ROWS, len(ordered)))
        if kept is not None:
            part = part.where(kept.keep(Candidates.of(pattern, part, events)))
            if not len(part):
                continue
        offsets, rows, variables = part.elements()
        seqs = events.seqs[rows]
        returned = return_arrays(pattern, part, events)
        if not typed:
            names = [item.name for item in pattern.returns]
            returned = [json_objects(names, returned) if names else pa.nulls(len(part), pa.string())]
        columns = [
            pa.repeat(pattern.name, len(part)),
            identity.ids_of(offsets, seqs, variables, part.names),
            _instants(events.timestamps[part.first_rows()]),
            _instants(events.timestamps[part.last_rows()]),
            _bindings(offsets, seqs, variables, part.names),
            *returned,
        ]
        if candidates:
            undecided = Candidates.of(pattern, part, events)
            instants = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(undecided.instants))
            columns += [instants, undecided.partitions.cast(pa.string())]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def candidates_of(batch: pa.RecordBatch) -> Candidates:
    """The candidates in a batch of the schema `CANDIDATES`; their positions are seqs, which grow with time."""
    bindings, instants = batch.column("bindings"), batch.column("instants")
    offsets = bindings.offsets.to_numpy().astype(np.int64)
    return Candidates(
        offsets - offsets[0],
        bindings.flatten().field("seq").to_numpy(),
        instants.flatten().to_numpy(),
        batch.column("partition").dictionary_encode(),
    )


def _instants(microseconds: Array) -> pa.Array:
    return pa.array(microseconds).view(UTC_MICROSECONDS)


def _bindings(offsets: Array, seqs: Array, variables: Array, names: tuple[str, ...]) -> pa.Array:
    spelled = pa.array(names, pa.string()).take(pa.array(variables))
    elements = pa.StructArray.from_arrays([spelled, pa.array(seqs)], fields=list(BINDINGS.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), elements)
