"""Distributed detection: tasks that read their slice straight from Parquet and write their matches as Parquet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from math import exp, log

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from cep_pipeline.detection.detect import choose_mechanisms, detect_slice
from cep_pipeline.detection.extent import columns_needed
from cep_pipeline.detection.fused import compile_shapes
from cep_pipeline.detection.fused.machine import adopt
from cep_pipeline.detection.fused.running import shapes_of_plan
from cep_pipeline.detection.fused.shape import Shape
from cep_pipeline.detection.mechanism import Counters, NodeCounts
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.spark.keeping import CANDIDATES_SCHEMA, CarryState, KeepingPass, Kept
from cep_pipeline.spark.slicing import RowGroup, Slice
from cep_pipeline.spark.tasks import Progress, run_tasks
from cep_pipeline.warehouse.data_files import DataDirectory, open_data_file
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, REPEATING_IN_MATCHES


@dataclass(frozen=True)
class DetectionJob:
    """What all tasks of one detection share: the patterns and their plan, and under what the matches are published.

    `code` is the kernels' object code that the driver compiled; a task whose CPU is another compiles its own.
    Patterns with OUTPUT or CONSUME need `candidates`, a directory for what slices find of them, `carry_in`, the state
    of the latest earlier day, and `end_us`, when the day ends; the caller removes the directory's files.
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
    end_us: int = 0
    code: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class DetectedSlice:
    """What one task did: the files it wrote (None without a match), matches by pattern, and what was counted.

    `candidates` is the file of matches that OUTPUT and CONSUME have still to decide about.
    """

    path: str | None
    candidates: str | None
    matches: dict[str, int]
    nodes: tuple[NodeCounts, ...]
    events: int


@dataclass(frozen=True)
class Detected:
    """The outcome of a detection job: files to publish, matches by pattern, observed counts of each plan node.

    `carry_out` is what the next day needs to know for OUTPUT and CONSUME, None where no pattern has them.
    """

    files: tuple[str, ...]
    matches: dict[str, int]
    nodes: tuple[NodeCounts, ...]
    slices: int
    events_read: int
    carry_out: CarryState | None = None


def detect_slices(
    spark: SparkSession, job: DetectionJob, slices: Sequence[Slice], progress: Progress | None = None
) -> Detected:
    """Run a detection job over slices; the union of their matches is that of the whole range.

    Raises
    ------
    UnsupportedPattern
        No mechanism runs a pattern; nothing has been read.
    """
    job = replace(job, code=compiled_kernels(job))
    results = run_tasks(
        spark,
        partial(_detect, replace(job, carry_in=None)),  # only the pass needs it, and it may be large
        list(enumerate(slices)),
        what=f"{job.patterns[0].stream}: matches of {job.pattern_set} on {job.final_day}",
        progress=progress,
    )
    matches = Counter({pattern.name: 0 for pattern in job.patterns})
    counters = Counters()
    for result in results:
        matches.update(result.matches)
        for node in result.nodes:
            counters.count(node)
    files = [result.path for result in results if result.path is not None]
    kept = _keep(spark, job, [result.candidates for result in results])
    if kept is not None:
        files += kept.files
        for name, number in kept.matches.items():
            matches[name] = number
    return Detected(
        files=tuple(files),
        matches=dict(matches),
        nodes=tuple(counters.nodes.values()),
        slices=len(results),
        events_read=sum(result.events for result in results),
        carry_out=kept.carry_out if kept is not None else None,
    )


def _keep(spark: SparkSession, job: DetectionJob, candidates: Sequence[str | None]) -> Kept | None:
    """Let OUTPUT and CONSUME decide, in one task; None where no pattern has them."""
    if not any(map(has_output_policy, job.patterns)):
        return None
    carry_in = job.carry_in if job.carry_in is not None else CarryState(job.pattern_set_version)
    deciding = KeepingPass(job.patterns, carry_in, job.end_us, job.directory, len(candidates))
    (kept,) = run_tasks(
        spark,
        deciding.run,
        [tuple(candidates)],
        what=f"{job.patterns[0].stream}: OUTPUT and CONSUME of {job.pattern_set} on {job.final_day}",
    )
    return kept


def compiled_kernels(job: DetectionJob) -> dict[str, bytes]:
    """Object code of the kernels that the job's plan needs, compiled once for all tasks."""
    mechanisms = choose_mechanisms(job.patterns, job.mechanism)
    shapes: set[Shape] = set()
    for pattern in job.patterns:
        if mechanisms[pattern.name] == "fused":
            planned = [plan.order_or_tree for plan in job.plan.for_pattern(pattern.name).clauses]
            for clause, order_or_tree in zip(pattern.clauses, planned, strict=True):
                shapes |= shapes_of_plan(pattern, clause, order_or_tree)
    return compile_shapes(shapes)


def _detect(job: DetectionJob, task: tuple[int, Slice], attempt: int) -> DetectedSlice:
    number, slice_ = task
    adopt(job.code)
    events = slice_.read(columns_needed(job.patterns))
    paths: dict[pa.Schema, str] = {}
    writers: dict[pa.Schema, pq.ParquetWriter] = {}
    constants = {
        "pattern_set": job.pattern_set,
        "final_day": job.final_day,
        "pattern_version": job.pattern_set_version,
    }
    with ExitStack() as stack:

        def sink(pattern: Pattern, batch: pa.RecordBatch) -> None:
            undecided = has_output_policy(pattern)
            schema, directory = (CANDIDATES_SCHEMA, job.candidates) if undecided else (MATCHES_SCHEMA, job.directory)
            if schema not in writers:  # a slice without a match writes no file
                assert directory is not None, "a job of patterns with OUTPUT or CONSUME has a directory for candidates"
                paths[schema] = directory.file(number, attempt)
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

        result = detect_slice(job.patterns, job.plan, events, (slice_.start, slice_.end), sink, job.mechanism)
    return DetectedSlice(
        paths.get(MATCHES_SCHEMA), paths.get(CANDIDATES_SCHEMA), result.matches, result.metrics.nodes, events.num_rows
    )


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


_MAX_LN = 60.0
"""Estimates above e^60 partial matches say no more than that the slice is too large."""
