"""Verification: all that the catalog names is there and whole, and the records agree with it, or the damage is named.

The way goes from the catalog to the metadata of each table, its snapshots, manifests and data files, and from the
records of published days to the rows that they tell of. Metadata and lists are compared with the digests of what was
written whenever they are read; data files are compared by size and footer, and by their digests when it goes deep.
Only damages are written down, so that their days show as stale. Runs may publish meanwhile: what looks damaged is
looked at again where its table has changed since.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import sqlalchemy as sql

from cep_pipeline.errors import CepError, DamagedError, InputError
from cep_pipeline.storage import (
    damage_errors,
    digest_of,
    open_filesystem,
    open_parquet,
    read_data_file,
    read_digest,
    read_footer,
)
from cep_pipeline.warehouse.database import CURRENT_PLANS, DAMAGES, PUBLISHED, REPLACED, is_sound
from cep_pipeline.warehouse.layout import MEANINGS, OF_PATTERN_SETS, UNIT_TABLES
from cep_pipeline.warehouse.published_table import PublishedTable, Recorded, Unit, check_recorded, recorded_files
from cep_pipeline.warehouse.units import differing_units, rows_by_unit

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

    from cep_pipeline.warehouse.leases import Store

logger = logging.getLogger(__name__)

BACKUP = "put the files back from a backup (`cep help operations`)"
LET_GO = "only snapshots of the past need it: `cep maintain --keep-days 0` lets them go"
FILES_AT_A_TIME = 8
REMADE = ("events", "quarantine", *OF_PATTERN_SETS, "statistics")
"""Tables whose units a run makes again."""


@dataclass(frozen=True)
class Damage:
    """One thing that is not as it should be: the table, unit or file, what is wrong with it, and what to do."""

    place: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}; {self.remedy}"


@dataclass(frozen=True)
class VerificationReport:
    """The result of `verify`: the damages, and how many tables, files, bytes and rows were looked at."""

    damages: tuple[Damage, ...]
    tables: int
    files: int
    size_bytes: int
    rows: int


@dataclass
class _Listing:
    """The data files that the snapshots of one table name, and the damages on the way to them and of its records."""

    stream: str
    name: str
    pointer: str | None
    table: PublishedTable | None = None
    current: dict[str, DataFile] = field(default_factory=dict)
    past: dict[str, DataFile] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)
    recorded: Mapping[str, Recorded] = field(default_factory=dict)

    @cached_property
    def files(self) -> dict[str, DataFile]:
        return self.past | self.current

    def unit_of(self, file: DataFile) -> Unit | None:
        """The pattern set and the day of a file; None where the table has no days."""
        return self.table.unit_of(file) if self.table is not None and self.table.partitions else None

    def named(self, unit: Unit | None) -> str:
        return " ".join(part for part in (f"{self.stream}.{self.name}", *map(str, reversed(unit or ()))) if part)

    def redo(self, unit: Unit) -> str:
        """The command that publishes a unit again."""
        pattern_set, day = unit
        steps = " --steps detect" if self.name in OF_PATTERN_SETS else ""
        steps = " --steps statistics" if self.name == "statistics" else steps
        chosen = f" --pattern-set {pattern_set}" if pattern_set else ""
        return f"cep run --stream {self.stream}{steps} --redo --day {day}{chosen}"

    def damage_of(self, path: str, what: str) -> Damage:
        """The damage of a data file."""
        unit = self.unit_of(self.files[path])
        remedy = LET_GO if path not in self.current else BACKUP if unit is None else self.redo(unit)
        return Damage(path, f"a file of {self.named(unit)}: {what}", remedy)


def verify(
    warehouse: Store,
    *,
    streams: Collection[str] | None,
    days: Collection[date] | None,
    deep: bool,
    told: Callable[[int, int], None],
) -> VerificationReport:
    """Verify what is published (see `Warehouse.verify`)."""
    chosen = _streams(warehouse, streams)
    listings = [_settled(warehouse, stream, name, days) for stream in chosen for name in MEANINGS]
    damages = [damage for listing in listings for damage in listing.damages]
    damages += [*_replaced_damages(warehouse, chosen), *_catalog_damages(warehouse)]
    owners = {
        path: listing
        for listing in listings
        for path, file in listing.files.items()
        if days is None or ((unit := listing.unit_of(file)) is not None and unit[1] in days)
    }
    for listing in listings if deep else ():
        location = warehouse.table_location(listing.stream, listing.name)
        listing.recorded = recorded_files(warehouse.database, listing.stream, listing.name, location)
    told(0, len(owners))
    faults: dict[str, str] = {}
    with ThreadPoolExecutor(FILES_AT_A_TIME) as pool:
        found = pool.map(lambda path: _fault(owners[path], owners[path].files[path], deep), owners)
        for number, (path, fault) in enumerate(zip(owners, found, strict=True), 1):
            told(number, len(owners))
            if fault is not None:
                faults[path] = fault
    # A day may have been redone since, and a file that `cep maintain` has just removed is no damage.
    changed = {id(one): one for one in map(owners.__getitem__, faults) if _has_changed(warehouse, one)}
    now = {at: _listed(warehouse, one.stream, one.name) for at, one in changed.items()}
    latest = {path: now.get(id(owners[path]), owners[path]) for path in faults}
    faults = {path: fault for path, fault in faults.items() if path in latest[path].files}
    current = {path: fault for path, fault in faults.items() if path in latest[path].current}
    _note_damages(warehouse, owners, current, owners if deep else faults)
    damages += [owners[path].damage_of(path, fault) for path, fault in faults.items()]
    looked_at = [owner.files[path] for path, owner in owners.items()]
    return VerificationReport(
        tuple(damages),
        sum(one.table is not None for one in listings),
        len(looked_at),
        sum(file.file_size_in_bytes for file in looked_at),
        sum(file.record_count for file in looked_at),
    )


def _streams(warehouse: Store, streams: Collection[str] | None) -> list[str]:
    recorded = warehouse.database.rows(sql.select(PUBLISHED.c.stream).distinct())
    known = sorted({*warehouse.streams(), *(row.stream for row in recorded)})
    for name in streams or ():
        if name not in known:
            raise InputError(
                f"warehouse {warehouse.location}: it has no stream {name!r}: there are {', '.join(known) or 'none yet'}"
            )
    return known if streams is None else sorted(set(streams))


def _settled(warehouse: Store, stream: str, name: str, days: Collection[date] | None) -> _Listing:
    """The listing of a table with its damages, none of which comes from a commit that came between."""
    while True:
        listing = _listed(warehouse, stream, name)
        found = _unit_damages(warehouse, listing, days) if name in UNIT_TABLES else ()
        found = _plan_damages(warehouse, listing) if name == "plans" else found
        listing.damages += list(found)
        if not listing.damages or not _has_changed(warehouse, listing):
            return listing


def _has_changed(warehouse: Store, listing: _Listing) -> bool:
    return listing.pointer != warehouse.catalog.metadata_location((listing.stream, listing.name))


def _listed(warehouse: Store, stream: str, name: str) -> _Listing:
    """Follow a table from its metadata to the files of its snapshots, the current one first."""
    listing = _Listing(stream, name, warehouse.catalog.metadata_location((stream, name)))
    if listing.pointer is None:
        return listing  # where records tell of it, they say that it is missing

    def note(error: DamagedError, remedy: str) -> None:
        if all(one.place != error.path for one in listing.damages):
            listing.damages.append(Damage(error.path, f"it is of {stream}.{name}: {error.fault}", remedy))

    try:
        listing.table = PublishedTable.read(warehouse.database, stream, name, listing.pointer)
    except DamagedError as error:
        note(error, BACKUP)
        return listing
    now = listing.table.current_snapshot_id
    snapshots = [one.snapshot_id for one in listing.table.metadata.snapshots]
    for snapshot in sorted(snapshots, key=lambda one: one != now):
        named, remedy = (listing.current, BACKUP) if snapshot == now else (listing.past, LET_GO)
        try:
            manifests = listing.table.manifests(snapshot)
        except DamagedError as error:
            note(error, remedy)
            continue
        for manifest in manifests:
            try:
                named |= {file.file_path: file for file in listing.table.files_in(manifest)}
            except DamagedError as error:
                note(error, remedy)
    return listing


def _fault(listing: _Listing, file: DataFile, deep: bool) -> str | None:
    """What is wrong with a data file; storage that cannot be reached, or refuses, is an InputError."""
    path = file.file_path
    filesystem, inner = open_filesystem(path)
    try:
        with damage_errors(path):
            info = filesystem.get_file_info(inner)
            if info.type != pafs.FileType.File:
                return "it is not there"
            if info.size != file.file_size_in_bytes:
                return f"it has {info.size} bytes, and should have {file.file_size_in_bytes}"
            if deep:
                check_recorded(path, read_digest(path), listing.recorded.get(path))
            rows = read_footer(path).num_rows
            if rows != file.record_count:
                return f"its footer says {rows} rows, and the manifest {file.record_count}"
            if deep and path not in listing.recorded:  # of an earlier version, or of a catalog that was made anew
                with open_parquet(path) as parquet:
                    for group in range(parquet.num_row_groups):
                        parquet.read_row_group(group)
    except InputError:
        raise
    except DamagedError as error:
        return error.fault
    except CepError as error:  # of the disk
        return str(error)
    return None


# -- the records of the catalog's database -----------------------------------------------------------------------------


def _catalog_damages(warehouse: Store) -> list[Damage]:
    """The faults that SQLite finds in its own file; another database looks after itself."""
    if warehouse.database.url.get_backend_name() != "sqlite":
        return []
    said = warehouse.database.rows(sql.text("PRAGMA integrity_check"))
    return [Damage(f"catalog {warehouse.database.name}", text, BACKUP) for (text,) in said if text != "ok"]


def _replaced_damages(warehouse: Store, streams: Collection[str]) -> Iterator[Damage]:
    for row in warehouse.database.rows(sql.select(REPLACED).where(REPLACED.c.stream.in_(streams))):
        if not is_sound(REPLACED, row):
            place = " ".join((f"{row.stream}.{row.table_name}", row.day, row.pattern_set)).strip()
            yield Damage(place, "an earlier record of it is not what its digest says", BACKUP)


def _unit_damages(warehouse: Store, listing: _Listing, days: Collection[date] | None) -> Iterator[Damage]:
    """Compare the records of published units with their digests, and with the rows in their table."""
    query = sql.select(PUBLISHED).where(PUBLISHED.c.stream == listing.stream, PUBLISHED.c.table_name == listing.name)
    records = warehouse.database.rows(query.order_by(PUBLISHED.c.day, PUBLISHED.c.pattern_set))
    if listing.table is None:
        if records and not listing.damages:
            text = f"the catalog does not name the table, of which {len(records)} units are recorded as published"
            yield Damage(listing.named(None), text, BACKUP)
        return
    said: dict[Unit, int] = {}
    faults: dict[Unit, str] = {}
    for record in records:
        try:
            unit = (record.pattern_set, date.fromisoformat(record.day))
        except ValueError:
            yield Damage(listing.named(None), f"a record is of the day {record.day!r}, which is none", BACKUP)
            continue
        if not is_sound(PUBLISHED, record):
            faults[unit] = "its record is not what its digest says"
        elif not _is_carry(record.carry_out, record.carry_out_digest):
            faults[unit] = "what it hands on to the next day is not what its digest says"
        else:
            said[unit] = record.row_count
    if not listing.damages:
        rows = rows_by_unit(listing.table, listing.current.values())
        faults |= differing_units({unit: number for unit, number in rows.items() if unit not in faults}, said)
    for unit, fault in sorted(faults.items()):
        if days is None or unit[1] in days:
            yield Damage(listing.named(unit), fault, listing.redo(unit))


def _is_carry(carry_out: str, digest: str) -> bool:
    try:
        return digest_of(json.loads(carry_out)) == digest
    except (ValueError, TypeError):
        return False


def _plan_damages(warehouse: Store, listing: _Listing) -> Iterator[Damage]:
    """Look for the current plan of each pattern set among the recorded ones."""
    current = warehouse.database.rows(sql.select(CURRENT_PLANS).where(CURRENT_PLANS.c.stream == listing.stream))
    if listing.table is None or listing.damages:
        if current and not listing.damages:
            yield Damage(listing.named(None), "the catalog does not name the table, which has current plans", BACKUP)
        return
    columns = pa.schema([("pattern_set", pa.string()), ("version", pa.int64())])
    try:
        rows = [row for path in listing.current for row in read_data_file(path, columns).to_pylist()]
    except DamagedError:
        return  # the file is named with the others
    known = {(row["pattern_set"], row["version"]) for row in rows}
    for one in current:
        missing = (one.pattern_set, one.version) not in known
        if missing or not is_sound(CURRENT_PLANS, one):
            text = f"version {one.version} is the current plan of {one.pattern_set}"
            text += (
                ", and the table has no such plan" if missing else ", says a record that is not what its digest says"
            )
            remedy = f"cep replan --stream {listing.stream} --pattern-set {one.pattern_set}"
            yield Damage(listing.named(None), text, remedy)


def _note_damages(
    warehouse: Store, owners: Mapping[str, _Listing], damaged: Mapping[str, str], looked_at: Collection[str]
) -> None:
    """Write down which published files are damaged; what only reading can find is forgotten only after reading.

    The report does not depend on it: a catalog that cannot be written is told in a warning.
    """
    if warehouse.database.read_only:
        return
    wanted: dict[tuple[str, ...], tuple[str, ...]] = {}
    keys = set()
    for path in looked_at:
        one = owners[path]
        keys.add(key := (one.stream, one.name, path[len(warehouse.table_location(one.stream, one.name)) + 1 :]))
        unit = one.unit_of(one.files[path])
        if path in damaged and unit is not None and one.name in REMADE:
            wanted[key] = (*key, unit[0], unit[1].isoformat(), damaged[path])
    query = sql.select(DAMAGES).where(DAMAGES.c.stream.in_({one.stream for one in owners.values()}))
    try:
        with warehouse.database.begin() as connection:
            noted = {tuple(row[:3]): tuple(row) for row in connection.execute(query)}
            for key in [key for key, row in noted.items() if key in keys and row != wanted.get(key)]:
                same = (column == value for column, value in zip(DAMAGES.primary_key, key, strict=True))
                connection.execute(sql.delete(DAMAGES).where(*same))
            if new := [row for key, row in wanted.items() if row != noted.get(key)]:
                connection.execute(sql.insert(DAMAGES), [dict(zip(DAMAGES.c.keys(), row, strict=True)) for row in new])
    except CepError as error:
        logger.warning("which days are damaged is not written down, so that they do not show as stale: %s", error)
