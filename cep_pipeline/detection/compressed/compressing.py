"""Compressed output: a buffer for all matches of a pattern that end with one event (docs/language.md, section 5)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.compressed.buffers import (
    IGNORED,
    ROW,
    GraphBuilder,
    GraphWriter,
    ListWriter,
    pattern_of,
    statement_of,
)
from cep_pipeline.detection.compressed.components import NeedsLists, groups_of
from cep_pipeline.detection.compressed.lanes import LaneEvents
from cep_pipeline.detection.compressed.runs import MergedRuns
from cep_pipeline.detection.decimal_text import from_text
from cep_pipeline.detection.matches import UTC_MICROSECONDS
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.detection.ordering import order_matches
from cep_pipeline.errors import InputError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.guarded import parse_json
from cep_pipeline.patterns.pattern import Pattern, once_a_pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents

STATEMENTS = b"cep.statements"
"""Key of a table's metadata: the statements of its patterns, so that a table without matches can be expanded too."""


def compressed_schema(patterns: Iterable[Pattern]) -> pa.Schema:
    """Columns of the compressed output."""
    statements = json.dumps([statement_of(pattern) for pattern in patterns], ensure_ascii=False)
    return pa.schema(
        [
            ("pattern", pa.string()),
            ("end_seq", pa.int64()),
            ("end_ts", UTC_MICROSECONDS),
            ("count", pa.string()),
            ("buffer", pa.binary()),
        ],
        metadata={STATEMENTS: statements.encode()},
    )


@once_a_pattern
def schema_of_buffers(pattern: Pattern) -> pa.Schema:
    """Columns of one pattern's compressed output."""
    return compressed_schema([pattern])


def compress_merged(
    pattern: Pattern, events: PreparedEvents, counters: Counters, ending: tuple[int, int] | None = None
) -> pa.Table:
    """The matches of a pattern under skip_till_any_match as buffers, without listing them.

    Parameters
    ----------
    ending
        Only those whose last event has a row in `[first, stop)`.

    Raises
    ------
    NeedsLists
        A condition asks for the lists themselves.
    """
    writer = _Writer(pattern, events, (0, len(events)) if ending is None else ending)
    groups = groups_of(pattern)
    graph = GraphBuilder(np.array([IGNORED], np.int64))
    position = {operand.variable: place for place, operand in enumerate(pattern.operands)}
    for group in groups:
        sequence = LaneEvents(pattern, group, events)
        graph.places = np.array([*(position[name] for name in sequence.states.names), IGNORED], np.int64)
        runs = MergedRuns(sequence, graph)
        for read in runs.lane_by_lane():
            if read.closing and len(groups) == 1:  # nothing else ends with their events
                writer.add(*graph.finished())
                graph.clear()
        counters.count_peak(runs.peak)
    writer.add(*graph.finished())
    return writer.table()


class ListedBuffers:
    """Makes buffers of the matches of one pattern that a mechanism lists, part after part."""

    def __init__(self, pattern: Pattern, events: PreparedEvents) -> None:
        self._pattern, self._events = pattern, events
        self._writer = ListWriter(pattern, events)
        self._batches: list[pa.RecordBatch] = []

    def add(self, blocks: Iterable[Block]) -> None:
        """Add all matches of one part (`JointRun.parts`)."""
        found = [block for block in blocks if len(block)]
        if not found:
            return
        ordered = order_matches(found, self._events.seqs, growing=self._events.seqs_grow)
        del found
        for seqs, timestamps, counts, buffers in self._writer.write(ordered):
            names, ends = pa.repeat(self._pattern.name, len(seqs)), pa.array(timestamps).view(UTC_MICROSECONDS)
            columns = [names, pa.array(seqs), ends, counts, buffers]
            self._batches.append(pa.RecordBatch.from_arrays(columns, schema=schema_of_buffers(self._pattern)))

    def table(self) -> pa.Table:
        """One row for all matches that end with the same event."""
        return pa.Table.from_batches(self._batches, schema_of_buffers(self._pattern))


def concat_compressed(tables: Sequence[pa.Table]) -> pa.Table:
    """Compressed tables of several patterns as one, which knows all their statements."""
    statements = [text for table in tables for text in statements_of(table.schema)]
    metadata = {STATEMENTS: json.dumps(statements, ensure_ascii=False).encode()}
    return pa.concat_tables(table.replace_schema_metadata(metadata) for table in tables)


def only_pattern(table: pa.Table, name: str) -> pa.Table | None:
    """The rows of one pattern of a compressed table; None where the table knows of no such pattern."""
    if "pattern" not in table.column_names:
        return None
    own = [text for text in statements_of(table.schema) if pattern_of(text).name == name]
    found = table.filter(pc.equal(table.column("pattern"), name))
    if not own and not found.num_rows:
        return None
    return found.replace_schema_metadata({STATEMENTS: json.dumps(own, ensure_ascii=False).encode()})


def statements_of(schema: pa.Schema) -> list[str]:
    """The statements that the metadata of a compressed table hold, [] where there are none.

    Raises
    ------
    InputError
        The metadata hold something else.
    """
    from cep_pipeline.documents import check_form, form_of

    what = "the statements of a compressed table"
    content = parse_json((schema.metadata or {}).get(STATEMENTS, b"[]"), what, "text")
    check_form(form_of(tuple[str, ...]), content, "are damaged", what, "compress the matches again")
    return list(content)


def count_of(text: str) -> int:
    """The number of matches that a row of a compressed table says that it has.

    Raises
    ------
    InputError
        The text is no whole number above 0 of at most `MOST_DIGITS` digits.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS and text.strip("0")):
        shown = text if len(text) < 40 else f"{text[:40]}…"
        raise InputError(f"column 'count' of a compressed table is damaged: {shown!r} is no number of matches")
    return from_text(text)


MOST_DIGITS = 200_000
"""Digits of a number of matches: of all lists of more than half a million events."""


class _Writer:
    """Collects the rows of a compressed table."""

    def __init__(self, pattern: Pattern, events: PreparedEvents, ending: tuple[int, int]) -> None:
        self.pattern, self.events, self.ending = pattern, events, ending
        self.writer = GraphWriter(pattern, events)
        self.rows, self.counts, self.buffers = [np.empty(0, np.int64)], list[str](), list[bytes]()

    def add(self, nodes: int, edges: Array, ends: Array) -> None:
        """Add all matches of a graph that end with an event that is wanted."""
        first, stop = np.searchsorted(ends[ROW], self.ending)
        for rows, counts, buffers in self.writer.write(nodes, edges, ends[:, first:stop]):
            self.rows.append(rows)
            self.counts += counts
            self.buffers += buffers

    def table(self) -> pa.Table:
        """The table, in the order of the end events."""
        rows = np.concatenate(self.rows)
        order = np.argsort(rows, kind="stable")
        rows, places = rows[order], order.tolist()
        return pa.Table.from_arrays(
            [
                pa.repeat(self.pattern.name, len(rows)).cast(pa.string()),
                pa.array(self.events.seqs[rows]),
                pa.array(self.events.timestamps[rows]).view(UTC_MICROSECONDS),
                pa.array([self.counts[place] for place in places], pa.string()),
                pa.array([self.buffers[place] for place in places], pa.binary()),
            ],
            schema=schema_of_buffers(self.pattern),
        )


def count_merged(pattern: Pattern, events: PreparedEvents, counters: Counters) -> int | None:
    """The number of matches of a pattern under skip_till_any_match, equal bindings of several clauses once.

    Returns
    -------
    int or None
        None where a condition asks for the lists themselves (`groups.reason_to_list` says which).
    """
    try:
        groups = groups_of(pattern)
    except NeedsLists:
        return None
    total = 0
    for group in groups:
        runs = MergedRuns(LaneEvents(pattern, group, events))
        total += runs.run()
        counters.count_peak(runs.peak)
    return total
