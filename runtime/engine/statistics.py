"""The counters of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..scheduler.scheduler import Scheduler
    from .output_processor import OutputProcessor


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """A snapshot of the engine. Counters only grow; ``running`` and ``waiting`` are the present numbers."""

    running: int
    """Sequences that hold KV blocks."""
    waiting: int
    """Sequences that hold no KV blocks."""
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
    preemptions: int
    """Forward passes that were paused between two kernels for a more urgent one."""
    evictions: int
    """Sequences whose KV blocks were taken by more urgent ones, and which were recomputed."""
    rebuilds: int
    """XPUs that were rebuilt because a kernel hung."""
    graph_loads: int
    """Graphs loaded by an NPU that decodes (:attr:`RuntimeConfig.npu_decoding`)."""
    loaded_contexts: int
    """Sequences for which stored chunks were loaded (LLMS §3.3)."""
    recomputed_chunks: int
    """Stored chunks that were computed all the same: it was quicker, or they were damaged."""
    switch_s: float
    """Seconds that these waited, together, from their admission until nothing was being loaded for them."""
    seconds_since_progress: float
    """Seconds since the last kernel or load ended, 0 while the engine is idle: the measure of health."""


def engine_statistics(
    scheduler: Scheduler,
    outputs: OutputProcessor,
    *,
    kernels: int,
    rebuilds: int,
    graph_loads: int,
    seconds_since_progress: float,
) -> EngineStatistics:
    """Return the counters of an engine's ``scheduler`` and ``outputs``, with those that the engine keeps."""
    return EngineStatistics(
        running=scheduler.num_running,
        waiting=scheduler.num_waiting,
        steps=outputs.steps,
        kernels=kernels,
        computed_tokens=outputs.computed,
        cached_tokens=outputs.cached,
        sampled_tokens=outputs.sampled,
        drafted_tokens=outputs.drafted,
        accepted_tokens=outputs.accepted,
        given_tokens=outputs.given,
        answered_calls=outputs.answered_calls,
        finished=outputs.finished,
        cancelled=outputs.cancelled,
        failed=outputs.failed,
        preemptions=scheduler.preemptions,
        evictions=scheduler.evictions,
        rebuilds=rebuilds,
        graph_loads=graph_loads,
        loaded_contexts=scheduler.loaded_sequences,
        recomputed_chunks=scheduler.recomputed_chunks,
        switch_s=scheduler.switch_s,
        seconds_since_progress=seconds_since_progress,
    )
