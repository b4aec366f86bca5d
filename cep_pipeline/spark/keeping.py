"""The pass of OUTPUT and CONSUME over what the slices of a day found, in the page's order, batch after batch.

Which matches of a pattern are kept depends on all earlier kept ones of it. So slices write all matches of such patterns
as candidates, and when the last slice is done one task reads them in the order of the slices and writes those that are
kept. It starts from the carry state of the day before and ends with that of the day.

Matches that wait, for the end of a window say, become final in another order than that of their last events, in which
matches are decided about. So of such a pattern all candidates of a day are brought into the order of their last events,
with those that are not final when the day ends, and in each partition deciding stops at the first of these. The
candidates behind it are held, and handed on to the next day.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
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
from cep_pipeline.detection.output_policy import KeptMatches, has_output_policy
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import waits_for_later_events
from cep_pipeline.slices.prepared import Boundary
from cep_pipeline.statistics.output_profile import OrderProfile, OutputProfiler
from cep_pipeline.storage import (
    DataDirectory,
    conform,
    id_texts,
    open_data_file,
    open_parquet,
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
        A pattern with OUTPUT or CONSUME.
    kept
        What is kept so far.
    """

    def __init__(self, pattern: Pattern, kept: KeptMatches) -> None:
        self.pattern, self.kept = pattern, kept
        self._blocked: set[str | None] = set()
        self._held: list[pa.Table] = []

    def decide(self, candidates: pa.Table) -> pa.Table:
        """Decide about the next candidates, which all end after those of earlier calls; returns those that are kept.

        Parameters
        ----------
        candidates
            The columns that deciding needs, any others, and whether they are not final yet, in any order.
        """
        ordered = in_page_order(self.pattern, candidates)
        partitions = ordered["partition"].combine_chunks().dictionary_encode()
        names = [*partitions.dictionary.to_pylist(), None]
        number = partitions.indices.fill_null(len(names) - 1).to_numpy()
        pending = ordered[_PENDING].to_numpy()
        blocked_from = np.array([0 if name in self._blocked else len(ordered) for name in names], np.int64)
        np.minimum.at(blocked_from, number[pending], np.flatnonzero(pending))
        self._blocked.update(name for name, row in zip(names, blocked_from, strict=True) if row < len(ordered))
        free = np.arange(len(ordered)) < blocked_from[number]
        self._held.append(ordered.filter(pa.array(~free)))
        decided = ordered.filter(pa.array(free))
        return decided.filter(pa.array(self.kept.keep(_candidates(decided))))

    def held(self) -> pa.Table | None:
        """Return the candidates that are not final, and those that wait behind them, in the order of the matches.

        None where nothing was to be decided.
        """
        if not self._held:
            return None
        held = pa.concat_tables(self._held)
        return held.filter(pa.array(~self.kept.rules_out(_candidates(held)) | held[_PENDING].to_numpy()))


def candidates_by_time(
    pattern: str, files: Iterable[str], pending: Iterable[str], carried: pa.Table, points_us: Sequence[int]
) -> Iterator[pa.Table]:
    """The candidates of a pattern, those that end between two points after one another, so that few are held at once.

    Parameters
    ----------
    files, pending
        Files of candidates, and of those that are not final yet.
    carried
        What the day before handed on.
    points_us
        Ascending timestamps, such as the ends of slices.
    """
    sources = [
        (path, waits, ends)
        for path, waits in (*((path, False) for path in files), *((path, True) for path in pending))
        if (ends := _ends_us(path, pattern)) is not None
    ]
    for low, high in pairwise([None, *sorted(set(points_us)), None]):
        chosen = pc.field("pattern") == pattern
        if low is not None:
            chosen &= pc.field("end_ts") >= pa.scalar(low).cast(UTC_MICROSECONDS)
        if high is not None:
            chosen &= pc.field("end_ts") < pa.scalar(high).cast(UTC_MICROSECONDS)
        parts = [
            _marked(read_data_file(path, CANDIDATES_SCHEMA, chosen), waits)
            for path, waits, (first, last) in sources
            if (low is None or last >= low) and (high is None or first < high)
        ]
        found = pa.concat_tables([_marked(carried.filter(chosen), False), *parts])
        if found.num_rows:
            yield found


def _ends_us(path: str, pattern: str) -> tuple[int, int] | None:
    """Bounds of the ends of a pattern's candidates in a file, by its footer; None where it has no such candidates."""
    ends: list[tuple[int, int]] = []
    with open_parquet(path) as file:
        places = [file.schema_arrow.names.index(column) for column in ("pattern", "end_ts")]
        for number in range(file.num_row_groups):
            known, end = (file.metadata.row_group(number).column(place).statistics for place in places)
            if known is not None and known.has_min_max and not known.min <= pattern <= known.max:
                continue
            exact = end is not None and end.has_min_max
            ends.append((end.min_raw, end.max_raw) if exact else (-(2**63), 2**63 - 1))
    return (min(first for first, _ in ends), max(last for _, last in ends)) if ends else None


def rows_to_json(matches: pa.Table, names: Sequence[str]) -> list[list[Any]]:
    """Return some columns of matches in JSON form, a list each: ids as text, times in microseconds."""
    columns = []
    for name in names:
        column = id_texts(matches[name]) if name == "match_id" else matches[name]
        values = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        if name == "bindings":
            values = [[[binding["variable"], binding["seq"]] for binding in row] for row in values]
        columns.append(values)
    return [list(row) for row in zip(*columns, strict=True)]


def rows_from_json(
    rows: Sequence[Sequence[Any]], names: Sequence[str], columns: pa.Schema, constants: Mapping[str, Any] = {}
) -> pa.Table:
    """Read what `rows_to_json` made of columns of these names; `constants` have one value each, for all rows."""
    values = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    arrays = []
    for column in columns:
        own = values.get(column.name, [])
        if column.name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[column.name], column.type), len(rows)))
        elif column.name == "match_id":
            arrays.append(ids_from_text(own))
        elif column.name == "bindings":
            arrays.append(pa.array([[{"variable": v, "seq": seq} for v, seq in row] for row in own], column.type))
        elif column.type == UTC_MICROSECONDS:
            arrays.append(pa.array(own, pa.int64()).cast(column.type))
        else:
            arrays.append(pa.array(own, column.type))
    return pa.table(arrays, schema=columns)


def earliest_instant_us(held: pa.Table) -> int | None:
    """The timestamp of the first event of all these candidates, None without any."""
    earliest = pc.min(pc.list_flatten(held["instants"])).as_py()
    return None if earliest is None else int(earliest)


def final_rows(held: pa.Table) -> int:
    """Return the number of candidates that are held and final."""
    return int(held.num_rows - pc.sum(held[_PENDING].cast(pa.int64())).as_py()) if held.num_rows else 0


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


def first_last_event(matches: pa.RecordBatch) -> Boundary:
    """The earliest last event of some matches."""
    seqs = last_seqs(matches.column("bindings"))
    row = int(np.argmin(seqs))
    return matches.column("end_ts").cast(pa.int64())[row].as_py(), int(seqs[row])


_NOTHING = 2**63 - 1
"""A sequence number above all others: no event that is alone in its partition can be in a match of a later day."""
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
    waiting
        Such a pattern -> timestamp and seq of the earliest last event of these matches (`ownership.known_before`).
    composed
        Pattern that another one composes -> its kept matches that a match of a later day may bind
        (`rows_to_json`).
    """

    pattern_set_version: str
    patterns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pending: Mapping[str, Sequence[str]] = field(default_factory=dict)
    waiting: Mapping[str, Sequence[int]] = field(default_factory=dict)
    composed: Mapping[str, Sequence[Sequence[Any]]] = field(default_factory=dict)
    _BY_PATTERN: ClassVar[tuple[str, ...]] = ("patterns", "pending", "waiting", "composed")

    def to_json(self) -> dict[str, Any]:
        """The JSON form, {} where nothing is remembered, so that it is equal where it decides the same."""
        if not self.patterns and not self.pending and not self.composed:
            return {}
        lists = {name: list(keys) for name, keys in self.pending.items()}
        events = {name: list(event) for name, event in self.waiting.items()}
        others = {"pending": lists, "waiting": events, "composed": dict(self.composed)}
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

    def kept(self, patterns: Iterable[Pattern]) -> dict[str, KeptMatches]:
        """Return the kept matches that each of these patterns with OUTPUT or CONSUME goes on from."""
        return {
            pattern.name: KeptMatches(
                pattern, self.patterns.get(pattern.name), in_order=not waits_for_later_events(pattern)
            )
            for pattern in patterns
            if has_output_policy(pattern)
        }

    def after(
        self,
        kept: Mapping[str, KeptMatches],
        horizons_us: Mapping[str, int | None],
        undecided: Mapping[str, pa.Table] | None = None,
        reachable: Mapping[str, Mapping[str, int]] | None = None,
    ) -> CarryState:
        """The state at the end of a day.

        Parameters
        ----------
        kept
            What is kept of each pattern, from which is forgotten what no later match can reach.
        horizons_us
            Pattern -> timestamp of the earliest event that a match after the day may hold; None: of any.
        undecided
            Pattern -> what `CandidateDecider` holds at the end of the day.
        reachable
            Pattern whose window counts events of a partition -> `EarlierEvents.reachable`.
        """
        states = {}
        for name, matches in kept.items():
            held = (undecided or {}).get(name)
            earliest_us = earliest_instant_us(held) if held is not None else None
            _forget(matches, horizons_us[name], earliest_us, held, (reachable or {}).get(name))
            final = held.filter(pc.invert(held[_PENDING])) if held is not None else None
            rows = {UNDECIDED: rows_to_json(final, _UNDECIDED)} if final is not None else {}
            if state := {key: value for key, value in {**matches.to_json(), **rows}.items() if value}:
                states[name] = state
        return replace(self, patterns=states)


def _forget(
    kept: KeptMatches,
    horizon_us: int | None,
    earliest_us: int | None,
    held: pa.Table | None,
    reachable: Mapping[str, int] | None,
) -> None:
    """Forget what no later match can reach, nor any that is held, of which the first event is at `earliest_us`."""
    if horizon_us is not None:
        kept.forget(horizon_us if earliest_us is None else min(horizon_us, earliest_us))
    if reachable is not None:
        waiting = set(held["partition"].to_pylist()) if held is not None else set()
        first: dict[str | None, int] = {} if None in waiting else {None: _NOTHING}
        first.update((key, seq) for key, seq in reachable.items() if key not in waiting)
        kept.forget_partitions(first)


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
        Pattern -> its limits on the day, and what follows when it reaches one.
    horizons_us, reachable
        For patterns with OUTPUT or CONSUME, as `CarryState.after` takes them.
    """

    patterns: tuple[Pattern, ...]
    pattern_set: str
    pattern_set_version: str
    final_day: date
    directory: DataDirectory
    mechanism: str | None = None
    carry_in: CarryState | None = None
    end_of_stream: bool = False
    limits: Mapping[str, Limits] = field(default_factory=dict)
    then: Mapping[str, Then] = field(default_factory=dict)
    horizons_us: Mapping[str, int | None] = field(default_factory=dict)
    reachable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def state(self) -> CarryState:
        """The state that it goes on from."""
        return self.carry_in or CarryState(self.pattern_set_version)

    @property
    def columns(self) -> pa.Schema:
        """The columns of the matches table."""
        return MATCHES_SCHEMA

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
    profiles: tuple[OrderProfile, ...]
    summaries: Mapping[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class KeepingPass:
    """One pass over a day.

    Attributes
    ----------
    job
        The detection; of its patterns those with OUTPUT or CONSUME are decided about.
    points_us
        Ends of the slices: matches that wait are brought into order between two of them at a time.
    pending
        The file of candidates that are not final when the day ends, if there are any.
    """

    job: DayOfSet
    points_us: Sequence[int] = ()
    pending: str | None = None

    def run(self, candidates: Sequence[str | None], attempt: int = 0) -> KeepingResult:
        """Decide about the candidates of all slices, a file for each in the order of the slices (None: it has none)."""
        job = self.job
        kept = job.state.kept(job.patterns)
        deciding = [pattern for pattern in job.patterns if pattern.name in kept]
        # Numbers behind those of the slices' files, so that the order of files is always the same.
        found = _KeptFiles(job, attempt, len(candidates) + 2, deciding)
        waiting = [pattern for pattern in deciding if waits_for_later_events(pattern)]
        in_order = kept.keys() - {pattern.name for pattern in waiting}
        for source in candidates:
            with found.next_file() as write:
                for name, batch in _batches(source, in_order):
                    write(name, batch.filter(pa.array(kept[name].keep(candidates_of(batch)))))
        undecided = {}
        for pattern in waiting:
            decider = CandidateDecider(pattern, kept[pattern.name])
            for part in self._by_time(pattern, candidates):
                with found.next_file() as write:
                    for batch in decider.decide(part).to_batches():
                        write(pattern.name, batch)
            if (held := decider.held()) is not None:
                undecided[pattern.name] = held
        carry_out = job.state.after(kept, job.horizons_us, undecided, job.reachable)
        if job.end_of_stream:
            with found.next_file() as write:
                for name, held in undecided.items():
                    for batch in held.combine_chunks().to_batches():
                        write(name, batch.filter(pa.array(kept[name].keep(candidates_of(batch)))))
            undecided = {}
        return KeepingResult(
            tuple(found.files),
            found.matches,
            {name: final_rows(held) for name, held in undecided.items()},
            carry_out,
            found.profiler.profiles(),
            {name: summary.to_json() for name, summary in found.summaries.items()},
        )

    def _by_time(self, pattern: Pattern, candidates: Sequence[str | None]) -> Iterator[pa.Table]:
        """The candidates of a pattern whose matches wait, those of the day before among them (`candidates_by_time`)."""
        rows = self.job.state.patterns.get(pattern.name, {}).get(UNDECIDED, [])
        return candidates_by_time(
            pattern.name,
            [path for path in candidates if path is not None],
            [self.pending] if self.pending is not None else [],
            rows_from_json(rows, _UNDECIDED, CANDIDATES_SCHEMA, {**self.job.constants, "pattern": pattern.name}),
            self.points_us,
        )


class _KeptFiles:
    """The files of kept matches, numbered from `first` on."""

    def __init__(self, job: DayOfSet, attempt: int, first: int, patterns: Sequence[Pattern]) -> None:
        self._job, self._attempt, self._numbers = job, attempt, count(first)
        self.files: list[str] = []
        self.matches = {pattern.name: 0 for pattern in patterns}
        self.profiler = OutputProfiler(patterns)
        self.summaries = {one.name: PartialSummary(one) for one in patterns if one.summary is not None}

    @contextmanager
    def next_file(self) -> Iterator[Callable[[str, pa.RecordBatch], None]]:
        """The next file in order: a function that takes matches of a pattern."""
        columns = without_composed(self._job.columns)
        with MatchFile(self._job.directory, next(self._numbers), self._attempt, columns) as file:

            def write(name: str, batch: pa.RecordBatch) -> None:
                if not batch.num_rows:
                    return
                self.matches[name] += batch.num_rows
                self.profiler.add_rows(name, batch)
                if name in self.summaries:
                    self.summaries[name].add_rows(batch)
                else:
                    file.write(batch)

            yield write
        self.files += file.files


def _batches(path: str | None, names: Collection[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The candidates of a slice of patterns of these names, a batch of one pattern after another."""
    if path is None or not names:
        return
    with open_parquet(path) as file:
        column = file.schema_arrow.names.index("pattern")
        for group in range(file.num_row_groups):
            known = file.metadata.row_group(group).column(column).statistics
            if known is not None and known.has_min_max and known.min == known.max and known.min not in names:
                continue  # the candidates of one pattern stand together
            read = file.read_row_group(group)
            for pattern in pc.unique(read["pattern"]).to_pylist():
                if pattern in names:
                    own = read.filter(pc.equal(read["pattern"], pattern))
                    for batch in own.select(CANDIDATES_SCHEMA.names).cast(CANDIDATES_SCHEMA).to_batches():
                        yield pattern, batch
