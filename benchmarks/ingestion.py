"""`cep bench ingestion`: raw files of generated days to published events, start-up and imports aside."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from benchmarks.measure import Progress
from benchmarks.report import Timing, markdown_table
from cep_pipeline.cli.terminal import format_seconds
from cep_pipeline.errors import CepError
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.generate import generate_days
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.day_work import SilentObserver
from cep_pipeline.pipeline.run import PipelineRun

DAYS = tuple(date(2025, 1, day) for day in (6, 7, 8, 9))
EVENTS_PER_DAY = 400_000
BAR_PER_S = 200_000
"""Events a second on 4 cores that are wanted."""

SCHEMA = """\
name: generated_trades
timezone: America/New_York
base_type: Trade
type_attribute: symbol
timestamp: {column: timestamp, format: iso}
attributes: {symbol: string, price: float64, size: int64, exchange: string, suspicious: bool}
derived: {diff: {diff: {of: price}}}
source: {format: csv, path: "{day:%Y-%m-%d}/trades.csv.gz"}
quality:
  expectations:
    - {column: price, above: 0, severity: critical}
    - {column: size, above: 0, severity: critical}
"""
_PIPELINE = """\
streams:
  generated_trades: {schema: trades.yaml, data: raw}
warehouse: {location: WAREHOUSE}
"""


@dataclass(frozen=True)
class IngestionResult:
    """Days that were ingested together, and the seconds of repeated runs, each into a warehouse of its own."""

    days: int
    events: int
    raw_bytes: int
    timing: Timing


def trades_schema(folder: Path) -> StreamSchema:
    """The schema of the generated trades, written to a folder and read from there."""
    path = folder / "trades.yaml"
    path.write_text(SCHEMA, encoding="utf-8")
    return StreamSchema.load(path)


def measure_ingestion(master: str, repetitions: int, progress: Progress) -> IngestionResult:
    """Ingest, validate, preprocess and publish generated days several times, after a run that starts the workers.

    Another number of events than were generated is a CepError.
    """
    from cep_pipeline.spark.session import spark_session
    from cep_pipeline.warehouse.warehouse import Warehouse

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trades_schema(folder)
        progress.begin(f"making {len(DAYS)} days of about {EVENTS_PER_DAY:,} trades, and starting Spark", 1)
        made = generate_days(folder / "raw", DAYS, stocks=16, events_per_day=EVENTS_PER_DAY)
        events = sum(day.events for day in made)
        raw_bytes = sum(day.path.stat().st_size for day in made if day.path is not None)
        spark = spark_session(master, app_name="cep bench ingestion")
        seconds = []
        progress.begin(f"ingestion of {len(DAYS)} days", repetitions + 1)
        for repetition in range(repetitions + 1):
            path = folder / f"pipeline-{repetition}.yaml"
            path.write_text(_PIPELINE.replace("WAREHOUSE", f"warehouse-{repetition}"), encoding="utf-8")
            configuration = Configuration.load(path)
            stream = configuration.stream("generated_trades")
            tables = Warehouse.open(configuration.warehouse_location).stream(stream.schema)
            run = PipelineRun(
                stream, tables, configuration.settings.spark, (), lambda: spark, SilentObserver(), frozenset({"ingest"})
            )
            begin = time.perf_counter()
            run.run_days(DAYS)
            taken = time.perf_counter() - begin
            published = sum(record.events for record in tables.days())
            if published != events:
                raise CepError(f"{published:,} events are published of {events:,} that were generated")
            progress.advance()
            if repetition:
                seconds.append(taken)
        return IngestionResult(len(DAYS), events, raw_bytes, Timing(f"Spark {master}", tuple(seconds)))


def ingestion_table(result: IngestionResult) -> str:
    """The result with its bar, in Markdown."""
    per_s = result.events / result.timing.median
    verdict = f"{BAR_PER_S / 1e3:g} k: {'met' if per_s >= BAR_PER_S else 'MISSED'}"
    return markdown_table(
        ["days", "events", "gzipped", "engine", "n", "median", "spread", "events/s", "bar on 4 cores"],
        [
            [
                str(result.days),
                f"{result.events:,}",
                f"{result.raw_bytes / 1e6:.1f} MB",
                result.timing.engine,
                str(len(result.timing.seconds)),
                format_seconds(result.timing.median),
                f"{result.timing.spread:.0%}",
                f"{per_s / 1e3:.0f} k",
                verdict,
            ]
        ],
    )
