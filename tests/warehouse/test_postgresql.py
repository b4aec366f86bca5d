"""The catalog on PostgreSQL, as in the composed deployment: the same promises as on SQLite."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cep_pipeline.errors import BusyError
from cep_pipeline.warehouse.records import Decision
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.processes import CONTEXT
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    Trades,
    fingerprint_of,
    publish_day,
    publish_matches,
    write_events,
)


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found and (initdb := shutil.which("initdb")):
        found = [Path(initdb)]
    return found[-1].parent if found else None


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("psycopg2")
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL's initdb is not installed")
    # PostgreSQL refuses to run as the super-user, and its folder must be its own.
    account = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="cep-postgresql-"))
    if account:
        shutil.chown(folder, **account)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = str(folder / "data")

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [programs / program, "-D", data, *arguments], check=True, cwd=folder, stdout=subprocess.DEVNULL, **account
        )

    run("initdb", "-U", "cep", "--auth=trust", "--no-sync")
    options = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off"
    run("pg_ctl", "-w", "-o", options, "-l", str(folder / "log"), "start")
    try:
        yield f"postgresql+psycopg2://cep@127.0.0.1:{port}"
    finally:
        run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture
def catalog(server: str, request: pytest.FixtureRequest) -> str:
    """A fresh database."""
    import sqlalchemy as sql

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
    later = open_tables(tmp_path / "w", catalog, ahead_s=300)
    fingerprint = fingerprint_of(tables, MONDAY, 2)
    paths = write_events(tables, MONDAY, [2.0], run_id="slow")
    with later.day_lease(MONDAY, run_id="quick"), pytest.raises(BusyError, match="no longer holds"):
        tables.publish_events(MONDAY, paths, lease=slow, fingerprint=fingerprint, carry_out={})
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
