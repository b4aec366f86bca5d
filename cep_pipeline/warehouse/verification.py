"""Verification: all that the catalog names is there and whole, and the records agree with it, or the damage is named.

The way goes, table by table, from the catalog to the metadata, the manifests and the data files that are read now.
Metadata and lists are compared with the digests of what was written whenever they are read; data files are compared by
size and footer, and by their digests when it goes deep. The records of published days are compared with the rows that
they tell of. Runs may publish meanwhile: a table that looks damaged is looked at again where it has changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import sqlalchemy as sql

from cep_pipeline.errors import CepError, DamagedError, InputError
from cep_pipeline.storage import damage_errors, open_filesystem, open_parquet, read_digest, read_footer
from cep_pipeline.warehouse.database import PUBLISHED
from cep_pipeline.warehouse.layout import MEANINGS, OF_PATTERN_SETS, UNIT_TABLES, day_column
from cep_pipeline.warehouse.published_table import PublishedTable, Recorded, Unit, check_recorded, recorded_files
from cep_pipeline.warehouse.units import differing_units, recorded_rows, rows_by_unit

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

    from cep_pipeline.warehouse.leases import Store

BACKUP = "put the files back from a backup (`cep help operations`)"
FILES_AT_A_TIME = 8


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
class _Verified:
    """The data files of a table that were looked at, with their units, and the damages of the table."""

    stream: str
    name: str
    pointer: str | None
    files: dict[str, tuple[DataFile, Unit | None]] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)

    def named(self, unit: Unit | None) -> str:
        return " ".join(part for part in (f"{self.stream}.{self.name}", *map(str, reversed(unit or ()))) if part)

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
    deep: bool,
    told: Callable[[int, int], None],
) -> VerificationReport:
    """Verify what is published (see `Warehouse.verify`)."""
    chosen = [(stream, name) for stream in _streams(warehouse, streams) for name in MEANINGS]
    found: list[_Verified] = []
    told(0, len(chosen))
    for stream, name in chosen:
        while True:
            pointer = warehouse.catalog.metadata_location((stream, name))
            verified = _verified(warehouse, _Verified(stream, name, pointer), deep)
            if not verified.damages or pointer == warehouse.catalog.metadata_location((stream, name)):
                break
        found.append(verified)
        told(len(found), len(chosen))
    damages = [damage for one in found for damage in one.damages]
    if warehouse.database.url.get_backend_name() == "sqlite":  # another database looks after itself
        said = warehouse.database.rows(sql.text("PRAGMA integrity_check"))
        damages += [Damage(f"catalog {warehouse.database.name}", text, BACKUP) for (text,) in said if text != "ok"]
    files = [file for one in found for file, _ in one.files.values()]
    return VerificationReport(
        tuple(damages),
        sum(one.pointer is not None for one in found),
        len(files),
        sum(file.file_size_in_bytes for file in files),
        sum(file.record_count for file in files),
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


def _verified(warehouse: Store, result: _Verified, deep: bool) -> _Verified:
    """Follow a table from its metadata to its files, and compare the rows of its units with their records."""
    stream, name = result.stream, result.name
    of_table = (PUBLISHED.c.stream == stream, PUBLISHED.c.table_name == name)
    records = warehouse.database.rows(sql.select(PUBLISHED).where(*of_table))
    if result.pointer is None:
        if records:
            text = f"the catalog does not name the table, of which {len(records)} units are recorded as published"
            result.damages.append(Damage(result.named(None), text, BACKUP))
        return result
    try:
        table = PublishedTable.read(warehouse.database, stream, name, result.pointer)
        files = table.files(day_column(name))
    except DamagedError as error:
        result.damages.append(Damage(error.path, f"it is of {stream}.{name}: {error.fault}", BACKUP))
        return result
    if name in UNIT_TABLES:
        differing = differing_units(rows_by_unit(table, files), recorded_rows(records))
        result.damages += [Damage(result.named(unit), fault, result.redo(unit)) for unit, fault in differing.items()]
    result.files = {file.file_path: (file, table.unit_of(file) if table.partitions else None) for file in files}
    recorded = recorded_files(warehouse.database, stream, name, table.location) if deep else None
    with ThreadPoolExecutor(FILES_AT_A_TIME) as pool:
        faults = pool.map(partial(_fault, recorded), (file for file, _ in result.files.values()))
        for (path, (_, unit)), fault in zip(result.files.items(), faults, strict=True):
            if fault is not None:
                remedy = BACKUP if unit is None else result.redo(unit)
                result.damages.append(Damage(path, f"a file of {result.named(unit)}: {fault}", remedy))
    return result


def _fault(recorded: Mapping[str, Recorded] | None, file: DataFile) -> str | None:
    """The fault of a data file, if any; it is read whole where there is a record of what the files were.

    Storage that cannot be reached, or refuses, is an InputError.
    """
    path = file.file_path
    filesystem, inner = open_filesystem(path)
    try:
        with damage_errors(path):
            info = filesystem.get_file_info(inner)
            if info.type != pafs.FileType.File:
                return "it is not there"
            if info.size != file.file_size_in_bytes:
                return f"it has {info.size} bytes, and should have {file.file_size_in_bytes}"
            if recorded is not None:
                check_recorded(path, read_digest(path), recorded.get(path))
            rows = read_footer(path).num_rows
            if rows != file.record_count:
                return f"its footer says {rows} rows, and the manifest {file.record_count}"
            if recorded is not None and path not in recorded:  # the catalog was made anew
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
