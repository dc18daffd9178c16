"""The requests in the engine: what sampled tokens make of each, and how it ends."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Iterable

from agentrt.errors import (
    AgentRTError,
    DeadlineExceededError,
    KernelFailedError,
    OverloadedError,
    PromptTooLongError,
)

from ..scheduler.batch import Batch, ScheduledChunk
from ..scheduler.scheduler import Scheduler
from ..scheduler.sequence import Sequence, SequenceState
from ..toolcache.tool_turn import ToolTurn
from .request import EngineRequest, StopReason
from .sampler import Logits, sample_batch


class OutputProcessor:
    """Every request that has not ended, by the number of its sequence. Belongs to the engine thread."""

    def __init__(self, plan: Scheduler, now: Callable[[], float]) -> None:
        """No request has come yet. ``now`` is the platform's clock."""
        self._scheduler = plan
        self._now = now
        self._jobs: dict[int, EngineRequest] = {}
        # What EngineStatistics tells of them.
        self.steps = self.computed = self.cached = self.sampled = 0
        self.drafted = self.accepted = self.given = 0
        self.finished = self.cancelled = self.failed = 0

    def __len__(self) -> int:
        """How many have not ended."""
        return len(self._jobs)

    def add(self, job: EngineRequest) -> None:
        """Let a new request in; whoever is shed for it gets an :class:`OverloadedError`."""
        self._jobs[job.sequence.id] = job
        shed = self._scheduler.add(job.sequence, self._now())
        if shed is not None:
            self._fail(
                self._jobs[shed.id],
                OverloadedError(
                    f"{self._scheduler.policy.max_waiting} requests wait already, and this one would be the "
                    "last. Try again later, or open the runtime with a larger max_waiting_requests."
                ),
            )
        self._fit(job)

    def cancel(self, job: EngineRequest) -> None:
        """End a request wherever it is; without effect if it has ended."""
        if job.sequence.id in self._jobs:
            self.cancelled += 1
            self._finish(job, "cancelled")

    def tool_wait(self, job: EngineRequest) -> None:
        """Hold the context of a request that has ended: its next turn comes when its tools are done."""
        if job.sequence.state is SequenceState.FINISHED:
            self._scheduler.hold_for_next_turn(job.sequence, self._now())

    def expire(self, now: float) -> None:
        """End those whose deadline has passed."""
        for sequence in self._scheduler.expire(now):
            self._fail(
                self._jobs[sequence.id],
                DeadlineExceededError(
                    "the request's deadline passed before its answer was complete. "
                    "Allow more time, or ask for fewer tokens."
                ),
            )

    def begin(self, batch: Batch, now: float) -> None:
        """Note that the first kernel of ``run`` starts."""
        for sequence in batch.sequences:
            job = self._jobs[sequence.id]
            if job.started is None:
                job.started = now

    def give_up(self, sequences: Iterable[Sequence], cause: Exception | None) -> None:
        """End those under whom too many kernels have failed, of ``cause``, or hung, if there is none."""
        for sequence in sequences:
            failure = KernelFailedError(
                f"{sequence.faults} kernels {'failed' if cause else 'hung'} on this request"
                f"{f' ({cause})' if cause else ''}. Try it again; if others fail as well, close this runtime "
                "and open it again."
            )
            failure.__cause__ = cause
            self._fail(self._jobs[sequence.id], failure)

    def fit(self) -> None:
        """Shorten or end those that the memory left by hung kernels cannot hold to their end."""
        for job in list(self._jobs.values()):
            self._fit(job)

    def refuse(self, refusal: Callable[[], AgentRTError], unheard: Iterable[EngineRequest]) -> None:
        """End all, and those who are ``unheard`` as yet: nothing runs any more."""
        for job in self._jobs.values():
            self._scheduler.finish(job.sequence)
        for job in (*self._jobs.values(), *unheard):
            if not job.completion.done():
                job.completion.set_exception(refusal())
        self._jobs.clear()

    def process(self, batch: Batch, now: float) -> None:
        """Sample from a pass that is through."""
        self.steps += 1
        sampling: list[tuple[EngineRequest | None, ScheduledChunk]] = []
        firsts: list[int] = []
        rows = 0
        for chunk in batch.chunks:
            self.computed += chunk.length + len(chunk.draft)
            if chunk.samples:
                # None: it ended while the pass was on its way.
                sampling.append((self._jobs.get(chunk.sequence.id), chunk))
                firsts.append(rows)
                rows += chunk.logits_rows
        if not sampling:
            return
        logits = batch.context.logits
        assert logits is not None
        samplers = [None if job is None else job.sampler for job, _ in sampling]
        tokens = sample_batch(samplers, logits if rows == len(firsts) else logits[firsts])
        for (job, chunk), first, token in zip(sampling, firsts, tokens, strict=True):
            if job is not None:
                self._verify(job, token, chunk.draft, logits[first + 1 : first + chunk.logits_rows], now)

    def _verify(
        self, job: EngineRequest, token: int | Exception, draft: abc.Sequence[int], logits: Logits, now: float
    ) -> None:
        """Take a sampled ``token``, and those behind it as long as they are sampled as they were drafted.

        ``logits``, ``[draft, vocabulary]``, are those behind each drafted token. They are sampled from as if
        the tokens had come one by one, so that drafts change nothing but the number of passes.
        """
        for place in range(len(draft) + 1):
            if isinstance(token, Exception):
                self._fail(job, token)
                return
            agrees = place < len(draft) and token == draft[place]
            self.drafted += place < len(draft)
            self.accepted += agrees
            if not self._take(job, token, now, computed=agrees) or not agrees:
                return
            (token,) = sample_batch([job.sampler], logits[place : place + 1])

    def _take(self, job: EngineRequest, token: int, now: float, *, computed: bool) -> bool:
        """Append a sampled token, pass its text on, and end the job if this was its last.

        Returns:
            Whether a token is to be sampled behind it.
        """
        self.sampled += 1
        sequence = job.sequence
        if job.first_token is None:
            job.first_token = now
            self.cached += sequence.cached_tokens or 0
        sequence.tokens.append(token)
        if computed:
            self._scheduler.accept_draft_token(sequence)
        if token in job.end_tokens:
            if not self._go_on_behind_tools(job, token):
                self._finish(job, "stop")
            return False
        text = job.answer.push(token)
        if text and job.on_text is not None and not self._tell(job, text):
            return False
        if job.answer.stopped:
            self._finish(job, "stop")
            return False
        if len(sequence.tokens) >= job.max_total_tokens:
            self._finish(job, "length")
            return False
        if job.tool_cache is not None:
            draft = tuple(job.tool_cache.draft(token))
            self._scheduler.set_draft(sequence, draft[: job.max_total_tokens - len(sequence.tokens) - 1])
        return True

    def _go_on_behind_tools(self, job: EngineRequest, end: int) -> bool:
        """Answer the calls of a turn from the tool cache, if it can be (SpecTools, O3)."""
        sequence = job.sequence
        turn = job.tool_cache and job.tool_cache.answer_turn(end, job.turn_text, len(sequence.tokens))
        if not turn or len(sequence.tokens) + len(turn.reply.tokens) >= self._scheduler.usable_tokens:
            return False
        rest = job.answer.close()
        if job.on_text is not None and not ((not rest or self._tell(job, rest)) and self._tell(job, turn)):
            return True
        given = turn.reply.tokens
        self.given += len(given)
        self._scheduler.extend(sequence, given)
        job.begin_turn(given, self._scheduler.usable_tokens)
        return True

    def _tell(self, job: EngineRequest, text: str | ToolTurn) -> bool:
        """Hand something to the listener. A listener that raises ends its own job and nobody else's."""
        assert job.on_text is not None
        try:
            job.on_text(text)
        except Exception as error:  # noqa: BLE001 - it belongs to the one who waits for this job
            self.cancelled += 1
            self._remove(job)
            job.completion.set_exception(error)
            return False
        return True

    def _fit(self, job: EngineRequest) -> None:
        if job.max_total_tokens <= self._scheduler.usable_tokens:
            return
        job.max_total_tokens = self._scheduler.usable_tokens
        if job.sequence.prompt_tokens >= job.max_total_tokens and not job.completion.done():
            self._fail(
                job,
                PromptTooLongError(
                    job.sequence.prompt_tokens,
                    job.max_total_tokens,
                    "what hung kernels have left of the KV arena",
                    "Close this runtime and open it again.",
                ),
            )

    def _finish(self, job: EngineRequest, reason: StopReason) -> None:
        rest = job.answer.close() if reason != "cancelled" else ""
        if rest and job.on_text is not None and not self._tell(job, rest):
            return
        self._remove(job)
        self.finished += reason != "cancelled"
        job.complete(reason, self._now())

    def _fail(self, job: EngineRequest, error: Exception) -> None:
        """End one job with an error; nobody else notices."""
        self.failed += 1
        self._remove(job)
        job.completion.set_exception(error)

    def _remove(self, job: EngineRequest) -> None:
        self._scheduler.finish(job.sequence)
        del self._jobs[job.sequence.id]
