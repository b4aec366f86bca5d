"""Tables of the catalog: made where they are not there, and given the columns that a newer layout has."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import sqlalchemy.exc
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table

from cep_pipeline.errors import InputError
from cep_pipeline.storage import former_names, storage_errors, with_former_names
from cep_pipeline.warehouse.catalog import WarehouseCatalog, write_version_hint
from cep_pipeline.warehouse.commits import patient_attempts
from cep_pipeline.warehouse.layout import TableLayout

_TABLE_PROPERTIES = {
    # Conflicts are retried in `commits`, where the unit is planned anew on the newer table.
    "commit.retry.num-retries": "0",
    # A list of days reads the manifests that overlap it: some hundred files in each, in the order of their commits.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "commit.manifest.target-size-bytes": str(128 * 1024),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}


def ensure_table(catalog: WarehouseCatalog, stream: str, layout: TableLayout, location: str) -> Table:
    """Return a table, made if it is not there; its columns get the names that the layout has for them now.

    Columns that it lacks are added by `add_columns`, when they get values.

    Raises
    ------
    InputError
        A column has another type than the published one, or a name that does not fit those of the published ones.
    """
    with storage_errors(f"making table {stream}.{layout.name}"):
        try:
            table = catalog.load_table((stream, layout.name))
        except NoSuchTableError:
            table = _create(catalog, stream, layout, location)
    _rename_columns(table, stream, layout)
    _missing_columns(table, stream, layout)
    return table


def _create(catalog: WarehouseCatalog, stream: str, layout: TableLayout, location: str) -> Table:
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import assign_fresh_schema_ids
    from pyiceberg.table.sorting import SortField, SortOrder
    from pyiceberg.transforms import IdentityTransform

    schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(layout.schema))
    partitions = (
        PartitionField(schema.find_field(name).field_id, 1000 + index, IdentityTransform(), name)
        for index, name in enumerate(layout.partitions)
    )
    sort = (SortField(schema.find_field(name).field_id, transform=IdentityTransform()) for name in layout.sort)
    # Two processes may make the same stream at once: whoever comes second takes what is there.
    with suppress(NamespaceAlreadyExistsError, sqlalchemy.exc.IntegrityError):
        catalog.create_namespace(stream)
    properties = _TABLE_PROPERTIES | {"schema.name-mapping.default": schema.name_mapping.model_dump_json()}
    try:
        made = catalog.create_table(
            (stream, layout.name), schema, location, PartitionSpec(*partitions), SortOrder(*sort), properties
        )
    except TableAlreadyExistsError:
        return catalog.load_table((stream, layout.name))
    write_version_hint(made.metadata_location)
    return made


def set_properties(catalog: WarehouseCatalog, stream: str, table_name: str) -> None:
    """Give a table the properties that tables are made with now; where it has them, nothing is committed."""
    for _ in patient_attempts(f"{stream}.{table_name}"):
        table = catalog.load_table((stream, table_name))
        missing = {name: value for name, value in _TABLE_PROPERTIES.items() if table.properties.get(name) != value}
        if not missing:
            return
        with suppress(CommitFailedException):
            table.transaction().set_properties(missing).commit_transaction()


def _rename_columns(table: Table, stream: str, layout: TableLayout) -> None:
    """Give the columns of a table the names that the layout has for them now; no file is written anew.

    The files that are there keep the old names, which the table's name mapping lists for all readers.
    """
    for _ in patient_attempts(f"{stream}.{layout.name}"):
        renamed = _renamed(table, stream, layout)
        if not renamed:
            return
        try:
            with table.update_schema() as update:
                for old, new in renamed.items():
                    update.rename_column(old, new)
        except CommitFailedException:
            table.refresh()
            continue
        return


def _renamed(table: Table, stream: str, layout: TableLayout) -> dict[str, str]:
    """The columns of a table that have another name in the layout: name in the table -> name in the layout."""
    published, now = published_columns(table), _present_names(table)
    found = {}
    for field in layout.schema:
        former = former_names(field)
        olds = {now[name] for name in former if name in now} - {field.name}
        there = field.name in published.names
        said = f"stream {stream}: attribute {field.name!r} was {' or '.join(map(repr, former))}"
        if former and not olds and not there:
            raise InputError(
                f"{said}, and the published {layout.name} have no such column; there are: "
                f"{', '.join(published.names)}. Correct `was` in the stream schema, or leave it out for a new attribute"
            )
        if olds and len(olds) + there > 1:
            both = sorted({*olds, *([field.name] if there else [])})
            raise InputError(
                f"{said}, and the published {layout.name} have columns {' and '.join(map(repr, both))}: they cannot "
                "become one. Leave `was` out, or give the attribute a name that is not published yet"
            )
        for old in olds:
            _check_type(field, published.field(old), stream, layout)
            if now.get(field.name, old) == old:  # else the name is another column's, which is said later
                found[old] = field.name
    return found


def _present_names(table: Table) -> dict[str, str]:
    """Every name that a column of a table has or had -> its name now."""
    schema = table.schema()
    names = {field.field_id: field.name for field in schema.fields}
    mapping = table.name_mapping() or ()
    had = {name: names[one.field_id] for one in mapping if one.field_id in names for name in one.names}
    return had | {name: name for name in names.values()}


def check_names(table: Table, stream: str, columns: pa.Schema) -> None:
    """Refuse columns that have been renamed since; files that were written after that have only the new name.

    Raises
    ------
    InputError
        A column has another name in the table now.
    """
    now = _present_names(table)
    for name in columns.names:
        if now.get(name, name) != name:
            raise InputError(
                f"stream {stream}: attribute {name!r} has been renamed to {now[name]!r}, and its old name stays with "
                f"the days that were published under it: use the new name in the stream schema (`{now[name]}: "
                f"{{type: …, was: {name}}}`), or give a new attribute another name"
            )


def _check_type(field: pa.Field, published: pa.Field, stream: str, layout: TableLayout) -> None:
    if published.type != _small(field.type):
        was = "" if field.name == published.name else f", which was {published.name!r},"
        before, after = (_TYPE_NAMES.get(str(kind), str(kind)) for kind in (published.type, field.type))
        raise InputError(
            f"stream {stream}: attribute {field.name!r}{was} is {before} in the published {layout.name}, and {after} "
            "in the stream schema; an attribute keeps its type: give the new one another name, or the stream another "
            "name"
        )


_TYPE_NAMES = {"double": "float64", "list<element: double>": "list<float64>", "list<item: double>": "list<float64>"}
"""Name of a type in Arrow -> its name in a stream schema, where they differ."""


def _missing_columns(table: Table, stream: str, layout: TableLayout) -> list[pa.Field]:
    """The columns of the layout that a table lacks, once names and types of the others are checked."""
    check_names(table, stream, layout.schema)
    published = published_columns(table)
    for field in layout.schema:
        if field.name in published.names:
            _check_type(field, published.field(field.name), stream, layout)
    return [field for field in layout.schema if field.name not in published.names]


def add_columns(catalog: WarehouseCatalog, stream: str, layout: TableLayout) -> None:
    """Add the columns of the layout that a published table lacks; where there are none, nothing is committed.

    Raises
    ------
    InputError
        A column has another type than the published one.
    """
    table = catalog.load_table((stream, layout.name))
    added = _missing_columns(table, stream, layout)
    if not added:
        return
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

    addition = _pyarrow_to_schema_without_ids(pa.schema(added))
    for _ in patient_attempts(f"{stream}.{layout.name}"):
        published = published_columns(table)
        try:
            with table.update_schema() as update:
                for field in addition.fields:
                    if published.get_field_index(field.name) < 0:
                        update.add_column(field.name, field.field_type)
        except CommitFailedException:
            table.refresh()
            continue
        return


def published_columns(table: Table) -> pa.Schema:
    """Return the columns of a table in the types that its files have; they know their former names."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    former: dict[str, list[str]] = {}
    for name, now in _present_names(table).items():
        former.setdefault(now, []).extend([name] if name != now else [])
    return pa.schema(
        [
            with_former_names(pa.field(field.name, _small(field.type)), former[field.name])
            for field in schema_to_pyarrow(table.schema(), include_field_ids=False)
        ]
    )


def _small(kind: pa.DataType) -> pa.DataType:
    """Return the type with 32-bit offsets and plain field names: what the layouts and the files have."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_small(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _small(field.type)) for field in kind])
    return kind
