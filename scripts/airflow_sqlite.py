"""How Airflow's processes share one SQLite file: each waits for the others, and none loses what it has begun to write.

A transaction of SQLite that has read cannot write once another process has written: `database is locked` at once,
however long it would wait. Airflow begins some with a savepoint and a read, those of a backfill among them. Here they
begin as writers, which wait for one another (https://www.sqlite.org/lang_transaction.html, section 2.2).
"""

from __future__ import annotations

import sqlite3
from typing import Any

WAIT_S = 60.0
"""Seconds to wait for another process that writes; Python's own limit is five."""


class _Cursor(sqlite3.Cursor):
    def execute(self, sql: str, *parameters: Any) -> _Cursor:
        if sql.startswith("SAVEPOINT") and not self.connection.in_transaction:
            super().execute("BEGIN IMMEDIATE")
        super().execute(sql, *parameters)
        return self


class WaitingConnection(sqlite3.Connection):
    """A connection whose transactions with a savepoint write from their beginning."""

    def cursor(self, factory: type[sqlite3.Cursor] = _Cursor) -> sqlite3.Cursor:
        """Return a cursor of this connection."""
        return super().cursor(factory)


CONNECT_ARGUMENTS = {"timeout": WAIT_S, "factory": WaitingConnection}
"""The value of Airflow's `[database] sql_alchemy_connect_args` and `sql_alchemy_connect_args_async`."""
