"""Chunks on their way into the KV arena and out of it, and what the scheduler asks of the swapper."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from ..compression.block_attention import BlockAttention
from .costs import LinearCost

Urgency: TypeAlias = tuple[int, bool, int, int]
"""Sort key of a load: that of the sequence that waits for it, and its place from the end of the prompt. The
lowest is loaded first."""


class LoadState(enum.Enum):
    """How far a load has come. Only the swapper changes it."""

    QUEUED = "queued"
    STARTED = "started"
    """The swapper may write to its block at any time."""
    LOADED = "loaded"
    FAILED = "failed"
    """The chunk is damaged or gone; the content of its block is undefined."""
    WITHDRAWN = "withdrawn"


@dataclass(slots=True, eq=False)
class ChunkLoad:
    """One stored chunk on its way into a KV block (LLMS §3.1, Load). The load holds the block."""

    app: str
    block_hash: bytes
    position: int
    """Place of the block in the block table of every sequence with this prefix."""
    block: int
    io_bytes: int
    """Bytes to read from disk; 0 if the chunk is in memory."""
    urgency: Urgency
    state: LoadState = LoadState.QUEUED


class OutgoingChunk(NamedTuple):
    """A complete block that is to be stored."""

    block_hash: bytes
    position: int
    """Place in the block table: the first chunks of a context bear less compression."""
    block: int


@dataclass(frozen=True, slots=True, eq=False)
class SwapOut:
    """The chunks of an ended request that are not stored yet (LLMS §3.4, ahead-of-time swapping).

    Their blocks are held until they have been copied.
    """

    app: str
    context_id: str
    """Empty if the request names no context."""
    block_hashes: tuple[bytes, ...]
    """The hashes of all complete blocks of the request, those of stored chunks included."""
    chunks: tuple[OutgoingChunk, ...]
    salt: bytes
    """The salt of the app when the request began (:meth:`PrefixSalts.salt_for`)."""
    attention: tuple[BlockAttention, ...] = ()
    """What was measured of the block of each hash (LLMS Eq. 1); empty if nothing was."""


class ChunkSwapper:
    """Moves chunks between the arena and the tiers below it; this base has none, and stores nothing.

    No method waits for a disk or for a copy. The ends of loads, and blocks that have been copied, are
    reported to the listener of the implementation.
    """

    def locate(self, app: str, block_hash: bytes) -> int | None:
        """Return the bytes to read from disk for a chunk: 0 if it is in memory, None if it is not stored."""
        return None

    def load(self, loads: Sequence[ChunkLoad]) -> None:
        """Queue loads by their urgency. One that is queued already goes by its present urgency."""

    def withdraw(self, load: ChunkLoad) -> bool:
        """Return whether a load had not started; it does not take place then, and its end is not reported."""
        return True

    def io_cost(self) -> LinearCost:
        """Return T_IO: seconds of a load and per byte read, at the speed that the disk shows now."""
        return LinearCost(0.0, 0.0)

    def stores(self, app: str, block_hash: bytes) -> bool:
        """Return whether a chunk is stored, or on its way there."""
        return False

    def swap_out(self, swap_out: SwapOut) -> None:
        """Queue chunks to be stored."""


NO_SWAPPER: Final = ChunkSwapper()
"""The swapper of a runtime that stores no chunks."""
