from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Record

from cep_pipeline.errors import BusyError, InputError
from cep_pipeline.events.erasure import Erasure
from cep_pipeline.storage import conform, digest_of, stored_files, write_data_file
from cep_pipeline.warehouse import commits, compaction
from cep_pipeline.warehouse.catalog import VERSION_HINT
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, without_composed
from cep_pipeline.warehouse.maintenance import named_files
from cep_pipeline.warehouse.records import DayStatistics, RunRecord
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.object_store import BUCKET, s3_server
from tests.thoroughness import long_but
from tests.warehouse.processes import CONTEXT
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    WEDNESDAY,
    Trades,
    buffers_of,
    fingerprint_of,
    matches_of,
    names_of,
    publish_day,
    publish_events,
    publish_limited,
    publish_match_files,
    publish_quarantine,
    publish_statistics,
)
from tests.warehouse.test_kills import kill_at_step

RAW = pa.schema({"timestamp": pa.timestamp("us", tz="UTC"), "symbol": pa.string(), "price": pa.float64()})
SECRET = Erasure.of("symbol = 'S1'", RAW)


def fill(tables: StreamTables) -> None:
    """Publish three days with events of S0, S1 and S2 in turn, but for the last, which has S0 only."""
    for day, prices in ((MONDAY, [1.0, 2.0, 3.0, 4.0, 5.0]), (TUESDAY, [6.0, 7.0]), (WEDNESDAY, [8.0])):
        publish_day(tables, day, prices, parts=len(prices), carry_out={"last": {"S1": 2.0}} if day == MONDAY else None)
    with tables.day_lease(MONDAY, run_id="run") as lease:
        rejected = pa.table(
            {
                "day": pa.array([MONDAY] * 2, pa.date32()),
                "file": ["a.csv"] * 2,
                "line": [7, 9],
                "reason": ["'x' is no float64"] * 2,
                "raw": ["13:00,S1,x", "13:01,S11,x"],
            }
        )
        directory = tables.quarantine_directory(MONDAY, run_id="run")
        path = write_data_file(directory.file(0), rejected, rejected.schema)
        fingerprint = fingerprint_of(tables, MONDAY, [1.0, 2.0, 3.0, 4.0, 5.0])
        publish_quarantine(tables, MONDAY, [path], lease=lease, fingerprint=fingerprint)
        publish_statistics(tables, MONDAY, {"demo": DayStatistics({"rates": {"S0": 1}})}, lease=lease)
    with tables.day_lease(TUESDAY, run_id="run") as lease:
        # c is of Monday's S0 and Tuesday's S1, d of Tuesday's S0 alone.
        pairs = {"c": (MONDAY, 0, TUESDAY, 1), "d": (TUESDAY, 0, TUESDAY, 0)}
        rows = matches_of("demo", TUESDAY, list(pairs)).to_pylist()
        for row, (one, first, other, second) in zip(rows, pairs.values(), strict=True):
            row["bindings"] = [
                {"variable": "a", "seq": one.toordinal() * 2**40 + first},
                {"variable": "b", "seq": other.toordinal() * 2**40 + second},
            ]
        path = tables.matches_directory("demo", TUESDAY, run_id="run").file(0)
        write_data_file(
            path,
            conform(pa.Table.from_pylist(rows, schema=without_composed(MATCHES_SCHEMA)), MATCHES_SCHEMA),
            MATCHES_SCHEMA,
        )
        found = tables.pin_events().matches_fingerprint("v1", MONDAY, TUESDAY, carry_in=digest_of({}))
        publish_match_files(tables, "demo", TUESDAY, [path], lease=lease, fingerprint=found, counts={"rise": 2})
    start = datetime(2013, 10, 8, tzinfo=UTC)
    tables.record_run(RunRecord("run", MONDAY, "failed", start, validation={"examples": ["S1"]}, error="saw 'S1'"))
    scratch = Path(tables.warehouse.scratch, "ingest-1")
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / "part.parquet").write_bytes(b"S1")


def assert_forgotten(tables: StreamTables) -> None:
    events = tables.read_events()
    assert events.column("symbol").to_pylist() == ["S0", "S2", "S0", "S0", "S0"]
    assert events.column("price").to_pylist() == [1.0, 3.0, 4.0, 6.0, 8.0]
    assert [entry.events for entry in tables.days()] == [3, 1, 1]
    assert names_of(tables.read_matches("demo")) == ["d"]
    assert [(entry.matches, entry.counts) for entry in tables.matches_days("demo")] == [(1, {"rise": 1})]
    assert tables.read_quarantine().column("raw").to_pylist() == ["13:01,S11,x"]
    assert tables.statistics("demo") == []
    assert [(run.validation, run.error) for run in tables.runs()] == [(None, "(erased)")]
    assert tables.carry_in(TUESDAY) == {}
    stale = {entry.day: entry.reasons for entry in tables.stale_days()}
    assert "events of it were erased by `cep forget`" in stale[MONDAY]
    assert "events of it were erased by `cep forget`" in stale[TUESDAY]
    for _, name in tables.warehouse.catalog.list_tables("trades"):
        table = tables.warehouse.catalog.load_table(("trades", name))
        assert len(table.snapshots()) <= 1
        there = stored_files(table.location()).keys()
        kept = (".metadata.json", VERSION_HINT)  # neither holds a value of an event
        assert {path for path in there if not path.endswith(kept)} <= named_files(table)
        for manifest in table.current_snapshot().manifests(table.io) if table.snapshots() else ():
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            assert all(entry.status.name != "DELETED" for entry in entries)
    folder = Path(tables.warehouse.location)
    if folder.exists():  # no file holds the value, wherever and however it lies there
        named = {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".db" and holds_secret(path)}
        assert named == set()


def holds_secret(path: Path) -> bool:
    if path.suffix == ".parquet":
        texts = str(pq.read_table(path, partitioning=None).to_pylist())
        return "'S1'" in texts or ",S1," in texts or '"S1"' in texts
    if path.suffix == ".avro":  # packed: two letters may be in its bytes by chance
        with AvroFile[Record](PyArrowFileIO().new_input(str(path))) as file:
            return any("b'S1'" in repr(record) for record in file)
    content = path.read_bytes()
    return b"S1" in content.replace(b"S11", b"")


def test_records_name_no_buffers_that_are_forgotten(tables: StreamTables) -> None:
    fill(tables)
    path = publish_limited(tables, MONDAY)
    tables.forget(SECRET, run_id="forget")
    assert buffers_of(tables, MONDAY) == ()
    assert path not in stored_files(tables.compressed)


def test_what_is_forgotten_is_in_no_file(tables: StreamTables) -> None:
    fill(tables)
    folder = Path(tables.warehouse.location)
    kinds = {
        path.suffix
        for path in (folder / "trades").rglob("*.*")
        if path.suffix in (".avro", ".parquet") and holds_secret(path)
    }
    assert kinds == ({".avro", ".parquet"} if folder.exists() else set())
    planned = tables.forget(SECRET, run_id="forget", dry_run=True)
    assert tables.read_events().num_rows == 8
    assert tables.erasures() == ()
    report = tables.forget(SECRET, run_id="forget")
    assert report.removed == planned.removed
    assert report.removed == {
        ("events", MONDAY): 2,
        ("events", TUESDAY): 1,
        ("matches", TUESDAY): 1,
        ("quarantine", MONDAY): 1,
        ("statistics", MONDAY): 1,
        ("runs", None): 1,
    }
    assert report.left == []
    assert report.files > 0
    assert_forgotten(tables)
    assert stored_files(tables.warehouse.scratch) == {}
    again = tables.forget(SECRET, run_id="forget")
    assert (dict(again.removed), again.left) == ({}, [])
    assert again.erasure.days == {MONDAY, TUESDAY}
    assert_forgotten(tables)


def test_a_day_that_was_done_again_is_no_longer_stale_and_its_matches_are(tables: StreamTables) -> None:
    fill(tables)
    tables.forget(SECRET, run_id="forget")
    with tables.day_lease(MONDAY, run_id="again") as lease:
        fingerprint = replace(fingerprint_of(tables, MONDAY, [1.0, 2.0, 3.0, 4.0, 5.0]), erased=(SECRET.erasure_id,))
        publish_quarantine(tables, MONDAY, [], lease=lease, fingerprint=fingerprint)
        publish_events(tables, MONDAY, [], lease=lease, fingerprint=fingerprint, carry_out={})
    stale = {(entry.day, entry.pattern_set) for entry in tables.stale_days(pattern_sets={"demo": "v1"})}
    assert (MONDAY, None) not in stale
    assert (TUESDAY, None) in stale
    assert (TUESDAY, "demo") in stale  # its matches were made of the events before


def test_forgetting_waits_for_runs_and_records_what_is_to_be_left_out(tables: StreamTables) -> None:
    fill(tables)
    with tables.day_lease(WEDNESDAY, run_id="at work"), pytest.raises(BusyError, match="at work"):
        tables.forget(SECRET, run_id="forget")
    assert [erasure.condition for erasure in tables.erasures()] == ["symbol = 'S1'"]
    assert tables.read_events().num_rows == 8
    tables.forget(SECRET, run_id="forget")
    assert_forgotten(tables)


def _forget(location: str, step: int) -> None:
    tables = Warehouse.open(location, clock=lambda: time.time() + 600.0 * (step + 1)).stream(Trades())
    kill_at_step(step)
    tables.forget(SECRET, run_id=f"forget-{step}")


@pytest.mark.parametrize("step", long_but([9, 45], [2, 9, 17, 30, 45, 70]))
def test_a_killed_erasure_is_completed_by_the_same_command(tmp_path: Path, step: int) -> None:
    tables = Warehouse.open(tmp_path / "w").stream(Trades())
    fill(tables)
    process = CONTEXT.Process(target=_forget, args=(str(tmp_path / "w"), step))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    left = Warehouse.open(tmp_path / "w").open_stream("trades")
    seen = (
        "S1" in left.read_events().column("symbol").to_pylist(),
        "c" in names_of(left.read_matches("demo")),
        "13:00,S1,x" in left.read_quarantine().column("raw").to_pylist(),
        left.statistics("demo") != [],
        left.runs()[0].error != "(erased)",
    )
    assert len(set(seen)) == 1, "a reader sees all of an erasure, or nothing of it"
    later = Warehouse.open(tmp_path / "w", clock=lambda: time.time() + 600.0 * 100).stream(Trades())
    assert later.forget(SECRET, run_id="again").left == []
    assert_forgotten(later)


def test_an_erasure_looks_again_where_a_commit_came_between(
    tables: StreamTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tables)
    commit, merged = commits.commit_together, []

    def late(*arguments: Any, **options: Any) -> dict[str, int]:
        if not merged and len(arguments[2]) > 1:
            merged.append(True)
            compaction.compact(tables.warehouse.catalog, "trades", "events", file_rows=1000)
        return commit(*arguments, **options)

    monkeypatch.setattr(commits, "commit_together", late)
    report = tables.forget(SECRET, run_id="forget")
    assert merged
    assert report.removed["events", MONDAY] == 2
    assert report.left == []
    assert_forgotten(tables)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("symbool = 'X'", "events have no attribute 'symbool'; there are the attributes timestamp, symbol, price"),
        ("symbol == ", "not a condition"),
        ("price > 3", "compares no attribute with a value"),
        ("price = 'x'", "price = 'x'"),
    ],
)
def test_conditions_that_cannot_be_erased_by_are_refused(condition: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Erasure.of(condition, RAW)


def test_null_is_not_forgotten() -> None:
    events = pa.table({"symbol": ["S1", None, "S2"], "price": pa.array([1.0, 2.0, None])})
    assert Erasure("id", "symbol = 'S1' or price = 2").holds(events).tolist() == [True, True, False]
    assert Erasure("id", "symbol in ('S1', 'S2') and price = 1").values == ("1", "S1", "S2")


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, str]]:
    from cep_pipeline.storage import reach_object_stores

    with s3_server() as properties:
        yield properties
    reach_object_stores({})


def test_forgetting_on_an_object_store(bucket: dict[str, str], tmp_path: Path) -> None:
    warehouse = Warehouse.open(f"s3://{BUCKET}/w", f"sqlite:///{tmp_path}/catalog.db", properties=bucket)
    tables = warehouse.stream(Trades())
    publish_day(tables, MONDAY, [1.0, 2.0, 3.0], parts=3)
    before = stored_files(f"{warehouse.location}/trades").keys()
    report = tables.forget(SECRET, run_id="forget")
    assert report.removed == {("events", MONDAY): 1}
    assert report.left == []
    assert tables.read_events().column("symbol").to_pylist() == ["S0", "S2"]
    after = stored_files(f"{warehouse.location}/trades").keys()
    assert len([path for path in after if "/events/data/" in path]) == 2
    assert before - after
    assert warehouse.maintain().removed_files == 0
    assert tables.events_files()
