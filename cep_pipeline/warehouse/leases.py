"""Leases: one writer per (stream, day), and per (stream, pattern set) for plans.

A lease is a row in the catalog's database. Its holder renews the heartbeat from a thread; a row without a heartbeat
for the time-out belongs to a run that died, and the next one takes it over. Publishing renews the row in the very
transaction that commits: a run that has lost its lease in the meantime cannot commit, and one that commits cannot
lose it before it is done.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from types import TracebackType

import sqlalchemy as sql
from sqlalchemy.engine import Connection, Row

from cep_pipeline.errors import BusyError, CepError, InputError
from cep_pipeline.warehouse.database import LEASES, Database

logger = logging.getLogger(__name__)

_BEATS_PER_TIMEOUT = 6


def day_unit(day: date) -> str:
    """Return the unit of a lease on everything published of a day."""
    return f"day:{day.isoformat()}"


def plan_unit(pattern_set: str) -> str:
    """Return the unit of a lease on the plans of a pattern set."""
    return f"plan:{pattern_set}"


class Lease:
    """A lease that is held until it is released or lost; a context manager that releases it.

    Parameters
    ----------
    database
        The catalog's database.
    stream, unit
        What it is on.
    run_id
        The run that holds it.
    clock
        Seconds since the epoch.
    timeout_s
        How long it lives without a heartbeat.

    Raises
    ------
    BusyError
        Another run holds it; the message says which, since when, and what to do.

    Notes
    -----
    The clocks of all hosts that share a warehouse must agree to within a small part of the time-out.
    """

    def __init__(
        self,
        database: Database,
        stream: str,
        unit: str,
        *,
        run_id: str,
        clock: Callable[[], float] = time.time,
        timeout_s: float = 120.0,
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
        self._lost = False
        self._stop = threading.Event()
        self._acquire()
        self._thread = threading.Thread(target=self._beat, name=f"lease {stream} {unit}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except CepError:
            if error is None:
                raise
            # The first error is the one to show; the row that stays behind runs out by itself.
            logger.warning("the lease of %s %s could not be released", self.stream, self.unit, exc_info=True)

    def release(self) -> None:
        """Give the lease up; nothing happens where it is lost or released already."""
        self._stop.set()
        self._thread.join()
        with self._database.begin() as connection:
            connection.execute(sql.delete(LEASES).where(*self._mine()))
        self._lost = True

    def check(self) -> None:
        """Renew the lease.

        Raises
        ------
        BusyError
            It is no longer held.
        """
        with self._database.begin() as connection:
            self.renew(connection)

    def look(self) -> None:
        """Refuse to go on with a lease that is lost, before work that could not be committed; writes nothing.

        Raises
        ------
        BusyError
            It is no longer held.
        """
        with self._database.begin() as connection:
            if connection.execute(sql.select(LEASES.c.token).where(*self._mine())).one_or_none() is None:
                raise self._gone(connection)

    def renew(self, connection: Connection) -> None:
        """Renew the lease within a transaction, whose commit then depends on it.

        Raises
        ------
        BusyError
            It is no longer held.
        """
        held = connection.execute(sql.update(LEASES).where(*self._mine()).values(heartbeat_at=self._clock()))
        if held.rowcount < 1:
            raise self._gone(connection)

    def _gone(self, connection: Connection) -> BusyError:
        self._lost = True
        holder = connection.execute(_select(self.stream, self.unit)).one_or_none()
        now = f"; now {_describe(holder)}" if holder else ""
        return BusyError(
            f"stream {self.stream}, {self.unit}: run {self.run_id} no longer holds its lease{now}. Nothing of this "
            f"run was published after that; it had sent no heartbeat for {self._timeout_s:.0f} s (was the machine "
            "asleep or overloaded?). Run again when the other run has ended"
        )

    @property
    def lost(self) -> bool:
        """True if it is known that the lease is no longer held."""
        return self._lost

    def _mine(self) -> tuple[sql.ColumnElement[bool], ...]:
        return (LEASES.c.stream == self.stream, LEASES.c.unit == self.unit, LEASES.c.token == self._token)

    def _acquire(self) -> None:
        now = self._clock()
        row = {
            "stream": self.stream,
            "unit": self.unit,
            "token": self._token,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "run_id": self.run_id,
            "acquired_at": now,
            "heartbeat_at": now,
        }
        with self._database.errors():
            try:
                with self._database.engine.begin() as connection:
                    connection.execute(
                        sql.delete(LEASES).where(
                            LEASES.c.stream == self.stream,
                            LEASES.c.unit == self.unit,
                            LEASES.c.heartbeat_at < now - self._timeout_s,
                        )
                    )
                    connection.execute(sql.insert(LEASES).values(row))
                logger.debug("run %s: holds the lease of %s %s", self.run_id, self.stream, self.unit)
                return
            except sql.exc.IntegrityError:
                with self._database.engine.begin() as connection:
                    holder = connection.execute(_select(self.stream, self.unit)).one_or_none()
        who = _describe(holder) if holder else "another run held it a moment ago"
        free = f" at {_clock_time(holder.heartbeat_at + self._timeout_s)}" if holder else ""
        raise BusyError(
            f"stream {self.stream}, {self.unit}: {who}. Wait until it ends and run again; if it is dead, the lease is "
            f"free {self._timeout_s:.0f} s after its last heartbeat,{free or ' soon'}"
        )

    def _beat(self) -> None:
        while not self._stop.wait(self._timeout_s / _BEATS_PER_TIMEOUT):
            try:
                self.check()
            except BusyError as error:
                if self._lost:
                    logger.error("%s", error)
                    return
                logger.warning("heartbeat of %s %s missed: %s", self.stream, self.unit, error)
            except CepError as error:
                logger.warning("heartbeat of %s %s missed: %s", self.stream, self.unit, error)


def _select(stream: str, unit: str) -> sql.Select[tuple[object, ...]]:
    return sql.select(LEASES).where(LEASES.c.stream == stream, LEASES.c.unit == unit)


def _describe(holder: Row[tuple[object, ...]]) -> str:
    return (
        f"run {holder.run_id} (process {holder.pid} on {holder.host}) holds it since "
        f"{_clock_time(holder.acquired_at)}, last heard of at {_clock_time(holder.heartbeat_at)}"
    )


def _clock_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
