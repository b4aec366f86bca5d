"""Backup and restore: a copy of a warehouse as of one moment, with a list of its files and their digests.

    BACKUP/moments/20260105T031500Z.json    the list: each file with its size and SHA-256
    BACKUP/moments/20260105T031500Z.db      the catalog as of that moment, as SQLite
    BACKUP/files/<stream>/<table>/…         the files of all moments, by their paths in the warehouse

A moment is pinned by reading the catalog in one transaction, so that runs may go on meanwhile. The files of tables are
never changed: the next backup into the same place copies only those that are new, and a backup that was stopped goes on
where it was. The list is written last, and a moment is there once its list is.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from sqlalchemy.engine import URL

from cep_pipeline.errors import CepError, DamagedError, InputError
from cep_pipeline.storage import (
    canonical_json,
    damage_errors,
    make_directory,
    make_durable,
    object_store_io,
    open_filesystem,
    read_digest,
    read_whole,
    remove_file,
    storage_errors,
    stored_files,
)
from cep_pipeline.version import VERSION
from cep_pipeline.warehouse import relocation
from cep_pipeline.warehouse.database import FILES as RECORDED
from cep_pipeline.warehouse.database import PUBLISHED, SEALED, Database, is_sound
from cep_pipeline.warehouse.iceberg_tables import files_of_snapshots
from cep_pipeline.warehouse.layout import COMPRESSED, UNFINISHED, UNIT_TABLES, day_column
from cep_pipeline.warehouse.named_files import check_recorded, digest_of_bytes
from cep_pipeline.warehouse.published_table import PublishedTable
from cep_pipeline.warehouse.units import buffers_in, differing_units, rows_by_unit

if TYPE_CHECKING:
    from cep_pipeline.warehouse.store import Store

logger = logging.getLogger(__name__)

FORMAT = 1
"""Version of the form of a list."""
MOMENTS, FILES = "moments", "files"
PINS = 5
"""Moments that are tried: a file of the pinned one may be removed before it is copied."""
FILES_AT_A_TIME = 4
_CHUNK = 4 * 1024 * 1024

Told = Callable[[int, int], None]
Item = TypeVar("Item")
Result = TypeVar("Result")


class StoredCopy(NamedTuple):
    """The entry of a file in the list of a backup: its size in bytes and its SHA-256."""

    size: int
    sha256: str


class _NotWhole(InputError):
    """A moment of a backup that is not whole."""


@dataclass(frozen=True)
class BackupMoment:
    """One moment of a backup, named in UTC (20260105T031500Z), and its files by their paths in the warehouse."""

    name: str
    warehouse: str
    catalog: StoredCopy
    files: Mapping[str, StoredCopy]

    def to_json(self) -> str:
        """Return the text of the list, with a digest of all of it."""
        content = {
            "format": FORMAT,
            "cep_pipeline": VERSION,
            "moment": self.name,
            "warehouse": self.warehouse,
            "catalog": [self.catalog.size, self.catalog.sha256],
            "files": {path: [one.size, one.sha256] for path, one in sorted(self.files.items())},
        }
        return json.dumps({**content, "digest": _digest(content)}, indent=1)

    @classmethod
    def from_json(cls, text: str, path: str) -> BackupMoment:
        """Read a list; an InputError says that it is of a newer version, a _NotWhole that it is damaged."""
        try:
            content = json.loads(text)
            digest = content.pop("digest")
            if content["format"] > FORMAT:
                raise InputError(f"{path}: a newer version of cep-pipeline has made this backup; install that one")
            if digest != _digest(content):
                raise ValueError("it is not what its digest says")
            files = {name: StoredCopy(*one) for name, one in content["files"].items()}
            return cls(content["moment"], content["warehouse"], StoredCopy(*content["catalog"]), files)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, CepError):
                raise
            raise _NotWhole(f"{path}: the list of a backup is damaged ({error}); take another moment") from error


def _digest(content: object) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


@dataclass(frozen=True)
class BackupReport:
    """The result of `backup`: the moment, its files and bytes, and how many of them were copied now."""

    moment: str
    files: int
    size_bytes: int
    copied_files: int
    copied_bytes: int
    removed_moments: int


@dataclass(frozen=True)
class RestoreReport:
    """The result of `restore`: the moment, where to, its files, and how many of them were copied.

    `passed` has a sentence for each later moment that is damaged.
    """

    moment: str
    location: str
    files: int
    copied_files: int
    passed: tuple[str, ...] = ()


class _Gone(Exception):
    """A file of the pinned moment was removed before it was copied."""


# -- backup ------------------------------------------------------------------------------------------------------------


def backup(warehouse: Store, place: str, *, run_id: str, keep: int | None, told: Told) -> BackupReport:
    """Copy a warehouse as of now (see `Warehouse.backup`)."""
    if f"{place}/".startswith(f"{warehouse.location}/"):
        raise InputError(f"{place}: a backup inside of the warehouse would be lost with it; name another place")
    make_directory(place, private=True)
    known: dict[str, StoredCopy] = {}
    for name in moments(place):
        earlier = read_moment(place, name)
        if earlier.warehouse != warehouse.location:
            raise InputError(
                f"{place}: it holds backups of the warehouse at {earlier.warehouse}, not of {warehouse.location}; "
                "give each warehouse a place of its own"
            )
        known.update(earlier.files)
    with ExitStack() as leases:
        if not warehouse.database.read_only:
            # What is pinned under a lease is not expired by commits, nor removed by `cep maintain`.
            for stream in warehouse.streams():
                leases.enter_context(warehouse.lease(stream, "backup", run_id=run_id))
        for attempt in range(1, PINS + 1):
            try:
                moment, copied = _copy_moment(warehouse, place, known, told)
                break
            except _Gone as error:
                if attempt == PINS:
                    raise DamagedError(str(error), "it is not there") from error
                logger.info("%s was removed meanwhile; the backup takes a later moment", error)
    removed = _remove_moments(place, keep) if keep is not None else 0
    size = sum(one.size for one in moment.files.values())
    new = sum(moment.files[path].size for path in copied)
    return BackupReport(moment.name, len(moment.files), size, len(copied), new, removed)


def _copy_moment(
    warehouse: Store, place: str, known: dict[str, StoredCopy], told: Told
) -> tuple[BackupMoment, Collection[str]]:
    """Pin a moment, and copy what is not there yet; returns the moment and the paths that were copied."""
    rows = relocation.catalog_rows(warehouse.database)
    _refuse_damage(warehouse, _unsound(rows))
    there = {path: one.size for path, one in stored_files(f"{place}/{FILES}").items()}
    prefix = f"{warehouse.location}/"
    copied: list[str] = []
    recorded = {
        f"{row['stream']}/{row['table_name']}/{row['path']}": StoredCopy(row["size"], row["sha256"])
        for row in rows[RECORDED.name]
    }

    def keep_file(path: str, size: int | None) -> None:
        """Copy a file into the backup unless it is there; a size that is known must be that of the copy."""
        name = path.removeprefix(prefix)
        target = f"{place}/{FILES}/{name}"
        found = there.get(target)
        # An earlier moment may list what was damaged already when it was copied.
        listed = known.get(name)
        sound = listed is None or (listed.size == found and listed == recorded.get(name, listed))
        if found is not None and size in (None, found) and sound:
            if listed is not None:
                return
            copy = _fingerprint(target)  # made by a backup that was stopped
            if copy == recorded.get(name, copy):
                known[name] = copy
                return
        copy = _copy(path, target)
        if name in recorded:
            try:
                check_recorded(path, copy, recorded[name])
            except DamagedError:
                remove_file(target)
                raise
        known[name] = copy
        copied.append(name)
        if size not in (None, known[name].size):
            raise DamagedError(path, f"it has {known[name].size} bytes, and should have {size}")

    named: dict[str, int | None] = {}
    tables: list[Table] = []
    # The metadata first: a commit removes that of some twenty commits ago.
    for pointer in relocation.pointers_in(rows):
        keep_file(pointer.metadata, None)
        there[f"{place}/{FILES}/{pointer.metadata.removeprefix(prefix)}"] = known[
            pointer.metadata.removeprefix(prefix)
        ].size
        named[pointer.metadata] = None
        tables.append(_table(f"{place}/{FILES}/{pointer.metadata.removeprefix(prefix)}"))
    for table in tables:
        try:
            named |= files_of_snapshots(table)
        except DamagedError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise _Gone(error.path) from error
            raise
    named |= _buffers(warehouse, rows)
    for path in named:
        if not path.startswith(prefix):
            raise InputError(f"{path}: a table names it, and it is not in the warehouse {warehouse.location}")
    for number, _ in enumerate(_in_threads(lambda one: keep_file(*one), named.items()), 1):
        told(number, len(named))
    name = _new_moment(place)
    with _local_catalog() as (file, url):
        relocation.write_catalog(Database(url, None), rows, warehouse.location)
        catalog = _copy(str(file), f"{place}/{MOMENTS}/{name}.db")
    files = {path.removeprefix(prefix): known[path.removeprefix(prefix)] for path in named}
    moment = BackupMoment(name, warehouse.location, catalog, files)
    _refuse_damage(warehouse, faults(place, moment, rows))
    _write_text(f"{place}/{MOMENTS}/{name}.json", moment.to_json())
    return moment, copied


def _table(path: str) -> Table:
    """Read a table by a copy of its metadata; its files are named by their paths in the warehouse."""
    files = object_store_io()
    with damage_errors(path):
        metadata = FromInputFile.table_metadata(files.new_input(path))
    return Table(("", path), metadata, path, files, NoopCatalog("backup"))


def _buffers(warehouse: Store, rows: relocation.Rows) -> dict[str, int | None]:
    """The buffers of limited patterns that records name, which are in no table; lost ones are left out."""
    recorded: dict[str, set[str]] = {}
    for row in rows[PUBLISHED.name]:
        if buffers := buffers_in(row["counts"], warehouse.location):
            recorded.setdefault(row["stream"], set()).update(buffers)
    found: dict[str, int | None] = {}
    for stream, paths in recorded.items():
        there = stored_files(f"{warehouse.location}/{stream}/{COMPRESSED}")
        found |= {path: there[path].size for path in paths & there.keys()}
    return found


def _new_moment(place: str) -> str:
    """Return the name of now; no two moments have the same."""
    while (name := f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}") in moments(place):
        time.sleep(0.1)
    return name


def _remove_moments(place: str, keep: int) -> int:
    """Remove all but the latest moments, and the files that none of the others names; returns how many."""
    old = moments(place)[:-keep]
    for name in old:
        for ending in ("json", "db"):
            remove_file(f"{place}/{MOMENTS}/{name}.{ending}")
    named = {f"{place}/{FILES}/{path}" for name in moments(place) for path in read_moment(place, name).files}
    for path in stored_files(f"{place}/{FILES}").keys() - named:
        remove_file(path)
    return len(old)


# -- what a backup holds -----------------------------------------------------------------------------------------------


def moments(place: str) -> list[str]:
    """Return the names of the moments of a backup, the earliest first."""
    names = (path.rpartition("/")[2] for path in stored_files(f"{place}/{MOMENTS}"))
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


def read_moment(place: str, name: str | None = None) -> BackupMoment:
    """Read the list of a moment (None: of the latest); an InputError says that there is none, or that it is damaged."""
    there = moments(place)
    if not there:
        raise InputError(f"{place}: no backup is there; `cep backup {place}` makes one")
    if name is not None and name not in there:
        raise InputError(f"{place}: it has no moment {name!r}; there are: {', '.join(there)}")
    path = f"{place}/{MOMENTS}/{name or there[-1]}.json"
    filesystem, inner = open_filesystem(path)
    with storage_errors(f"reading {path}"), filesystem.open_input_stream(inner) as stream:
        return BackupMoment.from_json(stream.read().decode(errors="replace"), path)


def faults(place: str, moment: BackupMoment, rows: relocation.Rows) -> Iterator[tuple[str, str]]:
    """Compare the records of a moment with their digests and with the rows of its tables.

    Stream and sentence are given of each fault. Read are the lists of files, as they were backed up.
    """
    if unsound := list(_unsound(rows)):
        yield from unsound
        return

    def read(path: str) -> bytes:
        name = path.removeprefix(f"{moment.warehouse}/")
        copy = f"{place}/{FILES}/{name}"
        with damage_errors(copy):
            content = read_whole(copy)
        check_recorded(copy, digest_of_bytes(content), moment.files.get(name))
        return content

    for pointer in relocation.pointers_in(rows):
        if pointer.table not in UNIT_TABLES:
            continue
        stream, name = pointer.namespace, pointer.table
        try:
            published = PublishedTable.read(stream, name, pointer.metadata, read)
            found = rows_by_unit(published, published.files(day_column(name)))
        except DamagedError as error:
            yield stream, f"{error.path}: {error.fault}"
            continue
        said = {
            (row["pattern_set"], date.fromisoformat(row["day"])): row["row_count"]
            for row in rows[PUBLISHED.name]
            if (row["stream"], row["table_name"]) == (stream, name)
        }
        for (pattern_set, day), fault in differing_units(found, said).items():
            yield stream, " ".join(part for part in (f"{stream}.{name}", str(day), pattern_set) if part) + f": {fault}"


def _unsound(rows: relocation.Rows) -> Iterator[tuple[str, str]]:
    for table in SEALED:
        for row in rows[table.name]:
            if not is_sound(table, row):
                yield row["stream"], f"a record of {row['stream']} {row.get('day', '')} is not what its digest says"


def _refuse_damage(warehouse: Store, found: Iterator[tuple[str, str]]) -> None:
    for stream, fault in found:
        raise DamagedError(
            f"warehouse {warehouse.location}",
            f"{fault}; a backup of it would bring the damage back, and none is made",
            f"`cep run --stream {stream} --stale` makes it again, `cep verify` names all that is damaged",
        )


def check(place: str, moment: BackupMoment, told: Told) -> list[str]:
    """Read all files of a moment, and return a sentence for each that is not as its list says.

    A damaged copy of a file of a table is put aside, so that the next backup copies the file again.
    """
    listed = {f"{FILES}/{path}": one for path, one in moment.files.items()}
    listed[f"{MOMENTS}/{moment.name}.db"] = moment.catalog

    def fault(one: tuple[str, StoredCopy]) -> str | None:
        path, said = f"{place}/{one[0]}", one[1]
        try:
            if _fingerprint(path) == said:
                return None
        except _Gone:
            return f"{path}: it is not there"
        if one[0].startswith(f"{FILES}/"):
            _put_aside(path)
        return f"{path}: it is not what its digest says"

    found: list[str] = []
    for number, said in enumerate(_in_threads(fault, listed.items()), 1):
        told(number, len(listed))
        found += [said] if said else []
    return found


def _put_aside(path: str) -> None:
    """Rename a damaged copy. It keeps its name if the backup can only be read."""
    filesystem, inner = open_filesystem(path)
    try:
        filesystem.move(inner, f"{inner}.damaged")
    except OSError as error:
        logger.warning("%s stays where it is: %s", path, error)


# -- restore -----------------------------------------------------------------------------------------------------------


def restore_latest(location: str, catalog: str | URL, place: str, *, replace: bool, told: Told) -> RestoreReport:
    """Make a warehouse what it was at the latest moment that is whole."""
    passed: list[str] = []
    for name in reversed(moments(place)):
        try:
            report = restore(location, catalog, place, read_moment(place, name), replace=replace, told=told, whole=True)
        except _NotWhole as error:
            logger.info("%s", error)
            passed.append(f"moment {name} is damaged: {error}")
        else:
            return dataclass_replace(report, passed=tuple(passed))
    if not passed:
        read_moment(place)  # which says that no backup is there
    raise InputError(
        f"{place}: none of its moments is whole. {passed[0]}. --moment NAME brings one back as it is, and `cep run "
        "--stale` makes the damaged days again"
    )


def restore(
    location: str,
    catalog: str | URL,
    place: str,
    moment: BackupMoment,
    *,
    replace: bool,
    told: Told,
    whole: bool = False,
) -> RestoreReport:
    """Make a warehouse what it was at a moment (see `Warehouse.restore`).

    With `whole` its tables must have the rows that its records say; else it is a _NotWhole, as one with a damaged
    file is in any case.
    """
    if not replace and _read_text(f"{location}/{UNFINISHED}") != place:
        refuse_data(location, catalog)
    refuse_runs(catalog)
    make_directory(location, private=True)
    _write_text(f"{location}/{UNFINISHED}", place)
    there = stored_files(location)
    with _local_catalog() as (file, url):
        _copy_back(f"{place}/{MOMENTS}/{moment.name}.db", str(file), moment.catalog)
        rows = relocation.catalog_rows(Database(url, None))
    for _, fault in faults(place, moment, rows) if whole else ():
        raise _NotWhole(fault)

    def bring(one: tuple[str, StoredCopy]) -> bool:
        """Copy a file into the warehouse unless it is there; True where it was copied."""
        name, said = one
        target = f"{location}/{name}"
        if target in there and there[target].size == said.size and _fingerprint(target) == said:
            return False
        _copy_back(f"{place}/{FILES}/{name}", target, said)
        return True

    copied = 0
    for number, new in enumerate(_in_threads(bring, moment.files.items()), 1):
        copied += new
        told(number, len(moment.files))
    if moment.warehouse != location:
        relocation.rewrite(rows, moment.warehouse, location)
    put_catalog(location, catalog, rows)
    remove_file(f"{location}/{UNFINISHED}")
    return RestoreReport(moment.name, location, len(moment.files), copied)


def _copy_back(source: str, target: str, said: StoredCopy) -> None:
    """Copy a file of a backup to its place, unless it is not what the list says."""
    try:
        fault = "" if _copy(source, target) == said else "is not what its digest says"
    except _Gone:
        fault = "is not there"
    if fault:
        remove_file(target)
        raise _NotWhole(f"{source}: a file of the backup {fault}; take another moment (--moment), or another backup")


def refuse_data(location: str, catalog: str | URL) -> None:
    """Refuse to write over a warehouse that has tables, or a catalog, with an InputError."""
    named = [path for path in stored_files(location) if path.endswith(".metadata.json")]
    database = relocation.database_at(catalog)
    if named or (database is not None and relocation.pointers_of(database)):
        raise InputError(
            f"warehouse {location}: it holds tables already. --replace makes it what it was when the backup was made, "
            "and what was published after that is lost; --to names another place"
        )


def refuse_runs(catalog: str | URL) -> None:
    """Refuse to change a catalog on which runs are at work (BusyError); one that cannot be read has none."""
    try:
        database = relocation.database_at(catalog)
    except InputError as error:
        logger.info("%s", error)
        return
    if database is not None:
        relocation.check_idle(database)
        database.engine.dispose()


def put_catalog(location: str, catalog: str | URL, rows: relocation.Rows) -> None:
    """Put a catalog in force. A file of SQLite is kept aside; the rows of another database are replaced at once."""
    address = relocation.sqlite_file(catalog)
    if address is None:
        relocation.write_catalog(Database(catalog, None), rows, location)
        return
    made = address.with_name(f"{address.name}.new")
    made.unlink(missing_ok=True)
    with storage_errors(f"writing {made}"):
        database = Database(URL.create("sqlite", database=str(made)), None)
        relocation.write_catalog(database, rows, location)
        database.engine.dispose()
        make_durable([str(made)])
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
        # A journal that a killed writer left belongs to the old file, and must not be applied to the new one.
        for ending in ("-journal", "-wal", "-shm", ""):
            old = address.with_name(address.name + ending)
            if old.exists():
                old.rename(old.with_name(f"{address.name}.replaced-{stamp}{ending}"))
        made.rename(address)
        make_durable([str(address)])


# -- files -------------------------------------------------------------------------------------------------------------


@contextmanager
def _local_catalog() -> Iterator[tuple[Path, URL]]:
    """Give a path and the address of a SQLite file for the block."""
    with tempfile.TemporaryDirectory(prefix="cep-catalog-") as folder:
        file = Path(folder) / "catalog.db"
        yield file, URL.create("sqlite", database=str(file))


def _in_threads(work: Callable[[Item], Result], items: Collection[Item]) -> Iterator[Result]:
    """Do the work for each item, some at a time; an error ends it without doing the rest."""
    with ThreadPoolExecutor(FILES_AT_A_TIME) as pool:
        try:
            yield from pool.map(work, items)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _copy(source: str, target: str) -> StoredCopy:
    """Copy a file; returns what was copied."""
    digest, size = hashlib.sha256(), 0
    filesystem, inner = open_filesystem(source)
    try:
        reader = filesystem.open_input_stream(inner)
    except FileNotFoundError as error:
        raise _Gone(source) from error
    with storage_errors(f"copying {source} to {target}"), reader, _written(target) as writer:
        while chunk := reader.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            writer.write(chunk)
    return StoredCopy(size, digest.hexdigest())


def _fingerprint(path: str) -> StoredCopy:
    try:
        return StoredCopy(*read_digest(path))
    except CepError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise _Gone(path) from error
        raise


def _write_text(path: str, text: str) -> None:
    with storage_errors(f"writing {path}"), _written(path) as writer:
        writer.write(text.encode())


@contextmanager
def _written(path: str) -> Iterator[pa.NativeFile]:
    """Write a local file under another name first, so that it is there whole or not at all, as an object is."""
    make_directory(path.rpartition("/")[0])
    filesystem, inner = open_filesystem(path)
    local = isinstance(filesystem, pafs.LocalFileSystem)
    with filesystem.open_output_stream(f"{inner}.part" if local else inner) as writer:
        yield writer
    if local:
        make_durable([f"{inner}.part"])
        Path(f"{inner}.part").replace(inner)
        make_durable([inner])


def _read_text(path: str) -> str:
    filesystem, inner = open_filesystem(path)
    if filesystem.get_file_info(inner).type != pafs.FileType.File:
        return ""
    with storage_errors(f"reading {path}"), filesystem.open_input_stream(inner) as stream:
        return str(stream.read().decode(errors="replace"))
