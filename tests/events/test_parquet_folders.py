"""Folders of Parquet that are partitioned as Hive and Spark do it: their files by day, and their columns."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from cep_pipeline.errors import InputError
from cep_pipeline.events.event_files import load_events
from cep_pipeline.events.iceberg_tables import files_of_days, periods_of_stream
from cep_pipeline.events.raw_files import PathTemplate, Period
from cep_pipeline.events.readers import RejectedRow, open_rows
from cep_pipeline.events.row_checks import check_rows
from cep_pipeline.events.schema import StreamSchema
from tests.events.raw import trades
from tests.lake import ticks

MONDAY, TUESDAY, WEDNESDAY = DAYS = [date(2024, 3, day) for day in (4, 5, 6)]
ROWS = ticks(*(f"2024-03-0{day}T{hour:02}:30:00,{'AB'[hour % 2]},{hour}" for day in (4, 5, 6) for hour in (0, 3, 12)))


def write(folder: Path, by: list[str], **columns: Any) -> None:
    """Write the rows with further columns, partitioned by some of them."""
    table = ROWS
    for name, values in columns.items():
        table = table.append_column(name, values)
    kinds = pa.schema([table.schema.field(name) for name in by])
    ds.write_dataset(table, folder, format="parquet", partitioning=ds.partitioning(kinds, flavor="hive"))


def stream(folder: Path, path: str, *, timezone: str = "UTC", days_before: int = 0, **changes: Any) -> StreamSchema:
    document: dict[str, Any] = {"timestamp": "time", "type_attribute": "kind", "derived": None, "quality": None}
    document |= {"attributes": {"kind": "string", "x": "int64"}, "timezone": timezone}
    document |= {"source": {"format": "parquet", "path": path, "days_before": days_before}}
    return trades(folder, **(document | changes))


def read(schema: StreamSchema, folder: Path, day: date) -> tuple[list[dict[str, Any]], list[RejectedRow]]:
    """The rows of a day in the files that may have them, and the rows of these files that are rejected."""
    files, _ = files_of_days(schema, str(folder), [day])[day]
    assert schema.source is not None
    rows, rejected = [], []
    for file in files:
        with open_rows(file, schema.source) as reader:
            for block in reader:
                checked = check_rows(block, schema, file.period, file.path)
                rows += [row for row in checked.events.to_pylist() if row["_day"] == (day - date(1970, 1, 1)).days]
                rejected += checked.rejected
    return rows, rejected


def values(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in names) for row in rows)


def dates() -> pa.Array:
    return pc.strftime(ROWS["time"], "%Y-%m-%d").combine_chunks()


def test_columns_that_only_the_folders_have_are_attributes(tmp_path: Path) -> None:
    rooms = pa.array(["hall/1", None, "7"] * 3)
    numbers = pa.array([int(x) % 2 for x in ROWS["x"].to_pylist()])
    write(tmp_path, ["dt", "room", "n"], dt=dates(), room=rooms, n=numbers)
    attributes = {"kind": "string", "x": "int64", "room": "string", "n": "int64"}
    schema = stream(tmp_path, "dt={day:%Y-%m-%d}/**/*.parquet", attributes=attributes)
    assert [str(one) for one in periods_of_stream(schema, str(tmp_path))] == [str(day) for day in DAYS]
    rows, rejected = read(schema, tmp_path, TUESDAY)
    assert rejected == [] and values([row for row in rows if row["room"]], "x", "room", "n") == [
        (0, "hall/1", 0),
        (12, "7", 0),
    ]
    assert values([row for row in rows if not row["room"]], "x", "room", "n") == [(3, None, 1)]


def test_a_value_of_a_folder_that_does_not_fit_rejects_its_rows(tmp_path: Path) -> None:
    write(tmp_path, ["dt", "room"], dt=dates(), room=pa.array(["1", "two", "3"] * 3))
    attributes = {"kind": "string", "room": "int64"}
    schema = stream(tmp_path, "dt={day:%Y-%m-%d}/*/*.parquet", attributes=attributes)
    rows, (rejected,) = read(schema, tmp_path, MONDAY)
    assert len(rows) == 2 and rejected.reason == "column 'room': 'two' is no int64"
    with pytest.raises(InputError, match=r"column 'rom' is missing; the file has: .*did you mean 'room'"):
        read(
            stream(tmp_path, "dt={day:%Y-%m-%d}/*/*.parquet", attributes={"kind": "string", "rom": "int64"}),
            tmp_path,
            MONDAY,
        )


def test_the_time_may_be_the_date_of_the_folder_and_a_column_of_the_file(tmp_path: Path) -> None:
    write(tmp_path, ["dt"], dt=dates(), clock=pc.strftime(ROWS["time"], "%H:%M"))
    schema = stream(
        tmp_path, "dt={day:%Y-%m-%d}/*.parquet", timestamp={"column": ["dt", "clock"], "format": "%Y-%m-%d %H:%M"}
    )
    rows, _ = read(schema, tmp_path, TUESDAY)
    assert [str(row["timestamp"]) for row in rows] == [f"2024-03-05 {hour}:30:00+00:00" for hour in ("00", "03", "12")]


def test_years_months_and_days_are_folders_with_or_without_zeros(tmp_path: Path) -> None:
    parts = {name: getattr(pc, name)(ROWS["time"]) for name in ("year", "month", "day")}
    write(tmp_path, [*parts], **parts)
    assert (tmp_path / "year=2024" / "month=3" / "day=5").is_dir()
    schema = stream(tmp_path, "year={day:%Y}/month={day:%-m}/day={day:%-d}/*.parquet")
    assert periods_of_stream(schema, str(tmp_path)) == [Period(day, day) for day in DAYS]
    assert len(read(schema, tmp_path, TUESDAY)[0]) == 3
    months = PathTemplate("{day:%Y}/{day:%-m}.parquet")
    assert (months.pattern(MONDAY), months.period(MONDAY).last) == ("2024/3.parquet", date(2024, 3, 31))
    assert months.periods_in(["2024/3.parquet", "2024/11.parquet", "2024/13.parquet"]) == {
        months.period(MONDAY),
        months.period(date(2024, 11, 2)),
    }


def test_files_lie_in_any_folders_but_those_that_are_being_written(tmp_path: Path) -> None:
    names = (
        "a.parquet",
        "x/a.parquet",
        "x/y/a.parquet",
        "_temporary/0/a.parquet",
        "x/.staging/a.parquet",
        "x/_SUCCESS",
    )
    for name in names:
        path = tmp_path / "dt=2024-03-04" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(ROWS.slice(0, 1), path)
    schema = stream(tmp_path, "dt={day:%Y-%m-%d}/**/*.parquet")
    found, missing = files_of_days(schema, str(tmp_path), [MONDAY])[MONDAY]
    assert [file.name.removeprefix("dt=2024-03-04/") for file in found] == list(names[:3]) and missing == []


def test_a_type_is_told_before_any_folders() -> None:
    assert PathTemplate("{day:%Y}/kind={type}/**/*.csv").type_in("/data/2024/kind=IBM/x/y.csv") == "IBM"
    assert PathTemplate("{day:%Y}/kind={type}/**/*.csv").type_in("/data/2024/kind=IBM/y.csv") == "IBM"


def test_the_days_of_the_stream_may_be_others_than_those_of_the_folders(tmp_path: Path) -> None:
    """Folders by dates of UTC, where the days are those of New York, five hours later."""
    write(tmp_path, ["dt"], dt=dates())
    path = "dt={day:%Y-%m-%d}/*.parquet"
    alone = stream(tmp_path, path, timezone="America/New_York")
    rows, rejected = read(alone, tmp_path, TUESDAY)
    assert values(rows, "x") == [(12,)]
    assert {row.reason for row in rejected} == {"day 2024-03-04 is outside the file's period, 2024-03-05"}
    beside = stream(tmp_path, path, timezone="America/New_York", days_before=1)
    assert [values(read(beside, tmp_path, day)[0], "x") for day in DAYS] == [[(0,), (3,), (12,)]] * 2 + [[(12,)]]
    assert all(read(beside, tmp_path, day)[1] == [] for day in DAYS)
    assert periods_of_stream(beside, str(tmp_path)) == [Period(day, day, before=1) for day in DAYS]
    assert [str(file.period) for file in files_of_days(beside, str(tmp_path), [TUESDAY])[TUESDAY][0]] == [
        f"{day}, 1 days before" for day in (TUESDAY, WEDNESDAY)
    ]


def test_a_file_of_a_month_is_found_once(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "2024-03.parquet")
    last = date(2024, 3, 31)
    files, missing = files_of_days(stream(tmp_path, "{day:%Y-%m}.parquet", days_before=2), str(tmp_path), [last])[last]
    assert [file.name for file in files] == ["2024-03.parquet"] and missing == []


def test_files_that_are_named_have_the_columns_of_their_folders_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["room"], room=pa.array(["a", "b", "hall/1"] * 3))
    attributes = {"kind": "string", "x": "int64", "room": "string"}
    schema = stream(tmp_path, "**/*.parquet", attributes=attributes)
    paths = sorted(tmp_path.rglob("part*.parquet"))
    assert sorted(load_events(schema, paths).events["room"].to_pylist()) == ["a"] * 3 + ["b"] * 3 + ["hall/1"] * 3
    monkeypatch.chdir(paths[-1].parent)
    assert load_events(schema, [Path(paths[-1].name)]).events["room"].to_pylist() == ["hall/1"] * 3
