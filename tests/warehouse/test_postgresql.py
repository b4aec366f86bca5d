"""The catalog on PostgreSQL, as in the composed deployment: the same promises as on SQLite."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sql

from cep_pipeline.errors import BusyError
from cep_pipeline.warehouse.database import LEASES
from cep_pipeline.warehouse.records import Decision
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.postgresql import postgresql
from tests.warehouse.processes import CONTEXT
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    Trades,
    fingerprint_of,
    publish_day,
    publish_events,
    publish_matches,
    write_events,
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql() as address:
        yield address


@pytest.fixture
def catalog(server: str, request: pytest.FixtureRequest) -> str:
    """A fresh database."""
    name = f"db{abs(hash(request.node.name))}"
    engine = sql.create_engine(f"{server}/postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sql.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"{server}/{name}"


def open_tables(location: Path | str, catalog: str, ahead_s: float = 0.0) -> StreamTables:
    return Warehouse.open(location, catalog, clock=lambda: time.time() + ahead_s).stream(Trades())


def _publish(location: str, catalog: str, number: int) -> None:
    tables = open_tables(location, catalog)
    for price in (1.0, 2.0):
        publish_day(tables, MONDAY + timedelta(days=number), [price + number], run_id=f"run-{number}")


@pytest.mark.long
def test_concurrent_writers_on_postgresql_all_land(tmp_path: Path, catalog: str) -> None:
    processes = [CONTEXT.Process(target=_publish, args=(str(tmp_path / "w"), catalog, i)) for i in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 6
    tables = open_tables(tmp_path / "w", catalog)
    assert tables.read_events().column("price").to_pylist() == [2.0 + i for i in range(6)]
    assert len(tables.days()) == 6
    assert tables.warehouse.leases() == []
    assert not (tmp_path / "w" / "catalog.db").exists()


def test_leases_and_records_on_postgresql(tmp_path: Path, catalog: str) -> None:
    tables = open_tables(tmp_path / "w", catalog)
    publish_day(tables, MONDAY, [1.0])
    publish_matches(tables, MONDAY, ["a"])
    assert tables.carry_in(TUESDAY) == {"last": 1.0}
    slow = tables.day_lease(MONDAY, run_id="slow")
    with pytest.raises(BusyError, match="run slow"):
        tables.day_lease(MONDAY, run_id="quick")
    later = open_tables(tmp_path / "w", catalog)
    with later.warehouse.database.begin() as connection:
        connection.execute(sql.update(LEASES).values(heartbeat_at=LEASES.c.heartbeat_at - 121))
    fingerprint = fingerprint_of(tables, MONDAY, 2)
    paths = write_events(tables, MONDAY, [2.0], run_id="slow")
    with later.day_lease(MONDAY, run_id="quick"), pytest.raises(BusyError, match="no longer holds"):
        publish_events(tables, MONDAY, paths, lease=slow, fingerprint=fingerprint, carry_out={})
    slow.release()
    with tables.plan_lease("demo", run_id="run") as lease:
        tables.record_plan("demo", {}, lease=lease, explain="", reason="first", pattern_set_version="v1")
    decided = Decision("demo", "replanning", "kept", "because", datetime(2013, 10, 8, tzinfo=UTC))
    with pytest.raises(BusyError, match="no longer none"):
        tables.record_decision(decided, makes_current=1)
    assert tables.decisions() == []
    tables.record_decision(decided, makes_current=1, in_place_of=1)
    assert tables.decisions() == [decided]
    assert tables.read_events().column("price").to_pylist() == [1.0]
    assert tables.stale_days(pattern_sets={"demo": "v1"}) == []


def test_leases_go_by_the_clock_of_the_database(tmp_path: Path, catalog: str) -> None:
    ahead, behind = (open_tables(tmp_path / "w", catalog, ahead_s=seconds) for seconds in (3600, -3600))
    for first, second in ((ahead, behind), (behind, ahead)):
        with first.day_lease(MONDAY, run_id="first") as lease:
            with pytest.raises(BusyError, match="run first"):
                second.day_lease(MONDAY, run_id="second")
            lease.check()
            assert abs(first.warehouse.leases()[0].heartbeat_at.timestamp() - time.time()) < 600
            assert not second.warehouse.leases()[0].expired
