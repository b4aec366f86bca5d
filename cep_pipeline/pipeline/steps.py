"""The steps of a day after its events are there; statistics and detection have modules of their own.

A step works on one day of one stream under the lease of that day. It reads what is published, and publishes last: a
step that fails leaves every published table as it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from cep_pipeline.detection.choice import choose_mechanisms, explained_choice
from cep_pipeline.detection.planned import runs_on
from cep_pipeline.errors import BusyError
from cep_pipeline.events.columns import SEQ_PER_DAY
from cep_pipeline.events.staged_day import StagedDay
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.pipeline.configuration import PatternSet, SparkSettings, Stream
from cep_pipeline.pipeline.pattern_set_plans import plan_of_changed, statements_of
from cep_pipeline.pipeline.recorded_plans import plan_of
from cep_pipeline.planning.planners import LOCAL_SEARCHES
from cep_pipeline.planning.plans import VERSION as PLAN_VERSION
from cep_pipeline.slices.extent import LookBack, look_back, waits_for_later_events
from cep_pipeline.spark.slicing import RowGroup, Slice, cut, read_row_groups
from cep_pipeline.statistics import StatisticsSnapshot
from cep_pipeline.warehouse.records import EventsSnapshot, PlanRecord, PublishedDay, RunStep

if TYPE_CHECKING:
    from cep_pipeline.patterns.pattern import Pattern
    from cep_pipeline.slices.prepared import Boundary
    from cep_pipeline.spark.ingestion import IngestResult
    from cep_pipeline.warehouse.leases import Lease
    from cep_pipeline.warehouse.stream_tables import StreamTables

Progress = Callable[[int, int], None]
CLOCK_BACK = "clock back"
"""What ingestion counts: rows that are earlier than the row of their event type before them in their raw file."""
logger = logging.getLogger(__name__)


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
        self.done(RunStep(name, time.perf_counter() - begin, counted))

    def done(self, step: RunStep) -> None:
        """Keep a step that is done, and log it."""
        self.steps.append(step)
        done = self.run_id, self.stream.name, self.day, step.name, step.seconds, dict(step.counts)
        logger.info("run %s: %s %s: %s in %.1f s %s", *done)

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
        No mechanism runs a pattern, or the one that the pattern set names does not.
    """
    for pattern_set in pattern_sets:
        choose_mechanisms(pattern_set.patterns, pattern_set.mechanism)


def ingest_counts(made: IngestResult | StagedDay) -> dict[str, int]:
    """What is recorded of the step that reads a day's raw files; a clock that goes back only where one does."""
    rejected = made.rejected_rows if isinstance(made, StagedDay) else made.rejected
    counts = {"events": made.events, "rejected": rejected}
    return counts | ({CLOCK_BACK: made.clock_back} if made.clock_back else {})


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
    """

    snapshot: EventsSnapshot
    first_day: date | None
    start: Boundary
    row_groups: tuple[RowGroup, ...]
    look_back: LookBack

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
    by_positions = _day_of_positions(snapshot, begun, reach.positions)
    first_day = None if by_positions is None else min(by_time, by_positions)
    files = work.tables.events_files(first_day, work.day, snapshot=snapshot)
    return DayEvents(snapshot, first_day, start, tuple(read_row_groups(file.path for file in files)), reach)


def _day_of_positions(snapshot: EventsSnapshot, begun: date, positions: int) -> date | None:
    """The day that has the event so many positions before a day; None where there are fewer."""
    if not positions:
        return begun
    for day in sorted((day for day in snapshot.days if day < begun), reverse=True):
        positions -= snapshot.days[day].events
        if positions <= 0:
            return day
    return None


def patterns_of(pattern_sets: Sequence[PatternSet]) -> list[Pattern]:
    """The patterns of all sets."""
    return [pattern for pattern_set in pattern_sets for pattern in pattern_set.patterns]


def cut_day(
    work: DayWork,
    events: DayEvents,
    parallelism: int,
    weigh: Callable[[RowGroup], float],
    start: Boundary,
    patterns: int = 1,
) -> list[Slice]:
    """Cut the day, from `start` on, into slices of about equal work, some for each core (`slices_of_a_core`)."""
    estimated = sum(weigh(group) for group in events.row_groups if group.last >= start)
    each = slices_of_a_core(work.settings.slices_per_core, patterns, estimated / parallelism)
    return cut(
        events.row_groups,
        start=start,
        end=work.end,
        look_back=events.look_back,
        count=parallelism * each,
        work=weigh,
    )


MANY_PATTERNS = 100
"""From so many in a set on they and their plan are a large part of what a process holds, and of what a slice costs."""
COST_OF_A_PATTERN = 50_000
"""So many events and partial matches take as long as to begin with a pattern on a slice: a quarter of a millisecond."""


def slices_of_a_core(configured: int, patterns: int, work_of_a_core: float) -> int:
    """How many slices of a day there are for each core: several are the better balanced, but each pattern costs more.

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


def plan_day(
    work: DayWork, pattern_set: PatternSet, snapshot: StatisticsSnapshot, progress: Progress | None = None
) -> PlanRecord:
    """The current plan of a pattern set; one is made only where there is none, or for other patterns.

    Parameters
    ----------
    progress
        Told of hundredths of a search for a plan of many patterns together.
    """
    with work.timed("plan"):
        before = work.tables.current_plan(pattern_set.name)
        why = "first plan of the pattern set" if before is None else outdated(before, pattern_set)
        if before is not None and why is None:
            return before
        reason = f"{why}, by the statistics of {work.day}"
        try:
            return record_plan(
                work.tables,
                pattern_set,
                snapshot,
                in_place_of=before,
                run_id=work.run_id,
                reason=reason,
                progress=progress,
            )
        except BusyError:
            made_meanwhile = current_plan(work, pattern_set)
            if made_meanwhile is None:
                raise
            return made_meanwhile


def current_plan(work: DayWork, pattern_set: PatternSet) -> PlanRecord | None:
    """The current plan of a pattern set; None where there is none that is for these patterns and mechanisms."""
    record = work.tables.current_plan(pattern_set.name)
    return None if record is None or outdated(record, pattern_set) else record


def of_another_format(record: PlanRecord) -> str | None:
    """That a recorded plan is of another version of the format than the one that is read; None where it is not."""
    version = record.plan.get("version")
    return None if version == PLAN_VERSION else f"the current plan is of version {version} of the format"


def outdated(record: PlanRecord, pattern_set: PatternSet) -> str | None:
    """Why a recorded plan cannot be run, None where it can."""
    if reason := of_another_format(record):
        return reason
    if record.pattern_set_version != pattern_set.version:
        return "the pattern set has changed"
    plan = plan_of(record)
    chosen = choose_mechanisms(pattern_set.patterns, pattern_set.mechanism)
    return None if runs_on(plan, pattern_set.patterns, chosen) else "the mechanism of the pattern set has changed"


def record_plan(
    tables: StreamTables,
    pattern_set: PatternSet,
    snapshot: StatisticsSnapshot,
    *,
    in_place_of: PlanRecord | None,
    run_id: str,
    reason: str,
    progress: Progress | None = None,
) -> PlanRecord:
    """Make a plan as the pattern set is configured, and make it the current one in place of the one that was.

    Where that is one of all patterns together, only those are planned anew that a change of the pattern set reaches
    (`plan_of_changed`); the reason says so. `progress` is as in `plan_day`.

    Raises
    ------
    BusyError
        Another plan has become current in the meantime, or is just being recorded; nothing has changed.
    """
    search: dict[str, Any] = {}
    if progress is not None and pattern_set.planner in LOCAL_SEARCHES:
        search = {"progress": lambda reached: progress(round(100 * reached.share), 100)}
    made, anew = plan_of_changed(pattern_set, snapshot, in_place_of, **search)
    logger.info("run %s: %s, %s: %r: %s", run_id, tables.name, pattern_set.name, made, reason)
    with tables.plan_lease(pattern_set.name, run_id=run_id, wait_s=PLAN_WAIT_S) as lease:
        return tables.record_plan(
            pattern_set.name,
            made.to_json(),
            lease=lease,
            explain=made.explain(explained_choice(pattern_set.patterns, pattern_set.mechanism)),
            reason="; ".join(filter(None, (reason, anew))),
            pattern_set_version=pattern_set.version,
            statistics=snapshot.to_json(),
            statements=statements_of(pattern_set.patterns),
            in_place_of=None if in_place_of is None else in_place_of.version,
        )


PLAN_WAIT_S = 30.0
"""How long to wait for another day's run that is just recording a plan of the same pattern set."""
