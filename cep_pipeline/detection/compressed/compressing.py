"""Compressed output: a buffer for all matches of a pattern that end with one event (docs/language.md, section 5)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.compressed import lanes
from cep_pipeline.detection.compressed.buffers import (
    Edges,
    GraphBuilder,
    Listing,
    MatchesOfEvent,
    Paths,
    ends_of_listed,
    pattern_of,
    statement_of,
)
from cep_pipeline.detection.compressed.components import NeedsLists, groups_of
from cep_pipeline.detection.compressed.lanes import LaneEvents
from cep_pipeline.detection.compressed.runs import MergedRuns, exact_sum
from cep_pipeline.detection.decimal_text import from_text, to_text
from cep_pipeline.detection.matches import UTC_MICROSECONDS
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.detection.ordering import OrderedMatches, order_matches, order_together
from cep_pipeline.errors import InputError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.guarded import parse_json
from cep_pipeline.patterns.pattern import Pattern, once_a_pattern
from cep_pipeline.slices.blocks import Block, ListBlock
from cep_pipeline.slices.events_input import attributes_returned
from cep_pipeline.slices.prepared import PreparedEvents

STATEMENTS = b"cep.statements"
"""Key of a table's metadata: the statements of its patterns, so that a table without matches can be expanded too."""
_DENSE = 8
"""Rows are found by a table of all between the first and the last, if there are no more than so many for each."""
EDGES_AT_ONCE = 1 << 20
"""Edges of buffers that are collected at once."""

_collect_edges = NativeKernel(
    "cep_pipeline.detection.compressed.graph_kernels",
    "collect_edges",
    (
        *("int64", "int64*", "int64*", "int64", "int64*", "int64*", "int64*", "int64*"),
        *("int64", "int64*", "int64*", "int64"),
    ),
)


@dataclass(frozen=True, eq=False)
class _Part:
    """The matches of one group of clauses that end with the event `row`; variables by their place in the pattern."""

    row: int
    count: int
    edges: Edges
    ends: Edges


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
    found = []
    for group in groups:
        graph = GraphBuilder()
        sequence = lanes.LaneEvents(pattern, group, events)
        runs = MergedRuns(sequence, graph)
        for read in runs.lane_by_lane():
            if read.closing and len(groups) == 1:  # nothing else ends with their events
                writer.add([_parts(pattern, sequence, graph)])
                graph.clear()
        counters.count_peak(runs.peak)
        found.append(_parts(pattern, sequence, graph))
    writer.add(found)
    return writer.table()


def _parts(pattern: Pattern, sequence: lanes.LaneEvents, graph: GraphBuilder) -> Iterator[_Part]:
    """The matches of one group of clauses by the event that they end with."""
    position = {operand.variable: place for place, operand in enumerate(pattern.operands)}
    places = np.array([position[name] for name in sequence.states.names] + [-1], np.int64)
    edges, ends, count = graph.finished()
    edges, ends = replace(edges, variable=places[edges.variable]), replace(ends, variable=places[ends.variable])
    for row, first, last, found in _by_end(edges, ends, graph.size):
        yield _Part(row, exact_sum(count[first:last]), edges.take(found), ends.take(slice(first, last)))


class ListedBuffers:
    """Makes buffers of the matches of one pattern that a mechanism lists, part after part."""

    def __init__(self, pattern: Pattern, events: PreparedEvents) -> None:
        self._pattern, self._events = pattern, events
        self._places = {operand.variable: place for place, operand in enumerate(pattern.operands)}
        self._batches: list[pa.RecordBatch] = []

    def add(self, blocks: Iterable[Block]) -> None:
        """Add all matches of one part (`JointRun.parts`)."""
        found = [block for block in blocks if len(block)]
        if not found:
            return
        ordered = order_matches(found, self._events.seqs, growing=self._events.seqs_grow)
        del found
        places = np.array([self._places[name] for name in ordered.names], np.int16)
        if isinstance(ordered, OrderedMatches) and ordered.form is None:
            listing = Listing.in_columns(ordered.rows, places)
        else:
            offsets, rows, numbers = ordered.elements()
            listing = Listing(len(ordered), 0, 0, 1, offsets, np.ascontiguousarray(rows), places[numbers])
        self._batches += (batch for _, batch in _rows_of([self._pattern], listing, self._events))

    def table(self) -> pa.Table:
        """One row for all matches that end with the same event."""
        return pa.Table.from_batches(self._batches, schema_of_buffers(self._pattern))


def _rows_of(
    patterns: Sequence[Pattern], listing: Listing, events: PreparedEvents
) -> Iterator[tuple[Array, pa.RecordBatch]]:
    """The compressed rows of patterns that read the same attributes, with the number of each row's pattern."""
    schema = schema_of_buffers(patterns[0])
    names = pa.array([pattern.name for pattern in patterns], pa.string())
    statements = [statement_of(pattern) for pattern in patterns]
    found = ends_of_listed(statements, listing, attributes_beside_clocks(patterns[0]), events)
    for of, seqs, timestamps, counts, buffers in found:
        own = pa.repeat(names[0], len(of)) if len(names) == 1 else names.take(pa.array(of))
        columns = [own, pa.array(seqs), pa.array(timestamps).view(UTC_MICROSECONDS), counts, buffers]
        yield of, pa.RecordBatch.from_arrays(columns, schema=schema)


def buffers_of_few(found: Sequence[tuple[Pattern, Sequence[Block]]], events: PreparedEvents) -> list[pa.Table]:
    """The compressed matches of patterns that have few: all are written at once, and each has its part.

    Parameters
    ----------
    found
        As `batches_of_few` takes it.
    """
    forms = [(attributes_beside_clocks(pattern), _bound_alike(blocks)) for pattern, blocks in found]
    if len(set(forms)) > 1:
        parts = {
            form: iter(buffers_of_few([one for one, own in zip(found, forms, strict=True) if own == form], events))
            for form in set(forms)
        }
        return [next(parts[form]) for form in forms]
    [(_, width)] = set(forms)
    together = order_together([blocks for _, blocks in found], events.seqs)
    offsets, rows, variables = together.lists.elements()
    rows, variables = np.ascontiguousarray(rows), variables.astype(np.int16)
    listing = Listing(len(together.lists), width, width, 1, offsets, rows, variables, together.of.astype(np.int64))
    made = [*_rows_of([pattern for pattern, _ in found], listing, events)]
    whole = pa.Table.from_batches([batch for _, batch in made])
    numbers = np.bincount(np.concatenate([of for of, _ in made]), minlength=len(found))
    tables, begin = [], 0
    for (pattern, _), count in zip(found, numbers.tolist(), strict=True):
        own = whole.slice(begin, count)
        tables.append(own.replace_schema_metadata(schema_of_buffers(pattern).metadata))
        begin += count
    return tables


def _bound_alike(blocks: Sequence[Block]) -> int:
    """The number of variables that each match binds to one event; 0 where matches bind different ones, or lists."""
    forms = {block.clause.positive for block in blocks}
    return 0 if len(forms) > 1 or any(isinstance(block, ListBlock) for block in blocks) else len(*forms)


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
        self.statement = statement_of(pattern)
        self.attributes = attributes_beside_clocks(pattern)
        self.made: list[tuple[int, str, bytes]] = []

    def add(self, groups: Sequence[Iterator[_Part]]) -> None:
        """Add matches by the event that they end with; each group of clauses has them in the order of these events."""
        first, stop = self.ending
        for row, alike in groupby(merge(*groups, key=attrgetter("row")), key=attrgetter("row")):
            if not first <= row < stop:
                continue
            parts = [*alike]
            own, matches = _joined(parts)
            columns = _columns_of(self.events, self.attributes, own)
            buffer = MatchesOfEvent(self.statement, columns, matches).to_bytes()
            self.made.append((row, to_text(sum(part.count for part in parts)), buffer))

    def table(self) -> pa.Table:
        """The table, in the order of the end events."""
        made = sorted(self.made, key=itemgetter(0))
        rows = np.array([row for row, _, _ in made], np.int64)
        return pa.Table.from_arrays(
            [
                pa.repeat(self.pattern.name, len(rows)).cast(pa.string()),
                pa.array(self.events.seqs[rows]),
                pa.array(self.events.timestamps[rows]).view(UTC_MICROSECONDS),
                pa.array([count for _, count, _ in made], pa.string()),
                pa.array([buffer for _, _, buffer in made], pa.binary()),
            ],
            schema=schema_of_buffers(self.pattern),
        )


def attributes_beside_clocks(pattern: Pattern) -> tuple[str, ...]:
    """The attributes that RETURN reads, beside timestamp and seq, which every buffer has."""
    return tuple(name for name in attributes_returned(pattern) if name not in ("timestamp", "seq"))


def _columns_of(events: PreparedEvents, attributes: Sequence[str], rows: Array) -> pa.Table:
    columns = {"timestamp": pa.array(events.timestamps[rows]), "seq": pa.array(events.seqs[rows])}
    if attributes:
        taken = events.table.select(attributes).take(pa.array(rows)).combine_chunks()
        columns.update(zip(taken.column_names, taken.columns, strict=True))
    return pa.table(columns)


def _by_end(edges: Edges, ends: Edges, nodes: int) -> Iterator[tuple[int, int, int, Array]]:
    """For each event that ends matches: its row, its first and behind its last place in `ends`, and the edges."""
    if not len(ends):
        return
    begins = np.flatnonzero(np.append(True, ends.row[1:] != ends.row[:-1]))
    offsets = np.append(begins, len(ends)).astype(np.int64)
    count = len(begins)
    edge_offsets = np.searchsorted(edges.target, np.arange(nodes + 1)).astype(np.int64)
    stamps, stack = np.zeros(max(nodes, 1), np.int64), np.zeros(max(nodes, 1), np.int64)
    sources = np.ascontiguousarray(ends.source)
    edge_sources = np.ascontiguousarray(edges.source) if len(edges) else np.zeros(1, np.int64)
    found = np.empty(EDGES_AT_ONCE, np.int64)
    found_offsets = np.zeros(count + 1, np.int64)
    done = 0
    while done < count:
        found_offsets[done] = 0
        stopped = _collect_edges(
            count,
            offsets,
            sources,
            nodes,
            edge_offsets,
            edge_sources,
            stamps,
            stack,
            done,
            found_offsets,
            found,
            len(found),
        )
        if stopped == done:
            found = np.empty(2 * len(found), np.int64)
            continue
        for end in range(done, stopped):
            first, last = int(offsets[end]), int(offsets[end + 1])
            yield int(ends.row[first]), first, last, np.sort(found[found_offsets[end] : found_offsets[end + 1]])
        done = stopped


def _joined(parts: list[_Part]) -> tuple[Array, Paths]:
    """The graph of all groups' matches with one end: the rows of its events, and its paths."""
    sources, targets, variables, rows = [], [], [], []
    nodes = 1
    closing = []
    for part in parts:
        target = part.edges.target  # ascending
        begins = np.ones(len(target), dtype=bool)
        begins[1:] = target[1:] != target[:-1]
        known = target[begins]
        sources.append(_renumbered(part.edges.source, known, nodes))
        targets.append(np.cumsum(begins) + (nodes - 1))
        closing.append(_renumbered(part.ends.source, known, nodes))
        variables.append(part.edges.variable)
        rows.append(part.edges.row)
        nodes += len(known)
    for part, source in zip(parts, closing, strict=True):
        sources.append(source)
        targets.append(np.full(len(source), nodes, np.int64))
        variables.append(part.ends.variable)
        rows.append(part.ends.row)
    distinct, event = _distinct(np.concatenate(rows))
    return distinct, Paths(
        nodes + 1,
        np.concatenate(sources).astype(np.int32),
        np.concatenate(targets).astype(np.int32),
        event.astype(np.int32),
        np.concatenate(variables).astype(np.int16),
    )


def _distinct(rows: Array) -> tuple[Array, Array]:
    """The distinct rows, ascending, and the place of each among them."""
    first = int(rows.min())
    span = int(rows.max()) - first + 1
    if span > _DENSE * len(rows):
        distinct, place = np.unique(rows, return_inverse=True)
        return distinct, place.reshape(-1)
    present = np.zeros(span, dtype=bool)
    present[rows - first] = True
    return np.flatnonzero(present) + first, (np.cumsum(present) - 1)[rows - first]


def _renumbered(nodes: Array, known: Array, first: int) -> Array:
    """Nodes by their place among those of a part; no node is node 0."""
    return np.where(nodes < 0, 0, np.searchsorted(known, nodes) + first)


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
