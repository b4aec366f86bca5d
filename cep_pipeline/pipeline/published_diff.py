"""A change of patterns before it is made: what published days would gain and lose. Nothing is published by it.

1. The patterns are found whose versions differ from those that a day was detected by.
2. They are detected over the published events of each day, and with them those that they compose: by the steps of a
   run, in order of time, each day going on from what the one before it would hand on. The files are scratch.
3. The matches of a day are compared with the published ones by what they bind: each variable with its events. Where
   the variables have other names now, the events alone are compared, in the order of the pattern. Matches that bind
   other matches are compared by the events inside of these, and the rows of SUMMARIZE by their groups.
4. A few of those that differ are explained: a lost match by the rules of the new pattern, a gained one by those of the
   old pattern, if its text stands beside a recorded plan.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.output_policy import decides_in_order, has_output_policy, policy_text
from cep_pipeline.detection.results import attributes_read, opened
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.errors import CepError, InputError
from cep_pipeline.events.event_words import events_in_words
from cep_pipeline.expressions.columns import Array
from cep_pipeline.foreign_text import html_table, listed
from cep_pipeline.language.formatter import pattern_version
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern, with_composed
from cep_pipeline.pipeline.configuration import PatternSet, Stream, check_runnable
from cep_pipeline.pipeline.day_work import DayWork, Observer
from cep_pipeline.pipeline.plans import plan_pattern_set
from cep_pipeline.pipeline.statistics import published_statistics
from cep_pipeline.slices.ownership import counts_in_partitions
from cep_pipeline.storage import SHORT_ID, id_texts, new_scratch, read_data_file, remove_scratch
from cep_pipeline.warehouse.match_pages import explain_match
from cep_pipeline.warehouse.records import PlanRecord
from cep_pipeline.warehouse.units import Drafts, is_within

if TYPE_CHECKING:
    from cep_pipeline.spark.detection import DetectedDay
    from cep_pipeline.spark.session import SparkSession
    from cep_pipeline.warehouse.stream_tables import StreamTables

Change = Literal["new", "changed", "removed"]
Kind = Literal["gained", "lost", "other values"]


@dataclass(frozen=True)
class ChangedDay:
    """The matches of one changed pattern on one day, published and as they would be; of SUMMARIZE its rows.

    Attributes
    ----------
    published, would_be, gained, lost
        Their numbers: published + gained - lost are those that would be.
    other_values
        Those that stay, with other values of RETURN or of SUMMARIZE.
    limited
        The limit that stops the pattern on the day, so that none of its matches is published; "": none does.
    """

    pattern_set: str
    pattern: str
    change: Change
    day: date
    published: int
    would_be: int
    gained: int
    lost: int
    other_values: int
    limited: str = ""


@dataclass(frozen=True)
class ChangedMatch:
    """A match that is gained or lost, or has other values: its id, its events in words, and why.

    The id is that of the published match; of one that is not published yet, the id that it will have. A row of
    SUMMARIZE has none, and its group and values stand in place of events.
    """

    pattern_set: str
    pattern: str
    day: date
    kind: Kind
    match_id: str
    events: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class PublishedDiff:
    """The difference that a changed pattern file would make to published days.

    It has numbers by day, examples, and sentences about both.

    Attributes
    ----------
    stream
        Its name.
    days
        A row for each changed pattern and day.
    examples
        Some of the matches that differ.
    """

    stream: str
    days: tuple[ChangedDay, ...]
    examples: tuple[ChangedMatch, ...] = ()

    def summary(self) -> str:
        """Say for each changed pattern in a line what changes."""
        total, said = Counter[tuple[str, str]](), {}
        for one in self.days:
            name = f"{one.pattern_set}.{one.pattern} ({one.change})"
            total.update({(name, kind): getattr(one, kind) for kind in ("gained", "lost", "other_values")})
            gained, lost, others = (total[name, kind] for kind in ("gained", "lost", "other_values"))
            keeps = f"keeps all, {others:,} with other values" if others else "keeps all as they are"
            said[name] = f"{name} {f'gains {gained:,} and loses {lost:,}' if gained or lost else keeps}"
        return "\n".join(said.values()) or f"{self.stream}: no pattern has changed since the days were published"

    def tables(self) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[Any]]]]:
        """Yield the numbers and the examples as tables: title, columns and rows."""
        columns = ("pattern", "change", "day", "published", "would be", "gained", "lost", "other values", "limited")
        rows = [[f"{one.pattern_set}.{one.pattern}", *[*vars(one).values()][2:]] for one in self.days]
        yield f"{self.stream}: what would change", columns, rows
        shown = [
            (one.kind, one.pattern, one.day, one.match_id[:SHORT_ID], "\n".join(one.events), one.why)
            for one in self.examples
        ]
        if shown:
            yield "examples", ("kind", "pattern", "day", "match", "events", "why"), shown

    def __repr__(self) -> str:
        return f"<PublishedDiff {'; '.join(self.summary().splitlines())}>"

    def _repr_html_(self) -> str:
        return "\n".join(html_table(columns, rows, title) for title, columns, rows in self.tables())


def diff_published(
    stream: Stream,
    tables: StreamTables,
    pattern_sets: Sequence[PatternSet],
    session: Callable[[], SparkSession],
    observer: Observer,
    patterns: Sequence[str],
    within: tuple[date | None, date | None],
    examples: int,
) -> PublishedDiff:
    """Say what published days would gain and lose by the patterns as they are configured now.

    Parameters
    ----------
    stream, tables, pattern_sets
        What is configured, and what is published.
    session, observer
        As a run takes them; there is no session where no pattern has changed.
    patterns
        Only these; none: all that have changed.
    within
        The first and the last day; None: open.
    examples
        The most examples of each kind, of each pattern.

    Raises
    ------
    InputError
        There is no such pattern, or none of these days is published.
    """
    pinned = tables.pinned()
    days = [one.day for one in pinned.days() if is_within(one.day, *within)]
    if not days:
        raise InputError(f"stream {stream.name!r}: no day in this range is published; `cep status` shows the days")
    scratch = new_scratch(tables.warehouse.scratch)
    trials = [_Trial(stream, pinned.with_drafts(Drafts(folder=scratch)), own, days, examples) for own in pattern_sets]
    known = [name for one in trials for name in {**one.patterns, **one.changed}]
    if unknown := [name for name in patterns if name not in known]:
        raise InputError(f"there is no pattern {unknown[0]!r}; there are: {listed(known)}")
    try:
        for one in trials:
            one.compare([name for name in one.changed if not patterns or name in patterns], session, observer)
    finally:
        remove_scratch(scratch)
    rows = (row for one in trials for own in one.rows.values() for row in own)
    shown = (match for one in trials for own in one.shown.values() for match in own)
    return PublishedDiff(stream.name, tuple(rows), tuple(shown))


@dataclass(frozen=True)
class _Side:
    """The matches of a pattern on a day; `opened` has those that bind other matches with the events inside of these.

    Of SUMMARIZE both are the rows of its groups.
    """

    matches: pa.Table
    opened: pa.Table

    @property
    def bindings(self) -> pa.Array | None:
        """The lists of the events that its matches bind; None: they are groups."""
        return self.opened["bindings"].combine_chunks() if "bindings" in self.opened.column_names else None

    def variables(self) -> set[str]:
        """The variables of its matches."""
        return set() if self.bindings is None else {*pc.unique(pc.list_flatten(self.bindings).field(0)).to_pylist()}

    def values(self, places: Array) -> pa.Array:
        """The values of RETURN, or of the aggregates, of some matches, as JSON."""
        column = self.matches["aggregates" if self.bindings is None else "returns"]
        return column.take(pa.array(places)).fill_null("").combine_chunks()

    def keys(self, *, named: bool) -> pa.Array:
        """A text for each match that tells it from all others: the events that it binds, or the values of its group."""
        if self.bindings is None:
            return self.opened["groups"].combine_chunks()
        bound = pc.list_flatten(self.bindings)
        texts = bound.field("seq").cast(pa.string())
        if named:
            texts = pc.binary_join_element_wise(bound.field("variable"), texts, "=")
        ends = np.concatenate(([0], np.cumsum(pc.list_value_length(self.bindings)))).astype(np.int32)
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), texts), " ")


class _Trial:
    """A pattern set as it is configured now, tried on published days; `rows` and `shown` are what differs, by pattern.

    Its tables write the files of matches into a scratch folder.
    """

    def __init__(
        self, stream: Stream, tables: StreamTables, own: PatternSet, days: Sequence[date], examples: int
    ) -> None:
        self._stream, self._tables, self._set, self._days, self._examples = stream, tables, own, days, examples
        self._units = {unit.final_day: unit for unit in tables.matches_days(own.name)}
        self.patterns = {one.name: one for one in own.statements}
        self.changed = self._changes()
        self.rows: dict[str, list[ChangedDay]] = {name: [] for name in self.changed}
        self.shown: dict[str, list[ChangedMatch]] = {name: [] for name in self.changed}
        self._inside: dict[str, pa.Table] = {}

    def _changes(self) -> dict[str, Change]:
        """The patterns that are others than those that a day was detected by."""
        versions, found = self._set.pattern_versions, dict[str, Change]()
        for unit in map(self._units.get, self._days):
            if unit is None or unit.fingerprint.pattern_set_version != self._set.version:
                # Records of older versions do not tell which patterns they are of.
                known = {} if unit is None else unit.fingerprint.patterns or dict.fromkeys(unit.counts, "")
                for name in (one for one in {**versions, **known} if known.get(one) != versions.get(one)):
                    how: Change = "new" if name not in known else "changed" if name in versions else "removed"
                    found.setdefault(name, how)
        return found

    @cached_property
    def _old(self) -> dict[str, Pattern]:
        """Version -> the pattern of it, of all texts that stand beside recorded plans and can still be read."""
        found: dict[str, Pattern] = {}
        for record in self._tables.plans(self._set.name):
            for one in (text for name, text in record.statements.items() if name in self.changed):
                with warnings.catch_warnings(action="ignore"), suppress(CepError, ValueError):
                    [pattern] = parse_patterns(one["statement"], self._stream.schema, one["parameters"])
                    found[pattern_version(pattern)] = pattern
        return found

    def compare(self, names: Sequence[str], session: Callable[[], SparkSession], observer: Observer) -> None:
        """Find what differs of some changed patterns."""
        asked = with_composed(self.patterns[name] for name in names if name in self.patterns)
        days: Iterator[tuple[date, DetectedDay | None]] = ((day, None) for day in self._days)
        for day, detected in self._detected(asked, session, observer) if asked else days:
            now = {} if detected is None else {one.name: self._would_be(one, detected) for one in asked}
            for name in names if day in self._days else ():
                before = self._published(name, day)
                none = _Side(before.matches[:0], before.opened[:0])
                self._compare(name, day, before, now.get(name, none), detected)

    def _detected(
        self, patterns: Sequence[Pattern], session: Callable[[], SparkSession], observer: Observer
    ) -> Iterator[tuple[date, DetectedDay]]:
        """Detect patterns day after day, as a run does; where they go on from day to day, from the first day on."""
        from spark_jobs.detect import detect_day
        from spark_jobs.estimate_statistics import estimate_day

        parts = (tuple(one for one in some if one in patterns) for some in (self._set.patterns, self._set.composing))
        part = replace(self._set, patterns=next(parts), composing=next(parts))
        check_runnable([part])
        published = [one.day for one in self._tables.days()]
        go_on = any(one.composes or decides_in_order(one) or counts_in_partitions(one) for one in patterns)
        plan: PlanRecord | None = None
        for day in (one for one in published if is_within(one, None if go_on else self._days[0], self._days[-1])):
            unit, run_id = self._units.get(day), self._tables.drafts.folder.rpartition("/")[2]
            ends = unit is not None and unit.fingerprint.end_of_stream and day == published[-1]
            work = DayWork(self._stream, self._tables, day, run_id, None, (part,), ends, session, observer)
            with observer.step(f"{day}: detect {part.name}") as progress:
                if plan is None:
                    if (statistics := published_statistics(work, part)) is None:
                        statistics = estimate_day(work.spark(), work, [part], progress)
                    if statistics.events:
                        made = plan_pattern_set(part, statistics).to_json()
                        plan = PlanRecord(part.name, 0, made, "", "", part.version, run_id, datetime.now(UTC))
                found = detect_day(work.spark(), work, part, plan, progress, end_of_stream=ends)
            self._tables.drafts.carried[part.name] = found.carry_out
            yield day, found

    def _published(self, name: str, day: date) -> _Side:
        found = self._tables.read_matches(self._set.name, day, day, pattern=name)
        if not found.num_rows:
            found = self._tables.read_summaries(self._set.name, day, day, pattern=name)
        return _Side(found, opened(found, self._tables.composed_matches(found)))

    def _would_be(self, pattern: Pattern, detected: DetectedDay) -> _Side:
        if pattern.summary is not None:
            groups = detected.summaries.get(pattern.name)
            made = None if groups is None else PartialSummary.from_json(pattern, groups).published()[:2]
            rows = pa.table(made or [pa.array([], pa.string())] * 2, ["groups", "aggregates"])
            return _Side(rows, rows)
        schema, own = self._tables.matches_schema, pc.field("pattern") == pattern.name
        parts = (read_data_file(path, schema, own) for path in sorted(detected.files))
        rows = pa.concat_tables([schema.empty_table(), *parts])
        if any(pattern in one.composes for one in self._set.composing):
            self._inside[pattern.name] = pa.concat_tables([self._inside.get(pattern.name, rows[:0]), rows])
        return _Side(rows, opened(rows, [self._inside[one.name] for one in with_composed(pattern.composes)]))

    def _compare(self, name: str, day: date, before: _Side, now: _Side, detected: DetectedDay | None) -> None:
        pattern, unit = self.patterns.get(name), self._units.get(day)
        declared = set() if pattern is None else {one.variable for one in pattern.operands}
        named = before.variables() <= now.variables() | declared
        kept, still = common_places(before.keys(named=named), now.keys(named=named))
        old, new = before.values(kept), now.values(still)
        others = np.flatnonzero(pc.not_equal(old, new).to_numpy(zero_copy_only=False))
        lost, gained = (np.setdiff1d(np.arange(len(side.matches)), own) for side, own in ((before, kept), (now, still)))
        sizes = len(before.matches), len(now.matches), len(gained), len(lost), len(others)
        stopped = None if detected is None else detected.limited.get(name)
        was = None if unit is None else unit.limited.get(name)
        limited = "; ".join(f"{when}: {one}" for when, one in (("published", was), ("would be", stopped)) if one)
        self.rows[name].append(ChangedDay(self._set.name, name, self.changed[name], day, *sizes, limited))
        changes = {int(still[one]): (old[one].as_py(), new[one].as_py()) for one in others[: self._examples].tolist()}

        def lost_as(place: int) -> str:
            return f"the pattern would be {stopped}" if stopped else self._lost_as(name, before, place)

        self._show("gained", name, day, now, gained, lambda place: self._gained_as(name, day, now, place))
        self._show("lost", name, day, before, lost, lost_as)
        words = {place: " would be ".join(map(_in_words, two)) for place, two in changes.items()}
        self._show("other values", name, day, now, np.array([*changes]), words.__getitem__)

    def _show(self, kind: Kind, name: str, day: date, side: _Side, places: Array, why: Callable[[int], str]) -> None:
        """Show the matches at the first places, as many as there is still room for examples of a kind."""
        room = self._examples - sum(one.kind == kind for one in self.shown[name])
        schema, pattern = self._stream.schema, self.patterns.get(name) or self._before(name, day)
        for place in places[: max(room, 0)].tolist():
            row = side.opened.slice(place, 1)
            if side.bindings is None:
                said, match_id = tuple(_in_words(row[one][0].as_py()) for one in ("groups", "aggregates")), ""
            else:
                found = self._tables.read_match_events(row, attributes_read(pattern) if pattern else None).to_pylist()
                said = tuple(events_in_words(found, schema.timezone, schema.type_attribute))
                match_id = str(id_texts(row["match_id"])[0])
            self.shown[name].append(ChangedMatch(self._set.name, name, day, kind, match_id, said, why(place)))

    def _before(self, name: str, day: date) -> Pattern | None:
        """The pattern by which a day was detected; None where its text is not on record."""
        unit = self._units.get(day)
        return None if unit is None else self._old.get(unit.fingerprint.patterns.get(name, ""))

    def _gained_as(self, name: str, day: date, now: _Side, place: int) -> str:
        old = self._before(name, day)
        if self.changed[name] == "new":
            return "the pattern is new"
        if old is None:
            return ""
        otherwise = "the events fulfilled all conditions of the old pattern, too"
        if has_output_policy(old):
            otherwise = f"{otherwise}, and {policy_text(old)} may have kept another match"
        return f"before: {self._reason(old, now, place, otherwise)}"

    def _lost_as(self, name: str, before: _Side, place: int) -> str:
        pattern = self.patterns.get(name)
        if pattern is None:
            return "the pattern is removed"
        if inner := [one.name for one in with_composed(pattern.composes) if one.name in self.changed]:
            return f"it binds matches of {listed(inner)}, whose text has changed, too"
        otherwise = "it fulfils all conditions, and is not final on this day"
        if has_output_policy(pattern):
            otherwise = f"it fulfils all conditions, and {policy_text(pattern)} may keep another match"
        return self._reason(pattern, before, place, otherwise)

    def _reason(self, pattern: Pattern, side: _Side, place: int, otherwise: str) -> str:
        """The rules of a pattern that the events of a match break, with the values that decide."""
        if side.bindings is None:
            return "its group is put together of other matches"
        [match] = side.matches.slice(place, 1).to_pylist()
        names = [*dict.fromkeys(one["variable"] for one in match["bindings"])]
        parts = [[one.name for one in clause.positive] for clause in pattern.written_clauses]
        if all({*own} != {*names} for own in parts):  # the same number of variables, which have other names
            other = dict(zip(names, next((own for own in parts if len(own) == len(names)), names), strict=True))
            match["bindings"] = [{**one, "variable": other[one["variable"]]} for one in match["bindings"]]
        try:
            failed = explain_match(self._tables, match, pattern, self._stream.schema.timezone).failed
        except InputError as error:
            return str(error)
        return "; ".join(f"{one.text}{f' ({one.seen})' if one.seen else ''}" for one in failed) or otherwise


def _in_words(values: str) -> str:
    """The values of a JSON object, as in `low = 2, high = null`."""
    read: dict[str, Any] = json.loads(values) if values else {}
    return ", ".join(f"{name} = {'null' if one is None else one}" for name, one in read.items()) or "nothing"


def common_places(before: pa.Array, now: pa.Array) -> tuple[Array, Array]:
    """Return the places of equal texts in two lists, each of them paired once.

    Examples
    --------
    >>> [places.tolist() for places in common_places(pa.array(["a", "b", "b"]), pa.array(["b", "c", "b", "b"]))]
    [[1, 2], [0, 2]]
    """
    codes = pa.concat_arrays([before, now]).dictionary_encode().indices.to_numpy().astype(np.int64)

    def numbered(own: Array) -> Array:
        order = np.argsort(own, kind="stable")
        rank = np.arange(len(own)) - np.searchsorted(own[order], own[order])  # among equal ones
        made: Array = own * (len(codes) + 1) + rank[np.argsort(order)]
        return made

    sides = numbered(codes[: len(before)]), numbered(codes[len(before) :])
    _, first, second = np.intersect1d(*sides, assume_unique=True, return_indices=True)
    return first, second
