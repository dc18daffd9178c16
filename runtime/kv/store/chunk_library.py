"""The chunks of all contexts of a store: a file for each context, and each chunk of an app in one of them.

A context that uses a chunk in the file of another one refers to it. When that file is deleted, the chunk is
inherited by the one of the contexts that refer to it that was used last. All chunks can be recomputed: where
space is short, those of the contexts that were used longest ago go first, and a damaged one is forgotten.
"""

from __future__ import annotations

import errno
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from agentrt.errors import ChunkDamagedError

from .changes import Changes
from .chunk_index import ChunkIndex
from .chunks import (
    Chunk,
    ChunkLocation,
    ChunkRecord,
    entry_bytes,
    pack_entries,
    unpack_entries,
    unpack_hashes,
)
from .disk import Disk
from .record_file import RecordFile
from .record_format import FileKind, FileStart, NewRecord, Record, RefusedError
from .refusals import Refusals
from .sealing import SealBrokenError
from .usage import QUOTAS, Quota, Usage

logger = logging.getLogger(__name__)

SUFFIX: Final = ".chunks"
_INHERITED_BYTES: Final = 16 * 2**20
"""Bytes that are copied at a time when chunks are inherited."""
_NO_SPACE: Final = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}

_T = TypeVar("_T")


class Owner(NamedTuple):
    """A context, and the name of its files."""

    name: str
    app: str
    context_id: str


class ChunkLibrary:
    """The files of chunks in a folder, and the index of what is in them.

    Thread-safe. Changes hold the lock of the store; :meth:`locate` never waits, and :meth:`read` waits for
    changes only where a chunk is damaged.
    """

    def __init__(
        self,
        folder: Path,
        disk: Disk,
        key: bytes | None,
        usage: Usage,
        changes: Changes,
        refusals: Refusals,
    ) -> None:
        """Create a library without files and without a fingerprint; see :meth:`use_fingerprint`."""
        self._folder = folder
        self._disk = disk
        self._key = key
        self._usage = usage
        self._changes = changes
        self._refusals = refusals
        self._fingerprint: str | None = None
        self._index = ChunkIndex()
        self._files: dict[str, RecordFile] = {}
        self._foreign: dict[str, int] = {}  # files of another fingerprint, and the number of their chunks
        self.dropped = 0
        """Chunks that were dropped for space."""
        self.damaged = 0
        """Chunks that were found damaged or gone."""

    @property
    def chunks(self) -> int:
        """Chunks that can be read."""
        return len(self._index)

    @property
    def longest_context(self) -> int:
        """The most chunks of a context that can be read."""
        return self._index.most_used_by_one()

    @property
    def foreign(self) -> int:
        """Chunks of another fingerprint."""
        return sum(self._foreign.values())

    def use_fingerprint(self, fingerprint: str, owners: Iterable[Owner]) -> None:
        """Use the KV of that fingerprint. ``owners`` are all contexts."""
        self._fingerprint = fingerprint
        for owner in owners:
            if owner.name in self._files or owner.name in self._foreign:
                self._forget_file(owner.name)
                self.load(owner)

    def load(self, owner: Owner) -> None:
        """Index the chunks in the file of a context. A file that is not what it should be is set aside."""
        path = self._path(owner.name)
        try:
            file, records = RecordFile.open(self._disk, path, FileKind.CHUNKS, self._key)
            if (file.header.get("app"), file.header.get("context")) != (owner.app, owner.context_id):
                raise RefusedError("is of another context")
        except RefusedError as refused:
            self._refusals.set_aside(path, refused, "Its KV is recomputed; the text of the context is kept.")
            return
        except OSError as error:
            logger.warning("%s cannot be read (%s). Its KV is recomputed.", path, error)
            return
        self._usage.set_bytes(owner.name, chunks=file.size)
        if file.header.get("fingerprint") == self._fingerprint:
            self._files[owner.name] = file
            for record in records:
                self._index_record(file, owner.name, record)
        else:
            entries = sum(len(record.meta) for record in records if record.kind == ChunkRecord.CHUNKS)
            self._foreign[owner.name] = entries // entry_bytes(1)

    def locate(self, app: str, block_hash: bytes) -> ChunkLocation | None:
        """Return where a chunk of ``app`` is stored, or None."""
        return self._index.locate(app, block_hash)

    def used_by(self, name: str) -> list[bytes]:
        """Return the hashes of the chunks that a context has stored or refers to."""
        return self._index.used_by(name)

    def read(self, location: ChunkLocation) -> Chunk:
        """Read a chunk.

        Raises:
            ChunkDamagedError: it is damaged or gone, and forgotten.
        """
        file = self._files.get(location.name)
        try:
            if file is None:
                raise RefusedError("is gone")
            return _read(file, location)
        except (RefusedError, SealBrokenError, OSError) as error:
            current = self._index.locate(location.app, location.block_hash)
            if current not in (None, location):  # another context has inherited it meanwhile
                return self.read(current)
            if file is not None:
                self._forget_chunk(location, file, error)
            raise ChunkDamagedError(
                f"a stored KV chunk in {self._folder} is damaged or gone. Compute its tokens again."
            ) from error

    def read_all(
        self, locations: Sequence[ChunkLocation], following: Sequence[ChunkLocation] = ()
    ) -> list[Chunk | ChunkDamagedError]:
        """Read chunks, neighbours in a file together, and return each, or why it cannot be used.

        ``following`` are read soon: the device begins with those in the same files.
        """
        by_file: dict[str, list[int]] = defaultdict(list)
        for place, location in enumerate(locations):
            by_file[location.name].append(place)
        found: dict[int, Chunk] = {}
        for name, places in by_file.items():
            if (file := self._files.get(name)) is None:
                continue
            with suppress(RefusedError, OSError):
                parts = [(locations[place].offset, locations[place].sealed_bytes) for place in places]
                soon = [(each.offset, each.sealed_bytes) for each in following if each.name == name]
                for place, sealed in zip(places, file.read(parts, soon), strict=True):
                    with suppress(SealBrokenError):
                        found[place] = _unsealed(file, locations[place], sealed)
        # Alone what could not be read together: the errors are those of one chunk.
        return [found.get(place) or self._read_or_error(each) for place, each in enumerate(locations)]

    def append(self, owner: Owner, chunks: Sequence[Chunk]) -> int:
        """Store ``chunks``, and return how many of the first ones are stored now.

        Chunks that the app has stored already become references. Chunks of other contexts are dropped where a
        quota would be exceeded; what does not fit even so is not stored. Without a fingerprint nothing is.

        Raises:
            OSError: the disk is full or fails; nothing of it is stored.
        """
        self._usage.touch(owner.name)
        if self._fingerprint is None:
            return 0
        while quota := self._usage.exceeded(owner.app, self._cost(owner, chunks)):
            if not self._drop_one(quota, owner.app, keep=owner.name):
                break
        count = self._fitting(owner, chunks)
        self._write(owner, *self._plan(owner, chunks[:count]))
        return count

    def refer_to(self, owner: Owner, block_hashes: Iterable[bytes]) -> list[bytes]:
        """Note that the context uses these chunks, and return those that are not stored.

        Raises:
            OSError: the disk is full or fails; nothing is noted.
        """
        self._usage.touch(owner.name)
        wanted = dict.fromkeys(block_hashes)
        missing = [each for each in wanted if self._index.locate(owner.app, each) is None]
        known = [each for each in wanted if each not in missing and not self._uses(owner, each)]
        if self._usage.exceeded(owner.app, self._record_cost(owner, [], known)) is None:
            self._write(owner, [], known)
        return missing

    def drop(self, name: str) -> None:
        """Delete the file of a context, if it has one. Others inherit the chunks that they use.

        Raises:
            OSError: it cannot be deleted.
        """
        self._bequeath(name)
        self._disk.remove(self._path(name))
        self._forget_file(name)

    def drop_all(self, names: Iterable[str]) -> None:
        """Delete the files of contexts that are deleted together: none inherits from another.

        Raises:
            OSError: one cannot be deleted; others may be gone.
        """
        for name in names:
            self._disk.remove(self._path(name))
            self._forget_file(name)

    def make_room(self, app: str, added: int) -> Quota | None:
        """Drop chunks until the app may have ``added`` more bytes, or return the quota in the way."""
        in_the_way = None
        for quota in QUOTAS:
            while self._usage.exceeds(quota, app, added):
                if not self._drop_one(quota, app):
                    in_the_way = quota
                    break
        return in_the_way

    def freeing_space(self, write: Callable[[], _T]) -> _T:
        """Return what ``write`` returns. While the disk is full, drop chunks and call it again."""
        while True:
            try:
                return write()
            except OSError as error:
                if error.errno not in _NO_SPACE or not self._drop_one("context_disk_bytes", ""):
                    raise

    def _read_or_error(self, location: ChunkLocation) -> Chunk | ChunkDamagedError:
        try:
            return self.read(location)
        except ChunkDamagedError as error:
            return error

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"

    def _index_record(self, file: RecordFile, name: str, record: Record) -> None:
        app: str = file.header["app"]
        if record.kind == ChunkRecord.CHUNKS:
            for location in _locations(file, name, record):
                self._index.add(location)
        elif record.kind == ChunkRecord.REFERENCES:
            self._index.refer(app, name, unpack_hashes(record.meta))
        elif record.kind == ChunkRecord.VOID:
            for block_hash in unpack_hashes(record.meta):
                found = self._index.locate(app, block_hash)
                if found is not None and found.name == name:
                    self._index.remove(found)

    def _uses(self, owner: Owner, block_hash: bytes) -> bool:
        return self._index.uses(owner.app, owner.name, block_hash)

    def _plan(self, owner: Owner, chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[bytes]]:
        """Return the chunks that are not stored, and the hashes to refer to.

        Where the context begins to use stored chunks, it refers to the new ones as well, in the order of
        ``chunks``: this is the order of :meth:`used_by`.
        """
        unique: dict[bytes, Chunk] = {}
        for chunk in chunks:
            unique.setdefault(chunk.block_hash, chunk)
        new = [each for each in unique.values() if self._index.locate(owner.app, each.block_hash) is None]
        begun = [each for each in unique if not self._uses(owner, each)]
        stored = [each for each in begun if self._index.locate(owner.app, each) is not None]
        return new, begun if stored else []

    def _cost(self, owner: Owner, chunks: Sequence[Chunk]) -> int:
        """Return the bytes that storing ``chunks`` takes."""
        return self._record_cost(owner, *self._plan(owner, chunks))

    def _record_cost(self, owner: Owner, chunks: Sequence[Chunk], references: Sequence[bytes]) -> int:
        """Return the bytes of the records, and of the file if there is none yet."""
        if not chunks and not references:
            return 0
        file = self._files.get(owner.name) or self._new_start(owner)
        cost = len(file.content) if isinstance(file, FileStart) else 0
        if references:
            cost += file.cost(sum(map(len, references)), 0)
        if chunks:
            payload = sum(len(chunk.payload) + file.seal.overhead for chunk in chunks)
            cost += file.cost(entry_bytes(len(chunks)), payload)
        return cost

    def _fitting(self, owner: Owner, chunks: Sequence[Chunk]) -> int:
        """Return how many of the first chunks fit the quotas."""
        fewest, most = 0, len(chunks)
        while fewest < most:
            count = (fewest + most + 1) // 2
            if self._usage.exceeded(owner.app, self._cost(owner, chunks[:count])):
                most = count - 1
            else:
                fewest = count
        return fewest

    def _write(self, owner: Owner, chunks: Sequence[Chunk], references: Sequence[bytes]) -> None:
        """Append both to the file of the context in one go, and index them."""
        if not chunks and not references:
            return
        file = self._files.get(owner.name) or self._create(owner)
        records = []
        if references:
            records.append(NewRecord(ChunkRecord.REFERENCES, b"".join(references)))
        if chunks:
            records.append(_chunk_record(file, chunks))
        try:
            written = file.append(records)
        except RefusedError as refused:
            self._lose(owner.name, refused)
            self._write(owner, chunks, references)
            return
        self._note_size(file, owner.name)
        for record in written:
            self._index_record(file, owner.name, record)

    def _create(self, owner: Owner) -> RecordFile:
        """Create the file of a context, in place of one of another fingerprint."""
        if owner.name in self._foreign:
            self._disk.remove(self._path(owner.name))
            self._forget_file(owner.name)
        file = RecordFile.create(self._disk, self._path(owner.name), self._new_start(owner))
        self._files[owner.name] = file
        self._usage.set_bytes(owner.name, chunks=file.size)
        return file

    def _new_start(self, owner: Owner) -> FileStart:
        header = {"app": owner.app, "context": owner.context_id, "fingerprint": self._fingerprint}
        return FileStart.new(FileKind.CHUNKS, header, self._key)

    def _note_size(self, file: RecordFile, name: str) -> None:
        self._usage.set_bytes(name, chunks=file.size)
        self._disk.stamp(file.path, self._usage.used_ns(name))

    def _drop_one(self, quota: Quota, app: str, keep: str | None = None) -> bool:
        """Drop the chunks of one context, but not those of ``keep``; return whether there was one.

        Those of another fingerprint go first, then those of the context that was used longest ago.
        """
        names = self._usage.with_chunks(None if quota == "context_disk_bytes" else app)
        names = [name for name in names if name != keep or name in self._foreign]
        if not names:
            return False
        chunks = self.chunks
        self.drop(min(names, key=lambda name: name not in self._foreign))
        self.dropped += chunks - self.chunks
        return True

    def _bequeath(self, name: str) -> None:
        """Copy the chunks of a context that others use to the one of those others that was used last."""
        by_heir: dict[str, list[ChunkLocation]] = defaultdict(list)
        for location in self._index.owned_by(name):
            heirs = self._index.others_using(location) & self._files.keys()
            if heirs:
                by_heir[max(heirs, key=self._usage.used_ns)].append(location)
        for heir, locations in by_heir.items():
            for batch in _batches(locations):
                try:
                    self._inherit(heir, batch)
                except (OSError, RefusedError) as error:
                    logger.warning(
                        "KV that contexts share is lost with one of them, and recomputed: %s", error
                    )

    def _inherit(self, heir: str, locations: Sequence[ChunkLocation]) -> None:
        chunks = []
        for location in locations:
            with suppress(SealBrokenError):  # a damaged chunk ends here
                chunks.append(_read(self._files[location.name], location))
        if chunks:
            file = self._files[heir]
            (record,) = file.append([_chunk_record(file, chunks)])
            self._note_size(file, heir)
            for location in _locations(file, heir, record):
                self._index.move(location)

    def _forget_chunk(self, location: ChunkLocation, file: RecordFile, error: Exception) -> None:
        """Forget a chunk that cannot be read, now and after a restart."""
        with self._changes.exclusive():
            if not self._index.remove(location):
                return  # deleted, dropped, or forgotten already
            self.damaged += 1
            if isinstance(error, RefusedError):
                self._lose(location.name, error)
                return
            logger.warning("A KV chunk in %s is damaged and recomputed: %r", file.path, error)
            with suppress(OSError, RefusedError):
                file.append([NewRecord(ChunkRecord.VOID, location.block_hash)])
                self._note_size(file, location.name)

    def _lose(self, name: str, refused: RefusedError) -> None:
        """Set the file of a context aside, which was changed or deleted while it was in use."""
        self._forget_file(name)
        self._refusals.set_aside(self._path(name), refused, "Its KV is recomputed.")

    def _forget_file(self, name: str) -> None:
        self._files.pop(name, None)
        self._foreign.pop(name, None)
        self._index.remove_context(name)
        self._usage.set_bytes(name, chunks=0)


def _chunk_record(file: RecordFile, chunks: Sequence[Chunk]) -> NewRecord:
    meta = pack_entries(chunks, file.seal.overhead)
    payload = [file.seal.seal(chunk.payload, chunk.block_hash) for chunk in chunks]
    return NewRecord(ChunkRecord.CHUNKS, meta, payload)


def _locations(file: RecordFile, name: str, record: Record) -> Iterator[ChunkLocation]:
    app: str = file.header["app"]
    return unpack_entries(app, name, record.meta, record.payload_offset, file.seal.overhead)


def _read(file: RecordFile, location: ChunkLocation) -> Chunk:
    (sealed,) = file.read([(location.offset, location.sealed_bytes)])
    return _unsealed(file, location, sealed)


def _unsealed(file: RecordFile, location: ChunkLocation, sealed: memoryview) -> Chunk:
    payload = file.seal.unseal(sealed, location.block_hash)
    return Chunk(location.block_hash, location.level, location.density, payload)


def _batches(locations: Sequence[ChunkLocation]) -> Iterator[list[ChunkLocation]]:
    batch: list[ChunkLocation] = []
    batch_bytes = 0
    for location in locations:
        batch.append(location)
        batch_bytes += location.sealed_bytes
        if batch_bytes >= _INHERITED_BYTES:
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch
