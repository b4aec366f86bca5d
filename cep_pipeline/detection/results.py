"""`Matches`: the tables that detection returns, which know the events that they are about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.errors import InputError
from cep_pipeline.foreign_text import html_table
from cep_pipeline.match_chart import Drawing, MatchSeries, draw_match
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
        from cep_pipeline.detection.match_events import opened

        return opened(table, list(self._inside.values()))

    def _of(self, pattern: str) -> pa.Table:
        if pattern not in self:
            raise InputError(f"there are no matches of a pattern {pattern!r}; there are those of: {', '.join(self)}")
        return self[pattern]

    def _tables(self) -> Collection[pa.Table]:
        """The tables of all patterns, an empty one where there is no pattern."""
        from cep_pipeline.detection.matches import FIXED_FIELDS

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
