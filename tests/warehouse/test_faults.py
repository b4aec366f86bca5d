"""A day is published at once: whatever fails at whichever write, and whoever reads meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from cep_pipeline.warehouse.leases import Lease
from cep_pipeline.warehouse.records import StatisticsRecord
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.units import Draft
from tests.postgresql import postgresql
from tests.thoroughness import long_but
from tests.warehouse.faults import (
    DATABASE_PLACES,
    KINDS,
    PLACES,
    VERSIONS,
    Faults,
    Kind,
    Place,
    Trial,
    expected,
    injected,
    redo,
    seen,
    version_seen,
)
from tests.warehouse.processes import CONTEXT
from tests.warehouse.published_days import MONDAY

DATABASES = ("SQLite", "PostgreSQL")


@pytest.fixture(params=DATABASES)
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trial]:
    if request.param == "SQLite":
        yield Trial(Place(str(tmp_path / "warehouse")))
    else:
        with postgresql() as server:
            made = Trial(Place(str(tmp_path / "warehouse"), f"{server}/postgres"))
            yield made
            made.tables.warehouse.close()


@pytest.mark.long
def test_a_fault_at_each_kind_of_write_leaves_the_old_or_the_new_day(trial: Trial) -> None:
    assert set(trial.writes) == set(PLACES)
    chance = random.Random(20)
    left = set()
    # Files are written in one way, whichever the database is.
    places = PLACES if trial.place.catalog is None else DATABASE_PLACES
    for number, place in enumerate(chance.sample(places, len(places))):
        at = chance.choice([at for at, of in enumerate(trial.writes) if of == place])
        tried = trial.fault(KINDS[number % len(KINDS)], at)
        assert tried is None or not tried.fault, tried
        left.add(tried.left if tried else None)
    assert {"old", "new"} <= left


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_write_leaves_the_old_or_the_new_day(trial: Trial, kind: Kind) -> None:
    tried = [trial.fault(kind, number) for number in range(len(trial.writes))]
    assert [one for one in tried if one is not None and one.fault] == []
    left = {one.left for one in tried if one is not None}
    # Where the clock goes back, or leases go by the clock of the database, nobody takes the lease away.
    undisturbed = kind == "clock back" or (kind == "clock forward" and trial.place.catalog is not None)
    assert left <= {"old", "new"} and left >= ({"new"} if undisturbed else {"old", "new"})


@pytest.mark.long
def test_the_harness_sees_a_day_that_is_published_table_by_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(Place(str(tmp_path / "warehouse")))
    at_once = StreamTables.publish

    def one_by_one(
        self: StreamTables, day: date, drafts: Sequence[Draft], statistics: Sequence[StatisticsRecord], *, lease: Lease
    ) -> list[int]:
        first = at_once(self, day, drafts[1:], lease=lease)
        return [*first, *at_once(self, day, drafts[:1], statistics, lease=lease)]

    monkeypatch.setattr(StreamTables, "publish", one_by_one)
    with injected(Faults()) as counted:
        redo(trial.tables, trial.version)
    between = counted.places.index("after the commit", counted.places.index("pointer"))
    tried = trial.fault("stop", between)
    assert tried is not None and tried.fault.startswith("a mixture")


def _redo_for_ever(place: Place, started: Connection) -> None:
    tables = place.open()
    started.send("go")
    while True:
        for version in VERSIONS:
            redo(tables, version)


@pytest.mark.long
@pytest.mark.parametrize("seed", long_but([0], range(4)))
def test_a_reader_that_joins_matches_to_events_sees_one_version(tmp_path: Path, seed: int) -> None:
    trial = Trial(Place(str(tmp_path / "warehouse")))
    chance = random.Random(seed)
    reader = trial.place.open().warehouse.open_stream("trades")
    pinned, was = reader.pinned(), trial.version
    found: set[str] = set()
    for _ in range(3):
        here, there = CONTEXT.Pipe()
        process = CONTEXT.Process(target=_redo_for_ever, args=(trial.place, there))
        process.start()
        here.recv()
        reads, least = 0, chance.randrange(1, 12)
        while reads < least or (found != set(VERSIONS) and reads < 500):
            found.add(version_seen(reader))
            assert found <= set(VERSIONS), found
            reads += 1
        time.sleep(chance.uniform(0.0, 0.3))
        process.kill()
        process.join()
        found.add(version_seen(reader))
        assert found <= set(VERSIONS), found
    assert found == set(VERSIONS), "nothing was published while the reader read: the test tests nothing"
    assert seen(pinned) == expected(was), "what was pinned before stays as it was"


def test_the_snapshots_of_a_moment_are_those_that_its_records_name(tmp_path: Path) -> None:
    trial = Trial(Place(str(tmp_path / "warehouse")))
    snapshots = trial.tables.snapshots
    assert set(snapshots) == {"events", "quarantine", "matches", "statistics"}
    (day,) = [day for day in trial.tables.days() if day.day == MONDAY]
    (unit,) = trial.tables.matches_days("demo")
    assert (snapshots["events"][0], snapshots["matches"][0]) == (day.snapshot_id, unit.snapshot_id)
    assert all(Path(location).is_file() for _, location in snapshots.values())
