"""What an engine works on, and what its KV blocks are held for, as plain data for other threads."""

from __future__ import annotations

from dataclasses import dataclass

from ..scheduler.block_manager import HeldContext
from .request_status import RequestStatus


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """A snapshot, made on the engine thread."""

    requests: tuple[RequestStatus, ...] = ()
    """Those that have not ended, the ones that are served next first."""
    held_contexts: tuple[HeldContext, ...] = ()
    """Contexts whose blocks are held for their next turns while tools run."""
    swapped_blocks: frozenset[int] = frozenset()
    """Blocks that chunks of contexts are being loaded into, or stored from."""
    free_blocks: int = 0
    """Blocks that nothing holds."""
    cached_blocks: int = 0
    """Free blocks that the prefix cache still holds."""
