"""Distributed detection: tasks that read their slice straight from Parquet and write their matches as Parquet."""

from __future__ import annotations

import gc
import logging
import pickle
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache, partial
from math import exp, log
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cep_pipeline.detection.compressed.tables import STATEMENTS
from cep_pipeline.detection.detect import count_slice, detect_slice
from cep_pipeline.detection.limits import CELL_BYTES, Kind, Ledger, LimitedPattern, Limits, SliceLimits, Then
from cep_pipeline.detection.mechanisms import Counters
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.route import Route, by_route
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.errors import LimitExceeded
from cep_pipeline.expressions.columns import Array
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.patterns.structure import EventType, types_of
from cep_pipeline.planning.clause_plans import PlanNode, PlanStep
from cep_pipeline.planning.plans import Plan
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.slices.ownership import can_pend, counts_in_partitions, look_back, waits_for_later_events
from cep_pipeline.slices.prepared import Boundary
from cep_pipeline.spark.keeping import CANDIDATES_SCHEMA, CarryState, KeepingPass, KeepingResult, first_last_event
from cep_pipeline.spark.partitions import PartitionedEvents
from cep_pipeline.spark.session import is_local
from cep_pipeline.spark.slicing import Pieces, RowGroup, Slice
from cep_pipeline.spark.tasks import Progress, TaskSteps, cores_of, run_tasks, task_steps
from cep_pipeline.statistics.node_counts import NodeCounts
from cep_pipeline.statistics.observed import Observed, observations_of
from cep_pipeline.statistics.output_profile import OrderProfile, OutputProfiler, merge_profiles
from cep_pipeline.storage import (
    DataDirectory,
    conform,
    in_type,
    open_data_file,
    open_parquet,
    remove_file,
    write_data_file,
    written,
)
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, REPEATING_IN_MATCHES, without_composed

if TYPE_CHECKING:
    from cep_pipeline.spark.session import SparkSession

logger = logging.getLogger(__name__)

Groups = list[dict[str, Any]]
"""The groups of SUMMARIZE of some matches, in the form of `PartialSummary.to_json`."""
_MAX_LN = 60.0
"""Estimates above e^60 partial matches say no more than that the slice is too large."""


class WorkEstimate:
    """Estimated work of the pieces of a day: their events, and the partial matches that their types' rates make.

    A partial match of some variables is made with its last event: by so many events of a piece, each with those of the
    other variables' types that came within the window before. So a burst weighs more than its number of events says,
    and a burst of a type that no pattern asks for does not. Of a pattern that will have more matches than its limit no
    more work is expected than that: else nothing but its work would decide how the day is cut.

    Parameters
    ----------
    limits
        Pattern -> its limits.
    """

    def __init__(self, patterns: Sequence[Pattern], plan: Plan, limits: Mapping[str, Limits] | None = None) -> None:
        self.patterns, self._plan = patterns, plan
        self._most = {pattern.name: self._most_of(pattern, (limits or {}).get(pattern.name)) for pattern in patterns}

    def _most_of(self, pattern: Pattern, limits: Limits | None) -> float:
        """The logarithm of the most partial matches that are expected of a pattern."""
        if limits is None or limits.max_matches is None:
            return _MAX_LN
        planned = self._plan.for_pattern(pattern.name).clauses
        whole = max(clause.expected[max(clause.expected, key=len)].ln_partial_matches for clause in planned)
        most = log(max(limits.max_matches, 1))
        return min(most, _MAX_LN) if whole > most else _MAX_LN

    def __call__(self, pieces: Pieces) -> tuple[Array, Array, Array]:
        """Estimate the work of each piece, and that of the look-back of a slice which begins with it.

        Returns
        -------
        work, again, stored : Array
            Shape (n,). Work is events and tuples that are tested. `stored` is events and partial matches: it is known
            better, tells how much a day is in all, and hardly how it is spread.
        """
        work = np.diff(pieces.rows).astype(np.float64)
        stored = work.copy()
        again = pieces.read_before(look_back(self.patterns))
        span_us = _span_us(pieces)
        together: dict[tuple[int | None, bool], list[Pattern]] = {}
        for pattern in self.patterns:
            together.setdefault((pattern.window.time_us, waits_for_later_events(pattern)), []).append(pattern)
        for (window_us, waits), members in together.items():
            steps: dict[tuple[EventType, ...], tuple[float, float]] = {}
            for pattern in members:
                for clause, planned in zip(pattern.clauses, self._plan.for_pattern(pattern.name).clauses, strict=True):
                    most = self._most[pattern.name]
                    for variables, expected in planned.expected.items():
                        types = tuple(sorted((clause.by_name[name].event_type for name in variables), key=types_of))
                        alive, tested = steps.get(types, (0.0, 0.0))
                        ln_tested = min(expected.ln_partial_matches + _ln_tests(expected), most)
                        alive += exp(min(expected.ln_partial_matches, most))
                        steps[types] = alive, tested + exp(ln_tested)
            names = {name for types in steps for name in types}
            ratios = {name: _ratios(pieces, _counted(pieces, name), window_us) for name in names}
            own = np.zeros(len(pieces))
            for types, (alive, tested) in steps.items():
                share = span_us / (window_us or span_us) * _share(types, ratios)
                own += tested * share
                stored += alive * share
            work += own
            if waits:  # others begin with the events that the slice owns, and look from these into the look-back
                reached = np.concatenate([[0.0], np.cumsum(own)])
                again += pieces.before(reached, look_back(members).time_us)
        return work, again, stored


def read_pieces(spark: SparkSession, patterns: Sequence[Pattern], row_groups: Sequence[RowGroup]) -> Pieces:
    """Read the pieces of sorted row groups: of many events in tasks, a file each, of fewer here, which is faster."""
    first = patterns[0]
    types = {name for pattern in patterns for operand in pattern.operands for name in operand.types}
    types.discard(first.base_type or "")
    if sum(group.rows for group in row_groups) > _ROWS_READ_HERE:
        run = partial(run_tasks, spark, what=f"{first.stream}: events by time and type")
        return Pieces.read(row_groups, first.type_attribute, types, run)
    return Pieces.read(row_groups, first.type_attribute, types, lambda count, files: [count(file, 0) for file in files])


_ROWS_READ_HERE = 4_000_000
"""A quarter of a second is enough for the times and types of so many events."""


def _ln_tests(expected: PlanStep | PlanNode) -> float:
    """The tuples that a step tests for each that remains; agreements are looked up and not tested."""
    shares = (one.selectivity.value for one in expected.conditions if not one.agreement)
    return min(-sum(log(max(share, 1 / _MOST_TESTS)) for share in shares), log(_MOST_TESTS))


_MOST_TESTS = 100.0
"""The most tests that a mechanism is expected to make where conditions hardly ever hold: it rules out most tuples
early."""


def _span_us(pieces: Pieces) -> int:
    """The time in which events come, without the hours between days."""
    return sum(max(group.span_us, 1) for group in pieces.row_groups) or 1


def _counted(pieces: Pieces, event_type: EventType) -> Array:
    """The events of a type before each piece, and before the end."""
    names = types_of(event_type)
    known = [pieces.types[name] for name in names if name in pieces.types]
    return np.sum(known, axis=0) if len(known) == len(names) else pieces.rows


def _ratios(pieces: Pieces, counted: Array, window_us: int | None) -> tuple[Array, Array]:
    """A type's share of its events that each piece holds, and its number in the window before to that on average."""
    share = np.diff(counted) / max(int(counted[-1]), 1)
    if window_us is None:
        return share, np.ones(len(pieces))
    usual = max(int(counted[-1]), 1) * min(window_us / _span_us(pieces), 1.0)
    return share, pieces.before(counted, window_us, whole=False) / usual


def _share(types: Sequence[EventType], ratios: Mapping[EventType, tuple[Array, Array]]) -> Array:
    """Partial matches of events of these types that each piece makes, as shares of those of an even day."""
    total = np.zeros(len(ratios[types[0]][0]))
    for last in range(len(types)):
        made = ratios[types[last]][0].copy()
        for other, name in enumerate(types):
            if other != last:
                made *= ratios[name][1]
        total += made
    return np.asarray(np.minimum(total / len(types), exp(_MAX_LN)))


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
    limits, then
        Pattern -> its limits on the day, and what follows when it reaches one.
    compressed
        Where matches of limited patterns are written as buffers.
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
    limits: Mapping[str, Limits] = field(default_factory=dict)
    then: Mapping[str, Then] = field(default_factory=dict)
    compressed: DataDirectory | None = None

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
    """The result of one task: the files it wrote (None without a match), matches by pattern, and counts.

    `profiles` are the temporal orders of the matches that it wrote as they are to be published.
    `candidates` is the file of matches that OUTPUT and CONSUME have still to decide about; `partitions` are those that
    have matches of a pattern, where a window counts their events and the slice is the one behind the range, and
    `waiting` is the earliest last event of these matches. `limited` are the patterns that were given up: what was
    written of them is not to be published. `summaries` has what SUMMARIZE puts together, as `PartialSummary.to_json`,
    `routes` which executors made what was asked of each pattern.
    """

    path: str | None
    candidates: str | None
    matches: dict[str, int]
    nodes: tuple[NodeCounts, ...]
    events: int
    profiles: tuple[OrderProfile, ...]
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    waiting: Mapping[str, Boundary] = field(default_factory=dict)
    limited: Mapping[str, Kind] = field(default_factory=dict)
    summaries: Mapping[str, Groups] = field(default_factory=dict)
    routes: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class DetectionResult:
    """The outcome of a detection job: files to publish, matches by pattern, observed counts of each plan node.

    `observed` is what these counts and the published matches say to the next day's statistics. `pending` are the
    matches by pattern that are not published because they, or others before them, are not final yet; `carry_out` is
    what the next day needs to know of these, and for OUTPUT and CONSUME. Of the patterns that are `limited` no match is
    among the files. `summaries` has the groups of each pattern with SUMMARIZE, which publishes no match. `routes` are
    the ways that detection went, in words, each with its patterns.
    """

    files: tuple[str, ...]
    matches: dict[str, int]
    nodes: tuple[NodeCounts, ...]
    slices: int
    observed: Observed
    carry_out: CarryState
    pending: dict[str, int] = field(default_factory=dict)
    limited: dict[str, LimitedPattern] = field(default_factory=dict)
    summaries: dict[str, Groups] = field(default_factory=dict)
    routes: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class SlicedJob:
    """A detection job, the slices of its range, and what comes behind the range.

    `behind` has an open end: what would be final if the stream ended there is pending.
    """

    job: DetectionJob
    slices: Sequence[Slice]
    behind: Slice | None = None

    def parts(self, number: int) -> list[_Part]:
        """The tasks of the job, which is one of several."""
        parts = [_Part(number, place, slice_) for place, slice_ in enumerate(self.slices)]
        if self.behind is not None and any(map(can_pend, self.job.patterns)):
            parts.append(_Part(number, len(parts), self.behind, behind=True))
        return parts


def detect_together(
    spark: SparkSession, sliced: Sequence[SlicedJob], progress: Progress | None = None
) -> list[DetectionResult]:
    """Run detection jobs of the same patterns, plan and pattern set side by side, as tasks of one Spark job.

    The union of the matches of all slices of a job is that of its whole range. The jobs must not need one another's
    results: where OUTPUT or CONSUME decide, each job needs that of the day before.

    Parameters
    ----------
    progress
        Told of the patterns done, of each slice all: of tasks on other machines only when one is over.

    Raises
    ------
    UnsupportedPattern
        No mechanism runs a pattern; nothing has been read.
    LimitExceeded
        A pattern reached a limit, and the day is to fail then.
    """
    parts = [part for number, one in enumerate(sliced) for part in one.parts(number)]
    first, last = sliced[0].job, sliced[-1].job
    days = str(first.final_day) if first is last else f"{first.final_day} to {last.final_day}"
    packed = [_packed(one.job) for one in sliced]
    with (
        task_steps(spark, len(parts), len(first.patterns)) if progress is not None else nullcontext() as steps,
        _ledger_file(spark, sliced, len(parts)) as ledger,
    ):
        results = run_tasks(
            spark,
            partial(_detect, packed, steps, ledger, len(parts)),
            list(enumerate(parts)),
            what=f"{first.stream}: matches of {first.pattern_set} on {days}",
            progress=progress,
            steps=steps,
        )
    own: list[list[DetectedSlice]] = [[] for _ in sliced]
    for part, result in zip(parts, results, strict=True):
        own[part.job].append(result)
    return [_merged(spark, one, found) for one, found in zip(sliced, own, strict=True)]


@contextmanager
def _ledger_file(spark: SparkSession, sliced: Sequence[SlicedJob], tasks: int) -> Iterator[str | None]:
    """Give the file of the ledgers of all tasks, for the block; None without limits, or where tasks run elsewhere."""
    job = sliced[0].job
    if not job.limits or not is_local(spark):
        yield None
        return
    with NamedTemporaryFile(prefix="cep-limits-") as file:
        file.truncate(len(sliced) * len(job.patterns) * tasks * CELL_BYTES)
        yield file.name


def _decided(behind: DetectedSlice, patterns: Sequence[Pattern]) -> DetectedSlice:
    """The part of what is found behind a day that matters to it: that of patterns with OUTPUT or CONSUME.

    A limit that another pattern reaches there stops no match of the day.
    """
    names = {pattern.name for pattern in patterns if has_output_policy(pattern)}
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
    for name, limits in job.limits.items():
        if limits.max_matches is not None and sum(one.matches.get(name, 0) for one in results) > limits.max_matches:
            reached[name] = "max_matches"
    for name, kind in reached.items():
        if job.then.get(name) == "fail":
            raise LimitExceeded(name, job.limits[name].named(kind), str(job.final_day))
    return {pattern.name: reached[pattern.name] for pattern in job.patterns if pattern.name in reached}


def _without(
    spark: SparkSession, job: DetectionJob, results: Sequence[DetectedSlice], names: Collection[str]
) -> list[DetectedSlice]:
    """The results of slices without what they have of some patterns; files that have rows of them are written anew."""
    written = [(at, kind) for at, one in enumerate(results) if any(map(one.matches.get, names)) for kind in range(2)]
    tasks = [(path, kind, at) for at, kind in written if (path := (results[at].path, results[at].candidates)[kind])]
    files: dict[tuple[int, int], str | None] = {}
    if tasks:
        directories = job.directory, job.candidates
        what = f"{job.stream}: files of {job.pattern_set} on {job.final_day} without limited patterns"
        left = run_tasks(spark, partial(_rewrite, directories, frozenset(names)), tasks, what=what)
        files = {(at, kind): path for (_, kind, at), path in zip(tasks, left, strict=True)}
    return [
        replace(
            one,
            path=files.get((at, 0), one.path),
            candidates=files.get((at, 1), one.candidates),
            matches={name: 0 if name in names else number for name, number in one.matches.items()},
            nodes=tuple(node for node in one.nodes if node.pattern not in names),
            profiles=tuple(profile for profile in one.profiles if profile.pattern not in names),
        )
        for at, one in enumerate(results)
    ]


def _rewrite(
    directories: tuple[DataDirectory | None, DataDirectory | None],
    names: frozenset[str],
    task: tuple[str, int, int],
    attempt: int,
) -> str | None:
    """Write a file of matches or candidates anew without some patterns; None where nothing is left."""
    path, kind, number = task
    directory = directories[kind]
    assert directory is not None
    schema = CANDIDATES_SCHEMA if kind else without_composed(directory.columns or MATCHES_SCHEMA)

    def left(rows: pa.Table) -> pa.Table:
        return rows.filter(pc.invert(pc.is_in(rows["pattern"], pa.array(sorted(names)))))

    target = _copy(path, schema, lambda: directory.file(number, attempt), left)
    remove_file(path)
    return target


def _copy(
    path: str, schema: pa.Schema, target: Callable[[], str], change: Callable[[pa.Table], pa.Table]
) -> str | None:
    """Write what is made of the rows of a file of matches as another file; None where nothing is left of them."""
    copy: str | None = None
    with ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        with open_parquet(path) as file:
            for batch in file.iter_batches():
                rows = change(conform(pa.Table.from_batches([batch]), schema))
                if not rows.num_rows:
                    continue
                if writer is None:
                    copy = target()
                    writer = stack.enter_context(open_data_file(copy, schema, dictionaries=REPEATING_IN_MATCHES))
                writer.write_table(rows)
    return None if copy is None else written(copy)


def copy_matches(
    spark: SparkSession,
    files: Sequence[str],
    names: Collection[str],
    directory: DataDirectory,
    pattern_set_version: str,
    *,
    what: str,
) -> tuple[str, ...]:
    """Copy the matches of some patterns out of published files, for a newer version of their pattern set.

    Parameters
    ----------
    files
        The files, in their order.
    directory
        Where the copies are written.
    what
        What is being done, for Spark's own page.
    """
    task = partial(_copy_of_patterns, directory, frozenset(names), pattern_set_version)
    copies = run_tasks(spark, task, list(enumerate(files)), what=what)
    return tuple(path for path in copies if path is not None)


def _copy_of_patterns(
    directory: DataDirectory, names: frozenset[str], version: str, task: tuple[int, str], attempt: int
) -> str | None:
    number, path = task
    schema = without_composed(directory.columns or MATCHES_SCHEMA)
    place = schema.get_field_index("pattern_version")
    column = schema.field(place)

    def of_patterns(rows: pa.Table) -> pa.Table:
        own = rows.filter(pc.is_in(rows["pattern"], pa.array(sorted(names))))
        return own.set_column(place, column, pa.repeat(pa.scalar(version, column.type), own.num_rows))

    return _copy(path, schema, lambda: directory.file(number, attempt), of_patterns)


def _count_limited(
    spark: SparkSession, sliced: SlicedJob, reached: Mapping[str, Kind], least: Mapping[str, int]
) -> dict[str, LimitedPattern]:
    """The records of the patterns that reached a limit, whose matches are counted where that is asked for."""
    job = sliced.job
    asked = tuple(p for p in job.patterns if p.name in reached and job.then.get(p.name) in ("count", "compressed"))
    counted: list[dict[str, tuple[int, bool, str | None]]] = []
    if asked:
        parts = [part for part in sliced.parts(0) if not part.behind or job.end_of_stream]
        packed = _packed(job)
        counted = run_tasks(
            spark,
            partial(_count, packed, frozenset(pattern.name for pattern in asked), _seconds_to_count(spark, len(parts))),
            parts,
            what=f"{job.stream}: number of matches of limited patterns of {job.pattern_set} on {job.final_day}",
        )
    found: dict[str, LimitedPattern] = {}
    asked_names = {pattern.name for pattern in asked}
    for name, kind in reached.items():
        limits, then = job.limits[name], job.then.get(name, "count")
        own = [one[name] for one in counted if name in one]
        exact = name in asked_names and all(complete for _, complete, _ in own)  # 0 where the day can have none
        number = sum(matches for matches, _, _ in own)
        if not exact:
            known = (limits.max_matches or 0) + 1 if kind == "max_matches" else least.get(name, 0)
            number = max(number, known)
        files = [path for _, _, path in own if path is not None]
        complete = exact and len(files) == len(own)
        for path in () if complete else files:
            remove_file(path)
        found[name] = LimitedPattern(limits.named(kind), then, number, exact, tuple(files) if complete else ())
    return found


def _count(
    packed: tuple[bytes, bytes], names: frozenset[str], seconds: float, part: _Part, attempt: int
) -> dict[str, tuple[int, bool, str | None]]:
    """Pattern -> its matches on a slice, whether all are counted, and the file of their buffers."""
    job = _unpacked(*packed)
    found: dict[str, tuple[int, bool, str | None]] = {}
    chosen = [pattern for pattern in job.patterns if pattern.name in names]
    for members, events in job.reading(part.slice, chosen):
        for pattern in members:
            written: list[str] = []

            def write(table: pa.Table, written: list[str] = written) -> None:
                assert job.compressed is not None
                written.append(job.compressed.file(part.number, attempt))
                statements = {STATEMENTS.decode(): table.schema.metadata[STATEMENTS].decode()}
                write_data_file(written[0], table, table.schema, statements)

            compress = write if job.then.get(pattern.name) == "compressed" and job.compressed is not None else None
            owned = part.slice.start, part.slice.end
            number, exact = count_slice(
                pattern, job.plan, events, owned, job.mechanism, seconds=seconds, compress=compress
            )
            found[pattern.name] = number, exact, written[0] if written else None
    return {name: found.get(name, (0, True, None)) for name in names}


def _seconds_to_count(spark: SparkSession, slices: int) -> float:
    """The seconds for which matches of one pattern are counted on each slice."""
    return COUNTING_S * min(cores_of(spark) / max(slices, 1), 1.0)


COUNTING_S = 30.0
"""Longest time to count the matches of one limited pattern of a day."""


def _merged(spark: SparkSession, sliced: SlicedJob, results: list[DetectedSlice]) -> DetectionResult:
    """The outcome of a job from those of its tasks, after OUTPUT and CONSUME have decided."""
    job, slices, tasks = sliced.job, sliced.slices, sliced.parts(0)
    for task, result in zip(tasks, results, strict=True):
        logger.debug(
            "%s %s, %s: slice %s of %s from %s to %s: %s events, %s matches",
            job.stream,
            job.final_day,
            job.pattern_set,
            task.number + 1,
            len(tasks),
            task.slice.start,
            task.slice.end,
            result.events,
            sum(result.matches.values()),
        )
    of_day = [
        result if not task.behind or job.end_of_stream else _decided(result, job.patterns)
        for task, result in zip(tasks, results, strict=True)
    ]
    reached = _limited(job, of_day)
    least = {name: sum(one.matches.get(name, 0) for one in of_day) for name in reached}
    if reached:
        results = _without(spark, job, results, reached)
    last = results.pop() if len(tasks) > len(slices) else None
    matches = Counter({pattern.name: 0 for pattern in job.patterns})
    counters = Counters()
    for result in results:
        matches.update(result.matches)
        for node in result.nodes:
            counters.count(node)
        for name, taken in result.routes.items():
            counters.went(name, *taken)
    files = [result.path for result in results if result.path is not None]
    pending = Counter(last.matches if last is not None else {})
    profiles = [profile for result in results for profile in result.profiles]
    if last is not None and job.end_of_stream:
        files += [last.path] if last.path is not None else []
        profiles += last.profiles
        matches.update(pending)
        pending.clear()
    carry_out = job.carry_in if job.carry_in is not None else CarryState(job.pattern_set_version)
    # For a limited pattern the day is as if it had not been.
    states = {name: state for name, state in carry_out.patterns.items() if name in reached}
    summaries = _summaries_of(job, reached, results if not job.end_of_stream or last is None else [*results, last])
    for summarized in (False, True):
        own = tuple(one for one in job.patterns if (one.summary is not None) is summarized and one.name not in reached)
        kept = _keep(
            spark,
            replace(job, patterns=own, directory=job.candidates or job.directory)
            if summarized
            else replace(job, patterns=own),
            [result.candidates for result in results],
            [slice_.end[0] for slice_ in slices if slice_.end is not None],
            last.candidates if last is not None else None,
            {pattern.name: matches[pattern.name] for pattern in own if has_output_policy(pattern)},
        )
        if kept is None:
            continue
        if summarized:
            _add_kept(spark, replace(job, patterns=own), summaries, kept.files)
        else:
            files += kept.files
        profiles += kept.profiles
        matches.update({name: number - matches[name] for name, number in kept.matches.items()})
        pending.update(kept.waiting)
        states |= kept.carry_out.patterns
        carry_out = replace(kept.carry_out, patterns=states)
    return DetectionResult(
        files=tuple(files),
        matches={**matches, **dict.fromkeys(summaries, 0)},  # none of them is among the files
        nodes=tuple(counters.nodes.values()),
        slices=len(results),
        observed=Observed(observations_of(job.patterns, counters.nodes.values()), merge_profiles(profiles)),
        carry_out=replace(
            carry_out,
            pending=dict(last.partitions) if last is not None else {},
            waiting=dict(last.waiting) if last is not None else {},
        ),
        pending={name: number for name, number in pending.items() if number},
        limited=_count_limited(spark, sliced, reached, least) if reached else {},
        summaries={name: summary.to_json() for name, summary in summaries.items()},
        routes=by_route(counters.routes),
    )


def _summaries_of(
    job: DetectionJob, limited: Collection[str], results: Sequence[DetectedSlice]
) -> dict[str, PartialSummary]:
    """Put together what slices have found of each pattern with SUMMARIZE that has not reached a limit."""
    found: dict[str, PartialSummary] = {}
    for pattern in job.patterns:
        if pattern.summary is not None and pattern.name not in limited:
            found[pattern.name] = PartialSummary(pattern)
            for result in results:
                found[pattern.name].add(PartialSummary.from_json(pattern, result.summaries.get(pattern.name, ())))
    return found


def _add_kept(
    spark: SparkSession, job: DetectionJob, summaries: Mapping[str, PartialSummary], files: Sequence[str]
) -> None:
    """Add the matches that OUTPUT and CONSUME have kept of patterns with SUMMARIZE, which stand in files of scratch."""
    what = f"{job.stream}: summaries of {job.pattern_set} on {job.final_day}"
    for found in run_tasks(spark, partial(_summarize_file, _packed(job)), list(files), what=what):
        for name, groups in found.items():
            own = next(pattern for pattern in job.patterns if pattern.name == name)
            summaries[name].add(PartialSummary.from_json(own, groups))


def _summarize_file(packed: tuple[bytes, bytes], path: str, attempt: int) -> dict[str, Groups]:
    job = _unpacked(*packed)
    summaries = {pattern.name: PartialSummary(pattern) for pattern in job.patterns}
    with open_parquet(path) as file:
        for batch in file.iter_batches(columns=["pattern", "end_ts", "returns"]):
            for name in pc.unique(batch.column("pattern")).to_pylist():
                summaries[name].add_rows(batch.filter(pc.equal(batch.column("pattern"), name)))
    return {name: summary.to_json() for name, summary in summaries.items()}


def _keep(
    spark: SparkSession,
    job: DetectionJob,
    candidates: Sequence[str | None],
    points_us: Sequence[int],
    pending: str | None,
    matches: Mapping[str, int],
) -> KeepingResult | None:
    """Let OUTPUT and CONSUME decide; None where no pattern has them."""
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
    assert job.candidates is not None, "a job of patterns with OUTPUT or CONSUME has a directory for candidates"
    what = f"{job.patterns[0].stream}: OUTPUT and CONSUME of {job.pattern_set} on {job.final_day}"
    run = partial(run_tasks, spark, what=what)
    return deciding.decide(candidates, matches, job.candidates, cores_of(spark), run)


@dataclass(frozen=True)
class _Part:
    """One task of a job: a slice whose matches it owns; `behind` is what comes behind the range: matches that wait."""

    job: int
    number: int
    slice: Slice
    behind: bool = False


_Work = tuple[tuple[Pattern, ...], Plan]
"""The patterns and the plan that many jobs share."""
_packed_last: tuple[_Work, bytes] | None = None


def _packed(job: DetectionJob) -> tuple[bytes, bytes]:
    """The patterns with their plan, and the rest of the job, for its tasks, without what only the driver needs.

    A worker reads a thousand patterns once, for the days that follow, too, and keeps what it has worked out of them.
    """
    global _packed_last
    work = job.patterns, job.plan
    if _packed_last is None or any(own is not last for own, last in zip(work, _packed_last[0], strict=True)):
        planned = tuple(
            replace(
                plan,
                clauses=tuple(replace(one, alternatives=one.kernel_orders, comparisons=()) for one in plan.clauses),
            )
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
    patterns, plan = _work(work)
    return replace(job, patterns=patterns, plan=plan)


def _detect(
    packed: Sequence[tuple[bytes, bytes]],
    steps: TaskSteps | None,
    ledger: str | None,
    tasks: int,
    task: tuple[int, _Part],
    attempt: int,
) -> DetectedSlice:
    place, part = task
    job = _unpacked(*packed[part.job])
    limits = SliceLimits(job.limits)
    if ledger is not None and not part.behind:
        names = [pattern.name for pattern in job.patterns]
        limits.ledger = Ledger(ledger, names, part.job * len(names), tasks, place)
    patterns = tuple(pattern for pattern in job.patterns if can_pend(pattern)) if part.behind else job.patterns
    columns = without_composed(job.directory.columns or MATCHES_SCHEMA)
    paths: dict[pa.Schema, str] = {}
    writers: dict[pa.Schema, pq.ParquetWriter] = {}
    constants = {
        "pattern_set": job.pattern_set,
        "final_day": job.final_day,
        "pattern_version": job.pattern_set_version,
    }
    partitions: dict[str, set[str]] = {}
    waiting: dict[str, Boundary] = {}
    summaries: dict[str, PartialSummary] = {}
    profiler = OutputProfiler(pattern for pattern in patterns if not has_output_policy(pattern))
    # Of what is not final only the number is asked for, and of what waits in partitions where it is.
    located = {p.name for p in patterns if part.behind and counts_in_partitions(p)}
    hidden = {p.name for p in patterns if part.behind and not job.end_of_stream and not has_output_policy(p)}
    with ExitStack() as stack:

        def sink(pattern: Pattern, batch: pa.RecordBatch) -> None:
            if pattern.name in located:
                found = pc.unique(batch.column("partition")).drop_null().to_pylist()
                partitions.setdefault(pattern.name, set()).update(found)
                first = first_last_event(batch)
                waiting[pattern.name] = min(first, waiting.get(pattern.name, first))
                if pattern.name in hidden:
                    return
            if pattern.summary is not None and not has_output_policy(pattern):
                summaries.setdefault(pattern.name, PartialSummary(pattern)).add_rows(batch)
                return
            profiler.add_rows(pattern.name, batch)
            undecided = has_output_policy(pattern)
            schema, directory = (CANDIDATES_SCHEMA, job.candidates) if undecided else (columns, job.directory)
            if schema not in writers:  # a slice without a match writes no file
                assert directory is not None, "a job of patterns with OUTPUT or CONSUME has a directory for candidates"
                paths[schema] = directory.file(part.number, attempt)
                writers[schema] = stack.enter_context(
                    open_data_file(paths[schema], schema, dictionaries=REPEATING_IN_MATCHES)
                )
            arrays = [
                pa.repeat(pa.scalar(constants[field.name], field.type), batch.num_rows)
                if field.name in constants
                else in_type(batch.column(field.name), field.type)
                for field in schema
            ]
            writers[schema].write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))

        matches = dict.fromkeys((pattern.name for pattern in patterns), 0)
        nodes: list[NodeCounts] = []
        limited: dict[str, Kind] = {}
        routes: dict[str, tuple[Route, ...]] = {}
        rows = before = 0
        told = time.monotonic()

        def tell(done: int, _: int) -> None:
            nonlocal told
            if steps is not None and time.monotonic() - told > _TELL_S:
                told = time.monotonic()
                steps.tell(place, before + done)

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
                limits=limits,
            )
            for name, kind in result.limited.items():
                if job.then.get(name) == "fail" and not part.behind:
                    raise LimitExceeded(name, job.limits[name].named(kind), str(job.final_day))
            limited.update(result.limited)
            summaries |= result.summaries
            before += len(members)
            matches.update(result.matches)
            nodes += result.metrics.nodes
            routes |= result.metrics.routes
            rows += events.num_rows
    if steps is not None:
        steps.tell(place, steps.each)
    return DetectedSlice(
        written(paths[columns]) if columns in paths else None,
        paths.get(CANDIDATES_SCHEMA),
        matches,
        tuple(nodes),
        rows,
        profiler.profiles(),
        {name: tuple(sorted(found)) for name, found in partitions.items()},
        waiting,
        limited,
        {name: summary.to_json() for name, summary in summaries.items() if name not in limited},
        routes,
    )


_TELL_S = 0.2
"""Seconds after which a task says how many patterns it has done."""
