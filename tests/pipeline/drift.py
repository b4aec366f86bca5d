"""A stream whose rates drift, published day by day without Spark: on the first days C is rare, then A is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from cep_pipeline.events.columns import SEQ_PER_DAY
from cep_pipeline.events.raw_files import RawFile
from cep_pipeline.events.timestamps import day_bounds
from cep_pipeline.pipeline.configuration import Configuration, PatternSet, Stream
from cep_pipeline.pipeline.plans import record_plan
from cep_pipeline.statistics.estimate import windowed_statistics
from cep_pipeline.storage import digest_of, write_data_file
from cep_pipeline.warehouse.records import DayStatistics, EventsFingerprint
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.pipeline.project import PIPELINE, SCHEMA
from tests.warehouse.published_days import publish_events, publish_statistics

FIRST = date(2024, 3, 4)
DRIFT_DAYS = [FIRST + timedelta(days=number) for number in range(5)]
PATTERNS = "NAME rising PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 10 minutes"
C_IS_RARE = {"A": 300, "B": 100, "C": 20}
A_IS_RARE = {"A": 20, "B": 100, "C": 300}
COUNTS = dict(zip(DRIFT_DAYS, (C_IS_RARE, C_IS_RARE, A_IS_RARE, A_IS_RARE, C_IS_RARE), strict=True))


Counts = Mapping[date, Mapping[str, int]]
"""How many ticks of each kind a day has."""


def drifting_ticks(day: date, counts: Counts = COUNTS) -> list[tuple[int, str, int]]:
    """Second of the day, kind and x of ticks over eight hours, so many of each kind as the day has."""
    random = Random(day.toordinal())
    kinds = [kind for kind, number in counts[day].items() for _ in range(number)]
    times = sorted(9 * 3600 + random.randrange(8 * 3600) for _ in kinds)
    random.shuffle(kinds)
    return [(time, kind, random.randrange(1000)) for time, kind in zip(times, kinds, strict=True)]


def drifting_rows(day: date, counts: Counts = COUNTS) -> list[str]:
    """The same as rows of a raw file."""
    return [
        f"{time // 3600:02}:{time // 60 % 60:02}:{time % 60:02},{kind},{x}"
        for time, kind, x in drifting_ticks(day, counts)
    ]


def write_project(folder: Path, settings: str = "") -> None:
    """Schema, patterns and configuration, the latter with these settings of `adaptation:`, as in `{k: 2}`."""
    (folder / "ticks.yaml").write_text(SCHEMA)
    (folder / "all.sase").write_text(PATTERNS)
    (folder / "pipeline.yaml").write_text(PIPELINE + (f"adaptation: {settings}\n" if settings else ""))


@dataclass
class DriftingStream:
    """A project in a folder, and its days as the daily run would publish them."""

    folder: Path
    counts: Counts = field(default_factory=lambda: COUNTS)

    @property
    def stream(self) -> Stream:
        return Configuration.load(self.folder / "pipeline.yaml").stream("ticks")

    @property
    def pattern_set(self) -> PatternSet:
        return self.stream.pattern_sets[0]

    @cached_property
    def tables(self) -> StreamTables:
        return Warehouse.open(self.folder / "warehouse").stream(self.stream.schema)

    def publish(self, days: Iterable[date]) -> None:
        """Events, statistics, and a plan where there is none."""
        for day in days:
            self.publish_events(day)
            snapshot = self.publish_statistics(day)
            if self.tables.current_plan("all") is None:
                made = self.pattern_set, snapshot
                record_plan(self.tables, *made, in_place_of=None, run_id="first", reason="first plan")

    def publish_events(self, day: date) -> None:
        """The events of a day; those that are the same have the same fingerprint."""
        tables = self.tables
        midnight = datetime.combine(day, datetime.min.time(), ZoneInfo("America/New_York"))
        ticks = drifting_ticks(day, self.counts)
        columns: Mapping[str, Any] = {
            "timestamp": [midnight + timedelta(seconds=time) for time, _, _ in ticks],
            "seq": [day.toordinal() * SEQ_PER_DAY + place for place in range(len(ticks))],
            "kind": [kind for _, kind, _ in ticks],
            "x": [x for _, _, x in ticks],
            "diff": [0] * len(ticks),
            "day": [day] * len(ticks),
        }
        table = pa.table({field.name: pa.array(columns[field.name], field.type) for field in tables.events_schema})
        fingerprint = EventsFingerprint((RawFile(f"{day}.csv", len(ticks), digest_of(str(ticks))),), "schema")
        with tables.day_lease(day, run_id="publish") as lease:
            directory = tables.events_directory(day, run_id="publish")
            file = write_data_file(directory.file(0), table, tables.events_schema)
            publish_events(tables, day, [file], lease=lease, fingerprint=fingerprint, carry_out={})

    def publish_statistics(self, day: date) -> Any:
        """The statistics of a published day."""
        tables, settings = self.tables, self.stream.statistics
        start, end = day_bounds(day, self.stream.schema.timezone)
        events = tables.read_events(None, day)
        state = windowed_statistics(self.pattern_set.patterns, events, settings.length, settings.epsilon)
        snapshot = state.business_day(start, end)
        published = next(record for record in tables.days() if record.day == day)
        basis = {"events": published.fingerprint.digest, "window": settings.window, "epsilon": settings.epsilon}
        with tables.day_lease(day, run_id="publish") as lease:
            made = DayStatistics(snapshot.to_json(), basis=basis)
            publish_statistics(tables, day, {"all": made}, lease=lease)
        return snapshot
