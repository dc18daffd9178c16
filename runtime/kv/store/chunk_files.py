"""KV chunks, and their files: each is written once, with the chunks of one append, and deleted as a whole."""

from __future__ import annotations

import os
import re
import secrets
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from agentrt.own_files import NO_LINKS, open_regular

from .sealing import SealBrokenError, Sealer

HASH_BYTES: Final = 16
_ENTRY: Final = struct.Struct(f"<{HASH_BYTES}sBxeII")
_SUFFIX: Final = ".chunks"
_NAME: Final = re.compile(rf"[0-9a-f]{{32}}{re.escape(_SUFFIX)}")

Extent: TypeAlias = tuple[int, int]
"""Begin and end of bytes in a file."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The KV of one block, encoded."""

    block_hash: bytes
    """The hash of the block (:class:`BlockHashes`), :data:`HASH_BYTES` long. Chunks of another kind, such as
    the state behind a block, are stored under hashes of their own."""
    level: int
    """How it is encoded, 0 to 255."""
    payload: bytes
    density: float = field(default=0.0, compare=False)
    """Its information density (LLMS Eq. 1) when it was encoded, kept as a half; 0 if it was not measured."""


@dataclass(frozen=True, slots=True)
class ChunkLocation:
    """Where a chunk is stored, and what is known of it without reading it."""

    app: str
    block_hash: bytes
    level: int
    file: str
    """The number of its file."""
    offset: int
    sealed_bytes: int
    density: float = field(default=0.0, compare=False)
    """See :class:`Chunk`."""


def pack_locations(locations: Iterable[ChunkLocation]) -> bytes:
    """Return what the database keeps of chunks of one file."""
    return b"".join(
        _ENTRY.pack(each.block_hash, each.level, each.density, each.offset, each.sealed_bytes)
        for each in locations
    )


def unpack_locations(app: str, file: str, entries: bytes) -> list[ChunkLocation]:
    """Return the chunks of a file."""
    return [
        ChunkLocation(app, block_hash, level, file, offset, sealed_bytes, density)
        for block_hash, level, density, offset, sealed_bytes in _ENTRY.iter_unpack(entries)
    ]


class Disk:
    """The operations on the files, so that a test can make each fail, and a bench slow them.

    The files are for their user only. Every method may raise :class:`OSError`.
    """

    def write(self, path: Path, content: bytes, *, synced: bool = False) -> None:
        """Create a file with ``content``; if ``synced``, wait until it is on the device."""
        with _opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if synced:
                os.fsync(descriptor)

    def read(self, path: Path, extent: Extent, soon: Extent | None = None) -> bytes:
        """Return the bytes of a file from a begin to an end, or to its own end.

        The system begins to read those of ``soon``, where it can.
        """
        with _opened(path, os.O_RDONLY) as descriptor:
            if soon is not None and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(descriptor, soon[0], soon[1] - soon[0], os.POSIX_FADV_WILLNEED)
            os.lseek(descriptor, extent[0], os.SEEK_SET)
            return os.read(descriptor, extent[1] - extent[0])

    def overwrite(self, path: Path, begin: int, content: bytes) -> None:
        """Write ``content`` over what is there from ``begin`` on."""
        with _opened(path, os.O_WRONLY) as descriptor:
            os.lseek(descriptor, begin, os.SEEK_SET)
            os.write(descriptor, content)
            os.fsync(descriptor)

    def remove(self, path: Path) -> None:
        """Delete a file, if there is one."""
        path.unlink(missing_ok=True)


class ChunkFiles:
    """The files ``NUMBER.chunks`` of a folder. Without state, and so thread-safe.

    A file is its chunks, one behind the other; which they are is in the database. Every chunk is sealed for
    its hash by the seal of its file. Methods raise :class:`OSError` where the disk fails, and nothing of what
    they write is left then.
    """

    def __init__(self, folder: Path, sealer: Sealer, disk: Disk) -> None:
        """``folder`` exists."""
        self._folder = folder
        self._sealer = sealer
        self._disk = disk
        self.overhead: Final = sealer(b"").overhead
        """Bytes that a chunk takes beside its payload."""

    def sizes(self) -> dict[str, int]:
        """Return the size of each file by its number."""
        with os.scandir(self._folder) as found:
            return {
                entry.name.removesuffix(_SUFFIX): entry.stat(follow_symlinks=False).st_size
                for entry in found
                if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            }

    def write(self, app: str, chunks: Sequence[Chunk]) -> list[ChunkLocation]:
        """Write a file, and return where each chunk is.

        It is not synced: a turn would wait for it, and what a power failure takes is computed again.
        """
        file = secrets.token_hex(16)
        seal = self._sealer(file.encode())
        sealed = [seal.seal(chunk.payload, chunk.block_hash) for chunk in chunks]
        try:
            self._disk.write(self._path(file), b"".join(sealed))
        except BaseException:
            with suppress(OSError):
                self.remove(file)
            raise
        locations = []
        offset = 0
        for chunk, part in zip(chunks, sealed, strict=True):
            locations.append(
                ChunkLocation(app, chunk.block_hash, chunk.level, file, offset, len(part), chunk.density)
            )
            offset += len(part)
        return locations

    def read(
        self, locations: Sequence[ChunkLocation], following: Sequence[ChunkLocation] = ()
    ) -> dict[ChunkLocation, Chunk]:
        """Return the chunks that can be read and are whole. Those of one file are read together.

        ``following`` are read soon: the device begins with them.
        """
        found: dict[ChunkLocation, Chunk] = {}
        soon = {file: _extent(members) for file, members in _by_file(following).items()}
        for file, members in _by_file(locations).items():
            extent = _extent(members)
            with suppress(OSError):
                content = memoryview(self._disk.read(self._path(file), extent, soon.pop(file, None)))
                found.update(self._unsealed(file, members, content, extent[0]))
        for file, extent in soon.items():
            with suppress(OSError):
                self._disk.read(self._path(file), (0, 0), extent)
        return found

    def erase(self, location: ChunkLocation) -> None:
        """Overwrite a chunk."""
        self._disk.overwrite(self._path(location.file), location.offset, bytes(location.sealed_bytes))

    def remove(self, file: str) -> None:
        """Delete the file of that number, if there is one."""
        self._disk.remove(self._path(file))

    def _path(self, file: str) -> Path:
        return self._folder / f"{file}{_SUFFIX}"

    def _unsealed(
        self, file: str, members: Sequence[ChunkLocation], content: memoryview, begin: int
    ) -> Iterator[tuple[ChunkLocation, Chunk]]:
        """Yield the chunks of a file that are whole; ``content`` is the file from ``begin`` on."""
        seal = self._sealer(file.encode())
        for each in members:
            at = each.offset - begin
            with suppress(SealBrokenError):
                payload = seal.unseal(content[at : at + each.sealed_bytes], each.block_hash)
                yield each, Chunk(each.block_hash, each.level, payload, each.density)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = open_regular(path, flags | NO_LINKS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _by_file(locations: Sequence[ChunkLocation]) -> dict[str, list[ChunkLocation]]:
    found = defaultdict(list)
    for location in locations:
        found[location.file].append(location)
    return found


def _extent(members: Sequence[ChunkLocation]) -> Extent:
    """Return where the first chunk begins and the last one ends."""
    return min(each.offset for each in members), max(each.offset + each.sealed_bytes for each in members)
