"""Distributed detection: tasks that read their slice straight from Parquet and write their matches as Parquet."""

from __future__ import annotations

import gc
import logging
import pickle
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache, partial
from math import exp, log

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from cep_pipeline.compiled.object_code import adopt
from cep_pipeline.detection import MECHANISMS
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.detection.fused import kernel
from cep_pipeline.detection.fused.mechanism import shapes_of_plan
from cep_pipeline.detection.fused.shape import Shape
from cep_pipeline.detection.mechanisms import Counters, choose_mechanisms
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.slices.ownership import can_pend, counts_in_partitions
from cep_pipeline.spark.keeping import CANDIDATES_SCHEMA, CarryState, KeepingPass, KeepingResult
from cep_pipeline.spark.partitions import PartitionedEvents
from cep_pipeline.spark.slicing import RowGroup, Slice
from cep_pipeline.spark.tasks import Progress, TaskSteps, run_tasks, task_steps
from cep_pipeline.statistics.node_counts import NodeCounts
from cep_pipeline.statistics.observed import Observed, observations_of
from cep_pipeline.statistics.output_profile import OrderProfile, OutputProfiler, merge_profiles
from cep_pipeline.storage import DataDirectory, open_data_file
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, REPEATING_IN_MATCHES

logger = logging.getLogger(__name__)

_SHAPE_SHARERS = 64
"""So many clauses that need one shape are enough to make a small one of them count."""
_MAX_LN = 60.0
"""Estimates above e^60 partial matches say no more than that the slice is too large."""


def compiled_kernels(
    patterns: Sequence[Pattern], plan: Plan, mechanism: str | None, slices: Sequence[Slice]
) -> dict[str, bytes]:
    """Object code of the kernels that a plan runs over slices for long enough to need it, compiled once for all tasks.

    That is told by the partial matches that the plan expects; other shapes are interpreted by the tasks.
    """
    groups = {(group.path, group.index): group for slice_ in slices for group in slice_.row_groups}
    span_us = sum(max(group.span_us, 1) for group in groups.values())
    mechanisms = choose_mechanisms(patterns, mechanism)
    work: dict[Shape, float] = {}
    for pattern in patterns:
        if not MECHANISMS[mechanisms[pattern.name]].is_columnar:
            continue
        windows = span_us / (pattern.window.time_us or span_us or 1)
        for clause, own in zip(pattern.clauses, plan.for_pattern(pattern.name).clauses, strict=True):
            expected = windows * sum(exp(min(step.ln_partial_matches, _MAX_LN)) for step in own.steps)
            if expected < kernel.COMPILED_FROM / _SHAPE_SHARERS:
                continue
            for shape in shapes_of_plan(pattern, clause, own.order_or_tree):
                work[shape] = work.get(shape, 0.0) + expected
    return kernel.compile_shapes(shape for shape, expected in work.items() if expected >= kernel.COMPILED_FROM)


class WorkEstimate:
    """Estimated work of a row group: its events, and the partial matches that its arrival rate makes of them.

    Where events come m times as fast as on average, step k of a plan makes m^k times as many partial matches in a
    window: that is why a burst is cut finer than its number of events would say.
    """

    def __init__(self, patterns: Sequence[Pattern], plan: Plan, row_groups: Sequence[RowGroup]) -> None:
        rows = sum(group.rows for group in row_groups)
        span_us = sum(max(group.span_us, 1) for group in row_groups)
        self._mean_rate = max(rows, 1) / max(span_us, 1)
        self._steps = [
            (pattern.window.time_us or span_us, depth, step.ln_partial_matches)
            for pattern in patterns
            for clause in plan.for_pattern(pattern.name).clauses
            for depth, step in enumerate(clause.steps, start=1)
        ]

    def __call__(self, row_group: RowGroup) -> float:
        span_us = max(row_group.span_us, 1)
        density = row_group.rows / span_us / self._mean_rate
        work = float(row_group.rows)
        for window_us, depth, ln_partial_matches in self._steps:
            work += span_us / window_us * exp(min(ln_partial_matches + depth * log(density), _MAX_LN))
        return work


@dataclass(frozen=True)
class DetectionJob:
    """The part that all tasks of one detection share: the patterns, their plan, and where the matches belong.

    Attributes
    ----------
    candidates, carry_in, horizons_us, reachable
        For patterns with OUTPUT or CONSUME: a directory for what slices find of them, whose files the caller removes;
        the state of the latest earlier day; and what `CarryState.after` forgets by.
    partitioned
        What is read for windows that count the events of a partition, one for each PARTITION BY among them.
    end_of_stream
        Whether the matches that wait when the range is over are final, because the stream ends with it.
    code
        The kernels' object code that the driver compiled; a task whose CPU is another compiles its own.
    """

    patterns: tuple[Pattern, ...]
    plan: Plan
    pattern_set: str
    pattern_set_version: str
    final_day: date
    directory: DataDirectory
    mechanism: str | None = None
    candidates: DataDirectory | None = None
    carry_in: CarryState | None = None
    horizons_us: Mapping[str, int | None] = field(default_factory=dict)
    reachable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    partitioned: tuple[PartitionedEvents, ...] = ()
    end_of_stream: bool = False
    code: Mapping[str, bytes] = field(default_factory=dict)

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
    """The result of one task: the files it wrote (None without a match), matches by pattern, and counts.

    `profiles` are the temporal orders of the matches that it wrote as they are to be published.
    `candidates` is the file of matches that OUTPUT and CONSUME have still to decide about; `partitions` are those that
    have matches of a pattern, where a window counts their events and the slice is the one behind the range.
    """

    path: str | None
    candidates: str | None
    matches: dict[str, int]
    nodes: tuple[NodeCounts, ...]
    events: int
    profiles: tuple[OrderProfile, ...]
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class DetectionResult:
    """The outcome of a detection job: files to publish, matches by pattern, observed counts of each plan node.

    `observed` is what these counts and the published matches say to the next day's statistics. `pending` are the
    matches by pattern that are not published because they, or others before them, are not final yet; `carry_out` is
    what the next day needs to know of these, and for OUTPUT and CONSUME.
    """

    files: tuple[str, ...]
    matches: dict[str, int]
    nodes: tuple[NodeCounts, ...]
    slices: int
    events_read: int
    observed: Observed
    carry_out: CarryState
    pending: dict[str, int] = field(default_factory=dict)


def detect_slices(
    spark: SparkSession,
    job: DetectionJob,
    slices: Sequence[Slice],
    progress: Progress | None = None,
    *,
    behind: Slice | None = None,
) -> DetectionResult:
    """Run a detection job over slices; the union of their matches is that of the whole range.

    Parameters
    ----------
    progress
        Told of the patterns done, of each slice all: of tasks on other machines only when one is over.
    behind
        What comes behind the range, with an open end: what would be final if the stream ended there is pending.

    Raises
    ------
    UnsupportedPattern
        No mechanism runs a pattern; nothing has been read.
    """
    tasks = [_Part(number, slice_) for number, slice_ in enumerate(slices)]
    if behind is not None and any(map(can_pend, job.patterns)):
        tasks.append(_Part(len(slices), behind, behind=True))
    code = compiled_kernels(job.patterns, job.plan, job.mechanism, slices) if tasks else {}
    job = replace(job, code=code)
    with task_steps(spark, len(tasks), len(job.patterns)) if progress is not None else nullcontext() as steps:
        results = run_tasks(
            spark,
            partial(_detect, _packed(job), steps),
            tasks,
            what=f"{job.patterns[0].stream}: matches of {job.pattern_set} on {job.final_day}",
            progress=progress,
            steps=steps,
        )
    for task, result in zip(tasks, results, strict=True):
        logger.debug(
            "%s %s, %s: slice %s of %s from %s to %s: %s events, %s matches",
            job.patterns[0].stream,
            job.final_day,
            job.pattern_set,
            task.number + 1,
            len(tasks),
            task.slice.start,
            task.slice.end,
            result.events,
            sum(result.matches.values()),
        )
    last = results.pop() if len(tasks) > len(slices) else None
    matches = Counter({pattern.name: 0 for pattern in job.patterns})
    counters = Counters()
    for result in results:
        matches.update(result.matches)
        for node in result.nodes:
            counters.count(node)
    files = [result.path for result in results if result.path is not None]
    pending = Counter(last.matches if last is not None else {})
    profiles = [profile for result in results for profile in result.profiles]
    if last is not None and job.end_of_stream:
        files += [last.path] if last.path is not None else []
        profiles += last.profiles
        matches.update(pending)
        pending.clear()
    kept = _keep(
        spark,
        job,
        [result.candidates for result in results],
        [slice_.end[0] for slice_ in slices if slice_.end is not None],
        last.candidates if last is not None else None,
    )
    carry_out = job.carry_in if job.carry_in is not None else CarryState(job.pattern_set_version)
    if kept is not None:
        files += kept.files
        profiles += kept.profiles
        matches.update({name: number - matches[name] for name, number in kept.matches.items()})
        pending.update(kept.waiting)
        carry_out = kept.carry_out
    return DetectionResult(
        files=tuple(files),
        matches=dict(matches),
        nodes=tuple(counters.nodes.values()),
        slices=len(results),
        events_read=sum(result.events for result in results),
        observed=Observed(observations_of(job.patterns, counters.nodes.values()), merge_profiles(profiles)),
        carry_out=replace(carry_out, pending=dict(last.partitions) if last is not None else {}),
        pending={name: number for name, number in pending.items() if number},
    )


def _keep(
    spark: SparkSession,
    job: DetectionJob,
    candidates: Sequence[str | None],
    points_us: Sequence[int],
    pending: str | None,
) -> KeepingResult | None:
    """Let OUTPUT and CONSUME decide, in one task; None where no pattern has them."""
    if not any(map(has_output_policy, job.patterns)):
        return None
    deciding = KeepingPass(
        job.patterns,
        job.pattern_set,
        job.final_day,
        job.carry_in if job.carry_in is not None else CarryState(job.pattern_set_version),
        job.horizons_us,
        job.directory,
        points_us,
        pending,
        job.end_of_stream,
        job.reachable,
    )
    if not candidates and pending is None:
        return deciding.run(())
    (kept,) = run_tasks(
        spark,
        deciding.run,
        [tuple(candidates)],
        what=f"{job.patterns[0].stream}: OUTPUT and CONSUME of {job.pattern_set} on {job.final_day}",
    )
    return kept


@dataclass(frozen=True)
class _Part:
    """One task: a slice whose matches it owns; `behind` is what comes behind the range: matches that wait."""

    number: int
    slice: Slice
    behind: bool = False


_Work = tuple[tuple[Pattern, ...], Plan]
"""What many jobs have in common: the patterns and their plan."""
_packed_last: tuple[_Work, bytes] | None = None


def _packed(job: DetectionJob) -> tuple[bytes, bytes]:
    """The patterns with their plan, and the rest of the job, for its tasks, without what only the driver needs.

    A worker reads a thousand patterns once, for the days that follow, too, and keeps what it has worked out of them.
    """
    global _packed_last
    work = job.patterns, job.plan
    if _packed_last is None or any(own is not last for own, last in zip(work, _packed_last[0], strict=True)):
        planned = tuple(
            replace(plan, clauses=tuple(replace(clause, alternatives=(), comparisons=()) for clause in plan.clauses))
            for plan in job.plan.patterns
        )
        _packed_last = work, pickle.dumps((job.patterns, replace(job.plan, patterns=planned)), protocol=5)
    rest = replace(job, patterns=(), plan=job.plan.part(()), carry_in=None, reachable={})
    return _packed_last[1], pickle.dumps(rest, protocol=5)


@lru_cache(maxsize=2)
def _work(packed: bytes) -> _Work:
    work: _Work = pickle.loads(packed)
    gc.freeze()  # it lives as long as the worker: to look through it again and again takes longer than to run it
    return work


@lru_cache(maxsize=1)
def _unpacked(work: bytes, rest: bytes) -> DetectionJob:
    job: DetectionJob = pickle.loads(rest)
    adopt(job.code)
    patterns, plan = _work(work)
    return replace(job, patterns=patterns, plan=plan)


def _detect(packed: tuple[bytes, bytes], steps: TaskSteps | None, part: _Part, attempt: int) -> DetectedSlice:
    job = _unpacked(*packed)
    patterns = tuple(pattern for pattern in job.patterns if can_pend(pattern)) if part.behind else job.patterns
    paths: dict[pa.Schema, str] = {}
    writers: dict[pa.Schema, pq.ParquetWriter] = {}
    constants = {
        "pattern_set": job.pattern_set,
        "final_day": job.final_day,
        "pattern_version": job.pattern_set_version,
    }
    partitions: dict[str, set[str]] = {}
    profiler = OutputProfiler(pattern for pattern in patterns if not has_output_policy(pattern))
    # Of what is not final only the number is asked for, and of what waits in partitions where it is.
    located = {p.name for p in patterns if part.behind and counts_in_partitions(p)}
    hidden = {p.name for p in patterns if part.behind and not job.end_of_stream and not has_output_policy(p)}
    with ExitStack() as stack:

        def sink(pattern: Pattern, batch: pa.RecordBatch) -> None:
            if pattern.name in located:
                found = pc.unique(batch.column("partition")).drop_null().to_pylist()
                partitions.setdefault(pattern.name, set()).update(found)
                if pattern.name in hidden:
                    return
            profiler.add_rows(pattern.name, batch)
            undecided = has_output_policy(pattern)
            schema, directory = (CANDIDATES_SCHEMA, job.candidates) if undecided else (MATCHES_SCHEMA, job.directory)
            if schema not in writers:  # a slice without a match writes no file
                assert directory is not None, "a job of patterns with OUTPUT or CONSUME has a directory for candidates"
                paths[schema] = directory.file(part.number, attempt)
                writers[schema] = stack.enter_context(
                    open_data_file(paths[schema], schema, dictionaries=REPEATING_IN_MATCHES)
                )
            columns = [
                pa.repeat(pa.scalar(constants[field.name], field.type), batch.num_rows)
                if field.name in constants
                else batch.column(field.name)
                for field in schema
            ]
            writers[schema].write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))

        matches = dict.fromkeys((pattern.name for pattern in patterns), 0)
        nodes: list[NodeCounts] = []
        rows = before = 0
        told = time.monotonic()

        def tell(done: int, _: int) -> None:
            nonlocal told
            if steps is not None and time.monotonic() - told > _TELL_S:
                told = time.monotonic()
                steps.tell(part.number, before + done)

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
                progress=tell,
            )
            before += len(members)
            matches.update(result.matches)
            nodes += result.metrics.nodes
            rows += events.num_rows
    if steps is not None:
        steps.tell(part.number, steps.each)
    return DetectedSlice(
        paths.get(MATCHES_SCHEMA),
        paths.get(CANDIDATES_SCHEMA),
        matches,
        tuple(nodes),
        rows,
        profiler.profiles(),
        {name: tuple(sorted(found)) for name, found in partitions.items()},
    )


_TELL_S = 0.2
"""How often a task says how many patterns it has done."""
