"""Copies, encodes and stores the chunks of ended requests, on threads of its own (LLMS §3.4)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from agentrt.concurrency.worker import Worker
from agentrt.errors import AgentRTError, ContextNotFoundError

from ..compression.codec import AS_IT_IS, BlockCodec
from ..saved_contexts import Rows
from ..store.chunk_files import Chunk
from .chunks import OutgoingChunk, SwapOut
from .memory_tier import MemoryTier
from .ranking import ChunkRanking
from .recompressor import ChunkLevel, Key

_GROUP: Final = 32
"""Chunks that are copied, encoded and stored together."""
_MAX_UNWRITTEN_BYTES: Final = 256 * 2**20
"""Bytes that may wait for the disk. A disk that is slower than the requests loses the chunks beyond it."""

_log: Final = logging.getLogger(__name__)

OnCopied: TypeAlias = Callable[[Sequence[int]], None]
WriteChunks: TypeAlias = Callable[[SwapOut, Sequence[Chunk]], Sequence[Chunk]]
"""Stores chunks of a request, and returns those that were new; called with none as well. Raises AgentRTError
or OSError: they are not stored."""
IsCurrent: TypeAlias = Callable[[str, bytes], bool]
"""Whether a salt is still that of an app: all that it had before was deleted otherwise."""


class ChunkSaver:
    """Two threads: one copies and encodes, and never waits for the disk, the other one writes. Thread-safe.

    So blocks are released at the speed of the memory, however slow the disk is.
    """

    def __init__(
        self,
        rows: Sequence[Rows],
        codec: BlockCodec,
        tier: MemoryTier,
        write: WriteChunks | None,
        ranking: ChunkRanking | None = None,
        is_current: IsCurrent = lambda app, salt: True,
    ) -> None:
        """``rows`` is the memory of the arena. Without ``write`` chunks are in the memory tier only.

        ``ranking`` says how they are compressed; without it they are as they are in the arena.
        """
        self._is_current = is_current
        self._ranking = ranking
        self._rows = rows
        self._codec = codec
        self._tier = tier
        self._write = write
        self._encoding = Worker("agentrt-swap-out")
        self._writing = Worker("agentrt-store")
        self._on_the_way: dict[Key, ChunkLevel | None] = {}
        """Chunks that are to be stored and are not yet, with their levels once these are chosen."""
        self._on_copied: OnCopied = lambda blocks: None
        self._lock = threading.Lock()  # of the following, which both threads change
        self._unwritten_bytes = 0
        self._warned = False
        self.saved = self.saved_bytes = self.dropped = 0

    def start(self, on_copied: OnCopied) -> None:
        """Call ``on_copied``, on a thread of this object, with blocks that have been copied."""
        self._on_copied = on_copied

    def is_saving(self, app: str, block_hash: bytes) -> bool:
        """Whether a chunk is on its way. Takes no lock."""
        return (app, block_hash) in self._on_the_way

    @property
    def on_the_way(self) -> int:
        """Chunks that are to be stored, or compressed further, and are not yet."""
        lowered = 0 if self._ranking is None else len(self._ranking.recompressor)
        return len(self._on_the_way) + lowered

    def save(self, swap_out: SwapOut) -> None:
        """Queue the chunks of an ended request."""
        self._on_the_way.update({(swap_out.app, chunk.block_hash): None for chunk in swap_out.chunks})
        self._encoding.submit(partial(self._encode, swap_out))

    def close(self, timeout_s: float) -> bool:
        """Store what is queued and end the threads, each within ``timeout_s``; return whether all is done."""
        encoded = self._encoding.close(timeout_s)
        if encoded:
            self._rows = ()  # the memory of the arena
        return encoded and self._writing.close(timeout_s)

    def _encode(self, swap_out: SwapOut) -> None:
        chunks, levels = swap_out.chunks, self._levels(swap_out)
        # A context without new chunks has an empty group, since it counts as used, too.
        for begin in range(0, max(1, len(chunks)), _GROUP):
            group = chunks[begin : begin + _GROUP]
            try:
                encoded = self._encode_group(group, levels[begin : begin + _GROUP])
            except Exception:  # noqa: BLE001 - the blocks of the next groups are still held
                _log.exception("Chunks could not be encoded and are not stored. Please report this.")
                self._finish(swap_out, group)
                continue
            for chunk in encoded:
                self._tier.put(swap_out.app, chunk)
            if not (is_current := self._is_current(swap_out.app, swap_out.salt)):
                # Checked behind the put: whoever deletes empties the tier behind the renewal of the salt.
                for chunk in encoded:
                    self._tier.forget(swap_out.app, chunk.block_hash)
            if is_current and self._write is not None:
                self._queue_write(self._write, swap_out, group, encoded)
            else:
                self._count(encoded if is_current else ())
                self._finish(swap_out, group)
        if self._ranking is not None and self._ranking.recompressor:
            self._writing.submit(self._lower_some)

    def _levels(self, swap_out: SwapOut) -> list[ChunkLevel]:
        """Return the levels of the chunks of an ended request."""
        if self._ranking is None:
            return [ChunkLevel(AS_IT_IS, 0.0)] * len(swap_out.chunks)
        levels = self._ranking.rank(swap_out, self._on_the_way)
        self._on_the_way.update({(swap_out.app, each): level for each, level in levels.items()})
        return [levels[chunk.block_hash] for chunk in swap_out.chunks]

    def _lower_some(self) -> None:
        """Have stored chunks compressed further: file by file, so that new chunks are written between."""
        if self._ranking is not None and self._ranking.recompressor.lower_some():
            self._writing.submit(self._lower_some)

    def _encode_group(self, group: Sequence[OutgoingChunk], levels: Sequence[ChunkLevel]) -> list[Chunk]:
        blocks = [chunk.block for chunk in group]
        try:
            copies = [cache[blocks] for cache in self._rows]
        finally:
            self._on_copied(blocks)
        payloads = self._codec.encode(
            copies, [each.level for each in levels], [chunk.position for chunk in group]
        )
        return [
            Chunk(chunk.block_hash, each.level, payload, each.density)
            for chunk, each, payload in zip(group, levels, payloads, strict=True)
        ]

    def _queue_write(
        self, write: WriteChunks, swap_out: SwapOut, group: Sequence[OutgoingChunk], encoded: list[Chunk]
    ) -> None:
        size = sum(len(chunk.payload) for chunk in encoded)
        with self._lock:
            fits = self._unwritten_bytes + size <= _MAX_UNWRITTEN_BYTES
            self._unwritten_bytes += size if fits else 0
        if not fits:
            self._drop(swap_out, group, "the disk is slower than the requests")
            return

        def write_group() -> None:
            try:
                self._count(write(swap_out, encoded))
            except ContextNotFoundError:
                pass  # deleted meanwhile
            except (AgentRTError, OSError) as error:
                self._drop(swap_out, group, str(error))
            finally:
                with self._lock:
                    self._unwritten_bytes -= size
                self._finish(swap_out, group)

        self._writing.submit(write_group)

    def _count(self, encoded: Sequence[Chunk]) -> None:
        self.saved += len(encoded)
        self.saved_bytes += sum(len(chunk.payload) for chunk in encoded)

    def _drop(self, swap_out: SwapOut, group: Sequence[OutgoingChunk], reason: str) -> None:
        """Give up storing a group: its requests go on, and recompute it when they need it again."""
        self._finish(swap_out, group)
        with self._lock:
            self.dropped += len(group)
            warned, self._warned = self._warned, True
        if not warned:
            _log.warning(
                "Contexts are not stored (%s), and are computed again once the memory has lost them. Free "
                "disk space in RuntimeConfig.context_folder, or use a folder on a faster disk.",
                reason,
            )

    def _finish(self, swap_out: SwapOut, group: Sequence[OutgoingChunk]) -> None:
        for chunk in group:
            self._on_the_way.pop((swap_out.app, chunk.block_hash), None)
