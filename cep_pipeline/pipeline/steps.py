"""The steps of a day after its events are there: statistics, plan, detection, and what each publishes.

A step works on one day of one stream under the lease of that day. It reads what is published, and publishes last: a
step that fails leaves every published table as it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from cep_pipeline.detection.choice import explained_choice
from cep_pipeline.detection.detect import choose_mechanisms
from cep_pipeline.detection.extent import look_back_us, waits_for_later_events
from cep_pipeline.events.schema import SEQ_PER_DAY
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.pipeline.configuration import PatternSet, SparkSettings, Stream
from cep_pipeline.planning import Plan, plan_by_strategy
from cep_pipeline.spark.keeping import CarryState, refuse_undecidable
from cep_pipeline.spark.slicing import RowGroup, Slice, cut, read_row_groups
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.warehouse.data_files import DataDirectory
from cep_pipeline.warehouse.fingerprints import MatchesFingerprint, digest_of
from cep_pipeline.warehouse.layout import folder_name
from cep_pipeline.warehouse.records import EventsSnapshot, PlanRecord, PublishedDay, PublishedMatches, RunStep

if TYPE_CHECKING:
    from cep_pipeline.detection.prepared import Boundary
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.spark.preprocessing import IngestResult
    from cep_pipeline.spark.session import SparkSession
    from cep_pipeline.warehouse.leases import Lease
    from cep_pipeline.warehouse.stream_tables import StreamTables

Progress = Callable[[int, int], None]


@dataclass
class DayWork:
    """One day of one stream on its way through the steps of a run.

    Attributes
    ----------
    stream, tables, settings
        The configured stream, its tables, and how Spark is used.
    day, run_id, lease
        What is worked on, by which run, under which lease.
    steps
        The steps done so far, with their seconds and counts.
    validation
        Result document of the validation, once there is one.
    """

    stream: Stream
    tables: StreamTables
    settings: SparkSettings
    day: date
    run_id: str
    lease: Lease
    steps: list[RunStep] = field(default_factory=list)
    validation: Mapping[str, Any] | None = None

    @contextmanager
    def timed(self, name: str, counts: dict[str, int] | None = None) -> Iterator[dict[str, int]]:
        """Time a block as a step; what it puts into the dict are its counts."""
        counted = counts if counts is not None else {}
        begin = time.perf_counter()
        yield counted
        self.steps.append(RunStep(name, time.perf_counter() - begin, counted))

    @property
    def start(self) -> Boundary:
        """The point where the day begins."""
        return self.day_start(self.day)

    @property
    def end(self) -> Boundary:
        """The point where the next day begins."""
        after = self.day + timedelta(days=1)
        return day_bounds(self.day, self.stream.schema.timezone)[1], after.toordinal() * SEQ_PER_DAY

    def day_start(self, day: date) -> Boundary:
        """The point where a day of the stream begins."""
        return day_bounds(day, self.stream.schema.timezone)[0], day.toordinal() * SEQ_PER_DAY


def check_runnable(pattern_sets: Sequence[PatternSet]) -> None:
    """Refuse patterns that cannot be run day by day, before anything is read.

    Raises
    ------
    UnsupportedPattern
        No mechanism runs a pattern, or none does so over days.
    """
    for pattern_set in pattern_sets:
        choose_mechanisms(pattern_set.patterns)
        refuse_undecidable(pattern_set.patterns)
        look_back_us(pattern_set.patterns)


def publish_ingested(work: DayWork, result: IngestResult) -> PublishedDay:
    """Publish what ingestion made of a day: first the rejected rows, then the events."""
    with work.timed("publish events") as counts:
        work.tables.publish_quarantine(
            work.day, result.quarantine_files, lease=work.lease, fingerprint=result.fingerprint
        )
        published = work.tables.publish_events(
            work.day,
            result.events_files,
            lease=work.lease,
            fingerprint=result.fingerprint,
            carry_out=result.carry_out,
        )
        counts.update(events=published.events, rejected=published.rejected)
    return published


@dataclass(frozen=True)
class DayEvents:
    """The published events that a day's detection looks at, pinned to one snapshot.

    `start` is the point from which on the day owns matches. It lies before the day where matches wait for later events
    and days are not published: those that have become final on such days belong to the next one that is.
    """

    snapshot: EventsSnapshot
    first_day: date
    start: Boundary
    row_groups: tuple[RowGroup, ...]
    look_back_us: int

    def events_of(self, work: DayWork) -> int:
        """Number of events of the day itself."""
        published = self.snapshot.days.get(work.day)
        return published.events if published is not None else 0


def pin_events(work: DayWork, pattern_sets: Sequence[PatternSet]) -> DayEvents:
    """Pin the day's events and the look-back before it that the longest window of the pattern sets reaches."""
    back_us = max(look_back_us(pattern_set.patterns) for pattern_set in pattern_sets)
    snapshot = work.tables.pin_events()
    first_day = work.day
    earlier = [day for day in snapshot.days if day < work.day]
    if earlier and any(map(waits_for_later_events, _patterns(pattern_sets))):
        first_day = max(earlier) + timedelta(days=1)
    start = work.day_start(first_day)
    while day_bounds(first_day, work.stream.schema.timezone)[0] > start[0] - back_us:
        first_day -= timedelta(days=1)
    files = work.tables.events_files(first_day, work.day, snapshot=snapshot)
    return DayEvents(snapshot, first_day, start, tuple(read_row_groups(file.path for file in files)), back_us)


def _patterns(pattern_sets: Sequence[PatternSet]) -> list[Pattern]:
    return [pattern for pattern_set in pattern_sets for pattern in pattern_set.patterns]


def cut_day(
    work: DayWork, events: DayEvents, parallelism: int, weigh: Callable[[RowGroup], float], start: Boundary
) -> list[Slice]:
    """Cut the day, from `start` on, into slices of about equal work, some for each core."""
    return cut(
        events.row_groups,
        start=start,
        end=work.end,
        look_back_us=events.look_back_us,
        count=parallelism * work.settings.slices_per_core,
        work=weigh,
    )


def estimate_day(
    spark: SparkSession, work: DayWork, pattern_sets: Sequence[PatternSet], progress: Progress | None = None
) -> StatisticsSnapshot:
    """Estimate the statistics of the day for all pattern sets in one pass, and publish them with each."""
    from cep_pipeline.spark.statistics import estimate_over_slices

    with work.timed("statistics") as counts:
        events = pin_events(work, pattern_sets)
        slices = cut_day(work, events, spark.sparkContext.defaultParallelism, lambda group: group.rows, work.start)
        snapshot = estimate_over_slices(spark, _patterns(pattern_sets), slices, progress=progress)
        for pattern_set in pattern_sets:
            work.tables.publish_statistics(pattern_set.name, work.day, snapshot.to_json(), lease=work.lease)
        counts.update(events=snapshot.events)
    return snapshot


def published_statistics(work: DayWork, pattern_set: PatternSet) -> StatisticsSnapshot | None:
    """The day's published statistics of a pattern set, None where there are none, or only of other patterns."""
    content = work.tables.read_statistics(pattern_set.name, work.day)
    if content is None:
        return None
    snapshot = StatisticsSnapshot.from_json(content, f"statistics of {work.day}")
    return snapshot if snapshot.covers(pattern_set.patterns) else None


def plan_day(work: DayWork, pattern_set: PatternSet, snapshot: StatisticsSnapshot) -> PlanRecord:
    """The current plan of a pattern set; one is made only where there is none, or for other patterns."""
    with work.timed("plan"):
        return current_plan(work, pattern_set) or record_plan(
            work.tables, pattern_set, snapshot, run_id=work.run_id, reason=_reason(work, pattern_set)
        )


def current_plan(work: DayWork, pattern_set: PatternSet) -> PlanRecord | None:
    """The current plan of a pattern set, None where there is none or it was made for other patterns."""
    record = work.tables.current_plan(pattern_set.name)
    return record if record is not None and record.pattern_set_version == pattern_set.version else None


def _reason(work: DayWork, pattern_set: PatternSet) -> str:
    if work.tables.current_plan(pattern_set.name) is None:
        return f"first plan of the pattern set, by the statistics of {work.day}"
    return f"the pattern set has changed; by the statistics of {work.day}"


def record_plan(
    tables: StreamTables, pattern_set: PatternSet, snapshot: StatisticsSnapshot, *, run_id: str, reason: str
) -> PlanRecord:
    """Make a plan by the pattern set's planner and cost model, and make it the current one."""
    made = plan_by_strategy(pattern_set.patterns, snapshot, pattern_set.planner, pattern_set.cost)
    with tables.plan_lease(pattern_set.name, run_id=run_id, wait_s=PLAN_WAIT_S) as lease:
        return tables.record_plan(
            pattern_set.name,
            made.to_json(),
            lease=lease,
            explain=made.explain(explained_choice(pattern_set.patterns)),
            reason=reason,
            pattern_set_version=pattern_set.version,
        )


PLAN_WAIT_S = 30.0
"""How long to wait for another day's run that is just recording a plan of the same pattern set."""


@dataclass(frozen=True)
class DetectedDay:
    """The matches of a pattern set that become final on a day, in files that are not published yet.

    `carry_out` is what OUTPUT and CONSUME of the next day need to know.
    """

    pattern_set: str
    files: tuple[str, ...]
    matches: dict[str, int]
    fingerprint: MatchesFingerprint
    plan_version: int | None
    carry_out: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, read back by `from_json`."""
        return {
            "pattern_set": self.pattern_set,
            "files": list(self.files),
            "matches": self.matches,
            "fingerprint": self.fingerprint.to_json(),
            "plan_version": self.plan_version,
            "carry_out": dict(self.carry_out),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> DetectedDay:
        """Read the JSON form."""
        return cls(
            content["pattern_set"],
            tuple(content["files"]),
            content["matches"],
            MatchesFingerprint.from_json(content["fingerprint"]),
            content["plan_version"],
            content["carry_out"],
        )


def detect_day(
    spark: SparkSession,
    work: DayWork,
    pattern_set: PatternSet,
    plan: PlanRecord | None,
    progress: Progress | None = None,
) -> DetectedDay:
    """Detect the matches of a pattern set that become final on the day, by its plan (None: only for an empty day)."""
    from cep_pipeline.spark.detection import Detected, DetectionJob, WorkEstimate, detect_slices
    from cep_pipeline.spark.ingestion import remove_scratch

    with work.timed(f"detect {pattern_set.name}") as counts:
        events = pin_events(work, [pattern_set])
        carried = work.tables.matches_carry_in(pattern_set.name, work.day)
        carry_in = CarryState.from_json(carried, pattern_set.version)
        fingerprint = events.snapshot.matches_fingerprint(
            pattern_set.version, events.first_day, work.day, carry_in=digest_of(carried)
        )
        carry_out = carry_in.after(pattern_set.patterns, carry_in.kept(pattern_set.patterns), work.end[0])
        detected = Detected((), {pattern.name: 0 for pattern in pattern_set.patterns}, (), 0, 0)
        # Without events of its own a day has no new matches, but those that waited become final.
        waiting = any(map(waits_for_later_events, pattern_set.patterns))
        if plan is not None and (events.events_of(work) or waiting):
            planned = Plan.from_json(plan.plan, f"plan {plan.version} of {pattern_set.name}")
            weigh = WorkEstimate(pattern_set.patterns, planned, events.row_groups)
            name = f"candidates-{work.stream.name}-{work.day}-{pattern_set.name}-{work.run_id}"
            candidates = DataDirectory(f"{work.tables.warehouse.scratch}/{folder_name(name)}", work.run_id)
            job = DetectionJob(
                patterns=pattern_set.patterns,
                plan=planned,
                pattern_set=pattern_set.name,
                pattern_set_version=pattern_set.version,
                final_day=work.day,
                directory=work.tables.matches_directory(pattern_set.name, work.day, run_id=work.run_id),
                candidates=candidates,
                carry_in=carry_in,
                end_us=work.end[0],
            )
            slices = cut_day(work, events, spark.sparkContext.defaultParallelism, weigh, events.start)
            try:
                detected = detect_slices(spark, job, slices, progress)
            finally:
                remove_scratch(candidates.location)
            if detected.carry_out is not None:
                carry_out = detected.carry_out
        counts.update(matches=sum(detected.matches.values()), slices=detected.slices)
    return DetectedDay(
        pattern_set.name,
        detected.files,
        detected.matches,
        fingerprint,
        plan.version if plan is not None else None,
        carry_out.to_json(),
    )


def publish_detected(work: DayWork, detected: DetectedDay) -> PublishedMatches:
    """Publish the matches of (pattern set, day)."""
    with work.timed(f"publish {detected.pattern_set}") as counts:
        published = work.tables.publish_matches(
            detected.pattern_set,
            work.day,
            detected.files,
            lease=work.lease,
            fingerprint=detected.fingerprint,
            carry_out=detected.carry_out,
            counts=detected.matches,
        )
        counts.update(matches=published.matches)
    return published
