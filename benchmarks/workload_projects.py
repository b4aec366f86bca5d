"""The projects that `cep bench workload` runs: a folder with schema, pattern file, `pipeline.yaml` and raw days.

They are ordinary projects: `cep run`, `cep explain` and the other commands work on them with `--config`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.drawn_patterns import Drawing, Rare, draw_statements
from benchmarks.ingestion import SCHEMA as TRADES_SCHEMA
from benchmarks.traffic_stream import MONTH, SENSORS, generate_traffic
from cep_pipeline.errors import InputError
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.generate import generate_days

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
_PIPELINE = """\
streams:
  {stream}:
    schema: schema.yaml
    data: {data}
    pattern_sets:
      {pattern_set}: {{file: patterns.sase, planner: simulated_annealing, time_limit_s: {search_s:g}, seed: {seed}}}
warehouse: {{location: warehouse}}
spark: {{master: "{master}"}}
"""
_SETTINGS, _DRAWN = "workload.json", "drawn.sase"
_SCHEMA_FILE, _PATTERNS, _CONFIGURATION = "schema.yaml", "patterns.sase", "pipeline.yaml"
LOOKS_PER_DAY, LOOKS_BEFORE = 288, 72
"""Looks of generated readings: every five minutes, from six o'clock on the first day on."""


@dataclass(frozen=True)
class GeneratedSizes:
    """Sizes of the data that are generated in place of missing real events: trades a day (about), and road sensors."""

    trades_per_day: int = 388_417
    sensors: int = SENSORS


@dataclass(frozen=True)
class Workload:
    """A stream with days, and how patterns over it are drawn.

    All `days` are run together, in one job; the `later` one in a job of its own, with one pattern more.
    """

    name: str
    stream: str
    schema: str
    drawing: Drawing
    days: tuple[date, ...]
    later: date | None = None


WORKLOADS: Mapping[str, Workload] = {
    TRADES: Workload(
        TRADES,
        "generated_trades",
        TRADES_SCHEMA,
        Drawing(
            ("diff", "price", "size"),
            (Rare("size", ">", 0.016), Rare("size", ">", 0.0075), Rare("size", ">", 0.0032)),
            (3, 4, 5),
            1,
        ),
        (date(2013, 10, 7),),
        date(2013, 10, 8),
    ),
    TRAFFIC: Workload(
        TRAFFIC,
        "aarhus_traffic",
        READINGS_SCHEMA,
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
    first days; None: all. `generated` takes the place of the folder of public data where that is not there.
    """

    workload: Workload
    patterns: int = 1000
    seed: int = 1
    days: int | None = None
    search_s: float = 30.0
    data: Path | None = None
    generated: GeneratedSizes = GeneratedSizes()

    @property
    def run_days(self) -> tuple[date, ...]:
        """The days that are run together."""
        return self.workload.days[: self.days]

    @property
    def name(self) -> str:
        """The name of the project's folder."""
        return f"{self.workload.name}-{self.patterns}-seed-{self.seed}"


@dataclass(frozen=True)
class Project:
    """A project on disk, and what was asked for.

    The statements are one more than asked for: the last one comes with the later day. `events` says for people what
    they are.
    """

    folder: Path
    request: Request
    statements: tuple[str, ...]
    events: str

    @property
    def configuration(self) -> Path:
        """The project's `pipeline.yaml`."""
        return self.folder / _CONFIGURATION

    @property
    def pattern_file(self) -> Path:
        """The project's pattern file."""
        return self.folder / _PATTERNS

    def write_patterns(self, number: int) -> None:
        """Let the first so many patterns be those of the project."""
        self.pattern_file.write_text(";\n".join(self.statements[:number]) + "\n", encoding="utf-8")

    def use_master(self, master: str) -> None:
        """Write `pipeline.yaml`, for a Spark master."""
        request = self.request
        data = self.folder / "raw" if _generated(request) else _raw_folder(request)
        text = _PIPELINE.format(
            stream=request.workload.stream,
            data=json.dumps(str(data.resolve())),
            pattern_set=PATTERN_SET,
            search_s=request.search_s,
            seed=request.seed,
            master=master,
        )
        self.configuration.write_text(text, encoding="utf-8")


def make_project(root: Path, request: Request, report: Callable[[str], None] = lambda _: None) -> Project:
    """Make the project of a workload, or find the one that an earlier call has made.

    A folder with something else, as a project that was asked for otherwise, is an InputError.
    """
    folder = root / request.name
    asked = {
        "days": [day.isoformat() for day in request.run_days],
        "search_s": request.search_s,
        "events": _described(request),
    }
    try:
        if folder.exists() and any(folder.iterdir()):
            _check_same(folder, asked)
            statements = (folder / _DRAWN).read_text(encoding="utf-8").removesuffix("\n").split(";\n")
            return Project(folder, request, tuple(statements), str(asked["events"]))
        folder.mkdir(parents=True, exist_ok=True)
        schema_file = folder / _SCHEMA_FILE
        schema_file.write_text(request.workload.schema, encoding="utf-8")
        if _generated(request):
            report(f"{request.workload.name}: the real events are not there; generated ones take their place")
            _generate(folder / "raw", request)
            files = _raw_files(folder / "raw", request)
        else:
            files = _raw_files(_raw_folder(request), request)
        report(f"{request.workload.name}: drawing {request.patterns:,} patterns over {asked['events']}")
        schema = StreamSchema.load(schema_file)
        events = load_events(schema, files[:1]).events
        text = draw_statements(
            request.workload.drawing, schema.type_attribute, events, request.patterns + 1, request.seed
        )
        (folder / _DRAWN).write_text(text, encoding="utf-8")
        (folder / _SETTINGS).write_text(json.dumps(asked, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: the project cannot be made: {error.strerror or error}") from error
    return make_project(root, request)


def _check_same(folder: Path, asked: Mapping[str, object]) -> None:
    try:
        found = json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder}: holds files, but no workload that was made to its end ({_SETTINGS}); remove it, or name "
            "another folder with --folder"
        ) from error
    for name, value in asked.items():
        if found.get(name) != value:
            raise InputError(
                f"{folder}: holds a workload with {name} {found.get(name)!r}, and {value!r} is asked for; ask for the "
                "same, remove the folder, or name another one with --folder"
            )


def _raw_folder(request: Request) -> Path:
    assert request.data is not None
    return request.data / ("us_equity_trades" if request.workload.name == TRADES else MONTH.parent)


def _raw_files(folder: Path, request: Request) -> list[Path]:
    if request.workload.name == TRAFFIC:
        return [folder / MONTH.name]
    later = [request.workload.later] if request.workload.later else []
    return [folder / f"{day}" / "trades.csv.gz" for day in (*request.run_days, *later)]


def _generated(request: Request) -> bool:
    return request.data is None or not all(path.is_file() for path in _raw_files(_raw_folder(request), request))


def _described(request: Request) -> str:
    kind = "generated " if _generated(request) else "real "
    days = len(request.run_days)
    span = f"{days} days" if days > 1 else f"{request.run_days[0]}"
    if request.workload.name == TRAFFIC:
        return f"{kind}readings of the road sensors of Aarhus in August 2014, {span}"
    return f"{kind}trades of four US stocks, {span}"


def _generate(folder: Path, request: Request) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sizes = request.generated
    if request.workload.name == TRADES:
        later = [request.workload.later] if request.workload.later else []
        days = [*request.run_days, *later]
        generate_days(folder, days, stocks=4, max_rate_per_s=12.0, events_per_day=sizes.trades_per_day)
        return
    looks = LOOKS_PER_DAY * len(request.run_days) - LOOKS_BEFORE
    readings = generate_traffic(looks, sizes.sensors)
    draw = np.random.default_rng(request.seed)
    mean = np.exp(draw.uniform(0.0, 3.0, sizes.sensors))
    vehicles = draw.poisson(mean, (looks, sizes.sensors)).astype(np.int64).reshape(-1)
    raw = readings.drop_columns(["seq"]).append_column("vehicle_count", pa.array(vehicles))
    pq.write_table(raw, folder / MONTH.name)
