"""Rot on the disk: no flipped bit is published on without a word, and `cep verify` names what is damaged."""

from __future__ import annotations

import hashlib
import json
import random
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sql
from pyiceberg.manifest import clear_manifest_cache

from cep_pipeline.errors import CepError, DamagedError, InputError
from cep_pipeline.spark.detection import DetectedDay
from cep_pipeline.statistics.observed import Observed
from cep_pipeline.storage import WrittenFile, read_data_file, size_and_digest
from cep_pipeline.warehouse import stream_tables
from cep_pipeline.warehouse.catalog import as_published
from cep_pipeline.warehouse.database import FILES
from cep_pipeline.warehouse.records import MatchesFingerprint, RunRecord
from cep_pipeline.warehouse.units import Draft, open_table
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.thoroughness import examples, long_but
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    Trades,
    everything_read,
    lose,
    publish_day,
    publish_everything,
    publish_matches,
)
from tests.warehouse.test_verification import changed, damages, files_in_use

KINDS: dict[str, Callable[[Path], bool]] = {
    "data": lambda path: path.suffix == ".parquet",
    "manifest list": lambda path: path.name.startswith("snap-"),
    "manifest": lambda path: path.suffix == ".avro" and not path.name.startswith("snap-"),
    "metadata": lambda path: path.suffix == ".json",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse that no test leaves changed."""
    folder = tmp_path_factory.mktemp("whole") / "warehouse"
    publish_everything(Warehouse.open(folder).stream(Trades()))
    return folder


def flipped(content: bytes, at: int, bit: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


@dataclass(frozen=True)
class Flip:
    """A flipped bit of a file, and what came of it.

    Parameters
    ----------
    kind, path, at, bit
        The file and its kind, the byte and its bit.
    told
        True if `cep verify --deep` names the file.
    read
        The result of reading everything.
    """

    kind: str
    path: Path
    at: int
    bit: int
    told: bool
    read: Literal["the same", "an error", "other rows"]

    @property
    def silent(self) -> bool:
        """True if it changes what is read and nothing names the file."""
        return not self.told and self.read != "the same"


def sweep(place: Path, kind: str, flips: int, seed: int, catalog: str | None = None) -> list[Flip]:
    """Flip single bits in files of a kind, one at a time, and see what is read and what is told."""
    chance = random.Random(f"{kind} {seed}")
    with closing(Warehouse.open(place, catalog)) as warehouse:
        before = everything_read(warehouse)
        paths = [path for path in files_in_use(warehouse) if KINDS[kind](path)]
    tried = []
    for _ in range(flips):
        path = chance.choice(paths)
        whole = path.read_bytes()
        at, bit = chance.randrange(len(whole)), chance.randrange(8)
        # Opened anew each time, so that nothing is remembered.
        with changed(path, flipped(whole, at, bit)), closing(Warehouse.open(place, catalog)) as warehouse:
            read: Literal["the same", "an error", "other rows"]
            try:
                read = "the same" if everything_read(warehouse) == before else "other rows"
            except CepError as error:  # any other exception is a traceback, and fails the test
                assert str(error)
                read = "an error"
            told = [damage for damage in warehouse.verify(deep=True).damages if damage.place == str(path)]
            assert all(damage.what and damage.remedy for damage in told)
            tried.append(Flip(kind, path, at, bit, bool(told), read))
    return tried


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_no_flip_of_a_bit_is_silent(place: Path, kind: str) -> None:
    assert [flip for flip in sweep(place, kind, examples(80), 1) if not flip.told] == []
    assert damages(place, deep=True) == ()


@pytest.mark.long
@pytest.mark.parametrize("every", long_but([997], [997, 1]))
@pytest.mark.parametrize("name", ["events", "matches", "runs", "quarantine", "statistics", "plans", "decisions"])
def test_a_flipped_bit_of_a_file_that_tells_of_others_is_an_error(tmp_path: Path, name: str, every: int) -> None:
    """Each bit of the metadata file, the manifest lists and the manifests, by our own reader and by PyIceberg."""
    tables = Warehouse.open(tmp_path).stream(Trades())
    publish_day(tables, MONDAY, [1.0, 2.0])
    publish_matches(tables, MONDAY, ["a"])
    tables.record_run(RunRecord("run", MONDAY, "running", datetime(2013, 10, 9, tzinfo=UTC)))
    database = tables.warehouse.database
    paths = [path for path in files_in_use(tables.warehouse) if path.is_relative_to(tmp_path / "trades" / name)]
    paths = [path for path in paths if path.suffix != ".parquet"]
    found = {kind for kind in KINDS for path in paths if KINDS[kind](path)}
    # The tables that have no rows yet have only metadata, or empty lists.
    assert found >= (
        {"metadata", "manifest list", "manifest"} if name in ("events", "matches", "runs") else {"metadata"}
    )
    for path in paths:
        whole = path.read_bytes()
        for number in range(0, 8 * len(whole), every):
            path.write_bytes(flipped(whole, *divmod(number, 8)))
            with pytest.raises(DamagedError, match=path.name):
                open_table(database, "trades", name).files("day")
            if number % 499 == 0:
                clear_manifest_cache()
                with pytest.raises(DamagedError, match=path.name):
                    as_published(tables.warehouse.catalog.load_table(("trades", name))).named_files()
        path.write_bytes(whole)


@pytest.mark.long
@pytest.mark.parametrize("name", ["events", "quarantine", "matches"])
def test_a_day_that_its_table_has_lost_is_told_by_all_readers_until_it_is_made_again(tmp_path: Path, name: str) -> None:
    warehouse = Warehouse.open(tmp_path / "w")
    tables = warehouse.stream(Trades())
    publish_everything(tables)
    before, files = everything_read(warehouse), set((tmp_path / "w").rglob("*.parquet"))
    lose(tables, name, TUESDAY)
    readers = {
        "events": [tables.read_events, lambda: tables.events_files(TUESDAY, snapshot=tables.pin_events())],
        "quarantine": [tables.read_quarantine],
        "matches": [lambda: tables.read_matches("demo"), lambda: tables.matches_files("demo", TUESDAY)],
    }[name]
    for read in readers:
        with pytest.raises(DamagedError, match=rf"{name} 2013-10-08.*has 0.*`cep run .*--redo --day 2013-10-08`"):
            read()
    (said,) = Warehouse.open(tmp_path / "w", clock=lambda: time.time() + 1e6).maintain(keep_snapshots_s=0.0).damages
    assert f"trades.{name}" in said and "the table has 0" in said
    left = set((tmp_path / "w").rglob("*.parquet"))
    assert {path for path in files if f"/{name}/" in str(path)} <= left, "what is left of the day stays"
    assert any("the table has 0" in one.what for one in damages(tmp_path / "w"))
    publish_everything(tables)
    assert damages(tmp_path / "w", deep=True) == ()
    assert everything_read(warehouse)[:4] == before[:4]


def test_nothing_is_published_on_lists_that_have_lost_their_entries(tmp_path: Path) -> None:
    tables = Warehouse.open(tmp_path / "w").stream(Trades())
    publish_day(tables, MONDAY, [1.0])
    current = tables.warehouse.catalog.load_table(("trades", "events")).current_snapshot()
    assert current is not None
    path = Path(current.manifest_list)
    whole = path.read_bytes()
    marker = whole[-16:]
    path.write_bytes(whole[: whole.index(marker) + len(marker)])  # all that stands behind the header
    with pytest.raises(DamagedError, match=path.name):
        publish_day(tables, TUESDAY, [2.0])
    path.write_bytes(whole)
    publish_day(tables, TUESDAY, [2.0])
    assert [one.day for one in tables.days()] == [MONDAY, TUESDAY] and damages(tmp_path / "w", deep=True) == ()


@pytest.mark.long
@pytest.mark.parametrize("catalog", ["empty", "of another program", "missing"])
def test_a_catalog_without_the_tables_of_a_warehouse_is_no_new_warehouse(tmp_path: Path, catalog: str) -> None:
    with closing(Warehouse.open(tmp_path)) as warehouse:
        publish_everything(warehouse.stream(Trades()))
    file = tmp_path / "catalog.db"
    file.unlink()
    if catalog != "missing":
        file.touch()
    if catalog == "of another program":
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE notes (text TEXT)")
    content = file.read_bytes() if file.exists() else None
    with pytest.raises(InputError, match=r"holds tables, and their catalog .* is missing, or is that of no warehouse"):
        Warehouse.open(tmp_path)
    assert (file.read_bytes() if file.exists() else None) == content, "it is not made a catalog by looking at it"
    Warehouse.open(tmp_path / "new", f"sqlite:///{file}")  # a new place may have it


@pytest.mark.long
def test_a_new_warehouse_keeps_others_out(tmp_path: Path) -> None:
    for place in (tmp_path / "a" / "new", tmp_path / "there"):
        if place.name == "there":
            place.mkdir(mode=0o755)
        tables = Warehouse.open(place).stream(Trades())
        publish_everything(tables)
        private = [place / "catalog.db", place / "trades", place / "scratch"]
        if place.name == "new":
            private.append(place)
        modes = {path.name: path.stat().st_mode & 0o007 for path in private}
        assert set(modes.values()) == {0}, modes


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_none_of_many_flips_is_silent(place: Path, kind: str, seed: int) -> None:
    assert [flip for flip in sweep(place, kind, 400, seed + 2) if flip.silent] == []


@pytest.mark.parametrize("column", ["day", "timestamp", "seq", "pattern", "match_id"])
def test_a_column_whose_name_is_mangled_is_an_error_that_names_the_file(place: Path, column: str) -> None:
    with closing(Warehouse.open(place)) as warehouse:
        before = everything_read(warehouse)
        paths = [path for path in files_in_use(warehouse) if KINDS["metadata"](path)]
    tried = 0
    for path in paths:
        whole = path.read_bytes()
        for found in re.finditer(rf'"name":\s*"{column}"'.encode(), whole):
            tried += 1
            mangled = flipped(whole, found.end() - 2, 0)
            with changed(path, mangled), closing(Warehouse.open(place)) as warehouse:
                try:
                    assert everything_read(warehouse) == before
                except DamagedError as error:
                    assert str(path) in str(error)
    assert tried


def test_no_flip_of_a_bit_of_the_catalog_changes_what_is_read(place: Path) -> None:
    """The catalog has no checksums; a flip ends in an error, or in the same events and matches."""

    def read() -> list[Any]:
        with closing(Warehouse.open(place)) as warehouse:
            tables = warehouse.open_stream("trades")
            return [tables.read_events().to_pylist(), tables.read_matches("demo").to_pylist()]

    chance = random.Random(20)
    before, catalog = read(), place / "catalog.db"
    whole = catalog.read_bytes()
    used = [at for at, byte in enumerate(whole) if byte]
    errors = 0
    names = [(one.start(), 0) for one in re.finditer(rb"\.metadata\.json", whole)]
    for at, bit in [*names[:20], *((chance.choice(used), chance.randrange(8)) for _ in range(examples(40)))]:
        with changed(catalog, flipped(whole, at, bit)):
            try:
                assert read() == before, (at, bit)
            except CepError as error:  # any other exception is a traceback, and fails the test
                assert str(error)
                errors += 1
    assert errors, "no flip met what is read"


def test_each_published_file_is_recorded_as_it_was_written(place: Path) -> None:
    warehouse = Warehouse.open(place)
    with warehouse.database.begin() as connection:
        rows = connection.execute(sql.select(FILES)).all()
    known = {place / row.stream / row.table_name / row.path: (row.size, row.sha256) for row in rows}
    assert set(files_in_use(warehouse)) <= set(known)
    for path in files_in_use(warehouse):
        content = path.read_bytes()
        assert known[path] == (len(content), hashlib.sha256(content).hexdigest())


def test_a_task_hands_the_digests_of_files_to_the_next_as_json() -> None:
    files = (WrittenFile.of("a.parquet", 12, "5e"), "b.parquet")
    of_day = MatchesFingerprint("v1", MONDAY)
    draft = Draft("matches", MONDAY, files, of_day, pattern_set="demo")
    detected = DetectedDay("demo", files, {}, Observed(()), {}, fingerprint=of_day)
    for made in (draft, detected):
        handed = json.loads(json.dumps(made.to_json()))
        read = type(made).from_json(handed).files
        assert read == files and not isinstance(read[1], WrittenFile)
        assert size_and_digest(read[0]) == (12, "5e")
        handed["files"] = ["a.parquet", "b.parquet"]  # as an earlier version has written it
        assert type(made).from_json(handed).files == files


def damage(path: Path) -> None:
    """Flip a bit in the middle of the largest chunk of a file's pages."""
    whole = path.read_bytes()
    group = pq.read_metadata(path).row_group(0)
    chunk = max(map(group.column, range(group.num_columns)), key=lambda one: one.total_compressed_size)
    start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    path.write_bytes(flipped(whole, start + chunk.total_compressed_size // 2, 3))


def test_a_damaged_page_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    tables = Warehouse.open(tmp_path).stream(Trades())
    publish_day(tables, MONDAY, [float(price) for price in range(500)])
    (file,) = tables.events_files()
    whole = Path(file.path).read_bytes()
    before = read_data_file(file.path, tables.events_schema)
    said = []
    footer = int.from_bytes(whole[-8:-4], "little") + 8  # it has no checksum: `cep verify --deep` compares the whole
    for at in range(40, len(whole) - footer, 43):
        Path(file.path).write_bytes(flipped(whole, at, 5))
        try:
            assert read_data_file(file.path, tables.events_schema) == before, "or an error says it"
        except DamagedError as error:
            said.append(str(error))
    assert len(said) > 30
    start, end = f"{file.path}: the file is damaged (", "`cep run --redo --day DAY` makes one again"
    assert all(text.startswith(start) and text.endswith(end) for text in said)
    assert DamagedError("", "").exit_code == 3


def test_files_without_a_digest_are_read_and_verified_as_before(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path)
    tables = warehouse.stream(Trades())
    publish_day(tables, MONDAY, [1.0])
    with warehouse.database.begin() as connection:
        connection.execute(sql.delete(FILES))
    assert damages(tmp_path, deep=True) == () and tables.read_events().num_rows == 1


@pytest.mark.long
def test_digests_go_with_their_files(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path)
    publish_everything(warehouse.stream(Trades()))

    def recorded() -> set[str]:
        with warehouse.database.begin() as connection:
            rows = connection.execute(sql.select(FILES)).all()
        return {f"{tmp_path}/{row.stream}/{row.table_name}/{row.path}" for row in rows}

    assert recorded() - set(map(str, tmp_path.rglob("*"))) == set()
    later: Any = Warehouse.open(tmp_path, clock=lambda: 4e9)
    later.maintain(keep_snapshots_s=-60.0)
    assert recorded() <= set(map(str, tmp_path.rglob("*")))
    assert damages(tmp_path, deep=True) == ()


@pytest.mark.parametrize("how", ["gone", "cut off"])
def test_metadata_that_was_lost_is_named_by_pinned_readers_too(tmp_path: Path, how: str) -> None:
    tables = Warehouse.open(tmp_path).stream(Trades())
    publish_day(tables, MONDAY, [1.0])
    publish_matches(tables, MONDAY, ["a"])
    for path in tmp_path.glob("trades/matches/metadata/*.metadata.json"):
        path.unlink() if how == "gone" else path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DamagedError, match=r"trades/matches/metadata/.*\.metadata\.json: it ") as raised:
        tables.pinned(("events", "matches"))
    assert raised.value.exit_code == 3


def test_one_damaged_file_does_not_stop_maintenance(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    warehouse = Warehouse.open(tmp_path)
    tables = warehouse.stream(Trades())
    for day in (MONDAY, TUESDAY):
        publish_day(tables, day, [float(price) for price in range(1000)], parts=2)
    path = Path(tables.events_files(MONDAY, MONDAY)[0].path)
    damage(path)
    report = warehouse.maintain()
    assert report.by_table["trades.events"]["merged_files"] == 1
    assert len(tables.events_files(MONDAY, MONDAY)) == 2 and len(tables.events_files(TUESDAY, TUESDAY)) == 1
    assert "2 small files are not merged" in caplog.text and path.name in caplog.text


@pytest.mark.long
@pytest.mark.parametrize("lost", [False, True])
def test_a_table_with_damaged_metadata_does_not_stop_maintenance(tmp_path: Path, lost: bool) -> None:
    warehouse = Warehouse.open(tmp_path)
    for name in ("trades", "quotes"):
        publish_day(warehouse.stream(Trades(name)), MONDAY, [1.0, 2.0], parts=2)
    metadata = Path(warehouse.catalog.metadata_location(("quotes", "events")))
    if lost:
        metadata.unlink()
    else:
        metadata.write_bytes(b"{")
    report = warehouse.maintain()
    assert report.merged_files == report.by_table["trades.events"]["merged_files"] == 1
    assert "quotes.events" not in report.by_table and "quotes.matches" in report.by_table
    (said,) = report.damages
    assert said.startswith(f"quotes.events: {metadata}: ") and "cep help operations" in said


def test_a_day_whose_files_cannot_be_compared_is_redone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = Warehouse.open(tmp_path).stream(Trades())
    publish_day(tables, MONDAY, [1.0])
    publish_day(tables, TUESDAY, [1.0])

    def unreadable(*_: object) -> tuple[int, str]:
        raise CepError("reading the published file: Input/output error")

    monkeypatch.setattr(stream_tables, "read_digest", unreadable)
    publish_day(tables, MONDAY, [2.0])
    assert tables.read_events(MONDAY, MONDAY)["price"].to_pylist() == [2.0]
