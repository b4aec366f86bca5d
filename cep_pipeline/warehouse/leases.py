"""Leases: one writer per (stream, day), and per (stream, pattern set) for plans; `Store`, what they are taken on.

A lease is a row in the catalog's database. Its holder renews the heartbeat from a thread; a row without a heartbeat
for the time-out belongs to a run that died, and the next one takes it over. The row also says which process holds it: a
process on the same machine sees that it is gone, and takes the lease over at once. Publishing renews the row in the
very transaction that commits: a run that has lost its lease in the meantime cannot commit, and one that commits cannot
lose it before it is done.

Times are those of the database's clock, so that the clocks of hosts may differ; SQLite has no clock of its own.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import cache, cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection, Row

from cep_pipeline.errors import BusyError, CepError, InputError
from cep_pipeline.warehouse.database import CATALOG_NAME, LEASES, POINTERS, Database
from cep_pipeline.warehouse.layout import SCRATCH
from cep_pipeline.warehouse.records import LeaseHolder

if TYPE_CHECKING:
    from cep_pipeline.warehouse.catalog import WarehouseCatalog

logger = logging.getLogger(__name__)

LEASE_TIMEOUT_S = 120.0
"""A lease lives so long without a heartbeat, where nothing else is said."""
_BEATS_PER_TIMEOUT = 6
_POLL_S = 0.2


def day_unit(day: date, part: str = "") -> str:
    """Return the unit of a lease on everything published of a day, or on a part of what is made of it."""
    return f"day:{day.isoformat()}" + (f":{part}" if part else "")


def plan_unit(pattern_set: str) -> str:
    """Return the unit of a lease on the plans of a pattern set."""
    return f"plan:{pattern_set}"


class Lease:
    """A lease that is held until it is released or lost; a context manager that releases it.

    It lives for `timeout_s` without a heartbeat; `clock` gives seconds since the epoch. Where another run holds it, a
    BusyError says which, since when, and what to do. `of_dead` is told of a dead holder before the lease is taken over
    from it: what it does is done even if this process dies in the next moment.

    The clocks of all hosts that share a warehouse whose catalog is SQLite must agree to within a small part of the
    time-out; another database has its own clock.
    """

    def __init__(
        self,
        database: Database,
        stream: str,
        unit: str,
        *,
        run_id: str,
        clock: Callable[[], float] = time.time,
        timeout_s: float = LEASE_TIMEOUT_S,
        of_dead: Callable[[LeaseHolder], object] = lambda holder: None,
    ) -> None:
        if not run_id:
            raise InputError(f"the lease of {stream} {unit} needs a run_id")
        self.stream = stream
        self.unit = unit
        self.run_id = run_id
        self._database = database
        self._clock = clock
        self._timeout_s = timeout_s
        self._token = uuid.uuid4().hex
        self.lost = False
        self._stop = threading.Event()
        self._acquire(of_dead)
        self._thread = threading.Thread(target=self._beat, name=f"lease {stream} {unit}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except CepError as second:
            if error is None:
                raise
            # The first error is the one to show; the row that stays behind runs out by itself.
            logger.warning("the lease of %s %s could not be released: %s", self.stream, self.unit, second)

    def release(self) -> None:
        """Give the lease up; nothing happens where it is lost or released already."""
        self._stop.set()
        self._thread.join()
        with self._database.begin() as connection:
            connection.execute(sql.delete(LEASES).where(*self._mine()))
        self.lost = True

    def check(self) -> None:
        """Renew the lease; a BusyError says that it is no longer held."""
        with self._database.begin() as connection:
            self.renew(connection)

    def renew(self, connection: Connection) -> None:
        """Renew the lease (BusyError: it is lost) within a transaction, whose commit then depends on it."""
        held = connection.execute(sql.update(LEASES).where(*self._mine()).values(heartbeat_at=self._now))
        if held.rowcount < 1:
            raise self._gone(connection)

    def _gone(self, connection: Connection) -> BusyError:
        self.lost = True
        holder = connection.execute(_select(self.stream, self.unit)).one_or_none()
        now = f"; now {_describe(holder)}" if holder else ""
        return BusyError(
            f"stream {self.stream}, {self.unit}: run {self.run_id} no longer holds its lease{now}. Nothing of this "
            f"run was published after that; it had sent no heartbeat for {self._timeout_s:.0f} s (was the machine "
            "asleep or overloaded?). Run again when the other run has ended"
        )

    def _mine(self) -> tuple[sql.ColumnElement[bool], ...]:
        return (LEASES.c.stream == self.stream, LEASES.c.unit == self.unit, LEASES.c.token == self._token)

    @property
    def _now(self) -> sql.ColumnElement[float]:
        return self._database.now(self._clock)

    def _acquire(self, of_dead: Callable[[LeaseHolder], object]) -> None:
        dead = None
        while True:
            with self._database.errors(), suppress(sql.exc.IntegrityError):
                return self._take(dead)
            over = LEASES.c.heartbeat_at < self._now - self._timeout_s
            row = next(iter(self._database.rows(_select(self.stream, self.unit).add_columns(over.label("over")))), None)
            if row is None or not (row.over or is_dead(row)):
                raise self._busy(row)
            of_dead(holder_of(row, expired=True))
            dead = row

    def _take(self, dead: Row[Any] | None) -> None:
        """Insert the row; in place of the dead holder's, if that has sent no heartbeat after all."""
        row = {
            "stream": self.stream,
            "unit": self.unit,
            "token": self._token,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "run_id": self.run_id,
            "acquired_at": self._now,
            "heartbeat_at": self._now,
            "place": _place(),
        }
        with self._database.engine.begin() as connection:
            if dead is not None:
                same = (LEASES.c.token == dead.token, LEASES.c.heartbeat_at == dead.heartbeat_at)
                connection.execute(sql.delete(LEASES).where(*same))
            connection.execute(sql.insert(LEASES).values(row))
        logger.debug("run %s: holds the lease of %s %s", self.run_id, self.stream, self.unit)

    def _busy(self, holder: Row[Any] | None) -> BusyError:
        who = _describe(holder) if holder else "another run held it a moment ago"
        free = f" at {_clock_time(holder.heartbeat_at + self._timeout_s)}" if holder else ""
        return BusyError(
            f"stream {self.stream}, {self.unit}: {who}. Wait until it ends and run again; if it is dead, the lease is "
            f"free {self._timeout_s:.0f} s after its last heartbeat,{free or ' soon'}"
        )

    def _beat(self) -> None:
        while not self._stop.wait(self._timeout_s / _BEATS_PER_TIMEOUT):
            try:
                self.check()
            except BusyError as error:
                if self.lost:
                    logger.error("%s", error)
                    return
                logger.warning("heartbeat of %s %s missed: %s", self.stream, self.unit, error)
            except CepError as error:
                logger.warning("heartbeat of %s %s missed: %s", self.stream, self.unit, error)


def holder_of(row: Row[Any], *, expired: bool) -> LeaseHolder:
    """Return the holder of a lease from its row."""
    acquired, heard = (datetime.fromtimestamp(seconds, UTC) for seconds in (row.acquired_at, row.heartbeat_at))
    return LeaseHolder(row.stream, row.unit, row.host, row.pid, row.run_id, acquired, heard, expired)


def is_dead(holder: Row[Any]) -> bool:
    """Return True if the process that holds a lease is known to be dead; of another machine nothing is known.

    A process id may have been given again to another process: then the lease is free when it runs out.
    """
    if holder.place is None or holder.place != _place():
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # of another user
        return False
    return False


@cache
def _place() -> str | None:
    """The boot of this machine and the namespace of its process ids; None where the system does not tell."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def _select(stream: str, unit: str) -> sql.Select[Any]:
    return sql.select(LEASES).where(LEASES.c.stream == stream, LEASES.c.unit == unit)


def _describe(holder: Row[Any]) -> str:
    return (
        f"run {holder.run_id} (process {holder.pid} on {holder.host}) holds it since "
        f"{_clock_time(holder.acquired_at)}, last heard of at {_clock_time(holder.heartbeat_at)}"
    )


def _clock_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class Store:
    """Folder, catalog, database and clock of a warehouse, which its tables share, and the leases on them.

    The location is an absolute path or URI, without a slash at the end; `clock` gives seconds since the epoch. A lease
    lives for `lease_timeout_s` without a heartbeat.
    """

    def __init__(
        self,
        location: str,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        lease_timeout_s: float = LEASE_TIMEOUT_S,
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
        return sorted(row.table_namespace for row in self.database.rows(query))

    def lease(
        self,
        stream: str,
        unit: str,
        *,
        run_id: str,
        wait_s: float = 0.0,
        of_dead: Callable[[LeaseHolder], object] = lambda holder: None,
    ) -> Lease:
        """Take a lease; another holder has `wait_s` to give it up, before a BusyError names it and says what to do.

        `StreamTables.day_lease` and `plan_lease` name the units, and `Lease` says what `of_dead` is.
        """
        take = partial(Lease, self.database, stream, unit, run_id=run_id, clock=self.clock, of_dead=of_dead)
        deadline = time.monotonic() + wait_s
        while True:
            try:
                return take(timeout_s=self.lease_timeout_s)
            except BusyError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_POLL_S)

    def leases(self) -> list[LeaseHolder]:
        """Return all leases, those of dead runs too, by stream and unit."""
        over = LEASES.c.heartbeat_at < self.database.now(self.clock) - self.lease_timeout_s
        query = sql.select(LEASES, over.label("over")).order_by(LEASES.c.stream, LEASES.c.unit)
        return [holder_of(row, expired=row.over or is_dead(row)) for row in self.database.rows(query)]
