"""`expand`: the verbose rows of a compressed table, in order, a batch at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pyarrow as pa

from cep_pipeline.detection.compressed.buffers import Buffer, Listed, Paths, pattern_of
from cep_pipeline.detection.compressed.compressing import STATEMENTS, compressed_schema
from cep_pipeline.detection.compressed.paths import OrderedPaths, all_paths
from cep_pipeline.detection.compressed.stream_order import StreamOrderedPaths
from cep_pipeline.detection.decimal_text import from_text
from cep_pipeline.detection.list_ordering import OrderedLists, in_order
from cep_pipeline.detection.matches import MANY_PATTERNS, match_batches, matches_schema
from cep_pipeline.errors import InputError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.prepared import PreparedEvents

FIRST_ROWS, MOST_ROWS = 64, 1 << 16
"""Rows of the first batch, and of the largest; each batch may have four times as many as the one before."""
AT_ONCE = 1 << 17
"""Matches with one end up to which they are all found before they are ordered."""


def expand(table: pa.Table) -> pa.RecordBatchReader:
    """The matches of a compressed table: exactly the rows of the verbose output, in its order.

    Parameters
    ----------
    table
        What `detect(..., output="compressed")` gave for one pattern, or such tables of several patterns one after
        another.

    Returns
    -------
    pa.RecordBatchReader
        Batches of matches, made as they are asked for: the first ones of 2**60 matches come at once. The columns are
        those of the verbose output of the pattern; of several patterns, those of a table of many.

    Raises
    ------
    InputError
        The table is none of that form, or a buffer is damaged.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string"}})
    >>> events = schema.table([{"timestamp": time, "kind": "A"} for time in range(3)])
    >>> patterns = cep.parse_patterns("NAME lists PATTERN A+ a[] WITHIN 1 second", schema)
    >>> table = cep.detect(patterns, events, output="compressed")["lists"]
    >>> table.column("count").to_pylist()
    ['1', '2', '4']
    >>> cep.expand(table).read_all().num_rows
    7
    """
    expected = compressed_schema([])
    for field in expected:
        if field.name not in table.column_names or table.schema.field(field.name).type != field.type:
            raise InputError(
                f"a compressed table has the columns {', '.join(expected.names)}; this one has "
                f"{', '.join(f'{f.name} {f.type}' for f in table.schema)}: give what output 'compressed' made"
            )
    patterns = _patterns(table)
    schema = matches_schema(patterns[0]) if len(patterns) == 1 else MANY_PATTERNS
    return pa.RecordBatchReader.from_batches(schema, _batches(table, typed=len(patterns) == 1))


def _patterns(table: pa.Table) -> list[Pattern]:
    """The patterns of a table: those that its metadata name, and those that its rows have."""
    statements: list[str] = json.loads((table.schema.metadata or {}).get(STATEMENTS, b"[]"))
    rows = {name: row for row, name in reversed([*enumerate(table.column("pattern").to_pylist())])}
    statements += (Buffer.from_bytes(table.column("buffer")[row].as_py()).statement for row in sorted(rows.values()))
    patterns = [pattern_of(statement) for statement in dict.fromkeys(statements)]
    if not patterns:
        raise InputError("a compressed table without rows says nothing of its patterns: its metadata have been lost")
    return patterns


def _batches(table: pa.Table, *, typed: bool) -> Iterator[pa.RecordBatch]:
    """Batches of growing size; rows with few matches are expanded together."""
    size = FIRST_ROWS
    waiting: list[Buffer] = []
    held = 0
    columns = (table.column("count").to_pylist(), table.column("buffer"))
    for text, scalar in zip(*columns, strict=True):
        count = from_text(text)
        buffer = Buffer.from_bytes(scalar.as_py())
        alone = count > AT_ONCE and isinstance(buffer.matches, Paths)
        if waiting and (alone or held + count > size or buffer.statement != waiting[0].statement):
            yield from _expanded(waiting, typed=typed)
            size = min(4 * size, MOST_ROWS)
            waiting, held = [], 0
        if alone:
            assert isinstance(buffer.matches, Paths)
            for batch in _one_by_one(buffer, buffer.matches, size, typed=typed):
                yield batch
                size = min(4 * size, MOST_ROWS)
            continue
        waiting.append(buffer)
        held += count
    if waiting:
        yield from _expanded(waiting, typed=typed)


def _expanded(buffers: list[Buffer], *, typed: bool) -> Iterator[pa.RecordBatch]:
    """The matches of some buffers of one pattern, all found together and then ordered."""
    pattern = pattern_of(buffers[0].statement)
    events, rows = _events_of(pattern, buffers)
    parts = [(rows[n], buffer.matches) for n, buffer in enumerate(buffers) if isinstance(buffer.matches, Listed)]
    graphs = [(rows[n], buffer.matches) for n, buffer in enumerate(buffers) if isinstance(buffer.matches, Paths)]
    if graphs:
        listed, owner = all_paths([graph for _, graph in graphs])
        first = np.cumsum([0, *(len(own) for own, _ in graphs)])[:-1]
        together = np.concatenate([own for own, _ in graphs])
        shift = np.repeat(first[owner], np.diff(listed.offsets))
        parts.append((together, Listed(listed.offsets, listed.events + shift, listed.variables)))
    sizes = np.concatenate([np.diff(listed.offsets) for _, listed in parts])
    found = OrderedLists(
        tuple(operand.variable for operand in pattern.operands),
        np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))),
        np.concatenate([own[listed.events] for own, listed in parts]).astype(np.int32),
        np.concatenate([listed.variables for _, listed in parts]).astype(np.int32),
    )
    yield from match_batches(pattern, in_order(found, events.seqs), events, typed=typed)


def _one_by_one(buffer: Buffer, paths: Paths, size: int, *, typed: bool) -> Iterator[pa.RecordBatch]:
    """The matches of one buffer, found in order."""
    pattern = pattern_of(buffer.statement)
    events, _ = _events_of(pattern, [buffer])
    matches = iter(StreamOrderedPaths.of(paths, events.seqs) or OrderedPaths(paths, events.seqs))
    names = tuple(operand.variable for operand in pattern.operands)
    while True:
        found = [*islice(matches, size)]
        if not found:
            return
        offsets = np.cumsum([0, *(len(elements) for elements, _ in found)], dtype=np.int64)
        rows = np.fromiter((row for elements, _ in found for row in elements), np.int32, int(offsets[-1]))
        variables = np.fromiter((one for _, bound in found for one in bound), np.int32, int(offsets[-1]))
        yield from match_batches(pattern, OrderedLists(names, offsets, rows, variables), events, typed=typed)
        size = min(4 * size, MOST_ROWS)


def _events_of(pattern: Pattern, buffers: list[Buffer]) -> tuple[PreparedEvents, list[Array]]:
    """The events of some buffers in stream order, each once, and the row of each buffer's events among them."""
    together = pa.concat_tables([buffer.events for buffer in buffers])
    _, index, place = np.unique(together.column("seq").to_numpy(), return_index=True, return_inverse=True)
    seqs = together.column("seq").to_numpy()[index]
    order = np.lexsort((seqs, together.column("timestamp").to_numpy()[index]))
    table = together.take(pa.array(index[order]))
    if pattern.type_attribute not in table.column_names:
        table = table.append_column(pattern.type_attribute, pa.nulls(table.num_rows, pa.string()))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    rows = rank[place.reshape(-1)]
    ends = np.cumsum([buffer.events.num_rows for buffer in buffers])[:-1]
    return PreparedEvents(table, type_attribute=pattern.type_attribute), np.split(rows, ends)
