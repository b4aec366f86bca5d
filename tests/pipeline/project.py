"""A small project in a folder: a stream of ticks with a file a day, patterns that reach over midnight, a warehouse."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.day import OPTIONS
from cep_pipeline.pipeline.day_work import LogObserver
from cep_pipeline.pipeline.run import PipelineRun, new_run_id
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MONDAY, TUESDAY, WEDNESDAY = (date(2024, 3, day) for day in (4, 5, 6))
DAYS = (MONDAY, TUESDAY, WEDNESDAY)

SCHEMA = """\
name: ticks
base_type: Tick
type_attribute: kind
timezone: America/New_York
timestamp: {column: time, format: iso}
attributes: {kind: string, x: int64}
derived: {diff: {diff: {of: x}}}
source: {format: csv, path: "{day:%Y-%m-%d}.csv"}
quality:
  max_rejected_share: 0.5
  expectations: [{column: x, at_least: 0, severity: critical}]
"""
PATTERNS = """\
NAME rising PATTERN SEQ(A a, B b, Tick c) WHERE a.x <= b.x AND b.x <= c.x WITHIN 1 hour RETURN b.diff AS step;
NAME pairs  PATTERN AND(A a, A b) WHERE a.x < b.x WITHIN 40 minutes TIES ANY;
NAME jumps  PATTERN Tick a WHERE a.diff > 1 WITHIN 1 second
"""
PIPELINE = """\
streams:
  ticks:
    schema: ticks.yaml
    data: raw
    pattern_sets:
      all: {file: all.sase}
"""
ROWS = {
    MONDAY: ["00:00:00,A,1", "00:10:00,B,3", "23:20:00,A,2", "23:30:00,A,4", "23:30:00,B,4", "23:59:59.999,B,5"],
    TUESDAY: ["00:00:00,Tick,6", "00:00:00,A,5", "00:20:00,B,9", "00:20:00,C,9", "12:00:00,A,1", "23:59:00,A,0"],
    WEDNESDAY: ["00:05:00,B,2", "00:10:00,A,3", "00:30:00,C,7", "00:30:00,A,3"],
}


@dataclass
class Project:
    """The folder, and runs in it on a shared Spark session."""

    folder: Path
    spark: SparkSession

    def write_day(self, day: date, rows: Sequence[str] | None = None) -> None:
        lines = [f"{day} {row}" for row in (ROWS[day] if rows is None else rows)]
        (self.folder / "raw").mkdir(exist_ok=True)
        (self.folder / "raw" / f"{day}.csv").write_text("\n".join(["time,kind,x", *lines, ""]))

    @property
    def configuration(self) -> Configuration:
        return Configuration.load(self.folder / "pipeline.yaml")

    def tables(self, warehouse: str = "warehouse") -> StreamTables:
        stream = self.configuration.stream("ticks")
        return Warehouse.open(self.folder / warehouse).stream(stream.schema)

    def run(
        self,
        *,
        warehouse: str = "warehouse",
        steps: frozenset[str] | None = None,
        redo: bool = False,
        run_id: str | None = None,
        end_of_stream: bool = False,
    ) -> PipelineRun:
        configuration = self.configuration
        stream = configuration.stream("ticks")
        return PipelineRun(
            stream,
            self.tables(warehouse),
            stream.pattern_sets,
            lambda: self.spark,
            LogObserver(),
            steps=frozenset(OPTIONS) if steps is None else steps,
            redo=redo,
            run_id=run_id or new_run_id(),
            end_of_stream=end_of_stream,
        )


def make_project(folder: Path, spark: SparkSession) -> Project:
    """Write the files of the project, the raw ones of all three days too."""
    (folder / "ticks.yaml").write_text(SCHEMA)
    (folder / "pipeline.yaml").write_text(PIPELINE)
    (folder / "all.sase").write_text(PATTERNS)
    project = Project(folder, spark)
    for day in DAYS:
        project.write_day(day)
    return project


def let_leases_run_out(location: Path) -> None:
    """What ten minutes do to the leases of dead runs: they are taken over, and then given up."""
    later = Warehouse.open(location, clock=lambda: time.time() + 600)
    for holder in later.leases():
        later.lease(holder.stream, holder.unit, run_id="ten-minutes-later").release()
    later.close()


def published(tables: StreamTables) -> dict[str, list[dict[str, object]]]:
    """What is published, row for row: events, rejected rows, matches."""
    return {
        "events": _rows(tables.read_events()),
        "quarantine": _rows(tables.read_quarantine()),
        "matches": _rows(tables.read_matches("all")),
    }


def _rows(table: pa.Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


def write_patterns(project: Project, texts: dict[str, str]) -> None:
    """Write statements, by their names, into the pattern file of the set `all`."""
    text = ";\n".join(f"NAME {name} {statement}" for name, statement in texts.items())
    (project.folder / "all.sase").write_text(text)
