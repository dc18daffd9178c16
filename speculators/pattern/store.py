"""The pattern speculator's store: one SQLite file that only its owner can read."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentrt.errors import HistoryCorruptError, HistoryLockedError, HistoryStoreError
from agentrt.private_database import DatabaseProblem, OtherFormatError, PrivateDatabase, problem_of

from .memory import ParameterStats, PatternMemory
from .weights import Weight

_APPLICATION_ID = 0x41525450  # "ARTP", the file format's id in the SQLite header
_VERSION = 1
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
        with self._translated():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._database = PrivateDatabase(path, _TABLES, application_id=_APPLICATION_ID, version=_VERSION)

    def load(self, memory: PatternMemory) -> None:
        """Fill an empty memory with the contents of the file."""
        with self._translated():
            weights = memory.weights
            for feature, value, squares, used in self._database.execute("SELECT * FROM weights"):
                weights.learned[feature] = Weight(value, squares, used)
                weights.step = max(weights.step, used)
            for tool, parameter, content in self._database.execute("SELECT * FROM places"):
                memory.parameters[tool, parameter] = _stats_of(content)
            for call, content in self._database.execute("SELECT * FROM followers"):
                memory.followers[call] = Counter({int(k): int(n) for k, n in json.loads(content).items()})
            memory.years.update(dict(self._database.execute("SELECT * FROM years")))

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
        with self._translated(), self._database.change(synced=False) as change:
            change.executemany("INSERT OR REPLACE INTO weights VALUES (?, ?, ?, ?)", changed)
            change.executemany("INSERT OR REPLACE INTO places VALUES (?, ?, ?)", parameters)
            change.executemany("INSERT OR REPLACE INTO followers VALUES (?, ?)", followers)
            change.executemany("INSERT OR REPLACE INTO years VALUES (?, ?)", memory.years.most_common(8))
            change.execute(
                "DELETE FROM weights WHERE feature IN (SELECT feature FROM weights ORDER BY used DESC "
                "LIMIT -1 OFFSET ?)",
                (_MAX_ROWS,),
            )
        weights.changed.clear()
        memory.changed_parameters.clear()
        memory.changed_followers.clear()

    def clear(self) -> None:
        """Delete everything, also from the file's free pages and its log."""
        with self._translated():
            with self._database.change(erase=True) as change:
                for table in ("weights", "places", "followers", "years"):
                    change.execute(f"DELETE FROM {table}")
            self._database.execute("VACUUM")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OtherFormatError as error:
            raise HistoryCorruptError(
                f"{self._path} is a database, but not a history of this version. Name another file."
            ) from error
        except OSError as error:
            raise HistoryStoreError(
                f"{self._path} cannot be used: {error.strerror}. Name a file that you may write."
            ) from error
        except (sqlite3.Error, ValueError, KeyError, TypeError, AttributeError) as error:
            problem = problem_of(error) if isinstance(error, sqlite3.Error) else DatabaseProblem.DAMAGED
            if problem is DatabaseProblem.LOCKED:
                raise HistoryLockedError(
                    f"{self._path} is held by another process. Try again, or name another file."
                ) from error
            if problem is DatabaseProblem.DAMAGED:
                raise HistoryCorruptError(
                    f"{self._path} is damaged ({error}). Move it away and start with a new one."
                ) from error
            raise HistoryStoreError(f"{self._path}: {error}. Check the disk and the folder.") from error


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
