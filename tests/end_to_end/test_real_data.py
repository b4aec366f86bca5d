"""Whole streams through the pipeline: real ones where they are beside the checkout, and generated twins everywhere.

What must be found is computed from the raw files by other means: SQL and plain loops that know nothing of the pipeline.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from cep_pipeline.generate import generate_days
from cep_pipeline.pipeline.configuration import Configuration
from cep_pipeline.pipeline.observer import SilentObserver
from cep_pipeline.pipeline.outcomes import RunOutcome
from cep_pipeline.pipeline.run import STEPS, PipelineRun
from cep_pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cep_pipeline.warehouse.stream_tables import StreamTables

CHECKOUT = Path(__file__).parents[2]
SHARED = CHECKOUT.parent / "shared" / "data"
real = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not beside the checkout")


def run_stream(
    folder: Path,
    spark: SparkSession,
    name: str,
    data: Path,
    days: Sequence[date],
    steps: Iterable[str] = STEPS,
) -> tuple[RunOutcome, StreamTables]:
    """Run days of a stream of the checkout's pipeline.yaml into a warehouse of its own."""
    configuration = Configuration.load(CHECKOUT / "pipeline.yaml")
    stream = configuration.stream(name, data=data)
    tables = Warehouse.open(folder / "warehouse").stream(stream.schema)
    run = PipelineRun(
        stream,
        tables,
        configuration.settings.spark,
        stream.pattern_sets,
        lambda: spark,
        SilentObserver(),
        steps=frozenset(steps),
    )
    return run.run_days(days), tables


def found_seqs(tables: StreamTables, pattern_set: str, pattern: str) -> np.ndarray:
    """The seqs of all published matches of a pattern: one row a match, variables in the pattern's order, sorted."""
    matches = tables.read_matches(pattern_set, pattern=pattern)
    bindings = matches["bindings"].combine_chunks()
    if not len(bindings):
        return np.empty((0, 0), dtype=np.int64)
    seqs = bindings.flatten().field("seq").to_numpy()
    return sort_rows(seqs.reshape(len(bindings), -1))


def sort_rows(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T[::-1])]


# -- trades ------------------------------------------------------------------------------------------------------------

TRADES_SQL = {
    "sweep_across_exchanges": """
        SELECT a.seq, b.seq FROM trades a JOIN trades b USING (symbol, price, size)
        WHERE a.seq < b.seq AND b.us - a.us <= {window_us} AND a.exchange <> b.exchange AND size >= {size}
    """,
    "iceberg": """
        SELECT a.seq, b.seq, c.seq
        FROM trades a JOIN trades b USING (symbol, exchange, price, size)
             JOIN trades c USING (symbol, exchange, price, size)
        WHERE a.seq < b.seq AND b.seq < c.seq AND c.us - a.us <= {window_us} AND size >= {size}
    """,
    "index_divergence": """
        SELECT s.seq, i.seq
        FROM (SELECT * FROM trades WHERE symbol = 'SPY' AND diff > 0 AND size >= {size}) s
        JOIN (SELECT * FROM trades WHERE symbol = 'IBM' AND diff < -0.02::DOUBLE AND size >= 200) i
          ON i.us BETWEEN s.us - 250000 AND s.us + 250000
    """,
    "financials_follow_index": """
        SELECT s.seq, b.seq, a.seq
        FROM (SELECT * FROM trades WHERE symbol = 'SPY' AND diff <= {fall}::DOUBLE) s
        JOIN (SELECT * FROM trades WHERE symbol = 'BAC' AND diff <= -0.01::DOUBLE) b
          ON b.seq > s.seq AND b.us <= s.us + 1000000
        JOIN (SELECT * FROM trades WHERE symbol = 'AIG' AND diff <= -0.01::DOUBLE) a
          ON a.seq > b.seq AND a.us <= s.us + 1000000
    """,
}
"""Matches of patterns in SQL, written from the patterns' text; the numbers differ between the two pattern files."""
REAL_NUMBERS = {
    "sweep_across_exchanges": {"window_us": 50_000, "size": 2500},
    "iceberg": {"window_us": 50_000, "size": 1500},
    "index_divergence": {"size": 1000},
    "financials_follow_index": {"fall": -0.02},
}
GENERATED_NUMBERS = {
    "sweep_across_exchanges": {"window_us": 1_000_000, "size": 300},
    "iceberg": {"window_us": 2_000_000, "size": 200},
    "index_divergence": {"size": 200},
    "financials_follow_index": {"fall": -0.05},
}


def raw_trades(data: Path, days: Sequence[date]) -> pa.Table:
    """The trades of the raw files in order, with microseconds, seq and the difference to the stock's trade before."""
    parts = []
    for day in days:
        options = pa_csv.ConvertOptions(
            column_types={
                "timestamp": pa.timestamp("us"),
                "symbol": pa.string(),
                "price": pa.float64(),
                "size": pa.int64(),
                "exchange": pa.string(),
            }
        )
        table = pa_csv.read_csv(data / str(day) / "trades.csv.gz", convert_options=options)
        us = table["timestamp"].cast(pa.int64()).to_numpy()
        assert (np.diff(us) >= 0).all()
        seqs = day.toordinal() * 2**40 + np.arange(len(table))
        parts.append(table.append_column("us", pa.array(us)).append_column("seq", pa.array(seqs)))
    table = pa.concat_tables(parts).combine_chunks()
    symbols, prices = table["symbol"].to_numpy(zero_copy_only=False), table["price"].to_numpy()
    diffs = np.full(len(table), np.nan)
    for symbol in set(symbols.tolist()):
        rows = np.flatnonzero(symbols == symbol)
        diffs[rows[1:]] = np.diff(prices[rows])
    # from_pandas: the first trade of a stock has no difference, which is a null
    return table.append_column("diff", pa.array(diffs, from_pandas=True))


def check_trades(tables: StreamTables, trades: pa.Table, numbers: dict[str, dict[str, float]]) -> dict[str, int]:
    """Compare published events and matches with the raw files; returns the number of matches of each pattern."""
    import duckdb

    events = tables.read_events()
    assert events["seq"].equals(trades["seq"])
    for column in ("symbol", "price", "size", "exchange"):
        assert events[column].cast(trades[column].type).equals(trades[column]), column
    assert pc.max(pc.abs(pc.subtract(events["diff"], trades["diff"]))).as_py() == 0.0
    assert events["diff"].null_count == trades["diff"].null_count
    assert tables.read_quarantine().num_rows == 0
    counts: dict[str, int] = {}
    with duckdb.connect() as connection:
        connection.register("trades", trades)
        connection.execute("SET threads = 2")
        for pattern, sql in TRADES_SQL.items():
            answer = connection.execute(sql.format(**numbers[pattern])).fetchnumpy()
            expected = sort_rows(np.column_stack(list(answer.values())).astype(np.int64))
            found = found_seqs(tables, "market", pattern)
            assert len(found) == len(expected), pattern
            assert len(found) == 0 or (found == expected).all(), pattern
            counts[pattern] = len(found)
    return counts


REAL_DAYS = {date(2013, 10, 7): 388_417, date(2013, 10, 8): 654_140, date(2013, 10, 9): 641_559}


@real
def test_three_real_days_of_trades(tmp_path: Path, spark: SparkSession) -> None:
    data = SHARED / "us_equity_trades"
    outcome, tables = run_stream(tmp_path, spark, "us_equity_trades", data, list(REAL_DAYS))
    assert {day.day: day.events for day in outcome.days} == REAL_DAYS
    assert all(day.rejected == 0 for day in outcome.days)
    totals = {
        name: sum(day.matches["market"][name] for day in outcome.days) for name in outcome.days[0].matches["market"]
    }
    assert len(totals) >= 6 and all(totals.values()), totals
    counts = check_trades(tables, raw_trades(data, list(REAL_DAYS)), REAL_NUMBERS)
    assert counts == {name: totals[name] for name in counts}


def test_generated_days_of_trades(tmp_path: Path, spark: SparkSession) -> None:
    days = [date(2025, 1, 6), date(2025, 1, 7)]
    generate_days(tmp_path / "raw", days, stocks=4, events_per_day=8_000)
    _, tables = run_stream(tmp_path, spark, "generated_trades", tmp_path / "raw", days)
    counts = check_trades(tables, raw_trades(tmp_path / "raw", days), GENERATED_NUMBERS)
    assert all(counts.values()), counts


# -- road sensors ------------------------------------------------------------------------------------------------------

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


# -- minute bars -------------------------------------------------------------------------------------------------------

BARS = ("NASDAQ_MEDIUM.txt", "NASDAQ_AAPL_AMZN_GOOG.txt")
BARS_DAY = date(2008, 2, 1)
Bar = dict[str, Any]


def raw_bars(data: Path) -> list[Bar]:
    """The bars of both files in stream order: by minute, then file name, then row."""
    bars = []
    for name in sorted(BARS):
        for line in (data / name).read_text().split():
            ticker, minute, _, peak, _, close, volume = line.split(",")
            when = datetime.strptime(minute, "%Y%m%d%H%M")
            bars.append(
                {"ticker": ticker, "when": when, "peak": float(peak), "close": float(close), "volume": int(volume)}
            )
    bars.sort(key=lambda bar: bar["when"])
    last: dict[object, float] = {}
    for position, bar in enumerate(bars):
        bar["seq"] = BARS_DAY.toordinal() * 2**40 + position
        close = bar["close"]
        bar["diff"] = close - last[bar["ticker"]] if bar["ticker"] in last else None
        last[bar["ticker"]] = close
    return bars


def pairs_of_bars(bars: list[Bar], minutes: int):  # type: ignore[no-untyped-def]
    """Pairs of bars, the second of a later minute and within so many of the first (TIES STRICT)."""
    for index, a in enumerate(bars):
        for b in bars[index + 1 :]:
            if b["when"] - a["when"] > timedelta(minutes=minutes):
                break
            if b["when"] > a["when"]:
                yield a, b


def check_bars(tables: StreamTables, data: Path) -> dict[str, int]:
    bars = raw_bars(data)
    events = tables.read_events()
    assert events["ticker"].to_pylist() == [bar["ticker"] for bar in bars]
    assert events["close"].to_pylist() == [bar["close"] for bar in bars]
    assert events["close_diff"].to_pylist() == [bar["diff"] for bar in bars]
    rival = [
        (a["seq"], g["seq"])
        for a, g in pairs_of_bars([bar for bar in bars if bar["ticker"] in ("AAPL", "GOOG")], 5)
        if a["ticker"] == "AAPL"
        and g["ticker"] == "GOOG"
        and a["diff"] is not None
        and g["diff"] is not None
        and a["diff"] > 0.3
        and g["diff"] > 1
        and g["diff"] / g["close"] > a["diff"] / a["close"]
    ]
    breakout = [
        (a["seq"], b["seq"])
        for a, b in pairs_of_bars(bars, 10)
        if a["ticker"] == b["ticker"]
        and b["close"] > a["peak"]
        and b["volume"] > 3 * a["volume"]
        and a["volume"] > 1000
    ]
    falling = {
        ticker: [bar for bar in bars if bar["ticker"] == ticker and bar["diff"] is not None and bar["diff"] < 0]
        for ticker in ("AAPL", "AMZN", "GOOG")
    }
    together = [
        (a["seq"], m["seq"], g["seq"])
        for a in falling["AAPL"]
        if a["volume"] > 20_000
        for m in falling["AMZN"]
        if abs(m["when"] - a["when"]) <= timedelta(minutes=1)
        for g in falling["GOOG"]
        if max(a["when"], m["when"], g["when"]) - min(a["when"], m["when"], g["when"]) <= timedelta(minutes=1)
    ]
    expected = {"rival_follows": rival, "breakout": breakout, "falling_together": together}
    for pattern, rows in expected.items():
        assert found_seqs(tables, "bars", pattern).tolist() == [list(row) for row in sorted(rows)], pattern
    return {pattern: len(rows) for pattern, rows in expected.items()}


@real
def test_the_real_minute_bars(tmp_path: Path, spark: SparkSession) -> None:
    data = SHARED / "nasdaq_minute_bars"
    outcome, tables = run_stream(tmp_path, spark, "nasdaq_minute_bars", data, [BARS_DAY])
    assert (outcome.days[0].events, outcome.days[0].rejected) == (1_652 + 1_365, 0)
    counts = check_bars(tables, data)
    assert all(counts.values()), counts


def test_written_minute_bars(tmp_path: Path, spark: SparkSession) -> None:
    chance = random.Random(2)
    (tmp_path / "raw").mkdir()
    for name, tickers in zip(BARS, (("MSFT", "DRIV"), ("AAPL", "AMZN", "GOOG")), strict=True):
        lines = []
        closes = dict.fromkeys(tickers, 100.0)
        for minute in range(180):
            for ticker in tickers:
                opened, closes[ticker] = closes[ticker], round(max(closes[ticker] + chance.uniform(-3, 3), 1.0), 2)
                prices = (opened, max(opened, closes[ticker]), min(opened, closes[ticker]), closes[ticker])
                when = datetime(2008, 2, 1, 9) + timedelta(minutes=minute)
                lines.append(f"{ticker},{when:%Y%m%d%H%M},{','.join(map(str, prices))},{chance.randint(0, 50_000)}")
        (tmp_path / "raw" / name).write_text("\n".join(lines) + "\n")
    outcome, tables = run_stream(tmp_path, spark, "nasdaq_minute_bars", tmp_path / "raw", [BARS_DAY])
    assert outcome.days[0].events == 180 * 5
    counts = check_bars(tables, tmp_path / "raw")
    assert all(counts.values()), counts
