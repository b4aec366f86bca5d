"""Raw files to events: the three layouts, whatever a day is cut into, and the real data."""

from __future__ import annotations

import gzip
import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cep_pipeline.events.columns import events_columns
from cep_pipeline.events.derived import Carry
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.schema import StreamSchema
from cep_pipeline.events.stream_document import Quality
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.events.raw import CHECKOUT, SHARED, trades
from tests.spark.ingester import (
    MONDAY,
    TUESDAY,
    WEDNESDAY,
    Ingester,
    events_of,
    ingest_day,
    quarantine_of,
    rows_of,
    write_day,
)
from tests.thoroughness import long_but
from tests.warehouse.published_days import publish_events, publish_quarantine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def on_either(either: SparkSession, tmp_path: Path) -> Ingester:
    """Ingests on a classic session, and then on a Connect server; into folders whose names Spark reads as patterns."""
    (folder := tmp_path / "_a{b}[c] *d").mkdir()
    return Ingester(either, folder)


# -- generated twins of the three layouts ------------------------------------------------------------------------------


def test_a_day_of_trades(ingest: Ingester) -> None:
    schema = trades(ingest.folder)
    rows = rows_of(MONDAY, 500, 1)
    write_day(ingest, MONDAY, rows)
    result = ingest.day(schema)
    assert (result.staged.status, result.staged.events, result.staged.rejected_rows) == ("events", 500, 0)
    (path,) = result.events_files
    assert Path(path).name.startswith("run-1-00000-0-")
    assert pq.read_schema(path).names == events_columns(schema.arrow_schema).names
    table = events_of(result)
    assert table.schema.remove_metadata() == events_columns(schema.arrow_schema)
    assert table.column("price").to_pylist() == [float(row.split(",")[2]) for row in rows]
    first = MONDAY.toordinal() * 2**40
    assert table.column("seq").to_pylist() == list(range(first, first + 500))
    assert set(table.column("day").to_pylist()) == {MONDAY}
    assert table.column("timestamp")[0].as_py() == datetime.fromisoformat(rows[0].split(",")[1]).replace(
        tzinfo=UTC
    ) + timedelta(hours=4)
    assert table.column("diff")[0].as_py() is None
    assert len(table.column("past")[499].as_py()) == 3
    assert result.staged.validation["success"] is True
    (raw_file,) = result.fingerprint.raw_files
    assert (raw_file.name, raw_file.size) == (
        "2013-10-07/trades.csv.gz",
        (ingest.data / "2013-10-07/trades.csv.gz").stat().st_size,
    )
    assert result.fingerprint.carry_in == Carry().digest
    assert ingest.scratch() == []


@pytest.mark.long
def test_the_profile_of_a_day_tells_of_all_its_ranges(on_either: Ingester) -> None:
    price = {"column": "price", "at_least": -2, "not_null": True, "severity": "warning"}
    quality = {"max_rejected_share": 0.5, "expectations": [{"column": "size", "at_least": 0}, price]}
    schema = trades(on_either.folder, quality=quality)
    rows = rows_of(MONDAY, 500, 1)
    for place, price in ((3, ""), (77, "nan"), (401, "-2.5")):
        symbol, time, _, size = rows[place].split(",")
        rows[place] = f"{symbol},{time},{price},{size}"
    write_day(on_either, MONDAY, [*rows, "SPY,1\n"])
    (result,) = on_either.days(schema, [MONDAY], task_rows=100)
    profile = result.staged.validation["profile"]
    assert len(result.staged.ranges) > 2
    expected = {"events": 500, "rejected": 1, "rejected_share": 1 / 501, "price_missing": 2, "price_nan": 1}
    expected |= {"price_outside": 1, "size_outside": 0}
    assert {name: profile[name] for name in expected} == pytest.approx(expected)


@pytest.mark.long
def test_headerless_minute_bars_of_two_files(ingest: Ingester) -> None:
    schema = StreamSchema.load(CHECKOUT / "streams" / "nasdaq_minute_bars.yaml")
    one = [f"MSFT,2008020109{minute:02},1,2,1,{minute + 1},10\n" for minute in range(20)]
    two = [f"AAPL,2008020109{minute:02},1,2,1,{minute + 1},10\n" for minute in range(20)]
    (ingest.data / "NASDAQ_MEDIUM.txt").write_text("".join(one) + "MSFT,2008020410100,1,1,1,1,1\n")
    (ingest.data / "NASDAQ_AAPL_AMZN_GOOG.txt").write_text("".join(two))
    schema = replace(schema, quality=Quality(max_rejected_share=0.1, expectations=schema.quality.expectations))
    result = ingest.day(schema, date(2008, 2, 1))
    table = events_of(result)
    # Equal instants are in order of the files' names.
    assert table.column("ticker").to_pylist() == ["AAPL", "MSFT"] * 20
    assert table.column("close_diff").to_pylist() == [None, None] + [1.0] * 38
    assert table.column("close_history")[39].as_py() == [float(value) for value in range(1, 21)]
    # A row without a usable time belongs to the first day that has a row.
    (rejected,) = quarantine_of(result)
    assert (rejected["day"], rejected["file"], rejected["line"]) == (date(2008, 2, 1), "NASDAQ_MEDIUM.txt", 21)


def traffic_month(days: range, sensors: int = 3) -> pa.Table:
    stamps, reports = [], []
    for day in days:
        for step in range(4):
            for sensor in range(sensors):
                stamps.append(datetime(2014, 8, day, step * 6))
                reports.append(sensor)
    count = len(stamps)
    return pa.table(
        {
            "report_id": pa.array(reports, pa.int32()),
            "timestamp": pa.array(stamps, pa.timestamp("ms")),
            "status": pa.array(["OK"] * count),
            "avg_speed": pa.array([index % 50 for index in range(count)], pa.int16()),
            "vehicle_count": pa.array([1] * count, pa.int16()),
            "avg_measured_time": pa.array([1] * count, pa.int32()),
            "median_measured_time": pa.array([1] * count, pa.int32()),
        }
    )


@pytest.mark.long
def test_a_month_of_parquet_by_day_loses_exactly_its_duplicates(on_either: Ingester) -> None:
    ingest = on_either
    schema = StreamSchema.load(CHECKOUT / "streams" / "aarhus_traffic.yaml")
    month = traffic_month(range(1, 6))
    again = month.take([0, 0, 15])
    outside = month.slice(0, 1).set_column(1, "timestamp", pa.array([datetime(2014, 9, 1)], pa.timestamp("ms")))
    pq.write_table(pa.concat_tables([month, again, outside]), ingest.data / "2014-08.parquet", row_group_size=7)
    schema = replace(schema, quality=Quality(max_rejected_share=0.5, expectations=schema.quality.expectations))
    days = [date(2014, 8, day) for day in range(1, 7)]
    results = ingest.days(schema, days, task_rows=20)
    assert [result.staged.events for result in results] == [12] * 5 + [0]
    assert [result.staged.rejected_rows for result in results] == [3, 1, 0, 0, 0, 0]
    assert [result.staged.status for result in results] == ["events"] * 5 + ["empty"]
    rejected = quarantine_of(*results)
    assert [(row["day"].day, row["line"]) for row in rejected] == [(1, 61), (1, 62), (1, 64), (2, 63)]
    assert rejected[0]["reason"].startswith(
        "repeated key (report_id=0, timestamp=2014-07-31 22:00:00+00:00): first in "
    )
    assert rejected[0]["reason"].endswith("2014-08.parquet on line 1")
    assert "outside the file's period, 2014-08-01 to 2014-08-31" in rejected[2]["reason"]
    assert {(row["file"]) for row in rejected} == {"2014-08.parquet"}
    # One day at a time gives the same files' contents.
    carry: Any = {}
    for result in results:
        alone = ingest.day(schema, result.staged.day, carry_in=carry)
        carry = alone.carry_out
        assert alone.carry_out == result.carry_out
        assert alone.fingerprint == result.fingerprint
        if result.staged.events:
            assert events_of(alone).equals(events_of(result))
        assert quarantine_of(alone) == quarantine_of(result)


@pytest.mark.long
@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet"])
def test_the_order_of_files_decides_the_same_however_a_day_is_cut(ingest: Ingester, form: str) -> None:
    """Times to the nanosecond, the end of summer time, and two files with events of different types at one time."""
    chosen = random.Random(8)
    begin = datetime(2024, 11, 3, 5, tzinfo=UTC)  # midnight in Chicago
    stamps = [begin + timedelta(seconds=3 * step) for step in range(9000)]
    digits = [chosen.randrange(1000) for _ in stamps]
    for place in range(0, len(stamps), 3):  # of three at one microsecond the nanoseconds say the order
        stamps[place + 1] = stamps[place + 2] = stamps[place]
    for name in ("trades", "quotes"):
        local = [at.astimezone(ZoneInfo("America/Chicago")).replace(tzinfo=None) for at in stamps]
        rows = range(len(stamps)) if name == "trades" else range(0, len(stamps), 30)
        path = ingest.data / f"{name}.{form}"
        if form == "parquet":
            nanoseconds = [np.datetime64(local[row], "ns") + digits[row] for row in rows]
            table = pa.table({"timestamp": pa.array(nanoseconds), "symbol": [name] * len(rows), "price": rows})
            pq.write_table(table, path, row_group_size=700)
            continue
        lines = [f"{name},{local[row].isoformat(timespec='microseconds')}{digits[row]:03},{row}\n" for row in rows]
        text = ("symbol,timestamp,price\n" + "".join(lines)).encode()
        path.write_bytes(gzip.compress(text, 1) if form == "csv.gz" else text)
    source = {"format": form[:7].removesuffix(".gz"), "path": f"*.{form}"}
    schema = trades(ingest.folder, timezone="America/Chicago", source=source, attributes=PRICED, quality=None)
    day = date(2024, 11, 3)
    (result,) = ingest.days(schema, [day], task_rows=1000)
    events = events_of(result)
    loaded = load_events(schema, sorted(ingest.data.iterdir()))
    assert events.select(loaded.events.column_names).to_pylist() == loaded.events.to_pylist()
    order = sorted(range(len(stamps)), key=lambda row: (stamps[row], digits[row], row))
    own = events.filter(pc.equal(events["symbol"], "trades"))
    assert own["price"].to_pylist() == order
    assert own["timestamp"].to_pylist() == [stamps[row] for row in order]
    first = 81 + (form != "parquet")
    quotes, traded = sorted(result.staged.notes)
    assert quotes.endswith(f"so that 40 of them, the first on line {first}, are taken as the second")
    assert f"trades.{form}: on 2024-11-03, at the end of summer time" in traded and "1,200 of them" in traded
    assert sorted(note.replace(f"{ingest.data}/", "") for note in loaded.notes) == sorted(result.staged.notes)


PRICED = {"symbol": "string", "price": "int64"}


def test_the_warehouse_takes_what_was_ingested(ingest: Ingester) -> None:
    schema = trades(ingest.folder)
    write_day(ingest, MONDAY, [*rows_of(MONDAY, 50, 1), "SPY,1\n"])
    warehouse = Warehouse.open(ingest.folder / "tables")
    tables = warehouse.stream(schema)
    result = ingest_day(
        ingest.spark,
        schema,
        MONDAY,
        ingest.data,
        events_directory=tables.events_directory(MONDAY, run_id="run-1"),
        quarantine_directory=tables.quarantine_directory(MONDAY, run_id="run-1"),
        scratch=ingest.folder / "scratch",
        carry_in=tables.carry_in(MONDAY),
    )
    with tables.day_lease(MONDAY, run_id="run-1") as lease:
        publish_quarantine(tables, MONDAY, result.quarantine_files, lease=lease, fingerprint=result.fingerprint)
        publish_events(
            tables,
            MONDAY,
            result.events_files,
            lease=lease,
            fingerprint=result.fingerprint,
            carry_out=result.carry_out,
            counts={"rejected": result.staged.rejected_rows},
        )
    assert tables.read_events(MONDAY, MONDAY).equals(events_of(result).drop_columns(["day"]))
    assert tables.read_quarantine().to_pylist() == quarantine_of(result)
    assert tables.carry_in(TUESDAY) == result.carry_out
    assert not tables.stale_days(schema=schema.digest)


# -- order, cuts and carry ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", long_but([[]], [[], ["symbol", "timestamp", "price", "size"], ["symbol", "price", "size"]])
)
def test_any_cut_into_files_runs_and_ranges_gives_the_same_day(ingest: Ingester, key: list[str]) -> None:
    schema = trades(ingest.folder, key=key, quality={"max_rejected_share": 1})
    rows = rows_of(MONDAY, 400, 2)
    random.Random(3).shuffle(rows)
    # The order of arrival is by file and line, so equal instants keep it.
    parts = [rows[:150], rows[150:151], rows[151:]]
    for number, part in enumerate(parts):
        write_day(ingest, MONDAY, part, f"trades{number}.csv.gz")
    cut = ingest.day(schema, task_rows=50)
    assert len(cut.events_files) > 1 or (key and "timestamp" not in key)
    whole = ingest.day(schema)
    assert events_of(cut).equals(events_of(whole))
    assert quarantine_of(cut) == quarantine_of(whole)
    expected, seen = [], set()
    for arrival, row in enumerate(rows):
        symbol, stamp, price, size = row.strip().split(",")
        identity = {"symbol": symbol, "timestamp": stamp, "price": price, "size": size}
        if key and tuple(identity[name] for name in key) in seen:
            continue
        seen.add(tuple(identity[name] for name in key))
        expected.append((stamp if "." in stamp else f"{stamp}.000000", arrival, symbol, float(price)))
    table = events_of(whole)
    assert list(zip(table.column("symbol").to_pylist(), table.column("price").to_pylist(), strict=True)) == [
        entry[2:] for entry in sorted(expected)
    ]


@pytest.mark.long
def test_values_are_carried_from_range_to_range_as_an_oracle_carries_them(on_either: Ingester) -> None:
    """Rows in no order, in three files, without prices and with times before 1900; of each type some carried values."""
    chosen = random.Random(11)
    day = date(1812, 3, 4)
    schema = trades(on_either.folder, timezone="UTC", quality=None)
    stamps = [datetime(1812, 3, 4) + timedelta(seconds=chosen.randrange(80_000)) for _ in range(2500)]
    rows = [(at, chosen.choice("ABCDE"), chosen.choice([None, chosen.randrange(99) / 4])) for at in stamps]
    for file in range(3):
        text = "".join(f"{kind},{at},{'' if price is None else price},1\n" for at, kind, price in rows[file::3])
        write_day(on_either, day, [text], f"trades{file}.csv.gz")
    last: dict[str, list[float]] = {"A": [1.0, 2.0, 3.0], "E": [7.0]}
    carry_in = {"version": 1, "last_values": {"price": last}}
    result = on_either.day(schema, day, carry_in=carry_in, task_rows=200)
    assert len(result.events_files) > 10
    arrived = [row for file in range(3) for row in rows[file::3]]
    expected = []
    for at, kind, price in sorted(arrived, key=lambda row: row[0]):
        before = last.setdefault(kind, [])
        diff = None if price is None or not before else price - before[-1]
        last[kind] = [*before, *([] if price is None else [price])]
        expected.append((at.replace(tzinfo=UTC), kind, price, diff, last[kind][-3:]))
    events = events_of(result)
    names = ("timestamp", "symbol", "price", "diff", "past")
    assert list(zip(*(events[name].to_pylist() for name in names), strict=True)) == expected
    seqs = events["seq"].to_pylist()
    assert seqs == list(range(day.toordinal() * 2**40, day.toordinal() * 2**40 + len(rows)))
    assert result.carry_out["last_values"]["price"] == {kind: values[-3:] for kind, values in sorted(last.items())}


@pytest.mark.long
def test_days_together_equal_days_one_by_one_over_a_gap(ingest: Ingester) -> None:
    schema = trades(ingest.folder, on_missing="skip")
    for day, count in ((MONDAY, 50), (WEDNESDAY, 60)):
        write_day(ingest, day, rows_of(day, count, day.day))
    together = ingest.days(schema, [MONDAY, TUESDAY, WEDNESDAY])
    assert [result.staged.status for result in together] == ["events", "skipped", "events"]
    monday = ingest.day(schema, MONDAY)
    wednesday = ingest.day(schema, WEDNESDAY, carry_in=monday.carry_out, earlier_row_counts=[monday.staged.events])
    assert events_of(*together).equals(events_of(monday, wednesday))
    assert together[2].carry_out == wednesday.carry_out
    assert together[2].fingerprint == wednesday.fingerprint
    assert together[2].staged.validation == wednesday.staged.validation
    assert events_of(wednesday).column("diff").null_count == 0


# -- the real data -----------------------------------------------------------------------------------------------------

real = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not beside the checkout")


@pytest.mark.long
@real
def test_all_trades_of_a_real_day_are_events_equal_rows_too(ingest: Ingester) -> None:
    schema = StreamSchema.load(CHECKOUT / "streams" / "us_equity_trades.yaml")
    result = ingest.day(schema, MONDAY, data=SHARED / "us_equity_trades")
    assert (result.staged.events, result.staged.rejected_rows, result.staged.warnings) == (388_417, 0, ())
    table = events_of(result)
    with gzip.open(SHARED / "us_equity_trades" / "2013-10-07" / "trades.csv.gz", "rt") as lines:
        prices = [float(line.split(",")[2]) for line in lines if not line.startswith('"symbol"')]
    assert table.column("price").to_pylist() == prices
    fields = list(schema.raw_attributes)
    distinct = table.group_by(["timestamp", *fields]).aggregate([]).num_rows
    assert 1 - distinct / 388_417 > 0.05


@pytest.mark.long
@real
def test_a_real_month_of_traffic_loses_exactly_its_duplicates(ingest: Ingester) -> None:
    schema = StreamSchema.load(CHECKOUT / "streams" / "aarhus_traffic.yaml")
    days = [date(2014, 8, day) for day in range(1, 32)]
    results = ingest.days(schema, days, data=SHARED / "aarhus_traffic")
    assert sum(result.staged.events for result in results) == 3_609_164 - 1_392
    rejected = quarantine_of(*results)
    assert len(rejected) == 1_392
    assert all(row["reason"].startswith("repeated key (report_id=") for row in rejected)


@pytest.mark.long
@real
def test_the_real_minute_bars(ingest: Ingester) -> None:
    schema = StreamSchema.load(CHECKOUT / "streams" / "nasdaq_minute_bars.yaml")
    result = ingest.day(schema, date(2008, 2, 1), data=SHARED / "nasdaq_minute_bars")
    assert (result.staged.events, result.staged.rejected_rows) == (1_652 + 1_365, 0)
    assert len(events_of(result).column("ticker").unique()) == 7
