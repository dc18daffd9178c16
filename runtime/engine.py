"""The engine thread: drives the scheduler and the XPUs in real time, and tells each request what happened."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

from agentrt.errors import (
    AgentRTError,
    DeadlineExceededError,
    EngineFailedError,
    InvalidRequestError,
    KernelFailedError,
    OverloadedError,
    PromptTooLongError,
    RuntimeClosedError,
)
from agentrt.priority import Priority

from . import scheduler
from .context import BlockKeys
from .heg import Role
from .job import Job, OnText, StopReason
from .model import AnswerConstraint
from .sampling import Logits, SamplingParams, TokenSampler, sample_batch
from .scheduler import Pass, SequenceState, Slice, inputs_of
from .statistics import EngineStatistics
from .text import AnswerText
from .toolcache import ToolCacheProposer, ToolTurn
from .trace import Trace
from .xpu import KernelDone, Platform

_REST_AFTER_S: Final = 30.0
"""Checking and giving back memory take milliseconds, which the next request should not wait for."""

_Command: TypeAlias = tuple[Callable[[Any], None], Any]


class Engine:
    """Runs jobs on one platform until closed. What other threads may call says so.

    A kernel is never interrupted: whatever is asked takes effect when the one that is running has ended.
    """

    def __init__(
        self, platform: Platform, plan: scheduler.Scheduler, vocabulary_size: int, block_tokens: int
    ) -> None:
        """Take over ``platform`` and ``plan``, and start the thread."""
        self._platform = platform
        self._scheduler = plan
        self._vocabulary_size = vocabulary_size
        self._block_tokens = block_tokens
        # With one XPU there is nothing to do while it runs, and waiting for it here is the quickest way.
        self._alone = len(platform.xpus) == 1
        self._ids = itertools.count()
        self._commands: SimpleQueue[_Command | None] = SimpleQueue()
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()
        self._ended: RuntimeClosedError | EngineFailedError | None = None
        self._steps = self._kernels = self._computed = self._cached = self._sampled = 0
        self._drafted = self._accepted = self._given = 0
        self._finished = self._cancelled = self._failed = self._rebuilds = 0
        self._progress = platform.now()
        self._rested = False
        self.trace: Trace | None = None
        """Where every kernel is noted; may be set and taken away at any time, from any thread."""
        self._thread = threading.Thread(target=self._run, name="agentrt-engine", daemon=True)
        self._thread.start()

    def submit(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        priority: Priority,
        answer: AnswerText,
        *,
        end_tokens: frozenset[int],
        max_total_tokens: int,
        constraint: AnswerConstraint | None = None,
        on_text: OnText | None = None,
        arrived: float | None = None,
        deadline_s: float | None = None,
        prefix_salt: bytes | None = None,
        tool_cache: ToolCacheProposer | None = None,
    ) -> Job:
        """Queue a prompt and return at once; ``completion`` of the job is set when it has ended. Thread-safe.

        ``on_text`` is called on the engine thread with each piece of text and must not block. ``deadline_s``
        counts from ``arrived``. Prompts with equal ``prefix_salt`` share the blocks of a common beginning.

        Raises:
            InvalidRequestError: the prompt is empty.
            RuntimeClosedError, EngineFailedError: the engine no longer runs.
        """
        tokens = list(prompt)
        if not tokens:
            raise InvalidRequestError("prompt", "has no tokens. Give at least one.")
        arrived = self._platform.now() if arrived is None else arrived
        keys = None
        if prefix_salt is not None:
            keys = BlockKeys(prefix_salt, self._block_tokens)
            keys.of(tokens, len(tokens) // self._block_tokens)  # here, not on the engine thread
        sequence = scheduler.Sequence(
            next(self._ids),
            priority,
            tokens,
            keys,
            arrived,
            None if deadline_s is None else arrived + deadline_s,
        )
        job = Job(
            sequence,
            TokenSampler(params, self._vocabulary_size, tokens, constraint),
            answer,
            end_tokens=end_tokens,
            max_total_tokens=max_total_tokens,
            on_text=on_text,
            tool_cache=tool_cache,
        )
        with self._lock:
            if self._ended is not None:
                raise self._refusal()
            self._commands.put((self._add, job))
        return job

    def cancel(self, job: Job) -> None:
        """End ``job`` wherever it is; what it holds is free after the running kernel. Thread-safe."""
        if not job.completion.done():
            self._commands.put((self._cancel, job))

    def tool_wait(self, job: Job) -> None:
        """Hold on to the context of an ended ``job``: a turn that will follow when its tools are done.

        Thread-safe.
        """
        self._commands.put((self._tool_wait, job))

    def close(self) -> None:
        """Stop and free the XPUs; jobs that have not ended get :class:`RuntimeClosedError`. Thread-safe.

        May be called again.
        """
        self._end(
            RuntimeClosedError("the runtime was closed. Open it again with LocalRuntime.open to go on.")
        )
        self._commands.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def statistics(self) -> EngineStatistics:
        """Count what has happened so far. Cheap, and callable from any thread at any time."""
        busy = bool(self._jobs) or not self._commands.empty()
        return EngineStatistics(
            running=self._scheduler.running,
            waiting=self._scheduler.waiting,
            steps=self._steps,
            kernels=self._kernels,
            computed_tokens=self._computed,
            cached_tokens=self._cached,
            sampled_tokens=self._sampled,
            drafted_tokens=self._drafted,
            accepted_tokens=self._accepted,
            given_tokens=self._given,
            finished=self._finished,
            cancelled=self._cancelled,
            failed=self._failed,
            preemptions=self._scheduler.preemptions,
            evictions=self._scheduler.evictions,
            rebuilds=self._rebuilds,
            seconds_since_progress=self._platform.now() - self._progress if busy else 0.0,
        )

    # What follows runs on the engine thread, except _end.

    def _run(self) -> None:
        try:
            going_on = False
            while self._obey(wait=not going_on):
                going_on = self._advance()
        except BaseException as fault:  # noqa: BLE001 - whatever it was, those who wait must hear of it
            failure = EngineFailedError(
                f"the engine thread stopped on {type(fault).__name__}: {fault}. "
                "Close this runtime and open it again; please report the cause below."
            )
            failure.__cause__ = fault
            self._end(failure)
        self._stop()

    def _stop(self) -> None:
        """Free everything and tell everyone who waits."""
        self._platform.close()
        for role in self._scheduler.busy:
            self._scheduler.kernel_failed(role, hung=False)
        for job in self._jobs.values():
            self._scheduler.finish(job.sequence)
        self._release_dropped()
        while not self._commands.empty():
            command = self._commands.get()
            if command is not None and isinstance(job := command[1], Job):
                self._jobs.setdefault(job.sequence.id, job)
        for job in self._jobs.values():
            if not job.completion.done():
                job.completion.set_exception(self._refusal())
        self._jobs.clear()

    def _end(self, reason: RuntimeClosedError | EngineFailedError) -> None:
        """Refuse what is submitted from now on; the first reason stays."""
        with self._lock:
            self._ended = self._ended or reason

    def _refusal(self) -> RuntimeClosedError | EngineFailedError:
        """Why nothing runs any more, as an error of its own for each one who is told."""
        assert self._ended is not None
        refusal = type(self._ended)(*self._ended.args)
        refusal.__cause__ = self._ended.__cause__
        return refusal

    def _obey(self, *, wait: bool) -> bool:
        """Carry out what was asked meanwhile, or ``wait`` until something is due; False when closed."""
        commands = self._commands
        while wait or not commands.empty():
            try:
                command = commands.get(timeout=self._patience())
            except Empty:
                if not self._jobs and not self._rested:
                    self._rest()
                return True
            if command is None:
                return False
            if not self._jobs:
                self._progress = self._platform.now()
            act, what = command
            act(what)
            wait = False
        return True

    def _patience(self) -> float | None:
        """Seconds until something is due that no command will tell of."""
        if not self._jobs:
            return None if self._rested else _REST_AFTER_S
        due = self._scheduler.next_event()
        return None if due == float("inf") else max(0.0, due - self._platform.now())

    def _rest(self) -> None:
        """Use the time that nobody wants: give memory back that kernels will ask for again (§6.5)."""
        self._rested = True
        self._scheduler.check_integrity()
        self._platform.reclaim()

    def _advance(self) -> bool:
        """Start what may start; whether there is more to do before anybody says anything."""
        now = self._platform.now()
        plan = self._scheduler
        for sequence in plan.expired(now):
            self._fail(
                self._jobs[sequence.id],
                DeadlineExceededError(
                    "the request's deadline passed before its answer was complete. "
                    "Allow more time, or ask for fewer tokens."
                ),
            )
        decisions = plan.dispatch(now)
        self._release_dropped()
        for decision in decisions:
            context = decision.run.context
            if context.inputs is None:
                context.inputs = inputs_of(decision.run.slices)
                for sequence in decision.run.sequences:
                    job = self._jobs[sequence.id]
                    if job.started is None:
                        job.started = now
            xpu = self._platform.xpus[decision.role]
            if self._alone:
                done = xpu.run(decision.kernel, context, plan.patience(decision.cost))
                self._kernel_ended(done) if done is not None else self._kernel_hangs(decision.role)
            else:
                xpu.submit(decision.kernel, context, self._post)
        if not self._alone:
            for role in plan.overdue(self._platform.now()):
                self._kernel_hangs(role)
        return self._alone and bool(decisions)

    def _post(self, done: KernelDone) -> None:
        """Called on a thread of an XPU."""
        self._commands.put((self._kernel_ended, done))

    def _kernel_ended(self, done: KernelDone) -> None:
        if done.error is not None:
            self._kernel_failed(done.role, done.error)
            return
        self._kernels += 1
        self._progress = done.ended
        self._rested = False
        if (trace := self.trace) is not None:
            trace.note(done, self._scheduler.running_on(done.role))
        run = self._scheduler.kernel_done(done.role, done.ended)
        if run is not None:
            self._pass_through(run, done.ended)
            self._platform.release(run.context)

    def _kernel_hangs(self, role: Role) -> None:
        """Start the XPU of ``role`` afresh, and let the requests that were on it go on (Agent.xpu §6.5)."""
        self._rebuilds += 1
        self._platform.xpus[role].rebuild()
        self._give_up(self._scheduler.kernel_failed(role, hung=True), None)
        for job in [
            job for job in self._jobs.values() if job.max_total_tokens > self._scheduler.usable_tokens
        ]:
            self._fit(job)

    def _kernel_failed(self, role: Role, error: Exception) -> None:
        """Try again what failed, unless the device is gone."""
        if isinstance(error, AgentRTError) and not isinstance(error, EngineFailedError):
            raise error
        self._give_up(self._scheduler.kernel_failed(role, hung=False), error)

    def _give_up(self, sequences: list[scheduler.Sequence], cause: Exception | None) -> None:
        self._release_dropped()
        for sequence in sequences:
            failure = KernelFailedError(
                f"{sequence.faults} kernels {'failed' if cause else 'hung'} on this request"
                f"{f' ({cause})' if cause else ''}. Try it again; if others fail as well, close this runtime "
                "and open it again."
            )
            failure.__cause__ = cause
            self._fail(self._jobs[sequence.id], failure)

    def _release_dropped(self) -> None:
        for context in self._scheduler.take_dropped():
            self._platform.release(context)

    def _add(self, job: Job) -> None:
        self._jobs[job.sequence.id] = job
        shed = self._scheduler.arrive(job.sequence, self._platform.now())
        self._fit(job)
        if shed is not None:
            self._fail(
                self._jobs[shed.id],
                OverloadedError(
                    f"{self._scheduler.policy.max_waiting} requests wait already, and this one would be the "
                    "last. Try again later, or open the runtime with a larger max_waiting_requests."
                ),
            )

    def _fit(self, job: Job) -> None:
        """Shorten or end a job that the memory left by hung kernels cannot hold to its end."""
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

    def _cancel(self, job: Job) -> None:
        if job.sequence.id in self._jobs:
            self._cancelled += 1
            self._finish(job, "cancelled")

    def _tool_wait(self, job: Job) -> None:
        if job.sequence.state is SequenceState.FINISHED:
            self._scheduler.tool_wait(job.sequence, self._platform.now())

    def _pass_through(self, run: Pass, now: float) -> None:
        """Sample from a pass that is through."""
        self._steps += 1
        sampling: list[tuple[Job | None, Slice]] = []
        firsts: list[int] = []
        rows = 0
        for part in run.slices:
            self._computed += part.length + len(part.draft)
            if part.samples:
                # None: it ended while the pass was on its way.
                sampling.append((self._jobs.get(part.sequence.id), part))
                firsts.append(rows)
                rows += part.rows
        if not sampling:
            return
        logits = run.context.logits
        assert logits is not None
        samplers = [None if job is None else job.sampler for job, _ in sampling]
        tokens = sample_batch(samplers, logits if rows == len(firsts) else logits[firsts])
        for (job, part), first, token in zip(sampling, firsts, tokens, strict=True):
            if job is not None:
                self._verify(job, token, part.draft, logits[first + 1 : first + part.rows], now)

    def _verify(
        self, job: Job, token: int | Exception, draft: Sequence[int], logits: Logits, now: float
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
            self._drafted += place < len(draft)
            self._accepted += agrees
            if not self._take(job, token, now, computed=agrees) or not agrees:
                return
            (token,) = sample_batch([job.sampler], logits[place : place + 1])

    def _take(self, job: Job, token: int, now: float, *, computed: bool) -> bool:
        """Append a sampled token, pass its text on, and end the job if this was its last.

        Returns:
            Whether a token is to be sampled behind it.
        """
        self._sampled += 1
        sequence = job.sequence
        if job.first_token is None:
            job.first_token = now
            self._cached += sequence.cached_tokens or 0
        sequence.tokens.append(token)
        if computed:
            self._scheduler.accept(sequence)
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
            self._scheduler.propose(sequence, draft[: job.max_total_tokens - len(sequence.tokens) - 1])
        return True

    def _go_on_behind_tools(self, job: Job, end: int) -> bool:
        """Answer the calls of a turn from the tool cache, if it can be (SpecTools, O3)."""
        sequence = job.sequence
        turn = job.tool_cache and job.tool_cache.follow(end, job.turn_text, len(sequence.tokens))
        if not turn or len(sequence.tokens) + len(turn.reply.tokens) >= self._scheduler.usable_tokens:
            return False
        rest = job.answer.close()
        if job.on_text is not None and not ((not rest or self._tell(job, rest)) and self._tell(job, turn)):
            return True
        given = turn.reply.tokens
        self._given += len(given)
        self._scheduler.extend(sequence, given)
        job.begin_turn(given, self._scheduler.usable_tokens)
        return True

    def _tell(self, job: Job, text: str | ToolTurn) -> bool:
        """Hand something to the listener. A listener that raises ends its own job and nobody else's."""
        assert job.on_text is not None
        try:
            job.on_text(text)
        except Exception as error:  # noqa: BLE001 - it belongs to the one who waits for this job
            self._cancelled += 1
            self._remove(job)
            job.completion.set_exception(error)
            return False
        return True

    def _finish(self, job: Job, reason: StopReason) -> None:
        rest = job.answer.close() if reason != "cancelled" else ""
        if rest and job.on_text is not None and not self._tell(job, rest):
            return
        self._remove(job)
        self._finished += reason != "cancelled"
        job.complete(reason, self._platform.now())

    def _fail(self, job: Job, error: Exception) -> None:
        """End one job with an error; nobody else notices."""
        self._failed += 1
        self._remove(job)
        job.completion.set_exception(error)

    def _remove(self, job: Job) -> None:
        self._scheduler.finish(job.sequence)
        self._release_dropped()
        del self._jobs[job.sequence.id]
