"""Raw files that are missing, empty, changed or broken, and rows and days that are refused."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from cep_pipeline.errors import CepError, InputError
from cep_pipeline.events.columns import QUARANTINE_SCHEMA
from cep_pipeline.events.validate import FailedValidation
from cep_pipeline.storage import DataDirectory
from tests.events.raw import HEADER, trades, write_gzip
from tests.spark.ingester import (
    MONDAY,
    TUESDAY,
    WEDNESDAY,
    Ingester,
    ingest_day,
    ingest_days,
    quarantine_of,
    rows_of,
    write_day,
)


def test_missing_days(ingest: Ingester) -> None:
    with pytest.raises(InputError, match=r"day 2013-10-07: no file .*/2013-10-07/trades\*\.csv\.gz.*on_missing"):
        ingest.day(trades(ingest.folder, on_missing="error"))
    empty = ingest.day(trades(ingest.folder, on_missing="empty"))
    assert (empty.staged.status, empty.staged.events, empty.events_files) == ("empty", 0, ())
    assert empty.staged.notes[0].startswith("no file ")
    skipped = ingest.day(trades(ingest.folder, on_missing="skip"), carry_in={"version": 1, "last_values": {}})
    assert (skipped.staged.status, skipped.staged.validation) == ("skipped", {})


def test_a_day_that_a_wider_file_does_not_hold_is_missing(ingest: Ingester) -> None:
    source = {"format": "csv", "path": "all.csv"}
    (ingest.data / "all.csv").write_text(HEADER + "".join(rows_of(MONDAY, 5, 1)))
    assert ingest.day(trades(ingest.folder, source=source)).staged.events == 5
    with pytest.raises(InputError, match=r"day 2013-10-08: no row of this day in all\.csv"):
        ingest.day(trades(ingest.folder, source=source), TUESDAY)


@pytest.mark.parametrize("content", [b"", HEADER.encode()])
def test_empty_files_are_days_without_events(ingest: Ingester, content: bytes) -> None:
    write_gzip(ingest.data / str(MONDAY) / "trades.csv.gz", content)
    result = ingest.day(trades(ingest.folder))
    assert (result.staged.status, result.staged.events) == ("empty", 0)
    assert result.staged.notes == ("2013-10-07/trades.csv.gz: the file has no rows",)
    assert len(result.fingerprint.raw_files) == 1


def test_a_truncated_file_publishes_nothing(ingest: Ingester) -> None:
    path = write_day(ingest, MONDAY, rows_of(MONDAY, 2000, 1))
    path.write_bytes(path.read_bytes()[:-100])
    write_day(ingest, TUESDAY, rows_of(TUESDAY, 10, 1))
    with pytest.raises(InputError, match=r"2013-10-07/trades\.csv\.gz: the file is truncated or corrupt"):
        ingest.days(trades(ingest.folder), [MONDAY, TUESDAY])
    assert ingest.published() == []
    assert ingest.scratch() == []


def test_a_changed_header_is_explained(ingest: Ingester) -> None:
    path = write_gzip(ingest.data / str(MONDAY) / "trades.csv.gz", "symbol,time,price,size\n")
    with pytest.raises(InputError) as caught:
        ingest.day(trades(ingest.folder))
    assert all(text in str(caught.value) for text in (str(path), "'timestamp' is missing", "'time'"))


def test_columns_that_are_not_listed_are_noted(ingest: Ingester) -> None:
    write_gzip(ingest.data / str(MONDAY) / "trades.csv.gz", "_id,seq," + HEADER + "1,2," + rows_of(MONDAY, 1, 1)[0])
    result = ingest.day(trades(ingest.folder))
    assert result.staged.events == 1
    assert result.staged.notes == (
        "2013-10-07/trades.csv.gz: columns that the schema does not list are left out: _id, seq",
    )


def test_every_reason_reaches_the_quarantine_with_its_line(ingest: Ingester) -> None:
    good = rows_of(MONDAY, 30, 1, equal=1)
    good = [f"{row.rsplit(',', 1)[0]},{index + 100}\n" for index, row in enumerate(good)]
    stamp = f"{MONDAY} 10:00:00"
    bad = [
        "SPY,1\n",
        f"SPY,,1,1\nSPY,{TUESDAY} 00:00:00,1,1\n",
        f",{stamp},1,1\n",
        f"SPY,{stamp},x,1\n",
        "SPY,never,1,1\n",
        good[0],
    ]
    write_day(ingest, MONDAY, [*good, *bad])
    result = ingest.day(trades(ingest.folder, key=["symbol", "timestamp", "size"]))
    assert (result.staged.events, result.staged.rejected_rows) == (30, 7)
    rows = quarantine_of(result)
    assert [row["line"] for row in rows] == [32, 33, 34, 35, 36, 37, 38]
    assert [row["reason"].split(":")[0].split(" (")[0] for row in rows] == [
        "unparsable row",
        "missing timestamp",
        "day 2013-10-08 is outside the file's period, 2013-10-07",
        "missing event type",
        "column 'price'",
        "column 'timestamp'",
        "repeated key",
    ]
    assert {row["day"] for row in rows} == {MONDAY}
    assert rows[0]["raw"] == "SPY,1"
    (path,) = result.quarantine_files
    assert pq.read_schema(path).remove_metadata() == QUARANTINE_SCHEMA


def test_too_many_rejected_rows_refuse_the_day(ingest: Ingester) -> None:
    write_day(ingest, MONDAY, [*rows_of(MONDAY, 9, 1), "SPY,1\n"])
    with pytest.raises(
        FailedValidation, match=r"1 of 10 rows are rejected \(10\.00%\)(.|\n)*trades\.csv\.gz:11"
    ) as caught:
        ingest.day(trades(ingest.folder, quality={"max_rejected_share": 0.09}))
    failed = [one["arguments"] for one in caught.value.document["results"] if not one["success"]]
    assert failed == [{"column": "rejected_share", "max_value": 0.09}]
    assert ingest.published() == []
    assert ingest.day(trades(ingest.folder, quality={"max_rejected_share": 0.1})).staged.rejected_rows == 1


@pytest.mark.long
def test_a_failed_expectation_refuses_the_day_after_the_days_before(ingest: Ingester) -> None:
    write_day(ingest, MONDAY, rows_of(MONDAY, 10, 1))
    write_day(ingest, TUESDAY, [f"SPY,{TUESDAY} 10:00:00,0,1\n"])
    write_day(ingest, WEDNESDAY, rows_of(WEDNESDAY, 10, 1))
    finished = []
    with pytest.raises(FailedValidation, match=r"2013-10-08(.|\n)*price") as caught:
        for result in ingest_days(
            ingest.spark,
            trades(ingest.folder),
            [MONDAY, TUESDAY, WEDNESDAY],
            ingest.data,
            events_directory=lambda day: ingest.directory("events", day),
            quarantine_directory=lambda day: ingest.directory("quarantine", day),
            scratch=ingest.folder / "scratch",
        ):
            finished.append(result.staged.day)
    assert finished == [MONDAY]
    assert caught.value.document["success"] is False
    assert {path.parent.name for path in ingest.published()} == {"day=2013-10-07"}


def test_a_place_that_cannot_be_written_is_explained(ingest: Ingester) -> None:
    write_day(ingest, MONDAY, rows_of(MONDAY, 10, 1))
    blocked = ingest.folder / "blocked"
    blocked.write_text("a file where a folder should be")
    with pytest.raises(CepError, match="blocked"):
        ingest_day(
            ingest.spark,
            trades(ingest.folder),
            MONDAY,
            ingest.data,
            events_directory=DataDirectory(str(blocked / "events"), "run"),
            quarantine_directory=DataDirectory(str(blocked / "quarantine"), "run"),
            scratch=ingest.folder / "scratch",
        )
    assert ingest.scratch() == []


@pytest.mark.long
def test_a_row_count_far_from_the_median_is_a_warning(ingest: Ingester) -> None:
    write_day(ingest, MONDAY, rows_of(MONDAY, 10, 1))
    result = ingest.day(trades(ingest.folder), earlier_row_counts=[1000, 1200])
    (warning,) = result.staged.warnings
    assert "10 events" in warning and "275 to 4,400" in warning
