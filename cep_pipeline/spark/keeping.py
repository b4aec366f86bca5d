"""The pass of OUTPUT and CONSUME over what the slices of a day found, in the page's order, batch after batch.

Which matches of a pattern are kept depends on all earlier kept ones of it. So slices write all matches of such patterns
as candidates, and when the last slice is done one pass reads them in the order of the slices and writes those that are
kept. It starts from the carry state of the day before and ends with that of the day. Patterns do not depend on one
another: where there are many candidates the pass is divided by pattern into tasks.

Matches that wait, for the end of a window say, become final in another order than that of their last events, in which
matches are decided about. So of such a pattern all candidates of a day are brought into the order of their last events,
with those that are not final when the day ends, and in each partition deciding stops at the first of these. The
candidates behind it are held, and handed on to the next day.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import count, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cep_pipeline.detection.matches import CANDIDATES, MANY_PATTERNS, UTC_MICROSECONDS, candidates_of
from cep_pipeline.detection.ordering import page_order
from cep_pipeline.detection.output_policy import KeptMatches, has_output_policy
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import waits_for_later_events
from cep_pipeline.statistics.output_profile import OrderProfile, OutputProfiler
from cep_pipeline.storage import DataDirectory, open_data_file, open_parquet, read_data_file, written
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, REPEATING_IN_MATCHES

CANDIDATES_SCHEMA = pa.schema([*MATCHES_SCHEMA, *list(CANDIDATES)[len(MANY_PATTERNS) :]])
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
            `CANDIDATES_SCHEMA` and whether they are not final yet, in any order.
        """
        ordered = candidates.take(pa.array(_page_order(self.pattern, candidates)))
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

    def held(self) -> pa.Table:
        """Return the candidates that are not final, and those that wait behind them, in the order of the matches."""
        held = pa.concat_tables([_marked(CANDIDATES_SCHEMA.empty_table(), False), *self._held])
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
    sources = [*((path, False) for path in files), *((path, True) for path in pending)]
    for low, high in pairwise([None, *sorted(set(points_us)), None]):
        chosen = pc.field("pattern") == pattern
        if low is not None:
            chosen &= pc.field("end_ts") >= pa.scalar(low).cast(UTC_MICROSECONDS)
        if high is not None:
            chosen &= pc.field("end_ts") < pa.scalar(high).cast(UTC_MICROSECONDS)
        parts = [_marked(read_data_file(path, CANDIDATES_SCHEMA, chosen), waits) for path, waits in sources]
        found = pa.concat_tables([_marked(carried.filter(chosen), False), *parts])
        if found.num_rows:
            yield found


def undecided_to_json(held: pa.Table) -> list[list[Any]]:
    """Return the final matches of `CandidateDecider.held` in JSON form: a list each, with what the next day needs."""
    rows = held.filter(pc.invert(held[_PENDING]))
    instants = [rows[name].cast(pa.int64()).to_pylist() for name in ("start_ts", "end_ts")]
    bindings = [[[binding["variable"], binding["seq"]] for binding in row] for row in rows["bindings"].to_pylist()]
    others = [rows[name].to_pylist() for name in _UNDECIDED[4:]]
    return [list(row) for row in zip(rows["match_id"].to_pylist(), *instants, bindings, *others, strict=True)]


def undecided_from_json(rows: Sequence[Sequence[Any]], constants: Mapping[str, Any]) -> pa.Table:
    """The candidates that a day handed on, with the constant columns of the day that reads them."""
    columns: dict[str, Sequence[Any]] = {name: [row[place] for row in rows] for place, name in enumerate(_UNDECIDED)}
    columns["bindings"] = [[{"variable": v, "seq": seq} for v, seq in row] for row in columns["bindings"]]
    arrays = []
    for column in CANDIDATES_SCHEMA:
        if column.name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[column.name], column.type), len(rows)))
        elif column.type == UTC_MICROSECONDS:
            arrays.append(pa.array(columns[column.name], pa.int64()).cast(column.type))
        else:
            arrays.append(pa.array(columns[column.name], column.type))
    return pa.table(arrays, schema=CANDIDATES_SCHEMA)


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


def _page_order(pattern: Pattern, table: pa.Table) -> Array:
    found = table["bindings"].combine_chunks()
    offsets = found.offsets.to_numpy().astype(np.int64)
    elements = found.flatten()
    names = pa.array([operand.variable for operand in pattern.operands])
    variables = pc.index_in(elements.field("variable"), names).to_numpy().astype(np.int64)
    return page_order(offsets - offsets[0], elements.field("seq").to_numpy(), variables)


_NOTHING = 2**63 - 1
"""No event that is alone in its partition can be in a match of a later day."""
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
    """

    pattern_set_version: str
    patterns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pending: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, {} where nothing is remembered, so that it is equal where it decides the same."""
        if not self.patterns and not self.pending:
            return {}
        pending = {"pending": {name: list(keys) for name, keys in self.pending.items()}} if self.pending else {}
        return {"pattern_set_version": self.pattern_set_version, "patterns": dict(self.patterns), **pending}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], pattern_set_version: str) -> CarryState:
        """Read the JSON form; nothing is remembered of other versions of the pattern set."""
        if document.get("pattern_set_version") != pattern_set_version:
            return cls(pattern_set_version)
        return cls(pattern_set_version, document["patterns"], document.get("pending", {}))

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
            horizon_us = horizons_us[name]
            held = (undecided or {}).get(name)
            earliest_us = earliest_instant_us(held) if held is not None else None
            if horizon_us is not None:
                matches.forget(horizon_us if earliest_us is None else min(horizon_us, earliest_us))
            if reachable and name in reachable:
                waiting = set(held["partition"].to_pylist()) if held is not None else set()
                first: dict[str | None, int] = {} if None in waiting else {None: _NOTHING}
                first.update((key, seq) for key, seq in reachable[name].items() if key not in waiting)
                matches.forget_partitions(first)
            rows = {UNDECIDED: undecided_to_json(held)} if held is not None else {}
            if state := {key: value for key, value in {**matches.to_json(), **rows}.items() if value}:
                states[name] = state
        return replace(self, patterns=states)


@dataclass(frozen=True)
class KeepingResult:
    """The result of the pass: files to publish, kept matches by pattern, and what the next day goes on from.

    `waiting` counts the candidates that are final but stand behind others that are not; `profiles` are the temporal
    orders of the kept matches.
    """

    files: tuple[str, ...]
    matches: Mapping[str, int]
    waiting: Mapping[str, int]
    carry_out: CarryState
    profiles: tuple[OrderProfile, ...] = ()

    @classmethod
    def merged(cls, parts: Sequence[KeepingResult]) -> KeepingResult:
        """The result of a pass from those of its parts, which are of different patterns."""
        states = {name: state for part in parts for name, state in part.carry_out.patterns.items()}
        return cls(
            tuple(path for part in parts for path in part.files),
            {name: number for part in parts for name, number in part.matches.items()},
            {name: number for part in parts for name, number in part.waiting.items()},
            replace(parts[0].carry_out, patterns=states),
            tuple(profile for part in parts for profile in part.profiles),
        )


@dataclass(frozen=True)
class KeepingPass:
    """One pass over a day.

    Attributes
    ----------
    patterns
        Those that are decided about; others are left out.
    pattern_set, final_day
        Under what matches are published.
    carry_in
        The state of the latest earlier day.
    horizons_us, reachable
        As `CarryState.after` takes them.
    directory
        Where the kept matches are written.
    points_us
        Ends of the slices: matches that wait are brought into order between two of them at a time.
    pending
        The file of candidates that are not final when the day ends, if there are any.
    end_of_stream
        Whether these, and what waits behind them, are decided too, because the stream ends with the day. What the next
        day goes on from is the same, in case there is one.
    """

    patterns: Sequence[Pattern]
    pattern_set: str
    final_day: date
    carry_in: CarryState
    horizons_us: Mapping[str, int | None]
    directory: DataDirectory
    points_us: Sequence[int] = ()
    pending: str | None = None
    end_of_stream: bool = False
    reachable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    number: int = 0
    passes: int = 1

    def parts(self, candidates: Mapping[str, int]) -> list[KeepingPass]:
        """Passes of some of the patterns each, which together decide what this one does.

        Parameters
        ----------
        candidates
            Pattern -> how many of its matches are to be decided about, as far as they are final. Few are one part.
        """
        named = [pattern for pattern in self.patterns if has_output_policy(pattern)]
        passes = min(max(sum(candidates.values()) // CANDIDATES_OF_A_PART, 1), _MOST_PARTS, len(named))
        members: list[list[Pattern]] = [[] for _ in range(passes)]
        sizes = [0] * passes
        for pattern in sorted(named, key=lambda pattern: -candidates.get(pattern.name, 0)):
            place = sizes.index(min(sizes))
            members[place].append(pattern)
            sizes[place] += max(candidates.get(pattern.name, 0), 1)
        return [self._of(part, number, passes) for number, part in enumerate(members)]

    def _of(self, patterns: Sequence[Pattern], number: int, passes: int) -> KeepingPass:
        names = {pattern.name for pattern in patterns}
        states = {name: state for name, state in self.carry_in.patterns.items() if name in names}
        in_order = [pattern for pattern in self.patterns if pattern.name in names]
        carry_in = replace(self.carry_in, patterns=states)
        return replace(self, patterns=in_order, carry_in=carry_in, number=number, passes=passes)

    def run(self, candidates: Sequence[str | None], attempt: int = 0) -> KeepingResult:
        """Decide about the candidates of all slices, a file for each in the order of the slices (None: it has none)."""
        kept = self.carry_in.kept(self.patterns)
        # Numbers behind those of the slices' files, so that the order of files is always the same.
        profiler = OutputProfiler(pattern for pattern in self.patterns if pattern.name in kept)
        numbers = count(len(candidates) + 2 + self.number, self.passes)
        files = _MatchFiles(self.directory, attempt, numbers, dict.fromkeys(kept, 0), profiler)
        waiting = [pattern for pattern in self.patterns if pattern.name in kept and waits_for_later_events(pattern)]
        names = {pattern.name for pattern in waiting}
        for source in candidates:
            with files.next_file() as write:
                for name, batch in _batches(source, kept.keys() - names):
                    write(name, batch.filter(pa.array(kept[name].keep(candidates_of(batch)))))
        undecided = {pattern.name: self._decide(pattern, kept[pattern.name], candidates, files) for pattern in waiting}
        carry_out = self.carry_in.after(kept, self.horizons_us, undecided, self.reachable)
        if self.end_of_stream:
            with files.next_file() as write:
                for name, held in undecided.items():
                    for batch in held.combine_chunks().to_batches():
                        write(name, batch.filter(pa.array(kept[name].keep(candidates_of(batch)))))
            undecided = {}
        return KeepingResult(
            tuple(map(written, files.paths)),
            files.matches,
            {name: final_rows(held) for name, held in undecided.items()},
            carry_out,
            files.profiler.profiles(),
        )

    def _decide(
        self, pattern: Pattern, kept: KeptMatches, candidates: Sequence[str | None], files: _MatchFiles
    ) -> pa.Table:
        """Decide about the candidates of a pattern whose matches wait; returns what is held."""
        constants = {
            "pattern_set": self.pattern_set,
            "final_day": self.final_day,
            "pattern": pattern.name,
            "pattern_version": self.carry_in.pattern_set_version,
        }
        rows = self.carry_in.patterns.get(pattern.name, {}).get(UNDECIDED, [])
        deciding = CandidateDecider(pattern, kept)
        for found in candidates_by_time(
            pattern.name,
            [path for path in candidates if path is not None],
            [self.pending] if self.pending is not None else [],
            undecided_from_json(rows, constants),
            self.points_us,
        ):
            with files.next_file() as write:
                for batch in deciding.decide(found).to_batches():
                    write(pattern.name, batch)
        return deciding.held()


class _MatchFiles:
    """The files of kept matches, each made when it gets its first match."""

    def __init__(
        self,
        directory: DataDirectory,
        attempt: int,
        numbers: Iterator[int],
        matches: dict[str, int],
        profiler: OutputProfiler,
    ) -> None:
        self._directory, self._attempt, self._numbers = directory, attempt, numbers
        self.paths: list[str] = []
        self.matches = matches
        self.profiler = profiler

    @contextmanager
    def next_file(self) -> Iterator[Callable[[str, pa.RecordBatch], None]]:
        """The next file in order: a function that takes matches of a pattern."""
        number = next(self._numbers)
        writer: pq.ParquetWriter | None = None
        with ExitStack() as stack:

            def write(name: str, batch: pa.RecordBatch) -> None:
                nonlocal writer
                if not batch.num_rows:
                    return
                if writer is None:
                    self.paths.append(self._directory.file(number, self._attempt))
                    writer = stack.enter_context(
                        open_data_file(self.paths[-1], MATCHES_SCHEMA, dictionaries=REPEATING_IN_MATCHES)
                    )
                writer.write_batch(batch.select(MATCHES_SCHEMA.names))
                self.matches[name] += batch.num_rows
                self.profiler.add_rows(name, batch)

            yield write


CANDIDATES_OF_A_PART = 200_000
"""So many candidates are worth a task of their own."""
_MOST_PARTS = 64


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
            for batch in file.read_row_group(group).cast(CANDIDATES_SCHEMA).to_batches():
                for pattern in pc.unique(batch.column("pattern")).to_pylist():
                    if pattern in names:
                        yield pattern, batch.filter(pc.equal(batch.column("pattern"), pattern))
