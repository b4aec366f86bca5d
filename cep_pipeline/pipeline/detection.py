"""The detection of a day: the matches of a pattern set that become final on it, and what waits when it is over."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from cep_pipeline.detection.limits import Limits
from cep_pipeline.detection.mechanisms import choose_mechanisms
from cep_pipeline.detection.output_policy import has_output_policy
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.errors import DamagedError, InputError
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.pipeline.configuration import PatternSet, patterns_of
from cep_pipeline.pipeline.day_work import DayWork, DetectedDay
from cep_pipeline.planning import Plan
from cep_pipeline.slices.events_input import columns_needed
from cep_pipeline.slices.ownership import (
    LookBack,
    can_pend,
    counts_in_partitions,
    is_held_up,
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
    read_row_groups,
    slices_between,
    types_in,
)
from cep_pipeline.statistics.observed import Observed
from cep_pipeline.storage import DataDirectory, digest_of, folder_name, free_bytes
from cep_pipeline.version import IDS_VERSION, VERSION
from cep_pipeline.warehouse.drafts import Draft
from cep_pipeline.warehouse.fingerprints import MatchesFingerprint
from cep_pipeline.warehouse.records import EventsSnapshot, PublishedMatches

if TYPE_CHECKING:
    from cep_pipeline.spark.detection import DetectionJob, DetectionResult, WorkEstimate
    from cep_pipeline.spark.session import SparkSession


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DayInputs:
    """The inputs of the detection of a pattern set on a day, and what they leave as it is published.

    `events` reach back as far as the whole pattern set needs. `carried` is what the day before hands on, as it is
    recorded, and `carry_in` what of it is about patterns as they are now. `end_of_stream` is True where the stream ends
    with the day and that matters to the pattern set. `made_with` is that of `MatchesFingerprint`. `published` are the
    matches of the day, where patterns that are unchanged may be kept, and `unchanged` the patterns of which detecting
    the day again would give what is published.
    """

    pattern_set: PatternSet
    events: DayEvents
    carried: Mapping[str, Any]
    carry_in: CarryState
    end_of_stream: bool
    made_with: str
    published: PublishedMatches | None = None
    unchanged: frozenset[str] = frozenset()

    @classmethod
    def of(cls, work: DayWork, pattern_set: PatternSet, last: bool) -> DayInputs:
        """Pin the events, and compare the inputs with those that the published matches were made from.

        The `last` day ends the stream.
        """
        name, tables = pattern_set.name, work.tables
        carried = tables.matches_carry_in(name, work.day)
        limits = pattern_set.limits.model_dump(mode="json")
        inputs = cls(
            pattern_set,
            pin_events(work, [pattern_set]),
            carried,
            CarryState.from_json(carried, pattern_set.version),
            last and waits_at_the_end(pattern_set),
            digest_of([VERSION, IDS_VERSION, work.stream.schema.digest, limits]),
        )
        of_another_version = bool(carried) and carried.get("pattern_set_version") != pattern_set.version
        units = tables.matches_days(name) if work.keeps_unchanged or of_another_version else []
        if of_another_version:
            before = max((unit for unit in units if unit.final_day < work.day), key=lambda unit: unit.final_day)
            known = before.fingerprint.patterns.items() & pattern_set.pattern_versions.items()
            same = {pattern for pattern, _ in known}
            inputs = replace(inputs, carry_in=CarryState.from_json(carried, pattern_set.version, same))
        published = next((unit for unit in units if unit.final_day == work.day), None)
        if not work.keeps_unchanged or published is None or work.drafted is not None:
            return inputs
        return replace(inputs, published=published, unchanged=inputs._unchanged(work, published))

    def _unchanged(self, work: DayWork, published: PublishedMatches) -> frozenset[str]:
        was, events = published.fingerprint, self.events.snapshot
        if (
            published.note  # it was rolled back
            or was.made_with != self.made_with
            or was.events != events.digests(was.events_from, work.day)
            or work.tables.is_damaged(self.pattern_set.name, work.day)
        ):
            return frozenset()
        before = max((day for day in events.days if day < work.day), default=None)
        carried = self.carry_in.digests()

        def unchanged(pattern: Pattern) -> bool:
            name = pattern.name
            return (
                was.patterns.get(name) == self.pattern_set.pattern_versions[name]
                and was.carried.get(name) == carried.get(name)
                and name not in published.limited
                and (was.end_of_stream == self.end_of_stream or not can_pend(pattern))
                # What becomes final on days that are not published belongs to the day; in one event nothing waits.
                and (
                    before is None
                    or before in was.events
                    or not waits_for_later_events(pattern)
                    or pattern.window.events == 1
                )
            )

        return frozenset(pattern.name for pattern in self.pattern_set.patterns if unchanged(pattern))

    def fingerprint(self, work: DayWork, gathered: frozenset[date | None], kept: frozenset[str]) -> MatchesFingerprint:
        """Return the fingerprint of the matches of the day.

        `gathered` are the first days of the events that were gathered by partition. Of the patterns that were `kept`,
        and so not detected, only the record says how far back their partitions were read.
        """
        first_days = {self.events.first_day, *gathered}
        patterns = self.pattern_set.patterns
        if self.published and any(counts_in_partitions(pattern) and pattern.name in kept for pattern in patterns):
            first_days.add(self.published.fingerprint.events_from)
        if any(counts_in_partitions(one) or is_held_up(one) for one in self.pattern_set.composing):
            first_days.add(None)
        return self.events.snapshot.matches_fingerprint(
            self.pattern_set.version,
            None if None in first_days else min(filter(None, first_days)),  # None: the beginning of the stream
            work.day,
            carry_in=digest_of(self.carried),
            end_of_stream=self.end_of_stream,
            patterns=self.pattern_set.pattern_versions,
            carried=self.carry_in.digests(),
            made_with=self.made_with,
        )


def nothing_detected(pattern_set: PatternSet) -> DetectionResult:
    """The result for a day on which all patterns of a set are kept."""
    from cep_pipeline.spark.detection import DetectionResult

    return DetectionResult((), {}, (), 0, Observed(), CarryState(pattern_set.version))


def with_kept(
    spark: SparkSession, work: DayWork, inputs: DayInputs, kept: frozenset[str], result: DetectionResult
) -> DetectionResult:
    """Add to what was detected on a day what is published of the patterns that are kept."""
    from cep_pipeline.spark.detection import copy_matches

    pattern_set, published = inputs.pattern_set, inputs.published
    name = pattern_set.name
    assert published is not None
    files = copy_matches(
        spark,
        work.tables.matches_files(name, work.day),
        kept,
        work.tables.matches_directory(name, work.day, run_id=work.run_id),
        pattern_set.version,
        what=f"{work.stream.name}: matches of {name} on {work.day} that stay as they are",
    )
    known = work.tables.matches_carry_in(name, work.day + timedelta(days=1))
    carry_out = CarryState.from_json(known, pattern_set.version, kept).part(kept)
    matches = {**result.matches, **{one: published.counts.get(one, 0) for one in kept}}
    pending = {**result.pending, **{one: number for one, number in published.pending.items() if one in kept}}
    in_order = [pattern.name for pattern in pattern_set.patterns]
    summarized = {one.name for one in pattern_set.patterns if one.summary is not None and one.name in kept}
    summaries = {**result.summaries, **work.tables.summaries_of(name, work.day, summarized)}
    return replace(
        result,
        files=(*result.files, *files),
        matches={one: matches[one] for one in in_order},
        carry_out=result.carry_out | carry_out,
        pending={one: pending[one] for one in in_order if one in pending},
        summaries={one: summaries[one] for one in in_order if one in summaries},
    )


def with_composed(spark: SparkSession, work: DayWork, inputs: DayInputs, result: DetectionResult) -> DetectionResult:
    """Add to what was detected on a day the matches of the patterns that compose others."""
    from cep_pipeline.spark.composing import ComposingJob, compose_day

    pattern_set, events = inputs.pattern_set, inputs.events
    composing = pattern_set.composing
    before: list[str] = []
    if any(counts_in_partitions(one) or is_held_up(one) for one in composing):
        known = {group.path for group in events.row_groups}
        files = work.tables.events_files(None, work.day, snapshot=events.snapshot)
        before = [file.path for file in files if file.path not in known]
    return compose_day(
        spark,
        ComposingJob(
            pattern_set=pattern_set.name,
            pattern_set_version=pattern_set.version,
            final_day=work.day,
            directory=work.tables.matches_directory(pattern_set.name, work.day, run_id=work.run_id),
            row_groups=events.row_groups,
            earlier_files=tuple(before),
            events_schema=work.tables.events_schema,
            start=events.start,
            end=work.end,
            end_of_stream=inputs.end_of_stream,
            mechanism=pattern_set.mechanism,
            limits=_limits(work, pattern_set, composing),
            then={pattern.name: pattern_set.limits_of(pattern.name).then for pattern in composing},
        ),
        composing,
        result,
        inputs.carry_in,
    )


def observed_before(work: DayWork, pattern_set: PatternSet, kept: frozenset[str]) -> Observed:
    """The part of what is recorded of a day's detection that is about patterns that are kept."""
    try:
        record = work.tables.pin_statistics(work.day).of(pattern_set.name, work.day)
        if record is None or record.observed is None:
            return Observed()
        observed = Observed.from_json(record.observed)
    except (DamagedError, InputError) as error:
        logger.warning("%s; what detection counted of patterns that are kept is lost", error)
        return Observed()
    return Observed(
        tuple(one for one in observed.observations if one.pattern in kept),
        tuple(one for one in observed.profiles if one.pattern in kept),
    )


@dataclass(frozen=True)
class PreparedDay:
    """A day that is ready to be detected: its job and slices, and what comes behind them.

    `first_days` are those of the events that were gathered by partition. The events that are read span `read_us`.
    """

    job: DetectionJob
    slices: Sequence[Slice]
    behind: Slice
    first_days: frozenset[date | None]
    read_us: int

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        work: DayWork,
        pattern_set: PatternSet,
        plan: Plan,
        inputs: DayInputs,
        kept: frozenset[str],
        scratch: DataDirectory,
    ) -> PreparedDay:
        """Prepare the detection of the patterns of a set that are not kept."""
        from cep_pipeline.spark.detection import DetectionJob, WorkEstimate

        patterns = pattern_set.patterns
        carry_in = inputs.carry_in.part([pattern.name for pattern in patterns])
        events = replace(inputs.events, look_back=look_back(patterns)) if kept else inputs.events
        groups = events.row_groups
        gathered = list(_partitioned(spark, work, patterns, events, carry_in, scratch))
        slices: list[Slice] = []
        limits = _limits(work, pattern_set, patterns)
        # Without events of its own a day has no new matches, but those that waited become final.
        if events.events_of(work) or any(map(can_pend, patterns)):
            slices = cut_day(spark, work, events, WorkEstimate(patterns, plan, limits))
        behind = slices_between(groups, [work.end, None], events.look_back)
        job = DetectionJob(
            patterns=patterns,
            plan=plan,
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
            end_of_stream=inputs.end_of_stream,
            limits=limits,
            then={pattern.name: pattern_set.limits_of(pattern.name).then for pattern in patterns},
            compressed=work.tables.compressed_directory(pattern_set.name, work.day, run_id=work.run_id),
        )
        return cls(
            job,
            slices,
            behind[0] if behind else Slice(work.end, None, (), events.look_back),
            frozenset(earlier.first_day for _, earlier in gathered),
            max((group.last[0] for group in groups), default=0) - min((group.first[0] for group in groups), default=0),
        )


SHARE_OF_DISK = 0.5
"""The rows of one pattern may take this share of what is free, before they are compressed."""


def _limits(work: DayWork, pattern_set: PatternSet, patterns: Sequence[Pattern]) -> dict[str, Limits]:
    """The limits of patterns of a set on a day: those of the configuration, and what the disk has left."""
    free = free_bytes(work.tables.warehouse.location)
    most = None if free is None else int(max(free, 0) * SHARE_OF_DISK)
    found = {pattern.name: pattern_set.limits_of(pattern.name).limits for pattern in patterns}
    return {name: replace(limits, max_bytes=most) for name, limits in found.items()}


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


KEPT_PATTERNS = "kept patterns"
"""Name of the count of the patterns of a set that were not detected, since their matches would be the same."""
MOST_ORDERS_PUBLISHED = 64
"""Temporal orders of each clause's matches that are kept with a day."""


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
        contiguous = any(pattern.strategy.crosses_partitions for pattern in members)
        source = PartitionedEvents(partition_by, look_back(members).positions, contiguous, own, events.start[0])
        files = work.tables.events_files(None, work.day, snapshot=events.snapshot)
        gathering = Gathering(
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
    from cep_pipeline.spark.statistics import no_statistics

    chosen = choose_mechanisms(pattern_set.patterns, pattern_set.mechanism)
    return plan_for(pattern_set.patterns, no_statistics(pattern_set.patterns), chosen, planner="trivial")


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


def pin_events(work: DayWork, pattern_sets: Sequence[PatternSet]) -> DayEvents:
    """Pin the day's events and the look-back before it that the longest window of the pattern sets reaches."""
    statements = [pattern for pattern_set in pattern_sets for pattern in pattern_set.statements]
    reach = look_back(patterns_of(pattern_sets))
    snapshot = work.tables.pin_events()
    begun = work.day
    earlier = [day for day in snapshot.days if day < work.day]
    if earlier and any(map(waits_for_later_events, statements)):
        begun = max(earlier) + timedelta(days=1)

    def back(day: date, distance: LookBack) -> date | None:
        """The day that lies a distance before the beginning of a day; None: before the beginning of the stream."""
        zone, by_time = work.stream.schema.timezone, day
        while day_bounds(by_time, zone)[0] > day_bounds(day, zone)[0] - distance.time_us:
            by_time -= timedelta(days=1)
        by_positions = snapshot.day_of_positions(day, distance.positions)
        return None if by_positions is None else min(by_time, by_positions)

    first_days = [back(begun, reach)]
    for pattern in statements:
        day: date | None = begun
        for distance in look_backs(pattern) if pattern.composes else ():
            day = back(day, distance) if day is not None else None
        first_days.append(day)
    first_day = None if None in first_days else min(filter(None, first_days))
    start = work.day_start(begun)
    files = work.tables.events_files(first_day, work.day, snapshot=snapshot)
    paths = [file.path for file in files]
    row_groups = read_row_groups(paths, work.tables.events_schema)
    types = types_in(statements[0].type_attribute, row_groups)
    return DayEvents(snapshot, first_day, start, tuple(row_groups), reach, types)


def cut_day(spark: SparkSession, work: DayWork, events: DayEvents, weigh: WorkEstimate) -> list[Slice]:
    """Cut the day, from `events.start` on, into slices of about equal work (`slices_of_a_day`)."""
    from cep_pipeline.spark.tasks import cores_of

    rows, start, end = events.events_of(work), events.start, work.end
    needed = events.row_groups[first_read(events.row_groups, start, events.look_back) :]
    estimated = again = None
    total, looked_again = float(rows), 0.0
    if rows < LEAST_ROWS:  # it is over sooner than its events have been looked at
        pieces = Pieces.even(needed)
    else:
        pieces = weigh.pieces(needed)
        estimated, again = weigh(pieces)
        begins = pieces.times_us[:-1]
        owned = (begins >= start[0]) & (begins < end[0])
        total, looked_again = float(estimated[owned].sum()), float(again[owned].mean()) if owned.any() else 0.0
    configured = work.settings.slices_per_core
    count = slices_of_a_day(configured, len(weigh.patterns), total, rows, cores_of(spark), looked_again)
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
