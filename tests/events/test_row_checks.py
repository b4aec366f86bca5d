from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cep_pipeline import detect, parse_patterns
from cep_pipeline.errors import InputError
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.raw_files import UNBOUNDED, Period
from cep_pipeline.events.readers import open_rows
from cep_pipeline.events.row_checks import check_rows, day_of
from tests.events.raw import HEADER, read_csv, source_file, trades

DAY = Period(date(2013, 3, 10), date(2013, 3, 10))


def test_rows_outside_the_files_day_and_in_no_time_at_all(tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    path.write_text(
        HEADER
        + "SPY,2013-03-10 00:00:00,1,1\n"
        + "SPY,2013-03-09 23:59:59.999999,1,1\n"
        + "SPY,2013-03-10 02:30:00,1,1\n"
        + "SPY,2013-03-10 23:59:59.999999,1,1\n"
        + "SPY,2013-03-11 00:00:00,1,1\n"
    )
    table, reasons, _ = read_csv(path, trades(tmp_path), DAY)
    assert table.column("_line").to_pylist() == [2, 5]
    assert {day_of(day) for day in table.column("_day").to_pylist()} == {date(2013, 3, 10)}
    assert reasons == {
        3: "day 2013-03-09 is outside the file's period, 2013-03-10",
        4: "column 'timestamp': the local time '2013-03-10 02:30:00' does not exist in America/New_York "
        "(the clock skips it)",
        6: "day 2013-03-11 is outside the file's period, 2013-03-10",
    }


def test_both_passes_of_an_ambiguous_hour_are_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    path.write_text(HEADER + "SPY,2013-11-03 01:30:00,1,1\n" * 2)
    table, reasons, _ = read_csv(path, trades(tmp_path))
    assert reasons == {}
    assert {str(t) for t in table.column("timestamp").to_pylist()} == {"2013-11-03 05:30:00+00:00"}


def test_empty_values_are_null_but_for_keys(tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    path.write_text(HEADER + "SPY,2013-03-10 00:00:00,,1\nSPY,2013-03-10 00:00:00,1,\n")
    table, reasons, _ = read_csv(path, trades(tmp_path, key=["symbol", "size"]))
    assert table.column("price").to_pylist() == [None]
    assert reasons == {3: "missing key (column 'size')"}


def test_source_columns_are_renamed(tmp_path: Path) -> None:
    schema = trades(
        tmp_path,
        attributes={
            "symbol": "string",
            "price": "float64",
            "size": {"type": "int64", "column": "seq"},
        },
    )
    path = tmp_path / "trades.csv"
    path.write_text("symbol,timestamp,price,seq\nSPY,2013-03-10 00:00:00,1,7\n")
    assert read_csv(path, schema)[0].column("size").to_pylist() == [7]


@pytest.mark.parametrize("text", ["NaN", "inf", "-1e400"])
def test_floats_that_are_no_number_are_values(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trades.csv"
    path.write_text(HEADER + f"SPY,2013-03-10 00:00:00,{text},1\n")
    table, reasons, _ = read_csv(path, trades(tmp_path))
    assert (table.column("price").null_count, reasons) == (0, {})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(("longest", "accepted"), [(None, [2, 3]), (100_000, [2, 3, 4]), (5, [2])])
def test_a_value_of_text_that_is_too_long_rejects_its_row(
    tmp_path: Path, ending: str, longest: int | None, accepted: list[int]
) -> None:
    source = {"format": ending, "path": "{day:%Y-%m-%d}"} | ({} if longest is None else {"longest_value": longest})
    schema = trades(tmp_path, source=source, derived={}, timestamp={"column": "timestamp", "format": "epoch_s"})
    rows = [
        ["SPY", 1, 1.5, 1],
        ["é" * (2**15), 2, 1.5, 1],
        ["é" * (2**15) + "x", 3, 1.5, 1],
        ["y" * 2_000_000, 4, 1.5, 1],
    ]
    if ending == "csv":
        path = tmp_path / "trades.csv"
        path.write_text(HEADER + "".join(",".join(map(str, row)) + "\n" for row in rows))
        table, reasons, raw = read_csv(path, schema)
    else:
        columns = {name: [row[at] for row in rows] for at, name in enumerate(HEADER.strip().split(","))}
        pq.write_table(pa.table(columns), tmp_path / "trades.parquet")
        with open_rows(source_file(tmp_path / "trades.parquet"), schema.source) as blocks:
            checked = [check_rows(block, schema, UNBOUNDED, "trades.parquet") for block in blocks]
        table = pa.concat_tables([block.events for block in checked])
        reasons = {row.line + 1: row.reason for block in checked for row in block.rejected}
        raw = {row.line + 1: row.raw for block in checked for row in block.rejected}
    lines = table.column("_line").to_pylist()
    assert [line + (ending == "parquet") for line in lines] == accepted
    assert set(reasons) == {2, 3, 4, 5}.difference(accepted)
    said = f"has 2,000,000 bytes, more than source.longest_value, {longest or 65_536:,}"
    assert reasons[5].startswith("column 'symbol': 'yyyyy") and reasons[5].endswith(said)
    assert max(map(len, [*reasons.values(), *raw.values()])) <= 10_000 and "characters left out" in raw[5]


def test_files_days_and_patterns_may_have_three_clocks(tmp_path: Path) -> None:
    schema = trades(
        tmp_path,
        timezone="America/New_York",
        pattern_timezone="Europe/London",
        timestamp={"column": "timestamp", "timezone": "Asia/Tokyo"},
        source={"format": "csv", "path": "trades.csv"},
        derived=None,
    )
    times = ("2025-03-04 13:59:59", "2025-03-04 14:00:00", "2025-03-04T14:00:00Z")
    (tmp_path / "trades.csv").write_text(HEADER + "".join(f"SPY,{time},1,1\n" for time in times))
    events = load_events(schema, [tmp_path / "trades.csv"]).events
    assert [str(one) for one in events["timestamp"].to_pylist()] == [
        *("2025-03-04 04:59:59+00:00", "2025-03-04 05:00:00+00:00", "2025-03-04 14:00:00+00:00"),
    ]
    rows, _, _ = read_csv(tmp_path / "trades.csv", schema)
    assert [day_of(day) for day in rows["_day"].to_pylist()] == [date(2025, 3, 3), *[date(2025, 3, 4)] * 2]
    (pattern,) = parse_patterns(
        "PATTERN SEQ(Trade a) WHERE time_of_day(a.timestamp) = TIME '05:00:00' WITHIN 1 s", schema
    )
    assert pattern.timezone == "Europe/London"
    assert [table.num_rows for table in detect([pattern], events).values()] == [1]


def test_files_may_have_formats_of_their_own(tmp_path: Path) -> None:
    formats = {"2024-*.csv": "epoch_ms", "*.csv": ["epoch_us", "iso"]}
    source = {"format": "csv", "path": "*.csv"}
    schema = trades(
        tmp_path, timezone="UTC", derived=None, source=source, timestamp={"column": "timestamp", "format": formats}
    )
    (tmp_path / "2024-12-31.csv").write_text(HEADER + "SPY,1735689540000,1,1\n")
    (tmp_path / "2025-01-01.csv").write_text(HEADER + "SPY,1735689600000000,1,1\nSPY,2025-01-01T00:01,1,1\n")
    events = load_events(schema, [tmp_path / "2024-12-31.csv", tmp_path / "2025-01-01.csv"]).events
    assert [f"{one:%d %H:%M}" for one in events["timestamp"].to_pylist()] == ["31 23:59", "01 00:00", "01 00:01"]
    (tmp_path / "2025-01-01.txt").write_text(HEADER + "SPY,1,1,1\n")
    with pytest.raises(InputError, match=r"2025-01-01.txt: timestamp.format has no format for this file; it has: 2024"):
        load_events(schema, [tmp_path / "2025-01-01.txt"])
