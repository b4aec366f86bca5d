"""`Store`: where the tables of a warehouse are, and who may write them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import sqlalchemy as sql

from cep_pipeline.errors import BusyError
from cep_pipeline.warehouse.database import CATALOG_NAME, LEASES, POINTERS, Database
from cep_pipeline.warehouse.layout import SCRATCH
from cep_pipeline.warehouse.leases import Lease, holder_of, is_dead
from cep_pipeline.warehouse.records import LeaseHolder

if TYPE_CHECKING:
    from cep_pipeline.warehouse.catalog import WarehouseCatalog
_POLL_S = 0.2


class Store:
    """Folder, catalog, database and clock of a warehouse, which its tables share.

    The location is an absolute path or URI, without a slash at the end; `clock` gives seconds since the epoch. A lease
    lives for `lease_timeout_s` without a heartbeat.
    """

    def __init__(
        self, location: str, database: Database, *, clock: Callable[[], float], lease_timeout_s: float
    ) -> None:
        self.location = location
        self.database = database
        self.clock = clock
        self.lease_timeout_s = lease_timeout_s

    @cached_property
    def catalog(self) -> WarehouseCatalog:
        """The Iceberg catalog; opened on first use, since importing pyiceberg takes 1-2 s."""
        from cep_pipeline.warehouse.catalog import WarehouseCatalog

        with self.database.errors():
            return WarehouseCatalog(self.database, self.location)

    @property
    def scratch(self) -> str:
        """Folder for files that are not published; what has long not changed there was left by a dead run."""
        return f"{self.location}/{SCRATCH}"

    def close(self) -> None:
        """Close the connections to the catalog's database; a later use opens them again."""
        self.database.engine.dispose()

    def table_location(self, stream: str, table: str) -> str:
        """Return where the files of a table are."""
        return f"{self.location}/{stream}/{table}"

    def streams(self) -> list[str]:
        """Return the names of the streams, sorted."""
        if not self.database.has_catalog():
            return []
        query = sql.select(POINTERS.c.table_namespace).distinct().where(POINTERS.c.catalog_name == CATALOG_NAME)
        with self.database.begin() as connection:
            return sorted(connection.execute(query).scalars())

    def lease(self, stream: str, unit: str, *, run_id: str, wait_s: float = 0.0) -> Lease:
        """Take a lease; another holder has `wait_s` to give it up, before a BusyError names it and says what to do.

        `StreamTables.day_lease` and `plan_lease` name the units.
        """
        deadline = time.monotonic() + wait_s
        while True:
            try:
                return Lease(
                    self.database, stream, unit, run_id=run_id, clock=self.clock, timeout_s=self.lease_timeout_s
                )
            except BusyError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_POLL_S)

    def leases(self) -> list[LeaseHolder]:
        """Return all leases, those of dead runs too, by stream and unit."""
        over = LEASES.c.heartbeat_at < self.database.now(self.clock) - self.lease_timeout_s
        query = sql.select(LEASES, over.label("over")).order_by(LEASES.c.stream, LEASES.c.unit)
        with self.database.begin() as connection:
            rows = connection.execute(query).all()
        return [holder_of(row, expired=row.over or is_dead(row)) for row in rows]
