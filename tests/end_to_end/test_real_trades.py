"""Days of trades through the pipeline: real ones where they are beside the checkout, generated ones everywhere.

What must be found is computed from the raw files by SQL that knows nothing of the pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pytest

from cep_pipeline.generate import generate_days
from tests.end_to_end.whole_streams import SHARED, found_seqs, real, run_stream, sort_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cep_pipeline.warehouse.stream_tables import StreamTables

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
@pytest.mark.long
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


@pytest.mark.long
def test_generated_days_of_trades(tmp_path: Path, spark: SparkSession) -> None:
    days = [date(2025, 1, 6), date(2025, 1, 7)]
    generate_days(tmp_path / "raw", days, stocks=4, events_per_day=8_000)
    _, tables = run_stream(tmp_path, spark, "generated_trades", tmp_path / "raw", days)
    counts = check_trades(tables, raw_trades(tmp_path / "raw", days), GENERATED_NUMBERS)
    assert all(counts.values()), counts
