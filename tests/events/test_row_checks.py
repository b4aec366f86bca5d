from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from cep_pipeline.events.erasure import Erasure
from cep_pipeline.events.raw_files import Period
from cep_pipeline.events.row_checks import day_of
from tests.events.raw import HEADER, read_csv, trades

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


def test_erased_rows_are_left_out_without_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    path.write_text(
        HEADER
        + "SPY,2013-03-10 00:00:00,1,1\n"
        + "MSFT,2013-03-10 00:00:00,1,1\n"
        + "MSFT,2013-03-10 00:00:00,x,1\n"
        + "MSFTX,2013-03-10 00:00:00,x,1\n"
    )
    schema = replace(trades(tmp_path), erasures=(Erasure("id", "symbol = 'MSFT'"),))
    table, reasons, _ = read_csv(path, schema)
    assert table.column("symbol").to_pylist() == ["SPY"]
    assert set(reasons) == {5}
    assert schema.digest == trades(tmp_path).digest
