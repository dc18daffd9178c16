"""The settings of a model pool."""

from __future__ import annotations

from pydantic import Field

from agentrt.settings import Settings


class PoolConfig(Settings, strict=True):
    """Limits on what a pool keeps loaded. Immutable."""

    memory_budget_bytes: int | None = Field(default=None, gt=0)
    """Bytes of all loaded models together: weights, activations and KV caches. None takes the memory that is
    available when the pool is created."""

    idle_unload_s: float | None = Field(default=None, gt=0)
    """A model without requests is unloaded after this many seconds; None leaves it loaded until its memory is
    needed."""
