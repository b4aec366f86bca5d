"""Runs over streams that are Iceberg tables: events are those of files, and late snapshots make days stale."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from pyiceberg.types import LongType

from cep_pipeline.errors import InputError
from cep_pipeline.pipeline.run import days_with_files, find_stale_days, has_files
from tests.lake import Lake, delete_rows, ticks
from tests.pipeline.project import DAYS, MONDAY, SCHEMA, TUESDAY, WEDNESDAY, Project, published

if TYPE_CHECKING:
    from cep_pipeline.pipeline.configuration import Stream

ROWS = {  # UTC, which is five hours ahead of the days
    MONDAY: ["2024-03-04T05:00:00,A,1", "2024-03-04T15:00:00,B,3", "2024-03-05T04:59:59,A,-7"],
    TUESDAY: [
        "2024-03-05T05:00:00,A,5",
        "2024-03-05T06:00:00,A,9",
        "2024-03-05T06:00:00,A,4",
        "2024-03-06T04:00:00,,2",
    ],
    WEDNESDAY: ["2024-03-06T06:00:00,B,2"],
}
INGEST = frozenset({"ingest"})


@pytest.fixture
def lake(project: Project) -> Lake:
    """The lake that the stream of the project reads, a data file a day."""
    lake = Lake(project.folder)
    lake.create()
    for day in DAYS:
        lake.table.append(ticks(*ROWS[day]))
    write_schema(project, lake.source())
    return lake


def write_schema(project: Project, source: dict[str, Any], **changes: Any) -> None:
    """Write the schema of the stream; it needs no folder of data."""
    document = {**yaml.safe_load(SCHEMA), "quality": {"max_rejected_share": 0.9}, "source": source, **changes}
    (project.folder / "ticks.yaml").write_text(yaml.safe_dump(document))


def stream(project: Project) -> Stream:
    return project.configuration.stream("ticks")


def stale(project: Project) -> list[date]:
    return [one.day for one in find_stale_days(stream(project), project.tables()) if one.step == "ingest"]


def test_the_events_of_a_table_are_those_of_the_same_rows_in_parquet_files(project: Project, lake: Lake) -> None:
    pipeline = yaml.safe_load((project.folder / "pipeline.yaml").read_text())
    del pipeline["streams"]["ticks"]["data"]
    (project.folder / "pipeline.yaml").write_text(yaml.safe_dump(pipeline))
    assert days_with_files(stream(project)) == list(DAYS)
    assert has_files(stream(project), MONDAY) and not has_files(stream(project), date(2024, 3, 8))
    outcome = project.run(warehouse="of_table").run_days(DAYS)
    assert [(day.events, day.rejected) for day in outcome.days] == [(3, 0), (3, 1), (1, 0)]
    found = published(project.tables("of_table"))
    (rejected,) = found["quarantine"]
    assert (rejected["line"], rejected["reason"]) == (4, "missing event type (column 'kind')")
    for day in DAYS:
        (project.folder / "raw" / f"{day}.csv").unlink()
        # The rows of a table have no order: those of equal time are in that of their values.
        pq.write_table(
            ticks(*ROWS[day]).sort_by([(name, "ascending") for name in ("time", "kind", "x")]),
            project.folder / "raw" / f"{day}.parquet",
        )
    write_schema(project, {"format": "parquet", "path": "{day:%Y-%m-%d}.parquet"})
    pipeline["streams"]["ticks"]["data"] = "raw"
    (project.folder / "pipeline.yaml").write_text(yaml.safe_dump(pipeline))
    project.run(warehouse="of_files").run_days(DAYS)
    of_files = published(project.tables("of_files"))
    assert found["events"] == of_files["events"] and len(found["events"]) == 7
    assert found["matches"] == of_files["matches"] and len(found["matches"]) > 1


def test_a_late_snapshot_makes_the_days_stale_that_it_touched(project: Project, lake: Lake) -> None:
    project.run(steps=INGEST).run_days(DAYS)
    assert stale(project) == []
    with lake.table.update_schema() as update:
        update.add_column("note", LongType())
    lake.table.append(ticks("2024-03-08T12:00:00,A,1"))
    assert stale(project) == [], "a column that is not read, and a day that is not published"
    lake.table.append(ticks("2024-03-05T12:00:00,B,6"))
    assert stale(project) == [TUESDAY]
    assert [day.day for day in project.run(steps=INGEST).run_stale().days][:1] == [TUESDAY]
    assert stale(project) == []
    (of_monday, *_) = [one.name for one in project.tables().days()[0].fingerprint.raw_files]
    delete_rows(lake.table, f"{lake.table.location()}/{of_monday}", [2])
    assert stale(project) == [MONDAY]
    project.run(steps=INGEST).run_stale()
    lake.table.overwrite(ticks("2024-03-06T06:00:00,B,3"), "time >= '2024-03-06T05:00:00+00:00' and x = 2")
    assert stale(project) == [WEDNESDAY]
    project.run(steps=INGEST).run_stale()
    assert stale(project) == []
    events = project.tables().read_events()
    assert events["x"].to_pylist() == [1, 3, 5, 4, 9, 6, 3]


def test_a_day_whose_rows_are_deleted_is_stale_and_redoing_it_says_what_is_missing(
    project: Project, lake: Lake
) -> None:
    project.run(steps=INGEST).run_days(DAYS)
    lake.table.delete("time >= '2024-03-06T05:00:00+00:00'")
    assert stale(project) == [WEDNESDAY]
    with pytest.raises(InputError, match=r"day 2024-03-06: no row in table market\.ticks; .* days without rows"):
        project.run(steps=INGEST).run_stale()
    write_schema(project, lake.source(), on_missing="empty")
    project.run(steps=INGEST).run_stale()
    assert stale(project) == [] and [one.events for one in project.tables().days()] == [3, 3, 0]


@pytest.mark.long
@pytest.mark.parametrize("key", [["kind", "timestamp"], []])
def test_after_a_compaction_the_same_events_are_published(project: Project, lake: Lake, key: list[str]) -> None:
    write_schema(project, lake.source(), key=key)
    more = [f"2024-03-05T0{6 + number % 3}:00:00,{'AB'[number % 2]},{number * 7 % 10}" for number in range(20)]
    lake.table.append(ticks(*more[:9]))
    lake.table.append(ticks(*more[9:]))
    project.run(steps=INGEST).run_days(DAYS)
    before = published(project.tables())
    rows = lake.table.scan().to_arrow()
    lake.table.overwrite(rows.take(pa.array(range(rows.num_rows - 1, -1, -1))))
    assert TUESDAY in stale(project)
    project.run(steps=INGEST).run_stale()
    after = published(project.tables())
    assert after["events"] == before["events"] and len(before["events"]) == (11 if key else 27)
    assert len(after["quarantine"]) == len(before["quarantine"])
    assert stale(project) == []
    assert pc.count_distinct(rows["time"]).as_py() < rows.num_rows, "no time comes twice: the test tests nothing"
