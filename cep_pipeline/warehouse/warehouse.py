"""`Warehouse`: a folder (or object store) of Iceberg tables with its catalog."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cep_pipeline.warehouse.layout import EventSchema
from cep_pipeline.warehouse.records import LeaseHolder, MaintenanceReport
from cep_pipeline.warehouse.stream_tables import StreamTables


class Warehouse:
    """The tables of all streams; made by `Warehouse.open`."""

    @classmethod
    def open(
        cls,
        location: str | Path,
        catalog_uri: str | None = None,
        *,
        clock: Callable[[], float] = time.time,
        lease_timeout_s: float = 120.0,
    ) -> Warehouse:
        """Open a warehouse; folder and catalog are made on first use.

        Parameters
        ----------
        location
            Folder, or URI that pyarrow reaches (s3://…).
        catalog_uri
            Database of the catalog (postgresql+psycopg2://…); by default SQLite in the folder.
        clock
            Seconds since the epoch; for tests.
        lease_timeout_s
            How long a lease lives without a heartbeat.

        Raises
        ------
        InputError
            The location cannot be written, the catalog cannot be read, or a newer version made it.
        """

    def stream(self, schema: EventSchema) -> StreamTables:
        """Return the tables of a stream for writing; they are made on first use and get new attributes as columns.

        Raises
        ------
        InputError
            An attribute has another type than the published one.
        """

    def open_stream(self, name: str) -> StreamTables:
        """Return the tables of a stream that exist already, for reading.

        Raises
        ------
        InputError
            There is no such stream; the message lists those that there are.
        """

    def streams(self) -> list[str]:
        """Return the names of the streams, sorted."""

    def leases(self) -> list[LeaseHolder]:
        """Return who holds a lease now."""

    def maintain(self, *, grace_s: float = 86_400.0, keep_snapshots_s: float = 5 * 86_400.0) -> MaintenanceReport:
        """Expire old snapshots, then remove files that no snapshot names.

        Parameters
        ----------
        grace_s
            Files younger than this are left alone, and those of a run that holds a lease; at least 600.
        keep_snapshots_s
            Snapshots younger than this are kept, and always the current one.
        """
