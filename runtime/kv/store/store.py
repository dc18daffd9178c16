"""A folder of contexts: open in one process at a time, and found again after a restart or a crash."""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agentrt.errors import (
    ChunkDamagedError,
    ContextKeyError,
    ContextNotFoundError,
    ContextQuotaError,
    ContextStoreLockedError,
    InvalidRequestError,
)

from ...files.file_lock import file_lock
from . import chunk_library, store_file
from .changes import Changes, disk_errors
from .chunk_library import ChunkLibrary, Owner
from .chunks import Chunk, ChunkLocation
from .disk import UNFINISHED, Disk
from .keys import KeySource
from .private_folder import make_private_folder
from .record_file import RecordFile
from .record_format import FileKind, FileStart, RefusedError
from .refusals import Refusals
from .store_file import StoreFile
from .stored_context import StoredContext, Text
from .usage import StoreQuotas, Usage

logger = logging.getLogger(__name__)

_TEXT_SUFFIX: Final = ".text"
_LOCK_FILE: Final = ".lock"


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """Counts of a store. Those from ``dropped_chunks`` on begin when it is opened."""

    contexts: int
    text_bytes: int
    chunk_bytes: int
    """Bytes of the files of chunks, also of those of another fingerprint."""
    chunks: int
    """Chunks that can be read."""
    foreign_chunks: int
    """Chunks of another fingerprint: their tokens are recomputed, and they are the first to be dropped."""
    dropped_chunks: int
    """Chunks that were dropped for space."""
    damaged_chunks: int
    """Chunks that were found damaged or gone."""
    refused_files: int
    """Files that were set aside."""


class ContextStore(AbstractContextManager["ContextStore"]):
    """The contexts in one folder.

    A context is a file of text, which is kept until it is deleted, and a file of KV chunks with the
    fingerprint of the model, which is dropped where it cannot be used or space is short. Only the user can
    read the files.

    Thread-safe. Changes wait for each other and for the disk, :meth:`read` for the disk, lookups do not wait.
    """

    def __init__(
        self,
        folder: Path,
        fingerprint: bytes | None = None,
        *,
        quotas: StoreQuotas | None = None,
        key: KeySource | None = None,
        disk: Disk | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Open ``folder``, which is created if it is missing. Payloads are not read.

        ``fingerprint`` is what :func:`kv_fingerprint` returns; without one no KV is stored or found until
        :meth:`use_fingerprint`. With a ``key`` all contents are encrypted.

        Raises:
            ContextStoreLockedError: it is open already, in this or another process.
            ContextKeyError: it was written with another key, or with or without one.
            ContextStoreError: it cannot be read or written, or was written by another version of agentrt.
            MissingExtraError: encryption is not installed.
        """
        self._folder = folder
        self._disk = Disk() if disk is None else disk
        self._usage = Usage(StoreQuotas() if quotas is None else quotas, clock)
        self._changes = Changes(folder)
        self._refusals = Refusals(self._disk)
        self._contexts: dict[str, dict[str, StoredContext]] = defaultdict(dict)
        self._lookup = threading.Lock()
        with ExitStack() as stack, disk_errors(folder):
            make_private_folder(folder)
            try:
                stack.enter_context(file_lock(folder / _LOCK_FILE, wait=False))
            except BlockingIOError as error:
                raise ContextStoreLockedError(
                    f"the contexts in {folder} are in use by another runtime. Close it, or give each "
                    "runtime a folder of its own."
                ) from error
            self._key = self._load_key(key)
            self._file = StoreFile(folder, self._disk, self._key, self._refusals)
            self.secret: Final = self._file.secret
            """A secret that is the same after a restart."""
            self.salts: Final = self._file.salts
            """The salts of block hashes, the same after a restart."""
            self._chunks = ChunkLibrary(
                folder, self._disk, self._key, self._usage, self._changes, self._refusals
            )
            if fingerprint is not None:
                self.use_fingerprint(fingerprint)
            self._load_contexts()
            self._resources = stack.pop_all()

    def use_fingerprint(self, fingerprint: bytes) -> None:
        """Find and store KV of this fingerprint only, from now on.

        Raises:
            RuntimeClosedError: the store was closed.
        """
        # Without the secret of the hashes their KV cannot be found.
        usable = hashlib.blake2b(fingerprint, key=self.secret, digest_size=32).hexdigest()
        with self._changes.exclusive():
            with self._lookup:
                owners = [each.owner for contexts in self._contexts.values() for each in contexts.values()]
            self._chunks.use_fingerprint(usable, owners)

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
        with self._changes.exclusive():
            if salt is not None and not self.salts.is_current(app, salt):
                raise ContextNotFoundError(context_id)
            if self.get(app, context_id) is not None:
                raise InvalidRequestError(
                    "context_id", "there is such a context. Delete it, or choose another id."
                )
            owner = Owner(secrets.token_hex(16), app, context_id)
            identity = {"app": app, "context": context_id, "header": dict(header or {})}
            start = FileStart.new(FileKind.TEXT, identity, self._key)
            quota = self._chunks.make_room(app, len(start.content))
            if quota is not None:
                raise ContextQuotaError(quota, self._usage.limit(quota) or 0)
            path = self._path(owner.name)
            file = self._chunks.freeing_space(lambda: RecordFile.create(self._disk, path, start))
            context = self._add(owner, Text(file, ()), used_ns=0)
            self._disk.stamp(path, self._usage.touch(owner.name))
            return context

    def get(self, app: str, context_id: str) -> StoredContext | None:
        """Return the context, or None."""
        with self._lookup:
            return self._contexts[app].get(context_id) if app in self._contexts else None

    def contexts(self, app: str) -> list[StoredContext]:
        """Return the contexts of ``app``, the least recently used first."""
        with self._lookup:
            found = list(self._contexts[app].values()) if app in self._contexts else []
        return sorted(found, key=lambda context: self._usage.used_ns(context.owner.name))

    def delete(self, app: str, context_id: str) -> None:
        """Delete a context, its text and its chunks but for those that other contexts use.

        Raises:
            ContextNotFoundError: the app has no such context.
            ContextStoreError: it cannot be deleted, and is still there; its chunks may be gone.
        """
        with self._changes.exclusive():
            context = self.get(app, context_id)
            if context is None:
                raise ContextNotFoundError(context_id)
            self._chunks.drop(context.owner.name)
            self._disk.remove(self._path(context.owner.name))
            self._remove(context)
            self._disk.sync_folder(self._folder)

    def delete_all(self, app: str) -> None:
        """Delete all contexts of ``app``, and give it another salt: what it has hashed is not found any more.

        Raises:
            ContextStoreError: some of them cannot be deleted, and are still there without their chunks.
        """
        with self._changes.exclusive():
            contexts = self.contexts(app)
            try:
                self._chunks.drop_all([context.owner.name for context in contexts])
                for context in contexts:
                    self._disk.remove(self._path(context.owner.name))
                    self._remove(context)
                self._disk.sync_folder(self._folder)
            finally:
                self._chunks.freeing_space(lambda: self._file.renew_salt(app))

    def locate(self, app: str, block_hash: bytes) -> ChunkLocation | None:
        """Return where a chunk of ``app`` is stored, or None."""
        return self._chunks.locate(app, block_hash)

    def read(self, location: ChunkLocation) -> Chunk:
        """Read a chunk.

        Raises:
            ChunkDamagedError: it is damaged, or gone meanwhile. Compute it again.
        """
        return self._chunks.read(location)

    def read_all(
        self, locations: Sequence[ChunkLocation], following: Sequence[ChunkLocation] = ()
    ) -> list[Chunk | ChunkDamagedError]:
        """Read chunks together, and return each, or why it must be computed again.

        ``following`` are read soon: the device begins with them while these are checked and used.
        """
        return self._chunks.read_all(locations, following)

    @property
    def longest_context(self) -> int:
        """The most chunks of a context that can be read."""
        return self._chunks.longest_context

    def statistics(self) -> StoreStatistics:
        """Return counts. Cheap; callable from any thread."""
        with self._lookup:
            contexts = sum(map(len, self._contexts.values()))
        return StoreStatistics(
            contexts=contexts,
            text_bytes=self._usage.text_bytes,
            chunk_bytes=self._usage.chunk_bytes,
            chunks=self._chunks.chunks,
            foreign_chunks=self._chunks.foreign,
            dropped_chunks=self._chunks.dropped,
            damaged_chunks=self._chunks.damaged,
            refused_files=self._refusals.files,
        )

    def close(self) -> None:
        """Wait for the change under way, refuse later ones, and unlock the folder. May be called again."""
        self._changes.close()
        self._stamp_all()
        self._resources.close()

    def __exit__(self, *error: object) -> None:
        """Close the store."""
        self.close()

    def _stamp_all(self) -> None:
        """Keep the times of uses that have written nothing, while the folder is locked."""
        with self._lookup:
            found = [context for contexts in self._contexts.values() for context in contexts.values()]
        for context in found:
            context.stamp()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_TEXT_SUFFIX}"

    def _load_key(self, source: KeySource | None) -> bytes | None:
        if source is None:
            return None
        key = source.load()
        if key is not None:
            return key
        names = [entry.name for entry in self._disk.entries(self._folder)]
        if any(name == store_file.NAME or name.endswith(_TEXT_SUFFIX) for name in names):
            raise ContextKeyError(
                f"the contexts in {self._folder} need their key, and {source.name} is missing. Restore it."
            )
        return source.create()

    def _load_contexts(self) -> None:
        entries = {entry.name: entry.modified_ns for entry in self._disk.entries(self._folder)}
        for name in entries:
            if name.endswith(UNFINISHED):
                self._disk.remove(self._folder / name)
        texts = [name.removesuffix(_TEXT_SUFFIX) for name in entries if name.endswith(_TEXT_SUFFIX)]
        chunks = {
            name.removesuffix(chunk_library.SUFFIX) for name in entries if name.endswith(chunk_library.SUFFIX)
        }
        used_ns = {
            name: max(entries[name + _TEXT_SUFFIX], entries.get(name + chunk_library.SUFFIX, 0))
            for name in texts
        }
        for name in sorted(texts, key=used_ns.__getitem__, reverse=True):
            self._load_context(name, used_ns[name], has_chunks=name in chunks)
        for name in chunks.difference(texts):
            logger.info("The chunks of the context %s are deleted, as its text is gone.", name)
            self._disk.remove(self._folder / f"{name}{chunk_library.SUFFIX}")
        for app in list(self._contexts):
            self._chunks.make_room(app, 0)

    def _load_context(self, name: str, used_ns: int, *, has_chunks: bool) -> None:
        path = self._path(name)
        try:
            file, records = RecordFile.open(self._disk, path, FileKind.TEXT, self._key)
            owner = Owner(name, file.header["app"], file.header["context"])
            if self.get(owner.app, owner.context_id) is not None:
                raise RefusedError("has the id of a context that was used later")
        except RefusedError as refused:
            self._refusals.set_aside(path, refused, "The context is gone.")
            self._disk.remove(self._folder / f"{name}{chunk_library.SUFFIX}")
            return
        except OSError as error:
            logger.warning("%s cannot be read (%s). Its context is not there until it can be.", path, error)
            return
        self._add(owner, Text(file, tuple(records)), used_ns)
        if has_chunks:
            self._chunks.load(owner)

    def _add(self, owner: Owner, text: Text, used_ns: int) -> StoredContext:
        self._usage.add(owner.name, owner.app, used_ns)
        self._usage.set_bytes(owner.name, text=text.file.size)
        context = StoredContext(
            owner, text, self._disk, self._key, self._chunks, self._usage, self._changes, self._refuse
        )
        with self._lookup:
            self._contexts[owner.app][owner.context_id] = context
        return context

    def _remove(self, context: StoredContext) -> None:
        context.deleted = True
        self._usage.remove(context.owner.name)
        with self._lookup:
            del self._contexts[context.app][context.id]
            if not self._contexts[context.app]:
                del self._contexts[context.app]

    def _refuse(self, context: StoredContext, refused: RefusedError) -> None:
        """Set the text of a context aside, and remove the context."""
        self._refusals.set_aside(self._path(context.owner.name), refused, "The context is gone.")
        self._chunks.drop(context.owner.name)
        self._remove(context)
