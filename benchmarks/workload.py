"""`cep bench workload`: many patterns over days of a stream in one job; what it takes, in words and tables.

Each workload is an ordinary project: `cep run`, `cep explain` and the other commands work on it with `--config`. What
the job took is kept beside its project, part by part, so that one that was stopped is gone on with.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.drawn_patterns import Drawing, Rare, draw_statements
from benchmarks.ingestion import SCHEMA as TRADES_SCHEMA
from benchmarks.measure import Progress
from benchmarks.processes import Watched, run_watched
from benchmarks.report import markdown_table
from benchmarks.traffic_stream import MONTH, SENSORS, generate_traffic
from cep_pipeline.cli.terminal import format_seconds
from cep_pipeline.detection.detect import detect_slice
from cep_pipeline.errors import CepError, InputError
from cep_pipeline.events.columns import SEQ_PER_DAY
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.generate import generate_days
from cep_pipeline.pipeline.configuration import Configuration, Stream
from cep_pipeline.planning import plan
from cep_pipeline.slices.ownership import look_back
from cep_pipeline.statistics import estimate_statistics
from cep_pipeline.warehouse.records import PublishedMatches
from cep_pipeline.warehouse.stream_tables import StreamReader

TRADES, TRAFFIC = "trades", "traffic"
PATTERN_SET = "many"
READINGS_SCHEMA = """\
name: aarhus_traffic
timezone: Europe/Copenhagen
base_type: Reading
type_attribute: report_id
timestamp: timestamp
attributes: {report_id: int64, avg_speed: int64, vehicle_count: int64}
derived:
  avg_speed_diff: {diff: {of: avg_speed}}
  vehicle_count_diff: {diff: {of: vehicle_count}}
key: [report_id, timestamp]
on_missing: empty
source: {format: parquet, path: "{day:%Y-%m}.parquet"}
"""
SETTINGS, PARTS = "workload.json", "jobs.jsonl"
"""Files of a project's folder: what was asked for, written when it is complete; and what each part of its job took."""
LOOKS_PER_DAY, LOOKS_BEFORE = 288, 72
"""Looks of generated readings: every five minutes, from six o'clock on the first day on."""
ALONE = 20
"""Patterns that are run once more by themselves, on one day: half of them with the most matches, the others any."""
STEPS: Mapping[str, Sequence[str]] = {
    "ingesting": ("ingest", "preprocess"),
    "statistics": ("statistics",),
    "plan": ("plan",),
    "detection": (f"detect {PATTERN_SET}", "publish"),
}
"""Columns of the table of days, and the steps of a run that they are of."""


@dataclass(frozen=True)
class Workload:
    """A stream with days, and how patterns over it are drawn.

    All `days` are run together, in one job. Real events are in the `folder` of public data, in the `file` of each day.
    """

    name: str
    events: str
    schema: str
    folder: str
    file: str
    drawing: Drawing
    days: tuple[date, ...]


WORKLOADS: Mapping[str, Workload] = {
    TRADES: Workload(
        TRADES,
        "trades of four US stocks",
        TRADES_SCHEMA,
        "us_equity_trades",
        "{day}/trades.csv.gz",
        Drawing(
            ("diff", "price", "size"),
            (Rare("size", ">", 0.016), Rare("size", ">", 0.0075), Rare("size", ">", 0.0032)),
            (3, 4, 5),
            1,
        ),
        (date(2013, 10, 7),),
    ),
    TRAFFIC: Workload(
        TRAFFIC,
        "readings of the road sensors of Aarhus in August 2014",
        READINGS_SCHEMA,
        str(MONTH.parent),
        MONTH.name,
        Drawing(
            ("avg_speed_diff", "vehicle_count_diff"),
            (
                Rare("avg_speed_diff", ">", 0.127),
                Rare("avg_speed_diff", "<", 0.096),
                Rare("vehicle_count_diff", ">", 0.027),
            ),
            (3, 4, 5, 6, 7),
            900,
        ),
        tuple(date(2014, 8, 1) + timedelta(days=number) for number in range(31)),
    ),
}


@dataclass(frozen=True)
class Request:
    """A workload of `WORKLOADS` that is asked for, with so many drawn patterns.

    The seed is that of the patterns and of the search for a plan, which ends after `search_s`. There are so many of the
    first days; None: all. Where the folder of public data lacks the events, so many trades a day (about), or so many
    road sensors, are generated.
    """

    workload: Workload
    patterns: int = 1000
    seed: int = 1
    days: int | None = None
    search_s: float = 30.0
    data: Path | None = None
    trades_per_day: int = 388_417
    sensors: int = SENSORS

    @property
    def run_days(self) -> tuple[date, ...]:
        """The days that are run together."""
        return self.workload.days[: self.days]


@dataclass(frozen=True)
class Project:
    """A project on disk, and what was asked for; `events` says for people what they are."""

    folder: Path
    request: Request
    events: str

    @property
    def configuration(self) -> Path:
        """The project's `pipeline.yaml`."""
        return self.folder / "pipeline.yaml"

    def configure(self, master: str) -> None:
        """Let this be the Spark master."""
        request = self.request
        search = {"planner": "simulated_annealing", "time_limit_s": request.search_s, "seed": request.seed}
        stream = {
            "schema": "schema.yaml",
            "data": str((_real_folder(request) or self.folder / "raw").resolve()),
            "pattern_sets": {PATTERN_SET: {"file": "patterns.sase", **search}},
        }
        name = StreamSchema.load(self.folder / "schema.yaml").name
        content = {"streams": {name: stream}, "warehouse": {"location": "warehouse"}, "spark": {"master": master}}
        self.configuration.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")  # JSON is YAML


@dataclass(frozen=True)
class JobPart:
    """The cost of one process that worked on the job, with all that it started.

    `seconds` are on the wall, `processor_s` of all processors. `peak_kb` is the most memory that all of them held at
    once, and `processes` how many they were; 0 where the system does not tell. `ended` says that it came to the end of
    the job.
    """

    seconds: float
    processor_s: float
    peak_kb: int
    processes: int
    ended: bool


def workload_tables(
    requests: Sequence[Request], folder: Path, master: str, progress: Progress, report: Callable[[str], None]
) -> dict[str, str]:
    """The number of patterns and the tables of a page.

    Projects are made, each in the folder, and their jobs run where earlier calls have not. A job that fails, or a
    pattern that has other matches alone, is a CepError.
    """
    jobs, days = list[list[str]](), list[list[str]]()
    for request in requests:
        name = request.workload.name
        progress.begin(f"{name}: drawing {request.patterns:,} patterns", 0)
        project = make_project(folder, request, report)
        parts = run_job(project, master, progress)
        read = Configuration.load(project.configuration)
        stream = read.stream(read.stream_names()[0])
        tables = read.open_warehouse().stream(stream.schema)
        alone = _alone(project, stream, tables, progress)
        jobs.append(_job_cells(project, tables, parts, alone))
        days += _day_cells(project, tables)
        report(f"{name}: done; cep explain, matches, status … --config {project.configuration}")
    of_jobs = ["events of", "patterns", "days", "events", "matches", "wall", "processors", "memory, processes"]
    return {
        "patterns": " and ".join(sorted({f"{request.patterns:,}" for request in requests})),
        "jobs": markdown_table([*of_jobs, "patterns alone (matches)"], jobs),
        "days": markdown_table(["stream", "which day", "events", *STEPS], days),
    }


def make_project(root: Path, request: Request, report: Callable[[str], None] = lambda _: None) -> Project:
    """Make the project of a workload, or find the one that an earlier call has made.

    A folder with something else, as a project that was asked for otherwise, is an InputError.
    """
    workload = request.workload
    folder, real = root / f"{workload.name}-{request.patterns}-seed-{request.seed}", _real_folder(request)
    span = f"{len(request.run_days)} days" if len(request.run_days) > 1 else f"{request.run_days[0]}"
    events = f"{'real' if real else 'generated'} {workload.events}, {span}"
    asked = {"days": [f"{day}" for day in request.run_days], "search_s": request.search_s, "events": events}
    settings = folder / SETTINGS
    if folder.exists() and any(folder.iterdir()):
        found = json.loads(settings.read_text(encoding="utf-8")) if settings.exists() else None
        if found != asked:
            holds = (
                f"holds a workload with {found}" if found else "holds files, but no workload that was made to its end"
            )
            raise InputError(
                f"{folder}: {holds}, and {asked} is asked for; ask for the same, remove the folder, or name another "
                "one with --folder"
            )
        return Project(folder, request, events)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schema.yaml").write_text(workload.schema, encoding="utf-8")
    if real is None:
        report(f"{workload.name}: the real events are not there; generated ones take their place")
        _generate(folder / "raw", request)
    report(f"{workload.name}: drawing {request.patterns:,} patterns over {events}")
    schema = StreamSchema.load(folder / "schema.yaml")
    first_day = load_events(schema, [_files(real or folder / "raw", request)[0]]).events
    text = draw_statements(workload.drawing, schema.type_attribute, first_day, request.patterns, request.seed)
    (folder / "patterns.sase").write_text(text + "\n", encoding="utf-8")
    settings.write_text(json.dumps(asked, indent=1) + "\n", encoding="utf-8")
    return Project(folder, request, events)


def _real_folder(request: Request) -> Path | None:
    """The folder of the real events; None where it lacks some of them."""
    folder = None if request.data is None else request.data / request.workload.folder
    return folder if folder and all(path.is_file() for path in _files(folder, request)) else None


def _files(folder: Path, request: Request) -> list[Path]:
    return [folder / request.workload.file.format(day=day) for day in request.run_days]


def _generate(folder: Path, request: Request) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if request.workload.name == TRADES:
        generate_days(folder, request.run_days, stocks=4, max_rate_per_s=12.0, events_per_day=request.trades_per_day)
        return
    looks = LOOKS_PER_DAY * len(request.run_days) - LOOKS_BEFORE
    readings = generate_traffic(looks, request.sensors)
    draw = np.random.default_rng(request.seed)
    mean = np.exp(draw.uniform(0.0, 3.0, request.sensors))
    vehicles = draw.poisson(mean, (looks, request.sensors)).astype(np.int64).reshape(-1)
    raw = readings.drop_columns(["seq"]).append_column("vehicle_count", pa.array(vehicles))
    pq.write_table(raw, folder / MONTH.name)


def parts_of(project: Project) -> list[JobPart]:
    """Read the times of the parts of a project's job so far."""
    file = project.folder / PARTS
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [JobPart(**json.loads(line)) for line in lines]


def run_job(project: Project, master: str, progress: Progress) -> list[JobPart]:
    """Run the days of a project, unless that has come to its end; returns the parts of the job.

    A job that fails is a CepError; what it has published stays, and the next call goes on from there.
    """
    request = project.request
    if any(part.ended for part in parts_of(project)):
        return parts_of(project)
    project.configure(master)
    progress.begin(f"{request.workload.name}: {request.patterns:,} patterns", 0)

    def keep(watched: Watched, seconds: float, is_ended: bool) -> None:
        part = JobPart(seconds, watched.processor_s, watched.peak_kb, watched.processes, is_ended)
        with (project.folder / PARTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(part)) + "\n")

    run_watched(project.configuration, request.run_days, keep)
    return parts_of(project)


def _alone(project: Project, stream: Stream, tables: StreamReader, progress: Progress) -> tuple[int, int]:
    """Run some patterns by themselves over the last day, each by a plan of its own, and hold the counts together.

    Half of them are those with the most matches, the others any. Returned are how many they are, and their matches.
    """
    request = project.request
    day, zone = request.run_days[-1], stream.schema.timezone
    unit = _published(tables)[day]
    patterns = list(stream.pattern_set(PATTERN_SET).patterns)
    chosen = sorted(patterns, key=lambda pattern: -unit.counts[pattern.name])[: ALONE // 2]
    others = [pattern for pattern in patterns if pattern not in chosen]
    chosen += random.Random(request.seed).sample(others, min(ALONE - len(chosen), len(others)))
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
                f"and {unit.counts[pattern.name]:,} in the job"
            )
        total += counts[pattern.name]
        progress.advance()
    return len(chosen), total


def _published(tables: StreamReader) -> dict[date, PublishedMatches]:
    return {unit.final_day: unit for unit in tables.matches_days(PATTERN_SET)}


def _job_cells(project: Project, tables: StreamReader, parts: Sequence[JobPart], alone: tuple[int, int]) -> list[str]:
    """Time and memory of the job over all days, for one line of the table."""
    days = project.request.run_days
    units = _published(tables)
    events = sum(record.events for record in tables.days() if record.day in days)
    return [
        project.events,
        f"{project.request.patterns:,}",
        f"{len(days)}",
        f"{events:,}",
        f"{sum(units[day].matches for day in days):,}",
        *job_costs(parts),
        f"{alone[0]}: equal ({alone[1]:,})",
    ]


def job_costs(parts: Sequence[JobPart]) -> list[str]:
    """Time on the wall, of the processors, and memory of the parts of a job, in words.

    Examples
    --------
    >>> job_costs([JobPart(100.0, 300.0, 1_900_000, 7, False), JobPart(80.0, 60.0, 5, 6, True)])
    ['3.0 min in 2 parts', '6.0 min', '1.90 GB in 7']
    """
    processor_s = sum(part.processor_s for part in parts)
    largest = max(parts, key=lambda part: part.peak_kb)
    return [
        _minutes(sum(part.seconds for part in parts)) + (f" in {len(parts)} parts" if len(parts) > 1 else ""),
        _minutes(processor_s) if processor_s else "not told here",
        f"{largest.peak_kb / 1e6:.2f} GB in {largest.processes}" if largest.peak_kb else "not told here",
    ]


def _steps_of(tables: StreamReader) -> dict[date, list[float]]:
    """Day -> seconds of its latest run, for each of `STEPS`."""
    taken = {}
    for record in reversed(tables.runs()):
        if record.status == "succeeded" and record.day is not None:
            steps = {step.name: step.seconds for step in record.steps}
            taken[record.day] = [sum(steps.get(name, 0.0) for name in names) for names in STEPS.values()]
    return taken


def _day_cells(project: Project, tables: StreamReader) -> list[list[str]]:
    """Seconds of the steps, of the first day and of those after it."""
    taken, events = _steps_of(tables), {record.day: record.events for record in tables.days()}
    first, *later = project.request.run_days
    return [
        [
            project.request.workload.name,
            what,
            f"{median(events[day] for day in days):,.0f}",
            *(format_seconds(median(seconds)) for seconds in zip(*(taken[day] for day in days), strict=True)),
        ]
        for what, days in (("the first day", [first]), ("a day after it (median)", later))
        if days
    ]


def _minutes(seconds: float) -> str:
    """Seconds as people say them.

    Examples
    --------
    >>> _minutes(12.3), _minutes(1590.1)
    ('12.3 s', '26.5 min')
    """
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.1f} min"
