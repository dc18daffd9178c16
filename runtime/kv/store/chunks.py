"""KV chunks as the store keeps them: opaque bytes under the hash of the block that they hold."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

HASH_BYTES: Final = 16
_ENTRY: Final = struct.Struct(f"<{HASH_BYTES}sBxxxII")


@dataclass(frozen=True, slots=True)
class Chunk:
    """The KV of one block, encoded."""

    block_hash: bytes
    """The hash of the block (:class:`BlockHashes`), :data:`HASH_BYTES` long. Chunks of another kind, such as
    the state behind a block, are stored under hashes of their own."""
    level: int
    """How it is encoded, 0 to 255."""
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
    payload_bytes: int
    file: str
    """The number of its file."""
    offset: int
    sealed_bytes: int


def pack_locations(locations: Iterable[ChunkLocation]) -> bytes:
    """Return what the database keeps of chunks of one file."""
    return b"".join(
        _ENTRY.pack(each.block_hash, each.level, each.offset, each.sealed_bytes) for each in locations
    )


def unpack_locations(app: str, file: str, entries: bytes, overhead: int) -> Iterator[ChunkLocation]:
    """Yield the chunks of a file, to each of which sealing has added ``overhead`` bytes."""
    for block_hash, level, offset, sealed_bytes in _ENTRY.iter_unpack(entries):
        payload_bytes = sealed_bytes - overhead
        yield ChunkLocation(app, block_hash, level, payload_bytes, file, offset, sealed_bytes)
