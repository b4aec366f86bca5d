"""Detection day by day without Spark and without a catalog, so that many random streams can be tried.

`detect_day` is the product's; its tasks run one after another in this process, and the tables are a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from cep_pipeline.events.columns import SEQ_PER_DAY, events_columns
from cep_pipeline.events.raw_files import RawFile
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.patterns.pattern import Pattern
from cep_pipeline.pipeline.configuration import LimitSettings, PatternSet
from cep_pipeline.pipeline.day_work import DayWork
from cep_pipeline.spark import composing
from cep_pipeline.spark.detection import DetectedDay
from cep_pipeline.storage import DataDirectory, canonical_json, digest_of, write_data_file
from cep_pipeline.warehouse.records import EventsFile, EventsFingerprint, EventsSnapshot, PublishedDay, PublishedMatches
from cep_pipeline.warehouse.units import Drafts
from spark_jobs.detect import detect_day

FIRST_DAY = date(2024, 3, 4)


def in_order(_: Any, function: Callable[[Any, int], Any], tasks: Sequence[Any], **__: Any) -> list[Any]:
    """`run_tasks` in this process."""
    return [function(task, 0) for task in tasks]


class OneCore:
    """What is asked of a Spark session whose tasks run in this process."""

    conf: ClassVar[dict[str, str]] = {"spark.master": "local"}


@dataclass
class LocalDays:
    """A stream's days in a folder.

    Attributes
    ----------
    schema, patterns
        The stream and what is detected in it.
    folder
        Where files are written.
    row_group_size, slices, mechanism
        Events of a row group, slices of a day, and what finds the matches (None: the fastest that does).
    limits
        The limits of the patterns.
    """

    schema: StreamSchema
    patterns: tuple[Pattern, ...]
    folder: Path
    row_group_size: int = 2
    slices: int = 3
    version: str = "v1"
    mechanism: str | None = None
    days: dict[date, PublishedDay] = field(default_factory=dict)
    files: dict[date, EventsFile] = field(default_factory=dict)
    detected: dict[date, DetectedDay] = field(default_factory=dict)
    limits: LimitSettings = field(default_factory=LimitSettings)

    def publish_events(self, day: date, events: pa.Table) -> None:
        """Publish the events of a day; none is a day without a file."""
        self.files.pop(day, None)
        content = RawFile(f"{day}.csv", events.num_rows, str(events.to_pylist()))
        fingerprint = EventsFingerprint((content,), "schema")
        now = datetime.now(UTC)
        self.days[day] = PublishedDay(day, events.num_rows, 0, fingerprint, "", {}, "run", now, 1)
        self.days = dict(sorted(self.days.items()))
        if not events.num_rows:
            return
        path = self.folder / f"events-{day}.parquet"
        with_day = events.append_column("day", pa.array([day] * events.num_rows, pa.date32()))
        write_data_file(str(path), with_day, self.events_schema)
        plain = pq.read_table(path)
        pq.write_table(plain, path, row_group_size=self.row_group_size)
        times, seqs = events["timestamp"].cast(pa.int64()).to_pylist(), events["seq"].to_pylist()
        self.files[day] = EventsFile(
            str(path), day, events.num_rows, path.stat().st_size, (times[0], seqs[0]), (times[-1], seqs[-1])
        )

    def detect(self, day: date, *, end_of_stream: bool = False) -> DetectedDay:
        """Detect the matches of a day, with what the latest earlier detected day hands on."""
        stream: Any = SimpleNamespace(name="ticks", schema=SimpleNamespace(timezone="UTC", digest="schema"))
        tables: Any = self
        lease: Any = None
        work = DayWork(stream, tables, day, f"run-{day}", lease)
        pattern_set = PatternSet(
            "all",
            Path("all.sase"),
            tuple(pattern for pattern in self.patterns if not pattern.composes),
            self.version,
            "trivial",
            "throughput",
            self.mechanism,
            limits=self.limits,
            composing=tuple(pattern for pattern in self.patterns if pattern.composes),
        )
        spark: Any = OneCore()
        with (
            mock.patch("cep_pipeline.spark.detection.run_tasks", in_order),
            mock.patch.object(composing, "run_tasks", in_order),
            mock.patch("cep_pipeline.pipeline.detection.run_tasks", in_order),
            mock.patch("cep_pipeline.pipeline.detection.SLICES_A_CORE", self.slices),
        ):
            found = detect_day(spark, work, pattern_set, None, end_of_stream=end_of_stream)
        canonical_json(found.to_json())
        self.detected[day] = DetectedDay.from_json(found.to_json())
        return found

    def matches(self, days: Iterable[date] | None = None) -> dict[str, list[str]]:
        """The ids of the published matches, by pattern, day after day in the order of their files."""
        found: dict[str, list[str]] = {pattern.name: [] for pattern in self.patterns}
        for day in sorted(self.detected if days is None else days):
            for path in sorted(self.detected[day].files):
                for row in pq.read_table(path, partitioning=None).to_pylist():
                    assert row["final_day"] == day
                    found[row["pattern"]].append(row["match_id"])
        return found

    # -- what `detect_day` asks of the tables ------------------------------------------------------------------------

    @property
    def warehouse(self) -> Any:
        return SimpleNamespace(scratch=str(self.folder / "scratch"), location=str(self.folder))

    @property
    def events_schema(self) -> pa.Schema:
        return events_columns(self.schema.arrow_schema)

    def pin_events(self) -> EventsSnapshot:
        return EventsSnapshot(1, dict(self.days))

    def events_files(self, first: date | None, last: date, *, snapshot: EventsSnapshot) -> list[EventsFile]:
        return [file for day, file in sorted(self.files.items()) if (first is None or first <= day) and day <= last]

    def matches_carry_in(self, pattern_set: str, day: date) -> Mapping[str, Any]:
        earlier = [other for other in self.detected if other < day]
        return self.detected[max(earlier)].carry_out if earlier else {}

    drafts = Drafts()

    def matches_days(self, pattern_set: str) -> list[PublishedMatches]:
        return [
            PublishedMatches(
                pattern_set,
                day,
                sum(found.matches.values()),
                found.fingerprint,
                digest_of(found.carry_out),
                found.matches,
                "run",
                datetime.now(UTC),
                1,
                found.pending,
                found.limited,
            )
            for day, found in sorted(self.detected.items())
        ]

    def matches_directory(self, pattern_set: str, day: date, *, run_id: str) -> DataDirectory:
        return DataDirectory(str(self.folder / "matches" / str(day)), run_id)


def events_by_day(
    schema: StreamSchema, rows: Sequence[Mapping[str, Any]], gaps_hours: Sequence[float]
) -> dict[date, pa.Table]:
    """The events of rows at the running sums of the gaps, by day, with the seqs that ingestion gives; no empty days."""
    begin = datetime.combine(FIRST_DAY, datetime.min.time(), UTC)
    found: dict[date, list[dict[str, Any]]] = {}
    for row, gap in zip(rows, gaps_hours, strict=True):
        begin += timedelta(hours=gap)
        day = found.setdefault(begin.date(), [])
        seq = begin.date().toordinal() * SEQ_PER_DAY + len(day)
        day.append({**row, "timestamp": round(begin.timestamp()) * 1_000_000, "seq": seq})
    return {day: schema.table(rows) for day, rows in found.items()}
