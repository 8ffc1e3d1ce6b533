"""The database: one SQLite file (WAL), a connection a thread, one writer at a time.

Each package owns its tables and its append-only migrations, and hands them in as `Migrations` of
sqlite-utils. Money and holds are written with synchronous=FULL. A database with migrations that this
version does not know is refused; an older one is migrated.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlite_utils
from sqlite_utils.migrations import Migrations

from fleet.errors import BadInput, Unavailable

BUSY_TIMEOUT_MS = 5_000


class Database:
    """A file under `$QM_DATA_DIR` (or ":memory:" for tests, then shared by all threads of this object)."""

    def __init__(self, path: Path | str, migrations: Sequence[Migrations] = ()) -> None:
        self.path = str(path)
        self._local = threading.local()
        self._writer = threading.RLock()
        self._memory = (
            sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
            if self.path == ":memory:"
            else None
        )
        self._open: list[sqlite3.Connection] = []
        self.migrate(migrations)

    def _connection(self) -> sqlite3.Connection:
        if self._memory is not None:
            return self._memory
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            try:
                connection = sqlite3.connect(
                    self.path, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_MS / 1000
                )
                connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.Error as error:
                raise Unavailable(f"The database {self.path} cannot be opened: {error}.") from error
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
            self._local.connection = connection
            self._open.append(connection)
        return connection

    def migrate(self, migrations: Sequence[Migrations]) -> None:
        """Apply what is pending, in one transaction; refuse a database that is newer than this program."""
        if not migrations:
            return
        with self.transaction() as connection:
            wrapped = sqlite_utils.Database(connection)
            for group in migrations:
                everything = {m.name for m in group._migrations}
                unknown = sorted({m.name for m in group.applied(wrapped)} - everything)
                if unknown:
                    raise BadInput(
                        f"{self.path} was written by a newer version (it knows {group.name}: {', '.join(unknown)}).",
                        hint="Upgrade quartermaster, or restore a backup of the older version.",
                    )
                group.apply(wrapped)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One writer at a time, BEGIN IMMEDIATE, committed at the end or rolled back. Nested ones join."""
        with self._writer:
            connection = self._connection()
            if connection.in_transaction:
                yield connection
                return
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                raise Unavailable(f"The database {self.path} is locked or unwritable: {error}.") from error
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def rows(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[dict[str, Any]]:
        """All rows of a query as dicts."""
        lock = self._writer if self._memory is not None else _NO_LOCK
        with lock:
            cursor = self._connection().execute(sql, parameters)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def row(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> dict[str, Any] | None:
        """The first row, or None."""
        found = self.rows(sql, parameters)
        return found[0] if found else None

    def backup(self, path: Path) -> None:
        """An online copy of the whole database, consistent."""
        target = sqlite3.connect(path)
        try:
            self._connection().backup(target)
        finally:
            target.close()

    def close(self) -> None:
        """Close every thread's connection."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        if self._memory is not None:
            self._memory.close()


class _NoLock:
    def __enter__(self) -> None:
        """Nothing to take: readers of a file have their own connection."""

    def __exit__(self, *_: object) -> None:
        """Nothing to give back."""


_NO_LOCK = _NoLock()
