"""Compaction: small files of a table become few, with the same rows in the same order.

A compaction takes no lease. It is one commit that replaces files by a file of their rows, and it is planned anew when
another commit came first: files that are no longer there by then were replaced by a run, and stay replaced. A run whose
commit comes second replaces what it finds, merged or not. Records and fingerprints of units name contents and no
files, so that nothing becomes stale; readers that are pinned to a snapshot go on reading the files that it names.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, Transaction

from cep_pipeline.errors import DamagedError
from cep_pipeline.events.type_footer import footer_of, type_attribute_in
from cep_pipeline.storage import (
    ROW_GROUP_ROWS,
    conform,
    former_names,
    make_durable,
    names_in_file,
    open_data_file,
    open_filesystem,
    open_parquet,
    read_footer,
    storage_errors,
    written,
)
from cep_pipeline.warehouse import commits, iceberg_tables
from cep_pipeline.warehouse.layout import REPEATING_IN_MATCHES
from cep_pipeline.warehouse.published_table import bound

if TYPE_CHECKING:
    from cep_pipeline.warehouse.catalog import WarehouseCatalog

logger = logging.getLogger(__name__)
MERGED_WHEN_PUBLISHED_BYTES = 8 * 1024 * 1024
"""Files of a unit that are together no larger than this are merged before they are published."""

_PACKED = "-packed-"
_UNITS_A_COMMIT = 100


def compact(catalog: WarehouseCatalog, stream: str, table_name: str, *, file_rows: int) -> int:
    """Merge neighbouring files of a unit while they have together no more than `file_rows`; returns how many fewer.

    A kill leaves the table as the last commit left it, and the next compaction goes on from there. Files stay as they
    are where one of them is damaged; a warning names it.
    """
    table = catalog.load_table((stream, table_name))
    fewer = 0
    columns = iceberg_tables.as_published(table).columns
    groups = list(_groups(table, table_name, file_rows))
    for start in range(0, len(groups), _UNITS_A_COMMIT):
        part = groups[start : start + _UNITS_A_COMMIT]
        merged: list[tuple[list[DataFile], str]] = []
        for group in part:
            try:
                merged.append((group, rewrite_files([file.file_path for file in group], table_name, columns)))
            except DamagedError as error:
                logger.warning("%s.%s: %s small files are not merged: %s", stream, table_name, len(group), error)
        if merged:
            _replace(catalog, stream, table_name, merged)
        fewer += sum(len(group) - 1 for group, _ in merged)
    logger.info("%s.%s: %s files fewer", stream, table_name, fewer)
    return fewer


def _replace(
    catalog: WarehouseCatalog, stream: str, table_name: str, merged: Sequence[tuple[Sequence[DataFile], str]]
) -> None:
    """Replace groups of files, those that are all there still, by the file that they were merged into."""
    make_durable(path for _, path in merged)

    def change(table: Table, transaction: Transaction) -> int:
        there = {task.file.file_path for task in table.scan().plan_files()}
        ready = [(group, path) for group, path in merged if there.issuperset(file.file_path for file in group)]
        new = [parquet_file_to_data_file(table.io, table.metadata, path) for _, path in ready]
        return commits.replace_files(transaction, [file for group, _ in ready for file in group], new)

    commits.commit(catalog, stream, table_name, change)


def _groups(table: Table, table_name: str, most_rows: int) -> Iterator[list[DataFile]]:
    """Neighbouring files of one unit that make one file."""
    units: dict[tuple[object, ...], list[DataFile]] = {}
    for task in table.scan().plan_files():
        unit = tuple(task.file.partition[position] for position in range(len(table.spec().fields)))
        units.setdefault(unit, []).append(task.file)
    seq = table.schema().find_field("seq").field_id if table_name == "events" else None
    for files in units.values():
        # In the order in which they are read: events by seq, all others by path.
        files.sort(key=lambda file: (0 if seq is None else bound(file.lower_bounds[seq]), file.file_path))
        group: list[DataFile] = []
        for file in files:
            full = group and sum(one.record_count for one in group) + file.record_count > most_rows
            apart = group and seq is not None and bound(group[-1].upper_bounds[seq]) >= bound(file.lower_bounds[seq])
            if full or apart:
                if len(group) > 1:
                    yield group
                group = []
            group.append(file)
        if len(group) > 1:
            yield group


def merge_small_files(files: Sequence[str], table_name: str, columns: pa.Schema) -> list[str]:
    """Return the files of a unit as one file, in the order of their paths, where they are small.

    The given ones stay on the disk until what was made of them is published: a task that publishes is repeatable.
    """
    if len(set(files)) < max(2, len(files)):
        return list(files)
    filesystem, _ = open_filesystem(files[0])
    with storage_errors(f"reading {files[0]}"):
        sizes = [info.size or 0 for info in filesystem.get_file_info([open_filesystem(path)[1] for path in files])]
    if sum(sizes) > MERGED_WHEN_PUBLISHED_BYTES or not all(sizes):
        return list(files)
    return [rewrite_files(sorted(files), table_name, columns)]


def rewrite_files(paths: Sequence[str], table_name: str, columns: pa.Schema) -> str:
    """Write the rows of some files, in their order, as one file beside the first; returns its path.

    Files of a unit are read in the order of their paths: the new name has the place of the first one's.
    """
    first = paths[0].removesuffix(".parquet").split(_PACKED)[0]
    target = f"{first}{_PACKED}{uuid.uuid4().hex[:8]}.parquet"
    dictionaries = REPEATING_IN_MATCHES if table_name == "matches" else None
    type_attribute = _summarised_by(paths, columns) if table_name == "events" else None
    summarised: list[pa.Table] = []
    with open_data_file(target, columns, dictionaries=dictionaries) as writer:
        for rows in _row_groups(_pieces(paths, columns)):
            writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
            if type_attribute is not None:
                summarised.append(rows)
        if type_attribute is not None and summarised:
            writer.add_key_value_metadata(footer_of(pa.concat_tables(summarised), type_attribute))
    return written(target)


def _summarised_by(paths: Sequence[str], columns: pa.Schema) -> str | None:
    """The type attribute by which all of these files of events are summarised; None where one is not."""
    now = {former: field.name for field in columns for former in former_names(field)}
    found = set()
    for path in paths:
        name = type_attribute_in(read_footer(path).metadata)
        found.add(name if name is None else now.get(name, name))
    return found.pop() if len(found) == 1 else None


def _pieces(paths: Sequence[str], columns: pa.Schema) -> Iterator[pa.Table]:
    """Read files row group by row group, as these columns; a column that a file lacks is null."""
    for path in paths:
        with open_parquet(path) as file:
            names = names_in_file(columns, file.schema_arrow.names)
            for batch in file.iter_batches(ROW_GROUP_ROWS, columns=list(names.values())):
                yield conform(pa.Table.from_batches([batch]), columns)


def _row_groups(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Full row groups, and a last one that is smaller."""
    waiting: list[pa.Table] = []
    rows = 0
    for piece in pieces:
        waiting.append(piece)
        rows += piece.num_rows
        if rows >= ROW_GROUP_ROWS:
            whole = pa.concat_tables(waiting)
            full = rows - rows % ROW_GROUP_ROWS
            yield whole.slice(0, full)
            waiting, rows = [whole.slice(full)], rows - full
    if rows:
        yield pa.concat_tables(waiting)
