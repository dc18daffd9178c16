"""KV chunks as the store keeps them: opaque bytes under the hash of the block that they hold."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

HASH_BYTES: Final = 16
_ENTRY: Final = struct.Struct(f"<{HASH_BYTES}sBxxxdI")


class ChunkRecord(enum.IntEnum):
    """The kinds of records in a file of chunks."""

    CHUNKS = 1
    """Meta: an entry for each chunk. Payload: the chunks, each sealed for its hash."""
    REFERENCES = 2
    """Meta: hashes of chunks that the context uses and that are in files of other contexts of its app."""
    VOID = 3
    """Meta: hashes of chunks in this file that were found damaged."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The KV of one block, encoded."""

    block_hash: bytes
    """The hash of the block (:class:`BlockHashes`), :data:`HASH_BYTES` long. Chunks of another kind, such as
    the state behind a block, are stored under hashes of their own."""
    level: int
    """How it is encoded, 0 to 255."""
    density: float
    """Attention mass per token (LLMS, Eq. 1)."""
    payload: bytes

    def __post_init__(self) -> None:
        """Check the length of the hash.

        Raises:
            AssertionError: it is wrong. Always a bug.
        """
        if len(self.block_hash) != HASH_BYTES:
            raise AssertionError(f"a hash of {len(self.block_hash)} bytes, not {HASH_BYTES}")


@dataclass(frozen=True, slots=True)
class ChunkLocation:
    """Where a chunk is stored, and what is known of it without reading it."""

    app: str
    block_hash: bytes
    level: int
    density: float
    payload_bytes: int
    name: str
    """The name of the context whose file it is in."""
    offset: int
    sealed_bytes: int


def pack_entries(chunks: Sequence[Chunk], overhead: int) -> bytes:
    """Return the meta of a record of ``chunks``, to each of which sealing adds ``overhead`` bytes."""
    return b"".join(
        _ENTRY.pack(chunk.block_hash, chunk.level, chunk.density, len(chunk.payload) + overhead)
        for chunk in chunks
    )


def unpack_entries(app: str, name: str, meta: bytes, offset: int, overhead: int) -> Iterator[ChunkLocation]:
    """Yield where the chunks of a record are whose payload begins at ``offset``."""
    for block_hash, level, density, sealed_bytes in _ENTRY.iter_unpack(meta):
        yield ChunkLocation(
            app, block_hash, level, density, sealed_bytes - overhead, name, offset, sealed_bytes
        )
        offset += sealed_bytes


def entry_bytes(chunks: int) -> int:
    """Return the bytes of the meta of a record of so many chunks."""
    return chunks * _ENTRY.size


def unpack_hashes(meta: bytes) -> Iterator[bytes]:
    """Yield the hashes in the meta of a record of references or of damaged chunks."""
    for start in range(0, len(meta), HASH_BYTES):
        yield meta[start : start + HASH_BYTES]
