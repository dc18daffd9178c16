"""Where the pattern speculator keeps what it has learned: one SQLite file, for its owner's eyes only."""

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

from .memory import Memory, Place
from .weights import Weight

_APPLICATION = 0x41525450  # "ARTP", by which the file is known
_VERSION = 1
_PATIENCE_S = 0.5
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
    """The file. Belongs to one thread; several processes may keep the same one, the last write of a row wins.

    It holds digests of circumstances with their weights, tools' and parameters' names, shapes of arguments,
    and those arguments that came more than once; nothing else of what anyone said or a tool returned.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or create it, readable and writable by its owner only.

        Raises:
            HistoryCorruptError: the file is damaged, or it is no such history.
            HistoryLockedError: another process holds it.
            HistoryStoreError: it is somebody else's, or it cannot be created there.
        """
        self._path = path
        _secure(path)
        with self._translated():
            self._connection = sqlite3.connect(
                path, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
            )
        try:
            with self._translated():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def load(self, memory: Memory) -> None:
        """Fill an empty memory with what was kept."""
        with self._translated():
            weights = memory.weights
            for feature, value, squares, used in self._connection.execute("SELECT * FROM weights"):
                weights.learned[feature] = Weight(value, squares, used)
                weights.now = max(weights.now, used)
            for tool, parameter, content in self._connection.execute("SELECT * FROM places"):
                memory.places[tool, parameter] = _place_of(content)
            for call, content in self._connection.execute("SELECT * FROM followers"):
                memory.followers[call] = Counter({int(k): int(n) for k, n in json.loads(content).items()})
            memory.years.update(dict(self._connection.execute("SELECT * FROM years").fetchall()))

    def save(self, memory: Memory) -> None:
        """Keep what has changed since the last time, in one transaction."""
        weights = memory.weights
        moved = [
            (digest, weight.value, weight.squares, weight.used)
            for digest in weights.moved
            if (weight := weights.learned.get(digest)) is not None
        ]
        places = [(*at, _content_of(memory.places[at])) for at in memory.changed_places]
        followers = [(call, json.dumps(memory.followers[call])) for call in memory.changed_followers]
        with self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                put = self._connection.executemany
                put("INSERT OR REPLACE INTO weights VALUES (?, ?, ?, ?)", moved)
                put("INSERT OR REPLACE INTO places VALUES (?, ?, ?)", places)
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
        weights.moved.clear()
        memory.changed_places.clear()
        memory.changed_followers.clear()

    def clear(self) -> None:
        """Forget everything, also in the file's free pages."""
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
        if tables and (application, version) != (_APPLICATION, _VERSION):
            raise HistoryCorruptError(
                f"{self._path} is a database, but no history of this version. Name another file."
            )
        if tables and execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise HistoryCorruptError(f"{self._path} is damaged. Move it away and start with a new one.")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        execute("PRAGMA secure_delete = ON")
        if not tables:
            self._connection.executescript(_TABLES)
            execute(f"PRAGMA application_id = {_APPLICATION}")
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
    """Make sure that the file is there, is the user's own, and is nobody else's to read."""
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
            raise HistoryStoreError(f"{path} is not a file of yours. Name one that is.")
        if hasattr(os, "fchmod") and stat.S_IMODE(found.st_mode) != 0o600:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _content_of(place: Place) -> str:
    return json.dumps([place.shapes, place.types, place.constants, place.seen])


def _place_of(content: str) -> Place:
    shapes, types, constants, seen = json.loads(content)
    for key in constants:
        json.loads(key)
    return Place(
        Counter(shapes), Counter(types), Counter(constants), Counter({int(k): n for k, n in seen.items()})
    )
