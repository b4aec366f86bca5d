"""`Matches`: the tables that detection returns, which know the events that they are about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cep_pipeline.errors import InputError
from cep_pipeline.foreign_text import html_table

if TYPE_CHECKING:
    import pandas
    import polars

SHOWN_ROWS = 10
"""Matches of a pattern that a notebook shows."""
_NAMED = 4


class Matches(dict[str, pa.Table]):
    """Pattern name -> its matches as an Arrow table: a dictionary that turns into what programs want.

    Parameters
    ----------
    tables
        Pattern name -> its matches.
    find_events
        Returns the events of some matches, a row each (`match_events`).
    """

    def __init__(self, tables: Mapping[str, pa.Table], find_events: Callable[[pa.Table], pa.Table]) -> None:
        super().__init__(tables)
        self._find_events = find_events

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
        """Return the matches of all patterns as one pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return the matches of all patterns as one Polars DataFrame; `polars` has to be installed."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def events(self, pattern: str | None = None) -> pa.Table:
        """Return the events of the matches of one pattern, or of all, a row each.

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
            return pa.concat_tables(map(self._find_events, self._tables()), promote_options="permissive")
        if pattern not in self:
            raise InputError(f"there are no matches of a pattern {pattern!r}; there are those of: {', '.join(self)}")
        return self._find_events(self[pattern])

    def _tables(self) -> Collection[pa.Table]:
        """The tables of all patterns, an empty one where there is no pattern."""
        from cep_pipeline.detection.matches import FIXED_FIELDS

        return self.values() or [pa.schema(FIXED_FIELDS).empty_table()]

    def _repr_html_(self) -> str:
        parts = []
        for name, table in self.items():
            rows: list[dict[str, Any]] = table.slice(0, SHOWN_ROWS).to_pylist()
            for row in rows:
                if "bindings" in row:
                    row["bindings"] = ", ".join(f"{bound['variable']} {bound['seq']}" for bound in row["bindings"])
            title = f"{name}: {table.num_rows:,}" + (f", the first {SHOWN_ROWS}" if table.num_rows > SHOWN_ROWS else "")
            parts.append(html_table(table.column_names, [list(row.values()) for row in rows], title))
        return "\n".join(parts)
