"""The pass of OUTPUT and CONSUME over what the slices of a day found, in the page's order, batch after batch.

Which matches of a pattern are kept depends on all earlier kept ones of it. So slices write all matches of such patterns
as candidates, and when the last slice is done one pass reads them in the order of the slices and writes those that are
kept. It starts from the carry state of the day before and ends with that of the day. Patterns do not depend on one
another: where there are many candidates the pass is divided by pattern into tasks.

A pattern with very many candidates is decided and written apart, as a `DividedPass`. Deciding reads few columns. With
PARTITION BY all events of a match are in one partition, and both clauses look at earlier matches of that partition
only, so that shares of the partitions are decided side by side; without it one task decides. Then the kept matches are
written slice by slice, in the order that one pass would give them.

Matches that wait, for the end of a window say, become final in another order than that of their last events, in which
matches are decided about. So of such a pattern all candidates of a day are brought into the order of their last events,
with those that are not final when the day ends, and in each partition deciding stops at the first of these. The
candidates behind it are held, and handed on to the next day.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from itertools import count, pairwise
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cep_pipeline.detection.match_ids import MatchIdentity, ids_array
from cep_pipeline.detection.matches import CANDIDATES, MANY_PATTERNS, UTC_MICROSECONDS, candidates_of
from cep_pipeline.detection.ordering import OrderedLists, page_order
from cep_pipeline.detection.output_policy import KeptMatches, has_output_policy, merged_states, state_of_partitions
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.ownership import waits_for_later_events
from cep_pipeline.slices.prepared import Boundary
from cep_pipeline.statistics.output_profile import OrderProfile, OutputProfiler
from cep_pipeline.storage import (
    DataDirectory,
    conform,
    digest_of,
    id_texts,
    open_data_file,
    open_parquet,
    read_data_file,
    written,
)
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, REPEATING_IN_MATCHES, without_composed

CANDIDATES_SCHEMA = pa.schema([*without_composed(MATCHES_SCHEMA), *list(CANDIDATES)[len(MANY_PATTERNS) :]])
"""Columns of a file of candidates: those of the matches table, and what deciding about them needs."""
_DECIDING_SCHEMA = pa.schema(
    [CANDIDATES_SCHEMA.field(name) for name in ("pattern", "end_ts", "bindings", "instants", "partition")]
)
"""The columns that deciding needs where matches wait; ids and RETURN are most of what is read and written else."""
_CANDIDATES_OF = ("bindings.list.element.seq", "instants", "partition")
"""The columns of a file that deciding needs where matches come in order."""
_PENDING = "_pending"
_ROW = "_row"
"""Column with the number of a candidate among those of its pattern in a chunk, where it is written apart."""
_CHUNK = "_chunk"
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
    pattern: str,
    files: Iterable[str],
    pending: Iterable[str],
    carried: pa.Table,
    points_us: Sequence[int],
    columns: pa.Schema = CANDIDATES_SCHEMA,
    only: int | None = None,
) -> Iterator[tuple[int, pa.Table]]:
    """The candidates of a pattern, those that end between two points after one another, so that few are held at once.

    Each comes with the number of its first point.

    Parameters
    ----------
    files, pending
        Files of candidates, and of those that are not final yet.
    carried
        What the day before handed on.
    points_us
        Ascending timestamps, such as the ends of slices.
    columns
        Those of `CANDIDATES_SCHEMA` that are read.
    only
        The one number that is asked for.
    """
    sources = [
        (path, waits, ends)
        for path, waits in (*((path, False) for path in files), *((path, True) for path in pending))
        if (ends := _ends_us(path, pattern)) is not None
    ]
    for number, (low, high) in enumerate(pairwise([None, *sorted(set(points_us)), None])):
        if only is not None and number != only:
            continue
        chosen = pc.field("pattern") == pattern
        if low is not None:
            chosen &= pc.field("end_ts") >= pa.scalar(low).cast(UTC_MICROSECONDS)
        if high is not None:
            chosen &= pc.field("end_ts") < pa.scalar(high).cast(UTC_MICROSECONDS)
        parts = [
            _marked(read_data_file(path, columns, chosen), waits)
            for path, waits, (first, last) in sources
            if (low is None or last >= low) and (high is None or first < high)
        ]
        found = pa.concat_tables([_marked(carried.select(columns.names).filter(chosen), False), *parts])
        if found.num_rows:
            yield number, found


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


def undecided_to_json(held: pa.Table) -> list[list[Any]]:
    """Return the final matches of `CandidateDecider.held` in JSON form: a list each, with what the next day needs."""
    rows = held.filter(pc.invert(held[_PENDING]))
    instants = [rows[name].cast(pa.int64()).to_pylist() for name in ("start_ts", "end_ts")]
    bindings = [[[binding["variable"], binding["seq"]] for binding in row] for row in rows["bindings"].to_pylist()]
    others = [rows[name].to_pylist() for name in _UNDECIDED[4:]]
    ids = id_texts(rows["match_id"]).to_pylist()
    return [list(row) for row in zip(ids, *instants, bindings, *others, strict=True)]


def undecided_from_json(pattern: Pattern, rows: Sequence[Sequence[Any]], constants: Mapping[str, Any]) -> pa.Table:
    """The candidates that a day handed on, with the constant columns of the day that reads them.

    Their ids are made anew: an earlier version may have handed them on.
    """
    columns: dict[str, Sequence[Any]] = {name: [row[place] for row in rows] for place, name in enumerate(_UNDECIDED)}
    ids = _ids_of(pattern, columns["bindings"])
    columns["bindings"] = [[{"variable": v, "seq": seq} for v, seq in row] for row in columns["bindings"]]
    arrays = []
    for column in CANDIDATES_SCHEMA:
        if column.name == "match_id":
            arrays.append(ids)
        elif column.name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[column.name], column.type), len(rows)))
        elif column.type == UTC_MICROSECONDS:
            arrays.append(pa.array(columns[column.name], pa.int64()).cast(column.type))
        else:
            arrays.append(pa.array(columns[column.name], column.type))
    return pa.table(arrays, schema=CANDIDATES_SCHEMA)


def _ids_of(pattern: Pattern, bindings: Sequence[Sequence[tuple[str, int]]]) -> pa.Array:
    names = tuple(operand.variable for operand in pattern.operands)
    seqs = np.array([seq for row in bindings for _, seq in row], np.int64)
    variables = np.array([names.index(name) for row in bindings for name, _ in row], np.int32)
    offsets = np.cumsum([0, *map(len, bindings)], dtype=np.int64)
    matches = OrderedLists(names, offsets, np.arange(len(seqs), dtype=np.int32), variables)
    return ids_array(MatchIdentity.of(pattern).rows_of(matches, seqs, seqs).ids)


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
    return table.take(pa.array(_page_order(pattern, table)))


def _page_order(pattern: Pattern, table: pa.Table) -> Array:
    found = table["bindings"].combine_chunks()
    offsets = found.offsets.to_numpy().astype(np.int64)
    elements = found.flatten()
    names = pa.array([operand.variable for operand in pattern.operands])
    variables = pc.index_in(elements.field("variable"), names).to_numpy().astype(np.int64)
    return page_order(offsets - offsets[0], elements.field("seq").to_numpy(), variables)


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
        (`composing.to_rows`).
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

    def __or__(self, other: CarryState) -> CarryState:
        """Join it with what is about other patterns."""
        both = ({**getattr(self, key), **getattr(other, key)} for key in self._BY_PATTERN)
        return CarryState(self.pattern_set_version, *both)

    def digests(self) -> dict[str, str]:
        """Pattern -> digest of what is remembered of it, where that is anything."""
        names = sorted({*self.patterns, *self.pending})
        return {name: digest_of([self.patterns.get(name), self.pending.get(name)]) for name in names}

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
            rows = {UNDECIDED: undecided_to_json(held)} if held is not None else {}
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

    def decide(
        self,
        candidates: Sequence[str | None],
        matches: Mapping[str, int],
        scratch: DataDirectory,
        cores: int,
        run: RunTasks,
    ) -> KeepingResult:
        """Decide about the candidates of all slices in tasks.

        Parameters
        ----------
        candidates
            A file for each slice, in the order of the slices (None: it has none).
        matches
            Pattern -> how many of its matches are to be decided about, as far as they are final.
        scratch
            Where tasks write what they hand on to others.
        cores
            How many tasks run side by side: a pattern gets no more shares, since each reads all its candidates.
        run
            Runs a function of a task and the number of its attempt over some tasks.
        """
        files = tuple(candidates)
        shares = self.shares(matches, scratch, cores)
        whole = self.parts({name: number for name, number in matches.items() if name not in {s.name for s in shares}})
        done = run(partial(_run_part, files), [*whole, *shares])
        results = [result for result in done if isinstance(result, KeepingResult)]
        if shares:
            decided = [result for result in done if isinstance(result, DecidedShare)]
            patterns = [pattern for pattern in self.patterns if pattern.name in {share.name for share in shares}]
            divided = DividedPass(self._of(patterns), decided)
            results.append(divided.result(run(partial(divided.write, files), divided.chunks())))
        return KeepingResult.merged(results)

    def parts(self, candidates: Mapping[str, int]) -> list[KeepingPass]:
        """Passes of some of the patterns each, which together decide what this one does.

        Parameters
        ----------
        candidates
            The patterns -> how many candidates each has. Few are one part.
        """
        named = [pattern for pattern in self.patterns if pattern.name in candidates]
        passes = min(max(sum(candidates.values()) // CANDIDATES_OF_A_PART, 1), _MOST_PARTS, len(named))
        members: list[list[Pattern]] = [[] for _ in range(passes)]
        sizes = [0] * passes
        for pattern in sorted(named, key=lambda pattern: -candidates[pattern.name]):
            place = sizes.index(min(sizes))
            members[place].append(pattern)
            sizes[place] += max(candidates[pattern.name], 1)
        return [self._of(part, number, passes) for number, part in enumerate(members)]

    def shares(self, candidates: Mapping[str, int], scratch: DataDirectory, cores: int) -> list[KeepingShare]:
        """The shares of patterns whose candidates are so many that one task for them would take longer than all others.

        Without PARTITION BY a pattern has one share.
        """
        cores, total = min(cores, MOST_SHARES), sum(candidates.values())
        few = max(2 * CANDIDATES_OF_A_PART - 1, total // cores)  # none is divided where there is one core
        shares = []
        for pattern in self.patterns:
            if (number := candidates.get(pattern.name, 0)) > few:
                of = -(-cores * number // total) if pattern.partition_by else 1
                shares += [KeepingShare(self._of([pattern]), scratch, place, of) for place in range(of)]
        return shares

    def _of(self, patterns: Sequence[Pattern], number: int = 0, passes: int = 1) -> KeepingPass:
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
        undecided = {}
        for pattern in waiting:
            deciding = CandidateDecider(pattern, kept[pattern.name])
            for _, found in self.by_time(pattern, candidates):
                with files.next_file() as write:
                    for batch in deciding.decide(found).to_batches():
                        write(pattern.name, batch)
            if (held := deciding.held()) is not None:
                undecided[pattern.name] = held
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

    def by_time(
        self,
        pattern: Pattern,
        candidates: Sequence[str | None],
        columns: pa.Schema = CANDIDATES_SCHEMA,
        only: int | None = None,
    ) -> Iterator[tuple[int, pa.Table]]:
        """The candidates of a pattern whose matches wait, those of the day before among them (`candidates_by_time`)."""
        constants = {
            "pattern_set": self.pattern_set,
            "final_day": self.final_day,
            "pattern": pattern.name,
            "pattern_version": self.carry_in.pattern_set_version,
        }
        rows = self.carry_in.patterns.get(pattern.name, {}).get(UNDECIDED, [])
        return candidates_by_time(
            pattern.name,
            [path for path in candidates if path is not None],
            [self.pending] if self.pending is not None else [],
            undecided_from_json(pattern, rows, constants),
            self.points_us,
            columns,
            only,
        )


_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class RunTasks(Protocol):
    """Runs a function of a task and the number of its attempt over tasks; returns the results in their order."""

    def __call__(self, function: Callable[[_Task, int], _Result], tasks: Sequence[_Task], /) -> list[_Result]:
        """Run the function over the tasks."""


def _run_part(
    candidates: Sequence[str | None], part: KeepingPass | KeepingShare, attempt: int
) -> KeepingResult | DecidedShare:
    return part.run(candidates, attempt)


_DECISIONS = pa.schema([("chunk", pa.int32()), ("row", pa.int64()), ("decision", pa.int8())])
"""Columns of a file of decisions: the candidates that are not dropped, by their rows among those of a chunk."""
_KEPT, _HELD, _KEPT_AT_THE_END = 0, 1, 2
"""A candidate is kept; it is handed on to the next day; it is handed on, and kept if the stream ends with this day."""


@dataclass(frozen=True)
class DecidedShare:
    """The outcome of a share: its file of decisions, the chunks that these are about, and the state of what is kept."""

    pattern: str
    path: str
    chunks: frozenset[int]
    state: Mapping[str, Any]


@dataclass(frozen=True)
class KeepingShare:
    """The deciding about those candidates of one pattern whose partitions fall to this share.

    A chunk of candidates is the file of a slice; where matches wait, it is what ends between two points.

    Attributes
    ----------
    whole
        The pass of the one pattern.
    scratch
        Where the decisions are written.
    number, of
        Which share this is, and how many there are.
    """

    whole: KeepingPass
    scratch: DataDirectory
    number: int
    of: int

    @property
    def name(self) -> str:
        """The name of the pattern."""
        return self.whole.patterns[0].name

    def run(self, candidates: Sequence[str | None], attempt: int = 0) -> DecidedShare:
        """Decide, and write the decisions into a file."""
        whole, pattern = self.whole, self.whole.patterns[0]
        waits = waits_for_later_events(pattern)
        state = state_of_partitions(whole.carry_in.patterns.get(self.name, {}), self._has)
        kept = KeptMatches(pattern, state, in_order=not waits)
        path = self.scratch.file(self.number, attempt)
        chunks: set[int] = set()
        with open_data_file(path, _DECISIONS) as writer:

            def note(found: pa.Table, decisions: Array) -> None:
                if found.num_rows:
                    columns = [found[_CHUNK], found[_ROW], pa.array(decisions, pa.int8())]
                    chunks.update(pc.unique(found[_CHUNK]).to_pylist())
                    writer.write_table(pa.table(columns, schema=_DECISIONS))

            held = None
            if waits:
                deciding = CandidateDecider(pattern, kept)
                for chunk, found in whole.by_time(pattern, candidates, _DECIDING_SCHEMA):
                    if (own := self._own(found, chunk)).num_rows:
                        decided = deciding.decide(own)
                        note(decided, np.full(len(decided), _KEPT))
                held = deciding.held()
            else:
                for chunk, source in enumerate(candidates):
                    read = 0
                    for _, batch in _batches(source, {self.name}, columns=None):
                        found = self._own(pa.Table.from_batches([batch]), chunk, read)
                        read += len(batch)
                        decided = found.filter(pa.array(kept.keep(_candidates(found))))
                        note(decided, np.full(len(decided), _KEPT))
            horizon_us = whole.horizons_us[self.name]
            if waits and self.of > 1 and horizon_us is not None and pattern.window.time_us is not None:
                # What the other shares hold is not known here. Candidates that are not final begin within a window of
                # the end of the day, and those behind them end later than they begin.
                horizon_us -= pattern.window.time_us
            earliest_us = earliest_instant_us(held) if held is not None else None
            _forget(kept, horizon_us, earliest_us, held, whole.reachable.get(self.name))
            state = kept.to_json()
            if held is not None:
                at_the_end = kept.keep(_candidates(held)) & whole.end_of_stream
                note(held, np.where(at_the_end, _KEPT_AT_THE_END, _HELD))
        return DecidedShare(self.name, path, frozenset(chunks), state)

    def _has(self, partition: str | None) -> bool:
        """Return whether the candidates of a partition fall to this share: the same answer in all processes."""
        return zlib.crc32((partition or "").encode()) % self.of == self.number

    def _own(self, found: pa.Table, chunk: int, first: int = 0) -> pa.Table:
        """Return the next candidates of a chunk that fall to this share, with the chunk and their rows in it."""
        rows = np.arange(first, first + found.num_rows)
        found = found.append_column(_CHUNK, pa.repeat(pa.scalar(chunk, pa.int32()), len(rows)))
        found = found.append_column(_ROW, pa.array(rows))
        if self.of == 1:
            return found
        partitions = found["partition"].combine_chunks().dictionary_encode()
        has = pa.array([self._has(name) for name in [*partitions.dictionary.to_pylist(), None]])
        return found.filter(has.take(partitions.indices.fill_null(len(has) - 1)))


@dataclass(frozen=True)
class WrittenChunk:
    """The files of the kept matches of a chunk, their numbers and orders by pattern, and the candidates held in it."""

    files: tuple[str, ...]
    matches: Mapping[str, int]
    profiles: tuple[OrderProfile, ...]
    held: Mapping[str, pa.Table]


@dataclass(frozen=True)
class DividedPass:
    """The writing of the matches that shares have decided to keep, chunk by chunk.

    Attributes
    ----------
    whole
        The pass of all the patterns that are decided in shares.
    decided
        The outcome of all their shares.
    """

    whole: KeepingPass
    decided: Sequence[DecidedShare]

    def chunks(self) -> list[tuple[int, tuple[str, ...]]]:
        """The tasks: a chunk that has something to write, and the patterns it is of."""
        in_order: dict[int, dict[str, None]] = {}
        waiting: dict[tuple[int, str], None] = {}
        waits = {pattern.name for pattern in self.whole.patterns if waits_for_later_events(pattern)}
        for share in self.decided:
            for chunk in share.chunks:
                if share.pattern in waits:
                    waiting[chunk, share.pattern] = None
                else:
                    in_order.setdefault(chunk, {})[share.pattern] = None
        own = [(chunk, tuple(names)) for chunk, names in in_order.items()]
        return sorted([*own, *((chunk, (name,)) for chunk, name in waiting)])

    def write(self, candidates: Sequence[str | None], task: tuple[int, tuple[str, ...]], attempt: int) -> WrittenChunk:
        """Write the kept matches of a chunk in their order, and collect the candidates that are held."""
        chunk, names = task
        patterns = [pattern for pattern in self.whole.patterns if pattern.name in names]
        # In the order of the chunks, and behind all of them what is kept because the stream ends.
        chunks = max(len(candidates), len(self.whole.points_us) + 1)
        numbers = count(len(candidates) + 2 + chunk, chunks)
        profiler = OutputProfiler(patterns)
        files = _MatchFiles(self.whole.directory, attempt, numbers, dict.fromkeys(names, 0), profiler)
        held: dict[str, pa.Table] = {}
        if waits_for_later_events(patterns[0]):
            (pattern,) = patterns
            rows, decisions = self._decisions(pattern.name, chunk)
            ((_, found),) = self.whole.by_time(pattern, candidates, only=chunk)
            for own in (decisions == _KEPT, decisions == _KEPT_AT_THE_END):
                with files.next_file() as write:
                    for batch in in_page_order(pattern, found.take(pa.array(rows[own]))).to_batches():
                        write(pattern.name, batch)
            held[pattern.name] = in_page_order(pattern, found.take(pa.array(rows[decisions != _KEPT])))
        else:
            kept = {name: self._decisions(name, chunk)[0] for name in names}
            read = dict.fromkeys(names, 0)
            with files.next_file() as write:
                for name, batch in _batches(candidates[chunk], names, without_composed(MATCHES_SCHEMA)):
                    first, last = np.searchsorted(kept[name], (read[name], read[name] + len(batch)))
                    write(name, batch.take(pa.array(kept[name][first:last] - read[name])))
                    read[name] += len(batch)
        return WrittenChunk(tuple(map(written, files.paths)), files.matches, profiler.profiles(), held)

    def result(self, written: Sequence[WrittenChunk]) -> KeepingResult:
        """The result of the pass from what its tasks have written, in the order of the tasks."""
        patterns = self.whole.patterns
        matches = {pattern.name: 0 for pattern in patterns}
        held: dict[str, list[pa.Table]] = {}
        for chunk in written:
            for name, number in chunk.matches.items():
                matches[name] += number
            for name, table in chunk.held.items():
                held.setdefault(name, []).append(table)
        undecided = {name: pa.concat_tables(tables) for name, tables in held.items()}
        states = {
            name: merged_states(share.state for share in self.decided if share.pattern == name) for name in matches
        }
        kept = CarryState(self.whole.carry_in.pattern_set_version, states).kept(patterns)
        return KeepingResult(
            tuple(sorted(path for chunk in written for path in chunk.files)),  # a name begins with the file's number
            matches,
            {} if self.whole.end_of_stream else {name: final_rows(table) for name, table in undecided.items()},
            self.whole.carry_in.after(kept, self.whole.horizons_us, undecided, self.whole.reachable),
            tuple(profile for chunk in written for profile in chunk.profiles),
        )

    def _decisions(self, pattern: str, chunk: int) -> tuple[Array, Array]:
        """The rows of a chunk's candidates that are not dropped, ascending, and what is decided about each."""
        paths = [share.path for share in self.decided if share.pattern == pattern and chunk in share.chunks]
        parts = [read_data_file(path, _DECISIONS, pc.field("chunk") == chunk) for path in paths]
        found = pa.concat_tables(parts)
        rows, decisions = found["row"].to_numpy(), found["decision"].to_numpy()
        order = np.argsort(rows)
        return rows[order], decisions[order]


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
        columns = without_composed(self._directory.columns or MATCHES_SCHEMA)
        writer: pq.ParquetWriter | None = None
        with ExitStack() as stack:

            def write(name: str, batch: pa.RecordBatch) -> None:
                nonlocal writer
                if not batch.num_rows:
                    return
                if writer is None:
                    self.paths.append(self._directory.file(number, self._attempt))
                    writer = stack.enter_context(
                        open_data_file(self.paths[-1], columns, dictionaries=REPEATING_IN_MATCHES)
                    )
                writer.write_table(conform(pa.Table.from_batches([batch]), columns))
                self.matches[name] += batch.num_rows
                self.profiler.add_rows(name, batch)

            yield write


CANDIDATES_OF_A_PART = 200_000
"""Number of candidates that are worth a task of their own."""
MOST_SHARES = 8
"""Shares of one pattern are at most as many, since each reads the columns that deciding needs of all its candidates."""
_MOST_PARTS = 64


def _batches(
    path: str | None, names: Collection[str], columns: pa.Schema | None = CANDIDATES_SCHEMA
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The candidates of a slice of patterns of these names, a batch of one pattern after another.

    Without `columns` they have what `candidates_of` needs.
    """
    if path is None or not names:
        return
    leaves = _CANDIDATES_OF if columns is None else columns.names
    with open_parquet(path) as file:
        column = file.schema_arrow.names.index("pattern")
        for group in range(file.num_row_groups):
            known = file.metadata.row_group(group).column(column).statistics
            alone = known is not None and known.has_min_max and known.min == known.max
            if alone and known.min not in names:
                continue  # the candidates of one pattern stand together
            read = file.read_row_group(group, columns=leaves if alone else [*dict.fromkeys((*leaves, "pattern"))])
            of = [known.min] if alone else pc.unique(read["pattern"]).to_pylist()
            for pattern in of:
                if pattern in names:
                    own = read if alone else read.filter(pc.equal(read["pattern"], pattern))
                    for batch in (own if columns is None else own.select(columns.names).cast(columns)).to_batches():
                        yield pattern, batch
