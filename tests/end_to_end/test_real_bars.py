"""Minute bars through the pipeline: real ones where they are beside the checkout, written ones everywhere.

What must be found is computed from the raw files by plain loops that know nothing of the pipeline.
"""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.whole_streams import SHARED, found_seqs, real, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cep_pipeline.warehouse.stream_tables import StreamTables

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


@pytest.mark.long
@real
def test_the_real_minute_bars(tmp_path: Path, spark: SparkSession) -> None:
    data = SHARED / "nasdaq_minute_bars"
    outcome, tables = run_stream(tmp_path, spark, "nasdaq_minute_bars", data, [BARS_DAY])
    assert (outcome.days[0].events, outcome.days[0].rejected) == (1_652 + 1_365, 0)
    counts = check_bars(tables, data)
    assert all(counts.values()), counts


@pytest.mark.long
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
