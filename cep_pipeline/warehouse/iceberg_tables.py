"""Tables of the catalog: made where they are not there, and given the columns that a newer layout has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import pyarrow as pa
import sqlalchemy.exc
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
)
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema

from cep_pipeline.storage import damage_errors, storage_errors
from cep_pipeline.warehouse.catalog import WarehouseCatalog
from cep_pipeline.warehouse.commits import patient_attempts
from cep_pipeline.warehouse.layout import TableLayout
from cep_pipeline.warehouse.published_table import PublishedTable

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

    A name that does not fit those of the published columns is an InputError. Columns that it lacks are added by
    `add_columns`, when they get values.
    """
    with storage_errors(f"making table {stream}.{layout.name}"):
        try:
            table = catalog.load_table((stream, layout.name))
        except NoSuchTableError:
            table = _create(catalog, stream, layout, location)

    def rename(published: PublishedTable, update: UpdateSchema) -> None:
        # The files that are there keep the old names, which the table's name mapping lists for all readers.
        for old, new in published.renamed_columns(layout).items():
            update.rename_column(old, new)

    _update_schema(table, rename)
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
    mapping = {"schema.name-mapping.default": schema.name_mapping.model_dump_json()}
    properties = {**_TABLE_PROPERTIES, **layout.properties, **mapping}
    return catalog.make_table(
        stream, layout.name, schema, location, PartitionSpec(*partitions), SortOrder(*sort), properties
    )


def set_properties(catalog: WarehouseCatalog, stream: str, table_name: str) -> None:
    """Give a table the properties that tables are made with now; where it has them, nothing is committed."""
    _set_properties(catalog, stream, table_name, _TABLE_PROPERTIES)


def _set_properties(catalog: WarehouseCatalog, stream: str, table_name: str, properties: Mapping[str, str]) -> None:
    for _ in patient_attempts(f"{stream}.{table_name}"):
        table = catalog.load_table((stream, table_name))
        missing = {name: value for name, value in properties.items() if table.properties.get(name) != value}
        if not missing:
            return
        with suppress(CommitFailedException):
            table.transaction().set_properties(missing).commit_transaction()


def add_columns(catalog: WarehouseCatalog, stream: str, layout: TableLayout) -> None:
    """Add the columns and properties of the layout that a published table lacks; without any nothing is committed.

    A column of another type than the published one is an InputError.
    """
    _set_properties(catalog, stream, layout.name, layout.properties)

    def add(published: PublishedTable, update: UpdateSchema) -> None:
        if added := published.missing_columns(layout):
            from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

            for field in _pyarrow_to_schema_without_ids(pa.schema(added)).fields:
                update.add_column(field.name, field.field_type)

    _update_schema(catalog.load_table((stream, layout.name)), add)


def _update_schema(table: Table, change: Callable[[PublishedTable, UpdateSchema], None]) -> None:
    """Change the columns of a table as it is published; a change of nothing commits nothing."""
    for _ in patient_attempts(".".join(table.name())):
        try:
            with table.update_schema() as update:
                change(as_published(table), update)
            return
        except CommitFailedException:
            table.refresh()


def as_published(table: Table) -> PublishedTable:
    """Return a table as readers see it; DamagedError where its metadata file lacks what every table has."""
    stream, name = table.name()[-2:]
    with damage_errors(table.metadata_location):
        return PublishedTable(stream, name, table.metadata_location, table.metadata, table.io)
