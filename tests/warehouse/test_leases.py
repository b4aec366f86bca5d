from __future__ import annotations

import os
import socket
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import sqlalchemy as sql

from cep_pipeline.errors import BusyError, InputError
from cep_pipeline.warehouse.database import LEASES
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.processes import CONTEXT
from tests.warehouse.published_days import MONDAY, TUESDAY, Trades, fingerprint_of, publish_day, write_events


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def _hold(location: str, held: Connection) -> None:
    with Warehouse.open(location).lease("trades", "day:2013-10-07", run_id="first"):
        held.send(os.getpid())
        held.recv()


def test_of_two_processes_one_has_the_day_and_the_other_hears_who(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path)
    here, there = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_hold, args=(str(tmp_path), there))
    process.start()
    pid = here.recv()
    with pytest.raises(BusyError) as raised:
        warehouse.lease("trades", "day:2013-10-07", run_id="second")
    for part in ("day:2013-10-07", "run first", f"process {pid} on {socket.gethostname()}", "since", "run again"):
        assert part in str(raised.value)
    with warehouse.lease("trades", "day:2013-10-08", run_id="second"), warehouse.lease("other", "x", run_id="r"):
        assert [(holder.stream, holder.unit) for holder in warehouse.leases()] == [
            ("other", "x"),
            ("trades", "day:2013-10-07"),
            ("trades", "day:2013-10-08"),
        ]
    here.send("release")
    process.join()
    assert process.exitcode == 0
    warehouse.lease("trades", "day:2013-10-07", run_id="second").release()
    assert warehouse.leases() == []


def test_a_lease_that_is_waited_for_is_taken_when_it_is_free(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path)
    first = warehouse.lease("trades", "day", run_id="first")
    threading.Timer(0.3, first.release).start()
    with warehouse.lease("trades", "day", run_id="second", wait_s=30) as second:
        second.check()


def test_a_lease_is_taken_over_only_after_the_time_out(tmp_path: Path) -> None:
    clock = Clock()
    warehouse = Warehouse.open(tmp_path, clock=clock)
    first = warehouse.lease("trades", "day", run_id="first")
    clock.now += 120
    with pytest.raises(BusyError):
        warehouse.lease("trades", "day", run_id="second")
    clock.now += 1
    assert warehouse.leases()[0].expired
    first.look()
    assert warehouse.leases()[0].expired, "a look renews nothing"
    second = warehouse.lease("trades", "day", run_id="second")
    for ask in (first.look, first.check):
        with pytest.raises(BusyError, match="run first no longer holds its lease; now run second"):
            ask()
    second.look()
    assert first.lost
    first.release()
    second.check()
    second.release()
    assert warehouse.leases() == []


def test_a_late_heartbeat_keeps_a_lease_that_nobody_took(tmp_path: Path) -> None:
    clock = Clock()
    warehouse = Warehouse.open(tmp_path, clock=clock)
    with warehouse.lease("trades", "day", run_id="first") as first:
        clock.now += 1000
        first.check()
        with pytest.raises(BusyError):
            warehouse.lease("trades", "day", run_id="second")


def test_the_heartbeat_is_sent_by_itself(tmp_path: Path) -> None:
    clock = Clock()
    warehouse = Warehouse.open(tmp_path, clock=clock, lease_timeout_s=0.3)
    with warehouse.lease("trades", "day", run_id="first"):
        clock.now += 5
        deadline = time.monotonic() + 30
        while warehouse.leases()[0].heartbeat_at.timestamp() < clock.now and time.monotonic() < deadline:
            time.sleep(0.02)
        assert warehouse.leases()[0].heartbeat_at.timestamp() == clock.now


def test_the_holder_notices_that_its_lease_was_taken(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, lease_timeout_s=0.3)
    with warehouse.lease("trades", "day", run_id="first") as first:
        with warehouse.database.begin() as connection:
            connection.execute(sql.update(LEASES).values(token="another", run_id="second"))
        deadline = time.monotonic() + 30
        while not first.lost and time.monotonic() < deadline:
            time.sleep(0.02)
        assert first.lost
    assert [holder.run_id for holder in warehouse.leases()] == ["second"]


def test_who_has_lost_the_lease_cannot_publish(tmp_path: Path) -> None:
    clock = Clock()
    tables = Warehouse.open(tmp_path, clock=clock).stream(Trades())
    publish_day(tables, MONDAY, [1.0])
    slow = tables.day_lease(MONDAY, run_id="slow")
    paths = write_events(tables, MONDAY, [2.0], run_id="slow")
    fingerprint = fingerprint_of(tables, MONDAY, 2)
    clock.now += 121
    with tables.day_lease(MONDAY, run_id="quick"), pytest.raises(BusyError, match="no longer holds"):
        tables.publish_events(MONDAY, paths, lease=slow, fingerprint=fingerprint, carry_out={})
    assert tables.read_events().column("price").to_pylist() == [1.0]
    assert tables.days()[0].run_id == "run"


def test_a_take_over_between_check_and_commit_stops_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    warehouse = Warehouse.open(tmp_path, clock=clock)
    tables = warehouse.stream(Trades())
    publish_day(tables, MONDAY, [1.0])
    write_metadata = warehouse.catalog._write_metadata

    def take_over_first(*arguments: object, **options: object) -> None:
        # The metadata file is the last thing written before the transaction that commits.
        clock.now += 121
        tables.day_lease(MONDAY, run_id="quick")
        write_metadata(*arguments, **options)  # type: ignore[arg-type]

    slow = tables.day_lease(MONDAY, run_id="slow")
    paths = write_events(tables, MONDAY, [2.0], run_id="slow")
    monkeypatch.setattr(warehouse.catalog, "_write_metadata", take_over_first)
    with pytest.raises(BusyError, match="run slow no longer holds its lease; now run quick"):
        tables.publish_events(MONDAY, paths, lease=slow, fingerprint=fingerprint_of(tables, MONDAY, 2), carry_out={})
    assert tables.read_events().column("price").to_pylist() == [1.0]
    assert tables.days()[0].run_id == "run"


def test_a_lease_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="run_id"):
        Warehouse.open(tmp_path).lease("trades", "day", run_id="")


def test_days_and_pattern_sets_have_leases_of_their_own(tmp_path: Path) -> None:
    tables = Warehouse.open(tmp_path).stream(Trades())
    with (
        tables.day_lease(MONDAY, run_id="a"),
        tables.day_lease(TUESDAY, run_id="b"),
        tables.plan_lease("demo", run_id="a"),
        pytest.raises(BusyError, match="plan:demo"),
    ):
        tables.plan_lease("demo", run_id="b")
