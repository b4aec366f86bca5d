"""A publishing process is killed at the steps of a publish and at random moments: each table is old or new."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.warehouse import Warehouse
from tests.thoroughness import long_but
from tests.warehouse.processes import CONTEXT
from tests.warehouse.published_days import (
    MONDAY,
    TUESDAY,
    Trades,
    fingerprint_of,
    publish_day,
    publish_events,
    publish_quarantine,
    write_events,
)

EVENTS_A_DAY = 40


def open_later(location: Path | str, turn: int) -> StreamTables:
    """Open the warehouse as of `turn` times 10 minutes from now: leases of killed processes have run out."""
    warehouse = Warehouse.open(location, clock=lambda: time.time() + 600.0 * turn)
    return warehouse.open_stream("trades") if turn else warehouse.stream(Trades())


def version_of(tables: StreamTables) -> float | None:
    """The version of Monday that is published: every row and every record must be of this one version."""
    monday = next((entry for entry in tables.days() if entry.day == MONDAY), None)
    prices = tables.read_events(MONDAY, MONDAY).column("price").to_pylist()
    if monday is None:
        assert prices == []
        return None
    version = prices[0]
    assert prices == [version] * EVENTS_A_DAY
    assert monday.events == EVENTS_A_DAY
    assert monday.counts == {"version": int(version)}
    assert tables.carry_in(TUESDAY) == {"version": version}
    assert monday.fingerprint.raw_files[0].name == f"{version}.csv"
    assert monday.snapshot_id in [
        snapshot.snapshot_id for snapshot in tables.warehouse.catalog.load_table((tables.name, "events")).snapshots()
    ]
    return version


def publish_version(tables: StreamTables, version: float) -> None:
    with tables.day_lease(MONDAY, run_id=f"run-{version}") as lease:
        recorded = fingerprint_of(tables, MONDAY, version)
        fingerprint = replace(recorded, raw_files=(replace(recorded.raw_files[0], name=f"{version}.csv"),))
        paths = write_events(tables, MONDAY, [version] * EVENTS_A_DAY, run_id=f"run-{version}", parts=3)
        publish_quarantine(tables, MONDAY, [], lease=lease, fingerprint=fingerprint)
        publish_events(
            tables,
            MONDAY,
            paths,
            lease=lease,
            fingerprint=fingerprint,
            carry_out={"version": version},
            counts={"version": int(version)},
        )


def kill_at_step(step: int) -> None:
    """Let this process die just before its step-th file created, statement executed or transaction ended."""
    import sqlalchemy.engine
    import sqlalchemy.event
    from pyiceberg.io.pyarrow import PyArrowFile

    left = step

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(create: Callable[..., object]) -> Callable[..., object]:
        def after_count(*arguments: object, **options: object) -> object:
            count()
            return create(*arguments, **options)

        return after_count

    PyArrowFile.create = counted(PyArrowFile.create)  # type: ignore[method-assign, assignment]
    for name in ("before_cursor_execute", "commit"):
        sqlalchemy.event.listen(sqlalchemy.engine.Engine, name, count)


def _publish_and_die(open_at: Callable[[int], StreamTables], turn: int, step: int) -> None:
    tables = open_at(turn)
    kill_at_step(step)
    publish_version(tables, float(turn))


def kill_publishes(open_at: Callable[[int], StreamTables], stride: int) -> list[bool]:
    """Kill a publish before every `stride`-th of its steps, until one is done before its step comes.

    Parameters
    ----------
    open_at
        Opens the tables as of a turn, when the leases of all earlier turns have run out; other processes call it too.

    Returns
    -------
    list of bool
        For each publish whether its version is there afterwards; if not, the one before is there as it was.
    """
    publish_day(open_at(0), TUESDAY, [5.0])
    published: float | None = None
    outcomes = []
    step = 0
    while True:
        turn = step + 1
        process = CONTEXT.Process(target=_publish_and_die, args=(open_at, turn, step))
        process.start()
        process.join()
        tables = open_at(turn)
        version = version_of(tables)
        assert version in (published, float(turn))
        assert tables.read_events(TUESDAY).column("price").to_pylist() == [5.0]
        outcomes.append(version == float(turn))
        published = version
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        step += stride
    assert outcomes[-1] is True
    return outcomes


@pytest.mark.long
@pytest.mark.parametrize("stride", long_but([6], [1, 6]))
def test_a_kill_at_each_step_leaves_the_old_or_the_new_day(tmp_path: Path, stride: int) -> None:
    outcomes = kill_publishes(partial(open_later, str(tmp_path / "warehouse")), stride)
    # Kills came both before and after the commit of the events.
    assert set(outcomes[:-1]) == {False, True}
    assert len(outcomes) > 20 / stride


def _publish_for_ever(location: str, turn: int, started: Connection) -> None:
    tables = open_later(location, turn)
    started.send("go")
    version = turn * 1000.0
    while True:
        version += 1
        publish_version(tables, version)


@pytest.mark.parametrize("seed", long_but([], range(3)))
def test_a_kill_at_a_random_moment_leaves_one_whole_version(tmp_path: Path, seed: int) -> None:
    location = tmp_path / "warehouse"
    open_later(location, 0)
    moments = random.Random(seed)
    seen: float = 0.0
    for turn in range(1, 9):
        here, there = CONTEXT.Pipe()
        process = CONTEXT.Process(target=_publish_for_ever, args=(str(location), turn, there))
        process.start()
        here.recv()
        time.sleep(moments.uniform(0.0, 0.15))
        process.kill()
        process.join()
        version = version_of(open_later(location, turn)) or 0.0
        assert version == seen or turn * 1000 < version < (turn + 1) * 1000
        seen = version
    tables = open_later(location, 9)
    publish_version(tables, 9000.0)
    assert version_of(tables) == 9000.0


def _open_and_die(location: str, step: int) -> None:
    kill_at_step(step)
    open_later(location, 0)


@pytest.mark.long
@pytest.mark.parametrize("stride", long_but([16], [2, 16]))
def test_a_warehouse_whose_making_was_killed_is_made_to_the_end(tmp_path: Path, stride: int) -> None:
    for number, step in enumerate(range(0, 1000, stride)):
        location = tmp_path / f"warehouse-{number}"
        process = CONTEXT.Process(target=_open_and_die, args=(str(location), step))
        process.start()
        process.join()
        tables = open_later(location, 0)
        publish_version(tables, 1.0)
        assert version_of(tables) == 1.0
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
    assert process.exitcode == 0
    assert number > 40 / stride
