"""The detection of a day: the matches of a pattern set that become final on it, and what waits when it is over."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cep_pipeline.detection.limits import Limits
from cep_pipeline.detection.matches import UTC_MICROSECONDS
from cep_pipeline.detection.mechanisms import choose_mechanisms
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.events.columns import ARROW_TYPES
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.pipeline.configuration import PatternSet
from cep_pipeline.pipeline.day_work import DayWork, DetectedDay
from cep_pipeline.pipeline.statistics import PublishedEvents, day_before
from cep_pipeline.planning import Plan
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.slices.ownership import (
    LookBack,
    can_pend,
    counts_in_partitions,
    look_back,
    look_backs,
    waits_for_later_events,
)
from cep_pipeline.slices.prepared import Boundary
from cep_pipeline.spark.keeping import CarryState
from cep_pipeline.spark.partitions import EarlierEvents, Gathering, PartitionedEvents
from cep_pipeline.spark.slicing import (
    Pieces,
    RowGroup,
    Slice,
    cut,
    first_read,
    instant_before,
    slices_between,
    types_in,
)
from cep_pipeline.statistics import partial_statistics
from cep_pipeline.statistics.estimate import snapshot_of
from cep_pipeline.storage import DataDirectory, digest_of, folder_name, free_bytes
from cep_pipeline.warehouse.records import EventsSnapshot, MatchesFingerprint
from cep_pipeline.warehouse.units import Draft

if TYPE_CHECKING:
    from cep_pipeline.spark.detection import DetectionJob, DetectionResult
    from cep_pipeline.spark.session import SparkSession


@dataclass(frozen=True)
class DayInputs:
    """The inputs of the detection of a pattern set on a day.

    `events` reach back as far as the whole pattern set needs. `carried` is what the day before hands on, as it is
    recorded, and `carry_in` what of it is about patterns as they are now. `end_of_stream` is True where the stream ends
    with the day and that matters to the pattern set.
    """

    pattern_set: PatternSet
    events: DayEvents
    carried: Mapping[str, Any]
    carry_in: CarryState
    end_of_stream: bool

    @classmethod
    def of(cls, work: DayWork, pattern_set: PatternSet, last: bool) -> DayInputs:
        """Pin the events; the `last` day ends the stream."""
        name, tables = pattern_set.name, work.tables
        carried = tables.matches_carry_in(name, work.day)
        same: set[str] = set()
        if carried and carried.get("pattern_set_version") != pattern_set.version:
            earlier = [unit for unit in tables.matches_days(name) if unit.final_day < work.day]
            known = max(earlier, key=lambda unit: unit.final_day).fingerprint.patterns
            same = {pattern for pattern, _ in known.items() & pattern_set.pattern_versions.items()}
        return cls(
            pattern_set,
            pin_events(work, pattern_set),
            carried,
            CarryState.from_json(carried, pattern_set.version, same),
            last and waits_at_the_end(pattern_set),
        )

    def fingerprint(self, work: DayWork, gathered: frozenset[date | None]) -> MatchesFingerprint:
        """Return the fingerprint of the matches of the day.

        `gathered` are the first days of the events that were gathered by partition.
        """
        first_days = {self.events.first_day, *gathered}
        return self.events.snapshot.matches_fingerprint(
            self.pattern_set.version,
            None if None in first_days else min(filter(None, first_days)),  # None: the beginning of the stream
            work.day,
            carry_in=digest_of(self.carried),
            end_of_stream=self.end_of_stream,
            patterns=self.pattern_set.pattern_versions,
        )


def with_composed(spark: SparkSession, work: DayWork, inputs: DayInputs, result: DetectionResult) -> DetectionResult:
    """Add to what was detected on a day the matches of the patterns that compose others."""
    from cep_pipeline.spark.composing import ComposingJob, compose_day

    pattern_set, events = inputs.pattern_set, inputs.events
    return compose_day(
        spark,
        ComposingJob(
            **_of_set(work, inputs, pattern_set.composing),
            carry_in=inputs.carry_in,
            row_groups=events.row_groups,
            start=events.start,
            end=work.end,
        ),
        result,
    )


@dataclass(frozen=True)
class PreparedDay:
    """A day that is ready to be detected: its job and slices, and what comes behind them.

    `first_days` are those of the events that were gathered by partition.
    """

    job: DetectionJob
    slices: Sequence[Slice]
    behind: Slice
    first_days: frozenset[date | None]

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        work: DayWork,
        pattern_set: PatternSet,
        plan: Plan,
        inputs: DayInputs,
        scratch: DataDirectory,
    ) -> PreparedDay:
        """Prepare the detection of the patterns of a set that compose no others."""
        from cep_pipeline.spark.detection import DetectionJob

        patterns = pattern_set.patterns
        events = inputs.events
        groups = events.row_groups
        gathered = list(_partitioned(spark, work, patterns, events, inputs.carry_in, scratch))
        slices: list[Slice] = []
        of_set = _of_set(work, inputs, patterns)
        # Without events of its own a day has no new matches, but those that waited become final.
        if events.events_of(work) or any(map(can_pend, patterns)):
            slices = cut_day(spark, work, events, patterns, plan, of_set["limits"])
        behind = slices_between(groups, [work.end, None], events.look_back)
        job = DetectionJob(
            **of_set,
            carry_in=inputs.carry_in.part([pattern.name for pattern in patterns]),
            plan=plan,
            candidates=scratch,
            horizons_us={pattern.name: _horizon_us(work, pattern, events) for pattern in patterns},
            partitioned=tuple(source for source, _ in gathered),
        )
        return cls(
            job,
            slices,
            behind[0] if behind else Slice(work.end, None, (), events.look_back),
            frozenset(earlier.first_day for _, earlier in gathered),
        )


SHARE_OF_DISK = 0.5
"""The rows of one pattern on a slice may take this share of what is free, before they are compressed."""


def _of_set(work: DayWork, inputs: DayInputs, patterns: Sequence[Pattern]) -> dict[str, Any]:
    """The fields of `DayOfSet` for some patterns of a set on a day.

    Their limits are those of the configuration, and what the disk has left.
    """
    pattern_set = inputs.pattern_set
    free = free_bytes(work.tables.warehouse.location)
    most = None if free is None else int(free * SHARE_OF_DISK)
    return {
        "patterns": tuple(patterns),
        "pattern_set": pattern_set.name,
        "pattern_set_version": pattern_set.version,
        "final_day": work.day,
        "directory": work.tables.matches_directory(pattern_set.name, work.day, run_id=work.run_id),
        "mechanism": pattern_set.mechanism,
        "end_of_stream": inputs.end_of_stream,
        "limits": replace(pattern_set.limits.limits, max_bytes=most),
        "then": pattern_set.limits.then,
    }


def draft_detected(work: DayWork, detected: DetectedDay) -> list[Draft]:
    """Make the drafts of the matches and summaries of (pattern set, day), the matches first.

    What detecting them has shown is put into the statistics: the next day's are made with it.
    """
    tables, name = work.tables, detected.pattern_set
    observed = detected.observed.to_json() if detected.observed else None
    record = tables.draft_observed(name, work.day, observed, run_id=work.run_id)
    tables.drafts.statistics[name, work.day] = record
    matches = tables.draft_matches(
        name,
        work.day,
        detected.files,
        fingerprint=detected.fingerprint,
        carry_out=detected.carry_out,
        counts=detected.matches,
        pending=detected.pending,
        limited=detected.limited,
    )
    [pattern_set] = (one for one in work.pattern_sets if one.name == name)
    summaries = [
        PartialSummary.from_json(pattern, detected.summaries[pattern.name])
        for pattern in pattern_set.statements
        if pattern.name in detected.summaries
    ]
    drafted = tables.draft_summaries(
        name, work.day, summaries, version=pattern_set.version, fingerprint=detected.fingerprint, run_id=work.run_id
    )
    return [matches, *drafted]


def waits_at_the_end(pattern_set: PatternSet) -> bool:
    """Return True if matches of a pattern set may wait when a day is over, so that the end of the stream matters."""
    return any(map(can_pend, pattern_set.statements))


@contextmanager
def detection_scratch(work: DayWork, pattern_set: PatternSet) -> Iterator[DataDirectory]:
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
    for partition_by in dict.fromkeys(pattern.partition_by for pattern in counting):
        members = [pattern for pattern in counting if pattern.partition_by == partition_by]
        source = PartitionedEvents(partition_by, look_back(members).positions, own, events.start[0])
        files = work.tables.events_files(None, work.day, snapshot=events.snapshot)
        gathering = Gathering(
            source,
            columns_needed(members),
            work.tables.events_schema,
            [(file.day, file.path) for file in files if file.day < work.day],
            work.day,
            scratch,
            [key for pattern in members for key in carry_in.pending.get(pattern.name, ())],
        )
        what = f"{work.stream.name}: events before {work.day} by {', '.join(partition_by)}"
        (earlier,) = run_tasks(spark, gathering.run, [0], what=what)
        yield replace(source, earlier=earlier.row_groups), earlier


def _horizon_us(work: DayWork, pattern: Pattern, events: DayEvents) -> int | None:
    """The timestamp of the earliest event that a match after the day may hold, None: of any."""
    if pattern.window.time_us is not None:
        return work.end[0] - pattern.window.time_us
    if pattern.partition_by:
        return None
    assert pattern.window.events is not None
    return instant_before(events.row_groups, pattern.window.events - 1)


def unplanned(pattern_set: PatternSet) -> Plan:
    """A plan without statistics, for days on which there are no events to count."""
    patterns, chosen = pattern_set.patterns, choose_mechanisms(pattern_set.patterns, pattern_set.mechanism)
    fields = [("timestamp", UTC_MICROSECONDS), ("seq", pa.int64())]
    fields += [(name, ARROW_TYPES[kind]) for name, kind in patterns[0].attributes]
    nothing = snapshot_of(partial_statistics(patterns, pa.schema(fields).empty_table()))
    return plan_for(patterns, nothing, chosen, planner="trivial")


@dataclass(frozen=True)
class DayEvents:
    """The published events that a day's detection looks at, pinned to one snapshot.

    `first_day` is the first day that the look-back reaches, None: the beginning of the stream, where there are too few
    events. From the point `start` on the day owns matches. It lies before the day where matches wait for later events
    and days are not published: those that have become final on such days belong to the next one that is. The row groups
    are those of the look-back and the day, in stream order. Slices of the day read as far before their start as
    `look_back` says. `types` are those of the events.
    """

    snapshot: EventsSnapshot
    first_day: date | None
    start: Boundary
    row_groups: tuple[RowGroup, ...]
    look_back: LookBack
    types: frozenset[str | None]

    def events_of(self, work: DayWork) -> int:
        """Number of events of the day itself."""
        published = self.snapshot.days.get(work.day)
        return published.events if published is not None else 0


def pin_events(work: DayWork, pattern_set: PatternSet) -> DayEvents:
    """Pin the day's events and the look-back before it that the longest window of a pattern set reaches."""
    statements = pattern_set.statements
    reach = look_back(pattern_set.patterns)
    published = PublishedEvents.pin(work.tables, work.stream.schema.timezone)
    snapshot, begun = published.snapshot, work.day
    earlier = day_before(work.day, snapshot)
    if earlier is not None and any(map(waits_for_later_events, statements)):
        begun = earlier + timedelta(days=1)
    start = work.day_start(begun)
    first_days = [published.first_day(begun, start[0], reach)]
    for pattern in statements:
        day: date | None = begun
        for distance in look_backs(pattern) if pattern.composes else ():
            day = published.first_day(day, work.day_start(day)[0], distance) if day is not None else None
        first_days.append(day)
    first_day = None if None in first_days else min(filter(None, first_days))
    row_groups = published.row_groups(first_day, work.day)
    types = types_in(statements[0].type_attribute, row_groups)
    return DayEvents(snapshot, first_day, start, tuple(row_groups), reach, types)


def cut_day(
    spark: SparkSession,
    work: DayWork,
    events: DayEvents,
    patterns: Sequence[Pattern],
    plan: Plan,
    limits: Limits,
) -> list[Slice]:
    """Cut the day, from `events.start` on, into slices of about equal work (`slices_of_a_day`)."""
    from cep_pipeline.spark.detection import estimated_work
    from cep_pipeline.spark.tasks import cores_of

    rows, start, end = events.events_of(work), events.start, work.end
    needed = events.row_groups[first_read(events.row_groups, start, events.look_back) :]
    estimated = again = None
    total, looked_again = float(rows), 0.0
    if rows < LEAST_ROWS:  # it is over sooner than its events have been looked at
        pieces = Pieces.even(needed)
    else:
        pieces = Pieces.read(needed)
        estimated, again = estimated_work(patterns, plan, pieces, limits)
        begins = pieces.times_us[:-1]
        owned = (begins >= start[0]) & (begins < end[0])
        total, looked_again = float(estimated[owned].sum()), float(again[owned].mean()) if owned.any() else 0.0
    configured = work.settings.slices_per_core
    count = slices_of_a_day(configured, len(patterns), total, rows, cores_of(spark), looked_again)
    return cut(pieces, start=start, end=end, look_back=events.look_back, count=count, work=estimated, again=again)


COST_OF_A_PATTERN = 50_000
"""Time to begin with a pattern on a slice (0.25 ms), in events and partial matches that take as long."""


WORK_OF_A_SLICE = 50_000_000
"""Estimated events and partial matches that are worth a slice of their own, on whatever machine: parts of a second."""
LEAST_ROWS = 10_000
"""Fewer events are not worth a slice, whatever is expected of them; a day of fewer is cut by its events alone."""


def slices_of_a_day(
    configured: int, patterns: int, estimated: float, rows: int, parallelism: int, again: float = 0.0
) -> int:
    """Return the number of slices of a day: by its work, and at least some for each core that is known.

    A cluster that is busy, or is just beginning, shows few cores. Its day is cut by work all the same, so that all
    cores find tasks once they are there. Each core that is known (`parallelism`) gets so many slices as are
    `configured`. `patterns` is their number, `estimated` counts events and partial matches of the day, `rows` its
    events. `again` is the estimated work of the look-back of a slice: all of them together do at most twice the work of
    the day, but for the slices that each core gets.

    Examples
    --------
    >>> [slices_of_a_day(3, 10, estimated, 20_000_000, 2) for estimated in (1e6, 1e9, 1e10, 1e20)]
    [6, 20, 200, 2000]
    >>> slices_of_a_day(3, 10, 1e10, 20_000_000, 2, again=2e8)
    50
    """
    by_work = estimated / max(WORK_OF_A_SLICE, patterns * COST_OF_A_PATTERN, again)
    return max(parallelism * configured, math.ceil(min(by_work, rows / LEAST_ROWS)))
