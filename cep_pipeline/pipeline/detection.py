"""The detection of a day: the matches of a pattern set that become final on it, and what waits when it is over."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

from cep_pipeline.detection.mechanisms import choose_mechanisms
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.events.type_spells import TypeSpells
from cep_pipeline.patterns.pattern import Pattern, Strategy
from cep_pipeline.pipeline.configuration import PatternSet, patterns_of
from cep_pipeline.pipeline.day_work import DayWork, DetectedDay, Progress
from cep_pipeline.pipeline.plans import plan_of
from cep_pipeline.planning import Plan
from cep_pipeline.slices.candidates import Spans, final_instants
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.slices.ownership import LookBack, can_pend, counts_in_partitions, look_back, waits_for_later_events
from cep_pipeline.slices.prepared import Boundary
from cep_pipeline.spark.keeping import CarryState
from cep_pipeline.spark.partitions import EarlierEvents, GatheringTask, PartitionedEvents
from cep_pipeline.spark.slicing import (
    DayPart,
    RowGroup,
    Slice,
    cut,
    instant_before,
    parts_to_read,
    read_summaries,
    slices_between,
)
from cep_pipeline.storage import DataDirectory, digest_of, folder_name
from cep_pipeline.warehouse.records import EventsSnapshot, PlanRecord, PublishedMatches

if TYPE_CHECKING:
    from cep_pipeline.spark.session import SparkSession


def detect_day(
    spark: SparkSession,
    work: DayWork,
    pattern_set: PatternSet,
    plan: PlanRecord | None,
    progress: Progress | None = None,
    *,
    end_of_stream: bool = False,
) -> DetectedDay:
    """Detect the matches of a pattern set that become final on the day, by its plan.

    Parameters
    ----------
    plan
        None where there was nothing yet to plan by.
    end_of_stream
        Whether the stream ends with the day, so that all matches are final.
    """
    from cep_pipeline.spark.detection import DetectionJob, WorkEstimate, detect_slices

    end_of_stream = end_of_stream and waits_at_the_end(pattern_set)
    with work.timed(f"detect {pattern_set.name}") as counts, _scratch(work, pattern_set) as scratch:
        patterns = pattern_set.patterns
        events = pin_events(work, [pattern_set])
        carried = work.tables.matches_carry_in(pattern_set.name, work.day)
        carry_in = CarryState.from_json(carried, pattern_set.version)
        gathered = list(_partitioned(spark, work, patterns, events, carry_in, scratch))
        planned = plan_of(plan) if plan else _unplanned(pattern_set)
        reading = DayReading.of(work, events, patterns)
        slices: list[Slice] = []
        # Without events of its own a day has no new matches, but those that waited become final.
        if reading.parts and (events.events_of(work) or any(map(can_pend, patterns))):
            weigh = WorkEstimate(patterns, planned, events.row_groups)
            slices = cut_day(work, events, reading, spark.sparkContext.defaultParallelism, weigh, len(patterns))
        behind = slices_between(events.row_groups, [work.end, None], events.look_back)
        detected = detect_slices(
            spark,
            DetectionJob(
                patterns=patterns,
                plan=planned,
                pattern_set=pattern_set.name,
                pattern_set_version=pattern_set.version,
                final_day=work.day,
                directory=work.tables.matches_directory(pattern_set.name, work.day, run_id=work.run_id),
                mechanism=pattern_set.mechanism,
                candidates=scratch,
                carry_in=carry_in,
                horizons_us={pattern.name: _horizon_us(work, pattern, events) for pattern in patterns},
                reachable={
                    pattern.name: earlier.reachable
                    for source, earlier in gathered
                    for pattern in patterns
                    if counts_in_partitions(pattern) and pattern.partition_by == source.partition_by
                },
                partitioned=tuple(source for source, _ in gathered),
                end_of_stream=end_of_stream,
            ),
            slices,
            progress,
            behind=(behind[0] if behind else Slice(work.end, None, (), events.look_back)) if reading.behind else None,
        )
        counts.update(matches=sum(detected.matches.values()), slices=detected.slices)
        if reading.skipped_events:
            counts.update({SKIPPED_EVENTS: reading.skipped_events})
        first_days = {events.first_day, *(earlier.first_day for _, earlier in gathered)}
        fingerprint = events.snapshot.matches_fingerprint(
            pattern_set.version,
            None if None in first_days else min(filter(None, first_days)),  # None: the beginning of the stream
            work.day,
            carry_in=digest_of(carried),
            end_of_stream=end_of_stream,
        )
    return DetectedDay(
        pattern_set.name,
        detected.files,
        detected.matches,
        fingerprint,
        plan.version if plan is not None else None,
        detected.carry_out.to_json(),
        detected.pending,
        # Where only candidates were read, shares of what was read say nothing of the day.
        (replace(detected.observed, observations=()) if reading.skipped_events else detected.observed).shortened(
            MOST_ORDERS_PUBLISHED
        ),
    )


def publish_detected(work: DayWork, detected: DetectedDay) -> PublishedMatches:
    """Publish the matches of (pattern set, day), and what detecting them has shown for the next day's statistics."""
    with work.timed(f"publish {detected.pattern_set}") as counts:
        # Not with the matches in one commit: what is observed neither follows from the fingerprint nor changes it. But
        # before them, so that a run that dies in between leaves a day that is detected again.
        work.tables.publish_observed(
            detected.pattern_set, work.day, detected.observed.to_json() if detected.observed else None, lease=work.lease
        )
        published = work.tables.publish_matches(
            detected.pattern_set,
            work.day,
            detected.files,
            lease=work.lease,
            fingerprint=detected.fingerprint,
            carry_out=detected.carry_out,
            counts=detected.matches,
            pending=detected.pending,
        )
        counts.update(matches=published.matches)
    return published


SKIPPED_EVENTS = "skipped events"
"""Name of the count of the day's events that no task of its detection read."""
MOST_ORDERS_PUBLISHED = 64
"""Temporal orders of each clause's matches that are kept with a day."""


def waits_at_the_end(pattern_set: PatternSet) -> bool:
    """Return True if matches of a pattern set may wait when a day is over, so that the end of the stream matters."""
    return any(map(can_pend, pattern_set.patterns))


@contextmanager
def _scratch(work: DayWork, pattern_set: PatternSet) -> Iterator[DataDirectory]:
    """A folder for what is not published, removed at the end."""
    from cep_pipeline.storage import remove_scratch

    name = f"candidates-{work.stream.name}-{work.day}-{pattern_set.name}-{work.run_id}"
    scratch = DataDirectory(f"{work.tables.warehouse.scratch}/{folder_name(name)}", work.run_id)
    try:
        yield scratch
    finally:
        remove_scratch(scratch.location)


def _partitioned(
    spark: SparkSession,
    work: DayWork,
    patterns: Sequence[Pattern],
    events: DayEvents,
    carry_in: CarryState,
    scratch: DataDirectory,
) -> Iterator[tuple[PartitionedEvents, EarlierEvents]]:
    """Gather what windows read that count the events of a partition, once for each PARTITION BY among them."""
    from cep_pipeline.spark.tasks import run_tasks

    counting = [pattern for pattern in patterns if counts_in_partitions(pattern)]
    own = tuple(group for group in events.row_groups if group.last[0] >= events.start[0])
    for number, partition_by in enumerate(dict.fromkeys(pattern.partition_by for pattern in counting)):
        members = [pattern for pattern in counting if pattern.partition_by == partition_by]
        contiguous = any(pattern.strategy is Strategy.STRICT_CONTIGUITY for pattern in members)
        source = PartitionedEvents(partition_by, look_back(members).positions, contiguous, own, events.start[0])
        files = work.tables.events_files(None, work.day, snapshot=events.snapshot)
        gathering = GatheringTask(
            source,
            columns_needed(members),
            work.tables.events_schema,
            [(file.day, file.path) for file in files if file.day < work.day],
            work.day,
            scratch,
            [key for pattern in members for key in carry_in.pending.get(pattern.name, ())],
            any(map(has_output_policy, members)),
        )
        what = f"{work.stream.name}: events before {work.day} by {', '.join(partition_by)}"
        (earlier,) = run_tasks(spark, gathering.run, [number], what=what)
        yield replace(source, earlier=earlier.row_groups), earlier


def _horizon_us(work: DayWork, pattern: Pattern, events: DayEvents) -> int | None:
    """The timestamp of the earliest event that a match after the day may hold, None: of any."""
    if pattern.window.time_us is not None:
        return work.end[0] - pattern.window.time_us
    if pattern.partition_by:
        return None
    assert pattern.window.events is not None
    return instant_before(events.row_groups, pattern.window.events - 1)


def _unplanned(pattern_set: PatternSet) -> Plan:
    """A plan without statistics, for days on which there are no events to count."""
    from cep_pipeline.spark.statistics import no_statistics

    chosen = choose_mechanisms(pattern_set.patterns, pattern_set.mechanism)
    return plan_for(pattern_set.patterns, no_statistics(pattern_set.patterns), chosen, planner="trivial")


@dataclass(frozen=True)
class DayEvents:
    """The published events that a day's detection looks at, pinned to one snapshot.

    Attributes
    ----------
    snapshot
        The published days.
    first_day
        The first day that the look-back reaches, None: the beginning of the stream, where there are too few events.
    start
        The point from which on the day owns matches. It lies before the day where matches wait for later events and
        days are not published: those that have become final on such days belong to the next one that is.
    row_groups
        Those of the look-back and the day, in stream order.
    look_back
        How far before their start slices of the day read.
    summaries
        Those of the files of the row groups, in stream order.
    """

    snapshot: EventsSnapshot
    first_day: date | None
    start: Boundary
    row_groups: tuple[RowGroup, ...]
    look_back: LookBack
    summaries: tuple[TypeSpells, ...]

    def events_of(self, work: DayWork) -> int:
        """Number of events of the day itself."""
        published = self.snapshot.days.get(work.day)
        return published.events if published is not None else 0


def pin_events(work: DayWork, pattern_sets: Sequence[PatternSet]) -> DayEvents:
    """Pin the day's events and the look-back before it that the longest window of the pattern sets reaches."""
    reach = look_back(patterns_of(pattern_sets))
    snapshot = work.tables.pin_events()
    begun = work.day
    earlier = [day for day in snapshot.days if day < work.day]
    if earlier and any(map(waits_for_later_events, patterns_of(pattern_sets))):
        begun = max(earlier) + timedelta(days=1)
    start = work.day_start(begun)
    by_time = begun
    while day_bounds(by_time, work.stream.schema.timezone)[0] > start[0] - reach.time_us:
        by_time -= timedelta(days=1)
    by_positions = snapshot.day_of_positions(begun, reach.positions)
    first_day = None if by_positions is None else min(by_time, by_positions)
    files = work.tables.events_files(first_day, work.day, snapshot=snapshot)
    type_attribute = patterns_of(pattern_sets)[0].type_attribute
    row_groups, summaries = read_summaries((file.path for file in files), type_attribute)
    return DayEvents(snapshot, first_day, start, tuple(row_groups), reach, tuple(summaries))


@dataclass(frozen=True)
class DayReading:
    """The part of a day that its detection reads: matches can become final nowhere else (`slices/candidates.py`).

    Attributes
    ----------
    parts
        In stream order; none where the day cannot have a match.
    behind
        Whether matches of the day, or of earlier ones, may be final after it.
    skipped_events
        Events of the day in row groups that are not read.
    """

    parts: tuple[DayPart, ...]
    behind: bool
    skipped_events: int

    @classmethod
    def of(cls, work: DayWork, events: DayEvents, patterns: Sequence[Pattern]) -> DayReading:
        """Ask the summaries of the day's files."""
        groups, start, end = events.row_groups, events.start, work.end
        own = sum(group.rows for group in groups if start <= group.last)

        def parts_at(instants: Spans) -> list[DayPart]:
            return parts_to_read(groups, start, end, events.look_back, instants)

        instants = final_instants(patterns, events.summaries, lambda instants: _rows_of(parts_at(instants)) >= own)
        parts = parts_at(instants)
        return cls(tuple(parts), bool(instants) and int(instants.last[-1]) >= end[0], own - _rows_of(parts))


def _rows_of(parts: Iterable[DayPart]) -> int:
    return sum(group.rows for part in parts for group in part.row_groups)


def cut_day(
    work: DayWork,
    events: DayEvents,
    reading: DayReading,
    parallelism: int,
    weigh: Callable[[RowGroup], float],
    patterns: int = 1,
) -> list[Slice]:
    """Cut what is read of the day into slices of about equal work (`slices_of_a_day`)."""
    works = [sum(map(weigh, part.row_groups)) for part in reading.parts]
    rows = _rows_of(reading.parts) if reading.skipped_events else events.events_of(work)
    count = slices_of_a_day(work.settings.slices_per_core, patterns, sum(works), rows, parallelism)
    return [
        slice_
        for part, estimated in zip(reading.parts, works, strict=True)
        for slice_ in cut(
            events.row_groups,
            start=part.start,
            end=part.end,
            look_back=events.look_back,
            count=count if len(works) == 1 else max(round(count * estimated / sum(works)), 1),
            work=weigh,
        )
    ]


MANY_PATTERNS = 100
"""From so many in a set on they and their plan are a large part of what a process holds, and of what a slice costs."""


COST_OF_A_PATTERN = 50_000
"""So many events and partial matches take as long as to begin with a pattern on a slice: a quarter of a millisecond."""


WORK_OF_A_SLICE = 50_000_000
"""Estimated events and partial matches that are worth a slice of their own, on whatever machine: parts of a second."""
LEAST_ROWS = 10_000
"""Fewer events are not worth a slice, whatever is expected of them."""


def slices_of_a_day(configured: int, patterns: int, estimated: float, rows: int, parallelism: int) -> int:
    """Return the number of slices of a day: by its work, and at least some for each core that is known.

    A cluster that is busy, or is just beginning, shows few cores. Its day is cut by work all the same, so that all
    cores find tasks once they are there.

    Parameters
    ----------
    configured, patterns
        As `slices_of_a_core` takes them.
    estimated
        Estimated events and partial matches of the day.
    rows
        Events of the day.
    parallelism
        Cores that are known.

    Examples
    --------
    >>> [slices_of_a_day(3, 10, estimated, 20_000_000, 2) for estimated in (1e6, 1e9, 1e10, 1e20)]
    [6, 20, 200, 2000]
    """
    by_core = parallelism * slices_of_a_core(configured, patterns, estimated / parallelism)
    by_work = estimated / max(WORK_OF_A_SLICE, patterns * COST_OF_A_PATTERN)
    return max(by_core, math.ceil(min(by_work, rows / LEAST_ROWS)))


def slices_of_a_core(configured: int, patterns: int, work_of_a_core: float) -> int:
    """Return the number of slices of a day for each core: more of them balance better, but each pattern costs more.

    Parameters
    ----------
    configured
        The most, and so many for few patterns.
    patterns
        Patterns that each slice begins with.
    work_of_a_core
        Estimated events and partial matches of the day for each core.

    Examples
    --------
    >>> [slices_of_a_core(3, patterns, 120e6) for patterns in (1, 1000, 5000)]
    [3, 2, 1]
    """
    if patterns < MANY_PATTERNS:
        return configured
    return int(min(max(work_of_a_core / (patterns * COST_OF_A_PATTERN), 1), configured))
