"""Road sensors through the pipeline: the real month where it is beside the checkout, a written one everywhere.

What must be found is computed from the raw files by SQL that knows nothing of the pipeline.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.end_to_end.whole_streams import SHARED, found_seqs, real, run_stream, sort_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cep_pipeline.warehouse.stream_tables import StreamTables

# A sensor has thousands of readings a month: they are joined by quarters of an hour, each with itself and the next.
SLOTS = """
    WITH first AS (SELECT *, us // 900000000 AS slot FROM readings),
         later AS (FROM first UNION ALL SELECT * REPLACE (slot - 1 AS slot) FROM first)
"""
TRAFFIC_SQL = {
    "overload": f"""
        {SLOTS} SELECT a.seq, b.seq FROM first a JOIN later b USING (report_id, slot)
        WHERE a.seq < b.seq AND b.us - a.us <= 600000000 AND a.vehicle_count >= 10
          AND b.vehicle_count >= 2 * a.vehicle_count AND 2 * b.avg_speed < a.avg_speed AND b.avg_speed > 0
    """,
    "congestion_builds_up": f"""
        {SLOTS} SELECT a.seq, b.seq, c.seq
        FROM first a JOIN later b USING (report_id, slot) JOIN later c USING (report_id, slot)
        WHERE a.seq < b.seq AND b.seq < c.seq AND c.us - a.us <= 900000000
          AND a.avg_speed > b.avg_speed AND b.avg_speed > c.avg_speed AND a.avg_speed >= 50 AND c.avg_speed <= 20
    """,
}


def raw_readings(file: Path, days: Sequence[date]) -> tuple[pa.Table, int]:
    """The readings of some days, each (report_id, timestamp) once, with seq; and how many came again."""
    table = pq.read_table(file).to_pandas()
    # Local times of August: an hour has 3,600 seconds, and no time is there twice.
    table = table[table["timestamp"].dt.normalize().isin([datetime.combine(day, time()) for day in days])]
    first = table.drop_duplicates(["report_id", "timestamp"]).copy()
    repeated = len(table) - len(first)
    first = first.sort_values("timestamp", kind="stable")
    day = first["timestamp"].dt.normalize()
    first["us"] = first["timestamp"].astype("datetime64[us]").astype("int64")
    first["seq"] = (
        day.map({datetime.combine(day, time()): day.toordinal() for day in days}).astype("int64") * 2**40
        + first.groupby(day).cumcount()
    )
    return pa.Table.from_pandas(first, preserve_index=False), repeated


def check_readings(tables: StreamTables, readings: pa.Table, repeated: int) -> dict[str, int]:
    import duckdb

    events = tables.read_events()
    assert events.num_rows == readings.num_rows
    for column in ("seq", "report_id", "avg_speed", "vehicle_count"):
        assert (events[column].to_numpy() == readings[column].to_numpy()).all(), column
    rejected = tables.read_quarantine()["reason"].to_pylist()
    assert len(rejected) == repeated
    assert all(reason.startswith("repeated key (report_id=") for reason in rejected)
    counts = {}
    with duckdb.connect() as connection:
        connection.register("readings", readings)
        connection.execute("SET threads = 2")
        for pattern, sql in TRAFFIC_SQL.items():
            answer = connection.execute(sql).fetchnumpy()
            expected = sort_rows(np.column_stack(list(answer.values())).astype(np.int64))
            found = found_seqs(tables, "roads", pattern)
            assert len(found) == len(expected), pattern
            assert len(found) == 0 or (found == expected).all(), pattern
            counts[pattern] = len(found)
    return counts


@pytest.mark.long
@real
def test_real_days_of_traffic(tmp_path: Path, spark: SparkSession) -> None:
    data = SHARED / "aarhus_traffic"
    days = [date(2014, 8, day) for day in range(1, 4)]
    readings, repeated = raw_readings(data / "2014-08.parquet", days)
    assert readings.num_rows > 300_000
    _, tables = run_stream(tmp_path, spark, "aarhus_traffic", data, days)
    counts = check_readings(tables, readings, repeated)
    assert all(counts.values()), counts


@pytest.mark.long
@real
def test_the_real_month_of_traffic_loses_exactly_its_duplicates(tmp_path: Path, spark: SparkSession) -> None:
    days = [date(2014, 8, day) for day in range(1, 32)]
    outcome, tables = run_stream(tmp_path, spark, "aarhus_traffic", SHARED / "aarhus_traffic", days)
    assert sum(day.events or 0 for day in outcome.days) == 3_609_164 - 1_392
    rejected = tables.read_quarantine()["reason"].to_pylist()
    assert len(rejected) == 1_392
    assert all(reason.startswith("repeated key (report_id=") for reason in rejected)
    readings, repeated = raw_readings(SHARED / "aarhus_traffic" / "2014-08.parquet", days)
    assert repeated == 1_392
    check_readings(tables, readings, repeated)


@pytest.mark.long
def test_a_written_month_of_traffic(tmp_path: Path, spark: SparkSession) -> None:
    chance = random.Random(1)
    rows = [
        {
            "report_id": report,
            "timestamp": datetime(2014, 8, 1) + timedelta(minutes=5 * step),
            "status": "OK",
            "avg_speed": chance.randint(5, 80),
            "vehicle_count": chance.randint(0, 40),
            "avg_measured_time": 60,
            "median_measured_time": 60,
        }
        for step in range(2 * 288)
        for report in (158_324, 158_355, 158_386)
    ]
    again = [dict(chance.choice(rows), avg_speed=99) for _ in range(7)]
    schema = pa.schema(
        [
            ("report_id", pa.int32()),
            ("timestamp", pa.timestamp("ms")),
            ("status", pa.string()),
            ("avg_speed", pa.int16()),
            ("vehicle_count", pa.int16()),
            ("avg_measured_time", pa.int32()),
            ("median_measured_time", pa.int32()),
        ]
    )
    (tmp_path / "raw").mkdir()
    file = tmp_path / "raw" / "2014-08.parquet"
    pq.write_table(pa.Table.from_pylist(rows + again, schema=schema), file, row_group_size=500)
    days = [date(2014, 8, 1), date(2014, 8, 2)]
    readings, repeated = raw_readings(file, days)
    assert repeated == 7
    _, tables = run_stream(tmp_path, spark, "aarhus_traffic", tmp_path / "raw", days)
    counts = check_readings(tables, readings, repeated)
    assert all(counts.values()), counts
