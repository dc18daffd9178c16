"""What the engine counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """A snapshot of the engine. Counters only grow."""

    running: int
    """Sequences that hold KV blocks."""
    waiting: int
    """Sequences that hold none yet."""
    steps: int
    """Forward passes."""
    kernels: int
    """Kernels that those and others, not through yet, consisted of."""
    computed_tokens: int
    """Tokens that went through the model, prompts and recomputation included."""
    cached_tokens: int
    """Prompt tokens that did not have to, because their keys and values were in memory."""
    sampled_tokens: int
    drafted_tokens: int
    """Tokens that were verified; behind the first wrong one of a draft none is."""
    accepted_tokens: int
    """Those that were sampled just so."""
    given_tokens: int
    """Tokens of tools' outputs that followed a call at once (SpecTools, O3)."""
    finished: int
    cancelled: int
    failed: int
    """Requests that ended with an error: shed, late, or their kernels or their sampling failed."""
    preemptions: int
    """Passes that were left between two kernels for a more urgent one."""
    evictions: int
    """Sequences that lost their blocks to more urgent ones and had to compute them again."""
    rebuilds: int
    """XPUs that were started afresh because a kernel hung."""
    seconds_since_progress: float
    """Time since the last kernel ended, 0 while there is nothing to do: the measure of health."""
