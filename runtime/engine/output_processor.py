"""Applies sampled tokens to requests: text, draft tokens, tool calls, end of generation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from typing import Final

from agentrt.errors import (
    AgentRTError,
    DeadlineExceededError,
    EngineError,
    OverloadedError,
    PromptTooLongError,
)
from agentrt.priority import Priority

from ..scheduler.batch import Batch, Branch, ScheduledChunk
from ..scheduler.draft import MAX_DRAFT_TOKENS
from ..scheduler.scheduler import Scheduler
from ..scheduler.sequence import Sequence, SequenceState
from ..toolcache.tool_turn import ToolTurn
from .engine_request import EngineRequest, StopReason
from .engine_status import EngineStatus, RequestStatus
from .logprobs import Logits
from .sampler import sample_batch
from .trace import Trace, TracedAnswer, TracedRequest

_COUNTERS: Final = (
    *("steps", "computed_tokens", "cached_tokens", "sampled_tokens", "drafted_tokens", "accepted_tokens"),
    *("given_tokens", "answered_calls", "finished", "cancelled", "failed"),
)


class OutputProcessor:
    """The requests that have not ended, by the id of their sequence. Used on the engine thread only."""

    def __init__(self, scheduler: Scheduler, now: Callable[[], float]) -> None:
        """``now`` is the platform's clock."""
        self._scheduler = scheduler
        self._now = now
        self._requests: dict[int, EngineRequest] = {}
        self.counters = dict.fromkeys(_COUNTERS, 0)
        """By their names in :class:`EngineStatistics`."""
        self.traces: tuple[Trace, ...] = ()
        """Records of what happens; see :meth:`Engine.add_trace`."""

    def __len__(self) -> int:
        """Return the number of requests that have not ended."""
        return len(self._requests)

    def status(self, most: int) -> EngineStatus:
        """Return the state of at most ``most`` requests, in serving order, and of the KV blocks."""
        blocks = self._scheduler.block_manager
        return EngineStatus(
            requests=tuple(
                RequestStatus.of(
                    self._requests[sequence.id], self._scheduler.queues.prefill_seconds_left(sequence)
                )
                for sequence in self._scheduler.queues.in_serving_order(most)
            ),
            awaited_contexts=tuple(blocks.awaited_contexts),
            swapped_blocks=blocks.swapped_blocks,
            free_blocks=blocks.free_blocks - blocks.pool.eviction.expected,
            cached_blocks=blocks.cached_blocks - blocks.pool.eviction.expected,
        )

    def add(self, request: EngineRequest) -> None:
        """Add a new request. If too many wait, the least urgent one ends with :class:`OverloadedError`."""
        self._requests[request.sequence.id] = request
        shed = self._scheduler.add(request.sequence, self._now())
        if shed is not None:
            self._fail(
                self._requests[shed.id],
                OverloadedError(
                    f"{self._scheduler.policy.max_waiting} requests are waiting, and request "
                    f"{shed.request_id} is the least urgent. Try again later, or open the runtime with a "
                    "larger max_waiting_requests."
                ),
            )
        self._apply_memory_limit(request)

    def cancel(self, request: EngineRequest) -> None:
        """End a request in any state; without effect if it has ended."""
        if request.sequence.id in self._requests:
            self.counters["cancelled"] += 1
            self._finish(request, "cancelled")

    def expect_return(self, ended: tuple[EngineRequest, Collection[str]]) -> None:
        """Keep the KV blocks of a finished request, which has called these tools, for its next turn."""
        request, calls = ended
        if request.sequence.state is SequenceState.FINISHED:
            self._scheduler.expect_return(request.sequence, calls, self._now())

    def expire(self, now: float) -> None:
        """End the requests whose deadline has passed."""
        for sequence in self._scheduler.expire(now):
            self._fail(
                self._requests[sequence.id],
                DeadlineExceededError(
                    f"the deadline of request {sequence.request_id} passed before its answer was complete. "
                    "Allow more time, or ask for fewer tokens."
                ),
            )

    def mark_started(self, batch: Batch, now: float) -> None:
        """Note that the first kernel of ``batch`` starts."""
        for sequence in batch.sequences:
            request = self._requests[sequence.id]
            if request.started is None:
                request.started = now

    def fail_faulty(self, sequences: Iterable[Sequence], cause: Exception | None) -> None:
        """End the requests whose kernels failed too often with ``cause``, or hung if it is None."""
        for sequence in sequences:
            failure = EngineError(
                f"{sequence.faults} kernels of request {sequence.request_id} "
                f"{f'failed ({cause})' if cause else 'hung'}. Try it again; if others fail as well, "
                "close this runtime and open it again."
            )
            failure.__cause__ = cause
            self._fail(self._requests[sequence.id], failure)

    def apply_memory_limit(self) -> None:
        """Shorten or end the requests that no longer fit the memory left by hung kernels."""
        for request in list(self._requests.values()):
            self._apply_memory_limit(request)

    def fail_all(self, new_error: Callable[[], AgentRTError], not_added: Iterable[EngineRequest]) -> None:
        """End all requests, and those ``not_added`` yet, each with an error of its own."""
        for request in self._requests.values():
            self._scheduler.finish(request.sequence)
        for request in self._requests.values():
            self._trace(request, "failed")
        for request in (*self._requests.values(), *not_added):
            if not request.output.done():
                request.output.set_exception(new_error())
        self._requests.clear()

    def process_batch(self, batch: Batch, now: float) -> None:
        """Sample from the logits of a completed batch."""
        self.counters["steps"] += 1
        sampling: list[tuple[EngineRequest | None, ScheduledChunk]] = []
        first_rows: list[int] = []
        rows = 0
        logits, inputs = batch.context.logits, batch.context.inputs
        for chunk in batch.chunks:
            self.counters["computed_tokens"] += chunk.length + len(chunk.draft)
            # None: the request ended while the batch was running.
            request = self._requests.get(chunk.sequence.id)
            if chunk.prompt_rows and request is not None and request.drafter is not None:
                assert logits is not None
                assert inputs is not None
                begin = inputs.position_ids[inputs.sampled_rows[rows]]
                request.drafter.observe_prompt(begin, logits[rows : rows + chunk.prompt_rows])
            if chunk.samples:
                sampling.append((request, chunk))
                first_rows.append(rows + chunk.prompt_rows)
            rows += chunk.logits_rows
        if not sampling:
            return
        assert logits is not None
        samplers = [None if request is None else request.sampler for request, _ in sampling]
        tokens = sample_batch(samplers, logits if rows == len(first_rows) else logits[first_rows])
        for (request, chunk), first, token in zip(sampling, first_rows, tokens, strict=True):
            if request is None:
                continue
            if request.drafter is not None:
                request.drafter.observe(chunk.draft, logits[first : first + 1 + len(chunk.draft)])
            self._verify_draft(request, token, chunk, logits, first + 1, now)

    def _verify_draft(
        self,
        request: EngineRequest,
        token: int | Exception,
        chunk: ScheduledChunk,
        logits: Logits,
        row: int,
        now: float,
    ) -> None:
        """Append the sampled ``token``, then sample further ones for as long as they equal the draft.

        The rows of ``logits`` from ``row`` on are those after each draft token, then those of each branch.
        They are sampled from as if the tokens had been computed one by one, so that drafts change nothing but
        the number of forward passes. Where the draft differs, the first branch that does not goes on.
        """
        draft, branches = chunk.draft, dict[Branch, int]()
        behind = row + len(draft)
        for branch in chunk.branches:
            branches[branch], behind = behind, behind + len(branch.tokens)
        for position in itertools.count():
            if isinstance(token, Exception):
                self._fail(request, token)
                return
            path = (*draft[:position], token)
            if path != draft[: position + 1]:
                for other in [each for each in branches if each.tokens[: position + 1] == path][:1]:
                    self._scheduler.take_branch(request.sequence, list(branches), other)
                    draft, row = other.tokens, branches.pop(other)
            accepted = position < len(draft) and token == draft[position]
            self.counters["drafted_tokens"] += position < len(draft)
            self.counters["accepted_tokens"] += accepted
            if not self._append_token(request, token, now, computed=accepted):
                return
            if not accepted:
                self._draft(request)
                return
            (token,) = sample_batch([request.sampler], logits[row + position : row + position + 1])

    def _append_token(self, request: EngineRequest, token: int, now: float, *, computed: bool) -> bool:
        """Append a sampled token, emit its text, and end the request if this was its last.

        Returns:
            Whether the next token is to be sampled.
        """
        self.counters["sampled_tokens"] += 1
        sequence = request.sequence
        if request.first_token is None:
            request.first_token = now
            self.counters["cached_tokens"] += sequence.cached_tokens or 0
        sequence.tokens.append(token)
        if computed:
            self._scheduler.accept_draft_token(sequence)
        if token in request.end_tokens:
            if not self._answer_tool_turn(request, token):
                self._finish(request, "stop")
            return False
        text = request.answer.push(token)
        if text and not self._emit(request, text):
            return False
        if request.answer.stopped_by is not None or request.repeats_call:
            self._finish(request, "stop")
            return False
        if len(sequence.tokens) >= request.max_total_tokens:
            self._finish(request, "length")
            return False
        if request.drafter is not None:
            request.drafter.append(token)
        return True

    def _draft(self, request: EngineRequest) -> None:
        """Have the next decode of a request verify what its drafter drafts."""
        if request.drafter is not None:
            most = min(MAX_DRAFT_TOKENS, request.max_total_tokens - len(request.sequence.tokens) - 1)
            draft = request.drafter.draft().first(most)
            others = [each.first(most) for each in request.drafter.alternatives]
            self._scheduler.set_draft(request.sequence, draft, others)

    def _answer_tool_turn(self, request: EngineRequest, end: int) -> bool:
        """Answer the calls of a tool turn from the tool cache, if it has all their outputs (SpecTools, O3).

        Returns:
            Whether the sequence goes on, or the request has ended with an error of its listener.
        """
        if request.tool_cache is None:
            return False
        length = len(request.sequence.tokens)
        turn = request.tool_cache.answer_turn(end, request.turn_text, length)
        if turn is None or length + len(turn.reply.tokens) >= self._scheduler.usable_tokens:
            return False
        text = request.answer.close()
        if (text and not self._emit(request, text)) or not self._emit(request, turn):
            return True
        tokens = turn.reply.tokens
        self.counters["given_tokens"] += len(tokens)
        self.counters["answered_calls"] += len(turn.calls)
        for trace in self.traces:
            names = tuple(call.name for call in turn.calls)
            trace.record_answer(TracedAnswer(request.request_id, self._now(), names))
        self._scheduler.extend(request.sequence, tokens)
        request.extend_prompt(tokens, self._scheduler.usable_tokens)
        return True

    def _emit(self, request: EngineRequest, piece: str | ToolTurn) -> bool:
        """Read calls, and call the listener, if there is one. What raises ends its own request only.

        Returns:
            Whether the request goes on.
        """
        try:
            request.read_calls(piece)
            if request.listener is not None:
                request.listener(piece)
        except Exception as error:  # noqa: BLE001 - it becomes the output of this request
            self.counters["cancelled"] += 1
            self._remove(request, "cancelled")
            request.output.set_exception(error)
            return False
        return True

    def _apply_memory_limit(self, request: EngineRequest) -> None:
        if request.max_total_tokens <= self._scheduler.usable_tokens:
            return
        request.max_total_tokens = self._scheduler.usable_tokens
        if request.sequence.prompt_tokens >= request.max_total_tokens and not request.output.done():
            self._fail(
                request,
                PromptTooLongError(
                    request.sequence.prompt_tokens,
                    request.max_total_tokens,
                    "the part of the KV arena that hung kernels have left",
                    "close this runtime and open it again",
                ),
            )

    def _finish(self, request: EngineRequest, reason: StopReason) -> None:
        text = request.answer.close() if reason != "cancelled" else ""
        if text and not self._emit(request, text):
            return
        self._remove(request, reason)
        self.counters["finished"] += reason != "cancelled"
        request.finish(reason, self._now())

    def _fail(self, request: EngineRequest, error: Exception) -> None:
        """End one request with an error, without effect on the others."""
        self.counters["failed"] += 1
        self._remove(request, "failed")
        request.output.set_exception(error)

    def _remove(self, request: EngineRequest, outcome: str) -> None:
        self._scheduler.finish(request.sequence)
        del self._requests[request.sequence.id]
        self._trace(request, outcome)

    def _trace(self, request: EngineRequest, outcome: str) -> None:
        for trace in self.traces:
            sequence = request.sequence
            trace.record_request(
                TracedRequest(
                    request_id=request.request_id,
                    app=sequence.app,
                    reactive=sequence.priority is Priority.REACTIVE,
                    arrived=sequence.arrived,
                    started=request.started,
                    first_token=request.first_token,
                    ended=self._now(),
                    outcome=outcome,
                )
            )
