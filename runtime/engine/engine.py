"""The engine thread: drives the scheduler and the XPUs in real time."""

from __future__ import annotations

import functools
import itertools
import threading
from collections import abc
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

from agentrt.errors import AgentRTError, EngineFailedError, InvalidRequestError, RuntimeClosedError
from agentrt.priority import Priority

from ..context.block_hashes import BlockHashes
from ..heg.kernel import Role
from ..scheduler.batch import inputs_of
from ..scheduler.scheduler import Scheduler
from ..scheduler.sequence import Sequence
from ..structured_output.grammar_matcher import GrammarMatcher
from ..toolcache.proposer import ToolCacheProposer
from ..xpu.protocol import KernelDone, Platform
from ..xpu.watchdog import LostThread
from .answer_text import AnswerText
from .output_processor import OutputProcessor
from .request import EngineRequest, OnText
from .sampler import SamplingParams, TokenSampler
from .statistics import EngineStatistics
from .trace import Trace

_REST_AFTER_S: Final = 30.0
"""Checking and giving back memory take milliseconds, which the next request should not wait for."""

_Command: TypeAlias = tuple[Callable[[Any], None], Any]


class Engine:
    """Runs jobs on one platform until closed. What other threads may call says so.

    A kernel is never interrupted: whatever is asked takes effect when the one that is running has ended.
    """

    def __init__(self, platform: Platform, plan: Scheduler, vocabulary_size: int, block_tokens: int) -> None:
        """Take over ``platform`` and ``plan``, and start the thread."""
        self._platform = platform
        self._scheduler = plan
        self._vocabulary_size = vocabulary_size
        self._block_tokens = block_tokens
        # With one XPU there is nothing to do while it runs, and waiting for it here is the quickest way.
        self._alone = len(platform.xpus) == 1
        self._ids = itertools.count()
        self._commands: SimpleQueue[_Command | None] = SimpleQueue()
        self._jobs = OutputProcessor(plan, platform.now)
        self._lock = threading.Lock()
        self._ended: RuntimeClosedError | EngineFailedError | None = None
        self._kernels = self._rebuilds = 0
        self._progress = platform.now()
        self._rested = False
        self.trace: Trace | None = None
        """Where every kernel is noted; may be set and taken away at any time, from any thread."""
        self._stopped = threading.Event()
        self._start()

    def submit(
        self,
        prompt: abc.Sequence[int],
        params: SamplingParams,
        priority: Priority,
        answer: AnswerText,
        *,
        end_tokens: frozenset[int],
        max_total_tokens: int,
        constraint: GrammarMatcher | None = None,
        on_text: OnText | None = None,
        arrived: float | None = None,
        deadline_s: float | None = None,
        prefix_salt: bytes | None = None,
        tool_cache: ToolCacheProposer | None = None,
    ) -> EngineRequest:
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
            keys = BlockHashes(prefix_salt, self._block_tokens)
            keys.compute(tokens, len(tokens) // self._block_tokens)  # here, not on the engine thread
        sequence = Sequence(
            next(self._ids),
            priority,
            tokens,
            keys,
            arrived,
            None if deadline_s is None else arrived + deadline_s,
        )
        job = EngineRequest(
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
            self._commands.put((self._jobs.add, job))
        return job

    def cancel(self, job: EngineRequest) -> None:
        """End ``job`` wherever it is; what it holds is free after the running kernel. Thread-safe."""
        if not job.completion.done():
            self._commands.put((self._jobs.cancel, job))

    def tool_wait(self, job: EngineRequest) -> None:
        """Hold on to the context of an ended ``job``: a turn that will follow when its tools are done.

        Thread-safe.
        """
        self._commands.put((self._jobs.tool_wait, job))

    def close(self) -> None:
        """Stop and free the XPUs; jobs that have not ended get :class:`RuntimeClosedError`. Thread-safe.

        May be called again.
        """
        self._end(
            RuntimeClosedError("the runtime was closed. Open it again with LocalRuntime.open to go on.")
        )
        self._commands.put(None)
        if threading.current_thread() is not self._thread:
            self._stopped.wait()  # which thread it will be is not said yet
            self._thread.join()

    def statistics(self) -> EngineStatistics:
        """Count what has happened so far. Cheap, and callable from any thread at any time."""
        jobs = self._jobs
        busy = bool(jobs) or not self._commands.empty()
        return EngineStatistics(
            running=self._scheduler.num_running,
            waiting=self._scheduler.num_waiting,
            steps=jobs.steps,
            kernels=self._kernels,
            computed_tokens=jobs.computed,
            cached_tokens=jobs.cached,
            sampled_tokens=jobs.sampled,
            drafted_tokens=jobs.drafted,
            accepted_tokens=jobs.accepted,
            given_tokens=jobs.given,
            finished=jobs.finished,
            cancelled=jobs.cancelled,
            failed=jobs.failed,
            preemptions=self._scheduler.preemptions,
            evictions=self._scheduler.evictions,
            rebuilds=self._rebuilds,
            seconds_since_progress=self._platform.now() - self._progress if busy else 0.0,
        )

    def _start(self, hung: Role | None = None) -> None:
        """Start the engine thread, or another one after one was lost to the kernel on ``hung``."""
        self._thread = threading.Thread(target=self._run, args=(hung,), name="agentrt-engine", daemon=True)
        self._thread.start()

    # What follows runs on the engine thread, except _end.

    def _run(self, hung: Role | None) -> None:
        try:
            going_on = hung is not None and self._ended is None
            if hung is not None and going_on:
                self._kernel_hangs(hung)
            while self._obey(wait=not going_on):
                going_on = self._advance()
        except LostThread:
            return  # another thread has taken over everything
        except BaseException as fault:  # noqa: BLE001 - whatever it was, those who wait must hear of it
            failure = EngineFailedError(
                f"the engine thread stopped on {type(fault).__name__}: {fault}. "
                "Close this runtime and open it again; please report the cause below."
            )
            failure.__cause__ = fault
            self._end(failure)
        try:
            self._stop()
        finally:
            self._stopped.set()

    def _stop(self) -> None:
        """Free everything and tell everyone who waits."""
        self._platform.close()
        for role in self._scheduler.busy_roles:
            self._scheduler.fail_kernel(role, hung=False)
        unheard: list[EngineRequest] = []
        while not self._commands.empty():
            command = self._commands.get()
            if command is not None and isinstance(job := command[1], EngineRequest):
                unheard.append(job)
        self._jobs.refuse(self._refusal, unheard)
        self._release_dropped()

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
                if not self._jobs and not self._rested and not self._scheduler.busy_roles:
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
        due = self._scheduler.next_timeout()
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
        self._jobs.expire(now)
        decisions = plan.schedule(now)
        self._release_dropped()
        for decision in decisions:
            context = decision.batch.context
            if context.inputs is None:
                context.inputs = inputs_of(decision.batch.chunks)
                self._jobs.begin(decision.batch, now)
            xpu = self._platform.xpus[decision.role]
            if self._alone:
                lost = functools.partial(self._start, decision.role)
                done = xpu.run(decision.kernel, context, plan.hang_timeout_s(decision.cost), lost)
                self._kernel_ended(done) if done is not None else self._kernel_hangs(decision.role)
            else:
                xpu.submit(decision.kernel, context, self._post)
        overdue = [] if self._alone else plan.hung_kernels(self._platform.now())
        for role in overdue:
            self._kernel_hangs(role)
        return bool(overdue or (self._alone and decisions))

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
            trace.note(done, self._scheduler.batch_on(done.role))
        batch = self._scheduler.complete_kernel(done.role, done.ended)
        if batch is not None:
            self._jobs.process(batch, done.ended)
            self._platform.release(batch.context)

    def _kernel_hangs(self, role: Role) -> None:
        """Start the XPU of ``role`` afresh, and let the requests that were on it go on (Agent.xpu §6.5)."""
        self._rebuilds += 1
        self._platform.xpus[role].rebuild()
        self._jobs.give_up(self._scheduler.fail_kernel(role, hung=True), None)
        self._jobs.fit()

    def _kernel_failed(self, role: Role, error: Exception) -> None:
        """Try again what failed, unless the device is gone."""
        if isinstance(error, AgentRTError) and not isinstance(error, EngineFailedError):
            raise error
        self._jobs.give_up(self._scheduler.fail_kernel(role, hung=False), error)

    def _release_dropped(self) -> None:
        for context in self._scheduler.take_dropped_contexts():
            self._platform.release(context)
