"""Parts of a published stream, by their points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.pipeline.statistics import PublishedEvents
from cep_pipeline.slices.ownership import LookBack
from tests.pipeline.local_days import LocalDays, events_by_day

SCHEMA = StreamSchema.from_dict({"base_type": "Ev", "type_attribute": "k", "attributes": {"k": "string"}}, name="ticks")


def published(folder: Path, gaps_hours: list[float]) -> tuple[PublishedEvents, list[tuple[int, int]]]:
    """Days of events at the running sums of the gaps, and all their points."""
    days = LocalDays(SCHEMA, (), folder, row_group_size=3)
    tables: list[pa.Table] = []
    for day, events in events_by_day(SCHEMA, [{"k": "A"}] * len(gaps_hours), gaps_hours).items():
        days.publish_events(day, events)
        tables.append(events)
    whole = pa.concat_tables(tables)
    points = list(zip(whole["timestamp"].cast(pa.int64()).to_pylist(), whole["seq"].to_pylist(), strict=True))
    reader: Any = days
    return PublishedEvents.pin(reader, "UTC"), points


def test_a_window_of_time_may_reach_back_before_all_dates(tmp_path: Path) -> None:
    events, points = published(tmp_path, [1.0, 50.0, 3.0])
    last = max(events.snapshot.days)
    first = events.first_day(last, points[-1][0], LookBack(time_us=2**62))
    assert first is not None and first.year == 1
    assert sum(group.rows for group in events.row_groups(first, last)) == 3
