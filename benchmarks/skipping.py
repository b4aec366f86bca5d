"""`cep bench skipping`: a pattern of rare types over published days whose files say which types they hold, and not."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measure import Progress
from benchmarks.report import markdown_table
from cep_pipeline.cli.terminal import format_seconds, times_as_fast
from cep_pipeline.errors import CepError
from cep_pipeline.events.columns import SEQ_PER_DAY, events_columns
from cep_pipeline.events.raw_files import RawFile
from cep_pipeline.events.type_spells import footer_of
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.day_work import SilentObserver
from cep_pipeline.pipeline.run import PipelineRun
from cep_pipeline.storage import write_data_file
from cep_pipeline.warehouse.fingerprints import EventsFingerprint

FIRST_DAY = date(2025, 1, 6)
SCHEMA = """\
name: trades
base_type: Trade
type_attribute: symbol
timestamp: {column: timestamp, format: iso}
attributes: {symbol: string, price: float64, size: int64}
source: {format: csv, path: "{day:%Y-%m-%d}.csv"}
"""
PATTERNS = """\
NAME halted PATTERN SEQ(HALT h, "S1" a, RESUME r) WHERE a.price > 100 WITHIN 1 minute;
NAME silent PATTERN SEQ(HALT h, ~RESUME r) WITHIN 1 minute
"""
_PIPELINE = """\
streams:
  trades: {schema: trades.yaml, data: raw, pattern_sets: {rare: {file: rare.sase}}}
warehouse: {location: WAREHOUSE}
"""


@dataclass(frozen=True)
class Workload:
    """Days of trades of 40 stocks, on some of which a stock is halted and resumed once."""

    days: int
    events: int
    every: int

    def day(self, number: int) -> tuple[date, pa.Table]:
        """The events of a day, always the same."""
        day = FIRST_DAY + timedelta(days=number)
        draw = np.random.default_rng(number)
        begin = int(datetime.combine(day, datetime.min.time(), UTC).timestamp()) * 1_000_000
        times = np.sort(draw.integers(begin, begin + 86_400_000_000, self.events))
        symbols = np.array([f"S{stock}" for stock in range(40)], dtype=object)[draw.integers(0, 40, self.events)]
        if number % self.every == 0:
            halted = int(draw.integers(self.events // 4, self.events // 2))
            resumed = int(np.searchsorted(times, times[halted] + 50_000_000))
            symbols[halted], symbols[resumed] = "HALT", "RESUME"
        return day, pa.table(
            {
                "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
                "seq": day.toordinal() * SEQ_PER_DAY + np.arange(self.events),
                "symbol": pa.array(symbols, pa.string()),
                "price": 100 + draw.normal(0, 1, self.events).round(2),
                "size": draw.integers(1, 9, self.events) * 100,
                "day": pa.repeat(pa.scalar(day, pa.date32()), self.events),
            }
        )


WORKLOADS = (Workload(60, 2_000, 20), Workload(3, 1_000_000, 1))


@dataclass(frozen=True)
class Detected:
    """Days that were detected: with summaries in their files or not, events read, matches, seconds on the wall."""

    workload: Workload
    summaries: bool
    read: int
    matches: int
    seconds: float


def measure_skipping(master: str, workloads: Sequence[Workload], progress: Progress) -> list[Detected]:
    """Detect the same days in two warehouses; one has files as earlier versions wrote them."""
    found = []
    for workload in workloads:
        pair = [_detect(workload, master, progress, summaries=summaries) for summaries in (False, True)]
        if pair[0].matches != pair[1].matches:
            raise CepError(f"{pair[1].matches:,} matches with summaries, and {pair[0].matches:,} without")
        found += pair
    return found


def _detect(workload: Workload, master: str, progress: Progress, *, summaries: bool) -> Detected:
    from cep_pipeline.spark.session import spark_session
    from cep_pipeline.warehouse.warehouse import Warehouse

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in (("trades.yaml", SCHEMA), ("rare.sase", PATTERNS), ("pipeline.yaml", _PIPELINE)):
            (folder / file).write_text(text.replace("WAREHOUSE", str(folder / "warehouse")), encoding="utf-8")
        configuration = Configuration.load(folder / "pipeline.yaml")
        stream = configuration.stream("trades")
        tables = Warehouse.open(configuration.warehouse_location).stream(stream.schema)
        progress.begin(f"publishing {workload.days} days of {workload.events:,} events", workload.days)
        for number in range(workload.days):
            day, events = workload.day(number)
            fingerprint = EventsFingerprint((RawFile(f"{day}.csv", len(events), str(number)),), "schema")
            footer = footer_of(events, stream.schema.type_attribute) if summaries else {}
            with tables.day_lease(day, run_id="publish") as lease:
                path = tables.events_directory(day, run_id="publish").file(0)
                written = write_data_file(path, events, events_columns(stream.schema), footer)
                draft = tables.draft_events(day, [written], run_id="publish", fingerprint=fingerprint, carry_out={})
                tables.publish(day, [draft.events], lease=lease)
            progress.advance()
        days = [record.day for record in tables.days()]
        spark = spark_session(master, app_name="cep bench skipping")
        detect = frozenset({"detect"})
        progress.begin("detecting", 1)
        sets = stream.pattern_sets
        run = PipelineRun(stream, tables, configuration.settings.spark, sets, lambda: spark, SilentObserver(), detect)
        run.run_days(days[:1])  # makes statistics and a plan, and starts workers
        begin = time.perf_counter()
        outcome = run.run_days(days[1:])
        seconds = time.perf_counter() - begin
        matches = sum(sum(day.matches["rare"].values()) for day in outcome.days)
        read = workload.events * (workload.days - 1) - outcome.skipped("rare")[1]
        return Detected(workload, summaries, read, matches, seconds)


def skipping_table(found: Sequence[Detected]) -> str:
    """The workloads in Markdown, without summaries and with them."""
    rows = []
    for without, summarised in zip(found[::2], found[1::2], strict=True):
        workload = without.workload
        rows.append(
            [
                f"{workload.days - 1}",
                f"{workload.events:,}",
                f"{without.matches:,}",
                f"{without.read:,}",
                f"{summarised.read:,}",
                f"{without.read / max(summarised.read, 1):.1f}x less",
                format_seconds(without.seconds),
                format_seconds(summarised.seconds),
                times_as_fast(without.seconds / summarised.seconds),
            ]
        )
    header = ["days", "events a day", "matches", "read without", "read with", "ratio", "without", "with", "x as fast"]
    return markdown_table(header, rows)
