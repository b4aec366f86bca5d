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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.output_policy import has_output_policy, policy_text
from cep_pipeline.detection.results import opened
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.errors import CepError, InputError
from cep_pipeline.events.columns import SEQ, TIMESTAMP
from cep_pipeline.expressions.columns import Array
from cep_pipeline.foreign_text import html_table, listed
from cep_pipeline.language.formatter import pattern_version
from cep_pipeline.language.parser import parse_patterns
from cep_pipeline.patterns.pattern import Pattern, with_composed
from cep_pipeline.pipeline.configuration import PatternSet, Stream, check_runnable
from cep_pipeline.pipeline.day_work import DayWork, Observer
from cep_pipeline.pipeline.plans import plan_pattern_set
from cep_pipeline.pipeline.statistics import published_statistics
from cep_pipeline.questions.match_checks import attributes_read, event_in_words
from cep_pipeline.slices.ownership import counts_in_partitions
from cep_pipeline.storage import id_texts, new_scratch, read_data_file, remove_scratch
from cep_pipeline.warehouse.match_pages import explain_match
from cep_pipeline.warehouse.records import PlanRecord, PublishedMatches
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
    events: str
    why: str


@dataclass(frozen=True)
class PublishedDiff:
    """What a changed pattern file would change of published days: numbers by day, examples, and sentences about both.

    Attributes
    ----------
    stream
        Its name.
    days
        A row for each changed pattern and day.
    examples
        Some of the matches that differ.
    notes
        What else there is to know of them.
    """

    stream: str
    days: tuple[ChangedDay, ...]
    examples: tuple[ChangedMatch, ...] = ()
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """Say for each changed pattern in a sentence what changes."""
        if not self.days:
            return f"{self.stream}: no pattern has changed since the days were published"
        said, keys = [], dict.fromkeys((one.pattern_set, one.pattern, one.change) for one in self.days)
        for pattern_set, pattern, change in keys:
            own = [one for one in self.days if (one.pattern_set, one.pattern) == (pattern_set, pattern)]
            gained, lost, others = (
                sum(getattr(one, name) for one in own) for name in ("gained", "lost", "other_values")
            )
            would = f"gains {gained:,} and loses {lost:,}"
            if not gained and not lost:
                would = f"keeps all, {others:,} with other values" if others else "keeps all as they are"
            said.append(f"{pattern_set}.{pattern} ({change}) {would}")
        return "\n".join(said)

    def tables(self) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[Any]]]]:
        """Yield the numbers and the examples as tables: title, columns and rows."""
        columns = ("pattern", "change", "day", "published", "would be", "gained", "lost", "other values", "limited")
        rows = [[f"{one.pattern_set}.{one.pattern}", *[*vars(one).values()][2:]] for one in self.days]
        yield f"{self.stream}: what would change", columns, rows
        if self.examples:
            shown = [
                [one.kind, f"{one.pattern_set}.{one.pattern}", one.day, one.match_id[:8], one.events, one.why]
                for one in self.examples
            ]
            yield "examples", ("kind", "pattern", "day", "match", "events", "why"), shown

    def __repr__(self) -> str:
        gained, lost = (sum(getattr(one, name) for one in self.days) for name in ("gained", "lost"))
        patterns = len({(one.pattern_set, one.pattern) for one in self.days})
        return f"<PublishedDiff {self.stream}: patterns {patterns}, gained {gained:,}, lost {lost:,}>"

    def __str__(self) -> str:
        parts = [self.summary()]
        for title, columns, rows in self.tables() if self.days else ():
            parts += ["", title, *("  ".join(map(str, row)) for row in (columns, *rows))]
        return "\n".join([*parts, *self.notes])

    def _repr_html_(self) -> str:
        shown = (html_table(columns, rows, title) for title, columns, rows in self.tables())
        return "\n".join([html_table((self.summary(),), ()), *shown])


def diff_published(
    stream: Stream,
    tables: StreamTables,
    pattern_sets: Sequence[PatternSet],
    session: Callable[[], SparkSession],
    observer: Observer,
    *,
    patterns: Sequence[str] = (),
    first: date | None = None,
    last: date | None = None,
    examples: int = 3,
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
    first, last
        The days, both included; None: from the first, to the last.
    examples
        The most examples of each kind, of each pattern.

    Raises
    ------
    InputError
        There is no such pattern, or none of these days is published.
    """
    pinned = tables.pinned()
    published = [one.day for one in pinned.days()]
    days = [day for day in published if is_within(day, first, last)]
    if not days:
        raise InputError(f"stream {stream.name!r}: no day in this range is published; `cep status` shows the days")
    scratch = new_scratch(tables.warehouse.scratch)
    found: list[ChangedDay] = []
    shown: list[ChangedMatch] = []
    notes: list[str] = []
    known = dict[str, None]()
    try:
        for own in pattern_sets:
            reader = pinned.with_drafts(Drafts(folder=scratch))
            trial = _Trial(stream, reader, own, published, days, session, observer, examples)
            known |= dict.fromkeys([*own.pattern_versions, *trial.changed])
            trial.compare({name: one for name, one in trial.changed.items() if not patterns or name in patterns})
            order = [*known]
            found += sorted(trial.rows, key=lambda one: order.index(one.pattern))
            shown += sorted(trial.shown, key=lambda one: (order.index(one.pattern), one.kind))
            notes += trial.notes
    finally:
        remove_scratch(scratch)
    if unknown := [name for name in patterns if name not in known]:
        raise InputError(f"there is no pattern {unknown[0]!r}; there are: {listed([*known])}")
    return PublishedDiff(stream.name, tuple(found), tuple(shown), tuple(notes))


@dataclass(frozen=True)
class _Side:
    """The matches of a pattern on a day; those that bind others with the events inside of these, in `opened` ones.

    Of SUMMARIZE they are the rows of its groups.
    """

    matches: pa.Table
    opened: pa.Table

    @property
    def values(self) -> pa.Array:
        """The values of RETURN, or of the aggregates, as JSON."""
        name = "returns" if "returns" in self.matches.column_names else "aggregates"
        return _whole(pc.fill_null(self.matches[name], ""))

    @property
    def variables(self) -> set[str]:
        """The names that its matches bind."""
        if "bindings" not in self.opened.column_names:
            return set()
        return {*pc.unique(pc.list_flatten(_whole(self.opened["bindings"])).field("variable")).to_pylist()}

    def keys(self, *, named: bool) -> pa.Array:
        """A text for each match that tells it from all others: the events that it binds, or the values of its group."""
        if "bindings" not in self.opened.column_names:
            return _whole(self.matches["groups"])
        bindings = _whole(self.opened["bindings"])
        bound = pc.list_flatten(bindings)
        texts = bound.field("seq").cast(pa.string())
        if named:
            texts = pc.binary_join_element_wise(bound.field("variable"), texts, "=")
        ends = np.concatenate((np.zeros(1, np.int32), np.cumsum(pc.list_value_length(bindings))))
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), texts), " ")


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.cast(column.type).combine_chunks()


@dataclass
class _Trial:
    """A pattern set as it is configured now, tried on published days."""

    stream: Stream
    tables: StreamTables
    pattern_set: PatternSet
    published: Sequence[date]
    days: Sequence[date]
    session: Callable[[], SparkSession]
    observer: Observer
    examples: int
    rows: list[ChangedDay] = field(default_factory=list)
    shown: list[ChangedMatch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _inside: dict[str, pa.Table] = field(default_factory=dict)
    _shown: Counter[tuple[str, Kind]] = field(default_factory=Counter)

    @cached_property
    def patterns(self) -> dict[str, Pattern]:
        """The patterns that are configured, by name."""
        return {one.name: one for one in self.pattern_set.statements}

    @cached_property
    def units(self) -> dict[date, PublishedMatches]:
        """The records of the published days of the set."""
        return {unit.final_day: unit for unit in self.tables.matches_days(self.pattern_set.name)}

    @cached_property
    def changed(self) -> dict[str, Change]:
        """The patterns that are others than those that a day was detected by."""
        versions, found = self.pattern_set.pattern_versions, dict[str, Change]()
        for unit in map(self.units.get, self.days):
            if unit is not None and unit.fingerprint.pattern_set_version == self.pattern_set.version:
                continue
            # Records of older versions do not tell which patterns they are of.
            known = {} if unit is None else unit.fingerprint.patterns or dict.fromkeys(unit.counts, "")
            for name in dict.fromkeys([*versions, *known]):
                if known.get(name) != versions.get(name):
                    found[name] = "new" if name not in known else "removed" if name not in versions else "changed"
        return found

    @cached_property
    def old(self) -> dict[str, Pattern]:
        """Version -> the pattern of it, for all texts that stand beside recorded plans and can still be read."""
        found: dict[str, Pattern] = {}
        for record in self.tables.plans(self.pattern_set.name):
            for one in (own for name, own in record.statements.items() if name in self.changed):
                try:
                    with warnings.catch_warnings(action="ignore"):
                        [pattern] = parse_patterns(one["statement"], self.stream.schema, one["parameters"])
                except (CepError, ValueError):
                    continue
                found[pattern_version(pattern)] = pattern
        return found

    def before(self, name: str, day: date) -> Pattern | None:
        """The pattern by which a day was detected; None where its text is not on record."""
        unit = self.units.get(day)
        return None if unit is None else self.old.get(unit.fingerprint.patterns.get(name, ""))

    def compare(self, changed: Mapping[str, Change]) -> None:
        """Fill the rows, the examples and the notes, for some changed patterns."""
        asked = with_composed(self.patterns[name] for name in changed if name in self.patterns)
        found: Iterator[tuple[date, DetectedDay | None]]
        found = self._detected({one.name for one in asked}) if asked else ((day, None) for day in self.days)
        for day, detected in found:
            now = {one.name: self._would_be(one, detected) for one in asked if detected is not None}
            for name, change in changed.items() if day in self.days else ():
                published = self._published(name, day)
                none = _Side(published.matches[:0], published.opened[:0])
                self._compare(name, change, day, published, now.get(name, none), detected)

    def _detected(self, names: set[str]) -> Iterator[tuple[date, DetectedDay]]:
        """Detect patterns day after day, as a run does that redoes all published days."""
        from spark_jobs.detect import detect_day

        own = self.pattern_set
        patterns, composing = (
            tuple(one for one in some if one.name in names) for some in (own.patterns, own.composing)
        )
        part = replace(own, patterns=patterns, composing=composing)
        check_runnable([part])
        days = [day for day in self.published if day <= self.days[-1]]
        if composing or any(has_output_policy(one) or counts_in_partitions(one) for one in patterns):
            if days[0] < self.days[0]:
                self.notes.append(
                    f"{own.name}: the days before {self.days[0]} are detected too, as matches depend on them"
                )
        else:
            days = [*self.days]
        plan: PlanRecord | None = None
        for day in days:
            unit = self.units.get(day)
            ends = unit is not None and unit.fingerprint.end_of_stream and day == self.published[-1]
            work = DayWork(self.stream, self.tables, day, "diff", None, (part,), ends, self.session, self.observer)
            plan = plan or self._plan(work, part)
            with self.observer.step(f"{day}: detect {own.name}") as progress:
                found = detect_day(work.spark(), work, part, plan, progress, end_of_stream=ends)
            self.tables.drafts.carried[own.name] = found.carry_out
            yield day, found

    def _plan(self, work: DayWork, part: PatternSet) -> PlanRecord | None:
        """Make a plan by the statistics of a day; None where it has no events."""
        from spark_jobs.estimate_statistics import estimate_day

        if published_statistics(work, part) is None:
            with self.observer.step(f"{work.day}: statistics") as progress:
                estimate_day(work.spark(), work, [part], progress)
        snapshot = published_statistics(work, part)
        if snapshot is None or not snapshot.events:
            return None
        made = plan_pattern_set(part, snapshot).to_json()
        return PlanRecord(part.name, 0, made, "", "cep diff", part.version, work.run_id, datetime.now(UTC))

    def _published(self, name: str, day: date) -> _Side:
        read, unit = (self.pattern_set.name, day, day), self.units.get(day)
        found = self.tables.read_matches(*read, pattern=name)
        if not found.num_rows and unit is not None and name not in unit.limited:
            summarized = self.tables.read_summaries(*read, pattern=name)
            found = summarized if summarized.num_rows else found
        return _Side(found, opened(found, self.tables.composed_matches(found)))

    def _would_be(self, pattern: Pattern, detected: DetectedDay) -> _Side:
        if pattern.summary is not None:
            groups = detected.summaries.get(pattern.name)
            made = () if groups is None else PartialSummary.from_json(pattern, groups).published()[:2]
            rows = pa.table(list(made) or [pa.array([], pa.string())] * 2, ["groups", "aggregates"])
            return _Side(rows, rows)
        schema, own = self.tables.matches_schema, pc.field("pattern") == pattern.name
        parts = [read_data_file(path, schema, own) for path in sorted(detected.files)]
        rows = pa.concat_tables([schema.empty_table(), *parts])
        inside = [self._inside[one.name] for one in with_composed(pattern.composes)]
        if any(pattern in one.composes for one in self.pattern_set.composing):
            self._inside[pattern.name] = pa.concat_tables([self._inside.get(pattern.name, rows[:0]), rows])
        return _Side(rows, opened(rows, inside))

    def _compare(
        self, name: str, change: Change, day: date, before: _Side, now: _Side, detected: DetectedDay | None
    ) -> None:
        pattern = self.patterns.get(name)
        declared = set() if pattern is None else {one.variable for one in pattern.operands}
        named = before.variables <= now.variables | declared
        kept, still = common_places(before.keys(named=named), now.keys(named=named))
        lost = np.setdiff1d(np.arange(before.matches.num_rows), kept)
        gained = np.setdiff1d(np.arange(now.matches.num_rows), still)
        old, new = before.values.take(pa.array(kept)), now.values.take(pa.array(still))
        others = np.flatnonzero(pc.not_equal(old, new).to_numpy(zero_copy_only=False))
        unit = self.units.get(day)
        stopped = {
            "published": None if unit is None else unit.limited.get(name),
            "would be": None if detected is None else detected.limited.get(name),
        }
        limited = "; ".join(f"{when}: {what}" for when, what in stopped.items() if what is not None)
        numbers = (len(kept) + len(lost), len(still) + len(gained), len(gained), len(lost), len(others))
        self.rows.append(ChangedDay(self.pattern_set.name, name, change, day, *numbers, limited))

        def said(values: pa.Array, place: int) -> str:
            return _in_words(values[place].as_py()) or "nothing"

        for place in self._taken(name, "gained", gained):
            why = "the pattern is new" if change == "new" else self._gained_as(name, day, now.matches, place)
            self._show(name, day, "gained", now, place, why)
        for place in self._taken(name, "lost", lost):
            would = stopped["would be"]
            why = f"the pattern would be {would}" if would else self._lost_as(name, before.matches, place)
            self._show(name, day, "lost", before, place, why)
        for place in self._taken(name, "other values", others):
            why = f"{said(old, place)} would be {said(new, place)}"
            self._show(name, day, "other values", now, int(still[place]), why)

    def _taken(self, name: str, kind: Kind, places: Array) -> list[int]:
        """The first places, as many as there is still room for examples of a kind."""
        taken: list[int] = places[: max(self.examples - self._shown[name, kind], 0)].tolist()
        self._shown[name, kind] += len(taken)
        return taken

    def _show(self, name: str, day: date, kind: Kind, side: _Side, place: int, why: str) -> None:
        row, zone = side.opened.slice(place, 1), self.stream.schema.timezone
        if "bindings" not in row.column_names:
            [said] = [f"{_in_words(one['groups'])}: {_in_words(one['aggregates'])}" for one in row.to_pylist()]
        else:
            pattern = self.patterns.get(name) or self.before(name, day)
            read = None if pattern is None else attributes_read(pattern)
            kinds, events = self.stream.schema.type_attribute, []
            for event in self.tables.read_match_events(row, read).to_pylist():
                own = {of: value for of, value in event.items() if of not in _OF_EVENT}
                events.append(event_in_words(event, own, zone, day, kinds or ""))
            said = ", ".join(events)
        match_id = str(id_texts(row["match_id"])[0]) if "match_id" in row.column_names else ""
        self.shown.append(ChangedMatch(self.pattern_set.name, name, day, kind, match_id, said, why))

    def _gained_as(self, name: str, day: date, matches: pa.Table, place: int) -> str:
        old = self.before(name, day)
        if old is None or "bindings" not in matches.column_names:
            return ""
        policy = f"; it has {policy_text(old)}" if has_output_policy(old) else ""
        return "before: " + self._failed(old, matches, place, f"the events fulfilled all conditions{policy}")

    def _lost_as(self, name: str, matches: pa.Table, place: int) -> str:
        pattern = self.patterns.get(name)
        if pattern is None:
            return "the pattern is removed"
        if "bindings" not in matches.column_names:
            return ""
        inner = [one.name for one in with_composed(pattern.composes) if one.name in self.changed]
        if inner:
            return f"it binds matches of {listed(inner)}, of which the text has changed too"
        policy = f"; another match may be kept by {policy_text(pattern)}" if has_output_policy(pattern) else ""
        return self._failed(pattern, matches, place, f"it fulfils all conditions, and is not final on this day{policy}")

    def _failed(self, pattern: Pattern, matches: pa.Table, place: int, otherwise: str) -> str:
        """The rules of a pattern that the events of a match break, with the values that decide."""
        match = _with_names_of(pattern, matches.slice(place, 1).to_pylist()[0])
        try:
            failed = explain_match(self.tables, match, pattern, self.stream.schema.timezone).failed
        except InputError as error:
            return str(error)
        return "; ".join(f"{one.text}{f' ({one.seen})' if one.seen else ''}" for one in failed) or otherwise


def _in_words(values: str) -> str:
    """The values of a JSON object, as in `low = 2, high = null`."""
    read: dict[str, Any] = json.loads(values) if values else {}
    return ", ".join(f"{name} = {'null' if value is None else value}" for name, value in read.items())


_OF_EVENT = ("pattern", "match_id", "variable", TIMESTAMP, SEQ)


def _with_names_of(pattern: Pattern, match: dict[str, Any]) -> dict[str, Any]:
    """The match with the variables of a pattern that has other names for as many of them, in the same order."""
    names = [*dict.fromkeys(one["variable"] for one in match["bindings"])]
    parts = [[one.name for one in clause.positive] for clause in pattern.written_clauses]
    like = next((own for own in parts if len(own) == len(names)), None)
    if like is None or any(set(own) == set(names) for own in parts):
        return match
    other = dict(zip(names, like, strict=True))
    return {**match, "bindings": [{**one, "variable": other[one["variable"]]} for one in match["bindings"]]}


def common_places(before: pa.Array, now: pa.Array) -> tuple[Array, Array]:
    """Return the places of equal texts in two lists, each of them paired once.

    Examples
    --------
    >>> [places.tolist() for places in common_places(pa.array(["a", "b", "b"]), pa.array(["b", "c", "b", "b"]))]
    [[1, 2], [0, 2]]
    """
    codes = pa.concat_arrays([before, now]).dictionary_encode().indices.to_numpy().astype(np.int64)

    def ranked(own: Array) -> Array:
        order = np.argsort(own, kind="stable")
        rank, ordered = np.empty_like(own), own[order]
        rank[order] = np.arange(len(own)) - np.searchsorted(ordered, ordered)
        return own * (len(codes) + 1) + rank

    _, first, second = np.intersect1d(
        ranked(codes[: len(before)]), ranked(codes[len(before) :]), assume_unique=True, return_indices=True
    )
    return first, second
