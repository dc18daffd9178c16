"""The counters of the engine."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..scheduler.scheduler import SchedulerStatistics

if TYPE_CHECKING:
    from ..scheduler.scheduler import Scheduler
    from .output_processor import OutputProcessor


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
        **dataclasses.asdict(scheduler.statistics()),
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
        rebuilds=rebuilds,
        graph_loads=graph_loads,
        seconds_since_progress=seconds_since_progress,
    )
