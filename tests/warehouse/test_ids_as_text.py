"""A table that was made when ids were text: it is published to and read as before, beside ids that are UUIDs now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cep_pipeline.events.columns import events_columns
from cep_pipeline.spark.keeping import DayOfSet, MatchFile
from cep_pipeline.storage import DataDirectory, conform, digest_of, write_data_file
from cep_pipeline.version import IDS_VERSION
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, table_layouts, without_composed
from cep_pipeline.warehouse.match_pages import MatchesQuery, find_match, matches_page
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    Trades,
    id_named,
    matches_of,
    publish_day,
    publish_match_files,
    publish_matches,
)

OLD_SCHEMA = without_composed(MATCHES_SCHEMA)  # such tables are older than composed matches, too
AS_TEXT = OLD_SCHEMA.set(OLD_SCHEMA.get_field_index("match_id"), pa.field("match_id", pa.string()))
READ_AS_TEXT = MATCHES_SCHEMA.set(MATCHES_SCHEMA.get_field_index("match_id"), pa.field("match_id", pa.string()))
OLD, NEW = UUID("d8b0bbc861277e0dcf46ff19d930a305"), id_named("new")


def publish_old(tables: StreamTables, day: date, ids: Sequence[UUID]) -> None:
    """Publish a day as the version of that time did: ids of 32 digits, and a record that tells no version of them."""
    rows = matches_of("demo", day, [""] * len(ids)).to_pylist()
    rows = [{**row, "match_id": one.hex} for row, one in zip(rows, ids, strict=True)]
    path = tables.matches_directory("demo", day, run_id="old").file(0)
    write_data_file(path, pa.Table.from_pylist(rows, AS_TEXT), AS_TEXT)
    with tables.day_lease(day, run_id="old") as lease:
        carry_in = digest_of(tables.matches_carry_in("demo", day))
        found = replace(tables.pin_events().matches_fingerprint("v1", day, day, carry_in=carry_in), ids=1)
        publish_match_files(tables, "demo", day, [path], lease=lease, fingerprint=found, counts={"rise": len(ids)})


@pytest.fixture
def tables(tmp_path: Path) -> StreamTables:
    """Monday was published with ids as text; Tuesday is published now."""
    warehouse = Warehouse.open(tmp_path / "w")
    layout = table_layouts(events_columns(Trades()))["matches"]
    warehouse._ensured("trades", replace(layout, schema=AS_TEXT, properties={}))
    tables = warehouse.stream(Trades())
    publish_day(tables, MONDAY, [1.0])
    publish_day(tables, TUESDAY, [2.0])
    publish_old(tables, MONDAY, [OLD])
    publish_matches(tables, TUESDAY, ["new"])
    return tables


def test_new_days_are_published_and_all_are_read(tables: StreamTables) -> None:
    for reader in (tables, tables.warehouse.open_stream("trades")):
        read = reader.read_matches("demo")
        assert read.schema.equals(READ_AS_TEXT)
        assert read["match_id"].to_pylist() == [OLD.hex, str(NEW)]
        assert reader.first_matches("demo", each=1)["match_id"].to_pylist() == [OLD.hex]
        assert [unit.fingerprint.ids for unit in reader.matches_days("demo")] == [1, IDS_VERSION]
    table = tables.warehouse.catalog.load_table("trades.matches")
    assert table.scan().to_arrow().sort_by("final_day")["match_id"].to_pylist() == [OLD.hex, str(NEW)]
    assert table.properties["cep.ids-version"] == str(IDS_VERSION)


@pytest.mark.parametrize("spell", [str, lambda one: one.hex])
def test_matches_are_found_by_ids_with_and_without_hyphens(tables: StreamTables, spell: type[str]) -> None:
    for day, one, there in ((MONDAY, OLD, OLD.hex), (TUESDAY, NEW, str(NEW))):
        found = find_match(tables, "demo", day, spell(one))
        assert found is not None and found["match_id"] == there
        assert find_match(tables, "demo", day, spell(UUID(int=1))) is None
    assert find_match(tables, "demo", MONDAY, "none") is None
    page = matches_page(tables, MatchesQuery("demo", MONDAY, value=OLD.hex[:8]), 5)
    assert page.rows["match_id"].to_pylist() == [OLD.hex]


def test_a_redo_makes_new_ids(tables: StreamTables) -> None:
    publish_matches(tables, MONDAY, ["again"], run_id="again")
    assert tables.read_matches("demo", MONDAY, MONDAY)["match_id"].to_pylist() == [str(id_named("again"))]
    assert [unit.fingerprint.ids for unit in tables.matches_days("demo")] == [IDS_VERSION] * 2


def test_old_ids_make_no_day_stale(tables: StreamTables) -> None:
    monday = tables.matches_days("demo")[0].fingerprint
    assert monday.differences(replace(monday, ids=IDS_VERSION)) == ()
    assert "ids" not in monday.to_json() and type(monday).from_json(monday.to_json()) == monday


def test_files_are_merged_as_text(tables: StreamTables) -> None:
    publish_old(tables, MONDAY, [OLD, UUID(int=7)])
    tables.warehouse.maintain(keep_snapshots_s=-60.0)
    assert tables.read_matches("demo")["match_id"].to_pylist() == [OLD.hex, UUID(int=7).hex, str(NEW)]
    assert tables.read_matches("demo").schema.equals(READ_AS_TEXT)
    assert tables.warehouse.verify(deep=True).damages == ()


def test_tasks_write_what_the_table_has(tables: StreamTables, tmp_path: Path) -> None:
    directory = tables.matches_directory("demo", TUESDAY, run_id="task")
    assert directory.columns == READ_AS_TEXT
    rows = matches_of("demo", TUESDAY, ["a", "b"])
    texts = [str(id_named(name)) for name in "ab"]
    for place, kind in ((directory, pa.string()), (DataDirectory(str(tmp_path), "task"), pa.uuid())):
        day = DayOfSet(patterns=(), pattern_set="demo", pattern_set_version="v2", final_day=TUESDAY, directory=place)
        with MatchFile(place, 0, 0, day.columns) as file:
            for batch in rows.to_batches():
                file.write(batch)
        (path,) = file.files
        read = pq.ParquetFile(path).read()
        assert [str(one) for one in read["match_id"].to_pylist()] == texts
        assert read.schema.field("match_id").type == kind


def test_text_of_ids() -> None:
    ids = pa.chunked_array([pa.array([OLD.bytes, NEW.bytes, UUID(int=3).bytes], pa.uuid()).slice(1), [], [OLD.bytes]])
    table = conform(pa.table({"match_id": ids}), pa.schema([("match_id", pa.string())]))
    assert table["match_id"].to_pylist() == [str(one) for one in (NEW, UUID(int=3), OLD)]
    missing = conform(pa.table({"match_id": pa.array([None, OLD.bytes], pa.uuid())}), table.schema)
    assert missing["match_id"].to_pylist() == [None, str(OLD)]
