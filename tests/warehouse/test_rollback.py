"""`roll_back`: all tables of a day go back together; `Warehouse.rebuild_catalog`: a lost catalog."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cep_pipeline.errors import BusyError, DamagedError, InputError
from cep_pipeline.warehouse.rebuilding import LOST
from cep_pipeline.warehouse.records import DayStatistics
from cep_pipeline.warehouse.rollback import roll_back
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.published_days import (
    MONDAY,
    SCHEMA_DIGEST,
    TUESDAY,
    Trades,
    buffers_of,
    everything_read,
    names_of,
    publish_day,
    publish_everything,
    publish_limited,
    publish_matches,
    publish_statistics,
)


def publish_version(tables: StreamTables, version: float, run_id: str) -> None:
    """Publish all tables of Monday with this version in each of them."""
    publish_day(tables, MONDAY, [version, version], run_id=run_id)
    with tables.day_lease(MONDAY, run_id=run_id) as lease:
        publish_statistics(tables, MONDAY, {"demo": DayStatistics({"rate": version})}, lease=lease)
    publish_matches(tables, MONDAY, [f"m{version}"], run_id=run_id)


def version_of(tables: StreamTables) -> set[float]:
    """The versions that are read of all tables and records of Monday."""
    found = set(tables.read_events(MONDAY, MONDAY)["price"].to_pylist())
    found |= {float(name[1:]) for name in names_of(tables.read_matches("demo", MONDAY, MONDAY))}
    statistics = tables.read_statistics("demo", MONDAY)
    assert statistics is not None
    return found | {statistics["rate"], tables.carry_in(TUESDAY)["last"]}


def test_a_day_goes_back_without_the_buffers_that_a_later_run_has_removed(tmp_path: Path) -> None:
    tables = Warehouse.open(tmp_path).stream(Trades())
    publish_day(tables, MONDAY, [1.0], run_id="lost")
    lost = publish_limited(tables, MONDAY, run_id="lost")
    publish_day(tables, MONDAY, [1.0], run_id="kept")
    kept = publish_limited(tables, MONDAY, run_id="kept")
    tables.remove_compressed("demo", MONDAY, [kept])
    assert not Path(lost).exists()
    publish_day(tables, MONDAY, [2.0], run_id="last")
    publish_matches(tables, MONDAY, ["m2"], run_id="last")
    roll_back(tables, MONDAY, "lost", run_id="back")
    assert buffers_of(tables, MONDAY) == ()
    roll_back(tables, MONDAY, "kept", run_id="back again")
    assert buffers_of(tables, MONDAY) == (kept,)


@pytest.mark.long
def test_all_tables_of_a_day_go_back_together(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path)
    tables = warehouse.stream(Trades())
    for version in (1.0, 2.0, 3.0):
        publish_version(tables, version, f"run{version:.0f}")
    publish_day(tables, TUESDAY, [9.0], run_id="tuesday")
    before = {day.day: day for day in tables.days()}
    assert version_of(tables) == {3.0}
    report = roll_back(tables, MONDAY, run_id="back")
    assert (report.run_id, report.before) == ("run2", "run3")
    assert report.rows == {"quarantine": 0, "events": 2, "statistics": 1, "matches": 1}
    assert version_of(tables) == {2.0}
    assert warehouse.verify(deep=True).damages == ()
    monday, tuesday = tables.days()
    assert monday.run_id == "run2" and monday.fingerprint != before[MONDAY].fingerprint
    assert tuesday == before[TUESDAY]
    # The files that there are now are those of the third run: the day shows why it is not of them.
    raw = {MONDAY: before[MONDAY].fingerprint.raw_files}
    stale = {(one.day, one.step): one.reasons for one in tables.stale_days(raw_files=raw, schema=SCHEMA_DIGEST)}
    assert stale[MONDAY, "ingest"][0].startswith("rolled back from run run3 to run run2 by back at ")
    assert stale[MONDAY, "ingest"][1:] == (f"raw file {MONDAY}.csv has changed",)
    assert stale[TUESDAY, "ingest"] == ("the carry-in from the day before has changed",)
    assert {one.pattern_set for one in tables.stale_days(pattern_sets={"demo": "v1"}) if one.day == MONDAY} == set()
    assert tables.runs()[0].details == {"rolled_back": {"from": "run3", "to": "run2"}}
    roll_back(tables, MONDAY, "run1", run_id="further")
    assert version_of(tables) == {1.0}
    roll_back(tables, MONDAY, "run3", run_id="forward")
    assert version_of(tables) == {3.0}
    assert [one.day for one in tables.stale_days(raw_files=raw, schema=SCHEMA_DIGEST)] == []
    publish_version(tables, 4.0, "run4")
    assert tables.days()[0].note == "" and tables.days()[0].fingerprint.digest


def test_what_was_published_later_for_the_first_time_goes(tmp_path: Path) -> None:
    tables = Warehouse.open(tmp_path).stream(Trades())
    publish_day(tables, MONDAY, [1.0], run_id="first")
    publish_version(tables, 2.0, "second")
    roll_back(tables, MONDAY, run_id="back")
    assert tables.read_events()["price"].to_pylist() == [1.0]
    assert tables.matches_days() == [] and tables.read_matches("demo").num_rows == 0
    assert tables.read_statistics("demo", MONDAY) is None
    assert tables.warehouse.verify(deep=True).damages == ()  # type: ignore[attr-defined]


def test_what_is_not_there_cannot_be_gone_back_to(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path)
    tables = warehouse.stream(Trades())
    with pytest.raises(InputError, match="nothing is published of 2013-10-07"):
        roll_back(tables, MONDAY, run_id="back")
    publish_version(tables, 1.0, "run1")
    with pytest.raises(InputError, match=r"an earlier run is not there to go back to; there are: none"):
        roll_back(tables, MONDAY, run_id="back")
    publish_version(tables, 2.0, "run2")
    with pytest.raises(InputError, match=r"run 'x' is not there to go back to; there are: run1"):
        roll_back(tables, MONDAY, "x", run_id="back")
    with tables.day_lease(MONDAY, run_id="busy"), pytest.raises(BusyError, match="run busy"):
        roll_back(tables, MONDAY, run_id="back")
    warehouse.maintain(keep_snapshots_s=-60.0)
    with pytest.raises(InputError, match=r"is not there to go back to; there are: none.*only in a backup"):
        roll_back(tables, MONDAY, run_id="back")
    assert version_of(tables) == {2.0}


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
    # That of another one names a list that has lost its entries behind its header.
    plans = max(place.glob("trades/plans/metadata/*.metadata.json"))
    empty = plans.with_name("00098-empty.metadata.json")
    content = json.loads(plans.read_text())
    listed = Path(content["snapshots"][-1]["manifest-list"])
    whole = listed.read_bytes()
    listed.with_name("snap-empty.avro").write_bytes(whole[: whole.index(whole[-16:]) + 16])
    content["snapshots"][-1]["manifest-list"] = str(listed.with_name("snap-empty.avro"))
    empty.write_text(json.dumps(content))
    report = Warehouse.rebuild_catalog(place)
    assert report.days == 2 and len(report.tables["trades"]) == 7
    assert report.left_out == [str(cut), str(empty)]
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


def test_what_is_forgotten_is_not_taken_for_what_was_never_there(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path)
    tables = warehouse.stream(Trades())
    publish_version(tables, 1.0, "run1")
    expired = warehouse.clock()
    publish_day(tables, MONDAY, [2.0], run_id="run2")  # matches and statistics stay those of the first run
    publish_version(tables, 3.0, "run3")
    warehouse.maintain(keep_snapshots_s=warehouse.clock() - expired)
    with pytest.raises(InputError, match=r"trades\.matches, 2013-10-07: the snapshot of that run has been expired"):
        roll_back(tables, MONDAY, "run2", run_id="back")
    assert version_of(tables) == {3.0}


def test_statistics_that_have_been_expired_are_not_taken_for_none(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path)
    tables = warehouse.stream(Trades())
    expired = 0.0
    for version, run_id in ((1.0, "run1"), (None, "between"), (2.0, "run2")):
        expired = warehouse.clock() if version is None else expired
        publish_day(tables, MONDAY, [version or 1.5], run_id=run_id)
        if version is not None:
            with tables.day_lease(MONDAY, run_id=run_id) as lease:
                publish_statistics(tables, MONDAY, {"demo": DayStatistics({"rate": version})}, lease=lease)
    warehouse.maintain(keep_snapshots_s=warehouse.clock() - expired)
    with pytest.raises(InputError, match=r"trades\.statistics, 2013-10-07: the snapshot of that run has been expired"):
        roll_back(tables, MONDAY, "between", run_id="back")
    assert tables.read_statistics("demo", MONDAY) == {"rate": 2.0}


def test_a_file_that_has_rotted_is_not_gone_back_to(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path)
    tables = warehouse.stream(Trades())
    publish_day(tables, MONDAY, [1.0, 1.0], run_id="run1")
    path = Path(tables.events_files()[0].path)
    publish_day(tables, MONDAY, [2.0, 2.0], run_id="run2")
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 4]) + whole[41:])
    with pytest.raises(DamagedError, match="its SHA-256 is not the one that was recorded"):
        roll_back(tables, MONDAY, run_id="back")
    assert tables.read_events()["price"].to_pylist() == [2.0, 2.0]
    path.write_bytes(whole)
    roll_back(tables, MONDAY, run_id="back")
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 4]) + whole[41:])
    (damage,) = warehouse.verify(deep=True).damages
    assert damage.place == str(path), "the digest of what was written stays"
