"""Takes stored chunks down to lower levels (LLMS §3.2): from what is stored of them, a file at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from agentrt.errors import AgentRTError

from ..compression.codec import WHOLE, BlockCodec
from ..compression.levels import NOT_PROTECTED
from ..saved_contexts import Rows
from ..store.chunk_files import Chunk, ChunkLocation
from ..store.store import ContextStore
from .memory_tier import MemoryTier

_GROUP: Final = 32
"""Chunks in memory that are encoded together."""

_log: Final = logging.getLogger(__name__)

Key: TypeAlias = tuple[str, bytes]
"""An app and a block hash."""


class ChunkLevel(NamedTuple):
    """How a chunk is stored, or is to be."""

    level: int
    density: float
    """0 if it was not measured."""


class Recompressor:
    """Stored chunks that are to get lower levels. Thread-safe.

    As levels are never raised, a chunk is encoded again twice at most.
    """

    def __init__(
        self, rows: Sequence[Rows], codec: BlockCodec, tier: MemoryTier, store: ContextStore | None
    ) -> None:
        """``rows`` is the memory of the arena, of which only the shape is used."""
        self._widths = [cache.shape[1] for cache in rows]
        self._codec = codec
        self._tier = tier
        self._store = store
        self._wanted: dict[Key, ChunkLevel] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many chunks are to get lower levels."""
        return len(self._wanted)

    def level_of(self, key: Key) -> ChunkLevel | None:
        """Return the level that a stored chunk has, or is to get; None if it is not stored. Takes no lock."""
        if (wanted := self._wanted.get(key)) is not None:
            return wanted
        location = None if self._store is None else self._store.locate(*key)
        found = location or self._tier.peek(*key)
        return None if found is None else ChunkLevel(found.level, found.density)

    def want(self, app: str, levels: Mapping[bytes, ChunkLevel]) -> None:
        """Have :meth:`lower_some` give stored chunks these levels."""
        with self._lock:
            self._wanted.update({(app, block_hash): level for block_hash, level in levels.items()})

    def lower_some(self) -> bool:
        """Encode and write the chunks of one file again, or some in memory; return whether any are left.

        Waits for the disk. What cannot be lowered stays as it is until its context is ranked again.
        """
        with self._lock:
            wanted = dict(self._wanted)
        if not wanted:
            return False
        done = list(wanted)[: 1 if self._store else _GROUP]
        try:
            location = None if self._store is None else self._store.locate(*done[0])
            if self._store is None or location is None:
                self._lower_in_memory({key: wanted[key] for key in done})
            else:
                members = self._store.beside(location)
                done += [(each.app, each.block_hash) for each in members]
                self._lower_file(self._store, members, wanted)
        except (AgentRTError, OSError) as error:
            _log.warning("Stored contexts cannot be compressed further now: %s", error)
        with self._lock:
            for key in done:
                if key in wanted and self._wanted.get(key) == wanted[key]:
                    del self._wanted[key]
            return bool(self._wanted)

    def _lower_in_memory(self, wanted: Mapping[Key, ChunkLevel]) -> None:
        chunks = {key: chunk for key in wanted if (chunk := self._tier.peek(*key)) is not None}
        for (app, _), chunk in self._lowered(chunks, wanted).items():
            self._tier.replace(app, chunk)

    def _lower_file(
        self, store: ContextStore, members: Sequence[ChunkLocation], wanted: Mapping[Key, ChunkLevel]
    ) -> None:
        read = zip(members, store.read_all(members), strict=True)
        found = {location: chunk for location, chunk in read if isinstance(chunk, Chunk)}
        chunks = {(location.app, location.block_hash): chunk for location, chunk in found.items()}
        lowered = self._lowered(chunks, wanted)
        if lowered:
            chunks |= lowered
            store.rewrite({each: chunks[each.app, each.block_hash] for each in found})
        for (app, _), chunk in lowered.items():
            self._tier.replace(app, chunk)

    def _lowered(self, chunks: Mapping[Key, Chunk], wanted: Mapping[Key, ChunkLevel]) -> dict[Key, Chunk]:
        """Return those of ``chunks`` that are to have fewer bits, with these."""
        keys = [key for key, chunk in chunks.items() if key in wanted and wanted[key].level < chunk.level]
        if not keys:
            return {}
        rows = [np.empty((len(keys), width), np.uint8) for width in self._widths]
        self._codec.decode([chunks[key].payload for key in keys], WHOLE, rows)
        levels = [wanted[key] for key in keys]
        payloads = self._codec.encode(rows, [each.level for each in levels], [NOT_PROTECTED] * len(keys))
        return {
            key: Chunk(key[1], each.level, payload, each.density)
            for key, each, payload in zip(keys, levels, payloads, strict=True)
        }
