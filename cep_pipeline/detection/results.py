"""`Matches`: the tables that detection returns, which know the events that they are about, a row each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.charts import Drawing, MatchSeries, draw_match
from cep_pipeline.detection.matches import BINDINGS, FIXED_FIELDS
from cep_pipeline.errors import InputError
from cep_pipeline.expressions.columns import Array
from cep_pipeline.foreign_text import html_table
from cep_pipeline.storage import id_texts, place_of_id

if TYPE_CHECKING:
    import pandas
    import polars

    from cep_pipeline.patterns.pattern import Pattern

SHOWN_ROWS = 10
"""Matches of a pattern that a notebook shows."""


class Matches(dict[str, pa.Table]):
    """Pattern name -> its matches as an Arrow table: a dictionary that turns into what programs want.

    Parameters
    ----------
    tables
        Pattern name -> its matches.
    find_events
        Returns the events of some matches, a row each (`match_events`).
    draw
        Draws a match, given as a row, over an attribute, in a time zone.
    inside
        Further tables of matches, which those of the tables compose.
    """

    def __init__(
        self,
        tables: Mapping[str, pa.Table],
        find_events: Callable[[pa.Table], pa.Table],
        draw: Callable[[Mapping[str, Any], str | None, str | None], Drawing],
        inside: Mapping[str, pa.Table] | None = None,
    ) -> None:
        super().__init__(tables)
        self._inside = {**(inside or {}), **tables}
        self._find_events = find_events
        self._draw = draw

    def __repr__(self) -> str:
        return (
            f"<Matches {', '.join(f'{name}: {table.num_rows:,}' for name, table in self.items()) or 'of no pattern'}>"
        )

    def to_arrow(self) -> pa.Table:
        """Return the matches of all patterns as one table; a RETURN column that a pattern lacks is null in its rows.

        Raises
        ------
        InputError
            Two patterns have RETURN columns of one name whose types have nothing in common.
        """
        try:
            return pa.concat_tables(self._tables(), promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InputError(
                f"the matches of {', '.join(self)} do not fit one table: {error}; take the table of each pattern, such "
                f"as matches[{next(iter(self))!r}]"
            ) from error

    def to_pandas(self) -> pandas.DataFrame:
        """Return the matches of all patterns as one pandas DataFrame; ids are text, as pandas has no UUIDs."""
        return _with_id_texts(self.to_arrow()).to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return the matches of all patterns as one Polars DataFrame, ids as text; `polars` has to be installed."""
        import polars

        frame = polars.from_arrow(_with_id_texts(self.to_arrow()))
        assert isinstance(frame, polars.DataFrame)
        return frame

    def events(self, pattern: str | None = None) -> pa.Table:
        """Return the events of the matches of one pattern, or of all, a row each.

        Of a match that binds matches of other patterns these are the events inside: `p.a` is the event that variable
        `a` has in the match that variable `p` binds.

        Returns
        -------
        pyarrow.Table
            `pattern`, `match_id`, `variable`, `timestamp`, `seq` and the attributes, in the order of the matches.

        Raises
        ------
        InputError
            There is no such pattern, or the matches are counted or compressed.
        """
        if pattern is None:
            found = [self._find_events(self._opened(table)) for table in self._tables()]
            return pa.concat_tables(found, promote_options="permissive")
        return self._find_events(self._opened(self._of(pattern)))

    def chart(
        self,
        pattern: str | None = None,
        match: int | str | UUID = 0,
        attribute: str | None = None,
        timezone: str | None = None,
    ) -> Drawing:
        """Draw a match on the series of its events: the bound events are marked, and the window is shown.

        Parameters
        ----------
        pattern
            May be left out where there are matches of one pattern only.
        match
            Its place among the matches of the pattern, from 0, or its `match_id`, as a UUID or as text.
        attribute
            The attribute of numbers to draw; None: the first one that the pattern reads.
        timezone
            Time zone of the axis; None: that of the stream, or UTC where that is not known.

        Returns
        -------
        Drawing
            A notebook shows it, and `.save("match.html")` writes it to a file: .html, .svg or .png.

        Raises
        ------
        InputError
            There is no such pattern, match or attribute, or the matches are counted or compressed.
        """
        if pattern is None and len(self) != 1:
            raise InputError(f"which pattern? There are matches of: {', '.join(self) or 'none'}")
        table = self._of(next(iter(self)) if pattern is None else pattern)
        if "bindings" not in table.column_names:
            raise InputError("these matches do not say their events; detect with the output 'verbose'")
        place = match if isinstance(match, int) else place_of_id(table["match_id"], match)
        if not 0 <= place < table.num_rows:
            raise InputError(f"there is no match {match!r} of this pattern; it has {table.num_rows:,} of them")
        return self._draw(self._opened(table.slice(place, 1)).to_pylist()[0], attribute, timezone)

    def _opened(self, table: pa.Table) -> pa.Table:
        return opened(table, list(self._inside.values()))

    def _of(self, pattern: str) -> pa.Table:
        if pattern not in self:
            raise InputError(f"there are no matches of a pattern {pattern!r}; there are those of: {', '.join(self)}")
        return self[pattern]

    def _tables(self) -> Collection[pa.Table]:
        """The tables of all patterns, an empty one where there is no pattern."""
        return self.values() or [pa.schema(FIXED_FIELDS).empty_table()]

    def _repr_html_(self) -> str:
        parts = []
        for name, table in self.items():
            rows: list[dict[str, Any]] = table.slice(0, SHOWN_ROWS).to_pylist()
            for row in rows:
                for name in ("bindings", "composed"):
                    if isinstance(row.get(name), list) and all(isinstance(one, dict) for one in row[name]):
                        row[name] = ", ".join(" ".join(map(str, one.values())) for one in row[name])
            title = f"{name}: {table.num_rows:,}" + (f", the first {SHOWN_ROWS}" if table.num_rows > SHOWN_ROWS else "")
            parts.append(html_table(table.column_names, [list(row.values()) for row in rows], title))
        return "\n".join(parts)


def _with_id_texts(matches: pa.Table) -> pa.Table:
    return pa.table(
        {name: id_texts(column) for name, column in zip(matches.column_names, matches.columns, strict=True)}
    )


def draw_among(
    match: Mapping[str, Any],
    attribute: str | None,
    timezone: str | None,
    *,
    patterns: Sequence[Pattern],
    events: pa.Table,
) -> Drawing:
    """Draw a match on the events that it was found among."""
    from cep_pipeline.events.schema import schema_told_by

    pattern = next(one for one in patterns if one.name == match["pattern"])
    series = MatchSeries.of(events.schema, pattern, attribute)
    read = events.select(series.columns)
    for place, field in enumerate(read.schema):
        if field.name == "timestamp":
            read = read.set_column(place, field.name, read.column(place).cast(pa.timestamp("us", "UTC")))
        elif pa.types.is_dictionary(field.type):
            read = read.set_column(place, field.name, read.column(place).cast(field.type.value_type))
    bound = read.filter(pc.field("seq").isin([one["seq"] for one in match["bindings"]]))
    # Events inside of composed matches may come before the timestamps that the match sees.
    match = {**match, "start_ts": min([match["start_ts"], *bound["timestamp"].to_pylist()])}
    _, _, near = series.near(match, bound)
    told = schema_told_by(events)
    return draw_match(match, read.filter(near), series, pattern, timezone or (told.timezone if told else "UTC"))


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


def attributes_read(pattern: Pattern) -> tuple[str, ...]:
    """Return the attributes that a pattern and those that it composes read, the event type first."""
    from cep_pipeline.patterns.pattern import with_composed
    from cep_pipeline.slices.events_input import columns_needed

    return tuple(name for name in columns_needed(with_composed([pattern])) if name not in _CLOCK)
