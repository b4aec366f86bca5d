"""Rollback: all tables of a day go back to what an earlier run had published of it.

The files of earlier runs stay as long as a snapshot names them, and their records are kept beside the present ones. A
rollback publishes these files again, as new snapshots, and puts the old records in force with a note. The day and those
after it then show as stale where their inputs differ, with the note as the reason.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql

from cep_pipeline.errors import InputError
from cep_pipeline.events.columns import DAY
from cep_pipeline.storage import canonical_json, read_digest, stored_files
from cep_pipeline.warehouse.database import PUBLISHED, REPLACED, checked_record, insert_record
from cep_pipeline.warehouse.layout import OF_PATTERN_SETS, day_column
from cep_pipeline.warehouse.leases import Lease
from cep_pipeline.warehouse.published_table import check_recorded, recorded_files
from cep_pipeline.warehouse.records import RunRecord, RunStep
from cep_pipeline.warehouse.units import NOTE, replace_record, with_buffers

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot
    from sqlalchemy.engine import Connection, Row

    from cep_pipeline.warehouse.stream_tables import StreamTables

UnitKey = tuple[str, str]
"""Table and pattern set (empty where a table has none)."""


@dataclass(frozen=True)
class RollbackReport:
    """The result of a rollback: the day, the run whose state it has now, the one it had before, and rows by table."""

    day: date
    run_id: str
    before: str
    rows: Mapping[str, int]


@dataclass(frozen=True)
class _State:
    """A day as a run left it, until another run began to publish (None: it is the present state)."""

    run_id: str
    units: Mapping[UnitKey, Row[Any]]
    until: float | None


def roll_back(tables: StreamTables, day: date, to_run: str | None = None, *, run_id: str) -> RollbackReport:
    """Let all tables of a day be what an earlier run had published, as long as its snapshots are there.

    `to_run` is that run (None: the one before the present one), `run_id` the one that does it. An InputError says that
    there is no such run to go back to, or that its files are no longer kept; a DamagedError that a file is not what was
    written; a BusyError that a run is at work on the day.
    """
    started = datetime.now(UTC)
    with tables.day_lease(day, run_id=run_id) as lease:
        states = _states(tables, day)
        wanted = _wanted(tables, states, day, to_run)
        present = states[-1]
        note = (
            f"rolled back from run {present.run_id} to run {wanted.run_id} by {run_id} at {started:%Y-%m-%d %H:%M} UTC"
        )
        files = _files(tables, wanted, present, day)
        rows = _publish(tables, files, wanted, day, note, lease) if files else {}
        step = RunStep("roll back", (datetime.now(UTC) - started).total_seconds(), rows)
        details = {"rolled_back": {"from": present.run_id, "to": wanted.run_id}}
        tables.record_run(
            RunRecord(
                run_id, day, "succeeded", started, datetime.now(UTC), (step,), rows.get("events"), details=details
            )
        )
    return RollbackReport(day, wanted.run_id, present.run_id, rows)


def _states(tables: StreamTables, day: date) -> list[_State]:
    """The states that runs left the day in, the earliest first; the last one is the present one."""
    found: list[Row[Any]] = []
    with tables.warehouse.database.begin() as connection:  # which sees both as of one moment
        for source in (REPLACED, PUBLISHED):
            query = sql.select(source).where(source.c.stream == tables.name, source.c.day == day.isoformat())
            rows = connection.execute(query.order_by(source.c.published_at)).all()
            found += [checked_record(tables.warehouse.database.name, source, row) for row in rows]
    found.sort(key=lambda row: row.published_at)
    states: list[_State] = []
    units: dict[UnitKey, Row[Any]] = {}
    for number, row in enumerate(found):
        units[row.table_name, row.pattern_set] = row
        after = found[number + 1] if number + 1 < len(found) else None
        if after is None or after.run_id != row.run_id:
            states.append(_State(row.run_id, dict(units), None if after is None else after.published_at))
    return states


def _wanted(tables: StreamTables, states: Sequence[_State], day: date, to_run: str | None) -> _State:
    if not states:
        raise InputError(f"stream {tables.name}: nothing is published of {day}")
    earlier = [state for state in states[:-1] if ("events", "") in state.units and state.run_id != states[-1].run_id]
    chosen = [state for state in earlier if to_run in (None, state.run_id)]
    if not chosen:
        known = ", ".join(dict.fromkeys(state.run_id for state in earlier)) or "none"
        asked = "an earlier run" if to_run is None else f"run {to_run!r}"
        raise InputError(
            f"stream {tables.name}, {day}: {asked} is not there to go back to; there are: {known}. What `cep maintain` "
            "has expired is only in a backup"
        )
    return chosen[-1]


def _files(tables: StreamTables, wanted: _State, present: _State, day: date) -> dict[UnitKey, list[str]]:
    """The files that are to be the rows of the units of the day; units that are the same are left out."""
    found: dict[UnitKey, list[str]] = {}
    for key in sorted({*wanted.units, *present.units}):
        now, then = present.units.get(key), wanted.units.get(key)
        if now is not None and then is not None and now.snapshot_id == then.snapshot_id:
            continue
        if then is not None:
            found[key] = _of_snapshot(tables, key, then.snapshot_id, day)
        else:
            # `cep maintain` forgets records whose snapshots it expires: without a record, the unit may have been there.
            at = _snapshot_then(tables, key[0], wanted, day)
            found[key] = [] if at is None else _of_snapshot(tables, key, at.snapshot_id, day)
            if found[key]:
                raise _expired(tables, key[0], day)
    statistics = tables._published("statistics")
    now_files = statistics.files(DAY, day, day)
    at = _snapshot_then(tables, "statistics", wanted, day, needed=bool(now_files))
    then_files = statistics.files(DAY, day, day, snapshot_id=at.snapshot_id) if at else []
    for name in sorted({statistics.unit_of(file)[0] for file in [*then_files, *now_files]}):
        then_paths, now_paths = (
            [file.file_path for file in files if statistics.unit_of(file)[0] == name]
            for files in (then_files, now_files)
        )
        if then_paths != now_paths:
            found["statistics", name] = then_paths
    return found


def _snapshot_then(
    tables: StreamTables, name: str, state: _State, day: date, *, needed: bool = True
) -> Snapshot | None:
    """The snapshot of a table that was the current one when a run had left the day; None: the table had none yet.

    Where it is needed and has been expired, that is an InputError.
    """
    kept = sorted(tables._published(name).metadata.snapshots, key=lambda one: one.sequence_number or 0)
    then = [one for one in kept if state.until is None or one.timestamp_ms < state.until * 1000]
    if needed and not then and kept and kept[0].sequence_number != FIRST_SEQUENCE_NUMBER:
        raise _expired(tables, name, day)
    return then[-1] if then else None


FIRST_SEQUENCE_NUMBER = 1
"""Iceberg's number of the first snapshot that a table ever had."""


def _expired(tables: StreamTables, name: str, day: date) -> InputError:
    return InputError(f"{tables.name}.{name}, {day}: the snapshot of that run has been expired; it is only in a backup")


def _of_snapshot(tables: StreamTables, key: UnitKey, snapshot_id: int, day: date) -> list[str]:
    name, pattern_set = key
    table = tables._published(name)
    if not table.has_snapshot(snapshot_id):
        raise _expired(tables, name, day)
    equal = {"pattern_set": pattern_set} if name in OF_PATTERN_SETS else {}
    files = table.files(day_column(name), day, day, equal=equal, snapshot_id=snapshot_id)
    return [file.file_path for file in files]


def _publish(
    tables: StreamTables, files: Mapping[UnitKey, list[str]], wanted: _State, day: date, note: str, lease: Lease
) -> dict[str, int]:
    """Let these files be all rows of their units, in all tables at once; returns the rows of each table."""
    from cep_pipeline.warehouse import commits

    # The rejected rows first, as a run that publishes a day: of two that lock rows crosswise, one would fail.
    keys = sorted(files, key=lambda one: one[0] != "quarantine")
    units = []
    for table, pattern_set in keys:
        named = {"pattern_set": pattern_set} if table in (*OF_PATTERN_SETS, "statistics") else {}
        units.append(commits.UnitFiles(table, {**named, day_column(table): day}, files[table, pattern_set]))
    warehouse = tables.warehouse
    buffers = stored_files(tables.compressed)  # the runs after it have removed those of its limited patterns

    def beside(connection: Connection, snapshots: Mapping[str, int], rows: Sequence[int]) -> None:
        lease.renew(connection)
        for table, pattern_set in keys:
            if table == "statistics":
                continue
            key = {"stream": tables.name, "table_name": table, "pattern_set": pattern_set, "day": day.isoformat()}
            replace_record(connection, key)
            then = wanted.units.get((table, pattern_set))
            if then is not None:  # else the unit was not published then
                noted = json.loads(then.fingerprint) | ({} if table == "quarantine" else {NOTE: note})
                changed = {"fingerprint": canonical_json(noted), "snapshot_id": snapshots[table], "published_at": now}
                changed["counts"] = with_buffers(then.counts, warehouse.location, buffers)
                insert_record(connection, PUBLISHED, {**then._mapping, **changed})

    lease.look()
    _check_files(tables, files)
    # Before any snapshot is made: what a run had left is found by the time at which the next one began to publish.
    now = warehouse.clock()
    with commits.catalog_errors(warehouse.catalog, f"rolling {tables.name} back, {day}"):
        rows = commits.replace_units(warehouse.catalog, tables.name, units, run_id=lease.run_id, beside=beside)
    counted: Counter[str] = Counter()
    for (table, _), number in zip(keys, rows, strict=True):
        counted[table] += number
    return dict(counted)


def _check_files(tables: StreamTables, files: Mapping[UnitKey, list[str]]) -> None:
    """Raise a DamagedError for a file that is not as it was recorded: from now on the files are read as the day."""
    warehouse = tables.warehouse
    for name in sorted({table for table, _ in files}):
        recorded = recorded_files(warehouse.database, tables.name, name, warehouse.table_location(tables.name, name))
        for path in (path for (table, _), paths in files.items() if table == name for path in paths):
            if path in recorded:
                check_recorded(path, read_digest(path), recorded[path])
