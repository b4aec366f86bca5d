"""Matches as rows of the matches table (docs/language.md, section 5): ordered, identified, with RETURN columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.match_ids import MatchIdentity, MatchRows, ids_array
from cep_pipeline.detection.ordering import OrderedLists, OrderedMatches, order_matches
from cep_pipeline.detection.output_policy import Candidates, KeptMatches, partition_keys
from cep_pipeline.events.columns import ARROW_TYPES
from cep_pipeline.expressions.columns import Array, Column, one_chunk
from cep_pipeline.expressions.evaluate import expression_values
from cep_pipeline.expressions.lists import Bound, Lists, values_over_lists
from cep_pipeline.patterns.expressions import (
    Aggregate,
    Call,
    Element,
    Expression,
    Length,
    Reference,
    ValueType,
    variables_of,
    walk,
)
from cep_pipeline.patterns.pattern import Pattern, ReturnItem, once_a_pattern
from cep_pipeline.patterns.rewriting import rewritten
from cep_pipeline.slices.blocks import Block
from cep_pipeline.slices.prepared import PreparedEvents

UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")
BINDINGS = pa.list_(pa.struct([("variable", pa.string()), ("seq", pa.int64())]))
COMPOSED = pa.list_(pa.struct([("variable", pa.string()), ("match_id", pa.uuid())]))
"""The column `composed` of a pattern that composes: the composed events of the bindings, in their order."""
FIXED_FIELDS = (
    pa.field("pattern", pa.string()),
    pa.field("match_id", pa.uuid()),
    pa.field("start_ts", UTC_MICROSECONDS),
    pa.field("end_ts", UTC_MICROSECONDS),
    pa.field("bindings", BINDINGS),
)
MANY_PATTERNS = pa.schema([*FIXED_FIELDS, pa.field("returns", pa.string())])
"""Columns of a table of the matches of many patterns: RETURN as JSON text, null where the pattern has none."""
COMPOSING_PATTERNS = MANY_PATTERNS.insert(len(FIXED_FIELDS), pa.field("composed", COMPOSED))
"""The same where some of the patterns compose others; `composed` is null for those that do not."""
CANDIDATES = pa.schema(
    [*MANY_PATTERNS, pa.field("instants", pa.list_(pa.int64())), pa.field("partition", pa.string())],
)
"""Matches that OUTPUT and CONSUME have still to decide about: with the timestamp of each event of the bindings in
microseconds, and the values of PARTITION BY as text (null: alone in its partition)."""
BATCH_ROWS = 1 << 17
"""Matches made into Arrow arrays at once: what is held beside the sorted row numbers."""


@once_a_pattern
def matches_schema(pattern: Pattern) -> pa.Schema:
    """Columns of a table of one pattern's matches: the RETURN columns are typed."""
    returned = (pa.field(item.name, type_of(item)) for item in pattern.items)
    composed = [pa.field("composed", COMPOSED)] if pattern.composes else []
    return pa.schema([*FIXED_FIELDS, *composed, *returned])


def composes(columns: pa.Schema) -> bool:
    """Return whether these are the columns of a pattern that composes others; a RETURN column may be named alike."""
    place = columns.get_field_index("composed")
    return place == len(FIXED_FIELDS) and bool(columns.field(place).type == COMPOSED)


def write_matches(
    pattern: Pattern,
    blocks: Iterable[Block],
    events: PreparedEvents,
    sink: Callable[[pa.RecordBatch], object],
    *,
    typed: bool = False,
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
    ordered = order_matches(found, events.seqs, growing=events.seqs_grow)
    del found
    written = 0
    for batch in match_batches(pattern, ordered, events, typed=typed, candidates=candidates):
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
    """Ordered matches as batches of rows, as `write_matches` takes them; `kept` decides for OUTPUT and CONSUME."""
    identity = MatchIdentity.of(pattern)
    schema = matches_schema(pattern) if typed else CANDIDATES if candidates else MANY_PATTERNS
    if kept is not None and pattern.output.is_preferred:
        ordered, kept = ordered.where(kept.keep(Candidates.of(pattern, ordered, events))), None
    for start in range(0, len(ordered), BATCH_ROWS):
        part = ordered.between(start, min(start + BATCH_ROWS, len(ordered)))
        if kept is not None:
            part = part.where(kept.keep(Candidates.of(pattern, part, events)))
            if not len(part):
                continue
        rows = identity.rows_of(part, events.timestamps, events.seqs)
        returned = return_arrays(pattern, part, events)
        if not typed:
            names = [item.name for item in pattern.items]
            returned = [json_objects(names, returned) if names else pa.nulls(len(part), pa.string())]
        columns = [
            pa.repeat(pattern.name, len(part)),
            ids_array(rows.ids),
            _instants(rows.starts),
            _instants(rows.ends),
            _bindings(part.names, rows),
            *returned,
        ]
        if candidates:
            elements_at, bound, _ = part.elements()
            offsets = pa.array(rows.offsets.astype(np.int32))
            instants = pa.ListArray.from_arrays(offsets, pa.array(events.timestamps[bound]))
            columns += [instants, partition_keys(pattern, events, bound[elements_at[:-1]]).cast(pa.string())]
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


def _bindings(names: tuple[str, ...], rows: MatchRows) -> pa.Array:
    """The bindings of matches."""
    if rows.variables is None:
        offsets, named = _all_named(names, len(rows.ids))
    else:
        offsets, named = _named(names, rows.offsets, rows.variables)
    elements = pa.StructArray.from_arrays([named, pa.array(rows.seqs)], fields=list(BINDINGS.value_type))
    return pa.ListArray.from_arrays(offsets, elements)


@lru_cache(maxsize=8)
def _all_named(names: tuple[str, ...], matches: int) -> tuple[pa.Array, pa.Array]:
    """The same for so many matches each of which binds all of the variables: batches are mostly of one size."""
    width = len(names)
    return _named(names, np.arange(matches + 1) * width, np.tile(np.arange(width, dtype=np.int32), matches))


def _named(names: tuple[str, ...], offsets: Array, variables: Array) -> tuple[pa.Array, pa.Array]:
    """The offsets of matches, and the names of their variables one after another."""
    letters = "".join(names).encode()
    starts = pa.array(offsets.astype(np.int32))
    if len(letters) == len(names):  # of one letter each, as most are: numbers of variables are put into letters at once
        text = variables.astype(np.uint8).tobytes().translate(letters.ljust(256))
        ends = pa.py_buffer(np.arange(len(text) + 1, dtype=np.int32))
        return starts, pa.StringArray.from_buffers(len(text), ends, pa.py_buffer(text))
    try:
        return starts, pa.array(names, pa.string()).take(pa.array(variables))
    except pa.ArrowInvalid as error:
        raise MemoryError(f"the variables of {len(offsets) - 1:,} matches have more than 2**31 letters") from error


def type_of(item: ReturnItem) -> pa.DataType:
    """Return the Arrow type of a RETURN column."""
    return UTC_MICROSECONDS if item.is_time else ARROW_TYPES[item.expression.type]


def return_arrays(pattern: Pattern, matches: OrderedMatches | OrderedLists, events: PreparedEvents) -> list[pa.Array]:
    """One array for each RETURN item; null where a match's branch lacks a variable of the item.

    Of a list `A* v[]` that is absent the length and count() are 0, and coalesce(), least() and greatest() skip nulls.
    """
    kleene = frozenset(operand.variable for operand in pattern.operands if operand.kleene)
    optional = frozenset(operand.variable for operand in pattern.operands if operand.kleene and operand.optional)

    def array_of(expression: Expression) -> pa.Array:
        if len(pattern.clauses) > 1 and any(_reads_absence(node, optional) for node in walk(expression)):
            return _array_with_absent(expression, matches, kleene, optional, events)
        return _array_of(expression, matches, kleene, events)

    arrays = [(item, array_of(item.expression)) for item in pattern.items]
    return [array.cast(UTC_MICROSECONDS) if item.is_time else array for item, array in arrays]


def _array_of(
    expression: Expression, matches: OrderedMatches | OrderedLists, kleene: frozenset[str], events: PreparedEvents
) -> pa.Array:
    """An item's values; evaluated only for the matches that bind all its variables."""
    names = sorted(variables_of(expression))
    if any(name not in matches.names for name in names):  # no branch with this variable has a match here
        return pa.nulls(len(matches), ARROW_TYPES[expression.type])
    present, bound = _bound_where_present(names, matches, kleene)
    count = len(matches) if present is None else int(present.sum())
    if expression.type is ValueType.FLOAT64_LIST:  # no expression makes lists but those that refer to one event
        assert isinstance(expression, Reference | Aggregate)
        array = _list_attribute(expression.attribute, _event_of(expression, bound), events)
    else:
        array = column_to_arrow(values_over_lists(expression, events, bound, count))
    if present is None:
        return array
    return array.take(pa.array(np.cumsum(present) - 1, pa.int64(), mask=~present))


def _bound_where_present(
    names: Iterable[str], matches: OrderedMatches | OrderedLists, kleene: frozenset[str]
) -> tuple[Array | None, dict[str, Array | Lists]]:
    """The matches that bind all of some variables (None: all matches do), and what these bind there."""
    values: dict[str, Array | Lists] = {}
    present: Array | None = None
    for name in names:
        if isinstance(matches, OrderedMatches):
            values[name] = matches.rows[matches.names.index(name)]
            continue
        starts, lengths = matches.spans_of(name)
        values[name] = Lists(starts, lengths, matches.bound_rows)
        if not lengths.all():
            present = lengths > 0 if present is None else present & (lengths > 0)
    bound: dict[str, Array | Lists] = {}
    for name, value in values.items():
        if isinstance(value, Lists):
            taken = value if present is None else value.take(present)
            bound[name] = taken if name in kleene else taken.firsts()
        else:
            bound[name] = value if present is None else value[present]
    return present, bound


_SKIPPING_NULLS = frozenset({"coalesce", "least", "greatest"})


def _reads_absence(node: Expression, optional: frozenset[str]) -> bool:
    """Return whether a node of an expression may have a value though a variable below it is not bound."""
    if isinstance(node, Call):
        return node.function in _SKIPPING_NULLS
    return _counts(node) and isinstance(node, Length | Aggregate) and node.variable in optional


def _counts(node: Expression) -> bool:
    return isinstance(node, Length) or (isinstance(node, Aggregate) and node.function == "count")


@dataclass
class _Leaves:
    """The values of an expression's references in each match, as columns: null where a variable is not bound."""

    matches: OrderedMatches | OrderedLists
    kleene: frozenset[str]
    optional: frozenset[str]
    events: PreparedEvents
    columns: dict[str, Column] = field(default_factory=dict)
    rows: dict[str, Array] = field(default_factory=dict)

    def column(self, name: str) -> Column:
        return self.columns[name]

    def named(self, node: Expression) -> Expression:
        """A reference to the column of a node; literals stay as they are."""
        if not isinstance(node, Reference | Length | Aggregate):
            return node
        name = str(len(self.columns))
        self.columns[name], self.rows[name] = self._values(node)
        return Reference(name, name, Element.ONLY, node.type)

    def _values(self, node: Reference | Length | Aggregate) -> tuple[Column, Array]:
        """A column, and the place in it for each match."""
        present, bound = self._bound(node.variable)
        places = np.cumsum(present) - 1
        if node.type is ValueType.FLOAT64_LIST:
            assert not isinstance(node, Length)
            column, places = self.events.column(node.attribute), np.zeros(len(present), np.int64)
            places[present] = _event_of(node, bound)
        else:
            column = values_over_lists(node, self.events, bound, int(present.sum()))
        column = _with_null(column)
        if _counts(node) and node.variable in self.optional:
            column = Column(column.type, np.append(column.values[:-1], 0))
        return column, np.where(present, places, len(column) - 1)

    def _bound(self, name: str) -> tuple[Array, dict[str, Array | Lists]]:
        """The matches that bind a variable, and what it binds there."""
        if name not in self.matches.names:
            nothing = np.zeros(0, np.int64)
            value = Lists(nothing, nothing, nothing) if name in self.kleene else nothing
            return np.zeros(len(self.matches), dtype=bool), {name: value}
        present, bound = _bound_where_present((name,), self.matches, self.kleene)
        return np.ones(len(self.matches), dtype=bool) if present is None else present, bound


def _array_with_absent(
    expression: Expression,
    matches: OrderedMatches | OrderedLists,
    kleene: frozenset[str],
    optional: frozenset[str],
    events: PreparedEvents,
) -> pa.Array:
    """An item's values where it may have one though a variable of it is not bound."""
    leaves = _Leaves(matches, kleene, optional, events)
    plain = rewritten(expression, leaves.named)
    return column_to_arrow(expression_values(plain, leaves, {"": np.zeros(len(matches), np.int64), **leaves.rows}))


def _with_null(column: Column) -> Column:
    """The column with a null behind its last row."""
    valid = np.append(np.ones(len(column), dtype=bool) if column.valid is None else column.valid, False)
    if column.offsets is not None:
        return Column(column.type, column.values, valid, None, np.append(column.offsets, column.offsets[-1]))
    return Column(column.type, np.append(column.values, column.values.dtype.type(0)), valid, column.dictionary)


def _event_of(node: Reference | Aggregate, bound: Bound) -> Array:
    """The row of the one event that a reference, or the aggregate first or last, means in each match."""
    value = bound[node.variable]
    if not isinstance(value, Lists):
        return value
    last = node.element is Element.LAST if isinstance(node, Reference) else node.function == "last"
    return value.lasts() if last else value.firsts()


def _list_attribute(attribute: str, rows: Array, events: PreparedEvents) -> pa.Array:
    """A list attribute of events, as it is."""
    lists = events.table.column(attribute).take(pa.array(rows)).combine_chunks()
    return one_chunk(lists).cast(ARROW_TYPES[ValueType.FLOAT64_LIST])


def column_to_arrow(column: Column) -> pa.Array:
    """A column as an Arrow array."""
    missing = None if column.valid is None else ~column.valid
    if column.type is ValueType.STRING:
        strings = pa.array(column.dictionary, pa.string())
        return strings.take(pa.array(column.values, pa.int32(), mask=missing))
    return pa.array(column.values, ARROW_TYPES[column.type], mask=missing)


def json_objects(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    """Rows as JSON objects, without spaces, in column order.

    NaN and the infinities, for which JSON has no number, become the strings "NaN", "Infinity" and "-Infinity".

    Examples
    --------
    >>> rows = json_objects(["x", "s"], [pa.array([1.0, float("nan")]), pa.array(['say "hi"', None])])
    >>> print(rows[0], rows[1])
    {"x":1.0,"s":"say \\"hi\\""} {"x":"NaN","s":null}
    """
    parts: list[pa.Array | str] = []
    for index, (name, column) in enumerate(zip(names, columns, strict=True)):
        parts.append(f"{',' if index else '{'}{json.dumps(name, ensure_ascii=False)}:")
        parts.append(_json_values(column).fill_null("null"))
    return pc.binary_join_element_wise(*parts, "}", "")


def _json_values(column: pa.Array) -> pa.Array:
    """Each value as JSON text; null stays null."""
    kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_boolean(kind):
        return pc.if_else(column, "true", "false")
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.string())
    # Few distinct values or few rows: spelled one by one, each distinct value once.
    if pa.types.is_list(kind):
        spelled = [None if row is None else f"[{','.join(map(_json_value, row))}]" for row in column.to_pylist()]
        return pa.array(spelled, pa.string())
    coded = column.dictionary_encode()
    return pa.array(map(_json_value, coded.dictionary.to_pylist()), pa.string()).take(coded.indices)


def _json_value(value: float | str | None) -> str:
    if isinstance(value, float) and not np.isfinite(value):
        return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'
    return json.dumps(value, ensure_ascii=False)
