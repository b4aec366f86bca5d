"""Composition on a day: patterns that bind matches of other patterns, after those matches have been found and kept.

A task runs one composing pattern over its longer stream (`detection.composition`): the events of the day with the
look-back, and the matches of what it composes. Those of the day are read from the files that the day has written, and
those of earlier days are handed on by the carry state. Patterns run in the order of the file, in which each stands
behind what it composes.

What a pattern composes may become final a day later than its last event. So a day does not publish the matches whose
last event is its own. It publishes those whose last event lies before the point up to which all matches are known
(`slices.ownership.known_before`), as far as earlier days have not published them. That point depends on the windows
alone, and so the union of the days is what one run over all days gives. OUTPUT and CONSUME decide in the order of the
last events, which is that of the days. With OUTPUT PREFERRED they decide in the order of the first events: about all
matches whose first event lies before the point, and of these the ids of those that a later day publishes are handed on.

Days refuse patterns of which that point could lie any number of days back (`slices.ownership.not_by_day`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.composition import WrittenMatches, longer_stream, with_typed_returns
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.limits import Kind, LimitedPattern, SliceLimits
from cep_pipeline.detection.matches import candidates_of
from cep_pipeline.detection.mechanisms import choose_mechanisms
from cep_pipeline.detection.output_policy import KeptMatches, decides_in_order
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.errors import LimitExceeded
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.composing import COMPOSED_MATCH, WRITTEN_SEQ, plain_pattern
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.slices.ownership import LookBack, known_before, look_backs, point_before
from cep_pipeline.slices.prepared import Boundary, rows_before
from cep_pipeline.spark.keeping import (
    CarryState,
    DayOfSet,
    MatchFile,
    in_page_order,
    last_seqs,
    rows_from_json,
    rows_to_json,
)
from cep_pipeline.spark.slicing import RowGroup, Slice, first_read
from cep_pipeline.spark.tasks import run_tasks
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.storage import id_texts, read_data_file
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA

if TYPE_CHECKING:
    from cep_pipeline.spark.detection import DetectedDay
    from cep_pipeline.spark.session import SparkSession

_FIRST_FILE = 50_000
"""The files of composing patterns are numbered from here on, behind those of slices."""
_AHEAD = "ahead"
"""Key of the ids of kept matches that end behind what days have published, beside the state of `KeptMatches`."""
_READ = pa.schema([MATCHES_SCHEMA.field(name) for name in ("match_id", "start_ts", "end_ts", "bindings", "returns")])
"""The columns of a match that a composing pattern reads."""


@dataclass(frozen=True, kw_only=True)
class ComposingJob(DayOfSet):
    """The part that all composing patterns of a day share.

    Attributes
    ----------
    row_groups
        The events of the look-back and of the day, in stream order.
    start, end
        Where the days before end whose matches are published, and where the day ends.
    """

    row_groups: tuple[RowGroup, ...]
    start: Boundary
    end: Boundary

    def read(self, pattern: Pattern) -> pa.Table:
        """Read the events of the look-back of a pattern and of the day, with the columns that it needs of events."""
        point, groups = self.start, self.row_groups
        for step in look_backs(pattern):
            counted = groups[first_read(groups, point, step)].first if step.positions and groups else point
            point = min((max(point[0] - step.time_us, -(2**63)), -(2**63)), counted)
        read = tuple(group for group in groups if group.last[0] >= point[0])
        if not read:
            return pa.schema({"timestamp": pa.int64(), "seq": pa.int64()}).empty_table()
        events = Slice(point, self.end, read, LookBack()).read(columns_needed([pattern]))
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
    carried: Sequence[Mapping[str, Any]]
    files: tuple[str, ...]

    def rows(self, since_us: int | None = None) -> pa.Table:
        """Read those that end at a time or later, in the order of the page; None: all."""
        condition = pc.field("pattern") == self.pattern.name
        carried = [row for row in self.carried if since_us is None or row["end_ts"] >= since_us]
        if since_us is not None:
            condition &= pc.field("end_ts") >= pa.scalar(since_us).cast(_READ.field("end_ts").type)
        parts = [rows_from_json(carried, _READ)]
        found = pa.concat_tables([*parts, *(read_data_file(path, _READ, condition) for path in self.files)])
        # The matches of a composing pattern come in the order of their last events, day after day.
        return found if self.pattern.composes else in_page_order(self.pattern, found)

    def events(self, first_seq: int) -> pa.Table:
        """Read them as `longer_stream` takes them: those whose last event is this one or a later one."""
        found = self.rows()
        if len(found):
            found = found.filter(pa.array(last_seqs(found["bindings"].combine_chunks()) >= first_seq))
        return with_typed_returns(self.pattern, found)


def compose_day(spark: SparkSession, job: ComposingJob, detected: DetectedDay) -> DetectedDay:
    """Add the matches of composing patterns that a day publishes to what it has of all other patterns of the set.

    Parameters
    ----------
    job
        Its patterns are in the order of the file. A pattern that composes a limited one is limited, too.
    """
    patterns, carry_in = job.patterns, job.state
    files, limited = detected.files, detected.limited
    carry_out = CarryState.from_json(detected.carry_out, job.pattern_set_version)
    known: dict[str, KnownMatches] = {}
    for composed in (one for pattern in patterns for one in pattern.composes):
        of_day = () if composed.composes or composed.name in limited else tuple(files)
        known[composed.name] = KnownMatches(composed, carry_in.composed.get(composed.name, ()), of_day)
    made: dict[str, _Composed] = {}
    stopped: dict[str, LimitedPattern] = {}
    compose = partial(_compose, replace(job, patterns=(), carry_in=None))
    for number, pattern in enumerate(patterns, _FIRST_FILE):
        name, lost = pattern.name, {**limited, **stopped}
        if (gone := next((one.name for one in pattern.composes if one.name in lost), None)) is not None:
            limit = f"{lost[gone].limit} of {gone}"
            stopped[name] = replace(lost[gone], limit=limit, matches=0, exact=False)
            continue
        inputs = tuple(known[one.name] for one in pattern.composes)
        task = _Task(number, pattern, inputs, carry_in.patterns.get(name, {}))
        what = f"{pattern.stream}: matches of {name} of {job.pattern_set} on {job.final_day}"
        (result,) = run_tasks(spark, compose, [task], what=what)
        if result.limited is not None:
            limit = job.limits.named(result.limited)
            if job.then == "fail":
                raise LimitExceeded(name, limit, str(job.final_day))
            stopped[name] = LimitedPattern(limit, job.then, result.matches)
            continue
        made[name] = result
        if name in known and result.path is not None:
            known[name] = replace(known[name], files=(result.path,))
    states = {name: one.state for name, one in made.items() if one.state}
    states |= {name: state for name, state in carry_in.patterns.items() if name in stopped}
    handed_on = {
        name: rows
        for name, one in sorted(known.items())
        if (rows := rows_to_json(one.rows(_reach_us(one.pattern, patterns, made)), _READ.names))
    }
    matches = {pattern.name: made[pattern.name].matches if pattern.name in made else 0 for pattern in patterns}
    groups = {one.name: made[one.name].groups for one in patterns if one.summary is not None and one.name in made}
    return replace(
        detected,
        files=(*files, *(one.path for one in made.values() if one.path is not None)),
        matches={**detected.matches, **matches},
        pending={**detected.pending, **{name: one.pending for name, one in made.items() if one.pending}},
        limited={**limited, **stopped},
        carry_out=replace(carry_out, patterns={**carry_out.patterns, **states}, composed=handed_on).to_json(),
        summaries={**detected.summaries, **groups},
    )


def _reach_us(pattern: Pattern, patterns: Sequence[Pattern], made: Mapping[str, _Composed]) -> int | None:
    """The time at which the matches of a pattern end, or later, that a match of a later day may bind; None: any."""
    users = [one.name for one in patterns if pattern.name in {inner.name for inner in one.composes}]
    return None if any(name not in made for name in users) else min(made[name].horizon_us for name in users)


@dataclass(frozen=True)
class _Task:
    """One composing pattern, what it composes, and the state of its OUTPUT and CONSUME after the day before."""

    number: int
    pattern: Pattern
    composed: tuple[KnownMatches, ...]
    state: Mapping[str, Any]


@dataclass(frozen=True)
class _Composed:
    """The result of a task.

    A match of a later day binds no event, and no match, that ends before `horizon_us`. `groups` are those of SUMMARIZE,
    as `PartialSummary.to_json`; then none of the matches is in the file.
    """

    path: str | None
    matches: int
    pending: int
    state: Mapping[str, Any]
    horizon_us: int
    groups: list[dict[str, Any]] = field(default_factory=list)
    limited: Kind | None = None


def _compose(job: ComposingJob, task: _Task, attempt: int) -> _Composed:
    """Run a composing pattern over its longer stream."""
    pattern = task.pattern
    events = job.read(pattern)
    timestamps, seqs = events["timestamp"].to_numpy(), events["seq"].to_numpy()
    since, until = (known_before(pattern, timestamps, seqs, point) for point in (job.start, job.end))
    if pattern.window.time_us is not None:
        horizon_us = max(until[0] - pattern.window.time_us, -(2**63))
    else:
        assert pattern.window.events is not None
        horizon_us = point_before(timestamps, seqs, until, pattern.window.events - 1)[0]
    if not len(events):
        groups = [] if pattern.summary is None else PartialSummary(plain_pattern(pattern)).to_json()
        return _Composed(None, 0, 0, task.state, horizon_us, groups)
    stream = longer_stream(pattern, events, {one.pattern.name: one.events(int(seqs[0])) for one in task.composed})
    times, places = stream["timestamp"].to_numpy(), stream[WRITTEN_SEQ].to_numpy()
    of_day = _OfDay(job, task, stream, horizon_us, attempt)
    with of_day.file:
        limited = of_day.find(*(rows_before(times, places, point) for point in (since, until)))
    return replace(of_day.result(), limited=limited)


class _OfDay:
    """The matches of one composing pattern in its longer stream, of which a day publishes a part."""

    def __init__(self, job: ComposingJob, task: _Task, stream: pa.Table, horizon_us: int, attempt: int) -> None:
        self._job, self._stream, self._horizon_us = job, stream, horizon_us
        plain = plain_pattern(task.pattern)
        self._plain = replace(plain, summary=None, returns=plain.items)
        self._summary = None if plain.summary is None else PartialSummary(plain)
        self._written = WrittenMatches(task.pattern, stream)
        self._places = _Places(stream)
        self._kept = KeptMatches(task.pattern, self._places.taken_in(task.state))
        self._state: Mapping[str, Any] | None = None
        self._before: Sequence[str] = task.state.get(_AHEAD, ())
        self._ahead: Sequence[str] = ()
        self.file = MatchFile(job.directory, task.number, attempt, MATCHES_SCHEMA, job.constants)
        self._found = self._kept_rows = self._pending = 0

    def find(self, begin: int, stop: int) -> Kind | None:
        """Find the matches whose last events stand between two places, and all behind these where the stream ends.

        Returns
        -------
        Kind | None
            The limit that the pattern reached.
        """
        limits = self._job.limits
        chosen = choose_mechanisms([self._plain], self._job.mechanism)
        plan = plan_for([self._plain], estimate_statistics([self._plain], self._stream), chosen, compare=False)
        by_first = self._plain.output.is_preferred and decides_in_order(self._plain)
        later: list[pa.RecordBatch] = []

        def take(_: Pattern, batch: pa.RecordBatch) -> None:
            if by_first:
                later.append(batch)
                return
            last = last_seqs(batch.column("bindings"))  # their places
            self._add(batch.filter(pa.array((last >= begin) & (last < stop))))
            waits = batch.filter(pa.array(last >= stop))
            if self._job.end_of_stream:
                later.append(waits)
            else:
                self._pending += waits.num_rows

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
        if by_first and later:
            self._keep_by_first(pa.Table.from_batches(later).combine_chunks().to_batches()[0], begin, stop)
        elif self._job.end_of_stream:
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
        return _Composed(
            next(iter(self.file.files), None), self._kept_rows, self._pending, state, self._horizon_us, groups
        )

    def _add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._found += batch.num_rows
        self._write(batch.filter(pa.array(self._kept.keep(candidates_of(batch)))))

    def _keep_by_first(self, batch: pa.RecordBatch, begin: int, stop: int) -> None:
        """Decide about preferred matches in the order of their first events, and write those that end on the day."""
        found, last = candidates_of(batch), last_seqs(batch.column("bindings"))
        first, ids = found.first_positions(), np.array(id_texts(self._written.of(batch).column("match_id")).to_pylist())
        kept = (first < begin) & np.isin(ids, self._before)

        def decide(chosen: Array) -> None:
            kept[chosen] = self._kept.keep(found.take(np.flatnonzero(chosen)))

        decide((first >= begin) & (first < stop))
        self._ahead = sorted(ids[kept & (last >= stop)].tolist())
        self._state = self._state_now()
        if self._job.end_of_stream:
            decide(first >= stop)
        own = (last >= begin) & ((last < stop) | self._job.end_of_stream)
        self._found = int(own.sum())
        self._pending = int(((last >= stop) & (kept | (first >= stop)) & ~own).sum())
        self._write(batch.filter(pa.array(own & kept)))

    def _write(self, kept: pa.RecordBatch) -> None:
        if not kept.num_rows:
            return
        if self._summary is not None:
            self._summary.add_rows(kept)
            return
        self._kept_rows += kept.num_rows
        self.file.write(self._written.of(kept))

    def _state_now(self) -> Mapping[str, Any]:
        self._kept.forget(self._horizon_us)
        return self._places.handed_on(self._kept.to_json()) | ({_AHEAD: self._ahead} if self._ahead else {})


class _Places:
    """Names for the places of a longer stream that stay the same from day to day: a seq, and the id of a match there.

    An event of the stream has null in place of the id.
    """

    def __init__(self, stream: pa.Table) -> None:
        self._seqs = stream[WRITTEN_SEQ].to_numpy()
        self._ids = stream[COMPOSED_MATCH]

    def handed_on(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state of `KeptMatches.to_json` with names in the place of places."""
        ends = {partition: [self._name(place), us] for partition, (place, us) in state.get("ends", {}).items()}
        consumed = [[self._name(event[0]), *event[1:]] for event in state.get("consumed", [])]
        return {key: value for key, value in (("ends", ends), ("consumed", consumed)) if value}

    def taken_in(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state with places again, without those before the stream, which decide about no match in it."""
        ends = {partition: [self._place(*name), us] for partition, (name, us) in state.get("ends", {}).items()}
        consumed = [[self._place(*name), *rest] for name, *rest in state.get("consumed", [])]
        return {
            "ends": {partition: end for partition, end in ends.items() if end[0] is not None},
            "consumed": [event for event in consumed if event[0] is not None],
        }

    def _name(self, place: int) -> list[Any]:
        match_id = self._ids[place].as_py()
        return [int(self._seqs[place]), None if match_id is None else match_id.hex()]

    def _place(self, seq: int, match_id: str | None) -> int | None:
        first, end = (int(np.searchsorted(self._seqs, seq, side)) for side in ("left", "right"))
        return next((place for place in range(first, end) if self._name(place)[1] == match_id), None)
