"""The file ``contexts.sqlite`` of a folder: the texts of its contexts, and which KV chunks they use.

Changes hold one lock, and errors of files and of SQLite are errors of the store.

What it holds of a context or a chunk is sealed (:mod:`.sealing`), so that a change by anything but this
module is found: names and header of a context, every record of its text, and their number.
"""

from __future__ import annotations

import errno
import json
import secrets
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agentrt.errors import AgentRTError, ContextStoreError, RuntimeClosedError
from agentrt.own_files import NotAFileError
from agentrt.private_database import DatabaseProblem, PrivateDatabase, problem_of

from .chunk_files import HASH_BYTES, ChunkLocation, pack_locations, unpack_locations
from .sealing import SealBrokenError, sealer

_NO_SPACE: Final = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
NAME: Final = "contexts.sqlite"
_APPLICATION_ID: Final = 0x41525443
"""``ARTC``"""
_VERSION: Final = 1
_TIMEOUT_S: Final = 5.0
_NUMBER_BYTES: Final = 16
_STATE: Final = struct.Struct("<qq")
_TABLES: Final = """
CREATE TABLE setting (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE context (
    id INTEGER PRIMARY KEY, number BLOB NOT NULL, identity BLOB NOT NULL, state BLOB NOT NULL);
CREATE TABLE turn (
    context INTEGER NOT NULL REFERENCES context ON DELETE CASCADE, place INTEGER NOT NULL,
    record BLOB NOT NULL, PRIMARY KEY (context, place));
CREATE TABLE chunk_file (file TEXT PRIMARY KEY, chunks BLOB NOT NULL);
CREATE TABLE chunk_use (
    id INTEGER PRIMARY KEY, context INTEGER NOT NULL REFERENCES context ON DELETE CASCADE,
    hashes BLOB NOT NULL);
CREATE INDEX chunk_use_by_context ON chunk_use (context);
"""


@dataclass(eq=False)
class StoredEntry:
    """What a store knows of a context without reading it. Changes hold the lock of the store."""

    row: int
    """The id of its row in the database."""
    number: bytes
    """Drawn at its creation, for its seal."""
    app: str
    """The app that it belongs to."""
    id: str
    """Its name within the app."""
    header: Mapping[str, Any]
    """What it was created with."""
    records: int
    """How many its text has."""
    used_ns: int
    """When it was used last."""
    text_bytes: int
    stamped_ns: int = 0
    """``used_ns`` as the database has it."""
    hashes: dict[bytes, None] = field(default_factory=dict)
    """The chunks that it uses, in the order in which it began to; some may be gone."""
    deleted: bool = False
    """Whether it was deleted, or removed because its text is damaged."""


class DamagedRowError(Exception):
    """A context, or its text, is not what was written."""


class ContextDatabase(PrivateDatabase):
    """The rows of settings, contexts, texts, files of chunks and their uses. Thread-safe.

    Statements that write, and the methods from :meth:`add_context` on, belong into :meth:`change`. Of KV
    nothing needs to be synced: it can be recomputed.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or create it; see :class:`PrivateDatabase`."""
        super().__init__(
            path, _TABLES, application_id=_APPLICATION_ID, version=_VERSION, timeout_s=_TIMEOUT_S
        )
        self.execute("PRAGMA foreign_keys = ON")
        self.sealer = sealer(None)
        """Seals by the key of the store, once that is known."""
        self._refusing = False

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Have one change of the store at a time; the thread that makes it may make another one within.

        Raises:
            RuntimeClosedError: the store was closed, which its runtime does when it is.
            ContextStoreError: the block raised an error of a file or of SQLite.
        """
        with self._lock:
            if self._refusing:
                raise RuntimeClosedError
            with disk_errors(self.path.parent):
                yield

    def refuse_changes(self) -> bool:
        """Wait for the change under way, and refuse all later ones; return whether any were allowed."""
        with self._lock:
            allowed, self._refusing = not self._refusing, True
            return allowed

    def setting(self, name: str) -> Any:
        """Return a setting, or None."""
        found = self.execute("SELECT value FROM setting WHERE name = ?", (name,))
        return found[0][0] if found else None

    def contexts(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of each :class:`StoredEntry`; of a damaged one ``row`` and ``number``."""
        lengths = dict(self.execute("SELECT context, sum(length(record)) FROM turn GROUP BY context"))
        for id, number, identity, state in self.execute("SELECT * FROM context"):
            seal = self.sealer(number)
            found = {"row": id, "number": number}
            try:
                found |= json.loads(seal.unseal(identity, b"identity"))
                found["records"], found["used_ns"] = _STATE.unpack(seal.unseal(state, b"state"))
            except SealBrokenError:
                yield {"row": id, "number": number}
                continue
            text_bytes = len(identity) + lengths.get(id, 0)
            yield {**found, "text_bytes": text_bytes, "stamped_ns": found["used_ns"]}

    def read_records(self, entry: StoredEntry) -> list[bytes]:
        """Return the records of a text.

        Raises:
            DamagedRowError: they are not what was written.
        """
        rows = self.execute("SELECT record FROM turn WHERE context = ? ORDER BY place", (entry.row,))
        if len(rows) != entry.records:
            raise DamagedRowError
        seal = self.sealer(entry.number)
        try:
            return [seal.unseal(record, _place(place)) for place, (record,) in enumerate(rows)]
        except SealBrokenError:
            raise DamagedRowError from None

    def files(self) -> dict[str, list[ChunkLocation]]:
        """Return the chunks of each file, but for files whose row is damaged."""
        found = {}
        for file, sealed in self.execute("SELECT * FROM chunk_file"):
            try:
                unsealed = self.sealer(file.encode()).unseal(sealed, b"chunks")
            except SealBrokenError:
                continue
            app, _, entries = unsealed.partition(b"\n")
            found[file] = unpack_locations(json.loads(app), file, entries)
        return found

    def uses(self, entry: StoredEntry) -> dict[bytes, None]:
        """Return the hashes of the chunks that a context uses, in the order in which it began to."""
        found: dict[bytes, None] = {}
        seal = self.sealer(entry.number)
        rows = self.execute("SELECT hashes FROM chunk_use WHERE context = ? ORDER BY id", (entry.row,))
        for (sealed,) in rows:
            try:
                hashes = seal.unseal(sealed, b"hashes")
            except SealBrokenError:
                continue
            found |= dict.fromkeys(hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES))
        return found

    def new_identity(self, app: str, context_id: str, header: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """Return a number for a context, and what it is created with, sealed.

        Raises:
            TypeError, ValueError: the header cannot be written as JSON.
        """
        identity = {"app": app, "id": context_id, "header": header}
        number = secrets.token_bytes(_NUMBER_BYTES)
        text = json.dumps(identity, allow_nan=False).encode("ascii")
        return number, self.sealer(number).seal(text, b"identity")

    def add_context(self, number: bytes, identity: bytes, used_ns: int) -> int:
        """Add a context without text; return the id of its row."""
        state = self._state(number, 0, used_ns)
        (added,) = self.execute(
            "INSERT INTO context (number, identity, state) VALUES (?, ?, ?) RETURNING id",
            (number, identity, state),
        )
        id: int = added[0]
        return id

    def cost(self, records: Sequence[bytes]) -> int:
        """Return the bytes that records of a text take."""
        return sum(len(record) + self.sealer(b"").overhead for record in records)

    def stamp(self, entry: StoredEntry, records: int | None = None) -> None:
        """Keep when a context was used last, and how many records its text has, if that has changed."""
        count = entry.records if records is None else records
        state = self._state(entry.number, count, entry.used_ns)
        self.execute("UPDATE context SET state = ? WHERE id = ?", (state, entry.row))

    def write_records(self, entry: StoredEntry, first: int, records: Sequence[bytes]) -> int:
        """Make ``records`` those of a text from place ``first`` on; return the bytes that it grows by."""
        removed = self.execute(
            "DELETE FROM turn WHERE context = ? AND place >= ? RETURNING length(record)", (entry.row, first)
        )
        seal = self.sealer(entry.number)
        sealed = [seal.seal(record, _place(place)) for place, record in enumerate(records, first)]
        for place, record in enumerate(sealed, first):
            self.execute("INSERT INTO turn VALUES (?, ?, ?)", (entry.row, place, record))
        self.stamp(entry, first + len(records))
        removed_bytes: int = sum(length for (length,) in removed)
        return sum(map(len, sealed)) - removed_bytes

    def write_file(self, locations: Sequence[ChunkLocation]) -> None:
        """Add a file of these chunks, or note that it has no others any more."""
        app, file = json.dumps(locations[0].app).encode("ascii"), locations[0].file
        sealed = self.sealer(file.encode()).seal(app + b"\n" + pack_locations(locations), b"chunks")
        self.execute("INSERT OR REPLACE INTO chunk_file VALUES (?, ?)", (file, sealed))

    def add_uses(self, entry: StoredEntry, hashes: Sequence[bytes]) -> None:
        """Note that a context uses chunks."""
        sealed = self.sealer(entry.number).seal(b"".join(hashes), b"hashes")
        self.execute("INSERT INTO chunk_use (context, hashes) VALUES (?, ?)", (entry.row, sealed))

    def _state(self, number: bytes, records: int, used_ns: int) -> bytes:
        return self.sealer(number).seal(_STATE.pack(records, used_ns), b"state")


def is_full(error: Exception) -> bool:
    """Return whether an error is that there is no space."""
    if isinstance(error, sqlite3.Error):
        return problem_of(error) is DatabaseProblem.FULL
    return isinstance(error, OSError) and error.errno in _NO_SPACE


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Raise errors of the disk in the block, and of SQLite, as :class:`ContextStoreError`."""
    try:
        yield
    except AgentRTError:
        raise
    except NotAFileError as error:
        raise ContextStoreError(
            f"{error.strerror}, and the contexts in {folder} need one there. Move it away, or use "
            "another folder."
        ) from error
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ContextStoreError(
            f"the contexts in {folder} cannot be read or written ({reason}). What was stored before is "
            "kept. Make the folder writable or free disk space, or use another folder."
        ) from error


def _place(place: int) -> bytes:
    return b"text" + place.to_bytes(8, "little")
