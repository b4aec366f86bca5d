"""Distributed detection: tasks that read their slice straight from Parquet and write their matches as Parquet."""

from __future__ import annotations

import gc
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from math import exp, log
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_pipeline.detection.detect import count_slice, detect_slice
from cep_pipeline.detection.limits import Kind, LimitedPattern, Limits, SliceLimits
from cep_pipeline.detection.mechanisms import Counters, Route, by_route
from cep_pipeline.detection.output_policy import decides_in_order
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.errors import LimitExceeded
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.slices.ownership import can_pend, counts_in_partitions, look_back, waits_for_later_events
from cep_pipeline.spark.keeping import (
    CANDIDATES_SCHEMA,
    DayOfSet,
    KeepingResult,
    MatchFile,
    keep_candidates,
)
from cep_pipeline.spark.partitions import PartitionedEvents
from cep_pipeline.spark.slicing import Pieces, Slice
from cep_pipeline.spark.tasks import Progress, cores_of, run_tasks
from cep_pipeline.statistics.observed import (
    NodeCounts,
    Observed,
    OutputProfile,
    OutputProfiler,
    merge_profiles,
)
from cep_pipeline.storage import DataDirectory, files_from_json, files_to_json, remove_file
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, without_composed
from cep_pipeline.warehouse.records import MatchesFingerprint

if TYPE_CHECKING:
    from cep_pipeline.spark.session import SparkSession

Groups = list[dict[str, Any]]
"""The groups of SUMMARIZE of some matches, in the form of `PartialSummary.to_json`."""
_MAX_LN = 60.0
"""Estimates above e^60 partial matches say no more than that the slice is too large."""


def estimated_work(patterns: Sequence[Pattern], plan: Plan, pieces: Pieces, limits: Limits) -> tuple[Array, Array]:
    """Estimate the work of the pieces of a day: their events, and the partial matches that their rates make.

    A partial match of n variables is made with its last event: by each event of a piece, with n - 1 of those that came
    within the window before. So a burst weighs more than its number of events says. Of a pattern that will have more
    matches than its limit no more work is expected than that: else nothing but its work would decide how the day is
    cut.

    Parameters
    ----------
    limits
        Those of each pattern.

    Returns
    -------
    work, again : Array
        Shape (n,): the work of each piece, and that of the look-back of a slice which begins with it.
    """
    work = np.diff(pieces.rows).astype(np.float64)
    share, count = work / max(int(pieces.rows[-1]), 1), max(int(pieces.rows[-1]), 1)
    again = pieces.read_before(look_back(patterns))
    span_us = sum(max(group.span_us, 1) for group in pieces.row_groups) or 1  # without the hours between days
    alike: dict[tuple[int | None, bool], list[Pattern]] = {}
    for pattern in patterns:
        alike.setdefault((pattern.window.time_us, waits_for_later_events(pattern)), []).append(pattern)
    for (time_us, waits), members in alike.items():
        window_us, ratio = min(time_us or span_us, span_us), np.ones(len(pieces))
        if time_us is not None:
            ratio = pieces.before(pieces.rows, window_us, whole=False) / (count * (window_us / span_us))
        alive = dict[int, float]()
        for pattern in members:
            planned = plan.for_pattern(pattern.name).clauses
            most = _MAX_LN
            if (limit := limits.max_matches) is not None:
                whole = max(clause.expected[max(clause.expected, key=len)].ln_partial_matches for clause in planned)
                most = min(log(max(limit, 1)), _MAX_LN) if whole > log(max(limit, 1)) else _MAX_LN
            for variables, expected in (one for clause in planned for one in clause.expected.items()):
                number = len(variables)
                alive[number] = alive.get(number, 0.0) + exp(min(expected.ln_partial_matches, most))
        own = np.zeros(len(pieces))
        for number, made in alive.items():
            own += np.minimum(made * span_us / window_us * share * ratio ** (number - 1), exp(_MAX_LN))
        work += own
        if waits:  # others begin with the slice's own events, and look from these into the look-back
            again += pieces.before(np.concatenate([[0.0], np.cumsum(own)]), look_back(members).time_us)
    return work, again


@dataclass(frozen=True, kw_only=True)
class DetectionJob(DayOfSet):
    """The part that all tasks of one detection share: the patterns, their plan, and where the matches belong.

    Attributes
    ----------
    candidates
        For patterns with NON_OVERLAP or CONSUME: a directory for what slices find of them, whose files the caller
        removes.
    partitioned
        What is read for windows that count the events of a partition, one for each PARTITION BY among them.
    """

    plan: Plan
    candidates: DataDirectory | None = None
    partitioned: tuple[PartitionedEvents, ...] = ()

    @property
    def stream(self) -> str:
        """The stream of its patterns."""
        return self.patterns[0].stream

    def reading(self, slice_: Slice, patterns: Sequence[Pattern]) -> Iterator[tuple[list[Pattern], pa.Table]]:
        """Patterns that read the same events of a slice, and these events."""
        others = [pattern for pattern in patterns if not counts_in_partitions(pattern)]
        if others and slice_.row_groups:
            yield others, slice_.read(columns_needed(others))
        for source in self.partitioned:
            members = [p for p in patterns if counts_in_partitions(p) and p.partition_by == source.partition_by]
            if members and not source.empty:
                yield members, source.read(slice_.start, slice_.end, columns_needed(members))


@dataclass(frozen=True)
class DetectedSlice:
    """The result of one task: the files it wrote, matches by pattern, and counts.

    `profiles` are the temporal orders of the matches that it wrote as they are to be published.
    `candidates` is the file of matches that OUTPUT and CONSUME have still to decide about; `partitions` are those that
    have matches of a pattern, where a window counts their events and the slice is the one behind the range. `limited`
    are the patterns that were given up: what was written of them is not to be published. `summaries` has what SUMMARIZE
    puts together, as `PartialSummary.to_json`, `routes` which executors made what was asked of each pattern.
    """

    files: tuple[str, ...]
    candidates: str | None
    matches: dict[str, int]
    nodes: tuple[NodeCounts, ...]
    profiles: tuple[OutputProfile, ...]
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    limited: Mapping[str, Kind] = field(default_factory=dict)
    summaries: Mapping[str, Groups] = field(default_factory=dict)
    routes: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class DetectedDay:
    """The matches of a pattern set that become final on a day, in files that are not published yet.

    `pending` are the matches by pattern that are not published because they, or others before them, are not final when
    the day is over. `carry_out` is what the next day needs to know of these, and for OUTPUT and CONSUME, as
    `CarryState.to_json`; `observed` what the published matches say to the next day's statistics. Of the `limited`
    patterns nothing is in the files. `summaries` has the groups of each pattern with SUMMARIZE, which publishes no
    match. `routes` are the ways that detection went, in words, each with its patterns. `fingerprint` says what the
    matches follow from, and `plan_version` by which plan they were found, None: without one.
    """

    pattern_set: str
    files: tuple[str, ...]
    matches: dict[str, int]
    observed: Observed
    carry_out: Mapping[str, Any]
    pending: Mapping[str, int] = field(default_factory=dict)
    limited: Mapping[str, LimitedPattern] = field(default_factory=dict)
    summaries: Mapping[str, Groups] = field(default_factory=dict)
    routes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fingerprint: MatchesFingerprint | None = None
    plan_version: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON form, read back by `from_json`."""
        written = {
            "files": files_to_json(self.files),
            "observed": self.observed.to_json(),
            "limited": {name: one.to_json() for name, one in self.limited.items()},
            "fingerprint": self.fingerprint and self.fingerprint.to_json(),
        }
        return {**vars(self), **written}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> DetectedDay:
        """Read the JSON form."""
        read = {
            "files": files_from_json(content["files"]),
            "observed": Observed.from_json(content["observed"]),
            "limited": {name: LimitedPattern.from_json(one) for name, one in content["limited"].items()},
            "fingerprint": MatchesFingerprint.from_json(content["fingerprint"]),
        }
        return cls(**{**content, **read})


def detect_range(
    spark: SparkSession,
    job: DetectionJob,
    slices: Sequence[Slice],
    behind: Slice | None = None,
    progress: Progress | None = None,
) -> DetectedDay:
    """Run a detection job over the slices of a range: the union of their matches is that of the whole range.

    Where patterns reach a limit, the others are detected once more without them.

    Parameters
    ----------
    behind
        What comes behind the range, with an open end: what would be final if the stream ended there is pending.
    progress
        Told of the slices done.

    Raises
    ------
    UnsupportedPattern
        No mechanism runs a pattern; nothing has been read.
    LimitExceeded
        A pattern reached a limit, and the day is to fail then.
    """
    parts = [_Part(number, slice_) for number, slice_ in enumerate(slices)]
    if behind is not None and any(map(can_pend, job.patterns)):
        parts.append(_Part(len(parts), behind, behind=True))
    whole, reached, least = job, dict[str, Kind](), dict[str, int]()
    partitions = dict[str, Sequence[str]]()
    while True:
        results: list[DetectedSlice] = []
        if job.patterns:
            what = f"{job.stream}: matches of {job.pattern_set} on {job.final_day}"
            results = run_tasks(spark, partial(_detect, _packed(job)), parts, what=what, progress=progress)
        own, last = results[: len(slices)], next(iter(results[len(slices) :]), None)
        of_day = own if last is None else [*own, last if job.end_of_stream else _decided(last, job.patterns)]
        if last is not None:
            partitions |= last.partitions
        found = _limited(job, of_day)
        reached |= found
        least |= {name: sum(one.matches.get(name, 0) for one in of_day) for name in found}
        if not found:
            break
        for path in (path for one in results for path in (*one.files, one.candidates) if path is not None):
            remove_file(path)
        others = tuple(pattern for pattern in job.patterns if pattern.name not in found)
        job = replace(job, patterns=others, plan=job.plan.part(pattern.name for pattern in others))
    kept = _keep(spark, job, slices, own, last)
    merged = _merged(job, own, last, kept)
    carry_out = job.state if kept is None else kept.carry_out
    # For a limited pattern the day is as if it had not been.
    states = {**carry_out.patterns, **whole.state.part(reached).patterns}
    return replace(
        merged,
        matches={pattern.name: merged.matches.get(pattern.name, 0) for pattern in whole.patterns},
        carry_out=replace(carry_out, patterns=states, pending=partitions).to_json(),
        limited=_count_limited(spark, whole, parts, reached, least) if reached else {},
    )


def _decided(behind: DetectedSlice, patterns: Sequence[Pattern]) -> DetectedSlice:
    """The part of what is found behind a day that matters to it: that of patterns with NON_OVERLAP or CONSUME.

    A limit that another pattern reaches there stops no match of the day.
    """
    names = {pattern.name for pattern in patterns if decides_in_order(pattern)}
    matches = {name: number for name, number in behind.matches.items() if name in names}
    return replace(
        behind, matches=matches, limited={name: kind for name, kind in behind.limited.items() if name in names}
    )


def _limited(job: DetectionJob, results: Sequence[DetectedSlice]) -> dict[str, Kind]:
    """The patterns of a day that reached a limit: on a slice, or on all of them together."""
    reached: dict[str, Kind] = {}
    for result in results:
        for name, kind in result.limited.items():
            reached[name] = "max_matches" if "max_matches" in (kind, reached.get(name)) else kind
    most = job.limits.max_matches
    for name in (pattern.name for pattern in job.patterns):
        if most is not None and sum(one.matches.get(name, 0) for one in results) > most:
            reached[name] = "max_matches"
    for name, kind in reached.items():
        if job.then == "fail":
            raise LimitExceeded(name, job.limits.named(kind), str(job.final_day))
    return {pattern.name: reached[pattern.name] for pattern in job.patterns if pattern.name in reached}


def _count_limited(
    spark: SparkSession,
    job: DetectionJob,
    parts: Sequence[_Part],
    reached: Mapping[str, Kind],
    least: Mapping[str, int],
) -> dict[str, LimitedPattern]:
    """The records of the patterns that reached a limit, whose matches are counted where that is asked for."""
    counted: list[dict[str, tuple[int, bool]]] = []
    if job.then == "count":
        parts = [part for part in parts if not part.behind or job.end_of_stream]
        seconds = COUNTING_S * min(cores_of(spark) / max(len(parts), 1), 1.0)
        counted = run_tasks(
            spark,
            partial(_count, _packed(job), frozenset(reached), seconds),
            parts,
            what=f"{job.stream}: number of matches of limited patterns of {job.pattern_set} on {job.final_day}",
        )
    found: dict[str, LimitedPattern] = {}
    for name, kind in reached.items():
        own = [one[name] for one in counted]
        exact = job.then == "count" and all(complete for _, complete in own)  # 0 where the day can have none
        number = sum(matches for matches, _ in own)
        if not exact:
            known = (job.limits.max_matches or 0) + 1 if kind == "max_matches" else least.get(name, 0)
            number = max(number, known)
        found[name] = LimitedPattern(job.limits.named(kind), job.then, number, exact)
    return found


def _count(packed: bytes, names: frozenset[str], seconds: float, part: _Part, _: int) -> dict[str, tuple[int, bool]]:
    """Pattern -> its matches on a slice, and whether all are counted."""
    job, owned = _unpacked(packed), (part.slice.start, part.slice.end)
    found = dict.fromkeys(names, (0, True))
    chosen = [pattern for pattern in job.patterns if pattern.name in names]
    for members, events in job.reading(part.slice, chosen):
        for pattern in members:
            found[pattern.name] = count_slice(pattern, job.plan, events, owned, job.mechanism, seconds=seconds)
    return found


COUNTING_S = 30.0
"""Longest time to count the matches of one limited pattern of a day."""


def _merged(
    job: DetectionJob, own: Sequence[DetectedSlice], last: DetectedSlice | None, kept: KeepingResult | None
) -> DetectedDay:
    """The outcome of a job from those of its tasks and of OUTPUT and CONSUME, without what the next day is told."""
    counters = Counters()
    for result in own:
        for node in result.nodes:
            counters.count(node)
        for name, taken in result.routes.items():
            counters.went(name, *taken)
    published: list[DetectedSlice | KeepingResult] = [*own]
    pending = Counter(kept.waiting if kept is not None else {})
    if last is not None and job.end_of_stream:
        published.append(last)
    elif last is not None:
        pending.update(last.matches)
    if kept is not None:
        published.append(kept)
    matches = dict.fromkeys((pattern.name for pattern in job.patterns), 0)
    summaries = {one.name: PartialSummary(one) for one in job.patterns if one.summary is not None}
    for pattern in job.patterns:
        for found in published:
            if decides_in_order(pattern) == (found is kept):  # what slices have found of it were candidates
                matches[pattern.name] += found.matches.get(pattern.name, 0)
            if pattern.summary is not None:
                groups = found.summaries.get(pattern.name, ())
                summaries[pattern.name].add(PartialSummary.from_json(pattern, groups))
    profiles = [profile for found in published for profile in found.profiles]
    return DetectedDay(
        job.pattern_set,
        tuple(path for found in published for path in found.files),
        {**matches, **dict.fromkeys(summaries, 0)},  # none of them is among the files
        Observed(merge_profiles(profiles)),
        {},
        pending={name: number for name, number in pending.items() if number},
        summaries={name: summary.to_json() for name, summary in summaries.items()},
        routes=by_route(counters.routes),
    )


def _keep(
    spark: SparkSession,
    job: DetectionJob,
    slices: Sequence[Slice],
    results: Sequence[DetectedSlice],
    last: DetectedSlice | None,
) -> KeepingResult | None:
    """Let OUTPUT and CONSUME decide, in a task if there are candidates; None where no pattern has them."""
    if not any(map(decides_in_order, job.patterns)):
        return None
    deciding = partial(
        keep_candidates,
        replace(job, plan=job.plan.part(()), partitioned=()),
        [slice_.end[0] for slice_ in slices if slice_.end is not None],
        last.candidates if last is not None else None,
    )
    if not results and (last is None or last.candidates is None):
        return deciding([])
    what = f"{job.stream}: OUTPUT and CONSUME of {job.pattern_set} on {job.final_day}"
    (kept,) = run_tasks(spark, deciding, [[result.candidates for result in results]], what=what)
    return kept


@dataclass(frozen=True)
class _Part:
    """One task of a job: a slice whose matches it owns; `behind` is what comes behind the range: matches that wait."""

    number: int
    slice: Slice
    behind: bool = False


def _packed(job: DetectionJob) -> bytes:
    """The job for its tasks, without what the driver keeps of the day before."""
    return pickle.dumps(replace(job, carry_in=None), protocol=5)


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> DetectionJob:
    """The job again; a worker keeps it for further slices, with what it has worked out of a thousand patterns."""
    job: DetectionJob = pickle.loads(packed)
    gc.freeze()  # to look through it again and again takes longer than to run it
    return job


def _detect(packed: bytes, part: _Part, attempt: int) -> DetectedSlice:
    job = _unpacked(packed)
    limits = SliceLimits({pattern.name: job.limits for pattern in job.patterns})
    patterns = tuple(pattern for pattern in job.patterns if can_pend(pattern)) if part.behind else job.patterns
    file = MatchFile(job.directory, part.number, attempt, without_composed(MATCHES_SCHEMA), job.constants)
    candidates = file
    if job.candidates is not None:
        candidates = MatchFile(job.candidates, part.number, attempt, CANDIDATES_SCHEMA, job.constants)
    partitions: dict[str, set[str]] = {}
    summaries: dict[str, PartialSummary] = {}
    profiler = OutputProfiler(pattern for pattern in patterns if not decides_in_order(pattern))
    # Of what is not final only the number is asked for, and of what waits in partitions where it is.
    located = {p.name for p in patterns if part.behind and counts_in_partitions(p)}
    hidden = {p.name for p in patterns if part.behind and not job.end_of_stream and not decides_in_order(p)}
    with file, candidates:

        def sink(pattern: Pattern, batch: pa.RecordBatch) -> None:
            if pattern.name in located:
                found = pc.unique(batch.column("partition")).drop_null().to_pylist()
                partitions.setdefault(pattern.name, set()).update(found)
                if pattern.name in hidden:
                    return
            if pattern.summary is not None and not decides_in_order(pattern):
                summaries.setdefault(pattern.name, PartialSummary(pattern)).add_rows(batch)
                return
            profiler.add_rows(pattern.name, batch)
            (candidates if decides_in_order(pattern) else file).write(batch)

        matches = dict.fromkeys((pattern.name for pattern in patterns), 0)
        nodes: list[NodeCounts] = []
        limited: dict[str, Kind] = {}
        routes: dict[str, tuple[Route, ...]] = {}
        for members, events in job.reading(part.slice, patterns):
            result = detect_slice(
                members,
                job.plan,
                events,
                (part.slice.start, part.slice.end),
                sink,
                job.mechanism,
                candidates=located,
                counted=hidden - located,
                limits=limits,
            )
            for name, kind in result.limited.items():
                if job.then == "fail" and not part.behind:
                    raise LimitExceeded(name, job.limits.named(kind), str(job.final_day))
            limited.update(result.limited)
            summaries |= result.summaries
            matches.update(result.matches)
            nodes += result.metrics.nodes
            routes |= result.metrics.routes
    return DetectedSlice(
        tuple(file.files),
        candidates.path if candidates is not file else None,
        matches,
        tuple(nodes),
        profiler.profiles(),
        {name: tuple(sorted(found)) for name, found in partitions.items()},
        limited,
        {name: summary.to_json() for name, summary in summaries.items() if name not in limited},
        routes,
    )
