"""Small streams for the warehouse tests, and the one way in which these publish a day."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from cep_pipeline.detection.limits import LimitedPattern
from cep_pipeline.events.columns import QUARANTINE_SCHEMA
from cep_pipeline.events.raw_files import RawFile
from cep_pipeline.storage import conform, digest_of, write_data_file
from cep_pipeline.warehouse.catalog import UnitTransaction, replace_files
from cep_pipeline.warehouse.layout import MATCHES_SCHEMA, without_composed
from cep_pipeline.warehouse.leases import Lease
from cep_pipeline.warehouse.published_table import day_of
from cep_pipeline.warehouse.records import (
    DayStatistics,
    Decision,
    EventsFingerprint,
    MatchesFingerprint,
    PublishedDay,
    PublishedMatches,
    RunRecord,
)
from cep_pipeline.warehouse.stream_tables import StreamTables
from cep_pipeline.warehouse.units import Draft
from cep_pipeline.warehouse.warehouse import Warehouse

MONDAY = date(2013, 10, 7)
TUESDAY = date(2013, 10, 8)
WEDNESDAY = date(2013, 10, 9)
SCHEMA_DIGEST = digest_of("schema")


class Trades:
    """What the warehouse needs of a stream schema."""

    def __init__(self, name: str = "trades", **extra: pa.DataType) -> None:
        self.name = name
        self.arrow_schema = pa.schema(
            {
                "timestamp": pa.timestamp("us", tz="UTC"),
                "seq": pa.int64(),
                "symbol": pa.string(),
                "price": pa.float64(),
                "history": pa.list_(pa.float64()),
                **extra,
            }
        )


def events_of(day: date, prices: Sequence[float], *, first: int = 0) -> pa.Table:
    """Events of a day, one a second, with the warehouse's columns; `first` is the position of the first in the day."""
    start = datetime(day.year, day.month, day.day, 13, tzinfo=UTC)
    positions = range(first, first + len(prices))
    return pa.table(
        {
            "timestamp": pa.array([start + timedelta(seconds=i) for i in positions], pa.timestamp("us", tz="UTC")),
            "seq": pa.array([day.toordinal() * 2**40 + i for i in positions], pa.int64()),
            "symbol": pa.array([f"S{i % 3}" for i in positions]).dictionary_encode(),
            "price": pa.array(prices, pa.float64()),
            "history": pa.array([[price, None] for price in prices], pa.list_(pa.float64())),
            "day": pa.array([day] * len(prices), pa.date32()),
        }
    )


def write_events(tables: StreamTables, day: date, prices: Sequence[float], *, run_id: str, parts: int = 1) -> list[str]:
    """Write the events of a day as `parts` files, as tasks would."""
    directory = tables.events_directory(day, run_id=run_id)
    events = events_of(day, prices)
    size = -(-len(prices) // parts)
    pieces = [events.slice(task * size, size) for task in range(parts)]
    return [write_data_file(directory.file(task), piece, tables.events_schema) for task, piece in enumerate(pieces)]


def fingerprint_of(
    tables: StreamTables, day: date, content: object, *, schema: str = SCHEMA_DIGEST
) -> EventsFingerprint:
    """The fingerprint of a day made from one raw file of this content, on what is published now."""
    file = RawFile(f"{day}.csv", 1, digest_of(content))
    return EventsFingerprint((file,), schema, digest_of(tables.carry_in(day)))


def publish_day(
    tables: StreamTables,
    day: date,
    prices: Sequence[float],
    *,
    run_id: str = "run",
    carry_out: Mapping[str, Any] | None = None,
    parts: int = 1,
) -> PublishedDay:
    """Publish a day under its lease; its carry-out is its last price unless given, passed on from before if empty."""
    with tables.day_lease(day, run_id=run_id) as lease:
        fingerprint = fingerprint_of(tables, day, list(prices))
        files = write_events(tables, day, prices, run_id=run_id, parts=parts) if prices else []
        after = carry_out if carry_out is not None else ({"last": prices[-1]} if prices else tables.carry_in(day))
        draft = tables.draft_events(day, files, run_id=run_id, fingerprint=fingerprint, carry_out=after)
        tables.publish(day, [draft.quarantine, draft.events], lease=lease)
        return next(entry for entry in tables.days() if entry.day == day)


def publish_events(
    tables: StreamTables,
    day: date,
    files: Sequence[str],
    *,
    lease: Lease,
    fingerprint: EventsFingerprint,
    carry_out: Mapping[str, Any],
    counts: Mapping[str, int] | None = None,
) -> PublishedDay:
    """Replace only the events of a day."""
    draft = tables.draft_events(
        day, files, run_id=lease.run_id, fingerprint=fingerprint, carry_out=carry_out, counts=counts
    )
    tables.publish(day, [draft.events], lease=lease)
    return next(entry for entry in tables.days() if entry.day == day)


def publish_quarantine(
    tables: StreamTables, day: date, files: Sequence[str], *, lease: Lease, fingerprint: EventsFingerprint
) -> int:
    """Replace only the rejected rows of a day; returns how many there are now."""
    return tables.publish(day, [Draft("quarantine", day, tuple(files), fingerprint)], lease=lease)[0]


def publish_match_files(
    tables: StreamTables,
    pattern_set: str,
    day: date,
    files: Sequence[str],
    *,
    lease: Lease,
    fingerprint: MatchesFingerprint,
    **drafted: Any,
) -> PublishedMatches:
    """Replace only the matches of (pattern set, day)."""
    draft = tables.draft_matches(pattern_set, day, files, fingerprint=fingerprint, **drafted)
    tables.publish(day, [draft], lease=lease)
    return next(entry for entry in tables.matches_days(pattern_set) if entry.final_day == day)


def publish_statistics(tables: StreamTables, day: date, made: Mapping[str, DayStatistics], *, lease: Lease) -> None:
    """Replace only the statistics of a day of some pattern sets."""
    tables.publish(day, [], tables.draft_statistics(day, made, run_id=lease.run_id), lease=lease)


def publish_observed(
    tables: StreamTables, pattern_set: str, day: date, observed: Mapping[str, Any] | None, *, lease: Lease
) -> None:
    """Replace only what detection counted for (pattern set, day)."""
    tables.publish(day, [], [tables.draft_observed(pattern_set, day, observed, run_id=lease.run_id)], lease=lease)


def id_named(name: str) -> uuid.UUID:
    """An id that tells a name of at most 16 letters."""
    return uuid.UUID(bytes=name.encode().ljust(16, b"\0"))


def names_of(matches: pa.Table) -> list[str]:
    """The names that the ids of matches tell."""
    return [one.bytes.rstrip(b"\0").decode() for one in matches["match_id"].to_pylist()]


def matches_of(pattern_set: str, day: date, ids: Sequence[str], *, pattern: str = "rise") -> pa.Table:
    """Matches with ids of these names."""
    start = datetime(day.year, day.month, day.day, 13, tzinfo=UTC)
    rows = [
        {
            "pattern_set": pattern_set,
            "final_day": day,
            "pattern": pattern,
            "pattern_version": "v1",
            "match_id": id_named(match_id),
            "start_ts": start,
            "end_ts": start,
            "bindings": [{"variable": "a", "seq": 1}, {"variable": "b", "seq": 2}],
            "returns": "{}",
        }
        for match_id in ids
    ]
    return conform(pa.Table.from_pylist(rows, schema=without_composed(MATCHES_SCHEMA)), MATCHES_SCHEMA)


def publish_matches(
    tables: StreamTables,
    day: date,
    ids: Sequence[str],
    *,
    pattern_set: str = "demo",
    version: str = "v1",
    look_back: int = 0,
    carry_out: Mapping[str, Any] | None = None,
    run_id: str = "run",
    limited: Mapping[str, LimitedPattern] | None = None,
) -> PublishedMatches:
    """Detect (so to speak) and publish the matches of a day, looking back whole days."""
    with tables.day_lease(day, run_id=run_id) as lease:
        pin = tables.pin_events()
        carry_in = digest_of(tables.matches_carry_in(pattern_set, day))
        fingerprint: MatchesFingerprint = pin.matches_fingerprint(
            version, day - timedelta(days=look_back), day, carry_in=carry_in
        )
        path = tables.matches_directory(pattern_set, day, run_id=run_id).file(0)
        files = [write_data_file(path, matches_of(pattern_set, day, ids), tables.matches_schema)]
        return publish_match_files(
            tables,
            pattern_set,
            day,
            files,
            lease=lease,
            fingerprint=fingerprint,
            carry_out=carry_out,
            counts={"rise": len(ids)},
            limited=limited,
        )


def publish_everything(tables: StreamTables) -> None:
    """Publish rows of every table: two days, the first of them twice, so that there is a past."""
    for day, prices in ((MONDAY, [9.0, 8.0, 7.0]), (TUESDAY, [4.0, 5.0]), (MONDAY, [1.0, 2.0, 3.0, 4.0])):
        publish_day(tables, day, prices, parts=2)
        publish_matches(tables, day, [f"{day}-{price}" for price in prices])
        with tables.day_lease(day, run_id="run") as lease:
            row = {"day": day, "file": "trades.csv", "line": 7, "reason": "price: no number", "raw": "x,y"}
            path = tables.quarantine_directory(day, run_id="run").file(0)
            write_data_file(path, pa.Table.from_pylist([row], schema=QUARANTINE_SCHEMA), QUARANTINE_SCHEMA)
            before = next(one for one in tables.days() if one.day == day)
            publish_quarantine(tables, day, [path], lease=lease, fingerprint=before.fingerprint)
            state = {"rates": [1, 2]}
            text = json.dumps({**state, "checksum": digest_of(state)})
            publish_statistics(tables, day, {"demo": DayStatistics({"rate": 1.0}, text)}, lease=lease)
    now = datetime(2013, 10, 9, tzinfo=UTC)
    current = tables.current_plan("demo")
    with tables.plan_lease("demo", run_id="run") as lease:
        tables.record_plan(
            "demo",
            {"order": ["a", "b"]},
            lease=lease,
            explain="a, b",
            reason="the first",
            pattern_set_version="v1",
            in_place_of=current.version if current else None,
        )
    tables.record_decision(Decision("demo", "invariants", "keep", "they hold", now))
    tables.record_run(RunRecord("run", MONDAY, "running", now))
    tables.record_run(RunRecord("run", MONDAY, "succeeded", now, now, events=4))


def lose(tables: StreamTables, name: str, day: date) -> None:
    """Let a table lose its rows of a day, as a list of files did that had lost its entries; its record stays."""

    def change(table: Table, transaction: UnitTransaction) -> int:
        old = [task.file for task in table.scan().plan_files() if day_of(task.file.partition[-1]) == day]
        return replace_files(transaction, old, [])

    tables.warehouse.catalog.commit("trades", {name: change})


def everything_read(warehouse: Warehouse) -> list[Any]:
    """All that is read of the stream: rows, ids and records; snapshots and times are among the latter."""
    tables = warehouse.open_stream("trades")
    one_day = [tables.read_events(day, day).to_pylist() for day in (MONDAY, TUESDAY)]
    rows = [tables.read_matches("demo").to_pylist(), tables.read_quarantine().to_pylist()]
    records = [tables.days(), tables.matches_days(), tables.statistics("demo"), tables.plans(), tables.decisions()]
    return [*one_day, *rows, *records, tables.runs(), tables.current_plan("demo"), tables.carry_in(WEDNESDAY)]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
