"""Streams that are Iceberg tables: the data files of a day, their rows, and errors that name a setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import DayTransform, IdentityTransform, MonthTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

from cep_pipeline.errors import InputError
from cep_pipeline.events.iceberg_tables import files_of_days, periods_of_stream
from cep_pipeline.events.raw_files import SourceFile, fingerprint_file
from cep_pipeline.events.readers import field_ids, open_rows
from cep_pipeline.events.row_checks import check_rows
from cep_pipeline.events.schema import StreamSchema
from tests.events.raw import trades
from tests.lake import TABLE, TICKS, Lake, append_file, delete_rows, ticks
from tests.object_store import BUCKET, s3_server
from tests.rest_catalog import rest_catalog

MONDAY, TUESDAY, WEDNESDAY = (date(2024, 3, day) for day in (4, 5, 6))
NUMBERS = [(day - date(1970, 1, 1)).days for day in (MONDAY, TUESDAY, WEDNESDAY)]
ROWS = [f"2024-03-0{day}T{hour:02}:30:00,{'AB'[hour % 2]},{hour}" for day in (4, 5, 6) for hour in (0, 3, 12, 23)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def stream(lake: Lake, **changes: Any) -> StreamSchema:
    """A stream of the table of ticks, by the days of New York."""
    document = {"timestamp": "time", "type_attribute": "kind", "attributes": {"kind": "string", "x": "int64"}}
    return trades(lake.folder, **{"source": lake.source(), "derived": None, "quality": None, **document, **changes})


def files(schema: StreamSchema, *days: date) -> list[list[SourceFile]]:
    found = files_of_days(schema, "", days)
    return [found[day][0] for day in days]


def rows_of(schema: StreamSchema, file: SourceFile) -> list[tuple[int, int, Any]]:
    """Day, number and `x` of the rows that are accepted of a file."""
    assert schema.source is not None
    with open_rows(file, schema.source) as reader:
        blocks = [check_rows(block, schema, file.period, file.path).events for block in reader]
    names = ("_day", "_line", "x")
    return [(row["_day"], row["_line"], row["x"]) for block in blocks for row in block.select(names).to_pylist()]


def rows_of_day(schema: StreamSchema, day: date) -> list[int]:
    number = (day - date(1970, 1, 1)).days
    (own,) = files(schema, day)
    return sorted(x for file in own for of, _, x in rows_of(schema, file) if of == number)


DAYS_OF_TIMES = {"America/New_York": (2, 2, 1), "UTC": (2, 2, 2), "Asia/Tokyo": (1, 2, 2)}
DAYS_OF_DATES = {"America/New_York": (2, 2, 0), "UTC": (2, 2, 2), "Asia/Tokyo": (2, 2, 2)}
"""Zone -> rows of each day, of times at 03:30 and 23:30 UTC; and where a time is the midnight of its date."""


def as_date(time: datetime) -> date:
    return time.date()


def as_local(time: datetime) -> datetime:
    return time.replace(tzinfo=None)


def as_ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def as_text(time: datetime) -> str:
    return time.isoformat()


@pytest.mark.parametrize(
    ("kind", "write", "timestamp", "is_bounded"),
    [
        (pa.timestamp("us", tz="UTC"), lambda time: time, "time", True),
        (pa.timestamp("us"), as_local, {"column": "time", "timezone": "UTC"}, True),
        (pa.int64(), as_ms, {"column": "time", "format": "epoch_ms"}, True),
        (pa.date32(), as_date, {"column": "time", "timezone": "UTC"}, True),
        (pa.string(), as_text, "time", False),
        (pa.int64(), as_ms, {"column": "time", "format": "epoch"}, False),
    ],
    ids=["timestamptz", "timestamp", "long", "date", "string", "epoch"],
)
def test_the_files_of_a_day_hold_all_its_rows_and_few_others(
    lake: Lake, kind: pa.DataType, write: Callable[[datetime], Any], timestamp: Any, is_bounded: bool
) -> None:
    table = lake.create(pa.schema([("time", kind), ("kind", pa.string()), ("x", pa.int64())]))
    rows = [row for row in ROWS if row[11:13] in ("03", "23")]
    for row in rows:
        known = ticks(row)
        table.append(known.set_column(0, "time", pa.array(map(write, known["time"].to_pylist()), kind)))
    for timezone in ("America/New_York", "UTC", "Asia/Tokyo"):
        schema = stream(lake, timestamp=timestamp, timezone=timezone)
        alone, found = files(schema, TUESDAY)[0], files(schema, MONDAY, TUESDAY, WEDNESDAY)
        assert alone == found[1], "other days that are asked for change nothing"
        for number, own in zip(NUMBERS, found, strict=True):
            held = [file for file in own if number in {day for day, *_ in rows_of(schema, file)}]
            assert held == own if is_bounded else len(own) == len(rows)
        days = [day for file in {*chain(*found)} for day, *_ in rows_of(schema, file) if day in NUMBERS]
        expected = DAYS_OF_DATES if kind == pa.date32() else DAYS_OF_TIMES
        assert tuple(map(days.count, NUMBERS)) == expected[timezone]


def test_a_file_of_many_days_tells_its_days_and_row_numbers(lake: Lake) -> None:
    lake.create().append(ticks(*ROWS))
    schema = stream(lake, timezone="UTC")
    ((file,),) = files(schema, TUESDAY)
    assert (file.period.first, file.period.last) == (MONDAY, WEDNESDAY)
    assert [line for _, line, _ in rows_of(schema, file)] == list(range(1, 13))
    assert periods_of_stream(schema, "") == [file.period]
    assert files_of_days(schema, "", [date(2024, 3, 7)]) == {date(2024, 3, 7): ([], [TABLE])}


def test_deleted_rows_are_left_out_and_the_others_keep_their_numbers(lake: Lake) -> None:
    lake.create().append(ticks(*ROWS[:4]))
    schema = stream(lake, timezone="UTC")
    ((before,),) = files(schema, MONDAY)
    lake.table.append(ticks(*ROWS[4:]))
    delete_rows(lake.table, before.path, [0, 2])
    (monday,), (tuesday,) = files(schema, MONDAY, TUESDAY)
    assert [row[1:] for row in rows_of(schema, monday)] == [(2, 3), (4, 23)]
    assert fingerprint_file(monday) != fingerprint_file(before)
    assert monday == before and len(rows_of(schema, tuesday)) == 8


def test_columns_are_those_of_the_table_whatever_the_file_calls_them(lake: Lake) -> None:
    table = lake.create(pa.schema([("at", TICKS.field("time").type), ("x", pa.string()), ("n", pa.int32())]))
    old = ticks(*ROWS[:2]).rename_columns(["at", "x", "n"])
    table.append(old.set_column(2, "n", old["n"].cast(pa.int32())))
    with table.update_schema() as update:
        update.rename_column("x", "kind")
        update.rename_column("at", "time")
        update.update_column("n", LongType())
        update.add_column("y", LongType())
    with lake.table.update_schema() as update:
        update.rename_column("n", "x")
    lake.table.append(ticks(*ROWS[2:4]).append_column("y", pa.array([7, 8])))
    schema = stream(lake, timezone="UTC", attributes={"kind": "string", "x": "int64", "y": "int64"})
    assert rows_of_day(schema, MONDAY) == [0, 3, 12, 23]
    tables = [check(schema, file) for file in files(schema, MONDAY)[0]]
    rows = sorted(
        row for one in tables for row in zip(*one.select(["x", "kind", "y"]).to_pydict().values(), strict=True)
    )
    assert rows == [(0, "A", None), (3, "B", None), (12, "A", 7), (23, "B", 8)]


def check(schema: StreamSchema, file: SourceFile) -> pa.Table:
    assert schema.source is not None
    with open_rows(file, schema.source) as reader:
        return pa.concat_tables(check_rows(block, schema, file.period, file.path).events for block in reader)


def test_a_column_that_is_not_read_changes_no_fingerprint_and_one_made_anew_does(lake: Lake) -> None:
    lake.create().append(ticks(*ROWS[:4]))
    schema = stream(lake)
    ((before,),) = files(schema, MONDAY)
    with lake.table.update_schema() as update:
        update.add_column("note", LongType())
    assert fingerprint_file(files(schema, MONDAY)[0][0]) == fingerprint_file(before)
    with lake.table.update_schema() as update:
        update.delete_column("x")
    with lake.table.update_schema() as update:
        update.add_column("x", LongType())
    assert fingerprint_file(files(schema, MONDAY)[0][0]) != fingerprint_file(before)


def test_a_value_of_the_partition_stands_for_a_column_that_the_file_lacks(lake: Lake) -> None:
    table = lake.create()
    with table.update_spec() as update:
        update.add_field("kind", IdentityTransform(), "kind")
    table.append(ticks(*ROWS[:4]))
    schema = stream(lake, timezone="UTC")
    own = files(schema, MONDAY)[0]
    for file in own:
        path = file.path.removeprefix("file://")
        without = pq.ParquetFile(path).read().drop_columns(["kind"])
        pq.write_table(without, path)
    kinds = {kind for file in own for kind in check(schema, file)["kind"].to_pylist()}
    assert kinds == {"A", "B"} and len(own) == 2


def test_manifests_of_other_days_are_not_read_and_files_without_ids_have_those_of_the_mapping(lake: Lake) -> None:
    table = lake.create()
    with table.update_spec() as update:
        update.add_field("time", DayTransform(), "day")
    for day in (4, 14):
        path = lake.folder / f"{day}.parquet"
        pq.write_table(ticks(f"2024-03-{day:02}T10:00:00,A,{day}"), path)
        lake.table.add_files([f"file://{path}"])
    schema = stream(lake, timezone="UTC")
    assert rows_of_day(schema, date(2024, 3, 14)) == [14]
    snapshot = lake.table.current_snapshot()
    assert snapshot is not None
    for manifest in snapshot.manifests(lake.table.io):
        (entry,) = manifest.fetch_manifest_entry(lake.table.io)
        if entry.data_file.file_path.endswith("/14.parquet"):
            Path(manifest.manifest_path.removeprefix("file://")).unlink()
    assert rows_of_day(schema, MONDAY) == [4]
    with pytest.raises(InputError, match=r"source\.catalog: reading the metadata of table market\.ticks"):
        files(schema, date(2024, 3, 14))


def test_a_file_without_ids_needs_a_mapping_of_names() -> None:
    assert field_ids("f", TICKS, {"x": 3, "kind": 2, "gone": 9}) == {2: "kind", 3: "x"}
    with pytest.raises(InputError, match=r"f: its columns have no field ids; .* schema\.name-mapping\.default"):
        field_ids("f", TICKS, {})


def test_files_without_bounds_cover_the_days_of_their_partition_whatever_days_are_asked_for(lake: Lake) -> None:
    table = lake.create(properties={"write.metadata.metrics.default": "none"})
    table.append(ticks(*ROWS))
    with lake.table.update_spec() as update:
        update.add_field("time", MonthTransform(), "month")
    path = lake.folder / "april.parquet"
    pq.write_table(ticks("2024-04-30T10:00:00,A,4"), path)
    append_file(lake.table, f"file://{path}", Record((2024 - 1970) * 12 + 3))
    schema = stream(lake, timezone="UTC")
    alone = files(schema, MONDAY)
    assert alone == files(schema, MONDAY, date(2024, 4, 30))[:1] and [len(own) for own in alone] == [1]
    assert [str(file.period) for file in files(schema, date(2024, 5, 1))[0]] == ["all time", "2024-03-31 to 2024-05-01"]
    assert files(schema, date(2024, 5, 2)) == alone, "the file without bounds and partition may have rows of any day"
    assert rows_of_day(schema, MONDAY) == [0, 3, 12, 23]


def test_rows_without_a_time_are_of_the_first_day_of_their_file(lake: Lake) -> None:
    lake.create().append(ticks(ROWS[0], ",A,1", ROWS[4]))
    schema = stream(lake, timezone="UTC")
    (monday,), (tuesday,) = files(schema, MONDAY, TUESDAY)
    assert monday == tuesday and monday.period.first == MONDAY and schema.source is not None
    with open_rows(monday, schema.source) as reader:
        (block,) = (check_rows(block, schema, monday.period, monday.path) for block in reader)
    assert [(row.line, row.day) for row in block.rejected] == [(2, None)]


# -- catalogs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(lake: Lake) -> Iterator[dict[str, str]]:
    lake.create().append(ticks(*ROWS[:4]))
    with rest_catalog(load_catalog(**lake.properties)) as properties:
        yield {"name": "served", **properties}


def test_a_rest_catalog_gives_the_same_files(lake: Lake, served: dict[str, str]) -> None:
    remote = stream(lake, source={**lake.source(), "catalog": served}, timezone="UTC")
    here = stream(lake, timezone="UTC")
    assert files(remote, MONDAY) == files(here, MONDAY)
    assert rows_of_day(remote, MONDAY) == [0, 3, 12, 23]
    assert remote.digest == here.digest, "the days stay fresh where the table moves to another catalog"


@pytest.mark.long
def test_a_glue_catalog_and_an_object_store_are_reached_by_the_properties_of_the_source(lake: Lake) -> None:
    with s3_server() as store:
        catalog = {"type": "glue", "glue.endpoint": store["s3.endpoint"], "warehouse": f"s3://{BUCKET}/lake", **store}
        for name in ("access-key-id", "secret-access-key"):
            catalog[f"glue.{name}"] = store[f"s3.{name}"]
        catalog |= {"glue.region": "us-east-1", "s3.region": "us-east-1", "name": "remote"}
        glue = load_catalog(**catalog)
        glue.create_namespace("market")
        glue.create_table(TABLE, schema=TICKS).append(ticks(*ROWS[:4]))
        schema = stream(lake, source={**lake.source(), "catalog": catalog}, timezone="UTC")
        assert rows_of_day(schema, MONDAY) == [0, 3, 12, 23]


def test_the_properties_of_a_catalog_come_from_the_environment(
    lake: Lake, served: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg import catalog
    from pyiceberg.utils.config import Config

    for name in ("type", "uri", "token"):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__SERVED__{name.upper()}", served[name])
    monkeypatch.setattr(catalog, "_ENV_CONFIG", Config())
    schema = stream(lake, source={**lake.source(), "catalog": "served"}, timezone="UTC")
    assert rows_of_day(schema, MONDAY) == [0, 3, 12, 23]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"catalog": "nowhere"}, r"source\.catalog: opening catalog 'nowhere': .*PYICEBERG_CATALOG__NOWHERE__URI"),
        ({"catalog": {"type": "sequel", "password": "secret"}}, r"source\.catalog: opening catalog 'default'"),
        ({"catalog": {"type": "rest", "uri": "http://127.0.0.1:9"}}, r"source\.catalog: opening catalog 'default'"),
        ({"table": "market.tocks"}, r"source\.table: there is no table market\.tocks .*did you mean 'market\.ticks'"),
        ({"table": "bazaar.ticks"}, r"source\.table: there is no table bazaar\.ticks in catalog 'served'; write"),
    ],
)
def test_errors_name_the_setting(lake: Lake, served: dict[str, str], changes: dict[str, Any], said: str) -> None:
    schema = stream(lake, source={**lake.source(), "catalog": served, **changes})
    with pytest.raises(InputError, match=said) as failure:
        files(schema, MONDAY)
    assert "secret" not in str(failure.value)


def test_a_table_is_named_with_its_namespace(lake: Lake) -> None:
    with pytest.raises(InputError, match=r"source\.table: .*'ticks' is no table with its namespace"):
        stream(lake, source={**lake.source(), "table": "ticks"})


def test_a_refused_token_and_a_missing_column_say_what_to_do(lake: Lake, served: dict[str, str]) -> None:
    refused = stream(lake, source={**lake.source(), "catalog": {**served, "token": "another"}})
    with pytest.raises(InputError, match=r"ForbiddenError.*right to read.*PYICEBERG_CATALOG__SERVED__CREDENTIAL"):
        files(refused, MONDAY)
    lacks = stream(lake, attributes={"kind": "string", "xx": "int64"})
    with pytest.raises(InputError, match=r"table market\.ticks: column 'xx' is missing; the table has: .*mean 'x'"):
        files(lacks, MONDAY)


def test_reading_makes_nothing_in_a_catalog(lake: Lake) -> None:
    schema = stream(lake)
    with pytest.raises(InputError, match=r"source\.catalog: .*iceberg_tables"):
        files(schema, MONDAY)


def test_a_file_that_is_gone_is_an_error_that_says_so(lake: Lake) -> None:
    lake.create().append(ticks(*ROWS[:4]))
    schema = stream(lake, timezone="UTC")
    ((file,),) = files(schema, MONDAY)
    Path(file.path.removeprefix("file://")).unlink()
    with pytest.raises(InputError, match=r"cannot be read.*snapshot has expired, run again"):
        rows_of(schema, file)


def test_a_table_without_rows_has_no_files(lake: Lake) -> None:
    lake.create()
    assert files(stream(lake), MONDAY) == [[]]
    assert periods_of_stream(stream(lake), "") == []
