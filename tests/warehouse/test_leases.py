from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql
from sqlalchemy.engine import Row

from cep_pipeline.errors import BusyError, CepError, InputError
from cep_pipeline.warehouse.database import LEASES
from cep_pipeline.warehouse.leases import Lease
from cep_pipeline.warehouse.records import LeaseHolder, RunRecord
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.warehouse.processes import CONTEXT
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    Trades,
    fingerprint_of,
    publish_day,
    publish_events,
    write_events,
)


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
    second = warehouse.lease("trades", "day", run_id="second")
    with pytest.raises(BusyError, match="run first no longer holds its lease; now run second"):
        first.check()
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
        publish_events(tables, MONDAY, paths, lease=slow, fingerprint=fingerprint, carry_out={})
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
        publish_events(tables, MONDAY, paths, lease=slow, fingerprint=fingerprint_of(tables, MONDAY, 2), carry_out={})
    assert tables.read_events().column("price").to_pylist() == [1.0]
    assert tables.days()[0].run_id == "run"


def test_of_a_lease_that_cannot_be_released_beside_an_error_one_line_tells(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise CepError("the disk is full")

    with (
        pytest.raises(BusyError, match="the first error"),
        Warehouse.open(tmp_path).lease("trades", "day:2013-10-07", run_id="first") as lease,
    ):
        monkeypatch.setattr(lease, "release", full)
        raise BusyError("the first error")
    (record,) = caplog.records
    assert "lease of trades day:2013-10-07 could not be released: the disk is full" in record.getMessage()
    assert record.exc_info is None


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


HOLD = """
import os, sys, time
from cep_pipeline.warehouse.warehouse import Warehouse
held = [Warehouse.open(sys.argv[1]).lease("trades", unit, run_id="dead") for unit in sys.argv[2:]]
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def held_by_another(location: Path, *units: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds leases."""
    command = [sys.executable, "-c", HOLD, str(location), *units]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_lease_of_a_dead_process_is_free_at_once(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path)
    with held_by_another(tmp_path, "day", "other") as process:
        with pytest.raises(BusyError, match=f"run dead \\(process {process.pid} on"):
            warehouse.lease("trades", "day", run_id="next")
        assert [one.expired for one in warehouse.leases()] == [False, False]
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert [one.expired for one in warehouse.leases()] == [True, True]
        told: list[LeaseHolder] = []
        for unit in ("day", "other"):
            with warehouse.lease("trades", unit, run_id="next", of_dead=told.append):
                assert warehouse.leases()[0].run_id == "next"
        assert [(one.run_id, one.unit, one.expired) for one in told] == [("dead", "day", True), ("dead", "other", True)]
    assert warehouse.leases() == []


@pytest.mark.parametrize(
    ("change", "is_dead"),
    [
        ({}, False),
        ({"place": None, "pid": 2**22 + 1}, False),
        ({"place": "another-boot pid:[1]", "pid": 2**22 + 1}, False),
        ({"pid": 2**22 + 1}, True),
        ({"pid": 1}, False),
    ],
)
def test_only_who_is_known_to_be_dead_loses_its_lease(tmp_path: Path, change: dict[str, object], is_dead: bool) -> None:
    """A process of another machine may live, and so may one whose id has been given again, until the lease runs out."""
    warehouse = Warehouse.open(tmp_path)
    with warehouse.lease("trades", "day", run_id="first"):
        if change:
            with warehouse.database.begin() as connection:
                connection.execute(sql.update(LEASES).values(**change))
        assert warehouse.leases()[0].expired == is_dead
        if is_dead:
            warehouse.lease("trades", "day", run_id="second").release()
        else:
            with pytest.raises(BusyError, match="run first"):
                warehouse.lease("trades", "day", run_id="second")


def test_a_run_whose_process_is_dead_is_abandoned(tmp_path: Path) -> None:
    tables = Warehouse.open(tmp_path).stream(Trades())
    now = datetime(2013, 10, 9, tzinfo=UTC)
    for day in (MONDAY, TUESDAY):
        tables.record_run(RunRecord("dead", day, "running", now))
    with held_by_another(tmp_path, f"day:{MONDAY}", f"day:{TUESDAY}") as process:
        assert [run.status for run in tables.runs()] == ["running"] * 2
        process.kill()
        process.wait()
    assert [run.status for run in tables.runs()] == ["abandoned"] * 2
    with tables.day_lease(MONDAY, run_id="dead"):
        assert {run.day: run.status for run in tables.runs()}[MONDAY] == "running", "the same run goes on"
    tables.record_run(RunRecord("dead", MONDAY, "succeeded", now))
    with tables.day_lease(TUESDAY, run_id="next"):
        runs = {run.day: run for run in tables.runs()}
    assert runs[MONDAY].status == "succeeded"
    assert runs[TUESDAY].status == "abandoned"
    assert re.search(rf"its process \({process.pid} on .*\) was last heard of at .*; run next has", runs[TUESDAY].error)


def test_a_dead_run_is_abandoned_though_the_next_one_is_killed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded after its lease is taken over, it would run for ever where the next run dies between the two."""
    tables = Warehouse.open(tmp_path).stream(Trades())
    tables.record_run(RunRecord("dead", MONDAY, "running", datetime(2013, 10, 9, tzinfo=UTC)))
    with held_by_another(tmp_path, f"day:{MONDAY}") as process:
        process.kill()
        process.wait()
    take = Lease._take

    def killed(lease: Lease, dead: Row[Any] | None) -> None:
        take(lease, dead)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Lease, "_take", killed)
        tables.day_lease(MONDAY, run_id="next")
    assert [one.run_id for one in tables.warehouse.leases()] == ["next"]
    assert [run.status for run in tables.runs()] == ["abandoned"]


def test_a_heartbeat_that_comes_at_last_keeps_the_lease(tmp_path: Path) -> None:
    """The holder was asleep, and wakes while another run records that it was given up."""
    clock = Clock()
    warehouse = Warehouse.open(tmp_path, clock=clock)
    lease = warehouse.lease("trades", "day", run_id="asleep")
    clock.now += 1000
    with pytest.raises(BusyError, match="run asleep"):
        warehouse.lease("trades", "day", run_id="next", of_dead=lambda _: lease.check())
    lease.release()
