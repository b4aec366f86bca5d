"""Verification: all that the catalog names is there and whole, and the records agree with it, or the damage is named.

The way goes from the catalog to the metadata of each table, its snapshots, manifests and data files, and from the
records of published days to the rows that they tell of. Files are compared with the digests of what was written. Only
damages are written down, so that their days show as stale. Runs may publish meanwhile: what looks damaged is looked at
again where its table has changed since.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import sqlalchemy as sql
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import PrimitiveType

from cep_pipeline.errors import CepError, DamagedError, InputError
from cep_pipeline.events.columns import DAY
from cep_pipeline.storage import (
    digest_of,
    explain_storage_error,
    open_filesystem,
    read_data_file,
    read_digest,
    read_footer,
    stored_files,
)
from cep_pipeline.warehouse import iceberg_tables
from cep_pipeline.warehouse.database import (
    CURRENT_PLANS,
    DAMAGES,
    PUBLISHED,
    REPLACED,
    checked_record,
    explain_database_error,
    is_sound,
)
from cep_pipeline.warehouse.fingerprints import EventsFingerprint, MatchesFingerprint
from cep_pipeline.warehouse.layout import (
    MEANINGS,
    OF_PATTERN_SETS,
    UNIT_TABLES,
    day_column,
    decision_record,
    plan_record,
    run_record,
    statistics_record,
)
from cep_pipeline.warehouse.named_files import check_recorded, recorded_files
from cep_pipeline.warehouse.published_table import Unit, bound, day_of

if TYPE_CHECKING:
    from sqlalchemy.engine import Row

    from cep_pipeline.warehouse.store import Store

logger = logging.getLogger(__name__)

BACKUP = "put the files back from a backup (`cep help operations`)"
LET_GO = "only snapshots of the past need it: `cep maintain --keep-days 0` lets them go"
FILES_AT_A_TIME = 8
ROW_READERS: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "statistics": statistics_record,
    "plans": plan_record,
    "decisions": decision_record,
    "runs": run_record,
}
"""Table of records -> the function that reads a row of it."""
Result = TypeVar("Result")


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


class _Damaged(Exception):
    """Says what is wrong with a file."""


@dataclass
class _TableState:
    """One table as its metadata tells of it: every file of every snapshot, and the damages on the way to them."""

    stream: str
    name: str
    table: Table | None = None
    current: dict[str, DataFile] = field(default_factory=dict)
    past: dict[str, DataFile] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)
    digests: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def check_digest(self, path: str) -> None:
        """Compare a file with what was recorded of it; one of an earlier version has no record."""
        known = self.digests.get(path)
        if known is not None:
            check_recorded(path, read_digest(path), known)

    @property
    def place(self) -> str:
        return f"{self.stream}.{self.name}"

    def relative(self, path: str) -> str:
        """The path of a file in the table's folder."""
        assert self.table is not None
        return path[len(self.table.location()) + 1 :]

    def unit_of(self, file: DataFile) -> Unit | None:
        """The pattern set and the day of a file; None where the table has no days."""
        if self.table is None:
            return None
        values = {field.name: file.partition[at] for at, field in enumerate(self.table.spec().fields)}
        day = values.get(DAY, values.get("final_day"))
        return None if day is None else (values.get("pattern_set", ""), day_of(day))

    def remedy_of(self, path: str) -> str:
        """Say what to do about a file that is damaged."""
        if path not in self.current:
            return LET_GO
        unit = self.unit_of(self.current[path])
        return BACKUP if unit is None else self.redo(unit)

    def redo(self, unit: Unit) -> str:
        """The command that publishes a unit again."""
        pattern_set, day = unit
        steps = " --steps detect" if self.name in OF_PATTERN_SETS else ""
        steps = " --steps statistics" if self.name == "statistics" else steps
        chosen = f" --pattern-set {pattern_set}" if pattern_set else ""
        return f"cep run --stream {self.stream}{steps} --redo --day {day}{chosen}"


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
    states = [_settled_state(warehouse, stream, name, days, deep) for stream in chosen for name in MEANINGS]
    damages = [damage for state in states for damage in state.damages]
    damages += [damage for stream in chosen for damage in _digest_damages(warehouse, stream)]
    damages += _catalog_damages(warehouse)
    files = {
        path: state
        for state in states
        for path, file in {**state.past, **state.current}.items()
        if days is None or ((unit := state.unit_of(file)) is not None and unit[1] in days)
    }
    damaged, size, rows = _file_damages(warehouse, files, deep, told)
    _note_damages(warehouse, damaged, files, deep)
    found = [
        Damage(path, f"a file of {_unit_text(files[path], path)}: {one.what}", files[path].remedy_of(path))
        for path, one in damaged.items()
    ]
    there = sum(state.table is not None for state in states)
    return VerificationReport((*damages, *found), there, len(files), size, rows)


@dataclass(frozen=True)
class _DamagedFile:
    """A damaged data file: the fault, and whether its table is read from it now (a day may have been redone since)."""

    what: str
    is_current: bool


def _note_damages(
    warehouse: Store, damaged: Mapping[str, _DamagedFile], files: Mapping[str, _TableState], deep: bool
) -> None:
    """Write down which published files are damaged; what only reading can find is forgotten only after reading.

    The report does not depend on it: a catalog that cannot be written is told in a warning.
    """
    if warehouse.database.read_only:
        return
    looked_at: set[tuple[str, ...]] = set()
    wanted: dict[tuple[str, ...], dict[str, str]] = {}
    for path, state in files.items():
        if not deep and path not in damaged:
            continue
        key = (state.stream, state.name, state.relative(path))
        looked_at.add(key)
        unit = state.unit_of(state.current.get(path) or state.past[path])
        if path in damaged and damaged[path].is_current and unit is not None and state.name in REMADE:
            of_unit = (*unit[:1], unit[1].isoformat(), damaged[path].what)
            wanted[key] = dict(zip(DAMAGES.c.keys(), (*key, *of_unit), strict=True))
    query = sql.select(DAMAGES).where(DAMAGES.c.stream.in_({state.stream for state in files.values()}))
    by_key = [column == sql.bindparam(f"old_{column.name}") for column in DAMAGES.primary_key]
    try:
        with warehouse.database.begin() as connection:
            noted = {tuple(row[: len(by_key)]): dict(row._mapping) for row in connection.execute(query)}
            old = [key for key, row in noted.items() if key in looked_at and row != wanted.get(key)]
            new = [row for key, row in wanted.items() if row != noted.get(key)]
            if old:
                names = [f"old_{column.name}" for column in DAMAGES.primary_key]
                connection.execute(
                    sql.delete(DAMAGES).where(*by_key), [dict(zip(names, key, strict=True)) for key in old]
                )
            if new:
                connection.execute(sql.insert(DAMAGES), new)
    except CepError as error:
        logger.warning("which days are damaged is not written down, so that they do not show as stale: %s", error)


REMADE = ("events", "quarantine", *OF_PATTERN_SETS, "statistics")
"""Tables whose units a run makes again."""


def _streams(warehouse: Store, streams: Collection[str] | None) -> list[str]:
    with warehouse.database.begin() as connection:
        recorded = connection.execute(sql.select(PUBLISHED.c.stream).distinct()).scalars().all()
    known = sorted({*warehouse.streams(), *recorded})
    for name in streams or ():
        if name not in known:
            raise InputError(
                f"warehouse {warehouse.location}: it has no stream {name!r}: there are {', '.join(known) or 'none yet'}"
            )
    return known if streams is None else sorted(set(streams))


def _catalog_damages(warehouse: Store) -> list[Damage]:
    """The faults that SQLite finds in its own file; another database looks after itself."""
    if warehouse.database.url.get_backend_name() != "sqlite":
        return []
    with warehouse.database.begin() as connection:
        said = connection.execute(sql.text("PRAGMA integrity_check")).scalars().all()
    return [Damage(f"catalog {warehouse.database.name}", text, BACKUP) for text in said if text != "ok"]


# -- from the catalog to the data files --------------------------------------------------------------------------------


def _settled_state(warehouse: Store, stream: str, name: str, days: Collection[date] | None, deep: bool) -> _TableState:
    """The state of a table with its damages, none of which comes from a commit that came between."""
    while True:
        state = _state(warehouse, stream, name, deep)
        if name in UNIT_TABLES:
            state.damages += list(_record_damages(warehouse, state, days))
        if name == "plans":
            state.damages += _plan_damages(warehouse, state)
        if not state.damages or not _has_changed(warehouse, state):
            return state


def _has_changed(warehouse: Store, state: _TableState) -> bool:
    if state.table is None:
        return False
    return state.table.metadata_location != warehouse.catalog.metadata_location((state.stream, state.name))


def _state(warehouse: Store, stream: str, name: str, deep: bool) -> _TableState:
    location = warehouse.table_location(stream, name)
    digests = recorded_files(warehouse.database, stream, name, location) if deep else {}
    state = _TableState(stream, name, digests=digests)
    sizes = {path: one.size for path, one in stored_files(location).items()}
    pointer = warehouse.catalog.metadata_location((stream, name))
    if pointer is None:
        return state  # where records tell of it, they say that it is missing
    try:
        state.table = _attempt(warehouse, pointer, lambda: warehouse.catalog.load_table((stream, name)))
        _attempt(warehouse, pointer, lambda: _check_names(state.table))
    except _Damaged as error:
        state.table = None
        state.damages.append(Damage(pointer, f"the metadata of {state.place} cannot be read: {error}", BACKUP))
        return state
    current = state.table.current_snapshot()
    if current is None and state.table.metadata.current_snapshot_id is not None:
        state.damages.append(Damage(pointer, "its current snapshot is not among its snapshots", BACKUP))
    seen: dict[str, list[DataFile] | None] = {}
    for snapshot in sorted(state.table.snapshots(), key=lambda one: one is not current):
        is_current = current is not None and snapshot.snapshot_id == current.snapshot_id
        _follow(warehouse, state, snapshot, is_current, sizes, seen)
    return state


def _check_names(table: Table | None) -> None:
    """Compare the columns of a table with the names that its files may have for them."""
    assert table is not None
    mapping = table.name_mapping()
    for column in table.schema().fields if mapping is not None else ():
        names = next((one.names for one in mapping or () if one.field_id == column.field_id), [])
        if column.name not in names:
            raise _Damaged(f"its column {column.name!r} is not among the names for it: {', '.join(names) or 'none'}")


def _follow(
    warehouse: Store,
    state: _TableState,
    snapshot: Snapshot,
    is_current: bool,
    sizes: Mapping[str, int],
    seen: dict[str, list[DataFile] | None],
) -> None:
    """Follow a snapshot to its data files."""
    assert state.table is not None
    table = state.table
    remedy = BACKUP if is_current else LET_GO
    try:
        manifests = _attempt(warehouse, snapshot.manifest_list, lambda: snapshot.manifests(table.io))
    except _Damaged as error:
        said = f"the manifest list of snapshot {snapshot.snapshot_id} of {state.place} cannot be read: {error}"
        state.damages.append(Damage(snapshot.manifest_list, said, remedy))
        return
    files: dict[str, DataFile] = {}
    whole = True
    for manifest in manifests:
        path = manifest.manifest_path
        if path not in seen:
            try:
                seen[path] = _attempt(warehouse, path, partial(_entries, table, manifest, sizes))
            except _Damaged as error:
                seen[path] = None
                said = f"a manifest of {state.place} cannot be read: {error}"
                state.damages.append(Damage(path, said, remedy))
        entries = seen[path]
        whole = whole and entries is not None
        files.update({file.file_path: file for file in entries or ()})
    if whole:
        state.damages += _summary_damages(state, snapshot, files.values(), remedy)
    (state.current if is_current else state.past).update(files)


def _entries(table: Table, manifest: ManifestFile, sizes: Mapping[str, int]) -> list[DataFile]:
    path = manifest.manifest_path
    _check_size(path, manifest.manifest_length, sizes.get(path))
    files = [entry.data_file for entry in manifest.fetch_manifest_entry(table.io)]
    counts = manifest.added_files_count, manifest.existing_files_count
    said = None if counts[0] is None or counts[1] is None else counts[0] + counts[1]
    if said is not None and said != len(files):
        raise _Damaged(f"it names {len(files)} files, and the manifest list says {said}")
    rows = (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
    if said is not None and rows != sum(file.record_count for file in files):
        raise _Damaged(f"its files have {sum(file.record_count for file in files)} rows, and the list says {rows}")
    for file in files:
        if not file.file_path.startswith(f"{table.location()}/"):
            raise _Damaged(f"it names a file outside of the table: {file.file_path}")
    _check_partitions(table, manifest, files)
    return files


def _check_partitions(table: Table, manifest: ManifestFile, files: Collection[DataFile]) -> None:
    """Check that the bounds by which scans leave a manifest out hold the partitions of its files."""
    kinds = table.specs()[manifest.partition_spec_id].partition_type(table.schema()).fields
    for at, (kind, bounds) in enumerate(zip(kinds, manifest.partitions or (), strict=False)):
        values = [file.partition[at] for file in files if file.partition[at] is not None]
        if not values or not isinstance(kind.field_type, PrimitiveType):
            continue
        if bounds.lower_bound is None or bounds.upper_bound is None:
            raise _Damaged(f"the manifest list says no bounds of {kind.name}")
        least, greatest = (from_bytes(kind.field_type, bound) for bound in (bounds.lower_bound, bounds.upper_bound))
        if min(values) < least or max(values) > greatest:
            raise _Damaged(f"the manifest list says {kind.name} {least} to {greatest}, which its files are not")


def _summary_damages(
    state: _TableState, snapshot: Snapshot, files: Collection[DataFile], remedy: str
) -> Iterator[Damage]:
    """Compare what a snapshot says of itself with its files."""
    said = snapshot.summary.additional_properties if snapshot.summary is not None else {}
    found = {
        "total-data-files": len(files),
        "total-records": sum(file.record_count for file in files),
        "total-files-size": sum(file.file_size_in_bytes for file in files),
    }
    for name, number in found.items():
        if name in said and said[name] != str(number):
            text = f"snapshot {snapshot.snapshot_id} says {name} {said[name]}, and its manifests say {number}"
            yield Damage(state.place, text, remedy)


# -- the records of the catalog's database -----------------------------------------------------------------------------


def _record_damages(warehouse: Store, state: _TableState, days: Collection[date] | None) -> Iterator[Damage]:
    """Compare the records of published units with the rows in their table."""
    query = sql.select(PUBLISHED).where(PUBLISHED.c.stream == state.stream, PUBLISHED.c.table_name == state.name)
    with warehouse.database.begin() as connection:
        records = connection.execute(query.order_by(PUBLISHED.c.day, PUBLISHED.c.pattern_set)).all()
    if state.table is None:
        if records and not state.damages:
            text = f"the catalog does not name the table, of which {len(records)} units are recorded as published"
            yield Damage(state.place, text, BACKUP)
        return
    rows: Counter[Unit] = Counter()
    for file in state.current.values():
        unit = state.unit_of(file)
        if unit is not None:
            rows[unit] += file.record_count
    recorded: set[Unit] = set()
    for record in records:
        try:
            unit = (record.pattern_set, date.fromisoformat(record.day))
        except ValueError:
            yield Damage(state.place, f"a record is of the day {record.day!r}, which is none", BACKUP)
            continue
        recorded.add(unit)
        if days is None or unit[1] in days:
            found = list(_faults(record, state, rows[unit]))
            if not found and not is_sound(PUBLISHED, record):
                found = ["its record is not what its digest says"]
            for text in found:
                yield Damage(_named(state, unit), text, state.redo(unit))
    whole = not state.damages
    for unit in sorted(rows.keys() - recorded) if whole else ():
        if days is None or unit[1] in days:
            text = f"it has {rows[unit]} rows, and no record says that they are published"
            yield Damage(_named(state, unit), text, state.redo(unit))


def _digest_damages(warehouse: Store, stream: str) -> Iterator[Damage]:
    """Compare the records of replaced units with their digests; others are looked at more closely."""
    with warehouse.database.begin() as connection:
        rows = connection.execute(sql.select(REPLACED).where(REPLACED.c.stream == stream)).all()
    for row in rows:
        try:
            checked_record(warehouse.database.name, REPLACED, row)
        except DamagedError as error:
            yield Damage(error.path, error.fault, error.remedy)


def _named(state: _TableState, unit: Unit) -> str:
    return " ".join(part for part in (state.place, *map(str, reversed(unit))) if part)


def _faults(record: Row[Any], state: _TableState, rows: int) -> Iterator[str]:
    assert state.table is not None
    if not state.damages and record.row_count != rows:
        yield f"its record says {record.row_count} rows, and the table has {rows}"
    kind = MatchesFingerprint if state.name in OF_PATTERN_SETS else EventsFingerprint
    try:
        kind.from_json(json.loads(record.fingerprint))
        json.loads(record.counts)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        yield f"its record cannot be read: {type(error).__name__}: {error}"
    try:
        if digest_of(json.loads(record.carry_out)) != record.carry_out_digest:
            yield "what it hands on to the next day is not what its digest says"
    except (ValueError, TypeError) as error:
        yield f"what it hands on to the next day cannot be read: {error}"
    current = state.table.current_snapshot()
    # Snapshots of the past may have been expired; one that is newer than the current one may not.
    if state.table.snapshot_by_id(record.snapshot_id) is None and (
        current is None or record.published_at * 1000 > current.timestamp_ms
    ):
        yield f"its record names the snapshot {record.snapshot_id}, which is newer than the table"


def _plan_damages(warehouse: Store, state: _TableState) -> Iterator[Damage]:
    """Look for the current plan of each pattern set among the recorded ones."""
    query = sql.select(CURRENT_PLANS).where(CURRENT_PLANS.c.stream == state.stream)
    with warehouse.database.begin() as connection:
        stored = connection.execute(query).all()
    current = {row.pattern_set: row.version for row in stored}
    if state.table is None or state.damages:
        if current and not state.damages:
            yield Damage(state.place, "the catalog does not name the table, which has current plans", BACKUP)
        return
    known: dict[str, set[int]] = defaultdict(set)
    columns = pa.schema([("pattern_set", pa.string()), ("version", pa.int64())])
    for path in state.current:
        try:
            rows = _attempt(warehouse, path, partial(read_data_file, path, columns)).to_pylist()
        except _Damaged:
            return  # the file is named with the others
        for row in rows:
            known[row["pattern_set"]].add(row["version"])
    unsound = {row.pattern_set for row in stored if not is_sound(CURRENT_PLANS, row)}
    for pattern_set, version in current.items():
        text = f"version {version} is the current plan of {pattern_set}"
        if version not in known[pattern_set]:
            text += ", and the table has no such plan"
        elif pattern_set in unsound:
            text += ", says its record, which is not what its digest says"
        else:
            continue
        yield Damage(state.place, text, f"cep replan --stream {state.stream} --pattern-set {pattern_set}")


# -- the data files ----------------------------------------------------------------------------------------------------


def _file_damages(
    warehouse: Store, files: Mapping[str, _TableState], deep: bool, told: Callable[[int, int], None]
) -> tuple[dict[str, _DamagedFile], int, int]:
    """The data files that are damaged, the bytes of all files, and their rows."""

    def look(path: str) -> str | None:
        state = files[path]
        file = state.current.get(path) or state.past[path]
        try:
            _attempt(warehouse, path, lambda: _check_file(state, file, deep))
        except _Damaged as error:
            return str(error)
        return None

    told(0, len(files))
    damaged: dict[str, str] = {}
    with ThreadPoolExecutor(FILES_AT_A_TIME) as pool:
        for number, (path, said) in enumerate(zip(files, pool.map(look, files), strict=True), 1):
            told(number, len(files))
            if said is not None:
                damaged[path] = said
    left = _still_named(warehouse, {path: files[path] for path in damaged})
    everything = [state.current.get(path) or state.past[path] for path, state in files.items()]
    return (
        {path: _DamagedFile(damaged[path], is_current) for path, is_current in left.items()},
        sum(file.file_size_in_bytes for file in everything),
        sum(file.record_count for file in everything),
    )


def _unit_text(state: _TableState, path: str) -> str:
    unit = state.unit_of(state.current.get(path) or state.past[path])
    return state.place if unit is None else _named(state, unit)


def _still_named(warehouse: Store, damaged: Mapping[str, _TableState]) -> dict[str, bool]:
    """The files that their tables name now, each with whether the current snapshot names it.

    A file that `cep maintain` has just removed is no damage.
    """
    left: dict[str, bool] = {}
    for state in {id(state): state for state in damaged.values()}.values():
        now = _state(warehouse, state.stream, state.name, False) if _has_changed(warehouse, state) else state
        own = [path for path, owner in damaged.items() if owner is state]
        left.update({path: path in now.current for path in own if path in now.current or path in now.past})
    return left


def _check_file(state: _TableState, file: DataFile, deep: bool) -> None:
    filesystem, inner = open_filesystem(file.file_path)
    info = filesystem.get_file_info(inner)
    _check_size(file.file_path, file.file_size_in_bytes, info.size if info.type == pafs.FileType.File else None)
    state.check_digest(file.file_path)
    with (
        filesystem.open_input_file(inner) as source,
        pq.ParquetFile(source, metadata=read_footer(file.file_path), page_checksum_verification=deep) as parquet,
    ):
        rows = parquet.metadata.num_rows
        if rows != file.record_count:
            raise _Damaged(f"its footer says {rows} rows, and the manifest {file.record_count}")
        _check_columns(state, parquet.schema_arrow.names)
        if deep:
            _read_through(state, file, parquet)
    if state.name in ROW_READERS:
        _read_records(state, file.file_path)


def _check_columns(state: _TableState, names: Collection[str]) -> None:
    assert state.table is not None
    mapping = state.table.name_mapping()
    known = {name for one in mapping for name in one.names} if mapping is not None else set(names)
    if unknown := sorted(set(names) - known):
        raise _Damaged(f"it has a column {unknown[0]!r}, which the table does not know")


def _read_through(state: _TableState, file: DataFile, parquet: pq.ParquetFile) -> None:
    """Read every page of every column, and check what slices rely on: the day of each row, order and bounds."""
    unit = state.unit_of(file)
    rows = 0
    last: int | None = None
    for number in range(parquet.num_row_groups):
        group = parquet.read_row_group(number)
        group.validate(full=True)
        _check_statistics(parquet.metadata.row_group(number), group)
        rows += group.num_rows
        if unit is not None:
            day = group.column(day_column(state.name))
            if pc.any(pc.not_equal(day, pa.scalar(unit[1], day.type))).as_py():
                raise _Damaged(f"it has rows of another day than {unit[1]}")
        if state.name == "events" and group.num_rows:
            seq = group.column("seq")
            if (last is not None and seq[0].as_py() <= last) or pc.any(pc.greater_equal(seq[:-1], seq[1:])).as_py():
                raise _Damaged("its events are not in the order of the stream")
            last = seq[-1].as_py()
    if rows != file.record_count:
        raise _Damaged(f"it has {rows} rows, and the manifest says {file.record_count}")
    if state.name == "events" and state.table is not None:
        _check_bounds(state.table, file, parquet.metadata)


def _check_statistics(group: pq.RowGroupMetaData, rows: pa.Table) -> None:
    """Compare the bounds by which readers leave row groups out with the rows."""
    if group.num_rows != rows.num_rows:
        raise _Damaged(f"a row group says {group.num_rows} rows, and has {rows.num_rows}")
    for number in range(group.num_columns):
        chunk = group.column(number)
        name, bounds = chunk.path_in_schema, chunk.statistics
        if bounds is None or not bounds.has_min_max or name not in rows.column_names:
            continue
        column = rows.column(name)
        found = pc.min_max(column.cast(pa.binary(16)) if column.type == pa.uuid() else column).as_py()
        if (bounds.min, bounds.max) != (found["min"], found["max"]):
            said = f"{bounds.min} to {bounds.max}"
            raise _Damaged(f"a row group says {name} {said}, and has {found['min']} to {found['max']}")


def _check_bounds(table: Table, file: DataFile, footer: pq.FileMetaData) -> None:
    """Compare the bounds by which slices leave files out with those of the row groups."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for column in ("timestamp", "seq"):
        at = footer.schema.names.index(column)
        bounds = [group.column(at).statistics for group in groups]
        found = (min(one.min_raw for one in bounds), max(one.max_raw for one in bounds))
        number = table.schema().find_field(column).field_id
        said = bound(file.lower_bounds[number]), bound(file.upper_bounds[number])
        if said != found:
            raise _Damaged(f"the manifest says {column} {said[0]} to {said[1]}, and it has {found[0]} to {found[1]}")


def _read_records(state: _TableState, path: str) -> None:
    """Read the rows of a table of records as the pipeline does."""
    assert state.table is not None
    read = ROW_READERS[state.name]
    for row in read_data_file(path, iceberg_tables.as_published(state.table).columns).to_pylist():
        read(row)
        if state.name == "statistics" and row["state"] is not None:
            content = json.loads(row["state"])
            if "checksum" in content and content["checksum"] != digest_of(
                {key: value for key, value in content.items() if key != "checksum"}
            ):
                raise _Damaged("the state of the statistics is not what its checksum says")


def _check_size(path: str, said: int, found: int | None) -> None:
    if found is None:
        filesystem, inner = open_filesystem(path)
        info = filesystem.get_file_info(inner)
        if info.type != pafs.FileType.File:
            raise _Damaged("it is not there")
        found = info.size
    if found != said:
        raise _Damaged(f"it has {found} bytes, and should have {said}")


def _attempt(warehouse: Store, path: str, read: Callable[[], Result]) -> Result:
    """Read something; whatever goes wrong because of what is in it is a damage, in a sentence.

    Storage or a database that cannot be reached, or refuses, is an InputError.
    """
    try:
        return read()
    except _Damaged:
        raise
    except DamagedError as error:
        raise _Damaged(error.fault) from error
    except FileNotFoundError as error:
        raise _Damaged("it is not there") from error
    except NoSuchTableError as error:
        raise _Damaged("the catalog does not name its metadata") from error
    except sql.exc.SQLAlchemyError as error:
        raise explain_database_error(warehouse.database.name, error) from error
    except Exception as error:  # a mangled file may raise anything, and is to be named
        if isinstance(error, OSError):
            explained = explain_storage_error(f"reading {path}", error)
            if isinstance(explained, InputError):
                raise explained from error
        logger.debug("%s", path, exc_info=error)
        text = " ".join(str(error).split())
        raise _Damaged(f"{type(error).__name__}: {text[:200]}") from error
