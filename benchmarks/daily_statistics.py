"""The statistics step beside ingesting the same day, as `cep run` does both: in a fresh process, and after it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from benchmarks.ingestion import SCHEMA as TRADES_SCHEMA
from benchmarks.measure import Progress
from benchmarks.report import markdown_table
from benchmarks.stream_statistics import (
    BAR,
    EVENTS_PER_DAY,
    READING_PATTERNS,
    READING_SCHEMA,
    TRADE_PATTERNS,
)
from cep_pipeline.cli.terminal import format_seconds
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.generate import generate_days

GENERATED_DAYS = tuple(date(2025, 1, day) for day in (6, 7, 8))
TRADING_DAYS = tuple(date(2013, 10, day) for day in (7, 8, 9))
TRAFFIC_DAYS = tuple(date(2014, 8, day) for day in range(1, 32))

_PIPELINE = """\
streams:
  {name}: {{schema: schema.yaml, data: {data}, pattern_sets: {{all: {{file: patterns.sase}}}}}}
warehouse: {{location: warehouse}}
"""


@dataclass(frozen=True)
class DaySeconds:
    """Seconds on the wall of one day: reading and publishing its events, and its statistics."""

    events: int
    ingest_s: float
    statistics_s: float

    @property
    def share(self) -> float:
        """The time of the statistics as a share of the time that ingesting takes."""
        return self.statistics_s / self.ingest_s


@dataclass(frozen=True)
class DailyStatistics:
    """Days of a stream that were run one by one in a process of their own, the first of them in a fresh one."""

    stream: str
    days: tuple[DaySeconds, ...]


@dataclass(frozen=True)
class _Days:
    """Days to run: raw files of a schema, the patterns, and how they are called."""

    called: str
    schema: str
    patterns: str
    data: Path
    days: tuple[date, ...]


def measure_days(data: Path | None, master: str, progress: Progress) -> list[DailyStatistics]:
    """Run generated days, and real ones where they are there, one by one, each stream in a process of its own."""
    results = []
    with tempfile.TemporaryDirectory() as name:
        for number, stream in enumerate(_streams(Path(name), data, progress)):
            progress.begin(f"statistics beside ingesting: {stream.called}, day by day", 1)
            folder = Path(name) / f"stream-{number}"
            folder.mkdir()
            (folder / "schema.yaml").write_text(stream.schema, encoding="utf-8")
            (folder / "patterns.sase").write_text(stream.patterns, encoding="utf-8")
            configuration = folder / "pipeline.yaml"
            text = _PIPELINE.format(name=StreamSchema.load(folder / "schema.yaml").name, data=stream.data.resolve())
            configuration.write_text(text, encoding="utf-8")
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                days = fresh.submit(run_one_by_one, configuration, stream.days, master).result()
            results.append(DailyStatistics(stream.called, days))
            progress.advance()
    return results


def _streams(folder: Path, data: Path | None, progress: Progress) -> Iterator[_Days]:
    progress.begin(f"making {len(GENERATED_DAYS)} days of about {EVENTS_PER_DAY:,} trades", 1)
    generate_days(folder / "raw", GENERATED_DAYS, stocks=16, events_per_day=EVENTS_PER_DAY)
    yield _Days("generated trades", TRADES_SCHEMA, TRADE_PATTERNS, folder / "raw", GENERATED_DAYS)
    if data is None:
        return
    trades = data / "us_equity_trades"
    there = tuple(day for day in TRADING_DAYS if (trades / str(day) / "trades.csv.gz").is_file())
    if there:
        yield _Days("US trades", TRADES_SCHEMA, TRADE_PATTERNS, trades, there)
    traffic = data / "aarhus_traffic"
    if (traffic / "2014-08.parquet").is_file():
        yield _Days("a month of traffic", READING_SCHEMA, READING_PATTERNS, traffic, TRAFFIC_DAYS)


def run_one_by_one(configuration: Path, days: Sequence[date], master: str) -> tuple[DaySeconds, ...]:
    """Ingest days and estimate their statistics, a run each, in this process."""
    from cep_pipeline.pipeline.configuration import Configuration
    from cep_pipeline.pipeline.day_work import SilentObserver
    from cep_pipeline.pipeline.run import PipelineRun
    from cep_pipeline.spark.session import spark_session
    from cep_pipeline.warehouse.warehouse import Warehouse

    read = Configuration.load(configuration)
    stream = read.stream(read.stream_names()[0])
    tables = Warehouse.open(read.warehouse_location).stream(stream.schema)
    spark = spark_session(master, app_name="cep bench statistics")
    measured = []
    for day in days:
        run = PipelineRun(
            stream,
            tables,
            read.settings.spark,
            stream.pattern_sets,
            lambda: spark,
            SilentObserver(),
            frozenset({"ingest", "statistics"}),
        )
        (outcome,) = run.run_days([day]).days
        seconds = {step.name: step.seconds for step in outcome.steps}
        ingest_s = seconds["ingest"] + seconds["preprocess"] + seconds["publish"]
        measured.append(DaySeconds(outcome.events or 0, ingest_s, seconds["statistics"]))
    spark.stop()
    return tuple(measured)


def days_table(results: Sequence[DailyStatistics]) -> str:
    """The results, in Markdown: the first day of each process, and the median of those after it."""
    rows = []
    for result in results:
        first, *later = result.days
        for what, days in (("the first day of a fresh process", [first]), ("a day after it (median)", later)):
            if not days:
                continue
            share = median(day.share for day in days)
            rows.append(
                [
                    result.stream,
                    what,
                    str(len(days)),
                    f"{median(day.events for day in days):,.0f}",
                    format_seconds(median(day.ingest_s for day in days)),
                    format_seconds(median(day.statistics_s for day in days)),
                    f"{share:.3f}: {'met' if share <= BAR else 'MISSED'}",
                ]
            )
    header = ["stream", "which day", "days", "events", "ingesting", "statistics", f"share (bar {BAR:g})"]
    return markdown_table(header, rows)
