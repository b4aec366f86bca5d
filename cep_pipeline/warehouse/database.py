"""The catalog's database: what must change together with a table, and what two writers must agree on.

Beside Iceberg's own two tables it holds the leases, the record of every published unit (fingerprint, counts,
carry-out), the current plan of each pattern set, and the format version. The record of a unit is written in the
transaction that swaps the Iceberg table's metadata pointer, so that neither is ever there without the other.

A record carries a digest of its own row, since a database notices damage to its structure only. Records are written by
`insert_record` and `change_records`, and whoever reads one asks `checked_record` first.

On SQLite a transaction begins at its first writing statement, and from there on excludes all other writers; on
PostgreSQL a written row is locked until the end. Every transaction here therefore writes first what it relies on, and
reads after.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sql
from sqlalchemy import exc
from sqlalchemy.engine import URL, Connection, Engine, Row, make_url

from cep_pipeline.errors import FROM_A_BACKUP, BusyError, CepError, DamagedError, InputError
from cep_pipeline.storage import PRIVATE_FILE, digest_of
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
"""The leases that are held. `process` tells the process from others of its pid; rows of older versions have none."""
LEASES.append_column(sql.Column("process", _NAME))

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
    digest=sql.String(32),
)

REPLACED = sql.Table(
    "cep_replaced",
    _metadata,
    *(
        sql.Column(one.name, one.type, primary_key=one.primary_key or one.name == "snapshot_id", nullable=False)
        for one in PUBLISHED.c
    ),
)
"""Records of units that have been replaced: what `cep rollback` goes back to, as long as their snapshots are there."""

CURRENT_PLANS = _table(
    "cep_current_plans",
    ["stream", "pattern_set"],
    version=sql.BigInteger,
    changed_at=sql.Double,
    digest=sql.String(32),
)

SEALED = (PUBLISHED, REPLACED, CURRENT_PLANS)
"""The tables whose rows carry a digest of themselves."""

POINTERS = sql.table(
    "iceberg_tables",
    *(sql.column(name) for name in ("catalog_name", "table_namespace", "table_name", "metadata_location")),
)
"""Iceberg's own list of tables, which PyIceberg makes: where the present metadata of each table is."""

FILES = _table("cep_files", ["stream", "table_name", "path"], size=sql.BigInteger, sha256=sql.String(64))
"""The files that commits added, data and metadata: what was written. Paths are relative to the table's location."""

DAMAGES = _table("cep_damages", ["stream", "table_name", "path"], pattern_set=_NAME, day=sql.String(10), what=sql.Text)
"""Damaged data files of published units, as `cep verify` has found them; a commit that replaces one removes it."""


RECORDS = tuple(_metadata.sorted_tables)
"""All tables of the catalog's database that are not Iceberg's own."""


# -- records and their digests -----------------------------------------------------------------------------------------


def sealed(table: sql.Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a table with its digest. What a unit hands on has a digest of its own, which is part of it."""
    content = {
        column.name: float(row[column.name]) if isinstance(column.type, sql.Double) else row[column.name]
        for column in table.c
        if column.name not in ("carry_out", "digest")
    }
    return {**row, "digest": digest_of(content)}


def insert_record(connection: Connection, table: sql.Table, row: Mapping[str, Any]) -> None:
    """Write a row with its digest."""
    connection.execute(sql.insert(table), [sealed(table, row)])


def change_records(
    database: str,
    connection: Connection,
    table: sql.Table,
    chosen: Sequence[sql.ColumnElement[bool]],
    changes: Mapping[str, Any],
) -> int:
    """Change the chosen rows, and their digests with them; returns how many are chosen."""
    rows = connection.execute(sql.select(table).where(*chosen).with_for_update()).all()
    for row in rows:
        made = sealed(table, {**checked_record(database, table, row)._mapping, **changes})
        key = [column == row._mapping[column.name] for column in table.primary_key]
        connection.execute(sql.update(table).where(*key).values(**made))
    return len(rows)


def is_sound(table: sql.Table, row: Row[Any] | Mapping[str, Any]) -> bool:
    """Return True if a row is what its digest says."""
    content = row if isinstance(row, Mapping) else row._asdict()
    try:
        return bool(sealed(table, content)["digest"] == content["digest"])
    except (TypeError, ValueError, OverflowError):  # damage has made something else of a number
        return False


def checked_record(database: str, table: sql.Table, row: Row[Any]) -> Row[Any]:
    """Return a row that is what its digest says; any other row is a DamagedError that says what to do."""
    if is_sound(table, row):
        return row
    what, remedy = _DAMAGED_RECORDS[table.name]
    named = {
        name: str(row._mapping[name]) for name in ("stream", "day", "table_name", "pattern_set") if name in row._mapping
    }
    of = " ".join(value for value in named.values() if value)
    raise DamagedError(f"catalog {database}", f"{what} of {of} is not what its digest says", remedy.format(**named))


_DAMAGED_RECORDS = {
    PUBLISHED.name: ("the record", "`cep run --stream {stream} --stale` makes it again"),
    REPLACED.name: ("an earlier record", FROM_A_BACKUP),
    CURRENT_PLANS.name: ("the record of the current plan", "`cep run --stream {stream}` takes the latest plan instead"),
}
"""Table -> the name of its records, and what mends one."""


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

    def is_sound(self) -> bool:
        """Return True if the records of units and current plans are what their digests say."""
        return all(
            is_sound(table, row)
            for table in (PUBLISHED, CURRENT_PLANS)
            for row in self.rows(sql.select(*(one for one in table.c if one.name != "carry_out")))
        )

    def location(self) -> str | None:
        """Return the location of the warehouse that the database belongs to; None where it is empty."""
        return self._settings().get("location")

    def _settings(self) -> dict[str, str]:
        with self.errors():
            self._create_tables()
        return {row.name: row.value for row in self.rows(sql.select(SETTINGS))}

    def _check_settings(self, location: str | None) -> None:
        found = self._settings()
        if not found:
            if location is None:
                return
            expected = {"format_version": str(FORMAT_VERSION), "location": location}
            try:
                with self.begin() as connection:
                    connection.execute(sql.insert(SETTINGS), [{"name": n, "value": v} for n, v in expected.items()])
            except CepError as error:
                if not isinstance(error.__cause__, exc.IntegrityError):
                    raise
                self._check_settings(location)  # another process has just written them
            return
        version = found.get("format_version", "")
        if not version.isdigit() or int(version) > FORMAT_VERSION:
            raise InputError(
                f"catalog {self.name}: it has format version {version}, and this version of cep-pipeline knows "
                f"{FORMAT_VERSION}; install the newer version that made it, or use another warehouse"
            )
        if int(version) < FORMAT_VERSION:
            if self.read_only:
                raise InputError(
                    f"catalog {self.name}: an older version of cep-pipeline made it, and it can only be read here; run "
                    "any command once, such as `cep status`, as a user who may write it"
                )
            self._add_digests()
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
        inspector = sql.inspect(self.engine)
        if self.read_only:
            return
        if not _metadata.tables.keys() <= set(inspector.get_table_names()):
            create_together(lambda: _metadata.create_all(self.engine))
        elif all(column["name"] != "process" for column in inspector.get_columns(LEASES.name)):
            create_together(self._add_process)

    def _add_process(self) -> None:
        """Give the leases of an older version the column that they lack."""
        if any(column["name"] == "process" for column in sql.inspect(self.engine).get_columns(LEASES.name)):
            return
        self._execute(sql.text(f"ALTER TABLE {LEASES.name} ADD COLUMN process VARCHAR(255)"))

    def _add_digests(self) -> None:
        """Give the records of an older version their digests; one that was killed here does it again."""
        inspector = sql.inspect(self.engine)
        with self.errors():
            for table in SEALED:
                if any(column["name"] == "digest" for column in inspector.get_columns(table.name)):
                    continue
                statement = sql.text(f"ALTER TABLE {table.name} ADD COLUMN digest VARCHAR(32)")
                create_together(partial(self._execute, statement))
        with self.begin() as connection:
            version = sql.update(SETTINGS).where(SETTINGS.c.name == "format_version")
            connection.execute(version.values(value=str(FORMAT_VERSION)))
            for table in SEALED:
                for row in connection.execute(sql.select(table)).all():
                    key = [column == row._mapping[column.name] for column in table.primary_key]
                    digest = sealed(table, row._asdict())["digest"]
                    connection.execute(sql.update(table).where(*key).values(digest=digest))

    def _execute(self, statement: sql.TextClause) -> None:
        with self.engine.begin() as connection:
            connection.execute(statement)


class _Connection(sqlite3.Connection):
    """A connection whose end is also that of what it was asked.

    A query that Ctrl-C broke off, of which the traceback still holds the cursor, would keep the file locked.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._asked = weakref.WeakSet[sqlite3.Cursor]()

    def cursor(self, *given: Any) -> Any:
        made = super().cursor(*given)
        self._asked.add(made)
        return made

    def rollback(self) -> None:
        self._end()
        super().rollback()

    def close(self) -> None:
        self._end()
        super().close()

    def _end(self) -> None:
        for cursor in list(self._asked):
            cursor.close()


def _reached(uri: str | URL) -> tuple[URL, Engine]:
    """Return the address of a database, and how it is reached from here; an InputError says that it is no address."""
    try:
        url = make_url(uri)
        waits = {"timeout": SQLITE_WAIT_S, "factory": _Connection} if url.get_backend_name() == "sqlite" else {}
        address = _for_reading(url) if _is_read_only(url) else url
        return url, sql.create_engine(address, connect_args=waits, pool_pre_ping=not waits)
    except (exc.ArgumentError, exc.NoSuchModuleError, ModuleNotFoundError) as error:
        raise InputError(
            f"catalog {without_password(str(uri))}: no usable database address: {error}; "
            "write it as postgresql+psycopg2://USER:PASSWORD@HOST:PORT/NAME, or leave it out for SQLite"
        ) from error


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
