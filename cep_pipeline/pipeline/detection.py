"""The detection of a day: the matches of a pattern set that become final on it, and what waits when it is over."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cep_pipeline.detection.matches import UTC_MICROSECONDS
from cep_pipeline.detection.mechanisms import choose_mechanisms
from cep_pipeline.detection.planned import plan_for
from cep_pipeline.detection.summaries.partial import PartialSummary
from cep_pipeline.events.columns import ARROW_TYPES
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.pipeline.configuration import PatternSet
from cep_pipeline.pipeline.day_work import DayWork
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
from cep_pipeline.spark.composing import ComposingJob
from cep_pipeline.spark.detection import DetectedDay, DetectionJob, estimated_work
from cep_pipeline.spark.keeping import CarryState
from cep_pipeline.spark.partitions import Gathering, PartitionedEvents
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
from cep_pipeline.spark.tasks import cores_of, run_tasks
from cep_pipeline.statistics import partial_statistics
from cep_pipeline.statistics.estimate import snapshot_of
from cep_pipeline.storage import DataDirectory, digest_of, folder_name, free_bytes
from cep_pipeline.warehouse.records import EventsSnapshot, MatchesFingerprint
from cep_pipeline.warehouse.units import Draft

if TYPE_CHECKING:
    from cep_pipeline.spark.session import SparkSession


Gathered = tuple[PartitionedEvents, date | None]
"""What is read for windows that count the events of a partition, and the first day of it; None: the beginning."""


@dataclass(frozen=True)
class DayInputs:
    """The inputs of the detection of a pattern set on a day: the events that it looks at, pinned to one snapshot.

    `first_day` is the first day that the look-back reaches, as far as the whole pattern set needs, None: the beginning
    of the stream, where there are too few events. From the point `start` on the day owns matches. It lies before the
    day where matches wait for later events and days are not published: those that have become final on such days belong
    to the next one that is. The row groups are those of the look-back and the day, in stream order. Slices of the day
    read as far before their start as `look_back` says. `types` are those of the events. `carried` is what the day
    before hands on, as it is recorded, and `carry_in` what of it is about patterns as they are now. `end_of_stream` is
    True where the stream ends with the day and that matters to the pattern set.
    """

    work: DayWork
    pattern_set: PatternSet
    snapshot: EventsSnapshot
    first_day: date | None
    start: Boundary
    row_groups: tuple[RowGroup, ...]
    look_back: LookBack
    types: frozenset[str | None]
    carried: Mapping[str, Any]
    carry_in: CarryState
    end_of_stream: bool

    @classmethod
    def of(cls, work: DayWork, pattern_set: PatternSet, last: bool) -> DayInputs:
        """Pin the day's events and the look-back before it that the longest window of a pattern set reaches.

        The `last` day ends the stream.
        """
        statements, reach = pattern_set.statements, look_back(pattern_set.patterns)
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
        row_groups = tuple(published.row_groups(first_day, work.day))
        types = types_in(statements[0].type_attribute, row_groups)
        carried = work.tables.matches_carry_in(pattern_set.name, work.day)
        same: set[str] = set()
        if carried and carried.get("pattern_set_version") != pattern_set.version:
            units = [unit for unit in work.tables.matches_days(pattern_set.name) if unit.final_day < work.day]
            known = max(units, key=lambda unit: unit.final_day).fingerprint.patterns
            same = {pattern for pattern, _ in known.items() & pattern_set.pattern_versions.items()}
        carry_in = CarryState.from_json(carried, pattern_set.version, same)
        ends = last and waits_at_the_end(pattern_set)
        return cls(work, pattern_set, snapshot, first_day, start, row_groups, reach, types, carried, carry_in, ends)

    @property
    def events(self) -> int:
        """Number of events of the day itself."""
        published = self.snapshot.days.get(self.work.day)
        return published.events if published is not None else 0

    def fingerprint(self, gathered: Iterable[date | None]) -> MatchesFingerprint:
        """Return the fingerprint of the matches of the day.

        `gathered` are the first days of the events that were gathered by partition.
        """
        first_days = {self.first_day, *gathered}
        return self.snapshot.matches_fingerprint(
            self.pattern_set.version,
            None if None in first_days else min(filter(None, first_days)),  # None: the beginning of the stream
            self.work.day,
            carry_in=digest_of(self.carried),
            end_of_stream=self.end_of_stream,
            patterns=self.pattern_set.pattern_versions,
        )

    def of_set(self, patterns: Sequence[Pattern]) -> dict[str, Any]:
        """The fields of `DayOfSet` for some patterns of the set.

        Their limits are those of the configuration, and what the disk has left.
        """
        work, pattern_set = self.work, self.pattern_set
        free = free_bytes(work.tables.warehouse.location)
        most = None if free is None else int(free * SHARE_OF_DISK)
        return {
            "patterns": tuple(patterns),
            "pattern_set": pattern_set.name,
            "pattern_set_version": pattern_set.version,
            "final_day": work.day,
            "directory": work.tables.matches_directory(pattern_set.name, work.day, run_id=work.run_id),
            "mechanism": pattern_set.mechanism,
            "carry_in": self.carry_in,
            "end_of_stream": self.end_of_stream,
            "limits": replace(pattern_set.limits.limits, max_bytes=most),
            "then": pattern_set.limits.then,
        }

    def job(self, plan: Plan, scratch: DataDirectory, gathered: Sequence[PartitionedEvents]) -> DetectionJob:
        """The job that detects the patterns of the set which compose no others."""
        of_set = self.of_set(self.pattern_set.patterns)
        return DetectionJob(
            **{**of_set, "carry_in": self.carry_in.part([one.name for one in self.pattern_set.patterns])},
            plan=plan,
            candidates=scratch,
            horizons_us={pattern.name: self._horizon_us(pattern) for pattern in self.pattern_set.patterns},
            partitioned=tuple(gathered),
        )

    def composing_job(self) -> ComposingJob:
        """The job that finds the matches of the patterns that compose others, behind these."""
        of_set = self.of_set(self.pattern_set.composing)
        return ComposingJob(**of_set, row_groups=self.row_groups, start=self.start, end=self.work.end)

    def _horizon_us(self, pattern: Pattern) -> int | None:
        """The timestamp of the earliest event that a match after the day may hold, None: of any."""
        if pattern.window.time_us is not None:
            return self.work.end[0] - pattern.window.time_us
        if pattern.partition_by:
            return None
        assert pattern.window.events is not None
        return instant_before(self.row_groups, pattern.window.events - 1)

    def gathered(self, spark: SparkSession, scratch: DataDirectory) -> Iterator[Gathered]:
        """Gather what windows read that count the events of a partition, once for each PARTITION BY among them."""
        work, tables = self.work, self.work.tables
        counting = [pattern for pattern in self.pattern_set.patterns if counts_in_partitions(pattern)]
        own = tuple(group for group in self.row_groups if group.last[0] >= self.start[0])
        for partition_by in dict.fromkeys(pattern.partition_by for pattern in counting):
            members = [pattern for pattern in counting if pattern.partition_by == partition_by]
            source = PartitionedEvents(partition_by, look_back(members).positions, own, self.start[0])
            files = tables.events_files(None, work.day, snapshot=self.snapshot)
            gathering = Gathering(
                source,
                columns_needed(members),
                tables.events_schema,
                [(file.day, file.path) for file in files if file.day < work.day],
                work.day,
                scratch,
                [key for pattern in members for key in self.carry_in.pending.get(pattern.name, ())],
            )
            what = f"{work.stream.name}: events before {work.day} by {', '.join(partition_by)}"
            ((earlier, first_day),) = run_tasks(spark, gathering.run, [0], what=what)
            yield replace(source, earlier=earlier), first_day

    def slices(self, spark: SparkSession, job: DetectionJob) -> list[Slice]:
        """Cut the day, from `start` on, into slices of about equal work (`slices_of_a_day`)."""
        rows, start, end = self.events, self.start, self.work.end
        if not rows and not any(map(can_pend, job.patterns)):
            return []  # there are no new matches, and none that waited becomes final
        needed = self.row_groups[first_read(self.row_groups, start, self.look_back) :]
        estimated = None
        total, looked_again = float(rows), 0.0
        if rows < LEAST_ROWS:  # it is over sooner than its events have been looked at
            pieces = Pieces.even(needed)
        else:
            pieces = Pieces.read(needed)
            estimated, again = estimated_work(job.patterns, job.plan, pieces, job.limits)
            begins = pieces.times_us[:-1]
            owned = (begins >= start[0]) & (begins < end[0])
            total, looked_again = float(estimated[owned].sum()), float(again[owned].mean()) if owned.any() else 0.0
        count = slices_of_a_day(len(job.patterns), total, rows, cores_of(spark), looked_again)
        return cut(pieces, start=start, end=end, look_back=self.look_back, count=count, work=estimated)

    def behind(self) -> Slice:
        """The events behind the day: matches that end there are not final yet."""
        end = self.work.end
        found = slices_between(self.row_groups, [end, None], self.look_back)
        return found[0] if found else Slice(end, None, (), self.look_back)


SHARE_OF_DISK = 0.5
"""The rows of one pattern on a slice may take this share of what is free, before they are compressed."""


def draft_detected(work: DayWork, detected: DetectedDay) -> list[Draft]:
    """Make the drafts of the matches and summaries of (pattern set, day), the matches first.

    What detecting them has shown is put into the statistics: the next day's are made with it.
    """
    tables, name, fingerprint = work.tables, detected.pattern_set, detected.fingerprint
    assert fingerprint is not None, "the job of the day gives it"
    observed = detected.observed.to_json() if detected.observed else None
    record = tables.draft_observed(name, work.day, observed, run_id=work.run_id)
    tables.drafts.statistics[name, work.day] = record
    matches = tables.draft_matches(
        name,
        work.day,
        detected.files,
        fingerprint=fingerprint,
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
        name, work.day, summaries, version=pattern_set.version, fingerprint=fingerprint, run_id=work.run_id
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


def unplanned(pattern_set: PatternSet) -> Plan:
    """A plan without statistics, for days on which there are no events to count."""
    patterns, chosen = pattern_set.patterns, choose_mechanisms(pattern_set.patterns, pattern_set.mechanism)
    fields = [("timestamp", UTC_MICROSECONDS), ("seq", pa.int64())]
    fields += [(name, ARROW_TYPES[kind]) for name, kind in patterns[0].attributes]
    nothing = snapshot_of(partial_statistics(patterns, pa.schema(fields).empty_table()))
    return plan_for(patterns, nothing, chosen, planner="trivial")


COST_OF_A_PATTERN = 50_000
"""Time to begin with a pattern on a slice (0.25 ms), in events and partial matches that take as long."""


WORK_OF_A_SLICE = 50_000_000
"""Estimated events and partial matches that are worth a slice of their own, on whatever machine: parts of a second."""
LEAST_ROWS = 10_000
"""Fewer events are not worth a slice, whatever is expected of them; a day of fewer is cut by its events alone."""


SLICES_A_CORE = 3
"""Slices of a day for each core that is known, at least: those of a busy hour take longer than others."""


def slices_of_a_day(patterns: int, estimated: float, rows: int, parallelism: int, again: float = 0.0) -> int:
    """Return the number of slices of a day: by its work, and at least some for each core that is known.

    A cluster that is busy, or is just beginning, shows few cores. Its day is cut by work all the same, so that all
    cores find tasks once they are there. `parallelism` are the cores that are known. `patterns` is their number,
    `estimated` counts events and partial matches of the day, `rows` its events. `again` is the estimated work of the
    look-back of a slice: all of them together do at most twice the work of the day, but for the slices that each core
    gets.

    Examples
    --------
    >>> [slices_of_a_day(10, estimated, 20_000_000, 2) for estimated in (1e6, 1e9, 1e10, 1e20)]
    [6, 20, 200, 2000]
    >>> slices_of_a_day(10, 1e10, 20_000_000, 2, again=2e8)
    50
    """
    by_work = estimated / max(WORK_OF_A_SLICE, patterns * COST_OF_A_PATTERN, again)
    return max(parallelism * SLICES_A_CORE, math.ceil(min(by_work, rows / LEAST_ROWS)))
