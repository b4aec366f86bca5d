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
from pyspark.sql import SparkSession

from cep_pipeline.detection.detect import choose_mechanisms, detect_slice
from cep_pipeline.detection.extent import columns_needed
from cep_pipeline.detection.fused import compile_shapes, shapes_of
from cep_pipeline.detection.fused.machine import adopt
from cep_pipeline.detection.fused.shape import Shape
from cep_pipeline.detection.kleene.skeleton import skeleton_of, skeleton_order
from cep_pipeline.detection.mechanism import Counters, NodeCounts
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.planning.plans import Plan
from cep_pipeline.spark.slicing import RowGroup, Slice
from cep_pipeline.spark.tasks import Progress, run_tasks
from cep_pipeline.warehouse.data_files import DataDirectory, open_data_file
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, REPEATING_IN_MATCHES


@dataclass(frozen=True)
class DetectionJob:
    """What all tasks of one detection share: the patterns and their plan, and under what the matches are published.

    `code` is the kernels' object code that the driver compiled; a task whose CPU is another compiles its own.
    """

    patterns: tuple[Pattern, ...]
    plan: Plan
    pattern_set: str
    pattern_set_version: str
    final_day: date
    directory: DataDirectory
    mechanism: str | None = None
    code: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class DetectedSlice:
    """What one task did: the file it wrote (None without a match), matches by pattern, and what was counted."""

    path: str | None
    matches: dict[str, int]
    nodes: tuple[NodeCounts, ...]
    events: int


@dataclass(frozen=True)
class Detected:
    """The outcome of a detection job: files to publish, matches by pattern, observed counts of each plan node."""

    files: tuple[str, ...]
    matches: dict[str, int]
    nodes: tuple[NodeCounts, ...]
    slices: int
    events_read: int


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
        partial(_detect, job),
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
    return Detected(
        files=tuple(result.path for result in results if result.path is not None),
        matches=dict(matches),
        nodes=tuple(counters.nodes.values()),
        slices=len(results),
        events_read=sum(result.events for result in results),
    )


def compiled_kernels(job: DetectionJob) -> dict[str, bytes]:
    """Object code of the kernels that the job's plan needs, compiled once for all tasks."""
    mechanisms = choose_mechanisms(job.patterns, job.mechanism)
    shapes: set[Shape] = set()
    for pattern in job.patterns:
        if mechanisms[pattern.name] == "fused":
            orders = (plan.order for plan in job.plan.for_pattern(pattern.name).clauses)
            for clause, order in zip(pattern.clauses, orders, strict=True):
                shapes |= shapes_of(pattern, skeleton_of(clause), skeleton_order(clause, order))
    return compile_shapes(shapes)


def _detect(job: DetectionJob, task: tuple[int, Slice], attempt: int) -> DetectedSlice:
    number, slice_ = task
    adopt(job.code)
    events = slice_.read(columns_needed(job.patterns))
    path: str | None = None
    constants = {
        "pattern_set": job.pattern_set,
        "final_day": job.final_day,
        "pattern_version": job.pattern_set_version,
    }
    with ExitStack() as stack:
        writer = None

        def sink(_: Pattern, batch: pa.RecordBatch) -> None:
            nonlocal path, writer
            if writer is None:  # a slice without a match writes no file
                path = job.directory.file(number, attempt)
                writer = stack.enter_context(open_data_file(path, MATCHES_SCHEMA, dictionaries=REPEATING_IN_MATCHES))
            columns = [
                pa.repeat(pa.scalar(constants[field.name], field.type), batch.num_rows)
                if field.name in constants
                else batch.column(field.name)
                for field in MATCHES_SCHEMA
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=MATCHES_SCHEMA))

        result = detect_slice(job.patterns, job.plan, events, (slice_.start, slice_.end), sink, job.mechanism)
    return DetectedSlice(path, result.matches, result.metrics.nodes, events.num_rows)


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
