"""What the assistant has learned about each file of a folder, kept across runs in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

Version = tuple[int, int]
"""A file's modification time in nanoseconds and its size in bytes."""


class FolderIndex:
    """One summary per file and version; each is committed as it comes, so that a killed run goes on there."""

    def __init__(self, path: Path) -> None:
        """Open or create the index at ``path``."""
        self.path = path
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS summaries (path TEXT PRIMARY KEY, modified_ns INTEGER NOT NULL, "
                "bytes INTEGER NOT NULL, summary TEXT NOT NULL)"
            )

    def outdated(self, versions: Mapping[str, Version]) -> list[str]:
        """The paths in ``versions`` that have no summary of that version."""
        with closing(sqlite3.connect(self.path)) as connection:
            rows = connection.execute("SELECT path, modified_ns, bytes FROM summaries").fetchall()
        known = {path: (modified, size) for path, modified, size in rows}
        return [path for path, version in versions.items() if known.get(path) != version]

    def store(self, path: str, version: Version, summary: str) -> None:
        """Keep the summary of one version of a file, instead of an older one."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(
                "INSERT OR REPLACE INTO summaries VALUES (?, ?, ?, ?)", (path, *version, summary)
            )

    def summaries(self) -> dict[str, str]:
        """Every summary by path."""
        with closing(sqlite3.connect(self.path)) as connection:
            return dict(connection.execute("SELECT path, summary FROM summaries ORDER BY path").fetchall())
