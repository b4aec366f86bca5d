"""`Warehouse.rebuild_catalog` makes a lost catalog anew from the tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cep_pipeline.errors import DamagedError, InputError
from cep_pipeline.warehouse.units import LOST
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.published_days import (
    MONDAY,
    SCHEMA_DIGEST,
    TUESDAY,
    Trades,
    everything_read,
    publish_everything,
)


def test_a_lost_catalog_is_made_from_the_tables(tmp_path: Path) -> None:
    place = tmp_path / "w"
    warehouse = Warehouse.open(place)
    tables = warehouse.stream(Trades())
    publish_everything(tables)
    before = everything_read(warehouse)
    plan = tables.current_plan("demo")
    raw = {day.day: day.fingerprint.raw_files for day in tables.days()}
    with pytest.raises(InputError, match=r"has a catalog that names tables.*--replace"):
        Warehouse.rebuild_catalog(place)
    warehouse.close()
    (place / "catalog.db").unlink()
    with pytest.raises(InputError, match=r"`cep restore`"):
        Warehouse.open(place)
    # The newest metadata of one table is of a commit that was cut off.
    newest = max(place.glob("trades/decisions/metadata/*.metadata.json"))
    cut = newest.with_name("00099-cut.metadata.json")
    cut.write_text(newest.read_text()[:100])
    report = Warehouse.rebuild_catalog(place)
    assert report.days == 2 and len(report.tables["trades"]) == 7
    assert report.left_out == [str(cut)]
    again = Warehouse.open(place)
    tables = again.open_stream("trades")
    read = everything_read(again)
    assert read[:4] == before[:4], "events, matches and rejected rows"
    assert [one.rows if hasattr(one, "rows") else one.events for one in tables.days()] == [4, 2]
    assert {unit.final_day: dict(unit.counts) for unit in tables.matches_days()} == {
        MONDAY: {"rise": 4},
        TUESDAY: {"rise": 2},
    }
    assert tables.current_plan("demo") == plan
    assert again.verify(deep=True).damages == ()
    stale = tables.stale_days(raw_files=raw, schema=SCHEMA_DIGEST, pattern_sets={"demo": "v1"})
    assert [(one.day, one.step) for one in stale] == [(d, s) for d in (MONDAY, TUESDAY) for s in ("ingest", "detect")]
    assert all(one.reasons[0] == LOST for one in stale)
    publish_everything(again.stream(Trades()))
    assert everything_read(again)[:4] == before[:4]
    assert again.verify(deep=True).damages == ()


def test_a_catalog_is_not_made_of_damaged_or_missing_tables(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it has no metadata of tables"):
        Warehouse.rebuild_catalog(tmp_path / "nothing")
    place = tmp_path / "w"
    publish_everything(Warehouse.open(place).stream(Trades()))
    (place / "catalog.db").write_bytes(b"this is no database" * 1000)
    for path in place.glob("trades/runs/metadata/*.metadata.json"):
        path.write_text("{}")
    with pytest.raises(DamagedError, match=r"no metadata of trades\.runs can be read"):
        Warehouse.rebuild_catalog(place, replace=True)
    shutil.rmtree(place / "trades" / "runs")
    report = Warehouse.rebuild_catalog(place, replace=True)
    assert len(report.tables["trades"]) == 6
    assert len(list(place.glob("catalog.db.replaced-*"))) == 1
    tables = Warehouse.open(place).stream(Trades())
    assert tables.runs() == [], "a table that is gone is made anew"
    assert tables.read_events().num_rows == 6
