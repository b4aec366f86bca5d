"""Results of the jobs of `cep bench workload` in the warehouse of their project: days, plans, checks, matches."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from math import exp

from benchmarks.measure import Progress
from benchmarks.workload_jobs import DAYS, JobPart, jobs_of
from benchmarks.workload_projects import PATTERN_SET, Project
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.errors import CepError
from cep_pipeline.events.columns import SEQ_PER_DAY
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.pipeline.configuration import Configuration, Stream
from cep_pipeline.planning import plan
from cep_pipeline.slices.ownership import look_back
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.storage import canonical_json
from cep_pipeline.warehouse.records import PlanRecord, PublishedMatches
from cep_pipeline.warehouse.stream_reader import StreamReader
from cep_pipeline.warehouse.warehouse import Warehouse

ALONE = 20
"""Patterns that are run once more by themselves, on one day: half of them with the most matches, the others any."""


@dataclass(frozen=True)
class DayRun:
    """The run of a day: seconds on the wall of its steps, and its results."""

    day: date
    events: int
    matches: int
    pending: int
    steps_s: Mapping[str, float]


@dataclass(frozen=True)
class PlanSize:
    """A recorded plan: why it was made, what it shares, and how large it is in the table `plans`."""

    reason: str
    nodes: int
    nodes_apart: int
    times_less: float
    steps: int | None
    plan_bytes: int
    text_bytes: int


@dataclass(frozen=True)
class CheckSize:
    """A recorded check: its outcome, how many comparisons were verified, and the size of its record."""

    outcome: str
    verified: int
    record_bytes: int


@dataclass(frozen=True)
class WorkloadResult:
    """The results of a project, of the parts of its jobs and of their days, the later one with one pattern more.

    The first of all plans is the first one, and the check is of it. So many patterns, run once more by themselves over
    the last day of the first job, found `alone_matches`: the same as in the job.
    """

    project: Project
    parts: tuple[JobPart, ...]
    days: tuple[DayRun, ...]
    later: tuple[DayRun, ...]
    plans: tuple[PlanSize, ...]
    check: CheckSize | None
    alone: int
    alone_matches: int


def result_of(project: Project, parts: list[JobPart], progress: Progress) -> WorkloadResult:
    """Read what the jobs of a project have left, and run some of its patterns alone; other matches are a CepError."""
    read = Configuration.load(project.configuration)
    stream = read.stream(read.stream_names()[0])
    tables = Warehouse.open(read.warehouse_location).stream(stream.schema)
    units = {unit.final_day: unit for unit in tables.matches_days(PATTERN_SET)}
    ran = {record.day: record for record in reversed(tables.runs()) if record.status == "succeeded"}
    events = {record.day: record.events for record in tables.days()}

    def day_run(day: date) -> DayRun:
        unit = units[day]
        steps = {step.name: step.seconds for step in ran[day].steps} if day in ran else {}
        return DayRun(day, events[day], unit.matches, sum(unit.pending.values()), steps)

    of_jobs = [tuple(day_run(day) for day in job.days if day in units) for job in jobs_of(project) if job.days]
    checks = [one for one in reversed(tables.decisions(PATTERN_SET)) if one.details.get("settings")]
    last = of_jobs[0][-1].day
    alone, found = _alone(project, stream, tables, units[last], progress)
    return WorkloadResult(
        project,
        tuple(parts),
        of_jobs[0],
        of_jobs[1] if len(of_jobs) > 1 else (),
        tuple(_plan_size(record) for record in reversed(tables.plans(PATTERN_SET))),
        next((_check_size(one.outcome, one.details) for one in checks), None),
        alone,
        found,
    )


def _plan_size(record: PlanRecord) -> PlanSize:
    workload = record.plan["workload"]
    return PlanSize(
        record.reason,
        workload["nodes"],
        workload["nodes_apart"],
        exp(workload["ln_apart"] - workload["ln_cost"]),
        workload["search"]["steps"],
        len(canonical_json(dict(record.plan))),
        len(record.explain),
    )


def _check_size(outcome: str, details: Mapping[str, object]) -> CheckSize:
    number = details.get("verified")
    return CheckSize(outcome, number if isinstance(number, int) else 0, len(json.dumps(details)))


def _alone(
    project: Project, stream: Stream, tables: StreamReader, unit: PublishedMatches, progress: Progress
) -> tuple[int, int]:
    """Run some patterns by themselves over a day, each by a plan of its own, and hold the counts together.

    Half of them are those with the most matches, the others any.
    """
    request = project.request
    patterns = list(stream.pattern_set(PATTERN_SET).patterns)[: request.patterns]
    chosen = sorted(patterns, key=lambda pattern: -unit.counts[pattern.name])[: ALONE // 2]
    others = [pattern for pattern in patterns if pattern not in chosen]
    chosen += random.Random(request.seed).sample(others, min(ALONE - len(chosen), len(others)))
    day, zone = unit.final_day, stream.schema.timezone
    owned = (
        (day_bounds(day, zone)[0], day.toordinal() * SEQ_PER_DAY),
        (day_bounds(day, zone)[1], (day.toordinal() + 1) * SEQ_PER_DAY),
    )
    days_before = -(-look_back(chosen).time_us // 86_400_000_000)
    events = tables.read_events(day - timedelta(days=days_before), day)
    progress.begin(f"{request.workload.name}: patterns run alone over {day}", len(chosen))
    total = 0
    for pattern in chosen:
        by_itself = plan([pattern], estimate_statistics([pattern], events))
        counts = detect_slice([pattern], by_itself, events, owned, lambda *_: None).matches
        if counts[pattern.name] != unit.counts[pattern.name]:
            raise CepError(
                f"{project.folder}: pattern {pattern.name} has {counts[pattern.name]:,} matches on {day} by itself, "
                f"and {unit.counts[pattern.name]:,} in the job {DAYS!r}"
            )
        total += counts[pattern.name]
        progress.advance()
    return len(chosen), total
