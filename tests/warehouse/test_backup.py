"""`Warehouse.backup` and `restore`: each kind of loss, restores at other places and on other databases."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sql

from cep_pipeline.errors import BusyError, DamagedError, InputError
from cep_pipeline.warehouse import backup as backups
from cep_pipeline.warehouse.database import FILES, PUBLISHED, change_records
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.postgresql import postgresql
from tests.thoroughness import long_but
from tests.warehouse.processes import CONTEXT
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    WEDNESDAY,
    Trades,
    buffers_of,
    contents,
    everything_read,
    lose,
    publish_day,
    publish_everything,
    publish_limited,
)
from tests.warehouse.test_kills import kill_at_step
from tests.warehouse.test_relocation import assert_all_metadata_has_digests


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a warehouse, a backup of it, and nothing else."""
    folder = tmp_path_factory.mktemp("original")
    warehouse = Warehouse.open(folder / "warehouse")
    publish_everything(warehouse.stream(Trades()))
    warehouse.backup(folder / "backup")
    warehouse.close()
    return folder


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Iterator[Path]:
    """The warehouse, to be damaged; it is put right afterwards."""
    aside = tmp_path / "aside"
    shutil.copytree(original / "warehouse", aside)
    yield original / "warehouse"
    shutil.rmtree(original / "warehouse", ignore_errors=True)
    shutil.copytree(aside, original / "warehouse")


def remove(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def mangle(path: Path) -> None:
    """Change a byte and keep the size."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


KINDS = {
    "catalog": "catalog.db",
    "metadata": "trades/*/metadata/*.metadata.json",
    "manifest lists": "trades/*/metadata/snap-*.avro",
    "manifests": "trades/*/metadata/*-m*.avro",
    "events": "trades/events/data/*/*.parquet",
    "records": "trades/runs/data/*.parquet",
}


@pytest.mark.parametrize("damage", long_but([mangle], [remove, truncate, mangle]))
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_lost_comes_back(original: Path, place: Path, kind: str, damage: Callable[[Path], None]) -> None:
    before = everything_read(Warehouse.open(place))
    files = list(place.glob(KINDS[kind]))
    assert files
    for file in files:
        damage(file)
    report = Warehouse.restore(place, backup=original / "backup", replace=True)
    assert report.copied_files <= len(files), "files that are whole are not copied"
    warehouse = Warehouse.open(place)
    assert everything_read(warehouse) == before
    assert warehouse.verify(deep=True).damages == ()
    publish_day(warehouse.stream(Trades()), WEDNESDAY, [5.0])
    assert warehouse.verify(deep=True).damages == ()


def test_a_folder_that_is_gone_comes_back_and_elsewhere_too(original: Path, place: Path, tmp_path: Path) -> None:
    before = everything_read(Warehouse.open(place))
    shutil.rmtree(place)
    for where in (place, tmp_path / "elsewhere"):
        Warehouse.restore(where, backup=original / "backup")
        warehouse = Warehouse.open(where)
        assert everything_read(warehouse) == before
        assert warehouse.verify(deep=True).damages == ()
        if where != place:
            assert_all_metadata_has_digests(warehouse)
        assert not (where / backups.UNFINISHED).exists()
        publish_everything(warehouse.stream(Trades()))
        warehouse.maintain(keep_snapshots_s=-60.0)
        assert warehouse.verify(deep=True).damages == ()
    moved = [content for path, content in contents(tmp_path / "elsewhere" / "trades").items() if "00-" not in path]
    assert moved


def test_a_warehouse_with_tables_is_replaced_only_where_that_is_said(original: Path, place: Path) -> None:
    warehouse = Warehouse.open(place)
    before = everything_read(warehouse)
    publish_day(warehouse.stream(Trades()), WEDNESDAY, [5.0])
    after = everything_read(warehouse)
    files = contents(place)
    with pytest.raises(InputError, match=r"holds tables already\. --replace"):
        Warehouse.restore(place, backup=original / "backup")
    assert contents(place) == files and everything_read(warehouse) == after
    with warehouse.lease("trades", "day", run_id="busy"), pytest.raises(BusyError, match="run busy"):
        Warehouse.restore(place, backup=original / "backup", replace=True)
    warehouse.close()
    Warehouse.restore(place, backup=original / "backup", replace=True)
    assert everything_read(Warehouse.open(place)) == before
    (replaced,) = place.glob("catalog.db.replaced-*")
    assert sqlite3.connect(replaced).execute("SELECT count(*) FROM cep_published").fetchone()[0] > 0


def test_a_journal_of_the_old_catalog_is_not_applied_to_the_new_one(original: Path, place: Path) -> None:
    before = everything_read(Warehouse.open(place))
    (place / "catalog.db-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504))
    Warehouse.restore(place, backup=original / "backup", replace=True)
    assert not (place / "catalog.db-journal").exists()
    assert everything_read(Warehouse.open(place)) == before


def test_buffers_of_limited_patterns_come_along(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w")
    tables = warehouse.stream(Trades())
    publish_day(tables, MONDAY, [1.0])
    path = publish_limited(tables, MONDAY)
    content = Path(path).read_bytes()
    warehouse.backup(tmp_path / "b")
    warehouse.close()
    (tmp_path / "w").rename(tmp_path / "moved")
    Warehouse.relocate(tmp_path / "moved")
    Warehouse.restore(tmp_path / "restored", backup=tmp_path / "b")
    for place in ("moved", "restored"):
        warehouse = Warehouse.open(tmp_path / place)
        (found,) = buffers_of(warehouse.stream(Trades()), MONDAY)
        assert found == path.replace(f"{tmp_path}/w/", f"{tmp_path}/{place}/")
        assert Path(found).read_bytes() == content
        Path(found).unlink()
        warehouse.backup(tmp_path / f"without, {place}")  # lost ones do not keep the rest from being copied


def test_buffers_that_an_earlier_version_recorded_by_their_whole_paths_are_still_read(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w")
    tables = warehouse.stream(Trades())
    publish_day(tables, MONDAY, [1.0])
    path = publish_limited(tables, MONDAY)
    with warehouse.database.begin() as connection:
        old, whole = '"trades/compressed', f'"{tmp_path}/w/trades/compressed'
        change_records("", connection, PUBLISHED, [], lambda row: {"counts": row.counts.replace(old, whole)})
        assert path in str(connection.execute(sql.select(PUBLISHED.c.counts)).all())
    assert buffers_of(tables, MONDAY) == (path,)
    warehouse.backup(tmp_path / "b")
    assert str(Path(path).relative_to(tmp_path / "w")) in backups.read_moment(str(tmp_path / "b")).files
    warehouse.close()
    (tmp_path / "w").rename(tmp_path / "moved")
    Warehouse.relocate(tmp_path / "moved")
    moved = Warehouse.open(tmp_path / "moved").open_stream("trades")
    (found,) = buffers_of(moved, MONDAY)
    assert found == path.replace(f"{tmp_path}/w/", f"{tmp_path}/moved/") and Path(found).is_file()


def test_a_second_backup_copies_only_what_is_new_and_old_moments_stay(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w")
    tables = warehouse.stream(Trades())
    publish_everything(tables)
    before = everything_read(warehouse)
    first = warehouse.backup(tmp_path / "b")
    assert first.copied_files == first.files > 30
    publish_day(tables, WEDNESDAY, [5.0])
    second = warehouse.backup(tmp_path / "b")
    assert 0 < second.copied_files < 10
    assert warehouse.backup(tmp_path / "b").copied_files == 0
    assert backups.moments(str(tmp_path / "b"))[:2] == [first.moment, second.moment]
    Warehouse.restore(tmp_path / "earlier", backup=tmp_path / "b", moment=first.moment)
    assert everything_read(Warehouse.open(tmp_path / "earlier")) == before
    report = warehouse.backup(tmp_path / "b", keep=2)
    assert report.removed_moments == 2
    place = str(tmp_path / "b")
    assert first.moment not in backups.moments(place)
    for moment in backups.moments(place):
        assert backups.check(place, backups.read_moment(place, moment), lambda *_: None) == []
    assert warehouse.leases() == []
    with pytest.raises(InputError, match="it holds backups of the warehouse at"):
        Warehouse.open(tmp_path / "earlier").backup(tmp_path / "b")
    with pytest.raises(InputError, match="inside of the warehouse"):
        warehouse.backup(tmp_path / "w" / "b")


def test_a_copy_of_rot_is_replaced_by_the_next_backup(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w")
    tables = warehouse.stream(Trades())
    publish_day(tables, MONDAY, [1.0, 2.0])
    before = everything_read(warehouse)
    path = Path(tables.events_files()[0].path)
    content = path.read_bytes()
    with warehouse.database.begin() as connection:  # as of a version that recorded no digests
        recorded = [dict(row._mapping) for row in connection.execute(sql.select(FILES))]
        connection.execute(sql.delete(FILES))
    mangle(path)
    warehouse.backup(tmp_path / "b")
    path.write_bytes(content)
    with warehouse.database.begin() as connection:
        connection.execute(sql.insert(FILES), recorded)
    assert warehouse.backup(tmp_path / "b").copied_files == 1
    Warehouse.restore(tmp_path / "restored", backup=tmp_path / "b")
    assert everything_read(Warehouse.open(tmp_path / "restored")) == before


def test_a_copy_that_has_rotted_is_replaced_by_the_backup_after_a_check(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w")
    publish_day(warehouse.stream(Trades()), MONDAY, [1.0, 2.0])
    place = str(tmp_path / "b")
    first = warehouse.backup(place)
    copy = next((tmp_path / "b" / "files").rglob("*.parquet"))
    mangle(copy)
    (said,) = backups.check(place, backups.read_moment(place), lambda *_: None)
    assert said == f"{copy}: it is not what its digest says"
    assert warehouse.backup(place).copied_files == 1
    for name in backups.moments(place):
        assert backups.check(place, backups.read_moment(place, name), lambda *_: None) == []
    Warehouse.restore(tmp_path / "restored", backup=place, moment=first.moment)


@pytest.mark.parametrize("damage", [remove, truncate, mangle])
def test_a_damaged_backup_is_told_and_nothing_is_put_in_force(
    original: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    place = tmp_path / "backup"
    shutil.copytree(original / "backup", place)
    moment = backups.read_moment(str(place))
    victims = [next((place / "files").rglob("*.parquet")), next((place / "moments").glob("*.db"))]
    for victim in victims:
        kept = victim.read_bytes()
        damage(victim)
        (said,) = backups.check(str(place), moment, lambda *_: None)
        assert said.startswith(str(victim))
        with pytest.raises(InputError, match=f"{victim}: a file of the backup is not (there|what its digest says)"):
            Warehouse.restore(tmp_path / "w", backup=place)
        with pytest.raises(InputError, match=r"the folder holds tables, and their catalog"):
            Warehouse.open(tmp_path / "w")
        victim.write_bytes(kept)
    (listed,) = (place / "moments").glob("*.json")
    content = json.loads(listed.read_text())
    listed.write_text(json.dumps({**content, "files": {}}))
    with pytest.raises(InputError, match="list of a backup is damaged"):
        Warehouse.restore(tmp_path / "v", backup=place)
    with pytest.raises(InputError, match="no moment 'x'"):
        backups.read_moment(str(place), "x")
    with pytest.raises(InputError, match="no backup is there"):
        Warehouse.restore(tmp_path / "v", backup=tmp_path / "nothing")


@pytest.mark.parametrize("damage", ["file", "list", "day", "record"])
def test_the_latest_moment_that_is_whole_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    warehouse = Warehouse.open(tmp_path / "w")
    tables = warehouse.stream(Trades())
    publish_day(tables, MONDAY, [1.0])
    place = str(tmp_path / "b")
    good = warehouse.backup(place).moment
    before = tables.read_events().to_pylist()
    publish_day(tables, TUESDAY, [2.0])
    if damage == "day":
        lose(tables, "events", MONDAY)
    elif damage == "record":
        with warehouse.database.begin() as connection:
            connection.execute(sql.update(PUBLISHED).values(run_id="rum"))
    with monkeypatch.context() as patched:  # an older version has backed a damaged warehouse up
        patched.setattr(backups, "_refuse_damage", lambda *_: None)
        bad = warehouse.backup(place).moment
    new = backups.read_moment(place, bad).files.keys() - backups.read_moment(place, good).files.keys()
    if damage == "file":
        mangle(tmp_path / "b" / "files" / next(path for path in new if path.endswith(".parquet")))
    elif damage == "list":
        truncate(tmp_path / "b" / "moments" / f"{bad}.json")
    report = Warehouse.restore(tmp_path / "restored", backup=place)
    assert report.moment == good and len(report.passed) == 1 and bad in report.passed[0]
    restored = Warehouse.open(tmp_path / "restored")
    assert restored.open_stream("trades").read_events().to_pylist() == before
    assert restored.verify(deep=True).damages == ()
    if damage == "day":  # who asks for it gets it, and `cep run --stale` makes the day again
        Warehouse.restore(tmp_path / "as it was", backup=place, moment=bad)
        assert [one.day for one in Warehouse.open(tmp_path / "as it was").open_stream("trades").stale_days()] == [
            MONDAY
        ]


@pytest.mark.parametrize("damage", [remove, truncate])
def test_a_damaged_warehouse_is_not_backed_up(original: Path, place: Path, damage: Callable[[Path], None]) -> None:
    file = next(place.glob("trades/events/data/*/*.parquet"))
    damage(file)
    with pytest.raises(DamagedError, match=r"it is not there|should have"):
        Warehouse.open(place).backup(place.parent / "another")
    assert backups.moments(str(place.parent / "another")) == []
    # What an earlier backup has copied whole stays so.
    assert Warehouse.open(place).backup(original / "backup").copied_files == 0


def _back_up_and_die(location: str, place: str, step: int) -> None:
    kill_at_step(step)
    Warehouse.open(location).backup(place)


def test_a_backup_that_is_killed_goes_on(original: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "b")
    process = CONTEXT.Process(target=_back_up_and_die, args=(str(original / "warehouse"), place, 40))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert backups.moments(place) == []
    report = Warehouse.open(original / "warehouse").backup(place)
    assert report.files == len(backups.read_moment(place).files)
    assert backups.check(place, backups.read_moment(place), lambda *_: None) == []


def _restore_and_die(location: str, place: str, step: int) -> None:
    kill_at_step(step)
    Warehouse.restore(location, backup=place)


@pytest.mark.parametrize("stride", long_but([17], [1, 17]))
def test_a_restore_that_is_killed_goes_on(original: Path, tmp_path: Path, stride: int) -> None:
    where, place = tmp_path / "elsewhere", str(original / "backup")
    for step in range(0, 1000, stride):
        process = CONTEXT.Process(target=_restore_and_die, args=(str(where), place, step))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        with pytest.raises(InputError, match="the folder holds tables, and their catalog"):
            Warehouse.open(where)
    assert step > 30
    warehouse = Warehouse.open(where)
    assert everything_read(warehouse) == everything_read(Warehouse.open(original / "warehouse"))
    assert warehouse.verify(deep=True).damages == ()


def test_a_backup_beside_runs_is_of_one_moment(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w")
    publish_everything(warehouse.stream(Trades()))
    done = threading.Event()

    def publish() -> None:
        tables = Warehouse.open(tmp_path / "w").stream(Trades())
        version = 10.0
        while not done.is_set():
            publish_day(tables, MONDAY, [version] * 3)
            version += 1

    writer = threading.Thread(target=publish)
    writer.start()
    try:
        for number in range(3):
            warehouse.backup(tmp_path / "b")
            Warehouse.restore(tmp_path / f"r{number}", backup=tmp_path / "b")
            restored = Warehouse.open(tmp_path / f"r{number}")
            assert restored.verify(deep=True).damages == ()
            prices = set(restored.open_stream("trades").read_events(MONDAY, MONDAY)["price"].to_pylist())
            assert len(prices) == 1 or prices == {1.0, 2.0, 3.0, 4.0}
    finally:
        done.set()
        writer.join()


def test_catalogs_on_postgresql(tmp_path: Path) -> None:
    import sqlalchemy as sql

    with postgresql() as server:
        engine = sql.create_engine(f"{server}/postgres", isolation_level="AUTOCOMMIT")
        for name in ("first", "second"):
            with engine.connect() as connection:
                connection.execute(sql.text(f"CREATE DATABASE {name}"))
        engine.dispose()
        first, second = f"{server}/first", f"{server}/second"
        warehouse = Warehouse.open(tmp_path / "w", first)
        publish_everything(warehouse.stream(Trades()))
        before = everything_read(warehouse)
        warehouse.backup(tmp_path / "b")
        for where, catalog in (("other", second), ("folder", None)):
            Warehouse.restore(tmp_path / where, catalog, backup=tmp_path / "b")
            restored = Warehouse.open(tmp_path / where, catalog)
            assert everything_read(restored) == before
            assert restored.verify(deep=True).damages == ()
            restored.close()
        publish_day(warehouse.stream(Trades()), WEDNESDAY, [5.0])
        with pytest.raises(InputError, match="holds tables already"):
            Warehouse.restore(tmp_path / "w", first, backup=tmp_path / "b")
        shutil.rmtree(tmp_path / "w")
        Warehouse.restore(tmp_path / "w", first, backup=tmp_path / "b", replace=True)
        assert everything_read(Warehouse.open(tmp_path / "w", first)) == before
