"""The swapper: chunks between the KV arena, the memory tier and the store (LLMS §3.4)."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from agentrt.errors import AgentRTError, ChunkDamagedError

from ..compression.codec import BlockCodec
from ..saved_contexts import Rows
from ..store.chunk_files import Chunk, ChunkLocation
from ..store.store import ContextStore, StoredContext
from .chunk_loader import ChunkLoader, OnEnded
from .chunk_saver import ChunkSaver, IsCurrent, OnCopied
from .chunks import ChunkLoad, ChunkSwapper, SwapOut
from .costs import LinearCost
from .memory_tier import MemoryTier
from .ranking import ChooseLevels, ChunkRanking
from .recompressor import Recompressor

PREFIX_KIND: Final = "prefix"
"""``header["kind"]`` of contexts that keep chunks of requests which name no context; they have no text."""
MAX_PREFIX_CONTEXTS: Final = 64
"""Such contexts of one app; beyond it the one that was used longest ago is deleted."""
_CLOSE_S: Final = 10.0

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SwapStatistics:
    """A snapshot of the tiers below the KV arena. Counters only grow."""

    chunks_out: int
    """Chunks that were stored."""
    bytes_out: int
    chunks_in: int
    """Chunks that were loaded into the arena."""
    bytes_in: int
    damaged_chunks: int
    """Chunks that could not be loaded, and were recomputed."""
    dropped_chunks: int
    """Chunks that were not stored: the disk is full, fails, or is too slow."""
    waiting_chunks: int
    """Chunks that are on their way to the store now, or are to be compressed further there."""
    memory_bytes: int
    """Bytes of chunks in the memory tier now."""
    evicted_chunks: int
    """Chunks that the memory tier has forgotten for others."""


class ContextFiles:
    """The contexts of a store, by the requests whose chunks they keep. Used on one thread.

    A request that names no context continues the one whose last chunk is the latest of its own, as the next
    turn of a conversation does. Otherwise it begins a new one, which refers to the chunks of a common prefix.
    """

    def __init__(self, store: ContextStore) -> None:
        """Use the contexts of ``store``."""
        self._store = store

    def write(self, swap_out: SwapOut, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Store ``chunks`` of ``swap_out``, or only note that its context was used. Waits for the disk.

        Returns:
            Those that were stored: not what is stored already or exceeds a quota, and none of a context, or
            of an app, all of whose contexts were deleted meanwhile.

        Raises:
            ContextStoreError: the disk is full or fails.
            ContextNotFoundError: the context is being deleted.
        """
        if not self._store.salts.is_current(swap_out.app, swap_out.salt):
            return ()
        context = self._context_of(swap_out, create=bool(chunks))
        if context is None:
            return ()
        missing = set(context.refer_to(swap_out.block_hashes))
        new = [chunk for chunk in chunks if chunk.block_hash in missing]
        stored = context.append_chunks(new) if new else 0
        context.touch()
        return new[:stored]

    def _context_of(self, swap_out: SwapOut, *, create: bool) -> StoredContext | None:
        if swap_out.context_id:
            return self._store.get(swap_out.app, swap_out.context_id)
        prefixes = [
            context
            for context in self._store.contexts(swap_out.app)
            if context.header.get("kind") == PREFIX_KIND
        ]
        places = {block_hash: place for place, block_hash in enumerate(swap_out.block_hashes)}
        latest = [(places.get(used[-1], -1), each) for each in prefixes if (used := each.block_hashes)]
        place, continued = max(latest, key=lambda found: found[0], default=(-1, None))
        if place >= 0 or not create:
            return continued if place >= 0 else None
        for context in prefixes[: max(0, len(prefixes) - MAX_PREFIX_CONTEXTS + 1)]:
            self._store.delete(swap_out.app, context.id)
        id = f"kv_{secrets.token_hex(16)}"
        return self._store.create(swap_out.app, id, {"kind": PREFIX_KIND}, salt=swap_out.salt)


class Swapper(ChunkSwapper):
    """Over a memory tier and a store. Thread-safe.

    An arena block that is being loaded or copied must stay held until it is reported.
    """

    def __init__(
        self,
        rows: Sequence[Rows],
        codec: BlockCodec,
        *,
        memory_bytes: int,
        available_memory: Callable[[], int | None] | None = None,
        store: ContextStore | None,
        measure: Callable[[], LinearCost | None] = lambda: None,
        levels: ChooseLevels | None = None,
        is_current: IsCurrent = lambda app, salt: True,
    ) -> None:
        """``rows`` is the memory of the arena, by cache.

        ``memory_bytes`` and ``available_memory`` are the budget of the memory tier. Without a ``store``
        contexts are lost with this object. ``measure`` measures T_IO of the store, once. ``levels`` chooses
        how chunks are compressed, if they are. ``is_current`` says whether the chunks of a request may still
        be kept.
        """
        self._tier = MemoryTier(memory_bytes, available_memory)
        self._store = store
        write = None if store is None else ContextFiles(store).write
        self._loader = ChunkLoader(rows, codec, self._read, measure)
        ranking = (
            None if levels is None else ChunkRanking(levels, Recompressor(rows, codec, self._tier, store))
        )
        self._saver = ChunkSaver(rows, codec, self._tier, write, ranking, is_current)

    def start(self, on_ended: OnEnded, on_copied: OnCopied) -> None:
        """Start the threads, which report loads that have ended and blocks that have been copied."""
        self._saver.start(on_copied)
        self._loader.start(on_ended)

    def locate(self, app: str, block_hash: bytes) -> int | None:
        """See :meth:`ChunkSwapper.locate`."""
        if (app, block_hash) in self._tier:
            return 0
        location = None if self._store is None else self._store.locate(app, block_hash)
        return None if location is None else location.sealed_bytes

    def stores(self, app: str, block_hash: bytes) -> bool:
        """See :meth:`ChunkSwapper.stores`."""
        if self._saver.is_saving(app, block_hash):
            return True
        if self._store is None:
            return (app, block_hash) in self._tier
        return self._store.locate(app, block_hash) is not None

    def load(self, loads: Sequence[ChunkLoad]) -> None:
        """See :meth:`ChunkSwapper.load`."""
        self._loader.load(loads)

    def withdraw(self, load: ChunkLoad) -> bool:
        """See :meth:`ChunkSwapper.withdraw`."""
        return self._loader.withdraw(load)

    def io_cost(self) -> LinearCost:
        """See :meth:`ChunkSwapper.io_cost`."""
        return self._loader.io_cost()

    def swap_out(self, swap_out: SwapOut) -> None:
        """See :meth:`ChunkSwapper.swap_out`."""
        self._saver.save(swap_out)

    def forget_deleted(self, app: str) -> None:
        """Drop the chunks of ``app`` in memory that the store does not have: those of deleted contexts.

        Without a store all chunks of the app are dropped.
        """
        for block_hash in self._tier.hashes(app):
            if self._store is None or self._store.locate(app, block_hash) is None:
                self._tier.forget(app, block_hash)

    def statistics(self) -> SwapStatistics:
        """Return the counters. Cheap, and callable from any thread at any time."""
        return SwapStatistics(
            chunks_out=self._saver.saved,
            bytes_out=self._saver.saved_bytes,
            chunks_in=self._loader.loaded,
            bytes_in=self._loader.loaded_bytes,
            damaged_chunks=self._loader.failed,
            dropped_chunks=self._saver.dropped,
            waiting_chunks=self._saver.on_the_way,
            memory_bytes=self._tier.payload_bytes,
            evicted_chunks=self._tier.evicted,
        )

    def close(self) -> None:
        """Drop the loads, store what is queued, and end the threads. May be called again.

        Call it when nothing runs on the arena any more.
        """
        if not all([self._loader.close(_CLOSE_S), self._saver.close(_CLOSE_S)]):
            _log.warning("The disk of the contexts does not respond; the last ones may not be stored.")
        self._tier.clear()

    def _read(self, loads: Sequence[ChunkLoad], following: Sequence[ChunkLoad]) -> list[Chunk | AgentRTError]:
        """Return chunks from memory or from the store; called on the thread that loads."""
        found: dict[ChunkLoad, Chunk | AgentRTError] = {}
        stored: dict[ChunkLoad, ChunkLocation] = {}
        for load in loads:
            if (chunk := self._tier.get(load.app, load.block_hash)) is not None:
                found[load] = chunk
            elif self._store and (location := self._store.locate(load.app, load.block_hash)) is not None:
                stored[load] = location
            else:
                found[load] = ChunkDamagedError(
                    "a chunk was dropped after its load was planned. It is computed again."
                )
        if self._store is not None:
            located = (self._store.locate(load.app, load.block_hash) for load in following if load.io_bytes)
            soon = [location for location in located if location is not None]
            for load, read in zip(stored, self._store.read_all(list(stored.values()), soon), strict=True):
                found[load] = read
                if isinstance(read, Chunk):
                    self._keep(self._store, load, read)
        return [found[load] for load in loads]

    def _keep(self, store: ContextStore, load: ChunkLoad, chunk: Chunk) -> None:
        """Keep a chunk in memory, unless it was deleted while it was read."""
        self._tier.put(load.app, chunk)
        if store.locate(load.app, load.block_hash) is None:
            self._tier.forget(load.app, load.block_hash)
