"""Tables of compressed matches: a buffer for all matches that end with one event (docs/language.md, section 5).

`compress_merged` writes the matches of merged runs, and `ListedBuffers` those that a mechanism lists. `expand` reads
the verbose rows, in order, a batch at a time.

`all_paths` reads the paths of buffers at once in any order; they are then sorted. `OrderedPaths` reads those of one
buffer with very many matches part after part in the order of the table (docs/language.md, section 5): that of the flat
list of seqs, variables in pattern order, which need not be the order of the stream. So matches are found in a tree of
prefixes of that list: a prefix says which events are bound to which variables, and one pass over the buffer marks the
paths that bind just those so far, and counts them. Where they are few, they are read at once; where they are many, the
prefix grows by one more event. A prefix may be read in several ways, by other variables: these stay together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.compiled.native import NativeKernel
from cep_pipeline.detection.compressed.buffers import (
    BRIEF,
    DIGEST_AT,
    IGNORED,
    PLAIN,
    ROW,
    VERSION_AT,
    GraphBuilder,
    GraphWriter,
    ListedMatches,
    ListWriter,
    MatchesOfEvent,
    Paths,
    attributes_kept,
    digest_of,
    pattern_of,
    runs_of_alike,
    statement_of,
)
from cep_pipeline.detection.compressed.fields import NeedsLists, groups_of
from cep_pipeline.detection.compressed.runs import LaneEvents, MergedRuns
from cep_pipeline.detection.matches import MANY_PATTERNS, UTC_MICROSECONDS, match_batches, matches_schema
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.detection.ordering import OrderedLists, in_order, order_matches
from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import ARROW_TYPES
from cep_pipeline.expressions.columns import Array
from cep_pipeline.expressions.lists import ranges
from cep_pipeline.guarded import brief, parse_json
from cep_pipeline.patterns.pattern import Pattern, once_a_pattern
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents
from cep_pipeline.storage import decimal_text, from_decimal_text

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
    writer, groups = GraphWriter(pattern, events), groups_of(pattern)
    written: list[tuple[Array, list[str], list[bytes]]] = []

    def write(nodes: int, edges: Array, ends: Array) -> None:
        first, stop = np.searchsorted(ends[ROW], ending or (0, len(events)))
        written.extend(writer.write(nodes, edges, ends[:, first:stop]))

    graph = GraphBuilder(np.array([IGNORED], np.int64))
    position = {operand.variable: place for place, operand in enumerate(pattern.operands)}
    for group in groups:
        sequence = LaneEvents(pattern, group, events)
        graph.places = np.array([*(position[name] for name in sequence.states.names), IGNORED], np.int64)
        runs = MergedRuns(sequence, graph)
        for read in runs.lane_by_lane():
            if read.closing and len(groups) == 1:  # nothing else ends with their events
                write(*graph.finished())
                graph.clear()
        counters.count_peak(runs.peak)
    write(*graph.finished())
    rows = np.concatenate([np.empty(0, np.int64), *(part[0] for part in written)])
    counts, buffers = ([one for part in written for one in part[place]] for place in (1, 2))
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    of_rows = pa.array([counts[place] for place in order], pa.string())
    of_buffers = pa.array([buffers[place] for place in order], pa.binary())
    columns = _columns(pattern, events.seqs[rows], events.timestamps[rows], of_rows, of_buffers)
    return pa.Table.from_arrays(columns, schema=schema_of_buffers(pattern))


def _columns(pattern: Pattern, seqs: Array, timestamps: Array, counts: pa.Array, buffers: pa.Array) -> list[pa.Array]:
    names = pa.repeat(pattern.name, len(seqs)).cast(pa.string())
    return [names, pa.array(seqs), pa.array(timestamps).view(UTC_MICROSECONDS), counts, buffers]


class ListedBuffers:
    """Makes buffers of the matches of one pattern that a mechanism lists, part after part."""

    def __init__(self, pattern: Pattern, events: PreparedEvents) -> None:
        self._pattern, self._events = pattern, events
        self._batches: list[pa.RecordBatch] = []

    @cached_property
    def _writer(self) -> ListWriter:
        """The writer, which takes some memory for each event: of most of many patterns there is no match."""
        return ListWriter(self._pattern, self._events)

    def add(self, blocks: Iterable[Block]) -> None:
        """Add all matches of one part (`JointRun.parts`)."""
        found = [block for block in blocks if len(block)]
        if not found:
            return
        ordered = order_matches(found, self._events.seqs, growing=self._events.seqs_grow)
        del found
        for seqs, timestamps, counts, buffers in self._writer.write(ordered):
            columns = _columns(self._pattern, seqs, timestamps, counts, buffers)
            self._batches.append(pa.RecordBatch.from_arrays(columns, schema=schema_of_buffers(self._pattern)))

    def table(self) -> pa.Table:
        """One row for all matches that end with the same event."""
        return pa.Table.from_batches(self._batches, schema_of_buffers(self._pattern))


def statements_of(schema: pa.Schema) -> list[str]:
    """The statements that the metadata of a compressed table hold, [] where there are none.

    Raises
    ------
    InputError
        The metadata hold something else.
    """
    from cep_pipeline.documents import read_as

    what = "the statements of a compressed table"
    content = parse_json((schema.metadata or {}).get(STATEMENTS, b"[]"), what, "text")
    return list(read_as(tuple[str, ...], content, "are damaged", what, "compress the matches again"))


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
    return from_decimal_text(text)


MOST_DIGITS = 200_000
"""Digits of a number of matches: of all lists of more than half a million events."""


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


_paths_through = NativeKernel(
    "cep_pipeline.detection.compressed.graph_kernels",
    "paths_through",
    (
        *("int64", "int64", "int64*", "int64*", "int64*", "int64*", "int64", "int64*"),
        *("int64", "int64", "int64", "int64*", "int64*", "uint8*"),
    ),
    ("cep_pipeline.compiled.pointers",),
)


def all_paths(graphs: Sequence[Paths], most: int) -> tuple[ListedMatches, Array]:
    """The matches of some buffers, in no particular order; ValueError where they are more than `most`.

    Returns
    -------
    Listed
        The elements of each match, in pattern order.
    Array
        The number of the buffer of each match.

    Notes
    -----
    All paths are followed backwards from their ends, one edge a step; what they have in common behind a node is held
    once. Chains of nodes between which events are ignored are passed in one step.
    """
    shift = np.cumsum([0, *(graph.nodes for graph in graphs)])
    target = np.concatenate([graph.targets + by for graph, by in zip(graphs, shift[:-1], strict=True)]).astype(np.int64)
    source = np.concatenate([graph.sources + by for graph, by in zip(graphs, shift[:-1], strict=True)]).astype(np.int64)
    event = np.concatenate([graph.events for graph in graphs]).astype(np.int64)
    variable = np.concatenate([graph.variables for graph in graphs]).astype(np.int64)
    nodes = int(shift[-1])
    ignored = np.flatnonzero(variable < 0)
    uniting, dividing = (np.bincount(one[ignored], minlength=nodes) > 1 for one in (target, source))
    passed = ignored[~(uniting[target[ignored]] | dividing[source[ignored]])]
    chain = np.arange(nodes)  # the first node of each one's chain
    chain[target[passed]] = source[passed]
    while (chain[chain] != chain).any():
        chain = chain[chain]
    left = np.delete(np.arange(len(target)), passed)
    left = left[np.argsort(chain[target[left]], kind="stable")]
    target, source, event, variable = target[left], source[left], event[left], variable[left]
    keys = chain[target] * nodes + target
    begins = np.searchsorted(keys, chain * nodes)
    ends = np.searchsorted(keys, chain * nodes + np.arange(nodes), "right")
    root = np.zeros(nodes, dtype=bool)
    root[shift[:-1]] = True
    node, link, owner = shift[1:] - 1, np.full(len(graphs), -1, np.int64), np.arange(len(graphs))
    entries: list[tuple[Array, Array, Array]] = []
    used = 0
    done: list[tuple[Array, Array]] = []
    ended = 0
    while len(node):
        counts = ends[node] - begins[node]
        edge = ranges(begins[node], counts)
        link, owner = np.repeat(link, counts), np.repeat(owner, counts)
        binds = variable[edge] >= 0
        bound = edge[binds]
        entries.append((event[bound], variable[bound], link[binds]))
        link[binds] = np.arange(used, used + len(bound))
        used += len(bound)
        node = source[edge]
        complete = root[node]
        if complete.any():
            done.append((link[complete], owner[complete]))
            ended += len(done[-1][0])
            node, link, owner = node[~complete], link[~complete], owner[~complete]
        if ended + len(node) > most:
            raise ValueError(f"it holds more than the {most:,} matches that it is said to hold")
    events, variables, following = (np.concatenate(column) for column in zip(*entries, strict=True))
    links = np.concatenate([links for links, _ in done])
    owners = np.concatenate([owners for _, owners in done])
    found: list[tuple[Array, Array]] = []
    match = np.arange(len(links))
    while len(links):
        found.append((match, links))
        links = following[links]
        match, links = match[links >= 0], links[links >= 0]
    matches = np.concatenate([part for part, _ in found])
    elements = np.concatenate([part for _, part in found])
    order = np.lexsort((events[elements], variables[elements], matches))
    elements = elements[order]
    sizes = np.bincount(matches, minlength=len(owners))
    listed = ListedMatches(
        np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))),
        events[elements].astype(np.int32),
        variables[elements].astype(np.int16),
    )
    return listed, owners


@dataclass(frozen=True)
class _Reading:
    """One way to read a prefix: the variable of each event, of the latest one last."""

    events: tuple[int, ...]
    variables: tuple[int, ...]


class OrderedPaths:
    """The matches of one buffer in the page's order, found part after part.

    Parameters
    ----------
    paths
        The buffer's graph.
    seqs
        The seq of each of its events.
    most
        Matches that are found together; it may be changed at any time.

    Notes
    -----
    The time of a part is that of a few passes over the graph for each prefix that it begins with.
    """

    def __init__(self, paths: Paths, seqs: Array, most: int) -> None:
        self._paths, self._seqs, self.most = paths, seqs.tolist(), most
        columns = (paths.sources, paths.targets, paths.variables, paths.events)
        self._columns = [np.ascontiguousarray(one, np.int64) for one in columns]
        self._fixed = np.full(len(seqs), -1, np.int64)
        self._times = np.zeros(paths.nodes + len(seqs) + 1, np.int64)
        self._amounts, self._useful = np.zeros(paths.nodes, np.int64), np.zeros(len(paths.sources), np.uint8)

    def parts(self) -> Iterator[ListedMatches]:
        """All matches, at most `most` in a part, in any order there."""
        stack = [[_Reading((), ())]]
        while stack:
            readings = stack.pop()
            counted = [(self._through(reading), self._useful != 0) for reading in readings]
            edges = [useful for _, useful in counted]
            count = sum(paths for paths, _ in counted)
            if count > max(self.most, MATCHES_AN_EDGE * len(self._useful)):
                stack += reversed(self._longer(readings, edges))
                edges = [self._useful != 0 for one in readings if one.events and self._through(one, exactly=True)]
                count = len(edges)
            if count:
                yield all_paths([self._some(useful) for useful in edges if useful.any()], count)[0]

    def _some(self, useful: Array) -> Paths:
        """The graph of some edges."""
        paths = self._paths
        columns = (one[useful] for one in (paths.sources, paths.targets, paths.events, paths.variables))
        return Paths(paths.nodes, *columns)

    def _longer(self, readings: list[_Reading], useful: list[Array]) -> list[list[_Reading]]:
        """The prefixes with one more event that may have matches, by seq; readings by their variables."""
        _, _, variables, events = self._columns
        found: dict[int, list[_Reading]] = {}
        for reading, edges in zip(readings, useful, strict=True):
            bound = edges & (variables >= 0)
            behind = (reading.variables[-1], reading.events[-1]) if reading.events else (-1, -1)
            for word in np.unique(variables[bound] << 32 | events[bound]).tolist():
                variable, event = word >> 32, word & 0xFFFFFFFF
                if (variable, event) > behind and event not in reading.events:
                    longer = _Reading((*reading.events, event), (*reading.variables, variable))
                    found.setdefault(event, []).append(longer)
        return [found[event] for event in sorted(found, key=self._seqs.__getitem__)]

    def _through(self, reading: _Reading, *, exactly: bool = False) -> int:
        """The number of paths that bind what a reading says, and then perhaps more; marks their edges."""
        self._fixed.fill(-1)
        self._fixed[list(reading.events)] = reading.variables
        current, latest = (reading.variables[-1], reading.events[-1]) if reading.events else (-1, -1)
        sources, targets, variables, events = self._columns
        return _paths_through(
            *(self._paths.nodes, len(sources), sources, targets, variables, events, len(self._fixed), self._fixed),
            *(current, latest, int(exactly), self._times, self._amounts, self._useful),
        )


FIRST_ROWS, MOST_ROWS = 64, 1 << 16
"""Rows of the first batch, and of the largest; each batch may have four times as many as the one before."""
AT_ONCE = 1 << 17
"""Matches with one end up to which they are all found before they are ordered."""
MATCHES_AN_EDGE = 1
"""Matches for each edge of a graph that are found together: that takes no longer than to look at the edges."""


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
        The table is none of that form, a buffer is damaged, or the statement of a pattern is in neither the metadata
        nor a row of the table.

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
        if table.column_names.count(field.name) != 1 or table.schema.field(field.name).type != field.type:
            raise InputError(
                f"a compressed table has the columns {', '.join(expected.names)}; this one has "
                f"{', '.join(f'{f.name} {f.type}' for f in table.schema)}: give what output 'compressed' made"
            )
        if table.column(field.name).null_count:
            raise InputError(f"column {field.name!r} of the compressed table has rows without a value: it is damaged")
    statements = statements_in(table)
    if not statements:
        raise InputError("a compressed table without rows says nothing of its patterns: its metadata have been lost")
    patterns = [pattern_of(statement) for statement in statements.values()]
    schema = matches_schema(patterns[0]) if len(patterns) == 1 else MANY_PATTERNS
    return pa.RecordBatchReader.from_batches(schema, _batches(table, statements, typed=len(patterns) == 1))


def statements_in(table: pa.Table) -> dict[int, str]:
    """The statements of a table's patterns by their digests: those that its metadata have, and those of its rows."""
    statements = {digest_of(statement): statement for statement in statements_of(table.schema)}
    names = table.column("pattern").combine_chunks().dictionary_encode()
    _, rows = np.unique(names.indices.to_numpy(), return_index=True)
    buffers = table.column("buffer")
    versions = pc.binary_slice(buffers, VERSION_AT, VERSION_AT + 1)
    brief = pc.equal(versions, bytes([BRIEF]))
    for row in sorted(rows.tolist()):
        if not brief[row].as_py():
            statement = MatchesOfEvent.from_bytes(buffers[row].as_py(), statements).statement
            statements[digest_of(statement)] = statement
    left_out = pc.unique(pc.binary_slice(buffers.filter(brief), DIGEST_AT, DIGEST_AT + 8)).to_pylist()
    unknown = {int.from_bytes(digest, "little", signed=True) for digest in left_out} - statements.keys()
    for row in np.flatnonzero(pc.equal(versions, bytes([PLAIN])).to_numpy()).tolist() if unknown else ():
        statement = MatchesOfEvent.from_bytes(buffers[row].as_py(), statements).statement
        statements[digest_of(statement)] = statement
        unknown.discard(digest_of(statement))
        if not unknown:
            break
    return statements


def _batches(table: pa.Table, statements: Mapping[int, str], *, typed: bool) -> Iterator[pa.RecordBatch]:
    """Batches of growing size; rows with few matches are expanded together."""
    size = FIRST_ROWS
    waiting: list[MatchesOfEvent] = []
    held = 0
    for count, buffer in _in_turn(table, statements):
        alone = count > AT_ONCE and isinstance(buffer.matches, Paths)
        if waiting and (alone or held + count > size or buffer.statement != waiting[0].statement):
            yield from _expanded(waiting, held, typed=typed)
            size = min(4 * size, MOST_ROWS)
            waiting, held = [], 0
        if alone:
            yield from _part_by_part(buffer, count, size, typed=typed)
            size = MOST_ROWS
            continue
        waiting.append(buffer)
        held += count
    if waiting:
        yield from _expanded(waiting, held, typed=typed)


def _in_turn(table: pa.Table, statements: Mapping[int, str]) -> Iterator[tuple[int, MatchesOfEvent]]:
    """The contents of all buffers in the order of the table, several together where they can be, with their counts."""
    counts = _counts(table.column("count"))
    few = np.minimum(counts, MOST_ROWS + 1).astype(np.int64)  # enough to know whether rows fit into MOST_ROWS
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(few)))
    begin, most = 0, FIRST_ROWS
    for buffers in table.column("buffer").chunks:
        bounds = runs_of_alike(buffers)
        row = 0
        while row < len(buffers):
            first = row
            alike = int(bounds[np.searchsorted(bounds, first, "right")])
            fits = int(np.searchsorted(before, before[begin + first] + most, "right")) - 1 - begin
            row = min(max(fits, first + 1), alike)
            one = row == first + 1
            count = int(counts[begin + first] if one else before[begin + row] - before[begin + first])
            yield count, _read(buffers.slice(first, row - first), statements)
            most = min(4 * most, MOST_ROWS)
        begin += len(buffers)


def _counts(texts: pa.ChunkedArray) -> Array:
    """The number of matches of each row: int64, or Python's integers where one is larger."""
    if pc.all(pc.match_substring_regex(texts, "^[1-9][0-9]{0,17}$")).as_py():
        return np.asarray(texts.cast(pa.int64()).to_numpy())
    return np.array([count_of(text) for text in texts.to_pylist()], object)


def _read(buffers: pa.Array, statements: Mapping[int, str]) -> MatchesOfEvent:
    """Some buffers that are read together, and fit the pattern that they name."""
    buffer = MatchesOfEvent.read(buffers, statements)
    pattern = pattern_of(buffer.statement)
    bound = buffer.matches.variables
    if bound.min() < (-1 if isinstance(buffer.matches, Paths) else 0) or bound.max() >= len(pattern.operands):
        raise InputError(f"a buffer of matches is damaged: it binds other variables than those of {pattern.name!r}")
    events = buffer.events
    for name, kind in attributes_kept(pattern):
        try:
            place = events.column_names.index(name)
            events = events.set_column(place, name, events.column(name).cast(ARROW_TYPES[kind], safe=False))
        except (ValueError, pa.ArrowException) as error:
            raise InputError(f"a buffer of matches is damaged: it lacks values of the attribute {name!r}") from error
    return replace(buffer, events=events)


def _other_number(said: int, found: int) -> InputError:
    return InputError(
        f"a buffer of matches is damaged: it is said to hold {decimal_text(said)} matches and holds {found:,}"
    )


def _expanded(buffers: list[MatchesOfEvent], count: int, *, typed: bool) -> Iterator[pa.RecordBatch]:
    """The matches of some buffers of one pattern, `count` of them, all found together and then ordered."""
    pattern = pattern_of(buffers[0].statement)
    events, rows = _events_of(pattern, buffers)
    parts = [(rows[n], buffer.matches) for n, buffer in enumerate(buffers) if isinstance(buffer.matches, ListedMatches)]
    graphs = [(rows[n], buffer.matches) for n, buffer in enumerate(buffers) if isinstance(buffer.matches, Paths)]
    if graphs:
        try:
            listed, owner = all_paths([graph for _, graph in graphs], count)
        except ValueError as error:
            raise InputError(f"a buffer of matches is damaged: {error}") from error
        first = np.cumsum([0, *(len(own) for own, _ in graphs)])[:-1]
        together = np.concatenate([own for own, _ in graphs])
        shift = np.repeat(first[owner], np.diff(listed.offsets))
        parts.append((together, ListedMatches(listed.offsets, listed.events + shift, listed.variables)))
    ordered = _in_order(pattern, parts, events)
    if len(ordered) != count:
        raise _other_number(count, len(ordered))
    yield from match_batches(pattern, ordered, events, typed=typed)


def _in_order(pattern: Pattern, parts: list[tuple[Array, ListedMatches]], events: PreparedEvents) -> OrderedLists:
    """Matches in the page's order, each part over events of these rows."""
    sizes = np.concatenate([np.diff(listed.offsets) for _, listed in parts])
    found = OrderedLists(
        tuple(operand.variable for operand in pattern.operands),
        np.append(0, np.cumsum(sizes)),
        np.concatenate([own[listed.events] for own, listed in parts]).astype(np.int32),
        np.concatenate([listed.variables for _, listed in parts]).astype(np.int32),
    )
    return in_order(found, events.seqs)


def _part_by_part(buffer: MatchesOfEvent, count: int, size: int, *, typed: bool) -> Iterator[pa.RecordBatch]:
    """The matches of one buffer, found in order."""
    assert isinstance(buffer.matches, Paths)
    pattern = pattern_of(buffer.statement)
    events, [rows] = _events_of(pattern, [buffer])
    paths = OrderedPaths(buffer.matches, buffer.events.column("seq").to_numpy(), size)
    held: list[tuple[Array, ListedMatches]] = []
    waiting, listed = 0, 0
    for part in paths.parts():
        held.append((rows, part))
        waiting += len(part.offsets) - 1
        if waiting >= paths.most:
            yield from match_batches(pattern, _in_order(pattern, held, events), events, typed=typed)
            held, waiting, listed = [], 0, listed + waiting
            paths.most = min(4 * paths.most, MOST_ROWS)
    if held:
        yield from match_batches(pattern, _in_order(pattern, held, events), events, typed=typed)
    if listed + waiting != count:
        raise _other_number(count, listed + waiting)


def _events_of(pattern: Pattern, buffers: list[MatchesOfEvent]) -> tuple[PreparedEvents, list[Array]]:
    """The events of some buffers in stream order, each once, and the row of each buffer's events among them."""
    try:
        together = pa.concat_tables([buffer.events for buffer in buffers])
    except pa.ArrowException as error:
        raise InputError(f"buffers of matches are damaged, their attributes differ: {brief(error)}") from error
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
