"""The engine thread: drives the scheduler and the model, and tells each request what happened to it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Literal, TypeAlias

from agentrt.errors import EngineFailedError, RuntimeClosedError
from agentrt.priority import Priority

from . import scheduler
from .forward import ForwardPass
from .model import AnswerConstraint
from .sampling import SamplingParams, TokenSampler, sample_batch
from .text import AnswerText

OnText: TypeAlias = Callable[[str], None]
StopReason: TypeAlias = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Completion:
    """What became of one request. Times are seconds since it arrived."""

    text: str
    token_ids: tuple[int, ...]
    """Every sampled token, also one that ended the answer."""
    stop_reason: StopReason
    prompt_tokens: int
    queued_s: float
    time_to_first_token_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """A snapshot of the engine. Counters only grow."""

    running: int
    """Sequences that hold KV blocks."""
    waiting: int
    """Sequences that hold none yet."""
    steps: int
    """Forward passes."""
    computed_tokens: int
    """Tokens that went through the model, prompts and recomputation included."""
    sampled_tokens: int
    finished: int
    cancelled: int
    preemptions: int
    seconds_since_progress: float
    """Time since the last forward pass ended, 0 while there is nothing to do: the measure of health."""


class Job:
    """One submitted request. The engine thread owns everything but :attr:`completion`."""

    def __init__(
        self,
        sequence: scheduler.Sequence,
        sampler: TokenSampler,
        answer: AnswerText,
        *,
        end_tokens: frozenset[int],
        max_total_tokens: int,
        on_text: OnText | None,
        arrived: float,
    ) -> None:
        """``max_total_tokens`` bounds prompt and answer together; ``arrived`` is a perf_counter time."""
        self.completion: Future[Completion] = Future()
        # From the start, so that nobody but the engine can decide how it ends.
        self.completion.set_running_or_notify_cancel()
        self.sequence = sequence
        self.sampler = sampler
        self.answer = answer
        self.end_tokens = end_tokens
        self.max_total_tokens = max_total_tokens
        self.on_text = on_text
        self.arrived = arrived
        self.started: float | None = None
        self.first_token: float | None = None


class Engine:
    """Runs jobs on one model until closed. :meth:`submit`, :meth:`cancel` and :meth:`close` are thread-safe.

    A step of the model is never interrupted, so that whatever is asked takes effect within one step.
    """

    def __init__(self, forward: ForwardPass, plan: scheduler.Scheduler, vocabulary_size: int) -> None:
        """Take over ``forward`` and ``plan``, and start the thread."""
        self._forward = forward
        self._scheduler = plan
        self._vocabulary_size = vocabulary_size
        self._ids = itertools.count()
        self._commands: SimpleQueue[tuple[Callable[[Job], None], Job] | None] = SimpleQueue()
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()
        self._ended: RuntimeClosedError | EngineFailedError | None = None
        self._steps = self._computed = self._sampled = self._finished = self._cancelled = 0
        self._progress = time.perf_counter()
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
    ) -> Job:
        """Queue a prompt and return at once; ``completion`` of the job is set when it has ended.

        ``on_text`` is called on the engine thread with each piece of text and must not block.

        Raises:
            RuntimeClosedError, EngineFailedError: the engine no longer runs.
        """
        job = Job(
            scheduler.Sequence(next(self._ids), priority, list(prompt)),
            TokenSampler(params, self._vocabulary_size, prompt, constraint),
            answer,
            end_tokens=end_tokens,
            max_total_tokens=max_total_tokens,
            on_text=on_text,
            arrived=time.perf_counter() if arrived is None else arrived,
        )
        with self._lock:
            if self._ended is not None:
                raise self._refusal()
            self._commands.put((self._add, job))
        return job

    def cancel(self, job: Job) -> None:
        """End ``job`` wherever it is; its blocks and its place in the batch are free before the next step."""
        if not job.completion.done():
            self._commands.put((self._cancel, job))

    def close(self) -> None:
        """Stop the thread; jobs that have not ended get :class:`RuntimeClosedError`. May be called again."""
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
            computed_tokens=self._computed,
            sampled_tokens=self._sampled,
            finished=self._finished,
            cancelled=self._cancelled,
            preemptions=self._scheduler.preemptions,
            seconds_since_progress=time.perf_counter() - self._progress if busy else 0.0,
        )

    # What follows runs on the engine thread, except _end.

    def _run(self) -> None:
        try:
            while self._obey():
                step = self._scheduler.plan()
                if step:
                    self._execute(step)
        except BaseException as fault:  # noqa: BLE001 - whatever it was, those who wait must hear of it
            failure = EngineFailedError(
                f"the engine thread stopped on {type(fault).__name__}: {fault}. "
                "Close this runtime and open it again; please report the cause below."
            )
            failure.__cause__ = fault
            self._end(failure)
        while not self._commands.empty():
            command = self._commands.get()
            if command is not None:
                self._jobs.setdefault(command[1].sequence.id, command[1])
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

    def _obey(self) -> bool:
        """Carry out what was asked since the last step, waiting for something to do; False when closed."""
        commands = self._commands
        if not self._jobs:
            self._scheduler.check_integrity()
        while not self._jobs or not commands.empty():
            command = commands.get()
            if command is None:
                return False
            act, job = command
            if not self._jobs:
                self._progress = time.perf_counter()
            act(job)
        return True

    def _add(self, job: Job) -> None:
        self._jobs[job.sequence.id] = job
        self._scheduler.add(job.sequence)

    def _cancel(self, job: Job) -> None:
        if job.sequence.id in self._jobs:
            self._cancelled += 1
            self._finish(job, "cancelled")

    def _execute(self, step: list[scheduler.Slice]) -> None:
        begun = time.perf_counter()
        logits = self._forward.run(step)
        self._scheduler.commit(step)
        now = time.perf_counter()
        self._steps += 1
        self._progress = now
        sampling: list[Job] = []
        for sequence, count, samples in step:
            job = self._jobs[sequence.id]
            if job.started is None:
                job.started = begun
            self._computed += count
            if samples:
                sampling.append(job)
        if not sampling:
            return
        tokens = sample_batch([job.sampler for job in sampling], logits)
        self._sampled += len(tokens)
        for job, token in zip(sampling, tokens, strict=True):
            self._take(job, token, now)

    def _take(self, job: Job, token: int, now: float) -> None:
        """Append a sampled token, pass its text on, and end the job if this was its last."""
        if job.first_token is None:
            job.first_token = now
        sequence = job.sequence
        sequence.tokens.append(token)
        if token in job.end_tokens:
            self._finish(job, "stop")
            return
        text = job.answer.push(token)
        if text and job.on_text is not None and not self._tell(job, text):
            return
        if job.answer.stopped:
            self._finish(job, "stop")
        elif len(sequence.tokens) >= job.max_total_tokens:
            self._finish(job, "length")

    def _tell(self, job: Job, text: str) -> bool:
        """Hand text to the listener. A listener that raises ends its own job and nobody else's."""
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
        now = time.perf_counter()
        sequence = job.sequence
        job.completion.set_result(
            Completion(
                text=job.answer.text,
                token_ids=tuple(sequence.tokens[sequence.prompt_tokens :]),
                stop_reason=reason,
                prompt_tokens=sequence.prompt_tokens,
                queued_s=(job.started or now) - job.arrived,
                time_to_first_token_s=(job.first_token or now) - job.arrived,
                total_s=now - job.arrived,
            )
        )

    def _remove(self, job: Job) -> None:
        self._scheduler.finish(job.sequence)
        del self._jobs[job.sequence.id]
