"""What an engine works on, what its KV blocks are held for, and its counters, as plain data for others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from agentrt.priority import Priority

from ..scheduler.block_manager import AwaitedContext
from ..scheduler.scheduler import SchedulerStatistics
from ..scheduler.sequence import SequenceState
from .engine_request import EngineRequest


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """A snapshot of one request, made on the engine thread. Times are seconds on the platform's clock."""

    request_id: str
    app: str
    context_id: str
    reactive: bool
    state: SequenceState
    promoted: bool
    """Whether it has waited so long that it is served first among its level (aging)."""
    arrived: float
    first_token: float | None
    prompt_tokens: int
    computed_tokens: int
    sampled_tokens: int
    """Tokens behind the prompt, those of tool outputs included."""
    tokens_left: int
    """Tokens that may follow at most."""
    prefill_left_s: float
    """Estimated seconds until it can decode if it runs alone from now on; 0 once it decodes."""
    blocks: tuple[int, ...]
    """Its block table."""

    @classmethod
    def of(cls, request: EngineRequest, prefill_left_s: float) -> Self:
        """Return the present state of ``request``. Call it on the engine thread."""
        sequence = request.sequence
        return cls(
            request_id=request.request_id,
            app=sequence.app,
            context_id=sequence.context_id,
            reactive=sequence.priority is Priority.REACTIVE,
            state=sequence.state,
            promoted=sequence.promoted,
            arrived=sequence.arrived,
            first_token=request.first_token,
            prompt_tokens=sequence.prompt_tokens,
            computed_tokens=sequence.computed_tokens,
            sampled_tokens=len(sequence.tokens) - sequence.prompt_tokens,
            tokens_left=request.max_total_tokens - len(sequence.tokens),
            prefill_left_s=prefill_left_s,
            blocks=tuple(sequence.blocks),
        )


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """A snapshot, made on the engine thread."""

    requests: tuple[RequestStatus, ...] = ()
    """Those that have not ended, the ones that are served next first."""
    awaited_contexts: tuple[AwaitedContext, ...] = ()
    """Contexts whose blocks are kept for their next turns while tools run."""
    swapped_blocks: frozenset[int] = frozenset()
    """Blocks that chunks of contexts are being loaded into, or stored from."""
    free_blocks: int = 0
    """Blocks that nothing holds, and that are kept for no next turn."""
    cached_blocks: int = 0
    """Free blocks that the prefix cache still holds."""


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
