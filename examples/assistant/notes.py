"""Notes in one SQLite database with a full-text index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentrt.errors import ConfigurationError

from . import search
from .errors import ToolError

_TITLE_WORDS = 6
_COLUMNS = "id, coalesce(title, 'untitled'), coalesce(text, '')"  # other programs may leave them out


@dataclass(frozen=True)
class Note:
    """One note; ``id`` looks like ``n3``."""

    id: str
    title: str
    text: str


class Notes:
    """The notes in ``path``, which is created if it does not exist.

    Every operation opens its own connection, because calls come from worker threads. The database is in
    WAL mode: a process that is killed leaves every saved note readable and nothing half written.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the database; :class:`ConfigurationError` if the file is something else."""
        self.path = path
        try:
            with self._connection() as connection:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS notes "
                    "(id INTEGER PRIMARY KEY, title TEXT NOT NULL, text TEXT NOT NULL)"
                )
                connection.execute("SELECT id, title, text FROM notes LIMIT 0")
                search.create_index(connection, "notes_index", content="notes")
                indexed = connection.execute("SELECT count(*) FROM notes_index_docsize").fetchone()
                if indexed != connection.execute("SELECT count(*) FROM notes").fetchone():
                    # The notes of a database that another program made.
                    connection.execute("INSERT INTO notes_index(notes_index) VALUES ('rebuild')")
                # Kept equal by the database itself, so that other programs may write notes, too.
                connection.executescript(
                    """
                    CREATE TRIGGER IF NOT EXISTS note_added AFTER INSERT ON notes BEGIN
                        INSERT INTO notes_index(rowid, title, text) VALUES (new.id, new.title, new.text);
                    END;
                    CREATE TRIGGER IF NOT EXISTS note_removed AFTER DELETE ON notes BEGIN
                        INSERT INTO notes_index(notes_index, rowid, title, text)
                        VALUES ('delete', old.id, old.title, old.text);
                    END;
                    CREATE TRIGGER IF NOT EXISTS note_changed AFTER UPDATE ON notes BEGIN
                        INSERT INTO notes_index(notes_index, rowid, title, text)
                        VALUES ('delete', old.id, old.title, old.text);
                        INSERT INTO notes_index(rowid, title, text) VALUES (new.id, new.title, new.text);
                    END;
                    """
                )
        except sqlite3.DatabaseError as error:
            raise ConfigurationError(
                f"{path} is not a notes database ({error}). Give an SQLite file with a table "
                "notes(id INTEGER PRIMARY KEY, title TEXT, text TEXT)."
            ) from error

    def create(self, text: str, title: str | None = None) -> Note:
        """Save a note; its title is by default its first words."""
        title = title or " ".join(text.split()[:_TITLE_WORDS])
        with self._connection() as connection:
            row = connection.execute("INSERT INTO notes(title, text) VALUES (?, ?)", (title, text)).lastrowid
        return Note(f"n{row}", title, text)

    def read(self, note_id: str) -> Note:
        """The note with that id; :class:`ToolError` if there is none."""
        with self._connection() as connection:
            row = connection.execute(
                f"SELECT {_COLUMNS} FROM notes WHERE id = ?", (note_id.strip().removeprefix("n"),)
            ).fetchone()
        if row is None:
            raise ToolError(f"no note with id {note_id}")
        return Note(f"n{row[0]}", row[1], row[2])

    def search(self, query: str, limit: int = 3) -> list[Note]:
        """The notes that match best, see :mod:`.search`."""
        with self._connection() as connection:
            ids = search.rank(connection, "notes_index", query, limit)
        return [self.read(f"n{row}") for row in ids]

    def all(self) -> list[Note]:
        """Every note, oldest first."""
        with self._connection() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM notes ORDER BY id").fetchall()
        return [Note(f"n{row[0]}", row[1], row[2]) for row in rows]

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path)
        try:
            with connection:  # commits, or rolls back on an error
                yield connection
        finally:
            connection.close()
