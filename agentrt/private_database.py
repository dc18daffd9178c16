"""SQLite files that only their user can read: opened and checked, and changed in transactions."""

from __future__ import annotations

import enum
import itertools
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from .own_files import make_private_file


class DatabaseProblem(enum.Enum):
    """Why SQLite has failed, as far as its callers tell problems apart."""

    LOCKED = "locked"
    """Another connection holds the file."""
    DAMAGED = "damaged"
    """The file is no database, or its structure is broken."""
    FULL = "full"
    """There is no space for a change, which was undone."""
    OTHER = "other"


class OtherFormatError(Exception):
    """The file is a database of another program or version, and unchanged."""


def problem_of(error: sqlite3.Error) -> DatabaseProblem:
    """Return what an error of SQLite means."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the rest are details
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseProblem.LOCKED
    # The last is of a header with a schema format that no SQLite writes, and has no code of its own.
    damaged = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    if damaged or "unsupported file format" in str(error):
        return DatabaseProblem.DAMAGED
    return DatabaseProblem.FULL if code == sqlite3.SQLITE_FULL else DatabaseProblem.OTHER


class PrivateDatabase:
    """One SQLite file in WAL mode, with one connection for all threads. Thread-safe.

    What was committed survives the end of the process; it survives a power failure, too, if the change was
    synced. Deleted rows are overwritten in the file; the log has them until it is written to the file.
    """

    def __init__(
        self,
        path: Path,
        tables: str,
        *,
        application_id: int,
        version: int,
        timeout_s: float = 0.5,
        checked: bool = True,
    ) -> None:
        """Open the file, or create it with ``tables``, statements in SQL.

        ``application_id`` and ``version`` are kept in the file. ``timeout_s`` is how long to wait for other
        connections. Unless ``checked``, damage is found when it is reached only.

        Raises:
            NotAFileError: something else lies there, or a file of another user.
            OtherFormatError: it has another ``application_id`` or ``version``.
            sqlite3.Error: it is damaged, held by another connection, or cannot be read or written.
            OSError: it cannot be created.
        """
        make_private_file(path)
        self.path: Final = path
        self._inode = path.stat().st_ino
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(
            path, timeout=timeout_s, isolation_level=None, check_same_thread=False
        )
        self._connection.text_factory = lambda text: text.decode(errors="replace")  # of damaged rows
        try:
            self._prepare(tables, application_id, version, checked)
        except UnicodeDecodeError as error:  # of a damaged name, in the message of an error of SQLite
            self._connection.close()
            raise _damaged() from error
        except BaseException:
            self._connection.close()
            raise

    @contextmanager
    def change(self, *, synced: bool = True, erase: bool = False) -> Iterator[sqlite3.Connection]:
        """Commit what the block changes, or undo all of it if it raises.

        With ``synced`` it is on the device then. With ``erase`` it is, too, and what the block has deleted is
        overwritten.

        Raises:
            FileNotFoundError: another program has moved or deleted the file.
            sqlite3.Error: it cannot be read or written; nothing was changed.
        """
        with self._lock:
            if self.path.stat().st_ino != self._inode:
                raise FileNotFoundError(2, f"{self.path} was replaced by another program", str(self.path))
            execute = self._connection.execute
            execute(f"PRAGMA synchronous = {'FULL' if synced and not erase else 'NORMAL'}")
            execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                execute("COMMIT")
                if erase:  # which syncs the log, writes it to the file, and empties it
                    execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except BaseException as error:
                if self._connection.in_transaction:
                    execute("ROLLBACK")
                if _is_read_only(error) and os.access(self.path, os.W_OK):
                    raise _damaged() from error  # its header has a version that SQLite only reads
                raise

    def execute(self, statement: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows. Statements that write belong into :meth:`change`.

        Raises:
            sqlite3.Error: the file cannot be read or written.
        """
        with self._lock:
            return self._connection.execute(statement, arguments).fetchall()

    def close(self) -> None:
        """Close the file. May be called again."""
        with self._lock:
            self._connection.close()

    def _prepare(self, tables: str, application_id: int, version: int, checked: bool) -> None:
        execute = self._connection.execute
        found = tuple(execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        is_new = not execute("SELECT 1 FROM sqlite_master").fetchone()
        if not is_new and found != (application_id, version):
            raise OtherFormatError
        if not is_new and _schema_of(self._connection) != _schema(tables):
            raise _damaged()
        if checked and execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise _damaged()
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA secure_delete = ON")
        if is_new:
            settings = f"PRAGMA application_id = {application_id}; PRAGMA user_version = {version};"
            self._connection.executescript(f"BEGIN IMMEDIATE; {settings} {tables} COMMIT;")


def set_aside(path: Path) -> Path:
    """Rename a database that is not used any more to ``NAME.refused-1`` and so on; return the new name.

    Raises:
        OSError: it cannot be renamed.
    """
    aside = unused_name(path)
    for suffix in ("-wal", ""):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    return aside


def unused_name(path: Path) -> Path:
    """Return a name for what is set aside: that of ``path`` with ``.refused-1`` and so on."""
    names = (path.with_name(f"{path.name}.refused-{number}") for number in itertools.count(1))
    return next(name for name in names if not os.path.lexists(name))


def _schema(tables: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(tables)
        return _schema_of(database)


def _schema_of(database: sqlite3.Connection) -> list[tuple[str, ...]]:
    return database.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def _is_read_only(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY


def _damaged() -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error
