"""A folder of contexts: open in one process at a time, and found again after a restart or a crash."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agentrt.errors import (
    ChunkDamagedError,
    ContextDamagedError,
    ContextNotFoundError,
    ContextQuotaError,
    ContextStoreError,
    InvalidRequestError,
)
from agentrt.private_database import unused_name

from ...files.file_lock import file_lock
from .chunk_files import Chunk, ChunkFiles, ChunkLocation, Disk
from .chunk_store import ChunkStore, Quotas, Usage
from .context_database import DamagedRowError, StoredEntry, disk_errors
from .folder import KeySource, Secrets, make_private_folder, open_folder, use_key

logger = logging.getLogger(__name__)

_LOCK_FILE: Final = ".lock"


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """Counts of a store. Those from ``dropped_chunks`` on begin when it is opened."""

    contexts: int
    text_bytes: int
    chunk_bytes: int
    """Bytes of the files of chunks."""
    chunks: int
    """Chunks that can be read."""
    dropped_chunks: int
    """Chunks that were dropped for space."""
    damaged_chunks: int
    """Chunks that were found damaged or gone."""
    refused_files: int
    """Damaged texts and databases that were set aside."""


@dataclass(eq=False)
class StoredContext(StoredEntry):
    """The text of one conversation, which is kept until it is deleted, and the KV chunks that it uses.

    Thread-safe. Methods that write or read wait for the disk, and raise

    - :class:`ContextStoreError`: the disk is full or fails, and nothing was changed; or the store was closed;
    - :class:`ContextNotFoundError`: the context was deleted.
    """

    store: ContextStore = field(kw_only=True, repr=False)
    """The store that it is in."""

    @property
    def block_hashes(self) -> list[bytes]:
        """The hashes of the chunks that it uses, some of which may be gone."""
        return list(self.hashes)

    @property
    def used(self) -> float:
        """When it was last used: Unix time in seconds."""
        return self.used_ns / 1e9

    def touch(self) -> None:
        """Make it the most recently used context, without I/O: that is kept when the store is closed."""
        self.used_ns = self.store._usage.next_ns()

    def append_text(self, record: bytes) -> None:
        """Append ``record`` to the text; when this returns, it is on the device.

        Text is never refused for a quota: chunks are dropped to make room for it.
        """
        with self.store._changing(self):
            self.store._write_text(self, self.records, [record])

    def replace_text(self, records: Sequence[bytes]) -> None:
        """Replace the text atomically; when this returns, the old one is no longer on the device."""
        with self.store._changing(self):
            self.store._write_text(self, 0, records)

    def read_text(self) -> list[bytes]:
        """Return the records of the text, the oldest first.

        Raises:
            ContextDamagedError: the text is damaged. It was set aside, and the context removed.
        """
        with self.store._changing(self):
            return self.store._read_text(self)

    def append_chunks(self, chunks: Sequence[Chunk]) -> int:
        """Store ``chunks`` in one go, and return how many of the first ones are stored now.

        A chunk that the app has stored already, at whatever level, stays as it is, and is referred to. Where
        a quota would be exceeded, chunks of the contexts that were used longest ago are dropped; what does
        not fit even so is not stored. Nothing is without a fingerprint
        (:meth:`ContextStore.use_fingerprint`).
        """
        with self.store._changing(self):
            return self.store._chunks.append(self, chunks)

    def refer_to(self, block_hashes: Iterable[bytes]) -> list[bytes]:
        """Note that this context uses the chunks of these hashes, and return the hashes that are not stored.

        A chunk stays as long as a context uses it.
        """
        with self.store._changing(self):
            return self.store._chunks.refer_to(self, block_hashes)


class ContextStore(AbstractContextManager["ContextStore"]):
    """The contexts in one folder.

    The text of a context is in a database, and kept until it is deleted. Its KV chunks are in files of their
    own, with the fingerprint of the model; they are dropped where they cannot be used or space is short. Only
    the user can read the files.

    Thread-safe. Changes wait for each other and for the disk, :meth:`read` for the disk, lookups do not wait.
    """

    def __init__(
        self,
        folder: Path,
        fingerprint: bytes | None = None,
        *,
        quotas: Quotas | None = None,
        key: KeySource | None = None,
        disk: Disk | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Open ``folder``, which is created if it is missing. Chunks are not read.

        ``fingerprint`` is what :func:`kv_fingerprint` returns; without one no KV is stored or found until
        :meth:`use_fingerprint`. With a ``key`` all contents are encrypted. ``disk`` has the files of chunks.

        Raises:
            ContextKeyError: it was written with another key, or with or without one.
            ContextStoreError: it is open already, in this or another process, cannot be read or written, or
                was written by another version of agentrt.
            MissingExtraError: encryption is not installed.
        """
        self.folder: Final = folder
        """Where it is."""
        self._disk = Disk() if disk is None else disk
        self._usage = Usage({} if quotas is None else quotas, clock)
        self._contexts: dict[str, dict[str, StoredContext]] = defaultdict(dict)
        self._lookup = threading.Lock()
        with ExitStack() as stack, disk_errors(folder):
            make_private_folder(folder)
            try:
                stack.enter_context(file_lock(folder / _LOCK_FILE, wait=False))
            except BlockingIOError as error:
                raise ContextStoreError(
                    f"the contexts in {folder} are in use by another runtime. Close it, or give each "
                    "runtime a folder of its own."
                ) from error
            self._database, damaged = open_folder(folder)
            stack.callback(self._database.close)
            self._refused = int(damaged)
            self._secrets = Secrets(self._database, encrypted=use_key(self._database, key))
            self.secret: Final = self._secrets.secret
            """A secret that is the same after a restart."""
            self.salts: Final = self._secrets.salts
            """The salts of block hashes, the same after a restart."""
            files = ChunkFiles(folder, self._database.sealer, self._disk)
            self._chunks = ChunkStore(folder, files, self._database, self._usage)
            self._load()
            if fingerprint is not None:
                self.use_fingerprint(fingerprint)
            for app in list(self._contexts):
                self._chunks.make_room(app, 0)
            self._resources = stack.pop_all()

    def use_fingerprint(self, fingerprint: bytes) -> None:
        """Find and store KV of this fingerprint only, from now on. Other KV is deleted.

        Raises:
            RuntimeClosedError: the store was closed.
            ContextStoreError: the disk fails.
        """
        # Without the secret of the hashes their KV cannot be found.
        usable = hashlib.blake2b(fingerprint, key=self.secret, digest_size=32).hexdigest()
        with self._database.exclusive():
            self._chunks.use_fingerprint(usable)

    def create(
        self,
        app: str,
        context_id: str,
        header: Mapping[str, Any] | None = None,
        *,
        salt: bytes | None = None,
    ) -> StoredContext:
        """Create a context without text. ``header`` is kept with it, as JSON.

        ``salt`` is that of the app when the request began that the context is of; None for no request.

        Raises:
            ContextNotFoundError: all contexts of the app were deleted since that request began.
            InvalidRequestError: the app has a context of that id.
            ContextQuotaError: texts alone exceed a quota.
            ContextStoreError: the disk is full or fails.
            TypeError, ValueError: the header cannot be written as JSON.
        """
        with self._database.exclusive():
            if salt is not None and not self.salts.is_current(app, salt):
                raise ContextNotFoundError(context_id)
            if self.get(app, context_id) is not None:
                raise InvalidRequestError(
                    "context_id", "there is such a context. Delete it, or choose another id."
                )
            known = dict(header or {})
            number, identity = self._database.new_identity(app, context_id, known)
            quota = self._chunks.make_room(app, len(identity))
            if quota is not None:
                raise ContextQuotaError(quota, self._usage.quotas.get(quota) or 0)
            used_ns = self._usage.next_ns()
            row = self._chunks.freeing_space(lambda: self._database.add_context(number, identity, used_ns))
            context = StoredContext(
                *(row, number, app, context_id, known, 0, used_ns, len(identity), used_ns), store=self
            )
            self._add(context)
            return context

    def get(self, app: str, context_id: str) -> StoredContext | None:
        """Return the context, or None."""
        with self._lookup:
            return self._contexts[app].get(context_id) if app in self._contexts else None

    def contexts(self, app: str) -> list[StoredContext]:
        """Return the contexts of ``app``, the least recently used first."""
        with self._lookup:
            found = list(self._contexts[app].values()) if app in self._contexts else []
        return sorted(found, key=lambda context: context.used_ns)

    def delete(self, app: str, context_id: str) -> None:
        """Delete a context, its text and its chunks but for those that other contexts use.

        Raises:
            ContextNotFoundError: the app has no such context.
            ContextStoreError: it cannot be deleted, and is still there; its chunks may be gone.
        """
        with self._database.exclusive():
            context = self.get(app, context_id)
            if context is None:
                raise ContextNotFoundError(context_id)
            self._chunks.drop([context], erase=True)
            self._remove([context])

    def delete_all(self, app: str) -> None:
        """Delete all contexts of ``app``, and give it another salt: what it has hashed is not found any more.

        Raises:
            ContextStoreError: they cannot be deleted, and are still there, perhaps without their chunks.
        """
        with self._database.exclusive():
            contexts = self.contexts(app)
            try:
                self._chunks.drop(contexts)
            except BaseException:
                self._remove([], salt_of=app)
                raise
            self._remove(contexts, salt_of=app)

    def locate(self, app: str, block_hash: bytes) -> ChunkLocation | None:
        """Return where a chunk of ``app`` is stored, or None."""
        return self._chunks.locate(app, block_hash)

    def read(self, location: ChunkLocation) -> Chunk:
        """Read a chunk.

        Raises:
            ChunkDamagedError: it is damaged, or gone meanwhile. Compute it again.
        """
        (found,) = self._chunks.read_all([location])
        if isinstance(found, ChunkDamagedError):
            raise found
        return found

    def read_all(
        self, locations: Sequence[ChunkLocation], following: Sequence[ChunkLocation] = ()
    ) -> list[Chunk | ChunkDamagedError]:
        """Read chunks together, and return each, or why it must be computed again.

        ``following`` are read soon: the device begins with them while these are checked and used.
        """
        return self._chunks.read_all(locations, following)

    def beside(self, location: ChunkLocation) -> list[ChunkLocation]:
        """Return the chunks in the file of this one, in order: with one of them all are written again."""
        with self._database.exclusive():
            return self._chunks.beside(location)

    def rewrite(self, chunks: Mapping[ChunkLocation, Chunk]) -> None:
        """Store chunks of one app in the place of those that are at these locations, in one go.

        They get a new file. What is at its location no more is left out: it was deleted, or dropped.

        Raises:
            ContextStoreError: the disk is full or fails. The former ones are still there.
        """
        with self._database.exclusive():
            self._chunks.rewrite(chunks)

    @property
    def longest_context(self) -> int:
        """The most chunks of a context that can be read."""
        with self._lookup:
            found = [context for contexts in self._contexts.values() for context in contexts.values()]
        counts = (sum(self.locate(each.app, one) is not None for one in each.block_hashes) for each in found)
        return max(counts, default=0)

    def statistics(self) -> StoreStatistics:
        """Return counts. Cheap; callable from any thread."""
        with self._lookup:
            contexts = sum(map(len, self._contexts.values()))
        return StoreStatistics(
            contexts=contexts,
            text_bytes=self._usage.text_bytes.total(),
            chunk_bytes=self._usage.chunk_bytes.total(),
            chunks=self._chunks.chunks,
            dropped_chunks=self._chunks.dropped,
            damaged_chunks=self._chunks.damaged,
            refused_files=self._refused,
        )

    def close(self) -> None:
        """Wait for the change under way, refuse later ones, and unlock the folder. May be called again."""
        if self._database.refuse_changes():
            with self._resources:
                self._stamp_uses()

    def __exit__(self, *error: object) -> None:
        """Close the store."""
        self.close()

    def _stamp_uses(self) -> None:
        """Keep the times of uses that have written nothing."""
        try:
            with self._database.change(synced=False):
                for entry in self._usage.entries:
                    if entry.stamped_ns != entry.used_ns:
                        self._database.stamp(entry)
        except (OSError, sqlite3.Error) as error:
            logger.warning("When contexts in %s were used last is not kept (%s).", self.folder, error)

    @contextmanager
    def _changing(self, context: StoredContext) -> Iterator[None]:
        with self._database.exclusive():
            if context.deleted:
                raise ContextNotFoundError(context.id)
            yield

    def _load(self) -> None:
        for fields in list(self._database.contexts()):
            if "id" in fields:
                self._add(StoredContext(**fields, store=self))
            else:
                self._set_aside(fields["row"], fields["number"])
        self._chunks.load()

    def _add(self, context: StoredContext) -> None:
        self._usage.add(context)
        with self._lookup:
            self._contexts[context.app][context.id] = context

    def _write_text(self, context: StoredContext, first: int, records: Sequence[bytes]) -> None:
        """Make ``records`` those of a text from place ``first`` on."""
        context.touch()
        self._chunks.make_room(context.app, self._database.cost(records))
        grown = self._chunks.freeing_space(
            lambda: self._database.write_records(context, first, records), erase=first < context.records
        )
        context.records = first + len(records)
        context.stamped_ns = context.used_ns
        context.text_bytes += grown
        self._usage.text_bytes[context.app] += grown

    def _read_text(self, context: StoredContext) -> list[bytes]:
        try:
            return self._database.read_records(context)
        except DamagedRowError as error:
            self._chunks.drop([context])
            self._set_aside(context.row, context.number)
            self._remove([context])
            raise ContextDamagedError(
                f"the text of the context {context.id!r} is damaged. It was set aside, and the context "
                "removed. Create it again."
            ) from error

    def _set_aside(self, row: int, number: bytes) -> None:
        """Keep what there is of a damaged text in a file, and remove it from the database."""
        self._refused += 1
        kept = unused_name(self.folder / f"{number.hex()}.text")
        parts = self._database.execute("SELECT identity FROM context WHERE id = ?", (row,))
        parts += self._database.execute("SELECT record FROM turn WHERE context = ? ORDER BY place", (row,))
        self._disk.write(kept, b"\n".join(part for (part,) in parts), synced=True)
        with self._database.change(erase=True) as change:
            change.execute("DELETE FROM context WHERE id = ?", (row,))
        logger.warning(
            "A context in %s is damaged, and gone. What there is of its text is kept as %s; delete that file "
            "if you do not need it.",
            *(self.folder, kept.name),
        )

    def _remove(self, contexts: Sequence[StoredContext], salt_of: str | None = None) -> None:
        """Remove contexts whose chunks have been dropped, and renew the salt of an app, in one go."""

        def write() -> None:
            for context in contexts:
                self._database.execute("DELETE FROM context WHERE id = ?", (context.row,))
            if salt_of is not None:
                self._secrets.renew_salt(salt_of)

        self._chunks.freeing_space(write, erase=True)
        for context in contexts:
            context.deleted = True
            self._usage.entries.discard(context)
            self._usage.text_bytes[context.app] -= context.text_bytes
            with self._lookup:
                del self._contexts[context.app][context.id]
                if not self._contexts[context.app]:
                    del self._contexts[context.app]
