"""Composition on a day: patterns that bind matches of other patterns, after those matches have been found and kept.

A task runs one composing pattern over its longer stream (`detection.composition`): the events of the day with the
look-back, and the matches of what it composes. Those of the day are read from the files that the day has written, and
those of earlier days are handed on by the carry state. Patterns that compose composing patterns come after these, level
by level.

What a pattern composes may become final a day later than its last event. So a day does not publish the matches whose
last event is its own. It publishes those whose last event lies before the point up to which all matches are known
(`slices.ownership.known_before`), as far as earlier days have not published them. That point depends on the windows
alone, and so the union of the days is what one run over all days gives. OUTPUT and CONSUME decide in the order of the
last events, which is that of the days.

Where the window of a composing pattern counts the events of a partition, they may lie any time apart. Then a task reads
back in each partition that an event or a match of the day is in, and a match is handed on as long as fewer events of
its partition have come than the window counts. Where matches wait for events of their partition, each partition has a
point of its own, which lies so many of its events before that of the stream (`slices.ownership.positions_waited`).
Where matches of other partitions may depend on those that wait (`slices.ownership.waits_alike`), there is no such
point: the day hands on the last event of the earliest match that waits, the stream is known up to there, and the next
day reads from there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.composition import WrittenMatches, longer_stream, with_typed_returns
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.limits import Kind, LimitedPattern, Limits, SliceLimits
from cep_pipeline.detection.matches import candidates_of
from cep_pipeline.detection.mechanisms import choose_mechanisms
from cep_pipeline.detection.output_policy import KeptMatches, partition_texts
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.errors import LimitExceeded
from cep_pipeline.expressions.columns import Array, column_from_arrow
from cep_pipeline.patterns.composing import COMPOSED_MATCH, EVENT_TYPE, WRITTEN_SEQ, plain_pattern
from cep_pipeline.patterns.pattern import Pattern, with_composed
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.slices.ownership import (
    LookBack,
    counts_in_partitions,
    is_held_up,
    known_before,
    look_backs,
    point_before,
    positions_waited,
    rows_before,
)
from cep_pipeline.slices.prepared import Boundary
from cep_pipeline.spark.keeping import DayOfSet, MatchFile, in_page_order, last_seqs, rows_from_json, rows_to_json
from cep_pipeline.spark.partitions import BackwardReader, MissingEvents, partition_names, partitions_of
from cep_pipeline.spark.slicing import RowGroup, Slice, first_read, read_row_groups
from cep_pipeline.spark.tasks import run_tasks
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.storage import (
    id_texts,
    read_data_file,
)
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA

if TYPE_CHECKING:
    from cep_pipeline.spark.detection import DetectionResult
    from cep_pipeline.spark.session import SparkSession

_FIRST_FILE = 50_000
"""The files of composing patterns are numbered from here on, behind those of slices."""
_READ = pa.schema([MATCHES_SCHEMA.field(name) for name in ("match_id", "start_ts", "end_ts", "bindings", "returns")])
"""The columns of a match that a composing pattern reads."""


@dataclass(frozen=True, kw_only=True)
class ComposingJob(DayOfSet):
    """The part that all composing patterns of a day share.

    Attributes
    ----------
    row_groups
        The events of the look-back and of the day, in stream order.
    earlier_files, events_schema
        The files of the events before these, in stream order, as far as windows count the events of a partition; and
        the columns of the events table.
    start, end
        Where the days before end whose matches are published, and where the day ends.
    """

    row_groups: tuple[RowGroup, ...]
    earlier_files: tuple[str, ...]
    events_schema: pa.Schema
    start: Boundary
    end: Boundary

    def read(self, pattern: Pattern, waiting: Mapping[str, Boundary]) -> pa.Table:
        """Read the events of the look-back of a pattern and of the day, with the columns that it needs of events.

        What waits, and holds up other matches, is read too, however long ago it was.
        """
        point = min([self.start, *(waiting[one.name] for one in with_composed([pattern]) if one.name in waiting)])
        groups = list(self.row_groups)
        if point < self.start:
            groups = [*read_row_groups(self.earlier_files, self.events_schema), *groups]
        for step in look_backs(pattern):
            counted = groups[first_read(groups, point, step)].first if step.positions and groups else point
            point = min((max(point[0] - step.time_us, -(2**63)), -(2**63)), counted)
        read = tuple(group for group in groups if group.last[0] >= point[0])
        if not read:
            return self._none(pattern)
        return _with_int_times(Slice(point, self.end, read, LookBack()).read(columns_needed([pattern])))

    def read_partitions(self, pattern: Pattern, partitions: Iterable[str], before_us: int) -> pa.Table:
        """Read the last events of some partitions before a time: as many of each as a match reaches back over."""
        wanted = MissingEvents(dict.fromkeys(partitions, _reach_in_partition(pattern)))
        reader = BackwardReader(pattern.partition_by, wanted, columns_needed([pattern]), contiguous=False)
        found = list(reader.read(self.row_groups, until_us=before_us))
        for file in reversed(self.earlier_files):
            if wanted.satisfied:
                break
            found += reader.read(read_row_groups([file], self.events_schema), until_us=before_us)
        return (
            _with_int_times(pa.concat_tables(found[::-1], promote_options="permissive"))
            if found
            else self._none(pattern)
        )

    def _none(self, pattern: Pattern) -> pa.Table:
        """Return a table without events, with the columns that a pattern needs."""
        columns = [self.events_schema.field(name) for name in columns_needed([pattern])]
        return _with_int_times(pa.schema(columns).empty_table())


def _reach_in_partition(pattern: Pattern) -> int:
    """The events of its partition by which the first event of a match comes before those that are known last."""
    assert pattern.window.events is not None
    return pattern.window.events + positions_waited(pattern)


def _with_int_times(events: pa.Table) -> pa.Table:
    return events.set_column(0, "timestamp", events["timestamp"].cast(pa.int64()))


@dataclass(frozen=True)
class KnownMatches:
    """The kept matches of a pattern that a composing one reads: those handed on by earlier days, and files of the day.

    Attributes
    ----------
    carried
        In JSON form (`rows_to_json`), in the order of the page.
    files
        The files that may have more of them.
    """

    pattern: Pattern
    carried: Sequence[Sequence[Any]]
    files: tuple[str, ...]

    def rows(self, reach: _Reach | None = None) -> pa.Table:
        """Read those within a reach, in the order of the page; None: all."""
        condition = pc.field("pattern") == self.pattern.name
        carried = [row for row in self.carried if reach is None or reach.holds(row[0], row[2])]
        parts = [rows_from_json(carried, _READ.names, _READ)]
        if reach is not None and not reach.ids:
            condition &= pc.field("end_ts") >= pa.scalar(reach.since_us).cast(_READ.field("end_ts").type)
        for path in self.files:
            part = read_data_file(path, _READ, condition)
            if reach is not None and reach.ids:
                part = part.filter(reach.of(part))
            parts.append(part)
        found = pa.concat_tables(parts)
        # The matches of a composing pattern come in the order of their last events, day after day.
        return found if self.pattern.composes else in_page_order(self.pattern, found)

    def events(self, first_seq: int | None) -> pa.Table:
        """Read them as `longer_stream` takes them: those whose last event is this one or a later one; None: all."""
        found = self.rows()
        bindings = found["bindings"].combine_chunks()
        if len(found) and first_seq is not None:
            found = found.filter(pa.array(last_seqs(bindings) >= first_seq))
        return with_typed_returns(self.pattern, found)


@dataclass(frozen=True)
class _Reach:
    """The matches of a pattern that a match of a later day may bind.

    Attributes
    ----------
    since_us
        Those that end at this time or later are.
    ids
        These are too, as text: windows that count the events of a partition reach them.
    """

    since_us: int
    ids: frozenset[str] = frozenset()

    def holds(self, match_id: str, end_us: int) -> bool:
        """Return whether a match of a later day may bind the match."""
        return end_us >= self.since_us or match_id in self.ids

    def of(self, matches: pa.Table) -> pa.Array:
        """Select the matches of a table: bool, one value a row."""
        ids, ends = id_texts(matches["match_id"]).to_pylist(), matches["end_ts"].cast(pa.int64()).to_pylist()
        return pa.array([self.holds(*one) for one in zip(ids, ends, strict=True)], pa.bool_())

    def __or__(self, other: _Reach) -> _Reach:
        return _Reach(min(self.since_us, other.since_us), self.ids | other.ids)


def compose_day(spark: SparkSession, job: ComposingJob, detected: DetectionResult) -> DetectionResult:
    """Add the matches of composing patterns that a day publishes to what it has of all other patterns of the set.

    Parameters
    ----------
    job
        Its patterns are in the order of the file. A pattern that composes a limited one is limited, too.
    """
    patterns, carry_in = job.patterns, job.state
    files, limited, carry_out = detected.files, detected.limited, detected.carry_out
    known: dict[str, KnownMatches] = {}
    for composed in (one for pattern in patterns for one in pattern.composes):
        of_day = () if composed.composes or composed.name in limited else tuple(files)
        known[composed.name] = KnownMatches(composed, carry_in.composed.get(composed.name, ()), of_day)
    waiting: dict[str, Sequence[int]] = dict(carry_out.waiting)
    made: dict[str, _Composed] = {}
    stopped: dict[str, LimitedPattern] = {}
    compose = partial(_compose, replace(job, patterns=(), carry_in=None))
    for members in _levels(patterns):
        tasks: list[_Task] = []
        for pattern in members:
            lost = {**limited, **stopped}
            gone = next((one.name for one in pattern.composes if one.name in lost), None)
            if gone is None:
                state = carry_in.patterns.get(pattern.name, {})
                inputs = tuple(known[one.name] for one in pattern.composes)
                number = _FIRST_FILE + len(made) + len(tasks)
                partitions = tuple(carry_in.pending.get(pattern.name, ()))
                names = [one.name for one in with_composed([pattern])] if is_held_up(pattern) else []
                before, after = (
                    {name: (marks[name][0], marks[name][1]) for name in names if name in marks}
                    for marks in (carry_in.waiting, waiting)
                )
                tasks.append(_Task(number, pattern, inputs, state, partitions, before, after))
            else:
                stopped[pattern.name] = replace(
                    lost[gone], limit=f"{lost[gone].limit} of {gone}", matches=0, exact=False, files=()
                )
        what = f"{patterns[0].stream}: matches of patterns of {job.pattern_set} that compose, on {job.final_day}"
        for task, result in zip(tasks, run_tasks(spark, compose, tasks, what=what), strict=True):
            name = task.pattern.name
            if result.limited is not None:
                limits, then = job.limits[name], job.then.get(name, "count")
                if then == "fail":
                    raise LimitExceeded(name, limits.named(result.limited), str(job.final_day))
                stopped[name] = LimitedPattern(limits.named(result.limited), then, result.matches)
                continue
            made[name] = result
            marks = [waiting[one.name] for one in task.pattern.composes if one.name in waiting]
            if marks := [*marks, *([] if result.waiting is None else [result.waiting])]:
                waiting[name] = min((us, seq) for us, seq in marks)
            if name in known and result.path is not None:
                known[name] = replace(known[name], files=(result.path,))
    states = {name: one.state for name, one in made.items() if one.state}
    states |= {name: state for name, state in carry_in.patterns.items() if name in stopped}
    pending: dict[str, Sequence[str]] = {name: one.partitions for name, one in made.items() if one.partitions}
    pending |= {name: keys for name, keys in carry_in.pending.items() if name in stopped}
    waiting |= {name: event for name, event in carry_in.waiting.items() if name in stopped}
    handed_on = {
        name: rows
        for name, one in sorted(known.items())
        if (rows := rows_to_json(one.rows(_reach(one.pattern, patterns, made)), _READ.names))
    }
    matches = {pattern.name: made[pattern.name].matches if pattern.name in made else 0 for pattern in patterns}
    groups = {one.name: made[one.name].groups for one in patterns if one.summary is not None and one.name in made}
    return replace(
        detected,
        files=(*files, *(one.path for one in made.values() if one.path is not None)),
        matches={**detected.matches, **matches},
        pending={**detected.pending, **{name: one.pending for name, one in made.items() if one.pending}},
        limited={**limited, **stopped},
        carry_out=replace(
            carry_out,
            patterns={**carry_out.patterns, **states},
            pending={**carry_out.pending, **pending},
            waiting=waiting,
            composed=handed_on,
        ),
        summaries={**detected.summaries, **groups},
    )


def _levels(patterns: Sequence[Pattern]) -> list[list[Pattern]]:
    """The patterns by how deeply they compose: what a pattern composes is in an earlier list."""

    def depth(pattern: Pattern) -> int:
        return 1 + max(map(depth, pattern.composes), default=-1)

    deepest = max(map(depth, patterns), default=0)
    return [[pattern for pattern in patterns if depth(pattern) == level] for level in range(1, deepest + 1)]


def _reach(pattern: Pattern, patterns: Sequence[Pattern], made: Mapping[str, _Composed]) -> _Reach | None:
    """The matches of a pattern that may stand in a match of a later day; None: all."""
    users = [one.name for one in patterns if pattern.name in {inner.name for inner in one.composes}]
    if any(name not in made for name in users):
        return None
    found = _Reach(_NEVER_US)
    for name in users:
        found |= made[name].reach.get(pattern.name, _Reach(_NEVER_US))
    return found


_NEVER_US = 2**63 - 1


@dataclass(frozen=True)
class _Task:
    """One composing pattern, what it composes, and what the day before has handed on.

    `state` is that of its OUTPUT and CONSUME, `partitions` are those with matches that wait for events of these.
    `waits_before` and `waits_after` have, of the pattern and what it composes, the earliest last event of the matches
    that waited before the day and wait after it, where they hold others up.
    """

    number: int
    pattern: Pattern
    composed: tuple[KnownMatches, ...]
    state: Mapping[str, Any]
    partitions: tuple[str, ...] = ()
    waits_before: Mapping[str, Boundary] = field(default_factory=dict)
    waits_after: Mapping[str, Boundary] = field(default_factory=dict)


@dataclass(frozen=True)
class _Composed:
    """The result of a task.

    `reach` says of each pattern that it composes which matches a match of a later day may bind.
    `groups` are those of SUMMARIZE, as `PartialSummary.to_json`; then none of the matches is in the file.
    `partitions` are those of the matches that wait for events of these, and `waiting` is the earliest last event of
    these matches.
    """

    path: str | None
    matches: int
    pending: int
    state: Mapping[str, Any]
    reach: Mapping[str, _Reach]
    groups: list[dict[str, Any]] = field(default_factory=list)
    partitions: tuple[str, ...] = ()
    waiting: Boundary | None = None
    limited: Kind | None = None


def _compose(job: ComposingJob, task: _Task, attempt: int) -> _Composed:
    """Run a composing pattern over its longer stream."""
    pattern = task.pattern
    by_partition = counts_in_partitions(pattern)
    events = job.read(pattern, task.waits_before)
    timestamps, seqs = events["timestamp"].to_numpy(), events["seq"].to_numpy()
    since = known_before(pattern, timestamps, seqs, job.start, task.waits_before)
    until = known_before(pattern, timestamps, seqs, job.end, task.waits_after)
    if pattern.window.time_us is not None:
        horizon_us = max(until[0] - pattern.window.time_us, -(2**63))
    elif not by_partition:
        assert pattern.window.events is not None
        horizon_us = point_before(timestamps, seqs, until, pattern.window.events - 1)[0]
    else:
        horizon_us = _NEVER_US
    reach = {one.name: _Reach(horizon_us) for one in pattern.composes}
    composed = {
        one.pattern.name: one.events(int(seqs[0]) if len(seqs) and not by_partition else None) for one in task.composed
    }
    if by_partition:
        first_us = int(timestamps[0]) if len(events) else job.end[0]
        wanted = {*task.partitions, *partition_names(events, pattern.partition_by)}
        for found in composed.values():
            if not job.end_of_stream:  # else a match may be known long after its last event
                found = found.filter(pc.greater_equal(found["end_ts"].cast(pa.int64()), first_us))
            wanted |= set(partition_names(found, pattern.partition_by, job.events_schema))
        unread = _ids_of_others(composed.values(), wanted, pattern, job.events_schema)
        earlier = job.read_partitions(pattern, sorted(wanted), first_us)
        read = [one for one in (earlier, events) if len(one)] or [events]
        events = pa.concat_tables(read, promote_options="permissive").unify_dictionaries()
    if not len(events) and not (by_partition and any(map(len, composed.values()))):
        groups = [] if pattern.summary is None else PartialSummary(plain_pattern(pattern)).to_json()
        return _Composed(None, 0, 0, task.state, reach, groups)
    stream = longer_stream(pattern, events, composed)
    times, places = stream["timestamp"].to_numpy(), stream[WRITTEN_SEQ].to_numpy()
    begin, stop = (rows_before(times, places, point) for point in (since, until))
    counts = _CountedPartitions(pattern, stream, begin, stop, unread) if by_partition else None
    if counts is None:
        known = np.repeat([_PUBLISHED, _OF_DAY, _WAITS], [begin, stop - begin, len(stream) - stop])
    else:
        known = counts.known
    of_day = _OfDay(job, task, stream, horizon_us, counts, attempt)
    with of_day.file:
        limited = of_day.find(known)
    found = replace(of_day.result(), limited=limited)
    if counts is None:
        return replace(found, reach=reach)
    waits = np.unique(np.concatenate([np.zeros(0, np.int64), *of_day.waiting_places]))
    reach |= {name: _Reach(_NEVER_US, ids) for name, ids in counts.reachable_matches(waits).items()}
    first = (int(times[waits[0]]), int(places[waits[0]])) if len(waits) else None
    return replace(found, reach=reach, partitions=counts.of_events(waits, events), waiting=first)


def _ids_of_others(
    composed: Iterable[pa.Table], partitions: Collection[str], pattern: Pattern, types: pa.Schema
) -> pa.ChunkedArray:
    """The ids of composed matches, binary(16), that lie in other partitions than these."""
    these, found = pa.array(sorted(partitions), pa.string()), []
    for matches in composed:
        texts = partitions_of(matches, pattern.partition_by, types).cast(pa.string())
        others = pc.and_(texts.is_valid(), pc.invert(pc.is_in(texts, value_set=these)))
        found.append(matches["match_id"].combine_chunks().storage.filter(others))
    return pa.chunked_array(found, pa.binary(16))


_PUBLISHED, _OF_DAY, _WAITS = range(3)
"""The day that publishes the matches whose last event stands at a place: an earlier day, this one, or a later one."""


class _CountedPartitions:
    """The partitions of a longer stream, for windows that count their events: what may later still be in a match.

    Parameters
    ----------
    pattern
        A composing pattern with such a window.
    stream
        Its longer stream.
    begin, stop
        The places between which matches are published, as far as they wait for no events of their partition. A later
        match ends at `stop` or behind, or has not as many events behind it as it waits for.
    unread
        The ids of composed matches whose partitions have no events in the stream, since nothing new is known of them:
        matches of these partitions are left to the days that read them.

    Attributes
    ----------
    known
        int64, shape (len(stream),): who publishes the matches whose last event stands at a place (`_OF_DAY`).
    """

    def __init__(self, pattern: Pattern, stream: pa.Table, begin: int, stop: int, unread: pa.ChunkedArray) -> None:
        self._pattern, self._stream = pattern, stream
        names = plain_pattern(pattern).partition_by
        keys = partition_texts([column_from_arrow(stream[name], name) for name in names])
        self._texts: list[str] = keys.dictionary.to_pylist()
        self._code = keys.indices.fill_null(len(self._texts)).to_numpy()
        self._counted = stream[COMPOSED_MATCH].is_null().to_numpy()  # matches stand in the stream, but do not count
        order = np.argsort(self._code, kind="stable")
        so_far = np.concatenate((np.zeros(1, np.int64), np.cumsum(self._counted[order])))
        others = so_far[np.searchsorted(self._code[order], self._code[order])]
        numbers = np.empty(len(order), np.int64)  # of the events of a partition up to each place, from 1
        numbers[order] = so_far[1:] - others
        alone = self._code == len(self._texts)
        self.known = np.full(len(stream), _WAITS)
        for place, owner in ((stop, _OF_DAY), (begin, _PUBLISHED)):
            last = np.bincount(self._code[:place][self._counted[:place]], minlength=len(self._texts) + 1)
            behind = (last[self._code] - numbers >= positions_waited(pattern)) | alone
            self.known[:place][behind[:place]] = owner
            if owner is _OF_DAY:
                reach = _reach_in_partition(pattern)
                self._whole = last >= reach
                self._reached = (last[self._code] - numbers < reach) & ~alone
        if len(unread) and not pattern.strategy.crosses_partitions:
            of_unread = pc.is_in(stream[COMPOSED_MATCH], value_set=unread).to_numpy()
            self.known[np.isin(self._code, np.unique(self._code[of_unread]))] = _PUBLISHED
        self._reached[self._neighbours(stop) :] = True
        times = stream["timestamp"].to_numpy()  # under TIES ANY events of one time are in no order
        first_us = np.full(len(self._texts) + 1, _NEVER_US)
        np.minimum.at(first_us, self._code[self._reached], times[self._reached])
        self._reached |= times == first_us[self._code]

    def _neighbours(self, place: int) -> int:
        """The first place that may be in a match which ends at a place or behind, if all are neighbours."""
        if not self._pattern.strategy.crosses_partitions:
            return place
        assert self._pattern.window.events is not None
        counted = np.flatnonzero(self._counted[:place])[-self._pattern.window.events :]
        return int(counted[0]) if len(counted) else place

    def of_events(self, places: Array, events: pa.Table) -> tuple[str, ...]:
        """The partitions of some places as partitions of the events that were read."""
        if not len(places):
            return ()
        rows = np.isin(self._code, np.unique(self._code[places])) & self._counted
        seqs = self._stream[WRITTEN_SEQ].filter(pa.array(rows)).combine_chunks()
        of_these = events.filter(pc.is_in(events["seq"], value_set=seqs))
        return tuple(sorted(partition_names(of_these, self._pattern.partition_by)))

    def reachable_matches(self, waiting: Array) -> dict[str, frozenset[str]]:
        """Composed pattern -> the ids of its matches that a later match, or one that ends at these places, may bind."""
        reached = self._reached.copy()
        if self._pattern.strategy.crosses_partitions and len(waiting):  # every match may be a neighbour
            reached[self._neighbours(int(waiting[0])) :] = True
        rows = pa.array(reached & ~self._counted)
        types, ids = self._stream[EVENT_TYPE].filter(rows).to_pylist(), self._stream[COMPOSED_MATCH].filter(rows)
        found: dict[str, set[str]] = {}
        for name, one in zip(types, ids.to_pylist(), strict=True):
            found.setdefault(name, set()).add(str(UUID(bytes=one)))
        return {name: frozenset(ids) for name, ids in found.items()}

    def reachable_places(self) -> dict[str | None, int]:
        """Partition -> its first place that a later match may hold, of those partitions in which there are others."""
        places = np.flatnonzero(self._reached)
        first = dict(zip(self._code[places][::-1].tolist(), places[::-1].tolist(), strict=True))
        return {text: first[number] for number, text in enumerate(self._texts) if self._whole[number]}

    @property
    def read(self) -> frozenset[str]:
        """The partitions that have events in the stream."""
        return frozenset(
            self._texts[number] for number in np.unique(self._code[self._counted]) if number < len(self._texts)
        )


class _OfDay:
    """The matches of one composing pattern in its longer stream, of which a day publishes a part."""

    def __init__(
        self,
        job: ComposingJob,
        task: _Task,
        stream: pa.Table,
        horizon_us: int,
        counts: _CountedPartitions | None,
        attempt: int,
    ) -> None:
        self._job, self._task, self._stream, self._horizon_us = job, task, stream, horizon_us
        self._counts = counts
        plain = plain_pattern(task.pattern)
        self._plain = replace(plain, summary=None, returns=plain.items)
        self._summary = None if plain.summary is None else PartialSummary(plain)
        self._written = WrittenMatches(task.pattern, stream)
        self._places = _Places(stream, None if counts is None else counts.read)
        self._kept = KeptMatches(task.pattern, self._places.taken_in(task.state))
        self._state: Mapping[str, Any] | None = None
        self.file = MatchFile(job.directory, task.number, attempt, job.columns, job.constants)
        self._found = self._kept_rows = self._pending = 0
        self.waiting_places: list[Array] = []
        """The places of the last events of matches that wait for events of their partition."""

    def find(self, known: Array) -> Kind | None:
        """Find the matches that the day publishes by the places of their last events, and all where the stream ends.

        Returns
        -------
        Kind | None
            The limit that the pattern reached.
        """
        limits = self._job.limits.get(self._plain.name, Limits())
        chosen = choose_mechanisms([self._plain], self._job.mechanism)
        plan = plan_for([self._plain], estimate_statistics([self._plain], self._stream), chosen, compare=False)

        later: list[pa.RecordBatch] = []

        def take(_: Pattern, batch: pa.RecordBatch) -> None:
            last = last_seqs(batch.column("bindings"))  # their places
            self._add(batch.filter(pa.array(known[last] == _OF_DAY)))
            waits = known[last] == _WAITS
            if positions_waited(self._task.pattern):
                self.waiting_places.append(np.unique(last[waits]))
            if self._job.end_of_stream:
                later.append(batch.filter(pa.array(waits)))
            else:
                self._pending += int(np.count_nonzero(waits))

        most = SliceLimits({self._plain.name: replace(limits, max_matches=None)})
        found = detect_slice(
            [self._plain],
            plan,
            self._stream,
            (None, None),
            take,
            self._job.mechanism,
            candidates=[self._plain.name],
            limits=most,
        )
        if self._job.end_of_stream:
            self._state = self._state_now()  # the next day, if there is one after all, goes on from here
            for batch in later:
                self._add(batch)
        if limits.max_matches is not None and self._found > limits.max_matches:
            return "max_matches"
        return found.limited.get(self._plain.name)

    def result(self) -> _Composed:
        """The outcome, when the file is closed."""
        state = self._state_now() if self._state is None else self._state
        groups = [] if self._summary is None else self._summary.to_json()
        return _Composed(next(iter(self.file.files), None), self._kept_rows, self._pending, state, {}, groups)

    def _add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._found += batch.num_rows
        kept = batch.filter(pa.array(self._kept.keep(candidates_of(batch))))
        if not kept.num_rows:
            return
        if self._summary is not None:
            self._summary.add_rows(kept)
            return
        self._kept_rows += kept.num_rows
        self.file.write(self._written.of(kept))

    def _state_now(self) -> Mapping[str, Any]:
        if self._counts is None:
            self._kept.forget(self._horizon_us)
        else:
            self._kept.forget_partitions(self._counts.reachable_places())
        return self._places.handed_on(self._kept.to_json())


class _Places:
    """Names for the places of a longer stream that stay the same from day to day: a seq, and the id of a match there.

    An event of the stream has null in place of the id.

    Parameters
    ----------
    stream
        The longer stream.
    partitions
        Where it has the events of these partitions alone: these. What is said of others is handed on as it is.
    """

    def __init__(self, stream: pa.Table, partitions: frozenset[str] | None) -> None:
        self._seqs = stream[WRITTEN_SEQ].to_numpy()
        self._ids = stream[COMPOSED_MATCH]
        self._partitions = partitions
        self._ends: dict[str, Any] = {}
        self._consumed: list[Any] = []

    def handed_on(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state of `KeptMatches.to_json` with names in the place of places."""
        ends = {partition: [self._name(place), us] for partition, (place, us) in state.get("ends", {}).items()}
        consumed = [[self._name(event[0]), *event[1:]] for event in state.get("consumed", [])]
        whole = {"ends": dict(sorted({**self._ends, **ends}.items())), "consumed": [*self._consumed, *consumed]}
        return {key: value for key, value in whole.items() if value}

    def taken_in(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state with places again, without those before the stream, which decide about no match in it."""
        ends: dict[str, Any] = {}
        consumed: list[Any] = []
        for partition, (name, us) in state.get("ends", {}).items():
            if (place := self._place(*name)) is not None:
                ends[partition] = [place, us]
            elif self._is_elsewhere(partition):
                self._ends[partition] = [name, us]
        for name, *rest in state.get("consumed", []):
            if (place := self._place(*name)) is not None:
                consumed.append([place, *rest])
            elif self._is_elsewhere(*rest[1:]):
                self._consumed.append([name, *rest])
        return {key: value for key, value in (("ends", ends), ("consumed", consumed)) if value}

    def _is_elsewhere(self, partition: str | None = None) -> bool:
        return self._partitions is not None and partition not in self._partitions

    def _name(self, place: int) -> list[Any]:
        match_id = self._ids[place].as_py()
        return [int(self._seqs[place]), None if match_id is None else match_id.hex()]

    def _place(self, seq: int, match_id: str | None) -> int | None:
        first, end = (int(np.searchsorted(self._seqs, seq, side)) for side in ("left", "right"))
        return next((place for place in range(first, end) if self._name(place)[1] == match_id), None)
