"""The pass of OUTPUT and CONSUME over what the slices of a day found, in the page's order, batch after batch.

Which matches of a pattern are kept depends on all earlier kept ones of it. So slices write all matches of such patterns
as candidates, and when the last slice is done one task reads them, a slice's time after another, and writes those that
are kept. It starts from the carry state of the day before and ends with that of the day.

Matches that wait, for the end of a window say, become final in another order than that of their last events, in which
matches are decided about. So the candidates that are not final when the day ends are read with the others, and in each
partition deciding stops at the first of these. The candidates behind it are held, and handed on to the next day.
With OUTPUT PREFERRED it is decided in the order of first events, in which they become final too: none is held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import count, pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cep_pipeline.detection.limits import Limits, Then
from cep_pipeline.detection.match_ids import ids_from_text
from cep_pipeline.detection.matches import CANDIDATES, MANY_PATTERNS, UTC_MICROSECONDS, candidates_of
from cep_pipeline.detection.ordering import page_order
from cep_pipeline.detection.output_policy import KeptMatches, decides_in_order
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import counts_in_partitions, waits_for_later_events
from cep_pipeline.statistics.observed import OutputProfile, OutputProfiler
from cep_pipeline.storage import (
    DataDirectory,
    conform,
    id_texts,
    open_data_file,
    read_data_file,
    written,
)
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, REPEATING_IN_MATCHES, without_composed

CANDIDATES_SCHEMA = pa.schema([*without_composed(MATCHES_SCHEMA), *list(CANDIDATES)[len(MANY_PATTERNS) :]])
"""Columns of a file of candidates: those of the matches table, and what deciding about them needs."""
_PENDING = "_pending"
_UNDECIDED = ("match_id", "start_ts", "end_ts", "bindings", "returns", "instants", "partition")


class CandidateDecider:
    """Decides about the candidates of one pattern, as far as all before them are final.

    Parameters
    ----------
    pattern
        A pattern with NON_OVERLAP or CONSUME.
    job
        The day, and what the day before hands on.

    Attributes
    ----------
    time
        The column in whose order candidates come to be decided about: the time of the last event, or of the first one.
    """

    def __init__(self, pattern: Pattern, job: DayOfSet) -> None:
        state = job.state.patterns.get(pattern.name, {})
        self.pattern, self.time = pattern, "start_ts" if pattern.output.is_preferred else "end_ts"
        self.kept = KeptMatches(pattern, state, in_order=not waits_for_later_events(pattern))
        rows = rows_from_json(state.get(UNDECIDED, ()), CANDIDATES_SCHEMA, {**job.constants, "pattern": pattern.name})
        self._carried = _marked(rows, False)
        self._blocked: set[str | None] = set()
        self._held = [self._carried.slice(0, 0)]

    def decide(self, files: Mapping[str, bool], low_us: int, high_us: int) -> pa.Table:
        """Decide about the candidates between two times, behind earlier calls; returns those that are kept.

        The files of candidates are given with whether they are not final yet.
        """
        low, high = (pa.scalar(one).cast(UTC_MICROSECONDS) for one in (low_us, high_us))
        between = (pc.field(self.time) >= low) & (pc.field(self.time) < high)
        own = (pc.field("pattern") == self.pattern.name) & between
        read = (_marked(read_data_file(path, CANDIDATES_SCHEMA, own), pending) for path, pending in files.items())
        found = pa.concat_tables([self._carried.filter(between), *read])
        if not len(found):
            return found
        ordered = in_page_order(self.pattern, found)
        partitions = ordered["partition"].combine_chunks().dictionary_encode()
        names = [*partitions.dictionary.to_pylist(), None]
        number = partitions.indices.fill_null(len(names) - 1).to_numpy()
        pending = ordered[_PENDING].to_numpy()
        blocked_from = np.array([0 if name in self._blocked else len(ordered) for name in names], np.int64)
        np.minimum.at(blocked_from, number[pending], np.flatnonzero(pending))
        self._blocked.update(name for name, row in zip(names, blocked_from, strict=True) if row < len(ordered))
        free = ~pending if self.pattern.output.is_preferred else np.arange(len(ordered)) < blocked_from[number]
        self._held.append(ordered.filter(pa.array(~free)))
        return self.kept_of(ordered.filter(pa.array(free)))

    def kept_of(self, candidates: pa.Table) -> pa.Table:
        """Decide about the next candidates, which are final, in their order; returns those that are kept."""
        return candidates.filter(pa.array(self.kept.keep(_candidates(candidates))))

    def held(self) -> pa.Table:
        """Return the candidates that are not final, and those that wait behind them, in the order of the matches."""
        held = pa.concat_tables(self._held)
        return held.filter(pa.array(~self.kept.rules_out(_candidates(held)) | held[_PENDING].to_numpy()))


def rows_to_json(matches: pa.Table, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return some columns of matches in JSON form: ids as text, times in microseconds."""
    columns = {name: id_texts(matches[name]) if name == "match_id" else matches[name] for name in names}
    times = {name: one.cast(pa.int64()) for name, one in columns.items() if pa.types.is_timestamp(one.type)}
    rows: list[dict[str, Any]] = pa.table({**columns, **times}).to_pylist()
    return rows


def rows_from_json(
    rows: Sequence[Mapping[str, Any]], columns: pa.Schema, constants: Mapping[str, Any] = {}
) -> pa.Table:
    """Read what `rows_to_json` has made; `constants` are columns of one value, for all rows."""
    arrays = []
    for column in columns:
        own = [row.get(column.name, constants.get(column.name)) for row in rows]
        if column.name == "match_id":
            arrays.append(ids_from_text(own))
        elif column.type == UTC_MICROSECONDS:
            arrays.append(pa.array(own, pa.int64()).cast(column.type))
        else:
            arrays.append(pa.array(own, column.type))
    return pa.table(arrays, schema=columns)


def _marked(candidates: pa.Table, pending: bool) -> pa.Table:
    return candidates.append_column(_PENDING, pa.repeat(pending, candidates.num_rows))


def _candidates(table: pa.Table) -> Any:
    batches = table.combine_chunks().to_batches()
    return candidates_of(batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema))


def in_page_order(pattern: Pattern, table: pa.Table) -> pa.Table:
    """Sort matches of a pattern that composes nothing, by their column `bindings`, into the order of the page."""
    found = table["bindings"].combine_chunks()
    offsets = found.offsets.to_numpy().astype(np.int64)
    elements = found.flatten()
    names = pa.array([operand.variable for operand in pattern.operands])
    variables = pc.index_in(elements.field("variable"), names).to_numpy().astype(np.int64)
    order = page_order(offsets - offsets[0], elements.field("seq").to_numpy(), variables)
    return table.take(pa.array(order))


def last_seqs(bindings: pa.ListArray) -> Array:
    """The greatest seq of each of these bindings, int64 of shape (len(bindings),)."""
    offsets = bindings.offsets.to_numpy()
    return np.asarray(np.maximum.reduceat(bindings.flatten().field("seq").to_numpy(), offsets[:-1] - offsets[0]))


_NEVER_US = 2**63 - 1
UNDECIDED = "undecided"
"""Key of the candidates that are not decided, beside the state of `KeptMatches`."""


@dataclass(frozen=True)
class CarryState:
    """The facts about the matches so far that a day hands on to the next.

    Attributes
    ----------
    pattern_set_version
        For which patterns it holds; a pattern set that has changed starts anew.
    patterns
        Pattern -> the state of its `KeptMatches` and the candidates that are not decided, where there is anything to
        remember.
    pending
        Pattern whose window counts events of a partition -> the partitions with matches that wait for later events.
        The next day reads them back, whether they occur on it or not.
    composed
        Pattern that another one composes -> its kept matches that a match of a later day may bind
        (`rows_to_json`).
    """

    pattern_set_version: str
    patterns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pending: Mapping[str, Sequence[str]] = field(default_factory=dict)
    composed: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    _BY_PATTERN: ClassVar[tuple[str, ...]] = ("patterns", "pending", "composed")

    def to_json(self) -> dict[str, Any]:
        """The JSON form, {} where nothing is remembered, so that it is equal where it decides the same."""
        if not self.patterns and not self.pending and not self.composed:
            return {}
        lists = {name: list(keys) for name, keys in self.pending.items()}
        others = {"pending": lists, "composed": dict(self.composed)}
        known = {key: part for key, part in others.items() if part}
        return {"pattern_set_version": self.pattern_set_version, "patterns": dict(self.patterns), **known}

    @classmethod
    def from_json(
        cls, document: Mapping[str, Any], pattern_set_version: str, unchanged: Collection[str] = ()
    ) -> CarryState:
        """Read the JSON form; of another version of the pattern set only what is about patterns that are unchanged."""
        state = cls(pattern_set_version, *(document.get(key, {}) for key in cls._BY_PATTERN))
        return state if document.get("pattern_set_version") == pattern_set_version else state.part(unchanged)

    def part(self, names: Collection[str]) -> CarryState:
        """Return the part that is about some patterns."""
        known = (getattr(self, key).items() for key in self._BY_PATTERN)
        return CarryState(
            self.pattern_set_version, *({name: one for name, one in part if name in names} for part in known)
        )

    def after(
        self,
        deciders: Iterable[CandidateDecider],
        undecided: Mapping[str, pa.Table],
        horizons_us: Mapping[str, int | None],
    ) -> CarryState:
        """The state at the end of a day; what no later match can reach is forgotten, nor any that is undecided.

        Parameters
        ----------
        undecided
            Pattern -> what its `CandidateDecider` holds at the end of the day.
        horizons_us
            Pattern -> timestamp of the earliest event that a match after the day may hold; None: of any.
        """
        states = {}
        for decider in deciders:
            pattern, kept = decider.pattern, decider.kept
            horizon_us = horizons_us[pattern.name]
            held = undecided[pattern.name]
            earliest_us = pc.min(pc.list_flatten(held["instants"])).as_py()
            if horizon_us is not None and earliest_us is not None:
                horizon_us = min(horizon_us, earliest_us)
            rows = {UNDECIDED: rows_to_json(held.filter(pc.invert(held[_PENDING])), _UNDECIDED)}
            if horizon_us is not None:
                kept.forget(horizon_us)
            if counts_in_partitions(pattern):
                _forget_counted(kept, pattern.window.events or 1)
            if state := {key: value for key, value in {**kept.to_json(), **rows}.items() if value}:
                states[pattern.name] = state
        return replace(self, patterns=states)


def _forget_counted(kept: KeptMatches, events: int) -> None:
    """Forget consumed events behind which so many others of their partition are consumed as its window counts."""
    positions: dict[str, list[int]] = {}
    for position, _, partition in kept.to_json().get("consumed", ()):
        positions.setdefault(partition, []).append(position)
    kept.forget_partitions({name: own[-events] for name, own in positions.items() if len(own) > events})


@dataclass(frozen=True, kw_only=True)
class DayOfSet:
    """A pattern set on a day: where its matches are written, and what they follow from.

    Attributes
    ----------
    patterns
        Those that are detected.
    pattern_set, pattern_set_version, final_day
        Under what matches are published.
    directory
        Where their files are written.
    mechanism
        As `detect` takes it.
    carry_in
        The state of the latest earlier day.
    end_of_stream
        Whether the matches that wait when the day is over are final, because the stream ends with it. What the next day
        goes on from is the same, in case there is one.
    limits, then
        Those of each pattern, and what follows when one reaches them.
    horizons_us
        For patterns with NON_OVERLAP or CONSUME, as `CarryState.after` takes them.
    """

    patterns: tuple[Pattern, ...]
    pattern_set: str
    pattern_set_version: str
    final_day: date
    directory: DataDirectory
    mechanism: str | None = None
    carry_in: CarryState | None = None
    end_of_stream: bool = False
    limits: Limits = field(default_factory=Limits)
    then: Then = "count"
    horizons_us: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def state(self) -> CarryState:
        """The state that it goes on from."""
        return self.carry_in or CarryState(self.pattern_set_version)

    @property
    def constants(self) -> dict[str, Any]:
        """The columns of matches that have one value each."""
        return {
            "pattern_set": self.pattern_set,
            "final_day": self.final_day,
            "pattern_version": self.pattern_set_version,
        }


class MatchFile(AbstractContextManager["MatchFile"]):
    """A file of matches or candidates, which is made when it gets its first rows; it is closed with the block.

    Parameters
    ----------
    directory, number, attempt
        Where it is, and the number of its task and attempt.
    columns
        Those of the file.
    constants
        Columns of one value, which the rows lack.
    """

    def __init__(
        self,
        directory: DataDirectory,
        number: int,
        attempt: int,
        columns: pa.Schema,
        constants: Mapping[str, Any] = {},
    ) -> None:
        self._place, self._columns, self._constants = (directory, number, attempt), columns, constants
        self._writer: pq.ParquetWriter | None = None
        self._opened = ExitStack()
        self.path: str | None = None

    def __exit__(self, *error: Any) -> bool | None:
        return self._opened.__exit__(*error)

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows; what they lack of the columns is null."""
        if self._writer is None:
            directory, number, attempt = self._place
            self.path = directory.file(number, attempt)
            self._writer = self._opened.enter_context(
                open_data_file(self.path, self._columns, dictionaries=REPEATING_IN_MATCHES)
            )
        table = pa.Table.from_batches([rows])
        for name, value in self._constants.items():
            kind = self._columns.field(name).type
            table = table.append_column(name, pa.repeat(pa.scalar(value, kind), table.num_rows))
        self._writer.write_table(conform(table, self._columns))

    @property
    def files(self) -> list[str]:
        """The file when it is closed, as it is published; none where it got no rows."""
        return [] if self.path is None else [written(self.path)]


@dataclass(frozen=True)
class KeepingResult:
    """The result of the pass: files to publish, kept matches by pattern, and what the next day goes on from.

    `waiting` counts the candidates that are final but stand behind others that are not; `profiles` are the temporal
    orders of the kept matches. `summaries` has the groups of patterns with SUMMARIZE (`PartialSummary.to_json`), of
    which no match is in the files.
    """

    files: tuple[str, ...]
    matches: Mapping[str, int]
    waiting: Mapping[str, int]
    carry_out: CarryState
    profiles: tuple[OutputProfile, ...]
    summaries: Mapping[str, list[dict[str, Any]]]


MOST_CANDIDATES = 500_000
"""Number of candidates of a pattern that are decided about at once, about."""


def keep_candidates(
    job: DayOfSet, points_us: Sequence[int], pending: str | None, candidates: Sequence[str | None], attempt: int = 0
) -> KeepingResult:
    """Decide about the candidates of a day.

    Parameters
    ----------
    job
        The detection; of its patterns those with NON_OVERLAP or CONSUME are decided about.
    points_us
        The ends of the slices: what lies between two of them is decided about at once, or in several parts where there
        are many candidates, so that few are held.
    pending
        The file of candidates that are not final when the day ends, if there are any.
    candidates
        Those of all slices, a file for each (None: it has none).
    """
    deciders = {one.name: CandidateDecider(one, job) for one in job.patterns if decides_in_order(one)}
    matches = dict.fromkeys(deciders, 0)
    profiler = OutputProfiler(decider.pattern for decider in deciders.values())
    summaries = {one.name: PartialSummary(one) for one in job.patterns if one.name in deciders and one.summary}
    # Numbers behind those of the slices' files, so that the order of files is always the same.
    found, numbers = list[str](), count(len(candidates) + 2)

    def publish(kept: Iterable[tuple[str, pa.Table]]) -> None:
        columns = without_composed(MATCHES_SCHEMA)
        with MatchFile(job.directory, next(numbers), attempt, columns) as file:
            for name, batch in ((name, batch) for name, rows in kept for batch in rows.to_batches() if len(batch)):
                matches[name] += len(batch)
                profiler.add_rows(name, batch)
                if name in summaries:
                    summaries[name].add_rows(batch)
                else:
                    file.write(batch)
        found.extend(file.files)

    files = {path: False for path in candidates if path is not None} | ({} if pending is None else {pending: True})
    points = {-(2**63), *points_us, _NEVER_US}
    for name, decider in deciders.items():
        column = pa.schema([MATCHES_SCHEMA.field(decider.time)])
        own = (read_data_file(path, column, pc.field("pattern") == name)[0].cast(pa.int64()) for path in files)
        times = np.sort(np.concatenate([np.zeros(0, np.int64), *own]))
        points.update(times[MOST_CANDIDATES::MOST_CANDIDATES].tolist())
    for low_us, high_us in pairwise(sorted(points)):
        publish((name, decider.decide(files, low_us, high_us)) for name, decider in deciders.items())
    undecided = {name: decider.held() for name, decider in deciders.items()}
    carry_out = job.state.after(deciders.values(), undecided, job.horizons_us)
    if job.end_of_stream:
        publish((name, deciders[name].kept_of(held)) for name, held in undecided.items())
        undecided = {}
    return KeepingResult(
        tuple(found),
        matches,
        {name: len(held) - (pc.sum(held[_PENDING]).as_py() or 0) for name, held in undecided.items()},
        carry_out,
        profiler.profiles(),
        {name: summary.to_json() for name, summary in summaries.items()},
    )
