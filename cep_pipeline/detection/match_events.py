"""The events of matches, a row each: what a person wants to see of a match, and any engine reads without lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.matches import BINDINGS
from cep_pipeline.errors import InputError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.storage import id_texts

OF_MATCH = ("pattern", "match_id", "variable")
"""Columns that say which match a row belongs to, and which variable of its pattern binds the event."""


def match_events(matches: pa.Table, events: pa.Table, attributes: Sequence[str] | None = None) -> pa.Table:
    """Return the events that matches bind, in the order of the matches and of their bindings.

    Parameters
    ----------
    matches
        Matches in the verbose form, of one or several patterns.
    events
        Events with `seq`, in any order; those of other matches, or of none, may be among them.
    attributes
        Columns of the events that are taken beside `timestamp` and `seq`; None: all.

    Returns
    -------
    pyarrow.Table
        `pattern`, `match_id`, `variable`, then `timestamp`, `seq` and the attributes. An event that is not among the
        events has its `seq` alone.

    Raises
    ------
    InputError
        The matches are not in the verbose form, or the events lack a column.

    Examples
    --------
    >>> import cep_pipeline as cep
    >>> schema = cep.StreamSchema.from_dict({"type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}})
    >>> rows = [{"timestamp": 0, "kind": "A", "x": 1}, {"timestamp": 5, "kind": "B", "x": 3}]
    >>> patterns = cep.parse_patterns("NAME rise PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 1 second", schema)
    >>> events = schema.table(rows)
    >>> match_events(cep.detect(patterns, events)["rise"], events).select(["variable", "x"]).to_pylist()
    [{'variable': 'a', 'x': 1}, {'variable': 'b', 'x': 3}]
    """
    if "bindings" not in matches.column_names:
        raise InputError(
            f"these are no matches with their events: the columns are {', '.join(matches.column_names)}; detect with "
            "the output 'verbose', or expand what is compressed"
        )
    taken = [
        "timestamp",
        *(name for name in (events.column_names if attributes is None else attributes) if name not in _CLOCK),
    ]
    missing = [name for name in (*taken, "seq") if name not in events.column_names]
    if missing:
        raise InputError(f"the events have no column {missing[0]!r}; they have {', '.join(events.column_names)}")
    bindings = matches.column("bindings").combine_chunks()
    bound = pc.list_flatten(bindings)
    match = pc.list_parent_indices(bindings)
    seqs = bound.field("seq")
    place = pc.index_in(seqs, value_set=events.column("seq").combine_chunks())
    columns = {name: matches.column(name).take(match) for name in OF_MATCH[:2]}
    columns["variable"] = bound.field("variable")
    found = events.select(taken).take(place)
    columns |= {"timestamp": found.column("timestamp"), "seq": seqs}
    columns |= {_free(name): found.column(name) for name in taken[1:]}
    return pa.table(columns)


_CLOCK = ("timestamp", "seq")


def _free(name: str) -> str:
    """The column of an attribute, which may have the name of a column of the match."""
    return f"{name}_of_event" if name in OF_MATCH else name


def opened(matches: pa.Table, others: Sequence[pa.Table]) -> pa.Table:
    """Return matches with the events of the stream in place of the composed events among their bindings.

    Parameters
    ----------
    matches
        Matches in the verbose form.
    others
        Tables of matches, what is composed before what composes it. A composed event whose match is in none of them
        stays as it is.

    Returns
    -------
    pyarrow.Table
        The same rows. An event inside of a match that variable `p` binds has the variable `p.a`, where `a` binds it.
        The column `composed` has nulls, as the bindings no longer have its matches.
    """
    if not (_composes(matches) and matches.num_rows):
        return matches
    inside: list[pa.Table] = []
    for one in others:
        if "bindings" in one.column_names and one.num_rows:
            inside.append(_opened(one, inside))
    return _opened(matches, inside)


def _opened(matches: pa.Table, inside: Sequence[pa.Table]) -> pa.Table:
    """The matches with the bindings of other tables in place of composed events."""
    if not (_composes(matches) and inside):
        return matches
    ids = pa.chunked_array([chunk for one in inside for chunk in id_texts(one["match_id"]).chunks], pa.string())
    parts = _Flat.of(pa.chunked_array([chunk for one in inside for chunk in one["bindings"].chunks], BINDINGS))
    bindings, composed = _Flat.of(matches.column("bindings")), _Flat.of(matches.column("composed"))
    row = pc.index_in(id_texts(composed.elements.field("match_id")), value_set=ids.combine_chunks())
    row_of = _rows_inside(bindings, composed, parts, row.fill_null(-1).to_numpy())
    starts = parts.offsets
    known = np.flatnonzero(row_of >= 0)
    sizes = np.ones(len(row_of), np.int64)
    sizes[known] = starts[row_of[known] + 1] - starts[row_of[known]]
    element = np.repeat(np.arange(len(row_of)), sizes)  # of each event, the binding that it stands for
    place = np.arange(len(element)) - (np.cumsum(sizes) - sizes)[element]
    of_row = row_of[element]
    taken = pa.array(np.where(of_row >= 0, starts[of_row] + place, 0), pa.int64(), mask=of_row < 0)
    within = parts.elements.take(taken)
    outer, own = (bindings.elements.field(name).take(pa.array(element)) for name in ("variable", "seq"))
    names = pc.coalesce(pc.binary_join_element_wise(outer, within.field("variable"), "."), outer)
    seqs = pc.coalesce(within.field("seq"), own)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))[bindings.offsets]
    events = pa.StructArray.from_arrays([names, seqs], fields=list(BINDINGS.value_type))
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), events)
    none = pa.nulls(len(matches), matches.schema.field("composed").type)
    matches = matches.set_column(matches.schema.get_field_index("composed"), "composed", none)
    return matches.set_column(matches.schema.get_field_index("bindings"), "bindings", lists)


def _composes(matches: pa.Table) -> bool:
    """True if a match binds composed events; a published table has their ids as text."""
    if "composed" not in matches.column_names:
        return False
    column = matches.column("composed")
    is_list = pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type)
    return bool(is_list and column.null_count < len(column))


@dataclass(frozen=True, eq=False)
class _Flat:
    """A column of lists: match m has the elements from `offsets[m]` to `offsets[m + 1]`."""

    offsets: Array
    elements: pa.StructArray

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> _Flat:
        array = column.combine_chunks()
        array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(pc.list_value_length(array).fill_null(0))))
        # Arrow cannot flatten lists of ids where some are null; a list that is null has no elements in its place.
        return cls(offsets, array.values.slice(array.offsets[0].as_py(), int(offsets[-1])))

    def of_variables(self, names: pa.Array) -> Array:
        """int64: a number for each element that tells its match and its variable."""
        match = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        number: Array = pc.index_in(self.elements.field("variable"), value_set=names).to_numpy()
        return match * len(names) + number


def _rows_inside(bindings: _Flat, composed: _Flat, parts: _Flat, rows: Array) -> Array:
    """Return for each binding the row of `parts` with its events; -1 where it is an event, or they are not known.

    Parameters
    ----------
    rows
        For each composed event the row of its match in `parts`, or -1.
    """
    names = pc.unique(bindings.elements.field("variable"))
    keys, own = bindings.of_variables(names), composed.of_variables(names)
    distinct, where = np.unique(np.concatenate((keys, own)), return_inverse=True)
    of_binding, of_composed = where[: len(keys)], where[len(keys) :]
    size = len(distinct)
    whole = np.bincount(of_binding, minlength=size) == np.bincount(of_composed, minlength=size)
    found = np.full(len(keys), -1, np.int64)
    found[whole[of_binding]] = rows[whole[of_composed]]
    # A list of a variable of several types may have both. Behind an event stand the matches that end with it.
    seqs, inner = bindings.elements.field("seq").to_numpy(), parts.elements.field("seq").to_numpy()
    for group in np.unique(of_composed[~whole[of_composed]]):
        waiting: dict[int, list[int]] = {}
        for row in rows[of_composed == group]:
            if row >= 0:
                last = inner[parts.offsets[row] : parts.offsets[row + 1]].max()
                waiting.setdefault(int(last), []).append(int(row))
        for place in np.flatnonzero(of_binding == group)[::-1]:
            if waiting.get(int(seqs[place])):
                found[place] = waiting[int(seqs[place])].pop()
    return found
