"""The counters of the engine."""

from __future__ import annotations

from dataclasses import dataclass

from ..scheduler.scheduler import SchedulerStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatistics(SchedulerStatistics):
    """A snapshot of the engine and of its scheduler."""

    steps: int
    """Completed forward passes."""
    kernels: int
    """Kernels executed so far, including those of forward passes that are not complete."""
    computed_tokens: int
    """Tokens computed by the model, including prompts and recomputation."""
    cached_tokens: int
    """Prompt tokens that were not computed, because their keys and values were in memory."""
    sampled_tokens: int
    drafted_tokens: int
    """Draft tokens that were verified; those after the first wrong one of a draft are not."""
    accepted_tokens: int
    """Draft tokens that were equal to the sampled ones."""
    given_tokens: int
    """Tokens of cached tool outputs that were appended to a sequence after its calls (SpecTools, O3)."""
    answered_calls: int
    """Calls that were answered from the tool cache."""
    finished: int
    cancelled: int
    failed: int
    """Requests that ended with an error: shed, past their deadline, or with a failed kernel or sampler."""
    rebuilds: int
    """XPUs that were rebuilt because a kernel hung."""
    graph_loads: int
    """Graphs loaded by an NPU that decodes (:attr:`RuntimeConfig.npu_decoding`)."""
    seconds_since_progress: float
    """Seconds since the last kernel or load ended, 0 while the engine is idle: the measure of health."""
