"""Counts of a runtime."""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.statistics import EngineStatistics
from ..kv.store.store import StoreStatistics
from ..kv.swap.swapper import SwapStatistics


@dataclass(frozen=True, slots=True)
class RuntimeStatistics:
    """A snapshot of a runtime."""

    model_id: str
    engine: EngineStatistics
    arena_bytes: int
    block_tokens: int
    blocks: int
    free_blocks: int
    """Blocks that no request holds."""
    cached_blocks: int
    """Free blocks that the prefix cache still holds."""
    state_rows: int
    """State rows of a hybrid model; 0 for others."""
    free_state_rows: int
    """State rows that no request holds."""
    contexts: SwapStatistics | None
    """What was stored of contexts and loaded again; None if they stay in the KV arena."""
    context_files: StoreStatistics | None
    """What is stored of contexts; None without a folder."""
