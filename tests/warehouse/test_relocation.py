"""`Warehouse.relocate`: a copy at another place is a whole warehouse, and the original stays as it was."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from cep_pipeline.errors import BusyError, InputError
from cep_pipeline.storage import size_and_digest
from cep_pipeline.warehouse.maintenance import named_files
from cep_pipeline.warehouse.named_files import recorded_files
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.thoroughness import long_but
from tests.warehouse.processes import CONTEXT
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    Trades,
    contents,
    everything_read,
    names_of,
    publish_day,
    publish_everything,
    publish_matches,
)
from tests.warehouse.test_kills import kill_at_step


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse that is not there any more after it was copied: no path into it can help."""
    folder = tmp_path_factory.mktemp("original") / "warehouse"
    warehouse = Warehouse.open(folder)
    publish_everything(warehouse.stream(Trades()))
    warehouse.close()
    return folder


def test_a_copied_folder_goes_on_at_its_new_place(original: Path, tmp_path: Path) -> None:
    before, files = everything_read(Warehouse.open(original)), contents(original)
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    with pytest.raises(InputError, match=f"belongs to the warehouse at {original}, not to {copy}.*`cep relocate`"):
        Warehouse.open(copy)
    seen: list[tuple[int, int]] = []
    report = Warehouse.relocate(copy, told=lambda *numbers: seen.append(numbers))
    assert (report.old, report.new, report.tables) == (str(original), str(copy), 7)
    assert seen[0] == (0, 7) and seen[-1] == (7, 7)
    assert contents(original) == files
    aside = original.rename(tmp_path / "aside")
    try:
        warehouse = Warehouse.open(copy)
        assert everything_read(warehouse) == before
        assert_all_metadata_has_digests(warehouse)
        assert warehouse.verify(deep=True).damages == ()
        table = warehouse.catalog.load_table("trades.matches")
        # Other engines read it by its metadata; its past too.
        alone = StaticTable.from_metadata(table.metadata_location)
        assert sorted(alone.scan().to_arrow()["match_id"].to_pylist()) == sorted(row["match_id"] for row in before[2])
        assert len(alone.history()) == 3
        past = alone.scan(snapshot_id=alone.history()[0].snapshot_id).to_arrow()
        assert names_of(past) == [f"{MONDAY}-{price}" for price in (9.0, 8.0, 7.0)]
        # It is published to, maintained and moved on as any other.
        publish_everything(warehouse.stream(Trades()))
        warehouse.maintain(keep_snapshots_s=-60.0)
        assert warehouse.verify(deep=True).damages == ()
        assert not any(str(original).encode() in content for content in metadata_of(warehouse))
        again = everything_read(warehouse)
        warehouse.close()
        further = copy.rename(tmp_path / "further")
        assert Warehouse.relocate(further).tables == 7
        assert everything_read(Warehouse.open(further)) == again
        assert Warehouse.relocate(further).tables == 0
    finally:
        aside.rename(original)


def assert_all_metadata_has_digests(warehouse: Warehouse) -> None:
    for stream, name in warehouse.catalog.list_tables("trades"):
        table = warehouse.catalog.load_table((stream, name))
        recorded = recorded_files(warehouse.database, stream, name, table.location())
        assert named_files(table) <= recorded.keys(), name
        assert {path: size_and_digest(path) for path in named_files(table)}.items() <= recorded.items()


def metadata_of(warehouse: Warehouse) -> list[bytes]:
    """The files of metadata that the tables use."""
    found = []
    for identifier in warehouse.catalog.list_tables("trades"):
        table = warehouse.catalog.load_table(identifier)
        found.append(Path(table.metadata_location).read_bytes())
        for snapshot in table.snapshots():
            found.append(repr(snapshot.manifests(table.io)).encode())
            found += [
                repr(manifest.fetch_manifest_entry(table.io)).encode() for manifest in snapshot.manifests(table.io)
            ]
    return found


def test_matches_that_are_detected_at_the_new_place_have_the_same_ids(tmp_path: Path) -> None:
    first = Warehouse.open(tmp_path / "first")
    publish_day(first.stream(Trades()), MONDAY, [1.0])
    first.close()
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    Warehouse.relocate(tmp_path / "second")
    for name in ("first", "second"):
        tables = Warehouse.open(tmp_path / name).stream(Trades())
        publish_day(tables, TUESDAY, [2.0])
        publish_matches(tables, TUESDAY, ["a"], look_back=1)
    both = [Warehouse.open(tmp_path / name).open_stream("trades") for name in ("first", "second")]
    assert len({str([day.fingerprint for day in tables.days()]) for tables in both}) == 1
    assert len({str([day.fingerprint for day in tables.matches_days()]) for tables in both}) == 1
    assert [tables.stale_days(pattern_sets={"demo": "v1"}) for tables in both][1] == both[0].stale_days(
        pattern_sets={"demo": "v1"}
    )


def _relocate_and_die(location: str, step: int) -> None:
    kill_at_step(step)
    Warehouse.relocate(location)


@pytest.mark.parametrize("stride", long_but([9], [1, 9]))
def test_a_relocation_that_is_killed_is_done_by_the_next(original: Path, tmp_path: Path, stride: int) -> None:
    before = everything_read(Warehouse.open(original))
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    for step in range(0, 1000, stride):
        process = CONTEXT.Process(target=_relocate_and_die, args=(str(copy), step))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        with pytest.raises(InputError, match="`cep relocate`"):
            Warehouse.open(copy)
    assert step > 30
    warehouse = Warehouse.open(copy)
    assert everything_read(warehouse) == before
    assert warehouse.verify(deep=True).damages == ()


def test_a_copy_that_is_not_whole_is_refused_and_stays_as_it_is(original: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    for number, path in enumerate(sorted(copy.glob("trades/events/metadata/snap-*.avro"))):
        whole = path.read_bytes()
        at = whole.index(whole[-16:]) + 16  # the number of entries
        path.write_bytes(whole[:at] if number % 2 else whole[:at] + bytes([whole[at] ^ 2]) + whole[at + 1 :])
        with pytest.raises(InputError, match=rf"{path.name}: .* cannot be read .*; copy it again"):
            Warehouse.relocate(copy)
        path.write_bytes(whole)
    for pattern, said in (
        ("trades/events/data/**/*.parquet", "the copy is not whole"),
        ("trades/runs/metadata/*.avro", "the metadata of trades.runs is not there"),
        ("trades/plans/metadata/*.json", "the metadata of trades.plans is not there"),
    ):
        paths = {path: path.read_bytes() for path in copy.glob(pattern)}
        for path in paths:
            path.unlink()
        with pytest.raises(InputError, match=said):
            Warehouse.relocate(copy)
        for path, content in paths.items():
            path.write_bytes(content[:-9])
        with pytest.raises(InputError, match=r"the copy is not whole|cannot be read"):
            Warehouse.relocate(copy)
        for path, content in paths.items():
            path.write_bytes(content)
    assert Warehouse.relocate(copy).tables == 7


def test_an_original_with_a_catalog_elsewhere_keeps_it(tmp_path: Path) -> None:
    catalog, another = f"sqlite:///{tmp_path}/catalog.db", f"sqlite:///{tmp_path}/another.db"
    warehouse = Warehouse.open(tmp_path / "first", catalog)
    publish_everything(warehouse.stream(Trades()))
    before = everything_read(warehouse)
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    with pytest.raises(InputError, match=r"its warehouse is still at .*--from-catalog.*--moved"):
        Warehouse.relocate(tmp_path / "copy", catalog)
    with pytest.raises(InputError, match="it holds no warehouse"):
        Warehouse.relocate(tmp_path / "copy", f"sqlite:///{tmp_path}/third.db")
    assert Warehouse.relocate(tmp_path / "copy", another, from_catalog=catalog).tables == 7
    assert Warehouse.relocate(tmp_path / "copy", another, from_catalog=catalog).tables == 0
    assert everything_read(Warehouse.open(tmp_path / "copy", another)) == before
    assert_all_metadata_has_digests(Warehouse.open(tmp_path / "copy", another))
    assert everything_read(Warehouse.open(tmp_path / "first", catalog)) == before
    with pytest.raises(InputError, match=r"it belongs to the warehouse at .*copy; name an empty database"):
        Warehouse.relocate(tmp_path / "more", another, from_catalog=catalog)
    # The same copy may also take the catalog over, once that is meant.
    shutil.copytree(tmp_path / "first", tmp_path / "over")
    assert Warehouse.relocate(tmp_path / "over", catalog, moved=True).tables == 7
    assert everything_read(Warehouse.open(tmp_path / "over", catalog)) == before
    # A folder without its catalog takes the rows over into one of its own.
    shutil.copytree(tmp_path / "over", tmp_path / "own")
    assert Warehouse.relocate(tmp_path / "own", from_catalog=catalog).tables == 7
    assert everything_read(Warehouse.open(tmp_path / "own")) == before


def test_a_warehouse_at_work_is_not_relocated(tmp_path: Path) -> None:
    tables = Warehouse.open(tmp_path / "first").stream(Trades())
    with tables.day_lease(MONDAY, run_id="busy"):
        shutil.copytree(tmp_path / "first", tmp_path / "copy")
        with pytest.raises(BusyError, match=r"run busy on .* holds day:2013-10-07 of trades"):
            Warehouse.relocate(tmp_path / "copy")
