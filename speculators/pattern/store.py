"""The pattern speculator's store: one SQLite file that only its owner can read."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentrt.errors import HistoryCorruptError, HistoryLockedError, HistoryStoreError

from .memory import ParameterStats, PatternMemory
from .weights import Weight

_APPLICATION_ID = 0x41525450  # "ARTP", the file format's id in the SQLite header
_VERSION = 1
_LOCK_TIMEOUT_S = 0.5
_MAX_ROWS = 120_000
_TABLES = """
CREATE TABLE IF NOT EXISTS weights (
    feature INTEGER PRIMARY KEY, value REAL NOT NULL, squares REAL NOT NULL, used INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS places (
    tool TEXT NOT NULL, parameter TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (tool, parameter));
CREATE TABLE IF NOT EXISTS followers (call INTEGER PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS years (year TEXT PRIMARY KEY, count INTEGER NOT NULL);
"""


class HistoryStore:
    """The file of a :class:`PatternMemory`.

    It belongs to one thread. Several processes may use the same file: the last write of a row wins. It holds
    digests of features with their weights, names of tools and parameters, shapes of arguments, and those
    arguments that came more than once; nothing else of the messages and tool results.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or create it, readable and writable by its owner only.

        Raises:
            HistoryCorruptError: the file is damaged, or is not a store of this version.
            HistoryLockedError: another process holds the file.
            HistoryStoreError: the file belongs to another user, or cannot be created.
        """
        self._path = path
        _secure(path)
        with self._translated():
            self._connection = sqlite3.connect(
                path, timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
        try:
            with self._translated():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def load(self, memory: PatternMemory) -> None:
        """Fill an empty memory with the contents of the file."""
        with self._translated():
            weights = memory.weights
            for feature, value, squares, used in self._connection.execute("SELECT * FROM weights"):
                weights.learned[feature] = Weight(value, squares, used)
                weights.step = max(weights.step, used)
            for tool, parameter, content in self._connection.execute("SELECT * FROM places"):
                memory.parameters[tool, parameter] = _stats_of(content)
            for call, content in self._connection.execute("SELECT * FROM followers"):
                memory.followers[call] = Counter({int(k): int(n) for k, n in json.loads(content).items()})
            memory.years.update(dict(self._connection.execute("SELECT * FROM years").fetchall()))

    def save(self, memory: PatternMemory) -> None:
        """Write what has changed since the last time, in one transaction."""
        weights = memory.weights
        changed = [
            (digest, weight.value, weight.squares, weight.used)
            for digest in weights.changed
            if (weight := weights.learned.get(digest)) is not None
        ]
        parameters = [(*at, _content_of(memory.parameters[at])) for at in memory.changed_parameters]
        followers = [(call, json.dumps(memory.followers[call])) for call in memory.changed_followers]
        with self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                put = self._connection.executemany
                put("INSERT OR REPLACE INTO weights VALUES (?, ?, ?, ?)", changed)
                put("INSERT OR REPLACE INTO places VALUES (?, ?, ?)", parameters)
                put("INSERT OR REPLACE INTO followers VALUES (?, ?)", followers)
                put("INSERT OR REPLACE INTO years VALUES (?, ?)", memory.years.most_common(8))
                self._connection.execute(
                    "DELETE FROM weights WHERE feature IN (SELECT feature FROM weights ORDER BY used DESC "
                    "LIMIT -1 OFFSET ?)",
                    (_MAX_ROWS,),
                )
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
        weights.changed.clear()
        memory.changed_parameters.clear()
        memory.changed_followers.clear()

    def clear(self) -> None:
        """Delete everything, also from the file's free pages."""
        with self._translated():
            for table in ("weights", "places", "followers", "years"):
                self._connection.execute(f"DELETE FROM {table}")
            self._connection.execute("VACUUM")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _prepare(self) -> None:
        execute = self._connection.execute
        application, version = (
            execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        tables = execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and (application, version) != (_APPLICATION_ID, _VERSION):
            raise HistoryCorruptError(
                f"{self._path} is a database, but not a history of this version. Name another file."
            )
        if tables and execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise HistoryCorruptError(f"{self._path} is damaged. Move it away and start with a new one.")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        execute("PRAGMA secure_delete = ON")
        if not tables:
            self._connection.executescript(_TABLES)
            execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            execute(f"PRAGMA user_version = {_VERSION}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, ValueError, KeyError, TypeError, AttributeError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise HistoryLockedError(
                    f"{self._path} is held by another process. Try again, or name another file."
                ) from error
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise HistoryCorruptError(
                    f"{self._path} is damaged ({error}). Move it away and start with a new one."
                ) from error
            raise HistoryStoreError(f"{self._path}: {error}. Check the disk and the folder.") from error


def _secure(path: Path) -> None:
    """Create the file if it is missing; make sure that it is the user's own and readable by no one else."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        raise HistoryStoreError(
            f"{path} cannot be opened: {error.strerror}. Name a file that you may write."
        ) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
            raise HistoryStoreError(f"{path} is not a regular file that you own. Name another file.")
        if hasattr(os, "fchmod") and stat.S_IMODE(found.st_mode) != 0o600:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _content_of(stats: ParameterStats) -> str:
    return json.dumps([stats.shapes, stats.types, stats.constants, stats.seen, stats.places])


def _stats_of(content: str) -> ParameterStats:
    shapes, types, constants, seen, *places = json.loads(content)  # the first files have no places
    for key in constants:
        json.loads(key)
    return ParameterStats(
        Counter(shapes),
        Counter(types),
        Counter(constants),
        Counter({int(k): n for k, n in seen.items()}),
        Counter(*places),
    )
