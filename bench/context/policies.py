"""The sides of the bench: how contexts are kept on one engine (LLMS §4, baselines and ablation)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class SwapPolicy:
    """How contexts leave the memory and come back."""

    name: str
    stores: bool = True
    """Whether what leaves the memory is written to disk; otherwise it is dropped and computed again."""
    ahead_of_time: bool = True
    """Whether contexts are written when a call ends, rather than when their memory is needed."""
    whole_contexts: bool = False
    """Whether a context leaves the memory as a whole, rather than chunk by chunk."""
    recompute: bool = True
    """Whether a part of a context is computed while another one is read."""
    precision: str = "u8"
    """Of the keys and values in memory and on disk."""
    compression: float | None = None
    """Bytes of stored chunks, as a share of those at 8 bits; None stores them as they are."""
    arena: float | None = None
    """KV arena, in contexts of full length; the rest of the memory has stored chunks. None: it has none."""

    def settings(self, budget_bytes: int, context_bytes: float) -> dict[str, Any]:
        """Return the settings of a runtime with ``budget_bytes`` bytes of memory for contexts.

        ``context_bytes`` are those of a context of full length at 8 bits.
        """
        arena = budget_bytes if self.arena is None else min(budget_bytes, int(self.arena * context_bytes))
        settings: dict[str, Any] = {
            "memory_bytes": arena,
            "context_memory_bytes": budget_bytes - arena,
            "kv_cache_precision": self.precision,
        }
        if self.compression is not None:
            settings["context_compression"] = self.compression
        return settings


OURS: Final = SwapPolicy("ours")
"""The runtime's default settings."""
VLLM_SQ: Final = SwapPolicy("VLLM-SQ", ahead_of_time=False, recompute=False)
VLLM_S: Final = replace(VLLM_SQ, name="VLLM-S", precision="f16")
SWAPPING: Final = replace(VLLM_S, name="Swapping", whole_contexts=True)
LMK: Final = replace(SWAPPING, name="LMK", stores=False)

BASELINES: Final = (VLLM_SQ, VLLM_S, SWAPPING, LMK)

WITHOUT_RECOMPUTE: Final = replace(OURS, name="ours without recompute", recompute=False)
ON_DEMAND: Final = replace(OURS, name="ours without life cycle", ahead_of_time=False)
COMPRESSED: Final = replace(OURS, name="ours, compressed on disk", compression=0.5)
IN_MEMORY: Final = replace(COMPRESSED, name="ours, compressed in memory", arena=1.25)
"""The arena holds the context that runs; the others are compressed in the rest of the memory."""

ABLATION: Final = (WITHOUT_RECOMPUTE, ON_DEMAND, COMPRESSED, IN_MEMORY)
