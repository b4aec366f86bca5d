"""The catalog's database: what must change together with a table, and what two writers must agree on.

Beside Iceberg's own two tables it holds the leases, the record of every published unit (fingerprint, counts,
carry-out), the current plan of each pattern set, and the format version. The record of a unit is written in the
transaction that swaps the Iceberg table's metadata pointer, so that neither is ever there without the other.

On SQLite a transaction begins at its first writing statement, and from there on excludes all other writers; on
PostgreSQL a written row is locked until the end. Every transaction here therefore writes first what it relies on, and
reads after.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy import event, exc
from sqlalchemy.engine import URL, Connection, Engine, Row, make_url
from sqlalchemy.pool import ConnectionPoolEntry

from cep_pipeline.errors import BusyError, CepError, InputError, hold_interruptions, let_interruptions
from cep_pipeline.storage import PRIVATE_FILE
from cep_pipeline.warehouse.layout import FORMAT_VERSION

CATALOG_NAME = "cep"
SQLITE_WAIT_S = 30.0
_CREATE_ATTEMPTS = 10

_metadata = sql.MetaData()

_LENGTHS = {"name": 64, "table_name": 64, "day": 10, "path": 1024}
_NAME = sql.String(255)


def _table(name: str, keys: Sequence[str], **values: Any) -> sql.Table:
    """Declare a table: the columns of its key, which are texts, and further ones by name and type."""
    key = (sql.Column(one, sql.String(_LENGTHS.get(one, 255)), primary_key=True) for one in keys)
    return sql.Table(name, _metadata, *key, *(sql.Column(one, kind, nullable=False) for one, kind in values.items()))


SETTINGS = _table("cep_settings", ["name"], value=sql.Text)

LEASES = _table(
    "cep_leases",
    ["stream", "unit"],
    token=sql.String(32),
    host=_NAME,
    pid=sql.BigInteger,
    run_id=_NAME,
    acquired_at=sql.Double,
    heartbeat_at=sql.Double,
)
"""The leases that are held. `place` is where the process ids of the holder are known; null where no system tells."""
LEASES.append_column(sql.Column("place", _NAME))

PUBLISHED = _table(
    "cep_published",
    ["stream", "table_name", "pattern_set", "day"],
    run_id=_NAME,
    published_at=sql.Double,
    snapshot_id=sql.BigInteger,
    row_count=sql.BigInteger,
    fingerprint=sql.Text,
    counts=sql.Text,
    carry_out=sql.Text,
    carry_out_digest=sql.String(32),
)

CURRENT_PLANS = _table(
    "cep_current_plans",
    ["stream", "pattern_set"],
    version=sql.BigInteger,
    changed_at=sql.Double,
)

POINTERS = sql.table(
    "iceberg_tables",
    *(sql.column(name) for name in ("catalog_name", "table_namespace", "table_name", "metadata_location")),
)
"""Iceberg's own list of tables, which PyIceberg makes: where the present metadata of each table is."""

FILES = _table("cep_files", ["stream", "table_name", "path"], size=sql.BigInteger, sha256=sql.String(64))
"""The files that commits added, data and metadata: what was written. Paths are relative to the table's location."""

RECORDS = tuple(_metadata.sorted_tables)
"""All tables of the catalog's database that are not Iceberg's own."""


class Database:
    """The catalog's database of one warehouse; a SQLite file is made on first use, unless it can only be read here.

    It belongs to the warehouse at `location`; None: to whichever it does. An InputError says that it cannot be reached
    or read, belongs to another location, or was made by a newer version.
    """

    def __init__(self, uri: str | URL, location: str | None) -> None:
        self.url, self.engine = _reached(uri)
        self.read_only = _is_read_only(self.url)
        self.name = self.url.render_as_string(hide_password=True)
        file = Path(self.url.database or "") if self.url.get_backend_name() == "sqlite" else None
        if file is not None and not file.exists():
            with suppress(OSError):  # SQLite says why it cannot be made
                file.touch(PRIVATE_FILE)
        self._check_settings(location)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Run one transaction: committed at the end, rolled back on any error."""
        with self.errors(), self.engine.begin() as connection:
            yield connection

    def rows(self, query: sql.Executable) -> list[Row[Any]]:
        """Return the rows of a query, in a transaction of its own."""
        with self.begin() as connection:
            return list(connection.execute(query).all())

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of the database into ones that say what to do."""
        with _explained(self.name):
            yield

    def has_catalog(self) -> bool:
        """Return False where no table of a stream was ever made."""
        with self.errors():
            return sql.inspect(self.engine).has_table(POINTERS.name)

    def _settings(self) -> dict[str, str]:
        with self.errors():
            self._create_tables()
        return {row.name: row.value for row in self.rows(sql.select(SETTINGS))}

    def _check_settings(self, location: str | None) -> None:
        if location is not None and not self._settings():
            expected = {"format_version": str(FORMAT_VERSION), "location": location}
            rows = [{"name": name, "value": value} for name, value in expected.items()]
            # Another process may write them at the same time.
            with self.errors(), suppress(exc.IntegrityError), self.engine.begin() as connection:
                connection.execute(sql.insert(SETTINGS), rows)
        found = self._settings()
        if not found:
            return
        version = found.get("format_version", "")
        if version != str(FORMAT_VERSION):
            raise InputError(
                f"catalog {self.name}: it has format version {version}, and this version of cep-pipeline knows "
                f"{FORMAT_VERSION}; install the version that made it, or use another warehouse"
            )
        if location not in (None, found.get("location")):
            raise InputError(
                f"catalog {self.name}: it belongs to the warehouse at {found.get('location')}, not to {location}. "
                "Tables name their files by full path: put the warehouse back there, or name an empty location, in "
                "which `cep run` publishes its days anew"
            )

    def now(self, clock: Callable[[], float]) -> sql.ColumnElement[float]:
        """Return the time in seconds since the epoch for a statement, by the clock of the database.

        SQLite has no clock of its own: there it is that of this machine.
        """
        if self.engine.dialect.name == "postgresql":
            return sql.cast(sql.extract("epoch", sql.func.clock_timestamp()), sql.Double)
        return sql.literal(clock(), sql.Double)

    def _create_tables(self) -> None:
        # A run that died while it made them may have left some.
        there = set(sql.inspect(self.engine).get_table_names())
        if not self.read_only and not _metadata.tables.keys() <= there:
            create_together(lambda: _metadata.create_all(self.engine))


def _reached(uri: str | URL) -> tuple[URL, Engine]:
    """Return the address of a database, and how it is reached from here; an InputError says that it is no address."""
    try:
        url = make_url(uri)
        waits = {"timeout": SQLITE_WAIT_S} if url.get_backend_name() == "sqlite" else {}
        address = _for_reading(url) if _is_read_only(url) else url
        engine = sql.create_engine(address, connect_args=waits, pool_pre_ping=not waits)
        event.listen(engine, "checkout", _hold)
        event.listen(engine, "checkin", _let)
        return url, engine
    except (exc.ArgumentError, exc.NoSuchModuleError, ModuleNotFoundError) as error:
        raise InputError(
            f"catalog {without_password(str(uri))}: no usable database address: {error}; "
            "write it as postgresql+psycopg2://USER:PASSWORD@HOST:PORT/NAME, or leave it out for SQLite"
        ) from error


def _hold(_: Any, record: ConnectionPoolEntry, *__: Any) -> None:
    """Let no interruption come while a connection is in use.

    One that comes while it is given back leaves its transaction open: it would keep the database locked, and clearing
    up would wait for that.
    """
    record.info["holds"] = hold_interruptions()


def _let(_: Any, record: ConnectionPoolEntry) -> None:
    if record.info.pop("holds", False):
        let_interruptions()


def is_begun(uri: str | URL) -> bool:
    """Return True if a database has the tables of a warehouse; it is neither made nor changed.

    An InputError says that it cannot be reached or read.
    """
    url, engine = _reached(uri)
    if url.get_backend_name() == "sqlite" and not (url.database and Path(url.database).is_file()):
        return False
    try:
        with _explained(url.render_as_string(hide_password=True)):
            return {SETTINGS.name, POINTERS.name} <= set(sql.inspect(engine).get_table_names())
    finally:
        engine.dispose()


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn errors of a database into ones that say what to do."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise explain_database_error(name, error) from error
    except UnicodeDecodeError as error:  # a mangled SQLite file mangles its own messages
        raise explain_database_error(name, exc.SQLAlchemyError(f"malformed text: {error}")) from error


def _is_read_only(url: URL) -> bool:
    """Return True for the file of a SQLite database that this process can read and not write."""
    if url.get_backend_name() != "sqlite" or not url.database or "mode" in url.query:
        return False
    file = Path(url.database)
    # SQLite also writes a journal beside the file.
    return file.is_file() and not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK | os.X_OK))


def _for_reading(url: URL) -> URL:
    return url.set(database=f"file:{quote(str(url.database))}", query={"mode": "ro", "uri": "true"})


def create_together(create: Callable[[], None]) -> None:
    """Create what is missing, though another process may create the same at the same time.

    Whoever looks before and creates after the other finds it there already, and looks again.
    """
    for attempt in range(_CREATE_ATTEMPTS):
        try:
            create()
        except (exc.OperationalError, exc.ProgrammingError, exc.IntegrityError) as error:
            if attempt == _CREATE_ATTEMPTS - 1 or not any(
                said in str(error).lower() for said in ("exists", "duplicate")
            ):
                raise
            time.sleep(0.05 * (attempt + 1))
        else:
            return


def explain_database_error(name: str, error: exc.SQLAlchemyError) -> CepError:
    """Return the error to raise for a failure of the catalog's database `name`."""
    text = str(getattr(error, "orig", None) or error).strip()
    lower = text.lower()
    if "database is locked" in lower:
        return BusyError(
            f"catalog {name}: another process has kept it locked for {SQLITE_WAIT_S:.0f} s. Nothing that is published "
            "has changed; wait for it, or stop it, and run again"
        )
    if "disk is full" in lower or "no space left" in lower:
        return CepError(
            f"catalog {name}: the disk is full. Nothing that is published has changed; free some space and run again"
        )
    if "not a database" in lower or "malformed" in lower:
        return InputError(
            f"catalog {name}: the file is damaged or no SQLite database ({text}); put it back from a backup, "
            "make it anew by `cep restore --replace`, or name another warehouse location"
        )
    if "readonly" in lower or "unable to open" in lower or "permission denied" in lower:
        return InputError(
            f"catalog {name}: it cannot be opened for writing ({text}); give this user write access to the warehouse. "
            "Commands that only read, such as `cep matches` and `cep status`, need none"
        )
    if isinstance(error, exc.OperationalError) and not name.startswith("sqlite"):
        return InputError(f"catalog {name}: the database cannot be reached or refuses: {text}; check address and login")
    return CepError(f"catalog {name}: {text}")


def without_password(uri: str) -> str:
    """Return the address of a database as it may be told."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", uri)
