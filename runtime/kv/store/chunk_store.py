"""The chunks of all contexts of a store, each once for all contexts of its app that use it.

All chunks can be recomputed: where space is short, those of the contexts that were used longest ago go first,
and a damaged one is forgotten. A file goes when no context uses a chunk in it: one ``unlink``, which works on
a full disk, too. The database follows; what it has of files that are gone is forgotten when it is opened.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

from agentrt.errors import ChunkDamagedError

from .chunk_files import Chunk, ChunkFiles, ChunkLocation
from .context_database import ContextDatabase, StoredEntry, is_full

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

Quota: TypeAlias = Literal["context_app_bytes", "context_disk_bytes"]
QUOTAS: Final[tuple[Quota, ...]] = ("context_app_bytes", "context_disk_bytes")
Quotas: TypeAlias = Mapping[Quota, int | None]
"""Bytes that contexts may take on disk, by the names of the settings; without limit where there is none."""


class Usage:
    """Entries of all contexts, and bytes by app. Changes hold the lock of the store."""

    def __init__(self, quotas: Quotas, clock: Callable[[], int]) -> None:
        """``clock`` returns nanoseconds since the epoch; it may go backwards."""
        self.quotas: Final = quotas
        self._clock = clock
        self._newest_ns = 0
        self.entries: set[StoredEntry] = set()
        self.text_bytes: Counter[str] = Counter()
        self.chunk_bytes: Counter[str] = Counter()

    def add(self, entry: StoredEntry) -> None:
        """Add a context with its text."""
        self.entries.add(entry)
        self._newest_ns = max(self._newest_ns, entry.used_ns)
        self.text_bytes[entry.app] += entry.text_bytes

    def next_ns(self) -> int:
        """Return the time of a use now. Times only grow, whatever the clock does."""
        self._newest_ns = max(self._clock(), self._newest_ns + 1)
        return self._newest_ns

    def exceeded(self, app: str, added: int, quotas: Iterable[Quota] = QUOTAS) -> Quota | None:
        """Return a quota that ``added`` more bytes of the app would exceed, or None."""
        for quota in quotas:
            limit, totals = self.quotas.get(quota), (self.text_bytes, self.chunk_bytes)
            is_app = quota == "context_app_bytes"
            used = sum(total[app] if is_app else total.total() for total in totals)
            if limit is not None and used + added > limit:
                return quota
        return None

    def oldest_with_chunks(self, quota: Quota, app: str, keep: StoredEntry | None) -> StoredEntry | None:
        """Return the context whose chunks count for a quota of the app and that was used longest ago."""
        found = (
            each
            for each in self.entries
            if each.hashes and each is not keep and (quota == "context_disk_bytes" or each.app == app)
        )
        return min(found, key=lambda each: each.used_ns, default=None)


class ChunkStore:
    """Where the chunks of each app are, in memory, and which ones are dropped for space.

    A chunk is found while a context uses it, and a file is kept while a chunk in it is found. Thread-safe:
    changes hold the lock of the store; :meth:`locate` takes none, and :meth:`read_all` only where a chunk is
    damaged.
    """

    def __init__(self, folder: Path, files: ChunkFiles, database: ContextDatabase, usage: Usage) -> None:
        """Create a store without chunks; see :meth:`load`. ``folder`` is named in messages."""
        self._folder = folder
        self._files = files
        self._database = database
        self._usage = usage
        self._is_usable = False
        self._locations: dict[tuple[str, bytes], ChunkLocation] = {}
        self._users: Counter[tuple[str, bytes]] = Counter()
        self._members: dict[str, set[ChunkLocation]] = defaultdict(set)
        self._sizes: dict[str, int] = {}
        self.dropped = 0
        """Chunks that were dropped for space."""
        self.damaged = 0
        """Chunks that were found damaged or gone."""

    def load(self) -> None:
        """Find the chunks that contexts use; delete files that have none, and forget chunks that are gone."""
        for entry in self._usage.entries:
            entry.hashes = self._database.uses(entry)
            self._users.update((entry.app, each) for each in entry.hashes)
        sizes = self._files.sizes()
        for file, locations in self._database.files().items():
            if _end(locations) <= sizes.get(file, 0):
                self._add(locations, sizes[file])
        for file in sizes.keys() - self._sizes.keys():
            self._files.remove(file)
        rows = {file for (file,) in self._database.execute("SELECT file FROM chunk_file")}
        with self._database.change(synced=False) as change:
            self._write_rows(rows - self._sizes.keys())
            for entry in self._usage.entries:
                if gone := {each for each in entry.hashes if (entry.app, each) not in self._locations}:
                    self._users.subtract((entry.app, each) for each in gone)
                    entry.hashes = {each: None for each in entry.hashes if each not in gone}
                    change.execute("DELETE FROM chunk_use WHERE context = ?", (entry.row,))
                    self._database.add_uses(entry, list(entry.hashes))

    def use_fingerprint(self, fingerprint: str) -> None:
        """Find and store chunks from now on. Those of another fingerprint are deleted."""
        if self._database.setting("fingerprint") != fingerprint:
            self.drop(list(self._usage.entries))
            with self._database.change(synced=False) as change:
                change.execute("INSERT OR REPLACE INTO setting VALUES ('fingerprint', ?)", (fingerprint,))
        self._is_usable = True

    def locate(self, app: str, block_hash: bytes) -> ChunkLocation | None:
        """Return where a chunk of ``app`` is stored, or None."""
        return self._locations.get((app, block_hash)) if self._is_usable else None

    @property
    def chunks(self) -> int:
        """Chunks that can be read."""
        return len(self._locations) if self._is_usable else 0

    def read_all(
        self, locations: Sequence[ChunkLocation], following: Sequence[ChunkLocation] = ()
    ) -> list[Chunk | ChunkDamagedError]:
        """Read chunks, those of one file together, and return each, or why it cannot be used.

        ``following`` are read soon: the device begins with them.
        """
        found = self._files.read(locations, following)
        return [found.get(location) or self._read_elsewhere(location) for location in locations]

    def append(self, entry: StoredEntry, chunks: Sequence[Chunk]) -> int:
        """See :meth:`StoredContext.append_chunks`."""
        entry.used_ns = self._usage.next_ns()
        if not self._is_usable:
            return 0
        while quota := self._usage.exceeded(entry.app, self._cost(self._new(entry.app, chunks))):
            if not self._drop_one(quota, entry.app, keep=entry):
                break
        fitting = self._fitting(entry.app, chunks)
        self._store(entry, self._new(entry.app, fitting), [chunk.block_hash for chunk in fitting])
        return len(fitting)

    def refer_to(self, entry: StoredEntry, block_hashes: Iterable[bytes]) -> list[bytes]:
        """See :meth:`StoredContext.refer_to`."""
        entry.used_ns = self._usage.next_ns()
        wanted = dict.fromkeys(block_hashes)
        missing = [each for each in wanted if self.locate(entry.app, each) is None]
        self._store(entry, [], [each for each in wanted if each not in set(missing)])
        return missing

    def beside(self, location: ChunkLocation) -> list[ChunkLocation]:
        """See :meth:`ContextStore.beside`."""
        return sorted(self._members.get(location.file, ()), key=lambda each: each.offset)

    def rewrite(self, chunks: Mapping[ChunkLocation, Chunk]) -> None:
        """See :meth:`ContextStore.rewrite`."""
        kept = [each for each in chunks if self.locate(each.app, each.block_hash) == each]
        if not kept:
            return
        locations = self._files.write(kept[0].app, [chunks[each] for each in kept])
        rest = {file: self._members[file] - set(kept) for file in {each.file for each in kept}}
        with self._removed_on_error(locations), self._database.change(synced=False):
            self._database.write_file(locations)
            for file, members in rest.items():
                self._write_row(file, members)
        for location in locations:  # in place, so that who looks one up always finds it
            self._leave_file(self._locations[location.app, location.block_hash])
            self._put(location)
        self._count_file(locations[0], _end(locations))
        for each in kept:
            self._remove_if_empty(each)

    def drop(self, entries: Sequence[StoredEntry], *, erase: bool = False) -> None:
        """Forget the chunks that only these contexts use, and delete the files that have no others.

        ``erase`` overwrites them where they share a file with others.

        Raises:
            OSError: a file cannot be deleted; others may be gone.
            sqlite3.Error: the database cannot be written, for another reason than a full disk.
        """
        freed = []
        for entry in entries:
            for block_hash in entry.hashes:
                key = (entry.app, block_hash)
                self._users[key] -= 1
                if not self._users[key]:
                    del self._users[key]
                    if (location := self._forget(key)) is not None:
                        freed.append(location)
            entry.hashes = {}
        failed = None
        for location in freed:
            try:
                self._remove_if_empty(location)
            except OSError as error:
                failed = error
        try:
            with self._database.change(synced=False) as change:
                self._write_rows({location.file for location in freed})
                for entry in entries:
                    change.execute("DELETE FROM chunk_use WHERE context = ?", (entry.row,))
        except sqlite3.Error as error:
            if not is_full(error):
                raise
        for location in freed if erase else ():  # when nothing knows of them any more
            if location.file in self._members:
                self._files.erase(location)
        if failed is not None:
            raise failed

    def make_room(self, app: str, added: int) -> Quota | None:
        """Drop chunks until the app may have ``added`` more bytes, or return the quota in the way."""
        in_the_way = None
        for quota in QUOTAS:
            while self._usage.exceeded(app, added, [quota]):
                if not self._drop_one(quota, app):
                    in_the_way = quota
                    break
        return in_the_way

    def freeing_space(self, write: Callable[[], _T], *, erase: bool = False) -> _T:
        """Return what ``write``, a synced change, returns. Drop chunks while the disk is full."""
        while True:
            try:
                with self._database.change(erase=erase):
                    return write()
            except (OSError, sqlite3.Error) as error:
                if not is_full(error) or not self._drop_one("context_disk_bytes", ""):
                    raise

    def _new(self, app: str, chunks: Iterable[Chunk]) -> list[Chunk]:
        """Return those of ``chunks`` that are not stored, each once."""
        unique: dict[bytes, Chunk] = {}
        for chunk in chunks:
            if self.locate(app, chunk.block_hash) is None:
                unique.setdefault(chunk.block_hash, chunk)
        return list(unique.values())

    def _cost(self, new: Iterable[Chunk]) -> int:
        return sum(len(chunk.payload) + self._files.overhead for chunk in new)

    def _fitting(self, app: str, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Return the first chunks, as many as the quotas bear."""
        while chunks and self._usage.exceeded(app, self._cost(self._new(app, chunks))):
            chunks = chunks[:-1]
        return chunks

    def _store(self, entry: StoredEntry, new: Sequence[Chunk], used: Sequence[bytes]) -> None:
        """Write new chunks, and note in the database that the context uses these."""
        begun = [each for each in dict.fromkeys(used) if each not in entry.hashes]
        locations = self._files.write(entry.app, new) if new else []
        with self._removed_on_error(locations), self._database.change(synced=False):
            if locations:
                self._database.write_file(locations)
            if begun:
                self._database.add_uses(entry, begun)
            self._database.stamp(entry)
        entry.stamped_ns = entry.used_ns
        entry.hashes.update(dict.fromkeys(begun))
        self._users.update((entry.app, each) for each in begun)
        if locations:
            self._add(locations, _end(locations))

    @contextmanager
    def _removed_on_error(self, locations: Sequence[ChunkLocation]) -> Iterator[None]:
        """Remove a file of these chunks, if there are any, where the block fails.

        An interruption leaves it, as a crash does: the database may know it already. If it does not, the file
        goes when the folder is opened.
        """
        try:
            yield
        except Exception:
            if locations:
                with suppress(OSError):
                    self._files.remove(locations[0].file)
            raise

    def _add(self, locations: Sequence[ChunkLocation], size: int) -> None:
        """Find the chunks of a file that are used, and not stored elsewhere; ignore it if there are none."""
        for location in locations:
            key = (location.app, location.block_hash)
            if self._users[key] and key not in self._locations:
                self._put(location)
        if locations[0].file in self._members:
            self._count_file(locations[0], size)

    def _put(self, location: ChunkLocation) -> None:
        self._locations[location.app, location.block_hash] = location
        self._members[location.file].add(location)

    def _count_file(self, location: ChunkLocation, size: int) -> None:
        self._sizes[location.file] = size
        self._usage.chunk_bytes[location.app] += size

    def _forget(self, key: tuple[str, bytes]) -> ChunkLocation | None:
        """Forget where a chunk is; return that, if it was known."""
        location = self._locations.pop(key, None)
        if location is not None:
            self._leave_file(location)
        return location

    def _leave_file(self, location: ChunkLocation) -> None:
        self._members[location.file].discard(location)
        if not self._members[location.file]:
            del self._members[location.file]

    def _remove_if_empty(self, location: ChunkLocation) -> None:
        """Delete the file that a forgotten chunk was in, unless another chunk in it is found."""
        if location.file not in self._members and location.file in self._sizes:
            self._files.remove(location.file)
            self._usage.chunk_bytes[location.app] -= self._sizes.pop(location.file)

    def _write_rows(self, files: Iterable[str]) -> None:
        """Have the database know what is left of files."""
        for file in files:
            self._write_row(file, self._members.get(file, ()))

    def _write_row(self, file: str, members: Collection[ChunkLocation]) -> None:
        if members:
            self._database.write_file(list(members))
        else:
            self._database.execute("DELETE FROM chunk_file WHERE file = ?", (file,))

    def _drop_one(self, quota: Quota, app: str, keep: StoredEntry | None = None) -> bool:
        """Drop the chunks of the context that was used longest ago; return whether there was one."""
        entry = self._usage.oldest_with_chunks(quota, app, keep)
        if entry is None:
            return False
        chunks = len(self._locations)
        self.drop([entry])
        self.dropped += chunks - len(self._locations)
        return True

    def _read_elsewhere(self, location: ChunkLocation) -> Chunk | ChunkDamagedError:
        """Return a chunk that is not where it was, from where it is now; forget it if it is nowhere."""
        current = self.locate(location.app, location.block_hash)
        if current is not None and current != location:
            return self.read_all([current])[0]
        self._lose(location)
        return ChunkDamagedError(
            f"a stored KV chunk in {self._folder} is damaged or gone. Compute its tokens again."
        )

    def _lose(self, location: ChunkLocation) -> None:
        """Forget a chunk that cannot be read, now and after a restart."""
        with self._database.exclusive():
            if self._locations.get((location.app, location.block_hash)) != location:
                return  # deleted, dropped, or forgotten already
            self.damaged += 1
            logger.warning("A KV chunk in %s is damaged or gone, and recomputed.", self._folder)
            self._forget((location.app, location.block_hash))
            with suppress(OSError, sqlite3.Error):
                self._remove_if_empty(location)
                with self._database.change(synced=False):
                    self._write_rows([location.file])


def _end(locations: Iterable[ChunkLocation]) -> int:
    """Return where the last of the chunks of a file ends."""
    return max(each.offset + each.sealed_bytes for each in locations)
