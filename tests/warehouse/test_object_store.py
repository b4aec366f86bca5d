"""A warehouse on an object store gives the promises of one in a folder: publish, read, maintain, kills, two writers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyiceberg.manifest import clear_manifest_cache

from cep_pipeline import storage
from cep_pipeline.errors import InputError
from cep_pipeline.storage import open_filesystem, reach_object_stores
from cep_pipeline.warehouse.catalog import VERSION_HINT
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.object_store import BUCKET, s3_server
from tests.thoroughness import long_but
from tests.warehouse.processes import CONTEXT
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    Trades,
    names_of,
    publish_day,
    publish_everything,
    publish_matches,
)
from tests.warehouse.test_kills import kill_publishes


@pytest.fixture(scope="module")
def properties() -> Iterator[dict[str, str]]:
    with s3_server() as properties:
        yield properties
    reach_object_stores({})


@pytest.fixture
def place(properties: dict[str, str], tmp_path: Path) -> Place:
    return Place(f"s3://{BUCKET}/{tmp_path.name}", f"sqlite:///{tmp_path}/catalog.db", properties)


class Place:
    """A warehouse in the bucket, which other processes can open too."""

    def __init__(self, location: str, catalog: str, properties: dict[str, str]) -> None:
        self.location, self.catalog, self.properties = location, catalog, properties

    def open(self, turn: int = 0) -> Warehouse:
        """Open it as of `turn` times 10 minutes from now: leases of killed processes have run out."""
        later = 600.0 * turn
        return Warehouse.open(
            self.location, self.catalog, properties=self.properties, clock=lambda: time.time() + later
        )

    def tables(self, turn: int = 0) -> StreamTables:
        return self.open(turn).stream(Trades())


def files_of(place: Place) -> list[str]:
    filesystem, path = open_filesystem(place.location)
    from pyarrow.fs import FileSelector, FileType

    found = filesystem.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
    return sorted(info.path for info in found if info.type == FileType.File)


@pytest.mark.long
def test_what_is_published_is_read_and_redone(place: Place) -> None:
    tables = place.tables()
    publish_day(tables, MONDAY, [1.0, 2.0, 3.0], parts=2)
    publish_day(tables, TUESDAY, [4.0])
    publish_matches(tables, MONDAY, ["a", "b"])
    publish_day(tables, MONDAY, [7.0])
    fresh = place.open().open_stream("trades")
    assert fresh.read_events().column("price").to_pylist() == [7.0, 4.0]
    assert names_of(fresh.read_matches("demo")) == ["a", "b"]
    assert [entry.day for entry in fresh.days()] == [MONDAY, TUESDAY]
    stale = fresh.stale_days(pattern_sets={"demo": "v1"})
    assert [(unit.day, unit.pattern_set) for unit in stale if unit.day == MONDAY] == [(MONDAY, "demo")]


@pytest.mark.long
def test_maintenance_removes_what_nothing_names(place: Place) -> None:
    tables = place.tables()
    for price in range(3):
        publish_day(tables, MONDAY, [float(price)])
    orphan = tables.events_directory(MONDAY, run_id="dead").file(0)
    filesystem, path = open_filesystem(orphan)
    with filesystem.open_output_stream(path) as file:
        file.write(b"left behind")
    scratch = open_filesystem(f"{place.open().scratch}/dead/part")[1]
    with filesystem.open_output_stream(scratch) as file:
        file.write(b"left behind")
    before = files_of(place)
    assert path in before and scratch in before
    young = place.open().maintain(grace_s=3600.0)
    assert young.removed_files == 0 and files_of(place) == before
    report = place.open(turn=12).maintain(grace_s=3600.0, keep_snapshots_s=0.0)
    left = files_of(place)
    assert path not in left and scratch not in left
    assert report.expired_snapshots > 0 and report.removed_files == len(before) - len(
        [file for file in left if file in before]
    )
    assert place.tables().read_events().column("price").to_pylist() == [2.0]


def test_all_files_of_a_bucket_are_reached_by_one_client(place: Place) -> None:
    tables = place.tables()
    publish_day(tables, MONDAY, [1.0])
    path = tables.events_files()[0].path
    first, _ = open_filesystem(path)
    assert open_filesystem(place.location)[0] is first
    assert tables.warehouse.catalog.load_table((tables.name, "events")).io.new_input(path)._filesystem is first  # type: ignore[attr-defined]


def test_the_environment_says_what_the_properties_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    before = storage.object_store_properties()
    try:
        reach_object_stores({})
        assert storage.object_store_io().properties == {"s3.endpoint": "http://minio:9000", "s3.region": "eu-west-1"}
        reach_object_stores({"s3.endpoint": "http://ceph:7480", "s3.connect-timeout": "5"})
        monkeypatch.delenv("AWS_REGION")
        assert storage.object_store_io().properties == {
            "s3.endpoint": "http://ceph:7480",
            "s3.region": "us-east-1",
            "s3.connect-timeout": "5",
        }
    finally:
        reach_object_stores(before)


@pytest.mark.long
@pytest.mark.parametrize("stride", long_but([19], [1, 19]))
def test_a_kill_at_each_step_leaves_the_old_or_the_new_day(place: Place, stride: int) -> None:
    outcomes = kill_publishes(place.tables, stride)
    assert outcomes[0] is False
    if stride == 1:  # kills came both before and after the commit of the events
        assert set(outcomes[:-1]) == {False, True}


@pytest.mark.long
def test_verification_names_what_is_missing_or_cut_off(place: Place) -> None:
    publish_everything(place.tables())
    assert place.open().verify(deep=True).damages == ()
    filesystem, _ = open_filesystem(place.location)
    kinds: dict[str, str] = {}
    for file in files_of(place):
        folder, name = file.split("/")[-2:]
        if name == VERSION_HINT:  # the next commit, or `cep maintain`, writes it anew
            continue
        kinds["snapshot" if name.startswith("snap-") else folder.partition("=")[0] + name.rpartition(".")[2]] = file
    assert len(kinds) > 5
    for file in kinds.values():
        with filesystem.open_input_stream(file) as stream:
            whole = stream.read()
        for left in (None, whole[: len(whole) // 2]):
            if left is None:
                filesystem.delete_file(file)
            else:
                write(file, left)
            clear_manifest_cache()
            assert [damage.place for damage in place.open().verify().damages] == [f"s3://{file}"]
        write(file, whole)
    clear_manifest_cache()
    assert place.open().verify(deep=True).damages == ()


def write(path: str, content: bytes) -> None:
    filesystem, inner = open_filesystem(f"s3://{path}")
    with filesystem.open_output_stream(inner) as stream:
        stream.write(content)


def _publish(place: Place, number: int) -> None:
    tables = place.tables()
    for price in (1.0, 2.0):
        publish_day(tables, MONDAY + timedelta(days=number), [price + number], run_id=f"run-{number}")


@pytest.mark.long
def test_two_writers_both_land(place: Place) -> None:
    place.tables()
    processes = [CONTEXT.Process(target=_publish, args=(place, number)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    tables = place.tables()
    assert tables.read_events().column("price").to_pylist() == [2.0, 3.0]
    assert tables.warehouse.leases() == []


def test_a_bucket_that_is_not_there_is_named_with_what_to_do(place: Place) -> None:
    missing = Place("s3://no-such-bucket/warehouse", place.catalog, place.properties)
    with pytest.raises(InputError, match=r"table trades\.events: there is no such bucket: make it"):
        missing.tables()


def test_a_server_that_is_not_there_is_named_with_what_to_do(place: Place) -> None:
    nowhere = {**place.properties, "s3.endpoint": "http://127.0.0.1:9", "s3.connect-timeout": "1"}
    with pytest.raises(InputError, match=r"the object store cannot be reached: see s3\.endpoint"):
        Place(place.location, place.catalog, nowhere).tables()
