"""`Warehouse.verify` names every file that is missing, cut off or changed, with what to do, and never fails itself."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sql
from pyiceberg.manifest import clear_manifest_cache

from cep_pipeline.errors import InputError
from cep_pipeline.warehouse.catalog import as_published
from cep_pipeline.warehouse.database import PUBLISHED
from cep_pipeline.warehouse.verification import BACKUP, Damage
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.thoroughness import examples, part_of
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    Trades,
    everything_read,
    publish_day,
    publish_everything,
    publish_matches,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse that no test leaves changed."""
    folder = tmp_path_factory.mktemp("verified") / "warehouse"
    publish_everything(Warehouse.open(folder).stream(Trades()))
    return folder


def files_in_use(warehouse: Warehouse) -> list[Path]:
    """The files of all tables that are read now: their metadata, lists and data."""
    named: set[str] = set()
    for identifier in warehouse.catalog.list_tables("trades"):
        table = as_published(warehouse.catalog.load_table(identifier))
        manifests = table.manifests()
        named |= {table.metadata_location, *(one.manifest_path for one in manifests)}
        named |= {file.file_path for one in manifests for file in table.files_in(one)}
        snapshot = table.metadata.current_snapshot()
        named |= set() if snapshot is None else {snapshot.manifest_list}
    return sorted(map(Path, named))


@contextmanager
def changed(path: Path, content: bytes | None) -> Iterator[None]:
    """Give a file other content, or remove it, inside the block."""
    whole = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    clear_manifest_cache()
    try:
        yield
    finally:
        path.write_bytes(whole)
        clear_manifest_cache()


def damages(place: Path, **options: Any) -> tuple[Damage, ...]:
    return Warehouse.open(place).verify(**options).damages


@pytest.mark.long
@pytest.mark.parametrize("deep", [False, True])
def test_nothing_is_said_of_a_warehouse_that_is_whole(tmp_path: Path, deep: bool) -> None:
    publish_everything(Warehouse.open(tmp_path).stream(Trades()))
    seen: list[tuple[int, int]] = []
    report = Warehouse.open(tmp_path).verify(deep=deep, told=lambda *numbers: seen.append(numbers))
    assert report.damages == ()
    data = [path for path in files_in_use(Warehouse.open(tmp_path)) if "data" in path.parts]
    assert report.tables == 7 and report.files == len(data)
    assert seen[0] == (0, 8) and seen[-1] == (8, 8)
    Warehouse.open(tmp_path).maintain(keep_snapshots_s=-60.0)
    assert Warehouse.open(tmp_path).verify(deep=deep).damages == ()
    assert Warehouse.open(tmp_path / "empty").verify().damages == ()


DEGREES = (None, 0.0, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
"""What is left of a file; None: it is not there."""


@pytest.mark.long
@pytest.mark.parametrize("left", DEGREES)
def test_each_file_that_is_missing_or_cut_off_is_named(place: Path, left: float | None) -> None:
    paths = files_in_use(Warehouse.open(place))
    assert {path.suffix for path in paths} == {".json", ".avro", ".parquet"} and len(paths) > 40
    for path in part_of(paths, DEGREES.index(left)):
        whole = path.read_bytes()
        with changed(path, None if left is None else whole[: int(left * len(whole))]):
            found = damages(place)
        assert [damage for damage in found if damage.place == str(path)], path
        assert all(damage.what and damage.remedy for damage in found)
    assert damages(place) == ()


def test_a_flip_in_any_page_is_found_by_reading_all(tmp_path: Path) -> None:
    tables = Warehouse.open(tmp_path).stream(Trades())
    prices = random.Random(0)
    publish_day(tables, MONDAY, [prices.random() for _ in range(3_000)])
    publish_matches(tables, MONDAY, [f"{prices.getrandbits(64):016x}" for _ in range(1_000)])
    for path in tmp_path.glob("trades/*/data/**/*.parquet"):
        whole = path.read_bytes()
        group = pq.read_metadata(path).row_group(0)
        chunks = [group.column(number) for number in range(group.num_columns)]
        large = [chunk for chunk in chunks if chunk.total_compressed_size > 2_000]
        assert large
        for chunk in large:
            start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
            at = start + chunk.total_compressed_size // 2
            with changed(path, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
                assert [damage.place for damage in damages(tmp_path, deep=True)] == [str(path)]
                assert damages(tmp_path) == ()


@pytest.mark.long
def test_a_flip_anywhere_is_found_or_changes_nothing_that_is_read(place: Path) -> None:
    flips = random.Random(7)
    before = everything_read(Warehouse.open(place))
    paths = files_in_use(Warehouse.open(place))
    found = 0
    for _ in range(tries := examples(400)):
        path = flips.choice(paths)
        whole = path.read_bytes()
        at = flips.randrange(len(whole))
        with changed(path, whole[:at] + bytes([whole[at] ^ 1 << flips.randrange(8)]) + whole[at + 1 :]):
            if damages(place, deep=True):
                found += 1
            else:
                assert everything_read(Warehouse.open(place)) == before, f"{path}, byte {at}"
    assert found > tries / 2


def test_the_remedy_is_that_of_the_unit(place: Path) -> None:
    redo = "cep run --stream trades --redo --day 2013-10-07"
    expected = {
        "events": {redo, "cep run --stream trades --redo --day 2013-10-08"},
        "matches": {
            f"cep run --stream trades --steps detect --redo --day {day} --pattern-set demo" for day in (MONDAY, TUESDAY)
        },
        "statistics": {
            f"cep run --stream trades --steps statistics --redo --day {day} --pattern-set demo"
            for day in (MONDAY, TUESDAY)
        },
        "runs": {BACKUP},
    }
    for name, remedies in expected.items():
        found = set()
        for path in place.glob(f"trades/{name}/data/**/*.parquet"):
            with changed(path, None):
                found |= {damage.remedy for damage in damages(place)}
        assert found == remedies


@pytest.mark.long
def test_a_day_that_is_published_again_is_whole(tmp_path: Path) -> None:
    tables = Warehouse.open(tmp_path).stream(Trades())
    publish_everything(tables)
    for path in tmp_path.glob("trades/*/data/**/day=2013-10-07/*.parquet"):
        path.unlink()
    assert len(damages(tmp_path)) > 3
    publish_everything(tables)
    Warehouse.open(tmp_path).maintain(keep_snapshots_s=-60.0)
    assert damages(tmp_path, deep=True) == ()


def test_only_the_streams_that_are_asked_for_are_looked_at(place: Path) -> None:
    path = next(place.glob("trades/quarantine/data/day=2013-10-08/*.parquet"))
    with changed(path, b"nothing"):
        (damage,) = damages(place, streams=["trades"])
    assert str(damage) == (
        f"{path}: a file of trades.quarantine 2013-10-08: it has 7 bytes, and should have {path.stat().st_size}; "
        "cep run --stream trades --redo --day 2013-10-08"
    )
    with pytest.raises(InputError, match="it has no stream 'bids': there are trades"):
        damages(place, streams=["bids"])


CHANGES: dict[str, tuple[Any, str]] = {
    "rows": (sql.update(PUBLISHED).values(row_count=99), "its record says 99 rows"),
    "no record": (sql.delete(PUBLISHED).where(PUBLISHED.c.day == "2013-10-08"), "its record says 0 rows"),
    "no table": (sql.text("DELETE FROM iceberg_tables WHERE table_name = 'matches'"), "does not name the table"),
    "no tables": (sql.text("DELETE FROM iceberg_tables"), "does not name the table"),
    "elsewhere": (sql.text("UPDATE iceberg_tables SET metadata_location = 'no.metadata.json'"), "it is not there"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_records_that_do_not_agree_with_their_tables_are_named(tmp_path: Path, name: str) -> None:
    publish_everything(Warehouse.open(tmp_path).stream(Trades()))
    change, said = CHANGES[name]
    warehouse = Warehouse.open(tmp_path)
    with warehouse.database.begin() as connection:
        connection.execute(change)
    found = warehouse.verify().damages
    assert found and all(re.search(said, damage.what) for damage in found)


def test_a_catalog_that_is_missing_or_cut_off_is_told_in_a_sentence(place: Path) -> None:
    catalog = place / "catalog.db"
    with (
        changed(catalog, None),
        pytest.raises(InputError, match=r"catalog\.db is missing.*; put it back"),
    ):
        damages(place)
    half = catalog.read_bytes()[: catalog.stat().st_size // 2]
    with changed(catalog, half), pytest.raises(InputError, match="put it back from a backup"):
        damages(place)


@pytest.mark.long
def test_what_is_published_and_removed_meanwhile_is_no_damage(tmp_path: Path) -> None:
    tables = Warehouse.open(tmp_path).stream(Trades())
    publish_everything(tables)
    later = Warehouse.open(tmp_path, clock=lambda: 4e9)
    done: list[date] = []

    def told(number: int, _: int) -> None:
        if number == 0:  # between the metadata and the files
            for price in range(3):
                publish_day(tables, MONDAY, [float(price)])
            later.maintain(grace_s=3600.0, keep_snapshots_s=0.0)
            done.append(MONDAY)

    assert Warehouse.open(tmp_path).verify(deep=True, told=told).damages == ()
    assert done == [MONDAY] and damages(tmp_path, deep=True) == ()
