"""Pages of published matches: a few rows at a time, read by row groups, however many matches there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cep_pipeline.charts import Drawing, MatchSeries, draw_match
from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import DAY
from cep_pipeline.events.timestamps import moved
from cep_pipeline.storage import id_texts, open_parquet, place_of_id, read_data_file, read_group

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.questions.match_checks import Explanation
    from cep_pipeline.warehouse.stream_tables import StreamReader

MOST_LOOKED_AT = 2_000_000
"""Rows that are looked at for one page, so that a rare value does not keep a reader waiting."""


@dataclass(frozen=True)
class MatchesQuery:
    """The matches that somebody has chosen.

    They became final on `day`, are of `pattern` (None: of any), and their last event lies in [`from_us`, `to_us`)
    (microseconds; None: open). The values of RETURN, as JSON, or the id of the match contain the text `value`.
    """

    pattern_set: str
    day: date
    pattern: str | None = None
    from_us: int | None = None
    to_us: int | None = None
    value: str = ""

    def keep(self, rows: pa.Table) -> pa.Table:
        """Return the chosen ones of some rows."""
        chosen: list[Any] = []
        if self.pattern is not None:
            chosen.append(pc.equal(rows["pattern"], self.pattern))
        if self.from_us is not None:
            chosen.append(pc.greater_equal(rows["end_ts"], _instant(self.from_us)))
        if self.to_us is not None:
            chosen.append(pc.less(rows["end_ts"], _instant(self.to_us)))
        if self.value:
            returned = pc.fill_null(pc.match_substring(rows["returns"], self.value), False)
            chosen.append(pc.or_(returned, pc.match_substring(id_texts(rows["match_id"]), self.value)))
        for mask in chosen[1:]:
            chosen[0] = pc.and_(chosen[0], mask)
        return rows.filter(chosen[0]) if chosen else rows


@dataclass(frozen=True)
class MatchesPage:
    """A page of matches in their order (`StreamReader.matches_schema`), and the place of the next (None: the last)."""

    rows: pa.Table
    following: str | None


def matches_page(tables: StreamReader, query: MatchesQuery, limit: int, after: str = "") -> MatchesPage:
    """Read the chosen matches from a place on that a page has given (the beginning without one), at most so many."""
    begin = _place(after)
    rows: list[pa.Table] = []
    missing, looked_at = limit, 0
    for place, file, group in _groups(tables, query, begin[:2]):
        if looked_at >= MOST_LOOKED_AT:
            return MatchesPage(_together(tables, rows), f"{place[0]}.{place[1]}.0")
        looked_at += file.metadata.row_group(group).num_rows
        found = query.keep(read_group(file, group, tables.matches_schema))
        first = begin[2] if place == begin[:2] else 0
        part = found.slice(first, missing)
        rows.append(part)
        missing -= part.num_rows
        if not missing:
            return MatchesPage(_together(tables, rows), f"{place[0]}.{place[1]}.{first + part.num_rows}")
    return MatchesPage(_together(tables, rows), None)


def matches_in_batches(tables: StreamReader, query: MatchesQuery) -> Iterator[pa.RecordBatch]:
    """Read all chosen matches, a row group at a time."""
    for _, file, group in _groups(tables, query, (0, 0)):
        yield from query.keep(read_group(file, group, tables.matches_schema)).to_batches()


def matches_over_time(tables: StreamReader, query: MatchesQuery, edges_us: Sequence[int]) -> tuple[list[int], bool]:
    """Count the chosen matches between instants, by their last event, and say whether all of them were looked at."""
    needed = ["end_ts", *(["pattern"] if query.pattern is not None else [])]
    needed += ["returns", "match_id"] if query.value else []
    schema = pa.schema([field for field in tables.matches_schema if field.name in needed])
    edges, counts = np.asarray(edges_us), np.zeros(len(edges_us) + 1, np.int64)
    looked_at = 0
    for _, file, group in _groups(tables, query, (0, 0)):
        if looked_at >= 10 * MOST_LOOKED_AT:
            return counts[1:-1].tolist(), False
        looked_at += file.metadata.row_group(group).num_rows
        ended = query.keep(read_group(file, group, schema))["end_ts"].cast(pa.int64()).to_numpy()
        counts += np.bincount(np.searchsorted(edges, ended, side="right"), minlength=len(counts))
    return counts[1:-1].tolist(), True


def ends_of_day(tables: StreamReader, query: MatchesQuery) -> tuple[int, int] | None:
    """The first and the last end of the matches of a day, of all patterns, as its files have them beside their rows."""
    of_groups = (
        file.metadata.row_group(group).column(file.schema.names.index("end_ts")).statistics
        for _, file, group in _groups(tables, query, (0, 0))
    )
    found = [one for one in of_groups if one is not None and one.has_min_max]
    ends = [int(pa.scalar(at, pa.timestamp("us", "UTC")).value) for one in found for at in (one.min, one.max)]
    return (min(ends), max(ends)) if ends else None


def match_row(tables: StreamReader, pattern_set: str, days: Iterable[date], match_id: str) -> pa.Table | None:
    """Read the match of an id on some days as a table of one row; None where there is none.

    The id may be written as `place_of_id` takes it; a beginning that several matches have is an InputError.
    """
    ids = pa.schema([tables.matches_schema.field("match_id")])
    found: list[pa.Table] = []
    for day in days:
        for _, file, group in _groups(tables, MatchesQuery(pattern_set, day), (0, 0)):
            place = place_of_id(read_group(file, group, ids)["match_id"], match_id)
            if place >= 0:
                found.append(read_group(file, group, tables.matches_schema).slice(place, 1))
    rows = _together(tables, found)
    return rows.slice(place_of_id(rows["match_id"], match_id), 1) if found else None


def find_match(tables: StreamReader, pattern_set: str, day: date, match_id: str) -> dict[str, Any] | None:
    """Read the match of an id on a day; None where there is none."""
    found = match_row(tables, pattern_set, [day], match_id)
    row: dict[str, Any] | None = None if found is None else found.to_pylist()[0]
    return row


def opened_match(tables: StreamReader, match: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a match with the events inside the matches that it composes as its own, beginning with the first of them.

    A match that composes none is returned as it is.
    """
    from cep_pipeline.detection.results import opened

    if not match.get("composed"):
        return match
    row = pa.Table.from_pylist([match], tables.matches_schema)
    inside = tables.composed_matches(row)
    starts = [one["start_ts"] for table in inside for one in table.select(["start_ts"]).to_pylist()]
    bindings = opened(row, inside)["bindings"].to_pylist()[0]
    return {**match, "bindings": bindings, "composed": None, "start_ts": min([match["start_ts"], *starts])}


def events_of(tables: StreamReader, match: Mapping[str, Any]) -> pa.Table:
    """Read the events of a match, in order of time, with all of their attributes (`opened_match`)."""
    match = opened_match(tables, match)
    seqs = pa.array([one["seq"] for one in match["bindings"]], pa.int64())
    schema = pa.schema([field for field in tables.events_schema if field.name != DAY])
    return events_between(tables, schema, match["start_ts"], match["end_ts"], pc.field("seq").isin(seqs))


def events_around(tables: StreamReader, match: Mapping[str, Any], bound: pa.Table, series: MatchSeries) -> pa.Table:
    """Read the events from before a match to after it, of the series that its events (`bound`) belong to."""
    schema = pa.schema([tables.events_schema.field(name) for name in series.columns])
    return events_between(tables, schema, *series.near(match, bound))


def draw_published(
    tables: StreamReader,
    match: Mapping[str, Any],
    attribute: str | None = None,
    *,
    pattern: Pattern | None = None,
    type_attribute: str | None = None,
    timezone: str = "UTC",
) -> Drawing:
    """Draw a match on the published events beside it; the other parameters are those of `MatchSeries.of`."""
    match = opened_match(tables, match)
    bound = events_of(tables, match)
    series = MatchSeries.of(tables.events_schema, pattern, attribute, type_attribute)
    return draw_match(match, events_around(tables, match, bound, series), series, pattern, timezone)


def explain_match(
    tables: StreamReader, match: Mapping[str, Any], pattern: Pattern, timezone: str = "UTC"
) -> Explanation:
    """Say of a published match how it fulfils each rule of a pattern, as `why` does.

    An InputError says that the pattern binds other variables, or that an event is not published any more.
    """
    from cep_pipeline.detection.composition import with_typed_returns
    from cep_pipeline.patterns.pattern import with_composed
    from cep_pipeline.questions.match_checks import why_match
    from cep_pipeline.slices.events_input import columns_needed

    width = pattern.window.time_us
    any_match = pattern.strategy.forks
    if width is not None and any_match and not pattern.composes and not any(one.negated for one in pattern.operands):
        return why_match(pattern, events_of(tables, match), match, timezone=timezone)  # no rule asks for other events
    whole = with_composed([pattern])
    widths = [one.window.time_us for one in whole]
    room = max(_DAY if us is None else timedelta(microseconds=min(us, _LONGEST_US)) for us in widths)
    first, last = moved(opened_match(tables, match)["start_ts"], -room), moved(match["end_ts"], room)
    names = set(columns_needed(whole))
    columns = pa.schema([field for field in tables.events_schema if field.name in names])
    inside: dict[str, pa.Table] = {}
    for one in whole[:-1]:
        # They became final on the day of their last event or later, and on no later day than what composes them.
        found = tables.read_matches(
            match["pattern_set"], moved(first, -_DAY).date(), match["final_day"], pattern=one.name
        )
        ended = pc.and_(pc.greater_equal(found["end_ts"], first), pc.less_equal(found["end_ts"], last))
        inside[one.name] = with_typed_returns(one, found.filter(ended))
    return why_match(pattern, events_between(tables, columns, first, last), match, inside, timezone=timezone)


_LONGEST_US, _DAY = 400 * 86_400_000_000, timedelta(days=1)


def events_between(
    tables: StreamReader, schema: pa.Schema, first: datetime, last: datetime, chosen: pc.Expression | None = None
) -> pa.Table:
    """Read the events from one instant to another, both included, and of these the chosen ones."""
    within = (pc.field("timestamp") >= first) & (pc.field("timestamp") <= last)
    chosen = within if chosen is None else within & chosen
    # Days are those of the stream's clocks, which no time zone moves by more than one day.
    files = tables.events_files(moved(first, -_DAY).date(), moved(last, _DAY).date())
    begin, end = ((at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) for at in (first, last))
    parts = [
        read_data_file(file.path, schema, chosen) for file in files if file.first[0] <= end and file.last[0] >= begin
    ]
    return pa.concat_tables([schema.empty_table(), *parts]).sort_by("seq")


def _groups(
    tables: StreamReader, query: MatchesQuery, begin: tuple[int, int]
) -> Iterator[tuple[tuple[int, int], pq.ParquetFile, int]]:
    for number, path in enumerate(tables.matches_files(query.pattern_set, query.day)):
        if number < begin[0]:
            continue
        with open_parquet(path) as file:
            for group in range(begin[1] if number == begin[0] else 0, file.metadata.num_row_groups):
                yield (number, group), file, group


def _together(tables: StreamReader, rows: list[pa.Table]) -> pa.Table:
    return pa.concat_tables([pa.Table.from_batches([], tables.matches_schema), *rows])


def _place(text: str) -> tuple[int, int, int]:
    parts = text.split(".") if text else ["0"] * 3
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 12 for part in parts):
        raise InputError(f"{text!r} is no place in a list of matches; begin with the first page")
    file, group, row = map(int, parts)
    return file, group, row


def _instant(microseconds: int) -> pa.Scalar:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    return pa.scalar(at, pa.timestamp("us", tz="UTC"))
