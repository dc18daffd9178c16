"""The file ``contexts.sqlite`` of a folder: the texts of its contexts, and which KV chunks they use.

What it holds of a context or a chunk is sealed (:mod:`.sealing`), so that a change by anything but this
module is found: names and header of a context, every record of its text, and their number.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agentrt.private_database import PrivateDatabase

from .chunks import HASH_BYTES, ChunkLocation, pack_locations, unpack_locations
from .sealing import SealBrokenError, sealer
from .usage import StoredEntry

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
            seal = self.sealer(file.encode())
            try:
                app, _, entries = seal.unseal(sealed, b"chunks").partition(b"\n")
            except SealBrokenError:
                continue
            found[file] = list(unpack_locations(json.loads(app), file, entries, seal.overhead))
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


def _place(place: int) -> bytes:
    return b"text" + place.to_bytes(8, "little")
